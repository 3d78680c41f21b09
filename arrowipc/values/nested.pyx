"""Building of the columns of one plan, with all their children, from Python lists.

A field is filled from a list of all its values. A nested field makes one list for each child from them, and fills the
child from it, so that every leaf is filled by one loop. Elements of children may have other positions than their
parents; `above` lists the fields where positions change, and only an error walks back through it to find the row.

Dictionaries and runs are made of columns of plain values. A `MemoTable` numbers these by their stored bytes, not by
Python's equality: 0.0 and -0.0 are two values, 1 and Decimal("1.0") are one.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, field_name, limits_data
from arrowipc.columns.array cimport Array
from arrowipc.columns.elements cimport count_bytes, quota
from arrowipc.columns.record_batch cimport single_column
from arrowipc.distinct.memo_table cimport SPELLED_LEAST, MemoTable, new_budget
from arrowipc.distinct.unifier cimport new_unifier
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.fbs_layout cimport (
    IntervalUnit_YEAR_MONTH, TimeUnit_NANOSECOND, Type_Binary, Type_BinaryView, Type_Date, Type_Decimal,
    Type_FixedSizeBinary, Type_FloatingPoint, Type_Int, Type_Interval, Type_LargeBinary, Type_Map, Type_Time,
    Type_Timestamp,
)
from arrowipc.inline.layouts cimport LAYOUTS, LayoutSpec
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_LIST32, LAYOUT_NULL,
    LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, FieldPlan, LimitsData,
)
from arrowipc.inline.threads cimport FREE_THREADED
from arrowipc.metadata.schema_reader cimport children_of, plan_field, python_plan
from arrowipc.values.converters cimport Converter, item
from arrowipc.values.scalars cimport STORED, is_numpy, whole

from arrowipc.arguments import items_of
from arrowipc.errors import UsageError
from arrowipc.schemas import Schema


cdef bint is_pair(object value) except -1:
    """Whether a value may be a (name, value) pair."""
    return isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], str)


cdef bint is_mapping(object value) except -1:
    if isinstance(value, dict):
        return True
    from collections.abc import Mapping

    return isinstance(value, Mapping)


cdef list as_list(object values):
    """Return a sequence as a list; None for other objects, and for text, bytes, mappings, sets and iterators."""
    if type(values) is list:
        return list(values) if FREE_THREADED else values    # a copy, which other threads cannot change
    if type(values) is tuple:
        return list(values)
    from collections.abc import Mapping, Set

    kind = type(values)
    if isinstance(values, (str, bytes, bytearray, Mapping, Set)):
        return None
    if not hasattr(kind, "__iter__") or not hasattr(kind, "__len__"):
        return None
    return items_of("values", values)


cdef str listed_names(list names):
    shown = ", ".join([repr(name) for name in names[:10]])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


cdef Plan plan_of(object schema):
    cdef LimitsData limits
    if schema.endianness != "little":
        raise UsageError("columns are built in little-endian byte order; give a schema with "
                         "endianness='little'")
    limits_data(None, &limits)
    return python_plan(schema, &limits)


cdef tuple values_below(dict dictionaries, Plan plan):
    """The dictionaries of a plan as Columns."""
    cdef DictionaryPlan each
    return tuple([(<DictionaryValues> dictionaries[each.id]).columns() for each in plan.dictionaries])


# -- fields --------------------------------------------------------------------------------------------------


cdef enum:
    NUMBERED_AT_ONCE = 1024     # values that the memo table numbers per call


cdef class DictionaryValues:
    """The values of one dictionary while they are collected."""

    cdef Columns columns(self):
        return self.unifier.values() if self.given is None else self.given


cdef class Builder(Converter):
    """The columns of one plan while they are built."""

    def __init__(self, Plan plan, dict dictionaries, bint again=False):
        cdef DictionaryPlan dictionary
        cdef DictionaryValues values
        cdef int32_t f
        self.dictionaries = dictionaries
        self.kinds = {}
        if again:
            return
        for dictionary in plan.dictionaries:
            if dictionary.id not in dictionaries:
                values = DictionaryValues.__new__(DictionaryValues)
                values.builder = Builder(dictionary.values, dictionaries)
                below = [(<DictionaryValues> dictionaries[(<DictionaryPlan> each).id]).unifier
                         for each in dictionary.values.dictionaries]
                values.unifier = new_unifier(dictionary.values, tuple(below), new_budget(SPELLED_LEAST, ""), True)
                values.unifier.table.skips_nulls = True
                dictionaries[dictionary.id] = values
        for f in range(plan.d.n_fields):
            if plan.d.fields[f].dictionary >= 0:
                values = self.values_of(f)
                values.users += 1

    cdef DictionaryValues values_of(self, int32_t f):
        cdef DictionaryPlan dictionary = self.plan.dictionaries[self.p.fields[f].dictionary]
        return self.dictionaries[dictionary.id]

    cdef object kind(self, int32_t f):
        """The DataType of a field."""
        found = self.kinds.get(f)
        if found is None:
            found = self.kinds[f] = plan_field(self.plan, f).type
        return found

    cdef int column(self, int32_t f, list items) except -1:
        """Fill a field, and all its children, from a list of Python values."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef int layout = field.layout
        self.d.nodes[f].length = PyList_GET_SIZE(items)
        if field.flags & FIELD_ENCODED:
            return self.encoded(f, items)
        if layout == LAYOUT_STRUCT:
            return self.structs(f, items)
        if layout == LAYOUT_SPARSE or layout == LAYOUT_DENSE:
            return self.unions(f, items)
        if layout == LAYOUT_RUN_END:
            return self.runs(f, items)
        if field.type == Type_Map:
            return self.maps(f, items)
        if layout >= LAYOUT_LIST32:
            return self.lists(f, items)
        return self.leaf(f, items)

    cdef int below(self, int32_t f, int32_t child, list items) except -1:
        """Fill a child whose elements have other positions than those of its parent."""
        self.above[self.depth] = f
        self.depth += 1
        self.column(child, items)
        self.depth -= 1
        return 0

    # Lists and maps.

    cdef list elements(self, int32_t f, int64_t at, object value):
        """Return one element of a list field (any sequence, or a NumPy array) as a list."""
        if is_numpy(value, "ndarray"):
            from arrowipc.values.from_numpy import Misfit, listed

            try:
                return listed(value, self.kind(f + 1))
            except Misfit as misfit:
                problem = misfit.problem
            self.blame(f, at, problem)
        items = as_list(value)
        if items is None:
            self.refuse(f, at, "a list", value)
        return items

    cdef int lists(self, int32_t f, list items) except -1:
        """Fill a field of any list layout; the lists of list views are stored in order, without gaps."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
        cdef bint view = spec.n_buffers == 3, fixed = spec.n_buffers == 1
        cdef int32_t width = spec.buffers[1].width
        cdef int64_t count = self.d.nodes[f].length, start = 0, i
        cdef uint8_t* offsets = NULL
        cdef uint8_t* sizes = NULL
        cdef list flat = [], blank = [self.filler]
        if not fixed:
            offsets = self.allocate_buffer(field.first_buffer + 1, (count + (not view)) * width)
            if view:
                sizes = self.allocate_buffer(field.first_buffer + 2, count * width)
            else:
                store_int(offsets, count, width, 0)
        for i in range(count):
            value = item(items, i, count)
            if value is None or value is self.filler:
                self.null(f, i, value is None)
                if fixed:
                    flat += blank * field.width
            else:
                flat += value if type(value) is list or type(value) is tuple else self.elements(f, i, value)
            if fixed:
                if len(flat) != (i + 1) * field.width:
                    self.refuse(f, i, f"a list of {field.width}", value,
                                f"it has {len(flat) - i * field.width}")
                continue
            store_int(offsets, i, width, start)
            if len(flat) > largest(width, True):
                self.blame(f, i, f"the lists add up to {len(flat):,} elements here, more than 32-bit offsets "
                                 f"can count; use large_{'list_view' if view else 'list'}, or fewer rows")
            if view:
                store_int(sizes, i, width, len(flat) - start)
            else:
                store_int(offsets, i + 1, width, len(flat))
            start = len(flat)
        return self.below(f, f + 1, flat)

    cdef int maps(self, int32_t f, list items) except -1:
        cdef int64_t count = self.d.nodes[f].length, i
        cdef int32_t key = f + 2
        cdef uint8_t* offsets = self.allocate_buffer(self.p.fields[f].first_buffer + 1, (count + 1) * 4)
        cdef list keys = [], values = []
        store_int(offsets, 0, 4, 0)
        for i in range(count):
            value = item(items, i, count)
            if value is None or value is self.filler:
                self.null(f, i, value is None)
            else:
                self.pairs(f, i, value, keys, values)
            if len(keys) > INT32_MAX:
                self.blame(f, i, f"the maps add up to {len(keys):,} entries here, more than 32-bit offsets "
                                 "can count; use fewer rows")
            store_int(offsets, i + 1, 4, len(keys))
        self.d.nodes[f + 1].length = len(keys)
        self.below(f, key, keys)
        return self.below(f, self.p.fields[key].end, values)

    cdef int pairs(self, int32_t f, int64_t at, object value, list keys, list values) except -1:
        """Append the entries of one map."""
        if type(value) is not list and is_mapping(value):
            value = list(value.items())
        entries = as_list(value)
        if entries is None:
            self.refuse(f, at, "a list of (key, value) pairs or a dict", value)
        for pair in entries:
            if type(pair) is not tuple:
                if not isinstance(pair, (tuple, list)):
                    self.refuse(f, at, "(key, value) pairs", pair)
                pair = tuple(pair)
            if len(<tuple> pair) != 2:
                self.refuse(f, at, "(key, value) pairs", pair)
            keys.append((<tuple> pair)[0])
            values.append((<tuple> pair)[1])
        return 0

    # Structs and unions.

    cdef int structs(self, int32_t f, list items) except -1:
        cdef int64_t count = self.d.nodes[f].length, i
        cdef list children = children_of(self.plan, f), parts = [[] for _ in children], part
        cdef tuple names = tuple([field_name(self.plan, child) for child in children])
        cdef bint repeat = len(set(names)) < len(names)
        cdef int32_t child
        for i in range(count):
            value = item(items, i, count)
            if value is None or value is self.filler:
                self.null(f, i, value is None)
                for part in parts:
                    part.append(self.filler)
            else:
                self.row(f, i, value, names, repeat, parts)
        for child, part in zip(children, parts):
            self.column(child, part)
        return 0

    cdef int row(self, int32_t f, int64_t at, object value, tuple names, bint repeat, list parts) except -1:
        """Append one struct's values to the lists of its children; `repeat`: two children have the same name."""
        cdef dict known
        cdef Py_ssize_t found = 0, k
        cdef PyObject* entry
        if not isinstance(value, dict):
            if not is_mapping(value):
                return self.row_of_pairs(f, at, value, names, parts)
            value = dict(value)
        if repeat:
            self.refuse(f, at, "(name, value) pairs, because names repeat", value)
        known = <dict> value
        with cython.critical_section(known):
            for k in range(len(names)):
                entry = PyDict_GetItemWithError(known, names[k])
                if entry == NULL:
                    (<list> parts[k]).append(None)
                else:
                    (<list> parts[k]).append(<object> entry)
                    found += 1
        if found < len(known):
            fields = set(names)
            unknown = [name for name in known if name not in fields]
            self.blame(f, at, f"the struct has no field {listed_names(unknown)}; "
                              f"its fields are {listed_names(list(names))}")
        return 0

    cdef int row_of_pairs(self, int32_t f, int64_t at, object value, tuple names, list parts) except -1:
        """Like `row`, for (name, value) pairs or a tuple. Fields of the same name take the values in order."""
        cdef list row = [None] * len(names), entries
        cdef dict left = {}         # name -> fields that have no value yet, last one first
        cdef Py_ssize_t k
        if isinstance(value, tuple) and len(value) == len(names) and not all([is_pair(each) for each in value]):
            for k in range(len(names)):
                row[k] = value[k]
        else:
            entries = as_list(value)
            if entries is None:
                self.refuse(f, at, "a dict", value)
            for k in range(len(names) - 1, -1, -1):
                left.setdefault(names[k], []).append(k)
            for pair in entries:
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    self.refuse(f, at, "a dict, (name, value) pairs, or a tuple of a value for each field", value)
                places = left.get(pair[0]) if isinstance(pair[0], str) else None
                if not places:
                    self.blame(f, at, f"the struct has no field {pair[0]!r:.80}, or not so many; "
                                      f"its fields are {listed_names(list(names))}")
                row[places.pop()] = pair[1]
        for part, entry in zip(parts, row):
            (<list> part).append(entry)
        return 0

    cdef int unions(self, int32_t f, list items) except -1:
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef bint dense = field.layout == LAYOUT_DENSE
        cdef int64_t count = self.d.nodes[f].length, i
        cdef uint8_t* codes = self.allocate_buffer(field.first_buffer, count)
        cdef uint8_t* offsets = self.allocate_buffer(field.first_buffer + 1, 4 * count) if dense else NULL
        cdef list children = children_of(self.plan, f), parts = [[] for _ in children], part
        cdef int32_t child, ordinal = 0
        cdef int8_t code = 0
        cdef int8_t[128] code_of
        for code in range(127, -1, -1):
            if self.p.codes[128 * field.codes + code] >= 0:
                code_of[self.p.codes[128 * field.codes + code]] = code
        for i in range(count):
            value = self.member(f, i, item(items, i, count), &ordinal)
            item(items, 0, count)
            codes[i] = <uint8_t> code_of[ordinal]
            if dense:
                part = parts[ordinal]
                if len(part) >= INT32_MAX:
                    self.blame(f, i, "a child has more values than 32-bit offsets can count; use fewer rows")
                store_int(offsets, i, 4, len(part))
                part.append(value)
                continue
            for part in parts:
                part.append(self.filler)
            part = parts[ordinal]
            part[len(part) - 1] = value
        for child, part in zip(children, parts):
            if dense:
                self.below(f, child, part)
            else:
                self.column(child, part)
        return 0

    cdef object member(self, int32_t f, int64_t at, object value, int32_t* ordinal):
        """Set `ordinal` to the child of a union that takes a value, and return the value without its type code."""
        cdef const int8_t* codes = self.p.codes + 128 * self.p.fields[f].codes
        cdef list children = children_of(self.plan, f), fit
        cdef int64_t code = 0
        cdef bint loose
        ordinal[0] = 0
        if value is self.filler and children:
            return value
        if value is None:
            if not self.p.fields[f].flags & FIELD_NULLABLE:
                self.blame(f, at, "is null, and the field is not nullable")
            for k, child in enumerate(children):
                if self.p.fields[<int32_t> child].flags & FIELD_NULLABLE:
                    ordinal[0] = k
                    return value
            self.blame(f, at, "is null, and no child of the union is nullable")
        if type(value) is tuple and len(value) == 2 and whole(value[0], &code) == STORED:
            if 0 <= code < 128 and codes[code] >= 0:
                ordinal[0] = codes[code]
                return value[1]
        for loose in (False, True):
            fit = [k for k, child in enumerate(children) if self.accepts(child, value, loose)]
            if len(fit) == 1:
                ordinal[0] = fit[0]
                return value
            if fit:
                break
        expected = "a value that one child takes" if fit else "a value that a child takes"
        self.refuse(f, at, f"{expected} or a (type code, value) tuple", value,
                    f"{len(fit)} of {len(children)} children would take it")

    cdef bint accepts(self, int32_t f, object value, bint loose) except -1:
        """Whether a field takes values of this value's class; `loose`: also classes that it converts."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef int layout = field.layout, kind = field.type
        cdef Builder inner
        if field.flags & FIELD_ENCODED:
            inner = self.values_of(f).builder
            return inner.accepts(0, value, loose)
        if layout == LAYOUT_RUN_END:
            return self.accepts(self.p.fields[f + 1].end, value, loose)
        if layout == LAYOUT_SPARSE or layout == LAYOUT_DENSE:
            return any([self.accepts(child, value, loose) for child in children_of(self.plan, f)])
        if layout == LAYOUT_NULL:
            return False
        if layout == LAYOUT_STRUCT or kind == Type_Map:
            if is_mapping(value):
                return loose or layout == LAYOUT_STRUCT
            return as_list(value) is not None and (loose or kind == Type_Map)
        if layout >= LAYOUT_LIST32:
            return not hasattr(value, "_fields") and as_list(value) is not None
        return takes_class(field, value, loose)

    # Encodings.

    cdef Columns alone(self, int32_t f, Plan plan, list items):
        """Build the values of field `f` as the one column of another plan."""
        cdef Builder inner = Builder(plan, self.dictionaries, True)
        inner.user, inner.user_field = self, f
        inner.column(0, items)
        return inner.finish(Columns.__new__(Columns), inner.d.nodes[0].length, values_below(self.dictionaries, plan))

    cdef int encoded(self, int32_t f, list items) except -1:
        """Fill an encoded field: add new values to its dictionary, and store indices."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef DictionaryValues values = self.values_of(f)
        cdef int64_t count = self.d.nodes[f].length, start, end = 0, i
        cdef uint8_t* out = self.allocate_buffer(field.first_buffer + 1, count * field.width)
        cdef bint has_none = False
        cdef list given = items
        cdef Columns columns
        for i in range(count):
            has_none |= item(items, i, count) is None
        if has_none and not LAYOUTS[values.builder.p.fields[0].layout].has_validity:
            given = [self.filler if value is None else value for value in items]
        columns = self.alone(f, values.builder.plan, given)
        if count:
            item(items, 0, count)
        while end < count:
            start = end
            while end < count and given[end] is not self.filler:
                end += 1
            self.number(f, columns, start, end, out)
            if end < count:
                # The value is None, or its parent is null.
                self.null(f, end, items[end] is None)
                values.filled = values.filled or not field.flags & FIELD_NULLABLE
                store_int(out, end, field.width, 0)
                end += 1
        return 0

    cdef int encoded_array(self, int32_t f, Array array) except -1:
        """Like `encoded`, but for an Array of plain values."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef Columns columns = single_column(array, self.values_of(f).builder.plan)
        # Allow eight values for each byte without an absolute limit: they do not become Python objects.
        quota(max(1 << 24, 8 * count_bytes(array.columns))).take(array.columns, array.length)
        self.d.nodes[f].length = array.length
        return self.number(f, columns, 0, array.length,
                           self.allocate_buffer(field.first_buffer + 1, array.length * field.width))

    cdef int number(self, int32_t f, Columns columns, int64_t start, int64_t end, uint8_t* out) except -1:
        """Add rows [start, end) of `columns` to the dictionary, but nulls; store their indices in `out`."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef DictionaryValues values = self.values_of(f)
        cdef int64_t most = largest(field.width, field.flags & FIELD_SIGNED != 0), first, count, i
        cdef int64_t number[NUMBERED_AT_ONCE]
        for first in range(start, end, NUMBERED_AT_ONCE):
            count = min(NUMBERED_AT_ONCE, end - first)
            values.unifier.table.add(columns, first, count, number)
            for i in range(count):
                if number[i] > most:
                    self.blame(f, first + i, f"this is distinct value {number[i] + 1:,} of the dictionary, too many "
                                             f"for {8 * field.width}-bit indices; use a wider index type")
                if number[i] < 0:
                    self.null(f, first + i, True)
                store_int(out, first + i, field.width, max(number[i], 0))
        return 0

    cdef int runs(self, int32_t f, list items) except -1:
        cdef int32_t values = self.p.fields[f + 1].end, width = self.p.fields[f + 1].width
        cdef int64_t count = self.d.nodes[f].length, most = largest(width, True), start, end = 0, last = -1, i
        cdef uint8_t* out
        cdef list firsts = [], starts = []
        cdef int64_t* number
        cdef Memory numbers
        cdef Columns columns
        cdef MemoTable table
        if count > most:
            self.blame(f, most, f"{count:,} rows are more than {8 * width}-bit run ends can count; "
                                "use wider run ends")
        for i in range(count):
            if item(items, i, count) is None and not self.p.fields[f].flags & FIELD_NULLABLE:
                self.blame(f, i, "is null, and the field is not nullable")
        table = MemoTable(plan_of(Schema([plan_field(self.plan, values)])))
        columns = self.alone(values, table.plan, items)
        if count:
            item(items, 0, count)
        numbers = Memory(8 * count)
        number = <int64_t*> numbers.data
        while end < count:
            start = end
            while end < count and items[end] is not self.filler:
                end += 1
            table.add(columns, start, end - start, number + start)
            if end < count:
                # A slot under a null parent continues the current run.
                number[end] = number[end - 1] if end else -1
                end += 1
        for i in range(count):
            if i == 0 or number[i] != last:
                firsts.append(items[i])
                starts.append(i)
            last = number[i]
        out = self.allocate_buffer(self.p.fields[f + 1].first_buffer + 1, len(starts) * width)
        for i in range(len(starts)):
            store_int(out, i, width, starts[i + 1] if i + 1 < len(starts) else count)
        self.d.nodes[f + 1].length = len(starts)
        return self.below(f, values, firsts)

    cdef bint shares(self, int32_t f) except -1:
        """Whether a dictionary of this field, or of one below it, is also used by another field."""
        cdef DictionaryValues values
        cdef int32_t i
        for i in range(f, self.p.fields[f].end):
            if self.p.fields[i].dictionary >= 0:
                values = self.values_of(i)
                if values.users > 1 or values.builder.shares(0):
                    return True
        return False


