"""A client's link to a server: connections, access to its memory, and addresses that are returned."""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import time
import weakref
from _thread import LockType, allocate_lock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from arrowipc.dissociated import schemes
from arrowipc.dissociated.protocol import free_data_body, refusal
from arrowipc.errors import ArrowIpcError

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection, PeerMemory
    from arrowipc.dissociated.uri import DissociatedUri
    from arrowipc.limits import Limits

#: So many addresses go out at once, in one message; fewer wait for others, for so many seconds.
MANY = 512
GATHERING_TIME = 0.001
#: Seconds that the end of the process waits for memory that was let go of to be given back.
EXIT_TIMEOUT = 0.5
#: Seconds that a server has to take what is given back; then its connection ends, and the leases with it.
RETURN_TIMEOUT = 60.0


class Returns:
    """Returns memory in its own thread, because the last reader may release it at any time in any thread."""

    def __init__(self, connection: Connection, tag: int | None) -> None:
        self._connection = connection
        self._tag = tag
        # Addresses to give back; a lock to release once those before it are given back; None: `finish` was
        # called. The lock is bare: an event of the standard library stays locked, for whoever sets it too,
        # where the end of its `with` finds no memory.
        self._queue: queue.SimpleQueue[list[int] | LockType | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._held = 0  # addresses
        self._last = False  # the connection ends when nothing is held any more
        self._gone = False  # the server takes nothing back any more
        self._lock = threading.Lock()
        self.is_unsure = False

    def lease(self, addresses: Sequence[int]) -> None:
        """Note that the addresses are held until `returned` is called with them."""
        if not addresses or self._tag is None:
            return
        with self._lock:
            self._held += len(addresses)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="arrowipc-returns", daemon=True)
                thread.start()
                self._thread = thread
                _running.add(self)

    def returned(self, addresses: list[int]) -> None:
        """Note that nothing reads these addresses any more; neither blocks nor raises."""
        if addresses and self._tag is not None:
            self._queue.put(addresses)

    def deliver(self) -> None:
        """Wait briefly until released memory is returned, because a daemon thread stops with the process."""
        delivered = allocate_lock()
        delivered.acquire()
        self._queue.put(delivered)
        delivered.acquire(timeout=EXIT_TIMEOUT)

    def _run(self) -> None:
        while True:
            together, delivered = self._collect()
            if together and not self._gone:
                try:
                    self._give_back(together)
                except Exception:
                    # The server is gone, or we cannot: leases end with the connection. What the server said
                    # before is still to be read.
                    self._gone = True
            for lock in delivered:
                lock.release()
            with self._lock:
                self._held -= len(together)
                if self._last and (self._held == 0 or self._gone):
                    return self._close()

    def _collect(self) -> tuple[list[int], list[LockType]]:
        """Wait for addresses, and take all that have arrived by then."""
        together: list[int] = []
        delivered: list[LockType] = []
        item = self._queue.get()
        if not (item is None or self._last):
            time.sleep(GATHERING_TIME)  # a stream of small bodies would wake this thread for each of them
        while True:
            if isinstance(item, LockType):
                delivered.append(item)
            else:
                together += item or ()
            if len(together) >= MANY or self._queue.empty():
                return together, delivered
            item = self._queue.get()

    def _close(self) -> None:
        with self._connection.lock:
            self._connection.close()

    def _give_back(self, addresses: list[int]) -> None:
        with self._connection.lock:
            self._connection.send(self._tag, [free_data_body(addresses)])
        self._connection.flush(RETURN_TIMEOUT)

    def finish(self) -> None:
        """Close the connection as soon as everything was given back; if that is unsure, now."""
        with self._lock:
            self._last = True
            self._gone = self._gone or self.is_unsure
            if self._thread is None or self.is_unsure:
                self._close()
            self._queue.put(None)

    def drop(self) -> None:
        """Do what `finish` does, from a finaliser: in the middle of anything, even of what holds our lock."""
        self._last = True
        if self._thread is None:  # then nobody else knows the connection, and nobody leases any more
            self._close()
            return
        self._gone = self._gone or self.is_unsure
        self._queue.put(None)


#: Those that have a thread.
_running: weakref.WeakSet[Returns] = weakref.WeakSet()


@atexit.register
def _deliver_all() -> None:
    for returns in list(_running):
        returns.deliver()


class Link:
    """The connections to a server, for one stream after the other."""

    def __init__(
        self,
        metadata: Connection,
        data: Connection,
        memory: PeerMemory | None = None,
        free_data: int | None = None,
        requests: Sequence[int] = (),
    ) -> None:
        self.metadata = metadata
        self.data = data
        self.connections: tuple[Connection, ...] = (metadata,) if metadata is data else (metadata, data)
        self.memory = memory
        self.returns: Returns = Returns(data, free_data)
        self._requests = requests
        # A reader that nobody closes ends with its last reference; nothing below may lead back to it.
        self._finaliser = weakref.finalize(self, _let_go, self.connections, memory, self.returns.drop)
        self._finaliser.atexit = False

    @classmethod
    def open(cls, uris: Sequence[DissociatedUri], ident: bytes, limits: Limits | None, timeout: float | None) -> Link:
        """Connect to one server of both streams, or to one for the metadata and one for the data, and ask.

        Each connection is asked as soon as it stands: a server may wait for that before it takes another.
        """
        opened: list[Connection] = []
        memory: PeerMemory | None = None
        with contextlib.ExitStack() as undo:
            for uri in uris:
                connection, found = schemes.connect(uri, limits, timeout)
                opened.append(undo.enter_context(connection))
                if found is not None:
                    memory = found
                    undo.callback(found.close)
                try:
                    connection.send(uri.want_data, [ident])
                except ConnectionError as error:
                    raise why_it_ended(connection, error) from error
            undo.pop_all()
        return cls(opened[0], opened[-1], memory, uris[-1].free_data, [uri.want_data for uri in uris])

    def ask(self, ident: bytes) -> None:
        """Ask for another stream."""
        for connection, tag in zip(self.connections, self._requests, strict=True):
            with connection.lock:
                connection.send(tag, [ident])

    @property
    def is_idle(self) -> bool:
        """Whether nothing has arrived since the last stream, not even the end of the connection."""
        for connection in self.connections:
            with connection.lock:
                try:
                    connection.progress()
                except OSError:
                    return False
                if connection.at_end or connection.receive() is not None:
                    return False
        return True

    def close(self, broken: bool = False) -> None:
        """End the connections; that of the data stays open while batches use memory of the server."""
        self.returns.is_unsure = self.returns.is_unsure or broken
        if self._finaliser.detach() is not None:
            _let_go(self.connections, self.memory, self.returns.finish)


def _let_go(connections: Sequence[Connection], memory: PeerMemory | None, end: Callable[[], None]) -> None:
    """Close what a link has, except for the connection of the data: `end` (of its `Returns`) closes that."""
    for connection in connections[:-1]:
        connection.close()
    if memory is not None:
        memory.close()
    end()


def why_it_ended(connection: Connection, error: OSError) -> Exception:
    """Return what the server said before it ended the connection; where it said nothing, the error itself."""
    with connection.lock, contextlib.suppress(OSError, ArrowIpcError):
        connection.progress()
    return error if connection.reason is None else refusal(connection.reason)
