"""Equality of two columns of the same type, value by value; values under nulls do not count.

Like `columns.elements`, nothing here trusts the contents: broken offsets, indices, views, codes and run ends raise.
"""

from libc.math cimport signbit
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp

cimport cython

from arrowipc._core cimport Columns
from arrowipc.columns.builder cimport BEGINS_NOT, BEGINS_SNAPSHOT, BEGINS_VALUES, begins_with_snapshot
from arrowipc.columns.elements cimport MAX_NESTING, check, count_bytes, dictionary_id, dictionary_of
from arrowipc.inline.bits cimport load_int
from arrowipc.inline.element cimport find_run, index_at, load_float, member_at, next_run, span, validity, word_span
from arrowipc.inline.fault cimport Fault, fail, FAULT_NO_DICTIONARY
from arrowipc.inline.fbs_layout cimport Type_FloatingPoint
from arrowipc.inline.layouts cimport LAYOUTS, has_offsets, is_binary, is_union
from arrowipc.inline.loads cimport get_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_STRUCT,
    ColumnsData, Extent, FieldPlan,
)
from arrowipc.inline.room cimport new_zeros
from arrowipc.metadata.schema_reader cimport same_shape

from arrowipc.errors import ArrowIpcError, LimitError

# The number of comparisons that are always allowed; a list element is one, and so are 8 bytes of contents. Each byte of
# either side allows eight more. Views, unions and dictionaries may share what they point at: a million list views of
# the same million elements are few bytes and 2**40 comparisons.
cdef int64_t FREE_ELEMENTS = 2**25

# The same for two dictionaries, which are compared for each batch; each byte allows two more.
cdef int64_t FREE_VALUES = 2**13

cdef enum Equality:
    # When floating-point numbers are equal.
    AS_NUMBERS = 0      # -0.0 equals 0.0, NaN equals nothing
    NAN_EQUAL           # ... NaN equals NaN
    EXACT               # NaN equals NaN, -0.0 differs from 0.0


@cython.final
@cython.auto_pickle(False)
cdef class Comparison:
    """Options, budget and depth of one comparison."""

    cdef int equality           # Equality
    cdef int64_t per_byte       # comparisons for each byte of either side
    cdef int64_t limit
    cdef int64_t left
    cdef int depth
    cdef bint under_nulls       # values under nulls are compared, too
    cdef bint met_nulls         # ... and there were nulls

    cdef Columns one, other     # their bytes are counted only if needed: batches of 100,000 columns never need it

    cdef int take(self, int64_t count) except -1:
        cdef int64_t more
        if count > self.left and self.one is not None:
            more = self.per_byte * (count_bytes(self.one) + count_bytes(self.other))
            self.one = None
            self.limit += more
            self.left += more
        if count > self.left:
            raise LimitError(f"these are more than {self.limit:,} elements to compare; compare slices")
        self.left -= count
        return 0


cdef int same_values(Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j, int64_t count,
                     bint nan_equal) except -1:
    cdef int equality = NAN_EQUAL if nan_equal else AS_NUMBERS
    cdef Comparison q = comparison(a, b, equality, FREE_ELEMENTS)
    if count >= 64:
        # The values under nulls are mostly equal, too; then the nulls need not be searched for.
        q.under_nulls = True
        try:
            if same(q, a, f, i, b, g, j, count):
                return True
        except ArrowIpcError:
            q.met_nulls = True      # the broken value may be under a null
        if not q.met_nulls:
            return False
        q = comparison(a, b, equality, FREE_ELEMENTS)
    return same(q, a, f, i, b, g, j, count)


cdef int begins_with(Columns longer, Columns shorter) except -1:
    cdef int found = begins_with_snapshot(longer, shorter), below
    if longer is shorter or longer.d.length < shorter.d.length:
        return found
    if found:
        # Both columns have the same plan, so their dictionaries are in the same order.
        for a, b in zip(longer.dictionaries, shorter.dictionaries):
            if b is not None:
                below = begins_with(a, b) if a is not None else BEGINS_NOT
                found = found if below >= BEGINS_SNAPSHOT else min(found, below)
    if found or (longer.plan is not shorter.plan and not same_shape(longer.plan, shorter.plan)):
        return found
    if begin_otherwise(&longer.d, &shorter.d):
        return BEGINS_NOT
    try:
        if same(comparison(longer, shorter, EXACT, FREE_VALUES), longer, 0, longer.d.nodes[0].offset, shorter, 0,
                shorter.d.nodes[0].offset, shorter.d.length):
            return BEGINS_VALUES
    except LimitError:
        pass
    return BEGINS_NOT


