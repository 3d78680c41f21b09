"""The server: whoever asks for a stream by its name gets its metadata and its bodies, each in its own way."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from arrowipc._arguments import described
from arrowipc.dissociated import schemes
from arrowipc.dissociated.connection import Connection, Deadline, wait
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.uri import DissociatedUri, new_tag
from arrowipc.errors import ArrowIpcError, UsageError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from arrowipc.limits import Limits

__all__ = ["Server"]

#: How often a thread looks whether the server was closed, in seconds.
TICK = 0.2


class Server:
    """Serves named streams to any number of clients at once.

    Parameters
    ----------
    streams : mapping of str or bytes to source, or callable
        What can be asked for. A source is a RecordBatch, a Table, an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, or a callable that returns one: a reader can be read once, so give a callable that opens
        it. A callable in place of the mapping takes the name (bytes) and returns a source, or None: unknown.
    transport : {"tcp", "unix", "shm", "file", "cma", "memory", "ucx"}
        How clients are reached. "shm" puts bodies into shared memory that clients map: no byte of them is sent.
        "file" tells where they lie in an IPC file, "cma" where in this process.
    address : (str, int), str or None
        Host and port, or the path of a Unix socket (one that begins with @ is abstract). None: a free one.
    max_unsent : int
        Bytes that may wait for a slow client before the next message is made.
    timeout : float, optional
        Seconds after which a client that takes nothing is left alone.
    limits : Limits, optional
        On what clients send.
    on_error : callable, optional
        Called with the exception of each session that failed; default: they are kept in `errors`, the last 100.
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

    def __init__(
        self,
        streams: Mapping[Any, Any] | Callable[[bytes], Any],
        transport: str = "tcp",
        address: Any = None,
        *,
        max_unsent: int = 64 << 20,
        timeout: float | None = None,
        limits: Limits | None = None,
        on_error: Callable[[BaseException], object] | None = None,
        transport_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._find = _finder(streams)
        self._options = options
        self._max_unsent = max_unsent
        self._timeout = timeout
        self.errors: list[BaseException] = []
        self._on_error = on_error or self._keep_error
        self._endpoint = schemes.listen(transport, address, limits, **(transport_options or {}))
        self._tags = {"both": new_tag(), "meta": new_tag(), "data": new_tag()}
        self._free_data = new_tag() if self._endpoint.memory is not None else None
        self._roles = Roles({tag: role for role, tag in self._tags.items()}, self._free_data)
        self._closing = threading.Event()
        self._sessions: dict[Session, threading.Thread] = {}
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, name="arrowipc-accept", daemon=True)
        self._acceptor.start()

    # -- where it is --

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
        """Pair of DissociatedUri: metadata and data, over a connection each. Such a stream is made twice."""
        return self._uri("meta"), self._uri("data")

    # -- clients --

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._endpoint.listener.fileno(), select.POLLIN)
        while not self._closing.is_set():
            try:
                if not poll.poll(TICK * 1000):
                    continue
                connection = self._endpoint.listener.accept()
            except (OSError, ArrowIpcError) as error:
                if not self._closing.is_set():
                    self._on_error(error)
                    self._closing.wait(TICK)  # out of file descriptors, for one: not in a circle
                continue
            if connection is not None:
                self.serve(connection)

    def serve(self, connection: Connection) -> None:
        """Serve a connection that was made in another way, in a thread of its own."""
        session = Session(
            connection, self._find, self._roles, self._endpoint.memory, self._max_unsent, self._options
        )
        thread = threading.Thread(target=self._run, args=(session,), name="arrowipc-session", daemon=True)
        with self._lock:
            self._sessions[session] = thread
        thread.start()

    def _run(self, session: Session) -> None:
        try:
            self._drive(session)
        except BaseException as error:
            if not self._closing.is_set():
                self._on_error(error)
        finally:
            session.close()
            with self._lock:
                self._sessions.pop(session, None)

    def _drive(self, session: Session) -> None:
        connection = session.connection
        while not self._closing.is_set():
            more = session.step()
            if more is None:
                return
            if more:
                continue
            unsent = connection.unsent
            stuck = Deadline(self._timeout if unsent else None)
            while not self._closing.is_set() and connection.unsent == unsent:
                try:
                    wait([connection], Deadline(TICK), "the client")
                    break
                except TimeoutError:
                    if stuck.left == 0:
                        raise TimeoutError(
                            f"{connection.name} took nothing for {self._timeout:g} s, with {unsent:,} bytes waiting"
                        ) from None

    def _keep_error(self, error: BaseException) -> None:
        self.errors.append(error)
        del self.errors[:-100]

    @property
    def num_clients(self) -> int:
        """int: connections that are open now."""
        with self._lock:
            return len(self._sessions)

    # -- the end --

    def close(self) -> None:
        """Take no more clients and end the connections; memory that clients hold stays readable for them."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._acceptor.join()
        self._endpoint.listener.close()
        with self._lock:
            threads = list(self._sessions.values())
        for thread in threads:
            thread.join()
        if self._endpoint.memory is not None:
            self._endpoint.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _finder(streams: Any) -> Callable[[bytes], Any]:
    """Return what finds a source by its name."""
    if isinstance(streams, Mapping):
        named = {
            name.encode() if isinstance(name, str) else bytes(name): source
            for name, source in streams.items()
        }
        return named.get
    if callable(streams):
        found: Callable[[bytes], Any] = streams
        return found
    raise UsageError(
        f"streams: expected a mapping of names to data, or a callable, found {described(streams)}"
    )
