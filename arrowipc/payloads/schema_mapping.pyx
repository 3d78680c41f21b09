"""Makes of a payload's columns those of the output: fields are matched by name, what is missing becomes null.

Dictionaries become one, or plain values, here for the payloads that are read one by one, and in
`payloads.dictionaries` for those that the loop takes.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, field_path, limits_data, raise_fault
from arrowipc.columns.builder cimport FAULT_FULL, ColumnsBuilder, begins_with, extends, raise_append_fault
from arrowipc.columns.elements cimport dictionary_of
from arrowipc.columns.memo_table cimport Budget, MemoTable, nested_memo_table, new_budget, plainly_continues, transpose
from arrowipc.columns.take cimport take_into
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_STRICT_NULLABLE, Fault, fail
from arrowipc.inline.layouts cimport LAYOUTS, LayoutSpec, size_needed
from arrowipc.inline.loads cimport add_overflows, get_bit, mul_overflows
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END,
    LAYOUT_STRUCT, ColumnsData, Extent, FieldPlan, LimitsData, Node, ViewRange, copy_tables, place_field,
)
from arrowipc.metadata.schema_reader cimport arrange, children_of, plan_schema, python_plan, same_shape

from arrowipc.errors import LimitError, UsageError

# -- missing columns ---------------------------------------------------------------------------------


cdef int zeros(Blanks* b, Extent* extent, int64_t elements, int64_t width, Fault* fault) noexcept nogil:
    """So many values of zeros."""
    cdef int64_t size, room
    if (mul_overflows(elements, width, &size) or add_overflows(b.used, size, &b.used) or b.used > b.most):
        return fail(fault, FAULT_BLANKS, -1, -1, -1, b.used, b.most)
    if size > b.n_zeros:
        room = max(size, 2 * b.n_zeros + 4096)
        free(b.zeros)
        b.n_zeros = 0
        b.zeros = <uint8_t*> calloc(1, room)
        if b.zeros == NULL:
            return fail(fault, FAULT_MEMORY)
        b.n_zeros = room
        b.moved = True
    extent.data = b.zeros if size else NULL
    extent.size = size
    return 0


cdef int codes_of(Blanks* b, Extent* extent, int32_t code, int64_t count, Fault* fault) noexcept nogil:
    """So many type codes."""
    if code == 0:
        return zeros(b, extent, count, 1, fault)
    if add_overflows(b.used, count, &b.used) or b.used > b.most:
        return fail(fault, FAULT_BLANKS, -1, -1, -1, b.used, b.most)
    if count > b.n_codes[code]:
        free(b.codes[code])
        b.n_codes[code] = 0
        b.codes[code] = <uint8_t*> malloc(2 * count)
        if b.codes[code] == NULL:
            return fail(fault, FAULT_MEMORY)
        memset(b.codes[code], code, 2 * count)
        b.n_codes[code] = 2 * count
        b.moved = True
    extent.data = b.codes[code] if count else NULL
    extent.size = count
    return 0


cdef int blank(Blanks* b, ColumnsData* d, int32_t f, int64_t n, bint null, Fault* fault) noexcept nogil:
    """Make field f and all below it `n` nulls, or zeros where it is not nullable and what is around it is null."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef Extent* extent = &d.extents[field.first_buffer]
    cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
    cdef int64_t size
    cdef int32_t k
    d.nodes[f] = Node(n, n if field.layout == LAYOUT_NULL or (null and spec.has_validity) else 0, 0)
    for k in range(field.n_buffers):
        extent[k].data = NULL
        extent[k].size = 0
    if not spec.has_validity and spec.n_children:
        return blank_codes(b, d, f, n, fault)
    for k in range(field.n_buffers):
        if k == 0 and not null:
            continue
        size = size_needed(field, k, n)
        if size >= 0 and zeros(b, &extent[k], size, 1, fault) < 0:
            return -1
    if field.view >= 0:
        d.views[field.view].first = d.plan.n_buffers
        d.views[field.view].count = 0
    if spec.n_children == 0:
        return 0
    if field.layout == LAYOUT_FIXED_LIST:
        if mul_overflows(n, field.width, &n):
            return fail(fault, FAULT_FULL, f, -1, -1, INT64_MAX, INT64_MAX, b"elements")
    elif spec.n_children == 1:
        return blank(b, d, f + 1, 0, True, fault)
    return blank_children(b, d, f, n, fault)


