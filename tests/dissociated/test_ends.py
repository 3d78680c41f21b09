"""Back-pressure, time limits, and every way in which one side may leave: nothing hangs, nothing stays behind.

Numbers in names (`d088`) are those of the conformance checklist.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.memory_transport import memory_pair

from arrowipc import dissociated
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.connection import Deadline, OfferedMemory, PeerMemory, Placed, wait
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Lease, write_pairs
from arrowipc.dissociated.protocol import free_data_body
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.transports.sockets import connect_unix
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import FormatError, TruncatedError, UsageError
from arrowipc.read.stream_decoder import StreamDecoder

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
MIB = 1 << 20


class Source:
    """Batches of 1 MiB, counted as they are made; `gate` holds back those from `stop` on."""

    def __init__(self, count: int, stop: int | None = None) -> None:
        self.count, self.stop = count, stop
        self.made = 0
        self.closed = threading.Event()
        self.gate = threading.Event()

    def __call__(self) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(self.count):
                if number == self.stop:
                    self.gate.wait(SECONDS)
                self.made += 1
                yield pa.record_batch([pa.array(np.full(MIB // 8, number))], ["x"])
        finally:
            self.closed.set()


def settled(value, seconds: float = 0.3) -> int:
    """What a number is when it has stopped changing."""
    pause = threading.Event()
    before = -1
    while (now := value()) != before:
        before = now
        pause.wait(seconds)
    return now


# -- back-pressure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "tcp", "unix"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_d088_a_slow_consumer_holds_the_server_back(transport, way):
    source = Source(200)
    sources: list[Source] = []

    def make():
        sources.append(Source(200))
        return sources[-1]()

    del source
    with dissociated.Server({"t": make}, transport, max_held=32 * MIB) as server:
        uri = server.uri if way == "one" else server.uris
        with dissociated.connect(uri, "t", timeout=SECONDS) as reader:
            # What is in the sockets' buffers, what may wait for one client, and one message more. A metadata
            # connection carries no bodies, so it runs ahead.
            reader.read_next_batch()
            made = settled(lambda: sum(each.made for each in sources))
            assert made <= 24 + (200 if way == "two" else 0)
            assert 1 + sum(1 for _ in reader) == 200
    assert [each.made for each in sources] == [200] * len(sources)


def test_the_metadata_connection_waits_for_the_bodies():
    """With a server of metadata that is always faster, a client keeps a bounded number of messages."""
    sent = peers.dissociated(peers.written(peers.numbers(1, batches=500)))
    (meta, meta_server), (data, data_server) = memory_pair(), memory_pair()
    stream = peers.stream_between((meta, data))
    stream._incoming.max_waiting = 100
    for tag, each in sent:
        (meta_server if tag is None else data_server).send(tag, [each])
    meta_server.close()
    with data_server, stream.begin(SECONDS) as reader:
        for _ in range(500):
            assert len(stream._incoming._metadata) <= 51
            assert reader.read_next_batch().num_rows == 1
        assert list(reader) == []


# -- time limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "tcp", "unix"])
def test_a_silent_server_times_out_and_the_stream_goes_on_afterwards(transport):
    source = Source(3, stop=1)
    with (
        dissociated.Server({"t": source}, transport) as server,
        dissociated.connect(server.uri, "t", timeout=SECONDS) as reader,
    ):
        assert reader.read_next_batch().num_rows == MIB // 8
        reader._timeout = 0.3
        with pytest.raises(TimeoutError, match=r"waited 0.3 s for .* to send message 2"):
            reader.read_next_batch()
        source.gate.set()
        reader._timeout = SECONDS
        assert len(list(reader)) == 2


def test_nobody_who_answers_is_a_time_out():
    with peers.socket.create_server(("127.0.0.1", 0)) as listener:
        uri = dissociated.DissociatedUri("arrowipc+tcp", "127.0.0.1", listener.getsockname()[1], want_data=1)
        with pytest.raises(TimeoutError, match=r"waited 0.2 s for tcp 127.0.0.1:\d+ to send message 0"):
            dissociated.connect(uri, timeout=0.2)


def test_a_queue_of_clients_that_is_full_is_waited_for():
    name = f"@arrowipc-test-{os.getpid()}"
    with peers.socket.socket(peers.socket.AF_UNIX) as listener:
        listener.bind("\0" + name[1:])
        listener.listen(0)
        first = connect_unix(name)
        with first, pytest.raises(TimeoutError, match=f"waited 0.2 s for unix {name} to take another client"):
            connect_unix(name, timeout=0.2)
        accepted, _ = listener.accept()
        accepted.close()
        connect_unix(name, timeout=SECONDS).close()


def test_nobody_who_listens_is_an_os_error():
    with peers.socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for text in (
        f"arrowipc+tcp://127.0.0.1:{port}",
        "arrowipc+unix:///nowhere/at/all",
        "arrowipc+memory:///none",
    ):
        with pytest.raises(OSError, match=r"refused|No such file|no server listens"):
            dissociated.connect(f"{text}?want_data=1", timeout=SECONDS)


# -- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "tcp", "unix"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_a_server_that_is_closed_truncates_what_is_being_read(transport, way):
    source = Source(50)
    with dissociated.Server({"t": source}, transport, max_held=16 * MIB) as server:
        reader = dissociated.connect(server.uri if way == "one" else server.uris, "t", timeout=SECONDS)
        reader.read_next_batch()
        server.close()
        server.close()
        with reader, pytest.raises(TruncatedError, match="the connection was lost before"):
            list(reader)
        with pytest.raises(UsageError, match="reader is closed"):
            reader.read_next_batch()
    assert server.num_clients == 0
    assert server.errors == []
    assert source.closed.is_set()
    with pytest.raises(OSError, match=r"refused|no server listens"):
        dissociated.connect(server.uri, "t", timeout=SECONDS)


@pytest.mark.parametrize("transport", ["memory", "tcp", "unix"])
def test_a_server_is_closed_while_a_client_waits(transport):
    source = Source(3, stop=1)
    with (
        dissociated.Server({"t": source}, transport) as server,
        dissociated.connect(server.uri, "t", timeout=SECONDS) as reader,
    ):
        reader.read_next_batch()

        def close() -> None:
            threading.Timer(0.2, source.gate.set).start()
            server.close()

        with peers.beside(close), pytest.raises(TruncatedError):
            list(reader)


@pytest.mark.parametrize("transport", ["memory", "tcp", "unix"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_a_client_may_leave_at_any_time_and_nobody_minds(transport, way):
    source = Source(500)
    with dissociated.Server({"t": source}, transport, max_held=16 * MIB) as server:
        for batches in (0, 1, 3):
            source.closed.clear()
            with dissociated.connect(server.uri if way == "one" else server.uris, "t", timeout=SECONDS) as reader:
                kept = [reader.read_next_batch() for _ in range(batches)]
            assert source.closed.wait(SECONDS)
            assert [batch.column(0)[5] for batch in kept] == list(range(batches))
        assert settled(lambda: server.num_clients) == 0
    assert server.errors == []


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_client_that_is_closed_by_another_thread_stops_waiting(family):
    tag, schema = peers.dissociated(peers.written(peers.numbers()))[0]
    client, server = peers.socket_pair(family)
    with server:
        server.send(tag, [schema])
        reader = peers.client_of((client,), timeout=None)

        def read() -> None:
            with pytest.raises((TruncatedError, UsageError)):
                reader.read_next_batch()

        with peers.beside(read):
            threading.Event().wait(0.2)
            reader.close()


def test_too_many_clients_are_sent_away():
    with dissociated.Server({"t": peers.numbers()}, "tcp", max_clients=2) as server:
        with (
            dissociated.connect(server.uri, "t", timeout=SECONDS),
            dissociated.connect(server.uri, "t", timeout=SECONDS),
            pytest.raises((FormatError, OSError)),
        ):
            dissociated.connect(server.uri, "t", timeout=SECONDS)
        assert settled(lambda: server.num_clients) == 0
        dissociated.connect(server.uri, "t", timeout=SECONDS).close()
    assert [words.partition(" was ")[2] for _, words in peers.said(server)] == [
        "sent away: 2 clients are served (max_clients=)"
    ]


def test_a_server_may_be_closed_by_its_error_handler():
    closed = threading.Event()

    def on_error(error: BaseException) -> None:
        server.close()
        closed.set()

    with dissociated.Server({"t": lambda: 1 / 0}, "tcp", on_error=on_error) as server:
        with pytest.raises(FormatError, match="without sending a schema"):
            dissociated.connect(server.uri, "t", timeout=SECONDS)
        assert closed.wait(SECONDS)


def test_a_unix_socket_has_a_path_that_goes_away(tmp_path, monkeypatch):
    for path in (tmp_path / "a b?#%é.sock", "here.sock"):
        monkeypatch.chdir(tmp_path)
        with dissociated.Server({"t": peers.numbers()}, "unix", path) as server:
            assert (tmp_path / path).is_socket()
            monkeypatch.chdir("/")
            with dissociated.connect(str(server.uri), "t", timeout=SECONDS) as reader:
                assert reader.read_all().num_rows == 3
            with pytest.raises(OSError, match="in use"):
                dissociated.Server({}, "unix", tmp_path / path)
        assert not (tmp_path / path).exists()


def test_a_server_on_ipv6():
    if not peers.socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        server = dissociated.Server({"t": peers.numbers()}, "tcp", ("::1", 0))
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with server:
        assert str(server.uri).startswith(f"arrowipc+tcp://[::1]:{server.uri.port}?")
        with dissociated.connect(str(server.uri), "t", timeout=SECONDS) as reader:
            assert reader.read_all().num_rows == 3


# -- memory that is told of ----------------------------------------------------------------------------------


class Arena(OfferedMemory):
    """Memory that both ends have because they are one process; bodies lie one behind the other."""

    def __init__(self, room: int = MIB) -> None:
        self.memory = bytearray(room)
        self.at = 64
        self.granted: list[int] = []
        self.released: list[int] = []
        self.abandoned: list[int] = []

    def place(self, message, connection):
        if self.at + message.body_length > len(self.memory):
            return None
        address, self.at = self.at, self.at + message.body_length
        message.copy_body_into(memoryview(self.memory)[address:])
        pairs = write_pairs(message, address)
        addresses = [a for (a, n) in zip(*[iter(np.frombuffer(pairs, "<u8")[2:].tolist())] * 2, strict=True) if n]
        self.granted += addresses
        return Placed(pairs, addresses)

    def release(self, addresses) -> None:
        self.released += addresses

    def abandon(self, addresses) -> None:
        self.abandoned += addresses


class Shared(PeerMemory):
    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    def message(self, metadata, pairs, returned, limits, reads=None):
        lease = Lease(memoryview(self.arena.memory), returned, pairs.addresses)
        return pairs.message(metadata, lease, 0, limits)


def leasing(
    family: str, free_data: int | None, arena: Arena, table: pa.Table
) -> tuple[Client, threading.Thread, Session]:
    """A client and a session that share an arena."""
    near, far = peers.socket_pair(family)
    want = new_tag()
    session = Session(far, lambda ident: table, Roles({want: "both"}, free_data), arena)
    near.send(want, [b""])

    def run() -> None:
        try:
            while (more := session.step()) is not None:
                if not more:
                    wait([far], Deadline(SECONDS), "the client")
        except ConnectionError:
            pass
        finally:
            session.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    stream = Client(Link(near, near, Shared(arena), free_data), StreamDecoder())
    return stream.begin(SECONDS), thread, session


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_d072_d073_d076_d077_d078_d079_leases_end_with_the_last_reader_and_come_back_bit_exactly(family):
    table, arena = peers.numbers(100, batches=20), Arena()
    reader, thread, session = leasing(family, new_tag(), arena, table)
    batches = list(reader)
    assert arena.released == []
    assert len(session.leases) == len(arena.granted) > 20
    slices = [batch.column(0).slice(50, 1) for batch in batches]
    values = [each.to_pylist()[0] for each in slices]
    del batches
    assert settled(lambda: len(arena.released), 0.1) == 0
    reader.close()
    assert thread.is_alive()
    assert [each.to_pylist()[0] for each in slices] == values == [100 * i + 50 for i in range(20)]
    del slices
    thread.join(SECONDS)
    assert sorted(arena.released) == sorted(arena.granted)
    assert arena.abandoned == []
    assert (session.leases.unknown, session.ignored) == (0, 0)


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_d012_without_free_data_nothing_is_sent_back(family):
    arena = Arena()
    reader, thread, session = leasing(family, None, arena, peers.numbers(100, batches=3))
    # A session without a free_data tag never tells of memory.
    assert reader.read_all().num_rows == 300
    assert arena.granted == []
    reader.close()
    thread.join(SECONDS)
    assert session.ignored == 0
    near, far = memory_pair()
    table = peers.parts_of(peers.written(peers.numbers()))
    arena.memory[64 : 64 + len(table[1][2])] = table[1][2]
    told = [(64 + 0, len(table[1][2]))]
    data = np.array([told[0][1], 1, *told[0]], "<u8").tobytes()
    for each in (
        peers.metadata(0, table[0][1]),
        peers.metadata(1, table[1][1]),
        peers.body(1, data, kind=1),
        peers.end(2),
    ):
        far.send(each[0], [each[1]])
    with Client(Link(near, near, Shared(arena)), StreamDecoder()).begin(SECONDS) as reader:
        assert reader.read_all().to_pydict() == peers.numbers().to_pydict()
    far.progress()
    assert far.receive() is None
    assert far.at_end
    far.close()


def test_d055_d089_a_full_arena_sends_bodies_among_those_it_tells_of():
    table, arena = peers.numbers(100, batches=20), Arena(5000)
    reader, thread, _ = leasing("unix", new_tag(), arena, table)
    assert pa.table(reader.read_all()).equals(table)
    assert 0 < len(arena.granted) < 60
    reader.close()
    thread.join(SECONDS)


def test_d084_d086_leases_of_a_client_that_leaves_are_abandoned_not_released():
    table, arena = peers.numbers(100, batches=4), Arena()
    reader, thread, _session = leasing("unix", new_tag(), arena, table)
    batches = list(reader)
    reader.connections[0].close()
    thread.join(SECONDS)
    assert sorted(arena.abandoned) == sorted(arena.granted)
    assert arena.released == []
    assert batches[3].column(0)[0] == 300
    reader.close()


def test_d086_leases_end_whichever_message_the_client_does_not_get_any_more(monkeypatch):
    table = peers.numbers(100, batches=4)
    for sent in range(12):
        arena, left = Arena(), itertools.count(-sent)
        near, far = memory_pair()
        want = new_tag()
        session = Session(far, lambda ident: table, Roles({want: "both"}, new_tag()), arena)
        near.send(want, [b""])
        send = far.send

        def failing(*arguments, left=left, send=send):
            if next(left) >= 0:
                raise ConnectionResetError("the client was killed")
            send(*arguments)

        monkeypatch.setattr(far, "send", failing)
        with contextlib.suppress(ConnectionResetError):
            while session.step():
                pass
        session.close()
        near.close()
        assert sorted(arena.abandoned) == sorted(arena.granted), sent
    assert len(arena.granted) > 8  # all batches were placed, in the last round


def test_d080_d082_memory_comes_back_during_the_stream_and_from_nobody_else():
    table, arena = peers.numbers(100, batches=4), Arena()
    tag = new_tag()
    reader, thread, session = leasing("tcp", tag, arena, table)
    connection = reader.connections[0]
    with connection.lock:
        connection.send(tag, [free_data_body([3, 5, 2**64 - 1])])
    count = sum(1 for _ in reader)
    assert (count, settled(lambda: len(arena.released), 0.1)) == (4, len(arena.granted))
    assert session.leases.unknown == 3
    reader.close()
    thread.join(SECONDS)


def test_type_1_without_a_way_to_the_memory_is_refused():
    parts = peers.parts_of(peers.written(peers.numbers()))
    with pytest.raises(FormatError, match=r"message 1: its body is said to lie in memory of the server.*remote_handle"):
        peers.read([peers.metadata(0, parts[0][1]), peers.metadata(1, parts[1][1]), peers.body(1, bytes(16), kind=1)])


def test_after_an_error_no_lease_keeps_the_connection():
    table, arena = peers.numbers(100, batches=4), Arena()
    reader, thread, _ = leasing("unix", new_tag(), arena, table)
    kept = reader.read_next_batch()
    reader._incoming.receive_metadata = lambda data: (_ for _ in ()).throw(FormatError("torn"))
    with pytest.raises((FormatError, UsageError)):
        list(reader)
    reader.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert kept.column(0)[99] == 99


# -- processes -----------------------------------------------------------------------------------------------

SERVE = """
import sys, numpy as np, pyarrow as pa
from arrowipc import dissociated
from dissociated import peers

