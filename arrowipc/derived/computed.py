"""The few computations that people expect of a column or a table: order, counts, places, rows by an expression.

Whatever else is to be computed, libraries do that take the data over without a copy.
"""

from __future__ import annotations

from arrowipc import datatypes as at
from arrowipc.arguments import described, integer_of
from arrowipc.columns.array import Array
from arrowipc.derived.dictionary_encode import encoded_like
from arrowipc.errors import UsageError, not_installed
from arrowipc.values.from_python import build_arrays
from arrowipc.values.libraries import library
from arrowipc.values.to_numpy import indices_of, split

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
_ORDERS = ("ascending", "descending")
_NULLS = ("at_end", "at_start")


def sorted_rows(rows: Any, sorting: Any) -> npt.NDArray[np.int64]:
    """The indices of rows in the order that :meth:`Table.sort_by` describes."""
    keys = []
    for each in [sorting] if isinstance(sorting, str) else list(sorting):
        name, *words = [each] if isinstance(each, str) else list(each) or [None]
        order, nulls = [*words, *("ascending", "at_end")[len(words) :]][:2]
        if name is None or len(words) > 2 or order not in _ORDERS or nulls not in _NULLS:
            raise UsageError(
                "sort_by: expected a name, then 'ascending' or 'descending', then 'at_end' or 'at_start' for nulls, "
                f"found {described(each)}"
            )
        keys.append(_ranks(rows[name], order == "descending", nulls == "at_start"))
    if not keys:
        raise UsageError("sort_by: expected a column, or several, found none")
    return np.lexsort(keys[::-1])


def _ranks(column: Column, descending: bool, first: bool) -> npt.NDArray[Any]:
    """Numbers in the order of the values; beyond all of them those of NaN, then those of nulls: below if `first`."""
    array: Any = column.dictionary_decode()._whole()
    if isinstance(array.type, _STORED_IN_ORDER):
        values, valid = split(array)
        values = values.view(np.int64) if values.dtype.kind in "mM" else values
        missing = np.zeros(len(values), np.int64) if valid is None else 2 * ~valid
        missing = np.maximum(missing, np.isnan(values))
        kept = np.where(missing > 0, values.dtype.type(0), values)
        ranks = np.unique(kept, return_inverse=True)[1].astype(np.int64)
    else:
        encoded = array.dictionary_encode()
        indices, valid = indices_of(encoded, encoded.type)
        words = encoded.dictionary.to_pylist(extensions=False) if encoded.dictionary is not None else []
        try:
            order = sorted(range(len(words)), key=words.__getitem__)
        except TypeError:
            raise UsageError(f"sort_by: values of {array.type} have no order") from None
        places = np.empty(max(len(words), 1), np.int64)
        places[order] = np.arange(len(words))
        ranks, missing = places[indices], np.zeros(len(indices), np.int64) if valid is None else 2 * ~valid
    beyond = len(ranks) + missing
    return np.where(missing > 0, -beyond if first else beyond, -ranks if descending else ranks)


def value_counts(column: Column) -> Array:
    """See :meth:`Array.value_counts`."""
    array = column.dictionary_decode()._whole()
    kind = at.Dictionary(at.Int(32, True), array.type)
    indices, valid = indices_of(encoded := array.cast(kind), kind)
    words = encoded.dictionary or array.slice(0, 0)
    counts = np.bincount(indices if valid is None else indices[valid], minlength=len(words))
    distinct = words if valid is None and not array.field.extension_name else column.dictionary_decode().unique()
    if valid is not None:
        null = _place_of_null(distinct)
        counts = np.insert(counts, null, np.count_nonzero(~valid))
    made: Array = build_arrays(
        [encoded_like(column, distinct), counts.astype(np.int64)], ["values", "counts"]
    ).to_struct_array()
    return made


def _place_of_null(distinct: Array) -> int:
    """Where the null is: in the bitmap, or, of run-end encoded values and unions, below."""
    nulls = distinct.is_null().to_pylist()
    return nulls.index(True) if True in nulls else distinct.to_pylist(extensions=False).index(None)


def index(column: Column, value: Any, start: int | None, end: int | None) -> int:
    """See :meth:`Array.index`."""
    first = 0 if start is None else integer_of("start", start)
    some: Any = column.slice(first, None if end is None else max(integer_of("end", end) - first, 0))
    if value is None:
        found = some.is_null().to_numpy(copy=True)
        return first + int(found.argmax()) if found.any() else -1
    return next((first + at for at, each in enumerate(some) if each == value), -1)


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
        return library("pyarrow.dataset", "pyarrow").dataset(data).to_table(columns={"mask": condition}).column("mask")
    except Exception as error:  # of their own classes: a column that is not there, a function without a kernel
        raise UsageError(f"filter: {type(condition).__module__} cannot compute {condition}: {error}") from error
