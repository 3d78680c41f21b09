"""Runs of rows with equal keys: where they begin, and the keys of each.

Null equals null, NaN equals NaN and 0.0 equals -0.0, as in Spark's groupBy. Numbers and texts are compared
in their buffers, and so are dictionary indices; where indices differ, their values are compared. Everything else
goes through `columns.equal`. Nothing here trusts the contents of buffers.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset

from arrowipc._core cimport Memory
from arrowipc.columns.elements cimport check
from arrowipc.columns.equal cimport same_values
from arrowipc.columns.record_batch cimport RecordBatch, select_columns
from arrowipc.columns.take cimport int64s, take_pieces
from arrowipc.inline.element cimport float_key, load_unsigned, validity, word_span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport Type_FloatingPoint
from arrowipc.inline.gather cimport write_runs
from arrowipc.inline.layouts cimport is_binary
from arrowipc.inline.loads cimport get_bit, loose_u16, loose_u32, loose_u64
from arrowipc.inline.plan cimport FIELD_ENCODED, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, ColumnsData, FieldPlan

# -- where runs begin ----------------------------------------------------------------------------------------


ctypedef fused Number:
    uint8_t
    loose_u16
    loose_u32
    loose_u64


cdef inline void mark_numbers(const Number* values, int64_t count, uint8_t* marks) noexcept nogil:
    cdef int64_t i
    for i in range(1, count):
        marks[i] |= values[i] != values[i - 1]


cdef void mark_nulls(const uint8_t* bits, int64_t start, int64_t count, uint8_t* marks) noexcept nogil:
    """Correct marks that were set without looking at nulls: two nulls are equal, a null and a value are not."""
    cdef int64_t i
    cdef bint before = get_bit(bits, start), now
    for i in range(1, count):
        now = get_bit(bits, start + i)
        if not (now and before):
            marks[i] = now != before
        before = now


cdef void mark_floats(const uint8_t* values, int32_t width, int64_t count, uint8_t* marks) noexcept nogil:
    cdef int64_t i
    for i in range(1, count):
        marks[i] |= (float_key(load_unsigned(values + i * width, width), width)
                     != float_key(load_unsigned(values + (i - 1) * width, width), width))


cdef void mark_fixed(const ColumnsData* d, int32_t f, int64_t start, int64_t count, uint8_t* marks) noexcept nogil:
    """Mark changes in at least two values, or dictionary indices, of a fixed width."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef int32_t width = field.width
    cdef const uint8_t* values = d.extents[field.first_buffer + 1].data + start * width
    cdef int64_t i
    if width == 0:
        return
    if field.type == Type_FloatingPoint:
        mark_floats(values, width, count, marks)
    elif width == 8:
        mark_numbers(<const loose_u64*> values, count, marks)
    elif width == 4:
        mark_numbers(<const loose_u32*> values, count, marks)
    elif width == 2:
        mark_numbers(<const loose_u16*> values, count, marks)
    elif width == 1:
        mark_numbers(values, count, marks)
    else:
        for i in range(1, count):
            marks[i] |= memcmp(values + i * width, values + (i - 1) * width, width) != 0


cdef int mark_binary(const ColumnsData* d, int32_t f, int64_t start, int64_t count, uint8_t* marks,
                     Fault* fault) noexcept nogil:
    """Mark where text or binary changes; the bytes of nulls are not read."""
    cdef const uint8_t* bits = validity(d, f)
    cdef const uint8_t* before = NULL
    cdef const uint8_t* now = NULL
    cdef int64_t i, size_before = -1, size = 0
    for i in range(count):
        if bits != NULL and not get_bit(bits, start + i):
            size = -1
        elif word_span(d, f, start + i, &now, &size, fault) < 0:
            return -1
        if i and (size != size_before or (size > 0 and memcmp(now, before, size) != 0)):
            marks[i] = 1
        before = now
        size_before = size
    return 0


cdef int mark_others(RecordBatch keys, int32_t f, int64_t start, int64_t count, uint8_t* marks,
                     const uint8_t* doubtful) except -1:
    """Mark changes in values of any type, compared one by one; only `doubtful` rows may differ (NULL: all)."""
    cdef int64_t i
    for i in range(1, count):
        if not marks[i] and (doubtful == NULL or doubtful[i]):
            marks[i] = not same_values(keys, f, start + i, keys, f, start + i - 1, 1, True)
    return 0


cdef int mark_column(RecordBatch keys, int32_t f, uint8_t* marks, uint8_t* scratch) except -1:
    """Add to `marks` the rows at which the value of a column changes."""
    cdef const FieldPlan* field = &keys.d.plan.fields[f]
    cdef const uint8_t* bits = validity(&keys.d, f)
    cdef int64_t start = keys.d.nodes[f].offset, count = keys.d.length, i
    cdef int layout = field.layout
    cdef Fault fault
    if layout == LAYOUT_NULL:
        return 0
    if is_binary(layout):
        return check(mark_binary(&keys.d, f, start, count, marks, &fault), &fault, keys)
    if layout != LAYOUT_FIXED and layout != LAYOUT_BOOL:
        return mark_others(keys, f, start, count, marks, NULL)
    memset(scratch, 0, count)
    if layout == LAYOUT_FIXED:
        mark_fixed(&keys.d, f, start, count, scratch)
    else:
        for i in range(1, count):
            scratch[i] = (get_bit(keys.d.extents[field.first_buffer + 1].data, start + i)
                          != get_bit(keys.d.extents[field.first_buffer + 1].data, start + i - 1))
    if bits != NULL:
        mark_nulls(bits, start, count, scratch)
    if field.flags & FIELD_ENCODED:
        return mark_others(keys, f, start, count, marks, scratch)
    for i in range(count):
        marks[i] |= scratch[i]
    return 0


cdef Memory find_runs(RecordBatch keys):
    cdef int64_t count = keys.d.length, runs = 0, i
    cdef Memory out
    cdef int64_t* starts
    cdef uint8_t* marks = <uint8_t*> malloc(2 * count + 1)
    if marks == NULL:
        raise MemoryError()
    try:
        memset(marks, 0, count)
        if count > 1:
            for i in range(keys.d.plan.n_columns):
                mark_column(keys, keys.d.plan.columns[i], marks, marks + count)
        if count:
            marks[0] = 1
        for i in range(count):
            runs += marks[i]
        out = int64s(runs + 1)
        starts = <int64_t*> out.data
        runs = 0
        for i in range(count):
            starts[runs] = i
            runs += marks[i]
        starts[runs] = count
        return out
    finally:
        free(marks)


# -- the keys of runs ----------------------------------------------------------------------------------------


cdef RecordBatch first_rows(RecordBatch keys, const int64_t* starts, int64_t count):
    return take_pieces([keys], starts, NULL, count, write_runs(NULL, starts, NULL, count))


def runs_of(RecordBatch batch not None, columns):
    """Return the first row of each run of equal values in some columns, then the number of rows; and the runs' keys."""
    cdef RecordBatch keys = select_columns(batch, tuple(columns))
    cdef Memory starts = find_runs(keys)
    cdef int64_t count = starts.size // 8 - 1
    return memoryview(starts).cast("q").tolist(), first_rows(keys, <int64_t*> starts.data, count)
