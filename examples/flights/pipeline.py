"""The timed steps of the job: decode payloads, read, compare, write files and a table, stream, query in SQL."""

import os
import platform
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arrowipc.errors import UsageError
from arrowipc.read.files import find_files, is_url
from arrowipc.read.remote import RemoteSource
from arrowipc.spark import from_arrow
from arrowipc.spark.payloads.decode import decode_payloads
from arrowipc.spark.sessions import reader_of, register
from compare import Comparison, compare_rows, quote
from flights import Inputs, airline_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Job", "Query", "Result", "Source", "Step", "find_sources", "flights_sources", "run"]

#: The folders of the files written, and the column that only those from July on have.
KEY, LATER_COLUMN = "origin", "made_up"
#: The rows that are read again.
ONE_AIRPORT = f"{KEY} = 'JFK'"
#: The table and its query. It has a folder per month; the query opens two of them.
TABLE = "flights_of_2013"
SUMMER = f"""SELECT dest, count(*) AS flights, round(avg(arr_delay), 1) AS minutes_late
FROM {TABLE}
WHERE month IN (6, 7) AND arr_delay IS NOT NULL
GROUP BY dest
ORDER BY flights DESC
LIMIT 5"""
READERS = {"jvm": "Spark's file format in the JVM", "python": "the Python data source"}


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Parameters
    ----------
    name : str
        For people.
    seconds : float
        Wall time.
    rows, size : int, optional
        Rows that came out and bytes that were read, where the step has such.
    """

    name: str
    seconds: float
    rows: int | None = None
    size: int | None = None

    @property
    def rows_per_second(self) -> float | None:
        """Throughput in rows."""
        return None if self.rows is None else self.rows / self.seconds

    @property
    def bytes_per_second(self) -> float | None:
        """Throughput in bytes of input."""
        return None if self.size is None else self.size / self.seconds


@dataclass(frozen=True, slots=True)
class Query:
    """A question in SQL.

    Parameters
    ----------
    text, plan : str
        The question, and what ``EXPLAIN`` says of it.
    answer : list of dict
        Rows by column.
    """

    text: str
    plan: str
    answer: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Source:
    """One input: a Parquet table with a payload column, or Arrow IPC files and streams.

    Parameters
    ----------
    name : str
        For people.
    path : str
        File, directory or pattern.
    column : str, optional
        The payload column; None for Arrow IPC files.
    """

    name: str
    path: str
    column: str | None = None


@dataclass(slots=True)
class Job:
    """What to do.

    Parameters
    ----------
    sources : list of Source
        The others are compared with the first, which is then written as Arrow IPC files, read back and
        compared again, aggregated and written as Parquet.
    output : Path
        Directory for what is written.
    by : sequence of str
        One or two columns to group by, or none.
    value : str, optional
        The number to average per group.
    flights : bool
        Whether these are the flights, for which the report knows more.
    """

    sources: list[Source]
    output: Path
    by: Sequence[str] = ()
    value: str | None = None
    flights: bool = False


@dataclass(slots=True)
class Result:
    """What came out: the steps, the comparison, the aggregates (lists of rows as dicts), and what ran it.

    ``names`` has full names for the values of the first column of ``by``; ``columns`` has name, type and
    number of nulls of each; ``payloads`` how many there were, and the rows of the largest; ``reader`` what
    ``format("arrowipc")`` means in this session.
    """

    title: str = ""
    steps: list[Step] = field(default_factory=list)
    comparison: Comparison | None = None
    groups: list[dict[str, Any]] = field(default_factory=list)
    hours: list[dict[str, Any]] = field(default_factory=list)
    columns: list[tuple[str, str, int]] = field(default_factory=list)
    by: Sequence[str] = ()
    value: str | None = None
    written: list[Path] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    query: Query | None = None
    reader: str = ""
    payloads: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        """Rows of the first source."""
        return next((step.rows for step in self.steps if step.rows is not None and step.size is not None), 0)


class Progress:
    """Is told what the job does; this one shows nothing."""

    def begin(self, name: str) -> None:
        """Note that a step begins."""

    def tasks(self, done: int, total: int) -> None:
        """Note how many of the step's Spark tasks are done."""

    def end(self, step: Step) -> None:
        """Note that a step has ended."""


def flights_sources(inputs: Inputs) -> list[Source]:
    """The three forms of the flights on the disk."""
    return [
        Source("payloads", str(inputs.payloads), "payload"),
        Source(".arrow files", str(inputs.files)),
        Source(".arrows streams", str(inputs.streams)),
    ]


