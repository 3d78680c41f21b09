# Columns that grow at the end, and the structs and functions of one append.
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.bits cimport SLACK, load_int, store_int
from arrowipc.inline.fault cimport FAULT_CHILD_LENGTH, FAULT_OFFSET, Fault, fail, fail_count
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport add_overflows, inside, load_i32, load_u32, unlikely
from arrowipc.inline.plan cimport ColumnsData, Extent, FieldPlan, Node, PlanData
from arrowipc.inline.room cimport Room

cdef struct Pool:
    # The variadic data buffers of one view field.
    int64_t bytes           # in all of them
    int64_t open_bytes      # used in the buffer that still takes data
    int64_t open_capacity
    int32_t open            # index of that buffer, -1: none
    int32_t count
    int32_t cursor          # where to look for the next borrowed buffer

cdef struct Undo:
    # The state at the last `save`, of a builder and of the memo table whose values it holds; `restore` goes back to it.
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
    """The `origin` of a dictionary that grows by DictionaryBatches with isDelta."""


cdef class BuilderMemory:
    cdef Plan plan
    cdef const PlanData* p          # plan.d
    cdef tuple dictionaries         # as in Columns
    cdef readonly int64_t length    # rows
    cdef double ahead               # rows expected in all, divided by the rows so far; 0: not known
    cdef int64_t* wanted            # bytes that a buffer will have in the end, per buffer of the plan; 0: not known
    cdef readonly int64_t moved     # bytes copied because blocks had to grow
    cdef void* block                # one allocation for everything down to `buffers`
    cdef Node* nodes                # begins the state that `restore` sets back: nodes, sizes, pools
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

    # `save` remembers the state. `restore` goes back to it (before the first `save`: to an empty builder); snapshots
    # that were taken in between are void then.
    cdef void save(self) noexcept nogil
    cdef void restore(self) noexcept nogil
    cdef int64_t total_bytes(self) noexcept nogil
    cdef int snapshot_into(self, Columns out) except -1


cdef int grow_buffer(BuilderMemory g, int32_t buffer, int64_t extra, Fault* fault) noexcept with gil
cdef int pool_grow(BuilderMemory g, int32_t view, int64_t size, Fault* fault) noexcept with gil
# Make `first`, whose values `g` has just copied, count as the first snapshot of `g`; snapshots of `g` grow by deltas.
cdef int begin_deltas(BuilderMemory g, Columns first) except -1

cdef enum Beginning:
    # Whether, and how, a column is known to begin with the values of another one.
    BEGINS_NOT = 0
    BEGINS_VALUES           # value by value
    BEGINS_SNAPSHOT         # it is the same column, or a later snapshot of the same builder
    BEGINS_DELTAS           # ... and only deltas have added values since

# Return the Beginning that the snapshots alone prove; nested dictionaries are not considered. `columns.equal` also
# compares values.
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
    """Return room for `size` (> 0) bytes of view data, at pool.open_bytes - size; NULL: there is no memory."""
    cdef Pool* pool = &g.pools[view]
    if pool.open < 0 or size > pool.open_capacity - pool.open_bytes:
        if pool_grow(g, view, size, fault) < 0:
            return NULL
    pool.open_bytes += size
    pool.bytes += size
    return <uint8_t*> g.buffers[view].extents[pool.open].data + (pool.open_bytes - size)


cdef struct Span:
    # The elements of a field that are taken.
    int64_t start           # physical: includes node.offset
    int64_t count


cdef inline int set_span(const ColumnsData* d, int32_t f, int64_t first, int64_t count, Span* spans,
                         Fault* fault) noexcept nogil:
    """Let field f take its elements first .. first + count; fail if it does not have them."""
    if unlikely(not inside(first, count, d.nodes[f].length), 0):
        if add_overflows(first, count, &count):
            count = INT64_MAX
        return fail_count(fault, FAULT_CHILD_LENGTH, f, d.nodes[f].length, count)
    spans[f].start = d.nodes[f].offset + first
    spans[f].count = count
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


# Let the children of field f take the elements that the span of f needs; `nulls`: elements of f may be null. `inner`
# gets the elements of its lists or list views, or its runs, from the first to the last one in use, counted from the
# child's first. The run ends take no elements: their parent handles them.
cdef int span_children(const ColumnsData* d, int32_t f, bint nulls, Span* spans, Span* inner,
                       Fault* fault) noexcept nogil
# Copy the views of a span, and check the copies, since others may write to the memory that was read; nulls are emptied.
# The size of each view that points into a data buffer is added to `used` of it: these sums are `stride` integers apart.
cdef int check_views(uint8_t* out, const ColumnsData* d, int32_t f, const Span* span, int64_t* used, int32_t stride,
                     Fault* fault) noexcept nogil


cdef inline bint any_long(const uint8_t* views, int64_t count) noexcept nogil:
    """Return whether some views are not inline; a negative length counts as long, because it is read as unsigned."""
    cdef int64_t i
    cdef bint found = False
    for i in range(count):
        found |= load_u32(views + 16 * i) > 12
    return found


cdef inline void move_members(uint8_t* out, const uint8_t* offsets, const uint8_t* codes, int64_t count,
                              const int8_t* ordinals, const int64_t* shifts) noexcept nogil:
    """Write the offsets of a dense union, each moved by its child's shift.

    `shifts` are 128: a code that others write to the source after its check may belong to no child (-1).
    """
    cdef int64_t i
    for i in range(count):
        store_int(out, i, 4, load_i32(offsets + 4 * i) + shifts[ordinals[codes[i] & 127] & 127])


cdef inline void move_runs(uint8_t* out, const ColumnsData* d, int32_t f, const Span* runs, const Span* span,
                           int64_t base) noexcept nogil:
    """Write the run ends of a span, which begins at `base` in the output."""
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
    # The arguments of one append.
    const ColumnsData* piece
    PyObject* owner         # keeps the piece's memory alive; NULL: all of it is copied
    Fault* fault


# Return whether columns of two plans go into one: they have the same shape, and their fields share dictionaries alike.
cdef bint may_follow(Plan plan, Plan other) except -1


cdef class ColumnsBuilder(BuilderMemory):
    cdef Span* spans                # per field
    cdef PoolTarget* targets        # scratch: per variadic buffer of one field of the piece
    cdef int64_t targets_room
    cdef Plan matched               # the plan of the last piece; it has the shape of `plan`

    # Append all rows of `piece`: `append` raises errors and keeps the owner, `append_data` needs no GIL. `snapshot`
    # returns everything so far.
    cdef int append(self, Columns piece) except -1
    cdef int append_data(self, const ColumnsData* piece, PyObject* owner, Fault* fault) noexcept nogil
    cdef Columns snapshot(self)
    # Refuse a plan that has another shape; to be called before `append_data` gets pieces of a new plan.
    cdef int match(self, Plan plan) except -1
