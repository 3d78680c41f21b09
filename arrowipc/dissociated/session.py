"""One client of a server: its requests, one after another, and the memory that it holds."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arrowipc.dissociated.connection import Connection, Deadline, Frame, OfferedMemory, Placed
from arrowipc.dissociated.protocol import (
    BodyType,
    Leases,
    Outgoing,
    Reason,
    body_tag,
    check_offered_tag,
    metadata_prefix,
    parse_free_data,
)
from arrowipc.dissociated.served import Prepared, StoredFile, is_table, messages_of
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UsageError

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message

#: Streams that a client may ask for before the first one has ended, and bytes of their names together.
MOST_REQUESTS = 64
MOST_ASKED = 1 << 20
#: Seconds after which a session that waits for room checks again.
ROOM_INTERVAL = 0.02
#: Sources, besides tables, whose next message is available without waiting; bytes of their messages sent together.
AT_HAND = (list, tuple, Prepared, StoredFile)
SMALL = 1 << 17
#: Messages of a client that are taken in one step, so that a client that never stops does not keep the driver busy.
MOST_AT_ONCE = 1 << 12


class Roles:
    """The tags of a server: what a client asks for with each of them."""

    def __init__(self, tags: Mapping[int, str], free_data: int | None) -> None:
        for tag in tags if free_data is None else (*tags, free_data):
            check_offered_tag(tag)
        if free_data in tags:
            raise UsageError(f"free_data and want_data are the same tag, {free_data:#x}")
        self.tags: dict[int, str] = dict(tags)
        self.free_data = free_data


class Books:
    """The sums over all clients of a server; each session adds the changes for its own client.

    Adding up all sessions for each message would take most of the time if hundreds of clients wait for room.
    """

    def __init__(self) -> None:
        self.held: int = 0
        self.short: int = 0
        self._lock = threading.Lock()

    def add(self, held: int, short: int) -> None:
        """Add to the sums, from any thread."""
        with self._lock:
            self.held += held
            self.short += short


class Session:
    """One client's connection: serves its requests one after another, and takes memory back at any time.

    A session never waits: `step` does the work that needs no waiting, and its caller waits between the steps.
    """

    def __init__(
        self,
        connection: Connection,
        find: Any,
        roles: Roles,
        memory: OfferedMemory | None = None,
        options: Mapping[str, Any] | None = None,
        request_timeout: float | None = None,
        max_unsent: int = 64 << 20,
        max_asked: int = MOST_ASKED,
        has_room: Callable[[Session], bool] = lambda _: True,
        books: Books | None = None,
    ) -> None:
        self.connection = connection
        self.leases: Leases = Leases()
        self.ignored: int = 0
        self.reason: Reason | None = None
        self.is_dismissed: bool = False
        self._find = find
        self._roles = roles
        self._memory = memory
        self._max_unsent = max_unsent
        self._max_asked = max_asked
        self._has_room = has_room
        self._books = books or Books()
        self._entered = (0, False)  # the share of this client in the sums of `_books`
        self._waits_for_room = False
        self._asked_bytes = 0  # of the requests in the queue
        self._options = dict(options or {})
        self._queue: deque[tuple[str, bytes]] = deque()
        self._refused = False  # the client asked for an unknown stream
        self._unsent = 0  # `connection.unsent` at the last call of `begin_wait`
        self._request_timeout = request_timeout
        self._deadline = Deadline(request_timeout)  # for the first request, later for a message that arrives in parts
        self._asked = False
        self._is_arriving = False  # a part of a message has arrived
        self._is_waiting = False  # the driver waits, so another thread may dismiss the client
        self._moved = False  # the client did something
        self._since = time.monotonic()  # when the client last did something
        self._messages: Generator[Message, None, None] | None = None  # of the stream that is being sent
        self._is_at_hand = False  # whether the next message is available without waiting
        self._role = "both"
        self._outgoing = Outgoing()

    @property
    def is_busy(self) -> bool:
        """Whether a stream is being sent, or waits to be."""
        return self._messages is not None or bool(self._queue)

    @property
    def held(self) -> int:
        """int: bytes that the server keeps for the client: its requests, and data that it has not received yet."""
        return self.connection.unsent + self.connection.arriving + self._asked_bytes

    @property
    def is_short(self) -> bool:
        """Whether nothing can be sent because other clients hold all allowed bytes; no event reports new room."""
        return self._waits_for_room and not self.connection.unsent

    def step(self) -> bool | None:
        """Do the work that needs no waiting; return True to be called again, False after a wait, None at the end."""
        connection = self.connection
        with connection.lock:
            self._is_waiting = False
            if self.is_dismissed:
                return None
            self._receive()
            if connection.at_end:
                return None
            self._update_books(self.held, self.is_short)
            if self._messages is None and self._queue and not self._refused:
                role, ident = self._queue.popleft()
                self._asked_bytes -= len(ident)
                self._begin(role, ident)
            if self._refused:
                # The protocol's only answer is to close the connection, after everything asked for before was sent.
                return None if self._messages is None and not connection.unsent else False
            if self._messages is not None and connection.unsent < self._max_unsent:
                self._waits_for_room = not self._has_room(self)
                if not self._waits_for_room:
                    self._moved = True
                    try:
                        self._send_some(self._messages)
                    finally:
                        self._update_books(self.held, False)
                    return True
                self._update_books(self.held, self.is_short)
            connection.poll_interval = ROOM_INTERVAL if self.is_short else type(connection).poll_interval
        return False

    def _update_books(self, held: int, is_short: bool) -> None:
        """Update the sums of all clients with the state of this one."""
        before, self._entered = self._entered, (held, is_short)
        if before != self._entered:
            self._books.add(held - before[0], is_short - before[1])

    def _receive(self) -> None:
        """Handle the messages that the client has sent."""
        connection = self.connection
        came = False
        try:
            connection.progress()
            for _ in range(MOST_AT_ONCE):
                frame = connection.receive()
                if frame is None:
                    break
                came = True
                self._take(frame)
            if self._memory is None:  # else long messages may give memory back, and the client is of the same user
                self._check_asked(connection.arriving)
        except ArrowIpcError as error:
            self.reason = Reason.TOO_MUCH if isinstance(error, LimitError) else Reason.NOT_UNDERSTOOD
            raise
        is_arriving = connection.arriving > 0
        if self._asked and (came or is_arriving != self._is_arriving):
            self._deadline = Deadline(self._request_timeout if is_arriving else None)
        self._is_arriving = is_arriving

    # -- waiting --

    def begin_wait(self) -> tuple[Deadline, str]:
        """Mark the client as waiting; return until when it has to do something, and what, before the next step.

        Raises TimeoutError if that time is over.
        """
        unsent = self.connection.unsent
        if unsent != self._unsent:
            self._unsent = unsent
            self._moved = True
        if self._moved:
            self._moved = False
            self._since = time.monotonic()
        self._is_waiting = True
        strange = f", and its {self.ignored} messages had other tags than our URI" if self.ignored else ""
        what = "to send the rest of a message" if self._is_arriving else f"to ask for a stream{strange}"
        missing = f"{self.connection.name} {what}"
        self._deadline.check(missing)
        return self._deadline, missing

    @property
    def idleness(self) -> tuple[bool, float] | None:
        """Whether the client never asked for anything, and for how many seconds it did nothing.

        None while the client is being served.
        """
        if not self._is_waiting or self.is_dismissed or self.is_short:
            return None
        return not self._asked, time.monotonic() - self._since

    def dismiss(self) -> None:
        """Let the next step end the session, because another client needs its place; called from any thread."""
        self.reason = Reason.IDLE
        self.is_dismissed = True
        self.connection.interrupt()

    def _take(self, frame: Frame) -> None:
        tag, data, handles = frame
        for handle in handles:
            os.close(handle)
        if tag is None:
            raise FormatError(f"{self.connection.name} sent an untagged message: clients only send tagged ones")
        role = self._roles.tags.get(tag)
        if role is not None:
            if len(self._queue) >= MOST_REQUESTS:
                raise LimitError(f"{self.connection.name} asked for more than {MOST_REQUESTS} streams")
            self._check_asked(len(data))
            self._queue.append((role, bytes(data)))
            self._asked_bytes += len(data)
            self._asked = self._moved = True
        elif tag == self._roles.free_data:
            self._release(parse_free_data(data))
        else:
            self.ignored += 1

    def _check_asked(self, more: int) -> None:
        if self._asked_bytes + more > self._max_asked:
            raise LimitError(
                f"{self.connection.name} sent requests of {self._asked_bytes + more:,} bytes before the first of them "
                f"was served, and at most {self._max_asked:,} may wait"
            )

    def _release(self, addresses: tuple[int, ...]) -> None:
        ended = self.leases.release(addresses)
        self._moved = self._moved or bool(ended)
        if ended and self._memory is not None:
            self._memory.release(ended)

    def _begin(self, role: str, ident: bytes) -> None:
        """Start the stream of that name, or mark the request as refused."""
        try:
            source = self._find(ident)
        except BaseException:
            self.reason = Reason.FAILED
            raise
        if source is None:
            self._refused = True
            self.reason = Reason.UNKNOWN
            return
        self._role = role
        self._outgoing = Outgoing()
        self._is_at_hand = isinstance(source, AT_HAND) or is_table(source)
        if isinstance(source, Prepared):
            self._messages = source.messages(self._memory)
        else:
            self._messages = messages_of(source, **self._options)

    def _send_some(self, messages: Iterator[Message]) -> None:
        """Send the next message; if the next ones are available, as many small messages as are worth one system call.

        Not more, because memory that clients give back between the steps makes room for the next messages.
        """
        self.connection.corked = True
        run: list[Message] = []  # consecutive messages with packed bodies
        size = 0
        try:
            while size < SMALL and self._messages is not None:
                message = self._next_message(messages)
                if message is not None:
                    placed = self._place(message)
                    if placed is None:
                        run.append(message)
                    else:
                        self._send_run(run)
                        self._send_placed(message, placed)
                    size += len(message.metadata) + message.body_length
                if not self._is_at_hand:
                    break
            self._send_run(run)
            if self._messages is None and self._role != "data":
                self.connection.send(None, [self._outgoing.end()])
        finally:
            self._send_run(run)  # messages made before the source failed
            self.connection.uncork()

    def _next_message(self, messages: Iterator[Message]) -> Message | None:
        try:
            message = next(messages, None)
        except BaseException:
            self.reason = Reason.FAILED
            raise
        if message is None:
            self._messages = None
        return message

    def _send_run(self, run: list[Message]) -> None:
        if run:
            self.connection.send_messages(self._outgoing.number(len(run)), run, self._role)
            run.clear()

    def _place(self, message: Message) -> Placed | None:
        """Put a body into shared memory; return None if it has to be sent, or there is none.

        The leases count from here on, even if sending fails; `close` ends all of them.
        """
        if self._memory is None or self._roles.free_data is None or self._role == "meta" or not message.body_length:
            return None
        placed = self._memory.place(message, self.connection)
        if placed is not None:
            self.leases.grant(placed.addresses)
        return placed

    def _send_placed(self, message: Message, placed: Placed) -> None:
        number = self._outgoing.number()
        if self._role != "data":
            self.connection.send(None, [metadata_prefix(number), message.metadata])
        self.connection.send(body_tag(number, BodyType.PAIRS), [placed.pairs], placed.handles)

    def close(self, linger: float | None = None) -> None:
        """End the connection; memory that the client still holds is not used again."""
        messages, self._messages = self._messages, None
        try:
            self._say_why(linger)
            self.connection.close()
            if messages is not None:
                messages.close()
        finally:
            self._update_books(0, False)
            held = self.leases.abandon()
            if held and self._memory is not None:
                self._memory.abandon(held)

    def _say_why(self, linger: float | None) -> None:
        if self.reason is None or self.connection.at_end:
            return
        self.connection.refuse(self.reason)
        if linger is not None and self.reason is Reason.FAILED:
            with contextlib.suppress(OSError):
                self.connection.flush(linger)
