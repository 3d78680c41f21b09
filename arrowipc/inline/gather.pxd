# The loops that copy chosen elements: one by one or run by run, from one or several pieces, or each several times.
#
# The contents are untrusted. Offsets, views, type codes and run ends are checked before they are followed; values that
# are only copied are not checked.
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc.inline.bits cimport append_bits, append_ones, largest, load_int, shift_offsets, store_int
from arrowipc.inline.element cimport copy_view, find_run, next_run, run_end
from arrowipc.inline.fault cimport (
    FAULT_LIST_VIEW, FAULT_OFFSET, FAULT_TYPE_CODE, FAULT_UNION_OFFSET, Fault, fail,
)
from arrowipc.inline.loads cimport (
    add_overflows, get_bit, inside, load_i32, load_i64, loose_i16, loose_i32, loose_i64, loose_u64, prefetch,
    trailing_zeros,
)
from arrowipc.inline.plan cimport ColumnsData, Extent, Node

cdef struct Piece:
    # A batch that rows are taken from, and the place of the field that is copied.
    const ColumnsData* d
    const Node* nodes           # of `d`
    const Extent* extents
    int64_t first               # the number of its first row
    int64_t shift               # added to the number of a row, it gives the physical element
    const uint8_t* bits         # validity; NULL: nothing is null
    const uint8_t* values       # or bits, offsets, views, type codes; of fixed-size lists of numbers: the numbers
    const uint8_t* sizes        # of list views; the offsets of dense unions
    const uint8_t* data         # bytes of text; of lists of numbers: the numbers
    const Extent* buffers       # of views: their data
    int64_t limit               # how many bytes of text, elements, or data buffers it has
    int64_t base                # is added to the buffer index of its views, or to the offset of its list views

cdef enum:
    AHEAD = 16                  # how many rows (or pieces) ahead memory is prefetched

cdef struct Run:
    # Consecutive elements of a piece; numbers of nulls (negative ones) never form a run.
    int64_t start
    int64_t count
    int32_t home                # the piece

cdef struct Chosen:
    # Chosen elements of a field: their numbers, or the runs that they form, or both. Rows of a column are numbered
    # through all pieces; elements of a field below a list, union or run-end encoded field begin at 0 in each piece.
    int32_t root                # the field; the children of structs below it have the same elements
    const int64_t* numbers      # negative: a null, which is possible only with one piece; NULL: not known
    const int32_t* homes        # the piece of each number; NULL: there is one piece, or `numbers` are not known
    int64_t count
    const Run* runs             # NULL: not written yet
    int64_t n_runs              # 0: there may be nulls, or the elements are copied one by one

cdef struct Lists:
    # Lists, whose elements are wanted in this order; those of one list are consecutive.
    const int64_t* starts       # the first element of each list; negative: its elements are null
    const uint8_t* ends         # integers of `width` bytes: elements up to the end of each list; NULL: each has `size`
    const int32_t* homes        # the piece of each list; NULL: there is one piece
    int64_t count
    int64_t size
    int32_t width
    int64_t total               # elements


cdef inline int64_t list_end(const Lists* lists, int64_t i) noexcept nogil:
    """Return how many elements there are up to the end of list `i`."""
    return load_int(lists.ends, i, lists.width) if lists.ends != NULL else (i + 1) * lists.size


cdef inline int64_t row_runs(Run* out, const int64_t* rows, int64_t n) noexcept nogil:
    """Count and write runs as `list_runs` does, for rows of one piece."""
    cdef int64_t used = 0, i = 0, first, breaks, k
    while i < n:
        first = i
        i += 1
        while True:
            # Take 16 at a time, as long as they are consecutive.
            breaks = 0
            for k in range(i, i + 16 if i + 16 <= n else i):
                breaks |= rows[k] - rows[k - 1] - 1
            if breaks or i + 16 > n:
                break
            i += 16
        while i < n and rows[i] == rows[i - 1] + 1:
            i += 1
        if out != NULL:
            out[used] = Run(rows[first], i - first, 0)
        used += 1
    return used


