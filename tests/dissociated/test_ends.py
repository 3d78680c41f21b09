"""Back-pressure, time limits, every way to leave: nothing hangs or stays behind; `d088` is one of the checklist."""

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers

from arrowipc import dissociated
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.protocol import REASONS, REFUSED, Reason
from arrowipc.dissociated.transports.sockets import HEADER, REFUSAL, connect_unix
from arrowipc.errors import FormatError, TruncatedError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
FAMILIES = ("tcp", "unix")
MIB = 1 << 20


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
    made: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for number, batch in zip(range(200), peers.endless(), strict=False):
            made.append(number)
            yield batch

    memory = {"capacity": 4 * MIB, "segment_bytes": MIB} if transport == "shm" else {}
    with dissociated.Server({"t": source}, transport, max_held=32 * MIB, transport_options=memory) as server:
        uri = server.uri if way == "one" else server.uris
        with dissociated.connect(uri, "t", timeout=SECONDS) as reader:
            # What is in the sockets' buffers, what may wait for one client, and one message more. A metadata
            # connection carries no bodies, so it runs ahead.
            reader.read_next_batch()
            assert settled(lambda: len(made)) <= 24 + (200 if way == "two" else 0)
            assert 1 + sum(1 for _ in reader) == 200
    assert sorted(made) == sorted([*range(200)] * (2 if way == "two" else 1))


# -- time limits, and streams that end early -----------------------------------------------------------------

#: What a server says: its greeting, the schema, metadata and body of a batch, the end.
SAID = [peers.HELLO, *(peers.frame(*each) for each in peers.dissociated(peers.written(peers.numbers())))]
WHOLE = b"".join(SAID)
#: Stage -> what the server has said by then, and what is missing next; before the schema, the stream is unknown.
STAGES = {
    "first answer": (b"", None),
    "schema": (SAID[0], None),
    "in a schema": (b"".join(SAID[:2])[:-9], None),
    "metadata": (b"".join(SAID[:2]), "metadata of message 1"),
    "body": (b"".join(SAID[:3]), "body of message 1"),
    "in a body": (b"".join(SAID[:4])[:-9], "body of message 1"),
    "end": (b"".join(SAID[:4]), "metadata of message 2"),
}
WAITS_LONGER = r".* \(timeout= waits longer, None for ever\)"


@contextlib.contextmanager
def heard(family: str, stage: str) -> Iterator[tuple[Any, Client]]:
    """The socket of a server that has said so much, and a reader of its stream, which has not begun."""
    with (
        peers.heard(STAGES[stage][0], family=family) as (raw, connection),
        contextlib.closing(peers.stream_between((connection,))) as reader,
    ):
        yield raw, reader


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_silent_server_times_out_and_the_stream_goes_on_afterwards(family, stage):
    batches = []
    with heard(family, stage) as (raw, reader):
        with pytest.raises(TimeoutError, match=r"waited 0.05 s for the peer to send message \d" + WAITS_LONGER):
            batches.extend(reader.begin(0.05))
        if STAGES[stage][1] is not None:  # else nobody has the reader
            raw.sendall(WHOLE[len(STAGES[stage][0]) :])
            batches.extend(reader)
            assert [each.num_rows for each in batches] == [3]


#: What the server says before it goes, if it says anything, and the words for that.
REASONS_GIVEN = {Reason.FAILED: REASONS[Reason.FAILED], 77: "for reason 77, which this version does not know"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("stage", "reason"),
    [(each, None) for each in STAGES]
    + [(each, reason) for each in ("schema", "metadata", "body", "end") for reason in REASONS_GIVEN],
)
def test_d070_a_server_that_ends_a_stream_early_says_why_and_the_client_what_is_missing(family, stage, reason):
    missing = STAGES[stage][1]
    if missing is None:
        error, why = FormatError, REASONS_GIVEN.get(reason, REFUSED)
        words = f"the server closed the connection without sending a schema: {why}"
    else:
        error, why = TruncatedError, f": the server ended it, {REASONS_GIVEN[reason]}" if reason else ""
        words = f"the connection was lost before the {missing} arrived{why}"
    with heard(family, stage) as (raw, reader):
        if reason is not None:
            raw.sendall(HEADER.pack(REFUSAL, 0, 0, 0, reason, 0))
        raw.shutdown(socket.SHUT_WR)
        batches: list[Any] = []
        with pytest.raises(error, match=f"^{re.escape(words)}$"):
            batches.extend(reader.begin(SECONDS))
    assert len(batches) == (stage == "end")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stage", [name for name, (_, missing) in STAGES.items() if missing is not None])
