"""The class for schemas (fields in order, metadata and byte order), and the writing of Schema messages."""

from __future__ import annotations

from _collections_abc import Mapping  # see arguments.py
from _operator import is_  # see arguments.py
from itertools import count, filterfalse

from arrowipc.arguments import (
    NO_METADATA,
    Hints,
    check_choice,
    check_flag,
    check_integer,
    columns_of,
    described,
    filled,
    integer_of,
    items_of,
    metadata_of,
    note,
)
from arrowipc.datatypes import Described, Dictionary, Field, own, with_children
from arrowipc.errors import NotFoundError, UsageError, missing_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, Self, SupportsIndex

    from arrowipc.arguments import KeyValueMetadata, MetadataLike
    from arrowipc.datatypes import DataType
    from arrowipc.tables import Table
    from arrowipc.types import FieldsLike

__all__ = ["Field", "Schema"]

INT64 = -(2**63), 2**63 - 1


class Schema(Described, Hints):
    """The columns of record batches: fields in order, metadata, byte order.

    Parameters
    ----------
    fields : iterable of Field, of another library's fields, or of (name, type) pairs; or mapping of names to types
        Names may repeat; such columns can be selected by their index.
    metadata : mapping or pairs of str or bytes
        Kept as a :class:`arrowipc.KeyValueMetadata`.
    endianness : {"little", "big"}
        Byte order of the message bodies. Everything else in the format is always little-endian.
    features : tuple of int
        Values of the format's ``Feature`` enum. Leave it empty for writing: some readers refuse the vector.

    Notes
    -----
    Immutable and hashable. ``==`` compares names, types, nullability and byte order; :meth:`equals` can
    compare the metadata too.

    Examples
    --------
    >>> from arrowipc.types import int32, schema, string
    >>> s = schema([("a", int32()), ("b", string())], metadata={"origin": "sensor 4"})
    >>> s.names
    ['a', 'b']
    >>> s["a"].type
    DataType(int32)
    >>> s
    a: int32
    b: string
    -- schema metadata --
    origin: 'sensor 4'
    >>> s.field("b") == s.field(1), s.get_field_index("b"), s.get_all_field_indices("b")
    (True, 1, [1])
    >>> s.equals(schema(list(s)), check_metadata=True), len(s.serialize()) % 8
    (False, 0)
    """

    __match_args__ = ("fields", "metadata", "endianness", "features")
    __slots__ = (*__match_args__, "_indices", "_message", "_plan")

    fields: tuple[Field, ...]
    metadata: KeyValueMetadata
    endianness: Literal["little", "big"]
    features: tuple[int, ...]

    _indices: dict[str, int | tuple[int, ...]] | None
    _message: bytes | None
    # An object that the compiled core derives from the schema; kept here to live as long. Never compared.
    _plan: Any

    def __new__(
        cls,
        fields: FieldsLike,
        metadata: MetadataLike = (),
        endianness: Literal["little", "big"] = "little",
        features: Iterable[int] = (),
    ) -> Self:
        checked = tuple([own(field, Field) for field in items_of("Schema: fields", fields)])
        for field in checked:
            if not isinstance(field, Field):
                from arrowipc.types import as_fields

                checked = as_fields(fields if isinstance(fields, Mapping) else checked)
                break
        return filled(
            cls,
            checked,
            metadata_of(metadata) if metadata else NO_METADATA,
            check_choice("Schema: endianness", endianness, ("little", "big")),
            tuple([check_integer("Schema: feature", each, *INT64) for each in items_of("features", features)]),
            _indices=None,
            _message=None,
            _plan=None,
        )

    @classmethod
    def from_arrow(cls, schema: Any) -> Schema:
        """Make a schema from another library's schema, or from an object that exports one by ``__arrow_c_schema__``.

        An `UnsupportedError` if a type is not known.
        """
        from arrowipc.cdata.import_array import schema_from

        return schema_from(schema)

    @classmethod
    def from_pandas(cls, frame: Any, preserve_index: bool | None = None) -> Schema:
        """Make the schema that pyarrow gives a ``pandas.DataFrame``, with pandas' metadata; needs pyarrow."""
        try:
            theirs = __import__("pyarrow").Schema
        except ImportError as error:
            raise missing_package("Schema.from_pandas", "pyarrow") from error
        if preserve_index is not None:
            check_flag("preserve_index", preserve_index)
        if not hasattr(frame, "dtypes"):
            raise UsageError(f"frame must be a DataFrame, found {described(frame)}")
        return cls.from_arrow(theirs.from_pandas(frame, preserve_index))

    @property
    def names(self) -> list[str]:
        """Names of the fields, in order."""
        return [field.name for field in self.fields]

    @property
    def types(self) -> list[DataType]:
        """Types of the fields, in order."""
        return [field.type for field in self.fields]

    def field(self, i: SupportsIndex | str) -> Field:
        """Return the field at index `i` (negative counts from the end), or the one named `i`.

        An `IndexError` if `i` is out of range, a `KeyError` if no field has that name, or several have it.
        """
        if not isinstance(i, str):
            try:
                return self.fields[integer_of("field", i)]
            except IndexError:
                raise NotFoundError(
                    f"field index {i} is out of range: the schema has {len(self.fields)} fields"
                ) from None
        found = self.get_all_field_indices(i)
        if not found:
            first, *members = i.split(".")
            nested = members and any(field.name == first and field.type.num_fields for field in self.fields)
            steps = "".join(f"[{name!r}]" for name in (first, *members))
            hint = f"; members of {first!r} are taken one by one: {steps}" if nested else ""
            raise NotFoundError(f"no field is named {i!r}; the schema has {_listed(self.names)}{hint}")
        if len(found) > 1:
            raise NotFoundError(
                f"{len(found)} fields are named {i!r}, at indices {_listed(found)}: choose one by index"
            )
        return self.fields[found[0]]

    def position(self, i: SupportsIndex | str) -> int:
        """Return the index, never negative, of the field that :meth:`field` returns; the errors are the same."""
        self.field(i)
        return self.get_field_index(i) if isinstance(i, str) else range(len(self.fields))[i]

    def get_field_index(self, name: str) -> int:
        """Return the index of the one field named `name`; -1 if there is none or more than one."""
        found = self.get_all_field_indices(name)
        return found[0] if len(found) == 1 else -1

    def get_all_field_indices(self, name: str) -> list[int]:
        """Return the indices of all fields named `name`, in order; an empty list if there are none."""
        indices = self._indices
        if indices is None:
            # A name that occurs once has an int: a list would take a third of the memory, and the collector's time.
            indices = {}
            for position, field in enumerate(self.fields):
                first = indices.setdefault(field.name, position)
                if first != position:
                    indices[field.name] = (*first, position) if isinstance(first, tuple) else (first, position)
            note(self, "_indices", indices)
        found = indices.get(name, ())
        return list(found) if isinstance(found, tuple) else [found]

    def _equals(self, other: object, check_metadata: bool) -> bool:
        if not isinstance(other, Schema) or self.endianness != other.endianness:
            return False
        if len(self.fields) != len(other.fields) or (check_metadata and self.metadata != other.metadata):
            return False
        return all(mine.equals(theirs, check_metadata) for mine, theirs in zip(self.fields, other.fields, strict=True))

    def with_metadata(self, metadata: MetadataLike) -> Schema:
        """Return the schema with other metadata; None means with none."""
        return self.__replace__(metadata=metadata or ())

    add_metadata = with_metadata

    def remove_metadata(self) -> Schema:
        """Return the schema without its metadata; fields keep theirs."""
        return self.with_metadata(None)

    @property
    def pandas_metadata(self) -> dict[str, Any] | None:
        """The metadata that pandas writes about index, names and dtypes; None if there is none."""
        from json import loads

        noted = self.metadata.get("pandas")
        return None if noted is None else loads(noted)

    def empty_table(self) -> Table:
        """Return a table with these columns and no rows."""
        from arrowipc.tables import Table

        return Table(self)

    def append(self, field: Any) -> Schema:
        """Return the schema with one more field at its end."""
        return self.insert(len(self.fields), field)

    def insert(self, i: SupportsIndex, field: Any) -> Schema:
        """Return the schema with one more field before field `i`; at the end if `i` is the number of fields."""
        position = integer_of("field", i)
        if not -len(self.fields) <= position <= len(self.fields):
            raise NotFoundError(f"field index {i} is out of range: the schema has {len(self.fields)} fields")
        fields = list(self.fields)
        fields.insert(position, field)
        return self.__replace__(fields=fields)

    def set(self, i: SupportsIndex | str, field: Any) -> Schema:
        """Return the schema with another field in place of field `i`."""
        position = self.position(i)
        return self.__replace__(fields=[*self.fields[:position], field, *self.fields[position + 1 :]])

    def remove(self, i: SupportsIndex | str) -> Schema:
        """Return the schema without field `i`."""
        position = self.position(i)
        return self.__replace__(fields=[*self.fields[:position], *self.fields[position + 1 :]])

    def field_by_name(self, name: str) -> Field:
        """Return the field with this name; the same as :meth:`field`, under pyarrow's name."""
        return self.field(name)

    def to_string(self) -> str:
        """Return the same text as ``repr``, which shows the fields and the metadata."""
        return repr(self)

    def serialize(self) -> bytes:
        """Write the encapsulated Schema message: prefix and metadata, padded to 8 bytes, version V5.

        Dictionaries whose id is None are numbered in order. The bytes are made once per object.
        """
        message = self._message
        if message is None:
            message = schema_message(self)
            note(self, "_message", message)
        return message

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, item: object) -> bool:
        return bool(self.get_all_field_indices(item)) if isinstance(item, str) else item in self.fields

    def __getitem__(self, i: int | str) -> Field:
        return self.field(i)

    def __hash__(self) -> int:
        return hash((self.fields, self.endianness))

    def __repr__(self) -> str:
        from arrowipc.values.repr import schema_text

        return schema_text(self)


