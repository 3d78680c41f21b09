# What other threads see of what one stores, where no lock is taken by those who read.
cdef extern from *:
    """
    #include <Python.h>
    #ifdef Py_GIL_DISABLED
    #define arrowipc_in_order() __atomic_thread_fence(__ATOMIC_ACQ_REL)
    #else
    #define arrowipc_in_order() (void) 0
    #endif
    """
    # Between what is stored and the attribute or global that shows it to other threads; and, where one of several
    # globals tells about the others, between reading that one and the others.
    void in_order "arrowipc_in_order"() noexcept
