"""Readers: they bring bytes from paths, files, sockets and buffers to the decoders, which do no I/O themselves."""

from __future__ import annotations

import os
from _thread import RLock

from arrowipc._core import Source
from arrowipc.arguments import (
    Hints,
    MadeOnce,
    add_hints,
    batch_number,
    by_name,
    check_flag,
    check_integer,
    columns_of,
    is_filled,
    items_of,
)
from arrowipc.decode.file_decoder import MAGIC, TAIL_SIZE, FileDecoder, IndexedDecoder, footer_range
from arrowipc.decode.stream_decoder import StreamDecoder, new_without_init, stream_of
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.options import ReadOptions, read_options, with_advice, with_keywords
from arrowipc.sources.file_objects import Remote, SharedFile, end_of, is_remote, position_of, read_at, room_for
from arrowipc.sources.source import apart, can_seek, locate_source, open_source, pump, spooled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn, Self, SupportsIndex, TypeVar, Unpack

    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from arrowipc.arguments import Extensions, KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.events import ReadStats, RecordBatchWithMetadata
    from arrowipc.limits import Limits
    from arrowipc.options import Columns, ReadKeywords, Validate
    from arrowipc.schemas import Schema
    from arrowipc.sources.remote import RemoteBlocks, RemoteSource
    from arrowipc.sources.source import Readable
    from arrowipc.stream_readers import IndexedStreamReader
    from arrowipc.tables import Table
    from arrowipc.values.row_reader import RowReader

    T = TypeVar("T")

#: The most selections of columns for which a reader keeps a reader of its own, with the batches of its last rows.
MOST_PARTS = 4


#: What readers and data sets have -> the names that other libraries have for it; names of tables are added below.
_INSTEAD = by_name(
    {
        "count_rows(), or read_all().num_rows": "num_rows",
        "for batch in reader": "iter_batches to_batches",
        "get_batch(i) of a file, read_next_batch() of a stream, and next(iter(reader)) of all": (
            "fetch get_batch get_record_batch next read_batch read_next_batch read_row_group"
        ),
        "it is a reader: pyarrow.RecordBatchReader.from_stream(reader)": "to_reader",
        "iter_rows() of each batch": "iter_rows",
        "num_record_batches": "num_batches num_row_groups",
        "open(source, columns=...), or read_all().select": "select",
        "read(source, filter=...), or read_all().filter": "filter",
        "read_all()": "collect read read_table scanner to_table",
        "read_pandas(), or read_all().to_pandas()": "to_dataframe to_pandas",
        "schema.metadata; a file reader has that of the file": "metadata",
        "schema.names": "column_names",
        "schema.types and schema.names": "dtypes names",
        "slice(0, n) where rows have numbers, or read_all().head": "head",
        "take(range(-n, 0)) where rows have numbers, or read_all().tail": "tail",
        "that of each batch": "custom_metadata",
    }
)


#: The names of a `Table`, whose module is not imported for them.
OF_TABLES = (
    "add_column append_column batches cast column columns combine combine_chunks drop drop_columns drop_null equals "
    "field flatten from_arrays from_arrow from_batches from_pandas from_pydict from_pylist from_records "
    "from_struct_array get_total_buffer_size itercolumns nbytes num_columns remove_column rename rename_columns "
    "replace_schema_metadata schema set_column shape slice sort_by take to_arrow to_polars to_pydict to_pylist "
    "to_records to_string to_struct_array to_tensor validate with_metadata"
)


def instead_of_rows(read: str = "read_all()") -> dict[str, str]:
    """Return names that people may try on readers -> what to use instead; `read` is the call that gives a table."""
    return {**{name: f"{read}.{name}" for name in OF_TABLES.split()}, **_INSTEAD}


def with_metadata(batch: RecordBatch) -> RecordBatchWithMetadata:
    """Return a batch with the custom metadata of its message."""
    from arrowipc.events import RecordBatchWithMetadata

    return RecordBatchWithMetadata(batch, batch.custom_metadata)


