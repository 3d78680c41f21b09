# Attributes of objects with `__slots__`, read where they lie: looking one up takes longer than writing it does.
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
    """Where objects of the `Immutable` class `owner`, and of classes derived from it, have the slot `name`."""
    cdef Py_ssize_t place = arrowipc_slot_place(owner._setters[name].__self__)
    if place < 0:
        raise TypeError(f"{owner.__name__}.{name} is no slot")
    return place


cdef inline object slot(object of, Py_ssize_t place):
    """What an object has in a slot; its class is the caller's to know."""
    cdef PyObject* value = (<PyObject**> (<char*> <PyObject*> of + place))[0]
    if value == NULL:
        raise AttributeError(f"a slot of {type(of).__name__} was never filled")
    return <object> value
