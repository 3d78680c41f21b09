# Columns being built: their buffers, and the loops that put Python values of leaf types into them.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.plan cimport ColumnsData, PlanData

cdef enum:
    MAX_NESTED = 128        # types nest 64 levels; nothing pushes more than one of `above` per level


cdef class Converter:
    """The buffers of one plan while they are being filled, and the fields that need no other field."""
    cdef Plan plan
    cdef const PlanData* p          # plan.d
    cdef ColumnsData d              # nodes and the plan's extents; variadic ones are in `pools`
    cdef list owners                # per buffer: what keeps it alive
    cdef list pools                 # per view ordinal: (address, size, owner) of each data buffer
    cdef uint8_t* zoned             # per field: whether it is a timestamp with a timezone; 0: not looked at
    cdef object filler              # stands for a slot under a null parent
    cdef object held                # what the bytes of the value in work belong to
    cdef int depth                  # fields above the one in work that change positions
    cdef int32_t[MAX_NESTED] above
    cdef Converter user             # who makes values of dictionaries or runs,
    cdef int32_t user_field         # and for which field

    cdef uint8_t* room(self, int32_t buffer, int64_t size) except NULL
    cdef int take(self, int32_t buffer, const uint8_t* data, int64_t size, object owner) except -1
    cdef int null(self, int32_t f, int64_t at, bint asked) except -1
    cdef int slow(self, int32_t f, int64_t at, list items, int64_t count, uint8_t* out) except -1
    cdef int store(self, int32_t f, int64_t at, object value, uint8_t* out) except -1
    cdef object word(self, int32_t f, int64_t at, object value)
    cdef object truth(self, int32_t f, int64_t at, object value)
    cdef int leaf(self, int32_t f, list items) except -1
    cdef int refuse(self, int32_t f, int64_t at, object expected, object value, object reason=*) except -1
    cdef int blame(self, int32_t f, int64_t at, object problem) except -1
    cdef tuple origin(self, int32_t f, int64_t at)
    cdef int32_t above_child(self, int level, int32_t f) noexcept
    cdef int64_t parent_of(self, int32_t f, int32_t child, int64_t at) noexcept
    cdef int32_t child_of(self, int32_t f, int8_t code) noexcept
    cdef Columns finish(self, Columns out, int64_t length, tuple dictionaries)


cdef object item(list items, int64_t i, int64_t count)
