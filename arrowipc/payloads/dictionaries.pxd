# The dictionaries of payloads: those that arrived, those of the output, and the indices that are transposed to them.
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.distinct.memo_table cimport Budget, MemoTable
from arrowipc.distinct.unifier cimport TransposeMap
from arrowipc.inline.plan cimport ColumnsData, Envelope, LimitsData
from arrowipc.inline.room cimport Room
from arrowipc.payloads.schema_mapping cimport EncodedField, SchemaMapping
from arrowipc.decode.decoders cimport BatchTarget
from arrowipc.decode.decompress cimport Inflater, Scratch
from arrowipc.decode.framing cimport CutMessage


@cython.final
cdef class Plain:
    """The last dictionary of a plan whose values refer to other dictionaries, and the same values decoded."""
    cdef Plan plan
    cdef SchemaMapping mapping
    cdef Columns values
    cdef Columns found


@cython.final
cdef class OutputDictionaries:
    cdef tuple top              # Unifier, per dictionary of the output's plan
    cdef list order             # all Unifiers, those of `top` first
    cdef PyObject** tables      # MemoTable, per `order`
    cdef int32_t n_tables
    cdef dict plain             # id of a plan of values -> Plain
    cdef int64_t left           # bytes that may still be made of the payload at hand
    cdef Budget budget          # ... and of all payloads, where dictionaries refer to dictionaries
    cdef int inside             # dictionaries around the values at hand

    # Fill the fields of `mapping.piece`, also the encoded ones; return the owner of their memory. The bytes made are
    # subtracted from `left`, also after an exception.
    cdef object make_piece(self, SchemaMapping mapping, Columns columns)
    cdef int spend(self, int64_t size, bint nested) except -1
    cdef Columns decoded(self, int32_t f, Columns columns)
    cdef Columns plain_values(self, Columns values)
    cdef int encode(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1
    cdef int transpose(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1
    # Save or restore all tables, see `MemoTable`. Return whether values were added since `save`; the bytes of all
    # values; and the output's dictionaries so far.
    cdef void save(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef bint has_grown(self) noexcept nogil
    cdef int64_t nbytes(self) noexcept nogil
    cdef tuple snapshot(self)


# The dictionaries, empty so far, of an output with the plan `out`.
cdef OutputDictionaries new_output(Plan out, Budget budget)


cdef struct CachedDictionary:
    # A dictionary id of the payloads' schema, and the values that arrived last.
    int64_t id
    bint wanted             # a field that is read refers to it
    bint arrived            # in the payload at hand
    int64_t version         # changes with the values
    int64_t nbytes          # of the values
    BatchTarget values
    Room message            # the message that they came in: its metadata, then its body
    int64_t metadata_size   # -1: there is none
    int64_t body_at
    int64_t body_size
    Scratch inflated        # the body, if it was compressed

cdef struct CachedMap:
    # The numbers of a cached dictionary's values in a table of the output, for a field that is transposed.
    int32_t first           # the first encoded field with the same two dictionaries: its map serves this field, too
    int32_t cached
    int32_t target          # the dictionary of the output
    int64_t version         # of the cached dictionary, -1: not known
    int64_t table_version
    PyObject* map           # TransposeMap


@cython.final
cdef class LoopDictionaries:
    cdef OutputDictionaries output
    cdef list columns               # Columns that `cache` points into
    cdef CachedDictionary* cache    # those of `mapping.plan.dictionaries` first
    cdef int32_t n_cached
    cdef list transpose_maps        # TransposeMap
    cdef CachedMap* maps            # per encoded field of the mapping
    cdef int64_t* lengths           # values per dictionary of `mapping.plan`, -1: not arrived
    cdef int32_t* order             # which dictionary the first, second ... message of a payload is likely to bring
    cdef int32_t arrivals           # dictionary messages of the payload at hand, so far
    cdef int64_t nbytes             # of the dictionaries of the payload at hand
    cdef int64_t versions
    cdef int level                  # how much is validated
    cdef int64_t wanted             # after DECODE_ROOM: the number of data buffers; after DECODE_CODEC: the codec
    cdef int64_t made               # bytes that `fill` has made
    cdef int64_t inflated           # bytes that the last dictionary has beyond its message

    # Begin a new payload.
    cdef void begin(self) noexcept nogil
    # If a message equals the one in the cache, let its dictionary have arrived and return the bytes of its body; else
    # return -1.
    cdef int64_t accept_cached(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil
    # Decode a DictionaryBatch message, whose body is complete and may become `allowance` bytes. Returns a Decoded.
    cdef int arrive(self, const CutMessage* cut, const Envelope* message, const LimitsData* limits, int64_t allowance,
                    Inflater inflater) noexcept nogil
    # Fill the encoded fields of `mapping.piece`, which `map_fields` has left, from those of `d`, which was validated at
    # `level`. Makes at most `most` bytes. Returns a Decoded.
    cdef int fill(self, SchemaMapping mapping, const ColumnsData* d, int64_t most) noexcept nogil
    cdef int transpose(self, EncodedField* field, CachedMap* map, TransposeMap known, MemoTable table,
                       const ColumnsData* d, ColumnsData* piece) noexcept nogil
    cdef int decode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil
    cdef int decode_copy(self, CachedDictionary* cached, const CutMessage* cut, const Envelope* message,
                         const LimitsData* limits, int64_t allowance, Inflater inflater) noexcept nogil


# The dictionaries that the loop needs for payloads of a mapping; None: the loop has to leave them to PayloadReader.
cdef LoopDictionaries new_loop(SchemaMapping mapping, OutputDictionaries output, int level)
