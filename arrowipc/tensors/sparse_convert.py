"""The index of a sparse tensor in each layout: checks, and conversion from and to coordinates and dense arrays.

A matrix of coordinates has one row per value and one column per axis. For conversion to compressed layouts it is
stored column by column, so that a column can be used as an array of indices.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arrowipc.arguments import described
from arrowipc.datatypes import DataType, Duration, FloatingPoint, Int
from arrowipc.errors import FormatError, LimitError, UsageError
from arrowipc.tensors.sparse_index import check_coordinates, check_level, sort_keys, transpose_level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[Any]
    Indices: TypeAlias = npt.NDArray[Any]

#: Results of `check_coordinates`.
OUTSIDE, UNSORTED, TIED, CANONICAL = range(4)

#: A few bytes of a message can claim a huge shape: at most so many rows, plus so many for each value, get pointers.
MOST_EMPTY_PARENTS, MOST_PER_ENTRY = 1 << 24, 64


class Layout(NamedTuple):
    """The properties of a layout."""

    #: Whether it stores coordinates; else there is a level for each dimension.
    coordinates: bool
    #: Whether the first level is dense.
    dense: bool
    #: Least and largest number of dimensions; None: no limit.
    ndim: tuple[int, int | None]
    #: Return, for a shape, the order of axes in which values are sorted by default.
    order: Callable[[Sequence[int]], tuple[int, ...]]


TABLE = {
    "COO": Layout(True, False, (0, None), lambda shape: tuple(range(len(shape)))),
    "CSR": Layout(False, True, (2, 2), lambda shape: (0, 1)),
    "CSC": Layout(False, True, (2, 2), lambda shape: (1, 0)),
    "CSF": Layout(False, False, (2, None), lambda shape: tuple(sorted(range(len(shape)), key=shape.__getitem__))),
}


class Index(NamedTuple):
    """The coordinates of all values.

    `pointers` of all levels but the last (COO: none), `nodes` of each level (None: dense; COO: one matrix), `axes`.
    """

    pointers: tuple[Indices, ...]
    nodes: tuple[Any, ...]
    axes: tuple[int, ...]

    @property
    def arrays(self) -> tuple[Indices, ...]:
        """The arrays that are stored, pointers first."""
        return self.pointers + (self.nodes[1:] if self.nodes[0] is None else self.nodes)


def native(array: Values) -> Values:
    """Return `array` in native byte order, copied if it has another one."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def matrix(count: int, axes: int, dtype: np.dtype[Any], by_rows: bool = False) -> Indices:
    """Return an uninitialised matrix of coordinates, its columns (or rows) contiguous."""
    return np.empty((count, axes), dtype) if by_rows else np.empty((axes, count), dtype).T


