"""Any bytes and any arguments give values or an error of ours: servers and clients of Dissociated IPC.

The fuzzer tries its parsers and the order of its messages (targets `client`, `server`, `runs` and `uri`).
Numbers in names (`d090`) are those of the conformance checklist.
"""

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from helpers.memory import resident
from helpers.mutate import overwritten

from arrowipc import Limits, dissociated
from arrowipc.dissociated import DissociatedUri
from arrowipc.dissociated.served import MAKING
from arrowipc.errors import ArrowIpcError

SECONDS = peers.SECONDS
#: Numbers that sums and comparisons stumble over.
EDGES = [*(0, 1, 7, 8, 24, 63, 64), *(2**n - 1 for n in (31, 32, 63, 64)), *(2**n for n in (15, 31, 32, 61, 62, 63))]


@pytest.fixture(autouse=True)
def _nothing_left():
    with peers.nothing_left():
        yield


def send_all(raw: socket.socket, data: bytes, chance: random.Random, spare: int | None) -> None:
    """Send in pieces, here and there with file descriptors that nobody asked for; then go."""
    with raw, contextlib.suppress(OSError):
        at = 0
        while at < len(data):
            piece = data[at : at + chance.choice([1, 5, 24, 100, 5000])]
            if spare is not None and chance.random() < 0.2:
                socket.send_fds(raw, [piece], [spare] * chance.choice([1, 2, 16, 20, 40]))
            else:
                raw.sendall(piece)
            at += len(piece)


def client_bytes(chance: random.Random, want: int) -> list[bytes]:
    """What a hostile client says, in pieces."""
    tags = [want, want, *EDGES]
    frames = [
        peers.frame(chance.choice(tags), chance.choice([b"t", b"nope", chance.randbytes(40), b""])) for _ in range(5)
    ]
    match chance.randrange(4):
        case 0:
            return [chance.randbytes(chance.randrange(100))]
        case 1:
            return [peers.HELLO, chance.randbytes(chance.randrange(100))]
        case 2:
            return [peers.HELLO, overwritten(b"".join(frames), chance)]
    return [peers.HELLO, *frames, peers.frame(None, b"x")][: chance.randrange(1, 7)]


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_d090_a_server_survives_any_client(transport):
    chance = random.Random(90)
    table = peers.numbers(1000, batches=30)
    with dissociated.Server({"t": table}, transport) as server, open(os.devnull, "rb") as spare:
        for _ in range(150):
            raw = socket.socket(socket.AF_INET if transport == "tcp" else socket.AF_UNIX)
            raw.settimeout(SECONDS)
            uri = server.uri
            raw.connect((uri.host, uri.port) if transport == "tcp" else "\0" + uri.path.removeprefix("/@"))
            data = b"".join(client_bytes(chance, uri.want_data))
            if chance.random() < 0.3:
                with contextlib.suppress(OSError):
                    raw.recv(chance.choice([1, 100, 5000]))
            send_all(raw, data, chance, spare.fileno() if transport == "unix" else None)
        with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
            assert pa.table(reader.read_all()).equals(table)
        for _ in range(200):
            if server.num_clients == 0:
                break
            time.sleep(0.05)
        assert server.num_clients == 0
        assert set(peers.kinds(server)) <= {"FormatError", "LimitError", "OSError", "TimeoutError"}
        assert server.errors


@pytest.mark.nosanitize
def test_d090_claims_take_no_memory():
    """Lengths that are claimed, and bodies that never come, of connections that stay open."""
    before = resident()
    kept = []
    for length in (60 << 20, 1 << 30, 1 << 40, 1 << 46, (1 << 62) - 1) * 8:
        raw, other = peers.raw_pair()
        connection = peers.SocketConnection(other, "the peer")
        kept.append((raw, connection))
        raw.sendall(peers.HELLO + struct.pack("<BBHIQQ", 1, 0, 0, 0, 1, length) + bytes(1000))
        with contextlib.suppress(ArrowIpcError):
            connection.progress()
    grown = resident() - before
    for raw, connection in kept:
        raw.close()
        connection.close()
    assert grown < 128 << 20  # pages may be huge


def test_d090_a_client_cannot_make_the_server_keep_much():
    with dissociated.Server({"t": peers.numbers()}, "tcp") as server:
        uri = server.uri
        for tag, length in ((uri.want_data, 17 << 20), (uri.want_data, 2 << 20), (5, 1 << 40), (None, 1)):
            with socket.create_connection((uri.host, uri.port), SECONDS) as raw:
                raw.sendall(peers.HELLO + peers.frame(tag, b"")[:16] + struct.pack("<Q", length))
                with contextlib.suppress(OSError):
                    raw.sendall(bytes(min(length, 2 << 20)))
                with contextlib.suppress(OSError):
                    while raw.recv(1 << 16):
                        pass
    assert len(server.errors) == 4
    assert set(peers.kinds(server)) <= {"FormatError", "LimitError"}


HOSTILE = [
    *(5, -1, 0, 2**70, 1.5, float("nan"), True, "", "x", "\ud800", "a\0b", "1:2", b"", b"x", [], [5], (), {}, {5: 5}),
    *({"x": 5}, set(), object(), range(3), ..., Limits(), ("h", "1"), ["127.0.0.1", 0], int, "127.0.0.1:99999"),
]


STREAMS = {"t": peers.numbers()}
NOWHERE = "arrowipc+unix:///nobody/is/there?want_data=1"
#: What an argument is for -> a call with it.
CALLS: dict[str, Callable[[Any], Any]] = {
    "streams": dissociated.Server,
    "a stream": lambda value: dissociated.Server({"t": value}),
    "a transport": lambda value: dissociated.Server(STREAMS, value),
    "an address of tcp": lambda value: dissociated.Server(STREAMS, "tcp", value),
    "an address of unix": lambda value: dissociated.Server(STREAMS, "unix", value),
    **{
        f"{name or 'no name'} of a server": lambda value, name=name: dissociated.Server(STREAMS, **{name: value})
        for name in (*dissociated.Server.__init__.__kwdefaults__, *MAKING, "max_client", "")
    },
    "the capacity of an arena": lambda value: dissociated.Server(STREAMS, "shm", transport_options={"capacity": value}),
    "an option without a name": lambda value: dissociated.Server(STREAMS, "shm", transport_options={5: value}),
    "a URI": dissociated.connect,
    "a pair of URIs": lambda value: dissociated.connect([value, value]),
    "limits of a client": lambda value: dissociated.connect(NOWHERE, limits=value),
    "a timeout of a client": lambda value: dissociated.connect(NOWHERE, timeout=value),
    "a URI of a channel": dissociated.Channel,
    "a pair of URIs of a channel": lambda value: dissociated.Channel([value, value]),
    "limits of a channel": lambda value: dissociated.Channel(NOWHERE, limits=value),
    "a timeout of a channel": lambda value: dissociated.Channel(NOWHERE, timeout=value),
}


@pytest.mark.parametrize("call", CALLS)
def test_any_argument_is_taken_or_named(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some values are names of files
    for value in HOSTILE:
        with contextlib.suppress(ArrowIpcError, OSError):
            CALLS[call](value).close()
    assert os.listdir() == []


@pytest.mark.parametrize(
    "part", ["scheme", "host", "port", "path", *("want_data", "free_data", "remote_handle", "streams")]
)
def test_any_part_of_a_uri_is_named_or_survives_text(part):
    for value in HOSTILE:
        with contextlib.suppress(ArrowIpcError):
            made = DissociatedUri(**{"scheme": "ucx", "want_data": 1, part: value})
            assert DissociatedUri.parse(str(made)) == made