cdef int blank_children(Blanks* b, ColumnsData* d, int32_t f, int64_t n, Fault* fault) noexcept nogil:
    cdef int32_t child = f + 1
    cdef bint null
    while child < d.plan.fields[f].end:
        # What is encoded becomes null in any case: its dictionary may have no value to stand there.
        null = d.plan.fields[child].flags & FIELD_NULLABLE or d.plan.fields[child].dictionary >= 0
        if blank(b, d, child, n, null, fault) < 0:
            return -1
        child = d.plan.fields[child].end
    return 0


cdef int blank_codes(Blanks* b, ColumnsData* d, int32_t f, int64_t n, Fault* fault) noexcept nogil:
    """Unions and runs, which have no nulls of their own: those of their first child, or of their values, count."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const FieldPlan* ends
    cdef Extent* extent
    cdef int32_t child = f + 1, code = 0
    if field.layout == LAYOUT_RUN_END:
        ends = &d.plan.fields[child]
        if n > largest(ends.width, True):
            return fail(fault, FAULT_FULL, f, -1, -1, n, largest(ends.width, True), b"run ends")
        b.ends[f] = n
        extent = &d.extents[ends.first_buffer]
        extent[0].data = NULL
        extent[0].size = 0
        extent[1].data = <const uint8_t*> &b.ends[f] if n else NULL
        extent[1].size = ends.width if n else 0
        d.nodes[child] = Node(1 if n else 0, 0, 0)
        return blank(b, d, ends.end, 1 if n else 0, True, fault)
    if field.n_children == 0:
        if n:
            return fail(fault, FAULT_FULL, f, -1, -1, n, 0, b"values of a union without children")
        return 0
    while code < 127 and d.plan.codes[128 * field.codes + code] != 0:
        code += 1
    extent = &d.extents[field.first_buffer]
    if codes_of(b, &extent[0], code, n, fault) < 0:
        return -1
    if field.layout == LAYOUT_DENSE:
        # All rows are the one null of the first child.
        if zeros(b, &extent[1], n, 4, fault) < 0:
            return -1
        n = 1 if n else 0
    while child < field.end:
        if blank(b, d, child, n, True, fault) < 0:
            return -1
        if field.layout == LAYOUT_DENSE:
            n = 0
        child = d.plan.fields[child].end
    return 0


# -- mappings --------------------------------------------------------------------------------------------------


cdef class SchemaMapping:
    def __dealloc__(self):
        cdef int i
        free(self.origins)
        free(self.guarded)
        free(self.target.prefix)
        free(self.blanks.zeros)
        free(self.blanks.ends)
        for i in range(128):
            free(self.blanks.codes[i])

    cdef int reserve(self, int64_t variadic) except -1:
        """Room for so many data buffers of views."""
        cdef int64_t room = max(variadic, 2 * self.target.room)
        cdef Columns decoded = Columns.__new__(Columns), piece = Columns.__new__(Columns)
        decoded.allocate(self.plan, room)
        piece.allocate(self.out, room)
        self.decoded = decoded
        self.piece = piece
        self.target.d = &decoded.d
        self.target.room = room
        return 0

    cdef int allocate(self, int64_t guarded) except -1:
        """Room for what is found about the fields, of which so many are guarded."""
        cdef int32_t n = self.out.d.n_fields
        self.origins = <Origin*> calloc(n + 1, sizeof(Origin))
        self.guarded = <int32_t*> calloc(guarded + 1, sizeof(int32_t))
        self.target.prefix = <int64_t*> calloc(self.plan.d.source_views + 1, sizeof(int64_t))
        self.blanks.ends = <int64_t*> calloc(n + 1, sizeof(int64_t))
        if self.origins == NULL or self.guarded == NULL or self.target.prefix == NULL or self.blanks.ends == NULL:
            raise MemoryError()
        self.n_guarded = guarded
        return self.reserve(0)

    cdef int set_entries(self, list entries, list guarded) except -1:
        """Take over what was found: (how, field of `plan`) per field of `out`."""
        cdef int32_t i
        self.allocate(len(guarded))
        self.alike = True
        for i, entry in enumerate(entries):
            if entry is not None:
                self.origins[i].how = entry[0]
                self.origins[i].field = entry[1]
                self.encoded |= entry[0] >= HOW_TRANSPOSED
            self.alike = self.alike and entry in ((HOW_READ, i), (HOW_TRANSPOSED, i))
        self.direct = self.alike and not self.encoded
        for i, field in enumerate(guarded):
            self.guarded[i] = field
        return 0

    cdef int set_identity(self) except -1:
        """Every field is itself: few payloads at a time would wait longer for the comparison than for their rows."""
        cdef int32_t i
        self.allocate(0)
        for i in range(self.out.d.n_fields):
            self.origins[i].field = i
            if self.out.d.fields[i].dictionary >= 0:
                self.origins[i].how = HOW_TRANSPOSED
                self.encoded = True
        self.alike = True
        self.direct = not self.encoded
        return 0

    cdef int spread(self, const ColumnsData* d, int64_t most, Fault* fault) noexcept nogil:
        cdef int found
        self.blanks.most = most
        self.blanks.used = 0
        if self.alike:
            copy_tables(&self.piece.d, d)
            self.piece.d.length = d.length
            self.piece.d.n_extents = d.n_extents
            return 0
        while True:
            self.blanks.moved = False
            self.blanks.used = 0
            found = spread_fields(self.origins, &self.blanks, d, &self.piece.d, fault)
            if found < 0 or not self.blanks.moved:
                return found

    cdef int spread_nulls(self, int64_t rows, int64_t most, Fault* fault) noexcept nogil:
        cdef ColumnsData* piece = &self.piece.d
        cdef int32_t i
        self.blanks.most = most
        piece.length = rows
        piece.n_extents = piece.plan.n_buffers
        while True:
            self.blanks.moved = False
            self.blanks.used = 0
            for i in range(piece.plan.n_columns):
                if blank(&self.blanks, piece, piece.plan.columns[i], rows, True, fault) < 0:
                    return -1
            if not self.blanks.moved:
                return 0

    cdef int check_nulls(self, const ColumnsData* d, Fault* fault) noexcept nogil:
        """Whether a field has nulls that the output must not have."""
        cdef int32_t i, f, p
        cdef int64_t k, count
        cdef const uint8_t* bits
        cdef const uint8_t* above
        for i in range(self.n_guarded):
            f = self.guarded[i]
            count = d.nodes[f].null_count
            if count == 0:
                continue
            p = d.plan.fields[f].parent
            if p >= 0 and d.plan.fields[p].layout == LAYOUT_STRUCT and d.nodes[p].null_count:
                # What stands below a null does not count. A null field has no bitmap: all of it is null.
                bits = NULL
                if d.plan.fields[f].layout != LAYOUT_NULL:
                    bits = d.extents[d.plan.fields[f].first_buffer].data
                above = d.extents[d.plan.fields[p].first_buffer].data
                count = 0
                for k in range(d.nodes[p].length):
                    count += (bits == NULL or not get_bit(bits, k)) and get_bit(above, k)
                if count == 0:
                    continue
            return fail(fault, FAULT_STRICT_NULLABLE, f, -1, -1, count)
        return 0


cdef int spread_fields(const Origin* origins, Blanks* b, const ColumnsData* d, ColumnsData* piece,
                       Fault* fault) noexcept nogil:
    """Nodes and extents of every field of the output."""
    cdef const FieldPlan* out = piece.plan.fields
    cdef int32_t f = 0, used = piece.plan.n_buffers
    cdef int64_t n
    piece.length = d.length
    while f < piece.plan.n_fields:
        if origins[f].how == HOW_ABSENT:
            n = d.length if out[f].parent < 0 else piece.nodes[out[f].parent].length
            if blank(b, piece, f, n, True, fault) < 0:
                return -1
        if origins[f].how == HOW_ABSENT or origins[f].how == HOW_DECODED:
            f = out[f].end
            continue
        used = place_field(piece, f, d, origins[f].field, used)
        f += 1
    piece.n_extents = used
    return 0


cdef int raise_mapping_fault(const Fault* fault, Plan plan) except -1:
    if fault.code == FAULT_BLANKS:
        raise LimitError("the columns that the payload has not would take more bytes than it may become "
                         "(Limits.decompressed_ratio and decompressed_slack)")
    return raise_append_fault(fault, plan)


# -- matching ------------------------------------------------------------------------------------------------


cdef object plain_type(object type):
    """The type with the values of dictionaries in their place."""
    from arrowipc import datatypes as types

    if isinstance(type, types.Dictionary):
        return plain_type(type.value_type)
    if not type.children:
        return type
    children = [plain_field(child) for child in type.children]
    if isinstance(type, types.Struct):
        return types.Struct(children)
    if isinstance(type, types.FixedSizeList):
        return types.FixedSizeList(children[0], type.list_size)
    if isinstance(type, types.Map):
        return types.Map(children[0], type.keys_sorted)
    if isinstance(type, types.Union):
        return types.Union(type.mode, children, type.type_codes)
    if isinstance(type, types.RunEndEncoded):
        return types.RunEndEncoded(*children)
    return type.__class__(children[0])


cdef object plain_field(object field):
    from arrowipc.datatypes import Field

    return Field(field.name, plain_type(field.type), field.nullable, field.metadata)


cdef object plain_schema(object schema):
    from arrowipc.schema import Schema

    return Schema([plain_field(field) for field in schema.fields], schema.metadata, schema.endianness, schema.features)


@cython.final
cdef class Matching:
    # What is known of a mapping while two schemas are compared.
    cdef Plan whole, out
    cdef bint strict
    cdef int32_t taken          # fields of the arranged plan so far
    cdef list entries           # of SchemaMapping.set_entries
    cdef list guarded
    cdef list sources           # fields of `whole`, in the order in which they are taken

    cdef object refuse(self, tuple path, object ours, object theirs):
        return UsageError(f"column {'.'.join(path)!r}: the payload has {theirs}, the output {ours}")

    cdef list children(self, tuple ours, list places, tuple theirs, list sources, tuple path):
        """Match fields by name; returns what `arrange` takes. A name that occurs again means the next of its name."""
        cdef list chosen = [], names = [field.name for field in theirs]
        cdef dict used = {}, waiting = {}, surplus = None
        for i in range(len(names) - 1, -1, -1):
            waiting.setdefault(names[i], []).append(i)      # the next of its name comes last
        for field, place in zip(ours, places):
            if not waiting.get(field.name):
                if not field.nullable:
                    raise UsageError(f"column {'.'.join((*path, field.name))!r}: the payload has no such field, and "
                                     "the output's is not nullable")
                if surplus is None:
                    surplus = by_spelling(ours, names)
                other = surplus.get(field.name.lower())
                if other is not None:
                    # To take it for missing would lose its values.
                    raise UsageError(f"column {'.'.join((*path, field.name))!r}: the payload spells it {other!r}")
                self.entries[place] = (HOW_ABSENT, -1)
                continue
            used[field.name] = at = waiting[field.name].pop()
            chosen.append(self.field(field, place, theirs[at], sources[at], (*path, field.name), True))
        if self.strict and len(chosen) < len(theirs):
            found = [name for i, name in enumerate(names) if used.get(name, -1) < i]
            raise UsageError(f"column {'.'.join((*path, found[0]))!r}: the payload has this field and the output has "
                             "not; pass schema= or columns= to say which are wanted")
        return chosen

    cdef tuple field(self, object ours, int32_t place, object theirs, int32_t source, tuple path, bint named):
        """Match two fields, and what is below them: the children of structs by name, others one by one."""
        from arrowipc import datatypes as types

        a, b = ours.type, theirs.type
        how = HOW_READ
        if isinstance(b, types.Dictionary):
            encoded = isinstance(a, types.Dictionary)
            how = HOW_TRANSPOSED if encoded else HOW_DECODED
            if not (b.value_type == a.value_type if encoded else plain_type(b.value_type) == a):
                raise self.refuse(path, a, b)
        elif isinstance(a, types.Dictionary) and a.value_type == b and not b.children and not isinstance(b, types.Null):
            # Values without fields below them, whose nulls have a bitmap that serves the indices as well.
            how = HOW_ENCODED
        elif type(a) is not type(b) or not same_shell(a, b, types):
            raise self.refuse(path, a, b)
        self.entries[place] = (how, self.taken)
        if theirs.nullable and not ours.nullable:
            self.guarded.append(self.taken)
        self.taken += 1
        self.sources.append(source)
        if how != HOW_READ or not a.children:
            return source, None
        places, sources = children_of(self.out, place), children_of(self.whole, source)
        if named and isinstance(a, types.Struct):
            return source, self.children(a.children, places, b.children, sources, path)
        # The struct of a map's entries: writers give its children different names.
        named = not isinstance(a, types.Map)
        return source, [self.field(a.children[i], places[i], b.children[i], sources[i],
                                   (*path, a.children[i].name), named) for i in range(len(places))]


cdef dict by_spelling(tuple ours, list names):
    """The first of the `names` that none of our fields has, by how it is spelled without capitals."""
    cdef set known = {field.name for field in ours}
    cdef dict found = {}
    for name in names:
        if name not in known:
            found.setdefault(name.lower(), name)
    return found


cdef bint same_shell(object a, object b, object types) except -1:
    """Whether two types of one class are equal apart from their children."""
    if isinstance(a, types.FixedSizeList):
        return a.list_size == b.list_size
    if isinstance(a, types.Map):
        return a.keys_sorted <= b.keys_sorted
    if isinstance(a, types.Union):
        return (a.mode == b.mode and a.type_codes == b.type_codes
                and [child.name for child in a.children] == [child.name for child in b.children])
    if isinstance(a, types.RunEndEncoded):
        return a.run_ends.type == b.run_ends.type
    return bool(a.children) or isinstance(a, types.Struct) or a == b


cdef SchemaMapping find_mapping(Plan whole, Plan out, bint strict):
    """The mapping of one schema to another; UsageError if there is none."""
    cdef SchemaMapping mapping = SchemaMapping.__new__(SchemaMapping)
    mapping.whole = whole
    mapping.out = out
    if whole is out:
        mapping.plan = whole
        mapping.set_identity()
    else:
        match(mapping, strict)
    return mapping


cdef int match(SchemaMapping mapping, bint strict) except -1:
    """Compare the two schemas of a mapping by the names of their fields."""
    cdef Matching matching = Matching.__new__(Matching)
    cdef Plan whole = mapping.whole, out = mapping.out
    cdef int32_t i
    ours, theirs = plan_schema(out).fields, plan_schema(whole).fields
    matching.whole = whole
    matching.out = out
    matching.strict = strict
    matching.entries = [None] * out.d.n_fields
    matching.guarded = []
    matching.sources = []
    chosen = matching.children(ours, [out.d.columns[i] for i in range(out.d.n_columns)],
                               theirs, [whole.d.columns[i] for i in range(whole.d.n_columns)], ())
    if ours and not chosen:
        raise UsageError(f"the payload has none of the columns: it has {[field.name for field in theirs]}, the output "
                         f"{[field.name for field in ours]}")
    mapping.plan = whole if matching.sources == list(range(whole.d.n_fields)) else arrange(whole, chosen)
    mapping.set_entries(matching.entries, matching.guarded)
    return 0


# -- dictionaries --------------------------------------------------------------------------------------------

# Memo tables number the values that come in, and indices are transposed to these numbers. Where the output has plain
# values, they are taken from each payload's own dictionary, so that nothing is put together that nobody refers to.

class IndicesFull(UsageError):
    """The indices of an output column cannot count the distinct values of all payloads."""


cdef enum:
    PLACE = 32      # bytes that the place of a value takes, in all tables of places
    MOST_RECENT = 8 # dictionaries of payloads whose places are kept, for each of the output


cdef int encode_values(MemoTable table, const ColumnsData* d, int32_t f, int64_t* places, Fault* fault) noexcept nogil:
    """Number the values of a plain field, whose nulls stay nulls; `places` has nothing for them."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, length = d.nodes[f].length, i = 0, first
    # The field alone, as columns of the table's plan: its buffers come first there.
    cdef ViewRange view
    cdef ColumnsData alone
    alone.plan = &table.plan.d
    alone.nodes = &d.nodes[f]
    alone.extents = &d.extents[field.first_buffer]
    alone.views = &view
    alone.length = length
    alone.n_extents = field.n_buffers
    if field.view >= 0:
        view = d.views[field.view]
        view.first -= field.first_buffer
    while i < length:
        if bits != NULL and not get_bit(bits, start + i):
            i += 1
            continue
        first = i
        while i < length and (bits == NULL or get_bit(bits, start + i)):
            i += 1
        if table.add_data(&alone, first, i - first, places + first, fault) < 0:
            fault.field = f
            return -1
    return 0


