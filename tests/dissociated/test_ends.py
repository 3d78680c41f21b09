"""Back-pressure, time limits, every way to leave: nothing hangs or stays behind; `d088` is one of the checklist."""

import contextlib
import itertools
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
from dissociated.peers import until

from arrowipc import dissociated
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.protocol import REASONS, REFUSED, Incoming, Reason
from arrowipc.dissociated.transports.sockets import HEADER, REFUSAL, connect_unix
from arrowipc.errors import FormatError, TruncatedError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
MIB = 1 << 20


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
            assert peers.settled(lambda: len(made)) <= 24 + (200 if way == "two" else 0)
            assert 1 + sum(1 for _ in reader) == 200
    assert sorted(made) == sorted([*range(200)] * (2 if way == "two" else 1))


# -- the table of ends: stage, way to end, transport ------------------------------------------------------------

#: What a server says: its greeting, the schema, metadata and bodies of three batches, the end.
THREE = peers.dissociated(peers.written(peers.numbers(3, batches=3)))
SENT = dict(zip(("S", "M1", "B1", "M2", "B2", "M3", "B3", "E"), THREE, strict=True))
FRAMES = {"H": peers.HELLO, **{word: peers.frame(*each) for word, each in SENT.items()}}
#: What the server has said by then ("-": without the last bytes of it), for what part of a stream the connection is
#: that ends, and what the client misses first; None: the schema.
STAGES = [
    ("", "both", None),
    ("H", "both", None),
    ("H S-", "both", None),
    ("H S", "both", "metadata of message 1"),
    ("H S M1", "both", "body of message 1"),
    ("H S M1 B1-", "both", "body of message 1"),
    ("H S M1 B1", "both", "metadata of message 2"),
    ("H S M2 B2", "both", "metadata of message 1"),
    ("H S M1 B2", "both", "body of message 1"),
    ("H", "metadata", None),
    ("H S", "metadata", "metadata of message 1"),
    ("H S M1 M3 E", "metadata", "metadata of message 2"),
    ("H S M1 B2", "data", "body of message 1"),
    ("H S M1 B1 M2", "data", "body of message 2"),
    ("H S M1 B1 M2 M3 E", "data", "body of message 2"),
]
WITH_ONE = [(said, missing) for said, over, missing in STAGES if over == "both"]
#: The words for what a server says before it goes.
WHY = {each: REASONS[each] for each in (Reason.FAILED, Reason.FULL, Reason.OTHER_USER)}
WHY[77] = "for reason 77, which this version does not know"
REFUSALS = {Reason.FULL: ConnectionRefusedError, Reason.OTHER_USER: PermissionError}
#: Nothing is said in the middle of a message.
ENDS = [(*stage, reason) for stage in STAGES for reason in (None, *WHY) if reason is None or stage[0][-1:].isalnum()]
WAITS_LONGER = r".* \(timeout= waits longer, None for ever\)"


@contextlib.contextmanager
def reading(said: str, over: str = "both") -> Iterator[tuple[socket.socket, Client]]:
    """The socket of the server whose connection will end, and a reader of its stream, which has not begun."""
    kinds = {"both": "HSMBE"} if over == "both" else {"metadata": "HSME", "data": "HB"}
    heard = {}
    with contextlib.ExitStack() as stack:
        for part, letters in kinds.items():
            data = b"".join(FRAMES[word.rstrip("-")] for word in said.split() if word[0] in letters)
            data = data[:-9] if said.endswith("-") else data
            heard[part] = stack.enter_context(peers.heard(data))
        reader = peers.stream_between(tuple(connection for _, connection in heard.values()))
        yield heard[over][0], stack.enter_context(contextlib.closing(reader))


def end(kind: str, said: str, over: str, reason: int | None, found: list[Any]) -> None:
    """End a connection, of `Incoming` alone or of a client; `found` gets the batches that came before."""
    if kind == "without a connection":
        incoming = Incoming()
        arrived = peers.take_in(incoming, [SENT[word] for word in said.split() if word in SENT])
        found += [each for each in arrived if each.body is not None]
        incoming.lost(over, reason)
        return
    with reading(said, over) as (raw, reader):
        if reason is not None:  # nothing behind it is read
            raw.sendall(HEADER.pack(REFUSAL, 0, 0, 0, reason, 0) + b"\xff" * 100)
        raw.shutdown(socket.SHUT_WR)
        found.extend(reader.begin(SECONDS))


@pytest.mark.parametrize("kind", ["without a connection", "over a socket"])
@pytest.mark.parametrize(("said", "over", "missing", "reason"), ENDS, ids=lambda each: getattr(each, "name", None))
def test_d070_an_end_says_what_is_missing_and_why(kind, said, over, missing, reason):
    error: type[Exception] = FormatError
    words = f"the server closed the connection without sending a schema: {WHY.get(reason, REFUSED)}"
    if missing is not None:
        why = "" if reason is None else f": the server ended it, {WHY[reason]}"
        error, words = TruncatedError, f"the connection was lost before the {missing} arrived{why}"
    elif reason in REFUSALS:
        error, words = REFUSALS[reason], f"the server closed the connection: {WHY[reason]}"
    found: list[Any] = []
    with pytest.raises(error, match=f"^{re.escape(words)}$"):
        end(kind, said, over, reason, found)
    assert len(found) == ("B1" in said.split())


