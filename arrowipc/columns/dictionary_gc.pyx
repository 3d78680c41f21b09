"""The values of a dictionary that some elements use, as a dictionary of their own.

The cost follows the elements, not the dictionary: what is noted per value lies in memory that starts as zeros
and is put back to zeros value by value. New indices are below the number of values in use, which an index
type that counted to the largest of them holds.

Indices, offsets and views are untrusted: each is checked as it is followed.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns
from arrowipc.inline.bits cimport store_int
from arrowipc.inline.element cimport index_at, load_unsigned, span, validity, view_span
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_OFFSET, Fault, fail
from arrowipc.inline.loads cimport add_overflows, bitmap_bytes, get_bit, load_i32, set_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW, ColumnsData, FieldPlan,
)

cdef enum:
    FEW = 24        # values that are sorted by insertion


cdef int make_room(Room* room, int64_t size, Fault* fault) noexcept nogil:
    cdef void* moved
    if size <= room.size and room.data != NULL:
        return 0
    if size > INT64_MAX >> 2:
        return fail(fault, FAULT_MEMORY)
    moved = realloc(room.data, 2 * size + 64)
    if moved == NULL:
        return fail(fault, FAULT_MEMORY)
    room.data = <uint8_t*> moved
    room.size = 2 * size + 64
    return 0


cdef bint serves(Columns values) noexcept:
    cdef const FieldPlan* field
    if values.d.plan.n_fields != 1 or not 0 < values.d.length <= INT32_MAX:
        return False
    field = &values.d.plan.fields[0]
    return field.layout <= LAYOUT_VIEW and not field.flags & FIELD_ENCODED


cdef int by_number(const void* a, const void* b) noexcept nogil:
    cdef int32_t left = (<const int32_t*> a)[0], right = (<const int32_t*> b)[0]
    return (left > right) - (left < right)


cdef inline void sort(int32_t* numbers, int64_t count) noexcept nogil:
    cdef int64_t i, k
    cdef int32_t one
    if count > FEW:
        qsort(numbers, count, sizeof(int32_t), by_number)
        return
    for i in range(1, count):
        one = numbers[i]
        k = i
        while k > 0 and numbers[k - 1] > one:
            numbers[k] = numbers[k - 1]
            k -= 1
        numbers[k] = one


cdef int open_used(UsedValues* s, Columns values) except -1:
    memset(s, 0, sizeof(UsedValues))
    s.places.data = <uint8_t*> calloc(values.d.length, sizeof(int32_t))
    if s.places.data == NULL:
        raise MemoryError(f"cannot allocate places for {values.d.length:,} values")
    s.places.size = values.d.length * sizeof(int32_t)
    s.values = &values.d
    s.d.plan = values.d.plan
    s.d.nodes = &s.node
    s.d.views = &s.view
    s.d.extents = s.extents
    return 0


cdef void close_used(UsedValues* s) noexcept nogil:
    cdef int k
    free(s.places.data)
    free(s.used.data)
    for k in range(3):
        free(s.rooms[k].data)


cdef int note(UsedValues* s, const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    cdef const uint8_t* bits = d.extents[d.plan.fields[f].first_buffer].data
    cdef int64_t i, index = 0, n = d.nodes[f].length, count = s.values.length
    cdef int32_t* places = <int32_t*> s.places.data
    if make_room(&s.used, (s.n_used + min(n, count)) * <int64_t> sizeof(int32_t), fault) < 0:
        return -1
    for i in range(n):
        if bits != NULL and not get_bit(bits, i):
            continue
        if index_at(d, f, i, count, &index, fault) < 0:
            return -1
        if places[index] == 0:
            places[index] = 1
            (<int32_t*> s.used.data)[s.n_used] = <int32_t> index
            s.n_used += 1
    return 0


cdef void transpose(const UsedValues* s, const ColumnsData* d, int32_t f, uint8_t* out) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* bits = d.extents[field.first_buffer].data
    cdef const uint8_t* indices = d.extents[field.first_buffer + 1].data
    cdef const int32_t* places = <const int32_t*> s.places.data
    cdef int32_t width = field.width
    cdef int64_t i
    for i in range(d.nodes[f].length):
        if bits != NULL and not get_bit(bits, i):
            store_int(out, i, width, 0)
        else:
            # `note` has found it inside, so that it is no larger than an int32.
            store_int(out, i, width, places[load_unsigned(indices + i * width, width)] - 1)


cdef int gather(UsedValues* s, bint ordered, Fault* fault) noexcept nogil:
    cdef int32_t* used = <int32_t*> s.used.data
    cdef int layout = s.d.plan.fields[0].layout
    cdef int32_t i
    if ordered:
        sort(used, s.n_used)
    for i in range(<int32_t> s.n_used):
        (<int32_t*> s.places.data)[used[i]] = i + 1
    memset(s.extents, 0, sizeof(s.extents))
    memset(&s.view, 0, sizeof(s.view))
    s.d.length = s.node.length = s.n_used
    s.d.n_extents = s.d.plan.n_buffers
    s.node.null_count = s.n_used if layout == LAYOUT_NULL else 0
    if layout == LAYOUT_NULL:
        return 0
    if gather_validity(s, fault) < 0:
        return -1
    if layout == LAYOUT_FIXED:
        return gather_fixed(s, fault)
    if layout == LAYOUT_VAR32:
        return gather_var(s, 4, fault)
    if layout == LAYOUT_VAR64:
        return gather_var(s, 8, fault)
    if layout == LAYOUT_VIEW:
        return gather_views(s, fault)
    return gather_bits(s, 1, s.values.extents[1].data, fault)


cdef void forget(UsedValues* s) noexcept nogil:
    cdef int64_t i
    for i in range(s.n_used):
        (<int32_t*> s.places.data)[(<int32_t*> s.used.data)[i]] = 0
    s.n_used = 0


# -- the layouts ---------------------------------------------------------------------------------------------


cdef inline int64_t position(const UsedValues* s, int64_t i) noexcept nogil:
    """Where value i of those in use lies in the dictionary's buffers."""
    return s.values.nodes[0].offset + (<const int32_t*> s.used.data)[i]


