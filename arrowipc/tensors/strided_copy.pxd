# Elements at strides: how far they reach, and gathering them row-major, in blocks that stay in the cache.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc.tensors.message cimport MOST_DIMENSIONS, Piecewise

cdef struct Joined:
    # Dimensions without those of size 1, with neighbours joined where one stride leads through both.
    int32_t ndim
    int64_t width           # bytes of an element
    int64_t size[MOST_DIMENSIONS + 1]
    int64_t stride[MOST_DIMENSIONS + 1]


cdef void row_major(int32_t ndim, const int64_t* shape, int64_t width, int64_t* strides) noexcept nogil
cdef bint is_packed(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                    bint by_columns) noexcept nogil
cdef bint stored_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                         int64_t* out) noexcept nogil
# Bytes from the first to behind the last element of strides that are not negative; -1 when they overflow.
cdef int64_t reach(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width) noexcept nogil


cdef class Gathered(Piecewise):
    """Elements at strides as one row-major buffer."""
    cdef const uint8_t* data
    cdef object owner
    cdef Joined layout
    cdef int32_t level              # the dimension whose rows are handed out, one or more at a time
    cdef int64_t block              # bytes of one such row
    cdef int64_t index[MOST_DIMENSIONS + 1]
    cdef bint ended
    cdef inline const uint8_t* at(self) noexcept nogil
    cdef inline void advance(self, int64_t rows) noexcept nogil


cdef Gathered gathered(const uint8_t* data, object owner, int32_t ndim, const int64_t* shape, const int64_t* strides,
                       int64_t width)
# All of it at `out`, which has room for it.
cdef void gather_all(Gathered source, uint8_t* out) noexcept nogil
