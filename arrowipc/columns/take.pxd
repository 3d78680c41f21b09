# Elements of columns, repeated and rearranged: what rows are copied by when their order is not that of the source.
from libc.stdint cimport int64_t

from arrowipc._core cimport Columns
from arrowipc.columns.array cimport RecordBatch
from arrowipc.inline.ranges cimport TakeRange

# Fill `out`, which is new, with the rows that `ranges` name, all of which exist in `source`; `left` bytes may be
# written, and what was is taken from it, also after an exception. Dictionaries, data of views, and children that need
# no rearranging are shared with `source`.
cdef int take_ranges(Columns out, Columns source, const TakeRange* ranges, int64_t n, int64_t* left) except -1

# The rows from `first` on, as often as `counts` say; the rows at `indices`. `name`: of the function that errors name.
cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name)
cpdef RecordBatch take_rows(RecordBatch source, object indices, str name)
