"""Copies elements of columns in any order and number: rows beside payloads, and the values behind indices.

Rows are ranges that each field takes as one list, so its layout is looked at once and not once per row. Values of
flat columns are also taken one by one, into memory that is used again (`take_flat`). Nothing here trusts contents:
what has to be followed (offsets of lists and text, run ends) is checked, what is only copied is not.
"""

cimport cython
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns, Memory, Plan, Source
from arrowipc.columns.array cimport RecordBatch, slice_batch
from arrowipc.columns.builder cimport FAULT_FULL, raise_append_fault
from arrowipc.columns.elements cimport check_native
from arrowipc.inline.bits cimport SLACK, append_bits, append_ones, largest, load_int, store_bits, store_int
from arrowipc.inline.element cimport find_run, next_run, validity, word_span
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_OFFSET, FAULT_TYPE_CODE, FAULT_UNION_OFFSET, Fault, fail
from arrowipc.inline.layouts cimport (
    BUFFER_BITS, BUFFER_FIXED, BUFFER_OFFSETS, LAYOUTS, LayoutSpec, size_needed, width_of,
)
from arrowipc.inline.loads cimport (
    add_overflows, bitmap_bytes, count_bits, get_bit, load_i32, load_i64, loose_i32, loose_i64, mul_overflows, prefetch,
    set_bit,
)
from arrowipc.inline.plan cimport (
    LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VIEW,
    ColumnsData, Extent, FieldPlan, Node, PlanData,
)
from arrowipc.inline.room cimport Room, make_room
from arrowipc.metadata.schema_reader cimport same_shape

from arrowipc.columns.builder import concat_batches
from arrowipc.errors import LimitError, UsageError

cdef enum:
    FAULT_TOO_MANY = 102    # beside the FaultCodes: more ranges than may be written

cdef struct TakeRanges:
    # As many ranges as turn up.
    TakeRange* data
    int64_t count
    int64_t room
    int64_t rows            # that they stand for

cdef struct Runs:
    int64_t* ends
    int64_t room
    TakeRanges values         # one range per run


# -- ranges --------------------------------------------------------------------------------------------------


cdef int sum_rows(const TakeRange* ranges, int64_t n, int64_t* total, bint* nulls) noexcept nogil:
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


cdef void take_bits(uint8_t* out, const uint8_t* bits, int64_t base, const TakeRange* ranges, int64_t n) noexcept nogil:
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


