"""Arrays as NumPy arrays: views where the buffers are one, the same values everywhere else."""

import datetime as dt
import itertools
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import CASES, FORMS, ipc_bytes, pyarrow_bytes, read_array, read_batch
from helpers.forge import bits, i32, i64
from helpers.memory import counts, more_than

import arrowipc as ipc
from arrowipc import UsageError

NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
VIEWED = {
    **{str(kind): (pa.array([1, 0, 3], kind), kind.to_pandas_dtype()) for kind in (*NUMBERS, *FLOATS)},
    **{f"timestamp {u}": (pa.array([1, -2, 3]).view(pa.timestamp(u)), f"<M8[{u}]") for u in ("s", "ms", "us", "ns")},
    **{f"duration {u}": (pa.array([1, -2, 3]).view(pa.duration(u)), f"<m8[{u}]") for u in ("s", "ms", "us", "ns")},
    "timestamp with zone": (pa.array([1, -2, 3]).view(pa.timestamp("s", "Asia/Tokyo")), "<M8[s]"),
    "date64": (pa.array([0, 86400000]).view(pa.date64()), "<M8[ms]"),
    "time32": (pa.array([0, 5], pa.int32()).view(pa.time32("ms")), "<i4"),
    "time64": (pa.array([0, 5]).view(pa.time64("ns")), "<i8"),
    "month_day_nano": (
        pa.array([(1, 2, 3), (-1, -2, -3)], pa.month_day_nano_interval()),
        [("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")],
    ),
    "decimal128": (pa.array([Decimal("1.5"), Decimal("-2.5")], pa.decimal128(5, 1)), "V16"),
    "decimal64": (pa.array([Decimal("1.5")], pa.decimal64(5, 1)), "V8"),
    "fixed_size_binary": (pa.array([b"abc", b"def"], pa.binary(3)), "V3"),
    "fixed_size_binary of nothing": (pa.array([b"", b""], pa.binary(0)), "V0"),
    "empty": (pa.array([], pa.int32()), "<i4"),
}


@pytest.mark.parametrize("name", VIEWED)
def test_views(name):
    array, dtype = VIEWED[name]
    batch_ = read_batch(pa.record_batch([array], names=["x"]))
    for found, expected in (
        (batch_.column(0), array),
        (batch_.column(0)[1:], array[1:]),
        (batch_.slice(1).column(0), array[1:]),
    ):
        values = found.to_numpy()
        assert values.dtype == np.dtype(dtype)
        assert values.shape == (len(expected),)
        assert not values.flags.writeable
        width = values.dtype.itemsize
        stored = b"" if not width else bytes(found.buffers()[1])
        assert values.tobytes() == stored[found.offset * width : (found.offset + len(found)) * width]
        if name != "time64":  # whose nanoseconds Python's times do not hold
            copied = found.to_numpy(writable=True)
            assert copied.flags.writeable
            assert not np.shares_memory(values, copied)


def test_views_share_the_memory_and_keep_it():
    before = counts()
    found = read_batch(pa.record_batch({"x": list(range(1000))}))
    values = found.column(0)[10:].to_numpy()
    assert np.shares_memory(values, np.frombuffer(found.column(0).buffers()[1], np.uint8))
    del found
    assert values.sum() == sum(range(10, 1000))
    assert more_than(before)
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1
    del values
    assert not more_than(before)


def test_fixed_size_lists_are_matrices():
    array = pa.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], pa.list_(pa.float32(), 3))
    found = read_array(array)
    assert found.to_numpy().tolist() == array.to_pylist()
    assert found[1:].to_numpy().tolist() == array.to_pylist()[1:]
    assert np.shares_memory(found.to_numpy(), np.frombuffer(found.children[0].buffers()[1], np.uint8))
    deep = pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int16(), 2), 2))
    assert read_array(deep)[1:].to_numpy().tolist() == [[[5, 6], [7, 8]]]
    assert read_array(pa.array([[], []], pa.list_(pa.int8(), 0))).to_numpy().shape == (2, 0)
    assert read_array(pa.array([], pa.list_(pa.int8(), 4))).to_numpy().shape == (0, 4)
    gaps = read_array(pa.array([[1, None], [3, 4]], pa.list_(pa.int8(), 2)))
    with pytest.raises(UsageError, match="copy=True"):
        gaps.to_numpy()
    np.testing.assert_array_equal(gaps.to_numpy(copy=True), [[1, np.nan], [3, 4]])
    rows = read_array(pa.array([[1, 2], None], pa.list_(pa.int8(), 2)))
    first, second = rows.to_numpy(copy=True)
    assert (first.tolist(), second) == ([1, 2], None)


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_view_says_so(name):
    array = read_array(CASES[name])
    with pytest.raises(UsageError, match="copy=True"):
        array.to_numpy()
    if name.startswith(("bool", "date32", "string", "list", "struct", "dictionary")):
        with pytest.raises(UsageError, match=f"an array of {re.escape(str(array.type))} needs a copy"):
            array[:1].to_numpy()  # where nothing is null


