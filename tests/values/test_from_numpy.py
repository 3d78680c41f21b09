"""NumPy arrays as columns: not copied where the buffer is the same, cast only without loss."""

import datetime as dt
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import address, seen_by_pyarrow
from helpers.memory import counts, more_than

import arrowipc.types as t
from arrowipc import UsageError
from arrowipc.types import DayTime, field, schema
from arrowipc.values.from_python import build_array, build_batch


def domain(kind: t.DataType) -> bool:
    """Whether pyarrow has a class for the type, and takes any number as a value of it."""
    return not isinstance(kind, (t.Time, t.Interval)) and kind != t.date64()


SAME = [
    *((np.dtype(f"i{size}"), getattr(t, f"int{8 * size}")()) for size in (1, 2, 4, 8)),
    *((np.dtype(f"u{size}"), getattr(t, f"uint{8 * size}")()) for size in (1, 2, 4, 8)),
    *((np.dtype(f"f{size}"), getattr(t, f"float{8 * size}")()) for size in (2, 4, 8)),
    *((np.dtype(f"M8[{unit}]"), t.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns")
      for zone in (None, "Europe/Berlin")),
    *((np.dtype(f"m8[{unit}]"), t.duration(unit)) for unit in ("s", "ms", "us", "ns")),
    (np.dtype("i8"), t.date64()), (np.dtype("i4"), t.date32()), (np.dtype("i4"), t.time32("ms")),
    (np.dtype("i8"), t.time64("ns")), (np.dtype("i8"), t.timestamp("s")),
    (np.dtype("i4"), t.interval_year_month()), (np.dtype("V3"), t.binary(3)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), SAME, ids=str)
def test_arrays_of_the_right_dtype_are_not_copied(dtype, kind):
    values = np.arange(300, dtype=np.uint8)[: 20 * dtype.itemsize].view(dtype)
    read_only = values.copy()
    read_only.flags.writeable = False
    for source in (values, read_only, values[3:]):
        built = build_array(source, kind)
        assert address(built.buffers()[1]) == source.__array_interface__["data"][0]
        assert built.buffers()[0] is None
        numbers = source.view(f"i{dtype.itemsize}") if dtype.kind in "mM" else source
        assert built == build_array(numbers.tolist(), kind)
        if domain(kind):
            seen_by_pyarrow(built)


def test_the_batch_keeps_the_memory_of_an_array():
    before = counts()
    values = np.arange(1000)
    batch = build_batch({"x": values, "y": values}, schema([("x", t.int64()), ("y", t.int64())]))
    with pytest.raises(ValueError, match="resize"):
        values.resize(5)
    del values
    assert batch["y"].to_pylist() == list(range(1000))
    column = batch["x"]
    del batch
    assert sum(column) == 499500
    del column
    assert not more_than(before)


@pytest.mark.parametrize(("dtype", "kind"), SAME[:-1], ids=str)
def test_swapped_strided_and_unaligned_arrays_are_copied(dtype, kind):
    values = np.arange(40).astype(dtype if dtype.kind in "iuf" else f"i{dtype.itemsize}")
    values = values.view(dtype) if dtype.kind in "mM" else values
    expected = build_array(values, kind)
    swapped = values.astype(dtype.newbyteorder())
    strided = np.repeat(values, 3)[::3]
    backwards = values[::-1].copy()[::-1]
    unaligned = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view(dtype)
    for source in (swapped, strided, backwards, unaligned):
        built = build_array(source, kind)
        assert built == expected
        assert not np.may_share_memory(np.frombuffer(built.buffers()[1], np.uint8), source) or dtype.itemsize == 1
        if domain(kind):
            seen_by_pyarrow(built)


def test_not_a_time_is_null():
    for dtype, kind in ((np.dtype("M8[us]"), t.timestamp("us")), (np.dtype("m8[ns]"), t.duration("ns")),
                        (np.dtype("M8[s]"), t.timestamp("ns")), (np.dtype("M8[D]"), t.date32()),
                        (np.dtype("M8[D]"), t.date64())):  # fmt: skip
        values = np.array([5000, "NaT", 7000], dtype)
        built = build_array(values, kind)
        assert built.null_count == 1
        assert [value is None for value in built.to_pylist()] == [False, True, False]
        assert seen_by_pyarrow(built).to_pylist() == pa.array(values).cast(seen_by_pyarrow(built).type).to_pylist()
        assert build_array(values[2:], kind).buffers()[0] is None
        with pytest.raises(UsageError, match="column 'x', row 1: is null"):
            build_batch({"x": values}, schema([field("x", kind, nullable=False)]))


def test_masked_arrays_have_nulls():
    for values, kind in (
        (np.arange(11), t.int64()), (np.arange(11), t.float64()), (np.arange(11, dtype="i2"), t.int32()),
        (np.arange(11) % 3 == 0, t.bool_()), (np.arange(11).astype("M8[s]"), t.timestamp("ms")),
        (np.arange(11).astype("U"), t.string()), (np.arange(11).astype("M8[D]"), t.date32()),
        (np.arange(11), t.decimal128(9, 2)),
        (np.arange(11).astype("M8[s]"), t.dictionary(t.int8(), t.timestamp("s"))),
    ):  # fmt: skip
        mask = np.arange(11) % 2 == 1
        built = build_array(np.ma.array(values, mask=mask), kind)
        plain = build_array(values, kind).to_pylist()
        assert built.to_pylist() == [None if mask[i] else plain[i] for i in range(11)]
        seen_by_pyarrow(built)
        assert build_array(np.ma.array(values), kind).to_pylist() == plain
    garbage = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    assert bytes(build_array(garbage, t.int64()).buffers()[1]) == struct.pack("3q", 1, 0, 3)
    with pytest.raises(UsageError, match="column 'x', row 1: is null"):
        build_batch({"x": garbage}, schema([field("x", t.int64(), nullable=False)]))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1001])
