"""Minimum, maximum and null count of columns, in one pass over each; contents of buffers are checked as they are read.

A column is reduced to a `Bounds`. Nulls are counted as a reader sees them: a row is null too if its dictionary
value, its run's value or a struct around it is null. Texts are compared by their first `CUT` bytes and no
further, so views that share one long text cost no more than others.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcmp, memset

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, field_path, raise_fault
from arrowipc.columns.elements cimport check_native, dictionary_id, dictionary_of
from arrowipc.columns.take cimport new_marks
from arrowipc.inline.bits cimport WORD, append_bits, keep_bits, load_bits, ones
from arrowipc.inline.element cimport find_run, float_key, index_at, load_float, validity, word_span
from arrowipc.inline.fault cimport Fault, fail, FAULT_NO_DICTIONARY
from arrowipc.inline.fbs_layout cimport (
    Precision_DOUBLE, Precision_HALF, Type_Decimal, Type_FixedSizeBinary, Type_FloatingPoint, Type_Int,
    Type_Interval,
)
from arrowipc.inline.layouts cimport is_binary
from arrowipc.inline.loads cimport bitmap_bytes, count_bits, get_bit, load_i64, load_u16, loose_f32, loose_f64, set_bit
from arrowipc.inline.minmax cimport Real, integer_bounds, widen_reals
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, FIELD_UTF8, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_RUN_END,
    LAYOUT_STRUCT, ColumnsData, FieldPlan,
)

from arrowipc.errors import FormatError, UsageError

#: Bytes of a text or binary value that a bound keeps.
LONGEST = 64

cdef enum:
    CUT = 64
    SPARSE = 4              # from so many dictionary values per row on, only those in use are visited

cdef enum Kind:
    # In which form the bounds of a column are kept.
    KIND_NONE = 0           # lists, maps, structs, unions, intervals, nulls: only nulls are counted
    KIND_BOOL
    KIND_SIGNED             # `low`, `high`; dates, times and small decimals too
    KIND_UNSIGNED           # `low`, `high`: the numbers without 2^63, so that they sort as signed ones
    KIND_HALF               # `low`, `high`: 16-bit floats as integers that sort as they do
    KIND_FLOAT              # `least`, `most`
    KIND_WIDE               # decimals of 16 and 32 bytes: where they lie
    KIND_TEXT               # where the bytes lie, and how many they are
    KIND_BYTES

cdef struct Bounds:
    int kind                # Kind
    int64_t nulls           # -1: not known
    bint found              # there is a value that is neither null nor NaN
    bint unknown            # values were left out
    bint nan                # there is a NaN
    int64_t low
    int64_t high
    double least
    double most
    const uint8_t* first    # KIND_WIDE, KIND_TEXT, KIND_BYTES; in the memory of the column or its dictionary
    const uint8_t* last
    int64_t first_size
    int64_t last_size


# -- the rows that count -------------------------------------------------------------------------------------


cdef Memory merge(const uint8_t** bits, int64_t* at, const uint8_t* mask, int64_t mask_at, int64_t count):
    """Intersect `bits`, from bit `at` on, with `mask`; NULL means that all bits are set.

    Return the memory of the new bits, or None: `bits` now points into one of the two.
    """
    cdef Memory out
    if mask == NULL:
        return None
    if bits[0] == NULL:
        bits[0] = mask
        at[0] = mask_at
        return None
    out = new_marks(count)
    append_bits(out.data, 0, bits[0], at[0], count)
    keep_bits(out.data, mask, mask_at, count)
    bits[0] = out.data
    at[0] = 0
    return out


# -- loops over values of fixed width ------------------------------------------------------------------------


cdef inline void merge_signed(Bounds* b, int64_t low, int64_t high) noexcept nogil:
    if not b.found or low < b.low:
        b.low = low
    if not b.found or high > b.high:
        b.high = high
    b.found = True


cdef void reals(const Real* values, int64_t count, const uint8_t* bits, int64_t at, Bounds* b) noexcept nogil:
    cdef int64_t i = 0, k, n
    cdef uint64_t word
    cdef Real low = INFINITY, high = -INFINITY, value
    if bits == NULL:
        b.nan |= widen_reals(values, count, &low, &high)
        i = count
    while i < count:
        n = min(count - i, <int64_t> WORD)
        word = load_bits(bits, at + i, n)
        if word == ones(n):
            b.nan |= widen_reals(values + i, n, &low, &high)
        elif word:
            for k in range(n):
                if (word >> k) & 1:
                    value = values[i + k]
                    low = value if value < low else low
                    high = value if value > high else high
                    b.nan |= value != value
        i += n
    if low > high:
        return      # there is nothing but NaN
    if not b.found or low < b.least:
        b.least = low
    if not b.found or high > b.most:
        b.most = high
    b.found = True


cdef void halves(const uint8_t* values, int64_t count, const uint8_t* bits, int64_t at, Bounds* b) noexcept nogil:
    """Widen the bounds by 16-bit floating-point numbers, as integers that sort as they do; both zeros are 0."""
    cdef int64_t i, key
    for i in range(count):
        if bits == NULL or get_bit(bits, at + i):
            key = float_key(load_u16(values + 2 * i), 2)
            if key == INT64_MAX:
                b.nan = True
            else:
                merge_signed(b, key, key)


cdef void booleans(const uint8_t* values, int64_t values_at, int64_t count, const uint8_t* bits, int64_t at,
                   Bounds* b) noexcept nogil:
    cdef int64_t i = 0, n
    cdef uint64_t word, mask
    if bits == NULL:
        i = count_bits(values, values_at, count)
        merge_signed(b, i == count, i != 0)
        return
    while i < count and not (b.found and b.low == 0 and b.high == 1):
        n = min(count - i, <int64_t> WORD)
        mask = load_bits(bits, at + i, n)
        word = load_bits(values, values_at + i, n)
        if mask:
            merge_signed(b, word & mask == mask, word & mask != 0)
        i += n


cdef inline bint less_wide(const uint8_t* a, const uint8_t* b, int32_t width) noexcept nogil:
    """Whether one two's complement number of 16 or 32 bytes is below another."""
    cdef int64_t high_a = load_i64(a + width - 8), high_b = load_i64(b + width - 8)
    cdef uint64_t low_a, low_b
    cdef int32_t i = width - 16
    if high_a != high_b:
        return high_a < high_b
    while i >= 0:
        low_a = <uint64_t> load_i64(a + i)
        low_b = <uint64_t> load_i64(b + i)
        if low_a != low_b:
            return low_a < low_b
        i -= 8
    return False


