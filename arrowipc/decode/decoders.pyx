"""From messages to batches: the steps from a RecordBatch table to columns, and the decoder of one schema; sans I/O.

The steps are the same for everybody: count what the table lists, make room, walk, decompress, check sizes, validate.
Memory and threads are not, so there are two functions that take them:

* `decode_columns`, for readers. Columns are kept: their tables are as large as this batch needs, a body is decompressed
  to memory of its own, a large one by several threads, and values lie at addresses where other libraries can use
  them. Whatever is unusual or broken is dealt with here.
* `decode_batch_into`, for payloads. Thousands of batches of some hundred bytes are read once each: they share tables
  and memory, and no step needs the GIL. What is unusual or broken is left to the other one.

A reader (of a stream, a file, single messages) hands what its framing found to a `Decoder`, which has the dictionaries.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from arrowipc._core cimport (
    WALK_BROKEN, WALK_STORED, WALK_UNALIGNED, Columns, DictionaryPlan, Plan, check_counts, check_sizes, count_variadic,
    level_of, limits_data, open_batch, raise_fault, read_pairs, walk_measured, walk_stored,
)
from arrowipc.columns.builder cimport ColumnsBuilder, DeltaOrigin, begin_deltas
from arrowipc.columns.elements cimport extent_bytes
from arrowipc.columns.equal cimport adopted
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.fault cimport (
    FAULT_FLATBUFFER, FAULT_INDEX, FAULT_MISSING, FAULT_NO_DICTIONARY, Fault, fail, fail_in,
)
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport too_many_values
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LEVEL_NONE, LEVEL_STRICT, BatchHeader, ColumnsData, Envelope, Extent, LimitsData,
)
from arrowipc.inline.threads cimport count_up, in_order
from arrowipc.maps.file_maps cimport keeper_of
from arrowipc.metadata.checksums cimport Checksum, find_checksum
from arrowipc.metadata.schema_reader cimport message_plan, plan_schema, project, read_plan, unshared
from arrowipc.decode.decompress cimport DECODED, DECODE_BY_DECODER, DECODE_ROOM, Inflater, Scratch, align, normalise
from arrowipc.decode.framing cimport Message
from arrowipc.decode.validate cimport check_columns, check_extents, index_range, place_of, validate

from arrowipc.arguments import check_flag, without_descriptions
from arrowipc.errors import FormatError, LimitError, UnsupportedError, UsageError


# Arrow 0.17 announced compression in Message.custom_metadata, before RecordBatch.compression existed.
cdef bytes EXPERIMENTAL_KEY = b"ARROW:experimental_compression"
cdef dict EXPERIMENTAL_CODECS = {b"lz4": CompressionType_LZ4_FRAME, b"zstd": CompressionType_ZSTD}


cdef int experimental_codec(const Envelope* message, int codec) except -2:
    for key, value in read_pairs(&message.root, Message_custom_metadata):
        if key == EXPERIMENTAL_KEY:
            found = EXPERIMENTAL_CODECS.get(value.lower())
            if found is None:
                raise UnsupportedError(f"unknown {EXPERIMENTAL_KEY.decode()} {value!r}: expected lz4 or zstd")
            return found
    return codec


cdef inline int find_buffers(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                             int version, const int64_t* prefix, int level, const LimitsData* limits,
                             Fault* fault) noexcept nogil:
    """Walk, and at "strict" check where all Buffers of the message lie; return Walked."""
    cdef int found = walk_measured(d, header, body, body_length, limits)
    if found == WALK_STORED:
        found = walk_stored(d, header, body, body_length, version, prefix, limits, fault)
    if level >= LEVEL_STRICT and found != WALK_BROKEN and check_extents(header, body_length, fault) < 0:
        return WALK_BROKEN
    return found


# -- columns that are kept -----------------------------------------------------------------------------------


cdef int locate(Columns out, Plan plan, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                int version, int level, const LimitsData* limits) except -1:
    cdef Fault fault
    cdef int64_t* prefix = NULL
    cdef int found
    if plan.d.source_views:
        prefix = <int64_t*> malloc((plan.d.source_views + 1) * sizeof(int64_t))
        if prefix == NULL:
            raise MemoryError()
    try:
        found = check_counts(&plan.d, header, version, prefix, limits, &fault)
        if found == 0:
            out.allocate(plan, count_variadic(&plan.d, prefix) if prefix != NULL else 0)
            out.d.length = header.length
            found = find_buffers(&out.d, header, body, body_length, version, prefix, level, limits, &fault)
        if found < 0:
            # Only `check_extents` names a Buffer by its place in the message.
            raise_fault(&fault, plan,
                        place_of(plan, prefix, version, fault.at) if fault.field < 0 <= fault.at else None)
        return found
    finally:
        free(prefix)


cdef inline int open_table(const Table* table, const Envelope* message, BatchHeader* header) except -1:
    cdef Fault fault
    if open_batch(table, header, &fault) < 0:
        raise_fault(&fault)
    if message.version == MetadataVersion_V4 and fb_field(&message.root, Message_custom_metadata, 4) != 0:
        header.codec = experimental_codec(message, header.codec)
    return 0


cdef int locate_batch(Columns out, Plan plan, const Envelope* message, const uint8_t* body,
                      const LimitsData* limits) except -1:
    cdef BatchHeader header
    open_table(&message.header, message, &header)
    return locate(out, plan, &header, body, message.body_length, message.version, LEVEL_NONE, limits)


cdef list stretches(Columns columns, const uint8_t* base):
    cdef const Extent* extent = columns.d.extents
    cdef int32_t i
    return [(extent[i].data - base, extent[i].data - base + extent[i].size)
            for i in range(columns.d.n_extents) if extent[i].size]


cdef int decode_columns(Columns out, Plan plan, const Table* table, const Envelope* message, const uint8_t* body,
                        int level, const LimitsData* limits, bint use_threads) except -1:
    cdef BatchHeader header
    cdef int found
    open_table(table, message, &header)
    found = locate(out, plan, &header, body, message.body_length, message.version, level, limits)
    if found == WALK_STORED:
        normalise(out, header.codec, limits, use_threads)
    elif found == WALK_UNALIGNED:
        align(out, False)
    if level:
        validate(out, level, use_threads)
    return 0


# -- columns that are read once ------------------------------------------------------------------------------


cdef int decode_batch_into(BatchTarget* into, const Table* table, const Envelope* message, const uint8_t* body,
                           int level, const int64_t* lengths, Inflater inflater, Scratch* inflated,
                           const LimitsData* limits, int64_t allowance, int64_t* wanted) noexcept nogil:
    cdef ColumnsData* d = into.d
    cdef int64_t* prefix = into.prefix if d.plan.source_views else NULL
    cdef int64_t variadic = 0
    cdef BatchHeader header
    cdef LimitsData bounded
    cdef Checksum checksum
    cdef Fault fault
    cdef int found, inflating
    # Custom metadata may name a codec, and may be broken.
    if fb_field(&message.root, Message_custom_metadata, 4) != 0:
        find_checksum(&message.root, Message_custom_metadata, &checksum)
        if checksum.text == NULL or not checksum.alone:
            return DECODE_BY_DECODER
    if (d.plan.stored_big or open_batch(table, &header, &fault) < 0
            or check_counts(d.plan, &header, message.version, prefix, limits, &fault) < 0):
        return DECODE_BY_DECODER
    if prefix != NULL:
        variadic = count_variadic(d.plan, prefix)
        if variadic > into.room:
            wanted[0] = variadic
            return DECODE_ROOM
    d.n_extents = <int32_t> (d.plan.n_buffers + variadic)
    d.length = header.length
    into.codec = header.codec
    found = find_buffers(d, &header, body, message.body_length, message.version, prefix, level, limits, &fault)
    if found == WALK_BROKEN:
        return DECODE_BY_DECODER
    if header.codec >= 0:
        bounded = limits[0]
        bounded.decompressed_bytes = allowance
        inflating = inflater.inflate(d, header.codec, &bounded, inflated)
        if inflating != DECODED:
            wanted[0] = header.codec
            return inflating
    if ((found == WALK_STORED and check_sizes(d, &fault) < 0)
            or (level and check_columns(d, lengths, level, &fault) < 0)):
        return DECODE_BY_DECODER
    return DECODED


# -- the decoder of one schema -------------------------------------------------------------------------------


cdef Decoder new_decoder(object columns, object validate, object limits, bint use_threads,
                         bint ensure_native_endian):
    """Make a decoder from a reader's keywords of the same names; `open` gives it a schema."""
    cdef Decoder decoder = Decoder.__new__(Decoder)
    decoder.level = level_of(validate)
    limits_data(limits, &decoder.limits)
    decoder.columns = columns
    decoder.use_threads = use_threads
    decoder.keep_stored = not ensure_native_endian
    return decoder


