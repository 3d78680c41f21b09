"""Streams over real transports, with one connection, two or kept ones; `d027` is a number of the checklist."""

import mmap
import random
import socket
import struct
import threading

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import telling
from helpers import arrays, golden
from helpers.processes import in_threads

import arrowipc as ipc
from arrowipc import Limits, dissociated
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.connection import Deadline, wait
from arrowipc.dissociated.protocol import Incoming
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.transports.message_runs import write_run
from arrowipc.dissociated.transports.sockets import HEADER, STAGE
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import FormatError, LimitError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

TRANSPORTS = ("tcp", "unix")
SECONDS = peers.SECONDS


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


@pytest.mark.parametrize(("family", "read_ahead"), [("tcp", 0), ("unix", 64 << 20)])
@pytest.mark.parametrize("pieces", [1, 1000, 1 << 20])
def test_d001_d003_d004_messages_of_any_length_keep_their_boundaries_however_the_bytes_are_split(
    family, pieces, read_ahead
):
    chance = random.Random(pieces)
    sizes = [0, 1, 5, 7, 8, 24, 63, 64]
    if pieces > 1:
        sizes += [STAGE - 25, STAGE - 24, STAGE - 23, STAGE, STAGE + 1, (1 << 20) + 3, 9 << 20]
    sent = [(tag, chance.randbytes(size)) for size in sizes for tag in (None, new_tag())]
    for _ in range(500):
        tag, data = chance.choice([None, 0, 1, 1 << 56, 2**64 - 1]), chance.randbytes(chance.randrange(9))
        sent.insert(chance.randrange(len(sent)), (tag, data))
    data = peers.HELLO + b"".join(peers.frame(*each) for each in sent)

    def drip() -> None:
        for at in range(0, len(data), pieces):
            raw.sendall(data[at : at + pieces])

    limits = Limits(read_ahead=read_ahead)
    with peers.heard(family=family, limits=limits) as (raw, connection), peers.beside(drip):
        assert [(tag, bytes(each)) for tag, each, _ in received(connection, len(sent))] == sent


def test_d003_a_body_of_more_than_4_gib_without_the_memory_for_it():
    rows = (4 << 30) // 8 + 8
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 8 * rows, flags=flags)  # zeros, which take no memory before they are written to
    memory[:8], memory[8 * rows - 8 :] = struct.pack("<q", 11), struct.pack("<q", 22)
    column = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(memory)])
    schema, message = messages_of(pa.record_batch([column], ["x"]))
    assert bytes(write_run(1, [message])[0]).endswith(HEADER.pack(1, 0, 0, 0, 1, 8 * rows))
    sent = [peers.metadata(0, schema.metadata), peers.metadata(1, message.metadata), (1, memoryview(memory))]
    decoder = StreamDecoder(validate="none")
    *_, found = [decoder.decode_next(message_of(each.metadata, each.body)) for each in peers.take_in(Incoming(), sent)]
    column = found.batch.column(0)
    assert (len(column), column[0], column[rows - 1]) == (rows, 11, 22)


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
    with peers.heard(greeting, head) as (_, connection), pytest.raises(error, match=f"the peer .*{words}"):
        received(connection, 1)


def test_d090_file_descriptors_that_belong_to_no_message_are_closed():
    with peers.heard(peers.HELLO) as (raw, connection):
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
        for where in (server.uri, server.uris):
            for ident in (*IDENTS, memoryview(b"view")):
                assert len(peers.read_from(where, ident)) == 3
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
            assert pa.table(peers.read_from(pair, b"ticket")).equals(table)
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
        assert pa.table(peers.read_from([server.uri, str(server.uri)])).equals(peers.numbers())


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
@pytest.mark.parametrize("way", peers.WAYS)
def test_d022_streams_at_once_do_not_mix(transport, way):
    tables = {str(n): peers.numbers(10 + n, batches=20) for n in range(8)}
    with dissociated.Server(tables, transport) as server, peers.opening(server, way) as open_it:

        def read(name: str) -> None:
            for _ in range(5):
                with open_it(name) as reader:
                    assert pa.table(reader.read_all()).equals(tables[name])

        in_threads(read, tables)
        assert server.num_clients <= 8 or way != "channel"


# -- what arrives --------------------------------------------------------------------------------------------


def described() -> ipc.RecordBatchStreamReader:
    """Batches with custom metadata of their own, of their schema and of a field."""
    schema = pa.schema([pa.field("x", pa.int8(), metadata={"f": "1"})], metadata={b"s": b"\xff", b"t": b""})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for i in range(3):
            writer.write_batch(pa.record_batch([pa.array([i], pa.int8())], schema=schema), {"number": str(i)})
    return ipc.open_stream(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("transport", "compression", "deltas"),
    [
        *(("unix", None, True), ("tcp", None, False), ("shm", None, True)),
        *(("tcp", "lz4", True), ("shm", "zstd", False)),
    ],
)
@pytest.mark.parametrize("way", peers.WAYS)
def test_d035_d036_d038_d040_d056_d063_d064_streams_are_the_same_over_every_transport_and_way(
    transport, compression, way, deltas
):
    """Of every shape, and type; dictionaries come before their users, custom metadata is kept."""
    given = peers.shapes()
    if deltas and way == "one":
        given |= {name: pa.table({"x": array}) for name, array in arrays.CASES.items()}
    streams = {**given, "described": described}
    options = {"compression": compression, "dictionary_deltas": deltas}
    with dissociated.Server(streams, transport, **options) as server, peers.opening(server, way) as open_it:
        for name, table in given.items():
            with open_it(name, validate="strict") as reader:
                assert pa.table(reader.read_all()).equals(table, check_metadata=True), name
                if name == "words":
                    # schema, first dictionary, batch, delta or replacement, batch, replacement, batch, batch
                    assert reader.decoder.stats == (8, 4, 3, int(deltas), 2 - deltas)
        with open_it("described") as reader:
            assert pa.schema(reader.schema).equals(pa.schema(described().schema), check_metadata=True)
            assert [dict(batch.custom_metadata)[b"number"] for batch in reader] == [b"0", b"1", b"2"]
        assert server.errors == []


