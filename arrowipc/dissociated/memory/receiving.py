"""Memory that receives bodies: for bytes that a peer announces, and for bytes that are copied from its memory."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc._core import aligned_buffer
from arrowipc.errors import FormatError, LimitError
from arrowipc.limits import Limits

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.connection import Reads
    from arrowipc.dissociated.memory.address_pairs import Pairs

#: The alignment of bodies, and of buffers that are fetched one by one.
ALIGNMENT = 64
#: Made once, because making it takes longer than reading a small body.
DEFAULT = Limits()
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


def rounded(size: int, to: int = ALIGNMENT) -> int:
    """Return the next multiple of `to`."""
    return -(-size // to) * to


def announced(peer: str, length: int, limits: Limits) -> memoryview:
    """Return writable memory for bytes that have not arrived yet; pages are only allocated when they are written.

    Up to `Limits.read_ahead` bytes, it comes from the allocator, whose memory may have been used before.
    """
    if length <= limits.read_ahead:
        return memoryview(aligned_buffer(length))
    try:
        return memoryview(mmap.mmap(-1, length, flags=FLAGS))
    except (OSError, OverflowError, ValueError):
        raise LimitError(f"{peer} announces {length:,} bytes, more than there is room for") from None


#: Address in the peer's memory, length, and position in the target.
Place = tuple[int, int, int]


def receive_message(
    peer: str,
    metadata: Any,
    pairs: Pairs,
    limits: Limits | None,
    reads: Reads | None,
    copy: Callable[[Sequence[Place], memoryview], None],
) -> Message:
    """Return a message whose body ``copy(places, target)`` copies from a peer: all of it, or the parts in `reads`."""
    if pairs.total >= pairs.body_length + ALIGNMENT:
        raise FormatError(f"the pairs have {pairs.total:,} bytes, and the body {pairs.body_length:,}")
    places, moved, at = [], [], 0
    for address, length in pairs.places:
        moved.append(ALIGNMENT + at if address else 0)  # address 0 stands for zeros, not for a place
        if address:
            places.append((address, length, at))
            at += rounded(length)
    # Allocate memory for the whole body: pages that are not read are never touched.
    target = announced(peer, at, limits or DEFAULT)
    here = pairs.moved(moved)
    message = None
    if reads is not None:
        message = here.message(metadata, target, ALIGNMENT, limits)
        stretches = reads(message, target)
        if stretches is None:
            message = None  # it may contain joined bytes that were not copied yet: make it again
        else:
            places = list(_cut(places, stretches))
    copy(places, target)
    return message or here.message(metadata, target, ALIGNMENT, limits)


def _cut(places: Sequence[Place], stretches: Sequence[tuple[int, int]]) -> Iterator[Place]:
    """Yield the parts of places whose positions are in the ranges `stretches`."""
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
    """Join places that follow each other both at the peer and in the target, with at most padding in between."""
    joined: list[Place] = []
    for address, length, at in places:
        if joined:
            before, size, position = joined[-1]
            if address - before == at - position and 0 <= at - position - size < ALIGNMENT:
                joined[-1] = before, at - position + length, position
                continue
        joined.append((address, length, at))
    return joined
