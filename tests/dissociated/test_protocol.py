"""The rules of Dissociated IPC without any transport; `d027` in a name is a number of the conformance checklist."""

import base64
import struct

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import pairs_of
from helpers import forge

import arrowipc as ipc
from arrowipc import Limits
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated import DissociatedUri
from arrowipc.dissociated.conformance.vectors import vectors
from arrowipc.dissociated.memory.address_pairs import Pairs, write_pairs
from arrowipc.dissociated.protocol import (
    Incoming,
    check_offered_tag,
    free_data_body,
    parse_free_data,
)
from arrowipc.dissociated.session import Roles
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import FormatError, LimitError, UsageError

STREAM = peers.written(peers.numbers(3, batches=2))
PARTS = peers.parts_of(STREAM)
SCHEMA, BATCH, BODY = PARTS[0][1], PARTS[1][1], PARTS[1][2]


def begun(**options) -> Incoming:
    """A stream whose schema was taken."""
    incoming = Incoming(**options)
    (schema,) = peers.take_in(incoming, [peers.metadata(0, SCHEMA)])
    assert schema.body is None
    return incoming


# -- metadata ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", range(9))
def test_d030_the_flatbuffer_may_lie_at_any_address(shift):
    decoder = StreamDecoder()
    for _, head, rest in PARTS:
        moved = memoryview(bytes(shift) + head)[shift:]
        event = decoder.decode_next(message_of(moved, memoryview(bytes(8) + rest)[8:]))
    assert event.batch.to_pydict() == {"x": [3, 4, 5], "s": ["3", "4", "5"]}


def test_metadata_that_is_longer_than_the_limit_is_refused():
    with pytest.raises(LimitError, match=r"metadata of message 0: .* more than Limits.metadata_bytes = 64"):
        Incoming(Limits(metadata_bytes=64)).receive_metadata(peers.metadata(0, SCHEMA)[1])


# -- the table of the conformance check ------------------------------------------------------------------------

#: What the errors say, by the words of the vector.
SAYS = {
    "S =0200000000 M1 B1 E2": "type 0 .* or 1 .*, found 2",
    "S =ff00000000 M1 B1 E2": "type 0 .* or 1 .*, found 255",
    "M1@0 B1@0 E1": "message 0 is a RecordBatch message: the first message .* its schema",
    "S@1 M1@2 B1@2 E3": "message 1 is a Schema message: the first message of a stream, 0,",
    "=01 E1": "a prefix of 5 bytes, this one has 1 in all",
    "=0100000000 E1": "^metadata of message 0: ",
    "S M1 B1 =000200000000": "the end of the stream has 5 bytes, found 6",
    "S M1 B1 E1": "the stream ends before message 1, and 2 is the next one",
    "E0": "ends before its schema: it does not know the stream",
    "S S@1 M1@2 B1@2 E3": "message 1 is a Schema message",
    "S M1 E2 E2 B1": "a second end of the stream, at 2; the first one was at 2",
    "S M1 E2 M2 B1 B2": "metadata of message 2 arrived, and the stream ends before 2",
    "S B1@3 E2 M1 B1": "ends before message 2, and a body of 3 is there",
    "S E0 M1 B1 E2": "ends before message 0, and 1 is the next one",
    "S B1@0 M1 B1 E2": "body of message 0 arrived when 1 is the next one",
    "B1@0 S M1 B1 E2": "message 0 is the schema, and a body arrived for it",
    "S M1 B1@0x100000001 E2": "body of message 1: bits 32-55 of its tag .* are reserved and not 0",
    "S M1 B1@0x200000000000001 E2": "body of message 1: the types are .*, found 2",
    "S B1 B1 M1 E2": "the body of message 1 arrived twice",
    "S M1 B1 B2 E2": "the stream ends before message 2, and a body of 2 is there",
    "S M1 M1 B1 E2": "metadata of message 1 arrived twice",
    "S M1 B1 S M2 B2 E3": "when 2 is the next one: it was there already, or is too old",
    "S M1 E2 lost": "lost before the body of message 1 arrived",
    "S M2 B2 E3 lost": "lost before the metadata of message 1 arrived",
    f"S M1@{2**31} E2": "while message 1 is still missing: more than max_waiting = 65,536",
}


@pytest.mark.parametrize("vector", [each for each in vectors() if not each.has_pairs], ids=lambda each: f"d{each.name}")
def test_messages_are_read_or_refused_as_the_table_says(vector):
    if vector.values is not None:
        assert peers.read(vector.messages).to_pydict() == vector.values
        return
    with pytest.raises(FormatError, match=SAYS.get(vector.words)):
        peers.read(vector.messages)


