"""recover(into=): what is left becomes a complete new file, with its bodies as they were, or nothing does."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import ipc_bytes
from helpers.forge import batch, dictionary, encoding, field, i8, i32, message, schema
from inspection.numbered import numbered

import arrowipc as ipc
from arrowipc import recover
from arrowipc.read.framing import survey

recovering = sys.modules["arrowipc.inspection.recover"]


PARTS = [numbered(number, 1000) for number in range(5)]


def torn(kind: str, **options: Any) -> bytes:
    """Without its end and without most of the last batch, and with the second one smashed."""
    data = bytearray(ipc_bytes(PARTS, kind, **options))
    shift = 0 if kind == "file" else 8
    blocks = ipc.open_file(ipc_bytes(PARTS, "file", **options)).blocks
    start = blocks[1][0] - shift
    data[start + 8 : start + 40] = b"\xaa" * 32
    return bytes(data[: blocks[4][0] - shift + 50])


def numbers(source: Any) -> list[int]:
    with ipc.open(source, validate="strict") as reader:
        return [each["id"][0] // 1000 for each in reader]


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("way", [str, Path.as_uri, lambda path: path.with_name("link")], ids=["path", "url", "link"])
def test_a_source_that_somebody_replaced_meanwhile_is_not_overwritten(tmp_path, monkeypatch, resync, way):
    (path := tmp_path / "x.arrow").write_bytes(torn("file"))
    path.with_name("link").symlink_to(path)

    def replaced(message: Any) -> Any:
        path.with_name("other").write_bytes(ipc_bytes(PARTS, "file"))
        path.with_name("other").replace(path)
        return survey(message)

    monkeypatch.setattr(recovering, "survey", replaced)  # called between reading and writing
    with pytest.raises(OSError, match="the complete new file is kept as") as error:
        recover(path, into=way(path), resync=resync, durable=False)
    assert error.value.errno == errno.ESTALE
    assert path.read_bytes() == ipc_bytes(PARTS, "file")
    (kept,) = tmp_path.glob(".x.arrow.*.kept")
    assert numbers(kept) == ([0, 2, 3] if resync else [0])


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("format", [None, "file", "stream"])
def test_everything_that_is_left_becomes_a_complete_file(
    tmp_path: Path, kind: str, format: Any, compression: Any
) -> None:
    data, path = torn(kind, compression=compression), tmp_path / "x"
    for resync, expected in ((False, [0]), (True, [0, 2, 3])):
        report = recover(data, into=path, resync=resync, format=format, durable=False)
        found = path.read_bytes()
        assert (found[:6] == b"ARROW1") == ((format or kind) == "file")
        assert numbers(found) == expected
        assert ipc.validate(found, level="strict").ok
        assert (report.num_batches, report.num_rows) == (len(expected), 1000 * len(expected))
        assert not report.complete
        # The bodies are those of the source, codec and all.
        source = forge.split(ipc_bytes(PARTS, "stream", compression=compression))[1]
        reread = forge.split(found if found[:6] != b"ARROW1" else found[8:])[1]
        assert source[-200:] == reread[-200:]
    assert os.listdir(tmp_path) == ["x"]


def test_another_codec_and_fewer_columns() -> None:
    small, large = bytearray(), bytearray()
    recover(torn("stream"), into=small, resync=True, compression="zstd")
    recover(torn("stream", compression="lz4"), into=large, resync=True, compression=None, columns=["word"])
    assert numbers(small) == [0, 2, 3]
    assert len(small) < len(torn("stream"))
    assert ipc.open(large).schema.names == ["word"]
    assert len(large) > 3 * 1000 * 6


def test_metadata_of_file_schema_and_batches_stays() -> None:
    shape = ipc.Schema(PARTS[0].schema.fields, {"s": "1"})
    sink = ipc_bytes(PARTS, "file", shape, metadata={"made by": "hand"})
    for data in (sink, sink[:-20]):
        for resync in (False, True):
            target = bytearray()
            recover(data, into=target, resync=resync)
            with ipc.open_file(target) as reader:
                assert reader.metadata.pairs == ((b"made by", b"hand"),)
                assert reader.schema.equals(ipc.open_file(sink).schema, check_metadata=True)


def test_a_file_may_be_recovered_into_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    for resync, memory_map in ((True, True), (True, False), (False, True), (False, False)):
        path.write_bytes(torn("file"))
        report = recover(path, into=path, resync=resync, memory_map=memory_map)
        assert numbers(path) == ([0, 2, 3] if resync else [0])
        assert report.lost_bytes
        assert recover(path, into=path).complete
        assert os.listdir(tmp_path) == ["x.arrow"]


def test_what_is_being_read_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(torn("file"))
    memory = bytearray(torn("file"))
    buffer = io.BytesIO(memory)
    with path.open("r+b") as file, path.open("r+b") as other:
        for source, into in (
            (memory, memory),
            (memory, memoryview(memory)),
            (memoryview(memory), memory),
            (buffer, buffer),
            (file, file),
            (path, other),
            (file, other),
        ):
            with pytest.raises(ipc.UsageError, match="the source itself"):
                recover(source, into=into)
    assert path.read_bytes() == memory == torn("file")


def test_nothing_appears_when_there_is_nothing_or_something_fails(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for resync in (False, True):
        with pytest.raises(ipc.FormatError):
            recover(b"hello, world: no Arrow at all", into=path, resync=resync)
        with pytest.raises(ipc.UsageError, match=r"codec|compression"):
            recover(STREAM, into=path, resync=resync, compression="snappy")
        with pytest.raises(ipc.UsageError, match="format"):
            recover(STREAM, into=path, resync=resync, format="parquet")
        with pytest.raises(OSError, match="no-such"):
            recover(tmp_path / "no-such", into=path, resync=resync)
        with pytest.raises(FileNotFoundError):
            recover(STREAM, into=tmp_path / "no" / "x", resync=resync)
        with pytest.raises(OSError, match="/dev/full"):
            recover(STREAM, into="/dev/full", resync=resync)
    assert os.listdir(tmp_path) == []
    # A schema and no batch is a file without batches.
    report = recover(ipc_bytes(PARTS, "stream")[: len(forge.split(STREAM)[0])], into=path)
    assert report.num_batches == 0
    assert numbers(path) == []


STREAM = ipc_bytes(PARTS, "stream")


@pytest.mark.parametrize("format", ["file", "stream"])
def test_dictionaries_that_were_replaced(format: str) -> None:
    """A stream may do that, a file may not."""
    words = [dictionary(0, batch(2, [(2, 0)], [b"", i32(0, 1, 2), text])) for text in (b"ab", b"cd")]
    rows = batch(3, [(3, 0)], [b"", i8(0, 1, 1)])
    root = schema(field("w", forge.UTF8, dictionary=encoding(0, forge.INT8)))
    data = b"".join([*map(message, (root, words[0], rows, words[1], rows))]) + b"torn"
    for resync in (False, True):
        sink = bytearray()
        report = recover(data, into=sink, format=format, resync=resync)
        assert report.num_batches == 2
        assert ipc.open(sink).read_all().to_pydict() == {"w": list("abbcdd")}
        assert ipc.validate(sink).ok


def test_dictionaries_that_grew() -> None:
    sink = bytearray()
    root = schema(field("w", forge.UTF8, dictionary=encoding(0, forge.INT8)))
    more = dictionary(0, batch(1, [(1, 0)], [b"", i32(0, 1), b"c"]), isDelta=True)
    first = dictionary(0, batch(2, [(2, 0)], [b"", i32(0, 1, 2), b"ab"]))
    rows = [batch(2, [(2, 0)], [b"", i8(0, i)]) for i in (1, 2)]
    whole = forge.file(root, first, rows[0], more, rows[1])
    for data in (whole, whole[:-5]):
        for resync in (False, True):
            sink.clear()
            recover(data, into=sink, resync=resync)
            assert ipc.open_file(sink).read_all().to_pydict() == {"w": list("abac")}
            assert pa.ipc.open_file(bytes(sink)).read_all()["w"].to_pylist() == list("abac")
