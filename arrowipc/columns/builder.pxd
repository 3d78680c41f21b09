# Columns that grow at the end, and what one append walks.
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.bits cimport SLACK, load_int, store_int
from arrowipc.inline.fault cimport FAULT_CHILD_LENGTH, FAULT_OFFSET, Fault, fail, fail_count
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport add_overflows, inside, load_i32, load_u32, unlikely
from arrowipc.inline.plan cimport LAYOUT_FIXED_LIST, ColumnsData, Extent, FieldPlan, Node, PlanData
from arrowipc.inline.room cimport Room

cdef struct Pool:
    # The variadic data buffers of one view field.
    int64_t bytes           # in all of them
    int64_t open_bytes      # used in the buffer that still takes data
    int64_t open_capacity
    int32_t open            # its index, -1: none
    int32_t count
    int32_t cursor          # where to look for the next borrowed buffer

cdef struct Undo:
    # What `restore` goes back to: a builder, and the memo table whose values it holds, as they were at the last `save`.
    void* state             # of the builder: nodes, sizes, pools
    int64_t length
    int32_t n_kept
    int64_t count           # of the table: values
    int64_t null_at
    int64_t spelled         # ... and the bytes of their spelling

cdef struct Buffers:
    # The extents of a pool; the first Pool.count are in use.
    Extent* extents
    int64_t room


cdef class SnapshotOwner:
    cdef object origin      # shared by all snapshots of one BuilderMemory: each is a prefix of the later ones
    cdef tuple memories
    cdef tuple kept


@cython.final
cdef class DeltaOrigin:
    """The `origin` of a dictionary that grows because DictionaryBatches with isDelta say so."""


