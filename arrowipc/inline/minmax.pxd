# Minimum and maximum of consecutive numbers: loops that compilers vectorize, on x86-64 for up to three instruction
# sets, on 64-bit ARM for NEON, which every processor has.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

from arrowipc.inline.bits cimport WORD, load_bits, ones
from arrowipc.inline.loads cimport (
    get_bit, loose_f32, loose_f64, loose_i16, loose_i32, loose_i64, loose_u16, loose_u32, loose_u64,
)

# In C: Cython cannot compile a function for a second instruction set. Only AVX2 has comparisons of 64-bit integers
# and minima of unsigned ones, only AVX-512 minima of 64-bit ones: 0.17 instead of 0.45 ns for a value in the caches.
# Each function widens *low and *high by values without nulls.
cdef extern from * nogil:
    """
    #include <stdint.h>

    #if defined(__GNUC__) && defined(__x86_64__)
    #define ARROWIPC_FOR(set, result, name, type)                                                               \
        __attribute__((target(#set)))                                                                           \
        static result name##_##set(const type *v, int64_t n, type *l, type *h) { return name##_loop(v, n, l, h); }
    #define ARROWIPC_DISPATCH(result, name, type)                                                               \
        ARROWIPC_FOR(avx2, result, name, type)                                                                  \
        static result name(const type *v, int64_t n, type *l, type *h) {                                        \
            return __builtin_cpu_supports("avx2") ? name##_avx2(v, n, l, h) : name##_loop(v, n, l, h);          \
        }
    #define ARROWIPC_DISPATCH_64(result, name, type)                                                            \
        ARROWIPC_FOR(avx2, result, name, type)                                                                  \
        ARROWIPC_FOR(avx512f, result, name, type)                                                               \
        static result name(const type *v, int64_t n, type *l, type *h) {                                        \
            return __builtin_cpu_supports("avx512f") ? name##_avx512f(v, n, l, h)                               \
                : __builtin_cpu_supports("avx2") ? name##_avx2(v, n, l, h) : name##_loop(v, n, l, h);           \
        }
    #else
    #define ARROWIPC_DISPATCH(result, name, type)                                                               \
        static result name(const type *v, int64_t n, type *l, type *h) { return name##_loop(v, n, l, h); }
    #define ARROWIPC_DISPATCH_64 ARROWIPC_DISPATCH
    #endif

    #define ARROWIPC_WIDEN(name, type, dispatch)                                                                \
        __attribute__((always_inline))                                                                          \
        static inline int name##_loop(const type *values, int64_t count, type *low, type *high) {               \
            type least = *low, most = *high;                                                                    \
            for (int64_t i = 0; i < count; i++) {                                                               \
                type value = values[i];                                                                         \
                least = value < least ? value : least;                                                          \
                most = value > most ? value : most;                                                             \
            }                                                                                                   \
            *low = least;                                                                                       \
            *high = most;                                                                                       \
            return 0;                                                                                           \
        }                                                                                                       \
        dispatch(int, name, type)

    /* Values go to several lanes, so that no comparison waits for the one before. Comparisons with NaN are false, so
       it is left out; return whether there is one. */
    #define LANES 8
    #if defined(__GNUC__) && defined(__aarch64__)
    /* GCC finds no vectors for NEON in the loop below. */
    #define ARROWIPC_LANES(type, mask)                                                                          \
        typedef type lanes __attribute__((vector_size(16)));                                                    \
        typedef mask masks __attribute__((vector_size(16)));                                                    \
        enum { EACH = sizeof(lanes) / sizeof(type) };                                                           \
        for (; count - i >= LANES; i += LANES)                                                                  \
            for (int k = 0; k < LANES; k += EACH) {                                                             \
                lanes value, *low_lanes = (lanes *) (least + k), *high_lanes = (lanes *) (most + k);            \
                memcpy(&value, values + i + k, sizeof(value));                                                  \
                masks below = value < *low_lanes, above = value > *high_lanes;                                  \
                *low_lanes = (lanes) (((masks) value & below) | ((masks) *low_lanes & ~below));                 \
                *high_lanes = (lanes) (((masks) value & above) | ((masks) *high_lanes & ~above));               \
                *(masks *) (odd + k) |= value != value;                                                         \
            }
    #else
    #define ARROWIPC_LANES(type, mask)                                                                          \
        for (; count - i >= LANES; i += LANES)                                                                  \
            for (int k = 0; k < LANES; k++) {                                                                   \
                type value = values[i + k];                                                                     \
                least[k] = value < least[k] ? value : least[k];                                                 \
                most[k] = value > most[k] ? value : most[k];                                                    \
                odd[k] |= value != value;                                                                       \
            }
    #endif
    #define ARROWIPC_WIDEN_REAL(name, type, mask)                                                               \
        __attribute__((always_inline))                                                                          \
        static inline int name##_loop(const type *values, int64_t count, type *low, type *high) {               \
            type least[LANES] __attribute__((aligned(16))), most[LANES] __attribute__((aligned(16)));           \
            mask odd[LANES] __attribute__((aligned(16)));                                                       \
            int64_t i = 0;                                                                                      \
            for (int k = 0; k < LANES; k++) {                                                                   \
                least[k] = *low;                                                                                \
                most[k] = *high;                                                                                \
                odd[k] = 0;                                                                                     \
            }                                                                                                   \
            ARROWIPC_LANES(type, mask)                                                                          \
            for (; i < count; i++) {                                                                            \
                type value = values[i];                                                                         \
                least[0] = value < least[0] ? value : least[0];                                                 \
                most[0] = value > most[0] ? value : most[0];                                                    \
                odd[0] |= value != value;                                                                       \
            }                                                                                                   \
            for (int k = 0; k < LANES; k++) {                                                                   \
                *low = least[k] < *low ? least[k] : *low;                                                       \
                *high = most[k] > *high ? most[k] : *high;                                                      \
                odd[0] |= odd[k];                                                                               \
            }                                                                                                   \
            return odd[0] != 0;                                                                                 \
        }                                                                                                       \
        ARROWIPC_DISPATCH(int, name, type)

    ARROWIPC_WIDEN(widen_i8, int8_t, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_u8, uint8_t, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_i16, loose_i16, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_u16, loose_u16, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_i32, loose_i32, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_u32, loose_u32, ARROWIPC_DISPATCH)
    ARROWIPC_WIDEN(widen_i64, loose_i64, ARROWIPC_DISPATCH_64)
    ARROWIPC_WIDEN(widen_u64, loose_u64, ARROWIPC_DISPATCH_64)
    ARROWIPC_WIDEN_REAL(widen_f32, loose_f32, int32_t)
    ARROWIPC_WIDEN_REAL(widen_f64, loose_f64, int64_t)

    #define ARROWIPC_WIDEN_ANY(values, count, low, high) _Generic((values),                                     \
        const int8_t *: widen_i8, const uint8_t *: widen_u8, const loose_i16 *: widen_i16,                      \
        const loose_u16 *: widen_u16, const loose_i32 *: widen_i32, const loose_u32 *: widen_u32,               \
        const loose_i64 *: widen_i64, const loose_u64 *: widen_u64, const loose_f32 *: widen_f32,               \
        const loose_f64 *: widen_f64)(values, count, low, high)
    """
    # Widen the bounds by values without nulls: const Number* values, int64_t count, Number* low, Number* high.
    int widen "ARROWIPC_WIDEN_ANY"(...) noexcept
    # The same for Real; return whether there is a NaN, which is left out.
    int widen_reals "ARROWIPC_WIDEN_ANY"(...) noexcept

