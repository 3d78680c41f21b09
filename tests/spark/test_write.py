"""Writing with the Python data source: types, options, and what a directory holds after failures."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from helpers.arrow_columns import everything, file
from helpers.python_source import FORMAT, register_python
from helpers.spark_errors import failure
from pyspark.sql import types as st

import arrowipc
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.spark.options import USE_THE_JAR, Options
from arrowipc.spark.write.files import file_schema, fit, regroup
from arrowipc.spark.write.folder import open_folder
from arrowipc.spark.write.job import ArrowIpcWriter, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

IDS = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register_python(spark)


def write(frame: DataFrame, path: Path | str, mode: str = "append", **options: Any) -> None:
    frame.write.format(FORMAT).mode(mode).options(**options).save(str(path))


def read(spark: SparkSession, path: Path | str) -> DataFrame:
    return spark.read.format(FORMAT).load(str(path))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def tree(path: Path) -> list[str]:
    """Return all that is under a directory, hidden or not."""
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def data(path: Path) -> list[Path]:
    """Return the files that are data."""
    return sorted(path.glob("*.arrow*"))


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


# Types.

SPARK_TYPES = """
    select
        true as bool, cast(1 as tinyint) as i8, cast(-2 as smallint) as i16, 3 as i32, -4L as i64,
        cast(1.5 as float) as f32, double('NaN') as f64, 1.25BD as decimal, cast(null as decimal(9)) as big,
        'text \\u00e9' as text, X'00FF' as bytes, date'2024-02-29' as day, cast('a' as char(3)) as fixed,
        timestamp'2024-02-29 12:34:56.789012' as instant, timestamp_ntz'1900-01-01 00:00:00' as wall,
        time'23:59:59.999999' as clock, interval '1 02:03:04.000005' day to second as took,
        interval '7' day as days, null as nothing, 'x' collate UTF8_LCASE as folded,
        array(1, null) as list, array(array('a'), array()) as lists,
        array(timestamp'2024-01-01') as times,
        map('k', 1, 'm', null) as map, map(1, timestamp'2024-01-01 00:00:00') as map_of_times,
        named_struct('a', 1, 'b', named_struct('c', array(map('x', 2.5BD)))) as deep,
        array(named_struct('at', timestamp'2024-01-01 00:00:00', 'what', null)) as records
