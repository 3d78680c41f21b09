"""One Python value as the stored bytes of its type: numbers, decimals, dates, times, intervals, fixed binary.

The inverse of what `_values` does with values of fixed width, and as exact: a value that would lose digits,
a fraction of a second or a time of day is a misfit, never rounded. Integers are taken as the stored number by
every type that counts something.
"""

from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject
from libc.math cimport isinf
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc._bits cimport largest, store_int
from arrowipc._bytes cimport add_overflows, mul_overflows
from arrowipc._core cimport FIELD_SIGNED, FieldPlan
from arrowipc._layout cimport (
    DateUnit_DAY, IntervalUnit_DAY_TIME, IntervalUnit_YEAR_MONTH, Precision_DOUBLE, Precision_SINGLE,
    TimeUnit_MILLISECOND, TimeUnit_NANOSECOND, TimeUnit_SECOND, Type_Date, Type_Decimal, Type_Duration,
    Type_FixedSizeBinary, Type_FloatingPoint, Type_Int, Type_Interval, Type_Time,
    Type_Timestamp,
)

import sys

cdef extern from "Python.h":
    int PyFloat_Pack2(double x, char* p, int little_endian) except -1
    double PyFloat_Unpack2(const char* p, int little_endian) except? -1.0

# Not cpython.datetime: to cimport that is to import datetime together with this module, which takes 5 ms.
cdef extern from *:
    """
    #include <datetime.h>

    static int arrowipc_scalars_datetime(void) {
        PyDateTime_IMPORT;
        return PyDateTimeAPI == NULL ? -1 : 0;
    }
    """
    int import_datetime "arrowipc_scalars_datetime"() except -1
    bint is_datetime "PyDateTime_Check"(object value) noexcept
    bint is_plain_datetime "PyDateTime_CheckExact"(object value) noexcept
    bint is_date "PyDate_Check"(object value) noexcept
    bint is_time "PyTime_Check"(object value) noexcept
    bint is_delta "PyDelta_Check"(object value) noexcept
    bint is_plain_delta "PyDelta_CheckExact"(object value) noexcept
    int year_of "PyDateTime_GET_YEAR"(object value) noexcept
    int month_of "PyDateTime_GET_MONTH"(object value) noexcept
    int day_of "PyDateTime_GET_DAY"(object value) noexcept
    int hour_of "PyDateTime_DATE_GET_HOUR"(object value) noexcept
    int minute_of "PyDateTime_DATE_GET_MINUTE"(object value) noexcept
    int second_of "PyDateTime_DATE_GET_SECOND"(object value) noexcept
    int microsecond_of "PyDateTime_DATE_GET_MICROSECOND"(object value) noexcept
    PyObject* zone_of "PyDateTime_DATE_GET_TZINFO"(object value) noexcept
    int time_hour "PyDateTime_TIME_GET_HOUR"(object value) noexcept
    int time_minute "PyDateTime_TIME_GET_MINUTE"(object value) noexcept
    int time_second "PyDateTime_TIME_GET_SECOND"(object value) noexcept
    int time_microsecond "PyDateTime_TIME_GET_MICROSECOND"(object value) noexcept
    PyObject* time_zone_of "PyDateTime_TIME_GET_TZINFO"(object value) noexcept
    int delta_days "PyDateTime_DELTA_GET_DAYS"(object value) noexcept
    int delta_seconds "PyDateTime_DELTA_GET_SECONDS"(object value) noexcept
    int delta_microseconds "PyDateTime_DELTA_GET_MICROSECONDS"(object value) noexcept

cdef bint datetime_ready = False
cdef object UTC = None
cdef object decimal_type = None

cdef const char* TOO_FINE = b"it is finer than the unit of the type"
cdef const char* TOO_FAR = b"it lies outside the range of the type"
cdef const char* TOO_LONG = b"it has more digits than the type"
cdef const char* TOO_PRECISE = b"digits would be lost"

cdef enum:
    SECONDS_PER_DAY = 86400
    EPOCH_ORDINAL = 719162      # days from 0001-01-01 to 1970-01-01


