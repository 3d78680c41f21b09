"""Payload columns: every cell a whole Arrow IPC stream, file or message, decoded into one batch in one pass.

A loop without Python takes payload after payload: it compares the schema message with the one before, byte for byte,
then decodes dictionaries (`payloads.dictionaries`) and batches by `decode_batch_into`, and appends the batches to
the output. Anything unusual (other schemas, deltas, nested dictionaries, other byte order, files, and all errors) is
decoded alone, by the decoder that readers have, which raises the right error; then the loop goes on.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from arrowipc._core cimport (
    Columns, Memory, Plan, Source, level_of, open_message, raise_fault, window,
)
from arrowipc.cdata.import_array cimport import_batch, schema_from
from arrowipc.columns.array cimport Array
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.columns.elements cimport extent_bytes
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.columns.take cimport int64s, repeat_rows, spread_counts
from arrowipc.inline.fault cimport FAULT_FULL, Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport loose_i64, prefetch
from arrowipc.inline.plan cimport FIELD_NULLABLE, LEVEL_STRICT, ColumnsData, Envelope, LimitsData
from arrowipc.metadata.schema_reader cimport plan_schema, plans_equal, project, python_plan, read_plan, schemas_equal
from arrowipc.payloads.cells cimport Cell, Cells, array_over, cells_from, raise_cell_fault
from arrowipc.payloads.dictionaries cimport LoopDictionaries, OutputDictionaries, new_loop, new_output
from arrowipc.payloads.schema_mapping cimport (
    FAULT_BLANKS, PayloadBudget, SchemaMapping, absent_mapping, body_allowance, find_mapping, may_make,
    new_payload_budget, plain_schema,
)
from arrowipc.decode.decoders cimport Decoder, Dictionary, TakenDictionary, decode_batch_into
from arrowipc.decode.decompress cimport (
    DECODE_BY_DECODER, DECODE_CODEC, DECODE_ROOM, DECODED, Inflater, Scratch, new_inflater,
)
from arrowipc.metadata.checksums cimport verify_of
from arrowipc.decode.framing cimport FRAME_END, FRAME_MESSAGE, CutMessage, cut_message, stream_agrees
from arrowipc.decode.stream_decoder cimport StreamDecoder

from arrowipc.arguments import check_choice, check_flag, check_integer, check_text, described
from arrowipc.datatypes import Field, Int
from arrowipc.distinct.unifier import NotUnified
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UnsupportedError, UsageError
from arrowipc.decode.file_decoder import TAIL_SIZE, FileDecoder, footer_range
from arrowipc.schemas import Schema
from arrowipc.values.from_python import add_to_each


# -- the number of the cell that each row comes from ---------------------------------------------------------


cdef object INT64 = Int(64, True), NUMBERS = Schema([Field("", INT64)])


cdef RecordBatch with_index(RecordBatch batch, str name, const int64_t* counts, int64_t start, int64_t n):
    """The batch with one more column: the number of the cell that each row comes from."""
    cdef Memory numbers
    if name in plan_schema(batch.plan).names:
        raise UsageError(f"parent_index: the payloads have a column {name!r} themselves; pass another name: "
                         'parent_index="..."')
    numbers = int64s(batch.d.length)
    with nogil:
        spread_counts(<int64_t*> numbers.data, counts, n, start)
    column = array_over(NUMBERS, batch.d.length, numbers, None)
    return add_to_each([batch], batch.plan.d.n_columns, Field(name, INT64, False), column)[0]


# -- constants -----------------------------------------------------------------------------------------------

cdef enum:
    CACHE_LINE = 64
    MOST_AHEAD = 4096          # bytes of the next payload that are fetched ahead
    STEP = 1 << 10             # cells between two checks for signals
    MOST_MAPPINGS = 64         # schemas that are recognised by their bytes
    MOST_FAILURES = 10         # errors that a result keeps; more are only counted
    NULL_BYTES = 64            # bytes that each field of a row of nulls has free; only a fixed width takes more
    WORTH_RELEASING = 1 << 14  # bytes: appending fewer takes less time than releasing the GIL and taking it again

cdef const uint8_t* MAGIC = <const uint8_t*> b"ARROW1"


cdef inline void fetch_ahead(const uint8_t* data, int64_t size) noexcept nogil:
    """Prefetch the next payload, which is in no cache yet, while the one before it is decoded."""
    cdef int64_t i = 0, end = min(size, <int64_t> MOST_AHEAD)
    while i < end:
        prefetch(data + i)
        i += CACHE_LINE


cdef inline bint is_data(int kind) noexcept nogil:
    return kind == MessageHeader_RecordBatch or kind == MessageHeader_DictionaryBatch


# -- the loop ------------------------------------------------------------------------------------------------


cdef enum First:
    FIRST_OTHER = 0        # a message of another schema, or a broken one
    FIRST_SCHEMA           # the Schema message of the mapping's schema
    FIRST_BARE             # a bare message of the mapping's schema

cdef enum Stopped:
    # Why the loop stops, beside what `Decoded` says; DECODED: the payload, or all cells, are done.
    STOPPED_SCHEMA = 16     # the payload is not of the schema at hand
    STOPPED_FULL            # the output would exceed what the caller asked for
    STOPPED_BROKEN          # the column itself is broken


cdef class DecodedPayloads
cdef class PayloadReader(StreamDecoder)


@cython.final
cdef class PayloadDecoder:
    """One call of `decode_payloads`."""

    # The arguments
    cdef LimitsData limits
    cdef dict keywords              # of decoders of single payloads
    cdef bint verifies
    cdef int level
    cdef object columns
    cdef object on_error
    cdef bint decode                # dictionaries become plain values
    cdef object index_name          # of the parent index, None: not wanted
    cdef int64_t max_rows           # INT64_MAX: any
    cdef int64_t max_bytes
    cdef bint strict                # the caller named no columns, so a column that the output lacks is an error
    cdef Plan given                 # the schema of bare messages; None: none was given, or not for them
    # The output
    cdef Plan out                   # None: no schema was given, and no payload has brought one yet
    cdef bint settled               # `out` was given, or is that of a payload that was decoded
    cdef ColumnsBuilder builder
    cdef OutputDictionaries dictionaries
    cdef SchemaMapping blank                  # for rows of nulls; None: none was needed yet
    cdef list mappings                        # the last ones in use
    cdef SchemaMapping mapping                # of the payload before
    cdef int64_t pending                      # rows of nulls that came before any schema
    # Progress
    cdef int64_t start
    cdef int64_t at                 # the cell at hand
    cdef int64_t payloads           # the number of payloads that were appended
    cdef int64_t rows               # rows of the output, with those that are pending
    cdef PayloadBudget budget
    cdef int64_t held               # bytes of the output's dictionaries
    cdef int64_t wanted             # after DECODE_ROOM: the number of data buffers; after DECODE_CODEC: the codec
    cdef Inflater inflater
    cdef Scratch inflated           # the body at hand, if it was compressed
    cdef int64_t expected           # number of cells, as far as it is known
    cdef Memory counts              # int64 per cell
    cdef int64_t num_null
    cdef int64_t num_failed
    cdef int64_t num_alone
    cdef list failures
    cdef object full                # the error that says that the output takes no more

    def __dealloc__(self):
        free(self.inflated.data)

    cdef void undo(self) noexcept nogil:
        """Remove everything that a payload has added to the output."""
        self.builder.restore()
        self.dictionaries.restore()

    cdef int finish(self, ColumnsBuilder g, int64_t size) noexcept nogil:
        """Keep the payload that was appended, and return DECODED; else return why it cannot stay."""
        cdef int64_t done, index = 8 * g.length if self.index_name is not None else 0, held = self.held
        cdef bint has_grown = self.dictionaries.has_grown()
        cdef double ahead
        if g.length > self.limits.rows_per_batch or (index and index > may_make(self.budget, size)):
            return DECODE_BY_DECODER
        if has_grown:
            held = self.dictionaries.nbytes()
        if self.payloads and (g.length > self.max_rows or (
                self.max_bytes < INT64_MAX and g.total_bytes() + held + index > self.max_bytes)):
            return STOPPED_FULL
        if has_grown:
            self.dictionaries.save()
            self.held = held
        (<loose_i64*> self.counts.data)[self.at - self.start] = g.length - g.undo.length
        g.save()
        self.at += 1
        self.payloads += 1
        self.settled = True
        self.budget.taken += size
        self.rows = g.length
        done = self.at - self.start
        if done & (done - 1) == 0:
            # The other cells are likely to be similar: blocks that have to grow are made large enough for them.
            ahead = <double> (self.expected - self.start) / <double> done
            if self.max_rows < INT64_MAX and g.length:
                ahead = min(ahead, <double> self.max_rows / <double> g.length)
            g.ahead = ahead
        return DECODED

    cdef int run(self, Cells cells, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop, int64_t stop,
                 Fault* fault) noexcept nogil:
        """Decode the cells up to `stop`; stop before the first one that the loop cannot decode."""
        cdef Cell cell, following
        cdef int64_t made
        cdef int found
        while self.at < stop:
            if cells.get(self.at, &cell, fault) < 0:
                return STOPPED_BROKEN
            if self.at + 1 < stop and cells.get(self.at + 1, &following, fault) == 0:
                fetch_ahead(following.data, following.size)
            if cell.data == NULL:
                (<loose_i64*> self.counts.data)[self.at - self.start] = 0
                self.num_null += 1
                self.at += 1
                continue
            if mapping is None:
                return DECODE_BY_DECODER
            made = self.budget.bytes
            found = self.take_payload(g, mapping, loop, &cell)
            if found == DECODED:
                found = self.finish(g, cell.size)
            if found != DECODED:
                self.undo()
                self.budget.bytes = made
                return found
        return DECODED

    cdef int take_payload(self, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop,
                          const Cell* cell) noexcept nogil:
        cdef CutMessage cut
        cdef Envelope message
        cdef Fault fault
        cdef const uint8_t* data = cell.data
        cdef int64_t left = cell.size, body
        cdef int found
        if loop is not None:
            loop.begin()
        # Anything unusual is decoded again by PayloadReader, which raises the right error.
        if ((self.verifies and not stream_agrees(cell.data, cell.size, &self.limits))
                or cut_message(data, left, &self.limits, &cut) != FRAME_MESSAGE):
            return DECODE_BY_DECODER
        found = self.first_of(mapping, &cut)
        if found == FIRST_SCHEMA:
            data = cut.rest
            left = cut.rest_size
        elif found == FIRST_OTHER or cut.metadata == cell.data + 4:
            return STOPPED_SCHEMA
        while True:
            found = cut_message(data, left, &self.limits, &cut)
            if found != FRAME_MESSAGE:
                return DECODED if found == FRAME_END else DECODE_BY_DECODER
            body = loop.accept_cached(&cut, &self.limits) if loop is not None else -1
            if body < 0:
                if (open_message(cut.metadata, cut.metadata_size, &message, &fault) < 0
                        or not is_data(message.kind) or message.body_length > cut.rest_size):
                    return DECODE_BY_DECODER
                body = message.body_length
                if message.kind == MessageHeader_RecordBatch:
                    found = self.take_batch(g, mapping, loop, &message, cut.rest, cell.size)
                else:
                    found = self.take_dictionary(loop, &cut, &message, cell.size)
                if found != DECODED:
                    return found
            data = cut.rest + body
            left = cut.rest_size - body

    cdef int first_of(self, SchemaMapping mapping, const CutMessage* cut) noexcept nogil:
        """Return whether the first message of a payload belongs to the schema of a mapping: a First."""
        cdef Envelope message
        cdef Fault fault
        if (mapping.messaged and cut.metadata_size == mapping.whole.metadata_size
                and memcmp(cut.metadata, mapping.whole.metadata, cut.metadata_size) == 0):
            # It equals the message that the schema was read from, which had no body.
            return FIRST_SCHEMA
        if open_message(cut.metadata, cut.metadata_size, &message, &fault) == 0:
            if is_data(message.kind):
                return FIRST_BARE if mapping.whole is self.given else FIRST_OTHER
            # Strict readers also check the features of a schema.
            if (message.kind == MessageHeader_Schema and message.body_length == 0 and self.level < LEVEL_STRICT
                    and schemas_equal(&message.header, mapping.whole)):
                return FIRST_SCHEMA
        return FIRST_OTHER

    cdef int take_dictionary(self, LoopDictionaries loop, const CutMessage* cut, const Envelope* message,
                             int64_t size) noexcept nogil:
        """Decode a DictionaryBatch message of a payload of `size` bytes."""
        cdef int found
        if loop is None:
            return DECODE_BY_DECODER
        found = loop.arrive(cut, message, &self.limits, body_allowance(self.budget, size), self.inflater)
        self.budget.bytes += loop.inflated
        self.wanted = loop.wanted
        return found

    cdef int take_batch(self, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop,
                        const Envelope* message, const uint8_t* body, int64_t size) noexcept nogil:
        """Decode a RecordBatch message of a payload of `size` bytes, map it to the output, and append it."""
        cdef const ColumnsData* d = mapping.target.d
        cdef Fault fault
        cdef int found
        if mapping.n_encoded and loop is None:
            return DECODE_BY_DECODER
        found = decode_batch_into(&mapping.target, &message.header, message, body, self.level,
                                  loop.lengths if loop is not None else NULL, self.inflater, &self.inflated,
                                  &self.limits, body_allowance(self.budget, size), &self.wanted)
        if found != DECODED:
            return found
        if mapping.target.codec >= 0 or d.n_extents > self.limits.decompressed_ratio:
            # Batches with fewer buffers are not counted: even if the buffers share all bytes, they stay in the ratio.
            self.budget.bytes += max(extent_bytes(d) - size, 0)
            if may_make(self.budget, size) == 0:
                return DECODE_BY_DECODER
        if mapping.n_guarded and mapping.check_nulls(d, &fault) < 0:
            return DECODE_BY_DECODER
        if not mapping.direct:
            if mapping.map_fields(d, may_make(self.budget, size), &fault) < 0:
                return DECODE_BY_DECODER
            self.budget.bytes += mapping.blanks.used
            if mapping.n_encoded:
                found = loop.fill(mapping, d, may_make(self.budget, size))
                self.wanted = loop.wanted
                if found != DECODED:
                    return found
                self.budget.bytes += loop.made
            d = &mapping.piece.d
        return DECODED if g.append_data(d, NULL, &fault) == 0 else DECODE_BY_DECODER

    # -- around the loop --

    cdef int decode_all(self, object cells) except -1:
        """Decode the cells of all chunks."""
        cdef Cells some
        cdef LoopDictionaries loop
        cdef Fault fault
        cdef int64_t end, stop
        cdef int why
        for item in cells:
            some = item
            end = some.first + some.count
            self.expected = end
            self.count_room(end - self.start)
            while self.at < end:
                stop = min(end, self.at + STEP)
                loop = self.loop_for(self.mapping)
                with nogil:
                    why = self.run(some, self.builder, self.mapping, loop, stop, &fault)
                if why == STOPPED_BROKEN:
                    raise_cell_fault(&fault, some)
                if why != DECODED and not self.resume(some, why):
                    return 0
                PyErr_CheckSignals()
        return 0

    cdef LoopDictionaries loop_for(self, SchemaMapping mapping):
        """Return the loop's part for the dictionaries of a mapping; None: there are none, or it cannot decode them."""
        if mapping is None or not (mapping.n_encoded or mapping.whole.dictionaries):
            return None
        if mapping.loop is None:
            mapping.loop = new_loop(mapping, self.dictionaries, self.level) or False
        return mapping.loop or None

    cdef int count_room(self, int64_t cells) except -1:
        """Make room for the row counts of `cells` cells."""
        self.counts.size = 8 * (self.at - self.start)
        if 8 * cells > self.counts.capacity:
            self.counts.reserve(max(8 * cells, 2 * self.counts.capacity))
        self.counts.size = 8 * cells
        return 0

    cdef bint resume(self, Cells cells, int why) except -1:
        """Do what the loop has stopped for; return False if the output is as large as it may be."""
        cdef Cell cell
        cdef Fault fault
        if why == STOPPED_FULL:
            return False
        if why == DECODE_ROOM:
            self.mapping.reserve(self.wanted)
            return True
        if why == DECODE_CODEC:
            self.inflater.prepare(self.wanted)
            return True
        if why == STOPPED_SCHEMA or self.mapping is None:
            cells.get(self.at, &cell, &fault)
            if self.change_mapping(&cell, cells.owner(self.at)):
                return True
        return self.decode_alone(cells)

    cdef bint change_mapping(self, const Cell* cell, object owner) except -1:
        """Switch to the mapping of the schema that a payload begins with; return whether it is another one."""
        cdef SchemaMapping mapping, before = self.mapping
        cdef CutMessage cut
        cdef Envelope message
        cdef Fault fault
        cdef Plan plan = self.given
        if cut_message(cell.data, cell.size, &self.limits, &cut) != FRAME_MESSAGE:
            return False
        for mapping in self.mappings:
            if self.first_of(mapping, &cut) != FIRST_OTHER:
                self.mapping = mapping
                if mapping is not before:
                    return True
                break
        if (self.level >= LEVEL_STRICT or open_message(cut.metadata, cut.metadata_size, &message, &fault) < 0
                or (message.body_length if message.kind == MessageHeader_Schema
                    else plan is None or not is_data(message.kind))):
            return False
        try:
            if message.kind == MessageHeader_Schema:
                plan = read_plan(cut.metadata, cut.metadata_size, message.header.pos, &self.limits, owner)
            self.mapping_for(plan)
        except ArrowIpcError:
            return False        # `decode_alone` raises the error
        self.mapping.messaged = self.mapping.messaged or self.mapping.whole is plan
        return self.mapping is not before

    cdef bint decode_alone(self, Cells cells) except -1:
        """Decode the cell at hand outside the loop; return False if the output is as large as it may be."""
        cdef Cell cell
        cdef Fault fault
        cdef int64_t made = self.budget.bytes
        cdef int found
        if cells.get(self.at, &cell, &fault) < 0:
            raise_cell_fault(&fault, cells)
        self.full = None
        self.num_alone += 1
        self.budget.nested.earn(cell.size)
        try:
            self.decode_cell(cells, &cell)
            if self.out is None:
                # The payload has no schema and no rows, and no schema was given or found before.
                raise FormatError("no schema")
            found = self.finish(self.builder, cell.size)
            if found == DECODED:
                return True
            if found == DECODE_BY_DECODER:
                self.too_much()
        except BaseException as error:
            # The bytes that were made of it stay counted; its own bytes are counted below, where it is refused.
            if self.settled:
                self.undo()
            else:
                self.forget()
            if not isinstance(error, ArrowIpcError):
                raise
            self.budget.taken += cell.size
            return self.refused(error)
        self.budget.bytes = made
        self.undo()
        return False

    cdef int too_much(self) except -1:
        """Raise why `finish` did not let the payload at hand stay."""
        if self.builder.length > self.limits.rows_per_batch:
            self.full = LimitError("the output would have more rows than Limits.rows_per_batch = "
                                   f"{self.limits.rows_per_batch:,}: pass max_rows=, and continue at `next`")
            raise self.full
        raise LimitError("with their parent indices, its rows are more bytes than it may become "
                         "(Limits.decompressed_ratio and payload_slack)")

    cdef bint refused(self, object error) except -1:
        """Raise, skip or replace a payload that cannot be decoded; return False if the output is full."""
        is_full = self.full is not None or isinstance(error, NotUnified)
        text = str(error)
        error.args = (f"cell {self.at}: {text}",)
        if is_full and self.payloads:
            if self.max_rows < INT64_MAX or self.max_bytes < INT64_MAX:
                return False
            # It must not be skipped: the payload is not broken, and its data would be lost.
            raise error
        if self.on_error == "raise":
            raise error
        self.num_failed += 1
        if len(self.failures) < MOST_FAILURES:
            error.__traceback__ = None
            self.failures.append((self.at, error))
        if self.on_error == "null":
            if self.payloads and self.rows + 1 > self.max_rows:
                self.num_failed -= 1
                if self.failures and self.failures[len(self.failures) - 1][0] == self.at:
                    self.failures.pop()
                return False
            self.append_null()
        (<loose_i64*> self.counts.data)[self.at - self.start] = self.on_error == "null"
        self.at += 1
        return True

    cdef int append_null(self) except -1:
        """Append a row of nulls; before there is a schema, only count it in `pending`."""
        cdef Fault fault
        cdef int64_t usual, left
        self.rows += 1
        self.payloads += 1
        if self.out is None:
            self.pending += 1
            return 0
        if self.blank is None:
            self.blank = absent_mapping(self.out)
            self.blank.decoded.d.length = 1
        usual = NULL_BYTES * self.out.d.n_fields
        left = min(may_make(self.budget, 0), INT64_MAX - usual)
        if self.blank.map_fields(&self.blank.decoded.d, left + usual, &fault) < 0:
            if fault.code == FAULT_BLANKS:
                raise LimitError("a row of nulls in the place of a broken cell would be more bytes than payloads may "
                                 "become (Limits.decompressed_ratio and payload_slack)")
            raise_fault(&fault, self.out)
        self.budget.bytes += max(extent_bytes(&self.blank.piece.d) - usual, 0)
        if self.builder.append_data(&self.blank.piece.d, NULL, &fault) < 0:
            raise_fault(&fault, self.out)
        self.builder.save()
        return 0

    # -- one payload --

    cdef int decode_cell(self, Cells cells, const Cell* cell) except -1:
        cdef PayloadReader reader
        owner = cells.owner(self.at)
        if cell.size >= 6 and memcmp(cell.data, MAGIC, 6) == 0:
            return self.decode_file(cell, owner)
        reader = PayloadReader(**self.keywords)
        reader.target = self
        reader.size = cell.size
        reader.feed(window(cell.data, cell.size, owner), True)
        return reader.read_all()

    cdef int decode_file(self, const Cell* cell, object owner) except -1:
        """Decode a payload that is a whole file."""
        cdef object data = window(cell.data, cell.size, owner)
        cdef Source source = Source(data)
        cdef Decoder decoder
        cdef SchemaMapping mapping
        cdef int64_t before, i
        start, length = footer_range(bytes(data[:8]), bytes(data[max(cell.size - TAIL_SIZE, 0):]), cell.size)
        file = FileDecoder(data[start:start + length], start, **self.keywords)
        for at, stop in file.to_check:
            file.check(at, data[at:stop])
        decoder = file.decoder
        mapping = self.mapping_for(decoder.plan)
        decoder.open_as(decoder.plan, mapping.plan)
        for i in range(file.num_dictionaries):
            self.budget.bound(&decoder.limits, cell.size)
            before = decoder.dictionary_bytes
            file.load_dictionary(i, source, file.block(i, dictionary=True)[0])
            self.budget.count(decoder.dictionary_bytes - before - cell.size, cell.size)
        for i in range(file.num_record_batches):
            self.budget.bound(&decoder.limits, cell.size)
            self.add(file.batch(i, source, file.block(i)[0]), mapping, cell.size)
        return 0

    cdef int add(self, Columns columns, SchemaMapping mapping, int64_t size) except -1:
        """Append the rows of a batch of the payload at hand, which has `size` bytes."""
        cdef Fault fault
        cdef int64_t left
        PyErr_CheckSignals()    # a cell may hold any number of batches
        self.budget.count(extent_bytes(&columns.d) - size, size)
        if mapping.n_guarded and mapping.check_nulls(&columns.d, &fault) < 0:
            raise_fault(&fault, columns.plan)
        if mapping.direct:
            return self.append(&columns.d)
        left = self.dictionaries.left = may_make(self.budget, size)
        try:
            kept = self.dictionaries.make_piece(mapping, columns)
        finally:
            self.budget.bytes += left - self.dictionaries.left
        return self.append(&mapping.piece.d)

    cdef int append(self, const ColumnsData* d) except -1:
        cdef Fault fault
        cdef int found
        if d.length + extent_bytes(d) < WORTH_RELEASING:
            found = self.builder.append_data(d, NULL, &fault)
        else:
            with nogil:
                found = self.builder.append_data(d, NULL, &fault)
        if found == 0:
            return 0
        try:
            raise_fault(&fault, self.out)
        except UnsupportedError as error:
            if fault.code == FAULT_FULL:
                error.args = (f"{error}: pass max_rows= or max_bytes=, and continue at `next`",)
                self.full = error
            raise

    # -- schemas --

    cdef SchemaMapping mapping_for(self, Plan whole):
        """Return the mapping of a schema to the output; if the output has no schema yet, it gets this one."""
        cdef SchemaMapping mapping
        for mapping in self.mappings:
            if plans_equal(whole, mapping.whole):
                self.mapping = mapping
                return mapping
        if self.out is None:
            self.set_output(whole)
        mapping = find_mapping(whole, self.out, self.strict)
        if len(self.mappings) == MOST_MAPPINGS:
            self.mappings.pop(0)
        self.mappings.append(mapping)
        self.mapping = mapping
        return mapping

    cdef int set_output(self, Plan plan) except -1:
        """Set the output's schema: that of `plan`, or of the columns of it that are wanted."""
        cdef Plan out = project(plan, self.columns)
        cdef int32_t i
        cdef bint nullable = True
        if self.decode and out.dictionaries:
            out = python_plan(plain_schema(plan_schema(out)), &self.limits)
        for i in range(out.d.n_columns):
            nullable = nullable and (out.d.fields[out.d.columns[i]].flags & FIELD_NULLABLE) != 0
        if self.on_error == "null" and not nullable:
            out = python_plan(nullable_schema(plan_schema(out)), &self.limits)
        self.builder = ColumnsBuilder(out)
        if self.max_rows == INT64_MAX:
            # Expect all cells to be like the first one; with `max_rows` it is not known yet how many of them fit.
            self.builder.ahead = self.expected - self.at
        self.dictionaries = new_output(out, self.budget.nested)
        self.out = out
        self.blank = None
        for i in range(self.pending):
            self.rows -= 1
            self.payloads -= 1
            self.append_null()
        self.pending = 0
        return 0

    cdef int forget(self) except -1:
        """Remove the output's schema, because the payload that it is from has failed."""
        if self.out is not None:
            self.pending = self.rows
            self.out = self.builder = self.dictionaries = self.mapping = self.blank = None
            self.mappings = []
        return 0

    # -- the result --

    cdef DecodedPayloads result(self):
        cdef DecodedPayloads out = DecodedPayloads.__new__(DecodedPayloads)
        cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
        if self.out is None:
            batch.d.length = self.pending
        else:
            self.builder.dictionaries = self.dictionaries.snapshot()
            self.builder.snapshot_into(batch)
        self.counts.size = 8 * (self.at - self.start)
        out.counts = array_over(NUMBERS, self.at - self.start, self.counts, None)
        out.indexed = self.index_name is not None
        if out.indexed:
            batch = with_index(batch, self.index_name, <const int64_t*> self.counts.data, self.start,
                               self.at - self.start)
        out.batch = batch
        out.start = self.start
        out.next = self.at
        out.num_null = self.num_null
        out.num_alone = self.num_alone
        out.num_failed = self.num_failed
        out.failures = tuple(self.failures)
        return out


