# A dense tensor: memory, a shape and strides.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc.read.framing cimport Message


cdef class Tensor:
    """A dense tensor of values of a fixed width, in memory that it keeps alive and does not change."""
    cdef const uint8_t* data            # the first element, which need not be the lowest address
    cdef int64_t* dims                  # shape, then strides in bytes: 2 * ndim
    cdef int32_t _ndim
    cdef int64_t width                  # bytes of an element
    cdef int64_t count
    cdef readonly object type           # DataType
    cdef readonly tuple dim_names       # of str, None: no dimension has a name
    cdef object owner
    cdef bint readonly_memory
    cdef object __weakref__
    cdef int allocate(self, int32_t ndim) except -1
    cdef bint in_rows(self) noexcept
    cdef bytes format_of(self)


cdef Tensor tensor_in(Message message)
