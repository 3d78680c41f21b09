"""Payloads in the JVM: results that last until the function's next call, wherever Spark calls it and keeps them."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file, stream
from helpers.spark import WAYS, evaluate, jvm_peak, payload_frame, short_names
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window, functions as F
from pyspark.sql.types import StructType

from arrowipc.errors import UsageError
from arrowipc.spark import (
    decode_payload_batches,
    decode_payloads,
    encode_payloads,
    from_arrow,
    from_arrow_udf,
    to_arrow_udf,
    to_spark_schema,
)
from arrowipc.spark.payloads import jvm
from arrowipc.spark.payloads.options import CodecOptions, DecodeOptions
from arrowipc.spark.sessions import CATALOG

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

DDL = "id bigint, word string"
FUNCTION = f"arrowipc.`{DDL}`.from_arrow"
SMALL = pa.record_batch({"id": [1, 2, 3], "word": ["a", None, "c"]})
OTHER = pa.record_batch({"word": ["x", "yy"], "id": [10, 20]})
ROWS = [(1, "a"), (2, None), (3, "c")]


@pytest.fixture
def payloads(spark: SparkSession) -> DataFrame:
    """Two columns of payloads with different rows, a null in the first; also the view `payloads`."""
    cells = {"host": ["h0", "h1", "h2"], "p": [stream(SMALL), None, file(OTHER)]}
    table = pa.table(
        {**cells, "q": [stream(OTHER.select(["id", "word"]), SMALL), stream(SMALL), stream(SMALL.slice(0, 0))]}
    )
    frame = spark.createDataFrame(table).coalesce(1)
    frame.createOrReplaceTempView("payloads")
    return frame


@pytest.mark.parametrize("way", WAYS)
def test_results_are_right_wherever_spark_keeps_them(
    spark: SparkSession, payloads: DataFrame, conf: Any, way: str
) -> None:
    evaluate(conf, way)
    other = [(10, "x"), (20, "yy")]
    p, q = [ROWS, None, other], [other + ROWS, ROWS, []]

    def found(query: str) -> list[Any]:
        rows = spark.sql(query.replace("FROM_ARROW", FUNCTION)).collect()
        return [[*map(tuple, row[0])] if row[0] is not None else None for row in rows]

    both = spark.sql(f"SELECT {FUNCTION}(p), {FUNCTION}(q), {FUNCTION}(p) FROM payloads").collect()
    assert [[each and [*map(tuple, each)] for each in row] for row in both] == [
        [*each] for each in zip(p, q, p, strict=True)
    ]
    joined = "SELECT flatten(array(FROM_ARROW(q), FROM_ARROW(coalesce(p, q)))) FROM payloads"
    assert found(joined) == [one + (two or one) for one, two in zip(q, p, strict=True)]
    mapped = "SELECT flatten(transform(array(q, coalesce(p, q)), x -> FROM_ARROW(x))) FROM payloads"
    assert found(mapped) == found(joined)
    kept = "SELECT flatten(collect_list(FROM_ARROW(q))) FROM payloads"
    assert found(kept) == [q[0] + q[1]]
    lateral = "SELECT host, id, word FROM payloads LATERAL VIEW inline(FROM_ARROW(q)) AS id, word ORDER BY host, id"
    rows = [("h0", *each) for each in sorted(q[0])] + [("h1", *each) for each in ROWS]
    assert [tuple(row) for row in spark.sql(lateral.replace("FROM_ARROW", FUNCTION)).collect()] == rows


def test_rows_are_right_behind_sorts_windows_caches_and_udfs(payloads: DataFrame) -> None:
    rows = decode_payloads(payloads, "q", DDL, keep=["host"], engine="jvm")
    wanted = sorted(
        [("h0", 10, "x"), ("h0", 20, "yy"), *(("h0", *each) for each in ROWS), *(("h1", *each) for each in ROWS)]
    )
    assert "invoke(from_arrow.invoke(q" in rows._jdf.queryExecution().toString()

    def found(frame: DataFrame) -> list[Any]:
        return sorted(tuple(row)[:3] for row in frame.collect())

    assert found(rows) == found(rows.orderBy(F.desc("id"))) == wanted
    assert found(rows.withColumn("rank", F.row_number().over(Window.partitionBy("host").orderBy("id")))) == wanted
    assert found(rows.cache()) == found(rows) == wanted
    rows.unpersist()
    assert found(rows.withColumn("word", F.udf(lambda word: word, "string")("word"))) == wanted
    assert found(rows.join(rows.select("id").distinct(), "id").select("host", "id", "word")) == wanted
    most = rows.agg(F.max("word"), F.min("word"), F.first("word")).first()
    assert tuple(most) == ("yy", "a", "x")
    assert rows.repartition(3).where("id > 2").count() == 4


def test_constants_and_rows_of_the_driver(spark: SparkSession, payloads: DataFrame) -> None:
    [row] = spark.sql(f"SELECT {FUNCTION}(X'{stream(SMALL).hex()}') AS r, {FUNCTION}(NULL) AS n").collect()
    assert ([*map(tuple, row.r)], row.n) == (ROWS, None)
    many = spark.sql(f"SELECT id % 2, {FUNCTION}(X'{stream(SMALL).hex()}') AS r FROM range(4)").collect()
    assert all([*map(tuple, row.r)] == ROWS for row in many)
    with pytest.raises(PySparkException, match=r"column 'payload': .*on_error"):
        spark.sql(f"SELECT {FUNCTION}(X'00')").collect()


def replaced() -> bytes:
    """A stream whose dictionary grows and is replaced between its batches."""
    sink = pa.BufferOutputStream()
    words = [["a", "b"], ["a", "b", "c"], ["z"], ["y", "z"]]
    batches = [pa.record_batch({"id": [0], "word": pa.DictionaryArray.from_arrays([len(w) - 1], w)}) for w in words]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True, compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_dictionaries_of_a_payload_grow_and_are_replaced(spark: SparkSession) -> None:
    frame = payload_frame(spark, replaced(), stream(SMALL), replaced())
    found = decode_payloads(frame, "payload", DDL, engine="jvm").collect()
    assert [row.word for row in found] == [*"bczz", "a", None, "c", *"bczz"]


def test_prefixes_are_skipped_and_their_numbers_are_a_column(spark: SparkSession, engine: str) -> None:
    cells = [b"\0" + (2**32 - 1 - n).to_bytes(4, "big") + stream(SMALL.slice(n)) for n in range(3)]
    frame = payload_frame(spark, *cells, None)
    for schema in (None, DDL):
        rows = decode_payloads(frame, "payload", schema, prefix=5, id_column="schema_id", engine=engine)
        assert rows.columns == ["schema_id", "id", "word"]
        assert [tuple(row) for row in rows.collect()] == [(2**32 - 1 - n, *row) for n in range(3) for row in ROWS[n:]]
    column = frame.select(from_arrow("payload", DDL, prefix=5, engine=engine).alias("rows")).collect()
    assert [row.rows and len(row.rows) for row in column] == [3, 2, 1, None]
    with pytest.raises(PySparkException, match="row 0 of partition 0"):
        decode_payloads(frame, "payload", DDL, prefix=2**20, engine=engine).collect()
    with pytest.raises(UsageError, match="id_column needs a prefix"):
        decode_payloads(frame, "payload", DDL, prefix=3, id_column="schema_id")
    with pytest.raises(UsageError, match="a column 'Payload' already"):
        decode_payloads(frame, "payload", DDL, prefix=5, id_column="Payload")


def test_what_the_jvm_has_not_is_python_s(spark: SparkSession, payloads: DataFrame, conf: Any) -> None:
    for options, reason in (
        (DecodeOptions(validate="strict"), "validate='strict'"),
        (DecodeOptions(extensions=True), "extensions=True"),
        (DecodeOptions(verify=True), "verify=True"),
        (CodecOptions(checksum=True), "checksum=True"),
        (CodecOptions(compression="zstd", compression_level=3), "compression_level=3"),
    ):
        assert not jvm.in_jvm(spark, options)
        with pytest.raises(UsageError, match=f"only Python has {reason}"):
            jvm.in_jvm(spark, replace(options, engine="jvm"))
    assert decode_payloads(payloads, "p", DDL, validate="strict").count() == 5
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: decode_payloads(payloads, "p", DDL, engine="jvm", validate="strict"), "only Python has validate"),
        (lambda: decode_payload_batches([], "p", to_spark_schema(SMALL.schema), engine="jvm"), "in Python stay there"),
        (lambda: from_arrow_udf(DDL, engine="jvm"), "registers no function of the JVM"),
        (lambda: to_arrow_udf(engine="jvm"), "registers no function of the JVM"),
        (lambda: encode_payloads(payloads, rows_per_payload=1, engine="jvm"), "Python alone cuts rows into payloads"),
        (lambda: jvm.in_jvm(None, DecodeOptions(engine="jvm")), "the session lacks the jar"),
    ]
    for call, words in calls:
        with pytest.raises(UsageError, match=words):
            call()
    for kind, name, value in ((CodecOptions, jvm.LARGE_TYPES, "true"), (DecodeOptions, CATALOG, "some.other.Catalog")):
        assert jvm.in_jvm(spark, kind())
        assert not jvm.in_jvm(spark, kind(engine="python"))
        conf(name, value)
        assert not jvm.in_jvm(spark, kind())
    with pytest.raises(UsageError, match=r"is some\.other\.Catalog"):
        jvm.in_jvm(spark, DecodeOptions(engine="jvm"))


WRONG = {
    "arrowipc.from_arrow(p)": "needs a schema",
    "arrowipc.`id bigint`.`nix=1`.from_arrow(p)": "no option 'nix'; there are column, error_column, ",
    "arrowipc.`id bigint`.`null`.from_arrow(p)": "expected an option such as",
    "arrowipc.`id bigint`.`on_error=skip`.from_arrow(p)": "expected one of raise, null, row, found 'skip'",
    "arrowipc.`id bigint`.`prefix=-1`.from_arrow(p)": "expected a whole number from 0",
    "arrowipc.`id bigint`.from_arrow(host)": r"takes one binary column, found \(string\)",
    "arrowipc.`id bigint`.from_arrow(p, q)": "takes one binary column",
    "arrowipc.`id bigint`.no_such(p)": "no_such",
    "arrowipc.`nix double`.from_arrow(p)": "the payload has no column 'nix'; its columns are 'id', 'word'",
    "arrowipc.`id string`.from_arrow(p)": "row 0 of partition 0: column 'id' .* is read as bigint",
}


@pytest.mark.parametrize("call", WRONG)
def test_what_is_wrong_in_sql_is_said(spark: SparkSession, payloads: DataFrame, call: str) -> None:
    with pytest.raises(PySparkException, match=WRONG[call]):
        spark.sql(f"SELECT {call} FROM payloads").collect()


def test_the_catalog_leaves_files_and_tables_alone(spark: SparkSession, payloads: DataFrame, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(SMALL))
    assert spark.sql(f"SELECT * FROM arrowipc.`{tmp_path}/x.arrow`").count() == 3
    with pytest.raises(PySparkException, match="PATH_NOT_FOUND"):
        spark.sql("SELECT * FROM arrowipc.nix").collect()
    schema = spark.sql("SELECT arrowipc.schema_of_arrow(q) FROM payloads").first()[0]
    assert StructType.fromJson(json.loads(schema)) == to_spark_schema(SMALL.schema)


def test_the_extension_gives_it_a_short_name(spark: SparkSession, payloads: DataFrame) -> None:
    short_names(spark)
    query = f"SELECT host, inline(from_arrow(p, '{DDL}')) FROM payloads"
    assert [tuple(row) for row in spark.sql(query).limit(3).collect()] == [("h0", *row) for row in ROWS]
    broken = "SELECT from_arrow(CAST(host AS BINARY), 'id bigint'{}) AS r FROM payloads"
    with pytest.raises(PySparkException, match=r"row 0 of partition 0: .*on_error"):
        spark.sql(broken.format("")).collect()
    assert [row.r for row in spark.sql(broken.format(", map('on_error', 'null')")).collect()] == [None] * 3
    with pytest.raises(PySparkException, match="expected from_arrow"):
        spark.sql("SELECT from_arrow(p, host) FROM payloads").collect()


@pytest.mark.slow
def test_big_cells_and_many_cells_take_the_memory_of_one(spark: SparkSession) -> None:
    """Each of 60 cells of 8 MB, compressed or not: a task that kept them would take 500 MB and more of its JVM's."""
    big = pa.record_batch({"id": range(500_000), "word": [f"{n % 7:09}" for n in range(500_000)]})
    cells = spark.createDataFrame([(stream(big),), (stream(big, compression="zstd"),)], "payload binary")
    many = spark.range(0, 30, 1, 1).crossJoin(F.broadcast(cells)).select("payload")
    query = decode_payloads(many, "payload", DDL, engine="jvm").agg(F.count("word"), F.sum("id"))
    before = jvm_peak(spark, anew=True)
    assert tuple(query.first()) == (30_000_000, 60 * sum(range(500_000)))
    assert jvm_peak(spark) - before < 400