cdef inline int64_t list_runs(Run* out, const Lists* lists) noexcept nogil:
    """Count the runs that the elements of lists form, and write them unless `out` is NULL; no list is null."""
    cdef int64_t at = 0, end, used = 0, next = -1, i
    cdef int32_t home = 0, last = -1
    if lists.ends == NULL and lists.size == 1 and lists.homes == NULL:
        return row_runs(out, lists.starts, lists.count)
    for i in range(lists.count):
        end = list_end(lists, i)
        if end == at:
            continue
        if lists.homes != NULL:
            home = lists.homes[i]
        if lists.starts[i] != next or home != last:
            if out != NULL:
                out[used] = Run(lists.starts[i], 0, home)
            used += 1
            last = home
        if out != NULL:
            out[used - 1].count += end - at
        next = lists.starts[i] + (end - at)
        at = end
    return used


cdef inline int64_t write_runs(Run* out, const int64_t* numbers, const int32_t* homes, int64_t n) noexcept nogil:
    """Write the runs of rows unless `out` is NULL; return how many there are."""
    cdef Lists rows = Lists(numbers, NULL, homes, n, 1, 0, n)
    return list_runs(out, &rows)


cdef inline void spread_lists(int64_t* numbers, int32_t* homes, const Lists* lists) noexcept nogil:
    """Write the numbers of the elements of lists, and the piece of each; `homes` is NULL if `lists.homes` is."""
    cdef int64_t at = 0, end, first, i, k
    for i in range(lists.count):
        end = list_end(lists, i)
        first = lists.starts[i]
        for k in range(end - at):
            numbers[at + k] = first + k if first >= 0 else -1
        if homes != NULL:
            for k in range(at, end):
                homes[k] = lists.homes[i]
        at = end


cdef inline void spread_runs(int64_t* numbers, int32_t* homes, const Run* runs, int64_t n) noexcept nogil:
    """Write the numbers of the rows of runs and, unless `homes` is NULL, the piece of each."""
    cdef int64_t at = 0, i, k
    for i in range(n):
        for k in range(runs[i].count):
            numbers[at + k] = runs[i].start + k
        if homes != NULL:
            for k in range(at, at + runs[i].count):
                homes[k] = runs[i].home
        at += runs[i].count


cdef inline int64_t skip_uniform(const loose_u64* words, int64_t i, int64_t n) noexcept nogil:
    """Return the next word that may differ from word `i`: if that has only zeros or only ones, skip equal words."""
    cdef uint64_t word = words[i], differences
    cdef int64_t k
    i += 1
    if word != 0 and ~word != 0:
        return i
    while i + 8 <= n:
        differences = 0
        for k in range(i, i + 8):
            differences |= words[k] ^ word
        if differences:
            break
        i += 8
    while i < n and words[i] == word:
        i += 1
    return i


cdef inline void number_bits(int64_t* out, const loose_u64* words, int64_t rows) noexcept nogil:
    """Write the numbers of the rows whose bits are set."""
    cdef int64_t at, n = 0
    cdef uint64_t word
    for at in range(0, rows, 64):
        word = words[at >> 6]
        while word:
            out[n] = at + trailing_zeros(word)
            word &= word - 1
            n += 1


cdef inline void runs_of_bits(Run* out, const loose_u64* words, int64_t rows) noexcept nogil:
    """Write the runs of the rows whose bits are set."""
    cdef int64_t i = 0, n = 0, begin = -1
    cdef uint64_t word, changes, before = 0
    while 64 * i < rows:
        word = words[i]
        changes = word ^ (word << 1 | before)   # bits that differ from the bit before
        before = word >> 63
        while changes:
            if begin < 0:
                begin = 64 * i + trailing_zeros(changes)
            else:
                out[n] = Run(begin, 64 * i + trailing_zeros(changes) - begin, 0)
                begin = -1
                n += 1
            changes &= changes - 1
        i = skip_uniform(words, i, (rows + 63) >> 6)
    if begin >= 0:
        out[n] = Run(begin, rows - begin, 0)


cdef inline const Piece* home_of(const Piece* pieces, const int32_t* homes, int64_t i) noexcept nogil:
    """Return the piece of chosen element `i`."""
    return pieces if homes == NULL else pieces + homes[i]


cdef struct Homes:
    # Where batches begin, and a table to find the batch of a row.
    int64_t* firsts             # the first row of each batch, and behind them the number of all rows
    int64_t count
    int32_t* known              # the batch of every 2**shift-th row
    int32_t shift


