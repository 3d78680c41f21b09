"""The index of a sparse tensor: checked, sorted, built, followed, and made of dense tensors, for any integers.

Indices are loaded as unsigned words: a negative one is then above every dimension that its type can hold, so one
comparison finds all that lie outside. The loops that only check keep violations in the sign bit of an accumulator,
which compilers turn into vector code; a second loop finds the element to name. The loops that write check what
they follow again, because indices may be unproven (``validate="none"``) or lie in memory that somebody changes.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDED, PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport INT64_MAX, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from arrowipc.inline.loads cimport loose_u16, loose_u32, loose_u64, mul_overflows, popcount64, trailing_zeros

from arrowipc.errors import FormatError, UsageError

cdef enum:
    MOST_AXES = 1 << 16         # more than anybody's tensor has; bounds what a shape alone can make us allocate
    DIGIT = 11                  # bits per pass of the sort: its 2048 counters stay in the first cache
    BUCKETS = 1 << DIGIT


# -- integers of any width -----------------------------------------------------------------------------------

# A loop that is compiled for each width takes a `kind`, a pointer whose type alone counts: it chooses the width.
ctypedef fused Word:
    uint8_t
    loose_u16
    loose_u32
    loose_u64

cdef struct IntMatrix:
    # A matrix of integers (a vector has one column), wherever they lie.
    uint8_t* data
    int64_t rows
    int64_t columns
    int64_t row_step            # bytes
    int64_t column_step
    int width
    bint is_signed
    uint64_t top                # largest value that is not the pattern of a negative number


cdef inline int64_t last_index(const IntMatrix* w, int64_t size) noexcept nogil:
    """The largest index below `size` that the integers can hold; -1: none is right."""
    return <int64_t> w.top if <uint64_t> (size - 1) > w.top and size > 0 else size - 1


cdef inline uint64_t outside_bit(uint64_t word, int64_t last) noexcept nogil:
    """A number whose sign bit is set if `word` is not in 0..last; with last -1 it always is."""
    return word | (<uint64_t> last - word)


cdef inline bint is_outside(uint64_t word, int64_t last) noexcept nogil:
    return outside_bit(word, last) >> 63


cdef inline uint64_t word_at(const IntMatrix* w, int64_t row, int64_t column=0) noexcept nogil:
    cdef const uint8_t* p = w.data + row * w.row_step + column * w.column_step
    if w.width == 8:
        return (<const loose_u64*> p)[0]
    if w.width == 4:
        return (<const loose_u32*> p)[0]
    if w.width == 2:
        return (<const loose_u16*> p)[0]
    return p[0]


cdef inline void set_word(const IntMatrix* w, int64_t row, uint64_t word, int64_t column=0) noexcept nogil:
    cdef uint8_t* p = w.data + row * w.row_step + column * w.column_step
    if w.width == 8:
        (<loose_u64*> p)[0] = word
    elif w.width == 4:
        (<loose_u32*> p)[0] = <uint32_t> word
    elif w.width == 2:
        (<loose_u16*> p)[0] = <uint16_t> word
    else:
        p[0] = <uint8_t> word


cdef inline void copy_value(uint8_t* to, const uint8_t* value, int64_t width) noexcept nogil:
    if width == 8:
        (<loose_u64*> to)[0] = (<const loose_u64*> value)[0]
    elif width == 4:
        (<loose_u32*> to)[0] = (<const loose_u32*> value)[0]
    elif width == 2:
        (<loose_u16*> to)[0] = (<const loose_u16*> value)[0]
    elif width == 1:
        to[0] = value[0]
    else:
        memcpy(to, value, width)


# -- what is wrong with an index -----------------------------------------------------------------------------

cdef enum:
    OUT_OF_BOUNDS = 1           # an index outside its dimension
    FIRST_POINTER               # pointers that do not begin with 0
    DECREASING_POINTER
    LAST_POINTER                # pointers that do not end where they must
    UNSORTED_INDEX              # indices that are not sorted where they have to be
    OUT_OF_MEMORY

cdef struct IndexFault:
    int code
    int64_t at                  # row or entry
    int64_t column
    uint64_t found
    int64_t expected


cdef inline int fail(IndexFault* fault, int code, int64_t at=0, uint64_t found=0, int64_t expected=0,
                     int64_t column=-1) noexcept nogil:
    fault.code = code
    fault.at = at
    fault.column = column
    fault.found = found
    fault.expected = expected
    return -1


cdef int raise_index_fault(const IndexFault* fault, IntMatrix w, str name) except -1:
    """Raise the error that a loop described; `w` is where `fault.found` comes from."""
    cdef object found = fault.found, top = w.top
    if fault.code == OUT_OF_MEMORY:
        raise MemoryError()
    if w.is_signed and fault.found > w.top:
        found = found - 2 * top - 2
    where = f"{name}[{fault.at}]" if fault.column < 0 else f"{name}[{fault.at}, {fault.column}]"
    if fault.code == OUT_OF_BOUNDS:
        raise FormatError(f"{where} is {found}: expected an index from 0 to {fault.expected - 1}, because that "
                          f"dimension has the size {fault.expected}")
    if fault.code == FIRST_POINTER:
        raise FormatError(f"{where} is {found}: the first pointer must be 0")
    if fault.code == DECREASING_POINTER:
        raise FormatError(f"{where} is {found}, less than the {fault.expected} before it: pointers must not decrease")
    if fault.code == LAST_POINTER:
        raise FormatError(f"{where} is {found}: the last pointer must be {fault.expected}, the number of entries "
                          f"that the pointers divide")
    raise FormatError(f"{where} is {found}, after {fault.expected}: these indices must be sorted")


# -- what the loops work on ----------------------------------------------------------------------------------


cdef class Values:
    """An array of elements of any width, held through the buffer protocol."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, array, bint writable=False):
        PyObject_GetBuffer(array, &self.view, (PyBUF_STRIDED if writable else PyBUF_STRIDED_RO) | PyBUF_FORMAT)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Integers(Values):
    """An array of integers."""

    cdef IntMatrix w

    def __cinit__(self, array, bint writable=False):
        cdef bytes code = self.view.format if self.view.format != NULL else b"B"
        if code.lstrip(b"<=@") not in (b"b", b"B", b"h", b"H", b"i", b"I", b"l", b"L", b"q", b"Q"):
            raise UsageError(f"indices must be integers in native byte order, found the format {code.decode()!r}")
        if self.view.ndim not in (1, 2) or self.view.itemsize not in (1, 2, 4, 8):
            raise UsageError(f"indices must be vectors or matrices of integers, found {self.view.ndim} dimensions")
        self.w.data = <uint8_t*> self.view.buf
        self.w.rows = self.view.shape[0]
        self.w.row_step = self.view.strides[0]
        self.w.columns = self.view.shape[1] if self.view.ndim == 2 else 1
        self.w.column_step = self.view.strides[1] if self.view.ndim == 2 else 0
        self.w.width = <int> self.view.itemsize
        self.w.is_signed = code[len(code) - 1:].islower()
        self.w.top = (<uint64_t> 1 << (8 * self.w.width - 1)) - 1
        if not self.w.is_signed:
            self.w.top = 2 * self.w.top + 1


