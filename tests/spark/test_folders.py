"""Folders read as Spark reads those of Parquet: the same rows in both formats, read with the same options."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.arrow_columns import OLD_SPARK, file, stream
from pyspark.sql import types as st

import arrowipc as ipc
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.spark import ArrowIpcDataSource, register
from arrowipc.spark.types import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILTERS = pytest.mark.skipif(OLD_SPARK, reason="Spark has filters from 4.1 on")
Files = dict[str, Any]


def rows(*ids: int, **more: Any) -> pa.RecordBatch:
    columns = {"id": pa.array(ids, pa.int64()), "tag": [f"t{each}" for each in ids]}
    return pa.record_batch({**columns, **more})


class Twins:
    """A folder of Arrow files and one of Parquet files, with the same names and rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folders = {"arrowipc": folder / "arrow", "parquet": folder / "parquet"}

    def put(self, files: Files) -> None:
        for number, (name, content) in enumerate(files.items()):
            for kind, folder in self.folders.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    path.write_bytes(content)
                elif kind == "parquet":
                    pq.write_table(pa.Table.from_batches([content]), path)
                else:
                    path.write_bytes((file if number % 2 else stream)(content))

    def read(self, paths: list[str], schema: str | None, options: dict[str, str]) -> dict[str, Any]:
        found = {}
        for kind, folder in self.folders.items():
            reader = self.spark.read.format(kind)
            for name, value in options.items():
                reader = reader.option(name, str(folder) if value == "FOLDER" else value)
            frame = (reader.schema(schema) if schema else reader).load([f"{folder}/{path}" for path in paths])
            found[kind] = described(frame, in_order=schema is None)
        return found


@pytest.fixture
def twins(spark: SparkSession, tmp_path: Path) -> Twins:
    register(spark)
    return Twins(spark, tmp_path)


def described(frame: DataFrame, in_order: bool = True) -> tuple[Any, ...]:
    """Columns, their types and the rows of a frame."""
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    names = sorted(frame.columns)
    found = sorted(map(str, [[row[name] for name in names] for row in frame.collect()]))
    return types if in_order else sorted(types), found


HIVE: Files = {
    "dt=2024-01-01/k=1/a": rows(1, 2),
    "dt=2024-01-01/k=2/b": rows(3),
    "dt=2024-02-01/k=1/a": rows(4),
    "dt=__HIVE_DEFAULT_PARTITION__/k=3/c": rows(5, 6),
}
NESTED: Files = {"a": rows(1), "b.x": rows(2), "plain/c": rows(3), "plain/deep/d.x": rows(4)}
WIDER: Files = {
    "1": rows(1),
    "2": rows(2, extra=pa.array([1.5], pa.float64()), st=[{"x": 1}]),
    "3": pa.record_batch({"st": [{"x": 2, "y": "new"}], "id": [3]}),
}

