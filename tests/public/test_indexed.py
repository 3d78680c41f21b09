"""Streams with an index: every batch as reading in order gives it."""

import io
import os
import re
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import ipc_bytes
from helpers.support import growing, nested, replaced

import arrowipc as ipc
from arrowipc import UsageError


def stream_of(batches: int, rows: int = 3, **options: Any) -> bytes:
    """Batches whose column x counts on."""
    return ipc_bytes([{"x": range(i * rows, (i + 1) * rows)} for i in range(batches)], **options)


def in_order(data: bytes) -> list[Any]:
    return [batch.to_pydict() for batch in ipc.open_stream(data)]


def test_an_index_out_of_a_dictionary_as_it_stood_is_refused_though_it_grows_later():
    root = forge.schema(forge.field("x", forge.UTF8, dictionary=forge.encoding()))
    words = [forge.batch(1, [(1, 0)], [b"", forge.i32(0, 1), letter]) for letter in (b"a", b"b")]
    rows = forge.batch(1, [(1, 0)], [b"", forge.i32(1)])
    data = forge.stream(root, forge.dictionary(0, words[0]), rows, forge.dictionary(0, words[1], isDelta=True), rows)
    reader = ipc.open(data, index=True)
    assert reader[1].to_pydict() == {"x": ["b"]}
    with pytest.raises(ipc.FormatError, match=r"record batch 0 .* of the stream.*column 'x'"):
        reader.get_batch(0)


def test_open_file_reads_a_stream_too(tmp_path):
    data = stream_of(5)
    (path := tmp_path / "x.arrows").write_bytes(data)
    with open(path, "rb") as file:
        for source in (data, path, str(path), io.BytesIO(data), file):
            with ipc.open_file(source) as reader:
                assert isinstance(reader, ipc.IndexedStreamReader)
                assert reader[-1].to_pydict() == {"x": [12, 13, 14]}
    assert type(ipc.open(ipc_bytes({"x": [1]}, "file"), index=True)) is ipc.RecordBatchFileReader


@pytest.mark.parametrize(
    "make", [replaced, growing, lambda: growing(dictionary_deltas=True), nested, lambda: (stream_of(5), None)]
)
@pytest.mark.parametrize("kind", [bytes, bytearray, io.BytesIO, "mapped", "read", "remote"])
def test_a_reader_of_a_stream_gives_any_batch_while_it_goes_on_in_order(make, kind, tmp_path):
    data = make()[0]
    expected = in_order(data)
    if kind == "remote":
        fsspec = pytest.importorskip("fsspec")
        fsspec.filesystem("memory").pipe("/x.arrows", data)
        source = "memory://x.arrows"
    elif isinstance(kind, str):
        (source := tmp_path / "x.arrows").write_bytes(data)
    else:
        source = kind(data)
    with ipc.open(source, memory_map=kind != "read", columns=["x"]) as reader:
        assert reader.read_next_batch().to_pydict() == expected[0]
        assert reader[-1].to_pydict() == expected[-1]
        assert reader.num_record_batches == len(expected)
        assert reader.count_rows() == sum(len(each["x"]) for each in expected)
        for i, batch in enumerate(reader, 1):
            assert batch.to_pydict() == expected[i]
            assert [reader.get_batch(k).to_pydict() for k in (i, 0, -i)] == [expected[k] for k in (i, 0, -i)]
        assert reader[0].to_pydict() == expected[0]
        with pytest.raises(IndexError, match="out of range"):
            reader[len(expected)]
    with pytest.raises(UsageError, match="closed"):
        reader.count_rows()


def test_a_stream_gives_any_batch_as_its_options_say():
    data = bytearray(ipc_bytes(pa.record_batch({"x": [1, 2], "y": ["a", "b"]}), "stream"))
    data[data.index(b"ab")] = 0xFF
    assert ipc.open_stream(bytes(data), columns=["x"])[0].to_pydict() == {"x": [1, 2]}
    assert ipc.open_stream(bytes(data), validate="none")[0].num_rows == 2
    for kind in (bytes, io.BytesIO):
        with pytest.raises(ipc.FormatError, match="UTF-8"):
            ipc.open_stream(kind(data))[0]
        with pytest.raises(ipc.LimitError, match="rows_per_batch"):
            ipc.open_stream(kind(data), limits=ipc.Limits(rows_per_batch=1)).count_rows()


def test_a_stream_that_can_be_read_only_once_says_so():
    data = stream_of(3)
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    with open(reading, "rb") as pipe, ipc.open(pipe) as reader:
        with pytest.raises(UsageError, match=r"cannot seek: .*index=True"):
            reader[0]
        assert len(list(reader)) == 3
    file = io.BytesIO(b"before" + data)
    file.seek(6)
    reader = ipc.open_stream(file)
    with pytest.raises(UsageError, match="begins at byte 6 of the file object"):
        reader.count_rows()
    assert reader.read_all().num_rows == 9


def test_messages_of_every_length_are_found_from_a_file_object(tmp_path):
    """Short ones are read through, long ones stepped over."""
    sizes = [1, 1 << 20, 3, 70_000, 65_000, 0, 1 << 19, *range(200)]
    (path := tmp_path / "x.arrows").write_bytes(ipc_bytes([{"x": [bytes(size)]} for size in sizes]))
    with ipc.open(path, index=True, memory_map=False) as reader, ipc.open(path, index=True) as mapped:
        assert reader.blocks == mapped.blocks
        assert reader.count_rows() == 207
        assert len(reader[1]["x"].to_pylist()[0]) == 1 << 20


def test_a_stream_cut_anywhere_is_read_as_far_as_reading_in_order_or_refused():
    data = stream_of(3)
    whole = [*accumulate(map(len, forge.split(data)))]
    for end in range(len(data)):
        if end in whole:
            assert [b.to_pydict() for b in ipc.open(data[:end], index=True)] == in_order(data[:end])
            continue
        for source in (data[:end], io.BytesIO(data[:end])):
            with pytest.raises(ipc.FormatError):
                ipc.open(source, index=True)


def test_what_is_missing_of_a_message_is_said_as_reading_in_order_says_it():
    data = stream_of(2, 100_000)
    second = data.index(b"\xff\xff\xff\xff", 500_000)
    with pytest.raises(ipc.TruncatedError) as cut:
        in_order(data[: second + 700_000])
    needed = str(cut.value).partition(": it needs ")[2]
    with pytest.raises(ipc.TruncatedError, match=rf"message 3 \(byte {second:,} .*: it needs {re.escape(needed)}"):
        ipc.open(io.BytesIO(data[: second + 700_000]), index=True)


def test_a_stream_that_was_cut_after_indexing_is_an_error_that_says_so(tmp_path):
    (path := tmp_path / "x.arrows").write_bytes(stream_of(100, 1000))
    with ipc.open(path, index=True, memory_map=False) as reader:
        os.truncate(path, 200_000)
        assert reader[0].num_rows == 1000
        with pytest.raises(ipc.TruncatedError):
            reader.get_batch(50)
