"""Columns of a batch dictionary-encoded and decoded, and batches cut to another number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer, columns_of, instance_of, iterator_of, repeated
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch, concat_batches, only_column
from arrowipc.columns.take import take_rows
from arrowipc.distinct.memo_table import MemoTable
from arrowipc.errors import UsageError
from arrowipc.schemas import Schema
from arrowipc.types import Dictionary, Field, Int

if TYPE_CHECKING:
    from arrowipc.columns.column import Column


def dictionary_encode(batch: RecordBatch, columns: Iterable[str]) -> RecordBatch:
    """Encode columns as indices into a dictionary of their distinct values.

    Parameters
    ----------
    batch : RecordBatch
        No two columns share a name.
    columns : iterable of str
        Those that are encoded already stay as they are.

    Returns
    -------
    RecordBatch
        Indices are int32. Each batch has its own dictionaries; a writer merges them with ``unify_dictionaries=True``.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.derived.dictionary_encode import dictionary_decode, dictionary_encode
    >>> from arrowipc.types import field, utf8
    >>> batch = ipc.RecordBatch.from_pydict({"x": ["a", None, "a"]}, ipc.Schema([field("x", utf8())]))
    >>> encoded = dictionary_encode(batch, ["x"])
    >>> encoded.column("x").dictionary.to_pylist(), encoded.to_pydict()
    (['a'], {'x': ['a', None, 'a']})
    >>> dictionary_decode(encoded).schema == batch.schema
    True
    """
    chosen = set(columns_of(columns))
    instance_of("batch", batch, RecordBatch)
    if missing := sorted(chosen - set(batch.schema.names)):
        raise UsageError(f"there is no column {missing[0]!r}; the columns are {batch.schema.names[:50]}")
    return _changed(batch, chosen, Array.dictionary_encode)


def dictionary_decode(batch: RecordBatch, columns: Iterable[str] | None = None) -> RecordBatch:
    """Replace dictionary-encoded columns by their values.

    Parameters
    ----------
    batch : RecordBatch
        No two columns share a name.
    columns : iterable of str, optional
        Default: all columns. Dictionaries inside of nested columns stay.
    """
    names = instance_of("batch", batch, RecordBatch).schema.names
    chosen = set(names if columns is None else columns_of(columns))
    return _changed(batch, chosen, decoded)


def rebatch(batches: Iterable[RecordBatch], rows: int) -> Iterator[RecordBatch]:
    """Cut and join batches so that each but the last has `rows` rows.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Of one schema.
    rows : int
        From 1. As many are in memory at a time, and one batch.

    Yields
    ------
    RecordBatch
        Without the metadata of the messages that they came in.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.derived.dictionary_encode import rebatch
    >>> from arrowipc.types import field, int8
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int8())]))
    >>> [each.to_pydict()["x"] for each in rebatch([batch, batch], 4)]
    [[1, 2, 3, 1], [2, 3]]
    """
    check_integer("rows", rows, 1, 2**63 - 1)
    waiting: list[RecordBatch] = []
    held = 0
    for batch in iterator_of("batches", batches):
        instance_of("batches: each", batch, RecordBatch)
        start = 0
        while start < len(batch):
            piece = batch.slice(start, rows - held)
            start += len(piece)
            held += len(piece)
            waiting.append(piece)
            if held == rows:
                yield concat_batches(waiting) if len(waiting) > 1 else piece
                waiting, held = [], 0
    if waiting:
        yield concat_batches(waiting)


def numbered(array: Array) -> tuple[Array, memoryview]:
    """The distinct elements, in the order of their first occurrence, and the number of each element among them (int64).

    Null is one of them; `array` is not dictionary-encoded.
    """
    table = MemoTable.like(plain := only_column(array))
    numbers = table.add_batch(plain)
    return table.batch().column(0), numbers


def distinct_values(column: Column) -> tuple[Array, memoryview]:
    """The distinct elements, dictionary-encoded if the column is, and numbers as for `numbered`."""
    values, numbers = numbered(column.dictionary_decode()._whole())
    kind = column.field.type
    if not isinstance(kind, Dictionary):
        return values, numbers
    if kind.ordered:  # the dictionary stays as it is
        rows: list[int] = []
        for row, number in enumerate(numbers):
            if number == len(rows):
                rows.append(row)
        return column.take(rows)._whole(), numbers
    # Chunks with dictionaries of their own may have more values together than their indices can count.
    if len(values) > 1 << (kind.index_type.bit_width - kind.index_type.signed):
        kind = Dictionary(Int(32, True), kind.value_type)
    return values.cast(kind), numbers


def _changed(batch: RecordBatch, chosen: set[Any], change: Callable[[Array], Array]) -> RecordBatch:
    """`batch` with some of its columns changed."""
    names = batch.schema.names
    if twice := repeated(names):
        raise UsageError(f"two columns are named {twice[0]!r}: choose columns with other names")
    if not names:
        return batch
    columns = [change(column) if name in chosen else column for name, column in zip(names, batch.columns, strict=True)]
    # Without ids of dictionaries: those of new ones may be taken.
    fields = [
        field.__replace__(
            type=kind.__replace__(dictionary_id=None) if isinstance(kind := column.type, Dictionary) else kind
        )
        for field, column in zip(batch.schema, columns, strict=True)
    ]
    schema = batch.schema.__replace__(fields=fields)
    return RecordBatch.from_pydict(dict(zip(names, columns, strict=True)), schema)


def decoded(column: Array) -> Array:
    """The values that the indices of a dictionary-encoded array stand for; another array as it is."""
    instance_of("column", column, Array)
    if not isinstance(column.type, Dictionary):
        return column
    from arrowipc.values.to_numpy import indices_of

    kind = column.type.value_type
    words, schema = column.dictionary or Array.from_pylist([], kind), Schema([Field("", kind)])
    values, nothing = (RecordBatch.from_pydict({"": each}, schema) for each in (words, [None]))
    indices, valid = indices_of(column, column.type)
    if valid is not None:
        indices[~valid] = len(values)
        values = concat_batches([values, nothing])
    return take_rows(values, indices, "dictionary_decode").column(0)
