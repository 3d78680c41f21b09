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


# Fill `out`, the extents of a flat field, and its node with the values at the physical positions `numbers` of the one
# column of `values` (-1: null; NULL: there are only nulls). Views are copied, their data buffers stay where they are.
# Returns the bytes of the buffers; -1: more than `most`, or `fault`.
cdef int64_t take_flat(FlatMemory* memory, Extent* out, Node* node, const FieldPlan* field, const ColumnsData* values,
                       const int64_t* numbers, int64_t n, int64_t most, Fault* fault) noexcept nogil
cdef void free_flat(FlatMemory* memory) noexcept nogil

cdef struct UsedValues:
    # A dictionary, and the values of it that one set of indices after the other uses. It must not move.
    const ColumnsData* values   # the whole dictionary, which must outlive this; NULL: closed
    ColumnsData d               # the values in use, after `gather_used`; its plan is that of `values`
    Node node
    ViewRange view
    Extent[4] extents           # validity, values or offsets or views, data; of views: their one data buffer
    FlatMemory memory           # what the extents point at
    int64_t* places             # per value: its place among those in use; before `gather_used` 1; 0: not in use
    Room used                   # int64: the values in use, in the order in which they were noted first
    Room numbers                # int64: where these lie, -1: null
    int64_t n_used


# Whether the values in use of a dictionary can be told from the others: it has some, and they are flat.
cdef bint is_reducible(Columns values) noexcept
cdef int open_used(UsedValues* s, Columns values) except -1
cdef void close_used(UsedValues* s) noexcept nogil
# Notes which values the elements of field f of truncated columns use. -1: `fault`, of the columns.
cdef int note_used(UsedValues* s, const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil
# Fills `d` with the values in use; `ordered`: as they were in the dictionary. -1: `fault`, of the dictionary;
# 1: text behind views is more than one data buffer can hold.
cdef int gather_used(UsedValues* s, bint ordered, Fault* fault) noexcept nogil
# Forgets the values that were noted, before the next set of indices.
cdef void forget_used(UsedValues* s) noexcept nogil