cdef class Space:
    """The shape of a tensor, in the order in which its axes are gone through."""

    cdef int64_t n
    cdef int64_t* size          # of axis k of the order in which the axes are gone through
    cdef int64_t* axis          # which one that is
    cdef int64_t* last          # largest index that an array of integers may hold for it; see `bound`
    cdef bint keyed             # whether one 63-bit number can say where an element lies

    def __cinit__(self, shape, axes=None):
        cdef int64_t k, product = 1
        self.n = len(shape)
        if self.n > MOST_AXES:
            raise UsageError(f"a sparse tensor of {self.n:,} dimensions: at most {MOST_AXES:,}")
        self.size = <int64_t*> calloc(3 * (self.n + 1), sizeof(int64_t))
        if self.size == NULL:
            raise MemoryError()
        self.axis = self.size + self.n + 1
        self.last = self.axis + self.n + 1
        self.keyed = True
        for k in range(self.n):
            self.axis[k] = k if axes is None else axes[k]
            if not 0 <= self.axis[k] < self.n:
                raise UsageError(f"axis {self.axis[k]} of a tensor of {self.n} dimensions")
            self.size[k] = shape[self.axis[k]]
            if mul_overflows(product, self.size[k], &product):
                self.keyed = False

    cdef int bound(self, const IntMatrix* w) except -1:
        """Set `last` for the indices `w`, which must have a column per axis."""
        cdef int64_t k
        if w.columns != self.n and w.rows:
            raise UsageError(f"indices of {w.columns} columns for a tensor of {self.n} dimensions")
        for k in range(self.n):
            self.last[k] = last_index(w, self.size[k])
        return 0

    def __dealloc__(self):
        free(self.size)


# -- coordinates: bounds and order ---------------------------------------------------------------------------


cdef inline int compare_rows(const IntMatrix* w, Space space, int64_t a, int64_t b) noexcept nogil:
    cdef int64_t k
    cdef uint64_t x, y
    for k in range(space.n):
        x = word_at(w, a, space.axis[k])
        y = word_at(w, b, space.axis[k])
        if x != y:
            return -1 if x < y else 1
    return 0


cdef void scan_rows(const Word* kind, const IntMatrix* w, Space space, uint64_t* outside, bint* descents,
                    bint* ties) noexcept nogil:
    """Whether any index lies outside, and any row is below (or equals) the one before it, by one key per row."""
    cdef const uint8_t* row = w.data
    cdef uint64_t bad = 0, key, before = 0, word
    cdef bint down = False, tie = False
    cdef int64_t i, k
    for i in range(w.rows):
        key = 0
        for k in range(space.n):
            word = (<const Word*> (row + space.axis[k] * w.column_step))[0]
            bad |= outside_bit(word, space.last[k])
            key = key * <uint64_t> space.size[k] + word
        down |= key < before
        tie |= (key == before) & (i > 0)
        before = key
        row += w.row_step
    outside[0] = bad
    descents[0] = down
    ties[0] = tie


cdef void scan_long_rows(const IntMatrix* w, Space space, uint64_t* outside, bint* descents,
                         bint* ties) noexcept nogil:
    """The same for shapes whose product is beyond 64 bits."""
    cdef int64_t i, k
    cdef int order
    outside[0] = 0
    descents[0] = ties[0] = False
    for i in range(w.rows):
        for k in range(space.n):
            outside[0] |= outside_bit(word_at(w, i, space.axis[k]), space.last[k])
        if i:
            order = compare_rows(w, space, i - 1, i)
            descents[0] |= order > 0
            ties[0] |= order == 0


cdef int find_outside(const IntMatrix* w, Space space, IndexFault* fault) noexcept nogil:
    cdef int64_t i, k
    for i in range(w.rows):
        for k in range(space.n):
            if is_outside(word_at(w, i, space.axis[k]), space.last[k]):
                return fail(fault, OUT_OF_BOUNDS, i, word_at(w, i, space.axis[k]), space.size[k], space.axis[k])
    return 0


def check_coordinates(indices, shape, axes=None, str name="indices"):
    """Prove that a matrix of coordinates, one row per value, stays inside `shape`.

    Returns 2 if the rows rise strictly in the order of `axes`, 1 if some are equal, 0 if they are not sorted.
    """
    cdef Integers held = Integers(indices)
    cdef Space space = Space(shape, axes)
    cdef IntMatrix* w = &held.w
    cdef uint64_t outside = 0
    cdef bint descents = False, ties = False
    cdef IndexFault fault
    space.bound(w)
    with nogil:
        if not space.keyed:
            scan_long_rows(w, space, &outside, &descents, &ties)
        elif w.width == 8:
            scan_rows(<const loose_u64*> w.data, w, space, &outside, &descents, &ties)
        elif w.width == 4:
            scan_rows(<const loose_u32*> w.data, w, space, &outside, &descents, &ties)
        elif w.width == 2:
            scan_rows(<const loose_u16*> w.data, w, space, &outside, &descents, &ties)
        else:
            scan_rows(<const uint8_t*> w.data, w, space, &outside, &descents, &ties)
        if outside >> 63:
            find_outside(w, space, &fault)
    if outside >> 63:
        raise_index_fault(&fault, w[0], name)
    return 0 if descents else 1 if ties else 2


