"""Segments of memory for bodies, and the counts of leases that clients hold.

* Memory that a client gave back is used again, because pages that exist are many times faster than fresh ones.
* Memory that a client held when it disconnected is never used again, because it may still read: it is *retired*. A
  segment with retired memory takes no more bodies, and is released when nothing in it is held any more.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from arrowipc.dissociated.connection import Connection, OfferedMemory, Placed
from arrowipc.dissociated.memory.address_pairs import Pairs, write_pairs
from arrowipc.dissociated.memory.receiving import ALIGNMENT, rounded

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message


class Ranges:
    """The free ranges of bytes from `start` to `end`.

    `take` uses the lowest range that is large enough, so that few pages are in use, and often the same ones.
    """

    def __init__(self, start: int, end: int) -> None:
        self._free = [(start, end)] if start < end else []

    def take(self, size: int) -> int | None:
        """Take `size` bytes and return their start; None if no free range is large enough."""
        for index, (start, end) in enumerate(self._free):
            if end - start >= size:
                if end - start == size:
                    del self._free[index]
                else:
                    self._free[index] = (start + size, end)
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Free bytes that were taken."""
        end = start + size
        index = bisect_right(self._free, (start, end))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            start = self._free.pop(index - 1)[0]
        insort(self._free, (start, end))


