"""Memo tables: they number distinct values, and so make one dictionary of many.

Flat values (numbers, booleans, text, binary) are compared as bytes, where the table keeps them. Nested ones
are spelled first: written as bytes that are the same for two elements exactly when their decoded values are equal,
whatever their offsets, views, runs and dictionaries look like. Both ways NaN equals NaN, and -0.0 differs from 0.0:
a dictionary that took one for the other would change data.

Nothing here trusts contents: broken offsets, indices, views, codes and run ends raise.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, Source, field_path, raise_fault
from arrowipc.columns.builder cimport BuilderMemory, ColumnsBuilder, Undo, copy_in, pool_place, reserve
from arrowipc.columns.elements cimport count_bytes, extent_bytes
from arrowipc.columns.equal cimport adopted
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.bits cimport append_ones, largest, load_int, store_bits, store_int
from arrowipc.inline.element cimport find_run, index_at, member_at, next_run, span, validity, word_span
from arrowipc.inline.fault cimport FAULT_FULL, FAULT_MEMORY, FAULT_NO_DICTIONARY, Fault, fail
from arrowipc.inline.fbs_layout cimport Type_FloatingPoint
from arrowipc.inline.hash cimport hash_with
from arrowipc.inline.layouts cimport LAYOUTS, has_offsets, is_binary, is_union
from arrowipc.inline.loads cimport (
    add_overflows, bitmap_bytes, get_bit, inside, load_i32, load_u16, load_u32, load_u64, loose_i64, loose_u64,
    mul_overflows, prefetch,
)
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_STRUCT, LAYOUT_VIEW,
    ColumnsData, FieldPlan, Node,
)
from arrowipc.inline.room cimport make_room, new_zeros, reserve_items
from arrowipc.metadata.schema_reader cimport same_shape

import os

from arrowipc.errors import LimitError, UsageError

cdef enum:
    HASHED_AT_ONCE = 64              # values that are hashed before the first of them is looked up
    SMALLEST = 128          # slots
    AHEAD = 16              # values between the prefetch of a slot and its use

# Random, so that nobody can choose values whose hashes collide. No result depends on these numbers.
cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little") | 1
cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little")

# The bytes that stand for all NaNs, of any width.
cdef const uint8_t* NAN_BYTES = <const uint8_t*> b"\xff\xff\xff\xff\xff\xff\xff\xff"
cdef const uint8_t* BOOLS = <const uint8_t*> b"\x00\x01"
cdef const uint8_t* EMPTY = <const uint8_t*> b""


cdef struct ValueBytes:
    # The bytes that identify a value.
    const uint8_t* data     # NULL: null
    int64_t size


# -- hashing and comparing bytes -----------------------------------------------------------------------------


cdef inline uint64_t hash_bytes(const uint8_t* p, int64_t size) noexcept nogil:
    return hash_with(SECRET, SEED, p, size)


cdef inline bint bytes_equal(const uint8_t* p, const uint8_t* q, int64_t size) noexcept nogil:
    # Memory for no bytes may have no address.
    return size == 0 or memcmp(p, q, size) == 0


cdef inline const uint8_t* canonical(const uint8_t* p, int32_t width) noexcept nogil:
    """Return the bytes that identify a floating-point value of `width` bytes; they are the same for all NaNs."""
    if width == 8:
        return NAN_BYTES if load_u64(p) << 1 > <uint64_t> 0x7FF << 53 else p
    if width == 4:
        return NAN_BYTES if load_u32(p) << 1 > <uint32_t> 0xFF << 24 else p
    return NAN_BYTES if load_u16(p) & 0x7FFF > 0x7C00 else p


# -- flat values ---------------------------------------------------------------------------------------------


cdef inline int flat_bytes(const ColumnsData* d, int32_t f, int32_t float_width, int64_t at, ValueBytes* value,
                           Fault* fault) noexcept nogil:
    """Find the bytes that identify value `at`, which is valid, of a field without children."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    if field.layout == LAYOUT_FIXED:
        value.size = field.width
        value.data = d.extents[field.first_buffer + 1].data + at * field.width if field.width else EMPTY
        if float_width:
            value.data = canonical(value.data, float_width)
        return 0
    if field.layout == LAYOUT_BOOL:
        value.size = 1
        value.data = BOOLS + get_bit(d.extents[field.first_buffer + 1].data, at)
        return 0
    return word_span(d, f, at, &value.data, &value.size, fault)


