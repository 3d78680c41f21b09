"""Sparse objects of SciPy, PyData Sparse and PyTorch, taken apart into NumPy arrays and made of them; of pyarrow taken.

None of them is imported before somebody calls for its objects.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from arrowipc.arguments import described
from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from arrowipc.tensors.sparse_convert import Indices, Values

    Coordinates: TypeAlias = tuple[Values, Indices, tuple[int, ...]]
    Compressed: TypeAlias = tuple[Values, Indices, Indices, tuple[int, ...]]

__all__ = [
    "compressed_of_pydata",
    "compressed_of_scipy",
    "compressed_of_torch",
    "coordinates_of_pydata",
    "coordinates_of_scipy",
    "coordinates_of_torch",
    "layout_of",
    "library_of",
    "pydata_compressed",
    "pydata_coo",
    "scipy_compressed",
    "scipy_coo",
    "torch_compressed",
    "torch_coo",
]

FORMATS = ("csr", "csc")
ARROW_LAYOUTS = {"SparseCOOTensor": "coo", "SparseCSRMatrix": "csr", "SparseCSCMatrix": "csc", "SparseCSFTensor": "csf"}

#: What the constructors of others raise for dtypes and shapes that they do not take.
UNFIT = (NotImplementedError, TypeError, ValueError)


def library_of(obj: Any) -> str | None:
    """Return which library a sparse object belongs to: "scipy", "sparse", "torch", "pyarrow", or None."""
    for each in type(obj).__mro__:
        library = each.__module__.partition(".")[0]
        if library == "scipy" and hasattr(obj, "tocoo"):
            return library
        if library == "sparse" and hasattr(obj, "fill_value"):
            return library
        if library == "torch" and hasattr(obj, "layout") and str(obj.layout) != "torch.strided":
            return library
        if library == "pyarrow" and each.__name__ in ARROW_LAYOUTS:
            return library
    return None


def layout_of(obj: Any) -> str:
    """Return "csr", "csc", "csf" or "coo" for an object that `library_of` knows."""
    if library_of(obj) == "pyarrow":
        return ARROW_LAYOUTS[type(obj).__name__]
    if library_of(obj) == "scipy":
        return obj.format if obj.format in FORMATS else "coo"
    if library_of(obj) == "torch":
        return {"torch.sparse_csr": "csr", "torch.sparse_csc": "csc"}.get(str(obj.layout), "coo")
    axes = getattr(obj, "compressed_axes", None)
    return FORMATS[axes[0]] if axes is not None and obj.ndim == 2 and len(axes) == 1 else "coo"


def _expect(obj: Any, library: str, what: str) -> None:
    if library_of(obj) != library:
        raise UsageError(f"expected {what}, found {described(obj)}")


# SciPy.


def coordinates_of_scipy(matrix: Any) -> Coordinates:
    """Return values, coordinates and shape of anything that has ``tocoo``."""
    _expect(matrix, "scipy", "a sparse array of SciPy")
    coo = matrix.tocoo(copy=False)
    coords = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return coo.data, _columns(coords), coo.shape


def _columns(coords: Sequence[Indices]) -> Indices:
    """Return arrays of one coordinate each as a matrix: a view where they lie at equal distances."""
    first = coords[0]
    addresses = [each.__array_interface__["data"][0] for each in coords]
    gap = addresses[1] - addresses[0] if len(coords) > 1 else 0
    together = (
        all(address == addresses[0] + k * gap for k, address in enumerate(addresses))
        and len({(each.dtype, each.shape, each.strides) for each in coords}) == 1
        and isinstance(first.base, np.ndarray)
        and all(each.base is first.base for each in coords)
    )
    if not together or first.size == 0:
        return np.stack(coords).T
    shape, strides = (len(first), len(coords)), (first.strides[0], gap)
    return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=first.flags.writeable)


def scipy_coo(data: Values, indices: Indices, shape: Sequence[int], canonical: bool) -> Any:
    """Return a ``coo_array`` over the same memory."""
    sparse = import_module("scipy.sparse")
    columns = [_scipy_index(column) for column in indices.T]
    made = _scipy_empty(sparse.coo_array, data, shape)
    made.data = _aligned(data)
    if hasattr(made, "coords"):
        made.coords = tuple(columns)
    else:
        made.row, made.col = columns
    # An array that is made empty says that it is canonical.
    made.has_canonical_format = canonical
    return made


def compressed_of_scipy(matrix: Any, axis: int) -> Compressed:
    """Return values, pointers, indices and shape; rows (`axis` 0) or columns (1) are compressed."""
    _expect(matrix, "scipy", "a sparse matrix of SciPy")
    _expect_matrix(matrix)
    made = matrix.asformat(FORMATS[axis], copy=False)
    return made.data[: made.nnz], made.indptr, made.indices[: made.nnz], made.shape


def scipy_compressed(
    data: Values, indptr: Indices, indices: Indices, shape: Sequence[int], axis: int, canonical: bool
) -> Any:
    """Return a ``csr_array`` (`axis` 0) or ``csc_array`` (1) over the same memory if it is `canonical`.

    SciPy sorts and adds up where the arrays lie, even in ``max()``: what it would change it gets as a copy.
    """
    sparse = import_module("scipy.sparse")
    made = _scipy_empty((sparse.csr_array, sparse.csc_array)[axis], data, shape)
    indptr, indices = _scipy_index(indptr), _scipy_index(indices)
    wide = np.result_type(indptr, indices)  # SciPy's loops want both alike
    made.data = _aligned(data) if canonical else data.copy()
    made.indptr = indptr.astype(wide, copy=not canonical)
    made.indices = indices.astype(wide, copy=not canonical)
    if canonical:
        made.has_canonical_format = True  # otherwise SciPy looks by itself
    return made


def _scipy_empty(kind: Any, data: Values, shape: Sequence[int]) -> Any:
    """Return an object without values: constructors that take arrays narrow int64 indices to copies."""
    try:
        return kind(tuple(shape), dtype=data.dtype)
    except UNFIT as error:
        raise UsageError(f"SciPy has no {kind.__name__} of {data.dtype} and shape {tuple(shape)}: {error}") from None


def _scipy_index(indices: Indices) -> Indices:
    """Return indices as one of the two types that SciPy's loops take."""
    if indices.dtype in (np.int32, np.int64):
        return _aligned(indices)
    small = indices.dtype.itemsize < 4
    return indices.astype(np.int32 if small else np.int64)