CASES: dict[str, tuple[Files, list[str], dict[str, str]]] = {
    "keys": (HIVE, [""], {}),
    "a folder within": (HIVE, ["dt=2024-01-01"], {}),
    "several folders": (HIVE, ["dt=2024-01-01/k=1", "dt=2024-01-01/k=2"], {}),
    "a pattern": (HIVE, ["dt=2024-02-*"], {}),
    "a pattern of files": (HIVE, ["*/*/a"], {}),
    "a file": (HIVE, ["dt=2024-01-01/k=2/b"], {}),
    "basePath": (HIVE, ["dt=2024-01-01"], {"basePath": "FOLDER"}),
    "basePath of patterns": (HIVE, ["dt=2024-*/k=1"], {"basePath": "FOLDER"}),
    "basePath of a file": (HIVE, ["dt=2024-01-01/k=2/b"], {"basePath": "FOLDER"}),
    "numbers": ({f"i={i}/l={i * 10**10}/r={i}.5/x": rows(i) for i in range(3)}, [""], {}),
    "kinds that do not go together": ({f"k={k}/x": rows(1) for k in ("1", "2024-01-01", "a b")}, [""], {}),
    "whole and broken numbers": ({f"k={k}/x": rows(1) for k in ("1", "2.5", "-.25")}, [""], {}),
    "bigint and numbers too large": ({f"k={k}/x": rows(1) for k in ("5000000000", "7")}, [""], {}),
    "names that are escaped": ({f"a%3Db={k}/x": rows(1) for k in ("x%2Fy", "100%25", "é ü", "%7B1%7D")}, [""], {}),
    "a key that is a column": ({f"id={k}/x": rows(9) for k in (1, 2)}, [""], {}),
    "keys that begin with _": ({"_k=1/x": rows(1), "_k=2/y": rows(2), "_k=2/_z": rows(3)}, [""], {}),
    "only nulls": ({"k=__HIVE_DEFAULT_PARTITION__/x": rows(1)}, [""], {}),
    "hidden": ({"a": rows(1), "_b": rows(2), ".c": rows(3), "d._COPYING_": rows(4), "_e/f": rows(5)}, [""], {}),
    "any depth": (NESTED, [""], {"recursiveFileLookup": "true"}),
    "any depth, no keys": (HIVE, [""], {"recursiveFileLookup": "true"}),
    "one level": (NESTED, [""], {"recursiveFileLookup": "false"}),
    "keys at all levels": (HIVE, [""], {"recursiveFileLookup": "false"}),
    "names": (NESTED, [""], {"pathGlobFilter": "*.x", "recursiveFileLookup": "true"}),
    "names in braces": (NESTED, [""], {"pathGlobFilter": "{a,b*,c}", "recursiveFileLookup": "true"}),
    "names without letters": (NESTED, [""], {"pathGlobFilter": "[^ab]*", "recursiveFileLookup": "true"}),
    "columns that are new": (WIDER, [""], {"mergeSchema": "true"}),
    "the first file's columns": (WIDER, [""], {}),
    "more digits": (
        {str(i): pa.record_batch({"d": pa.array([Decimal("1.25")], pa.decimal128(i, 2))}) for i in (5, 9)},
        [""],
        {"mergeSchema": "true"},
    ),
    "what is no file of ours": ({"a": rows(1), "b": b"neither Arrow nor Parquet", "c": rows(3)}, [""], {}),
}
CASES["what is no file of ours"][2]["ignoreCorruptFiles"] = "true"


#: What a plain read goes by; the others take their time.
QUICK = ("keys", "a file", "basePath", "kinds that do not go together", "names that are escaped", "hidden")
QUICK += ("a key that is a column", "one level", "columns that are new", "what is no file of ours")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_twins(twins: Twins, name: str) -> None:
    files, paths, options = CASES[name]
    twins.put(files)
    found = twins.read(paths, None, options)
    assert found["arrowipc"] == found["parquet"]
    assert found["arrowipc"][1]