cdef int store_places(uint8_t* out, int32_t width, int64_t limit, const ColumnsData* d, int32_t f,
                      const int64_t* places, Fault* fault) noexcept nogil:
    """What `encode_values` has found as indices; zeros where null."""
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, i
    for i in range(d.nodes[f].length):
        if bits != NULL and not get_bit(bits, start + i):
            store_int(out, i, width, 0)
        elif places[i] > limit:
            return fail(fault, FAULT_FULL, f, -1, -1, places[i], limit, NULL)
        else:
            store_int(out, i, width, places[i])
    return 0


cdef int read_indices(int64_t* out, const ColumnsData* d, int32_t f, int64_t count, Fault* fault) noexcept nogil:
    """The indices of a field into a dictionary of `count` values, -1 where null."""
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, i
    for i in range(d.nodes[f].length):
        out[i] = -1
        if (bits == NULL or get_bit(bits, start + i)) and index_at(d, f, start + i, count, &out[i], fault) < 0:
            return -1
    return 0


cdef class Made:
    cdef void bound(self, LimitsData* limits, int64_t size) noexcept nogil:
        limits.decompressed_bytes = body_allowance(self, size)
        limits.decompressed_slack = self.limits.decompressed_slack

    cdef int count(self, int64_t more, int64_t size) except -1:
        if more <= 0:
            return 0
        self.bytes += more
        self.budget.earn(more)
        if may_make(self, size) == 0:
            raise LimitError("what is stored in the payload becomes more bytes than Limits.decompressed_ratio and "
                             "payload_slack allow")
        return 0


