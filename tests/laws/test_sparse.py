"""Laws of sparse tensors: every way from dense and back is the same array; bytes that are cut off are refused."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import TruncatedError
from arrowipc.tensors.sparse_tensor import SparseTensor

LAYOUTS = {
    each.layout: each for each in (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)
}
INDEX_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "m8[s]", "?")


@st.composite
def arrays(draw: st.DrawFn, min_dims: int = 0, max_dims: int = 5, numbers: bool = False) -> np.ndarray:
    """Small dense arrays of any density, type, order of axes and direction."""
    shape = draw(st.lists(st.integers(0, 5), min_size=min_dims, max_size=max_dims))
    dtype = draw(st.sampled_from(DTYPES[:11] if numbers else DTYPES))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    density = draw(st.sampled_from((0.0, 0.05, 0.3, 0.9, 1.0)))
    values = generator.integers(1, 100, shape) * (generator.random(shape) < density)
    array = np.asarray(values).astype(dtype)
    axes = draw(st.permutations(range(len(shape))))
    array = np.asarray(array, order="C").transpose(axes)
    for axis in range(array.ndim):
        if draw(st.booleans()):
            array = np.flip(array, axis)
    return array


def layouts_for(array: np.ndarray) -> list[type[SparseTensor]]:
    names = ["COO"] + (["CSF"] if array.ndim >= 2 else []) + (["CSR", "CSC"] if array.ndim == 2 else [])
    return [LAYOUTS[name] for name in names]


def converted(tensor: SparseTensor, layout: type[SparseTensor]) -> SparseTensor:
    return getattr(tensor, f"to_{layout.layout.lower()}")()


@given(arrays(), st.sampled_from(INDEX_TYPES), st.data())
def test_dense_to_sparse_to_bytes_and_back(array, index_type, data):
    for layout in layouts_for(array):
        tensor = layout.from_dense(array, index_type=index_type)
        assert tensor.is_canonical
        assert tensor.non_zero_length == np.count_nonzero(array)
        assert np.array_equal(tensor.to_dense().astype(array.dtype), array)
        written = tensor.serialize()
        found = ipc.read_sparse_tensor(written, validate="strict")
        assert found == tensor
        assert found.serialize() == written
        assert ipc.read_sparse_tensor(written, validate="none") == tensor
        with pytest.raises(TruncatedError):
            ipc.read_sparse_tensor(written[: data.draw(st.integers(0, len(written) - 1))])


@given(arrays(min_dims=2, max_dims=4), st.sampled_from(INDEX_TYPES))
def test_every_layout_becomes_every_other(array, index_type):
    made = {layout: layout.from_dense(array, index_type=index_type) for layout in layouts_for(array)}
    for tensor in made.values():
        for layout, expected in made.items():
            assert converted(tensor, layout) == expected


@given(arrays(min_dims=2, max_dims=5), st.randoms(use_true_random=False))
def test_fibres_in_every_order_of_axes(array, random):
    axes = list(range(array.ndim))
    random.shuffle(axes)
    tree = ipc.SparseCSFTensor.from_dense(array, axis_order=axes)
    assert tree.axis_order == tuple(axes)
    assert tree == ipc.SparseCOOTensor.from_dense(array).to_csf(axes)
    assert tree.to_csf(axes[::-1]) == ipc.SparseCSFTensor.from_dense(array, axis_order=axes[::-1])
    assert np.array_equal(tree.to_dense().astype(array.dtype), array)
    assert [len(level) - 1 for level in tree.indptr] == [len(level) for level in tree.indices[:-1]]


@given(arrays(min_dims=1, max_dims=4, numbers=True), st.integers(0, 2**32 - 1))
def test_order_and_splitting_of_coordinates_make_no_difference(array, seed):
    """A shuffled tensor is the same tensor; each value twice is twice the tensor."""
    tensor = ipc.SparseCOOTensor.from_dense(array)
    order = np.random.default_rng(seed).permutation(tensor.non_zero_length)
    shuffled = ipc.SparseCOOTensor(tensor.data[order], tensor.indices[order], tensor.shape)
    assert shuffled == tensor
    twice = np.concatenate([order, order[::-1]])
    doubled = ipc.SparseCOOTensor(tensor.data[twice], tensor.indices[twice], tensor.shape)
    with np.errstate(over="ignore"):
        expected = array + array
    assert np.array_equal(doubled.to_dense(), expected)
    found = ipc.read_sparse_tensor(doubled.serialize())
    assert found.indices.tolist() == doubled.indices.tolist()
    assert found.is_canonical is (tensor.non_zero_length == 0)
    for layout in layouts_for(array):
        assert np.array_equal(converted(doubled, layout).to_dense(), expected)


@given(arrays(min_dims=2, max_dims=2, numbers=True), st.sampled_from(INDEX_TYPES))
def test_scipy_agrees(array, index_type):
    sparse = pytest.importorskip("scipy.sparse")
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    for layout in (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix):
        theirs = getattr(sparse, f"{layout.layout.lower()}_array")(array)
        mine = layout.from_dense(array, index_type=index_type)
        assert layout.from_scipy(theirs) == mine
        made = mine.to_scipy()
        assert np.array_equal(made.toarray(), array)
        assert (made != theirs).nnz == 0
        if layout is not ipc.SparseCOOTensor:
            assert made.indptr.tolist() == theirs.indptr.tolist()
            assert made.indices.tolist() == theirs.indices.tolist()
