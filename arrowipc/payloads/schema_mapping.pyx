"""Make the output's columns of those of a payload: fields are matched by name, missing ones become null.

This module finds the fields that change between dictionary indices and plain values; `payloads.dictionaries` converts
them.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from arrowipc._core cimport Columns, Plan, limits_data, raise_fault
from arrowipc.distinct.memo_table cimport new_budget
from arrowipc.inline.bits cimport largest
from arrowipc.inline.fault cimport FAULT_FULL, FAULT_MEMORY, FAULT_STRICT_NULLABLE, Fault, fail
from arrowipc.inline.gather cimport first_code
from arrowipc.inline.layouts cimport LAYOUTS, LayoutSpec, size_needed
from arrowipc.inline.loads cimport add_overflows, get_bit, mul_overflows
from arrowipc.inline.plan cimport (
    FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_STRUCT,
    ColumnsData, Extent, FieldPlan, LimitsData, Node, ViewRange, copy_tables, place_field,
)
from arrowipc.inline.room cimport Room, make_room, new_zeros
from arrowipc.metadata.schema_reader cimport arrange, children_of, plan_schema, plans_equal
from arrowipc.payloads.dictionary_gc cimport extent_of, free_flat

from arrowipc.datatypes import (
    Dictionary, Field, FixedSizeList, Map, Null, RunEndEncoded, Struct, Union, with_children,
)
from arrowipc.errors import LimitError, UsageError
from arrowipc.schemas import Schema

# -- missing columns ---------------------------------------------------------------------------------


cdef int zeros(Blanks* b, Extent* extent, int64_t elements, int64_t width, Fault* fault) noexcept nogil:
    """Point an extent to `elements` values of `width` zero bytes."""
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
    extent[0] = extent_of(b.zeros, size)
    return 0


cdef int codes_of(Blanks* b, Extent* extent, int32_t code, int64_t count, Fault* fault) noexcept nogil:
    """Point an extent to `count` equal type codes."""
    if code == 0:
        return zeros(b, extent, count, 1, fault)
    if add_overflows(b.used, count, &b.used) or b.used > b.most:
        return fail(fault, FAULT_BLANKS, -1, -1, -1, b.used, b.most)
    if b.codes == NULL:
        b.codes = <Room*> calloc(128, sizeof(Room))
        if b.codes == NULL:
            return fail(fault, FAULT_MEMORY)
    if count > b.codes[code].size:
        if make_room(&b.codes[code], count) == NULL:
            return fail(fault, FAULT_MEMORY)
        memset(b.codes[code].data, code, b.codes[code].size)
        b.moved = True
    extent[0] = extent_of(b.codes[code].data, count)
    return 0


cdef int blank_field(Blanks* b, ColumnsData* d, int32_t f, int64_t n, bint null, Fault* fault) noexcept nogil:
    """Make field f and all below it `n` nulls; or zeros, if it is not nullable and a field around it is null."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef Extent* extent = &d.extents[field.first_buffer]
    cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
    cdef int64_t size
    cdef int32_t k
    d.nodes[f] = Node(n, n if field.layout == LAYOUT_NULL or (null and spec.has_validity) else 0, 0)
    for k in range(field.n_buffers):
        extent[k] = Extent(NULL, 0)
    if not spec.has_validity and spec.n_children:
        return blank_codes(b, d, f, n, fault)
    for k in range(field.n_buffers):
        if k == 0 and not null:
            continue
        size = size_needed(field, k, n)
        if size >= 0 and zeros(b, &extent[k], size, 1, fault) < 0:
            return -1
    if field.view >= 0:
        d.views[field.view] = ViewRange(d.plan.n_buffers, 0)
    if spec.n_children == 0:
        return 0
    if field.layout == LAYOUT_FIXED_LIST:
        if mul_overflows(n, field.width, &n):
            return fail(fault, FAULT_FULL, f, -1, -1, INT64_MAX, INT64_MAX, b"elements")
    elif spec.n_children == 1:
        return blank_field(b, d, f + 1, 0, True, fault)
    return blank_children(b, d, f, n, fault)


cdef int blank_children(Blanks* b, ColumnsData* d, int32_t f, int64_t n, Fault* fault) noexcept nogil:
    cdef int32_t child = f + 1
    cdef bint null
    while child < d.plan.fields[f].end:
        # Encoded fields become null in any case: their dictionaries may have no value to refer to.
        null = d.plan.fields[child].flags & FIELD_NULLABLE or d.plan.fields[child].dictionary >= 0
        if blank_field(b, d, child, n, null, fault) < 0:
            return -1
        child = d.plan.fields[child].end
    return 0


