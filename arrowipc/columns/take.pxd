# Rows in any order and number: by their numbers, repeated, or of several batches.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Memory, Source
from arrowipc.columns.record_batch cimport RecordBatch

# Fill `out`, which is new, with rows of `source`: each number is that of one that exists, or negative for a row of
# nulls. `left` bytes may be written, and what was is taken from it, also after an exception. Dictionaries, data buffers
# of views and children of list views are shared with `source`.
cdef int take_into(Columns out, Columns source, const int64_t* numbers, int64_t n, int64_t* left) except -1

# The rows from `first` on, as often as `counts` say; the rows at `indices`. `name`: of the function that errors name.
cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name)
cpdef RecordBatch take_rows(RecordBatch source, object indices, str name)

# One dimension of int64; and what `check_index` makes of it, in `out`, which has room for as many.
cdef Source int64_source(object values, str name)
cdef int64_t number_rows(int64_t* out, Source index, int64_t rows, bint negative, object wrong, str name) except -1
cdef RecordBatch take_numbers(RecordBatch source, object indices, bint negative, object wrong, str name)
cdef RecordBatch take_pieces(list batches, const int64_t* rows, const int32_t* homes, int64_t n, int64_t n_runs)
cdef RecordBatch alone(RecordBatch batch)

cdef tuple without_nulls(object indices)
cdef RecordBatch with_nulls(RecordBatch taken, Memory positions)
