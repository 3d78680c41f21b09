# Read attributes of objects with `__slots__` directly: looking one up by name takes longer than encoding its value.
from cpython.object cimport PyObject

cdef extern from * nogil:
    """
    #include <Python.h>
    #include <structmember.h>

    static Py_ssize_t arrowipc_slot_place(PyObject *descriptor) {
        return Py_IS_TYPE(descriptor, &PyMemberDescr_Type)
            ? ((PyMemberDescrObject *)descriptor)->d_member->offset : -1;
    }
    """
    Py_ssize_t arrowipc_slot_place(object descriptor)


cdef inline Py_ssize_t slot_place(object owner, str name) except -1:
    """Return the place of slot `name` in objects of the `Immutable` class `owner` and of classes derived from it."""
    cdef Py_ssize_t place = arrowipc_slot_place(owner._setters[name].__self__)
    if place < 0:
        raise TypeError(f"{owner.__name__}.{name} is no slot")
    return place


cdef inline object slot(object of, Py_ssize_t place):
    """Return the value in a slot of an object; the caller has to know that its class has the slot."""
    cdef PyObject* value = (<PyObject**> (<char*> <PyObject*> of + place))[0]
    if value == NULL:
        raise AttributeError(f"a slot of {type(of).__name__} was never filled")
    return <object> value
