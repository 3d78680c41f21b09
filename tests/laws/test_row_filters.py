"""The rows that pass a filter are those that polars finds, for random conditions about columns of every type that has
an order."""

import datetime as dt
import math
import operator
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from helpers.arrays import CASES
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc.filters.row_filters import RowFilter

pl = pytest.importorskip("polars")

ROWS = 200
PREDICATES = rounds(400, 5_000)
NOON = dt.datetime(2024, 1, 1, 12)
TICK = dt.timedelta(microseconds=1)
#: Words around the eight bytes that are compared first.
EIGHT = ["seven77", "eight888", "eight888\0", "eight889", "eight8889"]
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 2.5, math.nan, math.inf]

#: Name -> dtype of polars, and the values that a column and the literals have.
COLUMNS = {
    "int8": (pl.Int8, [-128, -1, 0, 1, 127]),
    "uint8": (pl.UInt8, [0, 1, 200, 255]),
    "int64": (pl.Int64, [-(2**63), -1, 0, 3, 2**63 - 1]),
    "uint64": (pl.UInt64, [0, 5, 2**63, 2**64 - 1]),
    "float32": (pl.Float32, FLOATS),
    "float64": (pl.Float64, FLOATS),
    "bool": (pl.Boolean, [True, False]),
    "text": (pl.String, ["", "a", "ab", "abc", "b", "\u00fc", "a long text of more than twelve bytes", *EIGHT]),
    "binary": (pl.Binary, [b"", b"a", b"\xff", b"\xff\xff", b"ab", b"a\0", *(word.encode() for word in EIGHT)]),
    "date": (pl.Date, [dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "us": (pl.Datetime("us"), [NOON, NOON + TICK, NOON - dt.timedelta(days=9999)]),
    "ns": (pl.Datetime("ns"), [NOON, NOON + TICK]),
    "duration": (pl.Duration("ms"), [dt.timedelta(0), dt.timedelta(seconds=-1), dt.timedelta(days=2)]),
    "time": (pl.Time, [dt.time(0), dt.time(1, 2, 3, 4), dt.time(23, 59)]),
    "decimal": (pl.Decimal(10, 2), [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
    "words": (pl.Categorical, ["x", "y", "zed"]),
}
COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def passing(test, batch: ipc.RecordBatch) -> list[int]:
    """The numbers of the rows that pass a test."""
    return memoryview(RowFilter(test, batch.schema).rows(batch)).cast("q").tolist()


def frame(dice: random.Random):
    return pl.DataFrame(
        [
            pl.Series(name, [dice.choice([*values, None]) for _ in range(ROWS)], dtype=dtype)
            for name, (dtype, values) in COLUMNS.items()
        ]
    )


def in_all_layouts(data):
    """The frame as one batch, its texts as views, and behind offsets of 64 and of 32 bits."""
    large = data.to_arrow(compat_level=pl.CompatLevel.oldest())
    narrow = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    small = large.cast(pa.schema([field.with_type(narrow.get(field.type, field.type)) for field in large.schema]))
    return [ipc.Table.from_arrow(each).combine() for each in (data, large, small)]


def condition(dice: random.Random):
    """A condition of ours, and the same of polars."""
    name = dice.choice(list(COLUMNS))
    dtype, values = COLUMNS[name]
    column = pl.col(name)
    literal = {value: pl.lit(value, dtype=pl.String if name == "words" else dtype) for value in values}
    kind = dice.random()
    if kind < 0.1:
        return (name, "is_null"), column.is_null()
    if kind < 0.2:
        return (name, "is_not_null"), column.is_not_null()
    if kind < 0.35:
        some = dice.sample(values, dice.randrange(1, len(values)))
        one_of = pl.any_horizontal(*[column == literal[value] for value in some])
        return dice.choice([((name, "in", some), one_of), ((name, "not in", some), ~one_of)])
    if name == "text" and kind < 0.5:
        prefix = dice.choice(["", "a", "ab", "z", "\u00fc"])
        return (name, "starts_with", prefix), column.str.starts_with(prefix)
    op = dice.choice(["==", "!="] if name == "words" else list(COMPARED))
    value = dice.choice(values)
    return (name, op, value), COMPARED[op](column, literal[value])


def predicate(dice: random.Random, depth: int):
    word = dice.choice(["and", "or", "not"])
    if depth == 0 or dice.random() < 0.3:
        return condition(dice)
    if word == "not":
        ours, theirs = predicate(dice, depth - 1)
        return ("not", ours), ~theirs
    parts = [predicate(dice, depth - 1) for _ in range(dice.randrange(1, 4))]
    theirs = parts[0][1]
    for _, each in parts[1:]:
        theirs = theirs & each if word == "and" else theirs | each
    return (word, *[ours for ours, _ in parts]), theirs


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_those_of_polars(seed, tmp_path):
    """Of a batch, a table, and a data set of files with statistics, some of which leave batches out."""
    dice = random.Random(seed)
    data = frame(dice)
    numbered = data.with_row_index("row number")
    table = ipc.Table.from_arrow(data)
    batch, *_ = batches = in_all_layouts(data)
    for start in range(0, ROWS, 50):
        with ipc.new_file(tmp_path / f"{start:03}.arrow", statistics=True, durable=False) as writer:
            writer.write_table(table.slice(start, 50), 20)
    dataset = ipc.open_dataset(tmp_path)
    for number in range(PREDICATES // 4):
        ours, theirs = predicate(dice, 3)
        expected = numbered.filter(theirs)["row number"].to_list()
        assert all(passing(ours, each) == expected for each in batches), ours
        assert passing(ours, batch.slice(3)) == [row - 3 for row in expected if row >= 3]
        assert batch.filter(ours).num_rows == table.filter(ours).num_rows == len(expected)
        if number % 5 == 0:
            found = dataset.filter(ours)
            assert found.count_rows() == len(expected), ours
            assert found.read_all().equals(table.take(expected), nan_equal=True), ours
        # What has no row that passes may be pruned, and nothing else.
        assert RowFilter(ours, batch.schema).pruner.keeps(ipc.compute_statistics(batch)) or not expected


def test_members_of_structs_and_values_behind_runs_and_dictionaries():
    runs = ipc.types.run_end_encoded("int32", "int64")
    inner = pa.array([{"b": 1}, {"b": 2}, None, {"b": 3}, {"b": None}])  # 2 lies under a null
    batch = ipc.RecordBatch.from_pydict(
        {
            "s": pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([False, True, False, False, False])),
            "r": ipc.Array.from_pylist([1, 1, None, 3, 3], runs),
            "d": ipc.Array.from_pylist(["x", None, "y", "x", "z"], ipc.types.dictionary("int8", "string")),
            "w": ipc.Array.from_pylist(
                [Decimal(10) ** 30, None, Decimal(-5), Decimal(7), Decimal(0)], ipc.types.decimal256(40)
            ),
        }
    )
    for test, expected in [
        ([("s.a.b", ">", 0)], [0, 3]),
        ([("s.a.b", "is_null")], [1, 2, 4]),
        (("not", ("s.a.b", "==", 1)), [3]),
        ([("r", "==", 3)], [3, 4]),
        ([("r", "!=", 3)], [0, 1]),
        ([("r", "is_null")], [2]),
        ([("d", "in", ["x", "z"])], [0, 3, 4]),
        ([("d", "not in", ["x"])], [2, 4]),
        ([("d", "is_not_null")], [0, 2, 3, 4]),
        ([("w", ">", 10**29)], [0]),
        ([("w", "not in", [7, 0])], [0, 2]),
    ]:
        assert passing(test, batch) == expected, test
        assert passing(test, batch[1:]) == [row - 1 for row in expected if row], test


def test_an_empty_list_of_literals_is_for_columns_of_every_type():
    for name, theirs in CASES.items():
        batch = ipc.RecordBatch.from_arrow(pa.record_batch({"x": theirs}))
        valid = batch.filter([("x", "is_not_null")]).num_rows
        assert batch.filter([("x", "in", [])]).num_rows == batch.filter([("x", "in", [None])]).num_rows == 0, name
        assert batch.filter([("x", "not in", [])]).num_rows == valid, name


#: A type, nodes and buffers of which something is wrong, and a literal.
BROKEN = {
    "offsets": ("string", [(2, 0)], [None, bytes([0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0]), b"ab"], "a"),
    "index": (ipc.types.dictionary("int8", "string"), [(2, 0)], [None, bytes([0, 7])], "a"),
    "run end": (
        *(ipc.types.run_end_encoded("int16", "int8"), [(9, 0), (1, 0), (1, 0)]),
        *([None, bytes([2, 0]), None, bytes([1])], 1),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_values_are_errors(broken):
    kind, nodes, buffers, literal = BROKEN[broken]
    words = {"dictionaries": [ipc.array(["a"], "string")]} if broken == "index" else {}
    batch = ipc.RecordBatch.from_buffers(ipc.schema({"x": kind}), nodes[0][0], nodes, buffers, **words)
    with pytest.raises(ipc.FormatError):
        batch.filter([("x", "==", literal)])


#: Numbers that columns of numbers are compared with, of any class and size.
FAR = [10**400, -(10**400), 2**64, 0.5, -1.5, math.inf, -math.inf, math.nan]
FAR += [Decimal("1E+99999999"), Decimal("-1E-99999999")]
NUMBERS = {
    "int8": [-128, 0, 127],
    "uint64": [0, 2**63, 2**64 - 1],
    "float": [-math.inf, -0.0, 0.5, math.inf],
    "double": [-math.inf, -0.0, 0.5, math.inf],
    "decimal": [Decimal("-1.5"), Decimal(0), Decimal("0.5")],
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("literal", FAR, ids=lambda value: str(value)[:12])
def test_numbers_of_any_class_compare_by_their_exact_values(kind, literal):
    """As Python compares them; NaN is above all numbers."""
    values, type_ = NUMBERS[kind], ipc.types.decimal128(9, 2) if kind == "decimal" else kind
    batch = ipc.RecordBatch.from_pydict({"x": ipc.Array.from_pylist(values, type_)})
    place = (1, 0) if literal != literal else (0, literal)
    for op, compare in COMPARED.items():
        expected = [value for value in values if compare((0, value), place)]
        test = RowFilter([("x", op, literal)], batch.schema)
        assert test.apply(batch)["x"].to_pylist() == expected, op
        rows = [batch[i : i + 1] for i in range(len(batch))]
        kept = [row for row in rows if test.pruner.keeps(ipc.compute_statistics(row))]
        assert sum(test.apply(row).num_rows for row in kept) == len(expected)


def test_decimals_of_absurd_scales_are_not_compared():
    kind = ipc.types.Decimal(5, -(2**31), 128)
    batch = ipc.RecordBatch.from_pydict({"x": ipc.Array.from_pylist([0], kind)})
    with pytest.raises(ipc.UsageError, match="column 'x': decimals of scale -2147483648 are not compared"):
        batch.filter([("x", ">", 1)])
    assert batch.filter([("x", "is_not_null")]).num_rows == 1
