"""Remote files in an event loop: requests run concurrently, and batches are decoded in other threads."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from arrowipc.aio.off_loop import LARGE, off_loop, retrieve_exception, start
from arrowipc.aio.streams import AsyncReader
from arrowipc.arguments import batch_number, check_integer, described, items_of
from arrowipc.decode.file_decoder import TAIL_SIZE, FileDecoder, footer_range
from arrowipc.errors import UsageError
from arrowipc.events import ReadStats
from arrowipc.options import DecodeOptions, with_keywords
from arrowipc.sources.file_objects import replaced, version_of
from arrowipc.sources.file_statistics import stated_lengths
from arrowipc.sources.http import Refused, fetch_all
from arrowipc.sources.remote import WINDOW, RemoteBlocks, RemoteSource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
    from typing import TypeVar, Unpack

    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.options import DecodeKeywords
    from arrowipc.sources.remote import Steps

    Result = TypeVar("Result")


class StoreSystem:
    """A store of obstore, as the file system of a `RemoteSource`."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def file_at(self, path: str, version: Mapping[str, str]) -> StoreFile:
        """Return an object that reads a file."""
        return StoreFile(self._store, path, version)


class StoreFile:
    """A file in a store of obstore; like `HttpFile`, it reads one version only."""

    async_impl = asynchronous = True

    def __init__(self, store: Any, path: str, version: Mapping[str, str]) -> None:
        self._store, self._path = store, path
        self.version: dict[str, str] = dict(version)

    async def _size(self) -> int:
        return self._compare(await self._store.head_async(self._path))

    async def _ends(self, tail: int) -> tuple[int | None, list[tuple[int, Any]]]:
        try:
            (size, first), (total, last) = await fetch_all(self._get, [((0, 8),), ({"suffix": tail},)])
        except Exception:  # some stores do not support ranges from the end; `_size` and `_fetch` raise other errors
            return None, []
        whole = size == total and len(first) == min(8, size) and len(last) == min(tail, size)
        return (size, [(0, first), (size - len(last), last)]) if whole else (None, [])

    async def _fetch(self, ranges: Sequence[tuple[int, int]], size: int) -> list[Any]:
        async def one(start: int, end: int) -> Any:
            total, data = await self._get((start, end)) if start < end else (size, b"")
            if (total, len(data)) != (size, end - start):
                raise Refused(f"asked for bytes {start:,} to {end:,} of {size:,} and got {len(data):,} of {total:,}")
            return data

        return await fetch_all(one, ranges)

    async def _get(self, part: Any) -> tuple[int, Any]:
        """Return the length of the file, and a part of it."""
        etag = self.version.get("etag", "W/")
        options = {"range": part} | ({} if etag.startswith("W/") else {"if_match": etag})
        try:
            found = await self._store.get_async(self._path, options=options)
        except Exception as error:
            if type(error).__name__ == "PreconditionError":
                raise Refused("the file was replaced while it was read: open it again") from error
            raise
        return self._compare(found.meta), await found.bytes_async()

    def _compare(self, meta: Mapping[str, Any]) -> int:
        names = {"size": "size", "e_tag": "ETag", "last_modified": "LastModified", "version": "VersionId"}
        found = version_of({ours: meta[theirs] for theirs, ours in names.items()})
        reason = replaced(self.version, found)
        if reason is not None:
            raise Refused(f"the file was replaced while it was read: {reason}; open it again")
        self.version = self.version or found
        return meta["size"]  # type: ignore[no-any-return]


def _located(source: Any, path: str | None) -> RemoteSource:
    """Return the source for the arguments of `open_file`."""
    if path is not None:
        if hasattr(source, "get_ranges_async"):
            source = StoreSystem(source)
        elif not hasattr(source, "cat_ranges"):
            raise UsageError(f"path: expected one inside a store or a file system, found {described(source)}")
        return RemoteSource(path, filesystem=source)
    if isinstance(source, RemoteSource):
        return source
    if isinstance(source, (str, os.PathLike)):
        return RemoteSource(os.fspath(source))
    needs = ", which needs a path" if hasattr(source, "get_ranges_async") or hasattr(source, "cat_ranges") else ""
    raise UsageError(
        f"expected a URL, a RemoteSource, or a file system or store and a path, found {described(source)}{needs}: "
        "arrowipc.open_file() reads paths, bytes and file objects, arrowipc.aio.open_stream() streams of bytes"
    )


