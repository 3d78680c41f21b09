"""Bodies that UCX clients read by themselves (body type 1): mapped where memory is shared, else fetched.

Addresses are those of the server's process. Its memory consists of segments, registered regions of which each
has a key of its own, so that one in which nothing is held any more can be unregistered:

* `remote_handle` is the packed key of the first segment, as the specification has it, and `SEGMENTED` behind
  it, which UCX does not look at. A client that understands that says so by an empty message with the tag
  `SEGMENTS`.
* The first body in a segment that such a client is told of has a `Description` of the segment behind its
  pairs. Other clients are told of bodies in the first segment only.
* A segment begins with random bytes that are in its description too. Who finds them there after it has read
  has read this segment, and not what was put at the same addresses after it was let go of.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc.arguments import check_integer
from arrowipc.dissociated.connection import Connection, Deadline, PeerMemory, Placed
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs
from arrowipc.dissociated.memory.receiving import Place, copied, in_a_row
from arrowipc.dissociated.memory.segments import BodyMemory, Segment, SegmentedMemory
from arrowipc.dissociated.transports import ucx_worker
from arrowipc.errors import FormatError, TruncatedError

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Reads
    from arrowipc.dissociated.transports.ucx import UcxConnection
    from arrowipc.limits import Limits
    from arrowipc.read.framing import Message

__all__ = ["SEGMENTED", "Description", "UcxArena", "UcxPeerMemory"]

#: At the end of a `remote_handle`: there are segments with keys of their own.
SEGMENTED = b"arrowipc:segments"
#: Bytes of what tells a segment from all others.
IDENTITY = 16


class Description(NamedTuple):
    """A segment as its server tells of it."""

    identity: bytes
    start: int
    size: int
    others: tuple[int, ...]  #: where all segments begin that there are now, this one too
    key: bytes

    def packed(self) -> bytes:
        """Return it as it is sent."""
        words = (self.start, self.size, len(self.others), *self.others)
        return self.identity + struct.pack(f"<{len(words)}Q", *words) + self.key

    @classmethod
    def parse(cls, data: bytes) -> Description:
        """Return what was sent.

        Raises
        ------
        FormatError
            It is cut short, or no place in memory.
        """
        at = IDENTITY + 24
        if len(data) < at:
            raise FormatError(f"the description of a segment has {at} bytes and more, found {len(data):,}")
        start, size, count = struct.unpack_from("<3Q", data, IDENTITY)
        if count > (len(data) - at) // 8 or size < IDENTITY or start + size > 1 << 64:
            raise FormatError(
                f"the description of a segment of {size:,} bytes at {start:#x} that names {count:,} others "
                f"has {len(data):,} bytes"
            )
        others = struct.unpack_from(f"<{count}Q", data, at)
        return cls(data[:IDENTITY], start, size, others, data[at + 8 * count :])


# -- the server's side ---------------------------------------------------------------------------------------


class UcxSegment(Segment):
    """A registered region; it is unregistered when the last reference to it goes. The URI has the key of the first."""

    def __init__(self, context: ucx_worker.Context, size: int, is_first: bool) -> None:
        region = ucx_worker.Region(context, size)
        super().__init__(region.address, region.size, IDENTITY)
        self.key: bytes = region.key
        self.is_first = is_first
        self.identity: bytes = os.urandom(IDENTITY)
        self.memory: memoryview = memoryview(region)
        self.memory[:IDENTITY] = self.identity

    def write(self, message: Message, block: BodyMemory) -> None:
        """See `Segment.write`."""
        offset = block.start - self.address
        message.copy_body_into(self.memory[offset : offset + message.body_length])


class UcxArena(SegmentedMemory[UcxSegment]):
    """Registered memory that bodies are put into, for as long as there is room.

    A killed client takes what it held along. The segments in which that lies take no more bodies, and go when
    the other clients have given back what they hold there: no key opens them from then on, and what is mapped
    stays with whoever maps it.

    Parameters
    ----------
    context : arrowipc.dissociated.transports.ucx_worker.Context
        With `remote_memory`.
    capacity : int
        Bytes of all segments together.
    segment_bytes : int
        Size of one segment. A larger body gets its own segment.
    least_bytes : int
        Smaller bodies are sent, which is faster: over a network 60 us for one of 80 bytes, instead of 470 to
        fetch it.
    """

    def __init__(self, context: ucx_worker.Context, capacity: int, segment_bytes: int, least_bytes: int) -> None:
        check_integer("memory", capacity, 1, sys.maxsize)
        check_integer("segment_bytes", segment_bytes, 1, sys.maxsize)
        check_integer("least_bytes", least_bytes, 0, sys.maxsize)
        super().__init__(capacity, segment_bytes, least_bytes)
        self._context = context
        first = UcxSegment(context, self._segment_bytes, is_first=True)
        self._segments[first.address] = first
        self.remote_handle: bytes = first.key + SEGMENTED

    @property
    def free(self) -> int:
        """int: bytes that bodies may be put into."""
        with self._lock:
            there = sum(each.ranges.free for each in self._segments.values() if not each.is_shut)
            return there + max(0, self._capacity - self._size())

    def _make(self, size: int) -> UcxSegment:
        return UcxSegment(self._context, size, is_first=False)

    def _segment_at(self, address: int) -> UcxSegment | None:
        every = self._segments.values()
        return next((each for each in every if each.address <= address < each.address + each.size), None)

    def _reaches(self, connection: Connection, segment: UcxSegment | None) -> bool:
        return _knows_segments(connection) or (segment is not None and segment.is_first)

    def _told(self, segment: UcxSegment, connection: Connection, pairs: bytes, addresses: Sequence[int]) -> Placed:
        if _knows_segments(connection) and self._introduces(segment, connection):
            with self._lock:
                others = tuple(self._segments)
            pairs += Description(segment.identity, segment.address, segment.size, others, segment.key).packed()
        return Placed(pairs, addresses)


def _knows_segments(connection: Connection) -> bool:
    """Whether the client at the other end said so."""
    return bool(getattr(connection, "knows_segments", False))


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


class _RemoteSegment:
    """A segment of a server, and the key that opens it.

    Parameters
    ----------
    packed : bytes
        The key.
    description : Description or None
        None: of the segment whose key is in the URI, where the server says no more.
    """

    def __init__(self, packed: bytes, description: Description | None = None) -> None:
        self.packed = packed
        self.description = description
        self.key: ucx_worker.RemoteKey | None = None
        self.mapped: list[tuple[int, int]] = []

    def open(self, connection: UcxConnection, address: int) -> ucx_worker.RemoteKey:
        """Open the key, and find what of this process's memory that maps."""
        keys = []
        with _opening:
            for _ in range(ATTEMPTS):
                before = shared_mappings()
                self.key = key = ucx_worker.RemoteKey(connection.worker, self.packed)
                self.mapped = sorted(shared_mappings() - before)
                if not LINUX or (place := key.place(address)) is None or self.extent(place):
                    break
                # In between, another thread may have let go of a mapping whose place this one took. It is
                # kept so that the next is elsewhere.
                keys.append(key)
        return key

    def extent(self, place: int) -> int:
        """Return how many bytes the key has mapped from a place of this process on."""
        return next((end - place for start, end in self.mapped if start <= place < end), 0)

    def has(self, start: int, end: int) -> bool:
        """Whether the segment reaches from one address to another."""
        known = self.description
        return known is not None and known.start <= start and end <= known.start + known.size


