"""Format checklist 1-20: prefixes, ends of streams, versions, kinds and order of messages, metadata."""

import io
import itertools
import struct

import pytest
from checklist.parts import ONE, ROWS, flat
from helpers import drive, forge
from helpers.drive import read_stream, refuse_at_every_level, refuse_stream
from helpers.forge import Table, batch, bits, dictionary, encoding, field, file, i8, i32, message, patch, schema, stream
from helpers.memory import at_most

import arrowipc as ipc
from arrowipc import ArrowIpcError, FormatError, LimitError, TruncatedError, UnsupportedError
from arrowipc.events import EndOfStream, SchemaRead

VALUES = [1, 2, 3]
SPARSE = schema(field("u", Table("Union", mode=0, typeIds=[4, 7]), field("a", forge.INT32), field("b", forge.INT32)))
SPARSE_V4 = batch(2, [(2, 0)] * 3, [bits(1, 1), i8(7, 4), b"", i32(1, 2), b"", i32(8, 9)])
SPARSE_V5 = batch(2, [(2, 0)] * 3, [i8(4, 7), b"", i32(1, 2), b"", i32(8, 9)])

BOTH = ("modern", "legacy")

#: Number of the case, a stream, and the values of the only column of each of its batches.
READ = [
    *[
        ("001, 005", stream(ONE, ROWS, eos=eos, prefix=prefix, version=version), [VALUES])
        for eos, prefix, version in itertools.product((forge.EOS, forge.LEGACY_EOS, b""), BOTH, (forge.V4, forge.V5))
    ],
    *[
        ("006", stream(message(ONE, prefix=a), message(ROWS, prefix=b), message(ROWS, prefix=c)), [VALUES] * 2)
        for a, b, c in itertools.product(BOTH, repeat=3)
    ],
    *[
        ("007", stream(ONE, ROWS, ROWS, pad=pad, prefix=prefix), [VALUES] * 2)
        for pad, prefix in itertools.product((0, 1, 4, 7, 13), BOTH)
    ],
    *[
        ("008", stream(ONE, *[message(ROWS, body=i32(1, 2, 3) + bytes(extra))] * 2, ROWS), [VALUES] * 3)
        for extra in (0, 1, 5)
    ],
    ("009", stream(ONE, message(ROWS, body=ROWS.body + b"\xaa" * 4096), ROWS), [VALUES] * 2),
    ("013", stream(message(ONE, version=forge.V4), message(ROWS, version=forge.V5)), [VALUES]),
    ("013", stream(message(ONE, version=forge.V5), message(ROWS, version=forge.V4)), [VALUES]),
    (
        "013 the layout of unions follows the version of each message",
        stream(message(SPARSE, version=forge.V4), SPARSE_V5, message(SPARSE_V4, version=forge.V4), SPARSE_V5),
        [[1, 9], [8, 2], [1, 9]],
    ),
]


@drive.rows_of(READ)
def test_is_read(row):
    _, data, expected = row
    assert [columns[0] for columns in read_stream(data).values()] == expected


NO_KEY = [("a", "b"), (None, "x")]
DIMS = [Table("TensorDim", size=2)]
TENSOR = Table("Tensor", i32(1, 2), type=forge.INT32, shape=DIMS, data=(0, 8))
SPARSE_TENSOR = Table("SparseTensor", type=forge.INT32, shape=DIMS, non_zero_length=0, data=(0, 0))
SIZES = [i32(-2), i32(-(2**31)), forge.CONTINUATION + i32(-1), forge.CONTINUATION + i32(-8)]
VERSIONS = {
    forge.V1: "V1|0",
    forge.V2: "V2|1",
    forge.V3: "V3|2",
    forge.V5 + 1: "V6|5",
    -1: "-1",
    32767: "32767",
    None: "V1|0",
}
NAMES = [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]

#: Bytes that begin a prefix and do not end it.
STRAYS = [b"\xff", b"\xff\xff", b"\0\0\0", *(forge.CONTINUATION + more for more in (b"", b"\x10", b"\x10\0\0"))]
HEAD = struct.unpack_from("<i", message(ROWS), 4)[0]
NEGATIVE = patch(message(ROWS), "header.length", -3)

