"""Streams over real transports, with one connection, two or kept ones; `d027` is a number of the checklist."""

import contextlib
import mmap
import random
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import telling
from helpers import arrays, forge, golden

import arrowipc as ipc
from arrowipc import Limits, dissociated
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.connection import Deadline, wait
from arrowipc.dissociated.protocol import Incoming
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.transports.sockets import HEADER, STAGE
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import FormatError, LimitError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

TRANSPORTS = ("tcp", "unix")
WAYS = ("one", "two")
SECONDS = peers.SECONDS


def assert_equal(found: ipc.Table, expected: pa.Table) -> None:
    got = pa.table(found)
    got.validate(full=True)
    assert got.schema.equals(expected.schema, check_metadata=True)
    assert got.equals(expected)


def received(connection, count: int) -> list:
    """The next messages of a connection."""
    found = []
    while len(found) < count:
        with connection.lock:
            connection.progress()
            frame = connection.receive()
        if frame is not None:
            found.append(frame)
        elif connection.at_end:
            raise EOFError(f"{len(found)} messages came, {count} were expected")
        else:
            wait([connection], Deadline(SECONDS), "the next message")
    return found


# -- transports ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["tcp", "unix"])
@pytest.mark.parametrize("pieces", [1, 7, 1000, 1 << 20])
def test_d001_untagged_messages_keep_their_boundaries_however_the_bytes_are_split(family, pieces):
    chance = random.Random(pieces)
    sizes = [5, 0, 1, 24, 1000] if pieces < 1000 else [5, 0, 1, STAGE - 25, STAGE - 24, STAGE - 23, STAGE, 2 << 20, 6]
    sent = [chance.randbytes(size) for size in sizes]
    raw, other = peers.raw_pair(family)
    data = peers.HELLO + b"".join(peers.frame(None, each) for each in sent)

    def drip() -> None:
        for at in range(0, len(data), pieces):
            raw.sendall(data[at : at + pieces])

    with raw, peers.SocketConnection(other, "raw") as connection, peers.beside(drip):
        found = received(connection, len(sent))
    assert [(each.tag, bytes(each.data)) for each in found] == [(None, each) for each in sent]


