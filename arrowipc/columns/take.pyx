"""Copies elements of columns in any order and number: rows beside payloads, and the values behind indices.

Rows are ranges that each field takes as one list, so its layout is looked at once and not once per row. Values of
flat columns are also taken one by one, into memory that is used again (`take_flat`). Nothing here trusts contents:
what has to be followed (offsets of lists and text, run ends) is checked, what is only copied is not.
"""

cimport cython
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint64_t
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
    add_overflows, bitmap_bytes, count_bits, get_bit, load_i32, load_i64, loose_i32, loose_i64, mul_overflows, set_bit,
)
from arrowipc.inline.plan cimport (
    LAYOUT_DENSE, LAYOUT_FIXED_LIST, LAYOUT_RUN_END, LAYOUT_SPARSE, ColumnsData, Extent, FieldPlan, Node,
)
from arrowipc.inline.room cimport Room, make_room

from arrowipc.errors import LimitError, UsageError

cdef enum:
    FAULT_TOO_MANY = 102    # beside the FaultCodes: more ranges than may be written

cdef enum:
    # What numbers are: how often rows come, which rows, or which counted from either end.
    COUNTS = 0
    ROWS = 1
    INDICES = 2

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


# -- rows, field by field ------------------------------------------------------------------------------------


@cython.final
cdef class Taker:
    """One copy of rows."""

    cdef const ColumnsData* s
    cdef ColumnsData* d
    cdef Plan plan
    cdef list kept          # memory of the copy
    cdef int64_t left       # bytes that may still be written

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


cdef int take_ranges(Columns out, Columns source, const TakeRange* ranges, int64_t n, int64_t* left) except -1:
    cdef Taker taker = Taker.__new__(Taker)
    cdef int32_t i, variadic = source.d.n_extents - source.plan.d.n_buffers
    cdef bint nulls
    out.allocate(source.plan, variadic)
    for i in range(source.plan.d.n_views):
        out.d.views[i] = source.d.views[i]
    if variadic:
        memcpy(out.d.extents + source.plan.d.n_buffers, source.d.extents + source.plan.d.n_buffers,
               variadic * sizeof(Extent))
    taker.s = &source.d
    taker.d = &out.d
    taker.plan = source.plan
    taker.kept = [source.owner]
    taker.left = left[0]
    if sum_rows(ranges, n, &out.d.length, &nulls) < 0:
        raise LimitError("the rows asked for are more than can be counted")
    try:
        for i in range(source.plan.d.n_columns):
            taker.range_(source.plan.d.columns[i], ranges, n, 0)
    finally:
        left[0] = taker.left
    out.dictionaries = source.dictionaries
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


cdef int64_t ranges_of_index(TakeRange* out, const loose_i64* index, int64_t n, int64_t rows,
                             int64_t first) noexcept nogil:
    """Row index[i] for each i, counted from the end if negative; -1: there is no such row, or it is before `first`."""
    cdef int64_t used = 0, i, row
    cdef TakeRange* last
    for i in range(n):
        row = index[i]
        if row < first or row >= rows:
            return -1
        if row < 0:
            row += rows
        last = out + used - 1
        if used and last.count == 1 and last.start == row:
            last.times += 1
        elif used and last.times == 1 and last.start + last.count == row:
            last.count += 1
        else:
            out[used] = TakeRange(row, 1, 1)
            used += 1
    return used


cdef RecordBatch taken_rows(RecordBatch source, Source numbers, int what, int64_t first, str name):
    """The rows of `source` that the numbers stand for: how often each comes, from row `first` on; or which ones."""
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int64_t left = INT64_MAX, n = numbers.size // 8, used
    cdef TakeRange* ranges = <TakeRange*> malloc(n * sizeof(TakeRange) + 1)
    if ranges == NULL:
        raise MemoryError()
    try:
        with nogil:
            if what == COUNTS:
                used = ranges_of_counts(ranges, <const loose_i64*> numbers.data, n, first)
            else:
                used = ranges_of_index(ranges, <const loose_i64*> numbers.data, n, source.d.length,
                                       0 if what == ROWS else -source.d.length)
        if used < 0:
            if what == COUNTS:
                raise UsageError(f"{name}: a count is negative")
            wrong = UsageError if what == ROWS else IndexError
            raise wrong(f"{name}: an index is not one of the {source.d.length} rows")
        take_ranges(out, source, ranges, used, &left)
    finally:
        free(ranges)
    return out


cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name):
    check_native(source, "repeating rows")
    return taken_rows(source, Source(integers(counts, name)), COUNTS, first, name)


cpdef RecordBatch take_rows(RecordBatch source, object indices, str name):
    """Return the rows of a batch at these indices; `name` is that of the function that errors speak of."""
    check_native(source, "repeating rows")
    return taken_rows(source, Source(integers(indices, name)), ROWS, 0, name)


def take_indices(RecordBatch source not None, indices):
    """See `RecordBatch.take`: as `take_rows`, with negative indices, which count from the end."""
    check_native(source, "taking rows")
    return taken_rows(source, Source(integers(indices, "take")), INDICES, 0, "take")


def take_across(list batches, indices):
    """Rows of batches of one schema that are counted through; a list of one batch, or of none.

    The rows of each batch are taken together, in the order of the batches, and brought into their own order at last.
    """
    import numpy as np

    from arrowipc.columns.builder import concat_batches

    rows = integers(indices, "take")
    starts = np.cumsum([0, *[len(batch) for batch in batches]])
    rows = np.where(rows < 0, rows + starts[-1], rows)
    if len(rows) and not (0 <= rows.min() and rows.max() < starts[-1]):
        raise IndexError(f"take: an index is not one of the {starts[-1]} rows")
    if len(batches) < 2:
        return [take_indices(batch, rows) for batch in batches]
    homes = np.searchsorted(starts, rows, "right") - 1
    order = np.argsort(homes, kind="stable")
    used, begins = np.unique(homes[order], return_index=True)
    parts = [take_indices(batches[home], rows[some] - starts[home])
             for home, some in zip(used.tolist(), np.split(order, begins[1:]))]
    taken = concat_batches(parts or [slice_batch(batches[0], 0, 0)])
    if (order[1:] > order[:-1]).all():
        return [taken]
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return [take_indices(taken, places)]