# -- coordinates: sorting ------------------------------------------------------------------------------------


cdef struct Entry:
    uint64_t key
    int64_t row


cdef void take_keys(const Word* kind, const IntMatrix* w, Space space, int64_t first, int64_t end,
                    Entry* entries) noexcept nogil:
    """Put what axes first..end of a row amount to, as one number, into its entry."""
    cdef int64_t i, k
    cdef uint64_t key
    cdef const uint8_t* row
    for i in range(w.rows):
        row = w.data + entries[i].row * w.row_step
        key = 0
        for k in range(first, end):
            key = key * <uint64_t> space.size[k] + (<const Word*> (row + space.axis[k] * w.column_step))[0]
        entries[i].key = key


cdef void sort_entries(Entry* entries, Entry* spare, int64_t count, uint64_t greatest) noexcept nogil:
    """A stable radix sort by key; the result is in `entries`."""
    cdef int64_t starts[BUCKETS]
    cdef int64_t i, sum, size
    cdef int shift = 0
    cdef Entry* source = entries
    cdef Entry* target = spare
    cdef Entry* swap
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
        swap = source
        source = target
        target = swap
        shift += DIGIT
    if source != entries:
        memcpy(entries, source, count * sizeof(Entry))


cdef int sort_rows(const IntMatrix* w, Space space, const IntMatrix* order, IndexFault* fault) noexcept nogil:
    """Sort by groups of axes whose sizes multiply to less than 2^63, from the last group to the first.

    Returns 0 if no two rows are equal, 1 if some are or nobody has looked, -1 for a fault.
    """
    cdef int64_t count = w.rows, first, end = space.n, product, i
    cdef Entry* entries
    cdef bint tied = False
    if count > INT64_MAX // (2 * <int64_t> sizeof(Entry)):
        return fail(fault, OUT_OF_MEMORY)
    entries = <Entry*> malloc((2 * count + 1) * sizeof(Entry))
    if entries == NULL:
        return fail(fault, OUT_OF_MEMORY)
    for i in range(count):
        entries[i].row = i
    while end > 0:
        first = end
        product = 1
        while first > 0 and not mul_overflows(product, space.size[first - 1], &product):
            first -= 1
        if first == end:
            first = end - 1     # cannot be: a size alone is below 2^63
        if w.width == 8:
            take_keys(<const loose_u64*> w.data, w, space, first, end, entries)
        elif w.width == 4:
            take_keys(<const loose_u32*> w.data, w, space, first, end, entries)
        elif w.width == 2:
            take_keys(<const loose_u16*> w.data, w, space, first, end, entries)
        else:
            take_keys(<const uint8_t*> w.data, w, space, first, end, entries)
        sort_entries(entries, entries + count, count, INT64_MAX if first > 0 else <uint64_t> product)
        end = first
    for i in range(count):
        set_word(order, i, <uint64_t> entries[i].row)
    if space.keyed:
        for i in range(1, count):
            tied |= entries[i].key == entries[i - 1].key
    free(entries)
    return tied or not space.keyed


def sort_coordinates(indices, shape, axes, order):
    """Write to `order` (int64) the rows of `indices` sorted by the columns `axes`; equal rows stay in order.

    Returns False if it is certain that no two rows are equal.
    """
    cdef Integers held = Integers(indices), out = Integers(order, True)
    cdef Space space = Space(shape, axes)
    cdef IndexFault fault
    cdef int found
    space.bound(&held.w)
    if out.w.rows != held.w.rows or out.w.width != 8:
        raise UsageError("the order needs one int64 per row")
    with nogil:
        found = sort_rows(&held.w, space, &out.w, &fault)
    if found < 0:
        raise_index_fault(&fault, held.w, "indices")
    return found != 0


cdef bint copy_rows(const Word* kind, const IntMatrix* w, const IntMatrix* order, Space space,
                    const IntMatrix* out) noexcept nogil:
    """`take_rows` for indices and an output of one width; false for a row that there is not."""
    cdef int64_t i, k, row
    cdef const uint8_t* source
    cdef uint8_t* target = out.data
    for i in range(out.rows):
        row = i if order == NULL else <int64_t> word_at(order, i)
        if row < 0 or row >= w.rows:
            return False
        source = w.data + row * w.row_step
        for k in range(space.n):
            (<Word*> (target + k * out.column_step))[0] = (<const Word*> (source + space.axis[k] * w.column_step))[0]
        target += out.row_step
    return True


def take_rows(indices, order, axes, out):
    """Copy rows `order` (None: all) and columns `axes` of `indices` to `out`, which is as wide."""
    cdef Integers held = Integers(indices), target = Integers(out, True)
    cdef Integers rows = None if order is None else Integers(order)
    cdef const IntMatrix* chosen = NULL if rows is None else &rows.w
    cdef Space space = Space((0,) * held.w.columns, axes)
    cdef IntMatrix* w = &held.w
    cdef bint inside
    if (target.w.rows != (w.rows if rows is None else rows.w.rows) or target.w.columns != space.n
            or target.w.width != w.width):
        raise UsageError("the output has another shape or width than the rows and columns to take")
    with nogil:
        if w.width == 8:
            inside = copy_rows(<const loose_u64*> w.data, w, chosen, space, &target.w)
        elif w.width == 4:
            inside = copy_rows(<const loose_u32*> w.data, w, chosen, space, &target.w)
        elif w.width == 2:
            inside = copy_rows(<const loose_u16*> w.data, w, chosen, space, &target.w)
        else:
            inside = copy_rows(<const uint8_t*> w.data, w, chosen, space, &target.w)
    if not inside:
        raise UsageError(f"a row to take is outside the {w.rows} that there are")


