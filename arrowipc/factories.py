"""The functions that make columns, batches, tables and schemas, under pyarrow's names."""

from __future__ import annotations

from _collections_abc import Mapping  # see arguments.py

from arrowipc.arguments import items_of
from arrowipc.chunked_arrays import ChunkedArray
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import UsageError
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


def array(values: Any, type: TypeLike | None = None) -> Array:
    """Make an :class:`Array` of Python values, a NumPy array, or another library's column.

    Parameters
    ----------
    values : sequence, numpy.ndarray, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
    type : DataType or its name, optional
        None: that of the values.

    Raises
    ------
    UsageError
        A value does not fit the type; the message names its position.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.array([1, None], "int8").to_pylist()
    [1, None]
    """
    return Array.from_pylist(values, type)


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
    """Make a :class:`Table`; batches of another library's table stay apart.

    Parameters
    ----------
    data : mapping, sequence, ``pandas.DataFrame``, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        As for :func:`record_batch`.
    names : sequence of str, optional
    schema : Schema, optional
    metadata : mapping or pairs of str or bytes, optional
        Of the schema.
    """
    if schema is None and names is None and not isinstance(data, (list, tuple, Mapping)):
        made = Table.from_arrow(data)
        return made if metadata is None else made.with_metadata(metadata)
    return Table.from_batches([record_batch(data, names, schema, metadata)])


def concat_tables(tables: Iterable[Any]) -> Table:
    """Put tables one behind the other, without copying.

    Parameters
    ----------
    tables : iterable of Table, or of what :func:`table` takes
        One or more, with the same types; metadata are those of the first one.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.concat_tables([ipc.table({"x": [1]}), {"x": [2]}])["x"].num_chunks
    2
    """
    made = [each if isinstance(each, Table) else table(each) for each in items_of("concat_tables: tables", tables)]
    if not made:
        raise UsageError("concat_tables: expected one table at least, found none")
    return Table(made[0].schema, [batch for each in made for batch in each.batches])
