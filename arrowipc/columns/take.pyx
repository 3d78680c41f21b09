"""Copies elements of columns in any order and number: rows beside payloads, and the values behind indices.

Rows are ranges that each field takes as one list, so its layout is looked at once and not once per row. Values of
flat columns are also taken one by one, into memory that is used again (`take_flat`). Nothing here trusts contents:
what has to be followed (offsets of lists and text, run ends) is checked, what is only copied is not.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from cpython.number cimport PyNumber_Index
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns, Memory, Plan, Source, field_name, window
from arrowipc.columns.array cimport RecordBatch, slice_batch
from arrowipc.columns.builder cimport FAULT_FULL, SnapshotOwner, begins_with, concat_into, raise_append_fault
from arrowipc.columns.elements cimport (
    AS_BACKED, Quota, check_native, pause_collector, quota, read_values, resume_collector,
)
from arrowipc.inline.bits cimport SLACK, largest, load_int, store_int
from arrowipc.inline.element cimport find_run, next_run, validity
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_OFFSET, FAULT_TYPE_CODE, FAULT_UNION_OFFSET, Fault, fail
from arrowipc.inline.gather cimport (
    AHEAD, Homes, Piece, Rows, check_views, copy_texts, find_homes, fitting_views, flat_words, gather_bits, gather_data,
    gather_offsets, gather_words, home_of, move_views, spread_lists,
)
from arrowipc.inline.layouts cimport (
    BUFFER_BITS, BUFFER_FIXED, BUFFER_OFFSETS, LAYOUTS, LayoutSpec, is_list_view, width_of,
)
from arrowipc.inline.loads cimport (
    add_overflows, bitmap_bytes, count_bits, loose_i64, mul_overflows, prefetch, round_up,
)
from arrowipc.inline.plan cimport (
    LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT,
    LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node, PlanData, ViewRange, copy_tables,
)
from arrowipc.inline.ranges cimport (
    TakeRange, child_ranges, sum_rows, take_bits, take_data, take_offsets, take_words,
)
from arrowipc.inline.room cimport Room, make_room
from arrowipc.metadata.schema_reader cimport own_metadata, same_shape

from arrowipc.columns.builder import concat_batches
from arrowipc.columns.array import clip
from arrowipc.errors import FormatError, LimitError, NotFoundError, UsageError

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    PyObject** PySequence_Fast_ITEMS(object)
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

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


# -- rows by number -----------------------------------------------------------------------------------

cdef enum:
    MOST_ELEMENTS = 1 << 24     # of lists in work, which take 12 bytes each
    SMALL = 1 << 12             # bytes of a buffer that shares its block with others


cdef bint gathers(const ColumnsData* d, int32_t f, bint several) noexcept nogil:
    """Whether elements of a field are copied one by one: not those of unions, list views and run-end encoded fields.

    Out of one piece neither those of lists of anything but numbers without nulls: ranges copy several at a time.
    """
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
    cdef int32_t child = f + 1
    if is_list_view(field.layout) or field.layout == LAYOUT_RUN_END or (
            spec.n_children < 0 and field.layout != LAYOUT_STRUCT):
        return False
    if not several and spec.n_buffers > 1 and d.extents[field.first_buffer + 1].data == NULL:
        # An empty array may leave out its buffers.
        return False
    if not several and spec.n_children == 1 and (
            d.plan.fields[child].layout != LAYOUT_FIXED
            or (validity(d, child) != NULL and d.nodes[child].null_count != 0)):
        return False
    while child < field.end:
        if not gathers(d, child, several):
            return False
        child = d.plan.fields[child].end
    return True


cdef int open_homes(Homes* homes, int64_t* firsts, int64_t count, Memory known) except -1:
    """Make the table for batches that begin at `firsts`, one more than there are batches, in `known`."""
    cdef int64_t b
    cdef int32_t low = 0
    homes[0] = Homes(firsts, count, NULL, 0)
    while firsts[count] >> homes.shift > 4 * count:
        homes.shift += 1
    known.reserve(((firsts[count] >> homes.shift) + 2) * sizeof(int32_t))
    homes.known = <int32_t*> known.data
    with nogil:
        for b in range((firsts[count] >> homes.shift) + 2):
            while low < count - 1 and firsts[low + 1] <= b << homes.shift:
                low += 1
            homes.known[b] = low
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
    cdef bint compacts      # data buffers of views are copied; else they are shared
    cdef bint gave_up       # what cannot be gathered turned up
    cdef bint flat          # the lists in work are of numbers without nulls
    cdef int64_t elements   # of lists in work
    cdef Room pool          # Extents of the data buffers that views point at
    cdef int32_t n_pool
    cdef uint8_t* block     # where the next small buffers go
    cdef int64_t block_left
    cdef int64_t block_size

    def __dealloc__(self):
        free(self.pool.data)

    cdef uint8_t* room(self, int64_t elements, int64_t width) except NULL:
        """Memory for so many values, kept by the copy; small buffers share a block."""
        cdef int64_t size, whole
        cdef uint8_t* out
        cdef Memory memory
        if mul_overflows(elements, width, &size) or size > self.left:
            raise LimitError("the rows asked for take more bytes than are allowed here; take fewer at a time")
        self.left -= size
        if size > SMALL:
            memory = Memory(size + SLACK)
            memory.size = size
            self.kept.append(memory)
            return memory.data
        whole = round_up(size + SLACK, 64)
        if whole > self.block_left:
            self.block_size = max(min(2 * self.block_size, <int64_t> 4 * SMALL), whole)
            memory = Memory(self.block_size)
            self.kept.append(memory)
            self.block = memory.data
            self.block_left = self.block_size
        out = self.block
        self.block += whole
        self.block_left -= whole
        return out

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
        cdef const FieldPlan* child = field + 1
        cdef const Extent* extents
        cdef Piece* piece
        cdef bint nulls = False, numbers = spec.n_children == 1 and child.layout == LAYOUT_FIXED
        cdef int64_t k
        self.flat = numbers
        for k in range(self.n_pieces):
            piece = &self.pieces[k]
            if k + AHEAD < self.n_pieces:
                prefetch(piece[AHEAD].nodes + f)
                prefetch(piece[AHEAD].extents + field.first_buffer)
            extents = &piece.extents[field.first_buffer]
            piece.shift = piece.nodes[f].offset + (piece.shift if field.parent >= 0 else -piece.first)
            piece.bits = extents[0].data if piece.nodes[f].null_count != 0 else NULL
            nulls |= piece.bits != NULL
            if spec.n_buffers > 1:
                piece.values = extents[1].data
                # No row of an empty piece is taken; any other that lacks values is not gathered.
                self.gave_up |= piece.values == NULL and piece.nodes[f].length != 0
            if spec.n_children == 1:
                piece.limit = piece.nodes[f + 1].length
            if numbers:
                piece.data = piece.extents[child.first_buffer + 1].data
                if piece.data != NULL:
                    piece.data += piece.nodes[f + 1].offset * child.width
                self.flat &= piece.extents[child.first_buffer].data == NULL or piece.nodes[f + 1].null_count == 0
            elif spec.n_buffers == 3:
                piece.limit = extents[2].size
                piece.data = extents[2].data
            elif field.view >= 0:
                piece.limit = piece.d.views[field.view].count
                piece.data = <const uint8_t*> (piece.extents + piece.d.views[field.view].first)
        return nulls

    cdef int gather(self, int32_t f) except -1:
        """Field `f`, of which `gathers` says that elements can be copied one by one."""
        cdef const FieldPlan* field = &self.s.plan.fields[f]
        cdef int32_t buffer = field.first_buffer, child = f + 1
        cdef int64_t n = self.rows.count, k
        cdef int kind = LAYOUTS[field.layout].buffers[1].kind
        cdef Node* node = &self.d.nodes[f]
        cdef bint nulls
        cdef uint8_t* out
        node[0] = Node(n, 0, 0)
        if field.layout == LAYOUT_NULL:
            node.null_count = n
            return 0
        nulls = self.enter(f)
        if self.gave_up:
            return 0
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
        elif field.layout == LAYOUT_VIEW:
            self.gather_views(f)
        elif kind == BUFFER_FIXED:
            self.gather_fixed(buffer + 1, width_of(field, 1))
        elif kind == BUFFER_OFFSETS:
            self.gather_spans(f, <int32_t> width_of(field, 1))
        elif field.layout == LAYOUT_FIXED_LIST:
            self.gather_fixed_list(f)
        else:
            while child < field.end:
                self.gather(child)
                child = self.s.plan.fields[child].end
        for k in range(self.n_pieces if field.parent >= 0 else 0):
            self.pieces[k].shift -= self.pieces[k].nodes[f].offset
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
        """Text and binary, and lists, of which those of numbers lie as their bytes do."""
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
        if total == -2:
            fail(&fault, FAULT_FULL, f, -1, -1, largest(width, True), largest(width, True), b"offsets")
        if total < 0:
            self.fault(&fault)
        self.put(field.first_buffer + 1, offsets, (self.rows.count + 1) * width)
        if is_list and not self.flat:
            return self.gather_elements(f, <const int64_t*> starts.data, offsets, width, total)
        out = self.room(total, unit)
        with nogil:
            gather_data(out, unit, offsets, <const int64_t*> starts.data, width, self.pieces, &self.rows)
        if not is_list:
            return self.put(field.first_buffer + 2, out, total)
        self.d.nodes[f + 1] = Node(total, 0, 0)
        self.put(child.first_buffer, NULL, 0)
        return self.put(child.first_buffer + 1, out, total * unit)

    cdef int gather_fixed_list(self, int32_t f) except -1:
        """Lists of one size; those of numbers are values of one width."""
        cdef const FieldPlan* child = &self.s.plan.fields[f + 1]
        cdef int64_t size = self.s.plan.fields[f].width, total, k
        cdef Memory memory
        cdef int64_t* starts
        if mul_overflows(self.rows.count, size, &total):
            raise LimitError("the rows asked for hold more elements than can be counted")
        if self.flat:
            for k in range(self.n_pieces):
                self.pieces[k].values = self.pieces[k].data
            self.d.nodes[f + 1] = Node(total, 0, 0)
            self.put(child.first_buffer, NULL, 0)
            return self.gather_fixed(child.first_buffer + 1, size * child.width)
        memory = Memory(self.rows.count * 8)
        starts = <int64_t*> memory.data
        for k in range(self.rows.count):
            starts[k] = (self.rows.numbers[k] + home_of(self.pieces, self.rows.homes, k).shift) * size
        return self.gather_elements(f, starts, NULL, 0, total)

    cdef int gather_elements(self, int32_t f, const int64_t* starts, const uint8_t* offsets, int32_t width,
                             int64_t total) except -1:
        """What lists of several pieces hold, as rows of their child; arguments are those of `spread_lists`."""
        cdef Rows rows = self.rows
        cdef int64_t rows_there = self.rows_there, size = self.s.plan.fields[f].width, k
        cdef Memory numbers, homes, shifts
        if total > MOST_ELEMENTS - self.elements:
            self.gave_up = True
            return 0
        numbers, homes, shifts = Memory(total * 8), Memory(total * 4), Memory(self.n_pieces * 8)
        with nogil:
            spread_lists(<int64_t*> numbers.data, <int32_t*> homes.data, starts, offsets, width, size, &rows)
        for k in range(self.n_pieces):
            (<int64_t*> shifts.data)[k] = self.pieces[k].shift
            self.pieces[k].shift = 0
        self.rows = Rows(<const int64_t*> numbers.data, <const int32_t*> homes.data, total)
        self.rows_there = INT64_MAX
        self.elements += total
        self.gather(f + 1)
        self.elements -= total
        self.rows = rows
        self.rows_there = rows_there
        for k in range(self.n_pieces):
            self.pieces[k].shift = (<int64_t*> shifts.data)[k]
        return 0

    cdef int gather_views(self, int32_t f) except -1:
        """Views and their texts, or all data buffers where these are less."""
        cdef int32_t buffer = self.s.plan.fields[f].first_buffer + 1
        cdef ViewRange* made = &self.d.views[self.s.plan.fields[f].view]
        cdef int64_t n = self.rows.count, used, there = 0, k, i
        cdef const Extent* extents
        cdef uint8_t* views
        cdef uint8_t* text
        cdef Fault fault
        cdef int found
        if not self.compacts:
            return self.gather_fixed(buffer, 16)
        views = self.room(n, 16)
        with nogil:
            found = check_views(views, &used, self.pieces, &self.rows, f, &fault)
        if found < 0:
            self.fault(&fault)
        self.put(buffer, views, 16 * n)
        made[0] = ViewRange(self.n_pool, 0)
        for k in range(self.n_pieces):
            extents = <const Extent*> self.pieces[k].data
            for i in range(self.pieces[k].limit):
                there += extents[i].size
        # Views may share bytes: what is copied is never more than there is.
        if used <= there >> (self.n_pieces == 1):
            self.own_texts(views)
        else:
            for k in range(self.n_pieces):
                extents = <const Extent*> self.pieces[k].data
                self.pieces[k].base = self.n_pool - made.first
                for i in range(self.pieces[k].limit):
                    text = self.room(extents[i].size, 1)
                    with nogil:
                        memcpy(text, extents[i].data, extents[i].size)
                    self.add_pool(Extent(text, extents[i].size))
            with nogil:
                move_views(views, self.pieces, &self.rows)
        made.count = self.n_pool - made.first
        return 0

    cdef int own_texts(self, uint8_t* views) except -1:
        cdef int32_t first = self.n_pool
        cdef int64_t done = 0, end, size
        cdef uint8_t* text
        while done < self.rows.count:
            end = fitting_views(views, done, self.rows.count, &size)
            if size:
                text = self.room(size, 1)
                with nogil:
                    copy_texts(text, views, done, end, self.n_pool - first, self.pieces, &self.rows)
                self.add_pool(Extent(text, size))
            done = end
        return 0

    cdef int add_pool(self, Extent extent) except -1:
        if self.n_pool >= INT32_MAX >> 1:
            raise LimitError("the rows asked for lie in more data buffers than can be counted; take fewer at a time")
        if make_room(&self.pool, (self.n_pool + 1) * <int64_t> sizeof(Extent)) == NULL:
            raise MemoryError()
        (<Extent*> self.pool.data)[self.n_pool] = extent
        self.n_pool += 1
        return 0

    cdef int place_pool(self, Columns out) except -1:
        """Put the data buffers of views behind the other buffers of `out`, in tables that have room for them."""
        cdef Columns wide = Columns.__new__(Columns)
        cdef int32_t i, n_buffers = out.plan.d.n_buffers
        wide.allocate(out.plan, self.n_pool)
        copy_tables(&wide.d, &out.d)
        wide.d.length = out.d.length
        memcpy(wide.d.extents + n_buffers, self.pool.data, self.n_pool * sizeof(Extent))
        for i in range(out.plan.d.n_views):
            wide.d.views[i].first += n_buffers
        out.d, wide.d = wide.d, out.d
        return 0


cdef Taker new_taker(Columns out, Columns source, int64_t left, bint compacts=False):
    """What copies rows of `source` to `out`, which is new; dictionaries are shared, and more unless it `compacts`."""
    cdef Taker taker = Taker.__new__(Taker)
    cdef int32_t i, variadic = 0 if compacts else source.d.n_extents - source.plan.d.n_buffers
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
    taker.kept = [] if compacts else [source.owner]
    taker.left = left
    taker.compacts = compacts
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


cdef object numpy_or_none():
    """NumPy where it is installed."""
    try:
        import numpy
    except ModuleNotFoundError:
        return None
    return numpy


cdef Source integers(object values, str name):
    """One dimension of int64; NumPy, where it is installed, is asked about what is no list of ints."""
    cdef Memory numbers
    cdef Py_ssize_t n, i
    cdef int overflow = 0
    if type(values) is Memory or (type(values) is memoryview and values.format in "ql" and values.itemsize == 8
                                  and values.ndim == 1 and values.c_contiguous):
        return Source(values)
    np = None if type(values) is list else numpy_or_none()
    if np is None:
        values = values if type(values) is list else list(values)
        n = len(values)
        numbers = Memory(8 * n)
        numbers.size = 8 * n
        for i in range(n):
            item = <object> PyList_GET_ITEM(values, i)
            if not PyLong_CheckExact(item):
                break
            (<int64_t*> numbers.data)[i] = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow:
                break
        else:
            return Source(numbers)
        np = numpy_or_none()
        if np is None:
            raise UsageError(f"{name}: expected integers of 64 bits, found {item!r}")
    found = np.arange(values.start, values.stop, values.step) if type(values) is range else np.asarray(values)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"{name}: expected integers in one dimension, without nulls, found {found.dtype} in "
                         f"{found.ndim}")
    if found.dtype.itemsize == 8 and found.dtype.kind == "u" and found.max() > INT64_MAX:
        raise UsageError(f"{name}: {found.max()} is more than there can be rows")
    return Source(np.ascontiguousarray(found, dtype=np.int64))


cdef int64_t ranges_of_counts(TakeRange* out, const loose_i64* counts, int64_t n, int64_t first) noexcept nogil:
    """Row first + i counts[i] times, rows that come once together; -1: a negative count."""
    cdef int64_t last = -1, i
    for i in range(n):
        if counts[i] < 0:
            return -1
        if counts[i] == 1 and last >= 0 and out[last].times == 1 and out[last].start + out[last].count == first + i:
            out[last].count += 1
        elif counts[i]:
            last += 1
            out[last] = TakeRange(first + i, 1, counts[i])
    return last + 1


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
    """Row index[i] for each i, counted from the end if negative; ~i where there is none, or it is before `first`.

    Returns how many follow, or repeat, the row before them.
    """
    cdef int64_t near = 0, last = -2, row, i
    for i in range(n):
        row = index[i]
        if row < first or row >= rows:
            return ~i
        row += rows if row < 0 else 0
        near += 0 <= row - last <= 1
        out[i] = last = row
    return near


cdef int64_t number_rows(int64_t* out, Source index, int64_t rows, bint negative, object wrong, str name) except -1:
    """What `check_index` does, in words where an index is wrong."""
    cdef int64_t near
    with nogil:
        near = check_index(out, <const loose_i64*> index.data, index.size // 8, rows, -rows if negative else 0)
    if near < 0:
        raise wrong(f"{name}: index {(<const loose_i64*> index.data)[~near]} (item {~near} of {index.size // 8}) is "
                    f"not one of the {rows} rows")
    return near


cdef bint lends(const PlanData* plan) noexcept nogil:
    """Whether rows that are taken as ranges share memory with where they were."""
    cdef int32_t i
    for i in range(plan.n_fields):
        if plan.fields[i].view >= 0 or is_list_view(plan.fields[i].layout):
            return True
    return False


cdef int64_t bytes_of(object owner) except -1:
    """Bytes of our own memory that an owner keeps; INT64_MAX: memory of others is among it."""
    cdef int64_t total = 0, size
    if type(owner) is Memory:
        return (<Memory> owner).size
    if type(owner) is SnapshotOwner:
        owner = ((<SnapshotOwner> owner).memories, (<SnapshotOwner> owner).kept)
    if owner is not None and type(owner) is not tuple:
        return INT64_MAX
    for each in owner or ():
        size = bytes_of(each)
        total = min(total, INT64_MAX - size) + size
    return total


cdef tuple own_dictionaries(tuple dictionaries):
    """The same values in memory that holds little else, so that no body or file stays because of them.

    A dictionary keeps its copy, for the next rows that are taken: there is one, however many these are.
    """
    cdef Columns source, copy
    cdef list out = list(dictionaries or ())
    cdef tuple below
    cdef int64_t total, i, k
    for i in range(len(out)):
        source = out[i]
        if source is None:
            continue
        if source.own is None:
            own_metadata(source.plan, None)
            below, total = own_dictionaries(source.dictionaries), 0
            for k in range(source.d.n_extents):
                total += source.d.extents[k].size
            if bytes_of(source.owner) <= 2 * total + SMALL and below == (source.dictionaries or ()):
                continue
            copy = Columns.__new__(Columns)
            concat_into(copy, (source,), False)
            copy.dictionaries = below
            source.own = copy
        out[i] = source.own
    return tuple(out)


cdef RecordBatch alone(RecordBatch batch):
    """Rows that were taken, and nothing else of where they come from: neither dictionaries nor a footer."""
    own_metadata(batch.plan, None)
    batch.dictionaries = own_dictionaries(batch.dictionaries)
    return batch


cdef tuple joint_dictionaries(list batches):
    """Dictionaries that serve all batches, because each begins with those of the others; None: there are none."""
    cdef RecordBatch batch = batches[0]
    cdef tuple found = batch.dictionaries, last = found
    cdef list chosen
    cdef Columns a, b
    cdef Py_ssize_t i
    for batch in batches:
        if batch.dictionaries is last or batch.dictionaries is found:
            continue
        last = batch.dictionaries
        if len(last) != len(found):
            return None  # columns share a dictionary in one of them, and not in the other
        chosen = list(found)
        for i in range(len(chosen)):
            a, b = found[i], last[i]
            if a is b or b is None:
                continue
            if a is None or begins_with(b, a):
                chosen[i] = b
            elif not begins_with(a, b):
                return None
        found = tuple(chosen)
    return found


cdef RecordBatch take_pieces(list batches, int64_t* rows, int32_t* homes, int64_t n, int64_t near):
    """The rows of batches of one shape, counted through; None: not all columns of several can be gathered.

    One batch, or several, and which of them has each row. `near`: as `check_index` returns it.
    The result shares dictionaries with the batches, and no other memory.
    """
    cdef int64_t k = len(batches), total = 0, n_ranges = -1, i
    cdef Memory pieces = Memory(k * sizeof(Piece)), ranges = None
    cdef RecordBatch batch, source = batches[0], out = RecordBatch.__new__(RecordBatch)
    cdef Piece* piece = <Piece*> pieces.data
    cdef const PlanData* plan = &source.plan.d
    cdef bint gathered = k > 1 or 2 * near <= n, whole = True
    cdef tuple dictionaries = source.dictionaries
    cdef Taker taker
    for i in range(k):
        batch = batches[i]
        check_native(batch, "taking rows")
        if batch.plan is not source.plan and not same_shape(batch.plan, source.plan):
            return None
        piece[i].d = &batch.d
        piece[i].nodes, piece[i].extents, piece[i].first = batch.d.nodes, batch.d.extents, total
        total += batch.d.length
    if k > 1 and source.plan.dictionaries:
        dictionaries = joint_dictionaries(batches)
        if dictionaries is None:
            return None
    for i in range(plan.n_columns):
        whole = whole and gathered and gathers(&source.d, plan.columns[i], k > 1)
    if k > 1 and not whole:
        return None
    taker = new_taker(out, source, INT64_MAX, whole or not lends(plan))
    taker.pieces = piece
    taker.n_pieces = k
    taker.rows_there = total
    taker.rows = Rows(rows, NULL, n)
    if k > 1:
        taker.rows.homes = homes
    out.d.length = n
    out.dictionaries = dictionaries
    for i in range(plan.n_columns):
        # Rows that follow each other are copied together.
        if gathered and (k > 1 or gathers(&source.d, plan.columns[i], False)):
            taker.gather(plan.columns[i])
            continue
        if ranges is None:
            ranges = Memory(n * sizeof(TakeRange))
            with nogil:
                n_ranges = ranges_of_numbers(<TakeRange*> ranges.data, rows, n)
        taker.range_(plan.columns[i], <const TakeRange*> ranges.data, n_ranges, 0)
    if taker.gave_up:
        return None
    if taker.n_pool:
        taker.place_pool(out)
    out.owner = tuple(taker.kept)
    if not taker.compacts:
        batch = RecordBatch.__new__(RecordBatch)
        concat_into(batch, (out,), False)
        return batch
    return out


cdef RecordBatch take_numbers(RecordBatch source, object indices, bint negative, object wrong, str name):
    cdef Source index = integers(indices, name)
    cdef int64_t n = index.size // 8, near
    cdef Memory numbers = Memory(n * 8)
    near = number_rows(<int64_t*> numbers.data, index, source.d.length, negative, wrong, name)
    return take_pieces([source], <int64_t*> numbers.data, NULL, n, near)


cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name):
    cdef Source numbers
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int64_t left = INT64_MAX, n, used
    cdef Memory ranges
    check_native(source, "repeating rows")
    numbers = integers(counts, name)
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
    return take_numbers(source, indices, False, UsageError, name)


def take_indices(RecordBatch source not None, indices):
    """See `RecordBatch.take`: as `take_rows`, with negative indices, which count from the end."""
    return alone(take_numbers(source, indices, True, IndexError, "take"))


def take_across(list batches, indices):
    """Rows of batches of one schema that are counted through; a list of one batch, or of none."""
    cdef RowReader reader = RowReader([len(batch) for batch in batches], batches.__getitem__, cache_bytes=INT64_MAX)
    if not batches:
        number_rows(NULL, integers(indices, "take"), 0, True, IndexError, "take")
    return [reader.take(indices)] if batches else []


# -- rows of readers -----------------------------------------------------------------------------------------

cdef struct BatchState:
    # What is known of one batch.
    int64_t call        # the last one that needed it
    int64_t size        # bytes that it keeps, since it was loaded last
    int64_t queued      # where it is kept: the last call when it came to the end of the queue
    int32_t next        # ... and who came then
    int32_t piece       # its number among the batches of `call`


cdef int64_t own_bytes(Columns columns) except -1:
    """Bytes of buffers that nobody else keeps: not those that lie in a file or in memory of the caller's."""
    cdef object owner = columns.owner
    cdef list lent = []
    cdef Source source
    cdef int64_t total = 0, size
    cdef int32_t i
    cdef bint is_lent
    while type(owner) is tuple and owner:
        # Whatever decompressing has put beside the message.
        owner = owner[0]
    if type(owner) is Source and type(<object> (<Source> owner).view.obj) is not Memory:
        lent.append(owner)
    for i in range(columns.d.n_extents):
        size = columns.d.extents[i].size
        is_lent = False
        for source in lent:
            is_lent = source.data <= columns.d.extents[i].data < source.data + source.size
        total += 0 if is_lent else size
    return total


