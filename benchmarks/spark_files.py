"""How long does Spark take over Arrow files, and how long over the same rows in Parquet?

Ten columns of everyday types; two tasks at a time; all files lie in the page cache, and each contender has run before.

* arrowipc: ``format("arrowipc")``, the file format in the JVM; the files are not compressed, and have statistics.
  lz4, zstd: the same for compressed files.
* parquet, snappy: uncompressed and Snappy files of Parquet.
* floor: a loop in the same JVM that reads the same bytes of the files and does nothing with them.

All columns go to a sink that drops them; one column is summed, ten are aggregated; rows are counted; a filter matches
a hundredth of the rows; groups are summed. Then batches of a thousand rows, two thousand columns, small files. The same
rows are written, as they come and into folders. Without Spark, Java or the jar nothing is measured.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import arrowipc as ipc
from benchmarks import data
from benchmarks.harness import Case, Fact, Run, Scale

TITLE = "Arrow files in Spark"

BATCH = 65_536
KINDS: dict[str, str | None] = {"arrowipc": None, "lz4": "lz4", "zstd": "zstd", "parquet": "none", "snappy": "snappy"}
ARROW = ("arrowipc", "lz4", "zstd")
READ, WRITE, SMALL = 1.2, 2.0, 1.0


def missing() -> str | None:
    """Return why nothing can be measured, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    from arrowipc.spark import find_jar
    from arrowipc.spark.java import NO_JAVA, find_java

    if find_java() is None:
        return NO_JAVA
    return None if find_jar() else "there is no jar: python -m arrowipc.spark.jar says why"


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """The questions of one session, in the order of the table that they are judged by."""
    from arrowipc.spark.local_session import start_session

    batches = 76 if scale.thorough else scale.size(16, 4)
    short = 4_000 if scale.thorough else scale.size(400, 8)
    columns = 2_000 if scale.thorough else scale.size(500, 20)
    small = 10_000 if scale.thorough else scale.size(1_000, 4)
    with tempfile.TemporaryDirectory() as folder, start_session("local[2]", Path(folder, "spark.log")) as spark:
        files = Files(spark, Path(folder, "large"), [numbered(number, BATCH) for number in range(batches)], 4)
        yield from large(files)
        yield from written(files, Path(folder, "written"))
        yield from shorter(Files(spark, Path(folder, "short"), [numbered(each, 1_000) for each in range(short)], 4))
        yield from wide(Files(spark, Path(folder, "wide"), [many(columns)] * 2, 2), columns)
        yield from little(Files(spark, Path(folder, "small"), [data.mixed_batch(100)] * small, small))


def numbered(number: int, rows: int) -> pa.RecordBatch:
    """A batch of the ten columns whose ids follow those of the batch before."""
    return data.mixed_batch(rows).set_column(0, "id", pa.array(np.arange(number * rows, (number + 1) * rows)))


