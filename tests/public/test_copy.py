"""`arrowipc.copy`: bodies pass untouched where reader and writer agree, else they are written anew."""

import io
import struct
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, forge
from helpers.arrays import ipc_bytes, mixed_batch, pyarrow_bytes
from public.test_writer import refused

import arrowipc as ipc
from arrowipc import FormatError, UsageError
from arrowipc._core import live_objects

ROWS = 600


def source(batches: int = 3, **options: Any) -> bytes:
    """A stream of batches with metadata."""
    with ipc.new_stream(sink := bytearray(), **options) as writer:
        for k in range(batches):
            writer.write_batch(mixed_batch(k * ROWS, ROWS), {"number": str(k)})
    return bytes(sink)


def transfer(data: bytes, *, file: bool = False, reading: Any = None, **options: Any) -> tuple[int, bytes]:
    """Copy a stream to another one, or to a file; returns the count and the bytes."""
    opener = ipc.new_file if file else ipc.new_stream
    with ipc.open_stream(data, **(reading or {})) as reader, opener(sink := bytearray(), **options) as writer:
        count = ipc.copy(reader, writer)
    return count, bytes(sink)


def bodies(data: bytes) -> list[bytes]:
    return [bytes(m.body) for m in ipc.MessageReader(data) if m.kind == "RecordBatch"]


def rows(data: bytes) -> dict[str, list[Any]]:
    return ipc.open(data, validate="strict").read_all().to_pydict()


def notes(data: bytes) -> list[Any]:
    return [batch.custom_metadata.pairs for batch in ipc.open(data)]


@pytest.mark.parametrize("level", ["none", "full", "strict"])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("framing", [{}, {"legacy": True}, {"alignment": 64}])
def test_bodies_pass_untouched_where_both_agree(codec, framing, level):
    data = source(compression=codec, **framing)
    reading, expected = {"validate": level}, rows(data)
    for target in ({}, {"legacy": True}):
        options = {"compression": codec, "alignment": framing.get("alignment", 8), **target}
        for file, theirs in ((False, pa.ipc.open_stream), (True, pa.ipc.open_file)):
            count, copied = transfer(data, file=file, reading=reading, **options)
            assert count == 3
            assert bodies(copied[8:] if file else copied) == bodies(data)
            assert rows(copied) == expected
            assert notes(copied) == [((b"number", b"%d" % k),) for k in range(3)]
            theirs(copied).read_all().validate(full=True)


def test_a_buffer_that_lies_at_8_is_moved_for_readers_that_want_64():
    data = source()
    count, copied = transfer(data, alignment=64)
    assert count == 0
    assert copied == source(alignment=64)
    assert transfer(copied, alignment=8)[0] == 3


@pytest.mark.parametrize(
    ("written", "read", "options"),
    [
        ({}, {}, {"compression": "lz4"}),
        ({"compression": "lz4"}, {}, {}),
        ({"compression": "lz4"}, {}, {"compression": "zstd"}),
        ({"compression": "zstd"}, {}, {"compression": "zstd", "compression_level": 9}),
        ({"compression": "zstd"}, {}, {"compression": "zstd", "min_space_savings": 0.5}),
        ({"compression": "zstd"}, {}, {"compression": {"x": "zstd"}}),
        ({}, {}, {"metadata_version": "V4"}),
        ({"metadata_version": "V4"}, {}, {}),
        ({}, {"columns": ["t", "d"]}, {}),
        ({}, {"columns": [*"bdlvtx"]}, {}),
        ({}, {}, {"coalesce_rows": 5000}),
        ({}, {}, {"unify_dictionaries": True}),
    ],
)
def test_what_does_not_agree_is_decoded_and_written_anew(written, read, options):
    for level in ("none", "full"):
        data = source(**written)
        reading = {"validate": level, **read}
        count, copied = transfer(data, reading=reading, **options)
        assert count == 0
        names = read.get("columns") or [*"xtvldb"]
        expected = {name: rows(data)[name] for name in names}
        assert rows(copied) == expected
        assert notes(copied) == notes(data)
        theirs = pa.ipc.open_stream(copied)
        if options.get("metadata_version") != "V4":  # which pyarrow refuses with custom metadata
            theirs.read_all().validate(full=True)


def test_small_batches_are_joined_and_large_ones_pass():
    sink = bytearray()
    sizes = [1, 2, 500, 3, 1, 600, 2]
    batches = list(ipc.open_stream(source(1)))
    with ipc.new_stream(sink) as writer:
        for size in sizes:
            writer.write_batch(batches[0].slice(0, size), {})
    count, copied = transfer(bytes(sink), coalesce_rows=100)
    assert count == 2
    assert [batch.num_rows for batch in ipc.open_stream(copied)] == [3, 500, 4, 600, 2]
    assert rows(copied) == rows(bytes(sink))


