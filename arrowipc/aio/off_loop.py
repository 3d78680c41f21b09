"""Work for another thread: what would keep an event loop from its other tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes. Putting less together, decompressing and validating it takes some 20 us, and handing it to a thread as much.
LARGE = 1 << 16


def start(function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
    """Begin a call in another thread; nobody has to wait for it, whatever becomes of it."""
    job = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    job.add_done_callback(look)
    return job


def look(job: asyncio.Future[Any]) -> None:
    """Look at how something ended, which asyncio complains about when nobody does."""
    if not job.cancelled():
        job.exception()


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in another thread; who is cancelled meanwhile leaves it to end by itself."""
    job = start(function, *arguments)
    await asyncio.wait([job])
    return job.result()
