"""Keeps the dictionaries of payloads, and rewrites their indices, in the loop that runs without Python.

Most payloads of a column bring the same dictionaries: a message that is equal byte for byte to the one before is
neither read nor looked up again. What is nested, a delta, or in another byte order is left to the readers and to
`payloads.schema_mapping`, which also put every refusal into words; what is made here of a payload is what they
would make of it.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from arrowipc._core cimport (
    Columns, DictionaryPlan, check_counts, check_sizes, count_variadic, open_batch, walk,
)
from arrowipc.columns.memo_table cimport MemoTable, transpose
from arrowipc.columns.take cimport TakeRange
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.element cimport index_at, validity, word_span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport (
    bitmap_bytes, get_bit, loose_i32, loose_i64, loose_u16, loose_u32, loose_u64, mul_overflows, round_up, set_bit,
    too_many_values,
)
from arrowipc.inline.plan cimport (
    FIELD_SIGNED, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_VAR32, LAYOUT_VIEW, LEVEL_STRICT,
    BatchHeader, ColumnsData, Envelope, Extent, FieldPlan, LimitsData, Node,
)
from arrowipc.payloads.schema_mapping cimport (
    HOW_DECODED, HOW_ENCODED, HOW_TRANSPOSED, Merged, Merger, Origin, SchemaMapping, encode_values, store_places,
)
from arrowipc.read.decoders cimport check_extents
from arrowipc.read.framing cimport CutMessage
from arrowipc.read.decompress cimport INFLATED, INFLATE_LATER, Inflater, scratch_room
from arrowipc.read.validate cimport check_columns

cdef enum:
    LINE = 64
    MOST_FREE = 1 << 10     # values of a dictionary that may take no bytes
    MOST_BUFFERS = 64       # variadic data buffers of a dictionary's values; more is for a reader


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


cdef int transpose_indices(uint8_t* out, int32_t width, int64_t limit, const ColumnsData* d, int32_t f,
                           const TransposeMap* places, int64_t count, Fault* fault) noexcept nogil:
    """Indices of a field by the numbers of the values that they stand for; zeros where null."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* indices = d.extents[field.first_buffer + 1].data
    cdef const int64_t* numbers = <const int64_t*> places.numbers.data
    cdef int64_t n = d.nodes[f].length, i
    if validity(d, f) == NULL and width == 4 and field.width == 4 and places.most <= limit:
        # One loop that only compares, in vectors, and one that only copies: what most payloads take.
        if not all_below(indices, n, 4, range_end(field, count)):
            return -1
        for i in range(n):
            (<loose_i32*> out)[i] = <int32_t> numbers[(<const loose_u32*> indices)[i]]
        return 0
    return transpose(d, f, 0, n, numbers, count, out, width, limit, fault)


cdef int64_t number_values(int64_t* out, const ColumnsData* d, int32_t f, const ColumnsData* values,
                           Fault* fault) noexcept nogil:
    """The number of each row's value, -1 for nulls, of indices and of values; returns how many those are, or -1.

    `values`: NULL where the dictionary has not arrived.
    """
    cdef const uint8_t* bits = validity(d, f)
    cdef const uint8_t* valid = validity(values, 0) if values != NULL else NULL
    cdef bint none_valid = values != NULL and values.plan.fields[0].layout == LAYOUT_NULL
    cdef int64_t count = values.length if values != NULL else 0, nulls = 0, i
    for i in range(d.nodes[f].length):
        out[i] = -1
        if bits == NULL or get_bit(bits, i):
            if index_at(d, f, i, count, &out[i], fault) < 0:
                return -1
            if none_valid or (valid != NULL and not get_bit(valid, out[i])):
                out[i] = -1
        nulls += out[i] < 0
    return nulls


# -- values in the place of indices --------------------------------------------------------------------------


