# The number of the cell that each row comes from.
from libc.stdint cimport int64_t

from arrowipc._array cimport Array, RecordBatch
from arrowipc._core cimport Memory

# An array of int64 without nulls over memory of our own.
cdef Array int64_array(Memory memory, int64_t count)
# The batch with one more column of that name; cell start + i has counts[i] of its rows.
cdef RecordBatch with_index(RecordBatch batch, str name, const int64_t* counts, int64_t start, int64_t n)
