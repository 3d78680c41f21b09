"""Chunked arrays: a column of a table, in as many arrays as the table has batches."""

from __future__ import annotations

from arrowipc.arguments import integer_of, items_of
from arrowipc.columns.array import clip, is_foreign, is_integer, is_mask
from arrowipc.columns.column import Column
from arrowipc.columns.record_batch import batches_to_pydict, concat_batches
from arrowipc.datatypes import Struct
from arrowipc.errors import NotFoundError, UsageError
from arrowipc.schemas import Schema
from arrowipc.types import as_type, field as make_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, ClassVar, SupportsIndex, overload

    import numpy.typing as npt
    import pyarrow as pa

    from arrowipc.arguments import Extensions
    from arrowipc.columns.array import Array
    from arrowipc.datatypes import DataType, Field
    from arrowipc.types import TypeLike

__all__ = ["ChunkedArray"]


class ChunkedArray(Column):
    """One column of several record batches: arrays of one type, in order; ``table["x"]`` is one.

    ``len(column)`` is the number of elements; ``column[i]``, slices, iteration and ``numpy.asarray(column)`` work as
    for an :class:`Array`. ``==`` compares types and values, wherever chunks begin.

    Parameters
    ----------
    chunks : iterable of Array, or of what :meth:`Array.from_pylist` or :meth:`Array.from_arrow` takes
        Or one column of another library.
    type : DataType, optional
        Of the elements; needed if there is no chunk.

    Attributes
    ----------
    field : Field
        Name, type, nullability and metadata.
    chunks : list of Array

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

    __slots__ = ("__weakref__", "chunks", "field")
    __hash__: ClassVar[None]  # type: ignore[assignment]

    field: Field
    chunks: list[Array]

    def __init__(self, chunks: Iterable[Any], type: TypeLike | None = None) -> None:
        from arrowipc.values.from_python import build_array

        kind = None if type is None else as_type(type)
        made: list[Array] = []
        if is_foreign(chunks):
            chunks = getattr(chunks, "chunks", [chunks])
        for each in items_of("ChunkedArray: chunks", chunks):
            made.append(build_array(each, kind))
            kind = made[0].type
        if kind is None:
            raise UsageError("ChunkedArray: without chunks a type is needed")
        self.field = made[0].field if made else make_field("", kind)
        self.chunks = made

    @classmethod
    def _of(cls, field: Field, chunks: list[Array]) -> ChunkedArray:
        """Arrays that are known to be of the field's type."""
        self = cls.__new__(cls)
        self.field = field
        self.chunks = chunks
        return self

    @property
    def type(self) -> DataType:
        """Type of the elements."""
        return self.field.type

    @property
    def num_chunks(self) -> int:
        """Number of arrays."""
        return len(self.chunks)

    @property
    def null_count(self) -> int:
        """Number of nulls in the validity bitmaps, as of :attr:`Array.null_count`."""
        return sum([chunk.null_count for chunk in self.chunks])

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that the elements use, as of :attr:`Array.nbytes`."""
        return sum([chunk.nbytes for chunk in self.chunks])

    def chunk(self, i: SupportsIndex) -> Array:
        """Return array `i`; negative numbers count from the end."""
        try:
            return self.chunks[integer_of("chunk", i)]
        except IndexError:
            raise NotFoundError(f"chunk {i} is out of range: there are {len(self.chunks)}") from None

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    if TYPE_CHECKING:

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
        if not is_integer(i):
            return self.filter(i) if is_mask(i) else self.take(i)
        position, length = integer_of("index", i), len(self)
        if not -length <= position < length:
            raise IndexError(f"index {position} is out of range: the column has {length} elements")
        position %= length
        for chunk in self.chunks:
            if position < len(chunk):
                break
            position -= len(chunk)
        return chunk[position]

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.chunks:
            yield from chunk

    def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> ChunkedArray:
        """Return elements ``[offset, offset + length)`` without copying; what lies past the end is left out."""
        return self._of(self.field, slice_pieces(self.chunks, offset, length))

    def take(self, indices: Any) -> ChunkedArray:
        """Return elements in any order and number, as one chunk; see :meth:`Array.take`."""
        from arrowipc.values.row_reader import take_across

        return self._of(self.field, [batch.column(0) for batch in take_across(self._batches(), indices)])

    def combine(self) -> Array:
        """Return one array of all elements; several chunks are copied into one."""
        if len(self.chunks) == 1:
            return self.chunks[0]
        from arrowipc.values.from_python import empty_batch

        return (concat_batches(self._batches()) if self.chunks else empty_batch(Schema([self.field]))).column(0)

    combine_chunks = combine

    def to_pylist(self, *, max_values: int | None = None, extensions: Extensions = False) -> list[Any]:
        """Return the elements as Python values; see :meth:`Array.to_pylist`."""
        schema = Schema([self.field])
        return batches_to_pydict(self._batches(), schema, max_values, extensions)[self.field.name]

    def _arrays(self) -> list[Array]:
        return self.chunks

    def _whole(self) -> Array:
        return self.combine()

    def _each(self, change: Callable[[Array], Array]) -> ChunkedArray:
        """Return a column of what `change` makes of each chunk."""
        chunks = [change(chunk) for chunk in self.chunks or [self.combine()]]
        return self._of(chunks[0].field, chunks)

    def to_numpy(self, copy: bool = True) -> npt.NDArray[Any]:
        """Return the elements as one NumPy array; see :meth:`Array.to_numpy`. Only one chunk can be a view."""
        if len(self.chunks) > 1 and not copy:
            raise UsageError(f"{len(self.chunks)} chunks need a copy: use copy=True, or chunk(i).to_numpy(copy=False)")
        return self.combine().to_numpy(copy)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if len(self.chunks) > 1 and copy is False:
            raise ValueError(f"{len(self.chunks)} chunks become one array by a copy")
        return self.combine().__array__(dtype, copy)

    if TYPE_CHECKING:

        def to_arrow(self) -> pa.ChunkedArray:
            """Return a ``pyarrow.ChunkedArray`` over the same memory."""

    def equals(self, other: object, nan_equal: bool = False) -> bool:
        """Whether `other` has the same type and equal elements; see :meth:`Array.equals`.

        The sizes of chunks do not matter.
        """
        if not isinstance(other, ChunkedArray):
            if not is_foreign(other):
                return False
            other = ChunkedArray(other)  # type: ignore[arg-type]
        if self.type != other.type or len(self) != len(other):
            return False
        return equal_pieces(self.chunks, other.chunks, nan_equal)

    def __eq__(self, other: object) -> bool:
        return self.equals(other) if is_foreign(other) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkedArray, (self.chunks, self.type)

    def __copy__(self) -> ChunkedArray:
        return self._of(self.field, list(self.chunks))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export as a stream of the chunks: an ``arrow_array_stream`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.field, iter(self.chunks), requested_schema)

    def flatten(self) -> list[ChunkedArray]:
        """Return the members of a column of structs, null where the struct is; another column as it is, in a list."""
        if not isinstance(self.type, Struct):
            return [self]
        chunks = [chunk.flatten() for chunk in self.chunks or [self.combine()]]
        return [self._of(parts[0].field, list(parts)) for parts in zip(*chunks, strict=True)]


def slice_pieces(pieces: list[Any], offset: SupportsIndex, length: SupportsIndex | None) -> list[Any]:
    """Elements [offset, offset + length) of arrays, or of batches, that follow each other; without empty pieces."""
    at, left = clip(offset, length, sum(map(len, pieces)))
    found = []
    for piece in pieces:
        part = piece.slice(at, left)
        at = max(at - len(piece), 0)
        left -= len(part)
        if len(part):
            found.append(part)
    return found


def equal_pieces(mine: Sequence[Any], theirs: Sequence[Any], nan_equal: bool) -> bool:
    """Whether arrays, or batches, have equal elements one after the other; they are as many in all on both sides."""
    left, right = ([piece for piece in reversed(pieces) if len(piece)] for pieces in (mine, theirs))
    while left:
        count = min(len(left[-1]), len(right[-1]))
        if not _next(left, count).equals(_next(right, count), nan_equal=nan_equal):
            return False
    return True


def _next(waiting: list[Any], count: int) -> Any:
    """The next `count` elements, from the last piece that waits."""
    piece = waiting.pop()
    if len(piece) == count:
        return piece
    waiting.append(piece.slice(count))
    return piece.slice(0, count)
