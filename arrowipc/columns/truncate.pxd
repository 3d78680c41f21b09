# Exactly the elements of a slice: what a writer puts into a body.
from libc.stdint cimport int64_t, uint8_t

cimport cython

from arrowipc._core cimport Plan
from arrowipc.columns.builder cimport Span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData


@cython.final
cdef class Truncator:
    cdef Plan plan
    cdef ColumnsData d      # the result of the last call, valid until the next one; its `plan` is `self.plan.d`
    cdef double view_waste  # views are packed if their data buffers are larger than this times the bytes in use
    cdef bint tight         # cut data buffers of views to the bytes in use, because the rows are one of many pieces
    cdef int64_t largest    # bytes of a data buffer of packed views, unless one value is longer

    cdef Span* spans        # per field: the elements of the source to take; behind d.nodes
    cdef int64_t room       # bytes of the block that begins with d.nodes
    cdef list blocks        # Memory: scratch that this call has used, or one block that waits for the next
    cdef uint8_t* only      # the only block, if it may wait for the next call; NULL: `recycle` frees all blocks
    cdef int64_t only_room
    cdef uint8_t* at        # the unused rest of the last block
    cdef int64_t left
    cdef int64_t taken      # bytes of scratch that the last call took, 0: it rewrote nothing
    cdef int64_t wanted     # size of the first block of the next call, from the bytes that earlier calls took

    # Cut `source` to rows [start, start + count), in `d`. `source` has a plan of the same shape and has passed
    # check_sizes. On -1 `fault` is filled (with fields of `source.plan`) and `d` must not be used. Large scratch memory
    # stays until the next call.
    cdef int truncate(self, const ColumnsData* source, int64_t start, int64_t count, Fault* fault) noexcept nogil
    # Return the owner that keeps rewritten buffers alive beyond the next call (None: nothing was rewritten).
    # Afterwards the truncator allocates new scratch memory.
    cdef object keep(self)
