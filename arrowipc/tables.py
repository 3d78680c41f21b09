"""Tables: record batches of one schema, in order."""

from __future__ import annotations

from arrowipc.arguments import columns_of, instance_of, items_of
from arrowipc.chunked_arrays import ChunkedArray, equal_pieces, slice_pieces
from arrowipc.columns.array import is_conditions, is_foreign, is_integer, is_mask, mask_of
from arrowipc.columns.record_batch import RecordBatch, concat_batches, names_columns
from arrowipc.columns.tabular import Tabular
from arrowipc.datatypes import own
from arrowipc.errors import UsageError
from arrowipc.schemas import Field, Schema
from arrowipc.types import as_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar, Literal, SupportsIndex, overload

    import numpy.typing as npt
    import pyarrow as pa

    from arrowipc.arguments import Extensions
    from arrowipc.columns.array import Array

__all__ = ["Table"]


class Table(Tabular):
    """A schema and its batches (:class:`RecordBatch`, any number); ``read_all()`` returns one.

    A batch with another schema, but for metadata, is a UsageError. ``len(table)`` is the number of rows.
    ``table["x"]`` and ``table[0]`` are columns (:class:`ChunkedArray`); ``table[5:7]``, ``table[[4, 2]]`` and
    ``table[mask]`` are tables of rows, ``table[["x", "y"]]`` is one of columns. ``==`` compares schemas and values,
    wherever batches begin. ``np.asarray(table)`` is a matrix of rows and columns, of one dtype if all are numbers, else
    of objects.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> part = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> table = ipc.Table.from_batches([part, part.slice(1)])
    >>> table.num_rows, len(table.batches), table["x"].num_chunks, table.to_pydict()
    (3, 2, 2, {'x': [1, 2, 2]})
    >>> table.head(1).to_pylist(), list(table.tail(1).iter_rows()), table.combine().num_rows
    ([{'x': 1}], [(2,)], 3)
    >>> table.append_column("y", ["a", "b", "c"]).rename(["a", "b"]).drop("a").select("b").to_pydict()
    {'b': ['a', 'b', 'c']}
    """

    __slots__ = ("__weakref__", "batches", "schema")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    schema: Schema
    batches: list[RecordBatch]

    def __init__(self, schema: Schema, batches: Iterable[RecordBatch] = ()) -> None:
        self.schema = schema = as_schema(schema)
        self.batches = items_of("Table: batches", batches)
        for position, batch in enumerate(self.batches):
            instance_of(f"Table: batch {position}", batch, RecordBatch)
            if batch.schema is not schema and not schema.equals(batch.schema):
                raise UsageError(f"Table: batch {position} {difference(schema, batch.schema)}")

    @classmethod
    def from_batches(cls, batches: Iterable[RecordBatch], schema: Schema | None = None) -> Table:
        """Make a table of `batches`; without `schema`, which no batches need, with the schema of the first one."""
        batches = items_of("batches", batches)
        if schema is None:
            if not batches:
                raise UsageError("Table.from_batches: without batches a schema is needed")
            schema = instance_of("batches[0]", batches[0], RecordBatch).schema
        return cls(schema, batches)

    @classmethod
    def from_arrow(cls, data: Any, *, validate: Literal["none", "full", "strict"] = "none") -> Table:
        """Make a table of another library's rows, without copying them.

        Parameters
        ----------
        data : object
            With ``__arrow_c_stream__`` (tables, data frames, readers of pyarrow, polars, pandas, DuckDB) or
            ``__arrow_c_array__``.
        validate : {"none", "full", "strict"}
            What is checked about the values; see :meth:`arrowipc.RecordBatch.from_arrow`, also for the errors.
        """
        from arrowipc.cdata.import_array import batch_from, stream_from

        if hasattr(data, "__arrow_c_stream__"):
            stream = stream_from(data, validate)
            return cls(stream.schema, stream)
        batch = batch_from(data, validate)
        return cls(batch.schema, [batch])

    @property
    def num_rows(self) -> int:
        """Number of rows in all batches."""
        return sum([batch.num_rows for batch in self.batches])

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers of all batches; what batches share counts for each."""
        return sum([batch.nbytes for batch in self.batches])

    @property
    def columns(self) -> list[ChunkedArray]:
        """All columns, in order."""
        return list(self.itercolumns())

    def itercolumns(self) -> Iterator[ChunkedArray]:
        """Iterate over the columns."""
        return map(self.column, range(len(self.schema)))

    def column(self, i: int | str) -> ChunkedArray:
        """Return one column, in one array per batch; see :meth:`arrowipc.RecordBatch.column`."""
        return ChunkedArray._of(self.schema.field(i), [batch.column(i) for batch in self.batches])

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, i: int | str) -> ChunkedArray: ...
        @overload
        def __getitem__(
            self, i: builtins.slice[Any, Any, Any] | list[Any] | tuple[Any, ...] | range | npt.NDArray[Any] | Array
        ) -> Table: ...

    def __getitem__(self, i: Any) -> ChunkedArray | Table:
        if isinstance(i, slice):
            start, stop, step = i.indices(self.num_rows)
            return self.slice(start, max(stop - start, 0)) if step == 1 else self.take(range(start, stop, step))
        if names_columns(i):
            return self.select(i)
        if isinstance(i, str) or is_integer(i):
            return self.column(i)
        return self.filter(i) if is_mask(i) else self.take(i)

    def __len__(self) -> int:
        return self.num_rows

    def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> Table:
        """Return rows ``[offset, offset + length)`` without copying; rows past the end are left out."""
        return Table(self.schema, slice_pieces(self.batches, offset, length))

    def take(self, indices: Any) -> Table:
        """Return rows in any order and number, as one batch; see :meth:`arrowipc.RecordBatch.take`."""
        from arrowipc.values.row_reader import take_across

        return Table(self.schema, take_across(self.batches, indices))

    def filter(self, mask: Any) -> Table:
        """Return the rows where `mask` is true; see :meth:`arrowipc.RecordBatch.filter`."""
        from arrowipc.columns.take import selected_rows

        if is_conditions(mask):
            return self._of(lambda batch: batch.filter(mask))
        return self.take(selected_rows(mask_of(mask), self.num_rows))

    def select(self, columns: Iterable[str | int] | str | int) -> Table:
        """Return some columns, without copying; see :meth:`arrowipc.RecordBatch.select`."""
        wanted = columns_of(columns)
        return self._of(lambda batch: batch.select(wanted))

    def add_column(self, i: SupportsIndex, field: Any, values: Any) -> Table:
        """Return the table with one more column before column `i`; see :meth:`arrowipc.RecordBatch.append_column`."""
        from arrowipc.values.from_python import build_array

        if isinstance(field, str):
            array = build_array(values)
        else:
            field = instance_of("field", own(field, Field), Field)
            array = build_array(values, field.type)
        if len(array) != self.num_rows:
            raise UsageError(f"expected {self.num_rows:,} values, as there are rows, found {len(array):,}")
        at, found = 0, []
        for batch in self._at_least_one():
            found.append(batch.add_column(i, field, array.slice(at, batch.num_rows)))
            at += batch.num_rows
        return Table(found[0].schema, found if self.batches else ())

    def iter_rows(self, *, named: bool = False, extensions: Extensions = False) -> Iterator[Any]:
        """Iterate over the rows, as tuples or (`named`) dicts; see :meth:`arrowipc.RecordBatch.iter_rows`."""
        for batch in self.batches:
            yield from batch.iter_rows(named=named, extensions=extensions)  # type: ignore[call-overload]

    def _of(self, change: Callable[[RecordBatch], RecordBatch]) -> Table:
        """Return a table with the same change made to each batch."""
        found = [change(batch) for batch in self._at_least_one()]
        return Table(found[0].schema, found if self.batches else ())

    def _with_schema(self, schema: Schema) -> Table:
        """Return the same columns, described by a schema of the same types."""
        return Table(schema, [batch._with_schema(schema) for batch in self.batches])

    @classmethod
    def _of_batch(cls, batch: RecordBatch) -> Table:
        return cls(batch.schema, [batch])

    def _pieces(self) -> list[RecordBatch]:
        return self.batches

    def _at_least_one(self) -> list[RecordBatch]:
        """Return the batches; if there are none, one without rows."""
        from arrowipc.values.from_python import empty_batch

        return self.batches or [empty_batch(self.schema)]

    def to_batches(self, max_chunksize: int | None = None) -> list[RecordBatch]:
        """Return the batches, in order; those of more than `max_chunksize` rows in slices of that many."""
        if max_chunksize is None:
            return list(self.batches)
        if max_chunksize < 1:
            raise UsageError(f"max_chunksize must be at least 1, found {max_chunksize}")
        return [
            batch.slice(start, max_chunksize)
            for batch in self.batches
            for start in range(0, max(batch.num_rows, 1), max_chunksize)
        ]

    def to_reader(self, max_chunksize: int | None = None) -> Any:
        """Return the batches as a reader: iteration, `schema`, ``__arrow_c_stream__``; each is handed out once."""
        from arrowipc.cdata.import_array import stream_from

        return stream_from(Table(self.schema, self.to_batches(max_chunksize)))

    def flatten(self) -> Table:
        """Return one batch of the rows, with a column ``column.member`` for each member of columns of structs."""
        columns = [part for column in self.itercolumns() for part in column.flatten()]
        fields = [part for field in self.schema for part in field.flatten()]
        return Table.from_arrays(columns, schema=Schema(fields, self.schema.metadata))

    def combine(self) -> RecordBatch:
        """Return one batch of all rows; several batches are copied into one."""
        return concat_batches(self._at_least_one())

    def combine_chunks(self) -> Table:
        """Return a table of one batch; several are copied into one."""
        return Table(self.schema, [self.combine()])

    if TYPE_CHECKING:

        def to_arrow(self) -> pa.Table:
            """Return a ``pyarrow.Table`` over the same memory."""

    def equals(self, other: object, check_metadata: bool = False, nan_equal: bool = False) -> bool:
        """Whether `other` has an equal schema and equal rows; see :meth:`arrowipc.RecordBatch.equals`.

        The sizes of batches do not matter.
        """
        if self is other and nan_equal:
            return True
        if not is_foreign(other):
            return False
        other = other if isinstance(other, Table) else Table.from_arrow(other)
        if not self.schema.equals(other.schema, check_metadata) or self.num_rows != other.num_rows:
            return False
        return equal_pieces(self.batches, other.batches, nan_equal)

    def __eq__(self, other: object) -> bool:
        return self.equals(other) if is_foreign(other) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.schema, self.batches)

    def __copy__(self) -> Table:
        return Table(self.schema, self.batches)

    def __repr__(self) -> str:
        from arrowipc.values.repr import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from arrowipc.values.repr import table_html

        return table_html(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export as a stream of the batches: an ``arrow_array_stream`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.schema, iter(self.batches), requested_schema)


def difference(expected: Schema, found: Schema) -> str:
    """Say how `found` differs from `expected`, as the end of a sentence."""
    if len(expected) != len(found):
        return f"has {len(found)} columns, expected {len(expected)}"
    for position, (mine, theirs) in enumerate(zip(expected, found, strict=True)):
        if mine != theirs:
            return f"has {theirs} in column {position}, expected {mine}"
    return f"is {found.endianness}-endian, expected {expected.endianness}-endian"
