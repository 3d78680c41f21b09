# The loop that turns a column of payloads into one batch, and what one call of it holds.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport Columns, Memory, Plan
from arrowipc.columns.array cimport Array, RecordBatch
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData, Envelope, LimitsData
from arrowipc.payloads.cells cimport Cell, Cells
from arrowipc.payloads.dictionaries cimport LoopDictionaries, OutputDictionaries
from arrowipc.payloads.schema_mapping cimport Made, SchemaMapping
from arrowipc.read.framing cimport CutMessage
from arrowipc.read.decompress cimport Inflater, Scratch
from arrowipc.read.stream_decoder cimport StreamDecoder

# An array of int64 without nulls over memory of our own.
cdef Array int64_array(Memory memory, int64_t count)
# The batch with one more column of that name; cell start + i has counts[i] of its rows.
cdef RecordBatch with_index(RecordBatch batch, str name, const int64_t* counts, int64_t start, int64_t n)


cdef enum Stopped:
    # Why the loop stops, beside what `Decoded` says; DECODED: the payload, or all cells, are done.
    STOPPED_SCHEMA = 16     # the payload is not of the schema at hand
    STOPPED_FULL            # the output would exceed what the caller asked for
    STOPPED_BROKEN          # the column itself is broken


@cython.final
cdef class DecodedPayloads:
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


@cython.final
cdef class PayloadDecoder:
    """One call of `decode_payloads`."""
    # What was asked for
    cdef LimitsData limits
    cdef object limits_object
    cdef object validate
    cdef int level
    cdef object columns
    cdef object on_error
    cdef bint decode                # dictionaries become plain values
    cdef bint use_threads
    cdef object index_name          # of the parent index, None: not wanted
    cdef int64_t max_rows           # INT64_MAX: any
    cdef int64_t max_bytes
    cdef bint strict                # nobody said which columns are wanted: a new one is an error
    cdef Plan given                 # the schema that was given, of bare messages; None
    # The output
    cdef Plan out                   # None: no payload yet that tells
    cdef ColumnsBuilder builder
    cdef OutputDictionaries dictionaries
    cdef SchemaMapping blank                  # for rows of nulls; None: none was needed yet
    cdef list mappings                        # the last ones in use
    cdef SchemaMapping mapping                # of the payload before
    cdef int64_t pending                      # rows of nulls that came before any schema
    # Progress
    cdef int64_t start
    cdef int64_t at                 # the cell at hand
    cdef int64_t payloads           # that were appended
    cdef int64_t rows               # of the output, with those that are pending
    cdef Made made
    cdef int64_t held               # bytes of the output's dictionaries
    cdef int64_t wanted             # of DECODE_ROOM and DECODE_CODEC
    cdef Inflater inflater
    cdef Scratch inflated           # the body at hand, where it was compressed
    cdef int64_t expected           # cells, as far as is known
    cdef Memory counts              # int64 per cell
    cdef int64_t num_null
    cdef int64_t num_failed
    cdef int64_t num_alone
    cdef list failures
    cdef object full                # the error that says that the output takes no more

    # The loop
    cdef int run(self, Cells cells, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop, int64_t stop,
                 Fault* fault) noexcept nogil
    cdef int take_payload(self, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop,
                          const Cell* cell) noexcept nogil
    cdef int take_framed(self, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop,
                         const Cell* cell) noexcept nogil
    cdef int take_dictionary(self, LoopDictionaries loop, const CutMessage* cut, const Envelope* message,
                             int64_t size) noexcept nogil
    cdef int take_batch(self, ColumnsBuilder g, SchemaMapping mapping, LoopDictionaries loop,
                        const Envelope* message, const uint8_t* body, int64_t size) noexcept nogil
    cdef void undo(self) noexcept nogil
    cdef int finish(self, ColumnsBuilder g, int64_t size) noexcept nogil
    # One payload
    cdef bint resume(self, Cells cells, int why) except -1
    cdef bint decode_alone(self, Cells cells) except -1
    cdef int decode_cell(self, Cells cells, const Cell* cell) except -1
    cdef int decode_file(self, const Cell* cell, object owner) except -1
    cdef bint refused(self, object error) except -1
    cdef int too_much(self) except -1
    cdef int append_null(self) except -1
    cdef int add(self, Columns columns, SchemaMapping mapping, int64_t size) except -1
    cdef int append(self, const ColumnsData* d) except -1
    # Schemas
    cdef SchemaMapping mapping_for(self, Plan whole)
    cdef LoopDictionaries loop_for(self, SchemaMapping mapping)
    cdef bint find_other(self, const Cell* cell) except -1
    cdef int set_output(self, Plan plan) except -1
    cdef int forget(self) except -1
    # The whole
    cdef int count_room(self, int64_t cells) except -1
    cdef int decode_all(self, object cells) except -1
    cdef DecodedPayloads result(self)


@cython.final
cdef class PayloadReader(StreamDecoder):
    """The messages of one payload, whatever they are."""
    cdef PayloadDecoder target
    cdef SchemaMapping mapping
    cdef int64_t size               # bytes of the payload

    cdef int enter(self, Plan whole) except -1
    cdef int read_all(self) except -1
    cdef int read_messages(self, tuple messages) except -1
    cdef int take_one(self) except -1
