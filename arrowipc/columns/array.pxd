# The compiled shape of an array: one column of a batch, or one child of it.
cimport cython
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

cdef enum:
    # Elements, or rows, that iteration turns into Python values at a time.
    STEP = 1024

cdef class Compiled:
    pass

# Gives a compiled class the metaclass of `Hints`, which a compiled base keeps from it: what it lists exists.
cdef int list_what_exists(type compiled) except -1

@cython.final
cdef class Array(Compiled):
    cdef object __weakref__
    cdef Columns columns
    cdef int32_t index                  # FieldPlan in columns.plan
    cdef readonly int64_t offset        # of element 0 in the field's buffers; every parent's slice is in it
    cdef readonly int64_t length
    cdef int64_t _null_count            # -1: not counted yet
    cdef object _field                  # arrowipc.Field, made when asked for


cdef Array make_array(Columns columns, int32_t field, int64_t offset, int64_t length)
cdef Array dictionary_array(Columns columns, int32_t field)
cdef int64_t count_nulls(Array array) noexcept
# An array of ours, or of another library.
cdef Array as_array(object data)

cpdef bint is_integer(object i) except -1
cpdef bint is_foreign(object data)
cdef int64_t given(object max_values) except? -1
cpdef tuple clip(object offset, object length, int64_t available)