def find_runs(indices, starts):
    """Write to `starts` (int64) where rows begin that differ from the one before; returns how many there are."""
    cdef Integers held = Integers(indices), out = Integers(starts, True)
    cdef Space space = Space((0,) * held.w.columns)
    cdef int64_t i, count = 0
    if out.w.rows < held.w.rows or out.w.width != 8:
        raise UsageError("the starts need one int64 per row")
    with nogil:
        for i in range(held.w.rows):
            if i == 0 or compare_rows(&held.w, space, i - 1, i) != 0:
                set_word(&out.w, count, i)
                count += 1
    return count


# -- compressed levels: pointers and the indices they divide -------------------------------------------------


cdef int check_pointer_steps(const Word* kind, const IntMatrix* w, int64_t total, IndexFault* fault) noexcept nogil:
    cdef uint64_t bad = 0, before, word
    cdef int64_t i
    cdef const uint8_t* p = w.data
    before = (<const Word*> p)[0]
    if before != 0:
        return fail(fault, FIRST_POINTER, 0, before)
    for i in range(1, w.rows):
        p += w.row_step
        word = (<const Word*> p)[0]
        bad |= word | (word - before)       # the sign bit: a negative number, or a step down
        before = word
    if bad >> 63 or before > w.top:
        for i in range(1, w.rows):
            word = word_at(w, i)
            if word > w.top or word < word_at(w, i - 1):
                return fail(fault, DECREASING_POINTER, i, word, <int64_t> word_at(w, i - 1))
    if before != <uint64_t> total:
        return fail(fault, LAST_POINTER, w.rows - 1, before, total)
    return 0


def check_pointers(pointers, int64_t total, str name):
    """Prove that pointers begin with 0, never decrease and end with `total`; there is at least one."""
    cdef Integers held = Integers(pointers)
    cdef IntMatrix* w = &held.w
    cdef IndexFault fault
    cdef int found
    if w.rows < 1:
        raise FormatError(f"{name} is empty: it must hold one entry more than it has ranges")
    with nogil:
        if w.width == 8:
            found = check_pointer_steps(<const loose_u64*> w.data, w, total, &fault)
        elif w.width == 4:
            found = check_pointer_steps(<const loose_u32*> w.data, w, total, &fault)
        elif w.width == 2:
            found = check_pointer_steps(<const loose_u16*> w.data, w, total, &fault)
        else:
            found = check_pointer_steps(<const uint8_t*> w.data, w, total, &fault)
    if found < 0:
        raise_index_fault(&fault, w[0], name)


cdef int check_indices(const Word* kind, const IntMatrix* w, int64_t last, int64_t size, int64_t* descents,
                        IndexFault* fault) noexcept nogil:
    """Prove that all indices are inside, and count the descents: places where one is not above the one before."""
    cdef uint64_t bad = 0, word, before = 0
    cdef int64_t i, down = 0
    cdef const uint8_t* p = w.data
    cdef const Word* packed = <const Word*> w.data
    if w.row_step == <int64_t> sizeof(Word):
        for i in range(w.rows):
            bad |= outside_bit(packed[i], last)
        for i in range(1, w.rows):
            down += packed[i] <= packed[i - 1]
    else:
        for i in range(w.rows):
            word = (<const Word*> p)[0]
            bad |= outside_bit(word, last)
            down += (i > 0) & (word <= before)
            before = word
            p += w.row_step
    if bad >> 63:
        for i in range(w.rows):
            if is_outside(word_at(w, i), last):
                return fail(fault, OUT_OF_BOUNDS, i, word_at(w, i), size)
    descents[0] = down
    return 0


cdef int64_t count_descents_at_starts(const IntMatrix* pointers, const IntMatrix* w, bint* has_empty) noexcept nogil:
    """How many descents are no disorder, because a range begins there; `has_empty`: some range has no index."""
    cdef int64_t j, at, before = 0, count = 0
    has_empty[0] = False
    for j in range(1, pointers.rows):
        at = <int64_t> word_at(pointers, j)
        if at == before:
            has_empty[0] = True
        elif 0 < at < w.rows:
            count += word_at(w, at) <= word_at(w, at - 1)
        before = at
    return count


def check_level(indices, int64_t size, pointers, str name):
    """Prove that the indices that `pointers` divide (None: one range) lie below `size`.

    Returns (whether they rise strictly within each range, whether some range is empty). The pointers are those
    that `check_pointers` has proven.
    """
    cdef Integers held = Integers(indices)
    cdef Integers ranges = None if pointers is None else Integers(pointers)
    cdef IntMatrix* w = &held.w
    cdef int64_t last = last_index(w, size), descents = 0, at_starts = 0
    cdef bint has_empty = False
    cdef IndexFault fault
    cdef int found
    with nogil:
        if w.width == 8:
            found = check_indices(<const loose_u64*> w.data, w, last, size, &descents, &fault)
        elif w.width == 4:
            found = check_indices(<const loose_u32*> w.data, w, last, size, &descents, &fault)
        elif w.width == 2:
            found = check_indices(<const loose_u16*> w.data, w, last, size, &descents, &fault)
        else:
            found = check_indices(<const uint8_t*> w.data, w, last, size, &descents, &fault)
        if found == 0 and ranges is not None:
            at_starts = count_descents_at_starts(&ranges.w, w, &has_empty)
    if found < 0:
        raise_index_fault(&fault, w[0], name)
    return descents == at_starts, has_empty


def build_pointers(column, int64_t parents, pointers):
    """Write where the entries of each parent begin, given the parent of each entry in ascending order."""
    cdef Integers held = Integers(column), out = Integers(pointers, True)
    cdef IntMatrix* w = &held.w
    cdef int64_t i, parent = 0, last = last_index(w, parents)
    cdef uint64_t word
    cdef IndexFault fault
    cdef int found = 0
    if out.w.rows != parents + 1 or parents < 0:
        raise UsageError(f"{parents} parents need {parents + 1} pointers, there is room for {out.w.rows}")
    with nogil:
        set_word(&out.w, 0, 0)
        for i in range(w.rows):
            word = word_at(w, i)
            if is_outside(word, last):
                found = fail(&fault, OUT_OF_BOUNDS, i, word, parents)
                break
            if <int64_t> word < parent:
                found = fail(&fault, UNSORTED_INDEX, i, word, parent)
                break
            while parent < <int64_t> word:
                parent += 1
                set_word(&out.w, parent, i)
        while found == 0 and parent < parents:
            parent += 1
            set_word(&out.w, parent, w.rows)
    if found < 0:
        raise_index_fault(&fault, w[0], "indices")