def as_values(values):
    """What NumPy holds, with None for its nulls."""
    if isinstance(values, np.ndarray | list):
        return [as_values(each) for each in values]
    values = values.item() if isinstance(values, np.generic) else values
    return None if values is None or values != values else values


#: Types of which pyarrow makes no arrays, or arrays of other values: 1.0 for 1 where a neighbour is null.
OTHERWISE = (
    "fixed_size_list",
    "list_view",
    "struct",
    "map",
    "sparse_union",
    "dense_union",
    "dictionary_lists",
    "run_end",
)


@pytest.mark.parametrize("name", CASES)
def test_copies_have_the_values_and_the_dtype_that_pyarrow_gives(name):
    for part in (slice(None), slice(0, 1), slice(1, None), slice(1, 3), slice(0, 0)):
        array, theirs = read_array(CASES[name])[part], CASES[name][part]
        found = array.to_numpy(copy=True)
        assert found.flags.writeable
        assert found.shape[0] == len(array)
        if name.startswith(OTHERWISE):
            assert as_values(found) == array.to_pylist()
            continue
        expected = theirs.to_numpy(zero_copy_only=False)
        assert found.dtype == expected.dtype
        assert list(map(type, found)) == list(map(type, expected))
        assert as_values(found) == as_values(expected)


def test_encoded_values_are_decoded():
    words = pa.array([5.0, None, 7.0])
    array = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1], pa.uint8()), words)
    np.testing.assert_array_equal(read_array(array).to_numpy(copy=True), [7, 5, np.nan, np.nan])
    moments = pa.array([0, None, 5]).view(pa.timestamp("s")).dictionary_encode()
    np.testing.assert_array_equal(read_array(moments).to_numpy(copy=True), np.array([0, "NaT", 5], "M8[s]"))
    none = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.float32()))
    assert np.isnan(read_array(none).to_numpy(copy=True)).all()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], pa.int16()), pa.array([1, None, 3], pa.int8()))
    expected = np.array([1, 1, np.nan, 3, 3, 3, 3])
    array = read_array(runs)
    for start in range(8):
        for stop in range(start, 8):
            np.testing.assert_array_equal(array[start:stop].to_numpy(copy=True), expected[start:stop])


def test_run_ends_that_fall_behind_the_rows_are_refused():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([11, 22, 33], pa.int32()), pa.array([1, 2, 3]))
    damaged = pyarrow_bytes(pa.record_batch([runs], ["r"])).replace(i32(11, 22, 33), i32(11, 5, 0))
    (found,) = ipc.open_stream(damaged, validate="none")
    assert found["r"][3:7].to_pylist() == [1] * 4
    with pytest.raises(ipc.FormatError, match="expected run ends that rise and reach row 7"):
        found["r"][3:7].to_numpy(copy=True)


def test_intervals_with_nulls_are_objects():
    spans = ipc.array([(1, 2), None], ipc.types.interval_day_time())
    assert spans.to_numpy(copy=True).tolist() == [(1, 2), None]
    assert spans[:1].to_numpy()["milliseconds"].tolist() == [2]
    assert ipc.array([1, 2], ipc.types.interval_year_month()).to_numpy().dtype == np.int32


def test_asarray():
    numbers = read_array(pa.array([1, 2, 3]))
    assert np.shares_memory(np.asarray(numbers), numbers.to_numpy())
    assert np.asarray(numbers, dtype=np.float32).dtype == np.float32
    assert np.array(numbers).flags.writeable
    assert (numbers.to_numpy() + np.asarray(numbers)).tolist() == [2, 4, 6]
    gaps = read_array(pa.array([1, None]))
    np.testing.assert_array_equal(np.asarray(gaps), [1, np.nan])
    assert np.asarray(read_array(pa.array(["a"]))).tolist() == ["a"]
    assert np.asarray(read_array(pa.array([Decimal("1.5")]))).tolist() == [Decimal("1.5")]
    assert np.asarray(read_array(pa.array([b"abc"], pa.binary(3)))).tolist() == [b"abc"]
    assert np.asarray(read_array(pa.array([True, False, True]))[1:]).tolist() == [False, True]


