"""What buffers become when a writer compresses them: prefixes, frames, threads, memory, refusals."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode.codec_ways import only
from helpers.arrays import ipc_bytes, read_batch

import arrowipc as ipc

lz4 = pytest.importorskip("lz4.frame")
zstandard = pytest.importorskip("zstandard")

CODECS = ["lz4", "zstd"]
MB = 1 << 20
# Bytes of a buffer: around what a frame costs, what a word, a block of LZ4 and one of ZSTD hold, and several.
SIZES = [0, 1, 7, 8, 9, 10, 11, 12, 13, 24, 25, 26, 27, 100, 255, 256, 257, 65_535, 65_536, 65_537]
SIZES += [MB - 1, MB, MB + 1, 3 * MB + 5]

PACKAGES: dict[str, list[Callable[[bytes, int], bytes]]] = {
    "lz4": [
        lambda frame, size: pa.Codec("lz4_frame").decompress(frame, size, asbytes=True),
        lambda frame, size: lz4.decompress(frame),
    ],
    "zstd": [
        lambda frame, size: pa.Codec("zstd").decompress(frame, size, asbytes=True),
        lambda frame, size: zstandard.ZstdDecompressor().decompress(frame),
    ],
}


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that no codec makes smaller."""
    return np.random.default_rng(seed).bytes(size)