def memories(spark: SparkSession) -> Any:
    """What the functions of the tasks hold that run."""
    java: Any = spark._jvm
    return getattr(getattr(java.org.arrowipc.spark.payloads, "FromArrow$"), "MODULE$").memories()


def test_the_functions_of_a_task_share_its_memory(spark: SparkSession, payloads: DataFrame) -> None:
    """While a task runs that calls two, there is one."""
    slow = F.udf(lambda number: time.sleep(0.1) or number, "int")
    counts = payloads.select(*[slow(F.size(F.expr(f"{FUNCTION}({name})"))) for name in ("p", "q")])
    seen = {0}
    with ThreadPoolExecutor(1) as pool:
        query = pool.submit(counts.collect)
        while not query.done():
            seen.add(memories(spark).size())
            time.sleep(0.05)
    assert [tuple(row) for row in query.result()] == [(3, 5), (None, 3), (2, 0)]
    assert seen == {0, 1}


def test_the_memory_of_a_task_is_given_back(spark: SparkSession, payloads: DataFrame) -> None:
    """Once it ends, comes to a LIMIT, or fails; closing says what is left, and fails the task."""
    both = f"SELECT inline(flatten(array({FUNCTION}(q), {FUNCTION}(coalesce(p, q))))) FROM payloads"
    for query, rows in ((both, 16), (f"{both} LIMIT 1", 1)):
        assert len(spark.sql(query).collect()) == rows
        assert memories(spark).isEmpty()
    with pytest.raises(PySparkException, match="row 0 of partition 0"):
        spark.sql(
            "SELECT arrowipc.`nix double`.from_arrow(p), arrowipc.`id bigint`.from_arrow(q) FROM payloads"
        ).collect()
    assert memories(spark).isEmpty()
