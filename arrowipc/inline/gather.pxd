# Rows that are copied one by one out of several pieces of memory: where each lies, and the loops that copy them.
#
# What is only copied is not trusted and not looked at; offsets and views are checked before they are followed.
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from arrowipc.inline.bits cimport largest, load_int, store_int
from arrowipc.inline.fault cimport FAULT_OFFSET, FAULT_VIEW, Fault, fail
from arrowipc.inline.loads cimport get_bit, inside, load_i32, load_i64, loose_i32, loose_i64, prefetch
from arrowipc.inline.plan cimport ColumnsData, Extent, Node

cdef struct Piece:
    # A batch that rows are taken from, and where the field in work lies in it.
    const ColumnsData* d
    const Node* nodes           # of `d`
    const Extent* extents
    int64_t first               # the number of its first row
    int64_t shift               # onto the number of a row: the physical element
    const uint8_t* bits         # validity; NULL: nothing is null
    const uint8_t* values       # or bits, or offsets, or views
    const uint8_t* data         # what the offsets point into; of views the Extents of their data buffers
    int64_t limit               # elements, or Extents, that it has
    int64_t base                # where these Extents go

cdef enum:
    AHEAD = 16                  # rows, and pieces, that are asked for before they are looked at

cdef struct Rows:
    # Rows that exist, counted through all pieces.
    const int64_t* numbers
    const int32_t* homes        # the piece that has each; NULL: there is one piece
    int64_t count


cdef inline const Piece* home_of(const Piece* pieces, const int32_t* homes, int64_t i) noexcept nogil:
    return pieces if homes == NULL else pieces + homes[i]


cdef struct Homes:
    # Batches, and a table in which that of a row is found.
    int64_t* firsts             # the first row of each, and behind them the number of all rows
    int64_t count
    int32_t* known              # the batch of every 2**shift-th row
    int32_t shift


cdef inline void find_homes(const Homes* homes, int32_t* out, const int64_t* rows, int64_t n) noexcept nogil:
    """The batch of each row: the last one that begins at it or before, which is not empty."""
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
    """Values of `width` bytes; zeros where null."""
    cdef int64_t i
    if width == 8:
        for i in range(n):
            (<loose_i64*> out)[i] = (<const loose_i64*> values)[numbers[i]] if numbers[i] >= 0 else 0
    elif width == 4:
        for i in range(n):
            (<loose_i32*> out)[i] = (<const loose_i32*> values)[numbers[i]] if numbers[i] >= 0 else 0
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


cdef inline void gather_words(uint8_t* out, int64_t width, const Piece* pieces, const Rows* rows) noexcept nogil:
    """Values of `width` bytes."""
    cdef const int64_t* numbers = rows.numbers
    cdef const int32_t* homes = rows.homes
    cdef const uint8_t* value
    cdef int64_t i
    if width == 0:
        return
    if homes == NULL:
        flat_words(out, pieces.values + pieces.shift * width, width, numbers, rows.count)
        return
    for i in range(rows.count):
        value = pieces[homes[i]].values + (numbers[i] + pieces[homes[i]].shift) * width
        if width == 8:
            (<loose_i64*> out)[i] = load_i64(value)
        elif width == 4:
            (<loose_i32*> out)[i] = load_i32(value)
        else:
            memcpy(out + i * width, value, width)


cdef inline void gather_bits(uint8_t* out, bint valid, const Piece* pieces, const Rows* rows) noexcept nogil:
    """Bits of values, or of their validity."""
    cdef const int64_t* numbers = rows.numbers
    cdef const int32_t* homes = rows.homes
    cdef const Piece* piece
    cdef const uint8_t* bits
    cdef uint32_t byte = 0
    cdef int64_t i
    for i in range(rows.count):
        piece = home_of(pieces, homes, i)
        bits = piece.bits if valid else piece.values
        byte |= <uint32_t> (bits == NULL or get_bit(bits, numbers[i] + piece.shift)) << (i & 7)
        if i & 7 == 7 or i == rows.count - 1:
            out[i >> 3] = <uint8_t> byte
            byte = 0


cdef inline int64_t gather_offsets(uint8_t* out, int64_t* starts, int32_t width, const Piece* pieces, const Rows* rows,
                                   int32_t f, Fault* fault) noexcept nogil:
    """Offsets of texts and lists that lie one behind the other now, and where each lay; returns the last one.

    -1: `fault`; -2: it is more than offsets of that width can be.
    """
    cdef const int64_t* numbers = rows.numbers
    cdef const int32_t* homes = rows.homes
    cdef const Piece* piece
    cdef int64_t first, last, end = 0, most = largest(width, True), i
    store_int(out, 0, width, 0)
    for i in range(rows.count):
        piece = home_of(pieces, homes, i)
        first = load_int(piece.values, numbers[i] + piece.shift, width)
        last = load_int(piece.values, numbers[i] + piece.shift + 1, width)
        if first < 0 or first > last:
            return fail(fault, FAULT_OFFSET, f, 1, numbers[i] + piece.shift - piece.d.nodes[f].offset, first, last,
                        NULL)
        if last > piece.limit:
            return fail(fault, FAULT_OFFSET, f, 1, numbers[i] + piece.shift - piece.d.nodes[f].offset + 1, last,
                        piece.limit, NULL)
        if last - first > most - end:
            return -2
        starts[i] = first
        end += last - first
        store_int(out, i + 1, width, end)
    return end


