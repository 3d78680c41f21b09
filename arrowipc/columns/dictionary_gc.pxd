# The values of a dictionary that some elements use, as a dictionary of their own.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData, Extent, Node, ViewRange

cdef struct Room:
    # Memory that is used again and again.
    uint8_t* data
    int64_t size

cdef struct UsedValues:
    # One dictionary, cut down to the values in use, for one set of indices after the other. It must not move.
    const ColumnsData* values   # the whole dictionary, which `serves` and outlives this; NULL: closed
    ColumnsData d               # the values in use, after `gather`; its plan is that of `values`
    Node node
    ViewRange view
    Extent[4] extents           # validity, values or offsets or views, data
    Room places                 # per value: 1 + its place among those in use; 0: not in use
    Room used                   # int32, the values in use, in the order in which they were noted first
    Room[3] rooms               # what the extents point at
    int64_t n_used


# Whether a dictionary is one that a UsedValues can be made of: it has values, and they are flat.
cdef bint serves(Columns values) noexcept
cdef int open_used(UsedValues* s, Columns values) except -1
cdef void close_used(UsedValues* s) noexcept nogil
# Elements of field f of truncated columns: notes which values the valid ones use. The columns are at fault.
cdef int note(UsedValues* s, const ColumnsData* d, int32_t f, Fault* fault) noexcept nogil
# Fills `d` with the values in use, `ordered` as they were in the dictionary. The dictionary is at fault.
# 1: they do not fit one data buffer.
cdef int gather(UsedValues* s, bint ordered, Fault* fault) noexcept nogil
# Then: the new indices of a field that was noted (zeros for nulls).
cdef void transpose(const UsedValues* s, const ColumnsData* d, int32_t f, uint8_t* out) noexcept nogil
# What comes after each set of indices.
cdef void forget(UsedValues* s) noexcept nogil

# Room for `size` bytes; what is there stays.
cdef int make_room(Room* room, int64_t size, Fault* fault) noexcept nogil
