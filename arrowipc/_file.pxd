# The file decoder: what a footer says, and the messages that it points at.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Envelope, LimitsData, Plan, Source
from arrowipc._decode cimport Decoder


cdef struct Block:
    # Where a message lies in a file (struct Block of File.fbs).
    int64_t offset
    int64_t metadata_length     # with prefix and padding
    int64_t body_length


cdef class Footer:
    """The footer of a file, opened."""
    cdef readonly int version           # MetadataVersion
    cdef Plan plan
    cdef readonly tuple metadata        # Footer.custom_metadata
    cdef Block* dictionaries
    cdef Block* batches
    cdef readonly int32_t num_dictionaries
    cdef readonly int32_t num_batches


cdef class FileDecoder:
    cdef Footer footer
    cdef Decoder decoder
    cdef LimitsData limits

    cdef const Block* find(self, int64_t index, bint dictionary) except NULL
    cdef int open_block(self, const Block* block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1