"""


def test_every_spark_type(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(SPARK_TYPES)
    nulls = spark.createDataFrame([tuple([None] * len(frame.columns))], _nullable(frame.schema))
    every = nulls.unionAll(frame)
    write(every, tmp_path / "out")
    back = read(spark, tmp_path / "out")
    # What Arrow does not know of text and intervals: collations, and fields that are never used.
    plain = {"folded": "string", "days": "interval day to second"}
    assert back.dtypes == [(name, plain.get(name, kind)) for name, kind in every.dtypes]
    assert sorted(map(str, back.collect())) == sorted(map(str, every.collect()))


def _nullable(type_: Any) -> Any:
    if isinstance(type_, st.StructType):
        return st.StructType([st.StructField(f.name, _nullable(f.dataType), True) for f in type_])
    if isinstance(type_, st.ArrayType):
        return st.ArrayType(_nullable(type_.elementType), True)
    if isinstance(type_, st.MapType):
        return st.MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    return type_


def test_everything_that_can_be_read_can_be_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.arrow").write_bytes(file(everything(), everything().slice(1)))
    frame = read(spark, tmp_path / "in.arrow")
    for format_ in ("file", "stream"):
        write(frame, tmp_path / format_, format=format_)
        back = read(spark, tmp_path / format_)
        assert back.schema == frame.schema
        assert sorted(map(str, back.collect())) == sorted(map(str, frame.collect()))


def test_session_zones_and_large_offsets_leave_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    query = "select instant, wall, text, bytes, times, map_of_times, records from (" + SPARK_TYPES + ")"
    write(spark.sql(query), tmp_path / "utc")
    settings = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        write(spark.sql(query), tmp_path / "tokyo")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    [utc], [tokyo] = data(tmp_path / "utc"), data(tmp_path / "tokyo")
    schema = pa.ipc.open_file(utc).schema
    assert schema == pa.ipc.open_file(tokyo).schema
    assert schema.field("instant").type == pa.timestamp("us", "UTC")
    hours = (
        pa.ipc.open_file(utc).read_all()["instant"][0].as_py()
        - pa.ipc.open_file(tokyo).read_all()["instant"][0].as_py()
    )
    assert hours == dt.timedelta(hours=9)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("interval '1-2' year to month", "extract(YEAR FROM x)"),
        ("map(1, array(interval '1' year))", "column 'x.value.element' has the Spark type"),
        ("named_struct('v', parse_json('{}'))", "to_json(x.v)"),
        ("st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')", "st_asbinary(x)"),
    ],
)
def test_what_cannot_be_written_is_said_before_data_move(
    spark: SparkSession, tmp_path: Path, column: str, words: str
) -> None:
    assert words in failure(lambda: write(spark.sql(f"select {column} as x"), tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_names_that_occur_twice(tmp_path: Path) -> None:
    twice = st.StructType([*IDS.fields, *IDS.fields])
    for schema in (twice, st.StructType([st.StructField("s", twice)])):
        with pytest.raises(UsageError, match="'id' twice"):
            ArrowIpcWriter(schema, {"path": str(tmp_path)}, False)
    with pytest.raises(UsageError, match="no columns"):
        ArrowIpcWriter(st.StructType([]), {"path": str(tmp_path)}, False)


@pytest.mark.parametrize("compression", ["none", "uncompressed", "lz4", "zstd"])
def test_others_read_it(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    frame = spark.range(1000).selectExpr("id", "concat('w', id % 7) as word", "array(id) as list")
    write(frame.coalesce(1), tmp_path, compression=compression, batchRows=100)
    [path] = data(tmp_path)
    wanted = [{"id": i, "word": f"w{i % 7}", "list": [i]} for i in range(1000)]
    assert pa.ipc.open_file(path).read_all().to_pylist() == wanted
    assert pl.read_ipc(path).to_dicts() == wanted
    assert read(spark, tmp_path).orderBy("id").toArrow().to_pylist() == wanted


# Options.


def test_batches_are_joined_and_cut(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(25_000).coalesce(1)
    write(frame, tmp_path / "rows", batchRows=12_000)
    write(frame, tmp_path / "bytes", batchBytes=8_000)
    [rows], [small] = data(tmp_path / "rows"), data(tmp_path / "bytes")
    with arrowipc.open_file(rows) as reader:
        assert [batch.num_rows for batch in reader] == [12_000, 12_000, 1_000]
    with arrowipc.open_file(small) as reader:
        assert max(body for _, _, body in reader.blocks) <= 8_000 + 64
        assert sum(batch.num_rows for batch in reader) == 25_000


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
@pytest.mark.parametrize("bytes_", [1, 24, 1 << 20])
@pytest.mark.parametrize("cuts", [[10], [1] * 10, [0, 4, 0, 6], [3, 7, 2]])
def test_regrouping_keeps_the_rows(rows: int, bytes_: int, cuts: list[int]) -> None:
    column = pa.array(range(sum(cuts)), pa.int64())
    starts = [sum(cuts[:index]) for index in range(len(cuts))]
    batches = [pa.record_batch({"id": column.slice(start, size)}) for start, size in zip(starts, cuts, strict=True)]
    found = list(regroup(batches, rows, bytes_))
    assert [value for table in found for value in table["id"].to_pylist()] == column.to_pylist()
    assert all(0 < table.num_rows <= rows for table in found)
    if bytes_ > 8 * sum(cuts):
        assert all(table.num_rows == rows for table in found[:-1])


def test_names_and_formats(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(0, 10, 1, 2), tmp_path, format="stream", COMPRESSION="ZSTD")
    first, second = data(tmp_path)
    assert first.name.startswith("part-00000-")
    assert second.name.startswith("part-00001-")
    assert first.suffix == ".arrows"
    with arrowipc.open_stream(first) as reader:
        assert reader.read_all().to_pydict() == {"id": [0, 1, 2, 3, 4]}
    assert sorted({*tree(tmp_path)} - {first.name, second.name}) == ["_SUCCESS"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "parquet"}, "option format: expected one of file, stream, found 'parquet'"),
        ({"compression": "snappy"}, "expected one of none, uncompressed, lz4, zstd"),
        ({"batchrows": "0"}, "option batchRows: expected a whole number from 1"),
        ({"statistics": "true", "format": "stream"}, "only files have a footer"),
        ({"maxrecordperfile": "1"}, "did you mean 'maxRecordsPerFile'"),
    ],
)
def test_wrong_options_are_refused_on_the_driver(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        ArrowIpcWriter(IDS, {"path": str(tmp_path / "out"), **options}, False)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_statistics_are_written(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(100).coalesce(1), tmp_path, statistics="TRUE", batchRows=10)
    found = arrowipc.open_dataset(tmp_path).filter([("id", "=", 55)])
    assert [batch.to_pydict()["id"] for batch in found] == [list(range(50, 60))]


def test_a_path_is_needed_and_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="found a file"):
        ArrowIpcWriter(IDS, {"path": str(tmp_path / "file")}, True)
    with pytest.raises(UsageError, match="needs a path"):
        ArrowIpcWriter(IDS, {}, True)


# Modes.


def test_append_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(0, 5), tmp_path)
    write(spark.range(5, 9), tmp_path)
    assert ids(read(spark, tmp_path)) == list(range(9))
    (tmp_path / "_notes").write_text("stays")
    # Also when what is replaced is what is read.
    write(read(spark, tmp_path).where("id % 2 = 0"), tmp_path, "overwrite")
    assert ids(read(spark, tmp_path)) == [0, 2, 4, 6, 8]
    assert [name for name in tree(tmp_path) if not name.startswith("part-")] == ["_SUCCESS", "_notes"]


@pytest.mark.parametrize("other", ["letters.txt", "k=1/a.arrow", "deep/a.arrow"])
def test_overwrite_removes_nothing_but_arrow_files(spark: SparkSession, tmp_path: Path, other: str) -> None:
    (tmp_path / other).parent.mkdir(exist_ok=True)
    for name in (other, "a.arrow"):
        (tmp_path / name).write_bytes(file(numbers(1)))
    before = tree(tmp_path)
    message = failure(lambda: write(spark.range(3), tmp_path, "overwrite"))
    assert f"{tmp_path}/{other.split('/')[0]}: overwriting a folder in which there are folders" in message
    assert USE_THE_JAR in message
    assert tree(tmp_path) == before


def test_what_only_the_jar_can_do_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "id % 2 AS k")
    appends = frame.write.format(FORMAT).mode("append")
    asks = {
        "partitionOverwriteMode": lambda: write(frame, tmp_path, "overwrite", partitionOverwriteMode="dynamic"),
        "saveAsTable and bucketBy": lambda: appends.saveAsTable("of_nobody"),
        "bucketBy": lambda: frame.write.format(FORMAT).mode("append").bucketBy(2, "id").saveAsTable("of_nobody"),
        "maxRecordsPerFile": lambda: write(frame, tmp_path, maxRecordsPerFile=10),
    }
    for words, ask in asks.items():
        message = failure(ask)
        assert words in message
        assert USE_THE_JAR in message
    # Spark itself refuses this one.
    assert "partitioning or clustering columns" in failure(lambda: appends.partitionBy("k").save(str(tmp_path)))
    assert tree(tmp_path) == []


def test_a_folder_of_the_streaming_sink_takes_no_append(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata/0").write_text("v1")
    assert "what is appended would not be read" in failure(lambda: write(spark.range(3), tmp_path))
    write(spark.range(3), tmp_path, "overwrite")
    assert ids(read(spark, tmp_path)) == [0, 1, 2]
    assert not (tmp_path / "_spark_metadata").exists()


def test_a_frame_without_rows_leaves_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    empty = spark.range(3).selectExpr("id", "cast(id as string) as word").where("id > 5")
    write(empty, tmp_path / "new")
    assert read(spark, tmp_path / "new").dtypes == empty.dtypes
    assert read(spark, tmp_path / "new").collect() == []
    assert len(data(tmp_path / "new")) == 1
    write(spark.range(3).selectExpr("id", "'x' as word"), tmp_path / "new")
    before = data(tmp_path / "new")
    write(empty, tmp_path / "new")
    assert data(tmp_path / "new") == before  # (Parquet adds a file without rows)
    write(empty, tmp_path / "new", "overwrite")
    assert read(spark, tmp_path / "new").collect() == []


def test_empty_partitions_write_no_file(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(0, 4, 1, 4).where("id = 2"), tmp_path)
    assert [path.name[:10] for path in data(tmp_path)] == ["part-00002"]


# Failures.


def test_a_failed_task_leaves_the_directory_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    late = spark.range(0, 30_000, 1, 2).selectExpr("if(id = 29999, raise_error('broken'), id) as id")
    for mode in ("append", "overwrite"):
        assert "broken" in failure(lambda mode=mode: write(late, tmp_path / "new", mode, batchRows=100))
        assert not (tmp_path / "new").exists()
    write(spark.range(3), tmp_path / "old")
    before = tree(tmp_path / "old")
    for mode in ("append", "overwrite"):
        assert "broken" in failure(lambda mode=mode: write(late, tmp_path / "old", mode, batchRows=100))
        assert tree(tmp_path / "old") == before
    assert ids(read(spark, tmp_path / "old")) == [0, 1, 2]


RETRY = """
import sys
from pathlib import Path
from helpers.python_source import FORMAT, register_python
from arrowipc.spark.local_session import start_session

