"""The rows that pass a filter are those that polars finds, and no batch that has one is left out, for random conditions
about columns of every type that has an order."""

import datetime as dt
import math
import operator
import random
from collections import Counter
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional
from helpers.arrays import CASES
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc.filters.pruning import Pruner
from arrowipc.filters.row_filters import RowFilter

pl = optional("polars")

ROWS = 200
PREDICATES = rounds(400, 5_000)
NOON = dt.datetime(2024, 1, 1, 12)
TICK = dt.timedelta(microseconds=1)
SECONDS = [NOON, NOON + dt.timedelta(seconds=1), NOON - dt.timedelta(days=9999)]
MOMENTS = [*SECONDS, NOON + TICK, NOON + 999 * TICK, NOON + 1000 * TICK]
#: Words around the eight bytes that are compared first, and around the 64 that statistics hold.
WORDS = ["seven77", "eight888", "eight888\0", "eight889", "eight8889", "x" * 64, "x" * 64 + "a", "x" * 63 + "éz"]
TEXTS = ["", "a", "ab", "abc", "b", "ü", "a long text of more than twelve bytes", "\U0010ffff", *WORDS]
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 2.5, math.nan, math.inf]

#: Name -> type, the values that a column and the literals have, and literals that such a column cannot have.
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "int8": (pa.int8(), [-128, -1, 0, 1, 127], [0.5, 200]),
    "uint8": (pa.uint8(), [0, 1, 200, 255], [-1]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 3, 2**53 + 1, 2**63 - 1], [float(2**53), 0.5]),
    "uint64": (pa.uint64(), [0, 5, 2**63, 2**64 - 1], []),
    "float32": (pa.float32(), [*FLOATS, float(np.float32(0.1))], [0.1, -2, 1]),
    "float64": (pa.float64(), [*FLOATS, 0.1, 2.0**53], [1, 2**53 + 1]),
    "bool": (pa.bool_(), [True, False], []),
    "text": (pa.string(), TEXTS, []),
    "large text": (pa.large_string(), TEXTS, []),
    "binary": (pa.binary(), [b"\xff", b"\xff\xff", b"a\0", *(text.encode() for text in TEXTS)], []),
    "date": (pa.date32(), [dt.date(2020, 1, 1), dt.date(1969, 12, 31), NOON.date()], [NOON]),
    "s": (pa.timestamp("s"), SECONDS, [*MOMENTS, NOON.date()]),
    "ms": (pa.timestamp("ms"), [*SECONDS, NOON + 1000 * TICK], MOMENTS),
    "us": (pa.timestamp("us"), MOMENTS, [NOON.date()]),
    "ns": (pa.timestamp("ns"), MOMENTS, [NOON.date()]),
    "zoned": (pa.timestamp("ms", "UTC"), [each.replace(tzinfo=dt.UTC) for each in SECONDS], []),
    "duration": (pa.duration("ms"), [dt.timedelta(0), dt.timedelta(seconds=-1), dt.timedelta(days=2)], [TICK]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(1, 2, 3, 4), dt.time(23, 59)], []),
    "decimal": (
        pa.decimal128(20, 2),
        [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00"), Decimal("0.10")],
        [Decimal("1.501"), 12, 0.1, -2.25],
    ),
    "words": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "zed"], []),
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


def random_rows(dice: random.Random, rows: int, few: bool = False) -> pa.RecordBatch:
    """Rows of all columns; of `few` of their values, which may all be null."""
    columns = {}
    for name, (kind, values, _) in COLUMNS.items():
        pool = [*values, None]
        pool = dice.sample(pool, dice.randint(1, len(pool))) if few else pool
        columns[name] = pa.array(dice.choices(pool, k=rows), kind)
    return pa.record_batch(columns)


def in_all_layouts(data):
    """A frame as one batch, its texts as views, and behind offsets of 64 and of 32 bits."""
    large = data.to_arrow(compat_level=pl.CompatLevel.oldest())
    narrow = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    small = large.cast(pa.schema([field.with_type(narrow.get(field.type, field.type)) for field in large.schema]))
    return [ipc.Table.from_arrow(each).combine() for each in (data, large, small)]


