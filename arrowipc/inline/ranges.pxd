# Stretches of elements that are copied as they lie, once or several times, and nulls between them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc.inline.bits cimport append_bits, append_ones, load_int, store_bits, store_int
from arrowipc.inline.loads cimport (
    add_overflows, get_bit, load_i32, load_i64, loose_i32, loose_i64, mul_overflows,
)

cdef struct TakeRange:
    # Some elements that follow each other.
    int64_t start       # -1: nulls
    int64_t count
    int64_t times       # how often all of them come, one after the other


cdef inline int sum_rows(const TakeRange* ranges, int64_t n, int64_t* total, bint* nulls) noexcept nogil:
    """Rows that the ranges stand for, and whether some are null; -1 when their number overflows."""
    cdef int64_t k, rows
    total[0] = 0
    nulls[0] = False
    for k in range(n):
        nulls[0] |= ranges[k].start < 0
        if (mul_overflows(ranges[k].count, ranges[k].times, &rows)
                or add_overflows(total[0], rows, total)):
            return -1
    return 0


cdef inline void take_bits(uint8_t* out, const uint8_t* bits, int64_t base, const TakeRange* ranges,
                           int64_t n) noexcept nogil:
    """Bits of the elements taken; without `bits` all are 1, of null ranges all are 0."""
    cdef int64_t at = 0, k, t, count, left
    for k in range(n):
        count = ranges[k].count * ranges[k].times
        if ranges[k].start < 0:
            left = count
            while left > 0:
                store_bits(out, at, 0)
                at += min(left, <int64_t> 56)
                left -= min(left, <int64_t> 56)
        elif bits == NULL or (ranges[k].count == 1 and get_bit(bits, base + ranges[k].start)):
            append_ones(out, at, count)
            at += count
        elif ranges[k].count == 1:
            left = count
            while left > 0:
                store_bits(out, at, 0)
                at += min(left, <int64_t> 56)
                left -= min(left, <int64_t> 56)
        else:
            for t in range(ranges[k].times):
                append_bits(out, at, bits, base + ranges[k].start, ranges[k].count)
                at += ranges[k].count


cdef inline void take_words(uint8_t* out, const uint8_t* values, int64_t width, const TakeRange* ranges, int64_t n,
                            bint singles) noexcept nogil:
    """Values of `width` bytes; zeros where null. `values` points at element 0 of the ranges.

    `singles`: each range is one element, and none is null.
    """
    cdef int64_t k, t, size
    cdef int64_t word8
    cdef int32_t word4
    if singles and width == 8:
        for k in range(n):
            (<loose_i64*> out)[k] = load_i64(values + 8 * ranges[k].start)
        return
    if singles and width == 4:
        for k in range(n):
            (<loose_i32*> out)[k] = load_i32(values + 4 * ranges[k].start)
        return
    for k in range(n):
        size = ranges[k].count * width
        if ranges[k].start < 0:
            memset(out, 0, size * ranges[k].times)
            out += size * ranges[k].times
        elif size == 8:
            word8 = load_i64(values + ranges[k].start * width)
            for t in range(ranges[k].times):
                (<loose_i64*> out)[t] = word8
            out += 8 * ranges[k].times
        elif size == 4:
            word4 = load_i32(values + ranges[k].start * width)
            for t in range(ranges[k].times):
                (<loose_i32*> out)[t] = word4
            out += 4 * ranges[k].times
        elif size and ranges[k].times:
            out = put_times(out, values + ranges[k].start * width, size, ranges[k].times)


cdef inline uint8_t* put_times(uint8_t* out, const uint8_t* p, int64_t size, int64_t times) noexcept nogil:
    """Write the same bytes once or several times and return the end; what is there doubles with each copy."""
    cdef int64_t done = size, total = size * times
    memcpy(out, p, size)
    while done < total:
        size = min(done, total - done)
        memcpy(out + done, out, size)
        done += size
    return out + total


cdef inline void take_offsets(uint8_t* out, const uint8_t* offsets, int32_t width, const TakeRange* ranges,
                              int64_t n) noexcept nogil:
    """Offsets of the elements taken, which lie one behind the other now."""
    cdef int64_t k, t, i, first, size, at = 0, row = 1
    store_int(out, 0, width, 0)
    for k in range(n):
        if ranges[k].start < 0:
            for t in range(ranges[k].count * ranges[k].times):
                store_int(out, row, width, at)
                row += 1
            continue
        first = load_int(offsets, ranges[k].start, width)
        if ranges[k].count == 1:
            size = load_int(offsets, ranges[k].start + 1, width) - first
            for t in range(ranges[k].times):
                at += size
                store_int(out, row, width, at)
                row += 1
            continue
        for t in range(ranges[k].times):
            for i in range(ranges[k].start + 1, ranges[k].start + ranges[k].count + 1):
                # What lies between the ends of a range may be wild, and stays it: unsigned, as it may wrap.
                store_int(out, row, width,
                          <int64_t> (<uint64_t> load_int(offsets, i, width) - <uint64_t> first + <uint64_t> at))
                row += 1
            at += load_int(offsets, ranges[k].start + ranges[k].count, width) - first


cdef inline void take_data(uint8_t* out, const uint8_t* offsets, int32_t width, const uint8_t* data,
                           const TakeRange* ranges, int64_t n) noexcept nogil:
    """The text itself; `measure_spans` has looked at the offsets."""
    cdef int64_t k, first, size
    for k in range(n):
        if ranges[k].start < 0:
            continue
        first = load_int(offsets, ranges[k].start, width)
        size = load_int(offsets, ranges[k].start + ranges[k].count, width) - first
        if size and ranges[k].times:
            out = put_times(out, data + first, size, ranges[k].times)


cdef inline int64_t child_ranges(TakeRange* out, const uint8_t* offsets, int32_t width, const TakeRange* ranges,
                                 int64_t n) noexcept nogil:
    """The ranges of the child's elements that the lists taken hold; returns how many."""
    cdef int64_t k, used = 0
    for k in range(n):
        if ranges[k].start < 0:
            continue
        out[used].start = load_int(offsets, ranges[k].start, width)
        out[used].count = load_int(offsets, ranges[k].start + ranges[k].count, width) - out[used].start
        out[used].times = ranges[k].times
        used += out[used].count > 0
    return used
