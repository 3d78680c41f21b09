"""The transport of each URI scheme; each is imported when it is first needed."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_choice, check_names, described
from arrowipc.dissociated.connection import Endpoint
from arrowipc.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from arrowipc.dissociated.connection import Connection, PeerMemory
    from arrowipc.dissociated.uri import DissociatedUri
    from arrowipc.limits import Limits


#: The schemes of URIs.
SCHEMES = ("arrowipc+tcp", "arrowipc+unix", "ucx")
#: Transports of a server -> the names of their `transport_options`.
TRANSPORTS: dict[str, tuple[str, ...]] = {
    "tcp": (),
    "unix": (),
    "shm": ("capacity", "segment_bytes", "least_bytes"),
    "file": ("path", "least_bytes"),
    "ucx": ("error_mode", "memory", "least_bytes"),
}


def check_scheme(scheme: str) -> None:
    """Refuse a scheme for which there is no transport."""
    if scheme not in SCHEMES:
        raise UnsupportedError(f"no transport speaks {scheme[:40]!r}: expected one of {', '.join(SCHEMES)}")


def connect(uri: DissociatedUri, limits: Limits | None, timeout: float | None) -> tuple[Connection, PeerMemory | None]:
    """Connect to a server; return the connection and the access to the server's memory, or None."""
    check_scheme(uri.scheme)
    if uri.scheme == "ucx":
        from arrowipc.dissociated.transports.ucx import connect_ucx

        return connect_ucx(uri, limits, timeout)
    from arrowipc.dissociated.transports.shared import check_user, open_peer_memory
    from arrowipc.dissociated.transports.sockets import connect_tcp, connect_unix

    if uri.scheme == "arrowipc+tcp":
        if uri.port is None:
            raise UsageError(f"a TCP server has a port: {uri}")
        connection: Connection = connect_tcp(uri.host, uri.port, limits, timeout)
    else:
        path = uri.path.removeprefix("/") if uri.path.startswith("/@") else uri.path
        connection = connect_unix(path, limits, timeout)
    try:
        if uri.remote_handle is not None and uri.scheme == "arrowipc+unix":
            # Check this even before the server sends anything: another user may have bound the name first.
            check_user(connection)
        # Memory is not mapped or read before a body refers to it.
        return connection, open_peer_memory(uri.remote_handle, connection)
    except BaseException:
        connection.close()
        raise


def host_and_port(address: Any) -> tuple[str, int]:
    """Return host and port of an address; for None, a free port of this machine."""
    if address is None:
        return "127.0.0.1", 0
    pair = address
    if isinstance(address, str):
        # An IPv6 address needs brackets: otherwise it is unclear where the port begins.
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
    """Return the absolute path of a Unix socket; for None, a free abstract name."""
    if address is None:
        return f"@arrowipc-{os.getpid()}-{os.urandom(6).hex()}"
    path = os.fsdecode(address) if isinstance(address, (str, bytes, os.PathLike)) else ""
    if not path or "\0" in path:
        raise UsageError(f"address: expected the path of a Unix socket, found {described(address)}")
    return path if path.startswith("@") else os.path.abspath(path)


def listen(transport: str, address: Any, limits: Limits | None, **options: Any) -> Endpoint:
    """Begin to listen with a transport."""
    check_choice("transport", transport, tuple(TRANSPORTS))
    check_names(f"transport_options: the transport {transport!r}", options, TRANSPORTS[transport])
    if transport == "file" and "path" not in options:
        raise UsageError(
            '"file" tells clients where bodies lie in one file, and needs its path (transport_options={"path": ...})'
        )
    if transport == "ucx":
        from arrowipc.dissociated.transports.ucx import listen_ucx

        return listen_ucx(host_and_port(address), limits, **options)
    from arrowipc.dissociated.transports.sockets import listen_tcp, listen_unix

    if transport == "tcp":
        host, port = host_and_port(address)
        tcp = listen_tcp(host, port, limits)
        return Endpoint(tcp, "arrowipc+tcp", host, tcp.port, "", None)
    path, memory = _unix_path(address), None
    if transport != "unix":
        from arrowipc.dissociated.transports.shared import OFFERED

        memory = OFFERED[transport](**options)
    # Memory is shared only with clients of the same user; bytes are sent to every client that can open the socket.
    unix = listen_unix(path, limits, same_user=memory is not None)
    return Endpoint(unix, "arrowipc+unix", "", None, path if path.startswith("/") else "/" + path, memory)
