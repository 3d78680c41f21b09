# The Blocks of a footer: where messages lie in a file.
from libc.stdint cimport int64_t, uint8_t

from arrowipc.inline.fbs_layout cimport Block_bodyLength, Block_metaDataLength, Block_offset
from arrowipc.inline.loads cimport loose_i64


cdef inline void put_block(uint8_t* out, int64_t offset, int64_t head, int64_t body) noexcept nogil:
    """Write a Block: `head` bytes of prefix, metadata and padding lie at `offset`, and `body` bytes behind them."""
    (<loose_i64*> (out + Block_offset))[0] = offset
    (<loose_i64*> (out + Block_metaDataLength))[0] = head       # an int32, and its padding
    (<loose_i64*> (out + Block_bodyLength))[0] = body
