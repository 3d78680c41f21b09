"""Reading with the Python data source: paths, options, tasks, damage, and what Spark makes of it."""

import logging
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from columns.variants import VARIANT, extension_streams
from helpers.arrow_columns import file, stream
from helpers.spark import FORMAT, failure, given, numbers, put, read_here
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, types as st

import arrowipc
from arrowipc.columns.extensions import Names, variant_value
from arrowipc.errors import FormatError, UsageError
from arrowipc.spark import ArrowIpcDataSource, Shared, count_rows, decode_payload_batches, describe
from arrowipc.spark.options import REFUSED, TABLE, USE_THE_JAR, Options, explained, options_resource
from arrowipc.spark.shipping import shipped

pytestmark = pytest.mark.spark

IDS = st.StructType().add("id", "long")


def ids(path: Any, **options: Any) -> list[int]:
    """The numbers that the data source finds, in their order."""
    return read_here(path, **options)["id"].to_pylist()


# In Spark.


@pytest.fixture
def read(spark: SparkSession, python_format: None) -> Any:
    def load(path: Any, **options: Any) -> DataFrame:
        return spark.read.format(FORMAT).options(**options).load(str(path) if isinstance(path, Path) else path)

    return load


def test_what_spark_asks_for(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert spark.read.format(FORMAT).schema("id long").load(str(tmp_path / "empty")).collect() == []
    put(tmp_path / "n/x.arrow", *(numbers(i, i + 1) for i in range(0, 100, 2)), numbers(2**40))
    put(tmp_path / "n/y.arrow", numbers(2**41))
    frame = read(tmp_path / "n", maxPartitionBytes="1k")
    assert frame.rdd.getNumPartitions() == 2
    assert [row.id for row in frame.collect()] == [*range(100), 2**40, 2**41]
    assert frame.limit(3).count() == 3
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW numbers USING {FORMAT} OPTIONS (path '{tmp_path}/n', columns 'id')")
    assert spark.sql("SELECT min(id) FROM numbers").first()[0] == 0
    for key in (7, 8):
        put(tmp_path / f"k={key}/{key}.arrow", numbers(key))
    keys = read([f"{tmp_path}/k=7/7.arrow", f"file://{tmp_path}/k%3D8"], basePath=str(tmp_path))
    assert sorted(keys.collect()) == [(7, 7), (8, 8)]
    narrow = spark.read.format(FORMAT).schema("id int").load(str(tmp_path / "n"))
    assert "x.arrow: record batch 50: column 'id'" in failure(narrow.collect)
    assert "give one with schema" in failure(lambda: read(tmp_path / "empty"))


def test_variants_are_the_same_values_in_spark(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    (data,) = [each for each in extension_streams() if "variant" in arrowipc.read_schema(each)[0].extension_name]
    (tmp_path / "x.arrows").write_bytes(data)
    frame = read(tmp_path, extensions="true")
    assert [row.x and row.x.toPython() for row in frame.collect()] == [VARIANT, None, VARIANT]
    assert [row.e for row in frame.selectExpr("variant_get(x, '$.a[4].\u00e9', 'boolean') e").collect()] == [1, None, 1]
    # And the values of those that Spark makes.
    simple = """timestamp'1969-12-31 23:59:59.5'; timestamp_ntz'2024-01-01 00:00:00'; date'0001-01-01'; 1.50; 1e300
        ; true; cast(-0.5 as float); X'ff00'; 12345678901234567890.12; 5Y; 500S; 70000; 12345678901; 'é'; null"""
    parts = [f"cast({each} as variant)" for each in simple.split(";")]
    nested = "to_variant_object(struct(array(1, null), 'x')), parse_json('{\"b\": [1, {}], \"a\": null}')"
    (row,) = spark.sql(f"select {', '.join(parts)}, {nested}").collect()
    values = [each for each in row if each is not None]
    assert len(values) >= 16
    for each in values:
        assert variant_value(Names(bytes(each.metadata)), bytes(each.value), lambda *_: None) == each.toPython()


def test_files_are_described_without_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1/y.arrows").write_bytes(stream(numbers(*range(3))))
    put(tmp_path / "x.arrow", numbers(*range(5)), numbers(*range(5, 12)))
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


# Values, damage, and what is gone.


@pytest.mark.parametrize("encode", [file, stream])
def test_what_is_before_the_damage_is_read(tmp_path: Path, encode: Any, caplog: pytest.LogCaptureFixture) -> None:
    batches = [
        pa.record_batch({"id": [*range(first, first + 4)], "tag": [f"t{n}" for n in range(first, first + 4)]})
        for first in range(10, 30, 4)
    ]
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1/x.arrow").write_bytes(encode(*batches).replace(b"t18", b"\xff18"))  # no UTF-8
    put(tmp_path / "k=2/y.arrow", pa.record_batch({"id": [99], "tag": ["t"]}))
    with pytest.raises(FormatError, match=r"x\.arrow.*'tag'"):
        ids(tmp_path)
    with caplog.at_level(logging.WARNING, "arrowipc.spark"):
        found = ids(tmp_path, ignoreCorruptFiles=True)
    assert {*range(10, 18), 99} <= {*found}
    assert not {18, 19, 20, 21} & {*found}
    assert "x.arrow" in caplog.text


GOOD = file(numbers(*range(100)))


@pytest.mark.parametrize(
    "garbage", [b"hello, world", b"", GOOD[:-100], stream(numbers(*range(100)))[:-300], b"ARROW1\0\0" + b"\xff" * 500]
)
def test_files_that_are_none(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "1.arrow").write_bytes(garbage)
    with pytest.raises(FormatError, match=r"1\.arrow"):
        read_here(tmp_path)
    put(tmp_path / "2.arrow", numbers(1))
    assert ids(tmp_path, ignoreCorruptFiles=True) == [1]
    with pytest.raises(FormatError, match=r"1\.arrow"):
        read_here(tmp_path)
    (tmp_path / "1.arrow").write_bytes(GOOD)
    with pytest.raises(FormatError, match=r"1\.arrow"):
        given(tmp_path, format="stream", ignoreCorruptFiles=True).schema()


def test_files_that_vanish_after_they_were_planned(tmp_path: Path) -> None:
    for name in ("1", "2", "3"):
        put(tmp_path / name, *[numbers(*range(500))] * 4)
    lenient, strict = (
        given(tmp_path, maxPartitionBytes="8k", ignoreMissingFiles=each).reader(IDS) for each in (True, False)
    )
    parts = strict.partitions()
    (tmp_path / "1").unlink()
    assert sum(batch.num_rows for part in parts for batch in lenient.read(part)) == 4000
    with pytest.raises(FileNotFoundError, match="1"):
        list(strict.read(parts[0]))


def test_tasks_read_whole_files_and_batches_are_cut_at_rows(tmp_path: Path) -> None:
    put(tmp_path / "x.arrow", *(numbers(*range(start, start + 100)) for start in range(0, 1000, 100)))
    (tmp_path / "y.arrows").write_bytes(stream(numbers(*range(1000, 1100)), numbers(*range(1100, 1200))))
    assert len(given(tmp_path, maxPartitionBytes="2k").reader(IDS).partitions()) == 2
    assert ids(tmp_path, maxPartitionBytes="2k") == list(range(1200))
    assert len(given(tmp_path).reader(IDS).partitions()) == 1
    put(tmp_path / "z", numbers(*range(100_000)))
    assert [batch.num_rows for batch in read_here(tmp_path / "z").to_batches()] == [32_768] * 3 + [1696]


# Options.


def test_a_url_of_this_machine_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    put(tmp_path / "x.arrow", numbers(1, 2))
    assert ids(f"file://{tmp_path}") == ids(f"file:{tmp_path}") == [1, 2]


def test_options_of_a_store() -> None:
    texts = {"path": "memory://x", "storage.flag": "true", "Storage.size": "3", "storage.name": '"7"'}
    assert Options.of(texts).storage == {"flag": True, "size": 3, "name": "7"}


#: What Spark asks a data source for.
ASKED = {
    "read": lambda source: source.reader(IDS),
    "schema": lambda source: source.schema(),
}
VALUES = {"flag": "TRUE", "bytes": "4m", "names": "id", "text": "*"}


@pytest.mark.parametrize("asked", ASKED)
def test_options_belong_to_what_heeds_them(tmp_path: Path, asked: str) -> None:
    put(tmp_path / "x.arrow", numbers(1))
    for option in TABLE:
        value = VALUES.get(option.type) or option.type.split("|")[0]
        value = str(tmp_path) if option.name == "basePath" else value
        options = {option.name.replace("NAME", "anon"): value}
        if any(each.name == option.name and each.use == "read" for each in TABLE):
            ASKED[asked](given(tmp_path, **options))
        else:
            with pytest.raises(UsageError, match=f"option {option.name}: it belongs to {option.use}"):
                ASKED[asked](given(tmp_path, **options))
    for name, words in {
        "xyzzy": "no option 'xyzzy' for read",
        "formatt": "did you mean 'format'?",
        "modifiedAftr": "did you mean 'modifiedAfter'?",
        **{name: f"option {name}: {USE_THE_JAR}" for name in REFUSED},
    }.items():
        with pytest.raises(UsageError) as caught:
            ASKED[asked](given(tmp_path, **{name: "dynamic"}))
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("schema", {"path": ""}, "needs a path"),
        ("schema", {"paths": "a,b"}, "option paths: expected a JSON list"),
        ("schema", {"path": "s3://bucket/x.arrow"}, f"s3://bucket/x.arrow.*{re.escape(USE_THE_JAR)}"),
        ("schema", {"path": "/no/such/place"}, "/no/such/place: no such file"),
        ("readStream", {}, "readStream: .*decode_payloads of its column content"),
        ("write", {"compression": "zstd"}, f"write: {re.escape(USE_THE_JAR)}"),
        ("writeStream", {}, f"writeStream: {re.escape(USE_THE_JAR)}"),
        ("read", {"provider": "arrowipc", "owner": "me"}, f"a table of the catalog.*{re.escape(USE_THE_JAR)}"),
        ("schema", {"format": "feather"}, "option format: expected one of auto, file, stream, found 'feather'"),
        ("schema", {"columns": "[1]"}, "option columns: expected names separated by commas"),
        ("schema", {"columns": "a,,b"}, "option columns: expected names separated by commas"),
        ("schema", {"mergeSchema": "1"}, "option mergeSchema: expected true or false"),
        ("read", {"maxPartitionBytes": "0"}, "option maxPartitionBytes: expected a number of bytes from 1"),
        ("read", {"maxPartitionBytes": "4 apples"}, "such as 4194304 or 4m, found '4 apples'"),
    ],
)
def test_what_is_refused_before_anything_is_done(tmp_path: Path, asked: str, options: Any, words: str) -> None:
    ask = ASKED | {
        "write": lambda source: source.writer(IDS, True),
        "readStream": lambda source: source.streamReader(IDS),
        "writeStream": lambda source: source.streamWriter(IDS, False),
    }
    source = given(options.get("path", tmp_path), **{name: text for name, text in options.items() if name != "path"})
    with pytest.raises(UsageError, match=words):
        ask[asked](source)
    assert [*tmp_path.iterdir()] == []


