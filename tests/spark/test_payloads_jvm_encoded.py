"""Payloads made in the JVM: what to_arrow writes there is what Python writes, and comes back as the same rows."""

import random
import re
from typing import Any

import pyarrow as pa
import pytest
from helpers.processes import rounds
from helpers.spark import WAYS, all_types, evaluate, short_names
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from spark.random_values import as_spark, random_type, value

import arrowipc
from arrowipc.spark import from_arrow, to_arrow

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

CODECS = (None, "lz4", "zstd")


def batch_of(payload: bytes) -> pa.RecordBatch:
    """The only batch of a stream, which is whole and valid."""
    with arrowipc.open_stream(bytes(payload), validate="strict") as reader:
        assert len([*reader]) == 1
    [batch] = pa.ipc.open_stream(payload)
    batch.validate(full=True)
    return batch


def check(frame: DataFrame, compression: Any) -> None:
    """Payloads of the column `rows` are those of Python, and come back as its rows."""
    payloads = [F.col("rows"), to_arrow("rows", engine="jvm", compression=compression).alias("jvm")]
    frame = frame.select(*payloads, to_arrow("rows", engine="python").alias("python"))
    row = frame.schema["rows"].dataType.elementType  # type: ignore[attr-defined]
    frame = frame.withColumn("back", from_arrow("jvm", row, engine="jvm"))
    for cell in frame.collect():
        if cell.rows is None:
            assert cell.jvm is None
            continue
        one, other = batch_of(cell.jvm), batch_of(cell.python)
        assert one.schema.equals(other.schema, check_metadata=True)
        assert {*re.findall(r"tz=([\w/]+)", str(one.schema))} <= {"UTC"}  # whatever the zone of the session
        assert repr(one.to_pylist()) == repr(other.to_pylist())
        whole = [each or (None,) * len(row) for each in cell.rows]
        assert repr([*map(tuple, cell.back)]) == repr([*map(tuple, whole)])


def random_rows(chance: random.Random) -> pa.Array:
    """Twenty arrays of rows of some types."""
    kinds = {f"f{i}": as_spark(random_type(chance, 3)) for i in range(chance.randrange(1, 5))}
    nulls = {name: chance.choice([0, 0.2, 0.9]) for name in kinds}

    def row() -> Any:
        return None if chance.random() < 0.05 else {name: value(kinds[name], chance, nulls[name]) for name in kinds}

    sizes = [None, 0, *(chance.choice([1, 2, 7, 8, 9, 70]) for _ in range(18))]
    rows = [None if n is None else [row() for _ in range(n)] for n in sizes]
    return pa.array(rows, pa.list_(pa.struct([*kinds.items()])))


@pytest.mark.campaign
def test_payloads_of_the_jvm_are_those_of_python(spark: SparkSession) -> None:
    for case in range(rounds(6, 150)):
        table = pa.table({"rows": random_rows(random.Random(case))})
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        check(spark.createDataFrame(table, schema).coalesce(1), CODECS[case % 3])


def test_no_payload_shows_values_of_the_one_before_it(spark: SparkSession) -> None:
    """All are written into the same memory."""
    secret = 0x5A5A5A5A5A5A5A5A
    cells = [([(secret, "text")] * 70,), ([(None, "a"), (None, None)],)]
    frame = spark.createDataFrame(cells, "rows array<struct<number: bigint, word: string>>").coalesce(1)
    _, (payload,) = frame.select(to_arrow("rows", engine="jvm")).collect()
    assert batch_of(payload).to_pydict() == {"number": [None, None], "word": ["a", None]}
    assert b"Z" not in payload


@pytest.mark.parametrize(
    ("compression", "zone"), [(None, "Asia/Tokyo"), ("lz4", "America/New_York"), ("zstd", "UTC")], ids=str
)
def test_every_type_of_spark(spark: SparkSession, conf: Any, compression: Any, zone: str) -> None:
    conf("spark.sql.timeType.enabled", "true")
    conf("spark.sql.session.timeZone", zone)
    frame = all_types(spark)
    check(frame.groupBy(F.col("id") % 2).agg(F.collect_list(F.struct(*frame.columns)).alias("rows")), compression)


