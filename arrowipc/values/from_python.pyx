"""Batches and arrays made of Python lists, NumPy arrays and arrays of ours, column by column.

A field takes a list of values at a time. A nested field makes one list per child of them and hands those on,
so that every leaf is filled by one loop. Positions change on the way down; `above` remembers the fields that
change them, and only an error walks back to the row.

Dictionaries and runs are made of columns of plain values, which a `MemoTable` numbers by what is stored: 0.0 and -0.0
are two values, 1 and Decimal("1.0") are one, whatever Python says of them.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from arrowipc._core cimport (
    Columns, DictionaryPlan, Memory, Plan, Recent, Source, field_name, field_path, identity, level_of, limits_data,
)
from arrowipc.cdata.import_array cimport import_array
from arrowipc.columns.array cimport Array, dictionary_array, make_array
from arrowipc.columns.elements cimport AS_BACKED, MAX_VALUES, check_native, count_bytes, quota
from arrowipc.columns.record_batch cimport RecordBatch, batch_of_arrays, share_dictionaries, single_column
from arrowipc.distinct.memo_table cimport SPELLED_LEAST, MemoTable, new_budget
from arrowipc.distinct.unifier cimport Unifier, new_unifier
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.element cimport validity
from arrowipc.inline.fbs_layout cimport (
    Buffer_SIZE, FieldNode_SIZE, IntervalUnit_YEAR_MONTH, MetadataVersion_V5, TimeUnit_NANOSECOND, Type_Binary,
    Type_BinaryView, Type_Date, Type_Decimal, Type_FixedSizeBinary, Type_FloatingPoint, Type_Int, Type_Interval,
    Type_LargeBinary, Type_Map, Type_Time, Type_Timestamp,
)
from arrowipc.inline.layouts cimport LAYOUTS, LayoutSpec
from arrowipc.inline.loads cimport get_bit, load_i64
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST,
    LAYOUT_LIST32, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LEVEL_NONE, BatchHeader, Extent,
    FieldPlan, LimitsData, ViewRange,
)
from arrowipc.inline.threads cimport FREE_THREADED
from arrowipc.metadata.schema_reader cimport children_of, has_metadata, message_plan, plan_field, python_plan
from arrowipc.decode.decoders cimport check_dictionary, locate
from arrowipc.decode.decompress cimport normalise
from arrowipc.decode.validate cimport validate
from arrowipc.values.converters cimport STORED, Converter, is_numpy, item, whole

import sys
from operator import is_

from arrowipc.arguments import (
    check_text, described, instance_of, integer_of, items_of, metadata_of, repeated, without_descriptions,
)
from arrowipc.columns.column import Column
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.datatypes import Field, own
from arrowipc.errors import NotFoundError, UsageError
from arrowipc.schemas import Schema, numbered_field


cdef bint is_pandas(object values) except -1:
    """Whether values are a Series, an Index of one level or an array of pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is None or isinstance(values, pandas.MultiIndex):
        return False
    return isinstance(values, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray))


cdef list of_pandas(object values):
    """Such values as a list of Python's, None for what is missing."""
    return [None if missing else value for value, missing in zip(values.tolist(), sys.modules["pandas"].isna(values))]


cdef bint is_pair(object value) except -1:
    """Whether a value may be a name and what it names."""
    return isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], str)


cdef bint is_mapping(object value) except -1:
    if isinstance(value, dict):
        return True
    from collections.abc import Mapping

    return isinstance(value, Mapping)


cdef list as_list(object values):
    """A sequence as a list; None for what is none: text, bytes, mappings, sets, iterators."""
    if type(values) is list:
        return list(values) if FREE_THREADED else values    # which another thread cannot change while it is read
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


# -- fields --------------------------------------------------------------------------------------------------


cdef enum:
    NUMBERED_AT_ONCE = 1024     # values of a dictionary


cdef class Builder(Converter)


cdef class DictionaryValues:
    """The values of one dictionary while they are being collected."""

    cdef Builder builder        # of their plan; it only says what they take
    cdef Unifier unifier        # those that were used
    cdef Columns given          # those of an array, in their place
    cdef bint filled            # an index was needed where there is no value
    cdef int users              # fields that use it, over all levels

    cdef Columns columns(self):
        return self.unifier.values() if self.given is None else self.given


