"""Threads: data is shared freely; what one thread uses is refused to others and does not go away under it."""

import contextlib
import gc
import io
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrays, arrow_columns, drive, scenarios
from helpers.memory import counts, descriptors, more_than
from helpers.processes import in_threads, printed, run_function, together

import arrowipc as ipc
from arrowipc.cdata.import_array import stream_from
from arrowipc.columns.truncate import compact

THREADS = 4
#: Buffers that kernels work on for a while without the GIL, in another order for each codec.
ROWS = 100_000


def large(batches: int = 4) -> list[pa.RecordBatch]:
    """Batches that take a while to decompress and to prove."""
    numbers = np.arange(ROWS)
    texts = pa.array([f"text {i % 1009}" for i in range(ROWS // 4)] * 4)
    words = texts.dictionary_encode()
    return [pa.record_batch({"x": numbers + i, "t": texts, "d": words}) for i in range(batches)]


@pytest.fixture(scope="module")
def stream() -> bytes:
    return arrow_columns.stream(*large(), compression="lz4")


@pytest.fixture(scope="module")
def file() -> bytes:
    return arrow_columns.file(*large(), compression="zstd", unify_dictionaries=True)


def rows(batches: list[Any]) -> list[Any]:
    return [(batch.num_rows, batch["x"][0], batch["x"][-1], batch["d"][-1]) for batch in batches]


# -- what is shared ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_every_scenario_in_many_threads_at_once(name: str) -> None:
    operation = scenarios.SCENARIOS[name]()
    expected = scenarios.plain(operation())
    before = counts()  # dictionaries keep the copy that the first rows taken share
    found = in_threads(lambda count: [operation() for _ in range(count)], [5] * THREADS)
    for results in found:
        assert [scenarios.plain(result) for result in results] == [expected] * 5
    del found, results
    assert not more_than(before)


def get_batches(reader: Any, numbers: list[int]) -> list[Any]:
    return [reader.get_batch(i) for i in numbers]


@pytest.mark.parametrize("kind", ["bytes", "object", "path", "mapped"])
def test_many_threads_on_one_file_reader(file: bytes, kind: str, tmp_path: Any) -> None:
    """Dictionaries are loaded once, and each thread reads what it asked for."""
    expected = rows(drive.from_file(file).batches)
    path = tmp_path / "x.arrow"
    path.write_bytes(file)
    for _ in range(3):
        source = {"bytes": file, "object": io.BytesIO(file)}.get(kind, path)
        reader = ipc.open_file(source, memory_map=kind == "mapped")
        order = [[(i + k) % 4 for k in range(4)] for i in range(THREADS)]
        found = in_threads(partial(get_batches, reader), order)
        for numbers, batches in zip(order, found, strict=True):
            assert rows(batches) == [expected[i] for i in numbers]
        assert together(*[reader.count_rows] * THREADS) == [4 * ROWS] * THREADS


# -- one at a time -------------------------------------------------------------------------------------------


def patiently(call: Callable[[], Any]) -> Any:
    """Repeat a call until no other thread is using the object."""
    while True:
        try:
            return call()
        except ipc.UsageError as error:
            if "another thread" not in str(error):
                raise
            time.sleep(0)


def take_all(take: Callable[[], Any]) -> list[Any]:
    """Take until there is no more, whenever no other thread is at it."""
    return list(iter(partial(patiently, take), None))


@pytest.mark.parametrize("kind", ["bytes", "object", "decoder"])
def test_many_threads_on_one_stream_get_each_batch_once(stream: bytes, kind: str) -> None:
    """Who comes while another thread decodes is told so, and every batch goes to somebody."""
    expected = rows(drive.from_bytes(stream).batches)
    for _ in range(5):
        if kind == "decoder":
            decoder = ipc.StreamDecoder()
            decoder.feed(stream, True)
            take: Callable[[], Any] = decoder.next_batch
        else:
            take = ipc.open_stream(stream if kind == "bytes" else io.BytesIO(stream)).read_next_batch
        found = in_threads(take_all, [take] * THREADS)
        assert sorted(rows([batch for each in found for batch in each])) == expected


def later(pause: float, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call after a while."""

    def wait() -> Any:
        time.sleep(pause)
        return call()

    return wait


def refused_or(result: Any, *words: str) -> bool:
    """Whether a thread was refused with one of these words; anything else that was raised is a failure."""
    if isinstance(result, Exception):
        assert isinstance(result, ipc.UsageError), repr(result)
        assert any(word in str(result) for word in words), result
        return True
    return False


class Gate:
    """Holds one thread inside of a call until another one has made calls, all of which are refused."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.inside.set()
        assert self.go.wait(60)

    def meddle(self, *calls: Callable[[], Any]) -> None:
        assert self.inside.wait(60)
        for call in calls:
            with pytest.raises(ipc.UsageError, match="another thread"):
                call()
        self.go.set()


def test_close_while_another_thread_reads(stream: bytes, file: bytes, tmp_path: Any) -> None:
    """What the other one is at comes to its end; then it is told that the reader was closed."""
    path = tmp_path / "x.arrow"
    path.write_bytes(file)
    makers: list[Callable[[], Any]] = [
        lambda: ipc.open_stream(stream),
        lambda: ipc.open_stream(io.BytesIO(stream)),
        lambda: ipc.open_file(file),
        lambda: ipc.open_file(io.BytesIO(file)),
        lambda: ipc.open_file(path, memory_map=False),
    ]
    before, expected = counts(), rows(drive.from_bytes(stream).batches)
    for pause in (0.0, 0.0005, 0.001, 0.003, 0.006):
        for make in makers:
            reader = make()
            batches: list[Any] = []

            def read(reader: Any = reader, batches: list[Any] = batches) -> None:
                for batch in reader:
                    batches.append(batch)

            result, closed = together(read, later(pause, reader.close))
            refused_or(result, "closed")
            assert closed is None
            assert rows(batches) == expected[: len(batches)]
            del reader, batches, read, result
    assert not more_than(before)


def test_a_file_is_closed_when_nobody_reads_it_any_more(file: bytes, tmp_path: Any) -> None:
    """Never under a thread that reads: by then its descriptor could be that of another file."""
    path = tmp_path / "x.arrow"
    path.write_bytes(file)
    before, order = descriptors(), [0, 1, 2, 3] * 3
    for pause in (0.0, 0.001, 0.004):
        reader = ipc.open_file(path, memory_map=False)
        assert len(descriptors() - before) == 1

        def take(reader: Any = reader) -> list[Any]:
            return [reader.take([i * ROWS], columns=["x"]) for i in order]

        read = partial(get_batches, reader, order)
        found = together(read, read, take, later(pause, reader.close))
        assert found.pop() is None
        for batches in found:
            if not refused_or(batches, "closed"):
                assert [batch["x"][0] for batch in batches] == order
        del found, batches
        gc.collect()
        assert descriptors() <= before
        with pytest.raises(ipc.UsageError, match="closed"):
            take()


def test_release_while_another_thread_decodes_keeps_its_input(stream: bytes) -> None:
    """The metadata of a message is read again after its body was decompressed without the GIL."""
    for pause in (0.0, 0.0003, 0.001, 0.002):
        decoder = ipc.StreamDecoder()
        for message in ipc.MessageReader(stream):
            # In memory of its own: the body, which is in use, must not be what keeps it.
            head = message.serialize()[: -message.body_length or None]
            decoder.feed(bytearray(head))
            decoder.feed(bytearray(message.body))

        result, _ = together(lambda d=decoder: take_all(d.next_event), later(pause, decoder.release))
        refused_or(result, "closed")
        del decoder


def test_a_second_thread_is_turned_away_while_the_first_one_waits_for_input(stream: bytes) -> None:
    gate = Gate()

    class Slow(io.BytesIO):
        waits = False

        def readinto(self, target: Any) -> int:
            if self.waits:
                gate.wait()
            return super().readinto(target)

    source = Slow(stream)
    reader = ipc.open_stream(source)
    source.waits = True
    calls = reader.read_next_batch, reader.read_all, reader.decoder.next_event
    first, nothing = together(reader.read_next_batch, partial(gate.meddle, *calls))
    assert nothing is None
    assert rows([first, *reader]) == rows(drive.from_bytes(stream).batches)


def test_feeding_while_another_thread_decodes(stream: bytes) -> None:
    """A chunk is taken, or refused as a whole: every batch arrives."""
    decoder = ipc.StreamDecoder()
    expected = rows(drive.from_bytes(stream).batches)

    def feed() -> None:
        for at in range(0, len(stream), 50_000):
            patiently(partial(decoder.feed, stream[at : at + 50_000]))

    def take() -> list[Any]:
        found: list[Any] = []
        while len(found) < len(expected):
            found += take_all(decoder.next_batch)
        return found

    nothing, batches = together(feed, take)
    assert nothing is None
    assert rows(batches) == expected


# -- memory that others write to -----------------------------------------------------------------------------


def copy_what_changes() -> None:
    """Copy views while a thread lets them point far outside, and back again, in the memory that was read."""
    texts = pa.array([f"a text of {i} that is not short" for i in range(20_000)], pa.string_view())
    data = bytearray(arrow_columns.stream(pa.record_batch([texts], names=["x"])))
    [batch] = ipc.open_stream(data)
    at = data.index(b"a te") - 4  # the first view: its size, the first four bytes
    views = np.frombuffer(data, np.int32, 4 * len(texts), at).reshape(-1, 4)
    right, wrong = views.copy(), views.copy()
    wrong[:, 2] = 1 << 29
    copies = [lambda: ipc.concat_batches([batch] * 2), lambda: compact(batch.slice(3, 5_000)), lambda: batch.take(odd)]
    odd = list(range(1, len(texts), 2))
    end = time.monotonic() + 1

    def change() -> None:
        while time.monotonic() < end:
            np.copyto(views, wrong)
            np.copyto(views, right)

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        for each in copies:
            with contextlib.suppress(ipc.ArrowIpcError):
                each()


def test_views_that_change_while_they_are_copied_are_not_followed_out_of_their_buffers() -> None:
    printed(run_function(copy_what_changes))


# -- writers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}], ids=["plain", "zstd"])
def test_many_threads_on_one_writer(options: Any, tmp_path: Any) -> None:
    """A message is written whole, or its thread is turned away and may try again."""
    batch = arrays.read_batch(large(1)[0])
    path = tmp_path / "x.arrow"
    writer = ipc.new_file(path, batch.schema, **options)

    def write(times: int) -> None:
        for _ in range(times):
            patiently(partial(writer.write_batch, batch))

    in_threads(write, [3] * THREADS)
    writer.close()
    with ipc.open_file(path) as reader:
        assert rows(list(reader)) == rows([batch]) * 3 * THREADS


def test_close_while_another_thread_writes() -> None:
    """A writer is not closed under a message: its sink stays, and the end comes behind the message."""
    batch = arrays.read_batch(large(1)[0])
    gate = Gate()

    class Slow(io.RawIOBase):
        data = b""

        def writable(self) -> bool:
            return True

        def write(self, part: Any) -> int:
            if self.data:
                gate.wait()
            self.data += part
            return len(part)

    sink = Slow()
    writer = ipc.new_stream(sink, batch.schema)
    write = partial(writer.write_batch, batch)
    calls = writer.close, write, partial(writer.write_table, batch)
    assert together(write, partial(gate.meddle, *calls)) == [None, None]
    writer.close()
    assert rows(list(ipc.open_stream(sink.data))) == rows([batch])


def test_a_file_reader_is_not_read_in_the_middle_of_a_read_of_the_same_thread(file: bytes) -> None:
    """As a handler of a signal might: both would move the file, and values come from the wrong place."""

    class Meddling(io.BytesIO):
        meddle: Callable[[], Any] | None = None

        def readinto(self, buffer: Any) -> int:
            meddle, self.meddle = self.meddle, None
            if meddle is not None:
                with pytest.raises(ipc.UsageError, match="in the middle of a read"):
                    meddle()
            return super().readinto(buffer)

    source = Meddling(file)
    reader = ipc.open_file(source)
    expected = rows(list(ipc.open_file(file)))
    for meddle in (lambda: reader.get_batch(3), lambda: reader.get_batch_metadata(2), reader.count_rows):
        source.meddle = meddle
        assert rows([reader.get_batch(0)]) == expected[:1]
        assert source.meddle is None
    assert rows(list(reader)) == expected


def test_memory_that_was_lent_and_filled_is_not_lent_again(stream: bytes) -> None:
    decoder = ipc.StreamDecoder()
    with decoder.get_buffer() as view:
        lender, view[:] = view.obj, stream[: len(view)]
        size = len(view)
    assert len(memoryview(lender)) == size
    decoder.buffer_updated(size)
    with pytest.raises(BufferError, match="filled"):
        memoryview(lender)


# -- messages ------------------------------------------------------------------------------------------------


def test_a_body_is_put_together_while_another_thread_copies_it() -> None:
    batch = arrays.read_batch(large(1)[0])
    expected = bytes(batch.to_message().body)
    for _ in range(5):
        message = batch.to_message()
        target = bytearray(message.body_length)
        found = together(
            lambda m=message, t=target: m.copy_body_into(t),
            lambda m=message: bytes(m.body),
            lambda m=message: b"".join(m.stretches),
            lambda m=message: len(m.buffers),
        )
        assert target == found[1] == found[2] == expected


def test_an_imported_stream_is_released_once() -> None:
    """A producer in Python lets other threads run inside its callbacks."""
    batch = arrow_columns.everything()

    def slow_batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            time.sleep(0.001)
            yield batch

    before = counts()
    for _ in range(10):
        stream = stream_from(pa.RecordBatchReader.from_batches(batch.schema, slow_batches()))
        take, close = partial(take_all, stream.__next__), later(0.001, stream.close)
        for result in together(take, take, close, close):
            refused_or(result, "another thread", "closed")
        stream.close()
        del stream, take, close, result
    assert not more_than(before)
