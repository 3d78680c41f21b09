# One Python value as the stored bytes of a type of fixed width.
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport FieldPlan

cdef enum Outcome:
    MISFIT = 0              # the type cannot hold the value
    STORED = 1
    IS_NULL = 2             # the value stands for null (NaT)

cdef int store_value(const FieldPlan* f, bint zoned, object value, uint8_t* out,
                     const char** reason) except -1
cdef int whole(object value, int64_t* out) except -1
cdef str describe_kind(const FieldPlan* f)
cdef bint is_numpy(object value, str name) except -1
