"""The timed steps of the job: decode payloads, read, compare, write files and a table, stream, query in SQL."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arrowipc.errors import UsageError
from arrowipc.read.files import find_files, is_url
from arrowipc.read.remote import RemoteSource
from arrowipc.spark import from_arrow
from arrowipc.spark.payloads.decode import decode_payloads
from arrowipc.spark.sessions import reader_of, register
from compare import Comparison, compare_rows, quote
from flights import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Job", "Result", "Source", "Step", "Stopwatch", "find_sources", "flights_sources", "run"]

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


@dataclass(slots=True)
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
    seconds: float = 0.0
    rows: int | None = None
    size: int | None = None


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
        Whether these are the flights, with which the job does more.
    """

    sources: list[Source]
    output: Path
    by: Sequence[str] = ()
    value: str | None = None
    flights: bool = False


@dataclass(slots=True)
class Result:
    """What came out: the steps, the comparison, the groups (rows as dicts), and what ran it.

    ``query`` is a question in SQL and its answer; ``reader`` says what ``format("arrowipc")`` means in this session.
    """

    title: str = ""
    steps: list[Step] = field(default_factory=list)
    comparison: Comparison | None = None
    groups: list[dict[str, Any]] = field(default_factory=list)
    by: Sequence[str] = ()
    value: str | None = None
    written: list[Path] = field(default_factory=list)
    query: tuple[str, list[dict[str, Any]]] | None = None
    reader: str = ""
    machine: str = ""
    rows: int = 0


class Stopwatch:
    """Times steps and adds them to a result; `begin` and `end` are told of each step."""

    def __init__(
        self,
        result: Result,
        begin: Callable[[str], object] = lambda name: None,
        end: Callable[[Step], object] = lambda step: None,
    ) -> None:
        self._result, self._begin, self._end = result, begin, end

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time the body; it may set ``rows`` and ``size`` (bytes) on the step."""
        step = Step(name)
        self._begin(name)
        start = time.perf_counter()
        yield step
        step.seconds = time.perf_counter() - start
        self._result.steps.append(step)
        self._end(step)


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
        with watch.step(f"{'decode' if source.column else 'read'} {source.name}") as step:
            frame = load(spark, source)
            if not frames:
                _check(frame, job)
            frames[source.name] = frame
            step.rows = _drain(frame)
            step.size = input_size(spark, source)
    first_name, first = next(iter(frames.items()))
    result.rows = next(step.rows or 0 for step in result.steps if step.size is not None)
    if len(frames) > 1 and not _compare(frames, "compare row for row", result, watch):
        return
    if job.flights:
        _write_folders(first, job.output / "flights.arrow", result, watch)
        again = _read_folders(spark, job.output / "flights.arrow", result, watch).select(first.columns)
    else:
        again = _write_and_read(spark, first, job.output / "rows.arrow", result, watch)
    if not _compare({first_name: first, "the files written": again}, "compare what was written", result, watch):
        return
    if job.flights:
        _count_payloads(spark, job.sources[0], first, watch)
        _stream_payloads(spark, job.sources[0], first, job.output / "streamed.arrow", result, watch)
        again = _save_as_table(spark, first, job.output / f"{TABLE}.arrow", result, watch)
        with watch.step("query in SQL"):
            result.query = SUMMER, [row.asDict() for row in spark.sql(SUMMER).collect()]
    _write_parquet(spark, job, first, again, result, watch)


def _compare(frames: "dict[str, DataFrame]", name: str, result: Result, watch: Stopwatch) -> bool:
    """Compare frames, and add those that agree to the result's comparison."""
    with watch.step(name) as step:
        found = compare_rows(frames)
        step.rows = sum(found.counts)
    known = result.comparison
    if known is not None and not found.differing:  # the first one is in both
        found = Comparison(known.names + found.names[1:], known.counts + found.counts[1:], 0, [])
    result.comparison = found
    return not found.differing


def _write_and_read(
    spark: "SparkSession", frame: "DataFrame", path: Path, result: Result, watch: Stopwatch
) -> "DataFrame":
    """Write Arrow IPC files, and read them."""
    with watch.step("write .arrow files") as step:
        frame.write.format("arrowipc").mode("overwrite").save(str(path))
        step.rows = result.rows
    result.written.append(path)
    again = spark.read.format("arrowipc").load(str(path))
    with watch.step("read the files written") as step:
        step.rows, step.size = _drain(again), size_of(path)
    return again


