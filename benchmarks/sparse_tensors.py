"""Sparse matrices written and read, beside SciPy's own files and NumPy's dense ones.

Measured, per call, for float64 matrices of which one value in fifty is not zero, with int32 indices, as SciPy
has them:

* write to memory: arrowipc: ``write_sparse_tensor(matrix, bytearray())``; SciPy: ``save_npz(file, matrix,
  compressed=False)``; NumPy: ``save(BytesIO(), dense)``, the matrix with all its zeros.
* read from memory: arrowipc: ``read_sparse_tensor(bytes).to_scipy()``, all indices proven; unproven: with
  ``validate="none"`` and without ``to_scipy``, which proves what it hands over; SciPy: ``load_npz``, which
  copies and proves nothing; NumPy: ``load``.
* build from a dense array: arrowipc: ``from_dense``; pyarrow: ``from_dense_numpy``; SciPy: its constructors.
* sort, transpose, spread: coordinates in random order to compressed rows, rows to columns, rows to a dense
  array.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks.harness import Case, Run, Scale

TITLE = "sparse tensors"

#: One value in so many is not zero.
SPARSENESS = 50

LAYOUTS = {
    "COO": (arrowipc.SparseCOOTensor, pa.SparseCOOTensor),
    "CSR": (arrowipc.SparseCSRMatrix, pa.SparseCSRMatrix),
    "CSC": (arrowipc.SparseCSCMatrix, pa.SparseCSCMatrix),
    "CSF": (arrowipc.SparseCSFTensor, pa.SparseCSFTensor),
}


def cases(scale: Scale) -> Iterator[Case]:
    """Messages of 1 KB to 100 MB; then what is built in memory."""
    from scipy import sparse

    some = (1_000, scale.size(1_000_000, 2_000))
    for size in (1_000, 100_000, 10_000_000, 100_000_000) if scale.thorough else some:
        yield from stored(sparse, size)
    side = scale.size(2_000, 20)
    dense = dense_of(side)
    for layout, (ours, theirs) in LAYOUTS.items():
        yield built(sparse, dense, layout, ours, theirs)
    yield from changed(sparse, dense)


def dense_of(side: int) -> Any:
    generator = np.random.default_rng(1)
    return generator.random((side, side)) * (generator.random((side, side)) < 1 / SPARSENESS)


def matrix_of(sparse: Any, size: int) -> Any:
    """Return a matrix of about `size` bytes: each value takes 12, each row 4 more."""
    count = size // 12
    side = max(int((count * SPARSENESS) ** 0.5), 4)
    generator = np.random.default_rng(1)
    rows = np.sort(generator.integers(0, side, count))
    columns = generator.integers(0, side, count)
    matrix = sparse.coo_array((generator.random(count), (rows, columns)), (side, side)).tocsr()
    matrix.sum_duplicates()
    return matrix


def stored(sparse: Any, size: int) -> Iterator[Case]:
    """Write and read one matrix."""
    matrix = matrix_of(sparse, size)
    tensor = arrowipc.SparseCSRMatrix.from_scipy(matrix)
    dense = matrix.toarray() if matrix.shape[0] <= 5_000 else None
    total = float(matrix.data.sum())

    def write_ours() -> float:
        arrowipc.write_sparse_tensor(tensor, bytearray())
        return total

    def write_scipy() -> float:
        sparse.save_npz(io.BytesIO(), matrix, compressed=False)
        return total

    def write_numpy() -> float:
        np.save(io.BytesIO(), dense)
        return total

    contenders: dict[str, Run] = {"arrowipc": write_ours, "scipy": write_scipy}
    if dense is not None:
        contenders["numpy, dense"] = write_numpy
    name = f"{size / 1e3:g} KB" if size < 1_000_000 else f"{size / 1e6:g} MB"
    yield Case(f"write CSR, {name}", "call", 1, contenders, goal=1, baseline="scipy")

    sink = bytearray()
    arrowipc.write_sparse_tensor(tensor, sink)
    message = bytes(sink)
    archive, array = io.BytesIO(), io.BytesIO()
    sparse.save_npz(archive, matrix, compressed=False)

    def read_ours() -> int:
        return int(arrowipc.read_sparse_tensor(message).to_scipy().nnz)

    def read_unproven() -> int:
        return arrowipc.read_sparse_tensor(message, validate="none").non_zero_length

    def read_scipy() -> int:
        archive.seek(0)
        return int(sparse.load_npz(archive).nnz)

    def read_numpy() -> int:
        array.seek(0)
        np.load(array)
        return int(matrix.nnz)

    contenders = {"arrowipc": read_ours, "arrowipc, unproven": read_unproven, "scipy": read_scipy}
    if dense is not None:
        np.save(array, dense)
        contenders["numpy, dense"] = read_numpy
    yield Case(f"read CSR, {name}", "call", 1, contenders, goal=1, baseline="scipy")


def built(sparse: Any, dense: Any, layout: str, ours: Any, theirs: Any) -> Case:
    """Build one layout from a dense array."""
    contenders: dict[str, Run] = {
        "arrowipc": lambda: ours.from_dense(dense).non_zero_length,
        "pyarrow": lambda: theirs.from_dense_numpy(dense).non_zero_length,
    }
    if layout != "CSF":
        constructor = getattr(sparse, f"{layout.lower()}_array")
        contenders["scipy"] = lambda: int(constructor(dense).nnz)
    shape = " x ".join(map(str, dense.shape))
    return Case(f"dense {shape} to {layout}", "call", 1, contenders, goal=1)


def changed(sparse: Any, dense: Any) -> Iterator[Case]:
    """Sort, transpose and spread."""
    rows = arrowipc.SparseCSRMatrix.from_dense(dense, index_type="int32")
    matrix = rows.to_scipy()
    whole = rows.to_coo()
    order = np.random.default_rng(2).permutation(whole.non_zero_length)
    loose = arrowipc.SparseCOOTensor(whole.data[order], whole.indices[order], whole.shape)
    their_loose = loose.to_scipy()

    def sorted_by_scipy() -> int:
        made = their_loose.tocsr()
        made.sum_duplicates()
        return int(made.nnz)

    name = f"{whole.non_zero_length:,} values"
    yield Case(
        f"coordinates in any order to CSR, sorted, {name}",
        "call",
        1,
        {"arrowipc": lambda: loose.to_csr().non_zero_length, "scipy": sorted_by_scipy},
        baseline="scipy",
    )
    yield Case(
        f"CSR to CSC, {name}",
        "call",
        1,
        {"arrowipc": lambda: rows.to_csc().non_zero_length, "scipy": lambda: int(matrix.tocsc().nnz)},
        baseline="scipy",
    )
    yield Case(
        f"CSR to dense, {name}",
        "call",
        1,
        {"arrowipc": lambda: rows.to_dense().shape, "scipy": lambda: matrix.toarray().shape},
        baseline="scipy",
    )
