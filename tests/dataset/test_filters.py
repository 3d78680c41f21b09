"""Conditions as text: read as the types of their columns say, and the rows that meet them."""

from __future__ import annotations

import datetime as dt
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
    "coded": (
        dictionary(int32(), utf8()),
        ["a", "b c", None, "d,e"],
        {"= a": [0], "not in a": [1, 3], "IN (a)": [0], "in a, 'b c' ,\"d,e\"": [0, 1, 3], "IS NOT NULL": [0, 1, 3]},
    ),
    "a b": (float64(), [1.0, 2000.0], {"< 1e3": [0]}),
    "within": (utf8(), ["x>=y", "within"], {"= x>=y": [0], "in within": [1]}),
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