cdef inline bint holds_flat(MemoTable t, BuilderMemory g, int64_t ordinal, const ValueBytes* value) noexcept nogil:
    """Whether value `ordinal` of the table has these bytes."""
    cdef const FieldPlan* field = &g.p.fields[0]
    cdef int32_t first = field.first_buffer
    cdef const uint8_t* p = g.blocks[first + 1].data
    cdef int64_t start, size
    cdef int32_t width
    cdef int layout = field.layout
    if layout == LAYOUT_FIXED:
        p += ordinal * field.width
        return bytes_equal(canonical(p, t.float_width) if t.float_width else p, value.data, field.width)
    if has_offsets(layout):
        width = LAYOUTS[layout].buffers[1].width
        start = load_int(p, ordinal, width)
        size = load_int(p, ordinal + 1, width) - start
        return size == value.size and bytes_equal(g.blocks[first + 2].data + start, value.data, size)
    if layout == LAYOUT_BOOL:
        return get_bit(p, ordinal) == value.data[0]
    p += 16 * ordinal
    if load_i32(p) != value.size:
        return False
    if value.size <= 12:
        return bytes_equal(p + 4, value.data, value.size)
    return bytes_equal(g.buffers[field.view].extents[load_i32(p + 8)].data + load_i32(p + 12), value.data,
                      value.size)


cdef int keep_view(BuilderMemory g, const FieldPlan* field, const ValueBytes* value, Fault* fault) noexcept nogil:
    cdef uint8_t* view
    cdef uint8_t* place
    cdef int32_t buffer = field.first_buffer + 1
    if reserve(g, buffer, 16, fault) < 0:
        return -1
    view = g.blocks[buffer].data + g.sizes[buffer]
    memset(view, 0, 16)
    if value.data != NULL:
        store_int(view, 0, 4, value.size)
        if value.size <= 12:
            memcpy(view + 4, value.data, value.size)
        else:
            place = pool_place(g, field.view, value.size, fault)
            if place == NULL:
                return -1
            memcpy(place, value.data, value.size)
            memcpy(view + 4, value.data, 4)
            store_int(view, 2, 4, g.pools[field.view].open)
            store_int(view, 3, 4, g.pools[field.view].open_bytes - value.size)
    g.sizes[buffer] += 16
    return 0


cdef inline int keep_var(BuilderMemory g, const FieldPlan* field, int32_t width, const ValueBytes* value,
                         Fault* fault) noexcept nogil:
    cdef int32_t offsets = field.first_buffer + 1, data = offsets + 1
    cdef int64_t size = value.size if value.data != NULL else 0
    if size > largest(width, True) - g.sizes[data]:
        return fail(fault, FAULT_FULL, 0, -1, -1, g.sizes[data] + size, largest(width, True), b"offsets")
    if reserve(g, offsets, 2 * width, fault) < 0 or copy_in(g, data, value.data, size, fault) < 0:
        return -1
    if g.sizes[offsets] == 0:
        memset(g.blocks[offsets].data, 0, width)
        g.sizes[offsets] = width
    store_int(g.blocks[offsets].data + g.sizes[offsets], 0, width, g.sizes[data])
    g.sizes[offsets] += width
    return 0


cdef int keep_flat(BuilderMemory g, int64_t ordinal, const ValueBytes* value, Fault* fault) noexcept nogil:
    """Append a value, or null, behind the `ordinal` values so far; `finish_flat` sets lengths and validity."""
    cdef const FieldPlan* field = &g.p.fields[0]
    cdef int32_t buffer = field.first_buffer + 1
    if field.layout == LAYOUT_FIXED:
        if reserve(g, buffer, field.width, fault) < 0:
            return -1
        if value.data == NULL:
            memset(g.blocks[buffer].data + g.sizes[buffer], 0, field.width)
        else:
            memcpy(g.blocks[buffer].data + g.sizes[buffer], value.data, field.width)
        g.sizes[buffer] += field.width
        return 0
    if has_offsets(field.layout):
        return keep_var(g, field, LAYOUTS[field.layout].buffers[1].width, value, fault)
    if field.layout == LAYOUT_VIEW:
        return keep_view(g, field, value, fault)
    if field.layout == LAYOUT_BOOL:
        if reserve(g, buffer, 1, fault) < 0:
            return -1
        store_bits(g.blocks[buffer].data, ordinal, value.data[0] if value.data != NULL else 0)
        g.sizes[buffer] = bitmap_bytes(ordinal + 1)
    return 0


