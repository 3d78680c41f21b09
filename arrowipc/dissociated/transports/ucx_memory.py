"""Bodies that UCX clients read by themselves (body type 1): mapped where memory is shared, else fetched.

Addresses are those of the server's process, and `remote_handle` is the packed key of its one region.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arrowipc import _libucp, _ucx
from arrowipc._lease import Lease
from arrowipc._pairs import Pairs, write_pairs
from arrowipc.dissociated.connection import Connection, Deadline, OfferedMemory, PeerMemory
from arrowipc.dissociated.room import ALIGNMENT, Ranges, rounded
from arrowipc.errors import FormatError

if TYPE_CHECKING:
    from arrowipc._message import Message
    from arrowipc.dissociated.transports.ucx import UcxConnection
    from arrowipc.limits import Limits

__all__ = ["UcxArena", "UcxPeerMemory"]


# -- the server's side ---------------------------------------------------------------------------------------


class _Block:
    """Memory of one body, and how many of its buffers clients hold."""

    __slots__ = ("addresses", "is_retired", "leases", "size", "start")

    def __init__(self, start: int, size: int, addresses: list[int]) -> None:
        self.start = start
        self.size = size
        self.addresses = addresses
        self.leases = len(addresses)
        self.is_retired = False


class UcxArena(OfferedMemory):
    """One registered region that bodies are put into, for as long as there is room.

    What a client held when it went is never used again: it may still read there. The key of the region stands
    in the URI, so there is no second one: an arena whose clients are killed again and again fills up, and
    then bodies are sent.

    Parameters
    ----------
    context : arrowipc._libucp.Context
        With `remote_memory`.
    size : int
        Bytes.
    """

    def __init__(self, context: _libucp.Context, size: int) -> None:
        self._region = _ucx.Region(context, size)
        self.remote_handle = self._region.key
        self._memory = memoryview(self._region)
        first = rounded(self._region.address)
        self._ranges = Ranges(first, self._region.address + self._region.size)
        self._blocks: dict[int, _Block] = {}
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """int: bytes that bodies may be put into."""
        with self._lock:
            return self._ranges.free

    def place(
        self, message: Message, connection: Connection
    ) -> tuple[bytes, Sequence[int], Sequence[int]] | None:
        """See `OfferedMemory.place`."""
        size = rounded(message.body_length)
        with self._lock:
            start = self._ranges.take(size)
        if start is None:
            return None
        offset = start - self._region.address
        message.copy_body_into(self._memory[offset : offset + message.body_length])
        pairs = write_pairs(message, start)
        addresses = Pairs(pairs).addresses
        with self._lock:
            if not addresses:
                self._ranges.give(start, size)
                return None
            block = _Block(start, size, addresses)
            self._blocks.update(dict.fromkeys(addresses, block))
        return pairs, addresses, ()

    def release(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.release`."""
        self._end(addresses, retire=False)

    def abandon(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.abandon`."""
        self._end(addresses, retire=True)

    def _end(self, addresses: Sequence[int], retire: bool) -> None:
        with self._lock:
            for address in addresses:
                block = self._blocks[address]
                block.leases -= 1
                block.is_retired = block.is_retired or retire
                if block.leases == 0:
                    for each in set(block.addresses):
                        del self._blocks[each]
                    if not block.is_retired:
                        self._ranges.give(block.start, block.size)


# -- the client's side ---------------------------------------------------------------------------------------

#: Elsewhere nothing tells what is mapped, and bodies are fetched.
LINUX = sys.platform == "linux"
#: How often a key is opened to see what that maps.
ATTEMPTS = 3
#: One key at a time is opened: what it maps is told by looking before and after.
_opening = threading.Lock()


def shared_mappings() -> set[tuple[int, int]]:
    """Return start and end of the memory that this process shares with others and may read."""
    found: set[tuple[int, int]] = set()
    if not LINUX:
        return found
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, permissions = line.split(maxsplit=2)[:2]
        if permissions[0] == "r" and permissions[3] == "s":
            start, _, end = place.partition("-")
            found.add((int(start, 16), int(end, 16)))
    return found


class UcxPeerMemory(PeerMemory):
    """The way into the region of a server: in place where UCX maps it, else by copying from there.

    Mapped memory belongs to the server, which could shorten it: for servers that are trusted.

    Parameters
    ----------
    connection : UcxConnection
    key : bytes
        `remote_handle` of the URI.
    timeout : float, optional
        Seconds that fetching a body may take.
    """

    def __init__(self, connection: UcxConnection, key: bytes, timeout: float | None = None) -> None:
        self._connection = connection
        self._packed = key
        self._timeout = timeout
        self._key: _ucx.RemoteKey | None = None
        self._mapped: list[tuple[int, int]] = []

    def message(self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None) -> Message:
        """See `PeerMemory.message`."""
        addresses = pairs.addresses
        if not addresses:
            returned(addresses)
            return pairs.message(metadata, b"", 0, limits)
        with self._connection.lock:
            key = self._key or self._open(pairs.start)
            place = key.place(pairs.start) if LINUX else None
            if place is None:
                try:
                    memory, moved = self._fetch(key, pairs)
                finally:
                    returned(addresses)
                return moved.message(metadata, memory, moved.start, limits)
            lease = Lease(self._mapping(key, place, pairs), returned, addresses)
        return pairs.message(metadata, lease, pairs.start, limits)

    def _open(self, address: int) -> _ucx.RemoteKey:
        """Open the key, and find what of this process's memory that maps."""
        keys = []
        with _opening:
            for _ in range(ATTEMPTS):
                before = shared_mappings()
                self._key = key = _ucx.RemoteKey(self._connection.worker, self._packed)
                self._mapped = sorted(shared_mappings() - before)
                if not LINUX or (place := key.place(address)) is None or self._extent(place):
                    break
                # In between, another thread may have let go of a mapping whose place this one took. It is
                # kept so that the next is elsewhere.
                keys.append(key)
        return key

    def _extent(self, place: int) -> int:
        """Return how many bytes the key has mapped from a place of this process on."""
        return next((end - place for start, end in self._mapped if start <= place < end), 0)

    def _mapping(self, key: _ucx.RemoteKey, place: int, pairs: Pairs) -> _ucx.Mapped:
        """Return what the pairs speak of, if the key has mapped it: UCX checks no address."""
        size = pairs.end - pairs.start
        if size > self._extent(place):
            raise FormatError(
                f"the pairs speak of {size:,} bytes at address {pairs.start:#x} of {self._connection.name}, "
                "which do not lie in the memory that its remote_handle opens"
            )
        return _ucx.Mapped(key, place, place + size)

    def _fetch(self, key: _ucx.RemoteKey, pairs: Pairs) -> tuple[Any, Pairs]:
        """Copy what the pairs speak of; returns the copy, and the pairs that speak of that."""
        places = pairs.places
        if pairs.end - pairs.start <= pairs.total + ALIGNMENT * len(places):
            memory = self._connection.room(pairs.end - pairs.start)
            self._get(key, [(pairs.start, memory)])
            return memory, pairs
        memory = self._connection.room(sum(rounded(length) for _, length in places))
        view, at = memoryview(memory), 0
        wanted, starts = [], []
        for address, length in places:
            wanted.append((address, view[at : at + length]))
            starts.append(ALIGNMENT + at)
            at += rounded(length)
        self._get(key, wanted)
        return memory, pairs.moved(starts)

    def _get(self, key: _ucx.RemoteKey, wanted: list[tuple[int, Any]]) -> None:
        connection, deadline = self._connection, Deadline(self._timeout)
        operations = [connection.worker.get(key, address, memory) for address, memory in wanted]
        for operation in operations:
            connection.complete(operation, deadline, "fetching a body")

    def close(self) -> None:
        """See `PeerMemory.close`."""
        self._key = None