@pytest.mark.parametrize("way", WAYS)
def test_groups_structs_and_constants_in_sql(spark: SparkSession, conf: Any, way: str) -> None:
    evaluate(conf, way)

    def read(call: str) -> list[Any]:
        cells = spark.sql(f"SELECT {call} AS p FROM range(6) GROUP BY id % 2 ORDER BY id % 2").collect()
        return [cell.p and batch_of(cell.p).to_pylist() for cell in cells]

    groups = [[{"id": n, "w": f"w{n}"} for n in range(first, 6, 2)] for first in (0, 1)]
    rows = "array_sort(collect_list(struct(id, concat('w', id) AS w)))"
    assert read(f"arrowipc.to_arrow({rows})") == groups
    assert read(f"arrowipc.`compression=lz4`.to_arrow({rows})") == groups
    assert read(f"arrowipc.to_arrow(struct({rows} AS r))") == groups
    assert read(f"arrowipc.to_arrow({rows}[1])") == [[group[1]] for group in groups]
    assert read(f"arrowipc.to_arrow(struct({rows}[1] AS r))") == [[group[1]] for group in groups]
    assert read("arrowipc.to_arrow(array(struct(1 AS a), NULL))") == [[{"a": 1}, {"a": None}]] * 2
    assert read("arrowipc.to_arrow(CAST(NULL AS array<struct<a: int>>))") == [None] * 2
    invalid = "array(named_struct('t', CAST(X'61FF' AS STRING)))"
    assert read(f"arrowipc.`invalid_text=replace`.to_arrow({invalid})") == [[{"t": "a\ufffd"}]] * 2
    assert read(f"arrowipc.`invalid_text=binary`.to_arrow({invalid})") == [[{"t": b"a\xff"}]] * 2
    [bare] = spark.sql("SELECT arrowipc.`with_schema=false`.to_arrow(struct(1 AS a))").collect()
    assert spark.createDataFrame([bare], "p binary").select(
        F.inline(from_arrow("p", pa.schema({"a": pa.int32()})))
    ).collect() == [(1,)]


def test_the_extension_gives_it_a_short_name(spark: SparkSession) -> None:
    short_names(spark)
    cell = spark.sql("SELECT to_arrow(array(struct(id)), map('compression', 'zstd')) AS p FROM range(1)").first()
    assert batch_of(cell.p).to_pylist() == [{"id": 0}]
    for call, words in (("to_arrow(id)", "takes one array of structs"), ("to_arrow()", "expected to_arrow")):
        with pytest.raises(PySparkException, match=words):
            spark.sql(f"SELECT {call} FROM range(1)").collect()


WRONG = {
    "to_arrow(array(named_struct('a', make_interval(1))))": "'a' has the Spark type interval.*write its parts",
    "to_arrow(struct(array(INTERVAL '1' YEAR) AS a))": "'a.element' has the Spark type interval year.*months",
    "to_arrow(struct(struct(parse_json('1') AS v) AS s, 1))": "'s.v' has the Spark type variant.*write to_json",
    "to_arrow(array(named_struct('a', 1, 'a', 2)))": "the payload would hold the name 'a' twice",
    "to_arrow(1)": r"takes one array of structs, or one struct, found \(int\)",
    "`nix=1`.to_arrow(struct(1))": "to_arrow has no option 'nix'; there are compression, invalid_text, with_schema",
    "to_arrow(named_struct('t', CAST(X'61FF' AS STRING)))": "column 't' holds a text that is not UTF-8.*61FF",
    "to_arrow(array_repeat(struct(repeat('x', 1 << 20)), 2100))": "a payload of more than 2 GiB|a payload needs",
}


@pytest.mark.parametrize("call", WRONG)
def test_what_is_wrong_is_said(spark: SparkSession, call: str) -> None:
    with pytest.raises(PySparkException, match=WRONG[call]):
        spark.sql(f"SELECT arrowipc.{call} FROM range(1)").collect()
