"""The logical types of Arrow as immutable values, and the class for fields.

Every table of Schema.fbs that describes a type is one small class here, with the same name. Parameters are checked when
a type is made, so the format can express every type that exists. The public module is :mod:`arrowipc.types`.

The classes are written by hand: importing :mod:`dataclasses` and making thirty takes longer than ``import arrowipc``.
"""

from __future__ import annotations

from arrowipc.arguments import (
    NO_METADATA,
    Hints,
    Immutable,
    check_choice,
    check_flag,
    check_integer,
    check_text,
    described,
    filled,
    instance_of,
    items_of,
    metadata_of,
)
from arrowipc.errors import ArrowIpcError, UnsupportedError, UsageError, printable
from arrowipc.type_numbers import DECIMAL_DIGITS, NUMBERED, TIME_BITS, WIDTHS, OfSome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Literal, Self, SupportsIndex

    from arrowipc.arguments import KeyValueMetadata, MetadataLike
    from arrowipc.schemas import Schema
    from arrowipc.type_numbers import TimeUnit

#: The most levels of nested types, the innermost included, as in ``Limits.depth``; so functions may recurse on types.
MAX_DEPTH = 64

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

#: The message of readers and importers that refuse a column of such integers.
WIDE_INTEGERS = (
    "integers of 128 bits (Int128 or UInt128 of polars), which the Arrow format does not have: cast them in polars, to "
    "pl.Int64 or pl.Decimal(38, 0)"
)

EXTENSION_NAME = b"ARROW:extension:name"
EXTENSION_METADATA = b"ARROW:extension:metadata"


class Described(Immutable):
    """Base of types, fields and schemas: their export, and their comparison, also with those of other libraries."""

    __slots__ = ()

    def equals(self, other: object, check_metadata: bool = False) -> bool:
        """Whether `other` is equal; it may be another library's, by ``__arrow_c_schema__``.

        Of schemas, fields and byte order are compared; of fields, names, types and nullability. `check_metadata` also
        compares all metadata, and the names that ``==`` ignores.
        """
        check_metadata = check_metadata is not False and check_flag("check_metadata", check_metadata)
        if self is other:
            return True
        try:
            return self._equals(own(other, DataType if isinstance(self, DataType) else type(self)), check_metadata)
        except ArrowIpcError:
            return False  # `other` has a type that we do not have

    def _equals(self, other: object, check_metadata: bool) -> bool:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        known = isinstance(other, (Described, str)) or hasattr(other, "__arrow_c_schema__")
        return self.equals(other) if known else NotImplemented

    def _key(self, exact: bool) -> Any:
        raise NotImplementedError

    def __hash__(self) -> int:
        return hash(self._key(False))

    def to_arrow(self) -> Any:
        """Return the ``pyarrow.DataType``, ``pyarrow.Field`` or ``pyarrow.Schema`` that is the same."""
        from arrowipc.values.libraries import to_arrow

        return to_arrow(self)

    def __arrow_c_schema__(self) -> object:
        """Export as an ``arrow_schema`` PyCapsule."""
        from arrowipc.cdata.export import export_schema

        return export_schema(self)  # type: ignore[arg-type]


def own(value: Any, kind: type[Described]) -> Any:
    """Convert a type, field or schema (`kind`) of another library to ours; return anything else as it is."""
    if isinstance(value, Described) or not hasattr(value, "__arrow_c_schema__"):
        return value
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return value  # an object with rows
    from arrowipc.cdata.import_array import described_from

    found = described_from(value, not issubclass(kind, (DataType, Field)))
    # A type is exported as a field without a name.
    return found.type if issubclass(kind, DataType) and not found.name else found


