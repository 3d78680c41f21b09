"""Filters that Spark pushes: a batch is left out only if no row of it can pass, and then it is not read."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

import arrowipc as ipc
from arrowipc.columns.statistics import compute_statistics
from arrowipc.spark import register, to_spark_batch, to_spark_schema
from arrowipc.spark.read.pruning import Pruner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")


# -- what SQL says of a row, the slow way --------------------------------------------------------------------


def order(value: Any) -> Any:
    """Something that sorts as Spark sorts: text by its bytes, NaN above everything and equal to itself."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value


def passes(test: Any, value: Any) -> bool | None:
    """Whether a value passes a filter: True, False, or None as SQL's third truth."""
    kind, other = type(test), getattr(test, "value", None)
    if kind is Not:
        inner = passes(test.child, value)
        return None if inner is None else not inner
    if kind is IsNull:
        return value is None
    if kind is IsNotNull:
        return value is not None
    if kind is EqualNullSafe:
        return (value is None) == (other is None) and (value is None or order(value) == order(other))
    if value is None:
        return None
    if kind is In:
        if any(each is not None and order(each) == order(value) for each in other):
            return True
        return None if None in other else False
    if other is None:
        return None
    if kind in (StringStartsWith, StringEndsWith, StringContains):
        a, b = value.encode(), other.encode()
        return {StringStartsWith: a.startswith(b), StringEndsWith: a.endswith(b), StringContains: b in a}[kind]
    mine, other = order(value), order(other)
    return {
        EqualTo: mine == other,
        LessThan: mine < other,
        LessThanOrEqual: mine <= other,
        GreaterThan: mine > other,
        GreaterThanOrEqual: mine >= other,
    }[kind]


def value_at(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for part in path:
        value = None if value is None else value[part]
    return value


# -- random columns and filters ------------------------------------------------------------------------------

LONG = "x" * 64
TEXTS = ["", "a", "ab", "b", "é", "\U0010ffff", "\ue000", LONG, LONG + "a", LONG + "b", "x" * 63 + "éz"]
BLOBS = [text.encode() + b"\xff" for text in TEXTS]
REALS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), NAN]
DECIMALS = [Decimal(text) for text in ("0", "-1.5", "12.25", "99999.99", "-99999.99")]
MOMENTS = [0, 1, -1, 999, 1_000, 1_001, -1_000, -1_001, 86_400_000, -86_399_999, 1_700_000_000]
ZONES = (None, "Europe/Paris")
POOLS: dict[pa.DataType, list[Any]] = {
    **{pa.type_for_alias(f"int{n}"): [-(2 ** (n - 1)), -1, 0, 1, 2 ** (n - 1) - 1] for n in (8, 16, 32, 64)},
    **{pa.type_for_alias(f"uint{n}"): [0, 1, 2 ** (n - 1), 2**n - 1] for n in (8, 16, 32, 64)},
    **dict.fromkeys((pa.float16(), pa.float32()), REALS),
    pa.float64(): [*REALS, 0.1, -1e300],
    pa.bool_(): [True, False],
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), TEXTS),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), BLOBS),
    pa.binary(2): [b"\0\0", b"\0\xff", b"\xff\xff", b"ab"],
    pa.date32(): [0, 1, -1, 19_000, -719_162],
    pa.date64(): [0, 86_400_000, -86_400_000, -1, 1],
    **{pa.timestamp(unit, zone): MOMENTS for unit in ("s", "ms", "us", "ns") for zone in ZONES},
    **dict.fromkeys((pa.decimal32(9, 2), pa.decimal64(12, 2)), DECIMALS),
    **dict.fromkeys((pa.decimal128(20, 2), pa.decimal256(38, 4)), DECIMALS),
    pa.decimal128(5, -2): [Decimal("0"), Decimal("1E+2"), Decimal("-9E+3")],
    pa.duration("us"): [0, 1, -5],
    pa.time64("us"): [0, 1, 86_399_999_999],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 2, 3])],
}
LEAVES = list(POOLS)


def array_of(kind: pa.DataType, rows: int, chance: random.Random) -> pa.Array:
    pool = chance.sample(POOLS[kind], chance.randint(1, len(POOLS[kind])))
    nulls = chance.choice([0, 0, 0.2, 1])
    values = [None if chance.random() < nulls else chance.choice(pool) for _ in range(rows)]
    array = pa.array(values, kind)
    match chance.randrange(4):
        case 0 if kind not in (pa.string_view(), pa.binary_view(), pa.float16()) and "decimal" not in str(kind):
            return array if pa.types.is_interval(kind) else array.dictionary_encode()
        case 1:
            ends = pa.array(range(1, rows + 1), pa.int32())
            return pa.RunEndEncodedArray.from_arrays(ends, array)
    return array


