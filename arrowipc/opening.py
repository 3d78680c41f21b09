"""The functions that open files and streams, from paths, URLs, file objects and memory."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from arrowipc.arguments import check_choice, described
from arrowipc.errors import FormatError, TruncatedError, UsageError
from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.read.decoders import schema_of
from arrowipc.read.framing import Message
from arrowipc.read.stream_decoder import StreamDecoder, stream_of
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader, reader_of
from arrowipc.sources.source import begins_stream, locate_source, look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Unpack, overload

    from arrowipc.indexed import IndexedStreamReader
    from arrowipc.limits import Limits
    from arrowipc.options import Columns, ReadKeywords, Validate
    from arrowipc.schemas import Schema
    from arrowipc.sources.source import Readable

__all__ = ["FollowingStreamReader", "open", "open_file", "open_stream", "read_schema"]

#: Seconds between two looks at the clock.
LONGEST_WAIT = 1.0


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
    try:
        return RecordBatchFileReader(source, footer_offset, **keywords)
    except FormatError:
        if footer_offset is not None or not begins_stream(source):
            raise
    from arrowipc.indexed import IndexedStreamReader

    return IndexedStreamReader(source, **keywords)


class FollowingStreamReader(RecordBatchStreamReader):
    """Reads the batches of a stream that grows; made by ``open_stream(path, follow=True)``.

    Attributes
    ----------
    timeout : float or None
        Seconds to wait for the next batch; may be set. Iterating ends after them, and may go on.
    """

    __slots__ = ("_options", "_turn", "following", "timeout")

    @with_keywords(ReadOptions)
    def __init__(
        self,
        source: Any,
        timeout: float | None = None,
        follow: bool = True,
        wait: bool = True,
        **keywords: Unpack[ReadKeywords],
    ) -> None:
        options = read_options(keywords)
        if not check_choice("follow", follow, (False, True)):
            raise UsageError("timeout: nobody waits without follow=True")
        source = locate_source(source)
        if not isinstance(source, (str, os.PathLike)):
            raise UsageError(f"follow: expected the path of a file, found {described(source)}")
        given: Any = timeout
        if given is not None and not (isinstance(given, (int, float)) and given >= 0):
            raise UsageError(f"timeout: expected seconds, from 0, or None, found {described(timeout)}")
        self._closed, self._owned, self._turn, self.timeout = False, True, allocate_lock(), timeout
        self._remember(options, source, timeout)
        self._limits, self._options = options.limits, options.decoding()
        self.decoder = StreamDecoder(**self._options)
        from arrowipc.sources.followed import FollowedPath

        self._file = self._source = self.following = FollowedPath(os.fsdecode(source), options.limits)
        try:
            while wait and not self.decoder.read_schema():
                self._more()
        except BaseException:
            self.close()
            raise

    def poll(self) -> bool:
        """Feed the next message to the decoder; False: there is none now."""
        with self._turn:
            self._check_open()
            found = None if self.decoder.at_end else self.following.take()
            if found is None:
                return False
            old = self.decoder.schema if found[1] else None
            if old is not None:
                self.decoder = StreamDecoder(**self._options)
            self.decoder.feed(found[0])
            if old is not None and self.decoder.read_schema() and not old.equals(self.schema):
                from arrowipc.tables import difference

                words = difference(old, self.schema)
                raise FormatError(f"another stream took the place of {self.following.path!r}: its schema {words}")
            return True

    def event(self) -> Any:
        """Return the next event of the decoder; None: there is none now."""
        while (event := self.decoder.next_event()) is None and self.poll():
            pass
        return event

    def seconds_left(self, since: float) -> float:
        """Return how much longer to wait for what was waited for `since` then; 0: it will not come, or not in time.

        Raises
        ------
        TruncatedError, FileNotFoundError
            The time is over, and no schema or only a part of a message is there.
        """
        if self.decoder.at_end or self.timeout is None:
            return 0 if self.decoder.at_end else LONGEST_WAIT
        left = max(since + self.timeout - time.monotonic(), 0)
        if not left and (self.decoder.schema is None or self.following.rest()):
            os.stat(path := self.following.path)
            raise TruncatedError(f"{path!r}: nothing completed its last message for {self.timeout} s")
        return left

    def _more(self) -> bool:
        since = time.monotonic()
        while not self.poll():
            left = self.seconds_left(since)
            if not left:
                return False
            self.following.wait(left)
        return True

    def close(self) -> None:
        """Let go of the file; batches that were read stay valid."""
        with self._turn:
            super().close()


# Its keywords are spelled out, and a test compares them with the definition: of small streams there are many, and
# ``**keywords`` would take half as long as reading one.
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
        A path is mapped into memory; a URL is opened with fsspec, `RemoteSource` adds options such as
        credentials and a `timeout` (30 s without a byte) to it. A file object or a socket is
        read message by message and never past the end of the stream.
    **keywords
        Those of `arrowipc.options.ReadOptions`.
    follow : bool, default False
        Wait for the batches that are appended to the file at this path, also for the file, up to the end marker. If the
        path is renamed or replaced, the old file is read to its end, then the new one; one that is cut short is read
        again from its beginning, as by ``tail -F``. Nothing is mapped.
    timeout : float, optional
        With `follow`: seconds to wait for the next batch, or for the schema. Default: for ever. Iterating ends after
        them, as after the end marker, and may begin again.

    Returns
    -------
    RecordBatchStreamReader
        With `follow`, a kind of it whose `timeout` may be set, and whose `at_end` says if the end marker came.

    Raises
    ------
    FormatError
        The bytes are not a stream; `TruncatedError` and `LimitError` are kinds of it. With `follow`, a TruncatedError
        says that the time is over and a part of a message is there; reading may go on.
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
    if type(source) is bytes and options is None and not follow and timeout is None:
        decoder = stream_of(source, columns, validate, limits, use_threads, ensure_native_endian, verify)
        return reader_of(source, limits, decoder)
    kind: Callable[..., RecordBatchStreamReader] = RecordBatchStreamReader
    if follow or timeout is not None:
        from functools import partial

        kind = partial(FollowingStreamReader, timeout=timeout, follow=follow)
    return kind(
        source,
        columns=columns,
        validate=validate,
        limits=limits,
        use_threads=use_threads,
        ensure_native_endian=ensure_native_endian,
        verify=verify,
        memory_map=memory_map,
        options=options,
    )


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
    """Open an Arrow IPC file or stream; the first bytes decide which it is.

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
    source, first = look_at(locate_source(source))
    if first == b"ARROW1":
        return RecordBatchFileReader(source, **keywords)
    if index:
        from arrowipc.indexed import IndexedStreamReader

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