class Closing(MadeOnce):
    """Base of classes whose objects a ``with`` block closes."""

    __slots__ = ()

    def close(self) -> None:
        """Close or release the source; what was read stays valid."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class BatchReader(Closing, Hints):
    """Base of both readers: closing, pickling, and export of all batches."""

    __slots__ = ("__weakref__", "_closed", "_file", "_opened", "_owned")

    _closed: bool
    _file: Any
    _owned: bool
    _opened: tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of __init__, if the source was a path or a URL

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[RecordBatch]:
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(
                "the reader is closed: read inside its with block, or open the source again; batches that "
                "were read before stay valid"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a new reader of the same path or URL, with the same options, at its beginning."""
        if not is_filled(self, "_opened"):
            raise TypeError(f"cannot pickle a {type(self).__name__} that was not opened from a path or URL")
        from functools import partial

        (source, *others), keywords = self._opened
        if not is_remote(source) and "://" not in (path := os.fspath(source)):
            source = os.path.abspath(path)  # another process may have another working directory
        kind: Any = type(self)
        return partial(kind, source, *others, **keywords), ()

    def _remember(self, options: ReadOptions, source: Any, *others: Any) -> None:
        """Keep the arguments for pickling, if the source is a path or a URL; other readers cannot be pickled."""
        if isinstance(source, (str, Remote)) or hasattr(source, "__fspath__"):
            self._opened = (source, *others), {**options.decoding(), "memory_map": options.memory_map}

    def iter_batches_with_custom_metadata(self) -> Iterator[RecordBatchWithMetadata]:
        """Iterate over the remaining batches, each with the custom metadata of its message."""
        return map(with_metadata, self)

    def read_pandas(self, **options: Any) -> pd.DataFrame:
        """Read the remaining batches into a ``pandas.DataFrame``; see :meth:`arrowipc.RecordBatch.to_pandas`."""
        return self.read_all().to_pandas(**options)

    @with_advice
    def read_all(self) -> Table:
        """Read the remaining batches into a `Table`."""
        from arrowipc.tables import Table

        return Table(self.schema, list(self))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        # pd.DataFrame(reader) calls this too; without the error it would take the batches for rows.
        raise UsageError(
            "a reader is not an array: read_pandas() makes a data frame of it, np.asarray(reader.read_all()) a matrix"
        )

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the remaining batches through the Arrow C stream interface, one at a time.

        `requested_schema` is ignored, as the interface allows: the batches have `schema`.
        """
        from arrowipc.cdata.export import export_stream

        return export_stream(self.schema, iter(self), requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: object) -> object:
        """Export the same as a stream of batches on the CPU: an ``arrow_device_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_device_stream

        return export_device_stream(self.schema, iter(self), requested_schema, **kwargs)


add_hints(BatchReader, instead_of_rows())


