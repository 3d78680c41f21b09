"""Proves that the values of a batch are safe to follow ("full") and within their domains ("strict").

Every rule has two loops. The first only answers "is anything wrong": it has no branch and keeps violations in
the sign bit of an accumulator, so that the compiler turns it into vector code. The second runs only after a
failure, and finds the element to name.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from arrowipc._core cimport *
from arrowipc.inline.element cimport run_end, validity
from arrowipc.inline.fault cimport *
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.layouts cimport has_offsets, is_binary, is_list_view, is_union, width_of
from arrowipc.inline.loads cimport (
    count_bits, get_bit, inside, load_i32, load_i64, load_u32, loose_i32, loose_i64, loose_u64,
)
from arrowipc.inline.minmax cimport integer_bounds
from arrowipc.inline.plan cimport *
from arrowipc.inline.room cimport new_zeros
from arrowipc.inline.utf8 cimport is_ascii, utf8_error
from arrowipc.decode.decompress cimport native_copy

ctypedef fused Signed:
    loose_i32
    loose_i64

cdef enum:
    WORTH_RELEASING = 1 << 16   # bytes: handing over the GIL costs as much as validating a tenth of this
    WORTH_THREADS = 1 << 23     # bytes: waking a helper takes as long as validating a quarter of this
    INLINE_VIEW = 12            # longest value that a view holds itself
    TEXT_BLOCK = 1 << 10        # bytes looked at for ASCII before the full test; they stay in the first cache


# -- the pass over all fields --------------------------------------------------------------------------------


cdef int put_lengths(tuple dictionaries, int64_t* out) except -1:
    """Write how many values each dictionary has; -1: it has not arrived."""
    cdef Py_ssize_t i
    for i, values in enumerate(dictionaries):
        out[i] = -1 if values is None else (<Columns> values).d.length
    return 0


@cython.final
cdef class Proof(Jobs):
    """The validation of one batch; a job is one field."""
    cdef Columns columns
    cdef int64_t* lengths       # of the dictionaries; NULL: indices are left to the caller
    cdef int level
    cdef Fault fault            # of the first field that broke a rule

    def __cinit__(self, Columns columns, int level):
        self.columns, self.level = columns, level
        self.start(columns.d.plan.n_fields)
        if columns.dictionaries is None:
            return  # These are the values of a dictionary; their indices are checked when dictionaries are combined.
        self.lengths = <int64_t*> new_zeros(len(columns.dictionaries), sizeof(int64_t))
        put_lengths(columns.dictionaries, self.lengths)

    def __dealloc__(self):
        free(self.lengths)

    cdef int work(self) except -1:
        cdef Fault fault
        cdef int64_t f
        with nogil:
            f = next_job(self)
            while f < self.failed and check_field(&self.columns.d, <int32_t> f, self.lengths, self.level, &fault) == 0:
                f = next_job(self)
        with cython.critical_section(self):
            if f < self.failed:
                self.failed, self.fault = f, fault
        return 0


cdef int validate(Columns columns, int level, bint use_threads=False) except -1:
    cdef int64_t few[16]
    cdef int64_t effort
    cdef Proof proof
    cdef Fault fault
    cdef Py_ssize_t n = 0
    if level <= LEVEL_NONE:
        return 0
    if columns.plan.d.stored_big and columns.plan.d.keep_stored:
        # The caller wants to keep the foreign byte order; validate a copy in the native one.
        columns = native_copy(columns)
    effort = bytes_read(&columns.d, level)
    if columns.dictionaries is not None:
        n = len(columns.dictionaries)
    if effort < WORTH_RELEASING and n <= 16:
        if n:
            put_lengths(columns.dictionaries, few)
        if check_columns(&columns.d, few if columns.dictionaries is not None else NULL, level, &fault) == 0:
            return 0
    else:
        proof = Proof(columns, level)
        proof.run_all(use_threads and effort >= WORTH_THREADS)
        if proof.failed == proof.n_jobs:
            return 0
        fault = proof.fault
    if fault.code == FAULT_NO_DICTIONARY:
        fault.found = (<DictionaryPlan> columns.plan.dictionaries[fault.found]).id
    raise_fault(&fault, columns.plan)


cdef int64_t bytes_read(const ColumnsData* d, int level) noexcept nogil:
    """Estimate how many bytes the checks have to read; most types of fixed width allow any values."""
    cdef const FieldPlan* plan
    cdef int64_t total = 0
    cdef int32_t f, i
    for f in range(d.plan.n_fields):
        plan = &d.plan.fields[f]
        if level < LEVEL_STRICT and plan.layout == LAYOUT_FIXED and not plan.flags & FIELD_ENCODED:
            continue
        for i in range(plan.first_buffer, plan.first_buffer + plan.n_buffers):
            total += d.extents[i].size
        if plan.view >= 0:
            for i in range(d.views[plan.view].count):
                total += d.extents[d.views[plan.view].first + i].size
    return total


cdef int check_columns(const ColumnsData* d, const int64_t* lengths, int level, Fault* fault) noexcept nogil:
    cdef int32_t f
    for f in range(d.plan.n_fields):
        if check_field(d, f, lengths, level, fault) < 0:
            return -1
    return 0


cdef inline int check_field(const ColumnsData* d, int32_t f, const int64_t* lengths, int level,
                            Fault* fault) noexcept nogil:
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef int found = 0
    if plan.layout == LAYOUT_FIXED:
        if plan.flags & FIELD_ENCODED and lengths != NULL:
            found = check_indices(d, f, lengths[plan.dictionary], fault)
    elif plan.layout == LAYOUT_VIEW:
        found = check_views(d, f, level, fault)
    elif is_binary(plan.layout):
        found = check_variable(d, f, fault)
    elif has_offsets(plan.layout):
        found = check_offsets(d, f, d.nodes[f + 1].length, NULL, fault)
        if found == 0 and plan.type == Type_Map:
            found = check_entries(d, f, fault)
    elif is_list_view(plan.layout):
        found = check_list_views(d, f, fault)
    elif is_union(plan.layout):
        found = check_union(d, f, fault)
    elif plan.layout == LAYOUT_RUN_END:
        found = check_run_ends(d, f, fault)
    return -1 if found < 0 or (level >= LEVEL_STRICT and check_domain(d, f, fault) < 0) else 0


cdef int check_entries(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    """Check that neither the entries nor the keys of a map have nulls: otherwise pyarrow ends the process.

    For pyarrow the null count decides, even if no row reaches a null.
    """
    cdef int64_t nulls
    cdef int32_t i
    for i in range(f + 1, f + 3):
        nulls = d.nodes[i].length if d.plan.fields[i].layout == LAYOUT_NULL else d.nodes[i].null_count
        if nulls:
            return fail(fault, FAULT_MAP_NULLS, i, 0, -1, nulls)
    return 0


# -- vector code that compilers do not find by themselves ----------------------------------------------------


# RFC 3629 as a function of four neighbouring bytes, so that many positions are checked at once: 5.6 GB/s for text of
# any script with the vectors that every x86-64 has; walking from one character to the next gives 2.6. With AVX2 or
# NEON, three lookups by half bytes say which rules a byte and the one before it break (AVX2: 18 GB/s; J. Keiser and
# D. Lemire, "Validating UTF-8 in less than one instruction per byte", 2020). This is C, because Cython cannot compile a
# function for a second instruction set.
cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    static uint8_t utf8_faults(const uint8_t *p, int64_t n) {
        uint8_t bad = 0;
        for (int64_t i = 0; i < n; i++) {
            uint8_t b = p[i], one = p[i - 1], two = p[i - 2], three = p[i - 3];
            /* Bit 7: a lead byte up to three places back requires a continuation here; b must be one, or not. */
            uint8_t wanted = (one & (one << 1)) | (two & (two << 1) & (two << 2))
                | (three & (three << 1) & (three << 2) & (three << 3));
            bad |= wanted ^ (b & ~(b << 1));
            bad |= (uint8_t) -(b >= 0xF5) | (uint8_t) -((b & 0xFE) == 0xC0);
            bad |= (uint8_t) -(one == 0xE0) & (uint8_t) -(b < 0xA0);     /* overlong forms */
            bad |= (uint8_t) -(one == 0xF0) & (uint8_t) -(b < 0x90);
            bad |= (uint8_t) -(one == 0xED) & (uint8_t) -(b >= 0xA0);    /* surrogates */
            bad |= (uint8_t) -(one == 0xF4) & (uint8_t) -(b >= 0x90);    /* above U+10FFFF */
        }
        return bad & 0x80;
    }

    #if defined(__GNUC__)
    __attribute__((always_inline))
    #endif
    static inline int rising32_loop(const uint8_t *p, int64_t n) {
        /* Unsigned, because a step between hostile values overflows. If all values are >= 0, no step does. */
        uint32_t bad, here, next;
        memcpy(&bad, p + 4 * n, 4);
        for (int64_t i = 0; i < n; i++) {
            memcpy(&here, p + 4 * i, 4);
            memcpy(&next, p + 4 * i + 4, 4);
            bad |= here | (next - here);
        }
        return bad >> 31 == 0;
    }

    /* Vectors of bytes that have a lookup of 16 entries: AVX2 and NEON. */
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    #define UTF8_VECTORS __attribute__((target("avx2")))
    #define UTF8_HAS_VECTORS __builtin_cpu_supports("avx2")
    typedef __m256i utf8_vector;
    #define utf8_each(byte) _mm256_set1_epi8((char) (byte))
    #define utf8_above(x, byte) _mm256_subs_epu8(x, utf8_each(byte))
    #define utf8_upper_half(x) _mm256_and_si256(_mm256_srli_epi16(x, 4), utf8_each(15))
    #define utf8_rules(table, halves) _mm256_shuffle_epi8( \
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) (table))), halves)
    #define utf8_is_ascii(x) (_mm256_movemask_epi8(x) == 0)
    #define utf8_is_zero(x) _mm256_testz_si256(x, x)
    #elif defined(__GNUC__) && defined(__aarch64__)
    #include <arm_neon.h>
    #define UTF8_VECTORS
    #define UTF8_HAS_VECTORS 1
    typedef uint8x16_t utf8_vector;
    #define utf8_each(byte) vdupq_n_u8(byte)
    #define utf8_above(x, byte) vqsubq_u8(x, utf8_each(byte))
    #define utf8_upper_half(x) vshrq_n_u8(x, 4)
    #define utf8_rules(table, halves) vqtbl1q_u8(vld1q_u8(table), halves)
    #define utf8_is_ascii(x) (vmaxvq_u8(x) < 0x80)
    #define utf8_is_zero(x) (vmaxvq_u8(x) == 0)
    #endif

    #if defined(UTF8_VECTORS)
    /* Rules that a byte and the one before it may break, a bit each: a rule is broken if all three lookups say so. */
    enum {
        U_SHORT = 1,        /* a lead byte, and no continuation */
        U_STRAY = 2,        /* ASCII, and a continuation */
        U_E0 = 4,           /* E0 80..9F, overlong */
        U_ED = 8,           /* ED A0..BF, a surrogate */
        U_C0 = 16,          /* C0, C1: overlong */
        U_F4 = 32,          /* F4 90..BF, and F5..FF: above U+10FFFF */
        U_F0 = 64,          /* F0 80..8F, overlong, and F5..FF 80..8F */
        U_TWO = 128,        /* two continuations, which a lead byte before them has to require */
        U_ANY = U_SHORT | U_STRAY | U_TWO,          /* the lower half of the first byte does not matter */
        U_F5 = U_ANY | U_F4 | U_F0,
        U_NEXT = U_STRAY | U_C0 | U_TWO,            /* any continuation */
    };
    static const uint8_t utf8_upper[16] = {
        U_STRAY, U_STRAY, U_STRAY, U_STRAY, U_STRAY, U_STRAY, U_STRAY, U_STRAY, U_TWO, U_TWO, U_TWO, U_TWO,
        U_SHORT | U_C0, U_SHORT, U_SHORT | U_E0 | U_ED, U_SHORT | U_F4 | U_F0};
    static const uint8_t utf8_lower[16] = {
        U_ANY | U_C0 | U_E0 | U_F0, U_ANY | U_C0, U_ANY, U_ANY, U_ANY | U_F4, U_F5, U_F5, U_F5, U_F5, U_F5, U_F5, U_F5,
        U_F5, U_F5 | U_ED, U_F5, U_F5};
    static const uint8_t utf8_next[16] = {
        U_SHORT, U_SHORT, U_SHORT, U_SHORT, U_SHORT, U_SHORT, U_SHORT, U_SHORT, U_NEXT | U_E0 | U_F0,
        U_NEXT | U_E0 | U_F4, U_NEXT | U_ED | U_F4, U_NEXT | U_ED | U_F4, U_SHORT, U_SHORT, U_SHORT, U_SHORT};

    UTF8_VECTORS static inline utf8_vector utf8_load(const uint8_t *p) {
        utf8_vector x;
        memcpy(&x, p, sizeof(x));
        return x;
    }

    UTF8_VECTORS static inline utf8_vector utf8_broken(const uint8_t *p, utf8_vector b) {
        utf8_vector one = utf8_load(p - 1), two = utf8_load(p - 2), three = utf8_load(p - 3);
        utf8_vector broken = utf8_rules(utf8_upper, utf8_upper_half(one))
            & utf8_rules(utf8_lower, one & utf8_each(15)) & utf8_rules(utf8_next, utf8_upper_half(b));
        /* Bit 7: E0..FF two places back or F0..FF three places back require a second continuation here. */
        utf8_vector wanted = utf8_above(two, 0xE0 - 0x80) | utf8_above(three, 0xF0 - 0x80);
        return broken ^ (wanted & utf8_each(0x80));
    }

    /* Check four vectors at a time; if they and the three bytes before them are ASCII, that is all. */
    UTF8_VECTORS static int64_t utf8_by_vectors(const uint8_t *p, int64_t n, int *text) {
        const int64_t width = sizeof(utf8_vector);
        utf8_vector bad = utf8_each(0), b[4], any;
        int64_t i, k;
        for (i = 0; i + 4 * width <= n; i += 4 * width) {
            any = utf8_load(p + i - 3);
            for (k = 0; k < 4; k++) {
                b[k] = utf8_load(p + i + width * k);
                any |= b[k];
            }
            if (utf8_is_ascii(any))
                continue;
            *text = 2;
            for (k = 0; k < 4; k++)
                bad |= utf8_broken(p + i + width * k, b[k]);
        }
        /* These rules find C0, C1 and F5..FF at the byte behind them: so the last byte is left to the caller. */
        return utf8_is_zero(bad) ? i - 1 : -1;
    }
    #endif

    #if defined(__GNUC__) && defined(__x86_64__)
    __attribute__((target("avx2")))
    static int rising32_avx2(const uint8_t *p, int64_t n) {
        return rising32_loop(p, n);
    }
    #endif

    static int rising32(const uint8_t *p, int64_t n) {
    #if defined(__GNUC__) && defined(__x86_64__)
        if (__builtin_cpu_supports("avx2"))
            return rising32_avx2(p, n);
    #endif
        return rising32_loop(p, n);
    }

    static int64_t utf8_blocks(const uint8_t *p, int64_t n, int *text) {
    #if defined(UTF8_VECTORS)
        if (n >= 128 && UTF8_HAS_VECTORS)
            return utf8_by_vectors(p, n, text);
    #endif
        return 0;
    }
    """
    # Return not 0 if p[0..n) breaks UTF-8, given the three bytes before it, which must be readable.
    uint8_t utf8_faults(const uint8_t* p, int64_t n) noexcept
    # Whether offsets[0..n] of 4 bytes are never negative and never fall.
    bint rising32(const uint8_t* offsets, int64_t n) noexcept
    # Check the first of n bytes at p, given the three before; return how many were checked, or -1: they are not UTF-8.
    # `text` becomes TEXT_UTF8 if they are not ASCII.
    int64_t utf8_blocks(const uint8_t* p, int64_t n, int* text) noexcept


