"""Columns as Python values, one list per column; contents are checked while they are read.

Nothing here trusts the validation level that a batch was read with: a broken offset, index, view, type code,
run end or text raises a FormatError that names the column and the row. Output that may be larger than the input
is counted before it is made.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GetSlice, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromUnsignedLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

cimport cython

from arrowipc._core cimport Columns, DictionaryPlan, Recent, field_name, field_path
from arrowipc.inline.bits cimport load_int
from arrowipc.inline.datetimes cimport SECONDS_PER_DAY, UTC, import_datetime, new_time, new_timedelta
from arrowipc.inline.element cimport (
    find_run, index_at, load_float, load_unsigned, member_at, next_run, span, validity, word_span,
)
from arrowipc.inline.fault cimport Fault, fail, FAULT_NO_DICTIONARY, FAULT_UTF8
from arrowipc.inline.fbs_layout cimport (
    DateUnit_DAY, IntervalUnit_DAY_TIME, IntervalUnit_YEAR_MONTH, TimeUnit_MICROSECOND, TimeUnit_MILLISECOND,
    TimeUnit_NANOSECOND, Type_Date, Type_Decimal, Type_Duration, Type_FixedSizeBinary, Type_FloatingPoint, Type_Int,
    Type_Interval, Type_Map, Type_Time, Type_Timestamp,
)
from arrowipc.inline.hash cimport hash_with
from arrowipc.inline.loads cimport get_bit, load_i32, load_i64, loose_i64
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, FIELD_UTF8, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_NULL,
    LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW, ColumnsData, Extent,
    FieldPlan,
)
from arrowipc.inline.threads cimport FREE_THREADED, in_order
from arrowipc.metadata.schema_reader cimport children_of, has_metadata, plan_field

from arrowipc.arguments import described
from arrowipc.errors import FormatError, LimitError, UnsupportedError, UsageError, named_column

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    void* PyUnicode_DATA(object text) noexcept
    bint PyObject_IS_GC(object)
    void PyObject_GC_UnTrack(PyObject*)
    bint PyGC_Disable()
    bint PyGC_Enable()

cdef enum:
    # Text and binary may take as many bytes as the columns have. Rows of views and of dense unions may share
    # bytes: for them, this many more bytes are allowed for each value that may be made.
    BYTES_PER_VALUE = 8
    # If the caller sets no limit: 128 MiB of values, as much for lists and dicts around them, and 64 MiB of shared
    # text. Each byte of the columns adds 8 values, as for a bitmap, and 32 slots, enough for a dict around an int8.
    # So honest columns pass, and few bytes make little.
    FREE_VALUES = 1 << 24
    FREE_BYTES = 1 << 26
    VALUES_PER_BYTE = 8
    SLOTS_PER_BYTE = 32
    LIST_SLOTS = 9              # the memory of a list, in slots
    MOST_ZONE_NAME = 100


# -- quotas --------------------------------------------------------------------------------------------------


@cython.auto_pickle(False)
cdef class Quota:
    """How many Python objects and bytes of text one call may still make, and how deep it is nested."""

    cdef int check(self, Columns columns, int64_t count) except -1:
        if count > self.left:
            self.count_in(columns)
            if count > self.left:
                self.refuse(self.limit)
        return 0

    cdef int refuse(self, int64_t limit) except -1:
        raise LimitError(f"this would make more than {limit:,} Python values; take a slice, or raise max_values")

    cdef int take(self, Columns columns, int64_t count) except -1:
        self.check(columns, count)
        self.left -= count
        return 0

    cdef int take_objects(self, Columns columns, int64_t count, int64_t words) except -1:
        cdef int64_t slots = count * words
        if not self.backed:
            return 0
        if slots > self.slots_left:
            self.count_in(columns)
            if slots > self.slots_left:
                self.refuse(self.slots_left // words)
        self.slots_left -= slots
        return 0

    cdef int take_bytes(self, Columns columns, int64_t size) except -1:
        if size > self.bytes_left:
            self.count_in(columns)
            if size > self.bytes_left:
                raise LimitError(f"rows that share their text would make {size - self.bytes_left:,} bytes "
                                 f"more than max_values = {self.limit:,} allows; take a slice, or raise it")
        self.bytes_left -= size
        return 0

    cdef int count_in(self, Columns columns) except -1:
        """Add the values that the bytes of `columns` allow, once."""
        cdef int64_t size, more
        for known in self.counted:
            if known is columns:
                return 0
        self.counted.append(columns)
        size = count_bytes(columns)
        self.bytes_left += size
        if self.backed:
            self.slots_left += size * SLOTS_PER_BYTE
            more = min(size, MAX_VALUES) * VALUES_PER_BYTE
            self.bytes_left += more
            more = min(more, MAX_VALUES - self.limit)
            self.limit += more
            self.left += more
        return 0

    cdef int enter_level(self) except -1:
        if self.depth >= MAX_NESTING:
            raise LimitError(f"values are nested deeper than {MAX_NESTING} levels")
        self.depth += 1
        return 0

    def charge(self, Columns columns, int64_t count, int64_t lists=0, int64_t dicts=0):
        """Count objects that a value of an extension type is made of, lists and dicts among them."""
        self.take(columns, count)
        self.take_objects(columns, lists, LIST_SLOTS)
        self.take_objects(columns, dicts, DICT_SLOTS)


cdef Quota quota(int64_t max_values, object extensions=None, object maps_as_pydicts=None):
    cdef Quota q = Quota.__new__(Quota)
    q.backed = max_values == AS_BACKED
    q.limit = q.left = FREE_VALUES if q.backed else max_values
    q.slots_left = FREE_VALUES
    q.bytes_left = FREE_BYTES if q.backed else max_values * BYTES_PER_VALUE
    q.counted = []
    q.extensions = extensions
    if extensions is not None and extensions is not False:
        from arrowipc.columns.extensions import FineTimes, meanings_of

        if isinstance(extensions, FineTimes):
            q.finer, q.extensions = extensions.make, extensions.extensions
        else:
            meanings_of(extensions)
    if maps_as_pydicts is not None:
        if maps_as_pydicts != "strict" and maps_as_pydicts != "lossy":
            raise UsageError(
                f"maps_as_pydicts: expected None, 'strict' or 'lossy', found {described(maps_as_pydicts)}")
        q.maps = MAPS_STRICT if maps_as_pydicts == "strict" else MAPS_LOSSY
    return q


cdef int64_t count_bytes(Columns columns) except -1:
    """Bytes of all buffers, those of dictionaries included."""
    cdef int64_t total = extent_bytes(&columns.d)
    for dictionary in columns.dictionaries or ():
        if dictionary is not None:
            total += count_bytes(dictionary)
    return total


cdef int check_native(Columns columns, object action) except -1:
    if columns.plan is None:
        raise UsageError("this object was not made by arrowipc and holds nothing")
    if columns.plan.d.stored_big and columns.plan.d.keep_stored:
        raise UsageError(
            f"{action} needs native byte order, and this data is kept in big-endian as stored; read it with "
            "ensure_native_endian=True, or use buffers()")
    return 0


cdef list values(Columns columns, int32_t field, int64_t at, int64_t count, Quota q):
    check_native(columns, "conversion to Python values")
    cdef bint running = pause_collector()
    try:
        return read_values(q, columns, field, at, count)
    finally:
        resume_collector(running)


cdef bint pause_collector() noexcept:
    """Pause Python's cyclic collector while values are made, none of which is in a cycle; return whether it was on.

    It would walk a million new lists and dicts again and again. In CPython without a GIL it costs little and stays on.
    """
    return not FREE_THREADED and PyGC_Disable()


cdef void resume_collector(bint was_running) noexcept:
    if was_running:
        PyGC_Enable()


cdef list read_values(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Return the elements as `values` does, for callers that count several columns together."""
    cdef const FieldPlan* f = &columns.d.plan.fields[field]
    cdef list out
    cdef int layout = f.layout
    q.take(columns, count)
    if count == 0:
        return []
    q.enter_level()
    if layout == LAYOUT_NULL:
        out = [None] * count
    elif layout == LAYOUT_FIXED:
        if f.flags & FIELD_ENCODED:
            out = decoded(q, columns, field, at, count)
        elif f.type == Type_Int:
            out = integers(&columns.d, field, at, count)
        elif f.type == Type_FloatingPoint:
            out = floats(&columns.d, field, at, count)
        else:
            q.take_bytes(columns, count * f.width)
            out = converted(q, columns, field, at, count)
    elif layout == LAYOUT_VAR32 or layout == LAYOUT_VAR64 or layout == LAYOUT_VIEW:
        out = binaries(q, columns, field, at, count)
    elif layout == LAYOUT_BOOL:
        out = booleans(&columns.d, field, at, count)
    elif layout == LAYOUT_STRUCT:
        out = structs(q, columns, field, at, count)
    elif layout == LAYOUT_SPARSE or layout == LAYOUT_DENSE:
        out = unions(q, columns, field, at, count)
    elif layout == LAYOUT_RUN_END:
        out = runs(q, columns, field, at, count)
    else:
        out = lists(q, columns, field, at, count)
    q.depth -= 1
    if q.unheld and q.depth == 0:
        refuse_unheld(out)
        q.unheld = False
    # Dictionary-encoded values are converted already: the dictionary's field has the same metadata. If nothing is asked
    # for, the types in `extensions.PLAIN` are converted: only columns with their storage are asked for their type.
    if q.extensions is not False and not f.flags & FIELD_ENCODED:
        if q.extensions is not None or (f.layout == LAYOUT_FIXED and (f.width == 1 or f.width == 16)
                                        and has_metadata(columns.plan, field)):
            convert_extension(q, columns, field, at, out)
    return out


