"""The classes of types, fields and schemas, and a factory function for each.

The factories have pyarrow's names and parameters. Where a factory takes a type, it also takes the name of a type
(``"int32"``, ``"timestamp[us]"``); where it takes the type of a child, it also takes a :class:`Field`.

Examples
--------
>>> from arrowipc.types import field, int64, list_, schema, string
>>> schema([("id", int64()), field("tags", list_(string()), nullable=False)])
id: int64
tags: list<item: string> not null
  child 0, item: string
"""

from __future__ import annotations

from _collections_abc import Mapping  # see arguments.py

from arrowipc.arguments import by_name, described, items_of, missing
from arrowipc.datatypes import (
    PLAIN_TYPES,
    Binary,
    BinaryView,
    Bool,
    DataType,
    Date,
    Decimal,
    Dictionary,
    Duration,
    Field,
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
    own,
)
from arrowipc.errors import UsageError
from arrowipc.options import with_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterable, Iterator, Sequence
    from typing import Any, Literal, Protocol, TypeAlias, TypeVar

    from arrowipc.arguments import MetadataLike
    from arrowipc.intervals import DayTime, MonthDayNano
    from arrowipc.schemas import Schema
    from arrowipc.type_numbers import TimeUnit

    T = TypeVar("T")

    class ArrowSchema(Protocol):
        """A type, field or schema, of ours or of another library."""

        def __arrow_c_schema__(self) -> object: ...

    TypeLike: TypeAlias = "ArrowSchema | str"
    FieldLike: TypeAlias = "ArrowSchema | str"
    # Not any iterable: a mapping is one too, and type checkers would then infer plain objects for the types in a dict.
    Pairs: TypeAlias = "Sequence[ArrowSchema | tuple[str, TypeLike]] | Iterator[ArrowSchema | tuple[str, TypeLike]]"
    FieldsLike: TypeAlias = "Pairs | Schema | ItemsView[str, TypeLike] | Mapping[str, TypeLike]"

__all__ = [
    "Binary",
    "BinaryView",
    "Bool",
    "DataType",
    "Date",
    "DayTime",
    "Decimal",
    "Dictionary",
    "Duration",
    "Field",
    "FixedSizeBinary",
    "FixedSizeList",
    "FloatingPoint",
    "Int",
    "Interval",
    "LargeBinary",
    "LargeList",
    "LargeListView",
    "LargeUtf8",
    "List",
    "ListView",
    "Map",
    "MonthDayNano",
    "Null",
    "RunEndEncoded",
    "Struct",
    "Time",
    "Timestamp",
    "Union",
    "Utf8",
    "Utf8View",
    "binary",
    "binary_view",
    "bool_",
    "date32",
    "date64",
    "decimal32",
    "decimal64",
    "decimal128",
    "decimal256",
    "dense_union",
    "dictionary",
    "duration",
    "field",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "interval_day_time",
    "interval_year_month",
    "is_binary",
    "is_binary_view",
    "is_boolean",
    "is_date",
    "is_date32",
    "is_date64",
    "is_decimal",
    "is_decimal32",
    "is_decimal64",
    "is_decimal128",
    "is_decimal256",
    "is_dictionary",
    "is_duration",
    "is_fixed_size_binary",
    "is_fixed_size_list",
    "is_float16",
    "is_float32",
    "is_float64",
    "is_floating",
    "is_int8",
    "is_int16",
    "is_int32",
    "is_int64",
    "is_integer",
    "is_interval",
    "is_large_binary",
    "is_large_list",
    "is_large_list_view",
    "is_large_string",
    "is_list",
    "is_list_view",
    "is_map",
    "is_nested",
    "is_null",
    "is_run_end_encoded",
    "is_signed_integer",
    "is_string",
    "is_string_view",
    "is_struct",
    "is_temporal",
    "is_time",
    "is_time32",
    "is_time64",
    "is_timestamp",
    "is_uint8",
    "is_uint16",
    "is_uint32",
    "is_uint64",
    "is_union",
    "is_unsigned_integer",
    "large_binary",
    "large_list",
    "large_list_view",
    "large_string",
    "large_utf8",
    "list_",
    "list_view",
    "map_",
    "month_day_nano_interval",
    "null",
    "run_end_encoded",
    "schema",
    "sparse_union",
    "string",
    "string_view",
    "struct",
    "time32",
    "time64",
    "timestamp",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "union",
    "utf8",
    "utf8_view",
]


