"""How reads are planned: what a task is given, and that all rows are read once, whatever the plan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import OLD_SPARK, file, stream

import arrowipc as ipc
from arrowipc.errors import FormatError, UsageError
from arrowipc.read.files import FoundFile
from arrowipc.spark import ArrowIpcDataSource, count_rows, describe, register
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.planning import LARGEST_PARTITION, Layout, Slice, SlicePartition, partition_count, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MIB = 1 << 20


def options(**given: Any) -> ReadOptions:
    return ReadOptions.of({name.lower(): str(value) for name, value in given.items()})


def numbers(start: int, stop: int) -> pa.RecordBatch:
    words = pa.DictionaryArray.from_arrays(pa.array([number % 3 for number in range(start, stop)]), ["a", "b", "c"])
    return pa.record_batch({"id": pa.array(range(start, stop), pa.int64()), "tag": words})


def source(path: Any, **given: Any) -> Any:
    """The reader of a query, and its partitions."""
    asked = ArrowIpcDataSource({"path": str(path), **{name.lower(): str(value) for name, value in given.items()}})
    reader = asked.reader(asked.schema())
    return reader, reader.partitions()


def rows(reader: Any, partitions: list[Any]) -> list[list[int]]:
    return [[each for batch in reader.read(part) for each in batch[0].to_pylist()] for part in partitions]


def all_rows(path: Any, **given: Any) -> list[int]:
    return [each for part in rows(*source(path, **given)) for each in part]


# How many, and which.


@pytest.mark.parametrize(
    ("size", "given", "count"),
    [
        (0, {}, 1),
        (8 * MIB, {}, 2),
        (15 * MIB, {}, 3),
        (430 * MIB, {}, 4),
        (513 * MIB, {}, 8),
        (513 * MIB, {"maxPartitionBytes": "1g"}, 4),
        (8 * MIB, {"maxPartitionBytes": "1m"}, 2),
        (64 * MIB, {"partitionBytes": MIB}, 64),
        (64 * MIB + 1, {"partitionBytes": MIB}, 65),
    ],
)
def test_partitions_are_a_multiple_of_the_cores_and_none_is_too_small(size: int, given: Any, count: int) -> None:
    assert partition_count(size, options(**{"minPartitionNum": 4, **given})) == count


def test_shares_are_equal_whatever_the_files_are() -> None:
    files = [FoundFile(f"/{number}", size * MIB) for number, size in enumerate([1, 40, 2, 2, 90, 1])]
    blocks = {path: Layout([(at * MIB, MIB) for at in range(size // MIB)]) for path, size, *_ in files}
    parts = plan(files, options(minPartitionNum=4, openCostInBytes=0), lambda file: blocks[file.path])
    weights = []
    for part in parts:
        assert isinstance(part, SlicePartition)
        sizes = {path: size for path, size, *_ in files}
        weights.append(
            sum(sizes[each.path] if each.ranges is None else sum(b - a for a, b in each.ranges) for each in part.slices)
        )
    assert sum(weights) == 136 * MIB
    assert all(abs(weight - 34 * MIB) <= MIB for weight in weights)
    assert plan([], options(), lambda file: None) == []


def test_only_what_is_to_be_cut_is_looked_at() -> None:
    looked: list[str] = []

    def look(file: FoundFile) -> Layout | None:
        looked.append(file.path)
        return None

    files = [FoundFile(f"/{number}", MIB) for number in range(1000)]
    assert len(plan(files, options(minPartitionNum=2), look)) == 10
    assert not looked
    plan([*files, FoundFile("/large", 200 * MIB)], options(minPartitionNum=2), look)
    assert looked == ["/large"]
    plan(files, options(minPartitionNum=2), look, prunes=True)
    assert len(looked) == 1001
    # Beyond the threshold, files are cut without a look.
    parts = plan(
        [FoundFile("/a", 9 * MIB), FoundFile("/b", 9 * MIB)],
        options(partitionBytes="6m", openCostInBytes=0, parallelPlanningThreshold=1),
        look,
    )
    assert len(looked) == 1001
    assert [[each.ranges for each in part.slices] for part in parts] == [
        [((0, 6 * MIB),)],
        [((6 * MIB, 9 * MIB),), ((0, 3 * MIB),)],
        [((3 * MIB, 9 * MIB),)],
    ]


def test_a_slice_has_the_batches_that_begin_in_its_ranges() -> None:
    blocks = [(8, 1, 1), (100, 1, 1), (50, 1, 1), (300, 1, 1), (200, 1, 1)]
    assert Slice("x").numbers(blocks) == [0, 1, 2, 3, 4]
    assert Slice("x", ((0, 51), (200, 300))).numbers(blocks) == [0, 2, 4]
    assert Slice("x", ((301, 400),)).numbers(blocks) == []
    kept = [Slice("a\udcff", ((1, 2), (3, 4)), 9, (("etag", "x"),)), Slice("b")]
    assert list(SlicePartition(kept).slices) == kept


PLANS: list[dict[str, Any]] = [
    {},
    {"partitionBytes": 1},
    {"partitionBytes": 3000},
    {"partitionBytes": 3000, "parallelPlanningThreshold": 1},
    {"partitionBytes": 400, "openCostInBytes": 0, "parallelPlanningThreshold": 1},
    {"partitionBytes": 9000, "openCostInBytes": 0, "columns": "id"},
    {"batchesPerPartition": 2},
    {"batchesPerPartition": 3, "recover": "true"},
    {"recover": "true", "partitionBytes": 2500, "mode": "permissive"},
]


@pytest.mark.parametrize("given", PLANS)
def test_all_rows_once_and_in_order(tmp_path: Path, given: dict[str, Any]) -> None:
    wanted = 0
    for number, (encode, count, extra) in enumerate(
        [(file, 7, {}), (stream, 9, {}), (file, 1, {"compression": "zstd"}), (stream, 4, {"compression": "lz4"})]
    ):
        batches = [numbers(start, start + 50) for start in range(wanted, wanted + 50 * count, 50)]
        if number == 1:  # dictionaries that grow, in a stream that is cut
            words = pa.array([f"w{each}" for each in range(count)])
            batches = [
                pa.record_batch(
                    {"id": batch["id"], "tag": pa.DictionaryArray.from_arrays(pa.array([at] * 50), words[: at + 1])}
                )
                for at, batch in enumerate(batches)
            ]
            extra = {"emit_dictionary_deltas": True}
        (tmp_path / f"{number}").write_bytes(encode(*batches, **extra))
        wanted += 50 * count
    reader, partitions = source(tmp_path, **given)
    found = rows(reader, partitions)
    assert [each for part in found for each in part] == list(range(wanted))
    if "partitionBytes" in given and "parallelPlanningThreshold" not in given:
        assert len(partitions) > 1
        assert all(found)


def test_streams_are_split(tmp_path: Path) -> None:
    (tmp_path / "x.arrows").write_bytes(stream(*[numbers(start, start + 500) for start in range(0, 5000, 500)]))
    reader, partitions = source(tmp_path, partitionBytes=20_000, openCostInBytes=0)
    assert len(partitions) > 3
    assert [each for part in rows(reader, partitions) for each in part] == list(range(5000))


def test_bytes_of_the_chosen_columns_count(tmp_path: Path) -> None:
    batch = pa.record_batch({"small": pa.array([1] * 1000, pa.int8()), "large": ["x" * 200] * 1000})
    for name, encode in (("x.arrow", file), ("x.arrows", stream)):
        path = tmp_path / name
        path.write_bytes(encode(*[batch] * 20))
        given = {"partitionBytes": 500_000, "openCostInBytes": 0}
        assert len(source(path, **given)[1]) == 9
        reader, partitions = source(path, columns="small", **given)
        assert len(partitions) == 1
        assert len(rows(reader, partitions)[0]) == 20_000


def test_a_file_that_changes_between_planning_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(file(*[numbers(0, 100)] * 8))
    reader, partitions = source(path, partitionBytes=3000)
    path.write_bytes(file(*[numbers(0, 100)] * 9))
    with pytest.raises(OSError, match=r"x\.arrow") as caught:
        rows(reader, partitions)
    assert "changed after it was planned" in str(caught.value)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        rows(reader, partitions)


@pytest.mark.parametrize("name", ["x.arrow", "x.arrows"])
@pytest.mark.parametrize("threshold", [1, 100])
def test_damaged_files_are_said_by_the_tasks(tmp_path: Path, name: str, threshold: int) -> None:
    encode = file if name == "x.arrow" else stream
    whole = encode(*[numbers(start, start + 100) for start in range(0, 1000, 100)])
    for other in ("a.arrow", "b.arrow"):
        (tmp_path / other).write_bytes(file(numbers(0, 100), numbers(100, 200)))
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    given = {"partitionBytes": 2000, "parallelPlanningThreshold": threshold}
    with pytest.raises(FormatError, match=r"x\.arrow"):
        all_rows(tmp_path, **given)
    assert all_rows(tmp_path, mode="dropmalformed", **given)[:400] == [*range(200)] * 2
    reader, partitions = source(tmp_path, mode="permissive", **given)
    found = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    assert any("x.arrow" in (row["_corrupt_record"] or "") for row in found)
    kept = all_rows(tmp_path, recover="true", **given)[400:]
    assert kept == list(range(len(kept)))
    assert kept


def test_sizes_in_words_of_spark() -> None:
    assert options(maxPartitionBytes="128MB").max_partition_bytes == LARGEST_PARTITION
    assert options(openCostInBytes="0").open_cost == 0
    assert options(openCostInBytes=" 4194304b ").open_cost == 4 * MIB
    for wrong in ("", "-1", "4 apples", "1.5m"):
        with pytest.raises(UsageError, match="openCostInBytes"):
            options(openCostInBytes=wrong)


# In Spark.


@pytest.mark.skipif(OLD_SPARK, reason="PySpark 4.0 keeps the first source that a session registers")
def test_a_registered_source_knows_the_session(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(*[numbers(0, 100_000)] * 16))

    def count() -> int:
        register(spark)
        return spark.read.format("arrowipc").load(str(tmp_path)).rdd.getNumPartitions()

    assert count() == spark.sparkContext.defaultParallelism
    try:
        spark.conf.set("spark.sql.files.minPartitionNum", "4")
        assert count() == 4
        spark.conf.set("spark.sql.files.maxPartitionBytes", "2MB")
        assert count() == (tmp_path / "x.arrow").stat().st_size // (4 * MIB) == 6  # none is shorter than that
        assert (
            spark.read.format("arrowipc").option("partitionBytes", "2m").load(str(tmp_path)).rdd.getNumPartitions() > 8
        )
    finally:
        for name in ("minPartitionNum", "maxPartitionBytes"):
            spark.conf.unset(f"spark.sql.files.{name}")
        register(spark)


def test_files_are_described_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    for number in range(20):
        encode = file if number % 2 else stream
        (tmp_path / f"{number:02}").write_bytes(encode(*[numbers(0, 10)] * (number + 1)))
    found = describe(spark, str(tmp_path)).orderBy("file").collect()
    assert [Path(row.file).name for row in found] == [f"{number:02}" for number in range(20)]
    assert [row.format for row in found] == ["stream", "file"] * 10
    assert [row.batches for row in found] == list(range(1, 21))
    assert [row.rows for row in found] == [10 * number for number in range(1, 21)]
    assert all(row.bytes == os.path.getsize(row.file) for row in found)
    assert count_rows(spark, str(tmp_path)) == 2100
    assert count_rows(spark, [str(tmp_path / "05"), str(tmp_path / "06")]) == 130
    (tmp_path / "99").write_bytes(file(numbers(0, 10), numbers(10, 20))[:-40])
    with pytest.raises(Exception, match="99: "):
        count_rows(spark, str(tmp_path))
    assert count_rows(spark, str(tmp_path), mode="dropmalformed") == 2100
    assert count_rows(spark, str(tmp_path), recover=True) == 2120
    frame = describe(spark, str(tmp_path), mode="permissive")
    assert "99: " in frame.where("file is null").first()._corrupt_record


# What it takes.

# ru_maxrss would begin with what the process that forked had.
PEAK = """
import sys
from arrowipc.spark.source import ArrowIpcDataSource
asked = ArrowIpcDataSource(dict(each.split("=", 1) for each in sys.argv[1:]))
reader = asked.reader(asked.schema())
for part in reader.partitions():
    for batch in reader.read(part) if "describe" not in asked.options else ():
        pass
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(line.split()[1]) >> 10)
"""

needs_linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks /proc what memory was needed")


def peak(path: Path, **given: Any) -> int:
    """MiB of memory that a process has at most which plans a read and does it."""
    asked = [f"path={path}", *(f"{name.lower()}={value}" for name, value in given.items())]
    done = subprocess.run([sys.executable, "-c", PEAK, *asked], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("kind", ["one batch", "texts", "stream"])
def test_batches_and_streams_that_are_large_are_read_in_windows(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "stream":
        batch = pa.record_batch({"x": pa.array(range(1 << 20), pa.int64())})
        with ipc.new_stream(path, batch.schema) as writer:
            for _ in range(80):
                writer.write(batch)
    else:
        count = 80 << 17
        column = pa.array(["x" * 56]).take(pa.array([0] * count, pa.int8())) if kind == "texts" else None
        batch = pa.record_batch({"x": pa.nulls(8 * count, pa.int64()).fill_null(1) if column is None else column})
        with ipc.new_file(path, batch.schema) as writer:
            writer.write(batch)
    assert path.stat().st_size > 600 * MIB
    assert peak(path, partitionBytes="10g") < 256


@pytest.mark.slow
@needs_linux
def test_a_hundred_thousand_files_are_planned_in_little_memory(tmp_path: Path) -> None:
    first = tmp_path / "0000000.arrow"
    first.write_bytes(file(numbers(0, 10)))
    for number in range(1, 100_000):
        if number % 50_000 == 0:  # a file has so many names only
            first = tmp_path / f"{number:07}.arrow"
            first.write_bytes(file(numbers(0, 10)))
        else:
            os.link(first, tmp_path / f"{number:07}.arrow")
    assert peak(tmp_path, describe="true") < 180
