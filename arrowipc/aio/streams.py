"""Readers in an event loop: their base class, and the readers of streams."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from arrowipc.aio.chunks import Incoming
from arrowipc.aio.off_loop import LARGE, start, turns
from arrowipc.arguments import Initialized, check_flag
from arrowipc.decode.framing import Framer, survey
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.errors import UsageError
from arrowipc.events import BatchRead, ReadStats
from arrowipc.options import DecodeOptions, with_keywords
from arrowipc.reader import instead_of_rows
from arrowipc.stream_readers import FollowingStreamReader
from arrowipc.tables import Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from typing import Self, Unpack

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.options import DecodeKeywords
    from arrowipc.schemas import Schema

#: The least cost of decoding a message, in bytes of a body.
LEAST = 1 << 12


class AsyncReader(Initialized):
    """Base of the readers in an event loop: they begin when they are awaited or entered."""

    @classmethod
    def _instead(cls) -> dict[str, str]:
        return {**super()._instead(), **instead_of_rows("(await reader.read_all())")}

    _closed = False
    _reading = False  # whether a task reads, if only one at a time may
    _schema: Schema | None = None

    async def _open(self) -> None:
        """Read up to the schema."""
        raise NotImplementedError

    async def _begin(self) -> Self:
        self._check_open()
        try:
            if self._schema is None:
                await self._open()
        except Exception:  # after a cancelled call, the next one goes on
            if not self._reading:  # else another task does
                await self.close()
            raise
        return self

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the reader is closed: open the source again; batches that were read before stay valid")

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection.

        Raises
        ------
        UsageError
            Nothing was read yet: ``await`` the reader, or enter it with ``async with``.
        """
        if self._schema is None:
            raise UsageError("the schema is not here yet: await the reader, or enter it with async with")
        return self._schema

    def __aiter__(self) -> AsyncIterator[RecordBatch]:
        raise NotImplementedError

    async def read_all(self) -> Table:
        """Read the remaining batches into a `Table`."""
        await self._begin()
        return Table(self.schema, [batch async for batch in self])

    async def close(self) -> None:
        """Release the source; batches that were read stay valid."""
        self._closed = True

    def __await__(self) -> Generator[Any, None, Self]:
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        try:
            return await self._begin()
        except asyncio.CancelledError:
            await self.close()  # there will be no `__aexit__`
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._schema is not None else "not begun"
        return f"<{type(self).__name__}: {state}>" + (f"\n{self._schema}" if self._schema is not None else "")


class AsyncStreamReader(AsyncReader):
    """Reads the batches of an Arrow IPC stream in an event loop; made by `open_stream`.

    ``async for``, or `read_next_batch`, gives each batch once. One task at a time may read. Small messages are decoded
    in the loop's thread, those of 64 KiB and more in another one. After a cancelled read, reading can continue without
    loss if the source allows that (asyncio's and anyio's streams do, generators do not).
    """

    def __init__(self, source: Any, options: DecodeOptions) -> None:
        self._decoder = StreamDecoder(**{**options.decoding(), "verify": False})
        self._framer = Framer(options.limits, options.verify)  # verifies numbers and end: it sees all messages
        self._incoming = Incoming(source, self._framer)
        self._job: asyncio.Future[Any] | None = None

    @property
    def at_end(self) -> bool:
        """bool: whether the stream is over."""
        return self._framer.at_end and self._job is None

    async def _open(self) -> None:
        while self._schema is None:
            await self._next()

    async def _next(self) -> Any:
        """Return the next event of the decoder; None at the end."""
        self._check_open()
        if self._reading:
            raise UsageError("another task reads from this reader: one at a time may")
        self._reading = True
        try:
            if self._job is None:
                self._decoder.read_schema()  # an error that ended the decoder is no end of the stream
            while not self.at_end:
                event = await self._step()
                if event is not None:
                    return event
            if self._schema is None:
                # Let the decoder raise its usual error for a stream without a schema.
                self._decoder.feed(bytes.fromhex(self._framer.end_marker or ""), True)
                self._decoder.read_schema()
            return None
        finally:
            self._reading = False

    async def _step(self) -> Any:
        """Do the next step; return its event, or None if it made none."""
        incoming = self._incoming
        message = None
        if self._job is None:
            if incoming.missing > 0:
                await incoming.bring()
            else:
                await turns().wait()
            if not incoming.is_large:
                message = self._framer.next_message()
                if message is None:
                    incoming.want(self._framer.bytes_needed)
                    return None
                size = _size(message)
                if size < LARGE:
                    turns().spend(size + LEAST)
                    return self._decode(message)
            self._job = start(self._decode, message)
        # If this task is cancelled here, the next read continues with the job.
        await asyncio.wait([self._job])
        job, self._job = self._job, None
        event = job.result()
        if event is None:
            incoming.want(self._framer.bytes_needed)
        else:
            incoming.want(0)
        return event

    def _decode(self, message: Message | None) -> Any:
        """Decode a message, by default the framer's next one; return None if that is not complete."""
        if message is None:
            message = self._framer.next_message()
        if message is None:
            return None
        event = self._decoder.decode_next(message)
        if self._schema is None:
            self._schema = self._decoder.schema
        return event

    async def read_next_batch(self) -> RecordBatch:
        """Return the next batch.

        Raises
        ------
        StopAsyncIteration
            There are no more batches.
        TruncatedError, FormatError, LimitError, UnsupportedError
            The bytes cannot be decoded. The reader cannot be used after that.
        """
        while True:
            event = await self._next()
            if event is None:
                raise StopAsyncIteration
            if isinstance(event, BatchRead):
                return event.batch

    __anext__ = read_next_batch

    def __aiter__(self) -> Self:
        return self

    @property
    def stats(self) -> ReadStats:
        """ReadStats: messages, batches and dictionaries read so far."""
        return ReadStats(*self._decoder.stats)

    @property
    def bytes_consumed(self) -> int:
        """int: bytes of the stream that were read; an iterator may already have given bytes that follow the stream."""
        return self._framer.bytes_consumed

    async def close(self) -> None:
        """Release the source, which stays open unless it is a generator; batches that were read stay valid."""
        if not self._closed:
            self._closed = True
            self._framer.release()
            self._decoder.release()
            if not self._reading:
                await self._incoming.close()


