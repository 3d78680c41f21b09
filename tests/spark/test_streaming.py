"""Structured Streaming: files that appear in a directory, each row once, over restarts, in and out."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.spark import FORMAT, given as data_source, names_below, numbers, put, written
from hypothesis import given, settings, strategies as some
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.sources.files import FoundFile, find_files
from arrowipc.sources.spark_log import LOG
from arrowipc.spark.streaming import source as streaming_source
from arrowipc.spark.streaming.source import DIGEST_LENGTH, ArrowIpcStreamReader, Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

IDS = st.StructType().add("id", "long")


def appear(path: Path, *values: int, age: float = 0) -> Path:
    """Let a file of numbers appear, complete, with the modification time of some seconds ago."""
    hidden = put(path.with_name("." + path.name), numbers(*values))
    then = time.time() - age
    os.utime(hidden, (then, then))
    return hidden.rename(path)


def source(path: Path, schema: st.StructType = IDS, **options: Any) -> ArrowIpcStreamReader:
    return data_source(path, **options).streamReader(schema)


def stored(offset: Any) -> Any:
    """An offset as it comes back from Spark's checkpoint."""
    return json.loads(json.dumps(offset))


def rows(reader: ArrowIpcStreamReader, start: Any, end: Any) -> list[int]:
    """The rows between two offsets."""
    parts = reader.partitions(stored(start), stored(end))
    return sorted(v for part in parts for batch in reader.read(part) for v in batch["id"].to_pylist())


def drained(reader: ArrowIpcStreamReader, start: Any = None, limit: Any = None) -> tuple[list[list[int]], Any]:
    """The micro-batches from an offset until there is nothing more, and the last offset."""
    found = []
    start = start or reader.initialOffset()
    while True:
        end = stored(reader.latestOffset(stored(start), limit or reader.getDefaultReadLimit()))
        if end == start:
            return found, end
        found.append(rows(reader, start, end))
        start = end


# The source, without Spark around it.


def test_each_file_is_read_once_oldest_first(tmp_path: Path) -> None:
    limited = source(tmp_path, pathGlobFilter="*.arrow", maxFilesPerTrigger=2)
    assert drained(limited)[0] == []
    (tmp_path / "letter.txt").write_text("dear")
    for number in range(5):
        appear(tmp_path / f"{9 - number}.arrow", number, age=100 - number)
    assert limited.getDefaultReadLimit() == ReadMaxFiles(2)
    assert drained(limited, limit=ReadAllAvailable())[0] == [[0, 1, 2, 3, 4]]
    batches, end = drained(limited)
    assert batches == [[0, 1], [2, 3], [4]]
    with pytest.raises(UnsupportedError, match="by files, not by"):
        limited.latestOffset(limited.initialOffset(), ReadMaxRows(1))
    appear(tmp_path / "k=5" / "er.arrow", 5)
    (tmp_path / "_hidden.arrow").write_bytes(b"")
    appear(tmp_path / "_temporary" / "x.arrow", 99)
    # A new process knows the offset and nothing else.
    again = source(tmp_path, st.StructType([*IDS, st.StructField("k", st.IntegerType())]), pathGlobFilter="*.arrow")
    assert again.getDefaultReadLimit() == ReadAllAvailable()
    (part,) = again.partitions(end, again.latestOffset(end, ReadAllAvailable()))
    assert [batch.to_pylist() for batch in again.read(part)] == [[{"id": 5, "k": 5}]]


def test_available_now_takes_nothing_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_source, "TRACKED", 1)
    appear(tmp_path / "a.arrow", 1, age=50)
    appear(tmp_path / "b.arrow", 2, age=40)
    reader = source(tmp_path, maxFilesPerTrigger=1)
    reader.prepareForTriggerAvailableNow()
    appear(tmp_path / "early.arrow", 3, age=60)
    appear(tmp_path / "late.arrow", 4)
    batches, end = drained(reader)
    assert batches == [[1], [2]]
    assert drained(source(tmp_path), end)[0] == [[3, 4]]


