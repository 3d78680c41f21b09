"""Payload columns: what decode_payloads gives is what pyarrow reads from each payload, row for row."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import everything, expected, file, stream

from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.spark import decode_payload_batches, decode_payloads, to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def small(number: int, rows: int = 3) -> pa.RecordBatch:
    """Return a batch with dictionaries of its own."""
    return pa.record_batch(
        {
            "id": pa.array(range(number * 100, number * 100 + rows), pa.int64()),
            "word": pa.array(
                [f"w{number}-{row % 2}" for row in range(rows)], pa.string()
            ).dictionary_encode(),
            "size": pa.array([row or None for row in range(rows)], pa.uint16()),
        }
    )


SCHEMA = to_spark_schema(small(0).schema)


def table(*payloads: bytes | None, type_: pa.DataType | None = None) -> pa.RecordBatch:
    names = pa.array([f"host{row}" for row in range(len(payloads))], pa.string())
    return pa.record_batch({"host": names, "payload": pa.array(payloads, type_ or pa.binary())})


def rows(*batches: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def decode(*batches: pa.RecordBatch, schema: Any = SCHEMA, **options: Any) -> list[pa.RecordBatch]:
    return list(decode_payload_batches(batches, "payload", schema, **options))


# The generator.


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_streams_and_files_and_nulls(type_: pa.DataType) -> None:
    column = table(
        stream(small(0), small(1, 0), small(2)), None, file(small(3)), stream(small(4, 0)), type_=type_
    )
    found = decode(column)
    assert len(found) == 1
    assert rows(*found) == rows(small(0), small(2), small(3))
    assert rows(*decode(column.slice(2))) == rows(small(3))


def test_every_type() -> None:
    column = table(stream(everything()), stream(everything().slice(1)))
    found = decode(column, schema=to_spark_schema(everything().schema))
    assert rows(*found) == expected() + expected()[1:]


def test_many_payloads_come_in_batches_of_the_size_wanted() -> None:
    batches = [small(number) for number in range(100)]
    column = table(*map(stream, batches))
    found = decode(column, column, rows_per_batch=30)
    assert rows(*found) == rows(*batches, *batches)
    assert {item.num_rows for item in found} == {30}
    assert max(item.num_rows for item in decode(table(stream(small(0, 1000))), rows_per_batch=30)) == 30


def test_dictionaries_that_cannot_be_joined() -> None:
    narrow = pa.dictionary(pa.int8(), pa.string())
    words = [pa.array([f"{number}-{word}" for word in range(100)]) for number in range(3)]
    batches = [pa.record_batch({"x": array.dictionary_encode().cast(narrow)}) for array in words]
    assert rows(*decode(table(*map(stream, batches)), schema=to_spark_schema(batches[0].schema))) == rows(
        *batches
    )
    lists = [
        pa.record_batch({"x": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[number]]))})
        for number in range(3)
    ]
    assert rows(*decode(table(*map(stream, lists)), schema=to_spark_schema(lists[0].schema))) == rows(*lists)


def test_a_payload_whose_own_batches_cannot_be_joined() -> None:
    narrow = pa.dictionary(pa.int8(), pa.string())
    batches = [
        pa.record_batch(
            {"x": pa.array([f"{number}-{word}" for word in range(100)]).dictionary_encode().cast(narrow)}
        )
        for number in range(3)
    ]
    column = table(stream(batches[0], batches[1]), stream(batches[2]))
    found = decode(column, schema=to_spark_schema(batches[0].schema), keep=["host"])
    assert [row["x"] for row in rows(*found)] == [row["x"] for row in rows(*batches)]
    assert [row["host"] for row in rows(*found)] == ["host0"] * 200 + ["host1"] * 100


def test_kept_columns_follow_their_payload() -> None:
    column = table(stream(small(0, 2)), None, stream(small(2, 1), small(3, 2)))
    found = decode(column, keep=["host"], rows_per_batch=2)
    assert found[0].schema.names == ["host", "id", "word", "size"]
    assert [row["host"] for row in rows(*found)] == ["host0"] * 2 + ["host2"] * 3
    assert [row["id"] for row in rows(*found)] == [0, 1, 200, 300, 301]


def test_payloads_of_different_schemas() -> None:
    other = pa.record_batch({"size": pa.array([7], pa.int8()), "more": [1], "id": [1], "word": ["plain"]})
    found = rows(*decode(table(stream(small(0)), stream(other), stream(small(1)))))
    assert found == [*rows(small(0)), {"id": 1, "word": "plain", "size": 7}, *rows(small(1))]


def test_projection() -> None:
    wanted = to_spark_schema(small(0).select(["size", "id"]).schema)
    found = decode(table(stream(small(0))), schema=wanted, columns=["size", "id"])
    assert rows(*found) == rows(small(0).select(["size", "id"]))
    assert rows(*decode(table(stream(small(0))), schema=wanted)) == rows(small(0).select(["size", "id"]))


BROKEN = [b"", b"garbage", stream(small(1))[:-80], stream(pa.record_batch({"other": [1]}))]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_payloads(broken: bytes) -> None:
    column = table(stream(small(0)), broken, stream(small(2)))
    with pytest.raises(ArrowIpcError) as caught:
        decode(table(stream(small(9))), column)
    assert "column 'payload', row 2" in str(caught.value)
    assert 'on_error="skip"' in str(caught.value)
    found = decode(column, on_error="skip", keep=["host"])
    assert [row["host"] for row in rows(*found)] == ["host0"] * 3 + ["host2"] * 3


def test_a_payload_broken_in_its_second_batch_leaves_nothing() -> None:
    torn = stream(small(1), small(2))[:-80]
    assert rows(*decode(table(torn, stream(small(3))), on_error="skip")) == rows(small(3))


def test_a_payload_with_a_value_that_does_not_fit_leaves_nothing() -> None:
    good, bad = (pa.record_batch({"at": pa.array([value], pa.timestamp("ns"))}) for value in (1000, 1))
    schema = to_spark_schema(good.schema)
    assert rows(*decode(table(stream(good, bad)), schema=schema, on_error="skip")) == []


def test_values_that_spark_cannot_hold_are_blamed_on_their_row() -> None:
    batches = [pa.record_batch({"at": pa.array([value], pa.timestamp("ns"))}) for value in (1000, 1999, 3000)]
    column = table(*map(stream, batches))
    schema = to_spark_schema(batches[0].schema)
    with pytest.raises(ArrowIpcError, match=r"row 1: .*'at'.*1999"):
        decode(column, schema=schema)
    found = rows(*decode(column, schema=schema, on_error="skip"))
    assert found == [{"at": dt.datetime(1970, 1, 1, 0, 0, 0, value)} for value in (1, 3)]


def test_arguments_that_are_wrong() -> None:
    with pytest.raises(UsageError, match="on_error"):
        decode(table(), on_error="ignore")
    with pytest.raises(UsageError, match="has no column 'nix'"):
        list(decode_payload_batches([table()], "nix", SCHEMA))
    with pytest.raises(UsageError, match="'host' has the type string, expected binary"):
        list(decode_payload_batches([table()], "host", SCHEMA))


# In Spark.


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    payloads = [stream(small(number)) for number in range(50)]
    return spark.createDataFrame(pa.Table.from_batches([table(*payloads, None)])).repartition(4)


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


def test_decode_payloads(messages: DataFrame) -> None:
    wanted = rows(*[small(number) for number in range(50)])
    assert collected(decode_payloads(messages, "payload")) == wanted
    assert collected(decode_payloads(messages, "payload", small(0).schema)) == wanted
    kept = decode_payloads(messages, "payload", keep=["host"])
    assert kept.columns == ["host", "id", "word", "size"]
    assert {(row["host"], row["id"] // 100) for row in kept.collect()} == {(f"host{n}", n) for n in range(50)}


def test_columns_and_schemas(messages: DataFrame) -> None:
    assert decode_payloads(messages, "payload", columns=["word", "id"]).columns == ["word", "id"]
    frame = decode_payloads(messages, "payload", "size bigint, ID int")
    assert frame.dtypes == [("size", "bigint"), ("ID", "int")]
    assert frame.agg({"size": "sum"}).collect()[0][0] == 150
    assert decode_payloads(messages, "payload").where("word = 'w7-1'").count() == 1


def test_every_type_in_spark(spark: SparkSession) -> None:
    source = spark.createDataFrame(pa.Table.from_batches([table(stream(everything()))]))
    frame = decode_payloads(source, "payload")
    assert frame.schema == to_spark_schema(everything().schema)
    found = frame.collect()
    assert [row["uint64"] for row in found] == [row["uint64"] for row in expected()]
    assert found[0]["dictionary"] == "red"


def test_errors_in_spark(spark: SparkSession, messages: DataFrame) -> None:
    from pyspark.errors import PySparkException

    broken = spark.createDataFrame(pa.Table.from_batches([table(stream(small(0)), b"garbage")])).coalesce(1)
    with pytest.raises(PySparkException, match=r"column 'payload', row 1 of partition 0"):
        decode_payloads(broken, "payload").collect()
    assert decode_payloads(broken, "payload", on_error="skip").count() == 3
    with pytest.raises(UsageError, match="no column 'nix'"):
        decode_payloads(messages, "nix")
    with pytest.raises(UsageError, match="no payload to take the schema from"):
        decode_payloads(messages.where("payload IS NULL"), "payload")
    with pytest.raises(UsageError, match="either schema= or columns="):
        decode_payloads(messages, "payload", "id int", columns=["id"])
    renamed = messages.withColumnRenamed("host", "ID")
    with pytest.raises(UsageError, match="have a column 'id' and so does keep="):
        decode_payloads(renamed, "payload", keep=["ID"])