@st.composite
def batches(draw: Any) -> pa.RecordBatch:
    chance = random.Random(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(0, 8))
    kinds = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3))
    columns = [array_of(kind, rows, chance) for kind in kinds]
    mask = pa.array([chance.random() < 0.2 for _ in range(rows)], pa.bool_())
    plain = [
        pa.array(chance.choices(POOLS[pa.int16()], k=rows), pa.int16()),
        array_of(pa.string(), rows, chance),
    ]
    if rows:
        columns.append(pa.StructArray.from_arrays(plain, ["x", "Y"], mask=mask))
    return pa.record_batch(columns, names=[f"C{i}" for i in range(len(columns))])


def filter_of(path: tuple[str, ...], values: list[Any], chance: random.Random) -> Filter:
    """A filter about a column that has such values."""
    spelt = tuple(chance.choice([part, part.lower(), part.upper()]) for part in path)
    found = [value for value in values if value is not None]
    texts = bool(found) and all(isinstance(value, str) for value in found)
    simple = bool(found) and not isinstance(found[0], dict | list)
    kinds = [IsNull, IsNotNull]
    if simple:
        kinds += [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In, In]
    if texts:
        kinds += [StringStartsWith, StringEndsWith, StringContains]
    kind = chance.choice(kinds)
    if kind in (IsNull, IsNotNull):
        test = kind(spelt)
    elif kind is In:
        test = In(spelt, [literal(found, chance) for _ in range(chance.randint(1, 3))])  # type: ignore[arg-type]
    elif kind in (StringStartsWith, StringEndsWith, StringContains):
        text = chance.choice([*found, *TEXTS])
        test = kind(spelt, text[: chance.choice([0, 1, 2, 64, 99])])
    else:
        test = kind(spelt, literal(found, chance))
    return Not(test) if chance.random() < 0.3 else test


def literal(found: list[Any], chance: random.Random) -> Any:
    """A value, one beside it, or null."""
    value = chance.choice(found)
    match chance.randrange(8):
        case 0:
            return None
        case 1 | 2 if type(value) in (int, float, Decimal):
            return value + chance.choice([-1, 1])
        case 1 | 2 if isinstance(value, str):
            return chance.choice(TEXTS)
        case 1 | 2 if type(value) is dt.datetime:
            return value + dt.timedelta(microseconds=chance.choice([-1, 1]))
        case 1 | 2 if type(value) is dt.date:
            return value + dt.timedelta(days=chance.choice([0, 1]))
    return value


