"""Sparse tensors in memory: parts, layouts, and the objects of other libraries."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest

import arrowipc as ipc
import arrowipc.types as t
from arrowipc import UsageError
from arrowipc.tensors.sparse_tensor import from_any

scipy_sparse = pytest.importorskip("scipy.sparse")

LAYOUTS = (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)
MATRICES = (ipc.SparseCSRMatrix, ipc.SparseCSCMatrix)

DENSE = np.array([[0, 1.5, 0, 0], [2.5, 0, 0, -1], [0, 0, 0, 0]])


# -- parts ---------------------------------------------------------------------------------------------------


def test_fibres_go_by_rising_size_unless_told_otherwise():
    assert ipc.SparseCSFTensor.from_dense(np.ones((5, 2, 3))).axis_order == (1, 2, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_negative_zero_is_zero_and_nan_is_not(layout):
    for dtype in (np.float16, np.float32, np.float64):
        dense = np.array([[-0.0, np.nan], [0.0, np.inf]], dtype)
        tensor = layout.from_dense(dense)
        assert tensor.non_zero_length == 2
        assert np.array_equal(tensor.to_dense(), dense, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "dense",
    [
        DENSE[::-1, ::2],
        np.broadcast_to(np.array([0, 1, 2]), (3, 3)),
        DENSE.astype(">f8"),
        np.array([[0, 5], [7, 0]], "M8[ms]"),
        np.array([[b"", b"ab"], [b"c", b""]]),
        np.array([[0, 1 << 60], [3, 0]], np.uint64),
    ],
    ids=lambda dense: f"{dense.dtype}{dense.shape}{dense.strides}",
)
def test_dense_arrays_that_the_laws_do_not_make(layout, dense):
    tensor = layout.from_dense(dense)
    found = ipc.read_sparse_tensor(tensor.serialize())
    assert found == tensor
    made = found.to_dense()
    assert np.array_equal(made.view(dense.dtype) if made.dtype.kind == "V" else made.astype(dense.dtype), dense)


def test_one_dimension_none_and_many():
    assert ipc.SparseCOOTensor.from_dense([0, 3, 0]).indices.tolist() == [[1]]
    scalar = ipc.SparseCOOTensor.from_dense(np.array(4.5))
    assert (scalar.shape, scalar.to_dense().tolist()) == ((), 4.5)
    assert ipc.SparseCOOTensor([1.5, 2], np.empty((2, 0), int), ()).to_dense().tolist() == 3.5
    many = np.zeros((2,) * 20)
    many[(1,) * 20] = many[(0,) * 19 + (1,)] = 3
    for tensor in (ipc.SparseCOOTensor.from_dense(many), ipc.SparseCSFTensor.from_dense(many)):
        assert np.array_equal(tensor.to_dense(), many)
    for layout in MATRICES:
        with pytest.raises(UsageError, match="is for matrices, found 3 dimensions"):
            layout.from_dense(np.zeros((1, 2, 3)))
    with pytest.raises(UsageError, match="axis_order is for SparseCSFTensor"):
        ipc.SparseCSRMatrix.from_dense(DENSE, axis_order=(1, 0))
    assert ipc.SparseCOOTensor.from_dense(DENSE, index_type=t.int16()).indices.dtype == np.int16
    with pytest.raises(UsageError, match="two dimensions or more, found 1"):
        ipc.SparseCSFTensor.from_dense(np.zeros(3))


def test_pointers_are_wider_than_indices_where_there_are_more_values_than_indices_can_count():
    dense = np.ones((20, 20))
    for tensor in (layout.from_dense(dense, index_type="i1") for layout in LAYOUTS[1:]):
        *pointers, last = tensor._index.arrays
        assert last.dtype == np.int8
        assert pointers[0].dtype == np.int64
        assert ipc.read_sparse_tensor(tensor.serialize()) == tensor


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ipc.SparseCOOTensor([1], [[0, 0, 0]], (2, 2)), "need indices of the shape"),
        (lambda: ipc.SparseCOOTensor([1], [[0.0, 0.0]], (2, 2)), "indices must be integers, found float64"),
        (lambda: ipc.SparseCOOTensor([[1]], [[0]], (2,)), "data must have one dimension"),
        (lambda: ipc.SparseCOOTensor([1], [[2]], (2,)), r"indices\[0, 0\] is 2"),
        (lambda: ipc.SparseCOOTensor([1, 2], [[3, 4], [3, 5]], (1 << 62, 5)), r"indices\[1, 1\] is 5"),
        (lambda: ipc.SparseCOOTensor([1], [[0]], (-2,)), "from 0 to 2"),
        (lambda: ipc.SparseCOOTensor([1], [[0]], (2,), "x"), "dim_names must be a sequence of str"),
        (lambda: ipc.SparseCOOTensor([1], [[0]], (2,), validate="some"), "validate must be"),
        (lambda: ipc.SparseCSRMatrix([1], [0, 1], [0], (2, 2)), "indptr has 2 entries, expected 3"),
        (lambda: ipc.SparseCSRMatrix([1], [0, 1, 2], [0], (2, 2)), "the last pointer must be 1"),
        (lambda: ipc.SparseCSCMatrix([1], [0, 1, 1], [2], (2, 2)), r"indices\[0\] is 2"),
        (lambda: ipc.SparseCSFTensor([1], [[0, 1]], [[0]], (2, 2)), "as many arrays of indices"),
        (lambda: ipc.SparseCSFTensor([1], [[0, 1]], [[0], [0]], (2, 2), (0, 0)), "axis_order must name each"),
        (lambda: ipc.SparseCSFTensor([1], [[0, 1]], [[0], [0, 1]], (2, 2)), "as many indices in the last level"),
        (
            lambda: ipc.SparseCSFTensor([1], [[0, 1]], [np.zeros(1, "i4"), np.zeros(1, "i8")], (2, 2)),
            "must have one type",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()


def test_types_that_a_dtype_cannot_say():
    days = ipc.SparseCOOTensor(np.array([1, 2], "i4"), [[0], [2]], (3,), type=t.date32())
    assert days.type == t.date32()
    assert ipc.read_sparse_tensor(days.serialize()).type == t.date32()
    with pytest.raises(UsageError, match="cannot be added up"):
        ipc.SparseCOOTensor(np.array([1, 2], "i4"), [[0], [0]], (3,), type=t.date32()).to_dense()
    unsorted = ipc.SparseCOOTensor(np.array([1, 2], "i4"), [[2], [0]], (3,), type=t.date32())
    assert unsorted.to_dense().tolist() == [2, 0, 1]


# -- order and duplicates ------------------------------------------------------------------------------------


def test_canonical_is_computed():
    for indices, canonical in (
        ([[0, 1], [1, 0]], True),
        ([[1, 0], [0, 1]], False),
        ([[0, 1], [0, 1]], False),
        (np.empty((0, 2), int), True),
    ):
        tensor = ipc.SparseCOOTensor(np.ones(len(indices)), indices, (2, 2))
        assert tensor.is_canonical is canonical
        assert tensor.canonical().is_canonical
        assert (tensor.canonical() is tensor) is canonical
    assert not ipc.SparseCSRMatrix([1, 2], [0, 2], [1, 0], (1, 2)).is_canonical
    assert ipc.SparseCSRMatrix([1, 2], [0, 1, 2], [1, 0], (2, 2)).is_canonical
    assert not ipc.SparseCSFTensor([1, 2], [[0, 1, 2]], [[1, 0], [0, 0]], (2, 2)).is_canonical


def test_sorting_is_stable_and_knows_shapes_beyond_64_bits():
    generator = np.random.default_rng(5)
    shape = (1 << 40, 3, 1 << 40, 5)
    indices = np.stack([generator.integers(0, min(size, 9), 500) * (size // 9 or 1) for size in shape], axis=1)
    indices %= np.array(shape)
    values = np.arange(500)
    tensor = ipc.SparseCOOTensor(values, indices, shape)
    order = np.lexsort(indices.T[::-1])
    found = tensor.canonical()
    unique, starts = np.unique(indices[order], axis=0, return_index=True)
    assert found.indices.tolist() == unique.tolist()
    assert found.data.tolist() == np.add.reduceat(values[order], starts).tolist()
    assert ipc.SparseCOOTensor(found.data, found.indices, shape).is_canonical
    for axes in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        tree = tensor.to_csf(axes)
        assert tree.is_canonical
        assert tree.to_coo() == found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([200, 100, 7], "u1"), np.array([44, 7], "u1")),
        (np.array([2, 3, 7], "m8[us]"), np.array([5, 7], "m8[us]")),
        (np.array([np.inf, -np.inf, 7]), np.array([np.nan, 7])),
        (np.array([6e4, 6e4, 7], "f2"), np.array([np.inf, 7], "f2")),
    ],
    ids=["uint8", "duration", "infinities", "half"],
)
@pytest.mark.filterwarnings("error")
def test_values_with_equal_coordinates_are_added_up_in_their_own_type(values, expected):
    found = ipc.SparseCOOTensor(values, [[1], [1], [2]], (3,)).canonical()
    assert found.data.dtype == expected.dtype
    np.testing.assert_array_equal(found.data, expected)


def test_a_shape_that_no_dense_array_has():
    for shape in ((1 << 62, 1 << 62), (1,) * 70):
        tensor = ipc.SparseCOOTensor([1.0], [[0] * len(shape)], shape)
        with pytest.raises(UsageError, match="no dense array"):
            tensor.to_dense()
    with pytest.raises(ipc.LimitError, match="coordinates"):
        ipc.SparseCOOTensor([1.0], [[0, 0]], (1 << 62, 2)).to_csr()


@pytest.mark.parametrize("value", [1 << 40, -1, -100])
@pytest.mark.parametrize("part", [0, -1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_index_that_changes_after_it_was_checked_gives_values_or_a_known_error(layout, part, value):
    for use in ("to_dense", "to_coo", "to_csr", "to_csc", "to_csf"):
        tensor = layout.from_dense(np.eye(3, 4))
        assert tensor.is_canonical
        tensor._index.arrays[part][...] = value
        with contextlib.suppress(ipc.FormatError):
            getattr(tensor, use)()


# -- equality ------------------------------------------------------------------------------------------------


def test_equality_is_of_values_at_coordinates():
    tensor = ipc.SparseCOOTensor.from_dense(DENSE)
    shuffled = ipc.SparseCOOTensor(tensor.data[::-1], tensor.indices[::-1].astype("u1"), (3, 4), ("a", "b"))
    assert tensor == shuffled
    assert tensor != ipc.SparseCOOTensor.from_dense(DENSE.astype("f4"))
    assert tensor != ipc.SparseCOOTensor.from_dense(DENSE[:2])
    assert tensor != ipc.SparseCOOTensor.from_dense(-DENSE)
    assert tensor != ipc.SparseCSRMatrix.from_dense(DENSE)
    assert tensor.to_csf((0, 1)) != tensor.to_csf((1, 0))
    assert tensor != 5
    nan = ipc.SparseCOOTensor.from_dense([np.nan])
    assert nan != nan.rename(None)
    assert nan.equals(nan.rename(None), nan_equal=True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor)


# -- SciPy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["coo", "csr", "csc", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format_of_scipy_is_taken_in_each_layout(kind, format):
    """Of booleans, for the laws have numbers; a format that is no layout becomes coordinates."""
    dense = DENSE != 0
    matrix = getattr(scipy_sparse, f"csr_{kind}")(dense).asformat(format)
    found = from_any(matrix)
    assert type(found) is {"csr": ipc.SparseCSRMatrix, "csc": ipc.SparseCSCMatrix}.get(format, ipc.SparseCOOTensor)
    stored = found.to_dense()
    assert np.array_equal(stored, dense)
    for layout in LAYOUTS[:3]:
        back = layout.from_scipy(matrix).to_scipy()
        assert back.format == layout.layout.lower()
        assert np.array_equal((back @ back.T).toarray(), stored @ stored.T)


@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("index_type", ["i4", "i8"])
def test_scipy_shares_memory_both_ways(layout, index_type):
    tensor = layout.from_dense(DENSE, index_type=index_type)
    matrix = tensor.to_scipy()
    back = layout.from_scipy(matrix)
    for part in ("data", "indptr", "indices"):
        assert np.shares_memory(getattr(tensor, part), getattr(matrix, part))
        assert np.shares_memory(getattr(tensor, part), getattr(back, part))


@pytest.mark.parametrize("index_type", ["i4", "i8"])
def test_scipy_shares_memory_of_coordinates(index_type):
    tensor = ipc.SparseCOOTensor.from_dense(DENSE, index_type=index_type)
    matrix = tensor.to_scipy()
    assert np.shares_memory(matrix.data, tensor.data)
    assert np.shares_memory(matrix.coords[1], tensor.indices)
    apart = scipy_sparse.coo_array((np.array([1.0]), (np.array([0]), np.array([1]))), shape=(2, 2))
    assert ipc.SparseCOOTensor.from_scipy(apart).indices.tolist() == [[0, 1]]


def test_scipy_of_one_and_three_dimensions():
    for dense in (np.array([0, 3.0, 0]), np.arange(24.0).reshape(2, 3, 4) % 5):
        tensor = ipc.SparseCOOTensor.from_dense(dense)
        assert np.array_equal(tensor.to_scipy().toarray(), dense)
        assert ipc.SparseCOOTensor.from_scipy(tensor.to_scipy()) == tensor
    with pytest.raises(UsageError, match="only a matrix"):
        ipc.SparseCSRMatrix.from_scipy(scipy_sparse.coo_array(np.ones(3)))


DISORDER = {"repeated": [2, 2], "unsorted": [2, 0], "in order": [0, 2]}


@pytest.mark.parametrize("disorder", DISORDER)
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_scipy_is_told_whether_coordinates_are_canonical_and_its_own_flag_is_not_believed(layout, disorder):
    """Its `max` and `sum_duplicates` add up what shares a coordinate only if the flag lets them."""
    values, indices, name = np.array([1, 2]), np.array(DISORDER[disorder]), layout.layout
    index = (np.zeros(2, int), indices) if name == "COO" else (indices, np.array([0, 2]))
    parts = (values, index) if name == "COO" else (values, *index)
    theirs = getattr(scipy_sparse, f"{name.lower()}_array")(parts, shape=(3, 1) if name == "CSC" else (1, 3))
    theirs.has_canonical_format = True
    tensor = layout.from_scipy(theirs)
    assert tensor.is_canonical is (disorder == "in order")
    made = tensor.to_scipy()
    assert made.has_canonical_format is tensor.is_canonical
    assert made.max() == (3 if disorder == "repeated" else 2)
    made = tensor.to_scipy()
    made.sum_duplicates()
    assert made.nnz == (1 if disorder == "repeated" else 2)
    assert np.array_equal(made.toarray(), tensor.to_dense())


@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("disorder", ["repeated", "unsorted"])
def test_what_scipy_puts_in_order_is_not_the_tensor(layout, disorder):
    """SciPy sorts and adds up in place: of read-only memory that failed, other memory it changed under us."""
    for writeable in (True, False):
        parts = [np.array(part) for part in ([1, 2], [0, 2], DISORDER[disorder])]
        for part in parts:
            part.flags.writeable = writeable
        tensor = layout(*parts, (1, 3) if layout.layout == "CSR" else (3, 1))
        before = tensor.to_dense()
        made = tensor.to_scipy()
        made.sum_duplicates()
        assert np.array_equal(made.toarray(), before)
        assert np.array_equal(tensor.to_dense(), before)
        assert tensor.indices.tolist() == DISORDER[disorder]


def test_what_scipy_does_not_take():
    tensor = ipc.SparseCSRMatrix.from_dense(DENSE.astype("f2"))
    with pytest.raises(UsageError, match="SciPy has no csr_array of float16"):
        tensor.to_scipy()
    for wrong in (DENSE, 5, None, [1, 2]):
        with pytest.raises(UsageError, match="expected a sparse"):
            ipc.SparseCOOTensor.from_scipy(wrong)
        with pytest.raises(UsageError, match="expected a sparse tensor"):
            from_any(wrong)


@pytest.mark.slow  # it compiles its loops when it is first used
@pytest.mark.nosanitize
def test_pydata_sparse_in_each_layout():
    sparse = pytest.importorskip("sparse")
    dense = np.arange(24.0).reshape(2, 3, 4) % 5
    coo = sparse.COO.from_numpy(dense)
    tensor = ipc.SparseCOOTensor.from_pydata_sparse(coo)
    assert np.shares_memory(tensor.indices, coo.coords)
    assert np.shares_memory(tensor.data, coo.data)
    assert tensor.is_canonical
    assert np.array_equal(tensor.to_dense(), dense)
    assert np.array_equal(tensor.to_pydata_sparse().coords, coo.coords)
    twice = ipc.SparseCOOTensor([1, 2, 4], [[2], [0], [2]], (3,))
    assert twice.to_pydata_sparse().todense().tolist() == [2, 0, 5]
    for axis, layout in enumerate(MATRICES):
        gcxs = sparse.GCXS.from_numpy(DENSE, compressed_axes=(axis,))
        matrix = layout.from_pydata_sparse(gcxs)
        assert np.shares_memory(matrix.indices, gcxs.indices)
        assert np.array_equal(matrix.to_dense(), DENSE)
        assert type(from_any(gcxs)) is layout
        other = MATRICES[1 - axis].from_pydata_sparse(gcxs)
        assert np.array_equal(other.to_dense(), DENSE)
    many = sparse.GCXS.from_numpy(dense, compressed_axes=(0, 2))
    assert type(from_any(many)) is ipc.SparseCOOTensor
    assert np.array_equal(from_any(many).to_dense(), dense)
    with pytest.raises(UsageError, match="this array is 7"):
        ipc.SparseCOOTensor.from_pydata_sparse(sparse.full((2, 2), 7.0))


# -- PyTorch -------------------------------------------------------------------------------------------------


@pytest.mark.slow  # the import alone takes seconds
@pytest.mark.nosanitize
@pytest.mark.filterwarnings("ignore:Sparse")
def test_torch_in_each_layout():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    dense = torch.from_numpy(DENSE.copy())
    for made, layout in (
        (dense.to_sparse(), ipc.SparseCOOTensor),
        (dense.to_sparse_csr(), ipc.SparseCSRMatrix),
        (dense.to_sparse_csc(), ipc.SparseCSCMatrix),
    ):
        tensor = layout.from_torch(made)
        assert type(from_any(made)) is layout
        assert tensor.data.ctypes.data == made.values().data_ptr()
        assert np.array_equal(tensor.to_dense(), DENSE)
        back = tensor.to_torch()
        assert back.layout == made.layout
        assert torch.equal(back.to_dense(), dense)
        assert back.values().data_ptr() == made.values().data_ptr()
        read = ipc.read_sparse_tensor(tensor.serialize()).to_torch()
        assert torch.equal(read.to_dense(), dense)


@pytest.mark.slow  # the import alone takes seconds
@pytest.mark.nosanitize
@pytest.mark.filterwarnings("ignore:Sparse")
def test_torch_tensors_that_are_not_coalesced_and_such_as_do_not_fit():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    loose = torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 4.0], (3,))
    tensor = ipc.SparseCOOTensor.from_torch(loose)
    assert not tensor.is_canonical
    assert tensor.to_dense().tolist() == [2, 5, 0]
    assert not tensor.to_torch().is_coalesced()
    twice = ipc.SparseCSRMatrix([1.0, 2], [0, 2], [1, 1], (1, 2)).to_torch()
    assert twice.to_dense().tolist() == [[0, 3]]
    hybrid = torch.sparse_coo_tensor([[0]], torch.ones(1, 2), (3, 2))
    with pytest.raises(UsageError, match="dense dimensions"):
        ipc.SparseCOOTensor.from_torch(hybrid)
    with pytest.raises(UsageError, match="expected a tensor of the layout sparse_csr"):
        ipc.SparseCSRMatrix.from_torch(loose)
    with pytest.raises(UsageError, match="NumPy has no array"):
        ipc.SparseCOOTensor.from_torch(loose.to(torch.bfloat16))
    with pytest.raises(UsageError, match="expected a sparse tensor"):
        from_any(torch.ones(3))
    grown = torch.eye(2, requires_grad=True).to_sparse()
    assert ipc.SparseCOOTensor.from_torch(grown).to_dense().tolist() == [[1, 0], [0, 1]]


# -- pyarrow's sparse tensors as an oracle -------------------------------------------------------------------

THEIRS = {each.layout: getattr(pa, each.__name__) for each in LAYOUTS}
SHAPES = [
    *((layout, shape) for layout in LAYOUTS for shape in ((3, 4), (5, 1), (0, 3))),
    *((layout, shape) for layout in (LAYOUTS[0], LAYOUTS[3]) for shape in ((2, 3, 4), (4, 3, 2, 5))),
    (ipc.SparseCOOTensor, (6,)),
]


@pytest.mark.parametrize(("layout", "shape"), SHAPES)
def test_tensors_of_pyarrow_compare(layout, shape):
    dense = np.random.default_rng(4).integers(-1, 2, shape).astype(float)
    mine, make = layout.from_dense(dense), THEIRS[layout.layout].from_dense_numpy
    assert mine == make(dense)
    assert mine.equals(make(dense))
    others = [make(dense.astype("f4")), make(np.ones((*shape[:-1], 9)))]
    if dense.ndim == 2:
        others += [each.from_dense_numpy(dense) for each in THEIRS.values() if each is not THEIRS[layout.layout]]
    assert not any(mine == other for other in others)
    assert (mine == make(dense + 1)) == (dense.size == 0)
    with_nan = np.where(dense == 1, np.nan, dense)
    assert layout.from_dense(with_nan).equals(make(with_nan), nan_equal=True)
    assert (layout.from_dense(with_nan) == make(with_nan)) == (not np.isnan(with_nan).any())


def flat(parts):
    """Each array of an index as one list; pyarrow gives vectors as matrices of one column."""
    return [flat(part) if isinstance(part, list | tuple) else np.ravel(part).tolist() for part in parts]


@pytest.mark.parametrize(("layout", "shape"), SHAPES)
def test_pyarrow_builds_the_same_index(layout, shape):
    dense = np.random.default_rng(3).integers(-2, 3, shape).astype(float)
    mine, theirs = layout.from_dense(dense), THEIRS[layout.layout].from_dense_numpy(dense)
    assert theirs.non_zero_length == mine.non_zero_length
    assert flat(theirs.to_numpy()) == flat(mine.to_numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_names_of_pyarrow_are_there(layout):
    dense, names = DENSE.astype("f4"), ("y", "x")
    order = [(0, 1)] if layout is ipc.SparseCSFTensor else []
    found = []
    for kind, tensor in ((layout, ipc.Tensor), (THEIRS[layout.layout], pa.Tensor)):
        sparse = kind.from_dense_numpy(dense, names)
        data, *index = sparse.to_numpy()
        again = kind.from_numpy(data, *index, dense.shape, *order, names)
        assert again == sparse == kind.from_tensor(tensor.from_numpy(dense, names))
        whole = again.to_tensor()
        found += [[data.shape, len(index), again.size, again.dim_names, again.dim_name(1), whole.dim_name(1)]]
        found[-1] += [str(whole.type), whole.to_numpy().tolist()]
        found[-1] += [again.is_mutable, getattr(sparse, "has_canonical_format", True)]
    assert found[0] == found[1]
    assert layout.from_tensor(ipc.Tensor(dense, names)).to_tensor().dim_names == names
    assert layout.from_tensor(ipc.Tensor(dense, type=t.time32("s"))).to_tensor().type == t.time32("s")
    assert layout.from_dense(dense).dim_name(0) == ""
    with pytest.raises(UsageError, match="data must have one dimension, found 2"):
        layout.from_numpy(dense, *index, dense.shape, *order)