cdef inline void gather_data(uint8_t* out, int64_t unit, const uint8_t* offsets, const int64_t* starts, int32_t width,
                             const Piece* pieces, const Rows* rows) noexcept nogil:
    """What lies between the offsets, which `gather_offsets` has made, in elements of `unit` bytes."""
    cdef const int32_t* homes = rows.homes
    cdef const Piece* piece
    cdef const uint8_t* data
    cdef int64_t n = rows.count, total = load_int(offsets, n, width) * unit, at = 0, end, size, i
    for i in range(n):
        if i + AHEAD < n:
            prefetch(home_of(pieces, homes, i + AHEAD).data + starts[i + AHEAD] * unit)
        piece = home_of(pieces, homes, i)
        data = piece.data + starts[i] * unit
        end = load_int(offsets, i + 1, width) * unit
        size = end - at
        if size <= 16 and total - at >= 16 and (piece.limit - starts[i]) * unit >= 16:
            # As many bytes for all, without a guess at their number: the next elements overwrite those too many.
            (<loose_i64*> (out + at))[0] = load_i64(data)
            (<loose_i64*> (out + at))[1] = load_i64(data + 8)
        elif size:
            memcpy(out + at, data, size)
        at = end


cdef inline int check_views(uint8_t* out, int64_t* used, const Piece* pieces, const Rows* rows, int32_t f,
                            Fault* fault) noexcept nogil:
    """Views, empty ones where null, which point into their pieces still; `used`: at how many bytes there."""
    cdef const Piece* piece
    cdef const Extent* buffers
    cdef int64_t at, length, offset, i
    cdef int32_t index
    used[0] = 0
    for i in range(rows.count):
        piece = home_of(pieces, rows.homes, i)
        at = rows.numbers[i] + piece.shift
        if piece.bits != NULL and not get_bit(piece.bits, at):
            memset(out + 16 * i, 0, 16)
            continue
        # Only the copy is looked at: the memory of the piece may change meanwhile.
        memcpy(out + 16 * i, piece.values + 16 * at, 16)
        length = load_i32(out + 16 * i)
        if 0 <= length <= 12:
            continue
        if length < 0:
            return fail(fault, FAULT_VIEW, f, 1, at, length, 0, b"length")
        index = load_i32(out + 16 * i + 8)
        if not 0 <= index < piece.limit:
            return fail(fault, FAULT_VIEW, f, 1, at, index, piece.limit, b"buffer index")
        buffers = <const Extent*> piece.data
        offset = load_i32(out + 16 * i + 12)
        if not inside(offset, length, buffers[index].size):
            return fail(fault, FAULT_VIEW, f, 1, at, offset, buffers[index].size, b"offset")
        used[0] += length
    return 0


cdef inline const uint8_t* text_behind(const uint8_t* view, const Piece* piece) noexcept nogil:
    return (<const Extent*> piece.data)[load_i32(view + 8)].data + load_i32(view + 12)


cdef inline int64_t fitting_views(const uint8_t* views, int64_t first, int64_t last, int64_t* size) noexcept nogil:
    """How far one data buffer, whose offsets have 31 bits, can have the texts of views, and their size."""
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
                            const Piece* pieces, const Rows* rows) noexcept nogil:
    """Let the texts of some views, which `check_views` has made, lie one behind the other in data buffer `buffer`."""
    cdef int64_t at = 0, length, i
    for i in range(first, last):
        if i + AHEAD < last and load_i32(views + 16 * (i + AHEAD)) > 12:
            prefetch(text_behind(views + 16 * (i + AHEAD), home_of(pieces, rows.homes, i + AHEAD)))
        length = load_i32(views + 16 * i)
        if length > 12:
            memcpy(text + at, text_behind(views + 16 * i, home_of(pieces, rows.homes, i)), length)
            store_int(views, 4 * i + 2, 4, buffer)
            store_int(views, 4 * i + 3, 4, at)
            at += length


cdef inline void move_views(uint8_t* views, const Piece* pieces, const Rows* rows) noexcept nogil:
    """Let views point at the data buffers of their pieces, which lie one behind the other now."""
    cdef int64_t i
    for i in range(rows.count):
        if load_i32(views + 16 * i) > 12:
            store_int(views, 4 * i + 2, 4, load_i32(views + 16 * i + 8) + home_of(pieces, rows.homes, i).base)


cdef inline void spread_lists(int64_t* numbers, int32_t* homes, const int64_t* starts, const uint8_t* offsets,
                              int32_t width, int64_t size, const Rows* rows) noexcept nogil:
    """The elements of lists that begin at `starts`, each with the piece that it is in.

    Lists have as many as `offsets` say, which `gather_offsets` has made, or (NULL) `size` elements.
    """
    cdef int64_t at = 0, i, k
    for i in range(rows.count):
        if offsets != NULL:
            size = load_int(offsets, i + 1, width) - at
        for k in range(size):
            numbers[at + k] = starts[i] + k
            homes[at + k] = rows.homes[i]
        at += size