SCHEMAS = {
    "reordered": (HIVE, "tag string, id bigint, k int, dt date"),
    "keys of other types": (HIVE, "id bigint, k bigint, dt string"),
    "missing": (WIDER, "id bigint, nix string, extra double, never array<struct<a:int>>"),
    "missing in a struct": (WIDER, "st struct<y:string,x:bigint,z:int>"),
    "nothing that is there": (WIDER, "nix string"),
    "wider": (
        {"1": pa.record_batch({"i": pa.array([1, -5], pa.int32()), "f": pa.array([1.5, 2], pa.float32())})},
        "i bigint, f double",
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_twins_with_a_schema(twins: Twins, name: str) -> None:
    files, schema = SCHEMAS[name]
    twins.put(files)
    found = twins.read([""], schema, {})
    assert found["arrowipc"] == found["parquet"]
    assert found["arrowipc"][1]


def test_files_by_their_time(twins: Twins) -> None:
    twins.put({str(i): rows(i) for i in range(4)})
    begin = dt.datetime(2024, 5, 31, 12, tzinfo=dt.UTC).timestamp()
    for folder in twins.folders.values():
        for i in range(4):
            os.utime(folder / str(i), (begin + 60 * i,) * 2)
    after, before = "2024-05-31T12:00:00", "2024-05-31T12:03:00"
    found = twins.read([""], None, {"modifiedAfter": after, "modifiedBefore": before, "timeZone": "UTC"})
    assert found["arrowipc"] == found["parquet"]
    assert len(found["arrowipc"][1]) == 2
    found = twins.read([""], "id bigint", {"modifiedBefore": after, "timeZone": "UTC"})
    assert found["arrowipc"] == found["parquet"]
    assert found["arrowipc"][1] == []


@pytest.mark.parametrize(("text", "zone"), [("21:01:00", "Asia/Tokyo"), ("14:01:00", "+02:00"), ("05:01:00-07:00", "")])
def test_times_are_those_of_their_zone(tmp_path: Path, text: str, zone: str) -> None:
    # Spark shifts the times of files by the zone, and its own by the zone too; so no twin.
    for i in range(3):
        put(tmp_path / f"{i}.arrow", rows(i))
        os.utime(tmp_path / f"{i}.arrow", (dt.datetime(2024, 5, 31, 12, i, tzinfo=dt.UTC).timestamp(),) * 2)
    assert read_here(tmp_path, modifiedAfter=f"2024-05-31T{text}", timeZone=zone)["id"].to_pylist() == [2]
    assert read_here(tmp_path, modifiedBefore=f"2024-05-31T{text}", timeZone=zone)["id"].to_pylist() == [0]


def test_files_that_vanish_after_planning(twins: Twins) -> None:
    twins.put({str(i): rows(i) for i in range(3)})
    counts = {}
    for kind, folder in twins.folders.items():
        frame = twins.spark.read.format(kind).option("ignoreMissingFiles", "true").load(str(folder))
        (folder / "1").unlink()
        counts[kind] = frame.count()
    assert counts == {"arrowipc": 2, "parquet": 2}


# -- writing ---------------------------------------------------------------------------------------------------


def folders_of(root: Path) -> set[str]:
    return {str(path.parent.relative_to(root)) for path in root.rglob("part-*")}


def test_partition_by_names_folders_as_spark_does(twins: Twins) -> None:
    spark = twins.spark
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        odd = ["a/b", "x=1 %", "__", "", None, "q\"'#?*\\[]^{}:", "\x01\x7f\t", "é ü", "." * 3, "2024-01-01"]
        values = ", ".join(f"({i}, {i % 3 == 0}, {sql(text)})" for i, text in enumerate(odd))
        frame = spark.sql(
            f"SELECT i, b, s, date'2024-01-31' + i d, timestamp_seconds(1711845000 + i * 900.25) t, "
            f"cast(i / 8 as decimal(10, 4)) p, cast(i as tinyint) `n=` FROM VALUES {values} AS (i, b, s)"
        )
        for keys in (["s"], ["d", "t", "p", "b", "n="]):
            ours, theirs = (folder / keys[0] for folder in twins.folders.values())
            frame.write.format("arrowipc").mode("append").option("partitionBy", ",".join(keys)).save(str(ours))
            frame.write.partitionBy(*keys).parquet(str(theirs))
            assert folders_of(ours) == folders_of(theirs)
            texts = f"{keys[0]} string" if keys == ["s"] else ", ".join(f"`{key}` string" for key in keys)
            schema = "i int, " + texts
            read = {
                kind: described(spark.read.schema(schema).format(kind).load(str(at)), in_order=False)
                for kind, at in (("arrowipc", ours), ("parquet", theirs))
            }
            assert read["arrowipc"] == read["parquet"]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def sql(text: str | None) -> str:
    if text is None:
        return "NULL"
    return "'" + "".join(f"\\u{ord(char):04x}" for char in text) + "'"


def test_append_and_overwrite_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    out = str(tmp_path / "out")

    def write(mode: str, first: int) -> None:
        frame = spark.range(first, first + 10).selectExpr("id", "id % 3 k")
        frame.write.format("arrowipc").mode(mode).option("partitionBy", "k").option("statistics", "id").save(out)

    write("append", 0)
    write("append", 10)
    read = spark.read.format("arrowipc").load(out)
    assert read.dtypes == [("id", "bigint"), ("k", "int")]
    assert sorted((row.id, row.k) for row in read.collect()) == [(i, i % 3) for i in range(20)]
    write("overwrite", 50)
    assert sorted(row.id for row in spark.read.format("arrowipc").load(out).collect()) == list(range(50, 60))
    assert {path.suffix for path in Path(out).rglob("part-*")} == {".arrow"}


def source_of(path: Any, **options: Any) -> ArrowIpcDataSource:
    return ArrowIpcDataSource({"path": str(path), **{name.lower(): str(value) for name, value in options.items()}})


def read_here(path: Any, schema: st.StructType | None = None, **options: Any) -> pa.Table:
    """What the data source gives Spark, without Spark's processes."""
    source = source_of(path, **options)
    schema = schema or source.schema()
    reader = source.reader(schema)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    wanted = arrow_schema_of(schema)
    assert all(batch.schema.equals(wanted) for batch in batches)
    return pa.Table.from_batches(batches, wanted)


def written(path: Path, batches: list[pa.RecordBatch], schema: st.StructType, **options: Any) -> list[Path]:
    writer = source_of(path, **options).writer(schema, False)
    writer.commit([writer.write(iter(batches))])
    return sorted(path.rglob("part-*"))


KEYED = st.StructType().add("id", "long").add("k", "long")


def keyed(ids: range, folders: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "k": pa.array([i % folders for i in ids], pa.int64())})


@pytest.mark.parametrize("folders", [1, 7, 200])
def test_many_folders_of_one_task(tmp_path: Path, folders: int) -> None:
    batches = [keyed(range(first, first + 1000), folders) for first in range(0, 5000, 1000)]
    files = written(tmp_path / "out", batches, KEYED, partitionBy="k")
    assert len(files) == folders if folders < 64 else len(files) >= folders
    assert {file.parent.name for file in files} == {f"k={k}" for k in range(folders)}
    found = read_here(tmp_path / "out")
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(i, i % folders) for i in range(5000)]


