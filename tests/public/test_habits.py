"""What people who come from pyarrow do by habit, where docs/pyarrow.md has no row for it."""

import copy
import gzip
import io
import itertools
import math
import mmap
import os
import pickle
import socket
import ssl
import sys
import tarfile
import threading
import zipfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import drive, optional
from helpers.arrays import ipc_bytes

import arrowipc as ipc
from arrowipc import KeyValueMetadata, UnsupportedError, UsageError, types

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = optional("polars")

BATCH = pa.record_batch({"x": [1, 2, None], "y": ["a", "b", "a"]})


stream_of, file_of = ipc_bytes, partial(ipc_bytes, kind="file")


# -- metadata ------------------------------------------------------------------------------------------------


def test_metadata_is_a_mapping_with_order_and_duplicates() -> None:
    m = ipc.Schema([], [("b", "1"), ("a", b"\xff"), ("b", "2")]).metadata
    assert m["b"] == m[b"b"] == b"1"
    assert list(m) == [b"b", b"a"]
    assert len(m) == 2
    assert m.pairs == ((b"b", b"1"), (b"a", b"\xff"), (b"b", b"2"))
    assert dict(m) == dict(pa.KeyValueMetadata([("b", "1"), ("a", b"\xff"), ("b", "2")]))
    assert "b" in m
    assert "z" not in m
    assert 5 not in m
    assert m.get("z") is None
    assert m.get("\ud800", b"?") == b"?"
    assert repr(m) == r"KeyValueMetadata([(b'b', b'1'), (b'a', b'\xff'), (b'b', b'2')])"
    with pytest.raises(KeyError):
        m["z"]


def test_metadata_compares_hashes_and_travels() -> None:
    one, other = KeyValueMetadata({"a": "1", "b": "2"}), KeyValueMetadata({"b": "2", "a": "1"})
    assert one == other == {b"a": b"1", b"b": b"2"}
    assert hash(one) == hash(other)
    assert one != {b"a": b"1"}
    twice, back = KeyValueMetadata([("a", "1"), ("a", "2")]), KeyValueMetadata([("a", "2"), ("a", "1")])
    assert twice != back
    assert twice != {b"a": b"1"}
    assert not KeyValueMetadata()
    assert KeyValueMetadata() == {}
    assert pickle.loads(pickle.dumps(twice)) == copy.deepcopy(twice) == twice
    assert pickle.loads(pickle.dumps(twice)).pairs == twice.pairs


def test_metadata_is_given_out_as_one_kind_everywhere() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), metadata={"unit": "m"})], {"origin": "here"})
    batch = pa.record_batch([[1]], schema)
    with ipc.new_file(sink := bytearray(), metadata={"made by": "hand"}) as writer:
        writer.write_batch(batch, {"n": "1"})
        assert writer.metadata == {b"made by": b"hand"}
    reader = ipc.open_file(sink)
    (message,) = [each for each in ipc.MessageReader(bytes(sink[8:])) if each.kind == "RecordBatch"]
    found = [reader.metadata, reader.schema.metadata, reader.schema["x"].metadata, reader[0].custom_metadata]
    found += [reader.get_batch_metadata(0), message.custom_metadata, reader[0].slice(0, 1).custom_metadata]
    assert all(isinstance(each, KeyValueMetadata) for each in found)
    assert [each.pairs[0][0] for each in found] == [b"made by", b"origin", b"unit", b"n", b"n", b"n", b"n"]


# -- objects of other libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda: {"x": "int8"},
        lambda: [("x", "int8")],
        lambda: [ipc.field("x", "int8")],
        lambda: pa.schema({"x": pa.int8()}),
        lambda: pl.Schema({"x": pl.Int8}),
    ],
    ids=["dict", "pairs", "fields", "pyarrow", "polars"],
)
def test_a_schema_is_given_in_any_of_its_forms(form: Any, tmp_path: Path) -> None:
    given, expected = form(), ipc.schema({"x": "int8"})
    sink = ipc_bytes({"x": [1]}, schema=given)
    assert ipc.open_stream(sink).schema == expected
    assert ipc.RecordBatch.from_pydict({"x": [1]}, given).schema == expected
    assert ipc.table({"x": [1]}, schema=given).schema == expected
    (tmp_path / "x.arrows").write_bytes(sink)
    assert ipc.open_dataset(tmp_path, schema=given).schema == expected