cdef class Builder(Converter):
    """Columns of one plan while they are being built."""

    cdef dict dictionaries      # id -> DictionaryValues, shared by all plans of one call
    cdef dict kinds             # DataType of fields, by field

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
        """Fill a field, and everything below it, from a list of Python values."""
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
        """Fill a child whose positions are others than those of its parent."""
        self.above[self.depth] = f
        self.depth += 1
        self.column(child, items)
        self.depth -= 1
        return 0

    # Lists and maps.

    cdef list elements(self, int32_t f, int64_t at, object value):
        """One list as a list."""
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
        """All list layouts; list views lie in order and side by side."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
        cdef bint view = spec.n_buffers == 3, fixed = spec.n_buffers == 1
        cdef int32_t width = spec.buffers[1].width
        cdef int64_t count = self.d.nodes[f].length, start = 0, i
        cdef uint8_t* offsets = NULL
        cdef uint8_t* sizes = NULL
        cdef list flat = [], blank = [self.filler]
        if not fixed:
            offsets = self.room(field.first_buffer + 1, (count + (not view)) * width)
            if view:
                sizes = self.room(field.first_buffer + 2, count * width)
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
        cdef uint8_t* offsets = self.room(self.p.fields[f].first_buffer + 1, (count + 1) * 4)
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
        """Append one struct's values to the lists of its children; `repeat`: two of them have one name."""
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
        """The same for (name, value) pairs; a name that repeats stands for its fields in their order."""
        cdef list row = [None] * len(names), entries
        cdef dict left = {}         # name -> fields that have no value yet, the first one behind the others
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
        cdef uint8_t* codes = self.room(field.first_buffer, count)
        cdef uint8_t* offsets = self.room(field.first_buffer + 1, 4 * count) if dense else NULL
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
        """Which child of a union takes a value, and the value without its type code."""
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
        """Whether a field takes values of this class; `loose`: also those that it converts."""
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
        """Values of field `f` as the one column of a plan."""
        cdef Builder inner = Builder(plan, self.dictionaries, True)
        inner.user, inner.user_field = self, f
        inner.column(0, items)
        return inner.finish(Columns.__new__(Columns), inner.d.nodes[0].length, values_below(self.dictionaries, plan))

    cdef int encoded(self, int32_t f, list items) except -1:
        """Indices of a dictionary, which collects the values that are new."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef DictionaryValues values = self.values_of(f)
        cdef int64_t count = self.d.nodes[f].length, start, end = 0, i
        cdef uint8_t* out = self.room(field.first_buffer + 1, count * field.width)
        cdef const uint8_t* valid
        cdef list given = items
        cdef Columns columns
        for i in range(count):
            if item(items, i, count) is None:
                self.null(f, i, True)
        if self.d.nodes[f].null_count and not LAYOUTS[values.builder.p.fields[0].layout].has_validity:
            given = [self.filler if value is None else value for value in items]
        columns = self.alone(f, values.builder.plan, given)
        if count:
            item(items, 0, count)
        valid = validity(&columns.d, 0)
        while end < count:
            start = end
            while end < count and given[end] is not self.filler and (valid == NULL or get_bit(valid, end)):
                end += 1
            self.number(f, columns, start, end, out)
            if end < count:
                # None, under a null parent, or NaT.
                if items[end] is not None:
                    self.null(f, end, given[end] is not self.filler)
                values.filled = values.filled or not field.flags & FIELD_NULLABLE
                store_int(out, end, field.width, 0)
                end += 1
        return 0

    cdef int encoded_array(self, int32_t f, Array array) except -1:
        """The same of an array of plain values."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef DictionaryValues values = self.values_of(f)
        cdef Columns columns = single_column(array, values.builder.plan)
        cdef const uint8_t* valid = validity(&columns.d, 0)
        cdef int64_t count = array.length, at = columns.d.nodes[0].offset, start, end = 0
        cdef uint8_t* out
        # Eight values for each byte, however many: they do not become Python's.
        quota(max(1 << 24, 8 * count_bytes(array.columns))).take(array.columns, count)
        out = self.room(field.first_buffer + 1, count * field.width)
        self.d.nodes[f].length = count
        while end < count:
            start = end
            while end < count and (valid == NULL or get_bit(valid, at + end)):
                end += 1
            self.number(f, columns, start, end, out)
            if end < count:
                self.null(f, end, True)
                store_int(out, end, field.width, 0)
                end += 1
        return 0

    cdef int number(self, int32_t f, Columns columns, int64_t start, int64_t end, uint8_t* out) except -1:
        """Store the indices of rows [start, end), none of which is null."""
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
                store_int(out, first + i, field.width, number[i])
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
                # A slot under a null parent goes on with whatever run there is.
                number[end] = number[end - 1] if end else -1
                end += 1
        for i in range(count):
            if i == 0 or number[i] != last:
                firsts.append(items[i])
                starts.append(i)
            last = number[i]
        out = self.room(self.p.fields[f + 1].first_buffer + 1, len(starts) * width)
        for i in range(len(starts)):
            store_int(out, i, width, starts[i + 1] if i + 1 < len(starts) else count)
        self.d.nodes[f + 1].length = len(starts)
        return self.below(f, values, firsts)

    cdef bint shares(self, int32_t f) except -1:
        """Whether a dictionary of a field, or of one below it, has other users too."""
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
    """Builder.accepts for fields without children."""
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


