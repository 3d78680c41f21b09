"""What recover() keeps of damaged files and streams: exactly the batches that lie before the damage.

With ``into=`` it becomes a complete new file, with its bodies as they were, or nothing does.
"""

import errno
import io
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from decode.codec_ways import look_again
from helpers import drive, forge, golden, optional
from helpers.arrays import ipc_bytes, pyarrow_bytes
from helpers.forge import batch, dictionary, i8
from inspection.numbered import BLOCKS, CODED, FILE, PARTS, STREAM, damaged, numbered, smash

import arrowipc as ipc
from arrowipc import codecs, recover
from arrowipc.decode.framing import survey
from arrowipc.errors import MissingPackageError, missing_package
from arrowipc.inspection.message_layout import locate_messages

zstandard = optional("zstandard")
recovering = sys.modules["arrowipc.inspection.recover"]

#: Where batch i ends in the file.
ENDS = [offset + head + body for offset, head, body in BLOCKS]
SHIFT = {"file": 0, "stream": 8}
ONE = forge.schema(forge.field("x", forge.INT64))
SEVENS = [forge.batch(2, [(2, 0)], [b"", forge.i64(i, 7)]) for i in range(3)]
#: Of some files the beginning is of another kind: the Schema message without framing, as polars 2 writes it, and behind
#: zeros, as arrow-rs does.
WHOLE = {
    "file": FILE,
    "stream": STREAM,
    "bare": forge.file(ONE, *SEVENS, first=forge.message(ONE)[8:]),
    "zeros": forge.file(ONE, *SEVENS, magic=b"ARROW1".ljust(64, b"\0")),
    "legacy": forge.file(ONE, *SEVENS, prefix="legacy"),
    "polars": (golden.WRITERS / "polars-2.1.0-chunks.arrow").read_bytes(),
}
SOURCES = {"bytes": bytes, "object": io.BytesIO, "pipe": drive.ShortReads}


# Truncations.


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", WHOLE)
def test_every_truncation_gives_the_batches_before_the_cut(name: str, source: str, resync: bool) -> None:
    data, make = WHOLE[name], SOURCES[source]
    batches, kind = list(ipc.open(data)), "stream" if name == "stream" else "file"
    first, *stops = [each.offset + each.metadata_length + each.body_length for each in locate_messages(data)]
    large = name == "polars"
    start, step = first if large else 0, 13 if resync or large or source != "bytes" else 1
    for cut in sorted({*range(start, len(data), step), first, *stops, len(data) - 1, len(data)}):
        if cut < first:
            with pytest.raises(ipc.FormatError):
                recover(make(data[:cut]), resync=resync)
            continue
        with recover(make(data[:cut]), resync=resync) as reader:
            assert reader.schema.equals(batches[0].schema)
            found, report = list(reader), reader.report
        kept = [stop for stop in stops if stop <= cut]
        assert found == batches[: len(kept)], cut
        assert report.format == kind
        assert (report.num_batches, report.num_rows) == (len(kept), sum(batch.num_rows for batch in found))
        assert report.complete == (cut == len(data) or (kind == "stream" and cut in (first, *stops))), cut
        if report.complete:
            assert report[4:9] == (0, 0, 0, None, None)
            assert "nothing is lost" in str(report)
        elif not resync:
            assert isinstance(report.error, ipc.FormatError)
            assert max([first, *kept]) <= report.offset <= cut
            assert report.num_bytes >= max([first, *kept])
            if source != "pipe":
                assert report.lost_bytes == cut - report.num_bytes


@pytest.mark.parametrize("cut", [BLOCKS[0][0], ENDS[1], ENDS[1] + 4, ENDS[1] + 100])
def test_zeros_instead_of_the_rest_are_damage(cut: int) -> None:
    """A file system that lost the data of a crash, but not the size of the file."""
    torn = FILE[:cut] + bytes(len(FILE) - cut)
    for data in (torn, torn[8:]):
        reader = recover(data)
        assert list(reader) == PARTS[: sum(end <= cut for end in ENDS)]
        assert reader.report.error is not None
        assert reader.report.lost_batches is None


