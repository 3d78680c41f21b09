"""Writing in an event loop: the same bytes as the blocking writer, in pieces, and only as fast as they are taken."""

import asyncio
import threading
from typing import Any

import pytest
from helpers import drive, randoms
from helpers.arrays import ipc_bytes
from helpers.drive import fed, run
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import aio
from arrowipc.aio.writers import CHUNK

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

TABLE = pa.table({"x": np.arange(200_000), "word": [f"word {i % 100}" for i in range(200_000)]})


async def joined(*arguments: Any, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in aio.encode(*arguments, **options)])


@given(randoms.batches(), st.sampled_from([{}, {"compression": "lz4"}, {"alignment": 64}, {"coalesce_rows": 9}]))
def test_the_bytes_are_those_of_the_blocking_writer(parts, options):
    if not parts:
        return
    wanted = ipc_bytes(list(map(ipc.RecordBatch.from_arrow, parts)), schema=parts[0].schema, **options)

    async def one_by_one() -> Any:
        for part in parts:
            yield part

    assert run(joined(one_by_one(), parts[0].schema, **options)) == wanted
    assert run(joined(iter(parts), parts[0].schema, **options)) == wanted


async def test_whatever_holds_rows_can_be_encoded():
    wanted = ipc_bytes(TABLE)
    ours = ipc.open_stream(wanted).read_all()

    async def tables() -> Any:
        yield ours

    def blocking() -> Any:
        yield from ours.batches

    sources = [TABLE, ours, ours.batches, iter(ours.batches), tables(), blocking(), TABLE.to_reader()]
    for data in [*sources, ipc.open_stream(wanted), aio.open_stream(fed(wanted))]:
        assert await joined(data) == wanted
    empty = ipc_bytes([], schema=ours.schema)
    assert await joined([], ours.schema) == empty
    assert await joined(aio.open_stream(fed(empty))) == empty
    assert await joined({"x": [1, 2]}) == ipc_bytes({"x": [1, 2]})
    with pytest.raises(ipc.UsageError, match="nothing was written"):
        await joined([])
    with pytest.raises(ipc.UsageError, match="expected a RecordBatch"):
        await joined(5)


def test_wrong_options_are_refused_before_anything_is_sent():
    with pytest.raises(TypeError, match="compresion"):
        aio.encode(TABLE, compresion="lz4")
    with pytest.raises(ipc.UsageError, match="compression"):
        aio.encode(TABLE, compression="rar")
    with pytest.raises(ipc.UsageError, match="legacy"):
        aio.encode(TABLE, TABLE.schema, legacy=True)


async def test_chunks_are_bounded_and_taken_one_by_one():
    taken = 0

    def source() -> Any:
        nonlocal taken
        for _ in range(4):
            taken += 1
            yield TABLE

    sizes = []
    async for chunk in aio.encode(source()):
        assert type(chunk) is bytes
        sizes.append(len(chunk))
        assert taken <= sum(sizes) // len(ipc_bytes(TABLE)) + 1
    assert max(sizes) < 2 * CHUNK


async def test_a_stream_that_is_left_early_has_no_end():
    async def rows() -> Any:
        yield {"x": [1]}
        raise OSError("no more rows")

    sent = bytearray()

    async def send() -> None:
        async for chunk in aio.encode(rows()):
            sent.extend(chunk)

    with pytest.raises(OSError, match="no more rows"):
        await send()
    assert sent
    assert not sent.endswith(b"\xff\xff\xff\xff\0\0\0\0")


@pytest.mark.parametrize("options", [{}, {"compression": "lz4", "metadata": {"a": "b"}}, {"statistics": True}])
async def test_a_file_has_the_bytes_of_the_blocking_writer(tmp_path, options):
    ours = ipc.Table.from_batches(ipc.open_stream(ipc_bytes(TABLE)).read_all().batches * 3)

    wanted = bytes(ipc_bytes(ours, "file", schema=ours.schema, **options))

    async def tables() -> Any:
        yield ours.batches[0]
        yield ipc.Table.from_batches(ours.batches[1:])

    path = tmp_path / "x.arrow"
    for make in (drive.Sink, bytearray, lambda: path):
        for data in (ours, tables()):
            async with aio.new_file(sink := make(), ours.schema, **options) as writer:
                await writer.write(data)
                assert writer.stats.num_record_batches == 3
            assert (path.read_bytes() if sink is path else sink) == wanted
    async with aio.new_file(path, append=True) as writer:
        await asyncio.gather(*[writer.write(ours.batches[0]) for _ in range(4)])
        assert writer.schema == ours.schema
    with ipc.open_file(path) as reader:
        assert reader.num_record_batches == 7


@pytest.mark.parametrize("kind", ["path", "append", "sink"])
@pytest.mark.parametrize("ticks", [None, 0, 1, 3])
async def test_however_many_tasks_begin_to_write_the_sink_is_opened_once(tmp_path, kind, ticks):
    sink = drive.Sink() if kind == "sink" else tmp_path / "x.arrow"
    schema, numbers = ipc.schema({"x": "int64"}), list(range(4))
    if kind == "append":
        ipc.new_file(sink, schema).close()

    writer = aio.new_file(sink, schema, append=kind == "append")
    if ticks is not None:  # the first of them is cancelled while it opens the file
        task = asyncio.create_task(writer.write({"x": [0]}))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        numbers.remove(0)
    await asyncio.gather(*[writer.write({"x": [i]}) for i in numbers])
    await writer.close()

    assert ipc.read(bytes(sink) if isinstance(sink, drive.Sink) else sink).to_pydict() == {"x": numbers}
    assert [path.name for path in tmp_path.iterdir()] == ([] if kind == "sink" else ["x.arrow"])


