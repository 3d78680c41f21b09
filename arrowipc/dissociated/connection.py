"""The interface of transports: one end of a connection for tagged and untagged messages, which never waits.

Readers and servers decide when to wait and for what; transports only do what is possible without waiting.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc.arguments import Initialized, described
from arrowipc.dissociated.protocol import NUMBERS, WITH_BODY, BodyType, body_tag, metadata_prefix
from arrowipc.errors import UsageError
from arrowipc.reader import Closing

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.memory.address_pairs import Pairs
    from arrowipc.limits import Limits

#: Takes a message and the memory of its body; returns the ranges (start, end) of it that will be read; None: all.
Reads = Callable[["Message", Any], Sequence[tuple[int, int]] | None]

#: Seconds that a client waits for its server by default while nothing arrives.
TIMEOUT = 60.0
#: Advice for errors, in case that the server is only slow.
LONGER = " (timeout= waits longer, None for ever)"
#: Bytes per second that a peer must send at least, for transports that do not report how much of a body has arrived.
SLOWEST = 1 << 20
#: Milliseconds of one call of `poll`, which takes a C int.
LONGEST_POLL = 1 << 30


class Frame(NamedTuple):
    """A message that has arrived."""

    tag: int | None  #: None: untagged
    data: Any  #: bytes-like
    handles: tuple[int, ...] = ()  #: file descriptors that came with it; the receiver must close them


class Connection(Closing, Initialized, ABC):
    """One end of a connection."""

    #: Seconds after which to call `progress` even if `fileno` is not readable: some libraries do not report everything.
    poll_interval: float = math.inf

    def __init__(self, name: str) -> None:
        self.name = name  # of the peer, for errors
        #: Callers of `send`, `progress` and `receive` must hold it if they are in more than one thread.
        self.lock: threading.RLock = threading.RLock()
        #: Other messages follow soon: `send` may hold messages back until `uncork`.
        self.corked: bool = False
        #: A count that grows whenever something arrives.
        self.arrived: int = 0
        self._inbox: deque[Frame] = deque()
        self._ended = False  # the peer is gone
        self._closed = False

    def _count_arrived(self, count: int = 1) -> None:
        """Count bytes that arrived, or messages if the transport reports only these."""
        self.arrived += count

    @abstractmethod
    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        """Queue a message, and send as much as possible without waiting.

        The stretches are the consecutive parts of the message; they must not change as long as
        `unsent` counts them. Until then the handles must stay open; the caller closes them.
        """

    def send_messages(self, number: int, messages: list[Message], role: str = "both") -> None:
        """Send messages of a stream, numbered from `number` on: metadata ("meta"), packed bodies ("data"), or both."""
        for message in messages:
            if role != "data":
                self.send(None, [metadata_prefix(number), message.metadata])
            if role != "meta" and message.kind in WITH_BODY:
                self.send(body_tag(number, BodyType.PACKED), message.stretches)
            number = (number + 1) % NUMBERS

    def uncork(self) -> None:
        """Send the messages that were held back while `corked` was true; later ones are sent at once."""
        self.corked = False

    @property
    @abstractmethod
    def unsent(self) -> int:
        """Bytes that wait to be sent."""

    @abstractmethod
    def progress(self) -> None:
        """Send and receive as much as possible without waiting."""

    def receive(self) -> Frame | None:
        """Return the next message that has arrived, or None."""
        return self._inbox.popleft() if self._inbox else None

    def receive_run(self, number: int) -> list[Message]:
        """Return the next complete messages, from `number` on; if the list is empty, `receive` returns the next part.

        Only for a stream whose metadata and bodies both come over this connection.
        """
        return []

    def expect(self, number: int | None) -> None:  # most transports receive in order of arrival
        """Say which message waits for its body; a transport that can search for a body receives this one first.

        The number is the low 32 bits of the body's tag.
        """

    @property
    def at_end(self) -> bool:
        """Whether the peer is gone, and everything that it sent was received."""
        return (self._ended or self._closed) and not self._inbox

    @property
    def reason(self) -> int | None:
        """Why the peer ended the connection (`protocol.Reason`), if the transport reports it."""
        return None

    def refuse(self, reason: int) -> None:  # only transports with arrowipc's own framing have a message for it
        """Send the reason why the connection will be closed, if that is possible without waiting."""

    @property
    def arriving(self) -> int:
        """Bytes of a message of which only a part has arrived; 0 if there is none."""
        return 0

    @property
    def allowance(self) -> float:
        """Seconds more to wait for a message, for transports that do not report how much of it has arrived."""
        return 0.0

    def interrupt(self) -> None:  # transports implement it
        """Wake the thread that waits for `fileno`, from any thread; nothing needs to be received after that."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to wait on with `select.poll`, after `prepare_wait`."""

    def prepare_wait(self) -> bool:
        """Get ready to wait on `fileno`; return False if there is something to do already."""
        return True

    @property
    def wants_write(self) -> bool:
        """Whether to wait also until `fileno` is writable, because messages are unsent."""
        return False

    def push(self) -> None:
        """Send as much as possible without waiting, and receive nothing: for a second thread.

        A transport that cannot send without receiving has to wake the thread that waits for its `fileno`: otherwise
        that thread would not see a message received here before the next one arrives.
        """
        self.progress()

    @abstractmethod
    def close(self) -> None:
        """End the connection; unsent messages are lost. Further calls do nothing."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything is sent; receiving is left to the other thread."""
        deadline = Deadline(timeout)
        while True:
            with self.lock:
                self.push()
                if not self.unsent:
                    return
                if self.at_end:
                    raise ConnectionResetError(f"{self.name} closed the connection before it read everything")
            wait([self], deadline, f"{self.name} to take what is sent to it", sending=True)


