"""Payload columns in Structured Streaming: rows that go in come out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arrowipc.errors import UsageError
from arrowipc.spark import decode_payloads, encode_payloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 40


@pytest.fixture
def rate(spark: SparkSession) -> DataFrame:
    """Ten rows per micro-batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 2)
    return source.load().selectExpr("value AS id", "timestamp AS at", "value % 3 AS key", "CAST(value AS string) AS t")


def run(frame: DataFrame, folder: Path) -> list[Any]:
    """Write the stream as Parquet until there are rows enough."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(processingTime="0 seconds").start()
    try:
        for _ in range(600):
            assert query.exception() is None
            if (folder / "out").exists():
                found = frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "out")).collect()
                if len(found) >= ROWS:
                    return found
            query.awaitTermination(0.2)
        raise AssertionError(f"the stream has made {len(found)} rows only")
    finally:
        query.stop()


def expected(found: list[Any]) -> bool:
    rows = sorted(found, key=lambda row: row["id"])
    return [(row["id"], row["key"], row["t"]) for row in rows] == [(i, i % 3, str(i)) for i in range(len(rows))]


def test_rows_are_encoded_and_decoded(rate: DataFrame, tmp_path: Path) -> None:
    cells = encode_payloads(rate, rows_per_payload=4)
    back = decode_payloads(cells, "payload", rate.schema)
    assert back.isStreaming
    found = run(back, tmp_path)
    assert expected(found)
    assert len({row["at"] for row in found}) > 1


def test_payloads_of_a_group_hold_its_rows_only(rate: DataFrame, tmp_path: Path) -> None:
    """The key stands beside the payload that the number of a row comes out of."""
    cells = encode_payloads(rate, group_by="key", compression="zstd")
    assert cells.columns == ["key", "payload"]
    schema = "id bigint, at timestamp, t string"
    found = run(decode_payloads(cells, "payload", schema, keep=["key"]), tmp_path)
    assert expected(found)


def test_a_stream_has_no_sample_and_no_groups_by_nested_columns(rate: DataFrame) -> None:
    with pytest.raises(UsageError, match="pass schema="):
        decode_payloads(encode_payloads(rate, rows_per_payload=4), "payload")
    with pytest.raises(UsageError, match="nested columns"):
        encode_payloads(rate.selectExpr("array(key) AS keys", "id"), group_by="keys")
