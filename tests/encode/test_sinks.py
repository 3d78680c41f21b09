"""Where writers write to: paths, file objects, sockets, pipes, memory; and what can go wrong there."""

import gc
import io
import itertools
import mmap
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrays
from helpers.arrays import ipc_bytes
from helpers.processes import alarms

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.arguments import described

ROWS = 300_000


#: Three rows of the columns of `big`.
SMALL = ipc.record_batch({"x": [1, None, 3], "n": [None, 1, 2], "t": ["a", "bc", None], "one": [None] * 3})


@pytest.fixture(scope="module")
def big() -> ipc.RecordBatch:
    """A few megabytes, in large and small buffers, with nulls."""
    numbers = np.arange(ROWS)
    sevenths = pa.array([None if i % 7 == 0 else i for i in range(ROWS)], pa.int64())
    columns = {"x": numbers, "n": sevenths, "t": numbers.astype(str), "one": pa.nulls(ROWS)}
    return arrays.read_batch(pa.record_batch(columns))


def write_to(sink: Any, *batches: ipc.RecordBatch, **options: Any) -> None:
    with ipc.new_stream(sink, **options) as writer:
        for batch in batches:
            writer.write(batch)


# -- paths and file objects ----------------------------------------------------------------------------------


@pytest.mark.parametrize("buffering", [0, -1, 16])
def test_a_file_object_is_written_from_its_position_and_stays_open(tmp_path, buffering, big):
    with open(tmp_path / "x", "wb", buffering=buffering) as file:
        file.write(b"before")
        write_to(file, SMALL, big)
        # Flushed, where there is something to flush.
        assert (tmp_path / "x").read_bytes() == b"before" + ipc_bytes([SMALL, big])
        file.write(b"after")
        write_to(file, SMALL)
    assert (tmp_path / "x").read_bytes() == b"before" + ipc_bytes([SMALL, big]) + b"after" + ipc_bytes(SMALL)


def test_a_bytesio_that_keeps_what_it_is_given_has_a_copy_of_its_own(big):
    """Messages for a plain BytesIO are joined in memory that is used again."""

    class Listing(io.BytesIO):
        def write(self, data: Any) -> int:
            kept.append(data)
            return super().write(data)

    kept: list[Any] = []
    borrowed = io.BytesIO()
    borrowed.write = lambda data: kept.append(data) or len(data)
    for sink in (Listing(), borrowed):
        kept.clear()
        write_to(sink, SMALL, SMALL, SMALL)
        assert b"".join(kept) == ipc_bytes([SMALL] * 3)
    sink = io.BytesIO(b"before")
    sink.seek(0, io.SEEK_END)
    write_to(sink, SMALL, big, SMALL)
    assert sink.getvalue() == b"before" + ipc_bytes([SMALL, big, SMALL])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: open(path), "open it in binary mode"),  # noqa: SIM115
        (lambda path: open(path, "rb"), "not open for writing"),  # noqa: SIM115
        (lambda path: open(path, "rb", buffering=0), "not open for writing"),  # noqa: SIM115
        (lambda path: io.StringIO(), "open it in binary mode"),
        (lambda path: 7, "expected a path, .*, found int 7"),
        (lambda path: None, "expected a path, .*, found NoneType None"),
        (lambda path: b"name", "cannot write to the memory of this bytes: .*"),
        (lambda path: memoryview(b"name"), "cannot write to the memory of this memoryview"),
        (lambda path: memoryview(bytearray(90))[::2], "cannot write to the memory of this memoryview"),
        (lambda path: np.arange(9).reshape(3, 3)[:, 1], "cannot write to the memory of this ndarray"),
        (lambda path: np.array([None] * 500), "holds Python objects"),
    ],
)
def test_what_cannot_be_a_sink_is_refused_with_a_reason(tmp_path, make, words):
    (tmp_path / "x").touch()
    sink = make(tmp_path / "x")
    with pytest.raises(UsageError, match=words):
        ipc.new_stream(sink, SMALL.schema)
    if isinstance(sink, io.IOBase):
        sink.close()


