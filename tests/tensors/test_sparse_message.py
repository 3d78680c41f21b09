"""SparseTensor messages assembled by hand are read as the schema text says, broken ones refused by name."""

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import forge
from helpers.fbs import FlatReader
from helpers.forge import Table
from tensors.sparse_forge import Body, coo, csf, csx, message, pack

import arrowipc as ipc
import arrowipc.types as t
from arrowipc import FormatError, LimitError, UnsupportedError, UsageError

#: Codes of `struct` and the types that they stand for.
INTEGERS = {code: forge.int_(8 * struct.calcsize(code), code.islower()) for code in "bBhHiIqQ"}

# Pointers of one type, indices of another.
PAIRS = [*map("".join, zip(INTEGERS, reversed(INTEGERS), strict=True))]

# The tensor in the text of SparseTensorIndexCOO: 2 x 3 x 4 x 5, six values, as listed there (unsorted).
TEXT_SHAPE = (2, 3, 4, 5)
TEXT_COO = [(0, 1, 2, 0), (1, 1, 2, 3), (0, 2, 1, 0), (0, 1, 3, 0), (0, 1, 2, 1), (1, 2, 0, 4)]
# That of SparseTensorIndexCSF: the same shape, eight values.
TEXT_CSF = [
    (0, 0, 0, 1),
    (0, 0, 0, 2),
    (0, 1, 0, 0),
    (0, 1, 0, 2),
    (0, 1, 1, 0),
    (1, 1, 1, 0),
    (1, 1, 1, 1),
    (1, 1, 1, 2),
]
CSF_INDPTR = [[0, 2, 3], [0, 1, 3, 4], [0, 2, 4, 5, 8]]
CSF_INDICES = [[0, 1], [0, 1, 1], [0, 0, 1, 1], [1, 2, 0, 2, 0, 0, 1, 2]]
# A 6 x 5 matrix with nine values.
INDPTR = [0, 2, 3, 5, 5, 8, 9]
COLUMNS = [0, 3, 1, 2, 4, 0, 1, 3, 4]


def dense(coordinates: list[tuple[int, ...]], shape: tuple[int, ...], values: list[float]) -> np.ndarray:
    out = np.zeros(shape)
    for place, value in zip(coordinates, values, strict=True):
        out[place] += value
    return out


def numbers(count: int) -> list[float]:
    return [float(i + 1) for i in range(count)]


def made_of(
    body: Body, make: Callable[..., Any], parts: dict[str, Any], count: int, padded: int, /, **changes: Any
) -> bytes:
    """A message of values 1.0, 2.0 ..., whose index and whole are changed as asked for."""
    data = body.add(pack("d", numbers(count)), padded)
    parts |= changes.pop("index", {})
    return message(body, **{"index": make(**parts), "shape": TEXT_SHAPE, "count": count, "data": data, **changes})


def coo_message(code: str = "q", by_columns: bool = False, padded: int = 0, **changes: Any) -> bytes:
    body, rows, width = Body(), np.array(TEXT_COO), struct.calcsize(code)
    flat = rows.T.reshape(-1) if by_columns else rows.reshape(-1)
    indices = body.add(pack(code, flat.tolist()), padded)
    strides = (width, len(rows) * width) if by_columns else None
    index = {"indices": indices, "kind": INTEGERS[code], "strides": strides}
    return made_of(body, coo, index, len(rows), padded, **changes)


def csx_message(
    axis: int = 0,
    codes: str = "qq",
    padded: int = 0,
    indptr: list[int] = INDPTR,
    columns: list[int] = COLUMNS,
    **changes: Any,
) -> bytes:
    body = Body()
    places = [body.add(pack(code, each), padded) for code, each in zip(codes, (indptr, columns), strict=True)]
    index = {"axis": axis, "indptr": places[0], "indices": places[1], "kinds": [INTEGERS[code] for code in codes]}
    return made_of(body, csx, index, 9, padded, **{"shape": (5, 6) if axis else (6, 5), **changes})


def csf_message(
    codes: str = "qq",
    padded: int = 0,
    indptr: list[list[int]] = CSF_INDPTR,
    nodes: list[list[int]] = CSF_INDICES,
    counted: bool = False,
    **changes: Any,
) -> bytes:
    body = Body()

    def placed(code: str, levels: list[list[int]]) -> list[tuple[int, int]]:
        found = [body.add(pack(code, level), padded) for level in levels]
        return [(at, len(level)) for (at, _), level in zip(found, levels, strict=True)] if counted else found

    index: dict[str, Any] = {"indptr": placed(codes[0], indptr), "indices": placed(codes[1], nodes)}
    index |= {"order": (0, 1, 2, 3), "kinds": [INTEGERS[code] for code in codes]}
    return made_of(body, csf, index, len(nodes[-1]), padded, **changes)