cdef int convert_extension(Quota q, Columns columns, int32_t field, int64_t at, list stored) except -1:
    """Replace the stored values of an extension type by what they mean; None and other types stay as they are."""
    cdef tuple key = (columns.plan, field)
    cdef Py_ssize_t i = 0
    from functools import partial

    if q.converters is None:
        q.converters = {}
    if key not in q.converters:
        from arrowipc.columns.extensions import converter_of

        q.converters[key] = converter_of(plan_field(columns.plan, field), q.extensions)
    convert = q.converters[key]
    if convert is None:
        return 0
    if q.unheld:
        refuse_unheld(stored)
    charge = partial(q.charge, columns)
    try:
        for i in range(len(stored)):
            if stored[i] is not None:
                stored[i] = convert(stored[i], charge)
    except (FormatError, UnsupportedError) as error:
        raise type(error)(f"{named_column(field_path(columns.plan, field))}, value {at + i}: {error}") from None
    return 0


cdef inline void put(list out, int64_t i, object value) noexcept:
    """Fill slot i of a list from PyList_New, whose slots start empty."""
    Py_INCREF(value)
    PyList_SET_ITEM(out, i, value)


# -- values of fixed width -----------------------------------------------------------------------------------


cdef list integers(const ColumnsData* d, int32_t field, int64_t at, int64_t count):
    """Integers; CPython makes them of a long faster than of a long long."""
    cdef const FieldPlan* f = &d.plan.fields[field]
    cdef const uint8_t* valid = validity(d, field)
    cdef int32_t width = f.width
    cdef const uint8_t* p = d.extents[f.first_buffer + 1].data + at * width
    cdef bint signed = f.flags & FIELD_SIGNED != 0
    cdef list out = PyList_New(count)
    cdef int64_t i
    if valid == NULL and signed and width == 8:
        for i in range(count):
            put(out, i, PyLong_FromLong(load_i64(p + 8 * i)))
        return out
    for i in range(count):
        if valid != NULL and not get_bit(valid, at + i):
            put(out, i, None)
        elif signed:
            put(out, i, PyLong_FromLong(load_int(p, i, width)))
        elif width == 8:
            put(out, i, PyLong_FromUnsignedLongLong(load_unsigned(p + i * width, 8)))
        else:
            put(out, i, PyLong_FromLong(load_unsigned(p + i * width, width)))
    return out