def many(columns: int) -> pa.RecordBatch:
    """A batch of many columns of numbers."""
    return pa.record_batch({f"c{number}": np.arange(BATCH // 8, dtype=np.int64) for number in range(columns)})


class Files:
    """The same batches in files of each kind.

    Attributes
    ----------
    rows : int
        Of all files of a kind.
    """

    def __init__(self, spark: Any, folder: Path, batches: list[pa.RecordBatch], count: int) -> None:
        self.spark, self.folder, self.rows = spark, folder, sum(batch.num_rows for batch in batches)
        for kind, codec in KINDS.items():
            (folder / kind).mkdir(parents=True)
            for number in range(count):
                part = batches[number * len(batches) // count : (number + 1) * len(batches) // count]
                path = folder / kind / f"part-{number:05}.{kind}"
                if kind in ARROW:
                    with ipc.new_file(path, compression=codec, statistics=[part[0].schema.names[0]]) as writer:
                        for batch in part:
                            writer.write(batch)
                else:
                    pq.write_table(pa.Table.from_batches(part), path, compression=codec)

    def frame(self, kind: str) -> Any:
        """The files of a kind as Spark reads them."""
        return self.spark.read.format(format_of(kind)).load(str(self.folder / kind))

    def each(self, question: Callable[[Any], Any]) -> dict[str, Run]:
        """What asks a frame of each kind."""
        return {kind: lambda kind=kind: question(self.frame(kind)) for kind in KINDS}

    def floor(self, answer: Any, share: float = 1.0) -> dict[str, Run]:
        """What reads a share of the bytes in a loop of the JVM, and says the answer of the others."""
        java = self.spark._jvm.java

        def read() -> Any:
            sink = java.io.OutputStream.nullOutputStream()
            for path in sorted((self.folder / "arrowipc").iterdir()):
                source = java.io.FileInputStream(str(path))
                source.readNBytes(0) if share == 0 else source.skip(int(path.stat().st_size * (1 - share)))
                source.transferTo(sink)
                source.close()
            return answer

        return {"floor": read}


def format_of(kind: str) -> str:
    """The format that Spark knows a kind by."""
    return "arrowipc" if kind in ARROW else "parquet"


def dropped(frame: Any) -> None:
    """Send all columns to a sink that drops them."""
    frame.write.format("noop").mode("overwrite").save()


def grouped(frame: Any) -> list[Any]:
    """Sum the groups of a column of texts."""
    return sorted(frame.groupBy("city").agg({"id": "sum"}).collect(), key=str)


def large(files: Files) -> Iterator[Case]:
    """The cases of one large table."""
    name, rows = f"{files.rows} rows", files.rows
    ends = [f"max({column})" for column in files.frame("arrowipc").columns]

    def few(frame: Any) -> Any:
        chosen = frame.where(f"id between {rows // 2} and {rows // 2 + rows // 100}")
        return tuple(chosen.selectExpr("sum(price)", "max(name)").first())

    yield judged(f"{name}: no-op read of ten columns", files.each(dropped) | files.floor(None), READ)
    summed = files.each(lambda frame: frame.agg({"id": "sum"}).first()[0])
    yield judged(f"{name}: sum of one column", summed | files.floor(rows * (rows - 1) // 2, 0.12), READ)
    aggregated = files.each(lambda frame: tuple(frame.selectExpr(*ends).first()))
    yield judged(f"{name}: ten columns aggregated", aggregated, READ)
    yield judged(f"{name}: count", files.each(lambda frame: frame.count()), READ)
    yield judged(f"{name}: a filter that a hundredth passes", files.each(few), READ)
    yield judged(f"{name}: sums of groups", files.each(grouped), READ)


def written(files: Files, folder: Path) -> Iterator[Case]:
    """The same rows, held in memory, are written."""
    frame = files.frame("arrowipc").repartition(2).cache()
    frame.count()
    numbers = itertools.count()

    def write(kind: str, *keys: str) -> None:
        path = folder / str(next(numbers))
        codec = {"arrowipc": "none", "parquet": "none"}.get(kind, kind)
        frame.write.partitionBy(*keys).format(format_of(kind)).option("compression", codec).save(str(path))
        shutil.rmtree(path)

    yield judged(f"{files.rows} rows: write", {kind: lambda kind=kind: write(kind) for kind in KINDS}, WRITE)
    runs = {kind: lambda kind=kind: write(kind, "city") for kind in KINDS}
    yield judged(f"{files.rows} rows: write into folders", runs, WRITE)
    frame.unpersist()


def shorter(files: Files) -> Iterator[Case]:
    """The cases of short batches."""
    name = f"{files.rows // 1_000} batches of 1,000 rows"
    yield judged(f"{name}: no-op read of ten columns", files.each(dropped), READ)
    yield judged(f"{name}: sums of groups", files.each(grouped), SMALL)


def wide(files: Files, columns: int) -> Iterator[Case]:
    """Five of many columns."""
    asked = [f"sum(c{number})" for number in range(0, columns, columns // 5)]
    runs = files.each(lambda frame: tuple(frame.selectExpr(*asked).first()))
    yield judged(f"{files.rows} rows of {columns} columns: sum of five", runs, READ)


def little(files: Files) -> Iterator[Case]:
    """The case of small files."""
    yield judged(f"{files.rows // 100} files of 100 rows: count", files.each(lambda frame: frame.count()), SMALL)


def judged(name: str, runs: dict[str, Run], goal: float) -> Case:
    """A case of a query that two tasks answer at a time, beside Parquet as Spark writes it."""
    return Case(name, "query", 1, runs, goal=goal, baseline="snappy", threads=2)
