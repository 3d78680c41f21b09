"""Sparse tensors in memory: a base class over the table of layouts, a class per layout, the checks of their parts.

Data in a message, in a NumPy array or in an object of SciPy, PyData Sparse or PyTorch are not copied
if the layouts agree. No class trusts its indices: they are bounds-checked when the object is made, or, with
``validate="none"``, before they are used for the first time.
"""

from __future__ import annotations

from copy import deepcopy
from math import prod

import numpy as np

from arrowipc.arguments import (
    Initialized,
    check_choice,
    check_flag,
    checked_names,
    described,
    equals_foreign,
    integer_of,
    items_of,
    order_of,
)
from arrowipc.datatypes import DataType
from arrowipc.errors import FormatError, UsageError
from arrowipc.tensors import sparse_interop as peers
from arrowipc.tensors.sparse_convert import (
    TABLE,
    Index,
    canonical_coordinates,
    coordinates_of,
    dense_of,
    dense_to_coordinates,
    index_dtype,
    index_of,
    native,
    prove_index,
    transposed,
)
from arrowipc.values.dtypes import as_values, dtype_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, ClassVar, Literal, Self

    from arrowipc.tensors.dense import Tensor
    from arrowipc.tensors.sparse_convert import Indices, Values

    Validate = Literal["none", "full", "strict"]


