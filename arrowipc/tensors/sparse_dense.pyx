"""Between dense tensors and the coordinates of their values: the non-zero ones taken out, and put in again."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from arrowipc.inline.loads cimport loose_u16, loose_u32, loose_u64, popcount64, trailing_zeros
from arrowipc.tensors.sparse_index cimport (
    FOUND_DESCENT, FOUND_END, FOUND_STRAY, Found, Integers, Space, Values, Word, Words, copy_value, fail, is_stray,
    last_index, raise_found, set_word, word_at,
)

from arrowipc.errors import UsageError

cdef enum:
    MOST_AXES = 64              # what the buffer protocol can describe
    BLOCK = 64                  # bytes of a dense tensor that are passed over at once when all are zero
    WIDEST = 256                # bytes of a value; see `zeros`

cdef uint8_t zeros[WIDEST]


cdef struct Grid:
    # A dense tensor, in the order in which it is gone through.
    const uint8_t* data
    int64_t width               # bytes of a value
    int64_t n
    const Py_ssize_t* size
    const Py_ssize_t* step
    uint64_t keep               # the bits that make a value non-zero: not the sign of floating-point numbers

cdef struct Harvest:
    # Where values and their coordinates go, and how far they have come.
    int64_t at[MOST_AXES]       # the coordinates at hand, but the last
    Words indices
    uint8_t* values
    int64_t step
    int64_t width
    int64_t n
    int64_t room                # -1: only count
    int64_t count


cdef inline bint put(Harvest* out, const uint8_t* value, int64_t last) noexcept nogil:
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
                  Harvest* out) noexcept nogil:
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
                if not put(out, p + end * step, end):
                    return -1
        i += block
    while i < count:
        if (<const Word*> (p + i * step))[0] & <Word> keep:
            if out.room < 0:
                out.count += 1
            elif not put(out, p + i * step, i):
                return -1
        i += 1
    return 0


cdef int scan_wide_run(const uint8_t* p, int64_t count, int64_t step, Harvest* out) noexcept nogil:
    """The same for values that no machine word holds."""
    cdef int64_t i
    for i in range(count):
        if memcmp(p + i * step, zeros, out.width) != 0:
            if out.room < 0:
                out.count += 1
            elif not put(out, p + i * step, i):
                return -1
    return 0


cdef int scan_grid(const Grid* g, Harvest* out) noexcept nogil:
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


cdef Grid grid(Values dense, uint64_t sign) except *:
    cdef Grid g
    if dense.view.ndim > MOST_AXES or dense.view.itemsize > WIDEST:
        raise UsageError(f"a dense tensor of {dense.view.ndim} dimensions and {dense.view.itemsize} bytes per value: "
                         f"at most {MOST_AXES} and {WIDEST}")
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
    cdef Grid g = grid(held, sign)
    cdef Harvest out
    out.room = -1
    out.count = 0
    out.n = g.n
    out.width = g.width
    if g.width:
        with nogil:
            scan_grid(&g, &out)
    return out.count


def take_nonzero(dense, uint64_t sign, indices, values):
    """Copy the values that are not zero, and their coordinates.

    Values come in the order of the axes of `dense`, the last one running fastest.
    """
    cdef Values held = Values(dense), target = Values(values, True)
    cdef Integers coordinates = Integers(indices, True)
    cdef Grid g = grid(held, sign)
    cdef Harvest out
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
            found = scan_grid(&g, &out)
    if found < 0 or out.count != out.room:
        raise UsageError("the dense tensor changed while its values were counted")


# -- back ----------------------------------------------------------------------------------------------------


cdef int put_rows(const Word* kind, const Words* w, Space space, const uint8_t* values, int64_t value_step,
                  const Grid* g, Found* fault) noexcept nogil:
    cdef int64_t i, k, offset
    cdef uint64_t word
    cdef const uint8_t* row = w.data
    for i in range(w.rows):
        offset = 0
        for k in range(space.n):
            word = (<const Word*> (row + k * w.column_step))[0]
            if is_stray(word, space.last[k]):
                return fail(fault, FOUND_STRAY, i, word, space.size[k], k)
            offset += <int64_t> word * g.step[k]
        copy_value(<uint8_t*> g.data + offset, values, g.width)
        row += w.row_step
        values += value_step
    return 0


def put_values(indices, values, dense):
    """Store each value at its coordinates."""
    cdef Integers held = Integers(indices)
    cdef Values source = Values(values), target = Values(dense, True)
    cdef Grid g = grid(target, 0)
    cdef Space space = Space([g.size[k] for k in range(g.n)])
    cdef Words* w = &held.w
    cdef const uint8_t* first = <const uint8_t*> source.view.buf
    cdef int64_t step
    cdef Found fault
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
        raise_found(&fault, w[0], "indices")


cdef int put_ranges(const Word* kind, const Words* pointers, const Words* w, const uint8_t* values,
                    int64_t value_step, const Grid* g, Found* fault) noexcept nogil:
    cdef int64_t j, i, at = 0, end, last = last_index(w, g.size[1])
    cdef uint64_t word
    cdef uint8_t* row = <uint8_t*> g.data
    for j in range(1, pointers.rows):
        end = <int64_t> word_at(pointers, j)
        if end < at:
            return fail(fault, FOUND_DESCENT, j, <uint64_t> end, at)
        if end > w.rows:
            return fail(fault, FOUND_END, j, <uint64_t> end, w.rows)
        for i in range(at, end):
            word = (<const Word*> (w.data + i * w.row_step))[0]
            if is_stray(word, last):
                return fail(fault, FOUND_STRAY, i, word, g.size[1])
            copy_value(row + <int64_t> word * g.step[1], values + i * value_step, g.width)
        at = end
        row += g.step[0]
    return 0


def put_compressed(pointers, indices, values, dense):
    """Store the values of a compressed matrix; the first axis of `dense` is the compressed one."""
    cdef Integers ranges = Integers(pointers), held = Integers(indices)
    cdef Values source = Values(values), target = Values(dense, True)
    cdef Grid g = grid(target, 0)
    cdef Words* w = &held.w
    cdef const uint8_t* first = <const uint8_t*> source.view.buf
    cdef int64_t step
    cdef Found fault
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
        raise_found(&fault, (ranges if fault.code != FOUND_STRAY else held).w,
                    "indices" if fault.code == FOUND_STRAY else "indptr")