def test_schemas_fields_and_types_of_others_compare() -> None:
    mine = ipc.Table.from_arrow(pa.table(BATCH)).schema
    assert mine == BATCH.schema
    assert BATCH.schema == mine
    assert mine["x"] == BATCH.schema.field("x")
    assert mine["x"].type == pa.int64()
    assert mine["x"].type != pa.int32()
    assert mine["x"].type != pa.field("x", pa.int64())
    assert mine != BATCH.schema.remove(0)
    assert mine != pa.table(BATCH)  # rows are no schema
    assert mine != 5
    assert mine.equals(BATCH.schema.with_metadata({"k": "v"}))
    assert not mine.equals(BATCH.schema.with_metadata({"k": "v"}), check_metadata=True)


def test_writers_and_functions_take_frames_of_others() -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    with ipc.new_stream(sink := bytearray()) as writer:
        writer.write_batch(frame)
        writer.write_table(frame, max_chunksize=1)
    assert [len(batch) for batch in ipc.open_stream(sink)] == [2, 1, 1]
    assert ipc.concat_batches([frame, frame]).to_pydict() == {"x": [1, 2, 1, 2]}
    assert ipc.get_record_batch_size(frame) == ipc.get_record_batch_size(ipc.RecordBatch.from_arrow(frame))
    assert ipc.Table.from_arrow(frame).equals(frame)
    assert ipc.RecordBatch.from_arrow(frame)["x"].equals(frame["x"])


def test_metadata_of_any_size_is_written() -> None:
    """What another library has as metadata was refused above 16 MiB."""
    schema = pa.schema([("x", pa.int64())], {"doc": "v" * 20_000_000})
    found = ipc.open(file_of(pa.table([[1]], schema)), limits=ipc.Limits(metadata_bytes=2**25))
    assert pa.schema(found.read_all().schema).metadata == schema.metadata


MATRIX = np.array([[0, 1.5, 0], [2, 0, 3]])


@pytest.mark.parametrize("kind", ["SparseCOOTensor", "SparseCSRMatrix", "SparseCSCMatrix", "SparseCSFTensor"])
def test_sparse_tensors_of_pyarrow_are_written(kind: str) -> None:
    theirs = getattr(pa, kind).from_dense_numpy(MATRIX, dim_names=("a", "b"))
    sink = bytearray()
    ipc.write_sparse_tensor(theirs, sink)
    found = ipc.read_sparse_tensor(sink)
    assert type(found).__name__ == kind
    assert found.dim_names == ("a", "b")
    assert np.array_equal(found.to_dense(), MATRIX)


# -- the same call, the same values ----------------------------------------------------------------------------


class OfPyarrow:
    """Data of a library that offers pyarrow's arrays only."""

    def __arrow_array__(self, type: Any = None) -> Any:
        return pa.array([1, None], "int8")


class OnDevice:
    """Data of a library whose memory may be on any device."""

    def __arrow_c_device_array__(self, requested_schema: object = None, **kwargs: object) -> Any:
        return pa.array([1, None], "int8").__arrow_c_device_array__(requested_schema, **kwargs)


#: Elements of lists of one and two levels, whatever the lists are.
LISTED = [None, [[1, None, 2], None, [3, 4]], [], [[], [5]]]

