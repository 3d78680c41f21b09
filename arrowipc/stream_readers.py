"""Two more readers: of streams with an index, which is made from the metadata of messages, and of streams that grow."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from typing import TYPE_CHECKING

from arrowipc.arguments import check_flag, described
from arrowipc.decode.file_decoder import IndexedDecoder
from arrowipc.decode.message_index import StreamIndex
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.errors import FormatError, TruncatedError, UsageError
from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.sources.source import locate_source

if TYPE_CHECKING:
    from typing import Any, Self, Unpack

    from arrowipc.limits import Limits
    from arrowipc.options import ReadKeywords
    from arrowipc.schemas import Schema
    from arrowipc.sources.followed import FollowedPath
    from arrowipc.sources.source import Readable

#: The most seconds to wait for the file before checking again.
LONGEST_WAIT = 1.0

#: In local files, messages shorter than this are read whole; of longer ones it is faster to read only the metadata.
NEAR = 1 << 16


class IndexedStreamReader(RecordBatchFileReader):
    """Reads the batches of an Arrow IPC stream in any order; made by ``open(source, index=True)``.

    Opening reads the prefix and the metadata of every message, without the bodies. Each batch uses the dictionaries
    that precede it in the stream, even if they grow or are replaced later.

    Notes
    -----
    A stream that ends inside a message is an error; ``arrowipc.recover()`` reads its intact batches. Batches that are
    appended to the stream later are not seen.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> reader = ipc.open(batch.schema.serialize() + batch.serialize() * 3, index=True)
    >>> reader.num_record_batches, reader.count_rows(), reader[-1] == batch
    (3, 6, True)
    """

    __slots__ = ()
    decoder: IndexedDecoder

    @with_keywords(ReadOptions)
    def __init__(self, source: Readable, **keywords: Unpack[ReadKeywords]) -> None:
        self._make_once("decoder")
        options = read_options(keywords)
        self._remember(options, source)
        self._make_index(source, options, StreamDecoder(**options.decoding()), None)

    @classmethod
    def of_stream(cls, source: Any, limits: Limits | None, stream: StreamDecoder) -> Self:
        """Return a reader of all batches of `source` that decodes as `stream`, which has read its schema, does."""
        self = object.__new__(cls)
        self._make_index(source, read_options({"limits": limits}), StreamDecoder(limits=limits), stream)
        return self

    def _make_index(self, source: Any, options: ReadOptions, stream: StreamDecoder, like: StreamDecoder | None) -> None:
        """Open the source and find its messages. Decode batches with the options of `like`, if given, or `stream`."""
        self._begin(source, options, b"")
        try:
            index = StreamIndex(self._read_schema(stream), self._size(), options.limits)
            near = NEAR if self._remote is None else self._remote.gap
            while not index.complete:
                if self.source is not None:
                    index.scan(self.source, 0)
                else:
                    start, length = index.wanted(near)
                    index.scan(self._bytes(start, length), start)
            self.decoder = IndexedDecoder(index, stream) if like is None else IndexedDecoder(index, like).select(None)
        except BaseException:
            self.close()
            raise
        self._blocks = None if self._remote is None else self._remote.blocks(self.decoder)

    def _read_schema(self, stream: StreamDecoder) -> int:
        """Let `stream` read the schema; return the position of the message after it."""
        at, size = 0, self._size()
        if self.source is not None:
            stream.feed(self.source.part(0, size), True)
        while not stream.read_schema():
            piece = self._bytes(at, min(max(stream.bytes_needed, NEAR), size - at))
            at += len(piece)
            stream.feed(piece, at == size)
        return stream.bytes_consumed

    # -- differences from files --

    def _dictionaries_at(self, i: int) -> tuple[Any, ...]:
        if not self.decoder.needs_dictionaries:
            return ()
        found: tuple[Any, ...] = self._alone(self._read_dictionaries_at, i)
        return found

    def _read_dictionaries_at(self, i: int) -> tuple[Any, ...]:
        for number in self.decoder.missing(i):
            self.decoder.load_dictionary(number, *self._dictionary(number))
        return self.decoder.dictionaries_at(i)

    def load_dictionaries(self) -> None:
        """Do nothing: each batch loads its own dictionaries."""

    def _lengths(self) -> memoryview[int]:
        self._check_open()
        return self.decoder.lengths


class FollowingStreamReader(RecordBatchStreamReader):
    """Reads the batches of a stream that grows; made by ``open_stream(path, follow=True)``.

    Attributes
    ----------
    timeout : float or None
        Seconds to wait for the next batch; may be set. After them iterating ends, and may begin again.
    """

    __slots__ = ("_options", "_turn", "following", "timeout")

    decoder: StreamDecoder
    following: FollowedPath
    timeout: float | None

    @with_keywords(ReadOptions)
    def __init__(
        self,
        source: Any,
        timeout: float | None = None,
        follow: bool = True,
        wait: bool = True,
        **keywords: Unpack[ReadKeywords],
    ) -> None:
        self._make_once("decoder")
        options = read_options(keywords)
        if not check_flag("follow", follow):
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
        """Feed the next message to the decoder; return False if there is none now."""
        with self._turn:
            self._check_open()
            if self.decoder.bytes_needed == 0:  # after the end, or with a message that another thread has fed
                return not self.decoder.at_end
            found = self.following.take()
            if found is None:
                return False
            if found[1] and self.decoder.schema is not None:
                self.decoder = self._successor(found[0], self.schema)
            else:
                self.decoder.feed(found[0])
            self.following.accept()
            return True

    def _successor(self, first: Any, schema: Schema) -> StreamDecoder:
        """Return the decoder of a stream that took the place of this one; refuse one of another schema."""
        decoder = StreamDecoder(**self._options)
        try:
            decoder.feed(first)
            found = decoder.schema if decoder.read_schema() else None
            if found is not None and not schema.equals(found):
                from arrowipc.schemas import difference

                words = difference(schema, found)
                raise FormatError(f"another stream took the place of {self.following.path!r}: its schema {words}")
            return decoder
        except BaseException:
            self.following.again()
            raise

    def event(self) -> Any:
        """Return the next event of the decoder; None if there is none now."""
        while (event := self.decoder.next_event()) is None and self.poll():
            pass
        return event

    def seconds_left(self, since: float) -> float:
        """Return how many more seconds to wait; 0 if the stream is over, or `timeout` has passed since `since`.

        If `timeout` has passed and there is no schema or only a part of a message, raise a TruncatedError or
        FileNotFoundError.
        """
        if self.decoder.at_end or self.timeout is None:
            return 0 if self.decoder.at_end else LONGEST_WAIT
        left = max(since + self.timeout - time.monotonic(), 0)
        with self._turn:
            self._check_open()
            rest = 0 if left else self.following.rest()
        if not left and (self.decoder.schema is None or rest):
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
        """Close the file; batches that were read stay valid."""
        with self._turn:
            super().close()