cdef bint begin_otherwise(const ColumnsData* a, const ColumnsData* b) noexcept nogil:
    """Return whether the first values are texts that differ, as those of most dictionaries that differ do."""
    cdef const uint8_t* p = NULL
    cdef const uint8_t* r = NULL
    cdef int64_t size = 0, other = 0
    cdef Fault fault
    if (not is_binary(a.plan.fields[0].layout) or b.length == 0 or validity(a, 0) != NULL or validity(b, 0) != NULL
            or word_span(a, 0, a.nodes[0].offset, &p, &size, &fault) < 0
            or word_span(b, 0, b.nodes[0].offset, &r, &other, &fault) < 0):
        return False
    return size != other or memcmp(p, r, size) != 0


cdef tuple longest_dictionaries(object pieces):
    cdef Columns one = pieces[0], longest, version
    cdef tuple first = one.dictionaries, last
    cdef list found = []
    cdef set known, differing = set()
    cdef Py_ssize_t k
    for one in pieces:
        # Nearly always a column has one dictionary, or one that grows.
        if one.dictionaries is not first:
            break
    else:
        return list(first), differing
    for k in range(len(first)):
        longest, last, known = first[k], first, {id(None), id(first[k])}
        for one in pieces:
            if one.dictionaries is last:
                continue
            last = one.dictionaries
            version = last[k]
            if id(version) in known:
                continue
            known.add(id(version))
            if longest is None or begins_with(version, longest):
                longest = version
            elif not begins_with(longest, version):
                longest = None
                differing.add(k)
                break
        found.append(longest)
    return found, differing


cdef tuple adopted(tuple dictionaries, tuple others):
    cdef list out
    if not dictionaries or others is dictionaries:
        return dictionaries
    out = list(dictionaries)
    for i, other in enumerate(others):
        if other is not None and (out[i] is None or not begins_with(out[i], other)):
            out[i] = other
    return tuple(out)


cdef Comparison comparison(Columns a, Columns b, int equality, int64_t free):
    cdef Comparison q = Comparison.__new__(Comparison)
    q.equality = equality
    # A dictionary that takes longer to compare than to write is written.
    q.per_byte = 2 if equality == EXACT else 8
    q.limit = q.left = free
    q.one = a
    q.other = b
    return q


cdef int same(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
              int64_t count) except -1:
    """Return whether nulls are in the same places, and the values between them are equal."""
    cdef const FieldPlan* field = &a.d.plan.fields[f]
    cdef const uint8_t* valid = validity(&a.d, f)
    cdef int equal
    if count == 0 or field.layout == LAYOUT_NULL:
        return True
    if q.depth >= MAX_NESTING:
        raise LimitError(f"values are nested deeper than {MAX_NESTING} levels")
    q.depth += 1
    if field.flags & FIELD_ENCODED:
        equal = same_decoded(q, a, f, i, b, g, j, count)
    elif not same_nulls(valid, i, validity(&b.d, g), j, count):
        equal = False
    elif valid == NULL or q.under_nulls:
        # NULL: there is no null; a bitmap of the other side says the same.
        q.met_nulls |= valid != NULL
        equal = same_valid(q, a, f, i, b, g, j, count)
    else:
        equal = same_between_nulls(q, a, f, i, b, g, j, count)
    q.depth -= 1
    return equal


cdef int same_between_nulls(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                            int64_t count) except -1:
    """Whether the valid elements are equal; both sides have their nulls in the same places."""
    cdef const uint8_t* valid = validity(&a.d, f)
    cdef int64_t k = 0, start
    while k < count:
        start = next_bit(valid, i + k, i + count, True) - i
        k = next_bit(valid, i + start, i + count, False) - i
        if k > start and not same_valid(q, a, f, i + start, b, g, j + start, k - start):
            return False
    return True


cdef int64_t next_bit(const uint8_t* bits, int64_t i, int64_t end, bint wanted) noexcept nogil:
    """Position of the first bit of bits[i : end] that is `wanted`; `end` if there is none."""
    cdef uint8_t dull = 0 if wanted else 0xFF
    while i < end:
        if i & 7 == 0 and end - i >= 8 and bits[i >> 3] == dull:
            i += 8
        elif get_bit(bits, i) == wanted:
            return i
        else:
            i += 1
    return end


