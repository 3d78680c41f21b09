"""Format checklist 118-122: columns that are not asked for, and sources that are not bytes."""

from __future__ import annotations

import ctypes
import io
import itertools
import mmap
import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest
from helpers import drive, golden
from helpers.drive import ShortReads, read_file, read_stream
from helpers.forge import (
    INT8,
    INT32,
    LIST,
    LIST_VIEW,
    NULL,
    REE,
    STRUCT,
    UTF8,
    UTF8_VIEW,
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
    message,
    schema,
    stream,
    view,
)

import arrowipc as ipc
from arrowipc import FormatError, UsageError

LONG = b"longer than twelve bytes"
EVERYTHING = schema(
    field("n", NULL),
    field("v", UTF8_VIEW),
    field("lv", LIST_VIEW, field("item", UTF8_VIEW)),
    field("u", Table("Union", mode=1, typeIds=[3, 9]), field("a", INT8), field("b", UTF8)),
    field("r", REE, field("run_ends", INT32, nullable=False), field("values", UTF8_VIEW)),
    field("d", UTF8, dictionary=encoding(0, INT8)),
    field("s", STRUCT, field("x", INT32), field("l", LIST, field("item", NULL))),
    field("i", INT32),
)
NODES = [
    (2, 2),
    (2, 0),
    (2, 0),
    (1, 0),
    (2, 0),
    (1, 0),
    (1, 0),
    (2, 0),
    (1, 0),
    (1, 0),
    (2, 1),
    (2, 0),
    (2, 0),
    (2, 0),
    (1, 1),
    (2, 0),
]


def everything(version: int) -> tuple[Table, Table]:
    """A dictionary and a batch of all layouts; V4 unions and run-end encoded columns have one buffer more."""
    buffers = [b"", view(LONG, 1) + view(b"x"), b"", LONG, b"", i32(0, 0), i32(1, 0), b"", view(LONG), LONG]
    buffers += [b""] * (version == V4) + [i8(9, 3), i32(0, 0), b"", i8(5), b"", i32(0, 1), b"z"]
    buffers += [b""] * (version == V4) + [b"", i32(2), b"", view(LONG), LONG, bits(1, 0), i8(1, 0)]
    buffers += [b"", b"", i32(7, 8), b"", i32(0, 1, 1), b"", i32(-1, -2)]
    words = dictionary(0, batch(2, [(2, 0)], [b"", i32(0, 1, 2), b"pq"]))
    return words, batch(2, NODES, buffers, variadic=[2, 1, 1])


TEXT = LONG.decode()
COLUMNS = {
    "n": [None, None],
    "v": [TEXT, "x"],
    "lv": [[TEXT], []],
    "u": ["z", 5],
    "r": [TEXT, TEXT],
    "d": ["q", None],
    "s": [{"x": 7, "l": [None]}, {"x": 8, "l": []}],
    "i": [-1, -2],
}


@pytest.mark.parametrize("version", [V4, 4])
@pytest.mark.parametrize(
    "names",
    [
        *itertools.permutations(COLUMNS, 1),
        *itertools.combinations(COLUMNS, 2),
        tuple(COLUMNS),
        ("i", "n"),
        (),
    ],
    ids=" ".join,
)
def test_118_skipped_columns_consume_exactly_their_parts(names, version):
    parts = (EVERYTHING, *everything(version))
    expected = [[COLUMNS[name] for name in names]]
    for columns in (list(names), [list(COLUMNS).index(name) for name in names]):
        reading = read_stream(stream(*parts, version=version), columns=columns)
        assert reading.schema.names == list(names)
        assert (reading.values(), reading.rows()) == (expected, [2])
        assert read_file(file(*parts, version=version), columns=columns).values() == expected


def test_118_all_columns_by_default():
    parts = (EVERYTHING, *everything(4))
    assert read_stream(stream(*parts)).values() == [list(COLUMNS.values())]


def test_118_nested_columns_by_dotted_path():
    parts = (EVERYTHING, *everything(4))
    reading = read_stream(stream(*parts), columns=["s.x", "i"])
    assert reading.values() == [[[{"x": 7}, {"x": 8}], [-1, -2]]]
    assert read_stream(stream(*parts), columns=["s.l"]).values() == [[[{"l": [None]}, {"l": []}]]]


