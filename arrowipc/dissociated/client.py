"""The client: reads the batches of one stream, over any transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import Initialized, described, instance_of
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.connection import LONGER, TIMEOUT, Connection, Deadline, seconds, wait
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.protocol import Arrival, BodyType, Incoming, ident_of
from arrowipc.dissociated.schemes import check_scheme
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError, FormatError, UsageError
from arrowipc.events import BatchRead, SchemaRead
from arrowipc.limits import Limits
from arrowipc.options import DecodeOptions, with_keywords
from arrowipc.reader import BatchReader, Closing

if TYPE_CHECKING:
    from typing import Self, Unpack

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.options import DecodeKeywords
    from arrowipc.schemas import Schema


class Turn:
    """Lets one thread at a time read a stream, and none after an error, which would take the rest for the end."""

    __slots__ = ("_lock", "_reason")

    def __init__(self) -> None:
        self._lock = Lock()
        self._reason: str | None = None  # why the stream cannot continue

    def __enter__(self) -> None:
        if self._reason is not None:
            raise UsageError(f"this stream cannot continue: {self._reason}")
        if not self._lock.acquire(blocking=False):
            raise UsageError("another thread is reading this stream: one thread at a time may")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                self._reason = f"an error ended it: {error}"
        finally:
            self._lock.release()

    def end(self) -> None:
        """Let nobody read any more."""
        self._reason = self._reason or "it was closed"


class Client(BatchReader):
    """Reads the batches of a dissociated stream; made by `connect`.

    Iterating, or `read_next_batch`, gives each batch once. Batches may use memory of the server, which
    is released when the last array that uses it is gone.

    Attributes
    ----------
    num_bodies_sent : int
        Bodies received so far that the server sent, instead of sharing its memory.
    """

    def __init__(
        self,
        link: Link,
        decoder: StreamDecoder,
        limits: Limits | None = None,
        keep: Callable[[Link], object] | None = None,
    ) -> None:
        self._closed = False
        self._timeout: float | None = None
        self.decoder = decoder
        self._link: Link | None = link
        self._keep = keep
        self.connections: tuple[Connection, ...] = link.connections
        self._metadata = link.metadata
        self._data = link.data
        self._memory = link.memory
        self._returns = link.returns
        whats = ("both",) if link.metadata is link.data else ("metadata", "data")
        #: Each connection with the part that it carries: "metadata", "data" or "both".
        self._carriers = list(zip(self.connections, whats, strict=True))
        self._limits = limits
        self._incoming = Incoming(limits)
        self.num_bodies_sent: int = 0
        self._run: Iterator[Message] = iter(())  # the rest of messages that were read together
        self._turn = Turn()

    def begin(self, timeout: float | None) -> Self:
        """Read the schema; `timeout` is how long this and later calls wait while nothing arrives."""
        self._timeout = timeout
        try:
            if not isinstance(self._next(), SchemaRead):
                raise FormatError("the stream ended before its schema")
        except BaseException:
            self.close()
            raise
        return self

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        schema = self.decoder.schema
        assert schema is not None  # `begin` read it
        return schema

    @property
    def is_complete(self) -> bool:
        """bool: all messages have arrived and were decoded."""
        return self._incoming.is_complete

    def step(self) -> RecordBatch | SchemaRead | None:
        """Return the schema when it has arrived, then each batch; None: `is_complete`, or wait for `wanted`."""
        with self._turn:
            try:
                return self._go_on()
            except BaseException:
                self._returns.is_unsure = True
                raise

    def _go_on(self) -> RecordBatch | SchemaRead | None:
        while True:
            message = next(self._run, None)
            if message is None:
                arrival = self._incoming.take()
                if arrival is None:
                    if self._incoming.is_complete:
                        if self._keep is not None and self._link is not None:
                            self._keep(self._link)
                            self._link = None
                        return None
                    if not self._receive():
                        return None
                    continue
                message = self._message(arrival)
            event = self.decoder.decode_next(message)
            if isinstance(event, BatchRead):
                return event.batch
            if isinstance(event, SchemaRead):
                return event

    @property
    def wanted(self) -> list[Connection]:
        """Connections to wait for when `step` returned None: those that can bring the missing part."""
        return [
            each for each, what in self._carriers if not each.at_end and (what == "both" or self._incoming.wants(what))
        ]

    def _receive(self) -> bool:
        """Take in what has arrived, up to the next complete message; return False if nothing has."""
        found = False
        if self._metadata is self._data and self._incoming.is_clear and self._take_run():
            return True
        self._data.expect(self._incoming.wanted_body)
        for connection, what in self._carriers:
            if not self._goes_on(what):
                continue
            reason: ConnectionError | None = None
            with connection.lock:
                frame = connection.receive()
                if frame is None:
                    try:
                        connection.progress()
                    except ConnectionError as error:
                        # `_lost` decides what it means, after everything received is taken in. Without a traceback:
                        # that would refer back to this frame, a cycle.
                        reason = error.with_traceback(None)
                    frame = connection.receive()
                while frame is not None:
                    found = True
                    self._take(connection, *frame)
                    frame = connection.receive() if self._goes_on(what) else None
                ended = connection.at_end
            if ended and not found:
                self._lost(connection, what, reason)
        return found

    def _take_run(self) -> bool:
        """Take in small messages that arrived together; return False if there are none."""
        with self._data.lock:
            messages = self._data.receive_run(self._incoming.next)
        self._incoming.skip(len(messages))
        self.num_bodies_sent += sum(each.body_length > 0 for each in messages)
        self._run = iter(messages)
        return bool(messages)

    def _goes_on(self, what: str) -> bool:
        """Whether to receive more from this connection before the next message is taken."""
        return not self._incoming.is_ready and (what == "both" or self._incoming.wants(what))

    def _lost(self, connection: Connection, what: str, reason: ConnectionError | None) -> None:
        try:
            self._incoming.lost(what, connection.reason)
        except (ArrowIpcError, OSError) as error:
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
            self.num_bodies_sent += bool(arrival.body)
            return message_of(arrival.metadata, arrival.body, self._limits)
        pairs = Pairs(arrival.body, arrival.body_length)
        if self._memory is None:
            raise FormatError(
                f"message {arrival.number}: its body is said to lie in memory of the server, and the URI "
                "does not say how to get there (remote_handle)"
            )
        addresses = pairs.addresses
        self._returns.lease(addresses)
        return self._memory.message(
            arrival.metadata, pairs, self._returns.returned, self._limits, self.decoder.stretches_read
        )

    def _next(self) -> Any:
        """Wait for the next schema or batch and return it; None at the end."""
        arrived, deadline = -1, Deadline(None)
        while True:
            found = self.step()
            if found is not None or self.is_complete:
                return found
            if arrived != (arrived := sum(each.arrived for each in self.connections)):
                deadline = Deadline(self._timeout, max(each.allowance for each in self.connections))
            wait(self.wanted, deadline, f"{self._metadata.name} to send message {self._incoming.next}{LONGER}")

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

    __next__ = read_next_batch

    def __iter__(self) -> Iterator[RecordBatch]:
        self._check_open()
        while (batch := self._next()) is not None:
            yield batch

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"batches read: {self.decoder.stats[1]}"
        return f"<Client: {state}>\n{self.decoder.schema}"

    def close(self) -> None:
        """End the stream; batches that were read stay valid, and the connection stays open while they are used."""
        self._closed = True
        self._turn.end()
        self._run = iter(())
        self.decoder.release()
        if self._link is not None:
            self._link.close()
            self._link = None


def check_options(limits: Any, timeout: Any) -> None:
    """Check the options of clients that are not those of a decoder."""
    instance_of("limits", limits, (Limits, type(None)))
    seconds("timeout", timeout)


def _uris(uri: Any) -> list[DissociatedUri]:
    """Return one URI for both streams, or one for the metadata and one for the data, in this order."""
    given = list(uri) if isinstance(uri, (list, tuple)) else [uri]
    for each in given:
        if isinstance(each, str):
            check_scheme(each.partition(":")[0].lower())
    uris = [each if isinstance(each, DissociatedUri) else DissociatedUri.parse(each) for each in given]
    if len(uris) == 1:
        if uris[0].streams != "both":
            raise UsageError(f"{uris[0]} has one of the two streams only: give both URIs, metadata and data")
        return uris
    if len(uris) != 2:
        raise UsageError(f"uri: expected one, or one for the metadata and one for the data, found {described(uri)}")
    if uris[0] == uris[1] and uris[0].streams == "both":
        return uris[:1]
    if uris[0].streams == "data" and uris[1].streams == "meta":
        uris.reverse()
    if uris[0].streams == "data" or uris[1].streams == "meta":
        raise UsageError("both URIs are of the same one of the two streams")
    return uris


@with_keywords(DecodeOptions)
def connect(
    uri: Any,
    ident: str | bytes = b"",
    *,
    timeout: float | None = TIMEOUT,
    **keywords: Unpack[DecodeKeywords],
) -> Client:
    """Ask a server for a stream.

    Parameters
    ----------
    uri : str, DissociatedUri, or a pair of them
        The URI of the server, or a pair: one for the metadata and one for the data.
    ident : str or bytes
        The name of the stream, as the server understands it, for example the ticket of a Flight endpoint.
    timeout : float or None, default 60
        Seconds to wait for the server while nothing arrives; set more for a source that takes longer to compute
        its next batch; None: for ever.
    **keywords
        Those of `arrowipc.options.DecodeOptions`.

    Returns
    -------
    Client
        Its schema is known.

    Raises
    ------
    FormatError
        The URI or what the server sends is broken, or the server does not know the stream, or cannot read it.
    UnsupportedError
        No transport speaks the URI's scheme.
    TimeoutError
        The server does not answer.
    OSError
        No server listens at the address (`ConnectionRefusedError`, also if the server is full), or the server belongs
        to another user, and one of the two shares memory only with processes of its own user (`PermissionError`).
    """
    options = DecodeOptions(keywords)
    check_options(options.limits, timeout)
    decoder = StreamDecoder(**options.decoding())
    link = Link.open(_uris(uri), ident_of(ident), options.limits, timeout)
    return Client(link, decoder, options.limits).begin(timeout)


class Channel(Closing, Initialized):
    """Connections to a server that are kept, for streams that are read one after the other.

    When a stream was read to its end, the next one uses its connection and its access to the server's memory;
    streams that are read at the same time have a connection each.

    Parameters
    ----------
    uri : str, DissociatedUri, or a pair of them
        The URI of the server, or a pair: one for the metadata and one for the data.
    limits : Limits, optional
    timeout : float or None, default 60
        As for `connect`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc import dissociated
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int64())]))
    >>> with dissociated.Server({"numbers": batch}) as server:
    ...     with dissociated.Channel(server.uri) as channel:
    ...         [channel.read("numbers").read_all().num_rows for _ in range(3)]
    [3, 3, 3]
    """

    def __init__(self, uri: Any, *, limits: Limits | None = None, timeout: float | None = TIMEOUT) -> None:
        self._make_once("_uris")
        check_options(limits, timeout)
        self._uris = _uris(uri)
        self._limits = limits
        self._timeout = timeout
        self._idle: list[Link] = []
        self._closed = False

    @with_keywords(DecodeOptions)
    def read(self, ident: str | bytes = b"", **keywords: Unpack[DecodeKeywords]) -> Client:
        """Ask for a stream; parameters, result and errors are those of `connect`, limits by default the channel's."""
        if self._closed:
            raise UsageError("the channel is closed")
        options = DecodeOptions({"limits": self._limits, **keywords})
        decoder = StreamDecoder(**options.decoding())
        link = self._ask(ident_of(ident))
        return Client(link, decoder, options.limits, keep=self._put_back).begin(self._timeout)

    def _ask(self, ident: bytes) -> Link:
        """Ask for a stream over an idle connection, or over a new one if there is none."""
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return Link.open(self._uris, ident, self._limits, self._timeout)
            try:
                if link.is_idle:
                    link.ask(ident)
                    return link
            except OSError:
                pass
            link.close(broken=True)  # the server is gone, so its memory cannot be given back

    def _put_back(self, link: Link) -> None:
        self._idle.append(link)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close the connections; streams that are being read continue, and batches stay valid."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
