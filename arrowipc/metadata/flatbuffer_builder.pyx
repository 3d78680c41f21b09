"""Writes FlatBuffers: strings, vectors, and tables that share their vtables.

The same calls give the same bytes. Every scalar lies at a multiple of its size from the start of the flatbuffer:
`finish` makes the whole a multiple of the strictest alignment in it, so it may be counted from the end meanwhile.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from arrowipc.inline.loads cimport load_u16, put32

from arrowipc.errors import UsageError

cdef enum:
    FIRST_ROOM = 1024


@cython.final
cdef class TableWriter:
    """Writes one flatbuffer; its fields and the short steps are in the `.pxd`, so that callers have them inline."""

    def __cinit__(self):
        self.restart()

    cdef void restart(self) noexcept:
        """Forget what was written; the memory stays."""
        self.used = self.n_vtables = self.n_waiting = 0
        self.alignment = 4

    def __dealloc__(self):
        free(self.data)
        free(self.waiting)

    cdef int64_t string(self, const char* text, int64_t size) except 0:
        """Bytes with their count in front and a NUL behind them."""
        self.reserve(size)
        self.align(4, size + 1)
        self.push(1)[0] = 0
        memcpy(self.push(size), text, size)
        put32(self.push(4), size)
        return self.used

    cdef int64_t vector(self, const void* items, int64_t count, int64_t width, int64_t alignment) except 0:
        """Scalars or structs, laid out already."""
        self.reserve(count * width)
        self.align(max(alignment, 4), count * width)
        memcpy(self.push(count * width), items, count * width)
        put32(self.push(4), count)
        return self.used

    cdef int wait(self, int64_t table) except -1:
        """Keep the place of a table for the vector that will point at it."""
        cdef void* moved
        if self.n_waiting == self.waiting_room:
            moved = realloc(self.waiting, (2 * self.waiting_room + 16) * sizeof(int32_t))
            if moved == NULL:
                raise MemoryError(f"cannot allocate a list of {self.n_waiting:,} tables")
            self.waiting = <int32_t*> moved
            self.waiting_room = 2 * self.waiting_room + 16
        self.waiting[self.n_waiting] = <int32_t> table
        self.n_waiting += 1
        return 0

    cdef int64_t vector_of_tables(self, int64_t count) except 0:
        """Offsets of the last `count` tables that wait, in their order."""
        cdef uint8_t* items
        cdef int64_t i
        self.reserve(4 * count)
        self.align(4, 0)
        items = self.push(4 * count)
        self.n_waiting -= count
        for i in range(count):
            put32(items + 4 * i, self.used - 4 * i - self.waiting[self.n_waiting + i])
        put32(self.push(4), count)
        return self.used

    cdef int begin(self) except -1:
        """Open a table; `reserve` keeps the room for one."""
        self.reserve(0)
        memset(self.places, 0, sizeof(self.places))
        self.table_end = self.used
        return 0

    cdef int64_t end(self) except 0:
        """Close the open table: its vtable is written in front of it, unless an equal one is there."""
        cdef uint16_t[2 + MOST_SLOTS] vtable
        cdef int64_t table, shared
        cdef int i, n_slots = 0
        self.align(4, 0)
        self.push(4)
        table = self.used
        for i in range(MOST_SLOTS):
            vtable[2 + i] = 0
            if self.places[i]:
                vtable[2 + i] = <uint16_t> (table - self.places[i])
                n_slots = i + 1
        vtable[0] = <uint16_t> (4 + 2 * n_slots)
        vtable[1] = <uint16_t> (table - self.table_end)
        shared = self.equal_vtable(vtable)
        if shared == 0:
            memcpy(self.push(vtable[0]), vtable, vtable[0])
            shared = self.used
            if self.n_vtables < MOST_VTABLES:
                self.vtables[self.n_vtables] = shared
                self.n_vtables += 1
        put32(self.data + self.room - table, shared - table)
        return table

    cdef int64_t equal_vtable(self, const uint16_t* vtable) noexcept:
        cdef const uint8_t* other
        cdef int i
        for i in range(self.n_vtables - 1, -1, -1):
            other = self.data + self.room - self.vtables[i]
            if load_u16(other) == vtable[0] and memcmp(other, vtable, vtable[0]) == 0:
                return self.vtables[i]
        return 0

    cdef bytes finish(self, int64_t root):
        """The flatbuffer, with `root` as its root table."""
        cdef uint8_t* start
        self.reserve(0)
        self.align(self.alignment, 4)
        start = self.push(4)
        put32(start, self.used - root)
        return PyBytes_FromStringAndSize(<const char*> start, self.used)

    cdef int reserve(self, int64_t size) except -1:
        """Room for `size` bytes more: beside them a count, padding and a whole table fit at all times."""
        cdef int64_t needed = self.used + size + TABLE_BYTES, room
        cdef uint8_t* moved
        if needed <= self.room:
            return 0
        if needed > INT32_MAX:
            raise UsageError(f"the metadata of the message takes {needed:,} bytes; its size is an int32")
        room = max(2 * needed, FIRST_ROOM)
        moved = <uint8_t*> malloc(room)
        if moved == NULL:
            raise MemoryError(f"cannot allocate {room:,} bytes of metadata")
        if self.used:
            memcpy(moved + room - self.used, self.data + self.room - self.used, self.used)
        free(self.data)
        self.data = moved
        self.room = room
        return 0