@pytest.mark.parametrize("family", ["tcp", "unix"])
@pytest.mark.parametrize("read_ahead", [0, 1 << 16, 64 << 20])
def test_d003_d004_tagged_messages_of_any_length_among_untagged_ones(family, read_ahead):
    sizes = [0, 1, 7, 8, 63, 64, STAGE - 24, STAGE - 23, STAGE, STAGE + 1, (1 << 20) + 3, 9 << 20]
    a, b = peers.socket_pair(family, limits=Limits(read_ahead=read_ahead))
    chance = random.Random(4)
    sent = [(2**64 - 1 - n, bytes([n]) * size) for n, size in enumerate(sizes)]
    for _ in range(500):
        tag, data = chance.choice([None, 0, 1, 1 << 56, new_tag()]), chance.randbytes(chance.randrange(9))
        sent.insert(chance.randrange(len(sent)), (tag, data))

    def send() -> None:
        for tag, each in sent:
            b.send(tag, [each[: len(each) // 3], b"", each[len(each) // 3 :]])
        b.flush(SECONDS)

    with a, b, peers.beside(send):
        assert [(tag, bytes(data)) for tag, data, _ in received(a, len(sent))] == sent


def sparse_batch(rows: int) -> tuple[mmap.mmap, pa.RecordBatch]:
    """A batch of zeros that takes no memory before it is written to."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 8 * rows, flags=flags)
    memory[:8], memory[8 * rows - 8 :] = struct.pack("<q", 11), struct.pack("<q", 22)
    column = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(memory)])
    return memory, pa.record_batch([column], ["x"])


def test_d003_a_body_of_more_than_4_gib_without_the_memory_for_it():
    rows = (4 << 30) // 8 + 8
    memory, _ = sparse_batch(rows)
    head = forge.message(forge.batch(rows, [(rows, 0)], [(0, 0), (0, 8 * rows)]), body=b"", body_length=8 * rows)
    incoming, decoder = Incoming(), StreamDecoder(validate="none")
    schema = forge.message(forge.schema(forge.field("x", forge.INT64)))
    for number, each in enumerate((schema, head)):
        incoming.receive_metadata(peers.metadata(number, each[8:])[1])
    incoming.receive_body(1, memoryview(memory))
    batches = [decoder.decode_next(message_of(each.metadata, each.body)) for each in iter(incoming.take, None)]
    column = batches[-1].batch.column(0)
    assert (len(column), column[0], column[rows - 1]) == (rows, 11, 22)


@pytest.mark.slow
@pytest.mark.nosanitize
def test_d003_a_body_of_more_than_4_gib_over_a_socket():
    available = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) << 10
    if available < 8 << 30:
        pytest.skip(f"needs 8 GiB of memory, {available >> 30} are there")
    rows = (4 << 30) // 8 + 8
    _, batch = sparse_batch(rows)
    with dissociated.Server({"t": batch}, "unix") as server:
        (batch,) = peers.read_from(server, validate="none").batches
    column = batch.column(0)
    assert (len(column), column[0], column[rows - 1]) == (rows, 11, 22)


class Untouchable:
    """A body that nobody may look at."""

    def __len__(self) -> int:
        return 1 << 40

    def __getattribute__(self, name: str):
        raise AssertionError(f"{name} of a body was asked for")


def test_d005_tags_are_known_without_the_body():
    incoming = Incoming()
    for number, (_, head, _) in enumerate(peers.parts_of(peers.written(peers.numbers()))):
        incoming.receive_metadata(peers.metadata(number, head)[1])
    body = Untouchable()
    incoming.receive_body(1, body)
    assert [each.body is body for each in iter(incoming.take, None)] == [False, True]


OTHER_GREETINGS = (b"arwipc\x02\x00", b"HTTP/1.1 200 OK", bytes(8))


@pytest.mark.parametrize(
    ("head", "error", "words"),
    [
        *((hello, FormatError, "does not speak this version of our framing") for hello in OTHER_GREETINGS),
        (HEADER.pack(2, 0, 0, 0, 0, 0), FormatError, "kind 2"),
        (HEADER.pack(1, 0, 1, 0, 0, 0), FormatError, "none of ours"),
        (HEADER.pack(1, 0, 0, 1, 0, 0), FormatError, "none of ours"),
        (HEADER.pack(0, 0, 0, 0, 1, 0), FormatError, "tag 0x1"),
        (HEADER.pack(1, 3, 0, 0, 0, 0), FormatError, "announces 3 file descriptors, and 0 came"),
        (HEADER.pack(0, 0, 0, 0, 0, 17 << 20), LimitError, "of metadata, more than Limits.metadata_bytes"),
        (HEADER.pack(1, 0, 0, 0, 0, 1 << 62), LimitError, "at most"),
        (HEADER.pack(1, 0, 0, 0, 0, (1 << 62) - 1), LimitError, "more than there is room for"),
        (HEADER.pack(1, 0, 0, 0, 0, (1 << 64) - 1), LimitError, "at most"),
    ],
)
def test_d090_hostile_headers_are_refused(head, error, words):
    greeting = b"" if head in OTHER_GREETINGS else peers.HELLO
    with peers.heard(greeting, head) as connection, pytest.raises(error, match=f"the peer .*{words}"):
        received(connection, 1)


def test_d090_file_descriptors_that_belong_to_no_message_are_closed():
    raw, other = peers.raw_pair()
    with raw, peers.SocketConnection(other, "the peer") as connection:
        raw.sendall(peers.HELLO)
        for _ in range(20):
            socket.send_fds(raw, [b"\1"], [0, 1, 2])
        with pytest.raises(FormatError, match=r"the peer sent (a header|more file descriptors)"):
            received(connection, 1)


# -- what can be asked for, and how --------------------------------------------------------------------------


def test_d011_a_server_without_free_data_only_sends_bodies():
    with dissociated.Server({"t": peers.numbers()}, "unix") as server:
        assert server.uri.free_data is None
        assert server.uris[1].free_data is None


IDENTS = [b"", b"\0", b"a\0b", b"\xff\xfe", "grün".encode(), random.Random(18).randbytes(1 << 16)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_d018_names_of_streams_are_opaque(transport):
    asked = []

    def find(ident: bytes):
        asked.append(ident)
        return peers.numbers()

    with dissociated.Server(find, transport) as server:
        for way in WAYS:
            for ident in IDENTS:
                assert len(peers.read_from(server.uri if way == "one" else server.uris, ident)) == 3
            peers.read_from(server.uri if way == "one" else server.uris, memoryview(b"view"))
    assert asked == [*IDENTS, b"view"] + [each for each in [*IDENTS, b"view"] for _ in "12"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_d020_metadata_and_bodies_may_come_from_two_servers(transport):
    table = peers.numbers(100, batches=7)
    asked: list[tuple[int, bytes]] = []

    def finder(which: int):
        return lambda ident: asked.append((which, ident)) or table

    with dissociated.Server(finder(0), transport) as one, dissociated.Server(finder(1), "tcp") as two:
        assert len({one.uris[0].want_data, two.uris[1].want_data}) == 2
        for pair in ((one.uris[0], two.uris[1]), (str(two.uris[1]), str(one.uris[0]))):
            with dissociated.connect(pair, b"ticket", timeout=SECONDS) as reader:
                assert_equal(reader.read_all(), table)
    assert sorted(asked) == [(0, b"ticket")] * 2 + [(1, b"ticket")] * 2


def test_pairs_of_uris_that_make_no_sense_are_refused():
    with dissociated.Server({"t": peers.numbers()}, "tcp") as server:
        meta, data = server.uris
        for pair in ((meta, meta), (data, data)):
            with pytest.raises(UsageError, match="both URIs are of the same one of the two streams"):
                dissociated.connect(pair, "t")
        with pytest.raises(UsageError, match="give both URIs"):
            dissociated.connect(meta, "t")
        with pytest.raises(UsageError, match="expected one, or one for the metadata and one for the data"):
            dissociated.connect([meta, data, data], "t")
        # The same URI twice is one connection.
        with dissociated.connect([server.uri, str(server.uri)], "t", timeout=SECONDS) as reader:
            assert_equal(reader.read_all(), peers.numbers())


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_d021_a_refusal_comes_after_what_was_asked_for_before(transport):
    big = pa.table({"x": np.arange(1 << 20)})
    with dissociated.Server({"t": big}, transport) as server, peers.connected(server, b"t") as connection:
        connection.send(server.uri.want_data, [b"nope"])
        frames = received(connection, 4)
        assert len(frames[2].data) == 8 << 20
        with pytest.raises((EOFError, ConnectionError)):
            received(connection, 1)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_d022_streams_at_once_do_not_mix(transport):
    tables = {str(n): peers.numbers(10 + n, batches=20) for n in range(8)}
    found: dict[str, ipc.Table] = {}

    def run(name: str, way: str) -> None:
        found[name + way] = peers.read_from(server.uri if way == "one" else server.uris, name)

    with dissociated.Server(tables, transport) as server, contextlib.ExitStack() as running:
        for name in tables:
            for way in WAYS:
                running.enter_context(peers.beside(lambda name=name, way=way: run(name, way)))
    assert len(found) == 16
    for key, table in found.items():
        assert_equal(table, tables[key[0]])


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_d023_a_second_request_waits_for_the_first_stream_to_end(transport):
    streams = {"a": peers.numbers(1, 3), "b": peers.numbers(2, 2)}
    with dissociated.Server(streams, transport) as server, peers.connected(server, b"a", b"b") as connection:
        tags = [frame.tag for frame in received(connection, 8 + 6)]
    assert tags == [None, None, 1, None, 2, None, 3, None, None, None, 1, None, 2, None]


def test_more_requests_than_one_can_wait_for_are_refused():
    def ask_and_wait(connection, tag):
        for _ in range(200):  # the server may be gone before all of them are sent
            connection.send(tag, [b"t"])
        received(connection, 1000)

    with (
        dissociated.Server({"t": pa.table({"x": np.arange(8 << 20)})}, "tcp") as server,
        peers.connected(server, b"t") as connection,
        pytest.raises((EOFError, ConnectionError)),
    ):
        ask_and_wait(connection, server.uri.want_data)
    assert "asked for more than 64 streams" in server.errors[0]


# -- what arrives --------------------------------------------------------------------------------------------


def tables() -> dict[str, pa.Table]:
    """Streams of every shape and type."""
    return {name: pa.table({"x": array}) for name, array in arrays.CASES.items()} | {
        "numbers": peers.numbers(1000, batches=9),
        "no batches": peers.numbers(0, batches=0),
        "no rows": peers.numbers(0, batches=3),
        "no columns": pa.table({"x": [1, 2]}).select([]),
        "empty bodies": pa.table({"n": pa.nulls(5)}),
        "wide": pa.table({f"c{i}": pa.array([i, None, -i], pa.int16()) for i in range(3000)}),
        "words": pa.Table.from_batches(peers.words()),
    }


@pytest.mark.parametrize(
    ("transport", "compression"),
    [("unix", None), ("tcp", None), ("shm", None), ("tcp", "lz4"), ("shm", "zstd")],
)
@pytest.mark.parametrize("way", peers.WAYS)
def test_d035_d040_d056_d063_d064_streams_are_the_same_over_every_transport_and_way(transport, compression, way):
    given = tables()
    with dissociated.Server(given, transport, compression=compression) as server, peers.opening(server, way) as open_it:
        for name, table in given.items():
            reader = open_it(name, validate="strict")
            found = reader.read_all()
            reader.close()
            assert found.schema == ipc.Table.from_arrow(table).schema, name
            assert found.to_pydict() == table.to_pydict(), name
            del found, reader
        assert server.errors == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("deltas", [True, False])
def test_d036_dictionaries_come_before_their_users_with_deltas_and_replacements(transport, way, deltas):
    batches = peers.words()
    expected = [batch.to_pydict() for batch in batches]
    source = {"t": lambda: (each for each in batches)}
    with dissociated.Server(source, transport, dictionary_deltas=deltas) as server:
        uri = server.uri if way == "one" else server.uris
        with dissociated.connect(uri, "t", timeout=SECONDS) as reader:
            assert [batch.to_pydict() for batch in reader] == expected
            # schema, first dictionary, batch, delta or replacement, batch, replacement, batch, batch
            assert reader.decoder.stats == (8, 4, 3, int(deltas), 2 - deltas)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("way", WAYS)
def test_d038_custom_metadata_of_schemas_fields_and_batches_is_kept(transport, way):
    schema = pa.schema([pa.field("x", pa.int8(), metadata={"f": "1"})], metadata={b"s": b"\xff", b"t": b""})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for i in range(3):
            writer.write_batch(pa.record_batch([pa.array([i], pa.int8())], schema=schema), {"number": str(i)})
    stream = sink.getvalue().to_pybytes()
    with dissociated.Server({"t": lambda: ipc.open_stream(stream)}, transport) as server:
        uri = server.uri if way == "one" else server.uris
        with dissociated.connect(uri, "t", timeout=SECONDS) as reader:
            assert pa.schema(reader.schema).equals(schema, check_metadata=True)
            assert [dict(batch.custom_metadata)[b"number"] for batch in reader] == [b"0", b"1", b"2"]


GOLDEN = golden.cases()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.parent.name}-{case.name.removeprefix('generated_')}")
def test_d047_d058_golden_streams_of_every_version_and_byte_order_arrive(case):
    data = golden.load(case)
    first = 2**32 - 2
    sent = peers.dissociated(data.stream.read_bytes(), first)
    with peers.told(sent) as client, peers.numbered_from(first), peers.client_of((client,)) as reader:
        golden.assert_matches(data.json, reader.schema, list(reader))


# -- order and end -------------------------------------------------------------------------------------------


class Storm:
    """Keeps messages back and lets them go in any order; the last one is followed by all."""

    def __init__(self, seed: int, last: int) -> None:
        self.chance = random.Random(seed)
        self.held: list = []
        self.seen, self.last = 0, last

    def __call__(self, frame):
        self.held.append(frame)
        self.seen += 1
        self.chance.shuffle(self.held)
        out = len(self.held) if self.seen == self.last else self.chance.randrange(len(self.held))
        going, self.held = self.held[:out], self.held[out:]
        return going


@pytest.mark.parametrize("from_seed", range(0, 300, 60))
def test_d061_d065_300_orders_over_the_roll_over_give_the_same_batches(from_seed):
    tables = {size: peers.numbers(3, batches=size) for size in range(1, 12)}
    for seed in range(from_seed, from_seed + 60):
        chance = random.Random(seed)
        size = chance.randrange(1, 12)
        first = (2**32 - chance.randrange(size + 2)) % 2**32
        tag = new_tag()
        separate = chance.random() < 0.5
        n_meta, n_data = size + 2, size
        storms = [Storm(seed, n_meta), Storm(-seed, n_data)] if separate else [Storm(seed, n_meta + n_data)]
        ends = [peers.socket_pair(kinds=(peers.Weathered, peers.SocketConnection)) for _ in storms]
        for (client, _), storm in zip(ends, storms, strict=True):
            client.weather = storm
        for role, (client, server) in zip(("meta", "data") if separate else ("both",), ends, strict=True):
            client.send(tag, [b""])
            with peers.numbered_from(first):
                session = Session(server, lambda ident, t=tables[size]: t, Roles({tag: role}, None))
                while session.step():
                    pass
        with peers.numbered_from(first), peers.client_of(tuple(client for client, _ in ends)) as reader:
            assert_equal(reader.read_all(), tables[size])
        for _, server in ends:
            server.close()


def test_d068_the_metadata_connection_may_close_before_the_bodies_come():
    sent = peers.dissociated(peers.written(peers.numbers(3, 4)))
    (meta, meta_server), (data, data_server) = peers.socket_pair(), peers.socket_pair()
    for tag, each in sent:
        if tag is None:
            meta_server.send(tag, [each])
    meta_server.close()
    with peers.client_of((meta, data)) as reader:
        for tag, each in sent:
            if tag is not None:
                data_server.send(tag, [each])
                assert reader.read_next_batch().num_rows == 3
        assert list(reader) == []
    data_server.close()


# -- channels ------------------------------------------------------------------------------------------------

SHARING = ("tcp", "unix", "shm")
NUMBERS = pa.table({"x": pa.array(range(1000))})
WORDS = pa.table({"w": pa.array(["a", "bc", None] * 100)})
BOTH = {"numbers": NUMBERS, "words": WORDS}


def offering(transport="tcp", streams=None, **options):
    given = BOTH if streams is None else streams
    return dissociated.Server(given, transport, transport_options=telling(transport), **options)


def values(reader) -> dict:
    return reader.read_all().to_pydict()


@pytest.mark.parametrize("transport", SHARING)
def test_streams_one_after_the_other_share_a_connection_and_side_by_side_have_one_each(transport):
    with offering(transport) as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:
        for _ in range(5):
            assert values(channel.read("numbers")) == NUMBERS.to_pydict()
            assert values(channel.read("words", columns=["w"])) == WORDS.to_pydict()
        assert server.num_clients == 1
        first, second = channel.read("numbers"), channel.read("words")
        assert values(second) == WORDS.to_pydict()
        assert values(first) == NUMBERS.to_pydict()
        assert server.num_clients == 2


def test_many_threads_share_a_channel():
    with offering("unix") as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:

        def read() -> None:
            for _ in range(20):
                assert values(channel.read("numbers")) == NUMBERS.to_pydict()

        with peers.beside(read), peers.beside(read), peers.beside(read):
            read()
        assert server.num_clients <= 4


def test_batches_in_lent_memory_outlive_their_stream_and_the_channel():
    with offering("shm") as server:
        with dissociated.Channel(server.uri, timeout=SECONDS) as channel:
            kept = [channel.read("numbers").read_all() for _ in range(3)]
            assert server.num_clients == 1
        assert [each.to_pydict() for each in kept] == [NUMBERS.to_pydict()] * 3
        del kept


def test_a_stream_that_was_left_in_the_middle_takes_its_connection_along():
    batches = pa.Table.from_batches(NUMBERS.to_batches(max_chunksize=100))
    with offering(streams={"many": batches}) as server, dissociated.Channel(server.uri) as channel:
        with channel.read("many") as reader:
            assert reader.read_next_batch().num_rows == 100
        assert channel.read("many").read_all().num_rows == 1000


def test_a_stream_that_nobody_knows_does_not_spoil_the_channel():
    with offering() as server, dissociated.Channel(server.uri, timeout=SECONDS) as channel:
        for _ in range(3):
            with pytest.raises(FormatError, match="does not know the stream"):
                channel.read("nothing")
            assert values(channel.read("words")) == WORDS.to_pydict()


def test_a_server_that_came_back_is_connected_to_again(tmp_path):
    where = str(tmp_path / "socket")
    with offering("unix", address=where, want_data=2**63 + 2**40) as server:
        channel = dissociated.Channel(server.uri, timeout=SECONDS)
        assert values(channel.read("numbers")) == NUMBERS.to_pydict()
    with offering("unix", address=where, want_data=2**63 + 2**40), channel:
        assert values(channel.read("numbers")) == NUMBERS.to_pydict()


def test_a_channel_that_is_closed_says_so_and_lets_streams_end():
    with offering() as server:
        channel = dissociated.Channel(server.uri, timeout=SECONDS)
        reader = channel.read("numbers")
        channel.close()
        channel.close()
        assert values(reader) == NUMBERS.to_pydict()
        with pytest.raises(UsageError, match="channel is closed"):
            channel.read("numbers")


@pytest.mark.parametrize("transport", SHARING)
def test_what_a_live_source_gives_is_sent_before_it_is_asked_for_more(transport):
    more = threading.Event()

    def live():
        for batch in NUMBERS.to_batches(max_chunksize=100):
            yield batch
            assert more.wait(SECONDS)
            more.clear()

    found = []
    with (
        offering(transport, {"live": live}, schema=NUMBERS.schema) as server,
        dissociated.connect(server.uri, "live", timeout=SECONDS) as reader,
    ):
        for batch in reader:
            found.append(len(batch))
            more.set()  # only now: a batch that was kept back would never have come
    assert found == [100] * 10


def test_a_second_thread_on_one_stream_is_refused_and_harms_nothing():
    with offering("unix") as server, dissociated.connect(server.uri, "numbers", timeout=SECONDS) as reader:
        # As another thread has it while it takes a step.
        with reader._turn, pytest.raises(UsageError, match="one thread at a time"):
            reader.read_next_batch()
        assert values(reader) == NUMBERS.to_pydict()
