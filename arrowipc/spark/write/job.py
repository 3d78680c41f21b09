"""Writing a data frame as Hadoop's FileOutputCommitter does it: tasks stage files, the driver renames them.

A job has a folder below ``_temporary``, which no reader looks into. The commit brings the files of the tasks that
ended into place and removes that folder, ``_SUCCESS`` comes last. Of a job that dies before its commit no file counts.
As in Spark an overwrite first removes the old files: if it dies then, neither old nor new rows are there.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from arrowipc.errors import UsageError
from arrowipc.sources.spark_log import LOG
from arrowipc.spark.options import Options
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.files import FileWriter, part_name
from arrowipc.spark.write.folder import exists, open_folder, remove_file, remove_tree, replaceable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

HIDDEN = "_temporary"
SUCCESS = "_SUCCESS"


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver: the file that it staged, and its name from the commit on."""

    staged: str
    name: str


class ArrowIpcWriter(Shipped, DataSourceArrowWriter):
    """Writes a data frame to a folder.

    Made on the driver, where everything that can be wrong with the options, the types and the path is found before
    any data moves; sent to the tasks; used on the driver again for `commit` or `abort`.
    """

    def __init__(self, schema: "StructType", options: Mapping[str, str], overwrite: bool) -> None:
        checked = Options.of(options, "write")
        self._files = FileWriter(schema, checked)
        self._folder = open_folder(checked)
        self._overwrite = overwrite
        if overwrite:
            replaceable(self._folder)
        elif exists(self._folder, LOG):
            raise UsageError(
                f"{self._folder.base_path}: Spark's streaming sink wrote this folder, and only files count that its "
                f"log ({LOG}) lists: what is appended would not be read; write to another directory"
            )
        self._existed = exists(self._folder)
        self._job = uuid.uuid4().hex
        # Made here and by nobody else: a task that outlives its job finds it gone.
        self._staging = f"{HIDDEN}/{self._job}"
        self._folder.create_dir(self._staging, recursive=True)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task attempt."""
        name, staged = part_name(self._job, self._files.suffix), f"{self._staging}/{uuid.uuid4().hex}"
        return Written(staged, name) if self._files.write(self._folder, staged, iterator) else WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the files of the tasks into place; ``_SUCCESS`` is written last."""
        folder, parts = self._folder, _written(messages)
        if not parts and (self._overwrite or not self._existed):
            # Who reads it back gets no rows, and the schema.
            parts = [Written(f"{self._staging}/empty", part_name(self._job, self._files.suffix))]
            self._files.write(folder, parts[0].staged, iter(()), may_be_empty=True)
        if self._overwrite:
            for name in (SUCCESS, *replaceable(folder)):
                remove_file(folder, name)
            remove_tree(folder, LOG)
        for part in parts:
            folder.move(part.staged, part.name)
        self._clean()
        with folder.open_output_stream(SUCCESS):
            pass

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the job wrote, also what a commit that failed brought into place."""
        for part in _written(messages):
            remove_file(self._folder, part.name)
        self._clean()
        if not self._existed:
            with suppress(OSError):
                remove_tree(self._folder.base_fs, self._folder.base_path.rstrip("/"), only_empty=True)

    def _clean(self) -> None:
        """Remove the job's folder, with the files of attempts that failed or came second."""
        with suppress(OSError):  # they do not count, wherever the job ends
            remove_tree(self._folder, self._staging)
            remove_tree(self._folder, HIDDEN, only_empty=True)


def _written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    """What the tasks staged; Spark has None for those that did not end."""
    return [message for message in messages if isinstance(message, Written)]
