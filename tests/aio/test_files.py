"""Files in an event loop: the same batches and the same requests as the blocking reader, from every kind of store."""

import asyncio
import gc
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers import drive
from helpers.arrays import ipc_bytes
from helpers.web import Web
from hostile.broken_servers import FOREVER, BrokenServer

import arrowipc as ipc
from arrowipc import RemoteSource, aio, types
from arrowipc.aio.off_loop import turns
from arrowipc.sources import remote
from arrowipc.sources.remote import TAIL, WINDOW

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
np = pytest.importorskip("numpy")
obstore = pytest.importorskip("obstore")

COLUMNS = [f"c{number}" for number in range(12)]


def written(batches: int, rows: int, **options: Any) -> bytes:
    parts = [{name: np.arange(i, i + rows) + 1000 * n for n, name in enumerate(COLUMNS)} for i in range(batches)]
    return ipc_bytes(parts, "file", metadata={"made": "here"}, **options)


SMALL, LARGE = written(600, 100), written(3, 1 << 17)
#: Its footer states the rows of each batch: counting them needs no request.
STATED = written(60, 100, statistics=True)


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({"small": SMALL, "large": LARGE, "few": written(60, 100), "stated": STATED}) as server:
        yield server


def in_memory(data: bytes) -> Any:
    """A file system with a file "x"."""
    system = fsspec.filesystem("memory", skip_instance_cache=True)
    system.store = {}
    system.pipe("/x", data)
    return system


async def read(*source: Any, **options: Any) -> ipc.Table:
    async with aio.open_file(*source, **options) as reader:
        return await reader.read_all()


def table(data: Any, **options: Any) -> ipc.Table:
    with ipc.open_file(data, **options) as reader:
        return reader.read_all()


async def test_every_kind_of_store_gives_the_same(tmp_path: Path, web: Web):
    memory = obstore.store.MemoryStore()
    local = obstore.store.LocalStore(tmp_path)
    http = obstore.store.HTTPStore.from_url(web.url(""), client_options={"allow_http": True})
    asynchronous = fsspec.filesystem("http", asynchronous=True, skip_instance_cache=True)

    for name, data in (("few", web.files["few"]), ("large", LARGE)):
        await obstore.put_async(memory, name, data)
        (tmp_path / name).write_bytes(data)
        with fsspec.open(f"memory://aio/{name}", "wb") as file:
            file.write(data)
        sources: list[tuple[Any, ...]] = [
            (memory, name),
            (local, name),
            (http, name),
            (web.url(name),),
            (RemoteSource(web.url(name), size=len(data)),),
            (asynchronous, web.url(name)),
            (fsspec.filesystem("memory"), f"aio/{name}"),
            (f"memory://aio/{name}",),
            (f"simplecache::memory://aio/{name}",),
            (tmp_path / name,),
            (f"file://{tmp_path / name}",),
        ]
        whole, some = table(data), table(data, columns=["c9", "c3"])
        for source in sources:
            assert (await read(*source)).equals(whole), source
        for source in sources[:4]:
            assert (await read(*source, columns=["c9", "c3"], prefetch=0)).equals(some), source
    await (await asynchronous.set_session()).close()


class Last:
    """An integer by ``__index__`` alone."""

    def __index__(self) -> int:
        return -1


async def test_batches_in_any_order_and_by_any_number_of_tasks(web: Web):
    wanted = table(SMALL).batches

    reader = aio.open_file(web.url("small"))
    with pytest.raises(ipc.UsageError, match="not open"):
        _ = reader.num_record_batches
    async with reader:
        assert reader.num_record_batches == 600
        assert dict(reader.metadata) == {b"made": b"here"}
        assert reader.schema.names == COLUMNS
        numbers: list[Any] = [0, 599, Last(), -1, 300, 5, 5, -600]
        found = await asyncio.gather(*[reader.get_batch(i) for i in numbers])
        assert [batch.equals(wanted[i]) for i, batch in zip(numbers, found, strict=True)] == [True] * 8
        assert reader.stats.num_record_batches == 8
        again = [batch async for batch in reader.get_batches(numbers)]
        assert [batch.equals(wanted[i]) for i, batch in zip(numbers, again, strict=True)] == [True] * 8
        with pytest.raises(IndexError, match="600 is out of range"):
            await anext(reader.get_batches([0, 600]))
        for i in (600, -601):
            with pytest.raises(IndexError, match="there are 600"):
                await reader.get_batch(i)
    with pytest.raises(ipc.UsageError, match="closed"):
        await reader.get_batch(0)