#: Types -> their schemas, see `schema_of_type`.
_SCHEMAS: dict[DataType, Schema] = {}


def schema_of_type(kind: DataType) -> Schema:
    """Return the schema of one column without a name; `kind`: a type without children or a dictionary.

    It is kept with the plan that it has, which takes longer to make than an array.
    """
    found = _SCHEMAS.get(kind)
    if found is None:
        if len(_SCHEMAS) == 64:
            _SCHEMAS.clear()
        found = _SCHEMAS[kind] = Schema([Field("", kind)])
    return found


def positions_without(schema: Schema, columns: Iterable[str | int] | str | int) -> list[int]:
    """Return the indices of all columns except those in `columns`."""
    dropped = {schema.position(column) for column in columns_of(columns)}
    return [i for i in range(len(schema)) if i not in dropped]


def renamed(schema: Schema, names: Mapping[str, str] | Iterable[str]) -> Schema:
    """Return the schema with other names: a mapping of old to new names, or all new names in order."""
    if isinstance(names, Mapping):
        for old in names:
            schema.field(old)
        names = [names.get(name, name) for name in schema.names]
    if isinstance(names, str):
        raise UsageError(f"rename: expected a sequence of names, found {described(names)}")
    found = items_of("rename: names", names)
    if len(found) != len(schema):
        raise UsageError(f"rename: expected {len(schema)} names, one for each column, found {len(found)}")
    fields = [field.__replace__(name=name) for field, name in zip(schema.fields, found, strict=True)]
    return schema.__replace__(fields=fields)