# Damage inside.


@pytest.mark.parametrize("number", range(4))
def test_a_whole_footer_leads_past_the_damage(number: int) -> None:
    reader = recover(damaged(FILE, number))
    assert list(reader) == PARTS[:number] + PARTS[number + 1 :]
    report = reader.report
    assert (report.num_batches, report.lost_batches, report.offset) == (3, 1, BLOCKS[number][0])
    assert report.lost_bytes == sum(BLOCKS[number][1:])
    assert f"record batch {number}" in str(report.error)
    stream = recover(damaged(FILE, number)[8:])
    assert list(stream) == PARTS[:number]
    assert stream.report.offset == BLOCKS[number][0] - 8


def test_a_lost_delta_never_shifts_the_later_ones() -> None:
    values = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    batches = [pa.record_batch({"word": pa.array(words).dictionary_encode()}) for words in values]
    data = pyarrow_bytes(batches, "file", emit_dictionary_deltas=True)
    assert [batch["word"].to_pylist() for batch in recover(data)] == values
    decoder = ipc.open_file(data).decoder
    offset, head, _ = decoder.block(1, dictionary=True)
    reader = recover(smash(data, offset + 8, offset + head, b"\xff"))
    assert [batch["word"].to_pylist() for batch in reader] == values[:1]
    assert (reader.report.lost_batches, reader.report.offset) == (2, offset)


def test_bytes_behind_the_end_of_a_stream_are_told() -> None:
    reader = recover(STREAM + STREAM)
    assert list(reader) == PARTS
    assert (reader.report.lost_bytes, reader.report.offset) == (len(STREAM), len(STREAM))
    assert "end-of-stream" in str(reader.report.error)


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("name", ["polars-2.1.0-lz4", "polars-2.1.0-zstd"])
def test_dictionaries_behind_the_batches_are_found(name: str, resync: bool, tmp_path: Path) -> None:
    """polars writes them last; a file that lost only its footer has lost nothing."""
    data = (golden.WRITERS / f"{name}.arrow").read_bytes()
    with ipc.open_file(data) as reader:
        rows = [batch.to_pylist() for batch in reader]
        offset, head, body = reader.decoder.block(0, dictionary=True)
    for cut in (offset + head + body, len(data) - 1):
        with recover(data[:cut], resync=resync) as reader:
            assert [batch.to_pylist() for batch in reader] == rows
    assert recover(data + b"more", into=tmp_path / "x.arrow", resync=resync).num_rows == 3
    assert [batch.to_pylist() for batch in ipc.open_file(tmp_path / "x.arrow")] == rows
    with recover(data[: offset + head], resync=resync, columns=["n", "e"]) as reader:
        assert [batch.to_pylist() for batch in reader] == [[{"n": row["n"], "e": row["e"]} for row in rows[0]]]


def test_without_schema_and_footer_nothing_can_be_recovered() -> None:
    data = (golden.WRITERS / "javascript-21.2.0.arrow").read_bytes()
    assert len(list(recover(data))) == 1
    for resync in (False, True):
        with pytest.raises(ipc.FormatError, match=r"(?i)schema"):
            recover(data[:-9], resync=resync)


def compressed(*frames: bytes, **options: Any) -> bytes:
    """Three rows of int64 and text, whose buffers are these."""
    root = forge.schema(forge.field("x", forge.INT64), forge.field("s", forge.UTF8))
    return forge.stream(root, forge.batch(3, [(3, 0)] * 2, [b"", frames[0], b"", *frames[1:]], codec=1), **options)


def without_length(content: bytes, **options: Any) -> bytes:
    return bytes(8) + zstandard.ZstdCompressor(**options).compress(content)


