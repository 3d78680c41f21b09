"""Laws of the way from stored bytes to readable ones: decompression, byte order, alignment, owners."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers import optional
from helpers.arrays import address
from helpers.forge import (
    DOUBLE,
    INT8,
    INT16,
    INT32,
    INT64,
    LARGE_LIST,
    LARGE_UTF8,
    LIST_VIEW,
    UTF8,
    UTF8_VIEW,
    Table,
    batch,
    bits,
    dictionary,
    encoding,
    field,
    i16,
    i32,
    i64,
    schema,
    stream,
    view,
)
from helpers.processes import run_python
from hypothesis import given, strategies as st
from read.codec_ways import look_again

import arrowipc as ipc
from arrowipc import FormatError, LimitError, _core, codecs
from arrowipc._core import live_objects

zstandard = optional("zstandard")

lz4 = pytest.importorskip("lz4.frame")

LZ4, ZSTD = 0, 1
FRAMES: dict[int, Callable[[bytes], bytes]] = {
    LZ4: lz4.compress,
    ZSTD: zstandard.ZstdCompressor().compress,
}
both = pytest.mark.parametrize("codec", [LZ4, ZSTD], ids=["lz4", "zstd"])


def read(data: Any, **options: Any) -> Any:
    """The one batch of a stream."""
    with ipc.open_stream(data, **options) as reader:
        (found,) = reader
    return found


def packed(codec: int, data: bytes, claim: int | None = None) -> bytes:
    return i64(len(data) if claim is None else claim) + FRAMES[codec](data)


# Compression: what is in a buffer's place, and what is not believed.


@both
@given(
    ways=st.lists(st.sampled_from(["frame", "raw", "raw and longer", "empty"]), min_size=1, max_size=8),
    n=st.integers(0, 200),
    threads=st.booleans(),
)
def test_106_each_buffer_is_stored_its_own_way(codec, ways, n, threads):
    buffers, nodes, expected = [], [], []
    for i, way in enumerate(ways):
        count = 0 if way == "empty" else n
        plain = np.arange(i, i + count, dtype="<i8").tobytes()
        stored = {
            "frame": packed(codec, plain),
            "raw": i64(-1) + plain,
            "raw and longer": i64(-1) + plain + bytes(24),
        }
        buffers += [b"", stored.get(way, b"")]
        if way == "empty":
            # Its length is wanted all the same: a null column has no buffer to fill it.
            buffers[-1] = i64(-1) + bytes(8 * n)
        nodes.append((n, 0))
        expected.append(list(range(i, i + n)) if count or not n else [0] * n)
    columns = schema(*[field(str(i), INT64) for i in range(len(ways))])
    found = read(stream(columns, batch(n, nodes, buffers, codec=codec)), use_threads=threads)
    assert [column.to_pylist() for column in found.columns] == expected


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
        turn = codecs.Turn(run)
        helper = threading.Thread(target=turn)
        helper.start()
        helper.join()
        run()
        if turn.error is not None:
            raise turn.error

    monkeypatch.setattr(codecs, "functions", lambda *way: {**functions(*way), create: address})
    look_again(monkeypatch)
    monkeypatch.setattr(codecs, "run_shared", helper_first)
    wide, content = schema(field("a", INT64), field("b", INT64)), bytes(1 << 23)
    data = stream(wide, batch(1 << 20, [(1 << 20, 0)] * 2, [b"", packed(codec, content)] * 2, codec=codec))
    with pytest.raises(MemoryError, match="no memory for a context"):
        read(data, limits=ipc.Limits(decompressed_ratio=1 << 20))


@both
@pytest.mark.parametrize("claim", [-(2**63), -2, 2**40, 2**62, 2**63 - 1])
def test_107_absurd_claims_are_refused_before_memory_is_asked_for(codec, claim):
    kinds = {"fixed": (INT64, [b"", packed(codec, bytes(80), claim)])}
    kinds["text"] = UTF8, [b"", packed(codec, i32(*range(11))), packed(codec, b"0123456789", claim)]
    before = live_objects()["memory"]
    for kind, buffers in kinds.values():
        with pytest.raises(FormatError, match=f"claims {claim:,} bytes|length is {claim}"):
            read(stream(schema(field("x", kind)), batch(10, [(10, 0)], buffers, codec=codec)))
    assert live_objects()["memory"] == before


def test_108_buffers_of_known_size_are_no_bombs():
    """A megabyte of zeros in 60 bytes is fine as text, and not as ten integers."""
    bomb = packed(ZSTD, bytes(1 << 20))
    with pytest.raises(LimitError, match=r"its 10 elements need 80"):
        read(stream(schema(field("x", INT64)), batch(10, [(10, 0)], [b"", bomb], codec=ZSTD)))
    with pytest.raises(LimitError, match=r"its 10 elements need 2\b"):
        read(stream(schema(field("x", INT64)), batch(10, [(10, 1)], [bomb, bytes(0)], codec=ZSTD)))
    offsets = packed(ZSTD, i32(0, 1 << 20))
    found = read(stream(schema(field("x", UTF8)), batch(1, [(1, 0)], [b"", offsets, bomb], codec=ZSTD)))
    assert found.column(0).to_pylist() == ["\0" * (1 << 20)]
    # Slack behind the values, as behind an untrimmed slice, is no bomb.
    slack = packed(ZSTD, np.random.default_rng(1).bytes(1 << 20))
    assert read(stream(schema(field("x", INT8)), batch(10, [(10, 0)], [b"", slack], codec=ZSTD))).num_rows == 10


def test_109_lz4_cannot_hold_more_than_255_times_its_size():
    frame = lz4.compress(b"x" * 100, store_size=False)
    with pytest.raises(FormatError, match="cannot hold more than 255 times"):
        read(
            stream(
                schema(field("x", UTF8)),
                batch(1, [(1, 0)], [b"", i64(-1) + i32(0, 9), i64(300 * len(frame)) + frame], codec=LZ4),
            )
        )


def zstd_frame(content: bytes, **options: Any) -> bytes:
    made = zstandard.ZstdCompressor(**options).compressobj()
    return made.compress(content) + made.flush()


@given(
    parts=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    sizes=st.booleans(),
    checksums=st.booleans(),
    skip=st.booleans(),
    off=st.sampled_from([0, 0, 0, -1, 1]),
    spoil=st.sampled_from([0, 0, 0, 1, 4, 8, b"\0", b"tail of bytes"]),
)
def test_110_zstd_frames_follow_one_another_to_the_very_end(parts, sizes, checksums, skip, off, spoil):
    make = zstandard.ZstdCompressor(write_content_size=True, write_checksum=checksums).compress
    frames = [make(part) if sizes else zstd_frame(part, write_checksum=checksums) for part in parts]
    if skip:
        frames.insert(0, struct.pack("<II", 0x184D2A53, 5) + b"hello")
    stored, whole = b"".join(frames), b"".join(parts)
    spoiled = stored + spoil if isinstance(spoil, bytes) else stored[: len(stored) - spoil]
    claim = len(whole) + off
    if claim < 0:
        return
    text = Table("Binary")
    data = stream(
        schema(field("x", text)),
        batch(1, [(1, 0)], [b"", i64(-1) + i32(0, len(whole)), i64(claim) + spoiled], codec=ZSTD),
    )
    if spoiled == stored and not off:
        assert read(data).column(0).to_pylist() == [whole]
    else:
        with pytest.raises(FormatError, match=r"buffer 2.*bytes"):
            read(data)


@pytest.mark.parametrize("sizes", [True, False])
def test_110_zstd_checksums_are_checked(sizes):
    content = bytes(range(256)) * 40
    frame = bytearray(zstd_frame(content, write_checksum=True, write_content_size=sizes))
    rows = [b"", i64(-1) + i32(0, len(content))]
    column = schema(field("x", Table("Binary")))
    assert read(stream(column, batch(1, [(1, 0)], [*rows, i64(len(content)) + frame], codec=ZSTD))).num_rows == 1
    frame[-1] ^= 1
    with pytest.raises(FormatError, match="checksum"):
        read(stream(column, batch(1, [(1, 0)], [*rows, i64(len(content)) + frame], codec=ZSTD)))


@pytest.mark.parametrize("width", [0, 1, 2, 4])
@pytest.mark.parametrize("size_width", [0, 1, 2, 4, 8])
def test_110_zstd_headers_of_every_width(width, size_width):
    """One raw block, written by hand after RFC 8878, under each width of dictionary id and content size."""
    content = b"z" * 300

    def frame(id_: int, stated: int) -> bytes:
        flags = {0: 0, 1: 0, 2: 0x40, 4: 0x80, 8: 0xC0}[size_width] | (0x20 if size_width == 1 else 0)
        flags |= {0: 0, 1: 1, 2: 2, 4: 3}[width]
        window = b"" if size_width == 1 else b"\x50"
        size = struct.pack("<q", stated - 256 if size_width == 2 else stated)[:size_width]
        head = struct.pack("<IB", 0xFD2FB528, flags) + window + id_.to_bytes(width, "little") + size
        return head + (len(content) << 3 | 1).to_bytes(3, "little") + content

    def rows(stored: bytes, claim: int) -> bytes:
        offsets = i64(-1) + i32(0, claim)
        return stream(
            schema(field("x", Table("Binary"))),
            batch(1, [(1, 0)], [b"", offsets, i64(claim) + stored], codec=ZSTD),
        )

    if size_width == 1:
        content = content[:255]
    assert read(rows(frame(0, len(content)), len(content))).column(0).to_pylist() == [content]
    if width:
        for id_ in (1, 1 << 8 * width - 1):
            with pytest.raises(FormatError, match="needs a dictionary"):
                read(rows(frame(id_, len(content)), len(content)))
    if size_width:
        with pytest.raises(FormatError, match="states a larger size"):
            read(rows(frame(0, len(content)), len(content) - 1))
        with pytest.raises(FormatError, match="holds less"):
            read(rows(frame(0, len(content)), len(content) + 1))


@both
def test_108_any_damage_gives_values_or_a_refusal(codec):
    content = np.arange(3000, dtype="<i8").tobytes()
    whole = packed(codec, content)
    chance = np.random.default_rng(7)
    for _ in range(300):
        frame = bytearray(whole)
        for _ in range(chance.integers(1, 4)):
            frame[chance.integers(8, len(frame))] = chance.integers(256)
        if chance.integers(2):
            del frame[chance.integers(8, len(frame)) :]
        try:
            found = read(stream(schema(field("x", INT64)), batch(3000, [(3000, 0)], [b"", bytes(frame)], codec=codec)))
        except FormatError:
            continue
        assert found.column(0).length == 3000


@both
def test_decompressed_batches_let_go_of_their_source(codec):
    data = bytearray(
        stream(schema(field("x", INT64)), batch(100, [(100, 0)], [b"", packed(codec, bytes(800))], codec=codec))
    )
    found = read(data)
    gc.collect()
    data.clear()  # a BufferError while anything points into it
    assert found.column(0).to_pylist() == [0] * 100
    raw = bytearray(stream(schema(field("x", INT64)), batch(1, [(1, 0)], [b"", i64(-1) + i64(5)], codec=codec)))
    found = read(raw)
    with pytest.raises(BufferError):
        raw.clear()
    assert found.column(0).to_pylist() == [5]


@both
def test_decompressed_buffers_are_aligned_to_64(codec):
    columns = schema(*[field(str(i), INT8) for i in range(5)])
    buffers = [part for i in range(5) for part in (b"", packed(codec, bytes(3 + i)))]
    found = read(stream(columns, batch(3, [(3, 0)] * 5, buffers, codec=codec)))
    assert [address(column.buffers()[1]) % 64 for column in found.columns] == [0] * 5


def test_large_blocks_are_used_again_and_never_while_somebody_looks_at_them():
    content = np.arange(1 << 18, dtype="<i8")
    data = stream(
        schema(field("x", INT64)),
        batch(1 << 18, [(1 << 18, 0)], [b"", packed(LZ4, content.tobytes())], codec=LZ4),
    )
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


RESIDENT = """
import numpy as np, pyarrow as pa, arrowipc as ipc
from arrowipc import _core

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