class DataType(Described, OfSome):
    """Base of all logical types.

    Types are immutable, hashable and compare by value. ``str(type)`` is the name people know from pyarrow,
    such as ``timestamp[us, tz=UTC]``.

    A type equals its name: ``type == "int64"``. ``==`` ignores what has no meaning in the format: metadata of child
    fields, and the names of the children of lists, maps and run-end encodings (``item``, ``element``, ``l``).

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.types.int32() == ipc.types.int64(), ipc.types.int8().equals(ipc.types.int8())
    (False, True)
    """

    __slots__ = ()

    _children: tuple[Field, ...] = ()
    _depth = 1
    #: The text of the type, if it has no parameters, or the beginning of that text.
    _spelling = ""

    @property
    def children(self) -> tuple[Field, ...]:
        """Fields of the child arrays, in order; empty for types without children and for dictionaries."""
        return self._children

    @property
    def num_fields(self) -> int:
        """Number of children."""
        return len(self.children)

    def field(self, i: SupportsIndex | str) -> Field:
        """Return a child by index or name; errors are those of :meth:`arrowipc.Schema.field`."""
        return self._as_schema().field(i)

    def get_field_index(self, name: str) -> int:
        """Return the index of the one child named `name`; -1 if there is none or more than one."""
        return self._as_schema().get_field_index(name)

    def get_all_field_indices(self, name: str) -> list[int]:
        """Return the indices of all children named `name`, in order."""
        return self._as_schema().get_all_field_indices(name)

    @property
    def id(self) -> int:
        """The number of the type in pyarrow, so that functions such as ``pyarrow.types.is_integer`` take the type."""
        return NUMBERED.index(self.word or "extension")

    @property
    def word(self) -> str:
        """The first word of ``str(type)``, such as ``"timestamp"``."""
        return (self._spelling or str(self)).partition("<")[0].partition("[")[0].partition("(")[0]

    @property
    def bit_width(self) -> int:
        """Bits of a value; a UsageError for types whose values have no size, or different sizes."""
        if self.word not in WIDTHS:
            raise UsageError(f"values of {self} have no fixed width")
        return WIDTHS[self.word]

    @property
    def byte_width(self) -> int:
        """Bytes of a value; errors are those of :attr:`bit_width`."""
        if self.bit_width < 8:
            raise UsageError(f"a value of {self} is less than a byte")
        return self.bit_width // 8

    def to_pandas_dtype(self) -> Any:
        """Return the dtype of pandas, or the class of NumPy, that pyarrow chooses for the type; needs pyarrow."""
        try:
            return self.to_arrow().to_pandas_dtype()
        except NotImplementedError as error:
            raise UnsupportedError(f"neither pandas nor NumPy has a dtype for {self}") from error

    def _as_schema(self) -> Schema:
        from arrowipc.schemas import Schema

        return Schema(self.children)

    def _equals(self, other: object, check_metadata: bool) -> bool:
        if isinstance(other, str):
            from arrowipc.types import as_type

            other = as_type(other)
        return isinstance(other, type(self)) and self._key(check_metadata) == other._key(check_metadata)

    def _key(self, exact: bool) -> tuple[Any, ...]:
        """Return what equality compares: the class and its parameters, with keys in place of the children."""
        return (type(self), *self._parameters().values())

    def __str__(self) -> str:
        return self._spelling

    def __repr__(self) -> str:
        return f"DataType({self})"


