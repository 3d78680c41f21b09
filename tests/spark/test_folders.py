"""Folders read as Spark reads those of Parquet: the Python data source gives the same columns and rows."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.arrow_columns import file, stream
from helpers.spark import given, put, read_here
from pyspark.sql import SparkSession, types as st

from arrowipc.errors import UsageError

pytestmark = pytest.mark.spark

Files = dict[str, Any]


def rows(*ids: int, **more: Any) -> pa.RecordBatch:
    columns = {"id": pa.array(ids, pa.int64()), "tag": [f"t{each}" for each in ids]}
    return pa.record_batch({**columns, **more})


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
NARROW: Files = {"1": pa.record_batch({"i": pa.array([1, -5], pa.int32()), "f": pa.array([1.5, 2], pa.float32())})}


class Case(NamedTuple):
    """Files, what is read of them, and how."""

    files: Files
    paths: tuple[str, ...] = ("",)
    options: Mapping[str, str] = MappingProxyType({})
    schema: str | None = None


CASES = {
    "keys": Case(HIVE),
    "a folder within": Case(HIVE, ("dt=2024-01-01",)),
    "several folders": Case(HIVE, ("dt=2024-01-01/k=1", "dt=2024-01-01/k=2")),
    "a pattern": Case(HIVE, ("dt=2024-02-*",)),
    "a pattern of files": Case(HIVE, ("*/*/a",)),
    "a file": Case(HIVE, ("dt=2024-01-01/k=2/b",)),
    "basePath": Case(HIVE, ("dt=2024-01-01",), {"basePath": "FOLDER"}),
    "basePath of patterns": Case(HIVE, ("dt=2024-*/k=1",), {"basePath": "FOLDER"}),
    "basePath of a file": Case(HIVE, ("dt=2024-01-01/k=2/b",), {"basePath": "FOLDER"}),
    "numbers": Case({f"i={i}/l={i * 10**10}/r={i}.5/x": rows(i) for i in range(3)}),
    "kinds that do not go together": Case({f"k={k}/x": rows(1) for k in ("1", "2024-01-01", "a b")}),
    "whole and broken numbers": Case({f"k={k}/x": rows(1) for k in ("1", "2.5", "-.25")}),
    "names that are escaped": Case({f"a%3Db={k}/x": rows(1) for k in ("x%2Fy", "100%25", "é ü", "%7B1%7D")}),
    "a key that is a column": Case({f"id={k}/x": rows(9) for k in (1, 2)}),
    "keys that begin with _": Case({"_k=1/x": rows(1), "_k=2/y": rows(2), "_k=2/_z": rows(3)}),
    "only nulls": Case({"k=__HIVE_DEFAULT_PARTITION__/x": rows(1)}),
    "hidden": Case({"a": rows(1), "_b": rows(2), ".c": rows(3), "d._COPYING_": rows(4), "_e/f": rows(5)}),
    "any depth": Case(NESTED, options={"recursiveFileLookup": "true"}),
    "any depth, no keys": Case(HIVE, options={"recursiveFileLookup": "true"}),
    "one level": Case(NESTED, options={"recursiveFileLookup": "false"}),
    "names in braces": Case(NESTED, options={"pathGlobFilter": "{a,b*,c}", "recursiveFileLookup": "true"}),
    "columns that are new": Case(WIDER, options={"mergeSchema": "true"}),
    "the first file's columns": Case(WIDER),
    "what is no file of ours": Case(
        {"a": rows(1), "b": b"neither Arrow nor Parquet", "c": rows(3)}, options={"ignoreCorruptFiles": "true"}
    ),
    "a schema in another order": Case(HIVE, schema="tag string, id bigint, k int, dt date"),
    "keys of other types": Case(HIVE, schema="id bigint, k bigint, dt string"),
    "missing": Case(WIDER, schema="id bigint, nix string, extra double, never array<struct<a:int>>"),
    "missing in a struct": Case(WIDER, schema="st struct<y:string,x:bigint,z:int>"),
    "nothing that is there": Case(WIDER, schema="nix string"),
    "wider": Case(NARROW, schema="i bigint, f double"),
}


def described(schema: st.StructType, table: pa.Table, in_order: bool) -> Any:
    """Columns with their types, and the rows."""
    types = [(field.name, field.dataType.simpleString()) for field in schema]
    return types if in_order else sorted(types), sorted(str(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_parquet(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files, paths, options, ddl = CASES[name]
    arrow, parquet = tmp_path / "arrow", tmp_path / "parquet"
    for number, (path, content) in enumerate(files.items()):
        for folder in (arrow, parquet):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            data = content
            (parquet / path).write_bytes(content)
        else:
            data = (file if number % 2 else stream)(content)
            pq.write_table(pa.Table.from_batches([content]), parquet / path)
        (arrow / path).write_bytes(data)
    schema = st.StructType.fromDDL(ddl) if ddl else None
    twin = spark.read.options(**{key: text.replace("FOLDER", str(parquet)) for key, text in options.items()})
    frame = (twin.schema(schema) if schema else twin).parquet(*(f"{parquet}/{path}" for path in paths))
    expected = described(frame.schema, frame.toArrow(), ddl is None)
    where = [f"{arrow}/{path}" for path in paths]
    texts = {key: text.replace("FOLDER", str(arrow)) for key, text in options.items()}
    found = read_here(where, schema, **texts)
    assert described(schema or given(where, **texts).schema(), found, ddl is None) == expected
    assert found.num_rows


# Keys, folders and columns that are wrong.


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


def test_folders_that_are_refused(tmp_path: Path) -> None:
    for i in range(65):
        put(tmp_path / "many" / f"k{i}=1" / "a.arrow", rows(i))
    with pytest.raises(UsageError, match="more than 64 keys"):
        given(tmp_path / "many").schema()
    with pytest.raises(UsageError, match=r"basePath: .* is not below .*nix"):
        given(tmp_path / "many/k1=1", basePath=f"{tmp_path}/nix").schema()
    with pytest.raises(UsageError, match="lies in a folder that is no key: add recursiveFileLookup=true"):
        given(tmp_path).schema()


def test_columns_are_chosen_by_an_option(tmp_path: Path) -> None:
    folder = put(tmp_path / "dt=2024-01-01" / "k=1" / "a.arrow", rows(1, 2)).parents[1]
    found = read_here(folder, columns="k,tag", basePath=tmp_path)
    assert found.to_pylist() == [{"k": 1, "tag": "t1"}, {"k": 1, "tag": "t2"}]
    with pytest.raises(UsageError, match="column 'tag' of the schema is not in the option columns"):
        read_here(folder, st.StructType().add("tag", "string"), columns="id")
    odd = put(tmp_path / "odd.arrow", pa.record_batch({"a": [1], "b.c": [2], "s": [{"x": 1, "y": 2}], "T": ["t"]}))
    for columns, row in (("T, a", {"T": "t", "a": 1}), ('["b.c", "T"]', {"b.c": 2, "T": "t"})):
        assert read_here(odd, columns=columns).to_pylist() == [row]
    assert read_here(odd, columns="T,s.y").to_pylist() == [{"T": "t", "s": {"y": 2}}]
    with pytest.raises(UsageError, match=r"odd\.arrow.*nix"):
        given(odd, columns="T,nix").schema()
    with pytest.raises(UsageError, match=r"odd\.arrow.*'z'.*no nulls"):
        read_here(odd, st.StructType().add("z", "integer", False))


# Types of several files.


MERGED = {
    "bigint": (pa.int32(), pa.int64()),
    "int": (pa.int8(), pa.uint16(), pa.int32()),
    "decimal(20,0)": (pa.uint64(), pa.int64()),
    "double": (pa.float32(), pa.float64(), pa.int32()),
    "float": (pa.float32(), pa.int16()),
    "decimal(13,4)": (pa.decimal128(10, 1), pa.decimal128(6, 4)),
    "decimal(12,2)": (pa.int32(), pa.decimal128(5, 2)),
    "string": (pa.null(), pa.dictionary(pa.int8(), pa.large_string()), pa.string_view()),
    "date": (pa.date32(), pa.date64()),
    "array<bigint>": (pa.list_(pa.int32()), pa.large_list(pa.int64())),
    "map<string,double>": (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64())),
    "struct<a:bigint,B:string,c:int>": (
        pa.struct({"a": pa.int32(), "B": pa.string()}),
        pa.struct({"A": pa.int64(), "c": pa.int32()}),
    ),
}
CLASHING = (
    (pa.int64(), pa.float64()),
    (pa.string(), pa.int8()),
    (pa.decimal128(38, 0), pa.decimal128(38, 10)),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.int32(), pa.float32()),
    (pa.date32(), pa.timestamp("us")),
)


@pytest.mark.parametrize(
    ("merged", "types"), [*MERGED.items(), *((None, types) for types in CLASHING)], ids=lambda each: str(each)[:40]
)
def test_types_of_several_files(tmp_path: Path, merged: str | None, types: tuple[pa.DataType, ...]) -> None:
    for number, type_ in enumerate(types):
        put(tmp_path / f"{number}.arrow", pa.record_batch({"x": pa.nulls(1, type_)}))
    if merged is None:
        with pytest.raises(UsageError, match=r"1\.arrow: column 'x' is .* no type holds the values of both"):
            given(tmp_path, mergeSchema=True).schema()
    else:
        assert given(tmp_path, mergeSchema=True).schema()["x"].dataType.simpleString() == merged
        assert read_here(tmp_path, mergeSchema=True)["x"].to_pylist() == [None] * len(types)


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


def test_names_that_differ_in_case_only(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", pa.record_batch({"a": [1], "A": ["x"]}))
    assert read_here(tmp_path).to_pylist() == [{"a": 1, "A": "x"}]
    with pytest.raises(UsageError, match=r"a\.arrow: names that differ in case only do not merge: 'a', 'A'"):
        given(tmp_path, mergeSchema=True).schema()