NUMBERS, OFFSETS, LETTERS = forge.i64(1, 2, 3), forge.i32(0, 1, 2, 3), b"abc"
ZEROS = compressed(without_length(NUMBERS), without_length(OFFSETS), without_length(LETTERS))


@pytest.mark.parametrize("resync", [False, True])
def test_what_arrow_java_wrote_with_lengths_of_0_is_recovered(resync: bool, tmp_path: Path) -> None:
    rows = {"x": [1, 2, 3], "s": ["a", "b", "c"]}
    with recover(ZEROS, resync=resync) as reader:
        (batch,) = reader
        assert batch.to_pydict() == rows
    for kind in ("file", "stream"):
        into = tmp_path / f"{kind}.arrow"
        assert recover(ZEROS, into=into, resync=resync, format=kind).num_rows == 3
        assert ipc.open(into, validate="strict").read_all().to_pydict() == rows
        assert ipc.validate(into).ok
    with pytest.raises(ipc.FormatError, match=r"column 'x': buffer 1: .*Arrow Java.*recover"):
        ipc.open_stream(ZEROS).read_all()
    assert not ipc.validate(ZEROS).ok


LONG = [text * 20 for text in (b"a", b"b", b"c")]
VIEWS = forge.schema(
    forge.field("v", forge.UTF8_VIEW), forge.field("x", forge.INT32), forge.field("w", forge.UTF8_VIEW)
)


def views_of(counts: tuple[int, int], entries: list[int]) -> forge.Table:
    """A row of each of LONG in two columns of views, whose buffers are so many, with these variadicBufferCounts."""
    columns = []
    for count in counts:
        places = [(min(i, count - 1), 20 * max(i - count + 1, 0)) for i in range(3)]
        spelled = b"".join([forge.view(text, *place) for text, place in zip(LONG, places, strict=True)])
        columns.append([b"", spelled, *LONG[: count - 1], b"".join(LONG[count - 1 :])])
    return forge.batch(3, [(3, 0)] * 3, [*columns[0], b"", forge.i32(1, 2, 3), *columns[1]], variadic=entries)


#: Buffers of the two columns in each batch. The writer appends their numbers to those of the batches before.
BUFFERS = [(1, 2), (2, 1), (3, 1)]
MANY_COUNTS = [views_of(each, [n for pair in BUFFERS[: i + 1] for n in pair]) for i, each in enumerate(BUFFERS)]


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("make", [forge.stream, forge.file])
def test_counts_that_arrow_go_added_up_are_recovered_and_the_writer_is_named(make: Any, resync: bool) -> None:
    data = make(VIEWS, *MANY_COUNTS)
    right = make(VIEWS, *[views_of(each, [*each]) for each in BUFFERS])
    rows = ipc.open(right).read_all().to_pydict()
    assert rows["v"] == rows["w"] == [text.decode() for text in LONG] * 3
    for columns in (None, ["w"]):
        with recover(data, resync=resync, columns=columns) as reader:
            assert reader.read_all().to_pydict() == {name: rows[name] for name in columns or rows}
        assert (reader.report.lost_batches, reader.report.lost_rows, reader.report.lost_bytes) == (0, 0, 0)
        assert "arrow-go" in str(reader.report)
    for kind in ("file", "stream"):
        recover(data, resync=resync, format=kind, into=(saved := bytearray()))
        assert ipc.open(saved, validate="strict").read_all().to_pydict() == rows
        assert pa.table(ipc.open(saved).read_all()).to_pydict() == rows
    with recover(right, resync=resync) as reader:
        assert len(list(reader)) == 3
    assert reader.report.complete
    with pytest.raises(ipc.FormatError, match=r"number of entries is 4, expected 2.*arrow-go.*recover\(\)"):
        ipc.open(data).read_all()
    assert "arrow-go" in str(ipc.validate(data))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (without_length(forge.i64(1, 2)), "16"),
        (without_length(NUMBERS)[:-1], "cut short"),
        (without_length(NUMBERS, write_content_size=False), "if their frames state their size"),
        (bytes(8) + b"no frame of ZSTD", "not a ZSTD frame"),
        (without_length(bytes(1 << 28)), "claims 268,435,456 bytes"),
    ],
    ids=["fewer than the rows need", "cut short", "no size", "no frame", "a bomb"],
)
def test_what_the_frame_does_not_say_or_should_not_is_lost(frame: bytes, why: str) -> None:
    data = compressed(frame, without_length(OFFSETS), without_length(LETTERS))
    with recover(data) as reader:
        assert list(reader) == []
    assert why in str(reader.report)


