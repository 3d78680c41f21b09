"""How fast do bodies get from one process to another, beside Flight's DoGet and plain sockets?

Each server is a process of its own. Measured in the client:

* 64 MiB bodies, per batch: one stream of several batches, from the connection to the last batch, as int64
  columns in memory that nobody has used before. "plain sockets" are ``sendall`` and ``recv_into`` of as many
  bytes, in one stretch of memory that is used again and again ("warm"), or a new one for each body ("fresh").
  "memcpy" copies as many bytes between warm memory of one process.
* Latency: a request for one body of 1 KiB, answered, over a connection that stands; "connecting" opens one.
* 1 KiB bodies, per batch: one stream of many; also the processor time of the client alone.
* 1,000 columns x 100 rows: the processor time of the server.
* shm: the bodies lie in shared memory and all messages have come before the clock starts; what counts is to
  make batches of them. They have 1 MiB each, because their size makes no difference then; the first pays for
  the map. A stream of 64 MiB bodies is measured like the others.

Transports that this machine lacks are left out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.flight as fl

import arrowipc
from arrowipc import dissociated
from arrowipc.dissociated import schemes
from arrowipc.dissociated.connection import Deadline, wait
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.protocol import Incoming
from arrowipc.read.framing import message_of
from benchmarks.bodies import REQUEST, processor_time
from benchmarks.harness import Case, Run, Scale
from benchmarks.writes import warm

TITLE = "bodies from process to process: arrowipc.dissociated, Flight, plain sockets"

BODY = 1 << 26
SMALL = 1 << 10
#: GiB/s of memcpy on the machine that the goals were set on; they count as parts of that.
MEMCPY = 21


class Way(NamedTuple):
    """How large bodies travel."""

    goal: int  #: GiB/s where memcpy has `MEMCPY`
    peer: str  #: which of Flight's transports is beside it
    lanes: str = ""  #: what UCX is allowed to use
    options: dict[str, Any] | None = None  #: of the transport


SHARED = "tcp,posix,sysv,cma"
WAYS = {
    "tcp": Way(3, "tcp"),
    "unix": Way(5, "unix"),
    "ucx over tcp": Way(4, "tcp", "tcp"),
    "ucx over shm": Way(10, "unix", SHARED, {"error_mode": "none"}),
    "ucx over shm that clients map": Way(10, "unix", SHARED, {"memory": 4 * BODY}),
}
#: Seconds after which something is wrong.
PATIENCE = 60.0


def there(transport: str) -> bool:
    """Say if this machine has a transport."""
    if transport in ("tcp", "unix"):
        return True
    module = "shared" if transport == "shm" else "ucx"
    if importlib.util.find_spec(f"arrowipc.dissociated.transports.{module}") is None:
        return False
    try:
        dissociated.Server({}, transport.partition(" ")[0]).close()
    except (arrowipc.ArrowIpcError, OSError):
        return False
    return True


@contextlib.contextmanager
def served(
    kind: str, transport: str, size: int, lanes: str = "", options: dict[str, Any] | None = None
) -> Iterator[Any]:
    """Start a server in a process of its own; returns where it is."""
    with started(kind, transport, size, lanes, options) as (where, _):
        yield where


@contextlib.contextmanager
def started(
    kind: str, transport: str, size: int, lanes: str = "", options: dict[str, Any] | None = None
) -> Iterator[tuple[Any, Callable[[], float]]]:
    """Start a server in a process of its own; returns where it is, and what tells its processor time."""
    script = str(Path(__file__).with_name("bodies.py"))
    run = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if lanes:
        environment["UCX_TLS"] = lanes
    with tempfile.TemporaryDirectory() as folder:
        given = [kind, transport, str(size), folder, json.dumps(options or {})]
        command = [sys.executable, "-c", run, script, *given]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=folder
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            told, answers = process.stdin, process.stdout

            def used() -> float:
                told.write(b"\n")
                told.flush()
                return float(answers.readline())

            try:
                yield json.loads(answers.readline()), used
            finally:
                process.stdin.close()
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()


# -- the clients: each reads `count` bodies and returns the rows that came --


def by_arrowipc(uri: str, count: int, validate: Any = "full") -> Run:
    """Return a client of ours."""

    def run() -> int:
        rows = 0
        with dissociated.connect(uri, str(count), timeout=PATIENCE, validate=validate) as reader:
            for batch in reader:
                rows += len(batch)
        return rows

    return run


def over(channel: Any, count: int) -> Run:
    """Return a client of ours, on a connection that is open."""

    def run() -> int:
        return sum(map(len, channel.read(str(count))))

    return run


def by_flight(client: Any, count: int) -> Run:
    """Return a client of pyarrow's, on a connection that is open."""

    def run() -> int:
        rows = 0
        for chunk in client.do_get(fl.Ticket(str(count).encode())):
            rows += len(chunk.data)
        return rows

    return run


