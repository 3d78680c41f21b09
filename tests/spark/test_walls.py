"""What Spark cannot do for a data source in Python, and that the file format in the JVM can."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.spark import FORMAT

import arrowipc
from arrowipc.spark import from_arrow_udf, to_arrow
from arrowipc.spark.options import USE_THE_JAR

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder with a file of three rows."""
    (tmp_path / "in").mkdir()
    with arrowipc.new_file(tmp_path / "in/x.arrow") as writer:
        writer.write(pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]}))
    return str(tmp_path)


def in_a_thread(ask: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask).result()


def said(ask: Callable[[], Any]) -> str:
    """What Spark says to something that it refuses; nothing if it does not."""
    try:
        ask()
    except Exception as error:  # Spark's errors have many classes
        return str(error)
    return ""


def asks(spark: SparkSession, name: str, folder: str) -> dict[str, Callable[[], Any]]:
    """What users ask of a file format, and what Spark says where the format is in Python."""
    frame = spark.read.format(name).load(f"{folder}/in")
    return {
        "[DATA_SOURCE_NOT_FOUND]": lambda: in_a_thread(
            lambda: frame.write.format(name).mode("append").save(f"{folder}/thread")
        ),
        "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY]": lambda: spark.sql(f"SELECT * FROM {name}.`{folder}/in`"),
        "Only Data Sources providing FileFormat": lambda: spark.sql(
            f"INSERT OVERWRITE DIRECTORY '{folder}/d' USING {name} SELECT 1 AS x"
        ),
        "[UNRESOLVED_COLUMN": lambda: frame.select("_metadata.file_path").collect(),
        "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]": lambda: frame.write.format(name).mode("ignore").save(f"{folder}/mode"),
        "partition": lambda: frame.write.format(name).mode("append").partitionBy("word").save(f"{folder}/by"),
        f"saveAsTable and bucketBy: {USE_THE_JAR}": lambda: (
            frame.write.format(name).mode("append").bucketBy(2, "id").saveAsTable("walled")
        ),
        f"option maxRecordsPerFile: {USE_THE_JAR}": lambda: (
            frame.write.format(name).mode("append").option("maxRecordsPerFile", 1).save(f"{folder}/few")
        ),
    }


@pytest.mark.usefixtures("python_format")
def test_what_only_the_file_format_can(spark: SparkSession, folder: str) -> None:
    refused = {expected: said(ask) for expected, ask in asks(spark, FORMAT, folder).items()}
    assert [expected for expected, found in refused.items() if expected not in found] == [], refused
    assert {said(ask) for ask in asks(spark, "arrowipc", folder).values()} == {""}
    spark.sql("DROP TABLE walled")


def test_rows_of_payloads_beside_other_columns(spark: SparkSession) -> None:
    spark.range(3).select("id", to_arrow("id").alias("payload")).createOrReplaceTempView("walled")
    spark.udf.register("rows_of", from_arrow_udf("id bigint"))
    found = spark.sql("SELECT id, inline(rows_of(payload)) AS (inner) FROM walled ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(0, 0), (1, 1), (2, 2)]
