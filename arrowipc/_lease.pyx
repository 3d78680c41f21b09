"""Memory that belongs to somebody else and goes back when the last reader has let go of it."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport export_bytes


@cython.final
@cython.no_gc   # a collector that finalises cycles in any order could return what the others still read
cdef class Lease:
    """A readable stretch of memory; `returned(token)` is called once, when nothing points into it any more.

    That may happen in any thread and in the middle of anything, a collection of garbage included: `returned` must
    neither block nor raise. ``queue.SimpleQueue.put`` is made for this.

    Parameters
    ----------
    memory : bytes-like
    returned : callable
    token : object
    """

    cdef Py_buffer view
    cdef bint held
    cdef object returned
    cdef object token

    def __cinit__(self, memory, returned, token):
        PyObject_GetBuffer(memory, &self.view, PyBUF_SIMPLE)
        self.held = True
        self.returned = returned
        self.token = token

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <const uint8_t*> self.view.buf, <int64_t> self.view.len, False, flags)

    def __del__(self):
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)
            self.returned(self.token)