sink = pa.BufferOutputStream()
columns = {str(i): np.arange(1 << 20) for i in range(64)}
options = pa.ipc.IpcWriteOptions(compression="zstd")
with pa.ipc.new_stream(sink, pa.record_batch(columns).schema, options=options) as writer:
    writer.write_batch(pa.record_batch(columns))
data = sink.getvalue().to_pybytes()
del columns, sink
small = [slice(i, i + 1) for i in range(64)]
first = next(iter(ipc.open_stream(data, columns=["0"])))
del first
_core.release_unused()
before = resident()
for chosen in small:  # half a gigabyte in all, a block of 8 MiB each
    next(iter(ipc.open_stream(data, columns=list(range(64))[chosen])))
held = [next(iter(ipc.open_stream(data, columns=[i]))) for i in range(64)]
assert resident() - before > 400 << 20
del held
assert resident() - before < 300 << 20, "more than 256 MiB wait"
assert resident() - before > 100 << 20, "nothing waits"
_core.release_unused()
assert resident() - before < 30 << 20, "something waits"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory is resident")
def test_no_more_than_256_mib_wait_for_the_next_batch_and_release_unused_gives_them_back():
    run_python(RESIDENT, check=True)


# Alignment.

WORDS: dict[str, tuple[Table, Sequence[bytes], list[Any], dict[int, int]]] = {
    # type, buffers, values, {buffer: the multiple that its address must be}
    "int16": (INT16, [bits(1, 1, 0), i16(1, 2, 3)], [1, 2, None], {1: 2}),
    "int32": (INT32, [bits(1, 1, 0), i32(1, 2, 3)], [1, 2, None], {1: 4}),
    "int64": (INT64, [bits(1, 1, 0), i64(1, 2, 3)], [1, 2, None], {1: 8}),
    "double": (DOUBLE, [bits(1, 1, 0), struct.pack("<3d", 1, 2, 3)], [1.0, 2.0, None], {1: 8}),
    "utf8": (UTF8, [bits(1, 1, 0), i32(0, 1, 3, 3), b"abc"], ["a", "bc", None], {1: 4}),
    "large utf8": (LARGE_UTF8, [bits(1, 1, 0), i64(0, 1, 3, 3), b"abc"], ["a", "bc", None], {1: 8}),
    "view": (UTF8_VIEW, [bits(1, 1, 0), view(b"a") + view(b"bc") + view(b"")], ["a", "bc", None], {1: 8}),
    "decimal": (
        Table("Decimal", precision=5, scale=0, bitWidth=128),
        [bits(1, 1, 0), b"".join(n.to_bytes(16, "little") for n in (1, 2, 3))],
        [1, 2, None],
        {1: 8},
    ),
    "fixed binary": (
        Table("FixedSizeBinary", byteWidth=2),
        [bits(1, 1, 0), b"aabbcc"],
        [b"aa", b"bb", None],
        {},
    ),
}


