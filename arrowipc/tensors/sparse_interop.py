"""Parts of sparse objects of SciPy, PyData Sparse and PyTorch as NumPy arrays, and objects of SciPy and PyTorch.

These libraries are imported only when one of their objects is made.
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

    # Values, pointers (of compressed layouts), indices, and shape: the arguments of a layout's class.
    Parts: TypeAlias = tuple[Any, ...]

COMPRESSED = ("CSR", "CSC")
ARROW_LAYOUTS = {"SparseCOOTensor": "COO", "SparseCSRMatrix": "CSR", "SparseCSCMatrix": "CSC", "SparseCSFTensor": "CSF"}

#: Exceptions of other libraries' constructors for dtypes and shapes that they do not take.
UNFIT = (NotImplementedError, TypeError, ValueError)


def library_of(obj: Any) -> str | None:
    """Return the library of a sparse object: "scipy", "sparse", "torch", "pyarrow", or None for another object."""
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
    """Return the layout of an object that `library_of` knows; "COO" if Arrow does not have its layout."""
    library = library_of(obj)
    if library == "pyarrow":
        return ARROW_LAYOUTS[type(obj).__name__]
    if library == "scipy":
        layout = obj.format.upper()
    elif library == "torch":
        layout = str(obj.layout).removeprefix("torch.sparse_").upper()
    else:
        axes = getattr(obj, "compressed_axes", None)
        layout = COMPRESSED[axes[0]] if axes is not None and obj.ndim == 2 and len(axes) == 1 else "COO"
    return layout if layout in COMPRESSED else "COO"


def _expect(obj: Any, library: str, what: str) -> None:
    if library_of(obj) != library:
        raise UsageError(f"expected {what}, found {described(obj)}")


# SciPy.


def parts_of_scipy(matrix: Any, layout: str) -> Parts:
    """Return the parts of a sparse object of SciPy, converted to `layout` if necessary."""
    _expect(matrix, "scipy", "a sparse array of SciPy")
    if layout == "COO":
        coo = matrix.tocoo(copy=False)
        return coo.data, np.stack(coo.coords).T, coo.shape
    _expect_matrix(matrix)
    made = matrix.asformat(layout.lower(), copy=False)
    return made.data[: made.nnz], made.indptr, made.indices[: made.nnz], made.shape


def to_scipy(layout: str, data: Values, index: Sequence[Indices], shape: Sequence[int], canonical: bool) -> Any:
    """Return a SciPy array over the same memory; a compressed one that is not `canonical` is copied.

    SciPy would sort it in place.
    """
    made = _scipy_empty(getattr(import_module("scipy.sparse"), f"{layout.lower()}_array"), data, shape)
    if layout == "COO":
        made.data = _aligned(data)
        made.coords = tuple([_scipy_index(column) for column in index[0].T])
        # SciPy marks an array made empty as canonical: set the real flag.
        made.has_canonical_format = canonical
        return made
    indptr, indices = _scipy_index(index[0]), _scipy_index(index[1])
    wide = np.result_type(indptr, indices)  # SciPy's loops require one dtype
    made.data = _aligned(data) if canonical else data.copy()
    made.indptr = indptr.astype(wide, copy=not canonical)
    made.indices = indices.astype(wide, copy=not canonical)
    if canonical:
        made.has_canonical_format = True  # otherwise SciPy checks when it needs to know
    return made


def _scipy_empty(kind: Any, data: Values, shape: Sequence[int]) -> Any:
    """Return an object without values: constructors that take arrays would copy int64 indices to narrower ones."""
    try:
        return kind(tuple(shape), dtype=data.dtype)
    except UNFIT as error:
        raise UsageError(f"SciPy has no {kind.__name__} of {data.dtype} and shape {tuple(shape)}: {error}") from None


def _scipy_index(indices: Indices) -> Indices:
    """Return indices as int32 or int64, the only types that SciPy's loops take."""
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


def parts_of_pydata(array: Any, layout: str) -> Parts:
    """Return the parts of an array; it is converted unless it is a ``COO``, or a ``GCXS`` of the same axis."""
    _expect(array, "sparse", "an array of PyData Sparse")
    if array.fill_value != 0:
        raise UsageError(f"sparse tensors of Arrow are zero where no value is stored, this array is {array.fill_value}")
    if layout == "COO":
        coo = array.asformat("coo")
        return coo.data, coo.coords.T, coo.shape
    _expect_matrix(array)
    if layout_of(array) != layout:
        array = array.asformat("gcxs", compressed_axes=(COMPRESSED.index(layout),))
    return array.data, array.indptr, array.indices, array.shape


def to_pydata(data: Values, indices: Indices, shape: Sequence[int], canonical: bool) -> Any:
    """Return a ``sparse.COO``."""
    coo = import_module("sparse").COO
    return coo(indices.T, data, shape=tuple(shape), has_duplicates=not canonical, sorted=canonical)


# PyTorch.


def parts_of_torch(tensor: Any, layout: str) -> Parts:
    """Return the parts of a sparse tensor, which must have that layout; a COO tensor need not be coalesced."""
    _expect(tensor, "torch", "a sparse tensor of PyTorch")
    wanted = f"sparse_{layout.lower()}"
    if str(tensor.layout) != f"torch.{wanted}":
        raise UsageError(f"expected a tensor of the layout {wanted}, found {tensor.layout}: use to_{wanted}()")
    if tensor.device.type != "cpu":
        raise UsageError(f"the tensor lies on {tensor.device}: bring it to main memory with .cpu()")
    if tensor.dense_dim():
        raise UsageError(f"a tensor with {tensor.dense_dim()} dense dimensions has no counterpart in Arrow")
    tensor, shape = tensor.detach(), tuple(tensor.shape)
    if layout == "COO":
        return _numpy(tensor._values()), _numpy(tensor._indices()).T, shape
    pointers, indices = (
        (tensor.crow_indices(), tensor.col_indices())
        if layout == "CSR"
        else (tensor.ccol_indices(), tensor.row_indices())
    )
    return _numpy(tensor.values()), _numpy(pointers), _numpy(indices), shape


def _numpy(tensor: Any) -> Values:
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError as error:
        raise UsageError(f"NumPy has no array of {tensor.dtype}: {error}") from None


def to_torch(layout: str, data: Values, index: Sequence[Indices], shape: Sequence[int], canonical: bool) -> Any:
    """Return a ``torch.sparse_coo_tensor``, ``sparse_csr_tensor`` or ``sparse_csc_tensor``."""
    torch = import_module("torch")
    make = getattr(torch, f"sparse_{layout.lower()}_tensor")
    if layout == "COO":
        parts: list[Indices] = [index[0].astype(np.int64, copy=False).T]
        flags = {"is_coalesced": canonical}
    else:
        kind = np.int32 if all(each.dtype == np.int32 for each in index) else np.int64
        parts = [each.astype(kind, copy=False) for each in index]
        flags = {}
    tensors = [_torch(torch, part) for part in (*parts, data)]
    return make(*tensors, tuple(shape), check_invariants=False, **flags)


def _torch(torch: Any, array: Values) -> Any:
    """Return a tensor over the same memory if that is writable: PyTorch has no read-only tensors."""
    if not (array.flags.writeable and array.flags.aligned):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise UsageError(f"PyTorch has no tensor of {array.dtype}: {error}") from None
