"""Reading with the Python data source: types, paths, projection, tasks, options, errors."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers import spark_errors
from helpers.arrow_columns import COLUMNS, everything, expected, file, stream
from helpers.python_source import FORMAT, given, register_python
from helpers.variants import VARIANT, extension_streams
from pyspark.sql import types as st

import arrowipc
from arrowipc.columns.variant import Names, variant_value
from arrowipc.errors import UsageError
from arrowipc.read.files import FoundFile, find_files
from arrowipc.spark import ArrowIpcDataSource, count_rows, describe, to_spark_schema
from arrowipc.spark.options import REFUSED, TABLE, USE_THE_JAR, explained, options_resource
from arrowipc.spark.read.reader import OPEN_COST, TASK_COST, cut
from arrowipc.spark.read.sources import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register_python(spark)


def read(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    return spark.read.format(FORMAT).options(**options).load(str(path) if isinstance(path, Path) else path)


def numbers(start: int, stop: int) -> pa.RecordBatch:
    words = [f"t{number % 3}" for number in range(start, stop)]
    return pa.record_batch({"id": pa.array(range(start, stop), pa.int64()), "tag": pa.array(words, pa.string())})


def failure(frame_maker: Any) -> str:
    """Return what Spark says when the read fails, on load or on collect."""
    return spark_errors.failure(lambda: frame_maker().collect())


# Types.


def test_extension_types_as_spark_has_them(spark: SparkSession, tmp_path: Path) -> None:
    expected = {
        "arrow.uuid": ("string", "30313233-3435-3637-3839-616263646566"),
        "arrow.bool8": ("boolean", True),
        "arrow.json": ("string", '{"a": [1, {}]}'),
        "arrow.parquet.variant": ("variant", VARIANT),
        "arrow.timestamp_with_offset": ("timestamp", dt.datetime(2005, 9, 5, 5, 58, 26, 842624)),
        "arrow.fixed_shape_tensor": ("array<tinyint>", [1, 2]),
    }
    for data in extension_streams():
        path = tmp_path / "x.arrows"
        path.write_bytes(data)
        name = arrowipc.read_schema(data)[0].extension_name
        kind, value = expected[name]
        frame = read(spark, path, extensions="true")
        assert [found for _, found in frame.dtypes] == [kind, f"array<{kind}>"]
        rows = frame.collect()
        plain = [
            [each.toPython() if hasattr(each, "toPython") else each for each in (row.x, *(row.y or []))] for row in rows
        ]
        assert plain == [[value, value, None], [None], [value]]
        assert read(spark, path).schema == to_spark_schema(arrowipc.read_schema(data))
        if kind == "variant":
            assert frame.selectExpr("variant_get(x, '$.a[4].\u00e9', 'boolean') e").first().e is True
            assert frame.select("x").where("x is null").count() == 1


def test_variants_that_spark_makes_are_the_same_values(spark: SparkSession) -> None:
    simple = """timestamp'1969-12-31 23:59:59.5'; timestamp_ntz'2024-01-01 00:00:00'; date'0001-01-01'; 1.50; 1e300
        ; true; cast(-0.5 as float); X'ff00'; 12345678901234567890.12; 5Y; 500S; 70000; 12345678901; 'é'; null"""
    parts = [f"cast({each} as variant)" for each in simple.split(";")]
    nested = "to_variant_object(struct(array(1, null), 'x')), parse_json('{\"b\": [1, {}], \"a\": null}')"
    (row,) = spark.sql(f"select {', '.join(parts)}, {nested}").collect()
    values = [each for each in row if each is not None]
    assert len(values) >= 16
    for each in values:
        assert variant_value(Names(bytes(each.metadata)), bytes(each.value), lambda *_: None) == each.toPython()


@pytest.mark.parametrize(("encode", "name"), [(file, "all.arrow"), (stream, "all.arrows")])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_every_type(spark: SparkSession, tmp_path: Path, encode: Any, name: str, compression: str | None) -> None:
    (tmp_path / name).write_bytes(encode(everything(), everything().slice(1), compression=compression))
    frame = read(spark, tmp_path)
    assert frame.schema == to_spark_schema(everything().schema)
    assert [kind for _, kind in frame.dtypes] == [column.spark for column in COLUMNS.values()]
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    wanted = expected() + expected()[1:]
    for found, row in zip(rows, wanted, strict=True):
        for column, value in row.items():
            assert found[column] == _as_python(value, COLUMNS[column]), column


def _as_python(value: Any, column: Any) -> Any:
    """Return a value of `expected` as Spark's rows hold it."""
    if column.spark.startswith("map") and value is not None:
        return dict(value)
    if column.spark == "timestamp" and value is not None:
        return value.astimezone().replace(tzinfo=None)
    return value