# Plans of the types that arrays were built of last, found by identity: making one costs more than filling a
# short array. Types are immutable, and plans do not change.
cdef Recent recent_types = Recent(8)


# -- entry points --------------------------------------------------------------------------------------------


cpdef RecordBatch build_batch(object mapping, object schema=None, int64_t rows=0):
    """See `RecordBatch.from_pydict`; `rows` are those of a batch without columns.

    A column may also be another sequence, or an :class:`Array` of the column's type. Arrays of NumPy of the right
    dtype, contiguous and in native byte order, are used as they are: later changes show in the batch.
    """
    if not is_mapping(mapping):
        raise UsageError(f"expected a mapping of column names to values, found {described(mapping)}")
    schema = given_schema(schema)
    names = list(mapping) if schema is None else schema.names
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"names of columns are text, found {described(name)}")
    names = [str.__str__(name) for name in names]
    check_names(names, mapping)
    return build_columns(names, [mapping[name] for name in names], schema, rows)


def build_arrays(arrays, names=None, schema=None, metadata=None):
    """See `RecordBatch.from_arrays`."""
    arrays = items_of("arrays", arrays)
    schema = given_schema(schema)
    if (names is None) == (schema is None):
        raise UsageError("from_arrays needs names= or schema=, and takes one of them")
    if schema is not None and metadata is not None:
        raise UsageError("from_arrays: schema= brings its own metadata, leave metadata= out")
    names = schema.names if names is None else [check_text("names", name) for name in items_of("names", names)]
    if len(names) != len(arrays):
        raise UsageError(f"expected an array for each of {len(names)} columns, found {len(arrays)}")
    return build_columns(names, arrays, schema, 0, metadata)


cdef object given_schema(object schema):
    """The schema of an argument, perhaps another library's; None: it is to be found from the values."""
    if schema is None:
        return None
    from arrowipc.types import as_schema

    return as_schema(schema)


cdef RecordBatch build_columns(list names, list columns, object schema, int64_t rows, object metadata=None):
    """A batch of columns, each a sequence, a NumPy array or an array; `rows`: of a batch without columns."""
    cdef list sources = []
    for i, name in enumerate(names):
        sources.append(column_source(name, columns[i], None if schema is None else schema.fields[i].type))
    if schema is None:
        from arrowipc.values.inference import infer_schema

        schema = with_own_dictionaries(infer_schema(names, sources, metadata), sources)
    for name, source in zip(names, sources):
        if len(source) != len(sources[0]):
            raise UsageError(f"columns must be equally long: {names[0]!r} has {len(sources[0]):,} rows, "
                             f"{name!r} has {len(source):,}")
    return build(plan_of(schema), sources, len(sources[0]) if sources else rows)


cdef object with_own_dictionaries(object schema, list sources):
    """The schema without the ids of dictionaries that arrays of another batch have already: there they mean others."""
    from arrowipc.metadata.schema_tables import dictionaries_of

    cdef dict owners = {}
    cdef list fields = []
    for field, source in zip(schema.fields, sources):
        if isinstance(source, Array):
            batch = (<Array> source).columns
            if any([owners.setdefault(each.dictionary_id, batch) is not batch for each in dictionaries_of((field,))]):
                field = numbered_field(field, lambda _: None)
        fields.append(field)
    return schema if all(map(is_, fields, schema.fields)) else schema.__replace__(fields=fields)