cdef int finish_flat(MemoTable t, BuilderMemory g, int64_t before, Fault* fault) noexcept nogil:
    """Set the lengths and the validity bitmap, in which at most one value is null."""
    cdef int32_t first = g.p.fields[0].first_buffer
    cdef int64_t size = bitmap_bytes(t.count)
    g.length = g.nodes[0].length = t.count
    if t.null_at < 0:
        return 0
    g.nodes[0].null_count = 1
    if g.p.fields[0].layout == LAYOUT_NULL:
        return 0
    if reserve(g, first, size - g.sizes[first], fault) < 0:
        return -1
    if t.null_at >= before:
        append_ones(g.blocks[first].data, 0, t.null_at)
        store_bits(g.blocks[first].data, t.null_at, 0)
        before = t.null_at + 1
    append_ones(g.blocks[first].data, before, t.count - before)
    g.sizes[first] = size
    return 0


# -- the table -----------------------------------------------------------------------------------------------


cdef int reserve_values(MemoTable t, int64_t extra, Fault* fault) noexcept nogil:
    """Make room for `extra` more values."""
    cdef int64_t needed = t.count + extra, i
    cdef uint64_t slot, mask = t.mask if t.slots != NULL else SMALLEST - 1
    cdef void* slots
    if (reserve_items(<void**> &t.hashes, &t.hashes_room, needed, sizeof(uint64_t)) < 0
            or (not t.flat and reserve_items(<void**> &t.ends, &t.ends_room, needed, sizeof(int64_t)) < 0)):
        return fail(fault, FAULT_MEMORY)
    if needed > UINT32_MAX - 1:
        return fail(fault, FAULT_FULL, -1, -1, -1, needed, UINT32_MAX - 1, b"distinct values")
    if t.slots != NULL and 2 * <uint64_t> needed <= mask + 1:
        return 0
    while 2 * <uint64_t> needed > mask + 1:
        mask = 2 * mask + 1
    slots = calloc(mask + 1, sizeof(Slot))
    if slots == NULL:
        return fail(fault, FAULT_MEMORY)
    free(t.slots)
    t.slots = <Slot*> slots
    t.mask = mask
    # Insert in the order of the values, so that `shrink` can remove the last ones without moving the others.
    for i in range(t.count):
        if i + AHEAD < t.count:
            prefetch(&t.slots[t.hashes[i + AHEAD] & mask])
        if i != t.null_at:
            slot = t.hashes[i] & mask
            while t.slots[slot].place:
                slot = (slot + 1) & mask
            t.slots[slot].tag = <uint32_t> (t.hashes[i] >> 32)
            t.slots[slot].place = <uint32_t> (i + 1)
    return 0


cdef inline bint holds_spelled(MemoTable t, int64_t ordinal, const ValueBytes* value) noexcept nogil:
    cdef int64_t start = t.ends[ordinal - 1] if ordinal else 0
    return t.ends[ordinal] - start == value.size and memcmp(t.spelled.room.data + start, value.data, value.size) == 0


cdef inline int64_t find(MemoTable t, BuilderMemory g, uint64_t hash, const ValueBytes* value,
                         uint64_t* slot) noexcept nogil:
    """Return the ordinal of a value; -1 for a new one, and set `slot` to the slot for it."""
    cdef uint64_t i = hash & t.mask
    cdef uint32_t tag = <uint32_t> (hash >> 32)
    cdef int64_t ordinal
    while t.slots[i].place:
        if t.slots[i].tag == tag:
            ordinal = <int64_t> t.slots[i].place - 1
            if holds_flat(t, g, ordinal, value) if t.flat else holds_spelled(t, ordinal, value):
                return ordinal
        i = (i + 1) & t.mask
    slot[0] = i
    return -1


