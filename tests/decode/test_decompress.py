"""Laws of the way from stored bytes to readable ones: codec libraries, decompression, alignment, owners."""

import ctypes
import gc
import os
import queue
import random
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode.codec_ways import look_again, only
from helpers import forge, optional
from helpers.arrays import address, pyarrow_bytes
from helpers.forge import Table, batch, field, i32, i64, schema, stream
from helpers.memory import interrupted, resident
from helpers.processes import run_function
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import FormatError, LimitError, _core, codecs
from arrowipc._core import live_objects

zstandard = optional("zstandard")

lz4 = pytest.importorskip("lz4.frame")

LZ4, ZSTD = 0, 1
FRAMES: dict[int, Callable[[bytes], bytes]] = {LZ4: lz4.compress, ZSTD: zstandard.compress}
both = pytest.mark.parametrize("codec", [LZ4, ZSTD], ids=["lz4", "zstd"])


def read(data: Any, **options: Any) -> Any:
    """The one batch of a stream."""
    with ipc.open_stream(data, **options) as reader:
        (found,) = reader
    return found


def packed(codec: int, data: bytes, claim: int | None = None) -> bytes:
    return i64(len(data) if claim is None else claim) + FRAMES[codec](data)


def column(kind: Table, rows: int, *stored: bytes, codec: int) -> bytes:
    """A stream of one column without nulls, whose buffers are stored as these."""
    return stream(schema(field("x", kind)), batch(rows, [(rows, 0)], [b"", *stored], codec=codec))


def column_of(frame: bytes, claim: int, codec: int = LZ4) -> bytes:
    """A stream of one column, whose numbers are stored as this frame."""
    return column(forge.INT64, claim // 8, i64(claim) + frame, codec=codec)


# Codec libraries: absent packages, threads, forks.


def test_109_empty_frames():
    assert values_of(column_of(lz4.compress(b""), 0)) == []
    assert values_of(column_of(zstandard.compress(b""), 0, ZSTD)) == []


def test_an_interrupt_at_any_point_leaves_the_helpers_free(monkeypatch):
    """A signal is handled between any two instructions: the helpers must not wait for what never comes."""
    monkeypatch.setattr(codecs, "cpus", lambda: 2)
    monkeypatch.setattr(codecs, "_helpers", [])
    monkeypatch.setattr(codecs, "_calls", queue.SimpleQueue())
    count = 0
    for count in interrupted(lambda: codecs.run_shared(list, 2), codecs):
        codecs.ask(codecs.HelperCall((served := threading.Event()).set), 1)
        assert served.wait(20), count
    assert count > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_forked_child_has_a_pool_of_its_own(compression):
    """Spark's daemon imports, maybe decodes, and then forks its workers."""
    data = pyarrow_bytes(pa.record_batch({name: np.arange(100_000) for name in "abcd"}), compression=compression)
    assert len(read(data)["a"]) == 100_000
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if len(read(data)["a"]) == 100_000 else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# Compression: what is in a buffer's place, and what is not believed.


@both
def test_a_helper_without_memory_spoils_no_values(codec, monkeypatch):
    """Its caller gets a MemoryError, not a batch with a buffer that nobody has decoded."""
    caller, functions = threading.get_ident(), codecs.functions
    lz4 = codec == codecs.LZ4_FRAME
    create = "create_lz4" if lz4 else "create_zstd"
    kind = (
        ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint) if lz4 else ctypes.CFUNCTYPE(ctypes.c_size_t)
    )
    real = kind(functions(codec, False)[create])
    lacking = kind(lambda *arguments: real(*arguments) if threading.get_ident() == caller else 0)
    address = ctypes.cast(lacking, ctypes.c_void_p).value

    def helper_first(run: Callable[[], None], n_jobs: int) -> None:
        call = codecs.HelperCall(run)
        helper = threading.Thread(target=call)
        helper.start()
        helper.join()
        run()
        if call.error is not None:
            raise call.error

    monkeypatch.setattr(codecs, "functions", lambda *way: {**functions(*way), create: address})
    look_again(monkeypatch)
    monkeypatch.setattr(codecs, "run_shared", helper_first)
    wide, content = schema(field("a", forge.INT64), field("b", forge.INT64)), bytes(1 << 23)
    data = stream(wide, batch(1 << 20, [(1 << 20, 0)] * 2, [b"", packed(codec, content)] * 2, codec=codec))
    with pytest.raises(MemoryError, match="no memory for a context"):
        read(data, limits=ipc.Limits(decompressed_ratio=1 << 20))


