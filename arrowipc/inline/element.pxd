# Where one element of a column lies: offsets, views, indices, codes and run ends, checked as they are read.
#
# Positions (`at`) are physical: they include node.offset and the offsets of parents. They lie inside the node, which
# `check_sizes` has measured. So the words read here exist, and only their values are untrusted.
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from arrowipc.inline.bits cimport load_int
from arrowipc.inline.fault cimport (
    Fault, fail, FAULT_INDEX, FAULT_LIST_VIEW, FAULT_OFFSET, FAULT_RUN_END, FAULT_TYPE_CODE,
    FAULT_UNION_OFFSET, FAULT_VIEW,
)
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport inside, load_i32, load_i64, load_u16, load_u32, loose_f32, loose_f64
from arrowipc.inline.plan cimport (
    FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED_LIST, LAYOUT_LIST32, LAYOUT_LIST64, LAYOUT_LIST_VIEW32, LAYOUT_VAR32,
    LAYOUT_VAR64, ColumnsData, Extent, FieldPlan,
)

cdef extern from "Python.h":
    double PyFloat_Unpack2(const char* p, int little_endian) noexcept   # it may fail by its documentation, and cannot


cdef inline const uint8_t* validity(const ColumnsData* d, int32_t f) noexcept nogil:
    """Return the validity bitmap of a field; NULL if nothing is null, or if its layout (e.g. null columns) has none."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    return d.extents[field.first_buffer].data if LAYOUTS[field.layout].has_validity else NULL


cdef inline uint64_t load_unsigned(const uint8_t* p, int32_t width) noexcept nogil:
    if width == 4:
        return load_u32(p)
    if width == 8:
        return <uint64_t> load_i64(p)
    if width == 2:
        return load_u16(p)
    return p[0]


cdef inline double load_float(const uint8_t* p, int64_t i, int32_t width) noexcept:
    """Load the floating-point number i of several of `width` bytes each; it needs the GIL for two bytes."""
    if width == 8:
        return (<const loose_f64*> p)[i]
    if width == 4:
        return (<const loose_f32*> p)[i]
    return PyFloat_Unpack2(<const char*> p + 2 * i, 1)


cdef inline int64_t float_key(uint64_t bits, int32_t width) noexcept nogil:
    """Return an integer that sorts as floats of that width do: NaN equals NaN and is above all; -0.0 equals 0.0."""
    cdef uint64_t sign = <uint64_t> 1 << (8 * width - 1), size = bits & (sign - 1)
    cdef uint64_t infinite = (sign - 1) & ~((<uint64_t> 1 << (52 if width == 8 else 23 if width == 4 else 10)) - 1)
    cdef int64_t below = -<int64_t> (bits >> (8 * width - 1))
    return INT64_MAX if size > infinite else (<int64_t> size ^ below) - below


cdef inline int64_t copy_view(uint8_t* out, const uint8_t* view, const Extent* buffers, int64_t count, int32_t f,
                              int64_t at, Fault* fault) noexcept nogil:
    """Copy a view and check the copy: others may write to the memory that is read. `count` data buffers are there.

    Return how many bytes it points at in a data buffer; 0: it is inline, -1: it points elsewhere.
    """
    cdef int64_t length, index, offset
    memcpy(out, view, 16)
    length = load_i32(out)
    if 0 <= length <= 12:
        return 0
    if length < 0:
        return fail(fault, FAULT_VIEW, f, 1, at, length, 0, b"length")
    index = load_i32(out + 8)
    if not 0 <= index < count:
        return fail(fault, FAULT_VIEW, f, 1, at, index, count, b"buffer index")
    offset = load_i32(out + 12)
    if not inside(offset, length, buffers[index].size):
        return fail(fault, FAULT_VIEW, f, 1, at, offset, buffers[index].size, b"offset")
    return length


cdef inline int span(const ColumnsData* d, int32_t f, int64_t at, int64_t* start, int64_t* size,
                     Fault* fault) noexcept nogil:
    """Find the bytes (of text and binary) or the child's elements (of lists) that element `at` consists of.

    The start of elements is relative to the child's own offset.
    """
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const Extent* extent = &d.extents[field.first_buffer]
    cdef int64_t end, available
    cdef int layout = field.layout
    if layout == LAYOUT_FIXED_LIST:
        # The child is long enough for the whole node: check_sizes multiplied with an overflow check.
        start[0] = at * field.width
        size[0] = field.width
        return 0
    available = extent[2].size if layout == LAYOUT_VAR32 or layout == LAYOUT_VAR64 else d.nodes[f + 1].length
    if layout == LAYOUT_VAR32 or layout == LAYOUT_LIST32:
        start[0] = load_i32(extent[1].data + 4 * at)
        end = load_i32(extent[1].data + 4 * at + 4)
    elif layout == LAYOUT_VAR64 or layout == LAYOUT_LIST64:
        start[0] = load_i64(extent[1].data + 8 * at)
        end = load_i64(extent[1].data + 8 * at + 8)
    else:
        if layout == LAYOUT_LIST_VIEW32:
            start[0] = load_i32(extent[1].data + 4 * at)
            size[0] = load_i32(extent[2].data + 4 * at)
        else:
            start[0] = load_i64(extent[1].data + 8 * at)
            size[0] = load_i64(extent[2].data + 8 * at)
        if inside(start[0], size[0], available):
            return 0
        if size[0] < 0 or (start[0] >= 0 and start[0] <= available):
            return fail(fault, FAULT_LIST_VIEW, f, 2, at, size[0], available, "size")
        return fail(fault, FAULT_LIST_VIEW, f, 1, at, start[0], available, "offset")
    if start[0] < 0 or start[0] > available:
        return fail(fault, FAULT_OFFSET, f, 1, at, start[0], available)
    if end < start[0] or end > available:
        return fail(fault, FAULT_OFFSET, f, 1, at + 1, end, available)
    size[0] = end - start[0]
    return 0


cdef inline int view_span(const ColumnsData* d, int32_t f, int64_t at, const uint8_t** data, int64_t* size,
                          Fault* fault) noexcept nogil:
    """Find the bytes that a view points at."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* view = d.extents[field.first_buffer + 1].data + 16 * at
    cdef const Extent* extent
    cdef int32_t buffer, offset, count = d.views[field.view].count
    size[0] = load_i32(view)
    if size[0] < 0:
        return fail(fault, FAULT_VIEW, f, 1, at, size[0], 0, "length")
    if size[0] <= 12:
        data[0] = view + 4
        return 0
    buffer = load_i32(view + 8)
    if buffer < 0 or buffer >= count:
        return fail(fault, FAULT_VIEW, f, 1, at, buffer, count, "buffer index")
    extent = &d.extents[d.views[field.view].first + buffer]
    offset = load_i32(view + 12)
    if not inside(offset, size[0], extent.size):
        return fail(fault, FAULT_VIEW, f, 1, at, offset, extent.size, "offset")
    data[0] = extent.data + offset
    return 0