out, log = sys.argv[1:]

def fail_once(batches):
    from pyspark import TaskContext
    for batch in batches:
        yield batch
    if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() == 1:
        raise RuntimeError("the first attempt fails after its rows")

with start_session("local[2,3]", Path(log)) as spark:
    register_python(spark)
    frame = spark.range(0, 40_000, 1, 2).mapInArrow(fail_once, "id long")
    frame.write.format(FORMAT).mode("append").option("batchRows", 100).save(out)
    print(spark.read.format(FORMAT).load(out).selectExpr("count(id)", "sum(id)").collect()[0])
"""


@pytest.mark.slow
def test_a_retried_task_writes_each_row_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(RETRY),
            str(tmp_path / "out"),
            str(tmp_path / "log" / "spark"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"count(id)=40000, sum(id)={sum(range(40_000))}" in done.stdout
    assert [name for name in tree(tmp_path / "out") if not name.startswith("part-")] == ["_SUCCESS"]
    assert "the first attempt fails" in (tmp_path / "log" / "spark").read_text()


def job(path: Path | str, *tasks: list[int], overwrite: bool = False) -> tuple[ArrowIpcWriter, list[Any]]:
    """Run tasks of one job, in this process, up to their messages."""
    writer = ArrowIpcWriter(IDS, {"path": str(path)}, overwrite)
    messages = []
    for number, values in enumerate(tasks):
        message = writer.write(iter([numbers(*values)]))
        messages.append(Written(message.staged, message.name.replace("part-00000", f"part-{number:05}")))
    return writer, messages


def found(path: Path) -> list[int]:
    """Return the rows that any reader finds."""
    files = [found for found in path.rglob("*.arrow") if not any(p.startswith(("_", ".")) for p in found.parts)]
    return sorted(value for file in files for value in pa.ipc.open_file(file).read_all()["id"].to_pylist())


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_visible_before_the_commit(tmp_path: Path, overwrite: bool) -> None:
    out = tmp_path / "out"
    writer, messages = job(out, [2, 3], [4], overwrite=overwrite)
    writer.write(iter([numbers(4)]))  # an attempt that nobody counts
    assert found(out) == []
    writer.commit([*messages, None])
    assert found(out) == [2, 3, 4]
    assert not (out / "_temporary").exists()
    assert (out / "_SUCCESS").stat().st_mtime_ns >= max(p.stat().st_mtime_ns for p in data(out))


@pytest.mark.parametrize("existing", [False, True])
def test_an_append_that_dies_leaves_nothing_that_counts(tmp_path: Path, existing: bool) -> None:
    out = tmp_path / "out"
    if existing:
        first, messages = job(out, [1], [2])
        first.commit(messages)
    before = found(out)
    job(out, [3], [4])
    assert found(out) == before
    # Others are not stopped by what it left.
    writer, messages = job(out, [5])
    writer.commit(messages)
    assert found(out) == [*before, 5]


@pytest.mark.parametrize("existing", [False, True])
def test_a_commit_that_fails_takes_back_what_it_moved(tmp_path: Path, existing: bool) -> None:
    out = tmp_path / "out"
    if existing:
        first, messages = job(out, [1], [2])
        first.commit(messages)
    before = tree(out)
    writer, messages = job(out, [3], [4], [5])
    # The second file is gone, as if a disk had lost it: the commit has moved the first when it finds out.
    (out / messages[1].staged).unlink()
    with pytest.raises(FileNotFoundError):
        writer.commit(messages)
    writer.abort(messages)
    assert tree(out) == before


def test_an_attempt_that_outlives_its_job_leaves_nothing(tmp_path: Path) -> None:
    writer, messages = job(tmp_path / "out", [1])

    def rows() -> Any:
        yield numbers(2)
        writer.abort([*messages, None])
        yield numbers(3)

    with pytest.raises(FileNotFoundError):
        writer.write(rows())
    assert not (tmp_path / "out").exists()


# Places.


def test_urls(spark: SparkSession, tmp_path: Path) -> None:
    for number, scheme in enumerate(("file:", "file://", "local://")):
        write(
            spark.range(number, number + 1),
            f"{scheme}{tmp_path}/a%20b" if "file" in scheme else f"{scheme}{tmp_path}/a b",
        )
    assert ids(read(spark, tmp_path / "a b")) == [0, 1, 2]


@pytest.fixture
def memory() -> Any:
    """A directory of fsspec's memory, which is a store without renames."""
    import fsspec

    system = fsspec.filesystem("memory")
    yield system
    for name in system.ls("/", detail=False):
        system.rm(name, recursive=True)


