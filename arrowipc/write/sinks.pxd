# Where encoded messages go.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Source
from arrowipc.inline.body_parts cimport BodyPart


cdef class Sink:
    """Takes one message after another, each a head and the parts of a body."""
    cdef readonly int64_t position      # bytes taken since it began
    cdef bint keeps                     # it goes on pointing at the parts after `write`: the writer sets `owners`
    cdef object owners

    # Takes all of it or raises; after an error nobody knows how much has arrived.
    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1