def endless():
    number = 0
    while True:
        yield pa.record_batch([pa.array(np.full(1 << 17, number))], ["x"])
        number += 1

streams = {"numbers": peers.numbers(1000, 50), "words": lambda: iter(peers.words()), "endless": endless}
with dissociated.Server(streams, sys.argv[1]) as server:
    print(server.uri, *server.uris, flush=True)
    sys.stdin.read()
assert not server.errors, server.errors
"""


def process(*arguments: str) -> subprocess.Popen:
    path = os.pathsep.join([*sys.path])
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_d017_d061_d064_streams_between_processes(transport):
    with process("-c", SERVE, transport) as server:
        uri, *uris = server.stdout.readline().split()
        for way in (uri, uris):
            with dissociated.connect(way, "numbers", timeout=SECONDS) as reader:
                assert pa.table(reader.read_all()).equals(peers.numbers(1000, batches=50))
            with dissociated.connect(way, "words", timeout=SECONDS) as reader:
                assert [batch.to_pydict() for batch in reader] == [batch.to_pydict() for batch in peers.words()]
        with dissociated.connect(uris, "endless", timeout=SECONDS) as reader:
            assert [reader.read_next_batch().column(0)[7] for _ in range(20)] == list(range(20))
        server.stdin.close()
        assert server.wait(SECONDS) == 0


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_d070_d087_a_killed_server_truncates_the_stream(transport, way):
    with process("-c", SERVE, transport) as server:
        uri, *uris = server.stdout.readline().split()
        with dissociated.connect(uri if way == "one" else uris, "endless", timeout=SECONDS) as reader:
            kept = [reader.read_next_batch() for _ in range(3)]
            server.send_signal(signal.SIGKILL)
            server.wait(SECONDS)
            with pytest.raises(TruncatedError, match=r"before the (metadata|body) of message \d+ arrived"):
                for _ in reader:
                    pass
        assert [batch.column(0)[0] for batch in kept] == [0, 1, 2]


CLIENT = """
import sys
from arrowipc import dissociated
reader = dissociated.connect(sys.argv[1], "t")
reader.read_next_batch()
print("reads", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_d085_a_killed_client_ends_its_session(transport):
    source = Source(1000)
    with dissociated.Server({"t": source}, transport, max_held=16 * MIB) as server:
        with process("-c", CLIENT, str(server.uri)) as client:
            assert client.stdout.readline() == "reads\n"
            assert server.num_clients == 1
            client.kill()
            assert source.closed.wait(SECONDS)
        assert settled(lambda: server.num_clients) == 0
    assert server.errors == []
