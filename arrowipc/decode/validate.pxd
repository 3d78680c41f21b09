# Proof that the values of a batch are safe to follow ("full") and within their domains ("strict").
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport BatchHeader, ColumnsData

# Raises for the first fault at `level`; LEVEL_NONE returns at once. Run it after `decode.decompress.normalise`.
# Indices are checked against `columns.dictionaries`; where that is None, they are left to the caller.
# `use_threads`: fields that are much to read are shared with the helpers of `codecs`.
cdef int validate(Columns columns, int level, bint use_threads=*) except -1

# The same for kernels: `lengths[i]` is that of dictionary i, -1 before it arrives; NULL: indices are left to the
# caller. Native byte order only; `fault.found` of FAULT_NO_DICTIONARY is an ordinal of Plan.dictionaries.
cdef int check_columns(const ColumnsData* d, const int64_t* lengths, int level, Fault* fault) noexcept nogil

# Smallest and largest dictionary index among the valid slots [start, start + length) of an encoded field,
# counted in its buffers (node.offset included). Returns 1, or 0 when none is valid: then low = 0, high = -1.
# Indices of uint64 clamp to INT64_MAX.
cdef int index_range(const ColumnsData* d, int32_t field, int64_t start, int64_t length,
                     int64_t* low, int64_t* high) noexcept nogil

# Strict: each Buffer of a message starts at a multiple of 8 inside the body, and no two share bytes. -1: `fault.at` is
# the Buffer's place in the message; `place_of` says whose it is, by the `prefix` that `check_counts` fills.
cdef int check_extents(const BatchHeader* header, int64_t body_length, Fault* fault) noexcept nogil
cdef str place_of(Plan plan, const int64_t* prefix, int version, int64_t ordinal)