def remote_rows(memory: Any, path: str) -> list[int]:
    names = [name for name in memory.find(path) if name.endswith(".arrow") and "/_" not in name]
    return sorted(v for name in names for v in pa.ipc.open_file(memory.cat(name)).read_all()["id"].to_pylist())


def test_a_store_without_renames(memory: Any) -> None:
    url = "memory://bucket/table"
    first, messages = job(url, [1], [2])
    assert remote_rows(memory, "/bucket/table") == []
    first.commit(messages)
    assert remote_rows(memory, "/bucket/table") == [1, 2]
    second, messages = job(url, [3], overwrite=True)
    second.commit(messages)
    assert remote_rows(memory, "/bucket/table") == [3]
    third, messages = job(url, [4], [5])
    third.abort(messages)
    assert remote_rows(memory, "/bucket/table") == [3]
    left = [name for name in memory.find("/bucket") if "part-" not in name]
    assert [name.rsplit("/", 1)[-1] for name in left] == ["_SUCCESS"]


def test_options_of_the_storage_arrive() -> None:
    texts = {"path": "memory://x", "storage.flag": "true", "Storage.size": "3", "storage.name": '"7"'}
    options = Options.of(texts, "write")
    assert options.storage == {"flag": True, "size": 3, "name": "7"}
    assert open_folder(options).base_fs.handler.fs.storage_options == options.storage
    with pytest.raises(UsageError, match="not a URL that fsspec knows"):
        open_folder(Options.of({"path": "nowhere://x"}, "write"))


