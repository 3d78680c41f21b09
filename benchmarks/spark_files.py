"""How long does Spark take over Arrow files, and how long over the same rows in Parquet?

Ten columns of everyday types; two tasks at a time. All files lie in the page cache.

* arrowipc: ``spark.read.format("arrowipc")`` by Python (``spark_jvm`` is about the jar), its partitions as it plans
  them; the one column is named by ``columns``, as Spark tells a Python source of none.
* parquet, snappy: ``spark.read.parquet`` of uncompressed and of Snappy files, which Spark reads without Python.
* pyarrow: the paths are given to ``mapInArrow``, whose function opens the files with pyarrow and hands on what
  it finds; a task per file, at most sixteen.
* by hand: arrowipc with ``partitionBytes`` set so that there is a task per core.

One column is summed; ten columns go to a sink that drops them; small files are counted. Without Spark or Java
nothing is measured.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.harness import Case, Fact, Run, Scale

TITLE = "Arrow files in Spark"

BATCH = 65_536
DDL = (
    "id bigint, price double, quantity int, sold boolean, at timestamp_ntz, day date, code smallint, score float, "
    "name string, city string"
)


def missing() -> str | None:
    """Return why nothing can be measured, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    from arrowipc.spark.java import NO_JAVA, find_java

    return NO_JAVA if find_java() is None else None


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """One and ten columns of one file and of several; then small files, and partitions set by hand."""
    from pyspark import cloudpickle

    from arrowipc.spark import register
    from arrowipc.spark.local_session import start_session

    # The workers cannot import the benchmarks: what they run is sent to them whole.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    batches = 76 if scale.thorough else scale.size(16, 2)
    small = 10_000 if scale.thorough else scale.size(1_000, 4)
    with (
        tempfile.TemporaryDirectory() as folder,
        start_session("local[2]", Path(folder, "spark.log")) as spark,
    ):
        register(spark)
        for files in (1, min(38, batches)) if scale.name != "quick" else (1,):
            yield from large(Files(spark, Path(folder, f"large{files}"), files, batches // files, BATCH))
        yield from little(Files(spark, Path(folder, "small"), small, 1, 100))


def large(files: Files) -> Iterator[Case]:
    """The cases of files that are worth their opening."""
    name = f"{files.rows} rows in {files.count} file{'s'[: files.count - 1]}"
    yield Case(f"{name}: sum of one column", "query", 1, files.summed(), baseline="snappy", threads=2)
    dropped = files.dropped()
    del dropped["by hand"]
    yield Case(f"{name}: ten columns", "query", 1, dropped, baseline="snappy", threads=2)
    for columns, runs in (("one column", files.summed()), ("ten columns", files.dropped())):
        planned = {each: runs[each] for each in ("arrowipc", "by hand")}
        yield Case(f"{name}: {columns}, planned", "query", 1, planned, goal=0.77, baseline="by hand", threads=2)


def little(files: Files) -> Iterator[Case]:
    """The cases of small files."""
    name = f"{files.count} files of {files.each} rows: count"
    yield Case(name, "file", files.count, files.counted(), goal=0.5, baseline="snappy", threads=2)
    planned = {name: files.counted()[name] for name in ("arrowipc", "by hand")}
    yield Case(f"{name}, planned", "file", files.count, planned, goal=0.77, baseline="by hand", threads=2)


class Files:
    """The same rows in files of each format, and what is asked of them.

    Attributes
    ----------
    count : int
        Files of each format.
    each : int
        Rows of a file.
    rows : int
        Of all files.
    """

    def __init__(self, spark: Any, folder: Path, count: int, batches: int, rows: int) -> None:
        batch = data.mixed_batch(rows)
        self.spark, self.folder, self.count = spark, folder, count
        self.each, self.rows = batches * rows, count * batches * rows
        table = pa.Table.from_batches([batch] * batches)
        for kind in ("arrow", "parquet", "snappy"):
            (folder / kind).mkdir(parents=True)
        contents: dict[str, bytes] = {"arrow": data.file([batch] * batches)}
        for kind, codec in (("parquet", "none"), ("snappy", "snappy")):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression=codec)
            contents[kind] = sink.getvalue().to_pybytes()
        for number in range(count):
            for kind, content in contents.items():
                (folder / kind / f"part-{number:05}.{kind}").write_bytes(content)
        self.size = count * len(contents["arrow"])

    def frames(self, columns: list[str]) -> dict[str, Callable[[], Any]]:
        """What makes a data frame, by contender."""
        paths = sorted(str(path) for path in (self.folder / "arrow").iterdir())
        frame = self.spark.createDataFrame([(path,) for path in paths], "path string")
        schema = ", ".join(each for each in DDL.split(", ") if each.split()[0] in columns)
        of = frame.repartition(min(len(paths), 16)).cache()

        def arrowipc(**options: Any) -> Any:
            reader = self.spark.read.format("arrowipc").option("engine", "python")
            reader = reader.options(columns=",".join(columns), **options)
            return reader.load(str(self.folder / "arrow"))

        half = max(1, (self.size * len(schema) // len(DDL) + 65_536 * self.count) // 2 + 1)
        return {
            "arrowipc": arrowipc,
            "parquet": lambda: self.spark.read.parquet(str(self.folder / "parquet")).select(columns),
            "snappy": lambda: self.spark.read.parquet(str(self.folder / "snappy")).select(columns),
            "pyarrow": lambda: of.mapInArrow(lambda batches: by_pyarrow(batches, columns), schema),
            "by hand": lambda: arrowipc(partitionBytes=half),
        }

    def summed(self) -> dict[str, Run]:
        """Sum one column."""
        made = self.frames(["id"])
        return {name: lambda make=make: make().agg({"id": "sum"}).first()[0] for name, make in made.items()}

    def dropped(self) -> dict[str, Run]:
        """Send ten columns to a sink that drops them."""
        made = self.frames([each.split()[0] for each in DDL.split(", ")])
        return {
            name: lambda make=make: make().write.format("noop").mode("overwrite").save() for name, make in made.items()
        }

    def counted(self) -> dict[str, Run]:
        """Count the rows, and with arrowipc also without reading any."""
        from arrowipc.spark import count_rows

        runs: dict[str, Run] = {name: lambda make=make: make().count() for name, make in self.frames(["id"]).items()}
        return {**runs, "count_rows": lambda: count_rows(self.spark, str(self.folder / "arrow"))}


def by_pyarrow(batches: Iterable[Any], columns: list[str]) -> Iterator[Any]:
    """Open each file that is named."""
    for batch in batches:
        for path in batch["path"]:
            reader = pa.ipc.open_file(pa.memory_map(path.as_py()))
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select(columns)