cdef inline int64_t range_end(const IntMatrix* pointers, int64_t j, int64_t begin, int64_t total,
                              IndexFault* fault) noexcept nogil:
    """Where the range that begins at `begin` ends: at pointer j, not behind `total`; -1 for a fault."""
    cdef int64_t end = <int64_t> word_at(pointers, j)
    if end < begin:
        return fail(fault, DECREASING_POINTER, j, <uint64_t> end, begin)
    if end > total:
        return fail(fault, LAST_POINTER, j, <uint64_t> end, total)
    return end


def expand_pointers(pointers, column):
    """Write the parent of each entry to `column`: the opposite of `build_pointers`."""
    cdef Integers held = Integers(pointers), out = Integers(column, True)
    cdef IntMatrix* w = &held.w
    cdef int64_t j, i, at = 0, end
    cdef IndexFault fault
    cdef int found = 0
    with nogil:
        for j in range(1, w.rows):
            end = range_end(w, j, at, out.w.rows, &fault)
            if end < 0:
                found = -1
                break
            for i in range(at, end):
                set_word(&out.w, i, j - 1)
            at = end
        if found == 0 and at != out.w.rows:
            found = fail(&fault, LAST_POINTER, w.rows - 1, at, out.w.rows)
    if found < 0:
        raise_index_fault(&fault, w[0], "indptr")


cdef int transpose(const Word* kind, const IntMatrix* pointers, const IntMatrix* w, int64_t size, int64_t* ends,
                   const IntMatrix* out, const IntMatrix* order, IndexFault* fault) noexcept nogil:
    """Count the entries of each index, then hand them out; `ends` has size + 1 zeros, and then the new pointers."""
    cdef int64_t i, j, at = 0, end, place, last = last_index(w, size)
    cdef uint64_t word
    cdef const uint8_t* p = w.data
    for i in range(w.rows):
        word = (<const Word*> (p + i * w.row_step))[0]
        if is_outside(word, last):
            return fail(fault, OUT_OF_BOUNDS, i, word, size)
        ends[word] += 1
    for j in range(size + 1):
        place = ends[j]
        ends[j] = at
        at += place
    at = 0
    for j in range(1, pointers.rows):
        end = range_end(pointers, j, at, w.rows, fault)
        if end < 0:
            return -1
        for i in range(at, end):
            word = (<const Word*> (p + i * w.row_step))[0]
            if is_outside(word, last) or ends[word] >= w.rows:
                return fail(fault, OUT_OF_BOUNDS, i, word, size)      # it is not what it was when it was counted
            place = ends[word]
            ends[word] = place + 1
            (<Word*> (out.data + place * out.row_step))[0] = <Word> (j - 1)
            (<loose_u64*> (order.data + place * order.row_step))[0] = <uint64_t> i
        at = end
    if at != w.rows:
        return fail(fault, LAST_POINTER, pointers.rows - 1, <uint64_t> at, w.rows)
    for j in range(size, 0, -1):
        ends[j] = ends[j - 1]
    ends[0] = 0
    return 0


def transpose_level(pointers, indices, int64_t size, out_pointers, out_indices, order):
    """Turn compressed rows into compressed columns: `order` says where the values come from.

    `out_pointers` are size + 1 zeros of int64, `out_indices` are as wide as `indices`, `order` is int64.
    """
    cdef Integers ranges = Integers(pointers), held = Integers(indices)
    cdef Integers starts = Integers(out_pointers, True), out = Integers(out_indices, True), rows = Integers(order, True)
    cdef IntMatrix* w = &held.w
    cdef int64_t* ends = <int64_t*> starts.w.data
    cdef IndexFault fault
    cdef int found
    if (size < 0 or starts.w.rows != size + 1 or starts.w.width != 8 or starts.w.row_step != 8
            or out.w.rows != w.rows or out.w.width != w.width or rows.w.rows != w.rows or rows.w.width != 8):
        raise UsageError("the outputs do not fit the matrix")
    with nogil:
        if w.width == 8:
            found = transpose(<const loose_u64*> w.data, &ranges.w, w, size, ends, &out.w, &rows.w, &fault)
        elif w.width == 4:
            found = transpose(<const loose_u32*> w.data, &ranges.w, w, size, ends, &out.w, &rows.w, &fault)
        elif w.width == 2:
            found = transpose(<const loose_u16*> w.data, &ranges.w, w, size, ends, &out.w, &rows.w, &fault)
        else:
            found = transpose(<const uint8_t*> w.data, &ranges.w, w, size, ends, &out.w, &rows.w, &fault)
    if found < 0:
        raise_index_fault(&fault, (held if fault.code == OUT_OF_BOUNDS else ranges).w,
                    "indices" if fault.code == OUT_OF_BOUNDS else "indptr")


# -- fibres: a level per axis --------------------------------------------------------------------------------


cdef class Levels:
    """Some arrays of integers side by side."""

    cdef list held
    cdef IntMatrix* w
    cdef int64_t n

    def __cinit__(self, arrays, bint writable=False):
        cdef int64_t k
        self.held = [Integers(array, writable) for array in arrays]
        self.n = len(self.held)
        self.w = <IntMatrix*> calloc(self.n + 1, sizeof(IntMatrix))
        if self.w == NULL:
            raise MemoryError()
        for k in range(self.n):
            self.w[k] = (<Integers> self.held[k]).w

    def __dealloc__(self):
        free(self.w)


