"""Writers: they bring encoded messages to paths, files, sockets and buffers."""

from __future__ import annotations

import os
from contextlib import suppress
from weakref import WeakSet

from arrowipc.arguments import Hints, add_hints, by_name, check_flag, check_integer, described, instance_of, metadata_of
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.encode.batch_writer import BatchWriter, Sink, batch_size, check_schema
from arrowipc.encode.batches import batches_of
from arrowipc.encode.targets import CallersFile, open_sink
from arrowipc.errors import UsageError
from arrowipc.existing import ExistingFile, ExistingStream
from arrowipc.options import MessageOptions, WriteOptions, with_keywords, write_options
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.schemas import Schema
from arrowipc.types import as_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self, Unpack

    from arrowipc.arguments import KeyValueMetadata, MetadataLike
    from arrowipc.decode.framing import Message
    from arrowipc.encode.batches import Writable
    from arrowipc.events import WriteStats
    from arrowipc.options import MessageKeywords, WriteKeywords


#: Attributes of writers that only the rest of the package uses; completion does not show them.
INTERNAL = frozenset(name for name in vars(BatchWriter) if name not in ("close", "schema", "write_batch"))


# -- writers -------------------------------------------------------------------------------------------------


#: What writers have -> the names that other libraries have for it.
_INSTEAD = by_name(
    {
        "an exception that leaves the with block abandons the output": "abort cancel",
        "close(), and batches are handed to the sink when they are written": "end finish flush",
        "stats": "bytes_written num_rows rows_written tell",
        "write([{name: value}]) takes rows": "write_dicts write_row writerow writerows",
        "write(data) takes batches, tables, readers, data frames, dicts of columns, and lists of these": (
            "add append write_all write_batches write_dataframe write_dict write_pandas write_record_batch"
        ),
    }
)


