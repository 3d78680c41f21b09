"""Schema tables: verified and flattened into plans, projected, and turned into Python schemas.

The plan is made first, in C, because a reader needs nothing else; the Python objects that describe the same
schema are made from it on first use.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from arrowipc._core cimport (
    DictionaryPlan, Plan, Recent, field_name, field_path, open_message, raise_fault, read_pairs, text_size,
)
from arrowipc.inline.fault cimport *
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport (
    Table, Vector, fb_field, fb_i16, fb_i32, fb_i64, fb_string, fb_table, fb_table_at, fb_u8, fb_vector,
    fb_vector_table,
)
from arrowipc.inline.hash cimport hash_with
from arrowipc.inline.layouts cimport LAYOUTS, alignment_of, blank, check_children, check_nested, sizes_of
from arrowipc.inline.loads cimport load_i32, load_i64
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_KEYS_SORTED, FIELD_NULLABLE, FIELD_ORDERED, FIELD_REPEATED, FIELD_SIGNED, FIELD_UTF8,
    LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_LIST32, LAYOUT_LIST64, LAYOUT_LIST_VIEW32,
    LAYOUT_LIST_VIEW64,
    LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW, SWAP_16, SWAP_2,
    SWAP_32, SWAP_4, SWAP_4_4, SWAP_4_4_8, SWAP_8, SWAP_NONE, SWAP_VIEW, Envelope, FieldPlan, LimitsData, v4_bitmap,
)
from arrowipc.inline.room cimport reserve_items
from arrowipc.inline.threads cimport FREE_THREADED, in_order
from arrowipc.inline.utf8 cimport utf8_error

from arrowipc.arguments import described, iterator_of
from arrowipc.errors import FormatError, NotFoundError, UnsupportedError, UsageError

# -- the type of one field -----------------------------------------------------------------------------------

# The layout of each Type of the format; a union may have LAYOUT_DENSE, too.
cdef uint8_t[27] LAYOUT_OF = [
    0, LAYOUT_NULL, LAYOUT_FIXED, LAYOUT_FIXED, LAYOUT_VAR32, LAYOUT_VAR32, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_FIXED,
    LAYOUT_FIXED, LAYOUT_FIXED, LAYOUT_FIXED, LAYOUT_LIST32, LAYOUT_STRUCT, LAYOUT_SPARSE, LAYOUT_FIXED,
    LAYOUT_FIXED_LIST, LAYOUT_LIST32, LAYOUT_FIXED, LAYOUT_VAR64, LAYOUT_VAR64, LAYOUT_LIST64, LAYOUT_RUN_END,
    LAYOUT_VIEW, LAYOUT_VIEW, LAYOUT_LIST_VIEW32, LAYOUT_LIST_VIEW64,
]


cdef int read_int(const Table* type, FieldPlan* f, Fault* fault) noexcept nogil:
    cdef int32_t bits
    cdef int signed
    if fb_i32(type, Int_bitWidth, 0, &bits) < 0 or fb_u8(type, Int_is_signed, 0, &signed) < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "Int table", 0, 0, type.pos)
    f.width = bits >> 3 if bits == 128 else 0
    if bits != 8 and bits != 16 and bits != 32 and bits != 64:
        return fail_in(fault, FAULT_TYPE, "Int.bitWidth", bits)
    f.width = bits >> 3
    f.swap = SWAP_NONE if bits == 8 else SWAP_2 if bits == 16 else SWAP_4 if bits == 32 else SWAP_8
    if signed:
        f.flags |= FIELD_SIGNED
    return 0


cdef int read_decimal(const Table* type, FieldPlan* f, Fault* fault) noexcept nogil:
    cdef int32_t bits, most
    if (fb_i32(type, Decimal_precision, 0, &f.precision) < 0 or fb_i32(type, Decimal_scale, 0, &f.scale) < 0
            or fb_i32(type, Decimal_bitWidth, Decimal_bitWidth_DEFAULT, &bits) < 0):
        return fail_in(fault, FAULT_FLATBUFFER, "Decimal table", 0, 0, type.pos)
    most = 9 if bits == 32 else 18 if bits == 64 else 38 if bits == 128 else 76 if bits == 256 else 0
    if most == 0:
        return fail_in(fault, FAULT_TYPE, "Decimal.bitWidth", bits)
    if f.precision < 1 or f.precision > most:
        return fail_in(fault, FAULT_TYPE, "Decimal.precision", f.precision)
    f.width = bits >> 3
    f.swap = SWAP_4 if bits == 32 else SWAP_8 if bits == 64 else SWAP_16 if bits == 128 else SWAP_32
    return 0


cdef int read_temporal(const Table* type, int kind, FieldPlan* f, Fault* fault) noexcept nogil:
    """Read Date, Time, Timestamp, Duration and Interval: a unit, and the width that goes with it."""
    cdef int most = DateUnit_MAX if kind == Type_Date else IntervalUnit_MAX if kind == Type_Interval else TimeUnit_MAX
    cdef int unit = (Date_unit_DEFAULT if kind == Type_Date else Time_unit_DEFAULT if kind == Type_Time
                     else Duration_unit_DEFAULT if kind == Type_Duration else 0)
    cdef int found = fb_i16(type, Date_unit, unit, &unit)   # the first field of all these tables
    cdef int32_t bits = 0
    cdef Vector zone
    if found >= 0 and kind == Type_Time:
        found = fb_i32(type, Time_bitWidth, Time_bitWidth_DEFAULT, &bits)
    if found >= 0 and kind == Type_Timestamp:
        found = fb_string(type, Timestamp_timezone, &zone)
        if found > 0 and utf8_error(zone.data, zone.count) >= 0:
            return fail_in(fault, FAULT_UTF8_NAME, "timezone", 0, 0, utf8_error(zone.data, zone.count))
    if found < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "type table", 0, 0, type.pos)
    if unit < 0 or unit > most:
        return fail_in(fault, FAULT_ENUM, "unit", unit)
    f.unit = unit
    f.width = 8
    f.swap = SWAP_8
    if kind == Type_Time:
        if bits != (32 if unit <= TimeUnit_MILLISECOND else 64):
            return fail_in(fault, FAULT_TYPE, "Time.bitWidth", bits, 32 if unit <= TimeUnit_MILLISECOND else 64)
        f.width = bits >> 3
    elif kind == Type_Date and unit == DateUnit_DAY or kind == Type_Interval and unit == IntervalUnit_YEAR_MONTH:
        f.width = 4
    elif kind == Type_Interval:
        f.width = 8 if unit == IntervalUnit_DAY_TIME else 16
        f.swap = SWAP_4_4 if unit == IntervalUnit_DAY_TIME else SWAP_4_4_8
    if f.width == 4:
        f.swap = SWAP_4
    return 0


cdef int read_sized(const Table* type, int kind, FieldPlan* f, Fault* fault) noexcept nogil:
    """Read FloatingPoint, FixedSizeBinary, FixedSizeList and Map: one parameter each."""
    cdef int value = 0, found
    if kind == Type_FloatingPoint:
        found = fb_i16(type, FloatingPoint_precision, 0, &value)
    elif kind == Type_Map:
        found = fb_u8(type, Map_keysSorted, 0, &value)
    else:
        found = fb_i32(type, FixedSizeBinary_byteWidth if kind == Type_FixedSizeBinary else FixedSizeList_listSize,
                       0, &f.width)
    if found < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "type table", 0, 0, type.pos)
    if kind == Type_FloatingPoint:
        if value < 0 or value > Precision_MAX:
            return fail_in(fault, FAULT_ENUM, "FloatingPoint.precision", value)
        f.unit = value
        f.width = 2 << value
        f.swap = SWAP_2 + value
    elif kind == Type_Map:
        f.flags |= FIELD_KEYS_SORTED if value else 0
    elif f.width < 0:
        return fail_in(fault, FAULT_TYPE, "FixedSizeBinary.byteWidth" if kind == Type_FixedSizeBinary
                       else "FixedSizeList.listSize", f.width)
    return 0


cdef int read_type(const Table* type, int kind, FieldPlan* f, Fault* fault) noexcept nogil:
    cdef int mode
    if kind <= Type_NONE or kind > Type_MAX:
        return fail_in(fault, FAULT_ENUM, "Field.type", kind)
    f.type = <uint8_t> kind
    f.layout = LAYOUT_OF[kind]
    if kind == Type_Int:
        return read_int(type, f, fault)
    if kind == Type_Decimal:
        return read_decimal(type, f, fault)
    if (kind == Type_Date or kind == Type_Time or kind == Type_Timestamp or kind == Type_Duration
            or kind == Type_Interval):
        return read_temporal(type, kind, f, fault)
    if (kind == Type_FloatingPoint or kind == Type_FixedSizeBinary or kind == Type_FixedSizeList
            or kind == Type_Map):
        return read_sized(type, kind, f, fault)
    if kind == Type_Union:
        if fb_i16(type, Union_mode, 0, &mode) < 0:
            return fail_in(fault, FAULT_FLATBUFFER, "Union table", 0, 0, type.pos)
        if mode != UnionMode_Sparse and mode != UnionMode_Dense:
            return fail_in(fault, FAULT_ENUM, "Union.mode", mode)
        f.layout = LAYOUT_SPARSE if mode == UnionMode_Sparse else LAYOUT_DENSE
    if kind == Type_Utf8 or kind == Type_LargeUtf8 or kind == Type_Utf8View:
        f.flags |= FIELD_UTF8
    if f.layout == LAYOUT_VIEW:
        f.swap = SWAP_VIEW
    return 0


cdef int open_field(const Table* table, FieldPlan* model, Vector* name, Table* type, Vector* children,
                    Fault* fault) noexcept nogil:
    """Open a Field table, without its dictionary and the tables of its children."""
    cdef int kind, nullable, found
    model[0] = blank()
    found = fb_string(table, Field_name, name)
    if found >= 0:
        found = fb_u8(table, Field_nullable, 0, &nullable)
    if found >= 0:
        found = fb_u8(table, Field_type_type, 0, &kind)
    if found >= 0:
        found = fb_vector(table, Field_children, 4, children)
    if found < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "Field table", 0, 0, table.pos)
    found = fb_table(table, Field_type, type)
    if found < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "Field.type", 0, 0, table.pos)
    if found == 0 or kind == Type_NONE:
        return fail_in(fault, FAULT_MISSING, "Field.type")
    if nullable:
        model.flags |= FIELD_NULLABLE
    model.table = <uint32_t> table.pos
    return read_type(type, kind, model, fault)


cdef int open_encoding(const Table* table, FieldPlan* indices, int64_t* id, Fault* fault) noexcept nogil:
    """Open the dictionary encoding of a Field table; 0: it has none, -1: `fault` says what is wrong."""
    cdef Table encoding, type
    cdef int ordered, kind, found = fb_table(table, Field_dictionary, &encoding)
    if found == 0:
        return 0
    if found < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "Field.dictionary", 0, 0, table.pos)
    found = fb_table(&encoding, DictionaryEncoding_indexType, &type)
    if (found < 0 or fb_i64(&encoding, DictionaryEncoding_id, 0, id) < 0
            or fb_u8(&encoding, DictionaryEncoding_isOrdered, 0, &ordered) < 0
            or fb_i16(&encoding, DictionaryEncoding_dictionaryKind, 0, &kind) < 0):
        return fail_in(fault, FAULT_FLATBUFFER, "DictionaryEncoding table", 0, 0, encoding.pos)
    if kind != DictionaryKind_DenseArray:
        return fail_in(fault, FAULT_ENUM, "dictionaryKind", kind)
    indices[0] = blank()
    indices.layout, indices.type, indices.table = LAYOUT_FIXED, Type_Int, <uint32_t> table.pos
    indices.flags = FIELD_ENCODED | (FIELD_ORDERED if ordered else 0)
    if found:
        return 1 if read_int(&type, indices, fault) == 0 else -1
    # Schema.fbs: without an indexType the indices are signed int32.
    indices.width, indices.swap = 4, SWAP_4
    indices.flags |= FIELD_SIGNED
    return 1


cdef inline bint same_form(const FieldPlan* x, const FieldPlan* y, int flags) noexcept nogil:
    """Whether two fields, without their children, have the same layout, type and `flags`."""
    return (x.layout == y.layout and x.type == y.type and x.width == y.width and x.unit == y.unit
            and x.precision == y.precision and x.scale == y.scale and (x.flags ^ y.flags) & flags == 0)


# -- flattening ----------------------------------------------------------------------------------------------


cdef class PlanBuilder:
    # A plan while its fields are being added, in pre-order.
    cdef FieldPlan* fields
    cdef int8_t* codes
    cdef int32_t n_fields, n_unions, n_bitmaps, n_views, n_buffers, n_nodes, n_columns
    cdef int64_t fields_room, codes_room
    cdef list dictionaries
    cdef dict ordinals          # dictionary id -> ordinal

    def __cinit__(self):
        self.dictionaries = []
        self.ordinals = {}

    def __dealloc__(self):
        free(self.fields)
        free(self.codes)

    cdef FieldPlan* add(self, const FieldPlan* model, int32_t parent) except NULL:
        """Append a copy of `model`, and set everything that depends on its place in this plan."""
        cdef FieldPlan* f
        cdef bint is_union = model.layout == LAYOUT_SPARSE or model.layout == LAYOUT_DENSE
        if (reserve_items(<void**> &self.fields, &self.fields_room, self.n_fields + 1, sizeof(FieldPlan)) < 0
                or (is_union and reserve_items(<void**> &self.codes, &self.codes_room, self.n_unions + 1, 128) < 0)):
            raise MemoryError(f"cannot allocate a plan of more than {self.n_fields:,} fields")
        f = &self.fields[self.n_fields]
        f[0] = model[0]
        f.parent = parent
        f.n_buffers = LAYOUTS[f.layout].n_buffers
        f.first_buffer = self.n_buffers
        f.view = f.codes = -1
        if f.layout == LAYOUT_VIEW:
            f.view = self.n_views
            self.n_views += 1
        if is_union:
            f.codes = self.n_unions
            self.n_unions += 1
        self.n_bitmaps += v4_bitmap(f)
        self.n_buffers += f.n_buffers
        self.n_fields += 1
        if parent < 0:
            self.n_columns += 1
        return f

    cdef int32_t use_dictionary(self, DictionaryPlan dictionary) except -1:
        """Return the ordinal of a dictionary in this plan; add it if it is new."""
        ordinal = self.ordinals.get(dictionary.id)
        if ordinal is None:
            ordinal = self.ordinals[dictionary.id] = len(self.dictionaries)
            self.dictionaries.append(dictionary)
        elif not same_shape((<DictionaryPlan> self.dictionaries[ordinal]).values, dictionary.values):
            raise FormatError(f"dictionary {dictionary.id} is used with two different value types")
        return ordinal

    cdef Plan finish(self, const uint8_t* metadata, int64_t size, object owner, int64_t schema_table):
        cdef Plan plan = Plan.__new__(Plan)
        cdef int32_t i, column = 0
        plan.allocate(self.n_fields, self.n_columns, self.n_unions)
        if self.n_fields:
            memcpy(plan.d.fields, self.fields, self.n_fields * sizeof(FieldPlan))
        if self.n_unions:
            memcpy(plan.d.codes, self.codes, 128 * self.n_unions)
        plan.d.measurable = True
        for i in range(self.n_fields):
            if plan.d.fields[i].parent < 0:
                plan.d.columns[column] = i
                column += 1
            plan.d.alignment = max(plan.d.alignment, alignment_of(&plan.d.fields[i]))
            plan.d.measurable &= sizes_of(plan.d.fields, i, &plan.d.sizes[i])
        plan.d.n_buffers = plan.d.source_buffers = self.n_buffers
        plan.d.n_views = plan.d.source_views = self.n_views
        plan.d.n_bitmaps = plan.d.source_bitmaps = self.n_bitmaps
        plan.d.source_nodes = self.n_fields
        plan.metadata = metadata
        plan.metadata_size = size
        plan.metadata_owner = owner
        plan.schema_table = schema_table
        plan.dictionaries = self.dictionaries
        return plan


cdef str read_short_name(const Table* field):
    """Return the name of a Field table for messages: cut short, with invalid bytes replaced."""
    cdef Vector name
    if fb_string(field, Field_name, &name) <= 0:
        return ""
    return PyBytes_FromStringAndSize(<const char*> name.data, min(name.count, 200)).decode("utf-8", "replace")


cdef class SchemaReader:
    # Turns Field tables into PlanBuilder entries; one object per Schema table.
    cdef object owner           # keeps `base` alive
    cdef const uint8_t* base
    cdef int64_t size
    cdef int64_t budget         # tables that may still be visited: shared sub-tables describe 2^n fields in n bytes
    cdef int64_t text           # bytes of strings that may still be read: strings may be shared, too
    cdef int64_t max_depth
    cdef dict values            # dictionary id -> DictionaryPlan, over all levels

    cdef int fault(self, Fault* fault, const Table* field, PlanBuilder out, int32_t parent) except -1:
        """Raise a fault that concerns the Field table `field` (NULL: the Schema), naming the path to it."""
        cdef Table above
        parts = []
        if field != NULL:
            parts.append(read_short_name(field))
        while parent >= 0:
            if fb_table_at(self.base, self.size, out.fields[parent].table, &above) > 0:
                parts.append(read_short_name(&above))
            parent = out.fields[parent].parent
        parts.reverse()
        return raise_fault(fault, None, f"field {'.'.join(parts)!r}" if parts else None)

    cdef int columns(self, const Table* schema, PlanBuilder out) except -1:
        cdef Vector fields
        cdef Table field
        cdef Fault fault
        cdef int64_t i
        cdef int found = fb_vector(schema, Schema_fields, 4, &fields)
        if found == 0:
            fail_in(&fault, FAULT_MISSING, "Schema.fields")
            self.fault(&fault, NULL, out, -1)
        for i in range(fields.count):
            if found > 0:
                found = fb_vector_table(schema, &fields, i, &field)
            if found < 0:
                break
            self.field(&field, out, -1, 1, False)
        if found < 0:
            fail_in(&fault, FAULT_FLATBUFFER, "Schema.fields", 0, 0, schema.pos)
            self.fault(&fault, NULL, out, -1)
        return 0

    cdef int field(self, const Table* table, PlanBuilder out, int32_t parent, int64_t depth, bint as_values) except -1:
        """Add a Field table and everything below it; `as_values`: the value type of its dictionary instead."""
        cdef FieldPlan model, indices
        cdef FieldPlan* f
        cdef Table type
        cdef Vector name, children
        cdef Fault fault
        cdef int64_t id, bad
        cdef int32_t at, i
        cdef int encoded
        self.budget -= 2
        if self.budget < 0:
            fail_in(&fault, FAULT_TABLES, "fields and tables", self.size, self.size >> 2)
            self.fault(&fault, NULL, out, parent)
        if depth > self.max_depth:
            fail_in(&fault, FAULT_DEPTH, "Field", depth, self.max_depth)
            self.fault(&fault, NULL, out, parent)
        if open_field(table, &model, &name, &type, &children, &fault) < 0:
            if not is_wide(&model) or fault.code != FAULT_TYPE:
                self.fault(&fault, table, out, parent)
        bad = utf8_error(name.data, name.count)
        if bad >= 0:
            fail_in(&fault, FAULT_UTF8_NAME, "name", 0, 0, bad)
            self.fault(&fault, table, out, parent)
        self.text -= text_size(table)
        if self.text < 0:
            fail_in(&fault, FAULT_TABLES, "bytes of text", self.size, 4 * self.size)
            self.fault(&fault, NULL, out, parent)
        encoded = 0 if as_values else open_encoding(table, &indices, &id, &fault)
        if encoded < 0:
            self.fault(&fault, table, out, parent)
        if encoded:
            indices.flags |= model.flags & FIELD_NULLABLE
            return self.encoded_field(table, &indices, id, out, parent, depth)
        if check_children(&model, children.count, &fault) < 0:
            self.fault(&fault, table, out, parent)
        at = out.n_fields
        model.n_children = <int32_t> children.count
        model.source_node = at
        model.source_buffer = out.n_buffers
        model.views_before = out.n_views
        model.bitmaps_before = out.n_bitmaps
        f = out.add(&model, parent)
        if f.codes >= 0 and read_codes(&type, out.codes + 128 * f.codes, model.n_children, &fault) < 0:
            self.fault(&fault, table, out, parent)
        for i in range(model.n_children):
            if fb_vector_table(table, &children, i, &type) < 0:
                fail_in(&fault, FAULT_FLATBUFFER, "Field.children", 0, 0, table.pos)
                self.fault(&fault, table, out, parent)
            self.field(&type, out, at, depth + 1, False)
        out.fields[at].end = out.n_fields
        if check_nested(out.fields, at, &fault) < 0:
            self.fault(&fault, table, out, parent)
        return 0

    cdef int encoded_field(self, const Table* table, FieldPlan* indices, int64_t id, PlanBuilder out, int32_t parent,
                           int64_t depth) except -1:
        """Add a dictionary-encoded field: its indices go into `out`, its values get a plan of their own."""
        cdef DictionaryPlan dictionary = DictionaryPlan.__new__(DictionaryPlan)
        cdef PlanBuilder values = PlanBuilder()
        indices.source_node = out.n_fields
        indices.source_buffer = out.n_buffers
        indices.views_before = out.n_views
        indices.bitmaps_before = out.n_bitmaps
        indices.end = out.n_fields + 1
        self.field(table, values, -1, depth, True)
        dictionary.id = id
        dictionary.values = values.finish(self.base, self.size, self.owner, 0)
        dictionary.values.d.whole = True
        known = self.values.setdefault(id, dictionary)
        if known is not dictionary and not same_shape((<DictionaryPlan> known).values, dictionary.values):
            raise FormatError(f"dictionary {id} is used with two different value types")
        indices.dictionary = out.use_dictionary(known)
        out.add(indices, parent)
        return 0


cdef int read_codes(const Table* type, int8_t* codes, int32_t n_children, Fault* fault) noexcept nogil:
    """Turn Union.typeIds into a table of child ordinals; if they are absent, codes are 0..n-1."""
    cdef Vector ids
    cdef int32_t i, code
    memset(codes, 0xFF, 128)
    if fb_vector(type, Union_typeIds, 4, &ids) < 0:
        return fail_in(fault, FAULT_FLATBUFFER, "Union.typeIds", 0, 0, type.pos)
    if ids.data != NULL and ids.count != n_children:
        return fail_in(fault, FAULT_TYPE, "Union.typeIds: a count", ids.count, n_children)
    for i in range(n_children):
        code = load_i32(ids.data + 4 * i) if ids.data != NULL else i
        if code < 0 or code > 127:
            return fail_in(fault, FAULT_TYPE, "Union.typeIds: a type code", code)
        if codes[code] >= 0:
            return fail_in(fault, FAULT_TYPE, "Union.typeIds: a repeated type code", code)
        codes[code] = <int8_t> i
    return 0


cdef bint same_shape(Plan a, Plan b):
    """Whether two plans describe the same layout and types (names and metadata aside)."""
    cdef const FieldPlan* x
    cdef const FieldPlan* y
    cdef int32_t i
    if a is b:
        return True
    if a.d.n_fields != b.d.n_fields or a.d.n_unions != b.d.n_unions:
        return False
    for i in range(a.d.n_fields):
        x = &a.d.fields[i]
        y = &b.d.fields[i]
        if (x.parent != y.parent or x.end != y.end
                or not same_form(x, y, FIELD_SIGNED | FIELD_UTF8 | FIELD_ENCODED)):
            return False
        if x.dictionary >= 0 and not same_shape((<DictionaryPlan> a.dictionaries[x.dictionary]).values,
                                                (<DictionaryPlan> b.dictionaries[y.dictionary]).values):
            return False
    return memcmp(a.d.codes, b.d.codes, 128 * a.d.n_unions) == 0


cdef enum:
    WORTH_COPYING = 1 << 18     # bytes of metadata up to which a copy is cheap

cdef uint64_t MARK_SECRET = 0x9E3779B97F4A7C15ULL

# The plans that were read last. A service, a Spark task or a Kafka consumer that opens many small streams meets the
# same few schemas again and again, and comparing their bytes costs a hundredth of reading them.
cdef Recent recent_plans = Recent(64, 1 << 21)

cdef struct Wanted:
    # A Schema table, and the limit of depth that it is read with.
    const uint8_t* metadata
    int64_t size
    int64_t schema_table
    int64_t max_depth


cdef Plan read_plan(const uint8_t* metadata, int64_t size, int64_t schema_table, const LimitsData* limits,
                    object owner, bint some=False):
    """Return the plan of the Schema table at byte `schema_table` of a flatbuffer.

    The flatbuffer is copied, unless it is large (the footer of a file of many batches): then the plan keeps `owner`.
    `some`: the plan will be projected, so it may have columns that cannot be read.
    """
    cdef Wanted wanted = [metadata, size, schema_table, limits.depth]
    cdef Plan found
    cdef bytes copy
    cdef uint64_t mark
    if size > WORTH_COPYING:
        if FREE_THREADED:
            # Copy it here: `own_metadata` could not change a plan that other threads read.
            owner = PyBytes_FromStringAndSize(<const char*> metadata, size)
            metadata = <const uint8_t*> PyBytes_AS_STRING(owner)
        found = flatten(metadata, size, owner, schema_table, limits.depth)
        has_wide(found, not some)
        return found
    plan = recent_plans.again(&wanted, is_plan_of)
    if plan is None:
        mark = hash_with(MARK_SECRET, 0, metadata, size)   # equal marks are no proof: `is_plan_of` compares the bytes
        plan = recent_plans.find(mark, &wanted, is_plan_of)
        if plan is None:
            copy = PyBytes_FromStringAndSize(<const char*> metadata, size)
            plan = found = flatten(copy, size, copy, schema_table, limits.depth)
            if not has_wide(found, not some):
                recent_plans.keep(plan, mark, size)
    return plan


cdef inline bint is_wide(const FieldPlan* field) noexcept nogil:
    """Whether a field has integers of 128 bits, which the format does not know and polars writes."""
    return field.type == Type_Int and field.layout == LAYOUT_FIXED and field.width == 16


cdef bint has_wide(Plan plan, bint refuse) except -1:
    """Whether a plan has such a field, also in its dictionaries; with `refuse`, raise for it."""
    cdef DictionaryPlan dictionary
    cdef int32_t i
    for i in range(plan.d.n_fields):
        if is_wide(&plan.d.fields[i]):
            if refuse:
                from arrowipc.datatypes import WIDE_INTEGERS

                raise UnsupportedError(f"column {field_path(plan, i)!r} has {WIDE_INTEGERS}; columns=[...] reads the "
                                       "others")
            return True
    for dictionary in plan.dictionaries:
        if has_wide(dictionary.values, refuse):
            return True
    return False


cdef bint is_plan_of(object thing, const void* wanted) except -1:
    cdef Plan plan = <Plan> thing
    cdef const Wanted* w = <const Wanted*> wanted
    return (plan.metadata_size == w.size and plan.schema_table == w.schema_table and plan.max_depth == w.max_depth
            and memcmp(plan.metadata, w.metadata, w.size) == 0)


cdef Plan flatten(const uint8_t* metadata, int64_t size, object owner, int64_t schema_table, int64_t max_depth):
    cdef SchemaReader reader = SchemaReader.__new__(SchemaReader)
    cdef PlanBuilder builder = PlanBuilder.__new__(PlanBuilder)
    cdef Table schema
    cdef Fault fault
    cdef Plan plan
    cdef int endianness
    reader.owner = owner
    reader.base = metadata
    reader.size = size
    reader.budget = size >> 2
    reader.text = 4 * size
    reader.max_depth = max_depth
    reader.values = {}
    if (fb_table_at(reader.base, reader.size, schema_table, &schema) < 0
            or fb_i16(&schema, Schema_endianness, 0, &endianness) < 0):
        fail_in(&fault, FAULT_FLATBUFFER, "Schema table", 0, 0, schema_table)
        raise_fault(&fault)
    if endianness < 0 or endianness > Endianness_MAX:
        fail_in(&fault, FAULT_ENUM, "Schema.endianness", endianness)
        raise_fault(&fault)
    reader.columns(&schema, builder)
    plan = builder.finish(metadata, size, owner, schema_table)
    plan.d.whole = True
    plan.max_depth = max_depth
    mark_order(plan, endianness == Endianness_Big)
    return plan


cdef Plan unshared(Plan plan):
    """Make the same plan once more, with dictionaries of its own, for a reader that changes it."""
    return flatten(plan.metadata, plan.metadata_size, plan.metadata_owner, plan.schema_table, plan.max_depth)


cdef int own_metadata(Plan plan, bytes copy) except -1:
    cdef DictionaryPlan dictionary
    if type(plan.metadata_owner) is bytes:
        return 0
    if copy is None:
        copy = PyBytes_FromStringAndSize(<const char*> plan.metadata, plan.metadata_size)
    plan.metadata, plan.metadata_owner = copy, copy
    for dictionary in [*plan.dictionaries, *(plan.all_dictionaries or {}).values()]:
        own_metadata(dictionary.values, copy)
    return 0


cdef int mark_order(Plan plan, bint big) except -1:
    """Set the byte order of a plan and of its dictionaries, which come in the order of the schema that uses them."""
    cdef DictionaryPlan dictionary
    plan.d.stored_big = big
    for dictionary in plan.dictionaries:
        mark_order(dictionary.values, big)
    return 0


# -- projection ----------------------------------------------------------------------------------------------


cdef Plan project(Plan whole, object columns):
    """Return the plan of some columns: names, indices or dotted paths into structs and lists, in the order given."""
    cdef PlanBuilder out
    cdef int32_t column, first, i
    cdef Plan plan
    if columns is None:
        return whole
    chosen = {}
    wanted = []
    for item in iterator_of("columns", (columns,) if isinstance(columns, (str, int)) else columns):
        wanted.append(choose(whole, item, chosen))
        # There may be many names: a signal must be able to interrupt the loop.
        PyErr_CheckSignals()
    out = PlanBuilder()
    placed = {} if len(wanted) > len(chosen) else None      # None: no column is requested twice
    for column in wanted:
        PyErr_CheckSignals()
        below = chosen[column]
        if placed is None or below is None or column not in placed:
            first = out.n_fields
            place_field(whole, whole.d.columns[column], below, out, -1)
            if placed is not None and placed.setdefault(column, first) != first:
                for i in range(first, out.n_fields):
                    out.fields[i].flags |= FIELD_REPEATED
    plan = finish_part(whole, out)
    has_wide(plan, True)
    return plan


cdef Plan finish_part(Plan whole, PlanBuilder out):
    """Return the plan of some fields of `whole`, for messages of `whole`."""
    cdef Plan plan = out.finish(whole.metadata, whole.metadata_size, whole.metadata_owner, whole.schema_table)
    plan.d.source_nodes = whole.d.source_nodes
    plan.d.source_buffers = whole.d.source_buffers
    plan.d.source_views = whole.d.source_views
    plan.d.source_bitmaps = whole.d.source_bitmaps
    plan.d.stored_big = whole.d.stored_big
    plan.d.keep_stored = whole.d.keep_stored
    return plan


cdef Plan arrange(Plan whole, list fields):
    cdef PlanBuilder out = PlanBuilder()
    for field, below in fields:
        place_field(whole, field, below, out, -1)
    return finish_part(whole, out)


cdef int32_t choose(Plan whole, object item, dict chosen) except -1:
    """Add one column or path to `chosen`: top-level ordinal -> None (all of it) or the same for its children.

    Return the ordinal. A whole column may be requested several times, a part of one only once.
    """
    cdef int32_t i
    if isinstance(item, str):
        path = find_path(whole, -1, str.__str__(item))
        if path is None:
            known = ", ".join([repr(field_name(whole, whole.d.columns[i])) for i in range(min(whole.d.n_columns, 20))])
            raise NotFoundError(f"columns: no column {item!r}; the schema has {known or 'no columns'}"
                                f"{', ...' if whole.d.n_columns > 20 else ''}")
    elif isinstance(item, int) and not isinstance(item, bool):
        if not 0 <= item < whole.d.n_columns:
            raise NotFoundError(f"columns: index {item} is out of range; the schema has {whole.d.n_columns} columns")
        path = [item]
    else:
        raise UsageError(f"columns: expected names, indices or dotted paths, found {described(item)}")
    cdef int32_t column = path[0]
    if len(path) == 1 and chosen.setdefault(column, None) is None:
        return column
    while len(path) > 1:
        below = chosen.setdefault(path[0], {})
        if below is None:
            break
        chosen, path = below, path[1:]
    else:
        if path[0] not in chosen:
            chosen[path[0]] = None
            return column
    raise UsageError(f"columns: {item!r} is asked for twice, or together with a part of it")


cdef list children_of(Plan plan, int32_t field):
    """Return the fields directly below one; -1: the columns."""
    cdef list found = []
    cdef int32_t child = field + 1, end = plan.d.n_fields if field < 0 else plan.d.fields[field].end
    while child < end:
        found.append(child)
        child = plan.d.fields[child].end
    return found


cdef dict names_below(Plan whole, int32_t parent):
    """Return name -> ordinal for the children of a field (-1: the columns); a repeated name has a list of ordinals.

    The plan keeps it, because opening many streams of one wide schema looks names up again and again. The values are
    plain numbers, because the garbage collector would have to visit an object per name.
    """
    cdef int32_t child
    cdef dict table
    if whole.names is None:
        made = [None] * (whole.d.n_fields + 1)
        in_order()
        with cython.critical_section(whole):
            if whole.names is None:
                whole.names = made
    table = whole.names[parent + 1]
    if table is None:
        table = {}
        for ordinal, child in enumerate(children_of(whole, parent)):
            name = field_name(whole, child)
            known = table.setdefault(name, ordinal)
            if isinstance(known, list):
                known.append(ordinal)
            elif known != ordinal:
                table[name] = [known, ordinal]
        whole.names[parent + 1] = table
    return table


cdef int32_t column_named(Plan plan, object name) except -1:
    found = names_below(plan, -1).get(name)
    if type(found) is not int:
        plan_schema(plan).field(name)   # raises that there is none, or more than one
    return found


cdef list find_path(Plan whole, int32_t parent, str name):
    """Return the child ordinals from a field (-1: the top) to `name`; a name with dots is tried before its parts."""
    cdef dict names = names_below(whole, parent)
    cdef int layout
    cdef int32_t field
    dot = len(name)
    while dot > 0:
        first = name[:dot]
        found = names.get(first)
        if isinstance(found, list):
            raise NotFoundError(f"columns: {first!r} names the columns {found}; choose one by its index")
        if found is not None:
            if dot == len(name):
                return [found]
            field = children_of(whole, parent)[found]
            layout = whole.d.fields[field].layout
            if whole.d.fields[field].type != Type_Map and (layout == LAYOUT_STRUCT
                                                           or LAYOUTS[layout].n_children == 1):
                below = find_path(whole, field, name[dot + 1:])
                if below is not None:
                    return [found, *below]
        dot = name.rfind(".", 0, dot)
    return None


cdef int place_field(Plan whole, int32_t field, object below, PlanBuilder out, int32_t parent) except -1:
    """Copy a field and its chosen children: `below` is None (all), a dict by ordinals, or pairs (child, its own)."""
    cdef FieldPlan model = whole.d.fields[field]
    cdef FieldPlan* f
    cdef int32_t at = out.n_fields
    cdef list children = children_of(whole, field)
    if model.dictionary >= 0:
        model.dictionary = out.use_dictionary(whole.dictionaries[model.dictionary])
    f = out.add(&model, parent)
    if model.codes >= 0:
        memcpy(out.codes + 128 * f.codes, whole.d.codes + 128 * model.codes, 128)
    if below is None:
        below = [(child, None) for child in children]
    elif type(below) is dict:
        below = [(child, below[ordinal]) for ordinal, child in enumerate(children) if ordinal in below]
    for child, chosen in below:
        place_field(whole, child, chosen, out, at)
    out.fields[at].n_children = len(below)
    out.fields[at].end = out.n_fields
    return 0


# -- Python schemas ------------------------------------------------------------------------------------------

cdef tuple UNITS = ("s", "ms", "us", "ns")


cdef object plan_schema(Plan plan):
    """Return the `arrowipc.Schema` of a plan; it is made once."""
    cdef Table table
    cdef Vector features
    cdef int32_t i
    if plan is None:
        raise UsageError("an object that was never initialized has no schema")
    if plan.schema is None:
        from arrowipc.schemas import Schema

        metadata = kinds = ()
        if plan.schema_table:
            if (fb_table_at(plan.metadata, plan.metadata_size, plan.schema_table, &table) < 0
                    or fb_vector(&table, Schema_features, 8, &features) < 0):
                raise FormatError("Schema.features does not lie inside the metadata")
            metadata = read_pairs(&table, Schema_custom_metadata)
            kinds = tuple([load_i64(features.data + 8 * i) for i in range(features.count)])
        made = Schema(
            [plan_field(plan, plan.d.columns[i]) for i in range(plan.d.n_columns)], metadata,
            "big" if plan.d.stored_big and plan.d.keep_stored else "little", kinds,
        )
        object.__setattr__(made, "_plan", plan)
        in_order()
        with cython.critical_section(plan):
            if plan.schema is None:
                plan.schema = made
    return plan.schema


cdef bint has_metadata(Plan plan, int32_t field) noexcept nogil:
    cdef Table table
    return (fb_table_at(plan.metadata, plan.metadata_size, plan.d.fields[field].table, &table) > 0
            and fb_field(&table, Field_custom_metadata, 4) > 0)


cdef object plan_field(Plan plan, int32_t field):
    """Return the `arrowipc.Field` of one FieldPlan, with everything below it."""
    cdef Table table
    from arrowipc.datatypes import Field

    if fb_table_at(plan.metadata, plan.metadata_size, plan.d.fields[field].table, &table) < 0:
        raise FormatError("a Field table does not lie inside the metadata")
    return Field(field_name(plan, field), field_type(plan, field, &table),
                 plan.d.fields[field].flags & FIELD_NULLABLE != 0, read_pairs(&table, Field_custom_metadata))


cdef object field_type(Plan plan, int32_t field, const Table* table):
    cdef const FieldPlan* f = &plan.d.fields[field]
    cdef DictionaryPlan dictionary
    cdef Table type
    from arrowipc import datatypes as types

    if f.flags & FIELD_ENCODED:
        dictionary = plan.dictionaries[f.dictionary]
        return types.Dictionary(shared_type("Int", 8 * f.width, f.flags & FIELD_SIGNED != 0),
                                field_type(dictionary.values, 0, table), f.flags & FIELD_ORDERED != 0, dictionary.id)
    if f.layout == LAYOUT_FIXED:
        if fb_table(table, Field_type, &type) <= 0:
            raise FormatError("a type table does not lie inside the metadata")
        return fixed_type(f, &type)
    if f.layout >= LAYOUT_LIST32:
        return nested_type(plan, field, types)
    return shared_type({
        Type_Null: "Null", Type_Bool: "Bool", Type_Utf8: "Utf8", Type_Binary: "Binary", Type_LargeUtf8: "LargeUtf8",
        Type_LargeBinary: "LargeBinary", Type_Utf8View: "Utf8View", Type_BinaryView: "BinaryView",
    }[f.type])


cdef dict shared_types = {}


def shared_type(*form):
    """Return the only object of a type that has few forms: large schemas take less memory, and are compared faster."""
    found = shared_types.get(form)
    if found is None:
        from arrowipc import datatypes

        name, *parameters = form
        found = shared_types.setdefault(form, getattr(datatypes, name)(*parameters))
    return found


cdef object fixed_type(const FieldPlan* f, const Table* type):
    cdef Vector zone
    cdef int kind = f.type
    from arrowipc import datatypes as types

    if kind == Type_Int:
        if is_wide(f):
            raise UnsupportedError(types.WIDE_INTEGERS)
        return shared_type("Int", 8 * f.width, f.flags & FIELD_SIGNED != 0)
    if kind == Type_FloatingPoint:
        return shared_type("FloatingPoint", ("half", "single", "double")[f.unit])
    if kind == Type_Decimal:
        return types.Decimal(f.precision, f.scale, 8 * f.width)
    if kind == Type_Date:
        return shared_type("Date", "day" if f.unit == DateUnit_DAY else "ms")
    if kind == Type_Time:
        return shared_type("Time", UNITS[f.unit], 8 * f.width)
    if kind == Type_Timestamp:
        text = None
        if fb_string(type, Timestamp_timezone, &zone) > 0 and zone.count:
            text = PyBytes_FromStringAndSize(<const char*> zone.data, zone.count).decode()
        return types.Timestamp(UNITS[f.unit], text)
    if kind == Type_Duration:
        return shared_type("Duration", UNITS[f.unit])
    if kind == Type_Interval:
        return shared_type("Interval", ("year_month", "day_time", "month_day_nano")[f.unit])
    return types.FixedSizeBinary(f.width)


cdef object nested_type(Plan plan, int32_t field, object types):
    cdef const FieldPlan* f = &plan.d.fields[field]
    cdef const int8_t* codes
    cdef int32_t code
    cdef int kind = f.type
    children = tuple([plan_field(plan, child) for child in children_of(plan, field)])
    if kind == Type_Struct_:
        return types.Struct(children)
    if kind == Type_RunEndEncoded:
        return types.RunEndEncoded(*children)
    if kind == Type_Map:
        return types.Map(children[0], f.flags & FIELD_KEYS_SORTED != 0)
    if kind == Type_FixedSizeList:
        return types.FixedSizeList(children[0], f.width)
    if kind == Type_Union:
        codes = plan.d.codes + 128 * f.codes
        by_child = {codes[code]: code for code in range(128) if codes[code] >= 0}
        return types.Union("sparse" if f.layout == LAYOUT_SPARSE else "dense", children,
                           tuple([by_child[i] for i in range(len(children))]))
    return getattr(types, {Type_List: "List", Type_LargeList: "LargeList", Type_ListView: "ListView",
                           Type_LargeListView: "LargeListView"}[kind])(children[0])


cdef Plan python_plan(object schema, const LimitsData* limits):
    """Return the plan of an `arrowipc.Schema` (or of anything with `__arrow_c_schema__` that offers `serialize`)."""
    cdef Plan plan = getattr(schema, "_plan", None)
    if plan is not None:
        return plan
    plan = serialized_plan(schema, limits)
    if type(schema).__module__.startswith("arrowipc."):
        plan.schema = schema
        object.__setattr__(schema, "_plan", plan)
    return plan


cdef Plan message_plan(object schema, const LimitsData* limits):
    cdef Plan plan = python_plan(schema, limits)
    return plan if plan.d.whole else serialized_plan(schema, limits)


cdef Plan serialized_plan(object schema, const LimitsData* limits):
    """Read a schema made in Python from its own Schema message (behind an 8-byte prefix): so there is one parser."""
    cdef Envelope envelope
    cdef Fault fault
    if not hasattr(schema, "serialize"):
        raise UsageError(f"schema must be a Schema, found {described(schema)}")
    message = bytes(schema.serialize())
    cdef bytes metadata = message[8:8 + int.from_bytes(message[4:8], "little")]
    if open_message(metadata, len(metadata), &envelope, &fault) < 0:
        raise_fault(&fault)
    return flatten(metadata, len(metadata), metadata, envelope.header.pos, limits.depth)


# -- schemas that differ in metadata alone ---------------------------------------------------------------------------

# Compare schemas that may differ in metadata alone, table by table, without reading them anew.
#
# Some writers' metadata change from payload to payload (pandas: the range of its index). The two schemas are walked
# side by side. One of them has been read: where the other one is the same, its names, types, depth and number of
# tables need no proof of their own.

cdef inline bint same_bytes(const Vector* a, const Vector* b, int64_t element) noexcept nogil:
    return a.count == b.count and (a.count == 0 or memcmp(a.data, b.data, a.count * element) == 0)


cdef inline bint same_vector(const Table* a, const Table* b, int32_t slot, int32_t element) noexcept nogil:
    cdef Vector x, y
    return fb_vector(a, slot, element, &x) == fb_vector(b, slot, element, &y) and same_bytes(&x, &y, element)


cdef bint same_field(const Table* a, const Table* b) noexcept nogil:
    cdef FieldPlan x, y
    cdef Table type, other
    cdef Vector name, other_name, below, others
    cdef Fault fault
    cdef int64_t id = 0, other_id = 0
    cdef int found
    if (open_field(a, &x, &name, &type, &below, &fault) < 0
            or open_field(b, &y, &other_name, &other, &others, &fault) < 0
            or not same_bytes(&name, &other_name, 1) or not same_form(&x, &y, -1)
            or (x.type == Type_Timestamp and not same_vector(&type, &other, Timestamp_timezone, 1))
            or (x.type == Type_Union and not same_vector(&type, &other, Union_typeIds, 4))):
        return False
    found = open_encoding(a, &x, &id, &fault)
    return (found >= 0 and found == open_encoding(b, &y, &other_id, &fault) and id == other_id
            and same_form(&x, &y, -1) and same_fields(a, &below, b, &others))


cdef bint same_fields(const Table* a, const Vector* x, const Table* b, const Vector* y) noexcept nogil:
    """Compare vectors of Field tables, and everything below them."""
    cdef Table one, other
    cdef int64_t i
    if x.count != y.count:
        return False
    for i in range(x.count):
        if (fb_vector_table(a, x, i, &one) < 0 or fb_vector_table(b, y, i, &other) < 0
                or not same_field(&one, &other)):
            return False
    return True


cdef bint schemas_equal(const Table* schema, Plan plan) noexcept nogil:
    cdef Table known
    cdef Vector fields, others
    cdef int order = 0
    return (plan.schema_table != 0
            and fb_table_at(plan.metadata, plan.metadata_size, plan.schema_table, &known) > 0
            and fb_i16(schema, Schema_endianness, 0, &order) >= 0
            and order == (Endianness_Big if plan.d.stored_big else Endianness_Little)
            and fb_vector(schema, Schema_fields, 4, &fields) > 0
            and fb_vector(&known, Schema_fields, 4, &others) > 0 and same_fields(schema, &fields, &known, &others))


cdef bint plans_equal(Plan a, Plan b) noexcept nogil:
    cdef Table schema
    if a is b:
        return True
    # The metadata of a projected plan describe more fields than it has.
    return (a.d.whole and b.d.whole and a.schema_table != 0 and a.d.keep_stored == b.d.keep_stored
            and fb_table_at(a.metadata, a.metadata_size, a.schema_table, &schema) > 0 and schemas_equal(&schema, b))
