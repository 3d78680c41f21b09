# From the extents that `locate` found to columns that kernels can read.
#
# The order of the steps, which `normalise` keeps:
#   locate (core) -> decompress -> check_sizes (core) -> swap_bytes -> align -> validate (_validate)
# Dictionaries' values are Columns too and take the same way. A step that makes new memory chains it to
# `columns.owner`; after decompression the compressed body is let go of unless a buffer in it was stored raw.
from libc.stdint cimport int32_t, uintptr_t

from arrowipc._core cimport Columns, ColumnsData, LimitsData, check_sizes, raise_fault
from arrowipc._fault cimport Fault

cdef int decompress(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1
cdef int swap_bytes(Columns columns) except -1
cdef int align(Columns columns) except -1

# The same columns with every buffer copied into native byte order; for plans that keep the stored order.
cdef Columns native_copy(Columns columns)


cdef inline int normalise(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1:
    """Everything between `locate` and `validate`; a raw, little-endian, aligned batch passes untouched."""
    cdef Fault fault
    cdef const ColumnsData* d = &columns.d
    cdef uintptr_t address = 0
    cdef int32_t i
    if codec >= 0:
        decompress(columns, codec, limits, use_threads)
    if check_sizes(d, &fault) < 0:
        raise_fault(&fault, columns.plan)
    if d.plan.stored_big and not d.plan.keep_stored:
        swap_bytes(columns)
    for i in range(d.plan.n_buffers):
        address |= <uintptr_t> d.extents[i].data
    if address & 7:
        align(columns)
    return 0
