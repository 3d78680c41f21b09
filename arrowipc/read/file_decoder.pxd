# The decoders of messages that blocks point at.
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport Plan, Source
from arrowipc.metadata.checksums cimport Checksum
from arrowipc.inline.flatbuf cimport Vector
from arrowipc.inline.plan cimport Envelope, LimitsData
from arrowipc.read.decoders cimport Decoder, Dictionary
from arrowipc.read.message_index cimport StreamIndex


cdef struct Block:
    # Where a message lies in a file (struct Block of File.fbs).
    int64_t offset
    int64_t metadata_length     # with prefix and padding
    int64_t body_length


cdef class Footer:
    """The footer of a file, opened where it lies: a block is read and checked when it is used.

    Or what stands for one where a stream has an index.
    """
    cdef object source
    cdef str name                       # what errors call it
    cdef readonly int version           # MetadataVersion
    cdef Plan plan
    cdef readonly tuple metadata        # Footer.custom_metadata
    cdef Vector dictionaries            # Block structs
    cdef Vector batches
    cdef int64_t end                    # where the footer begins in the file, and so where messages end
    cdef int64_t uses                   # of blocks whose message was opened
    cdef bint is_added_up               # the blocks are no more bytes than a file can have

    cdef Block block(self, int64_t index, bint dictionary) except *


cdef class BlockDecoder:
    cdef Footer footer
    cdef Decoder decoder
    cdef LimitsData limits
    cdef int verify             # see `Verify`
    cdef readonly object damage # with verify=None, what is wrong in front of the messages that are listed

    cpdef add_up(self)
    cdef int verify_block(self, Block block, const uint8_t* body, const Envelope* message) except -1
    cdef int open_block(self, Block block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1


cdef class FileDecoder(BlockDecoder):
    cdef Checksum checksum              # of the end of the file
    cdef bint tail_right
    # (start, stop) of bytes to `check`: with `verify` the end and the beginning, at "strict" what no block lists.
    cdef readonly list to_check

    cdef int list_ends(self) except -1
    cdef bint tail_agrees(self, Source tail) except -1
    cdef int check_head(self, Source head) except -1
    cdef int check_unlisted(self, int64_t start, Source source) except -1


cdef class IndexedDecoder(BlockDecoder):
    cdef StreamIndex index
    cdef dict messages          # id of a dictionary -> the numbers of its DictionaryBatch messages, rising
    cdef dict kept              # number of such a message -> the Dictionary as that message left it
    cdef int64_t kept_bytes
    cdef int64_t epoch          # DictionaryBatch messages in front of the batch that was decoded last; -1: none was
    cdef tuple at_epoch         # the dictionaries that it saw

    cdef list ends(self, int64_t i)
    cdef int make_kept_room(self) except -1
