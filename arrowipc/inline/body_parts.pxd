# The parts of an encoded message body, in order, before they are put together.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from arrowipc.inline.loads cimport copy_bytes

cdef struct BodyPart:
    # One buffer as it is stored. Zeros follow it up to the next multiple of the alignment.
    const uint8_t* data
    int64_t size            # bytes at `data`
    int64_t prefix          # BodyCompression: the uncompressed length, -1 for a buffer that is stored raw
    bint prefixed           # whether `prefix` is written, as 8 bytes, before `data`


cdef inline int64_t stored_size(const BodyPart* part) noexcept nogil:
    """Return the bytes of a part in the body, without padding: Buffer.length."""
    return part.size + (8 if part.prefixed else 0)


cdef inline int64_t padding(int64_t size, int64_t alignment) noexcept nogil:
    """Return how many zeros follow `size` bytes; alignment is a power of two."""
    return -size & (alignment - 1)


cdef inline uint8_t* put_part(uint8_t* out, const BodyPart* part, int64_t alignment) noexcept nogil:
    """Copy a part and its padding to `out`; return where the next part goes."""
    cdef int64_t pad = padding(stored_size(part), alignment)
    if part.prefixed:
        memcpy(out, &part.prefix, 8)
        out += 8
    if 0 < pad < 8:
        # One store instead of a call: zero the padding and some bytes before it, which are overwritten below.
        memset(out + part.size + pad - 8, 0, 8)
    elif pad:
        memset(out + part.size, 0, pad)
    if part.size:
        copy_bytes(out, part.data, part.size)
    return out + part.size + pad


cdef inline uint8_t* put_parts(uint8_t* out, const BodyPart* parts, int32_t n_parts, int64_t alignment) noexcept nogil:
    """Put a body together at `out`, which has room for it; return where it ends."""
    cdef int32_t i
    for i in range(n_parts):
        out = put_part(out, &parts[i], alignment)
    return out
