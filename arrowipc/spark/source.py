"""The Spark data source ``arrowipc``: what Spark asks it for, and its options."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read import ArrowIpcReader, infer_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcDataSource", "register"]


def register(spark: "SparkSession") -> None:
    """Make ``spark.read.format("arrowipc")`` known to a session.

    Spark finds the data source by itself where the module ``pyspark_arrowipc`` is on the path of the driver's
    Python; this is for sessions where another package's broken ``pyspark_*`` module stops that search.
    """
    spark.dataSource.register(ArrowIpcDataSource)


class ArrowIpcDataSource(DataSource):
    """Reads Arrow IPC files (``.arrow``, Feather 2) and streams (``.arrows``, Hugging Face caches).

    Options (names in any case)
    ---------------------------
    path, paths
        Files, directories, patterns (``*``, ``**``, ``{a,b}``), or a JSON list; ``load(...)`` sets them.
        Local, or URLs of any file system that fsspec knows (``pip install 'arrowipc[remote]'``), of which
        only the ranges that the columns need are fetched.
    storage.NAME
        What the file system of a URL wants to know: ``.option("storage.anon", "true")``. Values are JSON
        where they can be, else texts; put a text such as ``12345`` in quotes.
    ignoreMissingFiles
        ``true``: pass over files that vanish between listing and reading; default ``false``.
    pushFilters
        ``true``: batches whose statistics, which the option ``statistics`` of the writer leaves in them, show
        that they hold no row of the query are not read. Needs Spark 4.1 and the setting
        ``spark.sql.python.filterPushdown.enabled=true``.
    pathGlobFilter
        Pattern for the names of files in directories, such as ``*.arrow``.
    format
        ``auto`` (default; looks at each file), ``file`` or ``stream``.
    columns
        Names, separated by commas or as a JSON list; ``a.b`` reads field b of struct a. The rest is not read.
    batchesPerPartition
        Record batches of a file per Spark partition; the default goes by bytes.
    partitionBytes
        Bytes per partition, default between 4 and 128 MiB. A stream is never split.
    rowsPerBatch
        Rows handed to Spark at once, default 32,768.
    validate
        ``full`` (default), ``none`` or ``strict``, as in :func:`arrowipc.open`.
    nanoseconds, unsupported
        See :class:`arrowipc.spark.TypeOptions`.
    mode
        What to do about malformed records: ``FAILFAST`` (default) raises, ``DROPMALFORMED`` leaves them out
        and says so in the log, ``PERMISSIVE`` gives one row of nulls for each, with what is wrong in the
        column ``columnNameOfCorruptRecord``.
    columnNameOfCorruptRecord
        Default ``_corrupt_record``. An inferred schema gets it as last column in mode ``PERMISSIVE``; a
        schema of the user's has it as string, or does without.
    recover
        ``true``: of files without a footer and of damaged streams the batches in front of the damage are
        read; what is lost is a malformed record in mode ``PERMISSIVE``, otherwise a warning in the log.

    A malformed record is a record batch of a file (the others are read), what is left of a stream behind the
    damage, a file without a readable schema, and in the modes that go on also a batch with a value that Spark
    cannot hold (see ``nanoseconds``). Missing columns, other types than the schema asks for, codecs that are
    not installed and files that cannot be reached are errors in every mode: they are not damage. The default
    differs from Spark's CSV and JSON because one batch holds many rows, and because bytes that do not decode
    are an accident, where a line of text that does not parse is everyday.

    The schema is that of the first file; the columns of the others are found by name. A schema given with
    ``.schema(...)`` selects columns, and fields within structs, without reading the rest.
    """

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.read.format``."""
        return "arrowipc"

    def schema(self) -> "StructType":
        """Spark schema of the first file, cut down to the option ``columns``, with the column for errors."""
        return infer_schema(self.options)

    def reader(self, schema: "StructType") -> "ArrowIpcReader":
        """Build the reader of one query."""
        if ReadOptions.of(self.options).push_filters:
            from arrowipc.spark.filters import FilteringReader

            return FilteringReader(schema, self.options)
        return ArrowIpcReader(schema, self.options)
