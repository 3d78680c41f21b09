"""A transport for tests of order, loss and delay: both ends in one process, messages are handed over as they are.

`register` makes it one of the transports of `arrowipc.dissociated`, under the name "memory".
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from arrowipc.arguments import check_text
from arrowipc.dissociated.connection import Connection, Endpoint, Frame, Listener
from arrowipc.dissociated.schemes import CONNECTORS, TRANSPORTS, Transport
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.limits import Limits

#: What happens to a message on its way: returns the messages that arrive now, in this order.
Weather = Callable[[Frame], Sequence[Frame]]


class _Direction:
    """Messages in one direction, and a socket that is readable while there is something to do about them."""

    def __init__(self, weather: Weather | None) -> None:
        self.frames: deque[Frame] = deque()
        self.waiting: int = 0  # bytes of all frames
        self.lock: threading.RLock = threading.RLock()
        self.ended: bool = False  # nothing more will be put
        self.deaf: bool = False  # nobody will look
        self.reason: int | None = None  # why it ended
        self.weather = weather
        self.bell: socket.socket
        self.ringer: socket.socket
        self.bell, self.ringer = socket.socketpair()
        self.bell.setblocking(False)
        self.ringer.setblocking(False)

    def put(self, frame: Frame) -> None:
        arriving = (frame,) if self.weather is None else self.weather(frame)
        with self.lock:
            if not self.deaf:
                self.frames.extend(arriving)
                self.waiting += sum(_size(each) for each in arriving)
        self.ring()

    def ring(self) -> None:
        with self.lock, contextlib.suppress(OSError):  # full: it is ringing already
            self.ringer.send(b"\0")

    def get(self) -> Frame | None:
        with self.lock:
            if not self.frames:
                return None
            frame = self.frames.popleft()
            self.waiting -= _size(frame)
            return frame

    def silence(self) -> None:
        """Forget what was rung; who calls this looks at the messages afterwards."""
        with self.lock, contextlib.suppress(OSError):
            while self.bell.recv(1 << 12):
                pass
        if self.ended:
            self.ring()

    def end(self) -> None:
        """Nothing more will be put: wake who waits, and keep no descriptor that nobody needs."""
        with self.lock:
            self.ended = True
            self._ring_and_close()

    def leave(self) -> None:
        """Nobody will look any more: what is there is lost."""
        with self.lock:
            self.deaf = True
            self.frames.clear()
            self.waiting = 0
            self._ring_and_close()

    def _ring_and_close(self) -> None:
        self.ring()
        if self.ended and self.deaf:
            self.bell.close()
            self.ringer.close()


def _size(frame: Frame) -> int:
    return len(frame.data) if isinstance(frame.data, (bytes, memoryview)) else 0


class MemoryConnection(Connection):
    """One end; made by `memory_pair`."""

    def __init__(self, name: str, incoming: _Direction, outgoing: _Direction) -> None:
        super().__init__(name)
        self._incoming = incoming
        self._outgoing = outgoing

    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        """See `Connection.send`."""
        if self._closed or self._incoming.ended:
            raise BrokenPipeError(f"{self.name} is gone")
        self._outgoing.put(Frame(tag, b"".join(stretches), tuple(handles)))

    @property
    def unsent(self) -> int:
        """See `Connection.unsent`: what the other end has not taken yet."""
        return self._outgoing.waiting

    def progress(self) -> None:
        """See `Connection.progress`."""
        if not self._closed:
            self._incoming.silence()

    def push(self) -> None:
        """See `Connection.push`: the other end takes what it wants."""

    def receive(self) -> Frame | None:
        """See `Connection.receive`."""
        frame = self._incoming.get()
        if frame is not None:
            self._outgoing.ring()  # there is room again, for whom that was too much
        return frame

    @property
    def at_end(self) -> bool:
        """See `Connection.at_end`."""
        return self._closed or (self._incoming.ended and not self._incoming.frames)

    @property
    def reason(self) -> int | None:
        """See `Connection.reason`."""
        return self._incoming.reason

    def refuse(self, reason: int) -> None:
        """See `Connection.refuse`."""
        self._outgoing.reason = reason

    def interrupt(self) -> None:
        """See `Connection.interrupt`."""
        self._incoming.ring()

    def fileno(self) -> int:
        """See `Connection.fileno`."""
        return self._incoming.bell.fileno()

    def prepare_wait(self) -> bool:
        """See `Connection.prepare_wait`."""
        return not (self._incoming.frames or self._incoming.ended or self._closed)

    def close(self) -> None:
        """See `Connection.close`."""
        if not self._closed:
            self._closed = True
            self._outgoing.end()
            self._incoming.leave()


def memory_pair(
    name: str = "memory", weather: Weather | None = None, back: Weather | None = None
) -> tuple[MemoryConnection, MemoryConnection]:
    """Return the two ends of a connection: of the client and of the server.

    Parameters
    ----------
    weather : callable, optional
        What happens to messages from the server to the client.
    back : callable, optional
        The same the other way.
    """
    down, up = _Direction(weather), _Direction(back)
    return MemoryConnection(name, down, up), MemoryConnection(f"the client of {name}", up, down)


class MemoryListener(Listener):
    """Waits for clients of the same process that know its name."""

    def __init__(self, name: str, weather: Callable[[], Weather] | None = None) -> None:
        self._name = name
        self._weather = weather
        self._waiting = _Direction(None)

    def connect(self) -> MemoryConnection:
        """Return a client's end."""
        client, server = memory_pair(f"memory {self._name}", None if self._weather is None else self._weather())
        self._waiting.put(Frame(None, server))
        if self._waiting.deaf:
            server.close()
        return client

    def accept(self) -> Connection | None:
        """See `Listener.accept`."""
        self._waiting.silence()
        frame = self._waiting.get()
        if frame is None:
            return None
        if self._waiting.frames:
            self._waiting.ring()
        server: MemoryConnection = frame.data
        return server

    def fileno(self) -> int:
        """See `Listener.fileno`."""
        return self._waiting.bell.fileno()

    def close(self) -> None:
        """See `Listener.close`."""
        _listening.pop(self._name, None)
        while (frame := self._waiting.get()) is not None:
            frame.data.close()
        self._waiting.leave()
        self._waiting.end()


_listening: dict[str, MemoryListener] = {}


def listen_memory(name: str, weather: Callable[[], Weather] | None = None) -> MemoryListener:
    """Wait for clients under a name; `weather` makes one `Weather` per client."""
    if name in _listening:
        raise OSError(f"memory {name} is taken")
    listener = _listening[name] = MemoryListener(name, weather)
    return listener


def connect_memory(name: str) -> MemoryConnection:
    """Connect to a listener of this process."""
    listener = _listening.get(name)
    if listener is None:
        raise ConnectionRefusedError(f"no server listens at memory {name}")
    return listener.connect()


def _connect(uri: DissociatedUri, limits: Limits | None, timeout: float | None) -> tuple[MemoryConnection, None]:
    return connect_memory(uri.path.removeprefix("/")), None


def _listen(transport: str, address: Any, limits: Limits | None, **options: Any) -> Endpoint:
    name = os.urandom(6).hex() if address is None else check_text("address", address)
    return Endpoint(listen_memory(name, **options), "arrowipc+memory", "", None, "/" + name, None)


def register() -> None:
    """Add it to the transports that servers and clients of this process know."""
    CONNECTORS["arrowipc+memory"] = _connect
    TRANSPORTS["memory"] = Transport(_listen, ("weather",))