ctypedef fused Number:
    int8_t
    uint8_t
    loose_i16
    loose_u16
    loose_i32
    loose_u32
    loose_i64
    loose_u64

ctypedef fused Real:
    loose_f32
    loose_f64


cdef inline bint bounds_of(const Number* values, int64_t count, const uint8_t* bits, int64_t at, int64_t* least,
                           int64_t* most) noexcept nogil:
    """Do what `integer_bounds` does, for one type."""
    cdef int64_t i = 0, k, n
    cdef uint64_t word
    cdef Number low, high, value
    while bits != NULL and i < count and not get_bit(bits, at + i):
        i += 1
    if i == count:
        return False
    low = high = values[i]
    if bits == NULL:
        widen(values, count, &low, &high)
        i = count
    while i < count:
        n = min(count - i, <int64_t> WORD)
        word = load_bits(bits, at + i, n)
        if word == ones(n):
            widen(values + i, n, &low, &high)
        elif word:
            for k in range(n):
                # A value under a null is replaced by one that changes nothing.
                value = values[i + k] if (word >> k) & 1 else low
                low = value if value < low else low
                high = value if value > high else high
        i += n
    least[0], most[0] = <int64_t> low, <int64_t> high
    return True


cdef inline bint integer_bounds(const uint8_t* p, int32_t width, bint signed, int64_t count, const uint8_t* bits,
                                int64_t at, int64_t* least, int64_t* most) noexcept nogil:
    """Find the bounds of the integers whose bits, from bit `at` on, are set (NULL: of all); False if there are none.

    The bounds of 64-bit unsigned integers are stored bit by bit in the signed results.
    """
    if width == 1:
        return (bounds_of(<const int8_t*> p, count, bits, at, least, most) if signed
                else bounds_of(p, count, bits, at, least, most))
    if width == 2:
        return (bounds_of(<const loose_i16*> p, count, bits, at, least, most) if signed
                else bounds_of(<const loose_u16*> p, count, bits, at, least, most))
    if width == 4:
        return (bounds_of(<const loose_i32*> p, count, bits, at, least, most) if signed
                else bounds_of(<const loose_u32*> p, count, bits, at, least, most))
    return (bounds_of(<const loose_i64*> p, count, bits, at, least, most) if signed
            else bounds_of(<const loose_u64*> p, count, bits, at, least, most))
