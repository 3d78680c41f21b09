# Hashes of bytes.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    /* Fold both halves of the 128-bit product: every bit of a factor affects every bit of the hash. */
    static inline uint64_t arrowipc_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }

    __attribute__((always_inline))  /* into loops over values: a call takes longer than hashing a short value */
    static inline uint64_t arrowipc_hash(uint64_t secret, uint64_t seed, const uint8_t *p, int64_t size) {
        uint64_t first = 0, last = 0, h = seed ^ (uint64_t) size;
        for (; size > 16; p += 16, size -= 16) {
            memcpy(&first, p, 8);
            memcpy(&last, p + 8, 8);
            h = arrowipc_fold(first ^ secret, last ^ h);
        }
        first = last = 0;
        /* Hash the rest as two words, which may overlap. */
        if (size > 8) {
            memcpy(&first, p, 8);
            memcpy(&last, p + size - 8, 8);
        } else if (size >= 4) {
            uint32_t low, high;
            memcpy(&low, p, 4);
            memcpy(&high, p + size - 4, 4);
            first = low | (uint64_t) high << 32;
        } else if (size > 0) {
            first = p[0] | (uint64_t) p[size >> 1] << 8 | (uint64_t) p[size - 1] << 16;
        }
        return arrowipc_fold(first ^ secret, last ^ h);
    }
    """
    # Return a hash of `size` bytes, which depends on `secret` and `seed` too.
    uint64_t hash_with "arrowipc_hash"(uint64_t secret, uint64_t seed, const uint8_t* p, int64_t size) noexcept
