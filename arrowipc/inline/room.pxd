# Memory of kernels: zeros, and memory that is used again and again and only grows.
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport calloc, realloc

cdef struct Room:
    uint8_t* data       # whoever has the struct frees it
    int64_t size


cdef inline void* new_zeros(int64_t count, int64_t width) except NULL:
    """`count` items of `width` bytes, all zero; the caller frees them."""
    # One more: for no items there would be no memory, too.
    cdef void* items = calloc(count + 1, width)
    if items == NULL:
        raise MemoryError(f"cannot allocate {count:,} times {width:,} bytes")
    return items


cdef inline int reserve_items(void** items, int64_t* room, int64_t count, int64_t width) noexcept nogil:
    """Let `items`, which stay, have room for `count` of `width` bytes. -1: no memory, and nothing has changed."""
    cdef int64_t grown
    cdef void* moved
    if count > room[0] or items[0] == NULL:
        if count > (INT64_MAX >> 2) // width:
            return -1
        grown = max(count, 2 * room[0]) + max(64 // width, <int64_t> 8)
        moved = realloc(items[0], grown * width)
        if moved == NULL:
            return -1
        items[0] = moved
        room[0] = grown
    return 0


cdef inline uint8_t* make_room(Room* room, int64_t size) noexcept nogil:
    """At least `size` bytes, of which those that were there stay; NULL: no memory, and nothing has changed."""
    return room.data if reserve_items(<void**> &room.data, &room.size, size, 1) == 0 else NULL