def test_half_and_large_unsigned_survive_arithmetic(spark: SparkSession, tmp_path: Path) -> None:
    batch = pa.record_batch({"u": pa.array([2**64 - 1, 1], pa.uint64())})
    (tmp_path / "u.arrow").write_bytes(file(batch))
    assert read(spark, tmp_path).selectExpr("sum(u)").collect()[0][0] == Decimal(2**64)


def test_options_for_types(spark: SparkSession, tmp_path: Path) -> None:
    batch = pa.record_batch({"at": pa.array([1_999], pa.timestamp("ns")), "id": [1]})
    (tmp_path / "t.arrow").write_bytes(file(batch))
    message = failure(lambda: read(spark, tmp_path))
    assert "t.arrow" in message
    assert "column 'at'" in message
    assert 'nanoseconds="truncate"' in message
    assert read(spark, tmp_path, nanoseconds="long").collect() == [(1_999, 1)]
    long = pa.record_batch({"d": pa.array([Decimal("1.5")], pa.decimal256(50, 1)), "id": [1]})
    (tmp_path / "t.arrow").write_bytes(file(long))
    assert 'unsupported="drop"' in failure(lambda: read(spark, tmp_path))
    assert read(spark, tmp_path, unsupported="drop").collect() == [(1,)]
    assert read(spark, tmp_path, unsupported="string").collect() == [("1.5", 1)]


# Paths.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with two files and a stream in three levels, and things that are not data."""
    (tmp_path / "year=2023" / "deep").mkdir(parents=True)
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "a.arrow").write_bytes(file(numbers(0, 10)))
    (tmp_path / "year=2023" / "b.arrow").write_bytes(file(numbers(10, 20)))
    (tmp_path / "year=2023" / "deep" / "c.arrows").write_bytes(stream(numbers(20, 30)))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".a.arrow.crc").write_bytes(b"crc")
    (tmp_path / "_temporary" / "d.arrow").write_bytes(b"half")
    return tmp_path


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def test_directories(spark: SparkSession, tree: Path) -> None:
    assert ids(read(spark, tree, recursiveFileLookup=True)) == list(range(30))
    assert ids(read(spark, tree, pathGlobFilter="*.arrow", recursiveFileLookup=True)) == list(range(20))
    # As Spark's own formats: of folders only those that are keys.
    assert ids(read(spark, tree)) == list(range(20))
    with pytest.raises(UsageError, match="lies in a folder that is no key: add recursiveFileLookup=true"):
        given(tree / "year=2023", pathGlobFilter="*.arrows").schema()


@pytest.mark.parametrize(
    ("pattern", "stop"),
    [
        ("*.arrow", 10),
        ("**/*.arrow", 20),
        ("**/*", 30),
        ("{a,x}.arrow", 10),
        ("{a.arrow,year=*/b.arrow}", 20),
    ],
)
def test_patterns(tree: Path, pattern: str, stop: int) -> None:
    found = find_files([str(tree / pattern)])
    assert len(found) * 10 == stop
    assert len(set(found)) == len(found)


