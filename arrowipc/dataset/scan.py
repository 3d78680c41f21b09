"""Data sets in polars' lazy frames: what a query needs no rows of is not read."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arrowipc.columns.pruning import Pruner
from arrowipc.errors import ArrowIpcError, UnsupportedError, UsageError
from arrowipc.table import Table

if TYPE_CHECKING:
    import polars as pl

    from arrowipc.schema import Schema

__all__ = ["filter_of", "scan_polars"]

OPERATORS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
#: Per microsecond.
UNITS = {"Nanoseconds": 1000, "Microseconds": 1, "Milliseconds": 1}
EPOCH = dt.datetime(1970, 1, 1)


def scan_polars(dataset: Any, **options: Any) -> pl.LazyFrame:
    """Make a lazy frame of a data set: polars reads the columns, files and batches that a query needs.

    Parameters
    ----------
    dataset : Dataset, or what `open_dataset` opens
    **options
        Of `open_dataset`.

    Returns
    -------
    polars.LazyFrame
        What statistics rule out of its filters is not read: comparisons of columns with literals, ``is_in``,
        ``is_between``, ``starts_with``, nulls, and what "and", "or" and "not" make of them. polars filters the rest.

    Raises
    ------
    UnsupportedError
        polars is not installed, or does not know the type of a column.
    UsageError
        Options were given for a data set that is open; else as for `open_dataset`.

    Examples
    --------
    >>> import polars as pl
    >>> import arrowipc as ipc
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with ipc.new_file(folder + "/0.arrow", statistics=True) as writer:
    ...         writer.write({"x": [1, 2, 3]})
    ...     ipc.scan_polars(folder).filter(pl.col("x") > 2).collect().to_dicts()
    [{'x': 3}]
    """
    try:
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise UnsupportedError(f"scan_polars needs polars 1.5 or newer: pip install polars ({error})") from None
    if not (hasattr(dataset, "select") and hasattr(dataset, "filter")):
        from arrowipc.dataset.dataset import open_dataset

        dataset = open_dataset(dataset, **options)
    elif options:
        raise UsageError(f"scan_polars: the data set is open already; {', '.join(options)} have no effect")
    schema: Schema = dataset.schema
    nothing = Table(schema, []).to_polars()

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        # A limit counts the rows before the predicate: then no batch may be left out.
        test = None if predicate is None or n_rows is not None else filter_of(predicate, schema)
        chosen = dataset if test is None else dataset.filter(test)
        if columns is not None:
            needed = {*columns, *([] if predicate is None else predicate.meta.root_names())}
            chosen = chosen.select([name for name in schema.names if name in needed])
        left = n_rows
        for batch in chosen:
            if left is not None:
                batch = batch.slice(0, left)
                left -= len(batch)
            yield _part(batch.to_polars(), columns, predicate)
            if left == 0:
                return
        yield nothing if columns is None else nothing.select(columns)

    return register_io_source(frames, schema=nothing.schema)


def _part(frame: pl.DataFrame, columns: list[str] | None, predicate: pl.Expr | None) -> pl.DataFrame:
    if predicate is not None:
        frame = frame.filter(predicate)
    return frame if columns is None else frame.select(columns)


def filter_of(predicate: pl.Expr, schema: Schema) -> Any:
    """The filter for `Pruner` that all rows pass which pass a predicate of polars; None: nothing is ruled out."""
    try:
        return _filter(json.loads(predicate.meta.serialize(format="json")), schema, False)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, ArrowIpcError):
        return None  # an expression of a form that we do not know
    except Exception as error:  # what polars itself cannot spell as JSON, such as functions of Python
        if type(error).__module__.partition(".")[0] != "polars":
            raise
        return None


def _filter(node: Any, schema: Schema, whole: bool) -> Any:
    """A node of an expression as a filter, None where it may let anything pass; `whole`: and where that is not all."""
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
        (path, *_) = Pruner(test, schema).columns  # polars compares more than we do
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, ArrowIpcError):
        return None
    # Categories may have an order of their own.
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
    if number % UNITS[unit]:
        raise ValueError("nanoseconds")
    return (
        dt.timedelta(milliseconds=number)
        if unit == "Milliseconds"
        else dt.timedelta(microseconds=number // UNITS[unit])
    )


def _literals(node: Any) -> list[Any]:
    """The values of a list, which polars spells as an IPC stream."""
    from arrowipc.opening import open_stream

    table = open_stream(bytes(node["Literal"]["Scalar"]["List"])).read_all()
    (column,) = table.to_pydict().values()
    return column
