"""Data frames from Arrow data, and back: the rows, their order and their types, as Spark's own ways give them."""

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrow_columns import COLUMNS, everything, expected, stream
from pyspark.sql import SparkSession

import arrowipc as ipc
from arrowipc.errors import UnsupportedError
from arrowipc.spark import collect, create, frames, to_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]


def test_a_table_with_a_column_of_every_type(spark: SparkSession) -> None:
    table = pa.table(everything())
    frame = create(spark, table)
    assert frame.schema == to_spark_schema(table.schema)
    assert [field.dataType.simpleString() for field in frame.schema] == [each.spark for each in COLUMNS.values()]
    assert pa.table(collect(frame)).to_pylist() == expected()


def test_types_and_rows_are_those_of_create_data_frame_and_to_arrow(spark: SparkSession) -> None:
    table = pa.table(
        {
            "id": pa.array([1, None, 3], pa.int32()),
            "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
            "words": [["a"], [], None],
            "place": [{"x": 1.5}, None, {"x": None}],
        }
    )
    theirs = spark.createDataFrame(table)
    ours = create(spark, table)
    assert ours.schema == theirs.schema
    assert ours.collect() == theirs.collect()
    assert pa.table(collect(ours)) == theirs.toArrow()


@pytest.mark.parametrize("engine", ["jvm", "python", "jvm without pyarrow"])
def test_rows_keep_their_order_over_many_cells(spark: SparkSession, monkeypatch: Any, engine: str) -> None:
    monkeypatch.setattr(frames, "CELL_BYTES", 1 << 10)
    if engine == "python":
        monkeypatch.setattr("arrowipc.spark.payloads.jvm.has_jar", lambda session: False)
    batches = [pa.record_batch({"n": np.arange(first, first + 1000)}) for first in range(0, 5000, 1000)]
    with monkeypatch.context() as hidden:
        if "without" in engine:
            hidden.setitem(sys.modules, "pyarrow", None)
        frame = create(spark, ipc.open_stream(stream(*batches)))
    assert frame.rdd.getNumPartitions() > 1
    assert frame.count() == 5000
    assert collect(frame)["n"].to_pylist() == list(range(5000))


@pytest.mark.parametrize(
    ("data", "rows"),
    [({"x": []}, 0), (pa.table({"x": pa.array([], pa.int8())}), 0), (ipc.record_batch({"x": [1, 2]}), 2)],
)
def test_few_rows(spark: SparkSession, data: Any, rows: int) -> None:
    frame = create(spark, data)
    assert (frame.columns, frame.count(), len(collect(frame))) == (["x"], rows, rows)


def test_rows_without_columns(spark: SparkSession) -> None:
    frame = create(spark, ipc.table({"x": [1, 2, 3]}).select([]))
    assert (frame.columns, frame.count()) == ([], 3)


def test_what_spark_cannot_hold_is_refused_by_name_or_becomes_what_options_say(spark: SparkSession) -> None:
    late = {"at": pa.array([1], pa.timestamp("ns")), "wide": pa.array([1], pa.decimal256(50, 0))}
    with pytest.raises(UnsupportedError, match="'wide'"):
        create(spark, pa.table(late))
    frame = create(spark, pa.table(late), {"nanoseconds": "long", "unsupported": "drop"})
    assert frame.collect() == [(1,)]
