"""What people write after `--where`: filters by which batches are left out, then rows.

Times without an offset are UTC. Rows are compared by pyarrow or polars, whichever is there, as in SQL: nothing but
`is null` is true of a null.
"""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from arrowipc import types
from arrowipc.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arrowipc.columns.array import RecordBatch
    from arrowipc.schema import Schema

    #: A column (a name or a dotted path), an operator, and the value where it has one.
    Condition = tuple[Any, ...]

__all__ = ["columns_tested", "filters_of", "matcher", "where_option"]

where_option: Callable[[Any], Any] = click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only such rows: 'x >= 3', 'city in Oslo,Rome', 'x is null'; several: all must hold. Batches and files that "
    "can hold none, by their statistics and folders, are not read.",
)

_NAME = r'\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^<>=!"\s][^<>=!"]*?))\s*'
_COMPARED = re.compile(_NAME + r"(?P<operator>==?|!=|<=|>=|<|>)(?P<value>.*)", re.DOTALL)
_CHOSEN = re.compile(_NAME + r"(?<=[\s\"])(?P<operator>(?:not\s+)?in)\s(?P<value>.*)", re.DOTALL | re.IGNORECASE)
_NULL = re.compile(_NAME + r"(?<=[\s\"])is\s+(?P<operator>(?:not\s+)?null)\s*", re.DOTALL | re.IGNORECASE)
_NULLS = {"null": "is_null", "not null": "is_not_null"}


def filters_of(conditions: Iterable[str], schema: Schema) -> list[Condition]:
    """Take conditions apart; values are read as the types of their columns say."""
    return [_filter_of(text, schema) for text in conditions]


def _filter_of(text: str, schema: Schema) -> Condition:
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


# -- rows ----------------------------------------------------------------------------------------------------


def columns_tested(conditions: Iterable[Condition], schema: Schema) -> list[str]:
    """Names of the columns that conditions are about, each once."""
    names = set(schema.names)
    return list(dict.fromkeys([path if path in names else path.split(".")[0] for path, *_ in conditions]))


def matcher(conditions: list[Condition]) -> Callable[[RecordBatch], Any]:
    """Make what tells the rows of a batch that meet all conditions, as a NumPy array of their numbers, rising.

    Raises
    ------
    UnsupportedError
        Neither pyarrow nor polars is there, or a value cannot be compared with its column.
    """
    for engine, tested in (("pyarrow", _by_pyarrow), ("polars", _by_polars)):
        if find_spec(engine):
            return partial(_matching, import_module(engine), tested, conditions)
    raise UnsupportedError(
        "--where compares values by pyarrow or polars, and neither is installed: python -m pip install pyarrow"
    )


def _matching(engine: Any, tested: Any, conditions: list[Condition], batch: RecordBatch) -> Any:
    import numpy as np

    if not len(batch):
        return np.zeros(0, np.int64)
    found: Any = True
    for condition in conditions:
        path, operator = condition[:2]
        column, *members = (path,) if path in batch.schema.names else path.split(".")
        try:
            one = tested(engine, batch.column(column), members, operator, condition[2] if len(condition) > 2 else None)
        except Exception as error:  # each library has errors of its own for what it cannot compare
            shown = " ".join(str(each) for each in condition)
            raise UnsupportedError(f"--where {shown!r}: {engine.__name__} cannot compare this: {error}") from None
        found = found & one
    return np.flatnonzero(found)


def _by_pyarrow(pa: Any, column: Any, members: list[str], operator: str, value: Any) -> Any:
    """Test one condition; None where nobody knows is False."""
    pc = import_module("pyarrow.compute")
    array = pa.array(column)
    for name in members:
        array = pc.struct_field(array, name)
    array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    array = pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array
    if array.type in (pa.string_view(), pa.binary_view()):
        array = array.cast(pa.large_string() if array.type == pa.string_view() else pa.large_binary())

    def literal(each: Any) -> Any:
        try:
            return pa.scalar(each, array.type)
        except (pa.ArrowException, OverflowError):  # of more digits than the column has
            return pa.scalar(each)

    tests = {"==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater}
    tests[">="] = pc.greater_equal
    if operator in tests:
        found = tests[operator](array, literal(value))
    elif operator.endswith("null"):
        found = pc.is_null(array) if operator == "is_null" else pc.is_valid(array)
    else:
        found = pc.and_(pc.is_valid(array), False)
        for each in value:
            found = pc.or_(found, pc.equal(array, literal(each)))
        found = pc.and_(pc.is_valid(array), pc.invert(found)) if operator == "not in" else found
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


def _by_polars(pl: Any, column: Any, members: list[str], operator: str, value: Any) -> Any:
    """Test one condition; None where nobody knows is False."""
    series = column.to_polars()
    for name in members:
        series = series.struct.field(name)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    one = pl.col("x")

    def literal(each: Any) -> Any:
        if isinstance(each, datetime) and each.tzinfo is not None:
            return each.astimezone(ZoneInfo(series.dtype.time_zone))
        return pl.lit(each, dtype=pl.Int64) if type(each) is int and -(2**63) <= each < 2**63 else each

    tests = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
    if operator in tests:
        found = getattr(one, tests[operator])(literal(value))
    elif operator.endswith("null"):
        found = one.is_null() if operator == "is_null" else one.is_not_null()
    else:
        found = pl.any_horizontal(pl.lit(False), *[one == literal(each) for each in value])
        found = one.is_not_null() & ~found if operator == "not in" else found
    return pl.DataFrame({"x": series}).select(found.fill_null(False)).to_series().to_numpy()
