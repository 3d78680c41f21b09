"""Large memory for bodies: aligned, in huge pages, and kept for the next batch when it is let go.

The kernel clears every page that it hands out, which takes about as long as decoding LZ4 into it: reading
160 MB batches with fresh memory took 103 ms each, with reused memory 37 ms. So a few blocks stay here between
batches, until `release_unused` (public as `arrowipc.release_unused`) frees them.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free

from arrowipc.inline.loads cimport round_up

cdef extern from * nogil:
    """
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    static inline void want_huge_pages(void* data, int64_t size) {
    #if defined(MADV_HUGEPAGE)
        madvise(data, (size_t) size, MADV_HUGEPAGE);   /* advice: without it all works, more slowly */
    #else
        (void) data; (void) size;
    #endif
    }
    """
    void want_huge_pages(void* data, int64_t size)

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** out, size_t alignment, size_t size)

cdef enum:
    KEPT = 1 << 17              # from this size on a block is worth keeping; malloc is good at smaller ones
    HUGE_PAGE = 1 << 21
    SLOTS = 32                  # two batches of payload columns, a block per buffer
    IDLE_BYTES = 1 << 28        # at most 256 MiB wait for the next batch

cdef uint8_t* idle[SLOTS]
cdef int64_t idle_capacity[SLOTS]       # 0: the slot is empty
cdef int64_t idle_total = 0


cdef inline void drop(int slot) noexcept:
    global idle_total
    free(idle[slot])
    idle_total -= idle_capacity[slot]
    idle_capacity[slot] = 0


cdef uint8_t* take_block(int64_t size, int64_t* capacity) except NULL:
    global idle_total
    cdef void* data = NULL
    cdef int64_t room
    cdef int slot, best = -1
    if size < 0 or size > INT64_MAX - HUGE_PAGE:
        raise MemoryError(f"cannot allocate {size:,} bytes")
    if size >= KEPT:
        for slot in range(SLOTS):
            # Not a much larger one: it would be missed where it fits.
            if size <= idle_capacity[slot] <= 2 * size:
                if best < 0 or idle_capacity[slot] < idle_capacity[best]:
                    best = slot
        if best >= 0:
            capacity[0] = idle_capacity[best]
            idle_total -= idle_capacity[best]
            idle_capacity[best] = 0
            return idle[best]
    room = round_up(size, HUGE_PAGE if size >= 2 * HUGE_PAGE else 64)
    if posix_memalign(&data, HUGE_PAGE if size >= 2 * HUGE_PAGE else 64, max(room, 64)) != 0:
        release_unused()
        raise MemoryError(f"cannot allocate {size:,} bytes")
    if size >= 2 * HUGE_PAGE:
        want_huge_pages(data, room)
    capacity[0] = room
    return <uint8_t*> data


cdef void give_block(uint8_t* data, int64_t capacity) noexcept:
    global idle_total
    cdef int slot, place = 0
    if data == NULL:
        return
    if capacity < KEPT or capacity > IDLE_BYTES:
        free(data)
        return
    for slot in range(SLOTS):
        # An empty slot, or else the smallest block makes room.
        if idle_capacity[slot] < idle_capacity[place]:
            place = slot
    if idle_capacity[place]:
        drop(place)
    for slot in range(SLOTS):
        if idle_capacity[slot] and idle_total + capacity > IDLE_BYTES:
            drop(slot)
    idle[place] = data
    idle_capacity[place] = capacity
    idle_total += capacity


def idle_bytes() -> int:
    """Bytes that wait for the next batch."""
    return idle_total


def release_unused() -> None:
    """Give the waiting memory back to the system."""
    cdef int slot
    for slot in range(SLOTS):
        if idle_capacity[slot]:
            drop(slot)
