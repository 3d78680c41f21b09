"""Writing a stream of micro-batches with the log of Spark's own streaming sink, so that each counts exactly once.

Tasks write files to the folder. They count from the moment on when the log lists them, which the commit of the
micro-batch does by one new file, named by its number. Spark runs a batch again when it was stopped between this and its
own note of it; then the number is found, and what the tasks wrote again is removed. See `arrowipc.sources.spark_log`.
"""

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from arrowipc.errors import UsageError
from arrowipc.sources.files import is_hidden
from arrowipc.sources.spark_log import LOG, VERSION, log_files
from arrowipc.spark.options import Options
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.files import FileWriter, part_name
from arrowipc.spark.write.folder import exists, names_in, open_folder, remove_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["Added", "ArrowIpcStreamWriter"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: How many files of the log there are for one that repeats all before it; Spark's default, which it relies on.
INTERVAL = 10


@dataclass
class Added(WriterCommitMessage):
    """What a task tells the driver: its file and the bytes of it."""

    name: str
    size: int


class ArrowIpcStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query to a folder."""

    def __init__(self, schema: "StructType", options: Mapping[str, str], overwrite: bool) -> None:
        checked = Options.of(options, "write")
        if overwrite:
            raise UsageError('a stream can only append to a folder: write it with outputMode("append")')
        self._files = FileWriter(schema, checked)
        self._folder = folder = open_folder(checked)
        if not exists(folder, LOG):
            for name in names_in(folder):
                if not is_hidden(name):
                    raise UsageError(
                        f"{folder.base_path}{name}: there is no log of a streaming sink ({LOG}), and with one this "
                        "would not count any more; let the stream write to a directory of its own"
                    )
            folder.create_dir(LOG, recursive=True)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task attempt of one micro-batch."""
        name = part_name(uuid.uuid4().hex, self._files.suffix)
        if not self._files.write(self._folder, name, iterator):
            return WriterCommitMessage()
        return Added(name, self._folder.get_file_info(name).size)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Let the files of the tasks count, unless the micro-batch is there.

        Raises
        ------
        UsageError
            The log is not that of this query.
        """
        names = log_files(names_in(self._folder, LOG), f"{self._folder.base_path}{LOG}")
        last = int(names[-1].partition(".")[0]) if names else -1
        if batchId <= last:
            log.warning("%s: micro-batch %s was committed before", self._folder.base_path, batchId)
            self.abort(messages, batchId)
            return
        if batchId != last + 1:
            raise UsageError(
                f"{self._folder.base_path}: its log ends with micro-batch {last}, and this is number {batchId}: the "
                "checkpoint is of another directory; begin with a new checkpoint and a new directory"
            )
        lines = [self._line(each) for each in _added(messages)]
        name = str(batchId)
        if batchId % INTERVAL == INTERVAL - 1:
            name += ".compact"
            before = [self._folder.open_input_file(f"{LOG}/{each}").readall().decode() for each in names]
            lines = [line for text in before for line in text.split("\n")[1:] if line] + lines
        staged = f"{LOG}/.{name}.{uuid.uuid4().hex}.tmp"
        with self._folder.open_output_stream(staged) as sink:
            sink.write("\n".join([VERSION, *lines]).encode())
        self._folder.move(staged, f"{LOG}/{name}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks wrote."""
        for each in _added(messages):
            remove_file(self._folder, each.name)

    def _line(self, part: Added) -> str:
        now = int(time.time() * 1000)
        path = f"{self._folder.base_path}{part.name}"
        handler = getattr(self._folder.base_fs, "handler", None)
        path = f"file://{path}" if handler is None else handler.fs.unstrip_protocol(path)
        entry = {
            "path": quote(path, safe=":/=@+,"),
            "size": part.size,
            "isDir": False,
            "modificationTime": now,
            "blockReplication": 1,
        }
        return json.dumps({**entry, "blockSize": 1 << 25, "action": "add"}, separators=(",", ":"))


def _added(messages: list[WriterCommitMessage | None]) -> list[Added]:
    return [message for message in messages if isinstance(message, Added)]