def connected(where: Any) -> socket.socket:
    """Connect a plain socket."""
    if isinstance(where, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(where)
        return sock
    sock = socket.create_connection(tuple(where))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def by_socket(sock: socket.socket, size: int, count: int, room: Callable[[], Any]) -> Run:
    """Return a client that only moves bytes, each body into what `room` returns."""

    def run() -> int:
        sock.sendall(REQUEST.pack(count))
        for _ in range(count):
            view = memoryview(room())
            while len(view):
                view = view[sock.recv_into(view) :]
        return size // 8 * count

    return run


def copying(size: int, count: int) -> Run:
    """Return what copies as much in one process."""
    source, target = (np.frombuffer(warm(size), np.uint8) for _ in range(2))

    def run() -> int:
        for _ in range(count):
            np.copyto(target, source)
        return size // 8 * count

    return run


# -- the cases --


def cases(scale: Scale) -> Iterator[Case]:
    """Throughput, latency, small bodies; then the transports that need more than sockets."""
    body, count = scale.size(BODY, 1 << 16), scale.size(6, 2)
    tiny = scale.name == "tiny"  # the tests of each transport are elsewhere
    for transport in ("unix",) if tiny else ("tcp", "unix"):
        yield from throughput(transport, body, count)
        yield from small(transport, scale.size(2000, 20))
        yield from wide(transport, scale.size(100, 2))
    if there("shm"):
        yield from attached(scale.size(1 << 20, 1 << 16), scale.size(200, 2))
        yield from handed_over(body, count)
        if not tiny:
            yield from small("shm", scale.size(2000, 20))
    if there("ucx"):
        ways = [name for name in WAYS if name.startswith("ucx")]
        for name in ways[-1:] if tiny else ways:
            yield from throughput(name, body, count)


def throughput(name: str, body: int, count: int) -> Iterator[Case]:
    """Large bodies: beside memcpy and plain sockets, then beside Flight."""
    goal, peer, lanes, options = WAYS[name]
    words = f"{count} bodies of {body / (1 << 20):g} MiB"
    before = os.environ.get("UCX_TLS")
    if lanes:
        os.environ["UCX_TLS"] = lanes
    try:
        with (
            served("arrowipc", name.partition(" ")[0], body, lanes, options) as ours,
            served("plain", peer, body) as plain,
            served("flight", peer, body) as theirs,
            connected(plain) as sock,
            fl.connect(theirs) as client,
        ):
            used = warm(body)
            contenders = {
                "memcpy": copying(body, count),
                "arrowipc": by_arrowipc(ours, count),
                "arrowipc, not validated": by_arrowipc(ours, count, "none"),
                f"plain {peer} socket, warm": by_socket(sock, body, count, lambda: used),
                f"plain {peer} socket, fresh": by_socket(sock, body, count, lambda: np.empty(body, np.uint8)),
            }
            yield Case(
                f"{words} over {name}: at least {goal} GiB/s where memcpy has {MEMCPY}",
                "batch",
                count,
                contenders,
                goal=round(goal / MEMCPY, 2),
                touched=body * count,
                baseline="memcpy",
            )
            yield Case(
                f"{words} over {name}, beside DoGet over grpc+{peer}",
                "batch",
                count,
                {"pyarrow": by_flight(client, count), "arrowipc": contenders["arrowipc"]},
                goal=1,
                touched=body * count,
            )
    finally:
        if lanes:
            os.environ.pop("UCX_TLS")
            if before is not None:
                os.environ["UCX_TLS"] = before


def small(transport: str, count: int) -> Iterator[Case]:
    """Bodies of 1 KiB: one that is asked for, and a stream of many."""
    peer = "tcp" if transport == "tcp" else "unix"
    with (
        served("arrowipc", transport, SMALL) as ours,
        served("plain", peer, SMALL) as plain,
        served("flight", peer, SMALL) as theirs,
        connected(plain) as sock,
        fl.connect(theirs) as client,
        dissociated.Channel(ours, timeout=PATIENCE) as channel,
    ):
        used = bytearray(SMALL)
        for name, unit, wanted in (
            ("latency: one body of 1 KiB", "request", 1),
            (f"{count} bodies of 1 KiB", "batch", count),
        ):
            yield Case(
                f"{name} over {transport}, beside DoGet over grpc+{peer}",
                unit,
                wanted,
                {
                    "pyarrow": by_flight(client, wanted),
                    "arrowipc": over(channel, wanted),
                    "arrowipc, connecting": by_arrowipc(ours, wanted),
                    f"plain {peer} socket": by_socket(sock, SMALL, wanted, lambda: used),
                },
                goal=1,
            )
        clients = {"pyarrow": by_flight(client, count), "arrowipc": over(channel, count)}
        yield Case(
            f"{count} bodies of 1 KiB over {transport}: processor time of the client, at most 5 us",
            "batch",
            count,
            {name: spending(run, processor_time) for name, run in clients.items()},
            at_most=5e-6,
            timed=True,
        )


def spending(run: Run, used: Callable[[], float]) -> Run:
    """Return what does the same, and tells the processor time of it."""

    def spent() -> float:
        before = used()
        run()
        return used() - before

    return spent


def wide(transport: str, count: int) -> Iterator[Case]:
    """Many small columns: what a batch of them costs the server."""
    options = {"columns": 1000}
    with (
        started("arrowipc", transport, 800, "", options) as (ours, we_used),
        started("flight", transport, 800, "", options) as (theirs, they_used),
        fl.connect(theirs) as client,
        dissociated.Channel(ours, timeout=PATIENCE) as channel,
    ):
        yield Case(
            f"{count} batches of 1,000 columns x 100 rows over {transport}: server, processor time, at most 0.7 ms",
            "batch",
            count,
            {
                "pyarrow": spending(by_flight(client, count), they_used),
                "arrowipc": spending(over(channel, count), we_used),
            },
            at_most=0.7e-3,
            timed=True,
        )


def attached(body: int, count: int) -> Iterator[Case]:
    """Bodies in shared memory: what it takes to make batches of those that were told of."""
    with served("arrowipc", "shm", body) as ours:
        uri = dissociated.DissociatedUri.parse(ours)

        def attach() -> float:
            connection, memory = schemes.connect(uri, None, PATIENCE)
            incoming, decoder = Incoming(), arrowipc.StreamDecoder()
            connection.send(uri.want_data, [str(count).encode()])
            batches = []
            with connection, contextlib.closing(memory):
                while incoming.end is None:
                    wait([connection], Deadline(PATIENCE), "all of the stream")
                    connection.progress()
                    while (frame := connection.receive()) is not None:
                        if frame.tag is None:
                            incoming.receive_metadata(frame.data)
                        else:
                            if frame.handles:
                                memory.accept(frame.handles, frame.data)
                            incoming.receive_body(frame.tag, frame.data)
                decoder.decode_next(message_of(incoming.take().metadata))
                start = time.perf_counter()
                for arrival in incoming:
                    message = memory.message(arrival.metadata, Pairs(arrival.body), len, None)
                    batches.append(decoder.decode_next(message).batch)
                seconds = time.perf_counter() - start
                assert len(batches) == count
            return seconds

        copy = copying(body, count)

        def copied() -> float:
            start = time.perf_counter()
            copy()
            return time.perf_counter() - start

        words = f"{count} bodies of {body / (1 << 20):g} MiB"
        yield Case(
            f"{words} in shared memory: attached in at most 10 us each, beside memcpy",
            "batch",
            count,
            {"memcpy": copied, "arrowipc": attach},
            at_most=10e-6,
            timed=True,
            baseline="memcpy",
        )


def handed_over(body: int, count: int) -> Iterator[Case]:
    """Large bodies through shared memory, with all that the server does for it."""
    with (
        served("arrowipc", "shm", body) as ours,
        served("flight", "unix", body) as theirs,
        fl.connect(theirs) as client,
    ):
        words = f"{count} bodies of {body / (1 << 20):g} MiB"
        yield Case(
            f"{words} over shm, beside DoGet over grpc+unix",
            "batch",
            count,
            {"pyarrow": by_flight(client, count), "arrowipc": by_arrowipc(ours, count)},
            goal=1,
            touched=body * count,
        )
