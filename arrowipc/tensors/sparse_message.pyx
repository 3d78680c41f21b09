"""Reading of SparseTensor messages: the parts of the table, each checked to be inside the body and long enough."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from arrowipc._core cimport Memory, limits_data, window
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_i16, fb_i64, fb_table, fb_u8, fb_vector
from arrowipc.inline.loads cimport load_i32, load_i64, mul_overflows
from arrowipc.inline.plan cimport FIELD_SIGNED, FieldPlan, LimitsData
from arrowipc.decode.framing cimport Message
from arrowipc.tensors.message cimport (
    Location, Shape, broken, check_buffer, element_type, read_buffer, read_element, read_index_type, read_names,
    read_shape, require,
)
from arrowipc.tensors.strided_copy cimport reach

import numpy as np

from arrowipc.errors import FormatError, LimitError, UnsupportedError
from arrowipc.tensors.sparse_convert import Index

cdef enum:
    ADDRESS = 8                 # largest alignment that loads of values and indices need


cdef class Opened:
    """The parts of a SparseTensor table."""

    cdef readonly object type           # DataType
    cdef readonly tuple shape
    cdef readonly tuple dim_names       # None: none has a name
    cdef int64_t non_zero_length
    cdef readonly object data           # memoryview of the values, without padding
    cdef readonly str layout            # "COO", "CSR", "CSC" or "CSF"
    cdef readonly bint is_canonical     # COO: the message's flag, not checked
    cdef readonly object index          # sparse_convert.Index; levels of CSF may include padding
    cdef Shape size
    cdef Message message
    cdef int64_t used                   # bytes of all buffers, shared ones as often as they are used
    cdef int64_t allowed                # the most that `used` may be

    cdef object buffer(self, const Location* part, int64_t length, int64_t width):
        """Return the first bytes of a buffer; copy them if their address is not aligned for their width."""
        cdef const uint8_t* data = self.message.body_bytes + part.offset
        cdef Memory memory
        self.used += part.length
        if self.used > self.allowed:
            raise LimitError(f"the buffers of the SparseTensor add up to more than its body of "
                             f"{self.message.envelope.body_length:,} bytes and Limits.overlap_bytes: they share bytes")
        if length == 0:
            return memoryview(b"")
        if <uintptr_t> data & (min(width, <int64_t> ADDRESS) - 1) == 0 or width & (width - 1):
            return window(data, length, self.message.body_owner)
        memory = Memory(length)
        memcpy(memory.data, data, length)
        memory.size = length
        return memoryview(memory)

    cdef object integers(self, const Location* part, int64_t count, const FieldPlan* plan):
        """Return the first `count` integers of a buffer as an array."""
        return np.frombuffer(self.buffer(part, count * plan.width, plan.width), dtype_of(plan))


cdef str dtype_of(const FieldPlan* plan):
    return f"<{'i' if plan.flags & FIELD_SIGNED else 'u'}{plan.width}"


cdef int open_coo(Opened out, const Table* index, int64_t body_length) except -1:
    """Read a SparseTensorIndexCOO: a row of coordinates per value, with any strides that stay in the buffer."""
    cdef FieldPlan plan
    cdef Location part
    cdef Vector stored
    cdef int64_t[2] strides
    cdef int64_t[2] shape
    cdef int64_t needed = 0, total
    cdef int canonical
    cdef str table = "SparseTensorIndexCOO"
    read_index_type(index, SparseTensorIndexCOO_indicesType, table, "indicesType", &plan)
    read_buffer(index, SparseTensorIndexCOO_indicesBuffer, table, "indicesBuffer", body_length, &part)
    if fb_vector(index, SparseTensorIndexCOO_indicesStrides, 8, &stored) < 0:
        broken(table, "indicesStrides")
    shape[0] = out.non_zero_length
    shape[1] = out.size.ndim
    strides[0] = shape[1] * plan.width
    strides[1] = plan.width
    if stored.count:
        if stored.count != 2:
            raise FormatError(f"{table}.indicesStrides has {stored.count} entries: expected 2")
        strides[0] = load_i64(stored.data)
        strides[1] = load_i64(stored.data + 8)
        if strides[0] < 0 or strides[1] < 0:
            raise FormatError(f"{table}.indicesStrides is {(strides[0], strides[1])}: expected no negative number")
    if shape[0] and shape[1]:
        needed = reach(2, shape, strides, plan.width)
        if needed < 0 or needed > part.length:
            raise FormatError(f"{table}.indicesBuffer holds {part.length:,} bytes: {shape[0]:,} rows of {shape[1]} "
                              f"indices at strides {(strides[0], strides[1])} do not fit")
        if mul_overflows(shape[0], shape[1] * plan.width, &total) or total - part.length > out.allowed:
            raise LimitError(f"{table}.indicesStrides: {shape[0]:,} rows of indices share more bytes than "
                             f"Limits.overlap_bytes")
    if fb_u8(index, SparseTensorIndexCOO_isCanonical, 0, &canonical) < 0:
        broken(table, "isCanonical")
    out.layout = "COO"
    out.is_canonical = canonical != 0
    rows, dtype, held = (shape[0], shape[1]), dtype_of(&plan), out.buffer(&part, needed, plan.width)
    matrix = np.ndarray(rows, dtype, held, 0, (strides[0], strides[1])) if needed else np.empty(rows, dtype)
    out.index = Index((), (matrix,), tuple(range(shape[1])))
    return 0


cdef int open_csx(Opened out, const Table* index, int64_t body_length) except -1:
    """Read a SparseMatrixIndexCSX; counts follow from the shape and the number of values, not from buffer lengths."""
    cdef FieldPlan pointer, plan
    cdef Location pointers, part
    cdef int axis
    cdef int64_t parents
    cdef str table = "SparseMatrixIndexCSX"
    if fb_i16(index, SparseMatrixIndexCSX_compressedAxis, 0, &axis) < 0:
        broken(table, "compressedAxis")
    if axis < 0 or axis > SparseMatrixCompressedAxis_MAX:
        raise FormatError(f"{table}.compressedAxis has the unknown value {axis}")
    if out.size.ndim != 2:
        raise FormatError(f"SparseTensor.shape has {out.size.ndim} dimensions: a {table} is for 2")
    read_index_type(index, SparseMatrixIndexCSX_indptrType, table, "indptrType", &pointer)
    read_buffer(index, SparseMatrixIndexCSX_indptrBuffer, table, "indptrBuffer", body_length, &pointers)
    read_index_type(index, SparseMatrixIndexCSX_indicesType, table, "indicesType", &plan)
    read_buffer(index, SparseMatrixIndexCSX_indicesBuffer, table, "indicesBuffer", body_length, &part)
    parents = out.size.size[axis]
    if pointers.length // pointer.width <= parents:
        raise FormatError(f"{table}.indptrBuffer holds {pointers.length // pointer.width:,} entries: "
                          f"SparseTensor.shape[{axis}] of {parents:,} needs one more than that")
    if part.length // plan.width < out.non_zero_length:
        raise FormatError(f"{table}.indicesBuffer holds {part.length // plan.width:,} entries: "
                          f"{out.non_zero_length:,} values need as many")
    out.layout = "CSC" if axis else "CSR"
    out.index = Index((out.integers(&pointers, parents + 1, &pointer),),
                      (None, out.integers(&part, out.non_zero_length, &plan)), (axis, 1 - axis))
    return 0


cdef int find_levels(const Table* index, int32_t slot, str part, int64_t count, Vector* entries) except -1:
    require(fb_vector(index, slot, Buffer_SIZE, entries), "SparseTensorIndexCSF", part)
    if entries.count != count:
        raise FormatError(f"SparseTensorIndexCSF.{part} has {entries.count} entries: the dimensions need {count}")
    return 0


cdef inline int64_t length_of(const Vector* entries, int64_t k) noexcept:
    return load_i64(entries.data + Buffer_SIZE * k + Buffer_length)


cdef bint counts_entries(const Vector* pointers, const Vector* nodes, int64_t leaves) noexcept:
    """Whether buffer lengths are numbers of entries, as Arrow C++ 26 writes them, and not bytes, as the format says.

    As numbers of entries they fit each other: a level has one pointer more than nodes, and there are as many leaves as
    values. Lengths in bytes never fit like this unless all integers are single bytes; then both are the same.
    """
    cdef int64_t k
    if length_of(nodes, nodes.count - 1) != leaves:
        return False
    for k in range(pointers.count):
        if length_of(nodes, k) < 0 or length_of(pointers, k) - 1 != length_of(nodes, k):
            return False
    return True


cdef tuple open_levels(Opened out, const Vector* entries, str part, const FieldPlan* plan, bint counted,
                       int64_t body_length):
    """Return each buffer with all integers that it holds; `_without_padding` of `sparse_io` cuts them to the nodes."""
    cdef Location level
    cdef uint8_t[16] entry
    cdef int64_t k, length
    cdef str table = "SparseTensorIndexCSF"
    levels = []
    for k in range(entries.count):
        memcpy(entry, entries.data + Buffer_SIZE * k, sizeof(entry))
        if counted:
            length = length_of(entries, k)
            if mul_overflows(length, plan.width, &length):
                raise FormatError(f"{table}.{part}[{k}] holds more than 2**63 - 1 bytes")
            memcpy(entry + Buffer_length, &length, sizeof(length))
        check_buffer(entry, table, f"{part}[{k}]", body_length, &level)
        levels.append(out.integers(&level, level.length // plan.width, plan))
    return tuple(levels)


cdef int open_csf(Opened out, const Table* index, int64_t body_length) except -1:
    """Read a SparseTensorIndexCSF."""
    cdef FieldPlan pointer, plan
    cdef Vector axes, pointers, nodes
    cdef int64_t k
    cdef int32_t ndim = out.size.ndim
    cdef bint counted
    cdef str table = "SparseTensorIndexCSF"
    if ndim < 2:
        raise FormatError(f"SparseTensor.shape has {ndim} dimensions: a {table} is for 2 or more")
    read_index_type(index, SparseTensorIndexCSF_indptrType, table, "indptrType", &pointer)
    read_index_type(index, SparseTensorIndexCSF_indicesType, table, "indicesType", &plan)
    require(fb_vector(index, SparseTensorIndexCSF_axisOrder, 4, &axes), table, "axisOrder")
    order = [load_i32(axes.data + 4 * k) for k in range(min(axes.count, ndim + 1))]
    if sorted(order) != list(range(ndim)):
        raise FormatError(f"{table}.axisOrder must name each of 0..{ndim - 1} once, found {axes.count} entries that "
                          f"begin with {order}")
    out.layout = "CSF"
    find_levels(index, SparseTensorIndexCSF_indptrBuffers, "indptrBuffers", ndim - 1, &pointers)
    find_levels(index, SparseTensorIndexCSF_indicesBuffers, "indicesBuffers", ndim, &nodes)
    counted = counts_entries(&pointers, &nodes, out.non_zero_length)
    out.index = Index(open_levels(out, &pointers, "indptrBuffers", &pointer, counted, body_length),
                      open_levels(out, &nodes, "indicesBuffers", &plan, counted, body_length), tuple(order))
    return 0


cdef int open_values(Opened out, const Table* header, int64_t body_length) except -1:
    """Read the parts that all layouts have: type, shape, names and values."""
    cdef FieldPlan element
    cdef Table type
    cdef Location data
    read_element(header, SparseTensor_type_type, SparseTensor_type, "SparseTensor", &element, &type)
    if element.width == 0:
        raise UnsupportedError("SparseTensor.type: values of 0 bytes, whose number nothing can confirm")
    read_shape(header, SparseTensor_shape, "SparseTensor", &out.size)
    out.type = element_type(&element, &type)
    out.shape = tuple([out.size.size[k] for k in range(out.size.ndim)])
    out.dim_names = read_names(header, SparseTensor_shape, "SparseTensor")
    if fb_i64(header, SparseTensor_non_zero_length, 0, &out.non_zero_length) < 0:
        broken("SparseTensor", "non_zero_length")
    if out.non_zero_length < 0:
        raise FormatError(f"SparseTensor.non_zero_length is {out.non_zero_length}: expected 0 or more")
    read_buffer(header, SparseTensor_data, "SparseTensor", "data", body_length, &data)
    if data.length // element.width < out.non_zero_length:
        raise FormatError(f"SparseTensor.data holds {data.length:,} bytes: {out.non_zero_length:,} values of "
                          f"{element.width} bytes need more")
    out.data = out.buffer(&data, out.non_zero_length * element.width, element.width)
    return 0


def open_sparse(Message message not None, limits=None):
    """Return the parts of a SparseTensor message; the contents of the index are not checked.

    Raises
    ------
    FormatError
        The message is of another kind, or a field of it is invalid: the text names the field.
    """
    cdef Opened out = Opened.__new__(Opened)
    cdef LimitsData bounds
    cdef const Table* header = &message.envelope.header
    cdef Table index
    cdef int64_t body_length = message.envelope.body_length
    cdef int kind
    limits_data(limits, &bounds)
    if message.envelope.kind != MessageHeader_SparseTensor:
        raise FormatError(f"expected a SparseTensor message, found {message.kind}")
    message.join()
    out.message = message
    out.allowed = body_length + min(bounds.overlap_bytes, (<int64_t> 1 << 62) - body_length)
    open_values(out, header, body_length)
    if fb_u8(header, SparseTensor_sparseIndex_type, 0, &kind) < 0:
        broken("SparseTensor", "sparseIndex")
    require(fb_table(header, SparseTensor_sparseIndex, &index), "SparseTensor", "sparseIndex")
    require(kind, "SparseTensor", "sparseIndex")
    if kind == SparseTensorIndex_SparseTensorIndexCOO:
        open_coo(out, &index, body_length)
    elif kind == SparseTensorIndex_SparseMatrixIndexCSX:
        open_csx(out, &index, body_length)
    elif kind == SparseTensorIndex_SparseTensorIndexCSF:
        open_csf(out, &index, body_length)
    else:
        raise FormatError(f"SparseTensor.sparseIndex has the unknown type {kind}")
    return out
