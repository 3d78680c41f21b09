"""Format checklist 1-20: prefixes, ends of streams, versions, kinds and order of messages, metadata."""

from __future__ import annotations

import io
import itertools
import struct

import pytest
from helpers import drive
from helpers.drive import column, read_stream, refuse_stream
from helpers.forge import (
    CONTINUATION,
    EOS,
    INT32,
    LEGACY_EOS,
    UTF8,
    V1,
    V2,
    V3,
    V4,
    V5,
    Table,
    batch,
    bits,
    dictionary,
    encoding,
    field,
    file,
    i8,
    i32,
    message,
    patch,
    schema,
    stream,
)
from helpers.memory import forget_peak, peak

import arrowipc as ipc
from arrowipc import FormatError, LimitError, TruncatedError
from arrowipc.events import EndOfStream, SchemaRead

ONE = schema(field("x", INT32))
ROWS = batch(3, [(3, 0)], [b"", i32(1, 2, 3)])
VALUES = [1, 2, 3]


@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize("prefix", ["modern", "legacy"])
@pytest.mark.parametrize("eos", [EOS, LEGACY_EOS, b""], ids=["modern eos", "legacy eos", "no eos"])
def test_001_every_end_of_stream_is_clean(eos, prefix, version):
    assert column(stream(ONE, ROWS, eos=eos, prefix=prefix, version=version)) == VALUES


def test_001_end_of_stream_event_says_which_marker():
    ends = {name: drive.events(stream(ONE, eos=eos))[-1] for name, eos in [("a", EOS), ("b", LEGACY_EOS), ("c", b"")]}
    assert all(isinstance(end, EndOfStream) for end in ends.values())
    assert len({repr(end.marker) for end in ends.values()}) == 3


@pytest.mark.parametrize(
    "stray",
    [b"\xff", b"\xff\xff", b"\0\0\0", CONTINUATION, CONTINUATION + b"\x10", CONTINUATION + b"\x10\0\0"],
)
def test_002_end_inside_a_prefix_is_truncation(stray):
    refuse_stream(stream(ONE, ROWS, eos=stray), TruncatedError, "prefix|length|message")


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("prefix", [i32(-2), i32(-(2**31)), CONTINUATION + i32(-1), CONTINUATION + i32(-8)])
def test_003_negative_lengths(prefix, level):
    refuse_stream(stream(ONE, ROWS, prefix + bytes(64)), FormatError, "negative|-", validate=level)


@pytest.mark.parametrize("eos", [EOS, LEGACY_EOS])
def test_004_bytes_after_eos_are_ignored_and_not_consumed(eos):
    data = stream(ONE, ROWS, eos=eos)
    with ipc.open_stream(data + b"anything at all") as reader:
        assert [b.num_rows for b in reader] == [3]
        assert reader.bytes_consumed == len(data)
    assert drive.events(data + b"anything at all")[-1].bytes_consumed == len(data)


def test_004_streams_back_to_back_in_one_buffer():
    other = batch(2, [(2, 0)], [b"", i32(8, 9)])
    data = memoryview(stream(ONE, ROWS) + stream(ONE, other))
    with ipc.open_stream(data) as reader:
        assert reader.read_all().to_pydict() == {"x": VALUES}
    with ipc.open_stream(data[reader.bytes_consumed :]) as reader:
        assert reader.read_all().to_pydict() == {"x": [8, 9]}


def test_004_streams_back_to_back_in_one_file_object():
    source = io.BytesIO(stream(ONE, ROWS) + stream(ONE, ROWS))
    for _ in range(2):
        assert ipc.open_stream(source).read_all().to_pydict() == {"x": VALUES}
    assert source.read() == b""


@pytest.mark.parametrize("version", [V4, V5])
def test_005_legacy_prefix(version):
    assert column(stream(ONE, ROWS, eos=b"", prefix="legacy", version=version)) == VALUES


@pytest.mark.parametrize("framing", list(itertools.product(["modern", "legacy"], repeat=3)), ids="-".join)
def test_006_mixed_prefixes(framing):
    parts = [message(part, prefix=prefix) for part, prefix in zip([ONE, ROWS, ROWS], framing, strict=True)]
    assert read_stream(stream(*parts)).values() == [[VALUES], [VALUES]]


@pytest.mark.parametrize("prefix", ["modern", "legacy"])
@pytest.mark.parametrize("pad", [0, 1, 4, 7, 13])
def test_007_metadata_size_need_not_be_a_multiple_of_8(pad, prefix):
    assert read_stream(stream(ONE, ROWS, ROWS, pad=pad, prefix=prefix)).values() == [[VALUES], [VALUES]]


@pytest.mark.parametrize("extra", [0, 1, 5])
def test_008_body_length_need_not_be_a_multiple_of_8_in_a_stream(extra):
    odd = message(ROWS, body=i32(1, 2, 3) + bytes(extra))
    assert read_stream(stream(ONE, odd, odd, ROWS)).values() == [[VALUES]] * 3


