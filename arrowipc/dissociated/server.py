"""The server: a client that asks for a stream by name gets its metadata and bodies, over separate ways."""

from __future__ import annotations

import math
import os
import select
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer, check_text, described, instance_of
from arrowipc.dissociated import schemes
from arrowipc.dissociated.connection import Alarm, Connection, Endpoint, seconds, wait
from arrowipc.dissociated.protocol import Reason, ident_of
from arrowipc.dissociated.served import check_made, source_of
from arrowipc.dissociated.session import MOST_ASKED, ROOM_INTERVAL, Books, Roles, Session
from arrowipc.dissociated.uri import DissociatedUri, new_tag
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.limits import Limits
from arrowipc.reader import Closing

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import OfferedMemory

#: Seconds that a client has to take what was sent before it is told why its connection ends.
LINGER = 0.5
#: Seconds after an error of `accept`: out of file descriptors, for one, is not over at once.
ACCEPT_PAUSE = 0.2
#: Seconds after which a client that has not asked for anything may have to make room for another one.
GRACE = 0.25
#: What one client may have of all that clients may hold.
MOST_FOR_ONE = 16
#: Errors that are kept where nobody takes them, and characters of each.
KEPT_ERRORS = 100
KEPT_TEXT = 4000


class Server(Closing):
    """Serves named streams to any number of clients at once, until it is closed.

    A server without references ends too, once no client is connected.

    Parameters
    ----------
    streams : mapping of str or bytes to source, or callable
        What can be asked for. A source is a RecordBatch, a Table, an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, the path of an Arrow IPC file or stream, or a callable that returns one of these (a
        reader can be read once, so give a callable that opens it). A callable in place of the mapping takes the name
        (bytes) and returns a source, or None: unknown. Sources are read in threads of the server.
    transport : {"tcp", "unix", "shm", "file", "ucx"}
        "shm" puts bodies into shared memory that clients map: no byte of them is sent. Tables of the mapping are put
        there once for all clients if there is room (see `Prepared`); give a callable for data that change. "file"
        sends the positions of bodies in an IPC file, whose path is the only stream.
    address : str, (str, int) or None
        "host:port" (an IPv6 address is in brackets), or the two as a tuple; or the path of a Unix socket (one that
        begins with @ is abstract). None: a free one.
    max_held : int
        Bytes that all clients together may make the server keep: data that they have not taken (of which one client
        gets at most a sixteenth, or one message) and, once more, requests that wait. Where all of it is taken, the
        next message of a client waits; one that took nothing for `idle_timeout` makes room. Messages that sources are
        making then come on top.
    max_clients : int
        Simultaneous connections. A further client replaces one that has not sent a request yet, else the one
        that was idle longest (see `idle_timeout`); otherwise it is disconnected.
    request_timeout : float or None, default 30
        Seconds that a client has to its first request, and that each later message may take to arrive.
    idle_timeout : float or None, default 30
        Seconds without any sign of a client (nothing asked for, taken or given back) after which another client may
        replace it where `max_clients` or `max_held` is in use. Memory that it holds stays readable for it. None: a
        client that has asked is never replaced.
    limits : Limits, optional
        On what clients send.
    on_error : callable, optional
        Called with the exception of each session that failed, in its thread. Default: the last 100 are kept in
        `errors` as text.
    want_data, free_data : int, optional
        The tags that clients use. Default: random ones.
    transport_options : mapping, optional
        Of the transport; the guide lists them.
    **options
        `compression`, `dictionary_deltas` and others: see `arrowipc.dissociated.served.messages_of`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc import dissociated
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int64())]))
    >>> with dissociated.Server({"numbers": batch}, "tcp") as server:
    ...     with dissociated.connect(server.uri, "numbers") as reader:
    ...         reader.read_all().to_pydict()
    {'x': [1, 2, 3]}
    """

    def __init__(
        self,
        streams: Mapping[Any, Any] | Callable[[bytes], Any],
        transport: str = "tcp",
        address: Any = None,
        *,
        max_held: int = 1 << 30,
        max_clients: int = 1000,
        request_timeout: float | None = 30.0,
        idle_timeout: float | None = 30.0,
        limits: Limits | None = None,
        on_error: Callable[[BaseException], object] | None = None,
        want_data: int | None = None,
        free_data: int | None = None,
        transport_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(streams, Mapping) and not callable(streams):
            raise UsageError(f"streams: expected a mapping of names to data, or a callable, found {described(streams)}")
        if not (on_error is None or callable(on_error)):
            raise UsageError(f"on_error: expected a callable, found {described(on_error)}")
        instance_of("transport_options", transport_options, (Mapping, type(None)))
        instance_of("limits", limits, (Limits, type(None)))
        for name, tag in (("want_data", want_data), ("free_data", free_data)):
            if tag is not None:
                check_integer(name, tag, 0, (1 << 64) - 1)
        check_made(options, Server.__init__.__kwdefaults__ or ())
        self.options = options
        self._max_clients = check_integer("max_clients", max_clients, 1, 1 << 31)
        self._max_held = check_integer("max_held", max_held, self._max_clients << 10, 1 << 62)
        self._request_timeout = seconds("request_timeout", request_timeout)
        self._idle_timeout = seconds("idle_timeout", idle_timeout)
        self._books = Books()
        self._next_look = 0.0  # when clients that wait for room may look again for one that makes some
        self.errors: list[str] = []
        self._on_error = on_error or partial(_keep, self.errors)
        listening = {
            check_text("each of transport_options", name): each for name, each in (transport_options or {}).items()
        }
        if transport == "file" and isinstance(streams, Mapping):
            listening = {**path_of(streams), **listening}
        self._endpoint = schemes.listen(transport, address, limits, **listening)
        try:
            self.find: Callable[[bytes], Any] = finder(streams, self._endpoint.memory, options)
            both = new_tag() if want_data is None else want_data
            self._tags = {"both": both, "meta": new_tag(), "data": new_tag()}
            self._free_data = None
            if self._endpoint.memory is not None:
                self._free_data = new_tag() if free_data is None else free_data
            self._roles = Roles({tag: role for role, tag in self._tags.items()}, self._free_data)
            self._alarm = Alarm()  # rings when the server closes
            self._sessions: dict[Session, threading.Thread] = {}
            self._lock = threading.Lock()
            self._acceptor = threading.Thread(
                target=_accept,
                args=(weakref.ref(self), self._endpoint, self._alarm),
                name="arrowipc-accept",
                daemon=True,
            )
            weakref.finalize(self, self._alarm.ring).atexit = False
            self._acceptor.start()
        except BaseException:
            close_endpoint(self._endpoint)
            raise

    def _uri(self, role: str) -> DissociatedUri:
        _, scheme, host, port, path, memory = self._endpoint
        return DissociatedUri(
            scheme,
            host,
            port,
            path,
            want_data=self._tags[role],
            free_data=None if role == "meta" else self._free_data,
            remote_handle=None if memory is None or role == "meta" else memory.remote_handle,
            streams=role,  # type: ignore[arg-type]
        )

    @property
    def uri(self) -> DissociatedUri:
        """DissociatedUri: both streams over one connection."""
        return self._uri("both")

    @property
    def uris(self) -> tuple[DissociatedUri, DissociatedUri]:
        """Pair of DissociatedUri: metadata and data, over a connection each.

        The stream is made twice then, once for each: its source has to give the same batches both times.
        """
        return self._uri("meta"), self._uri("data")

    @property
    def memory(self) -> OfferedMemory | None:
        """OfferedMemory: where bodies are put for clients to read them; None: they are sent."""
        return self._endpoint.memory

    def _present(self) -> list[Session]:
        return [each for each in list(self._sessions) if not each.is_dismissed]

    def _session(self, connection: Connection) -> Session | None:
        """Return a session for a client; None: there are too many already, and this one was sent away."""
        present = self._present()
        if len(present) >= self._max_clients and not self._make_room(present):
            connection.refuse(Reason.FULL)
            connection.close()
            self._on_error(
                UsageError(f"{connection.name} was sent away: {len(present):,} clients are served (max_clients=)")
            )
            return None
        return Session(
            connection,
            self.find,
            self._roles,
            self.memory,
            self.options,
            self._request_timeout,
            max_unsent=-(-self._max_held // MOST_FOR_ONE),
            max_asked=min(MOST_ASKED, self._max_held // self._max_clients),
            has_room=self._has_room,
            books=self._books,
        )

    def _has_room(self, asking: Session) -> bool:
        """Whether all clients hold less than they may, so that another message may be made for one of them."""
        has_some = asking.connection.unsent > 0
        if self._books.held < self._max_held:
            # Those who have nothing come first, so that nobody waits for ever.
            return not (has_some and self._books.short)
        now = time.monotonic()
        if has_some or now < self._next_look:
            return False
        self._next_look = now + ROOM_INTERVAL
        return self._make_room([each for each in self._present() if each.held])

    def _make_room(self, sessions: list[Session]) -> bool:
        """Disconnect the client that has been idle for the longest; False: none has been for long enough.

        Clients that never asked for anything come first.
        """
        most = math.inf if self._idle_timeout is None else self._idle_timeout
        found = [(idleness, each) for each in sessions if (idleness := each.idleness) is not None]
        found = [each for each in found if each[0][1] >= (GRACE if each[0][0] else most)]
        if not found:
            return False
        (_, idle), longest = max(found, key=itemgetter(0))
        longest.dismiss()
        self._on_error(
            UsageError(
                f"{longest.connection.name}, idle for {idle:.0f} s, was sent away for another client: "
                f"{len(sessions):,} were served (max_clients=) or had data to take (max_held=)"
            )
        )
        return True

    def serve(self, connection: Connection) -> None:
        """Serve a connection that was made in another way, in a new thread."""
        session = self._session(connection)
        if session is None:
            return
        thread = threading.Thread(target=self._run, args=(session,), name="arrowipc-session", daemon=True)
        with self._lock:
            self._sessions[session] = thread
            try:
                thread.start()
            except BaseException:  # there may be no more threads
                del self._sessions[session]
                connection.close()
                raise

    def _run(self, session: Session) -> None:
        try:
            try:
                self._drive(session)
            finally:
                session.close(LINGER)
        except BaseException as error:
            if not isinstance(error, ConnectionError):  # a client may leave at any time: that is no error of anybody
                self._on_error(error)
        finally:
            with self._lock:
                self._sessions.pop(session, None)

    def _drive(self, session: Session) -> None:
        while not self._alarm.is_ringing:
            more = session.step()
            if more is None:
                return
            if not more:
                try:
                    wait([session.connection], *session.patience(), alarm=self._alarm)
                except TimeoutError:
                    session.reason = Reason.TOO_LATE
                    raise
        if session.is_busy:
            session.reason = Reason.CLOSED

    @property
    def num_clients(self) -> int:
        """int: connections that are open now."""
        with self._lock:
            return len(self._sessions)

    # -- the end --

    def close(self) -> None:
        """Take no more clients and end the connections; memory that clients hold stays readable for them.

        Returns when every session has ended: a source that is being read is read to its next batch.
        """
        if self._alarm.is_ringing:
            return
        self._alarm.ring()
        self._acceptor.join()
        with self._lock:
            threads = list(self._sessions.values())
        for thread in threads:
            if thread is not threading.current_thread():  # on_error may close us
                thread.join()
        close_endpoint(self._endpoint)
        self._alarm.close()


def _accept(reference: weakref.ref[Server], endpoint: Endpoint, alarm: Alarm) -> None:
    """Take clients until the alarm rings; waiting for them does not keep a server alive."""
    poll = select.poll()
    poll.register(endpoint.listener.fileno(), select.POLLIN)
    poll.register(alarm.fileno(), select.POLLIN)
    pause = select.poll()
    pause.register(alarm.fileno(), select.POLLIN)
    while True:
        failure: Exception | None = None
        connection: Connection | None = None
        try:
            poll.poll()
            if alarm.is_ringing:
                break
            connection = endpoint.listener.accept()
        except (OSError, ArrowIpcError) as error:
            failure = error
        server = reference()
        if server is None:
            break
        try:
            if failure is not None:
                server._on_error(failure)
            elif connection is not None:
                server.serve(connection)
        except Exception as error:  # what goes wrong with one client must not keep the others out
            # No name for what is passed: it would keep the error, and with it the server, until the next one.
            thread = threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        del server
        if failure is not None and not isinstance(failure, PermissionError):  # that one is over at once
            pause.poll(1000 * ACCEPT_PAUSE)
    if reference() is None:
        if connection is not None:
            connection.close()
        close_endpoint(endpoint)
        alarm.close()


def _keep(errors: list[str], error: BaseException) -> None:
    """Keep the last errors as text: an exception keeps all that its session held when it failed.

    No method of the server: it would keep a server alive that nobody refers to.
    """
    lines = [*traceback.format_exception_only(error), *traceback.format_tb(error.__traceback__, -3)]
    errors.append("".join(lines).rstrip()[:KEPT_TEXT])
    del errors[:-KEPT_ERRORS]


def close_endpoint(endpoint: Endpoint) -> None:
    """Listen no more, and offer no more memory."""
    endpoint.listener.close()
    if endpoint.memory is not None:
        endpoint.memory.close()


def finder(streams: Any, memory: OfferedMemory | None, options: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """Return what finds a source by its name."""
    if not isinstance(streams, Mapping):
        return streams  # type: ignore[no-any-return]
    sources = {}
    for name, given in streams.items():
        try:
            sources[ident_of(name)] = source_of(given, memory, options)
        except ArrowIpcError as error:
            error.args = (f"streams[{name!r}]: {str(error).removeprefix('write: ')}",)
            raise
    return sources.get


def path_of(streams: Mapping[Any, Any]) -> dict[str, str]:
    """Return the option of "file" that follows from the streams: the path of the one among them that is a file."""
    found = [getattr(each, "path", each) for each in streams.values()]
    paths = [os.path.abspath(each) for each in found if isinstance(each, (str, os.PathLike))]
    if len(paths) > 1:
        raise UsageError(
            f'the transport "file" is for one file, whose bodies clients find in it; found {len(paths)}: '
            "give each a server of its own"
        )
    return {"path": paths[0]} if paths else {}
