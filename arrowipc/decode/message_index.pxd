# Where the messages of a stream lie.
from libc.stdint cimport int64_t

from arrowipc._core cimport Memory, Source
from arrowipc.inline.plan cimport LimitsData


cdef class StreamIndex:
    cdef LimitsData limits
    cdef readonly int64_t size      # bytes of the stream
    cdef readonly int64_t next      # where the first message begins that is not in the index
    cdef readonly bint complete     # there is no such message
    cdef readonly bint closed       # its last message closes a stream with checksums
    cdef int64_t stride             # bytes of the last message, and of its prefix and metadata
    cdef int64_t head
    # Of each RecordBatch message: its Block, its rows, and how many DictionaryBatch messages come before it.
    cdef Memory batches, lengths, epochs
    # Of each DictionaryBatch message: its Block, its id, and 1 if it is a delta.
    cdef Memory dictionaries, ids, deltas

    cdef int raise_broken(self, Source window, int64_t start, int found) except -1
