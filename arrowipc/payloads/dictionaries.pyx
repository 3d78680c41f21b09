"""Turn the dictionaries of payloads into those of the output, or into plain values, and transpose the indices.

Most payloads of a column bring the same dictionaries. In the loop that runs without Python, a message that is equal
byte for byte to the one before is neither read nor looked up again (`LoopDictionaries`). Nested dictionaries, deltas
and other byte orders are left to `Decoder` and to `OutputDictionaries`, which also raise the errors of a payload.
Both number the values in the same tables, and the loop makes the same output as they do.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, field_path, raise_fault
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.columns.elements cimport dictionary_of, extent_bytes
from arrowipc.columns.equal cimport begins_with
from arrowipc.columns.record_batch cimport default_plan
from arrowipc.columns.take cimport take_into
from arrowipc.distinct.memo_table cimport Budget, MemoTable
from arrowipc.distinct.unifier cimport TransposeMap, Unifier, check_used_indices, transpose, unifier_of
from arrowipc.inline.bits cimport store_int
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport FAULT_FULL, FAULT_MEMORY, Fault, fail
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport get_bit, mul_overflows, round_up, too_many_values
from arrowipc.inline.plan cimport (
    FIELD_ORDERED, LAYOUT_NULL, LAYOUT_VIEW, ColumnsData, Envelope, FieldPlan, LimitsData, ViewRange, place_views,
)
from arrowipc.inline.room cimport make_room, new_zeros
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.payloads.dictionary_gc cimport take_flat
from arrowipc.payloads.schema_mapping cimport (
    HOW_DECODED, HOW_ENCODED, HOW_TRANSPOSED, EncodedField, SchemaMapping, find_mapping, plain_schema,
    raise_mapping_fault, set_values,
)
from arrowipc.decode.decoders cimport decode_batch_into, dictionaries_of
from arrowipc.decode.decompress cimport DECODE_BY_DECODER, DECODE_ROOM, DECODED, Inflater
from arrowipc.decode.framing cimport CutMessage

from arrowipc.distinct.unifier import NotUnified
from arrowipc.errors import LimitError

cdef enum:
    LINE = 64
    MOST_FREE = 1 << 10     # values of a dictionary that may take no bytes
    MOST_BUFFERS = 64       # data buffers of a dictionary's views; more are left to PayloadReader
    # Beside the FaultCodes: the indices would take more bytes than the payload may become.
    FAULT_INDICES = 103


# -- one field -----------------------------------------------------------------------------------------------


cdef int encode_values(MemoTable table, const ColumnsData* d, int32_t f, int64_t* numbers, Fault* fault) noexcept nogil:
    """Write the numbers of a plain field's values to `numbers`, but nothing for nulls, which stay nulls."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, length = d.nodes[f].length, i = 0, first
    # The field as columns of the table's plan, where its buffers are the first ones.
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
        if table.add_data(&alone, first, i - first, numbers + first, fault) < 0:
            fault.field = f
            return -1
    return 0


cdef int store_numbers(uint8_t* out, int32_t width, int64_t limit, const ColumnsData* d, int32_t f,
                       const int64_t* numbers, Fault* fault) noexcept nogil:
    """Write the numbers of `encode_values` as indices, 0 for null. -1: `fault`; FAULT_FULL: one is above `limit`."""
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t start = d.nodes[f].offset, i
    for i in range(d.nodes[f].length):
        if bits != NULL and not get_bit(bits, start + i):
            store_int(out, i, width, 0)
        elif numbers[i] > limit:
            return fail(fault, FAULT_FULL, f, -1, -1, numbers[i], limit, NULL)
        else:
            store_int(out, i, width, numbers[i])
    return 0


cdef int transpose_field(EncodedField* field, const ColumnsData* d, ColumnsData* piece, const int64_t* numbers,
                         int64_t count, Fault* fault) noexcept nogil:
    """Set a field of the output to the payload's indices, transposed by the `numbers` of its dictionary's values."""
    cdef int32_t width = piece.plan.fields[field.out].width
    cdef int64_t length = d.nodes[field.read].length
    cdef uint8_t* out = make_room(&field.indices, length * width)
    if out == NULL:
        return fail(fault, FAULT_MEMORY)
    if transpose(d, field.read, d.nodes[field.read].offset, length, numbers, count, out, width, field.limit,
                 fault) < 0:
        return -1
    set_values(piece, field.out, out, length * width)
    return 0


