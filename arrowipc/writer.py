"""Writers: the drivers that bring encoded messages to paths, files, sockets and buffers."""

from __future__ import annotations

import os

from arrowipc.arguments import check_flag, check_integer, described, instance_of, metadata_of
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.encode.batch_writer import BatchWriter, Sink, batch_size, check_schema
from arrowipc.encode.batches import batches_of
from arrowipc.encode.targets import open_sink
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


#: What writers have for the rest of the package, and completion does not show.
INTERNAL = frozenset(name for name in vars(BatchWriter) if name not in ("close", "schema", "write_batch"))


# -- writers -------------------------------------------------------------------------------------------------


class _Writer(BatchWriter):
    """Base of both writers: everything except what only a file has."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name.startswith("_") or name not in INTERNAL]

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
            A RecordBatch, Table or reader; anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            (pyarrow, polars, pandas, DuckDB and nanoarrow objects); a dict with a NumPy array, a list or an
            array per column. Lists and iterators of all these are written item by item.

        Raises
        ------
        UsageError
            The columns are not those of the writer's schema (the message names the first that differs);
            nothing was written then. Also when the writer is closed.
        OSError
            The sink failed; the writer cannot go on.
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
            Rows of a batch at most. Default: batches stay as they are.
        max_chunk_bytes : int, optional
            Bytes of a body at most, before compression; a single row may have more.

        Raises
        ------
        UsageError
            As for `write`; also for limits below 1.
        """
        rows = _limit("max_chunksize", max_chunksize)
        size = _limit("max_chunk_bytes", max_chunk_bytes)
        for batch in self._opened(table):
            if max_chunksize is None and max_chunk_bytes is None:
                self.write_batch(batch)
            else:
                self.write_rows(batch, rows, size)

    def _opened(self, data: Any) -> Iterable[RecordBatch]:
        """Find the batches of an argument; if its schema is known without them, it is written first."""
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
            # No end marker and no footer: whoever reads what is there must not take it for all.
            self.abandon(f"the with block was left by {kind.__name__}")

    def __repr__(self) -> str:
        state = "closed" if self.ended else f"batches written: {self.stats.num_record_batches}"
        return f"<{type(self).__name__}: {state}>" + (f"\n{self.schema}" if self.schema is not None else "")


def _limit(name: str, value: int | None) -> int:
    return 2**63 - 1 if value is None else check_integer(name, value, 1, 2**63 - 1)


def _continued(
    existing: ExistingFile | ExistingStream, schema: Schema | None, options: WriteOptions, **stored: Any
) -> WriteOptions:
    """Return the options for writing behind what is there, in the form that it has."""
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
    """Writes an Arrow IPC stream; made by `new_stream`, which says what its parameters are.

    A writer is a context manager: leaving the block closes it. Left by an exception, the block removes what
    was made under a path, and a file object gets no end marker.
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
    """Writes an Arrow IPC file; made by `new_file`, which says what its parameters are.

    A file appears under its name when the writer is closed, complete; until then it has another name.
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
        """Start after the batches of a file, if the options fit that file."""
        if existing.last_batch is not None and options.unify_dictionaries and not options.dictionary_deltas:
            raise UsageError(
                "append: the dictionaries of the file are written already and cannot be merged with others: with "
                "dictionary_deltas=True they can grow"
            )
        options = _continued(existing, None if schema is None else as_schema(schema), options)
        pairs = metadata or existing.metadata.pairs
        self._start(existing.copied(options.durable), None, options, True, pairs, existing)

    @property
    def metadata(self) -> KeyValueMetadata:
        """KeyValueMetadata: the footer's metadata; may be set, to a mapping or pairs, until the end."""
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
        writable memory (memoryview, shared memory, mmap) is filled from the start; a map, from its position.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: that of the first thing that is written, or of the stream that is appended to.
    append : bool, default False
        Write to the file at this path itself, behind the last whole message of the stream in it; the file is made
        where there is none. Its end marker, or a message that a killed writer did not finish, is cut off before the
        first byte is written. Dictionaries go on. Readers see each batch when `write` returns
        (`open_stream` with ``follow=True``); a block that is left by an exception writes no end marker, and what was
        written stays. One writer at a time may append.
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
        What is to be appended to is no stream, or damaged before its end.
    OSError
        The sink cannot be opened, or (EBUSY) another writer appends to the stream there. Later, `write` and `close`
        raise ESTALE if the stream that they append to was removed or replaced, and `close` raises EBUSY if another
        writer appends to the stream that would be replaced: the new one is kept beside it, and the error says where.

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
        Default: that of the first thing that is written, or of the file that is appended to.
    metadata : mapping or pairs of str or bytes, optional
        Of the file; ``writer.metadata`` can be set until the writer is closed. Metadata given here are
        also in the first message, so that a lost footer does not lose them. Those that describe a file (keys that begin
        with ``arrowipc:``, polars' numbers of rows) are left out: they are true of the file only that they come from.
    append : bool, default False
        Append to the file at this path, if there is one. Its batches are copied to a new
        file (by the kernel, and not at all where the file system shares blocks), which takes the old one's
        place when the writer is closed: until then, and after a crash, the old file is there as it was. If it is no
        longer the file that was opened, closing raises an OSError (ESTALE), and both are kept: the error says where.
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
    """Write data as an Arrow IPC file, or as a stream where a path ends with ".arrows".

    `new_file` and `new_stream` say what the other parameters are, and their errors are raised.

    Parameters
    ----------
    data : object
        What a writer's `write` takes: a table, batch, reader or data frame of any library, a dict of columns, or an
        iterator of these.
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
    """Return a batch as the bytes of an encapsulated message: prefix, metadata and body.

    Dictionaries have messages of their own, which do not count here.

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

    One batch is in memory at a time. The body of a message goes out as it came in, compressed or not, where
    reader and writer agree about schema, codec, alignment and metadata version, and the writer was not asked
    to choose columns, levels or sizes; else the batch is decoded and encoded again.

    Dictionaries go out as they came, by default: a source that grew them by deltas is copied with deltas to a
    stream, so that the copy is no larger than its source; see ``dictionary_deltas`` of `arrowipc.new_stream`.

    Parameters
    ----------
    reader : RecordBatchStreamReader, RecordBatchFileReader, or anything that a writer's `write` takes
        Bodies are checked as its `validate` says before they are passed on. With ``validate="none"`` only the
        structure is checked, and nothing is decompressed.
    writer : RecordBatchStreamWriter or RecordBatchFileWriter
        Stays open.

    Returns
    -------
    int
        The number of messages whose body was passed on untouched.

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
            # With validation the columns are the decoded batch.
            writer.write_batch(columns if isinstance(columns, RecordBatch) else decode(message))
        del message, columns  # the next body is read into their memory
    return untouched