#: What code of pyarrow does with `m`, which is pyarrow or arrowipc.
SAME: list[Any] = [
    # A schema stands where names do, and decides about the types.
    lambda m: m.table({"x": [1]}, m.schema({"x": m.int8()})),
    lambda m: m.record_batch({"x": [1], "y": ["a"]}, m.schema({"y": m.large_string(), "x": m.int8()})),
    lambda m: m.record_batch([[1]], m.schema({"x": m.int8()})),
    lambda m: m.table(pd.DataFrame({"x": [1, 2], "y": 3}), m.schema({"y": m.int8()})).column("y"),
    lambda m: m.Table.from_pandas(pd.DataFrame({"x": [1, 2]}), m.schema({"x": m.int8()})),
    lambda m: m.Schema.from_pandas(pd.DataFrame({"x": [1], "y": ["a"]}, index=[5])),
    lambda m: m.table({"x": [1]}).cast(m.schema({"x": m.int8()}), safe=True),
    # A type equals its name.
    lambda m: (m.int64() == "int64", m.int64() != "int64", m.int64().equals("i8")),
    lambda m: (m.timestamp("us") == "timestamp[us]", m.string() == "str", m.string() == "nothing", m.string() == 5),
    lambda m: "int8" in m.schema({"x": m.int8()}).types,
    lambda m: str(m.schema({"x": m.list_(m.struct({"y": m.int8()}))}, metadata={"key": "v" * 100})),
    lambda m: [str(m.dense_union([m.field("x", m.int8())])[0].type), str(m.map_("int8", "string").key_type)],
    lambda m: [str(m.union([m.field("x", m.int8())], mode, [5])) for mode in ("sparse", "dense", 0, 1)],
    lambda m: m.schema([m.field(m.field("x", m.int8(), False), nullable=each) for each in (True, False, None)]),
    lambda m: list(m.field(m.field("x", m.int8(), metadata={"k": "v"}), nullable=False, metadata={"n": "w"}).metadata),
    lambda m: m.KeyValueMetadata({"k": "v"}) == {"k": "v"} != m.KeyValueMetadata({"k": "w"}),
    # Encoded values stay encoded.
    lambda m: m.array(["b", None, "b"]).dictionary_encode().unique(),
    lambda m: m.array(["b", None, "b"]).dictionary_encode().value_counts(),
    lambda m: m.chunked_array([["b"], ["a", "b"]]).dictionary_encode().unique(),
    lambda m: m.array(["b", "a"], m.dictionary(m.int8(), m.string())).value_counts(),
    # Whatever can be iterated over; NumPy's and pandas' values of another type.
    lambda m: m.array(x for x in (1, None)),
    lambda m: m.array({"k": 1}.keys()),
    lambda m: [m.array([1]).to_pandas().name, m.table({"x": [1]})["x"].to_pandas().name],
    lambda m: m.array({5}, m.int8()),
    lambda m: m.array(np.array([1.0, 2.0]), m.int32()),
    lambda m: m.array(np.array([1, 200]), m.uint8(), safe=True),
    lambda m: m.array(pd.Series([np.array([1.0, np.nan]), None]), m.large_list(m.float32())),
    lambda m: m.array(pd.Series([1.0, np.nan]), m.int8()),
    lambda m: m.array(OfPyarrow()),
    lambda m: m.array(OnDevice()),
    # What becomes null need not fit the type.
    lambda m: m.array(np.array([1.0, math.nan]), m.int8(), from_pandas=True),
    lambda m: m.array(np.array([math.nan, math.nan]), m.string(), from_pandas=True),
    lambda m: m.array([[1.0, math.nan], math.nan, []], from_pandas=True),
    lambda m: m.array([{"a": math.nan, "b": [pd.NaT, pd.Timestamp(0)]}], from_pandas=True),
    lambda m: m.array([(1.0, math.nan), np.array([math.nan, 2.0])], from_pandas=True),
    lambda m: m.array([1, pd.NA, pd.NaT, math.nan], from_pandas=True),
    *[
        lambda m, values=values, given=given: m.array(values, **given)
        for values in (np.array([1.5, math.nan, 2]), [1.5, math.nan, 2])
        for given in ({"from_pandas": True}, {"mask": np.array([True, True, False])})
    ],
    lambda m: m.array([1, 2, 3]).take(m.array([0, None])),
    lambda m: m.array(np.array([300, 1, 300, 2]), m.int8(), mask=np.array([True, False, True, False])),
    lambda m: m.table([]),
    lambda m: m.concat_tables([m.table({"x": [{"a": 1, "b": "u"}, None], "y": [1, 2]})] * 2).slice(1).flatten(),
    *[
        lambda m, x=x, first=first: [
            each.to_pylist() for each in m.concat_tables([m.table({"x": x})] * 2).slice(first)["x"].flatten()
        ]
        for x in ([{"a": 1, "b": "u"}, None], [1, 2])
        for first in (0, 4)
    ],
    lambda m: [(each.name, str(each.type)) for each in m.field("x", m.struct({"a": m.int8()})).flatten()],
    # Parts of arrays.
    *[
        lambda m, name=name, call=call: call(m.array(LISTED, getattr(m, name)(getattr(m, name)(m.int8()))))
        for name in ("list_", "large_list", "list_view", "large_list_view")
        for call in (lambda array: array.flatten(True), lambda array: array.flatten(recursive=False))
    ],
    *[
        lambda m, make=make: m.array([[0, 1], None, [None, 3]], make(m)).slice(1).value_parent_indices()
        for make in (lambda m: m.list_(m.int8()), lambda m: m.large_list(m.int8()), lambda m: m.list_(m.int8(), 2))
    ],
    lambda m: m.array([[1, 2], [], [3]], m.list_view(m.int8())).sizes,
    lambda m: [m.array([[("a", 1)], [("b", None)]], m.map_("string", "int8")).keys.to_pylist()],
    lambda m: m.array([[("a", 1)], [("b", None)]], m.map_("string", "int8")).items,
    lambda m: [each.to_pylist() for each in m.chunked_array([[1], [2, 3]]).iterchunks()],
    lambda m: m.array(pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"])).run_ends,
    # Types of a matrix are joined one after the other.
    *[
        lambda m, widths=widths: str(
            m.record_batch([m.array([1, 2]).cast(each) for each in widths], names=list("abc")).to_tensor().type
        )
        for widths in itertools.permutations(["uint16", "int16", "float32"])
    ],
]


def terms_of_neither(found: Any) -> Any:
    if isinstance(found, (pa.Schema, ipc.Schema)):
        return str(pa.schema(found).remove_metadata())
    if hasattr(found, "schema"):
        return str(pa.schema(found.schema).remove_metadata()), found.to_pylist()
    return (str(found.type), found.to_pylist()) if hasattr(found, "to_pylist") else found


@pytest.mark.parametrize("call", SAME, ids=map(str, range(len(SAME))))
def test_the_same_call_gives_the_same_type_and_values(call: Any) -> None:
    assert terms_of_neither(call(ipc)) == terms_of_neither(call(pa))


def test_the_size_of_an_object_counts_its_buffers() -> None:
    table = ipc.table({"x": range(1000)})
    for each in (table, table.combine(), table["x"], table["x"].chunk(0)):
        assert 8000 < sys.getsizeof(each) < 8500


def test_what_would_be_lost_is_refused() -> None:
    schema = ipc.schema({"x": "int8"})
    for call, words in (
        (lambda: ipc.table({"x": [1]}, names=["y"]), "has the names of its columns"),
        (lambda: ipc.table({"x": [1]}, schema, schema), "leave schema= out"),
        (lambda: ipc.chunked_array([ipc.array([1]), ipc.array([1.0])]), "chunk 1 has type double, expected int64"),
        (lambda: ipc.array([{"x": 1}]).flatten(recursive=True), "has no flatten"),
        (lambda: ipc.array([1], safe=False), "values are kept"),
        (lambda: ipc.table({"x": [1]}).cast(schema, safe=False), "values are kept"),
    ):
        with pytest.raises((UsageError, UnsupportedError), match=words):
            call()
    assert ipc.chunked_array([ipc.array([1]), [2.0]], "float32").to_pylist() == [1.0, 2.0]


# -- one call ------------------------------------------------------------------------------------------------


def test_one_call_writes_and_one_reads(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.arrow", {"x": [1, 2, 3], "y": ["a", "b", None], "s": [{"u": 1, "v": 2}] * 3}
    ipc.write(rows, path, compression="zstd", metadata={"k": "v"})
    ipc.write((batch for batch in [ipc.record_batch(rows)]), path, append=True)
    with ipc.open_file(path) as reader:
        assert reader.metadata["k"] == b"v"
    assert ipc.read(path).to_pydict() == {name: values * 2 for name, values in rows.items()}
    assert ipc.read(path, columns=["s.v", "x"]).to_pydict() == {"s": [{"v": 2}] * 6, "x": [1, 2, 3] * 2}
    stream = stream_of(rows)
    with through_a_pipe(stream) as pipe:
        for source in (path, file_of(rows), stream, io.BytesIO(stream), pipe, path.as_uri()):
            found = ipc.read(source, filter=[("x", ">", 1), ("y", "is_null")], columns="s")
            assert {tuple(row["s"].items()) for row in found.to_pylist()} == {(("u", 1), ("v", 2))}
    for columns in (["y"], [1], ["y", "s.u"], None):
        found = ipc.read(path, columns=columns, filter=[("s.v", "==", 2), ("x", "in", [1])])
        expected = ipc.read(path).take([0, 3])
        assert found == (expected if columns is None else expected.select(columns))
    assert ipc.read(path, filter=[("x", ">", 9)]).num_rows == 0
    ipc.write(({"x": 1}, {}), sink := bytearray(), ipc.schema({"x": "int8"}))
    assert ipc.read(sink) == pa.table({"x": pa.array([1, None], "int8")})
    with pytest.raises(KeyError):
        ipc.read(path, filter=[("z", ">", 9)])


def test_a_read_with_a_filter_passes_batches_by_their_statistics() -> None:
    ipc.write([{"x": [1]}, {"x": [5]}], file := bytearray(), statistics=True)
    offset, head, body = ipc.open_file(file).blocks[0]
    file[offset + head : offset + head + body] = b"\xff" * body  # nobody looks at it
    file[offset : offset + head] = bytes(head)
    assert ipc.read(file, filter=[("x", ">", 3)]).to_pydict() == {"x": [5]}


# -- options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["ARROW_PRE_0_15_IPC_FORMAT", "ARROW_PRE_1_0_METADATA_VERSION"])
def test_the_environment_asks_for_old_framing_as_there(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(word, "1")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BATCH.schema) as writer:
        writer.write_batch(BATCH)
    theirs, ours = sink.getvalue().to_pybytes(), stream_of(BATCH)
    assert (ours[:4] == b"\xff" * 4) == (theirs[:4] == b"\xff" * 4)
    assert ipc.read_message(ours).version == ipc.read_message(theirs).version
    assert ipc.read_message(stream_of(BATCH, legacy=False, metadata_version="V5")).version == "V5"
    monkeypatch.setenv(word, "0")
    assert stream_of(BATCH)[:4] == b"\xff" * 4


def test_compression_that_the_environment_forbids_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_PRE_1_0_METADATA_VERSION", "1")
    with pytest.raises(UsageError, match="ARROW_PRE_1_0_METADATA_VERSION"):
        stream_of(BATCH, compression="zstd")


def test_a_file_that_is_continued_keeps_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(file_of(BATCH))
    monkeypatch.setenv("ARROW_PRE_1_0_METADATA_VERSION", "1")
    with ipc.new_file(path, append=True) as writer:
        writer.write(BATCH)
    assert ipc.open_file(path).count_rows() == 6


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("alignment", [pa.ipc.Alignment.Any, pa.ipc.Alignment.DataTypeSpecific])
def test_buffers_are_aligned_for_their_types_as_the_options_ask(alignment: Any, compression: Any) -> None:
    """In input of any alignment; for 64 bytes nobody promises anything, so they are refused."""
    columns = {name: pa.array([None, 1, 2]).cast(name) for name in ("int8", "int16", "int32", "int64", "float64")}
    columns |= {"text": pa.array(["a", None, "bc"]), "list": pa.array([[1], None, [2, 3]], pa.large_list(pa.int16()))}
    columns |= {
        "decimal": pa.array([1, 2, None], pa.decimal128(9)),
        "view": pa.array(["x" * 20, "y", None], pa.string_view()),
    }
    data, batch = stream_of(columns, compression=compression), pa.record_batch(columns)
    options = pa.ipc.IpcReadOptions(ensure_alignment=alignment)
    widths = {"int16": 2, "int32": 4, "int64": 8, "float64": 8, "text": 4, "list": 8, "decimal": 8, "view": 8}
    for shift in range(8):
        source = memoryview(bytes(shift) + data)[shift:]
        found = pa.record_batch(ipc.open_stream(source, options=options).read_next_batch())
        assert found.equals(batch)
        for name, width in widths.items():
            assert found[name].buffers()[1].address % width == 0
    with pytest.raises(UnsupportedError, match=r"multiples of 64 bytes.*leave it out"):
        ipc.open_file(file_of(BATCH), options=pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte))


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="IpcReadOptions"):
        ipc.open_stream(stream_of(BATCH), options=pa.ipc.IpcWriteOptions())
    with pytest.raises(UsageError, match="IpcWriteOptions"):
        ipc.new_stream(bytearray(), options=pa.ipc.IpcReadOptions())
    with pytest.raises(UsageError, match="do not give them too"):
        ipc.open_file(file_of(BATCH), columns=[0], options=pa.ipc.IpcReadOptions())
    with pytest.raises(TypeError, match="compresion"):
        ipc.RecordBatchStreamWriter(bytearray(), BATCH.schema, compresion="zstd")
    for outside in (-1, 1 << 40, "7", True):
        with pytest.raises(UsageError, match="footer_offset"):
            ipc.open_file(file_of(BATCH), outside)