def rows_of(columns, cuts=(2,)):
    """A table of ours, and pyarrow's, of several batches."""
    whole = pa.table(columns)
    pieces = [whole.slice(a, b - a) for a, b in itertools.pairwise([0, *cuts, whole.num_rows])]
    theirs = pa.concat_tables(pieces)
    return ipc.Table.from_arrow(theirs), theirs


NANOSECONDS = pa.array([1, None, 3, 4]).view(pa.timestamp("ns"))
ROWS = {
    "one dtype": {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]},
    "one column": {"a": [1.5, 2, 3, 4]},
    "numbers": {"a": pa.array([1, 2, 3, 4], pa.int8()), "b": [0.5, 1.5, 2.5, 3.5]},
    "nulls": {"a": [1, None, 3, 4], "b": [1, 2, 3, 4]},
    "bool": {"a": [True, False, True, True], "b": [1, 2, 3, 4]},
    "text": {"a": ["x", "y", None, "z"], "b": ["1", "2", "3", "4"]},
    "dictionary": {"a": pa.array([1, 2, 1, 2]).dictionary_encode(), "b": [1, 2, 3, 4]},
    "times": {"a": NANOSECONDS, "b": NANOSECONDS},
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("cuts", [(), (2,), (1, 1, 3)])
def test_rows_are_the_matrix_that_they_are_to_pyarrow(name, cuts):
    ours, theirs = rows_of(ROWS[name], cuts)
    expected = np.asarray(theirs)
    for rows in (ours, ours.combine()):
        found = np.asarray(rows)
        assert found.shape == (4, len(ROWS[name]))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert found.flags.writeable
    assert np.asarray(ours, dtype=object).dtype == object


def test_rows_of_other_columns_are_objects():
    """NumPy itself would take a duration and a number for two durations, and lists for a dimension."""
    columns = {
        "duration": pa.array([1, 2], pa.duration("s")),
        "number": [1, 2],
        "text": ["a", None],
        "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)),
        "nanoseconds": pa.array([1000, 2000]).view(pa.timestamp("ns")),
    }
    ours, _ = rows_of(columns, ())
    second = dt.timedelta(seconds=1)
    moments = [dt.datetime(1970, 1, 1, microsecond=n) for n in (1, 2)]
    expected = [[second, 1, "a", [1, 2], moments[0]], [2 * second, 2, None, [3, 4], moments[1]]]
    assert np.asarray(ours).tolist() == expected
    pair, _ = rows_of({"pair": columns["pair"]}, ())
    assert np.asarray(pair).tolist() == [[[1, 2]], [[3, 4]]]
    mixed, _ = rows_of({"duration": columns["duration"], "number": [1, 2]}, ())
    assert np.asarray(mixed).tolist() == [[second, 1], [2 * second, 2]]


def test_rows_without_rows_columns_or_batches():
    schema = ipc.Schema([ipc.types.field("x", ipc.types.int8()), ipc.types.field("y", ipc.types.int8())])
    assert np.asarray(ipc.Table(schema)).shape == (0, 2)
    assert np.asarray(ipc.RecordBatch.from_pydict({"x": [], "y": []}, schema)).shape == (0, 2)
    assert np.asarray(ipc.Table(ipc.Schema([]))).shape == (0, 0)


def test_a_reader_is_no_array():
    """NumPy and pandas would take each batch for a row, or for an object."""
    pandas = pytest.importorskip("pandas")
    sources = [ipc_bytes({"a": [1.0, 2, 3], "b": [1, 2, 3]}, kind) for kind in FORMS]
    makers = [lambda: ipc.open(sources[0]), lambda: ipc.open(sources[1]), lambda: ipc.recover(sources[0])]
    for make in makers:
        for use in (pandas.DataFrame, np.asarray, np.array):
            with make() as reader, pytest.raises(UsageError, match=r"read_pandas\(\)"):
                use(reader)
        with make() as reader:
            assert pa.table(reader).to_pandas().shape == (3, 2)
    table = ipc.open(sources[0]).read_all()
    for rows in (table, table.combine()):
        with pytest.raises(ValueError, match="DataFrame constructor"):
            pandas.DataFrame(rows)


def test_a_null_count_that_is_too_large():
    found = ipc.Array.from_buffers("int64", 2, [bits(1, 1), i64(1, 2)], null_count=1)
    assert found.to_numpy(copy=True).tolist() == [1, 2]