def leaves(schema: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in schema.fields:
        yield (*prefix, field.name)
        if isinstance(field.dataType, spark_types.StructType):
            yield from leaves(field.dataType, (*prefix, field.name))


COUNTED = {"kept": 0, "left out": 0}


@given(batches(), st.integers(0, 2**32), st.sampled_from(["truncate", "long"]))
def test_no_batch_with_a_row_that_passes_is_left_out(source, seed, nanoseconds):
    chance = random.Random(seed)
    options = {"nanoseconds": nanoseconds}
    batch = ipc.RecordBatch.from_arrow(source)
    target = to_spark_schema(batch.schema, options)
    rows = to_spark_batch(batch, target, options).to_pylist()
    paths = list(leaves(target))
    for _ in range(25):
        tests, names = [], []
        for _ in range(chance.choice([1, 1, 2])):
            path = chance.choice(paths)
            tests.append(filter_of(path, [value_at(row, path) for row in rows], chance))
            names.append(path)
        start = chance.randint(0, len(rows))
        stop = chance.randint(start, len(rows))
        pruner = Pruner(tests, target, options)
        # The statistics of more rows than there are must do no harm either.
        for known in (batch.slice(start, stop - start), batch):
            kept = pruner.bound(batch.schema).keeps(compute_statistics(known))
            COUNTED["kept" if kept else "left out"] += 1
            for row in rows[start:stop]:
                passed = all(passes(test, value_at(row, path)) is True for test, path in zip(tests, names, strict=True))
                assert kept or not passed, (tests, row)


def test_the_random_filters_do_leave_batches_out():
    """Guards the law above against a Pruner that keeps everything; its examples are always the same."""
    if COUNTED["kept"] == 0:
        pytest.skip("the law did not run")
    assert min(COUNTED.values()) > 200, COUNTED


# -- one by one ----------------------------------------------------------------------------------------------


def keeps(test: Filter, array: pa.Array, *, options: Any = None, target: Any = None) -> bool:
    batch = ipc.RecordBatch.from_arrow(pa.record_batch([array], names=["x"]))
    schema = target or to_spark_schema(batch.schema, options)
    return Pruner([test], schema, options).bound(batch.schema).keeps(compute_statistics(batch))


X = ("x",)
SOME = pa.array([3, None, 7])
WORDS = pa.array(["berlin", "bonn", None])
FULL = pa.array([5, 5])
NONE = pa.array([None, None], pa.int64())
MADE = dt.datetime(2024, 1, 1)
TIMES = pa.array([MADE, MADE + dt.timedelta(days=1)], pa.timestamp("ms"))


@pytest.mark.parametrize(
    ("test", "array", "kept"),
    [
        (EqualTo(X, 3), SOME, True),
        (EqualTo(X, 5), SOME, True),
        (EqualTo(X, 2), SOME, False),
        (EqualTo(X, 8), SOME, False),
        (EqualTo(X, 5), NONE, False),
        (EqualTo(X, "3"), SOME, True),
        (EqualTo(X, True), SOME, True),
        (EqualNullSafe(X, 8), SOME, False),
        (EqualNullSafe(X, None), SOME, True),
        (EqualNullSafe(X, None), FULL, False),
        (GreaterThan(X, 7), SOME, False),
        (GreaterThanOrEqual(X, 7), SOME, True),
        (LessThan(X, 3), SOME, False),
        (LessThanOrEqual(X, 3), SOME, True),
        (LessThan(X, Decimal("2.5")), SOME, False),
        (In(X, [1, 2, 8]), SOME, False),  # type: ignore[arg-type]
        (In(X, [1, 7]), SOME, True),  # type: ignore[arg-type]
        (In(X, [None]), SOME, False),  # type: ignore[arg-type]
        (IsNull(X), SOME, True),
        (IsNull(X), FULL, False),
        (IsNotNull(X), SOME, True),
        (IsNotNull(X), NONE, False),
        (Not(IsNull(X)), NONE, False),
        (Not(EqualTo(X, 5)), FULL, False),
        (Not(EqualTo(X, 5)), SOME, True),
        (Not(EqualNullSafe(X, 5)), FULL, False),
        (Not(EqualNullSafe(X, 5)), pa.array([5, None]), True),
        (Not(In(X, [4, 5])), FULL, False),  # type: ignore[arg-type]
        (Not(GreaterThan(X, 2)), SOME, False),
        (Not(LessThanOrEqual(X, 7)), SOME, False),
        (Not(Not(EqualTo(X, 8))), SOME, False),
        (EqualTo(X, "a"), WORDS, False),
        (EqualTo(X, "bach"), WORDS, False),
        (GreaterThan(X, "bonn"), WORDS, False),
        (StringStartsWith(X, "b"), WORDS, True),
        (StringStartsWith(X, "bi"), WORDS, True),
        (StringStartsWith(X, "c"), WORDS, False),
        (StringStartsWith(X, "ba"), WORDS, False),
        (StringStartsWith(X, "berlin!"), WORDS, True),
        (Not(StringStartsWith(X, "b")), WORDS, False),
        (StringEndsWith(X, "z"), WORDS, True),
        (StringContains(X, "z"), pa.array([None, None], pa.string()), False),
        (GreaterThan(X, 9.0), pa.array([1.0, NAN]), True),
        (GreaterThan(X, 9.0), pa.array([1.0, 2.0]), False),
        (LessThan(X, 1.0), pa.array([1.0, NAN]), False),
        (EqualTo(X, NAN), pa.array([1.0, 2.0]), False),
        (EqualTo(X, NAN), pa.array([1.0, NAN]), True),
        (Not(EqualTo(X, 0.0)), pa.array([0.0, -0.0]), False),
        (EqualTo(X, dt.date(2024, 1, 2)), pa.array([dt.date(2024, 1, 1)], pa.date64()), False),
        (EqualTo(X, dt.date(2024, 1, 1)), pa.array([dt.date(2024, 1, 1)], pa.date64()), True),
        (EqualTo(X, dt.date(1969, 12, 31)), pa.array([-1], pa.int64()).view(pa.date64()), True),
        (EqualTo(X, dt.date(1970, 1, 1)), pa.array([-1], pa.int64()).view(pa.date64()), False),
        (EqualTo(X, dt.date(1970, 1, 2)), pa.array([1], pa.int64()).view(pa.date64()), False),
        (LessThan(X, MADE), TIMES, False),
        (LessThan(X, MADE.replace(tzinfo=dt.UTC)), TIMES, True),
        (LessThan(X, MADE.replace(tzinfo=dt.UTC)), TIMES.cast(pa.timestamp("ns", "Asia/Tokyo")), False),
        (EqualTo(X, Decimal("1.50")), pa.array([Decimal("1.5")], pa.decimal256(10, 3)), True),
        (EqualTo(X, Decimal("15")), pa.array([Decimal("1.5")], pa.decimal256(10, 3)), False),
        (EqualTo(X, 2**64), pa.array([2**64 - 1], pa.uint64()), False),
        (EqualTo(X, b"\xff"), pa.array([b"a"]), False),
        (EqualTo(X, False), pa.array([True, None]), False),
        (EqualTo(("y",), 1), SOME, True),
        (EqualTo(("x", "y"), 1), SOME, True),
        (EqualTo(("X",), 99), SOME, False),
    ],
    ids=str,
)
def test_a_filter(test, array, kept):
    assert keeps(test, array) is kept


def test_where_types_leave_doubt_only_nulls_decide():
    past = GreaterThan(X, 10**9)
    assert not keeps(past, SOME)
    # A schema of the user's own: read as something else.
    assert keeps(past, SOME, target=spark_types.StructType().add("x", "double"))
    collated = spark_types.StructType().add("x", spark_types.StringType("UTF8_LCASE"))
    assert keeps(EqualTo(X, "BONN"), WORDS, target=collated)
    assert not keeps(EqualTo(X, "BONN"), pa.array([None], pa.string()), target=collated)
    assert keeps(EqualTo(X, dt.timedelta(1)), pa.array([dt.timedelta(9)], pa.duration("us")))
    nanoseconds = pa.array([1_000], pa.timestamp("ns"))
    assert not keeps(EqualTo(X, 1), nanoseconds, options={"nanoseconds": "long"})
    assert keeps(EqualTo(X, 1), nanoseconds, options={"nanoseconds": "truncate"})
    before = pa.array([-1], pa.timestamp("ns"))
    for microseconds, kept in ((-1, True), (0, False)):
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)
        assert keeps(EqualTo(X, moment), before, options={"nanoseconds": "truncate"}) is kept


