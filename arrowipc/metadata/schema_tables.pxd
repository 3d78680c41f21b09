# FlatBuffers being written: strings, vectors, and tables that share their vtables.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint8_t
from libc.string cimport memset

from arrowipc.inline.loads cimport put16, put32, put64

cdef enum:
    MOST_SLOTS = 8          # of the tables that are written here; Field and SparseTensor have 7
    MOST_VTABLES = 64       # that are found again; a schema has fewer
    TABLE_BYTES = 192       # more than a table with its vtable takes, however its fields are padded


cdef class TableWriter:
    """Writes one flatbuffer, from its end: children first, because offsets point forward.

    Places are counted from the end, and no place is 0. Every call that may fail makes room for itself and for what
    may come before the next such call: a count, padding, a table.
    """
    cdef uint8_t* data
    cdef int64_t room                       # with `outside`
    cdef int64_t used                       # the last bytes of `data`, and those outside
    cdef int64_t outside                    # of the end, which are the caller's and not in `data`
    cdef int64_t alignment                  # the strictest of what was written
    cdef int64_t table_end                  # of the open table
    cdef int64_t[MOST_SLOTS] places         # of its fields; 0: absent
    cdef int64_t[MOST_VTABLES] vtables      # those that differ
    cdef int32_t n_vtables
    cdef int32_t* waiting                   # tables that a vector will point at
    cdef int64_t n_waiting
    cdef int64_t waiting_room

    # These write and return a place: text with its count and a NUL; scalars or structs as they lie in memory;
    # offsets of the last `count` tables that were told to wait.
    cdef int64_t string(self, const char* text, int64_t size) except 0
    cdef int64_t vector(self, const void* items, int64_t count, int64_t width, int64_t alignment) except 0
    cdef int wait(self, int64_t table) except -1
    cdef int64_t vector_of_tables(self, int64_t count) except 0
    # A table: `begin`, its fields by their vtable offsets (the wide ones first saves padding), `end`. A field that
    # is equal to its default, or that points at nothing (0), stays absent.
    cdef int begin(self) except -1
    cdef int64_t end(self) except 0
    cdef bytes finish(self, int64_t root)
    cdef void restart(self) noexcept
    cdef int reserve(self, int64_t size) except -1
    cdef int leave_outside(self, int64_t size) except -1
    cdef int64_t equal_vtable(self, const uint16_t* vtable) noexcept

    cdef inline void field8(self, int slot, int64_t value, int64_t default=0) noexcept:
        if value != default:
            self.field(slot, 1)[0] = <uint8_t> value

    cdef inline void field16(self, int slot, int64_t value, int64_t default=0) noexcept:
        if value != default:
            put16(self.field(slot, 2), value)

    cdef inline void field32(self, int slot, int64_t value, int64_t default=0) noexcept:
        if value != default:
            put32(self.field(slot, 4), value)

    cdef inline void field64(self, int slot, int64_t value, int64_t default=0) noexcept:
        if value != default:
            put64(self.field(slot, 8), value)

    cdef inline void target(self, int slot, int64_t place) noexcept:
        """A field that points at a string, vector or table."""
        cdef uint8_t* at
        if place:
            at = self.field(slot, 4)
            put32(at, self.used - place)

    cdef inline void pair(self, int slot, int64_t first, int64_t second) noexcept:
        """A struct of two 64-bit integers; structs lie inside their table, whatever they hold."""
        self.align(8, 0)
        put64(self.push(8), second)
        put64(self.field(slot, 8), first)

    cdef inline uint8_t* field(self, int slot, int64_t width) noexcept:
        cdef uint8_t* at
        self.align(width, 0)
        at = self.push(width)
        self.places[(slot - 4) >> 1] = self.used
        return at

    cdef inline void align(self, int64_t alignment, int64_t size) noexcept:
        """Zeros, so that what is written in front of the next `size` bytes ends at a multiple of `alignment`."""
        cdef int64_t zeros = -(self.used + size) & (alignment - 1)
        if zeros:
            memset(self.push(zeros), 0, zeros)
        self.alignment = max(self.alignment, alignment)

    cdef inline uint8_t* push(self, int64_t size) noexcept:
        self.used += size
        return self.data + self.room - self.used
