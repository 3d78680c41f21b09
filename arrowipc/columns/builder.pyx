"""Builders: memory that grows, and the functions that append the elements of each layout to it.

Dictionary deltas, concatenation and payload columns all go through `ColumnsBuilder.append_data`, which walks the
flat plan once: each field takes a span of the piece's elements and hands spans to its children.

An append writes only behind the bytes that a snapshot can see, with one exception: the last byte of a bitmap,
in which the bits behind the snapshot's length change. No reader gives those bits a meaning (Columnar format,
"Validity bitmaps"), and the bits before them are stored again with the values that they have.
"""

cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, int8_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns, Memory, Plan, raise_fault
from arrowipc.inline.bits cimport SLACK, append_bits, append_ones, largest, load_int, shift_offsets, store_int
from arrowipc.inline.element cimport copy_view, find_run, run_end, validity
from arrowipc.inline.fault cimport (
    FAULT_FULL, FAULT_LIST_VIEW, FAULT_MEMORY, FAULT_RUN_END, FAULT_TYPE_CODE, FAULT_UNION_OFFSET, Fault, fail,
)
from arrowipc.inline.layouts cimport LAYOUTS, alignment_of, is_list_view
from arrowipc.inline.loads cimport add_overflows, bitmap_bytes, count_bits, get_bit, inside, load_i32
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_LIST32,
    LAYOUT_LIST64, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW,
    ColumnsData, Extent, FieldPlan, Node, PlanData,
)
from arrowipc.inline.room cimport Room, new_zeros, reserve_items
from arrowipc.metadata.schema_reader cimport same_shape

from arrowipc.errors import UnsupportedError, UsageError

# -- memory that grows ---------------------------------------------------------------------------------------

# A full block is never moved: its bytes are copied to a block at least twice as large, and the old one stays with the
# snapshots that point at it. So all copying together stays linear. Data buffers of views are not even copied: a view
# may point into any of many buffers, so the full one is closed and the next one opened, twice as large.

# Blocks of these sizes grow fourfold instead of twofold.
cdef int64_t STEEP_FROM = 1 << 16
cdef int64_t STEEP_TO = 1 << 26

# A block of this size wastes little if fewer bytes turn out to be needed.
cdef int64_t SMALL = 1 << 12

# Data buffers of view fields double from the first size to the second: there are few, with little unused room.
cdef int64_t POOL_SMALLEST = 1 << 10
cdef int64_t POOL_LARGEST = 1 << 25

# A data buffer of views that has this many bytes, and is mostly used, is borrowed instead of copied.
cdef int64_t KEEP_BYTES = 1 << 18


cdef Memory new_memory(int64_t wanted, int64_t least):
    """Allocate `wanted` bytes; if that fails, `least`."""
    cdef Memory memory = Memory.__new__(Memory)
    try:
        memory.reserve(wanted)
    except MemoryError:
        memory.reserve(least)
    return memory


cdef int grow_buffer(BuilderMemory g, int32_t buffer, int64_t extra, Fault* fault) noexcept with gil:
    """Give a buffer a block with room for `extra` more bytes; snapshots keep the old block alive."""
    cdef Memory memory
    cdef int64_t used = g.sizes[buffer], capacity = g.blocks[buffer].size, least = used + extra + SLACK
    if extra > INT64_MAX // 16 - used:
        return fail(fault, FAULT_MEMORY)
    # Unless more rows are known to come, the first block is as large as the first piece: many columns never get a
    # second piece. Room that nobody touches takes no pages, so larger blocks may grow in larger steps, which copies
    # less.
    capacity = max(least, capacity * (4 if STEEP_FROM <= capacity < STEEP_TO else 2))
    # If more rows are known to come, make room for them as if they were as long as the rows so far; within bounds,
    # because the rows so far may be the long ones.
    capacity = max(capacity, min(max(8 * least, SMALL), <int64_t> (g.ahead * 1.0625 * least)))
    if g.wanted[buffer]:
        capacity = max(least, g.wanted[buffer] + SLACK)
    try:
        memory = new_memory(capacity, least)
    except MemoryError:
        return fail(fault, FAULT_MEMORY)
    if used:
        memcpy(memory.data, g.blocks[buffer].data, used)
    g.memories[buffer] = memory
    g.moved += used
    g.blocks[buffer] = Room(memory.data, memory.capacity)
    g.shared = None
    return 0


