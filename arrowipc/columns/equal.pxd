# Equality of two columns, value by value.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

cdef int same_values(Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j, int64_t count,
                     bint nan_equal) except -1

# A Beginning of `longer` by the values of `shorter`; their types are equal. NaN equals NaN, and -0.0 differs from 0.0.
# Where dictionaries refer to dictionaries, BEGINS_NOT may also mean that it takes too long to tell.
cdef int begins_with_values(Columns longer, Columns shorter) except -1
