"""Streams in an event loop: sources of all kinds, back-pressure, cancellation, and what stays off the loop."""

import asyncio
import contextlib
import gc
import itertools
import socket
import threading
import time
import weakref
from typing import Any

import pytest
from helpers.arrays import ipc_bytes
from helpers.drive import Reads, Receives, fed, pieces

import arrowipc as ipc
from arrowipc import aio
from arrowipc.aio.chunks import MOST
from arrowipc.aio.off_loop import AT_ONCE, LARGE, turns

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")


def stream(batches: int = 3, rows: int = 10, **options: Any) -> bytes:
    words = [f"word {i % 100}" for i in range(batches + rows)]
    parts = [pa.table({"x": np.arange(i, i + rows), "word": words[i : i + rows]}) for i in range(batches)]
    return ipc_bytes(parts, **options)


SMALL = stream()
LONG = stream(rows=50_000)
assert len(LONG) > 30 * LARGE


async def test_a_reader_may_be_awaited_entered_or_only_iterated():
    reader = aio.open_stream(fed(SMALL))
    with pytest.raises(ipc.UsageError, match="await the reader"):
        _ = reader.schema
    assert "not begun" in repr(reader)
    assert (await reader).schema.names == ["x", "word"]
    assert "open" in repr(reader)
    assert not reader.at_end
    assert [batch.num_rows async for batch in reader] == [10, 10, 10]
    assert reader.at_end
    with pytest.raises(StopAsyncIteration):
        await reader.read_next_batch()
    await reader.close()
    await reader.close()
    with pytest.raises(ipc.UsageError, match="closed"):
        await reader.read_next_batch()
    with pytest.raises(ipc.UsageError, match="closed"):
        async with reader:
            pass
    assert [batch.num_rows async for batch in aio.open_stream(fed(SMALL), columns=["x"])] == [10, 10, 10]


async def test_a_source_is_left_behind_the_stream():
    source = fed(SMALL + LONG + b"more")
    for data in (SMALL, LONG):
        reader = aio.open_stream(source)
        assert (await reader.read_all()).equals(ipc.open_stream(data).read_all())
        assert (reader.bytes_consumed, reader.stats.num_record_batches) == (len(data), 3)
    assert await source.read() == b"more"


@pytest.mark.parametrize("size", [1000, LARGE - 1, 10**7])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_large_bodies_are_decoded_in_another_thread(monkeypatch, codec, size):
    data = stream(2, 60_000, compression=codec)
    where = []
    decode = aio.AsyncStreamReader._decode

    def noted(self: Any, message: Any) -> Any:
        event = decode(self, message)
        if event is not None:
            where.append((type(event).__name__, threading.current_thread() is threading.main_thread()))
        return event

    monkeypatch.setattr(aio.AsyncStreamReader, "_decode", noted)
    found = asyncio.run(aio.open_stream(pieces(data, itertools.repeat(size))).read_all())
    assert found.equals(ipc.open_stream(data).read_all())
    assert where == [("SchemaRead", True), ("BatchRead", False), ("BatchRead", False)]


async def test_nothing_is_read_ahead():
    """Of what it is not asked for it reads nothing, and of what it needs no more than `MOST` at a time."""

    source = Reads(LONG, itertools.repeat(10**9))
    reader = await aio.open_stream(source)
    schema_end = source.at
    assert schema_end < 1000
    first = await reader.read_next_batch()
    assert schema_end < source.at < len(LONG) / 2
    before = source.at
    await asyncio.sleep(0.01)
    assert source.at == before
    assert source.most == MOST
    assert first.num_rows == 50_000


async def test_one_task_at_a_time_may_read():
    source = asyncio.StreamReader()
    reader = aio.open_stream(source)
    waiting = asyncio.create_task(reader.read_next_batch())
    await asyncio.sleep(0)
    with pytest.raises(ipc.UsageError, match="another task"):
        await reader.read_next_batch()
    source.feed_data(SMALL)
    assert (await waiting).num_rows == 10


async def test_an_opening_that_was_cancelled_or_refused_has_lost_nothing():
    calls: list[Any] = [aio.AsyncStreamReader.read_all, lambda reader: reader]
    for call in calls:
        source = asyncio.StreamReader()
        reader = aio.open_stream(source)
        source.feed_data(SMALL[:20])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await call(reader)
        waiting = asyncio.create_task(reader.read_all())
        await asyncio.sleep(0)
        with pytest.raises(ipc.UsageError, match="another task"):
            await reader
        source.feed_data(SMALL[20:])
        assert (await waiting).num_rows == 30


async def test_entering_that_was_cancelled_closes(tmp_path):
    readers = [aio.open_stream(asyncio.StreamReader()), aio.open_stream(tmp_path / "x", follow=True)]
    for reader in readers:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), reader:
                pass
        with pytest.raises(ipc.UsageError, match="closed"):
            await reader