def test_108_buffers_of_known_size_are_no_bombs():
    """A megabyte of zeros in 60 bytes is fine as text, and not as ten integers."""
    bomb = packed(ZSTD, bytes(1 << 20))
    with pytest.raises(LimitError, match=r"its 10 elements need 80"):
        read(column(forge.INT64, 10, bomb, codec=ZSTD))
    with pytest.raises(LimitError, match=r"its 10 elements need 2\b"):
        read(stream(schema(field("x", forge.INT64)), batch(10, [(10, 1)], [bomb, bytes(0)], codec=ZSTD)))
    offsets = packed(ZSTD, i32(0, 1 << 20))
    found = read(column(forge.UTF8, 1, offsets, bomb, codec=ZSTD))
    assert found.column(0).to_pylist() == ["\0" * (1 << 20)]
    # Slack behind the values, as behind an untrimmed slice, is no bomb.
    slack = packed(ZSTD, np.random.default_rng(1).bytes(1 << 20))
    assert read(column(forge.INT8, 10, slack, codec=ZSTD)).num_rows == 10


def test_109_lz4_cannot_hold_more_than_255_times_its_size():
    frame = lz4.compress(b"x" * 100, store_size=False)
    with pytest.raises(FormatError, match="cannot hold more than 255 times"):
        read(column(forge.UTF8, 1, i64(-1) + i32(0, 9), i64(300 * len(frame)) + frame, codec=LZ4))


@pytest.mark.parametrize("build", ["backports.zstd", "zstandard"])
@given(
    parts=st.lists(st.binary(max_size=300) | st.just(bytes(300_000)), min_size=1, max_size=4),
    sizes=st.booleans(),
    checksums=st.booleans(),
    level=st.sampled_from([1, 3, 19]),
    skip=st.booleans(),
    off=st.sampled_from([0, 0, 0, -1, 1]),
    spoil=st.sampled_from([0, 0, 0, 1, 4, 8, b"\0", b"tail of bytes"]),
)
def test_109_110_zstd_frames_follow_one_another_to_the_very_end(
    build, parts, sizes, checksums, level, skip, off, spoil
):
    pytest.importorskip(build)  # from Python 3.14 on the standard library takes the place of backports
    squeezer = zstandard.ZstdCompressor(level=level, write_content_size=sizes, write_checksum=checksums)
    frames = [*map(squeezer.compress, parts)]
    if skip:
        frames.insert(0, struct.pack("<II", 0x184D2A53, 5) + b"hello")
    stored, whole = b"".join(frames), b"".join(parts)
    spoiled = stored + spoil if isinstance(spoil, bytes) else stored[: len(stored) - spoil]
    claim = len(whole) + off
    if claim < 0:
        return
    good, data = (
        column(forge.BINARY, 1, i64(-1) + i32(0, len(whole)), claimed, codec=ZSTD)
        for claimed in (i64(len(whole)) + stored, i64(claim) + spoiled)
    )
    with pytest.MonkeyPatch.context() as patch:
        only(build, patch)
        if data != good:
            with pytest.raises(FormatError, match=r"column 'x': buffer 2.*bytes"):
                read(data)
        # A context that met an error decodes the next frame as if nothing had been.
        assert read(good).column(0).to_pylist() == [whole]


@both
def test_decompressed_batches_let_go_of_their_source(codec):
    data = bytearray(column(forge.INT64, 100, packed(codec, bytes(800)), codec=codec))
    found = read(data)
    gc.collect()
    data.clear()  # a BufferError while anything points into it
    assert found.column(0).to_pylist() == [0] * 100
    raw = bytearray(column(forge.INT64, 1, i64(-1) + i64(5), codec=codec))
    found = read(raw)
    with pytest.raises(BufferError):
        raw.clear()
    assert found.column(0).to_pylist() == [5]


@both
def test_decompressed_buffers_are_aligned_to_64(codec):
    columns = schema(*[field(str(i), forge.INT8) for i in range(5)])
    buffers = [part for i in range(5) for part in (b"", packed(codec, bytes(3 + i)))]
    found = read(stream(columns, batch(3, [(3, 0)] * 5, buffers, codec=codec)))
    assert [address(column.buffers()[1]) % 64 for column in found.columns] == [0] * 5


