"""Truncating: exactly some rows of columns, in place where the format allows it and rewritten where not.

One walk over the flat plan, in pre-order as in `columns.builder`: each field takes a span of the source's elements
and hands spans to its children. What holds for the columns that a call leaves in `Truncator.d`:

* Every node's offset is 0, its length is what its parent refers to. Null counts are counted, not believed.
* Every extent is as large as its elements need, to the byte. A validity bitmap is there if and only if there
  are nulls. Bits behind the last element of a bitmap are zero.
* Offsets begin at 0 and there is always one more of them than elements, also for no elements; the lists and
  texts before the first one and behind the last one have no bytes in the child or in the data.
* An extent points into the source, or into static zeros, or into scratch memory, which is valid until the
  next call unless `keep` hands it over. The source is never written to.
* Columns that are like this already pass through without a copy. Views are the exception, see `cut_views`:
  their data buffers are kept whole or packed, and packing pays only where much of them is unused.

The source's contents are untrusted: what decides where bytes are read from, or how many, is checked before it
is followed. Offsets between the first and the last one are copied unchecked: a reader has to check them again.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory, Plan
from arrowipc.columns.builder cimport (
    Span, any_long, check_views, move_members, move_runs, span_children, span_offsets,
)
from arrowipc.columns.elements cimport check, check_native
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.bits cimport SLACK, append_bits, load_int, shift_offsets, store_int
from arrowipc.inline.element cimport run_end
from arrowipc.inline.fault cimport FAULT_COLUMN_LENGTH, FAULT_MEMORY, Fault, fail
from arrowipc.inline.layouts cimport BUFFER_OFFSETS, LAYOUTS, is_list_view
from arrowipc.inline.loads cimport add_overflows, bitmap_bytes, count_bits, get_bit, inside, load_i32, round_up
from arrowipc.inline.plan cimport (
    LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_LIST32, LAYOUT_LIST64, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE,
    LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node, PlanData, ViewRange, copy_tables,
    place_views,
)
from arrowipc.inline.room cimport reserve_items

from arrowipc.errors import UsageError

cdef extern from * nogil:
    """
    /* The one offset of an array without elements. */
    static const uint8_t arrowipc_no_offset[64] __attribute__((aligned(64))) = {0};
    """
    const uint8_t* NO_OFFSET "arrowipc_no_offset"

cdef enum:
    VIEW_SLACK = 1 << 12        # unused bytes behind views that are never worth packing
    FIRST_BLOCK = 1 << 12
    KEPT_BLOCK = 1 << 22        # the largest block that waits for the next call; _core keeps larger ones for reuse

cdef struct TruncateCall:
    # The arguments of one call of `truncate`.
    const ColumnsData* source
    Fault* fault


# -- scratch memory ------------------------------------------------------------------------------------------


cdef int add_block(Truncator t, int64_t size, Fault* fault) noexcept with gil:
    """Add a block of scratch with room for at least `size` bytes; the last one stays, because buffers point into it."""
    cdef Memory memory = None
    cdef int64_t capacity = max(size, min(max(t.taken, t.wanted, FIRST_BLOCK), KEPT_BLOCK))
    try:
        memory = Memory.__new__(Memory)
        memory.reserve(capacity)
        t.blocks.append(memory)
    except MemoryError:
        return fail(fault, FAULT_MEMORY)
    t.at = memory.data
    t.left = t.only_room = memory.capacity
    t.only = memory.data if len(t.blocks) == 1 and memory.capacity <= KEPT_BLOCK else NULL
    return 0


cdef inline uint8_t* take_scratch(Truncator t, int64_t size, Fault* fault) noexcept nogil:
    """64-byte aligned scratch of `size` bytes, with SLACK more behind them; NULL: there is no memory.

    `size` is that of a buffer of the source, or a small multiple of it, so no sum here overflows.
    """
    cdef uint8_t* out
    size = round_up(size + SLACK, 64)
    if size > t.left and add_block(t, size, fault) < 0:
        return NULL
    out = t.at
    t.at += size
    t.left -= size
    t.taken += size
    return out


cdef inline void give_scratch_back(Truncator t, int64_t size) noexcept nogil:
    """Make the scratch of `size` bytes that was taken last free again."""
    size = round_up(size + SLACK, 64)
    t.at -= size
    t.left += size
    t.taken -= size


cdef void recycle(Truncator t) noexcept nogil:
    """Make the scratch of the last call free for the next one: a block of moderate size, or none."""
    t.wanted = min(t.taken, KEPT_BLOCK)
    t.taken = 0
    if t.only == NULL:
        # The next call allocates one block of `wanted` bytes.
        with gil:
            t.blocks.clear()
    t.at = t.only
    t.left = t.only_room if t.only != NULL else 0


cdef inline void arrange_tables(Truncator t) noexcept nogil:
    """Find the tables in the block that begins with the nodes: spans, views, and last the extents, which may grow."""
    t.spans = <Span*> (t.d.nodes + t.d.plan.n_fields)
    t.d.views = <ViewRange*> (t.spans + t.d.plan.n_fields)
    t.d.extents = <Extent*> (t.d.views + t.d.plan.n_views)


cdef int more_extents(Truncator t, int32_t count, Fault* fault) noexcept nogil:
    """Make room for `count` more extents; pointers to nodes, spans, views and extents are void after this."""
    cdef int64_t needed = <int64_t> t.d.n_extents + count, before = <uint8_t*> t.d.extents - <uint8_t*> t.d.nodes
    if (needed > INT32_MAX
            or reserve_items(<void**> &t.d.nodes, &t.room, before + needed * <int64_t> sizeof(Extent), 1) < 0):
        return fail(fault, FAULT_MEMORY)
    arrange_tables(t)
    return 0


# -- what the layouts share ----------------------------------------------------------------------------------


cdef int32_t leave_empty(Truncator t, int32_t f) noexcept nogil:
    """Leave no elements in field f and all below it; returns the field behind them."""
    cdef const PlanData* p = t.d.plan
    cdef const FieldPlan* field
    cdef Extent* extents
    cdef int32_t end = p.fields[f].end, k
    while f < end:
        field = &p.fields[f]
        memset(&t.d.nodes[f], 0, sizeof(Node))
        extents = &t.d.extents[field.first_buffer]
        for k in range(field.n_buffers):
            extents[k] = Extent(NULL, 0)
            if LAYOUTS[field.layout].buffers[k].kind == BUFFER_OFFSETS:
                extents[k] = Extent(NO_OFFSET, LAYOUTS[field.layout].buffers[k].width)
        if field.view >= 0:
            place_views(&t.d, f, NULL, 0, t.d.n_extents)
        f += 1
    return end


cdef int cut_bits(Truncator t, const Extent* source, int64_t start, int64_t count, Extent* out,
                  Fault* fault) noexcept nogil:
    """Set `out` to `count` (> 0) bits with zeros up to the end of the last byte, copied only if they have to be."""
    cdef int64_t size = bitmap_bytes(count)
    cdef const uint8_t* bits = source.data + (start >> 3)
    cdef uint8_t* copy
    out[0] = Extent(bits, size)
    if (start & 7) == 0 and ((count & 7) == 0 or bits[size - 1] >> (count & 7) == 0):
        return 0
    copy = take_scratch(t, size, fault)
    if copy == NULL:
        return -1
    append_bits(copy, 0, source.data, start, count)
    out.data = copy
    return 0


cdef int cut_validity(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Count the nulls of field f, whose source has a bitmap, and cut the bitmap."""
    cdef int32_t buffer = t.d.plan.fields[f].first_buffer
    cdef const Extent* source = &cut.source.extents[buffer]
    cdef int64_t start = t.spans[f].start, count = t.spans[f].count
    cdef int64_t nulls = count - count_bits(source.data, start, count)
    if nulls == 0:
        t.d.extents[buffer] = Extent(NULL, 0)
        return 0
    t.d.nodes[f].null_count = nulls
    return cut_bits(t, source, start, count, &t.d.extents[buffer], cut.fault)


