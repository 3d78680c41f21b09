"""Finds the elements of a column that lie in ranges of values: every comparison of a filter is such a search.

Numbers, times and booleans are compared as integers that have the same order; text and binary as bytes, the first eight
of them as one number. Floats have one order: NaN equals NaN and is above all others, and the two zeros are equal. A
null lies neither inside nor outside of a range.

Marks are bits in words of 64; the bits behind the last element mean nothing.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from arrowipc._core cimport Memory, raise_fault
from arrowipc.columns.array cimport Array, dictionary_array
from arrowipc.columns.elements cimport check_native
from arrowipc.columns.take cimport new_marks
from arrowipc.inline.bits cimport append_ones, keep_bits, load_int
from arrowipc.inline.element cimport find_run, float_key, index_at, load_unsigned, next_run, validity, word_span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport Type_FixedSizeBinary, Type_FloatingPoint, Type_Int, Type_Interval
from arrowipc.inline.loads cimport bswap64, get_bit, load_i64, loose_u64, set_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_VAR32,
    LAYOUT_VAR64, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan,
)

from decimal import Context

from arrowipc.errors import UsageError

cdef object EXACT = Context(prec=80)    # 256 bits have at most 78 digits

cdef struct Ranges:
    # Disjoint and rising, with both ends included.
    const int64_t* lows
    const int64_t* highs
    int64_t count


cdef struct Bound:
    const uint8_t* data
    int64_t size        # -1: above all words
    uint64_t key        # see `word_key`


cdef enum Kind:
    SIGNED, UNSIGNED, FLOATS


cdef inline int64_t key_at(const uint8_t* p, int64_t i, int32_t width, int kind) noexcept nogil:
    """Return the key of value `i`: an integer that sorts as the value does."""
    if kind == FLOATS:
        return float_key(load_unsigned(p + i * width, width), width)
    if kind == SIGNED:
        return load_int(p, i, width)
    if width == 8:
        return <int64_t> (load_unsigned(p + 8 * i, 8) ^ <uint64_t> 1 << 63)
    return load_unsigned(p + i * width, width)


cdef inline bint holds(const Ranges* ranges, int64_t key) noexcept nogil:
    """Whether one of several ranges contains a key: only the last one that begins at or below it can."""
    cdef int64_t low = 0, high = ranges.count, middle
    while low < high:
        middle = (low + high) >> 1
        if ranges.lows[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low > 0 and key <= ranges.highs[low - 1]


cdef inline uint8_t marks_of_keys(const uint8_t* p, int64_t count, int32_t width, int kind, uint64_t low,
                                  uint64_t size) noexcept nogil:
    """Return a bit for each of up to eight numbers, set for keys from `low` to `low + size`."""
    cdef uint8_t marks = 0, inside
    cdef int64_t i
    for i in range(count):
        # One comparison checks both ends: for a key below `low` the difference wraps.
        inside = <uint64_t> key_at(p, i, width, kind) - low <= size
        marks |= inside << i
    return marks


cdef inline void mark_keys(uint8_t* out, const uint8_t* p, int64_t count, int32_t width, int kind,
                           const Ranges* ranges) noexcept nogil:
    cdef uint64_t low = <uint64_t> ranges.lows[0], size = <uint64_t> ranges.highs[0] - low
    cdef int64_t i
    if ranges.count == 1:
        for i in range(count >> 3):
            out[i] = marks_of_keys(p + 8 * i * width, 8, width, kind, low, size)
        if count & 7:
            i = count >> 3
            out[i] = marks_of_keys(p + 8 * i * width, count & 7, width, kind, low, size)
    else:
        for i in range(count):
            if holds(ranges, key_at(p, i, width, kind)):
                set_bit(out, i)


cdef void mark_numbers(uint8_t* out, const ColumnsData* d, int32_t f, int64_t at, int64_t count,
                       const Ranges* ranges) noexcept nogil:
    """Set the bits of the numbers that lie in one of the ranges; there is at least one range."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef int32_t width = field.width
    cdef const uint8_t* p = d.extents[field.first_buffer + 1].data + at * width
    cdef int kind = FLOATS if field.type == Type_FloatingPoint else SIGNED
    if field.type == Type_Int and not field.flags & FIELD_SIGNED:
        kind = UNSIGNED
    # Each width and kind has its own loop, in which they are constants and need no comparisons.
    if kind == FLOATS:
        if width == 8:
            mark_keys(out, p, count, 8, FLOATS, ranges)
        elif width == 4:
            mark_keys(out, p, count, 4, FLOATS, ranges)
        else:
            mark_keys(out, p, count, 2, FLOATS, ranges)
    elif kind == SIGNED:
        if width == 8:
            mark_keys(out, p, count, 8, SIGNED, ranges)
        elif width == 4:
            mark_keys(out, p, count, 4, SIGNED, ranges)
        else:
            mark_keys(out, p, count, width, SIGNED, ranges)
    else:
        mark_keys(out, p, count, width, UNSIGNED, ranges)