def _aligned(array: Values) -> Values:
    return array if array.flags.aligned else array.copy()


def _expect_matrix(obj: Any) -> None:
    if obj.ndim != 2:
        raise UsageError(f"only a matrix has compressed rows or columns, found {obj.ndim} dimensions")


# PyData Sparse.


def _expect_zero_fill(array: Any) -> None:
    _expect(array, "sparse", "an array of PyData Sparse")
    if array.fill_value != 0:
        raise UsageError(f"sparse tensors of Arrow are zero where no value is stored, this array is {array.fill_value}")


def coordinates_of_pydata(array: Any) -> Coordinates:
    """Return values, coordinates and shape of any array of PyData Sparse."""
    _expect_zero_fill(array)
    coo = array.asformat("coo")
    return coo.data, coo.coords.T, coo.shape


def pydata_coo(data: Values, indices: Indices, shape: Sequence[int]) -> Any:
    """Return a ``sparse.COO`` of canonical coordinates."""
    sparse = import_module("sparse")
    try:
        return sparse.COO(indices.T, data, shape=tuple(shape), has_duplicates=False, sorted=True)
    except UNFIT as error:
        raise _no_pydata("COO", data, error) from error


def compressed_of_pydata(array: Any, axis: int) -> Compressed:
    """Return the parts of a matrix; only a ``GCXS`` that is compressed along `axis` is not converted."""
    _expect_zero_fill(array)
    _expect_matrix(array)
    if layout_of(array) != FORMATS[axis]:
        array = array.asformat("gcxs", compressed_axes=(axis,))
    return array.data, array.indptr, array.indices, array.shape


