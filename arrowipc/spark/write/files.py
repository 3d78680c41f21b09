"""The files that tasks write: the Arrow schema of a data frame, and its batches joined and cut as was asked for."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as st

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.spark.options import Options
from arrowipc.spark.types import arrow_schema_of
from arrowipc.spark.write.folder import Folder

#: Offsets of strings and lists are 32 bits wide, so batches are not joined beyond this.
LARGEST_JOIN = 1 << 30


class FileWriter:
    """Writes batches of Spark's to files of one schema; an error names the column that cannot be written."""

    def __init__(self, schema: st.StructType, options: Options) -> None:
        self._schema = file_schema(schema)
        self._options = options
        if options["statistics"] and options["format"] == "stream":
            raise UsageError(
                "option statistics: only files have a footer that leads a reader to the statistics of a "
                "batch; leave it out, or write format=file"
            )
        #: How the names of files end.
        self.suffix: str = ".arrow" if options["format"] == "file" else ".arrows"

    def write(self, folder: Folder, name: str, batches: Iterator[pa.RecordBatch], may_be_empty: bool = False) -> bool:
        """Write a whole file in a folder; no rows, no file, unless it `may_be_empty`. Returns whether there is one."""
        rows, bytes_ = self._options["batchRows"], self._options["batchBytes"]
        tables = regroup((fit(batch, self._schema) for batch in batches), rows, bytes_)
        first = next(tables, None)
        if first is None and not may_be_empty:
            return False
        compression = self._options["compression"].replace("uncompressed", "none")
        given: dict[str, Any] = {"compression": None if compression == "none" else compression}
        if self._options["statistics"]:
            given["statistics"] = True
        opener: Any = arrowipc.new_file if self._options["format"] == "file" else arrowipc.new_stream
        with folder.open_output_stream(name) as sink, opener(sink, self._schema, **given) as writer:
            for table in () if first is None else chain([first], tables):
                writer.write_table(table, rows, max_chunk_bytes=bytes_)
        return True


def part_name(job: str, suffix: str) -> str:
    """The name of the file of this task; it sorts by the number of the partition."""
    context = TaskContext.get()
    return f"part-{0 if context is None else context.partitionId():05}-{job}{suffix}"


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch of Spark's to the schema of files: UTC instead of the session's zone, small offsets, good texts."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise UsageError(f"column {name!r} holds a text that is not UTF-8 in a batch of Spark's: {error}") from None
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def regroup(batches: Iterable[pa.RecordBatch], rows: int, bytes_: int) -> Iterator[pa.Table]:
    """Join and cut batches so that each has `rows` rows, fewer where they take `bytes_` or at the end."""
    bytes_ = min(bytes_, LARGEST_JOIN)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            waiting.append(batch.slice(start, rows - count))
            start += waiting[-1].num_rows
            count += waiting[-1].num_rows
            size += waiting[-1].nbytes
            if count == rows or size >= bytes_:
                yield pa.Table.from_batches(waiting).combine_chunks()
                waiting, count, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def file_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema of a data frame; timestamps with a zone are in UTC."""
    if not schema.fields:
        raise UsageError("the data frame has no columns, so there is nothing to write")
    return arrow_schema_of(schema, variants=False)