def test_messages_of_other_kinds_are_refused():
    tensor = forge.Table("Tensor", type=forge.INT64, shape=[forge.Table("TensorDim", size=1)], data=(0, 8))
    message = peers.metadata(1, forge.message(tensor, body=bytes(8))[8:])
    with pytest.raises(FormatError, match="message 1 is a Tensor message, which does not belong"):
        peers.take_in(begun(), [message])


# -- bounds --------------------------------------------------------------------------------------------------


def test_d090_more_bytes_than_may_wait_are_refused_but_not_those_that_all_wait_for():
    incoming = begun(max_waiting_bytes=1000)
    peers.take_in(incoming, [peers.body(2, bytes(2000))])
    with pytest.raises(LimitError, match=r"body of message 3 arrived .* 2,000 bytes wait .* max_waiting_bytes = 1,000"):
        peers.take_in(incoming, [peers.body(3, b"")])
    last = [peers.body(1, BODY), peers.metadata(1, BATCH)]
    assert [each.number for each in peers.take_in(incoming, last)] == [1]


def test_the_connection_that_is_ahead_waits_for_the_other():
    incoming = begun(max_waiting=10)
    assert incoming.wants("metadata")
    assert incoming.wants("data")
    for number in range(1, 6):
        incoming.receive_metadata(peers.metadata(number, BATCH)[1])
    assert not incoming.wants("metadata")
    assert incoming.wants("data")
    peers.take_in(incoming, [peers.body(number, BODY) for number in range(1, 6)])
    assert incoming.wants("metadata")
    for number in range(6, 11):
        incoming.receive_body(*peers.body(number, BODY))
    assert incoming.wants("metadata")
    assert not incoming.wants("data")


# -- URIs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 2**63, 2**64 - 1, 0xFFFF_FDEA_DBA0_BAB0, 0x0000_0DEA_DBA0_BAB0])
def test_d009_d010_tags_are_any_u64(value):
    uri = DissociatedUri.parse(f"ucx://h:1?want_data={value}")
    assert uri.want_data == value
    assert uri.free_data is None
    assert DissociatedUri.parse(f"ucx://h:1?want_data=77&free_data={value}").free_data == value


NO_U64 = ("", "-1", "+1", "1.0", "0x10", "18446744073709551616", "1" * 40, "٣", "1_0", " 1", "None")
#: Numbers of the checklist, what the error says, and URIs.
REFUSED_URIS = {
    "d009 want_data is a decimal number below 2.*64": [f"ucx://h:1?want_data={value}" for value in NO_U64],
    "d010 free_data is a decimal number below 2.*64": [f"ucx://h:1?want_data=1&free_data={value}" for value in NO_U64],
    "d009 the URI has no want_data": ["ucx://h:1", "ucx://h:1?free_data=1", "ucx://h:1?wantdata=1", "", "?", "x"],
    "d013 remote_handle is base64": [
        f"ucx://h:1?want_data=3&remote_handle={text}" for text in ("A", "!!!!", "AA=A", "%FF%FE", "AAAAA")
    ],
    **{
        f"d014 {name} is given twice": [f"ucx://h:1?{name}=1&want_data=3&{name}=1"]
        for name in ("want_data", "free_data", "remote_handle", "streams")
    },
    "d015 the same tag, 7: they must differ": ["ucx://h:1?want_data=7&free_data=7"],
    "d016 not a URI": [f"ucx://{place}?want_data=1" for place in ("[::1", "h:port", "h:99999")],
    'd016 streams is "both", "meta" or "data"': ["ucx://h:1?want_data=1&streams=all"],
}


@pytest.mark.parametrize("words", REFUSED_URIS)
def test_uris_that_break_a_rule_are_refused(words):
    for uri in REFUSED_URIS[words]:
        with pytest.raises(FormatError, match=words[5:]):
            DissociatedUri.parse(uri)


HANDLES = [b"", b"\0", b"\xfb\xff\xfe", b"memfd", bytes(range(256)), b">>>???"]


@pytest.mark.parametrize("handle", HANDLES, ids=repr)
def test_d013_remote_handles_survive_percent_encoding_and_form_decoding(handle):
    uri = DissociatedUri("ucx", "h", 1, want_data=3, remote_handle=handle)
    query = str(uri).partition("?")[2]
    assert not set("+/ ") & set(query)
    assert DissociatedUri.parse(str(uri)) == uri
    standard, urlsafe = base64.b64encode(handle).decode(), base64.urlsafe_b64encode(handle).decode()
    for text in (standard, urlsafe, standard.rstrip("="), urlsafe.rstrip("="), standard.replace("+", " ")):
        assert DissociatedUri.parse(f"ucx://h:1?want_data=3&remote_handle={text}").remote_handle == handle


def test_d014_unknown_parameters_are_ignored():
    uri = DissociatedUri.parse("ucx://h:1?a=1&a=2&want_data=3&b&=&WANT_DATA=9#part")
    assert uri == DissociatedUri("ucx", "h", 1, want_data=3)
    with pytest.raises(UsageError, match="expected a str"):
        DissociatedUri.parse(b"ucx://h:1?want_data=1")