cdef inline const uint8_t* validity_of(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """The source's bitmap of field f, NULL when the span has no nulls."""
    return cut.source.extents[t.d.plan.fields[f].first_buffer].data if t.d.nodes[f].null_count else NULL


# -- offsets, lists, unions, runs ----------------------------------------------------------------------------


cdef inline int cut_offsets(Truncator t, const TruncateCall* cut, int32_t f, int32_t width,
                            Span* inner) noexcept nogil:
    """Cut offsets, and for text the bytes between them; for lists, `inner` is the span of their elements."""
    cdef int32_t buffer = t.d.plan.fields[f].first_buffer + 1
    cdef int64_t size = (t.spans[f].count + 1) * width
    cdef const uint8_t* offsets = cut.source.extents[buffer].data + t.spans[f].start * width
    cdef uint8_t* copy
    cdef bint is_list = LAYOUTS[t.d.plan.fields[f].layout].n_children == 1
    if not is_list and span_offsets(cut.source, f, width, &t.spans[f], inner, cut.fault) < 0:
        return -1
    t.d.extents[buffer] = Extent(offsets, size)
    if inner.start:
        copy = take_scratch(t, size, cut.fault)
        if copy == NULL:
            return -1
        shift_offsets(copy, offsets, t.spans[f].count + 1, width, -inner.start)
        t.d.extents[buffer].data = copy
    if not is_list:
        t.d.extents[buffer + 1] = Extent(cut.source.extents[buffer + 1].data + inner.start, inner.count)
    return 0


cdef bint lie_inside(const uint8_t* offsets, const uint8_t* sizes, int64_t count, int32_t width,
                     int64_t limit) noexcept nogil:
    cdef int64_t i
    cdef bint found = True
    for i in range(count):
        found &= inside(load_int(offsets, i, width), load_int(sizes, i, width), limit)
    return found


cdef int cut_list_view(Truncator t, const TruncateCall* cut, int32_t f, int32_t width,
                       const Span* inner) noexcept nogil:
    """Cut list views; the child keeps the elements from the lowest to the highest one in use.

    Only valid, non-empty lists use elements. The others need not be touched as long as they, too, lie inside
    the elements that the child keeps; else they become empty lists at 0.
    """
    cdef int32_t buffer = t.d.plan.fields[f].first_buffer + 1
    cdef const uint8_t* bits = validity_of(t, cut, f)
    cdef int64_t start = t.spans[f].start, count = t.spans[f].count, i, size
    cdef Extent* out = &t.d.extents[buffer]
    cdef const uint8_t* offsets = cut.source.extents[buffer].data + start * width
    cdef const uint8_t* sizes = cut.source.extents[buffer + 1].data + start * width
    cdef uint8_t* copy
    out[0].data, out[1].data = offsets, sizes
    out[0].size = out[1].size = count * width
    if inner.start or not lie_inside(offsets, sizes, count, width, inner.count):
        copy = take_scratch(t, 2 * count * width, cut.fault)
        if copy == NULL:
            return -1
        out[0].data, out[1].data = copy, copy + count * width
        for i in range(count):
            size = load_int(sizes, i, width) if bits == NULL or get_bit(bits, start + i) else 0
            store_int(copy, i, width, load_int(offsets, i, width) - inner.start if size else 0)
            store_int(copy, count + i, width, size)
    return 0


cdef int cut_dense(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Cut a dense union; each child keeps the elements from its lowest to its highest offset in use."""
    cdef const FieldPlan* field = &t.d.plan.fields[f]
    cdef const Extent* source = &cut.source.extents[field.first_buffer]
    cdef Extent* out = &t.d.extents[field.first_buffer]
    cdef int64_t count = t.spans[f].count
    cdef int64_t shifts[128]
    cdef uint8_t* copy
    cdef int32_t child = f + 1, k
    cdef bint moved = False
    memset(shifts, 0, sizeof(shifts))
    out[0] = Extent(source[0].data + t.spans[f].start, count)
    out[1] = Extent(source[1].data + 4 * t.spans[f].start, 4 * count)
    for k in range(field.n_children):
        if t.spans[child].count:
            shifts[k] = cut.source.nodes[child].offset - t.spans[child].start
            moved |= shifts[k] != 0
        child = t.d.plan.fields[child].end
    if moved:
        copy = take_scratch(t, 4 * count, cut.fault)
        if copy == NULL:
            return -1
        move_members(copy, out[1].data, out[0].data, count, t.d.plan.codes + 128 * field.codes, shifts)
        out[1].data = copy
    return 0


cdef int cut_runs(Truncator t, const TruncateCall* cut, int32_t f, const Span* runs) noexcept nogil:
    """Cut to the runs that the span touches: fill the child that has the run ends."""
    cdef const FieldPlan* ends = &t.d.plan.fields[f + 1]
    cdef const ColumnsData* d = cut.source
    cdef Extent* out = &t.d.extents[ends.first_buffer]
    cdef uint8_t* copy
    t.d.nodes[f + 1] = Node(runs.count, 0, 0)
    out[0] = Extent(NULL, 0)
    out[1] = Extent(d.extents[ends.first_buffer + 1].data + (d.nodes[f + 1].offset + runs.start) * ends.width,
                    runs.count * ends.width)
    if t.spans[f].start or run_end(d, f, runs.start + runs.count - 1) != t.spans[f].count:
        copy = take_scratch(t, out[1].size, cut.fault)
        if copy == NULL:
            return -1
        move_runs(copy, d, f, runs, &t.spans[f], 0)
        out[1].data = copy
    return 0


# -- views ---------------------------------------------------------------------------------------------------


cdef int cut_views(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Cut views, which keep all data buffers of the source; pack them into new ones if too little of those is used."""
    cdef const FieldPlan* field = &t.d.plan.fields[f]
    cdef const ViewRange* source = &cut.source.views[field.view]
    cdef const Extent* buffers = cut.source.extents + source.first
    cdef Extent* out = &t.d.extents[field.first_buffer + 1]
    cdef const Span* span = &t.spans[f]
    cdef const uint8_t* views = cut.source.extents[field.first_buffer + 1].data + 16 * span.start
    cdef int64_t total = 0, used = 0
    cdef int32_t k
    out[0] = Extent(views, 16 * span.count)
    place_views(&t.d, f, NULL, 0, t.d.n_extents)
    for k in range(source.count):
        if add_overflows(total, buffers[k].size, &total):
            total = INT64_MAX
            break
    if any_long(views, span.count):
        out.data = take_scratch(t, out.size, cut.fault)
        if (out.data == NULL
                or check_views(<uint8_t*> out.data, cut.source, f, span, &used, 0, cut.fault) < 0
                or more_extents(t, source.count, cut.fault) < 0):
            return -1
        if t.tight:
            total = find_windows(t, cut, f)
        # Views may share bytes: packed, they must not take more than the buffers do.
        if used <= total and <double> total > t.view_waste * <double> used + VIEW_SLACK:
            return pack_views(t, cut, f, used)
        if t.tight:
            return move_to_windows(t, cut, f)
        give_scratch_back(t, 16 * t.spans[f].count)
        t.d.extents[field.first_buffer + 1].data = views
    elif t.tight or total > VIEW_SLACK:
        return 0
    if more_extents(t, source.count, cut.fault) < 0:
        return -1
    t.d.n_extents = place_views(&t.d, f, cut.source, f, t.d.n_extents)
    return 0


cdef int64_t find_windows(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Find the bytes of each data buffer from the first to the last one in use; these windows go behind the extents.

    Returns the sum of their sizes. Values that share bytes still share them. All views have been checked.
    """
    cdef const ViewRange* source = &cut.source.views[t.d.plan.fields[f].view]
    cdef const uint8_t* views = t.d.extents[t.d.plan.fields[f].first_buffer + 1].data
    cdef const uint8_t* place
    cdef Extent* windows = t.d.extents + t.d.n_extents
    cdef Extent* window
    cdef int64_t i, length, total = 0
    memset(windows, 0, source.count * sizeof(Extent))
    for i in range(t.spans[f].count):
        length = load_i32(views + 16 * i)
        if length <= 12:
            continue
        window = &windows[load_i32(views + 16 * i + 8)]
        place = cut.source.extents[source.first + load_i32(views + 16 * i + 8)].data + load_i32(views + 16 * i + 12)
        total -= window.size
        if window.size == 0 or place < window.data:
            window.size += window.data - place if window.size else 0
            window.data = place
        window.size = max(window.size, place + length - window.data)
        total += window.size
    return total


cdef int move_to_windows(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Let views point into the windows that `find_windows` has left, without the buffers that no view uses."""
    cdef const ViewRange* source = &cut.source.views[t.d.plan.fields[f].view]
    cdef uint8_t* views = <uint8_t*> t.d.extents[t.d.plan.fields[f].first_buffer + 1].data
    cdef Extent* windows = t.d.extents + t.d.n_extents
    cdef int32_t* places = <int32_t*> take_scratch(t, 4 * <int64_t> source.count, cut.fault)
    cdef int32_t k, kept = 0
    cdef int64_t i
    if places == NULL:
        return -1
    for k in range(source.count):
        places[k] = kept
        if windows[k].size:
            windows[kept] = windows[k]
            kept += 1
    for i in range(t.spans[f].count):
        if load_i32(views) > 12:
            k = load_i32(views + 8)
            store_int(views, 2, 4, places[k])
            store_int(views, 3, 4, load_i32(views + 12) - (windows[places[k]].data
                                                           - cut.source.extents[source.first + k].data))
        views += 16
    t.d.n_extents += kept
    t.d.views[t.d.plan.fields[f].view].count = kept
    return 0


cdef uint8_t* open_buffer(Truncator t, int32_t view, int64_t size, Fault* fault) noexcept nogil:
    """Add a data buffer of `size` bytes behind those of the view field, and return it; NULL: there is no memory."""
    cdef uint8_t* data
    if more_extents(t, 1, fault) < 0:
        return NULL
    data = take_scratch(t, size, fault)
    if data == NULL:
        return NULL
    t.d.extents[t.d.n_extents] = Extent(data, 0)
    t.d.n_extents += 1
    t.d.views[view].count += 1
    return data


cdef int pack_views(Truncator t, const TruncateCall* cut, int32_t f, int64_t used) noexcept nogil:
    """Copy the `used` bytes that views point at, one value behind the other; all views have been checked."""
    cdef int32_t view = t.d.plan.fields[f].view
    cdef const Extent* buffers = cut.source.extents + cut.source.views[view].first
    cdef int64_t i, length, filled = 0, capacity = 0
    cdef uint8_t* views = <uint8_t*> t.d.extents[t.d.plan.fields[f].first_buffer + 1].data
    cdef uint8_t* data = NULL
    for i in range(t.spans[f].count):
        length = load_i32(views)
        if length > 12:
            if length > capacity - filled:
                capacity = max(length, min(used, t.largest))
                filled = 0
                data = open_buffer(t, view, capacity, cut.fault)
                if data == NULL:
                    return -1
            memcpy(data + filled, buffers[load_i32(views + 8)].data + load_i32(views + 12), length)
            store_int(views, 2, 4, t.d.views[view].count - 1)
            store_int(views, 3, 4, filled)
            filled += length
            used -= length
            t.d.extents[t.d.n_extents - 1].size = filled
        views += 16
    return 0


# -- the walk ------------------------------------------------------------------------------------------------


cdef inline int cut_layout(Truncator t, const TruncateCall* cut, int32_t f, int layout) noexcept nogil:
    """Find the spans of the children of field f, then cut its buffers, except validity."""
    cdef const FieldPlan* field = &t.d.plan.fields[f]
    cdef int32_t first = field.first_buffer
    cdef int64_t start = t.spans[f].start, count = t.spans[f].count
    cdef Span inner
    if (LAYOUTS[layout].n_children
            and span_children(cut.source, f, t.d.nodes[f].null_count != 0, t.spans, &inner, cut.fault) < 0):
        return -1
    if layout == LAYOUT_FIXED:
        t.d.extents[first + 1] = Extent(cut.source.extents[first + 1].data + start * field.width, count * field.width)
        return 0
    elif layout == LAYOUT_VAR32 or layout == LAYOUT_LIST32:
        return cut_offsets(t, cut, f, 4, &inner)
    elif layout == LAYOUT_VAR64 or layout == LAYOUT_LIST64:
        return cut_offsets(t, cut, f, 8, &inner)
    elif layout == LAYOUT_BOOL:
        return cut_bits(t, &cut.source.extents[first + 1], start, count, &t.d.extents[first + 1], cut.fault)
    elif layout == LAYOUT_VIEW:
        return cut_views(t, cut, f)
    elif is_list_view(layout):
        return cut_list_view(t, cut, f, LAYOUTS[layout].buffers[1].width, &inner)
    elif layout == LAYOUT_DENSE:
        return cut_dense(t, cut, f)
    elif layout == LAYOUT_RUN_END:
        return cut_runs(t, cut, f, &inner)
    elif layout == LAYOUT_SPARSE:
        t.d.extents[first] = Extent(cut.source.extents[first].data + start, count)
    elif layout == LAYOUT_NULL:
        t.d.nodes[f].null_count = count
    return 0


cdef int32_t cut_field(Truncator t, const TruncateCall* cut, int32_t f) noexcept nogil:
    """Cut field f of any layout; return the field to go on with, -1 for a fault."""
    cdef int32_t first = t.d.plan.fields[f].first_buffer
    cdef int layout = t.d.plan.fields[f].layout
    cdef Node* node = &t.d.nodes[f]
    if t.spans[f].count == 0:
        return leave_empty(t, f)
    node[0] = Node(t.spans[f].count, 0, 0)
    if LAYOUTS[layout].has_validity:
        if cut.source.extents[first].data == NULL:
            t.d.extents[first] = Extent(NULL, 0)
        elif cut_validity(t, cut, f) < 0:
            return -1
    if cut_layout(t, cut, f, layout) < 0:
        return -1
    # Run ends have no children, and their parent has done their work.
    return f + (1 if layout != LAYOUT_RUN_END else 2)


cdef inline bint cut_plain(const FieldPlan* field, const Extent* source, int64_t start, int64_t count,
                           Node* node, Extent* out) noexcept nogil:
    """Cut a column as most are: numbers or text without nulls, of which nothing has to be moved or refused.

    False: the column is different, and `cut_field` has to cut it.
    """
    cdef const uint8_t* offsets
    cdef int64_t last
    cdef int layout = field.layout
    # The last fields may have no buffers at all, so that nothing lies at `source`.
    if (layout != LAYOUT_FIXED and layout != LAYOUT_VAR32) or count == 0 or source[0].data != NULL:
        return False
    if layout == LAYOUT_FIXED:
        out[1] = Extent(source[1].data + start * field.width, count * field.width)
    else:
        offsets = source[1].data + 4 * start
        last = load_i32(offsets + 4 * count)
        if load_i32(offsets) != 0 or last < 0 or last > source[2].size:
            return False
        out[1] = Extent(offsets, 4 * count + 4)
        out[2] = Extent(source[2].data, last)
    node[0] = Node(count, 0, 0)
    out[0] = Extent(NULL, 0)
    return True


cdef int cut_fields(Truncator t, const TruncateCall* cut) noexcept nogil:
    # Locals, because a store to any of these would make the compiler load the others again.
    cdef const FieldPlan* fields = t.d.plan.fields
    cdef const Extent* source = cut.source.extents
    cdef const Span* spans = t.spans
    cdef Node* nodes = t.d.nodes
    cdef Extent* extents = t.d.extents
    cdef int32_t f = 0, n_fields = t.d.plan.n_fields, first
    while f < n_fields:
        first = fields[f].first_buffer
        if cut_plain(&fields[f], source + first, spans[f].start, spans[f].count, &nodes[f], extents + first):
            f += 1
            continue
        f = cut_field(t, cut, f)
        if f < 0:
            return -1
        # Adding data buffers of views may have moved these tables.
        spans = t.spans
        nodes = t.d.nodes
        extents = t.d.extents
    return 0


cdef class Truncator:
    """Cuts columns of one plan down to a range of rows; made once per writer, used for every batch."""

    def __cinit__(self, Plan plan not None):
        cdef int64_t size = (plan.d.n_fields * <int64_t> (sizeof(Node) + sizeof(Span))
                             + plan.d.n_views * <int64_t> (sizeof(ViewRange) + 2 * sizeof(Extent))
                             + plan.d.n_buffers * <int64_t> sizeof(Extent))
        if reserve_items(<void**> &self.d.nodes, &self.room, size, 1) < 0:
            raise MemoryError(f"cannot allocate columns of {plan.d.n_fields:,} fields")
        self.plan = plan
        self.d.plan = &plan.d
        arrange_tables(self)
        self.view_waste = 2.0
        self.largest = INT32_MAX
        self.blocks = []

    def __dealloc__(self):
        free(self.d.nodes)

    cdef int truncate(self, const ColumnsData* source, int64_t start, int64_t count, Fault* fault) noexcept nogil:
        cdef const int32_t* columns = self.d.plan.columns
        cdef int32_t i, n_columns = self.d.plan.n_columns
        cdef const Node* nodes = source.nodes
        cdef Span* spans = self.spans
        cdef TruncateCall cut
        if self.taken:
            recycle(self)
        if not inside(start, count, source.length):
            return fail(fault, FAULT_COLUMN_LENGTH, -1, -1, start, source.length, count, NULL)
        cut.source = source
        cut.fault = fault
        self.d.length = count
        self.d.n_extents = self.d.plan.n_buffers
        for i in range(n_columns):
            # Columns are as long as the batch.
            spans[columns[i]].start = nodes[columns[i]].offset + start
            spans[columns[i]].count = count
        return cut_fields(self, &cut)

    cdef object keep(self):
        cdef list kept = self.blocks
        if self.taken == 0:
            return None
        self.wanted = min(self.taken, KEPT_BLOCK)
        self.taken = 0
        self.blocks = []
        self.at = self.only = NULL
        self.left = 0
        return kept

    # For Python: tests, and callers that cut many batches of one reader.

    @staticmethod
    def like(RecordBatch batch not None, *, double view_waste=2.0, int64_t largest_buffer=INT32_MAX):
        """A truncator for batches of the same reader as `batch`; the options are those of `compact`."""
        cdef Truncator truncator
        check_native(batch, "compact()")
        if not view_waste >= 0:
            raise UsageError(f"compact: view_waste must be 0 or more, found {view_waste}")
        if not 0 < largest_buffer <= INT32_MAX:
            raise UsageError(f"compact: largest_buffer must be 1..{INT32_MAX}, found {largest_buffer}")
        truncator = Truncator(batch.plan)
        truncator.view_waste = view_waste
        truncator.largest = largest_buffer
        return truncator

    def rows(self, RecordBatch batch not None, int64_t start, int64_t count):
        """Rows [start, start + count) as a batch of their own, as `compact` makes it."""
        cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
        cdef Fault fault
        cdef int found
        if batch.plan is not self.plan:
            raise UsageError("this truncator was made for batches of another reader")
        if not inside(start, count, batch.d.length):
            raise UsageError(f"rows {start}..+{count} lie outside a batch of {batch.d.length}")
        with nogil:     # batches do not change, and no truncator is shared
            found = self.truncate(&batch.d, start, count, &fault)
        check(found, &fault, batch)
        out.allocate(batch.plan, self.d.n_extents - self.d.plan.n_buffers)
        copy_tables(&out.d, &self.d)
        out.d.length = count
        out.dictionaries = batch.dictionaries
        out.metadata_pairs = batch.metadata_pairs
        kept = self.keep()
        out.owner = batch.owner if kept is None else (batch.owner, kept)
        return out


def compact(RecordBatch batch not None, *, double view_waste=2.0, int64_t largest_buffer=INT32_MAX):
    """Return the same rows in exactly the memory that they need, as a writer would store them.

    Values of view types are copied together, into buffers of `largest_buffer` bytes at most, when the data buffers
    of their column hold more than `view_waste` times the bytes in use, and 4 KiB. Dictionaries stay as they are.
    """
    cdef Truncator truncator = Truncator.like(batch, view_waste=view_waste, largest_buffer=largest_buffer)
    return truncator.rows(batch, 0, batch.d.length)
