"""What other readers may stumble over in valid data: the habits of writers that everybody can read."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import types
from arrowipc._core import Source
from arrowipc.inspection.message_layout import (
    BatchOutline,
    Located,
    Node,
    dictionary_fields,
    locate_messages,
    messages_in_file,
    nodes_of,
    outline_of,
)
from arrowipc.inspection.recover import whole
from arrowipc.inspection.resync import END
from arrowipc.read.file_decoder import MAGIC
from arrowipc.read.framing import Message
from arrowipc.read.message_index import find_schema
from arrowipc.read.sources import first_bytes, locate_source
from arrowipc.read.stream_decoder import StreamDecoder
from arrowipc.reader import RecordBatchFileReader

if TYPE_CHECKING:
    from arrowipc.limits import Limits
    from arrowipc.schema import Schema

__all__ = ["Remark", "interoperability"]

#: Bytes of a view column's data buffers beyond which unused ones are worth a remark, and by how much.
WASTED_VIEWS = 1 << 16
ROWS_32 = 2**31 - 1
OFFSETS = (types.Utf8, types.Binary, types.List, types.Map, types.LargeUtf8, types.LargeBinary, types.LargeList)


class Remark(NamedTuple):
    """One habit that some readers do not share."""

    #: A short name that stays the same, such as ``dictionary-delta``.
    code: str
    #: What was found, and who may stumble.
    words: str
    #: The byte of its first occurrence; None where it concerns all of the source.
    offset: int | None
    #: How often it was found.
    times: int


def interoperability(source: Any, *, limits: Limits | None = None) -> tuple[Remark, ...]:
    """Find what other readers may not take, or not take well, in a valid file or stream.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like or binary file object
        As for `arrowipc.open`.
    limits : Limits, optional
        Bounds on what the bytes may ask for.

    Returns
    -------
    tuple of Remark
        In the order in which they were found; empty if everybody can be expected to read it.

    Raises
    ------
    FormatError, UnsupportedError, OSError
        It is not even valid: see `arrowipc.validate`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.inspection.portability import interoperability
    >>> from arrowipc.types import field, int8
    >>> with ipc.new_stream(sink := bytearray(), ipc.Schema([field("x", int8())]), legacy=True) as writer:
    ...     writer.write({"x": [1, 2]})
    >>> [remark.code for remark in interoperability(sink)]
    ['legacy-framing']
    """
    source = locate_source(source)
    habits, schema = _Habits(), None
    if first_bytes(source) == MAGIC:
        source = whole(source, True)
        schema = habits.look_at_file(source, limits)
    habits.look_at_messages(locate_messages(source, limits=limits), limits, schema)
    return habits.remarks()


def schema_remarks(start: int, stop: int, message: Message | None) -> list[Remark]:
    """The remark about the beginning of a file, for this result of `find_schema`."""
    if message is None:
        words = "no Schema message at the beginning: it cannot be read as a stream, nor recovered without its footer"
        return [Remark("no-schema", words, start, 1)]
    if len(message.metadata) == stop - start:
        words = "the Schema message at the beginning has no framing: it cannot be read as a stream"
        return [Remark("bare-schema", words, start, 1)]
    if start > 8:
        return [Remark("first-message", "the first message is not at byte 8: some readers look there only", 8, 1)]
    return []


class _Habits:
    """Gathers remarks, each once, with the place of the first and the number of all."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, int | None]] = {}
        self._counts: Counter[str] = Counter()
        self._footer_version: str | None = None

    def note(self, code: str, words: str, offset: int | None = None) -> None:
        self._found.setdefault(code, (words, offset))
        self._counts[code] += 1

    def remarks(self) -> tuple[Remark, ...]:
        return tuple(Remark(code, words, offset, self._counts[code]) for code, (words, offset) in self._found.items())

    # -- files --

    def look_at_file(self, view: memoryview, limits: Limits | None) -> Schema | None:
        """Look at all but the messages; returns the schema if there is no message of it."""
        reader = RecordBatchFileReader(view, limits=limits)
        self._footer_version = reader.decoder.version
        end = reader.decoder.messages_end
        start, stop, message = find_schema(Source(view), end, limits)
        for each in schema_remarks(start, stop, message):
            self.note(each.code, each.words, each.offset)
        before = bytes(view[max(end - 8, 0) : end])
        if before != END and before[4:] != bytes(4):
            self.note("no-end-marker", "no end-of-stream marker before the footer: it cannot be read as a stream", end)
        self._file_metadata(reader, view, limits)
        return (
            None
            if message is not None
            else RecordBatchFileReader(view, limits=limits, ensure_native_endian=False).schema
        )

    def _file_metadata(self, reader: RecordBatchFileReader, view: memoryview, limits: Limits | None) -> None:
        first = next(messages_in_file(view, limits), None)
        if reader.metadata and first is not None and first.message.kind == "Schema":
            inside = {*first.message.custom_metadata.pairs, *reader.schema.metadata.pairs}
            if not inside.issuperset(reader.metadata.pairs):
                self.note("file-metadata", "the file's metadata is in the footer alone: lost if it is read as a stream")

    # -- messages --

    def look_at_messages(self, messages: Iterable[Located], limits: Limits | None, schema: Schema | None) -> None:
        versions = set()
        dictionaries: dict[int, tuple[str, types.Dictionary]] = {}
        if schema is not None:
            dictionaries = dictionary_fields(schema)
            self._schema(schema, dictionaries)
        seen: set[int] = set()
        for located in messages:
            self._frame(located)
            versions.add(located.message.version)
            if located.message.kind == "Schema":
                decoder = StreamDecoder(limits=limits, ensure_native_endian=False)
                decoder.decode_next(located.message)
                schema = decoder.schema
                assert schema is not None
                dictionaries = dictionary_fields(schema)
                self._schema(schema, dictionaries)
                continue
            found = outline_of(located.message)
            if found is None or schema is None:
                continue
            fields: Iterable[types.Field] = schema.fields
            if found.dictionary_id is not None:
                if found.dictionary_id not in dictionaries:
                    continue
                fields = [types.Field("", dictionaries[found.dictionary_id][1].value_type)]
                self._dictionary(found, found.dictionary_id in seen, located.offset)
                seen.add(found.dictionary_id)
            self._body(located, found, nodes_of(located.message, fields))
        if "V4" in versions:
            self.note("metadata-v4", "metadata version V4, from before Arrow 1.0: newer libraries write V5")
        if self._footer_version is not None and versions and versions != {self._footer_version}:
            words = f"the footer says {self._footer_version}, the messages {' and '.join(sorted(versions))}"
            self.note("footer-version", f"{words}: some readers refuse that")

    def _frame(self, located: Located) -> None:
        prefix = located.metadata_length - len(located.message.metadata)
        if prefix == 4:
            self.note("legacy-framing", "the framing from before Arrow 0.15: some readers refuse it", located.offset)
        if located.metadata_length % 8:
            self.note("metadata-padding", "metadata that is not padded to 8 bytes", located.offset)
        if located.body_length % 8:
            self.note("body-padding", "a body that is not padded to 8 bytes", located.offset)

    def _schema(self, schema: Schema, dictionaries: Iterable[int]) -> None:
        if schema.endianness != "little":
            self.note("big-endian", "big-endian data: several readers refuse it")
        if schema.features:
            self.note("features", "the schema has a features vector: some readers refuse that")
        if len(set(schema.names)) != len(schema):
            self.note("duplicate-names", "two columns share a name: many tools reach only one of them")
        ids = sorted(dictionaries)
        if ids != list(range(len(ids))):
            self.note("dictionary-ids", "dictionary ids are not 0, 1, 2, ...: some readers keep them in a list")

    def _dictionary(self, found: BatchOutline, again: bool, offset: int) -> None:
        if found.is_delta:
            self.note("dictionary-delta", "a dictionary grows by a delta: some readers cannot take it", offset)
        elif again:
            self.note("dictionary-replaced", "a dictionary is replaced: some readers cannot take it", offset)

    def _body(self, located: Located, found: BatchOutline, nodes: list[Node]) -> None:
        at = located.offset
        if found.num_rows > ROWS_32:
            self.note("many-rows", "more than 2**31 - 1 rows in a batch: some readers refuse that", at)
        for node in nodes:
            if node.null_count == -1:
                self.note("null-count", "a null count of -1: some readers take that for no nulls", at)
            if node.length == 0 and isinstance(node.type, OFFSETS) and not node.buffers[1].length:
                self.note("empty-offsets", "an offsets buffer without the first 0, of an empty column", at)
            for buffer in node.buffers:
                if buffer.offset % 8:
                    self.note("buffer-offset", "a buffer that does not begin at a multiple of 8", at)
                if found.codec and buffer.raw_length is not None and buffer.length > buffer.raw_length + 8:
                    self.note("compressed-larger", "a buffer that compression made larger", at)
            self._views(node, at)
        if any(_padding(located.message.body, found.buffers)):
            self.note("dirty-padding", "bytes between buffers that are not zero: they may hold confidential data", at)

    def _views(self, node: Node, at: int) -> None:
        if isinstance(node.type, (types.Utf8View, types.BinaryView)):
            size = sum([buffer.raw_length or 0 for buffer in node.buffers[2:]])
            if size > WASTED_VIEWS and size > 1024 * max(node.length, 1):
                self.note("wide-views", "a view column with far more data than rows: a slice that kept it all?", at)


def _padding(body: memoryview, buffers: list[tuple[int, int]]) -> Iterator[bool]:
    """Whether each gap of up to 63 bytes after a buffer contains something."""
    ends = sorted((offset, offset + length) for offset, length in buffers if length)
    for (_, end), (start, _) in itertools.pairwise([*ends, (len(body), 0)]):
        if 0 < start - end < 64:
            yield bytes(body[end:start]).count(0) != start - end
