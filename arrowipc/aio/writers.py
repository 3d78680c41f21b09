"""Writing in an event loop: batches go out in pieces, as fast as the other side takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from arrowipc.aio.chunks import sender
from arrowipc.aio.off_loop import LARGE, off_loop, turns
from arrowipc.aio.streams import AsyncReader
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import UsageError
from arrowipc.options import WriteOptions, with_keywords
from arrowipc.write.batch_writer import MessageSink
from arrowipc.write.batches import batches_of
from arrowipc.writer import RecordBatchStreamWriter, new_stream as new_blocking_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from typing import Self, Unpack

    from arrowipc.events import WriteStats
    from arrowipc.options import WriteKeywords
    from arrowipc.read.framing import Message
    from arrowipc.schema import Schema

#: Bytes that go out at once, before other tasks get their turn.
CHUNK = 1 << 16
PREFIX = b"\xff\xff\xff\xff"


def _chunks_of(messages: list[Message]) -> Iterator[bytes]:
    """The bytes of encapsulated messages, small parts joined and large ones cut."""
    parts: list[bytes | memoryview] = []
    size = 0
    for message in messages:
        metadata = message.metadata
        for part in (PREFIX, len(metadata).to_bytes(4, "little"), metadata, *message.stretches):
            for start in range(0, len(part), CHUNK):
                parts.append(part[start : start + CHUNK])
                size += len(parts[-1])
                if size >= CHUNK:
                    yield b"".join(parts)
                    parts, size = [], 0
    if parts:
        yield b"".join(parts)


class _Encoding:
    """One stream as chunks: what a writer makes of batches, and where it makes it."""

    def __init__(self, schema: Any, keywords: WriteKeywords) -> None:
        self._sink = MessageSink()
        # Whatever the environment says of old framing: the sink takes messages, not bytes.
        framed: WriteKeywords = {"legacy": False, **keywords}
        self.writer: RecordBatchStreamWriter = new_blocking_stream(self._sink, schema, **framed)
        # With an option, such as a codec, a little data may be a lot of work.
        self._most_inline = 0 if any(keywords.values()) else LARGE

    async def encode(self, batch: RecordBatch) -> Iterator[bytes]:
        """Encode a batch; returns what is to be sent now."""
        if batch.nbytes < self._most_inline:
            self.writer.write_batch(batch)
        else:
            await off_loop(self.writer.write_batch, batch)
        return _chunks_of(self._sink.take())

    async def end(self) -> Iterator[bytes]:
        """Encode what ends the stream."""
        await off_loop(self.writer.close)
        return (chunk for chunks in (_chunks_of(self._sink.take()), (PREFIX + bytes(4),)) for chunk in chunks)

    async def batches(self, data: Any) -> AsyncGenerator[RecordBatch, None]:
        """Yield the batches of an argument; iterators that may block run in another thread."""
        if isinstance(data, RecordBatch):
            yield data
        elif isinstance(data, AsyncIterable):
            if isinstance(data, AsyncReader):
                self.writer.expect((await data).schema)
            async for item in data:
                async with aclosing(self.batches(item)) as batches:
                    async for batch in batches:
                        yield batch
        else:
            schema, found = await asyncio.to_thread(batches_of, data, self.writer.schema)
            if self.writer.schema is None and schema is not None:
                self.writer.expect(schema)
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

    One batch is encoded at a time, when the one before it was taken.

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
        Of 64 to 128 KiB, but for the last of each batch.

    Raises
    ------
    UsageError
        An option is unknown (TypeError) or wrong; while iterating, batches of another schema.

    Examples
    --------
    >>> import asyncio
    >>> import arrowipc as ipc
    >>> async def rows():
    ...     for x in range(3):
    ...         yield ipc.RecordBatch.from_pydict({"x": [x]})
    >>> async def main():
    ...     return b"".join([chunk async for chunk in ipc.aio.encode(rows(), compression="zstd")])
    >>> ipc.open_stream(asyncio.run(main())).read_all().to_pydict()
    {'x': [0, 1, 2]}
    """
    return _encoded(_Encoding(schema, keywords), data)


