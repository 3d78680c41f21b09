"""Arrow Flight as the control plane: it names the locations of dissociated streams; without any, DoGet is used.

Only functions import pyarrow, Python's implementation of Flight.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Collection, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from arrowipc.arguments import check_names, columns_of, described
from arrowipc.cdata.import_array import schema_from
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.client import Turn, check_options, connect
from arrowipc.dissociated.connection import LONGER, TIMEOUT
from arrowipc.dissociated.schemes import SCHEMES
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.server import Server
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError, showable
from arrowipc.events import BatchRead, SchemaRead
from arrowipc.options import DecodeOptions
from arrowipc.reader import BatchReader
from arrowipc.schemas import difference

if TYPE_CHECKING:
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

#: Flight's location for "use DoGet over the existing connection".
REUSE_CONNECTION = "arrow-flight-reuse-connection://?"


# -- the client ----------------------------------------------------------------------


def ways(uris: Sequence[str], schemes: Collection[str] = SCHEMES) -> tuple[list[tuple[DissociatedUri, ...]], list[str]]:
    """Return the supported locations of an endpoint, in their order, and the problems of the others.

    A result is one URI for both streams, or a pair (metadata, data). According to Flight, any location of an endpoint
    serves the whole of it. But the reference server of Dissociated IPC puts two locations into one endpoint, one for
    the metadata and one for the data, which differ only in want_data. Therefore exactly two URIs that differ in
    want_data and have no `streams` are such a pair.
    """
    spoken: list[tuple[DissociatedUri, bool]] = []
    problems = []
    for text in uris:
        try:
            parts = urlsplit(text)
            if parts.scheme not in SCHEMES or parts.scheme not in schemes:
                known = "it is not among schemes=" if parts.scheme in SCHEMES else "no transport speaks"
                problems.append(f"{text}: {known} {parts.scheme!r}")
                continue
            spoken.append((DissociatedUri.parse(text), "streams" in parse_qs(parts.query)))
        except (ArrowIpcError, ValueError) as error:
            problems.append(f"{text}: {error}")
    if len(spoken) == 2 and not spoken[0][1] and not spoken[1][1]:
        first, second = spoken[0][0], spoken[1][0]
        if first.want_data != second.want_data:
            return [(first, second)], problems
    found: list[tuple[DissociatedUri, ...]] = []
    halves: dict[str, list[DissociatedUri]] = {"meta": [], "data": []}
    for uri, _ in spoken:
        if uri.streams == "both":
            found.append((uri,))
            continue
        halves[uri.streams].append(uri)
        if halves["meta"] and halves["data"]:
            found.append((halves["meta"].pop(0), halves["data"].pop(0)))
    problems += [f"{uri}: the URI of the other stream is missing" for uri in halves["meta"] + halves["data"]]
    return found, problems


class FlightReader(BatchReader):
    """Reads the batches of one or more Flight endpoints, one after the other; made by `from_flight`.

    Attributes
    ----------
    sources : list of str
        How each endpoint so far was read: its dissociated URIs, or "DoGet" and the location.
    """

    __slots__ = ("_batches", "_current", "_options", "_rest", "_schema", "_turn", "sources")

    def __init__(self, endpoints: Sequence[Any], schema: Schema | None, options: dict[str, Any]) -> None:
        self._closed = False
        self._turn = Turn()
        self._options = options
        self._rest = iter(endpoints)
        self.sources: list[str] = []
        self._batches: Iterator[RecordBatch] = iter(())  # the rest of `_current`
        self._current = self._next_endpoint()
        self._schema = schema if self._current is None else self._current.schema

    def _next_endpoint(self) -> Any:
        """Return a reader of the next endpoint; None if there is none."""
        endpoint = next(self._rest, None)
        if endpoint is None:
            return None
        reader, source = _open_endpoint(endpoint, **self._options)
        self._batches = iter(reader)
        self.sources.append(source)
        return reader

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        if self._schema is None:
            raise UsageError("this flight has no endpoints and no schema")
        return self._schema

    def _next(self) -> RecordBatch | None:
        """Return the next batch, None at the end; after an error, no later call is the end."""
        with self._turn:
            try:
                return self._go_on()
            except BaseException:
                self._close_current()
                raise

    def _go_on(self) -> RecordBatch | None:
        while self._current is not None:
            batch = next(self._batches, None)
            if batch is not None:
                return batch
            self._close_current()
            self._current = self._next_endpoint()
            if self._current is not None and not self.schema.equals(self._current.schema):
                raise FormatError(
                    f"endpoint {len(self.sources) - 1} has another schema than the first: it "
                    f"{difference(self.schema, self._current.schema)}"
                )
        return None

    def __iter__(self) -> Iterator[RecordBatch]:
        self._check_open()
        while (batch := self._next()) is not None:
            yield batch

    def read_next_batch(self) -> RecordBatch:
        """Return the next batch; errors are those of `Client`; with DoGet, an OSError or a FormatError."""
        return next(iter(self))

    __next__ = read_next_batch

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"endpoints opened: {len(self.sources)}"
        return f"<FlightReader: {state}>\n{self._schema}"

    def _close_current(self) -> None:
        current, self._current, self._batches = self._current, None, iter(())
        if current is not None:
            current.close()

    def close(self) -> None:
        """End the streams; batches that were read stay valid."""
        self._closed = True
        self._turn.end()
        self._close_current()


def _open_endpoint(
    endpoint: Any,
    client: Any,
    schemes: Collection[str],
    flight_options: dict[str, Any],
    call_options: Any,
    **options: Any,
) -> tuple[Any, str]:
    """Return a reader of an endpoint's batches, and how it reads them."""
    uris = [_text_of(each) for each in endpoint.locations]
    ticket = endpoint.ticket.ticket
    found, problems = ways(uris, schemes)
    failure: Exception | None = None
    for way in found:
        try:
            return connect(way, ticket, **options), ", ".join(map(str, way))
        except (UnsupportedError, OSError) as error:
            problems.append(f"{way[0]}: {error}")
            failure = error.with_traceback(None)  # the traceback refers to this frame, a cycle
    for uri in uris:
        if uri.startswith("grpc"):
            import pyarrow as pa
            import pyarrow.flight as fl

            try:
                own = fl.connect(uri, **flight_options)
            except pa.ArrowException as error:  # there is no such transport, or it is no URI
                problems.append(f"{uri}: {error}")
                continue
            return DoGet(own, True, endpoint.ticket, call_options, options), f"DoGet {uri}"
    reuses = not uris or any(uri.startswith("arrow-flight-reuse-connection:") for uri in uris)
    if client is not None:
        return DoGet(client, False, endpoint.ticket, call_options, options), "DoGet over the given client"
    hint = "give the client (client=) that this endpoint came from" if reuses else "give a client for DoGet (client=)"
    words = showable("; ".join(["no location of the endpoint can be read: " + hint, *problems]))
    if isinstance(failure, TimeoutError):
        raise TimeoutError(words) from failure
    if isinstance(failure, OSError):
        raise ConnectionError(words) from failure
    raise UnsupportedError(words) from failure


