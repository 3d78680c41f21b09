"""Shared memory that bodies are placed in: segments that clients map, and the books about who reads what.

An address is the number of a segment times 2^48 plus an offset in it. Of a segment that is let go of (`room`)
the kernel keeps the pages for whoever still maps them.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from arrowipc.arguments import check_integer
from arrowipc.dissociated.connection import Connection, OfferedMemory
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs, write_pairs, write_places
from arrowipc.dissociated.memory.ranges import ALIGNMENT, BodyMemory, Lent, rounded
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.read.framing import message_of

if TYPE_CHECKING:
    from arrowipc.read.framing import Message

__all__ = ["GONE", "OFFSET_BITS", "SEALS", "Arena", "ArenaState", "Segment"]

OFFSET_BITS = 48
#: What a segment begins with when its server has let go of it, where no body lies: clients can do so too.
GONE = b"arrowipc: is gone"
#: Segments have numbers of 16 bits; one that is let go of leaves its number to others.
NUMBERS = 1 << 16

# Of <linux/fcntl.h> and <linux/memfd.h>; Python knows only some of them.
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE = 0x01, 0x02, 0x04, 0x10
MFD_NOEXEC_SEAL = 0x08
#: The size is final, and nobody but us writes: clients cannot map the memory writable.
SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE


class Segment(Lent):
    """A sealed memfd, mapped for writing.

    Forked processes do not inherit the map: nobody but us shall be able to write into what clients read.
    """

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.fd = _memfd()
        try:
            os.ftruncate(self.fd, size)
            self._writable: mmap.mmap | None = mmap.mmap(self.fd, size)
            self._writable.madvise(mmap.MADV_DONTFORK)
            _seal(self.fd)
        except BaseException:
            os.close(self.fd)
            raise
        # No block at offset 0: address 0 means zeros to readers of pairs.
        super().__init__(ALIGNMENT, size)
        #: Pages before this offset exist.
        self.prepared = 0
        #: Bodies that are being copied into it.
        self.writers = 0
        self.readable: memoryview | None = None

    @property
    def address(self) -> int:
        """Of the segment's first byte."""
        return self.number << OFFSET_BITS

    def prepare(self, block: BodyMemory) -> tuple[int, int]:
        """Return the part of a block whose pages do not exist yet, as its position and size; they will."""
        start = max(block.start, self.prepared)
        self.prepared = max(self.prepared, block.start + block.size)
        return start, block.start + block.size - start

    def write(self, message: Message, block: BodyMemory, missing: tuple[int, int]) -> None:
        """Copy a body into a block.

        Raises
        ------
        OSError
            The system has no memory for it. (Without asking first, touching the pages would end the process.)
        """
        writable = self._writable
        assert writable is not None  # whoever writes is counted in `writers`
        if missing[1] > 0:
            os.posix_fallocate(self.fd, *missing)
        with (
            memoryview(writable) as whole,
            whole[block.start : block.start + message.body_length] as part,
        ):
            message.copy_body_into(part)

    def map_readable(self) -> memoryview:
        """Return the segment as this process and its children may read it."""
        if self.readable is None:
            self.readable = memoryview(mmap.mmap(self.fd, self.size, prot=mmap.PROT_READ))
        return self.readable

    def close(self) -> None:
        """Let go of the memory: it lives on where it is mapped, and says that it is let go of."""
        if self.known and self._writable is not None:
            with contextlib.suppress(OSError):  # touching a page that cannot be had would end the process
                os.posix_fallocate(self.fd, 0, len(GONE))
                self._writable[: len(GONE)] = GONE
        self._writable = self.readable = None
        os.close(self.fd)


class ArenaState(NamedTuple):
    """What an arena consists of at a moment; bytes, except for the first two."""

    segments: int
    blocks: int  #: that clients or messages hold
    size: int  #: of all segments
    used: int  #: by blocks
    retired: int


