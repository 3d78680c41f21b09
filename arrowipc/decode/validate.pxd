# Proof that the values of a batch are safe to follow ("full") and within their domains ("strict").
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport BatchHeader, ColumnsData

# Raise for the first fault at `level`; LEVEL_NONE returns at once. Run it after `decode.decompress.normalise`.
# Indices are checked against `columns.dictionaries`; if that is None, they are left to the caller.
# `use_threads`: the helper threads of `codecs` take fields of large batches.
cdef int validate(Columns columns, int level, bint use_threads=*) except -1

# Do the same for kernels. `lengths[i]` is the length of dictionary i, -1 before it arrives; NULL: indices are left to
# the caller. Native byte order only; `fault.found` of FAULT_NO_DICTIONARY is an ordinal of Plan.dictionaries.
cdef int check_columns(const ColumnsData* d, const int64_t* lengths, int level, Fault* fault) noexcept nogil

# Find the smallest and largest dictionary index among the valid slots [start, start + length) of an encoded field,
# counted in its buffers (node.offset included). Return 1, or 0 if none is valid: then low = 0, high = -1.
# An index of uint64 above INT64_MAX counts as INT64_MAX.
cdef int index_range(const ColumnsData* d, int32_t field, int64_t start, int64_t length,
                     int64_t* low, int64_t* high) noexcept nogil

# For "strict": check that each Buffer of a message starts at a multiple of 8 inside the body, and that no two share
# bytes. If not, `fault.at` is the Buffer's number in the message; `place_of` names its column, by the `prefix` that
# `check_counts` fills.
cdef int check_extents(const BatchHeader* header, int64_t body_length, Fault* fault) noexcept nogil
cdef str place_of(Plan plan, const int64_t* prefix, int version, int64_t ordinal)
