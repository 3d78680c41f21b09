"""The core of all decoders: from a RecordBatch table, of a batch or of a dictionary, to columns that kernels can read.

The steps are the same for everybody: count what the table lists, make room, walk, decompress, check sizes, validate.
Memory and threads are not, so there are two functions that take them:

* `decode_columns`, for readers. Columns are kept: their tables are as large as this batch needs, a body is decompressed
  to memory of its own, a large one by several threads, and values lie at addresses where other libraries can use
  them. Whatever is unusual or broken is dealt with here.
* `decode_batch_into`, for payloads. Thousands of batches of some hundred bytes are read once each: they share tables
  and memory, and no step needs the GIL. What is unusual or broken is left to the other one.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from arrowipc._core cimport (
    WALK_BROKEN, WALK_STORED, WALK_UNALIGNED, Columns, Plan, check_counts, check_sizes, count_variadic, open_batch,
    raise_fault, read_pairs, walk_measured, walk_stored,
)
from arrowipc.metadata.checksums cimport Checksum, find_checksum
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field
from arrowipc.inline.plan cimport LEVEL_STRICT, BatchHeader, ColumnsData, Envelope, LimitsData
from arrowipc.read.decompress cimport INFLATED, INFLATE_LATER, Inflater, Scratch, align, normalise
from arrowipc.read.validate cimport check_columns, check_extents, place_of, validate

from arrowipc.errors import UnsupportedError

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
    """The walk, and at "strict" a look at where all Buffers of the message lie; returns Walked."""
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
    finally:
        free(prefix)
    if found < 0:
        # Nobody but `check_extents` names a Buffer by its place in the message.
        raise_fault(&fault, plan, place_of(plan, header, version, fault.at) if fault.field < 0 <= fault.at else None)
    return found


cdef int locate_batch(Columns out, Plan plan, const Table* table, const Envelope* message, const uint8_t* body,
                      int level, const LimitsData* limits, BatchHeader* header) except -1:
    cdef Fault fault
    if open_batch(table, header, &fault) < 0:
        raise_fault(&fault)
    if message.version == MetadataVersion_V4 and fb_field(&message.root, Message_custom_metadata, 4) != 0:
        header.codec = experimental_codec(message, header.codec)
    return locate(out, plan, header, body, message.body_length, message.version, level, limits)


cdef int decode_columns(Columns out, Plan plan, const Table* table, const Envelope* message, const uint8_t* body,
                        int level, const LimitsData* limits, bint use_threads) except -1:
    cdef BatchHeader header
    cdef int found = locate_batch(out, plan, table, message, body, level, limits, &header)
    if found == WALK_STORED:
        normalise(out, header.codec, limits, use_threads)
    elif found == WALK_UNALIGNED:
        align(out)
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
        if inflating == INFLATE_LATER:
            wanted[0] = header.codec
            return DECODE_CODEC
        if inflating != INFLATED:
            return DECODE_BY_DECODER
    if ((found == WALK_STORED and check_sizes(d, &fault) < 0)
            or (level and check_columns(d, lengths, level, &fault) < 0)):
        return DECODE_BY_DECODER
    return DECODED
