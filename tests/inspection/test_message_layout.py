"""What lies where: nodes and buffers find their columns, and habits that others stumble over are told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers import golden
from helpers.arrays import ipc_bytes

import arrowipc as ipc
from arrowipc.inspection.message_layout import dictionary_fields, locate_messages, nodes_of, outline_of
from arrowipc.inspection.portability import interoperability
from arrowipc.types import (
    Dictionary,
    dictionary,
    field,
    float64,
    int8,
    int32,
    list_,
    run_end_encoded,
    struct,
    utf8,
    utf8_view,
)
from arrowipc.values.dictionary_encode import dictionary_decode, dictionary_encode, rebatch

CASES = golden.cases()
WORDS = ["a", None, "b", "a", "a text of more than twelve bytes", None]


def ids(case):
    return f"{case.parent.name}-{case.name}"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_nodes_and_buffers_of_golden_messages_are_dealt_out_without_rest(case, arrow_data):
    for form in (".stream", ".arrow_file"):
        source = case.with_name(case.name + form)
        schema = ipc.read_schema(source)
        known = dictionary_fields(schema)
        whole = source.read_bytes()
        for located in locate_messages(source):
            found = outline_of(located.message)
            if found is None:
                continue
            assert len(whole) >= located.offset + located.metadata_length + located.body_length
            fields = schema.fields
            if found.dictionary_id is not None:
                fields = [ipc.Field("", known[found.dictionary_id][1].value_type)]
            nodes = nodes_of(located.message, fields)
            assert [(node.length, node.null_count) for node in nodes] == found.nodes
            places = [(place.offset, place.length) for node in nodes for place in node.buffers]
            assert places == found.buffers
            assert all(place.raw_length is not None for node in nodes for place in node.buffers)


def test_compressed_buffers_tell_both_lengths():
    schema = ipc.Schema([field("x", int32())])
    batch = ipc.RecordBatch.from_pydict({"x": np.zeros(1000, np.int32)}, schema)
    message = batch.to_message(compression="zstd")
    place = nodes_of(message, schema.fields)[0].buffers[1]
    assert place.raw_length == 4000
    assert place.length < 100


# -- habits --------------------------------------------------------------------------------------------------


def codes(data: bytes) -> set[str]:
    return {remark.code for remark in interoperability(data)}


def written(begin=ipc.new_stream, words=(["a"],), schema=None, **options) -> bytes:
    sink = bytearray()
    schema = schema or ipc.Schema([field("x", dictionary(int8(), utf8()))])
    with begin(sink, schema, **options) as writer:
        for each in words:
            writer.write({"x": each})
    return bytes(sink)


def test_what_our_writers_write_is_for_everybody():
    plain = ipc.Schema([field("x", utf8())])
    for begin in (ipc.new_file, ipc.new_stream):
        for options in ({}, {"compression": "lz4"}, {"alignment": 64}):
            assert codes(written(begin, **options)) == set()
            assert codes(written(begin, schema=plain, words=([],), **options)) == set()
    assert codes(written(ipc.new_file, metadata={"made by": "hand"})) == set()


def test_habits_are_told_by_name():
    assert codes(written(legacy=True)) == {"legacy-framing"}
    assert codes(written(metadata_version="V4")) == {"metadata-v4"}
    assert codes(written(words=(["a"], ["a", "b"]), dictionary_deltas=True)) == {"dictionary-delta"}
    assert codes(written(words=(["a"], ["b"]))) == {"dictionary-replaced"}
    numbered = ipc.Schema([field("x", ipc.types.Dictionary(int8(), utf8(), id=7))])
    message = numbered.serialize()
    assert codes(message + bytes(8)) == {"dictionary-ids"}
    twice = ipc.Schema([field("x", int8()), field("x", int8())])
    assert codes(twice.serialize()) == {"duplicate-names"}


def test_a_file_without_a_stream_inside_is_told():
    whole = written(ipc.new_file)
    at = whole.rindex(b"\xff\xff\xff\xff\0\0\0\0")
    assert codes(whole[:at] + b"\1\0\0\0\1\0\0\0" + whole[at + 8 :]) == {"no-end-marker"}


def test_dirty_padding_is_told_where_it_is():
    schema = ipc.Schema([field("x", int8())])
    data = bytearray(written(schema=schema, words=([1, 2, 3],)))
    at = bytes(data).rindex(b"\1\2\3")
    data[at + 4] = 9
    (remark,) = interoperability(data)
    located = list(locate_messages(data))[1]
    assert (remark.code, remark.offset, remark.times) == ("dirty-padding", located.offset, 1)


# -- columns encoded, decoded, batches cut -------------------------------------------------------------------

KINDS = {
    "text": (utf8(), WORDS),
    "view": (utf8_view(), WORDS),
    "number": (float64(), [1.5, None, 1.5, float("inf"), -0.0, None]),
    "list": (list_(int8()), [[1], None, [1], [], [2, None], [1]]),
    "struct": (struct([field("a", int8()), field("b", utf8())]), [{"a": 1, "b": None}] * 3 + [None] * 3),
    "runs": (run_end_encoded(int32(), utf8()), WORDS),
    "no nulls": (utf8(), ["x"] * 6),
    "all null": (utf8(), [None] * 6),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("start", "count"), [(0, 6), (1, 4), (5, 1), (0, 0)])
def test_decoding_gives_back_what_was_encoded(name, start, count):
    kind, rows = KINDS[name]
    batch = ipc.RecordBatch.from_pydict({"x": rows}, ipc.Schema([field("x", kind)])).slice(start, count)
    encoded = dictionary_encode(batch, ["x"])
    assert encoded.column("x").to_pylist() == batch.column("x").to_pylist()
    assert len(encoded.column("x").dictionary) <= len({str(row) for row in rows if row is not None}) + 1
    again = dictionary_decode(encoded)
    assert again.schema == batch.schema
    assert again.column("x").to_pylist() == batch.column("x").to_pylist()
    assert dictionary_encode(encoded, ["x"]).equals(encoded)


@pytest.mark.parametrize("ids", [(None, None), (0, 0), (0, 1), (7, 7)])
def test_columns_with_dictionaries_inside_are_encoded_too(ids):
    words = [Dictionary(int8(), utf8(), False, id) for id in ids]
    kind = struct([field("a", words[0]), field("b", list_(words[1]))])
    rows = [{"a": "x", "b": ["y", "x"]}, None, {"a": "y", "b": []}, {"a": "x", "b": ["y", "x"]}]
    batch = ipc.RecordBatch.from_pydict({"x": rows}, ipc.Schema([field("x", kind)]))
    encoded = dictionary_encode(batch, ["x"])
    assert encoded.to_pydict() == {"x": rows}
    assert len(encoded.column("x").dictionary) == 2
    assert dictionary_decode(encoded).equals(batch)
    sink = ipc_bytes(encoded)
    assert pa.ipc.open_stream(bytes(sink)).read_all().to_pydict() == {"x": rows}


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 100])
def test_rebatched_rows_are_the_same_in_pieces_of_one_size(rows):
    schema = ipc.Schema([field("x", utf8())])
    batches = [
        ipc.RecordBatch.from_pydict({"x": [f"{i}.{k}" for k in range(size)]}, schema)
        for i, size in enumerate([3, 0, 1, 12, 2])
    ]
    found = list(rebatch(batches, rows))
    assert [row for batch in found for row in batch.column(0)] == [row for each in batches for row in each.column(0)]
    assert {len(batch) for batch in found[:-1]} <= {rows}
    assert 0 < len(found[-1]) <= rows
    assert list(rebatch([], rows)) == []
