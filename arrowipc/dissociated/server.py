"""The server: a client asks for a stream by its name, and gets metadata and bodies as separate messages."""

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

from arrowipc.arguments import Initialized, check_integer, check_text, described, instance_of
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

#: Seconds that a client has to receive the reason why its connection ends.
LINGER = 0.5
#: Seconds to wait after an error of `accept`: a lack of file descriptors, for example, may last.
ACCEPT_PAUSE = 0.2
#: Seconds after which a client that has not asked for anything may be replaced by another one.
GRACE = 0.25
#: One client may hold the MOST_FOR_ONE-th part of `max_held`.
MOST_FOR_ONE = 16
#: Errors that are kept without `on_error`, and characters of each.
KEPT_ERRORS = 100
KEPT_TEXT = 4000


class Server(Closing, Initialized):
    """Serves named streams to any number of clients at once, until it is closed.

    A server without references also ends, once no client is connected.

    Parameters
    ----------
    streams : mapping of str or bytes to source, or callable
        The streams by name. A source is a RecordBatch, a Table, an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, the path of an Arrow IPC file or stream, or a callable that returns one of these. A
        reader can be read once, and a second client gets an error: give a callable that opens it. A callable in place
        of the mapping takes the name (bytes) and returns a source, or None if it is unknown. Sources are read in
        threads of the server.
    transport : {"tcp", "unix", "shm", "file", "ucx"}
        "shm" puts bodies into shared memory that clients map: no byte of them is sent. Tables of the mapping are put
        there once for all clients if there is room (see `Prepared`); give a callable for data that change. "file"
        sends the positions of bodies in an IPC file, whose path is the only stream.
    address : str, (str, int) or None
        "host:port" (an IPv6 address is in brackets), or the two as a tuple; or the path of a Unix socket (one that
        begins with @ is abstract). None: a free one.
    max_held : int
        Bytes that the server keeps for all clients together: data that they have not received (for one client at most
        a sixteenth, or one message) and, up to the same number again, requests that wait. When the limit is reached,
        the next message of a client waits; a client that received nothing for `idle_timeout` may be disconnected.
        Messages that sources are making at that moment are not counted.
    max_clients : int
        Simultaneous connections. A further client replaces one that has not sent a request yet, else the one
        that was idle longest (see `idle_timeout`); otherwise it is disconnected.
    request_timeout : float or None, default 30
        Seconds that a client has to send its first request, and that each later message may take to arrive.
    idle_timeout : float or None, default 30
        Seconds without any action of a client (nothing asked for, received or given back) after which another client
        may replace it, if `max_clients` or `max_held` is reached. Memory that it holds stays readable for it. None: a
        client that has asked for a stream is never replaced.
    limits : Limits, optional
        Limits for messages of clients.
    on_error : callable, optional
        Called with the exception of each session that failed, in its thread. Default: the last 100 are kept in
        `errors` as text.
    want_data, free_data : int, optional
        The tags that clients use. Default: random ones.
    transport_options : mapping, optional
        Options of the transport; the guide lists them.
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
        self._make_once("options")
        if not isinstance(streams, Mapping) and not callable(streams):
            raise UsageError(f"streams: expected a mapping of names to data, or a callable, found {described(streams)}")
        if not (on_error is None or callable(on_error)):
            raise UsageError(f"on_error: expected a callable, found {described(on_error)}")
        instance_of("transport_options", transport_options, (Mapping, type(None)))
        instance_of("limits", limits, (Limits, type(None)))
        check_made(options, Server.__init__.__kwdefaults__ or ())
        self.options = options
        self._max_clients = check_integer("max_clients", max_clients, 1, 1 << 31)
        self._max_held = check_integer("max_held", max_held, self._max_clients << 10, 1 << 62)
        self._request_timeout = seconds("request_timeout", request_timeout)
        self._idle_timeout = seconds("idle_timeout", idle_timeout)
        self._tags = {"both": _tag("want_data", want_data), "meta": new_tag(), "data": new_tag()}
        self._free_data: int | None = _tag("free_data", free_data)
        self._books = Books()
        self._next_look = 0.0  # when `_has_room` may look again for a client to disconnect
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
            if self._endpoint.memory is None:  # then clients give nothing back
                self._free_data = None
            self._roles = Roles({tag: role for role, tag in self._tags.items()}, self._free_data)
            self._alarm = Alarm()  # rings when the server closes
            self._sessions: dict[Session, threading.Thread] = {}
            self._lock = threading.Lock()
            self._closer: threading.Thread | None = None  # the thread that called `close`
            what = weakref.ref(self), self._endpoint, self._alarm
            self._acceptor = threading.Thread(target=_accept, args=what, name="arrowipc-accept", daemon=True)
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

        Then the stream is made twice, once for each connection: its source must give the same batches both times.
        """
        return self._uri("meta"), self._uri("data")

    @property
    def memory(self) -> OfferedMemory | None:
        """OfferedMemory: memory for bodies that clients read by themselves; None: all bodies are sent."""
        return self._endpoint.memory

    def _present(self) -> list[Session]:
        return [each for each in list(self._sessions) if not each.is_dismissed]

    def _session(self, connection: Connection) -> Session | None:
        """Return a session for a client; None if there are too many clients, after disconnecting this one."""
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
        """Whether another message may be made for a client: all clients together hold less than `max_held`."""
        has_some = asking.connection.unsent > 0
        if self._books.held < self._max_held:
            # Clients without unsent data come first, so that no client waits for ever.
            return not (has_some and self._books.short)
        now = time.monotonic()
        if has_some or now < self._next_look:
            return False
        self._next_look = now + ROOM_INTERVAL
        return self._make_room([each for each in self._present() if each.held])

    def _make_room(self, sessions: list[Session]) -> bool:
        """Disconnect the client that has been idle for the longest; return False if none was idle for long enough.

        Clients that never asked for anything are chosen first.
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
            if not isinstance(error, ConnectionError):  # a client may disconnect at any time: that is no error
                self._on_error(error)
        finally:
            with self._lock:
                self._sessions.pop(session, None)
            self._end_by_closer()

    def _drive(self, session: Session) -> None:
        while not self._alarm.is_ringing:
            more = session.step()
            if more is None:
                return
            if not more:
                try:
                    wait([session.connection], *session.begin_wait(), alarm=self._alarm)
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
        """Accept no more clients and end the connections; memory that clients hold stays readable for them.

        Return when every session has ended: a source that is being read is read to its next batch. A source, or
        `on_error`, may close the server, too: then all is over when the thread that called it has ended.
        """
        if self._alarm.is_ringing:
            return
        self._alarm.ring()
        here = threading.current_thread()
        if self._acceptor is not here:
            self._acceptor.join()
        with self._lock:
            threads = list(self._sessions.values())
        for thread in threads:
            if thread is not here:
                thread.join()
        self._closer = here
        if here not in (self._acceptor, *threads):
            self._end_by_closer()

    def _end_by_closer(self) -> None:
        """End the server if this thread has closed it; if it is one of ours, at its end.

        Until then, a session may still have to send a descriptor of the memory.
        """
        if self._closer is threading.current_thread():
            close_endpoint(self._endpoint)
            self._alarm.close()


def _accept(reference: weakref.ref[Server], endpoint: Endpoint, alarm: Alarm) -> None:
    """Accept clients until the alarm rings; the thread holds no reference to the server while it waits."""
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
        except Exception as error:  # an error with one client must not keep others out
            # The arguments get no name: it would keep the error, and with it the server, alive until the next one.
            thread = threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        del server
        if failure is not None and not isinstance(failure, PermissionError):  # refused another user
            pause.poll(1000 * ACCEPT_PAUSE)
    server = reference()
    if server is not None:
        server._end_by_closer()
        return
    if connection is not None:
        connection.close()
    close_endpoint(endpoint)
    alarm.close()


def _tag(name: str, given: int | None) -> int:
    """Return the tag that the caller chose, or a random one."""
    return new_tag() if given is None else check_integer(name, given, 0, (1 << 64) - 1)


def _keep(errors: list[str], error: BaseException) -> None:
    """Keep the last errors as text: an exception would keep all objects of its session alive.

    This is not a method: a bound method would keep the server alive.
    """
    lines = [*traceback.format_exception_only(error), *traceback.format_tb(error.__traceback__, -3)]
    errors.append("".join(lines).rstrip()[:KEPT_TEXT])
    del errors[:-KEPT_ERRORS]


def close_endpoint(endpoint: Endpoint) -> None:
    """Stop listening, and offer no more memory."""
    endpoint.listener.close()
    if endpoint.memory is not None:
        endpoint.memory.close()


def finder(streams: Any, memory: OfferedMemory | None, options: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """Return the function that finds a source by its name."""
    if not isinstance(streams, Mapping):
        return streams  # type: ignore[no-any-return]
    sources = {}
    for name, given in streams.items():
        try:
            ident = ident_of(name)
            if ident in sources:
                raise UsageError("expected one stream of each name, found this one as str and as bytes: rename one")
            sources[ident] = source_of(given, memory, options)
        except ArrowIpcError as error:
            error.args = (f"streams[{name!r}]: {str(error).removeprefix('write: ')}",)
            raise
    return sources.get


def path_of(streams: Mapping[Any, Any]) -> dict[str, str]:
    """Return the option "path" of the transport "file": the path of the stream that is a file, if there is one."""
    found = [getattr(each, "path", each) for each in streams.values()]
    paths = [os.path.abspath(each) for each in found if isinstance(each, (str, os.PathLike))]
    if len(paths) > 1:
        raise UsageError(
            f'the transport "file" is for one file, whose bodies clients find in it; found {len(paths)}: '
            "give each a server of its own"
        )
    return {"path": paths[0]} if paths else {}