class Arena(OfferedMemory):
    """Bodies in shared memory, for clients of the same machine and user.

    Parameters
    ----------
    capacity : int or None, default 2 GiB
        Bytes of all segments together, of which only those that were used take memory. A body that finds no
        room is sent instead. Bodies that are held (see `hold`) come on top. None: as much as there is.
    segment_bytes : int, default 256 MiB
        Of one segment; a body that is larger gets one of its own size.
    least_bytes : int, default 16 KiB
        Smaller bodies are sent, which is faster than the books about who reads them. Not those that are held.

    Raises
    ------
    UsageError
        A size is no such number.
    UnsupportedError
        The system has no memory that can be sealed (memfd, Linux).
    """

    def __init__(
        self, capacity: int | None = 2 << 30, segment_bytes: int = 256 << 20, least_bytes: int = 16 << 10
    ) -> None:
        most = (1 << OFFSET_BITS) - 1
        capacity = most if capacity is None else check_integer("capacity", capacity, 0, most)
        check_integer("segment_bytes", segment_bytes, 0, most)
        if not hasattr(os, "memfd_create"):
            raise UnsupportedError("shared memory that can be sealed (memfd) is a thing of Linux")
        self.remote_handle = b"memfd"
        self._capacity = capacity
        self._least_bytes = check_integer("least_bytes", least_bytes, 0, most)
        self._segment_bytes = min(segment_bytes, capacity)
        self._lock = threading.Lock()
        self._segments: dict[int, Segment] = {}
        self._next_number = 1
        self._dropped: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._pid = os.getpid()
        self._has_held = False
        self._closed = False

    # -- bodies go in --

    def place(self, message: Message, connection: Connection) -> tuple[bytes, Sequence[int], Sequence[int]] | None:
        """See `OfferedMemory.place`; a body that is held is not copied."""
        if self._pid != os.getpid():
            return None  # a forked child has the books, and not the memory
        if self._has_held:
            found = self._lease_held(message, connection)
            if found is not None:
                return found
        if message.body_length < self._least_bytes:
            return None
        with self._lock:
            self._take_dropped()
            reserved = self._reserve(message.body_length)
            if reserved is None:
                return None
            segment, block = reserved
            block.leases = 1  # ours, while the body is copied
            segment.writers += 1
            missing = segment.prepare(block)
        pairs = addresses = None
        try:
            segment.write(message, block, missing)
            pairs = write_pairs(message, segment.address + block.start)
            addresses = Pairs(pairs).addresses
        except OSError:
            block.retired = True  # pages that could not be had must not be counted as prepared
        finally:
            with self._lock:
                block.leases += len(addresses or ())
                self._end_lease(segment, block)
                self._end_write(segment)
        if pairs is None or not addresses:
            return None
        return pairs, addresses, self._introduce(segment, connection)

    def _reserve(self, size: int) -> tuple[Segment, BodyMemory] | None:
        """Find room for a body, in a segment that is there or in a new one."""
        if self._closed or size == 0:
            return None
        for segment in self._segments.values():
            if not segment.is_shut and (block := segment.take(size)) is not None:
                return segment, block
        needed = rounded(rounded(size) + ALIGNMENT, mmap.PAGESIZE)
        new = self._new_segment(max(needed, self._segment_bytes), needed)
        if new is None:
            return None
        block = new.take(size)
        assert block is not None
        return new, block

    def _new_segment(self, wished: int, needed: int) -> Segment | None:
        """Make a segment, instead of some that nobody uses if there is no room for more."""
        if needed > self._capacity:
            return None
        for segment in list(self._segments.values()):
            if self._size() + wished <= self._capacity:
                break
            if not segment.blocks and segment.readable is None:
                self._let_go(segment)
        size = min(wished, self._capacity - self._size())
        return self._add_segment(size) if size >= needed else None

    def _size(self) -> int:
        """Bytes that count towards the capacity: not those of bodies that are held."""
        return sum(each.size for each in self._segments.values() if each.readable is None)

    def _add_segment(self, size: int) -> Segment | None:
        if len(self._segments) >= NUMBERS - 1:
            return None
        while self._next_number in self._segments or self._next_number == 0:
            self._next_number = (self._next_number + 1) % NUMBERS
        try:
            segment = Segment(self._next_number, size)
        except OSError:
            return None  # out of file descriptors or memory: bodies can still be sent
        self._segments[segment.number] = segment
        self._next_number = (self._next_number + 1) % NUMBERS
        return segment

    def _introduce(self, segment: Segment, connection: Connection) -> tuple[int, ...]:
        """Return the file descriptor for a connection that has not got it yet."""
        with self._lock:
            if connection in segment.known:
                return ()
            segment.known.add(connection)
        return (segment.fd,)

    # -- bodies that stay --

    def hold(self, messages: Iterable[Message]) -> list[Message]:
        """See `OfferedMemory.hold`: the bodies share a segment of their own.

        Batches that are decoded from the messages are served from there too.

        Raises
        ------
        OSError
            The system has no memory for it.
        UsageError
            The arena is closed, or belongs to the process that this one was forked from.
        """
        given = list(messages)
        size = ALIGNMENT + sum(rounded(each.body_length) for each in given)
        if size == ALIGNMENT:
            return given
        if self._pid != os.getpid():
            raise UsageError("this arena belongs to the process that this one was forked from")
        with self._lock:
            if self._closed:
                raise UsageError("this arena is closed")
            self._take_dropped()
            self._has_held = True
            segment = self._add_segment(rounded(size, mmap.PAGESIZE))
            if segment is None:
                raise OSError(f"there is no shared memory of {size:,} bytes to be had")
            segment.is_shut = True
            try:
                memory = segment.map_readable()
            except OSError:
                self._let_go(segment)
                raise
            segment.writers += 1
        try:
            return [self._hold_one(segment, memory, each) if each.body_length else each for each in given]
        finally:
            with self._lock:
                self._end_write(segment)

    def _hold_one(self, segment: Segment, memory: memoryview, message: Message) -> Message:
        with self._lock:
            block = segment.take(message.body_length)
            assert block is not None  # the segment is as large as all of them
            block.leases = 1
            missing = segment.prepare(block)
        part = memory[block.start : block.start + message.body_length]
        body = Lease(part, self._dropped.put, segment.address + block.start)
        segment.write(message, block, missing)
        return message_of(bytes(message.metadata), body)

    def _lease_held(
        self, message: Message, connection: Connection
    ) -> tuple[bytes, Sequence[int], Sequence[int]] | None:
        """Lease a body that lies in the arena already."""
        with self._lock:
            self._take_dropped()
            for segment in self._segments.values():
                if segment.readable is None:
                    continue
                pairs = write_places(message, segment.readable, segment.address)
                addresses = Pairs(pairs).addresses if pairs is not None else None
                if pairs is None or not addresses:
                    continue
                for address in addresses:
                    block = segment.find(address - segment.address)
                    assert block is not None  # the message keeps it
                    block.leases += 1
                break
            else:
                return None
        return pairs, addresses, self._introduce(segment, connection)

    def _take_dropped(self) -> None:
        """End what messages held that are gone: their finalisers may run anywhere, and only leave a note."""
        while not self._dropped.empty():  # under the lock, so that nobody else takes what is there
            self._end([self._dropped.get_nowait()], self._end_lease)

    # -- bodies come back --

    def release(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.release`."""
        self._come_back(addresses, self._end_lease)

    def abandon(self, addresses: Sequence[int]) -> None:
        """See `OfferedMemory.abandon`."""
        self._come_back(addresses, self._retire)

    def _come_back(self, addresses: Sequence[int], end: Callable[[Segment, BodyMemory], None]) -> None:
        if self._pid == os.getpid():
            with self._lock:
                self._take_dropped()
                self._end(addresses, end)

    def _end(self, addresses: Iterable[int], end: Callable[[Segment, BodyMemory], None]) -> None:
        for address in addresses:
            segment = self._segments.get(address >> OFFSET_BITS)
            block = segment.find(address - segment.address) if segment is not None else None
            if segment is not None and block is not None and block.leases > 0:
                end(segment, block)

    def _retire(self, segment: Segment, block: BodyMemory) -> None:
        block.retired = True
        self._end_lease(segment, block)

    def _end_lease(self, segment: Segment, block: BodyMemory) -> None:
        segment.end_lease(block)
        if segment.is_over:
            self._let_go(segment)

    def _end_write(self, segment: Segment) -> None:
        segment.writers -= 1
        if self._closed or segment.is_over:
            self._let_go(segment)

    def _let_go(self, segment: Segment) -> None:
        # Who still writes into it lets go of it afterwards.
        if not segment.writers and self._segments.get(segment.number) is segment:
            del self._segments[segment.number]
            segment.close()

    # -- the whole --

    @property
    def state(self) -> ArenaState:
        """ArenaState: at this moment."""
        with self._lock:
            self._take_dropped()
            every = self._segments.values()
            return ArenaState(
                len(every),
                sum(len(each.blocks) for each in every),
                sum(each.size for each in every),
                sum(block.size for each in every for block in each.blocks.values()),
                sum(each.retired for each in every),
            )

    def close(self) -> None:
        """Offer no more; clients and messages keep what they have."""
        if self._pid != os.getpid():
            return  # nor may a child wait for a lock that somebody held when it was forked
        with self._lock:
            self._closed = True
            for segment in list(self._segments.values()):
                self._let_go(segment)


def _memfd() -> int:
    for flags in (MFD_NOEXEC_SEAL, 0):
        try:
            return os.memfd_create("arrowipc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
        except OSError:
            if not flags:
                raise
    raise AssertionError


def _seal(fd: int) -> None:
    """Make the size final, and writing ours alone (Linux before 5.1 cannot do the latter)."""
    for seals in (SEALS, SEALS & ~F_SEAL_FUTURE_WRITE):
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
            return
        except OSError:
            if not seals & F_SEAL_FUTURE_WRITE:
                raise
