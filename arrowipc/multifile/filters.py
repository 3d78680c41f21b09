"""Turns other filters into those of `filters/pruning`: predicates of polars, texts after `--where`.

A filter decides which batches are read. Their rows are then filtered: for a lazy frame by polars, for the command line
by `rows_passing` (with `filters/row_filters`).
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from arrowipc import types
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.filters.literals import read_text, stored_type
from arrowipc.filters.pruning import Pruner, columns_at, fields_at
from arrowipc.filters.row_filters import RowFilter

if TYPE_CHECKING:
    import polars as pl

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

    #: A column (a name or a dotted path), an operator, and its value if it takes one.
    Condition = tuple[Any, ...]

# -- polars --------------------------------------------------------------------------------------------------

OPERATORS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
#: Nanoseconds of a unit.
UNITS = {"Nanoseconds": 1, "Microseconds": 1000, "Milliseconds": 1_000_000}
EPOCH = dt.datetime(1970, 1, 1)


def from_polars(predicate: pl.Expr, schema: Schema) -> Any:
    """Return a filter for `Pruner` that passes at least the rows that a predicate of polars passes; None: no filter."""
    try:
        return _filter(json.loads(predicate.meta.serialize(format="json")), schema, False)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, ArrowIpcError):
        return None  # the expression has an unknown form
    except Exception as error:  # polars cannot write some expressions as JSON, such as functions of Python
        if type(error).__module__.partition(".")[0] != "polars":
            raise
        return None


def _filter(node: Any, schema: Schema, whole: bool) -> Any:
    """Return a node of an expression as a filter, None: it may let anything pass. `whole`: no part may be left out."""
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as op, "right": right}}:
            both = [_filter(left, schema, whole), _filter(right, schema, whole)]
            known = [each for each in both if each is not None]
            if len(known) == 2:
                return (op.lower(), *known)
            return known[0] if op == "And" and known and not whole else None
        case {"Function": {"input": [child], "function": {"Boolean": "Not"}}}:
            inner = _filter(child, schema, True)
            return None if inner is None else ("not", inner)
    try:
        test = _condition(node)
        (path, *_) = Pruner(test, schema).columns  # an error if only polars can compare these
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, ArrowIpcError):
        return None
    # Categories may have their own order in polars.
    ordered = any(part[1] in SWAPPED for part in (test[1:] if test[0] == "and" else [test]))
    coded = [field for field in schema if f"{path}.".startswith(f"{field.name}.") and "dictionary" in str(field.type)]
    return None if ordered and coded else test


def _condition(node: Any) -> Any:
    match node:
        case {"Column": name}:
            return name, "==", True
        case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
            operator = OPERATORS[op]
            if "Literal" in left:
                left, right, operator = right, left, SWAPPED.get(operator, operator)
            return _path(left), operator, _literal(right)
        case {"Function": {"input": [column], "function": {"Boolean": "IsNull" | "IsNotNull" as kind}}}:
            return _path(column), "is_null" if kind == "IsNull" else "is_not_null"
        case {"Function": {"input": [column, values], "function": {"Boolean": {"IsIn": _}}}}:
            return _path(column), "in", _literals(values)
        case {"Function": {"input": [column, low, high], "function": {"Boolean": {"IsBetween": {"closed": ends}}}}}:
            above, below = BETWEEN[ends]
            return "and", (_path(column), above, _literal(low)), (_path(column), below, _literal(high))
        case {"Function": {"input": [column, prefix], "function": {"StringExpr": "StartsWith"}}}:
            return _path(column), "starts_with", _literal(prefix)
    raise ValueError("another kind of expression")


def _path(node: Any) -> str:
    match node:
        case {"Column": str(name)}:
            return name
        case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": str(name)}}}}:
            return f"{_path(inner)}.{name}"
    raise ValueError("not a column")


def _literal(node: Any) -> Any:
    ((kind, value),) = (node["Literal"].get("Scalar") or node["Literal"]["Dyn"]).items()
    match kind:
        case "String" | "Boolean":
            return value
        case "Binary":
            return bytes(value)
        case "Date":
            return (EPOCH + dt.timedelta(days=value)).date()
        case "Time" if value % 1000 == 0:
            return (EPOCH + dt.timedelta(microseconds=value // 1000)).time()
        case "Duration":
            return _span(*value)
        case "Datetime":
            number, unit, zone = value
            moment = EPOCH + _span(number, unit)
            return moment if zone is None else moment.replace(tzinfo=dt.UTC)
    if kind.startswith(("Int", "UInt", "Float")):
        return value
    raise ValueError("another kind of literal")


def _span(number: int, unit: str) -> dt.timedelta:
    count, rest = divmod(number * UNITS[unit], 1000)
    if rest:
        raise ValueError("nanoseconds")
    return dt.timedelta(microseconds=count)


def _literals(node: Any) -> list[Any]:
    """Return the values of a list, which polars writes as an IPC stream."""
    from arrowipc.reader import open_stream

    table = open_stream(bytes(node["Literal"]["Scalar"]["List"])).read_all()
    (column,) = table.to_pydict().values()
    return column


# -- texts ---------------------------------------------------------------------------------------------------

_NAME = r'\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^<>=!"\s][^<>=!"]*?))\s*'
_COMPARED = re.compile(_NAME + r"(?P<operator>==?|!=|<=|>=|<|>)(?P<value>.*)", re.DOTALL)
_CHOSEN = re.compile(_NAME + r"(?<=[\s\"])(?P<operator>(?:not\s+)?in)\s(?P<value>.*)", re.DOTALL | re.IGNORECASE)
_NULL = re.compile(_NAME + r"(?<=[\s\"])is\s+(?P<operator>(?:not\s+)?null)\s*", re.DOTALL | re.IGNORECASE)
_NULLS = {"null": "is_null", "not null": "is_not_null"}


def from_text(conditions: Iterable[str], schema: Schema) -> list[Condition]:
    """Parse conditions such as 'x >= 3', 'city in Oslo,Rome', 'x is null'; values get their columns' types."""
    return [_condition_of(text, schema) for text in conditions]