class BodyMemory:
    """A block of memory for one body."""

    __slots__ = ("fresh", "leases", "retired", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start: int = start
        self.size: int = size
        #: Number of pairs that clients were sent and have not given back, plus one for a body that is held.
        self.leases: int = 0
        self.retired: bool = False
        #: Address from which pages are not allocated yet; only some segments use it.
        self.fresh: int = start


class Segment(ABC):
    """Base of memory that is lent block by block and released as a whole; counts its leases."""

    def __init__(self, address: int, size: int, head: int) -> None:
        self.address = address
        self.size = size
        self.ranges: Ranges = Ranges(rounded(address + head), address + size)
        self.blocks: dict[int, BodyMemory] = {}
        self._starts: list[int] = []
        #: It takes no more bodies: some memory is retired, or all is held.
        self.is_shut: bool = False
        #: It contains only bodies that messages hold (`OfferedMemory.hold`).
        self.is_held = False
        self.retired: int = 0
        #: Number of bodies that are being copied into it.
        self.writers = 0
        #: Connections whose clients have access to it.
        self.known: weakref.WeakSet[Connection] = weakref.WeakSet()

    def take(self, size: int) -> BodyMemory | None:
        """Return a new block; None if there is no room."""
        size = rounded(size)
        start = self.ranges.take(size)
        if start is None:
            return None
        block = self.blocks[start] = BodyMemory(start, size)
        insort(self._starts, start)
        return block

    def find(self, address: int) -> BodyMemory | None:
        """Return the block that contains an address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        block = self.blocks[self._starts[index]]
        return block if address < block.start + block.size else None

    def end_leases(self, block: BodyMemory, count: int = 1) -> None:
        """End leases of a block; after the last one, its memory is free, or retired."""
        block.leases -= count
        self.is_shut |= block.retired
        if block.leases:
            return
        del self.blocks[block.start]
        del self._starts[bisect_right(self._starts, block.start) - 1]
        if block.retired:
            self.retired += block.size
        else:
            self.ranges.give(block.start, block.size)

    @property
    def is_over(self) -> bool:
        """Whether nothing in it is held any more, and no more bodies are put in."""
        return self.is_shut and not self.blocks

    @abstractmethod
    def write(self, message: Message, block: BodyMemory) -> None:
        """Copy a body into a block."""

    def close(self) -> None:  # noqa: B027 - some is gone with its last reference
        """Release the memory; it lives on where clients have mapped it."""


SegmentT = TypeVar("SegmentT", bound=Segment)


class SegmentedMemory(OfferedMemory, Generic[SegmentT]):
    """Base of memory that consists of segments; a new one is made when there is no room in the others."""

    def __init__(self, capacity: int, segment_bytes: int, least_bytes: int) -> None:
        self._capacity = capacity
        self._segment_bytes = min(segment_bytes, capacity)
        self._least_bytes = least_bytes
        self._lock = threading.Lock()
        #: The segments by their addresses.
        self._segments: dict[int, SegmentT] = {}
        self._pid = os.getpid()  # a forked child has a copy of the counts, but not the memory
        self._closed = False

    # -- methods that subclasses override --

    def _make(self, size: int) -> SegmentT:
        """Return a new segment; raise OSError or MemoryError if that is impossible."""
        raise MemoryError

    def _segment_at(self, address: int) -> SegmentT | None:
        """Return the segment that contains an address."""
        return next(iter(self._segments.values()), None)

    def _describe_placed(
        self, segment: SegmentT, connection: Connection, pairs: bytes, addresses: Sequence[int]
    ) -> Placed:
        """Return the data to send for a body that was placed, and what the client needs for access to its segment."""
        return Placed(pairs, addresses)

    def _end_held(self) -> None:
        """End the leases of bodies whose messages are gone; the caller holds the lock."""

    # -- lending --

    def place(self, message: Message, connection: Connection) -> Placed | None:
        if message.body_length < self._least_bytes or self._pid != os.getpid():
            return None
        with self._lock:
            self._end_held()
            reserved = self._reserve(message.body_length)
            if reserved is None:
                return None
            segment, block = reserved
            block.leases = 1  # of this call, while the body is copied
            segment.writers += 1
        addresses: Sequence[int] = ()
        try:
            segment.write(message, block)
            pairs = write_pairs(message, block.start)
            addresses = Pairs(pairs).addresses
        except OSError:
            block.retired = True  # never used again: there was no memory for some of its pages
        finally:
            with self._lock:
                block.leases += len(addresses)
                self._end_leases(segment, block)
                self._end_write(segment)
        return self._describe_placed(segment, connection, pairs, addresses) if addresses else None

    def _reserve(self, size: int) -> tuple[SegmentT, BodyMemory] | None:
        """Find room for a body, in an existing segment or in a new one."""
        if self._closed or size == 0:
            return None
        for segment in self._segments.values():
            if not segment.is_shut and (block := segment.take(size)):
                return segment, block
        new = self._new_segment(size)
        return (new, block) if new is not None and (block := new.take(size)) else None

    def _new_segment(self, size: int) -> SegmentT | None:
        """Make a segment for a body; if the capacity is reached, release unused segments first."""
        needed = rounded(size + 2 * ALIGNMENT, mmap.PAGESIZE)
        if needed > self._capacity:
            return None
        wished = max(needed, self._segment_bytes)
        for segment in list(self._segments.values()):
            if self._size() + wished <= self._capacity:
                break
            if not segment.blocks and not segment.is_held:
                self._let_go(segment)
        wished = min(wished, self._capacity - self._size())
        return self._add_segment(wished) if wished >= needed else None

    def _size(self) -> int:
        """Bytes that count towards the capacity."""
        return sum(each.size for each in self._segments.values() if not each.is_held)

    def _add_segment(self, size: int) -> SegmentT | None:
        try:
            segment = self._make(size)
        except (OSError, MemoryError):
            return None  # bodies can still be sent
        self._segments[segment.address] = segment
        return segment

    def _introduces(self, segment: SegmentT, connection: Connection) -> bool:
        """Whether a client has no access to a segment yet; it counts as having access from now on."""
        with self._lock:
            if connection in segment.known:
                return False
            segment.known.add(connection)
            return True

    # -- taking back --

    def release(self, addresses: Sequence[int]) -> None:
        self._take_back(addresses, retire=False)

    def abandon(self, addresses: Sequence[int]) -> None:
        self._take_back(addresses, retire=True)

    def _take_back(self, addresses: Sequence[int], retire: bool) -> None:
        if self._pid == os.getpid():
            with self._lock:
                self._end_held()
                self._end(addresses, retire)

    def _blocks(self, addresses: Iterable[int]) -> Iterator[tuple[SegmentT, BodyMemory, int]]:
        """Yield the blocks at addresses, each with a count of consecutive addresses: wide batches have thousands."""
        segment: SegmentT | None = None
        block: BodyMemory | None = None
        start = end = count = 0
        for address in addresses:
            if start <= address < end:
                count += 1
                continue
            if segment is not None and block is not None:
                yield segment, block, count
            segment = self._segment_at(address)
            block = None if segment is None else segment.find(address)
            start, end, count = (0, 0, 0) if block is None else (block.start, block.start + block.size, 1)
        if segment is not None and block is not None:
            yield segment, block, count

    def _end(self, addresses: Iterable[int], retire: bool = False) -> None:
        """End one lease for each address."""
        for segment, block, count in self._blocks(addresses):
            if block.leases > 0:
                block.retired |= retire
                self._end_leases(segment, block, min(count, block.leases))

    def _end_leases(self, segment: SegmentT, block: BodyMemory, count: int = 1) -> None:
        segment.end_leases(block, count)
        if segment.is_over:
            self._let_go(segment)

    def _end_write(self, segment: SegmentT) -> None:
        segment.writers -= 1
        if self._closed or segment.is_over:
            self._let_go(segment)

    def _let_go(self, segment: SegmentT) -> None:
        # If a thread still writes into it, that thread releases it afterwards.
        if not segment.writers and self._segments.get(segment.address) is segment:
            del self._segments[segment.address]
            segment.close()

    def close(self) -> None:
        """Offer no more memory; clients and messages keep the memory that they hold."""
        if self._pid != os.getpid():
            return  # a child must not wait for a lock that a thread held when it was forked
        with self._lock:
            self._closed = True
            for segment in list(self._segments.values()):
                self._let_go(segment)
