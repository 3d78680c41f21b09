"""Writing with the Python data source: types, options, and what a directory holds after failures."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pyarrow as pa
import pytest
from helpers.arrow_columns import everything
from helpers.spark import FORMAT, failure, given, names_below, numbers, put, read_here, written
from helpers.twins import TYPES
from pyspark.sql import DataFrame, SparkSession, types as st

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.sources.spark_log import LOG
from arrowipc.spark import to_spark_batch, to_spark_schema
from arrowipc.spark.options import USE_THE_JAR, Options
from arrowipc.spark.write.files import fit
from arrowipc.spark.write.folder import open_folder
from arrowipc.spark.write.job import ArrowIpcWriter, Written

pytestmark = pytest.mark.spark

#: Rows without nulls: files say so, too.
IDS = st.StructType().add("id", "long", False)
SCHEMA = pa.schema([pa.field("id", pa.int64(), False)])


def job(path: Path | str, *tasks: list[int], overwrite: bool = False) -> tuple[ArrowIpcWriter, list[Any]]:
    """Run tasks of one job, in this process, up to their messages."""
    writer = given(path).writer(IDS, overwrite)
    messages = []
    for number, values in enumerate(tasks):
        message = writer.write(iter([numbers(*values)] if values else []))
        if isinstance(message, Written):
            message.name = message.name.replace("part-00000", f"part-{number:05}")
        messages.append(message)
    return writer, messages


def save(path: Path | str, *tasks: list[int], overwrite: bool = False) -> None:
    writer, messages = job(path, *tasks, overwrite=overwrite)
    writer.commit([*messages, None])  # (None of a task that did not end)


def write_here(path: Path, *batches: pa.RecordBatch, **options: Any) -> Path:
    """Write Spark's batches as one task of a job; its file."""
    writer = given(path, **options).writer(to_spark_schema(batches[0].schema), False)
    writer.commit([writer.write(iter(batches))])
    (found,) = data(path)
    return found


def data(path: Path) -> list[Path]:
    """The files that are data."""
    return sorted(path.glob("part-*"))


# In Spark.


@pytest.fixture
def write(python_format: None) -> Any:
    def save(frame: DataFrame, path: Path, mode: str = "append", **options: Any) -> None:
        frame.write.format(FORMAT).mode(mode).options(**options).save(str(path))

    return save


#: Those that Parquet has, too, and others; pyarrow has no intervals of years.
COLUMNS = (
    *(each for each in TYPES if "YEAR" not in each),
    *("TIME'23:59:59.999999' clock", "NULL nothing", "CAST('a' AS CHAR(3)) fixed", "'x' COLLATE UTF8_LCASE folded"),
    *("timestamp_micros(id) instant", "array(timestamp_micros(id)) times", "map(1, timestamp_micros(id)) timed"),
    "IF(id = 1, NULL, array(named_struct('at', timestamp_micros(id), 'what', NULL))) records",
)


def test_every_spark_type_in_any_session(spark: SparkSession, conf: Any, write: Any, tmp_path: Path) -> None:
    conf("spark.sql.timeType.enabled", "true")
    every = spark.range(0, 3, 1, 1).selectExpr("id", *COLUMNS)
    write(every, tmp_path / "utc")
    back = spark.read.format(FORMAT).load(str(tmp_path / "utc"))
    # What Arrow does not know of text and intervals: collations, and fields that are never used.
    plain = {"folded": "string", "h": "interval day to second", "dy": "interval day to second"}
    assert back.dtypes == [(name, plain.get(name, kind)) for name, kind in every.dtypes]
    assert [*map(str, back.collect())] == [*map(str, every.collect())]
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    write(every, tmp_path / "tokyo")
    utc, tokyo = (pa.ipc.open_file(*data(tmp_path / name)).read_all() for name in ("utc", "tokyo"))
    assert utc.schema.field("instant").type == pa.timestamp("us", "UTC")
    assert utc == tokyo