cdef bint same_bits(const uint8_t* a, int64_t i, const uint8_t* b, int64_t j, int64_t count) noexcept nogil:
    cdef int64_t k = 0, whole
    if i & 7 == j & 7:
        while k < count and (i + k) & 7:
            if get_bit(a, i + k) != get_bit(b, j + k):
                return False
            k += 1
        whole = (count - k) >> 3
        if whole and memcmp(a + ((i + k) >> 3), b + ((j + k) >> 3), whole) != 0:
            return False
        k += 8 * whole
    while k < count:
        if get_bit(a, i + k) != get_bit(b, j + k):
            return False
        k += 1
    return True


cdef bint same_nulls(const uint8_t* a, int64_t i, const uint8_t* b, int64_t j, int64_t count) noexcept nogil:
    """Whether two bitmaps, or their absence, say the same."""
    if a == NULL:
        return b == NULL or next_bit(b, j, j + count, False) == j + count
    if b == NULL:
        return next_bit(a, i, i + count, False) == i + count
    return same_bits(a, i, b, j, count)


cdef int same_valid(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                    int64_t count) except -1:
    """Return whether elements are equal, all of which count as valid."""
    cdef const FieldPlan* field = &a.d.plan.fields[f]
    cdef const uint8_t* p
    cdef const uint8_t* r
    cdef int32_t child, other
    cdef int layout = field.layout
    if layout == LAYOUT_FIXED:
        p = a.d.extents[field.first_buffer + 1].data + i * field.width
        r = b.d.extents[b.d.plan.fields[g].first_buffer + 1].data + j * field.width
        if field.type == Type_FloatingPoint:
            q.take(count)
            return same_floats(p, r, field.width, count, q.equality)
        q.take(count * field.width >> 3)
        return field.width == 0 or memcmp(p, r, count * field.width) == 0
    if layout == LAYOUT_BOOL:
        p = a.d.extents[field.first_buffer + 1].data
        r = b.d.extents[b.d.plan.fields[g].first_buffer + 1].data
        return same_bits(p, i, r, j, count)
    if is_binary(layout):
        return same_binary(q, a, f, i, b, g, j, count)
    if layout == LAYOUT_STRUCT:
        child = f + 1
        other = g + 1
        while child < field.end:
            if not same(q, a, child, a.d.nodes[child].offset + i,
                        b, other, b.d.nodes[other].offset + j, count):
                return False
            child = a.d.plan.fields[child].end
            other = b.d.plan.fields[other].end
        return True
    if is_union(layout):
        return same_unions(q, a, f, i, b, g, j, count)
    if layout == LAYOUT_RUN_END:
        return same_runs(q, a, f, i, b, g, j, count)
    return same_lists(q, a, f, i, b, g, j, count)


cdef int same_floats(const uint8_t* p, const uint8_t* r, int32_t width, int64_t count,
                     int equality) except -1:
    cdef double x, y
    cdef int64_t k
    for k in range(count):
        x, y = load_float(p, k, width), load_float(r, k, width)
        if x != y and not (equality != AS_NUMBERS and x != x and y != y):
            return False
        if equality == EXACT and x == 0 and signbit(x) != signbit(y):
            return False
    return True


cdef inline bint fall(const uint8_t* offsets, int64_t count, int32_t width) noexcept nogil:
    """Whether one of the offsets 1 to `count` is below the one before it."""
    cdef bint any = False
    cdef int64_t k
    for k in range(count):
        any |= load_int(offsets, k + 1, width) < load_int(offsets, k, width)
    return any


cdef bint same_offsets(const ColumnsData* a, int32_t f, int64_t i, const ColumnsData* b, int32_t g, int64_t j,
                       int64_t count, int64_t limit, int64_t* start, int64_t* size) noexcept nogil:
    """Return whether two columns have the same offsets, which rise and are within `limit`. Then all values are the
    `size` bytes or elements from `start` on."""
    cdef const Extent* x = &a.extents[a.plan.fields[f].first_buffer + 1]
    cdef const Extent* y = &b.extents[b.plan.fields[g].first_buffer + 1]
    cdef int layout = a.plan.fields[f].layout
    cdef int32_t width = LAYOUTS[layout].buffers[1].width
    cdef const uint8_t* p
    cdef int64_t stop
    cdef bint falls
    if count == 0 or not has_offsets(layout):
        return False
    p = x.data + i * width
    if memcmp(p, y.data + j * width, (count + 1) * width) != 0:
        return False
    falls = fall(p, count, 4) if width == 4 else fall(p, count, 8)  # as a constant, the width is not compared in a loop
    start[0], stop = load_int(p, 0, width), load_int(p, count, width)
    if falls or start[0] < 0 or stop > limit:
        return False
    size[0] = stop - start[0]
    return True


