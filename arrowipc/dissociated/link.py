"""A client's link to a server: connections, access to the server's memory, and the return of addresses."""

from __future__ import annotations

import atexit
import contextlib
import os
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

#: Addresses that are sent in one message without waiting; fewer wait GATHERING_TIME seconds for others.
MANY = 512
GATHERING_TIME = 0.001
#: Seconds that the end of the process waits until released memory is given back.
EXIT_TIMEOUT = 0.5
#: Seconds that a server has to receive the addresses; after that its connection ends, and the leases with it.
RETURN_TIMEOUT = 60.0


class Returns:
    """Returns memory in its own thread, because the last reader may release it at any time in any thread."""

    def __init__(self, connection: Connection, tag: int | None) -> None:
        self._connection = connection
        self._tag = tag
        # Addresses to give back; a lock to release once the addresses before it are given back; None: `finish` was
        # called. The lock is a bare one: a threading.Event would stay locked, also for the thread that sets it, if
        # the end of its `with` block fails for lack of memory.
        self._queue: queue.SimpleQueue[list[int] | LockType | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._held = 0  # addresses
        self._last = False  # close the connection as soon as nothing is held any more
        self._gone = False  # addresses can no longer be sent to the server
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
        """Note that nothing reads these addresses any more. This neither blocks nor raises."""
        if addresses and self._tag is not None:
            self._queue.put(addresses)

    def deliver(self) -> None:
        """Wait briefly until released memory is returned; the daemon thread would stop with the process."""
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
                    # The server is gone, or sending failed: leases end with the connection. Do not close it here:
                    # data that the server sent before may still have to be read.
                    self._gone = True
            for lock in delivered:
                lock.release()
            with self._lock:
                self._held -= len(together)
                if self._last and (self._held == 0 or self._gone):
                    return self._close()

    def _collect(self) -> tuple[list[int], list[LockType]]:
        """Wait for addresses, then take all that are in the queue."""
        together: list[int] = []
        delivered: list[LockType] = []
        item = self._queue.get()
        if not (item is None or self._last):
            time.sleep(GATHERING_TIME)  # else a stream of small bodies would wake this thread for each of them
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
        """Close the connection as soon as all addresses are given back, or now if that may fail (`is_unsure`)."""
        with self._lock:
            self._last = True
            self._gone = self._gone or self.is_unsure
            if self._thread is None or self.is_unsure:
                self._close()
            self._queue.put(None)

    def drop(self) -> None:
        """Like `finish`, but for a finaliser: it takes no lock, because this thread may hold the lock already."""
        self._last = True
        if self._thread is None:  # then there are no leases, and nothing else uses the connection
            self._close()
            return
        self._gone = self._gone or self.is_unsure
        self._queue.put(None)


#: The instances that have a thread.
_running: weakref.WeakSet[Returns] = weakref.WeakSet()


@atexit.register
def _deliver_all() -> None:
    for returns in list(_running):
        returns.deliver()


class Link:
    """The connections to a server, for one stream after another."""

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
        # A link that is not closed ends with its last reference; so the arguments must not refer to it.
        self._finaliser = weakref.finalize(self, _let_go, self.connections, memory, self.returns.drop)
        self._finaliser.atexit = False

    @classmethod
    def open(cls, uris: Sequence[DissociatedUri], ident: bytes, limits: Limits | None, timeout: float | None) -> Link:
        """Connect to one server for both streams, or to one for the metadata and one for the data; ask for a stream.

        Each connection is asked as soon as it is made: a server may wait for the request before it accepts the next.
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
                frame = connection.receive()
                for handle in () if frame is None else frame.handles:
                    os.close(handle)
                if connection.at_end or frame is not None:
                    return False
        return True

    def close(self, broken: bool = False) -> None:
        """Close the connections; the one for the data stays open while batches use memory of the server."""
        self.returns.is_unsure = self.returns.is_unsure or broken
        if self._finaliser.detach() is not None:
            _let_go(self.connections, self.memory, self.returns.finish)


def _let_go(connections: Sequence[Connection], memory: PeerMemory | None, end: Callable[[], None]) -> None:
    """Close all parts of a link; `end`, a method of its `Returns`, closes the connection for the data."""
    for connection in connections[:-1]:
        connection.close()
    if memory is not None:
        memory.close()
    end()


def why_it_ended(connection: Connection, error: OSError) -> Exception:
    """Return the error for the reason that the server gave before it ended the connection; `error` if it gave none."""
    with connection.lock, contextlib.suppress(OSError, ArrowIpcError):
        connection.progress()
    return error if connection.reason is None else refusal(connection.reason)
