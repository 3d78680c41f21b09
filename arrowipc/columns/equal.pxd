# Equality of two columns, value by value.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

# Whether elements [i, i + count) of field f of `a` equal those from j on of field g of `b`, which has the same type.
cdef int same_values(Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j, int64_t count,
                     bint nan_equal) except -1

# Return whether a column begins with the values of another one: a Beginning of columns.builder. NaN equals NaN, -0.0
# differs from 0.0. BEGINS_NOT may also mean that the comparison takes too long: values may share what they point at.
cdef int begins_with(Columns longer, Columns shorter) except -1
# Return for each dictionary of the columns, which share them alike, the longest version (None: it has not arrived); and
# the set of the dictionaries of which no version begins with all others.
cdef tuple longest_dictionaries(object pieces)
# Return `dictionaries`, of which each that does not begin with the values of its counterpart in `others` is replaced
# by the counterpart. None: not arrived.
cdef tuple adopted(tuple dictionaries, tuple others)
