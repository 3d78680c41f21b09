# One Python value as the bytes of an element of fixed width.
from libc.stdint cimport int64_t, uint8_t

from arrowipc.inline.plan cimport FieldPlan

cdef enum Outcome:
    MISFIT = 0              # the type cannot hold the value
    STORED = 1
    IS_NULL = 2             # the value stands for null (NaT)

cdef enum:
    MS_PER_DAY = 86400000
    MOST_DIGITS = 80            # of decimals that are kept; Arrow has at most 76

cdef struct Written:
    # A finite decimal as `Decimal.__str__` writes it, which takes an eighth of the time of its tuple.
    uint8_t[MOST_DIGITS] digits     # from the first one on that is not 0; what lies behind the last one is not set
    int64_t count                   # of them, 1 for zero
    int64_t exact                   # up to the last one that is not 0
    int64_t exponent                # of the last one
    bint negative

# Put one value, which is not None, into the `f.width` bytes at `out`; returns an Outcome. `zoned`: the type is a
# timestamp with a timezone. `reason` is set where a misfit needs one.
cdef int store_value(const FieldPlan* f, bint zoned, object value, uint8_t* out, const char** reason) except -1
# What a field of fixed width takes, for messages.
cdef str describe_kind(const FieldPlan* f)
# An integer, or an object that is one by `__index__`, of 64 bits; an Outcome.
cdef int whole(object value, int64_t* out) except -1
# Whether a value is of a class of NumPy, which is not imported for that.
cdef bint is_numpy(object value, str name) except -1
# The class of decimals; `read_decimal` takes one apart (False: it is no number), after a call of this.
cdef object the_decimal()
cdef bint read_decimal(object value, Written* w) except -1
# The bytes of an object with a buffer; None: it has none.
cdef bytes bytes_of(object value)
# Days from 1970-01-01 to a date of the Gregorian calendar.
cdef int64_t day_number(object value) noexcept
