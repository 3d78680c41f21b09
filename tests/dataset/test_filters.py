"""Conditions as text: read as the types of their columns say, and the rows that meet them."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any

import pytest

import arrowipc as ipc
from arrowipc.dataset.filters import from_text, rows_passing
from arrowipc.types import bool_, date32, decimal128, dictionary, field, float64, int32, struct, timestamp, utf8

VALUES: dict[str, tuple[Any, list[Any], dict[str, list[int]]]] = {
    "whole": (int32(), [1, None, 3, -2], {"> 0": [0, 2], "!= 3": [0, 3], "< 4294967296": [0, 2, 3], "in 1,3": [0, 2]}),
    "real": (float64(), [1.5, None, -0.0, 2.0], {"= 0": [2], "not in 1.5": [2, 3], "is null": [1]}),
    "text": (utf8(), ["a", None, "", "z"], {">= a": [0, 3], "is not null": [0, 2, 3], "= ''": [2]}),
    "coded": (dictionary(int32(), utf8()), ["a", "b", None, "a"], {"= a": [0, 3], "not in a": [1]}),
    "day": (date32(), [dt.date(2024, 1, 1), None, dt.date(2024, 2, 1), dt.date(1999, 1, 1)], {"> 2023-12-31": [0, 2]}),
    "at": (
        timestamp("us", "Europe/Oslo"),
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None, dt.datetime(2024, 1, 2, tzinfo=dt.UTC), None],
        {"<= 2024-01-01": [0], "> 2024-01-01T12:00": [2]},
    ),
    "fee": (decimal128(5, 2), [Decimal("1.25"), None, Decimal("3.00"), Decimal("-1.00")], {"> 1.2499": [0, 2]}),
    "ok": (bool_(), [True, None, False, True], {"= true": [0, 3], "!= true": [2]}),
    "place": (struct([field("x", int32())]), [{"x": 1}, None, {"x": None}, {"x": 5}], {".x >= 1": [0, 3]}),
}


@pytest.mark.parametrize("name", VALUES)
def test_exactly_the_rows_pass_that_meet_a_condition(name):
    kind, values, cases = VALUES[name]
    schema = ipc.Schema([field(name, kind)])
    batch = ipc.RecordBatch.from_pydict({name: values}, schema)
    for text, expected in cases.items():
        conditions = from_text([f"{name}{'' if text[0] == '.' else ' '}{text}"], schema)
        assert rows_passing(conditions, batch).tolist() == expected, text
        assert rows_passing(conditions, batch.slice(0, 0)).tolist() == []



def test_conditions_are_read_as_the_types_of_their_columns_say():
    schema = ipc.Schema(
        [
            field("n", int32()),
            field("a b", float64()),
            field("t", timestamp("us")),
            field("day", date32()),
            field("zoned", timestamp("ns", "Europe/Oslo")),
            field("place", struct([field("a", struct([field("b", int32())]))])),
            field("ok", bool_()),
            field("fee", decimal128(5, 2)),
            field("kind", dictionary(int32(), utf8())),
            field("within", utf8()),
        ]
    )
    for text, expected in {
        "n>=3": ("n", ">=", 3),
        " n != -3 ": ("n", "!=", -3),
        "n == 3": ("n", "==", 3),
        '"a b" < 1e3': ("a b", "<", 1000.0),
        "a b < 1": ("a b", "<", 1.0),
        "t>=2024-01-01": ("t", ">=", dt.datetime(2024, 1, 1)),
        "zoned < 2024-01-01": ("zoned", "<", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        "place.a.b > 3": ("place.a.b", ">", 3),
        "t <= 2024-01-01T10:30": ("t", "<=", dt.datetime(2024, 1, 1, 10, 30)),
        "day = 2024-02-29": ("day", "==", dt.date(2024, 2, 29)),
        "ok = TRUE": ("ok", "==", True),
        "fee > 1.25": ("fee", ">", Decimal("1.25")),
        "kind in a, 'b c' ,\"d,e\"": ("kind", "in", ["a", "b c", "d,e"]),
        "kind IN (x)": ("kind", "in", ["x"]),
        "kind not in x,y": ("kind", "not in", ["x", "y"]),
        "within = x>=y": ("within", "==", "x>=y"),
        "within in within": ("within", "in", ["within"]),
        "n is null": ("n", "is_null"),
        '"a b" IS NOT NULL': ("a b", "is_not_null"),
        "kind = ' x '": ("kind", "==", " x "),
    }.items():
        assert from_text([text], schema) == [expected], text
