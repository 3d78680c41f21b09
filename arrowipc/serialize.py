"""Writes a schema as a FlatBuffers table, and metadata as an encapsulated message.

This is the cold side of writing: once per schema, through :class:`flatbuffers.Builder`, which is imported on
first use. The metadata of batches is written elsewhere, in C, unless their buffers come from elsewhere too.
"""

from __future__ import annotations

from arrowipc._datatypes import (
    Binary,
    BinaryView,
    Bool,
    DataType,
    Date,
    Decimal,
    Dictionary,
    Duration,
    FixedSizeBinary,
    FixedSizeList,
    FloatingPoint,
    Int,
    Interval,
    LargeBinary,
    LargeList,
    LargeListView,
    LargeUtf8,
    List,
    ListView,
    Map,
    Null,
    RunEndEncoded,
    Struct,
    Time,
    Timestamp,
    Union,
    Utf8,
    Utf8View,
)
from arrowipc._enums import (
    DateUnit,
    Endianness,
    IntervalUnit,
    MessageHeader,
    MetadataVersion,
    Precision,
    TimeUnit,
    Type,
    UnionMode,
)
from arrowipc.errors import UsageError
from arrowipc.schema import Field, Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

__all__ = [
    "add_buffers",
    "add_integers",
    "add_key_values",
    "add_offsets",
    "add_schema",
    "add_table",
    "add_type",
    "batch_message",
    "encapsulate",
    "footer_table",
    "new_builder",
    "number_dictionaries",
    "renumber_dictionaries",
    "schema_metadata",
]

CONTINUATION = b"\xff\xff\xff\xff"

#: Bytes of a ``Block`` struct, see File.fbs.
BLOCK_SIZE = 24

#: Bytes of a ``Buffer`` struct, see Schema.fbs.
BUFFER_SIZE = 16

#: Table -> its fields in the order of their slots: name, how the builder stores it, default. A union takes
#: two slots, the tag and the value. Tables without fields are left out.
#: A test compares all of it with format/*.fbs.
TABLES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "Footer": (
        ("version", "Int16", 0),
        ("schema", "Offset", 0),
        ("dictionaries", "Offset", 0),
        ("recordBatches", "Offset", 0),
        ("custom_metadata", "Offset", 0),
    ),
    "Message": (
        ("version", "Int16", 0),
        ("header_type", "Uint8", 0),
        ("header", "Offset", 0),
        ("bodyLength", "Int64", 0),
        ("custom_metadata", "Offset", 0),
    ),
    "Schema": (
        ("endianness", "Int16", 0),
        ("fields", "Offset", 0),
        ("custom_metadata", "Offset", 0),
        ("features", "Offset", 0),
    ),
    "Field": (
        ("name", "Offset", 0),
        ("nullable", "Bool", 0),
        ("type_type", "Uint8", 0),
        ("type", "Offset", 0),
        ("dictionary", "Offset", 0),
        ("children", "Offset", 0),
        ("custom_metadata", "Offset", 0),
    ),
    "DictionaryEncoding": (
        ("id", "Int64", 0),
        ("indexType", "Offset", 0),
        ("isOrdered", "Bool", 0),
        ("dictionaryKind", "Int16", 0),
    ),
    "KeyValue": (("key", "Offset", 0), ("value", "Offset", 0)),
    "RecordBatch": (
        ("length", "Int64", 0),
        ("nodes", "Offset", 0),
        ("buffers", "Offset", 0),
        ("compression", "Offset", 0),
        ("variadicBufferCounts", "Offset", 0),
    ),
    "DictionaryBatch": (("id", "Int64", 0), ("data", "Offset", 0), ("isDelta", "Bool", 0)),
    "Int": (("bitWidth", "Int32", 0), ("is_signed", "Bool", 0)),
    "FloatingPoint": (("precision", "Int16", 0),),
    "Decimal": (("precision", "Int32", 0), ("scale", "Int32", 0), ("bitWidth", "Int32", 128)),
    "Date": (("unit", "Int16", 1),),
    "Time": (("unit", "Int16", 1), ("bitWidth", "Int32", 32)),
    "Timestamp": (("unit", "Int16", 0), ("timezone", "Offset", 0)),
    "Duration": (("unit", "Int16", 1),),
    "Interval": (("unit", "Int16", 0),),
    "FixedSizeBinary": (("byteWidth", "Int32", 0),),
    "FixedSizeList": (("listSize", "Int32", 0),),
    "Map": (("keysSorted", "Bool", 0),),
    "Union": (("mode", "Int16", 0), ("typeIds", "Offset", 0)),
    "TensorDim": (("size", "Int64", 0), ("name", "Offset", 0)),
    "Tensor": (
        ("type_type", "Uint8", 0),
        ("type", "Offset", 0),
        ("shape", "Offset", 0),
        ("strides", "Offset", 0),
        ("data", "Buffer", 0),
    ),
    "SparseTensorIndexCOO": (
        ("indicesType", "Offset", 0),
        ("indicesStrides", "Offset", 0),
        ("indicesBuffer", "Buffer", 0),
        ("isCanonical", "Bool", 0),
    ),
    "SparseMatrixIndexCSX": (
        ("compressedAxis", "Int16", 0),
        ("indptrType", "Offset", 0),
        ("indptrBuffer", "Buffer", 0),
        ("indicesType", "Offset", 0),
        ("indicesBuffer", "Buffer", 0),
    ),
    "SparseTensorIndexCSF": (
        ("indptrType", "Offset", 0),
        ("indptrBuffers", "Offset", 0),
        ("indicesType", "Offset", 0),
        ("indicesBuffers", "Offset", 0),
        ("axisOrder", "Offset", 0),
    ),
    "SparseTensor": (
        ("type_type", "Uint8", 0),
        ("type", "Offset", 0),
        ("shape", "Offset", 0),
        ("non_zero_length", "Int64", 0),
        ("sparseIndex_type", "Uint8", 0),
        ("sparseIndex", "Offset", 0),
        ("data", "Buffer", 0),
    ),
}