def test_booleans_are_packed(count):
    values = np.arange(count) % 3 == 0
    for source in (values, values[::-1], np.repeat(values, 2)[::2]):
        built = build_array(source, t.bool_())
        assert built.to_pylist() == source.tolist()
        if count:
            assert bytes(built.buffers()[1]) == np.packbits(source, bitorder="little").tobytes()
    # Other bytes than 0 and 1 can be made to look like booleans.
    odd = np.arange(count, dtype="u1").view(bool)
    assert build_array(odd, t.bool_()).to_pylist() == [byte != 0 for byte in odd.view("u1").tolist()]


def test_two_dimensions_are_fixed_size_lists():
    values = np.arange(24, dtype="i4").reshape(4, 6)
    built = build_array(values, t.list_(t.int32(), 6))
    assert address(built.children[0].buffers()[1]) == values.__array_interface__["data"][0]
    assert built.to_pylist() == values.tolist()
    cube = values.reshape(4, 2, 3)
    assert build_array(cube, t.list_(t.list_(t.int64(), 3), 2)).to_pylist() == cube.tolist()
    assert build_array(values.T, t.list_(t.int32(), 4)).to_pylist() == values.T.tolist()
    assert build_array(values, t.list_(t.int8())).to_pylist() == values.tolist()
    assert build_array(np.zeros((3, 0)), t.list_(t.float64(), 0)).to_pylist() == [[], [], []]
    masked = np.ma.array(values, mask=values % 5 == 0)
    assert build_array(masked, t.list_(t.int32(), 6)).to_pylist() == masked.tolist()
    times = values.astype("M8[D]")
    expected = [[dt.datetime(1970, 1, 1) + dt.timedelta(days=int(d)) for d in row] for row in values]
    assert build_array(times, t.list_(t.timestamp("us"), 6)).to_pylist() == expected
    assert build_array(times, t.list_(t.timestamp("us"))).to_pylist() == expected
    for kind, words in ((t.list_(t.int32(), 5), r"shape \(4, 5\), found \(4, 6\)"), (t.int32(), "row 0: expected")):
        with pytest.raises(UsageError, match=words):
            build_array(values, kind)
    never = np.array([[0, 1], [2, "NaT"]], "M8[s]")
    with pytest.raises(UsageError, match=r"column 'item', row 1: is null"):
        build_array(never, t.list_(field("item", t.timestamp("s"), nullable=False), 2))


