"""How long does Spark take over Arrow files without Python in between, and how long over the same rows in Parquet?

Five million rows of ten columns of everyday types in four files of each kind; two tasks at a time; all files lie in the
page cache, and each contender has run before.

* arrowipc: ``spark.read.format("arrowipc")`` with the package's jar, ``option("engine", "jvm")``; the files are not
  compressed. lz4, zstd: the same for compressed files.
* parquet, snappy: ``spark.read.parquet`` of uncompressed and of Snappy files.
* python: the Python data source, where it is what the goal compares with.
* floor: a loop in the same JVM that reads the same bytes of the files and does nothing with them.

All columns go to a sink that drops them; one column is summed, and five of a thousand; ten are aggregated; rows are
counted; a filter matches one batch in seventy-six; rows go through an ``arrow_udf``; ten thousand small files are
counted. Without Spark, Java or the jar nothing is measured.
"""

from __future__ import annotations

import importlib.util
import sys
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

TITLE = "Arrow files in Spark without Python"

BATCH = 65_536
KINDS: dict[str, str | None] = {"arrowipc": None, "lz4": "lz4", "zstd": "zstd", "parquet": "none", "snappy": "snappy"}
ARROW = ("arrowipc", "lz4", "zstd")


def missing() -> str | None:
    """Return why nothing can be measured, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    from arrowipc.spark import find_jar
    from arrowipc.spark.java import NO_JAVA, find_java

    if find_java() is None:
        return NO_JAVA
    return None if find_jar() else "no jar was built: make jar, with a JDK"


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """The questions of one session, in the order of the table that they are judged by."""
    from pyspark import cloudpickle

    from arrowipc.spark import register
    from arrowipc.spark.local_session import start_session

    # The workers cannot import the benchmarks: what they run is sent to them whole.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    batches = 76 if scale.thorough else scale.size(16, 4)
    small = 10_000 if scale.thorough else scale.size(1_000, 4)
    with tempfile.TemporaryDirectory() as folder, start_session("local[2]", Path(folder, "spark.log")) as spark:
        register(spark)
        yield from large(Files(spark, Path(folder, "large"), [numbered(number) for number in range(batches)], 4))
        yield from wide(Files(spark, Path(folder, "wide"), [thousand()] * (8 if scale.thorough else 2), 2))
        yield from little(Files(spark, Path(folder, "small"), [data.mixed_batch(100)] * small, small))


def numbered(number: int) -> pa.RecordBatch:
    """A batch of the ten columns whose ids follow those of the batch before."""
    batch = data.mixed_batch(BATCH)
    return batch.set_column(0, "id", pa.array(np.arange(number * BATCH, (number + 1) * BATCH)))


def thousand() -> pa.RecordBatch:
    """A batch of a thousand columns of numbers."""
    return pa.record_batch({f"c{number}": np.arange(BATCH // 4, dtype=np.int64) for number in range(1000)})


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

    def frame(self, kind: str, engine: str = "jvm") -> Any:
        """The files of a kind as Spark reads them."""
        if kind in ARROW:
            return self.spark.read.format("arrowipc").option("engine", engine).load(str(self.folder / kind))
        return self.spark.read.parquet(str(self.folder / kind))

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


def large(files: Files) -> Iterator[Case]:
    """The cases of one large table."""
    name = f"{files.rows} rows"
    columns = files.frame("arrowipc").columns
    ends = [f"max({column})" for column in columns]

    def dropped(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def few(frame: Any) -> Any:
        return tuple(frame.where(f"id between {BATCH} and {BATCH + 99}").selectExpr("sum(price)", "max(name)").first())

    yield judged(f"{name}: no-op read of ten columns", files.each(dropped) | files.floor(None), 1 / 0.8)
    total = files.rows * (files.rows - 1) // 2
    summed = files.each(lambda frame: frame.agg({"id": "sum"}).first()[0])
    yield judged(f"{name}: sum of one column", summed | files.floor(total, 0.12), 1)
    yield judged(f"{name}: ten columns aggregated", files.each(lambda frame: tuple(frame.selectExpr(*ends).first())), 1)
    yield judged(f"{name}: count", files.each(lambda frame: frame.count()), 1 / 0.3)
    yield judged(f"{name}: a filter that one batch matches", files.each(few), 1)
    engines = {"arrowipc": "jvm", "python": "python"}
    passed = {kind: lambda engine=engine: through(files.frame("arrowipc", engine)) for kind, engine in engines.items()}
    yield judged(f"{name}: into arrow_udf", passed, 1.3, baseline="python")


def wide(files: Files) -> Iterator[Case]:
    """Five of a thousand columns."""
    asked = [f"sum(c{number})" for number in range(0, 1000, 200)]
    runs = files.each(lambda frame: tuple(frame.selectExpr(*asked).first()))
    yield judged(f"{files.rows} rows of 1,000 columns: sum of five", runs, 1)


def little(files: Files) -> Iterator[Case]:
    """The case of small files."""
    yield judged(f"{files.rows // 100} files of 100 rows: count", files.each(lambda frame: frame.count()), 1)


def judged(name: str, runs: dict[str, Run], goal: float, baseline: str = "parquet") -> Case:
    """A case of a query that two tasks answer at a time."""
    return Case(name, "query", 1, runs, goal=goal, baseline=baseline, threads=2)


def through(frame: Any) -> int:
    """Count what an ``arrow_udf`` gives back for each row."""
    from pyspark.sql.functions import arrow_udf, col

    same = arrow_udf(lambda ids: ids, "long")
    return int(frame.select(same(col("id")).alias("id")).agg({"id": "sum"}).first()[0])
