"""Numbers of batches and rows of files, read by several tasks from footers and metadata, without any rows."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import arrowipc
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.errors import ArrowIpcError
from arrowipc.sources.files import naming
from arrowipc.sources.source import first_bytes
from arrowipc.spark.read.sources import ReadOptions
from arrowipc.spark.shipping import check_session, shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FOUND = "path string, size bigint"
COLUMNS = "file string, format string, bytes bigint, batches bigint, rows bigint"
#: Number of tasks that read files.
TASKS = 16


def describe(spark: "SparkSession", path: str | list[str], **options: Any) -> "DataFrame":
    """Return the numbers of batches and rows of each file, from footers and the metadata of messages alone.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect.
    path : str or list of str
        Directories, files and patterns that the executors see; see :class:`ArrowIpcDataSource`.
    **options
        Options of reading, such as ``pathGlobFilter``.

    Returns
    -------
    pyspark.sql.DataFrame
        A row per file: ``file``, ``format`` (file or stream), ``bytes``, ``batches``, ``rows``. Tasks in Python read
        the files, with and without the jar.
    """
    check_session(spark)
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    asked = ReadOptions.of({**texts, "paths": json.dumps([path] if isinstance(path, str) else list(path))})

    def found(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        if any(batch.num_rows for batch in batches):
            yield _rows([{"path": file.path, "size": file.size} for file in asked.files()], FOUND)

    def described(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            rows = [_described(asked, file["path"], file["size"]) for file in batch.to_pylist()]
            yield _rows([row for row in rows if row], COLUMNS)

    files = spark.range(1, numPartitions=1).mapInArrow(shipped(found), FOUND)
    return files.repartition(TASKS, "path").mapInArrow(shipped(described), COLUMNS)


def count_rows(spark: "SparkSession", path: str | list[str], **options: Any) -> int:
    """Count the rows of files from footers and metadata of messages alone; parameters are those of `describe`."""
    from pyspark.sql.functions import sum as total

    (found,) = describe(spark, path, **options).agg(total("rows")).collect()
    return int(found[0] or 0)


def _rows(rows: list[dict[str, Any]], ddl: str) -> "pa.RecordBatch":
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64()}
    fields = [(name, kinds[kind]) for name, kind in map(str.split, ddl.split(", "))]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields))


def _described(options: ReadOptions, path: str, size: int | None) -> dict[str, Any] | None:
    """Return the row about a file; None if the file is left out."""
    try:
        with naming(path):
            source = options.source(path, size)
            kind = options["format"]
            if kind == "auto":
                kind = "file" if first_bytes(source) == MAGIC else "stream"
            size = len(source) if isinstance(source, memoryview) else source.size
            stream = kind == "stream"
            with arrowipc.open(source, columns=[], index=True) if stream else options.open(source, []) as reader:
                batches, rows = reader.num_record_batches, reader.count_rows()
            return {"file": path, "format": kind, "bytes": size, "batches": batches, "rows": rows}
    except FileNotFoundError:
        if not options["ignoreMissingFiles"]:
            raise
    except ArrowIpcError:
        if not options["ignoreCorruptFiles"]:
            raise
    return None
