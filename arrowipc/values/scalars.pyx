"""Conversion of one Python value to the bytes of an element, for every type of fixed width.

`store_value` is the inverse of how `columns.elements` reads values of fixed width, and it is exact: a value that
would lose digits, a fraction of a second or a time of day is a misfit, never rounded. Types that count a unit (dates,
times, durations, months) also take an integer, as the number to store.
"""

from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from libc.math cimport isinf
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.datetimes cimport (
    SECONDS_PER_DAY, UTC, day_of, delta_days, delta_microseconds, delta_seconds, hour_of, import_datetime, is_date,
    is_datetime, is_delta, is_plain_datetime, is_plain_delta, is_time, microsecond_of, minute_of, month_of, second_of,
    time_hour, time_microsecond, time_minute, time_second, time_zone_of, year_of, zone_of,
)
from arrowipc.inline.element cimport load_float
from arrowipc.inline.fbs_layout cimport (
    DateUnit_DAY, IntervalUnit_DAY_TIME, IntervalUnit_YEAR_MONTH, Precision_DOUBLE, Precision_SINGLE,
    TimeUnit_MILLISECOND, Type_Date, Type_Decimal, Type_Duration, Type_FixedSizeBinary, Type_FloatingPoint, Type_Int,
    Type_Interval, Type_Time, Type_Timestamp,
)
from arrowipc.inline.loads cimport add_overflows, mul_overflows
from arrowipc.inline.plan cimport FIELD_SIGNED, FieldPlan

import sys

cdef extern from "Python.h":
    int PyFloat_Pack2(double x, char* p, int little_endian) except -1
    void* PyUnicode_DATA(object text) noexcept

cdef object decimal_type = None

cdef const char* TOO_FINE = b"it is finer than the unit of the type"
cdef const char* NO_DAY = b"dates are whole days, and it is a part of one"
cdef const char* TOO_FAR = b"it lies outside the range of the type"
cdef const char* TOO_LONG = b"it has more digits than the type"
cdef const char* TOO_PRECISE = b"digits would be lost"

cdef enum:
    EPOCH_ORDINAL = 719162      # days from 0001-01-01 to 1970-01-01

cdef int64_t[4] TICKS = [1, 1000, 1000000, 1000000000]    # ticks per second, by TimeUnit
cdef int64_t[4] TICK = [1000000000, 1000000, 1000, 1]     # nanoseconds per tick, by TimeUnit


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
    """Convert an integer to int64; return MISFIT if `value` is no integer or too large."""
    cdef int overflow = 0
    number = index_of(value)
    if number is None:
        return MISFIT
    out[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return MISFIT if overflow else STORED


cdef object index_of(object value):
    """Return an integer of any class as an int; None for other values, also for booleans and NumPy's timedelta64."""
    if PyLong_CheckExact(value):
        return value
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
        index = index_of(value)
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
    elif f.unit == Precision_SINGLE:
        single = <float> number
        memcpy(out, &single, 4)
    else:
        try:
            PyFloat_Pack2(number, <char*> out, 1)
        except OverflowError:
            reason[0] = TOO_FAR
            return MISFIT
    kept = load_float(out, 0, f.width)
    if isinf(kept) and not isinf(number):
        reason[0] = TOO_FAR
        return MISFIT
    if index is not None and int(kept) != index:
        # Floats are rounded to the precision of the type, integers must be stored exactly.
        reason[0] = TOO_PRECISE
        return MISFIT
    return STORED


cdef bint is_real(object value) except -1:
    """Whether a value is a float of another class, such as numpy.float32."""
    import numbers

    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational)


cdef bint is_numpy(object value, str name) except -1:
    """Whether a value is of the NumPy class `name`."""
    return is_of("numpy", name, value)


cdef bint is_of(str module, str name, object value) except -1:
    """Whether a value is of a module's class. Does not import the module; another thread may just be importing it."""
    return isinstance(value, getattr(sys.modules.get(module), name, ()))


cdef object the_decimal():
    """Return the class Decimal, imported at the first call."""
    global decimal_type
    if decimal_type is None:
        from decimal import Decimal

        decimal_type = Decimal
    return decimal_type


cdef object as_decimal(object value, int32_t scale):
    """Return a Decimal, an int or a str as a Decimal; None for other values and for an int too long for any type."""
    if type(value) is decimal_type or isinstance(value, the_decimal()):
        return value
    if isinstance(value, str):
        try:
            return decimal_type(value)
        except ArithmeticError:
            return None
    value = index_of(value)
    # At most 256 bits, plus four for each digit that a negative scale drops: longer integers never fit, and their
    # conversion to decimal digits is slow.
    if value is None or value.bit_length() > 256 - 4 * min(<int64_t> scale, 0):
        return None
    return decimal_type(value)


