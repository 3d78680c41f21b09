"""The memory of columns that grow: blocks that double, data buffers of views, and snapshots that share them.

A block that is full is never moved: a larger one takes a copy and the old one stays with the snapshots that
point at it, so all copying together stays linear. Data buffers of views are not even copied: a view may point
into any of many buffers, so the full one is closed and the next one opened, twice as large.

Nothing here writes to bytes that a snapshot can see; `columns.concat`, which fills the blocks, says what it does to
the last byte of a bitmap.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from arrowipc._core cimport Columns, Memory, Plan
from arrowipc.inline.bits cimport SLACK, load_int, ones
from arrowipc.inline.fault cimport FAULT_MEMORY, Fault, fail
from arrowipc.inline.loads cimport bitmap_bytes, count_bits
from arrowipc.inline.plan cimport (
    LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_LIST32, LAYOUT_LIST64,
    LAYOUT_LIST_VIEW32, LAYOUT_LIST_VIEW64, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT,
    LAYOUT_VAR64, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node,
)

from arrowipc.errors import UnsupportedError

# Blocks of these sizes grow fourfold instead of twofold.
cdef int64_t STEEP_FROM = 1 << 16
cdef int64_t STEEP_TO = 1 << 26

# A block of so many bytes is no loss where fewer turn out to be needed.
cdef int64_t SMALL = 1 << 12

# Data buffers of view fields double from the one size to the other: few buffers, and little unused room.
cdef int64_t POOL_SMALLEST = 1 << 10
cdef int64_t POOL_LARGEST = 1 << 25


cdef Memory new_memory(int64_t wanted, int64_t least):
    """A block of `wanted` bytes, or of `least` where there is not as much."""
    cdef Memory memory = Memory.__new__(Memory)
    try:
        memory.reserve(wanted)
    except MemoryError:
        memory.reserve(least)
    return memory


cdef int grow(BuilderMemory g, int32_t buffer, int64_t extra, Fault* fault) noexcept with gil:
    """Give a buffer a block with room for `extra` more bytes; the old one stays with whoever points at it."""
    cdef Memory memory
    cdef int64_t used = g.sizes[buffer], capacity = g.blocks[buffer].capacity, least = used + extra + SLACK
    if extra > INT64_MAX // 16 - used:
        return fail(fault, FAULT_MEMORY)
    # Unless more is known to come, the first block is as large as its first piece: many columns never get a
    # second one. Room that nobody touches has no pages behind it, so that larger blocks may grow in larger steps, with
    # less to copy.
    capacity = max(least, capacity * (4 if STEEP_FROM <= capacity < STEEP_TO else 2))
    # Where more is known to come, as much room for it as the rows so far needed; within bounds, because they
    # may be the long ones.
    capacity = max(capacity, min(max(8 * least, SMALL), <int64_t> (g.ahead * 1.0625 * least)))
    try:
        memory = new_memory(capacity, least)
    except MemoryError:
        return fail(fault, FAULT_MEMORY)
    if used:
        memcpy(memory.data, g.blocks[buffer].data, used)
    g.memories[buffer] = memory
    g.moved += used
    g.blocks[buffer].data = memory.data
    g.blocks[buffer].capacity = memory.capacity
    g.shared = None
    return 0


cdef int pool_entry(BuilderMemory g, int32_t view, const uint8_t* data, int64_t size,
                    Fault* fault) noexcept nogil:
    """One more data buffer of a view field."""
    cdef Buffers* buffers = &g.buffers[view]
    cdef void* moved
    cdef int32_t room
    if g.pools[view].count == buffers.room:
        room = 8 if buffers.room == 0 else 2 * buffers.room
        if buffers.room > INT32_MAX // 2:
            return fail(fault, FAULT_MEMORY)
        moved = realloc(buffers.extents, room * sizeof(Extent))
        if moved == NULL:
            return fail(fault, FAULT_MEMORY)
        buffers.extents = <Extent*> moved
        buffers.room = room
    buffers.extents[g.pools[view].count].data = data
    buffers.extents[g.pools[view].count].size = size
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
    # Views count their offsets in 31 bits. A larger buffer comes whole and first, and takes nothing more.
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
    """Index of a data buffer that an earlier slice of the same columns brought, -1: none.

    Slices bring the same buffers in the same order: a few places behind the last find are enough to look at.
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
    """What keeps the memory of snapshots alive."""


