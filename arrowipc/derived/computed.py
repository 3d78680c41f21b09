"""The few computations that people expect of a column or a table: order, counts, places, rows by an expression.

Whatever else is to be computed, libraries do that take the data over without a copy.
"""

from __future__ import annotations

from arrowipc import datatypes as at
from arrowipc.arguments import described, integer_of, items_of
from arrowipc.columns.array import Array
from arrowipc.columns.extensions import FineTimes
from arrowipc.derived.dictionary_encode import distinct_values, numbered
from arrowipc.derived.text_order import text_order
from arrowipc.distinct.memo_table import count_numbers
from arrowipc.errors import UsageError, not_installed
from arrowipc.values.from_python import build_array, build_arrays
from arrowipc.values.libraries import library
from arrowipc.values.to_numpy import split

try:
    import numpy as np
except ModuleNotFoundError as _error:
    raise not_installed(_error) from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from arrowipc.columns.column import Column
    from arrowipc.columns.tabular import Tabular

#: Types whose stored values have the order of the values.
_STORED_IN_ORDER = (at.Int, at.FloatingPoint, at.Bool, at.Timestamp, at.Date, at.Time, at.Duration)
_BYTES = (*at.TEXT, at.Binary, at.LargeBinary, at.BinaryView)
#: Texts that Python sorts faster than NumPy, whose every call takes a microsecond or more.
_MOST_BY_PYTHON = 300
#: Elements that are made at once while one is looked for; times that Python's classes lack equal none of theirs.
_PIECE = 1000
_FOUND_TIMES = FineTimes(lambda _, number: number, None)
_ORDERS = ("ascending", "descending")
_NULLS = ("at_end", "at_start")


def sorted_rows(rows: Any, sorting: Any) -> npt.NDArray[np.int64]:
    """The indices of rows in the order that :meth:`Table.sort_by` describes."""
    keys = []
    for each in [sorting] if isinstance(sorting, str) else items_of("sort_by: sorting", sorting):
        name, *words = each if isinstance(each, (list, tuple)) and each else [each]
        order, nulls = [*words, *("ascending", "at_end")[len(words) :]][:2]
        if not isinstance(name, str | int) or len(words) > 2 or order not in _ORDERS or nulls not in _NULLS:
            raise UsageError(
                "sort_by: expected a name, then 'ascending' or 'descending', then 'at_end' or 'at_start' for nulls, "
                f"found {described(each)}"
            )
        keys += _sort_keys(rows[name], order == "descending", nulls == "at_start")
    if not keys:
        raise UsageError("sort_by: expected a column, or several, found none")
    return np.lexsort(keys[::-1])


def _sort_keys(column: Column, descending: bool, first: bool) -> list[npt.NDArray[Any]]:
    """Numbers that have the order of the values; before them, if there are NaN or nulls, 1 and 2 for these, else 0."""
    array: Any = column.dictionary_decode()._whole()
    if isinstance(array.type, at.RunEndEncoded) and isinstance(array.type.value_type, _STORED_IN_ORDER):
        array = array.cast(array.type.value_type)
    if isinstance(array.type, _STORED_IN_ORDER):
        values, valid = split(array)
        values = values.view({"m": np.int64, "M": np.int64, "b": np.uint8}.get(values.dtype.kind, values.dtype))
        missing = np.isnan(values) * np.int8(1)
        missing = missing if valid is None else np.where(valid, missing, np.int8(2))
    else:
        different, numbers = numbered(array)
        is_null = different.is_null().to_numpy(copy=True)
        present = np.flatnonzero(~is_null)
        places = np.zeros(len(different), np.int64)
        places[present[_order(different.take(present))]] = np.arange(len(present))
        number_of_row = np.frombuffer(numbers, np.int64)
        values, missing = places[number_of_row], is_null[number_of_row] * np.int8(2)
    if some_missing := missing.any():
        values = np.where(missing, values.dtype.type(0), values)
    keys = _in_few_bits(values)
    if descending:
        keys = [-key if key.dtype.kind == "f" else ~key for key in keys]
    return [-missing if first else missing, *keys] if some_missing else keys


