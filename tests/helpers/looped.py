"""Sources and sinks of event loops over bytes at hand, and a loop in which tests that are no coroutines read them."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from arrowipc import aio

_runner: list[asyncio.Runner] = []


def run(doing: Coroutine[Any, Any, Any]) -> Any:
    """Run in the one loop of this process, which costs less than a new one each time."""
    if not _runner:
        _runner.append(asyncio.Runner())
        atexit.register(_runner[0].close)
    return _runner[0].run(doing)


async def pieces(data: bytes, sizes: Iterator[int]) -> AsyncIterator[bytes]:
    """The data as a generator, in chunks of these sizes; 0 gives an empty one."""
    at = 0
    while at < len(data):
        size = next(sizes)
        yield data[at : at + size]
        at += size


class Reads:
    """An object with an async `read` that gives fewer bytes than it is asked for."""

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        self.data, self.at, self._sizes = data, 0, sizes
        self.most = 0

    async def read(self, size: int) -> bytes:
        self.most = max(self.most, size)
        part = self.data[self.at : self.at + min(size, max(1, next(self._sizes)))]
        self.at += len(part)
        return part


class Receives(Reads):
    """The same as a stream of anyio, whose end is an exception."""

    class EndOfStream(Exception):
        """As anyio's."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        part = await super().read(max_bytes)
        if not part:
            raise self.EndOfStream
        return part

    read = None  # type: ignore[assignment]


def fed(data: bytes) -> asyncio.StreamReader:
    """A StreamReader that has all the data; made where a loop runs."""
    source = asyncio.StreamReader()
    source.feed_data(data)
    source.feed_eof()
    return source


def sources(data: bytes, sizes: Iterator[int]) -> list[Any]:
    """One of each kind over the same data."""
    return [pieces(data, sizes), Reads(data, sizes), Receives(data, sizes), fed(data)]


async def read(source: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The schema and the batches of a source."""
    async with aio.open_stream(source, **options) as reader:
        return reader.schema, [batch async for batch in reader]


class Sink(bytearray):
    """Takes what is written to it in a loop."""

    async def write(self, data: bytes) -> None:
        """As a response of aiohttp has it."""
        self += data