cdef int64_t encode_field(EncodedField* field, MemoTable table, const ColumnsData* d, ColumnsData* piece, int64_t most,
                          Fault* fault) noexcept nogil:
    """Give a field of the output indices for the plain values of the payload; returns their bytes, or -1."""
    cdef int32_t width = piece.plan.fields[field.out].width
    cdef int64_t length = d.nodes[field.read].length, size = 0
    cdef int64_t* numbers
    cdef uint8_t* out
    if mul_overflows(length, width + <int64_t> sizeof(int64_t), &size) or size > most:
        return fail(fault, FAULT_INDICES, field.read, -1, -1, length, most)
    size = length * width
    numbers = <int64_t*> make_room(&field.numbers, length * <int64_t> sizeof(int64_t))
    out = make_room(&field.indices, size)
    if numbers == NULL or out == NULL:
        return fail(fault, FAULT_MEMORY)
    if (encode_values(table, d, field.read, numbers, fault) < 0
            or store_numbers(out, width, field.limit, d, field.read, numbers, fault) < 0):
        return -1
    set_values(piece, field.out, out, size)
    return size


cdef int raise_field_fault(const Fault* fault, Columns columns, const EncodedField* field) except -1:
    path = field_path(columns.plan, field.read)
    if fault.code == FAULT_INDICES:
        raise LimitError(f"column {path!r}: the indices of {fault.found:,} values are more bytes than the payload may "
                         "become (Limits.decompressed_ratio and payload_slack)")
    if fault.code == FAULT_FULL and fault.what == NULL:
        raise NotUnified(
            f"column {path!r}: all payloads together have more than {field.limit + 1:,} distinct values, which its "
            "indices cannot count: pass dictionaries=\"decode\", a schema= with a wider index type, or max_rows= and "
            "continue at `next`")
    return raise_fault(fault, columns.plan)


cdef int number_values(int64_t* out, const ColumnsData* d, int32_t f, const ColumnsData* values,
                     Fault* fault) noexcept nogil:
    """Write to `out` which of `values` each row has; -1 where the index or the value is null.

    `values`: NULL if the dictionary has not arrived.
    """
    cdef const uint8_t* bits = validity(d, f)
    cdef const uint8_t* valid = validity(values, 0) if values != NULL else NULL
    cdef bint none_valid = values != NULL and values.plan.fields[0].layout == LAYOUT_NULL
    cdef int64_t count = values.length if values != NULL else 0, origin = values.nodes[0].offset if count else 0
    cdef int64_t start = d.nodes[f].offset, i
    for i in range(d.nodes[f].length):
        out[i] = -1
        if bits == NULL or get_bit(bits, start + i):
            if index_at(d, f, start + i, count, &out[i], fault) < 0:
                return -1
            if none_valid or (valid != NULL and not get_bit(valid, origin + out[i])):
                out[i] = -1
    return 0


# -- the dictionaries of the output --------------------------------------------------------------------------