PRECISIONS = {"half": Precision.HALF, "single": Precision.SINGLE, "double": Precision.DOUBLE}
DATE_UNITS = {"day": DateUnit.DAY, "ms": DateUnit.MILLISECOND}
TIME_UNITS = {
    "s": TimeUnit.SECOND,
    "ms": TimeUnit.MILLISECOND,
    "us": TimeUnit.MICROSECOND,
    "ns": TimeUnit.NANOSECOND,
}
INTERVAL_UNITS = {
    "year_month": IntervalUnit.YEAR_MONTH,
    "day_time": IntervalUnit.DAY_TIME,
    "month_day_nano": IntervalUnit.MONTH_DAY_NANO,
}
UNION_MODES = {"sparse": UnionMode.Sparse, "dense": UnionMode.Dense}

# Types whose table has no fields: the tag says it all.
PLAIN = {
    Null: Type.Null,
    Bool: Type.Bool,
    Utf8: Type.Utf8,
    LargeUtf8: Type.LargeUtf8,
    Utf8View: Type.Utf8View,
    Binary: Type.Binary,
    LargeBinary: Type.LargeBinary,
    BinaryView: Type.BinaryView,
    List: Type.List,
    LargeList: Type.LargeList,
    ListView: Type.ListView,
    LargeListView: Type.LargeListView,
    Struct: Type.Struct_,
    RunEndEncoded: Type.RunEndEncoded,
}


def schema_metadata(
    schema: Schema,
    version: Literal["V4", "V5"] = "V5",
    custom_metadata: tuple[tuple[bytes, bytes], ...] = (),
) -> bytes:
    """Write the metadata of a Schema message: a ``Message`` table without prefix or padding.

    Parameters
    ----------
    schema : Schema
        Dictionaries without an id are numbered as :func:`number_dictionaries` does it.
    version : {"V5", "V4"}
    custom_metadata : pairs of bytes
        Metadata of the message itself, as opposed to the schema's own.

    Raises
    ------
    UsageError
        If two dictionaries of different types share an id.
    """
    builder = new_builder()
    pairs = add_key_values(builder, custom_metadata)
    header = add_schema(builder, schema)
    message = add_table(
        builder,
        "Message",
        version=MetadataVersion[version],
        header_type=MessageHeader.Schema,
        header=header,
        custom_metadata=pairs,
    )
    builder.Finish(message)
    return bytes(builder.Output())


