"""Writing a stream of micro-batches: each becomes one directory, and becomes it once.

``<path>/batch-<number>-<query>/`` holds the files of one micro-batch. On a local file system it gets its name
in one step, so readers see all of a batch or nothing. Then ``<path>/_commits/<query>/<number>`` notes that
the batch is there. Spark runs a batch again when it was stopped between our commit and its own note of it;
then the number is found and what the tasks wrote again is dropped.

Spark numbers the batches of a query 0, 1, 2, ... and begins none before the last is committed. So the highest
number noted says all: every batch up to it is there. The two highest are kept (the second until the first is
safe), the others removed.

`query` is the id that Spark keeps in the checkpoint: with a new checkpoint a query begins anew, at number 0,
under another id. Reading the directory needs nothing of this: the hidden names are passed over.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.commit import begin_write, remove_old
from arrowipc.spark.write.task import HIDDEN, PartFile, Written, part_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcStreamWriter"]

COMMITS = "_commits"
QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
KEPT_NOTES = 2


class ArrowIpcStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query to a directory, each row exactly once.

    Spark makes one for the tasks of each micro-batch and another for its commit; what they have in common are
    the options, what the tasks say in their messages, and the names in the directory.

    `overwrite`, which is output mode ``complete``: a micro-batch replaces all that the directory holds.
    """

    def __init__(self, schema: "StructType", options: Mapping[str, str], overwrite: bool) -> None:
        self._storage, self._parts = begin_write(schema, options, "writeStream", overwrite)
        self._overwrite = overwrite
        # An abort may come without a task's message, which has the query's id; then the checkpoint stands for
        # the query. It is not known here where the session sets the location of checkpoints.
        checkpoint = options.get("checkpointlocation")
        self._checkpoint = hashlib.sha256(checkpoint.encode()).hexdigest()[:16] if checkpoint else ""

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        """Write the rows of one task attempt of one micro-batch."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark runs this in a task"
        query = context.getLocalProperty(QUERY_PROPERTY) or self._checkpoint
        batch = int(context.getLocalProperty(BATCH_PROPERTY) or 0)
        directory = self._attempts(query, batch)
        # The tasks make it: the driver learns the number of a batch only when it commits.
        self._storage.make_directory(directory)
        parts = self._parts.write(iterator, directory, f"{query}-{batch:08}", context.partitionId())
        return Written(tuple(parts), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the files of the tasks a micro-batch of the directory, unless it is there.

        Raises
        ------
        OSError
            A file could not be moved; the batch is not there, and Spark runs it again.
        """
        storage = self._storage
        query = _query(messages) or self._checkpoint
        if not query:
            return  # There was no task, hence no row.
        name = f"batch-{batchId:08}-{query}"
        notes = f"{COMMITS}/{query}"
        newest = max(self._noted(query), default=-1)
        if newest < batchId:
            # Without a note, a directory that cannot be half there is all there.
            if not (storage.renames_directories and storage.exists(name)):
                self._move(part_files(messages), self._attempts(query, batchId), name)
            storage.make_directory(notes)
            storage.make_empty_file(f"{notes}/{batchId:08}")
        if self._overwrite and newest <= batchId:
            self._remove_others(name)
        # The batch is there, and known to be: what is left out of sight is no reason to say otherwise.
        with suppress(OSError):
            for number in sorted(self._noted(query))[:-KEPT_NOTES]:
                storage.remove(f"{notes}/{number:08}")
            self._clean(query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks wrote; what a commit brought into place stays for the next attempt."""
        self._clean(_query(messages) or self._checkpoint, batchId)

    def _move(self, parts: list[PartFile], attempts: str, name: str) -> None:
        """Bring files into place under the name of the batch: all of them, or none."""
        storage = self._storage
        # From a commit that was interrupted, on a store where it cannot be one step.
        storage.remove_tree(name)
        if not parts:
            return
        stage = f"{attempts}/commit"
        storage.remove_tree(stage)
        storage.make_directory(stage)
        for part in parts:
            storage.rename(part.temporary, f"{stage}/{part.name}")
        storage.sync(stage)
        try:
            storage.rename_directory(stage, name)
        except BaseException:
            with suppress(OSError):
                storage.remove_tree(name)
            raise
        storage.sync()

    def _remove_others(self, name: str) -> None:
        """Remove all data but the directory of one batch."""
        old = [each for each in self._storage.replaceable() if not each.startswith(f"{name}/")]
        remove_old(self._storage, old)
        for other in self._storage.names(""):
            if other.startswith("batch-") and other != name:
                self._storage.remove_if_empty(other)

    def _noted(self, query: str) -> list[int]:
        """The numbers of committed batches of a query, as far as they are kept."""
        return [int(name) for name in self._storage.names(f"{COMMITS}/{query}") if name.isdecimal()]

    def _attempts(self, query: str, batch: int) -> str:
        return f"{HIDDEN}/{self._checkpoint or query}/{batch:08}"

    def _clean(self, query: str, batch: int) -> None:
        """Remove the files of attempts at this and all earlier batches."""
        above = f"{HIDDEN}/{self._checkpoint or query}"
        for name in self._storage.names(above) if self._checkpoint or query else []:
            if name.isdecimal() and int(name) <= batch:
                self._storage.remove_tree(f"{above}/{name}")
        self._storage.remove_if_empty(above)
        self._storage.remove_if_empty(HIDDEN)


def _query(messages: list[WriterCommitMessage | None]) -> str:
    return next((message.query for message in messages if isinstance(message, Written)), "")
