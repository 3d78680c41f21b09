"""Writing a data frame: tasks make complete files out of sight, the driver makes them the data by renaming.

What is visible at any moment, also after a crash of the driver in the middle of a commit:

* Before the commit: the destination as it was. Tasks write into ``_temporary/<job>/``, which readers skip.
* During the commit ``_SUCCESS`` is gone. First the new files appear, one by one; an overwrite then removes
  the old ones, one by one. So no old row is missing before all new ones are there, and a reader who looks
  just then sees a part of an append, or old and new rows of an overwrite. So does everybody if the driver
  dies then, until somebody mends it: an overwrite that runs again does; of an append, the files that have the
  job's id in their names are to be removed. Who wants to see whole jobs only waits for ``_SUCCESS``.
* A commit that fails before the first old file is removed takes its files back. Afterwards it leaves the new
  ones, all of which are there, and says which old ones are left.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from arrowipc.errors import UsageError
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.options import WriteOptions, file_schema
from arrowipc.spark.write.storage import Storage, open_storage
from arrowipc.spark.write.task import HIDDEN, PartFile, PartsWriter, Written, part_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcWriter", "begin_write", "open_destination", "remove_old"]

SUCCESS = "_SUCCESS"
#: What an overwrite may remove.
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
# In the job's directory, from just before the first old file is removed.
NO_WAY_BACK = "no-way-back"


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
        self._job = uuid.uuid4().hex
        self._directory = f"{HIDDEN}/{self._job}"
        # Made here and by nobody else: a task that begins after the job has ended finds it gone.
        self._storage.make_directory(self._directory)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        """Write the rows of one task attempt."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return Written(tuple(self._parts.write(iterator, self._directory, self._job, partition)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files of the tasks the data of the directory; ``_SUCCESS`` comes last.

        Raises
        ------
        OSError
            A file could not be renamed (then the directory is as it was), or an old one not removed (then the
            new ones are there, and the text says what is left).
        """
        storage = self._storage
        parts = part_files(messages)
        # Listing a large directory takes long, and an append has no need of it.
        old = storage.replaceable() if self._overwrite or not parts else []
        if not parts and (self._overwrite or not old):
            # Who reads it back gets no rows, and the schema.
            parts = [self._parts.write_empty(self._directory, self._job)]
        try:
            storage.remove(SUCCESS)
            for part in parts:
                storage.rename(part.temporary, part.name)
            storage.sync()
            if self._overwrite:
                storage.make_empty_file(f"{self._directory}/{NO_WAY_BACK}")
            else:
                storage.make_empty_file(SUCCESS)
        except BaseException:
            with suppress(OSError):
                self._take_back(parts)
            raise
        if self._overwrite:
            remove_old(storage, old)
            storage.make_empty_file(SUCCESS)
        # The data are complete and known to be: what is left out of sight is no reason to say otherwise.
        with suppress(OSError):
            self._clean()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the job wrote; the directory is as it was, and gone if there was none."""
        # Spark also comes here when the commit failed, or when its process died in the middle of it.
        if not self._storage.exists(f"{self._directory}/{NO_WAY_BACK}"):
            self._take_back(part_files(messages))
        self._clean()
        if not self._existed:
            self._storage.remove_if_empty()

    def _take_back(self, parts: Iterable[PartFile]) -> None:
        for part in parts:
            self._storage.remove(part.name)
        if not self._succeeded:
            self._storage.remove(SUCCESS)
        elif not self._storage.exists(SUCCESS):
            self._storage.make_empty_file(SUCCESS)

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


def remove_old(storage: Storage, names: Iterable[str]) -> None:
    """Remove the files that an overwrite replaces.

    Raises
    ------
    OSError
        The first error, after all the others were tried; its text tells people what to do.
    """
    failed: dict[str, OSError] = {}
    for name in names:
        try:
            storage.remove(name)
        except OSError as error:
            failed[storage.path(name)] = error
    if failed:
        first = next(iter(failed.values()))
        raise OSError(
            first.errno,
            f"the new files are complete, but {len(failed)} of the old ones cannot be removed and would be "
            f"read with them ({first}); remove them: {', '.join([*failed][:10])}",
        )
