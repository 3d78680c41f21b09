"""The values of a dictionary that some elements use, as a dictionary of their own.

The cost follows the elements, not the dictionary: what is noted per value lies in memory that starts as zeros and is
put back to zeros value by value. The new indices count to the number of values in use at most, so that they fit the
type of the old ones.

Indices, offsets and views are untrusted: each is checked as it is followed.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns
from arrowipc.inline.bits cimport largest, store_int
from arrowipc.inline.element cimport index_at, validity, word_span
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_OFFSET, Fault, fail
from arrowipc.inline.gather cimport Chosen, Piece, check_views, copy_texts, fitting_views, flat_words
from arrowipc.inline.layouts cimport BUFFER_BITS, BUFFER_FIXED, LAYOUTS, size_needed, width_of
from arrowipc.inline.loads cimport bitmap_bytes, get_bit, set_bit
from arrowipc.inline.plan cimport FIELD_ENCODED, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node, ViewRange
from arrowipc.inline.room cimport Room, make_room, new_zeros


cdef enum:
    MUCH = 1 << 24      # bytes of text

# -- values of a flat column, by their numbers ------------------------------------------------------------------


cdef void flat_bits(uint8_t* out, const uint8_t* bits, const int64_t* numbers, int64_t n) noexcept nogil:
    """Bits of the values taken, zeros where null; without `bits` all others are 1."""
    cdef int64_t i
    memset(out, 0, bitmap_bytes(n))
    for i in range(n):
        if numbers[i] >= 0 and (bits == NULL or get_bit(bits, numbers[i])):
            set_bit(out, i)


cdef int check_length(const ColumnsData* values, const int64_t* numbers, int64_t n, int64_t most,
                      Fault* fault) noexcept nogil:
    """Add up text before it is written: few bytes of indices may stand for terabytes."""
    cdef const uint8_t* data
    cdef int64_t size = 0, i
    for i in range(n):
        if numbers[i] < 0:
            continue
        if word_span(values, 0, numbers[i], &data, &size, fault) < 0:
            return -1
        if size > most:
            return fail(fault, FAULT_OFFSET, 0, 1, numbers[i], size, most, NULL)
        most -= size
    return 0


cdef int64_t flat_text(Room* text, uint8_t* offsets, int32_t width, const ColumnsData* values, const int64_t* numbers,
                       int64_t n, int64_t most, Fault* fault) noexcept nogil:
    """Text and its offsets, empty where null; returns the bytes of the text.

    Each value is looked at once when it is copied: the memory of the values may change meanwhile.
    """
    cdef const uint8_t* data
    cdef uint8_t* out = make_room(text, 0)
    cdef int64_t end = 0, size = 0, i
    cdef bint is_counted = False
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
                if end >= MUCH and not is_counted:
                    is_counted = True
                    if check_length(values, numbers + i, n - i, most - end, fault) < 0:
                        return -1
                out = make_room(text, end + size)
                if out == NULL:
                    return fail(fault, FAULT_MEMORY)
            memcpy(out + end, data, size)
            end += size
        store_int(offsets, i + 1, width, end)
    return end


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
    # Whether there are nulls or not, as `take_into` counts it where the values have some.
    most -= bits
    size = size_needed(field, 1, n)
    out[0] = Extent(NULL, 0)
    if nulls:
        to = make_room(&memory.validity, bits)
        if to == NULL:
            return fail(fault, FAULT_MEMORY)
        flat_bits(to, NULL, numbers, n)
        out[0] = Extent(to, bits)
    to = make_room(&memory.values, size) if size <= most else NULL
    if to == NULL:
        return fail(fault, FAULT_MEMORY)
    out[1] = extent_of(to, size)
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
        out[2] = extent_of(memory.data.data, text)
    return size + text + (bits if nulls else 0)


cdef void free_flat(FlatMemory* memory) noexcept nogil:
    free(memory.validity.data)
    free(memory.values.data)
    free(memory.data.data)


# -- values in use -------------------------------------------------------------------------------------------


cdef bint is_reducible(Columns values) noexcept:
    cdef const FieldPlan* field
    if values.d.plan.n_fields != 1 or not 0 < values.d.length <= INT32_MAX:
        return False
    field = &values.d.plan.fields[0]
    return field.layout <= LAYOUT_VIEW and not field.flags & FIELD_ENCODED


cdef int by_number(const void* a, const void* b) noexcept nogil:
    cdef int64_t left = (<const int64_t*> a)[0], right = (<const int64_t*> b)[0]
    return (left > right) - (left < right)


cdef int open_used(UsedValues* s, Columns values) except -1:
    memset(s, 0, sizeof(UsedValues))
    s.places = <int64_t*> new_zeros(values.d.length, sizeof(int64_t))
    s.values = &values.d
    s.d.plan = values.d.plan
    s.d.nodes = &s.node
    s.d.views = &s.view
    s.d.extents = s.extents
    return 0


cdef void close_used(UsedValues* s) noexcept nogil:
    free(s.places)
    free(s.used.data)
    free(s.numbers.data)
    free_flat(&s.memory)


cdef int note_used(UsedValues* s, const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil:
    cdef const uint8_t* bits = validity(d, f)
    cdef int64_t i, index = 0, n = d.nodes[f].length, count = s.values.length
    cdef int64_t* used = <int64_t*> make_room(&s.used, (s.n_used + min(n, count)) * <int64_t> sizeof(int64_t))
    if used == NULL:
        return fail(fault, FAULT_MEMORY)
    for i in range(n):
        if bits != NULL and not get_bit(bits, i):
            continue
        if index_at(d, f, i, count, &index, fault) < 0:
            return -1
        if s.places[index] == 0:
            s.places[index] = 1
            used[s.n_used] = index
            s.n_used += 1
    return 0


cdef int gather_used(UsedValues* s, bint ordered, Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &s.d.plan.fields[0]
    cdef const uint8_t* bits = validity(s.values, 0)
    cdef int64_t* used = <int64_t*> s.used.data
    cdef int64_t* numbers = used
    cdef int64_t offset = s.values.nodes[0].offset, i
    if ordered and s.n_used:
        qsort(used, s.n_used, sizeof(int64_t), by_number)
    for i in range(s.n_used):
        s.places[used[i]] = i
    if bits != NULL or offset:
        numbers = <int64_t*> make_room(&s.numbers, s.n_used * <int64_t> sizeof(int64_t))
        if numbers == NULL:
            return fail(fault, FAULT_MEMORY)
        for i in range(s.n_used):
            numbers[i] = offset + used[i] if bits == NULL or get_bit(bits, offset + used[i]) else -1
    s.d.length = s.n_used
    s.d.n_extents = s.d.plan.n_buffers
    memset(&s.view, 0, sizeof(s.view))
    if take_flat(&s.memory, s.extents, &s.node, field, s.values, numbers, s.n_used, INT64_MAX, fault) < 0:
        return -1
    return own_text(s, numbers, fault) if field.view >= 0 else 0


cdef void forget_used(UsedValues* s) noexcept nogil:
    cdef int64_t i
    for i in range(s.n_used):
        s.places[(<int64_t*> s.used.data)[i]] = 0
    s.n_used = 0


cdef int own_text(UsedValues* s, const int64_t* numbers, Fault* fault) noexcept nogil:
    """Put the text behind the views that were taken into one data buffer; 1: it is too long for that."""
    cdef const FieldPlan* field = &s.values.plan.fields[0]
    cdef const ViewRange* view = &s.values.views[field.view]
    cdef uint8_t* views = <uint8_t*> s.extents[1].data
    cdef int64_t size = 0
    cdef Chosen chosen = Chosen(0, numbers, NULL, s.n_used, NULL, 0)
    cdef Piece piece
    memset(&piece, 0, sizeof(Piece))
    piece.d = s.values
    piece.values = s.values.extents[field.first_buffer + 1].data
    piece.buffers = &s.values.extents[view.first]
    piece.limit = view.count
    if check_views(views, &size, &piece, &chosen, 0, fault) < 0:
        return -1
    if fitting_views(views, 0, s.n_used, &size) < s.n_used:
        return 1
    if size == 0:
        return 0
    if make_room(&s.memory.data, size) == NULL:
        return fail(fault, FAULT_MEMORY)
    copy_texts(s.memory.data.data, views, 0, s.n_used, 0, &piece, &chosen)
    s.extents[s.d.plan.n_buffers] = Extent(s.memory.data.data, size)
    s.view = ViewRange(s.d.plan.n_buffers, 1)
    s.d.n_extents += 1
    return 0