class Field(Described, Hints):
    """A name, a type, whether nulls may occur, and metadata.

    Parameters
    ----------
    name : str
        Any text, also empty. Two fields of one schema may share a name.
    type : DataType or its name, or a type of another library (``__arrow_c_schema__``)
    nullable : bool, default True
    metadata : mapping or pairs of str or bytes
        Kept as a :class:`arrowipc.KeyValueMetadata`.

    Notes
    -----
    ``==`` and ``hash`` compare name, type and nullability; :meth:`equals` can compare the metadata too.

    Examples
    --------
    >>> from arrowipc.types import field, int32
    >>> field("a", int32(), nullable=False)
    Field(a: int32 not null)
    >>> field("a", int32()).equals(field("a", int32(), metadata={"k": "v"}), check_metadata=True)
    False
    """

    __slots__ = __match_args__ = ("name", "type", "nullable", "metadata")

    name: str
    type: DataType
    nullable: bool
    metadata: KeyValueMetadata

    def __new__(cls, name: str, type: Any, nullable: bool = True, metadata: MetadataLike = ()) -> Self:
        if not isinstance(type, DataType):
            from arrowipc.types import as_type

            # A type of another library; an extension type becomes its storage type, and metadata of the field.
            found = own(type, Field) if hasattr(type, "__arrow_c_schema__") else Field("", as_type(type))
            if not isinstance(found, Field) or found.name:
                raise UsageError(f"Field {name!r}: type must be a DataType or its name, found {described(type)}")
            type = found.type
            metadata = metadata_of(metadata) if metadata else found.metadata
        self = object.__new__(cls)
        # Without a loop, because there may be thousands of fields.
        put_name, put_type, put_nullable, put_metadata = cls._setters.values()
        put_name(self, check_text("Field: name", name))
        put_type(self, type)
        put_nullable(self, nullable is True or check_flag("Field: nullable", nullable))
        put_metadata(self, metadata_of(metadata) if metadata else NO_METADATA)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, (self.name, self.type, self.nullable, self.metadata)

    @property
    def extension_name(self) -> str | None:
        """Name of the extension type of this field, or None. Reading never runs code because of it."""
        name = self.metadata.get(EXTENSION_NAME) if self.metadata.pairs else None
        return None if name is None else name.decode("utf-8", "backslashreplace")

    @property
    def extension_metadata(self) -> bytes | None:
        """Parameters of the extension type as its writer serialized them, or None."""
        return self.metadata.get(EXTENSION_METADATA)

    def with_name(self, name: str) -> Field:
        """Return the field under another name."""
        return self.__replace__(name=name)

    def with_type(self, new_type: Any) -> Field:
        """Return the field with another type."""
        return self.__replace__(type=new_type)

    def flatten(self) -> list[Field]:
        """Return the members of a struct as fields named ``field.member``; for another type, a list of this field."""
        if not isinstance(self.type, Struct):
            return [self]
        return [
            Field(f"{self.name}.{each.name}", each.type, self.nullable or each.nullable, each.metadata)
            for each in self.type.fields
        ]

    def with_nullable(self, nullable: bool) -> Field:
        """Return the field with or without nulls."""
        return self.__replace__(nullable=nullable)

    def with_metadata(self, metadata: MetadataLike) -> Field:
        """Return the field with other metadata; None means with none."""
        return self.__replace__(metadata=metadata)

    def remove_metadata(self) -> Field:
        """Return the field without metadata."""
        return self.__replace__(metadata=None)

    def _equals(self, other: object, check_metadata: bool) -> bool:
        if not isinstance(other, Field) or self.name != other.name or self.nullable != other.nullable:
            return False
        if check_metadata and self.metadata != other.metadata:
            return False
        return self.type.equals(other.type, check_metadata)

    def _key(self, exact: bool, named: bool = True) -> tuple[Any, ...]:
        key = self.type._key(exact)
        if exact:
            return (self.name, self.nullable, key, self.metadata)
        return (self.name, self.nullable, key) if named else (self.nullable, key)

    def __str__(self) -> str:
        return f"{printable(self.name)}: {self.type}{'' if self.nullable else ' not null'}"

    def __repr__(self) -> str:
        return f"Field({self})"


class Null(DataType):
    """Every value is null; an array of it has a length and no buffers."""

    __slots__ = ()
    _spelling = "null"


class Bool(DataType):
    """True or false, one bit each."""

    __slots__ = ()
    _spelling = "bool"


class Utf8(DataType):
    """UTF-8 text with 32-bit offsets: at most 2 GiB per array."""

    __slots__ = ()
    _spelling = "string"


