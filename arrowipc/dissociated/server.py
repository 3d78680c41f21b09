"""The server: a client that asks for a stream by name gets its metadata and bodies, over separate ways."""

from __future__ import annotations

import select
import threading
import weakref
from typing import TYPE_CHECKING

from arrowipc.dissociated.connection import Alarm, Connection, Endpoint, wait
from arrowipc.dissociated.protocol import Reason
from arrowipc.dissociated.service import ACCEPT_PAUSE, Service, close_endpoint
from arrowipc.errors import ArrowIpcError

if TYPE_CHECKING:
    from typing import Self

    from arrowipc.dissociated.session import Session

__all__ = ["Server"]


#: Seconds that a client has to take what was sent before it is told why its connection ends.
LINGER = 0.5


class Server(Service):
    """Serves named streams to any number of clients at once, until it is closed.

    A server without references ends too, once no client is connected.

    Parameters
    ----------
    streams : mapping of str or bytes to source, or callable
        What can be asked for. A source is a RecordBatch, a Table, an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, the path of an Arrow IPC file or stream, or a callable that returns one of the
        former: a reader can be read once, so give a callable that opens it. A callable in place of the mapping
        takes the name (bytes) and returns a source, or None: unknown. Sources are read in the threads of the
        clients that ask for them.
    transport : {"tcp", "unix", "shm", "file", "ucx"}
        How clients are reached. "shm" puts bodies into shared memory that clients map: no byte of them is
        sent. Tables of the mapping are put there once for all clients, when the first one asks, if
        there is room (see `Prepared`). Give a callable for data that change. "file" sends the positions of bodies
        in an IPC file, whose path is the only stream.
    address : str, (str, int) or None
        "host:port" (an IPv6 address is in brackets), or the two as a tuple; or the path of a Unix socket (one that
        begins with @ is abstract). None: a free one.
    max_held : int
        Bytes that all clients together may make the server keep: requests that wait, and data that they have not
        taken, of which one client gets at most a sixteenth, or one message. Where all of it is taken, the next
        message of a client that has nothing waits until others have taken theirs; one that took nothing for
        `idle_timeout` makes room. A message that a source is making when the limit is reached is still sent, so
        one for each source that runs then comes on top. Requests of one client may be as long as an equal part of
        this, and 1 MiB, together; a client that sends more is disconnected. They count as data do, and are also
        taken where all of it is in use: at most twice this is kept with them.
    max_clients : int
        Simultaneous connections. A further client replaces one that has not sent a request yet, else the one
        that was idle longest (see `idle_timeout`); otherwise it is disconnected.
    request_timeout : float or None, default 30
        Seconds that a client has from its connection to its first request, and that each of its later messages may
        take to arrive, from the first byte to the last. A client that is later is disconnected.
    idle_timeout : float or None, default 30
        Seconds without any sign of a client (nothing asked for, taken or given back) after which another client
        may replace it where there are `max_clients`, or where `max_held` is in use. Memory that it holds stays
        readable for it. None: a client that has asked is never replaced. If there is room, a client may be idle
        for any time.
    limits : Limits, optional
        On what clients send.
    on_error : callable, optional
        Called with the exception of each session that failed, in its thread. Default: what the last 100 say, and
        where they were raised, is kept in `errors` as text, of each at most 4,000 characters.
    want_data, free_data : int, optional
        The tags that clients use. Default: random ones.
    transport_options : mapping, optional
        Of the transport: for "shm" those of `Arena`, or ``{"arena": arena}``; see the guide for all of them.
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

    def _start(self) -> None:
        self._alarm = Alarm()  # rings when the server closes
        self._sessions: dict[Session, threading.Thread] = {}
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(
            target=_accept, args=(weakref.ref(self), self._endpoint, self._alarm), name="arrowipc-accept", daemon=True
        )
        weakref.finalize(self, self._alarm.ring).atexit = False
        self._acceptor.start()

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
            self._ended(error)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
