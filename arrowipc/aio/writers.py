"""Writing in an event loop: batches are sent in pieces, as fast as the receiver takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import aclosing
from io import BytesIO
from typing import TYPE_CHECKING, Any

from arrowipc.aio.off_loop import LARGE, off_loop, start as start_job, turns
from arrowipc.aio.streams import AsyncReader
from arrowipc.arguments import bytes_taken
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.encode.batch_writer import MessageSink
from arrowipc.encode.batches import batches_of
from arrowipc.errors import UsageError
from arrowipc.options import WriteOptions, with_keywords
from arrowipc.sources.source import CONTINUATION, END
from arrowipc.writer import RecordBatchFileWriter, new_file as new_blocking_file, new_stream as new_blocking_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
    from types import TracebackType
    from typing import Self, TypeAlias, Unpack

    from arrowipc.arguments import MetadataLike
    from arrowipc.decode.framing import Message
    from arrowipc.events import WriteStats
    from arrowipc.options import WriteKeywords
    from arrowipc.schemas import Schema
    from arrowipc.writer import RecordBatchStreamWriter

    BlockingWriter: TypeAlias = RecordBatchFileWriter | RecordBatchStreamWriter

#: Bytes of one chunk; other tasks get their turn between chunks.
CHUNK = 1 << 16


def _chunks_of(messages: list[Message]) -> Iterator[bytes]:
    """Yield the bytes of encapsulated messages; small parts are joined, and large ones cut."""
    parts: list[bytes | memoryview] = []
    size = 0
    for message in messages:
        metadata = message.metadata
        for part in (CONTINUATION, len(metadata).to_bytes(4, "little"), metadata, *message.stretches):
            for start in range(0, len(part), CHUNK):
                parts.append(part[start : start + CHUNK])
                size += len(parts[-1])
                if size >= CHUNK:
                    yield b"".join(parts)
                    parts, size = [], 0
    if parts:
        yield b"".join(parts)


async def _batches_in(
    data: Any, writer: BlockingWriter, call: Callable[..., Awaitable[Any]]
) -> AsyncGenerator[RecordBatch, None]:
    """Yield the batches of an argument; iterators that may block, and calls of the writer, run in another thread."""
    if isinstance(data, RecordBatch):
        yield data
    elif isinstance(data, AsyncIterable):
        if isinstance(data, AsyncReader):
            await call(writer.expect, (await data).schema)
        async for item in data:
            async with aclosing(_batches_in(item, writer, call)) as batches:
                async for batch in batches:
                    yield batch
    else:
        schema, found = await asyncio.to_thread(batches_of, data, writer.schema)
        if writer.schema is None and schema is not None:
            await call(writer.expect, schema)
        if isinstance(found, (list, tuple)):
            for batch in found:
                yield batch
            return
        iterator = iter(found)
        while (another := await asyncio.to_thread(next, iterator, None)) is not None:
            yield another


@with_keywords(WriteOptions)
def encode(data: Any, schema: Any = None, **keywords: Unpack[WriteKeywords]) -> AsyncGenerator[bytes, None]:
    """Encode batches as an Arrow IPC stream: the body of a ``StreamingResponse``, or of a request.

    Each batch is encoded when all bytes of the one before were taken. If the iteration ends early, the stream has no
    end marker.

    Parameters
    ----------
    data : async iterable, or anything that `arrowipc.new_stream`'s writer takes
        Batches, tables or objects of other libraries. A blocking iterable, such as a reader, is iterated in threads.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: that of the first batch; an empty stream needs it.
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Returns
    -------
    async iterator of bytes
        Chunks of 64 to 128 KiB; the last of each batch may be smaller.

    Raises
    ------
    UsageError
        An option is unknown (TypeError) or wrong; while iterating, batches of another schema.
    """
    sink = MessageSink()
    # Ignore the environment's setting of legacy framing: the sink takes messages, and `_chunks_of` frames them.
    framed: WriteKeywords = {"legacy": False, **keywords}
    # With an option such as a codec, even a small batch may be much work: always use another thread.
    return _encoded(data, new_blocking_stream(sink, schema, **framed), sink, 0 if any(keywords.values()) else LARGE)


async def _encoded(
    data: Any, writer: BlockingWriter, sink: MessageSink, most_inline: int
) -> AsyncGenerator[bytes, None]:
    async with aclosing(_batches_in(data, writer, off_loop)) as batches:
        async for batch in batches:
            if batch.nbytes < most_inline:
                writer.write_batch(batch)
            else:
                await off_loop(writer.write_batch, batch)
            for chunk in _chunks_of(sink.take()):
                await turns().wait()
                turns().spend(len(chunk))
                yield chunk
    await off_loop(writer.close)
    for chunk in _chunks_of(sink.take()):
        yield chunk
    yield END


class AsyncFileWriter:
    """Writes an Arrow IPC file in an event loop; made by `new_file`.

    Any number of tasks may write: calls run one at a time, in another thread.
    """

    def __init__(self, sink: Any, make: Callable[[Any], RecordBatchFileWriter]) -> None:
        self._sink, self._make = sink, make
        # The `write` of obstore's writers is no coroutine function, and gives something to await.
        is_async = asyncio.iscoroutinefunction(getattr(sink, "write", None)) or hasattr(sink, "__aenter__")
        #: Collects the written bytes, for a sink with an async `write`.
        self._pieces = BytesIO() if is_async else None
        self._writer: RecordBatchFileWriter | None = None
        self._turn = asyncio.Lock()
        self._job: asyncio.Future[Any] | None = None

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Make one call of the blocking writer, and pass its bytes to an async sink; other calls wait for the end."""
        async with self._turn:
            if self._job is not None:
                await asyncio.wait([self._job])  # the thread of a cancelled call still runs
            self._job = start_job(function, *arguments)
            await asyncio.wait([self._job])
            result = self._job.result()
            await self._send()
            return result

    async def _send(self) -> None:
        """Pass the collected bytes to an async sink."""
        if self._pieces is not None and (data := self._pieces.getvalue()):
            self._pieces.seek(0)
            self._pieces.truncate()
            done = 0
            try:
                while done < len(data):
                    done += bytes_taken(self._sink, len(data) - done, await self._sink.write(data[done:]))
            except BaseException as error:  # it is not known how much was written
                self._begun.abandon(f"the sink failed: {error!r}")
                raise

    async def _begin(self) -> Self:
        if self._writer is None:
            async with self._turn:
                if self._writer is None:  # no other task has opened the file meanwhile
                    # The sink is opened once: after a call that was cancelled or failed, this is the job of that call.
                    self._job = self._job or start_job(self._make, self._sink if self._pieces is None else self._pieces)
                    await asyncio.wait([self._job])
                    self._writer = self._job.result()
                    await self._send()
        return self

    @property
    def _begun(self) -> RecordBatchFileWriter:
        if self._writer is None:
            raise UsageError("the file is not open yet: await the writer, or enter it with async with")
        return self._writer

    @property
    def schema(self) -> Schema | None:
        """Schema, or None as long as it waits for the first batch."""
        return self._begun.schema

    @property
    def stats(self) -> WriteStats:
        """WriteStats: messages, batches, dictionaries and bytes written so far."""
        return self._begun.stats

    async def write(self, data: Any) -> None:
        """Write rows: an async iterable, or anything that the writer of `arrowipc.new_file` takes.

        Raises
        ------
        UsageError
            The columns are not those of the writer's schema; or the writer is closed.
        OSError
            The sink failed; the writer cannot continue.
        """
        await self._begin()
        writer = self._begun
        async with aclosing(_batches_in(data, writer, self._call)) as batches:
            async for batch in batches:
                await self._call(writer.write_batch, batch)

    write_batch = write
    write_table = write

    async def close(self) -> None:
        """Write the footer; after that, a file has its final name."""
        await self._begin()
        await self._call(self._begun.close)

    def __await__(self) -> Generator[Any, None, Self]:
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        try:
            return await self._begin()
        except asyncio.CancelledError:
            if self._job is not None:  # there will be no `__aexit__`
                self._job.add_done_callback(_abandon)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        writer = self._begun
        try:
            await self._call(writer.__exit__, kind, error, trace)
        except asyncio.CancelledError:
            if self._job is not None:  # there will be no other `__aexit__`
                self._job.add_done_callback(lambda _: start_job(writer.abandon, "it was cancelled while it was closed"))
            raise

    def __repr__(self) -> str:
        return f"<AsyncFileWriter: {'not begun' if self._writer is None else repr(self._writer)}>"


