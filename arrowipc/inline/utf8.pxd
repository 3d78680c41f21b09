# UTF-8 validation of a byte range: ASCII at memory speed, the rest by a small state walk.
from libc.stdint cimport int64_t, uint8_t, uint64_t

from arrowipc.inline.loads cimport loose_u64


cdef inline bint is_ascii(const uint8_t* p, int64_t size) noexcept nogil:
    cdef uint64_t high = 0
    cdef int64_t i, words = size >> 3
    cdef const loose_u64* w = <const loose_u64*> p
    for i in range(words):
        high |= w[i]
    for i in range(words << 3, size):
        high |= p[i]
    return (high & <uint64_t> 0x8080808080808080ULL) == 0


cdef inline int64_t utf8_error(const uint8_t* p, int64_t size) noexcept nogil:
    """Return the byte offset of the first sequence that is not UTF-8 (RFC 3629), or -1."""
    cdef int64_t i = 0
    cdef uint8_t lead, low, high
    cdef int more
    while i < size:
        lead = p[i]
        if lead < 0x80:
            # Most text is mostly ASCII: skip eight bytes at a time.
            while size - i >= 8 and (<const loose_u64*> (p + i))[0] & <uint64_t> 0x8080808080808080ULL == 0:
                i += 8
            while i < size and p[i] < 0x80:
                i += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0          # overlong forms
            elif lead == 0xED:
                high = 0x9F         # surrogates
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F         # above U+10FFFF
        else:
            return i
        if more >= size - i or p[i + 1] < low or p[i + 1] > high:
            return i
        if more >= 2 and p[i + 2] & 0xC0 != 0x80:
            return i
        if more == 3 and p[i + 3] & 0xC0 != 0x80:
            return i
        i += more + 1
    return -1
