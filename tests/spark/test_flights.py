"""The job of examples/flights, on flights and on data of the user's: it agrees, writes, reports, sees differences."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from helpers.arrow_columns import file, stream
from helpers.pages import ROOT
from pyspark.sql import SparkSession

import pipeline
from arrowipc.errors import UsageError
from command import main
from compare import Comparison, compare_rows
from flights import load_flights, write_inputs
from report import Step, Stopwatch, write_report

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROWS = 4000


# The steps.


def test_the_flights(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    table, inputs = load_flights(ROWS), tmp_path_factory.mktemp("flights")
    write_inputs(table, inputs)
    job = pipeline.Job(pipeline.flights_sources(inputs), tmp_path, ("hour",), "arr_delay", True)
    watch = Stopwatch()
    pipeline.run(spark, job, watch)
    assert job.comparison is not None
    assert job.comparison.differing == 0
    assert job.comparison.counts == [ROWS] * 4
    steps = {step.name: step.rows for step in watch.steps}
    assert steps["read one airport"] == table["origin"].to_pylist().count("JFK")
    assert steps["stream payloads to files"] == spark.table(pipeline.TABLE).count() == ROWS
    assert all(step.seconds > 0 for step in watch.steps)
    assert job.query is not None
    summer = table.filter(pc.is_in(table["month"], pa.array([6, 7], pa.uint8())))
    summer = summer.filter(summer["arr_delay"].is_valid())
    most = summer.group_by("dest").aggregate([("flight", "count")]).sort_by([("flight_count", "descending")])
    assert [row["flights"] for row in job.query[1]] == most["flight_count"].to_pylist()[:5]
    merged = spark.read.format("arrowipc").option("mergeSchema", "true").load(str(tmp_path / "flights.arrow"))
    assert merged.where("made_up IS NOT NULL AND month <= 6").count() == 0
    assert merged.where("made_up IS NOT NULL").count() > 0
    instants = table["time_hour"].cast(pa.timestamp("us", "UTC"))
    assert sorted(pq.read_table(tmp_path / "flights.parquet")["time_hour"].to_pylist()) == sorted(instants.to_pylist())
    means = table.group_by(["hour"]).aggregate([("arr_delay", "mean")]).to_pylist()
    found = {row["hour"]: row["mean_arr_delay"] for row in job.groups}
    assert found == {row["hour"]: pytest.approx(row["arr_delay_mean"]) for row in means}
    assert len(pq.read_table(tmp_path / "delays.parquet")) == len(found)


def test_comparison_minds_nulls_nans_columns_and_how_often_a_row_is_there(spark: SparkSession) -> None:
    left = spark.createDataFrame([(None, float("nan")), (1, 2.0)], "`a.b` int, c double")
    same = spark.createDataFrame([(1, 2.0), (None, float("nan"))], "`a.b` int, c double")
    assert compare_rows({"left": left, "same": same}).differing == 0
    shifted = spark.createDataFrame([(1, float("nan")), (None, 2.0)], "`a.b` int, c double")
    assert compare_rows({"left": left, "shifted": shifted}).differing == 4
    some = left.where("`a.b` = 1")
    for other, times in ((some, (1, 0)), (left.union(some), (1, 2))):
        found = compare_rows({"left": left, "other": other})
        assert found.differing == 1
        assert f"(left: {times[0]} times, other: {times[1]} times)" in found.examples[0]
    with pytest.raises(UsageError, match=r"differ in c \(double\), c \(float\)"):
        compare_rows({"left": left, "right": left.selectExpr("`a.b`", "float(c)")})


def test_data_of_the_users(spark: SparkSession, tmp_path: Path) -> None:
    batches = [pa.record_batch({"host": [f"h{n % 2}"] * 5, "value": [float(n)] * 5}) for n in range(4)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.arrow").write_bytes(file(*batches))
    payloads = pa.table({"key": range(4), "body": [stream(batch) for batch in batches]})
    pq.write_table(payloads, tmp_path / "messages.parquet")
    sources = pipeline.find_sources(spark, [str(tmp_path / "messages.parquet"), str(tmp_path / "data")], None)
    assert [source.column for source in sources] == ["body", None]
    job = pipeline.Job(sources, tmp_path / "out", ("host",), "value")
    pipeline.run(spark, job, Stopwatch())
    assert job.comparison is not None
    assert job.comparison.differing == 0
    groups = [(row["host"], row["mean_value"], row["rows"]) for row in job.groups]
    assert groups == [("h0", 1.0, 10), ("h1", 2.0, 10)]
    assert [path.name for path in job.written] == ["rows.arrow", "rows.parquet", "groups.parquet"]
    with pa.ipc.open_file(next((tmp_path / "out" / "rows.arrow").glob("part-*"))) as reader:
        assert reader.schema.names == ["host", "value"]
    with pytest.raises(UsageError, match="no column 'nix'"):
        pipeline.run(spark, pipeline.Job(sources, tmp_path / "out", ("nix",)), Stopwatch())
    with pytest.raises(UsageError, match="binary columns are body"):
        pipeline.find_sources(spark, [str(tmp_path / "messages.parquet")], "key2")


# The command.


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/flights"), "--master", "local[2]", "--rows", "1500"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
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
    assert "2 distinct rows differ" in (output / "report.html").read_text(encoding="utf-8")
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


def test_the_page_loads_nothing_and_text_from_data_is_no_markup(tmp_path: Path) -> None:
    name = "<b>\u202eevil\x9b"
    job = pipeline.Job([], tmp_path, ("x",), "v", comparison=Comparison([name, "files"], [1, 1], 1, [name]))
    job.groups = [{"x": name, "rows": 9, "mean_v": mean} for mean in (None, float("inf"), -1.0, 2.5)]
    job.query = "SELECT 1\nWHERE month < 2", [{"dest": name}]
    write_report(job, name, [Step(name, 0.5, 1000)], tmp_path / "deep" / "report.html")
    page = (tmp_path / "deep" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|https?:|src=|@import|url\(|<link|<b>", page)
    assert not {c for c in page if not c.isprintable()} - {"\n"}
    for text in ("WHERE month &lt; 2", "\\u202eevil", "1 distinct rows differ", "2,000"):
        assert text in page
    body = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta [^>]*>", "", page))
    assert [row[2].text for row in body.iter("tr") if len(row) == 3] == ["–", "inf", "-1", "2.5"]
