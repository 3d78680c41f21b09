"""Types of columns that nobody named: what pyarrow infers, or an error that says what to do."""

import datetime as dt
import enum
import uuid
import warnings
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from helpers.processes import FREE_THREADED

import arrowipc as ipc
from arrowipc import types
from arrowipc.values.inference import infer_type

UTC = dt.UTC


def nat_without_unit() -> np.timedelta64:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5
        return np.timedelta64("NaT")


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "values",
    [
        [None, dt.datetime(2020, 1, 2, tzinfo=ZoneInfo("Europe/Oslo"))],
        [dt.datetime(2020, 1, 2, tzinfo=ZoneInfo("Asia/Tokyo")), dt.datetime(2020, 1, 2, tzinfo=UTC)],
        [dt.datetime(2020, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=45), "Nepal"))],
        [uuid.UUID(int=5), None],
        [np.timedelta64(5, "s"), None],
        [np.datetime64("2020-01-01T00:00", "ms"), np.datetime64("1969-01-01T00:00", "ms")],
        [np.array([1.0, 2.0], "f4"), None, np.array([], "f4")],
        [np.array([1, 2], "i4"), np.array([3], "i8")],
        [np.array(["2020-01-01"], "M8[s]")],
        [np.array(["a"]), ["b", None]],
        [np.float32(1), None],
        [pa.MonthDayNano([1, -2, 3]), None],
        [Decimal("1e3"), Decimal("0.001")],
        [Colour.RED, 2],
        [np.float32(1.5), 2.0],
        np.arange(3, dtype="i2"),
        np.array([1.5, 2.5], "f4"),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1, 2], "m8[ns]"),
        np.array(["a", "bc"]),
        np.array(["a", None, "c"], object),
    ],
    ids=lambda values: f"{type(values).__name__} {values}"[:50],
)
def test_types_and_values_are_those_of_pyarrow(values: Any) -> None:
    batch = ipc.RecordBatch.from_pydict({"x": values})
    expected = pa.record_batch({"x": pa.array(values)})
    assert pa.record_batch(batch).equals(expected), (batch.schema, expected.schema)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, "a"], "mixed int and str: say which type"),
        ([object()], "object have no Arrow type of their own"),
        ([nat_without_unit()], "timedelta64"),
        ([np.array([1], "M8[s]"), np.array([1])], r"datetime64\[s\] and int64"),
        ([np.zeros((2, 2)), np.zeros(2)], "float64 and ndarray"),
        ([np.array(5)], "no dimension"),
        ([np.zeros(2, "c8")], "complex64"),
        ([dt.datetime(2020, 1, 1), dt.date(2020, 1, 1)], "date and datetime"),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)], "some datetimes have a time zone"),
        ([Decimal("NaN")], "the decimal NaN"),
        ([Decimal("1e80")], "81 digits"),
        ([Decimal("1" * 90 + "E-20")], "at most 76"),
        ([{"a": 1, 2: 3}], "keys of a struct"),
        ([{1: 2}], "map_"),
        ([[1], ["a"]], "int and str"),
    ],
)
def test_no_guesses(values: list[Any], said: str) -> None:
    with pytest.raises(ipc.UsageError, match=f"column 'x': .*{said}"):
        ipc.RecordBatch.from_pydict({"x": values})


def test_columns_of_other_libraries_keep_their_type() -> None:
    polars = pytest.importorskip("polars")
    columns = {"a": pa.array([1, None], pa.int8()), "b": polars.Series([[1.5], []])}
    batch = ipc.RecordBatch.from_pydict(columns)
    assert [str(field.type) for field in batch.schema] == ["int8", "large_list<item: double>"]
    assert batch.to_pydict() == {"a": [1, None], "b": [[1.5], []]}


def test_arrays_in_lists_lose_nothing() -> None:
    """pyarrow takes the dtype of the first one, and no more than one dimension."""
    half, large = np.zeros(1, "f4"), np.array([2**24 + 1])
    assert ipc.Array.from_pylist([half, large]).to_pylist() == [[0.0], [2**24 + 1]]
    matrix = ipc.Array.from_pylist([np.arange(4, dtype="i2").reshape(2, 2), None])
    assert matrix.type == types.list_(types.list_(types.int16()))
    assert matrix.to_pylist() == [[[0, 1], [2, 3]], None]
    masked = np.ma.array([1, 2], mask=[False, True])
    assert ipc.Array.from_pylist([masked]).to_pylist() == [[1, None]]


