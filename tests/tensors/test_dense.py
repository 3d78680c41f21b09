"""Dense tensors: exchanged with pyarrow, of every type and layout, through every source and sink."""

import io
import itertools
import mmap
import pickle
import socket
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive, memory
from helpers.arrays import address
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import arrowipc as ipc
from arrowipc import types as T
from arrowipc.tensors.dense_io import arrays_from_cells, cells_from_arrays

THEIR_DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
OUR_DTYPES = (*THEIR_DTYPES, "M8[s]", "M8[us]", "m8[ns]", "m8[ms]", "V3", "V16", "S5")


def cube(dtype: str) -> np.ndarray[Any, Any]:
    values = np.arange(6 * 7 * 8).reshape(6, 7, 8)
    if dtype[0] in "VS":
        return values.astype("i8").astype("S8").astype(f"S{np.dtype(dtype).itemsize}").view(dtype)
    return (values % 100).astype(dtype)


LAYOUTS = {
    "row-major": lambda x: x,
    "column-major": lambda x: np.asfortranarray(x),
    "transposed": lambda x: x.T,
    "permuted": lambda x: x.transpose(2, 0, 1),
    "every second": lambda x: x[::2],
    "inner part": lambda x: x[1:-1, 1:-1, 1:-1],
    "backwards": lambda x: x[::-1],
    "backwards and transposed": lambda x: x.T[::-1, :, ::-2],
    "broadcast": lambda x: np.broadcast_to(x[0], (3, 7, 8)),
    "broadcast inside": lambda x: np.broadcast_to(x[:, :, :1], (6, 7, 8)),
    "a column": lambda x: x[:, 3, 4],
    "no dimension": lambda x: x[1, 2, 3, ...],
    "of size 1": lambda x: x[:1, :, :1],
    "no element": lambda x: x[:, :0],
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=1),
}


def written(x: Any, **options: Any) -> bytes:
    sink = bytearray()
    assert ipc.write_tensor(x, sink, **options) == len(sink) == ipc.get_tensor_size(x, **options)
    return bytes(sink)


def same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    return (
        found.shape == expected.shape
        and found.dtype.itemsize == expected.dtype.itemsize
        and np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()
    )


# -- layouts and types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", THEIR_DTYPES)
def test_pyarrow_reads_ours_and_we_read_its_own(dtype, layout):
    x = LAYOUTS[layout](cube(dtype))
    names = tuple("abcd"[: x.ndim])
    theirs = pa.ipc.read_tensor(pa.py_buffer(written(x, dim_names=names)))
    assert theirs.to_numpy().dtype == x.dtype
    assert same(theirs.to_numpy(), x)
    assert tuple(theirs.dim_names) == names
    sink = pa.BufferOutputStream()
    if min(x.strides, default=0) >= 0:  # it writes no others
        pa.ipc.write_tensor(pa.Tensor.from_numpy(x), sink)
        found = ipc.read_tensor(sink.getvalue()).to_numpy()
        assert found.dtype == x.dtype
        assert same(found, x)


def test_neighbours_keep_their_order():
    x = cube("f8")
    for seen in (x.T, np.asfortranarray(x), x.transpose(1, 2, 0)):
        assert ipc.read_tensor(written(seen)).strides == seen.strides
    assert ipc.read_tensor(written(x.T[::-1])).is_row_major
    assert len(written(x[::2])) < len(written(x))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (T.date64(), "i8"),
        (T.timestamp("us", "Europe/Berlin"), "i8"),
        (T.decimal128(38, 2), "V16"),
        (T.decimal256(76, 0), "V32"),
        (T.interval_day_time(), "i8"),
        (T.month_day_nano_interval(), "V16"),
        (T.binary(7), "V7"),
        (T.float16(), "u2"),
    ],
    ids=str,
)
def test_every_type_of_fixed_width(kind, dtype):
    x = cube(dtype)
    tensor = ipc.read_tensor(written(x, type=kind))
    assert tensor.type == kind
    assert same(tensor.to_numpy(), x)
    assert memoryview(tensor).nbytes == x.nbytes
    assert str(kind) in repr(tensor)
    assert tensor == ipc.Tensor(x, type=kind)
    assert (tensor == ipc.Tensor(x)) == (kind == ipc.Tensor(x).type)
    assert ipc.Tensor(x, type=pa.field(T.field("x", kind)).type).type == kind


