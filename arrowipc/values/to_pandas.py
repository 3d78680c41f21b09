"""Batches and arrays as pandas frames and series; these are the same with and without pyarrow.

pyarrow is used for two things: text in the form in which pandas keeps it, and columns to which options of its own
``to_pandas`` apply. The notes of pandas in a schema (index, names, dtypes, attributes) are always read here.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc._core import aligned_buffer
from arrowipc.columns.array import Array
from arrowipc.columns.column import Column
from arrowipc.columns.extensions import FineTimes
from arrowipc.columns.record_batch import RecordBatch, concat_batches
from arrowipc.errors import ArrowIpcError, LimitError, UnsupportedError, named_column, not_installed
from arrowipc.values.libraries import library
from arrowipc.values.to_numpy import indices_of, lists_of, split, stored_dtype, with_nulls

try:
    import numpy as np
except ModuleNotFoundError as _error:
    raise not_installed(_error) from None

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from arrowipc.schemas import Schema

NUMBERS = at.Bool | at.Duration | at.FloatingPoint | at.Int | at.Timestamp
#: Dtypes that pyarrow makes by default. Such columns are converted here: pyarrow's would lack digits, time zones of
#: categories, and dtypes that pandas noted.
BY_DEFAULT: dict[type[at.DataType], str] = {at.Int: "float64", at.Dictionary: "category", at.Utf8: "str"}
BY_DEFAULT |= {at.LargeUtf8: "str", at.Utf8View: "str"}
#: float64 holds every integer from minus this to this.
EXACT = 2**53
#: Copying a batch of fewer rows takes less time than a call of pandas or NumPy.
SMALL = 10_000
#: Rows of an array that to_pylist always accepts, even if they are few bytes.
MANY = 1 << 24


def to_pandas(data: Any, options: dict[str, Any]) -> Any:
    """Return a pandas DataFrame, or a Series if `data` is a column; see :meth:`arrowipc.RecordBatch.to_pandas`."""
    pd = library("pandas")
    ignore = options.pop("ignore_metadata", False)
    if isinstance(data, Column):
        values = _column(pd, data.field, data._arrays(), options, None)
        return pd.Series(values, dtype=values.dtype, name=data.field.name or None, copy=False)
    batches = [data] if isinstance(data, RecordBatch) else _joined(data.batches)
    parts, columns, names = [batch.columns for batch in batches], [], data.schema.names
    with _named("what pandas noted in the schema"):
        notes = _Notes(None if ignore else data.schema)
        for i, field in enumerate(data.schema):
            columns.append(_column(pd, field, [part[i] for part in parts], options, notes.dtypes.get(field.name)))
        index, kept = notes.index(pd, names, columns, sum(map(len, batches)))
        labels = notes.labels(pd, [names[i] for i in kept])
    data = {i: columns[i] for i in kept}
    for i, values in data.items():
        if values.dtype.kind not in "biuf":  # from a bare array, pandas would infer another dtype
            data[i] = pd.Series(values, index, values.dtype, copy=False)
    frame = pd.DataFrame(data, index, copy=False)
    frame.columns, frame.attrs = labels, notes.attributes
    return frame


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Replace errors of pandas and pyarrow by one that names what they cannot take."""
    try:
        yield
    except (ArrowIpcError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, TypeError) and "unexpected keyword" in str(error):
            raise  # an option of the caller
        raise UnsupportedError(
            f"pandas cannot take {what}: columns=[...] of the reader or select() leaves columns out, and "
            f"to_pandas(ignore_metadata=True) the notes of pandas (it says: {str(error).partition(chr(10))[0][:200]})"
        ) from error


def _joined(batches: list[RecordBatch]) -> list[RecordBatch]:
    """Return small batches as one, unless a column would become too long for its type or for to_pylist."""
    if len(batches) > 1 and sum(map(len, batches)) < min(SMALL * len(batches), MANY):
        try:
            return [concat_batches(batches)]
        except (LimitError, UnsupportedError):
            pass
    return batches