def test_several_readers_may_be_copied_into_one_writer():
    with ipc.new_file(sink := bytearray(), metadata={"k": "v"}) as writer:
        assert sum(ipc.copy(ipc.open_stream(source()), writer) for _ in range(3)) == 9
    assert ipc.open_file(sink).num_record_batches == 9
    # The schema came with the first reader, and the metadata stands in the first message all the same.
    assert ipc.MessageReader(bytes(sink)[8:]).read_next_message().custom_metadata.pairs == ((b"k", b"v"),)


def test_another_schema_is_refused_before_anything_is_written():
    sink = bytearray()
    other = arrays.read_batch(pa.record_batch({"x": [1]}))
    with ipc.new_stream(sink, other.schema) as writer:
        with refused(sink, UsageError, r"the batch has 6 columns.*unknown: \['t', 'v', 'l', 'd', 'b'\]"):
            ipc.copy(ipc.open_stream(source()), writer)
        # Also where there is no batch that could tell.
        with refused(sink, UsageError, r"missing: \['x'\]"):
            ipc.copy(ipc.open_stream(forge.stream(forge.schema())), writer)
        writer.write(other)
    assert rows(bytes(sink)) == {"x": [1]}


def test_nulls_do_not_pass_into_columns_that_have_none():
    """The writer's schema promises what the reader's does not."""
    theirs = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    strict = ipc.open_stream(pyarrow_bytes([], schema=theirs)).schema
    good, bad = (pyarrow_bytes([pa.record_batch({"x": values})]) for values in ([1, 2], [1, None]))
    with ipc.new_stream(bytearray(), strict) as writer:
        assert ipc.copy(ipc.open_stream(good), writer) == 0
        with pytest.raises(UsageError, match="column 'x' has 1 null"):
            ipc.copy(ipc.open_stream(bad), writer)


def broken() -> bytes:
    """A stream of one batch whose text offsets lead outside."""
    schema = forge.schema(forge.field("t", forge.UTF8))
    batch = forge.batch(2, [(2, 0)], [b"", forge.i32(0, 1, 1000), b"ab"])
    return forge.stream(schema, batch)


@pytest.mark.parametrize("level", ["full", "strict"])
def test_a_reader_that_validates_passes_no_broken_body(level):
    schema = ipc.open_stream(broken()).schema
    with ipc.new_stream(sink := bytearray(), schema) as writer, refused(sink, FormatError, "column 't'"):
        ipc.copy(ipc.open_stream(broken(), validate=level), writer)


def test_a_reader_that_does_not_validate_passes_bodies_as_they_are():
    count, copied = transfer(broken(), reading={"validate": "none"})
    assert count == 1
    assert bodies(copied) == bodies(broken())
    with pytest.raises(FormatError):
        ipc.open_stream(copied).read_all()
    # Decoding has to follow the offsets, and says that it cannot.
    schema = ipc.open_stream(broken()).schema
    with ipc.new_stream(sink := bytearray(), schema, compression="lz4") as writer, refused(sink, FormatError):
        ipc.copy(ipc.open_stream(broken(), validate="none"), writer)


@pytest.mark.parametrize("level", ["none", "full"])
def test_big_endian_bodies_are_swapped_and_never_passed(level):
    schema = forge.schema(forge.field("x", forge.int_(64)), endianness=1)
    data = forge.stream(schema, forge.batch(2, [(2, 0)], [b"", struct.pack(">2q", 7, 8)]))
    count, copied = transfer(data, reading={"validate": level})
    assert count == 0
    assert rows(copied) == {"x": [7, 8]}
    assert pa.ipc.open_stream(copied).read_all().to_pydict() == {"x": [7, 8]}
    with pytest.raises(UsageError, match="big-endian"):
        transfer(data, reading={"validate": level, "ensure_native_endian": False})


def test_buffers_that_are_not_aligned_are_moved():
    schema = forge.schema(forge.field("x", forge.int_(32)))
    batch = forge.batch(2, [(2, 0)], [(0, 0), (4, 8)])
    data = forge.stream(schema, forge.message(batch, body=forge.i32(9, 7, 8, 9)))
    count, copied = transfer(data, reading={"validate": "none"})
    assert count == 0
    assert rows(copied) == {"x": [7, 8]}


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_body_of_the_batch_before_is_let_go_of_while_the_next_one_is_read(kind: str) -> None:
    class Watched(io.BytesIO):
        def readinto(self, target: Any) -> int:
            if len(target) > 40_000:
                live.append(live_objects()["memory"])
            return super().readinto(target)

    live: list[int] = []
    written = ipc_bytes([{"x": range(6_000)}] * 6, kind)
    new, opened = (ipc.new_stream, ipc.open_stream) if kind == "stream" else (ipc.new_file, ipc.open_file)
    with opened(Watched(written)) as reader, new(bytearray(), reader.schema, compression="lz4") as writer:
        assert ipc.copy(reader, writer) == 0
    assert len(live) == 6
    assert max(live) <= live[0] + 1  # what the writer compresses into
