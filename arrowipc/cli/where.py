"""What people write behind `--where`, as the filters by which batches are left out; times without an offset are UTC."""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from arrowipc import types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arrowipc.schema import Schema

__all__ = ["filters_of", "where_option"]

where_option: Callable[[Any], Any] = click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Leave out batches and files that hold no such row, by their statistics and folders: 'x >= 3', "
    "'city in Oslo,Rome', 'x is null'; several: all must hold. Rows themselves are not filtered.",
)

_NAME = r'\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^<>=!"\s][^<>=!"]*?))\s*'
_COMPARED = re.compile(_NAME + r"(?P<operator>==?|!=|<=|>=|<|>)(?P<value>.*)", re.DOTALL)
_CHOSEN = re.compile(_NAME + r"(?<=[\s\"])(?P<operator>(?:not\s+)?in)\s(?P<value>.*)", re.DOTALL | re.IGNORECASE)
_NULL = re.compile(_NAME + r"(?<=[\s\"])is\s+(?P<operator>(?:not\s+)?null)\s*", re.DOTALL | re.IGNORECASE)
_NULLS = {"null": "is_null", "not null": "is_not_null"}


def filters_of(conditions: Iterable[str], schema: Schema) -> list[tuple[Any, ...]]:
    """Take conditions apart; values are read as the types of their columns say."""
    return [_filter_of(text, schema) for text in conditions]


def _filter_of(text: str, schema: Schema) -> tuple[Any, ...]:
    found = _NULL.fullmatch(text) or _COMPARED.fullmatch(text) or _CHOSEN.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--where {text!r}: expected such as 'x >= 3', 'city in Oslo,Rome' or 'x is null'")
    name = found["quoted"] or found["name"]
    kind = _type_of(name, schema)
    if kind is None:
        raise click.UsageError(
            f"--where {text!r}: there is no column {name!r}; there are {', '.join(schema.names[:20])}"
        )
    operator = " ".join(found["operator"].lower().split())
    if operator in _NULLS:
        return name, _NULLS[operator]
    try:
        if operator.endswith("in"):
            values = next(csv.reader([found["value"].strip().strip("()")], skipinitialspace=True), [])
            return name, operator, [_value_of(each.strip(), kind) for each in values]
        return name, "==" if operator == "=" else operator, _value_of(found["value"].strip(), kind)
    except (ValueError, ArithmeticError):
        raise click.UsageError(f"--where {text!r}: {name!r} is of type {kind}, and this is no value of it") from None


def _type_of(path: str, schema: Schema) -> Any:
    """Type of the values of a column, or of the member of a struct that a dotted path leads to; None: of nothing."""
    fields, kind = {field.name: field.type for field in schema}, None
    for name in (path,) if path in fields else path.split("."):
        kind = fields.get(name)
        kind = kind.value_type if isinstance(kind, types.Dictionary) else kind
        fields = {field.name: field.type for field in kind.children} if isinstance(kind, types.Struct) else {}
    return kind


def _value_of(text: str, kind: Any) -> Any:
    """Read a value of a type; a text may stand in quotes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if isinstance(kind, types.Bool):
        return ["false", "true"].index(text.lower()) == 1
    if isinstance(kind, types.Timestamp):
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if kind.timezone is not None and at.tzinfo is None else at
    for many, read in _READ:
        if isinstance(kind, many):
            return read(text)
    return text


#: Types whose values are not texts, and what reads them.
_READ: tuple[tuple[Any, Any], ...] = (
    (types.Int, int),
    (types.FloatingPoint, float),
    (types.Decimal, Decimal),
    (types.Date, date.fromisoformat),
    (types.Time, time.fromisoformat),
    ((types.Binary, types.LargeBinary, types.BinaryView, types.FixedSizeBinary), str.encode),
)
