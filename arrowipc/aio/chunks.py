"""Reading of chunks from sources: asyncio's and anyio's streams, HTTP bodies, async iterators."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from arrowipc.aio.off_loop import LARGE, turns
from arrowipc.arguments import described
from arrowipc.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from arrowipc.decode.framing import Framer

#: Most bytes of one read of a source, whatever size a message claims.
MOST = 1 << 17
#: Chunks of fewer bytes are joined while a large body arrives: feeding each alone takes longer than joining them.
SMALL = 1 << 12


def _stream_in(source: Any) -> Any:
    """Return the body of a request or response of httpx, Starlette or aiohttp; return other sources as they are."""
    if hasattr(source, "aiter_bytes"):
        return source.aiter_bytes()
    if hasattr(source, "stream") and hasattr(source, "scope"):
        return source.stream()
    content = getattr(source, "content", None)
    return content if hasattr(content, "readany") else source


class Incoming:
    """Feeds a framer with the chunks of a source; of large chunks, only the bytes that the framer needs now."""

    def __init__(self, source: Any, framer: Framer) -> None:
        self._framer = framer
        self._rest = memoryview(b"")
        self._small = bytearray()
        self.missing: int = 0
        self.is_large: bool = False
        self._iterator: AsyncIterator[Any] | None = None
        self._receive = self._receiver(_stream_in(source))

    def _receiver(self, source: Any) -> Callable[[int], Awaitable[Any]]:
        """Return the function that reads from a source; if possible, one that reads at most a given number of bytes."""
        for name in ("receive", "read"):
            method = getattr(source, name, None)
            if inspect.iscoroutinefunction(method) and inspect.signature(method).parameters:
                return method
        if not hasattr(source, "__aiter__"):
            raise UsageError(
                "expected an asyncio.StreamReader, an async iterator of bytes or an anyio stream, found "
                f"{described(source)}: arrowipc.open_stream() reads paths, bytes and blocking sources (in a thread: "
                "await asyncio.to_thread(arrowipc.open_stream, path)), arrowipc.aio.open_file() remote files"
            )
        self._iterator = iterator = source.__aiter__()
        return lambda _: iterator.__anext__()

    def want(self, count: int) -> None:
        """Set how many bytes the framer needs."""
        self.missing, self.is_large = count, count >= LARGE

    async def bring(self) -> None:
        """Feed the missing bytes, or finish the framer at the end of the input."""
        while self.missing > 0:
            chunk = self._rest or await self._chunk()
            if not chunk:
                self._feed_small()
                self.missing = 0
                self._framer.finish()
                return
            # Feed small chunks completely, even if they contain following messages; large ones only as far as needed,
            # so that no part is copied twice.
            taken = len(chunk) if len(chunk) < LARGE else self.missing
            self._rest = chunk[taken:]
            self.missing -= len(chunk[:taken])
            if self.missing > 0 and len(chunk) < SMALL:
                self._small += chunk
                if len(self._small) >= LARGE:
                    self._feed_small()
            else:
                self._feed_small()
                self._framer.feed(chunk[:taken])

    def _feed_small(self) -> None:
        if self._small:
            small, self._small = self._small, bytearray()
            self._framer.feed(small)

    async def _chunk(self) -> memoryview:
        """Wait for some bytes and return them; none at the end."""
        try:
            turn = turns()
            await turn.wait()
            chunk = _bytes_of(await self._receive(min(self.missing, MOST)))
            while self._iterator is not None and not chunk:
                chunk = _bytes_of(await self._receive(0))
            turn.spend(len(chunk))
            return chunk
        except StopAsyncIteration:
            return memoryview(b"")
        except BaseException as error:
            if type(error).__name__ == "EndOfStream":  # anyio's
                return memoryview(b"")
            # An error ends a generator; then the next read would look like the end of the input.
            if self._iterator is not None or not isinstance(error, CancelledError):
                self._framer.interrupt(error)
            raise

    async def close(self) -> None:
        """Release the source; a generator is closed, because nothing else can close it."""
        self._rest = memoryview(b"")
        if isinstance(self._iterator, AsyncGenerator):
            await self._iterator.aclose()


def _bytes_of(data: Any) -> memoryview:
    """Return a chunk as a memoryview; copy it if it is not bytes, because the source may reuse its buffer."""
    try:
        return memoryview(data if type(data) is bytes else bytes(memoryview(data)))
    except TypeError:
        raise UsageError(f"the source gave {described(data)}: expected bytes") from None