class UcxPeerMemory(PeerMemory):
    """The way into the memory of a server: in place where UCX maps it, else by copying from there.

    Mapped memory belongs to the server, which could shorten it: for servers that are trusted.

    Parameters
    ----------
    handle : bytes
        `remote_handle` of the URI.
    timeout : float, optional
        Seconds that fetching a body may take.
    """

    def __init__(self, connection: UcxConnection, handle: bytes, timeout: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._first = _RemoteSegment(handle.removesuffix(SEGMENTED))
        #: By where they begin: the segments that the server has told of.
        self._segments: dict[int, _RemoteSegment] = {}
        if handle.endswith(SEGMENTED):
            connection.ask_for_segments()

    @property
    def is_mapped(self) -> bool:
        """bool: all bodies so far are in memory that this process shares with the server."""
        return any(each.mapped for each in (self._first, *self._segments.values()))

    def message(
        self, metadata: Any, pairs: Pairs, returned: Any, limits: Limits | None, reads: Reads | None = None
    ) -> Message:
        """See `PeerMemory.message`."""
        addresses = pairs.addresses
        if not addresses:
            returned(addresses)
            return pairs.message(metadata, b"", 0, limits)
        with self._connection.lock:
            segment = self._segment(pairs)
            key = segment.key or segment.open(self._connection, pairs.start)
            place = key.place(pairs.start) if LINUX else None
            if place is None:

                def copy(places: Sequence[Place], target: memoryview) -> None:
                    self._fetch(segment, key, places, target)

                message = copied(self._connection.name, metadata, pairs, limits, reads, copy)
                # Not after an error: what is still being fetched must not go back to the server.
                returned(addresses)
                return message
            lease = Lease(self._mapping(segment, key, place, pairs), returned, addresses)
        return pairs.message(metadata, lease, pairs.start, limits)

    def _segment(self, pairs: Pairs) -> _RemoteSegment:
        """Return the segment that the pairs refer to."""
        while self._connection.descriptions:
            told = Description.parse(self._connection.descriptions.popleft())
            # Those that are gone would hold on to memory that nobody else has any more.
            self._segments = {start: segment for start, segment in self._segments.items() if start in told.others}
            self._segments[told.start] = _RemoteSegment(told.key, told)
        for segment in self._segments.values():
            if segment.has(pairs.start, pairs.end):
                return segment
        return self._first

    def _mapping(
        self, segment: _RemoteSegment, key: ucx_worker.RemoteKey, place: int, pairs: Pairs
    ) -> ucx_worker.Mapped:
        """Return the memory that the pairs refer to, if the key has mapped it: UCX checks no address."""
        size = pairs.end - pairs.start
        if size > segment.extent(place):
            raise FormatError(
                f"the pairs speak of {size:,} bytes at address {pairs.start:#x} of {self._connection.name}, "
                "which do not lie in the memory that its remote_handle opens"
            )
        if segment.description is not None:
            begin = place - (pairs.start - segment.description.start)
            if segment.extent(begin) < IDENTITY:
                raise self._gone()
            identity = bytes(memoryview(ucx_worker.Mapped(key, begin, begin + IDENTITY)))
            if identity != segment.description.identity:
                raise self._gone()
        return ucx_worker.Mapped(key, place, place + size)

    def _gone(self) -> TruncatedError:
        return TruncatedError(f"{self._connection.name} released memory before the client had read it")

    def _fetch(
        self, segment: _RemoteSegment, key: ucx_worker.RemoteKey, places: Sequence[Place], target: memoryview
    ) -> None:
        """Copy what is at the places."""
        self._get(key, [(address, target[at : at + length]) for address, length, at in in_a_row(places)])
        if segment.description is not None and self._connection.is_local:
            # The kernel copies from a process without asking it. Over a network the server answers, or its
            # device, which knows which keys there are.
            found = bytearray(IDENTITY)
            self._get(key, [(segment.description.start, found)])
            if found != segment.description.identity:
                raise self._gone()

    def _get(self, key: ucx_worker.RemoteKey, wanted: list[tuple[int, Any]]) -> None:
        connection, deadline = self._connection, Deadline(self._timeout)
        operations = [connection.worker.get(key, address, memory) for address, memory in wanted]
        for operation in operations:
            connection.complete(operation, deadline, "fetching a body")

    def close(self) -> None:
        """See `PeerMemory.close`."""
        self._first = _RemoteSegment(b"")
        self._segments.clear()