cdef int store_value(const FieldPlan* f, bint zoned, object value, uint8_t* out,
                     const char** reason) except -1:
    """Put one value, which is not None, into the `f.width` bytes at `out`; returns an Outcome.

    `zoned`: the type is a timestamp with a timezone. `reason` is set where a misfit needs one.
    """
    cdef int kind = f.type
    if kind == Type_Int:
        return store_integer(f, value, out)
    if kind == Type_FloatingPoint:
        return store_float(f, value, out, reason)
    if kind == Type_Decimal:
        return store_decimal(f, value, out, reason)
    if kind == Type_FixedSizeBinary:
        return store_binary(f, value, out, reason)
    if kind == Type_Interval:
        return store_interval(f, value, out)
    return store_temporal(f, zoned, value, out, reason)


# -- numbers -------------------------------------------------------------------------------------------------


cdef int whole(object value, int64_t* out) except -1:
    """STORED for an integer that int64 holds; booleans and NumPy's spans of time are no integers here."""
    cdef int overflow = 0
    if PyLong_Check(value):
        if PyBool_Check(value):
            return MISFIT
        out[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
        return MISFIT if overflow else STORED
    number = index_of(value)
    if number is None:
        return MISFIT
    return whole(number, out)


cdef object index_of(object value):
    """The int that an integer of another class stands for; None for everything else."""
    if not PyIndex_Check(value) or PyBool_Check(value) or is_numpy(value, "timedelta64"):
        return None
    try:
        return PyNumber_Index(value)
    except TypeError:
        return None


cdef int store_integer(const FieldPlan* f, object value, uint8_t* out) except -1:
    cdef int64_t number = 0, high
    cdef bint signed = f.flags & FIELD_SIGNED != 0
    cdef uint64_t large
    if whole(value, &number) != STORED:
        if signed or f.width < 8:
            return MISFIT
        index = value if PyLong_Check(value) and not PyBool_Check(value) else index_of(value)
        if index is None:
            return MISFIT
        try:
            large = PyLong_AsUnsignedLongLong(index)
        except OverflowError:
            return MISFIT
        memcpy(out, &large, 8)
        return STORED
    high = largest(f.width, signed)
    if number > high or number < (-high - 1 if signed else 0):
        return MISFIT
    store_int(out, 0, f.width, number)
    return STORED


cdef int store_float(const FieldPlan* f, object value, uint8_t* out, const char** reason) except -1:
    cdef double number, kept
    cdef float single
    index = None
    if PyFloat_Check(value):
        number = PyFloat_AS_DOUBLE(value)
    else:
        index = index_of(value)
        try:
            if index is not None:
                number = index
            elif is_real(value):
                number = value
            else:
                return MISFIT
        except OverflowError:
            reason[0] = TOO_FAR
            return MISFIT
    if f.unit == Precision_DOUBLE:
        memcpy(out, &number, 8)
        kept = number
    elif f.unit == Precision_SINGLE:
        single = <float> number
        memcpy(out, &single, 4)
        kept = single
    else:
        try:
            PyFloat_Pack2(number, <char*> out, 1)
        except OverflowError:
            reason[0] = TOO_FAR
            return MISFIT
        kept = PyFloat_Unpack2(<const char*> out, 1)
    if isinf(kept) and not isinf(number):
        reason[0] = TOO_FAR
        return MISFIT
    if index is not None and int(kept) != index:
        # Floats are rounded to the precision of the type; integers are meant exactly.
        reason[0] = TOO_PRECISE
        return MISFIT
    return STORED


cdef bint is_real(object value) except -1:
    """Whether a value is a float of another class, such as numpy.float32."""
    import numbers

    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational)


cdef bint is_numpy(object value, str name) except -1:
    """Whether a value is a NumPy object of a class; does not import NumPy, which another thread may be doing."""
    kind = getattr(sys.modules.get("numpy"), name, None)
    return kind is not None and isinstance(value, kind)