cdef inline void find_homes(const Homes* homes, int32_t* out, const int64_t* rows, int64_t n) noexcept nogil:
    """Find the batch of each row: the last one that begins at or before it, so never an empty one."""
    cdef const int64_t* firsts = homes.firsts
    cdef int32_t low, high, middle
    cdef int64_t i
    for i in range(n):
        low = homes.known[rows[i] >> homes.shift]
        high = homes.known[(rows[i] >> homes.shift) + 1]
        while low < high:
            middle = low + (high - low + 1) // 2
            if firsts[middle] <= rows[i]:
                low = middle
            else:
                high = middle - 1
        out[i] = low


cdef inline void flat_words(uint8_t* out, const uint8_t* values, int64_t width, const int64_t* numbers,
                            int64_t n) noexcept nogil:
    """Copy values of `width` bytes by their numbers; write zeros for nulls."""
    cdef int64_t i
    if width == 8:
        for i in range(n):
            (<loose_i64*> out)[i] = (<const loose_i64*> values)[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 4:
        for i in range(n):
            (<loose_i32*> out)[i] = (<const loose_i32*> values)[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 2:
        for i in range(n):
            (<loose_i16*> out)[i] = (<const loose_i16*> values)[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 1:
        for i in range(n):
            out[i] = values[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 16:
        for i in range(n):
            if numbers[i] >= 0:
                memcpy(out + 16 * i, values + 16 * numbers[i], 16)
            else:
                memset(out + 16 * i, 0, 16)
    elif width:
        for i in range(n):
            if numbers[i] >= 0:
                memcpy(out + i * width, values + numbers[i] * width, width)
            else:
                memset(out + i * width, 0, width)


cdef inline void copy_runs(uint8_t* out, int64_t width, bint data, const Piece* pieces, const Run* runs,
                           int64_t n) noexcept nogil:
    """Copy runs of values of `width` bytes or, with `data`, of the bytes or numbers that offsets point to."""
    cdef const Piece* piece
    cdef const uint8_t* values
    cdef int64_t i
    if width == 0:
        return  # there may be no buffer
    for i in range(n):
        piece = pieces + runs[i].home
        values = piece.data if data else piece.values + piece.shift * width
        if runs[i].count:
            memcpy(out, values + runs[i].start * width, runs[i].count * width)
            out += runs[i].count * width


cdef inline void gather_words(uint8_t* out, int64_t width, const Piece* pieces, const Chosen* chosen) noexcept nogil:
    """Copy values of `width` bytes; write zeros for nulls."""
    cdef const int64_t* numbers = chosen.numbers
    cdef const int32_t* homes = chosen.homes
    cdef const uint8_t* value
    cdef int64_t i
    if width == 0:
        return
    if homes == NULL:
        flat_words(out, pieces.values + pieces.shift * width, width, numbers, chosen.count)
        return
    for i in range(chosen.count):
        value = pieces[homes[i]].values + (numbers[i] + pieces[homes[i]].shift) * width
        if width == 8:
            (<loose_i64*> out)[i] = load_i64(value)
        elif width == 4:
            (<loose_i32*> out)[i] = load_i32(value)
        else:
            memcpy(out + i * width, value, width)


cdef inline void keep_words(uint8_t* out, int width, const uint8_t* values, const loose_u64* mask,
                            int64_t n) noexcept nogil:
    """Copy those of `n` values of 1, 2, 4 or 8 bytes whose bits are set.

    Every value is written; the next one overwrites it if its bit is off. That needs no branch, and room for one more
    value.
    """
    cdef int64_t used = 0, at, i
    cdef uint64_t word
    for at in range(0, n, 64):
        word = mask[at >> 6]
        for i in range(at, min(at + 64, n)):
            if width == 8:
                (<loose_i64*> out)[used] = (<const loose_i64*> values)[i]
            elif width == 4:
                (<loose_i32*> out)[used] = (<const loose_i32*> values)[i]
            elif width == 2:
                (<loose_i16*> out)[used] = (<const loose_i16*> values)[i]
            else:
                out[used] = values[i]
            used += word & 1
            word >>= 1


cdef inline void copy_bits(uint8_t* out, bint valid, const Piece* pieces, const Run* runs, int64_t n) noexcept nogil:
    """Copy runs of bits: of values or, with `valid`, of their validity."""
    cdef const Piece* piece
    cdef const uint8_t* bits
    cdef int64_t at = 0, i
    for i in range(n):
        piece = pieces + runs[i].home
        bits = piece.bits if valid else piece.values
        if bits != NULL:
            append_bits(out, at, bits, runs[i].start + piece.shift, runs[i].count)
        else:
            append_ones(out, at, runs[i].count)
        at += runs[i].count


cdef inline void gather_bits(uint8_t* out, bint valid, const Piece* pieces, const Chosen* chosen) noexcept nogil:
    """Copy bits of values or, with `valid`, of their validity; write 0 for nulls."""
    cdef const int64_t* numbers = chosen.numbers
    cdef const int32_t* homes = chosen.homes
    cdef const Piece* piece
    cdef const uint8_t* bits
    cdef uint32_t byte = 0
    cdef int64_t i
    for i in range(chosen.count):
        piece = home_of(pieces, homes, i)
        bits = piece.bits if valid else piece.values
        if numbers[i] >= 0:
            byte |= <uint32_t> (bits == NULL or get_bit(bits, numbers[i] + piece.shift)) << (i & 7)
        if i & 7 == 7 or i == chosen.count - 1:
            out[i >> 3] = <uint8_t> byte
            byte = 0


cdef inline int64_t gather_offsets(uint8_t* out, int64_t* starts, int32_t width, const Piece* pieces,
                                   const Chosen* chosen, int32_t f, Fault* fault) noexcept nogil:
    """Write offsets for texts or lists that are now consecutive, and where each began (`starts`); return the last one.

    Return -1 for a `fault`, and -2 if offsets of that width cannot be so large.
    """
    cdef const int64_t* numbers = chosen.numbers
    cdef const int32_t* homes = chosen.homes
    cdef const Piece* piece = pieces
    # Copy the fields of a piece: the compiler cannot know that the stores below do not change the struct.
    cdef const uint8_t* offsets = piece.values
    cdef int64_t shift = piece.shift, limit = piece.limit
    cdef int64_t first, last, end = 0, most = largest(width, True), i
    store_int(out, 0, width, 0)
    for i in range(chosen.count):
        if numbers[i] < 0:
            starts[i] = 0
            store_int(out, i + 1, width, end)
            continue
        if homes != NULL:
            piece = pieces + homes[i]
            offsets, shift, limit = piece.values, piece.shift, piece.limit
        first = load_int(offsets, numbers[i] + shift, width)
        last = load_int(offsets, numbers[i] + shift + 1, width)
        if first < 0 or first > last:
            return fail(fault, FAULT_OFFSET, f, 1, numbers[i] + shift - piece.d.nodes[f].offset, first, last, NULL)
        if last > limit:
            return fail(fault, FAULT_OFFSET, f, 1, numbers[i] + shift - piece.d.nodes[f].offset + 1, last, limit, NULL)
        if last - first > most - end:
            return -2
        starts[i] = first
        end += last - first
        store_int(out, i + 1, width, end)
    return end


cdef inline int64_t run_offsets(uint8_t* out, Run* spans, int32_t width, const Piece* pieces, const Chosen* chosen,
                                int32_t f, Fault* fault) noexcept nogil:
    """Do what `gather_offsets` does, for runs: `spans` gets the bytes or elements of each run.

    The offsets inside a run are not checked: nothing here follows them.
    """
    cdef const Piece* piece
    cdef const uint8_t* offsets
    cdef int64_t first, last, start, count, end = 0, most = largest(width, True), i
    store_int(out, 0, width, 0)
    out += width
    for i in range(chosen.n_runs):
        spans[i] = Run(0, 0, chosen.runs[i].home)
        if chosen.runs[i].count == 0:
            continue
        piece = pieces + chosen.runs[i].home
        start, count = chosen.runs[i].start + piece.shift, chosen.runs[i].count
        offsets = piece.values + start * width
        first, last = load_int(offsets, 0, width), load_int(offsets, count, width)
        if first < 0 or first > last:
            return fail(fault, FAULT_OFFSET, f, 1, start - piece.d.nodes[f].offset, first, last, NULL)
        if last > piece.limit:
            return fail(fault, FAULT_OFFSET, f, 1, start - piece.d.nodes[f].offset + count, last, piece.limit, NULL)
        if last - first > most - end:
            return -2
        shift_offsets(out, offsets + width, count, width, end - first)
        out += count * width
        spans[i].start, spans[i].count = first, last - first
        end += last - first
    return end


cdef inline void gather_data(uint8_t* out, int64_t unit, const uint8_t* offsets, const int64_t* starts, int32_t width,
                             const Piece* pieces, const Chosen* chosen) noexcept nogil:
    """Copy texts, or elements of `unit` bytes, to where `offsets` says; `gather_offsets` has made it and `starts`."""
    cdef const int32_t* homes = chosen.homes
    cdef const uint8_t* whole = pieces.data
    cdef const uint8_t* data
    cdef int64_t n = chosen.count, limit = pieces.limit
    cdef int64_t total = load_int(offsets, n, width) * unit, at = 0, end, size, i
    for i in range(n):
        if i + AHEAD < n:
            prefetch((whole if homes == NULL else pieces[homes[i + AHEAD]].data) + starts[i + AHEAD] * unit)
        if homes != NULL:
            whole, limit = pieces[homes[i]].data, pieces[homes[i]].limit
        data = whole + starts[i] * unit
        end = load_int(offsets, i + 1, width) * unit
        size = end - at
        if size <= 16 and total - at >= 16 and (limit - starts[i]) * unit >= 16:
            # Always 16 bytes, without a branch on the size: the next element overwrites the surplus.
            (<loose_i64*> (out + at))[0] = load_i64(data)
            (<loose_i64*> (out + at))[1] = load_i64(data + 8)
        elif size:
            memcpy(out + at, data, size)
        at = end


cdef inline int gather_views(uint8_t* out, int64_t* used, const Piece* pieces, const Chosen* chosen, int32_t f,
                             Fault* fault) noexcept nogil:
    """Copy views, which still point into their pieces (at `used` bytes), and write empty views for nulls."""
    cdef const Piece* piece
    cdef int64_t at, size, i
    used[0] = 0
    for i in range(chosen.count):
        piece = home_of(pieces, chosen.homes, i)
        at = chosen.numbers[i] + piece.shift
        if chosen.numbers[i] < 0 or (piece.bits != NULL and not get_bit(piece.bits, at)):
            memset(out + 16 * i, 0, 16)
            continue
        size = copy_view(out + 16 * i, piece.values + 16 * at, piece.buffers, piece.limit, f, at, fault)
        if size < 0:
            return -1
        used[0] += size
    return 0


cdef inline const uint8_t* text_behind(const uint8_t* view, const Piece* piece) noexcept nogil:
    return piece.buffers[load_i32(view + 8)].data + load_i32(view + 12)


cdef inline int64_t fitting_views(const uint8_t* views, int64_t first, int64_t last, int64_t* size) noexcept nogil:
    """Return the end of the views whose texts fit into one data buffer (offsets have 31 bits), and the texts' size."""
    cdef int64_t i, length
    size[0] = 0
    for i in range(first, last):
        length = load_i32(views + 16 * i)
        if length > 12:
            if length > INT32_MAX - size[0]:
                return i
            size[0] += length
    return last


cdef inline void copy_texts(uint8_t* text, uint8_t* views, int64_t first, int64_t last, int32_t buffer,
                            const Piece* pieces, const Chosen* chosen) noexcept nogil:
    """Copy the texts of some views, which `gather_views` has made, one after the other to data buffer `buffer`."""
    cdef int64_t at = 0, length, i
    for i in range(first, last):
        if i + AHEAD < last and load_i32(views + 16 * (i + AHEAD)) > 12:
            prefetch(text_behind(views + 16 * (i + AHEAD), home_of(pieces, chosen.homes, i + AHEAD)))
        length = load_i32(views + 16 * i)
        if length > 12:
            memcpy(text + at, text_behind(views + 16 * i, home_of(pieces, chosen.homes, i)), length)
            store_int(views, 4 * i + 2, 4, buffer)
            store_int(views, 4 * i + 3, 4, at)
            at += length


cdef inline void move_views(uint8_t* views, const Piece* pieces, const Chosen* chosen) noexcept nogil:
    """Let views point at the data buffers of their pieces, which are now all in one list, in order of the pieces."""
    cdef int64_t i
    for i in range(chosen.count):
        if load_i32(views + 16 * i) > 12:
            store_int(views, 4 * i + 2, 4, load_i32(views + 16 * i + 8) + home_of(pieces, chosen.homes, i).base)


cdef inline void add_part(Run* part, int64_t low, int64_t high) noexcept nogil:
    """Widen a part so that it includes `low` to `high`."""
    if part.count:
        low, high = min(low, part.start), max(high, part.start + part.count)
    if low < high:
        part.start, part.count = low, high - low


cdef inline int gather_list_views(uint8_t* offsets, uint8_t* sizes, Run* parts, int64_t* total, int32_t width,
                                 const Piece* pieces, const Chosen* chosen, int32_t f, Fault* fault) noexcept nogil:
    """Copy list views, which still point into their pieces, and write empty ones for nulls; `total` counts elements.

    `parts` gets for each piece the range of elements that contains all of its lists.
    """
    cdef const Piece* piece = pieces
    cdef const Piece* last = pieces
    cdef int64_t at, start, size, end = 0, low = INT64_MAX, high = 0, i
    for i in range(chosen.count):
        piece = home_of(pieces, chosen.homes, i)
        if piece != last:
            add_part(parts + (last - pieces), low, high)
            last, low, high = piece, INT64_MAX, 0
        at = chosen.numbers[i] + piece.shift
        start = size = 0
        if chosen.numbers[i] >= 0 and (piece.bits == NULL or get_bit(piece.bits, at)):
            size = load_int(piece.sizes, at, width)
        if size:
            start = load_int(piece.values, at, width)
            if not inside(start, size, piece.limit):
                return fail(fault, FAULT_LIST_VIEW, f, 1, at, start, piece.limit, b"offset")
            low, high = min(low, start), max(high, start + size)
            if add_overflows(end, size, &end):
                end = INT64_MAX
        store_int(offsets, i, width, start)
        store_int(sizes, i, width, size)
    add_part(parts + (last - pieces), low, high)
    total[0] = end
    return 0


cdef inline void move_lists(uint8_t* offsets, const uint8_t* sizes, int32_t width, const Piece* pieces,
                            const Chosen* chosen) noexcept nogil:
    """Let list views point at the parts of their pieces, which now follow each other; empty ones stay at 0."""
    cdef int64_t i
    for i in range(chosen.count):
        if load_int(sizes, i, width):
            store_int(offsets, i, width, load_int(offsets, i, width) + home_of(pieces, chosen.homes, i).base)


cdef inline void line_up(int64_t* starts, int64_t* ends, uint8_t* offsets, const uint8_t* sizes, int32_t width,
                         int64_t n) noexcept nogil:
    """Make list views consecutive; write where each began (`starts`), and the new places as offsets (`ends`)."""
    cdef int64_t end = 0, i
    ends[0] = 0
    for i in range(n):
        starts[i] = load_int(offsets, i, width)
        store_int(offsets, i, width, end)
        end += load_int(sizes, i, width)
        ends[i + 1] = end


cdef inline int first_code(const int8_t* ordinals) noexcept nogil:
    """The type code of a union's first child, which stands for nulls."""
    cdef int first = 0
    while first < 127 and ordinals[first] != 0:
        first += 1
    return first


cdef inline int gather_codes(uint8_t* out, int64_t* counts, const int8_t* ordinals, const Piece* pieces,
                             const Chosen* chosen, int32_t f, Fault* fault) noexcept nogil:
    """Copy type codes and count the elements of each child; a null gets the code of the first child."""
    cdef const Piece* piece
    cdef int first = first_code(ordinals), code
    cdef int64_t i
    memset(counts, 0, 128 * sizeof(int64_t))
    for i in range(chosen.count):
        piece = home_of(pieces, chosen.homes, i)
        code = (<const int8_t*> piece.values)[chosen.numbers[i] + piece.shift] if chosen.numbers[i] >= 0 else first
        if code < 0 or ordinals[code] < 0:
            return fail(fault, FAULT_TYPE_CODE, f, 0, chosen.numbers[i] + piece.shift - piece.nodes[f].offset, code)
        out[i] = <uint8_t> code
        counts[ordinals[code]] += 1
    return 0


cdef inline int gather_members(uint8_t* out, int64_t* numbers, int32_t* homes, const int64_t* begins,
                               const uint8_t* codes, const int8_t* ordinals, const int32_t* children,
                               const Piece* pieces, const Chosen* chosen, int32_t f, Fault* fault) noexcept nogil:
    """Write the offsets of a dense union, and the numbers of its children's elements; `gather_codes` has made `codes`.

    The numbers for child k begin at `begins[k]`. `homes` is NULL if `chosen.homes` is.
    """
    cdef const Piece* piece
    cdef int64_t counts[128]
    cdef int64_t at, element, length, i
    cdef int ordinal
    memset(counts, 0, sizeof(counts))
    for i in range(chosen.count):
        ordinal = ordinals[codes[i]]
        element = -1
        if chosen.numbers[i] >= 0:
            piece = home_of(pieces, chosen.homes, i)
            at = chosen.numbers[i] + piece.shift
            element = load_i32(piece.sizes + 4 * at)
            length = piece.nodes[children[ordinal]].length
            if not 0 <= element < length:
                return fail(fault, FAULT_UNION_OFFSET, f, 1, at - piece.nodes[f].offset, element, length)
        numbers[begins[ordinal] + counts[ordinal]] = element
        if homes != NULL:
            homes[begins[ordinal] + counts[ordinal]] = chosen.homes[i]
        store_int(out, i, 4, counts[ordinal])
        counts[ordinal] += 1
    return 0


cdef inline int64_t gather_runs(int64_t* begins, int64_t* numbers, int32_t* homes, const Piece* pieces,
                                const Chosen* chosen, int32_t f, Fault* fault) noexcept nogil:
    """Find the runs of run-end encoded rows: the row each begins with, and its old number; return how many, or -1.

    Neighbouring rows of the same run stay one run. `homes` is NULL if `chosen.homes` is.
    """
    cdef const Piece* piece
    cdef const Piece* last = NULL
    cdef int64_t used = 0, run = -1, first = 0, end = 0, at, i
    for i in range(chosen.count):
        piece = home_of(pieces, chosen.homes, i)
        at = chosen.numbers[i] + piece.shift
        if chosen.numbers[i] < 0:
            if used and run < 0:
                continue
            run = -1
        elif piece == last and run >= 0 and first <= at < end:
            continue
        else:
            # The next row is often in the next run.
            run = run + 1 if piece == last and run >= 0 and at == end else find_run(piece.d, f, at)
            if next_run(piece.d, f, run, at, &end, fault) < 0:
                return -1
            first = run_end(piece.d, f, run - 1) if run else 0
        last = piece
        begins[used] = i
        numbers[used] = run
        if homes != NULL:
            homes[used] = chosen.homes[i]
        used += 1
    return used


# -- repeated rows -------------------------------------------------------------------------------------------


cdef inline uint8_t* repeat_bytes(uint8_t* out, const uint8_t* p, int64_t size, int64_t times) noexcept nogil:
    """Write the same bytes `times` times and return the end; each copy doubles what was written before."""
    cdef int64_t done = size, total = size * times
    if total == 0:
        return out
    memcpy(out, p, size)
    while done < total:
        size = min(done, total - done)
        memcpy(out + done, out, size)
        done += size
    return out + total


cdef inline void repeat_words(uint8_t* out, const uint8_t* values, int64_t width, const int64_t* times,
                              int64_t n) noexcept nogil:
    """Write value i `times[i]` times, for the first `n` values of `width` bytes."""
    cdef int64_t word8, i, t
    cdef int32_t word4
    for i in range(n):
        if width == 8:
            word8 = load_i64(values + 8 * i)
            for t in range(times[i]):
                (<loose_i64*> out)[t] = word8
            out += 8 * times[i]
        elif width == 4:
            word4 = load_i32(values + 4 * i)
            for t in range(times[i]):
                (<loose_i32*> out)[t] = word4
            out += 4 * times[i]
        else:
            out = repeat_bytes(out, values + i * width, width, times[i])


cdef inline void repeat_bits(uint8_t* out, const uint8_t* bits, int64_t start, const int64_t* times,
                             int64_t n) noexcept nogil:
    """Write bit `start + i` `times[i]` times, for each i < `n`; `out` is zero and has room for one word more."""
    cdef int64_t at = 0, i
    for i in range(n):
        if get_bit(bits, start + i) and times[i]:
            append_ones(out, at, times[i])
        at += times[i]
