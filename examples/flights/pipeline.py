"""The timed steps of the job: decode payloads, read, compare, write files and a table, stream, query in SQL."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from arrowipc.errors import UsageError
from arrowipc.sources.files import find_files
from arrowipc.spark import from_arrow
from arrowipc.spark.payloads.decode import decode_payloads
from arrowipc.spark.sessions import has_jar, register
from compare import Comparison, compare_rows, quote
from report import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The table and its query. It has a folder per month; the query opens two of them.
TABLE = "flights_of_2013"
SUMMER = f"""SELECT dest, count(*) AS flights, round(avg(arr_delay), 1) AS minutes_late
FROM {TABLE}
WHERE month IN (6, 7) AND arr_delay IS NOT NULL
GROUP BY dest
ORDER BY flights DESC
LIMIT 5"""


@dataclass(frozen=True, slots=True)
class Source:
    """One input: a Parquet table with a column of payloads, or (``column`` is None) Arrow files and streams."""

    name: str
    path: str
    column: str | None = None


@dataclass(slots=True)
class Job:
    """What to do, and what came out.

    The other sources are compared with the first one. Its rows are written as Arrow files, read back, compared
    again, and written as Parquet, also grouped by the columns ``by`` with the mean of the column ``value``.
    ``flights`` says whether these are the flights, with which the job does more.
    """

    sources: list[Source]
    output: Path
    by: Sequence[str] = ()
    value: str | None = None
    flights: bool = False
    rows: int = 0
    comparison: Comparison | None = None
    groups: list[dict[str, Any]] = field(default_factory=list)
    query: tuple[str, list[dict[str, Any]]] | None = None
    written: list[Path] = field(default_factory=list)
    machine: str = ""


def flights_sources(directory: Path) -> list[Source]:
    """The three forms that `flights.write_inputs` writes."""
    return [
        Source("payloads", str(directory / "payloads"), "payload"),
        Source(".arrow files", str(directory / "files")),
        Source(".arrows streams", str(directory / "streams")),
    ]


def find_sources(spark: "SparkSession", paths: Sequence[str], column: str | None) -> list[Source]:
    """Find the sources in a user's inputs: Parquet with a payload column, or Arrow files."""
    sources = []
    for path in paths:
        if not any(file.path.endswith(".parquet") for file in find_files([path])):
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


def run(spark: "SparkSession", job: Job, watch: Stopwatch) -> None:
    """Run the job on any session; if the sources disagree, nothing is written or aggregated."""
    register(spark)
    if not has_jar(spark):
        raise UsageError(
            "the job writes files with Spark's file format for Arrow files, which this session lacks: "
            "python -m arrowipc.spark.jar says why"
        )
    import arrowipc

    job.machine = (
        f"arrowipc {arrowipc.__version__}, Spark {spark.version}, {spark.sparkContext.master}, {os.cpu_count()} cores"
    )
    frames = {source.name: _read(spark, job, source, watch) for source in job.sources}
    name, first = next(iter(frames.items()))
    if len(frames) > 1 and not _compare(job, frames, "compare row for row", watch):
        return
    again = _write_files(spark, job, first, watch)
    if not _compare(job, {name: first, "the files written": again}, "compare what was written", watch):
        return
    if job.flights:
        _count_payloads(spark, job, first, watch)
        _stream_payloads(spark, job, first, watch)
        again = _save_as_table(spark, job, first, watch)
    _write_parquet(spark, job, first, again, watch)


def _read(spark: "SparkSession", job: Job, source: Source, watch: Stopwatch) -> "DataFrame":
    with watch.step(f"{'decode' if source.column else 'read'} {source.name}") as step:
        if source.column is None:
            frame = spark.read.format("arrowipc").load(source.path)
        else:
            frame = decode_payloads(spark.read.parquet(source.path), source.column)
        for name in [*job.by, *([job.value] if job.value else [])]:
            if name not in frame.columns:
                raise UsageError(f"there is no column {name!r}; the columns are {', '.join(frame.columns)}")
        step.rows = _drain(frame)
        job.rows = job.rows or step.rows
    return frame


