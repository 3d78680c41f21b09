"""The same suite, read by the JVM: schemas, values and errors are those of the Python source; then what is its own."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file
from spark import test_filters, test_folders, test_planning, test_read_modes, test_source, test_types

import arrowipc as ipc
from arrowipc.spark import configure, find_jar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(find_jar() is None, reason="no jar was built: make jar, with a JDK"),
]

#: Fixtures by which a test asks a session.
SESSIONS = {"spark", "registered", "pushing", "twins"}
#: What is true of Python sources only.
PYTHONS = {"test_the_option_needs_the_configuration"}

for _module in (test_filters, test_folders, test_planning, test_read_modes, test_source, test_types):
    for _name, _value in vars(_module).items():
        fixture = "Fixture" in type(_value).__name__
        test = _name.startswith("test_") and SESSIONS & {*inspect.signature(_value).parameters}
        if fixture or (test and _name not in PYTHONS):
            globals()[_name] = _value


@pytest.fixture(scope="module", autouse=True)
def _by_the_jvm(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.arrowipc.engine", "auto")
    yield
    spark.conf.set("spark.arrowipc.engine", "python")


def load(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    """A frame that the JVM reads, or nobody."""
    return spark.read.format("arrowipc").options(**{"engine": "jvm", **options}).load(str(path))


def plan(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().toString()


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of a file each, of ten batches with statistics: 0 to 99, and from 100."""
    root = tmp_path_factory.mktemp("alone") / "counted"  # nothing of other tests is in the folder above it
    for number in range(2):
        folder = root / f"part={number}"
        folder.mkdir(parents=True)
        with ipc.new_file(folder / "x.arrow", statistics=True) as writer:
            for start in range(number * 100, number * 100 + 100, 10):
                ids = [*range(start, start + 9), None]
                struct = [{"a": each, "b": "x"} for each in ids]
                names = [None if each is None else f"n{each:03}" for each in ids]
                writer.write({"id": ids, "name": names, "real": [1.5] * 10, "s": struct})
    return root


def test_columns_and_fields_are_read_by_the_jvm_alone(spark: SparkSession, counted: Path) -> None:
    frame = load(spark, counted).selectExpr("id", "s.a", "part").where("part = 1 and id >= 150")
    assert sorted(frame.collect())[:2] == [(150, 150, 1), (151, 151, 1)]
    text = plan(frame)
    assert "struct<id:bigint,s:struct<a:bigint>,part:int>" in text
    assert "files: 1 of 2, batches: 5 of 10" in text
    assert "ColumnarToRow" in text


@pytest.mark.parametrize(
    ("condition", "batches"),
    [
        ("id < 20", 2),
        ("id in (5, 195)", 2),
        ("id = 5 or name = 'n055'", 2),
        ("not (id >= 10)", 1),
        ("name like 'n01%'", 1),
        ("s.a = 77", 1),
        ("id is null", 20),
        ("real > 2", 0),
        ("id <=> null and part = 0", 10),
        ("id + 1 = 6", 20),
    ],
)
def test_batches_that_hold_no_row_are_skipped(spark: SparkSession, counted: Path, condition: str, batches: int) -> None:
    frame = load(spark, counted).where(condition)
    expected = load(spark, counted, pushFilters="false").where(condition)
    assert sorted(frame.collect(), key=str) == sorted(expected.collect(), key=str)
    assert f"batches: {batches} of " in plan(frame)


def test_counts_and_ends_are_answered_without_a_task(spark: SparkSession, counted: Path) -> None:
    load(spark, counted).createOrReplaceTempView("counted")
    asked = "count(*), count(id), min(id), max(id), max(name), min(part), count(part)"
    frame = spark.sql(f"select {asked} from counted")
    assert frame.collect() == [(200, 180, 0, 198, "n198", 0, 200)]
    assert "LocalTableScan" in plan(frame)
    for other in ("count(distinct id)", "sum(id)", "max(s)", "count(*) filter (where id > 5)", "min(id + 1)"):
        frame = spark.sql(f"select {other} from counted")
        assert "LocalTableScan" not in plan(frame)
        expected = spark.read.format("arrowipc").option("engine", "python").load(str(counted))
        assert frame.collect() == expected.selectExpr(other).collect()
    assert "LocalTableScan" not in plan(load(spark, counted).where("id > 5").groupBy().count())


def test_no_statistics_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(pa.record_batch({"id": [3, 1, 2]})))
    frame = load(spark, tmp_path).selectExpr("max(id)", "count(*)")
    assert frame.collect() == [(3, 3)]
    assert "LocalTableScan" not in plan(frame)
    assert "LocalTableScan" in plan(load(spark, tmp_path).groupBy().count())