cdef int same_binary(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                     int64_t count) except -1:
    """Compare text and binary: sizes one by one, but the bytes of values that lie together at once."""
    cdef const uint8_t* p = NULL
    cdef const uint8_t* r = NULL
    cdef const uint8_t* first = NULL
    cdef const uint8_t* second = NULL
    cdef int64_t size = 0, other = 0, together = 0, k
    cdef const Extent* x = &a.d.extents[a.d.plan.fields[f].first_buffer + 2]
    cdef const Extent* y = &b.d.extents[b.d.plan.fields[g].first_buffer + 2]
    cdef Fault fault
    if (has_offsets(a.d.plan.fields[f].layout)
            and same_offsets(&a.d, f, i, &b.d, g, j, count, min(x.size, y.size), &size, &other)):
        q.take(other >> 3)
        return other == 0 or memcmp(x.data + size, y.data + size, other) == 0
    for k in range(count):
        check(word_span(&a.d, f, i + k, &p, &size, &fault), &fault, a)
        check(word_span(&b.d, g, j + k, &r, &other, &fault), &fault, b)
        if size != other:
            return False
        if size == 0:
            continue
        if together and (p != first + together or r != second + together):
            q.take(together >> 3)
            if memcmp(first, second, together) != 0:
                return False
            together = 0
        if together == 0:
            first = p
            second = r
        together += size
    q.take(together >> 3)
    return together == 0 or memcmp(first, second, together) == 0


cdef int same_lists(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                    int64_t count) except -1:
    """Compare lists: lengths one by one, but elements that lie together on both sides at once."""
    cdef int64_t start = 0, other = 0, size = 0, length = 0, first = 0, second = 0, together = 0, k
    cdef int32_t child = f + 1, twin = g + 1
    cdef Fault fault
    if a.d.plan.fields[f].layout == LAYOUT_FIXED_LIST:
        # All elements lie together. Lists are not visited one by one: two billion lists of no elements are a few bytes.
        size = a.d.plan.fields[f].width
        return same(q, a, child, a.d.nodes[child].offset + i * size,
                    b, twin, b.d.nodes[twin].offset + j * size, count * size)
    if same_offsets(&a.d, f, i, &b.d, g, j, count, min(a.d.nodes[child].length, b.d.nodes[twin].length),
                    &start, &size):
        q.take(size)
        return same(q, a, child, a.d.nodes[child].offset + start, b, twin, b.d.nodes[twin].offset + start, size)
    for k in range(count):
        check(span(&a.d, f, i + k, &start, &size, &fault), &fault, a)
        check(span(&b.d, g, j + k, &other, &length, &fault), &fault, b)
        if size != length:
            return False
        q.take(size)
        if size == 0:
            continue
        if together and (start != first + together or other != second + together):
            if not same(q, a, child, a.d.nodes[child].offset + first,
                        b, twin, b.d.nodes[twin].offset + second, together):
                return False
            together = 0
        if together == 0:
            first = start
            second = other
        together += size
    return same(q, a, child, a.d.nodes[child].offset + first,
                b, twin, b.d.nodes[twin].offset + second, together)


cdef int same_unions(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                     int64_t count) except -1:
    """Compare unions: rows must name the same child, and have equal values there."""
    cdef int64_t start = 0, other = 0, first = 0, second = 0, together = 0, k
    cdef int32_t child = 0, twin = 0, current = 0, current_twin = 0
    cdef Fault fault
    for k in range(count):
        check(member_at(&a.d, f, i + k, &child, &start, &fault), &fault, a)
        check(member_at(&b.d, g, j + k, &twin, &other, &fault), &fault, b)
        # Equal types number their fields alike, so the distance from the union names the child.
        if child - f != twin - g:
            return False
        if together and (child != current or start != first + together or other != second + together):
            if not same(q, a, current, first, b, current_twin, second, together):
                return False
            together = 0
        if together == 0:
            current = child
            current_twin = twin
            first = start
            second = other
        together += 1
    return same(q, a, current, first, b, current_twin, second, together)