def test_rows_of_folders_fill_batches_and_files(tmp_path: Path) -> None:
    batches = [keyed(range(first, first + 10), 2) for first in range(0, 1000, 10)]
    files = written(tmp_path / "out", batches, KEYED, partitionBy="k", batchRows=100, maxRecordsPerFile=150)
    assert len(files) == 8
    lengths = [[batch.num_rows for batch in ipc.open_file(file)] for file in files]
    assert sorted(map(sum, lengths)) == [50, 50, 150, 150, 150, 150, 150, 150]
    assert max(max(each) for each in lengths) <= 100
    first = ipc.open_file(tmp_path / "out" / "k=0" / files[0].name).read_all()
    assert first.to_pydict() == {"id": list(range(0, 300, 2))}


def test_no_rows_in_folders_leave_the_schema(tmp_path: Path) -> None:
    written(tmp_path / "out", [], KEYED, partitionBy="k")
    assert source_of(tmp_path / "out").schema() == KEYED
    written(tmp_path / "out", [keyed(range(4), 2)], KEYED, partitionBy="k")
    assert sorted(read_here(tmp_path / "out")["k"].to_pylist()) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("nix", "partitionBy: there is no column 'nix'; the columns are"),
        ("f", "partitionBy: column 'f' is double"),
        ("a", "partitionBy: column 'a' is array<int>"),
        ("k,k", "partitionBy: each column can be named once"),
        ("k,f,a", "partitionBy"),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, keys: str, words: str) -> None:
    schema = st.StructType().add("k", "long").add("f", "double").add("a", st.ArrayType(st.IntegerType()))
    with pytest.raises(UsageError, match=words):
        source_of(tmp_path / "out", partitionBy=keys).writer(schema, False)
    with pytest.raises(UsageError, match="dictionaryColumns: there is no column 'k'"):
        source_of(tmp_path / "out", partitionBy="k", dictionaryColumns="k").writer(schema, False)
    with pytest.raises(UsageError, match="each column can be named once"):
        source_of(tmp_path / "out", partitionBy="id,k").writer(KEYED, False)
    assert not (tmp_path / "out").exists()


def test_a_write_that_fails_leaves_no_file_open(tmp_path: Path) -> None:
    writer = source_of(tmp_path / "out", partitionBy="k", batchRows=5).writer(KEYED, False)

    def batches() -> Any:
        yield keyed(range(100), 3)
        raise RuntimeError("the row source failed")

    with pytest.raises(RuntimeError, match="row source"):
        writer.write(batches())
    assert not list(tmp_path.rglob("part-*"))
    writer.abort([None])
    assert not (tmp_path / "out").exists()


# -- files that are left out -----------------------------------------------------------------------------------


