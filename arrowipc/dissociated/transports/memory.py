"""Both ends in one process: messages are handed over as they are. For tests of order, loss and delay."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from arrowipc.dissociated.connection import Connection, Frame, Listener

__all__ = ["MemoryConnection", "MemoryListener", "connect_memory", "listen_memory", "memory_pair"]

#: What happens to a message on its way: returns the messages that arrive now, in this order.
Weather = Callable[[Frame], Sequence[Frame]]


class _Way:
    """Messages in one direction, and a socket that is readable while some are there."""

    def __init__(self, weather: Weather | None) -> None:
        self.frames: deque[Frame] = deque()
        self.lock = threading.Lock()
        self.ended = False
        self.weather = weather
        self.bell, self.ringer = socket.socketpair()
        self.bell.setblocking(False)
        self.ringer.setblocking(False)

    def put(self, frame: Frame) -> None:
        arriving = (frame,) if self.weather is None else self.weather(frame)
        with self.lock:
            self.frames.extend(arriving)
        self.ring()

    def ring(self) -> None:
        try:
            self.ringer.send(b"\0")
        except (BlockingIOError, OSError):
            pass

    def get(self) -> Frame | None:
        with self.lock:
            return self.frames.popleft() if self.frames else None

    def silence(self) -> None:
        """Forget what was rung; who calls this looks at the messages afterwards."""
        try:
            while self.bell.recv(1 << 12):
                pass
        except (BlockingIOError, OSError):
            pass
        if self.ended:
            self.ring()


class MemoryConnection(Connection):
    """One end; made by `memory_pair`."""

    def __init__(self, name: str, incoming: _Way, outgoing: _Way) -> None:
        super().__init__(name)
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        """See `Connection.send`."""
        if self._closed or self._incoming.ended:
            raise BrokenPipeError(f"{self.name} is gone")
        self._outgoing.put(Frame(tag, b"".join(stretches), tuple(handles)))

    @property
    def unsent(self) -> int:
        """See `Connection.unsent`: what the other end has not taken yet."""
        with self._outgoing.lock:
            return sum(len(frame.data) for frame in self._outgoing.frames)

    def progress(self) -> None:
        """See `Connection.progress`."""
        self._incoming.silence()

    def receive(self) -> Frame | None:
        """See `Connection.receive`."""
        return self._incoming.get()

    @property
    def at_end(self) -> bool:
        """See `Connection.at_end`."""
        return self._closed or (self._incoming.ended and not self._incoming.frames)

    def fileno(self) -> int:
        """See `Connection.fileno`."""
        return self._incoming.bell.fileno()

    def prepare_wait(self) -> bool:
        """See `Connection.prepare_wait`."""
        return not self._incoming.frames

    def close(self) -> None:
        """See `Connection.close`."""
        if not self._closed:
            self._closed = True
            self._outgoing.ended = True
            self._outgoing.ring()


def memory_pair(
    name: str = "memory", weather: Weather | None = None, back: Weather | None = None
) -> tuple[MemoryConnection, MemoryConnection]:
    """Return the two ends of a connection: of the client and of the server.

    Parameters
    ----------
    name : str
    weather : callable, optional
        What happens to messages from the server to the client.
    back : callable, optional
        The same the other way.
    """
    down, up = _Way(weather), _Way(back)
    return MemoryConnection(name, down, up), MemoryConnection(f"the client of {name}", up, down)


class MemoryListener(Listener):
    """Waits for clients of the same process that know its name."""

    def __init__(self, name: str, weather: Callable[[], Weather] | None = None) -> None:
        self._name = name
        self._weather = weather
        self._waiting = _Way(None)

    def connect(self) -> MemoryConnection:
        """Return a client's end."""
        client, server = memory_pair(
            f"memory {self._name}", None if self._weather is None else self._weather()
        )
        self._waiting.put(Frame(None, server))
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
        raise ConnectionRefusedError(f"nobody waits at memory {name}")
    return listener.connect()
