"""Arrow's JSON integration format: golden documents say what golden files hold, both ways."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers import golden
from helpers.arrays import ipc_bytes
from helpers.processes import environment
from peers.integration_json import main, read_json, write_json

import arrowipc as ipc
from arrowipc.errors import UnsupportedError
from arrowipc.types import Dictionary, Union, dictionary, field, int8, int64, list_, struct, utf8

CASES = golden.cases()


def ids(case):
    return f"{case.parent.name}-{case.name}"


@pytest.fixture
def verbs(arrow_data):
    """The program, called in this process: starting it for every case would take minutes."""

    def call(mode, arrow, document):
        return main(["--integration", f"--mode={mode}", "--arrow", str(arrow), "--json", str(document)])

    return call


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_golden_documents_become_files_and_files_documents(case, verbs, tmp_path):
    document = case.with_name(case.name + ".json.gz")
    made, spelled = tmp_path / "made.arrow", tmp_path / "spelled.json"
    assert verbs("JSON_TO_ARROW", made, document) == 0
    assert verbs("VALIDATE", made, document) == 0
    # Ours shares dictionaries between fields where the document does; the writer of the others does not.
    for source in (made, case.with_name(case.name + ".stream")):
        assert verbs("VALIDATE", source, document) == 0
        assert verbs("ARROW_TO_JSON", source, spelled) == 0
        assert verbs("VALIDATE", source, spelled) == 0


def test_the_program_converts_streams_and_files_through_pipes():
    schema = ipc.Schema([field("x", dictionary(int8(), utf8()))])
    stream = bytearray()
    with ipc.new_stream(stream, schema) as writer:
        for word in "ab":  # replaces the dictionary, which a file cannot: it gets one of both words
            writer.write_batch(ipc.RecordBatch.from_pydict({"x": [word]}, schema))

    def converted(mode, data):
        program = [sys.executable, "-m", "peers.integration_json", f"--mode={mode}"]
        return subprocess.run(program, input=data, env=environment(), capture_output=True, check=True).stdout

    file = converted("STREAM_TO_FILE", bytes(stream))
    assert file.startswith(b"ARROW1")
    again = converted("FILE_TO_STREAM", file)
    assert again.startswith(b"\xff\xff\xff\xff")
    with ipc.open_stream(again) as reader:
        assert [batch.to_pydict() for batch in reader] == [{"x": ["a"]}, {"x": ["b"]}]


def test_integers_of_64_bits_are_texts_and_nulls_0():
    batch = ipc.RecordBatch.from_pydict({"x": [1, None]}, ipc.Schema([field("x", int64())]))
    document = write_json(batch.schema, [batch])
    assert document["batches"][0]["columns"][0]["DATA"] == ["1", "0"]
    assert read_json(document)[1][0].to_pydict() == {"x": [1, None]}


def test_a_document_that_says_something_else_does_not_validate(verbs, tmp_path):
    case = next(each for each in CASES if each.name == "generated_primitive" and "cpp" in each.parent.name)
    content = golden.load(case).json
    source = case.with_name(case.name + ".stream")

    def verdict(changed):
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(changed))
        return verbs("VALIDATE", source, path)

    assert verdict(content) == 0
    column = content["batches"][0]["columns"][-1]
    at = column["VALIDITY"].index(1) if 1 in column["VALIDITY"] else 0
    other = content["batches"][0]["columns"][4]
    value = other["DATA"][(spot := other["VALIDITY"].index(1))]
    other["DATA"][spot] = type(value)(int(value) ^ 1)
    assert verdict(content) == 1
    other["DATA"][spot] = value
    column["VALIDITY"][at] = 1 - column["VALIDITY"][at]
    assert verdict(content) == 1
    column["VALIDITY"][at] = 1 - column["VALIDITY"][at]
    content["schema"]["fields"][0]["name"] += "!"
    assert verdict(content) == 1
    content["schema"]["fields"][0]["name"] = content["schema"]["fields"][0]["name"][:-1]
    content["batches"].pop()
    assert verdict(content) == 1


def test_a_replaced_dictionary_cannot_be_spelled():
    schema = ipc.Schema([field("x", dictionary(int8(), utf8()))])
    batches = [ipc.RecordBatch.from_pydict({"x": [word]}, schema) for word in "ab"]
    sink = ipc_bytes(list(batches), schema=schema)
    with ipc.open_stream(sink) as reader, pytest.raises(UnsupportedError, match="replaced"):
        write_json(reader.schema, reader)


WORDS = ("unused", "b", "a")


def nested(kind, column):
    """A document whose dictionary 1 has `column` of `kind`, with WORDS shared by all that refer to 0."""
    text = {
        "name": "DICT0",
        "count": 3,
        "VALIDITY": [1, 1, 1],
        "OFFSET": [0, 6, 7, 8],
        "DATA": list(WORDS),
    }
    schema = ipc.Schema([field("x", Dictionary(int8(), kind, False, 1))])
    document = write_json(schema, [])
    document["dictionaries"] = [
        {"id": 0, "data": {"count": 3, "columns": [text]}},
        {"id": 1, "data": {"count": column["count"], "columns": [column]}},
    ]
    indices = {"name": "x", "count": 2, "VALIDITY": [1, 1], "DATA": [1, 0]}
    document["batches"] = [{"count": 2, "columns": [indices]}]
    return document


def shared(name, indices):
    return {"name": name, "count": len(indices), "VALIDITY": [1] * len(indices), "DATA": indices}


SHARED = Dictionary(int8(), utf8(), False, 0)
BELOW = {
    "struct": (
        struct([field("a", SHARED), field("b", SHARED)]),
        {"VALIDITY": [1, 1], "children": [shared("a", [2, 1]), shared("b", [1, 2])]},
        [{"a": "b", "b": "a"}, {"a": "a", "b": "b"}],
    ),
    "union": (
        Union("sparse", [field("a", SHARED), field("b", SHARED)], [0, 1]),
        {"TYPE_ID": [0, 1], "children": [shared("a", [2, 1]), shared("b", [1, 1])]},
        ["b", "a"],
    ),
    "list": (
        list_(struct([field("a", SHARED), field("b", SHARED)])),
        {
            "VALIDITY": [1, 1],
            "OFFSET": [0, 2, 2],
            "children": [
                {
                    "name": "item",
                    "count": 2,
                    "VALIDITY": [1, 1],
                    "children": [shared("a", [2, 1]), shared("b", [1, 2])],
                }
            ],
        },
        [[], [{"a": "a", "b": "b"}, {"a": "b", "b": "a"}]],
    ),
}


@pytest.mark.parametrize("name", BELOW)
def test_dictionaries_that_share_an_inner_one_keep_their_indices(name):
    kind, column, values = BELOW[name]
    document = nested(kind, {"name": "DICT1", "count": 2, **column})
    schema, batches = read_json(document)
    assert batches[0].to_pydict() == {"x": values}
    spelled = write_json(schema, batches)
    assert spelled == document
    assert read_json(spelled)[1][0].to_pydict() == {"x": values}
