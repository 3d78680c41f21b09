"""Loops over the index of a sparse tensor that NumPy does not have, or has slower: check, sort, transpose.

Indices are loaded as unsigned words: a negative index is then above every size that its type can hold, so one
comparison finds all indices that are outside. The loops that only check collect violations in the sign bit of an
accumulator, which compilers turn into vector code. They only say whether something is wrong; `sparse_convert` finds
the place. The loops that write check indices and pointers again, because their memory may be changed meanwhile.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from arrowipc.inline.element cimport load_unsigned
from arrowipc.inline.loads cimport loose_u16, loose_u32, loose_u64

from arrowipc.errors import UsageError

cdef enum:
    DIGIT = 11                  # bits per pass of the sort: its 2048 counters stay in the first cache
    BUCKETS = 1 << DIGIT


# -- integers of any width -----------------------------------------------------------------------------------

# Loops call `load_unsigned` with the width in a local variable, from which compilers make one loop per width. Only
# `scan_words` needs a version for each width, to become vector code.
ctypedef fused Unsigned:
    uint8_t
    loose_u16
    loose_u32
    loose_u64

cdef struct Words:
    # A matrix of integers (a vector has one column), at any strides.
    const uint8_t* data
    int64_t rows
    int64_t columns
    int64_t row_step            # bytes
    int64_t column_step
    int width
    uint64_t top                # largest value of the type


cdef inline int64_t last_index(const Words* w, int64_t size) noexcept nogil:
    """The largest index below `size` that the integers can hold; -1 if `size` is 0."""
    return <int64_t> w.top if <uint64_t> (size - 1) > w.top and size > 0 else size - 1


cdef inline uint64_t outside_bit(uint64_t word, int64_t last) noexcept nogil:
    """A number whose sign bit is set if `word` is not in 0..last; with last -1 it always is."""
    return word | (<uint64_t> last - word)


cdef inline bint is_outside(uint64_t word, int64_t last) noexcept nogil:
    return outside_bit(word, last) >> 63


cdef class Integers:
    """An array of integers, held through the buffer protocol."""

    cdef Py_buffer view
    cdef bint held
    cdef Words w

    def __cinit__(self, array):
        PyObject_GetBuffer(array, &self.view, PyBUF_STRIDED_RO | PyBUF_FORMAT)
        self.held = True
        cdef bytes code = self.view.format if self.view.format != NULL else b"B"
        if code.lstrip(b"<=@") not in (b"b", b"B", b"h", b"H", b"i", b"I", b"l", b"L", b"q", b"Q"):
            raise UsageError(f"indices must be integers in native byte order, found the format {code.decode()!r}")
        if self.view.ndim not in (1, 2) or self.view.itemsize not in (1, 2, 4, 8):
            raise UsageError(f"indices must be vectors or matrices of integers, found {self.view.ndim} dimensions")
        self.w.data = <const uint8_t*> self.view.buf
        self.w.rows = self.view.shape[0]
        self.w.row_step = self.view.strides[0]
        self.w.columns = self.view.shape[1] if self.view.ndim == 2 else 1
        self.w.column_step = self.view.strides[1] if self.view.ndim == 2 else 0
        self.w.width = <int> self.view.itemsize
        self.w.top = (<uint64_t> 1 << (8 * self.w.width - 1)) - 1
        if not code[len(code) - 1:].islower():
            self.w.top = 2 * self.w.top + 1

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef int expect_packed(const Words* w, int width) except -1:
    if w.columns != 1 or w.width != width or (w.row_step != width and w.rows > 1):
        raise UsageError(f"expected a contiguous vector of integers of {width} bytes")
    return 0


cdef int64_t* output(Integers held, int64_t count) except? NULL:
    """Return the address of a writable vector of `count` int64."""
    expect_packed(&held.w, 8)
    if held.w.rows != count or held.view.readonly:
        raise UsageError(f"an output needs {count} integers to write to, found {held.w.rows}")
    return <int64_t*> held.w.data


# -- compressed levels: pointers and the indices that they divide --------------------------------------------

cdef struct Scan:
    uint64_t outside            # its sign bit is set if some integer is not in 0..last
    int64_t not_rising          # number of integers that are not greater than the one before


cdef inline void scan_words(const Unsigned* words, int64_t count, int64_t last, Scan* found) noexcept nogil:
    cdef uint64_t outside = 0
    cdef int64_t i, not_rising = 0
    for i in range(count):
        outside |= outside_bit(words[i], last)
    for i in range(1, count):
        not_rising += words[i] <= words[i - 1]
    found.outside = outside
    found.not_rising = not_rising


cdef int64_t not_rising_at_starts(Words p, Words w) noexcept nogil:
    """Count the indices that begin a range and are not greater than the one before, which is no disorder."""
    cdef int width = w.width
    cdef int64_t j, at, before = 0, count = 0
    cdef const uint8_t* index
    for j in range(1, p.rows):
        at = <int64_t> load_unsigned(p.data + j * p.width, p.width)
        if before < at < w.rows:
            index = w.data + at * width
            count += load_unsigned(index, width) <= load_unsigned(index - width, width)
            before = at
    return count


def check_level(indices, int64_t size, pointers):
    """Check indices that rising `pointers` divide into ranges (None: one range); each must be below `size`.

    Return 2 if they rise strictly within each range, 1 if they do not, 0 if some index is outside.
    """
    cdef Integers held = Integers(indices)
    cdef Integers ranges = None if pointers is None else Integers(pointers)
    cdef Words* w = &held.w
    cdef Scan found
    cdef int64_t allowed = 0, last = last_index(w, size)
    expect_packed(w, w.width)
    with nogil:
        if w.width == 8:
            scan_words(<const loose_u64*> w.data, w.rows, last, &found)
        elif w.width == 4:
            scan_words(<const loose_u32*> w.data, w.rows, last, &found)
        elif w.width == 2:
            scan_words(<const loose_u16*> w.data, w.rows, last, &found)
        else:
            scan_words(<const uint8_t*> w.data, w.rows, last, &found)
    if found.outside >> 63:
        return 0
    if ranges is not None and found.not_rising:
        with nogil:
            allowed = not_rising_at_starts(ranges.w, held.w)
    return 2 if found.not_rising == allowed else 1


def transpose_level(pointers, indices, int64_t size, starts, parents, order):
    """Turn compressed rows into compressed columns by a counting sort, the fastest for this.

    `starts`, `size` + 1 zeros, receives the new pointers; for each value in its new place, `parents` receives its row,
    `order` its old place. All but the indices are contiguous int64. Return False if pointers or indices are wrong.
    """
    cdef Integers held = Integers(indices), ranges = Integers(pointers)
    cdef Integers ends = Integers(starts), rows = Integers(parents), out = Integers(order)
    cdef int64_t* start = output(ends, size + 1)
    cdef int64_t* parent = output(rows, held.w.rows)
    cdef int64_t* place = output(out, held.w.rows)
    cdef bint right
    expect_packed(&ranges.w, 8)
    with nogil:
        right = transpose(ranges.w, held.w, size, start, parent, place)
    return right


cdef bint transpose(Words pointers, Words w, int64_t size, int64_t* ends, int64_t* rows,
                    int64_t* order) noexcept nogil:
    """Count the entries of each index, then put each entry into its place."""
    cdef const loose_u64* pointer = <const loose_u64*> pointers.data
    cdef int width = w.width
    cdef int64_t i, j, at = 0, end, place, last = last_index(&w, size)
    cdef uint64_t word
    for i in range(w.rows):
        word = load_unsigned(w.data + i * w.row_step, width)
        if is_outside(word, last):
            return False
        ends[word] += 1
    for j in range(size + 1):
        place = ends[j]
        ends[j] = at
        at += place
    at = 0
    for j in range(1, pointers.rows):
        end = <int64_t> pointer[j]
        if end < at or end > w.rows:
            return False
        for i in range(at, end):
            word = load_unsigned(w.data + i * w.row_step, width)
            if is_outside(word, last) or ends[word] >= w.rows:
                return False            # the index was changed after it was counted
            place = ends[word]
            ends[word] = place + 1
            rows[place] = j - 1
            order[place] = i
        at = end
    if at != w.rows:
        return False
    for j in range(size, 0, -1):
        ends[j] = ends[j - 1]
    ends[0] = 0
    return True


# -- coordinates: bounds and order ---------------------------------------------------------------------------

cdef struct Axis:
    int64_t size
    int64_t column
    int64_t last                # the largest index that the integers can hold for it


cdef int scan_rows(Words w, const Axis* axis, int64_t n, uint64_t* keys) noexcept nogil:
    """Compare each row with the one before by one number per row; write the numbers to `keys` if it is not NULL."""
    cdef const uint8_t* row = w.data
    cdef int width = w.width
    cdef uint64_t outside = 0, key, before = 0, word
    cdef bint down = False, tied = False
    cdef int64_t i, k
    for i in range(w.rows):
        key = 0
        for k in range(n):
            word = load_unsigned(row + axis[k].column * w.column_step, width)
            outside |= outside_bit(word, axis[k].last)
            key = key * <uint64_t> axis[k].size + word
        down |= key < before
        tied |= (key == before) & (i > 0)
        before = key
        row += w.row_step
        if keys != NULL:
            keys[i] = key
    return 0 if outside >> 63 else 1 if down else 2 if tied else 3


def check_coordinates(indices, axes, keys=None):
    """Check a matrix of coordinates, one row per value, for a shape whose product is below 2**63.

    `axes` has a row of int64 for each axis, in the order in which coordinates are compared: its size, its column, and
    the largest index below the size that the indices can hold. Return 3 if the rows rise strictly in that order, 2 if
    some are equal, 1 if they are not sorted, 0 if an index is outside. `keys` (int64, one per row) receives the places
    of the values in a dense tensor whose axes are in that order.
    """
    cdef Integers held = Integers(indices), order = Integers(axes)
    cdef Integers out = None if keys is None else Integers(keys)
    cdef uint64_t* places = NULL if out is None else <uint64_t*> output(out, held.w.rows)
    cdef const Axis* axis = <const Axis*> order.w.data
    cdef int64_t k
    cdef int found
    if order.w.columns != 3 or order.w.width != 8 or order.w.column_step != 8 or order.w.row_step != sizeof(Axis):
        raise UsageError("axes must be rows of three int64")
    for k in range(order.w.rows):
        if not 0 <= axis[k].column < held.w.columns:
            raise UsageError(f"column {axis[k].column} of indices of {held.w.columns}")
    with nogil:
        found = scan_rows(held.w, axis, order.w.rows, places)
    return found


# -- coordinates: sorting ------------------------------------------------------------------------------------

cdef struct Entry:
    uint64_t key
    int64_t row


cdef Entry* sort_entries(Entry* entries, Entry* spare, int64_t count, uint64_t greatest) noexcept nogil:
    """Sort by key with a stable radix sort; return `entries` or `spare`, whichever has the result."""
    cdef int64_t starts[BUCKETS]
    cdef int64_t i, sum, size
    cdef int shift = 0
    cdef Entry* source = entries
    cdef Entry* target = spare
    while shift < 64 and greatest >> shift:
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[(source[i].key >> shift) & (BUCKETS - 1)] += 1
        sum = 0
        for i in range(BUCKETS):
            size = starts[i]
            starts[i] = sum
            sum += size
        for i in range(count):
            size = (source[i].key >> shift) & (BUCKETS - 1)
            target[starts[size]] = source[i]
            starts[size] += 1
        source, target = target, source
        shift += DIGIT
    return source


def sort_keys(keys, order):
    """Write the row numbers that sort `keys` (int64, none negative) to `order`; rows of equal keys keep their order.

    Return whether some keys are equal.
    """
    cdef Integers held = Integers(keys), rows = Integers(order)
    cdef int64_t count = held.w.rows, i
    cdef int64_t* row = output(rows, count)
    cdef const loose_u64* key = <const loose_u64*> held.w.data
    cdef uint64_t greatest = 0
    cdef Entry* entries
    cdef Entry* found
    cdef bint tied = False
    expect_packed(&held.w, 8)
    entries = <Entry*> malloc((2 * count + 1) * sizeof(Entry))
    if entries == NULL:
        raise MemoryError()
    with nogil:
        for i in range(count):
            entries[i].key = key[i]
            entries[i].row = i
            greatest |= key[i]
        found = sort_entries(entries, entries + count, count, greatest)
        for i in range(count):
            row[i] = found[i].row
        for i in range(1, count):
            tied |= found[i].key == found[i - 1].key
        free(entries)
    return tied
