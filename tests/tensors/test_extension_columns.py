"""Columns of tensors: the canonical extension types, exchanged with pyarrow, and their untrusted metadata."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive
from helpers.arrays import ipc_bytes, pyarrow_bytes

import arrowipc as ipc
from arrowipc import fixed_shape_tensor, tensor_column, tensor_parameters, types as T, variable_shape_tensor
from arrowipc.tensors.extension_columns import FIXED_SHAPE, VARIABLE_SHAPE


def stream(*columns: ipc.Array) -> bytearray:
    """What our writer makes of columns."""
    schema = ipc.Schema([column.field for column in columns])
    return ipc_bytes(dict(zip(schema.names, columns, strict=True)), schema=schema)


def read(data: Any) -> ipc.Array:
    with ipc.open_stream(data, validate="strict") as reader:
        return reader.read_next_batch().column(0)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f2", "f4", "f8"])
def test_pyarrow_reads_our_fixed_shapes(dtype):
    x = np.arange(120).reshape(5, 2, 3, 4).astype(dtype)
    for permutation in (None, (2, 0, 1), (0, 2, 1)):
        column = tensor_column(x, "t", dim_names=("a", "b", "c"), permutation=permutation)
        assert (column.to_numpy() == x).all()
        theirs = pa.ipc.open_stream(stream(column)).read_all()["t"].chunk(0)
        assert isinstance(theirs, pa.FixedShapeTensorArray)
        assert theirs.type.dim_names == ["a", "b", "c"]
        assert theirs.storage.to_pylist() == column.to_pylist()
        assert theirs.to_numpy_ndarray().shape == x.shape
        if permutation != (2, 0, 1):
            # Of rotations pyarrow 26 takes shape and strides of different orders, and shows other values.
            assert (theirs.to_numpy_ndarray() == x).all()
        assert (read(stream(column)).to_numpy() == x).all()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_we_read_the_fixed_shapes_of_pyarrow(order):
    x = np.arange(24, dtype="f4").reshape(2, 3, 4).transpose(order)
    theirs = pa.FixedShapeTensorArray.from_numpy_ndarray(x, dim_names=["a", "b"])
    data = pyarrow_bytes(pa.record_batch([theirs], ["t"]))
    column = read(data)
    assert (column.to_numpy() == x).all()
    assert np.shares_memory(column.to_numpy(), np.frombuffer(data, np.uint8))
    parameters = tensor_parameters(column.field)
    assert parameters is not None
    assert sorted(parameters.dim_names or ()) == ["a", "b"]
    assert (ipc.Array.from_arrow(theirs).to_numpy() == x).all()


def test_row_major_arrays_are_not_copied():
    x = np.zeros((100, 8, 8))
    assert np.shares_memory(tensor_column(x).to_numpy(), x)
    assert np.shares_memory(tensor_column(x.transpose(0, 2, 1), permutation=(1, 0)).to_numpy(), x)
    assert not np.shares_memory(tensor_column(x[:, ::2]).to_numpy(), x)
    assert not np.shares_memory(tensor_column(x).to_numpy(copy=True), x)


def test_permutations_are_read_as_the_format_says():
    """Dimension i that users see is the stored dimension ``permutation[i]``."""
    stored = np.arange(24).reshape(1, 2, 3, 4)
    field = fixed_shape_tensor("t", T.int64(), (2, 3, 4), permutation=(2, 0, 1))
    batch = ipc.RecordBatch.from_pydict({"t": [stored.ravel().tolist()]}, ipc.Schema([field]))
    assert batch["t"].to_numpy().shape == (1, 4, 2, 3)
    assert batch["t"].to_numpy()[0, 3, 1, 2] == stored[0, 1, 2, 3]


def test_slices_show_their_rows():
    x = np.arange(60).reshape(5, 3, 4)
    column = read(stream(tensor_column(x, "t")))
    assert (column.slice(1, 3).to_numpy() == x[1:4]).all()
    assert column.slice(5).to_numpy().shape == (0, 3, 4)
    assert tensor_column(np.zeros((0, 2, 2)), "t").to_numpy().shape == (0, 2, 2)
    assert tensor_column(np.zeros((3, 0, 2)), "t").to_numpy().shape == (3, 0, 2)
    assert tensor_column(np.arange(3), "t").to_numpy().shape == (3,)


def test_variable_shapes_round_trip():
    rows = [np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.ones((4, 3))[::-1], np.full((3, 3), 7.0).T]
    column = tensor_column(rows, "v", dim_names=("y", "x"), uniform_shape=(None, 3))
    for found in (column, read(stream(column))):
        values = found.to_numpy()
        assert values.dtype == object
        assert all((a == b).all() and a.shape == b.shape for a, b in zip(values, rows, strict=True))
        assert not values[0].flags.writeable
        assert values[0].base is not None
        assert (found.slice(2, 1).to_numpy()[0] == rows[2]).all()
    parameters = tensor_parameters(read(stream(column)).field)
    assert parameters is not None
    assert (parameters.dim_names, parameters.uniform_shape) == (("y", "x"), (None, 3))


def test_permuted_variable_shapes():
    rows = [np.arange(24).reshape(2, 3, 4), np.arange(6).reshape(1, 2, 3)]
    column = tensor_column(rows, "v", permutation=(2, 0, 1))
    assert all((a == b).all() for a, b in zip(column.to_numpy(), rows, strict=True))
    # Dimension i that users see is the stored dimension permutation[i].
    assert column.to_pylist()[0]["shape"] == [3, 4, 2]


def test_null_rows_need_a_copy():
    column = tensor_column([np.ones((2, 2)), None], "v")
    with pytest.raises(ipc.UsageError, match="copy=True"):
        column.to_numpy()
    values = column.to_numpy(copy=True)
    assert values[1] is None
    assert (values[0] == 1).all()
    field = fixed_shape_tensor("t", T.int32(), (2,))
    batch = ipc.RecordBatch.from_pydict({"t": [[1, 2], None]}, ipc.Schema([field]))
    assert batch["t"].to_numpy(copy=True)[1] is None
    assert batch["t"].to_numpy(copy=True)[0].tolist() == [1, 2]


WRONG = {
    "shape: each size must be an integer from 0": lambda: fixed_shape_tensor("t", T.int32(), (-1,)),
    "shape must be an integer from 0 to 2147483647": lambda: fixed_shape_tensor("t", T.int32(), (2**20, 2**20)),
    "expected 2 names": lambda: fixed_shape_tensor("t", T.int32(), (2, 3), dim_names=("a",)),
    "must name each of 0..1 once": lambda: fixed_shape_tensor("t", T.int32(), (2, 3), permutation=(0, 0)),
    "has 1 sizes for 2 dimensions": lambda: variable_shape_tensor("t", T.int32(), 2, uniform_shape=(1,)),
    "expected an array of rows": lambda: tensor_column(np.float64(1)),
    "nulls alone have no type": lambda: tensor_column([None]),
    "row 1 is float of 1 dimensions": lambda: tensor_column([np.zeros(2), np.zeros(2, "f4")]),
    "row 1 is double of 2 dimensions": lambda: tensor_column([np.zeros(2), np.zeros((2, 2))]),
    "row 0 is stored in the shape": lambda: tensor_column([np.zeros((2, 3))], uniform_shape=(None, 4)),
    "give a list of arrays": lambda: tensor_column(np.zeros((2, 3)), uniform_shape=(None,)),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments_are_refused(words):
    with pytest.raises(ipc.UsageError, match=words):
        WRONG[words]()


def fixed_with(metadata: str | bytes, name: str = FIXED_SHAPE) -> ipc.Array:
    """Two rows of twelve values, with parameters that may be anything."""
    marks = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
    field = T.field("t", T.list_(T.int16(), 12), metadata=marks)
    return ipc.RecordBatch.from_pydict({"t": [list(range(12)), list(range(12, 24))]}, ipc.Schema([field]))["t"]


PARAMETERS = """
    "shape":3 | "shape":[] | "shape":[3,"4"] | "shape":[-3,-4] | "shape":[3.0,4] | "shape":[[3],4] | "shape":[true,12]
    "shape":null | "shape":[4294967296,4294967296] | "shape":[2,4] | "shape":[3,4],"permutation":[0]
    "shape":[3,4],"permutation":[0,5] | "shape":[3,4],"permutation":[0,0] | "permutation":[0,0]
    "shape":[3,4],"dim_names":["a"] | "shape":[3,4],"dim_names":[1,2] | "dim_names":["a"]
    "uniform_shape":"a" | "uniform_shape":[-1,2] | "uniform_shape":[null,2]
