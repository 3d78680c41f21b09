"""Converts the arguments of writers to a schema and batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from arrowipc.arguments import described
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import UsageError
from arrowipc.schemas import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeAlias

    # What writers take, for editors and type checkers.

    class ArrowArray(Protocol):
        """A batch of any library."""

        def __arrow_c_array__(self, requested_schema: Any = None, /) -> Any:
            """Hand it over."""

    class ArrowStream(Protocol):
        """A table, data frame or reader of any library."""

        def __arrow_c_stream__(self, requested_schema: Any = None, /) -> Any:
            """Hand it over."""

    Writable: TypeAlias = ArrowArray | ArrowStream | Iterable[Any]


def batches_of(data: Any, schema: Schema | None) -> tuple[Schema | None, Iterable[RecordBatch]]:
    """Find the schema (None: only the batches know it) and the batches of a writer's argument."""
    if isinstance(data, RecordBatch):
        return data.schema, (data,)
    if isinstance(data, Mapping):
        from arrowipc.values.from_python import build_batch

        batch = build_batch(data, schema)
        return batch.schema, (batch,)
    if isinstance(data, Array) and not hasattr(data.type, "fields"):
        raise UsageError(
            f"an array of {data.type} is one column, not a batch: write {{name: array}}, or an array of structs"
        )
    if hasattr(data, "__arrow_c_array__"):
        from arrowipc.cdata.import_array import batch_from

        batch = batch_from(data)
        return batch.schema, (batch,)
    if hasattr(data, "__arrow_c_stream__"):
        # Our own tables and readers have this method, too; their batches are taken directly.
        if isinstance(getattr(data, "schema", None), Schema):
            return data.schema, getattr(data, "batches", data)
        from arrowipc.cdata.import_table import batches_from

        stream = batches_from(data)
        return stream.schema, stream
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], Mapping) and _are_rows(data, schema):
        from arrowipc.values.from_python import build_rows

        batch = build_rows(data, schema)
        return batch.schema, (batch,)
    if isinstance(data, (list, tuple, Iterator)):
        return None, _chained(data, schema)
    if isinstance(data, (str, bytes, os.PathLike)):
        raise UsageError(
            f"write: expected data, found {described(data)}: read it first, for example with arrowipc.open()"
        )
    if hasattr(data, "to_arrow"):  # polars before 1.3
        return batches_of(data.to_arrow(), schema)
    raise UsageError(
        "write: expected a RecordBatch, a Table, a dict of columns, or an object with __arrow_c_array__ or "
        f"__arrow_c_stream__, found {described(data)}"
    )


def _are_rows(items: Iterable[Any], schema: Schema | None) -> bool:
    """Return whether dicts in a list are rows, and not batches (dicts of columns).

    A row has a value that is no sequence, or values of several lengths; or its value for a column of lists is a list
    whose elements are no sequences.
    """
    lists = _list_columns(schema)
    for item in items:
        if not isinstance(item, Mapping):
            return False
        values = list(item.values())
        if not all(map(_is_sequence, values)) or len(set(map(len, values))) > 1:
            return True
        for name in lists or ():
            first = next((each for each in item.get(name, ()) if each is not None), None)
            if first is not None:
                return not _is_sequence(first)
    return lists is not None and schema is not None and len(lists) == len(schema)


def _list_columns(schema: Schema | None) -> list[str] | None:
    """Return the names of the columns of lists; None without a schema."""
    if schema is None:
        return None
    from arrowipc.datatypes import LISTS

    return [field.name for field in schema if isinstance(field.type, LISTS)]


def _is_sequence(value: Any) -> bool:
    return hasattr(type(value), "__len__") and not isinstance(value, (str, bytes, dict))


def _chained(items: Iterable[Any], schema: Schema | None) -> Iterator[RecordBatch]:
    for item in items:
        yield from batches_of(item, schema)[1]