class LargeUtf8(DataType):
    """UTF-8 text with 64-bit offsets."""

    __slots__ = ()
    _spelling = "large_string"


class Utf8View(DataType):
    """UTF-8 text as 16-byte views: short values inline, long ones in any of several buffers."""

    __slots__ = ()
    _spelling = "string_view"


class Binary(DataType):
    """Bytes with 32-bit offsets: at most 2 GiB per array."""

    __slots__ = ()
    _spelling = "binary"


class LargeBinary(DataType):
    """Bytes with 64-bit offsets."""

    __slots__ = ()
    _spelling = "large_binary"


class BinaryView(DataType):
    """Bytes as 16-byte views: short values inline, long ones in any of several buffers."""

    __slots__ = ()
    _spelling = "binary_view"


class Int(DataType):
    """An integer of `bit_width` bits (8, 16, 32 or 64), `signed` or not."""

    __slots__ = __match_args__ = ("bit_width", "signed")

    bit_width: int
    signed: bool

    def __new__(cls, bit_width: int, signed: bool) -> Self:
        width = check_choice("Int: bit_width", bit_width, (8, 16, 32, 64))
        return filled(cls, width, check_flag("Int: signed", signed))

    def __str__(self) -> str:
        return f"int{self.bit_width}" if self.signed else f"uint{self.bit_width}"


class FloatingPoint(DataType):
    """An IEEE 754 number of `precision` ``"half"``, ``"single"`` or ``"double"``."""

    __slots__ = __match_args__ = ("precision",)

    precision: Literal["half", "single", "double"]

    def __new__(cls, precision: Literal["half", "single", "double"]) -> Self:
        check_choice("FloatingPoint: precision", precision, ("half", "single", "double"))
        return filled(cls, precision)

    def __str__(self) -> str:
        return {"half": "halffloat", "single": "float", "double": "double"}[self.precision]


class Decimal(DataType):
    """An exact number of at most `precision` decimal digits, stored as the integer ``value * 10**scale``.

    Parameters
    ----------
    precision : int
        1 to 9, 18, 38 or 76 digits, by bit width.
    scale : int
        Digits after the decimal point; negative ones and ones above `precision` are legal.
    bit_width : int, default 128
        32, 64, 128 or 256.
    """

    __slots__ = __match_args__ = ("precision", "scale", "bit_width")

    precision: int
    scale: int
    bit_width: int

    def __new__(cls, precision: int, scale: int, bit_width: int = 128) -> Self:
        check_choice("Decimal: bit_width", bit_width, tuple(DECIMAL_DIGITS))
        owner = f"Decimal of {bit_width} bits"
        check_integer(f"{owner}: precision", precision, 1, DECIMAL_DIGITS[bit_width])
        return filled(cls, precision, check_integer(f"{owner}: scale", scale, -INT32_MAX - 1, INT32_MAX), bit_width)

    def __str__(self) -> str:
        return f"decimal{self.bit_width}({self.precision}, {self.scale})"


class Date(DataType):
    """Days since 1970-01-01 (`unit` ``"day"``, 32 bits), or in milliseconds (``"ms"``, 64 bits)."""

    __slots__ = __match_args__ = ("unit",)

    unit: Literal["day", "ms"]

    def __new__(cls, unit: Literal["day", "ms"]) -> Self:
        return filled(cls, check_choice("Date: unit", unit, ("day", "ms")))

    def __str__(self) -> str:
        return "date32[day]" if self.unit == "day" else "date64[ms]"


class Time(DataType):
    """Time of day since midnight: `unit` ``"s"`` or ``"ms"`` in 32 bits, ``"us"`` or ``"ns"`` in 64."""

    __slots__ = __match_args__ = ("unit", "bit_width")

    unit: TimeUnit
    bit_width: int

    def __new__(cls, unit: TimeUnit, bit_width: int) -> Self:
        check_choice("Time: unit", unit, tuple(TIME_BITS))
        return filled(cls, unit, check_choice(f"Time in {unit}: bit_width", bit_width, (TIME_BITS[unit],)))

    def __str__(self) -> str:
        return f"time{self.bit_width}[{self.unit}]"