# -- offsets and text ----------------------------------------------------------------------------------------


cdef struct OffsetRange:
    int64_t first
    int64_t last


cdef inline bint rising64(const loose_i64* offsets, int64_t n) noexcept nogil:
    """Do what `rising32` does, for offsets of 8 bytes."""
    cdef uint64_t bad = 0
    cdef int64_t i
    for i in range(n):
        bad |= <uint64_t> offsets[i] | (<uint64_t> offsets[i + 1] - <uint64_t> offsets[i])
    return (bad | <uint64_t> offsets[n]) >> 63 == 0


cdef inline int64_t load_word(const uint8_t* p, int64_t i, bint wide) noexcept nogil:
    return load_i64(p + 8 * i) if wide else load_i32(p + 4 * i)


cdef int check_offsets(const ColumnsData* d, int32_t f, int64_t limit, OffsetRange* span,
                       Fault* fault) noexcept nogil:
    """Check that offsets[0..length] rise from at least 0 to at most `limit`; `span` receives the first and the last."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const Extent* extent = &d.extents[plan.first_buffer + 1]
    cdef bint wide = width_of(plan, 1) == 8
    cdef const uint8_t* base
    cdef int64_t last
    if span != NULL:
        span.first = span.last = 0
    if extent.size == 0:
        return 0    # an empty array may leave out its one offset (check_sizes)
    base = extent.data + (8 if wide else 4) * node.offset
    last = load_word(base, node.length, wide)
    if last > limit or not (rising64(<const loose_i64*> base, node.length) if wide else rising32(base, node.length)):
        return fail_offsets(base, f, node.length, limit, wide, fault)
    if span != NULL:
        span.first = load_word(base, 0, wide)
        span.last = last
    return 0


cdef int fail_offsets(const uint8_t* base, int32_t f, int64_t n, int64_t limit, bint wide,
                      Fault* fault) noexcept nogil:
    cdef int64_t i, offset, previous = 0
    for i in range(n + 1):
        offset = load_word(base, i, wide)
        if offset < 0:
            return fail(fault, FAULT_OFFSET, f, 1, i, offset, 0, "less than")
        if offset < previous:
            return fail(fault, FAULT_OFFSET, f, 1, i, offset, previous, "less than the one before,")
        if offset > limit:
            return fail(fault, FAULT_OFFSET, f, 1, i, offset, limit, "past the end at")
        previous = offset
    return 0


cdef int check_variable(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Extent* data = &d.extents[plan.first_buffer + 2]
    cdef OffsetRange span
    cdef int text
    if check_offsets(d, f, data.size, &span, fault) < 0:
        return -1
    if not plan.flags & FIELD_UTF8 or span.first == span.last:
        return 0
    text = classify_text(data.data + span.first, span.last - span.first)
    return 0 if text == TEXT_ASCII else check_text(d, f, &span, text, fault)


cdef enum Text:
    TEXT_UNKNOWN = 0    # not UTF-8 as a whole
    TEXT_ASCII
    TEXT_UTF8


cdef int classify_text(const uint8_t* p, int64_t size) noexcept nogil:
    """Say what a byte range is as a whole (Text); `utf8_error` finds where it is not UTF-8."""
    cdef uint8_t edge[6]
    cdef int64_t at = min(size, TEXT_BLOCK), n
    cdef int text = TEXT_ASCII
    if not is_ascii(p, at):
        # The first three bytes have too few bytes before them: check a copy of them behind zeros.
        text = TEXT_UTF8
        at = min(size, 3)
        memset(edge, 0, sizeof(edge))
        memcpy(edge + 3, p, at)
        if utf8_faults(edge + 3, at):
            return TEXT_UNKNOWN
    n = utf8_blocks(p + at, size - at, &text)
    if n < 0:
        return TEXT_UNKNOWN
    at += n
    while at < size:
        n = min(size - at, TEXT_BLOCK)
        if not is_ascii(p + at - 3, n + 3):
            text = TEXT_UTF8
            if utf8_faults(p + at, n):
                return TEXT_UNKNOWN
        at += n
    if text == TEXT_UTF8:
        # The last three bytes may begin a character and not end it: a zero behind them shows that.
        n = min(size, 3)
        memset(edge, 0, sizeof(edge))
        memcpy(edge + 3 - n, p + size - n, n)
        if utf8_faults(edge + 3, 1):
            return TEXT_UNKNOWN
    return text


cdef inline bint splits(const uint8_t* data, const Signed* offsets, int64_t n) noexcept nogil:
    """Whether one of offsets[0..n) points into the middle of a character."""
    # As a signed number a continuation byte is less than -64. There are four sums, and two offsets come from one load:
    # otherwise the compiler puts vectors together from single bytes, which takes longer than all the rest.
    cdef int one = 0, two = 0, three = 0, four = 0
    cdef uint64_t pair
    cdef int64_t i = 0
    while i + 4 <= n:
        if Signed is loose_i32:
            pair = (<const loose_u64*> (offsets + i))[0]
            one |= <int8_t> data[<uint32_t> pair] + 64
            two |= <int8_t> data[pair >> 32] + 64
            pair = (<const loose_u64*> (offsets + i + 2))[0]
            three |= <int8_t> data[<uint32_t> pair] + 64
            four |= <int8_t> data[pair >> 32] + 64
        else:
            one |= <int8_t> data[offsets[i]] + 64
            two |= <int8_t> data[offsets[i + 1]] + 64
            three |= <int8_t> data[offsets[i + 2]] + 64
            four |= <int8_t> data[offsets[i + 3]] + 64
        i += 4
    while i < n:
        one |= <int8_t> data[offsets[i]] + 64
        i += 1
    return (one | two | three | four) < 0


cdef int check_text(const ColumnsData* d, int32_t f, const OffsetRange* span, int text,
                    Fault* fault) noexcept nogil:
    """Check text that is not plain ASCII: by its offsets if the whole is UTF-8, else string by string."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef bint wide = plan.layout == LAYOUT_VAR64
    cdef const uint8_t* offsets = d.extents[plan.first_buffer + 1].data + (8 if wide else 4) * node.offset
    cdef const uint8_t* data = d.extents[plan.first_buffer + 2].data
    cdef const uint8_t* valid = validity(d, f)
    cdef int64_t i, start, end, at, n = node.length
    if text == TEXT_UTF8:
        # If the whole is UTF-8, each string is too, unless an offset splits a character. The last offsets may
        # point behind the data.
        while load_word(offsets, n, wide) == span.last:
            n -= 1
        if not (splits[loose_i64](data, <const loose_i64*> offsets, n + 1) if wide
                else splits[loose_i32](data, <const loose_i32*> offsets, n + 1)):
            return 0
    end = span.first
    for i in range(node.length):
        start = end
        end = load_word(offsets, i + 1, wide)
        # Nobody reads the text under a null.
        if valid == NULL or get_bit(valid, node.offset + i):
            at = utf8_error(data + start, end - start)
            if at >= 0:
                return fail(fault, FAULT_UTF8, f, 2, i, at)
    return 0


