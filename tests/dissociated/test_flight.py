"""Flight as the control plane: GetFlightInfo leads to what DoGet gives, by the best way that both speak."""

import contextlib
import threading
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from helpers import arrow_columns

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated import flight
from arrowipc.dissociated.flight import from_flight, locations, ways

#: A port that nobody listens at: reserved, and refused at once on loopback.
NOBODY = "arrowipc+tcp://127.0.0.1:1?want_data=18446741783881759408"
UNKNOWN = "fabric://10.9.8.7:1?want_data=18446741783881759408"

WORDS = [
    pa.record_batch({"d": pa.array(words).dictionary_encode(), "x": [1, 2]}) for words in (["a", "b"], ["c", None])
]
#: What is served: every type, dictionaries that are replaced, no rows at all, and several batches.
STREAMS = {
    "everything": pa.table(arrow_columns.everything()),
    "dictionaries": pa.Table.from_batches(WORDS),
    "empty": pa.table({"x": pa.array([], pa.int32())}),
    "many": pa.Table.from_batches(pa.table({"x": range(100_000)}).to_batches(max_chunksize=1000)),
    "opened anew": lambda: pa.table({"y": ["once", "more"]}),
    "names/with a slash": pa.table({"z": [1.5]}),
}


class FlightServer(fl.FlightServerBase):
    """Says where streams are to be had of a dissociated server, and serves DoGet of them."""

    def __init__(self, server, separate):
        self.uris = flight.locations(server)
        self.places = flight.locations(server, separate=separate, do_get=True)
        super().__init__("grpc://127.0.0.1:0")

    def table(self, name):
        if name.decode() not in STREAMS:
            raise KeyError(f"there is no stream {name!r}")
        source = STREAMS[name.decode()]
        return source() if callable(source) else source

    def get_flight_info(self, context, descriptor):
        endpoint = fl.FlightEndpoint(descriptor.command, self.places)
        return fl.FlightInfo(self.table(descriptor.command).schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context, ticket):
        return fl.RecordBatchStream(self.table(ticket.ticket))


@contextlib.contextmanager
def running(transport, separate=False):
    """A Flight server, and a client of it."""
    with (
        dissociated.Server(STREAMS, transport) as server,
        FlightServer(server, separate) as front,
        fl.connect(f"grpc://127.0.0.1:{front.port}") as client,
    ):
        yield client, front


@pytest.fixture(scope="module", params=["tcp", "unix", "tcp,separate"])
def peer(request):
    transport, _, separate = request.param.partition(",")
    with running(transport, bool(separate)) as (client, _):
        yield client


@pytest.fixture(scope="module")
def there():
    with running("tcp") as found:
        yield found


def info_of(client, name):
    return client.get_flight_info(fl.FlightDescriptor.for_command(name.encode()))


@pytest.mark.parametrize("name", STREAMS)
def test_d091_a_flight_leads_to_the_stream_that_do_get_gives(peer, name):
    info = info_of(peer, name)
    with from_flight(info, timeout=20) as reader:
        assert all(source.startswith("arrowipc+") for source in reader.sources), reader.sources
        ours = pa.table(reader.read_all())
    theirs = peer.do_get(info.endpoints[0].ticket).read_all()
    assert ours.equals(theirs)
    assert ours.schema.equals(info.schema)
    by_do_get = fl.FlightEndpoint(name.encode(), [flight.REUSE_CONNECTION])
    with from_flight(by_do_get, client=peer) as reader:
        assert reader.sources == ["DoGet over the given client"]
        assert pa.table(reader.read_all()).equals(theirs)


def test_d091_batches_arrive_one_at_a_time_and_columns_mean_the_same_by_either_way(there):
    client, _ = there
    for endpoint in (info_of(client, "many").endpoints[0], fl.FlightEndpoint(b"many", [])):
        with from_flight(endpoint, client=client, timeout=20) as reader:
            assert reader.read_next_batch().num_rows == 1000
            assert next(iter(reader)).to_pydict()["x"][0] == 1000
            rest = list(reader)
            assert len(rest) == 98
            with pytest.raises(StopIteration):
                reader.read_next_batch()
        # The batches outlive their reader.
        assert rest[-1].to_pydict()["x"][-1] == 99_999
    for endpoint in (info_of(client, "dictionaries").endpoints[0], fl.FlightEndpoint(b"dictionaries", [])):
        with from_flight(endpoint, client=client, columns=["d"], timeout=20) as reader:
            assert [each.name for each in reader.schema.fields] == ["d"]
            assert reader.read_all().to_pydict() == {"d": ["a", "b", "c", None]}