def test_d015_servers_offer_no_tag_that_a_body_could_have():
    tags = [new_tag() for _ in range(2000)]
    assert len(set(tags)) == 2000
    for tag in tags:
        check_offered_tag(tag)
    for bad in (0, 5, 1 << 56 | 1 << 40, 2 << 56, 0x0000_0DEA_DBA0_BAB0, 1 << 64, -1):
        with pytest.raises(UsageError, match="a top byte of 2 or more"):
            check_offered_tag(bad)
        with pytest.raises(UsageError, match="a top byte of 2 or more"):
            Roles({tags[0]: "both"}, bad)
    with pytest.raises(UsageError, match="the same tag"):
        Roles({tags[0]: "both"}, tags[0])


@pytest.mark.parametrize(
    "uri",
    [
        DissociatedUri("ucx", "10.0.0.1", 31337, want_data=2**64 - 1, free_data=1, remote_handle=b"\xfb\xff"),
        DissociatedUri("arrowipc+tcp", "::1", 80, want_data=1),
        DissociatedUri("arrowipc+tcp", "2001:db8::7", 80, want_data=1, streams="data"),
        DissociatedUri("arrowipc+unix", path="/run/a b/ü?#%+&=;é.sock", want_data=1, streams="meta"),
        DissociatedUri("arrowipc+unix", path="/@abstract-1", want_data=1),
        DissociatedUri("arrowipc+unix", path="/no\udcffutf8", want_data=1),
    ],
    ids=str,
)
def test_d016_uris_survive_text_and_a_flight_location(uri):
    assert DissociatedUri.parse(str(uri)) == uri
    assert str(uri).isascii()
    flight = pytest.importorskip("pyarrow.flight")
    assert flight.Location(str(uri)).uri.decode() == str(uri)
    endpoint = flight.FlightEndpoint(b"ticket", [str(uri)])
    back = flight.FlightEndpoint.deserialize(endpoint.serialize()).locations[0].uri.decode()
    assert back == str(uri)
    assert hash(DissociatedUri.parse(back)) == hash(uri)


@pytest.mark.parametrize("parts", [{"path": "/\ud800"}, {"host": "a:b"}, {"host": "\u0130"}])
def test_d016_parts_that_no_uri_can_have_are_refused(parts):
    with pytest.raises(FormatError, match=r"host .*of a URI"):
        DissociatedUri("ucx", **parts, want_data=1)


# -- leases --------------------------------------------------------------------------------------------------


def test_d074_free_data_is_one_or_more_u64():
    assert parse_free_data(free_data_body([0, 1, 2**64 - 1])) == (0, 1, 2**64 - 1)
    for size in (0, 1, 7, 9, 1001):
        with pytest.raises(FormatError, match=f"8 bytes for each of at least one address, found {size}"):
            parse_free_data(bytes(size))


# -- pairs ---------------------------------------------------------------------------------------------------


VALUES = {"x": [1, None, 3], "s": ["a", "", "ccc"]}
MESSAGE = ipc.RecordBatch.from_arrow(pa.table(VALUES)).to_message()
ADDRESS = 0x7FFF_0000_1000


def test_d048_d049_d050_d051_d083_pairs_are_two_words_and_one_pair_per_buffer():
    data = write_pairs(MESSAGE, ADDRESS)
    assert len(data) % 16 == 0
    found = Pairs(data)
    assert found.count == len(MESSAGE.buffers)
    assert struct.unpack_from("<QQ", data) == (sum(n for _, n in found.places), found.count)
    for buffer, place in zip(MESSAGE.buffers, struct.iter_unpack("<QQ", data[16:]), strict=True):
        assert place == (0, 0) if len(buffer) == 0 else place[1] >= len(buffer)
    assert found.total == MESSAGE.body_length
    assert found.addresses == [at for at, n in found.places]
    assert 0 not in found.addresses
    metadata = bytes(MESSAGE.metadata)
    before = bytes(bytearray(metadata))
    memory = b"\xee" * 64 + bytes(MESSAGE.body) + b"\xee" * 32
    decoder = StreamDecoder(validate="strict")
    decoder.decode_next(message_of(SCHEMA))
    assert decoder.decode_next(found.message(metadata, memory, ADDRESS - 64)).batch.to_pydict() == VALUES
    assert metadata == before  # it is left alone


def test_d049_the_total_is_the_sum_or_the_body_length():
    assert Pairs(pairs_of((64, 8), (128, 16), total=32), 32).total == 24
    for body_length in ((), (32,)):
        with pytest.raises(FormatError, match="have 24 bytes together, and it says 25"):
            Pairs(pairs_of((64, 8), (128, 16), total=25), *body_length)
