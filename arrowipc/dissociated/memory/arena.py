"""Shared memory for bodies: segments that clients map, each a sealed memfd.

An address is the number of a segment times 2^48 plus an offset in it. When a segment is released (see `segments`),
the kernel keeps its pages as long as a process maps them.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import queue
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer
from arrowipc.decode.framing import message_of
from arrowipc.dissociated.connection import Connection, Placed, registered
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs, write_places
from arrowipc.dissociated.memory.receiving import ALIGNMENT, rounded
from arrowipc.dissociated.memory.segments import BodyMemory, Segment, SegmentedMemory
from arrowipc.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message

OFFSET_BITS = 48
#: The first bytes of a segment after its server has released it: then clients can release it, too. No body is there.
GONE = b"arrowipc: is gone"
#: Segments have numbers of 16 bits; the number of a released segment is used again.
NUMBERS = 1 << 16

# Of <linux/fcntl.h> and <linux/memfd.h>; Python knows only some of them.
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 0x01, 0x02, 0x04, 0x10
MFD_NOEXEC_SEAL = 0x08
#: The size is final, and only this process writes: clients cannot map the memory writable.
SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE


class MemfdSegment(Segment):
    """A sealed memfd, mapped for writing.

    Forked processes do not inherit the map: only this process may write into memory that clients read.
    """

    fd: int

    def __init__(self, number: int, size: int) -> None:
        self.fd, self._end = _memfd(self)
        try:
            os.ftruncate(self.fd, size)
            self._writable: mmap.mmap | None = mmap.mmap(self.fd, size)
            self._writable.madvise(mmap.MADV_DONTFORK)
            _seal(self.fd)
        except BaseException:
            self._end()
            raise
        # Bodies begin behind GONE.
        super().__init__(number << OFFSET_BITS, size, len(GONE))
        #: The read-only map, for a segment that is held.
        self.readable: memoryview | None = None
        #: Pages before this address are allocated.
        self._prepared = self.address

    def take(self, size: int) -> BodyMemory | None:
        """See `Segment.take`; record which pages of the block are not allocated yet."""
        block = super().take(size)
        if block is not None:
            block.fresh = max(block.start, self._prepared)
            self._prepared = max(self._prepared, block.start + block.size)
        return block

    def write(self, message: Message, block: BodyMemory) -> None:
        """See `Segment.write`; allocate pages first: writing to pages without memory would kill the process."""
        assert self._writable is not None  # the caller is counted in `writers`, so the segment is open
        start, missing = block.start - self.address, block.start + block.size - block.fresh
        if missing > 0:
            os.posix_fallocate(self.fd, block.fresh - self.address, missing)
        with memoryview(self._writable)[start : start + message.body_length] as part:
            message.copy_body_into(part)

    def map_readable(self) -> memoryview:
        """Return a read-only map of the segment, which forked children inherit."""
        return memoryview(mmap.mmap(self.fd, self.size, prot=mmap.PROT_READ))

    def close(self) -> None:
        """See `Segment.close`; write GONE for the clients."""
        if self.known and self._writable is not None:
            with contextlib.suppress(OSError):  # writing to a page without memory would kill the process
                os.posix_fallocate(self.fd, 0, len(GONE))
                self._writable[: len(GONE)] = GONE
        self._writable = self.readable = None
        self._end()


class Arena(SegmentedMemory[MemfdSegment]):
    """Bodies in shared memory, for clients of the same machine and user."""

    def __init__(
        self, capacity: int | None = 2 << 30, segment_bytes: int = 256 << 20, least_bytes: int = 32 << 10
    ) -> None:
        most = (1 << OFFSET_BITS) - 1
        capacity = most if capacity is None else check_integer("capacity", capacity, 0, most)
        check_integer("segment_bytes", segment_bytes, 0, most)
        check_integer("least_bytes", least_bytes, 0, most)
        if not hasattr(os, "memfd_create"):
            raise UnsupportedError("shared memory that can be sealed (memfd) exists on Linux only")
        super().__init__(capacity, segment_bytes, least_bytes)
        self.remote_handle: bytes = b"memfd"
        self.holds = True
        self._next_number = 1
        self._dropped: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._has_held = False

    def place(self, message: Message, connection: Connection) -> Placed | None:
        """See `OfferedMemory.place`; a body that is held is not copied."""
        held = self._lease_held(message, connection) if self._has_held and self._pid == os.getpid() else None
        return held or super().place(message, connection)

    def _make(self, size: int) -> MemfdSegment:
        if len(self._segments) >= NUMBERS - 1:
            raise OSError("every number of a segment is in use")
        while self._next_number == 0 or self._next_number << OFFSET_BITS in self._segments:
            self._next_number = (self._next_number + 1) % NUMBERS
        number = self._next_number
        self._next_number = (number + 1) % NUMBERS
        return MemfdSegment(number, size)

    def _segment_at(self, address: int) -> MemfdSegment | None:
        return self._segments.get(address >> OFFSET_BITS << OFFSET_BITS)

    def _describe_placed(
        self, segment: MemfdSegment, connection: Connection, pairs: bytes, addresses: Sequence[int]
    ) -> Placed:
        return Placed(pairs, addresses, (segment.fd,) if self._introduces(segment, connection) else ())

    # -- held bodies --

    def hold(self, messages: Iterable[Message], sparing: bool = False) -> list[Message]:
        """See `OfferedMemory.hold`: the bodies get their own segment; bodies that are in the arena stay there.

        Batches that are decoded from the messages are also served from there.
        """
        given = list(messages)
        least = max(1, self._least_bytes if sparing else 1)
        moved = [each.body_length >= least and self._find_held(each) is None for each in given]
        size = sum(rounded(each.body_length) for each, moves in zip(given, moved, strict=True) if moves)
        if not size:
            return given
        with self._new_held(size, sparing) as segment:
            return [self._hold_one(segment, each) if moves else each for each, moves in zip(given, moved, strict=True)]

    @contextlib.contextmanager
    def _new_held(self, size: int, sparing: bool) -> Iterator[MemfdSegment]:
        """Make a segment for held bodies only; it can be written inside the `with` block."""
        if self._pid != os.getpid():
            raise UsageError("this arena belongs to the process that this one was forked from")
        with self._lock:
            if self._closed:
                raise UsageError("this arena is closed")
            self._end_held()
            held = sum(each.size for each in self._segments.values() if each.is_held)
            fits = not sparing or held + size <= self._capacity
            segment = self._add_segment(rounded(ALIGNMENT + size, mmap.PAGESIZE)) if fits else None
            if segment is None:
                raise OSError(f"the system has no shared memory of {size:,} bytes left")
            segment.is_shut = segment.is_held = self._has_held = True
            try:
                segment.readable = segment.map_readable()
            except OSError:
                self._let_go(segment)
                raise
            segment.writers += 1
        try:
            yield segment
        finally:
            with self._lock:
                self._end_write(segment)

    def _hold_one(self, segment: MemfdSegment, message: Message) -> Message:
        """Copy a body into its own block, and return a message over it; a `Lease` frees the block at the end."""
        size = message.body_length
        with self._lock:
            block = segment.take(size)
            assert block is not None  # the segment is as large as all of them
            assert segment.readable is not None
            block.leases = 1
        start = block.start - segment.address
        body = Lease(segment.readable[start : start + size], self._dropped.put, block.start)
        segment.write(message, block)
        return message_of(bytes(message.metadata), body)

    def _find_held(self, message: Message) -> tuple[MemfdSegment, bytes, list[int]] | None:
        """Return the place of a body that is in the arena already, or None."""
        for segment in list(self._segments.values()):
            memory = segment.readable
            pairs = None if memory is None else write_places(message, memory, segment.address)
            if pairs is not None and (addresses := Pairs(pairs).addresses):
                return segment, pairs, addresses
        return None

    def _lease_held(self, message: Message, connection: Connection) -> Placed | None:
        """Lease a body that is in the arena already."""
        with self._lock:
            self._end_held()
            found = self._find_held(message)
            if found is None:
                return None
            segment, pairs, addresses = found
            for _, block, count in self._blocks(addresses):
                block.leases += count
        return self._describe_placed(segment, connection, pairs, addresses)

    def _end_held(self) -> None:
        """See `SegmentedMemory`. Finalisers may run anywhere, so a `Lease` only puts its address into a queue."""
        while not self._dropped.empty():  # the caller holds the lock, so no other thread takes an entry in between
            self._end((self._dropped.get_nowait(),))


def _memfd(owner: Segment) -> tuple[int, weakref.finalize[Any, Any]]:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return registered(owner, os.memfd_create, "arrowipc", flags | MFD_NOEXEC_SEAL)
    except OSError:  # Linux before 6.3 does not know MFD_NOEXEC_SEAL
        return registered(owner, os.memfd_create, "arrowipc", flags)


def _seal(fd: int) -> None:
    """Make the size final, and let only this process write (Linux before 5.1 cannot do the latter)."""
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except OSError:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS & ~F_SEAL_FUTURE_WRITE)
