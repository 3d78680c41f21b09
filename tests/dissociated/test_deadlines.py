"""Clients that say nothing, or half a message, have deadlines and make room for others."""

from __future__ import annotations

import contextlib
import time

import pytest
from dissociated import peers
from dissociated.peers import connected, until
from dissociated.ucx_peers import needs_ucx, over_ucx

from arrowipc import dissociated
from arrowipc.dissociated.protocol import Reason, free_data_body
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
MIB = 1 << 20
SOCKETS = ("tcp", "unix", "shm")


@pytest.mark.parametrize("transport", SOCKETS)
def test_a_client_that_asks_for_nothing_is_sent_away(transport):
    with dissociated.Server({"t": peers.numbers()}, transport, request_timeout=0.3) as server:
        silent = [connected(server) for _ in range(4)]
        with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
            until(lambda: server.num_clients == 1, "only the one that asked is there")
            assert reader.read_all().num_rows == 3
        until(lambda: len(server.errors) == 4, "the others were told of")
        for kind_of_error, words in peers.said(server):
            assert kind_of_error == "TimeoutError"
            assert words.startswith("waited 0.3 s for ")
            assert words.endswith(" to ask for a stream")
        for each in silent:
            each.close()


SILENT_OVER_UCX = """
import sys, time
from dissociated import peers
from dissociated.peers import connected, until
from dissociated.test_deadlines import connected
from arrowipc import dissociated

deadline = float(sys.argv[1]) or None
with dissociated.Server({"t": peers.numbers()}, "ucx", request_timeout=deadline, max_clients=3) as server:
    silent = [connected(server) for _ in range(3)]
    until(lambda: server.num_clients == (0 if deadline else 3), "they are gone, or have all slots")
    time.sleep(0.3)
    with dissociated.connect(server.uri, "t", timeout=20) as reader:
        assert reader.read_all().num_rows == 3
    until(lambda: len(server.errors) == (3 if deadline else 1), f"it says why: {server.errors}")
    words = "to ask for a stream" if deadline else "was sent away for another client"
    assert words in server.errors[0], server.errors
    for each in silent:
        each.close()
"""


@pytest.mark.nosanitize
@needs_ucx
@pytest.mark.parametrize("deadline", ["0.3", "0"])
def test_silent_clients_over_ucx_have_a_deadline_and_make_room(deadline):
    over_ucx(SILENT_OVER_UCX, deadline)


@pytest.mark.parametrize("transport", SOCKETS)
@pytest.mark.parametrize("asks", [False, True])
def test_half_a_message_is_not_waited_for(transport, asks):
    with dissociated.Server({"t": peers.numbers()}, transport, request_timeout=0.3) as server:
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
            time.sleep(0.03)
        until(lambda: server.num_clients == 0 and server.errors, "it is gone")
        assert peers.kinds(server) == ["TimeoutError"]
        assert "to send the rest of a message" in server.errors[0]
        client.close()


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_hundred_silent_connections_keep_nobody_out(transport):
    """Whatever their deadlines are: the oldest of them makes room."""
    with (
        dissociated.Server({"t": peers.numbers()}, transport, max_clients=100) as server,
        contextlib.ExitStack() as stack,
    ):
        silent = [connected(server) for _ in range(100)]
        for each in silent:
            stack.callback(each.close)
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
        {"t": peers.endless, "n": peers.numbers()}, "tcp", max_clients=3, idle_timeout=0.5, max_held=16 * MIB
    ) as server:
        slow = dissociated.connect(server.uri, "t", timeout=SECONDS)
        numbers = [slow.read_next_batch().column(0)[0]]
        channels = [dissociated.Channel(server.uri, timeout=SECONDS) for _ in range(2)]
        for each in channels:
            assert each.read("n").read_all().num_rows == 3
            time.sleep(0.1)
        with pytest.raises(ConnectionRefusedError, match="serves as many clients as it may"):
            dissociated.connect(server.uri, "n", timeout=SECONDS)
        time.sleep(0.6)  # the channels are idle, and the slow reader took something a moment ago
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


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_slow_reader_has_all_the_time_it_wants_where_there_is_room(transport):
    deadlines = {"request_timeout": 0.2, "idle_timeout": 0.2}
    with (
        dissociated.Server({"t": peers.endless}, transport, max_held=16 * MIB, max_clients=2, **deadlines) as server,
        dissociated.connect(server.uri, "t", timeout=SECONDS) as reader,
    ):
        for number in range(4):
            assert reader.read_next_batch().column(0)[0] == number
            time.sleep(0.3)
        assert server.errors == []


def test_two_connections_for_one_stream_each_ask_for_their_part():
    """A client of data only, and one of metadata only, have asked."""
    with dissociated.Server({"t": peers.numbers(100, 20)}, "tcp", request_timeout=0.3) as server:
        with dissociated.connect(server.uris, "t", timeout=SECONDS) as reader:
            assert reader.read_next_batch().num_rows == 100
            time.sleep(0.5)
            assert reader.read_all().num_rows == 1900
        assert server.errors == []


def test_messages_with_strange_tags_are_no_requests():
    with dissociated.Server({"t": peers.numbers()}, "tcp", request_timeout=0.4) as server:
        client = connected(server)
        client.send(new_tag(), [b"t"])
        client.send(new_tag(), [free_data_body([7])])
        until(lambda: server.errors, "it is sent away")
        assert peers.said(server)[0][1].endswith("to ask for a stream, and its 2 messages had other tags than our URI")
        client.close()


@pytest.mark.parametrize("name", ["request_timeout", "idle_timeout"])
@pytest.mark.parametrize("value", [0, -1, "1", True, float("nan")])
def test_a_deadline_is_a_number_of_seconds(name, value):
    with pytest.raises(UsageError, match=f"{name}: expected seconds, more than 0, or None"):
        dissociated.Server({}, **{name: value})
