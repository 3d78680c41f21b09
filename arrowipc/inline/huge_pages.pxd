# Advice to the system about large memory: pages of 2 MiB, where it has them, are made 512 times as rarely.
from libc.stdint cimport int64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <unistd.h>
    #endif
    /* Whole small pages, which may hold neighbours too: advice changes no byte, and without it all works. */
    static inline void want_huge_pages(void* data, int64_t size) {
    #if defined(MADV_HUGEPAGE)
        uintptr_t begin = (uintptr_t) data & ~(uintptr_t) (sysconf(_SC_PAGESIZE) - 1);     /* 4, 16 or 64 KiB */
        madvise((void*) begin, (uintptr_t) data + (size_t) size - begin, MADV_HUGEPAGE);
    #else
        (void) data; (void) size;
    #endif
    }
    """
    void want_huge_pages(void* data, int64_t size)

cdef enum:
    HUGE_PAGE = 1 << 21
