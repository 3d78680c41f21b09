"""The common parts of dense and sparse tensor messages: reading with bounds checks, and writing at multiples of 64."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from arrowipc._core cimport Memory, Source, raise_fault
from arrowipc.inline.body_parts cimport BodyPart, padding
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport (
    Table, Vector, fb_field, fb_i64, fb_string, fb_table, fb_u8, fb_vector, fb_vector_table,
)
from arrowipc.inline.loads cimport inside, load_i32, load_i64, mul_overflows, round_up
from arrowipc.inline.plan cimport LAYOUT_BOOL, LAYOUT_FIXED, FieldPlan
from arrowipc.inline.room cimport new_zeros
from arrowipc.inline.utf8 cimport utf8_error
from arrowipc.metadata.schema_reader cimport fixed_type, read_type
from arrowipc.encode.batch_writer cimport Sink
from arrowipc.tensors.strided_copy cimport PIECE, Gathered

from arrowipc.datatypes import Bool
from arrowipc.errors import FormatError, LimitError

cdef dict TYPE_NAMES = {
    Type_Null: "Null", Type_Binary: "Binary", Type_Utf8: "Utf8", Type_List: "List", Type_Struct_: "Struct_",
    Type_Union: "Union", Type_FixedSizeList: "FixedSizeList", Type_Map: "Map", Type_LargeBinary: "LargeBinary",
    Type_LargeUtf8: "LargeUtf8", Type_LargeList: "LargeList", Type_RunEndEncoded: "RunEndEncoded",
    Type_BinaryView: "BinaryView", Type_Utf8View: "Utf8View", Type_ListView: "ListView",
    Type_LargeListView: "LargeListView",
}

# -- reading -------------------------------------------------------------------------------------------------


cdef int broken(str table, str part) except -1:
    raise FormatError(f"{table}.{part} does not lie inside the metadata: the FlatBuffers data is broken")


cdef int require(int64_t found, str table, str part) except -1:
    if found < 0:
        return broken(table, part)
    if found == 0:
        raise FormatError(f"the metadata lacks the required {table}.{part}")
    return 0


cdef int read_element(const Table* header, int32_t tag, int32_t slot, str table, FieldPlan* out, Table* type) except -1:
    cdef Fault fault
    cdef int kind
    if fb_u8(header, tag, 0, &kind) < 0:
        return broken(table, "type_type")
    require(fb_table(header, slot, type), table, "type")
    require(kind, table, "type")
    memset(out, 0, sizeof(FieldPlan))
    if read_type(type, kind, out, &fault) < 0:
        raise_fault(&fault, None, f"{table}.type")
    if out.layout == LAYOUT_BOOL:
        out.width = 1
    elif out.layout != LAYOUT_FIXED:
        raise FormatError(f"{table}.type is {TYPE_NAMES.get(kind, kind)}: expected a type whose values have a fixed "
                          "width")
    return 0


cdef object element_type(const FieldPlan* element, const Table* type):
    return Bool() if element.layout == LAYOUT_BOOL else fixed_type(element, type)


cdef int read_index_type(const Table* header, int32_t slot, str table, str part, FieldPlan* out) except -1:
    cdef Table type
    cdef Fault fault
    require(fb_table(header, slot, &type), table, part)
    memset(out, 0, sizeof(FieldPlan))
    if read_type(&type, Type_Int, out, &fault) < 0:
        raise_fault(&fault, None, f"{table}.{part}")
    return 0


cdef int read_dims(const Table* header, int32_t slot, str table, Vector* dims) except -1:
    require(fb_vector(header, slot, 4, dims), table, "shape")
    if dims.count > MOST_DIMENSIONS:
        raise LimitError(f"{table}.shape has {dims.count:,} dimensions: at most {MOST_DIMENSIONS} are supported")
    return 0


cdef int read_shape(const Table* header, int32_t slot, str table, Shape* out) except -1:
    cdef Vector dims
    cdef Table dim
    cdef int64_t i
    read_dims(header, slot, table, &dims)
    out.ndim = <int32_t> dims.count
    for i in range(dims.count):
        if fb_vector_table(header, &dims, i, &dim) < 0 or fb_i64(&dim, TensorDim_size, 0, &out.size[i]) < 0:
            return broken(table, f"shape[{i}]")
        if out.size[i] < 0:
            raise FormatError(f"{table}.shape[{i}].size is {out.size[i]}: expected 0 or more")
    return 0


cdef tuple read_names(const Table* header, int32_t slot, str table):
    cdef Vector dims, name
    cdef Table dim
    cdef int64_t i, bad
    cdef bint named = False
    names = []
    read_dims(header, slot, table, &dims)
    for i in range(dims.count):
        if fb_vector_table(header, &dims, i, &dim) < 0 or fb_string(&dim, TensorDim_name, &name) < 0:
            broken(table, f"shape[{i}].name")
        if name.count == 0:
            names.append("")
            continue
        bad = utf8_error(name.data, name.count)
        if bad >= 0:
            raise FormatError(f"{table}.shape[{i}].name is not UTF-8 (byte {bad})")
        named = True
        names.append((<const char*> name.data)[:name.count].decode())
    return tuple(names) if named else None


cdef int read_buffer(const Table* header, int32_t slot, str table, str part, int64_t body_length,
                     Location* out) except -1:
    cdef int64_t at = fb_field(header, slot, Buffer_SIZE)
    require(at, table, part)
    return check_buffer(header.base + at, table, part, body_length, out)


cdef int check_buffer(const uint8_t* entry, str table, str part, int64_t body_length, Location* out) except -1:
    out.offset = load_i64(entry + Buffer_offset)
    out.length = load_i64(entry + Buffer_length)
    if out.length == 0 and out.offset >= 0:
        # Some writers give empty buffers an arbitrary offset; it is not used.
        out.offset = 0
    elif not inside(out.offset, out.length, body_length):
        raise FormatError(f"{table}.{part}: bytes {out.offset}..+{out.length} lie outside the {body_length}-byte body")
    return 0


cdef int64_t count_elements(const Shape* shape, int64_t width, str table, int64_t* nbytes) except -1:
    cdef int64_t count = 1
    cdef int32_t i
    for i in range(shape.ndim):
        if shape.size[i] == 0:
            # The tensor is empty, even if the product of the other sizes overflows.
            nbytes[0] = 0
            return 0
    for i in range(shape.ndim):
        if mul_overflows(count, shape.size[i], &count):
            raise FormatError(f"{table}.shape: more elements than 2**63 - 1")
    if mul_overflows(count, width, nbytes):
        raise FormatError(f"{table}.shape: {count:,} elements of {width} bytes are more than 2**63 - 1 bytes")
    return count


def leading_padding(data):
    """Count the zeros, fewer than 64, with which a writer aligned the message behind them; 0 if no message follows.

    1 to 3 zeros and the beginning of a continuation marker cannot be a size from before version 0.15: it would be
    negative.
    """
    cdef Source source = Source(data)
    cdef int64_t i = 0, most = min(source.size, <int64_t> TENSOR_ALIGNMENT)
    if source.size < 4 or load_i32(source.data) > 0:
        return 0
    while i < most and source.data[i] == 0:
        i += 1
    if i < 4:
        for k in range(i, 4):
            if source.data[k] != 0xFF:
                return 0
    return i if i < most else 0


# -- writing -------------------------------------------------------------------------------------------------


def stored_length(int64_t size):
    """Return the bytes of a buffer in a body, with the zeros behind it."""
    return round_up(size, TENSOR_ALIGNMENT)


def write_message(Sink sink not None, bytes head not None, buffers):
    """Write a head and the buffers of a body (bytes-like or Gathered), each followed by zeros up to a multiple of 64.

    Return the number of bytes written.
    """
    cdef int64_t start = sink.position, body = 0
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(head)
    cdef int64_t size = len(head)
    cdef BodyPart* parts = <BodyPart*> new_zeros(len(buffers), sizeof(BodyPart))
    cdef int32_t count = 0
    cdef Source source
    cdef list held = []
    try:
        for buffer in buffers:
            if isinstance(buffer, Gathered):
                # Write the head and the buffers collected so far, then start a new list.
                sink.write(at, size, parts, count, TENSOR_ALIGNMENT, body)
                body = size = count = 0
                write_pieces(sink, buffer)
                continue
            source = Source(buffer)
            held.append(source)
            parts[count] = BodyPart(source.data, source.size, 0, False)
            count += 1
            body += round_up(source.size, TENSOR_ALIGNMENT)
        if size or body:
            sink.write(at, size, parts, count, TENSOR_ALIGNMENT, body)
    finally:
        free(parts)
    return sink.position - start


cdef int write_pieces(Sink sink, Gathered buffer) except -1:
    """Write a buffer, each piece while it is still in the cache; the last piece includes the padding."""
    cdef int64_t zeros = padding(buffer.nbytes, TENSOR_ALIGNMENT), done = 0, size
    cdef Memory memory = Memory(min(buffer.nbytes, <int64_t> PIECE) + zeros)
    cdef BodyPart part = BodyPart(memory.data, 0, 0, False)
    buffer.rewind()
    while done < buffer.nbytes:
        with nogil:
            size = buffer.fill(memory.data, PIECE)
        done += size
        if done == buffer.nbytes:
            memset(memory.data + size, 0, zeros)
            size += zeros
        part.size = size
        sink.write(memory.data, 0, &part, 1, 1, size)
    return 0