async def _call(source: RemoteSource, what: Any, *arguments: Any) -> Any:
    """Make one call of `Steps` without blocking this loop."""
    system = source.system
    if callable(what) or not getattr(system, "async_impl", False):
        return await asyncio.to_thread(what if callable(what) else getattr(system, what), *arguments)
    asked = getattr(system, f"_{what}")(*arguments)
    if system.asynchronous:
        return await asked
    # Run it in fsspec's loop, to which its connections belong.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, system.loop))


def _advance(steps: Steps[Any], error: Exception | None, answer: Any) -> tuple[Any, Any]:
    """Advance the steps: return (call, None) for the next call, or (None, result) at the end."""
    try:
        return (steps.send(answer) if error is None else steps.throw(error)), None
    except StopIteration as end:
        return None, end.value


class AsyncFileReader(AsyncReader):
    """Reads the batches of an Arrow IPC file in an event loop, in any order; made by `open_file`.

    Any number of tasks may read at the same time. Batches are decoded in other threads.
    """

    def __init__(self, source: RemoteSource, prefetch: int, options: DecodeOptions) -> None:
        self._source, self._prefetch = source, check_integer("prefetch", prefetch, 0, 2**63 - 1)
        self._options = options
        self._decoder: FileDecoder | None = None
        self._blocks: Any = None  # RemoteBlocks, once it has begun
        self._turn = asyncio.Lock()  # held by the task that makes requests
        self._job: asyncio.Future[Any] | None = None  # a step in a thread, also of a task that was cancelled
        self._tasks: set[asyncio.Task[RecordBatch]] = set()

    def _footer(self) -> Steps[FileDecoder]:
        source = self._source
        size = yield from source.sizing()
        tail = yield from source.reading(max(size - TAIL_SIZE, 0), min(size, TAIL_SIZE))
        head = yield from source.reading(0, min(size, 8))
        start, length = footer_range(head, tail, size)
        footer = yield from source.reading(start, length)
        decoder = FileDecoder(footer, start, **self._options.decoding())
        for at, stop in decoder.to_check:
            decoder.check(at, (yield from source.reading(at, stop - at)))
        return decoder

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the turn, and let the thread of a task that was cancelled while it held it come to its end."""
        async with self._turn:
            if self._job is not None:
                await asyncio.wait([self._job])
                self._job = None
            yield

    async def _wait(self, steps: Steps[Result]) -> Result:
        """Await the calls that `steps` yields, like `arrowipc.sources.remote.run`, in the turn of this task.

        The steps run in another thread.
        """
        answer, failure = None, None
        while True:
            self._job = job = start(_advance, steps, failure, answer)
            await asyncio.wait([job])
            self._job = None
            asked, result = job.result()
            if asked is None:
                return result  # type: ignore[no-any-return]
            answer, failure = None, None
            try:
                answer = await _call(self._source, *asked)
            except Exception as error:
                failure = error

    async def _open(self) -> None:
        async with self._alone():
            if self._blocks is None:
                decoder = await self._wait(self._footer())
                blocks = RemoteBlocks(self._source, decoder)
                await self._wait(blocks.load_dictionaries())
                self._decoder, self._blocks, self._schema = decoder, blocks, decoder.schema

    @property
    def _opened(self) -> FileDecoder:
        if self._decoder is None:
            raise UsageError("the file is not open yet: await the reader, or enter it with async with")
        return self._decoder

    @property
    def metadata(self) -> KeyValueMetadata:
        """KeyValueMetadata: the metadata of the footer."""
        return self._opened.metadata

    @property
    def num_record_batches(self) -> int:
        """int: batches that the footer lists."""
        return self._opened.num_record_batches

    @property
    def stats(self) -> ReadStats:
        """ReadStats: messages, batches and dictionaries read so far."""
        return ReadStats(*self._opened.stats)

    async def get_batch(self, i: int) -> RecordBatch:
        """Return batch `i` in the footer's order; negative ones count from the end.

        Raises
        ------
        IndexError
            The file has fewer batches.
        FormatError, LimitError, UnsupportedError
            The bytes cannot be decoded; other batches may still be read.
        OSError
            The source cannot be read.
        """
        await self._begin()
        return await self._get(batch_number(i, self.num_record_batches))

    def get_batches(self, indices: Iterable[int]) -> AsyncGenerator[RecordBatch, None]:
        """Iterate over some batches, in the order of `indices`; near ones are fetched with one request.

        Raises
        ------
        IndexError
            The file has fewer batches; raised before the first one is read.
        FormatError, LimitError, UnsupportedError, OSError
            As for `get_batch`.
        """
        return self._in_order(items_of("indices", indices))

    async def count_rows(self) -> int:
        """Return the number of rows of all batches, from their metadata alone: no body is fetched."""
        await self._begin()
        async with self._alone():
            self._check_open()
            return sum(await self._wait(self._lengths()))

    def _lengths(self) -> Steps[list[int]]:
        blocks, decoder, numbers = self._blocks, self._opened, range(self.num_record_batches)
        lengths = stated_lengths(decoder.metadata, len(numbers))
        if lengths is None:
            lengths = []
            blocks.expect(numbers)
            for i in numbers:
                lengths.append(decoder.described(i, (yield from blocks.head(i)))[1])
        return lengths

    async def _get(self, i: int) -> RecordBatch:
        blocks, decoder = self._blocks, self._opened
        blocks.waiting.append(i)
        try:
            if not blocks.is_ready(i):
                await asyncio.sleep(0)  # let other tasks register in `waiting`, to fetch their batches, too
            async with self._alone():
                self._check_open()
                if blocks.is_ready(i) and sum(decoder.block(i)[1:]) < LARGE:
                    block, at = blocks.run(blocks.batch(i))
                else:
                    block, at = await self._wait(blocks.batch(i))
        finally:
            blocks.waiting.remove(i)
        batch: RecordBatch = await off_loop(decoder.batch, i, block, at)
        return batch

    def __aiter__(self) -> AsyncGenerator[RecordBatch, None]:
        return self._in_order(None)

    async def _in_order(self, indices: Sequence[int] | None) -> AsyncGenerator[RecordBatch, None]:
        """Yield batches in the order of `indices` (None: all), and read some ahead."""
        await self._begin()
        count = self.num_record_batches
        numbers = range(count) if indices is None else [batch_number(i, count) for i in indices]
        ahead: deque[tuple[int, asyncio.Task[RecordBatch]]] = deque()
        held, following = 0, 0
        async with self._alone():
            self._blocks.expect(numbers)
        try:
            for i in range(len(numbers)):
                following = max(following, i)
                while following < len(numbers) and (
                    following == i or (len(ahead) <= self._prefetch and (len(ahead) <= 1 or held < WINDOW))
                ):
                    size = sum(self._opened.block(numbers[following])[1:])
                    ahead.append((size, self._task(numbers[following])))
                    held, following = held + size, following + 1
                size, task = ahead[0]
                await asyncio.wait([task])
                self._check_open()  # `close` cancels that task, and must not seem to cancel this one
                ahead.popleft()
                held -= size
                yield task.result()
        finally:
            for _, task in ahead:
                task.cancel()

    def _task(self, i: int) -> asyncio.Task[RecordBatch]:
        """Begin to read a batch; its result may be ignored."""
        task = asyncio.get_running_loop().create_task(self._get(i))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(retrieve_exception)
        return task

    async def close(self) -> None:
        """Release the source, and cancel reads that were started ahead; batches that were read stay valid."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@with_keywords(DecodeOptions)
def open_file(
    source: Any,
    path: str | None = None,
    *,
    prefetch: int = 4,
    **keywords: Unpack[DecodeKeywords],
) -> AsyncFileReader:
    """Open an Arrow IPC file at a URL or in an object store.

    ``await`` the result, or enter it with ``async with``; ``async for`` over it gives the batches in order. Only what
    `columns` need is fetched: the last 128 KiB with the footer, then the ranges of the batches, near ones joined.

    Parameters
    ----------
    source : URL, RemoteSource, fsspec.AbstractFileSystem or store of obstore
        `RemoteSource` adds options such as credentials to a URL.
    path : str, optional
        The path of the file in a file system or store.
    prefetch : int, default 4
        Batches that ``async for`` reads ahead; only one if the batches have more than 8 MiB.
    **keywords
        Those of `arrowipc.options.DecodeOptions`.

    Returns
    -------
    AsyncFileReader

    Raises
    ------
    UsageError
        The source is none of these, or fsspec or what it needs for the URL is not installed.
    FormatError, UnsupportedError, OSError
        While reading, as by `arrowipc.open_file`.
    """
    return AsyncFileReader(_located(source, path), prefetch, DecodeOptions(keywords))