def test_118_a_name_with_a_dot_is_a_name_first():
    root = schema(field("a.b", INT32), field("a", STRUCT, field("b", INT32)))
    rows = batch(1, [(1, 0)] * 3, [b"", i32(1), b"", b"", i32(2)])
    assert read_stream(stream(root, rows), columns=["a.b"]).values() == [[[1]]]


@pytest.mark.parametrize("columns", [["nobody"], [8], [-9], ["s.nobody"], ["i.x"], [None], [1.5]])
def test_118_columns_that_do_not_exist(columns):
    parts = (EVERYTHING, *everything(4))
    for data, drivers in ((stream(*parts), drive.STREAM_DRIVERS), (file(*parts), drive.FILE_DRIVERS)):
        for driver in drivers:
            with pytest.raises((UsageError, TypeError)):
                driver(data, columns=columns)


def test_118_duplicate_names_need_an_index():
    root = schema(field("a", INT32), field("a", INT32), field("b", INT32))
    rows = batch(1, [(1, 0)] * 3, [b"", i32(1), b"", i32(2), b"", i32(3)])
    assert read_stream(stream(root, rows), columns=[1, "b"]).values() == [[[2], [3]]]
    with pytest.raises(UsageError, match="a"):
        drive.from_bytes(stream(root, rows), columns=["a"])


def test_118_damage_in_a_skipped_column_is_not_looked_at():
    root = schema(field("a", UTF8), field("b", INT32))
    rows = batch(1, [(1, 0)] * 2, [b"", i32(0, 1), b"\xff", b"", i32(3)])
    assert read_stream(stream(root, rows), columns=["b"]).values() == [[[3]]]
    drive.refuse_stream(stream(root, rows), FormatError, "UTF-8", columns=["a"])


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: f"{case.parent.name}/{case.name}")
def test_118_projection_of_every_golden(case):
    data = golden.load(case)
    for source, opener in ((data.stream, ipc.open_stream), (data.file, ipc.open_file)):
        with opener(source) as reader:
            full = [[column.to_pylist() for column in rows.columns] for rows in reader]
            names = reader.schema.names
        chance = random.Random(case.name)
        picks = [[i] for i in range(len(names))] + [[], list(range(len(names)))[::-1]]
        picks += [sorted(chance.sample(range(len(names)), chance.randint(0, len(names)))) for _ in range(3)]
        for pick in picks[:12]:
            with opener(source, columns=pick) as reader:
                found = [(rows.num_rows, [column.to_pylist() for column in rows.columns]) for rows in reader]
            assert repr([values for _, values in found]) == repr([[columns[i] for i in pick] for columns in full])


CODED = schema(field("d", UTF8, dictionary=encoding(0, INT8)), field("i", INT32))
ROWS = batch(1, [(1, 0)] * 2, [b"", i8(0), b"", i32(5)])


def test_119_dictionaries_of_skipped_columns_are_not_needed():
    broken = dictionary(0, batch(1, [(1, 0)], [b"", i32(0, 99), b"a"]))
    delta = dictionary(0, batch(1, [(1, 0)], [b"", i32(0, 1), b"b"]), isDelta=True)
    for parts in ((ROWS,), (broken, ROWS), (broken, delta, ROWS)):
        assert read_stream(stream(CODED, *parts), columns=["i"]).values() == [[[5]]]
        assert read_file(file(CODED, *parts), columns=["i"]).values() == [[[5]]]


def test_119_inner_dictionaries_of_selected_columns_are_loaded():
    inner = field("item", UTF8, dictionary=encoding(1, INT8))
    root = schema(field("i", INT32), field("l", LIST, inner, dictionary=encoding(2, INT8)))
    words = dictionary(1, batch(2, [(2, 0)], [b"", i32(0, 1, 2), b"ab"]))
    lists = dictionary(2, batch(1, [(1, 0), (2, 0)], [b"", i32(0, 2), b"", i8(1, 0)]))
    rows = batch(1, [(1, 0)] * 2, [b"", i32(5), b"", i8(0)])
    assert read_stream(stream(root, words, lists, rows), columns=["l"]).values() == [[[["b", "a"]]]]
    assert read_stream(stream(root, words, lists, rows), columns=["i"]).values() == [[[5]]]


