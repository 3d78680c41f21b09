"""Sparse tensors in memory: coordinates, compressed rows and columns, compressed fibres.

Data in a message, in a NumPy array or in an object of SciPy, PyData Sparse or PyTorch are not copied
if the layouts agree. No class trusts its indices: they are bounds-checked when the object is made, or, with
``validate="none"``, before they are used for the first time.
"""

from __future__ import annotations

from copy import deepcopy

from arrowipc.arguments import described, order_of
from arrowipc.errors import UsageError
from arrowipc.tensors import sparse_interop as peers
from arrowipc.tensors.sparse_convert import Index
from arrowipc.tensors.sparse_tensor import (
    LAYOUTS,
    TABLE,
    SparseTensor,
    checked_integers,
    checked_levels,
    checked_shape,
    from_pyarrow,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self

    from arrowipc.datatypes import DataType
    from arrowipc.tensors.sparse_convert import Indices
    from arrowipc.tensors.sparse_tensor import Validate

__all__ = [
    "SparseCOOTensor",
    "SparseCSCMatrix",
    "SparseCSFTensor",
    "SparseCSRMatrix",
    "SparseTensor",
    "from_any",
]


# Layouts that other libraries have, too.


class _SharedLayout(SparseTensor):
    """A layout that SciPy and PyTorch have, too."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, *parts: Any) -> None: ...

    @classmethod
    def from_scipy(cls, matrix: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a SciPy sparse array or matrix of any format; nothing is copied if it has this layout.

        Coordinates are copied unless they are in one matrix. Compressed indices that are unsorted or repeat are
        copied, because SciPy sorts them in place.

        Examples
        --------
        >>> import scipy.sparse, arrowipc
        >>> matrix = scipy.sparse.eye_array(3, format="csr")
        >>> arrowipc.SparseCSRMatrix.from_scipy(matrix).indptr.tolist()
        [0, 1, 2, 3]
        """
        made = cls(*peers.parts_of_scipy(matrix, cls.layout), dim_names)
        return made if cls.layout == "COO" or made._prove() else deepcopy(made)

    def to_scipy(self) -> Any:
        """Return a ``coo_array``, ``csr_array`` or ``csc_array`` of ``scipy.sparse``.

        An int32 or int64 index and the values are not copied, except compressed indices that are unsorted or repeat,
        because SciPy sorts them in place.

        Raises
        ------
        UsageError
            If SciPy has no sparse arrays of that dtype or number of dimensions.
        """
        canonical = self._prove()
        return peers.to_scipy(self.layout, self._data, self._index.arrays, self._shape, canonical)

    @classmethod
    def from_pydata_sparse(cls, array: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over an array of PyData Sparse.

        The values and coordinates of ``sparse.COO``, and a ``GCXS`` that is compressed like this, are not copied.

        Raises
        ------
        UsageError
            If its fill value is not zero.

        Examples
        --------
        >>> import sparse, arrowipc
        >>> arrowipc.SparseCOOTensor.from_pydata_sparse(sparse.COO([[1]], [7], shape=(3,))).to_dense().tolist()
        [0, 7, 0]
        """
        return cls(*peers.parts_of_pydata(array, cls.layout), dim_names)

    @classmethod
    def from_torch(cls, tensor: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a sparse tensor of PyTorch in main memory; nothing is copied.

        Raises
        ------
        UsageError
            If it is in other memory, has dense dimensions or another layout.
        """
        return cls(*peers.parts_of_torch(tensor, cls.layout), dim_names)

    def to_torch(self) -> Any:
        """Return a sparse tensor of ``torch`` of this layout.

        What is read-only is copied, and coordinates that are not int64. Compressed indices are sorted first, because
        PyTorch wants that.
        """
        tensor = self if self.layout == "COO" else self.canonical()
        return peers.to_torch(self.layout, tensor._data, tensor._index.arrays, self._shape, tensor._prove())


# Coordinates.


class SparseCOOTensor(_SharedLayout):
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
    >>> kind.from_scipy(tensor.to_scipy()) == tensor
    True
    >>> kind.from_torch(tensor.to_torch()) == tensor  # doctest: +SKIP
    True
    """

    __slots__ = ()
    layout = "COO"

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
        matrix = checked_integers("indices", indices, 2)
        index = Index((), (matrix,), tuple(range(matrix.shape[1])))
        self._hold(index, data, shape, dim_names, type, validate)

    @property
    def indices(self) -> Indices:
        """The coordinates, a row per value; not copied."""
        return self._index.arrays[0]


# Compressed rows and columns.


class _CompressedMatrix(_SharedLayout):
    """A matrix with one axis compressed.

    Examples
    --------
    >>> import arrowipc
    >>> kind = arrowipc.SparseCSRMatrix
    >>> matrix = kind.from_dense([[0, 1], [2, 0]])
    >>> kind.from_scipy(matrix.to_scipy()) == matrix
    True
    >>> kind.from_torch(matrix.to_torch()) == matrix  # doctest: +SKIP
    True
    """

    __slots__ = ()

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
        pointers, nodes = checked_integers("indptr", indptr, 1), checked_integers("indices", indices, 1)
        index = Index((pointers,), (None, nodes), TABLE[self.layout].order(shape))
        self._hold(index, data, shape, dim_names, type, validate)

    @property
    def indptr(self) -> Indices:
        """Where the entries of each row (column) begin, and the end of the last one; not copied."""
        return self._index.arrays[0]

    @property
    def indices(self) -> Indices:
        """The column (row) of each value; not copied."""
        return self._index.arrays[1]


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

    __slots__ = ()
    layout = "CSF"

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
        pointers, nodes = checked_levels("indptr", indptr), checked_levels("indices", indices)
        ndim = len(checked_shape(shape))
        axes = tuple(range(ndim)) if axis_order is None else order_of("axis_order", axis_order, ndim)
        self._hold(Index(pointers, nodes, axes), data, shape, dim_names, type, validate)

    @property
    def indptr(self) -> tuple[Indices, ...]:
        """Where the children of each node begin, for each level but the last; not copied."""
        return self._index.pointers

    @property
    def indices(self) -> tuple[Indices, ...]:
        """The index of each node, for each level; not copied."""
        return self._index.arrays[len(self._index.pointers) :]

    @property
    def axis_order(self) -> tuple[int, ...]:
        """The dimension of each level, from the root."""
        return self._index.axes

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


LAYOUTS.update(COO=SparseCOOTensor, CSR=SparseCSRMatrix, CSC=SparseCSCMatrix, CSF=SparseCSFTensor)


# Objects of other libraries.


def from_any(obj: Any, dim_names: Iterable[str] | None = None) -> SparseTensor:
    """Take over a sparse object of SciPy, PyData Sparse, PyTorch or pyarrow, in the layout that it has, or ours.

    What has none of the layouts becomes coordinates.
    """
    if isinstance(obj, SparseTensor):
        return obj if dim_names is None else obj.rename(dim_names)
    library = peers.library_of(obj)
    if library is None:
        raise UsageError(f"expected a sparse tensor, found {described(obj)}")
    makers = {"scipy": "from_scipy", "sparse": "from_pydata_sparse", "torch": "from_torch"}
    if library in makers:
        kind: type[SparseTensor] = LAYOUTS[peers.layout_of(obj)]
        made: SparseTensor = getattr(kind, makers[library])(obj, dim_names)
        return made
    return from_pyarrow(obj, dim_names)