def test_lists_and_urls(spark: SparkSession, tree: Path) -> None:
    paths = [str(tree / "a.arrow"), f"file://{tree}/year%3D2023/b.arrow"]
    assert ids(read(spark, paths)) == list(range(20))
    assert ids(spark.read.format(FORMAT).load(paths=json.dumps(paths))) == list(range(20))


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, ["needs a path"]),
        ({"path": "/no/such/place"}, ["/no/such/place: no such file"]),
        ({"path": "s3://bucket/x.arrow"}, ["s3://bucket/x.arrow", USE_THE_JAR]),
        ({"paths": "a,b"}, ["paths", "JSON"]),
    ],
)
def test_paths_that_are_none(options: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        ReadOptions.of(options).files()
    assert all(part in str(caught.value) for part in parts)


# Projection.


def test_columns(spark: SparkSession, tmp_path: Path) -> None:
    batch = pa.record_batch({"a": [1], "b.c": [2], "s": [{"x": 1, "y": 2}], "tag": ["t"]})
    (tmp_path / "x.arrow").write_bytes(file(batch))
    assert read(spark, tmp_path, columns="tag, a").collect() == [("t", 1)]
    assert read(spark, tmp_path, columns='["b.c", "tag"]').columns == ["b.c", "tag"]
    assert read(spark, tmp_path, columns="tag,s.y").collect() == [("t", (2,))]
    message = failure(lambda: read(spark, tmp_path, columns="tag,nix"))
    assert "nix" in message
    assert "x.arrow" in message


def test_schema_of_the_users(spark: SparkSession, tmp_path: Path) -> None:
    batch = pa.record_batch({"a": pa.array([1], pa.uint8()), "s": [{"x": 1, "y": 2}], "tag": ["t"]})
    (tmp_path / "x.arrows").write_bytes(stream(batch))
    frame = spark.read.format(FORMAT).schema("TAG string, s struct<y int>, a bigint not null").load(str(tmp_path))
    assert frame.collect() == [("t", (2,), 1)]
    assert spark.read.format(FORMAT).schema("nix int").load(str(tmp_path)).collect() == [(None,)]
    message = failure(lambda: spark.read.format(FORMAT).schema("tag int").load(str(tmp_path)))
    assert "column 'tag'" in message


def test_files_of_different_schemas(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.arrow").write_bytes(file(pa.record_batch({"id": [1], "tag": ["a"]})))
    other = pa.record_batch({"tag": ["b"], "more": [0], "id": pa.array([2], pa.int8())})
    (tmp_path / "2.arrow").write_bytes(file(other))
    assert sorted(read(spark, tmp_path).collect()) == [(1, "a"), (2, "b")]
    (tmp_path / "3.arrow").write_bytes(file(pa.record_batch({"id": [3]})))
    assert sorted(read(spark, tmp_path).collect())[2:] == [(3, None)]


# Tasks.


@pytest.mark.parametrize("sizes", [[], [0], [1], [10**9], [5, 0, 10**8, 3], [1000] * 2000, [None, 7]])
@pytest.mark.parametrize("most", [1 << 10, 1 << 20, 1 << 27])
def test_every_byte_belongs_to_one_task(sizes: list[int | None], most: int) -> None:
    files = [FoundFile(f"/{number}", size, "") for number, size in enumerate(sizes)]
    if sum(size or 0 for size in sizes) // most > 10_000:
        pytest.skip("too many tasks")
    tasks = cut(files, most)
    pieces = [piece for task in tasks for piece in task]
    assert [piece.path for piece in pieces] == sorted((piece.path for piece in pieces), key=lambda path: int(path[1:]))
    for found in files:
        ranges = [(piece.start, piece.stop) for piece in pieces if piece.path == found.path]
        if ranges == [(0, None)]:
            continue
        assert (ranges[0][0], ranges[-1][1]) == (0, found.size)
        assert all(before[1] == after[0] for before, after in pairwise(ranges))
    for task in tasks:
        weights = [(piece.stop or files[int(piece.path[1:])].size or 0) - piece.start + OPEN_COST for piece in task]
        assert sum(weights[:-1]) < max(most, TASK_COST)


def test_files_are_split_at_batches(spark: SparkSession, tmp_path: Path) -> None:
    batches = [numbers(start, start + 100) for start in range(0, 1000, 100)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    (tmp_path / "y.arrows").write_bytes(stream(numbers(1000, 1100), numbers(1100, 1200)))
    frame = read(spark, tmp_path, maxPartitionBytes="2k")
    assert frame.rdd.getNumPartitions() > 5
    assert ids(frame) == list(range(1200))
    assert [row["id"] for row in frame.collect()] == list(range(1200))
    assert read(spark, tmp_path).rdd.getNumPartitions() == 1


def test_dictionary_deltas_across_tasks(spark: SparkSession, tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(6)]
    batches = [
        pa.record_batch({"word": pa.DictionaryArray.from_arrays(pa.array([number, 0]), pa.array(words[: number + 1]))})
        for number in range(6)
    ]
    (tmp_path / "x.arrow").write_bytes(file(*batches, emit_dictionary_deltas=True))
    frame = read(spark, tmp_path, maxPartitionBytes=500)
    assert frame.rdd.getNumPartitions() > 3
    assert sorted(row["word"] for row in frame.collect()) == sorted(words + ["w0"] * 6)


def test_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    for make, name in ((pa.ipc.new_file, "x.arrow"), (pa.ipc.new_stream, "y.arrows")):
        sink = pa.BufferOutputStream()
        make(sink, numbers(0, 0).schema).close()
        (tmp_path / name).write_bytes(sink.getvalue().to_pybytes())
        assert read(spark, tmp_path).collect() == []
    (tmp_path / "z.arrow").write_bytes(file(numbers(0, 0), numbers(0, 1)))
    assert read(spark, tmp_path).collect() == [(0, "t0")]
    (tmp_path / "empty").mkdir()
    empty = spark.read.format(FORMAT).schema("id long").load(str(tmp_path / "empty"))
    assert empty.collect() == []
    assert "give one with schema" in failure(lambda: read(spark, tmp_path / "empty"))


def test_large_batches_come_in_parts_and_limits_stop_early(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 100_000)))
    parts = list(given(tmp_path).reader(IDS).read(given(tmp_path).reader(IDS).partitions()[0]))
    assert [part.num_rows for part in parts] == [32_768] * 3 + [1696]
    assert len(read(spark, tmp_path).limit(3).collect()) == 3


def test_files_are_described_without_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5), numbers(5, 12)))
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1/y.arrows").write_bytes(stream(numbers(0, 3)))
    rows = [tuple(row) for row in describe(spark, str(tmp_path)).orderBy("file").collect()]
    sizes = [(tmp_path / name).stat().st_size for name in ("k=1/y.arrows", "x.arrow")]
    assert rows == [
        (f"{tmp_path}/k=1/y.arrows", "stream", sizes[0], 1, 3),
        (f"{tmp_path}/x.arrow", "file", sizes[1], 2, 12),
    ]
    (tmp_path / "z.arrow").write_bytes(b"damaged")
    assert count_rows(spark, [str(tmp_path)], ignoreCorruptFiles=True) == 15
    assert "z.arrow" in failure(lambda: count_rows(spark, str(tmp_path)))
    assert count_rows(spark, str(tmp_path), pathGlobFilter="*.arrows") == 3