def test_a_file_object_that_is_closed_meanwhile_does_not_lend_its_descriptor_to_another(tmp_path):
    file = open(tmp_path / "x", "wb", buffering=0)  # noqa: SIM115
    writer = ipc.new_stream(file, SMALL.schema)
    number = file.fileno()
    file.close()
    with open(tmp_path / "other", "wb", buffering=0) as other:
        assert other.fileno() == number
        with pytest.raises(ValueError, match="closed"):
            writer.write(SMALL)
    assert (tmp_path / "other").read_bytes() == b""


# -- memory --------------------------------------------------------------------------------------------------


def test_a_bytearray_grows_behind_what_is_there():
    sink = bytearray(b"there")
    write_to(sink, SMALL)
    assert sink == b"there" + ipc_bytes(SMALL)
    write_to(sink, SMALL, alignment=64)
    assert sink[5 + len(ipc_bytes(SMALL)) :] == ipc_bytes(SMALL, alignment=64)


def test_a_bytearray_that_cannot_grow_says_why():
    sink = bytearray()
    writer = ipc.new_stream(sink, SMALL.schema)
    with memoryview(sink), pytest.raises(UsageError, match="the bytearray cannot grow while a memoryview"):
        writer.write(SMALL)


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        lambda size: np.zeros(size, np.uint8),
        lambda size: np.zeros(-(-size // 8), np.int64),
        lambda size: np.zeros((1, size), np.uint8),
    ],
    ids=["bytearray", "bytes", "words", "table"],
)
def test_writable_memory_is_filled_from_its_start(make):
    data = ipc_bytes(SMALL, compression="zstd")
    room = make(len(data) + 100)
    view = memoryview(room)
    write_to(view if isinstance(room, bytearray) else room, SMALL, compression="zstd")
    found = bytes(view)
    assert found[: len(data)] == data
    assert not any(found[len(data) :])
    (batch,) = ipc.open_stream(room)
    assert batch.equals(SMALL)


