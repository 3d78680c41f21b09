# The table of layouts: which buffers each has, of what width and alignment, and how many children.
from libc.stdint cimport INT64_MAX, int32_t, int64_t, int8_t, uint8_t
from libc.string cimport memset

from arrowipc.inline.fault cimport *
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport add_overflows, bitmap_bytes, mul_overflows
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_LIST_VIEW32,
    LAYOUT_LIST_VIEW64, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW,
    FieldPlan, FieldSizes,
)

cdef enum:
    MOST_BITS = 1 << 27     # per element, and elements per fixed-size list: `walk_measured` multiplies by them

cdef enum BufferKind:
    BUFFER_NONE = 0
    BUFFER_VALIDITY         # a bit per element; may be left out
    BUFFER_BITS             # a bit per element
    BUFFER_FIXED            # `width` bytes per element
    BUFFER_OFFSETS          # `width` bytes per element and one more
    BUFFER_DATA             # what the offsets before it point into

cdef extern from *:
    """
    #ifndef ARROWIPC_LAYOUTS
    #define ARROWIPC_LAYOUTS
    typedef struct { unsigned char kind, width; } arrowipc_buffer_spec;
    typedef struct { unsigned char n_buffers, has_validity; signed char n_children; arrowipc_buffer_spec buffers[3]; }
        arrowipc_layout_spec;
    #define VALIDITY {1, 0}
    #define BITS {2, 0}
    #define FIXED(width) {3, width}
    #define OFFSETS(width) {4, width}
    #define DATA {5, 0}
    /* Columnar format, "Buffer Listing for Each Layout"; in the order of the enum Layout. */
    static const arrowipc_layout_spec arrowipc_layouts[15] = {
        {0, 0, 0, {{0, 0}}},                            /* NULL */
        {2, 1, 0, {VALIDITY, BITS}},                    /* BOOL */
        {2, 1, 0, {VALIDITY, FIXED(0)}},                /* FIXED */
        {3, 1, 0, {VALIDITY, OFFSETS(4), DATA}},        /* VAR32 */
        {3, 1, 0, {VALIDITY, OFFSETS(8), DATA}},        /* VAR64 */
        {2, 1, 0, {VALIDITY, FIXED(16)}},               /* VIEW */
        {2, 1, 1, {VALIDITY, OFFSETS(4)}},              /* LIST32 */
        {2, 1, 1, {VALIDITY, OFFSETS(8)}},              /* LIST64 */
        {3, 1, 1, {VALIDITY, FIXED(4), FIXED(4)}},      /* LIST_VIEW32 */
        {3, 1, 1, {VALIDITY, FIXED(8), FIXED(8)}},      /* LIST_VIEW64 */
        {1, 1, 1, {VALIDITY}},                          /* FIXED_LIST */
        {1, 1, -1, {VALIDITY}},                         /* STRUCT */
        {1, 0, -1, {FIXED(1)}},                         /* SPARSE */
        {2, 0, -1, {FIXED(1), FIXED(4)}},               /* DENSE */
        {0, 0, 2, {{0, 0}}},                            /* RUN_END */
    };
    #undef VALIDITY
    #undef BITS
    #undef FIXED
    #undef OFFSETS
    #undef DATA
    #endif
    """
    ctypedef struct BufferSpec "arrowipc_buffer_spec":
        uint8_t kind            # BufferKind
        uint8_t width           # 0: FieldPlan.width

    ctypedef struct LayoutSpec "arrowipc_layout_spec":
        uint8_t n_buffers       # without variadic ones
        uint8_t has_validity    # the first buffer is a validity bitmap
        int8_t n_children       # -1: any number
        BufferSpec[3] buffers

    const LayoutSpec[15] LAYOUTS "arrowipc_layouts"     # per Layout


cdef inline bint is_binary(int layout) noexcept nogil:
    """Whether this is a layout of text and binary, whose values may have any size."""
    return layout == LAYOUT_VAR32 or layout == LAYOUT_VAR64 or layout == LAYOUT_VIEW


cdef inline bint is_list_view(int layout) noexcept nogil:
    return layout == LAYOUT_LIST_VIEW32 or layout == LAYOUT_LIST_VIEW64


cdef inline bint is_union(int layout) noexcept nogil:
    return layout == LAYOUT_SPARSE or layout == LAYOUT_DENSE


cdef inline bint has_offsets(int layout) noexcept nogil:
    """Whether buffer 1 has an offset per element and one more: text, binary, lists and maps."""
    return LAYOUTS[layout].buffers[1].kind == BUFFER_OFFSETS