cdef int pool_entry(BuilderMemory g, int32_t view, const uint8_t* data, int64_t size,
                    Fault* fault) noexcept nogil:
    """Add a data buffer to a view field."""
    cdef Buffers* buffers = &g.buffers[view]
    cdef int64_t count = <int64_t> g.pools[view].count + 1
    if count > INT32_MAX or reserve_items(<void**> &buffers.extents, &buffers.room, count, sizeof(Extent)) < 0:
        return fail(fault, FAULT_MEMORY)
    buffers.extents[g.pools[view].count] = Extent(data, size)
    g.pools[view].count += 1
    return 0


cdef int pool_grow(BuilderMemory g, int32_t view, int64_t size, Fault* fault) noexcept with gil:
    """Close the open data buffer of a view field and open one with room for `size` bytes."""
    cdef Pool* pool = &g.pools[view]
    cdef Memory memory
    cdef int64_t capacity = max(POOL_SMALLEST, min(POOL_LARGEST, 2 * pool.open_capacity), size)
    try:
        memory = new_memory(capacity, size)
        g.kept.append(memory)
        g.n_kept += 1
    except MemoryError:
        return fail(fault, FAULT_MEMORY)
    if pool.open >= 0:
        g.buffers[view].extents[pool.open].size = pool.open_bytes
    if pool_entry(g, view, memory.data, 0, fault) < 0:
        return -1
    pool.open = pool.count - 1
    pool.open_bytes = 0
    # Offsets of views have 31 bits. A larger buffer is copied whole, to offset 0, and takes nothing more.
    pool.open_capacity = min(memory.capacity, INT32_MAX)
    g.shared = None
    return 0


cdef int pool_borrow(BuilderMemory g, int32_t view, const Extent* extent, PyObject* owner,
                     Fault* fault) noexcept with gil:
    """Take a data buffer as it is and keep its owner alive."""
    try:
        if not g.kept or g.kept[len(g.kept) - 1] is not <object> owner:
            g.kept.append(<object> owner)
            g.n_kept += 1
    except MemoryError:
        return fail(fault, FAULT_MEMORY)
    if pool_entry(g, view, extent.data, extent.size, fault) < 0:
        return -1
    g.pools[view].bytes += extent.size
    g.shared = None
    return 0


cdef int32_t pool_find(BuilderMemory g, int32_t view, const Extent* extent) noexcept nogil:
    """Return the index of a data buffer that an earlier slice of the same columns brought; -1: there is none.

    Slices bring the same buffers in the same order, so only a few buffers behind the last match are looked at.
    """
    cdef Pool* pool = &g.pools[view]
    cdef Extent* known
    cdef int32_t i, k
    for i in range(min(pool.count, 8)):
        k = (pool.cursor + i) % pool.count
        known = &g.buffers[view].extents[k]
        if known.data == extent.data and known.size == extent.size and k != pool.open:
            pool.cursor = (k + 1) % pool.count
            return k
    return -1


cdef class SnapshotOwner:
    """The owner of snapshots: it keeps their memory alive."""


cdef class DeltaOrigin:
    """The origin of a dictionary that grows by deltas."""