def count_nodes(pointers, rooms, int64_t leaves):
    """Return how many nodes each level has, though the lengths of its buffers may be padded.

    `pointers` are all entries that fit into each buffer, `rooms` how many indices fit. The last level has a node
    per value; the level above ends at the entry of its pointers that says so. Buffers whose lengths agree
    exactly are not padded, and may then have nodes without children at their end.
    """
    cdef Levels levels = Levels(pointers)
    cdef int64_t k, i, most, target = leaves
    cdef uint64_t word = 0
    cdef list counts = [leaves]
    if levels.n + 1 != len(rooms):
        raise UsageError("there is one level more than there are arrays of pointers")
    for k in range(levels.n - 1, -1, -1):
        most = min(levels.w[k].rows - 1, <int64_t> rooms[k])
        i = most
        if most < 0 or levels.w[k].rows - 1 != <int64_t> rooms[k] or word_at(&levels.w[k], most) != <uint64_t> target:
            with nogil:
                i = 0
                while i <= most:
                    word = word_at(&levels.w[k], i)
                    if word >= <uint64_t> target:
                        break
                    i += 1
            if i > most or word != <uint64_t> target:
                raise FormatError(f"indptrBuffers[{k}] never reaches {target}, the number of nodes of level {k + 1}, "
                                  f"within the {max(most, 0)} nodes that the buffers of level {k} have room for")
        target = i
        counts.append(target)
    counts.reverse()
    return counts


cdef inline int64_t first_change(const IntMatrix* w, int64_t row) noexcept nogil:
    """The first column in which a row differs from the one before; the last one if it does not."""
    cdef int64_t k
    if row == 0:
        return 0
    for k in range(w.columns - 1):
        if word_at(w, row, k) != word_at(w, row - 1, k):
            return k
    return w.columns - 1


def count_fibres(indices):
    """Return how many nodes each level gets for sorted rows of coordinates."""
    cdef Integers held = Integers(indices)
    cdef int64_t columns = held.w.columns, i, k
    cdef int64_t* fresh
    if columns > MOST_AXES:
        raise UsageError(f"a sparse tensor of {columns:,} dimensions: at most {MOST_AXES:,}")
    fresh = <int64_t*> calloc(columns + 1, sizeof(int64_t))
    if fresh == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(held.w.rows):
                fresh[first_change(&held.w, i)] += 1
            for k in range(1, columns):
                fresh[k] += fresh[k - 1]
        return [fresh[k] for k in range(columns)]
    finally:
        free(fresh)


def build_fibres(indices, pointers, nodes):
    """Fill the levels that `count_fibres` has counted."""
    cdef Integers held = Integers(indices)
    cdef Levels ranges = Levels(pointers, True), out = Levels(nodes, True)
    cdef IntMatrix* w = &held.w
    cdef int64_t columns = w.columns, i, k
    cdef int64_t* ends
    cdef bint room = True
    if out.n != columns or ranges.n != columns - 1:
        raise UsageError("the levels do not fit the dimensions")
    ends = <int64_t*> calloc(columns + 1, sizeof(int64_t))
    if ends == NULL:
        raise MemoryError()
    with nogil:
        for i in range(w.rows):
            for k in range(first_change(w, i), columns):
                if ends[k] >= out.w[k].rows or (k < ranges.n and ends[k] + 1 >= ranges.w[k].rows):
                    room = False
                    break
                set_word(&out.w[k], ends[k], word_at(w, i, k))
                if k < ranges.n:
                    set_word(&ranges.w[k], ends[k], ends[k + 1])
                ends[k] += 1
            if not room:
                break
        for k in range(ranges.n):
            if ends[k] < ranges.w[k].rows:
                set_word(&ranges.w[k], ends[k], ends[k + 1])
            else:
                room = False
    free(ends)
    if not room:
        raise UsageError("the indices changed while they were counted")


cdef int leaf_pointers(const IntMatrix* pointers, const int64_t* below, int64_t* starts, int64_t size,
               IndexFault* fault) noexcept nogil:
    """Turn pointers into a level of `size` nodes into pointers into the leaves.

    `below` are the same for that level, NULL if it holds the leaves.
    """
    cdef int64_t j, at = 0, before = 0
    for j in range(pointers.rows):
        at = <int64_t> word_at(pointers, j)
        if at < before:
            return fail(fault, DECREASING_POINTER, j, <uint64_t> at, before)
        if at > size:
            return fail(fault, LAST_POINTER, j, <uint64_t> at, size)
        if j == 0 and at != 0:
            return fail(fault, FIRST_POINTER, 0, <uint64_t> at)
        starts[j] = at if below == NULL else below[at]
        before = at
    if at != size:
        # Leaves would be left over that nobody writes coordinates for.
        return fail(fault, LAST_POINTER, pointers.rows - 1, <uint64_t> at, size)
    return 0


cdef void expand_level(const IntMatrix* nodes, const int64_t* starts, const IntMatrix* out,
                       int64_t column) noexcept nogil:
    """Repeat each node of a level for the leaves below it (`starts` NULL: it is one)."""
    cdef int64_t j, i
    for j in range(nodes.rows):
        if starts == NULL:
            set_word(out, j, word_at(nodes, j), column)
        else:
            for i in range(starts[j], starts[j + 1]):
                set_word(out, i, word_at(nodes, j), column)


def expand_fibres(pointers, nodes, axes, out):
    """Write the coordinates of every leaf to `out`, a row each; level k goes to column axes[k]."""
    cdef Levels ranges = Levels(pointers), levels = Levels(nodes)
    cdef Integers held = Integers(out, True)
    cdef Space space = Space((0,) * levels.n, axes)
    cdef int64_t k, leaves = held.w.rows, most = 0
    cdef int64_t* starts
    cdef int64_t* below = NULL
    cdef int64_t* spare
    cdef IndexFault fault
    cdef int found = 0
    if levels.n < 1 or ranges.n != levels.n - 1 or held.w.columns != levels.n or levels.w[levels.n - 1].rows != leaves:
        raise UsageError("the levels do not fit the coordinates")
    for k in range(ranges.n):
        if ranges.w[k].rows != levels.w[k].rows + 1:
            raise UsageError(f"level {k} has {levels.w[k].rows} nodes and {ranges.w[k].rows} pointers")
        most = max(most, ranges.w[k].rows)
    starts = <int64_t*> calloc(2 * most + 1, sizeof(int64_t))
    if starts == NULL:
        raise MemoryError()
    spare = starts
    with nogil:
        expand_level(&levels.w[levels.n - 1], NULL, &held.w, space.axis[levels.n - 1])
        for k in range(ranges.n - 1, -1, -1):
            found = leaf_pointers(&ranges.w[k], below, spare, levels.w[k + 1].rows, &fault)
            if found < 0:
                break
            expand_level(&levels.w[k], spare, &held.w, space.axis[k])
            below = spare
            spare = starts + most if spare == starts else starts
    free(starts)
    if found < 0:
        raise_index_fault(&fault, ranges.w[k], f"indptrBuffers[{k}]")