cdef list floats(const ColumnsData* d, int32_t field, int64_t at, int64_t count):
    cdef const FieldPlan* f = &d.plan.fields[field]
    cdef const uint8_t* valid = validity(d, field)
    cdef const uint8_t* p = d.extents[f.first_buffer + 1].data + at * f.width
    cdef list out = PyList_New(count)
    cdef int64_t i
    for i in range(count):
        if valid != NULL and not get_bit(valid, at + i):
            put(out, i, None)
        else:
            put(out, i, load_float(p, i, f.width))
    return out


cdef list booleans(const ColumnsData* d, int32_t field, int64_t at, int64_t count):
    cdef const uint8_t* valid = validity(d, field)
    cdef const uint8_t* bits = d.extents[d.plan.fields[field].first_buffer + 1].data
    cdef list out = PyList_New(count)
    cdef int64_t i
    for i in range(count):
        if valid != NULL and not get_bit(valid, at + i):
            put(out, i, None)
        else:
            put(out, i, True if get_bit(bits, at + i) else False)
    return out


cdef list converted(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Decimals, dates, times, timestamps, durations, intervals and binary of fixed size."""
    cdef const ColumnsData* d = &columns.d
    cdef const FieldPlan* f = &d.plan.fields[field]
    cdef const uint8_t* valid = validity(d, field)
    cdef const uint8_t* p = d.extents[f.first_buffer + 1].data
    cdef object zone = None
    cdef list out = []
    cdef int64_t i, number
    cdef int kind = f.type
    cdef bint unknown = False
    cdef bint fine = f.unit == TimeUnit_NANOSECOND and (kind == Type_Timestamp or kind == Type_Time
                                                        or kind == Type_Duration)
    if kind == Type_Timestamp:
        name = plan_field(columns.plan, field).type.timezone
        zone = time_zone(name)
        unknown = zone is None and name is not None
    if kind != Type_FixedSizeBinary and kind != Type_Decimal and kind != Type_Interval:
        ready_datetime()
    for i in range(at, at + count):
        if valid != NULL and not get_bit(valid, i):
            out.append(None)
        elif fine:
            number = load_i64(p + 8 * i)
            out.append(number if unknown else nanoseconds(q, columns, field, i, number, zone))
        elif kind == Type_FixedSizeBinary:
            out.append(PyBytes_FromStringAndSize(<const char*> p + i * f.width, f.width))
        elif kind == Type_Decimal:
            out.append(decimal(p + i * f.width, f))
        elif kind == Type_Interval:
            out.append(interval(p + i * f.width, f.unit))
        elif kind == Type_Timestamp:
            out.append(load_i64(p + 8 * i) if unknown else moment(load_i64(p + 8 * i), f.unit, zone))
        elif kind == Type_Date:
            out.append(date(load_int(p, i, f.width), f.unit))
        elif kind == Type_Time:
            out.append(time_of_day(load_int(p, i, f.width), f.unit))
        else:
            out.append(duration(load_i64(p + 8 * i), f.unit, -LAST_TIMEDELTA_DAY, LAST_TIMEDELTA_DAY))
    return out


# -- decimals, dates and times -------------------------------------------------------------------------------

cdef object decimal_type = None
cdef object scaled = None           # Decimal.scaleb in a context that rounds nothing
cdef object DayTime = None
cdef object MonthDayNano = None

cdef object EPOCH = None            # datetime(1970, 1, 1)
cdef object EPOCH_UTC = None
cdef object EPOCH_DATE = None
cdef Recent recent_zones = Recent(16)   # name -> tzinfo

# Days from the epoch to the first and to the last day of datetime; and the last day of timedelta.
cdef enum:
    FIRST_DAY = -719162             # 0001-01-01
    LAST_DAY = 2932896              # 9999-12-31
    LAST_TIMEDELTA_DAY = 999999999


cdef object decimal(const uint8_t* p, const FieldPlan* f):
    """An exact decimal: no context rounds it, whatever its digits and its scale."""
    global decimal_type, scaled
    if scaled is None:
        from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

        decimal_type = Decimal
        # 256 bits have at most 78 digits, so nothing is ever rounded; signals raise nothing.
        made = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[]).scaleb
        in_order()
        with cython.critical_section(recent_zones):     # the lock may be any object of this module
            scaled = made if scaled is None else scaled
    in_order()
    if f.width <= 8:
        number = load_int(p, 0, f.width)
    elif f.width == 16 and load_i64(p + 8) == load_i64(p) >> 63:
        number = load_i64(p)
    else:
        number = int.from_bytes(PyBytes_FromStringAndSize(<const char*> p, f.width), "little", signed=True)
    return scaled(decimal_type(number), -<int64_t> f.scale) if f.scale else decimal_type(number)


cdef object interval(const uint8_t* p, int32_t unit):
    global DayTime, MonthDayNano
    if DayTime is None or MonthDayNano is None:
        from arrowipc.intervals import DayTime, MonthDayNano
    if unit == IntervalUnit_YEAR_MONTH:
        return load_i32(p)
    if unit == IntervalUnit_DAY_TIME:
        return DayTime(load_i32(p), load_i32(p + 4))
    return MonthDayNano(load_i32(p), load_i32(p + 4), load_i64(p + 8))


cdef int ready_datetime() except -1:
    """Import datetime, whose C functions may be called from then on."""
    global EPOCH, EPOCH_UTC, EPOCH_DATE
    import_datetime()
    if EPOCH_DATE is None:
        import _datetime as datetime

        with cython.critical_section(recent_zones):
            if EPOCH_DATE is None:
                EPOCH = datetime.datetime(1970, 1, 1)
                EPOCH_UTC = EPOCH.replace(tzinfo=datetime.timezone.utc)
                in_order()
                EPOCH_DATE = datetime.date(1970, 1, 1)
    in_order()
    return 0


cdef object time_zone(object name):
    """The tzinfo of a timezone name; None when there is no such zone, or no name."""
    if name is None:
        return None
    ready_datetime()
    if len(name) > MOST_ZONE_NAME:
        return None     # no zone has so long a name, and `recent_zones` should keep short ones only
    zone = recent_zones.get(name)
    if zone is None:
        zone = find_zone(name)
        recent_zones.put(name, zone)
    return zone


cdef object find_zone(str name):
    import re
    from datetime import timedelta, timezone

    if name.upper() in ("UTC", "Z", "ETC/UTC"):
        return timezone.utc
    offset = re.fullmatch(r"([+-])([01]\d|2[0-3]):?([0-5]\d)", name, re.ASCII)
    if offset:
        length = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-length if offset[1] == "-" else length)
    # The name comes from the input, so only names that a zone can have are looked up.
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", name):
        try:
            from zoneinfo import ZoneInfo

            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    return None


cdef inline int64_t per_second(int32_t unit) noexcept:
    """Ticks of a TimeUnit in a second."""
    return 1000000 if unit == TimeUnit_MICROSECOND else 1000 if unit == TimeUnit_MILLISECOND else 1


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept:
    cdef int64_t q = a // b         # C division: towards zero
    return q - 1 if a - q * b < 0 else q


cdef inline int64_t floor_mod(int64_t a, int64_t b) noexcept:
    # Not a - floor_div(a, b) * b: that product leaves int64 for the smallest a.
    cdef int64_t r = a % b
    return r + b if r < 0 else r


cdef object moment(int64_t ticks, int32_t unit, object zone):
    """A datetime, aware when there is a zone; the stored number where datetime has no such moment."""
    since = duration(ticks, unit, FIRST_DAY, LAST_DAY)
    if type(since) is int:
        return since
    if zone is None:
        return EPOCH + since
    if <PyObject*> zone == UTC:
        return EPOCH_UTC + since
    try:
        return (EPOCH_UTC + since).astimezone(zone)
    except OverflowError:
        # The moment is within a day of the first or the last one of datetime.
        return ticks


cdef object date(int64_t number, int32_t unit):
    cdef int64_t days = number
    if unit != DateUnit_DAY:
        days = floor_div(number, 1000 * <int64_t> SECONDS_PER_DAY)
        if floor_mod(number, 1000 * <int64_t> SECONDS_PER_DAY):
            return moment(number, TimeUnit_MILLISECOND, None)
    if days < FIRST_DAY or days > LAST_DAY:
        return number
    return EPOCH_DATE + new_timedelta(<int> days, 0, 0)


cdef object time_of_day(int64_t ticks, int32_t unit):
    cdef int64_t ticks_per_second = per_second(unit), minutes, seconds, rest
    if ticks < 0 or ticks >= SECONDS_PER_DAY * ticks_per_second:
        return ticks
    seconds = ticks // ticks_per_second
    rest = floor_mod(ticks, ticks_per_second) * (1000000 // ticks_per_second)
    minutes = seconds // 60
    return new_time(<int> (minutes // 60), <int> (minutes % 60), <int> (seconds % 60), <int> rest)


cdef object duration(int64_t ticks, int32_t unit, int64_t first_day, int64_t last_day):
    """Return a timedelta, or the stored number if its days are outside first_day..last_day."""
    cdef int64_t ticks_per_second = per_second(unit), seconds = floor_div(ticks, ticks_per_second)
    cdef int64_t days = floor_div(seconds, SECONDS_PER_DAY), rest
    if days < first_day or days > last_day:
        return ticks
    rest = floor_mod(ticks, ticks_per_second) * (1000000 // ticks_per_second)
    return new_timedelta(<int> days, <int> (seconds - days * SECONDS_PER_DAY), <int> rest)


@cython.final
@cython.auto_pickle(False)
cdef class Unheld:
    """A time of no whole microseconds, kept until it is known whether a null struct or a union hides it."""
    cdef Columns columns
    cdef int32_t field
    cdef int64_t at, ticks


cdef int refuse_unheld(object value) except -1:
    """Raise if a value is an Unheld, or has one inside."""
    cdef Unheld time
    if type(value) is Unheld:
        time = value
        kind = plan_field(time.columns.plan, time.field).type
        word = {"Timestamp": "datetime", "Time": "time"}.get(type(kind).__name__, "timedelta")
        whole = "cast('int64')" if word == "time" else "to_numpy()"
        raise UnsupportedError(
            f"{named_column(field_path(time.columns.plan, time.field))}, value {time.at}: {time.ticks} ns are no whole "
            f"microseconds, which a {word} holds; {whole} gives all digits of {kind}")
    if isinstance(value, dict):
        value = list((<dict> value).values())
    if isinstance(value, (list, tuple)):
        for each in value:
            refuse_unheld(each)
    return 0


cdef object nanoseconds(Quota q, Columns columns, int32_t field, int64_t at, int64_t ticks, object zone):
    """Return a datetime, time or timedelta; of no whole microseconds, what `q.finer` makes of it, or an Unheld."""
    cdef Unheld time
    cdef int kind = columns.d.plan.fields[field].type
    cdef int64_t whole = floor_div(ticks, 1000)
    if kind == Type_Time and not 0 <= ticks < 1000000000 * <int64_t> SECONDS_PER_DAY:
        return ticks
    if floor_mod(ticks, 1000):
        if q.finer is not None:
            return q.finer(plan_field(columns.plan, field).type, ticks)
        q.unheld = True
        time = Unheld.__new__(Unheld)
        time.columns, time.field, time.at, time.ticks = columns, field, at, ticks
        return time
    if kind == Type_Timestamp:
        return moment(whole, TimeUnit_MICROSECOND, zone)
    if kind == Type_Time:
        return time_of_day(whole, TimeUnit_MICROSECOND)
    return duration(whole, TimeUnit_MICROSECOND, -LAST_TIMEDELTA_DAY, LAST_TIMEDELTA_DAY)


# -- text, binary and lists ----------------------------------------------------------------------------------


cdef enum:
    KNOWN_TEXTS = 64


cdef struct KnownText:
    # A text of the list that is made: equal ones are one object, which takes half of the time and less memory.
    const uint8_t* p
    int64_t size        # 0: none
    PyObject* text


cdef inline bint copy_ascii(uint8_t* out, const uint8_t* p, int64_t size) noexcept nogil:
    """Copy at least two bytes and return whether all are below 128; the last word may overlap the one before it.

    Each word is tested as it is copied, because the memory may change meanwhile.
    """
    cdef uint64_t seen = 0
    cdef int64_t word, i
    if size >= 8:
        for i in range(0, size - 8, 8):
            word = load_i64(p + i)
            (<loose_i64*> (out + i))[0] = word
            seen |= <uint64_t> word
        word = load_i64(p + size - 8)
        (<loose_i64*> (out + size - 8))[0] = word
        return (seen | <uint64_t> word) & <uint64_t> 0x8080808080808080 == 0
    for i in range(size):
        out[i] = p[i]
        seen |= out[i]
    return seen < 128


cdef inline object text_of(const uint8_t* p, int64_t size):
    """Return UTF-8 bytes as a str; most text is ASCII, which needs no decoder."""
    if size > 1 and p[0] < 128:
        text = PyUnicode_New(size, 127)
        if copy_ascii(<uint8_t*> PyUnicode_DATA(text), p, size):
            return text
    return PyUnicode_DecodeUTF8(<const char*> p, size, NULL)


cdef inline object shared_text(KnownText* known, int64_t* hits, const uint8_t* p, int64_t size):
    """Return UTF-8 bytes as a str, the one that is known for the same bytes; all known ones are in use elsewhere."""
    cdef int64_t hashed = min(size, 16)     # at the end: beginnings are often the same
    cdef KnownText* slot
    if size == 0:
        return ""
    slot = known + (hash_with(<uint64_t> 0x9E3779B97F4A7C15, <uint64_t> 0xBF58476D1CE4E5B9, p + size - hashed, hashed)
                    % KNOWN_TEXTS)
    if slot.size == size and memcmp(slot.p, p, size) == 0:
        hits[0] += 1
        return <object> slot.text
    text = text_of(p, size)
    slot[0] = KnownText(p, size, <PyObject*> text)
    return text


cdef list binaries(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Text and binary of the offset layouts and of views."""
    cdef const ColumnsData* d = &columns.d
    cdef const FieldPlan* f = &d.plan.fields[field]
    cdef const Extent* extents = &d.extents[f.first_buffer]
    cdef const uint8_t* valid = validity(d, field)
    cdef const uint8_t* p = NULL
    cdef int32_t width = 8 if f.layout == LAYOUT_VAR64 else 4
    cdef bint text = f.flags & FIELD_UTF8 != 0, view = f.layout == LAYOUT_VIEW, null, sound
    cdef bint shares = text and count >= KNOWN_TEXTS
    cdef KnownText[KNOWN_TEXTS] known
    cdef int64_t i = 0, size = 0, total = 0, start, end = 0, hits = 0
    cdef Fault fault
    cdef list out
    if shares:
        memset(known, 0, sizeof(known))
    if not view:
        # Values of the offset layouts share no bytes: if offsets fall, the loop below refuses the value.
        end = load_int(extents[1].data, at, width)
        total = max(min(load_int(extents[1].data, at + count, width), extents[2].size) - max(end, 0), 0)
    for i in range(count if view else 0):
        # The view of a null is never read; the offset of a null is, because it delimits its neighbours.
        if valid != NULL and not get_bit(valid, at + i):
            continue
        check(word_span(d, field, at + i, &p, &size, &fault), &fault, columns)
        total += size
        if total > q.bytes_left:
            q.take_bytes(columns, total)
            total = 0
    q.take_bytes(columns, total)
    out = PyList_New(count)
    try:
        for i in range(count):
            null = valid != NULL and not get_bit(valid, at + i)
            sound = view and null
            if not view:
                start = end
                end = load_int(extents[1].data, at + i + 1, width)
                sound = 0 <= start <= end <= extents[2].size
                if sound:
                    p = extents[2].data + start
                    size = end - start
            # Read views once more, because the memory may have changed meanwhile; and wrong offsets, for their fault.
            if not sound:
                check(word_span(d, field, at + i, &p, &size, &fault), &fault, columns)
            if null:
                put(out, i, None)
            elif shares:
                put(out, i, shared_text(known, &hits, p, size))
                # Texts that rarely repeat are not compared any longer.
                shares = i & 1023 != 1023 or hits > i >> 2
            elif text:
                put(out, i, text_of(p, size))
            else:
                put(out, i, PyBytes_FromStringAndSize(<const char*> p, size))
    except UnicodeDecodeError:
        check(fail(&fault, FAULT_UTF8, field, -1, at + i), &fault, columns)
    return out


cdef list lists(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Lists of all layouts. Elements that lie together are read together; elements of no list are not read."""
    cdef const ColumnsData* d = &columns.d
    cdef const uint8_t* valid = validity(d, field)
    cdef int32_t child = field + 1
    cdef list out = [], flat, part
    cdef int64_t i, start = 0, size = 0, first, end, done = 0, total = 0
    cdef bint is_map = d.plan.fields[field].type == Type_Map
    cdef Fault fault
    q.take_objects(columns, count, DICT_SLOTS if q.maps and is_map else LIST_SLOTS)
    for i in range(at, at + count):
        if valid != NULL and not get_bit(valid, i):
            continue
        check(span(d, field, i, &start, &size, &fault), &fault, columns)
        # All lists are counted before the first one is made; the sum of their sizes may overflow.
        if size > q.left - total:
            q.check(columns, INT64_MAX if size > INT64_MAX - total else total + size)
        total += size
    while done < count:
        # Find the lists from `done` on that follow each other in the elements [first, end): the next begins elsewhere.
        first, end = 0, -1
        for i in range(at + done, at + count):
            if valid != NULL and not get_bit(valid, i):
                continue
            check(span(d, field, i, &start, &size, &fault), &fault, columns)
            if size and end >= 0 and start != end:
                break
            if size:
                first = start if end < 0 else first
                end = start + size
        else:
            i = at + count
        end = max(first, end)
        if is_map:
            flat = entries(q, columns, child, d.nodes[child].offset + first, end - first)
        else:
            flat = read_values(q, columns, child, d.nodes[child].offset + first, end - first)
        end = 0
        for done in range(done, i - at):
            if valid != NULL and not get_bit(valid, at + done):
                out.append(None)
                continue
            check(span(d, field, at + done, &start, &size, &fault), &fault, columns)
            part = PyList_GetSlice(flat, end, end + size)
            out.append(dict_of(q, columns, field, at + done, part) if q.maps and is_map else part)
            end += size
        done = i - at
    return out


cdef list entries(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """The entries of maps: (key, value) tuples."""
    cdef const ColumnsData* d = &columns.d
    cdef int32_t key = field + 1, item = d.plan.fields[key].end
    q.take(columns, count)
    q.take_objects(columns, count, LIST_SLOTS)
    cdef list keys = read_values(q, columns, key, d.nodes[key].offset + at, count), out = PyList_New(count)
    cdef list items = read_values(q, columns, item, d.nodes[item].offset + at, count)
    cdef int64_t i
    for i in range(count):
        pair = (keys[i], items[i])
        if not PyObject_IS_GC(keys[i]) and not PyObject_IS_GC(items[i]):
            PyObject_GC_UnTrack(<PyObject*> pair)   # as the collector would, once it has walked over it
        put(out, i, pair)
    return out


cdef dict dict_of(Quota q, Columns columns, int32_t field, int64_t at, list pairs):
    """Return a map as a dict; a key that repeats keeps its last value, or is refused if the caller is strict."""
    cdef dict made
    try:
        made = dict(pairs)
    except TypeError as error:
        problem = f"its keys cannot be those of a dict ({error})"
    else:
        if len(made) == len(pairs) or q.maps == MAPS_LOSSY:
            return made
        problem = "a key is there more than once; maps_as_pydicts='lossy' keeps the last value, None all pairs"
    raise UsageError(f"{named_column(field_path(columns.plan, field))}, value {at}: {problem}")


# -- structs, unions, dictionaries, runs ---------------------------------------------------------------------


cdef list structs(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Structs as Python rows, made of the children's values."""
    cdef const ColumnsData* d = &columns.d
    cdef list names = [], parts = []
    cdef int32_t child
    q.take_objects(columns, count, DICT_SLOTS)
    for child in children_of(columns.plan, field):
        names.append(field_name(columns.plan, child))
        parts.append(read_values(q, columns, child, d.nodes[child].offset + at, count))
    return rows_of(tuple(names), parts, count, validity(d, field), at)


cdef list rows_of(tuple names, list columns, int64_t count, const uint8_t* valid, int64_t at):
    """Return rows as dicts; as lists of (name, value) pairs if names repeat, so that no value is lost."""
    cdef bint unique = len(set(names)) == len(names)
    cdef list out = PyList_New(count), pairs
    cdef dict row
    cdef int64_t i
    cdef Py_ssize_t k, n_columns = len(names)
    for i in range(count):
        if valid != NULL and not get_bit(valid, at + i):
            put(out, i, None)
        elif unique:
            row = {}
            for k in range(n_columns):
                row[names[k]] = <object> PyList_GET_ITEM(<list> columns[k], i)
            put(out, i, row)
        else:
            pairs = []
            for k in range(n_columns):
                pairs.append((names[k], <object> PyList_GET_ITEM(<list> columns[k], i)))
            put(out, i, pairs)
    return out


cdef list unions(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Values of unions. Rows that lie together in one child are read together; values of no row are not read."""
    cdef const ColumnsData* d = &columns.d
    cdef list out = []
    cdef int64_t i, element = 0, first = 0, length = 0
    cdef int32_t child = 0, current = -1
    cdef Fault fault
    for i in range(count):
        check(member_at(d, field, at + i, &child, &element, &fault), &fault, columns)
        if child == current and element == first + length:
            length += 1
            continue
        if length:
            out += read_values(q, columns, current, first, length)
        current = child
        first = element
        length = 1
    out += read_values(q, columns, current, first, length)
    return out


cdef list decoded(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Dictionary-encoded values: each is made once, and its rows share it."""
    cdef const ColumnsData* d = &columns.d
    cdef const uint8_t* valid = validity(d, field)
    cdef Columns dictionary = dictionary_of(columns, field)
    cdef int64_t i, index = 0, low = -1, high = -1, size = 0, origin
    cdef int32_t value_field
    cdef Fault fault
    cdef list out, flat
    cdef dict seen
    if dictionary is not None:
        size = dictionary.d.length
    for i in range(at, at + count):
        if valid != NULL and not get_bit(valid, i):
            continue
        if dictionary is None:
            check(fail(&fault, FAULT_NO_DICTIONARY, field, 1, i, dictionary_id(columns, field)), &fault, columns)
        check(index_at(d, field, i, size, &index, &fault), &fault, columns)
        if low < 0 or index < low:
            low = index
        if index > high:
            high = index
    if high < 0:
        return [None] * count
    value_field = dictionary.d.plan.columns[0]
    origin = dictionary.d.nodes[value_field].offset
    out = []
    flat = None
    seen = {}
    if high - low < 4 * count:
        flat = read_values(q, dictionary, value_field, origin + low, high - low + 1)
    for i in range(at, at + count):
        if valid != NULL and not get_bit(valid, i):
            out.append(None)
            continue
        index_at(d, field, i, size, &index, &fault)
        if flat is not None:
            out.append(<object> PyList_GET_ITEM(flat, index - low))
        else:
            if index not in seen:
                seen[index] = read_values(q, dictionary, value_field, origin + index, 1)[0]
            out.append(seen[index])
    return out


cdef Columns dictionary_of(Columns columns, int32_t field):
    cdef int32_t ordinal = columns.d.plan.fields[field].dictionary
    if columns.dictionaries is None or ordinal < 0 or ordinal >= len(columns.dictionaries):
        return None
    return <Columns?> columns.dictionaries[ordinal] if columns.dictionaries[ordinal] is not None else None


cdef int64_t dictionary_id(Columns columns, int32_t field) except? -1:
    cdef DictionaryPlan plan = columns.plan.dictionaries[columns.d.plan.fields[field].dictionary]
    return plan.id


cdef list runs(Quota q, Columns columns, int32_t field, int64_t at, int64_t count):
    """Run-end encoded values: each run's value is made once and repeated."""
    cdef const ColumnsData* d = &columns.d
    cdef int32_t child = d.plan.fields[field + 1].end
    cdef int64_t first = find_run(d, field, at), past = first, stop = at + count
    cdef int64_t position = at, end = 0, run, k = 0
    cdef list out, flat
    cdef Fault fault
    while position < stop:
        check(next_run(d, field, past, position, &end, &fault), &fault, columns)
        position = end
        past += 1
    flat = read_values(q, columns, child, d.nodes[child].offset + first, past - first)
    out = PyList_New(count)
    position = at
    for run in range(first, past):
        next_run(d, field, run, position, &end, &fault)
        value = <object> PyList_GET_ITEM(flat, run - first)
        while position < end and position < stop:
            put(out, k, value)
            k += 1
            position += 1
    return out