def test_arrays_of_text_and_objects_go_by_their_values():
    assert build_array(np.array(["a", "é"]), t.string()).to_pylist() == ["a", "é"]
    assert build_array(np.array([b"a", b"bc"]), t.binary()).to_pylist() == [b"a", b"bc"]
    assert build_array(np.array(["a", None], object), t.large_string()).to_pylist() == ["a", None]
    assert build_array(np.array([1, None], object), t.int8()).to_pylist() == [1, None]
    if hasattr(np.dtypes, "StringDType"):
        for missing in (None, math.nan):
            words = np.array(["a", missing, "é"], np.dtypes.StringDType(na_object=missing))
            assert build_array(words, t.string_view()).to_pylist() == ["a", None, "é"]
            assert build_array(words).type == t.string()
        for empty in ("", "nothing"):  # is text, for NumPy, too
            words = np.array(["a", empty], np.dtypes.StringDType(na_object=empty))
            assert build_array(words).to_pylist() == build_array(words, t.string()).to_pylist() == ["a", empty]
        assert build_array(np.array(["a"], np.dtypes.StringDType()), t.string()).to_pylist() == ["a"]
    pairs = np.array([(1, 2), (3, 4)], [("days", "i4"), ("milliseconds", "i4")])
    assert build_array(pairs, t.interval_day_time()).to_pylist() == [DayTime(1, 2), DayTime(3, 4)]


def test_arrays_are_cast_only_without_loss():
    small = np.array([1, 2, 255], "u1")
    for kind in (t.int16(), t.int64(), t.uint32(), t.float16(), t.float64(), t.duration("s"), t.time64("us")):
        assert build_array(small, kind).to_numpy().astype("i8").tolist() == [1, 2, 255]
    for kind in (t.int8(), t.uint64(), t.float16(), t.float32()):
        assert build_array(np.ma.masked_array([1, 100, 2**60], [0, 0, 1]), kind).to_pylist() == [1, 100, None]
    assert build_array(np.array([0.1, math.inf]), t.float32()).to_pylist() == [np.float32(0.1), math.inf]
    seconds = np.array([5], "M8[s]")
    assert build_array(seconds, t.timestamp("ns")).to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 5)]
    for values, kind, words in (
        (np.array([1.0]), t.timestamp("s"), "float64 cannot become timestamp"),
        (np.array([1.0], np.longdouble), t.float64(), "cannot become double"),
        (np.array([True]), t.int8(), "bool cannot become int8"),
        (seconds, t.int64(), "cannot become int64"),
        (np.array([5], "M8[ns]"), t.timestamp("us"), "cannot become timestamp"),
        (np.array([5], "M8[ns]"), t.dictionary(t.int8(), t.timestamp("us")), "cannot become timestamp"),
        (np.array([-9223372030, -9223372040], "M8[s]"), t.timestamp("ns"), "row 1: .* lies outside the range"),
        (np.array([9223372030, 9223372040], "m8[s]"), t.duration("ns"), "row 1: .* lies outside the range"),
        (np.array([0, 2**31], "M8[D]"), t.date32(), "row 1: .* lies outside the range"),
        (np.array([1.0], np.longdouble), t.dictionary(t.int8(), t.float64()), "cannot become"),
    ):
        with pytest.raises(UsageError, match=words):
            build_array(values, kind)
    assert build_array(np.array([], "f8").astype("f4"), t.float64()).to_pylist() == []


HOURS = dt.datetime(2020, 1, 1, 5)
#: Parts of a day, as people have them.
PARTS: list[Any] = [
    [HOURS],
    [None, dt.date(2020, 1, 1), HOURS],
    [np.datetime64(HOURS)],
    [np.datetime64("2020-01-01T00:00:00.001")],
    np.array([HOURS], "M8[ms]"),
    np.array(["NaT", "2020-01-01T05"], "M8[h]"),
    np.ma.MaskedArray(np.array([HOURS, HOURS], "M8[s]"), [True, False]),
]


@pytest.mark.parametrize("kind", [t.date32(), t.date64()], ids=str)
@pytest.mark.parametrize("values", PARTS, ids=range(len(PARTS)))
def test_dates_are_whole_days(values: Any, kind: t.DataType) -> None:
    """Schema.fbs: those of milliseconds are evenly divisible by 86400000."""
    for of in (kind, t.dictionary("int8", kind), t.list_(kind))[: 3 if isinstance(values, list) else 2]:
        with pytest.raises(UsageError, match=r"whole days|part of a day|finer|without loss"):
            build_array([values] if of == t.list_(kind) else values, of)


def test_days_come_in_many_forms() -> None:
    day = dt.date(2020, 1, 1)
    midnight = dt.datetime(2020, 1, 1)
    times = [np.array([midnight], f"M8[{unit}]") for unit in ("D", "h", "s", "ms")]
    for values in ([day], [midnight], [np.datetime64(day)], [np.datetime64(midnight)], *times):
        made = seen_by_pyarrow(build_array(values, t.date64()))
        made.validate(full=True)
        assert made.to_pylist() == [day]
    assert address(build_array(times[-1], t.date64()).buffers()[1]) == times[-1].__array_interface__["data"][0]
