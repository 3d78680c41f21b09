# Tables of other libraries, taken column by column.
cimport cython
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Plan
from arrowipc.cdata.export cimport ArrowArray, ArrowArrayStream
from arrowipc.cdata.import_array cimport Dictionaries
from arrowipc.columns.array cimport RecordBatch


@cython.final
cdef class ChunkOwner:
    """The next chunks of some of the columns, moved here from their producers."""
    cdef ArrowArray* arrays             # one per column; release NULL: that column needed none
    cdef ArrowArray** columns           # pointers to them
    cdef int32_t count


@cython.final
cdef class ColumnStream:
    """The batches of a table, made of what the streams of its columns give."""
    cdef Plan plan
    cdef list streams                   # BatchStream per column
    cdef ArrowArrayStream** producers   # the stream in each
    cdef list pieces                    # Columns per column: the chunk in use; None: there is none
    cdef list plans                     # Plan per column, once a piece needed it
    cdef Dictionaries known             # of the last batch of equal chunks
    cdef int64_t* left                  # elements of the piece that are still to come
    cdef int64_t rows                   # that were handed out
    cdef int32_t count
    cdef int level
    cdef bint busy                      # a thread waits for the producers
    cdef bint closed
    cdef tuple failure                  # (type, arguments) of the error that ended it

    cdef str name(self, int32_t column)
    cdef int start(self, object source) except -1
    cdef RecordBatch next(self)
    cdef RecordBatch advance(self)
    cdef RecordBatch at_end(self, ChunkOwner chunks)
    cdef int keep(self, ChunkOwner chunks) except -1
    cdef RecordBatch join(self)
    cdef int finish(self) except -1
