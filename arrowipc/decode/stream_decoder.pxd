# The decoder of streams.
from arrowipc._core cimport Plan
from arrowipc.decode.decoders cimport Decoder
from arrowipc.decode.framing cimport Framer


cdef class StreamDecoder(Framer):
    cdef object __weakref__
    cdef Decoder decoder        # has a schema once the stream's first message arrived
    cdef bint opened
    cdef bint ended             # EndOfStream was reported

    cdef bint reach_schema(self) except -1
    cdef bint reach_batch(self) except -1
    cdef object take_next(self, int what)
    cdef tuple take_stored(self)
    cdef int begin(self) except -1
    cdef int open_schema(self, Plan whole) except -1
    cdef object take_event(self)
    cdef object event(self)
    cdef int check_order(self, int kind) except -1
    cdef int check_end(self, int found) except -1