def _text_of(location: Any) -> str:
    uri = location if isinstance(location, (str, bytes)) else location.uri
    return uri.decode("utf-8", "replace") if isinstance(uri, bytes) else str(uri)


class DoGet:
    """The batches of one DoGet as RecordBatches, over the memory in which pyarrow received them.

    A thread waits for the server, and is abandoned after the timeout: gRPC has timeouts for whole calls only.
    """

    def __init__(self, client: Any, owned: bool, ticket: Any, call_options: Any, options: dict[str, Any]) -> None:
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._client, self._call = client if owned else None, None
        self._timeout: float | None = options.get("timeout", TIMEOUT)
        decoder = StreamDecoder(**{name: options[name] for name in DecodeOptions.defaults})
        steps = _steps(client, ticket, call_options, decoder)
        try:
            start_new_thread(_take_steps, (steps, self._wanted, self._answers))
            self._call = self._next()
            self.schema: Schema = self._next()
        except Exception:
            self.close()
            raise

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._next, None)

    def _next(self) -> Any:
        self._wanted.put(True)
        try:
            answer = self._answers.get(timeout=self._timeout)
        except Empty:
            raise TimeoutError(f"DoGet: waited {self._timeout:g} s for the server to send something{LONGER}") from None
        return _raise_as_ours(answer) if isinstance(answer, BaseException) else answer

    def close(self) -> None:
        """End the call."""
        self._wanted.put(False)
        call, self._call = self._call, None
        client, self._client = self._client, None
        if call is not None:
            call.cancel()
        if client is not None:
            client.close()

    __del__ = close


def _take_steps(steps: Iterator[Any], wanted: SimpleQueue[bool], answers: SimpleQueue[Any]) -> None:
    """Put the result or the exception of the next step into a queue whenever one is wanted."""
    while wanted.get():
        try:
            answers.put(next(steps, None))
        except BaseException as error:
            answers.put(error)


