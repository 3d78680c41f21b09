# Equality of two columns, value by value.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

cdef int same_values(Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j, int64_t count,
                     bint nan_equal) except -1
