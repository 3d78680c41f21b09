# The file decoder: what a footer says, and the messages that it points at.
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport Envelope, LimitsData, Source
from arrowipc._decode cimport Decoder
from arrowipc._schema cimport Block, Footer


cdef class FileDecoder:
    cdef Footer footer
    cdef Decoder decoder
    cdef LimitsData limits

    cdef const Block* find(self, int64_t index, bint dictionary) except NULL
    cdef int open_block(self, const Block* block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1
