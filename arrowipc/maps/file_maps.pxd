# Maps of files, and the bodies in them that batches keep.
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uintptr_t

from arrowipc._core cimport Source

cdef extern from "Python.h":
    bint PyMemoryView_Check(object)
    PyObject* PyMemoryView_GET_BASE(object)     # borrowed; NULL: memory without an object


@cython.final
cdef class FileMap:
    """All bytes of a regular file as read-only memory."""
    cdef void* data
    cdef int64_t size
    cdef uintptr_t low              # from here to `high` lie adjacent bodies that nothing refers to any more
    cdef uintptr_t high


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class MappedBody:
    """The body of one batch in a map. Everything that points into it keeps this object alive, and so the map."""
    cdef Source source
    cdef FileMap map
    cdef uintptr_t start
    cdef uintptr_t end


# Return the object to keep for the columns of a body in a map.
cdef MappedBody mapped_body(Source source, FileMap map, const uint8_t* body, int64_t size)


cdef inline object keeper_of(object owner, const uint8_t* body, int64_t size):
    """Return what the columns of a body must keep: the owner of its bytes, or a MappedBody if that is a FileMap."""
    cdef PyObject* exporter
    if size and type(owner) is Source:
        exporter = <PyObject*> (<Source> owner).view.obj
        if PyMemoryView_Check(<object> exporter):
            exporter = PyMemoryView_GET_BASE(<object> exporter)
        if exporter != NULL and type(<object> exporter) is FileMap:
            return mapped_body(<Source> owner, <FileMap> exporter, body, size)
    return owner
