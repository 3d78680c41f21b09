"""The functions that open files and streams, from paths, URLs, file objects and memory."""

from __future__ import annotations

from arrowipc.arguments import check_choice
from arrowipc.errors import FormatError
from arrowipc.options import ReadOptions, with_keywords
from arrowipc.read.decoders import schema_of
from arrowipc.read.framing import Message
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.sources.source import begins_stream, locate_source, look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Unpack, overload

    from arrowipc.limits import Limits
    from arrowipc.options import ReadKeywords
    from arrowipc.schemas import Schema
    from arrowipc.sources.source import Readable
    from arrowipc.stream_readers import IndexedStreamReader

__all__ = ["open", "open_file", "read_schema"]


@with_keywords(ReadOptions)
def open_file(
    source: Readable, footer_offset: int | None = None, **keywords: Unpack[ReadKeywords]
) -> RecordBatchFileReader:
    """Open an Arrow IPC file for random access, or a stream with an index of its messages.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        A path is mapped into memory. Of a URL only what `columns` need is fetched: the last 128 KiB with the footer,
        then the ranges of the batches, near ones joined and all at the same time. What cannot seek (a pipe, a
        socket) is read to its end first, into memory or, beyond ``Limits.spool_bytes``, a temporary file.
    footer_offset : int, optional
        Where the file ends, if other bytes follow it.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Returns
    -------
    RecordBatchFileReader
        Of a stream: `IndexedStreamReader`, as ``open(source, index=True)`` makes it.

    Raises
    ------
    FormatError
        The bytes are not a file; `TruncatedError` and `LimitError` are kinds of it.
    UnsupportedError
        The bytes are valid and not implemented here.
    OSError
        The source cannot be read; of a URL also that it was replaced meanwhile, and, as a TimeoutError, that
        its server stalls.

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
        if footer_offset is not None or not begins_stream(source):
            raise
    from arrowipc.stream_readers import IndexedStreamReader

    return IndexedStreamReader(source, **keywords)


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
    """Open an Arrow IPC file or stream; the first bytes decide which it is. Errors are those of `open_file`.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        As for `open_file` and `open_stream`, pipes included: their first bytes tell what they are.
    index : bool, default False
        Open a stream for random access, too: the metadata of its messages is read once, bodies are skipped,
        and the reader has all methods of a file reader; see `IndexedStreamReader`.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Returns
    -------
    RecordBatchFileReader or RecordBatchStreamReader
        Of a stream with an index: `IndexedStreamReader`, a kind of the first.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> ipc.open(batch.schema.serialize() + batch.serialize() * 3, index=True)[-1].to_pydict()
    {'x': [1, 2]}
    """
    if index:
        check_choice("index", index, (False, True))
    source, first = look_at(locate_source(source))
    if first == b"ARROW1":
        return RecordBatchFileReader(source, **keywords)
    if index:
        from arrowipc.stream_readers import IndexedStreamReader

        return IndexedStreamReader(source, **keywords)
    return RecordBatchStreamReader(source, **keywords)


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
