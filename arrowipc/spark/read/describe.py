"""What is in files without their rows: read from footers and heads of messages, by many tasks."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from arrowipc.errors import FormatError
from arrowipc.read.files import naming
from arrowipc.reader import RecordBatchFileReader
from arrowipc.spark.read.partitions import ArrowIpcReader
from arrowipc.spark.read.planning import Slice, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import InputPartition

__all__ = ["COLUMNS", "DescribingReader", "count_rows", "describe"]

#: What is said of a file.
COLUMNS = StructType().add("file", "string").add("format", "string")
for _number in ("bytes", "batches", "rows"):
    COLUMNS = COLUMNS.add(_number, "long")


def describe(spark: "SparkSession", path: str | list[str], **options: Any) -> "DataFrame":
    """Say of each file how many batches and rows it has, from footers and heads of messages alone.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect.
    path : str or list of str
        As for ``spark.read.format("arrowipc").load``.
    **options
        Of that reader, such as ``pathGlobFilter`` and ``mode``.

    Returns
    -------
    pyspark.sql.DataFrame
        A row per file: ``file``, ``format`` (file or stream), ``bytes``, ``batches``, ``rows``. Tasks read it, as
        they read rows.

    Examples
    --------
    >>> from arrowipc.spark import describe
    >>> describe(spark, "events").orderBy("rows", ascending=False).show()             # doctest: +SKIP
    """
    return spark.read.format("arrowipc").options(**options).option("describe", True).load(path)


def count_rows(spark: "SparkSession", path: str | list[str], **options: Any) -> int:
    """Count the rows of files from footers and heads of messages alone, by many tasks.

    Parameters are those of `describe`.

    Returns
    -------
    int

    Examples
    --------
    >>> from arrowipc.spark import count_rows
    >>> count_rows(spark, "events")                                                   # doctest: +SKIP
    1000000
    """
    from pyspark.sql.functions import sum as total

    (found,) = describe(spark, path, **options).agg(total("rows")).collect()
    return int(found[0] or 0)


class DescribingReader(ArrowIpcReader):
    """Reads a row about each file; made when the option ``describe`` is true."""

    def partitions(self) -> list["InputPartition"]:
        """Give each task a share of the files, as if they were all equally long."""
        return plan(self._wanted_files(self._options.files()), self._options, None, share=0.0)

    def read(self, partition: "InputPartition") -> Iterator["pa.RecordBatch"]:
        """Read one partition: a batch of what is said of its files, then what stands for damaged ones."""
        import pyarrow as pa

        from arrowipc.spark.read.columns import FileColumns

        rows: list[tuple[Any, ...]] = []
        damaged: list[Iterator[pa.RecordBatch]] = []
        for piece in getattr(partition, "slices", ()):
            try:
                with naming(piece.path):
                    rows.append(self._described(piece))
            except FileNotFoundError:
                if not self._options.ignore_missing:
                    raise
            except FormatError as error:
                damaged.append(self._malformed(FileColumns(self._schema, self._options, piece.path, {}), None, error))
        if rows:
            arrays = [pa.array(column) for column in zip(*rows, strict=True)]
            columns = FileColumns(self._schema, self._options, "", {})
            yield columns.complete(pa.RecordBatch.from_arrays(arrays, names=columns.target.names), 0, 0)
        yield from chain(*damaged)

    def _described(self, piece: Slice) -> tuple[Any, ...]:
        source = self._options.source(piece.path, piece.size)
        kind = "stream" if self._options.is_stream(source) else "file"
        size = len(source) if isinstance(source, memoryview) else source.size
        with self._options.opener(source, part=not self._options.recover)([]) as reader:
            if isinstance(reader, RecordBatchFileReader):
                return piece.path, kind, size, reader.num_record_batches, reader.count_rows()
            lengths = [batch.num_rows for batch in reader]
            return piece.path, kind, size, len(lengths), sum(lengths)
