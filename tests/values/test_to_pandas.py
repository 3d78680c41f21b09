"""Frames of pandas: the same with pyarrow and without it, and those that pyarrow makes where it makes right ones."""

import datetime as dt
import itertools
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional, randoms
from helpers.arrays import CASES, ipc_bytes, pyarrow_bytes, read_batch
from helpers.processes import printed, rounds, run_module
from hypothesis import Phase, given, settings
from values import frames

import arrowipc as ipc
from arrowipc import ArrowIpcError, UnsupportedError, UsageError, types

pd = optional("pandas")

DAYS = pd.to_datetime(["2024-01-01", "2024-02-01"])
PLAIN = pd.DataFrame({"a": [1, 2], "k": ["x", "y"], "t": DAYS})
#: What pandas notes in a schema: frames that come back as they were.
NOTED = {
    "range": PLAIN,
    "other range": PLAIN.set_index(pd.RangeIndex(10, 30, 10, name="r")),
    "named": PLAIN.set_index("k"),
    "unnamed": PLAIN.set_index(pd.Index(["p", "q"])),
    "several levels": PLAIN.set_index(["k", "t"]),
    "several unnamed": PLAIN.set_index([pd.Index([1, 2]), pd.Index(["p", "q"])]),
    "zone": PLAIN.set_index(DAYS.tz_localize("Asia/Tokyo")),
    "spans": PLAIN.set_index(DAYS - DAYS[0]),
    "categories": PLAIN.set_index(pd.CategoricalIndex(["p", "q"], ordered=True, name="c")),
    "dates": PLAIN.set_index(pd.Index([dt.date(2024, 1, 1), dt.date(2024, 1, 2)])),
    "nullable": PLAIN.set_index(pd.Index([1, None], dtype="Int64")),
    "periods": PLAIN.set_index(pd.period_range("2024-01", periods=2, freq="M")),
    "no rows": PLAIN[:0].set_index("k"),
    "no columns": PLAIN[[]],
    "only an index": PLAIN.set_index("k")[[]],
    "own dtypes": pd.DataFrame(
        {
            "i": pd.array([2**60 + 1, None], "Int64"),
            "u": pd.array([1, None], "UInt8"),
            "f": pd.array([1.5, None], "Float32"),
            "b": pd.array([True, None], "boolean"),
            "s": pd.array(["x", None], "string"),
            "p": pd.PeriodIndex(["2024-01", None], freq="M"),
            "v": pd.arrays.IntervalArray.from_tuples([(0, 1), None]),
            "w": pd.arrays.IntervalArray.from_breaks([*DAYS, DAYS[1] + pd.Timedelta(days=1)], closed="left"),
            "c": pd.Categorical(["y", None], ["y", "x"], ordered=True),
        }
    ),
    **{
        f"names: {kind}": pd.DataFrame([[1, 2]], columns=labels)
        for kind, labels in {
            "integers": pd.Index([1, 2], name="n"),
            **{f"objects {each[0]!r}": pd.Index(each, dtype=object) for each in ([1, 2], [1.5, 2.0], list(DAYS))},
            "floats": [1.5, 2.0],
            "bytes": [b"a", b"b"],
            "booleans": [True, False],
            "decimals": [Decimal("1.5"), Decimal(2)],
            "times": DAYS,
            "zone": DAYS.tz_localize("Asia/Tokyo"),
            "spans": DAYS - DAYS[0],
            "levels": pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["p", None]),
        }.items()
    },
}
NOTED["attributes"] = PLAIN.copy()
NOTED["attributes"].attrs = {"origin": "sensor 4", "parts": [1, 2]}


def dictionary(values: pa.Array, *indices: int | None, ordered: bool = False) -> pa.RecordBatch:
    coded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values, ordered=ordered)
    return pa.record_batch({"x": coded})


def repeated(values: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), values)})


