"""Writing in an event loop: batches go out in pieces, as fast as the other side takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from arrowipc.aio.off_loop import LARGE, off_loop, turns
from arrowipc.aio.streams import AsyncReader
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.options import WriteOptions, with_keywords
from arrowipc.write.batch_writer import MessageSink
from arrowipc.write.batches import batches_of
from arrowipc.writer import RecordBatchStreamWriter, new_stream as new_blocking_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from typing import Unpack

    from arrowipc.options import WriteKeywords
    from arrowipc.read.framing import Message

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


async def _batches_in(data: Any, writer: RecordBatchStreamWriter) -> AsyncGenerator[RecordBatch, None]:
    """The batches of an argument; iterators that may block run in another thread."""
    if isinstance(data, RecordBatch):
        yield data
    elif isinstance(data, AsyncIterable):
        if isinstance(data, AsyncReader):
            writer.expect((await data).schema)
        async for item in data:
            async with aclosing(_batches_in(item, writer)) as batches:
                async for batch in batches:
                    yield batch
    else:
        schema, found = await asyncio.to_thread(batches_of, data, writer.schema)
        if writer.schema is None and schema is not None:
            writer.expect(schema)
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

    One batch is encoded at a time, when the one before it was taken. Where the iteration ends early, the stream has no
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
    sink = MessageSink()
    # Whatever the environment says of old framing: the sink takes messages, not bytes.
    framed: WriteKeywords = {"legacy": False, **keywords}
    # With an option, such as a codec, a little data may be a lot of work.
    return _encoded(data, new_blocking_stream(sink, schema, **framed), sink, 0 if any(keywords.values()) else LARGE)


async def _encoded(
    data: Any, writer: RecordBatchStreamWriter, sink: MessageSink, most_inline: int
) -> AsyncGenerator[bytes, None]:
    async with aclosing(_batches_in(data, writer)) as batches:
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
    yield PREFIX + bytes(4)