cdef class BuilderMemory:
    """Buffers of a plan that grow at the end, and snapshots of them."""

    def __cinit__(self, Plan plan not None):
        cdef int64_t fields = plan.d.n_fields, buffers = plan.d.n_buffers, views = plan.d.n_views, i
        cdef int64_t arrays = buffers * <int64_t> (sizeof(Room) + 8) + views * <int64_t> sizeof(Buffers)
        self.plan = plan
        self.p = &plan.d
        self.state_bytes = fields * <int64_t> sizeof(Node) + buffers * 8 + views * <int64_t> sizeof(Pool)
        self.block = new_zeros(2 * self.state_bytes + arrays, 1)
        self.nodes = <Node*> self.block
        self.sizes = <int64_t*> (self.nodes + fields)
        self.pools = <Pool*> (self.sizes + buffers)
        self.undo.state = self.pools + views
        self.blocks = <Room*> (<uint8_t*> self.block + 2 * self.state_bytes)
        self.buffers = <Buffers*> (self.blocks + buffers)
        self.wanted = <int64_t*> (self.buffers + views)
        for i in range(views):
            self.pools[i].open = -1
        self.memories = [None] * buffers
        self.kept = []
        self.origin = object()
        self.dictionaries = (None,) * len(plan.dictionaries)
        self.save()

    def __dealloc__(self):
        cdef int32_t i
        if self.block != NULL:
            for i in range(self.p.n_views):
                free(self.buffers[i].extents)
        free(self.block)

    cdef void save(self) noexcept nogil:
        memcpy(self.undo.state, self.nodes, self.state_bytes)
        self.undo.length = self.length
        self.undo.n_kept = self.n_kept

    cdef void restore(self) noexcept nogil:
        memcpy(self.nodes, self.undo.state, self.state_bytes)
        self.length = self.undo.length
        if self.n_kept != self.undo.n_kept:
            with gil:
                del self.kept[self.undo.n_kept:]
                self.n_kept = self.undo.n_kept
                self.shared = None

    cdef int64_t total_bytes(self) noexcept nogil:
        """Bytes in the buffers, borrowed ones included."""
        cdef int64_t total = 0
        cdef int32_t i
        for i in range(self.p.n_buffers):
            total += self.sizes[i]
        for i in range(self.p.n_views):
            total += self.pools[i].bytes
        return total

    cdef int snapshot_into(self, Columns out) except -1:
        """Let `out`, which is new, hold everything so far, in memory that later appends do not change."""
        cdef int64_t variadic = 0
        cdef int32_t i, next_extent = self.p.n_buffers
        cdef Pool* pool
        cdef SnapshotOwner owner
        for i in range(self.p.n_views):
            variadic += self.pools[i].count
        out.allocate(self.plan, variadic)
        memcpy(out.d.nodes, self.nodes, self.p.n_fields * sizeof(Node))
        for i in range(self.p.n_buffers):
            out.d.extents[i].data = self.blocks[i].data if self.sizes[i] else NULL
            out.d.extents[i].size = self.sizes[i]
        for i in range(self.p.n_views):
            pool = &self.pools[i]
            out.d.views[i].first = next_extent
            out.d.views[i].count = pool.count
            if pool.count:
                memcpy(&out.d.extents[next_extent], self.buffers[i].extents, pool.count * sizeof(Extent))
            if pool.open >= 0:
                out.d.extents[next_extent + pool.open].size = pool.open_bytes
            next_extent += pool.count
        out.d.length = self.length
        out.dictionaries = self.dictionaries
        if self.shared is None:
            # Fill the owner before it is stored: if memory runs out in between, no later snapshot gets half of it.
            owner = SnapshotOwner.__new__(SnapshotOwner)
            owner.origin = self.origin
            owner.memories = tuple(self.memories)
            owner.kept = tuple(self.kept)
            self.shared = owner
        out.owner = self.shared
        return 0


cdef int begin_deltas(BuilderMemory g, Columns first) except -1:
    cdef SnapshotOwner owner = SnapshotOwner.__new__(SnapshotOwner)
    owner.origin = g.origin
    owner.kept = (first.owner,)
    first.owner = owner
    return 0


cdef int begins_with_snapshot(Columns longer, Columns shorter):
    cdef int32_t i, column
    if (type(longer.owner) is not SnapshotOwner or type(shorter.owner) is not SnapshotOwner
            or (<SnapshotOwner> longer.owner).origin is not (<SnapshotOwner> shorter.owner).origin
            or longer.plan is not shorter.plan or longer.d.length < shorter.d.length):
        return BEGINS_SNAPSHOT if longer is shorter else BEGINS_NOT
    for i in range(longer.plan.d.n_columns):
        # A slice has the owner of the whole column; it is no prefix unless it begins at offset 0.
        column = longer.plan.d.columns[i]
        if longer.d.nodes[column].offset or shorter.d.nodes[column].offset:
            return BEGINS_SNAPSHOT if longer is shorter else BEGINS_NOT
    return BEGINS_DELTAS if type((<SnapshotOwner> longer.owner).origin) is DeltaOrigin else BEGINS_SNAPSHOT


# -- the elements of a span, which are checked ---------------------------------------------------------------