def test_without_statistics_everything_is_kept():
    batch = ipc.RecordBatch.from_arrow(pa.record_batch([SOME], names=["x"]))
    pruner = Pruner([EqualTo(X, 99)], to_spark_schema(batch.schema), {})
    keeps = pruner.bound(batch.schema).keeps
    assert not keeps(compute_statistics(batch))
    assert keeps(None)
    assert keeps({})
    assert keeps({"x": ipc.ColumnStatistics(3, 0, "a", "b")})


def test_a_pruner_travels_to_executors():
    batch = ipc.RecordBatch.from_arrow(pa.record_batch([SOME], names=["x"]))
    pruner = Pruner([EqualTo(X, 99)], to_spark_schema(batch.schema), {})
    for each in (pruner, pickle.loads(pickle.dumps(pruner))):
        assert not each.bound(batch.schema).keeps(compute_statistics(batch))
    assert not pickle.loads(pickle.dumps(pruner)).bound(batch.schema).keeps(compute_statistics(batch))


# -- in Spark ------------------------------------------------------------------------------------------------

CONF = "spark.sql.python.filterPushdown.enabled"
BATCHES, ROWS = 6, 20


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which Spark pushes filters."""
    register(spark)
    spark.conf.set(CONF, "true")
    yield spark
    spark.conf.set(CONF, "false")


def part(number: int) -> pa.RecordBatch:
    """Batch `number`: every column has values that no other batch has, but `any`."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    midnight = dt.datetime(2024, 1, 1)
    return pa.record_batch(
        {
            "id": pa.array([None if i % 7 == 0 else i for i in ids], pa.int64()),
            "small": pa.array(list(ids), pa.uint8()),
            "real": pa.array([NAN if i == 119 else i / 4 for i in ids]),
            "half": pa.array([float(i) for i in ids], pa.float16()),
            "price": pa.array([Decimal(i).scaleb(-2) for i in ids], pa.decimal64(10, 2)),
            "word": pa.array([f"w{i:04}" for i in ids]).dictionary_encode(),
            "view": pa.array([f"w{i:04}" + "x" * 70 for i in ids], pa.string_view()),
            "day": pa.array([midnight.date() + dt.timedelta(i) for i in ids], pa.date64()),
            "local": pa.array([midnight + dt.timedelta(hours=i) for i in ids], pa.timestamp("ms")),
            "at": pa.array([midnight + dt.timedelta(hours=i) for i in ids], pa.timestamp("ns", "Asia/Tokyo")),
            "raw": pa.array([i.to_bytes(2, "big") for i in ids], pa.binary(2)),
            "flag": pa.array([number == 2] * ROWS),
            "st": pa.array([{"Deep": {"n": i}} if i % 3 else None for i in ids]),
            "any": pa.array([i % 5 for i in ids]),
        }
    )


