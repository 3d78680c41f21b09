"""The Spark type for each Arrow type, and the Arrow type that Spark then expects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import pyarrow as pa
from pyspark.sql import types as st

from arrowipc import types as at
from arrowipc.arguments import check_choice, filled, repeated
from arrowipc.columns.extensions import converter_of
from arrowipc.datatypes import with_children
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.schemas import Field, Schema
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from typing import TypeAlias

ListType: "TypeAlias" = at.List | at.LargeList | at.ListView | at.LargeListView | at.FixedSizeList
Nanoseconds: "TypeAlias" = Literal["error", "truncate", "long"]
Unsupported: "TypeAlias" = Literal["error", "drop", "string"]

MAX_PRECISION = 38
# Spark 4.0 has no TIME; there a time of day becomes a bigint of nanoseconds since midnight.
TIME_TYPE: st.DataType = getattr(st, "TimeType", st.LongType)()

_SIGNED = {8: st.ByteType(), 16: st.ShortType(), 32: st.IntegerType(), 64: st.LongType()}
_UNSIGNED = {8: st.ShortType(), 16: st.IntegerType(), 32: st.LongType(), 64: st.DecimalType(20, 0)}
_FLOATING = {"half": st.FloatType(), "single": st.FloatType(), "double": st.DoubleType()}
# Exact types; Spark's own interval types are not exact (a day is not always 24 hours) or cannot come from Python.
_INTERVALS: dict[str, st.DataType] = {
    "year_month": st.IntegerType(),
    "day_time": st.StructType().add("days", st.IntegerType()).add("milliseconds", st.IntegerType()),
    "month_day_nano": st.StructType()
    .add("months", st.IntegerType())
    .add("days", st.IntegerType())
    .add("nanoseconds", st.LongType()),
}


@dataclass(frozen=True, slots=True)
class TypeOptions:
    """How to treat Arrow values that Spark cannot hold as they are.

    Parameters
    ----------
    nanoseconds : {"error", "truncate", "long"}
        Timestamps, times and durations in nanoseconds; Spark counts microseconds. ``"error"`` converts
        columns whose every value is a whole microsecond and raises on the first that is not,
        ``"truncate"`` takes the microsecond before, ``"long"`` gives a bigint of nanoseconds.
    unsupported : {"error", "drop", "string"}
        Columns whose type has no Spark equivalent (decimals of more than 38 digits): raise, leave the
        column out, or render its values as text.
    extensions : bool, default False
        Whether extension types become Spark types of their meaning: ``arrow.uuid`` a string, ``arrow.bool8`` a boolean,
        ``arrow.timestamp_with_offset`` a timestamp (the offset is lost: Spark has none), ``arrow.parquet.variant``
        a variant, unless it is shredded. Other extension types become their storage types.
    """

    nanoseconds: Nanoseconds = "error"
    unsupported: Unsupported = "error"
    extensions: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.extensions, bool):
            raise UsageError(f"option extensions: expected true or false, found {self.extensions!r}")
        check_choice("option nanoseconds", self.nanoseconds, get_args(Nanoseconds))
        check_choice("option unsupported", self.unsupported, get_args(Unsupported))

    @classmethod
    def of(cls, options: "TypeOptions | Mapping[str, Any] | None") -> "TypeOptions":
        """Return the options as they are, made from a mapping (other keys are ignored), or the defaults for None."""
        if isinstance(options, cls):
            return options
        given = dict(options or {})  # type: ignore[arg-type]
        text = given.get("extensions")
        if isinstance(text, str) and text.lower() in ("true", "false"):  # Spark passes texts
            given["extensions"] = text.lower() == "true"
        return cls(**{name: given[name] for name in cls.__slots__ if name in given})


def to_spark_schema(schema: Any, options: TypeOptions | Mapping[str, Any] | None = None) -> st.StructType:
    """Return the Spark schema for Arrow data.

    Parameters
    ----------
    schema : Schema or object with ``__arrow_c_schema__``
        The Arrow schema; pyarrow's and polars' work too.
    options : TypeOptions or mapping, optional
        See :class:`TypeOptions`.

    Returns
    -------
    pyspark.sql.types.StructType
        A schema in which all is nullable, as with Spark's own file formats. Dictionaries, views and run-end encoding
        become plain types, unsigned integers wider ones, unions a struct with one nullable field per member, and
        intervals their exact parts (months, or a struct of days, milliseconds, ...).

    Raises
    ------
    UnsupportedError
        For a type that Spark cannot hold; the text names the column and the option that helps.
    UsageError
        For a column name that occurs twice.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_spark_schema(pa.schema({"id": pa.uint32(), "tag": pa.dictionary(pa.int8(), pa.string())})).simpleString()
    'struct<id:bigint,tag:string>'
    """
    options = TypeOptions.of(options)
    fields = as_schema(schema)
    _check_unique((field.name for field in fields), "the schema")
    result = st.StructType()
    for field in fields:
        try:
            result.add(field.name, spark_type(meant(field, options).type, options, field.name))
        except UnsupportedError:
            if options.unsupported != "drop":
                raise
    return result


def _check_unique(names: Iterable[str], what: str) -> None:
    """Refuse names that occur twice: Spark finds columns by name."""
    if twice := repeated(names):
        raise UsageError(
            f"{what} holds the name {twice[0]!r} twice, and Spark finds columns by name; "
            "rename one of them where the data is written, or choose others with the option columns"
        )


class Meaning(at.DataType):
    """An extension type whose Spark type is not that of its storage; only used while conversions are planned."""

    __slots__ = ("name", "storage")
    __match_args__ = ("name", "storage")

    name: str
    storage: at.DataType

    def __new__(cls, name: str, storage: at.DataType) -> Self:
        return filled(cls, name, storage)


def meant(field: Field, options: TypeOptions) -> Field:
    """Return the field with extension types replaced by a `Meaning`, if they have one and the options ask for it."""
    if not options.extensions:
        return field
    type_ = changed(field.type, lambda child: meant(child, options))
    name = field.extension_name or ""
    stored = type_.value_type if isinstance(type_, at.Dictionary) else type_
    if name in _MEANINGS and converter_of(Field("", stored, True, field.metadata), True) is not None:
        stored = Meaning(name, stored)
        type_ = at.Dictionary(type_.index_type, stored) if isinstance(type_, at.Dictionary) else stored
    return Field(field.name, type_, field.nullable)


def changed(type_: at.DataType, change: Callable[[Field], Field]) -> at.DataType:
    """Return the type with its child fields changed; the values of a dictionary count as a child without a name."""
    if isinstance(type_, at.Dictionary):
        return at.Dictionary(
            type_.index_type, change(Field("", type_.value_type)).type, type_.ordered, type_.dictionary_id
        )
    return with_children(type_, [change(child) for child in type_.children])


_MEANINGS: dict[str, st.DataType] = {
    "arrow.bool8": st.BooleanType(),
    "arrow.parquet.variant": st.VariantType(),
    "arrow.timestamp_with_offset": st.TimestampType(),
    "arrow.uuid": st.StringType(),
}


def spark_type(type_: at.DataType, options: TypeOptions, path: str) -> st.DataType:
    """Return the Spark type for an Arrow type; ``path`` is the dotted column name for error texts."""
    match type_:
        case Meaning():
            instant = type_.storage.children[0].type if isinstance(_MEANINGS[type_.name], st.TimestampType) else None
            return _MEANINGS[type_.name] if instant is None else spark_type(instant, options, path)
        case at.Dictionary():
            return spark_type(type_.value_type, options, path)
        case at.RunEndEncoded():
            return spark_type(type_.values.type, options, path)
        case at.List() | at.LargeList() | at.ListView() | at.LargeListView() | at.FixedSizeList():
            return st.ArrayType(spark_type(type_.value_field.type, options, f"{path}.element"))
        case at.Struct() | at.Union():
            names = union_names(type_) if isinstance(type_, at.Union) else [field.name for field in type_.fields]
            _check_unique(names, f"column {path!r}")
            result = st.StructType()
            for name, field in zip(names, type_.fields, strict=True):
                result.add(name, spark_type(field.type, options, f"{path}.{name}"))
            return result
        case at.Map():
            key = spark_type(type_.key_field.type, options, f"{path}.key")
            if isinstance(key, st.MapType):
                raise UnsupportedError(f"column {path!r}: Spark has no maps with keys of type {type_.key_field.type}")
            return st.MapType(key, spark_type(type_.item_field.type, options, f"{path}.value"))
        case _:
            found = _leaf_type(type_, options)
    if found is not None:
        return found
    why, help_ = "", ""
    if isinstance(type_, at.Decimal):
        if options.unsupported == "string":
            return st.StringType()
        why = f" (its decimals have at most {MAX_PRECISION} digits)"
        help_ = 'unsupported="string" reads it as text, '
    raise UnsupportedError(
        f"column {path!r} has the Arrow type {type_}, which Spark cannot hold{why}; "
        f'option {help_}unsupported="drop" leaves the column out'
    )


def union_names(type_: at.Union) -> list[str]:
    """Return the names of the struct fields for a union's members: the members' own, or with the type code added."""
    names = [field.name for field in type_.fields]
    return [
        name if name and names.count(name) == 1 else f"{name}_{code}"
        for name, code in zip(names, type_.type_codes, strict=True)
    ]


_LEAVES: dict[type[at.DataType], st.DataType] = {
    at.Null: st.NullType(),
    at.Bool: st.BooleanType(),
    **dict.fromkeys((at.Utf8, at.LargeUtf8, at.Utf8View), st.StringType()),
    **dict.fromkeys((at.Binary, at.LargeBinary, at.BinaryView, at.FixedSizeBinary), st.BinaryType()),
    at.Date: st.DateType(),
    at.Time: TIME_TYPE,
    at.Duration: st.DayTimeIntervalType(),
}


def _leaf_type(type_: at.DataType, options: TypeOptions) -> st.DataType | None:
    match type_:
        case at.Int():
            return (_SIGNED if type_.signed else _UNSIGNED)[type_.bit_width]
        case at.FloatingPoint():
            return _FLOATING[type_.precision]
        case at.Time() | at.Timestamp() | at.Duration() if type_.unit == "ns" and options.nanoseconds == "long":
            return st.LongType()
        case at.Timestamp():
            return st.TimestampNTZType() if type_.timezone is None else st.TimestampType()
        case at.Interval():
            return _INTERVALS[type_.unit]
        case at.Decimal():
            return _decimal(type_)
    return _LEAVES.get(type(type_))


def _decimal(type_: at.Decimal) -> st.DecimalType | None:
    # Spark requires 0 <= scale <= precision <= 38; Arrow has 12E+2 (scale -2) and 0.0012 (scale 4, precision 2).
    scale = max(type_.scale, 0)
    precision = max(type_.precision + scale - type_.scale, scale)
    return st.DecimalType(precision, scale) if precision <= MAX_PRECISION else None


#: The Arrow type that Spark expects for each of its types without parameters.
_ARROW_OF: dict[Any, Any] = {
    st.NullType: pa.null(),
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    **dict.fromkeys((st.StringType, st.CharType, st.VarcharType), pa.string()),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", tz="UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.DayTimeIntervalType: pa.duration("us"),
}
#: Advice for Spark types that Arrow data cannot hold.
_INSTEAD = {
    "YearMonthIntervalType": "pyarrow, through which Spark hands rows to Python, cannot take it; write its "
    "months as a number: extract(YEAR FROM {path}) * 12 + extract(MONTH FROM {path})",
    "CalendarIntervalType": "write its parts as columns",
    "VariantType": "it would be read back as a struct of two binaries; write to_json({path}), and use "
    "parse_json on what is read",
    **dict.fromkeys(("GeometryType", "GeographyType"), "write st_asbinary({path}), and its SRID"),
}
# The Arrow type of Spark's VariantType; variants are only read, not written.
VARIANT: pa.DataType = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
if hasattr(st, "TimeType"):
    _ARROW_OF[st.TimeType] = pa.time64("ns")


def arrow_type_of(type_: st.DataType, path: str, variants: bool = True) -> pa.DataType:
    """Return the Arrow type that Spark expects for a type, also in nullability; refuse variants unless `variants`."""
    if isinstance(type_, st.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, st.ArrayType):
        element = arrow_type_of(type_.elementType, f"{path}.element", variants)
        return pa.list_(pa.field("element", element, type_.containsNull or pa.types.is_null(element)))
    if isinstance(type_, st.MapType):
        key = pa.field("key", arrow_type_of(type_.keyType, f"{path}.key", variants), nullable=False)
        value = arrow_type_of(type_.valueType, f"{path}.value", variants)
        return pa.map_(key, pa.field("value", value, type_.valueContainsNull or pa.types.is_null(value)))
    if isinstance(type_, st.StructType):
        return pa.struct(_arrow_fields(type_, path + ".", variants))
    if variants and isinstance(type_, st.VariantType):
        return VARIANT
    if type(type_) in _ARROW_OF:
        return _ARROW_OF[type(type_)]
    instead = _INSTEAD.get(type(type_).__name__, "cast it, or leave it out").format(path=path)
    raise UsageError(
        f"column {path!r} has the Spark type {type_.simpleString()}, which Arrow data cannot hold here: {instead}"
    )


def arrow_schema_of(schema: st.StructType, variants: bool = True) -> pa.Schema:
    """Return the Arrow schema that Spark expects from Python for ``schema``."""
    return pa.schema(_arrow_fields(schema, "", variants))


def _arrow_fields(type_: st.StructType, prefix: str, variants: bool) -> list[pa.Field]:
    _check_unique(type_.names, f"column {prefix[:-1]!r}" if prefix else "the schema")
    return [
        pa.field(field.name, arrow_type_of(field.dataType, prefix + field.name, variants), field.nullable)
        for field in type_.fields
    ]


def schema_to_read(source: Schema, target: st.StructType, label: str) -> Schema:
    """Return the schema into which payloads are decoded: the columns of ``target``, in the Arrow types of ``source``.

    Columns that ``source`` lacks have the Arrow type that Spark would have written, for payloads that have them.
    """
    names = [field.name for field in source]
    found = [find_name(field.name, names, label, optional=True) for field in target.fields]
    if found and all(index is None for index in found):
        # Raise an error: these are more likely payloads of another kind than payloads without values.
        find_name(target.fields[0].name, names, label)
    return Schema(
        [
            _field_to_read(None if index is None else source[index], field, label, field.name)
            for index, field in zip(found, target.fields, strict=True)
        ]
    )


def _field_to_read(source: Field | None, target: st.StructField, label: str, path: str) -> Field:
    if source is not None:
        type_ = _type_to_read(source.type, target.dataType, label, path)
        return Field(source.name, type_, target.nullable, source.metadata)
    if not target.nullable:
        raise UsageError(f"{label} has no column {path!r}, and the schema says that it is never null")
    return as_schema(pa.schema([pa.field(target.name, arrow_type_of(target.dataType, path))]))[0]


def _type_to_read(source: at.DataType, target: st.DataType, label: str, path: str) -> at.DataType:
    """Return the type with only those children of its structs that ``target`` contains."""
    match source, target:
        case at.Struct(), st.StructType():
            names = [field.name for field in source.fields]
            children = []
            for field in target.fields:
                index = find_name(field.name, names, f"struct column {path!r}", optional=True)
                child = None if index is None else source.fields[index]
                children.append(_field_to_read(child, field, label, f"{path}.{field.name}"))
            return at.Struct(tuple(children))
        case ((at.List() | at.LargeList() | at.ListView() | at.LargeListView() | at.FixedSizeList()), st.ArrayType()):
            type_ = _type_to_read(source.value_field.type, target.elementType, label, f"{path}.element")
            return with_children(source, [Field(source.value_field.name, type_)])
    return source


@overload
def find_name(name: str, names: list[str], label: str) -> int: ...
@overload
def find_name(name: str, names: list[str], label: str, optional: bool) -> int | None: ...
def find_name(name: str, names: list[str], label: str, optional: bool = False) -> int | None:
    """Return the index of a column, see `index_of`; raise if several match or, unless `optional`, none."""
    index = index_of(name, names)
    if index is not None:
        return index
    similar = sum(other.lower() == name.lower() for other in names)
    if similar:
        raise UsageError(f"{label} has {similar} columns named {name!r}; Spark finds columns by name")
    if optional:
        return None
    shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    raise UsageError(f"{label} has no column {name!r}; its columns are {shown or 'none at all'}")


def index_of(name: str, names: Sequence[str]) -> int | None:
    """Return the index of the only equal name, or else of the only one that is equal ignoring case; else None."""
    if names.count(name) == 1:
        return names.index(name)
    similar = [index for index, other in enumerate(names) if other.lower() == name.lower()]
    return similar[0] if len(similar) == 1 else None
