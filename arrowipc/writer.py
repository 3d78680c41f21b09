"""Writers: the drivers that bring encoded messages to paths, files, sockets and buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arrowipc.arguments import check_integer, metadata_of, write_keywords
from arrowipc.columns.array import RecordBatch
from arrowipc.errors import UsageError
from arrowipc.existing import ExistingFile
from arrowipc.schema import Schema
from arrowipc.write.batch_writer import BatchWriter, EncodeOptions, Sink, batch_size, check_schema
from arrowipc.write.batches import as_schema, batches_of
from arrowipc.write.targets import open_sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Literal, Self, TypeAlias

    from arrowipc.arguments import KeyValueMetadata, MetadataLike
    from arrowipc.columns.statistics import Annotator
    from arrowipc.events import WriteStats

    Codec: TypeAlias = Literal["lz4", "zstd"] | None
    Compression: TypeAlias = Codec | Mapping[str, Codec]
    #: What is written: dictionary_deltas, unify_dictionaries, coalesce_rows, allow_64bit, statistics.
    Rules: TypeAlias = tuple[bool | None, bool, int, bool, Annotator | None]

__all__ = [
    "RecordBatchFileWriter",
    "RecordBatchStreamWriter",
    "get_record_batch_size",
    "new_file",
    "new_stream",
]


# -- writers -------------------------------------------------------------------------------------------------


class _Writer(BatchWriter):
    """What both kinds of writers share: everything but what a file has more."""

    __slots__ = ()

    def _start(
        self,
        sink: Sink,
        schema: Schema | None,
        encode_options: EncodeOptions,
        rules: Rules,
        is_file: bool = False,
        metadata: tuple[tuple[bytes, bytes], ...] = (),
        existing: ExistingFile | None = None,
    ) -> None:
        try:
            if is_file and rules[-1] is not None:
                from arrowipc.write.file_statistics import FileStatistics

                rules[-1].file = FileStatistics()
            super().__init__(sink, encode_options, is_file, *rules, metadata)
            if existing is not None:
                self.resume(existing)
            elif schema is not None:
                self.begin(schema)
        except BaseException:
            sink.discard()
            raise

    def write(self, data: Any) -> None:
        """Write whatever holds rows.

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

    def write_table(self, table: Any, max_chunksize: int | None = None, *, max_chunk_bytes: int | None = None) -> None:
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
        """Find the batches of what was handed in; a schema that is known without them is written first."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def _annotator(columns: bool | Iterable[str]) -> Annotator | None:
    if columns is False:
        return None
    from arrowipc.columns.statistics import Annotator

    return Annotator(columns)


def _understood(
    compression: Compression = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: int = 8,
    legacy: bool | None = None,
    metadata_version: Literal["V5", "V4"] | None = None,
    use_threads: bool = True,
    dictionary_deltas: bool | None = None,
    unify_dictionaries: bool = False,
    coalesce_rows: int = 0,
    allow_64bit: bool = False,
    statistics: bool | Iterable[str] = False,
    durable: bool = True,
    options: Any = None,
) -> tuple[EncodeOptions, Rules, bool]:
    """What the keywords of `new_stream` ask for."""
    if options is not None:
        return _understood(**{**locals(), "options": None, **write_keywords(options)})
    encode_options = EncodeOptions(
        compression, compression_level, min_space_savings, alignment, legacy, metadata_version, use_threads
    )
    rules = dictionary_deltas, unify_dictionaries, coalesce_rows, allow_64bit, _annotator(statistics)
    return encode_options, rules, durable


class RecordBatchStreamWriter(_Writer):
    """Writes an Arrow IPC stream; made by `new_stream`, which says what its parameters are.

    A writer is a context manager: leaving the block closes it. Left by an exception, the block removes what
    was made under a path, and a file object gets no end marker.
    """

    __slots__ = ()

    def __init__(self, sink: Any, schema: Any = None, **options: Any) -> None:
        encode_options, rules, durable = _understood(**options)
        known = None if schema is None else as_schema(schema)
        self._start(open_sink(sink, durable), known, encode_options, rules)


class RecordBatchFileWriter(_Writer):
    """Writes an Arrow IPC file; made by `new_file`, which says what its parameters are.

    A file appears under its name when the writer is closed, complete; until then it has another name.
    """

    __slots__ = ()

    def __init__(
        self, sink: Any, schema: Any = None, *, metadata: MetadataLike = None, append: bool = False, **options: Any
    ) -> None:
        if append:
            sink, existing = ExistingFile.find(sink)
            if existing is not None:
                with existing:
                    self._continue(existing, schema, options, metadata_of(metadata).pairs)
                return
        encode_options, rules, durable = _understood(**options)
        known = None if schema is None else as_schema(schema)
        pairs = metadata_of(metadata).pairs
        self._start(open_sink(sink, durable), known, encode_options, rules, True, pairs)

    def _continue(
        self, existing: ExistingFile, schema: Any, options: dict[str, Any], metadata: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        """Begin behind the batches of a file, if the rules fit what is there."""
        version = options.get("metadata_version") or existing.version
        if version != existing.version:
            raise UsageError(
                f"append: the file has metadata version {existing.version}, its messages cannot have another one: "
                "leave metadata_version out"
            )
        encode_options, rules, durable = _understood(**{**options, "metadata_version": version})
        dictionary_deltas, unify_dictionaries, *_ = rules
        if existing.last_batch is not None and unify_dictionaries and not dictionary_deltas:
            raise UsageError(
                "append: the dictionaries of the file are written already and cannot be merged with others: with "
                "dictionary_deltas=True they can grow"
            )
        if schema is not None:
            check_schema(existing.schema, as_schema(schema))
        pairs = metadata or existing.metadata.pairs
        self._start(existing.copied(durable), None, encode_options, rules, True, pairs, existing)

    @property
    def metadata(self) -> KeyValueMetadata:
        """KeyValueMetadata: the footer's metadata; may be set, to a mapping or pairs, until the end."""
        return metadata_of(self.file_metadata)

    @metadata.setter
    def metadata(self, value: MetadataLike) -> None:
        self.check()
        self.file_metadata: tuple[tuple[bytes, bytes], ...] = metadata_of(value).pairs


