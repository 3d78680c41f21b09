"""Coordinates into compressed rows, columns and fibres, into dense arrays, and back.

A matrix of coordinates has one row per value and one column per axis. On the way to compressed layouts it is
laid out column by column, so that a column can serve as an array of indices.
"""

from __future__ import annotations

import numpy as np

from arrowipc.arguments import described
from arrowipc.datatypes import DataType, Duration, FloatingPoint, Int
from arrowipc.errors import LimitError, UsageError
from arrowipc.tensors.sparse_index import (
    build_fibres,
    build_pointers,
    check_coordinates,
    count_fibres,
    count_nonzero,
    expand_fibres,
    expand_pointers,
    find_runs,
    put_compressed,
    put_values,
    sort_coordinates,
    take_nonzero,
    take_rows,
    transpose_level,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[Any]
    Indices: TypeAlias = npt.NDArray[Any]

__all__ = [
    "canonical_coordinates",
    "compressed_pointers",
    "compressed_to_dense",
    "coordinates_from_compressed",
    "coordinates_from_fibres",
    "coordinates_to_dense",
    "dense_to_coordinates",
    "fibres_from_coordinates",
    "index_dtype",
    "matrix",
    "native",
    "transposed",
]

#: What `check_coordinates` says of rows.
UNSORTED, TIED, CANONICAL = range(3)

#: The sign bit of floating-point numbers of some bytes: -0.0 is zero too.
SIGNS = {2: 1 << 15, 4: 1 << 31, 8: 1 << 63}


def native(array: Values) -> Values:
    """Return `array` with little-endian values, copied if it had others."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def matrix(count: int, axes: int, dtype: np.dtype[Any], by_rows: bool = False) -> Indices:
    """Return an uninitialised matrix of coordinates, its columns (or rows) contiguous."""
    return np.empty((count, axes), dtype) if by_rows else np.empty((axes, count), dtype).T


def index_dtype(index_type: Any, shape: Sequence[int], like: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the dtype of indices into `shape`.

    Parameters
    ----------
    index_type : dtype-like, Int or None
        None: `like` if it is large enough, else int64.
    like : numpy.dtype, optional
        The dtype of the indices that new ones are made from.

    Raises
    ------
    UsageError
        If `index_type` is no integer type or too small: readers that are written in C++ want types that hold
        each dimension itself, not only the largest index.
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


# Coordinates.


def canonical_coordinates(
    indices: Indices, data: Values, shape: Sequence[int], axes: Sequence[int], kind: DataType
) -> tuple[Indices, Values]:
    """Return coordinates sorted by `axes`, their columns in that order, and the values that belong to them.

    Values with equal coordinates are added up. Nothing is copied that is right already.

    Raises
    ------
    UsageError
        If there are such values and their type has no sums.
    """
    order = check_coordinates(indices, shape, axes)
    count = len(data)
    if order == UNSORTED:
        rows = np.empty(count, np.int64)
        tied = sort_coordinates(indices, shape, axes, rows)
        indices = _taken(indices, rows, axes)
        data = data[rows]
        if not tied:
            return indices, data
    elif list(axes) != list(range(len(axes))):
        indices = _taken(indices, None, axes)
    if order == CANONICAL:
        return indices, data
    starts = np.empty(count, np.int64)
    starts = starts[: find_runs(indices, starts)]
    if len(starts) == count:
        return indices, data
    return _taken(indices, starts, range(len(axes))), _sums(data, starts, kind)


def _taken(indices: Indices, rows: Indices | None, axes: Sequence[int]) -> Indices:
    out = matrix(len(indices) if rows is None else len(rows), len(axes), indices.dtype)
    take_rows(indices, rows, axes, out)
    return out


def _sums(data: Values, starts: Indices, kind: DataType) -> Values:
    if not isinstance(kind, (Int, FloatingPoint, Duration)):
        raise UsageError(
            f"{len(data) - len(starts):,} values of type {kind} share their coordinates with others, and "
            "values of this type cannot be added up"
        )
    # NumPy widens small integers unless told not to, and cannot be told so for durations.
    dtype = None if data.dtype.kind == "m" else data.dtype
    with np.errstate(all="ignore"):  # infinities of both signs
        return np.add.reduceat(data, starts, dtype=dtype)


# Dense arrays.


def _raw(values: Values) -> Values:
    """Return the same memory as words, or as bytes where no word is that wide: all can export these."""
    size = values.dtype.itemsize
    return values.view(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")


def dense_to_coordinates(
    array: Values, axes: Sequence[int], kind: DataType, index_type: Any, by_rows: bool
) -> tuple[Indices, Values]:
    """Return the coordinates of all values that are not zero, sorted by `axes`, and these values.

    The array is gone through in the order of its memory; what that does not sort is sorted afterwards.
    """
    raw = _raw(array)
    sign = SIGNS.get(array.itemsize, 0) if isinstance(kind, FloatingPoint) else 0
    count = count_nonzero(raw, sign)
    dtype = index_dtype(index_type, array.shape)
    along = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    indices = matrix(count, array.ndim, dtype, by_rows)
    data = np.empty(count, array.dtype)
    take_nonzero(raw.transpose(along), sign, indices, _raw(data))
    if along == list(axes):
        return indices, data
    shape = [array.shape[axis] for axis in along]
    return canonical_coordinates(indices, data, shape, [along.index(axis) for axis in axes], kind)


def empty_dense(shape: Sequence[int], dtype: np.dtype[Any]) -> Values:
    """Return an array of zeros.

    Raises
    ------
    UsageError
        If NumPy has no such array.
    """
    try:
        return np.zeros(shape, dtype)
    except ValueError as error:
        raise UsageError(f"no dense array can have the shape {tuple(shape)}: {error}") from None


def coordinates_to_dense(indices: Indices, data: Values, shape: Sequence[int]) -> Values:
    """Return a dense array of the values at their coordinates; of several with equal ones the last."""
    dense = empty_dense(shape, data.dtype)
    put_values(indices, _raw(data), _raw(dense))
    return dense


def compressed_to_dense(indptr: Indices, indices: Indices, data: Values, shape: Sequence[int], axis: int) -> Values:
    """Return a matrix whose rows (`axis` 0) or columns (1) are compressed as a dense array."""
    dense = empty_dense(shape, data.dtype)
    put_compressed(indptr, indices, _raw(data), _raw(dense if axis == 0 else dense.T))
    return dense


# Compressed rows, columns, fibres.


# A shape is a claim of a few bytes: so many rows without values, and so many for each value, get a pointer.
MOST_EMPTY_PARENTS, MOST_PER_ENTRY = 1 << 24, 64


def compressed_pointers(column: Indices, parents: int, dtype: np.dtype[Any]) -> Indices:
    """Return where the entries of each parent begin, from the sorted column that says whose they are.

    `dtype` is that of the indices.
    """
    indptr = _pointers(parents, len(column), pointer_dtype(dtype, len(column)))
    build_pointers(column, parents, indptr)
    return indptr


def transposed(
    indptr: Indices, indices: Indices, data: Values, size: int, dtype: np.dtype[Any]
) -> tuple[Indices, Indices, Values]:
    """Return compressed columns from compressed rows (or the opposite), sorted; `size`: their number."""
    pointers = _pointers(size, len(indices), np.dtype(np.int64))
    pointers.fill(0)
    wide = indices if len(indptr) - 1 <= np.iinfo(indices.dtype).max else indices.astype(np.int64)
    out = np.empty_like(wide)
    order = np.empty(len(indices), np.int64)
    transpose_level(indptr, wide, size, pointers, out, order)
    return (
        pointers.astype(pointer_dtype(dtype, len(data)), copy=False),
        out.astype(dtype, copy=False),
        data[order],
    )


def _pointers(parents: int, entries: int, dtype: np.dtype[Any]) -> Indices:
    """Return room for a pointer per row or column, and one more."""
    if parents > MOST_EMPTY_PARENTS + MOST_PER_ENTRY * entries:
        raise LimitError(
            f"{entries:,} values in {parents:,} rows or columns: compressed, the empty ones would take most "
            "of the memory; keep them as coordinates"
        )
    return np.empty(parents + 1, dtype)


def coordinates_from_compressed(indptr: Indices, indices: Indices, axis: int) -> Indices:
    """Return the coordinates of a matrix whose rows (`axis` 0) or columns (1) are compressed."""
    out = matrix(len(indices), 2, indices.dtype)
    parents = len(indptr) - 1
    if parents > np.iinfo(indices.dtype).max:
        out = matrix(len(indices), 2, np.dtype(np.int64))
    expand_pointers(indptr, out[:, axis])
    out[:, 1 - axis] = indices
    return out


def fibres_from_coordinates(indices: Indices, dtype: np.dtype[Any]) -> tuple[tuple[Indices, ...], tuple[Indices, ...]]:
    """Return the pointers and the indices of every level of the tree of sorted coordinates."""
    counts = count_fibres(indices)
    pointers = pointer_dtype(dtype, len(indices))
    indptr = tuple([np.empty(count + 1, pointers) for count in counts[:-1]])
    nodes = tuple([np.empty(count, dtype) for count in counts])
    build_fibres(indices, indptr, nodes)
    return indptr, nodes


def coordinates_from_fibres(indptr: Sequence[Indices], indices: Sequence[Indices], axes: Sequence[int]) -> Indices:
    """Return the coordinates of every leaf."""
    out = matrix(len(indices[-1]), len(indices), np.result_type(*indices))
    expand_fibres(indptr, indices, axes, out)
    return out