@pytest.mark.parametrize("change", ["renamed", "more rows"])
def test_statistics_that_a_tool_copied_are_not_believed(spark: SparkSession, tmp_path: Path, change: str) -> None:
    with ipc.new_file(tmp_path / "x.arrow", statistics=True) as writer:
        writer.write({"x": [1, 2], "y": [100, 200]})
    with pa.ipc.open_file(tmp_path / "x.arrow") as reader:
        batch, metadata = reader.get_batch_with_custom_metadata(0)
        footer = reader.metadata
    if change == "renamed":
        batch = batch.rename_columns(["y", "x"])
    else:
        batch = pa.record_batch({"x": [1, 2, 200], "y": [100, 200, 5]})
    with pa.ipc.new_file(tmp_path / "x.arrow", batch.schema, metadata=footer) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    frame = load(spark, tmp_path)
    assert frame.where("x = 200").count() == 1
    assert frame.selectExpr("max(x)").collect() == [(200,)]
    assert "LocalTableScan" not in plan(frame.selectExpr("max(x)"))
    python = spark.read.format("arrowipc").option("engine", "python").option("filter", '["x", "==", 200]')
    assert python.load(str(tmp_path)).where("x = 200").count() == 1


def test_paths_and_tables_in_sql(spark: SparkSession, counted: Path) -> None:
    assert spark.sql(f"select count(*), max(id) from arrowipc.`{counted}`").collect() == [(200, 198)]
    spark.sql(f"create table counted_table using arrowipc options (path '{counted}')")
    try:
        assert spark.sql("select part, max(id) from counted_table group by 1 order by 1").collect() == [
            (0, 98),
            (1, 198),
        ]
        assert spark.table("counted_table").where("part = 1").count() == 100
    finally:
        spark.sql("drop table counted_table")
    assert (counted / "part=0" / "x.arrow").exists()


def test_what_the_jvm_declines_python_reads(spark: SparkSession, counted: Path) -> None:
    assert load(spark, counted, engine="auto", describe="true").count() == 2
    assert load(spark, counted, engine="auto", mode="PERMISSIVE").count() == 200
    from pyspark.errors import UnsupportedOperationException

    with pytest.raises(UnsupportedOperationException, match="engine=jvm: mode PERMISSIVE"):
        load(spark, counted, mode="PERMISSIVE")


def test_engines_of_a_session_and_of_a_read(spark: SparkSession, counted: Path) -> None:
    spark.conf.set("spark.arrowipc.engine", "python")
    try:
        assert "ColumnarToRow" not in plan(spark.read.format("arrowipc").load(str(counted)))
        assert "ColumnarToRow" in plan(load(spark, counted))
    finally:
        spark.conf.set("spark.arrowipc.engine", "auto")
    assert "ColumnarToRow" not in plan(load(spark, counted, engine="python"))


def test_sizes_are_known_before_anything_is_read(spark: SparkSession, counted: Path) -> None:
    size = sum(path.stat().st_size for path in counted.glob("*/*"))
    found = load(spark, counted)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(str(found)) == size


@pytest.fixture(scope="module")
def far(spark: SparkSession, counted: Path) -> str:
    """The same folders, by one of Hadoop's file systems that is not the local one."""
    spark.conf.set("fs.viewfs.mounttable.far.link./tables", counted.parent.as_uri())
    return f"viewfs://far/tables/{counted.name}"


@pytest.mark.parametrize("below", ["", "/", "/part=1", "/*/*.arrow", "/part={0,1}", "/part=[!1]/x.arro?"])
def test_far_files_are_found_and_read_as_near_ones(spark: SparkSession, counted: Path, far: str, below: str) -> None:
    asked = "*", "s.b", "_batch", "_row"
    near = load(spark, f"{counted}{below}", withMetadata="true").selectExpr(*asked).drop("_file")
    found = load(spark, far + below, withMetadata="true").selectExpr(*asked).drop("_file")
    assert found.columns == near.columns
    rows = sorted(found.collect(), key=str)
    assert rows == sorted(near.collect(), key=str)
    assert rows
    assert load(spark, far + below).groupBy().count().first()[0] == len(rows)


def test_far_file_systems_have_roots_keys_and_bounds(spark: SparkSession, counted: Path, far: str) -> None:
    root = far.partition("/tables")[0]
    for path in (root, f"{root}/", f"{root}/*/{counted.name}"):
        assert load(spark, path, pathGlobFilter="x.arrow", recursiveFileLookup="true").count() == 200
    frame = load(spark, far).where("part = 1 and id >= 150")
    assert frame.count() == 45
    assert "files: 1 of 2, batches: chosen by tasks" in plan(frame)
    assert load(spark, f"{far}/part=1", basePath=far).selectExpr("max(part)", "max(id)").collect() == [(1, 198)]
    assert spark.sql(f"select count(*), max(id) from arrowipc.`{far}`").collect() == [(200, 198)]