def build_rows(rows, schema=None):
    """See `RecordBatch.from_pylist`."""
    schema = given_schema(schema)
    items = as_list(rows)
    if items is None or not all([is_mapping(row) for row in items]):
        raise UsageError(f"rows: expected a list of dicts, found {described(rows)}")
    names = [*items[0]] if schema is None and items else [] if schema is None else schema.names
    mapping = {name: [None] * len(items) for name in names}
    for at, row in enumerate(items):
        if put_row(<list> items, at, mapping) < len(row):
            extra = [name for name in row if name not in mapping]
            whose = "first row" if schema is None else "schema"
            raise UsageError(f"row {at}: the {whose} has no {listed_names(extra)}; the columns are those of the "
                             "schema, or the keys of the first row")
    return build_batch(mapping, schema, len(items))


cdef int64_t put_row(list rows, Py_ssize_t at, dict columns) except -1:
    """Put the values of a row into its columns; returns how many columns it has a value for."""
    cdef PyObject* value
    cdef int64_t found = 0
    row = rows[at]
    for name, column in columns.items():
        if type(row) is dict and not FREE_THREADED:    # another thread may take a value out of it
            value = PyDict_GetItemWithError(row, name)
            if value == NULL:
                continue
            (<list> column)[at] = <object> value
        elif name in row:
            (<list> column)[at] = row[name]
        else:
            continue
        found += 1
    return found


def empty_batch(schema):
    """Make a batch of a schema, in little-endian byte order, that has no rows."""
    return build(plan_of(schema), [[]] * len(schema), 0)


cpdef Array build_array(object values, object type=None):
    """See `Array.from_pylist`; the field of the array is called "", is nullable, and has an array's extension type.

    Every type takes what ``to_pylist`` gives for it, None, and what converts without loss. Unions take (type code,
    value) tuples; a plain value goes to the one child whose ``to_pylist`` gives values of its class, or else to the one
    that can convert it, and None to the first child that is nullable.
    """
    cdef RecordBatch batch
    cdef Plan plan = None
    source = column_source("", values, type)
    if type is None:
        from arrowipc.values.inference import field_of, infer_type

        type = infer_type(source)
        if isinstance(source, Array) and has_metadata((<Array> source).columns.plan, (<Array> source).index):
            plan = plan_of(Schema([field_of("", type, source)]))
    batch = build(plan_of_type(type) if plan is None else plan, [source], len(source))
    return make_array(batch, 0, batch.d.nodes[0].offset, batch.d.length)


def fill_null(Array array not None, value):
    """See `Array.fill_null`."""
    from arrowipc.values.row_reader import take_across

    cdef const uint8_t* bits
    cdef Memory rows
    cdef int64_t i
    if array.null_count == 0:
        return array
    quota(AS_BACKED).take(array.columns, array.length)
    schema = Schema([array.field])
    parts = [build_arrays([each], schema=schema) for each in (array, build_array([value], array.type))]
    bits, rows = validity(&array.columns.d, array.index), Memory(8 * array.length)
    rows.size = 8 * array.length
    for i in range(array.length):
        (<int64_t*> rows.data)[i] = i if bits != NULL and get_bit(bits, array.offset + i) else array.length
    return take_across(parts, rows)[0].column(0)


def add_to_each(list batches not None, position, field, values):
    """See `RecordBatch.add_column`: batches of one schema, each with its part of the values."""
    from arrowipc.values.inference import infer_schema

    cdef RecordBatch batch = batches[0]
    cdef int64_t count = batch.d.plan.n_columns, start = 0
    cdef list fields = list(batch.schema.fields), columns, out = []
    cdef Array array
    cdef Plan plan
    place = integer_of("column", position)
    if not -count <= place <= count:
        raise NotFoundError(f"column index {position} is out of range: the batch has {count} columns")
    field = own(field, Field)
    name = field.name if isinstance(field, Field) else check_text("field", field)
    source = column_source(name, values, field.type if isinstance(field, Field) else None)
    if not isinstance(field, Field):
        field = infer_schema([name], [source]).fields[0]
    array = source if isinstance(source, Array) and source.type == field.type else build_array(source, field.type)
    rows = sum([len(each) for each in batches])
    if array.length != rows:
        raise UsageError(f"column {name!r}: expected {rows:,} values, as there are rows, found {array.length:,}")
    if not field.nullable and array.null_count:
        raise UsageError(f"column {name!r}: {array.null_count:,} values are null, and the field is not nullable")
    fields.insert(place, field)
    schema = Schema(fields, batch.schema.metadata, batch.schema.endianness)
    plan = plan_of(with_own_dictionaries(schema, [*batch.columns[:place], array, *batch.columns[place:]]))
    for batch in batches:
        columns = batch.columns
        columns.insert(place, make_array(array.columns, array.index, array.offset + start, batch.d.length))
        out.append(batch_of_arrays(plan, columns, batch.d.length))
        start += batch.d.length
    return out


