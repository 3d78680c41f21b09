"""Keeps the dictionaries of payloads, and rewrites their indices, in the loop that runs without Python.

Most payloads of a column bring the same dictionaries: a message that is equal byte for byte to the one before is
neither read nor looked up again. Nested dictionaries, deltas and other byte orders are left to `Decoder` and to
`payloads.schema_mapping`, which also say what is wrong with a payload. What is made here is what they would make.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from arrowipc._core cimport Columns, DictionaryPlan
from arrowipc.columns.memo_table cimport MemoTable, transpose
from arrowipc.columns.dictionary_gc cimport free_flat, take_flat
from arrowipc.inline.bits cimport largest
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport (
    get_bit, loose_u16, loose_u32, loose_u64, mul_overflows, round_up, too_many_values,
)
from arrowipc.inline.plan cimport (
    FIELD_SIGNED, LAYOUT_NULL, LAYOUT_VIEW, ColumnsData, Envelope, FieldPlan, LimitsData, place_views,
)
from arrowipc.inline.room cimport make_room
from arrowipc.payloads.schema_mapping cimport (
    HOW_DECODED, HOW_ENCODED, HOW_TRANSPOSED, Merged, Merger, Origin, SchemaMapping, encode_values, piece_bytes,
    set_values, store_places,
)
from arrowipc.read.decoders cimport DECODE_BY_DECODER, DECODE_ROOM, DECODED, decode_batch_into
from arrowipc.read.decompress cimport Inflater
from arrowipc.read.framing cimport CutMessage

cdef enum:
    LINE = 64
    MOST_FREE = 1 << 10     # values of a dictionary that may take no bytes
    MOST_BUFFERS = 64       # data buffers of a dictionary's views; more is for a decoder of single payloads


# -- indices -------------------------------------------------------------------------------------------------


cdef inline bint all_below(const uint8_t* p, int64_t n, int32_t width, uint64_t end) noexcept nogil:
    """Whether n unsigned integers are less than `end`."""
    cdef uint64_t bad = 0
    cdef int64_t i
    if width == 4:
        for i in range(n):
            bad |= (<const loose_u32*> p)[i] >= end
    elif width == 1:
        for i in range(n):
            bad |= p[i] >= end
    elif width == 2:
        for i in range(n):
            bad |= (<const loose_u16*> p)[i] >= end
    else:
        for i in range(n):
            bad |= (<const loose_u64*> p)[i] >= end
    return bad == 0


cdef inline uint64_t range_end(const FieldPlan* field, int64_t count) noexcept nogil:
    """What the indices of a field, taken as unsigned, must be less than: negative ones are large then."""
    return <uint64_t> min(count, largest(field.width, (field.flags & FIELD_SIGNED) != 0) + <int64_t> (field.width < 8))


cdef int number_rows(int64_t* out, const ColumnsData* d, int32_t f, const ColumnsData* values) noexcept nogil:
    """The number of each row's value, -1 where the index or the value is null; -1: an index is broken.

    `values`: NULL where the dictionary has not arrived.
    """
    cdef const uint8_t* bits = validity(d, f)
    cdef const uint8_t* valid = validity(values, 0) if values != NULL else NULL
    cdef bint none_valid = values != NULL and values.plan.fields[0].layout == LAYOUT_NULL
    cdef int64_t count = values.length if values != NULL else 0, i
    cdef Fault fault
    for i in range(d.nodes[f].length):
        out[i] = -1
        if bits == NULL or get_bit(bits, i):
            if index_at(d, f, i, count, &out[i], &fault) < 0:
                return -1
            if none_valid or (valid != NULL and not get_bit(valid, out[i])):
                out[i] = -1
    return 0


# -- the dictionaries of payloads ----------------------------------------------------------------------------


cdef class DictionaryUnifier:
    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n_cached):
            free(self.cache[i].values.prefix)
            free(self.cache[i].message.data)
            free(self.cache[i].inflated.data)
        for i in range(self.n_maps):
            free(self.maps[i].numbers.data)
        for i in range(self.n_fields):
            free(self.fields[i].numbers.data)
            free(self.fields[i].indices.data)
            free_flat(&self.fields[i].values)
        free(self.cache)
        free(self.maps)
        free(self.targets)
        free(self.fields)
        free(self.lengths)
        free(self.order)

    cdef void begin(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_cached):
            self.cache[i].arrived = False
            self.lengths[i] = -1
        self.arrivals = 0
        self.nbytes = 0

    cdef int64_t again(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil:
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

    cdef int arrive(self, const CutMessage* cut, const Envelope* message, int level, const LimitsData* limits,
                    int64_t allowance, Inflater inflater) noexcept nogil:
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
        found = self.decode_copy(cached, cut, message, level, limits, allowance, inflater)
        if found != DECODED or not cached.wanted:
            return found
        before = self.nbytes - (cached.nbytes if cached.arrived else 0)
        cached.nbytes = piece_bytes(cached.values.d)
        self.inflated = max(cached.nbytes - message.body_length, 0)
        # `Decoder` counts values that take next to nothing.
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

    cdef int decode_copy(self, CachedDictionary* cached, const CutMessage* cut, const Envelope* message, int level,
                         const LimitsData* limits, int64_t allowance, Inflater inflater) noexcept nogil:
        """Copy a message, which outlives its payload then, and find the values in the copy."""
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
        found = decode_batch_into(&cached.values, &data, message, copy + cached.body_at, level, NULL, inflater,
                                  &cached.inflated, limits, allowance, &self.wanted)
        return DECODE_BY_DECODER if found == DECODE_ROOM else found

    # -- fields --

    cdef int unify(self, const ColumnsData* d, ColumnsData* piece, int64_t room, int64_t most) noexcept nogil:
        cdef EncodedField* field
        cdef int32_t i
        cdef int found = DECODED
        self.made = 0
        for i in range(self.n_fields):
            field = &self.fields[i]
            if field.how == HOW_TRANSPOSED:
                found = self.transpose(field, d, piece)
            elif field.how == HOW_ENCODED:
                found = self.encode(field, d, piece, most - self.made)
            else:
                found = self.decode(field, d, piece, room, most - self.made)
            if found != DECODED:
                break
        return found

    cdef int transpose(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece) noexcept nogil:
        cdef const FieldPlan* read = &d.plan.fields[field.read]
        cdef int32_t width = piece.plan.fields[field.out].width
        cdef const CachedDictionary* cached = &self.cache[field.cached]
        cdef TransposeMap* map = &self.maps[field.map]
        cdef int64_t count = 0, length = d.nodes[field.read].length
        cdef uint8_t* out
        cdef Fault fault
        if cached.arrived:
            count = cached.values.d.length
            if map.version != cached.version and self.fill_map(map) != DECODED:
                return DECODE_BY_DECODER
            if (map.identity and read.width == width and map.most <= field.limit
                    and validity(d, field.read) == NULL):
                # `SchemaMapping.spread` has let the indices stand.
                if all_below(d.extents[read.first_buffer + 1].data, length, read.width, range_end(read, count)):
                    return DECODED
                return DECODE_BY_DECODER
        out = make_room(&field.indices, length * width)
        if (out == NULL or transpose(d, field.read, 0, length, <const int64_t*> map.numbers.data, count, out, width,
                                     field.limit, &fault) < 0):
            return DECODE_BY_DECODER
        set_values(piece, field.out, out, length * width)
        return DECODED

    cdef int fill_map(self, TransposeMap* map) noexcept nogil:
        """Enter the values of a dictionary in their table."""
        cdef const ColumnsData* d = self.cache[map.cached].values.d
        cdef int64_t* numbers = <int64_t*> make_room(&map.numbers, 8 * d.length)
        cdef int64_t i
        cdef Fault fault
        map.version = -1
        self.open_target(map.target)
        if numbers == NULL or (<MemoTable> self.targets[map.target].values).add_data(
                d, 0, d.length, numbers, &fault) < 0:
            return DECODE_BY_DECODER
        map.most = 0
        map.identity = True
        for i in range(d.length):
            map.identity &= numbers[i] == i
            map.most = max(map.most, numbers[i])
        map.after = (<MemoTable> self.targets[map.target].values).count
        map.version = self.cache[map.cached].version
        return DECODED

    cdef int encode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t most) noexcept nogil:
        cdef int32_t width = piece.plan.fields[field.out].width
        cdef int64_t length = d.nodes[field.read].length, size = 0
        cdef int64_t* numbers
        cdef uint8_t* out
        cdef Fault fault
        if mul_overflows(length, width + <int64_t> sizeof(int64_t), &size) or size > most:
            return DECODE_BY_DECODER
        size = length * width
        numbers = <int64_t*> make_room(&field.numbers, length * sizeof(int64_t))
        out = make_room(&field.indices, size)
        self.open_target(field.target)
        if (numbers == NULL or out == NULL
                or encode_values(<MemoTable> self.targets[field.target].values, d, field.read, numbers, &fault) < 0
                or store_places(out, width, field.limit, d, field.read, numbers, &fault) < 0):
            return DECODE_BY_DECODER
        set_values(piece, field.out, out, size)
        self.made += size
        return DECODED

    cdef int decode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil:
        cdef const FieldPlan* out = &piece.plan.fields[field.out]
        cdef const CachedDictionary* cached = &self.cache[field.cached]
        cdef const ColumnsData* values = cached.values.d if cached.arrived else NULL
        cdef int64_t length = d.nodes[field.read].length, size
        cdef int64_t* numbers
        cdef Fault fault
        # `payloads.schema_mapping` makes the numbers of all rows first too, and needs as much room.
        if length > most // 8:
            return DECODE_BY_DECODER
        numbers = <int64_t*> make_room(&field.numbers, length * sizeof(int64_t))
        if numbers == NULL or number_rows(numbers, d, field.read, values) < 0:
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

    # -- the output's dictionaries --

    cdef void open_target(self, int32_t target) noexcept nogil:
        """Before the first value that a payload brings."""
        if not self.targets[target].kept:
            (<MemoTable> self.targets[target].values).keep()
            self.targets[target].kept = True
            self.changed = True

    cdef int64_t total_bytes(self) noexcept nogil:
        cdef int64_t total = 0
        cdef int32_t i
        for i in range(self.n_targets):
            total += (<MemoTable> self.targets[i].values).builder.total_bytes()
        return total

    cdef void keep(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_targets):
            self.targets[i].kept = False
        self.changed = False

    cdef void undo(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_targets):
            if self.targets[i].kept:
                (<MemoTable> self.targets[i].values).take_back()
        for i in range(self.n_maps):
            if (self.targets[self.maps[i].target].kept
                    and self.maps[i].after > (<MemoTable> self.targets[self.maps[i].target].values).count):
                self.maps[i].version = -1
        self.keep()

    # -- setting up --

    cdef int prepare(self, SchemaMapping mapping, list known) except -1:
        """Take over the dictionaries: [DictionaryPlan], those of `mapping.plan` first, which alone are read."""
        cdef int32_t n = len(known), m = mapping.out.d.n_fields, i
        cdef DictionaryPlan dictionary
        cdef Columns values
        self.cache = <CachedDictionary*> calloc(n + 1, sizeof(CachedDictionary))
        self.lengths = <int64_t*> calloc(n + 1, sizeof(int64_t))
        self.order = <int32_t*> calloc(n + 1, sizeof(int32_t))
        self.fields = <EncodedField*> calloc(m + 1, sizeof(EncodedField))
        self.maps = <TransposeMap*> calloc(m + 1, sizeof(TransposeMap))
        self.targets = <Target*> calloc(len(self.merger.top) + 1, sizeof(Target))
        if (self.cache == NULL or self.lengths == NULL or self.order == NULL or self.fields == NULL
                or self.maps == NULL or self.targets == NULL):
            raise MemoryError()
        self.columns = []
        for i, dictionary in enumerate(known):
            self.order[i] = i
            self.cache[i].id = dictionary.id
            self.cache[i].metadata_size = -1
            self.n_cached += 1
            if i >= len(mapping.plan.dictionaries):
                continue
            values = Columns.__new__(Columns)
            values.allocate(dictionary.values, MOST_BUFFERS)
            self.columns.append(values)
            self.cache[i].wanted = True
            self.cache[i].values.d = &values.d
            self.cache[i].values.room = MOST_BUFFERS
            self.cache[i].values.prefix = <int64_t*> calloc(dictionary.values.d.source_views + 1, sizeof(int64_t))
            if self.cache[i].values.prefix == NULL:
                raise MemoryError()
        for merged in self.merger.top:
            self.targets[self.n_targets].values = <PyObject*> (<Merged> merged).table
            self.n_targets += 1
        for i in range(m):
            if mapping.origins[i].how >= HOW_TRANSPOSED:
                self.add_field(mapping, i)
        return 0

    cdef int add_field(self, SchemaMapping mapping, int32_t f) except -1:
        """Enter a field of the output whose values change their form."""
        cdef const FieldPlan* out = &mapping.out.d.fields[f]
        cdef const Origin* origin = &mapping.origins[f]
        cdef EncodedField* field = &self.fields[self.n_fields]
        field.how = origin.how
        field.out = f
        field.read = origin.field
        field.cached = field.map = field.target = -1
        if field.how != HOW_ENCODED:
            field.cached = mapping.plan.d.fields[field.read].dictionary
        if field.how != HOW_DECODED:
            field.target = out.dictionary
            field.limit = largest(out.width, (out.flags & FIELD_SIGNED) != 0)
        if field.how == HOW_TRANSPOSED:
            field.map = self.map_for(field.cached, field.target)
        self.n_fields += 1
        return 0

    cdef int32_t map_for(self, int32_t cached, int32_t target):
        cdef int32_t i
        for i in range(self.n_maps):
            if self.maps[i].cached == cached and self.maps[i].target == target:
                return i
        i = self.n_maps
        self.maps[i].cached = cached
        self.maps[i].target = target
        self.maps[i].version = -1
        self.n_maps += 1
        return i


cdef int collect(list dictionaries, list out) except -1:
    """Every dictionary that a schema has, at any depth, each once."""
    cdef DictionaryPlan dictionary, one
    for dictionary in dictionaries:
        if dictionary.id not in [one.id for one in out]:
            out.append(dictionary)
            collect(dictionary.values.dictionaries, out)
    return 0


cdef bint is_plain(SchemaMapping mapping, Merger merger):
    """Whether all dictionaries that take part hold values without anything below them."""
    cdef DictionaryPlan dictionary
    cdef Merged merged
    cdef int32_t i
    for dictionary in mapping.plan.dictionaries:
        if (dictionary.values.dictionaries or dictionary.values.d.n_fields != 1
                or dictionary.values.d.fields[0].layout > LAYOUT_VIEW or dictionary.values.d.fields[0].first_buffer):
            return False
    for i in range(mapping.out.d.n_fields):
        if mapping.origins[i].how == HOW_TRANSPOSED or mapping.origins[i].how == HOW_ENCODED:
            merged = merger.top[mapping.out.d.fields[i].dictionary]
            if not merged.table.flat or merged.plan.d.fields[0].first_buffer:
                return False
    return True


cdef DictionaryUnifier new_unifier(SchemaMapping mapping, Merger merger):
    cdef DictionaryUnifier unifier
    cdef list known = list(mapping.plan.dictionaries)
    if not is_plain(mapping, merger):
        return None
    collect(mapping.whole.dictionaries, known)
    unifier = DictionaryUnifier.__new__(DictionaryUnifier)
    unifier.merger = merger
    unifier.prepare(mapping, known)
    return unifier
