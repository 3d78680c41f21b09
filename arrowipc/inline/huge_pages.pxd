# Advice to the system about large memory: if it has pages of 2 MiB, it makes 512 times fewer pages.
from libc.stdint cimport int64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <unistd.h>
    #endif
    /* Advise on whole small pages, which may hold other data too: that changes no byte, and nothing depends on it. */
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
