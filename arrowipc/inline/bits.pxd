# Runs of bits and integers of any width, stored as well as loaded; pure, inline, usable without the GIL.
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc.inline.loads cimport load_few, loose_i16, loose_i32, loose_i64, loose_u64

cdef enum:
    SLACK = 8       # bytes that must be writable behind the last one in use, because bits are stored as words
    WORD = 56       # bits that fit a word at any bit offset


cdef inline uint64_t ones(int64_t count) noexcept nogil:
    """Return a word whose `count` (0..63) low bits are set."""
    return (<uint64_t> 1 << count) - 1


cdef inline void store_bits(uint8_t* out, int64_t at, uint64_t word) noexcept nogil:
    """Put up to 56 bits at bit `at` and zeros behind them; the bits before keep their values."""
    cdef int64_t shift = at & 7
    out += at >> 3
    (<loose_u64*> out)[0] = (out[0] & ones(shift)) | word << shift


cdef inline uint64_t load_bits(const uint8_t* bits, int64_t at, int64_t count) noexcept nogil:
    """Load 1 to 56 bits from bit `at` on."""
    return (load_few(bits + (at >> 3), ((at & 7) + count + 7) >> 3) >> (at & 7)) & ones(count)


cdef inline int64_t append_shifted(uint8_t* out, const uint8_t* bits, int64_t shift, int64_t count) noexcept nogil:
    """Put whole words of bits[shift:] at bit 0; return how many bits: all of `count` but the last 64 to 127."""
    cdef int64_t i, words = (count - 64) >> 6
    for i in range(words):
        (<loose_u64*> out)[i] = ((<const loose_u64*> bits)[i] >> shift
                                 | (<const loose_u64*> bits)[i + 1] << (64 - shift))
    return 64 * words


cdef inline void append_bits(uint8_t* out, int64_t at, const uint8_t* bits, int64_t start,
                             int64_t count) noexcept nogil:
    """Put bits[start : start + count] at bit `at`."""
    cdef int64_t take, shift
    if count >= 128:
        take = -at & 7  # after these bits, whole bytes are written
        store_bits(out, at, load_bits(bits, start, 8) & ones(take))
        at += take
        start += take
        count -= take
        shift = start & 7
        if shift == 0:
            take = count & ~(<int64_t> 7)
            memcpy(out + (at >> 3), bits + (start >> 3), take >> 3)
        else:
            take = append_shifted(out + (at >> 3), bits + (start >> 3), shift, count)
        at += take
        start += take
        count -= take
    while count > 0:
        take = count if count < WORD else WORD
        store_bits(out, at, load_bits(bits, start, take))
        at += take
        start += take
        count -= take


cdef inline void append_ones(uint8_t* out, int64_t at, int64_t count) noexcept nogil:
    cdef int64_t head = -at & 7
    if count > WORD:
        if head:
            store_bits(out, at, ones(head))
            at += head
            count -= head
        memset(out + (at >> 3), 0xFF, count >> 3)
        at += count & ~(<int64_t> 7)
        count &= 7
    if count:
        store_bits(out, at, ones(count))


cdef inline void keep_bits(uint8_t* out, const uint8_t* bits, int64_t start, int64_t count) noexcept nogil:
    """Intersect `count` bits, in words of 64, with bits[start : start + count]; those behind them become 0."""
    cdef loose_u64* words = <loose_u64*> out
    cdef int64_t at, left
    cdef uint64_t word
    for at in range(0, count, 64):
        left = count - at
        word = load_bits(bits, start + at, left if left < 32 else 32)
        if left > 32:
            word |= load_bits(bits, start + at + 32, left - 32 if left < 64 else 32) << 32
        words[at >> 6] &= word


cdef inline int64_t load_int(const uint8_t* p, int64_t i, int32_t width) noexcept nogil:
    """Load the signed integer i of several of `width` bytes each."""
    if width == 4:
        return (<const loose_i32*> p)[i]
    if width == 8:
        return (<const loose_i64*> p)[i]
    if width == 2:
        return (<const loose_i16*> p)[i]
    return (<const int8_t*> p)[i]


cdef inline void store_int(uint8_t* p, int64_t i, int32_t width, int64_t value) noexcept nogil:
    if width == 4:
        (<loose_i32*> p)[i] = <int32_t> value
    elif width == 8:
        (<loose_i64*> p)[i] = value
    elif width == 2:
        (<loose_i16*> p)[i] = <int16_t> value
    else:
        (<int8_t*> p)[i] = <int8_t> value


cdef inline int64_t largest(int32_t width, bint signed) noexcept nogil:
    """Return the largest value of an integer of `width` bytes, as far as int64 reaches."""
    return INT64_MAX if width == 8 else (<int64_t> 1 << (8 * width - signed)) - 1


cdef inline void shift_offsets(uint8_t* out, const uint8_t* offsets, int64_t count, int32_t width,
                               int64_t shift) noexcept nogil:
    """Copy offsets, each `shift` higher; wrong ones stay wrong. The sum is unsigned, because it may wrap."""
    cdef int64_t i
    if width == 4:
        for i in range(count):
            (<loose_i32*> out)[i] = <int32_t> ((<const loose_i32*> offsets)[i] + shift)
    else:
        for i in range(count):
            (<loose_i64*> out)[i] = <int64_t> (<uint64_t> (<const loose_i64*> offsets)[i] + <uint64_t> shift)
