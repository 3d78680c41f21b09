# The file decoder: what a footer says, and the messages that it points at.
from libc.stdint cimport int64_t

from arrowipc._core cimport Plan, Source
from arrowipc.inline.flatbuf cimport Vector
from arrowipc.inline.plan cimport Envelope, LimitsData
from arrowipc.read.batch_decoder cimport Decoder


cdef struct Block:
    # Where a message lies in a file (struct Block of File.fbs).
    int64_t offset
    int64_t metadata_length     # with prefix and padding
    int64_t body_length


cdef class Footer:
    """The footer of a file, opened where it lies: a block is read and checked when it is used."""
    cdef Source source
    cdef readonly int version           # MetadataVersion
    cdef Plan plan
    cdef readonly tuple metadata        # Footer.custom_metadata
    cdef Vector dictionaries            # Block structs
    cdef Vector batches
    cdef int64_t end                    # where the footer begins in the file, and so where messages end
    cdef int64_t uses                   # of blocks whose message was opened
    cdef bint is_added_up               # the blocks are no more bytes than a file can have

    cdef Block block(self, int64_t index, bint dictionary) except *


cdef class FileDecoder:
    cdef Footer footer
    cdef Decoder decoder
    cdef LimitsData limits

    cpdef add_up(self)
    cdef int open_block(self, Block block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1
