"""Values that the JVM reads are the same however Spark evaluates and copies them; pruning leaves out no row."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrays import stored
from helpers.arrow_columns import COLUMNS, file, held
from helpers.spark import WAYS, evaluate, load
from pyspark.sql import SparkSession

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
    spark: SparkSession, path: Path, table: pa.Table, rows: int, conditions: list[str]
) -> Any:
    """The numbers of the rows that pass each condition, by batches with statistics, and as Spark alone finds them."""
    frame = load(spark, stored(path, table.to_batches(max_chunksize=rows), statistics=True))
    frame.createOrReplaceTempView("pruned")
    asked = [f"select {at} at, collect_list(id) ids from pruned where {each}" for at, each in enumerate(conditions)]
    found = {row["at"]: sorted(row["ids"]) for row in spark.sql(" union all ".join(asked)).collect()}
    alone = frame.selectExpr("id", *conditions).collect()
    assert found == {at: sorted(row[0] for row in alone if row[at + 1]) for at in range(len(conditions))}
    return {each: found[at] for at, each in enumerate(conditions)}


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
    conditions = [
        f"{name} {operator} {literal.format(day)}"
        for name, literal in literals.items()
        for operator in OPERATORS
        for day in ASKED
    ]
    conditions += [f"{name} in ({', '.join(map(literal.format, DAYS[5:8]))})" for name, literal in literals.items()]
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    found = same_with_and_without_pruning(spark, tmp_path / "x.arrow", table, 1, conditions)
    for operator, passes in (("<", dt.date.__lt__), (">=", dt.date.__ge__)):
        for day in ASKED:
            expected = [at for at, each in enumerate(days) if passes(each, dt.date.fromisoformat(day))]
            assert found[f"day {operator} date'{day}'"] == expected


LONG = "long " * 16  # longer than a bound
LITERALS = {
    "real": ["0.0D", "-0.0D", "double('NaN')", "double('inf')", "1.5D", "-2D", "null"],
    "single": ["float('0.0')", "float('NaN')", "float('0.1')", "float('-inf')"],
    "word": ["'a'", f"'{LONG}'", f"'{LONG}b'", "''", "'\U0010ffff'", "null"],
    "raw": ["x'00'", "x'ffff'", "x''"],
    "number": ["0", "3", "-5", "null"],
    "huge": ["0", "18446744073709551615"],
    "price": ["1.50", "-2.25", "0"],
    "flag": ["true", "false"],
    "s.n": ["2", "null"],
}


def values(chance: random.Random, rows: int) -> pa.Table:
    nan, inf = float("nan"), float("inf")
    pools: dict[str, tuple[pa.DataType, list[Any]]] = {
        "real": (pa.float64(), [0.0, -0.0, nan, inf, -inf, 1.5, -2.0]),
        "single": (pa.float32(), [0.0, -0.0, nan, 0.1, 2.5, -inf]),
        "word": (pa.string(), ["", "a", "ab", LONG, LONG + "a", LONG + "c", "\U0010ffff" * 20, "\uffff"]),
        "raw": (pa.binary(), [b"", b"\0", b"\xff" * 70, b"\xff\xff", b"a"]),
        "number": (pa.int32(), [0, 1, 3, 4, -5]),
        "huge": (pa.uint64(), [0, 2**64 - 1, 2**63]),
        "price": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
        "flag": (pa.bool_(), [True, False]),
        "s": (pa.struct({"n": pa.int64()}), [{"n": 2}, {"n": 3}, {"n": None}]),
    }
    columns: dict[str, list[Any]] = {name: [] for name in pools}
    for _ in range(rows // 4):
        for name, (_, pool) in pools.items():
            few = [*chance.sample(pool, chance.choice([1, 1, 2])), *([None] if chance.random() < 0.4 else [])]
            few = [None] if chance.random() < 0.1 else few
            columns[name] += [chance.choice(few) for _ in range(4)]
    arrays = {name: pa.array(columns[name], kind) for name, (kind, _) in pools.items()}
    return pa.table({"id": pa.array(range(rows)), **arrays})


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        inner = [condition(chance, depth - 1) for _ in range(2)]
        return chance.choice(["({} and {})", "({} or {})", "not ({})", "(not {} or {})"]).format(*inner)
    name = chance.choice(list(LITERALS))
    few = chance.choices(LITERALS[name], k=3)
    if chance.random() < 0.2:
        return f"{name} is {chance.choice(['', 'not '])}null"
    if chance.random() < 0.2:
        return f"{name} {chance.choice(['', 'not '])}in ({', '.join(few)})"
    if name == "word" and chance.random() < 0.5:
        return f"word like '{chance.choice(['a', LONG, 'long', LONG + 'b'])}%'"
    return f"{name} {chance.choice(OPERATORS)} {few[0]}"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_pruning_leaves_out_no_row_that_passes(spark: SparkSession, conf: Any, tmp_path: Path, seed: int) -> None:
    evaluate(conf, "interpreted")
    chance = random.Random(seed)
    table = values(chance, 80)
    plain = [f"{name} {operator} {one}" for name in LITERALS for operator in OPERATORS for one in LITERALS[name]]
    conditions = [*dict.fromkeys([*chance.sample(plain, 20), *(condition(chance) for _ in range(20))])]
    same_with_and_without_pruning(spark, tmp_path / "x.arrow", table, 4, conditions)