class Listener(ABC):
    """The interface of transports for waiting for clients."""

    @abstractmethod
    def accept(self) -> Connection | None:
        """Return a connection to the next client; None if no client is waiting."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to wait on with `select.poll` for the next client."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more clients; existing connections stay open."""


class PeerMemory(ABC):
    """A client's access to memory of its server (body type 1)."""

    def accept(self, handles: Sequence[int], body: Any) -> None:
        """Take the file descriptors that came with a body, and close them."""
        for handle in handles:
            os.close(handle)

    @abstractmethod
    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        """Return a message whose body is the memory at the pairs' addresses.

        `returned` is called once with the addresses of the pairs when the memory is no longer used, in any thread;
        if bytes are copied, before this method returns. `reads` says which bytes have to be copied.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Release the memory; arrays that use it stay readable."""


class Placed(NamedTuple):
    """A body that a server put into memory that its client can read."""

    pairs: bytes  #: the body of type 1
    addresses: Sequence[int]  #: the leases that the client gets, one per pair that is not empty
    handles: Sequence[int] = ()  #: file descriptors to send along


class OfferedMemory(ABC):
    """A server's memory that clients may read by themselves (body type 1)."""

    #: The `remote_handle` of the server's URI; None: clients get access with the bodies.
    remote_handle: bytes | None = None
    #: Whether `hold` moves bodies into this memory.
    holds: bool = False

    def stored(self, path: str) -> Any:
        """Return the object to open for the file at `path`, if its bodies are in this memory; else the path."""
        return path

    @abstractmethod
    def place(self, message: Message, connection: Connection) -> Placed | None:
        """Put a body where the client at the other end can read it; None if it has to be sent."""

    def hold(self, messages: Iterable[Message], sparing: bool = False) -> list[Message]:
        """Return the same messages with their bodies in this memory, so that `place` does not copy them.

        A body stays there as long as its message, or anything decoded from it, exists. `sparing`: only bodies that
        would not be sent, within `capacity`. OSError: there is no room. By default, return the messages as they are.
        """
        return list(messages)

    @abstractmethod
    def release(self, addresses: Sequence[int]) -> None:
        """Take back leases that a client has ended: their memory may be used again."""

    @abstractmethod
    def abandon(self, addresses: Sequence[int]) -> None:
        """Take back leases of a client that is gone. It may still read, so the memory is not used again."""

    def close(self) -> None:  # noqa: B027 - most have nothing to take back
        """Offer no more memory; clients can still read what they hold."""


def seconds(name: str, value: Any) -> float | None:
    """Check a number of seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= threading.TIMEOUT_MAX:
        raise UsageError(f"{name}: expected seconds, more than 0, or None, found {described(value)}")
    return float(value)


class Deadline:
    """A point in time at which waiting ends, or never."""

    def __init__(self, timeout: float | None, more: float = 0.0) -> None:
        self.timeout: float = math.inf if timeout is None else timeout + more
        self._at = time.monotonic() + self.timeout

    @property
    def left(self) -> float:
        """Seconds until the deadline, not below 0; infinity if there is none."""
        return max(0.0, self._at - time.monotonic())

    def check(self, for_what: str) -> None:
        """Raise TimeoutError if the deadline has passed."""
        if self.left == 0:
            raise TimeoutError(f"waited {self.timeout:g} s for {for_what}")


def registered(owner: object, make: Callable[..., int], *arguments: Any) -> tuple[int, weakref.finalize[Any, Any]]:
    """Make a descriptor; return it and a finaliser of `owner` that closes it, which is registered before it is made."""
    made: list[int] = []
    end = weakref.finalize(owner, list, map(os.close, made))
    end.atexit = False
    made.extend(map(make, *zip(arguments)))  # making and closing are one C call each: no interrupt comes in between
    return made[0], end


class Alarm:
    """A descriptor that becomes readable, and stays so: it ends the waiting of any number of threads."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._process = os.getpid()
        self.is_ringing: bool = False

    def ring(self) -> None:
        """Wake all threads that wait, now or later; in a forked child, wake none."""
        if not self.is_ringing:
            self.is_ringing = True
            if self._process == os.getpid():
                self._writer.send(b"\0")  # closing the writer does not suffice: a forked child may have a copy

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close the descriptors; no thread may still be waiting."""
        self.is_ringing = True
        self._reader.close()
        self._writer.close()


def wait(
    connections: Sequence[Connection],
    deadline: Deadline,
    for_what: str,
    *,
    alarm: Alarm | None = None,
    sending: bool = False,
) -> None:
    """Wait until at least one of the connections can do something, or the alarm rings.

    With `sending`, wait only for room to send, if the transport can tell: another thread receives.
    """
    if not connections and alarm is None:
        return
    poll = select.poll()
    for connection in connections:
        only_write = sending and connection.wants_write
        descriptor = connection.fileno()
        if descriptor < 0 or not (only_write or connection.prepare_wait()):
            return deadline.check(for_what)
        writable = select.POLLOUT if connection.wants_write else 0
        poll.register(descriptor, writable if only_write else writable | select.POLLIN)
    if alarm is not None:
        poll.register(alarm.fileno(), select.POLLIN)
    interval = min((each.poll_interval for each in connections), default=math.inf)
    while True:
        seconds = min(interval, deadline.left)
        if poll.poll(None if seconds == math.inf else min(LONGEST_POLL, seconds * 1000)):
            return
        deadline.check(for_what)
        if seconds == interval:
            return


class Endpoint(NamedTuple):
    """A server's listener, the parts of its URI, and its memory."""

    listener: Listener
    scheme: str
    host: str
    port: int | None
    path: str
    #: None: bodies are always sent.
    memory: OfferedMemory | None
