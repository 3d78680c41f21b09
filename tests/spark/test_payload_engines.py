"""Payloads decoded in the JVM and in Python: the same rows of the same cells, and the same cells refused."""

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import mutate
from helpers.arrow_columns import COLUMNS, WAYS, held, stream
from helpers.processes import rounds
from helpers.spark import jvm_peak
from hostile import bombs
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import ByteType, DoubleType, FloatType, IntegerType, LongType, ShortType, StructType

import arrowipc
from arrowipc.errors import ArrowIpcError
from arrowipc.spark import decode_payloads, to_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

#: Damaged frames that the codecs of Python take.
TAKEN = "a compressed buffer of .* does not hold its"


def cells_of(chance: random.Random, batch: pa.RecordBatch, mutants: int) -> list[bytes | None]:
    """Whole payloads of one to three batches, some that are cut, and some with a lie in them."""
    whole = []
    for write, codec in chance.sample(WAYS, 4):
        parts = [batch.slice(chance.randrange(batch.num_rows + 1)) for _ in range(chance.randrange(3))]
        whole.append(write(batch, *parts, compression=codec))
    cut = [cell[: chance.randrange(len(cell))] for cell in whole]
    return [*whole, None, b"", *cut, *mutate.mixed(whole, chance.randrange(1 << 30), mutants)]


def frame(spark: SparkSession, cells: list[bytes | None]) -> DataFrame:
    table = pa.table({"n": range(len(cells)), "payload": pa.array(cells, pa.binary())})
    return spark.createDataFrame(table).coalesce(1)


def outcome(frame: DataFrame, schema: Any, **options: Any) -> dict[int, tuple[list[str], str | None]]:
    """The rows of each cell as texts, and why it was refused."""
    found: dict[int, tuple[list[str], str | None]] = {}
    rows = decode_payloads(frame, "payload", schema, keep=["n"], on_error="null", error_column="why", **options)
    # As Spark's texts: Python has no dates behind the year 9999.
    texts = rows.select("n", F.struct(*rows.columns[1:-1]).cast("string").alias("row"), "why")
    for row in texts.collect():
        found.setdefault(row["n"], ([], row["why"]))[0].append(row["row"])
    return found


def asked(chance: random.Random, schema: StructType) -> StructType:
    """Some of the columns in another order, of wider types, spelt otherwise, and one that no payload has."""
    wider = {ByteType: ShortType, ShortType: IntegerType, IntegerType: LongType, FloatType: DoubleType}
    found = StructType()
    for each in chance.sample(schema.fields, chance.randint(1, len(schema))):
        kind = wider.get(type(each.dataType)) if chance.random() < 0.5 else None
        found.add(chance.choice([each.name, each.name.upper()]), kind() if kind else each.dataType)
    return found.add("absent", "date") if chance.random() < 0.3 else found


@pytest.mark.campaign
def test_both_engines_say_the_same_of_the_same_cells(spark: SparkSession) -> None:
    wrong, seen = [], defaultdict(int)
    for case in range(rounds(5, 75)):
        chance = random.Random(case)
        columns = {}
        for name in chance.sample([*COLUMNS], 3):
            columns[name] = chance.choice([*held(COLUMNS[name]).values()])[0]
        rows = min(map(len, columns.values()))
        batch = pa.record_batch({name: array.slice(0, rows) for name, array in columns.items()})
        schema = asked(chance, to_spark_schema(batch.schema))
        whole = {name.lower() for name in schema.names} >= {*batch.schema.names}
        prefix = chance.choice([0, 5])
        cells = [cell and chance.randbytes(prefix) + cell for cell in cells_of(chance, batch, 30)]
        options = {"prefix": prefix, "nanoseconds": chance.choice(["error", "truncate"])}
        jvm, python = (outcome(frame(spark, cells), schema, engine=engine, **options) for engine in ("jvm", "python"))
        for n in range(len(cells)):
            one, other = jvm.get(n), python.get(n)
            refused = [each is not None and each[1] is not None for each in (one, other)]
            seen[refused[0]] += 1
            if refused == [False, False]:
                same = one == other
            else:
                # Each engine leaves out other parts of what nobody asks for; the JVM, dictionaries that no row needs.
                taken = refused[0] and (refused[1] or re.search(TAKEN, str(one)) is not None)
                same = taken or one is None or not whole
            if not same:
                wrong.append((case, n, [*columns], one, other))
    assert min(seen[True], seen[False]) > 10
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(f"{each}"[:1500] for each in wrong[:20])


