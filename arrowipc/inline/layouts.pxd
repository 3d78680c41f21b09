# What the layout of a field asks for: how many buffers, of what alignment, and which children.
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from arrowipc.inline.fault cimport *
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_LIST32,
    LAYOUT_LIST64, LAYOUT_LIST_VIEW32, LAYOUT_LIST_VIEW64, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE,
    LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64, LAYOUT_VIEW, FieldPlan,
)


cdef inline int buffers_of(int layout) noexcept nogil:
    """Buffers of a layout, without variadic ones (Columnar format, "Buffer Listing for Each Layout")."""
    if layout == LAYOUT_NULL or layout == LAYOUT_RUN_END:
        return 0
    if layout == LAYOUT_FIXED_LIST or layout == LAYOUT_STRUCT or layout == LAYOUT_SPARSE:
        return 1
    if (layout == LAYOUT_VAR32 or layout == LAYOUT_VAR64 or layout == LAYOUT_LIST_VIEW32
            or layout == LAYOUT_LIST_VIEW64):
        return 3
    return 2


cdef inline int alignment_of(const FieldPlan* f) noexcept nogil:
    """What the field's most demanding buffer needs of its address: C consumers read words from it."""
    cdef int layout = f.layout
    if layout == LAYOUT_FIXED:
        if f.type == Type_FixedSizeBinary:
            return 1
        return min(f.width, 8)
    if layout == LAYOUT_VAR64 or layout == LAYOUT_LIST64 or layout == LAYOUT_LIST_VIEW64 or layout == LAYOUT_VIEW:
        return 8
    if (layout == LAYOUT_VAR32 or layout == LAYOUT_LIST32 or layout == LAYOUT_LIST_VIEW32
            or layout == LAYOUT_DENSE):
        return 4
    return 1


cdef inline FieldPlan blank() noexcept nogil:
    cdef FieldPlan f
    memset(&f, 0, sizeof(FieldPlan))
    f.parent = f.view = f.codes = f.dictionary = -1
    return f


cdef inline int check_children(const FieldPlan* f, int64_t count, Fault* fault) noexcept nogil:
    """Whether the type has as many children as it must."""
    cdef int64_t expected = 0
    if f.layout == LAYOUT_STRUCT:
        return 0
    if f.layout == LAYOUT_SPARSE or f.layout == LAYOUT_DENSE:
        if count > 128:
            return fail_in(fault, FAULT_CHILDREN, "union", count, 128)
        return 0
    if f.layout == LAYOUT_RUN_END:
        expected = 2
    elif (f.layout == LAYOUT_FIXED_LIST
          or f.layout >= LAYOUT_LIST32 and f.layout <= LAYOUT_LIST_VIEW64):
        expected = 1
    if count != expected:
        return fail_in(fault, FAULT_CHILDREN, "map" if f.type == Type_Map else "list" if expected == 1
                       else "run-end encoded field" if expected == 2 else "type without children", count, expected)
    return 0


cdef inline int check_nested(const FieldPlan* fields, int32_t at, Fault* fault) noexcept nogil:
    """What a map and a run-end encoded field ask of their children."""
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
