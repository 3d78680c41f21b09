# Threads that share work without the GIL: each takes the next piece of work, and waits for the others at the end.
# In a free-threaded CPython, a guard protects the data that the GIL protects elsewhere.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <Python.h>
    #include <stdint.h>
    #ifdef Py_GIL_DISABLED
    #define ARROWIPC_FREE_THREADED 1
    typedef PyMutex arrowipc_guard;
    #define arrowipc_hold(guard) PyMutex_Lock(guard)
    #define arrowipc_let_go(guard) PyMutex_Unlock(guard)
    #define arrowipc_count(counter, by) __atomic_add_fetch(counter, by, __ATOMIC_RELAXED)
    #define arrowipc_in_order() __atomic_thread_fence(__ATOMIC_ACQ_REL)
    #define ARROWIPC_SLOTS 16
    static unsigned arrowipc_threads;
    static _Thread_local int arrowipc_own = -1;
    static inline int arrowipc_slot(void) {
        if (arrowipc_own < 0)
            arrowipc_own = (int) (__atomic_fetch_add(&arrowipc_threads, 1, __ATOMIC_RELAXED) % ARROWIPC_SLOTS);
        return arrowipc_own;
    }
    #else
    #define ARROWIPC_FREE_THREADED 0
    typedef char arrowipc_guard;
    #define arrowipc_hold(guard) (void) (guard)
    #define arrowipc_let_go(guard) (void) (guard)
    #define arrowipc_count(counter, by) (*(counter) += (by))
    #define arrowipc_in_order() (void) 0
    #define ARROWIPC_SLOTS 1
    #define arrowipc_slot() 0
    #endif
    /* Each part has a cache line of its own. */
    typedef struct { int64_t parts[ARROWIPC_SLOTS][8]; } arrowipc_tally;
    #define arrowipc_tally_up(tally, by) arrowipc_count(&(tally)->parts[arrowipc_slot()][0], by)
    static inline int64_t arrowipc_tally_sum(arrowipc_tally *tally) {
        int64_t sum = 0;
        for (int i = 0; i < ARROWIPC_SLOTS; i++)
            sum += arrowipc_count(&tally->parts[i][0], 0);
        return sum;
    }
    """
    const bint FREE_THREADED "ARROWIPC_FREE_THREADED"
    # A lock for C data that the GIL protects in other builds. It begins as zeros, and is held for moments only. For
    # Python's objects there is `cython.critical_section`. With a GIL, both do nothing.
    ctypedef struct Guard "arrowipc_guard":
        pass
    void hold "arrowipc_hold"(Guard* guard) noexcept
    void let_go "arrowipc_let_go"(Guard* guard) noexcept
    # Add to a number that the GIL protects in other builds; return the sum.
    int64_t count_up "arrowipc_count"(int64_t* counter, int64_t by) noexcept
    # Threads that change the same cache line slow each other down. So each thread has one of a few slots, and data that
    # all threads change all the time have a part for each slot.
    enum:
        THREAD_SLOTS "ARROWIPC_SLOTS"
    int thread_slot "arrowipc_slot"() noexcept
    ctypedef struct Tally "arrowipc_tally":
        pass
    int64_t tally_up "arrowipc_tally_up"(Tally* tally, int64_t by) noexcept
    int64_t tally_sum "arrowipc_tally_sum"(Tally* tally) noexcept
    # A memory fence, for readers that take no lock. It stands between storing data and storing the attribute or global
    # that shows them to other threads; and, if one global says that others are set, between reading it and the others.
    void in_order "arrowipc_in_order"() noexcept

cdef extern from * nogil:
    """
    #include <time.h>
    static inline void short_sleep(void) {
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    """
    # Add to a counter of several threads; return its value before.
    int64_t fetch_add "__sync_fetch_and_add"(int64_t* counter, int64_t step) noexcept
    void short_sleep() noexcept