cdef class BuilderMemory:
    cdef Plan plan
    cdef const PlanData* p          # plan.d
    cdef tuple dictionaries         # as in Columns
    cdef readonly int64_t length    # rows
    cdef double ahead               # rows expected in all per row so far, 0: not known
    cdef int64_t* wanted            # bytes that are known to come, per buffer of the plan, 0: not known
    cdef readonly int64_t moved     # bytes copied because blocks had to grow
    cdef void* block                # one allocation for everything down to `buffers`
    cdef Node* nodes                # the state that `restore` takes back: nodes, sizes, pools
    cdef int64_t* sizes             # bytes in use, per buffer of the plan
    cdef Pool* pools                # per view field
    cdef int64_t state_bytes
    cdef Undo undo
    cdef int32_t n_kept             # len(kept)
    cdef Room* blocks               # per buffer of the plan
    cdef Buffers* buffers           # per view field
    cdef list memories              # Memory or None, per buffer of the plan
    cdef list kept                  # Memory of view data, and owners of borrowed view data
    cdef object origin
    cdef SnapshotOwner shared       # owner of the next snapshot, None: to be made

    # Remember the state; go back to it, which is an empty builder before the first `save`. Snapshots that were taken in
    # between are void then.
    cdef void save(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef int64_t total_bytes(self) noexcept nogil
    cdef int snapshot_into(self, Columns out) except -1


cdef int grow_buffer(BuilderMemory g, int32_t buffer, int64_t extra, Fault* fault) noexcept with gil
cdef int pool_grow(BuilderMemory g, int32_t view, int64_t size, Fault* fault) noexcept with gil
# Lets `first`, whose values `g` has just copied, count as the first of its snapshots, which grow by deltas.
cdef int begin_deltas(BuilderMemory g, Columns first) except -1

cdef enum Beginning:
    # How a column is known to begin with the values of another one.
    BEGINS_NOT = 0
    BEGINS_VALUES           # value by value
    BEGINS_SNAPSHOT         # it is the same column, or a later snapshot of the same builder
    BEGINS_DELTAS           # ... to which only deltas have added

# A Beginning as far as snapshots show it, whatever became of the dictionaries below. `columns.equal` also looks at
# values.
cdef int begins_with_snapshot(Columns longer, Columns shorter)


cdef inline int reserve(BuilderMemory g, int32_t buffer, int64_t extra, Fault* fault) noexcept nogil:
    if unlikely(extra > g.blocks[buffer].size - SLACK - g.sizes[buffer], 0):
        return grow_buffer(g, buffer, extra, fault)
    return 0


cdef inline int copy_in(BuilderMemory g, int32_t buffer, const uint8_t* data, int64_t size,
                        Fault* fault) noexcept nogil:
    if size == 0:
        return 0
    if reserve(g, buffer, size, fault) < 0:
        return -1
    memcpy(g.blocks[buffer].data + g.sizes[buffer], data, size)
    g.sizes[buffer] += size
    return 0


cdef inline uint8_t* pool_place(BuilderMemory g, int32_t view, int64_t size, Fault* fault) noexcept nogil:
    """Room for `size` (> 0) bytes of view data, at pool.open_bytes - size; NULL when there is none."""
    cdef Pool* pool = &g.pools[view]
    if pool.open < 0 or size > pool.open_capacity - pool.open_bytes:
        if pool_grow(g, view, size, fault) < 0:
            return NULL
    pool.open_bytes += size
    pool.bytes += size
    return <uint8_t*> g.buffers[view].extents[pool.open].data + (pool.open_bytes - size)


cdef struct Span:
    # The elements of a field that are taken.
    int64_t start           # physical: node.offset is in it
    int64_t count


cdef inline int set_span(const ColumnsData* d, int32_t f, int64_t first, int64_t count, Span* spans,
                         Fault* fault) noexcept nogil:
    """Take elements first .. first + count of field f, which must have them."""
    if unlikely(not inside(first, count, d.nodes[f].length), 0):
        if add_overflows(first, count, &count):
            count = INT64_MAX
        return fail_count(fault, FAULT_CHILD_LENGTH, f, d.nodes[f].length, count)
    spans[f].start = d.nodes[f].offset + first
    spans[f].count = count
    return 0


cdef inline int set_children(const ColumnsData* d, int32_t f, Span* spans, Fault* fault) noexcept nogil:
    """Children of field f take the elements that the field takes; of a fixed-size list, `width` times as many."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    # No overflow: check_sizes has multiplied for the whole node.
    cdef int64_t times = field.width if field.layout == LAYOUT_FIXED_LIST else 1
    cdef int32_t child = f + 1
    while child < field.end:
        if set_span(d, child, spans[f].start * times, spans[f].count * times, spans, fault) < 0:
            return -1
        child = d.plan.fields[child].end
    return 0


cdef inline int span_offsets(const ColumnsData* d, int32_t f, int32_t width, const Span* span, Span* out,
                             Fault* fault) noexcept nogil:
    """Find the bytes, or elements of the child, of a span; only its first and last offset are checked."""
    cdef const Extent* extents = &d.extents[d.plan.fields[f].first_buffer + 1]
    cdef int64_t limit = d.nodes[f + 1].length if LAYOUTS[d.plan.fields[f].layout].n_children else extents[1].size
    cdef int64_t first = load_int(extents.data, span.start, width)
    cdef int64_t last = load_int(extents.data, span.start + span.count, width)
    if unlikely(first < 0, 0):
        return fail(fault, FAULT_OFFSET, f, 1, span.start, first, 0, b"less than")
    if unlikely(last < first, 0):
        return fail(fault, FAULT_OFFSET, f, 1, span.start + span.count, last, first, b"less than the first one,")
    if unlikely(last > limit, 0):
        return fail(fault, FAULT_OFFSET, f, 1, span.start + span.count, last, limit, b"past the end at")
    out.start, out.count = first, last - first
    return 0


# Let the children of field f take the elements that its span needs; `nulls`: some of the field's may be null. `inner`:
# what its lists, list views or runs have, from the first to the last element or run, counted from the child's first.
# Run ends take none: their parent does their work.
cdef int span_children(const ColumnsData* d, int32_t f, bint nulls, Span* spans, Span* inner,
                       Fault* fault) noexcept nogil
# Check the views of a span that point into data buffers, and add their sizes to those of the buffers, `stride` apart.
cdef int measure_views(const ColumnsData* d, int32_t f, const uint8_t* bits, const Span* span, int64_t* used,
                       int32_t stride, Fault* fault) noexcept nogil


cdef inline bint any_long(const uint8_t* views, int64_t count) noexcept nogil:
    """Whether some views are not inline; as unsigned, a negative length is a long one."""
    cdef int64_t i
    cdef bint found = False
    for i in range(count):
        found |= load_u32(views + 16 * i) > 12
    return found


cdef inline void move_members(uint8_t* out, const uint8_t* offsets, const uint8_t* codes, int64_t count,
                              const int8_t* ordinals, const int64_t* shifts) noexcept nogil:
    """Offsets of a dense union, each moved by its child's shift."""
    cdef int64_t i
    for i in range(count):
        store_int(out, i, 4, load_i32(offsets + 4 * i) + shifts[ordinals[codes[i] & 127]])


cdef inline void move_runs(uint8_t* out, const ColumnsData* d, int32_t f, const Span* runs, const Span* span,
                           int64_t base) noexcept nogil:
    """The ends of runs of a span, which begins at `base` now."""
    cdef const FieldPlan* field = &d.plan.fields[f + 1]
    cdef int32_t width = field.width
    cdef const uint8_t* ends = d.extents[field.first_buffer + 1].data + (d.nodes[f + 1].offset + runs.start) * width
    cdef int64_t i
    for i in range(runs.count):
        store_int(out, i, width, base + min(load_int(ends, i, width) - span.start, span.count))


cdef struct PoolTarget:
    # Where one variadic buffer of a piece goes.
    int64_t used            # bytes that the piece's views point at, counted once per view
    int64_t shift           # added to the offsets of its views
    int32_t index           # in the pool, -1: its values are copied one by one

cdef struct Append:
    # One append.
    const ColumnsData* piece
    const int64_t* shifts   # per ordinal of Plan.dictionaries, added to the indices; NULL: all 0
    PyObject* owner         # keeps the piece's memory alive; NULL: all of it is copied
    Fault* fault


cdef class ColumnsBuilder(BuilderMemory):
    cdef Span* spans                # per field
    cdef PoolTarget* targets        # scratch: per variadic buffer of one field of the piece
    cdef int64_t targets_room
    cdef Plan matched               # the last plan of a piece that has this one's shape

    cdef int append(self, Columns piece) except -1
    cdef int append_data(self, const ColumnsData* piece, const int64_t* shifts, PyObject* owner,
                         Fault* fault) noexcept nogil
    cdef Columns snapshot(self)
    cdef int match(self, Plan plan) except -1