cdef int check_names(list names, object mapping) except -1:
    cdef set known = set(names)
    if len(known) < len(names):
        raise UsageError(f"a mapping cannot hold columns whose names repeat: {listed_names(repeated(names))}")
    missing = [name for name in names if name not in mapping]
    extra = [name for name in mapping if name not in known]
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"missing columns: {listed_names(missing)}")
        if extra:
            parts.append(f"columns that the schema does not have: {listed_names(extra)}")
        raise UsageError("; ".join(parts))
    return 0


cdef Plan plan_of(object schema):
    cdef LimitsData limits
    if schema.endianness != "little":
        raise UsageError("columns are built in little-endian byte order; give a schema with "
                         "endianness='little'")
    limits_data(None, &limits)
    return python_plan(schema, &limits)


cdef Plan plan_of_type(object type):
    from arrowipc.types import as_type
    from arrowipc.values.inference import field_of

    found = recent_types.find(identity(type))
    if found is not None:
        return found[1]
    type = as_type(type)
    plan = plan_of(Schema([field_of("", type)]))
    recent_types.keep((type, plan), identity(type))
    return plan


cdef object column_source(str name, object values, object kind):
    """What a column is built of: a list, an Array, or a NumPy array of at least one dimension.

    `kind`: the type that it is to have, if somebody says.
    """
    if type(values) is list:
        if is_tensor(next((each for each in <list> values if each is not None), None)):
            return [None if each is None else of_tensor(each) for each in <list> values]
        return as_list(values)
    if isinstance(values, Column):
        return values._whole()
    if is_numpy(values, "ndarray"):
        if values.ndim == 0:
            raise UsageError(f"{of_column(name)}expected an array of at least one dimension, found 0")
        return values
    if is_tensor(values):
        return column_source(name, of_tensor(values), kind)
    if is_pandas(values):
        # Through pyarrow; what it does not know, or cannot be cast, goes value by value.
        try:
            array = import_array(sys.modules["pandas"].Series(values))
            return array if kind is None else array.cast(kind)
        except (ImportError, NotImplementedError, TypeError, ValueError):
            return of_pandas(values)
    if hasattr(type(values), "__arrow_c_array__") or hasattr(type(values), "__arrow_c_stream__"):
        return import_array(values)
    items = as_list(values)
    if items is None:
        raise UsageError(f"{of_column(name)}expected a sequence of values, found {described(values)}; rows go to "
                         "from_pylist")
    return items


cdef bint is_tensor(object values) except -1:
    """Whether it is an array of PyTorch, JAX or the like, which NumPy can take."""
    kind = type(values)
    return hasattr(kind, "__array__") and hasattr(kind, "__dlpack__") and not is_numpy(values, "ndarray") and not (
        hasattr(kind, "__arrow_c_array__") or hasattr(kind, "__arrow_c_stream__"))


cdef object of_tensor(object values):
    import numpy

    try:
        return numpy.asarray(values)[()]    # a scalar, where it has no dimension
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{type(values).__name__} cannot become a NumPy array: {error}") from error


cdef str of_column(str name):
    return f"column {name!r}: " if name else ""


cdef RecordBatch build(Plan plan, list sources, int64_t length):
    """A batch of the columns that `sources` hold, in the order of the plan."""
    cdef Builder builder = Builder(plan, {})
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    cdef int32_t i
    # A Builder and its dictionaries refer to each other.
    try:
        for i in range(plan.d.n_columns):
            fill(builder, plan.d.columns[i], sources[i])
        # Those of outer dictionaries first, which may need values of inner ones.
        for values in reversed(list(builder.dictionaries.values())):
            fill_up(builder.dictionaries, values)
        builder.finish(batch, length, values_below(builder.dictionaries, plan))
    finally:
        builder.dictionaries.clear()
    return batch


