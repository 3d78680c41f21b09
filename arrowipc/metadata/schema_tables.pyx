"""Writes FlatBuffers, and with them the metadata that is made once: schemas, tensors, footers.

Columnar format, "Serialization and Interprocess Communication (IPC)"; Schema.fbs, File.fbs, Tensor.fbs and
SparseTensor.fbs. The metadata of batches of columns, of which there are many, is written by `encode.batch_encoder`.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint16_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport load_u16, put32, put64, round_up
from arrowipc.inline.room cimport reserve_items
from arrowipc.inline.slots cimport slot, slot_place

from arrowipc import datatypes as types
from arrowipc.arguments import KeyValueMetadata
from arrowipc.errors import UsageError


# -- FlatBuffers -----------------------------------------------------------------------------------------------------

# Writes FlatBuffers: strings, vectors, and tables that share their vtables.
#
# The same calls give the same bytes. Every scalar lies at a multiple of its size from the start of the flatbuffer:
# `finish` makes the whole a multiple of the strictest alignment in it, so until then places are counted from the end.

cdef enum:
    FIRST_ROOM = 1024
    MOST_SLOTS = 8          # of the tables that are written here; Field and SparseTensor have 7
    MOST_VTABLES = 64       # how many vtables can be shared; a schema has fewer
    TABLE_BYTES = 192       # more than a table with its vtable takes, however its fields are padded


@cython.final
cdef class TableWriter:
    """Writes one flatbuffer, from its end: children first, because offsets point forward.

    Places are counted from the end, and no place is 0. Every call that may fail makes room for itself and for all
    that may come before the next such call: a count, padding, a table. `string`, the vectors and `end` return a place.
    For a table, call `begin`, add its fields by their vtable offsets (wide ones first, to save padding), and call
    `end`. A field that is equal to its default, or that points at nothing (0), stays absent.
    """

    cdef uint8_t* data
    cdef int64_t room                       # the size of `data`, and `outside`
    cdef int64_t used                       # how many bytes were written: the last ones of `data`, and `outside`
    cdef int64_t outside                    # bytes at the end that the caller writes, and that are not in `data`
    cdef int64_t alignment                  # the strictest one so far
    cdef int64_t table_end                  # of the open table
    cdef int64_t[MOST_SLOTS] places         # of its fields; 0: absent
    cdef int64_t[MOST_VTABLES] vtables      # the places of different vtables
    cdef int32_t n_vtables
    cdef int32_t* waiting                   # tables that a vector will point at
    cdef int64_t n_waiting
    cdef int64_t waiting_room

    cdef inline void scalar(self, int slot, int64_t width, int64_t value, int64_t default=0) noexcept:
        if value != default:
            memcpy(self.field(slot, width), &value, width)

    cdef inline void target(self, int slot, int64_t place) noexcept:
        """Add a field that points at a string, vector or table."""
        cdef uint8_t* at
        if place:
            at = self.field(slot, 4)
            put32(at, self.used - place)

    cdef inline void pair(self, int slot, int64_t first, int64_t second) noexcept:
        """Add a struct of two 64-bit integers; structs lie inside their table, also if they are zero."""
        self.align(8, 0)
        put64(self.push(8), second)
        put64(self.field(slot, 8), first)

    cdef inline uint8_t* field(self, int slot, int64_t width) noexcept:
        cdef uint8_t* at
        self.align(width, 0)
        at = self.push(width)
        self.places[(slot - 4) >> 1] = self.used
        return at

    cdef inline void align(self, int64_t alignment, int64_t size) noexcept:
        """Write zeros, so that the next `size` bytes begin at a multiple of `alignment`."""
        cdef int64_t zeros = -(self.used + size) & (alignment - 1)
        if zeros:
            memset(self.push(zeros), 0, zeros)
        self.alignment = max(self.alignment, alignment)

    cdef inline uint8_t* push(self, int64_t size) noexcept:
        self.used += size
        return self.data + self.room - self.used

    def __cinit__(self):
        self.alignment = 4

    def __dealloc__(self):
        free(self.data)
        free(self.waiting)

    cdef int64_t string(self, const char* text, int64_t size) except 0:
        """Write bytes, with their count in front and a NUL behind them."""
        self.reserve(size)
        self.align(4, size + 1)
        self.push(1)[0] = 0
        memcpy(self.push(size), text, size)
        put32(self.push(4), size)
        return self.used

    cdef int64_t vector(self, const void* items, int64_t count, int64_t width, int64_t alignment) except 0:
        """Write scalars or structs that are laid out already."""
        self.reserve(count * width)
        self.align(max(alignment, 4), count * width)
        memcpy(self.push(count * width), items, count * width)
        put32(self.push(4), count)
        return self.used

    cdef int wait(self, int64_t table) except -1:
        """Keep the place of a table for the vector that will point at it."""
        if reserve_items(<void**> &self.waiting, &self.waiting_room, self.n_waiting + 1, sizeof(int32_t)) < 0:
            raise MemoryError(f"cannot allocate a list of {self.n_waiting:,} tables")
        self.waiting[self.n_waiting] = <int32_t> table
        self.n_waiting += 1
        return 0

    cdef int64_t vector_of_tables(self, int64_t count) except 0:
        """Write offsets of the last `count` tables that wait, in their order."""
        cdef uint8_t* items
        cdef int64_t i
        self.reserve(4 * count)
        self.align(4, 0)
        items = self.push(4 * count)
        self.n_waiting -= count
        for i in range(count):
            put32(items + 4 * i, self.used - 4 * i - self.waiting[self.n_waiting + i])
        put32(self.push(4), count)
        return self.used

    cdef int begin(self) except -1:
        """Open a table; `reserve` keeps the room for one."""
        self.reserve(0)
        memset(self.places, 0, sizeof(self.places))
        self.table_end = self.used
        return 0

    cdef int64_t end(self) except 0:
        """Close the open table: its vtable is written in front of it, unless an equal one is there."""
        cdef uint16_t[2 + MOST_SLOTS] vtable
        cdef int64_t table, shared
        cdef int i, n_slots = 0
        self.align(4, 0)
        self.push(4)
        table = self.used
        for i in range(MOST_SLOTS):
            vtable[2 + i] = 0
            if self.places[i]:
                vtable[2 + i] = <uint16_t> (table - self.places[i])
                n_slots = i + 1
        vtable[0] = <uint16_t> (4 + 2 * n_slots)
        vtable[1] = <uint16_t> (table - self.table_end)
        shared = self.equal_vtable(vtable)
        if shared == 0:
            memcpy(self.push(vtable[0]), vtable, vtable[0])
            shared = self.used
            if self.n_vtables < MOST_VTABLES:
                self.vtables[self.n_vtables] = shared
                self.n_vtables += 1
        put32(self.data + self.room - table, shared - table)
        return table

    cdef int64_t equal_vtable(self, const uint16_t* vtable) noexcept:
        cdef const uint8_t* other
        cdef int i
        for i in range(self.n_vtables - 1, -1, -1):
            other = self.data + self.room - self.vtables[i]
            if load_u16(other) == vtable[0] and memcmp(other, vtable, vtable[0]) == 0:
                return self.vtables[i]
        return 0

    cdef bytes finish(self, int64_t root):
        """Return the flatbuffer, with `root` as its root table."""
        cdef uint8_t* start
        self.reserve(0)
        self.align(self.alignment, 4)
        start = self.push(4)
        put32(start, self.used - root)
        return PyBytes_FromStringAndSize(<const char*> start, self.used - self.outside)

    cdef int leave_outside(self, int64_t size) except -1:
        """Begin with `size` bytes that the caller writes, behind the bytes that `finish` returns."""
        self.outside = self.used = size
        self.room += size
        return self.reserve(0)

    cdef int reserve(self, int64_t size) except -1:
        """Make room for `size` bytes more, and for a count, padding and a whole table besides."""
        cdef int64_t needed = self.used + size + TABLE_BYTES, room
        cdef uint8_t* moved
        if needed <= self.room:
            return 0
        if needed > INT32_MAX:
            raise UsageError(f"the metadata of the message takes {needed:,} bytes; its size is an int32")
        room = max(2 * (needed - self.outside), FIRST_ROOM)
        moved = <uint8_t*> malloc(room)
        if moved == NULL:
            raise MemoryError(f"cannot allocate {room:,} bytes of metadata")
        room += self.outside
        if self.used > self.outside:
            memcpy(moved + room - self.used, self.data + self.room - self.used, self.used - self.outside)
        free(self.data)
        self.data = moved
        self.room = room
        return 0


# -- the tables of schemas, footers and tensors ----------------------------------------------------------------------

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

# Class of a type -> its tag. A dictionary has none: its field carries the type of the values.
cdef dict KINDS = {
    types.Null: Type_Null, types.Bool: Type_Bool, types.Int: Type_Int, types.FloatingPoint: Type_FloatingPoint,
    types.Decimal: Type_Decimal, types.Date: Type_Date, types.Time: Type_Time, types.Timestamp: Type_Timestamp,
    types.Duration: Type_Duration, types.Interval: Type_Interval, types.Utf8: Type_Utf8,
    types.LargeUtf8: Type_LargeUtf8, types.Utf8View: Type_Utf8View, types.Binary: Type_Binary,
    types.LargeBinary: Type_LargeBinary, types.BinaryView: Type_BinaryView,
    types.FixedSizeBinary: Type_FixedSizeBinary, types.List: Type_List, types.LargeList: Type_LargeList,
    types.ListView: Type_ListView, types.LargeListView: Type_LargeListView,
    types.FixedSizeList: Type_FixedSizeList, types.Map: Type_Map, types.Struct: Type_Struct_,
    types.Union: Type_Union, types.RunEndEncoded: Type_RunEndEncoded,
}
cdef tuple TIME_UNITS = ("s", "ms", "us", "ns")
cdef dict VERSIONS = {"V4": MetadataVersion_V4, "V5": MetadataVersion_V5}
# Tag -> the scalars of its table, wide ones first: slot, bytes, default, attribute, words that stand for 0, 1, ...
cdef dict SCALARS = {
    Type_FloatingPoint: [(FloatingPoint_precision, 2, 0, "precision", ("half", "single", "double"))],
    Type_Decimal: [(Decimal_precision, 4, 0, "precision", None), (Decimal_scale, 4, 0, "scale", None),
                   (Decimal_bitWidth, 4, Decimal_bitWidth_DEFAULT, "bit_width", None)],
    Type_Date: [(Date_unit, 2, Date_unit_DEFAULT, "unit", ("day", "ms"))],
    Type_Time: [(Time_bitWidth, 4, Time_bitWidth_DEFAULT, "bit_width", None),
                (Time_unit, 2, Time_unit_DEFAULT, "unit", TIME_UNITS)],
    Type_Timestamp: [(Timestamp_unit, 2, 0, "unit", TIME_UNITS)],
    Type_Duration: [(Duration_unit, 2, Duration_unit_DEFAULT, "unit", TIME_UNITS)],
    Type_Interval: [(Interval_unit, 2, 0, "unit", ("year_month", "day_time", "month_day_nano"))],
    Type_FixedSizeBinary: [(FixedSizeBinary_byteWidth, 4, 0, "byte_width", None)],
    Type_FixedSizeList: [(FixedSizeList_listSize, 4, 0, "list_size", None)],
    Type_Map: [(Map_keysSorted, 1, 0, "keys_sorted", None)],
    Type_Union: [(Union_mode, 2, 0, "mode", ("sparse", "dense"))],
}
cdef object Dictionary = types.Dictionary
cdef object Field = types.Field

# The slots that are read for every column: schemas may be few, and have thousands of columns.
cdef Py_ssize_t FIELD_NAME = slot_place(Field, "name"), FIELD_TYPE = slot_place(Field, "type")
cdef Py_ssize_t FIELD_NULLABLE = slot_place(Field, "nullable"), FIELD_METADATA = slot_place(Field, "metadata")
cdef Py_ssize_t METADATA_PAIRS = slot_place(KeyValueMetadata, "pairs")
cdef Py_ssize_t INT_WIDTH = slot_place(types.Int, "bit_width"), INT_SIGNED = slot_place(types.Int, "signed")


# -- messages and footers ------------------------------------------------------------------------------------


def write_schema_message(schema, version, tuple custom_metadata):
    """Return the ``Message`` table of a schema whose dictionaries have ids; see `schemas.schema_message`."""
    cdef TableWriter w = TableWriter()
    cdef int64_t pairs = add_pairs(w, custom_metadata)
    return add_message(w, VERSIONS[version], MessageHeader_Schema, add_schema(w, schema), 0, pairs)


def encapsulate(bytes metadata not None, bint legacy=False, int64_t alignment=8):
    """Put the prefix in front of a finished ``Message`` table and zeros behind it, up to a multiple of `alignment`.

    `legacy`: the prefix from before version 0.15 of the format: 4 bytes of size, without a continuation marker.
    """
    cdef int64_t start = 4 if legacy else 8, size = len(metadata), whole = round_up(start + size, alignment)
    cdef bytes message = PyBytes_FromStringAndSize(NULL, whole)
    cdef unsigned char* at = <unsigned char*> PyBytes_AS_STRING(message)
    put32(at, -1)
    put32(at + start - 4, whole - start)
    memcpy(at + start, PyBytes_AS_STRING(metadata), size)
    memset(at + start + size, 0, whole - start - size)
    return message


def write_footer(schema, version, bytearray dictionaries not None, int64_t n_batches, tuple metadata):
    """Return the ``Footer`` table of a file without the blocks of its batches; `dictionaries` are ``Block`` structs."""
    cdef TableWriter w = TableWriter()
    cdef int64_t pairs, fields, dictionary_blocks, batch_blocks
    if n_batches > INT32_MAX // Block_SIZE:
        raise UsageError(f"the footer of {n_batches:,} batches is larger than an int32 can say")
    w.leave_outside(n_batches * Block_SIZE)
    w.align(8, 0)
    put32(w.push(4), n_batches)
    batch_blocks = w.used
    pairs = add_pairs(w, metadata)
    dictionary_blocks = w.vector(PyByteArray_AS_STRING(dictionaries), len(dictionaries) // Block_SIZE, Block_SIZE, 8)
    fields = add_schema(w, schema)
    w.begin()
    w.target(Footer_schema, fields)
    w.target(Footer_dictionaries, dictionary_blocks)
    w.target(Footer_recordBatches, batch_blocks)
    w.target(Footer_custom_metadata, pairs)
    w.scalar(Footer_version, 2, VERSIONS[version])
    return w.finish(w.end())


cdef bytes add_message(TableWriter w, int version, int kind, int64_t header, int64_t body_length,
                       int64_t pairs):
    w.begin()
    w.scalar(Message_bodyLength, 8, body_length)
    w.target(Message_header, header)
    w.target(Message_custom_metadata, pairs)
    w.scalar(Message_version, 2, version)
    w.scalar(Message_header_type, 1, kind)
    return w.finish(w.end())


# -- dictionaries --------------------------------------------------------------------------------------------


def dictionaries_of(tuple fields):
    """Return the dictionaries within some fields, as a list in the order of the fields, outer before inner."""
    cdef list found = []
    for field in fields:
        type_ = type_of(field)
        if type(type_) is Dictionary:
            found.append(type_)
            type_ = type_.value_type
        if is_nested(kind_of(type_)):
            found += dictionaries_of(type_.children)
    return found


# -- schemas -------------------------------------------------------------------------------------------------


cdef int64_t add_schema(TableWriter w, object schema) except 0:
    cdef int64_t fields = add_fields(w, schema.fields)
    cdef int64_t pairs = add_pairs(w, schema.metadata.pairs)
    cdef int64_t features = add_integers(w, schema.features, 8) if schema.features else 0
    w.begin()
    w.target(Schema_fields, fields)
    w.target(Schema_custom_metadata, pairs)
    w.target(Schema_features, features)
    w.scalar(Schema_endianness, 2, Endianness_Big if schema.endianness == "big" else Endianness_Little)
    return w.end()


cdef int64_t add_fields(TableWriter w, tuple fields) except 0:
    """Write a vector of Field tables."""
    for field in fields:
        w.wait(add_field(w, field))
    return w.vector_of_tables(len(fields))


cdef int64_t add_field(TableWriter w, object field) except 0:
    """Write a Field table and everything below it; with a dictionary, type and children are those of the values."""
    cdef object type_ = type_of(field)
    cdef int64_t encoding = 0, children, stored, name, pairs
    cdef int kind
    if type(type_) is Dictionary:
        encoding = add_encoding(w, type_)
        type_ = type_.value_type
    kind = kind_of(type_)
    # Write this vector even if it is empty: some readers require it.
    children = add_fields(w, type_.children if is_nested(kind) else ())
    stored = add_type(w, kind, type_)
    name = add_text(w, slot(field, FIELD_NAME))
    pairs = add_pairs(w, slot(slot(field, FIELD_METADATA), METADATA_PAIRS))
    w.begin()
    w.target(Field_name, name)
    w.target(Field_type, stored)
    w.target(Field_dictionary, encoding)
    w.target(Field_children, children)
    w.target(Field_custom_metadata, pairs)
    w.scalar(Field_type_type, 1, kind)
    w.scalar(Field_nullable, 1, slot(field, FIELD_NULLABLE) is True)
    return w.end()


cdef int64_t add_encoding(TableWriter w, object dictionary) except 0:
    # Write the type of the indices even if it is int32, the default: some readers require it.
    cdef int64_t index = add_type(w, Type_Int, dictionary.index_type)
    w.begin()
    w.scalar(DictionaryEncoding_id, 8, dictionary.dictionary_id)
    w.target(DictionaryEncoding_indexType, index)
    w.scalar(DictionaryEncoding_isOrdered, 1, dictionary.ordered)
    return w.end()


cdef inline object type_of(object field):
    if not isinstance(field, Field):
        raise UsageError(f"expected a Field, found {field!r}")
    return slot(field, FIELD_TYPE)


cdef int kind_of(object type_) except -1:
    """Return the tag of a type in the Type union."""
    kind = KINDS.get(type(type_))
    if kind is None:
        raise UsageError(f"expected a type that has a table of its own, found {type_}")
    return kind


cdef inline bint is_nested(int kind) noexcept nogil:
    return (kind == Type_Struct_ or kind == Type_List or kind == Type_Map or kind == Type_Union
            or kind == Type_FixedSizeList or kind == Type_LargeList or kind == Type_ListView
            or kind == Type_LargeListView or kind == Type_RunEndEncoded)


cdef int64_t add_type(TableWriter w, int kind, object type_) except 0:
    """Write the table of a logical type; most have no fields, because the tag says it all."""
    cdef int64_t below = 0
    if kind == Type_Timestamp and type_.timezone is not None:
        below = add_text(w, type_.timezone)
    elif kind == Type_Union:
        below = add_integers(w, type_.type_codes, 4)
    w.begin()
    if kind == Type_Int:
        w.scalar(Int_bitWidth, 4, slot(type_, INT_WIDTH))
        w.scalar(Int_is_signed, 1, slot(type_, INT_SIGNED) is True)
        return w.end()
    w.target(Timestamp_timezone if kind == Type_Timestamp else Union_typeIds, below)
    for place, width, default, name, words in SCALARS.get(kind, ()):
        value = getattr(type_, name)
        w.scalar(place, width, value if words is None else (<tuple> words).index(value), default)
    return w.end()


cdef int64_t add_pairs(TableWriter w, tuple pairs) except -1:
    """Write a vector of KeyValue tables; return 0 if there are none.

    Keys and values are written as they are: the format calls them strings, but extension types keep binary there.
    """
    cdef int64_t key, value
    if not pairs:
        return 0
    for name, content in pairs:
        key = add_bytes(w, name)
        value = add_bytes(w, content)
        w.begin()
        w.target(KeyValue_key, key)
        w.target(KeyValue_value, value)
        w.wait(w.end())
    return w.vector_of_tables(len(pairs))


# -- tensors -------------------------------------------------------------------------------------------------


def write_tensor_message(type_, shape, names, strides, int64_t length, int64_t body_length):
    """Return the ``Message`` table of a dense tensor, whose body begins with its `length` bytes of elements.

    `strides` are in bytes; None: the elements lie row-major.
    """
    cdef TableWriter w = TableWriter()
    cdef int64_t dims = add_dims(w, shape, names)
    cdef int64_t steps = 0 if strides is None else add_integers(w, tuple(strides), 8)
    cdef int kind = kind_of(type_)
    cdef int64_t stored = add_type(w, kind, type_)
    w.begin()
    w.pair(Tensor_data, 0, length)
    w.target(Tensor_type, stored)
    w.target(Tensor_shape, dims)
    w.target(Tensor_strides, steps)
    w.scalar(Tensor_type_type, 1, kind)
    return add_message(w, MetadataVersion_V5, MessageHeader_Tensor, w.end(), body_length, 0)


def write_sparse_tensor_message(type_, shape, names, int64_t non_zero_length, tuple index, tuple data,
                                int64_t body_length):
    """Return the ``Message`` table of a sparse tensor.

    `index` is the name of the layout, then the fields of its table: ``("COO", type, strides, buffer, is
    canonical)``, ``("CSR" or "CSC", type of indptr, buffer, type of indices, buffer)`` or ``("CSF", type of indptr,
    buffers, type of indices, buffers, axis order)``. A buffer (also `data`) is a pair of offset and length.
    """
    cdef TableWriter w = TableWriter()
    cdef int64_t dims = add_dims(w, shape, names), where
    cdef int kind = kind_of(type_), layout
    cdef int64_t stored = add_type(w, kind, type_)
    if index[0] == "COO":
        layout = SparseTensorIndex_SparseTensorIndexCOO
        where = add_coo(w, index)
    elif index[0] == "CSF":
        layout = SparseTensorIndex_SparseTensorIndexCSF
        where = add_csf(w, index)
    else:
        layout = SparseTensorIndex_SparseMatrixIndexCSX
        where = add_csx(w, index)
    w.begin()
    w.pair(SparseTensor_data, data[0], data[1])
    w.scalar(SparseTensor_non_zero_length, 8, non_zero_length)
    w.target(SparseTensor_type, stored)
    w.target(SparseTensor_shape, dims)
    w.target(SparseTensor_sparseIndex, where)
    w.scalar(SparseTensor_type_type, 1, kind)
    w.scalar(SparseTensor_sparseIndex_type, 1, layout)
    return add_message(w, MetadataVersion_V5, MessageHeader_SparseTensor, w.end(), body_length, 0)


cdef int64_t add_coo(TableWriter w, tuple index) except 0:
    _, type_, strides, buffer, canonical = index
    cdef int64_t kind = add_type(w, Type_Int, type_), steps = add_integers(w, strides, 8)
    w.begin()
    w.pair(SparseTensorIndexCOO_indicesBuffer, buffer[0], buffer[1])
    w.target(SparseTensorIndexCOO_indicesType, kind)
    w.target(SparseTensorIndexCOO_indicesStrides, steps)
    w.scalar(SparseTensorIndexCOO_isCanonical, 1, canonical)
    return w.end()


cdef int64_t add_csx(TableWriter w, tuple index) except 0:
    layout, indptr_type, indptr, indices_type, indices = index
    cdef int64_t pointers = add_type(w, Type_Int, indptr_type)
    cdef int64_t kind = add_type(w, Type_Int, indices_type)
    w.begin()
    w.pair(SparseMatrixIndexCSX_indptrBuffer, indptr[0], indptr[1])
    w.pair(SparseMatrixIndexCSX_indicesBuffer, indices[0], indices[1])
    w.target(SparseMatrixIndexCSX_indptrType, pointers)
    w.target(SparseMatrixIndexCSX_indicesType, kind)
    w.scalar(SparseMatrixIndexCSX_compressedAxis, 2,
             SparseMatrixCompressedAxis_Row if layout == "CSR" else SparseMatrixCompressedAxis_Column)
    return w.end()


cdef int64_t add_csf(TableWriter w, tuple index) except 0:
    _, indptr_type, indptr, indices_type, indices, axis_order = index
    cdef int64_t pointers = add_type(w, Type_Int, indptr_type)
    cdef int64_t kind = add_type(w, Type_Int, indices_type)
    cdef int64_t levels = add_buffers(w, indptr), nodes = add_buffers(w, indices)
    cdef int64_t axes = add_integers(w, axis_order, 4)
    w.begin()
    w.target(SparseTensorIndexCSF_indptrType, pointers)
    w.target(SparseTensorIndexCSF_indptrBuffers, levels)
    w.target(SparseTensorIndexCSF_indicesType, kind)
    w.target(SparseTensorIndexCSF_indicesBuffers, nodes)
    w.target(SparseTensorIndexCSF_axisOrder, axes)
    return w.end()


cdef int64_t add_dims(TableWriter w, object shape, object names) except 0:
    """Write a vector of TensorDim tables."""
    cdef int64_t name
    for i, size in enumerate(shape):
        name = add_text(w, names[i]) if names and names[i] else 0
        w.begin()
        w.scalar(TensorDim_size, 8, size)
        w.target(TensorDim_name, name)
        w.wait(w.end())
    return w.vector_of_tables(len(shape))


# -- strings and vectors -------------------------------------------------------------------------------------


cdef inline int64_t add_text(TableWriter w, object text) except 0:
    cdef Py_ssize_t size
    cdef const char* encoded = PyUnicode_AsUTF8AndSize(text, &size)
    return w.string(encoded, size)


cdef inline int64_t add_bytes(TableWriter w, bytes content) except 0:
    return w.string(PyBytes_AS_STRING(content), len(content))


cdef int64_t add_integers(TableWriter w, object values, int64_t width) except 0:
    """Write a vector of integers of 4 or 8 bytes."""
    cdef bytes stored = b"".join([int(value).to_bytes(width, "little", signed=True) for value in values])
    return w.vector(PyBytes_AS_STRING(stored), len(values), width, width)


cdef int64_t add_buffers(TableWriter w, object pairs) except 0:
    """Write a vector of Buffer structs, from pairs (offset, length)."""
    cdef bytes stored = b"".join([int(each).to_bytes(8, "little", signed=True) for pair in pairs for each in pair])
    return w.vector(PyBytes_AS_STRING(stored), len(pairs), 16, 8)
