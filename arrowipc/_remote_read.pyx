"""Memory of another process of the same user, read without its help (process_vm_readv, Linux)."""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EFAULT, EINTR, ENOSYS, EPERM, errno
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import os

from arrowipc.errors import FormatError, UsageError

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <sys/types.h>
    struct arrowipc_place { uint64_t address; int64_t length; int64_t position; };
    enum { AT_ONCE = 64 };      /* places of one call of the system */
    #if defined(__linux__)
    #include <sys/uio.h>
    /* Declared here, because headers hide it from whoever does not ask for all of GNU. */
    extern ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local,
                                    const struct iovec *remote, unsigned long n_remote, unsigned long flags);
    static int64_t arrowipc_remote_read(int pid, const struct arrowipc_place *places, int64_t count, uint8_t *out)
    {
        struct iovec here[AT_ONCE], there[AT_ONCE];
        unsigned long n = (unsigned long) (count < AT_ONCE ? count : AT_ONCE), i;
        for (i = 0; i < n; i++) {
            here[i].iov_base = out + places[i].position;
            there[i].iov_base = (void *) (uintptr_t) places[i].address;
            here[i].iov_len = there[i].iov_len = (size_t) places[i].length;
        }
        return process_vm_readv(pid, here, n, there, n, 0);
    }
    #else
    static int64_t arrowipc_remote_read(int pid, const struct arrowipc_place *places, int64_t count, uint8_t *out)
    {
        errno = ENOSYS;
        return -1;
    }
    #endif
    """
    struct arrowipc_place:
        uint64_t address
        int64_t length
        int64_t position
    int64_t arrowipc_remote_read(int pid, const arrowipc_place* places, int64_t count, uint8_t* out)


def read_process(int pid, places, target):
    """Copy what lies at `places` of another process to `target`.

    Parameters
    ----------
    pid : int
    places : iterable of (int, int, int)
        Address in that process, length, and position in `target`.
    target : writable bytes-like

    Raises
    ------
    UsageError
        A place does not fit into `target`.
    FormatError
        There is nothing to read at an address; nothing of ours is touched in its place.
    OSError
        The process is gone, or we may not read its memory.
    """
    cdef Py_buffer view
    cdef arrowipc_place* left = NULL
    cdef arrowipc_place* block = NULL
    cdef int64_t n = 0, count
    cdef int failure
    places = list(places)
    PyObject_GetBuffer(target, &view, PyBUF_WRITABLE)
    try:
        block = left = <arrowipc_place*> malloc((len(places) + 1) * sizeof(arrowipc_place))
        if block == NULL:
            raise MemoryError("no memory for the places to read")
        for address, length, position in places:
            left[n].address, left[n].length, left[n].position = address, length, position
            if length < 0 or position < 0 or length > view.len or position > view.len - length:
                raise UsageError(f"{length:,} bytes do not fit at {position:,} of {view.len:,}")
            n += length > 0
        while n:
            with nogil:
                count = arrowipc_remote_read(pid, left, n, <uint8_t*> view.buf)
                failure = errno
            if count > 0:
                # Whole places, as far as they could be read, and maybe the beginning of one.
                while n and count >= left.length:
                    count -= left.length
                    left += 1
                    n -= 1
                if count:
                    left.address += <uint64_t> count
                    left.position += count
                    left.length -= count
            elif count == 0 or failure == EFAULT:
                raise FormatError(f"{left.length:,} bytes at address {left.address:#x} are no readable memory of "
                                  f"process {pid}")
            elif failure != EINTR:
                raise_failure(pid, failure)
    finally:
        free(block)
        PyBuffer_Release(&view)


cdef int raise_failure(int pid, int failure) except -1:
    if failure == ENOSYS:
        raise OSError(failure, "this system cannot read the memory of another process")
    if failure == EPERM:
        raise PermissionError(failure, f"this system does not let us read the memory of process {pid} (see "
                                       "/proc/sys/kernel/yama/ptrace_scope)")
    raise OSError(failure, f"reading the memory of process {pid}: {os.strerror(failure)}")