class Watched(io.BytesIO):
    """Records which byte ranges were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def readinto(self, target) -> int:
        start = self.tell()
        count = super().readinto(target)
        self.ranges.append((start, start + count))
        return count

    def read(self, size=-1) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.ranges.append((start, start + len(data)))
        return data

    def touched(self, start: int, end: int) -> int:
        return sum(max(0, min(end, b) - max(start, a)) for a, b in self.ranges)


MANY = 100_000


def wide_file() -> tuple[bytes, int]:
    """A file of one batch with 20 columns of 400 kB, and where its body starts."""
    columns = pa.record_batch({f"c{i}": pa.array([i] * MANY, pa.int32()) for i in range(20)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue().to_pybytes(), 0


def test_120_only_the_needed_ranges_are_read():
    data, _ = wide_file()
    source = Watched(data)
    with ipc.open_file(source, columns=["c7"]) as reader:
        (rows,) = reader
        assert rows.column(0).to_pylist() == [7] * MANY
    assert source.touched(0, len(data)) < 4 * MANY + 600_000


def test_121_counting_rows_reads_no_body():
    data, _ = wide_file()
    source = Watched(data)
    with ipc.open_file(source) as reader:
        assert reader.count_rows() == MANY
    assert source.touched(0, len(data)) < 200_000


def test_121_rows_of_many_batches():
    parts = [batch(n, [(n, 0)], [b"", i32(*range(n))]) for n in (3, 0, 5)]
    with ipc.open_file(file(schema(field("x", INT32)), *parts)) as reader:
        assert reader.count_rows() == 8


ONE = schema(field("x", INT32))
THREE = batch(3, [(3, 0)], [b"", i32(1, 2, 3)])
STREAM = stream(ONE, THREE, message(THREE), THREE)


def values_of(source) -> list:
    with ipc.open_stream(source) as reader:
        return [rows.column(0).to_pylist() for rows in reader]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 64])
def test_122_short_reads(size):
    assert values_of(ShortReads(STREAM, itertools.repeat(size))) == [[1, 2, 3]] * 3


class ReadOnly:
    """A source with nothing but `read`, which returns what it likes, but at most what was asked for."""

    def __init__(self, data: bytes) -> None:
        self._source = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._source.read(min(size, 5) if size >= 0 else -1)


def test_122_sources_that_only_read():
    assert values_of(ReadOnly(STREAM)) == [[1, 2, 3]] * 3


class Liar(ReadOnly):
    def __init__(self, answer) -> None:
        self._answer = answer

    def read(self, size: int = -1):
        return self._answer


@pytest.mark.parametrize("answer", ["text", 7, b"x" * 1_000_000])
def test_122_sources_that_break_the_rules_of_read(answer):
    with pytest.raises((TypeError, ipc.ArrowIpcError, ValueError)):
        values_of(Liar(answer))


class NonBlocking(io.RawIOBase):
    """Has a few bytes now, and `None` after them."""

    def __init__(self, ready: bytes) -> None:
        self._ready = io.BytesIO(ready)

    def readable(self) -> bool:
        return True

    def readinto(self, target):
        return self._ready.readinto(target) or None


@pytest.mark.parametrize("ready", [0, 3, 8, 100, len(STREAM) - 8])
def test_122_nothing_to_read_now_is_blocking_io_error(ready):
    with pytest.raises(BlockingIOError):
        values_of(NonBlocking(STREAM[:ready]))
    with pytest.raises(BlockingIOError):
        values_of(Liar(None))


class Failing(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, target):
        raise ConnectionResetError("the peer is gone")


def test_122_errors_of_the_source_pass_through():
    with pytest.raises(ConnectionResetError, match="the peer is gone"):
        values_of(Failing())


def test_122_pipes():
    reading, writing = os.pipe()
    feeder = threading.Thread(target=lambda: (os.write(writing, STREAM), os.close(writing)))
    feeder.start()
    with open(reading, "rb", buffering=0) as source:
        assert values_of(source) == [[1, 2, 3]] * 3
    feeder.join()


def test_122_sockets():
    left, right = socket.socketpair()

    def feed() -> None:
        with left:
            for start in range(0, len(STREAM), 11):
                left.sendall(STREAM[start : start + 11])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with right, right.makefile("rb") as source:
        assert values_of(source) == [[1, 2, 3]] * 3
    feeder.join()


def test_122_a_batch_is_given_before_the_next_one_arrives():
    parts = [message(ONE), message(THREE), message(THREE)]
    left, right = socket.socketpair()
    with left, right, right.makefile("rb", buffering=0) as source:
        left.sendall(parts[0] + parts[1])
        reader = ipc.open_stream(source)
        assert reader.read_next_batch().num_rows == 3
        left.sendall(parts[2])
        assert reader.read_next_batch().num_rows == 3
        left.shutdown(socket.SHUT_WR)
        with pytest.raises(StopIteration):
            reader.read_next_batch()


def test_122_data_outlives_its_reader_and_its_source(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(file(ONE, THREE))
    with path.open("rb") as source, ipc.open_file(source) as reader:
        by_object = reader[0]
    with ipc.open_file(path) as reader:
        by_map = reader[0]
    with ipc.open_file(path, memory_map=False) as reader:
        by_read = reader[0]
    path.unlink()
    for rows in (by_object, by_map, by_read):
        assert rows.to_pydict() == {"x": [1, 2, 3]}


def test_122_a_buffer_in_use_cannot_be_resized():
    source = bytearray(STREAM)
    reader = ipc.open_stream(source)
    (first, *_) = list(reader)
    with pytest.raises(BufferError):
        source.clear()
    assert first.column(0).to_pylist() == [1, 2, 3]


def test_122_closed_readers_and_sources():
    reader = ipc.open_stream(STREAM)
    reader.close()
    with pytest.raises(UsageError):
        reader.read_next_batch()
    reader.close()
    source = io.BytesIO(STREAM)
    source.close()
    with pytest.raises(UsageError, match="file object is closed"):
        values_of(source)


@pytest.mark.parametrize("source", [None, 7, "no such file.arrow", object(), ["a"]])
def test_122_sources_that_are_none(source):
    for opener in (ipc.open_stream, ipc.open_file, ipc.open):
        with pytest.raises((TypeError, OSError, UsageError)):
            opener(source)


def test_122_buffers_of_other_kinds():
    strange = memoryview(STREAM).cast("B", shape=[1, len(STREAM)])
    for source in (bytearray(STREAM), memoryview(STREAM), pa.py_buffer(STREAM), strange):
        assert values_of(source) == [[1, 2, 3]] * 3
    with pytest.raises((BufferError, ValueError, TypeError, UsageError)):
        values_of(memoryview(STREAM)[::2])


@contextmanager
def guarded(data: bytes) -> Iterator[memoryview]:
    """The data with an unreadable page right behind it: reading one byte too many ends the process."""
    page = mmap.PAGESIZE
    size = -(-len(data) // page) * page
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    base = libc.mmap(None, size + page, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert base
    assert base != ctypes.c_void_p(-1).value
    assert libc.mprotect(base + size, page, 0) == 0
    start = base + size - len(data)
    ctypes.memmove(start, data, len(data))
    try:
        yield memoryview((ctypes.c_ubyte * len(data)).from_address(start)).cast("B").toreadonly()
    finally:
        libc.munmap(base, size + page)


def use_all(opener, source) -> None:
    with opener(source) as reader:
        for rows in reader:
            drive.use(rows)


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: f"{case.parent.name}/{case.name}")
def test_122_nothing_behind_the_input_is_read(case):
    data = golden.load(case)
    for path, opener in ((data.stream, ipc.open_stream), (data.file, ipc.open_file)):
        with guarded(path.read_bytes()) as source:
            use_all(opener, source)


def test_122_nothing_behind_a_torn_input_is_read():
    parts = (EVERYTHING, *everything(4))
    whole = stream(*parts)
    for end in range(0, len(whole), 3):
        with guarded(whole[:end] or b"\0") as source, suppress(ipc.ArrowIpcError):
            use_all(ipc.open_stream, source)


def test_122_nothing_behind_a_body_without_padding_is_read():
    root = schema(field("x", UTF8))
    text = batch(1, [(1, 0)], [b"", i32(0, 3), b"abc"])
    bare = message(text, body=i32(0, 3) + b"abc")
    for source_bytes in (
        stream(root, bare, eos=b""),
        stream(ONE, message(THREE, body=i32(1, 2, 3)), eos=b""),
    ):
        with guarded(source_bytes) as source:
            use_all(ipc.open_stream, source)


def test_120_urls_are_opened_with_fsspec_and_read_in_parts(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    url = "memory://somewhere/x.arrow"
    with fsspec.open(url, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with ipc.open(url) as reader:
        assert reader.read_all().to_pydict() == table.to_pydict()
    with ipc.open(url, columns=["b"]) as reader:
        assert reader.read_all().to_pydict() == {"b": ["x", None, "z"]}