# -- views ---------------------------------------------------------------------------------------------------


cdef struct ViewText:
    # What the pass over the views found out about their text.
    uint64_t inline_bytes   # the bytes of all inline views, or-ed
    int64_t long_bytes      # sum of the lengths of views that are not inline


cdef int check_views(const ColumnsData* d, int32_t f, int level, Fault* fault) noexcept nogil:
    """Check that every valid view lies in its buffer and repeats its first bytes. Null slots may hold anything."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* view = d.extents[plan.first_buffer + 1].data
    cdef const uint8_t* valid = validity(d, f)
    cdef const Extent* buffers = &d.extents[d.views[plan.view].first]
    cdef uint32_t count = <uint32_t> d.views[plan.view].count, index
    cdef int64_t i, offset
    cdef int32_t size
    cdef ViewText text
    text.inline_bytes = 0
    text.long_bytes = 0
    if node.length == 0:
        return 0
    view += 16 * (node.offset - 1)
    for i in range(node.length):
        view += 16
        if valid != NULL and not get_bit(valid, node.offset + i):
            continue
        size = load_i32(view)
        if <uint32_t> size <= INLINE_VIEW:
            text.inline_bytes |= load_i64(view + 4) | load_u32(view + 12)
            if level >= LEVEL_STRICT and not padded(view, size):
                return fail(fault, FAULT_VIEW_PREFIX, f, 1, i, 0, 0, "padding")
            continue
        if size < 0:
            return fail(fault, FAULT_VIEW, f, 1, i, size, 0, "length")
        index = load_u32(view + 8)
        if index >= count:
            return fail(fault, FAULT_VIEW, f, 1, i, <int32_t> index, count, "buffer index")
        offset = load_i32(view + 12)
        if not inside(offset, size, buffers[index].size):
            return fail(fault, FAULT_VIEW, f, 1, i, offset, 0, "offset")
        if load_u32(view + 4) != load_u32(buffers[index].data + offset):
            return fail(fault, FAULT_VIEW_PREFIX, f, 1, i, 0, 0, "prefix")
        text.long_bytes += size
    if plan.flags & FIELD_UTF8:
        return check_view_text(d, f, &text, fault)
    return 0


cdef inline bint padded(const uint8_t* view, int32_t size) noexcept nogil:
    """Whether the bytes behind an inline value are zero."""
    cdef uint8_t rest = 0
    cdef int32_t i
    for i in range(4 + size, 16):
        rest |= view[i]
    return rest == 0


cdef int check_view_text(const ColumnsData* d, int32_t f, const ViewText* text, Fault* fault) noexcept nogil:
    """Check the text of views: read each data buffer at most once as a whole, then only the two ends of a view."""
    cdef const ViewRange* views = &d.views[d.plan.fields[f].view]
    cdef const Extent* buffers = &d.extents[views.first]
    cdef bint plain = (text.inline_bytes & <uint64_t> 0x8080808080808080ULL) == 0
    cdef int64_t stored = 0
    cdef uint8_t* state
    cdef int32_t i
    cdef int found
    if plain and text.long_bytes == 0:
        return 0
    for i in range(views.count):
        stored += buffers[i].size
    if text.long_bytes < stored // 2:
        # A slice of large buffers: looking at the views costs less than looking at the buffers.
        return check_each_view(d, f, NULL, INT64_MAX, fault)
    state = <uint8_t*> malloc(views.count + 1)
    if state == NULL:
        return fail(fault, FAULT_MEMORY)
    for i in range(views.count):
        state[i] = <uint8_t> classify_text(buffers[i].data, buffers[i].size)
        plain = plain and state[i] == TEXT_ASCII
    # Buffers that hold other bytes between their texts are read view by view. Views may overlap, so there is a
    # budget: 8 times the buffers, which honest views do not exceed, and 64 bytes for each view's own 16.
    found = 0 if plain else check_each_view(d, f, state, 8 * stored + 64 * d.nodes[f].length, fault)
    free(state)
    return found


cdef int check_each_view(const ColumnsData* d, int32_t f, const uint8_t* state, int64_t budget,
                         Fault* fault) noexcept nogil:
    """Check that every valid view is UTF-8; `state` tells what is known of each buffer (NULL: nothing of any)."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* view = d.extents[plan.first_buffer + 1].data + 16 * node.offset
    cdef const uint8_t* valid = validity(d, f)
    cdef const uint8_t* data
    cdef const Extent* buffer
    cdef int64_t i, offset, size
    cdef uint8_t known
    for i in range(node.length):
        if valid == NULL or get_bit(valid, node.offset + i):
            size = load_i32(view)
            if size <= INLINE_VIEW:
                if utf8_error(view + 4, size) >= 0:
                    return fail(fault, FAULT_UTF8, f, 1, i)
            else:
                buffer = &d.extents[d.views[plan.view].first + load_i32(view + 8)]
                known = TEXT_UNKNOWN if state == NULL else state[load_i32(view + 8)]
                offset = load_i32(view + 12)
                data = buffer.data + offset
                if known == TEXT_UNKNOWN:
                    budget -= size
                    if budget < 0:
                        return fail(fault, FAULT_VIEW_TEXT, f, 1, i, size)
                    if utf8_error(data, size) >= 0:
                        return fail(fault, FAULT_UTF8, f, 1, i)
                elif known == TEXT_UTF8 and (data[0] & 0xC0 == 0x80 or (
                        offset + size < buffer.size and data[size] & 0xC0 == 0x80)):
                    return fail(fault, FAULT_UTF8, f, 1, i)
        view += 16
    return 0