cdef bint read_decimal(object value, Written* w) except -1:
    """Take a Decimal apart; return False if it is NaN or infinite."""
    cdef str text = str(value) if type(value) is decimal_type else decimal_type.__str__(value)
    cdef const uint8_t* p = <const uint8_t*> PyUnicode_DATA(text)       # ASCII, and a zero behind it
    cdef int64_t count = 0, exponent = 0
    cdef bint point = False, falls
    cdef uint8_t digit
    w.negative = p[0] == c"-"
    p += w.negative
    if not c"0" <= p[0] <= c"9":
        return False
    w.exact = w.exponent = 0
    while True:
        digit = p[0] - c"0"
        if digit <= 9:
            w.exponent -= point
            if count or digit:
                if count < MOST_DIGITS:
                    w.digits[count] = digit
                count += 1
                if digit:
                    w.exact = count
        elif p[0] == c".":
            point = True
        else:
            break
        p += 1
    if p[0]:
        falls = p[1] == c"-"
        p += 2      # the E, or e, and the sign
        while p[0]:
            exponent = 10 * exponent + (p[0] - c"0")
            p += 1
        w.exponent += -exponent if falls else exponent
    w.count = max(count, 1)
    return True


cdef int store_decimal(const FieldPlan* f, object value, uint8_t* out, const char** reason) except -1:
    cdef uint32_t[8] limbs      # of the stored integer, the lowest first
    cdef Written w
    cdef int64_t shift, k = 0
    cdef uint64_t carry
    cdef uint32_t part, factor
    cdef int32_t i, n = f.width // 4
    value = as_decimal(value, f.scale)
    if value is None or not read_decimal(value, &w):
        return MISFIT
    shift = w.exponent + f.scale if w.exact else 0
    if w.count + shift < w.exact:
        # Some digits other than 0 lie behind the last one of the stored integer.
        reason[0] = TOO_PRECISE
        return MISFIT
    if w.count > f.precision - shift:
        reason[0] = TOO_LONG
        return MISFIT
    memset(limbs, 0, sizeof(limbs))
    while k < w.count + shift:
        part = 0
        factor = 1
        while k < w.count + shift and factor < 1000000000:
            part = 10 * part + (w.digits[k] if k < w.exact else 0)
            factor *= 10
            k += 1
        carry = part
        for i in range(n):
            carry += <uint64_t> limbs[i] * factor
            limbs[i] = <uint32_t> carry
            carry >>= 32
    if w.negative:
        carry = 1
        for i in range(n):
            carry += <uint32_t> ~limbs[i]
            limbs[i] = <uint32_t> carry
            carry >>= 32
    memcpy(out, limbs, f.width)
    return STORED


cdef bytes bytes_of(object value):
    """Return the bytes of a bytes-like object; None for others, also for those with a buffer of something else."""
    try:
        if isinstance(value, (bytes, memoryview)) or is_numpy(value, "void"):
            return bytes(value)
        view = memoryview(value)
        return bytes(view) if view.itemsize == 1 and not is_numpy(value, "generic") else None
    except (BufferError, TypeError, ValueError):    # ValueError: from NumPy's datetime64 and timedelta64
        return None


cdef int store_binary(const FieldPlan* f, object value, uint8_t* out, const char** reason) except -1:
    cdef bytes stored = value if PyBytes_CheckExact(value) else bytes_of(value)
    if stored is None and is_of("uuid", "UUID", value):
        stored = bytes_of(getattr(value, "bytes", None))
    if stored is None:
        return MISFIT
    if len(stored) != f.width:
        reason[0] = b"it has another length"
        return MISFIT
    memcpy(out, PyBytes_AS_STRING(stored), f.width)
    return STORED


cdef int store_interval(const FieldPlan* f, object value, uint8_t* out) except -1:
    """Store a number of months, (days, milliseconds) or (months, days, nanoseconds), as the interval's unit says."""
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


cdef int store_temporal(const FieldPlan* f, bint zoned, object value, uint8_t* out,
                        const char** reason) except -1:
    """Store a date, time, timestamp or duration: of the class that `to_pylist` returns, or an int as it is."""
    cdef int64_t number = 0
    cdef int kind = f.type, found
    import_datetime()
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
        # From March on, every five months have 153 days.
        return days + 59 + leap + (153 * (month - 3) + 2) // 5
    return days + 31 * (month - 1)