def test_d091_a_flight_of_several_endpoints_is_read_in_their_order(there):
    client, front = there
    ways_to_many = [
        fl.FlightEndpoint(b"many", front.uris),
        fl.FlightEndpoint(b"many", [flight.REUSE_CONNECTION]),
        fl.FlightEndpoint(b"many", [f"grpc://127.0.0.1:{front.port}"]),
    ]
    info = fl.FlightInfo(pa.schema([("x", pa.int64())]), fl.FlightDescriptor.for_command(b""), ways_to_many)
    with from_flight(info, client=client, timeout=20) as reader:
        values = [value for batch in reader for value in batch.to_pydict()["x"]]
        kinds = [source.split(":")[0] for source in reader.sources]
    assert kinds == ["arrowipc+tcp", "DoGet over the given client", "DoGet grpc"]
    assert values == [*range(100_000)] * 3


def test_d091_endpoints_of_different_schemas_are_no_one_stream(there):
    client, front = there
    endpoints = [fl.FlightEndpoint(name, front.uris) for name in (b"many", b"empty")]
    info = fl.FlightInfo(pa.schema([]), fl.FlightDescriptor.for_command(b""), endpoints)
    with (
        from_flight(info, client=client, timeout=20) as reader,
        pytest.raises(ipc.FormatError, match="endpoint 1 has another schema"),
    ):
        reader.read_all()


def test_d091_a_flight_without_endpoints_has_its_schema_and_no_batches():
    info = fl.FlightInfo(pa.schema([("x", pa.int8())]), fl.FlightDescriptor.for_command(b""), [])
    with from_flight(info) as reader:
        assert reader.read_all().num_rows == 0
        assert reader.schema.fields[0].name == "x"


def test_d008_unknown_schemes_and_dead_and_full_servers_are_passed_over(there):
    client, front = there
    broken = "arrowipc+tcp://127.0.0.1:1?want_data=-1"
    lost = "arrowipc+unix:///nowhere/at/all?want_data=18446741783881759408&streams=both"
    dead = NOBODY + "&streams=both"
    with (
        dissociated.Server(STREAMS, "tcp", max_clients=1) as full,
        dissociated.connect(full.uri, "many", timeout=20),
        from_flight(
            fl.FlightEndpoint(
                b"many", [UNKNOWN, "http://[::1]:1/x", broken, lost, dead, f"{full.uri}&streams=both", *front.uris]
            ),
            client=client,
            timeout=20,
        ) as reader,
    ):
        assert reader.sources == front.uris
        assert reader.read_all().num_rows == 100_000


def test_d008_without_any_way_the_error_says_why_for_each():
    endpoint = fl.FlightEndpoint(b"x", [UNKNOWN, flight.REUSE_CONNECTION])
    with pytest.raises(ipc.UnsupportedError, match=r"(?s)give the client.*no transport speaks 'fabric'"):
        from_flight(endpoint)
    with pytest.raises(NotImplementedError, match="give a client for DoGet"):
        from_flight(fl.FlightEndpoint(b"x", [UNKNOWN]))
    for location in ("grpc+bogus://x", "grpc", "grpc+tcp://[::1"):
        with pytest.raises(ipc.UnsupportedError, match="give a client for DoGet"):
            from_flight(SimpleNamespace(ticket=fl.Ticket(b"x"), locations=[location]))
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        from_flight(fl.FlightEndpoint(b"x", [NOBODY]), timeout=20)


def test_d008_schemes_that_are_not_wanted_are_passed_over(there):
    client, front = there
    endpoint = fl.FlightEndpoint(b"many", front.uris)
    with from_flight(endpoint, client=client, schemes=()) as reader:
        assert reader.sources == ["DoGet over the given client"]
    with pytest.raises(ipc.UnsupportedError, match=r"not among schemes= 'arrowipc\+tcp'"):
        from_flight(endpoint, schemes=("arrowipc+unix",))