def shifted(buffers: Sequence[bytes], by: int) -> tuple[list[tuple[int, int]], bytes]:
    """Buffers at offsets that are `by` past a multiple of 8."""
    spans, body = [], bytearray()
    for buffer in buffers:
        body += bytes(-len(body) % 8 + by)
        spans.append((len(body), len(buffer)))
        body += buffer
    return spans, bytes(body + bytes(-len(body) % 8))


@pytest.mark.parametrize("by", range(8))
@pytest.mark.parametrize("kind", WORDS)
def test_074_words_are_aligned_and_bytes_stay(kind, by):
    type_, buffers, expected, needs = WORDS[kind]
    spans, body = shifted(buffers, by)
    rows = batch(3, [(3, 1)], spans, variadic=[0] if kind == "view" else None)
    rows = Table("RecordBatch", body, **rows.slots)
    # The source starts at a multiple of 64, so that what we see is the offsets in it.
    data = stream(schema(field("x", type_)), rows)
    room = np.zeros(len(data) + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    source = room[start : start + len(data)]
    column = read(source).column(0)
    assert column.to_pylist() == expected
    inside = range(source.ctypes.data, source.ctypes.data + len(source))
    for number, buffer in enumerate(column.buffers()):
        multiple = needs.get(number, 1)
        assert address(buffer) % multiple == 0
        assert (address(buffer) in inside) == (by % multiple == 0)


def test_074_dictionaries_are_aligned_too():
    spans, body = shifted([b"", i64(7, 8)], 3)
    words = Table("RecordBatch", body, **batch(2, [(2, 0)], spans).slots)
    column = field("d", INT64, dictionary=encoding(0, INT8))
    found = read(stream(schema(column), dictionary(0, words), batch(2, [(2, 0)], [b"", b"\1\0"])))
    assert found.column(0).to_pylist() == [8, 7]
    assert address(found.column(0).dictionary.buffers()[1]) % 8 == 0


# Byte order.


def test_115_a_rest_that_is_no_whole_word_is_no_harm():
    rows = batch(1, [(1, 0)], [b"", struct.pack(">q", 5) + b"\1\2\3"])
    assert read(stream(schema(field("x", INT64), endianness=1), rows)).column(0).to_pylist() == [5]


@pytest.mark.parametrize("size", [0, 1, 11, 12, 13, 40])
def test_115_views_are_swapped_by_their_length(size):
    text = bytes(range(65, 65 + size))
    if size <= 12:
        stored, extra = struct.pack(">i", size) + text.ljust(12, b"\0"), b""
    else:
        stored, extra = struct.pack(">i4sii", size, text[:4], 1, 2), b"__" + text
    rows = batch(1, [(1, 0)], [b"", stored, b"", extra], variadic=[2])
    found = read(stream(schema(field("v", UTF8_VIEW), endianness=1), rows), validate="strict")
    assert found.column(0).to_pylist() == [text.decode()]


def test_115_nested_offsets_are_swapped_by_their_width():
    big = field("l", LARGE_LIST, field("item", INT16))
    rows = batch(2, [(2, 0), (3, 0)], [b"", struct.pack(">3q", 0, 1, 3), b"", struct.pack(">3h", 1, 2, 3)])
    assert read(stream(schema(big, endianness=1), rows)).column(0).to_pylist() == [[1], [2, 3]]
    lists = field("l", LIST_VIEW, field("item", INT16))
    rows = batch(
        2,
        [(2, 0), (3, 0)],
        [b"", struct.pack(">2i", 1, 0), struct.pack(">2i", 2, 1), b"", struct.pack(">3h", 1, 2, 3)],
    )
    assert read(stream(schema(lists, endianness=1), rows)).column(0).to_pylist() == [[2, 3], [1]]


def test_114_text_and_bits_are_not_copied_by_a_swap():
    data = stream(
        schema(field("s", UTF8), endianness=1),
        batch(2, [(2, 1)], [bits(1, 0), struct.pack(">3i", 0, 2, 2), b"ab"]),
    )
    column = read(data).column(0)
    source = range(address(memoryview(data)), address(memoryview(data)) + len(data))
    assert [address(buffer) in source for buffer in column.buffers()] == [True, False, True]
    assert column.to_pylist() == ["ab", None]


@both
def test_116_damage_is_looked_for_after_both_steps(codec):
    offsets = packed(codec, struct.pack(">3i", 0, 2, 1))
    rows = batch(2, [(2, 0)], [b"", offsets, packed(codec, b"ab")], codec=codec)
    with pytest.raises(FormatError, match="offset 2 is 1"):
        read(stream(schema(field("s", UTF8), endianness=1), rows))
