# Loads, stores, copies, bits and overflow-safe sizes on raw bytes: pure, inline, usable without the GIL.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

# The format is little-endian, and so is every platform that we build for. Values of these types may lie at any address:
# the attributes tell the compiler so, and it still vectorises loops over them.
cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "arrowipc kernels load little-endian words natively; a big-endian host needs swapping loads here"
    #endif
    typedef int16_t loose_i16 __attribute__((aligned(1), may_alias));
    typedef int32_t loose_i32 __attribute__((aligned(1), may_alias));
    typedef int64_t loose_i64 __attribute__((aligned(1), may_alias));
    typedef uint16_t loose_u16 __attribute__((aligned(1), may_alias));
    typedef uint32_t loose_u32 __attribute__((aligned(1), may_alias));
    typedef uint64_t loose_u64 __attribute__((aligned(1), may_alias));
    typedef float loose_f32 __attribute__((aligned(1), may_alias));
    typedef double loose_f64 __attribute__((aligned(1), may_alias));
    typedef int64_t loose_pair __attribute__((vector_size(16), aligned(1), may_alias));
    static inline void copy_64(char* target, const char* source) {
        loose_pair* to = (loose_pair*) target;
        const loose_pair* from = (const loose_pair*) source;
        loose_pair a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a; to[1] = b; to[2] = c; to[3] = d;
    }
    /* A memcpy that is equally fast at all addresses. From some KiB on, glibc's memcpy is one instruction, for which
       some processors take half as long again if source and target differ modulo 64. Sizes far beyond the caches
       are left to glibc, whose stores bypass the caches. */
    static inline void copy_bytes(void* target, const void* source, int64_t size) {
        if (size < 64 || size > 1 << 24) {
            memcpy(target, source, (size_t) size);
            return;
        }
        int64_t last = size - 64;
        for (int64_t i = 0; i < last; i += 64)
            copy_64((char*) target + i, (const char*) source + i);
        copy_64((char*) target + last, (const char*) source + last);
    }
    """
    ctypedef int16_t loose_i16
    ctypedef int32_t loose_i32
    ctypedef int64_t loose_i64
    ctypedef uint16_t loose_u16
    ctypedef uint32_t loose_u32
    ctypedef uint64_t loose_u64
    ctypedef float loose_f32
    ctypedef double loose_f64
    void copy_bytes(void* target, const void* source, int64_t size) noexcept    # they do not overlap
    bint mul_overflows "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t* product) noexcept
    bint add_overflows "__builtin_add_overflow"(int64_t a, int64_t b, int64_t* total) noexcept
    int popcount64 "__builtin_popcountll"(uint64_t word) noexcept
    int trailing_zeros "__builtin_ctzll"(uint64_t word) noexcept    # of a word that is not 0
    uint16_t bswap16 "__builtin_bswap16"(uint16_t word) noexcept
    uint32_t bswap32 "__builtin_bswap32"(uint32_t word) noexcept
    uint64_t bswap64 "__builtin_bswap64"(uint64_t word) noexcept
    void prefetch "__builtin_prefetch"(const void* address) noexcept
    bint unlikely "__builtin_expect"(bint condition, bint expected) noexcept


cdef inline uint16_t load_u16(const uint8_t* p) noexcept nogil:
    return (<const loose_u16*> p)[0]


cdef inline int32_t load_i32(const uint8_t* p) noexcept nogil:
    return (<const loose_i32*> p)[0]


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    return (<const loose_u32*> p)[0]


cdef inline int64_t load_i64(const uint8_t* p) noexcept nogil:
    return (<const loose_i64*> p)[0]


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    return (<const loose_u64*> p)[0]


cdef inline uint64_t load_few(const uint8_t* p, int64_t size) noexcept nogil:
    """Load a little-endian word of 1..8 bytes, and read none of those behind it: they may not be ours."""
    # A memcpy of so many bytes to a word is slower: loading a word that was stored in pieces waits for the stores.
    if size >= 8:
        return load_u64(p)
    if size >= 4:
        return load_u32(p) | <uint64_t> load_u32(p + size - 4) << 8 * (size - 4)
    if size >= 2:
        return load_u16(p) | <uint64_t> load_u16(p + size - 2) << 8 * (size - 2)
    return p[0]


cdef inline void put16(uint8_t* at, int64_t value) noexcept nogil:
    (<loose_u16*> at)[0] = <uint16_t> value


cdef inline void put32(uint8_t* at, int64_t value) noexcept nogil:
    (<loose_u32*> at)[0] = <uint32_t> value


cdef inline void put64(uint8_t* at, int64_t value) noexcept nogil:
    (<loose_i64*> at)[0] = value


cdef inline bint get_bit(const uint8_t* bits, int64_t i) noexcept nogil:
    return (bits[i >> 3] >> (i & 7)) & 1


cdef inline void set_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline bint too_many_values(int64_t length, int64_t size) noexcept nogil:
    """Whether a dictionary claims more values than its bytes can hold: beyond a million, each takes at least a bit."""
    return length > 1 << 20 and length // 8 > size


cdef inline int64_t bitmap_bytes(int64_t bits) noexcept nogil:
    # (bits + 7) / 8 would overflow for lengths near 2^63, which hostile nodes do claim.
    return (bits >> 3) + ((bits & 7) != 0)


cdef inline uint64_t bits_per_byte(uint64_t word) noexcept nogil:
    word -= (word >> 1) & <uint64_t> 0x5555555555555555
    word = (word & <uint64_t> 0x3333333333333333) + ((word >> 2) & <uint64_t> 0x3333333333333333)
    return (word + (word >> 4)) & <uint64_t> 0x0f0f0f0f0f0f0f0f


cdef inline int64_t count_bits(const uint8_t* bits, int64_t start, int64_t length) noexcept nogil:
    """Count the set bits among bits[start : start + length]."""
    cdef int64_t total = 0, i = start, end = start + length
    cdef uint64_t word, sums
    cdef int64_t k, words
    while i < end and i & 7:
        total += get_bit(bits, i)
        i += 1
    while end - i >= 64:
        # Old processors have no instruction that counts bits, so the builtin is a function call per word. Compilers
        # vectorize this loop instead. A byte of `sums` can count the bits of 31 bytes.
        words = min((end - i) >> 6, <int64_t> 28)
        sums = 0
        for k in range(words):
            sums += bits_per_byte((<const loose_u64*> (bits + (i >> 3)))[k])
        sums = (sums & <uint64_t> 0x00ff00ff00ff00ff) + ((sums >> 8) & <uint64_t> 0x00ff00ff00ff00ff)
        total += (sums * <uint64_t> 0x0001000100010001) >> 48
        i += 64 * words
    if i < end:
        word = load_few(bits + (i >> 3), (end - i + 7) >> 3)
        word &= (<uint64_t> 1 << (end - i)) - 1
        total += (bits_per_byte(word) * <uint64_t> 0x0101010101010101) >> 56
    return total


cdef inline int64_t round_up(int64_t size, int64_t multiple) noexcept nogil:
    # multiple is a power of two; size is known to be far from 2^63.
    return (size + multiple - 1) & ~(multiple - 1)


cdef inline bint inside(int64_t offset, int64_t length, int64_t size) noexcept nogil:
    """Whether [offset, offset + length) lies in [0, size): compared by subtraction, because sums overflow."""
    return offset >= 0 and length >= 0 and offset <= size and length <= size - offset