@cython.final
cdef class PayloadReader(StreamDecoder):
    """Reads the messages of one payload, of any kind, into the output of a PayloadDecoder."""

    cdef PayloadDecoder target
    cdef SchemaMapping mapping
    cdef int64_t size               # bytes of the payload

    cdef int open_schema(self, Plan whole) except -1:
        """Open a schema; only the columns that the output needs are read."""
        # First refuse what every reader refuses, then what does not fit the output.
        self.decoder.open(whole)
        self.mapping = self.target.mapping_for(whole)
        self.mapping.messaged = self.mapping.messaged or self.mapping.whole is whole
        self.decoder.open_as(whole, self.mapping.plan)
        self.opened = True
        return 0

    cdef int take_one(self) except -1:
        """Decode the message at hand."""
        cdef Dictionary entry
        cdef TakenDictionary taken
        cdef int64_t before, size
        cdef int kind = self.envelope.kind
        if not self.opened and self.target.given is not None and is_data(kind):
            self.open_schema(self.target.given)
        self.check_order(kind)
        if kind == MessageHeader_Schema:
            return self.begin()
        self.target.budget.bound(&self.decoder.limits, self.size)
        if kind == MessageHeader_RecordBatch:
            return self.target.add(self.decoder.batch(&self.envelope, self.body, self.body_owner), self.mapping,
                                   self.size)
        before = self.decoder.dictionary_bytes
        self.decoder.dictionary(&self.envelope, self.body, self.body_owner, True, &taken)
        entry = self.decoder.entries[taken.id]
        size = self.decoder.dictionary_bytes - before if taken.is_delta else entry.nbytes
        self.target.budget.count(size - self.envelope.body_length, self.size)
        return 0

    cdef int read_all(self) except -1:
        cdef int found
        try:
            found = self.advance()
            while found == FRAME_MESSAGE:
                self.take_one()
                found = self.advance()
            if self.target.given is None:
                self.check_end(found)
        except BaseException as error:
            self.poison(error)
            raise
        return 0


