# Memory that kernels use again and again, and that only grows.
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport realloc

cdef struct Room:
    uint8_t* data       # whoever has the struct frees it
    int64_t size


cdef inline uint8_t* make_room(Room* room, int64_t size) noexcept nogil:
    """At least `size` bytes, of which those that were there stay; NULL: no memory, and nothing has changed."""
    cdef int64_t grown
    cdef void* moved
    if size > room.size or room.data == NULL:
        if size > INT64_MAX >> 2:
            return NULL
        grown = max(size, 2 * room.size) + 64
        moved = realloc(room.data, grown)
        if moved == NULL:
            return NULL
        room.data = <uint8_t*> moved
        room.size = grown
    return room.data
