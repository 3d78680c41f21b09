"""How long does Spark take to decode a column of payloads, and how long without decoding?

Each cell is a stream of ten rows (then 1 to 1,000) of a timestamp, a number, a text, a double and a bool, with none,
one or ten columns kept beside it. The column is in Spark's cache; two tasks at a time send it to Python workers, which
send rows back to a sink that drops them. pyarrow opens each cell as a stream and joins the tables; arrowipc is
``decode_payload_batches`` in ``mapInArrow``, or ``decode_payloads`` and the column function ``from_arrow``, which the
session's jar runs in the JVM, and Python with ``engine="python"``; Python UDF is a function that opens a cell with
pyarrow and returns Python's values; no decode sends the same number of rows, made once, again and again: the ceiling
for any decoder in Python; Spark's inline makes rows of arrays that are in the cache already: that for any decoder in
the JVM. To encode, arrays of the same rows are in the cache; arrowipc is ``to_arrow``, in the JVM and in Python. Needs
PySpark and Java.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data
from measuring.children import processor_time
from measuring.race import Runs, question, size

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default:PySpark does not yet fully support pandas")]

OUTPUT_ROWS, DISTINCT, SOME = 10_000, 10_000, size(400_000, 50)
PEERS = "no decode, arrowipc, arrowipc in Python, pyarrow, Python UDF, Spark's inline"
DDL = "at timestamp, number int, word string, value double, flag boolean"
Batches = Iterable[Any]


def different_payloads(count: int, rows: int, codec: str | None) -> list[bytes]:
    """Return streams of so many rows each."""
    random, batches = np.random.default_rng(1), []
    for number in range(count):
        at = 1_700_000_000_000_000 + 1_000_000 * (rows * number + np.arange(rows))
        columns = {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "number": pa.array(random.integers(0, 1 << 30, rows), pa.int32()),
            "word": pa.array([f"word {each}" for each in random.integers(0, 1000, rows)]),
            "value": pa.array(random.random(rows)),
            "flag": pa.array(random.random(rows) < 0.5),
        }
        batches.append(pa.record_batch(columns))
    return [data.stream([batch], compression=codec) for batch in batches]


def by_pyarrow(batches: Batches) -> Iterator[Any]:
    """Open each cell of the last column as a stream, and repeat the columns before it."""
    for batch in batches:
        tables = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in batch.columns[-1]]
        rows = pa.concat_tables(tables).combine_chunks()
        parents = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        for number, name in enumerate(batch.schema.names[:-1]):
            rows = rows.add_column(number, name, batch.column(number).take(pa.array(parents)))
        yield from rows.to_batches(max_chunksize=OUTPUT_ROWS)


def by_arrowipc(schema: Any, batches: Batches) -> Iterator[Any]:
    from arrowipc.spark import decode_payload_batches

    return decode_payload_batches(batches, "payload", schema)


def values_of(cell):  # type: ignore[no-untyped-def]  # by annotations, Spark would take it for a function of columns
    return pa.ipc.open_stream(cell).read_all().to_pylist()


def without_decoding(rows: Any, each: int, batches: Batches) -> Iterator[Any]:
    """Send as many rows as the cells hold, which are there already."""
    for batch in batches:
        left = each * batch.num_rows
        while left:
            some = rows.slice(0, min(left, OUTPUT_ROWS))
            left -= some.num_rows
            yield some


@lru_cache(1)
def cached(spark: Any, count: int, each: int, codec: str | None = None) -> tuple[Any, pa.RecordBatch]:
    """Return a column of payloads in Spark's cache, which the one before leaves, and rows that are ready to be sent."""
    from pyspark import cloudpickle

    # The workers cannot import the benchmarks: what they run is sent to them whole.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    payloads = different_payloads(min(count, max(DISTINCT // each, 1)), each, codec)
    tables = [pa.ipc.open_stream(payload).read_all() for payload in payloads]
    tables *= -(-OUTPUT_ROWS // (each * len(tables)))
    column = pa.record_batch({"payload": pa.array(payloads, pa.binary())})

    def make(batches: Batches) -> Iterator[Any]:
        for batch in batches:
            yield column.take(pa.array(batch["id"].to_numpy() % column.num_rows))

    spark.catalog.clearCache()
    cells = spark.range(0, count, 1, 2).mapInArrow(make, "payload binary").cache()
    assert cells.count() == count
    return cells, pa.concat_tables(tables).combine_chunks().to_batches()[0].slice(0, OUTPUT_ROWS)


def runs_of(spark: Any, count: int, each: int, kept: int = 0, codec: str | None = None) -> Runs:
    """Return runs over payloads of `each` rows and columns to keep: by our functions, by pyarrow, without decoding."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    from arrowipc.spark import decode_payloads, from_arrow

    cells, ready = cached(spark, count, each, codec)
    keep = [f"kept{number}" for number in range(kept)]
    key = F.monotonically_increasing_id() % 100
    columns = [(key if number % 2 else F.concat(F.lit("key "), key)).alias(name) for number, name in enumerate(keep)]
    cells = cells.select(*columns, "payload")
    output = ", ".join([*(f"{name} {kind}" for name, kind in cells.dtypes[:-1]), DDL])
    for number, name in enumerate(keep):
        values = pa.array(np.arange(ready.num_rows) % 100)
        column = values if number % 2 else pa.array([f"key {value}" for value in values.to_pylist()])
        ready = ready.add_column(number, name, column)
    arrays = cells.select(*keep, from_arrow("payload", DDL).alias("rows")).cache()
    kinds = DDL.replace(" ", ":").replace(",:", ",")
    function = F.udf(values_of, f"array<struct<{kinds}>>")
    frames = {
        "Spark's inline": lambda: arrays.select(*keep, F.inline("rows")),
        "Python UDF": lambda: cells.select(*keep, F.inline(function("payload"))),
        "no decode": lambda: cells.mapInArrow(partial(without_decoding, ready, each), output),
        "pyarrow": lambda: cells.mapInArrow(by_pyarrow, output),
        "mapInArrow": lambda: cells.mapInArrow(partial(by_arrowipc, StructType.fromDDL(DDL)), output),
    }
    for engine in ("jvm", "python"):
        frames |= {
            f"decode_payloads {engine}": lambda at=engine: decode_payloads(cells, "payload", DDL, keep=keep, engine=at),
            f"from_arrow {engine}": lambda at=engine: cells.select(
                *keep, F.inline(from_arrow("payload", DDL, engine=at))
            ),
        }
    checked: set[str] = set()

    def run(name: str) -> int:
        frame = frames[name]()
        if name not in checked:
            assert frame.count() == each * count
            checked.add(name)
        frame.write.format("noop").mode("overwrite").save()
        return count

    return {name: partial(run, name) for name in frames}


@question(
    "Spark: decode payloads in `mapInArrow`, beside {beside}", PEERS, unit="payload", baseline="{beside}", per=SOME
)
@pytest.mark.parametrize("beside", ["pyarrow", "no decode"])
def test_map(spark: Any, beside: str) -> Runs:
    runs = runs_of(spark, SOME, 10)
    return {beside: runs[beside], "arrowipc": runs["mapInArrow"]}


@question(
    "Spark: `{function}`, beside no decoding, processor time", PEERS, unit="payload", baseline="no decode", timed=True
)
@pytest.mark.parametrize("rows", [1, 10, 100, 1000])
@pytest.mark.parametrize("kept", [0, 1, 10])
@pytest.mark.parametrize("function", ["decode_payloads", "from_arrow"])
def test_functions(spark: Any, function: str, kept: int, rows: int) -> tuple[Runs, int]:
    count = min(size(1_000_000, 1_000) // rows, size(40_000, 50))
    runs = runs_of(spark, count, rows, kept)
    ours = {"arrowipc": f"{function} jvm", "arrowipc in Python": f"{function} python"}
    names = {name: name for name in ("no decode", "pyarrow", "Python UDF", "Spark's inline")} | ours
    return {name: partial(processor_time, runs[run]) for name, run in names.items()}, count


@question(
    "Spark: `decode_payloads` of ZSTD payloads, processor time",
    "arrowipc, arrowipc in Python",
    unit="payload",
    baseline="arrowipc in Python",
    timed=True,
)
def test_compressed(spark: Any) -> tuple[Runs, int]:
    count = size(10_000, 50)
    runs = runs_of(spark, count, 100, codec="zstd")
    ways = {"arrowipc": "decode_payloads jvm", "arrowipc in Python": "decode_payloads python"}
    return {name: partial(processor_time, runs[run]) for name, run in ways.items()}, count


@question(
    "Spark: `to_arrow`, processor time",
    "arrowipc, arrowipc in Python",
    unit="payload",
    baseline="arrowipc in Python",
    timed=True,
)
@pytest.mark.parametrize("rows", [1, 10, 100, 1000])
def test_encoding(spark: Any, rows: int) -> Iterator[tuple[Runs, int]]:
    from arrowipc.spark import from_arrow, to_arrow

    count = min(size(1_000_000, 1_000) // rows, size(40_000, 50))
    arrays = cached(spark, count, rows)[0].select(from_arrow("payload", DDL).alias("rows")).cache()
    assert arrays.count() == count

    def run(engine: Any) -> int:
        payloads = arrays.select(to_arrow("rows", engine=engine))
        payloads.write.format("noop").mode("overwrite").save()
        return count

    ways = {"arrowipc": "jvm", "arrowipc in Python": "python"}
    yield {name: partial(processor_time, partial(run, engine)) for name, engine in ways.items()}, count
    arrays.unpersist()
