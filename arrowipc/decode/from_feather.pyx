"""The columns of a Feather V1 file as a record batch: the format that had the name Feather before Arrow IPC files.

Such a file is ``FEA1``, the columns, a FlatBuffer that describes them (CTable), its size as a uint32, and ``FEA1``.
The bytes of a column (PrimitiveArray) lie together: a bitmap if there are nulls, offsets if the type has them, values.
Each part is padded to a multiple of 8 bytes since version 2. The numbers below are those of Arrow's feather.fbs.
"""

from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Source
from arrowipc.inline.flatbuf cimport (
    Table, Vector, fb_i32, fb_i64, fb_root, fb_string, fb_table, fb_u8, fb_vector, fb_vector_table,
)

from arrowipc import types
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UnsupportedError, named_column
from arrowipc.schemas import Schema

cdef enum:
    CTable_num_rows = 6
    CTable_columns = 8
    CTable_version = 10
    Column_name = 4
    Column_values = 6
    Column_metadata_type = 8
    Column_metadata = 10
    PrimitiveArray_type = 4
    PrimitiveArray_encoding = 6
    PrimitiveArray_offset = 8
    PrimitiveArray_length = 10
    PrimitiveArray_null_count = 12
    PrimitiveArray_total_bytes = 14
    CategoryMetadata_levels = 4
    CategoryMetadata_ordered = 6
    TimestampMetadata_unit = 4      # of TimeMetadata, too
    TimestampMetadata_timezone = 6
    TypeMetadata_Category = 1
    TypeMetadata_Timestamp = 2
    TypeMetadata_Date = 3
    TypeMetadata_Time = 4
    # Bytes before the first column, and of the size and the magic behind the FlatBuffer.
    HEAD_SIZE = 8
    TAIL_SIZE = 8
    # A column takes more bytes of the FlatBuffer than this, unless columns share their tables.
    COLUMN_SIZE = 32
    PADDED_SINCE = 2

# By PrimitiveArray.type. Its numbers 13 to 16 were never written: TypeMetadata was used instead.
PRIMITIVES = (
    types.bool_(), types.int8(), types.int16(), types.int32(), types.int64(), types.uint8(), types.uint16(),
    types.uint32(), types.uint64(), types.float32(), types.float64(), types.utf8(), types.binary(), None, None, None,
    None, types.large_utf8(), types.large_binary(),
)
# By TimestampMetadata.unit.
UNITS = "s", "ms", "us", "ns"
TIMES = types.time32("s"), types.time32("ms"), types.time64("us"), types.time64("ns")
# Bytes of an offset, for the types that have offsets.
OFFSETS = {types.utf8(): 4, types.binary(): 4, types.large_utf8(): 8, types.large_binary(): 8}


