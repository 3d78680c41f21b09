"""What people call to read: files and streams from paths, URLs, file objects and memory."""

from __future__ import annotations

from arrowipc.arguments import check_choice
from arrowipc.errors import FormatError
from arrowipc.read.decoders import schema_of
from arrowipc.read.framing import Message
from arrowipc.read.sources import begins_stream, locate_source, look_at
from arrowipc.read.stream_decoder import stream_of
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from arrowipc.limits import Limits
    from arrowipc.reader import Columns, Validate
    from arrowipc.schema import Schema

__all__ = ["open", "open_file", "open_stream", "read_schema"]

_new = object.__new__


def open_stream(
    source: Any,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    memory_map: bool = True,
    options: Any = None,
) -> RecordBatchStreamReader:
    """Open an Arrow IPC stream.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        A path is mapped into memory; a URL is opened with fsspec, `RemoteSource` adds options such as
        credentials and a `timeout` (30 s without a byte) to it. A file object or a socket is
        read message by message and never past the end of the stream.
    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    validate : {"full", "none", "strict"}
        "full" checks that every value is safe to use, "none" only the structure (access from
        Python still checks), "strict" also that values are in their types' ranges.
    limits : Limits, optional
        Bounds on what the bytes may ask for.
    use_threads : bool, default True
        Decompress and validate large bodies with several threads.
    ensure_native_endian : bool, default True
        Convert big-endian bodies; False leaves their buffers as stored and the schema says "big".
    memory_map : bool, default True
        Map a path; False reads it like a file object. Nobody may cut a mapped file short while it is in use:
        touching what is gone, also in batches that were read before, ends the process (SIGBUS) and cannot be
        caught. Replacing it by another file, as our writers do, is fine. With False, it is a TruncatedError.
    options : pyarrow.ipc.IpcReadOptions, optional
        In place of `columns`, `use_threads` and `ensure_native_endian`. Buffers are always aligned for the values of
        their types; an `ensure_alignment` of 64 bytes is an UnsupportedError.

    Returns
    -------
    RecordBatchStreamReader

    Raises
    ------
    FormatError
        The bytes are not a stream; `TruncatedError` and `LimitError` are kinds of it.
    UnsupportedError
        The bytes are valid and not implemented here.
    OSError
        The source cannot be read; of a URL also that it was replaced meanwhile, and, as a TimeoutError, that
        its server stalls.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> data = batch.schema.serialize() + batch.serialize() * 2
    >>> with ipc.open_stream(data) as reader:
    ...     reader.read_next_batch() == reader.read_next_batch_with_custom_metadata().batch, reader.read_all().num_rows
    (True, 0)
    >>> [metadata.pairs for _, metadata in ipc.open_stream(data).iter_batches_with_custom_metadata()]
    [(), ()]
    >>> reader = ipc.open_stream(data, columns=["x"])
    >>> reader.read_pandas().shape, reader.close()
    ((4, 1), None)
    """
    if options is not None:
        columns, use_threads, ensure_native_endian = options_of(options, columns, use_threads, ensure_native_endian)
    if type(source) is bytes:  # what __init__ would do, in fewer calls: of small streams there are many
        reader: RecordBatchStreamReader = _new(RecordBatchStreamReader)
        reader._closed = reader._owned = False
        reader._file = None
        reader._decoder = stream_of(source, columns, validate, limits, use_threads, ensure_native_endian)
        return reader
    return RecordBatchStreamReader(source, columns, validate, limits, use_threads, ensure_native_endian, memory_map)


