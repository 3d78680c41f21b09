# The core of all decoders: from a RecordBatch table, of a batch or of a dictionary, to columns that kernels can read.
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, Envelope, LimitsData
from arrowipc.read.decompress cimport Inflater, Scratch

# Count and walk: allocate `out` and point its extents into the body; returns Walked. At "strict", no two Buffers share
# bytes then, which has to be known before a buffer is copied.
cdef int locate(Columns out, Plan plan, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                int version, int level, const LimitsData* limits) except -1
# The same for the table of a RecordBatch message, whose codec may be named elsewhere, as Arrow 0.17 did; at "none".
cdef int locate_batch(Columns out, Plan plan, const Envelope* message, const uint8_t* body,
                      const LimitsData* limits) except -1
# All steps, for columns that are kept: `out` has its dictionaries (None: its indices stay unchecked), and the owner of
# the body as its own.
cdef int decode_columns(Columns out, Plan plan, const Table* table, const Envelope* message, const uint8_t* body,
                        int level, const LimitsData* limits, bint use_threads) except -1


cdef enum Decoded:
    # How decoding without Python ends.
    DECODED = 0
    DECODE_ROOM         # it needs room for `wanted` data buffers of views
    DECODE_CODEC        # nobody has looked for codec `wanted` yet
    DECODE_BY_DECODER   # this is for a `Decoder`: it is broken, too much, or unusual

cdef struct BatchTarget:
    # Columns of one plan into which one batch after the other is decoded.
    ColumnsData* d
    int64_t* prefix     # plan.source_views + 1 entries, for the walk
    int64_t room        # data buffers of views that `d` has extents for
    int codec           # of the last batch, -1: its body was raw


# All steps, for columns that are read once and then those of the next batch: into `into`, decompressed to `inflated`
# (`allowance` bytes at most, whatever `limits` say), and proven at `level` with dictionaries of those `lengths`, as
# `check_columns` takes them.
cdef int decode_batch_into(BatchTarget* into, const Table* table, const Envelope* message, const uint8_t* body,
                           int level, const int64_t* lengths, Inflater inflater, Scratch* inflated,
                           const LimitsData* limits, int64_t allowance, int64_t* wanted) noexcept nogil
