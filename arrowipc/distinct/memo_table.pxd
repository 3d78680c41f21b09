# Memo tables: they number distinct values, and so make one dictionary of many.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData
from arrowipc.inline.room cimport Room

cdef enum:
    # Bytes that may be spelled and appended in any case, and for each byte of input: list views, unions, runs and
    # dictionaries may share what they point at. Honest values need two dozen per byte: a bit is spelled in two bytes.
    SPELLED_LEAST = 1 << 26
    SPELLED_PER_BYTE = 32
    # Beside the FaultCodes: values that share their elements would be spelled in too many bytes.
    FAULT_TOO_MUCH = 101

cdef struct Slot:
    uint32_t tag            # the upper half of the value's hash
    uint32_t place          # ordinal of the value + 1; 0: free

cdef struct Spelling:
    # A buffer for spelled values, which grows.
    Room room
    int64_t size            # bytes in use
    int64_t* left           # how many more may be written: a Budget's


@cython.final
cdef class Budget:
    """Bytes that all tables of a call or a writer together may spell and append; refused values count, too."""
    cdef int64_t slack
    cdef int64_t left
    cdef str where          # the end of the error message when it is spent

    # Allow more for `size` bytes of input; spend `size` bytes, or raise LimitError; the text of that error.
    cdef void earn(self, int64_t size) noexcept nogil
    cdef int spend(self, int64_t size) except -1
    cdef str too_much(self)


# A budget that begins with `slack` bytes.
cdef Budget new_budget(int64_t slack, str where)


@cython.final
cdef class MemoTable:
    cdef readonly int64_t count
    cdef Plan plan                  # of one column
    cdef ColumnsBuilder builder     # the values
    cdef bint flat                  # values are compared in the memory of `builder`; else by their spelling
    cdef int32_t float_width        # of floating-point values, 0: other types
    cdef Slot* slots                # open addressing, at most half full
    cdef uint64_t mask
    cdef uint64_t* hashes           # per value
    cdef int64_t hashes_room
    cdef bint skips_nulls           # null is no value of the table: its number is -1
    cdef int64_t null_at            # ordinal of null, -1: none so far
    cdef Spelling spelled           # nested types: the spelling of all values
    cdef int64_t* ends              # ... where that of each value ends
    cdef int64_t ends_room
    cdef int64_t spelled_null       # ... ordinal of null, -1: none so far
    cdef Budget budget              # ... what may be spelled
    cdef bint earns                 # ... and whether each `add` adds to that
    cdef tuple below                # MemoTable per plan.dictionaries, whose values the dictionaries are; None: any
    cdef int64_t version            # changes when `restore` removes values: their numbers may stand for others then

    # Add rows start .. start + count of `values`, and write their ordinals to `mapping`. If it raises, some values may
    # have been added: a caller that goes on must call `restore`. Dictionaries below the column continue those of the
    # values so far, as for `ColumnsBuilder.append`; in a table with `below`, the caller of `snapshot` sets them.
    cdef int add(self, Columns values, int64_t start, int64_t count, int64_t* mapping) except -1
    cdef int add_nested(self, Columns values, int64_t start, int64_t count, int64_t* mapping,
                        Fault* fault) except -2
    # The same without Python, for a `flat` table. -1: `fault`.
    cdef int add_data(self, const ColumnsData* d, int64_t start, int64_t count, int64_t* mapping,
                      Fault* fault) noexcept nogil
    # Save and restore the table and its builder, see BuilderMemory.
    cdef void save(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef int64_t null_number(self)
    # The values so far, in memory that later ones do not change.
    cdef Columns snapshot(self)