# How Spark finds the data source, and what it says.


def test_spark_finds_it_without_help(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5)))
    assert ids(spark.newSession().read.format("arrowipc").load(str(tmp_path))) == list(range(5))


def test_views(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5)))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW numbers USING {FORMAT} OPTIONS (path '{tmp_path}', columns 'id')")
    assert spark.sql("SELECT sum(id) FROM numbers").collect()[0][0] == 10


IDS = st.StructType([st.StructField("id", st.LongType()), st.StructField("tag", st.StringType())])
# What Spark asks a data source for.
ASKED = {
    "read": lambda source: source.reader(IDS),
    "schema": lambda source: source.schema(),
    "readStream": lambda source: source.streamReader(IDS),
    "write": lambda source: source.writer(IDS, False),
    "writeStream": lambda source: source.streamWriter(IDS, False),
}
VALUES = {"flag": "TRUE", "count": "1", "bytes": "4m", "names": "id", "text": "*"}


def uses(asked: str) -> str:
    return "write" if "write" in asked else "read"


@pytest.mark.parametrize("asked", ASKED)
def test_options_belong_to_what_heeds_them(tmp_path: Path, asked: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.arrow").write_bytes(file(numbers(0, 5)))
    for option in TABLE:
        value = VALUES.get(option.type) or option.type.split("|")[-1]
        value = f"{tmp_path}/in" if option.name == "basePath" else value
        name = option.name.replace("NAME", "anon").lower()
        options = {"path": str(tmp_path / ("in" if uses(asked) == "read" else "out")), name: value}
        if option.name in ("format", "statistics"):
            options["format"] = "file"
        mine = [each for each in TABLE if each.name == option.name and each.use == uses(asked)]
        if (mine and mine[0].side != "jvm") or name.startswith("storage."):
            ASKED[asked](ArrowIpcDataSource(options))
        else:
            with pytest.raises(UsageError, match=f"option {option.name}: "):
                ASKED[asked](ArrowIpcDataSource(options))


@pytest.mark.parametrize("asked", ASKED)
def test_options_that_it_has_not_are_refused_with_what_to_do(tmp_path: Path, asked: str) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5)))
    asks = {
        "xyzzy": f"no option 'xyzzy' for {uses(asked)}",
        "formatt": "did you mean 'format'?",
        "modifiedaftr": "did you mean 'modifiedAfter'?",
        **{name.lower(): f"option {name}: {USE_THE_JAR}" for name in REFUSED},
    }
    for name, words in asks.items():
        with pytest.raises(UsageError) as caught:
            ASKED[asked](ArrowIpcDataSource({"path": str(tmp_path), name: "dynamic"}))
        assert words in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["x.arrow"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("format", "feather", "one of auto, file, stream"),
        ("validate", "yes", "one of full, none"),
        ("columns", "[1]", "names separated by commas"),
        ("columns", "a,,b", "names separated by commas"),
        ("mergeSchema", "1", "true or false"),
        ("maxFilesPerTrigger", "0", "a whole number from 1"),
        ("maxPartitionBytes", "0", "a number of bytes from 1"),
        ("maxPartitionBytes", "4 apples", "a number of bytes from 1"),
    ],
)
def test_values_that_are_none(tmp_path: Path, option: str, value: str, words: str) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5)))
    with pytest.raises(UsageError, match=f"option {option}: expected {words}.*, found '"):
        given(tmp_path, **{option: value}).schema()