cdef object as_decimal(object value, int32_t scale):
    """The Decimal of a Decimal, an int or a str; None for everything else."""
    global decimal_type
    if decimal_type is None:
        from decimal import Decimal

        decimal_type = Decimal
    if isinstance(value, decimal_type):
        return value
    if isinstance(value, str):
        try:
            return decimal_type(value)
        except ArithmeticError:
            return None
    value = value if PyLong_Check(value) and not PyBool_Check(value) else index_of(value)
    # 256 bits, and no more than four per digit that a negative scale takes away: longer ones never fit, and
    # take long to turn into decimal digits.
    if value is None or value.bit_length() > 256 - 4 * min(<int64_t> scale, 0):
        return None
    return decimal_type(value)


cdef int store_decimal(const FieldPlan* f, object value, uint8_t* out, const char** reason) except -1:
    cdef int64_t shift, number = 0, count, k
    cdef tuple digits
    value = as_decimal(value, f.scale)
    if value is None or not value.is_finite():
        return MISFIT
    sign, digits, exponent = value.as_tuple()
    count = len(digits)
    shift = exponent + f.scale
    if not value:
        shift = 0
    elif shift < 0:
        # The stored integer ends before these digits.
        if -shift >= count or any(digits[count + shift:]):
            reason[0] = TOO_PRECISE
            return MISFIT
        digits = digits[:count + shift]
        count += shift
        shift = 0
    if count > f.precision or shift > f.precision - count:
        reason[0] = TOO_LONG
        return MISFIT
    if count + shift > 18:
        large = int("".join(map(str, digits))) * <object> 10 ** <object> shift
        stored = (-large if sign else large).to_bytes(f.width, "little", signed=True)
        memcpy(out, PyBytes_AS_STRING(stored), f.width)
        return STORED
    for k in range(count):
        number = 10 * number + <int64_t> digits[k]
    for k in range(shift):
        number *= 10
    if sign:
        number = -number
    if f.width == 4:
        store_int(out, 0, 4, number)
    else:
        memset(out, 0xFF if number < 0 else 0, f.width)
        store_int(out, 0, 8, number)
    return STORED


cdef int store_binary(const FieldPlan* f, object value, uint8_t* out, const char** reason) except -1:
    cdef Py_buffer view
    cdef int64_t size
    if not PyBytes_CheckExact(value):
        try:
            PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
        except BufferError:
            return store_binary(f, memoryview(value).tobytes(), out, reason)
        except TypeError:
            return MISFIT
        size = view.len
        if size == f.width and size:
            memcpy(out, view.buf, size)
        PyBuffer_Release(&view)
    else:
        size = PyBytes_GET_SIZE(value)
        if size == f.width and size:
            memcpy(out, PyBytes_AS_STRING(value), size)
    if size != f.width:
        reason[0] = b"it has another length"
        return MISFIT
    return STORED


cdef int store_interval(const FieldPlan* f, object value, uint8_t* out) except -1:
    """Months; (days, milliseconds); (months, days, nanoseconds)."""
    cdef int64_t number = 0
    cdef int32_t k, parts = 2 if f.unit == IntervalUnit_DAY_TIME else 3
    if f.unit == IntervalUnit_YEAR_MONTH:
        if whole(value, &number) != STORED or number < INT32_MIN or number > INT32_MAX:
            return MISFIT
        store_int(out, 0, 4, number)
        return STORED
    if not isinstance(value, (tuple, list)) or len(value) != parts:
        return MISFIT
    value = tuple(value)
    for k in range(parts):
        if whole((<tuple> value)[k], &number) != STORED:
            return MISFIT
        if k == 2:
            store_int(out, 1, 8, number)
        elif number < INT32_MIN or number > INT32_MAX:
            return MISFIT
        else:
            store_int(out, k, 4, number)
    return STORED


# -- dates and times -----------------------------------------------------------------------------------------


cdef int ready() except -1:
    """Import datetime, whose C macros may be used from then on."""
    global datetime_ready, UTC
    if not datetime_ready:
        import_datetime()
        from datetime import timezone

        UTC = timezone.utc
        datetime_ready = True
    return 0


