# Runs of rows with equal keys.
from libc.stdint cimport int64_t

from arrowipc._core cimport Memory
from arrowipc.columns.record_batch cimport RecordBatch

# Return as int64 the first row of each run of rows with equal values in every column, then the number of rows.
cdef Memory find_runs(RecordBatch keys)
# The first row of each run, as a batch of their own; `starts` has one more entry than there are runs.
cdef RecordBatch first_rows(RecordBatch keys, const int64_t* starts, int64_t count)
