# The cells of a payload column: where the bytes of each are, in Arrow columns, NumPy object arrays and lists.
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc._core cimport Columns, Memory
from arrowipc.columns.array cimport Array
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData

cdef struct Cell:
    const uint8_t* data     # NULL: a null cell
    int64_t size


@cython.final
cdef class Cells:
    """Some cells that follow each other in a column."""
    cdef int64_t first              # number of the first one in the column
    cdef int64_t count
    # Cells of an Arrow array
    cdef Columns columns            # None: they lie in `table`
    cdef const ColumnsData* d
    cdef int32_t field
    cdef int64_t offset             # physical element of the first one
    cdef int32_t width              # of fixed-size binary, else 0
    # ... of Python objects
    cdef Cell* table
    cdef list objects               # owners of the cells' bytes: bytes, Source or None

    # Find cell `i` of the column, which is one of these. -1: the column itself is broken there.
    cdef int get(self, int64_t i, Cell* out, Fault* fault) noexcept nogil
    # The object that keeps the bytes of cell `i` alive.
    cdef object owner(self, int64_t i)


# Return an iterator over the Cells of a column that reach beyond cell `start`.
cdef object cells_from(object column, int64_t start)
# Raise the fault of `Cells.get`.
cdef int raise_cell_fault(const Fault* fault, Cells cells) except -1
# An array without nulls over memory of arrowipc: numbers, or offsets and the data that they point into. `schema` has
# one column of its type; it should be the same object in all calls, because it keeps its plan.
cdef Array array_over(object schema, int64_t count, Memory values, Memory data)
