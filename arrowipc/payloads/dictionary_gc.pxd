# The values of a dictionary that some elements use, as a dictionary of their own.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData, Extent, FieldPlan, Node, ViewRange
from arrowipc.inline.room cimport Room

cdef inline Extent extent_of(const uint8_t* data, int64_t size) noexcept nogil:
    """`size` bytes at `data`; an empty extent has no address."""
    if size == 0:
        data = NULL
    return Extent(data, size)


cdef struct FlatMemory:
    # The memory of a flat column's buffers, used for one column after the other.
    Room validity
    Room values             # values, views or offsets
    Room data
    Room starts             # int64: where each text lies among the values


# Fill `out`, the extents of a flat field, and its node with the values at the physical positions `numbers` (-1: null)
# of the one column of `values` (NULL: there are only nulls). Views are copied, their data buffers stay where they are.
# Returns the bytes of the buffers; -1: `fault`, also if they are more than `most`.
cdef int64_t take_flat(FlatMemory* memory, Extent* out, Node* node, const FieldPlan* field, const ColumnsData* values,
                       const int64_t* numbers, int64_t n, int64_t most, Fault* fault) noexcept nogil
cdef void free_flat(FlatMemory* memory) noexcept nogil

cdef struct UsedValues:
    # A dictionary, and those of its values that a set of indices uses, one set after the other. The struct must not
    # move, because `d` points into it.
    const ColumnsData* values   # the whole dictionary, which must outlive this; NULL: closed
    ColumnsData d               # the values in use, after `gather_used`; its plan is that of `values`
    Node node
    ViewRange view
    Extent[4] extents           # validity, values or offsets or views, data; of views: their one data buffer
    FlatMemory memory           # what the extents point at
    int64_t* places             # per value: before `gather_used` 1 if in use, else 0; then its place among those in use
    Room used                   # int64: the values in use, in the order in which they were noted first
    Room numbers                # int64: the physical positions of these, -1: null
    int64_t n_used


# Return whether values that are not in use can be left out of a dictionary: it has values, and they are flat.
cdef bint is_reducible(Columns values) noexcept
# Begin with a dictionary; free everything.
cdef int open_used(UsedValues* s, Columns values) except -1
cdef void close_used(UsedValues* s) noexcept nogil
# Note which values the elements of field f of truncated columns use. -1: `fault`, of the columns.
cdef int note_used(UsedValues* s, const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil
# Fill `d` with the values in use. -1: `fault`, of the dictionary; 1: the text behind views is more than one data
# buffer can hold.
cdef int gather_used(UsedValues* s, Fault* fault) noexcept nogil
# Forget the values that were noted, before the next set of indices.
cdef void forget_used(UsedValues* s) noexcept nogil