cdef Made new_made(object limits):
    cdef Made made = Made.__new__(Made)
    limits_data(limits, &made.limits)
    made.limits.decompressed_slack = min(made.limits.decompressed_slack, made.limits.payload_slack)
    made.budget = new_budget(made.limits.decompressed_slack, " (Limits.payload_slack)")
    return made


cdef class Numbered:
    def __dealloc__(self):
        free(self.places)


cdef class Merged:
    cdef Numbered find(self, Columns values):
        """The dictionary of which `values` are all, or the first ones and more; None: it did not come lately."""
        cdef Numbered one
        for one in self.recent:
            if one.values is values:
                return one
        for one in self.recent:
            if values.d.length >= one.values.d.length and same_shape(one.values.plan, values.plan) and (
                    plainly_continues(values, one.values) if self.below
                    else extends(values, one.values)
                    or one.values.d.length == values.d.length and begins_with(values, one.values)):
                return one
        return None

    cdef Numbered add(self, Columns values):
        """Number the values of a dictionary."""
        cdef Numbered one = self.find(values)
        cdef int64_t count = values.d.length, known = 0
        cdef void* moved
        if one is not None:
            known = one.values.d.length     # a delta: the values before it have their places
            if known == count:
                one.values = values
                return one
            # Until all of its values have places it is not to be found.
            self.recent.remove(one)
        else:
            one = Numbered.__new__(Numbered)
        # Values may take no bytes at all; their places do.
        if piece_bytes(&values.d) < count:
            self.table.budget.spend(PLACE * (count - known))
        if count > one.room:
            moved = realloc(one.places, 2 * count * sizeof(int64_t))
            if moved == NULL:
                raise MemoryError()
            one.places = <int64_t*> moved
            one.room = 2 * count
        self.table.add(self.lower(values) if self.below else values, known, count - known, one.places + known)
        one.values = values
        self.recent.insert(0, one)
        del self.recent[MOST_RECENT:]
        return one

    cdef Columns lower(self, Columns values):
        """The values with the indices in them following the tables below."""
        cdef Columns out = Columns.__new__(Columns)
        cdef const FieldPlan* field
        cdef int64_t size
        cdef bytearray memory
        cdef int32_t f
        kept = []
        out.share(values, self.plan)
        for f in range(values.plan.d.n_fields):
            field = &self.plan.d.fields[f]
            if not field.flags & FIELD_ENCODED:
                continue
            inner = self.below[field.dictionary]
            if values.d.nodes[f].offset:
                raise UsageError("a dictionary's own indices cannot be a slice")
            size = values.d.nodes[f].length * field.width
            # All of them are rewritten for every delta: a copy costs less than a comparison.
            self.table.budget.spend(size >> 3)
            memory = bytearray(size + 1)
            follow(self.below[field.dictionary], values, f, dictionary_of(values, f), memory, field)
            set_values(&out.d, f, <uint8_t*> memory, size)
            kept.append(memory)
        out.owner = (values.owner, *kept)
        out.dictionaries = tuple([(<Merged> one).table.snapshot() for one in self.below])
        return out


