# The dictionaries of payloads: what arrived, the dictionaries of the output, indices that follow.
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
    """The last values of a plan that refer to dictionaries, and the same values decoded."""
    cdef Plan plan
    cdef SchemaMapping mapping
    cdef Columns values
    cdef Columns found


@cython.final
cdef class OutputDictionaries:
    cdef tuple top              # Unifier, per dictionary of the output's plan
    cdef list order             # all of them, those first
    cdef PyObject** tables      # MemoTable, per `order`
    cdef int32_t n_tables
    cdef dict plain             # id of a plan of values -> Plain
    cdef int64_t left           # bytes that may still be made of the payload at hand
    cdef Budget budget          # ... and of all, where dictionaries refer to dictionaries
    cdef int inside             # dictionaries around the values at hand

    # Fill the encoded fields of `mapping.piece`, which `spread` has left; returns what keeps their memory. What is
    # made is taken from `left`, also after an exception.
    cdef object fill(self, SchemaMapping mapping, Columns columns)
    cdef int spend(self, int64_t size, bint nested) except -1
    cdef Columns decoded(self, int32_t f, Columns columns)
    cdef Columns plain_values(self, Columns values)
    cdef int encode(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1
    cdef int transpose(self, EncodedField* field, Columns columns, ColumnsData* piece) except -1
    # As those of the tables; whether there are values that came after `save`.
    cdef void save(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef bint has_grown(self) noexcept nogil
    cdef int64_t nbytes(self) noexcept nogil
    cdef tuple snapshot(self)


cdef OutputDictionaries new_output(Plan out, Budget budget)


cdef struct CachedDictionary:
    # A dictionary id of the payloads' schema, and the values that arrived last.
    int64_t id
    bint wanted             # a field that is read refers to it
    bint arrived            # in the payload at hand
    int64_t version         # another number for other values
    int64_t nbytes          # of the values
    BatchTarget values
    Room message            # the message that they came in: its metadata, then its body
    int64_t metadata_size   # -1: there is none
    int64_t body_at
    int64_t body_size
    Scratch inflated        # the body, where it was compressed

cdef struct CachedMap:
    # The numbers of a cached dictionary's values in a table of the output, for a field that is transposed.
    int32_t first           # the first field with the same two, whose numbers these are
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
    cdef int32_t arrivals           # messages of the payload at hand
    cdef int64_t nbytes             # of the dictionaries of the payload at hand
    cdef int64_t versions
    cdef int level                  # at which all is validated
    cdef int64_t wanted             # of DECODE_ROOM and DECODE_CODEC
    cdef int64_t made               # bytes that `fill` has made
    cdef int64_t inflated           # bytes that the last dictionary has beyond its message

    # A new payload begins.
    cdef void begin(self) noexcept nogil
    # Whether a message is one that the cache holds already, which then has arrived: returns the bytes of its body, else
    # -1.
    cdef int64_t again(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil
    # Take in a DictionaryBatch message, whose body is there and may become `allowance` bytes: Decoded.
    cdef int arrive(self, const CutMessage* cut, const Envelope* message, const LimitsData* limits, int64_t allowance,
                    Inflater inflater) noexcept nogil
    # Give the fields of `mapping.piece` that `spread` has left what the fields of `d` stand for: Decoded. `d` has been
    # validated at `level`. Makes at most `most` bytes.
    cdef int fill(self, SchemaMapping mapping, const ColumnsData* d, int64_t most) noexcept nogil
    cdef int transpose(self, EncodedField* field, CachedMap* map, TransposeMap known, MemoTable table,
                       const ColumnsData* d, ColumnsData* piece) noexcept nogil
    cdef int decode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil
    cdef int decode_copy(self, CachedDictionary* cached, const CutMessage* cut, const Envelope* message,
                         const LimitsData* limits, int64_t allowance, Inflater inflater) noexcept nogil


# What the loop needs for payloads of a mapping; None: it has to leave them to a decoder of single payloads.
cdef LoopDictionaries new_loop(SchemaMapping mapping, OutputDictionaries output, int level)