def batch_message(
    length: int,
    nodes: Iterable[tuple[int, int]],
    buffers: Iterable[Any],
    variadic: Iterable[int] = (),
    dictionary: tuple[int, bool] | None = None,
) -> tuple[bytes, bytes]:
    """Put buffers into a RecordBatch message.

    Parameters
    ----------
    length : int
        Rows.
    nodes : iterable of (int, int)
        Length and null count of each field, in pre-order.
    buffers : iterable of bytes-like
        Those of each field, in pre-order.
    variadic : iterable of int
        The number of data buffers of each view column.
    dictionary : (int, bool), optional
        The id of the dictionary whose values these are, and whether they extend it: a DictionaryBatch.

    Returns
    -------
    metadata, body : bytes
        The ``Message`` table without prefix or padding, and what follows it.
    """
    places, body = [], bytearray()
    for buffer in buffers:
        data = memoryview(buffer).cast("B")
        places.append((len(body), len(data)))
        body += data
        body += bytes(-len(body) % 8)
    builder = new_builder(1024 + 32 * len(places))
    kind, counts = MessageHeader.RecordBatch, tuple(variadic)
    header = add_table(
        builder,
        "RecordBatch",
        length=length,
        nodes=add_buffers(builder, nodes),  # both are pairs of integers
        buffers=add_buffers(builder, places),
        variadicBufferCounts=add_integers(builder, "Int64", 8, counts) if counts else None,
    )
    if dictionary is not None:
        kind, (id, delta) = MessageHeader.DictionaryBatch, dictionary
        header = add_table(builder, "DictionaryBatch", id=id, data=header, isDelta=delta)
    builder.Finish(
        add_table(
            builder,
            "Message",
            version=MetadataVersion.V5,
            header_type=kind,
            header=header,
            bodyLength=len(body),
        )
    )
    return bytes(builder.Output()), bytes(body)


def footer_table(
    schema: Schema,
    version: Literal["V4", "V5"],
    dictionaries: bytes | bytearray,
    batches: bytes | bytearray,
    metadata: tuple[tuple[bytes, bytes], ...],
) -> bytes:
    """Write the ``Footer`` table of a file.

    Parameters
    ----------
    schema : Schema
    version : {"V5", "V4"}
        That of the file's messages.
    dictionaries, batches : bytes
        ``Block`` structs of 24 bytes each, one per message.
    metadata : pairs of bytes
        The file's own metadata.
    """
    builder = new_builder(1024 + len(dictionaries) + len(batches))
    pairs = add_key_values(builder, metadata)
    blocks = [_add_structs(builder, structs, BLOCK_SIZE) for structs in (dictionaries, batches)]
    footer = add_table(
        builder,
        "Footer",
        version=MetadataVersion[version],
        schema=add_schema(builder, schema),
        dictionaries=blocks[0],
        recordBatches=blocks[1],
        custom_metadata=pairs,
    )
    builder.Finish(footer)
    return bytes(builder.Output())


