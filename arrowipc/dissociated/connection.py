"""One end of a connection, as every transport offers it: tagged and untagged messages, without waiting.

Readers and servers decide when to wait and for what; transports only ever do what goes at once.
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

from arrowipc.arguments import described
from arrowipc.dissociated.protocol import NUMBERS, WITH_BODY, BodyType, body_tag, metadata_prefix
from arrowipc.errors import UsageError
from arrowipc.reader import Closing

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.memory.address_pairs import Pairs
    from arrowipc.limits import Limits

#: Takes a message and the memory of its body; returns the (start, end) of what will be read of it; None: all.
Reads = Callable[["Message", Any], Sequence[tuple[int, int]] | None]

#: Seconds that a client waits for its server whenever nothing arrives, if it is not told otherwise.
TIMEOUT = 60.0
#: What helps if the server only takes long.
LONGER = " (timeout= waits longer, None for ever)"
#: Bytes in a second that a body has at least, if nothing tells how much of it came before all is there.
SLOWEST = 1 << 20
#: Milliseconds of one call of `poll`, which takes no more than a C int of them.
LONGEST_POLL = 1 << 30


class Frame(NamedTuple):
    """A message that arrived."""

    tag: int | None  #: None: untagged
    data: Any  #: bytes-like
    handles: tuple[int, ...] = ()  #: file descriptors that came with it; the receiver's from now on


class Connection(Closing, ABC):
    """One end of a connection."""

    #: Seconds after which to look although `fileno` tells of nothing: not every library tells of everything.
    poll_interval: float = math.inf

    def __init__(self, name: str) -> None:
        self.name = name  # of the peer, for errors
        #: Whoever calls `send`, `progress` or `receive` holds it, if more than one thread does.
        self.lock: threading.RLock = threading.RLock()
        #: Other messages follow at once: `send` may keep what it is given until `uncork`.
        self.corked: bool = False
        #: Grows whenever something arrives.
        self.arrived: int = 0
        self._inbox: deque[Frame] = deque()
        self._ended = False  # the peer is gone
        self._closed = False

    def _count_arrived(self, count: int = 1) -> None:
        """Count bytes that arrived, or messages where the transport tells of nothing else."""
        self.arrived += count

    @abstractmethod
    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        """Queue a message, and send what can be sent without waiting.

        The stretches are the consecutive parts of the message; they must not change as long as
        `unsent` counts them. The handles are borrowed until then.
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
        """Send what was kept while `corked` was true, and keep nothing from now on."""
        self.corked = False

    @property
    @abstractmethod
    def unsent(self) -> int:
        """Bytes that wait to be sent."""

    @abstractmethod
    def progress(self) -> None:
        """Send and receive as much as possible without waiting."""

    def receive(self) -> Frame | None:
        """Return the next message that arrived, or None: none so far."""
        return self._inbox.popleft() if self._inbox else None

    def receive_run(self, number: int) -> list[Message]:
        """Return the next complete messages, from `number` on; empty: use `receive` for the next one.

        For a stream whose metadata and bodies both come over this connection.
        """
        return []

    def expect(self, number: int | None) -> None:  # most take what comes, in its order
        """Say which message waits for its body; a transport that can look for it takes it first.

        Bodies are found by the low 32 bits of their tags.
        """

    @property
    def at_end(self) -> bool:
        """Whether the peer is gone, and everything that came from it was received."""
        return (self._ended or self._closed) and not self._inbox

    @property
    def reason(self) -> int | None:
        """Why the peer ended the connection (`protocol.Reason`), where the transport tells."""
        return None

    def refuse(self, reason: int) -> None:  # a transport that is not ours has no message for it
        """Send the reason why the connection will be closed, if that needs no waiting."""

    @property
    def arriving(self) -> int:
        """Bytes that a message takes which has begun to arrive, and is not whole; 0: there is none."""
        return 0

    @property
    def allowance(self) -> float:
        """Seconds more to wait for what arrives, where the transport does not tell how much of it came."""
        return 0.0

    def interrupt(self) -> None:  # see the transports
        """Wake the thread that waits for `fileno`, from any thread; nothing needs to arrive afterwards."""

    @abstractmethod
    def fileno(self) -> int:
        """Return what to wait on with `select.poll`, after `prepare_wait`."""

    def prepare_wait(self) -> bool:
        """Get ready to wait on `fileno`; False: there is something to do already."""
        return True

    @property
    def wants_write(self) -> bool:
        """Whether `fileno` becomes writable when more can be sent, so that one waits for that too."""
        return False

    def push(self) -> None:
        """Send as much as possible without waiting, and receive nothing: for a second thread.

        A transport that cannot do the one without the other has to wake whoever waits for its `fileno`, or a
        message that this received would not be seen before the next one.
        """
        self.progress()

    @abstractmethod
    def close(self) -> None:
        """End the connection; what is unsent is lost. More than one call does nothing more."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything is sent; what arrives meanwhile is left to the receiving thread."""
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
    """Where a transport waits for clients."""

    @abstractmethod
    def accept(self) -> Connection | None:
        """Return a connection to the next client; None: no client is waiting."""

    @abstractmethod
    def fileno(self) -> int:
        """Return what to wait on with `select.poll` for the next client."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more clients; existing connections stay open."""