def test_times_of_numpy_get_the_finest_of_their_units() -> None:
    spans = [np.timedelta64(5, "s"), np.timedelta64(5, "ms"), np.timedelta64("NaT", "s"), nat_without_unit()]
    array = ipc.Array.from_pylist(spans)
    assert array.type == types.duration("ms")
    assert array.to_pylist() == [dt.timedelta(seconds=5), dt.timedelta(milliseconds=5), None, None]
    mixed = [np.timedelta64(5, "s"), dt.timedelta(1), None]
    assert ipc.Array.from_pylist(mixed).to_pylist() == [dt.timedelta(seconds=5), dt.timedelta(1), None]
    assert ipc.Array.from_pylist([np.datetime64("2020-01-01")]).to_pylist() == [dt.date(2020, 1, 1)]


class Nameless(dt.tzinfo):
    """A zone of somebody's own."""

    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
        assert when is not None
        return dt.timedelta(hours=1)


@pytest.mark.parametrize("zone", [dt.timezone(dt.timedelta(seconds=5)), Nameless()], ids=["seconds", "unknown"])
def test_zones_that_have_no_name_in_arrow_are_utc(zone: dt.tzinfo) -> None:
    moment = dt.datetime(2020, 1, 2, tzinfo=zone)
    array = ipc.Array.from_pylist([moment])
    assert array.type == types.timestamp("us", "UTC")
    assert array.to_pylist() == [moment]


def test_uuids_are_uuids_wherever_they_are() -> None:
    one = uuid.UUID(int=5)
    columns = {"a": [one, None], "b": [[one], None], "c": [{"d": one}, None]}
    batch = ipc.RecordBatch.from_pydict(columns)
    assert batch.to_pydict(extensions=True) == columns
    assert batch.to_pydict() == columns
    assert batch["a"].to_pylist(extensions=False) == [one.bytes, None]
    assert batch.append_column("e", [one, one])["e"].field.extension_name == "arrow.uuid"
    assert ipc.Array.from_pylist([one]).to_pylist(extensions=True) == [one]
    stored = ipc.Schema([types.field("a", types.binary(16))])
    assert ipc.RecordBatch.from_pydict({"a": [one]}, stored).to_pydict() == {"a": [one.bytes]}


def test_a_uuid_that_lies_is_refused() -> None:
    class Liar(uuid.UUID):
        @property
        def bytes(self) -> Any:
            return self

    with pytest.raises(ipc.UsageError, match="exactly 16 bytes"):
        ipc.Array.from_pylist([Liar(int=1)])


def test_intervals_of_ours_come_back() -> None:
    kinds = {"a": pa.array([(1, 2, 3), None], pa.month_day_nano_interval())}
    batch = ipc.RecordBatch.from_arrow(pa.record_batch(kinds))
    assert ipc.RecordBatch.from_pydict(batch.to_pydict()) == batch
    days = ipc.Array.from_pylist([(1, 2)], types.interval_day_time())
    assert ipc.Array.from_pylist(days.to_pylist()) == days


def test_arrays_keep_their_extension_type() -> None:
    schema = ipc.Schema([types.field("x", types.utf8(), metadata={"ARROW:extension:name": "arrow.json", "k": "v"})])
    array = ipc.RecordBatch.from_pydict({"x": ["1"]}, schema)["x"]
    for found in (ipc.RecordBatch.from_pydict({"y": array}), ipc.RecordBatch().append_column("y", array.slice(1))):
        assert found.schema["y"].metadata == {b"ARROW:extension:name": b"arrow.json"}


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ipc.UsageError, match="64 levels"):
        infer_type(endless)


class Odd(dict[str, Any]):
    """A dict of a class of its own."""


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([Colour.RED, 2**63, None], types.uint64()),
        ([np.uint64(2**63), 1], types.uint64()),
        ([-(2**63), np.int64(1)], types.int64()),
        ([Decimal("0E+3"), Decimal("-0.00"), None], types.decimal128(6, 2)),
        ([{"a": 1}, Odd(b="x"), None, {"b": None}], types.struct({"a": types.int64(), "b": types.utf8()})),
        ([(1,), [2.5], None], types.list_(types.float64())),
    ],
    ids=str,
)
def test_classes_that_stand_for_others(values: list[Any], kind: types.DataType) -> None:
    assert infer_type(values) == infer_type(tuple(values)) == kind


def test_a_class_whose_hash_changes_the_list() -> None:
    values: list[Any] = [1]

    class Nosy(type):
        def __hash__(cls) -> int:
            values.clear()
            return 1

    values += [Nosy("Thing", (int,), {})(3), 2.5]
    # Without a GIL, a copy is read.
    assert infer_type(values) == (types.float64() if FREE_THREADED else types.int64())
