# What threads do together without the GIL: each takes the next piece of work.
from libc.stdint cimport int64_t

cdef extern from * nogil:
    int64_t fetch_add "__sync_fetch_and_add"(int64_t* counter, int64_t step) noexcept
