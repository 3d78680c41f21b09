"""Schemas as messages and footers; the dictionaries of a schema numbered."""

from __future__ import annotations

from itertools import count, filterfalse
from operator import is_

from arrowipc.datatypes import Dictionary, with_children
from arrowipc.errors import UsageError
from arrowipc.metadata.schema_tables import dictionaries_of, encapsulate, write_footer, write_schema_message
from arrowipc.schemas import Field, Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from arrowipc.datatypes import DataType

__all__ = [
    "encapsulate",
    "footer_table",
    "number_dictionaries",
    "number_from_zero",
    "schema_metadata",
    "separate_dictionaries",
]


def schema_metadata(
    schema: Schema,
    version: Literal["V4", "V5"] = "V5",
    custom_metadata: tuple[tuple[bytes, bytes], ...] = (),
) -> bytes:
    """Write the metadata of a Schema message: a ``Message`` table without prefix or padding.

    `custom_metadata` is that of the message itself, as opposed to the schema's own.
    """
    return write_schema_message(number_dictionaries(schema), version, custom_metadata)


def footer_table(
    schema: Schema,
    version: Literal["V4", "V5"],
    dictionaries: bytes | bytearray,
    n_batches: int,
    metadata: tuple[tuple[bytes, bytes], ...],
) -> bytes:
    """Write the ``Footer`` table of a file, all but its end: the blocks of `n_batches` batches, which are not copied.

    `dictionaries` are ``Block`` structs of 24 bytes each, `metadata` is the file's own.
    """
    return write_footer(number_dictionaries(schema), version, dictionaries, n_batches, metadata)


def number_dictionaries(schema: Schema) -> Schema:
    """Give every dictionary of `schema` an id; returns `schema` itself if they all have one.

    Ids that are there stay. The others are counted from 0 in the order of the fields, outer before inner, leaving out
    the ones that are taken. A `UsageError` if two dictionaries of different types share an id.
    """
    taken: dict[int, DataType] = {}
    missing = False
    for encoding in dictionaries_of(schema.fields):
        if encoding.id is None:
            missing = True
            continue
        first, second = taken.setdefault(encoding.id, encoding.value_type), encoding.value_type
        if first is not second and first != second:
            raise UsageError(f"dictionary id {encoding.id} stands for two types, {first} and {second}")
    free = filterfalse(taken.__contains__, count())
    return _renumbered(schema, lambda found: next(free) if found.id is None else found.id) if missing else schema


def number_from_zero(schema: Schema) -> Schema:
    """Give the dictionaries of `schema` the ids 0, 1, 2, ... in the order of the fields, outer before inner.

    Fields that shared an id share the new one. Some readers keep dictionaries in a list.
    """
    encodings = dictionaries_of(schema.fields)
    if [encoding.id for encoding in encodings] == list(range(len(encodings))):
        return schema
    ids: dict[int | None, int] = {}
    return _renumbered(number_dictionaries(schema), lambda found: ids.setdefault(found.id, len(ids)))


def separate_dictionaries(schema: Schema) -> Schema:
    """Give every dictionary of `schema` a separate id: arrays keep the dictionaries that they have."""
    fresh = count()
    return _renumbered(schema, lambda found: next(fresh))


def _renumbered(schema: Schema, number: Callable[[Dictionary], int]) -> Schema:
    return schema.__replace__(fields=[_numbered_field(field, number) for field in schema.fields])


def _numbered_field(field: Field, number: Callable[[Dictionary], int]) -> Field:
    type_ = _numbered(field.type, number)
    return field if type_ is field.type else field.__replace__(type=type_)


def _numbered(type_: DataType, number: Callable[[Dictionary], int]) -> DataType:
    if isinstance(type_, Dictionary):
        id = number(type_)
        values = _numbered(type_.value_type, number)
        if id == type_.id and values is type_.value_type:
            return type_
        return type_.__replace__(id=id, value_type=values)
    numbered = [_numbered_field(child, number) for child in type_.children]
    return type_ if all(map(is_, numbered, type_.children)) else with_children(type_, numbered)