# -- columns: arrays of NumPy or pandas ----------------------------------------------------------------------


def _column(pd: Any, field: at.Field, arrays: list[Array], options: dict[str, Any], noted: str | None) -> Any:
    kind, values = field.type, None
    with _named(f"{named_column(field.name)} ({kind})"):
        if options:
            pa = library("pyarrow")
            column = _chunked(arrays, pa.field(field).type)
            series = pa.table([column], [field.name]).to_pandas(**options).iloc[:, 0]
            if str(series.dtype) != BY_DEFAULT.get(type(kind)):
                values = series.array
                if isinstance(series.dtype, pd.api.extensions.ExtensionDtype):
                    return values
        if values is None:
            values = (_categorical if isinstance(kind, at.Dictionary) else _decoded)(pd, kind, arrays)
        noted = noted or _own_dtype(field)
        return values if noted is None else _as_noted(pd, values, noted, arrays)


def _categorical(pd: Any, kind: Any, arrays: list[Array]) -> Any:
    """Return a Categorical; plain values if pandas cannot use the dictionary's as categories, such as lists.

    It is ordered if the dictionary is; several dictionaries need to have their values in one order.
    """
    dictionaries: list[Array] = []
    codes, size = [np.empty(0, np.int64)], 0
    for array in arrays:
        indices, valid = indices_of(array, kind)
        words = array.dictionary or Array.from_pylist([], kind.value_type)
        if not dictionaries or words != dictionaries[-1]:
            size += len(dictionaries[-1]) if dictionaries else 0
            dictionaries.append(words)
        codes.append(indices + size if valid is None else np.where(valid, indices + size, -1))
    numbers, values = np.concatenate(codes), _decoded(pd, kind.value_type, dictionaries)
    if values.dtype == np.float16:  # pandas has no index of float16
        values = values.astype(np.float32)
    dtype = object if isinstance(kind.value_type, at.TEXT) and not len(values) else values.dtype  # as in pyarrow
    categories = pd.Index(values, dtype=dtype, tupleize_cols=False)
    ordered = kind.ordered
    try:
        if not categories.is_unique or categories.hasnans:
            renumbered, categories = pd.factorize(categories)
            numbers = np.append(renumbered, -1)[numbers]
            parts = np.split(renumbered, np.cumsum(list(map(len, dictionaries)))[:-1])
            ordered = ordered and all((np.diff(part[part >= 0]) >= 0).all() for part in parts)
    except TypeError:  # unhashable
        return _decoded(pd, kind, arrays)
    return pd.Categorical.from_codes(numbers, categories, ordered)


def _decoded(pd: Any, kind: at.DataType, arrays: list[Array], inside: bool = False) -> Any:
    """Return decoded values; `inside`: they are elements of lists, where text becomes objects, not pandas' dtype."""
    while isinstance(kind, at.Dictionary | at.RunEndEncoded):
        kind = kind.value_type
    if isinstance(kind, NUMBERS):
        return _numbers(pd, kind, arrays)
    if not isinstance(kind, at.TEXT) or inside or int(pd.__version__.partition(".")[0]) < 3:
        return _objects(pd, kind, arrays)
    dtype = pd.StringDtype(na_value=np.nan)
    plain = [array for array in arrays if array.type == kind and array.field.extension_name is None]
    if dtype.storage == "python" or not arrays or len(plain) < len(arrays):
        return pd.array(_objects(pd, kind, arrays), dtype)
    return dtype.__from_arrow__(_chunked(arrays))


def _chunked(arrays: list[Array], kind: Any = None) -> Any:
    """Return a ChunkedArray of pyarrow, of pyarrow's type `kind`; None: of the type of the arrays."""
    pa = library("pyarrow")
    return pa.chunked_array([pa.array(_with_zeros(array)) for array in arrays], kind)


def _with_zeros(array: Array) -> Array:
    """Return an array that pyarrow can cast: 26.0.1 also reads views under nulls, and crashes if they are not valid."""
    is_view = isinstance(array.type, at.Utf8View | at.BinaryView)
    return array.take(range(len(array))) if is_view and array.null_count else array


