"""Tables (record batches of one schema, in order) and their columns (arrays of one type, in order).

The module also has the functions that make arrays, columns, batches and tables, under pyarrow's names.
"""

from __future__ import annotations

from _collections_abc import Iterator, Mapping, Set  # see arguments.py
from itertools import accumulate

from arrowipc.arguments import check_flag, check_safe, equals_foreign, instance_of, integer_of, items_of
from arrowipc.columns.array import Array, is_conditions, is_expression, is_foreign, is_integer, is_mask, mask_of
from arrowipc.columns.column import Column
from arrowipc.columns.record_batch import (
    RecordBatch,
    batch_of,
    batches_of,
    batches_to_pydict,
    column_of_each,
    concat_batches,
    count_rows,
    find_other_schema,
    names_columns,
    same_rows,
    select_each,
    slice_pieces,
)
from arrowipc.columns.tabular import Tabular
from arrowipc.datatypes import MAX_DEPTH, Struct
from arrowipc.errors import NotFoundError, UnsupportedError, UsageError
from arrowipc.schemas import Field, Schema, difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar, Literal, Self, SupportsIndex, overload

    import numpy.typing as npt
    import pyarrow as pa

    from arrowipc.arguments import Extensions, MapsAsDicts, MetadataLike
    from arrowipc.datatypes import DataType
    from arrowipc.types import FieldsLike, TypeLike