class Timestamp(DataType):
    """64-bit count of `unit` since 1970-01-01.

    Parameters
    ----------
    unit : {"s", "ms", "us", "ns"}
    timezone : str or None
        A name of the tz database or an offset like ``+07:30``: values are instants in UTC, and shown in that zone.
        None, or an empty string, which means the same: wall-clock time of no particular place.
    """

    __slots__ = __match_args__ = ("unit", "timezone")

    unit: TimeUnit
    timezone: str | None

    def __new__(cls, unit: TimeUnit, timezone: str | None = None) -> Self:
        check_choice("Timestamp: unit", unit, tuple(TIME_BITS))
        return filled(cls, unit, check_text("Timestamp: timezone", timezone) if timezone else None)

    @property
    def tz(self) -> str | None:
        """The time zone, under pyarrow's name; the same as :attr:`timezone`."""
        return self.timezone

    def __str__(self) -> str:
        zone = "" if self.timezone is None else f", tz={printable(self.timezone)}"
        return f"timestamp[{self.unit}{zone}]"


class Duration(DataType):
    """64-bit count of `unit` (``"s"``, ``"ms"``, ``"us"`` or ``"ns"``) between two moments."""

    __slots__ = __match_args__ = ("unit",)

    unit: TimeUnit

    def __new__(cls, unit: TimeUnit) -> Self:
        return filled(cls, check_choice("Duration: unit", unit, tuple(TIME_BITS)))

    def __str__(self) -> str:
        return f"duration[{self.unit}]"


class Interval(DataType):
    """A span of the calendar.

    Parameters
    ----------
    unit : {"year_month", "day_time", "month_day_nano"}
        int32 months; int32 days and int32 milliseconds; int32 months, int32 days and int64 nanoseconds.
    """

    __slots__ = __match_args__ = ("unit",)

    unit: Literal["year_month", "day_time", "month_day_nano"]

    def __new__(cls, unit: Literal["year_month", "day_time", "month_day_nano"]) -> Self:
        return filled(cls, check_choice("Interval: unit", unit, ("year_month", "day_time", "month_day_nano")))

    def __str__(self) -> str:
        return "month_interval" if self.unit == "year_month" else f"{self.unit}_interval"


class FixedSizeBinary(DataType):
    """Values of exactly `byte_width` bytes; 0 is legal."""

    __slots__ = __match_args__ = ("byte_width",)

    byte_width: int

    def __new__(cls, byte_width: int) -> Self:
        return filled(cls, check_integer("FixedSizeBinary: byte_width", byte_width, 0, INT32_MAX))

    def __str__(self) -> str:
        return f"fixed_size_binary[{self.byte_width}]"

    @property
    def bit_width(self) -> int:
        """Bits of a value."""
        return 8 * self.byte_width


class _Nested(DataType):
    """Base of all types with child fields."""

    __slots__ = ("_children", "_depth")

    def __getitem__(self, i: SupportsIndex | str) -> Field:
        return self.field(i)

    @classmethod
    def _over(cls, children: tuple[Field, ...], *values: object) -> Self:
        """Make a type with these children; a `UsageError` if it is nested deeper than readers allow."""
        depth = 1
        for child in children:
            if child.type._depth >= depth:
                depth = child.type._depth + 1
        if depth > MAX_DEPTH:
            raise UsageError(f"{cls.__name__}: types nest at most {MAX_DEPTH} levels deep, found {depth}")
        return filled(cls, *values, _children=children, _depth=depth)


