# What threads do together without the GIL: each takes the next piece of work, and waits for the others at the end.
from libc.stdint cimport int64_t

cdef extern from * nogil:
    """
    #if defined(_WIN32)
    #include <windows.h>
    static inline void short_sleep(void) { Sleep(1); }
    #else
    #include <time.h>
    static inline void short_sleep(void) {
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    #endif
    """
    int64_t fetch_add "__sync_fetch_and_add"(int64_t* counter, int64_t step) noexcept
    void short_sleep() noexcept