def test_d008_a_server_that_refuses_the_ticket_is_not_gone_round(there):
    client, front = there
    with pytest.raises(ipc.FormatError, match="does not know the stream"):
        from_flight(fl.FlightEndpoint(b"no such stream", front.uris), client=client, timeout=20)
    with pytest.raises(OSError, match="no such stream"):
        from_flight(fl.FlightEndpoint(b"no such stream", []), client=client, timeout=20)


TAGS = {"a": 0xFFFFFDEADBA0BAB0, "b": 0x0FFFFDEADBA0BAB0, "c": 0x1FFFFDEADBA0BAB0}
#: Locations (ours: port, tag and parameters) -> ports of each way: of both streams, or of metadata and data.
WAYS = {
    "1a": [[1]],
    "1a 2b": [[1, 2]],
    f"{UNKNOWN} 1a {flight.REUSE_CONNECTION} 2b": [[1, 2]],
    "1a 2a": [[1], [2]],  # the same tag: the same stream at two places
    "1a&streams=both 2b&streams=both": [[1], [2]],
    "1a&streams=both 2b": [[1], [2]],
    "1a&streams=data 2b&streams=meta": [[2, 1]],
    "1a&streams=data 2b": [[2]],
    "1a 2b 3c": [[1], [2], [3]],
}


def located(words):
    return [w if ":" in w else f"ucx://h:{w[0]}?want_data={TAGS[w[1]]}{w[2:]}" for w in words.split()]


@pytest.mark.parametrize("words", WAYS)
def test_d092_two_uris_of_different_want_data_are_metadata_and_data_unless_streams_says_otherwise(words):
    assert [[uri.port for uri in way] for way in ways(located(words))[0]] == WAYS[words]


def test_d092_what_is_wrong_with_a_location_is_said():
    assert "the URI of the other stream is missing" in ways(located("1a&streams=data 2b"))[1][0]
    assert ways(["arrowipc+tcp://[::1?want_data=1"]) == ([], ["arrowipc+tcp://[::1?want_data=1: Invalid IPv6 URL"])


def test_d092_alternatives_that_we_hand_out_are_not_taken_for_a_pair():
    streams = {"x": pa.table({"x": [1, 2]})}
    with dissociated.Server(streams, "unix") as near, dissociated.Server(streams, "tcp") as far:
        found, _ = ways(locations(near, far, do_get=True))
        assert [way[0].scheme for way in found] == ["arrowipc+unix", "arrowipc+tcp"]
        near.close()
        endpoint = fl.FlightEndpoint(b"x", locations(near, far))
        with from_flight(endpoint, timeout=20) as reader:
            assert reader.sources[0].startswith("arrowipc+tcp")
            assert reader.read_all().to_pydict() == {"x": [1, 2]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"verify": "x"}, "verify must be True or False"),
        ({"ensure_native_endian": 5}, "ensure_native_endian must be True or False"),
        ({"validate": "x"}, 'validate must be "none", "full" or "strict"'),
        ({"limits": 5}, "limits must be a Limits"),
        ({"columns": 5.0}, "columns"),
        ({"timeout": 0}, "timeout: expected seconds"),
    ],
)
def test_wrong_options_are_refused_whatever_a_flight_leads_to(there, options, words):
    client, front = there
    empty = fl.FlightInfo(pa.schema([]), fl.FlightDescriptor.for_command(b""), [])
    for info in (empty, *(fl.FlightEndpoint(b"many", places) for places in (front.uris, []))):
        with pytest.raises(ipc.UsageError, match=words):
            from_flight(info, client=client, **options)


def test_options_mean_the_same_by_either_way(there):
    client, front = there
    for places in ([NOBODY + "&streams=both", front.uris[0] + "&streams=both"], []):
        endpoint = fl.FlightEndpoint(b"many", places)
        with pytest.raises(ipc.FormatError, match="it has no checksum"):
            from_flight(endpoint, client=client, timeout=20, verify=True)
        for chosen in ({"verify": None}, {"ensure_native_endian": False}, {"columns": iter(["x"])}):
            with from_flight(endpoint, client=client, timeout=20, **chosen) as reader:
                assert reader.read_all().to_pydict() == {"x": [*range(100_000)]}


