"""Format checklist 105-113: compressed bodies, their claims, and what bounds them."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive, optional
from helpers.drive import column, read_file, read_stream, refuse_stream
from helpers.forge import (
    INT8,
    INT32,
    INT64,
    UTF8,
    V4,
    Table,
    batch,
    bits,
    dictionary,
    encoding,
    field,
    file,
    i8,
    i32,
    i64,
    message,
    schema,
    stream,
)
from helpers.memory import forget_peak, peak

import arrowipc as ipc
from arrowipc import FormatError, LimitError

zstandard = optional("zstandard")

LZ4, ZSTD = 0, 1
CODECS = {"lz4": LZ4, "zstd": ZSTD}
WIDE = schema(field("x", INT64))
NUMBERS = list(range(100))
PLAIN = i64(*NUMBERS)


def squeeze(codec: int, data: bytes, **options) -> bytes:
    """One frame of the codec; LZ4 with options needs the lz4 package, for what pyarrow never writes."""
    if codec == ZSTD:
        return zstandard.ZstdCompressor(**options).compress(data)
    if not options:
        return pa.Codec("lz4").compress(data, asbytes=True)
    return pytest.importorskip("lz4.frame").compress(data, **options)


def packed(codec: int, data: bytes, claim: int | None = None, **options) -> bytes:
    """A compressed buffer: the uncompressed length (or a lie) and a frame."""
    return i64(len(data) if claim is None else claim) + squeeze(codec, data, **options)


def rows(codec: int, buffer: bytes, **slots) -> Table:
    return batch(100, [(100, 0)], [b"", buffer], codec=codec, **slots)


def refuse(buffer: bytes, *words: str, codec: int = ZSTD) -> None:
    for level in drive.LEVELS:
        refuse_stream(stream(WIDE, rows(codec, buffer)), FormatError, *words, validate=level)


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_105_codecs(codec):
    assert column(stream(WIDE, rows(codec, packed(codec, PLAIN))), validate="strict") == NUMBERS


def test_105_absent_codec_is_lz4():
    data = stream(WIDE, rows(None, packed(LZ4, PLAIN), compression=Table("BodyCompression")))
    assert column(data) == NUMBERS


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_106_empty_and_raw_buffers(codec):
    text = schema(field("s", UTF8))
    for nothing in (b"", i64(0)):
        assert column(stream(text, batch(2, [(2, 0)], [nothing, i64(-1) + i32(0, 0, 0), nothing], codec=codec))) == [
            "",
            "",
        ]
    assert column(stream(WIDE, rows(codec, i64(-1) + PLAIN))) == NUMBERS
    assert column(stream(WIDE, rows(codec, i64(-1) + PLAIN + bytes(24)))) == NUMBERS


def test_106_raw_buffers_are_not_copied():
    whole = stream(WIDE, rows(ZSTD, i64(-1) + PLAIN))
    (found,) = ipc.open_stream(whole)
    values = found.column(0).to_numpy()
    start = np.frombuffer(whole, np.uint8).ctypes.data
    assert start <= values.ctypes.data < start + len(whole)


@pytest.mark.parametrize("size", range(1, 8))
def test_106_buffers_without_room_for_the_length(size):
    refuse(bytes(size), "buffer 1", str(size))


@pytest.mark.parametrize("claim", [-2, -(2**63)])
def test_107_negative_claims(claim):
    refuse(packed(ZSTD, PLAIN, claim), "buffer 1", str(claim))
    refuse(packed(LZ4, PLAIN, claim), "buffer 1", str(claim), codec=LZ4)


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
@pytest.mark.parametrize("off", [-800, -1, 1, 8, 1000])
def test_107_claims_that_differ_from_the_data(off, codec):
    refuse(packed(codec, PLAIN, len(PLAIN) + off), "buffer 1", codec=codec)


@pytest.mark.nosanitize
@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
@pytest.mark.parametrize("claim", [1 << 31, 1 << 45, 2**63 - 1])
def test_108_claims_allocate_nothing(claim, codec):
    forget_peak()
    before = peak()
    refuse(packed(codec, PLAIN, claim), "buffer 1", codec=codec)
    text = schema(field("s", UTF8))
    data = stream(
        text, batch(2, [(2, 0)], [b"", packed(codec, i32(0, 1, 2)), packed(codec, b"ab", claim)], codec=codec)
    )
    refuse_stream(data, FormatError, "buffer 2")
    assert peak() - before < 256 << 20


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_108_honest_constant_columns_pass(codec):
    size = 50 << 20
    text = schema(field("s", Table("Binary")))
    data = stream(text, batch(1, [(1, 0)], [b"", i64(-1) + i32(0, size), packed(codec, bytes(size))], codec=codec))
    (found,) = ipc.open_stream(data)
    assert found.column(0)[0] == bytes(size)


def test_108_decompressed_bytes_are_limited():
    data = stream(WIDE, rows(ZSTD, packed(ZSTD, PLAIN)))
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_bytes=700))
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_ratio=1, decompressed_slack=0))
    assert column(data, limits=ipc.Limits(decompressed_bytes=1000)) == NUMBERS


def test_108_every_reference_to_a_shared_buffer_is_charged():
    shared = packed(ZSTD, bytes(8 * 100_000))
    spans = [b"", (0, len(shared))] * 20
    many = message(batch(100_000, [(100_000, 0)] * 20, spans, codec=ZSTD), body=shared + bytes(-len(shared) % 8))
    data = stream(schema(*[field(f"c{i}", INT64) for i in range(20)]), many)
    assert read_stream(data).rows() == [100_000]
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_bytes=4_000_000))


LZ4_SHAPES = {
    "linked blocks": {"block_linked": True, "block_size": 4},
    "independent blocks": {"block_linked": False},
    "content checksum": {"content_checksum": True},
    "block checksum": {"block_checksum": True},
    "no content size": {"store_size": False},
    "high compression": {"compression_level": 9},
}


@pytest.mark.parametrize("shape", LZ4_SHAPES)
def test_109_lz4_frames_of_every_shape(shape):
    long = list(range(50_000))
    frame = packed(LZ4, i64(*long), **LZ4_SHAPES[shape])
    assert column(stream(WIDE, batch(50_000, [(50_000, 0)], [b"", frame], codec=LZ4))) == long


def test_109_lz4_checksums_are_checked():
    frame = bytearray(packed(LZ4, PLAIN, content_checksum=True))
    frame[-1] ^= 1
    refuse(bytes(frame), "buffer 1", codec=LZ4)


def test_109_lz4_takes_one_frame_only():
    refuse(i64(len(PLAIN)) + squeeze(LZ4, PLAIN[:400]) + squeeze(LZ4, PLAIN[400:]), "buffer 1", codec=LZ4)
    refuse(
        i64(len(PLAIN)) + struct.pack("<II4s", 0x184D2A50, 4, b"skip") + squeeze(LZ4, PLAIN),
        "buffer 1",
        codec=LZ4,
    )
    refuse(i64(len(PLAIN)) + struct.pack("<I", 0x184C2102) + squeeze(LZ4, PLAIN)[4:], "buffer 1", codec=LZ4)


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_109_damaged_frames(codec):
    frame = packed(codec, PLAIN)
    for cut in (8, 9, 12, len(frame) // 2, len(frame) - 1):
        refuse(frame[:cut], "buffer 1", codec=codec)
    refuse(i64(len(PLAIN)) + b"not a frame at all" * 10, "buffer 1", codec=codec)
    for at in range(8, len(frame), 7):
        flipped = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
        drive.survives(stream(WIDE, rows(codec, flipped)), (drive.from_bytes,))


def test_110_zstd_frames_of_every_shape():
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN)
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)
    halves = squeeze(ZSTD, PLAIN[:400]) + squeeze(ZSTD, PLAIN[400:])
    for frame in (unsized, checked, halves, squeeze(ZSTD, PLAIN, level=19), squeeze(ZSTD, PLAIN, level=-5)):
        assert column(stream(WIDE, rows(ZSTD, i64(len(PLAIN)) + frame))) == NUMBERS


def test_110_zstd_windows_are_bounded():
    # A frame header that asks for the largest window of the format, 3.75 TiB, and one raw block.
    header = struct.pack("<IBB", 0xFD2FB528, 0x00, 0xFF)
    block = (len(PLAIN) << 3 | 1).to_bytes(3, "little") + PLAIN
    refuse(i64(len(PLAIN)) + header + block, "buffer 1")


def test_110_zstd_dictionaries_are_refused():
    words = zstandard.ZstdCompressionDict(
        b"some words that the reader does not have" * 20, dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )
    trained = zstandard.train_dictionary(400, [bytes([i % 7, i % 5, i % 3]) * 40 + str(i).encode() for i in range(200)])
    for used in (words, trained):
        frame = zstandard.ZstdCompressor(dict_data=used).compress(PLAIN)
        drive.survives(stream(WIDE, rows(ZSTD, i64(len(PLAIN)) + frame)))
    refuse(i64(len(PLAIN)) + zstandard.ZstdCompressor(dict_data=trained).compress(PLAIN), "buffer 1")


def test_111_codecs_may_change_from_batch_to_batch():
    raw = batch(100, [(100, 0)], [b"", PLAIN])
    parts = (WIDE, rows(ZSTD, packed(ZSTD, PLAIN)), raw, rows(LZ4, packed(LZ4, PLAIN)), raw)
    assert read_stream(stream(*parts)).values() == read_file(file(*parts)).values() == [[NUMBERS]] * 4


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_111_compressed_dictionaries(codec):
    coded = schema(field("d", UTF8, dictionary=encoding(0, INT8)))
    words = dictionary(0, batch(2, [(2, 0)], [b"", packed(codec, i32(0, 1, 2)), packed(codec, b"ab")], codec=codec))
    delta = dictionary(
        0, batch(1, [(1, 0)], [b"", packed(codec, i32(0, 1)), packed(codec, b"c")], codec=codec), isDelta=True
    )
    data = stream(coded, words, delta, batch(3, [(3, 0)], [b"", packed(codec, i8(2, 1, 0))], codec=codec))
    assert column(data) == ["c", "b", "a"]


def test_111_compressed_validity():
    masked = batch(3, [(3, 1)], [packed(ZSTD, bits(1, 0, 1)), packed(ZSTD, i32(1, 2, 3))], codec=ZSTD)
    assert column(stream(schema(field("x", INT32)), masked), validate="strict") == [1, None, 3]


def test_111_decompressed_buffers_are_too_short():
    refuse(packed(ZSTD, PLAIN[:-8]), "buffer 1", "792|800")


@pytest.mark.parametrize("name", ["lz4", "zstd", "LZ4", "lz4_frame"])
def test_112_experimental_compression_of_0_17(name):
    """Before BodyCompression existed: the codec stands in the message's metadata, on V4."""
    codec = ZSTD if name == "zstd" else LZ4
    old = message(rows(None, packed(codec, PLAIN)), version=V4, metadata=[("ARROW:experimental_compression", name)])
    data = stream(message(WIDE, version=V4), old)
    if name in CODECS:
        assert column(data) == NUMBERS
    else:
        drive.survives(data)