cdef void take_words(uint8_t* out, const uint8_t* values, int64_t width, const TakeRange* ranges, int64_t n,
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


cdef int measure_spans(const uint8_t* offsets, int32_t f, int32_t width, int64_t limit, const TakeRange* ranges,
                       int64_t n,
                       int64_t* total, Fault* fault) noexcept nogil:
    """What lies between the offsets of all ranges, with its repetitions."""
    cdef int64_t k, first, last, size
    total[0] = 0
    for k in range(n):
        if ranges[k].start < 0:
            continue
        first = load_int(offsets, ranges[k].start, width)
        last = load_int(offsets, ranges[k].start + ranges[k].count, width)
        if first < 0 or first > last:
            return fail(fault, FAULT_OFFSET, f, 1, ranges[k].start, first, last, NULL)
        if last > limit:
            return fail(fault, FAULT_OFFSET, f, 1, ranges[k].start + ranges[k].count, last, limit, NULL)
        if mul_overflows(last - first, ranges[k].times, &size) or add_overflows(total[0], size, total):
            return fail(fault, FAULT_FULL, f, -1, -1, largest(8, True), largest(width, True), b"offsets")
    if total[0] > largest(width, True):
        return fail(fault, FAULT_FULL, f, -1, -1, total[0], largest(width, True), b"offsets")
    return 0


cdef void take_offsets(uint8_t* out, const uint8_t* offsets, int32_t width, const TakeRange* ranges,
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


cdef void take_data(uint8_t* out, const uint8_t* offsets, int32_t width, const uint8_t* data, const TakeRange* ranges,
                    int64_t n) noexcept nogil:
    """The text itself; `measure_spans` has looked at the offsets."""
    cdef int64_t k, first, size
    for k in range(n):
        if ranges[k].start < 0:
            continue
        first = load_int(offsets, ranges[k].start, width)
        size = load_int(offsets, ranges[k].start + ranges[k].count, width) - first
        if size and ranges[k].times:
            out = put_times(out, data + first, size, ranges[k].times)


cdef int64_t child_ranges(TakeRange* out, const uint8_t* offsets, int32_t width, const TakeRange* ranges,
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


cdef int add_range(TakeRanges* into, int64_t start, int64_t times, Fault* fault) noexcept nogil:
    """One more element, so often; it joins the range before where it follows that."""
    cdef TakeRange* last
    cdef void* moved
    into.rows += times
    if into.count and start >= 0 and times == 1:
        last = &into.data[into.count - 1]
        if last.times == 1 and last.start + last.count == start:
            last.count += 1
            return 0
    if into.count == into.room:
        moved = realloc(into.data, (2 * into.room + 64) * sizeof(TakeRange))
        if moved == NULL:
            return fail(fault, FAULT_MEMORY)
        into.data = <TakeRange*> moved
        into.room = 2 * into.room + 64
    into.data[into.count] = TakeRange(start, 1, times)
    into.count += 1
    return 0


cdef int take_members(TakeRanges* lists, uint8_t* out_codes, uint8_t* out_offsets, const ColumnsData* d, int32_t f,
                      const int64_t* lengths, int64_t base, const TakeRange* ranges, int64_t n, int64_t most,
                      Fault* fault) noexcept nogil:
    """Elements of a dense union, and per child those that they are: offsets must rise, so children are copied."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const int8_t* ordinals = d.plan.codes + 128 * field.codes
    cdef const int8_t* codes = <const int8_t*> d.extents[field.first_buffer].data
    cdef const uint8_t* offsets = d.extents[field.first_buffer + 1].data
    cdef int64_t row = 0, k, i, t, r, times, used = 0, offset
    cdef int32_t first_code = 0
    cdef int code, ordinal
    while first_code < 127 and ordinals[first_code] != 0:
        first_code += 1
    for k in range(n):
        times = ranges[k].times if ranges[k].count == 1 or ranges[k].start < 0 else 1
        for t in range(ranges[k].times // times if times else 0):
            for i in range(ranges[k].count):
                code = first_code if ranges[k].start < 0 else codes[base + ranges[k].start + i]
                ordinal = ordinals[code] if code >= 0 else -1
                if ordinal < 0:
                    return fail(fault, FAULT_TYPE_CODE, f, 0, ranges[k].start + i, code)
                offset = -1
                if ranges[k].start >= 0:
                    offset = load_int(offsets, base + ranges[k].start + i, 4)
                    if offset < 0 or offset >= lengths[ordinal]:
                        return fail(fault, FAULT_UNION_OFFSET, f, 1, ranges[k].start + i, offset, lengths[ordinal])
                if lists[ordinal].rows > INT32_MAX - times:
                    return fail(fault, FAULT_FULL, f, -1, -1, INT32_MAX, INT32_MAX, b"offsets")
                for r in range(times):
                    out_codes[row] = <uint8_t> code
                    store_int(out_offsets, row, 4, lists[ordinal].rows + r)
                    row += 1
                used += 1
                if used > most or add_range(&lists[ordinal], offset, times, fault) < 0:
                    return -1 if used <= most else fail(fault, FAULT_TOO_MANY)
    return 0


cdef int add_run(Runs* runs, int64_t end, int64_t run, Fault* fault) noexcept nogil:
    cdef void* moved
    if runs.values.rows == runs.room:
        moved = realloc(runs.ends, (2 * runs.room + 64) * sizeof(int64_t))
        if moved == NULL:
            return fail(fault, FAULT_MEMORY)
        runs.ends = <int64_t*> moved
        runs.room = 2 * runs.room + 64
    runs.ends[runs.values.rows] = end
    return add_range(&runs.values, run, 1, fault)


cdef int take_runs(Runs* runs, const ColumnsData* d, int32_t f, int64_t base, const TakeRange* ranges, int64_t n,
                   int64_t most, Fault* fault) noexcept nogil:
    """Runs of the elements taken, of which there may be `most`."""
    cdef int64_t k, t, at, stop, run, end = 0, written = 0
    for k in range(n):
        if ranges[k].count == 0 or ranges[k].times == 0:
            continue
        if ranges[k].start < 0:
            written += ranges[k].count * ranges[k].times
            if add_run(runs, written, -1, fault) < 0:
                return -1
            continue
        stop = base + ranges[k].start + ranges[k].count
        for t in range(1 if ranges[k].count == 1 else ranges[k].times):
            at = base + ranges[k].start
            run = find_run(d, f, at)
            while at < stop:
                if next_run(d, f, run, at, &end, fault) < 0:
                    return -1
                written += ranges[k].times if ranges[k].count == 1 else min(end, stop) - at
                if runs.values.rows >= most:
                    return fail(fault, FAULT_TOO_MANY)
                if add_run(runs, written, run, fault) < 0:
                    return -1
                at = end
                run += 1
    return 0


# -- values of a flat column ---------------------------------------------------------------------------------


cdef void flat_words(uint8_t* out, const uint8_t* values, int64_t width, const int64_t* numbers,
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


cdef void flat_bits(uint8_t* out, const uint8_t* bits, const int64_t* numbers, int64_t n) noexcept nogil:
    """Bits of the values taken, zeros where null; without `bits` all others are 1."""
    cdef int64_t i
    memset(out, 0, bitmap_bytes(n))
    for i in range(n):
        if numbers[i] >= 0 and (bits == NULL or get_bit(bits, numbers[i])):
            set_bit(out, i)


cdef int64_t flat_text(Room* text, uint8_t* offsets, int32_t width, const ColumnsData* values, const int64_t* numbers,
                       int64_t n, int64_t most, Fault* fault) noexcept nogil:
    """Text and its offsets, empty where null; returns the bytes of the text.

    Each value is looked at once: the memory of the values may change meanwhile.
    """
    cdef const uint8_t* data
    cdef uint8_t* out = make_room(text, 0)
    cdef int64_t end = 0, size = 0, i
    most = min(most, largest(width, True))
    store_int(offsets, 0, width, 0)
    for i in range(n):
        if numbers[i] >= 0:
            if word_span(values, 0, numbers[i], &data, &size, fault) < 0:
                return -1
            if size > most - end:
                # Unless `most` is small, only offsets that do not rise make that much text.
                return fail(fault, FAULT_OFFSET, 0, 1, numbers[i], size, most - end, NULL)
            if size > text.size - end:
                out = make_room(text, end + size)
                if out == NULL:
                    return fail(fault, FAULT_MEMORY)
            memcpy(out + end, data, size)
            end += size
        store_int(offsets, i + 1, width, end)
    return end


cdef inline void set_extent(Extent* extent, const uint8_t* data, int64_t size) noexcept nogil:
    extent.data = data if size else NULL
    extent.size = size


cdef int64_t take_flat(FlatMemory* memory, Extent* out, Node* node, const FieldPlan* field, const ColumnsData* values,
                       const int64_t* numbers, int64_t n, int64_t most, Fault* fault) noexcept nogil:
    cdef int64_t bits = bitmap_bytes(n), nulls = 0, size, text = 0, i
    cdef int kind = LAYOUTS[field.layout].buffers[1].kind
    cdef const uint8_t* words = NULL
    cdef uint8_t* to
    for i in range(n):
        nulls += numbers[i] < 0
    if not LAYOUTS[field.layout].has_validity:
        node[0] = Node(n, n, 0)
        return 0
    node[0] = Node(n, nulls, 0)
    # Whether there are nulls or not, as `take_ranges` counts it where the values have some.
    most -= bits
    size = size_needed(field, 1, n)
    set_extent(out, NULL, 0)
    if nulls:
        to = make_room(&memory.validity, bits)
        if to == NULL:
            return fail(fault, FAULT_MEMORY)
        flat_bits(to, NULL, numbers, n)
        set_extent(out, to, bits)
    to = make_room(&memory.values, size) if size <= most else NULL
    if to == NULL:
        return fail(fault, FAULT_MEMORY)
    set_extent(out + 1, to, size)
    if values != NULL:
        words = values.extents[values.plan.fields[0].first_buffer + 1].data
    if kind == BUFFER_BITS:
        flat_bits(to, words, numbers, n)
    elif kind == BUFFER_FIXED:
        flat_words(to, words, width_of(field, 1), numbers, n)
    else:
        text = flat_text(&memory.data, to, <int32_t> width_of(field, 1), values, numbers, n, most - size, fault)
        if text < 0:
            return -1
        set_extent(out + 2, memory.data.data, text)
    return size + text + (bits if nulls else 0)


cdef void free_flat(FlatMemory* memory) noexcept nogil:
    free(memory.validity.data)
    free(memory.values.data)
    free(memory.data.data)


# -- rows by their numbers -----------------------------------------------------------------------------------

cdef struct Piece:
    # A batch that rows are taken from, and where the field in work lies in it.
    const ColumnsData* d
    int64_t shift               # onto the number of a row: the physical element
    const uint8_t* bits         # validity; NULL: nothing is null
    const uint8_t* values       # or bits, or offsets
    const uint8_t* data         # what the offsets point into
    int64_t limit               # elements that it has

cdef enum:
    AHEAD = 16                  # rows whose text is asked for before it is copied

cdef struct Rows:
    # Rows that exist, counted through all pieces.
    const int64_t* numbers
    const int32_t* homes        # the piece that has each; NULL: there is one piece
    int64_t count


cdef inline const Piece* home_of(const Piece* pieces, const int32_t* homes, int64_t i) noexcept nogil:
    return pieces if homes == NULL else pieces + homes[i]


cdef bint gathers(const Piece* pieces, int64_t n, int32_t f) noexcept nogil:
    """Whether elements of a field are copied one by one: flat ones, lists of numbers without nulls, structs of both."""
    cdef const FieldPlan* field = &pieces.d.plan.fields[f]
    cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
    cdef int kind = spec.buffers[1].kind
    cdef bint is_list = spec.n_children == 1
    cdef const ColumnsData* d
    cdef int32_t child = f + 1
    cdef int64_t k
    if field.layout == LAYOUT_STRUCT:
        while child < field.end:
            if not gathers(pieces, n, child):
                return False
            child = pieces.d.plan.fields[child].end
        return True
    if (spec.n_children < 0 or spec.n_buffers == 0 or (field.layout == LAYOUT_VIEW and n > 1)
            or (is_list and (kind != BUFFER_OFFSETS or pieces.d.plan.fields[child].layout != LAYOUT_FIXED))):
        return False
    for k in range(n):
        d = pieces[k].d
        # An empty array may leave out its buffers.
        if (d.extents[field.first_buffer + 1].data == NULL
                or (is_list and validity(d, child) != NULL and d.nodes[child].null_count != 0)):
            return False
    return True


cdef void gather_words(uint8_t* out, int64_t width, const Piece* pieces, const Rows* rows) noexcept nogil:
    """Values of `width` bytes."""
    cdef const int64_t* numbers = rows.numbers
    cdef const int32_t* homes = rows.homes
    cdef const uint8_t* value
    cdef int64_t i
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


cdef void gather_bits(uint8_t* out, bint valid, const Piece* pieces, const Rows* rows) noexcept nogil:
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


cdef int64_t gather_offsets(uint8_t* out, int64_t* starts, int32_t width, const Piece* pieces, const Rows* rows,
                            int32_t f, Fault* fault) noexcept nogil:
    """Offsets of texts and lists that lie one behind the other now, and where each lay; returns the last one."""
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
            return fail(fault, FAULT_FULL, f, -1, -1, end, most, b"offsets")
        starts[i] = first
        end += last - first
        store_int(out, i + 1, width, end)
    return end


cdef void gather_data(uint8_t* out, int64_t unit, const uint8_t* offsets, const int64_t* starts, int32_t width,
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


cdef int find_homes(int32_t* homes, const int64_t* numbers, int64_t n, const int64_t* firsts, int64_t k) except -1:
    """Which of `k` pieces has each row; they begin at `firsts`, one more than there are pieces, and none is empty."""
    cdef int64_t total = firsts[k], i, b
    cdef int32_t shift = 0, low, high, middle
    cdef int32_t* known
    while total >> shift > 16 * k:
        shift += 1
    known = <int32_t*> malloc(((total >> shift) + 2) * sizeof(int32_t))     # the pieces of every 2**shift-th row
    if known == NULL:
        raise MemoryError()
    with nogil:
        low = 0
        for b in range((total >> shift) + 2):
            while low < k - 1 and firsts[low + 1] <= b << shift:
                low += 1
            known[b] = low
        for i in range(n):
            low = known[numbers[i] >> shift]
            high = known[(numbers[i] >> shift) + 1]
            while low < high:
                middle = low + (high - low + 1) // 2
                if firsts[middle] <= numbers[i]:
                    low = middle
                else:
                    high = middle - 1
            homes[i] = low
    free(known)
    return 0


# -- rows, field by field ------------------------------------------------------------------------------------


@cython.final
cdef class Taker:
    """One copy of rows."""

    cdef const ColumnsData* s
    cdef ColumnsData* d
    cdef Plan plan
    cdef list kept          # memory of the copy
    cdef int64_t left       # bytes that may still be written
    cdef Rows rows          # those of `gather`
    cdef Piece* pieces      # that have them
    cdef int64_t n_pieces
    cdef int64_t rows_there     # in all of them

    cdef uint8_t* room(self, int64_t elements, int64_t width) except NULL:
        """Memory for so many values, kept by the copy."""
        cdef int64_t size
        cdef Memory memory
        if mul_overflows(elements, width, &size) or size > self.left:
            raise LimitError("the rows asked for take more bytes than are allowed here; take fewer at a time")
        self.left -= size
        memory = Memory(size + SLACK)
        memory.size = size
        self.kept.append(memory)
        return memory.data

    cdef int put(self, int32_t buffer, const uint8_t* data, int64_t size) except -1:
        self.d.extents[buffer].data = data if size else NULL
        self.d.extents[buffer].size = size
        return 0

    cdef int fault(self, const Fault* fault) except -1:
        if fault.code == FAULT_TOO_MANY:
            raise LimitError("the rows asked for take more bytes than are allowed here; take fewer at a time")
        return raise_append_fault(fault, self.plan)

    cdef int share(self, int32_t f) except -1:
        """Everything below a field as it is."""
        cdef const FieldPlan* fields = self.s.plan.fields
        cdef int32_t end = fields[f].end, i, k
        for i in range(f + 1, end):
            self.d.nodes[i] = self.s.nodes[i]
            for k in range(fields[i].first_buffer, fields[i].first_buffer + fields[i].n_buffers):
                self.d.extents[k] = self.s.extents[k]
        return 0

    cdef int range_(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t base) except -1:
        """Field `f`, of which the ranges count from physical element node.offset + base."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef Node* node = &self.d.nodes[f]
        cdef int64_t at = self.s.nodes[f].offset + base
        cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
        cdef int32_t k
        cdef bint nulls
        cdef Fault fault
        if sum_rows(ranges, n, &node.length, &nulls) < 0:
            fail(&fault, FAULT_FULL, f, -1, -1, largest(8, True), largest(8, True), b"elements")
            self.fault(&fault)
        node.offset = 0
        node.null_count = 0
        if field.layout == LAYOUT_DENSE:
            return self.take_dense(f, ranges, n, at)
        if field.layout == LAYOUT_RUN_END:
            return self.take_run_ends(f, ranges, n, at)
        if spec.has_validity:
            self.take_validity(f, ranges, n, at, nulls)
        elif spec.n_buffers == 0:
            node.null_count = node.length
        for k in range(spec.has_validity, spec.n_buffers):
            if spec.buffers[k].kind == BUFFER_OFFSETS:
                return self.take_spans(f, <int32_t> width_of(field, k), ranges, n, at)
            if spec.buffers[k].kind == BUFFER_BITS:
                self.take_bools(f, ranges, n, at)
            else:
                self.take_fixed(f, k, width_of(field, k), ranges, n, at, node.length == n and not nulls)
        if field.layout == LAYOUT_SPARSE:
            self.set_null_codes(f, ranges, n)
        if field.layout == LAYOUT_FIXED_LIST:
            return self.take_fixed_list(f, ranges, n, at)
        # Structs and sparse unions; then list views, which may refer to any element of their child.
        return self.take_children(f, ranges, n, at) if spec.n_children < 0 else self.share(f)

    cdef int take_children(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        cdef int32_t child = f + 1
        while child < self.s.plan.fields[f].end:
            self.range_(child, ranges, n, at)
            child = self.s.plan.fields[child].end
        return 0

    cdef int take_validity(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at, bint nulls) except -1:
        cdef int32_t buffer = self.s.plan.fields[f].first_buffer
        cdef const uint8_t* bits = validity(self.s, f)
        cdef Node* node = &self.d.nodes[f]
        cdef uint8_t* out
        self.put(buffer, NULL, 0)
        if node.length == 0 or (not nulls and (bits == NULL or self.s.nodes[f].null_count == 0)):
            return 0
        out = self.room(bitmap_bytes(node.length), 1)
        with nogil:
            take_bits(out, bits, at, ranges, n)
            node.null_count = node.length - count_bits(out, 0, node.length)
        if node.null_count:
            self.put(buffer, out, bitmap_bytes(node.length))
        return 0

    cdef int take_bools(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        cdef int32_t buffer = self.s.plan.fields[f].first_buffer + 1
        cdef int64_t size = bitmap_bytes(self.d.nodes[f].length)
        cdef const uint8_t* bits = self.s.extents[buffer].data
        cdef uint8_t* out = self.room(size, 1)
        if size and bits != NULL:
            with nogil:
                take_bits(out, bits, at, ranges, n)
        elif size:
            memset(out, 0, size)
        return self.put(buffer, out, size)

    cdef int take_fixed(self, int32_t f, int32_t which, int64_t width, const TakeRange* ranges, int64_t n,
                        int64_t at, bint singles) except -1:
        cdef int32_t buffer = self.s.plan.fields[f].first_buffer + which
        cdef const uint8_t* values = self.s.extents[buffer].data
        cdef int64_t length = self.d.nodes[f].length
        cdef uint8_t* out = self.room(length, width)
        if width:
            if values != NULL:
                values += at * width
            with nogil:
                take_words(out, values, width, ranges, n, singles)
        return self.put(buffer, out, length * width)

    cdef int take_spans(self, int32_t f, int32_t width, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        """Text and binary, whose data is copied, and lists, whose child is."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef int32_t buffer = field.first_buffer + 1
        cdef const uint8_t* offsets = self.s.extents[buffer].data
        cdef bint is_list = LAYOUTS[field.layout].n_children == 1
        cdef int64_t total = 0, length = self.d.nodes[f].length
        cdef uint8_t* out
        cdef TakeRange* below
        cdef Memory memory
        cdef Fault fault
        cdef int found = 0
        out = self.room(length + 1, width)
        if offsets == NULL:
            # An empty array may leave out its one offset; then only nulls can be taken.
            memset(out, 0, (length + 1) * width)
        else:
            offsets += at * width
            with nogil:
                found = measure_spans(offsets, f, width,
                                      self.s.nodes[f + 1].length if is_list else self.s.extents[buffer + 1].size,
                                      ranges, n, &total, &fault)
                if found == 0:
                    take_offsets(out, offsets, width, ranges, n)
            if found < 0:
                self.fault(&fault)
        self.put(buffer, out, (length + 1) * width)
        if is_list:
            memory = Memory((n + 1) * sizeof(TakeRange))
            below = <TakeRange*> memory.data
            if offsets != NULL:
                with nogil:
                    n = child_ranges(below, offsets, width, ranges, n)
            return self.range_(f + 1, below, n if offsets != NULL else 0, 0)
        out = self.room(total, 1)
        if total:
            with nogil:
                take_data(out, offsets, width, self.s.extents[buffer + 1].data, ranges, n)
        return self.put(buffer + 1, out, total)

    cdef int take_fixed_list(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        cdef int64_t width = self.s.plan.fields[f].width, k, total
        cdef Memory memory = Memory((n + 1) * sizeof(TakeRange))
        cdef TakeRange* below = <TakeRange*> memory.data
        if mul_overflows(self.d.nodes[f].length, width, &total):
            raise LimitError("the rows asked for hold more elements than can be counted")
        for k in range(n):
            below[k].start = -1 if ranges[k].start < 0 else (at + ranges[k].start) * width
            below[k].count = ranges[k].count * width
            below[k].times = ranges[k].times
        return self.range_(f + 1, below, n, 0)

    cdef int set_null_codes(self, int32_t f, const TakeRange* ranges, int64_t n) except -1:
        """Make the nulls of a sparse union nulls of its first child."""
        cdef int8_t* ordinals = self.s.plan.codes + 128 * self.s.plan.fields[f].codes
        cdef int32_t code = 0
        cdef int64_t k, row = 0
        cdef uint8_t* out = <uint8_t*> self.d.extents[self.s.plan.fields[f].first_buffer].data
        while code < 127 and ordinals[code] != 0:
            code += 1
        for k in range(n):
            if ranges[k].start < 0:
                memset(out + row, code, ranges[k].count * ranges[k].times)
            row += ranges[k].count * ranges[k].times
        return 0

    cdef int take_dense(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef int32_t child = f + 1, k = 0
        cdef int64_t length = self.d.nodes[f].length
        cdef TakeRanges lists[128]
        cdef int64_t lengths[128]
        cdef uint8_t* codes = self.room(length, 1)
        cdef uint8_t* offsets = self.room(length, 4)
        cdef Fault fault
        cdef int found
        memset(lists, 0, sizeof(lists))
        while child < field.end:
            lengths[k] = self.s.nodes[child].length
            child = self.s.plan.fields[child].end
            k += 1
        try:
            with nogil:
                found = take_members(lists, codes, offsets, self.s, f, lengths, at, ranges, n,
                                     self.left // <int64_t> sizeof(TakeRange), &fault)
            if found < 0:
                self.fault(&fault)
            self.put(field.first_buffer, codes, length)
            self.put(field.first_buffer + 1, offsets, 4 * length)
            child = f + 1
            k = 0
            while child < field.end:
                self.range_(child, lists[k].data, lists[k].count, 0)
                child = self.s.plan.fields[child].end
                k += 1
        finally:
            for k in range(128):
                free(lists[k].data)
        return 0

    cdef int take_run_ends(self, int32_t f, const TakeRange* ranges, int64_t n, int64_t at) except -1:
        cdef int32_t values = self.s.plan.fields[f + 1].end, width = self.s.plan.fields[f + 1].width
        cdef int32_t buffer = self.s.plan.fields[f + 1].first_buffer
        cdef int64_t length = self.d.nodes[f].length, k
        cdef uint8_t* out
        cdef Runs runs
        cdef Fault fault
        cdef int found
        memset(&runs, 0, sizeof(Runs))
        try:
            with nogil:
                found = take_runs(&runs, self.s, f, at, ranges, n, self.left // <int64_t> sizeof(TakeRange), &fault)
            if found == 0 and length > largest(width, True):
                found = fail(&fault, FAULT_FULL, f, -1, -1, length, largest(width, True), b"run ends")
            if found < 0:
                self.fault(&fault)
            out = self.room(runs.values.rows, width)
            for k in range(runs.values.rows):
                store_int(out, k, width, runs.ends[k])
            self.d.nodes[f + 1] = Node(runs.values.rows, 0, 0)
            self.put(buffer, NULL, 0)
            self.put(buffer + 1, out, runs.values.rows * width)
            self.range_(values, runs.values.data, runs.values.count, 0)
        finally:
            free(runs.ends)
            free(runs.values.data)
        return 0

    # Rows by their numbers.

    cdef bint enter(self, int32_t f) noexcept:
        """Let the pieces be those of a field below the field that they were of; whether some elements are null."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
        cdef const Extent* extents
        cdef Piece* piece
        cdef bint nulls = False
        cdef int64_t k
        for k in range(self.n_pieces):
            piece = &self.pieces[k]
            extents = &piece.d.extents[field.first_buffer]
            piece.shift += piece.d.nodes[f].offset
            piece.bits = extents[0].data if piece.d.nodes[f].null_count != 0 else NULL
            nulls |= piece.bits != NULL
            if spec.n_buffers > 1:
                piece.values = extents[1].data
            if spec.n_children == 1:
                piece.limit = piece.d.nodes[f + 1].length
                piece.data = piece.d.extents[self.s.plan.fields[f + 1].first_buffer + 1].data
                if piece.data != NULL:
                    piece.data += piece.d.nodes[f + 1].offset * self.s.plan.fields[f + 1].width
            elif spec.n_buffers == 3:
                piece.limit = extents[2].size
                piece.data = extents[2].data
        return nulls

    cdef int gather(self, int32_t f) except -1:
        """Field `f`, of which `gathers` says that elements can be copied one by one."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef int32_t buffer = field.first_buffer, child = f + 1
        cdef int64_t n = self.rows.count, k
        cdef int kind = LAYOUTS[field.layout].buffers[1].kind
        cdef Node* node = &self.d.nodes[f]
        cdef bint nulls = self.enter(f)
        cdef uint8_t* out
        node[0] = Node(n, 0, 0)
        self.put(buffer, NULL, 0)
        if nulls and n:
            out = self.room(bitmap_bytes(n), 1)
            with nogil:
                gather_bits(out, True, self.pieces, &self.rows)
                node.null_count = n - count_bits(out, 0, n)
            if node.null_count:
                self.put(buffer, out, bitmap_bytes(n))
        if kind == BUFFER_BITS:
            out = self.room(bitmap_bytes(n), 1)
            with nogil:
                gather_bits(out, False, self.pieces, &self.rows)
            self.put(buffer + 1, out, bitmap_bytes(n))
        elif kind == BUFFER_FIXED:
            self.gather_fixed(buffer + 1, width_of(field, 1))
        elif kind == BUFFER_OFFSETS:
            self.gather_spans(f, <int32_t> width_of(field, 1))
        else:
            while child < field.end:
                self.gather(child)
                child = self.s.plan.fields[child].end
        for k in range(self.n_pieces):
            self.pieces[k].shift -= self.pieces[k].d.nodes[f].offset
        return 0

    cdef int gather_fixed(self, int32_t buffer, int64_t width) except -1:
        cdef uint8_t* out = self.room(self.rows.count, width)
        cdef int64_t k, row = 0
        cdef const Piece* piece
        cdef Memory whole
        if self.n_pieces > 1 and self.rows_there <= self.rows.count:
            # Values that lie in one piece are found faster, by more than it takes to put them there.
            whole = Memory(self.rows_there * width)
            with nogil:
                for k in range(self.n_pieces if width else 0):
                    piece = &self.pieces[k]
                    memcpy(whole.data + row * width, piece.values + (row + piece.shift) * width,
                           piece.d.length * width)
                    row += piece.d.length
                flat_words(out, whole.data, width, self.rows.numbers, self.rows.count)
        else:
            with nogil:
                gather_words(out, width, self.pieces, &self.rows)
        return self.put(buffer, out, self.rows.count * width)

    cdef int gather_spans(self, int32_t f, int32_t width) except -1:
        """Text and binary, and lists of numbers, which lie as their bytes do."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef const FieldPlan* child = &self.s.plan.fields[f + 1]
        cdef bint is_list = LAYOUTS[field.layout].n_children == 1
        cdef int64_t unit = child.width if is_list else 1, total
        cdef uint8_t* offsets = self.room(self.rows.count + 1, width)
        cdef uint8_t* out
        cdef Memory starts = Memory(self.rows.count * 8)
        cdef Fault fault
        with nogil:
            total = gather_offsets(offsets, <int64_t*> starts.data, width, self.pieces, &self.rows, f, &fault)
        if total < 0:
            self.fault(&fault)
        self.put(field.first_buffer + 1, offsets, (self.rows.count + 1) * width)
        out = self.room(total, unit)
        with nogil:
            gather_data(out, unit, offsets, <const int64_t*> starts.data, width, self.pieces, &self.rows)
        if not is_list:
            return self.put(field.first_buffer + 2, out, total)
        self.d.nodes[f + 1] = Node(total, 0, 0)
        self.put(child.first_buffer, NULL, 0)
        return self.put(child.first_buffer + 1, out, total * unit)


cdef Taker new_taker(Columns out, Columns source, int64_t left):
    """What copies rows of `source` to `out`, which is new; data of views and dictionaries are shared."""
    cdef Taker taker = Taker.__new__(Taker)
    cdef int32_t i, variadic = source.d.n_extents - source.plan.d.n_buffers
    out.allocate(source.plan, variadic)
    for i in range(source.plan.d.n_views):
        out.d.views[i] = source.d.views[i]
    if variadic:
        memcpy(out.d.extents + source.plan.d.n_buffers, source.d.extents + source.plan.d.n_buffers,
               variadic * sizeof(Extent))
    out.dictionaries = source.dictionaries
    taker.s = &source.d
    taker.d = &out.d
    taker.plan = source.plan
    taker.kept = [source.owner]
    taker.left = left
    return taker


cdef int take_ranges(Columns out, Columns source, const TakeRange* ranges, int64_t n, int64_t* left) except -1:
    cdef Taker taker = new_taker(out, source, left[0])
    cdef int32_t i
    cdef bint nulls
    if sum_rows(ranges, n, &out.d.length, &nulls) < 0:
        raise LimitError("the rows asked for are more than can be counted")
    try:
        for i in range(source.plan.d.n_columns):
            taker.range_(source.plan.d.columns[i], ranges, n, 0)
    finally:
        left[0] = taker.left
    out.owner = tuple(taker.kept)
    return 0


# -- rows ----------------------------------------------------------------------------------------------------


cdef object integers(object values, str name):
    """One dimension of int64, as a NumPy array."""
    import numpy as np

    found = np.asarray(values)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"{name}: expected integers in one dimension, without nulls, found {found.dtype} in "
                         f"{found.ndim}")
    if found.dtype.itemsize == 8 and found.dtype.kind == "u" and found.max() > INT64_MAX:
        raise UsageError(f"{name}: {found.max()} is more than there can be rows")
    return np.ascontiguousarray(found, dtype=np.int64)


cdef int64_t ranges_of_counts(TakeRange* out, const loose_i64* counts, int64_t n, int64_t first) noexcept nogil:
    """Row first + i counts[i] times; -1: a negative count."""
    cdef int64_t used = 0, i
    for i in range(n):
        if counts[i] < 0:
            return -1
        if counts[i]:
            out[used] = TakeRange(first + i, 1, counts[i])
            used += 1
    return used


cdef int64_t ranges_of_numbers(TakeRange* out, const int64_t* numbers, int64_t n) noexcept nogil:
    """Each row, together with the next ones where those follow or repeat it."""
    cdef int64_t used = 0, i, row
    cdef TakeRange* last
    for i in range(n):
        row = numbers[i]
        last = out + used - 1
        if used and last.count == 1 and last.start == row:
            last.times += 1
        elif used and last.times == 1 and last.start + last.count == row:
            last.count += 1
        else:
            out[used] = TakeRange(row, 1, 1)
            used += 1
    return used


cdef int64_t check_index(int64_t* out, const loose_i64* index, int64_t n, int64_t rows, int64_t first) noexcept nogil:
    """Row index[i] for each i, counted from the end if negative; -1: there is no such row, or it is before `first`.

    Returns how many follow, or repeat, the row before them.
    """
    cdef int64_t near = 0, last = -2, row, i
    for i in range(n):
        row = index[i]
        if row < first or row >= rows:
            return -1
        row += rows if row < 0 else 0
        near += 0 <= row - last <= 1
        out[i] = last = row
    return near


cdef RecordBatch take_numbers(list batches, object indices, bint negative, object wrong, str name):
    """The rows of batches of one shape, counted through; None: not all columns of several can be gathered.

    One batch, or several that are not empty.
    """
    cdef Source index = Source(integers(indices, name))
    cdef int64_t n = index.size // 8, k = len(batches), total = 0, near, n_ranges = -1, i
    cdef Memory numbers = Memory(n * 8), pieces = Memory(k * sizeof(Piece)), firsts = Memory((k + 1) * 8)
    cdef Memory homes = None, ranges = None
    cdef RecordBatch batch, source = batches[0], out = RecordBatch.__new__(RecordBatch)
    cdef Piece* piece = <Piece*> pieces.data
    cdef int64_t* rows = <int64_t*> numbers.data
    cdef const PlanData* plan = &source.plan.d
    cdef Taker taker
    for i in range(k):
        batch = batches[i]
        check_native(batch, "taking rows")
        if batch.plan is not source.plan and not same_shape(batch.plan, source.plan):
            return None
        if source.plan.dictionaries and not all([a is b for a, b in zip(batch.dictionaries, source.dictionaries)]):
            return None
        piece[i].d = &batch.d
        piece[i].shift = -total
        (<int64_t*> firsts.data)[i] = total
        total += batch.d.length
    (<int64_t*> firsts.data)[k] = total
    for i in range(plan.n_columns if k > 1 else 0):
        if not gathers(piece, k, plan.columns[i]):
            return None
    with nogil:
        near = check_index(rows, <const loose_i64*> index.data, n, total, -total if negative else 0)
    if near < 0:
        raise wrong(f"{name}: an index is not one of the {total} rows")
    taker = new_taker(out, source, INT64_MAX)
    taker.pieces = piece
    taker.n_pieces = k
    taker.rows_there = total
    taker.rows = Rows(rows, NULL, n)
    out.d.length = n
    if k > 1:
        homes = Memory(n * 4)
        find_homes(<int32_t*> homes.data, rows, n, <const int64_t*> firsts.data, k)
        taker.rows.homes = <const int32_t*> homes.data
        taker.kept = []
    for i in range(plan.n_columns):
        # Rows that follow each other are copied together.
        if k > 1 or (2 * near <= n and gathers(piece, k, plan.columns[i])):
            taker.gather(plan.columns[i])
            continue
        if ranges is None:
            ranges = Memory(n * sizeof(TakeRange))
            with nogil:
                n_ranges = ranges_of_numbers(<TakeRange*> ranges.data, rows, n)
        taker.range_(plan.columns[i], <const TakeRange*> ranges.data, n_ranges, 0)
    out.owner = tuple(taker.kept)
    return out


cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name):
    cdef Source numbers
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int64_t left = INT64_MAX, n, used
    cdef Memory ranges
    check_native(source, "repeating rows")
    numbers = Source(integers(counts, name))
    n = numbers.size // 8
    ranges = Memory(n * sizeof(TakeRange))
    with nogil:
        used = ranges_of_counts(<TakeRange*> ranges.data, <const loose_i64*> numbers.data, n, first)
    if used < 0:
        raise UsageError(f"{name}: a count is negative")
    take_ranges(out, source, <const TakeRange*> ranges.data, used, &left)
    return out


cpdef RecordBatch take_rows(RecordBatch source, object indices, str name):
    """Return the rows of a batch at these indices; `name` is that of the function that errors speak of."""
    return take_numbers([source], indices, False, UsageError, name)


def take_indices(RecordBatch source not None, indices):
    """See `RecordBatch.take`: as `take_rows`, with negative indices, which count from the end."""
    return take_numbers([source], indices, True, IndexError, "take")


def take_across(list batches, indices):
    """Rows of batches of one schema that are counted through; a list of one batch, or of none."""
    filled = [batch for batch in batches if len(batch)] or batches[:1]
    rows = integers(indices, "take")
    if not filled:
        if len(rows):
            raise IndexError("take: an index is not one of the 0 rows")
        return []
    found = take_numbers(filled, rows, True, IndexError, "take")
    return [take_apart(filled, rows) if found is None else found]


def take_apart(list batches, rows):
    """The same for several batches of any layout.

    The rows of each batch are taken together, in the order of the batches, and brought into their own order at last.
    """
    import numpy as np

    starts = np.cumsum([0, *[len(batch) for batch in batches]])
    total = starts[len(batches)]
    rows = np.where(rows < 0, rows + total, rows)
    if len(rows) and not (0 <= rows.min() and rows.max() < total):
        raise IndexError(f"take: an index is not one of the {total} rows")
    homes = np.searchsorted(starts, rows, "right") - 1
    order = np.argsort(homes, kind="stable")
    used, begins = np.unique(homes[order], return_index=True)
    parts = [take_indices(batches[home], rows[some] - starts[home])
             for home, some in zip(used.tolist(), np.split(order, begins[1:]))]
    taken = concat_batches(parts or [slice_batch(batches[0], 0, 0)])
    if (order[1:] > order[:len(order) - 1]).all():
        return taken
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return take_indices(taken, places)
