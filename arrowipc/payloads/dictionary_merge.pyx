"""Makes one dictionary of those of many payloads, or puts values where their indices were.

Tables of distinct values number what comes in; indices follow. Where the output is to have plain values, they are
taken from each payload's own dictionary, so nothing is ever put together that nobody refers to.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from arrowipc._core cimport Columns, DictionaryPlan, Plan, field_path, limits_data, raise_fault
from arrowipc.columns.builder cimport begins_with, extends
from arrowipc.columns.concat cimport FAULT_FULL, ColumnsBuilder, raise_append_fault
from arrowipc.columns.elements cimport dictionary_of
from arrowipc.columns.memo_table cimport Budget, MemoTable, new_budget, nested_memo_table
from arrowipc.columns.memo_table cimport plainly_continues
from arrowipc.columns.take cimport TakeRange, take_ranges
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport Fault, fail
from arrowipc.inline.loads cimport add_overflows, get_bit, mul_overflows
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, ColumnsData, Extent, FieldPlan, LimitsData, Node, ViewRange,
)
from arrowipc.metadata.schema_reader cimport plan_schema, python_plan, same_shape
from arrowipc.payloads.schema_mapping cimport (
    HOW_DECODED, HOW_ENCODED, HOW_TRANSPOSED, SchemaMapping, find_mapping, plain_schema, raise_mapping_fault,
)

from arrowipc.errors import LimitError, UsageError
from arrowipc.limits import Limits


class IndicesFull(UsageError):
    """The indices of an output column cannot count the distinct values of all payloads."""


cdef enum:
    PLACE = 32      # bytes that the place of a value takes, in all tables of places
    MOST_RECENT = 8 # dictionaries of payloads whose places are kept, for each of the output


cdef int transposed(uint8_t* out, int32_t width, int64_t limit, const ColumnsData* d, int32_t f, const int64_t* places,
                    int64_t count, Fault* fault) noexcept nogil:
    """Indices of a field, by `places`; zeros where null."""
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, i, index = 0
    for i in range(d.nodes[f].length):
        if bits != NULL and not get_bit(bits, start + i):
            store_int(out, i, width, 0)
            continue
        if index_at(d, f, start + i, count, &index, fault) < 0:
            return -1
        if places[index] > limit:
            return fail(fault, FAULT_FULL, f, -1, -1, places[index], limit, NULL)
        store_int(out, i, width, places[index])
    return 0


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
    alone.block = NULL
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


cdef int64_t ranges_of(TakeRange* out, const ColumnsData* d, int32_t f, int64_t count, Fault* fault) noexcept nogil:
    """The ranges of a dictionary of `count` values that a field's indices take; returns their number, or -1."""
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, used = 0, i, index = 0
    for i in range(d.nodes[f].length):
        if bits != NULL and not get_bit(bits, start + i):
            index = -1
        elif index_at(d, f, start + i, count, &index, fault) < 0:
            return -1
        if used and out[used - 1].start == index:
            out[used - 1].times += 1
        else:
            out[used] = TakeRange(index, 1, 1)
            used += 1
    return used


cdef int shallow_copy(Columns out, Columns columns, Plan plan) except -1:
    """The same columns in a block of their own, whose extents may be changed; `plan` is of the same shape."""
    cdef int32_t variadic = columns.d.n_extents - columns.plan.d.n_buffers
    out.allocate(plan, variadic)
    memcpy(out.d.nodes, columns.d.nodes, columns.plan.d.n_fields * sizeof(Node))
    memcpy(out.d.extents, columns.d.extents, columns.d.n_extents * sizeof(Extent))
    memcpy(out.d.views, columns.d.views, columns.plan.d.n_views * sizeof(ViewRange))
    out.d.length = columns.d.length
    out.owner = columns.owner
    return 0


cdef class Made:
    cdef void bound(self, LimitsData* limits, int64_t size) noexcept nogil:
        cdef int64_t most
        if add_overflows(may_make(self, size), size, &most) or most > self.limits.decompressed_bytes:
            most = self.limits.decompressed_bytes
        limits.decompressed_bytes = most
        limits.decompressed_slack = self.limits.decompressed_slack

    cdef int inflated(self, int64_t more, int64_t size) except -1:
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
    made.limits.decompressed_slack = min(made.limits.decompressed_slack,
                                         (Limits() if limits is None else limits).payload_slack)
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
        shallow_copy(out, values, self.plan)
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
            out.d.extents[field.first_buffer + 1].data = <uint8_t*> memory if size else NULL
            out.d.extents[field.first_buffer + 1].size = size
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
        found = transposed(out, target.width, limit, &columns.d, f, places,
                           values.d.length if values is not None else 0, &fault)
    if found < 0 and fault.code == FAULT_FULL:
        raise indices_full(columns, f, limit)
    if found < 0:
        raise_fault(&fault, columns.plan)
    return 0