def test_the_docstring_and_the_jar_have_the_table() -> None:
    for use in ("read", "write"):
        assert all(line in str(ArrowIpcDataSource.__doc__) for line in explained(use).splitlines())
    rows = [line.split("\t") for line in options_resource().splitlines()]
    assert {len(row) for row in rows} == {4}
    assert ["batchBytes", "32m", "write", "bytes"] in rows
    assert {row[0] for row in rows if row[2] == "refused"} == {"columns", "storage.", "maxPartitionBytes"}


def test_the_guide_has_the_table() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/spark-files.md").read_text()
    sides = {"both": "both", "python": "Python", "jvm": "jar", "spark": "both (Spark's own)"}
    rows = []
    for option in TABLE:
        kinds = ", ".join(f"`{word}`" for word in option.type.split("|")) if "|" in option.type else option.type
        default = f"; default `{option.default}`" if option.default else ""
        rows.append(f"| `{option.name}` | {option.use} | {kinds}{default} | {sides[option.side]} | {option.meaning} |")
    assert "\n".join(rows) in guide


def test_spark_hands_over_unknown_options(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(numbers(0, 5)))
    assert "did you mean 'modifiedAfter'" in failure(lambda: read(spark, tmp_path, modifiedAftr="2024-01-01"))
    writer = spark.range(3).write.format(FORMAT).mode("append").option("mergeSchema", "true")
    assert "option mergeSchema: it belongs to read" in failure(lambda: writer.save(str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_broken_files_are_named(spark: SparkSession, tmp_path: Path) -> None:
    good = file(numbers(0, 1000))
    (tmp_path / "1-good.arrow").write_bytes(good)
    broken = {
        "2-torn.arrow": good[:-3000],
        "2-text.arrow": b"hello, world",
        "2-torn.arrows": stream(numbers(0, 1000))[:-3000],
    }
    for name, data in broken.items():
        path = tmp_path / name
        path.write_bytes(data)
        message = failure(lambda: read(spark, tmp_path))
        assert name in message
        assert "arrowipc.errors" in message
        path.unlink()
    assert "1-good.arrow" in failure(lambda: read(spark, tmp_path, format="stream"))
