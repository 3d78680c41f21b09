"""What is in files without their rows: read from footers and heads of messages, by many tasks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import arrowipc
from arrowipc.errors import ArrowIpcError
from arrowipc.sources.files import naming
from arrowipc.sources.source import first_bytes
from arrowipc.spark.read.sources import ReadOptions
from arrowipc.spark.shipping import shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["count_rows", "describe"]

FOUND = "path string, size bigint"
COLUMNS = "file string, format string, bytes bigint, batches bigint, rows bigint"
#: Tasks that look into files.
TASKS = 16


def describe(spark: "SparkSession", path: str | list[str], **options: Any) -> "DataFrame":
    """Say of each file how many batches and rows it has, from footers and heads of messages alone.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect.
    path : str or list of str
        Directories, files and patterns that the executors see; see :class:`ArrowIpcDataSource`.
    **options
        Of reading, such as ``pathGlobFilter``.

    Returns
    -------
    pyspark.sql.DataFrame
        A row per file: ``file``, ``format`` (file or stream), ``bytes``, ``batches``, ``rows``. Python tasks look,
        with the jar and without it.

    Examples
    --------
    >>> from arrowipc.spark import describe
    >>> describe(spark, "events").orderBy("rows", ascending=False).show()             # doctest: +SKIP
    """
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    paths = [path] if isinstance(path, str) else list(path)
    checked = ReadOptions.of(texts)
    asked = ReadOptions(type(checked.given)(checked.given.values, paths, checked.given.storage), checked.types)

    def found(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            if batch.num_rows:
                files = asked.files()
                yield _rows([(file.path, file.size) for file in files], ["path", "size"])

    def described(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            rows = [row for file in batch.to_pylist() if (row := _described(asked, file["path"], file["size"]))]
            yield _rows(rows, ["file", "format", "bytes", "batches", "rows"])

    files = spark.range(1, numPartitions=1).mapInArrow(shipped(found), FOUND)
    return files.repartition(TASKS, "path").mapInArrow(shipped(described), COLUMNS)


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


def _rows(rows: list[tuple[Any, ...]], names: list[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    kinds = {"path": pa.string(), "file": pa.string(), "format": pa.string()}
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(column, kinds.get(name, pa.int64())) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _described(options: ReadOptions, path: str, size: int | None) -> tuple[Any, ...] | None:
    """The row about a file; None where it is left out."""
    try:
        with naming(path):
            source = options.source(path, size)
            kind = options.given["format"]
            if kind == "auto":
                kind = "file" if first_bytes(source) == b"ARROW1" else "stream"
            size = len(source) if isinstance(source, memoryview) else source.size
            reader: Any = (
                arrowipc.open(source, columns=[], index=True) if kind == "stream" else options.open(source, [])
            )
            with reader:
                return path, kind, size, reader.num_record_batches, reader.count_rows()
    except FileNotFoundError:
        if not options.given["ignoreMissingFiles"]:
            raise
    except ArrowIpcError:
        if not options.given["ignoreCorruptFiles"]:
            raise
    return None