class SparseTensor(Initialized):
    """The common base of the four layouts; use one of the classes below.

    Equality (``==``, :meth:`equals`) compares tensors of one layout: shape, type, and the stored values with
    their coordinates. The width of the indices, the order in which values are stored and the names of
    dimensions make no difference.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> tensor = ipc.SparseCOOTensor.from_dense([[0, 1], [2, 0]]).rename(("y", "x"))
    >>> [each.layout for each in (tensor.to_coo(), tensor.to_csr(), tensor.to_csc(), tensor.to_csf())]
    ['COO', 'CSR', 'CSC', 'CSF']
    >>> ipc.read_sparse_tensor(tensor.serialize()).canonical().equals(tensor)
    True
    """

    __slots__ = ("__weakref__", "_canonical", "_data", "_dim_names", "_index", "_shape", "_type")

    @classmethod
    def _instead(cls) -> dict[str, str]:
        """Return names that pyarrow, NumPy and SciPy use -> the names that these classes use instead."""
        dense = dict.fromkeys(("toarray", "todense"), "to_dense()")
        return {**super()._instead(), **dense, "nnz": "non_zero_length"}

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    #: The layout's short name, a key of `TABLE`.
    layout: ClassVar[str]

    _canonical: bool | None
    _data: Values
    _dim_names: tuple[str, ...] | None
    _index: Index
    _shape: tuple[int, ...]
    _type: DataType

    def _hold(
        self,
        index: Index,
        data: Any,
        shape: Sequence[int],
        dim_names: Iterable[str] | None,
        kind: DataType | None,
        validate: Validate,
    ) -> None:
        """Check the parts that a user passes, and keep them."""
        check_choice("validate", validate, ("none", "full", "strict"))
        self._make_once("_data")
        self._index = index
        self._shape = _checked_shape(shape)
        self._dim_names = checked_names(dim_names, len(self._shape))
        self._data, self._type = _elements(data, kind)
        if self._data.ndim != 1:
            raise UsageError(f"data must have one dimension, found {self._data.ndim}")
        self._canonical = None
        self._fit()
        if validate != "none":
            try:
                self._prove()
            except FormatError as error:
                raise UsageError(str(error)) from None

    @classmethod
    def _of(
        cls,
        index: Index,
        data: Values,
        shape: tuple[int, ...],
        dim_names: tuple[str, ...] | None,
        kind: DataType,
        canonical: bool | None = True,
    ) -> Self:
        """Make a tensor of parts that fit each other; `canonical` None: the indices were not checked."""
        made = cls.__new__(cls)
        made._index, made._data, made._shape, made._dim_names, made._type = index, data, shape, dim_names, kind
        made._canonical = canonical
        return made

    def _fit(self) -> None:
        """Refuse parts whose sizes contradict each other."""
        index, count = self._index, len(self._data)
        self._check_ndim(self.ndim)
        if TABLE[self.layout].coordinates:
            if index.arrays[0].shape != (count, self.ndim):
                raise UsageError(
                    f"{count:,} values of {self.ndim} dimensions need indices of the shape {(count, self.ndim)}, "
                    f"found {index.arrays[0].shape}"
                )
            return
        if (len(index.nodes), len(index.pointers)) != (self.ndim, self.ndim - 1):
            raise UsageError(
                f"{self.ndim} dimensions need as many arrays of indices and {self.ndim - 1} of pointers, "
                f"found {len(index.nodes)} and {len(index.pointers)}"
            )
        for level, (nodes, pointers) in enumerate(zip(index.nodes, index.pointers, strict=False)):
            name = "indptr" if nodes is None else f"indptr[{level}]"
            parents = self._shape[index.axes[0]] if nodes is None else len(nodes)
            if len(pointers) != parents + 1:
                raise UsageError(
                    f"{name} has {len(pointers):,} entries, expected {parents + 1:,}: one more than the nodes (rows, "
                    "columns) of its level"
                )
        if len(index.arrays[-1]) != count:
            raise UsageError(
                f"{count:,} values need as many indices in the last level, found {len(index.arrays[-1]):,}"
            )

    def _prove(self) -> bool:
        """Check the indices, unless that is done; return whether they are sorted and unique."""
        if self._canonical is None:
            self._canonical = prove_index(self._index, self._shape)
        return self._canonical

    # Properties.

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions, "" for one without; None: none has a name."""
        return self._dim_names

    @property
    def type(self) -> DataType:
        """The Arrow type of the values."""
        return self._type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of :attr:`data`."""
        return self._data.dtype

    @property
    def data(self) -> Values:
        """The stored values, not copied; read-only if they are in a message."""
        return self._data

    @property
    def non_zero_length(self) -> int:
        """The number of stored values; some may be zero all the same."""
        return len(self._data)

    @property
    def is_canonical(self) -> bool:
        """Whether the coordinates are sorted and none occurs twice; this is computed, not taken from a message."""
        return self._prove()

    has_canonical_format = is_canonical

    @property
    def is_mutable(self) -> bool:
        """Whether :attr:`data` can be written to."""
        return self._data.flags.writeable

    @property
    def size(self) -> int:
        """The number of all elements, stored or not."""
        return prod(self._shape)

    @property
    def nbytes(self) -> int:
        """The bytes of values and index together."""
        return self._data.nbytes + sum(array.nbytes for array in self._index.arrays)

    def __repr__(self) -> str:
        names = "" if self._dim_names is None else f", dim_names={self._dim_names}"
        return (
            f"<arrowipc.{type(self).__name__} {self._type}, shape={self._shape}{names}, "
            f"{self.non_zero_length:,} values, {self.nbytes:,} bytes>"
        )

    def __eq__(self, other: object) -> bool:
        known = isinstance(other, SparseTensor) or peers.library_of(other) == "pyarrow"
        return equals_foreign(self, other) if known else NotImplemented

    def equals(self, other: object, nan_equal: bool = False) -> bool:
        """Whether `other` has the same layout, shape, type, and the same values at the same coordinates.

        Parameters
        ----------
        other : object
            Also a sparse tensor of pyarrow; in one of compressed fibres, zeros that are stored do not count.
        nan_equal : bool, default False
            Whether NaN equals NaN.
        """
        nan_equal = check_flag("nan_equal", nan_equal)
        if peers.library_of(other) == "pyarrow" and other.shape == self._shape:  # type: ignore[attr-defined]
            other = _from_pyarrow(other)
        if type(other) is not type(self):
            return False
        assert isinstance(other, SparseTensor)
        if self._shape != other._shape or self._type != other._type:
            return False
        left, right = self.canonical(), other.canonical()
        index = zip(left._index.arrays, right._index.arrays, strict=True)
        return (
            len(left._data) == len(right._data)
            and left._index.axes == right._index.axes
            and all(np.array_equal(a, b) for a, b in index)
            and np.array_equal(left._data, right._data, equal_nan=nan_equal and left.dtype.kind in "fmM")
        )

    def canonical(self) -> Self:
        """Return the tensor with sorted and unique coordinates; values of equal ones are added up.

        Raises
        ------
        UsageError
            If values of a type without sums (anything but numbers and durations) share their coordinates.
        """
        if self._prove():
            return self
        made: Self = self._convert(self.layout, None, self._index.axes)
        return made

    def dim_name(self, i: int) -> str:
        """Return the name of a dimension, "" if it has none."""
        return (self._dim_names or ("",) * self.ndim)[i]

    def rename(self, dim_names: Iterable[str] | None) -> Self:
        """Return the tensor with other names of its dimensions; nothing is copied."""
        names = checked_names(dim_names, self.ndim)
        return self._of(self._index, self._data, self._shape, names, self._type, self._canonical)

    # Other layouts.

    def _convert(self, layout: str, index_type: Any, axis_order: Sequence[int] | None = None) -> Any:
        """Convert to a layout, given by name; `axis_order` None: the layout's own order."""
        kind, rules, canonical = LAYOUTS[layout], TABLE[layout], self._prove()
        axes = kind._checked_order(self._shape, axis_order)
        dtype = index_dtype(index_type, self._shape, self._index.arrays[-1].dtype)
        if canonical and rules.dense and TABLE[self.layout].dense and axes != self._index.axes:
            # Rows and columns are swapped by counting instead of sorting.
            index, data = transposed(self._index, self._data, self._shape, dtype)
        else:
            rows = coordinates_of(self._index, self._shape)
            indices, data = canonical_coordinates(rows, self._data, self._shape, axes, self._type)
            index = index_of(rules, indices, self._shape, dtype, axes)
        return kind._of(index, data, self._shape, self._dim_names, self._type)

    @classmethod
    def from_dense(
        cls,
        array: Any,
        dim_names: Iterable[str] | None = None,
        *,
        index_type: Any = None,
        axis_order: Sequence[int] | None = None,
    ) -> Self:
        """Take the values of an array that are not zero.

        Parameters
        ----------
        array : array-like
            Of any strides. -0.0 counts as zero, NaN does not.
        dim_names : iterable of str, optional
        index_type : dtype-like or arrowipc.types.Int, optional
            The type of the indices; None: int64.
        axis_order : sequence of int, optional
            Of compressed fibres, from the root of the tree to its leaves; None: by rising size, which gives the fewest
            nodes.

        Returns
        -------
        a tensor of this class, canonical

        Raises
        ------
        UsageError
            If the dtype has no Arrow type of a fixed width, the layout does not take so many dimensions or no order, or
            `index_type` is too small for the shape.

        Examples
        --------
        >>> import numpy as np, arrowipc
        >>> matrix = arrowipc.SparseCSRMatrix.from_dense(np.eye(3))
        >>> matrix.indices.tolist(), matrix.data.tolist()
        ([0, 1, 2], [1.0, 1.0, 1.0])
        """
        if axis_order is not None and cls.layout != "CSF":
            raise UsageError(f"axis_order is for SparseCSFTensor: {cls.__name__} has its own")
        dense, kind = _elements(array)
        axes = cls._checked_order(dense.shape, axis_order)
        names = checked_names(dim_names, dense.ndim)
        rules = TABLE[cls.layout]
        indices, data = dense_to_coordinates(dense, axes, kind, index_type, rules.coordinates)
        index = index_of(rules, indices, dense.shape, indices.dtype, axes)
        return cls._of(index, data, dense.shape, names, kind)

    @classmethod
    def from_dense_numpy(cls, array: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take the values of an array that are not zero: :meth:`from_dense` under pyarrow's name."""
        return cls.from_dense(array, dim_names)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> Self:
        """Take the values that are not zero, and the names of dimensions, of a dense tensor, also one of pyarrow."""
        from arrowipc.tensors.dense import Tensor

        made = cls.from_dense(tensor, getattr(tensor, "dim_names", None) or None)
        if isinstance(tensor, Tensor):
            made._type = tensor.type
        return made

    @classmethod
    def from_numpy(cls, data: Any, *parts: Any, **names: Any) -> Self:
        """Make a tensor of the parts that the class takes; `data` may also have the shape (n, 1), as in pyarrow."""
        values = np.asarray(data)
        values = values[:, 0] if values.shape[1:] == (1,) else values
        return cls(values, *parts, **names)  # type: ignore[call-arg]  # each layout has its own

    def to_numpy(self) -> tuple[Any, ...]:
        """Return :attr:`data` in the shape (n, 1), as in pyarrow, and the parts of the index; nothing is copied."""
        index: Any = self
        parts = (index.indices,) if TABLE[self.layout].coordinates else (index.indptr, index.indices)
        return self._data[:, np.newaxis], *parts

    def to_tensor(self) -> Tensor:
        """Return a dense tensor; see :meth:`to_dense`."""
        from arrowipc.tensors.dense import Tensor

        return Tensor(self.to_dense(), self._dim_names, self._type)

    @classmethod
    def _check_ndim(cls, ndim: int) -> None:
        """Refuse a number of dimensions that the layout does not take."""
        least, most = TABLE[cls.layout].ndim
        if ndim < least or (most is not None and ndim > most):
            what = "matrices" if most else "two dimensions or more"
            raise UsageError(f"{cls.__name__} is for {what}, found {ndim} dimensions")

    @classmethod
    def _checked_order(cls, shape: Sequence[int], axis_order: Sequence[int] | None) -> tuple[int, ...]:
        cls._check_ndim(len(shape))
        if axis_order is None:
            return TABLE[cls.layout].order(shape)
        return order_of("axis_order", axis_order, len(shape))

    def to_dense(self) -> Values:
        """Return a dense array of :attr:`dtype`.

        Values that share their coordinates are added up, as in SciPy; the format does not define their meaning. The
        array takes as much memory as the shape says: check the shape first if the source of the tensor is untrusted.

        Raises
        ------
        UsageError
            If NumPy has no array of that shape, or values of a type without sums share coordinates.
        FormatError
            If the tensor was read with ``validate="none"`` and its indices are broken.
        MemoryError
            If the array does not fit into memory.
        """
        whole = self.canonical()
        return dense_of(whole._index, whole._data, whole._shape)

    def to_coo(self, *, index_type: Any = None) -> SparseCOOTensor:
        """Return the tensor as sorted coordinates; by default the index type stays, if it can hold the shape."""
        return self._convert("COO", index_type)  # type: ignore[no-any-return]

    def to_csr(self, *, index_type: Any = None) -> SparseCSRMatrix:
        """Return the matrix with compressed rows; that takes a pointer per row."""
        return self._convert("CSR", index_type)  # type: ignore[no-any-return]

    def to_csc(self, *, index_type: Any = None) -> SparseCSCMatrix:
        """Return the matrix with compressed columns; that takes a pointer per column."""
        return self._convert("CSC", index_type)  # type: ignore[no-any-return]

    def to_csf(self, axis_order: Sequence[int] | None = None, *, index_type: Any = None) -> SparseCSFTensor:
        """Return the tensor as compressed fibres.

        Parameters
        ----------
        axis_order : sequence of int, optional
            From the root of the tree to its leaves; None: by rising size, which gives the fewest nodes.
        index_type : dtype-like or arrowipc.types.Int, optional
        """
        return self._convert("CSF", index_type, axis_order)  # type: ignore[no-any-return]

    # Messages.

    def serialize(self) -> bytes:
        """Return the encapsulated message as bytes."""
        from arrowipc.tensors.sparse_io import write_sparse_tensor

        sink = bytearray()
        write_sparse_tensor(self, sink)
        return bytes(sink)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._of, (self._index, self._data, self._shape, self._dim_names, self._type, None)


class _SharedLayout(SparseTensor):
    """Base of the layouts that SciPy and PyTorch also have."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, *parts: Any) -> None: ...

    @classmethod
    def from_scipy(cls, matrix: Any, dim_names: Iterable[str] | None = None) -> Self:
        """Take over a SciPy sparse array or matrix of any format; nothing is copied if it has this layout.

        Coordinates are copied into one matrix. Compressed indices that are unsorted or repeat are copied, because SciPy
        sorts them in place.

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

        Read-only arrays are copied, and coordinates that are not int64. Compressed indices are sorted first, because
        PyTorch requires that.
        """
        tensor = self if self.layout == "COO" else self.canonical()
        return peers.to_torch(self.layout, tensor._data, tensor._index.arrays, self._shape, tensor._prove())


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
        The type of the values, if their dtype does not determine it (for decimals, for instance).
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
        matrix = _checked_integers("indices", indices, 2)
        index = Index((), (matrix,), tuple(range(matrix.shape[1])))
        self._hold(index, data, shape, dim_names, type, validate)

    @property
    def indices(self) -> Indices:
        """The coordinates, a row per value; not copied."""
        return self._index.arrays[0]

    def to_pydata_sparse(self) -> Any:
        """Return a ``sparse.COO`` of PyData Sparse, which sorts the coordinates and adds up values of equal ones."""
        return peers.to_pydata(self._data, self.indices, self._shape, self._prove())


class _CompressedMatrix(_SharedLayout):
    """A matrix with one axis compressed."""

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
        pointers, nodes = _checked_integers("indptr", indptr, 1), _checked_integers("indices", indices, 1)
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
        The column of each value. Within a row they may be in any order and repeat; they are sorted when written.
    shape : (int, int)
    dim_names, type, validate
        As for `SparseCOOTensor`.

    Examples
    --------
    >>> import arrowipc
    >>> arrowipc.SparseCSRMatrix([1, 2], [0, 1, 2], [1, 0], (2, 2)).to_dense().tolist()
    [[0, 1], [2, 0]]
    """

    __slots__ = ()
    layout = "CSR"


class SparseCSCMatrix(_CompressedMatrix):
    """A sparse matrix with compressed columns: as `SparseCSRMatrix`, with columns for rows, and rows for columns.

    Examples
    --------
    >>> import arrowipc
    >>> arrowipc.SparseCSCMatrix([1, 2], [0, 1, 2], [1, 0], (2, 2)).to_dense().tolist()
    [[0, 2], [1, 0]]
    """

    __slots__ = ()
    layout = "CSC"


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
    dim_names, type, validate
        As for `SparseCOOTensor`.

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
        pointers, nodes = _checked_levels("indptr", indptr), _checked_levels("indices", indices)
        ndim = len(_checked_shape(shape))
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


#: The four classes by the names of their layouts.
LAYOUTS: dict[str, type[SparseTensor]] = {
    each.layout: each for each in (SparseCOOTensor, SparseCSRMatrix, SparseCSCMatrix, SparseCSFTensor)
}


# Objects of other libraries.


def from_any(obj: Any, dim_names: Iterable[str] | None = None) -> SparseTensor:
    """Take over a sparse object of SciPy, PyData Sparse, PyTorch, pyarrow or arrowipc, in its own layout.

    An object whose layout Arrow does not have becomes coordinates.
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
    return _from_pyarrow(obj, dim_names)


def _from_pyarrow(tensor: Any, dim_names: Iterable[str] | None = None) -> SparseTensor:
    """Take over a sparse tensor of pyarrow.

    Compressed fibres are converted through a dense tensor, because pyarrow does not expose their order of dimensions.
    """
    kind: Any = LAYOUTS[peers.layout_of(tensor)]
    names = tensor.dim_names if dim_names is None and any(tensor.dim_names) else dim_names
    made: SparseTensor
    if kind.layout == "CSF":
        made = kind.from_dense(tensor.to_tensor().to_numpy(), dim_names=names)
    else:
        data, *index = tensor.to_numpy()
        made = kind(data.ravel(), *index, tensor.shape, names)
    return made


# Checked parts.


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of ints from 0 to 2**63 - 1."""
    sizes = tuple([integer_of("shape: each size", size) for size in items_of("shape", shape)])
    if any(not 0 <= size < 2**63 for size in sizes):
        raise UsageError(f"the sizes of a shape are from 0 to 2**63 - 1, found {sizes}")
    return sizes


def _checked_integers(name: str, array: Any, ndim: int) -> Indices:
    """Return an array of integers in native byte order: the array itself if it is one, else a copy."""
    indices = native(np.asarray(array))
    if indices.size == 0 and indices.dtype.kind == "f" and not hasattr(array, "dtype"):
        indices = indices.astype(np.int64)  # NumPy makes an empty list an array of floats
    if indices.dtype.kind not in "iu":
        raise UsageError(f"{name} must be integers, found {indices.dtype}")
    if indices.ndim != ndim:
        raise UsageError(f"{name} must have {ndim} dimensions, found {indices.ndim}")
    return indices


def _checked_levels(name: str, arrays: Sequence[Any]) -> tuple[Indices, ...]:
    """Return the arrays of all levels as a tuple; they must have one type, because the format stores one."""
    checked = [_checked_integers(f"{name}[{level}]", array, 1) for level, array in enumerate(items_of(name, arrays))]
    if len({array.dtype for array in checked}) > 1:
        raise UsageError(f"all arrays of {name} must have one type, found {', '.join(str(a.dtype) for a in checked)}")
    return tuple(checked)


def _elements(array: Any, kind: DataType | None = None) -> tuple[Values, DataType]:
    """Return an array in the dtype in which its type is stored, and that type; booleans become uint8."""
    values, kind = as_values(array, kind)
    stored = dtype_of(kind)
    if not stored.itemsize:
        raise UsageError(f"a sparse tensor holds values of one byte or more, found the type {kind}")
    return values if values.dtype == stored else values.view(stored), kind