cdef int set_keep_stored(Plan plan) except -1:
    cdef DictionaryPlan dictionary
    plan.d.keep_stored = True
    for dictionary in plan.dictionaries:
        set_keep_stored(dictionary.values)
    return 0


cdef dict NO_DICTIONARIES = {}


cdef dict dictionaries_of(Plan plan):
    """Return every dictionary that a plan needs, at any depth; the plan, which many streams may share, keeps them."""
    if plan.all_dictionaries is None:
        found = {}
        collect(plan.dictionaries, found)
        in_order()
        with cython.critical_section(plan):
            if plan.all_dictionaries is None:
                plan.all_dictionaries = found
    return plan.all_dictionaries


cdef int collect(list dictionaries, dict out) except -1:
    cdef DictionaryPlan dictionary
    for dictionary in dictionaries:
        if dictionary.id not in out:
            out[dictionary.id] = dictionary
            collect(dictionary.values.dictionaries, out)
    return 0


cdef class Dictionary:
    cdef Dictionary successor(self):
        """Return a copy that a delta can extend while this one stays as it is; the copy takes over the builder."""
        cdef Dictionary out = Dictionary.__new__(Dictionary)
        out.values, out.nbytes, out.resolved_at = self.values, self.nbytes, -1
        out.builder, self.builder = self.builder, None
        out.bounds = None if self.bounds is None else list(self.bounds)
        return out


