# Buffers in their stored form: compressed where that pays, raw where it does not.
from libc.stdint cimport int64_t, uint8_t

cimport cython

from arrowipc._core cimport Memory
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.plan cimport ColumnsData


@cython.final
cdef class Compressor:
    """Compresses the buffers of batch after batch with one codec; contexts and memory are reused."""
    cdef readonly int codec     # CompressionType: 0 LZ4_FRAME, 1 ZSTD
    cdef double savings         # least fraction of a buffer that its frame must save
    cdef bint use_threads
    cdef bint busy              # a call is under way, maybe without the GIL
    cdef object library         # _compress.Library: how this codec compresses at this level
    cdef object work            # _compress.Work: the buffers of one batch that are worth trying
    cdef Memory memory          # the frames of the last batch

    # Fills parts[0 : d.n_extents]. `chosen`: one byte per field of d.plan, 0: its buffers stay raw (NULL: all
    # are compressed). An empty buffer becomes an empty part without a prefix. What the parts point at stays
    # valid until the next call (or longer with `keep`), as long as the columns do.
    cdef int compress(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1
    # What keeps compressed buffers alive beyond the next call.
    cdef object keep(self)
    cdef uint8_t* frame_memory(self, int64_t size) except NULL