def condition(dice: random.Random, any_literal: bool) -> Any:
    """A condition about a column, whose literals are values of its type unless they may be any."""
    name = dice.choice(list(COLUMNS))
    _, values, others = COLUMNS[name]
    kind = dice.random()
    if kind < 0.2:
        return name, dice.choice(["is_null", "is_not_null"])
    if kind < 0.35:
        return name, dice.choice(["in", "not in"]), dice.sample(values, dice.randrange(1, len(values)))
    if "text" in name and kind < 0.5:
        return name, "starts_with", dice.choice(["", "a", "ab", "z", "ü", "eight888"])
    ops = ["==", "!="] if name == "words" and not any_literal else list(COMPARED)
    return name, dice.choice(ops), dice.choice(values + others * any_literal)


def tree(dice: random.Random, depth: int = 3, any_literal: bool = False) -> Any:
    if depth == 0 or dice.random() < 0.3:
        return condition(dice, any_literal)
    word = dice.choice(["and", "or", "not"])
    parts = [tree(dice, depth - 1, any_literal) for _ in range(1 if word == "not" else dice.randrange(1, 4))]
    is_list = word == "and" and not all(isinstance(each, list) for each in parts)
    return parts if is_list else (word, *parts)


def in_polars(test: Any, schema: Any) -> Any:
    """A filter in the words of polars."""
    word, *parts = test if isinstance(test, tuple) else ("and", *test)
    if word in ("and", "or", "not"):
        made = [in_polars(each, schema) for each in parts]
        return ~made[0] if word == "not" else reduce(operator.and_ if word == "and" else operator.or_, made)
    column, (op, *literals) = pl.col(word), parts
    if not literals:
        return getattr(column, op)()
    if op == "starts_with":
        return column.str.starts_with(literals[0])
    kind = pl.String if word == "words" else schema[word]
    given = [pl.lit(value, dtype=kind) for value in (literals[0] if "in" in op else literals)]
    if "in" in op:
        one_of = pl.any_horizontal(*[column == each for each in given])
        return one_of if op == "in" else ~one_of
    return COMPARED[op](column, given[0])


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_those_of_polars(seed, tmp_path):
    """Of a batch, a table, and a data set of files with statistics, some of which leave batches out."""
    dice = random.Random(seed)
    table = ipc.Table.from_arrow(random_rows(dice, ROWS))
    data = pl.DataFrame(table)
    numbered = data.with_row_index("row number")
    batch, *_ = batches = [table.combine(), *in_all_layouts(data)]
    for start in range(0, ROWS, 50):
        with ipc.new_file(tmp_path / f"{start:03}.arrow", statistics=True, durable=False) as writer:
            writer.write_table(table.slice(start, 50), 20)
    dataset = ipc.open_dataset(tmp_path)
    for number in range(PREDICATES // 4):
        ours = tree(dice)
        expected = numbered.filter(in_polars(ours, data.schema))["row number"].to_list()
        assert all(passing(ours, each) == expected for each in batches), ours
        assert passing(ours, batch.slice(3)) == [row - 3 for row in expected if row >= 3]
        assert batch.filter(ours).num_rows == table.filter(ours).num_rows == len(expected)
        if number % 5 == 0:
            found = dataset.filter(ours)
            assert found.count_rows() == len(expected), ours
            assert found.read_all().equals(table.take(expected), nan_equal=True), ours


@pytest.mark.campaign
def test_a_batch_with_a_row_that_passes_is_never_left_out():
    """By its statistics; the counts guard this law against a Pruner that keeps everything."""
    dice, kept = random.Random(7), Counter()
    for _ in range(rounds(300, 20_000)):
        batch = ipc.RecordBatch.from_arrow(random_rows(dice, dice.randrange(7), few=True))
        known = ipc.compute_statistics(batch)
        for _ in range(4):
            test = tree(dice, any_literal=True)
            keeps = Pruner(test, batch.schema).keeps(known)
            assert keeps or not passing(test, batch), test
            assert keeps <= Pruner(test, batch.schema, strict=False).keeps(known)
            kept[keeps] += 1
    assert min(kept[True], kept[False]) > kept.total() / 5, kept


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
    with pytest.raises(ipc.FormatError, match="column 'x'"):
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