class _ListLike(_Nested):
    """Base of all list types. They have one child, whose name has no meaning."""

    __slots__ = __match_args__ = ("value_field",)

    value_field: Field

    def __new__(cls, value_field: Field) -> Self:
        return cls._over((_child(cls.__name__, "value_field", value_field),), value_field)

    @property
    def value_type(self) -> DataType:
        """Type of the elements."""
        return self.value_field.type

    def _key(self, exact: bool) -> tuple[Any, ...]:
        return (type(self), self.value_field._key(exact, named=False))

    def __str__(self) -> str:
        return f"{self._spelling}<{self.value_field}>"


class List(_ListLike):
    """Lists of any length, delimited by 32-bit offsets; `value_field` is the child."""

    __slots__ = ()
    _spelling = "list"


class LargeList(_ListLike):
    """Lists of any length, delimited by 64-bit offsets; `value_field` is the child."""

    __slots__ = ()
    _spelling = "large_list"


class ListView(_ListLike):
    """Lists given by 32-bit offsets and sizes, in any order, also overlapping; `value_field` is the child."""

    __slots__ = ()
    _spelling = "list_view"


class LargeListView(_ListLike):
    """Lists given by 64-bit offsets and sizes, in any order, also overlapping; `value_field` is the child."""

    __slots__ = ()
    _spelling = "large_list_view"


class FixedSizeList(_ListLike):
    """Lists of exactly `list_size` elements; 0 is legal. `value_field` is the child."""

    __slots__ = ("list_size",)
    __match_args__ = ("value_field", "list_size")

    list_size: int

    def __new__(cls, value_field: Field, list_size: int) -> Self:
        _child("FixedSizeList", "value_field", value_field)
        check_integer("FixedSizeList: list_size", list_size, 0, INT32_MAX)
        return cls._over((value_field,), value_field, list_size)

    def _key(self, exact: bool) -> tuple[Any, ...]:
        return (*super()._key(exact), self.list_size)

    def __str__(self) -> str:
        return f"fixed_size_list<{self.value_field}>[{self.list_size}]"


class Struct(_Nested):
    """Rows of `fields`, any number of them; names may repeat."""

    __slots__ = __match_args__ = ("fields",)
    _spelling = "struct"

    fields: tuple[Field, ...]

    def __new__(cls, fields: Iterable[Field]) -> Self:
        checked = _checked("Struct", fields)
        return cls._over(checked, checked)

    @property
    def names(self) -> list[str]:
        """Names of the fields, in order."""
        return [field.name for field in self.fields]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def _key(self, exact: bool) -> tuple[Any, ...]:
        return (Struct, *[child._key(exact) for child in self.fields])

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


class Map(_Nested):
    """Lists of key/value pairs.

    Parameters
    ----------
    entries : Field
        A struct of two fields, key and value. Neither the struct nor the key may be nullable. Names may be any.
    keys_sorted : bool, default False
        Whether the keys of every row are in order.
    """

    __slots__ = __match_args__ = ("entries", "keys_sorted")
    _spelling = "map"

    entries: Field
    keys_sorted: bool

    def __new__(cls, entries: Field, keys_sorted: bool = False) -> Self:
        _child("Map", "entries", entries)
        if not isinstance(entries.type, Struct) or len(entries.type.fields) != 2 or entries.nullable:
            raise UsageError(f"Map: entries must be a struct of two fields that is not null, found {entries}")
        if entries.type.fields[0].nullable:
            raise UsageError(f"Map: the key must not be nullable, found {entries.type.fields[0]}")
        return cls._over((entries,), entries, check_flag("Map: keys_sorted", keys_sorted))

    @property
    def key_field(self) -> Field:
        """The first of the two fields of an entry."""
        return self.entries.type.children[0]

    @property
    def item_field(self) -> Field:
        """The second of the two fields of an entry."""
        return self.entries.type.children[1]

    @property
    def key_type(self) -> DataType:
        """Type of the keys."""
        return self.key_field.type

    @property
    def item_type(self) -> DataType:
        """Type of the items."""
        return self.item_field.type

    def _key(self, exact: bool) -> tuple[Any, ...]:
        if exact:
            return (Map, self.keys_sorted, self.entries._key(True))
        key, item = self.key_field.type._key(False), self.item_field._key(False, named=False)
        return (Map, self.keys_sorted, key, item)

    def __str__(self) -> str:
        parts = []
        for child, usual in ((self.key_field, "key"), (self.item_field, "value")):
            name = "" if child.name == usual else f" ('{printable(child.name)}')"
            parts.append(f"{child.type}{name}")
        if self.keys_sorted:
            parts.append("keys_sorted")
        return f"map<{', '.join(parts)}>"