cdef int store_temporal(const FieldPlan* f, bint zoned, object value, uint8_t* out,
                        const char** reason) except -1:
    """Dates, times, timestamps and durations: the class that `to_pylist` gives, or the stored number."""
    cdef int64_t number = 0
    cdef int kind = f.type, found
    ready()
    found = whole(value, &number)
    if found == STORED:
        pass
    elif kind == Type_Timestamp:
        found = timestamp(f.unit, zoned, value, &number, reason)
    elif kind == Type_Date:
        found = date(f.unit, value, &number, reason)
    elif kind == Type_Time:
        found = time_of_day(f.unit, value, &number, reason)
    elif kind == Type_Duration:
        found = duration(f.unit, value, &number, reason)
    if found != STORED:
        return found
    if f.width == 4 and (number < INT32_MIN or number > INT32_MAX):
        reason[0] = TOO_FAR
        return MISFIT
    store_int(out, 0, f.width, number)
    return STORED


cdef int64_t day_number(object value) noexcept:
    """Days from 1970-01-01 to a date of the Gregorian calendar."""
    cdef int64_t year = year_of(value), month = month_of(value), past = year - 1
    cdef int64_t days = 365 * past + past // 4 - past // 100 + past // 400 + day_of(value) - 1 - EPOCH_ORDINAL
    cdef bint leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month > 2:
        # Every five months from March on have 153 days.
        return days + 59 + leap + (153 * (month - 3) + 2) // 5
    return days + 31 * (month - 1)


cdef int in_unit(int64_t microseconds, int64_t nanoseconds, int32_t unit, int64_t* out,
                 const char** reason) noexcept:
    """Microseconds, and nanoseconds beyond them, as ticks of a TimeUnit."""
    cdef int64_t per_tick = 1
    if unit == TimeUnit_SECOND or unit == TimeUnit_MILLISECOND:
        per_tick = 1000000 if unit == TimeUnit_SECOND else 1000
    if unit == TimeUnit_NANOSECOND:
        if microseconds < 0 and nanoseconds > 0:
            # Towards zero, or the product would leave int64 where the sum does not.
            microseconds += 1
            nanoseconds -= 1000
        if mul_overflows(microseconds, 1000, out) or add_overflows(out[0], nanoseconds, out):
            reason[0] = TOO_FAR
            return MISFIT
        return STORED
    if microseconds % per_tick or nanoseconds:
        reason[0] = TOO_FINE
        return MISFIT
    out[0] = microseconds // per_tick
    return STORED