#: Batches in which the frame is not what the name of the type says.
RARE: dict[str, list[pa.RecordBatch]] = {
    "names twice": [pa.record_batch([pa.array([1, 2]), pa.array(["x", None])], names=["a", "a"])],
    "no columns": [pa.record_batch({"x": [1, 2]}).select([])],
    "exact": [pa.record_batch({"x": pa.array([2**60 + 1, None]), "y": pa.array([2**64 - 1, None], pa.uint64())})],
    "runs": [repeated(pa.array([2**60 + 1, None]))],
    "runs of text": [repeated(pa.array(["x", None]))],
    "times": [pa.record_batch({"x": pa.array([3600 * 10**9, None], pa.time64("ns"))})],
    "nanoseconds of a day": [pa.record_batch({"x": pa.array([1, None], pa.time64("ns"))})],
    "dates before the year 1": [pa.record_batch({"x": pa.array([-800_000, None], pa.date32())})],
    "zoned lists": [pa.record_batch({"x": pa.array([[0, None], None], pa.list_(pa.timestamp("s", "Asia/Tokyo")))})],
    "months": [pa.record_batch({"x": pa.array([(1, 2, 3), None], pa.month_day_nano_interval())})],
    "uuids": [pa.record_batch({"x": pa.array([b"0123456789abcdef", None], pa.uuid())})],
    "json": [pa.record_batch({"x": pa.array(["{}", None], pa.json_())})],
    "dictionaries that change": [dictionary(pa.array(["x", "y"]), 0, 1), dictionary(pa.array(["y", "z"]), 0, 1, None)],
    "dictionaries too large together": [
        dictionary(pa.array([f"{k}{i}" for i in range(100)]), *range(100)) for k in range(3)
    ],
    "a value twice": [dictionary(pa.array(["x", "x", "y"]), 0, 1, 2, None)],
    "a null value": [dictionary(pa.array([7, None, 2**60 + 1]), 0, 1, 2)],
    "ordered": [dictionary(pa.array(["y", "x"]), 0, 1, ordered=True)],
    "only nulls of text": [dictionary(pa.array([], pa.string()), None)],
    "periods": [pa.record_batch({"x": pa.array(pd.period_range("2020", periods=2, freq="M"))})],
    "intervals": [pa.record_batch({"x": pa.array(pd.IntervalIndex.from_breaks([0.5, 1, 2], closed="left"))})],
    "spans": [pa.record_batch({"x": pa.array(pd.IntervalIndex.from_breaks(DAYS.tz_localize("Asia/Tokyo")))})],
    "only nulls": [dictionary(pa.array([], pa.float64()), None)],
    **{
        f"categories: {values.type}": [dictionary(values, 1, None)]
        for values in (
            pa.array([7, 8], pa.timestamp("ns")),
            pa.array([7, 8], pa.timestamp("us", "Asia/Tokyo")),
            pa.array([7, 8], pa.duration("s")),
            pa.array([7, 8], pa.date32()),
            pa.array([True, False]),
            pa.array([1.5, 2.5], pa.float16()),
            pa.array([{"a": 1}, {"a": 2}]),
        )
    },
}


def parts_of(name: str) -> list[ipc.RecordBatch]:
    """A batch of a type: whole, empty, of one row, cut, and without nulls."""
    batch = read_batch(pa.record_batch({"x": CASES[name]}))
    full = batch.take([i for i, value in enumerate(batch["x"]) if value is not None])
    return [batch, batch[:0], batch[:1], batch[1:], full]