class _Writer(BatchWriter, Hints):
    """Base of both writers: all methods that they share."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in Hints.__dir__(self) if name.startswith("_") or name not in INTERNAL]

    def _start(
        self,
        sink: Sink,
        schema: Schema | None,
        options: WriteOptions,
        is_file: bool = False,
        metadata: tuple[tuple[bytes, bytes], ...] = (),
        existing: ExistingFile | ExistingStream | None = None,
    ) -> None:
        try:
            annotator = None
            if options.statistics is not False:
                from arrowipc.filters.statistics import Annotator

                annotator = Annotator(options.statistics)
                if is_file:
                    from arrowipc.sources.file_statistics import FileStatistics

                    annotator.file = FileStatistics()
            super().__init__(sink, options, is_file, annotator, metadata)
            if sink.behind is not None and not isinstance(sink.behind, CallersFile):
                _of_paths.add(self)
            if existing is not None:
                self.resume(existing)
            elif schema is not None:
                self.begin(schema)
        except BaseException:
            sink.discard()
            raise

    def write(self, data: Writable) -> None:
        """Write rows of any kind.

        Parameters
        ----------
        data : object
            A RecordBatch, Table or reader; an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            (objects of pyarrow, polars, pandas, DuckDB and nanoarrow); a dict with a NumPy array, a list or an
            array per column. Lists and iterators of these are written item by item.

        Raises
        ------
        UsageError
            The columns are not those of the writer's schema (the message names the first that differs), and nothing
            was written; or the writer is closed.
        OSError
            The sink failed; the writer cannot be used any more.
        """
        if isinstance(data, RecordBatch) and self.schema is not None:
            self.write_batch(data)
            return
        for batch in self._opened(data):
            self.write_batch(batch)

    def write_table(
        self, table: Writable, max_chunksize: int | None = None, *, max_chunk_bytes: int | None = None
    ) -> None:
        """Write a table, in batches of bounded size.

        Parameters
        ----------
        table : Table, or anything that `write` takes
        max_chunksize : int, optional
            The most rows of a batch. Default: batches stay as they are.
        max_chunk_bytes : int, optional
            The most bytes of a body, before compression; a single row may have more.

        Raises
        ------
        UsageError
            As for `write`; also if a limit is below 1.
        """
        rows = _limit("max_chunksize", max_chunksize)
        size = _limit("max_chunk_bytes", max_chunk_bytes)
        for batch in self._opened(table):
            if max_chunksize is None and max_chunk_bytes is None:
                self.write_batch(batch)
            else:
                self.write_rows(batch, rows, size)

    def _opened(self, data: Any) -> Iterable[RecordBatch]:
        """Return the batches of an argument; if its schema is known without reading them, write that first."""
        self.check()
        schema, batches = batches_of(data, self.schema)
        if self.schema is None and schema is not None:
            self.expect(schema)
        return batches

    @property
    def stats(self) -> WriteStats:
        """WriteStats: messages, batches, dictionaries and bytes written so far."""
        from arrowipc.events import WriteStats

        return WriteStats(*self.counters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            # Write no end marker and no footer, so that no reader takes the output for complete.
            self.abandon(f"the with block was left by {kind.__name__}")

    def __repr__(self) -> str:
        state = "closed" if self.ended else f"batches written: {self.stats.num_record_batches}"
        return f"<{type(self).__name__}: {state}>" + (f"\n{self.schema}" if self.schema is not None else "")


add_hints(_Writer, _INSTEAD)

#: Writers of paths and URLs. What they have opened belongs to this process, and not to children that it forks.
_of_paths: WeakSet[_Writer] = WeakSet()


def _leave_to_parent() -> None:
    """End the writers that a forked child has inherited, without a word to what they have opened."""
    for writer in list(_of_paths):
        writer.sink.behind = None
        with suppress(UsageError):  # a thread of the parent was writing
            writer.abandon("the process that this one was forked from writes there: begin another one, at another path")


os.register_at_fork(after_in_child=_leave_to_parent)


def _limit(name: str, value: int | None) -> int:
    return 2**63 - 1 if value is None else check_integer(name, value, 1, 2**63 - 1)


def _continued(
    existing: ExistingFile | ExistingStream, schema: Schema | None, options: WriteOptions, **stored: Any
) -> WriteOptions:
    """Return the options for appending in the same form as the existing messages; refuse options that differ."""
    assert existing.schema is not None
    stored["metadata_version"] = existing.version
    for name, value in stored.items():
        if getattr(options, name) not in (None, value):
            raise UsageError(f"append: what is there has {name}={value!r} and cannot change it: leave {name} out")
    if options.checksum and not existing.checksum:
        raise UsageError(
            "append: what is there has no checksums, so that those of new messages would not do: copy it with "
            "checksum=True"
        )
    if schema is not None:
        check_schema(existing.schema, schema)
    return WriteOptions({**vars(options), "options": None, "checksum": existing.checksum, **stored})


class RecordBatchStreamWriter(_Writer):
    """Writes an Arrow IPC stream; made by `new_stream`, which describes the parameters.

    A writer is a context manager: leaving the ``with`` block closes it. If an exception leaves the block, the file
    that was made for a path is removed, and a file object gets no end marker. What a path or URL gets is written by the
    process that made the writer: a child that it forks cannot write there, and leaving the block there changes nothing.
    """

    __slots__ = ()

    @with_keywords(WriteOptions)
    def __init__(
        self, sink: Any, schema: Any = None, *, append: bool = False, **keywords: Unpack[WriteKeywords]
    ) -> None:
        options = write_options(keywords)
        known = None if schema is None else as_schema(schema)
        if not check_flag("append", append):
            self._start(open_sink(sink, options.durable), known, options)
            return
        existing = ExistingStream(sink, options.durable)
        if existing.schema is None:
            self._start(existing.sink(), known, options)
            return
        try:
            options = _continued(existing, known, options, legacy=existing.legacy)
        except BaseException:
            existing.discard()
            raise
        self._start(existing.sink(), None, options, existing=existing)


class RecordBatchFileWriter(_Writer):
    """Writes an Arrow IPC file; made by `new_file`, which describes the parameters.

    A file gets its name only when the writer is closed and it is complete; until then it has another name.
    """

    __slots__ = ()

    @with_keywords(WriteOptions)
    def __init__(
        self,
        sink: Any,
        schema: Any = None,
        *,
        metadata: MetadataLike = None,
        append: bool = False,
        **keywords: Unpack[WriteKeywords],
    ) -> None:
        options = write_options(keywords)
        pairs = metadata_of(metadata).pairs
        if check_flag("append", append):
            sink, existing = ExistingFile.find(sink)
            if existing is not None:
                with existing:
                    self._continue(existing, schema, options, pairs)
                return
        known = None if schema is None else as_schema(schema)
        self._start(open_sink(sink, options.durable), known, options, True, pairs)

    def _continue(
        self, existing: ExistingFile, schema: Any, options: WriteOptions, metadata: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        """Start to write after the batches of `existing`, if the options fit that file."""
        if existing.last_batch is not None and options.unify_dictionaries and not options.dictionary_deltas:
            raise UsageError(
                "append: the dictionaries of the file are written already and cannot be merged with others: with "
                "dictionary_deltas=True they can grow"
            )
        options = _continued(existing, None if schema is None else as_schema(schema), options)
        pairs = metadata or existing.metadata.pairs
        self._start(existing.copy_to_new(options.durable), None, options, True, pairs, existing)

    @property
    def metadata(self) -> KeyValueMetadata:
        """KeyValueMetadata: the metadata of the footer; may be set, to a mapping or pairs, until `close`."""
        return metadata_of(self.file_metadata)

    @metadata.setter
    def metadata(self, value: MetadataLike) -> None:
        self.check()
        self.file_metadata: tuple[tuple[bytes, bytes], ...] = metadata_of(value).pairs


@with_keywords(WriteOptions)
def new_stream(
    sink: Any, schema: Any = None, *, append: bool = False, **keywords: Unpack[WriteKeywords]
) -> RecordBatchStreamWriter:
    """Start an Arrow IPC stream.

    Parameters
    ----------
    sink : path, URL, file object, socket, bytearray or writable buffer
        A path is written to a temporary file next to it, which is renamed when the writer is closed. A path that is
        not a regular file (a pipe, a device) is written directly. A URL is opened with fsspec. A bytearray grows. Other
        writable memory (memoryview, shared memory) is filled from its start; an mmap from its position.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: the schema of the first data that is written, or of the stream that is appended to.
    append : bool, default False
        Write to the file at this path itself, behind the last whole message of the stream in it; the file is made if
        there is none. The end marker, or a message that a killed writer did not finish, is cut off before the
        first byte is written. Dictionaries stay valid. Readers see each batch when `write` returns
        (`open_stream` with ``follow=True``). If an exception leaves the block, no end marker is written, and the
        written batches stay. Only one writer at a time may append.
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Returns
    -------
    RecordBatchStreamWriter

    Raises
    ------
    UsageError
        An option is not one of the above, or the sink cannot be written to.
    UnsupportedError
        The package of the codec is not installed.
    FormatError
        The file to append to is not a stream, or is damaged before its end.
    OSError
        The sink cannot be opened, or (EBUSY) another writer appends to the stream there. Later, `write` and `close`
        raise ESTALE if the stream that they append to was removed or replaced, and `close` raises EBUSY if another
        writer appends to the stream that would be replaced; the new stream is then kept beside it, and the error says
        where.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64, utf8
    >>> schema = ipc.Schema([field("id", int64()), field("word", utf8())])
    >>> sink = bytearray()
    >>> with ipc.new_stream(sink, schema) as writer:
    ...     writer.write({"id": [1, 2], "word": ["one", None]})
    >>> ipc.open_stream(sink).read_all().to_pydict()
    {'id': [1, 2], 'word': ['one', None]}
    >>> table = ipc.open_stream(sink).read_all()
    >>> writer = ipc.new_stream(bytearray(), schema)
    >>> writer.write_table(table), writer.write_batch(table.combine()), writer.close()
    (None, None, None)
    """
    return RecordBatchStreamWriter(sink, schema, append=append, **keywords)


@with_keywords(WriteOptions)
def new_file(
    sink: Any,
    schema: Any = None,
    *,
    metadata: MetadataLike = None,
    append: bool = False,
    **keywords: Unpack[WriteKeywords],
) -> RecordBatchFileWriter:
    """Start an Arrow IPC file.

    Parameters
    ----------
    sink : path, URL, file object, bytearray or writable buffer
        As for `new_stream`.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: the schema of the first data that is written, or of the file that is appended to.
    metadata : mapping or pairs of str or bytes, optional
        Metadata of the file; ``writer.metadata`` can be set until the writer is closed. Metadata given here are
        also in the first message, so that they survive the loss of the footer. Entries that describe a file (keys that
        begin with ``arrowipc:``, polars' numbers of rows) are left out, because they are true only of their source.
    append : bool, default False
        Append to the file at this path, if there is one. Its batches are copied to a new
        file (by the kernel; nothing is copied if the file system can share blocks), which replaces the old one
        when the writer is closed; until then, and after a crash, the old file is unchanged. If another file is there
        by then, closing raises an OSError (ESTALE), and both are kept; the error says where.
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Returns
    -------
    RecordBatchFileWriter

    Raises
    ------
    UsageError, UnsupportedError, OSError
        As for `new_stream`.
    FormatError
        The file to append to is not a complete Arrow IPC file.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64
    >>> sink = bytearray()
    >>> with ipc.new_file(sink, ipc.Schema([field("x", int64())]), metadata={"made by": "hand"}) as writer:
    ...     writer.write({"x": [1, 2]})
    ...     writer.write({"x": [3]})
    >>> with ipc.open_file(sink) as reader:
    ...     reader.num_record_batches, reader.metadata, reader[-1].to_pydict()
    (2, KeyValueMetadata({b'made by': b'hand'}), {'x': [3]})
    """
    return RecordBatchFileWriter(sink, schema, metadata=metadata, append=append, **keywords)


@with_keywords(WriteOptions)
def write(
    data: Writable,
    sink: Any,
    schema: Any = None,
    *,
    metadata: MetadataLike = None,
    append: bool = False,
    **keywords: Unpack[WriteKeywords],
) -> None:
    """Write data as an Arrow IPC file, or as a stream if the path ends with ".arrows".

    `new_file` and `new_stream` describe the other parameters and the errors.

    Parameters
    ----------
    data : object
        Data that a writer's `write` takes: a table, batch, reader or data frame of any library, a dict of columns, or
        an iterator of these.
    sink : path, URL, file object, bytearray or writable buffer
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
    metadata : mapping or pairs of str or bytes, optional
    append : bool, default False
    **keywords
        Those of `arrowipc.options.WriteOptions`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.write({"x": [1, 2]}, file := bytearray(), compression="zstd")
    >>> ipc.read(file).to_pydict()
    {'x': [1, 2]}
    """
    if isinstance(data, (str, os.PathLike)):
        raise UsageError(f"write: the data come first and the path second: write(data, path); found {described(data)}")
    is_stream = isinstance(sink, (str, os.PathLike)) and os.fsdecode(sink).endswith(".arrows")
    if not is_stream:
        with new_file(sink, schema, metadata=metadata, append=append, **keywords) as writer:
            writer.write(data)
        return
    if metadata is not None:
        raise UsageError("write: a stream has no footer for metadata; give them to the schema, or write a file: .arrow")
    with new_stream(sink, schema, append=append, **keywords) as writer:
        writer.write(data)


@with_keywords(MessageOptions)
def get_record_batch_size(batch: Any, **keywords: Unpack[MessageKeywords]) -> int:
    """Return the number of bytes of a batch as an encapsulated message: prefix, metadata and body.

    Dictionaries have messages of their own, which are not counted.

    Parameters
    ----------
    batch : RecordBatch, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
    **keywords
        Those of `arrowipc.options.MessageOptions`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int64())]))
    >>> ipc.get_record_batch_size(batch) == len(batch.serialize())
    True
    """
    return batch_size(batch, MessageOptions(keywords))


def copy(reader: Any, writer: RecordBatchStreamWriter | RecordBatchFileWriter) -> int:
    """Write all remaining batches of a reader.

    One batch is in memory at a time. The body of a message is written as it was read, compressed or not, if
    reader and writer agree about schema, codec, alignment and metadata version, and no options of the writer
    choose columns, levels or sizes; else the batch is decoded and encoded again.

    By default, dictionaries are written as they were read: deltas of the source stay deltas in a stream, so that
    the copy is no larger than its source; see ``dictionary_deltas`` of `arrowipc.new_stream`.

    Parameters
    ----------
    reader : RecordBatchStreamReader, RecordBatchFileReader, or anything that a writer's `write` takes
        Before bodies are passed on, they are checked as its option `validate` says. With ``validate="none"`` only the
        structure is checked, and nothing is decompressed.
    writer : RecordBatchStreamWriter or RecordBatchFileWriter
        Stays open.

    Returns
    -------
    int
        The number of messages whose body was written unchanged.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64
    >>> sink = bytearray()
    >>> with ipc.new_stream(sink, ipc.Schema([field("x", int64())])) as writer:
    ...     writer.write({"x": [1, 2]})
    >>> with ipc.open_stream(sink) as reader, ipc.new_file(target := bytearray(), reader.schema) as writer:
    ...     ipc.copy(reader, writer)
    1
    >>> ipc.open_file(target).read_all().to_pydict()
    {'x': [1, 2]}
    """
    advice = ": new_file(path) or new_stream(path) makes one, and open(path) a reader"
    instance_of("writer", writer, (RecordBatchStreamWriter, RecordBatchFileWriter), advice)
    if not isinstance(reader, (RecordBatchStreamReader, RecordBatchFileReader)):
        writer.write(reader)
        return 0
    writer.expect(reader.schema)
    untouched = 0
    decode: Callable[[Message], RecordBatch] = reader.decoder.decode
    for message, columns in reader.stored():
        if writer.write_stored(message, columns):
            untouched += 1
        else:
            # With validation, `columns` is the decoded batch.
            writer.write_batch(columns if isinstance(columns, RecordBatch) else decode(message))
        del message, columns  # free their memory for the next body
    return untouched
