"""Writing a stream of micro-batches: each becomes one job, and becomes it once.

The entry of the ledger since which the files of a micro-batch count also says that the query came this far (see
`arrowipc.spark.write.job`). Spark runs a batch again when it was stopped between our commit and its own note of it;
then the number is found and what the tasks wrote again is dropped.

Spark numbers the batches of a query 0, 1, 2, ... and begins none before the last is committed. So the highest
number says all: every batch up to it is there. `query` is the id that Spark keeps in the checkpoint: with a new
checkpoint a query begins anew, at number 0, under another id.
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.commit import begin_write
from arrowipc.spark.write.job import Job
from arrowipc.spark.write.task import HIDDEN, Written, part_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcStreamWriter"]

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


class ArrowIpcStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query to a directory, each row exactly once.

    Spark makes one for the tasks of each micro-batch and another for its commit; what they have in common are
    the options, what the tasks say in their messages, and the names in the directory.

    `overwrite`, which is output mode ``complete``: a micro-batch replaces all that the directory holds.
    """

    def __init__(self, schema: "StructType", options: Mapping[str, str], overwrite: bool) -> None:
        self._storage, self._parts = begin_write(schema, options, "writeStream", overwrite)
        self._overwrite = overwrite
        # What the commit learns from the tasks: this object is not the one that commits.
        ledger = self._storage.ledger()
        self._began = ledger.number if ledger else 0
        self._random = uuid.uuid4().hex[16:]
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
        job = hashlib.sha256(query.encode()).hexdigest()[:16] + self._random
        return Written(
            tuple(self._parts.write(iterator, directory, job, context.partitionId())), query, job, self._began
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the files of the tasks a micro-batch of the directory, unless it is there.

        Raises
        ------
        UsageError
            Another job was committed that does not go with this batch.
        OSError
            A file could not be moved; the batch is not there, and Spark runs it again.
        """
        told, parts = _told(messages), part_files(messages)
        query = self._query(told)
        ledger = self._storage.ledger()
        done = ledger is not None and ledger.queries.get(query, -1) >= batchId
        if told is not None and not done and (parts or self._overwrite):
            job = Job(self._storage, self._overwrite, told.job, told.began)
            try:
                job.start()
                job.move(parts)
                job.finish(query, batchId)
            except BaseException:
                with suppress(OSError):
                    job.take_back()
                raise
        # The batch is there, and known to be: what is left out of sight is no reason to say otherwise.
        with suppress(OSError):
            self._clean(query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks wrote, and what a commit that failed brought into place."""
        told = _told(messages)
        if told is not None:
            Job(self._storage, self._overwrite, told.job, told.began).take_back()
        self._clean(self._query(told), batchId)

    def _query(self, told: Written | None) -> str:
        return (told.query if told is not None else "") or self._checkpoint

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


def _told(messages: list[WriterCommitMessage | None]) -> Written | None:
    """What the tasks know and the driver does not; the same from each."""
    return next((message for message in messages if isinstance(message, Written)), None)
