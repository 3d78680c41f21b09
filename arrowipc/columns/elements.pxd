# Functions that make Python values of columns, for `to_pylist` and similar methods.
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc._core cimport Columns, raise_fault
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData

cdef enum:
    MAX_NESTING = 256           # a plan nests 64 levels, and so does each dictionary in it; this bounds the C stack
    MAX_VALUES = 1 << 27        # the most Python objects that one call makes, unless the caller allows more
    DICT_SLOTS = 24             # the memory of a dict, in slots of a list
    AS_BACKED = -1              # as max_values: the bytes of the columns decide, so that small input makes few values

cdef enum Maps:
    # What maps become: lists of pairs; or dicts, where a repeated key is refused (strict) or keeps its last value.
    MAPS_PAIRS, MAPS_STRICT, MAPS_LOSSY


@cython.final
cdef class Quota:
    cdef int64_t limit
    cdef int64_t left
    cdef bint backed            # the caller set no limit, so the bytes of the columns set it
    cdef int64_t slots_left     # if backed: slots that lists and dicts may take in addition to their values
    cdef int64_t bytes_left
    cdef list counted           # Columns whose own bytes are in bytes_left
    cdef int depth
    cdef object extensions      # the argument of to_pylist; False: values stay as they are stored
    cdef dict converters        # (plan, field) -> converter of the field's values, or None; None: not needed so far
    cdef int maps               # Maps
    cdef object finer           # FineTimes.make, or None
    cdef bint unheld            # some value is Unheld
    # `check` raises unless `count` more values are allowed; `take` counts them. `take_objects` counts lists or dicts of
    # `words` slots, `take_bytes` the bytes of text, `enter_level` a level of nesting.
    cdef int refuse(self, int64_t limit) except -1
    cdef int check(self, Columns columns, int64_t count) except -1
    cdef int take(self, Columns columns, int64_t count) except -1
    cdef int take_objects(self, Columns columns, int64_t count, int64_t words) except -1
    cdef int count_in(self, Columns columns) except -1
    cdef int take_bytes(self, Columns columns, int64_t size) except -1
    cdef int enter_level(self) except -1


# A new quota; `max_values` may be AS_BACKED, the other arguments are those of `to_pylist`.
cdef Quota quota(int64_t max_values, object extensions=*, object maps_as_pydicts=*)
cdef bint pause_collector() noexcept
cdef void resume_collector(bint was_running) noexcept
# Elements [at, at + count) of a field, `at` physical; `values` also checks the byte order and pauses the collector.
cdef list read_values(Quota q, Columns columns, int32_t field, int64_t at, int64_t count)
cdef int64_t count_bytes(Columns columns) except -1
cdef list values(Columns columns, int32_t field, int64_t at, int64_t count, Quota q)
# Refuse columns that are kept in big-endian order; `action` is what needs the native order.
cdef int check_native(Columns columns, object action) except -1
# The values of a field's dictionary, or None; the id of the dictionary; rows made of lists of values.
cdef Columns dictionary_of(Columns columns, int32_t field)
cdef int64_t dictionary_id(Columns columns, int32_t field) except? -1
cdef list rows_of(tuple names, list columns, int64_t count, const uint8_t* valid, int64_t at)


cdef inline int64_t extent_bytes(const ColumnsData* d) noexcept nogil:
    """Return the bytes of all buffers, without those of dictionaries."""
    cdef int64_t total = 0
    cdef int32_t i
    for i in range(d.n_extents):
        total += d.extents[i].size
    return total


cdef inline int check(int found, const Fault* fault, Columns columns) except -1:
    """Raise the fault of a kernel that returned -1; else return 0."""
    return raise_fault(fault, columns.plan) if found < 0 else 0
