"""Schemas, footers and tensors as FlatBuffers: the flatbuffers package finds every value where it must be."""

from __future__ import annotations

import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from helpers import randoms
from helpers.arrays import ipc_bytes
from helpers.fbs import FlatReader
from hypothesis import given

import arrowipc as ipc
from arrowipc import types as T
from arrowipc.errors import UsageError
from arrowipc.metadata.schema_writer import schema_metadata

UNITS = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND", "day": "DAY"}


def read_tables(metadata: bytes, root: str = "Message") -> dict[str, Any]:
    """The tables of a flatbuffer, after what holds for all of them."""
    reader = FlatReader(metadata)
    tables = reader.root(root)
    assert not [word for word in reader.words if word[0] % word[1]], "(place, width) out of alignment"
    vtables = {metadata[at : at + int.from_bytes(metadata[at : at + 2], "little")] for at in reader.vtables}
    assert len(vtables) == len(reader.vtables), "equal vtables are shared"
    return tables


def metadata_of(message: bytes) -> bytes:
    assert message[:4] == b"\xff" * 4
    assert int.from_bytes(message[4:8], "little") == len(message) - 8
    return message[8:]


# What the tables of a schema must hold, in the words of Schema.fbs.


def type_table(type_: T.DataType) -> dict[str, Any]:
    match type_:
        case T.Int(width, signed):
            return {"bitWidth": width, "is_signed": signed}
        case T.FloatingPoint(precision):
            return {"precision": precision.upper()}
        case T.Decimal(precision, scale, width):
            return {"precision": precision, "scale": scale, "bitWidth": width}
        case T.Date(unit) | T.Duration(unit):
            return {"unit": UNITS[unit]}
        case T.Time(unit, width):
            return {"unit": UNITS[unit], "bitWidth": width}
        case T.Timestamp(unit, zone):
            return {"unit": UNITS[unit], "timezone": zone}
        case T.Interval(unit):
            return {"unit": unit.upper()}
        case T.FixedSizeBinary(width):
            return {"byteWidth": width}
        case T.FixedSizeList(_, size):
            return {"listSize": size}
        case T.Map(_, keys_sorted):
            return {"keysSorted": keys_sorted}
        case T.Union(mode, _, codes):
            return {"mode": mode.capitalize(), "typeIds": list(codes)}
    return {}


def pair_tables(metadata: tuple[tuple[bytes, bytes], ...]) -> list[dict[str, str]] | None:
    texts = [[part.decode("utf-8", "surrogateescape") for part in pair] for pair in metadata]
    return [{"key": key, "value": value} for key, value in texts] or None


def field_table(field: T.Field) -> dict[str, Any]:
    type_, encoding = field.type, None
    if isinstance(type_, T.Dictionary):
        encoding = {
            "id": type_.id,
            "indexType": type_table(type_.index_type),
            "isOrdered": type_.ordered,
            "dictionaryKind": "DenseArray",
        }
        type_ = type_.value_type
    return {
        "name": field.name,
        "nullable": field.nullable,
        "type_type": "Struct_" if isinstance(type_, T.Struct) else type(type_).__name__,
        "type": type_table(type_),
        "dictionary": encoding,
        "children": [field_table(child) for child in type_.children],
        "custom_metadata": pair_tables(field.metadata.pairs),
    }


def schema_table(schema: ipc.Schema) -> dict[str, Any]:
    names = {0: "UNUSED", 1: "DICTIONARY_REPLACEMENT", 2: "COMPRESSED_BODY"}
    return {
        "endianness": schema.endianness.capitalize(),
        "fields": [field_table(field) for field in schema],
        "custom_metadata": pair_tables(schema.metadata.pairs),
        "features": [names[each] for each in schema.features] or None,
    }


def check(schema: ipc.Schema) -> None:
    """All laws that hold for a schema whose dictionaries have ids."""
    message = schema.serialize()
    tables = read_tables(metadata_of(message))
    assert tables == {
        "version": "V5",
        "header_type": "Schema",
        "header": schema_table(schema),
        "bodyLength": 0,
        "custom_metadata": None,
    }
    again = pickle.loads(pickle.dumps(schema))
    assert again.serialize() == message
    read = ipc.read_schema(message)
    assert read.equals(schema, check_metadata=True)
    assert (read.endianness, read.features) == ("little", schema.features)


# Schemas.

pairs = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=3)
columns = st.builds(  # pyarrow refuses a null type that is not nullable
    lambda name, kind, nullable: pa.field(name, kind, nullable or pa.types.is_null(kind)),
    st.text(st.characters(codec="utf-8"), max_size=9),
    randoms.types,
    st.booleans(),
)


@given(st.lists(columns, max_size=5), pairs, pairs)
def test_what_is_written_is_what_the_schema_says(
    fields: list[pa.Field], of_schema: list[tuple[bytes, bytes]], of_field: list[tuple[bytes, bytes]]
) -> None:
    theirs = pa.schema(fields)
    given = ipc.read_schema(memoryview(theirs.serialize()))
    assert pa.ipc.read_schema(pa.py_buffer(ipc.Schema(given.fields).serialize())).equals(theirs)
    last = [T.Field("last", T.bool_(), False, of_field)]
    check(ipc.Schema([*given.fields, *last], of_schema))


