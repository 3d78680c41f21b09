"""Any bytes give values or an error of ours: parsers of Dissociated IPC, its order, both ends of a socket.

Numbers in names (`d090`) are those of the conformance checklist.
"""

import contextlib
import os
import random
import socket
import struct
import time

import pyarrow as pa
import pytest
from dissociated import peers
from helpers import arrays, drive
from helpers.memory import resident
from helpers.mutate import overwritten

from arrowipc import Limits, dissociated
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated import DissociatedUri
from arrowipc.dissociated.protocol import Incoming
from arrowipc.dissociated.served import MAKING
from arrowipc.errors import ArrowIpcError

SECONDS = peers.SECONDS
FEW = Limits(read_ahead=1 << 20, decompressed_bytes=64 << 20, dictionary_bytes=64 << 20)
#: Numbers that sums and comparisons stumble over.
EDGES = [*(0, 1, 7, 8, 24, 63, 64), *(2**n - 1 for n in (31, 32, 63, 64)), *(2**n for n in (15, 31, 32, 61, 62, 63))]


@pytest.fixture(autouse=True)
def _nothing_left():
    with peers.nothing_left():
        yield


KINDS = ("int32", "string", "bool", "struct", "map", "dictionary", "dense_union", "run_end_int32")
#: Streams with everything in them, small enough to hit every byte.
STREAMS = [
    *[peers.written(pa.table({"x": arrays.CASES[kind]})) for kind in KINDS],
    peers.written(peers.numbers(3, batches=4)),
    peers.written(peers.numbers(300, batches=2), compression="lz4"),
    peers.written_words(),
]


URIS = [
    "ucx://10.0.0.1:31337?want_data=18446741783881759408&free_data=7&remote_handle=AAEC%2Bw%3D%3D",
    "arrowipc+unix:///tmp/a%20b.sock?want_data=3&streams=meta",
    "arrowipc+tcp://[::1]:80?want_data=3&&a=b&streams=data#x",
]


@pytest.mark.parametrize("seed", range(2))
def test_d090_uris_give_values_that_survive_text_or_errors_of_ours(seed):
    chance = random.Random(seed)
    read = 0
    for _ in range(3000):
        data = overwritten(chance.choice(URIS).encode(), chance, 1)
        text = data.decode(chance.choice(["latin-1", "utf-8"]), "replace")
        with contextlib.suppress(ArrowIpcError):
            uri = DissociatedUri.parse(text)
            assert 0 <= uri.want_data < 2**64
            assert DissociatedUri.parse(str(uri)) == uri, text
            read += 1
    assert read > 300


@pytest.mark.parametrize("seed", range(3))
def test_d090_frames_in_any_order_and_damaged_ones(seed):
    chance = random.Random(seed)
    complete = 0
    for _ in range(250):
        first = chance.choice([0, 2**32 - 2])
        sent = peers.dissociated(chance.choice(STREAMS), first)
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(sent))
            tag, data = sent[at]
            match chance.randrange(5):
                case 0:
                    sent[at] = (tag, overwritten(data or bytes(8), chance))
                case 1:
                    sent[at] = (chance.choice(EDGES) if tag is not None else None, data)
                case 2:
                    del sent[at]
                case 3:
                    sent.insert(chance.randrange(len(sent)), (tag, data))
                case 4:
                    sent.append((chance.choice([None, *EDGES]), chance.randbytes(chance.randrange(30))))
        if chance.random() < 0.5:
            chance.shuffle(sent)
        with peers.numbered_from(first):
            incoming = Incoming(FEW, max_waiting=50, max_waiting_bytes=1 << 20)
        decoder = StreamDecoder(limits=FEW)
        try:
            for one in sent:
                for each in peers.take_in(incoming, [one]):
                    event = decoder.decode_next(message_of(each.metadata, each.body, FEW))
                    if hasattr(event, "batch"):
                        drive.use(event.batch)
            if not incoming.is_complete:
                incoming.lost("both")
                raise AssertionError("a stream that is not complete was not lost")
            complete += 1
        except ArrowIpcError:
            pass
    assert complete > 50


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


def test_any_argument_of_a_server_is_taken_or_named(tmp_path):
    streams = {"t": peers.numbers()}
    options = [*dissociated.Server.__init__.__kwdefaults__, *MAKING, "max_client", ""]
    calls = [((streams, transport, value), {}) for transport in ("tcp", "unix") for value in HOSTILE]
    calls += [((value,), {}) for value in HOSTILE] + [(({"t": value},), {}) for value in HOSTILE]
    calls += [((streams, value), {}) for value in HOSTILE]
    calls += [((streams,), {name: value}) for name in options for value in HOSTILE]
    calls += [((streams, "shm"), {"transport_options": {name: value}}) for name in ("capacity", 5) for value in HOSTILE]
    taken = 0
    with contextlib.chdir(tmp_path):  # some values are names of files
        for given, named in calls:
            try:
                server = dissociated.Server(*given, **named)
            except (ArrowIpcError, OSError):
                continue
            taken += 1
            server.close()
        assert os.listdir() == []
    assert len(calls) / 50 < taken < len(calls) / 4


@pytest.mark.parametrize("connect", [dissociated.connect, dissociated.Channel])
def test_any_argument_of_a_client_is_taken_or_named(connect):
    uri = "arrowipc+unix:///nobody/is/there?want_data=1"
    for value in HOSTILE:
        calls = [((value,), {}), (([value, value],), {})]
        calls += [((uri,), {name: value}) for name in ("limits", "timeout")]
        for given, named in calls:
            with contextlib.suppress(ArrowIpcError, OSError):
                connect(*given, **named).close()
        for part in ("scheme", "host", "port", "path", "want_data", "free_data", "remote_handle", "streams"):
            with contextlib.suppress(ArrowIpcError):
                made = DissociatedUri(**{"scheme": "ucx", "want_data": 1, part: value})
                assert DissociatedUri.parse(str(made)) == made