def test_112_the_experimental_key_means_nothing_on_v5():
    plain = message(batch(100, [(100, 0)], [b"", PLAIN]), metadata=[("ARROW:experimental_compression", "zstd")])
    assert column(stream(WIDE, plain)) == NUMBERS


@pytest.mark.parametrize("codec", list(CODECS.values()), ids=list(CODECS))
def test_113_small_buffers_stay_raw_beside_compressed_ones(codec):
    two = schema(field("x", INT64), field("y", INT32))
    mixed = batch(100, [(100, 0)] * 2, [b"", packed(codec, PLAIN), b"", i64(-1) + i32(*NUMBERS)], codec=codec)
    assert read_stream(stream(two, mixed)).values() == [[NUMBERS, NUMBERS]]


@pytest.mark.parametrize("name", CODECS)
def test_113_pyarrow_streams(name):
    table = pa.table(
        {"a": [1, None, 3], "s": ["x" * 100, "y", None], "d": pa.array(["p", "q", "p"]).dictionary_encode()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=name)) as writer:
        writer.write_table(table)
    (found,) = read_stream(sink.getvalue().to_pybytes()).batches
    assert found.to_pydict() == table.to_pydict()


@pytest.mark.parametrize("threads", [True, False])
def test_compression_with_and_without_threads(threads):
    sink = pa.BufferOutputStream()
    table = pa.table({f"c{i}": pa.array(range(i, 20_000 + i)) for i in range(12)})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=3_000)
    reading = read_stream(sink.getvalue().to_pybytes(), use_threads=threads)
    assert pa.Table.from_batches([pa.record_batch(b) for b in reading.batches]).equals(table)
