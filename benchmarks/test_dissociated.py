"""How fast do bodies get from one process to another, beside Flight's DoGet and plain sockets?

Each server is a process of its own (`measuring/bodies.py`). Bodies of 64 MiB: one stream of several, from the
connection to the last batch, in memory that nobody has used before; a plain socket's goes to memory that is used again
and again, or (fresh) to a new one. Bodies of 1 KiB: one that is asked for over a connection that stands, and a stream
of many; "connecting" opens one. Transports that this machine lacks skip.
"""

import contextlib
import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow.flight as fl
import pytest
from helpers import processes
from measuring.bodies import REQUEST
from measuring.race import Runs, question, size
from measuring.writes import warm

import arrowipc
from arrowipc import dissociated

BODY, MANY = size(1 << 26, 1 << 16), size(6, 2)
#: What UCX may use where it shares memory; seconds after which something is wrong.
SHARED, PATIENCE = "tcp,posix,sysv,cma", 60.0
#: Way of large bodies -> which of Flight's transports is beside it, what UCX may use, options of the transport.
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "unix": ("unix", "", {}),
    "ucx over shm that clients map": ("unix", SHARED, {"memory": 4 * BODY}),
    "shm": ("unix", "", {}),
    "tcp": ("tcp", "", {}),
    "ucx over tcp": ("tcp", "tcp", {}),
    "ucx over shm": ("unix", SHARED, {"error_mode": "none"}),
}


def require(transport: str) -> None:
    """Skip where this machine lacks a transport; files are read everywhere."""
    if transport == "file":
        return
    try:
        dissociated.Server({}, transport, None if transport != "unix" else f"{tempfile.mkdtemp()}/unix").close()
    except (arrowipc.ArrowIpcError, OSError) as error:
        pytest.skip(f"{transport}: {error}")


@contextlib.contextmanager
def started(kind: str, transport: str, size: int, lanes: str = "", **options: Any) -> Iterator[Any]:
    """Start a server in a process of its own; yields where it is."""
    environment = processes.environment() | ({"UCX_TLS": lanes} if lanes else {})
    with tempfile.TemporaryDirectory() as folder:
        given = ("-m", "measuring.bodies", kind, transport, size, folder, json.dumps(options))
        with processes.start(*given, env=environment, cwd=folder) as process:
            try:
                yield json.loads(process.stdout.readline())
            finally:  # the server ends when its input does
                process.stdin.close()
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()


# -- the clients: each reads `count` bodies and returns the rows that came --


def by_arrowipc(uri: str, count: int, validate: Any = "full") -> int:
    with dissociated.connect(uri, str(count), timeout=PATIENCE, validate=validate) as reader:
        return sum(map(len, reader))


def over(channel: Any, count: int) -> int:
    return sum(map(len, channel.read(str(count))))


def by_flight(client: Any, count: int) -> int:
    return sum(len(chunk.data) for chunk in client.do_get(fl.Ticket(str(count).encode())))


def connected(where: Any) -> socket.socket:
    unix = isinstance(where, str)
    sock = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    sock.connect(where if unix else tuple(where))
    if not unix:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def by_socket(sock: socket.socket, size: int, count: int, room: Callable[[], Any]) -> int:
    """Only move bytes, each body into what `room` returns."""
    sock.sendall(REQUEST.pack(count))
    for _ in range(count):
        view = memoryview(room())
        while len(view):
            view = view[sock.recv_into(view) :]
    return size // 8 * count


LARGE = "pyarrow, arrowipc, not validated, plain socket, plain socket fresh, memcpy"


@question("Dissociated IPC: bodies of 64 MiB, beside DoGet", LARGE, unit="batch", per=MANY)
@pytest.mark.parametrize("way", list(WAYS)[: size(6, 3)])
def test_large_bodies(way: str) -> Iterator[Runs]:
    (peer, lanes, options), transport = WAYS[way], way.partition(" ")[0]
    require(transport)
    with (
        pytest.MonkeyPatch.context() as patch,
        started("arrowipc", transport, BODY, lanes, **options) as ours,
        started("plain", peer, BODY) as plain,
        started("flight", peer, BODY) as theirs,
        connected(plain) as sock,
        fl.connect(theirs) as client,
    ):
        if lanes:
            patch.setenv("UCX_TLS", lanes)
        source, used = (np.frombuffer(warm(BODY), np.uint8) for _ in range(2))
        yield {
            "pyarrow": partial(by_flight, client, MANY),
            "arrowipc": partial(by_arrowipc, ours, MANY),
            "not validated": partial(by_arrowipc, ours, MANY, "none"),
            "plain socket": partial(by_socket, sock, BODY, MANY, lambda: used),
            "plain socket fresh": partial(by_socket, sock, BODY, MANY, lambda: np.empty(BODY, np.uint8)),
            "memcpy": lambda: [np.copyto(used, source) for _ in range(MANY)] and BODY // 8 * MANY,
        }


@contextlib.contextmanager
def small(transport: str, count: int, body: int = 1 << 10, columns: int = 1, table: bool = False) -> Iterator[Runs]:
    """Bodies of our batches, or of a table of pyarrow that has as many."""
    require(transport)
    peer = "tcp" if transport == "tcp" else "unix"
    with (
        started("arrowipc", transport, body // columns, columns=columns, count=count if table else 0) as ours,
        started("plain", peer, body) as plain,
        started("flight", peer, body // columns, columns=columns) as theirs,
        connected(plain) as sock,
        fl.connect(theirs) as client,
        dissociated.Channel(ours, timeout=PATIENCE) as channel,
    ):
        used = bytearray(body)
        yield {
            "pyarrow": partial(by_flight, client, count),
            "arrowipc": partial(over, channel, count),
            "connecting": partial(by_arrowipc, ours, count),
            "plain socket": lambda: by_socket(sock, body, count, lambda: used) // columns,
        }


SMALL = "pyarrow, arrowipc, connecting, plain socket"


@question("Dissociated IPC: bodies of 1 KiB, beside DoGet", SMALL, unit="batch", per="count")
@pytest.mark.parametrize("count", [1, size(2000, 20)])
@pytest.mark.parametrize("transport", ["unix", "tcp", "shm"][: size(3, 1)])
def test_small_bodies(transport: str, count: int) -> Runs:
    return small(transport, count)


#: Bytes of a body, columns, batches of a stream.
SHAPES = {
    "1 KiB": (1 << 10, 1, 2000),
    "16 KiB": (1 << 14, 1, 500),
    "1,000 columns x 100 rows": (800_000, 1000, 20),
    "1 MiB": (1 << 20, 1, 50),
    "100 MiB": (100 << 20, 1, 2),
}


@question("Dissociated IPC: a pyarrow table, beside DoGet", SMALL, unit="batch")
@pytest.mark.parametrize("shape", list(SHAPES)[: size(5, 1)])
@pytest.mark.parametrize("transport", ["unix", "file", "tcp", "shm"][: size(4, 2)])
def test_tables_of_pyarrow(transport: str, shape: str) -> Iterator[Any]:
    body, columns, count = SHAPES[shape]
    with small(transport, count, body, columns, table=True) as runs:
        yield runs, count
