"""Values that the JVM reads are the same however Spark evaluates and copies them; pruning leaves out no row."""

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrays import stored
from helpers.arrow_columns import COLUMNS, file, held
from helpers.spark import WAYS, evaluate, load
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from spark.random_values import LEAVES, random_filter, value

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "how",
    [
        *("column", "list", "struct", "dictionary", "runs"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("fixed_list", "map")),
    ],
)
def test_all_types_are_the_same_however_spark_evaluates_and_copies(
    spark: SparkSession, conf: Any, tmp_path: Path, how: str
) -> None:
    """What collects rows copies them. The values are those of Python by test_jvm_core."""
    wrapped = {name: held(column).get(how) for name, column in COLUMNS.items()}
    batch = pa.record_batch({name: each[0] for name, each in wrapped.items() if each is not None})
    (tmp_path / "x.arrow").write_bytes(file(batch))
    found = set()
    for way in WAYS:
        evaluate(conf, way)
        frame = load(spark, tmp_path / "x.arrow")
        texts = [f"string(`{name}`)" for name in frame.columns]
        copies = frame.selectExpr("inline(collect_list(struct(*)))")
        found |= {str(each.selectExpr(*texts).collect()) for each in (frame, copies)}
    assert len(found) == 1


@pytest.mark.parametrize("way", WAYS)
def test_arrays_of_null_rows_are_copied(spark: SparkSession, conf: Any, tmp_path: Path, way: str) -> None:
    """A copy takes the numbers of all rows, null ones too: no index leads out of its buffer."""
    evaluate(conf, way)
    choices = pa.array([[1, None], None, [None, 2]], pa.list_(pa.int32()))
    encoded = pa.ListArray.from_arrays(choices.offsets, choices.values.dictionary_encode(), mask=choices.is_null())
    nothing = pa.ListArray.from_arrays(choices.offsets, pa.nulls(len(choices.values)), mask=choices.is_null())
    (tmp_path / "x.arrow").write_bytes(file(pa.record_batch({"a": encoded, "b": nothing})))
    frame = spark.read.format("arrowipc").schema("a array<int>, b array<int>").load(str(tmp_path / "x.arrow"))
    copied = frame.selectExpr("collect_list(a) a", "collect_list(b) b").first()
    assert copied[:] == ([[1, None], [None, 2]], [[None, None], [None, None]])


def same_with_and_without_pruning(
    spark: SparkSession, path: Path, table: pa.Table, rows: int, conditions: list[Column]
) -> list[list[int]]:
    """The numbers of the rows that pass each condition, by batches with statistics, and as Spark alone finds them."""
    frame = load(spark, stored(path, table.to_batches(max_chunksize=rows), statistics=True))
    asked = [frame.where(each).agg(F.lit(at), F.collect_list("id")) for at, each in enumerate(conditions)]
    found = {at: sorted(ids) for at, ids in reduce(DataFrame.unionAll, asked).collect()}
    alone = frame.select("id", *conditions).collect()
    expected = [sorted(row[0] for row in alone if row[at]) for at in range(1, len(conditions) + 1)]
    assert not [(str(each), found[at], expected[at]) for at, each in enumerate(conditions) if found[at] != expected[at]]
    return expected


OPERATORS = ("=", "<=>", "<", "<=", ">", ">=", "<>")
#: Days around the one after which the hybrid calendar is the Gregorian one, and in years that it has otherwise.
DAYS = ["0001-01-01", "0001-01-03", "1500-02-28", "1500-03-01", *(f"1582-10-{day:02}" for day in (4, 5, 9, 14, 15, 16))]
#: Those that are asked for.
ASKED = [DAYS[at] for at in (0, 4, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("java8", ["true", "false"])
def test_pruning_by_days_of_either_calendar(spark: SparkSession, conf: Any, tmp_path: Path, java8: str) -> None:
    evaluate(conf, "interpreted")
    conf("spark.sql.datetime.java8API.enabled", java8)
    days = sorted(dt.date.fromisoformat(day) + dt.timedelta(more) for day in DAYS for more in (0, 1))
    moments = [dt.datetime.combine(day, dt.time(12)) for day in days]
    columns = {
        "id": range(len(days)),
        "day": days,
        "at": pa.array(moments, pa.timestamp("us", "UTC")),
        "local": moments,
    }
    literals = {"day": "date'{}'", "at": "timestamp'{} 12:00:00Z'", "local": "timestamp_ntz'{} 12:00:00'"}
    asked = itertools.product(literals.items(), ASKED, OPERATORS)
    conditions = [f"{name} {operator} {literal.format(day)}" for (name, literal), day, operator in asked]
    conditions += [f"{name} in ({', '.join(map(literal.format, DAYS[5:8]))})" for name, literal in literals.items()]
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    found = same_with_and_without_pruning(spark, tmp_path / "x.arrow", table, 1, [*map(F.expr, conditions)])
    for operator, passes in (("<", dt.date.__lt__), (">=", dt.date.__ge__)):
        for day in ASKED:
            expected = [at for at, each in enumerate(days) if passes(each, dt.date.fromisoformat(day))]
            assert found[conditions.index(f"day {operator} date'{day}'")] == expected


def few(kind: pa.DataType, chance: random.Random) -> Iterator[Any]:
    """Values of which four in a row are one or two, so that the bounds of a batch say much."""
    while True:
        pool = [value(kind, chance, 0.3) for _ in range(chance.choice([1, 1, 2]))]
        yield from chance.choices(pool, k=4)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_pruning_leaves_out_no_row_that_passes(spark: SparkSession, conf: Any, tmp_path: Path, seed: int) -> None:
    evaluate(conf, "interpreted")
    chance = random.Random(seed)
    kinds = pa.float64(), pa.float32(), pa.string(), pa.binary(), pa.uint64(), pa.struct({"n": pa.int64()})
    types = {f"c{at}": kind for at, kind in enumerate((*kinds, *chance.sample([*LEAVES], 4)))}
    columns = {name: pa.array(islice(few(kind, chance), 80), kind) for name, kind in types.items()}
    conditions = [random_filter(types, chance) for _ in range(40)]
    same_with_and_without_pruning(spark, tmp_path / "x.arrow", pa.table({"id": range(80), **columns}), 4, conditions)
