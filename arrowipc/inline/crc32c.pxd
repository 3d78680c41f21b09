# CRC-32C (Castagnoli; RFC 3720): by carry-less products (AVX-512), by the processor's instruction, or by tables.
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
    enum { CRC_LANE = 1024 };   /* bytes of each of three lanes: an instruction takes three cycles */

    /* The register a lane of zeros later: times x^(8 * CRC_LANE - 33) modulo the polynomial, bits reversed. */
    CRC_SSE static inline uint64_t crc_shift(uint64_t c) {
        return _mm_crc32_u64(0, (uint64_t) _mm_cvtsi128_si64(
            _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t) c), _mm_cvtsi64_si128(0x170076FA), 0)));
    }

    CRC_SSE static uint32_t crc_sse(uint32_t crc, const uint8_t *p, int64_t n) {
        uint64_t c = crc, word;
        for (; n >= 3 * CRC_LANE; p += 3 * CRC_LANE, n -= 3 * CRC_LANE) {
            uint64_t second = 0, third = 0, x, y;
            for (int64_t i = 0; i < CRC_LANE; i += 8) {
                memcpy(&word, p + i, 8);
                memcpy(&x, p + CRC_LANE + i, 8);
                memcpy(&y, p + 2 * CRC_LANE + i, 8);
                c = _mm_crc32_u64(c, word);
                second = _mm_crc32_u64(second, x);
                third = _mm_crc32_u64(third, y);
            }
            c = crc_shift(crc_shift(c) ^ second) ^ third;
        }
        for (; n >= 8; p += 8, n -= 8) {
            memcpy(&word, p, 8);
            c = _mm_crc32_u64(c, word);
        }
        while (n-- > 0)
            c = _mm_crc32_u8((uint32_t) c, *p++);
        return (uint32_t) c;
    }

    /* `x`, each 128 bits of it moved on as far as `k` says, and `next`. */
    CRC_AVX static inline __m512i crc_fold(__m512i x, __m512i k, __m512i next) {
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
            a = crc_fold(a, k, _mm512_loadu_si512(p));
            b = crc_fold(b, k, _mm512_loadu_si512(p + 64));
            c = crc_fold(c, k, _mm512_loadu_si512(p + 128));
            d = crc_fold(d, k, _mm512_loadu_si512(p + 192));
        }
        k = _mm512_set4_epi32(0, (int) 0x9E4ADDF8u, 0, 0x740EEF02);
        a = crc_fold(crc_fold(crc_fold(a, k, b), k, c), k, d);
        _mm512_storeu_si512(words, a);
        for (int i = 0; i < 8; i++)
            last = _mm_crc32_u64(last, words[i]);
        return crc_sse((uint32_t) last, p, n);
    }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #endif

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
    uint32_t crc_portable(uint32_t register, const uint8_t* p, int64_t n)