cdef int fill_up(dict dictionaries, DictionaryValues values) except -1:
    """Give a dictionary that needs a value one, if it has none."""
    cdef Plan plan = values.builder.plan
    cdef Builder builder
    cdef int64_t number
    if values.filled and values.given is None and values.unifier.table.count == 0:
        builder = Builder(plan, dictionaries, True)
        builder.column(0, [builder.filler])
        for below in plan.dictionaries:
            fill_up(dictionaries, dictionaries[(<DictionaryPlan> below).id])
        values.unifier.table.add(builder.finish(Columns.__new__(Columns), 1, values_below(dictionaries, plan)), 0, 1,
                                 &number)
    return 0


cdef tuple values_below(dict dictionaries, Plan plan):
    """The dictionaries of a plan as Columns."""
    cdef DictionaryPlan each
    return tuple([(<DictionaryValues> dictionaries[each.id]).columns() for each in plan.dictionaries])


# -- columns -------------------------------------------------------------------------------------------------


cdef int fill(Builder b, int32_t f, object source) except -1:
    """Fill a column from whatever it was given as."""
    if isinstance(source, list):
        return b.column(f, source)
    if isinstance(source, Array):
        return adopt(b, f, source)
    return array(b, f, source)


cdef int array(Builder b, int32_t f, object values) except -1:
    """Fill a field from a NumPy array, of as many dimensions as it nests fixed-size lists."""
    from arrowipc.values.from_numpy import Misfit, listed, stored

    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = len(values)
    if field.layout == LAYOUT_FIXED_LIST and values.ndim > 1:
        if values.shape[1] != field.width:
            b.blame(f, -1, f"expected an array of shape ({count}, {field.width}), found {values.shape}")
        b.d.nodes[f].length = count
        b.above[b.depth] = f
        b.depth += 1
        array(b, f + 1, values.reshape(count * values.shape[1], *values.shape[2:]))
        b.depth -= 1
        return 0
    found = wrong = None
    try:
        if values.ndim == 1:
            found = stored(values, b.kind(f))
        if found is None:
            return b.column(f, listed(values, b.kind(f)))
    except Misfit as misfit:
        wrong = misfit
    if wrong is not None:
        b.blame(f, -1 if wrong.row is None else wrong.row, wrong.problem)
    b.d.nodes[f].length = count
    plain, mask = found
    return buffer(b, f, values, plain, mask)


cdef int buffer(Builder b, int32_t f, object values, object plain, object mask) except -1:
    """Fill a field with the stored values of an array."""
    import numpy

    cdef const FieldPlan* field = &b.p.fields[f]
    cdef Source source
    if b.d.nodes[f].length == 0:
        return 0
    if mask is not None:
        if not field.flags & FIELD_NULLABLE:
            b.blame(f, mask.argmax(), "is null, and the field is not nullable")
        b.d.nodes[f].null_count = numpy.count_nonzero(mask)
        copied(b, field.first_buffer, numpy.packbits(~mask, bitorder="little"))
    if field.layout == LAYOUT_BOOL:
        copied(b, field.first_buffer + 1, numpy.packbits(plain, bitorder="little"))
    elif numpy.may_share_memory(plain, values):
        source = Source(plain.reshape(-1).view(numpy.uint8))
        b.take(field.first_buffer + 1, source.data, source.size, source)
    else:
        copied(b, field.first_buffer + 1, plain.reshape(-1).view(numpy.uint8))
    return 0


cdef int copied(Builder b, int32_t buffer, object values) except -1:
    """Let a buffer be a copy of bytes, with zeros behind it."""
    cdef Source source = Source(values)
    memcpy(b.room(buffer, source.size), source.data, source.size)
    return 0