def test_append_and_overwrite(spark: SparkSession, write: Any, tmp_path: Path) -> None:
    write(spark.range(0, 4, 1, 4).where("id = 2"), tmp_path)
    assert [path.name[:11] for path in data(tmp_path)] == ["part-00002-"]  # no file of no rows
    write(spark.range(5, 9), tmp_path, batchRows=1, COMPRESSION="ZSTD")
    assert written(tmp_path) == [2, 5, 6, 7, 8]
    (tmp_path / "_notes").write_text("stays")
    # Also when what is replaced is what is read.
    write(spark.read.format(FORMAT).load(str(tmp_path)).where("id % 2 = 0"), tmp_path, "overwrite")
    assert written(tmp_path) == [2, 6, 8]
    assert [name for name in names_below(tmp_path) if not name.startswith("part-")] == ["_SUCCESS", "_notes"]


def test_a_failed_task_leaves_the_directory_as_it_was(spark: SparkSession, write: Any, tmp_path: Path) -> None:
    late = spark.range(0, 30_000, 1, 2).selectExpr("if(id = 29999, raise_error('broken'), id) as id")
    save(tmp_path / "old", [0, 1, 2])
    before = names_below(tmp_path)
    for name, mode in (("new", "append"), ("new", "overwrite"), ("old", "append"), ("old", "overwrite")):
        assert "broken" in failure(lambda name=name, mode=mode: write(late, tmp_path / name, mode, batchRows=100))
        assert names_below(tmp_path) == before
    assert written(tmp_path / "old") == [0, 1, 2]


