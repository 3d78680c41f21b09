"""Columns as the objects of other libraries, by name: pyarrow, polars, pandas, NumPy's records, narwhals.

All of them can also take ours by the PyCapsule interface; these functions are for people who look for a method.
pandas is reached through pyarrow where that is installed, and through NumPy's buffers and pandas' nullable dtypes
where it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arrowipc.columns.array import Array, RecordBatch
from arrowipc.datatypes import (
    Bool,
    Decimal,
    Dictionary,
    FloatingPoint,
    Int,
    Interval,
    LargeListView,
    LargeUtf8,
    ListView,
    RunEndEncoded,
    Timestamp,
    Union,
    Utf8,
    Utf8View,
)
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.values.to_numpy import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import numpy.typing as npt

    from arrowipc.datatypes import DataType
    from arrowipc.schema import Schema

__all__ = ["from_pandas", "from_records", "narwhals_frame", "to_arrow", "to_pandas", "to_polars", "to_records"]


def _library(name: str, package: str | None = None) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"this needs {name}: pip install {package or name}") from error


def to_arrow(data: Any) -> Any:
    """A pyarrow RecordBatch, Table or Array over the same memory."""
    pa = _library("pyarrow")
    if isinstance(data, RecordBatch):
        return pa.record_batch(data)
    return pa.array(data) if isinstance(data, Array) else pa.table(data)


def to_polars(data: Any) -> Any:
    """A polars DataFrame, or of an array a Series."""
    pl = _library("polars")
    taken = data
    if not hasattr(pl.DataFrame, "__arrow_c_stream__"):  # it takes only what pyarrow has
        pa = _library("pyarrow", f"pyarrow, or 'polars>=1.3' in place of {pl.__version__}")
        taken = pa.array(data) if isinstance(data, Array) else pa.table(data)
    try:
        return pl.Series(data.field.name, taken) if isinstance(data, Array) else pl.DataFrame(taken)
    except BaseException as error:
        # Types that it does not know are a panic of Rust's, which is no Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise _refused("polars", data, error) from error
        raise


def _refused(library: str, data: Any, error: BaseException) -> UnsupportedError:
    """What to do about columns that a library does not know."""
    fields = [data.field] if isinstance(data, Array) else data.schema
    rare = ", ".join([f"{field.name!r} ({field.type})" for field in fields if _is_rare(field.type)])
    return UnsupportedError(
        f"{library} cannot take {rare or 'these columns'}: columns=[...] of the reader or select() leaves columns out; "
        f"to_arrow(), to_numpy() and to_pylist() take all types (it says: {str(error).partition(chr(10))[0][:200]})"
    )


def _is_rare(kind: DataType) -> bool:
    """Whether many libraries lack a type, or one inside it."""
    if isinstance(kind, Dictionary):
        return _is_rare(kind.value_type)
    return (
        isinstance(kind, (Interval, LargeListView, ListView, RunEndEncoded, Union))
        or (isinstance(kind, Decimal) and kind.bit_width == 256)
        or any(_is_rare(child.type) for child in kind.children)
    )


def to_pandas(data: Any, options: dict[str, Any]) -> Any:
    """A pandas DataFrame, or of an array a Series; `options` are those of pyarrow's ``to_pandas``."""
    pd = _library("pandas")
    try:
        arrow = to_arrow(data)
    except UsageError:
        if options:
            raise UsageError(f"to_pandas: {', '.join(options)} need pyarrow, which is not installed") from None
        return _series(pd, data) if isinstance(data, Array) else _frame(pd, data)
    try:
        return arrow.to_pandas(**options)
    except NotImplementedError as error:
        raise _refused("pandas", data, error) from error


def from_pandas(frame: Any, options: dict[str, Any]) -> Any:
    """A pandas DataFrame as a pyarrow RecordBatch; `options` are those of pyarrow's ``from_pandas``."""
    return _library("pyarrow").RecordBatch.from_pandas(frame, **options)


def narwhals_frame(data: Any) -> Any:
    """What ``narwhals.from_native`` asks an object for: the frame of a library that it knows."""
    narwhals = _library("narwhals")
    try:
        native = _library("pyarrow").table(data)
    except UsageError:
        native = to_polars(data)
    return narwhals.from_native(native, eager_only=True)._compliant_frame


# -- pandas without pyarrow ----------------------------------------------------------------------------------


def _frame(pd: Any, data: Any) -> Any:
    batch = data if isinstance(data, RecordBatch) else data.combine()
    frame = pd.concat([_series(pd, column) for column in batch.columns], axis=1)
    frame.columns = data.schema.names
    return frame


def _series(pd: Any, array: Array) -> Any:
    """The column as a pandas user expects it: nullable numbers and text, NaT, zones, categories; else objects."""
    kind = array.type
    null = ~np.array(array.is_valid(), bool)
    if isinstance(kind, Dictionary):
        words = array.dictionary
        codes = np.where(null, -1, _numbers(array, kind.index_type).astype(np.int64))
        values = pd.Categorical.from_codes(codes, [] if words is None else words.to_pylist(), ordered=kind.ordered)
    elif isinstance(kind, Int):
        values = pd.arrays.IntegerArray(_numbers(array, kind), null)
    elif isinstance(kind, FloatingPoint) and kind.precision != "half":
        values = pd.arrays.FloatingArray(_numbers(array, kind), null)
    elif isinstance(kind, Bool):
        values = pd.array(array.to_pylist(), "boolean")
    elif isinstance(kind, Utf8 | LargeUtf8 | Utf8View):
        values = pd.array(array.to_pylist(), "str" if int(pd.__version__.partition(".")[0]) >= 3 else "string")
    elif isinstance(kind, Timestamp):
        values = pd.Series(array.to_numpy(copy=True)).array
        if kind.timezone is not None:
            values = pd.Series(values).dt.tz_localize("UTC").dt.tz_convert(kind.timezone).array
    else:
        try:
            values = pd.array(array.to_numpy(copy=True), copy=False)
        except (UsageError, ValueError):
            values = np.array([*array.to_pylist(), None], object)[:-1]
    return pd.Series(values, name=array.field.name)


def _numbers(array: Array, kind: DataType) -> npt.NDArray[Any]:
    """What an array stores, whatever stands where it is null; `kind` is its type, or that of its indices."""
    stored = np.frombuffer(array.buffers()[1] or b"", stored_dtype(kind), array.offset + len(array))
    return stored[array.offset :].copy()


# -- NumPy's records -----------------------------------------------------------------------------------------


def to_records(batches: Sequence[RecordBatch], schema: Schema) -> npt.NDArray[Any]:
    """Rows as a structured array, a field for each column; always a copy. Nulls are as in ``to_numpy(copy=True)``."""
    columns = [[batch.column(i).to_numpy(copy=True) for batch in batches] for i in range(len(schema))]
    parts = [np.concatenate(column) if column else np.empty(0, object) for column in columns]
    dtype = np.dtype([(name, part.dtype, part.shape[1:]) for name, part in zip(schema.names, parts, strict=True)])
    out = np.empty(sum(map(len, batches)), dtype)
    for name, part in zip(schema.names, parts, strict=True):
        out[name] = part
    return out


def from_records(array: npt.NDArray[Any]) -> RecordBatch:
    """A structured array as a batch, a column for each field; numbers that are not contiguous are copied."""
    if array.dtype.names is None or array.ndim != 1:
        raise UsageError(f"expected a structured array of one dimension, found {array.dtype} in {array.ndim}")
    return RecordBatch.from_pydict({name: np.ascontiguousarray(array[name]) for name in array.dtype.names})