async def _encoded(encoding: _Encoding, data: Any) -> AsyncGenerator[bytes, None]:
    async with aclosing(encoding.batches(data)) as batches:
        async for batch in batches:
            for chunk in await encoding.encode(batch):
                await turns().wait()
                turns().spend(len(chunk))
                yield chunk
    for chunk in await encoding.end():
        yield chunk


class AsyncStreamWriter:
    """Writes an Arrow IPC stream to a sink in an event loop; made by `new_stream`.

    One task at a time may write. After a write that was cancelled, or in which the sink failed, a message is
    incomplete, and the writer refuses further batches. The sink stays open.
    """

    def __init__(self, sink: Any, schema: Any, keywords: WriteKeywords) -> None:
        self._send = sender(sink)
        self._encoding = _Encoding(schema, keywords)
        self._failure: str | None = None
        self._writing = False

    @property
    def schema(self) -> Schema | None:
        """Schema: of the batches; None before anything has said what they are."""
        return self._encoding.writer.schema

    @property
    def stats(self) -> WriteStats:
        """WriteStats: messages, batches, dictionaries and bytes written so far."""
        return self._encoding.writer.stats

    async def write(self, data: Any) -> None:
        """Write rows of any kind, and wait until the sink has room for more.

        Parameters
        ----------
        data : object
            As for `encode`.

        Raises
        ------
        UsageError
            The columns are not those of the writer's schema; or the writer is closed, or an error ended it.
        OSError
            The sink failed.
        """
        self._occupy()
        try:
            async with aclosing(self._encoding.batches(data)) as batches:
                async for batch in batches:
                    await self._put(self._encoding.encode, batch)
        finally:
            self._writing = False

    async def close(self) -> None:
        """Write what ends the stream; the sink stays open."""
        if self._failure == "it was closed":
            return
        self._occupy()
        try:
            await self._put(self._encoding.end)
            self._failure = "it was closed"
        finally:
            self._writing = False

    def _occupy(self) -> None:
        if self._failure is not None:
            raise UsageError(f"this writer cannot continue: {self._failure}")
        if self._writing:
            raise UsageError("another task writes with this writer: one at a time may")
        self._writing = True

    async def _put(self, encoded: Callable[..., Any], *arguments: Any) -> None:
        """Encode something and send it; what is refused before anything was sent does no harm."""
        chunks = None
        try:
            chunks = await encoded(*arguments)
            for chunk in chunks:
                await turns().wait()
                turns().spend(len(chunk))
                await self._send(chunk)
        except BaseException as error:
            if chunks is not None or isinstance(error, asyncio.CancelledError):
                self._failure = f"an error ended it: {str(error) or type(error).__name__}"
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.close()
        elif self._failure is None:
            # No end marker: whoever reads what was sent must not take it for all.
            self._failure = f"the with block was left by {kind.__name__}"


@with_keywords(WriteOptions)
def new_stream(sink: Any, schema: Any = None, **keywords: Unpack[WriteKeywords]) -> AsyncStreamWriter:
    """Begin an Arrow IPC stream into a sink of an event loop.

    Parameters
    ----------
    sink : asyncio.StreamWriter, anyio stream, or an object with an async ``write``
        Never has to hold more than it says: each piece of 64 KiB waits for its ``drain``, ``send`` or ``write``.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: that of the first thing that is written.
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Returns
    -------
    AsyncStreamWriter

    Raises
    ------
    UsageError
        The sink is none of these, or an option is wrong.

    Examples
    --------
    >>> import asyncio
    >>> import arrowipc as ipc
    >>> class Sink(bytearray):
    ...     async def write(self, data):  # as responses of aiohttp have it
    ...         self += data
    >>> async def main(sink):
    ...     async with ipc.aio.new_stream(sink) as writer:
    ...         await writer.write({"x": [1, 2]})
    >>> asyncio.run(main(sink := Sink()))
    >>> ipc.open_stream(sink).read_all().to_pydict()
    {'x': [1, 2]}
    """
    return AsyncStreamWriter(sink, schema, keywords)
