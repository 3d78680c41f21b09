"""To and from libraries by name: the objects that their users expect, with pyarrow and without it (issue 23)."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.arrays import CASES, read_batch

import arrowipc as ipc
from arrowipc import UsageError

MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3)
ROWS = pa.record_batch(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "f": pa.array([1.5, None, 2.5]),
        "b": pa.array([True, None, False]),
        "t": pa.array(["a", None, "c"]),
        "d": pa.array(["x", None, "x"]).dictionary_encode(),
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
        "zone": pa.array([MOMENT, None, MOMENT], pa.timestamp("ms", "Europe/Berlin")),
        "m": pa.array([Decimal("1.50"), None, Decimal("2.00")]),
        "l": pa.array([[1], None, []]),
    }
)
OURS = read_batch(ROWS)
TABLE = ipc.Table.from_batches([OURS, OURS[1:]])


@pytest.mark.parametrize("name", CASES)
def test_pyarrow_gets_what_the_capsules_hand_over(name):
    batch = read_batch(pa.record_batch({"x": CASES[name]}))
    assert batch.to_arrow().schema.equals(pa.record_batch(batch).schema)
    assert isinstance(batch.to_arrow(), pa.RecordBatch)
    assert isinstance(ipc.Table.from_batches([batch]).to_arrow(), pa.Table)
    assert batch["x"].to_arrow().type == pa.array(batch["x"]).type


def test_polars_and_pandas_get_frames_and_series():
    assert TABLE.to_polars().equals(pl.DataFrame(TABLE))
    assert OURS["t"].to_polars().to_list() == ["a", None, "c"]
    assert OURS["t"].to_polars().name == "t"
    expected = pa.table(TABLE).to_pandas()
    pd.testing.assert_frame_equal(TABLE.to_pandas(), expected)
    pd.testing.assert_frame_equal(OURS.to_pandas(), ROWS.to_pandas())
    assert OURS["i"].to_pandas().tolist()[0] == 1
    assert TABLE.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)["i"].dtype == "Int32"
    with ipc.open(OURS.schema.serialize() + OURS.select(["i", "t"]).schema.serialize()[:0]) as reader:
        assert list(reader.read_pandas().columns) == ROWS.schema.names


def test_pandas_frames_come_back():
    frame = ROWS.to_pandas()
    for made in (ipc.RecordBatch.from_pandas(frame), ipc.Table.from_pandas(frame)):
        pd.testing.assert_frame_equal(made.to_pandas(), frame)
    assert ipc.RecordBatch.from_pandas(frame[:0]).num_rows == 0
    indexed = frame.set_index("t")
    assert "t" in ipc.RecordBatch.from_pandas(indexed).schema.names
    assert "t" not in ipc.Table.from_pandas(indexed, preserve_index=False).schema.names


def test_records_both_ways():
    made = np.array([(1, 1.5, b"ab"), (2, 2.5, b"cd")], [("x", "<i4"), ("y", "<f8"), ("z", "S2")])
    batch = ipc.RecordBatch.from_records(made)
    assert batch.to_pydict() == {"x": [1, 2], "y": [1.5, 2.5], "z": [b"ab", b"cd"]}
    back = batch.select(["x", "y"]).to_records()
    assert back.dtype.names == ("x", "y")
    assert back["x"].tolist() == [1, 2]
    assert TABLE.to_records()["t"].tolist() == ["a", None, "c", None, "c"]
    assert TABLE.slice(0, 0).to_records().shape == (0,)
    for wrong in (np.arange(3), np.zeros((2, 2), made.dtype)):
        with pytest.raises(UsageError, match="structured array"):
            ipc.RecordBatch.from_records(wrong)


@pytest.mark.parametrize("data", [OURS, TABLE])
def test_narwhals_and_altair_take_ours(data):
    altair, narwhals = pytest.importorskip("altair"), pytest.importorskip("narwhals")
    assert narwhals.from_native(data).select("i", "t").shape == (len(data), 2)
    chart = altair.Chart(data.select(["i", "t"])).mark_bar().encode(x="i:Q").to_dict()
    assert [row["t"] for row in next(iter(chart["datasets"].values()))] == data.select("t").to_pydict()["t"]


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match="pip install polars"):
        OURS.to_polars()