#: Number of the case, a stream, the error at every level, and its words.
REFUSED = [
    *[("002", stream(ONE, ROWS, eos=stray), TruncatedError, "prefix|length|message") for stray in STRAYS],
    *[("003", stream(ONE, ROWS, size + bytes(64)), FormatError, "negative|-") for size in SIZES],
    *[
        ("010", stream(ONE, message(ROWS, body_length=length)), FormatError, "body", str(length))
        for length in (-1, -8, -(2**63))
    ],
    ("012", file(ONE, ROWS), FormatError, "file", "open_file"),
    *[("012", stream(ONE, p + i32(2**31 - 1) + bytes(64)), LimitError, "metadata") for p in (b"", forge.CONTINUATION)],
    *[("013", stream(ONE, ROWS, version=v), ArrowIpcError, "version", said) for v, said in VERSIONS.items()],
    *[("013", stream(ONE, message(ROWS, version=v)), ArrowIpcError, "version", said) for v, said in VERSIONS.items()],
    ("014", stream(ROWS), FormatError, "schema", "RecordBatch"),
    ("014", stream(dictionary(0, ROWS), ONE), FormatError, "schema", "DictionaryBatch"),
    ("014", stream(ONE, ROWS, ONE), FormatError, "schema"),
    *[("014", stream(*before, TENSOR), FormatError, "Tensor") for before in ((), (ONE,), (ONE, ROWS))],
    ("014", stream(ONE, SPARSE_TENSOR), FormatError, "SparseTensor"),
    *[("015", stream(ONE, message(ROWS, header_type=k)), FormatError, "header|message") for k in (0, 6, 99, 255)],
    *[("015", stream(message(ONE, header_type=k)), FormatError, "header|message") for k in (0, 6, 99, 255)],
    *[("015", stream(message(None, header_type=k)), FormatError, "header") for k in (None, 1, 3)],
    *[("015", stream(ONE, message(None, header_type=k)), FormatError, "header|schema") for k in (None, 1, 3)],
    ("016", stream(message(ONE, body=bytes(8)), ROWS), FormatError, "schema", "body"),
    *[("017", data, FormatError, "no schema") for data in (b"", forge.EOS, forge.LEGACY_EOS)],
    *[("018", stream(ONE, message(ROWS, metadata=m)), FormatError, "metadata", "key") for m in (NO_KEY, [("a", None)])],
    ("018", stream(schema(field("x", forge.INT32, metadata=NO_KEY)), ROWS), FormatError, "metadata", "key"),
    ("018", stream(schema(field("x", forge.INT32), metadata=NO_KEY), ROWS), FormatError, "metadata", "key"),
    *[("019", stream(schema(field(name, forge.INT32))), FormatError, "name", "UTF-8") for name in NAMES],
    *[
        ("019", stream(schema(field("s", forge.STRUCT, field(n, forge.INT32)))), FormatError, "name", "UTF-8")
        for n in NAMES
    ],
    ("019", stream(schema(field("t", Table("Timestamp", unit=0, timezone=b"\xff")))), FormatError, "timezone|UTF-8"),
    *[("ends early", stream(ONE, message(ROWS, size=size)), FormatError) for size in (1, 4, 8, 16, HEAD - 8)],
    ("named", stream(ONE, ROWS, NEGATIVE), FormatError, "message 3", "RecordBatch", "-3"),
]


@drive.rows_of(REFUSED)
def test_is_refused(row):
    refuse_at_every_level(*row[1:])


def test_001_end_of_stream_event_says_which_marker():
    ends = [drive.events(stream(ONE, eos=eos))[-1] for eos in (forge.EOS, forge.LEGACY_EOS, b"")]
    assert all(isinstance(end, EndOfStream) for end in ends)
    assert len({repr(end.marker) for end in ends}) == 3


@pytest.mark.parametrize("eos", [forge.EOS, forge.LEGACY_EOS])
def test_004_bytes_after_eos_are_ignored_and_not_consumed(eos):
    data = stream(ONE, ROWS, eos=eos)
    with ipc.open_stream(data + b"anything at all") as reader:
        assert [b.num_rows for b in reader] == [3]
        assert reader.bytes_consumed == len(data)
    assert drive.events(data + b"anything at all")[-1].bytes_consumed == len(data)


