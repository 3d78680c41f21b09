"""Back-pressure, time limits, every way to leave: nothing hangs or stays behind; `d088` is one of the checklist."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers

from arrowipc import dissociated
from arrowipc.dissociated.transports.sockets import connect_unix
from arrowipc.errors import FormatError, TruncatedError, UsageError

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


def settled(value, seconds: float = 0.1) -> int:
    """What a number is when it has stopped changing."""
    pause = threading.Event()
    before = -1
    while (now := value()) != before:
        before = now
        pause.wait(seconds)
    return now


# -- back-pressure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
@pytest.mark.parametrize("way", ["one", "two"])
def test_d088_a_slow_consumer_holds_the_server_back(transport, way):
    sources: list[Source] = []

    def make():
        sources.append(Source(200))
        return sources[-1]()

    memory = {"capacity": 4 * MIB, "segment_bytes": MIB} if transport == "shm" else {}
    with dissociated.Server({"t": make}, transport, max_held=32 * MIB, transport_options=memory) as server:
        uri = server.uri if way == "one" else server.uris
        with dissociated.connect(uri, "t", timeout=SECONDS) as reader:
            # What is in the sockets' buffers, what may wait for one client, and one message more. A metadata
            # connection carries no bodies, so it runs ahead.
            reader.read_next_batch()
            made = settled(lambda: sum(each.made for each in sources))
            assert made <= 24 + (200 if way == "two" else 0)
            assert 1 + sum(1 for _ in reader) == 200
    assert [each.made for each in sources] == [200] * len(sources)


# -- time limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "unix"])
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


SENT = [peers.HELLO, *(peers.frame(*each) for each in peers.dissociated(peers.written(peers.numbers())))]
#: What a peer says before it is silent.
SILENCES = {
    "connect": None,
    "first answer": b"",
    "schema": SENT[0],
    "in a schema": b"".join(SENT[:2])[:-9],
    "metadata": b"".join(SENT[:2]),
    "body": b"".join(SENT[:3]),
    "in a body": b"".join(SENT[:4])[:-9],
    "end": b"".join(SENT[:4]),
}


@contextlib.contextmanager
def saying(family: str, words: bytes | None, pause: float = 0) -> Iterator[str]:
    """The URI of a peer that says these words to each client, byte by byte with a pause; None: it takes nobody."""
    name = f"@arrowipc-test-{os.getpid()}"
    with peers.socket.socket(getattr(peers.socket, {"tcp": "AF_INET"}.get(family, "AF_UNIX"))) as listener:
        listener.bind(("127.0.0.1", 0) if family == "tcp" else "\0" + name[1:])
        listener.listen(0 if words is None else 8)
        place = f"tcp://127.0.0.1:{listener.getsockname()[1]}" if family == "tcp" else f"unix:///{name}"
        kept = []

        def say() -> None:
            with contextlib.suppress(OSError):  # the listener is closed, or the client
                while words is not None:
                    kept.append(listener.accept()[0])
                    for at in range(0, len(words), 1 if pause else 1 << 20):
                        kept[-1].sendall(words[at:][: 1 if pause else None])
                        time.sleep(pause)

        for _ in range(2 if words is None else 0):  # whose places nobody else gets
            kept.append(peers.socket.socket(listener.family))
            kept[-1].setblocking(False)
            kept[-1].connect_ex(listener.getsockname())
        with peers.beside(say):
            yield f"arrowipc+{place}?want_data=1" + "&remote_handle=bWVtZmQ%3D" * (family == "shm")
            listener.shutdown(peers.socket.SHUT_RDWR)
        for each in kept:
            each.close()


WAITING = {"connect": lambda uri: dissociated.connect(uri), "channel": lambda uri: dissociated.Channel(uri).read()}


@pytest.mark.parametrize("stage", SILENCES)
@pytest.mark.parametrize(
    ("family", "way"), [("tcp", "connect"), ("unix", "connect"), ("shm", "connect"), ("tcp", "channel")]
)
def test_every_wait_for_a_silent_peer_ends_by_default(family, way, stage, monkeypatch):
    options = (dissociated.connect if way == "connect" else dissociated.Channel.__init__).__kwdefaults__
    assert options["timeout"] == 60
    monkeypatch.setitem(options, "timeout", 0.05)
    said = "connecting to" if stage == "connect" else r"waited 0.05 s for .* to send message \d"
    with (
        saying(family, SILENCES[stage]) as uri,
        pytest.raises(TimeoutError, match=said + r".* \(timeout= waits longer, None for ever\)"),
    ):
        list(WAITING[way](uri))


def test_a_peer_that_says_a_little_now_and_then_is_not_silent():
    with saying("unix", b"".join(SENT), 0.001) as uri, dissociated.connect(uri, timeout=0.5) as reader:
        assert sum(map(len, SENT)) > 500
        assert reader.read_all().num_rows == 3


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


# -- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["tcp", "unix"])
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
            assert peers.read_from(str(server.uri)).num_rows == 3
            with pytest.raises(OSError, match="in use"):
                dissociated.Server({}, "unix", tmp_path / path)
        assert not (tmp_path / path).exists()


# -- memory that is told of ----------------------------------------------------------------------------------


def test_type_1_without_a_way_to_the_memory_is_refused():
    parts = peers.parts_of(peers.written(peers.numbers()))
    with pytest.raises(FormatError, match=r"message 1: its body is said to lie in memory of the server.*remote_handle"):
        peers.read([peers.metadata(0, parts[0][1]), peers.metadata(1, parts[1][1]), peers.body(1, bytes(16), kind=1)])