def put(path: Path, batch: pa.RecordBatch, statistics: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with ipc.new_file(path, statistics=statistics) as writer:
        writer.write(batch)


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """Two days, and a null, of two keys each; the file of a folder says which it is."""
    for name, batch in HIVE.items():
        put(tmp_path / "hive" / f"{name}.arrow", batch)
    return tmp_path / "hive"


def planned(path: Path, filters: Any = (), schema: st.StructType | None = None, **options: Any) -> list[str]:
    """The folders of the files that are planned to be read."""
    source = source_of(path, **options)
    reader: Any = source.reader(schema or source.schema())
    if filters:
        assert reader.pushFilters(list(filters)) == list(filters)
    pieces = [piece.path for partition in reader.partitions() for piece in partition.slices]
    return sorted({os.path.relpath(os.path.dirname(each), path) for each in pieces})


FIRST, SECOND, FEBRUARY, NULL = (os.path.dirname(name) for name in HIVE)
JSON_FILTERS = [
    ('[["dt", "=", "2024-01-01"]]', [FIRST, SECOND]),
    ('["k", "=", 2]', [SECOND]),
    ('[["or", ["dt", ">", "2024-01-31"], ["k", "=", 2]]]', [SECOND, FEBRUARY]),
    ('[[["dt", ">", "2024-01-31"]], [["k", "=", 2]]]', [SECOND, FEBRUARY]),
    ('[["dt", "in", ["2024-02-01", "2030-01-01"]], ["k", "<", 2]]', [FEBRUARY]),
    ('[["dt", "is_null"]]', [NULL]),
    ('[["not", ["dt", "is_null"]], ["k", ">=", 2]]', [SECOND]),
    ('[["nothing", "=", 5]]', []),
]


@FILTERS
@pytest.mark.parametrize(("text", "kept"), JSON_FILTERS)
def test_the_option_filter_leaves_files_out(hive: Path, text: str, kept: list[str]) -> None:
    schema = source_of(hive).schema().add("nothing", "integer")
    assert planned(hive, schema=schema, filter=text) == sorted(kept)
    if kept:
        found = read_here(hive, filter=text)
        assert found.num_rows == sum(len(HIVE[name]) for name in HIVE if os.path.dirname(name) in kept)


@pytest.mark.parametrize("text", ["{", '[["nix", "=", 1]]', '[["k", "~", 1]]', '[["k", "=", "x"]]', '"k"', "[" * 5000])
def test_filters_that_are_none(hive: Path, text: str) -> None:
    with pytest.raises(UsageError, match="filter"):
        planned(hive, filter=text)


def pushed() -> list[tuple[Any, list[str]]]:
    from pyspark.sql.datasource import EqualNullSafe, EqualTo, GreaterThan, In, IsNotNull, IsNull, LessThanOrEqual, Not

    day = dt.date(2024, 1, 1)
    return [
        ([EqualTo(("dt",), day)], [FIRST, SECOND]),
        ([EqualTo(("DT",), day), EqualTo(("k",), 1)], [FIRST]),
        ([GreaterThan(("dt",), day)], [FEBRUARY]),
        ([LessThanOrEqual(("k",), 1), IsNotNull(("dt",))], [FIRST, FEBRUARY]),
        ([In(("dt",), [dt.date(2024, 2, 1), None])], [FEBRUARY]),
        ([Not(In(("k",), [1, 3]))], [SECOND]),
        ([IsNull(("dt",))], [NULL]),
        ([EqualNullSafe(("dt",), None)], [NULL]),
        ([Not(EqualTo(("dt",), day))], [FEBRUARY]),
        ([EqualTo(("id",), 77)], [FIRST, SECOND, FEBRUARY, NULL]),
    ]


@FILTERS
def test_pushed_filters_leave_files_out(hive: Path) -> None:
    for filters, kept in pushed():
        assert planned(hive, filters, pushFilters=True) == sorted(kept), filters
        both = planned(hive, filters, pushFilters=True, filter='[["k", "=", 1]]')
        assert both == sorted(set(kept) & {FIRST, FEBRUARY}), filters


@FILTERS
def test_pushed_filters_in_spark(spark: SparkSession, hive: Path) -> None:
    register(spark)
    for file_ in hive.rglob("*.arrow"):
        if file_.parent != hive / SECOND:
            file_.write_bytes(b"not to be read")
    schema = "id bigint, tag string, dt date, k int"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        read = spark.read.format("arrowipc").option("pushFilters", "true").schema(schema).load(str(hive))
        assert read.where("dt = '2024-01-01' and k in (2, 7)").collect() == [(3, "t3", dt.date(2024, 1, 1), 2)]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    read = spark.read.format("arrowipc").option("filter", '[["k", "=", 2]]').schema(schema).load(str(hive))
    assert read.where("k = 2 or dt > '2030-01-01'").count() == 1


@FILTERS
def test_statistics_of_a_column_that_a_key_replaces_do_not_count(tmp_path: Path) -> None:
    put(tmp_path / "id=7" / "a.arrow", rows(1, 2), statistics=True)
    assert read_here(tmp_path, filter='[["id", "=", 7]]')["id"].to_pylist() == [7, 7]
    assert planned(tmp_path, filter='[["id", "=", 1]]') == []


@FILTERS
def test_files_without_a_column_are_left_out_by_filters_about_it(tmp_path: Path) -> None:
    put(tmp_path / "a" / "a.arrow", rows(1))
    put(tmp_path / "b" / "b.arrow", rows(2, extra=[5]), statistics=True)
    put(tmp_path / "c" / "c.arrow", rows(3, extra=[9]), statistics=True)
    options = {"mergeSchema": True, "filter": '[["extra", ">", 6]]'}
    assert read_here(tmp_path, **options)["id"].to_pylist() == [3]
    assert read_here(tmp_path, mergeSchema=True, filter='[["extra", "is_null"]]')["id"].to_pylist() == [1]


# -- keys that are wrong ---------------------------------------------------------------------------------------


def test_keys_that_are_not_of_the_type_wanted(tmp_path: Path) -> None:
    put(tmp_path / "k=300" / "a.arrow", rows(1))
    for type_, words in (
        ("byte", "k=300.*too large for tinyint"),
        ("date", "the key 'k' is '300'"),
        ("timestamp", "in which time zone"),
        ("binary", "the key 'k' is '300'"),
    ):
        with pytest.raises(UsageError, match=words):
            read_here(tmp_path, st.StructType().add("k", type_))
    put(tmp_path / "k=__HIVE_DEFAULT_PARTITION__" / "a.arrow", rows(1))
    with pytest.raises(UsageError, match="'k' is null, and the schema says"):
        read_here(tmp_path, st.StructType().add("k", "integer", nullable=False))


def test_more_keys_than_anybody_means(tmp_path: Path) -> None:
    for i in range(65):
        put(tmp_path / f"k{i}=1" / "a.arrow", rows(i))
    with pytest.raises(UsageError, match="more than 64 keys"):
        source_of(tmp_path).schema()


def test_base_paths_and_times_that_are_wrong(hive: Path) -> None:
    with pytest.raises(UsageError, match=r"basePath: .* is not below .*nix"):
        source_of(hive, basePath=f"{hive}/nix").schema()
    with pytest.raises(UsageError, match="modifiedAfter: in which time zone"):
        source_of(hive, modifiedAfter="2024-01-01T00:00:00").schema()
    for zone, text in (("Mars/Base", "2024-01-01T00:00:00"), ("UTC", "soon"), ("../etc", "2024-01-01T00:00:00")):
        with pytest.raises(UsageError, match="modifiedBefore: expected a time"):
            source_of(hive, modifiedBefore=text, timeZone=zone).schema()
    with pytest.raises(UsageError, match="no file is left"):
        source_of(hive, modifiedBefore="1990-01-01T00:00:00Z").schema()
    with pytest.raises(UsageError, match="ignoreCorruptFiles: it is mode=DROPMALFORMED"):
        source_of(hive, ignoreCorruptFiles=True, mode="PERMISSIVE").schema()


def test_columns_chosen_by_the_option_may_be_keys(hive: Path) -> None:
    found = read_here(hive / FIRST, columns="k,tag", basePath=hive)
    assert found.to_pylist() == [{"k": 1, "tag": "t1"}, {"k": 1, "tag": "t2"}]
    assert source_of(hive, columns="id").schema().names == ["id"]
    with pytest.raises(UsageError, match="the option columns not"):
        read_here(hive, st.StructType().add("tag", "string"), columns="id")


def test_streams_have_keys_and_write_them(tmp_path: Path) -> None:
    streaming = pytest.importorskip("arrowipc.spark.streaming.source")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    put(tmp_path / "k=1" / "a.arrow", rows(1))
    schema = st.StructType().add("id", "long").add("k", "integer").add("_file", "string")
    reader = streaming.ArrowIpcStreamReader(schema, {"path": str(tmp_path), "withmetadata": "true"})
    found, start = [], reader.initialOffset()
    for i in (2, 3):
        end = reader.latestOffset(start, ReadAllAvailable())
        for partition in reader.partitions(start, end):
            found += [(row["id"], row["k"]) for batch in reader.read(partition) for row in batch.to_pylist()]
        put(tmp_path / f"k={i}" / "a.arrow", rows(i))
        start = end
    assert found == [(1, 1), (2, 2)]


@pytest.mark.slow
def test_a_stream_is_read_from_folders_and_written_into_others(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    for i in range(3):
        put(tmp_path / "in" / f"k={i}" / "a.arrow", rows(i, i + 10))
    frame = spark.readStream.format("arrowipc").schema("id bigint, k int").load(str(tmp_path / "in"))
    writer = frame.writeStream.format("arrowipc").option("partitionBy", "k").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "check")).start(str(tmp_path / "out"))
    query.awaitTermination()
    read = spark.read.format("arrowipc").load(str(tmp_path / "out"))
    assert read.dtypes == [("id", "bigint"), ("k", "int")]
    assert sorted((row.k, row.id) for row in read.collect()) == [(i, i + j) for i in range(3) for j in (0, 10)]


