"""Random schemas, files and queries: the file format in the JVM, the Python data source and Parquet give the same.

A case is made of its number alone: ``cases(spark, folder, [17])`` repeats what failed.
"""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from helpers.processes import rounds
from helpers.spark import FORMAT, load, read_here
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from spark.random_values import LEAVES, as_spark, random_filter, random_type, value

pytestmark = pytest.mark.spark

#: Every so many cases go through the Python data source in Spark's own worker processes; the others call it here.
IN_WORKERS = 25
#: With generated code, without, and with that of expressions alone.
MODES = (("true", "FALLBACK"), ("false", "NO_CODEGEN"), ("false", "FALLBACK"))
SETTINGS = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
#: Parquet's own filters take NaN for no number, and Spark takes it for the greatest.
NO_FILTER = "spark.sql.parquet.filterPushdown"
CODECS = (None, None, "lz4", "zstd")
ENCODED = [each for each in LEAVES if each in (pa.int32(), pa.uint8(), pa.string(), pa.large_string(), pa.binary())]


class Case(NamedTuple):
    """What Spark reads: files of ours, files of Parquet, the columns that it finds and their types in Arrow."""

    number: int
    path: str
    parquet: str
    schema: StructType
    types: dict[str, pa.DataType]
    rows: list[dict[str, Any]]


def written(number: int, folder: Path) -> Case:
    dice = random.Random(number)
    types = {f"c{place}": random_type(dice) for place in range(dice.randint(1, 5))}
    ours, parquet, rows = folder / f"{number}-ours", folder / f"{number}-parquet", []
    ours.mkdir()
    parquet.mkdir()
    spark = pa.schema([(name, as_spark(kind)) for name, kind in types.items()])
    for file in range(dice.randint(1, 4)):
        kept = [name for name in types if file == 0 or dice.random() < 0.9] or [*types]
        count = dice.choice([0, 1, 7, 30])
        columns = {name: [value(types[name], dice) for _ in range(count)] for name in kept}
        twin = pa.table([pa.array(columns[name], spark.field(name).type) for name in kept], kept)
        pq.write_table(twin, parquet / f"{file}.parquet", row_group_size=dice.choice([3, 100]))
        rows += twin.to_pylist()
        table = pa.table([encoded(pa.array(columns[name], types[name]), dice) for name in kept], kept)
        save(table, ours / f"{file}.arrow", dice)
    missing = dict.fromkeys(types)
    found = [{**missing, **row} for row in rows]
    return Case(number, str(ours), str(parquet), from_arrow_schema(spark, prefer_timestamp_ntz=True), types, found)


def encoded(array: pa.Array, dice: random.Random) -> pa.Array:
    how = dice.random()
    if array.type in ENCODED and how < 0.4:
        return array.dictionary_encode() if how < 0.25 else pc.run_end_encode(array)
    return array


def save(table: pa.Table, path: Path, dice: random.Random) -> None:
    """A file or stream of a batch or of several; nothing but the bytes says which."""
    new = dice.choice((pa.ipc.new_file, pa.ipc.new_file, pa.ipc.new_stream))
    options = pa.ipc.IpcWriteOptions(compression=dice.choice(CODECS), unify_dictionaries=True)
    with new(path, table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=dice.choice([1, 4, 1000])):
            writer.write_batch(batch)


# Queries.

Query = Callable[["DataFrame"], "DataFrame"]


def random_query(case: Case, dice: random.Random) -> Query:
    """A query that gives the same for the same rows in whatever order."""
    columns = [*case.types]
    where = random_filter(case.types, dice) if dice.random() < 0.8 else None
    chosen = dice.sample(columns, dice.randint(0, len(columns)))
    how = dice.random()

    def run(frame: DataFrame) -> DataFrame:
        found = frame if where is None else frame.where(where)
        if how < 0.55 and chosen:
            return found.select(*chosen)
        if how < 0.7:
            return found.groupBy(*[name for name in chosen if not has(pa.types.is_map, case.types[name])][:2]).count()
        return found.agg(F.count("*"), *(each for name in chosen for each in aggregates(name, case.types[name])))

    return run


