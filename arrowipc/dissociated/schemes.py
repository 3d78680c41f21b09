"""The transport of each URI scheme; each is imported when it is first needed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc.arguments import check_choice, check_names, described
from arrowipc.dissociated.connection import Endpoint
from arrowipc.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection, PeerMemory
    from arrowipc.dissociated.uri import DissociatedUri
    from arrowipc.limits import Limits

__all__ = ["CONNECTORS", "SCHEMES", "TRANSPORTS", "Transport", "check_scheme", "connect", "listen"]


class Transport(NamedTuple):
    """How a server is reached.

    Attributes
    ----------
    listen : callable
        ``listen(transport, address, limits, **options)`` begins to; it gets the name of the transport too.
    options : tuple of str
        The names of its `transport_options`.
    """

    listen: Callable[..., Endpoint]
    options: tuple[str, ...] = ()


def check_scheme(scheme: str) -> None:
    """Refuse a scheme that no transport has."""
    if scheme not in CONNECTORS:
        raise UnsupportedError(f"no transport speaks {scheme[:40]!r}: expected one of {', '.join(CONNECTORS)}")


def connect(uri: DissociatedUri, limits: Limits | None, timeout: float | None) -> tuple[Connection, PeerMemory | None]:
    """Connect to a server.

    Returns
    -------
    connection : Connection
    memory : PeerMemory or None
        The way into memory that the server tells of.

    Raises
    ------
    UnsupportedError
        No transport speaks the scheme, or its library is not there.
    OSError
        Nobody listens there.
    """
    check_scheme(uri.scheme)
    return CONNECTORS[uri.scheme](uri, limits, timeout)


def _connect_tcp(
    uri: DissociatedUri, limits: Limits | None, timeout: float | None
) -> tuple[Connection, PeerMemory | None]:
    from arrowipc.dissociated.transports.sockets import connect_tcp

    if uri.port is None:
        raise UsageError(f"a TCP server has a port: {uri}")
    return _with_memory(connect_tcp(uri.host, uri.port, limits, timeout), uri)


def _connect_unix(
    uri: DissociatedUri, limits: Limits | None, timeout: float | None
) -> tuple[Connection, PeerMemory | None]:
    from arrowipc.dissociated.transports.sockets import connect_unix

    path = uri.path.removeprefix("/") if uri.path.startswith("/@") else uri.path
    return _with_memory(connect_unix(path, limits, timeout), uri)


def _connect_ucx(
    uri: DissociatedUri, limits: Limits | None, timeout: float | None
) -> tuple[Connection, PeerMemory | None]:
    from arrowipc.dissociated.transports.ucx import connect_ucx

    return connect_ucx(uri, limits, timeout)


def _with_memory(connection: Connection, uri: DissociatedUri) -> tuple[Connection, PeerMemory | None]:
    """Nothing is mapped or read before a body refers to it."""
    from arrowipc.dissociated.transports.shared import check_user, open_peer_memory

    try:
        if uri.remote_handle is not None and uri.scheme == "arrowipc+unix":
            # Also of what it sends: a name can be taken by anybody who comes first.
            check_user(connection)
        return connection, open_peer_memory(uri.remote_handle, connection)
    except BaseException:
        connection.close()
        raise


def host_and_port(address: Any) -> tuple[str, int]:
    """Return the two parts of an address; None: a free port of this machine."""
    if address is None:
        return "127.0.0.1", 0
    pair = address
    if isinstance(address, str):
        # An address of IPv6 has brackets, or nobody knows where the port begins.
        parts = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^:]*)):([0-9]{1,5})", address)
        pair = (parts[1] or parts[2], int(parts[3])) if parts else None
    if (
        not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and pair[0].isprintable())
        or type(pair[1]) is not int
        or not 0 <= pair[1] < 1 << 16
    ):
        raise UsageError(
            'address: expected "host:port", "[IPv6 address]:port" or (host, port), with a port from 0 (a free one) '
            f"to 65535, found {described(address)}"
        )
    return pair


def _unix_path(address: Any) -> str:
    """Return where a Unix socket is, for clients in any directory; None: an abstract name that is free."""
    if address is None:
        return f"@arrowipc-{os.getpid()}-{os.urandom(6).hex()}"
    path = os.fsdecode(address) if isinstance(address, (str, bytes, os.PathLike)) else ""
    if not path or "\0" in path:
        raise UsageError(f"address: expected the path of a Unix socket, found {described(address)}")
    return path if path.startswith("@") else os.path.abspath(path)


def _check_options(transport: str, options: Mapping[str, Any]) -> None:
    check_names(f"transport_options: the transport {transport!r}", options, TRANSPORTS[transport].options)
    if transport == "file" and "path" not in options:
        found = ", ".join(sorted(options)) or "none"
        raise UsageError(
            'transport_options: "file" tells clients where bodies lie in one file, and needs its path '
            f'(transport_options={{"path": ...}}), found {found}'
        )


def listen(transport: str, address: Any, limits: Limits | None, **options: Any) -> Endpoint:
    """Begin to listen.

    Parameters
    ----------
    transport : {"tcp", "unix", "shm", "file", "ucx"}
    address : str, (str, int) or None
        Host and port, a path, or None: a free one of this machine.
    limits : Limits, optional
    **options
        Of the transport, see `TRANSPORTS`: those of `Arena` ("shm"), `FileMemory` or `listen_ucx`.

    Raises
    ------
    UsageError
        There is no such transport, or it has other options.
    OSError
        The address cannot be had.
    """
    check_choice("transport", transport, tuple(TRANSPORTS))
    _check_options(transport, options)
    return TRANSPORTS[transport].listen(transport, address, limits, **options)


def _listen_tcp(transport: str, address: Any, limits: Limits | None) -> Endpoint:
    from arrowipc.dissociated.transports.sockets import listen_tcp

    host, port = host_and_port(address)
    listener = listen_tcp(host, port, limits)
    return Endpoint(listener, "arrowipc+tcp", host, listener.port, "", None)


def _listen_unix(transport: str, address: Any, limits: Limits | None, **options: Any) -> Endpoint:
    from arrowipc.dissociated.transports.sockets import listen_unix

    path = _unix_path(address)
    memory = None
    if transport != "unix":
        from arrowipc.dissociated.transports.shared import OFFERED

        memory = OFFERED[transport](**options)
    # Memory is for our own user only; bytes are for whoever may open the socket.
    unix = listen_unix(path, limits, same_user=memory is not None)
    return Endpoint(unix, "arrowipc+unix", "", None, path if path.startswith("/") else "/" + path, memory)


def _listen_ucx(transport: str, address: Any, limits: Limits | None, **options: Any) -> Endpoint:
    from arrowipc.dissociated.transports.ucx import listen_ucx

    return listen_ucx(host_and_port(address), limits, **options)


#: By the scheme of a URI: what connects.
CONNECTORS: dict[str, Callable[..., tuple[Connection, PeerMemory | None]]] = {
    "arrowipc+tcp": _connect_tcp,
    "arrowipc+unix": _connect_unix,
    "ucx": _connect_ucx,
}
#: Those of the package.
SCHEMES = tuple(CONNECTORS)
#: By the name that a server knows.
TRANSPORTS: dict[str, Transport] = {
    "tcp": Transport(_listen_tcp),
    "unix": Transport(_listen_unix),
    "shm": Transport(_listen_unix, ("capacity", "segment_bytes", "least_bytes")),
    "file": Transport(_listen_unix, ("path",)),
    "ucx": Transport(_listen_ucx, ("error_mode", "memory", "least_bytes")),
}
