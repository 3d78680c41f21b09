# Columns while they are built: their buffers, and the loops that fill those of leaf types from Python values.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.plan cimport ColumnsData, PlanData

cdef enum:
    MAX_NESTED = 128        # types nest at most 64 levels, and each level adds at most one entry to `above`


cdef class Converter:
    """The buffers of one plan while they are filled; fills the fields that have no children."""
    cdef Plan plan
    cdef const PlanData* p          # plan.d
    cdef ColumnsData d              # nodes and the plan's extents; variadic ones are in `pools`
    cdef list owners                # per buffer: what keeps it alive
    cdef list pools                 # per view ordinal: (address, size, owner) of each data buffer
    cdef uint8_t* zoned             # per field: whether it is a timestamp with a timezone; 0: not looked at
    cdef object filler              # the object in `items` for a slot under a null parent
    cdef object held                # the owner of the current value's bytes
    cdef int depth                  # entries of `above` in use
    cdef int32_t[MAX_NESTED] above  # fields above the current one whose children's positions differ from theirs
    cdef Converter user             # the Converter for which this one makes dictionary values or values of runs,
    cdef int32_t user_field         # and the field of `user`

    cdef uint8_t* allocate_buffer(self, int32_t buffer, int64_t size) except NULL  # memory for `size` bytes
    # Let a buffer be bytes that `owner` keeps alive.
    cdef int take(self, int32_t buffer, const uint8_t* data, int64_t size, object owner) except -1
    cdef int null(self, int32_t f, int64_t at, bint asked) except -1        # mark an element as null
    cdef int slow(self, int32_t f, int64_t at, list items, int64_t count, uint8_t* out) except -1
    cdef int store(self, int32_t f, int64_t at, object value, uint8_t* out) except -1
    cdef object word(self, int32_t f, int64_t at, object value)
    cdef object truth(self, int32_t f, int64_t at, object value)
    cdef int leaf(self, int32_t f, list items) except -1                    # fill a field that has no children
    # Raise a UsageError that names the column and the row.
    cdef int refuse(self, int32_t f, int64_t at, object expected, object value, object reason=*) except -1
    cdef int blame(self, int32_t f, int64_t at, object problem) except -1
    cdef tuple origin(self, int32_t f, int64_t at)
    cdef int32_t above_child(self, int level, int32_t f) noexcept
    cdef int64_t parent_of(self, int32_t f, int32_t child, int64_t at) noexcept
    cdef int32_t child_of(self, int32_t f, int8_t code) noexcept
    cdef Columns finish(self, Columns out, int64_t length, tuple dictionaries)      # fill `out` with what was built


cdef object item(list items, int64_t i, int64_t count)      # element i; an error if the list's length is not `count`