cdef bint sort_rows(int64_t* out, int64_t* begins, int64_t* moved, const int64_t* rows, const int32_t* homes, int64_t n,
                    int64_t m) noexcept nogil:
    """Put rows of `m` batches together, in their order, and say where those of each begin and where each row went.

    Returns whether all stayed where they were.
    """
    cdef bint in_order = True
    cdef int64_t i
    memset(begins, 0, (m + 1) * sizeof(int64_t))
    for i in range(n):
        begins[homes[i]] += 1
    for i in range(1, m + 1):
        begins[i] += begins[i - 1]
    for i in range(n - 1, -1, -1):
        begins[homes[i]] -= 1
        moved[i] = begins[homes[i]]
        in_order &= moved[i] == i
        out[moved[i]] = rows[i]
    return in_order


cdef class RowReader:
    """Rows of record batches of one schema that are counted through, wherever the batches come from.

    Parameters
    ----------
    lengths : array of int64
        The rows of each batch.
    load : callable
        Returns batch `i`, which has ``lengths[i]`` rows.
    cache_bytes : int, default 64 MiB
        Batches that were used last are kept up to this size, and one in any case. What lies in a mapped file or in a
        caller's memory is not counted.
    expect : callable, optional
        Is called with a list of the batches that will be loaded next, in that order.

    Notes
    -----
    Any number of threads may ask at the same time. Each call loads a batch once, and holds `cache_bytes` and one batch
    beside its rows, however many batches these are of.
    """

    cdef object load, expect
    cdef Homes homes
    cdef Memory firsts, known, state_memory
    cdef BatchState* states
    cdef list batches           # those that are kept, else None
    cdef int32_t oldest
    cdef int32_t newest
    cdef int64_t kept_bytes
    cdef int64_t cache_bytes
    cdef int64_t calls
    cdef Plan plan              # of the first batch; None: none was loaded
    cdef tuple dictionaries     # of the last one
    cdef tuple names            # of the columns, once a row was asked for

    def __cinit__(self, lengths, load, *, int64_t cache_bytes=64 << 20, expect=None):
        cdef Source given = integers(lengths, "lengths")
        cdef int64_t count = given.size // 8, i, length
        cdef int64_t* firsts
        if count >= INT32_MAX:
            raise LimitError(f"{count:,} batches are more than can be counted through")
        self.load, self.expect, self.cache_bytes = load, expect, cache_bytes
        self.firsts, self.known, self.state_memory = Memory((count + 1) * 8), Memory(), Memory()
        self.state_memory.reserve(count * sizeof(BatchState))
        self.states = <BatchState*> self.state_memory.data
        if count:
            memset(self.states, 0, count * sizeof(BatchState))
        firsts = <int64_t*> self.firsts.data
        firsts[0] = 0
        for i in range(count):
            length = (<const loose_i64*> given.data)[i]
            if length < 0 or add_overflows(firsts[i], length, &firsts[i + 1]):
                raise LimitError(f"batch {i} cannot have {length} rows after {firsts[i]}")
        open_homes(&self.homes, firsts, count, self.known)
        self.batches = [None] * count
        self.oldest = self.newest = -1

    @property
    def num_rows(self):
        """int: of all batches."""
        return self.homes.firsts[self.homes.count]

    # -- batches --

    cdef RecordBatch fetch(self, int32_t b):
        """Load a batch, and keep it; other threads may come in between."""
        cdef RecordBatch batch = <RecordBatch?> self.load(b)
        cdef int64_t length = self.homes.firsts[b + 1] - self.homes.firsts[b], size
        if batch is None or batch.d.length != length:
            found = "nothing" if batch is None else f"{batch.d.length} rows"
            raise FormatError(f"batch {b}: expected the {length} rows that its reader said before, found {found}")
        if self.plan is None:
            self.plan = batch.plan
        elif batch.plan is not self.plan and not same_shape(batch.plan, self.plan):
            raise UsageError(f"batch {b} has other types than the batches before it")
        # What stays of the tables and the objects, too: there may be many batches of a mapped file.
        size = 256 + batch.d.plan.n_fields * <int64_t> sizeof(Node) + batch.d.n_extents * <int64_t> sizeof(Extent)
        size += own_bytes(batch)
        if batch.dictionaries is not self.dictionaries:
            for dictionary in batch.dictionaries:
                if dictionary is not None and dictionary not in (self.dictionaries or ()):
                    size += own_bytes(dictionary)
            self.dictionaries = batch.dictionaries
        if self.batches[b] is None:
            self.batches[b] = batch
            self.states[b].size = size
            self.kept_bytes += size
            self.enqueue(b)
            self.make_room(b)
        return batch

    cdef void enqueue(self, int32_t b) noexcept:
        if self.oldest < 0:
            self.oldest = b
        else:
            self.states[self.newest].next = b
        self.newest = b
        self.states[b].queued = self.calls

    cdef int make_room(self, int32_t b) except -1:
        """Let go of batches until what is kept may be: first come, first go, but who was used since is asked again.

        So nothing has to be done when a batch is used. Batch `b` stays.
        """
        cdef int32_t first
        while self.kept_bytes > self.cache_bytes and self.oldest != self.newest:
            first = self.oldest
            self.oldest = self.states[first].next
            if first == b or self.states[first].call > self.states[first].queued:
                self.enqueue(first)
            else:
                self.kept_bytes -= self.states[first].size
                self.batches[first] = None
        return 0

    cdef RecordBatch batch(self, int32_t b):
        cdef RecordBatch batch = <RecordBatch> self.batches[b]
        self.calls += 1
        self.states[b].call = self.calls
        return self.fetch(b) if batch is None else batch

    cdef int announce(self, list numbers) except -1:
        if self.expect is not None and numbers:
            self.expect(numbers)
        return 0

    # -- rows --

    def take(self, rows):
        """Return rows in any order and number, as one batch.

        Parameters
        ----------
        rows : integers
            In a list, range, array of NumPy or of Arrow; negative ones count from the end.

        Raises
        ------
        IndexError
            There is no such row.
        FormatError
            A batch cannot be decoded, or has another number of rows than its reader said.
        """
        cdef Source index = integers(rows, "take")
        cdef int64_t n = index.size // 8, size = 0, lacking = 0, call, i
        cdef Memory numbers = Memory(n * 8), homes = Memory(n * 4), order = Memory(min(n, self.homes.count) * 4)
        cdef int32_t* home = <int32_t*> homes.data
        cdef int32_t* wanted = <int32_t*> order.data
        cdef int32_t m = 0, b
        cdef BatchState* state
        cdef RecordBatch batch
        cdef list held = [], absent
        number_rows(<int64_t*> numbers.data, index, self.homes.firsts[self.homes.count], True, NotFoundError, "take")
        if n == 0 and self.homes.count == 0:
            raise UsageError("take: there is no batch to tell which columns there are")
        if n == 0:
            return take_indices(self.batch(0), [])
        with nogil:
            find_homes(&self.homes, home, <const int64_t*> numbers.data, n)
        # Who calls meanwhile numbers the batches again: no Python runs in this loop.
        self.calls += 1
        call = self.calls
        for i in range(n):
            if i + AHEAD < n:
                prefetch(&self.states[home[i + AHEAD]])
            state = &self.states[home[i]]
            if state.call != call:
                prefetch(PySequence_Fast_ITEMS(self.batches) + home[i])
                state.call, state.piece, wanted[m] = call, m, home[i]
                m += 1
            home[i] = state.piece
        for i in range(m):
            if i + AHEAD < m:
                prefetch(<const void*> PyList_GET_ITEM(self.batches, wanted[i + AHEAD]))
            batch = <RecordBatch> PyList_GET_ITEM(self.batches, wanted[i])
            held.append(batch)
            lacking += batch is None
            size += self.states[wanted[i]].size if batch is not None else 0
        if lacking:
            absent = sorted([(wanted[i], i) for i in range(m) if held[i] is None])
            self.announce([number for number, _ in absent])
            for at, (number, i) in enumerate(absent):
                if size > self.cache_bytes:
                    return alone(self.take_apart(held, absent[at:], wanted, <int64_t*> numbers.data, home, n))
                b = number
                held[i] = self.fetch(b)
                size += self.states[b].size
        return alone(self.gather(held, wanted, <int64_t*> numbers.data, home, n))

    cdef RecordBatch gather(self, list held, const int32_t* wanted, int64_t* rows, int32_t* homes, int64_t n):
        """The rows, counted through all batches, of those that are held, whose numbers are `wanted`."""
        cdef int64_t m = len(held), at = 0, near = 0, i
        cdef Memory moves = Memory(m * 8)
        cdef int64_t* move = <int64_t*> moves.data
        cdef RecordBatch found
        for i in range(m):
            move[i] = at - self.homes.firsts[wanted[i]]
            at += (<RecordBatch> PyList_GET_ITEM(held, i)).d.length
        for i in range(n):
            rows[i] += move[homes[i]]
            near += i > 0 and 0 <= rows[i] - rows[i - 1] <= 1
        found = take_pieces(held, rows, homes, n, near)
        if found is not None:
            return found
        for i in range(n):
            rows[i] -= move[homes[i]]
        return self.take_apart(held, [], wanted, rows, homes, n)

    cdef RecordBatch take_apart(self, list held, list absent, const int32_t* wanted, const int64_t* rows,
                                const int32_t* homes, int64_t n):
        """The same for any layout, and for more than can be held: batch by batch, of which those of `absent` come last.

        The rows of each are taken together, and brought into their own order at last.
        """
        cdef int64_t m = len(held), i
        cdef Memory sorted_rows = Memory(n * 8), begins = Memory((m + 1) * 8), moved = Memory(n * 8)
        cdef list parts = [None] * m
        cdef bint in_order
        cdef int32_t b
        moved.size = n * 8
        in_order = sort_rows(<int64_t*> sorted_rows.data, <int64_t*> begins.data, <int64_t*> moved.data, rows, homes,
                             n, m)
        for i in range(m):
            if held[i] is not None:
                parts[i] = self.part(held[i], wanted[i], <int64_t*> sorted_rows.data, <int64_t*> begins.data + i)
                held[i] = None
        for number, i in absent:
            b = number
            parts[i] = self.part(self.fetch(b), b, <int64_t*> sorted_rows.data, <int64_t*> begins.data + i)
        found = concat_batches(parts)
        del parts
        return found if in_order else take_numbers(found, moved, False, IndexError, "take")

    cdef RecordBatch part(self, RecordBatch batch, int32_t b, int64_t* rows, const int64_t* begins):
        """The rows of one batch, which are those from the first number of `begins` to the second."""
        cdef int64_t near = 0, i
        for i in range(begins[0], begins[1]):
            rows[i] -= self.homes.firsts[b]
            near += i > begins[0] and 0 <= rows[i] - rows[i - 1] <= 1
        return take_pieces([batch], rows + begins[0], NULL, begins[1] - begins[0], near)

    def row(self, i, *, extensions=False):
        """Return one row as a dict.

        Parameters
        ----------
        i : int
            Negative ones count from the end.
        extensions
            As in :meth:`arrowipc.RecordBatch.to_pydict`.

        Raises
        ------
        IndexError
            There is no such row.
        UsageError
            The name of a column occurs twice.
        FormatError
            The batch cannot be decoded, or its values are broken.
        """
        cdef int64_t total = self.homes.firsts[self.homes.count], number, at
        cdef int32_t b, k, f
        cdef RecordBatch batch
        cdef dict out = {}
        cdef Quota q
        cdef bint running
        index = PyNumber_Index(i)
        if not -total <= index < total:
            raise NotFoundError(f"row: {index} is not one of the {total} rows")
        number = index
        number += total if number < 0 else 0
        find_homes(&self.homes, &b, &number, 1)
        at = number - self.homes.firsts[b]
        batch = self.batch(b)
        check_native(batch, "conversion to Python values")
        names = self.names
        if names is None:
            names = tuple([field_name(batch.plan, batch.d.plan.columns[k]) for k in range(batch.d.plan.n_columns)])
            if len(set(names)) < len(names):
                raise UsageError("row would lose columns whose name occurs twice; take it as a batch")
            self.names = names
        q = quota(AS_BACKED, extensions)
        running = pause_collector()
        try:
            for k in range(batch.d.plan.n_columns):
                f = batch.d.plan.columns[k]
                values = read_values(q, batch, f, batch.d.nodes[f].offset + at, 1)
                out[(<tuple> names)[k]] = <object> PyList_GET_ITEM(values, 0)
        finally:
            resume_collector(running)
        return out

    def slice(self, offset=0, length=None):
        """Return rows ``[offset, offset + length)`` as a list of batches, without copying.

        What lies past the end is left out.

        Raises
        ------
        UsageError
            `offset` or `length` is negative.
        FormatError
            A batch cannot be decoded, or has another number of rows than its reader said.
        """
        cdef int64_t total = self.homes.firsts[self.homes.count], start, stop, at, rows
        cdef int64_t* firsts = self.homes.firsts
        cdef int32_t b
        cdef RecordBatch batch
        cdef list out = [], numbers = []
        start, rows = clip(offset, length, total)
        stop = start + rows
        if start == stop:
            return []
        find_homes(&self.homes, &b, &start, 1)
        while firsts[b] < stop:
            if firsts[b] < firsts[b + 1]:
                numbers.append(b)
            b += 1
        self.announce([number for number in numbers if self.batches[number] is None])
        for number in numbers:
            b = number
            batch = self.batch(b)
            at = max(start - firsts[b], 0)
            rows = min(stop, firsts[b + 1]) - firsts[b] - at
            out.append(batch if rows == batch.d.length else slice_batch(batch, at, rows))
        return out