# -- evolution -------------------------------------------------------------------------------------------------


def merged(tmp_path: Path, *types: pa.DataType) -> st.DataType:
    for i, type_ in enumerate(types):
        put(tmp_path / f"{i}.arrow", pa.record_batch({"x": pa.nulls(1, type_)}))
    return source_of(tmp_path, mergeSchema=True).schema()["x"].dataType


PROMOTIONS = [
    ("bigint", pa.int32(), pa.int64()),
    ("int", pa.int8(), pa.uint16(), pa.int32()),
    ("decimal(20,0)", pa.uint64(), pa.int64()),
    ("double", pa.float32(), pa.float64()),
    ("double", pa.int32(), pa.float64()),
    ("float", pa.float32(), pa.int16()),
    ("decimal(13,4)", pa.decimal128(10, 1), pa.decimal128(6, 4)),
    ("decimal(12,2)", pa.int32(), pa.decimal128(5, 2)),
    ("string", pa.null(), pa.dictionary(pa.int8(), pa.large_string()), pa.string_view()),
    ("date", pa.date32(), pa.date64()),
    ("array<bigint>", pa.list_(pa.int32()), pa.large_list(pa.int64())),
    ("map<string,double>", pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64())),
    (
        "struct<a:bigint,B:string,c:int>",
        pa.struct({"a": pa.int32(), "B": pa.string()}),
        pa.struct({"A": pa.int64(), "c": pa.int32()}),
    ),
]


