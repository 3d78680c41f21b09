"""Writing a data frame: tasks make complete files out of sight, the driver makes them the data by one entry.

The entry is one of the ledger: `arrowipc.spark.write.job` has the steps, docs/guides/spark-commits.md what everybody
sees at each of them.
``_SUCCESS`` is for others, who do not know the ledger: it is gone from before the first new file is in place until
after the last old one was removed.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from arrowipc.errors import UsageError
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.job import Job
from arrowipc.spark.write.options import WriteOptions, file_schema
from arrowipc.spark.write.storage import Storage, open_storage
from arrowipc.spark.write.task import HIDDEN, PartsWriter, Written, part_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcWriter", "begin_write", "open_destination"]

SUCCESS = "_SUCCESS"
#: What an overwrite may remove.
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")


class ArrowIpcWriter(Shipped, DataSourceArrowWriter):
    """Writes a data frame to a directory of Arrow IPC files or streams.

    Made on the driver, where everything that can be wrong with the options, the types and the path is found
    before any data moves; sent to the tasks; used on the driver again for `commit` or `abort`.

    With `overwrite`, the Arrow files in the directory, at any depth, are replaced: a read of it then gives
    exactly the data frame. Of a link only the link is removed, also of one to a directory. Files that are no
    Arrow files by their names are never removed: they, and broken links, make the write fail before it begins.
    """

    def __init__(self, schema: "StructType", options: Mapping[str, str], overwrite: bool) -> None:
        self._storage, self._parts = begin_write(schema, options, "write", overwrite)
        self._existed = self._storage.exists()
        self._succeeded = self._storage.exists(SUCCESS)
        self._overwrite = overwrite
        ledger = self._storage.ledger()
        self._job = Job(self._storage, overwrite, uuid.uuid4().hex, ledger.number if ledger else 0)
        self._directory = f"{HIDDEN}/{self._job.id}"
        # Made here and by nobody else: a task that begins after the job has ended finds it gone.
        self._storage.make_directory(self._directory)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        """Write the rows of one task attempt."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return Written(tuple(self._parts.write(iterator, self._directory, self._job.id, partition)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files of the tasks the data of the directory; ``_SUCCESS`` comes last.

        Raises
        ------
        UsageError
            Another job was committed that does not go with this one; the directory is as that one left it.
        OSError
            A file could not be renamed (then the directory is as it was), or an old one not removed (then the
            new ones are there, and the text says what is left).
        """
        storage, job = self._storage, self._job
        parts = part_files(messages)
        # Listing a large directory takes long, and an append has no need of it.
        if not parts and (self._overwrite or not storage.files()):
            # Who reads it back gets no rows, and the schema.
            parts = [self._parts.write_empty(self._directory, job.id)]
        try:
            job.start()
            storage.remove(SUCCESS)
            job.move(parts)
            job.finish()
        except BaseException:
            with suppress(OSError):
                self._take_back()
            raise
        # The data are complete and known to be: what is missing beside them is no reason to say otherwise.
        with suppress(OSError):
            storage.create(SUCCESS, b"")
            self._clean()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the job wrote; the directory is as it was, and gone if there was none."""
        # Spark also comes here when the commit failed, or when its process died in the middle of it.
        self._take_back()
        self._clean()
        if not self._existed:
            self._storage.remove_if_empty()

    def _take_back(self) -> None:
        if self._job.take_back() and self._succeeded:
            self._storage.create(SUCCESS, b"")

    def _clean(self) -> None:
        """Remove the job's directory, with the files of attempts that failed or came second."""
        self._storage.remove_tree(self._directory)
        self._storage.remove_if_empty(HIDDEN)


def begin_write(
    schema: "StructType", options: Mapping[str, str], kind: str, overwrite: bool
) -> tuple[Storage, PartsWriter]:
    """Check all that can be wrong before any data moves; `kind` is ``write`` or ``writeStream``."""
    checked = WriteOptions.of(options, kind)
    files = file_schema(schema, checked)
    storage = open_destination(options)
    if overwrite:
        check_replaceable(storage)
    return storage, PartsWriter(storage, files, checked)


def open_destination(options: Mapping[str, str]) -> Storage:
    """Open the directory that the option ``path`` names, which need not exist.

    Raises
    ------
    UsageError
        There is no path, or it is that of a file.
    """
    path = options.get("path")
    if not path:
        raise UsageError('arrowipc needs a path: df.write.format("arrowipc").mode("append").save("directory")')
    storage = open_storage(path, options)
    if storage.is_file():
        raise UsageError(f"{path}: expected a directory or nothing, found a file; tasks write a file each")
    return storage


def check_replaceable(storage: Storage) -> None:
    """Refuse to overwrite a directory that holds what is not ours.

    Raises
    ------
    UsageError
        Names the first such file.
    """
    for entry in storage.files():
        if not entry.name.lower().endswith(ARROW_SUFFIXES):
            raise UsageError(
                f"{storage.path(entry.name)}: overwrite removes Arrow files ({', '.join(ARROW_SUFFIXES)}) "
                "and nothing else; remove this file first, or write to another directory"
            )