# -- the output ----------------------------------------------------------------------------------------------


cdef object nullable_schema(object schema):
    """Return the schema with all columns nullable."""
    return Schema([Field(field.name, field.type, True, field.metadata) for field in schema.fields], schema.metadata,
                  schema.endianness, schema.features)


@cython.final
cdef class DecodedPayloads:
    """The result of :func:`decode_payloads` for some cells.

    Attributes
    ----------
    batch : RecordBatch
        The rows of all payloads, in order.
    counts : Array
        int64: how many rows each cell has become; cell `start` is the first.
    start, next : int
        The first cell, and the one to go on with, which is the number of cells if all of them were read.
    num_null, num_failed : int
        Null cells, and payloads that could not be decoded (unless that raised).
    num_alone : int
        Payloads that were read one by one, because the loop that takes the others cannot: files, deltas and nested
        dictionaries, broken ones. Each takes some microseconds.
    failures : tuple of (int, ArrowIpcError)
        Cell and reason of the first ten of these.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int8
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]}, ipc.Schema([field("x", int8())]))
    >>> payload = batch.schema.serialize() + batch.serialize()
    >>> decoded = ipc.decode_payloads([payload, None, b"?", payload], on_error="skip", parent_index=True)
    >>> decoded
    <DecodedPayloads: 4 rows of cells 0..4, 1 null, 1 failed>
    >>> decoded.batch.to_pydict(), decoded.counts.to_pylist()
    ({'x': [1, 2, 1, 2], 'parent_index': [0, 0, 3, 3]}, [2, 0, 0, 2])
    """

    cdef object __weakref__
    cdef readonly RecordBatch batch
    cdef readonly Array counts
    cdef readonly int64_t start
    cdef readonly int64_t next
    cdef readonly int64_t num_null
    cdef readonly int64_t num_failed
    cdef readonly int64_t num_alone
    cdef readonly tuple failures
    cdef bint indexed           # the batch's last column is the parent index

    def __init__(self):
        raise UsageError("decoded payloads are made by decode_payloads()")

    @property
    def schema(self):
        """Schema of the columns that come from payloads: with it, calls that go on make equal batches."""
        if self.batch is None:
            raise UsageError("decode_payloads makes these objects")
        schema = self.batch.schema
        if not self.indexed:
            return schema
        return Schema(schema.fields[:len(schema.fields) - 1], schema.metadata, schema.endianness)

    @property
    def parent_index(self):
        """Array or None: the last column of the batch, where `parent_index` was asked for."""
        return self.batch.column(-1) if self.indexed else None

    def __repr__(self):
        if self.batch is None:
            return "<DecodedPayloads: none>"
        parts = [f"{self.batch.num_rows} rows of cells {self.start}..{self.next}"]
        if self.num_null:
            parts.append(f"{self.num_null} null")
        if self.num_failed:
            parts.append(f"{self.num_failed} failed")
        return f"<DecodedPayloads: {', '.join(parts)}>"


