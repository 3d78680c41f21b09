"""The client and the server for asyncio: the same streams and sessions, waited for by an event loop."""

from __future__ import annotations

import asyncio
import functools
import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arrowipc.aio.streams import AsyncReader
from arrowipc.dissociated.client import ClientStream, check_options, open_client_stream
from arrowipc.dissociated.connection import Connection, Deadline, shortest_interval
from arrowipc.dissociated.protocol import STRICT, Dialect, Reason
from arrowipc.dissociated.service import ACCEPT_PAUSE, Service, close_endpoint
from arrowipc.errors import ArrowIpcError, FormatError, UsageError
from arrowipc.events import SchemaRead
from arrowipc.options import DecodeOptions, with_keywords
from arrowipc.read.stream_decoder import StreamDecoder

if TYPE_CHECKING:
    from typing import Self, Unpack

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.dissociated.session import Session
    from arrowipc.options import DecodeKeywords

__all__ = ["AsyncClient", "AsyncServer", "connect_async"]


class Watch:
    """The descriptors that one task waits for; the event loop watches them until one is ready."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._happened: asyncio.Future[None] = self._loop.create_future()
        self._watched: list[int] = []
        #: Seconds after which to look, see `Connection.poll_interval`.
        self.poll_interval: float = math.inf

    def add(self, descriptor: int, writable: bool = False) -> None:
        """Wait for this one too: for something to read, or also for room to write."""
        self._watched.append(descriptor)
        self._loop.add_reader(descriptor, self.end)
        if writable:
            self._loop.add_writer(descriptor, self.end)

    def end(self) -> None:
        """Wake the task, and let the loop forget the descriptors while they are still ours."""
        while self._watched:
            descriptor = self._watched.pop()
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        if not self._happened.done():
            self._happened.set_result(None)

    async def wait(self, deadline: Deadline, for_what: str) -> None:
        """Wait, once.

        Raises
        ------
        TimeoutError
            The deadline passed first.
        """
        left = deadline.left
        seconds = min(left, self.poll_interval)
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._happened
        except TimeoutError:
            if self.poll_interval < left:
                return
            raise TimeoutError(f"waited {deadline.timeout:g} s for {for_what}") from None
        finally:
            self.end()


def watch(connections: Sequence[Connection]) -> Watch | None:
    """Return a watch over connections; None: one of them has something to do already."""
    if not all(each.fileno() >= 0 and each.prepare_wait() for each in connections):
        return None
    found = Watch()
    for each in connections:
        found.add(each.fileno(), each.wants_write)
    found.poll_interval = shortest_interval(connections)
    return found


class AsyncClient(AsyncReader):
    """Reads the batches of a dissociated stream in an event loop; made by `connect_async`.

    ``async for`` gives each batch once. One task at a time may read; batches are decoded in the loop's
    thread. A read that was cancelled, or that timed out, has lost nothing: the next one continues at the same place.
    """

    def __init__(self, stream: ClientStream, timeout: float | None) -> None:
        self._stream = stream
        self._timeout = timeout
        self._reading = False
        self._watch: Watch | None = None

    async def _open(self) -> None:
        if not isinstance(await self._next(), SchemaRead):
            raise FormatError("the stream ended before its schema")
        self._schema = self._stream.schema

    async def _next(self) -> Any:
        """Return what the stream says next; None: the end."""
        self._check_open()
        if self._reading:
            raise UsageError("another task reads from this client: one at a time")
        self._reading = True
        stream = self._stream
        try:
            await asyncio.sleep(0)  # a server that is always faster must not keep the other tasks waiting
            while True:
                found = stream.step()
                if found is not None or stream.is_complete:
                    return found
                self._watch = watch(stream.wanted)
                if self._watch is None:
                    await asyncio.sleep(0)
                else:
                    await self._watch.wait(Deadline(self._timeout), stream.waits_for)
        finally:
            self._reading = False
            self._watch = None

    async def read_next_batch(self) -> RecordBatch:
        """Return the next batch.

        Raises
        ------
        StopAsyncIteration
            There are no more.
        TimeoutError
            The server sent nothing for `timeout` seconds.
        FormatError
            The server broke the protocol or the format; `TruncatedError`: it went too soon.
        OSError
            The connection broke.
        """
        batch: RecordBatch | None = await self._next()
        if batch is None:
            raise StopAsyncIteration
        return batch

    __anext__ = read_next_batch

    def __aiter__(self) -> Self:
        return self

    async def close(self) -> None:
        """End the stream; batches that were read stay valid. A task that reads gets an error."""
        if not self._closed:
            self._closed = True
            if self._watch is not None:
                self._watch.end()
            self._stream.close()


@with_keywords(DecodeOptions)
async def connect_async(
    uri: Any,
    ident: str | bytes = b"",
    *,
    timeout: float | None = None,
    dialect: Dialect = STRICT,
    **keywords: Unpack[DecodeKeywords],
) -> AsyncClient:
    """Ask a server for a stream; the parameters and errors are those of `arrowipc.dissociated.connect`.

    Returns
    -------
    AsyncClient
        Its schema is known.
    """
    options = DecodeOptions(keywords)
    check_options(options.limits, timeout, dialect)
    decoder = StreamDecoder(**options.decoding())
    # In a thread: names are looked up there, and connections made.
    opening = asyncio.get_running_loop().run_in_executor(
        None, open_client_stream, uri, ident, decoder, options.limits, timeout, dialect
    )
    try:
        stream = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_discard)
        raise
    return await AsyncClient(stream, timeout)


def _discard(opening: asyncio.Future[ClientStream]) -> None:
    """Close a stream that no task waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class AsyncServer(Service):
    """Serves named streams from an event loop, with a task per client.

    The parameters are those of `arrowipc.dissociated.Server`. Sources are read in the loop's thread, one
    message at a time: they should not block.

    Examples
    --------
    >>> import asyncio
    >>> import arrowipc as ipc
    >>> from arrowipc import dissociated
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int64())]))
    >>> async def main():
    ...     async with dissociated.AsyncServer({"numbers": batch}, "tcp") as server:
    ...         async with await dissociated.connect_async(server.uri, "numbers") as reader:
    ...             return [batch.to_pydict() async for batch in reader]
    >>> asyncio.run(main())
    [{'x': [1, 2, 3]}]
    """

    _acceptor: asyncio.Task[None] | None = None

    def _start(self) -> None:
        self._sessions: dict[Session, asyncio.Task[None]] = {}
        # One that never ran, or whose loop ended before it, leaves no socket behind.
        self._finaliser = weakref.finalize(self, close_endpoint, self._endpoint)
        self._finaliser.atexit = False

    async def __aenter__(self) -> Self:
        if self._acceptor is not None:
            raise UsageError("this server runs already, or was closed")
        self._acceptor = asyncio.create_task(self._accept())
        return self

    async def _accept(self) -> None:
        listener = self._endpoint.listener
        while True:
            incoming = Watch()
            incoming.add(listener.fileno())
            await incoming.wait(Deadline(None), "clients")
            try:
                connection = listener.accept()
            except (OSError, ArrowIpcError) as error:
                self._on_error(error)
                await asyncio.sleep(0 if isinstance(error, PermissionError) else ACCEPT_PAUSE)
                continue
            if connection is not None:
                self.serve(connection)

    def serve(self, connection: Connection) -> None:
        """Serve a connection that was made in another way, in a new task."""
        session = self._session(connection)
        if session is not None:
            self._sessions[session] = task = asyncio.create_task(self._drive(session))
            task.add_done_callback(functools.partial(self._finish, session))

    async def _drive(self, session: Session) -> None:
        while (more := session.step()) is not None:
            waiting = None if more else watch([session.connection])
            if waiting is None:
                await asyncio.sleep(0)
                continue
            try:
                await waiting.wait(*session.patience())
            except TimeoutError:
                session.reason = Reason.TOO_LATE
                raise
            finally:
                waiting.end()

    def _finish(self, session: Session, task: asyncio.Task[None]) -> None:
        """End a session whose task is over; also one that was cancelled before it had begun."""
        del self._sessions[session]
        for step in (session.close, task.result):
            try:
                step()
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                self._ended(error)

    @property
    def num_clients(self) -> int:
        """int: connections that are open now."""
        return len(self._sessions)

    async def close(self) -> None:
        """Take no more clients and end the connections; memory that clients hold stays readable for them."""
        tasks = [] if self._acceptor is None else [self._acceptor]
        tasks += self._sessions.values()
        for session in self._sessions:
            session.reason = Reason.CLOSED if session.is_busy else session.reason
        for task in tasks:
            task.cancel()
        # Whoever waits for a task goes on after its callbacks, which close the sessions.
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._finaliser.detach() is not None:
            close_endpoint(self._endpoint)

    async def __aexit__(self, *_: object) -> None:
        await self.close()