cdef int span_list_views(const ColumnsData* d, int32_t f, bint nulls, const Span* span, Span* out,
                         Fault* fault) noexcept nogil:
    """Find the child's elements from the first to the last one in use; empty and null list views use none."""
    cdef int32_t first = d.plan.fields[f].first_buffer, width = LAYOUTS[d.plan.fields[f].layout].buffers[1].width
    cdef const uint8_t* bits = validity(d, f) if nulls else NULL
    cdef const uint8_t* offsets = d.extents[first + 1].data
    cdef const uint8_t* sizes = d.extents[first + 2].data
    cdef int64_t limit = d.nodes[f + 1].length, low = INT64_MAX, high = 0, i, offset, size
    for i in range(span.start, span.start + span.count):
        size = load_int(sizes, i, width)
        if size == 0 or (bits != NULL and not get_bit(bits, i)):
            continue
        offset = load_int(offsets, i, width)
        if not inside(offset, size, limit):
            return fail(fault, FAULT_LIST_VIEW, f, 1, i, offset, limit, b"offset")
        low, high = min(low, offset), max(high, offset + size)
    out.start = min(low, high)
    out.count = high - out.start
    return 0


cdef int span_members(const ColumnsData* d, int32_t f, Span* spans, Fault* fault) noexcept nogil:
    """Let each child of dense union f take its elements from the lowest to the highest offset in the span of f."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const int8_t* codes = <const int8_t*> d.extents[field.first_buffer].data
    cdef const uint8_t* offsets = d.extents[field.first_buffer + 1].data
    cdef const int8_t* ordinals = d.plan.codes + 128 * field.codes
    cdef int64_t low[128]
    cdef int64_t high[128]
    cdef int64_t i, offset
    cdef int32_t child = f + 1, k
    cdef int ordinal
    for k in range(field.n_children):
        low[k], high[k] = INT64_MAX, -1
    for i in range(spans[f].start, spans[f].start + spans[f].count):
        ordinal = ordinals[codes[i]] if codes[i] >= 0 else -1
        if ordinal < 0:
            return fail(fault, FAULT_TYPE_CODE, f, 0, i, codes[i], 0, NULL)
        offset = load_int(offsets, i, 4)
        if offset < 0:
            return fail(fault, FAULT_UNION_OFFSET, f, 1, i, offset, 0, NULL)
        low[ordinal], high[ordinal] = min(low[ordinal], offset), max(high[ordinal], offset)
    for k in range(field.n_children):
        spans[child].count = 0
        if high[k] >= 0 and set_span(d, child, low[k], high[k] - low[k] + 1, spans, fault) < 0:
            return -1
        child = d.plan.fields[child].end
    return 0


cdef int span_runs(const ColumnsData* d, int32_t f, const Span* span, Span* out, Fault* fault) noexcept nogil:
    """Find the runs that a span of a run-end encoded field touches; fail unless their ends rise."""
    cdef int64_t runs = d.nodes[f + 1].length, previous = span.start, stop = span.start + span.count, i, end
    # If run ends do not rise, find_run still returns runs, the first one not behind the last; the loop finds the fault.
    cdef int64_t first = find_run(d, f, span.start) if span.start else 0, last = find_run(d, f, stop - 1)
    if last >= runs:
        return fail(fault, FAULT_RUN_END, f, -1, runs - 1, run_end(d, f, runs - 1) if runs else 0, stop, b"short of")
    for i in range(first, last + 1):
        end = run_end(d, f, i)
        if end <= previous:
            return fail(fault, FAULT_RUN_END, f, -1, i, end, previous, b"not more than")
        previous = end
    out.start, out.count = first, last - first + 1
    return 0


cdef int span_children(const ColumnsData* d, int32_t f, bint nulls, Span* spans, Span* inner,
                       Fault* fault) noexcept nogil:
    cdef int layout = d.plan.fields[f].layout, found
    cdef int64_t times
    cdef int32_t child = f + 1
    if layout == LAYOUT_STRUCT or layout == LAYOUT_FIXED_LIST or layout == LAYOUT_SPARSE:
        # The products do not overflow: check_sizes has computed that of the whole node.
        times = d.plan.fields[f].width if layout == LAYOUT_FIXED_LIST else 1
        while child < d.plan.fields[f].end:
            if set_span(d, child, spans[f].start * times, spans[f].count * times, spans, fault) < 0:
                return -1
            child = d.plan.fields[child].end
        return 0
    if layout == LAYOUT_DENSE:
        return span_members(d, f, spans, fault)
    if layout == LAYOUT_RUN_END:
        spans[f + 1].count = 0
        child = d.plan.fields[f + 1].end
        found = span_runs(d, f, &spans[f], inner, fault)
    elif is_list_view(layout):
        found = span_list_views(d, f, nulls, &spans[f], inner, fault)
    else:
        found = span_offsets(d, f, LAYOUTS[layout].buffers[1].width, &spans[f], inner, fault)
    return set_span(d, child, inner.start, inner.count, spans, fault) if found == 0 else -1


cdef int check_views(uint8_t* out, const ColumnsData* d, int32_t f, const Span* span, int64_t* used, int32_t stride,
                     Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* bits = validity(d, f) if d.nodes[f].null_count != 0 else NULL
    cdef const uint8_t* views = d.extents[field.first_buffer + 1].data
    cdef const Extent* buffers = d.extents + d.views[field.view].first
    cdef int64_t i, size, count = d.views[field.view].count
    for i in range(span.start, span.start + span.count):
        if bits != NULL and not get_bit(bits, i):
            memset(out, 0, 16)
        else:
            size = copy_view(out, views + 16 * i, buffers, count, f, i, fault)
            if size < 0:
                return -1
            if size:
                used[load_i32(out + 8) * stride] += size
        out += 16
    return 0


# -- the layouts ---------------------------------------------------------------------------------------------


cdef inline int full(const Append* job, int32_t f, int64_t found, int64_t expected,
                     const char* what) noexcept nogil:
    return fail(job.fault, FAULT_FULL, f, -1, -1, found, expected, what)


cdef inline const uint8_t* validity_of(const Append* job, int32_t f, int32_t buffer) noexcept nogil:
    """The validity bitmap of a field of the piece; NULL: all elements are valid."""
    return job.piece.extents[buffer].data if job.piece.nodes[f].null_count != 0 else NULL


cdef int append_validity(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    cdef int32_t buffer = g.p.fields[f].first_buffer
    cdef const uint8_t* bits = validity_of(job, f, buffer)
    cdef int64_t start = g.spans[f].start, count = g.spans[f].count, nulls = 0
    cdef int64_t before = g.nodes[f].length, size
    cdef bint bitmap = g.nodes[f].null_count != 0
    if bits != NULL:
        nulls = count - count_bits(bits, start, count)
    if nulls == 0 and not bitmap:
        return 0
    size = bitmap_bytes(before + count)
    if reserve(g, buffer, size - g.sizes[buffer], job.fault) < 0:
        return -1
    if not bitmap:
        append_ones(g.blocks[buffer].data, 0, before)
    if nulls:
        append_bits(g.blocks[buffer].data, before, bits, start, count)
    else:
        append_ones(g.blocks[buffer].data, before, count)
    g.sizes[buffer] = size
    g.nodes[f].null_count += nulls
    return 0


cdef int append_bools(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    cdef int32_t first = g.p.fields[f].first_buffer
    cdef int64_t start = g.spans[f].start, count = g.spans[f].count, before = g.nodes[f].length
    if reserve(g, first + 1, bitmap_bytes(before + count) - g.sizes[first + 1], job.fault) < 0:
        return -1
    append_bits(g.blocks[first + 1].data, before, job.piece.extents[first + 1].data, start, count)
    g.sizes[first + 1] = bitmap_bytes(before + count)
    return 0


cdef int append_fixed(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    cdef const FieldPlan* field = &g.p.fields[f]
    cdef int32_t first = field.first_buffer
    cdef int64_t start = g.spans[f].start, count = g.spans[f].count
    return copy_in(g, first + 1, job.piece.extents[first + 1].data + start * field.width, count * field.width,
                   job.fault)


cdef int append_offsets(ColumnsBuilder g, const Append* job, int32_t f, int32_t width, Span* inner) noexcept nogil:
    """Append offsets, and for text the bytes between them; for lists, `inner` is the span of their elements."""
    cdef int32_t buffer = g.p.fields[f].first_buffer + 1
    cdef bint is_list = LAYOUTS[g.p.fields[f].layout].n_children == 1, fresh = g.sizes[buffer] == 0
    cdef int64_t base = g.nodes[f + 1].length if is_list else g.sizes[buffer + 1], count = g.spans[f].count
    cdef const Extent* extents = &job.piece.extents[buffer]
    if ((not is_list and span_offsets(job.piece, f, width, &g.spans[f], inner, job.fault) < 0)
            or reserve(g, buffer, (count + fresh) * width, job.fault) < 0):
        return -1
    if inner.count > largest(width, True) - base:
        return full(job, f, base + inner.count, largest(width, True), b"offsets")
    if fresh:
        memset(g.blocks[buffer].data, 0, width)
        g.sizes[buffer] = width
    # The offsets between the first and the last one are not checked.
    shift_offsets(g.blocks[buffer].data + g.sizes[buffer], extents[0].data + (g.spans[f].start + 1) * width, count,
                  width, base - inner.start)
    g.sizes[buffer] += count * width
    return 0 if is_list else copy_in(g, buffer + 1, extents[1].data + inner.start, inner.count, job.fault)


cdef int append_list_view(ColumnsBuilder g, const Append* job, int32_t f, int32_t width,
                          const Span* inner) noexcept nogil:
    """Append list views, whose elements are `inner`; empty and null lists begin where the piece's elements begin."""
    cdef int32_t first = g.p.fields[f].first_buffer
    cdef const uint8_t* bits = validity_of(job, f, first)
    cdef const uint8_t* offsets = job.piece.extents[first + 1].data
    cdef const uint8_t* sizes = job.piece.extents[first + 2].data
    cdef int64_t start = g.spans[f].start, count = g.spans[f].count, base = g.nodes[f + 1].length, i, size
    cdef uint8_t* out_offsets
    cdef uint8_t* out_sizes
    if (reserve(g, first + 1, count * width, job.fault) < 0
            or reserve(g, first + 2, count * width, job.fault) < 0):
        return -1
    if inner.count > largest(width, True) - base:
        return full(job, f, base + inner.count, largest(width, True), b"offsets")
    out_offsets = g.blocks[first + 1].data + g.sizes[first + 1]
    out_sizes = g.blocks[first + 2].data + g.sizes[first + 2]
    for i in range(count):
        size = load_int(sizes, start + i, width)
        if size == 0 or (bits != NULL and not get_bit(bits, start + i)):
            store_int(out_offsets, i, width, base)
            store_int(out_sizes, i, width, 0)
        else:
            store_int(out_offsets, i, width, base + load_int(offsets, start + i, width) - inner.start)
            store_int(out_sizes, i, width, size)
    g.sizes[first + 1] += count * width
    g.sizes[first + 2] += count * width
    return 0