@pytest.mark.campaign
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure a peak")
def test_mutants_of_cells_neither_end_the_jvm_nor_take_its_memory(spark: SparkSession) -> None:
    chance, started = random.Random(41), jvm_peak(spark, anew=True)
    for name in [*COLUMNS][:: rounds(12, 1)]:
        batch = pa.record_batch({"x": COLUMNS[name].array})
        originals = [write(batch, batch, compression=codec) for write, codec in WAYS]
        cells = [*mutate.mixed(originals, chance.randrange(1 << 30), rounds(60, 250))]
        rows = outcome(frame(spark, cells), to_spark_schema(batch.schema), engine="jvm")
        assert any(why is not None for _, why in rows.values())
    assert jvm_peak(spark) - started < 300


@pytest.mark.slow
def test_payloads_of_more_rows_than_memory_holds_are_python_s(spark: SparkSession) -> None:
    word, nothing = ["x" * (1 << 20)], pa.array([0] * 400, pa.int8())
    many = pa.record_batch({"x": pa.DictionaryArray.from_arrays(nothing, word)})
    null = pa.record_batch({"x": pa.nulls(1 << 30, pa.null())}).cast(pa.schema({"x": pa.null()}))
    cells = frame(spark, [stream(many), stream(null), stream(many.slice(0, 3))])
    found = outcome(cells, "x string", engine="jvm")
    assert [len(rows) for rows, _ in found.values()] == [1, 1, 3]
    assert ["its rows take more than" in str(why) for _, why in found.values()] == [True, True, False]
    # A row of a bit takes 72 bytes in Spark, and no batch of this payload has many.
    bits = stream(*[pa.record_batch({"x": pa.array([True] * 60_000)})] * 200)
    assert "its rows take more than" in str(outcome(frame(spark, [bits]), "x boolean", engine="jvm")[0][1])
    rows = decode_payloads(cells.where("n <> 1"), "payload", "x string", engine="python")
    assert rows.selectExpr("sum(length(x))").collect()[0][0] == 403 << 20


def test_a_schema_that_only_messages_can_carry_is_refused(spark: SparkSession) -> None:
    """A damaged name of a zone, say: the C data interface has no text with a NUL."""
    moments = pa.array([1000, 2000], pa.timestamp("ns", "Etc/UTC"))
    whole = stream(pa.record_batch({"x": moments, "y": [1, 2]}))
    cells = frame(spark, [whole, whole.replace(b"Etc/UTC", b"Et\0/UTC"), whole])
    found = outcome(cells, "y bigint", engine="python")
    found_too = outcome(cells, "x timestamp, y bigint", engine="python")
    assert [why is None for _, why in found.values()] == [True, True, True]
    assert [why is None for _, why in found_too.values()] == [True, False, True]


def test_an_index_outside_its_dictionary_is_refused(spark: SparkSession) -> None:
    words = pa.array(["a", "b", "c"])
    columns = [pa.DictionaryArray.from_arrays(pa.array([0, last], pa.int8()), words, safe=False) for last in (2, 3, -1)]
    cells = frame(spark, [stream(pa.record_batch({"x": column})) for column in columns])
    for engine in ("jvm", "python"):
        refused = [why is not None for _, why in outcome(cells, "x string", engine=engine).values()]
        assert refused == [False, True, True]


#: Many honest batches, which cost what they hold; maps of null keys, which Spark has not; and more columns than Spark
#: makes code for in a minute.
HONEST = {
    *("blocks of one batch", "blocks of one batch of text", "honest frames", "maps of nothing"),
    "columns on one buffer",
}


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
def test_bombs_in_cells_do_not_end_the_jvm(spark: SparkSession, share: int) -> None:
    for name in sorted({*bombs.BOMBS} - HONEST)[share::4]:
        for form, data in bombs.BOMBS[name]().items():
            if not form.startswith(("stream", "file")) or len(data) > 16 << 20:
                continue
            try:
                with arrowipc.open(data) as reader:
                    schema: Any = to_spark_schema(reader.schema)
            except ArrowIpcError:
                schema = "x bigint"
            rows = decode_payloads(frame(spark, [data]), "payload", schema, keep=["n"], on_error="skip", engine="jvm")
            rows.limit(100).write.format("noop").mode("overwrite").save()