# -- dense tensors ---------------------------------------------------------------------------------------------------

# Between dense tensors and the coordinates of their values: the non-zero ones taken out, and put in again.

cdef enum:
    MOST_DENSE_AXES = 64        # what the buffer protocol can describe
    BLOCK = 64                  # bytes of a dense tensor that are passed over at once when all are zero
    WIDEST = 256                # bytes of a value; see `zeros`

cdef uint8_t zeros[WIDEST]


cdef struct DenseView:
    # A dense tensor, in the order in which it is gone through.
    const uint8_t* data
    int64_t width               # bytes of a value
    int64_t n
    const Py_ssize_t* size
    const Py_ssize_t* step
    uint64_t keep               # the bits that make a value non-zero: not the sign of floating-point numbers

cdef struct NonZeros:
    # Where values and their coordinates go, and how far they have come.
    int64_t at[MOST_DENSE_AXES]       # the coordinates at hand, but the last
    IntMatrix indices
    uint8_t* values
    int64_t step
    int64_t width
    int64_t n
    int64_t room                # -1: only count
    int64_t count


cdef inline bint add_value(NonZeros* out, const uint8_t* value, int64_t last) noexcept nogil:
    cdef int64_t k
    if out.count >= out.room:
        return False
    for k in range(out.n - 1):
        set_word(&out.indices, out.count, <uint64_t> out.at[k], k)
    if out.n:
        set_word(&out.indices, out.count, <uint64_t> last, out.n - 1)
    copy_value(out.values + out.count * out.step, value, out.width)
    out.count += 1
    return True