def test_of_far_files_only_ranges_of_the_chosen_columns_are_read(
    spark: SparkSession, counted: Path, far: str, tmp_path: Path
) -> None:
    spark.conf.set("fs.viewfs.mounttable.wide.link./tables", tmp_path.as_uri())
    with ipc.new_file(tmp_path / "x.arrow", statistics=True) as writer:
        for start in range(0, 40_000, 10_000):
            writer.write({f"c{number}": [*range(start, start + 10_000)] for number in range(20)})
    with ipc.new_stream(tmp_path / "x.stream") as writer:
        writer.write({"id": [1, 2], "name": ["a", "b"]})
        writer.write({"id": [3], "name": ["c"]})

    def counted_bytes(frame: DataFrame) -> tuple[Any, int]:
        systems = spark._jvm.org.apache.hadoop.fs.FileSystem
        before = sum(each.getBytesRead() for each in systems.getAllStatistics())
        rows = frame.collect()
        return rows[0][0], sum(each.getBytesRead() for each in systems.getAllStatistics()) - before

    frame = load(spark, "viewfs://wide/tables/x.arrow")
    total, size = counted_bytes(frame.selectExpr("sum(c7)"))
    assert total == sum(range(40_000))
    assert 320_000 <= size < 400_000 < (tmp_path / "x.arrow").stat().st_size / 15
    total, size = counted_bytes(frame.where("c3 < 10000").selectExpr("sum(c3)"))
    assert total == sum(range(10_000))
    assert 80_000 <= size < 160_000
    assert load(spark, "viewfs://wide/tables/x.stream").selectExpr("sum(id)", "max(name)").collect() == [(6, "c")]


def test_far_files_that_are_not_there_are_named(spark: SparkSession, far: str, tmp_path: Path) -> None:
    for engine in ("auto", "jvm"):
        with pytest.raises(Exception, match=r"viewfs://far/tables/none: no such file"):
            load(spark, "viewfs://far/tables/none", engine=engine)
    spark.conf.set("fs.viewfs.mounttable.gone.link./tables", tmp_path.as_uri())
    for name in "ab":
        (tmp_path / f"{name}.arrow").write_bytes(file(pa.record_batch({"id": [1, 2]})))
    frames = [load(spark, "viewfs://gone/tables", ignoreMissingFiles=flag) for flag in ("false", "true")]
    for frame in frames:
        assert frame._jdf.queryExecution().executedPlan() is not None
        assert "files: 2" in plan(frame)
    (tmp_path / "a.arrow").unlink()
    with pytest.raises(Exception, match=r"a\.arrow"):
        frames[0].collect()
    assert frames[1].collect() == [(1,), (2,)]


def test_of_a_far_directory_only_files_of_jobs_that_ended_count(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("fs.viewfs.mounttable.jobs.link./tables", tmp_path.as_uri())
    out, job = tmp_path / "out", "0123456789abcdef" * 2
    spark.range(5).coalesce(1).write.format("arrowipc").mode("overwrite").save(str(out))
    newest = max((out / "_commits").glob("*.json"))
    entry = json.loads(newest.read_text()) | {"started": {job: 1}}
    newest.with_name(f"{int(newest.stem) + 1:020}.json").write_text(json.dumps(entry))
    (out / f"part-00000-{job}.arrow").write_bytes(file(pa.record_batch({"id": [7]})))
    python = spark.read.format("arrowipc").option("engine", "python").load(str(out))
    found = load(spark, "viewfs://jobs/tables/out")
    assert sorted(found.collect()) == sorted(python.collect()) == [(number,) for number in range(5)]


def test_added_columns_are_in_no_statistics(spark: SparkSession, counted: Path) -> None:
    frame = load(spark, counted, withMetadata="true")
    assert frame.where("_row = 1 and part = 1 and id < 150 and _file like '%.arrow'").count() == 5
    assert frame.selectExpr("count(_row)", "max(_batch)", "count(_FILE)").collect() == [(200, 9, 200)]


def test_a_jar_is_found_and_named() -> None:
    done = subprocess.run([sys.executable, "-m", "arrowipc.spark.jar"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == find_jar()
    assert Path(done.stdout.strip()).stat().st_size <= 250_000


SHIPPED = """
import json, sys
from arrowipc.spark import session

spark = session(sys.argv[1], json.loads(sys.argv[2]))
frame = spark.read.format("arrowipc").option("engine", "jvm").load(sys.argv[3])
print(frame.repartition(3).selectExpr("sum(id)", "max(s.a)", "count(*)").first()[:], frame.count())
print(spark.sql(f"select min(id) from arrowipc.`{sys.argv[3]}`").first()[0])
"""


def run(counted: Path, tmp_path: Path, master: str, settings: dict[str, str]) -> list[str]:
    local = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    command = [sys.executable, "-c", SHIPPED, master, json.dumps(local | settings), str(counted)]
    environment = {**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "work"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-2:]


@pytest.mark.slow
def test_a_session_of_ours_brings_the_jar_to_executors(counted: Path, tmp_path: Path) -> None:
    assert run(counted, tmp_path, "local-cluster[2,1,1024]", {}) == ["(17820, 198, 200) 200", "0"]


def test_a_session_keeps_other_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def __init__(self) -> None:
            self._options = {"spark.jars": "/other.jar"}

        def config(self, name: str, value: str) -> Builder:
            self._options[name] = value
            return self

    for _ in range(2):
        built = configure(Builder())._options
        assert built["spark.jars"] == f"/other.jar,{find_jar()}"
        assert built["spark.sql.catalog.arrowipc"].startswith("org.arrowipc.spark.")
    monkeypatch.setattr("arrowipc.spark.jar.JAR", Path("/nowhere.jar"))
    assert configure(Builder())._options == {"spark.jars": "/other.jar"}
    assert find_jar() is None