class RecordBatchStreamReader(BatchReader):
    """Reads the batches of an Arrow IPC stream; made by `open_stream`.

    Iterating, or `read_next_batch`, gives each batch once; `get_batch` gives any of them. Batches point into the memory
    of the source (or into aligned memory of their own, if the source is a file object) and keep it alive.
    """

    __slots__ = ("_index", "_limits", "_source", "decoder")

    decoder: StreamDecoder
    _limits: Limits | None
    _source: Any  # memory, a RemoteSource or `_file`, for reading again from the beginning
    _index: IndexedStreamReader  # set when it is first needed

    @with_keywords(ReadOptions)
    def __init__(self, source: Readable, **keywords: Unpack[ReadKeywords]) -> None:
        self._make_once("decoder")
        options = read_options(keywords)
        self._closed = False
        self._remember(options, source)
        self._limits = options.limits
        self.decoder = decoder = StreamDecoder(**options.decoding())
        source = locate_source(source)
        buffer, self._file, self._owned = open_source(source, options.memory_map)
        self._source = buffer if self._file is None else source if is_remote(source) else self._file
        if self._file is None:
            decoder.feed(buffer, True)
        try:
            while not decoder.read_schema():
                pump(decoder, self._file)
        except BaseException:
            self.close()
            raise

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        schema = self.decoder.schema
        assert schema is not None  # __init__ has read it
        return schema

    @property
    def stats(self) -> ReadStats:
        """ReadStats: messages, batches and dictionaries read so far."""
        from arrowipc.events import ReadStats

        return ReadStats(*self.decoder.stats)

    @property
    def bytes_consumed(self) -> int:
        """int: bytes of the source that were read; after the end of the stream, the position of what follows it."""
        return self.decoder.bytes_consumed

    @property
    def at_end(self) -> bool:
        """bool: whether the stream is over; with `follow`, whether its end marker was read."""
        return self.decoder.at_end

    def __iter__(self) -> Iterator[RecordBatch]:
        self._check_open()
        # If all input is in memory, nothing must be read between batches, and the decoder's own iterator is faster.
        return self.decoder.batches() if self._file is None else self

    def stored(self) -> Iterator[tuple[Message, Any]]:
        """Yield the remaining batches as messages, each with what `arrowipc.copy` needs to know about it."""
        self._check_open()
        while True:
            found = self.decoder.next_stored()
            if found is not None:
                yield found
            elif not self._more():
                return

    def _more(self) -> bool:
        """Feed more input to the decoder; return False if the stream is over."""
        if self.decoder.at_end:
            return False
        self._check_open()
        pump(self.decoder, self._file)
        return True

    def read_next_batch(self) -> RecordBatch:
        """Return the next batch.

        Raises
        ------
        StopIteration
            There are no more batches.
        TruncatedError, FormatError, LimitError, UnsupportedError
            The bytes cannot be decoded. The reader cannot be used after that.
        """
        if self._closed:
            self._check_open()
        while True:
            batch = self.decoder.next_batch()
            if batch is not None:
                return batch
            if not self._more():
                raise StopIteration

    __next__ = read_next_batch

    def read_next_batch_with_custom_metadata(self) -> RecordBatchWithMetadata:
        """Return the next batch and the custom metadata of its message."""
        return with_metadata(self.read_next_batch())

    # -- any batch, by an index of the messages --

    @property
    def num_record_batches(self) -> int:
        """int: batches of the whole stream, including those already read; the source must be as for `get_batch`."""
        return self._by_index(lambda index: index.num_record_batches)

    def count_rows(self) -> int:
        """Return the rows of the whole stream, including those already read; the source must be as for `get_batch`."""
        return self._by_index(lambda index: index.count_rows())

    def get_batch(self, i: int) -> RecordBatch:
        """Return batch `i` of the whole stream; negative numbers count from the end. Iterating goes on where it was.

        The first call makes an index, as ``open(source, index=True)`` does, whose reader has more such methods. If the
        source cannot seek, or the stream does not begin at its first byte, that is a UsageError.
        """
        return self._by_index(lambda index: index.get_batch(i))

    __getitem__ = get_batch

    def _by_index(self, call: Callable[[IndexedStreamReader], T]) -> T:
        self._check_open()
        if self._source is not self._file:
            return call(self._indexed())
        if not can_seek(self._file):
            words = "this stream can be read only in order, because its source cannot seek: use read_all(), or open it"
            raise UsageError(f"{words} with index=True, which makes a copy")
        return apart(self.decoder, self._file, lambda: call(self._indexed()))

    def _indexed(self) -> IndexedStreamReader:
        if not is_filled(self, "_index"):
            from arrowipc.stream_readers import IndexedStreamReader

            if self._source is self._file and (start := position_of(self._file) - self.decoder.bytes_fed):
                words = f"the stream begins at byte {start:,} of the file object, an index needs it at byte 0"
                raise UsageError(f"{words}: give open_stream() the bytes from there on")
            self._index = IndexedStreamReader.of_stream(self._source, self._limits, self.decoder)
        return self._index

    def close(self) -> None:
        """Close or release the source; batches that were read stay valid."""
        if not self._closed:
            self._closed = True
            self.decoder.release()
            self._source = None
            if is_filled(self, "_index"):
                self._index.close()
            if self._file is not None and self._owned:
                self._file.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"batches read: {self.stats.num_record_batches}"
        return f"<RecordBatchStreamReader: {state}>\n{self.schema}"


