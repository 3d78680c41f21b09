"""The functions that make columns, batches, tables and schemas, under pyarrow's names."""

from __future__ import annotations

from _collections_abc import Mapping  # see arguments.py

from arrowipc.arguments import items_of
from arrowipc.chunked_arrays import ChunkedArray
from arrowipc.columns.array import Array, is_foreign
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.tables import Table
from arrowipc.types import as_schema, field, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from arrowipc.arguments import MetadataLike
    from arrowipc.schemas import Schema
    from arrowipc.types import TypeLike

__all__ = ["array", "chunked_array", "concat_tables", "field", "record_batch", "schema", "table"]


def array(values: Any, type: TypeLike | None = None, mask: Any = None, from_pandas: bool = False) -> Array:
    """Make an :class:`Array` of Python values, a NumPy array, or another library's column.

    Parameters
    ----------
    values : sequence, numpy.ndarray, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
    type : DataType or its name, optional
        None: that of the values.
    mask : sequence of bool, optional
        True: the value becomes null, and does not decide about the type.
    from_pandas : bool, default False
        What pandas calls missing, such as NaN, becomes null; needs pandas.

    Raises
    ------
    UsageError
        A value does not fit the type, and the message names its position; or `mask` has another length.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.array([1, None], "int8").to_pylist(), ipc.array([1, "x"], mask=[False, True]).to_pylist()
    ([1, None], [1, None])
    """
    nulls = None if mask is None else items_of("mask", mask)
    if nulls is not None and len(nulls) != len(values):
        raise UsageError(f"mask: expected {len(values):,} elements, as there are values, found {len(nulls):,}")
    if from_pandas:
        from arrowipc.values.libraries import library

        missing = library("pandas").Series(values, dtype=object).isna()
        nulls = list(missing) if nulls is None else [a or b for a, b in zip(missing, nulls, strict=True)]
    if nulls is None or not any(nulls):
        return Array.from_pylist(values, type)
    if str(getattr(values, "dtype", "object")) != "object" or is_foreign(values):
        rows = Array.from_pylist([None if null else at for at, null in enumerate(nulls)], "int64")
        return Array.from_pylist(values, type).take(rows)
    return Array.from_pylist([None if null else each for each, null in zip(values, nulls, strict=True)], type)


def chunked_array(arrays: Iterable[Any], type: TypeLike | None = None) -> ChunkedArray:
    """Make a :class:`ChunkedArray`.

    Parameters
    ----------
    arrays : iterable
        Of arrays, or of what :func:`array` takes.
    type : DataType or its name, optional
        Needed if there are no arrays.
    """
    return ChunkedArray(arrays, type)


def record_batch(
    data: Any,
    names: Iterable[str] | None = None,
    schema: Schema | None = None,
    metadata: MetadataLike = None,
) -> RecordBatch:
    """Make a :class:`RecordBatch` of a dict or a sequence of columns, a data frame, or another library's batch.

    Parameters
    ----------
    data : mapping, sequence, ``pandas.DataFrame``, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        A sequence holds the columns in the order of `names` or of the `schema`; of others a schema takes those of its
        names.
    names : sequence of str, optional
    schema : Schema, optional
    metadata : mapping or pairs of str or bytes, optional
        Of the schema.

    Raises
    ------
    UsageError
        See :meth:`RecordBatch.from_pydict`, :meth:`RecordBatch.from_arrays` and :meth:`RecordBatch.from_arrow`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.record_batch([[1, 2], ["a", "b"]], names=["x", "y"]) == ipc.record_batch({"x": [1, 2], "y": ["a", "b"]})
    True
    """
    if isinstance(data, (list, tuple)):
        return RecordBatch.from_arrays(data, names, schema, metadata)
    if isinstance(data, Mapping):
        return RecordBatch.from_pydict(data, schema, metadata)
    if schema is None and names is None:
        made = RecordBatch.from_arrow(data)
    else:
        made = Table.from_arrow(data).combine()
        if schema is not None and names is None:
            made = made.select(as_schema(schema).names)
        made = RecordBatch.from_arrays(made.columns, names, schema)
    return made if metadata is None else made.with_metadata(metadata)


def table(
    data: Any,
    names: Iterable[str] | None = None,
    schema: Schema | None = None,
    metadata: MetadataLike = None,
) -> Table:
    """Make a :class:`Table`; parameters and errors are those of :func:`record_batch`.

    Batches of another library's table stay apart.
    """
    if schema is None and names is None and not isinstance(data, (list, tuple, Mapping)):
        made = Table.from_arrow(data)
        return made if metadata is None else made.with_metadata(metadata)
    return Table.from_batches([record_batch(data, names, schema, metadata)])


def concat_tables(tables: Iterable[Any], promote_options: str = "none") -> Table:
    """Put tables one behind the other, without copying.

    Parameters
    ----------
    tables : iterable of Table, or of what :func:`table` takes
        One or more, with the same types; metadata are those of the first one.
    promote_options : str, default "none"
        Other words of pyarrow are an `UnsupportedError`: it joins schemas, and so do data sets.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.concat_tables([ipc.table({"x": [1]}), {"x": [2]}])["x"].num_chunks
    2
    """
    if promote_options != "none":
        raise UnsupportedError(
            f"concat_tables(promote_options={promote_options!r}): schemas are not joined here; pyarrow.concat_tables() "
            "takes our tables, and open_dataset() joins those of files"
        )
    made = [each if isinstance(each, Table) else table(each) for each in items_of("concat_tables: tables", tables)]
    if not made:
        raise UsageError("concat_tables: expected one table at least, found none")
    return Table(made[0].schema, [batch for each in made for batch in each.batches])