def _listed(items: list[Any]) -> str:
    """Return the first few of `items` as text for a message."""
    if not items:
        return "no fields"
    shown = ", ".join(map(repr, items[:10]))
    return shown if len(items) <= 10 else f"{shown} and {len(items) - 10} more"


# -- Schema messages, and the ids of dictionaries ------------------------------------------------------------


def schema_message(
    schema: Schema,
    version: Literal["V4", "V5"] = "V5",
    custom_metadata: tuple[tuple[bytes, bytes], ...] = (),
    legacy: bool = False,
) -> bytes:
    """Write the encapsulated Schema message; `custom_metadata` is that of the message, not of the schema."""
    from arrowipc.metadata.schema_tables import encapsulate, write_schema_message

    return encapsulate(write_schema_message(number_dictionaries(schema), version, custom_metadata), legacy)


def number_dictionaries(schema: Schema) -> Schema:
    """Give every dictionary of `schema` an id; return `schema` itself if all have one.

    Existing ids stay. New ids count from 0 in the order of the fields, outer before inner, and skip the ids that are
    taken. A `UsageError` if two dictionaries of different types share an id.
    """
    from arrowipc.metadata.schema_tables import dictionaries_of

    taken: dict[int, DataType] = {}
    missing = False
    for encoding in dictionaries_of(schema.fields):
        if encoding.dictionary_id is None:
            missing = True
            continue
        first, second = taken.setdefault(encoding.dictionary_id, encoding.value_type), encoding.value_type
        if first is not second and first != second:
            raise UsageError(f"dictionary id {encoding.dictionary_id} stands for two types, {first} and {second}")
    free = filterfalse(taken.__contains__, count())
    return (
        renumbered(schema, lambda found: next(free) if found.dictionary_id is None else found.dictionary_id)
        if missing
        else schema
    )