def _order(array: Array) -> Any:
    """The indices of distinct values in their order."""
    if isinstance(array.type, _BYTES) and len(array) > _MOST_BY_PYTHON:
        return text_order(array)
    values = array.to_pylist(extensions=False)
    if array.type.children:
        values = list(map(_with_order, values))
    try:
        return sorted(range(len(values)), key=values.__getitem__)
    except TypeError:
        raise UsageError(f"sort_by: values of {array.type} have no order") from None


def _with_order(value: Any) -> Any:
    """A value of a list so that all have an order: NaN, also in lists of lists, comes behind other numbers."""
    if isinstance(value, list):
        return list(map(_with_order, value))
    return (1, 0) if value != value else (0, value)


def _in_few_bits(values: Any) -> list[Any]:
    """Keys with the order of the values: of 16 bits, which NumPy sorts ten times as fast, if one or two suffice."""
    if values.dtype.kind == "f" or (values[1:] >= values[:-1]).all():
        return [values]
    span = int(values.max()) - int(low := values.min())
    if span >= 1 << 32:
        return [values]
    values = (values - low).astype(np.uint32)
    keys = [values.astype(np.uint16)]
    return keys if span < 1 << 16 else [(values >> 16).astype(np.uint16), *keys]


def value_counts(column: Column) -> Array:
    """See :meth:`Array.value_counts`."""
    values, numbers = distinct_values(column)
    counts = np.frombuffer(count_numbers(numbers, len(values)), np.int64)
    made: Array = build_arrays([values, counts], ["values", "counts"]).to_struct_array()
    return made


def index(column: Column, value: Any, start: int | None, end: int | None) -> int:
    """See :meth:`Array.index`."""
    value = value.as_py() if hasattr(value, "as_py") else value  # pyarrow's scalars equal no value of Python
    first = 0 if start is None else integer_of("start", start)
    some: Any = column.slice(first, None if end is None else max(integer_of("end", end) - first, 0))
    kind = column.field.type
    if value is None and not isinstance(kind, at.Dictionary | at.Union | at.RunEndEncoded):  # whose values may be null
        found = some.is_null().to_numpy(copy=True)
        return first + int(found.argmax()) if found.any() else -1
    kind = kind.value_type if isinstance(kind, at.Dictionary) else kind
    if getattr(kind, "unit", None) == "ns":  # pandas and NumPy have classes for times that Python lacks
        try:
            wanted: Any = build_array([value], kind)
        except UsageError:
            return -1
        value = wanted.to_pylist(extensions=_FOUND_TIMES)[0]
    for start in range(0, len(some), _PIECE):
        for number, each in enumerate(some.slice(start, _PIECE).to_pylist(extensions=_FOUND_TIMES), first + start):
            if each == value:
                return number
    return -1


def is_nan(array: Array) -> Array:
    """See :meth:`Array.is_nan`."""
    if not isinstance(array.type, (at.Int, at.FloatingPoint)):
        raise UsageError(f"is_nan: expected a column of numbers, found {array.type}")
    values, valid = split(array)
    found = np.isnan(values)
    if valid is not None:
        found = np.where(valid, found, np.array(None, object))
    return Array.from_pylist(found, "bool")


def mask_by(rows: Tabular, condition: Any) -> Any:
    """The rows for which an expression of pyarrow or polars is true, as their engine says."""
    try:
        if type(condition).__module__.startswith("polars"):
            return rows.to_polars().select(condition.alias("mask")).to_series()
        data = library("pyarrow").table(rows)
        return library("pyarrow.dataset").dataset(data).to_table(columns={"mask": condition}).column("mask")
    except Exception as error:  # of their own classes: a column that is not there, a function without a kernel
        raise UsageError(f"filter: {type(condition).__module__} cannot compute {condition}: {error}") from error