cdef int append_dense(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    """Append codes and offsets of a dense union; each child appends its elements from the lowest to the highest one."""
    cdef const FieldPlan* field = &g.p.fields[f]
    cdef int32_t first = field.first_buffer, child = f + 1, k
    cdef int64_t count = g.spans[f].count
    cdef const uint8_t* codes = job.piece.extents[first].data + g.spans[f].start
    cdef int64_t shifts[128]
    memset(shifts, 0, sizeof(shifts))
    for k in range(field.n_children):
        if g.spans[child].count:
            if g.nodes[child].length > INT32_MAX - g.spans[child].count + 1:
                return full(job, f, g.nodes[child].length + g.spans[child].count - 1, INT32_MAX, b"offsets")
            shifts[k] = g.nodes[child].length + job.piece.nodes[child].offset - g.spans[child].start
        child = g.p.fields[child].end
    if copy_in(g, first, codes, count, job.fault) < 0 or reserve(g, first + 1, 4 * count, job.fault) < 0:
        return -1
    move_members(g.blocks[first + 1].data + g.sizes[first + 1],
                 job.piece.extents[first + 1].data + 4 * g.spans[f].start, codes, count,
                 g.p.codes + 128 * field.codes, shifts)
    g.sizes[first + 1] += 4 * count
    return 0


cdef int append_runs(ColumnsBuilder g, const Append* job, int32_t f, const Span* runs) noexcept nogil:
    """Append run ends, which continue from the length so far; adjacent runs of equal values are not joined."""
    cdef int32_t width = g.p.fields[f + 1].width, buffer = g.p.fields[f + 1].first_buffer + 1
    cdef int64_t count = g.spans[f].count, base = g.nodes[f].length
    if count > largest(width, True) - base:
        return full(job, f, base + count, largest(width, True), b"run ends")
    if reserve(g, buffer, runs.count * width, job.fault) < 0:
        return -1
    move_runs(g.blocks[buffer].data + g.sizes[buffer], job.piece, f, runs, &g.spans[f], base)
    g.sizes[buffer] += runs.count * width
    g.nodes[f + 1].length += runs.count
    return 0


# -- views ---------------------------------------------------------------------------------------------------


cdef int append_views(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    """Append views; a null element gets an empty view."""
    cdef const FieldPlan* field = &g.p.fields[f]
    cdef int32_t buffer = field.first_buffer + 1, variadic = job.piece.views[field.view].count
    cdef int64_t count = g.spans[f].count
    cdef const uint8_t* views = job.piece.extents[buffer].data + 16 * g.spans[f].start
    cdef uint8_t* out
    if validity_of(job, f, field.first_buffer) == NULL and not any_long(views, count):
        return copy_in(g, buffer, views, 16 * count, job.fault)
    if (reserve_items(<void**> &g.targets, &g.targets_room, variadic, sizeof(PoolTarget)) < 0
            or reserve(g, buffer, 16 * count, job.fault) < 0):
        return fail(job.fault, FAULT_MEMORY)
    memset(g.targets, 0, variadic * sizeof(PoolTarget))
    out = g.blocks[buffer].data + g.sizes[buffer]
    if (check_views(out, job.piece, f, &g.spans[f], &g.targets.used, sizeof(PoolTarget) // 8, job.fault) < 0
            or choose_targets(g, job, f) < 0 or move_to_pool(g, job, f, out) < 0):
        return -1
    g.sizes[buffer] += 16 * count
    return 0


cdef int choose_targets(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    """Choose where each data buffer of the piece goes, so that an append never copies more than the piece holds.

    Views may share bytes: copied one by one they could add up to any multiple of the buffer.
    """
    cdef int32_t view = g.p.fields[f].view, i
    cdef const Extent* extent
    cdef PoolTarget* target
    cdef uint8_t* out
    for i in range(job.piece.views[view].count):
        extent = &job.piece.extents[job.piece.views[view].first + i]
        target = &g.targets[i]
        if target.used == 0:
            continue
        if extent.size >= KEEP_BYTES:
            target.index = pool_find(g, view, extent)
            if target.index >= 0:
                continue
            if job.owner != NULL and target.used >= extent.size >> 1:
                if pool_borrow(g, view, extent, job.owner, job.fault) < 0:
                    return -1
                target.index = g.pools[view].count - 1
                continue
        # Copying an eighth of unused bytes takes less time than copying value by value.
        if target.used < extent.size - (extent.size >> 3):
            target.index = -1
            continue
        out = pool_place(g, view, extent.size, job.fault)
        if out == NULL:
            return -1
        memcpy(out, extent.data, extent.size)
        target.index = g.pools[view].open
        target.shift = g.pools[view].open_bytes - extent.size
    return 0


cdef int move_to_pool(ColumnsBuilder g, const Append* job, int32_t f, uint8_t* out) noexcept nogil:
    """Let views, which have been checked, point into the pool."""
    cdef int32_t view = g.p.fields[f].view
    cdef const Extent* extents = job.piece.extents + job.piece.views[view].first
    cdef int64_t i, length
    cdef const PoolTarget* target
    cdef uint8_t* place
    for i in range(g.spans[f].count):
        length = load_i32(out)
        if length > 12:
            target = &g.targets[load_i32(out + 8)]
            if target.index >= 0:
                store_int(out, 2, 4, target.index)
                store_int(out, 3, 4, load_i32(out + 12) + target.shift)
            else:
                place = pool_place(g, view, length, job.fault)
                if place == NULL:
                    return -1
                memcpy(place, extents[load_i32(out + 8)].data + load_i32(out + 12), length)
                store_int(out, 2, 4, g.pools[view].open)
                store_int(out, 3, 4, g.pools[view].open_bytes - length)
        out += 16
    return 0


# -- the walk ------------------------------------------------------------------------------------------------


cdef int append_layout(ColumnsBuilder g, const Append* job, int32_t f) noexcept nogil:
    """Find the spans of the children of field f, then append its buffers, except validity."""
    cdef int layout = g.p.fields[f].layout
    cdef int32_t first = g.p.fields[f].first_buffer
    cdef Span inner
    if layout == LAYOUT_FIXED:
        return append_fixed(g, job, f)
    if (LAYOUTS[layout].n_children
            and span_children(job.piece, f, job.piece.nodes[f].null_count != 0, g.spans, &inner, job.fault) < 0):
        return -1
    if layout == LAYOUT_VAR32 or layout == LAYOUT_LIST32:
        return append_offsets(g, job, f, 4, &inner)
    if layout == LAYOUT_BOOL:
        return append_bools(g, job, f)
    if layout == LAYOUT_VIEW:
        return append_views(g, job, f)
    if layout == LAYOUT_VAR64 or layout == LAYOUT_LIST64:
        return append_offsets(g, job, f, 8, &inner)
    if is_list_view(layout):
        return append_list_view(g, job, f, LAYOUTS[layout].buffers[1].width, &inner)
    if layout == LAYOUT_DENSE:
        return append_dense(g, job, f)
    if layout == LAYOUT_RUN_END:
        return append_runs(g, job, f, &inner)
    if layout == LAYOUT_SPARSE:
        return copy_in(g, first, job.piece.extents[first].data + g.spans[f].start, g.spans[f].count, job.fault)
    return 0


cdef bint needs_native_order(const PlanData* p) noexcept nogil:
    """Whether appending reads offsets, views, run ends or indices: they must be in this machine's byte order."""
    cdef const FieldPlan* field
    cdef int32_t i
    for i in range(p.n_fields):
        field = &p.fields[i]
        if (field.layout == LAYOUT_RUN_END or field.flags & FIELD_ENCODED
                or (field.layout != LAYOUT_FIXED and alignment_of(field) > 1)):
            return True
    return False


cdef bint may_follow(Plan plan, Plan other) except -1:
    cdef bint same = same_shape(plan, other) and plan.d.keep_stored == other.d.keep_stored
    cdef int32_t i
    for i in range(plan.d.n_fields if same else 0):
        same &= plan.d.fields[i].dictionary == other.d.fields[i].dictionary
    return same


# -- builders ------------------------------------------------------------------------------------------------


@cython.final
cdef class ColumnsBuilder(BuilderMemory):
    """Columns that grow at the end. A piece may have another plan of the same shape. Only one thread may append.

    Columns that stay in big-endian (``ensure_native_endian=False``) and have offsets or indices are refused.
    """

    def __cinit__(self, Plan plan not None):
        if plan.d.stored_big and plan.d.keep_stored and needs_native_order(&plan.d):
            raise UnsupportedError("columns left in big-endian order cannot be appended to each other; read "
                                   "them with ensure_native_endian=True")
        self.matched = plan
        self.spans = <Span*> new_zeros(plan.d.n_fields, sizeof(Span))

    def __dealloc__(self):
        free(self.spans)
        free(self.targets)

    cdef int append_data(self, const ColumnsData* piece, PyObject* owner, Fault* fault) noexcept nogil:
        """Append all rows of `piece`, which has this plan's shape and has passed `check_sizes`.

        `owner` keeps the piece's memory alive: with it, large data buffers of views are borrowed, without it (NULL)
        they are copied. After a failure (-1, `fault` filled) a part may have been appended: a caller that goes on must
        call `restore`.
        """
        cdef Append job = Append(piece, owner, fault)
        cdef const PlanData* p = self.p
        cdef int64_t rows, length
        cdef int32_t i, f = 0
        cdef int layout
        if add_overflows(self.length, piece.length, &rows):
            return full(&job, -1, INT64_MAX, INT64_MAX, b"rows")
        for i in range(p.n_columns):
            if set_span(piece, p.columns[i], 0, piece.length, self.spans, fault) < 0:
                return -1
        while f < p.n_fields:
            if self.spans[f].count == 0:
                # Its children have no elements either; or it has the run ends, which its parent has appended.
                f = p.fields[f].end
                continue
            if add_overflows(self.nodes[f].length, self.spans[f].count, &length):
                return full(&job, f, INT64_MAX, INT64_MAX, b"elements")
            layout = p.fields[f].layout
            if layout == LAYOUT_NULL:
                self.nodes[f].null_count = length
            elif LAYOUTS[layout].has_validity and append_validity(self, &job, f) < 0:
                return -1
            if append_layout(self, &job, f) < 0:
                return -1
            self.nodes[f].length = length
            f += 1
        self.length = rows
        return 0

    cdef int append(self, Columns piece) except -1:
        """Append all rows of `piece`; the caller sets `dictionaries`."""
        cdef Fault fault
        if piece.plan is not self.matched:
            self.match(piece.plan)
        if self.append_data(&piece.d, <PyObject*> piece.owner if piece.owner is not None else NULL, &fault) < 0:
            raise_fault(&fault, self.plan)
        return 0

    cdef int match(self, Plan plan) except -1:
        if not may_follow(self.plan, plan):
            raise UsageError("the columns to append have another type than the columns so far, or share "
                             "their dictionaries differently")
        self.matched = plan
        return 0

    cdef Columns snapshot(self):
        cdef Columns out = Columns.__new__(Columns)
        self.snapshot_into(out)
        return out
