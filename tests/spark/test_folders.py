"""Folders read as Spark reads those of Parquet: the same rows in both formats, read with the same options."""

from __future__ import annotations

import logging
import pickle
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.arrow_columns import OLD_SPARK, file, stream
from helpers.python_source import FORMAT, given, register_python
from pyspark.sql import types as st

from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.spark.types import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Files = dict[str, Any]


def rows(*ids: int, **more: Any) -> pa.RecordBatch:
    columns = {"id": pa.array(ids, pa.int64()), "tag": [f"t{each}" for each in ids]}
    return pa.record_batch({**columns, **more})


class Twins:
    """A folder of Arrow files and one of Parquet files, with the same names and rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folders = {FORMAT: folder / "arrow", "parquet": folder / "parquet"}

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
    register_python(spark)
    return Twins(spark, tmp_path)


def described(frame: DataFrame, in_order: bool = True) -> tuple[Any, ...]:
    """Columns, their types and the rows of a frame."""
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    names = sorted(frame.columns)
    found = sorted(map(str, [[row[name] for name in names] for row in frame.collect()]))
    return types if in_order else sorted(types), found


def put(path: Path, *batches: pa.RecordBatch) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file(*batches))


def read_here(path: Any, schema: st.StructType | None = None, **options: Any) -> pa.Table:
    """What the data source gives Spark, checked as Spark checks it, without Spark's processes."""
    source = given(path, **options)
    schema = schema or source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    wanted = arrow_schema_of(schema)
    batches = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert batch.schema.equals(wanted)
            batches.append(batch)
    return pa.Table.from_batches(batches, wanted)


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
    assert found[FORMAT] == found["parquet"]
    assert found[FORMAT][1]


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
    assert found[FORMAT] == found["parquet"]
    assert found[FORMAT][1]


def test_files_that_vanish_after_planning(twins: Twins) -> None:
    twins.put({str(i): rows(i) for i in range(3)})
    counts = {}
    for kind, folder in twins.folders.items():
        frame = twins.spark.read.format(kind).option("ignoreMissingFiles", "true").load(str(folder))
        (folder / "1").unlink()
        counts[kind] = frame.count()
    assert counts == {FORMAT: 2, "parquet": 2}


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
        given(tmp_path).schema()


def test_base_paths_that_are_wrong(tmp_path: Path) -> None:
    put(tmp_path / "k=1" / "a.arrow", rows(1))
    with pytest.raises(UsageError, match=r"basePath: .* is not below .*nix"):
        given(tmp_path, basePath=f"{tmp_path}/nix").schema()


def test_columns_chosen_by_the_option_may_be_keys(tmp_path: Path) -> None:
    put(tmp_path / "dt=2024-01-01" / "k=1" / "a.arrow", rows(1, 2))
    found = read_here(tmp_path / "dt=2024-01-01", columns="k,tag", basePath=tmp_path)
    assert found.to_pylist() == [{"k": 1, "tag": "t1"}, {"k": 1, "tag": "t2"}]
    assert given(tmp_path, columns="id").schema().names == ["id"]
    with pytest.raises(UsageError, match="column 'tag' of the schema is not in the option columns"):
        read_here(tmp_path, st.StructType().add("tag", "string"), columns="id")


# -- types of several files ---------------------------------------------------------------------------------


def merged(tmp_path: Path, *types: pa.DataType) -> st.DataType:
    for i, type_ in enumerate(types):
        put(tmp_path / f"{i}.arrow", pa.record_batch({"x": pa.nulls(1, type_)}))
    return given(tmp_path, mergeSchema=True).schema()["x"].dataType


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
    assert given(tmp_path).schema().names == ["a", "A"]
    assert read_here(tmp_path).to_pylist() == [{"a": 1, "A": "x"}]
    with pytest.raises(UsageError, match=r"a\.arrow: names that differ in case only do not merge: 'a', 'A'"):
        given(tmp_path, mergeSchema=True).schema()


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
        given(tmp_path, mergeSchema=True, columns="x,nix").schema()
    put(tmp_path / "c" / "c.arrow", pa.record_batch({"x": [3]}))
    with pytest.raises(UsageError, match=r"c\.arrow.*'s'.*no nulls"):
        read_here(tmp_path / "c", st.StructType().add("s", st.StructType().add("a", "long"), nullable=False))


# -- damage and what is gone -----------------------------------------------------------------------------------


def damaged(data: bytes, text: bytes) -> bytes:
    """A file in which a text is no UTF-8 any more."""
    return data.replace(text, b"\xff" + text[1:])


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("most", [400, 1 << 20])
def test_what_is_before_the_damage_is_read(
    tmp_path: Path, kind: str, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    encode = file if kind == "file" else stream
    data = encode(*[rows(*range(first, first + 4)) for first in range(10, 30, 4)])
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1/x.arrow").write_bytes(damaged(data, b"t18"))
    put(tmp_path / "k=2/y.arrow", rows(99))
    with pytest.raises(FormatError, match=r"x\.arrow.*'tag'"):
        read_here(tmp_path, maxPartitionBytes=most)
    with caplog.at_level(logging.WARNING, "arrowipc.spark"):
        found = read_here(tmp_path, ignoreCorruptFiles=True, maxPartitionBytes=most)["id"].to_pylist()
    assert {*range(10, 18), 99} <= {*found}
    assert not {18, 19, 20, 21} & {*found}
    assert "x.arrow" in caplog.text


@pytest.mark.parametrize("garbage", [b"hello, world", b"", file(rows(1))[:-100], b"ARROW1\0\0" + b"\xff" * 500])
def test_files_that_are_none(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "1.arrow").write_bytes(garbage)
    with pytest.raises(FormatError, match=r"1\.arrow"):
        given(tmp_path, ignoreCorruptFiles=True).schema()
    put(tmp_path / "2.arrow", rows(1))
    assert read_here(tmp_path, ignoreCorruptFiles=True)["id"].to_pylist() == [1]
    with pytest.raises(FormatError, match=r"1\.arrow"):
        read_here(tmp_path)


def test_a_file_that_changes_after_it_was_planned(tmp_path: Path) -> None:
    put(tmp_path / "x.arrow", *[rows(*range(500))] * 4)
    reader = given(tmp_path, maxPartitionBytes="8k").reader(st.StructType().add("id", "long"))
    first, *_ = reader.partitions()
    put(tmp_path / "x.arrow", rows(1))
    with pytest.raises(OSError, match="changed after it was planned"):
        list(reader.read(first))


# -- values that Spark cannot hold -----------------------------------------------------------------------------


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


def test_spark_says_file_batch_and_column(spark: SparkSession, tmp_path: Path) -> None:
    register_python(spark)
    batches = [pa.record_batch({"n": pa.array([i], pa.int64())}) for i in (1, 2**40)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    with pytest.raises(Exception, match=r"x\.arrow: record batch 1: column 'n'"):
        spark.read.format(FORMAT).schema("n int").load(str(tmp_path)).collect()
