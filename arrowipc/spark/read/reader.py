"""Reading Arrow IPC files and streams in Spark: tasks read whole files and convert their batches."""

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.codecs import cpus
from arrowipc.errors import FormatError
from arrowipc.multifile.partitioning import keys_of
from arrowipc.schemas import Schema
from arrowipc.sources.files import FoundFile, LeftOut, naming
from arrowipc.spark.read.sources import ReadOptions
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.types import index_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.convert import BatchConverter

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: The costs of a task and of opening a file, in bytes that could be read in the same time.
TASK_COST, OPEN_COST = 4 << 20, 1 << 16
#: Most rows of a batch for Spark.
ROWS_PER_BATCH = 32_768


def grouped(files: list[FoundFile], most: int) -> list[list[FoundFile]]:
    """Distribute files to tasks of about the same number of bytes, at most `most` unless one file has more."""
    total = sum((file.size or 0) + OPEN_COST for file in files)
    target = max(1, min(most, max(TASK_COST, -(-total // cpus()))))
    tasks: list[list[FoundFile]] = []
    room = 0
    for file in files:
        if room <= 0:
            tasks.append([])
            room = target
        room -= (file.size or 0) + OPEN_COST
        tasks[-1].append(file)
    return tasks


class ArrowIpcReader(Shipped, DataSourceReader):
    """Plans the tasks of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._last: tuple[Schema, list[str], BatchConverter] | None = None

    def partitions(self) -> list[InputPartition]:
        """Distribute the files to tasks, without opening them."""
        tasks = grouped(self._options.files(), self._options["maxPartitionBytes"])
        return [InputPartition(files) for files in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        left_out = LeftOut(log)
        for file in partition.value or ():  # if there are no files, Spark makes a partition with the value None
            try:
                with naming(file.path):
                    yield from self._read(file)
            except FileNotFoundError as error:
                if not self._options["ignoreMissingFiles"]:
                    raise
                left_out.add(str(error))
            except FormatError as error:
                if not self._options["ignoreCorruptFiles"]:
                    raise
                left_out.add(str(error), "left out, from here to the end of the file")
        left_out.total()

    def _read(self, file: FoundFile) -> Iterator["pa.RecordBatch"]:
        from arrowipc.spark.read.schema import chosen_columns

        options = self._options
        source = options.source(file.path, file.size)
        keys = keys_of(file.path, file.below)
        target = type(self._schema)([each for each in self._schema if index_of(each.name, [*keys]) is None])
        reader = options.open(source)
        try:
            chosen = chosen_columns(reader.schema, target, options["columns"], file.path)
            if chosen is not None:
                reader.close()
                reader = options.open(source, chosen)
            convert = self._converter(reader.schema, target, file.path)
        except BaseException:
            reader.close()
            raise
        with closing(reader):
            for number, batch in enumerate(reader):
                convert.label = f"{file.path}: record batch {number}"
                for part in convert.split(convert.hand_over(batch), ROWS_PER_BATCH):
                    yield self._with_keys(part, file.path, keys)

    def _converter(self, schema: Schema, target: "StructType", path: str) -> "BatchConverter":
        """Return the converter for the batches of a file; it is reused for the next file if the schemas are equal."""
        from arrowipc.spark.read.convert import BatchConverter

        if self._last is None or self._last[1] != target.names or not self._last[0].equals(schema, check_metadata=True):
            convert = BatchConverter(schema, target, self._options.types, path, missing_is_null=True)
            self._last = schema, target.names, convert
        return self._last[2]

    def _with_keys(self, batch: "pa.RecordBatch", path: str, keys: dict[str, str | None]) -> "pa.RecordBatch":
        """Return the rows of a file with the columns of its folders added."""
        if not keys:
            return batch
        import pyarrow as pa

        from arrowipc.spark.read.schema import typed_key
        from arrowipc.spark.types import arrow_schema_of

        left = iter(batch.columns)
        arrays = [
            next(left)
            if index_of(field.name, [*keys]) is None
            else pa.repeat(typed_key(path, keys, field), batch.num_rows)
            for field in self._schema.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema_of(self._schema))