cdef class OutputDictionaries:
    """All dictionaries of the output."""

    def __dealloc__(self):
        free(self.tables)

    cdef int spend(self, int64_t size, bint nested) except -1:
        """Count `size` bytes that are about to be made; raise LimitError if they are too many."""
        if nested:
            self.budget.spend(size)
        if size > self.left:
            raise LimitError("the values that stand behind the indices are more bytes than the payload may become "
                             "(Limits.decompressed_ratio and payload_slack)")
        self.left -= size
        return 0

    cdef object make_piece(self, SchemaMapping mapping, Columns columns):
        """Decode values before `map_fields`, because they may bring data buffers of views, for which it needs room."""
        cdef int32_t i, variadic = columns.d.n_extents - columns.plan.d.n_buffers, used
        cdef EncodedField* field
        cdef Columns values
        cdef list decoded = []
        cdef Fault fault
        for i in range(mapping.n_encoded):
            if mapping.encoded[i].how == HOW_DECODED:
                values = self.decoded(mapping.encoded[i].read, columns)
                variadic += values.d.n_extents - values.plan.d.n_buffers
                decoded.append((mapping.encoded[i].out, values))
        if variadic > mapping.target.room:
            mapping.reserve(variadic)
        if mapping.map_fields(&columns.d, self.left, &fault) < 0:
            raise_mapping_fault(&fault, mapping.out)
        self.left -= mapping.blanks.used
        used = mapping.piece.d.n_extents
        for f, values in decoded:
            used = mapping.piece.place_column(f, values, 0, used, None)
        mapping.piece.d.n_extents = used
        for i in range(mapping.n_encoded):
            field = &mapping.encoded[i]
            if field.how == HOW_TRANSPOSED:
                self.transpose(field, columns, &mapping.piece.d)
            elif field.how == HOW_ENCODED:
                self.encode(field, columns, &mapping.piece.d)
        return decoded

    cdef int transpose(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1:
        cdef Columns values = dictionary_of(columns, field.read)
        cdef const int64_t* numbers = NULL
        cdef TransposeMap map
        cdef Fault fault
        cdef int found
        if values is not None:
            map = (<Unifier> self.top[field.dictionary]).add(values, (None, columns.plan, field.read))
            numbers = map.numbers()
        with nogil:
            found = transpose_field(field, &columns.d, piece, numbers, values.d.length if numbers != NULL else 0,
                                    &fault)
        if found < 0:
            raise_field_fault(&fault, columns, field)
        return 0

    cdef int encode(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1:
        cdef MemoTable table = (<Unifier> self.top[field.dictionary]).table
        cdef int64_t made
        cdef Fault fault
        with nogil:
            made = encode_field(field, table, &columns.d, piece, self.left, &fault)
        if made < 0:
            raise_field_fault(&fault, columns, field)
        return self.spend(made, False)

    cdef Columns decoded(self, int32_t f, Columns columns):
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
        # Each level of dictionaries multiplies the bytes of the level below it.
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
                found = number_values(<int64_t*> numbers.data, &columns.d, f, &values.d, &fault)
            if found < 0:
                raise_fault(&fault, columns.plan)
            take_into(out, values, <const int64_t*> numbers.data, length, &left)
        finally:
            self.spend(before - left, nested)
        return out

    cdef Columns plain_values(self, Columns values):
        """Return a dictionary with the same values, which are decoded if they refer to other dictionaries."""
        cdef ColumnsBuilder builder
        cdef SchemaMapping mapping
        cdef Plain known
        cdef Fault fault
        if not values.plan.dictionaries:
            return values
        known = self.plain.get(id(values.plan))
        if known is None:
            known = Plain.__new__(Plain)
            known.plan = values.plan
            plain = default_plan(plain_schema(plan_schema(values.plan)))
            known.mapping = find_mapping(values.plan, plain, False)
            self.plain[id(values.plan)] = known
        elif known.values is not None and known.values.d.length == values.d.length and begins_with(
                values, known.values):
            return known.found
        mapping = known.mapping
        self.inside += 1
        try:
            kept = self.make_piece(mapping, values)
            self.spend(extent_bytes(&mapping.piece.d), True)
        finally:
            self.inside -= 1
        builder = ColumnsBuilder(mapping.out)
        if builder.append_data(&mapping.piece.d, NULL, &fault) < 0:
            raise_fault(&fault, mapping.out)
        known.found = builder.snapshot()
        known.values = values
        return known.found

    cdef void save(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_tables):
            (<MemoTable> self.tables[i]).save()

    cdef void restore(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_tables):
            (<MemoTable> self.tables[i]).restore()

    cdef bint has_grown(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_tables):
            if (<MemoTable> self.tables[i]).count > (<MemoTable> self.tables[i]).builder.undo.count:
                return True
        return False

    cdef int64_t nbytes(self) noexcept nogil:
        cdef int64_t total = 0
        cdef int32_t i
        for i in range(self.n_tables):
            total += (<MemoTable> self.tables[i]).builder.total_bytes()
        return total

    cdef tuple snapshot(self):
        return tuple([(<Unifier> one).values() for one in self.top])


cdef OutputDictionaries new_output(Plan out, Budget budget):
    cdef OutputDictionaries output = OutputDictionaries.__new__(OutputDictionaries)
    cdef dict known = {}
    output.plain = {}
    output.budget = budget
    output.top = tuple([unifier_of(dictionary, known, budget, False) for dictionary in out.dictionaries])
    output.order = [*output.top, *[one for one in known.values() if one not in output.top]]
    if output.order:
        output.tables = <PyObject**> new_zeros(len(output.order), sizeof(PyObject*))
    for one in output.order:
        output.tables[output.n_tables] = <PyObject*> (<Unifier> one).table
        output.n_tables += 1
    return output


# -- the dictionaries of the loop ----------------------------------------------------------------------------


cdef class LoopDictionaries:
    """The dictionaries of the payloads of one schema, in the loop that runs without Python."""

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n_cached):
            free(self.cache[i].values.prefix)
            free(self.cache[i].message.data)
            free(self.cache[i].inflated.data)
        free(self.cache)
        free(self.maps)
        free(self.lengths)
        free(self.order)

    cdef void begin(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_cached):
            self.cache[i].arrived = False
            self.lengths[i] = -1
        self.arrivals = 0
        self.nbytes = 0

    cdef int64_t accept_cached(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil:
        cdef CachedDictionary* cached
        cdef int64_t before
        if self.arrivals >= self.n_cached:
            return -1
        cached = &self.cache[self.order[self.arrivals]]
        if (cut.metadata_size != cached.metadata_size or cut.rest_size < cached.body_size
                or memcmp(cut.metadata, cached.message.data, cut.metadata_size) != 0
                or memcmp(cut.rest, cached.message.data + cached.body_at, cached.body_size) != 0):
            return -1
        before = self.nbytes - (cached.nbytes if cached.arrived else 0)
        if cached.nbytes > limits.dictionary_bytes - before:
            return -1
        self.nbytes = before + cached.nbytes
        cached.arrived = True
        self.lengths[self.order[self.arrivals]] = cached.values.d.length
        self.arrivals += 1
        return cached.body_size

    cdef int arrive(self, const CutMessage* cut, const Envelope* message, const LimitsData* limits, int64_t allowance,
                    Inflater inflater) noexcept nogil:
        cdef CachedDictionary* cached
        cdef int64_t id, before
        cdef int32_t i = 0
        cdef int delta, found
        self.inflated = 0
        if (fb_i64(&message.header, DictionaryBatch_id, 0, &id) < 0
                or fb_u8(&message.header, DictionaryBatch_isDelta, 0, &delta) < 0 or delta):
            return DECODE_BY_DECODER
        while i < self.n_cached and self.cache[i].id != id:
            i += 1
        if i == self.n_cached:
            return DECODE_BY_DECODER
        cached = &self.cache[i]
        if self.arrivals < self.n_cached:
            self.order[self.arrivals] = i
        self.arrivals += 1
        found = self.decode_copy(cached, cut, message, limits, allowance, inflater)
        if found != DECODED or not cached.wanted:
            return found
        before = self.nbytes - (cached.nbytes if cached.arrived else 0)
        cached.nbytes = extent_bytes(cached.values.d)
        self.inflated = max(cached.nbytes - message.body_length, 0)
        # Values that take next to no bytes are left to `Decoder`, which counts them.
        if (cached.values.d.length > 8 * cached.nbytes + MOST_FREE or cached.nbytes > limits.dictionary_bytes - before
                or too_many_values(cached.values.d.length, cached.nbytes)):
            return DECODE_BY_DECODER
        self.nbytes = before + cached.nbytes
        self.versions += 1
        cached.version = self.versions
        cached.metadata_size = cut.metadata_size
        cached.arrived = True
        self.lengths[i] = cached.values.d.length
        return DECODED

    cdef int decode_copy(self, CachedDictionary* cached, const CutMessage* cut, const Envelope* message,
                         const LimitsData* limits, int64_t allowance, Inflater inflater) noexcept nogil:
        """Copy a message, so that it outlives its payload, and decode the values in the copy."""
        cdef Table data
        cdef uint8_t* copy
        cdef int found
        if fb_table(&message.header, DictionaryBatch_data, &data) != 1:
            return DECODE_BY_DECODER
        if not cached.wanted:
            return DECODED
        cached.metadata_size = -1
        cached.body_at = round_up(cut.metadata_size, LINE)
        cached.body_size = message.body_length
        copy = make_room(&cached.message, cached.body_at + cached.body_size)
        if copy == NULL:
            return DECODE_BY_DECODER
        memcpy(copy, cut.metadata, cut.metadata_size)
        memcpy(copy + cached.body_at, cut.rest, cached.body_size)
        data.base = copy
        found = decode_batch_into(&cached.values, &data, message, copy + cached.body_at, self.level, NULL,
                                  inflater, &cached.inflated, limits, allowance, &self.wanted)
        return DECODE_BY_DECODER if found == DECODE_ROOM else found

    # -- fields --

    cdef int fill(self, SchemaMapping mapping, const ColumnsData* d, int64_t most) noexcept nogil:
        cdef ColumnsData* piece = &mapping.piece.d
        cdef EncodedField* field
        cdef CachedMap* map
        cdef int64_t size
        cdef int32_t i
        cdef int found = DECODED
        cdef Fault fault
        self.made = 0
        for i in range(mapping.n_encoded):
            field = &mapping.encoded[i]
            if field.how == HOW_TRANSPOSED:
                map = &self.maps[self.maps[i].first]
                found = self.transpose(field, map, <TransposeMap> map.map, <MemoTable> self.output.tables[map.target],
                                       d, piece)
            elif field.how == HOW_DECODED:
                found = self.decode(field, d, piece, mapping.target.room, most - self.made)
            else:
                size = encode_field(field, <MemoTable> self.output.tables[field.dictionary], d, piece,
                                    most - self.made, &fault)
                if size < 0:
                    return DECODE_BY_DECODER
                self.made += size
            if found != DECODED:
                break
        return found

    cdef int transpose(self, EncodedField* field, CachedMap* map, TransposeMap known, MemoTable table,
                       const ColumnsData* d, ColumnsData* piece) noexcept nogil:
        cdef const FieldPlan* read = &d.plan.fields[field.read]
        cdef const CachedDictionary* cached = &self.cache[map.cached]
        cdef int64_t count = 0, length = d.nodes[field.read].length
        cdef Fault fault
        if cached.arrived:
            count = cached.values.d.length
            if map.version != cached.version or map.table_version != table.version:
                known.count = 0
                known.identity = known.rising = True
                map.version = -1
                if known.add_data(table, cached.values.d, &fault) < 0:
                    return DECODE_BY_DECODER
                map.version = cached.version
                map.table_version = table.version
            if read.flags & FIELD_ORDERED and not known.rising:
                return DECODE_BY_DECODER
            if (known.identity and read.width == piece.plan.fields[field.out].width and count - 1 <= field.limit
                    and validity(d, field.read) == NULL):
                # `SchemaMapping.spread` has kept the indices as they are; validation, if any, has checked them.
                if self.level or check_used_indices(d, field.read, 0, length, count, &fault) == 0:
                    return DECODED
                return DECODE_BY_DECODER
        if transpose_field(field, d, piece, known.numbers(), count, &fault) < 0:
            return DECODE_BY_DECODER
        return DECODED

    cdef int decode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil:
        cdef const FieldPlan* out = &piece.plan.fields[field.out]
        cdef const CachedDictionary* cached = &self.cache[d.plan.fields[field.read].dictionary]
        cdef const ColumnsData* values = cached.values.d if cached.arrived else NULL
        cdef int64_t length = d.nodes[field.read].length, size
        cdef int64_t* numbers
        cdef Fault fault
        # `OutputDictionaries` has the same limit, because it also makes the numbers of all rows first.
        if length > most // 8:
            return DECODE_BY_DECODER
        numbers = <int64_t*> make_room(&field.numbers, length * sizeof(int64_t))
        if numbers == NULL or number_values(numbers, d, field.read, values, &fault) < 0:
            return DECODE_BY_DECODER
        if out.view >= 0:
            self.wanted = piece.n_extents - piece.plan.n_buffers
            if values != NULL:
                self.wanted += values.views[0].count
            if self.wanted > room:
                return DECODE_ROOM
            piece.n_extents = place_views(piece, field.out, values, 0, piece.n_extents)
        size = take_flat(&field.values, &piece.extents[out.first_buffer], &piece.nodes[field.out], out, values,
                         numbers, length, most, &fault)
        if size < 0:
            return DECODE_BY_DECODER
        self.made += size
        return DECODED


cdef bint is_plain(SchemaMapping mapping, OutputDictionaries output):
    """Return whether all dictionaries of the mapping, and those of the output that it needs, have flat values."""
    cdef DictionaryPlan dictionary
    cdef Unifier unifier
    cdef int32_t i
    for dictionary in mapping.plan.dictionaries:
        if (dictionary.values.dictionaries or dictionary.values.d.n_fields != 1
                or dictionary.values.d.fields[0].layout > LAYOUT_VIEW or dictionary.values.d.fields[0].first_buffer):
            return False
    for i in range(mapping.n_encoded):
        if mapping.encoded[i].dictionary >= 0:
            unifier = output.top[mapping.encoded[i].dictionary]
            if not unifier.table.flat or unifier.plan.d.fields[0].first_buffer:
                return False
    return True


cdef LoopDictionaries new_loop(SchemaMapping mapping, OutputDictionaries output, int level):
    cdef LoopDictionaries loop
    cdef CachedDictionary* cached
    cdef const EncodedField* field
    cdef DictionaryPlan dictionary
    cdef TransposeMap map
    cdef Columns values
    cdef int32_t i
    cdef dict known = {dictionary.id: dictionary for dictionary in mapping.plan.dictionaries}, firsts = {}
    if not is_plain(mapping, output):
        return None
    for id, dictionary in dictionaries_of(mapping.whole).items():
        known.setdefault(id, dictionary)
    loop = LoopDictionaries.__new__(LoopDictionaries)
    loop.output, loop.level = output, level
    loop.cache = <CachedDictionary*> new_zeros(len(known), sizeof(CachedDictionary))
    loop.lengths = <int64_t*> new_zeros(len(known), sizeof(int64_t))
    loop.order = <int32_t*> new_zeros(len(known), sizeof(int32_t))
    loop.maps = <CachedMap*> new_zeros(mapping.n_encoded, sizeof(CachedMap))
    loop.columns, loop.transpose_maps = [], []
    for i, dictionary in enumerate(known.values()):
        cached = &loop.cache[i]
        loop.order[i] = i
        loop.n_cached += 1
        cached.id, cached.metadata_size = dictionary.id, -1
        if i >= len(mapping.plan.dictionaries):
            continue    # no field that is read refers to it
        values = Columns.__new__(Columns)
        values.allocate(dictionary.values, MOST_BUFFERS)
        loop.columns.append(values)
        cached.wanted = True
        cached.values.d = &values.d
        cached.values.room = MOST_BUFFERS
        cached.values.prefix = <int64_t*> new_zeros(dictionary.values.d.source_views + 1, sizeof(int64_t))
    for i in range(mapping.n_encoded):
        field = &mapping.encoded[i]
        if field.how == HOW_TRANSPOSED:
            pair = mapping.plan.d.fields[field.read].dictionary, field.dictionary
            first = firsts.setdefault(pair, i)
            if first == i:
                map = TransposeMap.__new__(TransposeMap)
                loop.transpose_maps.append(map)
            loop.maps[i] = CachedMap(first, pair[0], pair[1], -1, 0, <PyObject*> map)
    return loop