def _condition_of(text: str, schema: Schema) -> Condition:
    found = _NULL.fullmatch(text) or _COMPARED.fullmatch(text) or _CHOSEN.fullmatch(text)
    if found is None:
        raise UsageError(f"--where {text!r}: not a condition; examples: 'x >= 3', 'city in Oslo,Rome', 'x is null'")
    name = found["quoted"] or found["name"]
    fields = fields_at(tuple(schema), name)
    if not fields:
        raise UsageError(f"--where {text!r}: there is no column {name!r}; there are {', '.join(schema.names[:20])}")
    kind = stored_type(fields[0].type)
    operator = " ".join(found["operator"].lower().split())
    if operator in _NULLS:
        return name, _NULLS[operator]
    try:
        if operator.endswith("in"):
            values = next(csv.reader([found["value"].strip().strip("()")], skipinitialspace=True), [])
            return name, operator, [_value_of(each.strip(), kind) for each in values]
        return name, "==" if operator == "=" else operator, _value_of(found["value"].strip(), kind)
    except (ValueError, ArithmeticError, csv.Error):
        several = "; give --where for each of several conditions" if re.search(r"\s(and|or)\s", text, re.I) else ""
        raise UsageError(
            f"--where {text!r}: column {name!r} is of type {kind}, and the value is not{several}"
        ) from None


def _value_of(text: str, kind: Any) -> Any:
    """Read a value of a type; a text may be in quotes. Times without an offset are UTC if the type has a time zone."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if isinstance(kind, types.Bool):
        return ["false", "true"].index(text.lower()) == 1
    if isinstance(kind, types.Timestamp):
        at, more = read_text(dt.datetime, text)
        at = at.replace(tzinfo=dt.UTC) if kind.timezone is not None and at.tzinfo is None else at
        whole = at.isoformat(timespec="microseconds")
        return f"{whole[:26]}{more:03}{whole[26:]}"
    for many, read in _READ:
        if isinstance(kind, many):
            return read(text)
    return text


def _time(text: str) -> str:
    read_text(dt.time, text)
    return text


#: Types whose values are not texts, and the functions that read them.
_READ: tuple[tuple[Any, Any], ...] = (
    (types.Int, int),
    (types.FloatingPoint, float),
    (types.Decimal, Decimal),
    (types.Date, dt.date.fromisoformat),
    (types.Time, _time),
    ((types.Binary, types.LargeBinary, types.BinaryView, types.FixedSizeBinary), str.encode),
)


# -- rows ----------------------------------------------------------------------------------------------------


def columns_tested(conditions: Iterable[Condition], schema: Schema) -> list[str]:
    """Return the names of the columns that conditions are about, each once."""
    return columns_at(tuple(schema), [path for path, *_ in conditions])


def rows_passing(conditions: list[Condition], batch: RecordBatch) -> Any:
    """Return the numbers of the rows of a batch that meet all conditions, rising, as a NumPy array."""
    import numpy as np

    return np.frombuffer(RowFilter(conditions, batch.schema).rows(batch), np.int64)