async def test_an_object_store_is_a_sink():
    obstore = pytest.importorskip("obstore")
    store = obstore.store.MemoryStore()
    async with obstore.open_writer_async(store, "x") as sink, aio.new_file(sink) as writer:
        await writer.write_batch(TABLE)
    assert ipc.read(bytes(store.get("x").bytes())) == TABLE


async def leave(writer: aio.AsyncFileWriter) -> None:
    async with writer:
        await writer.write({"x": [1]})
        raise ZeroDivisionError


async def test_a_file_is_there_only_when_it_is_whole(tmp_path):
    path = tmp_path / "x.arrow"

    writer = await aio.new_file(path)
    await writer.write({"x": [1]})
    assert not path.exists()
    await writer.close()
    await writer.close()
    assert path.exists()
    path.unlink()
    with pytest.raises(ipc.UsageError, match="closed"):
        await writer.write({"x": [1]})
    with pytest.raises(ZeroDivisionError):
        await leave(aio.new_file(path))
    async with asyncio.timeout(10):
        writer = await aio.new_file(path, TABLE.schema, compression="zstd")
        task = asyncio.create_task(writer.write(TABLE))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await writer.__aexit__(ValueError, ValueError(), None)
    with pytest.raises(TypeError, match="compresion"):
        aio.new_file(path, compresion="zstd")
    with pytest.raises(ipc.UsageError, match="not open yet"):
        _ = aio.new_file(path).stats
    with pytest.raises(OSError, match="No such file"):
        await aio.new_file(tmp_path / "none" / "x.arrow")
    assert list(tmp_path.iterdir()) == []


async def test_entering_that_was_cancelled_leaves_no_file(tmp_path):
    for ticks in range(4):
        writer = aio.new_file(tmp_path / "x.arrow")
        task = asyncio.create_task(writer.__aenter__())
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            await asyncio.sleep(0.1)  # until the thread has opened it
            while any(tmp_path.iterdir()):
                await asyncio.sleep(0.01)
        assert "AsyncFileWriter" in repr(writer)


async def test_a_block_that_is_cancelled_again_while_it_is_left_leaves_no_file(tmp_path, monkeypatch):
    writing, go_on, writer = threading.Event(), threading.Event(), aio.new_file(tmp_path / "x.arrow")

    def write_slowly(*_: object) -> None:
        writing.set()
        go_on.wait(20)

    async def write() -> None:
        async with writer:
            await writer.write({"x": [1]})

    monkeypatch.setattr(ipc.RecordBatchFileWriter, "write_batch", write_slowly)
    task = asyncio.create_task(write())
    await asyncio.to_thread(writing.wait, 20)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert any(tmp_path.iterdir())
    go_on.set()
    async with asyncio.timeout(20):
        while any(tmp_path.iterdir()):
            await asyncio.sleep(0.01)


class Threads(set[int]):
    """A file object that knows the threads that write to it."""

    def write(self, _: bytes) -> None:
        self.add(threading.get_ident())


async def test_the_thread_of_the_loop_writes_nothing():
    for data in ({"x": [1]}, aio.open_stream(fed(ipc_bytes({"x": [1]})))):
        async with aio.new_file(sink := Threads()) as writer:
            await writer.write(data)
        assert sink
        assert threading.get_ident() not in sink


class Short(drive.Sink):
    """Takes a part of what it is given, like a raw file; its `write` returns how much."""

    most = 1000

    async def write(self, data: bytes) -> Any:
        await super().write(data[: self.most])
        return min(len(data), self.most)


async def test_what_a_sink_did_not_take_is_written_again():
    async with aio.new_file(sink := Short()) as writer:
        await writer.write(TABLE)
    assert ipc.read(bytes(sink)) == TABLE
    sink.most = 0
    with pytest.raises(OSError, match="expected how many it took"):
        await aio.new_file(sink, TABLE.schema)


class Full(drive.Sink):
    """A disk that has room for two writes."""

    left = 2

    async def write(self, data: bytes) -> None:
        if not self.left:
            raise OSError("the disk is full")
        self.left -= 1
        await super().write(data)


async def test_after_a_write_that_failed_nothing_follows():
    sink = Full()
    writer = await aio.new_file(sink, TABLE.schema)
    with pytest.raises(OSError, match="disk is full"):
        await writer.write(TABLE.to_batches(1000))
    size = len(sink)
    with pytest.raises(ipc.UsageError, match="disk is full"):
        await writer.write(TABLE)
    await writer.close()
    assert len(sink) == size
    sink = Full()
    sink.left = 0
    writer = aio.new_file(sink, TABLE.schema)
    for reason in (OSError, ipc.UsageError, ipc.UsageError):
        with pytest.raises(reason, match="disk is full"):
            await writer.write(TABLE)
        sink.left = 9
    assert sink == b""
