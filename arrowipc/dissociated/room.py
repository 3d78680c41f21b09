"""Room for bodies: memory for what a peer announces, and the free ranges of memory that is lent."""

from __future__ import annotations

import mmap
from bisect import bisect_right, insort

from arrowipc._core import aligned_buffer
from arrowipc.errors import LimitError
from arrowipc.limits import Limits

__all__ = ["ALIGNMENT", "Ranges", "announced", "rounded"]

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
