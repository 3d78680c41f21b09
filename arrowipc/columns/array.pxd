# The C declaration of `Array`: one column of a batch, or one child of a column.
cimport cython
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns

cdef enum:
    # The number of elements, or rows, that iteration turns into Python values at a time.
    STEP = 1024

cdef class Compiled:
    pass

# Give a compiled class the metaclass of `Hints`, which its compiled base keeps it from inheriting. Then dir() of the
# class lists only attributes that exist.
cdef int set_hints_metaclass(type compiled) except -1

@cython.final
cdef class Array(Compiled):
    cdef object __weakref__
    cdef Columns columns
    cdef int32_t index                  # FieldPlan in columns.plan
    cdef readonly int64_t offset        # position of element 0 in the field's buffers; includes the parents' offsets
    cdef readonly int64_t length
    cdef int64_t _null_count            # -1: not counted yet
    cdef object _field                  # arrowipc.Field, made when asked for


# Elements [offset, offset + length) of a field; the values of its dictionary (None: there is none).
cdef Array make_array(Columns columns, int32_t field, int64_t offset, int64_t length)
cdef Array dictionary_array(Columns columns, int32_t field)
# The null count, which is counted once and then stored.
cdef int64_t count_nulls(Array array) noexcept
# Return `data` if it is an Array, else import an array of another library.
cdef Array as_array(object data)

# Whether an argument is one index, or offers the Arrow C interfaces; the arguments max_values, and offset and length.
cpdef bint is_integer(object i) except -1
cpdef bint is_foreign(object data)
cdef int64_t parse_max_values(object max_values) except? -1
cpdef tuple clip(object offset, object length, int64_t available)