GOLDEN = golden.cases()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.parent.name}-{case.name.removeprefix('generated_')}")
def test_d047_d058_golden_streams_of_every_version_and_byte_order_arrive(case):
    data = golden.load(case)
    first = 2**32 - 2
    sent = peers.dissociated(data.stream.read_bytes(), first)
    with peers.told(sent) as client, peers.numbered_from(first), peers.client_of((client,)) as reader:
        golden.assert_matches(data.json, reader.schema, list(reader))


# -- order and end -------------------------------------------------------------------------------------------


def test_d061_d062_d065_d067_300_orders_over_the_roll_over_give_the_same_messages():
    for seed in range(300):
        chance = random.Random(seed)
        size = chance.randrange(1, 12)
        first = (2**32 - chance.randrange(size + 2)) % 2**32
        sent = peers.dissociated(peers.written(peers.numbers(3, batches=size)), first)
        shuffled = chance.sample(sent, len(sent))
        with peers.numbered_from(first):
            incoming = Incoming()
            found = peers.take_in(incoming, shuffled)
        assert [(each.number - first) % 2**32 for each in found] == list(range(size + 1))
        bodies = [each.body for each in found if each.body is not None]
        assert bodies == [data for tag, data in sent if tag is not None]
        assert incoming.is_complete


def test_d068_the_metadata_connection_may_close_before_the_bodies_come():
    sent = peers.dissociated(peers.written(peers.numbers(3, 4)))
    metadata, bodies = ([peers.frame(*each) for each in sent if (each[0] is None) == kind] for kind in (True, False))
    with peers.heard(peers.HELLO, *metadata) as (gone, meta), peers.heard(peers.HELLO) as (raw, data):
        gone.shutdown(socket.SHUT_WR)
        with peers.client_of((meta, data)) as reader:
            for each in bodies:
                raw.sendall(each)
                assert reader.read_next_batch().num_rows == 3
            assert list(reader) == []


def test_each_connection_brings_its_own_stream():
    sent = peers.dissociated(peers.written(peers.numbers()))
    for strays, words in (
        (sent[1], "metadata over the connection for bodies"),
        (sent[2], "a body over .* for metadata"),
    ):
        (meta, meta_server), (data, data_server) = peers.socket_pair(), peers.socket_pair()
        meta_server.send(None, [sent[0][1]])
        with meta_server, data_server, peers.client_of((meta, data)) as reader:
            (data_server if strays[0] is None else meta_server).send(strays[0], [strays[1]])
            with pytest.raises(FormatError, match=words):
                reader.read_next_batch()


# -- channels ------------------------------------------------------------------------------------------------

SHARING = ("tcp", "unix", "shm")
NUMBERS = pa.table({"x": pa.array(range(1000))})
WORDS = pa.table({"w": pa.array(["a", "bc", None] * 100)})
BOTH = {"numbers": NUMBERS, "words": WORDS}


def offering(transport="tcp", streams=BOTH, **options):
    return dissociated.Server(streams, transport, transport_options=telling(transport), **options)


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


def test_a_channel_goes_on_whatever_became_of_its_streams_and_its_server():
    batches = pa.Table.from_batches(NUMBERS.to_batches(max_chunksize=100))
    options = {"streams": {"many": batches}, "want_data": 2**63 + 2**40}
    with offering(**options) as server:
        channel = dissociated.Channel(server.uri, timeout=SECONDS)
        for _ in range(3):
            with channel.read("many") as reader:  # which is left in the middle
                assert reader.read_next_batch().num_rows == 100
            with pytest.raises(FormatError, match="does not know the stream"):
                channel.read("nothing")
            assert values(channel.read("many")) == NUMBERS.to_pydict()
    with offering(address=("127.0.0.1", server.uri.port), **options) as server:
        reader = channel.read("many")
        channel.close()
        channel.close()
        assert values(reader) == NUMBERS.to_pydict()
        peers.until(lambda: server.num_clients == 0, "the connection ends with its stream")
        with pytest.raises(UsageError, match="channel is closed"):
            channel.read("many")


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


def test_a_client_is_an_iterator_that_says_how_far_it_is():
    with offering("unix") as server, dissociated.connect(server.uri, "numbers", timeout=SECONDS) as reader:
        assert repr(reader) == f"<Client: batches read: 0>\n{reader.schema}"
        assert next(reader).num_rows == 1000
        assert repr(reader).startswith("<Client: batches read: 1>\n")
        with pytest.raises(StopIteration):
            next(reader)
    assert repr(reader).startswith("<Client: closed>\n")


def test_a_second_thread_on_one_stream_is_refused_and_harms_nothing():
    with offering("unix") as server, dissociated.connect(server.uri, "numbers", timeout=SECONDS) as reader:
        # As another thread has it while it takes a step.
        with reader._turn, pytest.raises(UsageError, match="one thread at a time"):
            reader.read_next_batch()
        assert values(reader) == NUMBERS.to_pydict()