cdef class Decoder:
    """Decodes the batches and keeps the dictionaries of one schema."""

    cdef int open(self, Plan whole) except -1:
        if self.keep_stored and whole.d.stored_big:
            # Change a copy of the plan: other readers may use this one, too.
            whole = unshared(whole)
            set_keep_stored(whole)
        if self.level >= LEVEL_STRICT:
            # At other levels, unknown features are kept in `schema.features`.
            unknown = [feature for feature in plan_schema(whole).features if not 0 <= feature <= Feature_MAX]
            if unknown:
                raise UnsupportedError(f"Schema.features has the unknown values {unknown}")
        return self.open_as(whole, project(whole, self.columns))

    cdef int open_as(self, Plan whole, Plan plan) except -1:
        """Read the messages of the schema `whole` as `plan`, which is made of some of its fields."""
        self.plan = plan
        if not whole.dictionaries:
            # Most streams have no dictionaries, and nothing is ever added to these.
            self.known = self.needed = self.entries = NO_DICTIONARIES
            self.current = ()
            return 0
        self.entries = {}
        self.known = dictionaries_of(whole)
        self.needed = dictionaries_of(plan)
        return 0

    cdef Decoder part(self, object columns):
        """Return a decoder of some of the columns of this one, with the same options; it has no dictionaries yet."""
        cdef Decoder out = Decoder.__new__(Decoder)
        out.level, out.limits, out.columns = self.level, self.limits, columns
        out.use_threads, out.keep_stored, out.known = self.use_threads, self.keep_stored, self.known
        out.plan = project(self.plan, columns)
        out.entries, out.needed, out.current = {}, dictionaries_of(out.plan), None if self.known else ()
        return out

    # -- batches --

    cdef RecordBatch batch_with(self, const Envelope* message, const uint8_t* body, object body_owner,
                                tuple dictionaries):
        cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
        cdef Checksum checksum
        out.owner, out.dictionaries = keeper_of(body_owner, body, message.body_length), dictionaries
        decode_columns(out, self.plan, &message.header, message, body, self.level, &self.limits, self.use_threads)
        if fb_field(&message.root, Message_custom_metadata, 4):
            find_checksum(&message.root, Message_custom_metadata, &checksum)
            if checksum.text == NULL or not checksum.alone:
                # Descriptions of rows are left out: they would be wrong when the batch is changed, and written again.
                out.metadata_pairs = without_descriptions(read_pairs(&message.root, Message_custom_metadata))
        count_up(&self.num_record_batches, 1)
        return out

    cdef Columns stored(self, Message message, tuple dictionaries=None):
        """Return what a writer must know of a batch to pass its body on: decoded columns, or only located at "none"."""
        cdef Columns out
        if dictionaries is None:
            dictionaries = self.resolved()
        if self.level:
            return self.batch_with(&message.envelope, message.body_bytes, message.body_owner, dictionaries)
        out = Columns.__new__(Columns)
        locate_batch(out, self.plan, &message.envelope, message.body_bytes, &self.limits)
        out.owner = message.body_owner
        out.dictionaries = dictionaries
        count_up(&self.num_record_batches, 1)
        return out

    # -- dictionaries --

    @cython.critical_section
    cdef int dictionary(self, const Envelope* message, const uint8_t* body, object body_owner, bint replaceable,
                        TakenDictionary* taken) except -1:
        """Decode a DictionaryBatch; it may replace a dictionary of the same id only if `replaceable` (in streams)."""
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
        key = id
        plan = self.known.get(key)
        if plan is None:
            raise FormatError(f"dictionary {id} is not used by any field of the schema")
        entry = self.entries.get(key)
        if delta and entry is None:
            raise FormatError(f"a delta for dictionary {id} arrived before the dictionary itself")
        if not delta and entry is not None and not replaceable:
            raise FormatError(f"dictionary {id} is listed twice without being a delta; a file cannot replace "
                              "dictionaries")
        self.num_dictionary_batches += 1
        self.num_dictionary_deltas += delta
        self.num_replaced_dictionaries += entry is not None and not delta
        taken.id, taken.is_delta, taken.length = id, delta != 0, 0
        if self.needed is not self.known and key not in self.needed:
            self.entries[key] = Dictionary.__new__(Dictionary)
            return 0
        piece = Columns.__new__(Columns)
        # `values_of` checks nested indices, when the dictionaries below have arrived, in whatever order.
        piece.owner = body_owner
        decode_columns(piece, plan.values, &data, message, body, self.level, &self.limits, self.use_threads)
        piece.dictionaries = (None,) * len(plan.values.dictionaries) if plan.values.dictionaries else ()
        if not delta:
            self.dictionary_bytes -= entry.nbytes if entry is not None else 0
            entry = Dictionary.__new__(Dictionary)
            entry.resolved_at = -1
            self.entries[key] = entry
        self.grow(entry, piece, id)
        self.generation += 1
        self.current = None
        taken.length = entry.values.d.length
        return 0

    cdef bint needs_dictionary(self, const Envelope* message) except -1:
        """Whether `dictionary` will read the body of this DictionaryBatch; also true of one that it will refuse."""
        cdef int64_t id
        return (fb_i64(&message.header, DictionaryBatch_id, 0, &id) < 0 or id in self.needed
                or id not in self.known)

    @cython.critical_section
    cdef int forget(self) except -1:
        """Drop all dictionaries, as if none had arrived."""
        if self.entries:
            self.entries = {}
        self.current = None if self.known else ()
        self.dictionary_bytes = 0
        self.num_dictionary_batches = self.num_dictionary_deltas = self.num_replaced_dictionaries = 0
        self.generation += 1
        return 0

    cdef int grow(self, Dictionary entry, Columns piece, int64_t id) except -1:
        """Append `piece` to the values so far. Batches keep the earlier values that they have; the memory is shared."""
        cdef int64_t nbytes = extent_bytes(&piece.d), length
        cdef ColumnsBuilder builder
        cdef tuple dictionaries
        length = piece.d.length + (0 if entry.values is None else entry.values.d.length)
        check_dictionary(id, length, entry.nbytes + nbytes, self.dictionary_bytes + nbytes, &self.limits)
        self.dictionary_bytes += nbytes
        entry.nbytes += nbytes
        if self.level and piece.plan.dictionaries:
            self.widen_bounds(entry, piece)
        if entry.values is None:
            entry.values = piece
            return 0
        # If something fails, the values stay as they are, and the next piece begins with a copy of them.
        builder, entry.builder = entry.builder, None
        if builder is None:
            builder = ColumnsBuilder(entry.values.plan)
            builder.append(entry.values)
            builder.dictionaries = adopted(builder.dictionaries, entry.values.dictionaries)
            # A writer that copies the batches sees by this that the dictionary grew by deltas.
            builder.origin = DeltaOrigin()
            begin_deltas(builder, entry.values)
            if entry.resolved is not None:
                begin_deltas(builder, entry.resolved)
        dictionaries = adopted(builder.dictionaries, piece.dictionaries)
        builder.append(piece)
        builder.dictionaries = dictionaries
        entry.values = builder.snapshot()
        entry.builder = builder
        return 0

    cdef int widen_bounds(self, Dictionary entry, Columns piece) except -1:
        """Keep the least and greatest nested indices: they suffice to check against a changed inner dictionary."""
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
        """Return the present values of dictionaries; None for one that has not arrived."""
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
        out.share(entry.values, entry.values.plan)
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