def test_large_blocks_are_used_again_and_never_while_somebody_looks_at_them():
    content = np.arange(1 << 18, dtype="<i8")
    data = column(forge.INT64, 1 << 18, packed(LZ4, content.tobytes()), codec=LZ4)
    _core.release_unused()
    first = read(data)
    where = address(first.column(0).buffers()[1])
    kept = first.column(0).to_numpy()
    del first
    second = read(data)
    assert address(second.column(0).buffers()[1]) != where  # `kept` still lies there
    assert (kept == content).all()
    free = {where, address(second.column(0).buffers()[1])}
    del kept, second
    gc.collect()
    live = live_objects()["memory"]
    third = read(data)
    assert address(third.column(0).buffers()[1]) in free  # which waited for the next batch
    assert (third.column(0).to_numpy() == content).all()
    del third
    assert live_objects()["memory"] == live


def memory_that_waits() -> None:
    data = pyarrow_bytes(pa.record_batch({str(i): np.arange(1 << 20) for i in range(64)}), compression="zstd")
    next(iter(ipc.open_stream(data, columns=["0"])))
    ipc.release_unused()
    before = resident()
    for i in range(64):  # half a gigabyte in all, a block of 8 MiB each
        next(iter(ipc.open_stream(data, columns=[i])))
    held = [next(iter(ipc.open_stream(data, columns=[i]))) for i in range(64)]
    assert resident() - before > 400 << 20
    del held
    assert resident() - before < 300 << 20, "more than 256 MiB wait"
    assert resident() - before > 100 << 20, "nothing waits"
    ipc.release_unused()
    assert resident() - before < 30 << 20, "something waits"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory is resident")
def test_no_more_than_256_mib_wait_for_the_next_batch_and_release_unused_gives_them_back():
    run_function(memory_that_waits, check=True)


# Small LZ4 frames are decoded as the block that they are, and judged as by the decoder of frames.

NUMBERS = [7, 7, 7, 1 << 40, 7, 7, 7, 7, 7, -1] * 3
CONTENT = i64(*NUMBERS)
SIZES = [lz4.BLOCKSIZE_MAX64KB, lz4.BLOCKSIZE_MAX256KB, lz4.BLOCKSIZE_MAX1MB, lz4.BLOCKSIZE_MAX4MB]


def values_of(data: bytes) -> list[Any] | None:
    """None: it was refused."""
    try:
        return read(data).column(0).to_pylist()
    except ipc.ArrowIpcError:
        return None


def shapes() -> list[bytes]:
    noise = random.Random(1).randbytes(len(CONTENT))
    return [
        lz4.compress(content, block_size=size, block_linked=linked, store_size=stated)
        for content in (CONTENT, noise)
        for size in SIZES
        for linked in (False, True)
        for stated in (False, True)
    ]


def by_the_package(frame: bytes) -> list[int] | None:
    """The values as the package's decoder of frames has them; one that asks for a dictionary is none of Arrow's."""
    decoder = lz4.LZ4FrameDecompressor()
    try:
        made = decoder.decompress(frame, max_length=len(CONTENT) + 1)
    except RuntimeError:
        return None
    whole = len(made) == len(CONTENT) and decoder.eof and not decoder.unused_data
    return memoryview(made).cast("q").tolist() if whole and not frame[4] & 1 else None


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
    ours = [values_of(column_of(frame, len(CONTENT))) for frame in frames]
    assert ours == [by_the_package(frame) for frame in frames]
    assert 0 < ours.count(None) < len(ours)


def test_blocks_larger_than_the_header_says_are_refused():
    content = bytes(100_000)
    frame = lz4.compress(content, block_size=lz4.BLOCKSIZE_MAX256KB, store_size=False)
    for size in SIZES:
        header = lz4.compress(content, block_size=size, store_size=False)[:7]
        found = values_of(column_of(header + frame[7:], len(content)))
        assert found == (None if size == lz4.BLOCKSIZE_MAX64KB else [0] * 12_500)


def test_a_frame_that_failed_does_not_fail_the_next_one():
    stated = lz4.compress(CONTENT, store_size=True)
    bad = column_of(stated[:19] + b"\xff" * 4 + stated[23:], len(CONTENT))
    data = column_of(lz4.compress(bytes(300_000), block_size=SIZES[0], store_size=False), 300_000)
    for _ in range(3):
        assert values_of(bad) is None
        assert read(data).num_rows == 37_500
    decoded = ipc.decode_payloads([data, bad, data, bad, bad, data], on_error="skip", use_threads=False)
    assert decoded.counts.to_pylist() == [37_500, 0, 37_500, 0, 0, 37_500]
    assert decoded.num_alone == 3
