"""Memory of another process of the same user, read without its help (process_vm_readv, Linux)."""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EFAULT, EINTR, ENOSYS, EPERM, errno
from libc.stdint cimport int64_t, uint8_t, uint64_t

import os

from arrowipc.errors import FormatError, UsageError

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <sys/types.h>
    #if defined(__linux__)
    #include <sys/uio.h>
    /* Declared here, because headers hide it from whoever does not ask for all of GNU. */
    extern ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n_local,
                                    const struct iovec *remote, unsigned long n_remote, unsigned long flags);
    static int64_t arrowipc_remote_read(int pid, uint64_t address, void *out, int64_t size)
    {
        struct iovec here, there;
        here.iov_base = out;
        here.iov_len = (size_t) size;
        there.iov_base = (void *) (uintptr_t) address;
        there.iov_len = (size_t) size;
        return process_vm_readv(pid, &here, 1, &there, 1, 0);
    }
    #else
    static int64_t arrowipc_remote_read(int pid, uint64_t address, void *out, int64_t size)
    {
        errno = ENOSYS;
        return -1;
    }
    #endif
    """
    int64_t arrowipc_remote_read(int pid, uint64_t address, void* out, int64_t size)


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
    cdef uint64_t address
    cdef int64_t length, position, count
    cdef int failure
    PyObject_GetBuffer(target, &view, PyBUF_WRITABLE)
    try:
        for address, length, position in places:
            if length < 0 or position < 0 or length > view.len or position > view.len - length:
                raise UsageError(f"{length:,} bytes do not fit at {position:,} of {view.len:,}")
            while length:
                with nogil:
                    count = arrowipc_remote_read(pid, address, <uint8_t*> view.buf + position, length)
                    failure = errno
                if count < 0 and failure == EINTR:
                    continue
                if count < 0 and failure == ENOSYS:
                    raise OSError(failure, "this system cannot read the memory of another process")
                if count == 0 or (count < 0 and failure == EFAULT):
                    raise FormatError(f"{length:,} bytes at address {address:#x} are no readable memory of process {pid}")
                if count < 0 and failure == EPERM:
                    raise PermissionError(failure, f"this system does not let us read the memory of process {pid} (see "
                                                   "/proc/sys/kernel/yama/ptrace_scope)")
                if count < 0:
                    raise OSError(failure, f"reading the memory of process {pid}: {os.strerror(failure)}")
                address += <uint64_t> count
                position += count
                length -= count
    finally:
        PyBuffer_Release(&view)