def mild(size: int, seed: int = 0) -> bytes:
    """Numbers as columns hold them: compressed to about a half."""
    return np.random.default_rng(seed).integers(0, 3000, size // 8 + 1).astype("<i8").tobytes()[:size]


def columns(*contents: bytes) -> ipc.RecordBatch:
    """Each of the contents as the one buffer of a column that is not absent; all of them as long."""
    return read_batch(pa.record_batch([np.frombuffer(c, "u1") for c in contents], [*map(str, range(len(contents)))]))


def stored_buffers(batch: ipc.RecordBatch, codec: Any, level: int | None = None, **options: Any) -> list[bytes]:
    """Every buffer of a message as it is stored."""
    message = batch.to_message(compression=codec, compression_level=level, **options)
    return [bytes(each) for each in message.buffers]


def buffer(content: bytes, codec: str, **options: Any) -> bytes:
    """The content as it is stored."""
    validity, stored = stored_buffers(columns(content), codec, **options)
    assert validity == b""
    return stored


def split(stored: bytes) -> tuple[int, bytes]:
    return struct.unpack_from("<q", stored)[0], stored[8:]


def check(stored: bytes, content: bytes, codec: str) -> int:
    """The stored form gives the content back, by every decoder; its prefix."""
    if not content:
        assert stored == b""
        return 0
    prefix, frame = split(stored)
    if prefix == -1:
        assert frame == content
    else:
        assert prefix == len(content) > len(frame)
        for decompress in PACKAGES[codec]:
            assert decompress(frame, prefix) == content
    return prefix


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_108_110_every_size_comes_back_and_is_compressed_where_that_is_smaller(codec, size):
    for content in (bytes(size), b"\xff" * size, mild(size), noise(size // 2) + bytes(size - size // 2)):
        prefix = check(buffer(content, codec), content, codec)
        assert prefix == size or size < 1000
    if size:
        assert buffer(noise(size), codec) == struct.pack("<q", -1) + noise(size)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", range(1, 64))
def test_110_no_buffer_stays_raw_that_its_package_makes_smaller(codec, size):
    """The sizes that are not even tried are too small for any frame."""
    for content in (bytes(size), b"\xff" * size, b"ab" * (size // 2) + b"a" * (size % 2)):
        if codec == "lz4":
            frame = lz4.compress(content, store_size=False)
        else:
            frame = zstandard.ZstdCompressor(level=1).compress(content)
        assert (split(buffer(content, codec))[0] == size) == (len(frame) < size)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1000, 300_000])
def test_110_min_space_savings_at_its_edge(codec, size):
    content = mild(size)
    _, frame = split(buffer(content, codec))
    saved = (size - len(frame)) / size
    assert 0.2 < saved < 0.9
    for savings in (0, 0.0, None, saved / 2, np.nextafter(saved, 0), saved):
        assert split(buffer(content, codec, min_space_savings=savings)) == (size, frame)
    for savings in (float(np.nextafter(saved, 1)), (saved + 1) / 2, np.nextafter(1, 0)):
        assert split(buffer(content, codec, min_space_savings=savings)) == (-1, content)


@pytest.mark.parametrize("codec", CODECS)
def test_columns_that_are_not_chosen_stay_raw(codec):
    words = pa.array(["a word that is long enough to leave the view", None, "x"] * 50, pa.string_view())
    pairs = pa.array([{"a": i, "b": "some text"} for i in range(150)])
    batch = read_batch(pa.record_batch({"n": np.arange(150), "v": words, "s": pairs, "v2": words}))
    raw = stored_buffers(batch, codec, min_space_savings=0.999999)
    assert all(not each or split(each)[0] == -1 for each in raw)
    counts = [2, 3, 6, 3]
    columns_ = [name for name, count in zip(["n", "v", "s", "v2"], counts, strict=True) for _ in range(count)]
    for chosen in (["n"], ["v"], ["s"], ["v2", "n"], ["n", "v", "s", "v2"]):
        stored = stored_buffers(batch, dict.fromkeys(chosen, codec))
        prefixes = [check(s, each[8:], codec) for s, each in zip(stored, raw, strict=True)]
        assert {name for name, prefix in zip(columns_, prefixes, strict=True) if prefix > 0} == set(chosen)


def test_109_zstd_frames_state_their_size():
    for size in (100, 255, 256, 65_791, 65_792, 3 * MB):
        prefix, frame = split(buffer(mild(size), "zstd"))
        assert zstandard.frame_content_size(frame) == prefix == size
        assert not zstandard.get_frame_parameters(frame).has_checksum


def test_109_lz4_frames_have_independent_blocks_no_larger_than_1_mb():
    for size, block in ((1000, 65_536), (65_537, 262_144), (262_145, MB), (5 * MB, MB)):
        _, frame = split(buffer(mild(size), "lz4"))
        about = lz4.get_frame_info(frame)
        assert about["block_size"] == block
        assert not about["block_linked"]
        assert not about["content_checksum"]
        assert not about["block_checksum"]


@pytest.mark.parametrize(
    ("name", "level"),
    [("lz4", level) for level in (None, -65_536, -1, 0, 1, 2, 3, 9, 12)]
    + [("zstd", level) for level in (None, -131_072, -1, 0, 1, 3, 9, 19, 22)],
)
def test_frames_are_those_of_the_package(name, level, monkeypatch):
    # One version of libzstd for both: those of the zstandard package.
    only("zstandard", monkeypatch)
    # More than one block of ZSTD; for LZ4, what we put into the largest blocks that we write.
    content, number = mild(150_001 if name == "zstd" else 300_001), 1 if level is None else level
    if name == "lz4":
        options = {"block_size": lz4.BLOCKSIZE_MAX1MB, "block_linked": False, "store_size": False}
        expected = lz4.compress(content, compression_level=number, **options)
    else:
        expected = zstandard.ZstdCompressor(level=number).compress(content)
    assert buffer(content, name, level=level)[8:] == (expected if len(expected) < len(content) else content)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("level", [1, 9])
def test_a_frame_does_not_depend_on_the_buffers_before_it(codec, level):
    chance = np.random.default_rng(3)
    made = [
        *(mild(int(size), seed) for seed, size in enumerate(chance.integers(20, 70_000, 25))),
        *(np.arange(n, dtype="<i4").tobytes() for n in (9, 100, 5000)),
        *(b"\0\0\0\0" + mild(n) for n in (50, 500, 5000)),
    ]
    fresh = {content: buffer(content, codec, level=level) for content in made}
    for turn in (made, made[::-1], sorted(made)):
        data = ipc_bytes([columns(content) for content in turn], compression=codec, compression_level=level)
        messages = list(ipc.MessageReader(data))[1:]
        assert [bytes(each.buffers[1]) for each in messages] == [fresh[content] for content in turn]