# -- classes of values ---------------------------------------------------------------------------------------

cdef set BINARY = {Type_Binary, Type_LargeBinary, Type_BinaryView}


cdef bint takes_class(const FieldPlan* field, object value, bint loose) except -1:
    """Like `Builder.accepts`, but for fields without children."""
    import datetime
    from decimal import Decimal

    cdef int layout = field.layout, kind = field.type
    cdef bint integer = is_numpy(value, "integer") or isinstance(value, int) and not isinstance(value, bool)
    if layout == LAYOUT_BOOL:
        return isinstance(value, bool) or is_numpy(value, "bool_")
    if layout != LAYOUT_FIXED:
        if kind in BINARY:
            return isinstance(value, (bytes, bytearray, memoryview))
        return isinstance(value, str)
    if kind == Type_FixedSizeBinary:
        return isinstance(value, (bytes, bytearray, memoryview))
    if kind == Type_Int or kind == Type_Interval and field.unit == IntervalUnit_YEAR_MONTH:
        return integer
    if kind == Type_Interval:
        return hasattr(value, "_fields") or loose and isinstance(value, (tuple, list))
    if kind == Type_FloatingPoint:
        return isinstance(value, float) or is_numpy(value, "floating") or loose and integer
    if kind == Type_Decimal:
        return isinstance(value, Decimal) or loose and (integer or isinstance(value, str))
    if integer:
        return loose or kind != Type_Date and field.unit == TimeUnit_NANOSECOND
    if kind == Type_Date:
        return isinstance(value, datetime.date) and (loose or not isinstance(value, datetime.datetime))
    if kind == Type_Time:
        return isinstance(value, datetime.time)
    if kind == Type_Timestamp:
        return isinstance(value, datetime.datetime) or is_numpy(value, "datetime64")
    return isinstance(value, datetime.timedelta) or is_numpy(value, "timedelta64")
