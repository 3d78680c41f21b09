"""Writing in an event loop: the same bytes as the blocking writer, in pieces, and only as fast as they are taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers import randoms
from helpers.arrays import ipc_bytes
from helpers.drive import Sink, fed, run
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

    async def sent() -> bytes:
        async with aio.new_stream(sink := Sink(), parts[0].schema, **options) as writer:
            await writer.write(one_by_one())
        return bytes(sink)

    assert run(joined(one_by_one(), parts[0].schema, **options)) == wanted
    assert run(joined(iter(parts), parts[0].schema, **options)) == wanted
    assert run(sent()) == wanted


def test_whatever_holds_rows_can_be_encoded():
    wanted = ipc_bytes(TABLE)
    ours = ipc.open_stream(wanted).read_all()

    async def tables() -> Any:
        yield ours

    def blocking() -> Any:
        yield from ours.batches

    async def main() -> None:
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

    asyncio.run(main())


def test_wrong_options_are_refused_before_anything_is_sent():
    with pytest.raises(TypeError, match="compresion"):
        aio.encode(TABLE, compresion="lz4")
    with pytest.raises(ipc.UsageError, match="compression"):
        aio.encode(TABLE, compression="rar")
    with pytest.raises(ipc.UsageError, match="legacy"):
        aio.encode(TABLE, TABLE.schema, legacy=True)
    for sink in (bytearray(), "path", None):
        with pytest.raises(ipc.UsageError, match=r"arrowipc\.new_stream\(\) writes"):
            aio.new_stream(sink)


def test_chunks_are_bounded_and_taken_one_by_one():
    async def main() -> None:
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

    asyncio.run(main())


def test_a_slow_sink_holds_the_writer_back():
    class Slow(Sink):
        def __init__(self) -> None:
            self.room = asyncio.Event()

        async def write(self, data: bytes) -> None:
            await self.room.wait()
            await super().write(data)

    async def main() -> None:
        sink = Slow()
        async with aio.new_stream(sink) as writer:
            task = asyncio.create_task(writer.write(TABLE))
            await asyncio.sleep(0.05)
            assert len(sink) == 0
            with pytest.raises(ipc.UsageError, match="another task"):
                await writer.write(TABLE)
            sink.room.set()
            await task
            assert writer.stats.num_record_batches == 1
        assert bytes(sink) == ipc_bytes(TABLE)

    asyncio.run(main())


def test_a_stream_writer_never_holds_more_than_its_mark():
    async def main() -> None:
        most, got = 0, bytearray()

        async def serve(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
            nonlocal most
            written = client.write

            def noted(data: bytes) -> None:
                nonlocal most
                written(data)
                most = max(most, client.transport.get_write_buffer_size())

            client.write = noted  # type: ignore[method-assign]
            async with aio.new_stream(client) as writer:
                for _ in range(5):
                    await writer.write(TABLE)
            client.close()

        server = await asyncio.start_server(serve, "127.0.0.1")
        async with server:
            source, sink = await asyncio.open_connection(*server.sockets[0].getsockname())
            await asyncio.sleep(0.2)  # until the kernel takes no more
            while data := await source.read(5000):
                got.extend(data)
            sink.close()
        assert ipc.open_stream(got).read_all().num_rows == 5 * len(TABLE)
        assert 0 < most <= (1 << 16) + 2 * CHUNK

    asyncio.run(main())


def test_what_is_refused_does_no_harm_and_what_is_torn_ends_it():
    batch = ipc.RecordBatch.from_pydict({"x": [1]})

    async def main() -> None:
        async with aio.new_stream(sink := Sink()) as writer:
            assert writer.schema is None
            await writer.write(batch)
            with pytest.raises(ipc.UsageError, match="columns: 'x'"):
                await writer.write({"y": [1]})
            await writer.write(batch)
            assert writer.schema == batch.schema
        await writer.close()
        assert bytes(sink) == ipc_bytes([batch, batch])
        with pytest.raises(ipc.UsageError, match="closed"):
            await writer.write(batch)

        class Broken(Sink):
            async def write(self, data: bytes) -> None:
                raise ConnectionResetError("gone")

        torn = aio.new_stream(Broken())
        with pytest.raises(ConnectionResetError):
            await torn.write(batch)
        with pytest.raises(ipc.UsageError, match="cannot continue: an error ended it: gone"):
            await torn.close()

        class Stuck(Sink):
            async def write(self, data: bytes) -> None:
                await asyncio.sleep(60)

        cancelled = aio.new_stream(Stuck())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await cancelled.write(batch)
        with pytest.raises(ipc.UsageError, match="cannot continue: an error ended it: CancelledError"):
            await cancelled.write(batch)

    asyncio.run(main())


def test_a_stream_that_an_error_left_has_no_end():
    async def main() -> bytes:
        async def broken(writer: Any) -> None:
            async with writer:
                await writer.write({"x": [1]})
                raise RuntimeError

        sink = Sink()
        writer = aio.new_stream(sink)
        with pytest.raises(RuntimeError):
            await broken(writer)
        with pytest.raises(ipc.UsageError, match="left by RuntimeError"):
            await writer.close()
        return bytes(sink)

    assert not asyncio.run(main()).endswith(b"\xff\xff\xff\xff\0\0\0\0")


def test_an_error_of_the_source_reaches_whoever_sends():
    async def rows() -> Any:
        yield {"x": [1]}
        raise OSError("no more rows")

    async def main() -> None:
        chunks = aio.encode(rows())
        with pytest.raises(OSError, match="no more rows"):
            async for _ in chunks:
                pass

    asyncio.run(main())


# -- what sinks answer -----------------------------------------------------------------------------------------


def answering(answer: Any, name: str) -> Any:
    """A sink that takes what `answer` makes of the size of a chunk, and says so."""

    class Answering:
        def __init__(self) -> None:
            self.taken = bytearray()

        async def send(self, data: bytes) -> Any:
            count = answer(len(data))
            self.taken += data[: count if type(count) is int else len(data)]
            return count

        async def drain(self) -> None:
            pass

        def __repr__(self) -> str:
            return "<the strange one>"

    if name == "drain":

        def write(self: Any, data: bytes) -> Any:
            count = answer(len(data))
            self.taken += data[: count if type(count) is int else len(data)]
            return count

        Answering.write, Answering.send = write, None  # type: ignore[attr-defined,method-assign,assignment]
    elif name == "write":
        Answering.write, Answering.send = Answering.send, None  # type: ignore[attr-defined,method-assign,assignment]
    return Answering()


async def sent_to(sink: Any) -> None:
    async with aio.new_stream(sink) as writer:
        await writer.write(TABLE)


@pytest.mark.parametrize("name", ["send", "write", "drain"])
def test_a_sink_that_takes_a_part_gets_the_rest_again(name):
    for answer in (lambda size: min(size, 50_000), lambda size: size, lambda size: np.int64(size), lambda size: None):
        sink = answering(answer, name)
        run(sent_to(sink))
        assert sink.taken == ipc_bytes(TABLE)


@pytest.mark.parametrize("name", ["send", "write", "drain"])
@pytest.mark.parametrize("answer", [True, 0, -1, 2**70, "all", 1.5])
def test_a_sink_that_answers_nonsense_is_named(name, answer):
    with pytest.raises(OSError, match=rf"<the strange one> was given [\d,]+ bytes and returned .*{answer}"):
        run(sent_to(answering(lambda size: answer, name)))