async def test_a_task_that_is_cancelled_while_it_opens_the_file_leaves_it_to_the_others():
    store = obstore.store.MemoryStore()
    await obstore.put_async(store, "x", SMALL)
    wanted = table(SMALL).batches

    for ticks in range(8):
        reader = aio.open_file(store, "x")
        tasks = [asyncio.create_task(reader.get_batch(i)) for i in range(3)]
        for _ in range(ticks):
            await asyncio.sleep(0)
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == wanted[1:3]
        assert await reader.get_batch(0) == wanted[0]
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]


@pytest.mark.parametrize("store", [False, True])
async def test_batches_that_tasks_ask_for_together_are_fetched_together(web: Web, store: bool):
    http = obstore.store.HTTPStore.from_url(web.url(""), client_options={"allow_http": True})
    wanted = table(LARGE, columns=["c9"]).batches

    source = (http, "large") if store else (web.url("large"),)
    async with aio.open_file(*source, columns=["c9"]) as reader:
        assert requests(web) == [("GET", (0, 8)), ("GET", (len(LARGE) - TAIL, len(LARGE)))]  # no HEAD
        found = await asyncio.gather(*[reader.get_batch(i) for i in (2, 0)])
        assert found == [wanted[2], wanted[0]]
        # The metadata of both, then both bodies.
        sizes = [end - start for _, _, (start, end), _ in web.log]
        assert [size >= 1 << 20 for size in sizes] == [False, False, True, True]
        tasks = [asyncio.create_task(reader.get_batch(i)) for i in (2, 0, 1)]
        await asyncio.sleep(0.001)
        tasks[1].cancel()
        assert await tasks[0] == wanted[2]
        assert await tasks[2] == wanted[1]
        assert reader._blocks is not None
        assert reader._blocks.waiting == []


def requests(web: Web) -> list[Any]:
    made = sorted((request.method, request.range or (0, 0)) for request in web.log)
    web.log.clear()
    return made


@pytest.mark.parametrize(("name", "data"), [("small", SMALL), ("large", LARGE), ("stated", STATED)])
@pytest.mark.parametrize("columns", [None, ["c9", "c3"]], ids=["all", "some"])
async def test_the_requests_are_those_of_the_blocking_reader(web: Web, name: str, data: bytes, columns: Any):
    with ipc.open_file(web.url(name), columns=columns) as reader:
        rows, counting = reader.count_rows(), requests(web)
    async with aio.open_file(web.url(name), columns=columns) as reader:
        assert await reader.count_rows() == rows
        assert requests(web) == counting
        assert len(counting) == 2 or name != "stated"
        assert (await reader.read_all()).num_rows == rows
    with ipc.open_file(web.url(name), columns=columns) as reader:
        web.log.clear()
        reader.read_all()
    wanted = requests(web)
    async with aio.open_file(web.url(name), columns=columns) as reader:
        web.log.clear()
        await reader.read_all()
    assert requests(web) == wanted
    if columns is None:
        assert sum(end - start for _, (start, end) in wanted) <= len(data) + TAIL + 8


async def test_reading_ahead_is_bounded(web: Web):
    web.files["x"] = written(16, 1 << 15)  # 3 MiB each

    async with aio.open_file(web.url("x"), prefetch=100) as reader:
        batches = aiter(reader)
        await anext(batches)
        async with asyncio.timeout(60):
            sent = 0
            while sent <= 3 * (3 << 20) or sent < web.sent():
                sent = web.sent()
                await asyncio.sleep(0.5)
        # The first, and those ahead of it: no more than a window and the batch that passes it.
        assert web.sent() < 2 * WINDOW + (6 << 20)
        assert sum([batch.num_rows async for batch in batches]) == 15 << 15
        web.log.clear()
        assert [batch.num_rows async for batch in reader] == [1 << 15] * 16
    for prefetch in (-1, None, "4", 1.5, True, 2**63):
        with pytest.raises(ipc.UsageError, match="prefetch must be an integer from 0"):
            aio.open_file(web.url("x"), prefetch=prefetch)  # type: ignore[arg-type]


