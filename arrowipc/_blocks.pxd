# Large memory for bodies, kept for the next batch when it is let go.
from libc.stdint cimport int64_t, uint8_t

# 64-byte aligned memory of at least `size` bytes; `capacity` receives its true size. Both need the GIL.
cdef uint8_t* take_block(int64_t size, int64_t* capacity) except NULL
cdef void give_block(uint8_t* data, int64_t capacity) noexcept