def number_from_zero(schema: Schema) -> Schema:
    """Give the dictionaries of `schema` the ids 0, 1, 2, ... in the order of the fields, outer before inner.

    Fields that shared an id share the new one. This is for readers that keep dictionaries in a list.
    """
    from arrowipc.metadata.schema_tables import dictionaries_of

    encodings = dictionaries_of(schema.fields)
    if [encoding.dictionary_id for encoding in encodings] == list(range(len(encodings))):
        return schema
    ids: dict[int | None, int] = {}
    return renumbered(number_dictionaries(schema), lambda found: ids.setdefault(found.dictionary_id, len(ids)))


def renumbered(schema: Schema, number: Callable[[Dictionary], int | None]) -> Schema:
    """Return the schema with the dictionary ids that `number` returns."""
    return schema.__replace__(fields=[numbered_field(field, number) for field in schema.fields])


def numbered_field(field: Field, number: Callable[[Dictionary], int | None]) -> Field:
    """Return the field with the dictionary ids that `number` returns."""
    type_ = numbered_type(field.type, number)
    return field if type_ is field.type else field.__replace__(type=type_)


def numbered_type(type_: DataType, number: Callable[[Dictionary], int | None]) -> DataType:
    """Return the type with the dictionary ids that `number` returns."""
    if isinstance(type_, Dictionary):
        id = number(type_)
        values = numbered_type(type_.value_type, number)
        if id == type_.dictionary_id and values is type_.value_type:
            return type_
        return type_.__replace__(dictionary_id=id, value_type=values)
    numbered = [numbered_field(child, number) for child in type_.children]
    return type_ if all(map(is_, numbered, type_.children)) else with_children(type_, numbered)


def difference(expected: Schema, found: Schema) -> str:
    """Say how `found` differs from `expected`, as the end of a sentence."""
    if len(expected) != len(found):
        return f"has {len(found)} columns, expected {len(expected)}"
    for position, (mine, theirs) in enumerate(zip(expected, found, strict=True)):
        if mine != theirs:
            return f"has {theirs} in column {position}, expected {mine}"
    return f"is {found.endianness}-endian, expected {expected.endianness}-endian"
