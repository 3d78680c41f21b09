"""The Spark data source ``arrowipc``: what Spark asks it for, and its options."""

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.datasource import DataSource

from arrowipc.spark.options import ReadOptions, check_names
from arrowipc.spark.read.partitions import ArrowIpcReader
from arrowipc.spark.sessions import tell_reader
from arrowipc.spark.shipping import Shipped, needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from arrowipc.spark.streaming.sink import ArrowIpcStreamWriter
    from arrowipc.spark.streaming.source import ArrowIpcStreamReader
    from arrowipc.spark.write.commit import ArrowIpcWriter

__all__ = ["ArrowIpcDataSource", "register"]

#: Our options, and the settings of a session that they stand for.
SETTINGS = {
    "maxPartitionBytes": "spark.sql.files.maxPartitionBytes",
    "openCostInBytes": "spark.sql.files.openCostInBytes",
    "minPartitionNum": "spark.sql.files.minPartitionNum",
}


def register(spark: "SparkSession") -> None:
    """Make ``spark.read.format("arrowipc")`` known to a session.

    Spark finds the data source by itself where the module ``pyspark_arrowipc`` is on the path of the driver's
    Python. What it finds knows nothing of the session; what is registered cuts files for its cores and by its
    ``spark.sql.files.*`` settings, as they are now. It is also for sessions where another package's broken
    ``pyspark_*`` module stops that search.
    """
    settings: dict[str, str] = {}
    with suppress(PySparkException):  # what a session does not tell is planned without
        settings = {name.lower(): value for name, key in SETTINGS.items() if (value := spark.conf.get(key, None))}
    if "minpartitionnum" not in settings:
        # There is no such number in Spark Connect, whose planner counts the cores of its machine.
        with suppress(PySparkException):
            context = spark.sparkContext
            # Executors that were asked for may not be there yet.
            asked = [int(context.getConf().get(f"spark.executor.{each}", "0")) for each in ("instances", "cores")]
            settings["minpartitionnum"] = str(max(context.defaultParallelism, asked[0] * asked[1]))
    # A class that no module has travels with its attributes to the processes that plan.
    try:
        spark.dataSource.register(type(ArrowIpcDataSource.__name__, (ArrowIpcDataSource,), {"settings": settings}))
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark 4.0 refuses what it found by itself
            raise
    tell_reader(spark)


