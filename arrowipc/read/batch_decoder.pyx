"""From opened messages to batches: walk, body, validation and dictionaries, in the one order that is right.

Every reader (stream, file, single messages) holds one `Decoder` and hands it what its framing found.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from arrowipc._core cimport (
    Columns, DictionaryPlan, Plan, field_path, limits_data, locate, open_batch, raise_fault, read_pairs,
)
from arrowipc.columns.array cimport RecordBatch
from arrowipc.columns.builder cimport DeltaOrigin, begin_deltas
from arrowipc.columns.concat cimport ColumnsBuilder
from arrowipc.inline.fault cimport (
    FAULT_EMPTY_OUTSIDE, FAULT_FLATBUFFER, FAULT_INDEX, FAULT_MEMORY, FAULT_MISALIGNED, FAULT_MISSING,
    FAULT_NO_DICTIONARY, FAULT_SHARED, Fault, fail, fail_in,
)
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_field, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport inside, load_i64, too_many_values
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LEVEL_FULL, LEVEL_NONE, LEVEL_STRICT, BatchHeader, Envelope, FieldPlan, v4_bitmap,
)
from arrowipc.metadata.schema_reader cimport plan_schema, project, python_plan, read_plan, unshared
from arrowipc.read.decompress cimport normalise
from arrowipc.read.framing cimport Message
from arrowipc.read.validate cimport index_range, validate

from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UnsupportedError, UsageError

cdef dict LEVELS = {"none": LEVEL_NONE, "full": LEVEL_FULL, "strict": LEVEL_STRICT}

# Arrow 0.17 announced compression in Message.custom_metadata, before RecordBatch.compression existed.
cdef bytes EXPERIMENTAL_KEY = b"ARROW:experimental_compression"
cdef dict EXPERIMENTAL_CODECS = {b"lz4": CompressionType_LZ4_FRAME, b"zstd": CompressionType_ZSTD}


cdef Decoder new_decoder(object columns, object validate, object limits, bint use_threads,
                         bint ensure_native_endian):
    """A decoder for the reader keywords of these names; `open` gives it a schema."""
    cdef Decoder decoder = Decoder.__new__(Decoder)
    if validate not in LEVELS:
        raise UsageError(f'validate must be "none", "full" or "strict", found {validate!r}')
    limits_data(limits, &decoder.limits)
    decoder.columns = columns
    decoder.level = LEVELS[validate]
    decoder.use_threads = use_threads
    decoder.keep_stored = not ensure_native_endian
    return decoder


cdef int set_keep_stored(Plan plan) except -1:
    cdef DictionaryPlan dictionary
    plan.d.keep_stored = True
    for dictionary in plan.dictionaries:
        set_keep_stored(dictionary.values)
    return 0


cdef int check_features(object schema) except -1:
    """Strict readers refuse features that they do not know; the others keep them in `schema.features`."""
    unknown = [feature for feature in schema.features if not 0 <= feature <= Feature_MAX]
    if unknown:
        raise UnsupportedError(f"Schema.features has the unknown values {unknown}")
    return 0


cdef dict NO_DICTIONARIES = {}


cdef int collect(list dictionaries, dict out) except -1:
    """Every dictionary that a plan needs, at any depth."""
    cdef DictionaryPlan dictionary
    for dictionary in dictionaries:
        if dictionary.id not in out:
            out[dictionary.id] = dictionary
            collect(dictionary.values.dictionaries, out)
    return 0


cdef class Dictionary:
    pass


cdef class Decoder:
    """Decodes the batches and keeps the dictionaries of one schema."""

    cdef int open(self, Plan whole) except -1:
        if self.keep_stored and whole.d.stored_big:
            # A plan of its own: the one at hand may serve other readers too.
            whole = unshared(whole)
            set_keep_stored(whole)
        if self.level >= LEVEL_STRICT:
            check_features(plan_schema(whole))
        return self.open_as(whole, project(whole, self.columns))

    cdef int open_as(self, Plan whole, Plan plan) except -1:
        """Read the messages of the schema `whole` as `plan`, which is made of some of its fields."""
        self.plan = plan
        if not whole.dictionaries:
            # Most streams: nothing to keep track of, and nothing will be entered here.
            self.known = self.needed = self.entries = NO_DICTIONARIES
            self.current = ()
            return 0
        self.entries = {}
        self.known = {}
        self.needed = {}
        collect(whole.dictionaries, self.known)
        collect(self.plan.dictionaries, self.needed)
        return 0

    cdef int fill(self, Columns out, const Table* table, const Envelope* message, const uint8_t* body,
                  object body_owner, Plan plan, tuple dictionaries) except -1:
        """Everything that a RecordBatch table goes through, for batches and dictionaries alike."""
        cdef BatchHeader header
        cdef Fault fault
        if open_batch(table, &header, &fault) < 0:
            raise_fault(&fault)
        if message.version == MetadataVersion_V4 and fb_field(&message.root, Message_custom_metadata, 4):
            header.codec = experimental_codec(message, header.codec)
        locate(out, plan, &header, body, message.body_length, message.version, &self.limits)
        if self.level >= LEVEL_STRICT and check_extents(&header, message.body_length, &fault) < 0:
            raise_fault(&fault, None, place_of(plan, &header, message.version, fault.at) if fault.at >= 0 else None)
        out.owner = body_owner
        normalise(out, header.codec, &self.limits, self.use_threads)
        out.dictionaries = dictionaries
        if self.level:
            validate(out, self.level)
        return 0

    # -- batches --

    cdef RecordBatch batch(self, const Envelope* message, const uint8_t* body, object body_owner):
        cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
        if self.current is None:
            self.current = self.resolve(self.plan.dictionaries)
        self.fill(out, &message.header, message, body, body_owner, self.plan, self.current)
        out.custom_metadata = (read_pairs(&message.root, Message_custom_metadata)
                               if fb_field(&message.root, Message_custom_metadata, 4) else ())
        self.num_record_batches += 1
        return out

    cdef Columns stored(self, Message message):
        """What a writer has to know of a batch whose body it may pass on as it is.

        With validation this is the decoded batch. Without, only the structure is looked at: rows and dictionaries
        are right, and the extents point at what is stored.
        """
        cdef Columns out
        cdef BatchHeader header
        cdef Fault fault
        if self.level:
            return self.batch(&message.envelope, message.body_bytes, message.body_owner)
        if self.current is None:
            self.current = self.resolve(self.plan.dictionaries)
        out = Columns.__new__(Columns)
        if open_batch(&message.envelope.header, &header, &fault) < 0:
            raise_fault(&fault)
        locate(out, self.plan, &header, message.body_bytes, message.envelope.body_length, message.envelope.version,
               &self.limits)
        out.owner = message.body_owner
        out.dictionaries = self.current
        self.num_record_batches += 1
        return out

    # -- dictionaries --

    cdef tuple dictionary(self, const Envelope* message, const uint8_t* body, object body_owner, bint replaceable):
        """Take in a DictionaryBatch; returns (id, is_delta, length).

        `replaceable`: a second dictionary of an id replaces the first (streams); files refuse it.
        """
        cdef DictionaryPlan plan
        cdef Dictionary entry
        cdef Columns piece
        cdef Table data
        cdef Fault fault
        cdef int64_t id
        cdef int delta, found = fb_table(&message.header, DictionaryBatch_data, &data)
        if (found < 0 or fb_i64(&message.header, DictionaryBatch_id, 0, &id) < 0
                or fb_u8(&message.header, DictionaryBatch_isDelta, 0, &delta) < 0):
            fail_in(&fault, FAULT_FLATBUFFER, "DictionaryBatch table", 0, 0, message.header.pos)
            raise_fault(&fault)
        if found == 0:
            fail_in(&fault, FAULT_MISSING, "DictionaryBatch.data")
            raise_fault(&fault)
        plan = self.known.get(id)
        if plan is None:
            raise FormatError(f"dictionary {id} is not used by any field of the schema")
        entry = self.entries.get(id)
        if delta and entry is None:
            raise FormatError(f"a delta for dictionary {id} arrived before the dictionary itself")
        if not delta and entry is not None and not replaceable:
            raise FormatError(f"dictionary {id} is listed twice without being a delta; a file cannot replace "
                              "dictionaries")
        self.num_dictionary_batches += 1
        self.num_dictionary_deltas += delta
        self.num_replaced_dictionaries += entry is not None and not delta
        if id not in self.needed:
            self.entries[id] = Dictionary.__new__(Dictionary)
            return id, delta != 0, 0
        piece = Columns.__new__(Columns)
        # Nested indices are checked when the dictionaries below have arrived, in whatever order: `values_of`.
        self.fill(piece, &data, message, body, body_owner, plan.values, None)
        piece.dictionaries = (None,) * len(plan.values.dictionaries)
        if not delta:
            self.dictionary_bytes -= entry.nbytes if entry is not None else 0
            entry = Dictionary.__new__(Dictionary)
            entry.resolved_at = -1
            self.entries[id] = entry
        self.grow(entry, piece, id)
        self.generation += 1
        self.current = None
        return id, delta != 0, entry.values.d.length

    cdef bint needs_dictionary(self, const Envelope* message) except -1:
        """Whether `dictionary` will read the body of this DictionaryBatch; also where it is one to refuse."""
        cdef int64_t id
        return (fb_i64(&message.header, DictionaryBatch_id, 0, &id) < 0 or id in self.needed
                or id not in self.known)

    cdef int forget(self) except -1:
        """Let go of all dictionaries, as if none had arrived."""
        if self.entries:
            self.entries = {}
        self.current = None if self.known else ()
        self.dictionary_bytes = 0
        self.num_dictionary_batches = self.num_dictionary_deltas = self.num_replaced_dictionaries = 0
        self.generation += 1
        return 0

    cdef int grow(self, Dictionary entry, Columns piece, int64_t id) except -1:
        """Put `piece` behind the values so far. Batches that hold earlier values keep those, in shared memory."""
        cdef int64_t nbytes = 0, length
        cdef int32_t i
        cdef ColumnsBuilder builder
        for i in range(piece.d.n_extents):
            nbytes += piece.d.extents[i].size
        if nbytes > self.limits.dictionary_bytes - self.dictionary_bytes:
            raise LimitError(f"dictionary {id} takes all dictionaries past Limits.dictionary_bytes = "
                             f"{self.limits.dictionary_bytes:,}")
        self.dictionary_bytes += nbytes
        entry.nbytes += nbytes
        length = piece.d.length + (0 if entry.values is None else entry.values.d.length)
        if too_many_values(length, entry.nbytes):
            raise LimitError(f"dictionary {id} claims {length:,} values in {entry.nbytes:,} bytes")
        if self.level and piece.plan.dictionaries:
            self.widen_bounds(entry, piece)
        if entry.values is None:
            entry.values = piece
            return 0
        # Where something fails, the values stay as they are, and the next piece begins with a copy of them.
        builder, entry.builder = entry.builder, None
        if builder is None:
            builder = ColumnsBuilder(entry.values.plan)
            builder.append(entry.values)
            # Whoever copies the batches tells by this that the dictionary grew by deltas.
            builder.origin = DeltaOrigin()
            begin_deltas(builder, entry.values)
            if entry.resolved is not None:
                begin_deltas(builder, entry.resolved)
        builder.append(piece)
        entry.values = builder.snapshot()
        entry.builder = builder
        return 0

    cdef int widen_bounds(self, Dictionary entry, Columns piece) except -1:
        """Remember the extreme nested indices: with them a changed inner dictionary is checked in no time."""
        cdef int64_t low, high
        cdef int32_t i
        if entry.bounds is None:
            entry.bounds = [None] * piece.plan.d.n_fields
        for i in range(piece.plan.d.n_fields):
            if (piece.plan.d.fields[i].flags & FIELD_ENCODED
                    and index_range(&piece.d, i, piece.d.nodes[i].offset, piece.d.nodes[i].length, &low, &high)):
                before = entry.bounds[i]
                entry.bounds[i] = (low, high) if before is None else (min(low, before[0]), max(high, before[1]))
        return 0

    cdef tuple resolve(self, list wanted):
        """The values of dictionaries as they stand; None where one has not arrived."""
        cdef DictionaryPlan plan
        return tuple([self.values_of(plan) for plan in wanted])

    cdef Columns values_of(self, DictionaryPlan wanted):
        cdef Dictionary entry = self.entries.get(wanted.id)
        cdef Columns out, inner
        cdef Fault fault
        if entry is None or not wanted.values.dictionaries:
            return None if entry is None else entry.values
        if entry.resolved_at == self.generation:
            return entry.resolved
        out = Columns.__new__(Columns)
        out.allocate(entry.values.plan, entry.values.d.n_extents - entry.values.plan.d.n_buffers)
        memcpy(out.d.block, entry.values.d.block, <uint8_t*> (out.d.views + out.plan.d.n_views)
               - <uint8_t*> out.d.block)
        out.d.length = entry.values.d.length
        out.owner = entry.values.owner
        out.dictionaries = self.resolve(wanted.values.dictionaries)
        for i, bounds in enumerate(entry.bounds or ()):
            if bounds is not None:
                inner = out.dictionaries[out.plan.d.fields[<int32_t> i].dictionary]
                if inner is None:
                    nested = wanted.values.dictionaries[out.plan.d.fields[<int32_t> i].dictionary]
                    fail(&fault, FAULT_NO_DICTIONARY, i, -1, 0, (<DictionaryPlan> nested).id, 0, NULL)
                    raise_fault(&fault, out.plan, f"dictionary {wanted.id}")
                if bounds[0] < 0 or bounds[1] >= inner.d.length:
                    fail(&fault, FAULT_INDEX, i, -1, -1, bounds[0] if bounds[0] < 0 else bounds[1],
                         inner.d.length, NULL)
                    raise_fault(&fault, out.plan, f"dictionary {wanted.id}")
        entry.resolved = out
        entry.resolved_at = self.generation
        return out


cdef int experimental_codec(const Envelope* message, int codec) except -2:
    for key, value in read_pairs(&message.root, Message_custom_metadata):
        if key == EXPERIMENTAL_KEY:
            found = EXPERIMENTAL_CODECS.get(value.lower())
            if found is None:
                raise UnsupportedError(f"unknown {EXPERIMENTAL_KEY.decode()} {value!r}: expected lz4 or zstd")
            return found
    return codec


cdef str place_of(Plan plan, const BatchHeader* header, int version, int64_t ordinal):
    """Whose Buffer number `ordinal` of a message is, for messages."""
    cdef const FieldPlan* field
    cdef int64_t first
    cdef int32_t i
    prefix = [0]
    for i in range(header.variadic.count):
        prefix.append(prefix[i] + load_i64(header.variadic.data + 8 * i))
    for i in range(plan.d.n_fields):
        field = &plan.d.fields[i]
        first = field.source_buffer + <int64_t> prefix[field.views_before]
        if version == MetadataVersion_V4:
            first += field.bitmaps_before + v4_bitmap(field)
        if first <= ordinal < first + field.n_buffers:
            return f"column {field_path(plan, i)!r}: buffer {ordinal - first}"
    return f"Buffer {ordinal} of the message"


cdef struct Numbered:
    # A Buffer struct and its place in the message.
    int64_t offset
    int64_t length
    int64_t ordinal


cdef int by_offset(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const Numbered*> a).offset, y = (<const Numbered*> b).offset
    return (x > y) - (x < y)


cdef int check_extents(const BatchHeader* header, int64_t body_length, Fault* fault) noexcept nogil:
    """Strict: each Buffer starts at a multiple of 8 inside the body, and no two share bytes.

    `fault.at` is the Buffer's place in the message.
    """
    cdef int64_t i, count = header.buffers.count
    cdef Numbered* buffers = <Numbered*> malloc(count * sizeof(Numbered) + 1)
    cdef int found
    if buffers == NULL:
        return fail(fault, FAULT_MEMORY, -1, -1, -1, 0, 0, NULL)
    for i in range(count):
        buffers[i].offset = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_offset)
        buffers[i].length = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length)
        buffers[i].ordinal = i
    qsort(buffers, count, sizeof(Numbered), by_offset)
    found = check_sorted(buffers, count, body_length, fault)
    free(buffers)
    return found


cdef int check_sorted(const Numbered* buffers, int64_t count, int64_t body_length, Fault* fault) noexcept nogil:
    cdef const Numbered* b
    cdef int64_t i, end = 0
    for i in range(count):
        b = &buffers[i]
        if not inside(b.offset, b.length, body_length):
            return fail(fault, FAULT_EMPTY_OUTSIDE, -1, -1, b.ordinal, b.offset, body_length, NULL)
        if b.offset & 7:
            return fail(fault, FAULT_MISALIGNED, -1, -1, b.ordinal, b.offset, 0, NULL)
        if b.length:
            if b.offset < end:
                return fail(fault, FAULT_SHARED, -1, -1, b.ordinal, b.offset, end, NULL)
            end = b.offset + b.length
    return 0


# -- single messages -----------------------------------------------------------------------------------------


def decode_messages(Message message, schema, list dictionaries, columns, validate, limits, bint use_threads):
    """Decode a RecordBatch message after some DictionaryBatch messages; see `arrowipc.read_record_batch`."""
    cdef Decoder decoder = new_decoder(columns, validate, limits, use_threads, True)
    cdef Message item
    decoder.open(python_plan(schema, &decoder.limits))
    for item in dictionaries:
        if item.envelope.kind != MessageHeader_DictionaryBatch:
            raise UsageError(f"dictionaries: expected DictionaryBatch messages, found a {item.kind}")
        item.join()
        decoder.dictionary(&item.envelope, item.body_bytes, item.body_owner, True)
    if message.envelope.kind != MessageHeader_RecordBatch:
        raise UsageError(f"expected a RecordBatch message, found a {message.kind}")
    message.join()
    return decoder.batch(&message.envelope, message.body_bytes, message.body_owner)


def schema_of(Message message, limits):
    """The `arrowipc.Schema` of a Schema message."""
    cdef Decoder decoder = new_decoder(None, "full", limits, False, True)
    if message.envelope.kind != MessageHeader_Schema:
        raise UsageError(f"expected a Schema message, found a {message.kind}")
    return plan_schema(read_plan(message.metadata_bytes, message.metadata_size, message.envelope.header.pos,
                                 &decoder.limits, message.metadata_owner))
