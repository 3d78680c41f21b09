# Equality of two columns, value by value.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

cdef int same_values(Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j, int64_t count,
                     bint nan_equal) except -1

# Whether a column begins with the values of another one: a Beginning of columns.builder. NaN equals NaN, -0.0 differs
# from 0.0. Where dictionaries refer to dictionaries, BEGINS_NOT may also mean that it takes too long to tell.
cdef int begins_with(Columns longer, Columns shorter) except -1
# Dictionaries, and in their places those of `others` that do not begin them; None: not arrived.
cdef tuple adopted(tuple dictionaries, tuple others)