#: Names of extension types -> how to make a field of each: here they are metadata of fields, not types.
_EXTENSIONS = {
    "json_": 'field(name, string(), metadata={"ARROW:extension:name": "arrow.json"})',
    "opaque": 'field(name, type, metadata={"ARROW:extension:name": "arrow.opaque", ...})',
    "uuid": 'field(name, binary(16), metadata={"ARROW:extension:name": "arrow.uuid"}); columns of uuid.UUID get it',
    "bool8": 'field(name, int8(), metadata={"ARROW:extension:name": "arrow.bool8"})',
    "fixed_shape_tensor": "arrowipc.fixed_shape_tensor(name, type, shape)",
}

if not TYPE_CHECKING:  # with it, type checkers would accept any name

    def __getattr__(name):
        if name == "__path__":  # each `from arrowipc.types import` in a function asks for it first
            raise AttributeError(name)
        if name not in ("DayTime", "MonthDayNano"):
            import sys

            raise missing(f"module {__name__!r}", name, sys.modules[__name__], factories(name))
        from arrowipc import intervals  # not at the top, because importing `collections` takes 1.5 ms

        return getattr(intervals, name)


def factories(name: str) -> dict[str, str]:
    """Return names of types in other libraries, Python and SQL -> the function that makes each; also `name` itself."""
    others = {each[:-1]: each for each in __all__ if each.endswith("_")}
    if (lower := name.lower().removesuffix("type")) in __all__:  # polars' and Spark's classes
        others[name] = lower
    others.update({name: _SHORT[lower]} if lower in _SHORT else {})
    return {**_EXTENSIONS, **{word: f"{each}(...)" for word, each in {**_SHORT, **others}.items()}}


def _shared(name: str, made: T, about: str) -> Callable[[], T]:
    """Return a factory function that always returns `made`, a type without parameters."""

    def make() -> T:
        return made

    make.__name__ = make.__qualname__ = name
    make.__doc__, make.__annotations__ = about, {"return": type(made).__name__}
    return make


null: Callable[[], Null] = _shared("null", Null(), "Type of columns that are null throughout.")
bool_: Callable[[], Bool] = _shared("bool_", Bool(), "Booleans, one bit each.")
int8: Callable[[], Int] = _shared("int8", Int(8, True), "Signed integers of 8 bits.")
int16: Callable[[], Int] = _shared("int16", Int(16, True), "Signed integers of 16 bits.")
int32: Callable[[], Int] = _shared("int32", Int(32, True), "Signed integers of 32 bits.")
int64: Callable[[], Int] = _shared("int64", Int(64, True), "Signed integers of 64 bits.")
uint8: Callable[[], Int] = _shared("uint8", Int(8, False), "Unsigned integers of 8 bits.")
uint16: Callable[[], Int] = _shared("uint16", Int(16, False), "Unsigned integers of 16 bits.")
uint32: Callable[[], Int] = _shared("uint32", Int(32, False), "Unsigned integers of 32 bits.")
uint64: Callable[[], Int] = _shared("uint64", Int(64, False), "Unsigned integers of 64 bits.")
_HALF, _SINGLE, _DOUBLE = FloatingPoint("half"), FloatingPoint("single"), FloatingPoint("double")
float16: Callable[[], FloatingPoint] = _shared("float16", _HALF, "Half-precision floating-point numbers.")
float32: Callable[[], FloatingPoint] = _shared("float32", _SINGLE, "Single-precision floating-point numbers.")
float64: Callable[[], FloatingPoint] = _shared("float64", _DOUBLE, "Double-precision floating-point numbers.")
utf8: Callable[[], Utf8] = _shared("utf8", Utf8(), "Text with 32-bit offsets.")
string = utf8
large_utf8: Callable[[], LargeUtf8] = _shared("large_utf8", LargeUtf8(), "Text with 64-bit offsets.")
large_string = large_utf8
utf8_view: Callable[[], Utf8View] = _shared("utf8_view", Utf8View(), "Text as 16-byte views.")
string_view = utf8_view
_BINARY = Binary()
large_binary: Callable[[], LargeBinary] = _shared("large_binary", LargeBinary(), "Bytes with 64-bit offsets.")
binary_view: Callable[[], BinaryView] = _shared("binary_view", BinaryView(), "Bytes as 16-byte views.")
date32: Callable[[], Date] = _shared("date32", Date("day"), "Days since 1970-01-01, 32 bits.")
date64: Callable[[], Date] = _shared(
    "date64", Date("ms"), "Milliseconds since 1970-01-01 that make whole days, 64 bits."
)
interval_year_month: Callable[[], Interval] = _shared(
    "interval_year_month", Interval("year_month"), "Spans in months, 32 bits."
)
interval_day_time: Callable[[], Interval] = _shared(
    "interval_day_time", Interval("day_time"), "Spans in days and milliseconds, 32 bits each."
)
month_day_nano_interval: Callable[[], Interval] = _shared(
    "month_day_nano_interval", Interval("month_day_nano"), "Spans in months, days and nanoseconds, 128 bits together."
)