def test_what_is_no_flight_is_refused():
    with pytest.raises(ipc.UsageError, match="expected a FlightInfo or a FlightEndpoint"):
        from_flight("grpc://127.0.0.1:1")


def test_a_closed_reader_says_so(there):
    client, front = there
    reader = from_flight(fl.FlightEndpoint(b"many", front.uris), client=client, timeout=20)
    assert repr(reader) == f"<FlightReader: endpoints opened: 1>\n{reader.schema}"
    reader.close()
    reader.close()
    assert repr(reader).startswith("<FlightReader: closed>\n")
    with pytest.raises(ipc.UsageError, match="closed"):
        reader.read_next_batch()
    with contextlib.closing(from_flight(fl.FlightEndpoint(b"many", []), client=client)) as reader:
        reader.read_next_batch()  # and the call is ended in its midst


class Troubled(fl.FlightServerBase):
    """Says nothing more from some point on, or fails."""

    def __init__(self):
        self.gate = threading.Event()
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, context, ticket):
        def batches():
            yield WORDS[0]
            if ticket.ticket == b"fails":
                raise OSError(5, "the disk is gone")
            self.gate.wait(60)

        if ticket.ticket == b"schema":
            self.gate.wait(60)
        return fl.GeneratorStream(WORDS[0].schema, batches())


@pytest.mark.parametrize("stage", ["schema", "batches"])
def test_a_wait_for_do_get_ends_by_default(stage, monkeypatch):
    monkeypatch.setattr(flight, "TIMEOUT", 0.3)
    with Troubled() as server, fl.connect(f"grpc://127.0.0.1:{server.port}") as client:
        with pytest.raises(TimeoutError, match=r"DoGet: waited 0.3 s .* \(timeout= waits longer, None for ever\)"):
            list(from_flight(fl.FlightEndpoint(stage.encode(), []), client=client))
        server.gate.set()


def test_what_fails_in_the_source_reaches_who_reads_by_do_get_and_is_no_end():
    with Troubled() as server, fl.connect(f"grpc://127.0.0.1:{server.port}") as client:
        reader = from_flight(fl.FlightEndpoint(b"fails", []), client=client)
        with reader:
            with pytest.raises(OSError, match="the disk is gone"):
                reader.read_all()
            for read in (reader.read_all, reader.read_next_batch, lambda: list(reader)):
                with pytest.raises(ipc.UsageError, match=r"cannot continue: an error ended it: .*the disk is gone"):
                    read()


def test_an_endpoint_that_cannot_be_read_is_no_end(there):
    _, front = there
    endpoints = [fl.FlightEndpoint(b"many", places) for places in (front.uris, [NOBODY], front.uris)]
    info = fl.FlightInfo(pa.schema([("x", pa.int64())]), fl.FlightDescriptor.for_command(b""), endpoints)
    reader = from_flight(info, timeout=20)
    with pytest.raises(ConnectionError, match="no location of the endpoint can be read"):
        reader.read_all()
    with pytest.raises(ipc.UsageError, match=r"cannot continue: an error ended it: no location"):
        reader.read_all()


def test_a_reader_that_is_closed_while_it_is_iterated_does_not_seem_complete(there):
    client, front = there
    for places in (front.uris, []):
        reader = from_flight(fl.FlightEndpoint(b"many", places), client=client, timeout=20)
        batches = iter(reader)
        next(batches)
        reader.close()
        with pytest.raises(ipc.UsageError, match="cannot continue: it was closed"):
            next(batches)


def test_a_second_thread_on_one_flight_is_refused_and_harms_nothing(there):
    client, _ = there
    with from_flight(fl.FlightEndpoint(b"many", []), client=client, timeout=20) as reader:
        # As another thread has it while it reads.
        with reader._turn, pytest.raises(ipc.UsageError, match="one thread at a time"):
            reader.read_next_batch()
        assert reader.read_all().num_rows == 100_000