cdef inline int64_t add_slot(MemoTable t, uint64_t hash, uint64_t slot) noexcept nogil:
    """Give a new value the next number, and return it."""
    t.slots[slot].tag = <uint32_t> (hash >> 32)
    t.slots[slot].place = <uint32_t> (t.count + 1)
    t.hashes[t.count] = hash
    t.count += 1
    return t.count - 1


cdef void shrink(MemoTable t, int64_t count, int64_t null_at) noexcept nogil:
    """Forget all values but the first `count`."""
    cdef int64_t i
    cdef uint64_t slot
    for i in range(t.count - 1, count - 1, -1):
        if i == t.null_at:
            continue
        slot = t.hashes[i] & t.mask
        while t.slots[slot].place != i + 1:
            slot = (slot + 1) & t.mask
        t.slots[slot].place = 0
    t.count = count
    t.null_at = null_at


cdef inline int add_null(MemoTable t, BuilderMemory g, Fault* fault) noexcept nogil:
    """Number null, unless it has a number, or needs none."""
    cdef ValueBytes null = ValueBytes(NULL, 0)
    if t.null_at < 0 and not t.skips_nulls:
        if keep_flat(g, t.count, &null, fault) < 0:
            return -1
        t.null_at = t.count
        t.hashes[t.count] = 0
        t.count += 1
    return 0


cdef int add_by_bytes(MemoTable t, BuilderMemory g, const ColumnsData* d, int64_t start, int64_t count,
                      int64_t* mapping, Fault* fault) noexcept nogil:
    """Add flat values of any type."""
    cdef ValueBytes values[HASHED_AT_ONCE]
    cdef uint64_t hashes[HASHED_AT_ONCE]
    cdef const uint8_t* bits = validity(d, 0)
    cdef bint all_null = d.plan.fields[0].layout == LAYOUT_NULL
    cdef int64_t at = d.nodes[0].offset + start, before = t.count, done = 0, ordinal, n, k
    cdef uint64_t slot = 0
    while done < count:
        n = min(HASHED_AT_ONCE, count - done)
        if reserve_values(t, n, fault) < 0:
            return -1
        # A large table is not in the caches: the slots of all values of a block are fetched at the same time.
        for k in range(n):
            if all_null or (bits != NULL and not get_bit(bits, at + k)):
                values[k] = ValueBytes(NULL, 0)
                continue
            if flat_bytes(d, 0, t.float_width, at + k, &values[k], fault) < 0:
                return -1
            hashes[k] = hash_bytes(values[k].data, values[k].size)
            prefetch(&t.slots[hashes[k] & t.mask])
        for k in range(n):
            if values[k].data == NULL:
                if add_null(t, g, fault) < 0:
                    return -1
                mapping[done + k] = t.null_at
                continue
            ordinal = find(t, g, hashes[k], &values[k], &slot)
            if ordinal < 0:
                if t.float_width:
                    # A NaN is identified by NAN_BYTES, but stored with its own bytes.
                    values[k].data = (d.extents[d.plan.fields[0].first_buffer + 1].data
                                      + (at + k) * t.float_width)
                if keep_flat(g, t.count, &values[k], fault) < 0:
                    return -1
                ordinal = add_slot(t, hashes[k], slot)
            mapping[done + k] = ordinal
        done += n
        at += n
    return finish_flat(t, g, before, fault)


cdef int add_numbers(MemoTable t, BuilderMemory g, const ColumnsData* d, int64_t start, int64_t count,
                     int64_t* mapping, Fault* fault) noexcept nogil:
    """Add values of 8 bytes that are no floating-point numbers; most of these are keys."""
    cdef uint64_t hashes[HASHED_AT_ONCE]
    cdef const uint8_t* bits = validity(d, 0)
    cdef int32_t buffer = d.plan.fields[0].first_buffer + 1
    cdef const loose_u64* values = (<const loose_u64*> d.extents[buffer].data) + d.nodes[0].offset + start
    cdef loose_u64* kept
    cdef int64_t at = d.nodes[0].offset + start, before = t.count, done = 0, n, k
    cdef uint64_t slot, value
    cdef uint32_t tag, place
    while done < count:
        n = min(HASHED_AT_ONCE, count - done)
        if reserve_values(t, n, fault) < 0 or reserve(g, buffer, 8 * n, fault) < 0:
            return -1
        kept = <loose_u64*> g.blocks[buffer].data
        for k in range(n):
            hashes[k] = hash_bytes(<const uint8_t*> &values[done + k], 8)
            prefetch(&t.slots[hashes[k] & t.mask])
        for k in range(n):
            if bits != NULL and not get_bit(bits, at + done + k):
                if add_null(t, g, fault) < 0:
                    return -1
                mapping[done + k] = t.null_at
                continue
            value = values[done + k]
            tag = <uint32_t> (hashes[k] >> 32)
            slot = hashes[k] & t.mask
            place = t.slots[slot].place
            while place and (t.slots[slot].tag != tag or kept[place - 1] != value):
                slot = (slot + 1) & t.mask
                place = t.slots[slot].place
            if place == 0:
                kept[t.count] = value
                g.sizes[buffer] += 8
                place = <uint32_t> add_slot(t, hashes[k], slot) + 1
            mapping[done + k] = <int64_t> place - 1
        done += n
    return finish_flat(t, g, before, fault)