class Union(_Nested):
    """Each row holds a value of one of several children; a type code says of which.

    Parameters
    ----------
    mode : {"sparse", "dense"}
        Sparse: every child is as long as the union. Dense: offsets point into compact children.
    fields : iterable of Field
    type_codes : iterable of int, optional
        The code of each child, 0 to 127 and all different; without it, 0, 1, 2, ...
    """

    __slots__ = __match_args__ = ("mode", "fields", "type_codes")

    mode: Literal["sparse", "dense"]
    fields: tuple[Field, ...]
    type_codes: tuple[int, ...]

    def __new__(
        cls, mode: Literal["sparse", "dense"], fields: Iterable[Field], type_codes: Iterable[int] | None = None
    ) -> Self:
        checked = _checked("Union", fields)
        codes = tuple(range(len(checked)) if type_codes is None else items_of("Union: type_codes", type_codes))
        if len(codes) != len(checked):
            raise UsageError(f"Union: expected {len(checked)} type codes, one per child, found {len(codes)}")
        for position, code in enumerate(codes):
            check_integer(f"Union: type code of child {position}", code, 0, 127)
        if len(set(codes)) != len(codes):
            raise UsageError(f"Union: expected type codes that are all different, found {codes}")
        check_choice("Union: mode", mode, ("sparse", "dense"))
        return cls._over(checked, mode, checked, codes)

    def _key(self, exact: bool) -> tuple[Any, ...]:
        return (Union, self.mode, self.type_codes, *[child._key(exact) for child in self.fields])

    def __str__(self) -> str:
        pairs = zip(self.fields, self.type_codes, strict=True)
        return f"{self.mode}_union<{', '.join([f'{child}={code}' for child, code in pairs])}>"


class RunEndEncoded(_Nested):
    """Runs of equal values: `run_ends` (int16, int32 or int64) has the end of each run, `values` its value."""

    __slots__ = __match_args__ = ("run_ends", "values")
    _spelling = "run_end_encoded"

    run_ends: Field
    values: Field

    def __new__(cls, run_ends: Field, values: Field) -> Self:
        kind = _child("RunEndEncoded", "run_ends", run_ends).type
        if not isinstance(kind, Int) or not kind.signed or kind.bit_width == 8:
            raise UsageError(f"RunEndEncoded: run_ends must be int16, int32 or int64, found {kind}")
        _child("RunEndEncoded", "values", values)
        return cls._over((run_ends, values), run_ends, values)

    @property
    def run_end_type(self) -> DataType:
        """Type of the ends of runs."""
        return self.run_ends.type

    @property
    def value_type(self) -> DataType:
        """Type of the decoded values."""
        return self.values.type

    def _key(self, exact: bool) -> tuple[Any, ...]:
        if exact:
            return (RunEndEncoded, self.run_ends._key(True), self.values._key(True))
        return (RunEndEncoded, self.run_ends.type._key(False), self.values._key(False, named=False))

    def __str__(self) -> str:
        return f"run_end_encoded<run_ends: {self.run_ends.type}, values: {self.values.type}>"