class ChunkedArray(Column):
    """One column of several record batches: arrays of one type, in order; ``table["x"]`` is one.

    ``len(column)`` is the number of elements; ``column[i]``, slices, iteration and ``numpy.asarray(column)`` work as
    for an :class:`Array`. ``==`` compares types and values, and ignores where chunks begin.

    Parameters
    ----------
    chunks : iterable of Array, or of what :meth:`Array.from_pylist` or :meth:`Array.from_arrow` takes
        It may also be one column of another library.
    type : DataType, optional
        Type of the elements; needed if there is no chunk.

    Raises
    ------
    UsageError
        If a chunk has another type than the first one; or if there is neither a chunk nor a type.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> part = ipc.RecordBatch.from_pydict({"x": [1, 2, None]})
    >>> column = ipc.Table.from_batches([part, part])["x"]
    >>> len(column), column.num_chunks, column[-2], column[1:4].to_pylist(), list(column.take([5, 0]))
    (6, 2, 2, [2, None, 1], [None, 1])
    >>> column == ipc.ChunkedArray([[1], [2, None, 1], [2, None]])
    True
    """

    __slots__ = ("__weakref__", "_chunks", "_field")
    __hash__: ClassVar[None]  # type: ignore[assignment]

    _field: Field
    _chunks: list[Array]

    def __new__(cls, chunks: Iterable[Any], type: TypeLike | None = None) -> Self:
        from arrowipc.types import as_type, field as make_field
        from arrowipc.values.from_python import build_array

        kind = None if type is None else as_type(type)
        made: list[Array] = []
        known: Field | None = None
        if is_foreign(chunks):
            given, chunks = chunks, getattr(chunks, "chunks", [chunks])
            if kind is None and not chunks:
                known = Array.from_arrow(given).field
                kind = known.type
        for position, each in enumerate(items_of("ChunkedArray: chunks", chunks)):
            made.append(build_array(each, None if type is None and is_foreign(each) else kind))
            kind = made[0].type
            if made[-1].type != kind:
                raise UsageError(f"chunk {position} has type {made[-1].type}, expected {kind}: type= casts them")
        if kind is None:
            raise UsageError("ChunkedArray: without chunks a type is needed")
        field = made[0].field if made else known or make_field("", kind)
        field = field if field.nullable else field.with_nullable(any(chunk.null_count for chunk in made))
        if field.extension_name:
            made = [batch.column(0) for batch in batches_of(field, made)]
        return cls._of(field, made)

    @classmethod
    def _of(cls, field: Field, chunks: list[Array]) -> Self:
        """Make a column of arrays without checking that they have the type of the field."""
        self = object.__new__(cls)
        self._field = field
        self._chunks = chunks
        return self

    @property
    def field(self) -> Field:
        """Name, type, nullability and metadata."""
        return self._field

    @property
    def chunks(self) -> list[Array]:
        """The arrays, in order, as a new list."""
        return list(self._chunks)

    @property
    def type(self) -> DataType:
        """Type of the elements."""
        return self.field.type

    def iterchunks(self) -> Iterator[Array]:
        """Iterate over the arrays."""
        return iter(self._chunks)

    @property
    def num_chunks(self) -> int:
        """Number of arrays."""
        return len(self._chunks)

    @property
    def null_count(self) -> int:
        """Number of nulls in the validity bitmaps; see :attr:`Array.null_count`."""
        return sum([chunk.null_count for chunk in self._chunks])

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that the elements use; see :attr:`Array.nbytes`."""
        return sum([chunk.nbytes for chunk in self._chunks])

    def chunk(self, i: SupportsIndex) -> Array:
        """Return array `i`; negative numbers count from the end."""
        try:
            return self._chunks[integer_of("chunk", i)]
        except IndexError:
            raise NotFoundError(f"chunk {i} is out of range: there are {len(self._chunks)}") from None

    def __len__(self) -> int:
        return count_rows(self._chunks)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, i: str) -> ChunkedArray: ...
        @overload
        def __getitem__(self, i: SupportsIndex) -> Any: ...
        @overload
        def __getitem__(
            self, i: builtins.slice[Any, Any, Any] | Sequence[int] | npt.NDArray[Any] | Array | ChunkedArray
        ) -> ChunkedArray: ...

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            return self.slice(start, max(stop - start, 0)) if step == 1 else self.take(range(start, stop, step))
        if isinstance(i, str):
            return self._each(lambda array: array.member(i))
        if not is_integer(i):
            return self.filter(i) if is_mask(i) else self.take(i)
        position = integer_of("index", i)
        left = position if position >= 0 else position + len(self)
        for chunk in self._chunks if left >= 0 else ():
            if left < len(chunk):
                return chunk[left]
            left -= len(chunk)
        raise IndexError(f"index {position} is out of range: the column has {len(self)} elements")

    def __iter__(self) -> Iterator[Any]:
        for chunk in self._chunks:
            yield from chunk

    def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> ChunkedArray:
        """Return elements ``[offset, offset + length)`` without copying; those past the end are left out."""
        return self._of(self.field, slice_pieces(self._chunks, offset, length))

    def take(self, indices: Any) -> ChunkedArray:
        """Return elements in any order and number as one chunk; see :meth:`Array.take`."""
        from arrowipc.values.row_reader import take_across

        taken = take_across(self._chunks or [self.combine()], indices, lambda chunks: batches_of(self.field, chunks))
        return self._of(self.field, [batch.column(0) for batch in taken])

    def combine(self) -> Array:
        """Return one array of all elements; several chunks are copied into one."""
        if len(self._chunks) == 1:
            return self._chunks[0]
        from arrowipc.values.from_python import empty_batch

        return concat_batches(self._batches() or [empty_batch(Schema([self.field]))]).column(0)

    combine_chunks = _whole = combine

    def to_pylist(
        self,
        *,
        max_values: int | None = None,
        extensions: Extensions = None,
        maps_as_pydicts: MapsAsDicts = None,
    ) -> list[Any]:
        """Return the elements as Python values; see :meth:`Array.to_pylist`."""
        schema = Schema([self.field])
        return batches_to_pydict(self._batches(), schema, max_values, extensions, maps_as_pydicts)[self.field.name]

    def _arrays(self) -> list[Array]:
        return self._chunks

    def _each(self, change: Callable[[Array], Array]) -> ChunkedArray:
        """Return a column of the arrays that `change` returns for the chunks."""
        chunks = [change(chunk) for chunk in self._chunks or [self.combine()]]
        return self._of(chunks[0].field, chunks)

    def _plain(self) -> Array:
        """Return the elements as one array; with several chunks, dictionaries are decoded instead of merged."""
        return (self.dictionary_decode() if len(self._chunks) > 1 else self).combine()

    def _cut(self, array: Array) -> ChunkedArray:
        """Cut an array with as many elements as this column into chunks of the same lengths."""
        ends = list(accumulate(map(len, self._chunks)))
        return self._of(array.field, [array[start:end] for start, end in zip([0, *ends], ends, strict=False)])

    def to_numpy(
        self,
        copy: bool = True,
        *,
        zero_copy_only: bool | None = None,
        writable: bool = False,
        dtype: npt.DTypeLike | None = None,
    ) -> npt.NDArray[Any]:
        """Return the elements as one NumPy array; see :meth:`Array.to_numpy`. It is a view only of a single chunk."""
        as_it_is = check_flag("zero_copy_only", zero_copy_only) if zero_copy_only is not None else None
        copy = check_flag("copy", copy) and as_it_is is None
        if len(self._chunks) > 1 and (as_it_is or (as_it_is is None and not copy)):
            raise UsageError(f"{len(self._chunks)} chunks need a copy: use copy=True, or chunk(i).to_numpy(copy=False)")
        return self._plain().to_numpy(copy, zero_copy_only=as_it_is, writable=writable, dtype=dtype)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if len(self._chunks) > 1 and copy is False:
            raise ValueError(f"{len(self._chunks)} chunks become one array by a copy")
        return self._plain().__array__(dtype, copy)

    if TYPE_CHECKING:

        def to_arrow(self) -> pa.ChunkedArray:
            """Return a ``pyarrow.ChunkedArray`` over the same memory."""

    def equals(self, other: object, nan_equal: bool = False) -> bool:
        """Return whether `other` has the same type and equal elements; see :meth:`Array.equals`.

        The sizes of chunks do not matter.
        """
        nan_equal = check_flag("nan_equal", nan_equal)
        if not isinstance(other, ChunkedArray):
            if not is_foreign(other):
                return False
            from arrowipc.cdata.import_array import array_from

            other = ChunkedArray(other if hasattr(other, "chunks") else [array_from(other, most=len(self))])  # type: ignore[arg-type]
        if self.type != other.type or len(self) != len(other):
            return False
        return equal_pieces(self._chunks, other._chunks, Array.equals, nan_equal)

    def __eq__(self, other: object) -> bool:
        return equals_foreign(self, other) if is_foreign(other) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Table.column, (Table(Schema([self.field]), self._batches()), 0)

    def __copy__(self) -> ChunkedArray:
        return self._of(self.field, list(self._chunks))

    def __arrow_array__(self, type: Any = None) -> Any:
        """Convert to pyarrow when it expects an array: to one array, or to chunks if one cannot hold all elements."""
        try:
            made = self.combine().to_arrow()
        except UnsupportedError:
            made = self.to_arrow()  # chunks; pyarrow's tables take these too
        return made if type is None else made.cast(type)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export as a stream of the chunks: an ``arrow_array_stream`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.field, iter(self._chunks), requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: object) -> object:
        """Export the same as a stream of arrays on the CPU: an ``arrow_device_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_device_stream

        return export_device_stream(self.field, iter(self._chunks), requested_schema, **kwargs)

    def flatten(self) -> list[ChunkedArray]:
        """Return the members of a column of structs, null if the struct is; for another type, a list of this column."""
        if not isinstance(self.type, Struct):
            return [self]
        chunks = [chunk.flatten() for chunk in self._chunks or [self.combine()]]
        return [self._of(parts[0].field, list(parts)) for parts in zip(*chunks, strict=True)]