cdef void wides(const uint8_t* values, int32_t width, int64_t count, const uint8_t* bits, int64_t at,
                Bounds* b) noexcept nogil:
    cdef const uint8_t* p
    cdef int64_t i
    for i in range(count):
        if bits != NULL and not get_bit(bits, at + i):
            continue
        p = values + i * width
        if not b.found:
            b.found = True
            b.first = b.last = p
        elif less_wide(p, b.first, width):
            b.first = p
        elif less_wide(b.last, p, width):
            b.last = p


# -- text and binary -----------------------------------------------------------------------------------------


cdef inline bint less_word(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    """Whether one value sorts below another, by their first CUT bytes and, if shorter, their lengths."""
    cdef int64_t shared = min(min(a_size, b_size), <int64_t> CUT)
    cdef int order = memcmp(a, b, shared) if shared else 0
    if order:
        return order < 0
    return min(a_size, <int64_t> CUT + 1) < min(b_size, <int64_t> CUT + 1)


cdef inline void offer(Bounds* b, const uint8_t* p, int64_t size) noexcept nogil:
    if not b.found or less_word(p, size, b.first, b.first_size):
        b.first = p
        b.first_size = size
    if not b.found or less_word(b.last, b.last_size, p, size):
        b.last = p
        b.last_size = size
    b.found = True


cdef int words(const ColumnsData* d, int32_t f, int64_t first, int64_t count, const uint8_t* bits, int64_t at,
               Bounds* b, Fault* fault) noexcept nogil:
    cdef const uint8_t* p = NULL
    cdef int64_t i, size = 0
    for i in range(count):
        if bits != NULL and not get_bit(bits, at + i):
            continue
        if word_span(d, f, first + i, &p, &size, fault) < 0:
            return -1
        offer(b, p, size)
    return 0


cdef void blobs(const uint8_t* values, int32_t width, int64_t count, const uint8_t* bits, int64_t at,
                Bounds* b) noexcept nogil:
    """Widen the bounds by binary values of fixed size."""
    cdef int64_t i
    if width == 0 and bits == NULL:
        count = min(count, <int64_t> 1)     # a few bytes may claim to be billions of these
    for i in range(count):
        if bits == NULL or get_bit(bits, at + i):
            offer(b, values + i * width, width)


# -- one column ----------------------------------------------------------------------------------------------


cdef const FieldPlan* value_field(Plan plan, int32_t f) except NULL:
    """Return the field that has the values of field `f`: behind dictionaries and runs."""
    cdef DictionaryPlan dictionary
    if plan.d.fields[f].flags & FIELD_ENCODED:
        dictionary = plan.dictionaries[plan.d.fields[f].dictionary]
        return value_field(dictionary.values, dictionary.values.d.columns[0])
    if plan.d.fields[f].layout == LAYOUT_RUN_END:
        return value_field(plan, plan.d.fields[f + 1].end)
    return &plan.d.fields[f]


cdef int kind_of(const FieldPlan* field) noexcept nogil:
    """Return the Kind of a field's values."""
    if field.layout == LAYOUT_BOOL:
        return KIND_BOOL
    if is_binary(field.layout):
        return KIND_TEXT if field.flags & FIELD_UTF8 else KIND_BYTES
    if field.layout != LAYOUT_FIXED or field.type == Type_Interval:
        return KIND_NONE
    if field.type == Type_FixedSizeBinary:
        return KIND_BYTES
    if field.type == Type_FloatingPoint:
        return KIND_HALF if field.unit == Precision_HALF else KIND_FLOAT
    if field.type == Type_Decimal and field.width > 8:
        return KIND_WIDE
    if field.type == Type_Int and not field.flags & FIELD_SIGNED:
        return KIND_UNSIGNED
    return KIND_SIGNED


cdef int gather_leaf(const ColumnsData* d, int32_t f, int64_t first, int64_t count, const uint8_t* bits, int64_t at,
                     Bounds* b, Fault* fault) noexcept nogil:
    """Widen the bounds by elements from physical position `first` on; their bits begin at `at` (NULL: all count)."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* p = d.extents[field.first_buffer + 1].data
    cdef int32_t width = field.width
    cdef int64_t low, high
    if field.layout == LAYOUT_BOOL:
        booleans(p, first, count, bits, at, b)
        return 0
    if field.layout != LAYOUT_FIXED:
        return words(d, f, first, count, bits, at, b, fault)
    p += first * width
    if b.kind == KIND_BYTES:
        blobs(p, width, count, bits, at, b)
    elif b.kind == KIND_WIDE:
        wides(p, width, count, bits, at, b)
    elif b.kind == KIND_HALF:
        halves(p, count, bits, at, b)
    elif b.kind == KIND_FLOAT:
        if field.unit == Precision_DOUBLE:
            reals(<const loose_f64*> p, count, bits, at, b)
        else:
            reals(<const loose_f32*> p, count, bits, at, b)
    elif integer_bounds(p, width, b.kind == KIND_SIGNED, count, bits, at, &low, &high):
        if b.kind == KIND_UNSIGNED:
            low, high = low ^ INT64_MIN, high ^ INT64_MIN
        merge_signed(b, low, high)
    return 0


cdef int gather(Columns columns, int32_t f, int64_t first, int64_t count, const uint8_t* mask, int64_t mask_at,
                Bounds* b) except -1:
    """Widen the bounds by elements of a field from physical position `first` on, and set how many are null.

    Bit `mask_at` of `mask` belongs to the first one; elements whose bit is off count as nulls (NULL: none does).
    """
    cdef const FieldPlan* field = &columns.d.plan.fields[f]
    cdef const uint8_t* bits = validity(&columns.d, f)
    cdef int64_t at = first, nulls = 0
    cdef Memory merged
    cdef Fault fault
    cdef int found
    if field.layout == LAYOUT_NULL:
        b.nulls = count
        return 0
    if field.layout == LAYOUT_RUN_END:
        return gather_runs(columns, f, first, count, mask != NULL, b)
    merged = merge(&bits, &at, mask, mask_at, count)
    if bits != NULL:
        nulls = count - count_bits(bits, at, count)
    if nulls == 0:
        bits = NULL
    b.nulls = nulls
    if field.flags & FIELD_ENCODED and nulls < count:
        return gather_encoded(columns, f, first, count, bits, at, b)
    if b.kind != KIND_NONE and nulls < count:
        with nogil:
            found = gather_leaf(&columns.d, f, first, count, bits, at, b, &fault)
        if found < 0:
            raise_fault(&fault, columns.plan)
    return 0


# -- dictionaries --------------------------------------------------------------------------------------------


cdef int mark_used(const ColumnsData* d, int32_t f, int64_t first, int64_t count, const uint8_t* bits, int64_t at,
                   int64_t size, uint8_t* used, Fault* fault) noexcept nogil:
    """Set a bit for each value that some index refers to; behind these bits is room for a byte per value."""
    cdef uint8_t* marks = used + bitmap_bytes(size)
    cdef int64_t i, index = 0
    if size:  # memory for no values has no address
        memset(used, 0, bitmap_bytes(size) + size)
    for i in range(count):
        if bits != NULL and not get_bit(bits, at + i):
            continue
        if index_at(d, f, first + i, size, &index, fault) < 0:
            return -1
        # Setting bits here would be slower: each would wait for the last one in the same byte.
        marks[index] = 1
    for i in range(size):
        if marks[i]:
            set_bit(used, i)
    return 0


cdef int gather_encoded(Columns columns, int32_t f, int64_t first, int64_t count, const uint8_t* bits, int64_t at,
                        Bounds* b) except -1:
    """Do what `gather` does, for dictionary indices, not all of which are null: the values that they refer to count."""
    cdef Columns dictionary = dictionary_of(columns, f)
    cdef int64_t i, index = 0, size, origin, nulls = b.nulls
    cdef int32_t value
    cdef Memory used
    cdef Fault fault
    cdef int found
    if dictionary is None:
        fail(&fault, FAULT_NO_DICTIONARY, f, 1, first, dictionary_id(columns, f))
        raise_fault(&fault, columns.plan)
    value = dictionary.d.plan.columns[0]
    origin = dictionary.d.nodes[value].offset
    size = dictionary.d.length
    if size // SPARSE > count:
        for i in range(count):
            if bits != NULL and not get_bit(bits, at + i):
                continue
            if index_at(&columns.d, f, first + i, size, &index, &fault) < 0:
                raise_fault(&fault, columns.plan)
            gather(dictionary, value, origin + index, 1, NULL, 0, b)
            nulls += b.nulls
        b.nulls = nulls
        return 0
    used = Memory(bitmap_bytes(size) + size)
    with nogil:
        found = mark_used(&columns.d, f, first, count, bits, at, size, used.data, &fault)
    if found < 0:
        raise_fault(&fault, columns.plan)
    gather(dictionary, value, origin, size, used.data, 0, b)
    # Rows that refer to null values are not counted, so if there are such values, the number is not known.
    b.nulls = nulls if b.nulls == size - count_bits(used.data, 0, size) else -1
    return 0


# -- runs ----------------------------------------------------------------------------------------------------


cdef int gather_runs(Columns columns, int32_t f, int64_t first, int64_t count, bint masked, Bounds* b) except -1:
    """Do what `gather` does, for run-end encoded elements; their nulls are known if all runs are null, or none is."""
    cdef const ColumnsData* d = &columns.d
    cdef int32_t value = d.plan.fields[f + 1].end
    cdef int64_t run = find_run(d, f, first), runs = 0
    if masked:
        b.nulls = -1
        b.unknown = True
        return 0
    if count:
        runs = max(min(find_run(d, f, first + count - 1) + 1, d.nodes[f + 1].length) - run, 0)
    gather(columns, value, d.nodes[value].offset + run, runs, NULL, 0, b)
    if b.nulls:
        b.nulls = count if b.nulls == runs else -1
    return 0


# -- bounds as Python values ---------------------------------------------------------------------------------


cdef object number(const Bounds* b, bint upper):
    """Return a bound that is kept as a number."""
    cdef int64_t value = b.high if upper else b.low
    cdef double real = b.most if upper else b.least
    cdef uint16_t half
    if b.kind == KIND_BOOL:
        return value != 0
    if b.kind == KIND_SIGNED:
        return value
    if b.kind == KIND_UNSIGNED:
        return <uint64_t> (value ^ INT64_MIN)
    if b.kind == KIND_HALF:
        half = <uint16_t> (0x8000 | -value if value < 0 or (value == 0 and not upper) else value)
        return load_float(<const uint8_t*> &half, 0, 2)
    # 0.0 and -0.0 are equal, so either may have been kept: return the outer one.
    return (0.0 if upper else -0.0) if real == 0 else real


cdef object wide(const uint8_t* p, int32_t width):
    return int.from_bytes(PyBytes_FromStringAndSize(<const char*> p, width), "little", signed=True)


cdef tuple lower(const uint8_t* p, int64_t size, bint is_text):
    """Return a value as a lower bound, and whether the bound is the value itself."""
    cdef int64_t end = min(size, <int64_t> CUT)
    if is_text:
        while end < size and end and p[end] & 0xC0 == 0x80:
            end -= 1
    data = PyBytes_FromStringAndSize(<const char*> p, end)
    return data.decode() if is_text else data, end == size


cdef tuple upper(const uint8_t* p, int64_t size, bint is_text):
    """Return a value as an upper bound (None if none is short enough), and whether the bound is the value itself."""
    if size <= CUT:
        return lower(p, size, is_text)
    start, _ = lower(p, size, is_text)
    return (next_text(start) if is_text else next_bytes(start)), False


def next_text(str start not None):
    """Return the smallest text above all that begin with `start`, of at most LONGEST bytes; None if there is none."""
    cdef Py_ssize_t end = len(start)
    while end:
        end -= 1
        last = ord(start[end])
        start = start[:end]
        if last < 0x10FFFF:
            # Surrogates are not characters: skip them.
            longer = start + chr(0xE000 if last == 0xD7FF else last + 1)
            if len(longer.encode()) <= CUT:
                return longer
    return None


def next_bytes(bytes start not None):
    """Return the smallest bytes above all that begin with `start`; None if there are none."""
    cdef bytes kept = start.rstrip(b"\xff")
    cdef Py_ssize_t end = len(kept) - 1
    return kept[:end] + bytes([kept[end] + 1]) if kept else None


cdef tuple what_is_known(Columns columns, int32_t f, object path, const Bounds* b):
    """Return the tuple of `Collector.collect` for one column."""
    cdef bint is_text = b.kind == KIND_TEXT
    cdef int32_t width
    low = high = None
    low_exact = high_exact = True
    nulls = b.nulls if b.nulls >= 0 else None
    if b.found and not b.unknown:
        if b.kind == KIND_WIDE:
            width = value_field(columns.plan, f).width
            low = wide(b.first, width)
            high = wide(b.last, width)
        elif is_text or b.kind == KIND_BYTES:
            try:
                low, low_exact = lower(b.first, b.first_size, is_text)
                high, high_exact = upper(b.last, b.last_size, is_text)
            except UnicodeDecodeError:
                raise FormatError(f"column {path!r}: text in it is not UTF-8") from None
        else:
            low = number(b, False)
            high = number(b, True)
    nan = None if b.unknown or (b.kind != KIND_FLOAT and b.kind != KIND_HALF) else b.nan != 0
    return path, nulls, low, high, low_exact, high_exact, nan


# -- batches -------------------------------------------------------------------------------------------------


cdef class Collector:
    """Collects the statistics of batches, for some top-level columns (None: for all)."""

    cdef readonly object columns        # None: all; else names of top-level columns
    cdef Plan plan                      # of the last batch
    cdef list paths                     # dotted path per field of `plan`; None: not wanted, or not unique

    def __init__(self, columns=None):
        self.columns = None if columns is None else frozenset(columns)

    cdef int prepare(self, Plan plan) except -1:
        """Find the paths of fields that have their own statistics: columns, and members of structs."""
        cdef int32_t f, parent
        cdef list paths = []
        cdef dict seen = {}
        for f in range(plan.d.n_fields):
            parent = plan.d.fields[f].parent
            path = None
            # A dictionary-encoded struct is one field here: its members are fields of the dictionary's plan.
            if parent < 0:
                path = field_path(plan, f)
                if self.columns is not None and path not in self.columns:
                    path = None
            elif paths[parent] is not None and plan.d.fields[parent].layout == LAYOUT_STRUCT:
                path = field_path(plan, f)
            paths.append(path)
            seen[path] = seen.get(path, 0) + 1
        # A path that means two columns is not reported, but the fields below it are.
        self.paths = [(path, path is not None and seen[path] == 1) for path in paths]
        self.plan = plan
        return 0

    cdef int visit(self, Columns columns, int32_t f, int64_t at, int64_t count, const uint8_t* mask,
                   int64_t mask_at, list out) except -1:
        cdef const FieldPlan* field = &columns.d.plan.fields[f]
        cdef const uint8_t* bits = NULL
        cdef int64_t bits_at = at
        cdef int32_t child = f + 1
        cdef Memory merged
        cdef Bounds b
        path, unique = self.paths[f]
        if path is None:
            return 0
        if unique:
            memset(&b, 0, sizeof(Bounds))
            b.kind = kind_of(value_field(columns.plan, f))
            gather(columns, f, at, count, mask, mask_at, &b)
            out.append(what_is_known(columns, f, path, &b))
        if field.layout != LAYOUT_STRUCT:
            return 0
        bits = validity(&columns.d, f)
        merged = merge(&bits, &bits_at, mask, mask_at, count)
        if bits != NULL and count_bits(bits, bits_at, count) == count:
            bits = NULL
        while child < field.end:
            self.visit(columns, child, columns.d.nodes[child].offset + at, count, bits, bits_at, out)
            child = columns.d.plan.fields[child].end
        return 0

    def collect(self, Columns columns not None, int64_t start, int64_t count):
        """Return the statistics of rows [start, start + count), a tuple for each path.

        Dotted path, nulls (None: not known), minimum and maximum as they are stored (None: there is none, or it is not
        known), whether either is exact, whether there is a NaN (None: it is no floating-point column).
        """
        cdef list out = []
        cdef int32_t i, f
        check_native(columns, "statistics")
        if start < 0 or count < 0 or start > columns.d.length or count > columns.d.length - start:
            raise UsageError(f"rows {start}..{start + count} are not in a batch of {columns.d.length}")
        if columns.plan is not self.plan:
            self.prepare(columns.plan)
        for i in range(columns.d.plan.n_columns):
            f = columns.d.plan.columns[i]
            self.visit(columns, f, columns.d.nodes[f].offset + start, count, NULL, 0, out)
        return out