def test_004_streams_back_to_back_in_one_file_object():
    source = io.BytesIO(stream(ONE, ROWS) + stream(ONE, ROWS))
    for _ in range(2):
        assert ipc.open_stream(source).read_all().to_pydict() == {"x": VALUES}
    assert source.read() == b""


@pytest.mark.nosanitize
@pytest.mark.parametrize("length", [24, 1 << 40, (1 << 62) + 8, 2**63 - 1, 2**63 - 8])
def test_011_huge_body_length_is_truncated_without_allocating(length):
    with at_most(256 << 20):
        refuse_at_every_level(stream(ONE, message(ROWS, body_length=length), eos=b""), FormatError, "body|length")


def test_a_decoder_without_a_schema_decodes_no_message():
    for found in ipc.MessageReader.open_stream(stream(ONE, message(ROWS))):
        with pytest.raises(ipc.UsageError, match="takes a RecordBatch message that next_stored"):
            ipc.StreamDecoder().decode(found)


def test_011_the_push_decoder_offers_bounded_memory():
    decoder = ipc.StreamDecoder(limits=ipc.Limits(read_ahead=1 << 20))
    decoder.feed(stream(ONE, message(ROWS, body_length=1 << 40), eos=b""))
    assert isinstance(decoder.next_event(), SchemaRead)
    assert decoder.next_event() is None
    assert 0 < len(decoder.get_buffer()) <= (1 << 20) + 4096
    with pytest.raises(TruncatedError):
        decoder.finish()


def test_012_metadata_limit_is_settable():
    wide = schema(*[field(f"column {i}", forge.INT32) for i in range(100)])
    refuse_stream(stream(wide), LimitError, "metadata", "1,?024", limits=ipc.Limits(metadata_bytes=1024))
    assert len(read_stream(stream(wide), limits=ipc.Limits(metadata_bytes=1 << 16)).schema) == 100


PAIRS = ((b"k", b"1"), (b"other", b"\xff\x00"), (b"k", b"2"), (b"", b""))


def test_018_message_metadata_on_every_kind():
    coded = schema(field("d", forge.UTF8, dictionary=encoding(0)), metadata=PAIRS)
    words = dictionary(0, forge.texts("a"))
    rows = flat(1, b"", i32(0))
    data = stream(*(message(part, metadata=PAIRS) for part in (coded, words, rows)), message(rows))
    assert [m.custom_metadata.pairs for m in ipc.MessageReader(data)] == [PAIRS] * 3 + [()]
    with ipc.open_stream(data) as reader:
        assert reader.schema.metadata.pairs == PAIRS
        first, metadata = reader.read_next_batch_with_custom_metadata()
        assert metadata.pairs == PAIRS == first.custom_metadata.pairs
        second, metadata = reader.read_next_batch_with_custom_metadata()
        assert not metadata
        assert not second.custom_metadata


def test_020_nul_in_a_name_is_kept_and_not_exported():
    below = field("s", forge.STRUCT, field("fi\0ne", forge.INT32))
    zoned = field("t", Table("Timestamp", timezone="UTC\0x"))
    rows = batch(1, [(1, 0)] * 4, [b"", i32(1), b"", b"", i32(2), b"", bytes(8)])
    reading = read_stream(stream(schema(field("a\0b", forge.INT32), below, zoned), rows))
    (found,) = reading.batches
    assert reading.schema.names == ["a\0b", "s", "t"]
    assert found.select([0, 1]).to_pylist() == [{"a\0b": 1, "s": {"fi\0ne": 2}}]
    exports = [reading.schema.__arrow_c_schema__, found.__arrow_c_array__, found.__arrow_c_stream__]
    exports += [found["s"].__arrow_c_array__, reading.schema["t"].__arrow_c_schema__]
    for export in exports:
        with pytest.raises(UnsupportedError, match=r"column '(a\\x00b|s\.fi\\x00ne|t)'.*NUL"):
            export()


def test_framing_an_error_poisons_the_decoder():
    decoder = ipc.StreamDecoder()
    decoder.feed(stream(ONE, message(ROWS, body_length=-8)))
    with pytest.raises(FormatError) as first:
        list(decoder)
    for call in (decoder.next_event, decoder.finish, lambda: decoder.feed(b"x")):
        with pytest.raises(ipc.UsageError) as later:
            call()
        assert str(first.value)[:30] in str(later.value)