cdef void gather_fixed(uint8_t* out, const uint8_t* values, int32_t width, const int64_t* numbers,
                       int64_t n) noexcept nogil:
    """Values of `width` bytes; zeros where null."""
    cdef int64_t i
    if width == 8:
        for i in range(n):
            (<loose_i64*> out)[i] = (<const loose_i64*> values)[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 4:
        for i in range(n):
            (<loose_i32*> out)[i] = (<const loose_i32*> values)[numbers[i]] if numbers[i] >= 0 else 0
    else:
        for i in range(n):
            if numbers[i] >= 0:
                memcpy(out + i * width, values + numbers[i] * width, width)
            else:
                memset(out + i * width, 0, width)


cdef int64_t gather_offsets(uint8_t* out, int32_t width, const ColumnsData* values, const int64_t* numbers, int64_t n,
                            int64_t most, Fault* fault) noexcept nogil:
    """Offsets of text; returns the bytes that it takes, or -1: too many, or broken."""
    cdef const uint8_t* data
    cdef int64_t end = 0, size = 0, i
    most = min(most, largest(width, True))
    store_int(out, 0, width, 0)
    for i in range(n):
        if numbers[i] >= 0:
            if word_span(values, 0, numbers[i], &data, &size, fault) < 0 or size > most - end:
                return -1
            end += size
        store_int(out, i + 1, width, end)
    return end


cdef void gather_text(uint8_t* out, const ColumnsData* values, const int64_t* numbers, int64_t n) noexcept nogil:
    """The text itself; `gather_offsets` has looked at all of it."""
    cdef const uint8_t* data
    cdef int64_t size = 0, i
    cdef Fault fault
    for i in range(n):
        if numbers[i] >= 0 and word_span(values, 0, numbers[i], &data, &size, &fault) == 0:
            memcpy(out, data, size)
            out += size


cdef inline void put(Extent* extent, const uint8_t* data, int64_t size) noexcept nogil:
    extent.data = data if size else NULL
    extent.size = size


cdef uint8_t* valid_bits(EncodedField* link, const int64_t* numbers, int64_t n) noexcept nogil:
    cdef uint8_t* bits = scratch_room(&link.bits, bitmap_bytes(n))
    cdef int64_t i
    if bits != NULL:
        memset(bits, 0, bitmap_bytes(n))
        for i in range(n):
            if numbers[i] >= 0:
                set_bit(bits, i)
    return bits


cdef int64_t gather_words(EncodedField* link, const ColumnsData* values, const FieldPlan* field, Extent* extent,
                          int64_t n,
                          int64_t most, Fault* fault) noexcept nogil:
    """All buffers behind the validity; returns their bytes, or -1."""
    cdef const int64_t* numbers = <const int64_t*> link.numbers.data
    cdef int32_t width = 16 if field.layout == LAYOUT_VIEW else field.width
    cdef const uint8_t* words = NULL
    cdef uint8_t* out
    cdef int64_t size = 0, text, i
    if field.layout == LAYOUT_NULL:
        return 0
    if field.layout == LAYOUT_BOOL:
        size = bitmap_bytes(n)
    elif field.layout == LAYOUT_FIXED or field.layout == LAYOUT_VIEW:
        if mul_overflows(n, width, &size):
            return -1
    else:
        width = 4 if field.layout == LAYOUT_VAR32 else 8
        if n == INT64_MAX or mul_overflows(n + 1, width, &size):
            return -1
    out = scratch_room(&link.words, size + 1) if size <= most else NULL
    if out == NULL:
        return -1
    put(extent + 1, out, size)
    if values != NULL:
        words = values.extents[values.plan.fields[0].first_buffer + 1].data
    if field.layout == LAYOUT_FIXED or field.layout == LAYOUT_VIEW:
        if width:
            gather_fixed(out, words, width, numbers, n)
        return size
    if field.layout == LAYOUT_BOOL:
        memset(out, 0, size)
        for i in range(n):
            if numbers[i] >= 0 and get_bit(words, numbers[i]):
                set_bit(out, i)
        return size
    text = gather_offsets(out, width, values, numbers, n, most - size, fault)
    out = scratch_room(&link.text, text + 1) if text >= 0 else NULL
    if out == NULL:
        return -1
    gather_text(out, values, numbers, n)
    put(extent + 2, out, text)
    return size + text


# -- the dictionaries of payloads ----------------------------------------------------------------------------


cdef class DictionaryUnifier:
    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n_cached):
            free(self.cache[i].prefix)
            free(self.cache[i].message.data)
            free(self.cache[i].inflated.data)
        for i in range(self.n_places):
            free(self.places[i].numbers.data)
        for i in range(self.n_links):
            free(self.links[i].numbers.data)
            free(self.links[i].words.data)
            free(self.links[i].bits.data)
            free(self.links[i].text.data)
        free(self.cache)
        free(self.places)
        free(self.targets)
        free(self.links)
        free(self.words)
        free(self.order)

    cdef void begin(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_cached):
            self.cache[i].arrived = False
            self.words[i] = -1
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
        self.words[self.order[self.arrivals]] = cached.d.length
        self.arrivals += 1
        return cached.body_size

    cdef int arrive(self, const CutMessage* cut, const Envelope* message, int level, const LimitsData* limits,
                    Inflater inflater) noexcept nogil:
        cdef Table data
        cdef CachedDictionary* cached
        cdef int64_t id, before
        cdef int32_t i = 0, k
        cdef int delta, found
        self.inflated = 0
        if (fb_table(&message.header, DictionaryBatch_data, &data) != 1
                or fb_i64(&message.header, DictionaryBatch_id, 0, &id) < 0
                or fb_u8(&message.header, DictionaryBatch_isDelta, 0, &delta) < 0
                or delta or fb_field(&message.root, Message_custom_metadata, 4) != 0):
            return UNIFY_BY_READER
        while i < self.n_cached and self.cache[i].id != id:
            i += 1
        if i == self.n_cached:
            return UNIFY_BY_READER
        cached = &self.cache[i]
        if self.arrivals < self.n_cached:
            self.order[self.arrivals] = i
        self.arrivals += 1
        if not cached.wanted:
            return UNIFIED
        before = self.nbytes - (cached.nbytes if cached.arrived else 0)
        cached.metadata_size = -1
        found = self.store(cached, cut, message.body_length)
        if found == UNIFIED:
            # The same table in the copy, which outlives the payload.
            data.base = cached.message.data
            found = self.fill(cached, &data, message, level, limits, inflater)
        if found != UNIFIED:
            return found
        cached.nbytes = 0
        for k in range(cached.d.n_extents):
            cached.nbytes += cached.d.extents[k].size
        self.inflated = max(cached.nbytes - message.body_length, 0)
        # A reader counts values that take next to nothing.
        if cached.d.length > 8 * cached.nbytes + MOST_FREE:
            return UNIFY_BY_READER
        if cached.nbytes > limits.dictionary_bytes - before or too_many_values(cached.d.length, cached.nbytes):
            return UNIFY_BY_READER
        self.nbytes = before + cached.nbytes
        self.versions += 1
        cached.version = self.versions
        cached.metadata_size = cut.metadata_size
        cached.arrived = True
        self.words[i] = cached.d.length
        return UNIFIED

    cdef int store(self, CachedDictionary* cached, const CutMessage* cut, int64_t body_size) noexcept nogil:
        """Copy a message."""
        cdef uint8_t* copy
        cached.body_at = round_up(cut.metadata_size, LINE)
        cached.body_size = body_size
        copy = scratch_room(&cached.message, cached.body_at + body_size)
        if copy == NULL:
            return UNIFY_BY_READER
        memcpy(copy, cut.metadata, cut.metadata_size)
        memcpy(copy + cached.body_at, cut.rest, body_size)
        return UNIFIED

    cdef int fill(self, CachedDictionary* cached, const Table* data, const Envelope* message, int level,
                  const LimitsData* limits,
                  Inflater inflater) noexcept nogil:
        """The values of a message: what `Decoder.fill` does."""
        cdef ColumnsData* d = cached.d
        cdef BatchHeader header
        cdef Fault fault
        cdef int64_t variadic = 0
        cdef int64_t* prefix = cached.prefix if d.plan.source_views else NULL
        cdef int found
        if (open_batch(data, &header, &fault) < 0
                or check_counts(d.plan, &header, message.version, prefix, limits, &fault) < 0):
            return UNIFY_BY_READER
        if prefix != NULL:
            variadic = count_variadic(d.plan, prefix)
            if variadic > MOST_BUFFERS:
                return UNIFY_BY_READER
        d.n_extents = <int32_t> (d.plan.n_buffers + variadic)
        d.length = header.length
        if (walk(d, &header, cached.message.data + cached.body_at, cached.body_size,
                 message.version == MetadataVersion_V4, prefix, limits, &fault) < 0
                or (level >= LEVEL_STRICT and check_extents(&header, cached.body_size, &fault) < 0)):
            return UNIFY_BY_READER
        if header.codec >= 0:
            found = inflater.inflate(d, header.codec, limits, &cached.inflated)
            if found == INFLATE_LATER:
                self.codec = header.codec
                return UNIFY_CODEC
            if found != INFLATED:
                return UNIFY_BY_READER
        if check_sizes(d, &fault) < 0 or (level and check_columns(d, NULL, level, &fault) < 0):
            return UNIFY_BY_READER
        return UNIFIED

    # -- fields --

    cdef int unify(self, const ColumnsData* d, ColumnsData* piece, int64_t room, int64_t most) noexcept nogil:
        cdef EncodedField* link
        cdef int32_t i
        cdef int found = UNIFIED
        self.made = 0
        for i in range(self.n_links):
            link = &self.links[i]
            if link.how == HOW_TRANSPOSED:
                found = self.transpose(link, d, piece)
            elif link.how == HOW_ENCODED:
                found = self.encode(link, d, piece, most - self.made)
            else:
                found = self.decode(link, d, piece, room, most - self.made)
            if found != UNIFIED:
                break
        return found

    cdef int transpose(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece) noexcept nogil:
        cdef const FieldPlan* read = &d.plan.fields[link.read]
        cdef const FieldPlan* field = &piece.plan.fields[link.out]
        cdef const CachedDictionary* cached = &self.cache[link.cached]
        cdef TransposeMap* places = &self.places[link.places]
        cdef int64_t count = 0, length = d.nodes[link.read].length
        cdef uint8_t* out
        cdef Fault fault
        if cached.arrived:
            count = cached.d.length
            if places.version != cached.version and self.find_places(places) != UNIFIED:
                return UNIFY_BY_READER
            if (places.same and read.width == field.width and places.most <= link.limit
                    and validity(d, link.read) == NULL):
                # `spread` has let the indices stand.
                if all_below(d.extents[read.first_buffer + 1].data, length, read.width, range_end(read, count)):
                    return UNIFIED
                return UNIFY_BY_READER
        out = scratch_room(&link.words, length * field.width + 1)
        if out == NULL or transpose_indices(out, field.width, link.limit, d, link.read, places, count, &fault) < 0:
            return UNIFY_BY_READER
        put(&piece.extents[field.first_buffer + 1], out, length * field.width)
        return UNIFIED

    cdef int find_places(self, TransposeMap* places) noexcept nogil:
        """Enter the values of a dictionary in their table."""
        cdef const ColumnsData* d = self.cache[places.cached].d
        cdef int64_t* numbers = <int64_t*> scratch_room(&places.numbers, 8 * d.length + 8)
        cdef int64_t i
        cdef Fault fault
        places.version = -1
        self.open_target(places.target)
        if numbers == NULL or (<MemoTable> self.targets[places.target].values).add_data(
                d, 0, d.length, numbers, &fault) < 0:
            return UNIFY_BY_READER
        places.most = 0
        places.same = True
        for i in range(d.length):
            places.same &= numbers[i] == i
            places.most = max(places.most, numbers[i])
        places.after = (<MemoTable> self.targets[places.target].values).count
        places.version = self.cache[places.cached].version
        return UNIFIED

    cdef int encode(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece, int64_t most) noexcept nogil:
        cdef const FieldPlan* field = &piece.plan.fields[link.out]
        cdef int64_t length = d.nodes[link.read].length, size = 0
        cdef int64_t* numbers
        cdef uint8_t* out
        cdef Fault fault
        if mul_overflows(length, field.width + <int64_t> sizeof(int64_t), &size) or size > most:
            return UNIFY_BY_READER
        size = length * field.width
        numbers = <int64_t*> scratch_room(&link.numbers, length * sizeof(int64_t) + 8)
        out = scratch_room(&link.words, size + 8)
        self.open_target(link.target)
        if (numbers == NULL or out == NULL
                or encode_values(<MemoTable> self.targets[link.target].values, d, link.read, numbers, &fault) < 0
                or store_places(out, field.width, link.limit, d, link.read, numbers, &fault) < 0):
            return UNIFY_BY_READER
        put(&piece.extents[field.first_buffer + 1], out, size)
        self.made += size
        return UNIFIED

    cdef int decode(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil:
        cdef const FieldPlan* field = &piece.plan.fields[link.out]
        cdef const CachedDictionary* cached = &self.cache[link.cached]
        cdef const ColumnsData* values = cached.d if cached.arrived else NULL
        cdef int64_t length = d.nodes[link.read].length, bits = bitmap_bytes(length), nulls, size
        cdef Extent* extent = &piece.extents[field.first_buffer]
        cdef int64_t* numbers
        cdef int32_t first = piece.n_extents, count = 0
        cdef Fault fault
        # `payloads.schema_mapping` makes a TakeRange for every row first, and needs as much room.
        if length > most // <int64_t> sizeof(TakeRange):
            return UNIFY_BY_READER
        numbers = <int64_t*> scratch_room(&link.numbers, length * sizeof(int64_t) + 8)
        nulls = number_values(numbers, d, link.read, values, &fault) if numbers != NULL else -1
        if nulls < 0:
            return UNIFY_BY_READER
        if field.layout == LAYOUT_VIEW:
            if values != NULL:
                count = values.views[0].count
            if first - piece.plan.n_buffers + <int64_t> count > room:
                self.wanted = first - piece.plan.n_buffers + <int64_t> count
                return UNIFY_ROOM
            piece.views[field.view].first = first
            piece.views[field.view].count = count
            if count:
                memcpy(&piece.extents[first], &values.extents[values.views[0].first], count * sizeof(Extent))
            piece.n_extents += count
        if field.layout != LAYOUT_NULL:
            put(extent, NULL, 0)
            if nulls:
                put(extent, valid_bits(link, numbers, length), bits)
                if bits and extent.data == NULL:
                    return UNIFY_BY_READER
        size = gather_words(link, values, field, extent, length, most - bits, &fault)
        if size < 0:
            return UNIFY_BY_READER
        piece.nodes[link.out] = Node(length, nulls, 0)
        self.made += size + (bits if nulls and field.layout != LAYOUT_NULL else 0)
        return UNIFIED

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
        for i in range(self.n_places):
            if (self.targets[self.places[i].target].kept
                    and self.places[i].after > (<MemoTable> self.targets[self.places[i].target].values).count):
                self.places[i].version = -1
        self.keep()

    # -- setting up --

    cdef int prepare(self, SchemaMapping mapping, list known) except -1:
        """Take over the dictionaries: [DictionaryPlan], those of `mapping.plan` first, which alone are read."""
        cdef int32_t n = len(known), m = mapping.out.d.n_fields, i
        cdef DictionaryPlan dictionary
        cdef Columns values
        self.cache = <CachedDictionary*> calloc(n + 1, sizeof(CachedDictionary))
        self.words = <int64_t*> calloc(n + 1, sizeof(int64_t))
        self.order = <int32_t*> calloc(n + 1, sizeof(int32_t))
        self.links = <EncodedField*> calloc(m + 1, sizeof(EncodedField))
        self.places = <TransposeMap*> calloc(m + 1, sizeof(TransposeMap))
        self.targets = <Target*> calloc(len(self.merger.top) + 1, sizeof(Target))
        if (self.cache == NULL or self.words == NULL or self.order == NULL or self.links == NULL
                or self.places == NULL or self.targets == NULL):
            raise MemoryError()
        self.plans = []
        for i, dictionary in enumerate(known):
            self.order[i] = i
            self.cache[i].id = dictionary.id
            self.cache[i].metadata_size = -1
            self.n_cached += 1
            if i >= len(mapping.plan.dictionaries):
                continue
            values = Columns.__new__(Columns)
            values.allocate(dictionary.values, MOST_BUFFERS)
            self.plans.append(values)
            self.cache[i].wanted = True
            self.cache[i].d = &values.d
            self.cache[i].prefix = <int64_t*> calloc(dictionary.values.d.source_views + 1, sizeof(int64_t))
            if self.cache[i].prefix == NULL:
                raise MemoryError()
        for merged in self.merger.top:
            self.targets[self.n_targets].values = <PyObject*> (<Merged> merged).table
            self.n_targets += 1
        for i in range(m):
            if mapping.origins[i].how >= HOW_TRANSPOSED:
                self.link(mapping, i)
        return 0

    cdef int link(self, SchemaMapping mapping, int32_t f) except -1:
        """Enter a field of the output whose values change their form."""
        cdef const FieldPlan* field = &mapping.out.d.fields[f]
        cdef const Origin* origin = &mapping.origins[f]
        cdef EncodedField* link = &self.links[self.n_links]
        link.how = origin.how
        link.out = f
        link.read = origin.field
        link.cached = link.places = link.target = -1
        if link.how != HOW_ENCODED:
            link.cached = mapping.plan.d.fields[link.read].dictionary
        if link.how != HOW_DECODED:
            link.target = field.dictionary
            link.limit = largest(field.width, (field.flags & FIELD_SIGNED) != 0)
        if link.how == HOW_TRANSPOSED:
            link.places = self.place_for(link.cached, link.target)
        self.n_links += 1
        return 0

    cdef int32_t place_for(self, int32_t cached, int32_t target):
        cdef int32_t i
        for i in range(self.n_places):
            if self.places[i].cached == cached and self.places[i].target == target:
                return i
        i = self.n_places
        self.places[i].cached = cached
        self.places[i].target = target
        self.places[i].version = -1
        self.n_places += 1
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
        if (dictionary.values.dictionaries or dictionary.values.d.n_fields != 1 or dictionary.values.d.stored_big
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