cdef inline int64_t width_of(const FieldPlan* field, int32_t k) noexcept nogil:
    """Return the bytes of an element of buffer `k`, which is one of BUFFER_FIXED or BUFFER_OFFSETS."""
    cdef int64_t width = LAYOUTS[field.layout].buffers[k].width
    return width if width else field.width


cdef inline int64_t size_needed(const FieldPlan* field, int32_t k, int64_t length) noexcept nogil:
    """Return the bytes that buffer `k` needs for `length` elements; -1: its values decide; INT64_MAX: even more."""
    cdef int kind = LAYOUTS[field.layout].buffers[k].kind
    cdef int64_t size
    if kind == BUFFER_VALIDITY or kind == BUFFER_BITS:
        return bitmap_bytes(length)
    if kind == BUFFER_FIXED or kind == BUFFER_OFFSETS:
        if add_overflows(length, kind == BUFFER_OFFSETS, &size) or mul_overflows(size, width_of(field, k), &size):
            return INT64_MAX
        return size
    return -1


cdef inline int alignment_of(const FieldPlan* f) noexcept nogil:
    """Return the alignment that the field's most demanding buffer needs: C consumers read words from it."""
    cdef int64_t alignment = 1
    cdef int32_t k
    if f.layout == LAYOUT_FIXED and f.type == Type_FixedSizeBinary:
        return 1
    for k in range(LAYOUTS[f.layout].n_buffers):
        if LAYOUTS[f.layout].buffers[k].kind in (BUFFER_FIXED, BUFFER_OFFSETS):
            alignment = max(alignment, min(width_of(f, k), 8))
    return <int> alignment


cdef inline bint sizes_of(const FieldPlan* fields, int32_t i, FieldSizes* out) noexcept nogil:
    """Fill what `walk_measured` has to know of field `i`; return False if it cannot measure this field."""
    cdef const FieldPlan* f = &fields[i]
    cdef const LayoutSpec* spec = &LAYOUTS[f.layout]
    cdef int64_t width = width_of(f, 1) if spec.n_buffers > 1 else 0
    cdef int kind = spec.buffers[1].kind
    out.parent = f.parent
    out.n_buffers = spec.n_buffers
    out.bits = 1 if kind == BUFFER_BITS else <int32_t> min(8 * width, <int64_t> MOST_BITS)
    out.more = kind == BUFFER_OFFSETS
    out.times = 0
    if f.parent >= 0 and fields[f.parent].layout == LAYOUT_STRUCT:
        out.times = 1
    elif f.parent >= 0 and fields[f.parent].layout == LAYOUT_FIXED_LIST:
        out.times = min(fields[f.parent].width, <int32_t> MOST_BITS)
    return (spec.has_validity and f.layout != LAYOUT_VIEW and not is_list_view(f.layout)
            and out.bits < MOST_BITS and out.times < MOST_BITS)


cdef inline FieldPlan blank() noexcept nogil:
    cdef FieldPlan f
    memset(&f, 0, sizeof(FieldPlan))
    f.parent = f.view = f.codes = f.dictionary = -1
    return f


cdef inline int check_children(const FieldPlan* f, int64_t count, Fault* fault) noexcept nogil:
    """Check that the type has as many children as it must have."""
    cdef int64_t expected = LAYOUTS[f.layout].n_children
    if expected < 0:
        if f.layout != LAYOUT_STRUCT and count > 128:
            return fail_in(fault, FAULT_CHILDREN, "union", count, 128)
        return 0
    if count != expected:
        return fail_in(fault, FAULT_CHILDREN, "map" if f.type == Type_Map else "list" if expected == 1
                       else "run-end encoded field" if expected == 2 else "type without children", count, expected)
    return 0


cdef inline int check_nested(const FieldPlan* fields, int32_t at, Fault* fault) noexcept nogil:
    """Check what a map and a run-end encoded field require of their children."""
    cdef const FieldPlan* child = &fields[at + 1]
    if fields[at].type == Type_Map and not fields[at].flags & FIELD_ENCODED:
        if child.layout != LAYOUT_STRUCT or child.n_children != 2 or child.flags & FIELD_NULLABLE:
            return fail_in(fault, FAULT_TYPE, "Map entries (a not-null struct of key and value): a child",
                           child.n_children)
        if fields[at + 2].flags & FIELD_NULLABLE:
            return fail_in(fault, FAULT_TYPE, "Map key: nullable", 1)
    elif fields[at].layout == LAYOUT_RUN_END:
        if (child.layout != LAYOUT_FIXED or child.type != Type_Int or child.flags & FIELD_ENCODED
                or not child.flags & FIELD_SIGNED or child.width == 1):
            return fail_in(fault, FAULT_TYPE, "run ends (int16, int32 or int64): a type", child.type)
    return 0