def binary(length: int = -1) -> Binary | FixedSizeBinary:
    """Bytes of any length with 32-bit offsets, or values of exactly `length` bytes if that is 0 or more."""
    return _BINARY if length == -1 else FixedSizeBinary(length)


@with_advice
def decimal32(precision: int, scale: int = 0) -> Decimal:
    """Decimals of 1 to 9 digits in 32 bits, `scale` of them after the point."""
    return Decimal(precision, scale, 32)


@with_advice
def decimal64(precision: int, scale: int = 0) -> Decimal:
    """Decimals of 1 to 18 digits in 64 bits, `scale` of them after the point."""
    return Decimal(precision, scale, 64)


@with_advice
def decimal128(precision: int, scale: int = 0) -> Decimal:
    """Decimals of 1 to 38 digits in 128 bits, `scale` of them after the point."""
    return Decimal(precision, scale, 128)


@with_advice
def decimal256(precision: int, scale: int = 0) -> Decimal:
    """Decimals of 1 to 76 digits in 256 bits, `scale` of them after the point."""
    return Decimal(precision, scale, 256)


@with_advice
def time32(unit: Literal["s", "ms"]) -> Time:
    """Time of day in seconds (``"s"``) or milliseconds (``"ms"``), 32 bits."""
    return Time(unit, 32)


@with_advice
def time64(unit: Literal["us", "ns"]) -> Time:
    """Time of day in microseconds (``"us"``) or nanoseconds (``"ns"``), 64 bits."""
    return Time(unit, 64)


@with_advice
def timestamp(unit: TimeUnit, tz: str | None = None) -> Timestamp:
    """Moments counted in `unit` since 1970-01-01: instants if `tz` names a zone, else wall-clock times."""
    return Timestamp(unit, tz)


def duration(unit: TimeUnit) -> Duration:
    """Differences between moments, counted in `unit`."""
    return Duration(unit)


@with_advice
def list_(value_type: FieldLike, list_size: int = -1) -> List | FixedSizeList:
    """Make lists of any length, or of exactly `list_size` elements if that is 0 or more.

    Parameters
    ----------
    value_type : DataType, Field or str
        Type of the elements. It becomes a nullable field named ``item``, unless it is a field.
    list_size : int, default -1

    Examples
    --------
    >>> from arrowipc.types import float32, list_
    >>> list_(float32(), 3)
    DataType(fixed_size_list<item: float>[3])
    """
    child = _as_field(value_type, "item")
    return List(child) if list_size == -1 else FixedSizeList(child, list_size)


@with_advice
def large_list(value_type: FieldLike) -> LargeList:
    """Make lists with 64-bit offsets; `value_type` may be a field, to name the elements."""
    return LargeList(_as_field(value_type, "item"))


@with_advice
def list_view(value_type: FieldLike) -> ListView:
    """Make lists given by 32-bit offsets and sizes; `value_type` may be a field, to name the elements."""
    return ListView(_as_field(value_type, "item"))


@with_advice
def large_list_view(value_type: FieldLike) -> LargeListView:
    """Make lists given by 64-bit offsets and sizes; `value_type` may be a field, to name the elements."""
    return LargeListView(_as_field(value_type, "item"))


@with_advice
def struct(fields: FieldsLike) -> Struct:
    """Make structs of `fields`: fields, (name, type) pairs, or a mapping of names to types."""
    return Struct(as_fields(fields))


@with_advice
def map_(key_type: FieldLike, item_type: FieldLike, keys_sorted: bool = False) -> Map:
    """Make maps from keys to items.

    Parameters
    ----------
    key_type : DataType, Field or str
        A type becomes the field ``key``, which is never null.
    item_type : DataType, Field or str
        A type becomes the nullable field ``value``.
    keys_sorted : bool, default False
    """
    key, item = _as_field(key_type, "key", nullable=False), _as_field(item_type, "value")
    return Map(Field("entries", Struct((key, item)), nullable=False), keys_sorted)


