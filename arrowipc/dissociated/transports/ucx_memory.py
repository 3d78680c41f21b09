"""Bodies that UCX clients read by themselves (body type 1): mapped if memory can be shared, else copied.

Addresses are those of the server's process. Its memory is one registered region, whose packed key is the
`remote_handle`, as in the specification.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer
from arrowipc.dissociated.connection import SLOWEST, Deadline, PeerMemory
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs
from arrowipc.dissociated.memory.receiving import Place, in_a_row, receive_message
from arrowipc.dissociated.memory.segments import BodyMemory, Segment, SegmentedMemory
from arrowipc.dissociated.transports import ucx_worker
from arrowipc.errors import FormatError

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.connection import Reads
    from arrowipc.dissociated.transports.ucx import UcxConnection
    from arrowipc.limits import Limits

# -- the server's side ---------------------------------------------------------------------------------------


class UcxSegment(Segment):
    """A registered region; it is unregistered with the last reference to it."""

    def __init__(self, context: ucx_worker.Context, size: int) -> None:
        region = ucx_worker.Region(context, size)
        super().__init__(region.address, region.size, 0)
        self.key: bytes = region.key
        self.memory: memoryview = memoryview(region)

    def end_leases(self, block: BodyMemory, count: int = 1) -> None:
        """See `Segment.end_leases`; there is no other region, so this one stays in use, except for retired memory."""
        super().end_leases(block, count)
        self.is_shut = False

    def write(self, message: Message, block: BodyMemory) -> None:
        offset = block.start - self.address
        message.copy_body_into(self.memory[offset : offset + message.body_length])


class UcxArena(SegmentedMemory[UcxSegment]):
    """Registered memory for bodies; if there is no room, bodies are sent.

    Memory that a killed client held is not used again.
    """

    def __init__(self, context: ucx_worker.Context, capacity: int, least_bytes: int) -> None:
        check_integer("memory", capacity, 1, sys.maxsize)
        check_integer("least_bytes", least_bytes, 0, sys.maxsize)
        super().__init__(capacity, capacity, least_bytes)
        region = UcxSegment(context, capacity)
        self._segments[region.address] = region
        self.remote_handle: bytes = region.key

    def _new_segment(self, size: int) -> None:
        return None  # clients could not learn its key: the URI has only one


# -- the client's side ---------------------------------------------------------------------------------------

#: Attempts to open a key and find its mapping.
ATTEMPTS = 3
#: Held while a key is opened: its mapping is found by comparing the maps of the process before and after.
_opening = threading.Lock()


def shared_mappings() -> set[tuple[int, int]]:
    """Return start and end of the shared readable mappings of this process."""
    found: set[tuple[int, int]] = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, permissions = line.split(maxsplit=2)[:2]
        if permissions[0] == "r" and permissions[3] == "s":
            start, _, end = place.partition("-")
            found.add((int(start, 16), int(end, 16)))
    return found


class UcxPeerMemory(PeerMemory):
    """Access to the memory of a server: in place if UCX maps it, else by copying.

    A server could shorten memory that is mapped, so it must be trusted.
    """

    def __init__(self, connection: UcxConnection, handle: bytes, timeout: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._handle = handle
        self._key: ucx_worker.RemoteKey | None = None
        #: Start and end, in this process, of the memory that the key has mapped.
        self._mapped: list[tuple[int, int]] = []

    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        addresses = pairs.addresses
        if not addresses:
            returned(addresses)
            return pairs.message(metadata, b"", 0, limits)
        with self._connection.lock:
            key = self._key or self._open(pairs.start)
            place = key.place(pairs.start)
            if place is None:
                message = receive_message(
                    self._connection.name, metadata, pairs, limits, reads, partial(self._fetch, key)
                )
                # Not after an error: memory that is still being fetched must not be given back to the server.
                returned(addresses)
                return message
            size = pairs.end - pairs.start
            if size > self._extent(place):  # UCX does not check addresses
                raise FormatError(
                    f"the pairs speak of {size:,} bytes at address {pairs.start:#x} of {self._connection.name}, "
                    "which do not lie in the memory that its remote_handle opens"
                )
            lease = Lease(key.mapped(place, size), returned, addresses)
        return pairs.message(metadata, lease, pairs.start, limits)

    def _open(self, address: int) -> ucx_worker.RemoteKey:
        """Open the key, and find the memory that it maps in this process."""
        keys = []
        with _opening:
            for _ in range(ATTEMPTS):
                before = shared_mappings()
                key = ucx_worker.RemoteKey(self._connection.worker, self._handle)
                self._mapped = sorted(shared_mappings() - before)
                if (place := key.place(address)) is None or self._extent(place):
                    break
                # No new mapping was found: perhaps it is at the place of one that another thread has just unmapped.
                # Keep this key, so that the next one is mapped elsewhere.
                keys.append(key)
        self._key = key
        return key

    def _extent(self, place: int) -> int:
        """Return how many bytes the key has mapped from an address in this process on."""
        return next((end - place for start, end in self._mapped if start <= place < end), 0)

    def _fetch(self, key: ucx_worker.RemoteKey, places: Sequence[Place], target: memoryview) -> None:
        """Copy the bytes at the places from the peer to `target`."""
        connection = self._connection
        deadline = Deadline(self._timeout, len(target) / SLOWEST)
        operations = [
            connection.worker.get(key, address, target[at : at + length]) for address, length, at in in_a_row(places)
        ]
        for operation in operations:
            connection.complete(operation, deadline, "fetching a body")

    def close(self) -> None:
        self._key, self._mapped = None, []