@pytest.mark.parametrize("opener", [ipc.new_stream, ipc.new_file])
def test_memory_may_fit_exactly_and_nothing_behind_it_is_touched(opener, big):
    for batch in (SMALL, big):
        sink = bytearray()
        with opener(sink, batch.schema) as writer:
            writer.write(batch)
        size = len(sink)
        room = bytearray(b"\xee" * (size + 64))
        with opener(memoryview(room)[:size], batch.schema) as writer:
            writer.write(batch)
        assert room[:size] == sink
        assert room[size:] == b"\xee" * 64
        for missing in (1, 8, size // 2):
            room = bytearray(b"\xee" * (size + 64))
            with (
                pytest.raises(UsageError, match=r"the buffer is full: the next [\d,]+ bytes do not fit"),
                opener(memoryview(room)[: size - missing], batch.schema) as writer,
            ):
                writer.write(batch)
            assert room[size - missing :] == b"\xee" * (64 + missing)


def test_memory_is_let_go_when_the_writer_is_closed():
    room = bytearray(10_000)
    writer = ipc.new_stream(memoryview(room), SMALL.schema)
    with pytest.raises(BufferError):
        room.append(0)
    writer.close()
    room.append(0)
    with pytest.raises(ZeroDivisionError), ipc.new_stream(memoryview(room), SMALL.schema):
        raise ZeroDivisionError
    room.append(0)
    ipc.new_stream(memoryview(room), SMALL.schema)
    gc.collect()
    room.append(0)


def test_a_map_is_written_from_its_position_which_moves(tmp_path):
    data = ipc_bytes(SMALL)
    (tmp_path / "x").write_bytes(bytes(4096))
    with open(tmp_path / "x", "r+b") as file, mmap.mmap(file.fileno(), 4096) as room:
        room.seek(10)
        write_to(room, SMALL)
        assert room.tell() == 10 + len(data)
        write_to(room, SMALL)
        assert room.tell() == 10 + 2 * len(data)
        room.seek(4090)
        with pytest.raises(UsageError, match="the buffer is full"):
            ipc.new_stream(room, SMALL.schema)
    assert (tmp_path / "x").read_bytes() == (bytes(10) + data + data).ljust(4096, b"\0")


# -- pipes, sockets, devices ---------------------------------------------------------------------------------


@contextmanager
def slowly_read(source: int) -> Iterator[bytearray]:
    """Read a descriptor in a thread, in pieces of many sizes; behind the block, all is there."""
    seen = bytearray()

    def read() -> None:
        with open(source, "rb", buffering=0) as file:
            time.sleep(0.05)
            for i, size in enumerate(itertools.cycle([1, 7, 4096, 100, 65536, 1 << 20])):
                if not (part := file.read(size)):
                    break
                seen.extend(part)
                if i % 50 == 0:
                    time.sleep(0.001)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield seen
    thread.join()


@pytest.mark.parametrize("make", [lambda s: s, lambda s: s.makefile("wb"), lambda s: s.makefile("wb", buffering=0)])
def test_a_socket_carries_a_stream(make, big):
    here, there = socket.socketpair()
    with slowly_read(there.detach()) as seen, here:
        sink = make(here)
        write_to(sink, big, SMALL)
        if sink is not here:
            sink.close()
        here.shutdown(socket.SHUT_WR)
    assert seen == ipc_bytes([big, SMALL])


@pytest.mark.parametrize("name", ["{}", "file://{}", "local://{}"])
def test_a_fifo_is_written_to_and_not_replaced_also_by_a_url(tmp_path, big, name):
    if "local" in name:
        pytest.importorskip("fsspec")
    os.mkfifo(pipe := tmp_path / "pipe")
    source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = ipc.new_stream(name.format(pipe))
    os.set_blocking(source, True)
    with slowly_read(source) as seen, writer:
        writer.write(big)
    assert pipe.is_fifo()
    assert seen == ipc_bytes([big])
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_pipe_that_does_not_block_is_refused_when_it_is_full(buffering, big):
    source, target = os.pipe()
    os.set_blocking(target, False)
    file = open(target, "wb", buffering=buffering)  # noqa: SIM115
    with pytest.raises(BlockingIOError), ipc.new_stream(file) as writer:
        writer.write(big)
    with pytest.raises(UsageError, match=r"cannot continue: .*"):
        writer.write(SMALL)
    os.close(source)
    # A buffered file has bytes left that nobody can take.
    with pytest.raises(OSError, match="pipe") if buffering else nullcontext():
        file.close()


def test_signals_during_a_blocked_write_are_handled_and_the_write_goes_on(big):
    source, target = os.pipe()
    hits = []
    with (
        slowly_read(source) as seen,
        alarms(lambda *_: hits.append(1), 0.002, 0.002),
        open(target, "wb", buffering=0) as sink,
    ):
        write_to(sink, big, big)
    assert hits
    assert seen == ipc_bytes([big, big])


def test_a_signal_handler_that_raises_ends_a_blocked_write(big):
    source, target = os.pipe()
    with open(target, "wb", buffering=0) as sink:
        writer = ipc.new_stream(sink, big.schema)
        with alarms(signal.default_int_handler, 0.05), pytest.raises(KeyboardInterrupt):
            writer.write(big)
        with pytest.raises(UsageError, match="an error ended it: KeyboardInterrupt"):
            writer.write(SMALL)
    os.close(source)


@pytest.mark.parametrize("columns", [300, 3000])
def test_more_buffers_than_one_call_takes(tmp_path, columns):
    theirs = pa.record_batch({f"c{i}": pa.array([i, None, i + 1], pa.int32()) for i in range(columns)})
    batch = arrays.read_batch(theirs)
    data = ipc_bytes([batch, batch], alignment=64)
    write_to(tmp_path / "x", batch, batch, alignment=64, durable=False)
    assert (tmp_path / "x").read_bytes() == data
    found = list(ipc.open_stream(data, validate="strict"))
    assert all(each.equals(batch) for each in found)


# -- objects that behave in their own ways -------------------------------------------------------------------


class Short(io.RawIOBase):
    """Takes a few bytes at a time."""

    def __init__(self, size: Callable[[int], Any]) -> None:
        self.taken, self.size = bytearray(), size

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> Any:
        count = self.size(len(data))
        self.taken += bytes(data[: count if isinstance(count, int) else len(data)])
        return count


@pytest.mark.parametrize("most", [1, 3, 1000, 70_000])
def test_short_writes_are_continued(most, big):
    batch = big.slice(0, 30_000 if most > 10 else 20)
    sink = Short(lambda size: min(size, most))
    write_to(sink, batch)
    assert sink.taken == ipc_bytes(batch)


def test_none_from_a_raw_file_means_that_it_would_block_and_from_others_that_all_was_taken(big):
    with pytest.raises(BlockingIOError, match="need a blocking sink"):
        write_to(Short(lambda size: None), SMALL)

    parts: list[bytes] = []
    write_to(SimpleNamespace(write=lambda data: parts.append(bytes(data))), big)
    assert b"".join(parts) == ipc_bytes(big)


@pytest.mark.parametrize("answer", [0, -1, 10**9, 2**70, "all", 1.5, b"", True, False, int, np.True_])
def test_nonsense_from_write_is_an_os_error_that_shows_it(answer):
    words = rf"the sink Short <.*> was given \d+ bytes and returned {re.escape(described(answer))}"
    with pytest.raises(OSError, match=words):
        write_to(Short(lambda size: answer), SMALL)


def test_what_write_raises_arrives_and_ends_the_writer(big):
    class Failing:
        def __init__(self, after: int) -> None:
            self.left = after

        def write(self, data: Any) -> int:
            self.left -= 1
            if self.left < 0:
                raise ConnectionResetError("the line is cut")
            return len(data)

    for after in range(1, 6):
        writer = ipc.new_stream(Failing(after), big.schema)
        with pytest.raises(ConnectionResetError, match="the line is cut"):  # noqa: PT012
            for _ in range(10):
                writer.write(big)
        for call, *arguments in (
            (writer.write, SMALL),
            (writer.write_batch, big),
            (writer.write_table, big, 3),
            (writer.close,),
            (writer.write, big),
        ):
            with pytest.raises(UsageError, match="the line is cut"):
                call(*arguments)
        assert writer.close() is None


class Keeping:
    """Keeps what it is given, in one of several ways."""

    def __init__(self, keep: Callable[[Any], Any], most: int) -> None:
        self.kept: list[Any] = []
        self.keep, self.most = keep, most

    def write(self, data: Any) -> int:
        self.kept.append(self.keep(data))
        return min(len(data), self.most)


@pytest.mark.parametrize("most", [1 << 60, 50_000])
def test_a_sink_that_keeps_the_memory_it_was_given_gets_an_error_not_other_bytes(most, big):
    sink = Keeping(lambda data: data, most)
    write_to(sink, big)
    dead = 0
    for part in sink.kept:
        try:
            bytes(part)
        except ValueError:
            dead += 1
    assert dead > 1


@pytest.mark.parametrize(
    "keep",
    [memoryview, lambda data: memoryview(data)[10:20], lambda data: np.frombuffer(data, np.uint8)],
    ids=["view", "part", "array"],
)
def test_a_sink_that_keeps_a_view_of_the_memory_is_told(keep, big):
    with pytest.raises(UsageError, match=r"keep bytes\(data\) instead"):
        write_to(Keeping(keep, 1 << 60), big)