@with_advice
def sparse_union(child_fields: FieldsLike, type_codes: Iterable[int] | None = None) -> Union:
    """Make unions whose children are all as long as the union; codes default to 0, 1, 2, ..."""
    return Union("sparse", as_fields(child_fields), type_codes)


@with_advice
def dense_union(child_fields: FieldsLike, type_codes: Iterable[int] | None = None) -> Union:
    """Make unions whose children hold only their own values; codes default to 0, 1, 2, ..."""
    return Union("dense", as_fields(child_fields), type_codes)


def union(
    child_fields: FieldsLike, mode: Literal["sparse", "dense"] | int, type_codes: Iterable[int] | None = None
) -> Union:
    """Make unions as :func:`sparse_union` or :func:`dense_union` does.

    Parameters
    ----------
    child_fields : iterable of Field or (name, type) pairs, or mapping of names to types
    mode : {"sparse", "dense"}
        0 and 1, pyarrow's constants ``UnionMode_SPARSE`` and ``UnionMode_DENSE``, mean the same.
    type_codes : iterable of int, optional
        Default: 0, 1, 2, ...
    """
    if type(mode) is int and mode in (0, 1):
        mode = "dense" if mode else "sparse"
    return Union(mode, as_fields(child_fields), type_codes)  # type: ignore[arg-type]  # it refuses other integers


@with_advice
def run_end_encoded(run_end_type: FieldLike, value_type: FieldLike) -> RunEndEncoded:
    """Encode runs of equal values.

    Parameters
    ----------
    run_end_type : DataType, Field or str
        int16, int32 or int64.
    value_type : DataType, Field or str
    """
    return RunEndEncoded(_as_field(run_end_type, "run_ends", nullable=False), _as_field(value_type, "values"))


@with_advice
def dictionary(index_type: TypeLike, value_type: TypeLike, ordered: bool = False) -> Dictionary:
    """Make a type of `index_type` indices into `value_type` values; `ordered` says that their order has a meaning."""
    index = as_type(index_type)
    if not isinstance(index, Int):
        raise UsageError(f"dictionary: index_type must be an integer type, found {index}")
    return Dictionary(index, as_type(value_type), ordered)


def field(
    name: str | ArrowSchema, type: TypeLike | None = None, nullable: bool | None = None, metadata: MetadataLike = None
) -> Field:
    """Make a :class:`Field`, a named and typed column or child.

    Parameters
    ----------
    name : str, or a field
        A field, also one of another library, has a type.
    type : DataType or its name
        It may be a type of another library.
    nullable : bool, optional
        Default: True, or what the given field says.
    metadata : mapping or pairs of str or bytes, optional
        Default: none, or that of the given field.
    """
    if type is None and isinstance(found := own(name, Field), Field):
        found = found if nullable is None else found.with_nullable(nullable)
        return found if metadata is None else found.with_metadata(metadata)
    return Field(name, type, nullable is None or nullable, metadata)  # type: ignore[arg-type]  # it refuses other names


# -- functions that recognize types --------------------------------------------------------------------------


def _is(name: str, words: str) -> Callable[[TypeLike], bool]:
    """Return a function that tells whether a type, or its name, has one of these first words."""
    known = words.split()

    def test(type: TypeLike) -> bool:
        return as_type(type).word in known

    test.__name__ = test.__qualname__ = name
    test.__doc__ = f"Whether a type, also one of another library, is {' or '.join(known)}."
    return test


