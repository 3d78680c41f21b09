"""Payloads made in Spark: what encode_payloads writes is what pyarrow reads, and decodes to equal rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.spark import all_types, collected
from pyspark.sql import DataFrame, SparkSession

import arrowipc
from arrowipc.errors import LimitError, UsageError
from arrowipc.spark import (
    decode_payload_batches,
    decode_payloads,
    encode_payload_batches,
    encode_payloads,
    payload_schema,
)

pytestmark = pytest.mark.spark


def numbered(first: int, count: int, group: int = 7) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        {
            "key": pa.array([number // group for number in numbers], pa.int32()),
            "id": pa.array(numbers, pa.int64()),
            "word": pa.array([f"w{number % 3}" if number % 5 else None for number in numbers], pa.string()),
        }
    )


def cut(total: int, *sizes: int) -> list[pa.RecordBatch]:
    """Rows 0 to `total` in batches of these sizes, over and over."""
    batches, first, turn = [], 0, 0
    while first < total:
        size = min(sizes[turn % len(sizes)], total - first)
        batches.append(numbered(first, size))
        first, turn = first + size, turn + 1
    return batches


def read(payload: bytes) -> list[dict[str, Any]]:
    return pa.ipc.open_stream(payload).read_all().to_pylist()


def encoded(batches: list[pa.RecordBatch], **options: Any) -> list[dict[str, Any]]:
    return [row for batch in encode_payload_batches(batches, **options) for row in batch.to_pylist()]


WHOLE = numbered(0, 100).to_pylist()


# The generator.


@pytest.mark.parametrize("sizes", [(100,), (1,), (3, 50), (10,), (9, 11), (64, 0, 1)])
@pytest.mark.parametrize("count", [1, 10, 33, 100, 1000])
def test_payloads_have_exactly_the_rows_wanted_wherever_batches_end(sizes: tuple[int, ...], count: int) -> None:
    cells = encoded(cut(100, *sizes), rows_per_payload=count)
    found = [read(cell["payload"]) for cell in cells]
    assert [row for rows in found for row in rows] == WHOLE
    assert {len(rows) for rows in found[:-1]} <= {count}
    assert 1 <= len(found[-1]) <= count


@pytest.mark.parametrize("sizes", [(100,), (1,), (3, 50), (7,), (13, 1)])
def test_a_group_is_one_payload_wherever_batches_end(sizes: tuple[int, ...]) -> None:
    cells = encoded(cut(100, *sizes), group_by="KEY", column="bytes")
    assert [cell["key"] for cell in cells] == list(range(15))
    rows = [{"key": cell["key"], **row} for cell in cells for row in read(cell["bytes"])]
    assert rows == WHOLE
    kept = encoded(cut(100, *sizes), group_by=["key"], keep_keys=True)
    assert [row for cell in kept for row in read(cell["payload"])] == WHOLE


def test_groups_by_several_columns_with_nulls_and_nan() -> None:
    nan = float("nan")
    batch = pa.record_batch(
        {"a": [None, None, nan, nan, 0.0, -0.0, 1.0], "b": ["x", "x", None, None, "y", "y", "y"], "n": range(7)}
    )
    cells = encoded([batch.slice(0, 3), batch.slice(3, 2), batch.slice(5)], group_by=["a", "b"])
    assert [[row["n"] for row in read(cell["payload"])] for cell in cells] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [cell["b"] for cell in cells] == ["x", None, "y", "y"]


@pytest.mark.parametrize("sizes", [(100,), (9,)])
def test_groups_larger_than_the_limits_get_further_payloads(sizes: tuple[int, ...]) -> None:
    batches = cut(100, *sizes)
    cells = encoded(batches, group_by="key", rows_per_payload=3)
    assert [row for cell in cells for row in ({"key": cell["key"], **row} for row in read(cell["payload"]))] == WHOLE
    assert [len(read(cell["payload"])) for cell in cells[:6]] == [3, 3, 1, 3, 3, 1]
    one = [batch.set_column(0, "key", pa.array([1] * batch.num_rows)) for batch in batches]
    cells = encoded(one, group_by="key", bytes_per_payload=300)
    assert len(cells) > 5
    assert [row["id"] for cell in cells for row in read(cell["payload"])] == list(range(100))


def test_batches_are_limited_in_rows_and_bytes() -> None:
    batches = cut(1000, 1000)
    by_rows = list(encode_payload_batches(batches, rows_per_payload=2, rows_per_batch=100))
    assert [batch.num_rows for batch in by_rows] == [100] * 5
    by_bytes = list(encode_payload_batches(batches, rows_per_payload=2, bytes_per_batch=10_000))
    assert sum(batch.num_rows for batch in by_bytes) == 500
    assert max(sum(map(len, batch.column(0).to_pylist())) for batch in by_bytes) <= 10_000
    skewed = pa.record_batch({"text": ["x"] * 500 + ["y" * 5000] * 20})
    parts = list(encode_payload_batches([skewed], rows_per_payload=1, bytes_per_batch=20_000))
    assert max(sum(map(len, part.column(0).to_pylist())) for part in parts) <= 20_000


def test_dictionary_columns_hold_the_words_of_their_payload() -> None:
    cells = encoded(cut(100, 60), rows_per_payload=10, dictionary_columns=["Word"])
    assert cells == encoded(cut(100, 60), rows_per_payload=10, dictionary_columns="word")
    tables = [pa.ipc.open_stream(cell["payload"]).read_all() for cell in cells]
    assert {table.schema.field("word").type for table in tables} == {pa.dictionary(pa.int32(), pa.string())}
    assert [row for table in tables for row in table.to_pylist()] == WHOLE
    grouped = encoded(cut(100, 60), group_by="key", dictionary_columns=["word"])
    assert [row["id"] for cell in grouped for row in read(cell["payload"])] == list(range(100))
    for wrong, text in (("key", "is a key"), ("nix", "no column 'nix'")):
        with pytest.raises(UsageError, match=text):
            encoded(cut(9, 9), group_by="key", dictionary_columns=[wrong])
    lists = pa.record_batch({"list": [[1], [2]]})
    with pytest.raises(UsageError, match="cannot make up a dictionary"):
        encoded([lists], rows_per_payload=1, dictionary_columns=["list"])


def test_bare_messages_decode_with_their_schema() -> None:
    cells = list(encode_payload_batches(cut(100, 30), rows_per_payload=8, with_schema=False))
    with pytest.raises((pa.ArrowInvalid, OSError)):
        read(cells[0].column(0)[0].as_py())
    schema = numbered(0, 1).schema
    found = decode_payload_batches(cells, "payload", schema)
    assert [row for batch in found for row in batch.to_pylist()] == WHOLE


def test_instants_are_encoded_in_utc_also_inside_other_values() -> None:
    paris, utc, local = (pa.timestamp("us", zone) for zone in ("Europe/Paris", "UTC", None))

    def holders(type_: pa.DataType) -> list[pa.DataType]:
        return [type_, pa.list_(type_), pa.struct([("at", type_)]), pa.map_(pa.string(), type_), local]

    values = [1, [2, None], {"at": 3}, [("k", 4)], 5]
    arrays = [pa.array([value], type_) for value, type_ in zip(values, holders(paris), strict=True)]
    (cell,) = encoded([pa.record_batch(arrays, names=list("abcde"))], rows_per_payload=1)
    table = pa.ipc.open_stream(cell["payload"]).read_all()
    expected = [pa.array([value], type_) for value, type_ in zip(values, holders(utc), strict=True)]
    assert table.schema.types == [array.type for array in expected]
    assert table.to_batches()[0].columns == expected


def test_arguments_that_are_wrong(rows: DataFrame) -> None:
    batches = [numbered(0, 3)]
    for options, text in (
        ({}, "rows_per_payload= or group_by="),
        ({"rows_per_payload": 0}, "rows_per_payload must be an integer from 1"),
        ({"rows_per_payload": 1, "bytes_per_batch": 0}, "bytes_per_batch"),
        ({"group_by": []}, "rows_per_payload= or group_by="),
        ({"group_by": "nix"}, "no column 'nix'"),
        ({"group_by": ["key", "id", "word"]}, "all columns are keys"),
        ({"group_by": "key", "column": "Key"}, "a key column 'Key' already"),
        ({"rows_per_payload": 1, "compression": "gzip"}, "gzip"),
    ):
        with pytest.raises(UsageError, match=text):
            encoded(batches, **options)
        with pytest.raises(UsageError, match=text):
            encode_payloads(rows, **options)
    with pytest.raises(UsageError, match="schema of the batches changes"):
        encoded([*batches, pa.record_batch({"id": [1]})], rows_per_payload=2)


def test_rows_that_no_payload_can_wait_for() -> None:
    text = pa.array(["x" * (1 << 20)] * 8)
    batch = pa.record_batch({"text": text})
    # The same 8 MiB again and again: they count as often as they come.
    with pytest.raises(LimitError, match="lower rows_per_payload"):
        encoded([batch] * 130, rows_per_payload=10_000)


# In Spark.


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([numbered(0, 100)])).repartition(3)


def test_encode_and_decode(rows: DataFrame) -> None:
    frame = encode_payloads(rows, rows_per_payload=10)
    assert frame.schema.simpleString() == "struct<payload:binary>"
    assert collected(decode_payloads(frame, "payload")) == WHOLE
    bare = encode_payloads(rows, rows_per_payload=10, with_schema=False, dictionary_columns=["word"])
    schema = payload_schema(rows, dictionary_columns=["word"])
    assert collected(decode_payloads(bare, "payload", schema)) == WHOLE


def test_every_group_is_one_payload_in_spark(conf: Any, rows: DataFrame) -> None:
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", 3)
    cells = encode_payloads(rows.withColumnRenamed("word", "a.b"), group_by=["key"], compression="zstd").collect()
    assert sorted(cell["key"] for cell in cells) == list(range(15))
    found = [{"key": cell["key"], **row} for cell in cells for row in read(bytes(cell["payload"]))]
    assert sorted((row["id"], row["key"], row["a.b"]) for row in found if row["a.b"]) == sorted(
        (row["id"], row["key"], row["word"]) for row in WHOLE if row["word"]
    )
    assert len(found) == 100


def test_every_type_of_spark_comes_back(spark: SparkSession, conf: Any) -> None:
    conf("spark.sql.timeType.enabled", "true")
    frame = all_types(spark).drop("h", "dy")  # intervals of hours or days come back as those of day to second
    ways = {"UTC": {"rows_per_payload": 2}, "America/New_York": {"group_by": "id", "keep_keys": True}}
    for zone, options in ways.items():
        conf("spark.sql.session.timeZone", zone)
        back = decode_payloads(encode_payloads(frame, **options).cache(), "payload")
        assert back.schema.simpleString() == frame.schema.simpleString()
        assert sorted(map(repr, back.collect())) == sorted(map(repr, frame.collect()))


def test_large_types_of_spark(conf: Any, rows: DataFrame) -> None:
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    bare = encode_payloads(rows, rows_per_payload=10, with_schema=False)
    schema = payload_schema(rows)
    assert schema["word"].type == arrowipc.types.large_utf8()
    assert collected(decode_payloads(bare, "payload", schema)) == WHOLE


@pytest.mark.parametrize(
    "value", ["INTERVAL '1-2' YEAR TO MONTH", "parse_json('1')", "named_struct('a', INTERVAL '1' YEAR)"]
)
def test_types_that_payloads_cannot_hold_are_refused_before_data_moves(spark: SparkSession, value: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {value} AS odd")
    with pytest.raises(UsageError, match=r"column 'odd(\.a)?' has the Spark type"):
        encode_payloads(frame, rows_per_payload=1)


def test_rows_of_a_stream_are_encoded_and_decoded(
    spark: SparkSession, rows: DataFrame, engine: Any, tmp_path: Path
) -> None:
    rows.write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    cells = encode_payloads(source, rows_per_payload=4)
    found: dict[int, list[dict[str, Any]]] = {}

    def collect(frame: DataFrame, number: int) -> None:
        found[number] = collected(frame)

    back = decode_payloads(cells, "payload", rows.schema, engine=engine)
    query = back.writeStream.foreachBatch(collect).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "log")).start().awaitTermination(120)
    assert len(found) == 3
    assert sorted((row for part in found.values() for row in part), key=lambda row: row["id"]) == WHOLE
    with pytest.raises(UsageError, match="pass schema="):
        decode_payloads(cells, "payload", engine=engine)
    with pytest.raises(UsageError, match="nested columns"):
        encode_payloads(source.selectExpr("array(key) AS keys", "id"), group_by="keys")