cdef int adopt(Builder b, int32_t f, Array array) except -1:
    """Let a field be an Array of the same type; its buffers are shared."""
    cdef Columns source = array.columns
    cdef Array dictionary
    cdef const FieldPlan* field
    cdef const Extent* extents
    cdef const uint8_t* bits
    cdef int32_t i, k, g
    cdef int64_t row = 0
    check_native(source, "a column of a batch")
    if b.p.fields[f].flags & FIELD_ENCODED and array.type == b.kind(f).value_type:
        if b.values_of(f).builder.plan.dictionaries or source.d.plan.fields[array.index].layout == LAYOUT_NULL:
            return b.column(f, array.to_pylist(max_values=max(MAX_VALUES, 64 * array.length), extensions=STORED_TIMES))
        return b.encoded_array(f, array)
    if array.type != b.kind(f):
        from arrowipc.values.casts import cast

        try:
            array = cast(array, b.kind(f))
        except UsageError as error:
            b.blame(f, -1, f"expected an array of {b.kind(f)}, found one of {array.type} ({error})")
        return adopt(b, f, array)
    if b.shares(f):
        # Their values have to become one dictionary.
        most = max(MAX_VALUES, 64 * array.length)
        return b.column(f, array.to_pylist(max_values=most, extensions=STORED_TIMES))
    for i in range(f, b.p.fields[f].end):
        field = &b.p.fields[i]
        g = array.index + i - f
        b.d.nodes[i] = source.d.nodes[g]
        extents = &source.d.extents[source.d.plan.fields[g].first_buffer]
        for k in range(field.n_buffers):
            b.take(field.first_buffer + k, extents[k].data, extents[k].size, source)
        if field.view >= 0:
            b.pools[field.view] = variadic(source, g)
        if field.dictionary >= 0:
            dictionary = dictionary_array(source, g)
            if dictionary is not None:
                b.values_of(i).given = single_column(dictionary, b.values_of(i).builder.plan)
    b.d.nodes[f].offset = array.offset
    b.d.nodes[f].length = array.length
    b.d.nodes[f].null_count = array.null_count
    bits = validity(&b.d, f)
    if array.null_count == 0:
        if bits != NULL:
            b.take(b.p.fields[f].first_buffer, NULL, 0, None)
    elif not b.p.fields[f].flags & FIELD_NULLABLE:
        while bits != NULL and get_bit(bits, array.offset + row):
            row += 1
        b.blame(f, row, "is null, and the field is not nullable")
    return 0


cdef list variadic(Columns source, int32_t f):
    """The data buffers of a view field, as `pools` has them."""
    cdef const ViewRange* views = &source.d.views[source.d.plan.fields[f].view]
    cdef list out = []
    cdef int32_t i
    for i in range(views.first, views.first + views.count):
        out.append((<uintptr_t> source.d.extents[i].data, source.d.extents[i].size, source))
    return out


# -- batches of given buffers ------------------------------------------------------------------------------------


def from_buffers(schema, length, nodes, buffers, variadic, dictionaries, custom_metadata, level, limits):
    """See `RecordBatch.from_buffers`.

    The batch is a message whose body is all memory: a buffer's offset in it is its address. So the walk checks nodes
    and counts as it does those of a message, and what comes after it is the same.
    """
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int proof = level_of(level)
    cdef LimitsData bounds
    cdef BatchHeader header
    cdef Plan plan
    cdef Source source
    cdef bytes table
    # Lists of our own: what a caller gives may be read once only, or lie about its length.
    nodes, buffers = items_of("nodes", nodes), items_of("buffers", buffers)
    variadic, dictionaries = items_of("variadic", variadic), items_of("dictionaries", dictionaries)
    limits_data(limits, &bounds)
    if limits is None:
        bounds.rows_per_batch = bounds.dictionary_bytes = INT64_MAX
    plan = message_plan(schema, &bounds)
    owners, places = [], []
    for each in buffers:
        source = Source(b"" if each is None else each)
        owners.append(source)
        places.append((<uintptr_t> source.data if source.size else 0, source.size))
    table = packed(length, nodes, places, variadic)
    check_numbers(plan, nodes, buffers, variadic, dictionaries)
    header.length = load_i64(table)
    header.codec = -1
    header.nodes.data = <const uint8_t*> table + 8
    header.nodes.count = len(nodes)
    header.buffers.data = header.nodes.data + FieldNode_SIZE * header.nodes.count
    header.buffers.count = len(places)
    header.variadic.data = header.buffers.data + Buffer_SIZE * header.buffers.count
    header.variadic.count = len(variadic)
    locate(out, plan, &header, NULL, INT64_MAX, MetadataVersion_V5, LEVEL_NONE, &bounds)
    out.owner = owners
    out.dictionaries = given_dictionaries(plan, dictionaries, &bounds)
    normalise(out, -1, &bounds, False)
    if proof:
        validate_whole(out, proof)
    if custom_metadata:
        out.metadata_pairs = without_descriptions(metadata_of(custom_metadata).pairs)
    return out