"""
#: What does not describe rows of twelve values.
BROKEN = ["", "x", "{", "[]", "{}", *[f"{{{each.strip()}}}" for each in re.split(r"\||\n", PARAMETERS.strip())]]
#: What no other library is given.
EXTREME = [
    b"\xff",
    '{"shape":[1e400,12]}',
    '{"shape":[%s12]}' % ("1," * 100),
    "[" * 100_000,
    '{"shape":[%s]}' % ("9" * 5000),
]


@pytest.mark.parametrize("metadata", [*BROKEN, *EXTREME], ids=lambda each: repr(each[:40]))
def test_broken_metadata_leaves_the_storage_as_it_is(metadata):
    column = fixed_with(metadata)
    assert column.to_numpy().shape == (2, 12)
    assert column.to_pylist()[1] == [*range(12, 24)]
    with pytest.raises(ipc.FormatError, match="'t'"):
        tensor_parameters(column.field)
    # It does not fit the other type either.
    with pytest.raises(ipc.FormatError, match="struct"):
        tensor_parameters(fixed_with("{}", VARIABLE_SHAPE).field)


def test_metadata_that_says_more_than_we_know_is_read():
    column = fixed_with('{"shape": [4, 3], "permutation": [1, 0], "colour": {"a": [1]}}')
    assert column.to_numpy().shape == (2, 3, 4)
    assert tensor_parameters(T.field("x", T.int8())) is None


def variable_with(data: list[list[int]], shapes: list[list[int]]) -> ipc.Array:
    field = variable_shape_tensor("v", T.int32(), 2)
    rows = [{"data": d, "shape": s} for d, s in zip(data, shapes, strict=True)]
    return ipc.RecordBatch.from_pydict({"v": rows}, ipc.Schema([field]))["v"]


@pytest.mark.parametrize("shape", [[2, 3], [-2, -2], [0, 4], [2**31 - 1, 2**31 - 1], [4, 0], [-1, -4]])
def test_shapes_that_do_not_fit_the_values_name_the_row(shape):
    assert variable_with([[1, 2, 3, 4]], [[2, 2]]).to_numpy()[0].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ipc.FormatError, match="row 1"):
        variable_with([[1, 2, 3, 4], [1, 2, 3, 4]], [[2, 2], shape]).to_numpy()


SHAPE, FLOATS = T.list_(T.int32(), 2), T.list_(T.float32())
STORAGES = [
    *[T.list_(T.int16(), 12), T.list_(T.int16(), 0), T.list_(T.list_(T.int16(), 3), 4)],
    *[
        T.struct({"data": FLOATS, "shape": shape})
        for shape in (SHAPE, T.list_(SHAPE, 2), T.int32(), T.list_(T.int32(), 0))
    ],
    *[T.struct({"data": data, "shape": SHAPE}) for data in (T.list_(T.string()), T.list_(T.float32(), 4))],
    *[T.struct({"shape": SHAPE, "data": FLOATS}), T.struct([]), T.int8(), T.string()],
]


@pytest.mark.parametrize(
    "name", [FIXED_SHAPE, VARIABLE_SHAPE, "arrow.bool8", "arrow.uuid", "arrow.json", "arrow.opaque"]
)
def test_041_pyarrow_takes_extensions_with_any_metadata_or_says_why_not(name):
    """No such error is about memory, and the process goes on; to us they are their storage type and bytes."""
    for storage in STORAGES:
        for metadata in (*BROKEN, '{"shape":[3,4]}'):
            pairs = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
            field = T.field("x", storage, metadata=pairs)
            batch = ipc.RecordBatch.from_pydict({"x": [None]}, ipc.Schema([field]))
            drive.export_to_pyarrow(batch)
            assert read(stream(batch.column(0))).to_pylist() == [None]