MANY = [numbered(number, 1000) for number in range(5)]
MANY_STREAM = ipc_bytes(MANY, "stream")


def torn(kind: str, **options: Any) -> bytes:
    """Without its end and without most of the last batch, and with the second one smashed."""
    blocks = ipc.open_file(ipc_bytes(MANY, "file", **options)).blocks
    second, last = (blocks[number][0] - SHIFT[kind] for number in (1, 4))
    return smash(ipc_bytes(MANY, kind, **options), second + 8, second + 40)[: last + 50]


def numbers(source: Any) -> list[int]:
    with ipc.open(source, validate="strict") as reader:
        return [each["id"][0] // 1000 for each in reader]


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("way", [str, Path.as_uri, lambda path: path.with_name("link")], ids=["path", "url", "link"])
def test_a_source_that_somebody_replaced_meanwhile_is_not_overwritten(tmp_path, monkeypatch, resync, way):
    (path := tmp_path / "x.arrow").write_bytes(torn("file"))
    path.with_name("link").symlink_to(path)

    def replaced(message: Any) -> Any:
        path.with_name("other").write_bytes(ipc_bytes(MANY, "file"))
        path.with_name("other").replace(path)
        return survey(message)

    monkeypatch.setattr(recovering, "survey", replaced)  # called between reading and writing
    with pytest.raises(OSError, match="the complete new file is kept as") as error:
        recover(path, into=way(path), resync=resync, durable=False)
    assert error.value.errno == errno.ESTALE
    assert path.read_bytes() == ipc_bytes(MANY, "file")
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
        source = forge.split(ipc_bytes(MANY, "stream", compression=compression))[1]
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
    shape = ipc.Schema(MANY[0].schema.fields, {"s": "1"})
    sink = ipc_bytes(MANY, "file", shape, metadata={"made by": "hand"})
    for data in (sink, sink[:-20]):
        for resync in (False, True):
            recover(data, into=(target := bytearray()), resync=resync)
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
            recover(MANY_STREAM, into=path, resync=resync, compression="snappy")
        with pytest.raises(ipc.UsageError, match="format"):
            recover(MANY_STREAM, into=path, resync=resync, format="parquet")
        with pytest.raises(OSError, match="no-such"):
            recover(tmp_path / "no-such", into=path, resync=resync)
        with pytest.raises(FileNotFoundError):
            recover(MANY_STREAM, into=tmp_path / "no" / "x", resync=resync)
        with pytest.raises(OSError, match="/dev/full"):
            recover(MANY_STREAM, into="/dev/full", resync=resync)
    assert os.listdir(tmp_path) == []
    # A schema and no batch is a file without batches.
    report = recover(ipc_bytes(MANY, "stream")[: len(forge.split(MANY_STREAM)[0])], into=path)
    assert report.num_batches == 0
    assert numbers(path) == []


@pytest.mark.parametrize("format", ["file", "stream"])
def test_dictionaries_that_were_replaced_or_grew(format: str) -> None:
    """A stream may replace one, a file may not."""
    first, second, more = (dictionary(0, forge.texts(*text), isDelta=text == "c") for text in ("ab", "xy", "c"))
    rows = [batch(2, [(2, 0)], [b"", i8(0, i)]) for i in (1, 2)]
    grown = forge.file(CODED, first, rows[0], more, rows[1])
    for data, values in (
        (forge.stream(CODED, first, rows[0], second, rows[0], eos=b"torn"), "abxy"),
        (grown, "abac"),
        (grown[:-5], "abac"),
    ):
        for resync in (False, True):
            assert recover(data, into=(sink := bytearray()), format=format, resync=resync).num_batches == 2
            assert ipc.open(sink).read_all().to_pydict() == {"w": list(values)}
            assert pa.table(ipc.open(sink)).to_pydict() == {"w": list(values)}
            assert ipc.validate(sink).ok


# Behind the damage.


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_checksums_prove_what_is_behind_damage(kind: str, tmp_path: Path) -> None:
    """Also without a footer, and without ``resync``."""
    data = bytearray(ipc_bytes(PARTS, kind, checksum=True))
    offset, head, body = ipc.open_file(ipc_bytes(PARTS, "file", checksum=True)).blocks[1]
    data[offset - SHIFT[kind] + head + body // 2] ^= 1
    torn = bytes(data[:-150])
    read: list[int] = []
    report = recover(torn, into=tmp_path / "new.arrow", watch=read.append)
    assert report.num_batches == recover(torn, into=bytearray(), resync=True).num_batches == 3
    assert list(ipc.open(tmp_path / "new.arrow")) == [PARTS[0], *PARTS[2:]]
    assert read == sorted(read)
    assert len(read) == 3
    assert read[-1] > len(torn) // 2
    assert recover(torn, validate="none").report.more_at is None


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_report_says_where_resync_goes_on(kind: str) -> None:
    second, third, fourth, end = [end - SHIFT[kind] for end in ENDS]
    data = smash(WHOLE[kind][:end], second + 8, second + 16, b"\xff")
    with recover(data) as reader:
        assert list(reader) == PARTS[:1]
        report = reader.report
    assert report.more_at == third
    assert str(report).endswith(f"; a message begins at byte {report.more_at:,}: resync=True goes on there")
    found = recover(data, into=bytearray(), resync=True)
    assert (found.num_batches, found.more_at) == (3, None)
    assert recover(WHOLE[kind][: fourth + 20], into=bytearray()).more_at is None


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("resync", [False, True])
def test_a_codec_of_an_unknown_name_loses_a_batch_and_one_that_is_not_installed_none(
    kind: str, resync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, name = forge.message(SEVENS[0], version=forge.V4), [("ARROW:experimental_compression", "brotli")]
    unknown = forge.message(SEVENS[1], version=forge.V4, metadata=name)
    make = {"file": partial(forge.file, footer_version=forge.V4), "stream": forge.stream}[kind]
    data = make(ONE, one, unknown, one, version=forge.V4)
    with recover(data, resync=resync) as reader:
        kept = len(list(reader))
        assert kept == (2 if kind == "file" or resync else 1)
        assert "unknown ARROW:experimental_compression b'brotli'" in str(reader.report.error)
    assert recover(data[:-8], into=bytearray(), resync=resync).num_batches == (2 if resync else 1), "no footer, no end"
    words = forge.message(dictionary(0, SEVENS[0]), version=forge.V4, metadata=name)
    coded = forge.schema(forge.field("d", forge.INT64, dictionary=forge.encoding(0, forge.INT8)))
    with recover(make(coded, words, one, version=forge.V4), resync=resync) as reader:
        assert not list(reader)
        assert "unknown ARROW:experimental_compression b'brotli'" in str(reader.report.error)

    def functions(*_: Any) -> Any:
        raise missing_package("ZSTD", "zstandard")

    monkeypatch.setattr(codecs, "functions", functions)
    look_again(monkeypatch)
    packed = pyarrow_bytes(pa.table({"x": [1] * 5_000}).to_batches(2_500), kind, compression="zstd")
    for whole in (packed, packed[:-8]):
        with pytest.raises(MissingPackageError, match="pip install zstandard"):
            list(recover(whole, resync=resync))
        assert ipc.validate(whole).bad_batches == 2
