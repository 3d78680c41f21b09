# Whether one column begins with the values of another, however either lies in its buffers.
from arrowipc._core cimport Columns

# Whether `longer` begins with the values of `shorter`; their types are equal. Where dictionaries refer to
# dictionaries, False may also mean that it takes too long to tell.
cdef bint continues(Columns longer, Columns shorter) except -1
# ... as far as that shows without a look at single values: False means nothing.
cdef bint plainly_continues(Columns longer, Columns shorter)