cdef class DeltaOrigin:
    """The origin of a dictionary that grows by deltas."""


cdef class BuilderMemory:
    """Buffers of a plan that grow at the end, and snapshots of them."""

    def __cinit__(self, Plan plan not None):
        cdef int64_t fields = plan.d.n_fields, buffers = plan.d.n_buffers, views = plan.d.n_views, i
        cdef int64_t arrays = buffers * <int64_t> sizeof(GrowableBuffer) + views * <int64_t> sizeof(Buffers)
        cdef uint8_t* block
        self.plan = plan
        self.p = &plan.d
        self.state_bytes = fields * <int64_t> sizeof(Node) + buffers * 8 + views * <int64_t> sizeof(Pool)
        block = <uint8_t*> calloc(1, 2 * self.state_bytes + arrays + 1)
        if block == NULL:
            raise MemoryError(f"cannot allocate columns that grow, of {fields:,} fields")
        self.block = block
        self.nodes = <Node*> block
        self.sizes = <int64_t*> (self.nodes + fields)
        self.pools = <Pool*> (self.sizes + buffers)
        self.saved = self.pools + views
        self.blocks = <GrowableBuffer*> (block + 2 * self.state_bytes)
        self.buffers = <Buffers*> (self.blocks + buffers)
        for i in range(views):
            self.pools[i].open = -1
        self.memories = [None] * buffers
        self.kept = []
        self.origin = object()
        self.dictionaries = (None,) * len(plan.dictionaries)

    def __dealloc__(self):
        cdef int32_t i
        if self.block != NULL:
            for i in range(self.p.n_views):
                free(self.buffers[i].extents)
        free(self.block)

    cdef void save(self) noexcept nogil:
        """Remember the state before an append."""
        memcpy(self.saved, self.nodes, self.state_bytes)
        self.saved_length = self.length
        self.saved_kept = self.n_kept

    cdef void restore(self) noexcept nogil:
        """Forget what a failed append has left; blocks keep their larger size."""
        memcpy(self.nodes, self.saved, self.state_bytes)
        self.length = self.saved_length
        if self.n_kept != self.saved_kept:
            with gil:
                del self.kept[self.saved_kept:]
                self.n_kept = self.saved_kept
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
        """Let `out`, which is new, hold everything so far; later appends leave that memory alone."""
        cdef int64_t variadic = 0
        cdef int32_t i, next_extent = self.p.n_buffers
        cdef Pool* pool
        cdef SnapshotOwner owner
        for i in range(self.p.n_views):
            variadic += self.pools[i].count
        if variadic > INT32_MAX - self.p.n_buffers:
            raise UnsupportedError(f"the view columns have {variadic:,} data buffers, more than fit a batch")
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
            # Whole before it is anybody's: where memory lacks in between, no later snapshot takes half of it.
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


cdef bint snapshots_alike(Columns longer, Columns shorter):
    """Whether `shorter` is an older snapshot of what `longer` is one of; what is below them is not looked at."""
    cdef int32_t i, column
    if (type(longer.owner) is not SnapshotOwner or type(shorter.owner) is not SnapshotOwner
            or (<SnapshotOwner> longer.owner).origin is not (<SnapshotOwner> shorter.owner).origin
            or longer.plan is not shorter.plan or longer.d.length < shorter.d.length):
        return False
    for i in range(longer.plan.d.n_columns):
        # Slices share their owner too.
        column = longer.plan.d.columns[i]
        if longer.d.nodes[column].offset or shorter.d.nodes[column].offset:
            return False
    return True


cdef bint extends(Columns longer, Columns shorter):
    """Whether `shorter` is known to begin `longer`: the same columns, or an older snapshot of them."""
    if longer is shorter:
        return True
    return snapshots_alike(longer, shorter) and all(
        b is None or (a is not None and extends(a, b)) for a, b in zip(longer.dictionaries, shorter.dictionaries))


cdef bint grew_by_deltas(Columns longer, Columns shorter, bint alone):
    if not snapshots_alike(longer, shorter) or type((<SnapshotOwner> longer.owner).origin) is not DeltaOrigin:
        return False
    return alone or extends(longer, shorter)