class ArrowIpcDataSource(Shipped, DataSource):
    """Arrow IPC files (``.arrow``, Feather 2) and streams (``.arrows``, Hugging Face caches).

    Options of reading (names in any case; one that is not listed here is refused)
    ------------------------------------------------------------------------------
    path, paths
        Files, directories, patterns (``*``, ``**``, ``{a,b}``), or a JSON list; ``load(...)`` sets them.
        Local, or URLs of any file system that fsspec knows (``pip install 'arrowipc[remote]'``), of which
        only the ranges that the columns need are fetched. Links in local directories are followed, but no
        directory is visited twice.
    storage.NAME
        What the file system of a URL wants to know: ``.option("storage.anon", "true")``. Values are JSON
        where they can be, else texts; put a text such as ``12345`` in quotes.
    ignoreMissingFiles
        ``true``: skip files that vanish between listing and reading, and links without a target;
        default ``false``.
    pushFilters
        ``true``: files whose folders, and batches whose statistics, which the option ``statistics`` of the writer
        leaves in them, show that they hold no row of the query are not read. Needs Spark 4.1 and the setting
        ``spark.sql.python.filterPushdown.enabled=true``.
    filter
        The same for a filter given as JSON, ``[["dt", ">=", "2024-05-01"], ["or", ["k", "=", 1], ["k", "is_null"]]]``,
        as :func:`arrowipc.open_dataset` has it: Spark pushes no ``OR``. Rows are not looked at: say ``where``, too.
    pathGlobFilter
        Pattern for the names of files, such as ``*.arrow`` or ``{a,b}*``.
    basePath
        The directory below which folders such as ``dt=2024-05-31`` are columns; default: each path that is given,
        or matches a pattern. As with Spark's own formats, these columns come last, and their types are int, bigint,
        double, date or string. Timestamps are strings, as Spark does not say in which time zone they are.
    recursiveFileLookup
        ``true``: folders are no columns. ``false``: only those of such names are entered. Default: all are.
    modifiedAfter, modifiedBefore, timeZone
        Which files to read, by when they were modified: ``2024-05-31T12:00:00`` in ``timeZone`` (``UTC``,
        ``Europe/Oslo``, ``+02:00``), or with its own, ``2024-05-31T12:00:00Z``. Not for streams.
    mergeSchema
        ``true``: the schema has the columns of all files, each with the type that holds their values without loss;
        default ``false``: of the first file.
    withMetadata
        ``true``: adds ``_file``, ``_batch`` and ``_row``: the path, the number of the record batch in it, and that of
        the row in the batch, from 0.
    ignoreCorruptFiles
        ``true``: another name for ``mode=DROPMALFORMED``.
    format
        ``auto`` (default; looks at each file), ``file`` or ``stream``.
    columns
        Names, separated by commas or as a JSON list; ``a.b`` reads field b of struct a. The rest is not read.
    maxPartitionBytes, openCostInBytes, minPartitionNum
        As ``spark.sql.files.*`` have them, which `register` takes from the session where they are set: bytes of
        the chosen columns per partition at most (default 128 MiB), what it costs to open a file (default
        64 KiB), and how many partitions to aim at (default: the cores; without `register` those of the driver's
        machine). Partitions are a multiple of that number, equally long, and none is shorter than 4 MiB. Files
        are split between record batches, and streams too, but for remote streams.
    partitionBytes
        Bytes per partition, instead.
    batchesPerPartition
        Record batches of a file per partition, instead.
    parallelPlanningThreshold
        Files that the driver looks into, because they are to be split or filtered: default 10,000. Where there
        are more, the tasks look: each is given ranges of bytes.
    engine
        Who reads: ``auto`` (default), ``python``, or ``jvm``, which fails where it would leave it to Python. Spark
        reads without Python where the package's jar is on its class path, see :func:`arrowipc.spark.configure`.
    describe
        ``true``: a row about each file instead of its rows; see :func:`arrowipc.spark.describe`.
    rowsPerBatch
        Rows handed to Spark at once, default 32,768.
    validate
        ``full`` (default), ``none`` or ``strict``, as in :func:`arrowipc.open`.
    nanoseconds, unsupported, extensions
        See :class:`arrowipc.spark.TypeOptions`.
    mode
        What to do about malformed records: ``FAILFAST`` (default) raises, ``DROPMALFORMED`` leaves them out
        and says so in the log, ``PERMISSIVE`` gives one row of nulls for each, with what is wrong in the
        column ``columnNameOfCorruptRecord``.
    columnNameOfCorruptRecord
        Default ``_corrupt_record``. An inferred schema gets it as last column in mode ``PERMISSIVE``; a
        schema of the user's has it as string, or does without.
    recover
        ``true``: the batches before the damage are read from files without a footer and from damaged
        streams; the lost rest is a malformed record in mode ``PERMISSIVE``, otherwise a warning in the log.

    Options of readStream, besides those of reading
    -----------------------------------------------
    path
        One directory; the files that appear in it, at any depth, are read once each, oldest first. They must
        be complete when they appear (rename them), and stay as they are.
    maxFilesPerTrigger, maxBytesPerTrigger
        Limits of a micro-batch; one file at least. Default: all that is there.
    maxTrackedFiles
        Of how many files, the newest, the checkpoint says by name that they were read; default 20,000. A file
        that appears late and is older than all of them is passed over.

    Options of writing
    ------------------
    path
        A directory; ``save(...)`` and ``start(...)`` set it. Mode ``append`` or ``overwrite``; the latter
        replaces Arrow files and refuses a directory that holds others. Of links only the link is removed.
    format
        ``file`` (default, ``.arrow``) or ``stream`` (``.arrows``).
    compression, compressionLevel
        ``none`` (default), ``lz4`` or ``zstd``.
    batchRows, batchBytes
        Rows, and bytes before compression, of a record batch at most; default 65,536 and 32 MiB.
    maxRecordsPerFile
        Rows of a file at most; default: a file per task.
    dictionaryColumns
        Columns of text or binary to be written dictionary-encoded: names, separated by commas or as a JSON
        list. A task holds a column's distinct values in memory.
    statistics
        ``true``, or names of columns: leaves the least and greatest values of each batch in its metadata,
        where ``pushFilters`` finds them.
    partitionBy
        Columns whose values become folders, ``dt=2024-05-31/``, named as Spark names those of Parquet: names,
        separated by commas or as a JSON list. (``partitionBy(...)`` itself Spark refuses for Python data sources.)
        A task has up to 64 files open, and 128 MiB of rows waiting for them.
    checkpointLocation
        Of ``writeStream``: as with every sink of Spark's. Each row is there exactly once after restarts.

    Notes
    -----
    A malformed record is a record batch of a file (the others are read), the rest of a stream after the
    damage, a file without a readable schema, and in the modes that continue also a batch with a value that Spark
    cannot hold (see ``nanoseconds``). Other types than the schema asks for, codecs that are not installed and
    files that cannot be reached are errors in every mode: they are not damage. The default
    differs from Spark's CSV and JSON because one batch holds many rows, and because bytes that do not decode
    are an accident, where a line of text that does not parse is everyday.

    The schema is that of the first file, or of all with ``mergeSchema``; the columns of the others are found by name,
    and null where a file has them not. A schema given with ``.schema(...)`` selects columns, and fields within
    structs, without reading the rest; it has all that is wanted, keys too.

    Destinations, too, may be URLs that fsspec knows; ``storage.NAME`` options go to their file system.
    """

    #: Options that `register` took from the session, under lower-case names.
    settings: ClassVar[dict[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.read.format``."""
        return "arrowipc"

    def schema(self) -> "StructType":
        """Spark schema of the first file, cut down to the option ``columns``, with the column for errors."""
        from arrowipc.spark.read.inference import infer_schema

        return infer_schema(ReadOptions.of(self.options))

    def _reading(self) -> dict[str, str]:
        """The options of a read, with those of the session."""
        return {**self.settings, **self.options}

    def reader(self, schema: "StructType") -> "ArrowIpcReader":
        """Build the reader of one query."""
        check_names(self.options, "read")
        options = ReadOptions.of(self._reading())
        if options.describe:
            from arrowipc.spark.read.describe import DescribingReader

            return DescribingReader(schema, options)
        if options.filter is not None or options.push_filters:
            with needing("4.1", "option pushFilters" if options.push_filters else "option filter"):
                from arrowipc.spark.read.pruning import FilteringReader, PruningReader
            return (FilteringReader if options.push_filters else PruningReader)(schema, options)
        return ArrowIpcReader(schema, options)

    def writer(self, schema: "StructType", overwrite: bool) -> "ArrowIpcWriter":
        """Build the writer of one job."""
        from arrowipc.spark.write.commit import ArrowIpcWriter

        return ArrowIpcWriter(schema, self.options, overwrite)

    def streamReader(self, schema: "StructType") -> "ArrowIpcStreamReader":
        """Build the reader of one streaming query."""
        with needing("4.2", "reading streams"):
            from arrowipc.spark.streaming.source import ArrowIpcStreamReader
        return ArrowIpcStreamReader(schema, self._reading())

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "ArrowIpcStreamWriter":
        """Build the writer of a streaming query."""
        with needing("4.1", "writing streams"):
            from arrowipc.spark.streaming.sink import ArrowIpcStreamWriter
        return ArrowIpcStreamWriter(schema, self.options, overwrite)