cdef void mark_bools(uint8_t* out, const uint8_t* bits, int64_t at, int64_t count,
                     const Ranges* ranges) noexcept nogil:
    """Set the bits of the booleans that lie in one of the ranges."""
    cdef bint[2] marked = [holds(ranges, 0), holds(ranges, 1)]
    cdef int64_t i
    for i in range(count):
        if marked[get_bit(bits, at + i)]:
            set_bit(out, i)


cdef inline int compare_words(const uint8_t* a, int64_t n, const uint8_t* b, int64_t m) noexcept nogil:
    cdef int found = memcmp(a, b, min(n, m)) if n and m else 0
    return found if found else (n > m) - (n < m)


cdef inline uint64_t word_key(const uint8_t* data, int64_t size, int64_t room) noexcept nogil:
    """Return the first eight bytes of a word as a number, with zeros behind its end; words sort as different keys do.

    `room` bytes can be read; the first `size` of them are the word.
    """
    cdef uint64_t key = 0
    cdef int64_t i
    if room >= 8:
        key = bswap64(<uint64_t> load_i64(data))
        return key if size >= 8 else key & ~(<uint64_t> -1 >> 8 * size)
    for i in range(min(size, <int64_t> 8)):
        key |= <uint64_t> data[i] << (56 - 8 * i)
    return key


cdef inline bint below(const uint8_t* data, int64_t size, uint64_t key, const Bound* end) noexcept nogil:
    if key != end.key:
        return key < end.key
    return end.size < 0 or compare_words(data, size, end.data, end.size) < 0


cdef struct Words:
    # Disjoint and rising ranges of words.
    const Bound* starts     # included
    const Bound* stops      # not included
    int64_t count
    bint one                # there is one range, which contains one word


cdef inline bint is_word(const uint8_t* data, int64_t size, int64_t room, const Bound* word) noexcept nogil:
    return size == word.size and word_key(data, size, room) == word.key and (
        size <= 8 or memcmp(data + 8, word.data + 8, size - 8) == 0)


cdef inline bint lies_in(const uint8_t* data, int64_t size, int64_t room, const Words* words) noexcept nogil:
    """Whether a word lies in one of the ranges."""
    cdef uint64_t key = word_key(data, size, room)
    cdef int64_t low = 0, high = words.count, middle
    while low < high:
        middle = (low + high) >> 1
        if below(data, size, key, &words.starts[middle]):
            high = middle
        else:
            low = middle + 1
    return low > 0 and below(data, size, key, &words.stops[low - 1])


cdef inline bint mark_texts(loose_u64* out, const Extent* buffers, int32_t width, int64_t at, int64_t count,
                            const Words* words, bint one) noexcept nogil:
    """Mark what `mark_each_word` marks, and perhaps nulls, in a layout with offsets; False: the offsets are broken."""
    cdef const uint8_t* data
    cdef const uint8_t* offsets = buffers[0].data + at * width
    cdef int64_t limit = buffers[1].size, start, end, first, i
    cdef uint64_t marks, inside
    if count == 0:
        return True     # there may be no offsets
    start = load_int(offsets, 0, width)
    if start < 0:
        return False
    for first in range(0, count, 64):
        marks = 0
        for i in range(first, min(first + 64, count)):
            end = load_int(offsets, i + 1, width)
            if not start <= end <= limit:
                return False
            data = buffers[1].data + start
            if one:
                inside = is_word(data, end - start, limit - start, words.starts)
            else:
                inside = lies_in(data, end - start, limit - start, words)
            marks |= inside << (i - first)
            start = end
        out[first >> 6] = marks
    return True