async def test_leaving_and_cancelling_end_what_was_asked_for_ahead():
    # The server answers what opening needs, and then nothing any more.
    answered = itertools.count()

    class Stalls(fsspec.asyn.AsyncFileSystem):
        waiting = 0

        async def _info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"size": len(LARGE), "name": path}

        async def _cat_ranges(self, paths: Any, starts: Any, ends: Any, **_: Any) -> Any:
            if next(answered) >= 2:
                Stalls.waiting += 1
                try:
                    await asyncio.sleep(60)
                finally:
                    Stalls.waiting -= 1
            return [LARGE[start:end] for start, end in zip(starts, ends, strict=True)]

    system = Stalls(asynchronous=True, skip_instance_cache=True)
    async with aio.open_file(system, "x") as reader:
        batches = aiter(reader)
        await anext(batches)
        async with asyncio.timeout(20):
            while not Stalls.waiting:
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(batches)
    await asyncio.sleep(0.05)
    assert Stalls.waiting == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    reader = aio.open_file(Stalls(asynchronous=True, skip_instance_cache=True), "x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await reader
    assert Stalls.waiting == 0
    gc.collect()


async def test_one_step_at_a_time_is_taken_also_after_a_task_was_cancelled(monkeypatch: pytest.MonkeyPatch):
    turns().workers = ThreadPoolExecutor(4)  # as on a machine with more cores
    inside, goes_on, most, room_for = 0, threading.Event(), 0, remote.room_for

    def slow(*sizes: int) -> Any:
        nonlocal inside, most
        inside, most = inside + 1, max(most, inside + 1)
        goes_on.wait(20)
        inside -= 1
        return room_for(*sizes)

    async with aio.open_file(in_memory(LARGE), "x") as reader:
        monkeypatch.setattr(remote, "room_for", slow)
        for begin in (lambda: reader.get_batch(0), lambda: anext(aiter(reader)), lambda: reader.count_rows()):
            for cancelled in (True, False):
                goes_on.clear()
                first = asyncio.create_task(reader.get_batch(0))
                while not inside:
                    await asyncio.sleep(0.01)
                if cancelled:
                    first.cancel()
                    await asyncio.wait([first])
                second = asyncio.create_task(begin())
                await asyncio.sleep(0.1)
                goes_on.set()
                await second
                assert cancelled or (await first) == table(LARGE).batches[0]
    assert (inside, most) == (0, 1)


async def test_closing_is_an_error_for_those_who_read_and_does_not_cancel_them():
    reader = await aio.open_file(in_memory(LARGE), "x")
    batches = aiter(reader)
    await anext(batches)
    following = asyncio.create_task(anext(batches))
    await asyncio.sleep(0)
    await reader.close()
    with pytest.raises(ipc.UsageError, match="closed"):
        await following


async def test_a_server_that_lies_or_stalls_is_refused_as_by_the_blocking_reader(web: Web):
    with pytest.raises(FileNotFoundError, match="nothing"):
        await aio.open_file(web.url("nothing"))
    store = obstore.store.MemoryStore()
    with pytest.raises(OSError, match="nothing"):
        await aio.open_file(store, "nothing")
    await obstore.put_async(store, "x", SMALL[:-10])
    with pytest.raises(ipc.FormatError, match="does not end with the magic"):
        await aio.open_file(store, "x")
    await obstore.put_async(store, "x", LARGE)
    reader = await aio.open_file(store, "x")
    await reader.get_batch(0)
    await obstore.put_async(store, "x", written(3, 1 << 17)[::-1])
    with pytest.raises(OSError, match="replaced"):
        await reader.get_batch(1)
    with BrokenServer({"arrow": (LARGE, LARGE)}, lambda ask: FOREVER) as broken:
        url = f"http://127.0.0.1:{broken.port}/0/x.arrow"
        with pytest.raises(TimeoutError, match="stalls"):
            await read(RemoteSource(url, timeout=0.3))


async def test_dictionaries_come_before_the_first_batch():
    schema = ipc.schema({"word": types.dictionary(types.int32(), types.utf8())})
    parts = [{"word": [f"word {number}" for number in range(end)]} for end in (9_000, 10_000, 20_000)]
    data = ipc_bytes(parts, "file", schema, unify_dictionaries=True)
    store = obstore.store.MemoryStore()
    await obstore.put_async(store, "x", data)
    assert (await read(store, "x")).equals(table(data))


def test_other_sources_are_refused_in_words_that_help():
    for source in (b"bytes", drive.Sink(), None):
        with pytest.raises(ipc.UsageError, match=r"arrowipc\.open_file\(\) reads"):
            aio.open_file(source)
    with pytest.raises(ipc.UsageError, match="needs a path"):
        aio.open_file(obstore.store.MemoryStore())
    with pytest.raises(ipc.UsageError, match="inside a store"):
        aio.open_file(5, "x")