cdef int follow(Merged merged, Columns columns, int32_t f, Columns values, bytearray memory,
                const FieldPlan* target) except -1:
    """Write the indices of field f as those of the merged dictionary; `values`: its own, None: not arrived."""
    cdef int64_t limit = largest(target.width, (target.flags & FIELD_SIGNED) != 0)
    cdef uint8_t* out = memory
    cdef const int64_t* places = NULL
    cdef Fault fault
    cdef Numbered one
    cdef int found
    if values is not None:
        one = merged.add(values)
        places = one.places
    with nogil:
        found = transpose(&columns.d, f, columns.d.nodes[f].offset, columns.d.nodes[f].length, places,
                          values.d.length if values is not None else 0, out, target.width, limit, &fault)
    if found < 0 and fault.code == FAULT_FULL:
        raise indices_full(columns, f, limit)
    if found < 0:
        raise_fault(&fault, columns.plan)
    return 0


cdef object indices_full(Columns columns, int32_t f, int64_t limit):
    return IndicesFull(
        f"column {field_path(columns.plan, f)!r}: all payloads together have more than {limit + 1:,} distinct "
        f"values, which its indices cannot count: pass dictionaries=\"decode\", a schema= with a wider index "
        "type, or max_rows= and continue at `next`")


cdef class Merger:
    cdef int spend(self, int64_t size, bint nested) except -1:
        """Count what is about to be made."""
        if nested:
            self.budget.spend(size)
        if size > self.left:
            raise LimitError("the values that stand behind the indices are more bytes than the payload may become "
                             "(Limits.decompressed_ratio and payload_slack)")
        self.left -= size
        return 0

    cdef object fill(self, SchemaMapping mapping, Columns columns):
        """All encoded fields: decoded values are counted first, because they may bring data buffers of views."""
        cdef int32_t f, i, variadic = columns.d.n_extents - columns.plan.d.n_buffers, used
        cdef Columns values
        cdef list decoded = []
        cdef Fault fault
        for f in range(mapping.out.d.n_fields):
            if mapping.origins[f].how == HOW_DECODED:
                values = self.decoded(mapping, mapping.origins[f].field, columns)
                variadic += values.d.n_extents - values.plan.d.n_buffers
                decoded.append((f, values))
        if variadic > mapping.target.room:
            mapping.reserve(variadic)
        if mapping.spread(&columns.d, self.left, &fault) < 0:
            raise_mapping_fault(&fault, mapping.out)
        self.left -= mapping.blanks.used
        used = mapping.piece.d.n_extents
        kept = [values for _, values in decoded]
        for f, values in decoded:
            used = mapping.piece.place_column(f, values, 0, used, None)
        mapping.piece.d.n_extents = used
        for f in range(mapping.out.d.n_fields):
            if mapping.origins[f].how == HOW_TRANSPOSED:
                kept.append(self.transpose(mapping, f, columns))
            elif mapping.origins[f].how == HOW_ENCODED:
                kept.append(self.encode(mapping, f, columns))
        return kept

    cdef object transpose(self, SchemaMapping mapping, int32_t f, Columns columns):
        """Give field `f` indices into the merged dictionary; returns what keeps them."""
        cdef const FieldPlan* field = &mapping.out.d.fields[f]
        cdef int32_t source = mapping.origins[f].field
        cdef int64_t size = columns.d.nodes[source].length * field.width
        cdef bytearray memory = bytearray(size + 1)
        follow(self.top[field.dictionary], columns, source, dictionary_of(columns, source), memory, field)
        set_values(&mapping.piece.d, f, <uint8_t*> memory, size)
        return memory

    cdef object encode(self, SchemaMapping mapping, int32_t f, Columns columns):
        """Give field `f` indices for the plain values of the payload; returns what keeps them."""
        cdef const FieldPlan* field = &mapping.out.d.fields[f]
        cdef Merged merged = self.top[field.dictionary]
        cdef int32_t source = mapping.origins[f].field
        cdef int64_t length = columns.d.nodes[source].length, size = 0
        cdef int64_t limit = largest(field.width, (field.flags & FIELD_SIGNED) != 0)
        cdef int64_t* places
        cdef bytearray memory
        cdef uint8_t* out
        cdef Fault fault
        cdef int found
        if mul_overflows(length, field.width + <int64_t> sizeof(int64_t), &size) or size > self.left:
            raise LimitError(f"column {field_path(columns.plan, source)!r}: the indices of {length:,} values are more "
                             "bytes than the payload may become (Limits.decompressed_ratio and payload_slack)")
        size = length * field.width
        self.spend(size, False)
        memory = bytearray(size + 1)
        out = memory
        places = <int64_t*> malloc(length * sizeof(int64_t) + 1)
        if places == NULL:
            raise MemoryError()
        with nogil:
            found = encode_values(merged.table, &columns.d, source, places, &fault)
            if found == 0:
                found = store_places(out, field.width, limit, &columns.d, source, places, &fault)
        free(places)
        if found < 0 and fault.code == FAULT_FULL and fault.what == NULL:
            raise indices_full(columns, source, limit)
        if found < 0:
            raise_append_fault(&fault, columns.plan)
        set_values(&mapping.piece.d, f, out, size)
        return memory

    cdef Columns decoded(self, SchemaMapping mapping, int32_t f, Columns columns):
        """The values that the indices of field f stand for."""
        cdef Columns values = dictionary_of(columns, f), out = Columns.__new__(Columns)
        cdef int64_t length = columns.d.nodes[f].length, before = self.left, left
        cdef DictionaryPlan dictionary
        cdef Memory numbers
        cdef Fault fault
        cdef bint nested
        cdef int found
        if values is None:
            dictionary = columns.plan.dictionaries[columns.plan.d.fields[f].dictionary]
            values = ColumnsBuilder(dictionary.values).snapshot()
        # Each level multiplies what the one below it holds.
        nested = self.inside or len(values.plan.dictionaries) > 0
        values = self.plain_values(values)
        left = min(self.left, self.budget.left) if nested else self.left
        if length > left // 8:
            raise LimitError(f"column {field_path(columns.plan, f)!r}: {length:,} rows to decode are more than the "
                             "bytes of the payload may become (Limits.decompressed_ratio and payload_slack)")
        numbers = Memory(length * 8)
        before = left
        try:
            with nogil:
                found = read_indices(<int64_t*> numbers.data, &columns.d, f, values.d.length, &fault)
            if found < 0:
                raise_fault(&fault, columns.plan)
            take_into(out, values, <const int64_t*> numbers.data, length, &left)
        finally:
            self.spend(before - left, nested)
        return out

    cdef Columns plain_values(self, Columns values):
        """A dictionary whose own values have no dictionaries."""
        cdef ColumnsBuilder builder
        cdef SchemaMapping mapping
        cdef LimitsData limits
        cdef Plain known
        cdef Fault fault
        if not values.plan.dictionaries:
            return values
        known = self.plain.get(id(values.plan))
        if known is None:
            known = Plain.__new__(Plain)
            known.plan = values.plan
            limits_data(None, &limits)
            known.mapping = find_mapping(values.plan, python_plan(plain_schema(plan_schema(values.plan)), &limits),
                                         False)
            self.plain[id(values.plan)] = known
        elif known.values is not None and known.values.d.length == values.d.length and plainly_continues(
                values, known.values):
            return known.found
        mapping = known.mapping
        self.inside += 1
        try:
            kept = self.fill(mapping, values)
            self.spend(piece_bytes(&mapping.piece.d), True)
        finally:
            self.inside -= 1
        builder = ColumnsBuilder(mapping.out)
        if builder.append_data(&mapping.piece.d, NULL, NULL, &fault) < 0:
            raise_append_fault(&fault, mapping.out)
        known.found = builder.snapshot()
        known.values = values
        return known.found

    cdef int mark(self) except -1:
        cdef Merged one
        for one in self.order:
            one.before = one.table.mark()
        return 0

    cdef int rollback(self) except -1:
        cdef Merged one
        for one in self.order:
            if one.before is None:
                continue
            if one.table.count != one.before[0]:
                one.recent.clear()
            # Also without values of its own: it may hold a longer dictionary for what is inside its values.
            one.table.rollback(one.before)
        return 0

    cdef int64_t nbytes(self):
        cdef Merged one
        cdef int64_t total = 0
        for one in self.order:
            total += one.table.builder.total_bytes()
        return total

    cdef tuple snapshot(self):
        """The dictionaries of the output, as they stand."""
        return tuple([(<Merged> one).table.snapshot() for one in self.top])


cdef Merged enter(DictionaryPlan dictionary, dict known, list order, Budget budget):
    cdef Merged one = known.get(dictionary.id)
    if one is None:
        one = known[dictionary.id] = Merged.__new__(Merged)
        one.plan = dictionary.values
        one.recent = []
        one.below = tuple([enter(inner, known, order, budget) for inner in dictionary.values.dictionaries])
        one.table = nested_memo_table(dictionary.values, tuple([(<Merged> inner).table for inner in one.below]), budget,
                                      False)
        order.append(one)
    return one


cdef Merger new_merger(Plan out, Budget budget):
    cdef Merger merger = Merger.__new__(Merger)
    cdef dict known = {}
    merger.order = []
    merger.plain = {}
    merger.budget = budget
    merger.top = tuple([enter(dictionary, known, merger.order, budget) for dictionary in out.dictionaries])
    return merger