class AsyncFollowingReader(AsyncStreamReader):
    """Reads the batches of a stream that grows; made by ``open_stream(path, follow=True)``.

    As `AsyncStreamReader`; other threads read the file, and the loop waits for changes, so that no thread waits.
    """

    def __init__(self, source: Any, timeout: float | None, follow: bool, options: DecodeOptions) -> None:
        self._follower = FollowingStreamReader(source, timeout, follow, False, **options.decoding())
        self._framer = self._decoder = self._follower.decoder
        self._job = None
        self._told = asyncio.Event()  # the folder has changed, or the reader was closed

    async def _step(self) -> Any:
        follower, since = self._follower, time.monotonic()
        # The last event, the end, may be that of a call that was cancelled.
        while self._job is not None or not follower.decoder.at_end:
            self._job = self._job or start(follower.event)
            await asyncio.wait([self._job])
            job, self._job = self._job, None
            event = job.result()
            self._check_open()
            self._framer = self._decoder = follower.decoder  # a new one after the file was replaced
            if event is not None:
                self._schema = self._decoder.schema
                return event
            left = follower.seconds_left(since)
            if not left and not follower.decoder.at_end:
                raise StopAsyncIteration
            await self._changed(min(left, follower.following.most))
        return None

    async def _changed(self, seconds: float) -> None:
        """Wait like `FollowedPath.wait`, without blocking the loop."""
        following, told = self._follower.following, self._told
        if following.events is not None:
            asyncio.get_running_loop().add_reader(following.events, told.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await told.wait()
        finally:
            told.clear()
            self._forget_events()
        following.wait(0)

    def _forget_events(self) -> None:
        """Let the loop no longer wait for changes: another file may get the number of a closed descriptor."""
        if not self._closed and self._follower.following.events is not None:
            asyncio.get_running_loop().remove_reader(self._follower.following.events)

    async def close(self) -> None:
        """Close the file; batches that were read stay valid."""
        self._forget_events()
        self._closed = True
        self._told.set()
        self._follower.close()


def _size(message: Message) -> int:
    """Return the bytes that decoding a message has to process: the stored ones or, if larger, their stated size."""
    found = survey(message) if message.body_length < LARGE else None
    return max(message.body_length, message.metadata.nbytes, 0 if found is None else found[2])


@with_keywords(DecodeOptions)
def open_stream(
    source: Any, *, follow: bool = False, timeout: float | None = None, **keywords: Unpack[DecodeKeywords]
) -> AsyncStreamReader:
    """Open an Arrow IPC stream whose bytes arrive in an event loop.

    ``async for`` over the result gives the batches; ``await`` it, or enter it with ``async with``, to get the schema
    first. Nothing is read ahead.

    Parameters
    ----------
    source : asyncio.StreamReader, async iterator of bytes, anyio stream, or an object with an async ``read``
        Also a request or response of httpx, aiohttp or Starlette. A source that can read a given number of bytes is
        left at the end of the stream, and not closed; a generator is closed. With `follow`: a path.
    follow : bool, default False
        Wait for the batches that are appended to the file at this path, as `arrowipc.open_stream` does.
    timeout : float, optional
        With `follow`: seconds to wait for the next batch, or for the schema. Default: for ever.
    **keywords
        Those of `arrowipc.options.DecodeOptions`.

    Returns
    -------
    AsyncStreamReader

    Raises
    ------
    UsageError
        The source is none of these.
    FormatError, UnsupportedError
        While reading, as by `arrowipc.open_stream`. Exceptions of the source are passed on.
    """
    options = DecodeOptions(keywords)
    if check_flag("follow", follow) or timeout is not None:
        return AsyncFollowingReader(source, timeout, follow, options)
    return AsyncStreamReader(source, options)
