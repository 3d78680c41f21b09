# From Python lists and NumPy arrays to our columns.
from arrowipc._array cimport Array, RecordBatch

cpdef RecordBatch build_batch(object mapping, object schema=*)
cpdef Array build_array(object values, object type=*)