# Parts.


def test_schema_of_files() -> None:
    schema = st.StructType(
        [
            st.StructField("d", st.DecimalType(10, 2), False),
            st.StructField("l", st.ArrayType(st.TimestampType(), False)),
            st.StructField("c", st.CharType(3)),
            st.StructField("w", st.StringType()),
        ]
    )
    found = file_schema(schema)
    assert found == pa.schema(
        [
            pa.field("d", pa.decimal128(10, 2), False),
            pa.field("l", pa.list_(pa.field("element", pa.timestamp("us", "UTC"), False))),
            pa.field("c", pa.string()),
            pa.field("w", pa.string()),
        ]
    )
    with pytest.raises(UnsupportedError, match="interval year to month"):
        file_schema(st.StructType([st.StructField("x", st.YearMonthIntervalType())]))


def test_batches_are_fitted() -> None:
    wanted = pa.schema({"t": pa.timestamp("us", "UTC"), "s": pa.string(), "d": pa.decimal128(4, 1)})
    given = pa.record_batch(
        {
            "t": pa.array([1], pa.timestamp("us", "Europe/Paris")),
            "s": pa.array(["x"], pa.large_string()),
            "d": pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
        }
    )
    assert fit(given, wanted).schema == wanted
    assert fit(given, wanted)["t"].cast(pa.int64()).to_pylist() == [1]