cdef object indices_full(Columns columns, int32_t f, int64_t limit):
    return IndicesFull(
        f"column {field_path(columns.plan, f)!r}: all payloads together have more than {limit + 1:,} distinct "
        f"values, which its indices cannot count: pass dictionaries=\"decode\", a schema= with a wider index "
        "type, or max_rows= and go on at `next`")


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
        cdef int32_t f, variadic = columns.d.n_extents - columns.plan.d.n_buffers, used
        cdef Columns values
        cdef list decoded = []
        cdef Fault fault
        for f in range(mapping.out.d.n_fields):
            if mapping.origins[f].how == HOW_DECODED:
                values = self.decoded(mapping, mapping.origins[f].field, columns)
                variadic += values.d.n_extents - values.plan.d.n_buffers
                decoded.append((f, values))
        if variadic > mapping.room:
            mapping.reserve(variadic)
        if mapping.spread(&columns.d, self.left, &fault) < 0:
            raise_mapping_fault(&fault, mapping.out)
        self.left -= mapping.blanks.used
        used = mapping.piece.d.n_extents
        kept = [values for _, values in decoded]
        for f, values in decoded:
            self.place(mapping, f, values, &used)
        mapping.piece.d.n_extents = used
        for f in range(mapping.out.d.n_fields):
            if mapping.origins[f].how == HOW_TRANSPOSED:
                kept.append(self.transpose(mapping, f, columns))
            elif mapping.origins[f].how == HOW_ENCODED:
                kept.append(self.encode(mapping, f, columns))
        return kept

    cdef int place(self, SchemaMapping mapping, int32_t f, Columns values, int32_t* used) except -1:
        """Put the only column of `values` where field `f` and all below it belong."""
        cdef ColumnsData* piece = &mapping.piece.d
        cdef const FieldPlan* fields = &mapping.out.d.fields[f]
        cdef const ColumnsData* d = &values.d
        cdef int32_t i, count
        for i in range(values.plan.d.n_fields):
            piece.nodes[f + i] = d.nodes[i]
            memcpy(&piece.extents[fields[i].first_buffer], &d.extents[values.plan.d.fields[i].first_buffer],
                   fields[i].n_buffers * sizeof(Extent))
            if fields[i].view >= 0:
                count = d.views[values.plan.d.fields[i].view].count
                piece.views[fields[i].view].first = used[0]
                piece.views[fields[i].view].count = count
                if count:
                    memcpy(&piece.extents[used[0]], &d.extents[d.views[values.plan.d.fields[i].view].first],
                           count * sizeof(Extent))
                used[0] += count
        return 0

    cdef object transpose(self, SchemaMapping mapping, int32_t f, Columns columns):
        """Give field `f` indices into the merged dictionary; returns what keeps them."""
        cdef const FieldPlan* field = &mapping.out.d.fields[f]
        cdef int32_t source = mapping.origins[f].field
        cdef int64_t size = columns.d.nodes[source].length * field.width
        cdef Extent* extent = &mapping.piece.d.extents[field.first_buffer + 1]
        cdef bytearray memory = bytearray(size + 1)
        follow(self.top[field.dictionary], columns, source, dictionary_of(columns, source), memory, field)
        extent.data = <uint8_t*> memory if size else NULL
        extent.size = size
        return memory

    cdef object encode(self, SchemaMapping mapping, int32_t f, Columns columns):
        """Give field `f` indices for the plain values of the payload; returns what keeps them."""
        cdef const FieldPlan* field = &mapping.out.d.fields[f]
        cdef Merged merged = self.top[field.dictionary]
        cdef int32_t source = mapping.origins[f].field
        cdef int64_t length = columns.d.nodes[source].length, size = 0
        cdef int64_t limit = largest(field.width, (field.flags & FIELD_SIGNED) != 0)
        cdef Extent* extent = &mapping.piece.d.extents[field.first_buffer + 1]
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
        extent.data = out if size else NULL
        extent.size = size
        return memory

    cdef Columns decoded(self, SchemaMapping mapping, int32_t f, Columns columns):
        """The values that the indices of field f stand for."""
        cdef Columns values = dictionary_of(columns, f), out = Columns.__new__(Columns)
        cdef int64_t length = columns.d.nodes[f].length, before = self.left, left, n
        cdef DictionaryPlan dictionary
        cdef TakeRange* ranges
        cdef Fault fault
        cdef bint nested
        if values is None:
            dictionary = columns.plan.dictionaries[columns.plan.d.fields[f].dictionary]
            values = ColumnsBuilder(dictionary.values).snapshot()
        # Each level multiplies what the one below it holds.
        nested = self.inside or len(values.plan.dictionaries) > 0
        values = self.plain_values(values)
        left = min(self.left, self.budget.left) if nested else self.left
        if length > left // <int64_t> sizeof(TakeRange):
            raise LimitError(f"column {field_path(columns.plan, f)!r}: {length:,} rows to decode are more than the "
                             "bytes of the payload may become (Limits.decompressed_ratio and payload_slack)")
        ranges = <TakeRange*> malloc(length * sizeof(TakeRange) + 1)
        if ranges == NULL:
            raise MemoryError()
        before = left
        try:
            with nogil:
                n = ranges_of(ranges, &columns.d, f, values.d.length, &fault)
            if n < 0:
                raise_fault(&fault, columns.plan)
            take_ranges(out, values, ranges, n, &left)
        finally:
            free(ranges)
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
