"""Streams with an index: random access to the batches of a stream, whose messages are found by their heads alone."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.read.decoders import IndexedDecoder, StreamDecoder
from arrowipc.read.framing import StreamIndex
from arrowipc.read.remote import RemoteBlocks, RemoteSource
from arrowipc.read.sources import locate_source
from arrowipc.reader import RecordBatchFileReader, options_of

if TYPE_CHECKING:
    from typing import Any

    from arrowipc.limits import Limits
    from arrowipc.reader import Columns, Index, Validate

__all__ = ["IndexedStreamReader"]

#: Messages of local files that are shorter than this are read through; beyond, reading their heads alone is quicker.
NEAR = 1 << 16
#: The columns of a kept index, one row per message behind the schema.
COLUMNS = ("offset", "metadata_length", "body_length", "rows_or_id", "kind")
#: Bytes of a message that tell whether it is still the same.
TELLING = 1 << 16


class IndexedStreamReader(RecordBatchFileReader):
    """Reads the batches of an Arrow IPC stream in any order; made by ``open(source, index=True)``.

    Opening reads the prefix and the metadata of every message, once; bodies are skipped. Each batch uses the
    dictionaries that precede it in the stream, even if they grow or are replaced later.

    With ``index="keep"`` the index is saved next to the stream, in the hidden Arrow file ``.<name>.index``. It is
    used if the size, the modification time and the first and last message of the stream are unchanged, and rebuilt
    otherwise. Its entries are compared with the messages that they point to. The numbers of rows of batches that are
    not read are those of the index.

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
    _decoder: IndexedDecoder

    def __init__(
        self,
        source: Any,
        columns: Columns = None,
        validate: Validate = "full",
        limits: Limits | None = None,
        use_threads: bool = True,
        ensure_native_endian: bool = True,
        memory_map: bool = True,
        index: Index = True,
        *,
        options: Any = None,
    ) -> None:
        if options is not None:
            columns, use_threads, ensure_native_endian = options_of(options, columns, use_threads, ensure_native_endian)
        if index not in (True, "keep"):
            raise UsageError(f'index: expected True or "keep", found {index!r}')
        path = kept_path(source) if index == "keep" else None
        if isinstance(source, (str, RemoteSource)) or hasattr(source, "__fspath__"):
            given = columns, validate, limits, use_threads, ensure_native_endian, memory_map, index
            self._opened = source, *given
        time = os.stat(source).st_mtime_ns if path is not None else 0
        self._begin(source, memory_map, limits, b"")
        try:
            stream = StreamDecoder(columns, validate, limits, use_threads, ensure_native_endian)
            schema = self._read_schema(stream)
            kept = None if path is None else self._kept(path, time, schema, stream, limits)
            if kept is None:
                found = self._walk(StreamIndex(schema, self._size(), limits))
                kept = IndexedDecoder(found, stream)
                if path is not None and found.num_messages:
                    self._keep(found, path, time, schema)
            self._decoder = kept
        except BaseException:
            self.close()
            raise
        if self._remote is not None:
            self._blocks = RemoteBlocks(self._remote, self._decoder)

    def _read_schema(self, stream: StreamDecoder) -> int:
        """Let `stream` read the schema, and say where the messages behind it begin."""
        at, size = 0, self._size()
        if self._source is not None:
            stream.feed(self._source.part(0, size), True)
        while not stream.read_schema():
            piece = self._bytes(at, min(max(stream.bytes_needed, NEAR), size - at))
            at += len(piece)
            stream.feed(piece, at == size)
        return stream.bytes_consumed

    def _walk(self, index: StreamIndex) -> StreamIndex:
        """Let `index` know all messages from where it is to the end of the stream."""
        near = NEAR if self._remote is None else self._remote.gap
        while not index.complete:
            if self._source is not None:
                index.scan(self._source, 0)
            else:
                start, length = index.wanted(near)
                index.scan(self._bytes(start, length), start)
        return index

    # -- the index beside the stream --

    def _telling(self, time: int, schema: int, start: int, length: int) -> dict[str, str]:
        """What shows that a kept index is one of this stream as it is now; the last message begins at `start`."""
        from hashlib import sha256

        return {
            "arrowipc:index": "1",
            "size": str(self._size()),
            "mtime_ns": str(time),
            "first": sha256(bytes(self._bytes(0, min(schema, TELLING)))).hexdigest(),
            "last": sha256(bytes(self._bytes(start, min(length, TELLING)))).hexdigest(),
        }

    def _kept(
        self, path: str, time: int, schema: int, stream: StreamDecoder, limits: Limits | None
    ) -> IndexedDecoder | None:
        """What decodes by the index beside the stream; None where that is not there, or not of this stream."""
        from arrowipc.types import int64

        size = self._size()
        try:
            with RecordBatchFileReader(path, columns=COLUMNS, memory_map=False) as reader:
                if any(field.type != int64() for field in reader.schema):
                    return None
                kept = reader.schema.metadata
                entries = [memoryview(array).cast("B").cast("q") for array in reader.read_all().combine().columns]
            start, length = int(entries[0][-1]), int(entries[1][-1])
            if not (0 <= start < size and 0 < length <= size - start):
                return None
            if any(kept.get(key) != text.encode() for key, text in self._telling(time, schema, start, length).items()):
                return None
            found = StreamIndex(schema, size, limits)
            found.enter(entries)
            return IndexedDecoder(self._walk(found), stream)  # the walk finds an end marker, and nothing else
        except (ArrowIpcError, OSError, IndexError):
            return None

    def _keep(self, index: StreamIndex, path: str, time: int, schema: int) -> None:
        """Write the index beside the stream; where that cannot be done, it is made again the next time."""
        from arrowipc.columns.array import RecordBatch
        from arrowipc.schema import Schema
        from arrowipc.types import field, int64
        from arrowipc.writer import new_file

        entries = index.entries()
        telling = self._telling(time, schema, int(entries[0][-1]), int(entries[1][-1]))
        made = Schema([field(name, int64()) for name in COLUMNS], telling)
        with suppress(OSError), new_file(path, made) as writer:
            n, buffers = len(entries[0]), [buffer for column in entries for buffer in (None, column)]
            writer.write(RecordBatch.from_buffers(made, n, [(n, 0)] * len(entries), buffers))

    # -- what differs from files --

    def _dictionaries_at(self, i: int) -> tuple[Any, ...]:
        if not self._decoder.needs_dictionaries:
            return ()
        found: tuple[Any, ...] = self._alone(self._read_dictionaries_at, i)
        return found

    def _read_dictionaries_at(self, i: int) -> tuple[Any, ...]:
        for number in self._decoder.missing(i):
            self._decoder.load_dictionary(number, *self._dictionary(number))
        return self._decoder.dictionaries_at(i)

    def _load_dictionaries(self) -> None:
        """Nothing: each batch asks for its own."""

    def _lengths(self) -> memoryview[int]:
        self._check_open()
        return self._decoder.lengths


def kept_path(source: Any) -> str:
    """Where the index of a stream is kept."""
    located = locate_source(source)
    if not isinstance(located, (str, os.PathLike)):
        raise UsageError('index="keep" keeps the index beside the stream, which has to be a path of this machine')
    folder, name = os.path.split(os.fspath(located))
    return os.path.join(folder, f".{name}.index")