is_null: Callable[[TypeLike], bool] = _is("is_null", "null")
is_boolean: Callable[[TypeLike], bool] = _is("is_boolean", "bool")
is_int8: Callable[[TypeLike], bool] = _is("is_int8", "int8")
is_int16: Callable[[TypeLike], bool] = _is("is_int16", "int16")
is_int32: Callable[[TypeLike], bool] = _is("is_int32", "int32")
is_int64: Callable[[TypeLike], bool] = _is("is_int64", "int64")
is_uint8: Callable[[TypeLike], bool] = _is("is_uint8", "uint8")
is_uint16: Callable[[TypeLike], bool] = _is("is_uint16", "uint16")
is_uint32: Callable[[TypeLike], bool] = _is("is_uint32", "uint32")
is_uint64: Callable[[TypeLike], bool] = _is("is_uint64", "uint64")
is_signed_integer: Callable[[TypeLike], bool] = _is("is_signed_integer", "int8 int16 int32 int64")
is_unsigned_integer: Callable[[TypeLike], bool] = _is("is_unsigned_integer", "uint8 uint16 uint32 uint64")
is_integer: Callable[[TypeLike], bool] = _is("is_integer", "int8 int16 int32 int64 uint8 uint16 uint32 uint64")
is_float16: Callable[[TypeLike], bool] = _is("is_float16", "halffloat")
is_float32: Callable[[TypeLike], bool] = _is("is_float32", "float")
is_float64: Callable[[TypeLike], bool] = _is("is_float64", "double")
is_floating: Callable[[TypeLike], bool] = _is("is_floating", "halffloat float double")
is_decimal32: Callable[[TypeLike], bool] = _is("is_decimal32", "decimal32")
is_decimal64: Callable[[TypeLike], bool] = _is("is_decimal64", "decimal64")
is_decimal128: Callable[[TypeLike], bool] = _is("is_decimal128", "decimal128")
is_decimal256: Callable[[TypeLike], bool] = _is("is_decimal256", "decimal256")
is_decimal: Callable[[TypeLike], bool] = _is("is_decimal", "decimal32 decimal64 decimal128 decimal256")
is_date32: Callable[[TypeLike], bool] = _is("is_date32", "date32")
is_date64: Callable[[TypeLike], bool] = _is("is_date64", "date64")
is_date: Callable[[TypeLike], bool] = _is("is_date", "date32 date64")
is_time32: Callable[[TypeLike], bool] = _is("is_time32", "time32")
is_time64: Callable[[TypeLike], bool] = _is("is_time64", "time64")
is_time: Callable[[TypeLike], bool] = _is("is_time", "time32 time64")
is_timestamp: Callable[[TypeLike], bool] = _is("is_timestamp", "timestamp")
is_duration: Callable[[TypeLike], bool] = _is("is_duration", "duration")
_INTERVALS = "month_interval day_time_interval month_day_nano_interval"
is_interval: Callable[[TypeLike], bool] = _is("is_interval", _INTERVALS)
is_temporal: Callable[[TypeLike], bool] = _is(
    "is_temporal", f"date32 date64 time32 time64 timestamp duration {_INTERVALS}"
)
is_string: Callable[[TypeLike], bool] = _is("is_string", "string")
is_large_string: Callable[[TypeLike], bool] = _is("is_large_string", "large_string")
is_string_view: Callable[[TypeLike], bool] = _is("is_string_view", "string_view")
is_binary: Callable[[TypeLike], bool] = _is("is_binary", "binary")
is_large_binary: Callable[[TypeLike], bool] = _is("is_large_binary", "large_binary")
is_binary_view: Callable[[TypeLike], bool] = _is("is_binary_view", "binary_view")
is_fixed_size_binary: Callable[[TypeLike], bool] = _is("is_fixed_size_binary", "fixed_size_binary")
is_list: Callable[[TypeLike], bool] = _is("is_list", "list")
is_large_list: Callable[[TypeLike], bool] = _is("is_large_list", "large_list")
is_list_view: Callable[[TypeLike], bool] = _is("is_list_view", "list_view")
is_large_list_view: Callable[[TypeLike], bool] = _is("is_large_list_view", "large_list_view")
is_fixed_size_list: Callable[[TypeLike], bool] = _is("is_fixed_size_list", "fixed_size_list")
is_struct: Callable[[TypeLike], bool] = _is("is_struct", "struct")
is_map: Callable[[TypeLike], bool] = _is("is_map", "map")
is_dictionary: Callable[[TypeLike], bool] = _is("is_dictionary", "dictionary")
is_run_end_encoded: Callable[[TypeLike], bool] = _is("is_run_end_encoded", "run_end_encoded")
is_union: Callable[[TypeLike], bool] = _is("is_union", "sparse_union dense_union")
is_nested: Callable[[TypeLike], bool] = _is(
    "is_nested",
    "list large_list list_view large_list_view fixed_size_list struct map sparse_union dense_union run_end_encoded",
)