def has(test: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    return test(kind) or any(has(test, kind.field(place).type) for place in range(kind.num_fields))


def aggregates(name: str, kind: pa.DataType) -> list[Column]:
    found = [F.count(name)]
    # Spark has no order of maps, and which of 0.0 and -0.0 is the least depends on the order of rows.
    if not has(pa.types.is_map, kind) and not has(pa.types.is_floating, kind):
        found += [F.min(name), F.max(name)]
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        found.append(F.sum(F.col(name).cast("decimal(38, 10)")))
    return found


# The readers beside each other.


def texts(found: Iterable[Any]) -> list[str]:
    return sorted(map(repr, found))


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:600]}"


def compared(spark: SparkSession, case: Case) -> Iterable[str]:
    """What differs."""
    dice = random.Random(-1 - case.number)
    for name, setting in zip((*SETTINGS, NO_FILTER), (*MODES[case.number % 3], "false"), strict=True):
        spark.conf.set(name, setting)
    parquet = spark.read.schema(case.schema).parquet(case.parquet)
    path = case.path
    if case.number % 4 == 3:  # what Spark wrote
        path += "-spark"
        options = {"compression": dice.choice(("none", "lz4", "zstd")), "batchRows": dice.choice((1, 5, 100))}
        options |= {"format": dice.choice(("file", "stream")), "maxRecordsPerFile": dice.choice((0, 9))}
        options["statistics"] = options["format"] == "file"
        said = outcome(lambda: parquet.write.format("arrowipc").options(**options).save(path))
        if said:
            yield f"written: {said}"
            return
    elif (columns := outcome(lambda: load(spark, path).schema)) != case.schema:
        yield f"schema: {columns}, expected {case.schema}"
    query = random_query(case, dice)
    expected = outcome(lambda: texts(query(parquet).collect()))  # sums of decimals may overflow
    frame = spark.read.format("arrowipc").schema(case.schema).load(path)
    found = outcome(lambda: texts(query(frame).collect()))
    if found != expected:
        plan = outcome(lambda: query(frame)._jdf.queryExecution().executedPlan().toString())
        yield f"jar: {found}, expected {expected}\n{plan}"
    found = outcome(lambda: texts(read_here(path, case.schema).to_pylist()))
    if found != texts(case.rows):
        yield f"Python: {found}, expected {texts(case.rows)}"
    if case.number % IN_WORKERS == 0:
        frame = spark.read.format(FORMAT).schema(case.schema).load(path)
        found = outcome(lambda: texts(query(frame).collect()))
        if found != expected:
            yield f"Python in Spark's workers: {found}, expected {expected}"


def cases(spark: SparkSession, folder: Path, numbers: Iterable[int]) -> list[str]:
    """What differs in cases of some numbers."""
    wrong = []
    for number in numbers:
        case = written(number, folder)
        wrong += [f"case {number} {case.types}: {difference}"[:3000] for difference in compared(spark, case)]
    return wrong


@pytest.mark.campaign
@pytest.mark.usefixtures("python_format")
@pytest.mark.parametrize("share", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 8))])
def test_readers_agree(spark: SparkSession, conf: Any, tmp_path: Path, share: int) -> None:
    """In shares; the first one has each kind of case: files that Spark wrote, every mode, Spark's own workers."""
    for name in (*SETTINGS, NO_FILTER):
        conf(name, spark.conf.get(name))  # when the test ends, it is so again
    count = rounds(6, 250)
    numbers = range(share * count, (share + 1) * count)
    wrong = cases(spark, tmp_path, numbers)
    assert not wrong, f"{len(wrong)} differences\n" + "\n\n".join(wrong[:8])
