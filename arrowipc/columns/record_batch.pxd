# The C declaration of `RecordBatch`, and the functions that make batches of arrays and of other batches.
cimport cython
from libc.stdint cimport int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.array cimport Array

@cython.final
@cython.no_gc
cdef class RecordBatch(Columns):
    pass


cdef class BatchProducer:
    """The source of a stream's batches: compiled readers subclass this and override `next`."""
    cdef Columns next(self)             # None at the end, and from then on; may raise anything


# Return `data` if it is a RecordBatch, else import the rows of another library; of a stream, all rows.
cdef RecordBatch as_batch(object data)
# Rows [offset, offset + length), which exist, without copying.
cdef RecordBatch slice_batch(RecordBatch batch, int64_t offset, int64_t length)
# An array as the only column of `plan`, which is of the same shape and may give dictionaries other ids.
cdef Columns single_column(Array array, Plan plan)
# Arrays as the columns of `plan`, which has their types, over the same buffers; each has `length` elements.
cdef RecordBatch batch_of_arrays(Plan plan, list arrays, int64_t length)
# All columns.
cdef list columns_at(RecordBatch batch)
# Some columns, as `project` names them.
cdef RecordBatch select_columns(RecordBatch batch, tuple columns)
# Return how many elements arrays, or batches, have together.
cpdef object count_rows(object pieces)
# The dictionaries of `plan`, from the arrays of its encoded fields in pre-order.
cdef tuple share_dictionaries(Plan plan, list arrays)

# The plan of a Python schema, with the default limits.
cdef Plan default_plan(object schema)

# Fill `out`, which is new, with the rows of all pieces (at least one). `lend`: large data buffers of views are shared
# with the pieces; else everything except dictionaries is copied.
cdef int concat_into(Columns out, tuple pieces, bint lend=*) except -1