cdef inline int word_span(const ColumnsData* d, int32_t f, int64_t at, const uint8_t** data, int64_t* size,
                          Fault* fault) noexcept nogil:
    """Find the bytes of a text or binary value, in any of its layouts."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const Extent* extent = &d.extents[field.first_buffer]
    cdef int64_t start
    if field.layout != LAYOUT_VAR32 and field.layout != LAYOUT_VAR64:
        return view_span(d, f, at, data, size, fault)
    if span(d, f, at, &start, size, fault) < 0:
        return -1
    # An empty value needs no data; there may be none, and NULL must not be moved.
    data[0] = extent[2].data + start if size[0] else <const uint8_t*> b""
    return 0


cdef inline int index_at(const ColumnsData* d, int32_t f, int64_t at, int64_t count, int64_t* index,
                         Fault* fault) noexcept nogil:
    """Read the dictionary index at `at`, and check that it lies inside a dictionary of `count` values."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* p = d.extents[field.first_buffer + 1].data + at * field.width
    # An unsigned index above 2^63 turns negative here, and is refused with the others.
    if field.flags & FIELD_SIGNED:
        index[0] = load_int(p, 0, field.width)
    else:
        index[0] = <int64_t> load_unsigned(p, field.width)
    if index[0] < 0 or index[0] >= count:
        return fail(fault, FAULT_INDEX, f, 1, at, index[0], count)
    return 0


cdef inline int member_at(const ColumnsData* d, int32_t f, int64_t at, int32_t* child, int64_t* element,
                          Fault* fault) noexcept nogil:
    """Find the child of a union that holds element `at`, and the physical position in that child."""
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const Extent* extent = &d.extents[field.first_buffer]
    cdef int8_t code = <int8_t> extent[0].data[at]
    cdef int8_t ordinal = d.plan.codes[128 * field.codes + code] if code >= 0 else -1
    cdef int64_t position = at
    if ordinal < 0:
        return fail(fault, FAULT_TYPE_CODE, f, 0, at, code)
    child[0] = f + 1
    while ordinal > 0:
        child[0] = d.plan.fields[child[0]].end
        ordinal -= 1
    if field.layout == LAYOUT_DENSE:
        position = load_i32(extent[1].data + 4 * at)
        if position < 0 or position >= d.nodes[child[0]].length:
            return fail(fault, FAULT_UNION_OFFSET, f, 1, at, position, d.nodes[child[0]].length)
    element[0] = d.nodes[child[0]].offset + position
    return 0


cdef inline int64_t run_end(const ColumnsData* d, int32_t f, int64_t run) noexcept nogil:
    """Return the logical position where run `run` of the run-end encoded field `f` ends."""
    cdef const FieldPlan* ends = &d.plan.fields[f + 1]
    return load_int(d.extents[ends.first_buffer + 1].data, d.nodes[f + 1].offset + run, ends.width)


cdef inline int64_t find_run(const ColumnsData* d, int32_t f, int64_t at) noexcept nogil:
    """Return the first run that ends after `at`, or the number of runs. Invalid run ends give some answer, too."""
    cdef int64_t low = 0, high = d.nodes[f + 1].length, middle
    while low < high:
        middle = low + (high - low) // 2
        if run_end(d, f, middle) > at:
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int next_run(const ColumnsData* d, int32_t f, int64_t run, int64_t at, int64_t* end,
                         Fault* fault) noexcept nogil:
    """Find where run `run` ends; it must exist and end after `at`."""
    cdef int64_t count = d.nodes[f + 1].length
    if run >= count:
        # The field claims more rows than its runs have.
        return fail(fault, FAULT_RUN_END, f, -1, count - 1, run_end(d, f, count - 1) if count else 0, at + 1)
    end[0] = run_end(d, f, run)
    if end[0] <= at:
        return fail(fault, FAULT_RUN_END, f, -1, run, end[0], at + 1)
    return 0