# Types and options.


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (st.YearMonthIntervalType(), r"extract\(YEAR FROM x\)"),
        (st.MapType(st.LongType(), st.ArrayType(st.YearMonthIntervalType())), r"column 'x\.value\.element' has the"),
        (st.StructType().add("v", st.VariantType()), r"to_json\(x\.v\)"),
        (getattr(st, "GeometryType", lambda _: None)(4326), r"st_asbinary\(x\)"),
        (st.StructType([*IDS, *IDS]), "'id' twice"),
        (None, "no columns"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_said_before_data_move(tmp_path: Path, type_: Any, words: str) -> None:
    if type_ is None and words.startswith("st_"):
        pytest.skip("this PySpark has no such type")
    schema = st.StructType() if type_ is None else st.StructType().add("x", type_)
    with pytest.raises(UsageError, match=words):
        given(tmp_path / "out").writer(schema, False)
    assert names_below(tmp_path) == []


@pytest.mark.parametrize("format", ["file", "stream"])
@pytest.mark.parametrize("compression", ["none", "uncompressed", "lz4", "ZSTD"])
def test_what_is_written_is_what_was_read(tmp_path: Path, format: str, compression: str) -> None:
    batch = to_spark_batch(everything())
    path = write_here(tmp_path / "out", batch, batch.slice(1), format=format, compression=compression)
    assert path.suffix == {"file": ".arrow", "stream": ".arrows"}[format]
    assert read_here(path).to_pylist() == batch.to_pylist() + batch.to_pylist()[1:]
    theirs = (pa.ipc.open_file if format == "file" else pa.ipc.open_stream)(path).read_all()
    assert theirs.to_pylist() == batch.to_pylist() + batch.to_pylist()[1:]
    table = pa.record_batch({"id": range(100), "w": [f"w{n}" for n in range(100)], "l": [[n] for n in range(100)]})
    path = write_here(tmp_path / "few", to_spark_batch(table), format=format, compression=compression)
    assert (pl.read_ipc if format == "file" else pl.read_ipc_stream)(path).to_dicts() == table.to_pylist()


def test_a_text_that_is_not_utf8_is_refused() -> None:
    bad = pa.array([b"good", None, b"\xff"]).view(pa.string())
    for array in (bad, bad.slice(2), pa.ListArray.from_arrays([0, 3], bad), pa.StructArray.from_arrays([bad], ["x"])):
        with pytest.raises(UsageError, match="column 't' holds a text that is not UTF-8"):
            fit(pa.record_batch({"t": array}), pa.schema({"t": array.type}))


def test_batches_are_joined_and_cut(tmp_path: Path) -> None:
    batches = [numbers(*range(start, start + 1000)) for start in range(0, 25_000, 1000)]
    with arrowipc.open_file(write_here(tmp_path / "rows", *batches, batchRows=12_000)) as reader:
        assert [batch.num_rows for batch in reader] == [12_000, 12_000, 1_000]
    with arrowipc.open_file(write_here(tmp_path / "bytes", *batches, batchBytes="8k")) as reader:
        assert max(body for _, _, body in reader.blocks) <= 8 * 1024 + 64
        assert sum(batch.num_rows for batch in reader) == 25_000
    write_here(tmp_path / "pruned", numbers(*range(100)), statistics="TRUE", batchRows=10)
    found = arrowipc.open_dataset(tmp_path / "pruned").prune([("id", "=", 55)])
    assert [batch.to_pydict()["id"] for batch in found] == [list(range(50, 60))]


# Folders.


def test_paths_and_stores(tmp_path: Path) -> None:
    for scheme, name in (("file:", "a%20b"), ("file://", "a%20b"), ("local://", "a b")):
        save(f"{scheme}{tmp_path}/{name}", [7])
    assert written(tmp_path / "a b") == [7, 7, 7]
    texts = {"path": "memory://x", "storage.flag": "true", "Storage.size": "3", "storage.name": '"7"'}
    options = Options.of(texts, "write")
    assert options.storage == {"flag": True, "size": 3, "name": "7"}
    assert open_folder(options).base_fs.handler.fs.storage_options == options.storage


@pytest.mark.parametrize("other", ["letters.txt", "k=1/a.arrow", "deep/a.arrow"])
def test_overwrite_removes_nothing_but_arrow_files(tmp_path: Path, other: str) -> None:
    for name in (other, "a.arrow"):
        put(tmp_path / name, numbers(1))
    before = names_below(tmp_path)
    words = f"/{other.split('/')[0]}: overwriting a folder in which there are folders.*{re.escape(USE_THE_JAR)}"
    with pytest.raises(UsageError, match=words):
        given(tmp_path).writer(IDS, True)
    assert names_below(tmp_path) == before


def test_a_folder_of_the_streaming_sink_takes_no_append(tmp_path: Path) -> None:
    (tmp_path / LOG).mkdir()
    (tmp_path / LOG / "0").write_text("v1")
    with pytest.raises(UsageError, match="what is appended would not be read"):
        save(tmp_path, [0])
    save(tmp_path, [0, 1, 2], overwrite=True)
    assert read_here(tmp_path).to_pydict() == {"id": [0, 1, 2]}
    assert not (tmp_path / LOG).exists()


def test_a_frame_without_rows_leaves_its_schema(tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(out, [], [])
    assert pa.ipc.open_file(*data(out)).schema == SCHEMA
    assert read_here(out).to_pydict() == {"id": []}
    save(out, [1, 2], [])
    before = data(out)
    save(out, [])
    assert data(out) == before  # (Parquet adds a file without rows)
    save(out, [], overwrite=True)
    assert read_here(out).to_pydict() == {"id": []}


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_visible_before_the_commit(place: str, overwrite: bool) -> None:
    if overwrite:
        save(place, [1])
    before = written(place)
    writer, messages = job(place, [2, 3], [4], overwrite=overwrite)
    writer.write(iter([numbers(4)]))  # an attempt that nobody counts
    assert written(place) == before
    writer.commit([*messages, None])
    assert written(place) == [2, 3, 4]
    assert [name for name in names_below(place) if not name.startswith("part-")] == ["_SUCCESS"]


@pytest.mark.parametrize("existing", [[], [1, 2]])
def test_a_job_that_dies_or_fails_leaves_nothing_that_counts(place: str, existing: list[int]) -> None:
    if existing:
        save(place, existing)
    before = names_below(place)
    writer, messages = job(place, [3], [4], [5])
    # The second file is gone, as if a disk had lost it: the commit has moved the first when it finds out.
    system, root = fsspec.url_to_fs(place)
    system.rm(f"{root}/{messages[1].staged}")
    with pytest.raises(FileNotFoundError):
        writer.commit(messages)
    writer.abort(messages)
    assert names_below(place) == before
    job(place, [3], [4])  # its driver dies
    assert written(place) == existing
    save(place, [5])  # and stops nobody
    assert written(place) == [*existing, 5]


def test_an_attempt_that_outlives_its_job_leaves_nothing(tmp_path: Path) -> None:
    writer, messages = job(tmp_path / "out", [1])

    def rows() -> Iterator[pa.RecordBatch]:
        yield numbers(2)
        writer.abort([*messages, None])
        yield numbers(3)

    with pytest.raises(FileNotFoundError):
        writer.write(rows())
    assert names_below(tmp_path) == []