def new_stream(
    sink: Any,
    schema: Any = None,
    *,
    compression: Compression = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: Literal[8, 64] = 8,
    legacy: bool | None = None,
    metadata_version: Literal["V5", "V4"] | None = None,
    dictionary_deltas: bool | None = None,
    unify_dictionaries: bool = False,
    coalesce_rows: int = 0,
    allow_64bit: bool = False,
    statistics: bool | Iterable[str] = False,
    durable: bool = True,
    use_threads: bool = True,
    options: Any = None,
) -> RecordBatchStreamWriter:
    """Begin an Arrow IPC stream.

    Parameters
    ----------
    sink : path, URL, file object, socket, bytearray or writable buffer
        A path is written to a temporary file next to it, which is renamed when the writer is closed. A path that is
        not a regular file (a pipe, a device) is written directly. A URL is opened with fsspec. A bytearray grows. Other
        writable memory (memoryview, shared memory, mmap) is filled from the start; a map, from its position.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        Default: that of the first thing that is written.
    compression : {None, "lz4", "zstd"}, pyarrow.Codec or dict
        Codec of the buffers, in upper case too; "uncompressed" is None. A dict chooses per column name, ``"*"`` means
        all others: ``{"payload": None, "*": "zstd"}``. Buffers that would grow are stored raw.
    compression_level : int, optional
        Of the codec.
    min_space_savings : float, optional
        Buffers that compression makes smaller by less than this share (0 to 1) are stored raw.
    alignment : {8, 64}
        Of bodies, counted from the start, and of the buffers in them.
    legacy : bool, optional
        Write the framing from before Arrow 0.15. Default: whether the environment variable
        ``ARROW_PRE_0_15_IPC_FORMAT`` is 1, as in pyarrow.
    metadata_version : {"V5", "V4"}, optional
        V4 is for readers older than Arrow 1.0. Default: V4 if ``ARROW_PRE_1_0_METADATA_VERSION`` is 1, else V5.
    dictionary_deltas : bool, optional
        Write a dictionary that only grew as a delta (True), or whole (False): n times as it grows, n times
        as large. Some readers cannot take deltas. Default: dictionaries that a reader got as deltas are
        written as deltas, so that copies are as large as their sources; all others whole.
    unify_dictionaries : bool, default False
        Merge the dictionaries that batches bring, and rewrite the indices.
    coalesce_rows : int, default 0
        Batches of fewer rows (without metadata of their own) are joined until they have as many together.
    allow_64bit : bool, default False
        Write batches of more than 2**31 - 1 rows, or with longer lists, which some readers cannot read.
    statistics : bool or names of columns, default False
        Note the minimum, the maximum and the nulls of each column in the metadata of its batch, and of all batches in
        the footer of a file, where readers can see whether they need the rest; see `arrowipc.file_statistics`.
    durable : bool, default True
        For paths: the file is on the disk, and known under its name there, when `close` returns.
    use_threads : bool, default True
        Compress large bodies with several threads.
    options : pyarrow.ipc.IpcWriteOptions, optional
        Takes the place of the keywords that it knows.

    Returns
    -------
    RecordBatchStreamWriter

    Raises
    ------
    UsageError
        An option is not one of the above, or the sink cannot be written to.
    UnsupportedError
        The package of the codec is not installed.
    OSError
        The sink cannot be opened.

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
    encode_options, rules, durable = _understood(
        compression,
        compression_level,
        min_space_savings,
        alignment,
        legacy,
        metadata_version,
        use_threads,
        dictionary_deltas,
        unify_dictionaries,
        coalesce_rows,
        allow_64bit,
        statistics,
        durable,
        options,
    )
    writer = RecordBatchStreamWriter.__new__(RecordBatchStreamWriter)  # small streams are many: no keywords for it
    writer._start(open_sink(sink, durable), None if schema is None else as_schema(schema), encode_options, rules)
    return writer


def new_file(
    sink: Any,
    schema: Any = None,
    *,
    metadata: MetadataLike = None,
    append: bool = False,
    compression: Compression = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: Literal[8, 64] = 8,
    legacy: bool | None = None,
    metadata_version: Literal["V5", "V4"] | None = None,
    dictionary_deltas: bool | None = None,
    unify_dictionaries: bool = False,
    coalesce_rows: int = 0,
    allow_64bit: bool = False,
    statistics: bool | Iterable[str] = False,
    durable: bool = True,
    use_threads: bool = True,
    options: Any = None,
) -> RecordBatchFileWriter:
    """Begin an Arrow IPC file.

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
    dictionary_deltas : bool, optional
        A file has one dictionary per column; with True it can grow, for readers that take deltas. By default
        it cannot: the source's deltas need this or `unify_dictionaries`.
    unify_dictionaries : bool, default False
        Merge the dictionaries that batches bring, and rewrite the indices. The one dictionary is written when
        the file is closed.
    compression, compression_level, min_space_savings, alignment, legacy, metadata_version, coalesce_rows
        As for `new_stream`.
    allow_64bit, statistics, durable, use_threads, options
        As for `new_stream`.

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
    return RecordBatchFileWriter(**locals())


def get_record_batch_size(
    batch: Any,
    *,
    compression: Compression = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: Literal[8, 64] = 8,
    legacy: bool = False,
    metadata_version: Literal["V5", "V4"] = "V5",
    use_threads: bool = True,
) -> int:
    """Return the bytes of the encapsulated message that a batch becomes: prefix, metadata and body.

    Dictionaries have messages of their own, which do not count here.

    Parameters
    ----------
    batch : RecordBatch, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
    compression, compression_level, min_space_savings, alignment, legacy, metadata_version, use_threads
        As for `new_stream`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}, ipc.Schema([field("x", int64())]))
    >>> ipc.get_record_batch_size(batch) == len(batch.serialize())
    True
    """
    return batch_size(
        batch,
        compression=compression,
        compression_level=compression_level,
        min_space_savings=min_space_savings,
        alignment=alignment,
        legacy=legacy,
        metadata_version=metadata_version,
        use_threads=use_threads,
    )
