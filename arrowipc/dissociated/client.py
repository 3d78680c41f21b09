"""The client: batches of one stream, whatever ways its metadata and its bodies took."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc._arguments import described
from arrowipc._message import message_kind, message_of
from arrowipc._pairs import Pairs
from arrowipc._stream import StreamDecoder
from arrowipc.dissociated import schemes
from arrowipc.dissociated.connection import Connection, Deadline, PeerMemory, wait
from arrowipc.dissociated.protocol import (
    STRICT,
    Arrival,
    BodyType,
    Dialect,
    Incoming,
    free_data_body,
)
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError, FormatError, UsageError
from arrowipc.events import BatchRead, SchemaRead
from arrowipc.reader import BatchReader

if TYPE_CHECKING:
    from arrowipc._array import RecordBatch
    from arrowipc._message import Message
    from arrowipc.limits import Limits
    from arrowipc.reader import Columns, Validate
    from arrowipc.schema import Schema

__all__ = ["Client", "ClientStream", "connect"]

#: Addresses from which on a message with them goes out.
COALESCED = 512
#: Seconds that the end of the process waits for memory that was let go of to be given back.
LAST_MOMENT = 0.5


class Returns:
    """Gives memory back, in a thread of its own: the last reader may let go at any time, anywhere.

    Parameters
    ----------
    connection : Connection
        Of the data.
    tag : int or None
        `free_data`; None: the server does not want to know.
    """

    def __init__(self, connection: Connection, tag: int | None) -> None:
        self._connection = connection
        self._tag = tag
        self._queue: queue.SimpleQueue[list[int] | threading.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._held = 0
        self._last = False
        self._gone = False
        self._lock = threading.Lock()

    def lease(self, addresses: Sequence[int]) -> None:
        """Note that the addresses are held until `returned` is called with them."""
        if not addresses or self._tag is None:
            return
        with self._lock:
            self._held += len(addresses)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="arrowipc-returns", daemon=True)
                self._thread.start()
                _running.add(self)

    def returned(self, addresses: list[int]) -> None:
        """Say that nobody reads there any more; neither blocks nor raises."""
        if addresses and self._tag is not None:
            self._queue.put(addresses)

    def settle(self) -> None:
        """Wait a moment until what was let go of is given back: a daemon thread stops with the process."""
        settled = threading.Event()
        self._queue.put(settled)
        settled.wait(LAST_MOMENT)

    def _run(self) -> None:
        while True:
            together: list[int] = []
            settled: list[threading.Event] = []
            item = self._queue.get()
            while True:
                if isinstance(item, threading.Event):
                    settled.append(item)
                else:
                    together += item or ()
                if len(together) >= COALESCED or self._queue.empty():
                    break
                item = self._queue.get()
            if together and not self._gone:
                try:
                    self._give_back(together)
                except OSError:
                    # The server is gone, and its leases with it; what it said before is still to be read.
                    self._gone = True
            for event in settled:
                event.set()
            with self._lock:
                self._held -= len(together)
                if self._last and (self._held == 0 or self._gone):
                    return self._close()

    def _close(self) -> None:
        with self._connection.lock:
            self._connection.close()

    def _give_back(self, addresses: list[int]) -> None:
        with self._connection.lock:
            self._connection.send(self._tag, [free_data_body(addresses)])
        self._connection.flush()

    def finish(self, at_once: bool = False) -> None:
        """Close the connection: `at_once`, or as soon as everything was given back."""
        with self._lock:
            self._last = True
            self._gone = self._gone or at_once
            if self._thread is None or at_once:
                self._close()
            self._queue.put(None)


#: Those that have a thread.
_running: weakref.WeakSet[Returns] = weakref.WeakSet()


@atexit.register
def _settle_all() -> None:
    for returns in list(_running):
        returns.settle()


class ClientStream:
    """One stream on its way in, without a driver: `step` does what goes without waiting.

    Parameters
    ----------
    metadata, data : Connection
        The same one, or two.
    memory : PeerMemory or None
        The way into memory that the server tells of.
    free_data : int or None
        Tag of messages that give that memory back.
    decoder : StreamDecoder
    limits : Limits, optional
    dialect : Dialect
    first : int
        See `arrowipc.dissociated.protocol.Incoming`.
    """

    def __init__(
        self,
        metadata: Connection,
        data: Connection,
        memory: PeerMemory | None,
        free_data: int | None,
        decoder: StreamDecoder,
        limits: Limits | None = None,
        dialect: Dialect = STRICT,
        first: int = 0,
    ) -> None:
        self.connections = (metadata,) if metadata is data else (metadata, data)
        self.decoder = decoder
        self._metadata = metadata
        self._data = data
        self._memory = memory
        self._limits = limits
        self._returns = Returns(data, free_data)
        self._incoming = Incoming(limits, dialect=dialect, first=first)
        self._failure: str | None = None
        self._broken = False

    @property
    def schema(self) -> Schema | None:
        """Schema: None before it arrived."""
        return self.decoder.schema

    @property
    def is_complete(self) -> bool:
        """bool: everything arrived and was decoded."""
        return self._incoming.is_complete

    def step(self) -> RecordBatch | SchemaRead | None:
        """Return the schema when it has arrived, then each batch; None: `is_complete`, or wait for `wanted`.

        Raises
        ------
        FormatError
            The server broke the protocol or the format; `TruncatedError`: it went too soon.
        OSError
            The connection broke.
        """
        if self._failure is not None:
            raise UsageError(f"this stream cannot go on: {self._failure}")
        try:
            while True:
                arrival = self._incoming.take()
                if arrival is None:
                    if self.is_complete or not self._receive():
                        return None
                    continue
                event = self.decoder.decode_next(self._message(arrival))
                if isinstance(event, BatchRead):
                    return event.batch
                if isinstance(event, SchemaRead):
                    return event
        except BaseException as error:
            self._failure = f"an error ended it: {error}"
            self._broken = True
            raise

    @property
    def wanted(self) -> list[Connection]:
        """Connections to wait for when `step` had nothing: those that can bring what is missing."""
        return [
            each
            for each in self.connections
            if not each.at_end and (len(self.connections) == 1 or self._incoming.wants(self._carries(each)))
        ]

    @property
    def waits_for(self) -> str:
        """What is said to be missing when a driver loses patience."""
        return f"{self.connections[0].name} to send message {self._incoming.next}"

    def _carries(self, connection: Connection) -> str:
        if len(self.connections) == 1:
            return "both"
        return "metadata" if connection is self._metadata else "data"

    def _receive(self) -> bool:
        """Take in what is there, up to the next whole message; False: nothing."""
        found = False
        self._data.expect(self._incoming.wanted_body)
        for connection in self.connections:
            what = self._carries(connection)
            if not self._goes_on(what):
                continue
            reason: ConnectionError | None = None
            with connection.lock:
                try:
                    connection.progress()
                except ConnectionError as error:
                    reason = error  # what it means depends on what was received before
                while self._goes_on(what) and (frame := connection.receive()) is not None:
                    found = True
                    self._take(connection, *frame)
                ended = connection.at_end
            if ended and not found:
                self._lost(what, reason)
        return found

    def _goes_on(self, what: str) -> bool:
        """Whether another message of this connection is of use before the next one is taken."""
        return not self._incoming.is_ready and (what == "both" or self._incoming.wants(what))

    def _lost(self, what: str, reason: ConnectionError | None) -> None:
        try:
            self._incoming.lost(what)
        except ArrowIpcError as error:
            raise error from reason

    def _take(self, connection: Connection, tag: int | None, data: Any, handles: tuple[int, ...]) -> None:
        if handles:
            if self._memory is None or tag is None:
                for handle in handles:
                    os.close(handle)
                raise FormatError(
                    f"{connection.name} sent file descriptors, and neither its URI nor a body says what for"
                )
            self._memory.accept(handles, data)
        if tag is None:
            if connection is not self._metadata:
                raise FormatError(f"{connection.name} sent metadata over the connection for bodies")
            self._incoming.receive_metadata(data)
        else:
            if connection is not self._data:
                raise FormatError(f"{connection.name} sent a body over the connection for metadata")
            self._incoming.receive_body(tag, data)

    def _message(self, arrival: Arrival) -> Message:
        if arrival.body_type != BodyType.PAIRS:
            return message_of(arrival.metadata, arrival.body, self._limits)
        pairs = Pairs(arrival.body, message_kind(arrival.metadata, self._limits)[1])
        if self._memory is None:
            raise FormatError(
                f"message {arrival.number}: its body is said to lie in memory of the server, and the URI "
                "does not say how to get there (remote_handle)"
            )
        addresses = pairs.addresses
        self._returns.lease(addresses)
        return self._memory.message(arrival.metadata, pairs, self._returns.returned, self._limits)

    def close(self) -> None:
        """End the stream; the connection lives on behind batches that lie in memory of the server."""
        self._failure = self._failure or "it was closed"
        self.decoder.release()
        if self._metadata is not self._data:
            self._metadata.close()
        if self._memory is not None:
            self._memory.close()
        # After an error nobody knows which leases were begun; without a connection all of them end.
        self._returns.finish(self._broken)


class Client(BatchReader):
    """Reads the batches of a dissociated stream; made by `connect`.

    Iterating, or `read_next_batch`, gives each batch once. Batches may lie in memory of the server, which
    gets it back when the last array that points there is gone.
    """

    __slots__ = ("_pending", "_stream", "_timeout")

    def __init__(self, stream: ClientStream, timeout: float | None) -> None:
        self._closed = False
        self._stream = stream
        self._timeout = timeout
        try:
            if not isinstance(self._next(), SchemaRead):
                raise FormatError("the stream ended before its schema")
        except BaseException:
            self.close()
            raise

    def _next(self) -> Any:
        """Return what the stream says next, waiting for it; None: the end."""
        stream = self._stream
        while True:
            found = stream.step()
            if found is not None or stream.is_complete:
                return found
            wait(stream.wanted, Deadline(self._timeout), stream.waits_for)

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        schema = self._stream.schema
        assert schema is not None  # __init__ read it
        return schema

    def read_next_batch(self) -> RecordBatch:
        """Return the next batch.

        Raises
        ------
        StopIteration
            There are no more.
        TimeoutError
            The server sent nothing for `timeout` seconds.
        FormatError
            The server broke the protocol or the format; `TruncatedError`: it went too soon.
        OSError
            The connection broke.
        """
        self._check_open()
        batch: RecordBatch | None = self._next()
        if batch is None:
            raise StopIteration
        return batch

    def __iter__(self) -> Iterator[RecordBatch]:
        self._check_open()
        while (batch := self._next()) is not None:
            yield batch

    def close(self) -> None:
        """End the stream; batches that were read stay valid."""
        if not self._closed:
            self._closed = True
            self._stream.close()


def open_client_stream(
    uri: Any,
    ident: str | bytes,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    timeout: float | None = None,
    dialect: Dialect = STRICT,
) -> ClientStream:
    """Connect, ask for a stream, and return it before anything has arrived; for drivers."""
    decoder = StreamDecoder(columns, validate, limits, use_threads, ensure_native_endian)
    uris = _uris(uri)
    name = ident.encode() if isinstance(ident, str) else bytes(memoryview(ident))
    opened: list[Connection] = []
    memory: PeerMemory | None = None
    try:
        for each in uris:
            connection, found = schemes.connect(each, limits, timeout)
            opened.append(connection)
            memory = found or memory
            connection.send(each.want_data, [name])
    except BaseException:
        for connection in opened:
            connection.close()
        if memory is not None:
            memory.close()
        raise
    return ClientStream(opened[0], opened[-1], memory, uris[-1].free_data, decoder, limits, dialect)


def _uris(uri: Any) -> list[DissociatedUri]:
    """One URI for both streams, or one for the metadata and one for the data, in this order."""
    given = list(uri) if isinstance(uri, (list, tuple)) else [uri]
    uris = [each if isinstance(each, DissociatedUri) else DissociatedUri.parse(each) for each in given]
    if len(uris) == 1:
        if uris[0].streams != "both":
            raise UsageError(f"{uris[0]} has one of the two streams only: give both URIs, metadata and data")
        return uris
    if len(uris) != 2:
        raise UsageError(
            f"uri: expected one, or one for the metadata and one for the data, found {described(uri)}"
        )
    if uris[0] == uris[1] and uris[0].streams == "both":
        return uris[:1]
    if uris[0].streams == "data" and uris[1].streams == "meta":
        uris.reverse()
    if uris[0].streams == "data" or uris[1].streams == "meta":
        raise UsageError("both URIs are of the same one of the two streams")
    return uris


def connect(
    uri: Any,
    ident: str | bytes = b"",
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    timeout: float | None = None,
    dialect: Dialect = STRICT,
) -> Client:
    """Ask a server for a stream.

    Parameters
    ----------
    uri : str, DissociatedUri, or a pair of them
        Of the server; a pair: of the metadata and of the data.
    ident : str or bytes
        Which stream: whatever the server understands, for example the ticket of a Flight endpoint.
    columns, validate, limits, use_threads, ensure_native_endian
        As in `arrowipc.open_stream`.
    timeout : float, optional
        Seconds to wait for the server whenever nothing has arrived.
    dialect : Dialect
        What is accepted besides the text of the specification.

    Returns
    -------
    Client
        Its schema is known.

    Raises
    ------
    FormatError
        The URI or what the server sends is broken, or the server does not know the stream.
    UnsupportedError
        No transport speaks the URI's scheme.
    TimeoutError
        The server does not answer.
    OSError
        Nobody listens there.
    """
    stream = open_client_stream(
        uri,
        ident,
        columns=columns,
        validate=validate,
        limits=limits,
        use_threads=use_threads,
        ensure_native_endian=ensure_native_endian,
        timeout=timeout,
        dialect=dialect,
    )
    return Client(stream, timeout)