# Its keywords are written out, since ``**keywords`` would take half as long as reading a small stream. A test compares
# them with `ReadOptions`.
@with_keywords(ReadOptions)
def open_stream(
    source: Readable,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    verify: bool | None = False,
    memory_map: bool = True,
    options: Any = None,
    follow: bool = False,
    timeout: float | None = None,
) -> RecordBatchStreamReader:
    """Open an Arrow IPC stream.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        A path is mapped; a URL is opened with fsspec; a `RemoteSource` has options such as credentials and a `timeout`
        (30 s without a byte). A file object or a socket is read message by message, never past the end of the stream.
    **keywords
        Those of `arrowipc.options.ReadOptions`.
    follow : bool, default False
        Wait for data that is appended to the file at this path, up to the end marker, and for the file if it does not
        exist. Go on with a file that replaces it (as ``tail -F``); begin again if it is cut short or written anew.
        Nothing is mapped.
    timeout : float, optional
        With `follow`: seconds to wait for a batch. After them iterating ends, and may begin again. Default: no limit.

    Returns
    -------
    RecordBatchStreamReader
        With `follow`, a subclass whose `timeout` may be set, and whose `at_end` says whether the end marker came.

    Raises
    ------
    FormatError
        The bytes are not a stream; `TruncatedError` and `LimitError` are kinds of it. With `follow`, a TruncatedError
        says that the time is over and only a part of a message is there; reading may go on.
    UnsupportedError
        The bytes are valid, but what they need is not implemented here.
    OSError
        The source cannot be read, or was replaced meanwhile at its URL, or, as a TimeoutError, its server does not
        answer.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> data = batch.schema.serialize() + batch.serialize() * 2
    >>> with ipc.open_stream(data) as reader:
    ...     reader.read_next_batch() == reader.read_next_batch_with_custom_metadata().batch, reader.read_all().num_rows
    (True, 0)
    """
    if type(source) is bytes and options is None and follow is False and timeout is None and memory_map is True:
        # The same as `__init__`, in fewer calls.
        reader = new_without_init(RecordBatchStreamReader)
        reader._closed = False
        reader._file = None
        reader._source = source
        reader._limits = limits
        reader.decoder = stream_of(source, columns, validate, limits, use_threads, ensure_native_endian, verify)
        return reader
    keywords = {name: value for name, value in locals().items() if name in ReadOptions.defaults}
    kind: Callable[..., RecordBatchStreamReader] = RecordBatchStreamReader
    if check_flag("follow", follow) or timeout is not None:
        from functools import partial

        from arrowipc.stream_readers import FollowingStreamReader

        kind = partial(FollowingStreamReader, follow=follow, timeout=timeout)
    return kind(source, **keywords)