def _abandon(job: asyncio.Future[Any]) -> None:
    """Remove the file that a cancelled call has opened."""
    if not job.cancelled() and job.exception() is None:
        start_job(job.result().abandon, "it was cancelled while it was opened")


@with_keywords(WriteOptions)
def new_file(
    sink: Any,
    schema: Any = None,
    *,
    metadata: MetadataLike = None,
    append: bool = False,
    **keywords: Unpack[WriteKeywords],
) -> AsyncFileWriter:
    """Start an Arrow IPC file, which is written in other threads.

    ``await`` the result, or enter it with ``async with``: leaving the block closes it. If the block is left by an
    exception, an unfinished file at a path is removed.

    Parameters
    ----------
    sink : path, URL, or what else `arrowipc.new_file` takes; or an object with an async ``write``
        Such an object, for example a file of anyio or aiofiles, stays open.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: that of the first data written, or of the file that is appended to.
    metadata : mapping or pairs of str or bytes, optional
        The metadata of the file.
    append : bool, default False
        Append to the file at this path, if there is one.
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Returns
    -------
    AsyncFileWriter

    Raises
    ------
    UsageError, UnsupportedError, FormatError, OSError
        When the file is opened, as by `arrowipc.new_file`.
    """
    WriteOptions(keywords)  # raises at once if one is wrong

    def make(target: Any) -> RecordBatchFileWriter:
        return new_blocking_file(target, schema, metadata=metadata, append=append, **keywords)

    return AsyncFileWriter(sink, make)
