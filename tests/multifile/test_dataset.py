"""Data sets: their files and keys, the order of batches, rows by number, and files that are not as they should be."""

import datetime as dt
import gc
import os
import pickle
import time
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from helpers import optional
from helpers.memory import descriptors
from helpers.randoms import any_text
from helpers.web import Web
from hypothesis import given, strategies as st
from multifile.folders import put, rows, write

import arrowipc as ipc
from arrowipc import FormatError, NotFoundError, UsageError, types as at
from arrowipc.maps.file_maps import FileMap
from arrowipc.multifile.filters import columns_tested, from_text, rows_passing
from arrowipc.multifile.partitioning import NULL, key_type, keys_of
from arrowipc.sources.files import is_hidden
from arrowipc.types import bool_, date32, decimal128, dictionary, field, float64, int32, struct, timestamp, utf8

fsspec = optional("fsspec")
pl = optional("polars")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Ten batches of ten rows: files, streams, one with the old framing, a compressed one."""
    write(tmp_path / "a.arrow", [0, 10, 20])
    write(tmp_path / "b.arrows", [30, 40])
    write(tmp_path / "c.arrows", [50], legacy=True)
    write(tmp_path / "deep/er/d.arrow", [60, 70, 80, 90], compression="lz4")
    return tmp_path


@pytest.fixture
def large(monkeypatch) -> None:
    """Let files be read as large ones are: mapped, and ahead by threads."""
    for name, value in (("fragments.SMALL", 0), ("dataset.SMALL", 0), ("dataset.WAKING", -1)):
        monkeypatch.setattr(f"arrowipc.multifile.{name}", value)


def test_no_rows_of_no_batches_are_a_batch(tmp_path, folder):
    schema = ipc.Schema([at.field("x", at.int64()), at.field("x", at.utf8())])
    ipc.write([], tmp_path / "_none.arrow", schema)
    for source in (ipc.open_dataset(tmp_path / "_none.arrow"), ipc.open(tmp_path / "_none.arrow")):
        assert (source.take([]).schema, source.take([]).num_rows, source.slice().num_rows) == (schema, 0, 0)
    assert ipc.open_dataset(folder, on_missing="null").filter([("x", "in", [])]).take([]).to_pydict() == rows(0, 0)
    assert ipc.RowDataset(tmp_path / "_none.arrow", columns=[1])[[]] == []


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_data_set_is_the_concatenation_of_its_files(folder, workers, large):
    dataset = ipc.open_dataset(folder, workers=workers)
    assert [batch.num_rows for batch in dataset] == [10] * 10
    table = dataset.read_all()
    assert table.to_pydict() == rows(0, 100)
    assert dataset.head(0).num_rows == 0
    assert dataset.files == [str(folder / name) for name in ("a.arrow", "b.arrows", "c.arrows", "deep/er/d.arrow")]
    wanted = [99, 0, 42, 42, -1, 55]
    assert dataset.take(wanted) == table.take(wanted).combine()
    for bad in (100, -101):
        with pytest.raises(IndexError):
            dataset.take([bad])
    assert pa.table(dataset) == pa.table(table)


def test_paths_patterns_lists_and_what_is_hidden(folder):
    put(folder / "_SUCCESS", {"y": [1]})
    put(folder / ".hidden.arrow", {"y": [1]})
    assert ipc.open_dataset(folder).count_rows() == 100
    assert ipc.open_dataset(f"{folder}/*.arrow").count_rows() == 30
    assert ipc.open_dataset(f"{folder}/**/*.arrow").count_rows() == 70
    assert ipc.open_dataset(str(folder / "{b,c}.arrows")).count_rows() == 30
    both = ipc.open_dataset([folder / "c.arrows", folder / "a.arrow", str(folder / "c.arrows")])
    assert both.read_all().to_pydict()["x"] == [*range(50, 60), *range(30), *range(50, 60)]  # as pyarrow and Spark
    for nothing in (folder / "none", str(folder / "*.parquet"), []):
        with pytest.raises(UsageError, match=r"no such file|a path is needed"):
            ipc.open_dataset(nothing)


@pytest.mark.parametrize("paths", [1, None, [1.5], b"/x", [b"/x"]], ids=repr)
def test_what_is_no_path(paths):
    with pytest.raises(UsageError, match="expected a path, a URL or a list of them"):
        ipc.open_dataset(paths)


def test_columns(folder):
    dataset = ipc.open_dataset(folder, columns=["t"])
    assert dataset.schema.names == ["t"]
    assert dataset.row(3) == {"t": "row 3"}
    assert ipc.open_dataset(folder).select([1, "x"]).head(1).to_pylist() == [{"t": "row 0", "x": 0}]
    assert ipc.open_dataset(folder, columns=["t", "x"]).select(1).head(1).to_pylist() == [{"x": 0}]
    assert ipc.open_dataset(folder, columns=[]).count_rows() == 100
    assert sum(batch.num_rows for batch in ipc.open_dataset(folder, columns=[])) == 100
    for bad in ("y", 5, "t.y"):
        with pytest.raises(NotFoundError):
            dataset.select([bad])


def test_members_of_structs(tmp_path):
    put(tmp_path / "a.arrow", {"s": [{"a": 1, "b": "x"}], "y": [1]})
    put(tmp_path / "b.arrow", {"s": [{"b": "y", "c": 2.5}]})
    assert ipc.open_dataset(tmp_path, columns=["s.b"]).read_all().to_pylist() == [{"s": {"b": "x"}}, {"s": {"b": "y"}}]
    chosen = ipc.open_dataset(tmp_path, columns=["s.c", "y", "s.a"]).select("s")
    assert chosen.read_all().to_pydict() == {"s": [{"a": 1, "c": None}, {"a": None, "c": 2.5}]}


def test_dots_in_names_are_no_paths_where_a_column_has_the_name(tmp_path):
    put(tmp_path / "a.arrow", {"a": [1, 2], "a.b": [{"c": 1}, {"c": 5}]})
    dataset = ipc.open_dataset(tmp_path, columns=["a", "a.b"])
    assert dataset.select("a").read_all().to_pydict() == {"a": [1, 2]}
    found = dataset.filter([("a.b.c", ">", 1)])
    assert (found.count_rows(), found.select("a").read_all().to_pydict()) == (1, {"a": [2]})
    assert columns_tested([("a.b.c", ">", 1), ("a", ">", 0), ("a.b", "is_null")], dataset.schema) == ["a.b", "a"]


def test_keys_beside_names_that_repeat_are_found_by_number(tmp_path):
    put(tmp_path / "k=7/0.arrow", pa.table([[1], [2]], names=["x", "x"]))
    for columns, expected in (([0, 2], [[1], [7]]), ([2, 1], [[7], [2]])):
        found = ipc.open_dataset(tmp_path, columns=columns).read_all()
        assert [column.to_pylist() for column in found.columns] == expected


def test_a_given_schema_opens_nothing_before_it_is_needed(folder):
    schema = ipc.open_dataset(folder).schema
    (folder / "z.arrow").write_bytes(b"no Arrow data at all")
    dataset = ipc.open_dataset(folder, schema=schema)
    assert [fragment.schema for fragment in dataset.fragments] == [None] * 5
    assert dataset.head(1).num_rows == 1
    assert [fragment.schema is None for fragment in dataset.fragments] == [False, True, True, True, True]
    with pytest.raises(FormatError, match=r"z\.arrow"):
        dataset.read_all()
    wide = ipc.Schema([*schema, at.field("new", at.int8())])
    path = folder / "a.arrow"
    assert ipc.open_dataset(path, schema=wide).row(0) == {"x": 0, "t": "row 0", "new": None}
    with pytest.raises(UsageError, match=r"a\.arrow: column 'new' is missing"):
        ipc.open_dataset(path, schema=wide, on_missing="error").read_all()
    assert ipc.open_dataset(path, schema=wide, columns=["x"], on_missing="error").row(0) == {"x": 0}


def test_options_that_are_not_understood_are_refused(folder):
    wrong = {"partitioning": "directory", "on_missing": "x", "on_error": "ignore", "workers": -1, "validate": 1}
    for name, value in (wrong | {"schema": {"x": "int"}, "filter": [("y", ">", 1)]}).items():
        with pytest.raises(UsageError, match=f"{name} must be|{name}: no column|no type is named 'int'"):
            ipc.open_dataset(folder, **{name: value})


def test_pickles_hold_the_files(folder):
    dataset = ipc.open_dataset(folder, columns=["x"])
    assert dataset.row(5) == {"x": 5}
    again = pickle.loads(pickle.dumps(dataset))
    write(folder / "e.arrow", [100])  # after the pickle was made
    assert again.schema == dataset.schema
    assert again.count_rows() == 100
    assert again.read_all() == dataset.read_all()
    write(folder / "a.arrow", [7])
    with pytest.raises(OSError, match="changed after the data set was opened"):
        pickle.loads(pickle.dumps(again)).read_all()


# -- files that are not as they should be --


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def test_foreign_and_torn_files(folder, caplog):
    (folder / "README.arrow").write_text("# What these files are\n" * 10)
    with pytest.raises(FormatError, match=r"README\.arrow"):
        ipc.open_dataset(folder)
    dataset = ipc.open_dataset(folder, on_error="skip")
    assert dataset.count_rows() == 100
    assert list(dataset.skipped) == [str(folder / "README.arrow")]
    assert "left out" in caplog.text
    (folder / "README.arrow").unlink()
    torn(folder / "a.arrow")
    torn(folder / "b.arrows")
    with pytest.raises(FormatError, match=r"a\.arrow"):
        ipc.open_dataset(folder)
    assert ipc.open_dataset(folder, on_error="skip").read_all().to_pydict()["x"] == [*range(50, 100)]


def test_a_batch_that_is_damaged_comes_at_its_place(folder):
    path = folder / "deep/er/d.arrow"
    with ipc.open_file(path) as reader:
        offset, head, body = reader.blocks[1]
    data = bytearray(path.read_bytes())
    data[offset + head + 8 : offset + head + body] = bytes([255]) * (body - 8)
    path.write_bytes(data)
    seen = []
    with pytest.raises(FormatError, match=r"d\.arrow"):
        seen.extend(batch.num_rows for batch in ipc.open_dataset(folder))
    found = iter(ipc.open_dataset(folder))
    assert [next(found).num_rows for _ in range(7)] == [10] * 7
    with pytest.raises(FormatError, match=r"d\.arrow"):
        next(found)
    dataset = ipc.open_dataset(folder, on_error="skip")
    assert len(list(dataset)) == 9
    assert dataset.count_rows() == 100
    with pytest.raises(FormatError, match=r"d\.arrow"):
        dataset.take([75])


def test_a_file_that_vanished_or_changed(folder):
    dataset = ipc.open_dataset(folder)
    os.utime(folder / "b.arrows", ns=(1, 1))
    with pytest.raises(OSError, match=r"changed after the data set was opened.*b\.arrows"):
        dataset.read_all()
    dataset = ipc.open_dataset(folder)
    skipping = ipc.open_dataset(folder, on_error="skip")
    (folder / "b.arrows").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.arrows"):
        dataset.read_all()
    assert skipping.read_all().num_rows == 80
    assert list(skipping.skipped) == [str(folder / "b.arrows")]
    (folder / "deep/er/d.arrow").write_bytes(b"")
    with pytest.raises(UsageError, match="no file can be read"):
        ipc.open_dataset(folder / "deep", on_error="skip")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        ipc.open_dataset(tmp_path / "pipe")


def test_more_files_than_may_be_mapped_are_read(folder, large):
    gc.collect()  # what other tests left behind
    before, maps = descriptors(), []
    with open(folder / "a.arrow", "rb") as file, pytest.raises(OSError, match="Cannot allocate memory"):  # noqa: PT012
        while len(maps) < 65_000:
            maps.append(FileMap(file.fileno()))
    dataset = ipc.open_dataset(folder, workers=0)
    batches = list(dataset)
    assert dataset.take([99, 0]).to_pydict()["x"] == [99, 0]
    with ipc.open(folder / "a.arrow") as reader:
        assert reader.read_all().num_rows
    del dataset, reader
    assert descriptors() <= before
    assert sum(batch.num_rows for batch in batches) == 100


# -- order, and workers --


def test_no_more_files_are_opened_ahead_than_there_are_workers_and_none_after_the_end(tmp_path, large):
    for number in range(20):
        write(tmp_path / f"{number:02}.arrow", [number])
    dataset = ipc.open_dataset(tmp_path, schema=ipc.open_file(tmp_path / "00.arrow").schema, workers=3)
    batches = iter(dataset)
    for most in (1, 4, 5):
        assert next(batches).num_rows == 10
        assert sum(fragment.schema is not None for fragment in dataset.fragments) == most
    batches.close()
    assert [fragment.schema is None for fragment in dataset.fragments] == [False] * 5 + [True] * 15


def test_an_iterator_that_is_dropped_closes_the_files(folder, large):
    ipc.open_dataset(folder).read_all()  # modules and helpers are loaded
    gc.collect()
    before = descriptors()
    for _ in range(20):
        batches = iter(ipc.open_dataset(folder))
        next(batches), next(batches)
        del batches
    deadline = time.monotonic() + 20
    while not descriptors() <= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert descriptors() <= before


# -- filters --


def test_filters_leave_out_files_by_keys_and_batches_by_statistics(tmp_path):
    for year in (2023, 2024):
        write(tmp_path / f"year={year}/a.arrow", [year * 100, year * 100 + 10, year * 100 + 20], statistics=True)
    dataset = ipc.open_dataset(tmp_path, filter=[("year", "==", 2024)])
    assert [fragment.keys["year"] for fragment in dataset.fragments] == [2023, 2024]
    assert dataset.count_rows() == 30
    assert dataset.row(0)["x"] == 202400
    fewer = dataset.prune([("x", ">=", 202415)])
    assert fewer.count_rows() == 20  # rows of a batch come together
    assert fewer.read_all().to_pydict()["x"] == [*range(202410, 202430)]
    assert fewer.take([0, -1]).to_pydict()["x"] == [202410, 202429]
    assert fewer.select("t").slice(19).to_pylist() == [{"t": "row 202429"}]
    either = ipc.open_dataset(tmp_path).prune(("or", ("x", "<", 202305), [("year", "==", 2024), ("x", ">", 202425)]))
    assert either.read_all().to_pydict()["x"] == [*range(202300, 202310), *range(202420, 202430)]
    assert dataset.filter([("x", "<", 0)]).read_all().num_rows == 0
    assert pickle.loads(pickle.dumps(fewer)).count_rows() == 20
    exact = dataset.filter([("x", ">=", 202415)])
    assert exact.count_rows() == exact.select("t").count_rows() == pickle.loads(pickle.dumps(exact)).count_rows() == 15
    assert exact.read_all().to_pydict()["x"] == [*range(202415, 202430)]
    assert exact.take([0, -1]).to_pydict()["x"] == [202415, 202429]
    assert exact.select("t").slice(14).to_pylist() == [{"t": "row 202429"}]
    assert exact.filter([("t", "==", "row 202420")]).select(["year"]).head().to_pylist() == [{"year": 2024}]


def test_files_that_keys_rule_out_are_not_opened(tmp_path):
    for year in (2023, 2024):
        write(tmp_path / f"year={year}/a.arrow", [0])
    schema = ipc.open_dataset(tmp_path).schema
    (tmp_path / "year=2023/a.arrow").write_bytes(b"no Arrow data at all")
    dataset = ipc.open_dataset(tmp_path, schema=schema, filter=[("year", ">", 2023)])
    assert dataset.read_all().num_rows == dataset.count_rows() == 10


def test_columns_that_a_file_lacks_are_null_to_filters(tmp_path):
    write(tmp_path / "a.arrow", [0], statistics=True)
    put(tmp_path / "b.arrow", {"x": [1], "new": [5]})
    dataset = ipc.open_dataset(tmp_path)
    assert dataset.filter([("new", ">", 1)]).count_rows() == 1
    assert dataset.filter([("new", "is_null")]).count_rows() == 10


#: Conditions as text are read as the types of their columns say: values, and which rows meet which condition.
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
    "tick": (
        timestamp("ns", "UTC"),
        [10**18 + 123_456_789, None, 10**18 + 123_456_000],
        {
            "= 2001-09-09T01:46:40.123456789": [0],
            "= 2001-09-09T03:46:40.123456789+02:00": [0],
            "< 2001-09-09T01:46:40.1234567": [2],
            "= 2001-09-09 01:46:40.123456000000": [2],
        },
    ),
    "hour": (at.time64("ns"), [123_456_789, 123_456_000], {"= 00:00:00.123456789": [0], "= 00:00:00.123456": [1]}),
    "fee": (decimal128(5, 2), [Decimal("1.25"), None, Decimal("3.00"), Decimal("-1.00")], {"> 1.2499": [0, 2]}),
    "ok": (bool_(), [True, None, False, True], {"= true": [0, 3], "!= true": [2]}),
    "runs": (at.run_end_encoded("int32", "int64"), [3, 3, None, 4], {"= 3": [0, 1], "in 4": [3]}),
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


# -- far away --


def test_folders_in_memory_of_fsspec(folder):
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe(f"/set/k={len(path.name)}/{path.name}", path.read_bytes())
    dataset = ipc.open_dataset("memory://set")
    assert dataset.read_all().num_rows == dataset.count_rows() == 100
    assert dataset.row(0)["k"] in (7, 8)
    assert sorted(dataset.take(range(100)).to_pydict()["x"]) == [*range(100)]
    system.pipe("/set/k=7/a.arrow", (folder / "deep/er/d.arrow").read_bytes())
    with pytest.raises(OSError, match="replaced"):
        pickle.loads(pickle.dumps(dataset)).read_all()


def test_a_folder_behind_http(folder):
    pytest.importorskip("aiohttp")
    files = {f"set/k=1/{path.name}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with Web(files) as web:
        dataset = ipc.open_dataset(web.url("set/"), workers=4)
        assert sorted(dataset.read_all().to_pydict()["x"]) == [*range(100)]
        assert dataset.count_rows() == 100
        assert dataset.row(-1)["k"] == 1
        files["set/k=1/a.arrow"] = files["set/k=1/d.arrow"]
        with pytest.raises(OSError, match=r"a\.arrow"):
            pickle.loads(pickle.dumps(dataset)).read_all()
        with pytest.raises(UsageError, match="no such file"):
            ipc.open_dataset(web.url("nothing/"))


# -- keys in the names of folders, typed over all files, as polars and pyarrow read them --


def test_keys_are_columns_as_in_polars(tmp_path):
    put(tmp_path / "year=2024/month=01/day=2024-01-31/who=a%20b%2Fc/0.arrow", {"x": [1, 2]})
    put(tmp_path / "year=2023/month=12/day=2023-12-01/who=__HIVE_DEFAULT_PARTITION__/0.arrow", {"x": [3]})
    dataset = ipc.open_dataset(tmp_path)
    assert [str(kind) for kind in dataset.schema.types] == ["int64", "int64", "int64", "date32[day]", "string"]
    assert dataset.read_all().to_pylist() == [
        {"x": 3, "year": 2023, "month": 12, "day": dt.date(2023, 12, 1), "who": None},
        {"x": 1, "year": 2024, "month": 1, "day": dt.date(2024, 1, 31), "who": "a b/c"},
        {"x": 2, "year": 2024, "month": 1, "day": dt.date(2024, 1, 31), "who": "a b/c"},
    ]
    columns = ["x", "year", "month", "day"]
    theirs = pl.scan_ipc(tmp_path, hive_partitioning=True).select(columns).collect()
    assert dataset.select(columns).read_all().to_polars().equals(theirs)
    table = pads.dataset(tmp_path, format="ipc", partitioning="hive").to_table()
    assert dataset.read_all().to_pydict()["who"] == table["who"].to_pylist()
    assert dataset.fragments[0].keys["year"] == 2023


NAMES = any_text(min_size=1) | st.sampled_from(
    ["._COPYING_", ".", "..", "_x", "%2E", "a=b", "a/b", "{}", "x y", "é", "e\u0301"]
)
ESCAPED = {ord(char): f"%{ord(char):02X}" for char in [*map(chr, range(0x20)), *"\"#%'*/:=?\\\x7f{[]^"]}


def folder_name(name: str, text: str | None) -> str:
    """The name of a folder for a key and the text of its value, as Spark spells it; no text and None are null."""
    folder = f"{name.translate(ESCAPED)}={text.translate(ESCAPED) if text else NULL}"
    folder = f"%2E{folder[1:]}" if folder.startswith(".") else folder
    return f"{folder[:-1]}%5F" if folder.endswith("._COPYING_") else folder


@given(NAMES, NAMES | st.none())
def test_a_key_comes_back_from_the_name_of_its_folder(name, text):
    if NULL in (name, text):
        return
    folder = folder_name(name, text)
    assert "/" not in folder
    assert "\0" not in folder
    assert not is_hidden(folder)
    assert keys_of(folder, f"{folder}/0.arrow") == {name: text}


def test_where_keys_come_from(tmp_path):
    below = put(tmp_path / "a=1/b=2/0.arrow", {"x": [1]})
    assert ipc.open_dataset(tmp_path / "a=1").schema.names == ["x", "b"]  # below what was named
    assert ipc.open_dataset(f"{tmp_path}/a=*/*/0.arrow").schema.names == ["x", "a", "b"]
    assert ipc.open_dataset([below]).schema.names == ["x", "a", "b"]  # files one by one: all of the path
    assert ipc.open_dataset(tmp_path, partitioning=None).schema.names == ["x"]
    assert ipc.open_dataset(tmp_path, columns=["b", "x"]).head().to_pylist() == [{"b": 2, "x": 1}]


def test_a_key_takes_the_place_of_a_column(tmp_path):
    put(tmp_path / "x=7/0.arrow", {"x": ["file"], "y": [1]})
    put(tmp_path / "x=8/0.arrow", {"y": [2]})
    assert ipc.open_dataset(tmp_path).read_all().to_pylist() == [{"y": 1, "x": 7}, {"y": 2, "x": 8}]


def test_a_schema_says_the_type_of_keys(tmp_path):
    put(tmp_path / "code=007/0.arrow", {"x": [1]})
    put(tmp_path / "0.arrow", {"x": [2]})
    assert ipc.open_dataset(tmp_path).read_all().to_pydict()["code"] == [None, 7]
    schema = at.schema([("code", at.large_utf8()), ("x", at.int64())])
    assert ipc.open_dataset(tmp_path, schema=schema).read_all().to_pylist() == [
        {"code": None, "x": 2},
        {"code": "007", "x": 1},
    ]
    for kind in (at.date32(), at.bool_(), at.list_(at.int8())):
        with pytest.raises(UsageError, match=r"'code' is ('007'|None), which is no"):
            ipc.open_dataset(tmp_path, schema=at.schema([("code", kind)]))


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (str(2**64 - 1), at.uint64(), 2**64 - 1),
        ("2024-01-01T00:00:00.123456", at.timestamp("ns"), dt.datetime(2024, 1, 1, 0, 0, 0, 123456)),
        ("2024-01-01T00:00:00.123456789", at.timestamp("ns"), None),
        (str(2**64), at.uint64(), None),
    ],
)
def test_a_key_keeps_all_its_digits_or_is_refused(tmp_path, text, kind, expected):
    put(tmp_path / f"k={text}" / "0.arrow", {"x": [1]})
    with pytest.raises(UsageError, match=text) if expected is None else nullcontext():
        found = ipc.open_dataset(tmp_path, schema=at.schema([("k", kind)])).read_all()
        assert found.to_pydict() == {"k": [expected]}


def test_keys_that_are_equal_and_not_the_same_stay_as_they_are(tmp_path):
    for number, key in enumerate(("-0.0", "0.0", "-0.0", "NaN", "0.0")):
        put(tmp_path / f"n={number}" / f"k={key}" / "0.arrow", {"x": [number]})
    schema = at.schema([("x", at.int64()), ("k", at.float64())])
    found = ipc.open_dataset(tmp_path, schema=schema)
    for table in (found.read_all(), found.take(range(5))):
        assert repr(table["k"].to_pylist()) == "[-0.0, 0.0, -0.0, nan, 0.0]"


def test_types_of_keys():
    assert key_type(["1", None, "-02"]) == at.int64()
    assert key_type(["1", str(2**63)]) == at.utf8()
    assert key_type(["2024-02-29", "2023-01-01"]) == at.date32()
    assert key_type(["2023-02-29"]) == at.utf8()
    assert key_type(["1", "x"]) == key_type([None]) == key_type([""]) == key_type(["٣"]) == at.utf8()


def test_bad_keys():
    assert keys_of("p", "/=1/x/a=/f.arrow") == {"a": ""}
    with pytest.raises(UsageError, match="p: the key 'a' repeats"):
        keys_of("p", "/a=1/a=2/f.arrow")
    with pytest.raises(UsageError, match="more than 64"):
        keys_of("p", "/".join(f"k{i}=1" for i in range(65)) + "/f.arrow")
    for text in ("\udcff", "%FF"):
        with pytest.raises(UsageError, match="cannot be encoded as UTF-8"):
            keys_of("p", f"a={text}/f.arrow")


def test_checksums_are_compared_where_that_is_asked_for(tmp_path):
    for name, checksum in (("a", True), ("b", True), ("c", False)):
        ipc.write({"x": [5, 6, 7]}, tmp_path / f"{name}.arrow", checksum=checksum)
    assert ipc.open_dataset(tmp_path, verify=None).read_all().num_rows == 9
    with pytest.raises(ipc.FormatError, match=r"c\.arrow"):
        ipc.open_dataset(tmp_path, verify=True).read_all()
    changed = tmp_path / "b.arrow"
    data = bytearray(changed.read_bytes())
    data[data.index((6).to_bytes(8, "little"))] = 60
    changed.write_bytes(data)
    assert 60 in ipc.open_dataset(tmp_path).read_all()["x"].to_pylist()
    with pytest.raises(ipc.FormatError, match=r"b\.arrow"):
        pickle.loads(pickle.dumps(ipc.open_dataset(tmp_path, verify=None))).read_all()
    sound = ipc.open_dataset(tmp_path, verify=None, on_error="skip")
    assert sound.read_all().num_rows == 6
    sound.skipped.clear()
    assert [*sound.skipped] == [str(changed)]
    assert isinstance(sound.fragments, tuple)
    with pytest.raises(ipc.UsageError, match="verify must be True or False"):
        ipc.open_dataset(tmp_path, verify="yes")