def _steps(client: Any, ticket: Any, call_options: Any, decoder: StreamDecoder) -> Iterator[Any]:
    """Yield the call, the schema and the batches; these pass the decoder, which applies the options."""
    call = client.do_get(ticket, call_options)
    yield call
    for event in map(decoder.decode_next, messages_of(call.to_reader())):
        if isinstance(event, SchemaRead):
            yield event.schema
        elif isinstance(event, BatchRead):
            yield event.batch


def _raise_as_ours(error: BaseException) -> Any:
    """Raise an exception of Flight as the exception class that this module documents."""
    if isinstance(error, (ArrowIpcError, OSError)):
        raise error
    import pyarrow as pa
    import pyarrow.flight as fl

    if isinstance(error, fl.FlightTimedOutError):
        raise TimeoutError(showable(str(error))) from error
    if isinstance(error, (fl.FlightError, pa.ArrowException, KeyError)):
        raise OSError(showable(f"DoGet failed: {type(error).__name__}: {error}")) from error
    raise error


def from_flight(
    info: Any,
    *,
    client: Any = None,
    schemes: Collection[str] = SCHEMES,
    flight_options: dict[str, Any] | None = None,
    call_options: Any = None,
    **options: Any,
) -> FlightReader:
    """Read a stream that a Flight server describes: from the first supported and reachable location, else by DoGet.

    Parameters
    ----------
    info : pyarrow.flight.FlightInfo or FlightEndpoint
        Of a FlightInfo, all endpoints are read, one after another.
    client : pyarrow.flight.FlightClient, optional
        The client that `info` came from, for DoGet. Locations that begin with ``grpc`` do not need it.
    schemes : collection of str
        The schemes of locations that may be used besides DoGet. The Flight server decides where this process
        connects to, also on its own host; if it is not trusted with that, pass ``schemes=()``.
    flight_options : dict, optional
        Options of `pyarrow.flight.connect`, for locations that begin with ``grpc``.
    call_options : pyarrow.flight.FlightCallOptions, optional
        Options of DoGet, for example a timeout of the whole call.
    **options
        `columns`, `validate`, `limits`, `use_threads`, `ensure_native_endian`, `verify`, `timeout`: as for `connect`.
        What comes by DoGet has no checksums, and pyarrow has converted big-endian bodies.

    Returns
    -------
    FlightReader
        Its schema is known.

    Raises
    ------
    UnsupportedError
        There is no location that can be read; it says why for each.
    FormatError
        The server sends invalid data, or does not know the stream.
    TimeoutError
        The server of the last location does not answer.
    OSError
        No server listens at any location, or DoGet failed.
    """
    check_names("from_flight", options, {**DecodeOptions.defaults, **(connect.__kwdefaults__ or {})})
    decoding = DecodeOptions({name: options[name] for name in options if name in DecodeOptions.defaults}).decoding()
    check_options(decoding["limits"], options.get("timeout", TIMEOUT))
    if decoding["columns"] is not None:
        decoding["columns"] = columns_of(decoding["columns"])  # an iterator would be empty at the second location
    StreamDecoder(**decoding)  # checks the values
    if hasattr(info, "endpoints"):
        endpoints = list(info.endpoints)
    elif hasattr(info, "ticket") and hasattr(info, "locations"):
        endpoints = [info]
    else:
        raise UsageError(f"expected a FlightInfo or a FlightEndpoint of pyarrow.flight, found {described(info)}")
    schema = None if endpoints or info.schema is None else schema_from(info.schema)
    every = {
        "client": client,
        "schemes": schemes,
        "flight_options": flight_options or {},
        "call_options": call_options,
        **options,
        **decoding,
    }
    return FlightReader(endpoints, schema, every)


# -- for Flight servers ---------------------------------------------------------------


def locations(*servers: Server, separate: bool = False, do_get: bool = False) -> list[str]:
    """Return the locations of dissociated servers, for a FlightEndpoint.

    Parameters
    ----------
    *servers : Server
        Servers of the same streams, over different transports; the best first.
    separate : bool, default False
        Use a connection each for metadata and data, as the C++ reference client requires.
    do_get : bool, default False
        Add a location that says that DoGet works too.

    Examples
    --------
    >>> from arrowipc import dissociated
    >>> with dissociated.Server({}, "tcp") as server:
    ...     [place.partition(":")[0] for place in locations(server, do_get=True)]
    ['arrowipc+tcp', 'arrow-flight-reuse-connection']
    """
    found = []
    for server in servers:
        if separate:
            found += [str(uri) for uri in server.uris]
        else:
            found.append(str(server.uri) + ("&streams=both" if len(servers) > 1 else ""))
    return [*found, REUSE_CONNECTION] if do_get else found