def test_d070_a_lost_data_connection_is_no_loss_before_metadata_tells_but_may_be_a_refusal():
    incoming = Incoming()
    peers.take_in(incoming, [SENT["S"]])
    for reason, refused in REFUSALS.items():
        with pytest.raises(refused, match=re.escape(WHY[reason])):
            incoming.lost("data", reason)
    incoming.lost("data")
    peers.take_in(incoming, [peers.end(1)])
    incoming.lost("data")
    incoming.lost("both")


@pytest.mark.parametrize(("said", "missing"), WITH_ONE)
def test_a_silent_server_times_out_and_the_stream_goes_on_afterwards(said, missing):
    batches = []
    with reading(said) as (raw, reader):
        with pytest.raises(TimeoutError, match=r"waited 0.05 s for the peer to send message \d" + WAITS_LONGER):
            batches.extend(reader.begin(0.05))
        if missing is not None:  # else nobody has the reader
            rest = [FRAMES["B1"][-9:]] if said.endswith("-") else []
            raw.sendall(b"".join([*rest, *(FRAMES[word] for word in FRAMES if word not in said)]))
            batches.extend(reader)
            assert [each.num_rows for each in batches] == [3] * 3


@pytest.mark.parametrize("said", ["H S", "H S M1"])
def test_a_client_that_is_closed_by_another_thread_stops_waiting(said):
    with reading(said) as (_, reader):
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
@pytest.mark.parametrize(("family", "way"), [("tcp", "connect"), ("shm", "connect"), ("unix", "channel")])
def test_every_wait_for_a_silent_peer_ends_by_default(family, way, is_full, monkeypatch):
    options = (dissociated.connect if way == "connect" else dissociated.Channel.__init__).__kwdefaults__
    assert options["timeout"] == 60
    monkeypatch.setitem(options, "timeout", 0.05)
    words = r"waited 0.05 s for .* to send message 0"
    if is_full:
        words = "connecting to " + ("tcp .*timed out" if family == "tcp" else "unix .* to take another client")
    with silent(family, is_full) as uri, pytest.raises(TimeoutError, match=words + WAITS_LONGER):
        dissociated.connect(uri) if way == "connect" else dissociated.Channel(uri).read()


def test_a_peer_that_says_a_little_now_and_then_is_not_silent():
    whole = b"".join(FRAMES.values())

    def drip() -> None:
        for at in range(0, len(whole), 2):
            raw.sendall(whole[at : at + 2])
            time.sleep(0.002)

    with reading("") as (raw, reader), peers.beside(drip):
        assert len(whole) > 1000
        assert reader.begin(0.5).read_all().num_rows == 9


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


def test_a_server_may_be_closed_by_the_error_handler_that_is_told_of_a_client_too_many():
    closed = threading.Event()

    def on_error(error: BaseException) -> None:
        server.close()
        closed.set()

    server = dissociated.Server({"t": peers.numbers()}, "tcp", max_clients=1, idle_timeout=None, on_error=on_error)
    with dissociated.Channel(server.uri) as channel, peers.nothing_left(lambda: (server.num_clients,)):
        channel.read("t").read_all()
        with pytest.raises(OSError, match="as many clients as it may"):
            dissociated.connect(server.uri, "t", timeout=SECONDS)
        assert closed.wait(SECONDS)

        def is_gone() -> bool:  # when the thread that called `close` has ended; a client may come in before
            try:
                dissociated.connect(server.uri, "t", timeout=SECONDS)
            except (OSError, FormatError) as error:
                return isinstance(error, ConnectionRefusedError)
            pytest.fail("a server that was closed serves")

        peers.until(is_gone, "the server no longer listens")


def test_a_source_may_close_its_server_while_a_descriptor_waits_to_be_sent():
    closed, has_read = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def source() -> Iterator[pa.RecordBatch]:
        yield from itertools.islice(peers.endless(16 << 10), 600)  # more than a socket holds
        yield next(peers.endless())  # it lies in shared memory
        server.close()
        closed.set()
        has_read.wait(SECONDS)

    with dissociated.Server({"t": source}, "shm", on_error=errors.append) as server:
        uri = server.uri
        with connect_unix(uri.path.removeprefix("/")) as client:
            client.send(uri.want_data, [b"t"])
            assert closed.wait(SECONDS)
            while client.arrived < 2 << 20:
                client.progress()
                client.receive()
            has_read.set()
            until(lambda: server.num_clients == 0, "the session has ended")
    assert errors == []


# -- memory that is told of ----------------------------------------------------------------------------------


def test_type_1_without_a_way_to_the_memory_is_refused():
    parts = peers.parts_of(peers.written(peers.numbers()))
    with pytest.raises(FormatError, match=r"message 1: its body is said to lie in memory of the server.*remote_handle"):
        peers.read([peers.metadata(0, parts[0][1]), peers.metadata(1, parts[1][1]), peers.body(1, bytes(16), kind=1)])