class PeerMemory(ABC):
    """A client's way into memory that its server tells of (body type 1)."""

    def accept(self, handles: Sequence[int], body: Any) -> None:
        """Take the file descriptors that came with a body; the caller must close them."""
        for handle in handles:
            os.close(handle)

    @abstractmethod
    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        """Return a message whose body is what the pairs tell of.

        `returned` is called once with the addresses of the pairs when the memory is needed no longer, in any thread;
        before this returns if bytes were copied. `reads` says which bytes have to be copied.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Release the memory; arrays that use it stay readable."""


class Placed(NamedTuple):
    """A body that a server put where its client reaches it."""

    pairs: bytes  #: the body of type 1
    addresses: Sequence[int]  #: the leases that the client holds from now on, one per pair that is not empty
    handles: Sequence[int] = ()  #: file descriptors to send along


class OfferedMemory(ABC):
    """A server's memory that clients may read by themselves (body type 1)."""

    #: What clients are told in `remote_handle`; None: it comes with the bodies.
    remote_handle: bytes | None = None
    #: Whether `hold` does anything.
    holds: bool = False

    def stored(self, path: str) -> Any:
        """Return what to open instead of a file at `path` whose bodies are in this memory; default: the path."""
        return path

    @abstractmethod
    def place(self, message: Message, connection: Connection) -> Placed | None:
        """Put a body where the client at the other end reaches it; None: it has to be sent."""

    def hold(self, messages: Iterable[Message], sparing: bool = False) -> list[Message]:
        """Return the same messages with bodies where clients reach them: `place` has nothing to copy then.

        They stay there as long as any of the messages, or of what was decoded from them, is there. `sparing`: only
        bodies that would not be sent, within `capacity`. OSError: there is no room. Default: the messages as they are.
        """
        return list(messages)

    @abstractmethod
    def release(self, addresses: Sequence[int]) -> None:
        """Take back leases that a client has ended: their memory may be used again."""

    @abstractmethod
    def abandon(self, addresses: Sequence[int]) -> None:
        """Take back leases of a client that is gone. It may still read, so the memory is not used again."""

    def close(self) -> None:  # noqa: B027 - most have nothing to take back
        """Offer no more; clients that read keep what they have."""


def seconds(name: str, value: Any) -> float | None:
    """Check a number of seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= threading.TIMEOUT_MAX:
        raise UsageError(f"{name}: expected seconds, more than 0, or None, found {described(value)}")
    return float(value)


class Deadline:
    """A point in time to wait for, or none."""

    def __init__(self, timeout: float | None, more: float = 0.0) -> None:
        self.timeout: float = math.inf if timeout is None else timeout + more
        self._at = time.monotonic() + self.timeout

    @property
    def left(self) -> float:
        """Seconds, not below 0; infinity where there is none."""
        return max(0.0, self._at - time.monotonic())

    def check(self, for_what: str) -> None:
        """Raise TimeoutError if the deadline has passed."""
        if self.left == 0:
            raise TimeoutError(f"waited {self.timeout:g} s for {for_what}")


def registered(owner: object, make: Callable[..., int], *arguments: Any) -> tuple[int, weakref.finalize[Any, Any]]:
    """Make a descriptor, and return what closes it, with its owner at the latest: known before it is there."""
    made: list[int] = []
    end = weakref.finalize(owner, list, map(os.close, made))
    end.atexit = False
    made.extend(map(make, *zip(arguments)))  # one call of C, as closing is: no interrupt comes in between
    return made[0], end


class Alarm:
    """Ends the waiting of any number of threads, for good: a descriptor that becomes readable."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._process = os.getpid()
        self.is_ringing: bool = False

    def ring(self) -> None:
        """Wake all waiting threads, now and whenever one waits again; a forked child wakes none."""
        if not self.is_ringing:
            self.is_ringing = True
            if self._process == os.getpid():
                self._writer.send(b"\0")  # closing it would not do: a forked child may have it too

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close the descriptors; no thread may be waiting any more."""
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

    With `sending`, only for room to send where the two can be told apart: somebody else receives.
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
    """What a server listens on, and what its URI says about that."""

    listener: Listener
    scheme: str
    host: str
    port: int | None
    path: str
    #: None: bodies are always sent.
    memory: OfferedMemory | None