@pytest.mark.parametrize("data", [SMALL, LONG], ids=["small", "large"])
async def test_a_read_that_was_cancelled_has_lost_nothing(data):
    wanted = ipc.open_stream(data).read_all()
    source = asyncio.StreamReader()
    reader = aio.open_stream(source)
    found, step = [], -(-len(data) // 23)
    for start in range(0, len(data), step):
        source.feed_data(data[start : start + step])
        for _ in range(4):
            task = asyncio.create_task(reader.read_next_batch())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            try:
                found.append(await task)
            except asyncio.CancelledError:
                pass
            except StopAsyncIteration:
                break
    source.feed_eof()
    found += [batch async for batch in reader]
    assert [batch.to_pydict() for batch in found] == [batch.to_pydict() for batch in wanted.batches]


async def test_a_generator_that_was_cancelled_is_no_end_of_the_input():
    """It is over after that; to take this for the end of the stream would be rows that are silently missing."""

    async def slow() -> Any:
        for part in range(0, len(SMALL), 8):
            await asyncio.sleep(0.001)
            yield SMALL[part : part + 8]

    reader = await aio.open_stream(slow())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.002):
            await reader.read_all()
    with pytest.raises(ipc.UsageError, match="cannot continue"):
        await reader.read_next_batch()


def test_cancelling_and_dropping_leave_nothing():
    closed = []

    async def source() -> Any:
        try:
            for part in range(0, len(LONG), 1000):
                yield LONG[part : part + 1000]
                await asyncio.sleep(0)
        finally:
            closed.append(1)

    async def main() -> None:
        async def endless() -> None:
            async with aio.open_stream(source()) as reader:
                async for _ in reader:
                    await asyncio.sleep(60)

        task = asyncio.create_task(endless())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [1]
        reader = await aio.open_stream(source())
        dropped = weakref.ref(reader)
        del reader
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert dropped() is None
        assert closed == [1, 1]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    before = threading.enumerate()  # those of the loop that other tests share
    asyncio.run(main())
    # The loop's threads end with it.
    patience = time.monotonic() + 20
    while threads := [each for each in threading.enumerate() if each not in before and "arrowipc" in each.name]:
        assert time.monotonic() < patience, threads
        gc.collect()
        time.sleep(0.01)


async def test_what_the_source_raises_is_passed_on_and_ends_the_reader():
    async def torn() -> Any:
        yield SMALL[:100]
        raise ConnectionResetError("gone")

    async def always(answer: Any) -> Any:
        yield answer

    reader = aio.open_stream(torn())
    with pytest.raises(ConnectionResetError, match="gone"):
        await reader
    with pytest.raises(ipc.UsageError, match="reader is closed"):
        await reader
    for answer in (None, 5, True, "text"):
        with pytest.raises(ipc.UsageError, match=f"the source gave .*{answer}.*: expected bytes"):
            await aio.open_stream(always(answer))


@pytest.mark.parametrize("rows", [10, 50_000], ids=["small", "large"])
@pytest.mark.parametrize("broken", [0, 2], ids=["first", "last"])
async def test_a_broken_batch_is_no_end_of_the_stream(tmp_path, rows, broken):
    data = stream(rows=rows)
    parts = data.split(b"word ")
    at = len(b"word ".join(parts[: 1 + broken * rows]))
    data = data[:at] + b"\xff" + data[at + 1 :]  # not UTF-8

    (tmp_path / "x").write_bytes(data)
    for reader in (aio.open_stream(fed(data)), aio.open_stream(tmp_path / "x", follow=True)):
        for _ in range(broken):
            await reader.read_next_batch()
        with pytest.raises(ipc.FormatError, match="UTF-8"):
            await reader.read_next_batch()
        for _ in range(4):
            with pytest.raises(ipc.UsageError, match=r"cannot continue.*UTF-8"):
                await reader.read_next_batch()
        await reader.close()


@pytest.mark.parametrize(("data", "size"), [(SMALL, 64), (LONG, 8000), (LONG, 1 << 17)])
def test_what_may_be_filled_again_is_copied(data, size):
    async def reused() -> Any:
        room = bytearray(size)
        for part in range(0, len(data), size):
            taken = data[part : part + size]
            room[: len(taken)] = taken
            yield memoryview(room)[: len(taken)]

    assert asyncio.run(aio.open_stream(reused()).read_all()).equals(ipc.open_stream(data).read_all())


def test_other_sources_are_refused_in_words_that_help():
    class Blocking:
        def read(self, size: int) -> bytes:
            return b""

    for source in (b"bytes", "path", Blocking(), None):
        with pytest.raises(ipc.UsageError, match=r"arrowipc\.open_stream\(\) reads"):
            aio.open_stream(source)


class Async:
    """Not a bytearray, as `drive.Sink` is."""

    async def write(self, data: bytes) -> None: ...


async def test_blocking_readers_and_writers_name_aio():
    generator = pieces(SMALL, itertools.repeat(9))
    sources = [fed(SMALL), generator, Reads(SMALL, itertools.repeat(9)), Receives(SMALL, itertools.repeat(9))]
    for source in sources:
        for opener in (ipc.open_stream, ipc.open_file, ipc.open, ipc.MessageReader, ipc.recover):
            with pytest.raises(ipc.UsageError, match=r"arrowipc\.aio\.open_stream\(\)"):
                opener(source)
    await generator.aclose()
    for opener in (ipc.new_stream, ipc.new_file):
        with pytest.raises(ipc.UsageError, match=r"arrowipc\.aio\.encode\(\)"):
            opener(Async())