def test_a_batch_that_runs_again_has_the_same_files(tmp_path: Path) -> None:
    appear(tmp_path / "a.arrow", 1, age=10)
    appear(tmp_path / "b.arrow", 2, age=5)
    reader = source(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    appear(tmp_path / "between.arrow", 3, age=7)
    appear(tmp_path / "before.arrow", 4, age=70)
    assert rows(source(tmp_path), start, end) == [1, 2]
    assert drained(source(tmp_path), stored(end))[0] == [[3, 4]]
    assert rows(reader, end, end) == []
    (tmp_path / "a.arrow").unlink()
    with pytest.raises(UsageError, match="1 of the files of this micro-batch no longer exist"):
        reader.partitions(start, end)
    assert rows(source(tmp_path, ignoreMissingFiles="true"), start, end) == [2]
    tmp_path.rename(tmp_path.parent / "away")
    with pytest.raises(UsageError, match="no such file"):
        drained(reader)


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


ARRIVALS = some.lists(some.tuples(some.integers(0, 20), some.integers(0, 30)), max_size=6)


@settings(max_examples=200, deadline=None)
@given(some.lists(ARRIVALS, min_size=1, max_size=8), some.integers(1, 4), some.integers(1, 12) | some.just(100))
def test_every_file_comes_once_or_is_older_than_those_tracked(
    arrivals: list[list[tuple[int, int]]], limit: int, most: int
) -> None:
    there: dict[str, int] = {}
    away: set[str] = set()
    offset = Offset()
    read: list[str] = []
    missed: set[str] = set()
    for arrived in arrivals:
        for number, when in arrived:
            name = f"f{number}"
            if name in there:
                # Nothing comes twice, or is lost, because its directory was away for a while.
                away ^= {name} if most == 100 else set()
                continue
            there[name] = when
            if (when, name) < offset.floor:
                missed.add(name)
        listing = entries({name: when for name, when in there.items() if name not in away})
        taken = offset.unread(listing)[:limit]
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


def batch(path: Any, *tasks: list[int]) -> Any:
    """Run the tasks of a micro-batch, up to their messages; return the committer and these."""
    writer = data_source(path, checkpointLocation="c").streamWriter(IDS, False)
    return writer, [writer.write(iter([numbers(*values)] if values else [])) for values in tasks]


def test_a_batch_is_committed_once(place: str) -> None:
    batch(place, [1], [2])  # of a driver that died before its commit
    writer, messages = batch(place, [1, 2], [3], [])
    assert written(place) == []
    writer.commit(messages, 0)
    first = names_below(place)
    for other in ([1, 2], [3]), ([1], [2], [3]), ([1, 2, 3],):
        writer, messages = batch(place, *other)
        writer.commit([*messages, None], 0)
        assert written(place) == [1, 2, 3]
        assert names_below(place) == first
    writer, messages = batch(place, [9])
    with pytest.raises(UsageError, match="ends with micro-batch 0, and this is number 5"):
        writer.commit(messages, 5)
    writer.abort(messages, 5)
    assert names_below(place) == first


def test_every_tenth_file_of_the_log_repeats_the_others(tmp_path: Path) -> None:
    for number in range(23):
        writer, messages = batch(tmp_path, [number] if number % 3 else [])
        writer.commit(messages, number)
        assert written(tmp_path) == [each for each in range(number + 1) if each % 3]
    names = {path.name for path in (tmp_path / LOG).iterdir()}
    assert {"9.compact", "19.compact", "22"} <= names
    for name in names - {"19.compact", "20", "21", "22"}:
        (tmp_path / LOG / name).unlink()
    assert written(tmp_path) == [each for each in range(23) if each % 3]


def test_what_a_sink_refuses(tmp_path: Path) -> None:
    appear(tmp_path / "old.arrow", 99)
    with pytest.raises(UsageError, match=r"old\.arrow: there is no log of a streaming sink"):
        batch(tmp_path, [1])
    with pytest.raises(UsageError, match='outputMode\\("append"\\)'):
        data_source(tmp_path / "new").streamWriter(IDS, True)
    assert names_below(tmp_path) == ["old.arrow"]


# In Spark.


@pytest.fixture
def stream(spark: SparkSession, python_format: None) -> Any:
    def load(path: Path, **options: Any) -> DataFrame:
        return spark.readStream.format(FORMAT).schema("id long").options(**options).load(str(path))

    return load


def run(frame: DataFrame, out: Path, format: str = FORMAT, *keys: str) -> None:
    """Run a query over all that is available now; its checkpoint lies beside its folder."""
    writer = frame.writeStream.format(format).option("checkpointLocation", f"{out}-checkpoint")
    query = (writer.partitionBy(*keys) if keys else writer).trigger(availableNow=True).start(str(out))
    if not query.awaitTermination(120):
        query.stop()
        raise AssertionError("the query does not come to an end")


@pytest.mark.slow
def test_exactly_once_over_restarts(spark: SparkSession, stream: Any, tmp_path: Path) -> None:
    into, out, again = tmp_path / "in", tmp_path / "out", tmp_path / "again"
    for number in range(5):
        appear(into / f"{number}.arrow", number, number + 100, age=50 - number)
    wanted = sorted([*range(5), *range(100, 105)])
    with pytest.raises(Exception, match="broken"):
        run(stream(into, maxFilesPerTrigger=2).selectExpr("if(id = 0, raise_error('broken'), id) as id"), out)
    assert written(out) == []
    run(stream(into, maxFilesPerTrigger=2), out)
    assert written(out) == wanted
    assert len(list(out.glob("part-*"))) >= 3
    run(stream(out), again)  # our sink is a source
    # The last batch again, as after a crash between our commit and Spark's note of it.
    commits = tmp_path / "out-checkpoint" / "commits"
    last = max((path.name for path in commits.iterdir() if path.name.isdecimal()), key=int)
    for name in (last, f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    appear(into / "late.arrow", 7, age=400 * 24 * 3600)
    appear(into / "new.arrow", 8)
    run(stream(into, maxFilesPerTrigger=2), out)
    run(stream(out), again)
    wanted = sorted([*wanted, 7, 8])
    # Spark's own sources go by our log, too.
    (out / "stray.arrow").write_bytes(b"of nobody")
    listed = spark.read.format("binaryFile").load(str(out)).select("path").collect()
    assert sorted(row.path for row in listed) == sorted(f"file:{each.path}" for each in find_files([str(out)]))
    for folder in (out, again):
        assert sorted(row.id for row in spark.read.format(FORMAT).load(str(folder)).collect()) == wanted


@pytest.mark.slow
def test_the_log_of_sparks_own_sink_is_understood(stream: Any, tmp_path: Path) -> None:
    appear(tmp_path / "in" / "a.arrow", 1, 2, 3)
    out = tmp_path / "o ut"
    run(stream(tmp_path / "in").selectExpr("id", "concat('a b%', id) AS k"), out, "json", "k")
    (out / "k=1").mkdir()
    (out / "k=1/stray.json").write_text("{}")
    names = {Path(each.path).parent.name for each in find_files([str(out)])}
    assert names == {f"k=a b%25{number}" for number in (1, 2, 3)}
