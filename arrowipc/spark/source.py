"""The Spark data source ``arrowipc``: what Spark asks it for, and its options."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from arrowipc.spark.files import find_files
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read import ArrowIpcReader, naming

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

    The schema is that of the first file; the columns of the others are found by name. A schema given with
    ``.schema(...)`` selects columns, and fields within structs, without reading the rest.
    """

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.read.format``."""
        return "arrowipc"

    def schema(self) -> "StructType":
        """Spark schema of the first file, cut down to the option ``columns``."""
        from pyspark.sql.types import StructType

        from arrowipc.spark.types import to_spark_schema

        options = ReadOptions.of(self.options)
        path = find_files(self.options)[0]
        with naming(path), options.open(path, options.columns) as reader:
            schema = to_spark_schema(reader.schema, self.options)
        if options.columns is None:
            return schema
        order = [column if column in schema.names else column.split(".")[0] for column in options.columns]
        return StructType([schema[name] for name in dict.fromkeys(order) if name in schema.names])

    def reader(self, schema: "StructType") -> "ArrowIpcReader":
        """Build the reader of one query."""
        return ArrowIpcReader(schema, self.options)