async def test_anyio_streams():
    anyio = pytest.importorskip("anyio")

    async def serve(client: Any) -> None:
        async with client:
            async for chunk in aio.encode(aio.open_stream(fed(LONG))):
                await client.send(chunk)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            assert (await aio.open_stream(client).read_all()).equals(ipc.open_stream(LONG).read_all())
        group.cancel_scope.cancel()


async def test_many_readers_take_turns():
    """However much is there for each, no more than some go on before the loop turns to others."""

    most = 0
    sources = [Reads(LONG, itertools.repeat(10**9)) for _ in range(20)]

    async def watch() -> None:
        nonlocal most
        while True:
            before = sum(each.at for each in sources)
            await asyncio.sleep(0)
            most = max(most, sum(each.at for each in sources) - before)

    watching = asyncio.create_task(watch())
    tables = await asyncio.gather(*[aio.open_stream(each).read_all() for each in sources])
    watching.cancel()
    assert all(table.num_rows == 150_000 for table in tables)
    # A turn, and what one task takes before it looks again; without turns it would be 20 times `MOST`.
    assert most <= 3 * (AT_ONCE + MOST)
    assert turns() is turns()


async def test_many_streams_are_followed_in_one_loop(tmp_path):
    async def follow(path: Any) -> list[int]:
        async with aio.open_stream(path, follow=True) as reader:
            return [batch["x"][0] async for batch in reader]

    paths = [tmp_path / f"{i}.arrows" for i in range(20)]
    tasks = [asyncio.create_task(follow(path)) for path in paths]
    await asyncio.sleep(0.01)
    writers = [ipc.new_stream(path, append=True, durable=False) for path in paths]
    for value in range(3):
        for writer in writers:
            writer.write({"x": [value]})
        await asyncio.sleep(0.01)
    for writer in writers:
        writer.close()
    assert await asyncio.wait_for(asyncio.gather(*tasks), 60) == [[0, 1, 2]] * 20


async def test_a_read_of_a_growing_stream_that_is_cancelled_loses_nothing(tmp_path):
    with ipc.new_stream(tmp_path / "x", append=True, durable=False) as writer:
        writer.write({"x": [0]})
        async with aio.open_stream(tmp_path / "x", follow=True, timeout=60) as reader:
            found = []
            for value in range(1, 30):
                task = asyncio.create_task(reader.read_next_batch())
                for _ in range(value % 7):
                    await asyncio.sleep(0)
                writer.write({"x": [value]})
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    found.append((await task)["x"][0])
            writer.close()
            assert found + [batch["x"][0] async for batch in reader] == list(range(30))


async def test_a_growing_stream_ends_with_its_time(tmp_path):
    with pytest.raises(FileNotFoundError):
        await aio.open_stream(tmp_path / "x", follow=True, timeout=0)
    with pytest.raises(ipc.UsageError, match="without follow=True"):
        aio.open_stream(tmp_path / "x", timeout=0)
    with ipc.new_stream(tmp_path / "x", append=True, durable=False) as writer:
        writer.write({"x": [0]})
        async with aio.open_stream(tmp_path / "x", follow=True, timeout=0.01) as reader:
            assert len([batch async for batch in reader]) == 1
            writer.write({"x": [1]})
            assert len([batch async for batch in reader]) == 1


async def test_closing_a_growing_stream_ends_the_wait_of_another_task_and_frees_its_descriptor(tmp_path):
    with ipc.new_stream(tmp_path / "x", append=True, durable=False) as writer:
        writer.write({"x": [0]})
        reader = await aio.open_stream(tmp_path / "x", follow=True)
        await reader.read_next_batch()
        waiting = asyncio.create_task(reader.read_next_batch())
        await asyncio.sleep(0.2)
        await reader.close()
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            # They get the numbers of the closed descriptors.
            ends = [stack.enter_context(end) for _ in range(3) for end in socket.socketpair()]
            for end in ends:
                end.setblocking(False)
            tasks = [asyncio.create_task(loop.sock_recv(end, 1)) for end in ends]
            await asyncio.sleep(0)
            for end in ends:
                end.send(b"x")
            assert await asyncio.wait_for(asyncio.gather(*tasks), 20) == [b"x"] * len(ends)
        with pytest.raises(ipc.UsageError, match="closed"):
            await waiting


async def test_a_growing_stream_has_an_end_also_after_the_read_of_it_was_cancelled(tmp_path):
    with ipc.new_stream(tmp_path / "x") as writer:
        writer.write({"x": [0]})
    async with aio.open_stream(tmp_path / "x", follow=True) as reader:
        await reader.read_next_batch()
        task = asyncio.create_task(reader.read_next_batch())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0.2)  # the thread comes to its end
        assert [batch async for batch in reader] == []
        assert reader.at_end
