"""What one task does of a write: its rows become complete files in the hidden directory of the job."""

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from arrowipc.spark.write.folders import by_folder
from arrowipc.spark.write.options import WriteOptions
from arrowipc.spark.write.storage import Storage

if TYPE_CHECKING:
    from typing import TypeAlias

    Write: TypeAlias = Callable[[pa.RecordBatch], None]

__all__ = ["HIDDEN", "PartFile", "PartsWriter", "Written", "part_files", "regroup"]

#: Where the files of jobs that are not committed lie; readers ignore names that begin with ``_``.
HIDDEN = "_temporary"
# Offsets of strings and lists are 32 bits wide, so batches are not joined beyond this.
LARGEST_JOIN = 1 << 30
# Files of one task that are open at once, and the bytes that wait for them: with more folders come more files.
MOST_OPEN = 64
MOST_WAITING = 128 << 20


@dataclass(frozen=True)
class PartFile:
    """A complete file of a task: its name under the root until the commit, and from then on."""

    temporary: str
    name: str


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver.

    Of a streaming query, whose tasks know what its commit does not: its id, the id of the job, and the number of
    the newest entry of the ledger when that began.
    """

    parts: tuple[PartFile, ...]
    query: str = ""
    job: str = ""
    began: int = 0


def part_files(messages: Iterable[WriterCommitMessage | None]) -> list[PartFile]:
    """The files of the tasks that came to an end; Spark has None for the others."""
    return [part for message in messages if isinstance(message, Written) for part in message.parts]


class PartsWriter:
    """Writes the rows of tasks as files of one schema."""

    def __init__(self, storage: Storage, schema: pa.Schema, options: WriteOptions) -> None:
        self._storage = storage
        self._whole = schema
        self._schema = schema = pa.schema([field for field in schema if field.name not in options.partition_by])
        self._options = options
        # Dictionaries are made of the batches as they are written, not as they come.
        plain = [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
        ]
        self._plain = pa.schema(plain)

    def write(self, batches: Iterable[pa.RecordBatch], directory: str, job: str, partition: int) -> list[PartFile]:
        """Write the rows of one task attempt; no rows, no file.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            As Spark hands them over.
        directory : str
            Of the job; it exists, and the attempt makes a directory of its own in it. So an attempt that
            outlives its job fails: the job's end removes the directory, and the attempt never makes it.
        job : str
            What makes the names of the job's files unique.
        partition : int
        """
        attempt = f"{directory}/{partition:05}-{uuid.uuid4().hex}"
        self._storage.make_child(attempt)
        options = self._options
        if options.partition_by:
            return self._write_folders(batches, attempt, f"part-{partition:05}-{job}")
        fitted = (fit(batch, self._plain) for batch in batches)
        rows = regroup(fitted, options.batch_rows, options.batch_bytes)
        parts: list[PartFile] = []
        for number, batch_group in enumerate(split_files(rows, options.max_records_per_file)):
            # Only where there can be several, so that the order of names is the order of rows.
            numbered = "" if options.max_records_per_file is None else f"-{number:04}"
            name = f"part-{partition:05}-{job}{numbered}{options.suffix}"
            self._write_file(batch_group, f"{attempt}/{name}")
            parts.append(PartFile(f"{attempt}/{name}", name))
        return parts

    def write_empty(self, directory: str, job: str) -> PartFile:
        """Write a file that holds the schema and no rows."""
        name = f"part-00000-{job}{self._options.suffix}"
        attempt = f"{directory}/{uuid.uuid4().hex}"
        self._storage.make_child(attempt)
        # Keys are columns of it: there is no folder to tell them.
        with self._file(f"{attempt}/{name}", self._whole):
            pass
        return PartFile(f"{attempt}/{name}", name)

    def _write_folders(self, batches: Iterable[pa.RecordBatch], attempt: str, name: str) -> list[PartFile]:
        """Write rows into a file per folder, or several where there are more folders than files may be open."""
        parts: list[PartFile] = []

        def opened(folder: str, files: ExitStack) -> "Write":
            part = f"{name}-{len(parts):04}{self._options.suffix}"
            write = files.enter_context(self._file(f"{attempt}/{part}", self._schema))
            parts.append(PartFile(f"{attempt}/{part}", f"{folder}/{part}"))
            return write

        waiting: OrderedDict[str, _FolderRows] = OrderedDict()
        with ExitStack() as files:
            for batch in batches:
                for folder, rows in by_folder(batch, self._options.partition_by):
                    if folder not in waiting:
                        waiting[folder] = _FolderRows(self._options, partial(opened, folder), files)
                    waiting.move_to_end(folder)
                    waiting[folder].add(fit(rows, self._plain))
                    if len(waiting) > MOST_OPEN:
                        waiting.popitem(last=False)[1].close()
                if sum(each.size for each in waiting.values()) > MOST_WAITING:
                    for each in waiting.values():
                        each.flush()
            for each in waiting.values():
                each.close()
        return parts

    def _write_file(self, batches: Iterable[pa.RecordBatch], name: str) -> None:
        with self._file(name, self._schema) as write:
            for batch in batches:
                write(batch)

    @contextmanager
    def _file(self, name: str, schema: pa.Schema) -> Iterator["Write"]:
        """What writes batches to a new file."""
        options = self._options
        with self._storage.sink(name) as sink, options.open(sink, schema) as writer:
            yield lambda batch: writer.write_table(
                self._encoded(batch), options.batch_rows, max_chunk_bytes=options.batch_bytes
            )

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _FolderRows:
    """The rows of one folder that wait until they fill a batch, and the file that then takes them."""

    def __init__(self, options: WriteOptions, opened: "Callable[[ExitStack], Write]", files: ExitStack) -> None:
        self._options, self._opened, self._files = options, opened, files
        self._open: ExitStack | None = None
        self._write: Write | None = None
        self._room: int | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._count = self.size = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, and write what is there where that fills a batch."""
        self._waiting.append(rows)
        self._count += rows.num_rows
        self.size += rows.nbytes
        if self._count >= self._options.batch_rows or self.size >= self._options.batch_bytes:
            self.flush()

    def flush(self) -> None:
        """Write all that waits."""
        options = self._options
        for batch in regroup(self._waiting, options.batch_rows, options.batch_bytes):
            while batch.num_rows:
                if self._write is None:
                    self._open = self._files.enter_context(ExitStack())
                    self._write, self._room = self._opened(self._open), options.max_records_per_file
                piece = batch.slice(0, self._room)
                self._write(piece)
                batch = batch.slice(piece.num_rows)
                if self._room is not None:
                    self._room -= piece.num_rows
                    if not self._room:
                        self._end()
        self._waiting, self._count, self.size = [], 0, 0

    def close(self) -> None:
        """Write all that waits, and end the file."""
        self.flush()
        self._end()

    def _end(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = self._write = None


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch of Spark's to the schema of files: UTC instead of the session's zone, small offsets."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def regroup(batches: Iterable[pa.RecordBatch], rows: int, bytes_: int) -> Iterator[pa.RecordBatch]:
    """Join and cut batches so that each has `rows` rows, fewer where they take `bytes_` or at the end."""
    bytes_ = min(bytes_, LARGEST_JOIN)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, rows - count)
            if waiting and size + piece.nbytes > bytes_:
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
                continue
            waiting.append(piece)
            start += piece.num_rows
            count += piece.num_rows
            size += piece.nbytes
            if count == rows or size >= bytes_:
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(columns) for columns in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def split_files(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[Iterable[pa.RecordBatch]]:
    """Split batches into the rows of one file after the other; each is to be consumed before the next."""
    rest: Any = next(batches, None)

    def one_file() -> Iterator[pa.RecordBatch]:
        nonlocal rest
        room = most
        while rest is not None and room != 0:
            piece = rest if room is None else rest.slice(0, room)
            if room is not None:
                room -= piece.num_rows
            rest = rest.slice(piece.num_rows) if piece.num_rows < rest.num_rows else next(batches, None)
            yield piece

    while rest is not None:
        yield one_file()
