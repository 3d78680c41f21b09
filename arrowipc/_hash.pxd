# Hashes of bytes.
from libc.stdint cimport int64_t, uint8_t, uint64_t

from arrowipc._bytes cimport load_u32, loose_u64

cdef extern from * nogil:
    """
    /* Both halves of the 128-bit product, folded: every bit of a factor reaches every bit of the hash. */
    static inline uint64_t arrowipc_fold(uint64_t a, uint64_t b) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    #else
        uint64_t a0 = (uint32_t) a, a1 = a >> 32, b0 = (uint32_t) b, b1 = b >> 32;
        uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t) middle;
        return a * b ^ (a1 * b1 + (middle >> 32) + (other >> 32));
    #endif
    }
    """
    uint64_t fold "arrowipc_fold"(uint64_t a, uint64_t b) noexcept


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    return (<const loose_u64*> p)[0]


cdef inline uint64_t hash_with(uint64_t secret, uint64_t seed, const uint8_t* p, int64_t size) noexcept nogil:
    cdef uint64_t first = 0, last = 0, h = seed ^ <uint64_t> size
    while size > 16:
        h = fold(load_u64(p) ^ secret, load_u64(p + 8) ^ h)
        p += 16
        size -= 16
    # The rest in two words that may overlap.
    if size > 8:
        first = load_u64(p)
        last = load_u64(p + size - 8)
    elif size >= 4:
        first = load_u32(p) | <uint64_t> load_u32(p + size - 4) << 32
    elif size > 0:
        first = p[0] | <uint64_t> p[size >> 1] << 8 | <uint64_t> p[size - 1] << 16
    return fold(first ^ secret, last ^ h)


cdef inline uint64_t stable_hash(const uint8_t* p, int64_t size) noexcept nogil:
    """The same in every process, so anybody can make values that share theirs: for estimates, never for tables.

    The numbers are digits of pi. Folded once more: the order of these hashes counts, and one product keeps some
    of that of the values.
    """
    cdef uint64_t secret = 0x243F6A8885A308D3, seed = 0x13198A2E03707344
    return fold(hash_with(secret, seed, p, size) ^ seed, secret)
