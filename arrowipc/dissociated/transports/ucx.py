"""UCX: tagged messages for bodies, active messages for metadata, over the best connection between two processes.

The messages are those of the specification's reference example: untagged messages are active messages with the
id 0 and no header, each connection has its own worker on both sides, and clients ask with a synchronous tagged
send. Both sides must use the same error handling mode. A client tries "peer" first, where UCX ends operations when
a peer is lost. If that is refused, or not answered soon, it also tries "none", the mode of the reference example:
some servers drop a connection of the other mode without an answer.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_choice
from arrowipc.dissociated.connection import LONGER, SLOWEST, Connection, Deadline, Endpoint, Frame, Listener, PeerMemory
from arrowipc.dissociated.memory.receiving import announced
from arrowipc.dissociated.protocol import SEQUENCE_MASK
from arrowipc.dissociated.transports import ucx_worker
from arrowipc.dissociated.transports.ucx_library import context, load_library
from arrowipc.dissociated.transports.ucx_memory import UcxArena, UcxPeerMemory
from arrowipc.errors import LimitError, UsageError
from arrowipc.limits import Limits

if TYPE_CHECKING:
    from arrowipc.dissociated.uri import DissociatedUri

#: Bytes of messages that are received at the same time; others wait at the sender.
RECEIVED_AT_ONCE = 128 << 20
#: Seconds that closing a connection waits for messages that are being sent.
LINGER = 0.5
#: Seconds that a thread then waits for a busy peer; and the largest number of such threads.
PATIENCE = 30.0
LEAVING = threading.BoundedSemaphore(64)
#: Seconds after which to progress UCX without an event: it does not report everything.
POLL_INTERVAL = 0.02
#: Seconds that a server has to answer in one mode before the other mode is tried, too.
MODE_PATIENCE = 1.5
#: The client id of the second attempt, which servers of arrowipc know.
SECOND_ATTEMPT = int.from_bytes(b"arwipc 2", "little")


class UcxConnection(Connection):
    """One end of a connection."""

    poll_interval = POLL_INTERVAL

    def __init__(
        self, worker: ucx_worker.Worker, name: str, limits: Limits | None = None, *, is_client: bool = False
    ) -> None:
        super().__init__(name)
        self.worker = worker
        self._limits = limits or Limits()
        self._is_client = is_client
        self._fileno = worker.fileno()
        self._receives: set[ucx_worker.Operation] = set()
        self._receiving = 0
        self._expected: int | None = None
        self._waiting: set[int] = set()  # ids of the threads that wait for `fileno`

    # -- sending --

    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        if handles:
            raise UsageError("UCX passes no file descriptors")
        if self._closed or self._ended:
            raise BrokenPipeError(f"{self.name} is gone")
        if tag is None:
            self.worker.send(None, stretches)
        else:
            self.worker.send(tag, stretches, synchronous=self._is_client)

    @property
    def unsent(self) -> int:
        return self.worker.unsent

    # -- receiving --

    def expect(self, number: int | None) -> None:
        self._expected = number

    def progress(self) -> None:
        if self._closed:
            return
        self._wake_others()  # this call may receive the message that they wait for
        self._step()
        if self.worker.failure and not self._ended:
            self._take_the_rest()

    def _wake_others(self) -> None:
        self._waiting.discard(threading.get_ident())
        if self._waiting:
            self._waiting.clear()
            self.worker.signal()

    def _step(self) -> bool:
        """Progress once; return False if nothing happened."""
        finished = self.worker.progress()
        for operation in finished:
            if operation in self._receives:
                self._receives.discard(operation)
                self._receiving -= operation.length
                self._deliver(operation)
        return self._begin_receiving() or bool(finished)

    def _begin_receiving(self) -> bool:
        found = False
        while (untagged := self.worker.untagged()) is not None:
            found = True
            if untagged.length > self._limits.metadata_bytes + 64:
                self.worker.refuse(untagged)
                raise LimitError(
                    f"{self.name} sends {untagged.length:,} bytes of metadata, more than "
                    f"Limits.metadata_bytes = {self._limits.metadata_bytes:,}"
                )
            if untagged.memory is not None:
                self._count_arrived()
                self._inbox.append(Frame(None, memoryview(untagged.memory)))
            else:
                self._receive(untagged)
        while self._receiving < RECEIVED_AT_ONCE and (tagged := self._probe()) is not None:
            found = True
            self._receive(tagged)
        return found

    def _probe(self) -> ucx_worker.Operation | None:
        """Take a tagged message that has arrived: the body that is expected, else the first one."""
        if self._expected is not None:
            found = self.worker.probe(self._expected, SEQUENCE_MASK)
            if found is not None:
                return found
        return self.worker.probe(0, 0)

    def _receive(self, waiting: ucx_worker.Operation) -> None:
        self._count_arrived()
        operation = self.worker.receive(waiting, announced(self.name, waiting.length, self._limits))
        if operation.is_done():
            self._deliver(operation)
        else:
            self._receives.add(operation)
            self._receiving += operation.length

    def _deliver(self, operation: ucx_worker.Operation) -> None:
        self._count_arrived()
        if operation.status < 0:
            return  # it was lost with the peer
        self._inbox.append(Frame(operation.tag, memoryview(operation.memory)))

    def _take_the_rest(self) -> None:
        """Receive the messages that arrived before the peer was gone; parts that are still at the peer are lost."""
        while self._step():
            pass
        self._ended = True

    # -- waiting --

    def fileno(self) -> int:
        return self._fileno

    def prepare_wait(self) -> bool:
        with self.lock:
            if self._closed or self._ended or self._inbox or not self.worker.arm():
                return False
            self._waiting.add(threading.get_ident())
            return True

    @property
    def arriving(self) -> int:
        return self._receiving or len(self._receives)

    @property
    def allowance(self) -> float:
        return self._receiving / SLOWEST

    def interrupt(self) -> None:
        with self.lock:
            if not self._closed:
                self.worker.signal()

    def complete(self, operation: ucx_worker.Operation, deadline: Deadline, what: str) -> None:
        """Wait until an operation is over; the caller holds the lock."""
        self.progress()
        while not operation.is_done():
            if self._closed or self._ended:
                raise ConnectionResetError(f"{self.name} is gone: {what}")
            if not wait_briefly([self.worker], deadline):
                raise TimeoutError(f"{self.name} did not answer in {deadline.timeout:g} s: {what}{LONGER}")
            self.progress()
        if operation.status < 0:
            raise operation.failure(f"{self.name}: {what}")

    # -- the end --

    def close(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self._inbox.clear()
            self._wake_others()
            if self.worker.failure or self._hang_up(LINGER) or not self._leave_later():
                self.worker.close()
            self._receives.clear()

    def _leave_later(self) -> bool:
        """Hang up in a thread; return False if no more threads are possible.

        UCX reports the end of a connection to a peer on this machine only if the peer progresses or its process ends.
        A peer that is busy for longer than `LINGER` would keep its end for ever. So would a peer that this same thread
        drives, which happens when the garbage collector closes a connection.
        """
        if not LEAVING.acquire(blocking=False):
            return False
        try:
            threading.Thread(target=self._leave, name="arrowipc-hang-up", daemon=True).start()
        except RuntimeError:  # the interpreter ends
            LEAVING.release()
            return False
        return True

    def _leave(self) -> None:
        try:
            self._hang_up(PATIENCE)
            self.worker.close()
        finally:
            LEAVING.release()

    def _hang_up(self, seconds: float) -> bool:
        """Wait until sent messages arrive, and tell the peer about the end; return False if time ran out before."""
        deadline = Deadline(seconds)
        worker = self.worker
        try:
            progress_until([worker], lambda: worker.num_outstanding == 0 or worker.failure, deadline)
            if worker.num_outstanding == 0 and not worker.failure:
                ended = worker.hang_up()
                progress_until([worker], lambda: ended.is_done() or worker.failure, deadline)
        except OSError:
            return True  # gone already
        return worker.num_outstanding == 0 or bool(worker.failure)


def progress_until(workers: Sequence[ucx_worker.Worker], done: Callable[[], object], deadline: Deadline) -> None:
    """Progress until `done()` is true, or the deadline has passed."""
    while not done():
        for worker in workers:
            worker.progress()
        # Check again: this progress may have completed the operation.
        if not done() and not wait_briefly(workers, deadline):
            return


def wait_briefly(workers: Sequence[ucx_worker.Worker], deadline: Deadline) -> bool:
    """Wait until one of the workers has an event, at most POLL_INTERVAL; return False if the deadline has passed."""
    left = deadline.left
    if left and all(worker.arm() for worker in workers):
        poll = select.poll()
        for worker in workers:
            poll.register(worker.fileno(), select.POLLIN)
        poll.poll(1000 * min(left, POLL_INTERVAL))
    return left != 0


# -- addresses -----------------------------------------------------------------------------------------------


def packed_address(host: str, port: int) -> tuple[bytes, bool]:
    """Return a host and port as a struct sockaddr, and whether it is an IPv6 address."""
    family, _, _, _, where = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
    data = struct.pack("!H", where[1])
    if family == socket.AF_INET6:
        flow, scope = struct.pack("!I", where[2]), struct.pack("=I", where[3])  # type: ignore[misc]
        data += flow + socket.inet_pton(family, str(where[0]).partition("%")[0]) + scope
    else:
        data += socket.inet_pton(family, str(where[0])) + bytes(8)
    return struct.pack("=H", family) + data, family == socket.AF_INET6


def unpacked_port(address: bytes) -> int:
    """Return the port of a struct sockaddr."""
    return int(struct.unpack_from("!H", address, 2)[0])


def unpacked_name(address: bytes | None) -> str:
    """Return host and port of a struct sockaddr, for messages."""
    if address is None:
        return "a client of UCX"
    (family,) = struct.unpack_from("=H", address)
    try:
        host = socket.inet_ntop(family, address[8:24] if family == socket.AF_INET6 else address[4:8])
    except (OSError, ValueError):
        return "a client of UCX"
    return f"the client {(host, unpacked_port(address))}"


# -- servers -------------------------------------------------------------------------------------------------


class UcxListener(Listener):
    """Waits for clients; see `listen_ucx`."""

    def __init__(
        self,
        host: str,
        port: int,
        limits: Limits | None = None,
        *,
        error_mode: str = "peer",
        remote_memory: bool = False,
    ) -> None:
        address, is_v6 = packed_address(host, port)
        self._peer_errors = error_mode == "peer"
        self._limits = limits
        self.context: ucx_worker.Context = context(remote_memory, is_v6)
        self._listener = ucx_worker.Listener(self.context, address)
        self._worker = self._listener.worker
        self._fileno = self._worker.fileno()
        self._get_ready()

    @property
    def port(self) -> int:
        """The port."""
        return unpacked_port(self._listener.address)

    def accept(self) -> UcxConnection | None:
        try:
            self._worker.progress()
            if not self._listener.has_request:
                return None
            worker = ucx_worker.Worker(self.context)
            try:
                self._listener.accept(worker, self._peer_errors)
            except OSError as error:
                worker.close()
                if not self._peer_errors or self._listener.client_id == SECOND_ATTEMPT:
                    return None  # the client tries both modes
                raise ConnectionAbortedError(
                    f'{unpacked_name(self._listener.peer)} and this server, whose error_mode is "peer", do not '
                    f'handle errors in the same way; the reference example wants error_mode="none": {error}'
                ) from None
            return UcxConnection(worker, unpacked_name(self._listener.peer), self._limits)
        finally:
            self._get_ready()

    def _get_ready(self) -> None:
        """Make `fileno` readable if a client waits, and when the next one arrives."""
        while True:
            if self._listener.has_request:
                self._worker.signal()
                return
            if self._worker.arm():
                return
            self._worker.progress()

    def fileno(self) -> int:
        return self._fileno

    def close(self) -> None:
        self._listener.close()


def listen_ucx(
    address: tuple[str, int],
    limits: Limits | None = None,
    *,
    error_mode: str = "peer",
    memory: int = 0,
    least_bytes: int = 16 << 10,
) -> Endpoint:
    """Begin to listen over UCX."""
    check_choice("error_mode", error_mode, ("peer", "none"))
    host, port = address
    listener = UcxListener(host, port, limits, error_mode=error_mode, remote_memory=memory > 0)
    offered = UcxArena(listener.context, memory, least_bytes) if memory > 0 else None
    return Endpoint(listener, "ucx", host, listener.port, "", offered)


# -- clients -------------------------------------------------------------------------------------------------


def connect_ucx(
    uri: DissociatedUri, limits: Limits | None = None, timeout: float | None = None
) -> tuple[UcxConnection, PeerMemory | None]:
    """Connect to a server; see `arrowipc.dissociated.schemes.connect`. Its `remote_handle` is the key of its memory."""
    if uri.port is None:
        raise UsageError(f"a UCX server has a port: {uri}")
    address, is_v6 = packed_address(uri.host, uri.port)
    name = f"ucx {uri.host}:{uri.port}"
    shared = context(uri.remote_handle is not None, is_v6)
    connection = UcxConnection(_connect(shared, address, name, Deadline(timeout)), name, limits, is_client=True)
    if uri.remote_handle is None:
        return connection, None
    return connection, UcxPeerMemory(connection, uri.remote_handle, timeout)


def _connect(shared: ucx_worker.Context, address: bytes, name: str, deadline: Deadline) -> ucx_worker.Worker:
    """Connect in mode "peer", then in both; return the first worker that is connected, and close the other."""
    attempts: dict[ucx_worker.Worker, ucx_worker.Operation | None] = {}
    standing: list[ucx_worker.Worker] = []

    def is_decided() -> bool:
        over = [(worker, flush) for worker, flush in attempts.items() if worker.failure or (flush and flush.is_done())]
        standing[:] = [worker for worker, flush in over if flush and flush.status >= 0 and not worker.failure]
        return bool(standing) or len(over) == len(attempts)

    first = Deadline(min(MODE_PATIENCE, deadline.left / 2))
    try:
        for peer_errors, end in ((True, first), (False, deadline)):
            worker = ucx_worker.Worker(shared, 0 if peer_errors else SECOND_ATTEMPT)
            attempts[worker] = None
            worker.connect(address, peer_errors)
            attempts[worker] = worker.flush()
            # The first attempt continues during the second: its server may only be busy.
            progress_until(list(attempts), is_decided, end)
            if standing:
                return standing[0]
    finally:
        for each in attempts:
            if each not in standing[:1]:
                each.close()
    if not is_decided():
        raise TimeoutError(f"{name} did not answer in {deadline.timeout:g} s{LONGER}")
    # No server listens, or it uses another mode; UCX's errors do not distinguish these cases reliably.
    raise ConnectionRefusedError(
        f"connecting to {name}: {worker.failure_text()}. Both ends need the same minor version of "
        f"UCX; this one has {'.'.join(map(str, load_library()))}"
    )
