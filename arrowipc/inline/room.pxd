# Memory of kernels: zeroed items, and memory that is reused and only grows.
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport calloc, realloc

cdef struct Room:
    uint8_t* data       # the owner of the struct frees it
    int64_t size


cdef inline void* new_zeros(int64_t count, int64_t width) except NULL:
    """Allocate `count` items of `width` bytes, all zero; the caller frees them."""
    # One item more: for 0 items calloc may return NULL, too.
    cdef void* items = calloc(count + 1, width)
    if items == NULL:
        raise MemoryError(f"cannot allocate {count:,} times {width:,} bytes")
    return items


cdef inline int reserve_items(void** items, int64_t* room, int64_t count, int64_t width) noexcept nogil:
    """Make room for `count` items of `width` bytes; the old ones stay. -1: no memory, and nothing has changed."""
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
    """Return at least `size` bytes, and keep the contents; NULL: no memory, and nothing has changed."""
    return room.data if reserve_items(<void**> &room.data, &room.size, size, 1) == 0 else NULL
