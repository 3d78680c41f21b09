"""Small LZ4 frames are decoded as the block that they are, and judged as by the decoder of frames."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers.forge import INT64, batch, field, i64, schema, stream

import arrowipc as ipc
from arrowipc import codecs

lz4 = pytest.importorskip("lz4.frame")

NUMBERS = [7, 7, 7, 1 << 40, 7, 7, 7, 7, 7, -1] * 3
CONTENT = i64(*NUMBERS)
SIZES = [lz4.BLOCKSIZE_MAX64KB, lz4.BLOCKSIZE_MAX256KB, lz4.BLOCKSIZE_MAX1MB, lz4.BLOCKSIZE_MAX4MB]


def read(frame: bytes, claim: int = len(CONTENT)) -> list[Any] | None:
    """The values of a column that is stored as this frame; None: it was refused."""
    data = stream(schema(field("x", INT64)), batch(30, [(30, 0)], [b"", i64(claim) + frame], codec=codecs.LZ4_FRAME))
    try:
        with ipc.open_stream(data) as reader:
            return next(iter(reader)).column(0).to_pylist()
    except ipc.ArrowIpcError:
        return None


def by_the_package(frame: bytes) -> list[int] | None:
    """The same as the package's decoder of frames has it; one that asks for a dictionary is none of Arrow's."""
    decoder = lz4.LZ4FrameDecompressor()
    try:
        made = decoder.decompress(frame, max_length=len(CONTENT) + 1)
    except RuntimeError:
        return None
    whole = len(made) == len(CONTENT) and decoder.eof and not decoder.unused_data
    return memoryview(made).cast("q").tolist() if whole and not frame[4] & 1 else None


def shapes() -> list[bytes]:
    noise = random.Random(1).randbytes(len(CONTENT))
    return [
        lz4.compress(content, block_size=size, block_linked=linked, store_size=stated)
        for content in (CONTENT, noise)
        for size in SIZES
        for linked in (False, True)
        for stated in (False, True)
    ]


def test_every_change_of_a_frame_is_judged_as_by_the_frames_decoder():
    dice = random.Random(20261205)
    frames = shapes()
    for frame in shapes():
        for at in (*range(15), *range(len(frame) - 6, len(frame))):
            for bit in (1, 32):
                frames.append(frame[:at] + bytes([frame[at] ^ bit]) + frame[at + 1 :])
        frames += [frame[:-1], frame + b"\0", frame[:-4], frame[:7] + frame[-4:], frame + frame]
        frames += [
            frame[:7] + bytes(dice.choice([b, b, b, 0, dice.randrange(256)]) for b in frame[7:]) for _ in range(9)
        ]
    ours = [read(frame) for frame in frames]
    assert ours == [by_the_package(frame) for frame in frames]
    assert 0 < ours.count(None) < len(ours)


def test_blocks_larger_than_the_header_says_are_refused():
    content = bytes(100_000)
    for size in SIZES:
        frame = bytearray(lz4.compress(content, block_size=lz4.BLOCKSIZE_MAX256KB, store_size=False))
        other = lz4.compress(content, block_size=size, store_size=False)
        frame[4:7] = other[4:7]
        data = stream(
            schema(field("x", INT64)),
            batch(12_500, [(12_500, 0)], [b"", i64(len(content)) + bytes(frame)], codec=codecs.LZ4_FRAME),
        )

        def rows(data: bytes = data) -> int:
            with ipc.open_stream(data) as reader:
                return sum(part.num_rows for part in reader)

        if size == lz4.BLOCKSIZE_MAX64KB:
            with pytest.raises(ipc.FormatError):
                rows()
        else:
            assert rows() == 12_500


def test_a_frame_that_failed_does_not_fail_the_next_one():
    stated = lz4.compress(CONTENT, store_size=True)
    cut = stated[:19] + b"\xff" * 4 + stated[23:]
    two = lz4.compress(bytes(300_000), block_size=SIZES[0], store_size=False)
    data = stream(
        schema(field("x", INT64)),
        batch(37_500, [(37_500, 0)], [b"", i64(300_000) + two], codec=codecs.LZ4_FRAME),
    )
    bad = stream(
        schema(field("x", INT64)),
        batch(30, [(30, 0)], [b"", i64(len(CONTENT)) + cut], codec=codecs.LZ4_FRAME),
    )
    for _ in range(3):
        assert read(cut) is None
        with ipc.open_stream(data) as reader:
            assert next(iter(reader)).num_rows == 37_500
    decoded = ipc.decode_payloads([data, bad, data, bad, bad, data], on_error="skip", use_threads=False)
    assert decoded.counts.to_pylist() == [37_500, 0, 37_500, 0, 0, 37_500]
    assert decoded.num_alone == 4
