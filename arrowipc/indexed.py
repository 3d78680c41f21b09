"""Streams with an index: random access to batches, found by reading only the metadata of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.read.file_decoder import IndexedDecoder
from arrowipc.read.message_index import StreamIndex
from arrowipc.read.stream_decoder import StreamDecoder
from arrowipc.reader import RecordBatchFileReader
from arrowipc.sources.remote import RemoteBlocks

if TYPE_CHECKING:
    from typing import Any, Self, Unpack

    from arrowipc.limits import Limits
    from arrowipc.options import ReadKeywords
    from arrowipc.sources.source import Readable

__all__ = ["IndexedStreamReader"]

#: Messages of local files that are shorter than this are read through; beyond, reading their heads alone is quicker.
NEAR = 1 << 16


class IndexedStreamReader(RecordBatchFileReader):
    """Reads the batches of an Arrow IPC stream in any order; made by ``open(source, index=True)``.

    Opening reads the prefix and the metadata of every message, once; bodies are skipped. Each batch uses the
    dictionaries that precede it in the stream, even if they grow or are replaced later.

    Notes
    -----
    A stream that ends inside a message is refused: ``arrowipc.recover()`` reads its intact batches. Batches that are
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
        options = read_options(keywords)
        self._remember(options, source)
        self._enter(source, options, StreamDecoder(**options.decoding()), None)

    @classmethod
    def of_stream(cls, source: Any, limits: Limits | None, stream: StreamDecoder) -> Self:
        """Return a reader of all batches of `source`, which decodes as `stream` does, whose schema is read."""
        self = object.__new__(cls)
        self._enter(source, read_options({"limits": limits}), StreamDecoder(limits=limits), stream)
        return self

    def _enter(self, source: Any, options: ReadOptions, stream: StreamDecoder, like: StreamDecoder | None) -> None:
        """Open the source and find its messages. The batches are decoded by `stream`, or as `like` decodes them."""
        self._begin(source, options, b"")
        try:
            index = self._walk(StreamIndex(self._read_schema(stream), self._size(), options.limits))
            self.decoder = IndexedDecoder(index, stream) if like is None else IndexedDecoder(index, like).select(None)
        except BaseException:
            self.close()
            raise
        if self._remote is not None:
            self._blocks = RemoteBlocks(self._remote, self.decoder)

    def _read_schema(self, stream: StreamDecoder) -> int:
        """Let `stream` read the schema; return where the messages after it begin."""
        at, size = 0, self._size()
        if self.source is not None:
            stream.feed(self.source.part(0, size), True)
        while not stream.read_schema():
            piece = self._bytes(at, min(max(stream.bytes_needed, NEAR), size - at))
            at += len(piece)
            stream.feed(piece, at == size)
        return stream.bytes_consumed

    def _walk(self, index: StreamIndex) -> StreamIndex:
        """Add all messages from its position to the end of the stream to `index`."""
        near = NEAR if self._remote is None else self._remote.gap
        while not index.complete:
            if self.source is not None:
                index.scan(self.source, 0)
            else:
                start, length = index.wanted(near)
                index.scan(self._bytes(start, length), start)
        return index

    # -- what differs from files --

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
