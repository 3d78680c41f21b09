# Columns that grow at the end, and what one append walks.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.builder cimport BuilderMemory
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData

cdef enum:
    # Beside the FaultCodes: a builder cannot count further. `what` names the numbers, `found` is the
    # one that they would have to hold, `expected` the largest that they can.
    FAULT_FULL = 100

cdef struct Span:
    # The elements of a field that an append takes.
    int64_t start           # physical: node.offset is in it
    int64_t count

cdef struct PoolTarget:
    # Where one variadic buffer of a piece goes.
    int64_t used            # bytes that the piece's views point at, counted once per view
    int64_t shift           # added to the offsets of its views
    int32_t index           # in the pool, -1: its values are copied one by one

cdef struct Append:
    # One append.
    const ColumnsData* piece
    const int64_t* shifts   # per ordinal of Plan.dictionaries, added to the indices; NULL: all 0
    PyObject* owner         # keeps the piece's memory alive; NULL: all of it is copied
    Fault* fault


cdef class ColumnsBuilder(BuilderMemory):
    """Columns that grow at the end; snapshots share their memory."""
    cdef Span* spans                      # per field
    cdef PoolTarget* targets              # scratch: per variadic buffer of one field of the piece
    cdef int32_t targets_room
    cdef Plan matched               # the last plan of a piece that has this one's shape

    cdef int append(self, Columns piece, const int64_t* shifts=*) except -1
    cdef int append_data(self, const ColumnsData* piece, const int64_t* shifts, PyObject* owner,
                         Fault* fault) noexcept nogil
    cdef Columns snapshot(self)
    cdef int match(self, Plan plan) except -1
    cdef tuple adopted(self, tuple dictionaries)


cdef int raise_append_fault(const Fault* fault, Plan plan, object where=*) except -1
cdef int concat_into(Columns out, tuple pieces) except -1