def find_sources(spark: "SparkSession", paths: Sequence[str], column: str | None) -> list[Source]:
    """Find the sources in a user's inputs: Parquet with a payload column, or Arrow IPC.

    Raises
    ------
    UsageError
        If a path does not exist, or if a Parquet table leaves open which column holds the payloads.
    """
    sources = []
    for path in paths:
        files = find_files([path])
        if not any(_is_parquet(file.path) for file in files):
            sources.append(Source(path, path))
            continue
        schema = spark.read.parquet(path).schema
        binary = [item.name for item in schema if item.dataType.typeName() == "binary"]
        name = column or (binary[0] if len(binary) == 1 else None)
        if name is None or name not in schema.names:
            raise UsageError(
                f"{path}: name the column that holds the Arrow IPC payloads with --column; "
                f"binary columns are {', '.join(binary) or 'none'}"
            )
        sources.append(Source(path, path, name))
    return sources


def _is_parquet(path: str) -> bool:
    if is_url(path):
        return RemoteSource(path).head()[:4] == b"PAR1"
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


@dataclass(slots=True)
class _Timed:
    rows: int | None = None
    size: int | None = None


class Stopwatch:
    """Times steps, adds them to a result and tells the progress display."""

    def __init__(self, result: Result, progress: Progress, spark: "SparkSession | None" = None) -> None:
        self._result = result
        self._progress = progress
        self.spark = spark

    @contextmanager
    def step(self, name: str) -> Iterator[_Timed]:
        """Time the body; it may set ``rows`` and ``size`` (bytes) on what it gets."""
        timed = _Timed()
        self._progress.begin(name)
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        watcher.start()
        start = time.perf_counter()
        try:
            yield timed
        finally:
            seconds = time.perf_counter() - start
            stop.set()
            watcher.join()
        step = Step(name, seconds, timed.rows, timed.size)
        self._result.steps.append(step)
        self._progress.end(step)

    def _watch(self, stop: threading.Event) -> None:
        if self.spark is None:
            return
        tracker = self.spark.sparkContext.statusTracker()
        while not stop.wait(0.2):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                done = sum(stage.numCompletedTasks for stage in running)
                self._progress.tasks(done, sum(stage.numTasks for stage in running))


def run(spark: "SparkSession", job: Job, result: Result, watch: Stopwatch) -> None:
    """Run the job on any session; if the sources disagree, nothing is written or aggregated.

    Parameters
    ----------
    spark : SparkSession
    job : Job
    result : Result
        Receives what comes out.
    watch : Stopwatch
        Times the steps.

    Raises
    ------
    UsageError
        If a column named in the job does not exist, or if the flights are to be written without the file format.
    """
    from pyspark.sql import functions

    register(spark)
    reader = reader_of(spark)
    if job.flights and reader == "python":
        raise UsageError(
            "the job writes folders, tables and streams with Spark's file format for Arrow files, which this session "
            "lacks: python -m arrowipc.spark.jar says why"
        )
    result.reader = READERS[reader]
    result.by, result.value = job.by, job.value
    frames: dict[str, DataFrame] = {}
    for source in job.sources:
        verb = "decode" if source.column else "read"
        size = input_size(spark, source)
        with watch.step(f"{verb} {source.name}") as timed:
            frame = load(spark, source)
            if not frames:
                _check(frame, job)
            frames[source.name] = frame
            timed.rows = _drain(frame)
            timed.size = size
    first_name, first = next(iter(frames.items()))
    if len(frames) > 1:
        with watch.step("compare row for row") as timed:
            result.comparison = compare_rows(frames)
            timed.rows = sum(result.comparison.counts)
        if not result.comparison.agree:
            return
    name = "flights" if job.flights else "rows"
    if job.flights and hasattr(functions, "arrow_udf"):  # Spark 4.1
        _count_payloads(spark, job.sources[0], first, result, watch)
    again = _write_and_read(spark, first, job, job.output / f"{name}.arrow", result, watch)
    with watch.step("compare what was written") as timed:
        comparison = compare_rows({first_name: first, "the files written": again})
        timed.rows = sum(comparison.counts)
    result.comparison = result.comparison.and_(comparison) if result.comparison else comparison
    if not comparison.agree:
        return
    if job.flights:
        again = _save_as_table(spark, first, job.output / f"{TABLE}.arrow", result, watch)
        _stream_payloads(spark, job.sources[0], first, job.output / "streamed.arrow", result, watch)
        _ask(spark, result, watch)
    rows_path = job.output / f"{name}.parquet"
    with watch.step("write Parquet") as timed:
        first.write.mode("overwrite").parquet(str(rows_path))
        timed.rows = result.rows
    result.written.append(rows_path)
    _aggregate(spark, job, again, result, watch)