def decode_payloads(column, schema=None, *, columns=None, parent_index=False, on_error="raise", validate="full",
                    limits=None, max_rows=None, max_bytes=None, dictionaries="unify", start=0, bare=True,
                    use_threads=True, verify=False):
    """Decode a column whose cells are Arrow IPC payloads into one batch.

    Parameters
    ----------
    column : object
        The cells: anything with ``__arrow_c_array__`` or ``__arrow_c_stream__`` that is a binary column (also
        large, view or fixed-size), a NumPy array of objects, or a list of bytes-like objects. Each cell is a stream,
        a file, or, with `schema`, RecordBatch messages one after the other. Null cells and None have no rows.
    schema : Schema, or what arrowipc.schema takes, optional
        Of the output, and of payloads that bring no schema of their own. Without it, the schema of the first
        payload that can be decoded. With it, an empty cell has no rows; without it, that is an error.
    columns : sequence of str or int, optional
        Names, indices or dotted paths of the columns that are wanted of that schema.
    parent_index : bool or str, default False
        Add a column with the number of the cell that each row comes from (int64), called "parent_index" or as
        given: other columns can be repeated beside the rows, see :func:`repeat`.
    on_error : {"raise", "skip", "null"}
        A payload that cannot be decoded, or whose schema does not fit, ends the call, has no rows, or becomes
        one row of nulls (then all columns of the output are nullable).
    validate : {"full", "none", "strict"}
        What is proven about every payload.
    limits : Limits, optional
        For each payload. The bytes that are made of all cells but are not in them (decompressed bodies, missing
        columns, decoded dictionaries, parent indices) are together at most `decompressed_ratio` times their bytes and
        `payload_slack`; where dictionaries refer to dictionaries, 32 times. A cell that is refused counts too.
    max_rows, max_bytes : int, optional
        Stop before the payload with which the batch would have more rows, or larger buffers; at least one
        payload is taken. :attr:`DecodedPayloads.next` is where to go on, with :attr:`DecodedPayloads.schema`
        as `schema` if the batches must be alike.
    dictionaries : {"unify", "decode"}
        Dictionaries become one, with renumbered indices, or plain values stand in their place.
    start : int, default 0
        The first cell to decode.
    bare : bool, default True
        Whether a `schema` also reads cells that are bare messages. With False it is that of the output alone,
        and such cells are refused as they are without a schema.
    use_threads : bool, default True
        Decompress large bodies with several threads.
    verify : bool or None, default False
        Compare all messages with their checksums, as :func:`open` does: payloads without are refused, with None only
        those whose checksums are wrong.

    Returns
    -------
    DecodedPayloads
        Its batch points into no payload, so the column may be deleted.

    Raises
    ------
    UsageError
        For arguments that are not as described, a payload whose schema does not fit, indices that cannot count
        all values, or ordered dictionaries whose orders contradict each other.
    FormatError, LimitError, UnsupportedError
        As readers raise them, naming the cell; and where the output cannot take all payloads although neither
        `max_rows` nor `max_bytes` was given.

    Notes
    -----
    A payload's schema fits when its columns of the same names have the same types, in any order and down to the
    children of structs. Metadata and nullability may differ; a field that is missing becomes null if it is
    nullable; a field that nobody asked for is an error unless `schema` or `columns` is given. Dictionary
    indices may have any width, and a column without nested values may be dictionary-encoded in some payloads and plain
    in others: the output is what its schema says.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int8
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]}, ipc.Schema([field("x", int8())]))
    >>> payload = batch.schema.serialize() + batch.serialize()
    >>> ipc.decode_payloads([payload, None, payload]).batch.to_pydict()
    {'x': [1, 2, 1, 2]}

    Some rows at a time:

    >>> column = [payload] * 5
    >>> at = 0
    >>> while at < len(column):
    ...     decoded = ipc.decode_payloads(column, start=at, max_rows=4)
    ...     print(decoded.batch.num_rows)
    ...     at = decoded.next
    4
    4
    2
    """
    cdef PayloadDecoder decoder = PayloadDecoder.__new__(PayloadDecoder)
    decoder.level = level_of(validate)
    check_choice("on_error", on_error, ("raise", "skip", "null"))
    check_choice("dictionaries", dictionaries, ("unify", "decode"))
    if not isinstance(parent_index, bool):
        parent_index = check_text("parent_index, if it is no bool,", parent_index)
    decoder.keywords = {"validate": validate, "limits": limits, "use_threads": use_threads, "verify": verify}
    decoder.budget = new_payload_budget(limits)
    decoder.limits = decoder.budget.limits
    decoder.verifies = verify_of(verify) != 0
    decoder.columns = columns
    decoder.on_error = on_error
    decoder.decode = dictionaries == "decode"
    decoder.inflater = new_inflater(use_threads is True or check_flag("use_threads", use_threads))
    decoder.index_name = None if parent_index is False else "parent_index" if parent_index is True else parent_index
    decoder.max_rows = INT64_MAX if max_rows is None else check_integer("max_rows", max_rows, 1, INT64_MAX)
    decoder.max_bytes = INT64_MAX if max_bytes is None else check_integer("max_bytes", max_bytes, 1, INT64_MAX)
    bare = bare is True or check_flag("bare", bare)
    decoder.strict = schema is None and columns is None
    decoder.start = decoder.at = check_integer("start", start, 0, INT64_MAX)
    decoder.mappings = []
    decoder.failures = []
    decoder.counts = Memory(64)
    if isinstance(schema, (dict, list, tuple)):
        from arrowipc.types import as_schema

        schema = as_schema(schema)
    if schema is not None:
        plan = python_plan(schema if isinstance(schema, Schema) or hasattr(schema, "serialize")
                           else schema_from(schema), &decoder.limits)
        decoder.given = plan if bare else None
        decoder.settled = True
        decoder.set_output(plan)
    decoder.decode_all(cells_from(column, start))
    return decoder.result()


