"""Arrow's JSON integration format: golden documents say what golden files hold."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers import golden
from helpers.processes import environment
from peers.integration_json import main

import arrowipc as ipc
from arrowipc.types import dictionary, field, int8, utf8

CASES = golden.cases()


@pytest.fixture
def verbs(arrow_data):
    """The program, called in this process: starting it for every case would take minutes."""

    def call(mode, arrow, document):
        return main(["--integration", f"--mode={mode}", "--arrow", str(arrow), "--json", str(document)])

    return call


@pytest.mark.parametrize("case", CASES, ids=golden.name_of)
def test_golden_documents_become_files(case, verbs, tmp_path):
    document = case.with_name(case.name + ".json.gz")
    made = tmp_path / "made.arrow"
    assert verbs("JSON_TO_ARROW", made, document) == 0
    # Ours shares dictionaries between fields where the document does; the writer of the others does not.
    for source in (made, case.with_name(case.name + ".stream")):
        assert verbs("VALIDATE", source, document) == 0


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


def other_value(content):
    column = content["batches"][0]["columns"][4]
    at = column["VALIDITY"].index(1)
    column["DATA"][at] = type(column["DATA"][at])(int(column["DATA"][at]) ^ 1)


def other_null(content):
    valid = content["batches"][0]["columns"][-1]["VALIDITY"]
    valid[0] = 1 - valid[0]


@pytest.mark.parametrize(
    "change",
    [
        other_value,
        other_null,
        lambda content: content["schema"]["fields"][0].update(name="!"),
        lambda content: content["batches"].pop(),
    ],
    ids=["value", "null", "name", "batches"],
)
def test_a_document_that_says_something_else_does_not_validate(verbs, tmp_path, change):
    case = next(each for each in CASES if each.name == "generated_primitive" and "cpp" in each.parent.name)
    content = golden.load(case).json
    change(content)
    (tmp_path / "changed.json").write_text(json.dumps(content))
    assert verbs("VALIDATE", case.with_name(case.name + ".stream"), tmp_path / "changed.json") == 1