class RecordBatchFileReader(BatchReader):
    """Reads the batches of an Arrow IPC file in any order; made by `open_file`.

    The footer is read at once, all dictionaries before the first batch, and each batch when it is asked for. Any number
    of threads may use the reader and decode in parallel; of a file object or a URL, one thread reads at a time.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> data = bytearray()
    >>> with ipc.new_file(data, batch := ipc.RecordBatch.from_pydict({"x": [1, 2], "y": ["a", "b"]})) as writer:
    ...     writer.write(ipc.Table.from_batches([batch, batch]))
    >>> reader = ipc.open_file(data)
    >>> reader.row(-1), reader.take([3, 0, 0], columns="y").to_pydict(), reader.batch_lengths().tolist()
    ({'x': 2, 'y': 'b'}, {'y': ['b', 'a', 'a']}, [2, 2])
    >>> len(reader.slice(1, 2).batches), reader.slice(1, 2).to_pydict()
    (2, {'x': [2, 1], 'y': ['b', 'a']})
    >>> [batch.num_rows for batch in reader.get_batches([-1, 0])]
    [2, 2]
    """

    __slots__ = (
        "_blocks",
        "_failure",
        "_loaded",
        "_lock",
        "_parts",
        "_reading",
        "_remote",
        "_rows",
        "decoder",
        "limits",
        "source",
    )

    # The rest of the package uses these three attributes to copy, recover, check and prune, and `expect`,
    # `stored`, `described`, `batch_bytes`, `batch_head`, `index_of`, `load_dictionaries`.
    decoder: FileDecoder | IndexedDecoder
    limits: Limits | None
    source: Source | None  # if all bytes are in memory

    _failure: ArrowIpcError | None
    _parts: dict[tuple[str | int, ...], RecordBatchFileReader]  # columns -> a reader of them, of the same source
    _reading: list[bool]  # has an element while a read is going on; shared with the readers in `_parts`
    _rows: RowReader | None
    _blocks: RemoteBlocks | None
    _remote: RemoteSource | None

    @with_keywords(ReadOptions)
    def __init__(self, source: Readable, footer_offset: int | None = None, **keywords: Unpack[ReadKeywords]) -> None:
        self._make_once("decoder")
        options = read_options(keywords)
        self._remember(options, source, footer_offset)
        self._begin(source, options, MAGIC)
        try:
            size = self._size()
            if footer_offset is not None:  # other bytes follow the file
                size = check_integer("footer_offset", footer_offset, 0, size)
            tail = self._bytes(max(size - TAIL_SIZE, 0), min(size, TAIL_SIZE))
            start, length = footer_range(bytes(self._bytes(0, min(size, 8))), bytes(tail), size)
            self.decoder = FileDecoder(
                self._bytes(start, length) if self.source is None else self.source.part(start, length),
                start,
                **options.decoding(),
            )
            for start, stop in self.decoder.to_check:
                self.decoder.check(start, self._bytes(start, stop - start))
        except BaseException:
            self.close()
            raise
        self._blocks = None if self._remote is None else self._remote.blocks(self.decoder)

    def _begin(self, source: Any, options: ReadOptions, magic: bytes) -> None:
        """Open the source. A pipe that begins with `magic` is read to its end, because a file is read from its end."""
        self._closed = self._loaded = False
        self._reading, self._parts, self._rows, self.limits = [], {}, None, options.limits
        try:
            self._lock = RLock()  # guards reads, the loading of dictionaries, `_blocks` and `_parts`
        except RuntimeError as error:  # "can't allocate lock"
            raise MemoryError(str(error)) from None
        self._blocks = self._remote = self.source = self._failure = None
        source = locate_source(source)
        if is_remote(source):
            self._remote, self._file, self._owned = source, None, False
            return
        buffer, self._file, self._owned = open_source(source, options.memory_map)
        if self._file is not None and not can_seek(self._file):
            buffer = self._spool(options.limits, magic)
        elif self._owned and hasattr(os, "preadv"):
            self._file = SharedFile(self._file)
        self.source = Source(buffer) if self._file is None else None

    def _spool(self, limits: Limits | None, magic: bytes) -> Any:
        """Copy a pipe to memory or to a temporary file, because a file is read from its end."""
        from arrowipc.limits import Limits

        file, self._file = self._file, None
        try:
            return spooled(file, (limits or Limits()).spool_bytes, magic)
        finally:
            if self._owned:
                file.close()
            self._owned = False

    def _size(self) -> int:
        if self.source is not None:
            return len(self.source)
        return self._remote.size if self._remote is not None else end_of(self._file)

    def _bytes(self, start: int, length: int) -> bytes | bytearray:
        if self.source is not None:
            return self.source.bytes(start, length)
        if self._remote is not None:
            return self._remote.read(start, length)
        data = bytearray(length)
        read_at(self._file, start, memoryview(data))
        return data

    @property
    def schema(self) -> Schema:
        """Schema: the schema in the footer, after projection."""
        return self.decoder.schema

    @property
    def metadata(self) -> KeyValueMetadata:
        """KeyValueMetadata: the footer's custom metadata."""
        return self.decoder.metadata

    @property
    def num_record_batches(self) -> int:
        """int: batches that the footer lists."""
        return self.decoder.num_record_batches

    @property
    def blocks(self) -> list[tuple[int, int, int]]:
        """Positions of the batches in the file: (offset, metadata_length, body_length) of each, in bytes."""
        return [self.decoder.block(i) for i in range(self.num_record_batches)]

    @property
    def stats(self) -> ReadStats:
        """ReadStats: messages, batches and dictionaries read so far; the footer's schema counts as a message."""
        from arrowipc.events import ReadStats

        messages, *others = self.decoder.stats
        return ReadStats(messages + 1, *others)

    def __len__(self) -> int:
        return self.num_record_batches

    def __iter__(self) -> Iterator[RecordBatch]:
        numbers = range(self.num_record_batches)
        self.expect(numbers)
        return map(self.get_batch, numbers)

    def expect(self, numbers: Iterable[int]) -> None:
        """Announce the batches that will be read, in this order, so that a remote file can fetch several at once."""
        with self._lock:
            if self._blocks is not None:
                self._blocks.expect(numbers)

    def __getitem__(self, index: int) -> RecordBatch:
        return self.get_batch(index)

    def get_batch(self, i: int) -> RecordBatch:
        """Return batch `i` in the order of the footer; negative numbers count from the end.

        Raises
        ------
        IndexError
            The file has fewer batches.
        FormatError, LimitError, UnsupportedError
            The bytes cannot be decoded; other batches may still be read.
        """
        if self._closed:
            self._check_open()
        decoder = self.decoder
        i = batch_number(i, decoder.num_record_batches)
        dictionaries = None if self._loaded else self._dictionaries_at(i)
        source = self.source
        if source is not None:
            return decoder.batch(i, source, -1, dictionaries)
        return decoder.batch(i, *self._fetch(i), dictionaries)

    def get_batches(self, indices: Iterable[int]) -> Iterator[RecordBatch]:
        """Iterate over some batches, in the order of `indices`; of a remote file, several are fetched at once.

        An index that is out of range is an IndexError before the first batch is read; else as `get_batch`.
        """
        self._check_open()
        numbers = [batch_number(i, self.num_record_batches) for i in items_of("indices", indices)]
        self.expect(numbers)
        return map(self.get_batch, numbers)

    def stored(self) -> Iterator[tuple[Message, Any]]:
        """Yield the batches as messages, each with what `arrowipc.copy` needs to know about it."""
        self._check_open()
        self.expect(range(self.num_record_batches))
        for i in range(self.num_record_batches):
            dictionaries = self._dictionaries_at(i)
            held, at = self.batch_bytes(i)
            yield self.decoder.stored(i, held, at, dictionaries)
            held = None  # let the next batch use its memory

    get_record_batch = get_batch

    def get_batch_with_custom_metadata(self, i: int) -> RecordBatchWithMetadata:
        """Return batch `i` and the custom metadata of its message."""
        return with_metadata(self.get_batch(i))

    def get_batch_metadata(self, i: int) -> KeyValueMetadata:
        """Return all custom metadata of batch `i`, with its statistics, from its message alone; no body is read."""
        return self.described(i)[0]

    def batch_bytes(self, i: int) -> tuple[Any, int]:
        """Return the bytes that hold batch `i`, and its offset in them."""
        self._check_open()
        source, i = self.source, batch_number(i, self.num_record_batches)
        return (source, self.decoder.block(i)[0]) if source is not None else self._fetch(i)

    def described(self, i: int) -> tuple[KeyValueMetadata, int]:
        """Return the custom metadata and the number of rows of batch `i`, from its message alone."""
        self._check_open()
        i = batch_number(i, self.num_record_batches)
        return self.decoder.described(i, *self.batch_head(i))

    def count_rows(self) -> int:
        """Return the number of rows of all batches, from their metadata alone; no body is read."""
        return sum(self._lengths())

    def batch_lengths(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each batch, from the metadata alone; no body is read.

        With a remote file or a file object, the numbers that polars wrote into the footer are used if they are there.
        They are not trusted: a batch that turns out to have another number of rows is a FormatError.
        """
        import numpy as np

        return np.frombuffer(self._lengths(), np.int64)

    def _lengths(self) -> memoryview[int]:
        self._check_open()
        if (source := self.source) is not None:  # read once, because another thread may call `close`
            return memoryview(self.decoder.read_lengths(source)).cast("q")
        from array import array

        from arrowipc.sources.file_statistics import stated_lengths

        lengths = stated_lengths(self.metadata, self.num_record_batches)
        if lengths is None:
            numbers = range(self.num_record_batches)
            self.expect(numbers)
            lengths = [self.decoder.described(i, *self.batch_head(i))[1] for i in numbers]
        return memoryview(array("q", lengths))

    # -- rows, numbered through all batches --

    def take(self, rows: Any, *, columns: Columns = None) -> RecordBatch:
        """Return rows in any order and number as one batch; an IndexError if a row does not exist.

        Each batch that is needed is decoded at most once per call. The last ones are kept for the next call, up to
        ``Limits.row_cache_bytes``.

        Parameters
        ----------
        rows : integers
            A list, a range, or an array of NumPy or Arrow. Negative ones count from the end; None gives a row of nulls.
        columns : sequence of str or int, optional
            Names, indices or dotted paths to read, as for `open_file`; others are not touched.
        """
        part = self._part(columns)  # keep it alive: row readers hold a weak reference, and `_parts` may drop it
        return part._row_reader().take(rows)

    def row(self, i: SupportsIndex, *, columns: Columns = None, extensions: Extensions = None) -> dict[str, Any]:
        """Return one row as a dict; parameters and errors are those of `take`.

        `extensions` is that of :meth:`arrowipc.RecordBatch.to_pydict`.
        """
        part = self._part(columns)
        return part._row_reader().row(i, extensions=extensions)

    def slice(self, offset: int = 0, length: int | None = None, *, columns: Columns = None) -> Table:
        """Return rows ``[offset, offset + length)`` without copying; rows past the end are left out."""
        from arrowipc.tables import Table

        part = self._part(columns)
        return Table(part.schema, part._row_reader().slice(offset, length))

    def _row_reader(self) -> RowReader:
        rows = self._rows
        if self._closed or rows is None:
            from weakref import proxy

            from arrowipc.limits import Limits
            from arrowipc.values.row_reader import RowReader

            lengths, reader = self._lengths(), proxy(self)  # no reference cycle, so that dropping it frees the source
            cache_bytes = (self.limits or Limits()).row_cache_bytes
            if self.num_record_batches:
                load, expect = lambda i: reader.get_batch(i), lambda numbers: reader.expect(numbers)
                rows = self._rows = RowReader(lengths, load, cache_bytes=cache_bytes, expect=expect)
            else:
                from arrowipc.values.from_python import empty_batch

                rows = self._rows = RowReader([0], lambda _: empty_batch(reader.schema))
        return rows

    def _part(self, columns: Columns) -> RecordBatchFileReader:
        """Return a reader of some columns of the same source; the last such readers are kept, with their batches."""
        if columns is None:
            return self
        key = columns_of(columns)
        found = self._parts.get(key)
        if found is None:
            with self._lock:
                self._check_open()
                found = self._parts.get(key)
                if found is None:
                    found = self._select(key)
                    while len(self._parts) >= MOST_PARTS:
                        self._parts.pop(next(iter(self._parts)))
                    self._parts[key] = found
        return found

    def _select(self, columns: tuple[str | int, ...]) -> RecordBatchFileReader:
        part = object.__new__(type(self))
        for name in ("_closed", "_file", "limits", "_lock", "_reading", "_remote", "source"):
            setattr(part, name, getattr(self, name))
        part._owned = part._loaded = False
        part._failure = part._rows = None
        part._parts = {}
        part.decoder = self.decoder.select(columns)
        part._blocks = None if self._remote is None else self._remote.blocks(part.decoder)
        return part

    def batch_head(self, i: int) -> tuple[Any, int]:
        """Return the bytes that hold the metadata of batch `i`, and their offset in them."""
        offset, length, _ = self.decoder.block(batch_number(i, self.num_record_batches))
        source, blocks = self.source, self._blocks
        if source is not None:
            return source, offset
        if blocks is not None:
            return self._alone(blocks.run, blocks.head(i)), 0
        return self._alone(self._bytes, offset, length), 0

    def _alone(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call `read` while no other thread reads from the file; a nested call in the same thread is an error."""
        with self._lock:
            self._check_open()
            if self._reading:
                raise UsageError(
                    "this reader is in the middle of a read that this call is part of: a signal handler, "
                    "or the file object itself, makes it; one at a time may read"
                )
            self._reading.append(True)
            try:
                return read(*arguments)
            finally:
                self._reading.clear()

    def _dictionaries_at(self, i: int) -> tuple[Any, ...] | None:
        """Load the dictionaries that batch `i` needs and return them; None if all batches use the same ones."""
        if not self._loaded:
            self.load_dictionaries()
        return None

    def load_dictionaries(self) -> None:
        """Read all dictionaries now, instead of before the first batch."""
        self._alone(self._read_dictionaries)

    def _read_dictionaries(self) -> None:
        if self._loaded:
            return  # another thread has loaded them
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        try:
            if self._blocks is not None:
                self._blocks.run(self._blocks.load_dictionaries())
            else:
                for i in range(self.decoder.num_dictionaries):
                    self.decoder.load_dictionary(i, *self._dictionary(i))
        except ArrowIpcError as error:
            # Remember the error, or every batch would try again; as a copy, since its traceback keeps the source open.
            self._failure = type(error)(*error.args)
            raise
        self._loaded = True

    def _dictionary(self, i: int) -> tuple[Any, int]:
        """Return the bytes that hold a dictionary batch, and its offset in them."""
        offset, metadata_length, body_length = self.decoder.block(i, dictionary=True)
        if self.source is not None:
            return self.source, offset
        if self._remote is not None:
            return self._remote.read(offset, metadata_length + body_length), 0
        block, at = room_for(metadata_length, body_length)
        read_at(self._file, offset, memoryview(block)[at:])
        return block, at

    def _fetch(self, i: int) -> tuple[Any, int]:
        """Read batch `i` from the file, of its body only what the columns need; return the bytes and its offset."""
        file, blocks = self._file, self._blocks
        if isinstance(file, SharedFile):
            return self._read_block(i, file)
        waiting = blocks.waiting if blocks is not None else []
        waiting.append(i)
        try:
            found: tuple[Any, int] = self._alone(self._read_block, i, file)
        finally:
            waiting.remove(i)
        return found

    def _read_block(self, i: int, file: Any) -> tuple[Any, int]:
        if self._blocks is not None:
            return self._blocks.run(self._blocks.batch(i))
        offset, metadata_length, body_length = self.decoder.block(i)
        block, at = room_for(metadata_length, body_length)
        view = memoryview(block)[at:]
        if self.decoder.reads_all:
            read_at(file, offset, view)
        else:
            read_at(file, offset, view[:metadata_length])
            for start, end in self.decoder.body_ranges(i, view[:metadata_length]):
                start, end = start + metadata_length, end + metadata_length
                read_at(file, offset + start, view[start:end])
        return block, at

    def close(self) -> None:
        """Close or release the source; batches that were read stay valid."""
        if not self._closed:
            self._closed = True
            with self._lock:
                self.source = self._blocks = self._remote = self._rows = None
                for part in self._parts.values():
                    part.close()
                self._parts.clear()
                file, self._file = self._file, None
                if self._owned and not isinstance(file, SharedFile):  # a SharedFile is closed with its last reference
                    file.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"batches: {self.num_record_batches}"
        return f"<{type(self).__name__}: {state}>\n{self.schema}"
