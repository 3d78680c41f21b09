"""Structured Streaming: files that appear in a directory, each row once, over restarts, in and out."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file
from helpers.python_source import FORMAT, register_python
from hypothesis import given, settings, strategies as some
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import arrowipc as ipc
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.read.files import FoundFile, find_files
from arrowipc.read.spark_log import LOG
from arrowipc.spark.streaming import source as streaming_source
from arrowipc.spark.streaming.sink import ArrowIpcStreamWriter
from arrowipc.spark.streaming.source import DIGEST_LENGTH, ArrowIpcStreamReader, Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

IDS = st.StructType([st.StructField("id", st.LongType())])
HOUR = 3600


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register_python(spark)


def put(path: Path, *values: int, age: float = 0) -> Path:
    """Let a file of numbers appear, complete, with the modification time of some seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name("." + path.name)
    hidden.write_bytes(file(pa.record_batch({"id": pa.array(values, pa.int64())})))
    then = time.time() - age
    os.utime(hidden, (then, then))
    return hidden.rename(path)


def source(path: Path, **options: Any) -> ArrowIpcStreamReader:
    texts = {name.lower(): str(value) for name, value in options.items()}
    return ArrowIpcStreamReader(IDS, {"path": str(path), **texts})


def stored(offset: Any) -> Any:
    """Return an offset as it comes back from Spark's checkpoint."""
    return json.loads(json.dumps(offset))


def rows(reader: ArrowIpcStreamReader, start: Any, end: Any) -> list[int]:
    """Return the rows between two offsets."""
    parts = reader.partitions(stored(start), stored(end))
    return sorted(v for part in parts for batch in reader.read(part) for v in batch["id"].to_pylist())


def drained(reader: ArrowIpcStreamReader, start: Any, limit: Any = None) -> tuple[list[list[int]], Any]:
    """Return the micro-batches from an offset until there is nothing more, and the last offset."""
    found = []
    while True:
        end = stored(reader.latestOffset(stored(start), limit or reader.getDefaultReadLimit()))
        if end == start:
            return found, end
        found.append(rows(reader, start, end))
        start = end


# The source, without Spark around it.


def test_each_file_is_read_once_oldest_first(tmp_path: Path) -> None:
    reader = source(tmp_path, maxFilesPerTrigger=2)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxFiles(2)) == start
    for number in range(5):
        put(tmp_path / f"{9 - number}.arrow", number, age=100 - number)
    batches, end = drained(reader, start)
    assert batches == [[0, 1], [2, 3], [4]]
    put(tmp_path / "k=5" / "er.arrow", 5)
    (tmp_path / "_hidden.arrow").write_bytes(b"")
    (tmp_path / "_temporary").mkdir()
    put(tmp_path / "_temporary" / "x.arrow", 99)
    # A new process knows the offset and nothing else.
    assert drained(source(tmp_path), end)[0] == [[5]]


def test_limits(tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path / f"{number}.arrow", number, age=100 - number)
    start = source(tmp_path).initialOffset()
    assert source(tmp_path).getDefaultReadLimit() == ReadAllAvailable()
    limited = source(tmp_path, maxFilesPerTrigger=2)
    assert limited.getDefaultReadLimit() == ReadMaxFiles(2)
    assert drained(limited, start)[0] == [[0, 1], [2, 3], [4, 5]]
    assert drained(limited, start, ReadAllAvailable())[0] == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(UnsupportedError, match="by files, not by"):
        limited.latestOffset(start, ReadMaxRows(1))


def test_available_now_takes_nothing_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_source, "TRACKED", 1)
    put(tmp_path / "a.arrow", 1, age=50)
    put(tmp_path / "b.arrow", 2, age=40)
    reader = source(tmp_path, maxFilesPerTrigger=1)
    reader.prepareForTriggerAvailableNow()
    put(tmp_path / "early.arrow", 3, age=60)
    put(tmp_path / "late.arrow", 4)
    batches, end = drained(reader, reader.initialOffset())
    assert batches == [[1], [2]]
    assert drained(source(tmp_path), end)[0] == [[3, 4]]


