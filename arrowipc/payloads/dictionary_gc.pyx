"""The values of a dictionary that some elements use, as a dictionary of their own.

The cost depends on the number of elements, not on the size of the dictionary: the notes per value are in memory that
starts as zeros, and are set back to zeros value by value. The new indices are smaller than the number of values in use,
so they fit the type of the old ones.

Indices, offsets and views are untrusted: each is checked as it is followed.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from arrowipc._core cimport Columns
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport FAULT_MEMORY, FAULT_OFFSET, Fault, fail
from arrowipc.inline.gather cimport (
    Chosen, Piece, gather_views, copy_texts, fitting_views, gather_bits, gather_data, gather_offsets, gather_words,
)
from arrowipc.inline.layouts cimport BUFFER_BITS, BUFFER_FIXED, LAYOUTS, has_offsets, size_needed, width_of
from arrowipc.inline.loads cimport bitmap_bytes, get_bit
from arrowipc.inline.plan cimport FIELD_ENCODED, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node, ViewRange
from arrowipc.inline.room cimport make_room, new_zeros


# -- values of a flat column, by their numbers ------------------------------------------------------------------


cdef Piece piece_of(const ColumnsData* values) noexcept nogil:
    """Return the one flat column of `values`, without its nulls, as a Piece to copy values from; NULL: no values.

    A column of the null type has no buffers, and nothing to copy.
    """
    cdef const FieldPlan* field
    cdef const Extent* extents
    cdef Piece piece
    memset(&piece, 0, sizeof(Piece))
    if values == NULL or not LAYOUTS[values.plan.fields[0].layout].has_validity:
        return piece
    field = &values.plan.fields[0]
    extents = &values.extents[field.first_buffer]
    piece.d, piece.nodes, piece.extents, piece.values = values, values.nodes, values.extents, extents[1].data
    if field.view >= 0:
        piece.buffers = &values.extents[values.views[field.view].first]
        piece.limit = values.views[field.view].count
    elif has_offsets(field.layout):
        piece.data, piece.limit = extents[2].data, extents[2].size
    return piece


cdef int64_t take_text(FlatMemory* memory, uint8_t* offsets, int32_t width, const Piece* piece, const Chosen* chosen,
                       int64_t most, Fault* fault) noexcept nogil:
    """Take text and its offsets; nulls are empty. Returns the bytes of text; -1: `fault`, also for more than `most`.

    All sizes are added up before the first text is copied: few bytes of indices may stand for terabytes.
    """
    cdef int64_t* starts = <int64_t*> make_room(&memory.starts, chosen.count * <int64_t> sizeof(int64_t))
    cdef int64_t total
    if starts == NULL:
        return fail(fault, FAULT_MEMORY)
    total = gather_offsets(offsets, starts, width, piece, chosen, 0, fault)
    if total == -2 or total > most:
        # Unless `most` is small, only offsets that do not rise make that much text.
        return fail(fault, FAULT_OFFSET, 0, 1, 0, total if total >= 0 else INT64_MAX, most, NULL)
    if total < 0:
        return -1
    if make_room(&memory.data, total) == NULL:
        return fail(fault, FAULT_MEMORY)
    gather_data(memory.data.data, 1, offsets, starts, width, piece, chosen)
    return total


cdef int64_t take_flat(FlatMemory* memory, Extent* out, Node* node, const FieldPlan* field, const ColumnsData* values,
                       const int64_t* numbers, int64_t n, int64_t most, Fault* fault) noexcept nogil:
    cdef int64_t bits = bitmap_bytes(n), nulls = 0, size, text = 0, i
    cdef int kind = LAYOUTS[field.layout].buffers[1].kind
    cdef Piece piece = piece_of(values)
    cdef Chosen chosen = Chosen(0, numbers, NULL, n, NULL, 0)
    cdef uint8_t* to
    for i in range(n):
        nulls += numbers[i] < 0
    if not LAYOUTS[field.layout].has_validity:
        node[0] = Node(n, n, 0)
        return 0
    node[0] = Node(n, nulls, 0)
    # The bitmap counts even if no row is null, as in `take_into`, which counts it if the values have nulls.
    most -= bits
    size = size_needed(field, 1, n)
    out[0] = Extent(NULL, 0)
    if nulls:
        to = make_room(&memory.validity, bits)
        if to == NULL:
            return fail(fault, FAULT_MEMORY)
        gather_bits(to, True, &piece, &chosen)
        out[0] = Extent(to, bits)
    to = make_room(&memory.values, size) if size <= most else NULL
    if to == NULL:
        return fail(fault, FAULT_MEMORY)
    out[1] = extent_of(to, size)
    if kind == BUFFER_BITS:
        gather_bits(to, False, &piece, &chosen)
    elif kind == BUFFER_FIXED:
        gather_words(to, width_of(field, 1), &piece, &chosen)
    else:
        text = take_text(memory, to, <int32_t> width_of(field, 1), &piece, &chosen, most - size, fault)
        if text < 0:
            return -1
        out[2] = extent_of(memory.data.data, text)
    return size + text + (bits if nulls else 0)


cdef void free_flat(FlatMemory* memory) noexcept nogil:
    free(memory.validity.data)
    free(memory.values.data)
    free(memory.data.data)
    free(memory.starts.data)


# -- values in use -------------------------------------------------------------------------------------------


cdef bint is_reducible(Columns values) noexcept:
    cdef const FieldPlan* field
    if values.d.plan.n_fields != 1 or not 0 < values.d.length <= INT32_MAX:
        return False
    field = &values.d.plan.fields[0]
    return field.layout <= LAYOUT_VIEW and not field.flags & FIELD_ENCODED


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


cdef int gather_used(UsedValues* s, Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &s.d.plan.fields[0]
    cdef const uint8_t* bits = validity(s.values, 0)
    cdef int64_t* used = <int64_t*> s.used.data
    cdef int64_t* numbers = used
    cdef int64_t offset = s.values.nodes[0].offset, i
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
    cdef uint8_t* views = <uint8_t*> s.extents[1].data
    cdef int64_t size = 0
    cdef Chosen chosen = Chosen(0, numbers, NULL, s.n_used, NULL, 0)
    cdef Piece piece = piece_of(s.values)
    if gather_views(views, &size, &piece, &chosen, 0, fault) < 0:
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