def pydata_compressed(data: Values, indptr: Indices, indices: Indices, shape: Sequence[int], axis: int) -> Any:
    """Return a ``sparse.GCXS``."""
    sparse = import_module("sparse")
    try:
        return sparse.GCXS((data, indices, indptr), shape=tuple(shape), compressed_axes=(axis,))
    except UNFIT as error:
        raise _no_pydata("GCXS", data, error) from error


def _no_pydata(kind: str, data: Values, error: Exception) -> UsageError:
    return UsageError(f"PyData Sparse has no {kind} of {data.dtype}: {error}")


# PyTorch.


def coordinates_of_torch(tensor: Any) -> Coordinates:
    """Return values, coordinates and shape of a sparse COO tensor, coalesced or not."""
    _expect_torch(tensor, "sparse_coo")
    tensor = tensor.detach()
    return _numpy(tensor._values()), _numpy(tensor._indices()).T, tuple(tensor.shape)


def compressed_of_torch(tensor: Any, axis: int) -> Compressed:
    """Return the parts of a sparse CSR (`axis` 0) or CSC (1) tensor."""
    _expect_torch(tensor, f"sparse_{FORMATS[axis]}")
    tensor = tensor.detach()
    pointers = tensor.ccol_indices() if axis else tensor.crow_indices()
    indices = tensor.row_indices() if axis else tensor.col_indices()
    return _numpy(tensor.values()), _numpy(pointers), _numpy(indices), tuple(tensor.shape)


def _expect_torch(tensor: Any, layout: str) -> None:
    _expect(tensor, "torch", "a sparse tensor of PyTorch")
    if str(tensor.layout) != f"torch.{layout}":
        raise UsageError(f"expected a tensor of the layout {layout}, found {tensor.layout}: use to_{layout}()")
    if tensor.device.type != "cpu":
        raise UsageError(f"the tensor lies on {tensor.device}: bring it to main memory with .cpu()")
    if tensor.dense_dim():
        raise UsageError(f"a tensor with {tensor.dense_dim()} dense dimensions has no counterpart in Arrow")


def _numpy(tensor: Any) -> Values:
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError as error:
        raise UsageError(f"NumPy has no array of {tensor.dtype}: {error}") from None


def torch_coo(data: Values, indices: Indices, shape: Sequence[int], canonical: bool) -> Any:
    """Return a ``torch.sparse_coo_tensor``."""
    torch = import_module("torch")
    coordinates = _torch(torch, indices.astype(np.int64, copy=False).T)
    return torch.sparse_coo_tensor(
        coordinates, _torch(torch, data), tuple(shape), is_coalesced=canonical, check_invariants=False
    )


def torch_compressed(data: Values, indptr: Indices, indices: Indices, shape: Sequence[int], axis: int) -> Any:
    """Return a ``torch.sparse_csr_tensor`` (`axis` 0) or ``sparse_csc_tensor`` (1)."""
    torch = import_module("torch")
    make = torch.sparse_csc_tensor if axis else torch.sparse_csr_tensor
    narrow = indptr.dtype == indices.dtype == np.int32
    kind = np.int32 if narrow else np.int64
    pointers, indices = indptr.astype(kind, copy=False), indices.astype(kind, copy=False)
    parts = [_torch(torch, part) for part in (pointers, indices, data)]
    return make(*parts, tuple(shape), check_invariants=False)


def _torch(torch: Any, array: Values) -> Any:
    """Return a tensor over the same memory if that may be written to: PyTorch knows no other."""
    if not (array.flags.writeable and array.flags.aligned):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise UsageError(f"PyTorch has no tensor of {array.dtype}: {error}") from None
