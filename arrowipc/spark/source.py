"""The Spark data source ``arrowipc`` in Python: the methods that Spark calls."""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from arrowipc.errors import UsageError
from arrowipc.spark.options import USE_THE_JAR, explained
from arrowipc.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.reader import ArrowIpcReader


class ArrowIpcDataSource(Shipped, DataSource):  # noqa: D101  (its docstring has the table of options in it)
    __doc__ = f"""Arrow IPC files (``.arrow``, Feather 2) and streams (``.arrows``) where Spark has no jar of ours.

    In a session with the package's jar, ``format("arrowipc")`` is a file format in the JVM instead, which does all that
    Spark's own formats do and is many times as fast; :func:`arrowipc.spark.register` and :func:`arrowipc.spark.session`
    bring the jar. This data source is for where no jar can be loaded. It reads files and streams, and ``key=value``
    folders as columns. All else is refused by name: it writes nothing.

    Paths are files, directories and patterns, local or URLs of any file system that fsspec knows
    (a package of its own). Where Spark's streaming sink wrote a directory, only files count that its log
    lists. The schema is that of the first file, or given with ``.schema(...)``; columns of other files are found by
    name, and null where a file does not have them.

    Options
    -------
{explained()}
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "arrowipc"

    def schema(self) -> "StructType":
        """Return the Spark schema of the first file, or of all with ``mergeSchema``, for the option ``columns``."""
        from arrowipc.spark.read.schema import infer_schema
        from arrowipc.spark.read.sources import ReadOptions

        return infer_schema(ReadOptions.of(self.options))

    def reader(self, schema: "StructType") -> "ArrowIpcReader":
        """Build the reader of one query."""
        from arrowipc.spark.read.reader import ArrowIpcReader
        from arrowipc.spark.read.sources import ReadOptions

        return ArrowIpcReader(schema, ReadOptions.of(self.options))

    def writer(self, schema: "StructType", overwrite: bool) -> Any:
        """Refuse: only the file format in the JVM writes files."""
        raise UsageError(f"write: {USE_THE_JAR}")

    def streamReader(self, schema: "StructType") -> Any:
        """Refuse: only the file format in the JVM has streams."""
        raise UsageError(
            f"readStream: {USE_THE_JAR}; or format('binaryFile'), with the schema of spark.read.format('binaryFile'), "
            "and decode_payloads of its column content"
        )

    def streamWriter(self, schema: "StructType", overwrite: bool) -> Any:
        """Refuse: only the file format in the JVM has streams."""
        raise UsageError(f"writeStream: {USE_THE_JAR}")