@pytest.mark.parametrize("codec", ["ZSTD", "Lz4_Frame", pa.Codec("zstd", 3), {"x": "ZSTD", "*": "uncompressed"}])
def test_codecs_as_people_write_them(codec: Any) -> None:
    batch = pa.record_batch({"x": [0] * 1000, "y": [1] * 1000})
    data = stream_of(batch, compression=codec)
    assert len(data) < len(stream_of(batch, compression="uncompressed")) == len(stream_of(batch))
    assert pa.ipc.open_stream(data).read_all().to_pydict() == batch.to_pydict()


@pytest.mark.parametrize("opener", [ipc.open_stream, ipc.open_file])
def test_a_column_is_read_twice_however_large(opener: Any) -> None:
    batch = pa.record_batch({"x": np.zeros(1000), "v": pa.array(["a long text" * 3] * 1000, pa.string_view())})
    data = (stream_of if opener is ipc.open_stream else file_of)(batch)
    tight = ipc.Limits(overlap_bytes=0)
    found = opener(data, columns=["v", "x", "x", "v", "x"], limits=tight).read_all()
    assert found.schema.names == ["v", "x", "x", "v", "x"]
    assert found.column(0) == found.column(3)
    assert found.column(4).to_pylist() == [0.0] * 1000
    again = ipc.open_stream(stream_of(found)).read_all()
    assert again.equals(found)


