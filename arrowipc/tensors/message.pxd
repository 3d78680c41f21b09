# The parts that dense and sparse tensor messages share: element type, shape and buffers, each read with verified steps.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport FieldPlan

cdef enum:
    TENSOR_ALIGNMENT = 64   # of messages and of every buffer of their bodies
    MOST_DIMENSIONS = 64    # of a tensor: as many as NumPy has, and what our fixed C arrays hold

cdef struct Shape:
    int32_t ndim
    int64_t size[MOST_DIMENSIONS]

cdef struct Location:
    # Where in the body a Buffer lies: inside of it.
    int64_t offset
    int64_t length


# All of these raise FormatError (UnsupportedError, LimitError) with the name of what is wrong: `table` is that of
# the FlatBuffers table, such as "SparseTensor", `part` that of its field.

# What is wrong with a field of which a look-up said: 0, it is not there; below 0, it lies outside the metadata.
cdef int broken(str table, str part) except -1
cdef int require(int64_t found, str table, str part) except -1
# The type of the elements: width, layout (LAYOUT_FIXED, or LAYOUT_BOOL with a width of 1 byte) and parameters, and
# its table, for `element_type`. Slots are those of the union's tag and of its value.
cdef int read_element(const Table* header, int32_t tag, int32_t slot, str table, FieldPlan* out, Table* type) except -1
cdef object element_type(const FieldPlan* element, const Table* type)
# The table of an Int, for indices: {"indptrType", "indicesType"}.
cdef int read_index_type(const Table* header, int32_t slot, str table, str part, FieldPlan* out) except -1
# The sizes of the dimensions, none negative; the names, None when all are empty.
cdef int read_shape(const Table* header, int32_t slot, str table, Shape* out) except -1
cdef tuple read_names(const Table* header, int32_t slot, str table)
# A Buffer field, which must be there, or the struct at `entry`, inside a body of `body_length` bytes.
cdef int read_buffer(const Table* header, int32_t slot, str table, str part, int64_t body_length,
                     Location* out) except -1
cdef int check_buffer(const uint8_t* entry, str table, str part, int64_t body_length, Location* out) except -1
# The number of elements, and their bytes: raises when either does not fit 63 bits.
cdef int64_t count_elements(const Shape* shape, int64_t width, str table, int64_t* nbytes) except -1


cdef class Piecewise:
    """A buffer of a body that is made while it goes out, a piece at a time."""
    cdef readonly int64_t nbytes
    # Put the next bytes at `out`, at most `room`; returns how many, 0 at the end. Called without the GIL.
    cdef int64_t fill(self, uint8_t* out, int64_t room) noexcept nogil
    cdef void rewind(self) noexcept