def test_009_body_longer_than_the_buffers_need():
    slack = message(ROWS, body=ROWS.body + b"\xaa" * 4096)
    assert read_stream(stream(ONE, slack, ROWS)).values() == [[VALUES], [VALUES]]


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("length", [-1, -8, -(2**63)])
def test_010_negative_body_length(length, level):
    refuse_stream(stream(ONE, message(ROWS, body_length=length)), FormatError, "body", str(length), validate=level)


@pytest.mark.nosanitize
@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("length", [24, 1 << 40, (1 << 62) + 8, 2**63 - 1, 2**63 - 8])
def test_011_huge_body_length_is_truncated_without_allocating(length, level):
    forget_peak()
    before = peak()
    refuse_stream(stream(ONE, message(ROWS, body_length=length), eos=b""), FormatError, "body|length", validate=level)
    assert peak() - before < 256 << 20


def test_011_the_push_decoder_offers_bounded_memory():
    decoder = ipc.StreamDecoder(limits=ipc.Limits(read_ahead=1 << 20))
    decoder.feed(stream(ONE, message(ROWS, body_length=1 << 40), eos=b""))
    assert isinstance(decoder.next_event(), SchemaRead)
    assert decoder.next_event() is None
    assert 0 < len(decoder.get_buffer()) <= (1 << 20) + 4096
    with pytest.raises(TruncatedError):
        decoder.finish()


def test_012_a_file_read_as_a_stream_is_told_so():
    refuse_stream(file(ONE, ROWS), FormatError, "file", "open_file")


@pytest.mark.parametrize("prefix", [b"", CONTINUATION])
def test_012_huge_metadata_length(prefix):
    refuse_stream(stream(ONE, prefix + i32(2**31 - 1) + bytes(64)), LimitError, "metadata")


def test_012_metadata_limit_is_settable():
    wide = schema(*[field(f"column {i}", INT32) for i in range(100)])
    refuse_stream(stream(wide), LimitError, "metadata", "1,?024", limits=ipc.Limits(metadata_bytes=1024))
    assert len(read_stream(stream(wide), limits=ipc.Limits(metadata_bytes=1 << 16)).schema) == 100


@pytest.mark.parametrize(
    ("version", "name"),
    [(V1, "V1|0"), (V2, "V2|1"), (V3, "V3|2"), (V5 + 1, "V6|5"), (-1, "-1"), (32767, "32767")],
)
def test_013_unknown_versions(version, name):
    refuse_stream(stream(ONE, ROWS, version=version), ipc.ArrowIpcError, "version", name)
    refuse_stream(stream(ONE, message(ROWS, version=version)), ipc.ArrowIpcError, "version", name)


def test_013_absent_version_is_v1():
    refuse_stream(stream(message(ONE, version=None)), ipc.ArrowIpcError, "version")


@pytest.mark.parametrize(("first", "second"), [(V4, V5), (V5, V4)])
def test_013_versions_may_differ_between_messages(first, second):
    assert column(stream(message(ONE, version=first), message(ROWS, version=second))) == VALUES


def test_013_union_layout_follows_the_version_of_each_message():
    sparse = schema(field("u", Table("Union", mode=0, typeIds=[4, 7]), field("a", INT32), field("b", INT32)))
    below = [b"", i32(1, 2), b"", i32(8, 9)]
    v5 = batch(2, [(2, 0)] * 3, [i8(4, 7), *below])
    v4 = batch(2, [(2, 0)] * 3, [bits(1, 1), i8(7, 4), *below])
    data = stream(message(sparse, version=V4), message(v5, version=V5), message(v4, version=V4), v5)
    assert read_stream(data).values() == [[[1, 9]], [[8, 2]], [[1, 9]]]


def test_014_first_message_must_be_a_schema():
    refuse_stream(stream(ROWS), FormatError, "schema", "RecordBatch")
    refuse_stream(stream(dictionary(0, ROWS), ONE), FormatError, "schema", "DictionaryBatch")


def test_014_second_schema():
    refuse_stream(stream(ONE, ROWS, ONE), FormatError, "schema")


def tensor() -> Table:
    sizes = [Table("TensorDim", size=2)]
    return Table("Tensor", i32(1, 2), type=INT32, shape=sizes, data=(0, 8))


@pytest.mark.parametrize("parts", [(tensor(),), (ONE, tensor()), (ONE, ROWS, tensor())])
def test_014_tensor_among_batches_is_named(parts):
    refuse_stream(stream(*parts), FormatError, "Tensor")


def test_014_sparse_tensor_among_batches_is_named():
    sparse = Table("SparseTensor", type=INT32, shape=[Table("TensorDim", size=2)], non_zero_length=0, data=(0, 0))
    refuse_stream(stream(ONE, sparse), FormatError, "SparseTensor")


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("kind", [0, 6, 99, 255])
def test_015_unknown_header_type(kind, level):
    refuse_stream(
        stream(ONE, message(ROWS, header_type=kind)), FormatError, "header|message", str(kind), validate=level
    )
    refuse_stream(stream(message(ONE, header_type=kind)), FormatError, "header|message", validate=level)