def _drain(frame: "DataFrame") -> int:
    """Read every row and every column, and count the rows."""
    from pyspark.sql import Observation, functions as F

    count = Observation()
    frame.observe(count, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(count.get["rows"])


def _compare(job: Job, frames: "dict[str, DataFrame]", name: str, watch: Stopwatch) -> bool:
    """Compare frames, and add those that agree to the job's comparison."""
    with watch.step(name) as step:
        found = compare_rows(frames)
        step.rows = sum(found.counts)
    known = job.comparison
    if known is not None and not found.differing:  # the first one is in both
        found = Comparison(known.names + found.names[1:], known.counts + found.counts[1:], 0, [])
    job.comparison = found
    return not found.differing


def _write_files(spark: "SparkSession", job: Job, frame: "DataFrame", watch: Stopwatch) -> "DataFrame":
    """Write Arrow files, and read them. Flights: a folder per airport; files from July on have one extra column."""
    from pyspark.sql import functions as F

    path = job.output / ("flights.arrow" if job.flights else "rows.arrow")
    parts, keys = [frame], list[str]()
    if job.flights:
        later = frame.where("month > 6").withColumn("made_up", F.col("dep_delay") - F.col("arr_delay"))
        parts, keys = [frame.where("month <= 6"), later], ["origin"]
    with watch.step("write .arrow files") as step:
        for part, mode in zip(parts, ("overwrite", "append"), strict=False):
            part.write.partitionBy(*keys).format("arrowipc").mode(mode).save(str(path))
        step.rows = job.rows
    job.written.append(path)
    again = spark.read.format("arrowipc").option("mergeSchema", "true").load(str(path))
    with watch.step("read the files written") as step:
        step.rows = _drain(again)
    if job.flights:
        with watch.step("read one airport") as step:
            step.rows = _drain(again.where("origin = 'JFK'"))
    return again.select(*map(quote, frame.columns))


def _count_payloads(spark: "SparkSession", job: Job, decoded: "DataFrame", watch: Stopwatch) -> None:
    """Count the rows of payloads, of which `from_arrow` makes arrays; decode them in Python too, beside the JVM."""
    from pyspark.sql import functions as F

    payloads = spark.read.parquet(job.sources[0].path)
    with watch.step("count rows in payloads") as step:
        rows = F.size(from_arrow("payload", decoded.schema)).alias("rows")
        step.rows = payloads.select(rows).agg(F.sum("rows")).collect()[0][0]
    engine: Literal["jvm", "python"]
    for engine, place in (("jvm", "the JVM"), ("python", "Python")):
        with watch.step(f"decode payloads in {place}") as step:
            step.rows = _drain(decode_payloads(payloads, "payload", decoded.schema, engine=engine))


def _stream_payloads(spark: "SparkSession", job: Job, decoded: "DataFrame", watch: Stopwatch) -> None:
    """Decode payloads as they arrive and append their rows to files. A stream that is started again continues."""
    source, path = job.sources[0].path, job.output / "streamed.arrow"
    checkpoint = path.with_suffix(".checkpoint")
    for old in (path, checkpoint):
        shutil.rmtree(old, ignore_errors=True)
    with watch.step("stream payloads to files") as step:
        payloads = spark.readStream.schema(spark.read.parquet(source).schema).parquet(source)
        rows = decode_payloads(payloads, "payload", decoded.schema)
        writer = rows.writeStream.format("arrowipc").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()
        step.rows = spark.read.format("arrowipc").load(str(path)).count()
    if step.rows != job.rows:
        raise UsageError(f"{path}: expected the {job.rows} rows of the payloads, found {step.rows}")
    job.written.append(path)


def _save_as_table(spark: "SparkSession", job: Job, frame: "DataFrame", watch: Stopwatch) -> "DataFrame":
    """Save a table of the catalog, with a folder per month, and query it."""
    path = job.output / f"{TABLE}.arrow"
    with watch.step("save as a table") as step:
        writer = frame.write.format("arrowipc").partitionBy("month").mode("overwrite")
        writer.option("path", str(path.absolute())).saveAsTable(TABLE)
        step.rows = job.rows
    job.written.append(path)
    with watch.step("query in SQL"):
        job.query = SUMMER, [row.asDict() for row in spark.sql(SUMMER).collect()]
    return spark.table(TABLE)


def _write_parquet(spark: "SparkSession", job: Job, first: "DataFrame", written: "DataFrame", watch: Stopwatch) -> None:
    """Write the rows, and where the job says so their groups."""
    from pyspark.sql import functions as F

    path = job.output / ("flights.parquet" if job.flights else "rows.parquet")
    with watch.step("write Parquet") as step:
        first.write.mode("overwrite").parquet(str(path))
        step.rows = job.rows
    job.written.append(path)
    if not job.by:
        return
    path = job.output / ("delays.parquet" if job.flights else "groups.parquet")
    measures = [F.count(F.lit(1)).alias("rows")]
    if job.value:
        measures.append(F.avg(quote(job.value)).alias(f"mean_{job.value}"))
    columns = [quote(name) for name in job.by]
    with watch.step(f"aggregate by {', '.join(job.by)}") as step:
        written.groupBy(*columns).agg(*measures).coalesce(1).write.mode("overwrite").parquet(str(path))
        job.groups = [row.asDict() for row in spark.read.parquet(str(path)).orderBy(*columns).collect()]
        step.rows = job.rows
    job.written.append(path)
