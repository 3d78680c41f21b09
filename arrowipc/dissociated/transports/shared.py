"""Body type 1 on one machine: bodies in memory that the client maps.

The `remote_handle` of a URI names the memory: ``memfd`` (or no handle), whose file descriptors come with the bodies,
or ``file:/path``, a file whose descriptor comes with the first body. Memory is shared only between processes of one
user.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer
from arrowipc.dissociated.connection import Connection, OfferedMemory, PeerMemory, Placed, registered
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs, write_places
from arrowipc.dissociated.memory.arena import F_SEAL_GROW, F_SEAL_SHRINK, GONE, OFFSET_BITS, Arena
from arrowipc.errors import FormatError, UnsupportedError
from arrowipc.sources.source import check_path

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.connection import Reads
    from arrowipc.limits import Limits

#: Without these seals, memory could become smaller than its map, and reading behind its end would kill the process.
FIXED_SIZE = F_SEAL_SHRINK | F_SEAL_GROW


# -- the server's side ---------------------------------------------------------------------------------------


class FileMemory(OfferedMemory):
    """An IPC file (or stream) that both sides map: its bodies are used in place, without a copy.

    A body whose buffers are in `mapping` is sent by reference, any other body as bytes. So serve messages or batches
    that were read from `mapping`. The file must not change; if it was replaced under its path, bodies are sent. Each
    client gets a descriptor of the file with the first body: another file may be at the path when it maps it.
    """

    def __init__(self, path: Any, least_bytes: int = 32 << 10) -> None:
        check_path(path)
        self._path = os.path.abspath(os.fspath(path))
        self._least_bytes = check_integer("least_bytes", least_bytes, 0, (1 << OFFSET_BITS) - 1)
        with open(self._path, "rb") as file:
            info = os.fstat(file.fileno())
            self._fd, self._end = registered(self, os.dup, file.fileno())
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if info.st_size else b""
        self.mapping: memoryview = memoryview(mapping)
        self._identity = _identity(info)
        self.remote_handle: bytes = b"file:" + os.fsencode(self._path)
        self._known: weakref.WeakSet[Connection] = weakref.WeakSet()  # the clients that got the descriptor

    @property
    def is_current(self) -> bool:
        """bool: the mapped file is still at its path, unchanged."""
        try:
            return _identity(os.stat(self._path)) == self._identity
        except OSError:
            return False

    def stored(self, path: str) -> Any:
        return self.mapping if path == self._path and self.is_current else path

    def place(self, message: Message, connection: Connection) -> Placed | None:
        if message.body_length < self._least_bytes or not self.is_current:
            return None
        pairs = write_places(message, self.mapping, 0)
        if pairs is None or not self._end.alive:
            return None
        handles = () if connection in self._known else (self._fd,)
        self._known.add(connection)
        return Placed(pairs, Pairs(pairs).addresses, handles)

    def release(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.release`: the file stays."""

    def abandon(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.abandon`: the file stays."""

    def close(self) -> None:
        """See `OfferedMemory.close`: batches that were read from the map keep it."""
        self.mapping = memoryview(b"")
        # A dropped server may still have to send the descriptor; then it is closed with the last reference to this.
        if all(each.at_end for each in list(self._known)):
            self._end()


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


#: Transport -> the memory that it offers to clients on the same machine.
OFFERED: dict[str, type[OfferedMemory]] = {"shm": Arena, "file": FileMemory}


# -- the client's side ---------------------------------------------------------------------------------------


def open_peer_memory(remote_handle: bytes | None, connection: Connection) -> PeerMemory:
    """Return access to the memory that a server announces; it is not opened before a body refers to it."""
    kind, _, rest = (remote_handle or b"memfd").partition(b":")
    if kind == b"memfd" and not rest:
        return SegmentMemory(connection)
    if kind == b"file":
        if not rest.startswith(b"/") or b"\0" in rest:
            raise FormatError(f"a remote_handle for a file has its absolute path, found {rest!r}")
        return MappedMemory(os.fsdecode(rest), connection)
    raise UnsupportedError(f"remote_handle: expected memfd or file:/path, found {(remote_handle or b'')[:64]!r}")


def check_user(connection: Connection) -> None:
    """Refuse memory of other users: they could change it while it is read, or give it to another user."""
    ask = getattr(connection, "peer_user", None)
    user = ask() if ask is not None else None
    if user != os.geteuid():
        found = "its user is unknown" if user is None else f"it is of user {user}"
        raise PermissionError(
            f"{connection.name} tells of memory instead of sending it; that is for servers of our own user, "
            f"{os.geteuid()}, over a Unix socket, and {found}"
        )


def _lent(
    memory: memoryview, address: int, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None
) -> Message:
    """Return a message whose body is in `memory`; the first byte of `memory` has this address."""
    addresses = pairs.addresses
    if not addresses:
        return pairs.message(metadata, b"", 0, limits)
    # In a file, a buffer may begin at address 0, which `start` ignores: then the range begins at 0.
    low, high = pairs.start - address if address else 0, pairs.end - address
    if low < 0 or high > len(memory):
        returned(addresses)
        raise FormatError(
            f"the pairs reach from address {pairs.start:,} to {pairs.end:,}, and the memory that they speak "
            f"of is {len(memory):,} bytes at {address:,}"
        )
    return pairs.message(metadata, Lease(memory[low:high], returned, addresses), address + low, limits)


class SegmentMemory(PeerMemory):
    """Segments whose file descriptors come with the first body in each; they are mapped read-only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._segments: dict[int, memoryview] = {}

    def accept(self, handles: Sequence[int], body: Any) -> None:
        try:
            check_user(self._connection)
            pairs = Pairs(body)
            if len(handles) != 1 or not pairs.end:
                raise FormatError(
                    f"the memory of one body is one segment, with one file descriptor; found {len(handles)} "
                    f"of them, and {len(pairs.places)} buffers"
                )
            # Drop segments that the server has released: their maps would keep memory that is no longer used.
            there = {n: each for n, each in self._segments.items() if each[: len(GONE)] != GONE}
            there[pairs.start >> OFFSET_BITS] = _map_sealed(handles[0])
            self._segments = there
        finally:
            for handle in handles:
                os.close(handle)

    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        number = pairs.start >> OFFSET_BITS
        segment = self._segments.get(number)
        if segment is None and pairs.end:
            returned(pairs.addresses)
            raise FormatError(f"a body lies in segment {number}, and its file descriptor never came")
        return _lent(segment or memoryview(b""), number << OFFSET_BITS, metadata, pairs, returned, limits)

    def close(self) -> None:
        self._segments.clear()


def _map_sealed(handle: int) -> memoryview:
    """Map memory that cannot become smaller: reading behind its end would kill this process."""
    try:
        seals = fcntl.fcntl(handle, getattr(fcntl, "F_GET_SEALS", 1034))
    except OSError:
        raise FormatError("the file descriptor that came with a body is not memory that can be sealed") from None
    if seals & FIXED_SIZE != FIXED_SIZE:
        raise FormatError(
            "the memory that came with a body can change its size: expected the seals SHRINK and GROW, found "
            f"{seals:#x}"
        )
    size = os.fstat(handle).st_size
    if size == 0:
        raise FormatError("the memory that came with a body has no bytes")
    return memoryview(mmap.mmap(handle, size, prot=mmap.PROT_READ))


class MappedMemory(PeerMemory):
    """A file that both sides map; addresses are offsets in it.

    Its descriptor comes with the first body. If a server of another kind sends none, the path is opened.
    """

    def __init__(self, path: str, connection: Connection) -> None:
        self._path = path
        self._connection = connection
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")

    def accept(self, handles: Sequence[int], body: Any) -> None:
        try:
            check_user(self._connection)
            if len(handles) != 1:
                raise FormatError(f"{self._path}: expected one file descriptor of the file, found {len(handles)}")
            self._map_file(handles[0])
        finally:
            for handle in handles:
                os.close(handle)

    def _open(self) -> mmap.mmap:
        check_user(self._connection)
        # O_NONBLOCK: opening a pipe or a device must not wait.
        handle, end = registered(self, os.open, self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return self._map_file(handle)
        finally:
            end()

    def _map_file(self, handle: int) -> mmap.mmap:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size == 0:
            raise FormatError(f"{self._path}: expected a file with something in it")
        self._map = mapped = mmap.mmap(handle, info.st_size, prot=mmap.PROT_READ)
        self._view = memoryview(mapped)
        return mapped

    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        try:
            mapped = self._map or self._open()
            if mapped.size() < len(self._view):
                raise FormatError(
                    f"{self._path} was {len(self._view):,} bytes long when it was mapped, and has {mapped.size():,} now"
                )
        except BaseException:
            returned(pairs.addresses)
            raise
        return _lent(self._view, 0, metadata, pairs, returned, limits)

    def close(self) -> None:
        self._map = None
        self._view = memoryview(b"")
