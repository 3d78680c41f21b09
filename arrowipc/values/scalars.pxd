# Conversion of one Python value to the bytes of an element of fixed width.
from libc.stdint cimport int64_t, uint8_t

from arrowipc.inline.plan cimport FieldPlan

cdef enum Outcome:
    MISFIT = 0              # the type cannot hold the value
    STORED = 1
    IS_NULL = 2             # the value stands for null (NaT)

cdef enum:
    MS_PER_DAY = 86400000
    MOST_DIGITS = 80            # digits of a decimal that are kept; Arrow has at most 76

cdef struct Written:
    # A finite decimal, parsed from `Decimal.__str__`, which takes an eighth of the time of `as_tuple`.
    uint8_t[MOST_DIGITS] digits     # from the first one that is not 0; entries behind the last digit are not set
    int64_t count                   # of digits; 1 for zero
    int64_t exact                   # number of digits up to the last one that is not 0
    int64_t exponent                # power of ten of the last digit
    bint negative

# Put one value, which is not None, into the `f.width` bytes at `out`; returns an Outcome. `zoned`: the type is a
# timestamp with a timezone. `reason` is set where a misfit needs one.
cdef int store_value(const FieldPlan* f, bint zoned, object value, uint8_t* out, const char** reason) except -1
# Say which values a field of fixed width takes, for messages.
cdef str describe_kind(const FieldPlan* f)
# Convert an int, or an object with `__index__`, to int64; return STORED or MISFIT.
cdef int whole(object value, int64_t* out) except -1
# Whether a value is of the NumPy class `name`; does not import NumPy.
cdef bint is_numpy(object value, str name) except -1
# The class Decimal. `read_decimal` takes a Decimal apart (False: NaN or infinity); call `the_decimal` before it.
cdef object the_decimal()
cdef bint read_decimal(object value, Written* w) except -1
# The bytes of an object with a buffer; None if it has none.
cdef bytes bytes_of(object value)
# Days from 1970-01-01 to a date of the Gregorian calendar.
cdef int64_t day_number(object value) noexcept