def schema(
    fields: FieldsLike, metadata: MetadataLike = None, endianness: Literal["little", "big"] = "little"
) -> Schema:
    """Make a :class:`arrowipc.schemas.Schema`, the columns of a batch.

    Parameters
    ----------
    fields : iterable of Field or (name, type) pairs, mapping of names to types, or schema
        A schema, also of another library, keeps its metadata if no other metadata is given.
    metadata : mapping or pairs of str or bytes, optional
    endianness : {"little", "big"}
        Byte order of the bodies that follow the schema.
    """
    from arrowipc.schemas import Schema

    if hasattr(fields, "__arrow_c_schema__"):
        fields = as_schema(fields)
        metadata = fields.metadata if metadata is None else metadata
    return Schema(as_fields(fields), metadata, endianness)


#: Printed forms and usual short names -> types without children and free parameters; filled when first used.
_ALIASES: dict[str, DataType] = {}


def _type_names() -> dict[str, DataType]:
    names = {str(made): made for made in PLAIN_TYPES}
    names.update(boolean=bool_(), float16=_HALF, float32=_SINGLE, float64=_DOUBLE, date32=date32(), date64=date64())
    names.update(str=utf8(), utf8=utf8(), large_str=large_utf8(), large_utf8=large_utf8(), utf8_view=utf8_view())
    # The names of NumPy, which pyarrow takes too.
    names.update({f"{kind}{width // 8}": Int(width, kind == "i") for kind in "iu" for width in (8, 16, 32, 64)})
    names.update(f2=_HALF, f4=_SINGLE, f8=_DOUBLE)
    return names


def as_fields(fields: FieldsLike) -> tuple[Field, ...]:
    """Make fields from fields, (name, type) pairs or a mapping of names to types; else raise a `UsageError`."""
    made = []
    entries: Iterable[Any] = fields.items() if isinstance(fields, Mapping) else items_of("fields", fields)
    for entry in entries:
        entry = own(entry, Field)
        if isinstance(entry, Field):
            made.append(entry)
        elif isinstance(entry, tuple) and len(entry) == 2:
            made.append(field(*entry))
        else:
            raise UsageError(f"expected a Field or a (name, type) pair, found {described(entry)}")
    return tuple(made)


def as_schema(value: Any) -> Schema:
    """Make a schema from a schema, also of another library, or from fields; else raise a `UsageError`."""
    from arrowipc.schemas import Schema

    if isinstance(value, Schema):
        return value
    if hasattr(value, "__arrow_c_schema__"):
        return Schema.from_arrow(value)
    if isinstance(value, (list, tuple, Mapping)):
        return Schema(as_fields(value))
    raise UsageError(f"schema: expected a Schema, or an object with __arrow_c_schema__, found {described(value)}")


def as_type(value: TypeLike) -> DataType:
    """Make a type from a type, also of another library, or from its name; else raise a `UsageError`."""
    if not isinstance(value, str):
        found = own(value, DataType)
        if isinstance(found, DataType):
            return found
        hint = _factory_like(getattr(value, "__name__", "")).partition(";")[
            0
        ]  # a class, or a factory that nobody called
        raise UsageError(f"expected a DataType or its name, found {described(value)}{hint}")
    if not _ALIASES:
        _ALIASES.update(_type_names())
    if value not in _ALIASES:
        raise UsageError(f"no type is named {value!r}{_factory_like(value)}")
    return _ALIASES[value]


def _factory_like(name: str) -> str:
    """Return the end of the error message about a name that is not that of a type: how to make such a type."""
    word = name[: next((i for i, letter in enumerate(name) if not (letter.isalnum() or letter == "_")), None)]
    words = [each for word in (word, word.lower()) for each in (word, f"{word}_", _SHORT.get(word, ""))]
    found = [each for each in words if each in __all__ and each[:1].islower()]
    return f": types.{found[0]}(...) makes it" if found else "; types with parameters need their factory"


#: Factories of types -> words for such types in other libraries, Python and SQL.
_WORDS = {
    **{
        "binary": "bytes fixed_size_binary",
        "date32": "date",
        "decimal128": "decimal",
        "list_": "array fixed_size_list",
    },
    **{"dictionary": "categorical category enum", "struct": "dict", "timestamp": "datetime", "time64": "time"},
    **{"int8": "byte tinyint", "int16": "short smallint", "int64": "bigint int integer long", "null": "none void"},
    **{"float64": "double float", "month_day_nano_interval": "interval", "string": "str text varchar"},
}
_SHORT = by_name(_WORDS)


def _as_field(value: FieldLike, name: str, nullable: bool = True) -> Field:
    found = own(value, Field)
    if isinstance(found, Field) and (found is value or found.name):
        return found
    return field(name, value, nullable)