cdef bint same_memory(Columns a, Columns b):
    cdef int32_t i
    if (a.owner is not b.owner or a.plan is not b.plan or a.d.length != b.d.length
            or a.d.n_extents != b.d.n_extents):
        return False
    for i in range(a.d.n_extents):
        if a.d.extents[i].data != b.d.extents[i].data or a.d.extents[i].size != b.d.extents[i].size:
            return False
    for i in range(a.plan.d.n_fields):
        if a.d.nodes[i].offset != b.d.nodes[i].offset or a.d.nodes[i].length != b.d.nodes[i].length:
            return False
    return True


cdef inline bint same_start(const Extent* a, const Extent* b, int64_t size) noexcept nogil:
    """Whether two buffers both have `size` bytes, and the same."""
    return (size <= a.size and size <= b.size
            and (size == 0 or a.data == b.data or memcmp(a.data, b.data, size) == 0))


cdef bint same_first_bits(const Extent* a, const Extent* b, int64_t count) noexcept nogil:
    """The same for `count` (> 0) bits; a bitmap that is absent has only ones."""
    cdef int64_t whole = count >> 3
    if a.data == NULL or b.data == NULL:
        if a.data != NULL:
            return bitmap_bytes(count) <= a.size and count_bits(a.data, 0, count) == count
        return b.data == NULL or (bitmap_bytes(count) <= b.size and count_bits(b.data, 0, count) == count)
    return (bitmap_bytes(count) <= a.size and bitmap_bytes(count) <= b.size and same_start(a, b, whole)
            and (count & 7 == 0 or (a.data[whole] ^ b.data[whole]) & ones(count & 7) == 0))


cdef bint field_begins(const ColumnsData* a, const ColumnsData* b, int32_t f) noexcept nogil:
    """Whether the buffers of field f of `a` begin with those of `b`."""
    cdef const FieldPlan* field = &a.plan.fields[f]
    cdef const Extent* x = &a.extents[field.first_buffer]
    cdef const Extent* y = &b.extents[field.first_buffer]
    cdef int64_t n = b.nodes[f].length, end
    cdef int layout = field.layout, width, k
    if a.nodes[f].offset or b.nodes[f].offset or a.nodes[f].length < n:
        return False
    if n == 0 or layout == LAYOUT_NULL or layout == LAYOUT_RUN_END:
        return True
    if layout == LAYOUT_SPARSE or layout == LAYOUT_DENSE:
        return same_start(x, y, n) and (layout == LAYOUT_SPARSE or same_start(x + 1, y + 1, 4 * n))
    if not same_first_bits(x, y, n):
        return False
    if layout == LAYOUT_FIXED:
        return same_start(x + 1, y + 1, n * field.width)
    if layout == LAYOUT_BOOL:
        return same_first_bits(x + 1, y + 1, n)
    if layout == LAYOUT_VIEW:
        for k in range(b.views[field.view].count):
            y = &b.extents[b.views[field.view].first + k]
            if (k >= a.views[field.view].count
                    or not same_start(&a.extents[a.views[field.view].first + k], y, y.size)):
                return False
        return same_start(x + 1, &b.extents[field.first_buffer + 1], 16 * n)
    if layout == LAYOUT_FIXED_LIST or layout == LAYOUT_STRUCT:
        return True
    width = 8 if layout in (LAYOUT_VAR64, LAYOUT_LIST64, LAYOUT_LIST_VIEW64) else 4
    if layout == LAYOUT_LIST_VIEW32 or layout == LAYOUT_LIST_VIEW64:
        return same_start(x + 1, y + 1, n * width) and same_start(x + 2, y + 2, n * width)
    if not same_start(x + 1, y + 1, (n + 1) * width):
        return False
    if layout == LAYOUT_LIST32 or layout == LAYOUT_LIST64:
        return True
    end = load_int(y[1].data, n, width)
    return end >= 0 and same_start(x + 2, y + 2, end)


cdef bint begins_with(Columns longer, Columns shorter):
    """Whether the buffers of `longer` begin with those of `shorter`; both have the same shape.

    Stricter than equal values: children may hold elements that nobody refers to, and views lie as they like.
    """
    cdef int32_t i
    if longer.d.length < shorter.d.length:
        return False
    for i in range(longer.plan.d.n_fields):
        if not field_begins(&longer.d, &shorter.d, i):
            return False
    return all(b is None or (a is not None and begins_with(a, b))
               for a, b in zip(longer.dictionaries, shorter.dictionaries))