@pytest.mark.parametrize("stream", [True, False])
def test_integers_of_polars_that_arrow_lacks(stream: bool) -> None:
    if not hasattr(pl, "Int128"):
        pytest.skip("this polars has no Int128")
    big = pl.Series("big", [1, 2**100], dtype=pl.Int128)
    frame = pl.DataFrame({"a": [1, 2]}).with_columns(big, pl.struct(big, pl.lit("t").alias("s")).alias("st"))
    sink = io.BytesIO()
    (frame.write_ipc_stream if stream else frame.write_ipc)(sink, compression="uncompressed")
    data = sink.getvalue()
    for columns in (None, ["big"], ["a", "st"], ["st.big"]):
        with pytest.raises(UnsupportedError, match=r"'(st\.)?big' .*polars.*columns="):
            ipc.open(data, columns=columns)
    with pytest.raises(UnsupportedError, match="polars"):
        ipc.read_schema(data)
    assert ipc.open(data, columns=["st.s", "a"]).read_all().to_pydict() == {"st": [{"s": "t"}] * 2, "a": [1, 2]}
    with pytest.raises(UnsupportedError, match="polars"):
        ipc.open(data)  # nothing of what was read before is kept


# -- pipes ---------------------------------------------------------------------------------------------------


def feed(sink: Any, data: bytes) -> None:
    """Write in a thread, and close."""

    def write() -> None:
        with sink:
            (sink.sendall if hasattr(sink, "sendall") else sink.write)(data)

    threading.Thread(target=write, daemon=True).start()


