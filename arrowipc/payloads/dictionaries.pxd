# Dictionaries of payloads without Python: what arrived, the numbers of its values in the output, new indices.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc.columns.dictionary_gc cimport FlatMemory
from arrowipc.inline.plan cimport ColumnsData, Envelope, LimitsData
from arrowipc.inline.room cimport Room
from arrowipc.payloads.schema_mapping cimport Merger, SchemaMapping
from arrowipc.read.decoders cimport BatchTarget
from arrowipc.read.decompress cimport Inflater, Scratch
from arrowipc.read.framing cimport CutMessage

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

cdef struct TransposeMap:
    # The number in a table of the output of each value of a cached dictionary.
    int32_t cached
    int32_t target
    int64_t version         # of the dictionary, -1: not known
    int64_t after           # how many values the table had with them
    int64_t most            # the largest of the numbers
    bint identity           # each value has in the table the number that it has in the dictionary
    Room numbers            # int64 per value

cdef struct Target:
    # A dictionary of the output; whoever holds the DictionaryUnifier holds its Merger.
    PyObject* values        # MemoTable
    bint kept               # the payload at hand brought values; the table knows how it was before

cdef struct EncodedField:
    # A field that is dictionary-encoded in the payload, in the output, or in both with different numbers.
    int32_t how             # How
    int32_t out             # the field of the output
    int32_t read            # the field of what is read
    int32_t cached          # -1: HOW_ENCODED
    int32_t map             # the TransposeMap, -1: not HOW_TRANSPOSED
    int32_t target          # -1: HOW_DECODED
    int64_t limit           # largest index that the output's type can count to
    Room numbers            # int64 per row: of its value, -1: null
    Room indices
    FlatMemory values


@cython.final
cdef class DictionaryUnifier:
    """The dictionaries of the payloads of one schema, and what they become in the output."""
    cdef Merger merger
    cdef list columns               # Columns that `cache` points into
    cdef CachedDictionary* cache    # those of `mapping.plan.dictionaries` first
    cdef int32_t n_cached
    cdef TransposeMap* maps
    cdef int32_t n_maps
    cdef Target* targets            # per dictionary of the output
    cdef int32_t n_targets
    cdef EncodedField* fields
    cdef int32_t n_fields
    cdef int64_t* lengths           # values per dictionary of `mapping.plan`, -1: not arrived
    cdef int32_t* order             # which dictionary the first, second ... message of a payload is likely to bring
    cdef int32_t arrivals           # messages of the payload at hand
    cdef int64_t nbytes             # of the dictionaries of the payload at hand
    cdef int64_t versions
    cdef bint changed               # the payload at hand has brought values to the output
    cdef int64_t wanted             # of DECODE_ROOM and DECODE_CODEC
    cdef int64_t made               # bytes that `unify` has made
    cdef int64_t inflated           # bytes that the last dictionary has beyond its message

    cdef int prepare(self, SchemaMapping mapping, list known) except -1
    cdef int add_field(self, SchemaMapping mapping, int32_t f) except -1
    cdef int32_t map_for(self, int32_t cached, int32_t target)

    # A new payload begins.
    cdef void begin(self) noexcept nogil
    # Whether a message is one that the cache holds already, which then has arrived: returns the bytes of its body, else
    # -1.
    cdef int64_t again(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil
    # Take in a DictionaryBatch message, whose body is there and may become `allowance` bytes: Decoded.
    cdef int arrive(self, const CutMessage* cut, const Envelope* message, int level, const LimitsData* limits,
                    int64_t allowance, Inflater inflater) noexcept nogil
    # Give the fields of `piece` that `SchemaMapping.spread` has left what the fields of `d` stand for: Decoded. `room`:
    # data buffers of views that `piece` has extents for; at most `most` bytes are made.
    cdef int unify(self, const ColumnsData* d, ColumnsData* piece, int64_t room, int64_t most) noexcept nogil
    cdef int transpose(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece) noexcept nogil
    cdef int encode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t most) noexcept nogil
    cdef int decode(self, EncodedField* field, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil
    cdef int fill_map(self, TransposeMap* map) noexcept nogil
    cdef void open_target(self, int32_t target) noexcept nogil
    cdef int decode_copy(self, CachedDictionary* cached, const CutMessage* cut, const Envelope* message, int level,
                         const LimitsData* limits, int64_t allowance, Inflater inflater) noexcept nogil
    # Bytes of the output's dictionaries.
    cdef int64_t total_bytes(self) noexcept nogil
    # The payload stays.
    cdef void keep(self) noexcept nogil
    # The payload goes, and with it the values that it brought.
    cdef void undo(self) noexcept nogil


# What the loop needs for payloads of a mapping; None: it has to leave them to a decoder of single payloads.
cdef DictionaryUnifier new_unifier(SchemaMapping mapping, Merger merger)