def index_dtype(index_type: Any, shape: Sequence[int], like: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the dtype of indices into `shape`; without `index_type`, `like` if it is large enough, else int64.

    It must hold the size of each dimension, not only the largest index: readers written in C++ require this.
    """
    largest = max(shape, default=0)
    if index_type is None:
        if like is not None and largest <= np.iinfo(like).max:
            return like
        return np.dtype(np.int64)
    if isinstance(index_type, Int):
        index_type = f"<{'i' if index_type.signed else 'u'}{index_type.bit_width // 8}"
    try:
        dtype = np.dtype(index_type)
    except (TypeError, ValueError):
        raise UsageError(f"index_type must be an integer type, found {described(index_type)}") from None
    if dtype.kind not in "iu":
        raise UsageError(f"index_type must be an integer type, found {dtype}")
    dtype = np.dtype(f"={dtype.kind}{dtype.itemsize}")
    if largest > np.iinfo(dtype).max:
        raise UsageError(
            f"index_type {dtype} holds numbers up to {np.iinfo(dtype).max:,}, the shape {tuple(shape)} needs "
            f"one that holds {largest:,}"
        )
    return dtype


def pointer_dtype(dtype: np.dtype[Any], count: int) -> np.dtype[Any]:
    """Return the dtype of pointers up to `count`: that of the indices if it is large enough."""
    return dtype if count <= np.iinfo(dtype).max else np.dtype(np.int64)


# Checks.


def prove_index(index: Index, shape: Sequence[int]) -> bool:
    """Check that no index is outside `shape`; return whether coordinates are sorted and none occurs twice."""
    if not index.pointers:
        return prove_coordinates(index.nodes[0], shape) == CANONICAL
    canonical = True
    for level, nodes in enumerate(index.nodes):
        if nodes is None:
            continue
        pointers = index.pointers[level - 1] if level else None
        if pointers is not None:
            starts, ends, total = pointers[:-1], pointers[1:], len(nodes)
            if not len(pointers) or pointers[0] != 0 or pointers[-1] != total or (ends < starts).any():
                raise _wrong_pointers(index, level)
            if index.nodes[level - 1] is not None and (ends == starts).any():
                canonical = False  # a node without children
        size = shape[index.axes[level]]
        found = check_level(np.ascontiguousarray(nodes), size, pointers)
        if found == OUTSIDE:
            raise _outside(nodes, (size,), "indices" if index.nodes[0] is None else f"indicesBuffers[{level}]")
        if found == UNSORTED:
            canonical = False
    return canonical


def _wrong_pointers(index: Index, level: int) -> FormatError:
    """Return the error for the pointers into a level."""
    pointers, total = index.pointers[level - 1], len(index.nodes[level])
    name = "indptr" if index.nodes[0] is None else f"indptrBuffers[{level - 1}]"
    if len(pointers) == 0:
        return FormatError(f"{name} is empty: it must hold one entry more than it has ranges")
    if pointers[0] != 0:
        return FormatError(f"{name}[0] is {pointers[0]}: the first pointer must be 0")
    down = np.flatnonzero(pointers[1:] < pointers[:-1])
    if len(down):
        before, after = pointers[down[0]], pointers[down[0] + 1]
        return FormatError(
            f"{name}[{down[0] + 1}] is {after}, less than the {before} before it: pointers must not decrease"
        )
    return FormatError(
        f"{name}[{len(pointers) - 1}] is {pointers[-1]}: the last pointer must be {total}, the number of entries "
        "that the pointers divide"
    )


def prove_coordinates(
    indices: Indices, shape: Sequence[int], axes: Sequence[int] | None = None, keys: Indices | None = None
) -> int:
    """Check a matrix of coordinates; return `UNSORTED`, `TIED` or `CANONICAL` for rows in the order of `axes`.

    The place of each row in that order is written to `keys`, unless the shape has 2**63 places or more.
    """
    if math.prod(shape) >= 1 << 63:
        found = _order_of_long_rows(indices, shape, axes)
    else:
        top = np.iinfo(indices.dtype).max
        order = [(shape[axis], axis, min(shape[axis] - 1, top)) for axis in axes or range(len(shape))]
        found = check_coordinates(indices, np.array(order, np.int64).reshape(-1, 3), keys)
    if found == OUTSIDE:
        raise _outside(indices, shape, "indices")
    return found


def _order_of_long_rows(indices: Indices, shape: Sequence[int], axes: Sequence[int] | None) -> int:
    count = max(len(indices) - 1, 0)
    down, tied = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for axis in range(len(shape)) if axes is None else axes:
        column = indices[:, axis]
        if ((column < 0) | (column >= shape[axis])).any():
            return OUTSIDE
        down |= tied & (column[1:] < column[:-1])
        tied &= column[1:] == column[:-1]
    return UNSORTED if down.any() else TIED if tied.any() else CANONICAL


def _outside(indices: Indices, shape: Sequence[int], name: str) -> FormatError:
    """Return the error for the first index outside the shape, in a matrix of coordinates or in one level."""
    columns = indices.T if indices.ndim == 2 else [indices]
    wrong = np.stack([(column < 0) | (column >= size) for column, size in zip(columns, shape, strict=True)], axis=1)
    row, axis = divmod(int(wrong.argmax()), len(shape))
    where = f"{row}, {axis}" if indices.ndim == 2 else f"{row}"
    return FormatError(
        f"{name}[{where}] is {columns[axis][row]}: expected an index from 0 to {shape[axis] - 1}, because that "
        f"dimension has the size {shape[axis]}"
    )


# From an index to coordinates and dense arrays.


def _columns(index: Index) -> Iterator[tuple[int, Indices, Indices | None]]:
    """Yield each axis, its indices, and how many values each of the indices has (None: one)."""
    if not index.pointers:
        for axis, column in enumerate(index.nodes[0].T):
            yield axis, column, None
        return
    yield index.axes[-1], index.nodes[-1], None
    starts: Indices | None = None  # where the values below each node begin
    for axis, nodes, pointers in zip(index.axes[-2::-1], index.nodes[-2::-1], index.pointers[::-1], strict=True):
        starts = pointers.astype(np.int64, copy=False) if starts is None else starts[pointers]
        yield axis, np.arange(len(pointers) - 1) if nodes is None else nodes, np.diff(starts)


def coordinates_of(index: Index, shape: Sequence[int]) -> Indices:
    """Return the coordinates of all values of a checked index; for COO, the matrix itself."""
    leaves: Indices = index.nodes[-1]
    if not index.pointers:
        return leaves
    dtype = leaves.dtype
    if index.nodes[0] is None and shape[index.axes[0]] > np.iinfo(dtype).max:
        dtype = np.dtype(np.int64)
    out = matrix(len(leaves), len(index.axes), dtype)
    try:
        for axis, indices, counts in _columns(index):
            out[:, axis] = indices if counts is None else np.repeat(indices, counts)
    except (IndexError, ValueError) as error:
        raise _changed(error) from None
    return out


def dense_of(index: Index, data: Values, shape: Sequence[int]) -> Values:
    """Return a dense array of the values of a checked index; if coordinates are equal, the last value counts."""
    try:
        dense = np.zeros(shape, data.dtype)
    except ValueError as error:
        raise UsageError(f"no dense array can have the shape {tuple(shape)}: {error}") from None
    places: Any = None
    try:
        for axis, indices, counts in _columns(index):
            size = math.prod(shape[axis + 1 :])
            steps = indices.astype(np.int64, copy=False)
            steps = steps * size if size != 1 else steps
            steps = steps if counts is None else np.repeat(steps, counts)
            places = steps if places is None else places + steps
        dense.reshape(-1)[slice(len(data)) if places is None else places] = data
    except (IndexError, ValueError) as error:
        raise _changed(error) from None
    return dense


def _changed(error: Exception) -> FormatError:
    return FormatError(f"the index is not what it was when it was checked: {error}")


# Coordinates.


def canonical_coordinates(
    indices: Indices, data: Values, shape: Sequence[int], axes: Sequence[int], kind: DataType
) -> tuple[Indices, Values]:
    """Return unique coordinates sorted by `axes` and their values, added up where equal; copy only if necessary."""
    keys = np.empty(len(data), np.int64)
    order = prove_coordinates(indices, shape, axes, keys)
    if order == UNSORTED:
        rows, tied = _sorted_rows(indices, keys, shape, axes)
        order = TIED if tied else CANONICAL
        indices, data = _taken(indices, rows, axes), data[rows]
    elif list(axes) != list(range(len(axes))):
        indices = indices.T[list(axes)].T
    if order == CANONICAL:
        return indices, data
    fresh = np.ones(len(data), np.bool_)
    fresh[1:] = (indices[1:] != indices[:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    if len(starts) == len(data):
        return indices, data
    return _taken(indices, starts, range(len(axes))), _sums(data, starts, kind)


def _sorted_rows(indices: Indices, keys: Indices, shape: Sequence[int], axes: Sequence[int]) -> tuple[Indices, bool]:
    """Return the numbers of the rows in sorted order, and whether some rows may be equal."""
    if math.prod(shape) >= 1 << 63:  # keys would overflow
        return np.lexsort([indices[:, axis] for axis in reversed(axes)]), True
    rows = np.empty(len(keys), np.int64)
    return rows, sort_keys(keys, rows)


def _taken(indices: Indices, rows: Indices, axes: Sequence[int]) -> Indices:
    out = matrix(len(rows), len(axes), indices.dtype)
    for level, axis in enumerate(axes):
        out[:, level] = indices[:, axis][rows]
    return out


def _sums(data: Values, starts: Indices, kind: DataType) -> Values:
    if not isinstance(kind, (Int, FloatingPoint, Duration)):
        raise UsageError(
            f"{len(data) - len(starts):,} values of type {kind} share their coordinates with others, and "
            "values of this type cannot be added up"
        )
    # Without `dtype` NumPy widens small integers; for durations it does not accept the argument.
    dtype = None if data.dtype.kind == "m" else data.dtype
    with np.errstate(all="ignore"):  # sums of infinities of both signs would warn
        return np.add.reduceat(data, starts, dtype=dtype)


# Dense arrays.


def dense_to_coordinates(
    array: Values, axes: Sequence[int], kind: DataType, index_type: Any, by_rows: bool
) -> tuple[Indices, Values]:
    """Return the coordinates of all values that are not zero, sorted by `axes`, and these values.

    The array is walked in memory order; coordinates are sorted afterwards if that is not the order of `axes`.
    """
    dtype = index_dtype(index_type, array.shape)
    along = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    ordered = array.transpose(along)
    places = np.flatnonzero(_not_zero(ordered))
    indices = matrix(len(places), array.ndim, dtype, by_rows)
    rest = places
    for axis in range(array.ndim - 1, 0, -1):
        above = rest // ordered.shape[axis]
        indices[:, axis] = rest - above * ordered.shape[axis]
        rest = above
    if array.ndim:
        indices[:, 0] = rest
    data = ordered.reshape(-1)[places] if ordered.flags.c_contiguous else ordered[tuple(indices.T)]
    if along == list(axes):
        return indices, data
    return canonical_coordinates(indices, data, ordered.shape, [along.index(axis) for axis in axes], kind)


def _not_zero(array: Values) -> Values:
    """Return an array that is true where values are not zero; -0.0 is zero, NaN is not."""
    if array.dtype.kind in "mM":
        array = array.view(np.int64)
    return array if array.dtype.kind in "bV" else array != 0


# Compressed rows, columns, fibres.


def index_of(rules: Layout, indices: Indices, shape: Sequence[int], dtype: np.dtype[Any], axes: Sequence[int]) -> Index:
    """Return the index of unique coordinates, sorted by their columns, which are `axes`."""
    order, count = tuple(axes), len(indices)
    if rules.coordinates:
        return Index((), (indices.astype(dtype, copy=False),), order)
    width = pointer_dtype(dtype, count)
    leaves = np.ascontiguousarray(indices[:, -1], dtype)
    if rules.dense:
        pointers = _pointers(shape[order[0]], count, width)
        try:
            sizes = np.bincount(indices[:, 0].astype(np.int64, copy=False), minlength=len(pointers) - 1)
            np.cumsum(sizes, out=pointers[1:])
        except ValueError as error:
            raise _changed(error) from None
        return Index((pointers,), (None, leaves), order)
    fresh = np.zeros(count, np.bool_)  # true where a node begins
    fresh[:1] = True
    starts, nodes = [], []
    for column in indices.T[:-1]:
        fresh[1:] |= column[1:] != column[:-1]
        starts.append(np.flatnonzero(fresh))
        nodes.append(column[starts[-1]].astype(dtype, copy=False))
    starts.append(np.arange(count))
    levels = [np.append(np.searchsorted(below, above), len(below)) for above, below in pairwise(starts)]
    return Index(tuple([level.astype(width) for level in levels]), (*nodes, leaves), order)


def transposed(index: Index, data: Values, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[Index, Values]:
    """Return the index and the values of a canonical matrix with its other axis compressed."""
    pointers, indices, axes = index.pointers[0], index.nodes[1], index.axes[::-1]
    starts = _pointers(shape[axes[0]], len(indices), np.dtype(np.int64))
    starts.fill(0)
    parents, order = np.empty(len(indices), np.int64), np.empty(len(indices), np.int64)
    wide = np.ascontiguousarray(pointers, np.int64)
    if not transpose_level(wide, indices, shape[axes[0]], starts, parents, order):
        raise _changed(ValueError("pointers or indices are wrong"))
    stored = starts.astype(pointer_dtype(dtype, len(data)), copy=False)
    return Index((stored,), (None, parents.astype(dtype, copy=False)), axes), data[order]


def _pointers(parents: int, entries: int, dtype: np.dtype[Any]) -> Indices:
    """Allocate a pointer per row or column and one more; the first is 0, the others are not set."""
    if parents > MOST_EMPTY_PARENTS + MOST_PER_ENTRY * entries:
        raise LimitError(
            f"{entries:,} values in {parents:,} rows or columns: compressed, the empty ones would take most "
            "of the memory; keep them as coordinates"
        )
    pointers = np.empty(parents + 1, dtype)
    pointers[0] = 0
    return pointers
