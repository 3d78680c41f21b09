"""Sparse tensors in memory: coordinates, compressed rows and columns, compressed fibres.

Data in a message, in a NumPy array or in an object of SciPy, PyData Sparse or PyTorch are not copied
if the layouts agree. No class trusts its indices: they are bounds-checked when the object is made, or, with
``validate="none"``, before they are used for the first time.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from arrowipc.arguments import described, order_of
from arrowipc.errors import UsageError
from arrowipc.tensors import sparse_interop as peers
from arrowipc.tensors.sparse_convert import (
    compressed_pointers,
    compressed_to_dense,
    coordinates_from_compressed,
    coordinates_from_fibres,
    fibres_from_coordinates,
    index_dtype,
    transposed,
)
from arrowipc.tensors.sparse_index import check_coordinates, check_level, check_pointers
from arrowipc.tensors.sparse_tensor import (
    LAYOUTS,
    SparseTensor,
    checked_integers,
    checked_levels,
    checked_shape,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, ClassVar, Self

    from arrowipc.datatypes import DataType
    from arrowipc.tensors.sparse_convert import Indices, Values
    from arrowipc.tensors.sparse_tensor import Validate, _Layout

__all__ = [
    "SparseCOOTensor",
    "SparseCSCMatrix",
    "SparseCSFTensor",
    "SparseCSRMatrix",
    "SparseTensor",
    "from_any",
]


# Coordinates.


class SparseCOOTensor(SparseTensor):
    """A sparse tensor with the coordinates of each value.

    Parameters
    ----------
    data : array-like
        The values, one dimension.
    indices : array-like of integers
        Coordinates, one row per value and one column per dimension; any strides.
    shape : sequence of int
    dim_names : iterable of str, optional
    type : DataType, optional
        What the values are, if their dtype does not say so (decimals, for instance).
    validate : {"full", "none", "strict"}
        "none": the indices are checked when they are first used. "strict" is "full" here.

    Raises
    ------
    UsageError
        If the parts contradict each other or an index is outside the shape.

    Examples
    --------
    >>> import arrowipc
    >>> tensor = arrowipc.SparseCOOTensor([1.5, 2.5], [[0, 1], [1, 0]], (2, 2))
    >>> tensor.to_dense().tolist()
    [[0.0, 1.5], [2.5, 0.0]]
    >>> kind = arrowipc.SparseCOOTensor
    >>> kind.from_scipy(tensor.to_scipy()) == kind.from_pydata_sparse(tensor.to_pydata_sparse()) == tensor
    True
    >>> kind.from_torch(tensor.to_torch()) == tensor  # doctest: +SKIP
    True
    """

    __slots__ = ("_indices",)
    layout = "COO"
    _index_names = ("_indices",)
    _indices: Indices

    def __init__(
        self,
        data: Any,
        indices: Any,
        shape: Sequence[int],
        dim_names: Iterable[str] | None = None,
        *,
        type: DataType | None = None,
        validate: Validate = "full",
    ) -> None:
        self._indices = checked_integers("indices", indices, 2)
        self._hold(data, shape, dim_names, type, validate)

    @property
    def indices(self) -> Indices:
        """The coordinates, a row per value; not copied."""
        return self._indices

    def _fit(self) -> None:
        expected = len(self._data), self.ndim
        if self._indices.shape != expected:
            raise UsageError(
                f"{expected[0]:,} values of {expected[1]} dimensions need indices of the shape {expected}, "
                f"found {self._indices.shape}"
            )

    def _check(self) -> bool:
        return check_coordinates(self._indices, self._shape, name="indices") == 2

    def _index_arrays(self) -> tuple[Indices, ...]:
        return (self._indices,)

    def _coordinates(self) -> Indices:
        return self._indices

    @classmethod
    def _index_of(
        cls, indices: Indices, shape: Sequence[int], dtype: np.dtype[Any], axes: Sequence[int]
    ) -> dict[str, Any]:
        return {"_indices": indices.astype(dtype, copy=False)}

    @classmethod
    def from_scipy(cls, matrix: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a SciPy sparse array or matrix of any format.

        The values of COO are not copied. Coordinates are not copied if they are in one matrix.

        Examples
        --------
        >>> import scipy.sparse, arrowipc
        >>> arrowipc.SparseCOOTensor.from_scipy(scipy.sparse.eye_array(3, format="coo")).shape
        (3, 3)
        """
        return cls(*peers.coordinates_of_scipy(matrix), dim_names)

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse.coo_array``; int32 and int64 coordinates and the values are not copied.

        Raises
        ------
        UsageError
            If SciPy has no sparse arrays of that dtype or number of dimensions.
        """
        canonical = self._prove()
        return peers.scipy_coo(self._data, self._indices, self._shape, canonical)

    @classmethod
    def from_pydata_sparse(cls, array: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over an array of PyData Sparse; values and coordinates of ``sparse.COO`` are not copied.

        Raises
        ------
        UsageError
            If its fill value is not zero.
        """
        return cls(*peers.coordinates_of_pydata(array), dim_names)

    def to_pydata_sparse(self) -> Any:
        """Return a ``sparse.COO``, which adds up the values of equal coordinates."""
        whole = self.canonical()
        return peers.pydata_coo(whole._data, whole._indices, whole._shape)

    @classmethod
    def from_torch(cls, tensor: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a sparse COO tensor of PyTorch in main memory; nothing is copied.

        Raises
        ------
        UsageError
            If it is in other memory, has dense dimensions or another layout.
        """
        return cls(*peers.coordinates_of_torch(tensor), dim_names)

    def to_torch(self) -> Any:
        """Return a ``torch.sparse_coo_tensor``; what is read-only, or not int64 coordinates, is copied."""
        canonical = self._prove()
        return peers.torch_coo(self._data, self._indices, self._shape, canonical)


# Compressed rows and columns.


class _CompressedMatrix(SparseTensor):
    """A matrix with one axis compressed.

    Examples
    --------
    >>> import arrowipc
    >>> kind = arrowipc.SparseCSRMatrix
    >>> matrix = kind.from_dense([[0, 1], [2, 0]])
    >>> kind.from_scipy(matrix.to_scipy()) == kind.from_pydata_sparse(matrix.to_pydata_sparse()) == matrix
    True
    >>> kind.from_torch(matrix.to_torch()) == matrix  # doctest: +SKIP
    True
    """

    __slots__ = ("_indices", "_indptr")
    _indices: Indices
    _indptr: Indices
    _index_names = ("_indptr", "_indices")

    #: The axis that is compressed.
    _axis: ClassVar[int]

    def __init__(
        self,
        data: Any,
        indptr: Any,
        indices: Any,
        shape: Sequence[int],
        dim_names: Iterable[str] | None = None,
        *,
        type: DataType | None = None,
        validate: Validate = "full",
    ) -> None:
        self._indptr = checked_integers("indptr", indptr, 1)
        self._indices = checked_integers("indices", indices, 1)
        self._hold(data, shape, dim_names, type, validate)

    @property
    def indptr(self) -> Indices:
        """Where the entries of each row (column) begin, and the end of the last one; not copied."""
        return self._indptr

    @property
    def indices(self) -> Indices:
        """The column (row) of each value; not copied."""
        return self._indices

    @classmethod
    def _check_ndim(cls, ndim: int) -> None:
        if ndim != 2:
            raise UsageError(f"{cls.__name__} is for matrices, found {ndim} dimensions")

    @classmethod
    def _order_of(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return (cls._axis, 1 - cls._axis)

    def _fit(self) -> None:
        self._check_ndim(self.ndim)
        found, expected = len(self._indptr), self._shape[self._axis] + 1
        if found != expected:
            raise UsageError(f"the shape {self._shape} needs {expected:,} entries of indptr, found {found:,}")
        if len(self._indices) != len(self._data):
            raise UsageError(f"{len(self._data):,} values need as many indices, found {len(self._indices):,}")

    def _check(self) -> bool:
        check_pointers(self._indptr, len(self._data), "indptr")
        return check_level(self._indices, self._shape[1 - self._axis], self._indptr, "indices")[0]

    def _index_arrays(self) -> tuple[Indices, ...]:
        return self._indptr, self._indices

    def _coordinates(self) -> Indices:
        return coordinates_from_compressed(self._indptr, self._indices, self._axis)

    def to_dense(self) -> Values:
        whole = self.canonical()
        return compressed_to_dense(whole._indptr, whole._indices, whole._data, whole._shape, self._axis)

    to_dense.__doc__ = SparseTensor.to_dense.__doc__

    def _convert(self, layout: type[_Layout], index_type: Any, axes: Sequence[int]) -> _Layout:
        """Swap rows and columns by counting instead of sorting, where that is all there is to do."""
        if not issubclass(layout, _CompressedMatrix) or layout._axis == self._axis or not self._prove():
            return super()._convert(layout, index_type, axes)
        dtype = index_dtype(index_type, self._shape, self._indices.dtype)
        size = self._shape[layout._axis]
        indptr, indices, data = transposed(self._indptr, self._indices, self._data, size, dtype)
        index = {"_indptr": indptr, "_indices": indices}
        return layout._of(index, data, self._shape, self._dim_names, self._type)

    @classmethod
    def _index_of(
        cls, indices: Indices, shape: Sequence[int], dtype: np.dtype[Any], axes: Sequence[int]
    ) -> dict[str, Any]:
        indptr = compressed_pointers(indices[:, 0], shape[cls._axis], dtype)
        return {"_indptr": indptr, "_indices": np.ascontiguousarray(indices[:, 1], dtype)}

    @classmethod
    def from_scipy(cls, matrix: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a SciPy sparse array or matrix; nothing is copied if it has this layout.

        If indices are unsorted or repeat, all is copied, because SciPy sorts them in place.

        Examples
        --------
        >>> import scipy.sparse, arrowipc
        >>> matrix = scipy.sparse.eye_array(3, format="csr")
        >>> arrowipc.SparseCSRMatrix.from_scipy(matrix).indptr.tolist()
        [0, 1, 2, 3]
        """
        made = cls(*peers.compressed_of_scipy(matrix, cls._axis), dim_names)
        return made if made._prove() else deepcopy(made)

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse.csr_array`` (``csc_array``); an int32 or int64 index is not copied.

        If indices are unsorted or repeat, all is copied, because SciPy sorts them in place.

        Raises
        ------
        UsageError
            If SciPy has no sparse arrays of that dtype.
        """
        canonical = self._prove()
        return peers.scipy_compressed(self._data, self._indptr, self._indices, self._shape, self._axis, canonical)

    @classmethod
    def from_pydata_sparse(cls, array: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a matrix of PyData Sparse; a ``GCXS`` that is compressed like this is not copied."""
        return cls(*peers.compressed_of_pydata(array, cls._axis), dim_names)

    def to_pydata_sparse(self) -> Any:
        """Return a ``sparse.GCXS`` with this axis compressed."""
        whole = self.canonical()
        return peers.pydata_compressed(whole._data, whole._indptr, whole._indices, whole._shape, self._axis)

    @classmethod
    def from_torch(cls, tensor: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a sparse CSR (CSC) tensor of PyTorch in main memory; nothing is copied."""
        return cls(*peers.compressed_of_torch(tensor, cls._axis), dim_names)

    def to_torch(self) -> Any:
        """Return a ``torch.sparse_csr_tensor`` (``sparse_csc_tensor``); what is read-only is copied."""
        whole = self.canonical()  # PyTorch wants sorted indices, and each once
        return peers.torch_compressed(whole._data, whole._indptr, whole._indices, whole._shape, self._axis)


class SparseCSRMatrix(_CompressedMatrix):
    """A sparse matrix with compressed rows.

    Parameters
    ----------
    data : array-like
        The values, row by row.
    indptr : array-like of integers
        Where the values of each row begin, and the end of the last row.
    indices : array-like of integers
        The column of each value. Within a row they may be in any order and repeat; what is written is sorted.
    shape : (int, int)
    dim_names : iterable of str, optional
    type : DataType, optional
        What the values are, if their dtype does not say so.
    validate : {"full", "none", "strict"}
        "none": the index is checked when it is first used. "strict" is "full" here.

    Raises
    ------
    UsageError
        If the parts contradict each other or an index is outside the shape.

    Examples
    --------
    >>> import arrowipc
    >>> arrowipc.SparseCSRMatrix([1, 2], [0, 1, 2], [1, 0], (2, 2)).to_dense().tolist()
    [[0, 1], [2, 0]]
    """

    __slots__ = ()
    layout = "CSR"
    _axis = 0


class SparseCSCMatrix(_CompressedMatrix):
    """A sparse matrix with compressed columns.

    Parameters
    ----------
    data : array-like
        The values, column by column.
    indptr : array-like of integers
        Where the values of each column begin, and the end of the last column.
    indices : array-like of integers
        The row of each value. Within a column they may be in any order and repeat; what is written is sorted.
    shape : (int, int)
    dim_names : iterable of str, optional
    type : DataType, optional
        What the values are, if their dtype does not say so.
    validate : {"full", "none", "strict"}
        "none": the index is checked when it is first used. "strict" is "full" here.

    Raises
    ------
    UsageError
        If the parts contradict each other or an index is outside the shape.

    Examples
    --------
    >>> import arrowipc
    >>> arrowipc.SparseCSCMatrix([1, 2], [0, 1, 2], [1, 0], (2, 2)).to_dense().tolist()
    [[0, 2], [1, 0]]
    """

    __slots__ = ()
    layout = "CSC"
    _axis = 1


# Compressed fibres.


class SparseCSFTensor(SparseTensor):
    """A sparse tensor as a tree: one level per dimension, a path from the root to a leaf per value.

    Parameters
    ----------
    data : array-like
        The values, in the order of the leaves.
    indptr : sequence of array-like of integers
        For each level but the last: where the children of each node begin, and the end of the last ones.
    indices : sequence of array-like of integers
        For each level: the index of each node.
    shape : sequence of int
        At least two dimensions.
    axis_order : sequence of int, optional
        The dimension of each level, from the root; None: as they are.
    dim_names : iterable of str, optional
    type : DataType, optional
        What the values are, if their dtype does not say so.
    validate : {"full", "none", "strict"}
        "none": the index is checked when it is first used. "strict" is "full" here.

    Raises
    ------
    UsageError
        If the parts contradict each other or an index is outside the shape.

    Examples
    --------
    >>> import arrowipc
    >>> tree = arrowipc.SparseCSFTensor([7, 8], [[0, 2]], [[1], [0, 2]], (2, 3))
    >>> tree.to_dense().tolist()
    [[0, 0, 0], [7, 0, 8]]
    """

    __slots__ = ("_axis_order", "_indices", "_indptr")
    layout = "CSF"
    _index_names = ("_indptr", "_indices", "_axis_order")
    _indices: tuple[Indices, ...]
    _indptr: tuple[Indices, ...]
    _axis_order: tuple[int, ...]

    def __init__(
        self,
        data: Any,
        indptr: Sequence[Any],
        indices: Sequence[Any],
        shape: Sequence[int],
        axis_order: Sequence[int] | None = None,
        dim_names: Iterable[str] | None = None,
        *,
        type: DataType | None = None,
        validate: Validate = "full",
    ) -> None:
        self._indptr = checked_levels("indptr", indptr)
        self._indices = checked_levels("indices", indices)
        ndim = len(checked_shape(shape))
        self._axis_order = tuple(range(ndim)) if axis_order is None else order_of("axis_order", axis_order, ndim)
        self._hold(data, shape, dim_names, type, validate)

    @property
    def indptr(self) -> tuple[Indices, ...]:
        """Where the children of each node begin, for each level but the last; not copied."""
        return self._indptr

    @property
    def indices(self) -> tuple[Indices, ...]:
        """The index of each node, for each level; not copied."""
        return self._indices

    @property
    def axis_order(self) -> tuple[int, ...]:
        """The dimension of each level, from the root."""
        return self._axis_order

    @classmethod
    def from_dense(
        cls,
        array: Any,
        dim_names: Iterable[str] | None = None,
        *,
        index_type: Any = None,
        axis_order: Sequence[int] | None = None,
    ) -> Self:
        """Take the values of an array that are not zero; see :meth:`SparseTensor.from_dense`.

        Parameters
        ----------
        array : array-like
        dim_names : iterable of str, optional
        index_type : dtype-like or arrowipc.types.Int, optional
        axis_order : sequence of int, optional
            From the root of the tree to its leaves; None: by rising size, which gives the fewest nodes.

        Examples
        --------
        >>> import numpy as np, arrowipc
        >>> tree = arrowipc.SparseCSFTensor.from_dense(np.eye(2, 3))
        >>> tree.axis_order, [level.tolist() for level in tree.indices]
        ((0, 1), [[0, 1], [0, 1]])
        """
        return cls._from_dense(array, dim_names, index_type, axis_order)

    @classmethod
    def _check_ndim(cls, ndim: int) -> None:
        if ndim < 2:
            raise UsageError(f"{cls.__name__} is for two dimensions or more, found {ndim}")

    @classmethod
    def _order_of(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(range(len(shape)), key=lambda axis: shape[axis]))

    def _axes(self) -> tuple[int, ...]:
        return self._axis_order

    def _fit(self) -> None:
        self._check_ndim(self.ndim)
        if len(self._indices) != self.ndim or len(self._indptr) != self.ndim - 1:
            raise UsageError(
                f"{self.ndim} dimensions need as many arrays of indices and {self.ndim - 1} of pointers, "
                f"found {len(self._indices)} and {len(self._indptr)}"
            )
        for level, indptr in enumerate(self._indptr):
            if len(indptr) != len(self._indices[level]) + 1:
                raise UsageError(
                    f"indptr[{level}] has {len(indptr):,} entries, the {len(self._indices[level]):,} nodes "
                    "of its level need one more than they are"
                )
        if len(self._indices[-1]) != len(self._data):
            raise UsageError(f"{len(self._data):,} values need as many leaves, found {len(self._indices[-1]):,}")

    def _check(self) -> bool:
        canonical = True
        for level, indices in enumerate(self._indices):
            above = self._indptr[level - 1] if level else None
            if above is not None:
                check_pointers(above, len(indices), f"indptrBuffers[{level - 1}]")
            size = self._shape[self._axis_order[level]]
            rising, childless = check_level(indices, size, above, f"indicesBuffers[{level}]")
            canonical = canonical and rising and not childless
        return canonical

    def _index_arrays(self) -> tuple[Indices, ...]:
        return (*self._indptr, *self._indices)

    def _coordinates(self) -> Indices:
        return coordinates_from_fibres(self._indptr, self._indices, self._axis_order)

    @classmethod
    def _index_of(
        cls, indices: Indices, shape: Sequence[int], dtype: np.dtype[Any], axes: Sequence[int]
    ) -> dict[str, Any]:
        indptr, nodes = fibres_from_coordinates(indices, dtype)
        return {"_indptr": indptr, "_indices": nodes, "_axis_order": tuple(axes)}


LAYOUTS.update(COO=SparseCOOTensor, CSR=SparseCSRMatrix, CSC=SparseCSCMatrix, CSF=SparseCSFTensor)


# Objects of other libraries.


def from_any(obj: Any, dim_names: Iterable[str] | None = None) -> SparseTensor:
    """Take over a sparse object of any library that is known here, in the layout that it has.

    Parameters
    ----------
    obj : object
        One of the classes above, or an object of SciPy, PyData Sparse, PyTorch or pyarrow. What has none of the
        layouts becomes coordinates. Compressed fibres of pyarrow, which hides the order of their dimensions,
        become a dense tensor on the way.
    dim_names : iterable of str, optional

    Raises
    ------
    UsageError
        If it is something else.
    """
    if isinstance(obj, SparseTensor):
        return obj if dim_names is None else obj.rename(dim_names)
    library = peers.library_of(obj)
    if library == "pyarrow":
        return _of_arrow(obj, dim_names)
    maker = _MAKERS.get(library)
    if maker is None:
        raise UsageError(f"expected a sparse tensor, found {described(obj)}")
    made: SparseTensor = getattr(LAYOUTS[peers.layout_of(obj).upper()], maker)(obj, dim_names)
    return made


_MAKERS: dict[str | None, str] = {"scipy": "from_scipy", "sparse": "from_pydata_sparse", "torch": "from_torch"}


def _of_arrow(obj: Any, dim_names: Iterable[str] | None) -> SparseTensor:
    names = obj.dim_names if dim_names is None and any(obj.dim_names) else dim_names
    kind: Any = LAYOUTS[peers.layout_of(obj).upper()]
    made: SparseTensor
    if kind is SparseCSFTensor:
        made = kind.from_dense(obj.to_tensor().to_numpy(), dim_names=names)
    else:
        data, *index = obj.to_numpy()
        made = kind(data.ravel(), *index, obj.shape, names)
    return made
