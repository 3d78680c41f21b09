"""What clients can make a server keep, and for how long: requests, data that nobody takes, errors, silence."""

import contextlib
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.peers import connected, until
from dissociated.ucx_libraries import needs_ucx, over_ucx
from helpers.memory import resident
from helpers.processes import in_threads

from arrowipc import dissociated
from arrowipc.dissociated.protocol import Reason, free_data_body
from arrowipc.dissociated.uri import new_tag

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
KIB, MIB = 1 << 10, 1 << 20


def small() -> Iterator[pa.RecordBatch]:
    return peers.endless(64 * KIB)


SOCKETS = ("tcp", "shm")
#: Bytes of a message of `small`, with its metadata.
SMALL = 65 * KIB


def held(server: Any) -> int:
    return sum(each.held for each in list(server._sessions))


@contextlib.contextmanager
def crowd(count: int, source: Any, transport: str, *idents: bytes, **options: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A server of one stream, and so many clients that have asked for these."""
    with dissociated.Server({"t": source}, transport, **options) as server, contextlib.ExitStack() as stack:
        yield server, [stack.enter_context(connected(server, *idents)) for _ in range(count)]


# -- errors --------------------------------------------------------------------------------------------------


class Large:
    """Memory that a source had when it failed."""


def test_of_sessions_that_failed_only_the_last_errors_are_kept_and_say_where_they_were_raised():
    made: list[weakref.ref[Large]] = []

    def find(name: bytes):
        loaded = Large()
        made.append(weakref.ref(loaded))
        raise KeyError("x" * 10_000 if len(made) == 50 else len(made))

    with dissociated.Server(find, "unix") as server:
        for _ in range(110):
            with contextlib.suppress(ValueError, OSError):
                dissociated.connect(server.uri, "t", timeout=SECONDS)
            until(lambda: server.num_clients == 0, "the errors of two clients come in any order")
        peers.until_collected(lambda: not any(each() for each in made), "what they loaded is gone")
        long = peers.said(server)[39][1]
        assert peers.said(server) == [("KeyError", long if n == 50 else str(n)) for n in range(11, 111)]
        assert long.startswith("'xxx")
        assert len(server.errors[39]) == 4000
        assert {type(each) for each in server.errors} == {str}
        assert 'test_bounds.py", line' in server.errors[0]
        assert "in find" in server.errors[0]


def test_a_handler_of_errors_that_fails_does_not_keep_the_server_alive(monkeypatch):
    heard: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda about: heard.append(str(about.exc_value)))

    def fail(error: BaseException) -> None:
        raise ValueError("the handler failed")

    server = dissociated.Server({"t": peers.numbers()}, "tcp", max_clients=1, on_error=fail)
    gone = weakref.ref(server)
    first = dissociated.connect(server.uri, "t", timeout=SECONDS)
    with pytest.raises(ConnectionRefusedError):
        dissociated.connect(server.uri, "t", timeout=SECONDS)
    first.close()
    until(lambda: heard and server.num_clients == 0, "it was called, and nobody is there")
    assert heard == ["the handler failed"]
    server = None
    peers.until_collected(lambda: gone() is None, "the server ends with its last reference")


# -- requests ------------------------------------------------------------------------------------------------


@pytest.mark.nosanitize  # measured memory
def test_requests_that_wait_have_one_limit_for_all_clients():
    """64 clients ask for 64 streams each, by names of 64 KiB: 256 MiB, of which 16 may wait beside as many of data."""
    with crowd(64, small, "tcp", b"t", max_held=16 * MIB, max_clients=64) as (server, clients):  # nobody reads "t"
        before = resident()
        for _ in range(64):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(server.uri.want_data, [bytes(64 * KIB)])
                    client.flush(SECONDS)  # what our end keeps is in the same process
            assert held(server) < 32 * MIB + 64 * SMALL
        until(lambda: server.num_clients == 0, "all went too far")
        assert set(peers.kinds(server)) == {"LimitError"}
        assert "sent requests of" in server.errors[0]
        assert "at most 262,144 may wait" in server.errors[0]
        assert resident() - before < 128 * MIB


Said = list[tuple[int | None, bytes]]
#: What a client says, given the tag of requests; the reason that it hears; and what the server notes.
WRONG: dict[str, tuple[Callable[[int], Said], Reason, str]] = {
    "metadata": (lambda tag: [(None, b"x")], Reason.NOT_UNDERSTOOD, "FormatError: .* sent an untagged message"),
    "a long name": (lambda tag: [(tag, bytes(MIB + 1))], Reason.TOO_MUCH, "LimitError: .* sent requests of"),
    "requests": (lambda tag: [(tag, b"t")] * 200, Reason.TOO_MUCH, "LimitError: .* asked for more than 64 streams"),
    "nothing": (lambda tag: [], Reason.TOO_LATE, "TimeoutError: waited 0.3 s for .* to ask for a stream\n"),
    "strange tags": (
        lambda tag: [(new_tag(), b"t"), (new_tag(), free_data_body([7]))],
        Reason.TOO_LATE,
        "TimeoutError: .* to ask for a stream, and its 2 messages had other tags than our URI",
    ),
}


@pytest.mark.parametrize("transport", SOCKETS)
@pytest.mark.parametrize("what", WRONG)
def test_what_a_client_does_wrong_is_told_to_both(transport, what):
    said, reason, words = WRONG[what]
    options = {"request_timeout": 0.3, "max_held": 16 * MIB}
    with dissociated.Server({"t": small}, transport, **options) as server, connected(server) as client:

        def is_gone() -> bool:
            client.progress()
            while (frame := client.receive()) is not None:
                for handle in frame.handles:  # whoever takes a frame closes what came with it
                    os.close(handle)
            return client.at_end

        with contextlib.suppress(OSError):
            for tag, data in said(server.uri.want_data):
                client.send(tag, [data])
        until(is_gone, "it is sent away")
        assert client.reason == reason
        until(lambda: server.errors, "the server says so, too")
        assert re.search(words, server.errors[0])
        assert len(server.errors) == 1


# -- streams -------------------------------------------------------------------------------------------------


def test_streams_that_nobody_reads_have_one_limit_for_all_clients():
    """40 clients that read nothing of an endless source at once: each alone could have a sixteenth, 20 MiB in all."""
    options = {"max_held": 8 * MIB, "max_clients": 100, "idle_timeout": None}
    # Not over TCP, where buffers grow, and take more a moment later.
    with crowd(40, small, "unix", b"t", **options) as (server, _):
        until(lambda: server.num_clients == 40 and held(server) >= 8 * MIB, "all is taken")
        assert peers.settled(lambda: held(server)) < 8 * MIB + 40 * SMALL
        assert server._books.held == held(server)
        assert server._books.short == sum(each.is_short for each in list(server._sessions))
        assert server.errors == []
    assert (server._books.held, server._books.short) == (0, 0)


def test_clients_that_read_all_get_on_where_there_is_room_for_few():
    """Fifty slow readers, and room for the messages of four: nobody is sent away, and nobody starves."""

    def source() -> Iterator[pa.RecordBatch]:
        for number, batch in zip(range(20), peers.endless(), strict=False):
            assert batch.column(0)[0].as_py() == number
            yield batch

    def read(_: int) -> None:
        with dissociated.connect(server.uri, "t", timeout=SECONDS * 3) as reader:
            for number, batch in enumerate(reader):
                assert batch.column(0)[-1] == number
            assert number == 19

    with dissociated.Server({"t": source}, "unix", max_held=4 * MIB, idle_timeout=SECONDS) as server:
        in_threads(read, range(50))
        assert server.errors == []


def test_clients_that_take_nothing_make_room_for_those_that_do():
    with crowd(10, peers.endless, "unix", b"t", max_held=4 * MIB, idle_timeout=0.2) as (server, _):
        until(lambda: server._books.held >= 4 * MIB, "there is no room for another one")
        with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
            until(lambda: server.errors, "room was made for the reader, and the server said so")
            for number, batch in zip(range(20), reader, strict=False):
                assert batch.column(0)[0] == number
        for each in server.errors:
            assert "was sent away for another client" in each
            assert "(max_held=)" in each


# -- deadlines -----------------------------------------------------------------------------------------------


def silent_over_ucx() -> None:
    with crowd(3, peers.numbers(), "ucx", request_timeout=None, max_clients=3) as (server, _):
        until(lambda: server.num_clients == 3, "they have all slots")
        time.sleep(0.3)
        assert peers.read_from(server).num_rows == 3
        until(lambda: server.errors, "it says why")
        assert "was sent away for another client" in server.errors[0], server.errors


@pytest.mark.nosanitize
@needs_ucx
def test_silent_clients_over_ucx_make_room():
    over_ucx(silent_over_ucx)


@pytest.mark.parametrize("transport", SOCKETS)
@pytest.mark.parametrize("asks", [False, True])
def test_half_a_message_is_not_waited_for(transport, asks):
    with dissociated.Server({"t": peers.numbers()}, transport, request_timeout=0.2) as server:
        client = connected(server)
        raw = client._socket
        if asks:
            client.send(server.uri.want_data, [b"t"])
            until(lambda: server.num_clients, "the server has it")
        client.push()
        whole = peers.frame(server.uri.want_data, b"t" * 100)
        for piece in range(20):  # a byte now and then does not help
            with contextlib.suppress(OSError):
                raw.send(whole[piece : piece + 1])
            time.sleep(0.02)
        until(lambda: server.num_clients == 0 and server.errors, "it is gone")
        assert peers.kinds(server) == ["TimeoutError"]
        assert "to send the rest of a message" in server.errors[0]
        client.close()


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_hundred_silent_connections_keep_nobody_out(transport):
    """Whatever their deadlines are: the oldest of them makes room."""
    with crowd(100, peers.numbers(), transport, max_clients=100) as (server, silent):
        until(lambda: server.num_clients == 100, "all have their slots")
        time.sleep(0.4)  # a request could have been on its way for a moment
        for gone in range(3):
            with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
                assert reader.read_all().num_rows == 3
                assert len(server.errors) <= gone + 1
                assert "was sent away for another client" in server.errors[-1]
        until(lambda: silent[0].progress() or silent[0].at_end, "the oldest went")
        assert silent[0].reason == Reason.IDLE


def test_a_full_server_sends_the_longest_idle_one_away():
    with dissociated.Server(
        {"t": peers.endless, "n": peers.numbers()}, "tcp", max_clients=3, idle_timeout=1, max_held=16 * MIB
    ) as server:
        slow = dissociated.connect(server.uri, "t", timeout=SECONDS)
        numbers = [slow.read_next_batch().column(0)[0]]
        channels = [dissociated.Channel(server.uri, timeout=SECONDS) for _ in range(2)]
        for each in channels:
            assert each.read("n").read_all().num_rows == 3
            time.sleep(0.01)
        for uri in (server.uri, server.uris):
            with pytest.raises(ConnectionRefusedError, match="serves as many clients as it may already"):
                dissociated.connect(uri, "n", timeout=SECONDS)
        until(lambda: server.errors, "the server says so, too")
        assert "was sent away: 3 clients are served (max_clients=)" in server.errors[0]
        time.sleep(1.1)  # the channels are idle, and the slow reader took something a moment ago
        numbers += [slow.read_next_batch().column(0)[0] for _ in range(10)]
        links = [each._idle[0] for each in channels]
        newcomers = []
        for gone in links:
            assert gone.is_idle
            newcomers.append(dissociated.connect(server.uri, "n", timeout=SECONDS))
            until(lambda gone=gone: not gone.is_idle, "the one that was idle for longer is gone")
        with pytest.raises(ConnectionRefusedError):  # the newcomers are not idle yet, and the other one reads
            dissociated.connect(server.uri, "n", timeout=SECONDS)
        numbers += [slow.read_next_batch().column(0)[0] for _ in range(10)]
        assert numbers == list(range(21))
        for each in (slow, *newcomers, *channels):
            each.close()


@pytest.mark.parametrize(("transport", "way"), [("tcp", "one"), ("unix", "one"), ("tcp", "two")])
def test_a_slow_reader_has_all_the_time_it_wants_where_there_is_room(transport, way):
    """Also over two connections, of which each asked for its part."""
    limits = {"request_timeout": 0.2, "idle_timeout": 0.2, "max_held": 16 * MIB, "max_clients": 2}
    with (
        dissociated.Server({"t": peers.endless}, transport, **limits) as server,
        peers.opening(server, way) as open_it,
        open_it("t") as reader,
    ):
        for number in range(2):
            assert reader.read_next_batch().column(0)[0] == number
            time.sleep(0.3)
        assert server.errors == []