# -- lists by offset and size --------------------------------------------------------------------------------


cdef inline bint lists_inside(const Signed* offsets, const Signed* sizes, int64_t n,
                              int64_t limit) noexcept nogil:
    cdef uint64_t bad = 0, offset, size, room
    cdef int64_t i
    for i in range(n):
        offset = <uint64_t> <int64_t> offsets[i]
        size = <uint64_t> <int64_t> sizes[i]
        room = <uint64_t> limit - offset
        bad |= offset | size | room | (room - size)
    return bad >> 63 == 0


cdef int check_list_views(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    """Check that offset and size of every list, of null ones too, stay inside the child (the format requires both)."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* offsets = d.extents[plan.first_buffer + 1].data
    cdef const uint8_t* sizes = d.extents[plan.first_buffer + 2].data
    cdef bint wide = plan.layout == LAYOUT_LIST_VIEW64
    cdef int64_t limit = d.nodes[f + 1].length, i, offset, size
    if node.length == 0:
        return 0
    offsets += (8 if wide else 4) * node.offset
    sizes += (8 if wide else 4) * node.offset
    if (lists_inside[loose_i64](<const loose_i64*> offsets, <const loose_i64*> sizes, node.length, limit) if wide
            else lists_inside[loose_i32](<const loose_i32*> offsets, <const loose_i32*> sizes, node.length, limit)):
        return 0
    for i in range(node.length):
        offset = load_word(offsets, i, wide)
        size = load_word(sizes, i, wide)
        if offset < 0 or offset > limit:
            return fail(fault, FAULT_LIST_VIEW, f, 1, i, offset, limit, "offset")
        if size < 0 or size > limit - offset:
            return fail(fault, FAULT_LIST_VIEW, f, 2, i, size, limit, "size")
    return 0


# -- unions --------------------------------------------------------------------------------------------------


cdef bint codes_known(const int8_t* codes, int64_t n, const int8_t* child_of) noexcept nogil:
    """Whether every code names a child."""
    cdef int8_t bad = 0
    cdef uint8_t outside = 0, span = 0
    cdef int64_t i
    # Nearly all unions number their children 0, 1, 2 ...: then one comparison decides, 16 at once.
    while span < 128 and child_of[span] >= 0:
        span += 1
    for i in range(n):
        outside |= <uint8_t> -(<uint8_t> codes[i] >= span)
    if outside == 0:
        return True
    for i in range(n):
        bad |= codes[i] | child_of[codes[i] & 127]
    return bad >= 0


cdef int check_union(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    """Check that type codes name children, and that dense offsets lie in the child that the code names."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const int8_t* child_of = d.plan.codes + 128 * plan.codes
    cdef const int8_t* codes = <const int8_t*> d.extents[plan.first_buffer].data
    cdef const loose_i32* offsets = NULL
    cdef int64_t lengths[128]
    cdef int64_t last[128]      # of each code: its child's last element, -1 when there is none
    cdef uint64_t bad = 0
    cdef int64_t i
    cdef int32_t child = f + 1, k
    if node.length == 0:
        return 0
    codes += node.offset
    if plan.layout == LAYOUT_SPARSE:
        if codes_known(codes, node.length, child_of):
            return 0
        return fail_union(codes, NULL, child_of, NULL, node.length, f, fault)
    for k in range(plan.n_children):
        lengths[k & 127] = d.nodes[child].length
        child = d.plan.fields[child].end
    for k in range(128):
        last[k] = lengths[child_of[k]] - 1 if child_of[k] >= 0 else -1
    offsets = <const loose_i32*> d.extents[plan.first_buffer + 1].data + node.offset
    for i in range(node.length):
        bad |= (<uint64_t> <int64_t> codes[i] | <uint64_t> <int64_t> offsets[i]
                | (<uint64_t> last[codes[i] & 127] - <uint64_t> <int64_t> offsets[i]))
    return fail_union(codes, offsets, child_of, last, node.length, f, fault) if bad >> 63 else 0


cdef int fail_union(const int8_t* codes, const loose_i32* offsets, const int8_t* child_of,
                    const int64_t* last, int64_t n, int32_t f, Fault* fault) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if codes[i] < 0 or child_of[codes[i]] < 0:
            return fail(fault, FAULT_TYPE_CODE, f, 0, i, codes[i])
        if offsets != NULL and (offsets[i] < 0 or offsets[i] > last[codes[i]]):
            return fail(fault, FAULT_UNION_OFFSET, f, 1, i, offsets[i], last[codes[i]] + 1)
    return 0


# -- run ends ------------------------------------------------------------------------------------------------


cdef int check_run_ends(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    cdef const Node* node = &d.nodes[f]
    cdef const Node* runs = &d.nodes[f + 1]
    cdef int64_t i, end = 0, previous = 0
    if runs.null_count != 0:
        return fail(fault, FAULT_RUN_END_NULLS, f + 1, -1, -1, runs.null_count)
    if runs.length == 0:
        if node.length == 0:
            return 0
        return fail(fault, FAULT_RUN_END, f, -1, 0, 0, node.offset + node.length, "missing")
    for i in range(runs.length):
        end = run_end(d, f, i)
        if end <= previous:
            return fail(fault, FAULT_RUN_END, f, -1, i, end, previous, "not more than")
        previous = end
    if end - node.offset < node.length:
        return fail(fault, FAULT_RUN_END, f, -1, runs.length - 1, end, node.offset + node.length,
                    "short of the length")
    return 0


# -- dictionary indices --------------------------------------------------------------------------------------


cdef int index_range(const ColumnsData* d, int32_t field, int64_t start, int64_t length,
                     int64_t* low, int64_t* high) noexcept nogil:
    cdef const uint8_t* valid = validity(d, field)
    if not bounds_at(d, field, start, length, valid, low, high):
        low[0], high[0] = 0, -1
        return 0
    return 1


cdef inline bint bounds_at(const ColumnsData* d, int32_t f, int64_t start, int64_t length, const uint8_t* valid,
                           int64_t* low, int64_t* high) noexcept nogil:
    """Find the bounds of the indices whose bits are set in `valid` (NULL: of all); False: there are none."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const uint8_t* p = d.extents[plan.first_buffer + 1].data + start * plan.width
    if not integer_bounds(p, plan.width, plan.flags & FIELD_SIGNED, length, valid, start, low, high):
        return False
    if plan.width == 8 and not plan.flags & FIELD_SIGNED:
        # Indices above INT64_MAX are as wrong as INT64_MAX.
        low[0] = INT64_MAX if low[0] < 0 else low[0]
        high[0] = INT64_MAX if high[0] < 0 else high[0]
    return True


cdef int check_indices(const ColumnsData* d, int32_t f, int64_t n_values, Fault* fault) noexcept nogil:
    """Check that indices of valid slots lie in the dictionary, which has `n_values` (-1: it has not arrived)."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* valid = validity(d, f)
    cdef int64_t low = 0, high = -1, i
    # Null slots usually hold a good index too: then the bitmap need not be read.
    if not bounds_at(d, f, node.offset, node.length, NULL, &low, &high) or (low >= 0 and high < n_values):
        return 0
    if not bounds_at(d, f, node.offset, node.length, valid, &low, &high) or (low >= 0 and high < n_values):
        return 0
    for i in range(node.length):
        if valid == NULL or get_bit(valid, node.offset + i):
            if n_values < 0:
                return fail(fault, FAULT_NO_DICTIONARY, f, 1, i, plan.dictionary)
            bounds_at(d, f, node.offset + i, 1, NULL, &low, &high)
            if low < 0 or low >= n_values:
                return fail(fault, FAULT_INDEX, f, 1, i, low, n_values)
    return 0


# -- strict: value domains -----------------------------------------------------------------------------------


cdef int check_domain(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* valid = validity(d, f)
    cdef int64_t nulls
    if valid != NULL:
        nulls = node.length - count_bits(valid, node.offset, node.length)
        if node.null_count >= 0 and nulls != node.null_count:
            return fail(fault, FAULT_STRICT_NULL_COUNT, f, 0, -1, node.null_count, nulls)
        if nulls and not plan.flags & FIELD_NULLABLE:
            nulls = visible_nulls(d, f)
            if nulls:
                return fail(fault, FAULT_STRICT_NULLABLE, f, 0, -1, nulls)
    if plan.layout != LAYOUT_FIXED or plan.flags & FIELD_ENCODED or node.length == 0:
        return 0
    if plan.type == Type_Decimal:
        return check_decimals(d, f, fault)
    if plan.type == Type_Time or (plan.type == Type_Date and plan.unit == DateUnit_MILLISECOND):
        return check_times(d, f, fault)
    return 0


def check_values(Columns columns not None, dict known):
    """Raise a FormatError if values are outside the ranges of their types, which only "strict" refuses elsewhere.

    `known`: id -> dictionary, of the last columns, whose values are not checked again; filled with those of these ones.
    """
    cdef dict before = dict(known)
    cdef list parts = [columns]
    cdef Columns part
    cdef Fault fault
    cdef int32_t f
    known.clear()
    for part in parts:  # the list grows
        for dictionary in part.dictionaries or ():
            if dictionary is not None and id(dictionary) not in known:
                known[id(dictionary)] = dictionary
                parts.append(dictionary)
    for part in parts:
        for f in range(part.d.plan.n_fields if id(part) not in before else 0):
            if check_domain(&part.d, f, &fault) < 0:
                raise_fault(&fault, part.plan)


cdef int64_t visible_nulls(const ColumnsData* d, int32_t f) noexcept nogil:
    """Count the nulls of a field, not those under a null struct or fixed-size list, or in a sparse union's child."""
    cdef int32_t parent = d.plan.fields[f].parent
    cdef const uint8_t* valid = validity(d, f)
    cdef const uint8_t* above = NULL
    cdef int64_t i, total = 0, per = 1, slot
    if parent >= 0:
        if d.plan.fields[parent].layout == LAYOUT_SPARSE:
            return 0
        if d.plan.fields[parent].layout == LAYOUT_STRUCT or d.plan.fields[parent].layout == LAYOUT_FIXED_LIST:
            above = validity(d, parent)
        if d.plan.fields[parent].layout == LAYOUT_FIXED_LIST:
            per = d.plan.fields[parent].width
    for i in range(d.nodes[f].length):
        if get_bit(valid, d.nodes[f].offset + i):
            continue
        if above != NULL and per:
            # Element i of the child belongs to the parent's physical slot i / per.
            slot = i // per - d.nodes[parent].offset
            if not 0 <= slot < d.nodes[parent].length or not get_bit(above, d.nodes[parent].offset + slot):
                continue
        total += 1
    return total


cdef int check_times(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    """Check that times lie inside a day, and dates in milliseconds at the beginning of a day."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* valid = validity(d, f)
    cdef const uint8_t* base = d.extents[plan.first_buffer + 1].data + plan.width * node.offset
    cdef bint is_date = plan.type == Type_Date
    cdef int64_t i, value, day = 86_400
    for i in range(0 if is_date else plan.unit):
        day *= 1000     # TimeUnit counts in steps of a thousand
    for i in range(node.length):
        value = load_word(base, i, plan.width == 8)
        if ((value % 86_400_000 != 0 if is_date else <uint64_t> value >= <uint64_t> day)
                and (valid == NULL or get_bit(valid, node.offset + i))):
            return fail(fault, FAULT_STRICT_DATE if is_date else FAULT_STRICT_TIME, f, 1, i, value, day)
    return 0


cdef int check_decimals(const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    """Check that |value| < 10 ** precision, on 32-bit limbs, for every width alike."""
    cdef const FieldPlan* plan = &d.plan.fields[f]
    cdef const Node* node = &d.nodes[f]
    cdef const uint8_t* valid = validity(d, f)
    cdef const uint8_t* value = d.extents[plan.first_buffer + 1].data + plan.width * node.offset
    cdef uint32_t bound[8]
    cdef uint64_t carry
    cdef int64_t i
    cdef int k, limbs = plan.width >> 2
    memset(bound, 0, sizeof(bound))
    bound[0] = 1
    for i in range(plan.precision):
        carry = 0
        for k in range(8):
            carry += <uint64_t> bound[k] * 10
            bound[k] = <uint32_t> carry
            carry >>= 32
    for i in range(node.length):
        if (valid == NULL or get_bit(valid, node.offset + i)) and not below(value, limbs, bound):
            return fail(fault, FAULT_STRICT_DECIMAL, f, 1, i, 0, plan.precision)
        value += plan.width
    return 0


cdef inline bint below(const uint8_t* value, int limbs, const uint32_t* bound) noexcept nogil:
    """Whether the absolute value of a little-endian two's complement number is below `bound` (8 limbs)."""
    cdef uint32_t sign = 0xFFFFFFFF if load_i32(value + 4 * (limbs - 1)) < 0 else 0
    cdef uint32_t limb
    cdef uint64_t carry = sign & 1
    cdef bint less = False
    cdef int k
    for k in range(8):
        carry += (load_u32(value + 4 * k) if k < limbs else sign) ^ sign
        limb = <uint32_t> carry
        carry >>= 32
        # From the lowest limb up, the highest limb that differs decides.
        if limb != bound[k]:
            less = limb < bound[k]
    return less


# -- where buffers lie in a message ----------------------------------------------------------------------------


cdef str place_of(Plan plan, const int64_t* prefix, int version, int64_t ordinal):
    """Return the column that Buffer number `ordinal` of a message belongs to, for texts of errors."""
    cdef const FieldPlan* field
    cdef int64_t first
    cdef int32_t i
    for i in range(plan.d.n_fields):
        field = &plan.d.fields[i]
        first = buffer_place(field, version == MetadataVersion_V4, prefix)
        if first <= ordinal < first + field.n_buffers:
            return f"column {field_path(plan, i)!r}: buffer {ordinal - first}"
    return f"Buffer {ordinal} of the message"


cdef struct Numbered:
    # A Buffer struct and its place in the message.
    int64_t offset
    int64_t length
    int64_t ordinal


cdef int by_offset(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const Numbered*> a).offset, y = (<const Numbered*> b).offset
    return (x > y) - (x < y)


cdef int check_extents(const BatchHeader* header, int64_t body_length, Fault* fault) noexcept nogil:
    cdef int64_t i, count = header.buffers.count
    cdef Numbered* buffers = <Numbered*> malloc(count * sizeof(Numbered) + 1)
    cdef int found
    if buffers == NULL:
        return fail(fault, FAULT_MEMORY, -1, -1, -1, 0, 0, NULL)
    for i in range(count):
        buffers[i].offset = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_offset)
        buffers[i].length = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length)
        buffers[i].ordinal = i
    qsort(buffers, count, sizeof(Numbered), by_offset)
    found = check_sorted(buffers, count, body_length, fault)
    free(buffers)
    return found


cdef int check_sorted(const Numbered* buffers, int64_t count, int64_t body_length, Fault* fault) noexcept nogil:
    cdef const Numbered* b
    cdef int64_t i, end = 0
    for i in range(count):
        b = &buffers[i]
        if not inside(b.offset, b.length, body_length):
            return fail(fault, FAULT_EMPTY_OUTSIDE, -1, -1, b.ordinal, b.offset, body_length, NULL)
        if b.offset & 7:
            return fail(fault, FAULT_MISALIGNED, -1, -1, b.ordinal, b.offset, 0, NULL)
        if b.length:
            if b.offset < end:
                return fail(fault, FAULT_SHARED, -1, -1, b.ordinal, b.offset, end, NULL)
            end = b.offset + b.length
    return 0