def test_other_byte_orders_are_written_little_endian():
    x = np.arange(5, dtype=">i4")
    assert ipc.read_tensor(written(x)).to_numpy().tolist() == [0, 1, 2, 3, 4]
    assert ipc.read_tensor(written(x)).to_numpy().dtype == "<i4"


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (np.array(["a"]), "text"),
        (np.zeros(2, "c16"), "complex"),
        (np.zeros(2, "M8[D]"), "astype"),
        (np.ma.masked_array([1, 2], [True, False]), "filled"),
        (ipc.array([1, None]), "without nulls"),
        ("abc", "expected an array"),
        ([[1], [2, 3]], "expected an array"),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else type(given).__name__,
)
def test_what_is_no_tensor_is_refused_in_words(data, word):
    sink = bytearray(b"before")
    with pytest.raises(ipc.UsageError, match=word):
        ipc.write_tensor(data, sink)
    assert sink == b"before"


def test_dimension_names():
    tensor = ipc.read_tensor(written(np.zeros((2, 3)), dim_names=["y", ""]))
    assert tensor.dim_names == ("y", "")
    assert ipc.read_tensor(written(np.zeros((2, 3)), dim_names=["", ""])).dim_names is None
    assert ipc.read_tensor(written(tensor, dim_names=["a", "b"])).dim_names == ("a", "b")
    assert ipc.read_tensor(written(tensor)).dim_names == ("y", "")
    for wrong in (["y"], "yx", ["y", 1], ["y", "\ud800"]):
        with pytest.raises(ipc.UsageError, match="dim_names"):
            ipc.Tensor(np.zeros((2, 3)), wrong)