def test_the_docstring_the_jar_and_the_guide_have_the_table() -> None:
    assert all(line in str(ArrowIpcDataSource.__doc__) for line in explained().splitlines())
    rows = [line.split("\t") for line in options_resource().splitlines()]
    assert {len(row) for row in rows} == {4}
    assert ["batchBytes", "32m", "write", "bytes"] in rows
    assert {row[0] for row in rows if row[2] == "refused"} == {"columns", "storage.", "maxPartitionBytes"}
    sides = {"both": "both", "python": "Python", "jvm": "jar", "spark": "both (Spark's own)"}
    tables: dict[str, list[str]] = {"files": [], "payload": [], "encode": []}
    for option in TABLE:
        kinds = ", ".join(f"`{word}`" for word in option.type.split("|")) if "|" in option.type else option.type
        kinds += f"; default `{option.default}`" if option.default else ""
        if option.use in tables:
            tables[option.use].append(f"| `{option.name}` | {kinds} | {option.meaning} |")
        else:
            row = f"| `{option.name}` | {option.use} | {kinds} | {sides[option.side]} | {option.meaning} |"
            tables["files"].append(row)
    for use, table in tables.items():
        page = "spark-files.md" if use == "files" else "spark-payloads.md"
        assert "\n".join(table) in (Path(__file__).parents[2] / "docs/guides" / page).read_text()


# What tasks need travels to executors.

LOAD = """
import pickle, sys
for data in pickle.load(sys.stdin.buffer):
    try:
        pickle.loads(data)([])
    except ModuleNotFoundError as error:
        print(error)
"""


def test_an_executor_without_the_package_names_the_page_that_helps(tmp_path: Path) -> None:
    """It has PySpark and nothing else; what it loads first does not matter."""
    (tmp_path / "x.arrow").touch()
    for name in ("pyspark", "py4j"):
        (tmp_path / name).symlink_to(Path(pyspark.__file__).parents[1] / name)
    reader = ArrowIpcDataSource({"path": str(tmp_path / "x.arrow")}).reader(IDS)
    values = [shipped(decode_payload_batches), reader, Shared("token", 1, 2)]  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOAD],
        input=pickle.dumps([*map(cloudpickle.dumps, values)]),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    said = done.stdout.decode().splitlines()
    assert len(said) == len(values), done.stderr.decode()
    for line in said:
        assert line.startswith(f"{sys.executable} on ")
        assert "cannot import arrowipc" in line
        assert "docs/spark-deployment.md" in line