#: Streams of all types, of the rare ones, and of pandas' frames.
FILES = {
    **{name: ipc_bytes(parts_of(name)) for name in CASES},
    **{f"rare: {name}": pyarrow_bytes(batches) for name, batches in RARE.items()},
    **{f"noted: {name}": pyarrow_bytes(pa.RecordBatch.from_pandas(frame)) for name, frame in NOTED.items()},
    "no batch": pa.schema({"x": pa.int8(), "y": pa.string()}).serialize().to_pybytes(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `FILES`, whose names are numbers, and random files."""
    path = tmp_path_factory.mktemp("frames")
    numbers = itertools.count()
    for data in FILES.values():
        (path / str(next(numbers))).write_bytes(data)

    @settings(max_examples=rounds(40, 3000), phases=[Phase.generate])
    @given(randoms.batches(most_columns=8))
    def write(parts: list[pa.RecordBatch]) -> None:
        schema = parts[0].schema if parts else pa.schema([])
        (path / str(next(numbers))).write_bytes(pyarrow_bytes(parts, schema=schema))

    write()
    return path


@pytest.fixture(scope="module")
def without_pyarrow(folder: Path) -> dict[str, Any]:
    """What becomes of the files, by name, and of columns, in a process that cannot import pyarrow."""
    found: dict[str, Any] = json.loads(printed(run_module("values.frames", folder, timeout=600)))
    return found


@pytest.mark.parametrize("name", FILES)
def test_frames_are_the_same_with_and_without_pyarrow(name: str, folder: Path, without_pyarrow: dict[str, Any]) -> None:
    number = str(list(FILES).index(name))
    for ours, theirs in zip(frames.frames_of(folder / number), without_pyarrow[number], strict=True):
        assert ours == theirs


def test_columns_of_pandas_need_no_pyarrow(without_pyarrow: dict[str, Any]) -> None:
    assert without_pyarrow["columns"] == {"a": [1, 2], "b": ["x", None], "c": ["u", None]}


@pytest.mark.campaign
def test_random_frames_are_the_same_with_and_without_pyarrow(folder: Path, without_pyarrow: dict[str, Any]) -> None:
    for number in range(len(FILES), len(without_pyarrow) - 1):
        assert frames.frames_of(folder / str(number)) == without_pyarrow[str(number)]


#: Why a frame is not what pyarrow 26 makes.
OTHERWISE = {
    "int64": "pyarrow rounds what float64 does not hold",
    "uint64": "pyarrow rounds what float64 does not hold",
    "struct": "values inside are those of to_pylist; pyarrow has 1.0 for 1 where a neighbour is null",
    "map": "values inside are those of to_pylist; pyarrow has 1.0 for 1 where a neighbour is null",
    "list_view": "pyarrow looks at elements that no list has",
    **dict.fromkeys(["run_end_int16", "run_end_int32", "run_end_int64"], "text has the dtype of text"),
    **dict.fromkeys(["sparse_union", "dense_union"], "pyarrow has no frames of them"),
    **dict.fromkeys(["dictionary_uint64", "dictionary_nulls", "dictionary_lists"], "pyarrow takes no null category"),
}


@pytest.mark.parametrize(
    "name", [*(name for name in CASES if name not in OTHERWISE), "only nulls of text", "periods", "intervals", "spans"]
)
def test_frames_are_those_of_pyarrow(name: str) -> None:
    for part in parts_of(name) if name in CASES else map(read_batch, RARE[name]):
        assert frames.described(part.to_pandas()) == frames.described(pa.record_batch(part).to_pandas())


@pytest.mark.parametrize("name", NOTED)
def test_frames_come_back_with_index_names_dtypes_and_attributes(name: str) -> None:
    found = read_batch(pa.RecordBatch.from_pandas(NOTED[name])).to_pandas()
    pd.testing.assert_frame_equal(found, NOTED[name])
    assert found.attrs == NOTED[name].attrs


def frame_of(name: str) -> pd.DataFrame:
    with ipc.open(pyarrow_bytes(RARE[name])) as reader:
        frame: pd.DataFrame = reader.read_pandas()
    return frame


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("exact", "Int64", [2**60 + 1, pd.NA]),
        ("runs", "Int64", [2**60 + 1, 2**60 + 1, pd.NA]),
        ("runs of text", "str", ["x", "x", np.nan]),
        ("times", "object", [dt.time(1), None]),
        ("nanoseconds of a day", "object", [1, None]),
        ("dates before the year 1", "object", [-800_000, None]),
        ("dictionaries that change", "category", ["x", "y", "y", "z", np.nan]),
        ("dictionaries too large together", "category", [f"{k}{i}" for k in range(3) for i in range(100)]),
        ("a value twice", "category", ["x", "x", "y", np.nan]),
        ("a null value", "category", [7, np.nan, 2**60 + 1]),
        ("categories: struct<a: int64>", "object", [{"a": 2}, None]),
    ],
)
def test_no_value_changes(name: str, dtype: str, values: list[Any]) -> None:
    found = frame_of(name)["x"]
    assert found.dtype == dtype
    assert str(found.tolist()) == str(values)


def test_columns_of_one_name_keep_their_values_and_types() -> None:
    found = frame_of("names twice")
    assert list(found.columns) == ["a", "a"]
    assert [str(dtype) for dtype in found.dtypes] == ["int64", "str"]
    for options in ({}, {"types_mapper": pd.ArrowDtype}):
        found = ipc.open(pyarrow_bytes(RARE["names twice"])).read_pandas(**options)
        assert found.iloc[:, 0].tolist() == [1, 2]
        assert found.iloc[0, 1] == "x"


@pytest.mark.parametrize("options", [{}, {"types_mapper": {}.get}, {"strings_to_categorical": True}])
def test_categories_keep_their_zone(options: dict[str, Any]) -> None:
    found = ipc.open(pyarrow_bytes(RARE["categories: timestamp[us, tz=Asia/Tokyo]"])).read_pandas(**options)
    assert str(found["x"].cat.categories.dtype) == "datetime64[us, Asia/Tokyo]"


def test_options_of_pyarrow_hold_for_each_column() -> None:
    batch = read_batch(pa.record_batch({"i": pa.array([1, None], pa.int32()), "s": ["x", "y"], "t": ["x", "y"]}))
    assert set(map(str, batch.to_pandas(types_mapper=pd.ArrowDtype).dtypes)) == {"int32[pyarrow]", "string[pyarrow]"}
    nullable = batch.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    assert list(map(str, nullable.dtypes)) == ["Int32", "str", "str"]
    assert list(map(str, batch.to_pandas(categories=["s"]).dtypes)) == ["float64", "category", "str"]
    assert batch["i"].to_pandas(integer_object_nulls=True).tolist() == [1, None]
    indexed = read_batch(pa.RecordBatch.from_pandas(NOTED["several levels"])).to_pandas(timestamp_as_object=True)
    assert indexed.index.names == ["k", "t"]
    own = read_batch(pa.RecordBatch.from_pandas(NOTED["own dtypes"])).to_pandas(split_blocks=True)
    pd.testing.assert_frame_equal(own, NOTED["own dtypes"])


def test_options_need_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ipc.RecordBatch.from_pydict({"a": [1, 2]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        batch.to_pandas(types_mapper={}.get)
    assert batch.to_pandas(ignore_metadata=True).to_dict("list") == {"a": [1, 2]}


def test_columns_in_memory_of_pyarrow_come_back() -> None:
    frame = pd.DataFrame({"i": pd.array([1, None], "int64[pyarrow]"), "s": pd.array(["x", None], "string[pyarrow]")})
    pd.testing.assert_frame_equal(read_batch(pa.RecordBatch.from_pandas(frame)).to_pandas(), frame)


def test_what_pandas_cannot_take_names_the_column() -> None:
    schema = ipc.Schema([types.field("a", types.int8()), types.field("z", types.timestamp("us", "Nowhere/Land"))])
    batch = ipc.RecordBatch.from_pydict({"a": [1], "z": [1]}, schema)
    for data in (batch, ipc.Table.from_batches([batch]), batch["z"]):
        for options in ({}, {"timestamp_as_object": True}):
            with pytest.raises(UnsupportedError, match=r"'z' \(timestamp.*Nowhere/Land.*columns="):
                data.to_pandas(**options)


@pytest.mark.parametrize(
    "notes",
    [
        "{",
        "[]",
        '{"index_columns": [{"kind": "range"}]}',
        '{"index_columns": [{"start": "a", "stop": [], "step": 0, "name": null}]}',
        '{"columns": [{"name": ["a"], "numpy_type": 5}]}',
        '{"columns": [{"name": "a", "numpy_type": "interval[int64, right]"}]}',
        '{"column_indexes": [{"pandas_type": "datetimetz", "numpy_type": "datetime64[ns]"}]}',
        '{"column_indexes": [{}, {}], "columns": [{"name": "a", "field_name": "a", "numpy_type": "O"}]}',
        '{"attributes": 5}',
    ],
)
def test_broken_notes_are_an_error_that_says_how_to_leave_them_out(notes: str) -> None:
    batch = ipc.RecordBatch.from_pydict({"a": [1, 2]}, ipc.Schema([types.field("a", types.int64())], {"pandas": notes}))
    with pytest.raises(ArrowIpcError, match="ignore_metadata=True"):
        batch.to_pandas()
    assert batch.to_pandas(ignore_metadata=True).to_dict("list") == {"a": [1, 2]}


def test_notes_about_rows_and_columns_that_are_gone_are_left_out() -> None:
    indexed = ipc.Table.from_pandas(NOTED["other range"])
    with pytest.raises(UsageError, match=r"schema: expected a Schema, .* found str 'x'"):
        ipc.Table.from_pandas(PLAIN, schema="x")
    assert indexed[1:].to_pandas().index.tolist() == [0]
    assert ipc.Table.from_pandas(NOTED["named"]).drop("k").to_pandas().index.tolist() == [0, 1]
    assert ipc.Table.from_pandas(PLAIN).rename({"a": "b"}).to_pandas().columns.tolist() == ["b", "k", "t"]


@pytest.mark.parametrize(
    "cut",
    [
        lambda table: table.slice(0, 0),
        lambda table: table[9:],
        lambda table: table.head(0),
        lambda table: table.tail(0),
        lambda table: table.filter([False] * 3),
        lambda table: table.take([]),
        lambda table: table[["x"]][5:7],
    ],
)
def test_no_rows_keep_their_categories(cut: Callable[[ipc.Table], ipc.Table]) -> None:
    frame = pd.DataFrame({"x": pd.Categorical(["a", "b", "a"], ["b", "a", "c"], ordered=True)})
    table = ipc.table(pa.table(frame))
    table = ipc.Table.from_batches([*table.slice(0, 1).to_batches(), *table.slice(1).to_batches()])
    assert len(cut(table)) == 0
    assert cut(table).to_pandas().x.dtype == frame.x.dtype
    assert table["x"][5:].to_pandas().dtype == frame.x.dtype


@pytest.mark.parametrize(
    ("parts", "categories", "ordered"),
    [
        ([["a", "b"], ["b", "c"], ["a", "c"]], ["a", "b", "c"], True),
        ([["a", "c"], ["a", "b", "c"]], ["a", "c", "b"], False),
    ],
)
def test_categories_are_ordered_if_all_dictionaries_have_one_order(
    parts: list[list[str]], categories: list[str], ordered: bool
) -> None:
    batches = [dictionary(pa.array(words), *range(len(words)), ordered=True) for words in parts]
    column = ipc.Table.from_batches(batches).to_pandas()["x"]
    assert (column.tolist(), column.cat.ordered) == ([word for words in parts for word in words], ordered)
    assert column.cat.categories.tolist() == categories


def test_frames_are_the_callers_own() -> None:
    batch = read_batch(pa.record_batch({"i": [1, 2], "f": [1.5, 2.5], "l": [[1], [2]]}))
    frame = batch.to_pandas()
    frame.loc[0, ["i", "f"]] = [7, 7.5]
    frame["l"].iloc[0][0] = 7
    assert batch.to_pydict() == {"i": [1, 2], "f": [1.5, 2.5], "l": [[1], [2]]}


@pytest.mark.parametrize("places", [[0, 5, 9], [2, 1, 3], [-1, 1, 2]])
def test_lists_outside_their_elements_are_errors(places: list[int]) -> None:
    schema = ipc.Schema([types.field("x", types.list_(types.int8()))])
    stored = [None, np.array(places, "<i4"), None, np.array([1, 2, 3], "i1")]
    batch = ipc.RecordBatch.from_buffers(schema, 2, [(2, 0), (3, 0)], stored, validate="none")
    with pytest.raises(ArrowIpcError, match="column 'x'"):
        batch.to_pandas()


def test_views_under_nulls_may_hold_anything():
    """pyarrow 26.0.1 ends the process when it casts them."""
    views = bytes(16) + (2**31).to_bytes(4, "little") + b"anything    " + (3).to_bytes(4, "little") + b"abc" + bytes(9)
    array = ipc.Array.from_buffers("string_view", 3, [bytes([0b101]), views])
    array.validate(full=True)
    for column in (array, ipc.chunked_array([array])):
        assert column.to_pandas().fillna("null").tolist() == ["", "null", "abc"]
    assert ipc.table({"x": array}).to_pandas(types_mapper=pd.ArrowDtype)["x"].isna().tolist() == [False, True, False]
