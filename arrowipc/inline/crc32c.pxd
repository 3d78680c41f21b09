# CRC-32C (Castagnoli; RFC 3720): by carry-less products (of 512 or 128 bits), by the instruction of ARM, or by tables.
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    static uint32_t crc_table[8][256];

    static void crc_init(void) {
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

    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    #define CRC_SSE __attribute__((target("sse4.2,pclmul")))
    #define CRC_AVX __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

    /* `x`, moved on as far as `k` says, and `next`. */
    CRC_SSE static inline __m128i crc_fold(__m128i x, __m128i k, __m128i next) {
        return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0), _mm_clmulepi64_si128(x, k, 0x11)), next);
    }

    CRC_SSE static uint32_t crc_sse(uint32_t crc, const uint8_t *p, int64_t n) {
        uint64_t c = crc, word, words[8];
        if (n >= 128) {
            /* x^(512 + 31) and x^(512 - 33); four at once, as a product takes 4 to 7 cycles */
            __m128i x[4], k = _mm_set_epi32(0, (int) 0x9E4ADDF8u, 0, 0x740EEF02);
            for (int i = 0; i < 4; i++)
                x[i] = _mm_loadu_si128((const __m128i *) (p + 16 * i));
            x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int) crc));
            for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
                for (int i = 0; i < 4; i++)
                    x[i] = crc_fold(x[i], k, _mm_loadu_si128((const __m128i *) (p + 16 * i)));
            memcpy(words, x, 64);
            c = 0;
            for (int i = 0; i < 8; i++)
                c = _mm_crc32_u64(c, words[i]);
        }
        for (; n >= 8; p += 8, n -= 8) {
            memcpy(&word, p, 8);
            c = _mm_crc32_u64(c, word);
        }
        while (n-- > 0)
            c = _mm_crc32_u8((uint32_t) c, *p++);
        return (uint32_t) c;
    }

    /* The same for each 128 bits. */
    CRC_AVX static inline __m512i crc_fold_wide(__m512i x, __m512i k, __m512i next) {
        return _mm512_ternarylogic_epi64(
            _mm512_clmulepi64_epi128(x, k, 0), _mm512_clmulepi64_epi128(x, k, 0x11), next, 0x96);
    }

    CRC_AVX static uint32_t crc_avx(uint32_t crc, const uint8_t *p, int64_t n) {
        /* x^(2048 + 31) and x^(2048 - 33); below the same for 512 bits */
        __m512i k = _mm512_set4_epi32(0, (int) 0xB9E02B86u, 0, (int) 0xDCB17AA4u);
        __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128),
                d = _mm512_loadu_si512(p + 192);
        uint64_t words[8], last = 0;
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
        for (int i = 0; i < 8; i++)
            last = _mm_crc32_u64(last, words[i]);
        return crc_sse((uint32_t) last, p, n);
    }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
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
    #if defined(__GNUC__) && defined(__x86_64__)
        if (n >= 512 && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f"))
            return crc_avx(c, p, n);
        if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
            return crc_sse(c, p, n);
    #elif defined(__ARM_FEATURE_CRC32)
        for (; n >= 8; p += 8, n -= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            c = __crc32cd(c, word);
        }
        while (n-- > 0)
            c = __crc32cb(c, *p++);
        return c;
    #endif
        return crc_portable(c, p, n);
    }
    """
    # Once, before anything else.
    void crc_init()
    # The register after `n` more bytes; it begins as ~0, and the CRC is its complement.
    uint32_t crc_next(uint32_t register, const uint8_t* p, int64_t n)
    # The register moves past `n` bytes of zeros when it is multiplied by crc_power(n).
    uint32_t crc_power(int64_t n)
    uint32_t crc_times(uint32_t a, uint32_t b)
    uint32_t crc_portable(uint32_t register, const uint8_t* p, int64_t n)