def test_a_file_that_appears_late_is_not_lost(tmp_path: Path) -> None:
    reader = source(tmp_path)
    put(tmp_path / "new.arrow", 1)
    _, end = drained(reader, reader.initialOffset())
    put(tmp_path / "old.arrow", 2, age=400 * 24 * HOUR)
    batches, end = drained(source(tmp_path), end)
    assert batches == [[2]]
    # Neither does a file come twice because its directory was away for a while.
    shutil.move(tmp_path / "new.arrow", tmp_path.parent / "away")
    put(tmp_path / "more.arrow", 3)
    batches, end = drained(source(tmp_path), end)
    assert batches == [[3]]
    shutil.move(tmp_path.parent / "away", tmp_path / "new.arrow")
    assert drained(source(tmp_path), end) == ([], end)


def test_a_batch_that_runs_again_has_the_same_files(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", 1, age=10)
    put(tmp_path / "b.arrow", 2, age=5)
    reader = source(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    put(tmp_path / "between.arrow", 3, age=7)
    put(tmp_path / "before.arrow", 4, age=70)
    assert rows(source(tmp_path), start, end) == [1, 2]
    assert drained(source(tmp_path), stored(end))[0] == [[3, 4]]
    assert rows(reader, end, end) == []
    (tmp_path / "a.arrow").unlink()
    with pytest.raises(UsageError, match="1 of the files of this micro-batch no longer exist"):
        reader.partitions(start, end)
    assert rows(source(tmp_path, ignoreMissingFiles="true"), start, end) == [2]


def test_a_directory_that_is_away_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        source(tmp_path / "none")
    reader = source(tmp_path)
    tmp_path.rename(tmp_path.parent / "elsewhere")
    with pytest.raises(UsageError, match="no such file"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with pytest.raises(UsageError, match="needs a path"):
        ArrowIpcStreamReader(IDS, {})


def test_keys_are_columns(tmp_path: Path) -> None:
    put(tmp_path / "k=7" / "a.arrow", 1)
    reader = ArrowIpcStreamReader(st.StructType().add("id", "long").add("k", "integer"), {"path": str(tmp_path)})
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert [batch.to_pylist() for batch in reader.read(part)] == [[{"id": 1, "k": 7}]]


def test_names_are_chosen(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", 1)
    (tmp_path / "letter.txt").write_text("dear")
    assert drained(source(tmp_path, pathGlobFilter="*.arrow"), Offset().stored())[0] == [[1]]


def entries(times: dict[str, int]) -> list[FoundFile]:
    return [FoundFile(name, 1, modified=when) for name, when in times.items()]


def test_an_offset_is_bounded() -> None:
    many = entries({f"{number:06}": number for number in range(50_000)})
    end = Offset().after(many, many, 1000)
    assert len(json.dumps(end.stored())) < 1000 * DIGEST_LENGTH + 200
    assert end.unread(many) == []
    late = entries({"late": 49_500, "too late": 10})
    assert end.unread([*many, *late]) == late[:1]
    assert Offset.of(stored(end.stored())) == end


@settings(max_examples=200, deadline=None)
@given(
    arrivals=some.lists(
        some.lists(some.tuples(some.integers(0, 20), some.integers(0, 30)), max_size=6),
        min_size=1,
        max_size=8,
    ),
    limit=some.integers(1, 4),
    most=some.integers(1, 12),
)
def test_every_file_comes_once_or_is_older_than_those_tracked(
    arrivals: list[list[tuple[int, int]]], limit: int, most: int
) -> None:
    there: dict[str, int] = {}
    offset = Offset()
    read: list[str] = []
    missed: set[str] = set()
    for arrived in arrivals:
        for number, when in arrived:
            name = f"f{number}"
            if name in there:
                continue
            there[name] = when
            if (when, name) < offset.floor:
                missed.add(name)
        listing = entries(there)
        unread = offset.unread(listing)
        taken = unread[:limit]
        if taken:
            end = offset.after(taken, listing, most)
            # What Spark plans from the two offsets is what was taken.
            still = {entry.path for entry in end.unread(listing)}
            planned = [entry.path for entry in offset.unread(listing) if entry.path not in still]
            assert planned == [entry.path for entry in taken]
            read += planned
            offset = Offset.of(stored(end.stored()))
    rest = [entry.path for entry in offset.unread(entries(there))]
    assert len(set(read)) == len(read)
    assert sorted([*read, *rest, *missed]) == sorted(there)
    if not missed and len(there) <= most:
        assert offset.floor == (0, "")


# The sink, without Spark around it.


def batch(path: Path | str, *tasks: list[int]) -> Any:
    """Run the tasks of a micro-batch, up to their messages; return the committer and these."""
    writer = ArrowIpcStreamWriter(IDS, {"path": str(path), "checkpointlocation": "c"}, False)
    given_rows = [[pa.record_batch({"id": pa.array(values, pa.int64())})] if values else [] for values in tasks]
    return writer, [writer.write(iter(each)) for each in given_rows]


def found(path: Path | str) -> list[int]:
    """Return the rows that a reader finds."""
    if isinstance(path, Path) and not path.exists():
        return []
    files = [each.path for each in find_files([str(path)], may_be_empty=True)]
    return sorted(v for name in files for v in ipc.open_file(name).read_all().to_pydict()["id"])


def tree(path: Path) -> list[str]:
    return sorted(str(name.relative_to(path)) for name in path.rglob("*"))


def test_a_batch_is_committed_once(tmp_path: Path) -> None:
    writer, messages = batch(tmp_path, [1, 2], [3], [])
    assert found(tmp_path) == []
    writer.commit(messages, 0)
    first = tree(tmp_path)
    for other in ([1, 2], [3]), ([1], [2], [3]), ([1, 2, 3],):
        writer, messages = batch(tmp_path, *other)
        writer.commit([*messages, None], 0)
        assert found(tmp_path) == [1, 2, 3]
        assert tree(tmp_path) == first
    writer, messages = batch(tmp_path, [9])
    with pytest.raises(UsageError, match="ends with micro-batch 0, and this is number 5"):
        writer.commit(messages, 5)
    writer.abort(messages, 5)
    assert tree(tmp_path) == first


def test_what_a_batch_that_died_left_does_not_count(tmp_path: Path) -> None:
    batch(tmp_path, [1], [2])
    writer, messages = batch(tmp_path, [1, 2])
    writer.commit(messages, 0)
    assert found(tmp_path) == [1, 2]
    assert len([*tmp_path.glob("*.arrow")]) == 3


def test_every_tenth_file_of_the_log_repeats_the_others(tmp_path: Path) -> None:
    for number in range(23):
        writer, messages = batch(tmp_path, [number] if number % 3 else [])
        writer.commit(messages, number)
        assert found(tmp_path) == [each for each in range(number + 1) if each % 3]
    names = {path.name for path in (tmp_path / LOG).iterdir()}
    assert {"9.compact", "19.compact", "22"} <= names
    for name in names - {"19.compact", "20", "21", "22"}:
        (tmp_path / LOG / name).unlink()
    assert found(tmp_path) == [each for each in range(23) if each % 3]


def test_what_a_sink_refuses(tmp_path: Path) -> None:
    put(tmp_path / "old.arrow", 99)
    with pytest.raises(UsageError, match=r"old\.arrow: there is no log of a streaming sink"):
        batch(tmp_path, [1])
    with pytest.raises(UsageError, match='outputMode\\("append"\\)'):
        ArrowIpcStreamWriter(IDS, {"path": str(tmp_path / "new")}, True)
    assert tree(tmp_path) == ["old.arrow"]


def test_a_store_without_renames() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    url = "memory://streams/out"
    try:
        for number, tasks in enumerate(([[1], [2]], [[3, 4]], [])):
            writer, messages = batch(url, *tasks)
            writer.commit(messages, number)
        writer, messages = batch(url, [3], [4])
        writer.commit(messages, 1)
        assert found(url) == [1, 2, 3, 4]
    finally:
        memory.rm("/streams", recursive=True)


# In Spark.


def until(query: StreamingQuery, done: Callable[[], bool]) -> None:
    """Wait, not for ever, until something holds; an error of the query is ours."""
    for _ in range(600):
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        if done():
            return
        time.sleep(0.1)
    raise AssertionError("the query does not get there")


def stream(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.readStream.format(FORMAT).schema("id long").options(**options).load(str(path))


def run(frame: DataFrame, out: Path, checkpoint: Path) -> None:
    """Run a query over all that is available now."""
    query = (
        frame.writeStream.format(FORMAT)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(out))
    )
    if not query.awaitTermination(120):
        query.stop()
        raise AssertionError("the query does not come to an end")


def ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row["id"] for row in spark.read.format(FORMAT).load(str(path)).collect())


def last(log: Path) -> Path:
    return max((path for path in log.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))


def test_exactly_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    into, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    for number in range(5):
        put(into / f"{number}.arrow", number, number + 100, age=50 - number)
    wanted = sorted([*range(5), *range(100, 105)])
    run(stream(spark, into, maxFilesPerTrigger=2), out, checkpoint)
    assert ids(spark, out) == wanted
    assert len(list(out.glob("part-*"))) >= 3
    # Nothing new; then the last batch again, as after a crash between our commit and Spark's note of it.
    run(stream(spark, into, maxFilesPerTrigger=2), out, checkpoint)
    assert ids(spark, out) == wanted
    log = checkpoint / "commits"
    crc = log / f".{last(log).name}.crc"
    last(log).unlink()
    crc.unlink(missing_ok=True)
    put(into / "late.arrow", 7, age=400 * 24 * HOUR)
    put(into / "new.arrow", 8)
    run(stream(spark, into, maxFilesPerTrigger=2), out, checkpoint)
    assert ids(spark, out) == sorted([*wanted, 7, 8])
    # Spark's own sources go by our log, too.
    (out / "stray.arrow").write_bytes(b"of nobody")
    listed = spark.read.format("binaryFile").load(str(out)).select("path").collect()
    assert sorted(row.path for row in listed) == sorted(f"file:{each.path}" for each in find_files([str(out)]))
    assert ids(spark, out) == sorted([*wanted, 7, 8])


def test_a_running_query_sees_new_files_and_goes_on_when_started_again(spark: SparkSession, tmp_path: Path) -> None:
    into, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    put(into / "0.arrow", 0)

    def start() -> StreamingQuery:
        writer = stream(spark, into).writeStream.format(FORMAT)
        return writer.option("checkpointLocation", str(checkpoint)).start(str(out))

    for round_ in range(2):
        query = start()
        try:
            until(query, lambda round_=round_: 2 * round_ in found(out))
            put(into / f"{2 * round_ + 1}.arrow", 2 * round_ + 1)
            until(query, lambda round_=round_: 2 * round_ + 1 in found(out))
        finally:
            query.stop()
        put(into / f"{2 * round_ + 2}.arrow", 2 * round_ + 2)
    assert found(out) == [0, 1, 2, 3]
    assert ids(spark, out) == [0, 1, 2, 3]


def test_our_sink_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "a" / "0.arrow", 1, 2)
    for number in range(2):
        put(tmp_path / "a" / f"more{number}.arrow", 10 + number)
        run(stream(spark, tmp_path / "a"), tmp_path / "b", tmp_path / "check-b")
        run(stream(spark, tmp_path / "b"), tmp_path / "c", tmp_path / "check-c")
    assert ids(spark, tmp_path / "c") == [1, 2, 10, 11]


def test_a_failed_batch_leaves_nothing_and_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    into, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    put(into / "a.arrow", 1, age=5)
    put(into / "b.arrow", 2)
    broken = stream(spark, into).selectExpr("if(id = 2, raise_error('broken'), id) as id")
    with pytest.raises(PySparkException, match="broken"):
        run(broken, out, checkpoint)
    assert found(out) == []
    run(stream(spark, into), out, checkpoint)
    assert ids(spark, out) == [1, 2]


def test_spark_s_own_sink_is_understood(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.arrow", 1, 2, 3)
    writer = stream(spark, tmp_path / "in").selectExpr("id", "concat('a b%', id) AS k").writeStream.format("json")
    query = writer.partitionBy("k").option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
    assert query.start(str(tmp_path / "o ut")).awaitTermination(120)
    (tmp_path / "o ut/k=1").mkdir()
    (tmp_path / "o ut/k=1/stray.json").write_text("{}")
    names = {Path(each.path).parent.name for each in find_files([str(tmp_path / "o ut")])}
    assert names == {f"k=a b%25{number}" for number in (1, 2, 3)}