cdef inline bint empty_block(const uint8_t* p) noexcept nogil:
    cdef uint64_t bits = 0
    cdef int k
    for k in range(BLOCK // 8):
        bits |= (<const loose_u64*> p)[k]
    return bits == 0


cdef inline uint64_t nonzero_bits(const Word* values, uint64_t keep) noexcept nogil:
    """Which values of a block are not zero."""
    cdef uint64_t bits = 0
    cdef int k
    for k in range(BLOCK // sizeof(Word)):
        bits |= <uint64_t> ((values[k] & <Word> keep) != 0) << k
    return bits


cdef int scan_run(const Word* kind, const uint8_t* p, int64_t count, int64_t step, uint64_t keep,
                  NonZeros* out) noexcept nogil:
    """Go through one run of values; -1 if there are more than there is room for."""
    cdef int64_t i = 0, end, total = 0, block = BLOCK // <int64_t> sizeof(Word)
    cdef uint64_t found
    cdef const Word* packed = <const Word*> p
    cdef bint contiguous = step == <int64_t> sizeof(Word)
    if contiguous and out.room < 0 and sizeof(Word) < 8:
        for i in range(count):
            total += (packed[i] & <Word> keep) != 0
        out.count += total
        return 0
    while contiguous and count - i >= block:
        # Bits instead of branches, which no processor could guess.
        found = 0 if empty_block(p + i * step) else nonzero_bits(packed + i, keep)
        if out.room < 0:
            out.count += popcount64(found)
        else:
            while found:
                end = i + trailing_zeros(found)
                found &= found - 1
                if not add_value(out, p + end * step, end):
                    return -1
        i += block
    while i < count:
        if (<const Word*> (p + i * step))[0] & <Word> keep:
            if out.room < 0:
                out.count += 1
            elif not add_value(out, p + i * step, i):
                return -1
        i += 1
    return 0


cdef int scan_wide_run(const uint8_t* p, int64_t count, int64_t step, NonZeros* out) noexcept nogil:
    """The same for values that no machine word holds."""
    cdef int64_t i
    for i in range(count):
        if memcmp(p + i * step, zeros, out.width) != 0:
            if out.room < 0:
                out.count += 1
            elif not add_value(out, p + i * step, i):
                return -1
    return 0


cdef int scan_dense(const DenseView* g, NonZeros* out) noexcept nogil:
    cdef int64_t k, count = 1, step = g.width
    cdef const uint8_t* p = g.data
    cdef int found
    for k in range(g.n):
        if g.size[k] == 0:
            return 0
        out.at[k] = 0
    if g.n:
        count = g.size[g.n - 1]
        step = g.step[g.n - 1]
    while True:
        if g.width == 8:
            found = scan_run(<const loose_u64*> p, p, count, step, g.keep, out)
        elif g.width == 4:
            found = scan_run(<const loose_u32*> p, p, count, step, g.keep, out)
        elif g.width == 2:
            found = scan_run(<const loose_u16*> p, p, count, step, g.keep, out)
        elif g.width == 1:
            found = scan_run(<const uint8_t*> p, p, count, step, g.keep, out)
        else:
            found = scan_wide_run(p, count, step, out)
        if found < 0:
            return -1
        k = g.n - 2
        while k >= 0:
            out.at[k] += 1
            p += g.step[k]
            if out.at[k] < g.size[k]:
                break
            p -= g.size[k] * g.step[k]
            out.at[k] = 0
            k -= 1
        if k < 0:
            return 0


cdef DenseView dense_view(Values dense, uint64_t sign) except *:
    cdef DenseView g
    if dense.view.ndim > MOST_DENSE_AXES or dense.view.itemsize > WIDEST:
        raise UsageError(f"a dense tensor of {dense.view.ndim} dimensions and {dense.view.itemsize} bytes per value: "
                         f"at most {MOST_DENSE_AXES} and {WIDEST}")
    g.data = <const uint8_t*> dense.view.buf
    g.width = dense.view.itemsize
    g.n = dense.view.ndim
    g.size = dense.view.shape
    g.step = dense.view.strides
    g.keep = ~sign
    return g


def count_nonzero(dense, uint64_t sign):
    """Return how many values of `dense` are not zero, `sign` being the bit that makes no difference."""
    cdef Values held = Values(dense)
    cdef DenseView g = dense_view(held, sign)
    cdef NonZeros out
    out.room = -1
    out.count = 0
    out.n = g.n
    out.width = g.width
    if g.width:
        with nogil:
            scan_dense(&g, &out)
    return out.count


def take_nonzero(dense, uint64_t sign, indices, values):
    """Copy the values that are not zero, and their coordinates.

    Values come in the order of the axes of `dense`, the last one running fastest.
    """
    cdef Values held = Values(dense), target = Values(values, True)
    cdef Integers coordinates = Integers(indices, True)
    cdef DenseView g = dense_view(held, sign)
    cdef NonZeros out
    cdef int found = 0
    out.indices = coordinates.w
    if target.view.ndim != 1 or target.view.itemsize != g.width or out.indices.columns != g.n:
        raise UsageError("the outputs do not fit the dense tensor")
    out.values = <uint8_t*> target.view.buf
    out.step = target.view.strides[0]
    out.width = g.width
    out.n = g.n
    out.count = 0
    out.room = min(target.view.shape[0], out.indices.rows)
    if g.width:
        with nogil:
            found = scan_dense(&g, &out)
    if found < 0 or out.count != out.room:
        raise UsageError("the dense tensor changed while its values were counted")


# -- back ----------------------------------------------------------------------------------------------------


cdef int put_rows(const Word* kind, const IntMatrix* w, Space space, const uint8_t* values, int64_t value_step,
                  const DenseView* g, IndexFault* fault) noexcept nogil:
    cdef int64_t i, k, offset
    cdef uint64_t word
    cdef const uint8_t* row = w.data
    for i in range(w.rows):
        offset = 0
        for k in range(space.n):
            word = (<const Word*> (row + k * w.column_step))[0]
            if is_outside(word, space.last[k]):
                return fail(fault, OUT_OF_BOUNDS, i, word, space.size[k], k)
            offset += <int64_t> word * g.step[k]
        copy_value(<uint8_t*> g.data + offset, values, g.width)
        row += w.row_step
        values += value_step
    return 0


def put_values(indices, values, dense):
    """Store each value at its coordinates."""
    cdef Integers held = Integers(indices)
    cdef Values source = Values(values), target = Values(dense, True)
    cdef DenseView g = dense_view(target, 0)
    cdef Space space = Space([g.size[k] for k in range(g.n)])
    cdef IntMatrix* w = &held.w
    cdef const uint8_t* first = <const uint8_t*> source.view.buf
    cdef int64_t step
    cdef IndexFault fault
    cdef int found
    if source.view.ndim != 1 or source.view.shape[0] != w.rows or source.view.itemsize != g.width:
        raise UsageError("the values do not fit the indices or the dense tensor")
    space.bound(w)
    step = source.view.strides[0]
    with nogil:
        if w.width == 8:
            found = put_rows(<const loose_u64*> w.data, w, space, first, step, &g, &fault)
        elif w.width == 4:
            found = put_rows(<const loose_u32*> w.data, w, space, first, step, &g, &fault)
        elif w.width == 2:
            found = put_rows(<const loose_u16*> w.data, w, space, first, step, &g, &fault)
        else:
            found = put_rows(<const uint8_t*> w.data, w, space, first, step, &g, &fault)
    if found < 0:
        raise_index_fault(&fault, w[0], "indices")


cdef int put_ranges(const Word* kind, const IntMatrix* pointers, const IntMatrix* w, const uint8_t* values,
                    int64_t value_step, const DenseView* g, IndexFault* fault) noexcept nogil:
    cdef int64_t j, i, at = 0, end, last = last_index(w, g.size[1])
    cdef uint64_t word
    cdef uint8_t* row = <uint8_t*> g.data
    for j in range(1, pointers.rows):
        end = range_end(pointers, j, at, w.rows, fault)
        if end < 0:
            return -1
        for i in range(at, end):
            word = (<const Word*> (w.data + i * w.row_step))[0]
            if is_outside(word, last):
                return fail(fault, OUT_OF_BOUNDS, i, word, g.size[1])
            copy_value(row + <int64_t> word * g.step[1], values + i * value_step, g.width)
        at = end
        row += g.step[0]
    return 0


def put_compressed(pointers, indices, values, dense):
    """Store the values of a compressed matrix; the first axis of `dense` is the compressed one."""
    cdef Integers ranges = Integers(pointers), held = Integers(indices)
    cdef Values source = Values(values), target = Values(dense, True)
    cdef DenseView g = dense_view(target, 0)
    cdef IntMatrix* w = &held.w
    cdef const uint8_t* first = <const uint8_t*> source.view.buf
    cdef int64_t step
    cdef IndexFault fault
    cdef int found
    if (source.view.ndim != 1 or source.view.shape[0] != w.rows or source.view.itemsize != g.width or g.n != 2
            or ranges.w.rows != g.size[0] + 1):
        raise UsageError("the values do not fit the indices or the dense tensor")
    step = source.view.strides[0]
    with nogil:
        if w.width == 8:
            found = put_ranges(<const loose_u64*> w.data, &ranges.w, w, first, step, &g, &fault)
        elif w.width == 4:
            found = put_ranges(<const loose_u32*> w.data, &ranges.w, w, first, step, &g, &fault)
        elif w.width == 2:
            found = put_ranges(<const loose_u16*> w.data, &ranges.w, w, first, step, &g, &fault)
        else:
            found = put_ranges(<const uint8_t*> w.data, &ranges.w, w, first, step, &g, &fault)
    if found < 0:
        raise_index_fault(&fault, (ranges if fault.code != OUT_OF_BOUNDS else held).w,
                    "indices" if fault.code == OUT_OF_BOUNDS else "indptr")