def through_a_pipe(data: bytes, buffering: int = 0) -> Any:
    reading, writing = os.pipe()
    feed(os.fdopen(writing, "wb"), data)
    return os.fdopen(reading, "rb", buffering)


def test_a_pipe_may_hold_more_than_memory_is_to_hold() -> None:
    batch = pa.record_batch({"x": np.arange(300_000)})
    for opener in (ipc.open, ipc.open_file):
        with through_a_pipe(file_of(batch)) as pipe, opener(pipe, limits=ipc.Limits(spool_bytes=1000)) as reader:
            assert reader[0].equals(batch)


def test_pipes_are_read_by_their_path(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for data in (stream_of(BATCH), file_of(BATCH)):
        feeding = threading.Thread(target=fifo.write_bytes, args=(data,))
        feeding.start()
        with ipc.open(fifo) as reader:
            assert reader.read_all().num_rows == 3
        feeding.join()


def test_what_is_no_file_is_not_spooled() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    for opener in (ipc.open_file, ipc.open):
        with pytest.raises(ipc.FormatError):
            opener(Endless())


def test_a_url_of_this_machine_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    path = tmp_path / "a name.arrow"
    with ipc.new_file(path.as_uri()) as writer:
        writer.write(BATCH)
    assert path.exists()
    for url in (path.as_uri(), f"file://{path}", f"file://localhost{path}", f"FILE://LocalHost{path}"):
        assert ipc.open(url).read_all().num_rows == 3
    for name in ("a::b.arrow", "a?b#c.arrow", "\udcff.arrow"):
        path = path.rename(tmp_path / name)
        for url in (path.as_uri(), f"file://{path}"):
            assert ipc.open(url).read_all().num_rows == ipc.open_dataset(url).count_rows() == 3


@pytest.mark.parametrize(
    "call",
    [
        ipc.open,
        ipc.open_file,
        ipc.open_stream,
        ipc.open_dataset,
        ipc.RemoteSource,
        ipc.new_file,
        lambda url: ipc.recover(BATCH.schema.serialize(), into=url),
    ],
)
def test_a_file_of_another_host_is_refused(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host").mkdir()
    for path in ("host/x.arrow", "x.arrow", "localhostile/x.arrow"):
        with pytest.raises(UsageError, match=f"file://{path}: expected file:///path, .* found one of the host"):
            call(f"file://{path}")
    assert [path.name for path in tmp_path.rglob("*")] == ["host"]


def test_a_remote_source_means_the_path_that_its_url_means(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with ipc.new_file(path := tmp_path / "100%25 a.arrow") as writer:
        writer.write(BATCH)
    source = ipc.RemoteSource(path.as_uri())
    assert (source.local_path, source.size) == (str(path), path.stat().st_size)


# -- sockets, archives, what is unpacked ---------------------------------------------------------------------


def through_a_socket(data: bytes) -> socket.socket:
    left, right = socket.socketpair()
    feed(left, data)
    return right


def secured(end: socket.socket, side: int) -> ssl.SSLSocket:
    """One end of a connection, which shakes hands when it is first used."""
    context = ssl.SSLContext(side)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES128-SHA:@SECLEVEL=0")  # needs no certificate
    return context.wrap_socket(end, server_side=side == ssl.PROTOCOL_TLS_SERVER, do_handshake_on_connect=False)


def through_tls(data: bytes) -> ssl.SSLSocket:
    left, right = socket.socketpair()
    feed(secured(left, ssl.PROTOCOL_TLS_SERVER), data)
    return secured(right, ssl.PROTOCOL_TLS_CLIENT)


def member_of_tar(data: bytes, mode: str) -> Any:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("first", "second"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.seek(0)
    source = drive.ShortReads(archive.getvalue()) if mode == "r|" else archive  # which cannot seek, or can
    opened = tarfile.open(fileobj=source, mode=mode)  # noqa: SIM115
    opened.next()
    return opened.extractfile(opened.next())  # type: ignore[arg-type]


def member_of_zip(data: bytes) -> Any:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a", data)
    return zipfile.ZipFile(archive).open("a")


FROM_ELSEWHERE = {
    "pipe": through_a_pipe,
    "buffered pipe": lambda data: through_a_pipe(data, -1),  # as standard input is
    "socket": through_a_socket,
    "socket with TLS": through_tls,
    "tar": lambda data: member_of_tar(data, "r"),
    "tar stream": lambda data: member_of_tar(data, "r|"),
    "zip": member_of_zip,
    "gzip": lambda data: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))),
}


@pytest.mark.parametrize("kind", FROM_ELSEWHERE)
def test_sockets_members_of_archives_and_what_is_unpacked_are_sources(kind: str) -> None:
    stream, file = stream_of(BATCH), file_of(BATCH)
    with ExitStack() as stack:

        def make(data: bytes) -> Any:
            return stack.enter_context(FROM_ELSEWHERE[kind](data))  # type: ignore[operator]

        for data in (stream, file):
            assert ipc.open(make(data)).read_all().equals(BATCH)
            assert ipc.open(make(data), index=True)[0].equals(BATCH)
            assert ipc.read_schema(make(data)).names == ["x", "y"]
            assert ipc.validate(make(data)).ok
            assert ipc.recover(make(data)).read_all().equals(BATCH)
        assert ipc.open_file(make(file)).read_all().equals(BATCH)
        assert ipc.open_stream(make(stream)).read_all().equals(BATCH)
        assert [message.kind for message in ipc.MessageReader(make(stream))] == ["Schema", "RecordBatch"]
        tensor = ipc.Tensor.from_numpy(np.arange(3)).serialize()
        assert ipc.read_tensor(make(tensor)).to_numpy().tolist() == [0, 1, 2]


def test_a_socket_stays_open_and_what_comes_behind_a_stream_stays_in_it() -> None:
    left, right = socket.socketpair()
    with left, right:
        for _ in range(2):  # a sink in one direction, a source in the other
            with ipc.new_stream(left) as writer:
                writer.write(BATCH)
            left.sendall(b"more")
            with ipc.open(right) as reader:
                assert reader.read_all().equals(BATCH)
            assert right.recv(4) == b"more"


def test_a_socket_without_data_says_so_and_reading_goes_on_later() -> None:
    stream = stream_of(BATCH)
    left, right = socket.socketpair()
    with left, right:
        reader = ipc.open_stream(right, use_threads=False) if left.send(stream[:-24]) else None
        assert reader is not None
        for timeout, error, words in (
            (0, BlockingIOError, "StreamDecoder"),
            (0.001, TimeoutError, "nothing .* 0.001 s"),
        ):
            right.settimeout(timeout)
            with pytest.raises(error, match=words):
                reader.read_next_batch()
        left.send(stream[-24:])
        right.settimeout(None)
        assert reader.read_next_batch().equals(BATCH)
    with pytest.raises(UsageError, match="the socket is closed"):
        ipc.open(right)


def test_what_is_mapped_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(file_of(BATCH))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        batch = ipc.open(mapped)[0]
        with pytest.raises(BufferError):
            mapped.close()  # some Pythons have maps that do not say that they can seek: these were copied
        assert batch.equals(BATCH)
        del batch
    with pytest.raises(UsageError, match="closed"):
        ipc.open(mapped)


def test_what_a_library_lacks_is_named_with_a_way_out() -> None:
    pytest.importorskip("polars")
    union = types.dense_union([types.field("i", types.int64()), types.field("s", types.string())])
    schema = ipc.Schema([types.field("x", types.int64()), types.field("u", union)])
    batch = ipc.RecordBatch.from_pydict({"x": [5], "u": [7]}, schema)
    for data in (batch, ipc.Table.from_batches([batch]), batch["u"]):
        with pytest.raises(UnsupportedError, match=r"'u' .*union.*columns="):
            data.to_polars()
    assert len(batch.select(["x"]).to_polars()) == 1


def test_messages_of_other_kinds_differ() -> None:
    schema, rows = ipc.MessageReader.open_stream(stream_of(BATCH))
    assert rows.type == "record batch"
    assert not rows.equals(schema)
    assert not rows.equals(5)
