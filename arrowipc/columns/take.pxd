# Take rows in any order and number: by their numbers, repeated, or from several batches.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Memory, Source
from arrowipc.columns.record_batch cimport RecordBatch

# Fill `out`, which is new, with rows of `source`. Each number is that of an existing row, or negative for a row of
# nulls. At most `left` bytes are written, and the bytes written are subtracted from it, also after an exception.
# Dictionaries, data buffers of views and children of list views are shared with `source`.
cdef int take_into(Columns out, Columns source, const int64_t* numbers, int64_t n, int64_t* left) except -1

# Return the rows from `first` on, each as often as `counts` says; or the rows at `indices`. Errors name the function
# `name`.
cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name)
cpdef RecordBatch take_rows(RecordBatch source, object indices, str name)

# Memory for as many int64, all of it in use; and the number first + i in it, times[i] times, for each i.
cdef Memory int64s(int64_t count)
# The number of runs that these form is returned.
cdef int64_t spread_counts(int64_t* out, const int64_t* times, int64_t n_times, int64_t first) noexcept nogil
# Return integers in one dimension as int64. Write the rows that they stand for to `out`, which has room for as many, as
# `check_index` does; raise `wrong` if there is no such row.
cdef Source int64_source(object values, str name)
cdef int64_t number_rows(int64_t* out, Source index, int64_t rows, bint negative, object wrong, str name) except -1
# Return rows in memory of their own, except dictionaries, which `alone` copies: the rows at `indices`, which count from
# the end if `negative`; or rows of several batches.
cdef RecordBatch take_numbers(RecordBatch source, object indices, bint negative, object wrong, str name)
cdef RecordBatch take_pieces(list batches, const int64_t* rows, const int32_t* homes, int64_t n, int64_t n_runs)
cdef RecordBatch alone(RecordBatch batch)

# A bit for each of `count` elements, in words of 64; none is set.
cdef Memory new_marks(int64_t count)

# Nulls among indices: take the other rows first, then put rows of nulls between them.
cdef tuple without_nulls(object indices)
cdef RecordBatch with_nulls(RecordBatch taken, Memory positions)