def encapsulate(metadata: bytes, alignment: int = 8, legacy: bool = False) -> bytes:
    """Put the prefix in front of `metadata` and zeros behind it.

    Parameters
    ----------
    metadata : bytes
        A finished ``Message`` table.
    alignment : int, default 8
        Prefix, metadata and padding together are a multiple of this.
    legacy : bool, default False
        The prefix from before version 0.15 of the format: 4 bytes of size, without a continuation marker.
    """
    start = 4 if legacy else 8
    size = -(-(start + len(metadata)) // alignment) * alignment - start
    marker = b"" if legacy else CONTINUATION
    return marker + size.to_bytes(4, "little") + metadata + bytes(size - len(metadata))


def number_dictionaries(schema: Schema) -> Schema:
    """Give every dictionary of `schema` an id; returns `schema` itself if they all have one.

    Ids that are there stay. The others are counted from 0 in the order of the fields, outer before inner,
    leaving out the ones that are taken.

    Raises
    ------
    UsageError
        If two dictionaries of different types share an id.
    """
    taken: dict[int, DataType] = {}
    complete = True
    for field in schema.fields:
        for encoding in _dictionaries(field.type):
            if encoding.id is None:
                complete = False
            elif taken.setdefault(encoding.id, encoding.value_type) != encoding.value_type:
                first, second = taken[encoding.id], encoding.value_type
                raise UsageError(f"dictionary id {encoding.id} stands for two types, {first} and {second}")
    if complete:
        return schema
    free = iter([number for number in range(_count_unnumbered(schema) + len(taken)) if number not in taken])

    def number(encoding: Dictionary) -> int:
        return next(free) if encoding.id is None else encoding.id

    return schema.__replace__(fields=[_numbered_field(field, number) for field in schema.fields])


def renumber_dictionaries(schema: Schema) -> Schema:
    """Give the dictionaries of `schema` the ids 0, 1, 2, ... in the order of the fields, outer before inner.

    Fields that shared an id share the new one. Some readers keep dictionaries in a list.
    """
    schema = number_dictionaries(schema)
    ids: dict[int | None, int] = {}

    def number(encoding: Dictionary) -> int:
        return ids.setdefault(encoding.id, len(ids))

    return schema.__replace__(fields=[_numbered_field(field, number) for field in schema.fields])


def new_builder(size: int = 1024) -> Any:
    """Make an empty ``flatbuffers.Builder``; the first call imports the package."""
    from flatbuffers import Builder

    return Builder(size)


def add_table(builder: Any, table: str, /, **values: Any) -> int:
    """Add one table; what is None or equal to its default stays absent. Returns its offset.

    A ``Buffer`` is a pair of offset and length.
    """
    fields = TABLES.get(table, ())
    builder.StartObject(len(fields))
    for slot, (name, kind, default) in enumerate(fields):
        value = values.get(name)
        if value is None:
            continue
        if kind == "Offset":
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        elif kind == "Buffer":
            offset, length = value
            builder.Prep(8, BUFFER_SIZE)
            builder.PrependInt64(length)
            builder.PrependInt64(offset)
            builder.PrependStructSlot(slot, builder.Offset(), 0)  # structs lie inside their table
        else:
            getattr(builder, f"Prepend{kind}Slot")(slot, value, default)
    return int(builder.EndObject())


def add_schema(builder: Any, schema: Schema) -> int:
    """Add a ``Schema`` table and everything below it; returns its offset."""
    schema = number_dictionaries(schema)
    fields = add_offsets(builder, [_add_field(builder, field) for field in schema.fields])
    pairs = add_key_values(builder, schema.metadata)
    features = add_integers(builder, "Int64", 8, schema.features) if schema.features else None
    return add_table(
        builder,
        "Schema",
        endianness=Endianness.Big if schema.endianness == "big" else Endianness.Little,
        fields=fields,
        custom_metadata=pairs,
        features=features,
    )


def add_key_values(builder: Any, pairs: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Add a vector of ``KeyValue`` tables; returns its offset, or None when there are no pairs.

    Keys and values go in as they are: the format calls them strings, and extension types keep binary there.
    """
    offsets = []
    for key, value in pairs:
        stored = builder.CreateString(key), builder.CreateString(value)
        offsets.append(add_table(builder, "KeyValue", key=stored[0], value=stored[1]))
    return add_offsets(builder, offsets) if offsets else None


def add_type(builder: Any, type_: DataType) -> tuple[Type, int]:
    """Add the table of a logical type; returns its tag in the ``Type`` union and its offset.

    Children are fields, which the caller adds; a dictionary has no table, its value type does.
    """
    plain = PLAIN.get(type(type_))
    if plain is not None:
        return plain, add_table(builder, plain.name)
    tag, values = _parameters(builder, type_)
    return tag, add_table(builder, tag.name, **values)


def _parameters(builder: Any, type_: DataType) -> tuple[Type, dict[str, Any]]:
    """Return the tag and the table fields of a type that has parameters."""
    match type_:
        case Int(width, signed):
            return Type.Int, {"bitWidth": width, "is_signed": signed}
        case FloatingPoint(precision):
            return Type.FloatingPoint, {"precision": PRECISIONS[precision]}
        case Decimal(digits, scale, width):
            return Type.Decimal, {"precision": digits, "scale": scale, "bitWidth": width}
        case Date(unit):
            return Type.Date, {"unit": DATE_UNITS[unit]}
        case Time(unit, width):
            return Type.Time, {"unit": TIME_UNITS[unit], "bitWidth": width}
        case Timestamp(unit, zone):
            stored = None if zone is None else builder.CreateString(zone)
            return Type.Timestamp, {"unit": TIME_UNITS[unit], "timezone": stored}
        case Duration(unit):
            return Type.Duration, {"unit": TIME_UNITS[unit]}
        case Interval(unit):
            return Type.Interval, {"unit": INTERVAL_UNITS[unit]}
        case FixedSizeBinary(width):
            return Type.FixedSizeBinary, {"byteWidth": width}
        case FixedSizeList(_, size):
            return Type.FixedSizeList, {"listSize": size}
        case Map(_, keys_sorted):
            return Type.Map, {"keysSorted": keys_sorted}
        case Union(mode, _, codes):
            return Type.Union, {
                "mode": UNION_MODES[mode],
                "typeIds": add_integers(builder, "Int32", 4, codes),
            }
    raise UsageError(f"expected a type that has a table of its own, found {type_}")


def _add_field(builder: Any, field: Field) -> int:
    """Add a ``Field`` table and everything below it.

    A dictionary-encoded field carries the type and the children of its values, with the encoding beside them.
    """
    type_, encoding = field.type, None
    if isinstance(type_, Dictionary):
        # Written even where it is int32, the default: some readers cannot do without.
        index = add_type(builder, type_.index_type)[1]
        encoding = add_table(
            builder, "DictionaryEncoding", id=type_.id, indexType=index, isOrdered=type_.ordered
        )
        type_ = type_.value_type
    # Written even where it is empty, for the same reason.
    children = add_offsets(builder, [_add_field(builder, child) for child in type_.children])
    tag, stored = add_type(builder, type_)
    name = builder.CreateString(field.name)
    return add_table(
        builder,
        "Field",
        name=name,
        nullable=field.nullable,
        type_type=tag,
        type=stored,
        dictionary=encoding,
        children=children,
        custom_metadata=add_key_values(builder, field.metadata),
    )


def add_offsets(builder: Any, offsets: list[int]) -> int:
    """Add a vector of tables that are in the buffer already."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _add_structs(builder: Any, structs: bytes | bytearray, size: int) -> int:
    """Add a vector of structs of `size` bytes each, 8-byte aligned, that are laid out already."""
    builder.StartVector(size, len(structs) // size, 8)
    builder.head = builder.Head() - len(structs)
    builder.Bytes[builder.head : builder.head + len(structs)] = structs
    return int(builder.EndVector())


def add_buffers(builder: Any, buffers: Iterable[tuple[int, int]]) -> int:
    """Add a vector of ``Buffer`` structs, each given as offset and length."""
    structs = b"".join([part.to_bytes(8, "little") for buffer in buffers for part in buffer])
    return _add_structs(builder, structs, BUFFER_SIZE)


def add_integers(builder: Any, kind: str, width: int, values: Iterable[int]) -> int:
    """Add a vector of integers of `width` bytes, `kind` such as ``Int64``."""
    values = tuple(values)
    builder.StartVector(width, len(values), width)
    prepend = getattr(builder, f"Prepend{kind}")
    for value in reversed(values):
        prepend(value)
    return int(builder.EndVector())


def _dictionaries(type_: DataType) -> Iterator[Dictionary]:
    """Walk the dictionaries within a type, itself included, outer before inner."""
    if isinstance(type_, Dictionary):
        yield type_
        type_ = type_.value_type
    for child in type_.children:
        yield from _dictionaries(child.type)


def _count_unnumbered(schema: Schema) -> int:
    return sum(each.id is None for field in schema.fields for each in _dictionaries(field.type))


def _numbered_field(field: Field, number: Callable[[Dictionary], int]) -> Field:
    type_ = _numbered(field.type, number)
    return field if type_ is field.type else field.__replace__(type=type_)


def _numbered(type_: DataType, number: Callable[[Dictionary], int]) -> DataType:
    """`type_` with the ids that `number` gives its dictionaries; the same object if none is a new one."""
    if isinstance(type_, Dictionary):
        id = number(type_)
        values = _numbered(type_.value_type, number)
        if id == type_.id and values is type_.value_type:
            return type_
        return type_.__replace__(id=id, value_type=values)
    children = type_.children
    numbered = tuple([_numbered_field(child, number) for child in children])
    if all(new is old for new, old in zip(numbered, children, strict=True)):
        return type_
    if isinstance(type_, (Struct, Union)):
        return type_.__replace__(fields=numbered)
    if isinstance(type_, Map):
        return type_.__replace__(entries=numbered[0])
    if isinstance(type_, RunEndEncoded):
        return type_.__replace__(values=numbered[1])
    return type_.__replace__(value_field=numbered[0])
