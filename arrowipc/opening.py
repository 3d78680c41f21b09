"""Functions that open files, streams and single messages from paths, URLs, file objects and memory."""

from __future__ import annotations

from arrowipc.arguments import Initialized, check_flag, columns_of, items_of
from arrowipc.decode.decoders import decode_messages, schema_of
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.decode.framing import Framer, Message
from arrowipc.errors import FormatError, TruncatedError
from arrowipc.options import ReadOptions, with_keywords
from arrowipc.reader import Closing, RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.sources.source import (
    CONTINUATION,
    FEATHER_V1,
    first_bytes_again,
    locate_source,
    look_at,
    open_source,
    pump,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal, Self, Unpack, overload

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.limits import Limits
    from arrowipc.options import Columns, ReadKeywords, Validate
    from arrowipc.schemas import Schema
    from arrowipc.sources.source import Readable
    from arrowipc.stream_readers import IndexedStreamReader
    from arrowipc.tables import Table


@with_keywords(ReadOptions)
def open_file(
    source: Readable, footer_offset: int | None = None, **keywords: Unpack[ReadKeywords]
) -> RecordBatchFileReader:
    """Open an Arrow IPC file for random access, or a stream with an index of its messages.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        A path is mapped into memory. From a URL only what `columns` need is fetched: the last 128 KiB with the footer,
        then the ranges of the batches, all at the same time, with near ranges joined. A source that cannot seek (a
        pipe, a socket) is read to its end first, into memory or, beyond ``Limits.spool_bytes``, a temporary file.
    footer_offset : int, optional
        Where the file ends, if other bytes follow it.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Returns
    -------
    RecordBatchFileReader
        For a stream, an `IndexedStreamReader`, as ``open(source, index=True)`` makes it. For a Feather V1 file, whose
        columns are copied, a reader of at most one batch.

    Raises
    ------
    FormatError
        The bytes are not a file; `TruncatedError` and `LimitError` are kinds of it.
    UnsupportedError
        The bytes are valid, but what they need is not implemented here.
    OSError
        The source cannot be read. With a URL also: the object was replaced meanwhile, or, as a TimeoutError, its
        server does not answer.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> data = bytearray()
    >>> with ipc.new_file(data, batch := ipc.RecordBatch.from_pydict({"x": [1, 2]})) as writer:
    ...     writer.write_batch(batch)
    >>> ipc.open_file(data)[0].to_pydict()
    {'x': [1, 2]}
    """
    try:
        return RecordBatchFileReader(source, footer_offset, **keywords)
    except FormatError:
        first = b"" if footer_offset is not None else first_bytes_again(source)
        if not first.startswith((CONTINUATION, FEATHER_V1)):
            raise
    return _opened(source, first, keywords)


if TYPE_CHECKING:

    @overload
    def open(
        source: Readable, *, index: Literal[True], **keywords: Unpack[ReadKeywords]
    ) -> RecordBatchFileReader | IndexedStreamReader: ...
    @overload
    def open(
        source: Readable, *, index: bool = False, **keywords: Unpack[ReadKeywords]
    ) -> RecordBatchFileReader | RecordBatchStreamReader: ...


@with_keywords(ReadOptions)
def open(
    source: Readable, *, index: bool = False, **keywords: Unpack[ReadKeywords]
) -> RecordBatchFileReader | RecordBatchStreamReader:
    """Open an Arrow IPC file or stream, or a Feather V1 file; the first bytes decide. Errors are those of `open_file`.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        As for `open_file` and `open_stream`. Pipes too are recognized by their first bytes.
    index : bool, default False
        Open streams for random access too: the metadata of all messages is read at once, without the bodies,
        and the reader has all methods of a file reader; see `IndexedStreamReader`.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Returns
    -------
    RecordBatchFileReader or RecordBatchStreamReader
        For a stream with an index, an `IndexedStreamReader`, a subclass of the first.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> ipc.open(batch.schema.serialize() + batch.serialize() * 3, index=True)[-1].to_pydict()
    {'x': [1, 2]}
    """
    index = check_flag("index", index)
    source, first = look_at(locate_source(source))
    if first == MAGIC:
        return RecordBatchFileReader(source, **keywords)
    if index or first.startswith(FEATHER_V1):
        return _opened(source, first, keywords)
    return RecordBatchStreamReader(source, **keywords)


@with_keywords(ReadOptions)
def read(source: Readable, *, filter: Any = None, **keywords: Unpack[ReadKeywords]) -> Table:
    """Read all rows of a file or stream, or those that pass a filter. Errors are those of `open` and `filter`.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        As for `open`.
    filter : list of conditions, optional
        As for :func:`arrowipc.open_dataset`. Batches of a file whose statistics show that no row can match are not
        read.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.write({"x": [1, 2, 3], "y": ["a", "b", "c"]}, file := bytearray())
    >>> ipc.read(file, columns=["y"], filter=[("x", ">", 1)]).to_pydict()
    {'y': ['b', 'c']}
    """
    if filter is None:
        with open(source, **keywords) as reader:
            return reader.read_all()
    from arrowipc.filters.pruning import columns_in
    from arrowipc.filters.row_filters import RowFilter
    from arrowipc.sources.file_statistics import file_statistics
    from arrowipc.tables import Table

    columns = None if (given := keywords.get("columns")) is None else columns_of(given)
    needed = None if columns is None else dict.fromkeys([*columns, *columns_in(filter)])
    if needed is not None and all(isinstance(each, str) and "." not in each for each in needed):
        keywords["columns"] = [*needed]
    else:
        keywords["columns"] = None  # positions and paths refer to the whole schema, so read all columns
    with open(source, **keywords) as reader:
        test, batches = RowFilter(filter, reader.schema), iter(reader)
        if isinstance(reader, RecordBatchFileReader):
            known = file_statistics(reader, test.pruner.columns)
            batches = reader.get_batches([i for i, each in enumerate(known) if test.pruner.keeps(each, {})])
        found = Table(reader.schema, [rows for batch in batches if len(rows := test.apply(batch))])
    return found if columns is None else found.select(columns)


def _opened(source: Any, first: bytes, keywords: ReadKeywords) -> RecordBatchFileReader:
    """Open for random access a Feather V1 file or a stream, which begins with `first`."""
    if first.startswith(FEATHER_V1):
        from arrowipc.feather_reader import FeatherReader

        return FeatherReader(source, **keywords)
    from arrowipc.stream_readers import IndexedStreamReader

    return IndexedStreamReader(source, **keywords)


def read_schema(source: Readable | Message, *, limits: Limits | None = None) -> Schema:
    """Read the schema of a stream, a file or a Schema message.

    Parameters
    ----------
    source : path, URL, bytes-like, binary file object, socket or Message
    limits : Limits, optional
        Bounds on what the bytes may ask for.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.read_schema(ipc.RecordBatch.from_pydict({"x": [1]}).schema.serialize())
    x: int64
    """
    if isinstance(source, Message):
        return schema_of(source, limits)
    with open(source, limits=limits) as reader:
        return reader.schema


# -- single messages -----------------------------------------------------------------------------------------


class MessageReader(Closing, Initialized):
    """Iterates over the encapsulated messages of a source, whatever their kind and order.

    Parameters
    ----------
    source : path, bytes-like or binary file object
        A stream, or messages one after another. A file object is left behind the last message that was read.
    limits : Limits, optional
        Bounds on what the input may claim.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> reader = ipc.MessageReader.open_stream(batch.schema.serialize() + batch.serialize())
    >>> reader.read_next_message().kind, [message.kind for message in reader], reader.close()
    ('Schema', ['RecordBatch'], None)
    """

    def __init__(self, source: Any, *, limits: Limits | None = None, memory_map: bool = True) -> None:
        self._make_once("_framer")
        self._framer = Framer(limits)
        buffer, self._file, self._owned = open_source(source, memory_map)
        if self._file is None:
            self._framer.feed(buffer, True)

    @classmethod
    def open_stream(cls, source: Any, *, limits: Limits | None = None, memory_map: bool = True) -> Self:
        """Iterate over the messages of a source, like the class itself."""
        return cls(source, limits=limits, memory_map=memory_map)

    def __iter__(self) -> Self:
        return self

    def read_next_message(self) -> Message:
        """Return the next message; StopIteration at an end-of-stream marker or at the end of the input."""
        while True:
            message = self._framer.next_message()
            if message is not None:
                return message
            if self._framer.at_end:
                raise StopIteration
            pump(self._framer, self._file)

    __next__ = read_next_message

    @property
    def bytes_consumed(self) -> int:
        """int: bytes of the source that were read."""
        return self._framer.bytes_consumed

    def close(self) -> None:
        """Close or release the source; messages that were read stay valid."""
        self._framer.release()
        if self._owned:
            self._file.close()


def read_message(source: Any, *, limits: Limits | None = None) -> Message:
    """Read one encapsulated message; an EOFError if there is none, or only an end-of-stream marker.

    Parameters
    ----------
    source : path, bytes-like or binary file object
        A file object is left just behind the message.
    limits : Limits, optional
        Bounds on what the bytes may ask for.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.read_message(ipc.RecordBatch.from_pydict({"x": [1]}).serialize()).kind
    'RecordBatch'
    """
    with MessageReader(source, limits=limits) as reader:
        for message in reader:
            return message
        found = "this is an end-of-stream marker" if reader._framer.end_marker else "the input is empty"
        if reader._framer.closed:
            found = "this one only closes a stream with checksums, and has no rows"
    raise TruncatedError(f"no message: {found}")


def read_record_batch(
    message: Any,
    schema: Any,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    dictionaries: Iterable[Any] = (),
) -> RecordBatch:
    """Decode one bare RecordBatch message whose schema is known from elsewhere.

    Parameters
    ----------
    message : Message or bytes-like
        An encapsulated RecordBatch message.
    schema : Schema
        Ours or pyarrow's.
    columns, validate, limits, use_threads
        As for `open_stream`.
    dictionaries : iterable of Message or bytes-like
        DictionaryBatch messages that the batch needs. Deltas come after the dictionaries that they extend.

    Returns
    -------
    RecordBatch

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> ipc.read_record_batch(batch.serialize(), batch.schema) == batch
    True
    """

    def opened(item: Any) -> Message:
        return item if isinstance(item, Message) else read_message(item, limits=limits)

    return decode_messages(
        opened(message),
        schema,
        [opened(item) for item in items_of("dictionaries", dictionaries)],
        columns,
        validate,
        limits,
        use_threads,
    )