def _aggregate(spark: "SparkSession", job: Job, written: "DataFrame", result: Result, watch: Stopwatch) -> None:
    """Count nulls, and where the job says so, group: into a Parquet table and the result."""
    with watch.step(f"aggregate by {', '.join(job.by)}" if job.by else "count nulls") as timed:
        timed.rows = result.rows
        result.columns = _profile(written)
        if job.by:
            groups = _groups(written, job)
            path = job.output / ("delays.parquet" if job.flights else "groups.parquet")
            groups.coalesce(1).write.mode("overwrite").parquet(str(path))
            result.written.append(path)
            result.groups = [row.asDict() for row in spark.read.parquet(str(path)).orderBy(*job.by).collect()]
        if job.flights:
            result.names = airline_names()
            result.hours = [row.asDict() for row in _late_by_hour(written).collect()]


def _count_payloads(
    spark: "SparkSession", source: Source, decoded: "DataFrame", result: Result, watch: Stopwatch
) -> None:
    """Count the rows of payloads: `from_arrow` makes an array of each payload."""
    from pyspark.sql import functions as F

    assert source.column is not None
    with watch.step("count rows in payloads") as timed:
        rows = F.size(from_arrow(quote(source.column), decoded.schema)).alias("rows")
        counts = spark.read.parquet(source.path).select(rows).agg(F.sum("rows"), F.count("rows"), F.max("rows"))
        timed.rows, *found = counts.collect()[0]
        result.payloads = (found[0], found[1])


def _write_and_read(
    spark: "SparkSession", frame: "DataFrame", job: Job, path: Path, result: Result, watch: Stopwatch
) -> "DataFrame":
    """Write Arrow IPC files with the data source, and read them with it."""
    with watch.step("write .arrow files") as timed:
        if job.flights:
            _write_folders(frame, path)
        else:
            frame.write.format("arrowipc").mode("overwrite").save(str(path))
        timed.rows = result.rows
    result.written.append(path)
    reading = spark.read.format("arrowipc")
    if job.flights:
        reading = reading.option("mergeSchema", "true")
    again = reading.load(str(path)).select(frame.columns)
    with watch.step("read the files written") as timed:
        timed.rows = _drain(again)
        timed.size = input_size(spark, Source("", str(path)))
    if job.flights:
        with watch.step("read one airport") as timed:
            timed.rows = _drain(again.where(ONE_AIRPORT))
            timed.size = input_size(spark, Source("", str(path / f"{KEY}=JFK")))
    return again


def _write_folders(frame: "DataFrame", path: Path) -> None:
    """Write one folder per airport, in two jobs. Files of the second job have one extra column."""
    from pyspark.sql import functions as F

    later = frame.where("month > 6").withColumn(LATER_COLUMN, F.col("dep_delay") - F.col("arr_delay"))
    for mode, part in (("overwrite", frame.where("month <= 6")), ("append", later)):
        part.write.partitionBy(KEY).format("arrowipc").mode(mode).save(str(path))


def _save_as_table(
    spark: "SparkSession", frame: "DataFrame", path: Path, result: Result, watch: Stopwatch
) -> "DataFrame":
    """Save a table of the catalog, with a folder per month."""
    with watch.step("save as a table") as timed:
        writer = frame.write.format("arrowipc").partitionBy("month").mode("overwrite")
        writer.option("path", str(path.absolute())).saveAsTable(TABLE)
        timed.rows = result.rows
    result.written.append(path)
    return spark.table(TABLE)


def _stream_payloads(
    spark: "SparkSession", source: Source, decoded: "DataFrame", path: Path, result: Result, watch: Stopwatch
) -> None:
    """Decode payloads as they arrive and append their rows to files. A stream that is started again continues."""
    for old in (path, path.with_suffix(".checkpoint")):
        shutil.rmtree(old, ignore_errors=True)
    with watch.step("stream payloads to files") as timed:
        assert source.column is not None
        payloads = spark.readStream.schema(spark.read.parquet(source.path).schema).parquet(source.path)
        rows = decode_payloads(payloads, source.column, decoded.schema)
        writer = rows.writeStream.format("arrowipc").option("checkpointLocation", str(path.with_suffix(".checkpoint")))
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()
        timed.rows = spark.read.format("arrowipc").load(str(path)).count()
    if timed.rows != result.rows:
        raise UsageError(f"{path}: expected the {result.rows} rows of the payloads, found {timed.rows}")
    result.written.append(path)