# -- rows beside payloads --------------------------------------------------------------------------------------


def repeat(batch, counts):
    """Repeat rows, as ``numpy.repeat`` does, for columns of any type, such as those beside decoded payloads.

    Parameters
    ----------
    batch : RecordBatch
        Or anything with ``__arrow_c_array__`` or ``__arrow_c_stream__`` that holds rows of columns.
    counts : DecodedPayloads or sequence of int
        How often each row comes. What :func:`decode_payloads` returned for a column of `batch` stands for its
        cells: the result has a row for each row of its batch.

    Returns
    -------
    RecordBatch
        Dictionaries and the data of view columns are shared with `batch`.

    Raises
    ------
    UsageError
        If there are not as many counts as rows, or a count is negative.
    UnsupportedError
        If 32-bit offsets cannot count what the rows hold.
    FormatError
        If offsets or run ends are broken, because nothing has checked them yet.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, string
    >>> batch = ipc.RecordBatch.from_pydict({"topic": ["a", "b"]}, ipc.Schema([field("topic", string())]))
    >>> ipc.repeat(batch, [1, 2]).to_pydict()
    {'topic': ['a', 'b', 'b']}
    """
    cdef RecordBatch source = batch if isinstance(batch, RecordBatch) else import_batch(batch)
    cdef int64_t first = 0
    if hasattr(counts, "counts") and hasattr(counts, "next"):
        first = counts.start
        if counts.next > source.d.length:
            raise UsageError(f"repeat: the payloads are cells {first}..{counts.next}, the batch has "
                             f"{source.d.length} rows")
        counts = counts.counts
    elif not hasattr(counts, "__len__") or getattr(counts, "ndim", 1) != 1:
        raise UsageError(f"counts must be a sequence, found {described(counts)}")
    elif len(counts) != source.d.length:
        raise UsageError(f"repeat: expected one count for each of {source.d.length} rows, found {len(counts)}")
    return repeat_rows(source, counts, first, "repeat")