# -- laws ----------------------------------------------------------------------------------------------------


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Arrays of any dtype and shape, seen through slices, permutations and broadcasts."""
    dtype = draw(st.sampled_from(OUR_DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6))
    x = np.frombuffer(draw(st.randoms()).randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize + 1)[1:], "u1")
    x = x.view(dtype).reshape(shape)
    steps = st.sampled_from([1, 1, 1, 2, -1, -2])
    x = x[(*[slice(None, None, draw(steps)) for _ in shape], ...)]  # the dots keep it an array
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    if draw(st.booleans()):
        x = np.broadcast_to(x, (draw(st.integers(0, 3)), *x.shape))
    return x


@given(arrays())
def test_law_read_of_write_is_the_same(x):
    data = written(x)
    tensor = ipc.read_tensor(data)
    assert same(tensor.to_numpy(), x)
    assert tensor.serialize() == data == ipc.Tensor(x).serialize()
    assert same(pickle.loads(pickle.dumps(tensor)).to_numpy(), x)
    assert same(np.asarray(memoryview(tensor)), x) or x.dtype.kind in "MmVS"
    assert bytes(memoryview(tensor).tobytes()) == np.ascontiguousarray(x).tobytes()
    assert len(data) % 64 == 0
    assert same(ipc.Tensor(x).to_numpy(copy=True), x)


@given(arrays(), arrays())
def test_law_equality_is_that_of_numpy(x, y):
    expected = x.dtype == y.dtype and np.array_equal(x, y)
    if x.dtype.kind in "Mm" and expected is not None:
        expected = x.dtype == y.dtype and same(x, y)  # NaT is an integer to us
    assert (ipc.Tensor(x) == ipc.Tensor(y)) == expected
    if y.dtype.kind in "iuf" and min(y.strides, default=0) >= 0:
        assert (ipc.Tensor(x) == pa.Tensor.from_numpy(y)) == expected
    if x.dtype.kind == "f":
        alone = np.array_equal(x, x)
        assert (ipc.Tensor(x) == ipc.Tensor(x.copy(order="F"))) == alone
        assert ipc.Tensor(x).equals(ipc.Tensor(x.copy(order="F")), nan_equal=True)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "V16", "V24"])
def test_gather_of_tensors_larger_than_a_piece(dtype):
    x = np.random.default_rng(2).integers(0, 255, (3, 501, 503, np.dtype(dtype).itemsize), "u1").view(dtype)[..., 0]
    for seen in (x.T[::-1], x[:, :, ::-1], x.transpose(1, 2, 0)[::2], x.transpose(2, 0, 1)[:, ::-1]):
        assert same(ipc.read_tensor(written(seen)).to_numpy(), seen)


# -- sinks and sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 3, 4, 8, 60, 61, 63, 64, 65, 200])
def test_message_and_values_begin_at_multiples_of_64_of_the_sink(position):
    x = cube("f4")
    file = io.BytesIO(b"\x01" * position)
    file.seek(position)
    sizes = [ipc.write_tensor(x, file), ipc.write_tensor(x[:1], file)]
    assert sum(sizes) == len(file.getvalue()) - position
    data = file.getvalue()
    start = -(-position // 64) * 64
    assert data[position:start] == bytes(start - position)
    assert data[start : start + 4] == b"\xff\xff\xff\xff"
    assert data.index(x.tobytes()) % 64 == 0
    file.seek(position)
    assert ipc.read_tensor(file) == ipc.Tensor(x)
    assert ipc.read_tensor(file) == ipc.Tensor(x[:1])
    with pytest.raises(ipc.TruncatedError):
        ipc.read_tensor(file)
    assert [len(each) for each in ipc.read_tensors(data[position:])] == [6, 1]


def test_padding_is_skipped_in_reads_of_any_size():
    x = cube("i2")
    for lead in (0, 4, 5, 6, 7, 63):
        data = bytes(lead) + written(x) + written(x[0])
        file = drive.ShortReads(data, itertools.repeat(1))
        assert [each.ndim for each in ipc.read_tensors(file)] == [3, 2]
        assert ipc.read_tensor(data) == ipc.Tensor(x)


def test_every_kind_of_sink_gets_the_same_bytes(tmp_path):
    x = np.random.default_rng(3).random((300, 500))[::-1, ::-1]
    expected, path = written(x), tmp_path / "x.tensor"
    assert ipc.write_tensor(x, path) == len(expected)
    assert path.read_bytes() == expected
    assert ipc.write_tensor(x, f"file://{path}", durable=False) == len(expected)
    assert path.read_bytes() == expected
    for mode, buffering, count in (("wb", 0, 1), ("ab", -1, 2)):
        with path.open(mode, buffering) as file:
            ipc.write_tensor(x, file)
        assert path.read_bytes() == expected * count
    memory = np.zeros(len(expected) + 5, np.uint8)
    assert ipc.write_tensor(x, memory) == len(expected)
    assert memory.tobytes() == expected + bytes(5)
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as file:
        ipc.write_tensor([1.5], ours)
        assert ipc.read_tensor(file) == ipc.Tensor([1.5])


def test_memory_that_is_too_small_stays_as_it_is():
    small = bytearray(100)
    with pytest.raises(ipc.UsageError, match="get_tensor_size"):
        ipc.write_tensor(cube("f8")[::-1], memoryview(small))
    assert small == bytes(100)
    ipc.write_tensor([1], small)  # the memory was let go of
    for sink, words in ((b"read-only", "memory of this bytes"), (5, "expected a path, .* found int 5")):
        with pytest.raises(ipc.UsageError, match=words):
            ipc.write_tensor([1], sink)


def test_reads_from_paths_and_messages(tmp_path):
    path = tmp_path / "x"
    ipc.write_tensor(cube("f8"), path)
    tensor = ipc.read_tensor(path)
    assert tensor == ipc.read_tensor(str(path)) == ipc.read_tensor(f"file://{path}")
    assert tensor == ipc.read_tensor(ipc.read_message(path))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert ipc.read_tensor(mapped) == tensor
    path.unlink()
    assert tensor.to_numpy()[-1, -1, -1] == cube("f8")[-1, -1, -1]


def test_reads_point_into_aligned_memory_and_copy_misaligned_values_once():
    data = np.zeros(4096, np.uint8)
    data = data[-address(data) % 64 :]
    size = ipc.write_tensor(np.arange(10.0), data)
    for lead in range(0, 17):
        moved = np.zeros(size + 128, np.uint8)
        moved = moved[-address(moved) % 64 + lead :][:size]
        moved[:] = data[:size]
        values = ipc.read_tensor(moved).to_numpy()
        assert values.tolist() == list(range(10))
        assert np.shares_memory(values, moved) == (lead % 8 == 0)
        assert values.flags.aligned
    single = ipc.Tensor(np.arange(9, dtype="i1")).serialize()
    odd = np.frombuffer(b"x" + single, np.uint8)[1:]
    assert np.shares_memory(ipc.read_tensor(odd).to_numpy(), odd)


def test_a_body_from_a_file_object_is_aligned():
    file = io.BytesIO(b"12345" + written(np.arange(100.0)))
    file.seek(5)
    assert address(ipc.read_tensor(file).to_numpy()) % 64 == 0


# -- DLPack and buffers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", THEIR_DTYPES)
def test_numpy_takes_tensors_over_dlpack(dtype, layout):
    x = LAYOUTS[layout](cube(dtype))
    tensor = ipc.Tensor(x)
    # As of a library before DLPack 1.0.
    older = {"__dlpack__": lambda **_: tensor.__dlpack__(), "__dlpack_device__": tensor.__dlpack_device__}
    plain = np.from_dlpack(SimpleNamespace(**older))
    assert same(plain, x)
    assert not np.shares_memory(plain, x)  # it may be written to
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        view = np.from_dlpack(tensor)
        assert same(view, x)
        assert x.size == 0 or np.shares_memory(view, x)
        assert x.size == 0 or not view.flags.writeable
        copy = np.from_dlpack(tensor, copy=True)
        assert same(copy, x)
        assert not np.shares_memory(copy, x)


def test_dlpack_refuses_what_it_cannot_do():
    tensor = ipc.Tensor(cube("f8"))
    assert tensor.__dlpack_device__() == (1, 0)
    wrong = {
        "no streams": {"stream": 1},
        "is on the CPU, device": {"dl_device": (2, 0)},
        "needs a copy": {"copy": False},
    }
    for words, options in wrong.items():
        with pytest.raises(BufferError, match=words):
            tensor.__dlpack__(**options)
    with pytest.raises(BufferError, match="timestamp"):
        ipc.Tensor(cube("M8[s]")).__dlpack__(max_version=(1, 0))
    with pytest.raises(ipc.UsageError, match="DLPack"):
        ipc.Tensor.from_dlpack(object())


def test_tensors_of_dlpack_objects_and_buffers_share_memory():
    theirs = pa.array(np.arange(10))
    assert address(ipc.Tensor.from_dlpack(theirs).to_numpy()) == theirs.buffers()[1].address
    assert ipc.Tensor(theirs) == ipc.Tensor(np.arange(10))
    memory = bytearray(b"abcd")
    tensor = ipc.Tensor(memory)
    memory[0] = 0
    assert tensor.to_numpy()[0] == 0
    assert tensor.type == T.uint8()
    view = memoryview(np.arange(12.0).reshape(3, 4))
    assert address(ipc.Tensor(view).to_numpy()) == address(view)
    assert ipc.Tensor(pa.Tensor.from_numpy(np.eye(3))) == ipc.Tensor(np.eye(3))


@pytest.mark.slow  # the import alone takes seconds
def test_torch_takes_and_gives_tensors():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    tensor = ipc.Tensor(np.arange(6.0).reshape(2, 3).T)
    assert (torch.from_dlpack(tensor).numpy() == tensor.to_numpy()).all()
    theirs = torch.arange(6).reshape(2, 3).t()
    assert ipc.Tensor(theirs).to_numpy().tolist() == theirs.tolist()
    assert address(ipc.Tensor(theirs).to_numpy()) == theirs.data_ptr()


def test_buffers_say_what_they_are():
    tensor = ipc.Tensor(cube("i4").T)
    view = memoryview(tensor)
    assert (view.format, view.shape, view.strides, view.readonly) == ("i", (8, 7, 6), tensor.strides, True)
    assert view.f_contiguous
    assert memoryview(ipc.Tensor(cube("f2"))).format == "e"
    assert memoryview(ipc.Tensor(3)).tolist() == 3
    with pytest.raises(BufferError, match="neighbours"):
        io.BytesIO().write(tensor)  # asks for one stretch of bytes


# -- cells ---------------------------------------------------------------------------------------------------


def test_cells_of_binary_columns():
    rows = [np.arange(5.0), None, np.zeros((2, 0)), cube("i2").T]
    cells = cells_from_arrays(rows)
    assert [cell is None for cell in cells] == [False, True, False, False]
    for column in (
        cells,
        pa.array(cells, pa.binary()),
        pa.array(cells, pa.large_binary()),
        pa.chunked_array([pa.array(cells[:2], pa.binary()), pa.array(cells[2:], pa.binary())]),
        ipc.Array.from_pylist(cells, T.binary()),
    ):
        found = arrays_from_cells(column)
        assert len(found) == 4
        for x, y in zip(rows, found, strict=True):
            assert (x is None and y is None) or same(x, y)
    stacked = cells_from_arrays(np.arange(6).reshape(3, 2), ["x"])
    assert [ipc.read_tensor(cell).dim_names for cell in stacked] == [("x",)] * 3


def test_a_bad_cell_is_named():
    good = cells_from_arrays([[1.0]])[0]
    for bad in (b"", b"abc", good[:-1], ipc.Schema([]).serialize()):
        with pytest.raises(ipc.FormatError, match="cell 1"):
            arrays_from_cells([good, bad])


@pytest.mark.parametrize("answer", [True, "8", 1.5, -1])
def test_a_position_that_is_none_is_an_error_and_not_taken_for_a_number(answer):
    class Odd(io.BytesIO):
        def tell(self) -> Any:
            return answer

    with pytest.raises(ipc.UsageError, match=rf"tell\(\) returned \w+ '?{answer}"):
        ipc.write_tensor([1.5], Odd())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_both_zeros_are_equal_and_nan_is_so_on_request(dtype):
    zeros, nan = np.array([0.0, -0.0], dtype), np.array([np.nan, 1], dtype)
    assert ipc.Tensor(zeros) == ipc.Tensor(-zeros)
    assert ipc.Tensor(nan) != ipc.Tensor(nan)
    assert ipc.Tensor(nan).equals(ipc.Tensor(nan), nan_equal=True)
    assert not ipc.Tensor(nan).equals(ipc.Tensor(nan[::-1]), nan_equal=True)


def test_equality_of_large_tensors_looks_at_all_of_them():
    x = np.random.default_rng(1).integers(0, 9, (700, 900))
    a, b = ipc.Tensor(x.T), ipc.Tensor(np.asfortranarray(x)[::-1].T[:, ::-1])
    assert a == b
    changed = x.copy()
    changed[-1, -1] += 1
    assert a != ipc.Tensor(changed.T)
    assert ipc.Tensor(x[:, ::2]) != ipc.Tensor(changed[:, 1::2])


def test_capsules_that_nobody_takes_are_released():
    before = memory.counts()
    tensor = ipc.read_tensor(bytearray(written(cube("f8"))))
    for _ in range(100):
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=(1, 0))
        tensor.__dlpack__(max_version=(2, 5), copy=True)
    capsule = tensor.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    del tensor, capsule
    assert not memory.more_than(before)
