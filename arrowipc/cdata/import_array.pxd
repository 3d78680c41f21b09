# Import of the structs of the Arrow C data and stream interfaces as columns.
cimport cython
from libc.stdint cimport int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.cdata.export cimport ArrowArray, ArrowArrayStream, ArrowSchema
from arrowipc.columns.array cimport Array
from arrowipc.columns.record_batch cimport BatchProducer, RecordBatch

# Return the plan of the batches that a struct describes (`whole`), or of the one column that any schema describes.
# Equal schemas get the same plan while they are among the last few. The caller has to release `schema`.
cdef Plan plan_of(const ArrowSchema* schema, bint whole)


@cython.final
cdef class ArrayOwner:
    """The owner of a producer's array, which was moved here."""
    cdef ArrowArray array


@cython.final
cdef class Dictionaries:
    """The last dictionaries of a producer's batches, and the arrays that they were made of."""
    cdef list values                    # Columns per ordinal of the plan
    cdef const ArrowArray** arrays      # in the memory of the owner of each
    cdef tuple all                      # the values; None: one of them is new


cdef class BatchStream(BatchProducer):
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
    cdef Dictionaries known             # None: each batch has dictionaries of its own

    cdef RecordBatch take(self)
    cdef int ask(self, ArrowSchema* schema) except -1
    cdef int open(self) except -1
    cdef int fail(self, int code) except -1
    cdef int finish(self) except -1


# The schema of another library as a Schema.
cpdef object schema_from(object source)
# Do what `batch_from`, `array_from` and `stream_from` do; `level` is a Level.
cdef RecordBatch import_batch(object source, int level=*, int64_t most=*)
cdef Array import_array(object source, int level=*, int64_t most=*)
cdef BatchStream import_stream(object source, int level=*)

cdef void count_live(int64_t change) noexcept       # for owners that other modules define
cdef ArrowSchema* schema_in(object capsule) except NULL     # still owned by the capsule
cdef BatchStream moved_stream(object source)        # without its plan; None: there is no stream

# Fill columns from one array per column, of which the elements from `start` on are used. With `known`, a dictionary
# that the last call found in the same memory stays the same, and keeps the owner of that call.
cdef int load_columns(Columns out, Plan plan, ArrowArray** columns, int64_t start, int64_t length, object owner,
                      int level, Dictionaries known) except -1
