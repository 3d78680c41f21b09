"""Keeps an event loop responsive: long work runs in other threads, and busy tasks take turns in the loop."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes from which work is done in another thread: joining, decompressing and validating fewer takes some 20 us, and
#: a call in a thread takes as long.
LARGE = 1 << 16
#: Bytes that all readers and writers of a loop together read or write before other tasks get their turn. A loop needs
#: some 100 us to read from each of 100 sockets, and reads from all of them again as soon as their readers have room.
AT_ONCE = 1 << 17
MOST_AT_ONCE = 64  # most tasks of one turn


def start(function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
    """Begin a call in another thread; its result and errors may be ignored."""
    job = asyncio.get_running_loop().run_in_executor(turns().workers, function, *arguments)
    job.add_done_callback(retrieve_exception)
    return job


def retrieve_exception(job: asyncio.Future[Any]) -> None:
    """Read the exception of a future, so that asyncio does not log that it was never retrieved."""
    if not job.cancelled():
        job.exception()


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in another thread; if the caller is cancelled, the call still runs to its end."""
    job = start(function, *arguments)
    await asyncio.wait([job])
    return job.result()


class Turns:
    """Lets the tasks of a loop take turns of `AT_ONCE` bytes together."""

    def __init__(self) -> None:
        #: Few threads: each one keeps a core busy, and the loop needs one, too.
        most = max(1, min(4, (os.cpu_count() or 1) // 2))
        self.workers: ThreadPoolExecutor = ThreadPoolExecutor(most, "arrowipc.aio")
        self._left = AT_ONCE
        self._passed = 0  # tasks that continued since the turn began
        self._waiting: deque[asyncio.Future[None]] = deque()

    def spend(self, size: int) -> None:
        """Count bytes that a task read or wrote."""
        self._left -= size

    async def wait(self) -> None:
        """Wait for a turn; return at once while bytes of the current turn are left."""
        queue = self._waiting.append
        while self._left <= 0:
            loop = asyncio.get_running_loop()
            if not self._waiting:
                loop.call_soon(self._begin)
            queue(mine := loop.create_future())
            try:
                await mine
            except asyncio.CancelledError:
                with suppress(ValueError):  # its turn had already begun
                    self._waiting.remove(mine)
                raise
            # Other tasks of the turn may have spent all its bytes already: then this task is the first of the next one.
            queue = self._waiting.appendleft
        self._passed += 1

    def _begin(self) -> None:
        # Continue as many tasks as will spend the bytes of a turn, if each spends as much as those of the last turn.
        each = max((AT_ONCE - self._left) // max(self._passed, 1), AT_ONCE // MOST_AT_ONCE)
        self._left, self._passed = AT_ONCE, 0
        for _ in range(min(max(AT_ONCE // each, 1), len(self._waiting))):
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Return the `Turns` of the running loop."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        # Tasks that waited when a loop ended refer to the loop, and would keep its entry.
        for known in _turns.keyrefs():  # a list: other threads may add loops meanwhile
            ended = known()
            if ended is not None and ended.is_closed():
                _turns.pop(ended, None)
        found = _turns[loop] = Turns()
    return found