@pytest.mark.parametrize("types", PROMOTIONS, ids=lambda types: types[0])
def test_types_of_several_files(tmp_path: Path, types: Any) -> None:
    assert merged(tmp_path, *types[1:]).simpleString() == types[0]
    assert read_here(tmp_path, mergeSchema=True)["x"].to_pylist() == [None] * (len(types) - 1)


@pytest.mark.parametrize(
    "types",
    [
        (pa.int64(), pa.float64()),
        (pa.string(), pa.int8()),
        (pa.decimal128(38, 0), pa.decimal128(38, 10)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.int32(), pa.float32()),
        (pa.date32(), pa.timestamp("us")),
    ],
    ids=str,
)
def test_types_that_nothing_holds_both_of(tmp_path: Path, types: Any) -> None:
    with pytest.raises(UsageError, match=r"1\.arrow: column 'x' is .* no type holds the values of both"):
        merged(tmp_path, *types)


def test_names_that_differ_in_case_only(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", pa.record_batch({"a": [1], "A": ["x"]}))
    assert source_of(tmp_path).schema().names == ["a", "A"]
    assert read_here(tmp_path).to_pylist() == [{"a": 1, "A": "x"}]
    with pytest.raises(UsageError, match=r"a\.arrow: names that differ in case only do not merge: 'a', 'A'"):
        source_of(tmp_path, mergeSchema=True).schema()


def test_values_keep_their_worth(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", pa.record_batch({"x": pa.array([-5, 7], pa.int16()), "s": [{"a": 1}, None]}))
    put(tmp_path / "b.arrow", pa.record_batch({"X": pa.array([2**40]), "s": [{"b": "new"}]}))
    assert read_here(tmp_path, mergeSchema=True).to_pylist() == [
        {"x": -5, "s": {"a": 1, "b": None}},
        {"x": 7, "s": None},
        {"x": 2**40, "s": {"a": None, "b": "new"}},
    ]
    parts = read_here(tmp_path, mergeSchema=True, columns="s.b")["s"].to_pylist()
    assert parts == [{"b": None}, None, {"b": "new"}]
    with pytest.raises(UsageError, match="no file has a column 'nix'"):
        source_of(tmp_path, mergeSchema=True, columns="x,nix").schema()
    put(tmp_path / "c" / "c.arrow", pa.record_batch({"x": [3]}))
    with pytest.raises(UsageError, match=r"c\.arrow.*'s'.*no nulls"):
        read_here(tmp_path / "c", st.StructType().add("s", st.StructType().add("a", "long"), nullable=False))


# -- which row it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_rows_say_where_they_stand(tmp_path: Path, kind: str) -> None:
    batches = [rows(*range(first, first + 4)) for first in range(0, 20, 4)]
    path = tmp_path / "k=1" / "x.arrow"
    path.parent.mkdir()
    path.write_bytes((file if kind == "file" else stream)(*batches))
    wanted = [{"id": i, "tag": f"t{i}", "k": 1, "_file": str(path), "_batch": i // 4, "_row": i % 4} for i in range(20)]
    for options in ({}, {"batchesPerPartition": 2}, {"rowsPerBatch": 3}):
        assert read_here(tmp_path, withMetadata=True, **options).to_pylist() == wanted
    schema = st.StructType().add("_row", "long").add("id", "long")
    found = read_here(tmp_path, schema, withMetadata=True).to_pylist()
    assert found == [{"_row": i % 4, "id": i} for i in range(20)]
    with pytest.raises(UsageError, match="column '_batch' takes what withMetadata"):
        read_here(tmp_path, st.StructType().add("_batch", "string"), withMetadata=True)


def test_a_column_of_that_name_is_not_replaced(tmp_path: Path) -> None:
    put(tmp_path / "x.arrow", pa.record_batch({"_row": [1]}))
    with pytest.raises(UsageError, match="'_row' of its own"):
        source_of(tmp_path, withMetadata=True).schema()
    with pytest.raises(UsageError, match="'_row' of its own"):
        read_here(tmp_path, st.StructType().add("_row", "long"), withMetadata=True)
    assert read_here(tmp_path).to_pylist() == [{"_row": 1}]


def test_damaged_records_say_where_they_stand(tmp_path: Path) -> None:
    data = file(*[rows(*range(first, first + 4)) for first in range(0, 20, 4)])
    at = data.index(b"t8")
    path = tmp_path / "k=1" / "x.arrow"
    path.parent.mkdir()
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    found = read_here(tmp_path, withMetadata=True, mode="permissive").to_pylist()
    (wrong,) = [row for row in found if row["_corrupt_record"]]
    assert (wrong["_file"], wrong["_batch"], wrong["_row"], wrong["k"], wrong["id"]) == (str(path), 2, None, 1, None)
    assert f"{path}" in wrong["_corrupt_record"]
    assert len(found) == 17
    with pytest.raises(FormatError, match=r"x\.arrow.*record batch 2"):
        read_here(tmp_path)
    assert read_here(tmp_path, ignoreCorruptFiles=True).num_rows == 16


TIMES: list[tuple[pa.DataType, int]] = [
    (pa.time32("s"), 86_400),
    (pa.time32("ms"), -1),
    (pa.time64("us"), 86_400 * 10**6),
    (pa.time64("ns"), 86_400 * 10**9),
]


@pytest.mark.parametrize(("type_", "value"), TIMES, ids=lambda each: str(each))
def test_times_that_spark_cannot_hold_are_named_before_they_are_handed_over(
    tmp_path: Path, type_: pa.DataType, value: int
) -> None:
    if OLD_SPARK:
        pytest.skip("Spark has a type for times from 4.1 on")
    storage = pa.int32() if type_.bit_width == 32 else pa.int64()
    good = pa.array([0, 1000, None], storage).view(type_)
    wrong = pa.array([0, value, None], storage).view(type_)
    batches = [pa.record_batch({"id": [1, 2, 3], "at": each}) for each in (good, wrong)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    seconds = value / {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
    with pytest.raises(UnsupportedError, match=rf"x\.arrow: record batch 1: column 'at' .*{seconds:.6f} s"):
        read_here(tmp_path)
    assert read_here(tmp_path, mode="DROPMALFORMED")["id"].to_pylist() == [1, 2, 3]
    (row,) = [row for row in read_here(tmp_path, mode="PERMISSIVE").to_pylist() if row["_corrupt_record"]]
    assert "record batch 1" in row["_corrupt_record"]


@pytest.mark.parametrize(("precision", "scale"), [(5, 2), (38, 0), (38, 38)])
def test_decimals_with_too_many_digits_are_named(tmp_path: Path, precision: int, scale: int) -> None:
    type_ = pa.decimal128(precision, scale)

    def decimals(*values: int) -> pa.RecordBatch:
        data = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
        return pa.record_batch({"d": pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(data)])})

    most = 10**precision - 1
    (tmp_path / "x.arrow").write_bytes(file(decimals(most, -most), decimals(0, -most - 1)))
    with pytest.raises(UnsupportedError, match=r"x\.arrow: record batch 1: column 'd' holds .*more than the digits"):
        read_here(tmp_path)
    assert read_here(tmp_path, mode="DROPMALFORMED").num_rows == 2


def test_spark_says_file_batch_and_column(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    batches = [pa.record_batch({"n": pa.array([i], pa.int64())}) for i in (1, 2**40)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    with pytest.raises(Exception, match=r"x\.arrow: record batch 1: column 'n'"):
        spark.read.format("arrowipc").schema("n int").load(str(tmp_path)).collect()