def _numbers(pd: Any, kind: at.DataType, arrays: list[Array]) -> Any:
    parts = [split(array) for array in arrays]
    has_nulls = any(valid is not None for _, valid in parts)
    if has_nulls and isinstance(kind, at.Int) and not all(_fit_floats(part) for part, _ in parts):
        # Values under nulls are arbitrary: replace them before the check.
        values = np.concatenate([part if valid is None else np.where(valid, part, 0) for part, valid in parts])
        if not _fit_floats(values):
            null = np.concatenate([np.zeros(len(part), bool) if valid is None else ~valid for part, valid in parts])
            return pd.arrays.IntegerArray(values, null)
    pieces = [
        part if valid is None else with_nulls(array, part, valid)
        for array, (part, valid) in zip(arrays, parts, strict=True)
    ]
    values = _one(pieces, np.dtype(bool) if isinstance(kind, at.Bool) else stored_dtype(kind))
    if isinstance(kind, at.Timestamp) and kind.timezone is not None:
        return pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(kind.timezone).array
    return values


def _one(pieces: list[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    """Return the pieces as one array that may be written to; `dtype` is that of no pieces."""
    if len(pieces) == 1 and pieces[0].flags.writeable:
        return pieces[0]
    dtype, length = np.result_type(*pieces) if pieces else dtype, sum(map(len, pieces))
    if dtype.hasobject or not length:
        return np.concatenate([np.empty(0, dtype), *pieces])
    # Our memory is used again, while the kernel zeroes new memory: twice the time.
    return np.concatenate(pieces, out=np.frombuffer(memoryview(aligned_buffer(length * dtype.itemsize)), dtype))


def _fit_floats(values: npt.NDArray[Any]) -> bool:
    """Whether float64 holds all of these integers."""
    return len(values) == 0 or bool(values.min() >= -EXACT and values.max() <= EXACT)


def _objects(pd: Any, kind: at.DataType, arrays: list[Array]) -> npt.NDArray[Any]:
    """Return an array of Python objects; lists become NumPy arrays."""
    if isinstance(kind, at.LISTS) and all(array.type == kind for array in arrays):
        return lists_of(kind, arrays, lambda elements: _decoded(pd, kind.value_type, elements, inside=True))
    cells: list[Any] = []
    times: Any = FineTimes(partial(_time, pd))
    for array in arrays:
        cells += array.to_pylist(extensions=True if array.field.extension_name == "arrow.uuid" else times)
    if kind == at.Interval("month_day_nano"):
        cells = [None if span is None else pd.DateOffset(**span._asdict()) for span in cells]
    return np.fromiter(cells, object, len(cells))


def _time(pd: Any, kind: Any, number: int) -> Any:
    """Return a time with a fraction of a microsecond; a time of day stays a number: pandas has no class for it."""
    if isinstance(kind, at.Timestamp):
        return pd.Timestamp(number, tz="UTC").tz_convert(kind.timezone)
    return number if isinstance(kind, at.Time) else pd.Timedelta(number)


def _own_dtype(field: at.Field) -> str | None:
    """Return the dtype of a column whose extension type is that of periods or intervals of pandas; else None."""
    if field.extension_name not in ("pandas.period", "pandas.interval"):
        return None
    try:
        found = dict(json.loads(field.extension_metadata or b""))
    except (TypeError, ValueError):
        return None
    if field.extension_name == "pandas.period":
        return f"period[{found.get('freq')}]"
    (part, *_) = field.type.children or (field,)
    zone = f", {part.type.timezone}]" if isinstance(part.type, at.Timestamp) and part.type.timezone else "]"
    return f"interval[{str(stored_dtype(part.type)).replace(']', zone)}, {found.get('closed')}]"


def _as_noted(pd: Any, values: Any, noted: str, arrays: list[Array]) -> Any:
    """Return the values in the dtype that they had in pandas, if it is one of pandas itself and not of NumPy."""
    try:
        dtype = pd.api.types.pandas_dtype(noted)
    except (ImportError, TypeError, ValueError):  # the dtype of a library that is not installed
        return values
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.__from_arrow__(_chunked(arrays, dtype.pyarrow_dtype))
    if isinstance(dtype, pd.PeriodDtype):
        ordinals = pd.array(values, "Int64").to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
        return pd.arrays.PeriodArray(ordinals, dtype=dtype)
    if isinstance(dtype, pd.IntervalDtype):
        pairs = [np.nan if each is None else (each["left"], each["right"]) for each in values]
        return pd.arrays.IntervalArray.from_tuples(pairs, dtype.closed, dtype=dtype)
    nullable = getattr(dtype, "na_value", None) is pd.NA and not isinstance(values, pd.Categorical)
    return pd.array(values, dtype) if nullable else values


# -- what pandas noted in the schema -------------------------------------------------------------------------


class _Notes:
    """Index, names, dtypes and attributes of the frame from which a schema was made."""

    def __init__(self, schema: Schema | None) -> None:
        found = {} if schema is None else json.loads(schema.metadata.get("pandas", b"{}"))
        self._index: list[Any] = found.get("index_columns") or []
        self._levels: list[dict[str, Any]] = found.get("column_indexes") or [{}]
        self._columns = {each.get("field_name", each["name"]): each for each in found.get("columns") or []}
        self.dtypes = {name: str(each["numpy_type"]) for name, each in self._columns.items()}
        self.attributes: dict[Any, Any] = dict(found.get("attributes") or {})

    def index(self, pd: Any, names: list[str], columns: list[Any], rows: int) -> tuple[Any, list[int]]:
        """Return the index, and the numbers of the columns that are not part of it."""
        kept, levels = list(range(len(names))), []
        for each in self._index:
            if isinstance(each, dict):
                levels.append(pd.RangeIndex(each["start"], each["stop"], each["step"], name=each["name"]))
            elif each in names:
                kept.remove(place := names.index(each))
                title = self._columns[each]["name"]
                title = None if title == each and re.fullmatch(r"__index_level_\d+__", each) else title
                levels.append(pd.Index(columns[place], dtype=columns[place].dtype, name=title))
        levels = [level for level in levels if len(level) == rows]  # lengths differ if rows were taken
        if len(levels) > 1:
            return pd.MultiIndex.from_arrays(levels), kept
        return levels[0] if levels else pd.RangeIndex(rows), kept

    def labels(self, pd: Any, names: list[str]) -> Any:
        """Return the names of columns as they were in pandas."""
        texts = [self._columns.get(name, {}).get("name", name) for name in names]
        if len(self._levels) == 1:
            return _labels(pd, texts, self._levels[0])
        rows = [literal_eval(text) for text in texts]
        return pd.MultiIndex.from_arrays(
            [_labels(pd, [row[i] for row in rows], note) for i, note in enumerate(self._levels)]
        )


def _labels(pd: Any, texts: list[Any], note: dict[str, Any]) -> Any:
    """Return names of columns, which are text in a schema, in the type that they had in pandas."""
    kind, dtype, name = note.get("pandas_type"), note.get("numpy_type") or "", note.get("name")
    change: Any = {"bytes": str.encode, "decimal": Decimal, "bool": "True".__eq__}.get(str(kind))
    if change is not None:
        return pd.Index([change(text) for text in texts], name=name)
    if kind == "datetimetz":
        found = pd.to_datetime(pd.Index(texts, name=name), utc=True).tz_convert(note["metadata"]["timezone"])
        return found.as_unit(np.datetime_data(dtype)[0])
    found = pd.Index(texts, name=name)
    if dtype == "object" and kind in ("integer", "floating", "datetime"):
        return found.astype({"integer": "int64", "floating": "float64"}.get(str(kind), "datetime64[us]")).astype(object)
    keeps = kind != "categorical" and re.match(r"(?i)(datetime64\[|float|str$|timedelta64\[|u?int)", dtype)
    return found.astype(dtype) if keeps else found