def _longer_than(most: int, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield batches until they have more than `most` rows together, or to the end."""
    for batch in batches:
        yield batch
        most -= len(batch)
        if most < 0:
            return


def equal_pieces(
    mine: Sequence[Any], theirs: Sequence[Any], equal: Callable[[Any, Any, bool], bool], nan_equal: bool
) -> bool:
    """Return whether arrays, or batches, have equal elements in order; both sides must have the same number of them."""
    left, right = ([piece for piece in reversed(pieces) if len(piece)] for pieces in (mine, theirs))
    while left:
        count = min(len(left[-1]), len(right[-1]))
        if not equal(_next(left, count), _next(right, count), nan_equal):
            return False
    return True


def _next(waiting: list[Any], count: int) -> Any:
    """Remove the next `count` elements from the last piece in `waiting`, and return them."""
    piece = waiting.pop()
    if len(piece) == count:
        return piece
    waiting.append(piece.slice(count))
    return piece.slice(0, count)


class Table(Tabular):
    """A schema and its batches (:class:`RecordBatch`, any number); ``read_all()`` returns one.

    A batch whose schema differs in more than metadata is a UsageError. ``len(table)`` is the number of rows.
    ``table["x"]`` and ``table[0]`` are columns (:class:`ChunkedArray`); ``table[5:7]``, ``table[[4, 2]]`` and
    ``table[mask]`` are tables of some rows, ``table[["x", "y"]]`` is a table of some columns. ``==`` compares schemas
    and values, and ignores where batches begin. ``np.asarray(table)`` is a matrix of rows and columns, of one dtype if
    all are numbers, else of objects.

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

    __slots__ = ("__weakref__", "_batches", "_schema")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    _schema: Schema
    _batches: list[RecordBatch]

    def __new__(cls, schema: Schema, batches: Iterable[RecordBatch] = ()) -> Self:
        if not isinstance(schema, Schema):
            from arrowipc.types import as_schema  # type: ignore[unreachable]

            schema = as_schema(schema)
        batches = items_of("Table: batches", batches)
        for position, batch in enumerate(batches):
            instance_of(f"Table: batch {position}", batch, RecordBatch)
        other = find_other_schema(schema, batches)
        if other >= 0:
            raise UsageError(f"Table: batch {other} {difference(schema, batches[other].schema)}")
        return cls._known(schema, batches)

    @classmethod
    def _known(cls, schema: Schema, batches: list[RecordBatch]) -> Self:
        """Make a table of batches without checking that they have the schema."""
        self = object.__new__(cls)
        self._schema = schema
        self._batches = batches
        return self

    @classmethod
    def from_batches(cls, batches: Iterable[Any], schema: Schema | None = None) -> Table:
        """Make a table of batches, also of other libraries (``__arrow_c_array__``).

        Default of `schema`: that of the first batch; needed if there are no batches.
        """
        batches = items_of("batches", batches)
        for i, batch in enumerate(batches):
            if hasattr(batch, "__arrow_c_array__") and not isinstance(batch, RecordBatch):
                batches[i] = RecordBatch.from_arrow(batch)
        if schema is None:
            if not batches:
                raise UsageError("Table.from_batches: without batches a schema is needed")
            schema = instance_of("batches[0]", batches[0], RecordBatch).schema
        return cls(schema, batches)

    @classmethod
    def from_arrow(cls, data: Any, *, validate: Literal["none", "full", "strict"] = "none") -> Table:
        """Make a table from rows of another library without copying them.

        Parameters
        ----------
        data : object
            With ``__arrow_c_stream__`` (tables, data frames, readers of pyarrow, polars, pandas, DuckDB) or
            ``__arrow_c_array__``.
        validate : {"none", "full", "strict"}
            How to check the values; see :meth:`arrowipc.RecordBatch.from_arrow`, also for the errors.
        """
        from arrowipc.cdata.import_array import batch_from, stream_from

        if hasattr(data, "__arrow_c_stream__"):
            stream = stream_from(data, validate)
            return cls(stream.schema, stream)
        return cls._of_batch(batch_from(data, validate))

    @property
    def schema(self) -> Schema:
        """Names and types of the columns, and metadata."""
        return self._schema

    @property
    def batches(self) -> list[RecordBatch]:
        """The batches, in order, as a new list."""
        return list(self._batches)

    @property
    def num_rows(self) -> int:
        """Number of rows in all batches."""
        return count_rows(self._batches)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers of all batches; a buffer that several batches share counts for each."""
        return sum([batch.nbytes for batch in self._batches])

    @property
    def columns(self) -> list[ChunkedArray]:
        """All columns, in order."""
        return list(self.itercolumns())

    def itercolumns(self) -> Iterator[ChunkedArray]:
        """Iterate over the columns."""
        return map(self.column, range(len(self.schema)))

    def column(self, i: int | str) -> ChunkedArray:
        """Return one column, with one array per batch; see :meth:`arrowipc.RecordBatch.column`."""
        return ChunkedArray._of(self.schema.field(i), column_of_each(self._batches, i))

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
        return self._known(self.schema, slice_pieces(self._batches, offset, length))

    def take(self, indices: Any) -> Table:
        """Return rows in any order and number as one batch; see :meth:`arrowipc.RecordBatch.take`."""
        from arrowipc.values.row_reader import take_across

        return self._known(self.schema, take_across(self._at_least_one(), indices))

    def filter(self, mask: Any) -> Table:
        """Return the rows where `mask` is true; see :meth:`arrowipc.RecordBatch.filter`."""
        from arrowipc.columns.take import selected_rows

        if is_expression(mask):
            from arrowipc.derived.computed import mask_by

            mask = mask_by(self, mask)
        if is_conditions(mask):
            return self._of(lambda batch: batch.filter(mask))
        return self.take(selected_rows(mask_of(mask), self.num_rows))

    def select(self, columns: Iterable[str | int] | str | int) -> Table:
        """Return some columns, without copying; see :meth:`arrowipc.RecordBatch.select`."""
        return self._like(select_each(self._at_least_one(), columns))

    def add_column(self, i: SupportsIndex, field: Any, values: Any) -> Table:
        """Return the table with one more column before column `i`; see :meth:`arrowipc.RecordBatch.append_column`."""
        from arrowipc.values.from_python import add_to_each

        return self._like(add_to_each(self._at_least_one(), i, field, values))

    def iter_rows(self, *, named: bool = False, extensions: Extensions = None) -> Iterator[Any]:
        """Iterate over the rows, as tuples or (`named`) dicts; see :meth:`arrowipc.RecordBatch.iter_rows`."""
        for batch in self._batches:
            yield from batch.iter_rows(named=named, extensions=extensions)  # type: ignore[call-overload]

    def _of(self, change: Callable[[RecordBatch], RecordBatch]) -> Table:
        """Return a table with the same change made to each batch."""
        return self._like([change(batch) for batch in self._at_least_one()])

    def _like(self, changed: list[RecordBatch]) -> Self:
        """Return a table of the batches that were made from those of `_at_least_one`."""
        return self._known(changed[0].schema, changed if self._batches else [])

    def _with_schema(self, schema: Schema) -> Table:
        """Return the same columns with a schema of the same types, but other names or metadata."""
        return self._known(schema, [batch._with_schema(schema) for batch in self._batches])

    @classmethod
    def _of_batch(cls, batch: RecordBatch) -> Table:
        return cls(batch.schema, [batch])

    def _pieces(self) -> list[RecordBatch]:
        return self._batches

    def _at_least_one(self) -> list[RecordBatch]:
        """Return the batches; if there are none, a batch without rows."""
        from arrowipc.values.from_python import empty_batch

        return self._batches or [empty_batch(self.schema)]

    def to_batches(self, max_chunksize: int | None = None) -> list[RecordBatch]:
        """Return the batches, in order; batches of more than `max_chunksize` rows are cut into slices of that many."""
        if max_chunksize is None:
            return list(self._batches)
        max_chunksize = integer_of("max_chunksize", max_chunksize)
        if max_chunksize < 1:
            raise UsageError(f"max_chunksize must be at least 1, found {max_chunksize}")
        return [
            batch.slice(start, max_chunksize)
            for batch in self._batches
            for start in range(0, max(batch.num_rows, 1), max_chunksize)
        ]

    def to_reader(self, max_chunksize: int | None = None) -> Any:
        """Return a reader that gives each batch once, with iteration, `schema` and ``__arrow_c_stream__``."""
        from arrowipc.cdata.import_array import stream_from

        return stream_from(Table(self.schema, self.to_batches(max_chunksize)))

    def to_struct_array(self, max_chunksize: int | None = None) -> ChunkedArray:
        """Return the rows as a column of structs in the same memory, in chunks of `max_chunksize` rows at most."""
        chunks = [batch.to_struct_array() for batch in self.to_batches(max_chunksize) or self._at_least_one()]
        return ChunkedArray._of(chunks[0].field, chunks)

    def flatten(self) -> Table:
        """Return the rows with columns of structs replaced by a column ``column.member`` for each member."""
        schema = Schema([part for field in self.schema for part in field.flatten()], self.schema.metadata)
        is_struct = [isinstance(kind, Struct) for kind in self.schema.types]

        def parts(batch: RecordBatch) -> Iterator[Array]:
            for column, has_members in zip(batch.columns, is_struct, strict=True):
                yield from column.flatten() if has_members else [column]

        return self._known(schema, [batch_of(schema, parts(batch), batch.num_rows) for batch in self._batches])

    def combine(self) -> RecordBatch:
        """Return one batch of all rows; several batches are copied into one."""
        return concat_batches(self._at_least_one())

    def combine_chunks(self) -> Table:
        """Return a table of one batch; several are copied into one."""
        return self._known(self.schema, [self.combine()])

    if TYPE_CHECKING:

        def to_arrow(self) -> pa.Table:
            """Return a ``pyarrow.Table`` over the same memory."""

    def equals(self, other: object, check_metadata: bool = False, nan_equal: bool = False) -> bool:
        """Return whether `other` has an equal schema and equal rows; see :meth:`arrowipc.RecordBatch.equals`.

        The sizes of batches do not matter.
        """
        nan_equal, check_metadata = check_flag("nan_equal", nan_equal), check_flag("check_metadata", check_metadata)
        if self is other and nan_equal:
            return True
        if not is_foreign(other):
            return False
        if not isinstance(other, Table):
            from arrowipc.cdata.import_array import stream_from

            other = stream_from(other)
        if not self.schema.equals(other.schema, check_metadata):
            return False
        batches = other._batches if isinstance(other, Table) else list(_longer_than(self.num_rows, other))
        return count_rows(batches) == self.num_rows and equal_pieces(self._batches, batches, same_rows, nan_equal)

    def __eq__(self, other: object) -> bool:
        return equals_foreign(self, other) if is_foreign(other) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.schema, self._batches)

    def __copy__(self) -> Table:
        return Table(self.schema, self._batches)

    def __repr__(self) -> str:
        from arrowipc.values.repr import rows_text

        return rows_text(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export as a stream of the batches: an ``arrow_array_stream`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.schema, iter(self._batches), requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: object) -> object:
        """Export the same as a stream of batches on the CPU: an ``arrow_device_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_device_stream

        return export_device_stream(self.schema, iter(self._batches), requested_schema, **kwargs)


# -- functions that make arrays, batches and tables ----------------------------------------------------------


def array(
    values: Any, type: TypeLike | None = None, mask: Any = None, from_pandas: bool = False, *, safe: bool = True
) -> Array:
    """Make an :class:`Array` from Python values, a NumPy array, or a column of another library.

    Parameters
    ----------
    values : sequence, iterator, set, numpy.ndarray, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
    type : DataType or its name, optional
        Default: the type of the values.
    mask : sequence of bool, optional
        True makes the value null; it then has no influence on the type.
    from_pandas : bool, default False
        Make values null that are missing for pandas, such as NaN, also in lists and dicts; needs pandas. In a series of
        pandas they always are.
    safe : bool, default True
        Must be True; see :meth:`Array.cast`.

    Raises
    ------
    UsageError
        A value does not fit the type (the message names its position), or `mask` has another length.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.array([1, None], "int8").to_pylist(), ipc.array([1, "x"], mask=[False, True]).to_pylist()
    ([1, None], [1, None])
    """
    check_safe("array", safe)
    if isinstance(values, (Iterator, Set)):
        values = list(values)
    nulls = None if mask is None else items_of("mask", mask)
    if nulls is not None and len(nulls) != len(values):
        raise UsageError(f"mask: expected {len(values):,} elements, as there are values, found {len(nulls):,}")
    plain = str(getattr(values, "dtype", "object")) == "object" and not is_foreign(values)
    if check_flag("from_pandas", from_pandas):
        from arrowipc.values.libraries import library

        pandas = library("pandas")
        missing = pandas.Series(values, dtype=object).isna()
        nulls = list(missing) if nulls is None else [a or b for a, b in zip(missing, nulls, strict=True)]
        if plain:
            flat = (float, int, str, bytes)  # `nulls` says it of them
            values = [each if isinstance(each, flat) else _without_missing(each, pandas.isna) for each in values]
    if nulls is None or not any(nulls):
        return Array.from_pylist(values, type)
    if not plain:
        kept = [at for at, null in enumerate(nulls) if not null]
        if hasattr(values, "__array_interface__"):
            values = values[kept]  # what becomes null in an array of NumPy need not fit the type
            kept = list(range(len(kept)))
        places = iter(kept)
        rows = Array.from_pylist([None if null else next(places) for null in nulls], "int64")
        return Array.from_pylist(values, type).take(rows)
    return Array.from_pylist([None if null else each for each, null in zip(values, nulls, strict=True)], type)


def _without_missing(value: Any, is_missing: Callable[[Any], Any], depth: int = 0) -> Any:
    """Return a value with None in place of what is missing for pandas, also in lists and dicts."""
    if depth > MAX_DEPTH:
        return value  # which no type fits
    if type(value) is dict:
        return {key: _without_missing(each, is_missing, depth + 1) for key, each in value.items()}
    if type(value) in (list, tuple) or getattr(value, "ndim", None):
        return [_without_missing(each, is_missing, depth + 1) for each in value]
    return None if is_missing(value) is True else value


def chunked_array(arrays: Iterable[Any], type: TypeLike | None = None) -> ChunkedArray:
    """Make a :class:`ChunkedArray`.

    Parameters
    ----------
    arrays : iterable
        Arrays, or values that :func:`array` takes.
    type : DataType or its name, optional
        Needed if there are no arrays.
    """
    return ChunkedArray(arrays, type)


def record_batch(
    data: Any,
    names: Iterable[str] | Schema | None = None,
    schema: FieldsLike | None = None,
    metadata: MetadataLike = None,
) -> RecordBatch:
    """Make a :class:`RecordBatch` of a dict or a sequence of columns, a data frame, or another library's batch.

    Parameters
    ----------
    data : mapping, sequence, ``pandas.DataFrame``, or object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        A sequence holds the columns in the order of `names` or of the `schema`, or rows as dicts; from other data, a
        schema selects the columns with its names.
    names : sequence of str, optional
        May be a schema instead, as in pyarrow. Not for a mapping, which has names of its own.
    schema : Schema, optional
    metadata : mapping or pairs of str or bytes, optional
        Metadata of the schema.

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
    from arrowipc.types import as_schema

    if hasattr(names, "__arrow_c_schema__"):
        if schema is not None:
            raise UsageError("the second argument is a schema already: leave schema= out")
        names, schema = None, as_schema(names)
    if isinstance(data, (list, tuple)):
        if data and names is None and all(isinstance(each, Mapping) for each in data):
            return RecordBatch.from_pylist(data, schema, metadata)
        return RecordBatch.from_arrays(data, names, schema, metadata)
    if isinstance(data, Mapping):
        if names is not None:
            raise UsageError("a mapping has the names of its columns: leave names= out, or rename() what is made")
        return RecordBatch.from_pydict(data, schema, metadata)
    if schema is None and names is None:
        made = RecordBatch.from_arrow(data)
    else:
        made = Table.from_arrow(data).combine()
        if schema is not None and names is None:
            made = made.select(as_schema(schema).names)
        built = RecordBatch.from_arrays(made.columns, names, schema)
        made = built if built.num_columns else made.select([]).with_metadata(built.schema.metadata)
    return made if metadata is None else made.with_metadata(metadata)


def table(
    data: Any,
    names: Iterable[str] | Schema | None = None,
    schema: FieldsLike | None = None,
    metadata: MetadataLike = None,
) -> Table:
    """Make a :class:`Table` of `data`; `names`, `schema`, `metadata` and errors are those of :func:`record_batch`.

    Batches of another library's table stay separate.
    """
    if schema is None and names is None and not isinstance(data, (list, tuple, Mapping)):
        made = Table.from_arrow(data)
        return made if metadata is None else made.with_metadata(metadata)
    return Table.from_batches([record_batch(data, names, schema, metadata)])


def concat_tables(tables: Iterable[Any], promote_options: str = "none") -> Table:
    """Append tables to each other without copying.

    Parameters
    ----------
    tables : iterable of Table, or of what :func:`table` takes
        One or more, with the same types. The result has the metadata of the first one.
    promote_options : str, default "none"
        Other values that pyarrow allows are an `UnsupportedError`; pyarrow and data sets can join different schemas.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.concat_tables([ipc.table({"x": [1]}), {"x": [2]}])["x"].num_chunks
    2
    """
    if promote_options != "none":
        raise UnsupportedError(
            f"concat_tables(promote_options={promote_options!r}): schemas are not joined here; give "
            "pyarrow.concat_tables() map(pyarrow.table, tables), and files to open_dataset()"
        )
    made = [each if isinstance(each, Table) else table(each) for each in items_of("concat_tables: tables", tables)]
    if not made:
        raise UsageError("concat_tables: expected one table at least, found none")
    return Table(made[0].schema, [batch for each in made for batch in each.batches])
