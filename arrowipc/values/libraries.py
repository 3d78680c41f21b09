"""Columns as the objects of other libraries, by name: pyarrow, polars, pandas, NumPy's records, narwhals.

All of them can also take ours by the PyCapsule interface; these functions are for people who look for a method.
The way to pandas has a module of its own, ``to_pandas``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc.arguments import instance_of, repeated
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch, only_column
from arrowipc.columns.truncate import compact
from arrowipc.errors import UnsupportedError, UsageError, missing_package, not_installed
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    import numpy.typing as npt

    from arrowipc.schemas import Schema


def library(name: str, what: str = "this") -> ModuleType:
    """Import a library, or a module of one, for `what`; or raise an error that says how to install what is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
            raise not_installed(error) from None
        raise missing_package(what, name.partition(".")[0]) from error


def _is_column(data: Any) -> bool:
    return isinstance(data, Array) or hasattr(data, "chunks")


def to_arrow(data: Any) -> Any:
    """A pyarrow RecordBatch, Table, Array or ChunkedArray over the same memory; or a type, field or schema."""
    pa = library("pyarrow")
    if isinstance(data, at.DataType):
        return pa.field(at.Field("", data)).type
    if isinstance(data, at.Described):
        return pa.field(data) if isinstance(data, at.Field) else pa.schema(data)
    if isinstance(data, RecordBatch):
        return pa.record_batch(data)
    if hasattr(data, "chunks"):
        return pa.chunked_array(data)
    return pa.array(data) if isinstance(data, Array) else pa.table(data)


def to_polars(data: Any) -> Any:
    """Return a polars DataFrame, or a Series if `data` is a column."""
    pl = library("polars")
    taken = _rows_alone(_with_wide_decimals(data))
    try:
        return pl.Series(taken).alias(data.field.name) if _is_column(data) else pl.DataFrame(taken)
    except BaseException as error:
        # For a type that it does not know, polars raises PanicException, which is not an Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise _refused("polars", data, error) from error
        raise


def _with_wide_decimals(data: Any) -> Any:
    """The same values, decimals of 32 and 64 bits as those of 128: polars 2.1 would read the bytes behind them, too."""
    fields = [data.field] if _is_column(data) else list(data.schema)
    if not any(_has(_is_narrow, field.type) for field in fields):
        return data
    wide = [field.__replace__(type=_wider(field.type)) for field in fields]
    return data.cast(wide[0].type) if _is_column(data) else data.cast(data.schema.__replace__(fields=wide))


def _is_narrow(kind: at.DataType) -> bool:
    return isinstance(kind, at.Decimal) and kind.bit_width < 128


def _wider(kind: at.DataType) -> at.DataType:
    if _is_narrow(kind):
        return kind.__replace__(bit_width=128)
    if isinstance(kind, at.Dictionary):
        return kind.__replace__(value_type=_wider(kind.value_type))
    return at.with_children(kind, [child.__replace__(type=_wider(child.type)) for child in kind.children])


def _rows_alone(data: Any) -> Any:
    """The same rows, compacted if they are a slice: polars would convert all elements of nested columns."""
    if _is_column(data):
        return data._each(lambda array: compact(only_column(array)).column(0))
    return compact(data) if isinstance(data, RecordBatch) else data._of(compact)


def _refused(library: str, data: Any, error: BaseException) -> UnsupportedError:
    """The error, with advice, for columns that a library does not support."""
    fields = [data.field] if _is_column(data) else data.schema
    rare = ", ".join([f"{field.name!r} ({field.type})" for field in fields if _has(_is_rare, field.type)])
    return UnsupportedError(
        f"{library} cannot take {rare or 'these columns'}: columns=[...] of the reader or select() leaves columns out; "
        f"to_arrow(), to_numpy() and to_pylist() take all types (it says: {str(error).partition(chr(10))[0][:200]})"
    )


def _is_rare(kind: at.DataType) -> bool:
    """Whether many libraries lack a type."""
    return isinstance(kind, (at.Interval, at.LargeListView, at.ListView, at.RunEndEncoded, at.Union)) or (
        isinstance(kind, at.Decimal) and kind.bit_width == 256
    )


def _has(test: Callable[[Any], bool], kind: at.DataType) -> bool:
    """Whether a test holds for a type, or for one inside it."""
    if isinstance(kind, at.Dictionary):
        return _has(test, kind.value_type)
    return test(kind) or any(_has(test, child.type) for child in kind.children)


def from_pandas(frame: Any, options: dict[str, Any]) -> Any:
    """A pandas DataFrame as a pyarrow Table; `options` are those of pyarrow's ``from_pandas``."""
    instance_of("frame", frame, library("pandas").DataFrame)
    pa = library("pyarrow")
    if options.get("schema") is not None:
        options = {**options, "schema": pa.schema(as_schema(options["schema"]))}
    return pa.Table.from_pandas(frame, **options)


def narwhals_frame(data: Any) -> Any:
    """For ``narwhals.from_native``: the frame of a library that it supports."""
    narwhals = library("narwhals")
    try:
        native = library("pyarrow").table(data)
    except UsageError:
        native = to_polars(data)
    return narwhals.from_native(native, eager_only=True)._compliant_frame


# -- NumPy's records -----------------------------------------------------------------------------------------


def to_records(batches: Sequence[RecordBatch], schema: Schema) -> npt.NDArray[Any]:
    """Rows as a structured array, a field for each column; always a copy. Nulls are as in ``to_numpy(copy=True)``."""
    np = library("numpy")
    names = [name or f"f{i}" for i, name in enumerate(schema.names)]  # as NumPy calls columns without a name
    if twice := repeated(names):
        raise UsageError(f"to_records: two columns are named {twice[0]!r}: rename() gives them other names")
    columns = [[batch.column(i).to_numpy(copy=True) for batch in batches] for i in range(len(schema))]
    for column in columns:
        if len({part.shape[1:] for part in column}) > 1:  # only some batches have nulls, or rows of several shapes
            column[:] = [np.fromiter(part, object, len(part)) for part in column]
    parts = [np.concatenate(column) if column else np.empty(0, object) for column in columns]
    dtype = np.dtype([(name, part.dtype, part.shape[1:]) for name, part in zip(names, parts, strict=True)])
    out: npt.NDArray[Any] = np.empty(sum(map(len, batches)), dtype)
    for name, part in zip(names, parts, strict=True):
        out[name] = part
    return out


def from_records(array: npt.NDArray[Any]) -> RecordBatch:
    """A structured array as a batch, a column for each field; numbers that are not contiguous are copied."""
    np = library("numpy")
    instance_of("array", array, np.ndarray)
    if array.dtype.names is None or array.ndim != 1:
        raise UsageError(f"expected a structured array of one dimension, found {array.dtype} in {array.ndim}")
    return RecordBatch.from_pydict({name: np.ascontiguousarray(array[name]) for name in array.dtype.names})
