"""What Spark cannot do for a data source in Python, and that what the guide names instead works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.python_source import FORMAT, register_python

import arrowipc
from arrowipc.spark import from_arrow_udf, from_arrow_udtf, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register_python(spark)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A directory with a file of three rows."""
    (tmp_path / "in").mkdir()
    with arrowipc.new_file(tmp_path / "in/x.arrow") as writer:
        writer.write(pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]}))
    return str(tmp_path)


def said(ask: Callable[[], Any]) -> str:
    """What Spark says to something that it refuses."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (Spark's errors have many classes)
        ask()
    return str(caught.value)


def in_a_thread(ask: Callable[[], Any]) -> None:
    errors = []

    def run() -> None:
        try:
            ask()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in errors:
        raise error


def count(spark: SparkSession, path: str) -> int:
    return spark.read.format(FORMAT).load(path).count()


def test_writing_from_another_thread(spark: SparkSession, folder: str) -> None:
    def write() -> None:
        spark.range(5).write.format(FORMAT).mode("append").save(f"{folder}/out")

    def write_with_session() -> None:
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr, attr-defined]
        write()

    assert "[DATA_SOURCE_NOT_FOUND]" in said(lambda: in_a_thread(write))
    in_a_thread(write_with_session)
    assert count(spark, f"{folder}/out") == 5


def test_tables_of_the_catalog(spark: SparkSession, folder: str) -> None:
    options = f"USING {FORMAT} OPTIONS (path '{folder}/in')"
    numbers = spark.range(5).write.format(FORMAT).mode("append")
    asks: list[Callable[[], Any]] = [
        lambda: spark.sql(f"CREATE TABLE wall {options}"),
        lambda: spark.sql(f"CREATE TABLE wall {options} AS SELECT 1 AS id"),
        lambda: spark.sql(f"CREATE TABLE wall (id bigint) {options}") and spark.table("wall").collect(),
        lambda: numbers.saveAsTable("other_wall"),
        lambda: spark.range(5).writeTo("third_wall").using(FORMAT).create(),
    ]
    try:
        for ask in asks:
            assert "arrowipc.errors.UsageError: " in said(ask)
    finally:
        for name in ("wall", "other_wall", "third_wall"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TEMPORARY VIEW stands_in {options}")
    assert spark.table("stands_in").count() == 3
    spark.sql("INSERT INTO stands_in VALUES (4, 'd')")
    assert count(spark, f"{folder}/in") == 4
    spark.catalog.dropTempView("stands_in")


def test_queries_of_a_path(spark: SparkSession, folder: str) -> None:
    direct = said(lambda: spark.sql(f"SELECT * FROM {FORMAT}.`{folder}/in`"))
    assert "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY]" in direct
    directory = said(lambda: spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}/o' USING {FORMAT} SELECT 1 AS x"))
    assert "Only Data Sources providing FileFormat are supported" in directory


def test_where_rows_come_from(spark: SparkSession, folder: str) -> None:
    frame = spark.read.format(FORMAT).load(f"{folder}/in")
    assert "[UNRESOLVED_COLUMN" in said(lambda: frame.select("_metadata.file_path"))
    assert frame.selectExpr("input_file_name() AS name").first().name == ""  # type: ignore[union-attr]


def test_columns_filters_and_sizes_that_spark_keeps_to_itself(spark: SparkSession, folder: str) -> None:
    from pyspark.sql import functions as F

    frame = spark.read.format(FORMAT).load(f"{folder}/in")
    scan = frame.select("id")._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]
    assert "[id#" in scan.toString()
    assert "word#" in scan.toString(), "Spark prunes columns now: the option is not needed any longer"
    assert spark.read.format(FORMAT).option("columns", "id").load(f"{folder}/in").columns == ["id"]
    numbers = spark.range(5)

    def plan(joined: Any) -> str:
        return str(joined._jdf.queryExecution().executedPlan().toString())

    assert "Broadcast" in plan(numbers.join(F.broadcast(frame), "id"))


def test_ways_to_write(spark: SparkSession, folder: str) -> None:
    frame = spark.read.format(FORMAT).load(f"{folder}/in")
    for mode in ("errorifexists", "ignore"):
        refused = said(lambda mode=mode: frame.write.format(FORMAT).mode(mode).save(f"{folder}/m"))
        assert "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]" in refused
    writer = frame.write.format(FORMAT).mode("append")
    assert "partitioning or clustering columns" in said(lambda: writer.partitionBy("word").save(f"{folder}/p"))
    assert "bucketBy" in said(lambda: frame.write.format(FORMAT).bucketBy(2, "word").save(f"{folder}/p"))


def test_table_functions_beside_other_columns(spark: SparkSession) -> None:
    spark.range(3).select("id", to_arrow("id").alias("payload")).createOrReplaceTempView("walled")
    spark.udtf.register("table_of", from_arrow_udtf("id bigint"))
    spark.udf.register("rows_of", from_arrow_udf("id bigint"))
    lateral = said(lambda: spark.sql("SELECT w.id, r.* FROM walled w, LATERAL table_of(w.payload) r"))
    assert "[LATERAL_JOIN_WITH_ARROW_UDTF_UNSUPPORTED]" in lateral
    found = spark.sql("SELECT id, inline(rows_of(payload)) AS (inner) FROM walled ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(0, 0), (1, 1), (2, 2)]


def test_continuous_processing(spark: SparkSession, folder: str) -> None:
    stream = spark.readStream.format(FORMAT).schema("id long").load(f"{folder}/in")
    query = stream.writeStream.format("noop").trigger(continuous="1 second")
    assert "does not support continuous processing" in said(lambda: query.start().awaitTermination(20))