@pytest.mark.parametrize("kind", [None, 1, 3])
def test_015_absent_header(kind):
    refuse_stream(stream(message(None, header_type=kind)), FormatError, "header")
    refuse_stream(stream(ONE, message(None, header_type=kind)), FormatError, "header|schema")


def test_016_schema_with_a_body():
    refuse_stream(stream(message(ONE, body=bytes(8)), ROWS), FormatError, "schema", "body")


@pytest.mark.parametrize("data", [b"", EOS, LEGACY_EOS], ids=["empty", "eos", "legacy eos"])
def test_017_no_schema(data):
    refuse_stream(data, FormatError, "no schema")
    with pytest.raises(FormatError, match="no schema"):
        ipc.read_schema(data)


PAIRS = ((b"k", b"1"), (b"other", b"\xff\x00"), (b"k", b"2"), (b"", b""))


def test_018_message_metadata_on_every_kind():
    coded = schema(field("d", UTF8, dictionary=encoding(0)), metadata=PAIRS)
    words = dictionary(0, batch(1, [(1, 0)], [b"", i32(0, 1), b"a"]))
    rows = batch(1, [(1, 0)], [b"", i32(0)])
    data = stream(*(message(part, metadata=PAIRS) for part in (coded, words, rows)), message(rows))
    assert [m.custom_metadata.pairs for m in ipc.MessageReader(data)] == [PAIRS] * 3 + [()]
    with ipc.open_stream(data) as reader:
        assert reader.schema.metadata.pairs == PAIRS
        first, metadata = reader.read_next_batch_with_custom_metadata()
        assert metadata.pairs == PAIRS == first.custom_metadata.pairs
        second, metadata = reader.read_next_batch_with_custom_metadata()
        assert not metadata
        assert not second.custom_metadata


def test_018_metadata_key_is_required():
    refuse_stream(stream(ONE, message(ROWS, metadata=[("a", "b"), (None, "x")])), FormatError, "metadata", "key")
    refuse_stream(stream(schema(field("x", INT32, metadata=[(None, "x")])), ROWS), FormatError, "metadata", "key")
    refuse_stream(stream(schema(field("x", INT32), metadata=[(None, "x")]), ROWS), FormatError, "metadata", "key")


def test_018_metadata_without_value_is_refused_or_empty():
    drive.survives(stream(ONE, message(ROWS, metadata=[("a", None)])))


@pytest.mark.parametrize("name", [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_019_names_must_be_utf8(name):
    refuse_stream(stream(schema(field(name, INT32)), ROWS), FormatError, "name", "UTF-8")
    nested = schema(field("s", Table("Struct_"), field(name, INT32)))
    refuse_stream(stream(nested), FormatError, "name", "UTF-8")


def test_019_timezone_must_be_utf8():
    refuse_stream(
        stream(schema(field("t", Table("Timestamp", unit=0, timezone=b"\xff")))),
        FormatError,
        "timezone|UTF-8",
    )


def test_019_metadata_values_are_any_bytes():
    pairs = ((b"binary", bytes(range(256))),)
    data = stream(schema(field("x", INT32, metadata=pairs), metadata=pairs), ROWS)
    found = read_stream(data).schema
    assert found.metadata.pairs == pairs == found.field(0).metadata.pairs


def test_020_nul_in_a_name_is_kept_and_not_exported():
    reading = read_stream(stream(schema(field("a\0b", INT32)), ROWS))
    assert reading.schema.names == ["a\0b"]
    assert reading.values() == [[VALUES]]
    with pytest.raises(ipc.ArrowIpcError, match=r"(?i)nul"):
        reading.schema.__arrow_c_schema__()
    with pytest.raises(ipc.ArrowIpcError, match=r"(?i)nul"):
        reading.batches[0].__arrow_c_array__()


def test_framing_every_part_of_a_message_may_be_torn():
    whole = stream(ONE, ROWS, eos=b"")
    clean = len(stream(ONE, eos=b""))
    for end in range(1, len(whole)):
        if end != clean:
            refuse_stream(whole[:end], TruncatedError)


def test_framing_metadata_that_ends_before_its_flatbuffer():
    head = struct.unpack_from("<i", message(ROWS), 4)[0]
    for size in (1, 4, 8, 16, head - 8):
        broken = message(ROWS, size=size)
        refuse_stream(stream(ONE, broken), FormatError)


def test_framing_errors_name_the_message():
    broken = patch(message(ROWS), "header.length", -3)
    refuse_stream(stream(ONE, ROWS, broken), FormatError, "message 3", "RecordBatch", "-3")


def test_framing_an_error_poisons_the_decoder():
    decoder = ipc.StreamDecoder()
    decoder.feed(stream(ONE, message(ROWS, body_length=-8)))
    with pytest.raises(FormatError) as first:
        list(decoder)
    for call in (decoder.next_event, decoder.finish, lambda: decoder.feed(b"x")):
        with pytest.raises(ipc.UsageError) as later:
            call()
        assert str(first.value)[:30] in str(later.value)
