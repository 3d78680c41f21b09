"""Pruning by statistics: batches in which no row can pass a filter are left out (tests/laws say: and no others)."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.filters.pruning import MOST_CONDITIONS, MOST_LITERALS, MOST_NESTED, Pruner
from arrowipc.types import decimal256, field, int64, struct

pd = optional("pandas")

UTC = dt.UTC
DAY = dt.datetime(2024, 1, 1)


def keeps(filter_: Any, array: pa.Array | list[Any]) -> bool:
    batch = ipc.RecordBatch.from_arrow(pa.record_batch({"x": array}))
    return Pruner(filter_, batch.schema).keeps(ipc.compute_statistics(batch))


SOME = [3, None, 7]
WORDS = ["berlin", "bonn", None]
TIMES = pa.array([DAY, DAY + dt.timedelta(days=1)], pa.timestamp("ms"))
ZONED = pa.array([DAY], pa.timestamp("us", "Asia/Tokyo"))


@pytest.mark.parametrize(
    ("filter_", "array", "kept"),
    [
        ([("x", ">", 3), ("x", "<", 3)], SOME, False),
        ([[("x", ">", 7)], [("x", "<", 3), ("x", ">", 0)]], SOME, False),
        (("or", ("x", ">", 7), [("x", "<", 3)]), SOME, False),
        (("not", ("x", ">", 2)), SOME, False),
        (("not", ("or", ("x", ">", 2), ("x", "<", 0))), SOME, False),
        (("x", "in", [1, 2, 8]), SOME, False),
        (("x", "in", []), SOME, False),
        (("x", "in", [None]), SOME, True),
        (("x", "in", np.array([1, 2])), SOME, False),
        (("x", "not in", [5]), [5, 5], False),
        (("x", "not in", [5]), [5, None], True),  # by the rules of some libraries null passes
        (("x", "is_null"), [1], False),
        (("x", "is_valid"), [None], False),
        (("x", "<", Decimal("2.5")), SOME, False),
        (("x", "<", np.float32(2.5)), SOME, False),
        (("not", ("x", ">", 9.0)), [10.0, 11.0], False),
        (("not", ("x", ">", 1.0)), [5.0, float("nan")], True),  # for some, NaN compares with nothing
        (("not", ("x", "starts_with", "b")), WORDS, False),
        (("x", "==", "a"), pa.array(WORDS).dictionary_encode(), False),
        (("x", "==", np.str_("bonn")), WORDS, True),
        (("x", ">=", "2024-01-03"), TIMES, False),
        (("x", ">=", "2024-01-02T00:00:01"), TIMES, False),
        (("x", ">", DAY.date() + dt.timedelta(days=1)), TIMES, False),
        (("x", ">", np.datetime64("2024-01-02T00:00:00.000000001", "ns")), TIMES, False),
        (("x", ">", pd.Timestamp("2024-01-03")), TIMES, False),
        (("x", ">", DAY.replace(tzinfo=UTC)), ZONED, False),
        (("x", "==", "2024-01-01T09:00:00+09:00"), ZONED, True),
        (("x", ">", dt.time(1)), pa.array([dt.time(0, 59)], pa.time32("s")), False),
        (("x", ">", dt.timedelta(hours=1)), pa.array([dt.timedelta(minutes=59)], pa.duration("ns")), False),
        (("x", "==", Decimal("15")), pa.array([Decimal("1.5")], pa.decimal256(10, 3)), False),
        (("x", ">", Decimal("1e1000")), pa.array([Decimal("1.5")]), False),
        (("x", "==", 2**64), pa.array([2**64 - 1], pa.uint64()), False),
        (("x", "==", b"\xff"), [b"a"], False),
        (("x", "==", False), [True, None], False),
        (("x.a", ">", 1), [{"a": 1}, None], False),
        (("x.a", "is_null"), [{"a": 1}, None], True),
        (("x", "is_null"), [[1], None], True),
        ([], SOME, True),
        (None, SOME, True),
        (("x", ">", 0), pa.array([], pa.int64()), False),
    ],
    ids=str,
)
def test_a_filter(filter_, array, kept):
    assert keeps(filter_, array) is kept


@pytest.mark.parametrize(
    ("filter_", "array", "words"),
    [
        (("y", ">", 1), SOME, "no column is called 'y'; there are 'x'"),
        (("x.b", ">", 1), [{"a": 1}], "no column is called 'x.b'"),
        (("x", "~", 1), SOME, "expected one of the operators <, >="),
        (("x", ">"), SOME, "takes one literal"),
        (("x", "is_null", 1), SOME, "takes no literal"),
        (("x", ">", "1"), SOME, r"column 'x' \(int64\) cannot be compared with '1' \(str\): expected a number"),
        (("x", ">", None), SOME, "cannot be compared with None"),
        (("x", "==", 1), WORDS, "expected text"),
        (("x", "==", "\ud800"), WORDS, "cannot be compared"),
        (("x", "in", "abc"), WORDS, "take a list, found str"),
        (("x", "starts_with", 3), SOME, "starts_with is for text and binary"),
        (("x", ">", 1), [[1]], r"column 'x' \(list<item: int64>\) .*only is_null and is_not_null"),
        (("x", ">", DAY), ZONED, "has a time zone, the literal none"),
        (("x", ">", DAY.replace(tzinfo=UTC)), TIMES, "has no time zone, the literal one"),
        (("x", ">", "yesterday"), TIMES, "Invalid isoformat"),
        (("x", ">", pd.NaT), TIMES, "cannot be compared with NaT"),
        (("x", ">", np.datetime64("2024", "Y")), TIMES, "no fixed length"),
        (("x", ">", dt.time(1, tzinfo=UTC)), pa.array([dt.time(0)]), "without a zone"),
        ("x > 3", SOME, "expected conditions such as"),
        (("not", ("x", "is_null"), ("x", "is_null")), SOME, "has one condition, found 2"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(filter_, array, words):
    with pytest.raises(UsageError, match=words):
        keeps(filter_, array)


def test_filters_are_bounded():
    deep: Any = ("x", ">", 1)
    for _ in range(MOST_NESTED + 1):
        deep = ("not", deep)
    with pytest.raises(UsageError, match="nested more than"):
        keeps(deep, SOME)
    with pytest.raises(UsageError, match="more than"):
        keeps([("x", ">", 1)] * (MOST_CONDITIONS + 1), SOME)
    with pytest.raises(UsageError, match="literals"):
        keeps(("x", "in", range(MOST_LITERALS + 1)), SOME)
    assert not keeps(("x", "in", range(100, 100_100)), SOME)


def test_keys_of_a_whole_file():
    schema = ipc.Schema([field("year", int64()), field("x", int64())])
    pruner = Pruner([("year", ">=", 2024), ("x", ">", 3)], schema)
    assert pruner.columns == ("year", "x")
    assert pruner.keeps(None, {"year": 2024})
    assert not pruner.keeps(None, {"year": 2023})
    assert not pruner.keeps(None, {"year": None})
    assert pruner.keeps(None, {}), "nothing is known"
    known = ipc.compute_statistics(ipc.RecordBatch.from_pydict({"x": [1, 2]}))
    either = Pruner(("or", ("year", "==", 2024), ("x", ">", 3)), schema)
    assert not either.keeps(known, {"year": 2023})
    assert either.keeps(known, {"year": 2024})
    assert either.keeps(known)


def test_columns_that_are_not_there_rule_nothing_out_where_that_is_wanted():
    schema = ipc.Schema([field("x", int64())])
    known = ipc.compute_statistics(ipc.RecordBatch.from_pydict({"x": [1, 2]}))
    assert Pruner(("y", ">", 3), schema, strict=False).keeps(known)
    assert Pruner(("not", ("y", ">", 3)), schema, strict=False).keeps(known)
    assert Pruner(("x", ">", "a"), schema, strict=False).keeps(known)
    assert not Pruner([("y", ">", 3), ("x", ">", 3)], schema, strict=False).keeps(known)


def test_a_path_that_means_two_columns():
    schema = ipc.Schema([field("a", struct([field("b", int64())])), field("a.b", int64())])
    with pytest.raises(UsageError, match=r"2 columns are called 'a\.b'"):
        Pruner(("a.b", ">", 1), schema)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (("d", "==", 1.1), ["1.10"]),
        (("d", "<", 1.1), []),
        (("d", ">", 1.1), ["1.20"]),
        (("d", "in", [1.2, 7.0]), ["1.20"]),
    ],
)
def test_a_float_beside_decimals_means_what_it_shows(condition, found):
    """1.1 is no binary fraction; pyarrow and polars compare it as a decimal, too."""
    table = ipc.table({"d": [Decimal("1.10"), Decimal("1.20")]})
    assert [str(each) for each in table.filter([condition])["d"]] == found


def test_decimals_of_a_scale_that_nobody_can_spell():
    for scale in (2**31 - 1, -(2**31), 1000, -1000):
        schema = ipc.Schema([field("x", decimal256(76, scale))])
        known = {"x": ipc.ColumnStatistics(3, 0, -(10**75), 10**75)}
        for literal in (1, 0.5, Decimal("1e900"), Decimal("-1e-900")):
            kept = Pruner(("x", "==", literal), schema).keeps(known)
            assert kept or abs(scale) <= 1000


def test_bounds_of_another_kind_than_the_column_rule_nothing_out():
    schema = ipc.Schema([field("x", int64())])
    for low, high in (("a", "b"), (0.5, 0.6), (True, True), (None, None), (b"a", None)):
        known = {"x": ipc.ColumnStatistics(3, 0, low, high)}
        assert Pruner(("x", ">", 9), schema).keeps(known)
    assert not Pruner(("x", ">", 9), schema).keeps({"x": ipc.ColumnStatistics(3, 3, None, None)})