def _write_folders(frame: "DataFrame", path: Path, result: Result, watch: Stopwatch) -> None:
    """Write one folder per airport, in two jobs. Files of the second job have one extra column."""
    from pyspark.sql import functions as F

    later = frame.where("month > 6").withColumn(LATER_COLUMN, F.col("dep_delay") - F.col("arr_delay"))
    with watch.step("write .arrow files") as step:
        for mode, part in (("overwrite", frame.where("month <= 6")), ("append", later)):
            part.write.partitionBy(KEY).format("arrowipc").mode(mode).save(str(path))
        step.rows = result.rows
    result.written.append(path)


def _read_folders(spark: "SparkSession", path: Path, result: Result, watch: Stopwatch) -> "DataFrame":
    """Read all folders, which have different columns, and one of them."""
    again = spark.read.format("arrowipc").option("mergeSchema", "true").load(str(path))
    with watch.step("read the files written") as step:
        step.rows, step.size = _drain(again), size_of(path)
    with watch.step("read one airport") as step:
        step.rows, step.size = _drain(again.where(ONE_AIRPORT)), size_of(path / f"{KEY}=JFK")
    return again


def _count_payloads(spark: "SparkSession", source: Source, decoded: "DataFrame", watch: Stopwatch) -> None:
    """Count the rows of payloads: `from_arrow` makes an array of each payload."""
    from pyspark.sql import functions as F

    if source.column is None or not hasattr(F, "arrow_udf"):  # Spark 4.1 has it
        return
    with watch.step("count rows in payloads") as step:
        rows = F.size(from_arrow(quote(source.column), decoded.schema)).alias("rows")
        step.rows = spark.read.parquet(source.path).select(rows).agg(F.sum("rows")).collect()[0][0]


def _stream_payloads(
    spark: "SparkSession", source: Source, decoded: "DataFrame", path: Path, result: Result, watch: Stopwatch
) -> None:
    """Decode payloads as they arrive and append their rows to files. A stream that is started again continues."""
    for old in (path, path.with_suffix(".checkpoint")):
        shutil.rmtree(old, ignore_errors=True)
    with watch.step("stream payloads to files") as step:
        assert source.column is not None
        payloads = spark.readStream.schema(spark.read.parquet(source.path).schema).parquet(source.path)
        rows = decode_payloads(payloads, source.column, decoded.schema)
        writer = rows.writeStream.format("arrowipc").option("checkpointLocation", str(path.with_suffix(".checkpoint")))
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()
        step.rows = spark.read.format("arrowipc").load(str(path)).count()
    if step.rows != result.rows:
        raise UsageError(f"{path}: expected the {result.rows} rows of the payloads, found {step.rows}")
    result.written.append(path)


def _save_as_table(
    spark: "SparkSession", frame: "DataFrame", path: Path, result: Result, watch: Stopwatch
) -> "DataFrame":
    """Save a table of the catalog, with a folder per month."""
    with watch.step("save as a table") as step:
        writer = frame.write.format("arrowipc").partitionBy("month").mode("overwrite")
        writer.option("path", str(path.absolute())).saveAsTable(TABLE)
        step.rows = result.rows
    result.written.append(path)
    return spark.table(TABLE)


def _write_parquet(
    spark: "SparkSession", job: Job, first: "DataFrame", written: "DataFrame", result: Result, watch: Stopwatch
) -> None:
    """Write the rows, and where the job says so their groups."""
    path = job.output / ("flights.parquet" if job.flights else "rows.parquet")
    with watch.step("write Parquet") as step:
        first.write.mode("overwrite").parquet(str(path))
        step.rows = result.rows
    result.written.append(path)
    if job.by:
        path = job.output / ("delays.parquet" if job.flights else "groups.parquet")
        with watch.step(f"aggregate by {', '.join(job.by)}") as step:
            _groups(written, job).coalesce(1).write.mode("overwrite").parquet(str(path))
            groups = spark.read.parquet(str(path)).orderBy(*map(quote, job.by))
            result.groups = [row.asDict() for row in groups.collect()]
            step.rows = result.rows
        result.written.append(path)


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
        return size_of(source.path)
    total = spark.read.parquet(source.path).agg(F.sum(F.octet_length(quote(source.column)))).collect()[0][0]
    return int(total or 0)


def size_of(path: "str | Path") -> int:
    """Bytes of the Arrow IPC files in a folder."""
    return sum(file.size or 0 for file in find_files([str(path)]))


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
    return frame.groupBy(*map(quote, job.by)).agg(*measures)


def describe_machine(spark: "SparkSession", master: str) -> str:
    """Versions and hardware, for the report."""
    import arrowipc

    return f"arrowipc {arrowipc.__version__}, Spark {spark.version}, {master}, {os.cpu_count()} cores"
