"""Column functions: from_arrow gives the rows that decode_payloads gives, and to_arrow is its inverse."""

from typing import Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import everything, expected, stream
from helpers.spark import payload_frame
from hypothesis import given, settings, strategies as st_
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.spark import (
    collect,
    decode_payload_batches,
    decode_payloads,
    from_arrow,
    from_arrow_udf,
    to_arrow,
    to_arrow_udf,
    to_spark_schema,
)
from arrowipc.spark.payloads.cells import PayloadDecoder, Wanted
from arrowipc.spark.payloads.options import DecodeOptions

pytestmark = pytest.mark.spark

DDL = "id bigint, word string"
SMALL = pa.record_batch({"id": [1, 2, 3], "word": ["a", None, "c"]})
BARE = SMALL.slice(1, 1)
TOO_LARGE = pa.record_batch({"id": pa.array([1, 2**64 - 1], pa.uint64()), "word": ["a", "b"]})
BROKEN = [b"junk", stream(SMALL, SMALL)[:-80], stream(TOO_LARGE)]
SCHEMA = to_spark_schema(SMALL.schema)


def lists(cells: pa.Array, most: int = 10_000) -> list[Any]:
    decoder = PayloadDecoder(Wanted("payload", SCHEMA, None), DecodeOptions(on_error="skip", rows_per_batch=most))
    found = list(decoder.decode_lists(cells))
    assert sum(map(len, found)) == len(cells)
    for array in found:
        array.validate(full=True)
    return [each for array in found for each in array.to_pylist()]


@settings(max_examples=40)
@given(
    st_.lists(st_.sampled_from([None, *BROKEN, stream(SMALL), stream(SMALL.slice(0, 0)), stream(BARE)]), max_size=12),
    st_.integers(1, 12),
)
def test_each_cell_has_the_rows_of_its_payload(payloads: list[bytes | None], most: int) -> None:
    cells = pa.array(payloads, pa.binary())

    def alone(payload: bytes | None) -> Any:
        if payload is None or payload in BROKEN:
            return None
        batches = decode_payload_batches([pa.record_batch({"p": pa.array([payload])})], "p", SCHEMA)
        return [row for batch in batches for row in batch.to_pylist()]

    assert lists(cells, most=most) == [alone(payload) for payload in payloads]
    assert lists(pa.concat_arrays([cells[:1], cells]).slice(len(cells[:1]))) == lists(cells)


def test_every_type_in_select_and_with_column(spark: SparkSession, engine: Any) -> None:
    batch = everything()
    messages = payload_frame(spark, stream(batch), None, stream(batch.slice(1)))
    column = from_arrow("payload", batch.schema, engine=engine)
    found = messages.withColumn("rows", column).select("host", F.inline("rows"))
    wanted = decode_payloads(messages, "payload", batch.schema, keep=["host"], engine=engine)
    assert decode_payloads(messages, "payload", engine=engine).schema == to_spark_schema(batch.schema)
    assert found.schema.simpleString() == wanted.schema.simpleString()
    assert found.collect() == wanted.collect()
    assert pa.table(collect(wanted.drop("host"))).to_pylist() == expected() + expected()[1:]
    arrays = [row.rows for row in messages.select(column.alias("rows")).collect()]
    assert arrays[1] is None
    assert len(arrays[0] + arrays[2]) == len(expected() + expected()[1:])


def test_broken_payloads(spark: SparkSession, engine: Any) -> None:
    messages = payload_frame(spark, stream(SMALL), b"garbage", None)
    with pytest.raises(PySparkException, match=r"column 'payload', row 1 of partition 0: .*on_error=\"null\" gives"):
        messages.select(from_arrow(messages.payload, DDL, engine=engine)).collect()
    assert messages.select(from_arrow("payload", DDL, engine=engine)).columns == ["from_arrow(payload)"]
    found = messages.select(from_arrow("payload", DDL, on_error="null", engine=engine).alias("rows")).collect()
    assert [row.rows and len(row.rows) for row in found] == [3, None, None]
    with pytest.raises(UsageError, match="on_error: expected 'raise' or 'null', found 'skip'"):
        from_arrow("payload", DDL, on_error="skip", engine=engine)
    for option in ({"keep": ["host"]}, {"error_column": "why", "on_error": "null"}):
        with pytest.raises(UsageError, match="from_arrow has no such option"):
            from_arrow("payload", DDL, **option, engine=engine)


def test_bare_messages_and_some_columns(spark: SparkSession, engine: Any) -> None:
    cells = arrowipc.encode_payloads(SMALL, rows_per_payload=2, with_schema=False)
    messages = payload_frame(spark, *pa.array(cells).to_pylist())
    found = messages.select(from_arrow("payload", SMALL.schema, columns=["word"], engine=engine).alias("rows"))
    assert [[row.word for row in each.rows] for each in found.collect()] == [["a", None], ["c"]]


def test_in_sql(spark: SparkSession) -> None:
    payload_frame(spark, stream(SMALL), None, stream(BARE)).createOrReplaceTempView("messages_in_sql")
    spark.udf.register("small_rows", from_arrow_udf(DDL))
    spark.udf.register("to_arrow", to_arrow_udf(compression="zstd"))
    found = spark.sql("SELECT host, inline(small_rows(payload)) FROM messages_in_sql").collect()
    assert [tuple(row) for row in found] == [
        ("host0", 1, "a"),
        ("host0", 2, None),
        ("host0", 3, "c"),
        ("host2", 2, None),
    ]
    again = spark.sql("SELECT size(small_rows(to_arrow(small_rows(payload)))) AS n FROM messages_in_sql").collect()
    assert [row.n for row in again] == [3, None, 1]


def test_rows_become_payloads(spark: SparkSession, engine: Any) -> None:
    prices = spark.createDataFrame([("a", 1, 1.5), ("b", 2, None)], "topic string, id long, price double")
    one = prices.select(to_arrow("id", F.col("price").alias("cost"), engine=engine)).collect()
    read = [arrowipc.open_stream(row[0]).read_all().to_pylist() for row in one]
    assert read == [[{"id": 1, "cost": 1.5}], [{"id": 2, "cost": None}]]
    grouped = prices.groupBy().agg(F.collect_list(F.struct("id", "price")).alias("rows"))
    [row] = grouped.select(to_arrow("rows", compression="lz4", engine=engine)).collect()
    assert sorted(each["id"] for each in arrowipc.open_stream(row[0]).read_all().to_pylist()) == [1, 2]
    maybe = F.when(F.col("id") == 1, F.struct("id"))
    nested = prices.select(to_arrow(F.array(F.array("id")), engine=engine), to_arrow(maybe, engine=engine))
    assert [row[1] is None for row in nested.collect()] == [False, True]
    with pytest.raises(UsageError, match="give the columns"):
        to_arrow()


def test_what_payloads_cannot_hold_is_refused(spark: SparkSession, engine: Any) -> None:
    with pytest.raises(PySparkException, match=r"column 'v' .* variant, which payloads cannot hold"):
        spark.sql("SELECT parse_json('1') AS v, 1 AS x").select(to_arrow("x", "v", engine=engine)).collect()
    spark.udf.register("payload_of", to_arrow_udf())
    with pytest.raises(PySparkException, match="expected a struct or an array of structs, found int32"):
        spark.sql("SELECT payload_of(1)").collect()
    with pytest.raises(UsageError, match="compression"):
        to_arrow("x", compression="lzo")  # type: ignore[arg-type]