@pytest.mark.parametrize("unit", ["year_month", "day_time", "month_day_nano"])
def test_intervals_that_others_do_not_have(unit: Any) -> None:
    check(ipc.Schema([T.Field("i", T.Interval(unit))]))


@pytest.mark.parametrize("id", [0, 1, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("before", range(5))
def test_ids_of_dictionaries_lie_at_multiples_of_8(id: int, ordered: bool, before: int) -> None:
    inner = T.Dictionary(T.uint64(), T.utf8(), not ordered, 7)
    values = T.struct([("x", inner), ("y", T.list_(inner))])
    check(ipc.Schema([T.Field("n" * before, T.int8()), T.Field("d", T.Dictionary(T.int32(), values, ordered, id))]))


@pytest.mark.parametrize("n", [0, 1, 300])
def test_schemas_of_many_kinds_of_columns(n: int) -> None:
    kinds = [T.int64(), T.utf8(), T.list_(T.float32()), T.timestamp("ns", "UTC"), T.decimal128(9, 2)]
    check(ipc.Schema([T.Field(f"column {i}", kinds[i % 5]) for i in range(n)]))


def test_a_schema_of_10_000_columns() -> None:
    schema = ipc.Schema([T.Field(f"column {i}", T.int64(), i % 3 > 0) for i in range(10_000)])
    assert ipc.read_schema(schema.serialize()).equals(schema)
    theirs = pa.ipc.read_schema(pa.py_buffer(schema.serialize()))
    assert theirs.names == schema.names
    assert [field.nullable for field in theirs] == [field.nullable for field in schema]


@pytest.mark.parametrize("wrap", [T.list_, lambda below: T.struct([("s", below), ("t", T.int8())])])
def test_types_as_deep_as_they_may_be(wrap: Any) -> None:
    type_: T.DataType = T.Dictionary(T.int8(), T.utf8(), False, 3)
    for _ in range(63):
        type_ = wrap(type_)
    check(ipc.Schema([T.Field("deep", type_)]))


def test_keys_repeat_and_values_need_not_be_text() -> None:
    metadata = [(b"k", b"1"), (b"k", b"2"), (b"", b""), (b"\xff\0\xfe", b"\x80" * 1000)]
    check(ipc.Schema([T.Field("a", T.null(), metadata=metadata), T.Field("", T.int8())], metadata))


def test_features_and_byte_order() -> None:
    check(ipc.Schema([T.Field("a", T.int8())], features=(2, 1)))
    big = ipc.Schema([T.Field("a", T.int16())], endianness="big")
    assert read_tables(schema_metadata(big))["header"] == schema_table(big)
    for bad in (2**63, -(2**63) - 1, 1.0, "1", True):
        with pytest.raises(UsageError, match="Schema: feature must be an integer"):
            ipc.Schema([], features=(bad,))


def test_the_message_has_metadata_and_a_version_of_its_own() -> None:
    schema = ipc.Schema([T.Field("a", T.int8())])
    tables = read_tables(schema_metadata(schema, "V4", ((b"k", b"\xff"),)))
    assert tables["version"] == "V4"
    assert tables["custom_metadata"] == [{"key": "k", "value": "\udcff"}]
    assert tables["header"] == schema_table(schema)


@pytest.mark.parametrize("size", [2**31 - 200, 2**31 - 1, 2**31])
def test_metadata_beyond_what_an_int32_counts_is_refused(size: int) -> None:
    # Nothing of these bytes is ever touched: pages that nobody wrote to take no memory.
    try:
        value = bytes(size)
    except MemoryError:
        pytest.skip(f"no room for {size:,} addresses")
    with pytest.raises(UsageError, match="its size is an int32"):
        ipc.Schema([T.Field("a", T.int8(), metadata={"k": value})]).serialize()


# Writers: they number dictionaries, and keep what they made of the last schemas.


@pytest.mark.parametrize("ids", [(None, None), (0, 1), (0, 0), (5, 3), (3, None), (None, 0)])
def test_writers_number_the_dictionaries_from_0(ids: tuple[int | None, ...]) -> None:
    words = [T.Dictionary(T.int8(), T.utf8(), False, id) for id in ids]
    schema = ipc.Schema([T.Field("a", words[0]), T.Field("b", T.list_(words[1])), T.Field("c", T.int8())])
    expected = [0, 0] if ids == (0, 0) else [0, 1]
    for _ in range(2):
        sink = bytearray()
        ipc.new_stream(sink, schema).close()
        fields = read_tables(bytes(sink[8:]))["header"]["fields"]
        found = [fields[0]["dictionary"]["id"], fields[1]["children"][0]["dictionary"]["id"]]
        assert found == expected
    assert [field.type for field in schema] == [words[0], T.list_(words[1]), T.int8()]
    assert schema.field(0).type.id == ids[0]


def test_a_schema_that_was_read_is_written_without_what_its_stream_was() -> None:
    batch = ipc.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"]}, T.schema({"a": "int8", "b": "utf8"}))
    source = ipc_bytes(batch, schema=batch.schema)
    with ipc.open_stream(source, columns=["b"]) as reader:
        sink = ipc_bytes(list(reader), schema=reader.schema)
    assert [field["name"] for field in read_tables(bytes(sink[8:]))["header"]["fields"]] == ["b"]
    assert ipc.open_stream(sink).read_all().to_pydict() == {"b": ["x", "y"]}


@pytest.mark.parametrize("batches", [0, 1, 2])
@pytest.mark.parametrize("version", ["V4", "V5"])
def test_footers_say_what_the_file_holds(batches: int, version: Any) -> None:
    words = T.Dictionary(T.int8(), T.utf8(), False, 0)
    schema = ipc.Schema([T.Field("a", words), T.Field("bc", T.int64())], [(b"k", b"\xff")])
    sink = bytearray()
    with ipc.new_file(sink, schema, metadata={"of": "file"}, metadata_version=version) as writer:
        for _ in range(batches):
            writer.write({"a": ["x", "y"], "bc": [1, 2]})
    size = int.from_bytes(sink[-10:-6], "little")
    footer = read_tables(bytes(sink[-10 - size : -10]), "Footer")
    assert footer["version"] == version
    assert footer["schema"] == schema_table(schema)
    assert footer["custom_metadata"] == [{"key": "of", "value": "file"}]
    assert (len(footer["dictionaries"]), len(footer["recordBatches"])) == (1, batches)
    for block in footer["dictionaries"] + footer["recordBatches"]:
        message = ipc.read_message(bytes(sink[block["offset"] :]))
        assert block["bodyLength"] == message.body_length
        assert block["metaDataLength"] == 8 + len(message.metadata)


# Tensors.

VALUES = np.array([[[0, 1.5], [0, 0]], [[2.5, 0], [0, 3.5]]])
INT = {"bitWidth": 64, "is_signed": True}
DOUBLE = {"type_type": "FloatingPoint", "type": {"precision": "DOUBLE"}}
DIMS = [{"size": 2, "name": "x"}, {"size": 2, "name": None}, {"size": 2, "name": "é"}]


def tensor_table(tensor: Any, kind: str) -> dict[str, Any]:
    message = ipc.read_message(tensor.serialize())
    tables = read_tables(bytes(message.metadata))
    assert (tables["version"], tables["header_type"]) == ("V5", kind)
    assert tables["bodyLength"] == message.body_length
    return dict(tables["header"])


def test_dense_tensors() -> None:
    tensor = ipc.Tensor(VALUES.T, ["x", "", "é"])
    expected = {**DOUBLE, "shape": DIMS, "strides": [8, 16, 32], "data": {"offset": 0, "length": 64}}
    assert tensor_table(tensor, "Tensor") == expected
    empty = tensor_table(ipc.Tensor(np.zeros((0, 3), "u2")), "Tensor")
    assert [dim["size"] for dim in empty["shape"]] == [0, 3]
    assert empty["type"] == {"bitWidth": 16, "is_signed": False}


def test_sparse_coordinates() -> None:
    table = tensor_table(ipc.SparseCOOTensor.from_dense(VALUES, dim_names=["x", "", "é"]), "SparseTensor")
    assert {key: table[key] for key in DOUBLE} == DOUBLE
    assert (table["shape"], table["non_zero_length"]) == (DIMS, 3)
    assert (table["sparseIndex_type"], table["data"]) == (
        "SparseTensorIndexCOO",
        {"offset": 128, "length": 24},
    )
    assert table["sparseIndex"] == {
        "indicesType": INT,
        "indicesStrides": [24, 8],
        "indicesBuffer": {"offset": 0, "length": 72},
        "isCanonical": True,
    }


@pytest.mark.parametrize(("kind", "axis"), [(ipc.SparseCSRMatrix, "Row"), (ipc.SparseCSCMatrix, "Column")])
def test_sparse_matrices(kind: Any, axis: str) -> None:
    table = tensor_table(kind.from_dense(np.eye(3, 4), index_type=np.uint16), "SparseTensor")
    small = {"bitWidth": 16, "is_signed": False}
    assert table["sparseIndex_type"] == "SparseMatrixIndexCSX"
    assert table["sparseIndex"] == {
        "compressedAxis": axis,
        "indptrType": small,
        "indptrBuffer": {"offset": 0, "length": 8 if axis == "Row" else 10},
        "indicesType": small,
        "indicesBuffer": {"offset": 64, "length": 6},
    }


def test_sparse_fibres() -> None:
    table = tensor_table(ipc.SparseCSFTensor.from_dense(VALUES), "SparseTensor")
    index = table["sparseIndex"]
    assert table["sparseIndex_type"] == "SparseTensorIndexCSF"
    assert (index["indptrType"], index["indicesType"], index["axisOrder"]) == (INT, INT, [0, 1, 2])
    assert [buffer["offset"] for buffer in index["indptrBuffers"]] == [0, 64]
    assert [buffer["length"] for buffer in index["indicesBuffers"]] == [16, 24, 24]
