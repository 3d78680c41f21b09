"""Room for bodies: memory for what a peer announces, and the books about memory that is lent.

Two rules govern memory that is lent:

* What a client gave back is used again, because pages that exist are many times faster than fresh ones.
* What a client took along when it went is never used again, because it may still read: it is *retired*. A
  segment with retired memory takes no more bodies, and is let go of when nothing in it is held any more.
"""

from __future__ import annotations

import mmap
import weakref
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc._core import aligned_buffer
from arrowipc.errors import FormatError, LimitError
from arrowipc.limits import Limits
from arrowipc.read.framing import message_kind

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection, Reads
    from arrowipc.dissociated.memory.address_pairs import Pairs
    from arrowipc.read.framing import Message

__all__ = ["ALIGNMENT", "BodyMemory", "Lent", "Place", "Ranges", "announced", "copied", "in_a_row", "rounded"]

#: What bodies, and buffers that are fetched one by one, begin at multiples of.
ALIGNMENT = 64
#: Made once: that takes longer than to read a small body.
DEFAULT = Limits()
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


def rounded(size: int, to: int = ALIGNMENT) -> int:
    """Return the next multiple of `to`."""
    return -(-size // to) * to


def announced(peer: str, length: int, limits: Limits) -> memoryview:
    """Return writable memory for bytes that have not arrived: pages come with what is written to them.

    Up to `Limits.read_ahead` it is memory that was used before, whose pages exist.

    Raises
    ------
    LimitError
        There is no such room.
    """
    if length <= limits.read_ahead:
        return memoryview(aligned_buffer(length))
    try:
        return memoryview(mmap.mmap(-1, length, flags=FLAGS))
    except (OSError, OverflowError, ValueError):
        raise LimitError(f"{peer} announces {length:,} bytes, more than there is room for") from None


#: Address at the peer, length, and position in memory of ours.
Place = tuple[int, int, int]


def copied(
    peer: str,
    metadata: Any,
    pairs: Pairs,
    limits: Limits | None,
    reads: Reads | None,
    copy: Callable[[Sequence[Place], memoryview], None],
) -> Message:
    """Return a message whose body is copied from a peer, as far as somebody reads it.

    Parameters
    ----------
    peer : str
        Its name, for errors.
    metadata : bytes-like
    pairs : Pairs
        Where the body is at the peer.
    limits : Limits, optional
    reads : callable, optional
        See `PeerMemory.message`.
    copy : callable
        ``copy(places, target)`` copies what is at the places of the peer.

    Raises
    ------
    FormatError
        The pairs do not fit the metadata.
    LimitError
        There is no room.
    """
    _, claimed = message_kind(metadata, limits)
    if pairs.total >= claimed + ALIGNMENT:
        raise FormatError(f"the pairs have {pairs.total:,} bytes, and the body {claimed:,}")
    places, moved, at = [], [], 0
    for address, length in pairs.places:
        moved.append(ALIGNMENT + at if address else 0)  # address 0 is no place: those are zeros
        if address:
            places.append((address, length, at))
            at += rounded(length)
    # Room for all of it, as the lengths ask for: pages that nobody reads stay untouched.
    target = announced(peer, at, limits or DEFAULT)
    here = pairs.moved(moved)
    message = None
    if reads is not None:
        message = here.message(metadata, target, ALIGNMENT, limits)
        stretches = reads(message, target)
        if stretches is None:
            message = None  # it may have been put together of what is not there yet
        else:
            places = list(_cut(places, stretches))
    copy(places, target)
    return message or here.message(metadata, target, ALIGNMENT, limits)


def _cut(places: Sequence[Place], stretches: Sequence[tuple[int, int]]) -> Iterator[Place]:
    """Yield the parts of places that lie in stretches of our memory."""
    wanted = sorted(stretches)
    first = 0
    for address, length, at in places:
        while first < len(wanted) and wanted[first][1] <= at:
            first += 1
        position = at
        for start, end in wanted[first:]:
            if start >= at + length:
                break
            start, end = max(start, position), min(end, at + length)
            if start < end:
                yield address + start - at, end - start, start
                position = end


def in_a_row(places: Sequence[Place]) -> list[Place]:
    """Return the places with those joined that follow each other at both ends, but for padding in between."""
    joined: list[Place] = []
    for address, length, at in places:
        if joined:
            before, size, position = joined[-1]
            if address - before == at - position and 0 <= at - position - size < ALIGNMENT:
                joined[-1] = before, at - position + length, position
                continue
        joined.append((address, length, at))
    return joined


class Ranges:
    """Which bytes from `start` to `end` are free.

    The lowest range that is large enough is taken: then the pages in use are few, and often the same ones.
    """

    def __init__(self, start: int, end: int) -> None:
        self._free = [(start, end)] if start < end else []

    @property
    def free(self) -> int:
        """Bytes, in all ranges."""
        return sum(end - start for start, end in self._free)

    def take(self, size: int) -> int | None:
        """Return where `size` bytes are that are free no longer; None: there is no such range."""
        for index, (start, end) in enumerate(self._free):
            if end - start >= size:
                if end - start == size:
                    del self._free[index]
                else:
                    self._free[index] = (start + size, end)
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Make bytes free that were taken."""
        end = start + size
        index = bisect_right(self._free, (start, end))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            start = self._free.pop(index - 1)[0]
        insort(self._free, (start, end))


class BodyMemory:
    """Memory of one body."""

    __slots__ = ("leases", "retired", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        #: Pairs that clients were told of and have not given back, and one for a body that is held.
        self.leases = 0
        self.retired = False


class Lent:
    """Base of a segment, the piece of memory that is lent and let go of as a whole: who holds what of it.

    Parameters
    ----------
    start, end : int
        Of the bytes that bodies may lie in.
    """

    def __init__(self, start: int, end: int) -> None:
        self.ranges = Ranges(start, end)
        self.blocks: dict[int, BodyMemory] = {}
        self._starts: list[int] = []
        #: No more bodies: some memory is retired, or all of it belongs to bodies that are held.
        self.is_shut = False
        self.retired = 0
        #: Connections that know how to get there.
        self.known: weakref.WeakSet[Connection] = weakref.WeakSet()

    def take(self, size: int) -> BodyMemory | None:
        """Return a new block; None: there is no room."""
        size = rounded(size)
        start = self.ranges.take(size)
        if start is None:
            return None
        block = self.blocks[start] = BodyMemory(start, size)
        insort(self._starts, start)
        return block

    def find(self, place: int) -> BodyMemory | None:
        """Return the block that a byte lies in."""
        index = bisect_right(self._starts, place) - 1
        if index < 0:
            return None
        block = self.blocks[self._starts[index]]
        return block if place < block.start + block.size else None

    def drop(self, block: BodyMemory) -> None:
        """Forget a block that nobody holds; its memory is free, or retired."""
        del self.blocks[block.start]
        del self._starts[bisect_right(self._starts, block.start) - 1]
        if block.retired:
            self.retired += block.size
        else:
            self.ranges.give(block.start, block.size)

    def end_lease(self, block: BodyMemory) -> None:
        """End one lease of a block; one that is retired shuts the segment."""
        block.leases -= 1
        self.is_shut |= block.retired
        if block.leases == 0:
            self.drop(block)

    @property
    def is_over(self) -> bool:
        """Whether nothing in it is held any more, and nothing will be."""
        return self.is_shut and not self.blocks
