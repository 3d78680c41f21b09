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
from typing import TYPE_CHECKING

from arrowipc._core import aligned_buffer
from arrowipc.errors import LimitError
from arrowipc.limits import Limits

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection

__all__ = ["ALIGNMENT", "Block", "Lent", "Ranges", "announced", "rounded"]

#: What bodies, and buffers that are fetched one by one, begin at multiples of.
ALIGNMENT = 64
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


class Block:
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
        self.blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        #: No more bodies: some memory is retired, or all of it belongs to bodies that are held.
        self.is_shut = False
        self.retired = 0
        #: Connections that know how to get there.
        self.known: weakref.WeakSet[Connection] = weakref.WeakSet()

    def take(self, size: int) -> Block | None:
        """Return a new block; None: there is no room."""
        size = rounded(size)
        start = self.ranges.take(size)
        if start is None:
            return None
        block = self.blocks[start] = Block(start, size)
        insort(self._starts, start)
        return block

    def find(self, place: int) -> Block | None:
        """Return the block that a byte lies in."""
        index = bisect_right(self._starts, place) - 1
        if index < 0:
            return None
        block = self.blocks[self._starts[index]]
        return block if place < block.start + block.size else None

    def drop(self, block: Block) -> None:
        """Forget a block that nobody holds; its memory is free, or retired."""
        del self.blocks[block.start]
        del self._starts[bisect_right(self._starts, block.start) - 1]
        if block.retired:
            self.retired += block.size
        else:
            self.ranges.give(block.start, block.size)

    def end_lease(self, block: Block) -> None:
        """End one lease of a block; one that is retired shuts the segment."""
        block.leases -= 1
        self.is_shut |= block.retired
        if block.leases == 0:
            self.drop(block)

    @property
    def is_over(self) -> bool:
        """Whether nothing in it is held any more, and nothing will be."""
        return self.is_shut and not self.blocks