cdef int mark_each_word(uint8_t* out, const ColumnsData* d, int32_t f, int64_t at, int64_t count, const Words* words,
                        Fault* fault) noexcept nogil:
    """Set the bits of the words that are not null and lie in one of the ranges."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* fixed = d.extents[field.first_buffer + 1].data
    cdef const uint8_t* valid = validity(d, f)
    cdef const uint8_t* data = NULL
    cdef int64_t size = field.width, room, i
    for i in range(count):
        if valid != NULL and not get_bit(valid, at + i):
            continue
        if field.layout == LAYOUT_FIXED:
            data = fixed + (at + i) * size
        elif word_span(d, f, at + i, &data, &size, fault) < 0:
            return -1
        # A view that contains its word has twelve bytes for it.
        room = max(size, <int64_t> 12) if field.layout == LAYOUT_VIEW else size
        if is_word(data, size, room, words.starts) if words.one else lies_in(data, size, room, words):
            set_bit(out, i)
    return 0


cdef int mark_words(uint8_t* out, const ColumnsData* d, int32_t f, int64_t at, int64_t count, const Words* words,
                    Fault* fault) noexcept nogil:
    """Set the bits of the words that lie in one of the ranges; the bits of nulls mean nothing."""
    cdef const Extent* buffers = &d.extents[d.plan.fields[f].first_buffer + 1]
    cdef loose_u64* marks = <loose_u64*> out
    cdef int layout = d.plan.fields[f].layout
    cdef bint done = False
    # Each case has its own loop, with constants that need no comparisons.
    if layout == LAYOUT_VAR32 and words.one:
        done = mark_texts(marks, buffers, 4, at, count, words, True)
    elif layout == LAYOUT_VAR32:
        done = mark_texts(marks, buffers, 4, at, count, words, False)
    elif layout == LAYOUT_VAR64:
        done = mark_texts(marks, buffers, 8, at, count, words, words.one)
    return 0 if done else mark_each_word(out, d, f, at, count, words, fault)


cdef Memory words_of(list bounds):
    """Return the addresses and sizes of bytes objects, which the caller keeps alive; None is above all words."""
    cdef Memory out = Memory(len(bounds) * sizeof(Bound))
    cdef int64_t i
    cdef const uint8_t* data
    cdef int64_t size
    for i, bound in enumerate(bounds):
        if bound is None:
            (<Bound*> out.data)[i] = Bound(NULL, -1, <uint64_t> -1)
        else:
            data, size = <const uint8_t*> PyBytes_AS_STRING(bound), PyBytes_GET_SIZE(bound)
            (<Bound*> out.data)[i] = Bound(data, size, word_key(data, size, size))
    return out


cdef class Marker:
    """Marks the elements that lie in some ranges (`inverted`: in none), for columns of one type.

    Ranges are disjoint and rising. Ranges of integers include both ends; ranges of bytes do not include the second one,
    which is None for no end. None instead of ranges marks every element that is not null.
    """

    cdef list starts, stops     # ends of ranges: integers, or bytes
    cdef bint inverted, all
    cdef Memory lows, highs

    def __init__(self, ranges, bint inverted):
        self.inverted = inverted
        self.all = ranges is None
        self.starts = [start for start, _ in ranges or ()]
        self.stops = [stop for _, stop in ranges or ()]
        if self.starts and isinstance(self.starts[0], bytes):
            self.lows, self.highs = words_of(self.starts), words_of(self.stops)
        else:
            self.lows, self.highs = integers_of(self.starts), integers_of(self.stops)

    def marks(self, Array array not None):
        """Return a bit for each element, set for those that are marked; raise a FormatError if values are broken."""
        cdef const ColumnsData* d = &array.columns.d
        cdef int layout = d.plan.fields[array.index].layout
        cdef Memory out = new_marks(array.length)
        check_native(array.columns, "a filter")
        if d.plan.fields[array.index].flags & FIELD_ENCODED:
            self.of_indices(array, out.data)
        elif layout == LAYOUT_RUN_END:
            self.of_runs(array, out.data)
        elif self.all and layout != LAYOUT_NULL:
            append_ones(out.data, 0, array.length)
        elif layout != LAYOUT_NULL:
            self.of_values(array, out)
        drop_nulls(out, array)
        return out

    cdef int of_values(self, Array array, Memory out) except -1:
        cdef const ColumnsData* d = &array.columns.d
        cdef const FieldPlan* field = &d.plan.fields[array.index]
        cdef int64_t count = len(self.starts)
        cdef Ranges ranges = Ranges(<const int64_t*> self.lows.data, <const int64_t*> self.highs.data, count)
        cdef Words words = Words(<const Bound*> self.lows.data, <const Bound*> self.highs.data, count, False)
        cdef Fault fault
        cdef int found = 0
        # There are no ranges for an empty list of literals, which fits every type.
        if ranges.count and (LAYOUT_VAR32 <= field.layout <= LAYOUT_VIEW or field.type == Type_FixedSizeBinary):
            words.one = count == 1 and self.stops[0] == self.starts[0] + b"\0"
            with nogil:
                found = mark_words(out.data, d, array.index, array.offset, array.length, &words, &fault)
            if found < 0:
                raise_fault(&fault, array.columns.plan)
        elif ranges.count and field.layout == LAYOUT_BOOL:
            mark_bools(out.data, d.extents[field.first_buffer + 1].data, array.offset, array.length, &ranges)
        elif ranges.count and field.layout == LAYOUT_FIXED and field.width <= 8 and field.type != Type_Interval:
            with nogil:
                mark_numbers(out.data, d, array.index, array.offset, array.length, &ranges)
        elif ranges.count:
            # These are decimals of many digits; their ranges are unscaled values.
            self.of_decimals(array, out.data)
        if self.inverted:
            invert_marks(out)
        return 0

    cdef int of_decimals(self, Array array, uint8_t* out) except -1:
        cdef int64_t i
        from bisect import bisect_right
        for i, value in enumerate(array):
            if value is not None:
                number = int(value.scaleb(array.type.scale, EXACT))
                at = bisect_right(self.starts, number)
                if at > 0 and number <= self.stops[at - 1]:
                    set_bit(out, i)
        return 0

    cdef int of_indices(self, Array array, uint8_t* out) except -1:
        """Mark dictionary-encoded elements: each has the mark of the value that its index refers to."""
        cdef const ColumnsData* d = &array.columns.d
        cdef const uint8_t* valid = validity(d, array.index)
        cdef Array dictionary = dictionary_array(array.columns, array.index)
        cdef Memory known = None if dictionary is None else self.marks(dictionary)
        cdef int64_t n_values = 0 if dictionary is None else dictionary.length, i, index
        cdef Fault fault
        for i in range(array.length):
            if valid != NULL and not get_bit(valid, array.offset + i):
                continue
            if index_at(d, array.index, array.offset + i, n_values, &index, &fault) < 0:
                raise_fault(&fault, array.columns.plan)
            if get_bit(known.data, index):
                set_bit(out, i)
        return 0

    cdef int of_runs(self, Array array, uint8_t* out) except -1:
        cdef const ColumnsData* d = &array.columns.d
        cdef Array values = array.children[1]
        cdef Memory known = self.marks(values)
        cdef int64_t at = array.offset, stop = array.offset + array.length, end = 0
        cdef int64_t run = find_run(d, array.index, at)
        cdef Fault fault
        while at < stop:
            if next_run(d, array.index, run, at, &end, &fault) < 0:
                raise_fault(&fault, array.columns.plan)
            end = min(end, stop)
            if get_bit(known.data, run):
                append_ones(out, at - array.offset, end - at)
            at, run = end, run + 1
        return 0


cdef void drop_nulls(Memory marks, Array array) noexcept:
    """Clear the marks of elements that are null."""
    cdef const uint8_t* valid = validity(&array.columns.d, array.index)
    if valid != NULL:
        keep_bits(marks.data, valid, array.offset, array.length)


cdef Memory integers_of(list bounds):
    """Store ends of ranges as int64; those of decimals of many digits may not fit, and are taken from the list."""
    cdef Memory out = Memory(8 * len(bounds))
    cdef int64_t i
    for i, bound in enumerate(bounds):
        (<int64_t*> out.data)[i] = max(-2**63, min(bound, 2**63 - 1))
    return out


def members_marked(Array array not None, Memory marks not None):
    """Clear the marks of a struct's member where the struct is null."""
    if array.length > 64 * (marks.size >> 3):
        raise UsageError(f"expected marks of {array.length:,} elements, found those of {8 * marks.size:,}")
    drop_nulls(marks, array)


def combine_marks(Memory marks not None, Memory others not None, bint both):
    """Intersect `marks` with `others` (`both`), or unite them."""
    cdef loose_u64* words = <loose_u64*> marks.data
    cdef const loose_u64* more = <const loose_u64*> others.data
    cdef int64_t i
    for i in range(min(marks.size, others.size) >> 3):
        words[i] = words[i] & more[i] if both else words[i] | more[i]


def invert_marks(Memory marks not None):
    """Invert the marks; the bits behind the last element mean nothing."""
    cdef loose_u64* words = <loose_u64*> marks.data
    cdef int64_t i
    for i in range(marks.size >> 3):
        words[i] = ~words[i]


def marks_of_all(int64_t count, bint marked):
    """Return marks for `count` elements: all are set, or none is."""
    cdef Memory out = new_marks(count)
    if marked:
        append_ones(out.data, 0, count)
    return out
