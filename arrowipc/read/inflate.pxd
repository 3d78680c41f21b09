# Compressed bodies in loops without Python: memory that is used again and again, and the codecs' contexts.
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc.inline.plan cimport ColumnsData, LimitsData
from arrowipc.read.decompress cimport DecompressContext, DecompressJob

cdef enum Inflated:
    INFLATED = 0
    INFLATE_LATER       # `prepare` has to look for the codec first
    INFLATE_NOT         # this is for a reader: it is broken, too much, or large enough for several threads

cdef struct Scratch:
    # Memory that only grows; what it holds is good until it is written again.
    uint8_t* data
    int64_t capacity


# At least `size` writable bytes, whatever they hold; NULL: no memory.
cdef uint8_t* scratch_room(Scratch* scratch, int64_t size) noexcept nogil


@cython.final
cdef class Inflater:
    """Decompresses batch after batch as readers do, without the GIL."""
    cdef DecompressContext lz4            # None: not to be had
    cdef DecompressContext zstd
    cdef bint[2] known          # False: not looked for, or the context is spoilt
    cdef DecompressJob* jobs
    cdef int64_t room
    cdef bint use_threads       # leave large bodies to the reader, who has some

    # With the GIL, once per codec.
    cdef int prepare(self, int codec) except -1
    # The extents of `d`, as the walk has left them, become readable; what is not raw lies in `scratch`.
    cdef int inflate(self, ColumnsData* d, int codec, const LimitsData* limits, Scratch* scratch) noexcept nogil


cdef Inflater new_inflater(bint use_threads)