def array_from_buffers(type, length, buffers, null_count, offset, children):
    """See `Array.from_buffers`."""
    from arrowipc.types import as_type
    from arrowipc.values.inference import field_of

    start, count = integer_of("offset", offset), integer_of("length", length)
    nodes, parts = [(start + count, -1 if start else null_count)], items_of("buffers", buffers)
    variadic, dictionaries = [len(parts) - 2] if is_view(kind := as_type(type)) else [], []
    for child in items_of("children", children or ()):
        add_parts(instance_of("children", child, Array), nodes, parts, variadic, dictionaries)
    schema = Schema([field_of("", kind)])
    made = from_buffers(schema, start + count, nodes, parts, variadic, dictionaries, (), "none", None)
    return made.column(0).slice(start)


cdef bint is_view(object kind) except -1:
    from arrowipc.datatypes import BinaryView, Utf8View

    return isinstance(kind, (BinaryView, Utf8View))


cdef int add_parts(Array array, list nodes, list buffers, list variadic, list dictionaries) except -1:
    """Append what `from_buffers` takes of an array: of it and of all below it, in pre-order."""
    if array.offset:
        array = array.take(range(array.length))
    own = array.buffers()
    nodes.append((array.length, array.null_count))
    buffers.extend(own)
    if is_view(array.type):
        variadic.append(len(own) - 2)
    if array.dictionary is not None:
        dictionaries.append(array.dictionary)
    for child in array.children:
        add_parts(child, nodes, buffers, variadic, dictionaries)
    return 0


def prove(Columns columns not None):
    """See `RecordBatch.validate`."""
    validate_whole(columns, level_of("full"))


cdef int validate_whole(Columns columns, int level) except -1:
    """`validate`, dictionaries included: they come from arrays of which nothing may be proven."""
    for dictionary in columns.dictionaries:
        if dictionary is not None:
            validate_whole(dictionary, level)
    return validate(columns, level)


cdef bytes packed(object length, object nodes, list places, object variadic):
    """The length, then FieldNode structs, Buffer structs and variadic counts, as a message holds them."""
    from array import array

    pairs = [*nodes, *places]
    try:
        return array("q", [length, *[number for first, second in pairs for number in (first, second)],
                           *variadic]).tobytes()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError("length and variadic counts are integers of 64 bits, and nodes pairs of them: "
                         f"{error}") from None


cdef int check_numbers(Plan plan, object nodes, object buffers, object variadic, object dictionaries) except -1:
    """Whether there is as much of everything as the plan asks for."""
    cdef int32_t i
    cdef int64_t encoded = 0
    for i in range(plan.d.n_fields):
        encoded += plan.d.fields[i].dictionary >= 0
    expected = plan.d.n_fields, plan.d.n_buffers + sum(variadic), plan.d.n_views, encoded
    found = len(nodes), len(buffers), len(variadic), len(dictionaries)
    if found != expected:
        raise UsageError("expected {} nodes, {} buffers, {} variadic counts and {} dictionaries, ".format(*expected)
                         + "found {}, {}, {} and {}".format(*found))
    return 0


cdef tuple given_dictionaries(Plan plan, list arrays, const LimitsData* limits):
    """The dictionaries of a plan, from the arrays that a caller has for its encoded fields."""
    cdef DictionaryPlan dictionary
    cdef Columns values
    cdef Array array
    cdef int64_t nbytes, total = 0
    cdef int32_t i, k = 0
    for i in range(plan.d.n_fields):
        if plan.d.fields[i].dictionary < 0:
            continue
        given = arrays[k]
        k += 1
        if given is None:
            continue
        dictionary = plan.dictionaries[plan.d.fields[i].dictionary]
        expected = plan_field(dictionary.values, 0).type
        if not isinstance(given, Array) or (<Array> given).type != expected:
            found = f"one of {given.type}" if isinstance(given, Array) else type(given).__name__
            raise UsageError(f"column {field_path(plan, i)!r}: its dictionary must be an array of {expected}, "
                             f"found {found}")
        check_native((<Array> given).columns, "a dictionary")
    cdef tuple out = share_dictionaries(plan, arrays)
    for i in range(len(out)):
        values = out[i]
        if values is not None:
            nbytes = count_bytes(values)
            total += nbytes
            check_dictionary((<DictionaryPlan> plan.dictionaries[i]).id, values.d.length, nbytes, total, limits)
    return out
