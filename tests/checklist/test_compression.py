"""Format checklist 105-113: compressed bodies, their claims, and what bounds them."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from checklist.parts import flat
from helpers import drive, forge, optional
from helpers.arrays import pyarrow_bytes
from helpers.drive import column, read_file, read_stream, refuse_at_every_level, refuse_stream
from helpers.forge import Table, batch, bits, dictionary, encoding, field, file, i8, i32, i64, message, schema, stream
from helpers.memory import at_most

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UnsupportedError

zstandard = optional("zstandard")

LZ4, ZSTD = 0, 1
both = pytest.mark.parametrize("codec", [LZ4, ZSTD], ids=["lz4", "zstd"])
WIDE, TEXT = schema(field("x", forge.INT64)), schema(field("s", forge.UTF8))
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
    return flat(100, b"", buffer, codec=codec, **slots)


def of(codec: int, stored: bytes) -> bytes:
    """A stream of one column of 100 numbers, whose only buffer is stored so."""
    return stream(WIDE, rows(codec, stored))


LZ4_SHAPES = [
    {"block_linked": True, "block_size": 4},
    {"block_linked": False},
    {"content_checksum": True},
    {"block_checksum": True},
    {"store_size": False},
    {"compression_level": 9},
]
SIZE = i64(len(PLAIN))
MIXED = batch(100, [(100, 0)] * 2, [b"", packed(LZ4, PLAIN), b"", i64(-1) + i32(*NUMBERS)], codec=LZ4)
MASKED = flat(3, packed(ZSTD, bits(1, 0, 1)), packed(ZSTD, i32(1, 2, 3)), nulls=1, codec=ZSTD)
V5_KEY = [("ARROW:experimental_compression", "zstd")]

#: Number of the case, a stream, and the values of its first column.
READ = [
    *[("105", of(codec, packed(codec, PLAIN)), NUMBERS) for codec in (LZ4, ZSTD)],
    ("105", stream(WIDE, rows(None, packed(LZ4, PLAIN), compression=Table("BodyCompression"))), NUMBERS),
    *[
        ("106", stream(TEXT, flat(2, nothing, i64(-1) + i32(0, 0, 0), nothing, codec=codec)), ["", ""])
        for codec in (LZ4, ZSTD)
        for nothing in (b"", i64(0))
    ],
    *[("106", of(codec, i64(-1) + PLAIN + bytes(more)), NUMBERS) for codec in (LZ4, ZSTD) for more in (0, 24)],
    *[("109", of(LZ4, packed(LZ4, PLAIN, **shape)), NUMBERS) for shape in LZ4_SHAPES],
    ("110", of(ZSTD, SIZE + squeeze(ZSTD, PLAIN[:400]) + squeeze(ZSTD, PLAIN[400:])), NUMBERS),
    ("111", stream(schema(field("x", forge.INT32)), MASKED), [1, None, 3]),
    ("112", stream(WIDE, message(flat(100, b"", PLAIN), metadata=V5_KEY)), NUMBERS),
    ("113", stream(schema(field("x", forge.INT64), field("y", forge.INT32)), MIXED), NUMBERS),
]


@drive.rows_of(READ)
def test_is_read(row):
    for level in drive.LEVELS:
        assert column(row[1], validate=level) == row[2]


def spoilt(codec: int, **options) -> bytes:
    """A frame whose last byte, which belongs to a checksum, is another."""
    frame = packed(codec, PLAIN, **options)
    return frame[:-1] + bytes([frame[-1] ^ 1])


# A frame header that asks for the largest window of the format, 3.75 TiB, and one raw block.
LARGE_WINDOW = struct.pack("<IBB", 0xFD2FB528, 0x00, 0xFF) + (len(PLAIN) << 3 | 1).to_bytes(3, "little") + PLAIN

SAMPLES = [bytes([i % 7, i % 5, i % 3]) * 40 + str(i).encode() for i in range(200)]
WITH_DICTIONARY = squeeze(ZSTD, PLAIN, dict_data=zstandard.train_dictionary(400, SAMPLES))

#: Number of the case, a stream, and words of the FormatError at every level.
REFUSED = [
    *[("106", of(ZSTD, bytes(size)), "buffer 1", str(size)) for size in range(1, 8)],
    *[
        ("107", of(codec, packed(codec, PLAIN, claim)), "buffer 1", str(claim))
        for codec in (LZ4, ZSTD)
        for claim in (-2, -(2**63))
    ],
    *[
        ("107", of(codec, packed(codec, PLAIN, len(PLAIN) + off)), "buffer 1")
        for codec in (LZ4, ZSTD)
        for off in (-800, -1, 1, 8, 1000)
    ],
    ("109", of(LZ4, spoilt(LZ4, content_checksum=True)), "buffer 1"),
    ("109 two frames", of(LZ4, SIZE + squeeze(LZ4, PLAIN[:400]) + squeeze(LZ4, PLAIN[400:])), "buffer 1"),
    (
        "109 a skippable frame",
        of(LZ4, SIZE + struct.pack("<II4s", 0x184D2A50, 4, b"skip") + squeeze(LZ4, PLAIN)),
        "buffer 1",
    ),
    ("109 the older magic", of(LZ4, SIZE + struct.pack("<I", 0x184C2102) + squeeze(LZ4, PLAIN)[4:]), "buffer 1"),
    *[
        ("109", of(codec, packed(codec, PLAIN)[:cut]), "buffer 1")
        for codec in (LZ4, ZSTD)
        for cut in (8, 9, 12, len(packed(codec, PLAIN)) // 2, -1)
    ],
    *[("109", of(codec, SIZE + b"not a frame at all" * 10), "buffer 1") for codec in (LZ4, ZSTD)],
    *[("110", of(ZSTD, SIZE + frame), "buffer 1") for frame in (LARGE_WINDOW, WITH_DICTIONARY)],
    ("111", of(ZSTD, packed(ZSTD, PLAIN[:-8])), "buffer 1", "792|800"),
]


@drive.rows_of(REFUSED)
def test_is_refused(row):
    refuse_at_every_level(row[1], FormatError, *row[2:])


def test_106_raw_buffers_are_not_copied():
    whole = of(ZSTD, i64(-1) + PLAIN)
    (found,) = ipc.open_stream(whole)
    values = found.column(0).to_numpy()
    start = np.frombuffer(whole, np.uint8).ctypes.data
    assert start <= values.ctypes.data < start + len(whole)


@pytest.mark.nosanitize
@both
@pytest.mark.parametrize("claim", [1 << 31, 1 << 45, 2**63 - 1])
def test_108_claims_allocate_nothing(claim, codec):
    text = flat(2, b"", packed(codec, i32(0, 1, 2)), packed(codec, b"ab", claim), codec=codec)
    with at_most(256 << 20):
        refuse_at_every_level(of(codec, packed(codec, PLAIN, claim)), FormatError, "buffer 1")
        refuse_stream(stream(TEXT, text), FormatError, "buffer 2")


@both
def test_108_honest_constant_columns_pass(codec):
    size = 50 << 20
    text = schema(field("s", Table("Binary")))
    data = stream(text, flat(1, b"", i64(-1) + i32(0, size), packed(codec, bytes(size)), codec=codec))
    (found,) = ipc.open_stream(data)
    assert found.column(0)[0] == bytes(size)


def test_108_decompressed_bytes_are_limited():
    data = of(ZSTD, packed(ZSTD, PLAIN))
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_bytes=700))
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_ratio=1, decompressed_slack=0))
    assert column(data, limits=ipc.Limits(decompressed_bytes=1000)) == NUMBERS


def test_108_every_reference_to_a_shared_buffer_is_charged():
    rows = 5_000
    shared = packed(ZSTD, bytes(8 * rows))
    spans = [b"", (0, len(shared))] * 20
    many = message(batch(rows, [(rows, 0)] * 20, spans, codec=ZSTD), body=shared + bytes(-len(shared) % 8))
    data = stream(schema(*[field(f"c{i}", forge.INT64) for i in range(20)]), many)
    assert read_stream(data).rows() == [rows]
    refuse_stream(data, LimitError, "decompress", limits=ipc.Limits(decompressed_bytes=200_000))


def test_111_codecs_may_change_from_batch_to_batch():
    raw = flat(100, b"", PLAIN)
    parts = (WIDE, rows(ZSTD, packed(ZSTD, PLAIN)), raw, rows(LZ4, packed(LZ4, PLAIN)), raw)
    assert read_stream(stream(*parts)).values() == read_file(file(*parts)).values() == [[NUMBERS]] * 4


@both
def test_111_compressed_dictionaries(codec):
    coded = schema(field("d", forge.UTF8, dictionary=encoding(0, forge.INT8)))
    words = dictionary(0, flat(2, b"", packed(codec, i32(0, 1, 2)), packed(codec, b"ab"), codec=codec))
    delta = dictionary(0, flat(1, b"", packed(codec, i32(0, 1)), packed(codec, b"c"), codec=codec), isDelta=True)
    data = stream(coded, words, delta, flat(3, b"", packed(codec, i8(2, 1, 0)), codec=codec))
    assert column(data) == ["c", "b", "a"]


@pytest.mark.parametrize("name", ["lz4", "zstd", "LZ4", "lz4_frame"])
def test_112_experimental_compression_of_0_17(name):
    """Before BodyCompression existed: the codec stands in the message's metadata, on V4."""
    codec = ZSTD if name == "zstd" else LZ4
    old = message(
        rows(None, packed(codec, PLAIN)), version=forge.V4, metadata=[("ARROW:experimental_compression", name)]
    )
    data = stream(message(WIDE, version=forge.V4), old)
    if name == "lz4_frame":
        refuse_at_every_level(data, UnsupportedError, "ARROW:experimental_compression", name)
    else:
        assert column(data) == NUMBERS


@pytest.mark.parametrize("threads", [True, False])
def test_113_with_and_without_threads(threads):
    table = pa.table({f"c{i}": pa.array(range(i, 6_000 + i)) for i in range(12)})
    data = pyarrow_bytes(table.to_batches(max_chunksize=2_000), compression="zstd")
    reading = read_stream(data, use_threads=threads)
    assert pa.Table.from_batches([pa.record_batch(b) for b in reading.batches]).equals(table)