cdef int blank_codes(Blanks* b, ColumnsData* d, int32_t f, int64_t n, Fault* fault) noexcept nogil:
    """Make unions and runs null, which have no nulls of their own: their first child, or their values, are null."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const FieldPlan* ends
    cdef Extent* extent
    cdef int32_t child = f + 1
    if field.layout == LAYOUT_RUN_END:
        ends = &d.plan.fields[child]
        if n > largest(ends.width, True):
            return fail(fault, FAULT_FULL, f, -1, -1, n, largest(ends.width, True), b"run ends")
        b.ends[f] = n
        extent = &d.extents[ends.first_buffer]
        extent[0] = Extent(NULL, 0)
        extent[1] = extent_of(<const uint8_t*> &b.ends[f], ends.width if n else 0)
        d.nodes[child] = Node(1 if n else 0, 0, 0)
        return blank_field(b, d, ends.end, 1 if n else 0, True, fault)
    if field.n_children == 0:
        if n:
            return fail(fault, FAULT_FULL, f, -1, -1, n, 0, b"values of a union without children")
        return 0
    extent = &d.extents[field.first_buffer]
    if codes_of(b, &extent[0], first_code(d.plan.codes + 128 * field.codes), n, fault) < 0:
        return -1
    if field.layout == LAYOUT_DENSE:
        # All rows are the one null of the first child.
        if zeros(b, &extent[1], n, 4, fault) < 0:
            return -1
        n = 1 if n else 0
    while child < field.end:
        if blank_field(b, d, child, n, True, fault) < 0:
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
        for i in range(self.n_encoded):
            free(self.encoded[i].numbers.data)
            free(self.encoded[i].indices.data)
            free_flat(&self.encoded[i].values)
        free(self.encoded)
        free(self.target.prefix)
        free(self.blanks.zeros)
        free(self.blanks.ends)
        if self.blanks.codes != NULL:
            for i in range(128):
                free(self.blanks.codes[i].data)
            free(self.blanks.codes)

    cdef int reserve(self, int64_t variadic) except -1:
        """Make room for `variadic` data buffers of views."""
        cdef int64_t room = max(variadic, 2 * self.target.room)
        cdef Columns decoded = Columns.__new__(Columns), piece = Columns.__new__(Columns)
        decoded.allocate(self.plan, room)
        piece.allocate(self.out, room)
        self.decoded = decoded
        self.piece = piece
        self.target.d = &decoded.d
        self.target.room = room
        return 0

    cdef int complete(self, list guarded) except -1:
        """List the fields that must not have nulls, and those that are encoded; `plan` and `origins` are set before."""
        cdef const FieldPlan* out
        cdef const Origin* origin
        cdef EncodedField* field
        cdef int32_t i, n = self.out.d.n_fields
        self.target.prefix = <int64_t*> new_zeros(self.plan.d.source_views + 1, sizeof(int64_t))
        self.blanks.ends = <int64_t*> new_zeros(n, sizeof(int64_t))
        self.guarded = <int32_t*> new_zeros(len(guarded), sizeof(int32_t))
        for f in guarded:
            self.guarded[self.n_guarded] = f
            self.n_guarded += 1
        self.alike = True
        for i in range(n):
            origin = &self.origins[i]
            self.alike = self.alike and origin.field == i and origin.how in (HOW_READ, HOW_TRANSPOSED)
            if origin.how < HOW_TRANSPOSED:
                continue
            if self.encoded == NULL:
                self.encoded = <EncodedField*> new_zeros(n, sizeof(EncodedField))
            out = &self.out.d.fields[i]
            field = &self.encoded[self.n_encoded]
            field.how, field.out, field.read, field.dictionary = origin.how, i, origin.field, -1
            if field.how != HOW_DECODED:
                field.dictionary = out.dictionary
                field.limit = largest(out.width, (out.flags & FIELD_SIGNED) != 0)
            self.n_encoded += 1
        self.direct = self.alike and self.n_encoded == 0
        return self.reserve(0)

    cdef int map_fields(self, const ColumnsData* d, int64_t most, Fault* fault) noexcept nogil:
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
            found = place_fields(self.origins, &self.blanks, d, &self.piece.d, fault)
            if found < 0 or not self.blanks.moved:
                return found

    cdef int check_nulls(self, const ColumnsData* d, Fault* fault) noexcept nogil:
        """Fail if a field has nulls that the output must not have."""
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
                # Values below a null do not count. A field of the null type has no bitmap: all of it is null.
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


cdef int place_fields(const Origin* origins, Blanks* b, const ColumnsData* d, ColumnsData* piece,
                      Fault* fault) noexcept nogil:
    """Set the nodes and extents of every field of the output, except those that are HOW_DECODED."""
    cdef const FieldPlan* out = piece.plan.fields
    cdef int32_t f = 0, used = piece.plan.n_buffers
    cdef int64_t n
    piece.length = d.length
    while f < piece.plan.n_fields:
        if origins[f].how == HOW_ABSENT:
            n = d.length if out[f].parent < 0 else piece.nodes[out[f].parent].length
            if blank_field(b, piece, f, n, True, fault) < 0:
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
                         "(Limits.decompressed_ratio and payload_slack)")
    return raise_fault(fault, plan)


# -- matching ------------------------------------------------------------------------------------------------


cdef object plain_type(object type):
    """Return a type in which each dictionary type is replaced by the type of its values."""
    if isinstance(type, Dictionary):
        return plain_type(type.value_type)
    return with_children(type, [plain_field(child) for child in type.children])


cdef object plain_field(object field):
    return Field(field.name, plain_type(field.type), field.nullable, field.metadata)


cdef object plain_schema(object schema):
    return Schema([plain_field(field) for field in schema.fields], schema.metadata, schema.endianness, schema.features)


@cython.final
cdef class Matching:
    # The state of a mapping while two schemas are compared.
    cdef Plan whole, out
    cdef bint strict
    cdef int32_t taken          # fields of the arranged plan so far
    cdef Origin* origins        # SchemaMapping.origins
    cdef list guarded
    cdef list sources           # fields of `whole`, in the order in which they are taken

    cdef object refuse(self, tuple path, object ours, object theirs):
        return UsageError(f"column {'.'.join(path)!r}: the payload has {theirs}, the output {ours}")

    cdef list children(self, tuple ours, list places, tuple theirs, list sources, tuple path):
        """Match fields by name; return the argument of `arrange`. A repeated name means the next field of that name."""
        cdef list chosen = [], names = [field.name for field in theirs]
        cdef dict used = {}, waiting = {}, surplus = None
        for i in range(len(names) - 1, -1, -1):
            waiting.setdefault(names[i], []).append(i)      # the next field of a name comes last
        for field, place in zip(ours, places):
            if not waiting.get(field.name):
                if not field.nullable:
                    raise UsageError(f"column {'.'.join((*path, field.name))!r}: the payload has no such field, and "
                                     "the output's is not nullable")
                if surplus is None:
                    surplus = by_spelling(ours, names)
                other = surplus.get(field.name.lower())
                if other is not None:
                    # If the field counted as missing, its values would be lost.
                    raise UsageError(f"column {'.'.join((*path, field.name))!r}: the payload spells it {other!r}")
                self.origins[place] = Origin(HOW_ABSENT, -1)
                continue
            used[field.name] = at = waiting[field.name].pop()
            chosen.append(self.field(field, place, theirs[at], sources[at], (*path, field.name), True))
        if self.strict and len(chosen) < len(theirs):
            found = [name for i, name in enumerate(names) if used.get(name, -1) < i]
            raise UsageError(f"column {'.'.join((*path, found[0]))!r}: the payload has this field and the output has "
                             "not; pass schema= or columns= to say which are wanted")
        return chosen

    cdef tuple field(self, object ours, int32_t place, object theirs, int32_t source, tuple path, bint named):
        """Match two fields, and the fields below them: the children of structs by name, others one by one."""
        a, b = ours.type, theirs.type
        how = HOW_READ
        if isinstance(b, Dictionary):
            encoded = isinstance(a, Dictionary)
            how = HOW_TRANSPOSED if encoded else HOW_DECODED
            if not (b.value_type == a.value_type if encoded else plain_type(b.value_type) == a):
                raise self.refuse(path, a, b)
        elif isinstance(a, Dictionary) and a.value_type == b and not b.children and not isinstance(b, Null):
            # The values have no fields below them, and their validity bitmap serves the indices as well.
            how = HOW_ENCODED
        elif type(a) is not type(b) or not same_shell(a, b):
            raise self.refuse(path, a, b)
        self.origins[place] = Origin(how, self.taken)
        if theirs.nullable and not ours.nullable:
            self.guarded.append(self.taken)
        self.taken += 1
        self.sources.append(source)
        if how != HOW_READ or not a.children:
            return source, None
        places, sources = children_of(self.out, place), children_of(self.whole, source)
        if named and isinstance(a, Struct):
            return source, self.children(a.children, places, b.children, sources, path)
        # The children of a map's entries are not matched by name, because writers name them differently.
        named = not isinstance(a, Map)
        return source, [self.field(a.children[i], places[i], b.children[i], sources[i],
                                   (*path, a.children[i].name), named) for i in range(len(places))]


cdef dict by_spelling(tuple ours, list names):
    """Return those of the `names` that no field of ours has, by lower-case spelling: the first of each."""
    cdef set known = {field.name for field in ours}
    cdef dict found = {}
    for name in names:
        if name not in known:
            found.setdefault(name.lower(), name)
    return found


cdef bint same_shell(object a, object b) except -1:
    """Whether two types of one class are equal apart from their children."""
    if isinstance(a, FixedSizeList):
        return a.list_size == b.list_size
    if isinstance(a, Map):
        return a.keys_sorted <= b.keys_sorted
    if isinstance(a, Union):
        return (a.mode == b.mode and a.type_codes == b.type_codes
                and [child.name for child in a.children] == [child.name for child in b.children])
    if isinstance(a, RunEndEncoded):
        return a.run_ends.type == b.run_ends.type
    return bool(a.children) or isinstance(a, Struct) or a == b


cdef SchemaMapping new_mapping(Plan whole, Plan out):
    """Return a mapping whose `plan` and `origins` are not set yet."""
    cdef SchemaMapping mapping = SchemaMapping.__new__(SchemaMapping)
    mapping.whole, mapping.out = whole, out
    mapping.origins = <Origin*> new_zeros(out.d.n_fields, sizeof(Origin))
    return mapping


cdef SchemaMapping find_mapping(Plan whole, Plan out, bint strict):
    cdef SchemaMapping mapping = new_mapping(whole, out)
    cdef int32_t i
    if not plans_equal(whole, out):
        return match_schemas(mapping, strict)
    # Equal schemas are not matched by name, which takes longer than decoding a few payloads.
    mapping.plan = whole
    for i in range(out.d.n_fields):
        mapping.origins[i] = Origin(HOW_TRANSPOSED if out.d.fields[i].dictionary >= 0 else HOW_READ, i)
    mapping.complete([])
    return mapping


cdef SchemaMapping absent_mapping(Plan out):
    cdef SchemaMapping mapping = new_mapping(out, out)
    cdef int32_t i
    mapping.plan = out
    for i in range(out.d.n_columns):
        mapping.origins[out.d.columns[i]] = Origin(HOW_ABSENT, -1)
    mapping.complete([])
    return mapping


cdef SchemaMapping match_schemas(SchemaMapping mapping, bint strict):
    """Compare the two schemas of a mapping by the names of their fields."""
    cdef Matching matching = Matching.__new__(Matching)
    cdef Plan whole = mapping.whole, out = mapping.out
    cdef int32_t i
    ours, theirs = plan_schema(out).fields, plan_schema(whole).fields
    matching.whole, matching.out, matching.strict, matching.origins = whole, out, strict, mapping.origins
    matching.guarded, matching.sources = [], []
    chosen = matching.children(ours, [out.d.columns[i] for i in range(out.d.n_columns)],
                               theirs, [whole.d.columns[i] for i in range(whole.d.n_columns)], ())
    if ours and not chosen:
        raise UsageError(f"the payload has none of the columns: it has {[field.name for field in theirs]}, the output "
                         f"{[field.name for field in ours]}")
    mapping.plan = whole if matching.sources == list(range(whole.d.n_fields)) else arrange(whole, chosen)
    mapping.complete(matching.guarded)
    return mapping


# -- bytes that are made of payloads ---------------------------------------------------------------------------


cdef class PayloadBudget:
    cdef void bound(self, LimitsData* limits, int64_t size) noexcept nogil:
        limits.decompressed_bytes = body_allowance(self, size)
        limits.decompressed_slack = self.limits.decompressed_slack

    cdef int count(self, int64_t more, int64_t size) except -1:
        if more <= 0:
            return 0
        self.bytes += more
        self.nested.earn(more)
        if may_make(self, size) == 0:
            raise LimitError("what is stored in the payload becomes more bytes than Limits.decompressed_ratio and "
                             "payload_slack allow")
        return 0


cdef PayloadBudget new_payload_budget(object limits):
    cdef PayloadBudget budget = PayloadBudget.__new__(PayloadBudget)
    limits_data(limits, &budget.limits)
    budget.limits.decompressed_slack = min(budget.limits.decompressed_slack, budget.limits.payload_slack)
    budget.nested = new_budget(budget.limits.decompressed_slack, " (Limits.payload_slack)")
    return budget
