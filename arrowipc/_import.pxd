# From the structs of the Arrow C data and stream interfaces to our columns.
cimport cython

from arrowipc._array cimport Array, RecordBatch
from arrowipc._capsule cimport ArrowArrayStream
from arrowipc._core cimport Plan


@cython.final
cdef class BatchStream:
    """The batches of an ArrowArrayStream, one at a time."""
    cdef ArrowArrayStream stream        # release NULL: there is none, or it is at its end
    cdef Plan plan
    cdef bint whole                     # the arrays are batches, not single columns
    cdef bint busy                      # a thread waits for the producer
    cdef bint closed
    cdef int level                      # Level of validation
    cdef int code                       # errno of the producer's failure, which later calls repeat
    cdef object message
    cdef RecordBatch single             # the one batch of a stream that was made of a batch

    cdef RecordBatch next(self)         # None at the end
    cdef int open(self) except -1
    cdef int fail(self, int code) except -1
    cdef int finish(self) except -1


cdef object import_schema(object source)            # arrowipc.Schema of anything with __arrow_c_schema__
cdef RecordBatch import_batch(object source)        # of anything with __arrow_c_array__ (a struct array)
cdef Array import_array(object source)
cdef BatchStream import_stream(object source)       # of anything with __arrow_c_stream__
