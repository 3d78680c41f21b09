# Columns as Python values: what `to_pylist` and its kin share.
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc._core cimport Columns, raise_fault
from arrowipc.inline.fault cimport Fault

cdef enum:
    MAX_VALUES = 1 << 27        # Python objects that one call makes unless it is allowed more
    DICT_SLOTS = 24             # what a dict takes, in slots of a list
    AS_BACKED = -1              # fewer where the input is small: it must hold most of what is made of it

cdef enum Maps:
    # What maps become: lists of pairs, or dicts, where keys that repeat are refused or lose all but the last value.
    MAPS_PAIRS, MAPS_STRICT, MAPS_LOSSY


@cython.final
cdef class Quota:
    cdef int64_t limit
    cdef int64_t left
    cdef bint backed            # nobody said how many, so that the bytes of the columns do
    cdef int64_t slots_left     # then: what lists and dicts may take on top of their values
    cdef int64_t bytes_left
    cdef list counted           # Columns whose own bytes are in bytes_left
    cdef int depth
    cdef object extensions      # the argument of to_pylist; False: values stay as they are stored
    cdef dict converters        # (plan, field) -> what converts the field's values, or None; None: not needed so far
    cdef int maps               # Maps
    cdef object finer           # FineTimes.make, or None
    cdef bint unheld            # some value is Unheld
    cdef int refuse(self, int64_t limit) except -1
    cdef int check(self, Columns columns, int64_t count) except -1
    cdef int take(self, Columns columns, int64_t count) except -1
    cdef int take_objects(self, Columns columns, int64_t count, int64_t words) except -1
    cdef int count_in(self, Columns columns) except -1
    cdef int take_bytes(self, Columns columns, int64_t size) except -1
    cdef int enter(self) except -1


cdef Quota quota(int64_t max_values, object extensions=*, object maps_as_pydicts=*)
cdef bint pause_collector() noexcept
cdef void resume_collector(bint was_running) noexcept
cdef list read_values(Quota q, Columns columns, int32_t field, int64_t at, int64_t count)
cdef int64_t count_bytes(Columns columns) except -1
cdef list values(Columns columns, int32_t field, int64_t at, int64_t count, Quota q)
cdef int check_native(Columns columns, object action) except -1
cdef Columns dictionary_of(Columns columns, int32_t field)
cdef int64_t dictionary_id(Columns columns, int32_t field) except? -1
cdef list rows_of(tuple names, list columns, int64_t count, const uint8_t* valid, int64_t at)


cdef inline int check(int found, const Fault* fault, Columns columns) except -1:
    """Raise what a kernel found in columns and returned -1 for."""
    return raise_fault(fault, columns.plan) if found < 0 else 0