@pytest.mark.parametrize("validate", ["none", "full", "strict"])
@pytest.mark.parametrize("padded", [0, 8, 64])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("code", INTEGERS)
def test_coordinates_of_every_integer_type_row_by_row_and_column_by_column(code, by_columns, padded, validate):
    data = coo_message(code, by_columns, padded, names=["a", "", "c", "d"])
    tensor = ipc.read_sparse_tensor(data, validate=validate)
    assert type(tensor) is ipc.SparseCOOTensor
    assert tensor.shape == TEXT_SHAPE
    assert tensor.dim_names == ("a", "", "c", "d")
    assert tensor.type == t.float64()
    assert tensor.non_zero_length == 6
    assert tensor.indices.tolist() == [list(row) for row in TEXT_COO]
    assert tensor.data.tolist() == numbers(6)
    assert not tensor.is_canonical
    assert np.array_equal(tensor.to_dense(), dense(TEXT_COO, TEXT_SHAPE, numbers(6)))


@pytest.mark.parametrize("padded", [0, 8, 64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("codes", PAIRS)
def test_compressed_rows_and_columns_of_every_integer_type(codes, axis, padded):
    tensor = ipc.read_sparse_tensor(csx_message(axis, codes, padded), validate="strict")
    assert type(tensor) is (ipc.SparseCSRMatrix, ipc.SparseCSCMatrix)[axis]
    assert tensor.indptr.tolist() == INDPTR
    assert tensor.indices.tolist() == COLUMNS
    assert tensor.is_canonical
    places = [(row, column) for row in range(6) for column in COLUMNS[INDPTR[row] : INDPTR[row + 1]]]
    expected = dense(places, (6, 5), numbers(9))
    assert np.array_equal(tensor.to_dense(), expected.T if axis else expected)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("padded", [0, 8, 64])
@pytest.mark.parametrize("codes", PAIRS)
def test_the_tree_of_the_schema_text(codes, padded, counted):
    """`counted`: lengths that are numbers of entries, as Arrow C++ writes them."""
    tensor = ipc.read_sparse_tensor(csf_message(codes, padded, counted=counted), validate="strict")
    assert type(tensor) is ipc.SparseCSFTensor
    assert [level.tolist() for level in tensor.indptr] == CSF_INDPTR
    assert [level.tolist() for level in tensor.indices] == CSF_INDICES
    assert tensor.axis_order == (0, 1, 2, 3)
    assert tensor.is_canonical
    assert np.array_equal(tensor.to_dense(), dense(TEXT_CSF, TEXT_SHAPE, numbers(8)))


def test_the_axis_order_says_which_dimension_a_level_is():
    tensor = ipc.read_sparse_tensor(csf_message(index={"order": (2, 0, 3, 1)}, shape=(2, 4, 3, 2)))
    expected = np.zeros((2, 4, 3, 2))
    for value, (a, b, c, d) in enumerate(TEXT_CSF):
        expected[b, d, a, c] = value + 1
    assert np.array_equal(tensor.to_dense(), expected)


def test_nodes_without_children_are_read_where_lengths_are_exact_and_are_not_canonical():
    data = csf_message(indptr=[[0, 2, 2]], nodes=[[0, 1], [0, 1]], index={"order": (0, 1)}, shape=(2, 2), count=2)
    tensor = ipc.read_sparse_tensor(data)
    assert len(tensor.indices[0]) == 2
    assert not tensor.is_canonical
    assert tensor.canonical().indices[0].tolist() == [0]
    assert tensor.to_dense().tolist() == [[1, 2], [0, 0]]


@pytest.mark.parametrize("shift", range(9))
@pytest.mark.parametrize("build", [coo_message, csx_message, csf_message])
def test_memory_at_any_address_gives_aligned_arrays_and_is_not_copied_where_it_is_aligned(build, shift):
    memory = np.frombuffer(bytes(shift) + build(), np.uint8)[shift:]
    tensor = ipc.read_sparse_tensor(memory)
    for array in (tensor.data, *tensor._index.arrays):
        assert array.flags.aligned
        assert not array.flags.writeable
        assert np.shares_memory(array, memory) == (shift % 8 == 0)
    assert tensor == ipc.read_sparse_tensor(build())


def test_duplicates_are_legal_and_added_up():
    body = Body()
    indices = body.add(pack("b", [1, 0, 1, 0, 0, 1]))
    data = body.add(pack("d", [1, 2, 4]))
    whole = message(body, coo(indices, forge.INT8, canonical=True), (2, 2), 3, data)
    tensor = ipc.read_sparse_tensor(whole)
    assert not tensor.is_canonical
    assert tensor.to_dense().tolist() == [[0, 4], [3, 0]]
    for validate in ("full", "none"):
        # Nor is SciPy told what the message claims.
        matrix = ipc.read_sparse_tensor(whole, validate=validate).to_scipy()
        assert (matrix.has_canonical_format, matrix.sum(), matrix.max()) == (False, 7, 4)
        matrix.sum_duplicates()
        assert matrix.nnz == 2
    with pytest.raises(FormatError, match="isCanonical says otherwise"):
        ipc.read_sparse_tensor(whole, validate="strict")


def test_offsets_inside_the_body_are_honoured_and_gaps_are_skipped():
    body = Body(alignment=8)
    body.add(b"\xff" * 24)
    data = body.add(pack("d", numbers(6)))
    body.add(b"\xff" * 8)
    indices = body.add(pack("q", np.array(TEXT_COO).reshape(-1).tolist()))
    tensor = ipc.read_sparse_tensor(message(body, coo(indices), TEXT_SHAPE, 6, data))
    assert np.array_equal(tensor.to_dense(), dense(TEXT_COO, TEXT_SHAPE, numbers(6)))


def test_a_row_stride_larger_than_a_row_skips_what_lies_between():
    body = Body()
    indices = body.add(pack("h", [0, 1, 99, 1, 0, 99]))
    data = body.add(pack("d", [5, 6]))
    whole = message(body, coo(indices, forge.INT16, (6, 2)), (2, 2), 2, data)
    assert ipc.read_sparse_tensor(whole).to_dense().tolist() == [[0, 5], [6, 0]]


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no shape": (lambda: coo_message(shape=None), "SparseTensor.shape"),
    "no index": (
        lambda: message(body := Body(), None, (1,), 0, body.add(bytes(8))),
        "lacks the required SparseTensor.sparseIndex",
    ),
    "unknown index": (lambda: coo_message(tag=4), "SparseTensor.sparseIndex has the unknown type 4"),
    "no data": (lambda: coo_message(data=None), "SparseTensor.data"),
    "text": (
        lambda: message(body := Body(), coo(body.add(pack("q", [0]))), (1,), 1, body.add(bytes(8)), forge.UTF8),
        "SparseTensor.type is Utf8",
    ),
    "negative dimension": (lambda: coo_message(shape=(2, -3, 4, 5)), r"SparseTensor.shape\[1\].size is -3"),
    "negative count": (lambda: coo_message(count=-1), "SparseTensor.non_zero_length is -1"),
    "more values than data": (lambda: coo_message(count=7), "SparseTensor.data"),
    "data outside": (lambda: coo_message(data=(1 << 40, 48)), "SparseTensor.data"),
    "data before": (lambda: coo_message(data=(-8, 48)), "SparseTensor.data"),
    "COO without type": (lambda: coo_message(index={"kind": None}), "IndexCOO.indicesType"),
    "COO of 12-bit integers": (lambda: coo_message(index={"kind": forge.int_(12)}), "IndexCOO.indicesType"),
    "COO buffer small": (lambda: coo_message(index={"indices": (0, 184)}), "IndexCOO.indicesBuffer"),
    "COO negative stride": (lambda: coo_message(index={"strides": (32, -8)}), "IndexCOO.indicesStrides"),
    "COO wide stride": (lambda: coo_message(index={"strides": (40, 8)}), "IndexCOO.indicesBuffer"),
    "COO index outside": (lambda: coo_message(shape=(2, 3, 3, 5)), r"indices\[3, 2\] is 3"),
    "CSR axis": (lambda: csx_message(index={"axis": 2}), "compressedAxis has the unknown value 2"),
    "CSR of three dimensions": (lambda: csx_message(shape=(6, 5, 1)), "3 dimensions"),
    "CSR 2**63 - 1 rows": (lambda: csx_message(shape=(2**63 - 1, 5)), "SparseMatrixIndexCSX.indptrBuffer"),
    "CSR fewer rows": (lambda: csx_message(shape=(5, 5)), r"indptr\[5\] is 8: the last pointer must be 9"),
    "CSR first pointer": (lambda: csx_message(indptr=[1, *INDPTR[1:]]), r"indptr\[0\] is 1"),
    "CSR descent": (lambda: csx_message(indptr=[0, 2, 3, 1, 5, 8, 9]), r"indptr\[3\] is 1"),
    "CSR column": (lambda: csx_message(columns=[*COLUMNS[:-1], 5]), r"indices\[8\] is 5"),
    "CSR indices small": (lambda: csx_message(index={"indices": (64, 64)}), "SparseMatrixIndexCSX.indicesBuffer"),
    "CSF of one dimension": (lambda: csf_message(shape=(2,)), "SparseTensorIndexCSF"),
    "CSF no order": (lambda: csf_message(index={"order": None}), "IndexCSF.axisOrder"),
    "CSF order twice": (lambda: csf_message(index={"order": (0, 1, 1, 3)}), "IndexCSF.axisOrder"),
    "CSF order negative": (lambda: csf_message(index={"order": (0, 1, 2, -1)}), "IndexCSF.axisOrder"),
    "CSF pointers missing": (lambda: csf_message(indptr=CSF_INDPTR[:2]), "IndexCSF.indptrBuffers"),
    "CSF indices missing": (
        lambda: csf_message(nodes=[CSF_INDICES[0], CSF_INDICES[2], CSF_INDICES[3]]),
        "SparseTensorIndexCSF.indicesBuffers",
    ),
    "CSF level too small": (
        lambda: csf_message(nodes=[[0, 1], [0, 1, 1], [0, 0], CSF_INDICES[3]]),
        r"indptrBuffers\[2\]",
    ),
    "CSF pointers that end early": (
        lambda: csf_message(indptr=[[0, 2, 3], [0, 1, 3, 4], [0, 2, 4, 5, 7]]),
        r"indptrBuffers\[2\]",
    ),
    "CSF descent": (
        lambda: csf_message(indptr=[[0, 2, 3], [0, 3, 1, 4], CSF_INDPTR[2]]),
        r"indptrBuffers\[1\]\[2\] is 1",
    ),
    "CSF index outside": (lambda: csf_message(nodes=[[0, 2], *CSF_INDICES[1:]]), r"indicesBuffers\[0\]\[1\] is 2"),
    "CSF fewer leaves": (lambda: csf_message(count=9, data=(0, 72)), r"indicesBuffers\[3\]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused_by_name(name):
    build, words = BROKEN[name]
    data = build()
    for read in (ipc.read_sparse_tensor, ipc.read_tensor):
        with pytest.raises(FormatError, match=words):
            read(data)


def test_strides_that_share_bytes_and_buffers_that_share_bodies_are_limited():
    body = Body()
    count = 1000
    indices, data = body.add(bytes(8)), body.add(bytes(8 * count))
    whole = message(body, coo(indices, forge.INT64, (0, 0)), (1,) * 60, count, data)
    limits = ipc.Limits(overlap_bytes=1000)
    with pytest.raises(LimitError, match="overlap_bytes"):
        ipc.read_sparse_tensor(whole, limits=limits)
    assert ipc.read_sparse_tensor(whole).to_dense().shape == (1,) * 60
    tree = Body()
    place = tree.add(pack("q", [0, 1]) + bytes(8000))
    whole = message(tree, csf([place] * 59, [place] * 60, range(60)), (1,) * 60, 1, place)
    with pytest.raises(LimitError, match="share bytes"):
        ipc.read_sparse_tensor(whole, limits=limits)


def test_values_without_bytes_are_not_supported():
    body = Body()
    whole = message(body, coo(body.add(bytes(8))), (1,), 1 << 60, (0, 0), Table("FixedSizeBinary"))
    with pytest.raises(UnsupportedError, match="0 bytes"):
        ipc.read_sparse_tensor(whole)


@pytest.mark.parametrize("build", [coo_message, csx_message, csf_message])
def test_unproven_indices_are_proven_before_they_are_used(build):
    wrong = {
        coo_message: {"shape": (2, 3, 3, 5)},
        csx_message: {"columns": [*COLUMNS[:-1], 100]},
        csf_message: {"nodes": [*CSF_INDICES[:3], [1, 2, 0, 2, 0, 0, 1, 100]]},
    }[build]
    tensor = ipc.read_sparse_tensor(build(**wrong), validate="none")
    uses = [tensor.to_dense, tensor.to_coo, tensor.to_csf, tensor.canonical, tensor.serialize]
    uses += [lambda: tensor.is_canonical, lambda: tensor == tensor.rename(None)]
    if tensor.ndim == 2:
        uses += [tensor.to_csr, tensor.to_csc, tensor.to_scipy]
    for use in uses:
        with pytest.raises(FormatError, match="expected an index"):
            use()


LAYOUTS = (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)


def buffers_of(data: bytes) -> list[tuple[int, int]]:
    """Offset and length of every Buffer struct in the metadata, found by the flatbuffers runtime."""
    header = FlatReader(ipc.read_message(data).metadata).root("Message")["header"]
    index, found = header["sparseIndex"], [header["data"]]
    for name in ("indptrBuffer", "indptrBuffers", "indicesBuffer", "indicesBuffers"):
        part = index.get(name, [])
        found += part if isinstance(part, list) else [part]
    return [(each["offset"], each["length"]) for each in found]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("before", [0, 1, 63, 64, 100])
def test_the_message_and_every_buffer_begin_at_multiples_of_64_in_the_sink(layout, before):
    tensor = layout.from_dense(np.arange(35).reshape(5, 7) % 3, index_type="int16")
    sink = bytearray(b"x" * before)
    written = ipc.write_sparse_tensor(tensor, sink)
    assert written == len(sink) - before
    start = -(-before // 64) * 64
    assert sink[before:start] == bytes(start - before)
    assert sink[start : start + 4] == b"\xff\xff\xff\xff"
    message = ipc.read_message(bytes(sink[start:]))
    assert (len(sink) - start - message.body_length) % 64 == 0
    for offset, length in buffers_of(bytes(sink[start:])):
        assert offset % 64 == 0
        assert offset + length <= message.body_length
    assert ipc.get_tensor_size(tensor) == len(sink) - start
    assert ipc.read_sparse_tensor(sink[start:]) == tensor
    if before % 4 == 0:
        assert ipc.read_sparse_tensor(sink[before:]) == tensor


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lengths_are_exact_and_padding_is_zero(layout):
    tensor = layout.from_dense(np.arange(35.0).reshape(5, 7) % 3)
    data = tensor.serialize()
    body = bytearray(ipc.read_message(data).body)
    arrays = (tensor.data, *tensor._index.arrays)
    places = buffers_of(data)
    assert [length for _, length in places] == [array.nbytes for array in arrays]
    for offset, length in places:
        body[offset : offset + length] = bytes(length)
    assert not any(body)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sinks_and_sources_of_every_kind(layout, tmp_path):
    tensor = layout.from_dense(np.eye(9, 4), dim_names=("rows", "columns"))
    data = tensor.serialize()
    path = tmp_path / "tensor"
    assert ipc.write_tensor(tensor, path) == len(data)
    for source in (path, io.BytesIO(data), ipc.read_message(data)):
        assert ipc.read_sparse_tensor(source) == tensor
    assert ipc.read_sparse_tensor(data).dim_names == ("rows", "columns")
    assert [type(each) for each in ipc.read_tensors(data * 2)] == [layout] * 2


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_a_dimension_that_the_type_of_the_indices_cannot_hold_is_not_written(layout, tmp_path):
    small = layout.from_dense(np.eye(3, 200), index_type="uint8")
    if layout is ipc.SparseCOOTensor:
        narrow = layout(small.data, small.indices.astype("i1"), small.shape)
    else:
        narrow = layout(small.data, small.indptr, small.indices.astype("i1"), small.shape)
    assert narrow == small
    with pytest.raises(UsageError, match="larger than the 127"):
        ipc.write_sparse_tensor(narrow, tmp_path / "tensor")
    assert not list(tmp_path.iterdir())
    ipc.write_sparse_tensor(small, tmp_path / "tensor")
    with pytest.raises(UsageError, match="holds numbers up to 127"):
        layout.from_dense(np.eye(3, 200), index_type="int8")


def test_compressed_layouts_go_out_sorted():
    matrix = ipc.SparseCSRMatrix([1, 2, 4], [0, 3], [2, 0, 2], (1, 3))
    found = ipc.read_sparse_tensor(matrix.serialize(), validate="strict")
    assert found.indices.tolist() == [0, 2]
    assert found.data.tolist() == [2, 5]