cdef int timestamp(int32_t unit, bint zoned, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t microseconds, nanoseconds = 0
    if not is_datetime(value):
        return numpy_ticks(value, "datetime64", unit, out, reason)
    if not is_plain_datetime(value):
        # pandas: NaT is a datetime, and a Timestamp counts nanoseconds beside it.
        if value != value:
            return IS_NULL
        nanoseconds = getattr(value, "nanosecond", 0)
    microseconds = (day_number(value) * SECONDS_PER_DAY + hour_of(value) * 3600 + minute_of(value) * 60
                    + second_of(value)) * 1000000 + microsecond_of(value)
    if <object> zone_of(value) is not None:
        if not zoned:
            reason[0] = b"the type has no timezone, and the value has one"
            return MISFIT
        if <object> zone_of(value) is not UTC:
            offset = value.utcoffset()
            if offset is not None:
                microseconds -= ((delta_days(offset) * <int64_t> SECONDS_PER_DAY + delta_seconds(offset))
                                 * 1000000 + delta_microseconds(offset))
    return in_unit(microseconds, nanoseconds, unit, out, reason)


cdef int date(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    if is_datetime(value):
        if value != value:
            return IS_NULL
        if timestamp(TimeUnit_MILLISECOND, False, value, out, reason) != STORED:
            return MISFIT
        if unit == DateUnit_DAY:
            if out[0] % (1000 * SECONDS_PER_DAY):
                reason[0] = TOO_FINE
                return MISFIT
            out[0] //= 1000 * SECONDS_PER_DAY
        return STORED
    if is_date(value):
        out[0] = day_number(value) * (1 if unit == DateUnit_DAY else 1000 * SECONDS_PER_DAY)
        return STORED
    # -1: days, which no TimeUnit counts.
    return numpy_ticks(value, "datetime64", -1 if unit == DateUnit_DAY else TimeUnit_MILLISECOND, out, reason)


cdef int time_of_day(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t seconds
    if not is_time(value):
        return MISFIT
    if <object> time_zone_of(value) is not None:
        reason[0] = b"times of day have no timezone"
        return MISFIT
    seconds = time_hour(value) * 3600 + time_minute(value) * 60 + time_second(value)
    return in_unit(seconds * 1000000 + time_microsecond(value), 0, unit, out, reason)


cdef int duration(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t seconds, rest, microseconds = 0, nanoseconds = 0
    if not is_delta(value):
        return numpy_ticks(value, "timedelta64", unit, out, reason)
    if not is_plain_delta(value):
        nanoseconds = getattr(value, "nanoseconds", 0)
    seconds = delta_days(value) * <int64_t> SECONDS_PER_DAY + delta_seconds(value)
    if unit == TimeUnit_SECOND:
        # The longest timedelta does not fit 64 bits of microseconds.
        if delta_microseconds(value) or nanoseconds:
            reason[0] = TOO_FINE
            return MISFIT
        out[0] = seconds
        return STORED
    if unit == TimeUnit_MILLISECOND:
        if delta_microseconds(value) % 1000 or nanoseconds:
            reason[0] = TOO_FINE
            return MISFIT
        out[0] = seconds * 1000 + delta_microseconds(value) // 1000
        return STORED
    rest = delta_microseconds(value)
    if seconds < 0 and rest > 0:
        # Towards zero, or the product would leave int64 where the sum does not.
        seconds += 1
        rest -= 1000000
    if mul_overflows(seconds, 1000000, &microseconds) or add_overflows(microseconds, rest, &microseconds):
        reason[0] = TOO_FAR
        return MISFIT
    return in_unit(microseconds, nanoseconds, unit, out, reason)


cdef int numpy_ticks(object value, str kind, int32_t unit, int64_t* out, const char** reason) except -1:
    """The same for a NumPy scalar, and for NaT."""
    if not is_numpy(value, kind):
        return MISFIT
    import numpy

    if numpy.isnat(value):
        return IS_NULL
    word = "D" if unit < 0 else ("s", "ms", "us", "ns")[unit]
    try:
        stored = value.astype(f"{'M' if kind == 'datetime64' else 'm'}8[{word}]")
        exact = stored.astype(value.dtype) == value
    except (TypeError, OverflowError):
        return MISFIT
    if not exact:
        # Beyond the unit on either side: too fine for it, or wrapped around.
        reason[0] = TOO_FINE
        return MISFIT
    out[0] = stored.astype("i8")
    return STORED


# -- in words ------------------------------------------------------------------------------------------------


cdef str describe_kind(const FieldPlan* f):
    """What a field of fixed width takes, for messages."""
    cdef int kind = f.type
    cdef int32_t bits = 8 * f.width
    if kind == Type_Int:
        count = <object> 2 ** <object> bits
        low, high = (-count // 2, count // 2 - 1) if f.flags & FIELD_SIGNED else (0, count - 1)
        return f"an integer from {low} to {high}"
    if kind == Type_FloatingPoint:
        return "a float"
    if kind == Type_Decimal:
        return (f"a Decimal, an int or a str of at most {f.precision} digits, {f.scale} of them after the "
                "point")
    if kind == Type_FixedSizeBinary:
        return f"exactly {f.width} bytes"
    if kind == Type_Interval:
        return ("an int of months", "(days, milliseconds)", "(months, days, nanoseconds)")[f.unit]
    unit = ("seconds", "milliseconds", "microseconds", "nanoseconds")[f.unit & 3]
    if kind == Type_Date:
        return f"a date or an int of {'days' if f.unit == DateUnit_DAY else 'milliseconds'} since 1970-01-01"
    if kind == Type_Time:
        return f"a time or an int of {unit} since midnight"
    if kind == Type_Timestamp:
        return f"a datetime or an int of {unit} since 1970-01-01"
    return f"a timedelta or an int of {unit}"