cdef int same_runs(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                   int64_t count) except -1:
    """Compare run-end encodings, which may cut the same values into different runs."""
    cdef int32_t child = a.d.plan.fields[f + 1].end, twin = b.d.plan.fields[g + 1].end
    cdef int64_t run = find_run(&a.d, f, i), other = find_run(&b.d, g, j), done = 0, end = 0, other_end = 0
    cdef int64_t first = run, second = other
    cdef Fault fault
    while done < count:
        check(next_run(&a.d, f, run, i + done, &end, &fault), &fault, a)
        check(next_run(&b.d, g, other, j + done, &other_end, &fault), &fault, b)
        q.take(1)
        end -= i
        other_end -= j
        done = min(end, other_end)
        run += 1
        other += 1
        if end == other_end and done < count:
            continue
        # Up to this run, the runs of both sides have the same lengths.
        if not same(q, a, child, a.d.nodes[child].offset + first, b, twin, b.d.nodes[twin].offset + second,
                    run - first):
            return False
        run -= end > done
        other -= other_end > done
        first = run
        second = other
    return True


cdef int same_decoded(Comparison q, Columns a, int32_t f, int64_t i, Columns b, int32_t g, int64_t j,
                      int64_t count) except -1:
    """Compare dictionary-encoded values, each pair of indices once; the index of a null value is null, too."""
    cdef Columns values = dictionary_of(a, f), others = dictionary_of(b, g)
    cdef int64_t index = 0, other = 0, k
    cdef int32_t child = 0 if values is None else values.d.plan.columns[0]
    cdef int32_t twin = 0 if others is None else others.d.plan.columns[0]
    cdef bint identical = False
    cdef int64_t* partners = NULL   # for each of `values`: 1 + the index of the value of `others` that equals it
    # Each call counts: nested dictionaries may lead to the same values in many ways, and lists to the same indices.
    q.take(1 + count)
    if values is not None and others is not None and values.d.length == others.d.length <= count:
        # Mostly the two dictionaries are the same; then equal indices need no second look.
        identical = same(q, values, child, values.d.nodes[child].offset,
                         others, twin, others.d.nodes[twin].offset, values.d.length)
        if identical and same_indices(&a.d, f, i, &b.d, g, j, count):
            return True
    try:
        for k in range(count):
            index = value_index(a, f, i + k, values, child)
            other = value_index(b, g, j + k, others, twin)
            if index < 0 or other < 0:
                if index != other:
                    return False
                continue
            if (identical and index == other) or (partners != NULL and partners[index] == 1 + other):
                continue
            if not same(q, values, child, values.d.nodes[child].offset + index,
                        others, twin, others.d.nodes[twin].offset + other, 1):
                return False
            if partners == NULL and values.d.length <= 4 * count:
                # A larger dictionary gets no table: few elements rarely repeat one of many values.
                partners = <int64_t*> new_zeros(values.d.length, sizeof(int64_t))
            if partners != NULL:
                partners[index] = 1 + other
    finally:
        free(partners)
    return True


cdef bint same_indices(const ColumnsData* a, int32_t f, int64_t i, const ColumnsData* b, int32_t g, int64_t j,
                       int64_t count) noexcept nogil:
    """Whether two columns of the same type hold the same indices, also under nulls, and nulls in the same places."""
    cdef const FieldPlan* field = &a.plan.fields[f]
    return same_nulls(validity(a, f), i, validity(b, g), j, count) and memcmp(
        a.extents[field.first_buffer + 1].data + i * field.width,
        b.extents[b.plan.fields[g].first_buffer + 1].data + j * field.width,
        count * field.width,
    ) == 0


cdef int64_t value_index(Columns columns, int32_t f, int64_t at, Columns values, int32_t child) except -2:
    """Return the index of the dictionary value that element `at` stands for; -1 for null."""
    cdef const uint8_t* valid = validity(&columns.d, f)
    cdef int64_t index = 0
    cdef Fault fault
    if valid != NULL and not get_bit(valid, at):
        return -1
    if values is None:
        check(fail(&fault, FAULT_NO_DICTIONARY, f, 1, at, dictionary_id(columns, f)), &fault, columns)
    check(index_at(&columns.d, f, at, values.d.length, &index, &fault), &fault, columns)
    if values.d.plan.fields[child].layout == LAYOUT_NULL:
        return -1
    valid = validity(&values.d, child)
    return -1 if valid != NULL and not get_bit(valid, values.d.nodes[child].offset + index) else index
