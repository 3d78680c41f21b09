"""The server: whoever asks for a stream by its name gets its metadata and its bodies, each in its own way."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from arrowipc.dissociated.connection import Alarm, Connection, wait
from arrowipc.dissociated.service import BREATH, Service
from arrowipc.errors import ArrowIpcError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from arrowipc.dissociated.session import Session

__all__ = ["Server"]


class Server(Service):
    """Serves named streams to any number of clients at once.

    Parameters
    ----------
    streams : mapping of str or bytes to source, or callable
        What can be asked for. A source is a RecordBatch, a Table, an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, or a callable that returns one: a reader can be read once, so give a callable
        that opens it. A callable in place of the mapping takes the name (bytes) and returns a source, or
        None: unknown. Sources are read in the threads of the clients that ask for them.
    transport : {"tcp", "unix", "shm", "file", "cma", "memory", "ucx"}
        How clients are reached. "shm" puts bodies into shared memory that clients map: no byte of them is
        sent. "file" tells where they lie in an IPC file, "cma" where in this process.
    address : (str, int), str or None
        Host and port, or the path of a Unix socket (one that begins with @ is abstract). None: a free one.
    max_unsent : int
        Bytes that may wait for a slow client before the next message is made.
    max_clients : int
        Connections at once; whoever comes then is sent away.
    timeout : float, optional
        Seconds after which a client that takes nothing is left alone.
    limits : Limits, optional
        On what clients send.
    on_error : callable, optional
        Called with the exception of each session that failed, in its thread; default: the last 100 are kept
        in `errors`.
    want_data, free_data : int, optional
        The tags that clients use. Default: random ones.
    transport_options : mapping, optional
        Of the transport: see `arrowipc.dissociated.schemes.listen`.
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
        self._acceptor = threading.Thread(target=self._accept, name="arrowipc-accept", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        poll = select.poll()
        listener = self._endpoint.listener
        poll.register(listener.fileno(), select.POLLIN)
        poll.register(self._alarm.fileno(), select.POLLIN)
        pause = select.poll()
        pause.register(self._alarm.fileno(), select.POLLIN)
        while True:
            try:
                poll.poll()
                if self._alarm.is_ringing:
                    return
                connection = listener.accept()
            except (OSError, ArrowIpcError) as error:
                self._on_error(error)
                pause.poll(1000 * BREATH)
                continue
            if connection is not None:
                self.serve(connection)

    def serve(self, connection: Connection) -> None:
        """Serve a connection that was made in another way, in a thread of its own."""
        session = self._session(connection, self.num_clients)
        if session is None:
            return
        thread = threading.Thread(target=self._run, args=(session,), name="arrowipc-session", daemon=True)
        with self._lock:
            self._sessions[session] = thread
            thread.start()

    def _run(self, session: Session) -> None:
        try:
            try:
                self._drive(session)
            finally:
                session.close()
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
                patience = session.patience(self._timeout)
                wait([session.connection], patience, session.waits_for, alarm=self._alarm)

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
        self._close_endpoint()
        self._alarm.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
