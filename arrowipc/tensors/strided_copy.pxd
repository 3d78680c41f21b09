# Elements at strides: the bytes that they span, and copying them in row-major order, in blocks that stay in the cache.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    MOST_DIMENSIONS = 64    # of a tensor: NumPy's limit, and the size of the fixed C arrays here
    PIECE = 1 << 20         # bytes that are gathered at a time: still in the cache when they are written

cdef struct Joined:
    # The dimensions without those of size 1; neighbours that can be walked with one stride are joined.
    int32_t ndim
    int64_t width           # bytes of an element
    int64_t size[MOST_DIMENSIONS + 1]
    int64_t stride[MOST_DIMENSIONS + 1]


# Write the strides of a contiguous row-major tensor.
cdef void row_major(int32_t ndim, const int64_t* shape, int64_t width, int64_t* strides) noexcept nogil
# Whether the elements are contiguous in row-major order, or in column-major order if `by_columns`.
cdef bint is_packed(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                    bint by_columns) noexcept nogil
# Whether the elements are contiguous with the dimensions in some order; if so, write the strides to store to `out`.
cdef bint stored_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                         int64_t* out) noexcept nogil
# Return the bytes from the first element to the end of the last one, for strides >= 0; -1 if that overflows.
cdef int64_t reach(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width) noexcept nogil


cdef class Gathered:
    """Elements at strides as one row-major buffer, which is made piece by piece while it is written."""
    cdef readonly int64_t nbytes
    cdef const uint8_t* data
    cdef object owner
    cdef Joined layout
    cdef int32_t level              # the dimension whose rows are copied whole, one or more at a time
    cdef int64_t block              # bytes of one such row
    cdef int64_t index[MOST_DIMENSIONS + 1]     # the position of the next row, for each dimension up to `level`
    cdef bint ended
    # Write the next bytes, at most `room`, to `out`; return how many, 0 at the end.
    cdef int64_t fill(self, uint8_t* out, int64_t room) noexcept nogil
    cdef void rewind(self) noexcept         # begin again with the first byte
    cdef inline const uint8_t* at(self) noexcept nogil
    cdef inline void advance(self, int64_t rows) noexcept nogil


cdef Gathered gathered(const uint8_t* data, object owner, int32_t ndim, const int64_t* shape, const int64_t* strides,
                       int64_t width)
# Write all bytes of `source` to `out`, which must have `source.nbytes` bytes.
cdef void gather_all(Gathered source, uint8_t* out) noexcept nogil