cdef inline uint8_t* open_extent(UsedValues* s, int k, int64_t size, Fault* fault) noexcept nogil:
    """`size` bytes for extent k; NULL when there is no memory."""
    if make_room(&s.rooms[k], size, fault) < 0:
        return NULL
    s.extents[k].data = s.rooms[k].data if size else NULL
    s.extents[k].size = size
    return s.rooms[k].data


cdef int gather_validity(UsedValues* s, Fault* fault) noexcept nogil:
    cdef const uint8_t* bits = validity(s.values, 0)
    cdef int64_t i, nulls = 0
    if bits == NULL:
        return 0
    for i in range(s.n_used):
        nulls += not get_bit(bits, position(s, i))
    s.node.null_count = nulls
    return 0 if nulls == 0 else gather_bits(s, 0, bits, fault)


cdef int gather_bits(UsedValues* s, int k, const uint8_t* bits, Fault* fault) noexcept nogil:
    cdef int64_t size = bitmap_bytes(s.n_used), i
    cdef uint8_t* out = open_extent(s, k, size, fault)
    if out == NULL:
        return -1
    memset(out, 0, size)
    for i in range(s.n_used):
        if get_bit(bits, position(s, i)):
            set_bit(out, i)
    return 0


cdef int gather_fixed(UsedValues* s, Fault* fault) noexcept nogil:
    cdef int32_t width = s.d.plan.fields[0].width
    cdef const uint8_t* values = s.values.extents[1].data
    cdef uint8_t* out = open_extent(s, 1, s.n_used * width, fault)
    cdef int64_t i
    if out == NULL:
        return -1
    if width == 0:
        return 0
    for i in range(s.n_used):
        memcpy(out + i * width, values + position(s, i) * width, width)
    return 0


cdef inline bint is_null(const UsedValues* s, const uint8_t* bits, int64_t i) noexcept nogil:
    return bits != NULL and not get_bit(bits, position(s, i))


cdef int gather_var(UsedValues* s, int32_t width, Fault* fault) noexcept nogil:
    """Texts one behind the other; those of nulls are empty."""
    cdef const uint8_t* bits = validity(s.values, 0)
    cdef const uint8_t* data = s.values.extents[2].data
    cdef int64_t limit = INT32_MAX if width == 4 else INT64_MAX, total = 0, i, start = 0, size = 0
    cdef uint8_t* offsets = open_extent(s, 1, (s.n_used + 1) * width, fault)
    cdef uint8_t* out
    if offsets == NULL:
        return -1
    store_int(offsets, 0, width, 0)
    for i in range(s.n_used):
        if not is_null(s, bits, i):
            if span(s.values, 0, position(s, i), &start, &size, fault) < 0:
                return -1
            # Only offsets that do not rise make texts longer together than the data is.
            if add_overflows(total, size, &total) or total > limit:
                return fail(fault, FAULT_OFFSET, 0, 1, position(s, i), start, 0, NULL)
        store_int(offsets, i + 1, width, total)
    out = open_extent(s, 2, total, fault)
    if out == NULL:
        return -1
    for i in range(s.n_used):
        if not is_null(s, bits, i):
            span(s.values, 0, position(s, i), &start, &size, fault)
            if size:
                memcpy(out, data + start, size)
                out += size
    return 0


cdef int gather_views(UsedValues* s, Fault* fault) noexcept nogil:
    """Views, and the texts behind them in one data buffer."""
    cdef const uint8_t* bits = validity(s.values, 0)
    cdef const uint8_t* data = NULL
    cdef const uint8_t* views = s.values.extents[1].data
    cdef uint8_t* out = open_extent(s, 1, 16 * s.n_used, fault)
    cdef int64_t total = 0, filled = 0, i, size = 0
    if out == NULL:
        return -1
    for i in range(s.n_used):
        if is_null(s, bits, i):
            memset(out + 16 * i, 0, 16)
            continue
        if view_span(s.values, 0, position(s, i), &data, &size, fault) < 0:
            return -1
        memcpy(out + 16 * i, views + 16 * position(s, i), 16)
        total += size if size > 12 else 0
        if total > INT32_MAX:
            return 1
    if total == 0:
        return 0
    if make_room(&s.rooms[2], total, fault) < 0:
        return -1
    for i in range(s.n_used):
        size = load_i32(out + 16 * i)
        if size > 12:
            view_span(s.values, 0, position(s, i), &data, &size, fault)
            memcpy(s.rooms[2].data + filled, data, size)
            store_int(out + 16 * i, 2, 4, 0)
            store_int(out + 16 * i, 3, 4, filled)
            filled += size
    s.extents[s.d.plan.n_buffers].data = s.rooms[2].data
    s.extents[s.d.plan.n_buffers].size = total
    s.view.first = s.d.plan.n_buffers
    s.view.count = 1
    s.d.n_extents += 1
    return 0
