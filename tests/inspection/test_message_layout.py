"""What lies where: nodes and buffers find their columns."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import golden
from helpers.arrays import CASES, batch_of_columns, ipc_bytes

import arrowipc as ipc
from arrowipc.derived.dictionary_encode import dictionary_decode, dictionary_encode
from arrowipc.inspection.message_layout import dictionary_fields, locate_messages, nodes_of, outline_of
from arrowipc.types import Dictionary, field, int8, int32, list_, struct, utf8


@pytest.mark.parametrize("case", golden.cases(), ids=golden.name_of)
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


@pytest.mark.parametrize("name", [name for name in CASES if "dictionary" not in name])
@pytest.mark.parametrize(("start", "count"), [(0, 99), (1, 4), (5, 1), (0, 0)])
def test_decoding_gives_back_what_was_encoded(name, start, count):
    batch = batch_of_columns(pa.concat_arrays([CASES[name]] * 2)).slice(start, count)
    rows = batch.column(0).to_pylist()
    encoded = dictionary_encode(batch, ["c0"])
    assert encoded.column(0).to_pylist() == rows
    assert len(encoded.column(0).dictionary) <= len({str(row) for row in rows if row is not None}) + 1
    again = dictionary_decode(encoded)
    assert again.schema == batch.schema
    assert again.column(0).to_pylist() == rows
    assert dictionary_encode(encoded, ["c0"]).equals(encoded)


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