class Dictionary(DataType):
    """Indices into a dictionary of distinct values, which is sent in separate messages.

    Parameters
    ----------
    index_type : Int
        Any of the eight integer types.
    value_type : DataType
        Any type but a dictionary; nested types may hold dictionaries.
    ordered : bool, default False
        Whether the order of the dictionary means something.
    dictionary_id : int or None
        The number that ties the column to its dictionary messages, any int64. None lets the writer choose.
        Two columns with the same id share a dictionary. Comparisons ignore it.
    """

    __slots__ = ("_depth", "dictionary_id", "index_type", "ordered", "value_type")
    __match_args__ = ("index_type", "value_type", "ordered", "dictionary_id")
    _spelling = "dictionary"

    index_type: Int
    value_type: DataType
    ordered: bool
    dictionary_id: int | None

    def __new__(
        cls, index_type: Int, value_type: DataType, ordered: bool = False, dictionary_id: int | None = None
    ) -> Self:
        if not isinstance(index_type, Int):
            raise UsageError(f"Dictionary: index_type must be an integer type, found {described(index_type)}")
        instance_of("Dictionary: value_type", value_type, DataType)
        if isinstance(value_type, Dictionary):
            raise UsageError(
                f"Dictionary: value_type cannot be a dictionary itself, found {value_type}; "
                "put the inner one into a struct or a list"
            )
        if dictionary_id is not None:
            check_integer("Dictionary: dictionary_id", dictionary_id, -INT64_MAX - 1, INT64_MAX)
        ordered = check_flag("Dictionary: ordered", ordered)
        return filled(cls, index_type, value_type, ordered, dictionary_id, _depth=value_type._depth)

    @property
    def bit_width(self) -> int:
        """Bits of an index."""
        return self.index_type.bit_width

    def _key(self, exact: bool) -> tuple[Any, ...]:
        return (Dictionary, self.index_type._key(exact), self.value_type._key(exact), self.ordered)

    def __str__(self) -> str:
        return f"dictionary<values={self.value_type}, indices={self.index_type}, ordered={int(self.ordered)}>"


#: The classes for text, bytes, and lists (without maps), in all layouts; for `isinstance`.
TEXT = (Utf8, LargeUtf8, Utf8View)
BYTES = (Binary, LargeBinary, BinaryView, FixedSizeBinary)
LISTS = (List, LargeList, ListView, LargeListView, FixedSizeList)

#: Every type that has no children and no free parameters; timestamps without a time zone are included.
PLAIN_TYPES: tuple[DataType, ...] = (
    *[kind() for kind in (Null, Bool, Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView)],
    *[Int(bits, signed) for signed in (True, False) for bits in (8, 16, 32, 64)],
    *[FloatingPoint(precision) for precision in ("half", "single", "double")],
    *[Date(unit) for unit in ("day", "ms")],
    *[Interval(unit) for unit in ("year_month", "day_time", "month_day_nano")],
    *[Time(unit, bits) for unit, bits in TIME_BITS.items()],
    *[kind(unit) for kind in (Timestamp, Duration) for unit in TIME_BITS],
)


def with_children(kind: DataType, children: Sequence[Field]) -> DataType:
    """Return a nested type with other children; other types are returned as they are."""
    if isinstance(kind, (Struct, Union)):
        return kind.__replace__(fields=tuple(children))
    names = [name for name, value in kind._parameters().items() if isinstance(value, Field)]
    return kind.__replace__(**dict(zip(names, children, strict=True))) if names else kind


def _child(owner: str, what: str, value: Field) -> Field:
    if not isinstance(value, Field):
        raise UsageError(f"{owner}: {what} must be a Field, found {described(value)}; field(name, type) makes one")
    return value


def _checked(owner: str, fields: Iterable[Field]) -> tuple[Field, ...]:
    checked = tuple(items_of(f"{owner}: fields", fields))
    for position, child in enumerate(checked):
        _child(owner, f"child {position}", child)
    return checked
