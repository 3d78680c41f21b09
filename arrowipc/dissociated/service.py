"""What is served, where and under which tags: all of a server except how it waits for its clients."""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer, check_text, described, instance_of
from arrowipc.dissociated import schemes
from arrowipc.dissociated.connection import seconds
from arrowipc.dissociated.protocol import Reason, ident_of
from arrowipc.dissociated.served import check_made, source_of
from arrowipc.dissociated.session import MOST_ASKED, ROOM_INTERVAL, Books, Roles, Session
from arrowipc.dissociated.uri import DissociatedUri, new_tag
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.limits import Limits

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection, Endpoint, OfferedMemory

__all__ = ["Service"]

#: Seconds after an error of `accept`: out of file descriptors, for one, is not over at once.
ACCEPT_PAUSE = 0.2
#: Seconds after which a client that has not asked for anything may have to make room for another one.
GRACE = 0.25
#: What one client may have of all that clients may hold.
MOST_FOR_ONE = 16
#: Errors that are kept where nobody takes them, and characters of each.
KEPT_ERRORS = 100
KEPT_TEXT = 4000


class Service:
    """Base of the servers: listens, makes sessions, and keeps the books about them.

    The parameters are described at `arrowipc.dissociated.Server`.

    Attributes
    ----------
    find : callable
        Takes a name (bytes); returns the source, or None.
    idents : tuple of bytes
        The names, where `streams` is a mapping.
    options : dict
        How messages are made of sources.
    errors : list of str
        How the last sessions failed, where there is no `on_error`: what was raised, and where.
    """

    _sessions: dict[Session, Any]

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
        check_made(options, Service.__init__.__kwdefaults__ or ())
        self.idents: tuple[bytes, ...] = tuple(map(ident_of, streams)) if isinstance(streams, Mapping) else ()
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
            self._start()
        except BaseException:
            close_endpoint(self._endpoint)
            raise

    def _start(self) -> None:
        """Begin to wait for clients, where the kind of server does so before it is entered."""

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

    def _ended(self, error: BaseException) -> None:
        """Report how a session ended. A client may leave at any time: that is no error of anybody."""
        if not isinstance(error, ConnectionError):
            self._on_error(error)


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
