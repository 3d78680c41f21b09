"""Channels: streams that are read one after the other over connections that are kept."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import telling

from arrowipc import dissociated
from arrowipc.errors import FormatError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
TRANSPORTS = ("tcp", "unix", "shm")
NUMBERS = pa.table({"x": pa.array(range(1000))})
WORDS = pa.table({"w": pa.array(["a", "bc", None] * 100)})
BOTH = {"numbers": NUMBERS, "words": WORDS}


def served(transport="tcp", streams=None, **options):
    given = BOTH if streams is None else streams
    return dissociated.Server(given, transport, transport_options=telling(transport), **options)


def values(reader) -> dict:
    return reader.read_all().to_pydict()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streams_one_after_the_other_share_a_connection(transport):
    with served(transport) as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:
        for _ in range(5):
            assert values(channel.read("numbers")) == NUMBERS.to_pydict()
            assert values(channel.read("words", columns=["w"])) == WORDS.to_pydict()
        assert server.num_clients == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streams_side_by_side_have_a_connection_each(transport):
    with served(transport) as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:
        first, second = channel.read("numbers"), channel.read("words")
        assert values(second) == WORDS.to_pydict()
        assert values(first) == NUMBERS.to_pydict()
        assert server.num_clients == 2


def test_many_threads_share_a_channel():
    with served("unix") as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:

        def read() -> None:
            for _ in range(20):
                assert values(channel.read("numbers")) == NUMBERS.to_pydict()

        with peers.beside(read), peers.beside(read), peers.beside(read):
            read()
        assert server.num_clients <= 4


def test_batches_in_lent_memory_outlive_their_stream_and_the_channel():
    with served("shm") as server:
        with dissociated.Channel(server.uri, timeout=SECONDS) as channel:
            kept = [channel.read("numbers").read_all() for _ in range(3)]
            assert server.num_clients == 1
        assert [each.to_pydict() for each in kept] == [NUMBERS.to_pydict()] * 3
        del kept


def test_a_stream_that_was_left_in_the_middle_takes_its_connection_along():
    batches = pa.Table.from_batches(NUMBERS.to_batches(max_chunksize=100))
    with served(streams={"many": batches}) as server, dissociated.Channel(server.uri) as channel:
        with channel.read("many") as reader:
            assert reader.read_next_batch().num_rows == 100
        assert channel.read("many").read_all().num_rows == 1000


def test_a_stream_that_nobody_knows_does_not_spoil_the_channel():
    with served() as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:
        for _ in range(3):
            with pytest.raises(FormatError, match="does not know the stream"):
                channel.read("nothing")
            assert values(channel.read("words")) == WORDS.to_pydict()


def test_a_server_that_came_back_is_connected_to_again(tmp_path):
    where = str(tmp_path / "socket")
    with served("unix", address=where, want_data=2**63 + 2**40) as server:
        channel = dissociated.Channel(server.uri, timeout=SECONDS)
        assert values(channel.read("numbers")) == NUMBERS.to_pydict()
    with served("unix", address=where, want_data=2**63 + 2**40), channel:
        assert values(channel.read("numbers")) == NUMBERS.to_pydict()


def test_a_channel_that_is_closed_says_so_and_lets_streams_end():
    with served() as server:
        channel = dissociated.Channel(server.uri, timeout=SECONDS)
        reader = channel.read("numbers")
        channel.close()
        channel.close()
        assert values(reader) == NUMBERS.to_pydict()
        with pytest.raises(UsageError, match="channel is closed"):
            channel.read("numbers")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_live_source_gives_is_sent_before_it_is_asked_for_more(transport):
    more = threading.Event()

    def live():
        for batch in NUMBERS.to_batches(max_chunksize=100):
            yield batch
            assert more.wait(SECONDS)
            more.clear()

    found = []
    with (
        served(transport, {"live": live}, schema=NUMBERS.schema) as server,
        dissociated.connect(server.uri, "live", timeout=SECONDS) as reader,
    ):
        for batch in reader:
            found.append(len(batch))
            more.set()  # only now: a batch that was kept back would never have come
    assert found == [100] * 10


def test_a_second_thread_on_one_stream_is_refused_and_harms_nothing():
    with served("unix") as server, dissociated.connect(server.uri, "numbers", timeout=SECONDS) as reader:
        # As another thread has it while it takes a step.
        with reader._turn, pytest.raises(UsageError, match="one thread at a time"):
            reader.read_next_batch()
        assert values(reader) == NUMBERS.to_pydict()
