"""To and from libraries by name: the objects that their users expect, with pyarrow and without it (issue 23)."""

import datetime as dt
import io
import sys
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional
from helpers.arrays import ipc_bytes, read_batch

import arrowipc as ipc
from arrowipc import UsageError

pd = optional("pandas")
pl = optional("polars")

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


def test_frames_of_an_old_polars_and_an_old_pandas_are_refused_with_what_to_do(monkeypatch):
    # polars before 1.3 and pandas before 2.2 have no PyCapsules.
    for frame in (pd.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 2]})):
        monkeypatch.delattr(type(frame), "__arrow_c_stream__")
        for taking in (ipc.RecordBatch.from_arrow, ipc.Table.from_arrow):
            with pytest.raises(UsageError, match=r"Table.from_pandas\(frame\), frame.to_arrow\(\)"):
                taking(frame)
    assert ipc.open(ipc_bytes(frame)).read_all().to_pydict() == {"a": [1, 2]}  # `to_arrow` makes what has them


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(12, 2)], ids=str)
def test_polars_gets_the_numbers_of_narrow_decimals(kind):
    plain = pa.array([Decimal("10.20"), None, Decimal("-3.50")], kind)
    lists = pa.ListArray.from_arrays([0, 2, 3], plain)
    for column in (
        plain,
        lists,
        pa.StructArray.from_arrays([plain], ["s"]),
        pa.DictionaryArray.from_arrays([1, 0, None], plain),
        pa.DictionaryArray.from_arrays([1, 0, None], lists),
    ):
        table = ipc.table(pa.table({"n": range(len(column)), "x": column}))
        for found in (table.to_polars()["x"], table["x"].to_polars(), table["x"].chunk(0).to_polars()):
            assert found.name == "x"
            assert found.to_list() == column.to_pylist()


@pytest.mark.parametrize("name", ["Int128", "UInt128"])
def test_integers_of_polars_that_arrow_lacks_are_refused_with_what_to_do(name):
    kind = getattr(pl, name, None) or pytest.skip(f"this polars has no {name}")
    big = pl.Series("big", [1, 2**100], dtype=kind)
    for frame in (
        big.to_frame(),
        pl.DataFrame({"a": [[2**100]]}, {"a": pl.List(kind)}),
        big.to_frame("st").select(pl.struct("st")),
    ):
        given_schema = partial(ipc_bytes, schema={"x": "int64"})
        for call in (given_schema, ipc.Table.from_arrow, ipc.RecordBatch.from_arrow):
            with pytest.raises(ipc.UnsupportedError, match=r"integers of 128 bits .* pl.Int64 or pl.Decimal\(38, 0\)"):
                call(frame)
    with pytest.raises(ipc.UnsupportedError, match="integers of 128 bits"):
        ipc.RecordBatch.from_pydict({"big": big})


def test_python_objects_in_polars_are_refused_and_not_written_as_addresses():
    things = pl.Series("things", [object()], dtype=pl.Object)
    for call in (ipc_bytes, ipc.Table.from_arrow, ipc.RecordBatch.from_arrow):
        with pytest.raises(ipc.UnsupportedError, match=r"'things' .*Python objects"):
            call(things.to_frame())
    with pytest.raises(ipc.UnsupportedError, match="Python objects"):
        ipc.RecordBatch.from_pydict({"things": things})


EVERY_TYPE_OF_POLARS = {
    "enum": pl.Series(["a", None], dtype=pl.Enum(["b", "a"])),
    "categorical": pl.Series(["a", None], dtype=pl.Categorical),
    "list of categorical": pl.Series([["a", None], None], dtype=pl.List(pl.Categorical)),
    "decimal": pl.Series([Decimal("1.23"), None]),
    "widest decimal": pl.Series([Decimal("1" * 38), None], dtype=pl.Decimal(38, 0)),
    "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
    "array of arrays": pl.Series([[[1], [2]], None], dtype=pl.Array(pl.Array(pl.Int64, 1), 2)),
    "struct": pl.Series([{"a": 1, "b": "x"}, None]),
    "null": pl.Series([None, None]),
    "time": pl.Series([dt.time(1, 2, 3), None]),
    "duration": pl.Series([dt.timedelta(1), None]),
    "zone": pl.Series([MOMENT, None], dtype=pl.Datetime("ns", "Europe/Oslo")),
    "binary": pl.Series([b"x", None]),
    **({"half": pl.Series([1.5, None], dtype=pl.Float16)} if hasattr(pl, "Float16") else {}),
}


@pytest.mark.parametrize("name", EVERY_TYPE_OF_POLARS)
def test_every_type_of_polars_comes_back_as_it_was(name):
    frame = EVERY_TYPE_OF_POLARS[name].alias("c").to_frame()
    frame.write_ipc_stream(theirs := io.BytesIO())
    for data in (ipc_bytes(frame), theirs.getvalue()):
        found = ipc.open(data).read_all().to_polars()
        assert found.equals(frame)
        assert found.schema == frame.schema


def test_records_both_ways():
    made = np.array([(1, 1.5, b"ab"), (2, 2.5, b"cd")], [("x", "<i4"), ("y", "<f8"), ("z", "S2")])
    batch = ipc.RecordBatch.from_records(made)
    assert batch.to_pydict() == {"x": [1, 2], "y": [1.5, 2.5], "z": [b"ab", b"cd"]}
    back = batch.select(["x", "y"]).to_records()
    assert back.dtype.names == ("x", "y")
    assert back["x"].tolist() == [1, 2]
    assert TABLE.to_records()["t"].tolist() == ["a", None, "c", None, "c"]
    assert TABLE.slice(0, 0).to_records().shape == (0,)
    assert ipc.record_batch([[1]], names=[""]).to_records().tolist() == [(1,)]
    with pytest.raises(UsageError, match=r"two columns are named 'a': rename"):
        ipc.record_batch([[1], [2]], names=["a", "a"]).to_records()
    with pytest.raises(UsageError, match=r"two columns are named 'f0': rename"):
        ipc.record_batch([[1], [2]], names=["", "f0"]).to_records()
    for wrong in (np.arange(3), np.zeros((2, 2), made.dtype)):
        with pytest.raises(UsageError, match="structured array"):
            ipc.RecordBatch.from_records(wrong)


def test_records_of_batches_of_which_some_have_nulls():
    kinds = {
        "pair": ipc.types.list_(ipc.types.int8(), 2),
        "coded": ipc.dictionary(ipc.types.int8(), ipc.types.list_(ipc.types.int8(), 2)),
        "lists": ipc.types.list_(ipc.types.int8()),
        "bool": ipc.types.bool_(),
    }
    values = {"pair": [[1, 2], [3, 4], None], "coded": [[1, 2], [3, 4], None], "lists": [[1], [], None]}
    values["bool"] = [True, False, None]
    whole = ipc.record_batch(values, schema=kinds)
    table = ipc.Table.from_batches([whole[:1], whole[1:], whole[:0]])
    for name in kinds:
        found = [None if each is None else np.asarray(each).tolist() for each in table.to_records()[name]]
        assert found == values[name]


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
