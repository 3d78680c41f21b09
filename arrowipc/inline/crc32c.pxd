# CRC-32C (Castagnoli; RFC 3720): by carry-less products (of 512 or 128 bits), by words, or by tables.
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    /* Instructions of processors: the product of two polynomials of 64 bits; the register's step by a word or byte. */
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    #ifdef __clang__        /* For GCC, these steps are a part of SSE 4.2. */
    #define CRC_STEPS "sse4.2,crc32"
    #else
    #define CRC_STEPS "sse4.2"
    #endif
    #define CRC_WORDS __attribute__((target(CRC_STEPS)))
    #define CRC_FOLDED __attribute__((target(CRC_STEPS ",pclmul")))
    #define CRC_AVX __attribute__((target("avx512f,vpclmulqdq,pclmul," CRC_STEPS)))
    #define CRC_HAS_WORDS __builtin_cpu_supports("sse4.2")
    #define CRC_HAS_FOLDED (CRC_HAS_WORDS && __builtin_cpu_supports("pclmul"))
    #define crc_word(c, word) (uint32_t) _mm_crc32_u64(c, word)
    #define crc_byte _mm_crc32_u8
    #define crc_low(x, k) (crc_pair) _mm_clmulepi64_si128((__m128i) (x), (__m128i) (k), 0)
    #define crc_high(x, k) (crc_pair) _mm_clmulepi64_si128((__m128i) (x), (__m128i) (k), 0x11)
    #elif defined(__GNUC__) && defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
    #include <arm_acle.h>
    #include <arm_neon.h>
    #if defined(__linux__)
    #include <sys/auxv.h>
    #define CRC_WORDS __attribute__((target("+crc")))
    #define CRC_FOLDED __attribute__((target("+crc+crypto")))
    #define CRC_HAS_WORDS ((getauxval(AT_HWCAP) & HWCAP_CRC32) != 0)
    #define CRC_HAS_FOLDED (CRC_HAS_WORDS && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0)
    #else
    #define CRC_WORDS       /* All Macs have both. */
    #define CRC_FOLDED
    #define CRC_HAS_WORDS 1
    #define CRC_HAS_FOLDED 1
    #endif
    #define crc_word __crc32cd
    #define crc_byte __crc32cb
    #define crc_low(x, k) (crc_pair) vmull_p64((poly64_t) (x)[0], (poly64_t) (k)[0])
    #define crc_high(x, k) (crc_pair) vmull_high_p64((poly64x2_t) (x), (poly64x2_t) (k))
    #else
    #define CRC_HAS_WORDS 0
    #define CRC_HAS_FOLDED 0
    #endif

    static int crc_has_words, crc_has_folded;

    static uint32_t crc_table[8][256];

    static void crc_init(void) {
        crc_has_words = CRC_HAS_WORDS;
        crc_has_folded = CRC_HAS_FOLDED;
        for (int i = 0; i < 256; i++) {
            uint32_t c = (uint32_t) i;
            for (int k = 0; k < 8; k++)
                c = (c >> 1) ^ (c & 1 ? 0x82F63B78u : 0);
            crc_table[0][i] = c;
        }
        for (int i = 0; i < 256; i++)
            for (int t = 1; t < 8; t++)
                crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 255];
    }

    static uint32_t crc_portable(uint32_t c, const uint8_t *p, int64_t n) {
        for (; n >= 8; p += 8, n -= 8) {
            uint32_t next = 0;
            for (int k = 0; k < 8; k++)     /* the register is added to the first four bytes */
                next ^= crc_table[7 - k][p[k] ^ (k < 4 ? c >> 8 * k & 255 : 0)];
            c = next;
        }
        while (n-- > 0)
            c = (c >> 8) ^ crc_table[0][(c ^ *p++) & 255];
        return c;
    }

    #if defined(CRC_WORDS)
    CRC_WORDS static uint32_t crc_words(uint32_t c, const uint8_t *p, int64_t n) {
        uint64_t word;
        for (; n >= 8; p += 8, n -= 8) {
            memcpy(&word, p, 8);
            c = crc_word(c, word);
        }
        for (; n > 0; p++, n--)
            c = crc_byte(c, *p);
        return c;
    }

    typedef uint64_t crc_pair __attribute__((vector_size(16)));

    /* For 128 bytes and more. */
    CRC_FOLDED static uint32_t crc_folded(uint32_t c, const uint8_t *p, int64_t n) {
        /* x^(512 + 31) and x^(512 - 33) move by 64 bytes; four products at once, because one takes 2 to 7 cycles */
        crc_pair x[4], next, k = {0x740EEF02u, 0x9E4ADDF8u};
        memcpy(x, p, 64);
        x[0][0] ^= c;
        for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
            for (int i = 0; i < 4; i++) {
                memcpy(&next, p + 16 * i, 16);
                x[i] = crc_low(x[i], k) ^ crc_high(x[i], k) ^ next;
            }
        return crc_words(crc_words(0, (const uint8_t *) x, 64), p, n);
    }
    #endif

    #if defined(CRC_AVX)
    /* Fold each 128 bits as above. */
    CRC_AVX static inline __m512i crc_fold_wide(__m512i x, __m512i k, __m512i next) {
        return _mm512_ternarylogic_epi64(
            _mm512_clmulepi64_epi128(x, k, 0), _mm512_clmulepi64_epi128(x, k, 0x11), next, 0x96);
    }

    CRC_AVX static uint32_t crc_avx(uint32_t crc, const uint8_t *p, int64_t n) {
        /* x^(2048 + 31) and x^(2048 - 33); below the same for 512 bits */
        __m512i k = _mm512_set4_epi32(0, (int) 0xB9E02B86u, 0, (int) 0xDCB17AA4u);
        __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128),
                d = _mm512_loadu_si512(p + 192);
        uint64_t words[8];
        a = _mm512_xor_si512(a, _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, crc));
        for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
            a = crc_fold_wide(a, k, _mm512_loadu_si512(p));
            b = crc_fold_wide(b, k, _mm512_loadu_si512(p + 64));
            c = crc_fold_wide(c, k, _mm512_loadu_si512(p + 128));
            d = crc_fold_wide(d, k, _mm512_loadu_si512(p + 192));
        }
        k = _mm512_set4_epi32(0, (int) 0x9E4ADDF8u, 0, 0x740EEF02);
        a = crc_fold_wide(crc_fold_wide(crc_fold_wide(a, k, b), k, c), k, d);
        _mm512_storeu_si512(words, a);
        crc = crc_words(0, (const uint8_t *) words, 64);
        return n >= 128 ? crc_folded(crc, p, n) : crc_words(crc, p, n);
    }
    #endif

    /* a * b modulo the polynomial; x^0 is the highest bit. */
    static uint32_t crc_times(uint32_t a, uint32_t b) {
        uint32_t product = 0;
        for (; a; a <<= 1, b = (b >> 1) ^ (b & 1 ? 0x82F63B78u : 0))
            product ^= a >> 31 ? b : 0;
        return product;
    }

    static uint32_t crc_power(int64_t n) {
        uint32_t power = 0x80000000u, x = 0x00800000u;
        for (; n; n >>= 1, x = crc_times(x, x))
            power = n & 1 ? crc_times(power, x) : power;
        return power;
    }

    static uint32_t crc_next(uint32_t c, const uint8_t *p, int64_t n) {
    #if defined(CRC_AVX)
        if (n >= 512 && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f"))
            return crc_avx(c, p, n);
    #endif
    #if defined(CRC_WORDS)
        if (n >= 128 && crc_has_folded)
            return crc_folded(c, p, n);
        if (crc_has_words)
            return crc_words(c, p, n);
    #endif
        return crc_portable(c, p, n);
    }
    """
    # Make the tables, once, before anything else is called.
    void crc_init()
    # Return the register after `n` more bytes; it begins as ~0, and the CRC is its complement.
    uint32_t crc_next(uint32_t register, const uint8_t* p, int64_t n)
    # The register moves past `n` bytes of zeros when it is multiplied by crc_power(n).
    uint32_t crc_power(int64_t n)
    uint32_t crc_times(uint32_t a, uint32_t b)
    # Do what `crc_next` does, by tables.
    uint32_t crc_portable(uint32_t register, const uint8_t* p, int64_t n)