cdef int check_dictionary(int64_t id, int64_t length, int64_t nbytes, int64_t all_bytes,
                          const LimitsData* limits) except -1:
    if all_bytes > limits.dictionary_bytes:
        raise LimitError(f"dictionary {id} takes all dictionaries past Limits.dictionary_bytes = "
                         f"{limits.dictionary_bytes:,}")
    if too_many_values(length, nbytes):
        raise LimitError(f"dictionary {id} claims {length:,} values in {nbytes:,} bytes")
    return 0


# -- single messages -----------------------------------------------------------------------------------------


def decode_messages(Message message, schema, list dictionaries, columns, validate, limits, use_threads):
    """Decode a RecordBatch message after some DictionaryBatch messages; see `arrowipc.read_record_batch`."""
    cdef Decoder decoder = new_decoder(columns, validate, limits, check_flag("use_threads", use_threads), True)
    cdef Message item
    cdef TakenDictionary taken
    decoder.open(message_plan(schema, &decoder.limits))
    for item in dictionaries:
        if item.envelope.kind != MessageHeader_DictionaryBatch:
            raise UsageError(f"dictionaries: expected DictionaryBatch messages, found a {item.kind}")
        item.join()
        decoder.dictionary(&item.envelope, item.body_bytes, item.body_owner, True, &taken)
    if message.envelope.kind != MessageHeader_RecordBatch:
        raise UsageError(f"expected a RecordBatch message, found a {message.kind}")
    message.join()
    return decoder.batch(&message.envelope, message.body_bytes, message.body_owner)


def schema_of(Message message, limits):
    """Return the `arrowipc.Schema` of a Schema message."""
    cdef Decoder decoder = new_decoder(None, "full", limits, False, True)
    if message.envelope.kind != MessageHeader_Schema:
        raise UsageError(f"expected a Schema message, found a {message.kind}")
    return plan_schema(read_plan(message.metadata_bytes, message.metadata_size, message.envelope.header.pos,
                                 &decoder.limits, message.metadata_owner))