cdef int add_flat(MemoTable t, BuilderMemory g, const ColumnsData* d, int64_t start, int64_t count,
                  int64_t* mapping, Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[0]
    if field.layout == LAYOUT_FIXED and field.width == 8 and not t.float_width:
        return add_numbers(t, g, d, start, count, mapping, fault)
    return add_by_bytes(t, g, d, start, count, mapping, fault)


# -- spelling nested values ----------------------------------------------------------------------------------

cdef struct Tree:
    # Columns and their dictionaries, for kernels.
    const ColumnsData* d    # NULL: a dictionary that has not arrived
    int64_t id              # of the dictionary
    Tree* below             # per ordinal of Plan.dictionaries
    int64_t n_below
    bint numbered           # they are the values of a table, each once, so that a number identifies a value ...
    int64_t null_at         # ... and the number of null, -1: none


cdef inline int write_bytes(Spelling* s, const uint8_t* data, int64_t size, Fault* fault) noexcept nogil:
    if size > s.left[0]:
        return fail(fault, FAULT_TOO_MUCH)
    if make_room(&s.room, s.size + size) == NULL:
        return fail(fault, FAULT_MEMORY)
    if size:
        memcpy(s.room.data + s.size, data, size)
    s.left[0] -= size
    s.size += size
    return 0


cdef inline int write_tag(Spelling* s, uint8_t tag, Fault* fault) noexcept nogil:
    return write_bytes(s, &tag, 1, fault)


cdef int spell(const Tree* t, int32_t f, int64_t at, Spelling* out, Fault* fault) noexcept nogil:
    """Append the spelling of one element: 0 for null, else 1 and the bytes that its type asks for.

    Sizes stand before the bytes or elements that they count, so that no spelling is the beginning of another one.
    """
    cdef const FieldPlan* field = &t.d.plan.fields[f]
    cdef const uint8_t* bits = validity(t.d, f)
    cdef int64_t start = 0
    cdef int32_t child = 0
    cdef int layout = field.layout
    if layout == LAYOUT_NULL or (bits != NULL and not get_bit(bits, at)):
        return write_tag(out, 0, fault)
    if field.flags & FIELD_ENCODED:
        return spell_encoded(t, f, at, out, fault)
    if layout == LAYOUT_RUN_END:
        return spell_run(t, f, at, out, fault)
    if is_union(layout):
        if member_at(t.d, f, at, &child, &start, fault) < 0:
            return -1
        # The distance from the union names the child: equal types number their fields alike.
        child -= f
        if write_tag(out, 1, fault) < 0 or write_bytes(out, <const uint8_t*> &child, 4, fault) < 0:
            return -1
        return spell(t, f + child, start, out, fault)
    if write_tag(out, 1, fault) < 0:
        return -1
    if layout == LAYOUT_STRUCT:
        child = f + 1
        while child < field.end:
            if spell(t, child, t.d.nodes[child].offset + at, out, fault) < 0:
                return -1
            child = t.d.plan.fields[child].end
        return 0
    if LAYOUTS[layout].n_children == 0:
        return spell_flat(t.d, f, at, out, fault)
    return spell_list(t, f, at, out, fault)


cdef int spell_flat(const ColumnsData* d, int32_t f, int64_t at, Spelling* out, Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef ValueBytes value
    if (flat_bytes(d, f, field.width if field.type == Type_FloatingPoint else 0, at, &value, fault) < 0
            or (is_binary(field.layout) and write_bytes(out, <const uint8_t*> &value.size, 8, fault) < 0)):
        return -1
    return write_bytes(out, value.data, value.size, fault)


cdef int spell_list(const Tree* t, int32_t f, int64_t at, Spelling* out, Fault* fault) noexcept nogil:
    cdef int64_t start = 0, size = 0, i
    if span(t.d, f, at, &start, &size, fault) < 0 or write_bytes(out, <const uint8_t*> &size, 8, fault) < 0:
        return -1
    start += t.d.nodes[f + 1].offset
    for i in range(size):
        if spell(t, f + 1, start + i, out, fault) < 0:
            return -1
    return 0


cdef int spell_run(const Tree* t, int32_t f, int64_t at, Spelling* out, Fault* fault) noexcept nogil:
    cdef int64_t run = find_run(t.d, f, at), end = 0
    cdef int32_t child = t.d.plan.fields[f + 1].end
    if next_run(t.d, f, run, at, &end, fault) < 0:
        return -1
    return spell(t, child, t.d.nodes[child].offset + run, out, fault)


cdef int spell_encoded(const Tree* t, int32_t f, int64_t at, Spelling* out, Fault* fault) noexcept nogil:
    """Append the spelling of the value that a valid index stands for; it may be null."""
    cdef const Tree* below = &t.below[t.d.plan.fields[f].dictionary]
    cdef int64_t index = 0
    if below.d == NULL:
        return fail(fault, FAULT_NO_DICTIONARY, f, 1, at, below.id)
    if index_at(t.d, f, at, below.d.length, &index, fault) < 0:
        return -1
    if below.numbered:
        if index == below.null_at:
            return write_tag(out, 0, fault)
        return -1 if write_tag(out, 1, fault) < 0 else write_bytes(out, <const uint8_t*> &index, 4, fault)
    if spell(below, 0, below.d.nodes[0].offset + index, out, fault) < 0:
        # The caller raises the fault with the outermost plan, so it must name a field of that plan.
        fault.field = f
        fault.buffer = -1
        return -1
    return 0


cdef int fill_tree(Columns columns, Tree* tree, tuple tables) except -1:
    """Fill an empty tree, which `free_tree` frees, also after an exception.

    `tables`: the tables whose values the dictionaries are; None: dictionaries of any kind.
    """
    cdef int64_t i, n = len(columns.plan.dictionaries)
    tree.d = &columns.d
    if n == 0:
        return 0
    tree.below = <Tree*> new_zeros(n, sizeof(Tree))
    tree.n_below = n
    for i in range(n):
        tree.below[i].id = (<DictionaryPlan> columns.plan.dictionaries[i]).id
        if columns.dictionaries is not None and columns.dictionaries[i] is not None:
            if tables is None:
                fill_tree(columns.dictionaries[i], &tree.below[i], None)
            else:
                tree.below[i].d = &(<Columns> columns.dictionaries[i]).d
                tree.below[i].numbered = True
                tree.below[i].null_at = (<MemoTable> tables[i]).null_number()
    return 0


cdef void free_tree(Tree* tree) noexcept:
    cdef int64_t i
    for i in range(tree.n_below):
        free_tree(&tree.below[i])
    free(tree.below)


cdef class Budget:
    cdef void earn(self, int64_t size) noexcept nogil:
        cdef int64_t more
        if mul_overflows(size, SPELLED_PER_BYTE, &more) or add_overflows(self.left, more, &self.left):
            self.left = INT64_MAX

    cdef int spend(self, int64_t size) except -1:
        if size > self.left:
            raise LimitError(f"the values {self.too_much()}")
        self.left -= size
        return 0

    cdef str too_much(self):
        return ("share so many elements that telling them apart, or spelling them out, takes more than "
                f"{SPELLED_PER_BYTE} times their bytes and {self.slack:,} more{self.where}")


cdef Budget new_budget(int64_t slack, str where):
    cdef Budget budget = Budget.__new__(Budget)
    budget.slack = budget.left = slack
    budget.where = where
    return budget


cdef int64_t count_value_bytes(Columns columns, int64_t count):
    """Estimate the bytes of `count` of the values from their share in all, without the bytes of dictionaries."""
    cdef int64_t total = extent_bytes(&columns.d)
    return total if count == columns.d.length else <int64_t> (<double> total * count / columns.d.length)


# -- tables of nested values ---------------------------------------------------------------------------------


cdef int append_run(ColumnsBuilder g, ColumnsData* piece, const Node* whole, int64_t first, int64_t count,
                    PyObject* owner, int64_t* left, Fault* fault) noexcept nogil:
    """Append `count` rows of a one-column piece; `whole` is its node, `piece.nodes` is a copy that is changed here.

    List views and unions bring all elements between those that they refer to, so the bytes that come are counted, too.
    """
    cdef int64_t before
    if count == 0:
        return 0
    before = g.total_bytes()
    piece.length = count
    piece.nodes[0].offset = whole.offset + first
    piece.nodes[0].length = count
    piece.nodes[0].null_count = 0 if whole.null_count == 0 else -1
    if g.append_data(piece, owner, fault) < 0:
        return -1
    left[0] -= g.total_bytes() - before
    return fail(fault, FAULT_TOO_MUCH) if left[0] < 0 else 0


cdef int add_spelled(MemoTable t, ColumnsBuilder g, const Tree* tree, Node* nodes, int64_t start, int64_t count,
                     int64_t* mapping, PyObject* owner, Fault* fault) noexcept nogil:
    """Add nested values; new ones that follow each other are appended at once. `nodes` has room for a copy of nodes."""
    cdef ColumnsData piece = tree.d[0]
    cdef ValueBytes value
    cdef const uint8_t* bits = validity(tree.d, 0) if t.skips_nulls else NULL
    cdef int64_t ordinal, first = start, pending = 0, end, i
    cdef uint64_t hash, slot = 0
    memcpy(nodes, tree.d.nodes, tree.d.plan.n_fields * sizeof(Node))
    piece.nodes = nodes
    for i in range(start, start + count):
        if bits != NULL and not get_bit(bits, tree.d.nodes[0].offset + i):
            mapping[i - start] = -1
            continue
        # Spell the value behind those so far, where it stays if it is new.
        end = t.spelled.size
        if (reserve_values(t, 1, fault) < 0
                or spell(tree, 0, tree.d.nodes[0].offset + i, &t.spelled, fault) < 0):
            return -1
        value = ValueBytes(t.spelled.room.data + end, t.spelled.size - end)
        hash = hash_bytes(value.data, value.size)
        ordinal = find(t, g, hash, &value, &slot)
        if ordinal >= 0:
            t.spelled.size = end
        else:
            if value.size == 1 and value.data[0] == 0:
                t.spelled_null = t.count
            t.ends[t.count] = t.spelled.size
            ordinal = add_slot(t, hash, slot)
            if first + pending != i:
                if append_run(g, &piece, tree.d.nodes, first, pending, owner, t.spelled.left, fault) < 0:
                    return -1
                first = i
                pending = 0
            pending += 1
        mapping[i - start] = ordinal
    return append_run(g, &piece, tree.d.nodes, first, pending, owner, t.spelled.left, fault)


cdef class MemoTable:
    """The distinct values of one column, numbered as they first came; null is one of them. For one thread at a time."""

    def __cinit__(self, Plan plan not None):
        cdef const FieldPlan* field
        if plan.d.n_columns != 1:
            raise UsageError(f"a table of values is made for one column, found {plan.d.n_columns}")
        field = &plan.d.fields[0]
        self.plan = plan
        self.builder = ColumnsBuilder(plan)
        self.null_at = -1
        self.flat = field.layout <= LAYOUT_VIEW and not field.flags & FIELD_ENCODED
        self.float_width = field.width if field.type == Type_FloatingPoint else 0
        self.spelled_null = -1
        self.save()
        self.budget = new_budget(SPELLED_LEAST, "")
        self.spelled.left = &self.budget.left
        self.earns = True

    def __dealloc__(self):
        free(self.slots)
        free(self.hashes)
        free(self.ends)
        free(self.spelled.room.data)

    cdef int add(self, Columns values, int64_t start, int64_t count, int64_t* mapping) except -1:
        cdef ColumnsBuilder builder = self.builder
        cdef Fault fault
        cdef int found
        if not inside(start, count, values.d.length):
            raise UsageError(f"rows {start}..+{count} lie outside the {values.d.length} values")
        if count == 0:
            return 0
        if self.flat:
            # No other thread has the memory that changes here.
            with nogil:
                found = add_flat(self, builder, &values.d, start, count, mapping, &fault)
        else:
            found = self.add_nested(values, start, count, mapping, &fault)
        if found < 0:
            if fault.code == FAULT_TOO_MUCH:
                raise LimitError(f"column {field_path(values.plan, 0)!r}: the values {self.budget.too_much()}")
            raise_fault(&fault, values.plan)
        return 0

    cdef int add_nested(self, Columns values, int64_t start, int64_t count, int64_t* mapping,
                        Fault* fault) except -2:
        cdef ColumnsBuilder builder = self.builder
        cdef tuple dictionaries = None
        cdef Tree tree
        cdef Node* nodes = <Node*> new_zeros(values.d.plan.n_fields, sizeof(Node))
        cdef PyObject* owner = <PyObject*> values.owner if values.owner is not None else NULL
        cdef int found
        memset(&tree, 0, sizeof(Tree))
        try:
            if self.below is None and values.dictionaries:
                dictionaries = adopted(builder.dictionaries, values.dictionaries)
            fill_tree(values, &tree, self.below)
            if self.earns:
                self.budget.earn(count_bytes(values) if self.below is None else count_value_bytes(values, count))
            with nogil:
                found = add_spelled(self, builder, &tree, nodes, start, count, mapping, owner, fault)
        finally:
            free_tree(&tree)
            free(nodes)
        if found == 0 and dictionaries is not None:
            builder.dictionaries = dictionaries
        return found

    cdef int add_data(self, const ColumnsData* d, int64_t start, int64_t count, int64_t* mapping,
                      Fault* fault) noexcept nogil:
        return add_flat(self, self.builder, d, start, count, mapping, fault) if count else 0

    cdef void save(self) noexcept nogil:
        cdef Undo* undo = &self.builder.undo
        undo.count = self.count
        undo.null_at = self.null_at
        undo.spelled = self.spelled.size
        self.builder.save()

    cdef void restore(self) noexcept nogil:
        cdef const Undo* undo = &self.builder.undo
        self.version += self.count > undo.count
        shrink(self, undo.count, undo.null_at)
        self.spelled.size = undo.spelled
        if self.spelled_null >= self.count:
            self.spelled_null = -1
        self.builder.restore()

    cdef int64_t null_number(self):
        """Return the ordinal of null; -1: there is none."""
        return self.null_at if self.flat else self.spelled_null

    cdef Columns snapshot(self):
        return self.builder.snapshot()

    # For Python: tests and measurements.

    @staticmethod
    def like(RecordBatch batch not None):
        """A table without values, for the values of batches with one column of this type."""
        return MemoTable(batch.plan)

    def add_batch(self, RecordBatch batch not None):
        """Add the rows of a batch with one column of the type, and return the number of the value of each, as int64."""
        cdef Memory mapping
        if not same_shape(self.plan, batch.plan):
            raise UsageError("the batch has other columns than the table of values")
        mapping = Memory(max(8 * batch.d.length, 8))
        self.save()
        try:
            self.add(batch, 0, batch.d.length, <int64_t*> mapping.data)
        except BaseException:
            self.restore()
            raise
        mapping.size = 8 * batch.d.length
        return memoryview(mapping).cast("q")

    def batch(self):
        """The values so far as a `RecordBatch` that shares the table's memory."""
        cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
        self.builder.snapshot_into(out)
        return out


def count_numbers(numbers not None, int64_t count):
    """Return how often each of the numbers from 0 to below `count` is among those of `add_batch`, as int64."""
    cdef Source source = Source(numbers)
    cdef const loose_i64* given = <const loose_i64*> source.data
    cdef Memory counts = Memory(max(8 * count, 8))
    cdef int64_t* found = <int64_t*> counts.data
    cdef int64_t i
    counts.size = max(8 * count, 0)
    memset(found, 0, counts.size)
    for i in range(source.size >> 3):
        if 0 <= given[i] < count:
            found[given[i]] += 1
    return memoryview(counts).cast("q")
