# Parts that dense and sparse tensor messages share: element type, shape and buffers, read with bounds checks.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport FieldPlan
from arrowipc.tensors.strided_copy cimport MOST_DIMENSIONS

cdef enum:
    TENSOR_ALIGNMENT = 64   # of messages and of every buffer of their bodies

cdef struct Shape:
    int32_t ndim
    int64_t size[MOST_DIMENSIONS]

cdef struct Location:
    # The place of a Buffer, inside the body.
    int64_t offset
    int64_t length


# All of these raise FormatError (UnsupportedError, LimitError) that names the wrong part: `table` is the name of
# the FlatBuffers table, such as "SparseTensor", `part` the name of its field.

# Raise the error for a field outside the metadata.
cdef int broken(str table, str part) except -1
# Check the result of a look-up: raise if it is 0 (the field is missing) or negative (it is outside the metadata).
cdef int require(int64_t found, str table, str part) except -1
# Read the type of the elements: width, layout (LAYOUT_FIXED, or LAYOUT_BOOL with a width of 1 byte) and parameters, and
# its table, for `element_type`. `tag` and `slot` are the slots of the union's tag and of its value.
cdef int read_element(const Table* header, int32_t tag, int32_t slot, str table, FieldPlan* out, Table* type) except -1
cdef object element_type(const FieldPlan* element, const Table* type)       # the DataType of the elements
# Read the Int table of an index; `part` is "indptrType" or "indicesType".
cdef int read_index_type(const Table* header, int32_t slot, str table, str part, FieldPlan* out) except -1
# Read the sizes of the dimensions, which are not negative; the names, None if all are empty.
cdef int read_shape(const Table* header, int32_t slot, str table, Shape* out) except -1
cdef tuple read_names(const Table* header, int32_t slot, str table)
# Read a required Buffer field, or the struct at `entry`; it must be inside a body of `body_length` bytes.
cdef int read_buffer(const Table* header, int32_t slot, str table, str part, int64_t body_length,
                     Location* out) except -1
cdef int check_buffer(const uint8_t* entry, str table, str part, int64_t body_length, Location* out) except -1
# Return the number of elements, and set the number of their bytes; raise if either does not fit 63 bits.
cdef int64_t count_elements(const Shape* shape, int64_t width, str table, int64_t* nbytes) except -1
