"""What clients can make a server keep, all of them together: requests, data that nobody takes, errors."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.peers import connected, until
from helpers.memory import resident
from helpers.processes import in_threads

from arrowipc import dissociated
from arrowipc.dissociated.protocol import Reason
from arrowipc.errors import UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
KIB, MIB = 1 << 10, 1 << 20


def small() -> Iterator[pa.RecordBatch]:
    return peers.endless(64 * KIB)


#: Bytes of a message of `small`, with its metadata.
SMALL = 65 * KIB


def held(server: Any) -> int:
    return sum(each.held for each in list(server._sessions))


# -- errors --------------------------------------------------------------------------------------------------


class Large:
    """Memory that a source had when it failed."""


def test_nothing_of_a_session_that_failed_is_kept():
    made: list[weakref.ref[Large]] = []

    def source():
        loaded = Large()
        made.append(weakref.ref(loaded))
        raise ValueError("x" * 10_000)

    with dissociated.Server({"t": source}, "tcp") as server:
        for _ in range(3):
            with pytest.raises((ValueError, OSError)):
                dissociated.connect(server.uri, "t", timeout=SECONDS)
        until(lambda: len(server.errors) == 3, "all are noted")
        gc.collect()
        until(lambda: [each() for each in made] == [None] * 3, "they are gone, and the server is there")
        for each in server.errors:
            assert type(each) is str
            assert each.startswith("ValueError: xxx")
            assert len(each) <= 4000


def test_an_error_says_where_it_was_raised_and_only_the_last_ones_are_kept():
    number = 0

    def find(name: bytes):
        nonlocal number
        number += 1
        raise KeyError(number)

    with dissociated.Server(find, "unix") as server:
        for _ in range(110):
            with contextlib.suppress(ValueError, OSError):
                dissociated.connect(server.uri, "t", timeout=SECONDS)
            until(lambda: server.num_clients == 0, "the errors of two clients come in any order")
        assert number == 110
        assert peers.said(server) == [("KeyError", str(each)) for each in range(11, 111)]
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
    with (
        dissociated.Server({"t": small}, "tcp", max_held=16 * MIB, max_clients=64) as server,
        contextlib.ExitStack() as stack,
    ):
        tag = server.uri.want_data
        clients = [stack.enter_context(connected(server)) for _ in range(64)]
        before = resident()
        for client in clients:
            client.send(tag, [b"t"])  # whose stream nobody reads
        for _ in range(64):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(tag, [bytes(64 * KIB)])
                    client.flush(SECONDS)  # what our end keeps is in the same process
            assert held(server) < 32 * MIB + 64 * SMALL
        until(lambda: server.num_clients == 0, "all went too far")
        assert set(peers.kinds(server)) == {"LimitError"}
        assert "sent requests of" in server.errors[0]
        assert "at most 262,144 may wait" in server.errors[0]
        assert resident() - before < 128 * MIB


def test_a_client_that_asks_for_too_much_hears_so():
    with dissociated.Server({"t": peers.numbers()}, "unix") as server, connected(server) as client:
        client.send(server.uri.want_data, [bytes(MIB + 1)])
        with contextlib.suppress(OSError):
            client.flush(SECONDS)
        until(lambda: client.progress() or client.at_end, "it is sent away")
        assert client.reason == Reason.TOO_MUCH
        until(lambda: server.errors, "the server says so, too")
        assert peers.kinds(server) == ["LimitError"]


def test_a_limit_leaves_room_for_the_names_of_all_clients():
    with pytest.raises(UsageError, match="max_held must be an integer from 1024000 to "):
        dissociated.Server({}, max_held=1000 * KIB - 1)


# -- streams -------------------------------------------------------------------------------------------------


def settled(server: Any) -> bool:
    """Whether each client has as much as it gets, and nobody is being served."""
    sessions = list(server._sessions)
    waiting = [each for each in sessions if each._is_waiting and each._asked]
    return waiting == sessions and all(each._waits_for_room or each.held >= each._max_unsent for each in sessions)


@contextlib.contextmanager
def endless(source: Any) -> Iterator[tuple[Any, contextlib.ExitStack]]:
    """A server of one endless stream that may keep 8 MiB, and what closes its clients.

    Not over TCP, where buffers grow, and take more a moment later.
    """
    options = {"max_held": 8 * MIB, "max_clients": 100, "idle_timeout": None}
    with dissociated.Server({"t": source}, "unix", **options) as server, contextlib.ExitStack() as clients:
        yield server, clients


def test_streams_that_nobody_reads_have_one_limit_for_all_clients():
    """40 clients that read nothing of an endless source at once: each alone could have a sixteenth, 20 MiB in all."""
    with endless(small) as (server, clients):
        for client in [clients.enter_context(connected(server)) for _ in range(40)]:
            client.send(server.uri.want_data, [b"t"])
        until(lambda: server.num_clients == 40 and held(server) >= 8 * MIB and settled(server), "all is taken")
        assert held(server) < 8 * MIB + 40 * SMALL
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
    with (
        dissociated.Server({"t": peers.endless}, "unix", max_held=4 * MIB, idle_timeout=0.2) as server,
        contextlib.ExitStack() as stack,
    ):
        for client in [stack.enter_context(connected(server)) for _ in range(10)]:
            client.send(server.uri.want_data, [b"t"])
        until(lambda: server._books.held >= 4 * MIB, "there is no room for another one")
        with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
            until(lambda: server.errors, "room was made for the reader, and the server said so")
            for number, batch in zip(range(20), reader, strict=False):
                assert batch.column(0)[0] == number
        for each in server.errors:
            assert "was sent away for another client" in each
            assert "(max_held=)" in each