cdef int in_unit(int64_t seconds, int64_t microseconds, int64_t nanoseconds, int32_t unit, int64_t* out,
                 const char** reason) noexcept:
    """Add up seconds, microseconds and nanoseconds, as ticks of a TimeUnit."""
    cdef int64_t rest = 1000 * microseconds + nanoseconds, part = rest // TICK[unit]
    if part * TICK[unit] != rest:
        reason[0] = TOO_FINE
        return MISFIT
    if seconds < 0:
        # Round the seconds towards zero: else the product could overflow int64 although the sum would not.
        seconds += 1
        part -= TICKS[unit]
    if mul_overflows(seconds, TICKS[unit], out) or add_overflows(out[0], part, out):
        reason[0] = TOO_FAR
        return MISFIT
    return STORED


cdef int timestamp(int32_t unit, bint zoned, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t seconds, microseconds, nanoseconds = 0
    if not is_datetime(value):
        return numpy_ticks(value, "datetime64", unit, out, reason)
    if not is_plain_datetime(value):
        # In pandas, NaT is a datetime that is not equal to itself, and a Timestamp also has nanoseconds.
        if value != value:
            return IS_NULL
        nanoseconds = getattr(value, "nanosecond", 0)
    seconds = day_number(value) * SECONDS_PER_DAY + hour_of(value) * 3600 + minute_of(value) * 60 + second_of(value)
    microseconds = microsecond_of(value)
    if <object> zone_of(value) is not None:
        if not zoned:
            reason[0] = b"the type has no timezone, and the value has one"
            return MISFIT
        if zone_of(value) != UTC:
            offset = value.utcoffset()
            if offset is not None:
                microseconds -= delta_microseconds(offset)
                seconds -= delta_days(offset) * <int64_t> SECONDS_PER_DAY + delta_seconds(offset) + (microseconds < 0)
                microseconds += 1000000 * (microseconds < 0)
    return in_unit(seconds, microseconds, nanoseconds, unit, out, reason)


cdef int date(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    """Convert a date to days, or to milliseconds, which must be whole days as well."""
    cdef int found
    if is_datetime(value):
        if value != value:
            return IS_NULL
        if timestamp(TimeUnit_MILLISECOND, False, value, out, reason) != STORED:
            return MISFIT
        if out[0] % MS_PER_DAY:
            reason[0] = NO_DAY
            return MISFIT
        if unit == DateUnit_DAY:
            out[0] //= MS_PER_DAY
        return STORED
    if is_date(value):
        out[0] = day_number(value) * (1 if unit == DateUnit_DAY else MS_PER_DAY)
        return STORED
    # -1 stands for days, which are no TimeUnit.
    found = numpy_ticks(value, "datetime64", -1, out, reason)
    if found == STORED and unit != DateUnit_DAY and mul_overflows(out[0], MS_PER_DAY, out):
        reason[0] = TOO_FAR
        return MISFIT
    return found


cdef int time_of_day(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t seconds
    if not is_time(value):
        return MISFIT
    if <object> time_zone_of(value) is not None:
        reason[0] = b"times of day have no timezone"
        return MISFIT
    seconds = time_hour(value) * 3600 + time_minute(value) * 60 + time_second(value)
    return in_unit(seconds, time_microsecond(value), 0, unit, out, reason)


cdef int duration(int32_t unit, object value, int64_t* out, const char** reason) except -1:
    cdef int64_t seconds
    if not is_delta(value):
        return numpy_ticks(value, "timedelta64", unit, out, reason)
    seconds = delta_days(value) * <int64_t> SECONDS_PER_DAY + delta_seconds(value)
    return in_unit(seconds, delta_microseconds(value), 0 if is_plain_delta(value) else getattr(value, "nanoseconds", 0),
                   unit, out, reason)


cdef int numpy_ticks(object value, str kind, int32_t unit, int64_t* out, const char** reason) except -1:
    """Convert a NumPy scalar of class `kind` to ticks of a unit, -1 for days; return IS_NULL for NaT."""
    if not is_numpy(value, kind):
        return MISFIT
    import numpy

    if numpy.isnat(value):
        return IS_NULL
    word = "D" if unit < 0 else ("s", "ms", "us", "ns")[unit]
    dtype = numpy.dtype(f"{'M' if kind == 'datetime64' else 'm'}8[{word}]")
    try:
        stored = value.astype(dtype)
        exact = stored.astype(value.dtype) == value
    except TypeError:
        return MISFIT
    except OverflowError:       # from NumPy 2.5 on; before, the value wrapped around
        exact = False
    if not exact:
        reason[0] = TOO_FAR if numpy.can_cast(value.dtype, dtype, "safe") else TOO_FINE
        return MISFIT
    out[0] = stored.astype("i8")
    return STORED


# -- in words ------------------------------------------------------------------------------------------------


cdef str describe_kind(const FieldPlan* f):
    """Say which values a field of fixed width takes, for messages."""
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
