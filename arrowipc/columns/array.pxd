# The compiled shapes of the objects that people hold: a batch, and one column or child of it.
cimport cython
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.plan cimport ColumnsData

@cython.final
@cython.no_gc
cdef class RecordBatch(Columns):
    pass


@cython.final
cdef class Array:
    cdef object __weakref__
    cdef Columns columns
    cdef int32_t index                  # FieldPlan in columns.plan
    cdef readonly int64_t offset        # of element 0 in the field's buffers; every parent's slice is in it
    cdef readonly int64_t length
    cdef int64_t _null_count            # -1: not counted yet
    cdef object _field                  # arrowipc.Field, made when asked for


cdef class BatchProducer:
    """Where a stream takes its batches from: compiled readers subclass this and override `next`."""
    cdef Columns next(self)             # None at the end, and from then on; may raise anything


cdef Array make_array(Columns columns, int32_t field, int64_t offset, int64_t length)
cdef Array dictionary_array(Columns columns, int32_t field)
cdef int64_t count_nulls(Array array) noexcept
# Whether something hands rows over by the Arrow C interfaces; an array of it, of ours or another library's.
cdef bint is_foreign(object data)
cdef Array as_array(object data)
# A batch of ours, or what another library hands over as one.
cdef RecordBatch as_batch(object data)
cdef RecordBatch slice_batch(RecordBatch batch, int64_t offset, int64_t length)
cdef Columns single_column(Array array, Plan plan)
# Arrays as the columns of `plan`, which has their types, over the same buffers; each has `length` elements.
cdef RecordBatch batch_of_arrays(Plan plan, list arrays, int64_t length)
# Some columns, as `project` names them.
cdef RecordBatch select_columns(RecordBatch batch, tuple columns)
cdef tuple share_dictionaries(Plan plan, list arrays)

# Make of top-level field `f` its elements [offset, offset + length), which exist; its null count is exact.
cdef void slice_column(ColumnsData* d, int32_t f, int64_t offset, int64_t length) noexcept
