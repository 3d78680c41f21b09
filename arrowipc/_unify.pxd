# Tables of distinct values: what many dictionaries become when they are unified.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cimport cython

from arrowipc._concat cimport Growing
from arrowipc._core cimport Columns, ColumnsData, Plan
from arrowipc._fault cimport Fault

cdef struct Slot:
    uint32_t tag            # the upper half of the value's hash
    uint32_t place          # ordinal of the value + 1; 0: free

cdef struct Spelling:
    # Bytes that grow.
    uint8_t* data
    int64_t size
    int64_t capacity
    int64_t left            # how many more may be written


@cython.final
cdef class ValueTable:
    """The distinct values of one column, numbered in the order in which they first came."""
    cdef readonly int64_t count
    cdef Plan plan                  # of one column
    cdef Growing growing            # the values
    cdef bint flat                  # compared where `growing` keeps them; else by their spelling
    cdef int32_t float_width        # of floating-point values, 0: other types
    cdef Slot* slots                # open addressing, at most half full
    cdef uint64_t mask
    cdef uint64_t* hashes           # per value
    cdef int64_t room               # of hashes (and ends)
    cdef int64_t null_at            # ordinal of null, -1: none so far
    cdef Spelling spelled           # nested types: all values
    cdef int64_t* ends              # ... where each stops
    cdef Spelling scratch           # ... the value at hand
    cdef int64_t kept_count         # flat values: what `take_back` goes back to
    cdef int64_t kept_null_at

    # Ordinals of rows start .. start + count of `values` go to `mapping`. Appends nothing when it raises.
    # Dictionaries below the column continue those of the values so far, as for `Growing.append`.
    cdef int add(self, Columns values, int64_t start, int64_t count, int64_t* mapping) except -1
    cdef int add_nested(self, Columns values, int64_t start, int64_t count, int64_t* mapping,
                        Fault* fault) except -2
    # The same without Python, for a `flat` table. -1: `fault`, and some values may have been appended.
    cdef int add_data(self, const ColumnsData* d, int64_t start, int64_t count, int64_t* mapping,
                      Fault* fault) noexcept nogil
    # ... its state, and the way back to the one that was kept last.
    cdef void keep(self) noexcept nogil
    cdef void take_back(self) noexcept nogil
    cdef Columns snapshot(self)
    # A native uint64 per value (of null: any), the same in every process.
    cdef bytes stable_hashes(self)
    # The state, and the way back to it: snapshots taken in between are void then.
    cdef tuple mark(self)
    cdef int rollback(self, tuple mark) except -1


# Whether `longer` begins with the values of `shorter`; their types are equal.
cdef bint continues(Columns longer, Columns shorter) except -1
# ... as far as that shows without a look at single values: False means nothing.
cdef bint plainly_continues(Columns longer, Columns shorter)