cdef class FeatherFile:
    """The bytes of a file, and the numbers that all its columns share."""

    cdef Source source
    cdef Table root
    cdef int64_t end        # where the columns end and the FlatBuffer begins
    cdef int32_t version
    cdef object used        # bytes of the columns so far

    cdef bytes text(self, const Table* table, int32_t slot, str what):
        cdef Vector found
        self.check(fb_string(table, slot, &found), what)
        return (<const char*> found.data)[:found.count] if found.data != NULL else b""

    cdef int check(self, int found, str what, bint required=False) except -1:
        """Refuse a part of the FlatBuffer that does not lie inside it."""
        if found < 0:
            raise FormatError(f"Feather V1: {what} does not lie inside the metadata")
        if required and not found:
            raise FormatError(f"Feather V1: the metadata lacks {what}")
        return found

    cdef tuple array(self, const Table* table, object limits):
        """Return the type, node and buffers of a PrimitiveArray."""
        cdef int kind, encoding
        cdef int64_t offset, length, nulls, size, at, stop
        self.check(fb_u8(table, PrimitiveArray_type, 0, &kind), "PrimitiveArray.type")
        self.check(fb_u8(table, PrimitiveArray_encoding, 0, &encoding), "PrimitiveArray.encoding")
        self.check(fb_i64(table, PrimitiveArray_offset, 0, &offset), "PrimitiveArray.offset")
        self.check(fb_i64(table, PrimitiveArray_length, 0, &length), "PrimitiveArray.length")
        self.check(fb_i64(table, PrimitiveArray_null_count, 0, &nulls), "PrimitiveArray.null_count")
        self.check(fb_i64(table, PrimitiveArray_total_bytes, 0, &size), "PrimitiveArray.total_bytes")
        primitive = PRIMITIVES[kind] if kind < len(PRIMITIVES) else None
        if primitive is None or encoding:
            raise UnsupportedError(f"Feather V1: no writer made type {kind} with encoding {encoding}")
        if length < 0 or not 0 <= nulls <= length:
            raise FormatError(f"Feather V1: {nulls} nulls of {length} values")
        if size and (offset < HEAD_SIZE or offset > self.end or not 0 <= size <= self.end - offset):
            raise FormatError(f"Feather V1: bytes {offset}..+{size} lie outside the columns, which end at {self.end}")
        self.used += size
        if self.used > self.end + limits.overlap_bytes:
            raise LimitError(f"the columns add up to {self.used} bytes in a file of {len(self.source)}: they share "
                             "more than Limits.overlap_bytes")
        at = offset if size else 0
        stop = at + size
        wanted, parts = [], [] if nulls else [None]
        if nulls:
            wanted.append((<object> length + 7) // 8)
        if primitive in OFFSETS:
            wanted.append((<object> length + 1) * OFFSETS[primitive])
        for needed in wanted:
            parts.append(self.source.part(at, min(needed, stop - at)))
            at = min(at + (needed if self.version < PADDED_SINCE else -(-needed // 8) * 8), stop)
        return primitive, (length, nulls), [*parts, self.source.part(at, stop - at)]

    cdef tuple column(self, const Table* table, object limits):
        """Return the type, node, buffers and dictionary of a Column."""
        cdef Table values, metadata, levels
        cdef int kind, ordered, unit
        self.check(fb_table(table, Column_values, &values), "Column.values", True)
        type, node, buffers = self.array(&values, limits)
        dictionary = None
        self.check(fb_u8(table, Column_metadata_type, 0, &kind), "Column.metadata_type")
        if kind:
            self.check(fb_table(table, Column_metadata, &metadata), "Column.metadata", True)
        if kind == TypeMetadata_Category:
            self.check(fb_table(&metadata, CategoryMetadata_levels, &levels), "CategoryMetadata.levels", True)
            self.check(fb_u8(&metadata, CategoryMetadata_ordered, 0, &ordered), "CategoryMetadata.ordered")
            of_values, level_node, level_buffers = self.array(&levels, limits)
            dictionary = RecordBatch.from_buffers(
                Schema([types.field("levels", of_values)]), level_node[0], [level_node], level_buffers, limits=limits
            ).column(0)
            type = types.dictionary(type, of_values, bool(ordered))
        elif kind == TypeMetadata_Timestamp or kind == TypeMetadata_Time:
            self.check(fb_u8(&metadata, TimestampMetadata_unit, 0, &unit), "TimestampMetadata.unit")
            if unit >= len(UNITS):
                raise FormatError(f"Feather V1: unknown time unit {unit}")
            if kind == TypeMetadata_Timestamp:
                zone = self.text(&metadata, TimestampMetadata_timezone, "TimestampMetadata.timezone").decode()
                type = self.stored_as(type, types.int64(), types.timestamp(UNITS[unit], zone or None))
            else:
                type = self.stored_as(type, types.int32() if unit < 2 else types.int64(), TIMES[unit])
        elif kind == TypeMetadata_Date:
            type = self.stored_as(type, types.int32(), types.date32())
        elif kind:
            raise UnsupportedError(f"Feather V1: no writer made Column.metadata of type {kind}")
        return type, node, buffers, dictionary

    cdef object stored_as(self, stored, expected, logical):
        """Return the logical type; refuse it unless its values are stored as those of the type `expected`."""
        if stored != expected:
            raise FormatError(f"Feather V1: {logical} is stored as {expected}, found {stored}")
        return logical


def batch_of(data, limits):
    """Return all rows of a Feather V1 file (bytes-like) as one batch, which points into it and is validated."""
    cdef FeatherFile file = FeatherFile.__new__(FeatherFile)
    cdef Table table
    cdef Vector columns
    cdef int64_t i, rows, size
    file.source = Source(data)
    file.used = 0
    size = file.source.size - HEAD_SIZE - TAIL_SIZE
    if size < 0 or file.source.bytes(file.source.size - 4, 4) != b"FEA1":
        raise FormatError("Feather V1: the file does not end with FEA1: it was cut short, or bytes follow it")
    stated = int.from_bytes(file.source.bytes(file.source.size - TAIL_SIZE, 4), "little")
    if stated > size:
        raise FormatError(f"Feather V1: the metadata has {stated} bytes, in a file of {file.source.size}")
    if stated > limits.metadata_bytes:
        raise LimitError(f"the metadata has {stated} bytes, more than Limits.metadata_bytes = {limits.metadata_bytes}")
    file.end = file.source.size - TAIL_SIZE - <int64_t> stated
    file.check(fb_root(file.source.data + file.end, <int64_t> stated, &file.root), "CTable")
    file.check(fb_i64(&file.root, CTable_num_rows, 0, &rows), "CTable.num_rows")
    file.check(fb_i32(&file.root, CTable_version, 0, &file.version), "CTable.version")
    file.check(fb_vector(&file.root, CTable_columns, 4, &columns), "CTable.columns")
    if columns.count > stated // COLUMN_SIZE:
        raise LimitError(f"the file has {columns.count} columns, more than {stated} bytes of metadata can honestly "
                         "hold")
    fields, nodes, buffers, dictionaries = [], [], [], []
    for i in range(columns.count):
        name = ""
        try:
            file.check(fb_vector_table(&file.root, &columns, i, &table), f"Column {i}")
            name = file.text(&table, Column_name, "Column.name").decode()
            kind, node, parts, dictionary = file.column(&table, limits)
        except UnicodeDecodeError as error:
            raise FormatError(f"Feather V1: column {i}: its name or time zone is not UTF-8 ({error.reason})") from None
        except ArrowIpcError as error:
            raise error.__class__(f"{named_column(name)}: {error}") from None
        fields.append(types.field(name, kind))
        nodes.append(node)
        buffers += parts
        if dictionary is not None:
            dictionaries.append(dictionary)
    return RecordBatch.from_buffers(Schema(fields), rows, nodes, buffers, dictionaries=dictionaries, limits=limits)