def test_a_client_that_is_closed_by_another_thread_stops_waiting(family, stage):
    with heard(family, stage) as (_, reader):
        reader.begin(None)

        def read() -> None:
            with pytest.raises((TruncatedError, UsageError)):
                list(reader)

        with peers.beside(read):
            time.sleep(0.1)
            reader.close()


@contextlib.contextmanager
def silent(family: str, is_full: bool) -> Iterator[str]:
    """The URI of a peer that says nothing; one that is full takes nobody."""
    name = f"@arrowipc-test-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        kind = socket.AF_INET if family == "tcp" else socket.AF_UNIX
        listener = stack.enter_context(socket.socket(kind))
        listener.bind(("127.0.0.1", 0) if family == "tcp" else "\0" + name[1:])
        listener.listen(0 if is_full else 8)
        for _ in range(2 if is_full else 0):  # whose places nobody else gets
            other = stack.enter_context(socket.socket(listener.family))
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        place = f"tcp://127.0.0.1:{listener.getsockname()[1]}" if family == "tcp" else f"unix:///{name}"
        yield f"arrowipc+{place}?want_data=1" + "&remote_handle=bWVtZmQ%3D" * (family == "shm")


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize(
    ("family", "way"), [("tcp", "connect"), ("unix", "connect"), ("shm", "connect"), ("tcp", "channel")]
)
def test_every_wait_for_a_silent_peer_ends_by_default(family, way, is_full, monkeypatch):
    options = (dissociated.connect if way == "connect" else dissociated.Channel.__init__).__kwdefaults__
    assert options["timeout"] == 60
    monkeypatch.setitem(options, "timeout", 0.05)
    words = "connecting to" if is_full else r"waited 0.05 s for .* to send message 0"
    with silent(family, is_full) as uri, pytest.raises(TimeoutError, match=words + WAITS_LONGER):
        dissociated.connect(uri) if way == "connect" else dissociated.Channel(uri).read()


def test_a_peer_that_says_a_little_now_and_then_is_not_silent():
    def drip() -> None:
        for each in WHOLE:
            raw.sendall(bytes([each]))
            time.sleep(0.002)

    with heard("unix", "first answer") as (raw, reader), peers.beside(drip):
        assert len(WHOLE) > 500
        assert reader.begin(0.5).read_all().num_rows == 3


def test_a_queue_of_clients_that_is_full_is_waited_for():
    name = f"@arrowipc-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
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
    closed = threading.Event()

    def source() -> Iterator[pa.RecordBatch]:
        try:
            yield from peers.endless()
        finally:
            closed.set()

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
    assert closed.is_set()
    with pytest.raises(OSError, match=r"refused|no server listens"):
        dissociated.connect(server.uri, "t", timeout=SECONDS)


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
        assert not (tmp_path / path).exists()


# -- memory that is told of ----------------------------------------------------------------------------------


def test_type_1_without_a_way_to_the_memory_is_refused():
    parts = peers.parts_of(peers.written(peers.numbers()))
    with pytest.raises(FormatError, match=r"message 1: its body is said to lie in memory of the server.*remote_handle"):
        peers.read([peers.metadata(0, parts[0][1]), peers.metadata(1, parts[1][1]), peers.body(1, bytes(16), kind=1)])