def write(path: Path) -> Path:
    with ipc.new_file(path, statistics=True, unify_dictionaries=True) as writer:
        for number in range(BATCHES):
            writer.write(part(number))
    return path


def ruin(path: Path, *sound: int) -> Path:
    """Fill the bodies of all batches but some with bytes that no reader accepts."""
    ruined = bytearray(path.read_bytes())
    with ipc.open_file(path) as reader:
        for number, (offset, head, body) in enumerate(reader.blocks):
            if number not in sound:
                ruined[offset + head : offset + head + body] = b"\xff" * body
    copy = path.with_name("ruined.arrow")
    copy.write_bytes(ruined)
    return copy


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("arrowipc").options(**options).load(str(path))


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "sound"),
    [
        ("id = 50", [2]),
        ("ID <=> 50", [2]),
        ("id > 99", [5]),
        ("id in (41, 119)", [2, 5]),
        ("id between 61 and 62", [3]),
        ("id >= 60 and any = 1 and id < 80", [3]),
        ("small = 119", [5]),
        ("real > 29.7", [5]),
        ("real = double('NaN')", [5]),
        ("half < 3", [0]),
        ("price < 0.19", [0]),
        ("word = 'w0021'", [1]),
        ("word like 'w000%'", [0]),
        ("view > 'w0115'", [5]),
        ("view like 'w004%'", [2]),
        ("day = date'2024-02-01'", [1]),
        ("local < timestamp_ntz'2024-01-01 05:00:00'", [0]),
        ("at >= timestamp'2024-01-05 16:00:00 UTC'", [5]),
        ("raw = x'0001'", [0]),
        ("flag", [2]),
        ("st.deep.n = 40", [2]),
        ("st.deep.n < 5 and st is not null", [0]),
        ("id > 1000", []),
    ],
)
def test_spark_reads_only_batches_that_rows_may_be_in(pushing, tmp_path, condition, sound):
    path = write(tmp_path / "good.arrow")
    wanted = rows(read(pushing, path).where(condition))
    assert bool(wanted) == bool(sound)
    ruined = ruin(path, *sound)
    assert rows(read(pushing, ruined, pushFilters="true").where(condition)) == wanted
    assert rows(read(pushing, path, pushFilters="true").where(condition)) == wanted


@pytest.mark.spark
def test_what_is_left_out_is_not_even_planned(pushing, tmp_path):
    from pyspark.errors import PySparkException

    path = write(tmp_path / "good.arrow")
    one = {"batchesPerPartition": "1", "pushFilters": "true"}
    assert read(pushing, path, **one).rdd.getNumPartitions() == BATCHES
    assert read(pushing, path, **one).where("id > 85").rdd.getNumPartitions() == 2
    # Ruined batches are noticed where they are read.
    with pytest.raises(PySparkException, match="record batch"):
        read(pushing, ruin(path, 2), pushFilters="true").where("any = 1").collect()


@pytest.mark.spark
def test_streams_and_files_without_statistics_are_read_whole(pushing, tmp_path):
    with ipc.new_stream(tmp_path / "a.arrows", statistics=True) as writer:
        writer.write(part(0).drop_columns(["word"]))
    with ipc.new_file(tmp_path / "b.arrow") as writer:
        writer.write(part(1).drop_columns(["word"]))
    frame = read(pushing, tmp_path, pushFilters="true").where("small in (1, 21)")
    assert [row.small for row in frame.sort("small").collect()] == [1, 21]


@pytest.mark.spark
def test_without_the_option_nothing_depends_on_the_configuration(spark, tmp_path):
    register(spark)
    path = write(tmp_path / "good.arrow")
    for value in ("false", "true"):
        spark.conf.set(CONF, value)
        try:
            assert read(spark, path).where("id > 99").count() == 17
        finally:
            spark.conf.set(CONF, "false")


@pytest.mark.spark
def test_the_option_needs_the_configuration(spark, tmp_path):
    from pyspark.errors import PySparkException

    register(spark)
    path = write(tmp_path / "good.arrow")
    with pytest.raises(PySparkException, match=CONF):
        read(spark, path, pushFilters="true").count()
    with pytest.raises(PySparkException, match="option pushFilters: expected one of false, true"):
        read(spark, path, pushFilters="maybe").count()
