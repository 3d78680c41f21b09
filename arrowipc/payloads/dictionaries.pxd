# Dictionaries of payloads without Python: what arrived, where its values stand in the output, indices rewritten.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport ColumnsData, Envelope, LimitsData
from arrowipc.payloads.schema_mapping cimport Merger, SchemaMapping
from arrowipc.read.framing cimport CutMessage
from arrowipc.read.decompress cimport Inflater, Scratch

cdef enum Unified:
    UNIFIED = 0
    UNIFY_CODEC        # a codec must be looked for first: `codec`
    UNIFY_ROOM         # the dictionaries bring more data buffers of views than there is room for: `wanted`
    UNIFY_BY_READER    # this is for a reader

cdef struct CachedDictionary:
    # A dictionary id of the payloads' schema, and the values that arrived last.
    int64_t id
    bint wanted             # what is read of the schema needs it
    bint arrived            # in the payload at hand
    int64_t version         # another one for other values
    int64_t nbytes          # of the values
    ColumnsData* d          # the values
    int64_t* prefix         # for the walk
    int64_t room            # variadic extents of `d`
    Scratch message         # the message that they came in: its metadata, then its body
    int64_t metadata_size   # -1: there is none
    int64_t body_at
    int64_t body_size
    Scratch inflated        # the body, where it was compressed

cdef struct TransposeMap:
    # The number in a table of the output of each value of a cached dictionary.
    int32_t cached
    int32_t target
    int64_t version         # of the dictionary, -1: not known
    int64_t after           # values of the table with them
    int64_t most            # the largest of the numbers
    bint same               # each value has in the table the number that it has in the dictionary
    Scratch numbers         # int64 per value

cdef struct Target:
    # A dictionary of the output; whoever holds the DictionaryUnifier holds its Merger.
    PyObject* values        # MemoTable
    bint kept               # its state before the payload at hand was kept: values have come since then

cdef struct EncodedField:
    # A field that is dictionary-encoded in the payload, in the output, or in both with different numbers.
    int32_t how             # How
    int32_t out
    int32_t read            # the field of what is read
    int32_t cached          # -1: HOW_ENCODED
    int32_t places          # -1: HOW_DECODED
    int32_t target          # ... too
    int64_t limit           # of the indices of the output
    Scratch numbers         # int64 per row: of its value, -1: null
    Scratch words           # indices, values or offsets
    Scratch bits
    Scratch text


@cython.final
cdef class DictionaryUnifier:
    """The dictionaries of the payloads of one schema, and what they become in the output."""
    cdef Merger merger
    cdef list plans               # what keeps the plans of the cache, and their Columns
    cdef CachedDictionary* cache  # those of `mapping.plan.dictionaries` first
    cdef int32_t n_cached
    cdef TransposeMap* places
    cdef int32_t n_places
    cdef Target* targets         # per dictionary of the output
    cdef int32_t n_targets
    cdef EncodedField* links
    cdef int32_t n_links
    cdef int64_t* words         # per dictionary of `mapping.plan`: values, -1: not arrived
    cdef int32_t* order         # which dictionary the first, second ... message of a payload is likely to fill
    cdef int32_t arrivals       # messages of the payload at hand
    cdef int64_t nbytes         # of the dictionaries of the payload at hand
    cdef int64_t versions
    cdef bint changed           # the payload at hand has brought values to the output
    cdef int64_t wanted         # UNIFY_ROOM
    cdef int codec              # UNIFY_CODEC
    cdef int64_t made           # bytes that `unify` has made
    cdef int64_t inflated       # bytes that the last dictionary has beyond its message

    cdef int prepare(self, SchemaMapping mapping, list known) except -1
    cdef int link(self, SchemaMapping mapping, int32_t f) except -1
    cdef int32_t place_for(self, int32_t cached, int32_t target)

    # A new payload begins.
    cdef void begin(self) noexcept nogil
    # Whether a message is one that the cache holds already, which then has arrived: returns the bytes of its body, else
    # -1.
    cdef int64_t again(self, const CutMessage* cut, const LimitsData* limits) noexcept nogil
    # Take in a DictionaryBatch message, whose body is there: Unified.
    cdef int arrive(self, const CutMessage* cut, const Envelope* message, int level, const LimitsData* limits,
                    Inflater inflater) noexcept nogil
    # Give the fields of `piece` that `SchemaMapping.spread` has left what the fields of `d` stand for: Unified. `room`:
    # variadic extents that `piece` can have; at most `most` bytes are made.
    cdef int unify(self, const ColumnsData* d, ColumnsData* piece, int64_t room, int64_t most) noexcept nogil
    cdef int transpose(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece) noexcept nogil
    cdef int encode(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece, int64_t most) noexcept nogil
    cdef int decode(self, EncodedField* link, const ColumnsData* d, ColumnsData* piece, int64_t room,
                    int64_t most) noexcept nogil
    cdef int find_places(self, TransposeMap* places) noexcept nogil
    cdef void open_target(self, int32_t target) noexcept nogil
    cdef int fill(self, CachedDictionary* cached, const Table* data, const Envelope* message, int level,
                  const LimitsData* limits,
                  Inflater inflater) noexcept nogil
    cdef int store(self, CachedDictionary* cached, const CutMessage* cut, int64_t body_size) noexcept nogil
    # Bytes of the output's dictionaries.
    cdef int64_t total_bytes(self) noexcept nogil
    # The payload stays.
    cdef void keep(self) noexcept nogil
    # The payload goes.
    cdef void undo(self) noexcept nogil


# What the loop needs for payloads of a mapping; None: it has to leave them to a reader.
cdef DictionaryUnifier new_unifier(SchemaMapping mapping, Merger merger)
