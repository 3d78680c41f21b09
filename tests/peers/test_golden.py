"""Arrow's golden files: both forms equal their JSON, equal pyarrow's reading, and equal each other."""

import contextlib
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from helpers import arrays, drive, golden
from helpers.arrays import ipc_bytes
from helpers.processes import environment
from peers.integration_json import main

import arrowipc as ipc
from arrowipc.types import dictionary, field, int8, utf8

CASES = golden.cases()
each_case = pytest.mark.parametrize("case", CASES, ids=golden.name_of)
each_form = pytest.mark.parametrize("form", arrays.FORMS)

# Value-domain rules that these official files break: they must read at "full" and be refused at "strict".
BREAK_A_RULE = {
    "0.14.1/generated_decimal": "has more digits than the precision",
    "0.14.1/generated_datetime": "not a whole day",
    "1.0.0-bigendian/generated_decimal": "has more digits than the precision",
    "1.0.0-bigendian/generated_decimal256": "has more digits than the precision",
    "1.0.0-bigendian/generated_datetime": "not a whole day",
}


def test_every_golden_is_there(arrow_data):
    found = {folder: [c for c in CASES if c.parent.name == folder] for folder in golden.FOLDERS}
    assert {folder: len(cases) for folder, cases in found.items()} == golden.FOLDERS
    for case in CASES:
        data = golden.load(case)
        assert data.stream.is_file(), case
        assert data.file.is_file(), case


@each_form
@each_case
def test_both_forms_are_what_the_json_says_however_they_are_read(case, form):
    data = golden.load(case)
    reading = (drive.read_stream if form == "stream" else drive.read_file)(data.form(form).read_bytes())
    golden.assert_matches(data.json, reading.schema, reading.batches)


@each_case
@pytest.mark.parametrize("level", ["none", "strict"])
def test_other_levels_give_the_same_values_or_name_the_rule(case, level):
    data = golden.load(case)
    rule = BREAK_A_RULE.get(golden.name_of(case)) if level == "strict" else None
    with pytest.raises(ipc.FormatError, match=rule) if rule else contextlib.nullcontext():
        reading = drive.from_bytes(data.stream.read_bytes(), validate=level)
        golden.assert_matches(data.json, reading.schema, reading.batches)


@each_form
@each_case
def test_both_forms_are_what_pyarrow_reads(case, form):
    source = golden.load(case).form(form).read_bytes()
    schema, batches = arrays.read_by_pyarrow(source, form)
    with ipc.open(source) as reader:
        assert pa.schema(reader.schema).equals(schema, check_metadata=True)
        if form == "file":
            assert reader.metadata == (pa.ipc.open_file(source).metadata or {})
        for ours, theirs in zip(reader, batches, strict=True):
            converted = pa.record_batch(ours)
            converted.validate()
            assert converted.equals(theirs, check_metadata=True)


# The program that Arrow's integration tests call.


def call(mode, arrow, document):
    """The program in this process: starting it for every case would take minutes."""
    return main(["--integration", f"--mode={mode}", "--arrow", str(arrow), "--json", str(document)])


@each_case
def test_golden_documents_become_files(case, tmp_path):
    document = case.with_name(case.name + ".json.gz")
    made = tmp_path / "made.arrow"
    assert call("JSON_TO_ARROW", made, document) == 0
    # Ours shares dictionaries between fields where the document does; the writer of the others does not.
    for source in (made, case.with_name(case.name + ".stream")):
        assert call("VALIDATE", source, document) == 0


def test_the_program_converts_streams_and_files_through_pipes():
    schema = ipc.Schema([field("x", dictionary(int8(), utf8()))])
    # The dictionary is replaced, as in no file: that gets one of both words.
    stream = ipc_bytes([{"x": ["a"]}, {"x": ["b"]}], schema=schema)

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


CHANGES = {
    "value": other_value,
    "null": other_null,
    "name": lambda content: content["schema"]["fields"][0].update(name="!"),
    "batches": lambda content: content["batches"].pop(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_document_that_says_something_else_does_not_validate(tmp_path, what):
    case = next(each for each in CASES if each.name == "generated_primitive" and "cpp" in each.parent.name)
    content = golden.load(case).json
    CHANGES[what](content)
    (tmp_path / "changed.json").write_text(json.dumps(content))
    assert call("VALIDATE", case.with_name(case.name + ".stream"), tmp_path / "changed.json") == 1