def open_file(
    source: Any,
    footer_offset: int | None = None,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    memory_map: bool = True,
    options: Any = None,
) -> RecordBatchFileReader:
    """Open an Arrow IPC file, or a stream whose messages are indexed for it, for random access.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        A path is mapped into memory. Of a URL only what `columns` need is fetched: the last 128 KiB with the footer,
        then the ranges of the batches, near ones joined and all at the same time. What cannot seek (a pipe, a
        socket) is read to its end first, into memory or, beyond ``Limits.spool_bytes``, a temporary file.
    footer_offset : int, optional
        Where the file ends, if other bytes follow it.
    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    validate : {"full", "none", "strict"}
        "full" checks that every value is safe to use, "none" only the structure (access from
        Python still checks), "strict" also that values are in their types' ranges and that the footer
        lists all batches in their order.
    limits : Limits, optional
        Bounds on what the bytes may ask for.
    use_threads : bool, default True
        Decompress and validate large bodies with several threads.
    ensure_native_endian : bool, default True
        Convert big-endian bodies; False leaves their buffers as stored and the schema says "big".
    memory_map : bool, default True
        Map a path; False reads it like a file object. Nobody may cut a mapped file short while it is in use:
        touching what is gone, also in batches that were read before, ends the process (SIGBUS) and cannot be
        caught. Replacing it by another file, as our writers do, is fine. With False, it is a TruncatedError.
    options : pyarrow.ipc.IpcReadOptions, optional
        In place of `columns`, `use_threads` and `ensure_native_endian`. Buffers are always aligned for the values of
        their types; an `ensure_alignment` of 64 bytes is an UnsupportedError.

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
    >>> reader = ipc.open_file(data)
    >>> reader.get_batch(0) == reader.get_record_batch(0) == reader[0]
    True
    >>> reader[0] == reader.get_batch_with_custom_metadata(0)[0], reader.get_batch_metadata(0)
    (True, KeyValueMetadata({}))
    >>> reader.count_rows(), len(list(reader.iter_batches_with_custom_metadata())), reader.read_all().num_rows
    (2, 1, 2)
    >>> reader.read_pandas().shape, reader.close()
    ((2, 1), None)
    """
    if options is not None:
        columns, use_threads, ensure_native_endian = options_of(options, columns, use_threads, ensure_native_endian)
    given = columns, validate, limits, use_threads, ensure_native_endian, memory_map
    try:
        return RecordBatchFileReader(source, footer_offset, *given)
    except FormatError:
        if footer_offset is not None or not begins_stream(source):
            raise
    from arrowipc.indexed import IndexedStreamReader

    return IndexedStreamReader(source, *given)


def open(
    source: Any,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    memory_map: bool = True,
    options: Any = None,
    index: bool = False,
) -> RecordBatchFileReader | RecordBatchStreamReader:
    """Open an Arrow IPC file or stream, whichever the first bytes say it is.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like, binary file object or socket
        As for `open_file` and `open_stream`, pipes included: their first bytes tell what they are.
    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    validate : {"full", "none", "strict"}
        "full" checks that every value is safe to use, "none" only the structure (access from
        Python still checks), "strict" also that values are in their types' ranges.
    limits : Limits, optional
        Bounds on what the bytes may ask for.
    use_threads : bool, default True
        Decompress and validate large bodies with several threads.
    ensure_native_endian : bool, default True
        Convert big-endian bodies; False leaves their buffers as stored and the schema says "big".
    memory_map : bool, default True
        Map a path; False reads it like a file object. Nobody may cut a mapped file short while it is in use:
        touching what is gone, also in batches that were read before, ends the process (SIGBUS) and cannot be
        caught. Replacing it by another file, as our writers do, is fine. With False, it is a TruncatedError.
    options : pyarrow.ipc.IpcReadOptions, optional
        In place of `columns`, `use_threads` and `ensure_native_endian`. Buffers are always aligned for the values of
        their types; an `ensure_alignment` of 64 bytes is an UnsupportedError.
    index : bool, default False
        Open a stream for random access, too: the metadata of its messages is read once, bodies are skipped,
        and the reader has all methods of a file reader; see `IndexedStreamReader`.

    Returns
    -------
    RecordBatchFileReader or RecordBatchStreamReader
        Of a stream with an index: `IndexedStreamReader`, a kind of the first.

    Raises
    ------
    FormatError
        The bytes are neither a file nor a stream; `TruncatedError` and `LimitError` are kinds of it.
    UnsupportedError
        The bytes are valid and not implemented here.
    OSError
        The source cannot be read; of a URL also that it was replaced meanwhile, and, as a TimeoutError, that
        its server stalls.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> ipc.open(batch.schema.serialize() + batch.serialize()).read_all().to_pydict()
    {'x': [1, 2]}
    >>> ipc.open(batch.schema.serialize() + batch.serialize() * 3, index=True)[-1].to_pydict()
    {'x': [1, 2]}
    """
    if index:
        check_choice("index", index, (False, True))
    given = {**locals()}
    source, first = look_at(locate_source(given.pop("source")))
    if given.pop("index") and first != b"ARROW1":
        from arrowipc.indexed import IndexedStreamReader

        return IndexedStreamReader(source, **given)
    opener = RecordBatchFileReader if first == b"ARROW1" else RecordBatchStreamReader
    return opener(source, **given)


def read_schema(source: Any, *, limits: Limits | None = None) -> Schema:
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