def _ask(spark: "SparkSession", result: Result, watch: Stopwatch) -> None:
    """Query the table in SQL, and explain the query."""
    with watch.step("query in SQL") as timed:
        answer = [row.asDict() for row in spark.sql(SUMMER).collect()]
        timed.rows = result.rows
    result.query = Query(SUMMER, spark.sql(f"EXPLAIN {SUMMER}").collect()[0][0].strip(), answer)


def warm_up(spark: "SparkSession") -> None:
    """Start the Python workers, so that their start is not part of a step."""
    cores = spark.sparkContext.defaultParallelism
    # A lambda is sent by value; a function of this module would need the module on the executors.
    spark.range(0, cores, 1, cores).mapInArrow(lambda batches: batches, "id bigint").collect()


def load(spark: "SparkSession", source: Source) -> "DataFrame":
    """The rows of a source."""
    if source.column is None:
        return spark.read.format("arrowipc").load(source.path)
    return decode_payloads(spark.read.parquet(source.path), source.column)


def input_size(spark: "SparkSession", source: Source) -> int:
    """Bytes of Arrow IPC in a source: of the payloads (not of the Parquet around them), or of the files."""
    from pyspark.sql import functions as F

    if source.column is None:
        return sum(file.size or 0 for file in find_files([source.path]))
    total = spark.read.parquet(source.path).agg(F.sum(F.octet_length(quote(source.column)))).collect()[0][0]
    return int(total or 0)


def _drain(frame: "DataFrame") -> int:
    """Read every row and every column, and count the rows."""
    from pyspark.sql import Observation, functions as F

    count = Observation()
    frame.observe(count, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(count.get["rows"])


def _check(frame: "DataFrame", job: Job) -> None:
    for name in (*job.by, *([job.value] if job.value else [])):
        if name not in frame.columns:
            raise UsageError(f"there is no column {name!r}; the columns are {', '.join(frame.columns)}")
    if len(job.by) > 2:
        raise UsageError(f"expected at most two columns to group by, found {len(job.by)}")


def _groups(frame: "DataFrame", job: Job) -> "DataFrame":
    from pyspark.sql import functions as F

    measures = [F.count(F.lit(1)).alias("rows")]
    if job.value:
        value = quote(job.value)
        measures += [F.avg(value).alias(f"mean_{job.value}"), F.count(value).alias(f"count_{job.value}")]
    if job.flights:
        measures += [
            F.count_if(F.col("dep_time").isNull()).alias("cancelled"),
            F.avg((F.col("arr_delay") >= 15).cast("double")).alias("share_late"),
        ]
    return frame.groupBy(*map(quote, job.by)).agg(*measures)


def _late_by_hour(frame: "DataFrame") -> "DataFrame":
    """Share of arrivals 15 minutes late or more, by airport and scheduled hour of departure."""
    from pyspark.sql import functions as F

    late = F.avg((F.col("arr_delay") >= 15).cast("double")).alias("share_late")
    return (
        frame.where("arr_delay IS NOT NULL")
        .groupBy("origin", "hour")
        .agg(late, F.count(F.lit(1)).alias("rows"))
        .orderBy("origin", "hour")
    )


def _profile(frame: "DataFrame") -> list[tuple[str, str, int]]:
    """Name, type and number of nulls of each column."""
    from pyspark.sql import functions as F

    nulls = [F.count_if(F.col(quote(name)).isNull()) for name in frame.columns]
    row = frame.agg(*nulls).collect()[0]
    return [(name, kind, int(count)) for (name, kind), count in zip(frame.dtypes, row, strict=True)]


def describe_machine(spark: "SparkSession", master: str) -> dict[str, str]:
    """Versions and hardware, for the report."""
    import pyspark

    import arrowipc

    java = spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    return {
        "arrowipc": arrowipc.__version__,
        "Spark": pyspark.__version__,
        "pyarrow": pa.__version__,
        "Python": platform.python_version(),
        "Java": str(java),
        "master": master,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
