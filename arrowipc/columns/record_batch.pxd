# The compiled shape of a batch, and what is made of arrays and batches.
cimport cython
from libc.stdint cimport int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.array cimport Array

@cython.final
@cython.no_gc
cdef class RecordBatch(Columns):
    pass


cdef class BatchProducer:
    """Where a stream takes its batches from: compiled readers subclass this and override `next`."""
    cdef Columns next(self)             # None at the end, and from then on; may raise anything


# A batch of ours, or what another library hands over as one; of a stream all rows.
cdef RecordBatch as_batch(object data)
cdef RecordBatch slice_batch(RecordBatch batch, int64_t offset, int64_t length)
# An array as the only column of `plan`, which is of the same shape and may give dictionaries other ids.
cdef Columns single_column(Array array, Plan plan)
# Arrays as the columns of `plan`, which has their types, over the same buffers; each has `length` elements.
cdef RecordBatch batch_of_arrays(Plan plan, list arrays, int64_t length)
# Some columns, as `project` names them.
cdef RecordBatch select_columns(RecordBatch batch, tuple columns)
cdef tuple share_dictionaries(Plan plan, list arrays)

# The rows of all pieces (one at least) in `out`, which is new. `lend`: large data buffers of views stay those of the
# pieces; else everything is copied, but for dictionaries. `joined`: dictionaries, by ordinal, through which the indices
# of all pieces count already.
cdef int concat_into(Columns out, tuple pieces, bint lend=*, dict joined=*) except -1
