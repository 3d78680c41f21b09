"""Reads what is intact of damaged files and streams, reports what is lost, and writes the rest to a new file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, overload

from arrowipc._core import Source
from arrowipc.arguments import add_hints, check_callable, check_flag
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.decode.decoders import schema_of
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.decode.framing import Framer, Message, checksum_of, survey
from arrowipc.decode.message_index import find_message, find_schema
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.encode.atomic_file import KnownPath
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.events import BatchRead
from arrowipc.inspection.damage import Ledger, Recovery, as_damage
from arrowipc.inspection.message_layout import CODEC_NAMES
from arrowipc.inspection.resync import Outline, Search, count_views, name_column, name_writer, take_dictionaries
from arrowipc.limits import RecoveryLimits
from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.reader import BatchReader, RecordBatchFileReader
from arrowipc.sources.file_objects import file_path, seek_to
from arrowipc.sources.source import first_bytes, locate_source, whole

if TYPE_CHECKING:
    from typing import Literal, Unpack

    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.options import ReadKeywords
    from arrowipc.schemas import Schema

    Format = Literal["file", "stream"] | None
    Codec = Literal["lz4", "zstd", "keep"] | None
    Found = Iterator[tuple[Message, RecordBatch]]

#: Bytes of the magic that a file begins with, padded.
HEAD = 8


class RecoveryReader(BatchReader):
    """Reads the batches that a damaged source still holds; made by `recover`."""

    __slots__ = ("_batches", "_report", "_schema", "_watch")

    def __init__(self, batches: ByBlocks | _InOrder | Search, watch: Callable[[int], object] | None = None) -> None:
        self._make_once("_batches")
        self._closed = False
        self._watch = watch
        self._batches = batches
        self._report = batches.report
        self._schema = batches.schema

    @property
    def schema(self) -> Schema:
        """Schema: of the batches that are read, after projection."""
        return self._schema

    @property
    def report(self) -> Recovery:
        """Recovery: what was kept and lost so far; complete when all batches were read."""
        return self._batches.report if not self._closed else self._report

    def __iter__(self) -> Iterator[RecordBatch]:
        for _, batch in self.stored():
            yield batch

    def stored(self) -> Found:
        """Yield the batches with their messages, as `arrowipc.copy` takes them."""
        self._check_open()
        return iter(self._batches) if self._watch is None else self._watched(self._watch)

    def _watched(self, watch: Callable[[int], object]) -> Found:
        for found in self._batches:
            report = self._batches.report
            watch(report.num_bytes + (report.lost_bytes or 0))
            yield found

    def close(self) -> None:
        """Release the source; batches that were read stay valid, and so does the report."""
        if not self._closed:
            self._report = self._batches.report
            self._closed = True
            self._batches.close()

    def __repr__(self) -> str:
        return f"<RecoveryReader: {self.report}>\n{self.schema}"


_OF_REPORT = {name: name for name in Recovery._fields} | {"damage": "skipped"}
_REPORT = "report.{}, complete when all batches were read".format
add_hints(RecoveryReader, {name: _REPORT(field) for name, field in _OF_REPORT.items()})


@overload
def recover(
    source: Any,
    *,
    into: None = None,
    resync: bool = False,
    **keywords: Unpack[ReadKeywords],
) -> RecoveryReader: ...
@overload
def recover(
    source: Any,
    *,
    into: Any,
    resync: bool = False,
    format: Format = None,
    compression: Codec = "keep",
    durable: bool = True,
    watch: Callable[[int], object] | None = None,
    **keywords: Unpack[ReadKeywords],
) -> Recovery: ...
@with_keywords(ReadOptions)
def recover(
    source: Any,
    *,
    into: Any = None,
    resync: bool = False,
    format: Format = None,
    compression: Codec = "keep",
    durable: bool = True,
    watch: Callable[[int], object] | None = None,
    **keywords: Unpack[ReadKeywords],
) -> RecoveryReader | Recovery:
    """Read the intact batches of a truncated, damaged or unfinished file or stream, or write them to a new file.

    From a file with an intact footer, every batch that can be decoded is recovered. From a file without one,
    which a killed writer leaves, and from a stream, the batches before the first damage are recovered; with
    `resync` also those after it. Where messages have checksums, a batch is intact if its checksum is right, and those
    after damage are recovered without `resync`, too.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like or binary file object
        As for `open_stream`. Bytes in memory, mapped paths and files with an intact footer are read in place; any
        other source is copied to a temporary file first; from a server that does not say how long the file is, at
        most ``Limits.spool_bytes``.
    into : path, URL, file object, socket, bytearray or writable buffer, optional
        Write the batches there, as a complete file or stream, instead of returning a reader. A path appears when
        the file is complete. It may be the path of the source: the source stays as it was until then, and
        afterwards all that could not be recovered is gone.
    resync : bool, default False
        After damage, look for the next plausible message, validate it fully and continue. Also finds the
        batches of sources with other data before them, and of several files or streams of one schema in
        a row. Messages in the framing from before Arrow 0.15 have no marker to look for.
        Batches that need a dictionary are refused if it may have changed in the bytes that were skipped.
    format : {"file", "stream"}, optional
        The format of the output. Default: that of the beginning of the source.
    compression : {"keep", None, "lz4", "zstd"}
        The codec of the output. "keep": the codec of the first batch; bodies are then copied unchanged.
    durable : bool, default True
        As for `new_file`.
    watch : callable, optional
        With `into`: called after each batch with the number of bytes of the source that were read so far.
    **keywords
        Those of `arrowipc.options.ReadOptions`.

    Returns
    -------
    RecoveryReader or Recovery
        A reader, to be iterated once, whose `report` says what was kept and lost; with `into`, the report.

    Raises
    ------
    FormatError
        There is no readable schema. The report lists damage after it.
    UnsupportedError
        The schema needs something that this library does not implement; or, as a MissingPackageError, the codec of a
        batch is not installed. (A batch whose codec has an unknown name is lost.)
    OSError
        The source cannot be read, or the destination not be written. Also if `into` is the path of the source, and
        that file was replaced meanwhile: both files are kept, and the error says where.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> data = batch.schema.serialize() + batch.serialize() * 2
    >>> reader = ipc.recover(data[:-20])
    >>> len(list(reader)), reader.report.num_rows, type(reader.report.error).__name__
    (1, 2, 'TruncatedError')
    >>> report = ipc.recover(b"garbage!" + data, into=(whole := bytearray()), resync=True)
    >>> report.num_rows, report.skipped[0].length, ipc.open(whole).read_all().num_rows
    (4, 8, 4)
    """
    given = read_options(keywords)
    options = {**given.decoding(), "limits": RecoveryLimits(given.limits), "verify": given.verify or None}
    memory_map = given.memory_map
    if resync and given.validate == "none":
        raise UsageError('resync=True takes bytes for messages only if they are valid: validate="full"')
    if format not in (None, "file", "stream"):
        raise UsageError(f'format must be "file", "stream" or None, found {format!r}')
    check_callable("watch", watch)
    source = locate_source(source)
    opened = _searched if check_flag("resync", resync) else _opened
    durable = check_flag("durable", durable)
    if into is None:
        return RecoveryReader(opened(source, memory_map, options))
    with _apart(source, into) as target, closing(RecoveryReader(opened(source, memory_map, options), watch)) as reader:
        return _write_out(reader, target, format or reader.report.format, compression, durable)


def _opened(source: Any, memory_map: bool, options: dict[str, Any]) -> ByBlocks | _InOrder | Search:
    """Return the batches by the footer, or in order up to the first damage; search only if messages have checksums."""
    damage = expected = None
    if first_bytes(source) != MAGIC:
        source = whole(source, memory_map, options["limits"])  # also a file that comes through a pipe
    if first_bytes(source) == MAGIC:
        blocks, damage, expected = _open_blocks(source, memory_map, options)
        if blocks is not None:
            return blocks
        if hasattr(source, "seek"):
            seek_to(source, 0)  # the footer counts from there
    buffer = whole(source, memory_map, options["limits"])
    if options["validate"] != "none" and _has_checksums(buffer, options["limits"]):
        return _search(buffer, options)  # checksums prove the messages behind damage
    return _InOrder(buffer, options, damage, expected)


def _has_checksums(buffer: memoryview[int], limits: Any) -> bool:
    """Whether the first message, which is the schema, has a checksum: then all messages have one."""
    source = Source(buffer)
    if buffer[:6] == MAGIC:
        schema = find_schema(source, len(source), limits)[2]
    else:
        found = find_message(source, 0, there=True, limits=limits)
        schema = None if found is None else found[2]
    return schema is not None and checksum_of(schema) is not None


def _open_blocks(
    source: Any, memory_map: bool, options: dict[str, Any]
) -> tuple[ByBlocks | None, FormatError | None, int | None]:
    """Open a file by its footer; or return why that is impossible, and how many batches the footer lists."""
    reader = None
    try:
        reader = RecordBatchFileReader(source, memory_map=memory_map, **options)
        # A lost delta would shift the indices of all later ones: so either all dictionaries can be read, or only the
        # batches before the damage are.
        reader.load_dictionaries()
        return ByBlocks(reader), None, None
    except BaseException as error:
        count = None if reader is None else reader.num_record_batches
        if reader is not None:
            reader.close()
        if not isinstance(error, FormatError if reader is None else (FormatError, UnsupportedError)):
            raise
        return None, as_damage(error, False).with_traceback(None), count


def _searched(source: Any, memory_map: bool, options: dict[str, Any]) -> ByBlocks | Search:
    """Return the batches that the footer lists, if it describes the file, else all that can be found."""
    return _search(whole(source, memory_map, options["limits"]), options)


def _search(buffer: memoryview[int], options: dict[str, Any]) -> ByBlocks | Search:
    damage = outline = None
    if buffer[:6] == MAGIC:
        try:
            reader = RecordBatchFileReader(buffer, **options)
            outline, right = footer_outline(reader)
            if right:
                reader.load_dictionaries()
                return ByBlocks(reader)
        except (FormatError, UnsupportedError) as error:
            damage = as_damage(error, False).with_traceback(None)
    return Search(buffer, options, outline, damage)


def footer_outline(reader: RecordBatchFileReader) -> tuple[Outline | None, bool]:
    """Return what a footer says (None: it is another file's), and whether nearly all its blocks are where it says."""
    count = reader.num_record_batches
    batches, dictionaries = blocks_of(reader, False), blocks_of(reader, True)
    start = reader.decoder.messages_end
    complete = len(batches) == count and len(dictionaries) == reader.decoder.num_dictionaries
    end = max([stop for _, stop in batches + dictionaries], default=start)
    if complete and start - end > 64 + HEAD:
        return None, False  # this is the last of several files, and its blocks are relative to its own beginning
    there = set()  # the batches whose metadata are where the footer says
    for number in range(count):
        with suppress(FormatError):
            reader.described(number)
            there.add(number)
    # If several are missing, with the last one: bytes were inserted, or removed.
    right = complete and (len(there) >= count - 1 or count - 1 in there)
    return Outline(reader.decoder.stored_schema, dictionaries if right else None, count, start), right


def blocks_of(reader: RecordBatchFileReader, dictionaries: bool) -> list[tuple[int, int]]:
    """Return where messages begin and end by the footer, without impossible blocks."""
    found = []
    for number in range(reader.decoder.num_dictionaries if dictionaries else reader.num_record_batches):
        with suppress(FormatError):
            offset, head, body = reader.decoder.block(number, dictionary=dictionaries)
            found.append((offset, offset + head + body))
    return found


# -- into a new file -----------------------------------------------------------------------------------------


def _write_out(reader: RecoveryReader, into: Any, format: str, compression: Codec, durable: bool) -> Recovery:
    """Write all batches, with their bodies unchanged where possible."""
    from arrowipc.writer import new_file, new_stream

    stored = reader.stored()
    first = next(stored, None)
    codec: Any = compression
    if compression == "keep":
        known = survey(first[0]) if first else None
        codec = CODEC_NAMES.get(known[3]) if known else None
    if format == "stream":
        writer: Any = new_stream(into, reader.schema, compression=codec, durable=durable, dictionary_deltas=True)
    else:
        # In a stream, and in several files in a row, dictionaries may be replaced; in one file they may not.
        from_file = reader.report.format == "file" and not isinstance(reader._batches, Search)
        writer = new_file(
            into,
            reader.schema,
            metadata=reader._batches.metadata,
            compression=codec,
            durable=durable,
            unify_dictionaries=not from_file,
            dictionary_deltas=from_file,
        )
    with writer:
        while first is not None:
            if _lacks_lengths(first[0]) or not writer.write_stored(*first):
                writer.write_batch(first[1])
            first = next(stored, None)
    return reader.report


def _lacks_lengths(message: Message) -> bool:
    """Whether some compressed buffers claim a length of 0 and are not empty: only recovery reads such bodies."""
    found = survey(message)
    with suppress(FormatError):  # it may come from a column that was not read
        zstd = found is not None and found[3] == 1
        return zstd and any(len(each) > 8 and not any(each[:8]) for each in message.buffers)
    return True


@contextmanager
def _apart(source: Any, into: Any) -> Iterator[Any]:
    """Refuse to overwrite the source; given by its path, it is replaced at the end if it is still the same file."""
    path = (file_path(into) or into) if isinstance(into, str) else into
    if into is not source and (_place(path) is None or _place(path) != _place(source)):
        yield into
    elif isinstance(path, (str, os.PathLike)):
        with closing(KnownPath(path)) as known:
            yield known
    else:
        raise UsageError("recover: `into` is the source itself; give its path, or another destination")


def _place(what: Any) -> object:
    """Return a value that is equal for objects of the same file or memory; None: nothing is known."""
    with suppress(OSError, ValueError, TypeError, AttributeError, OverflowError):
        path = isinstance(what, (str, os.PathLike))
        info = os.stat(what) if path else os.fstat(what.fileno())
        return (info.st_dev, info.st_ino) if stat.S_ISREG(info.st_mode) else None
    with suppress(TypeError, ValueError), memoryview(what) as view:
        return id(view.obj)
    return None


# -- where batches come from ---------------------------------------------------------------------------------


class _Kept:
    """Base of sources of batches that count kept and lost ones in a ledger."""

    ledger: Ledger

    @property
    def report(self) -> Recovery:
        """Recovery: what was kept and lost so far."""
        return self.ledger.report


class ByBlocks(_Kept):
    """The batches that an intact footer lists; a damaged one affects no others.

    With `refused`, a batch whose codec is not installed is lost, too; without it, that is an error.
    """

    def __init__(self, reader: RecordBatchFileReader, refused: bool = False) -> None:
        reader.decoder.add_up()
        self._reader = reader
        self._refused = refused
        self.ledger: Ledger = Ledger("file")
        self.schema: Schema = reader.schema
        self.metadata: KeyValueMetadata = reader.metadata
        if reader.decoder.damage is not None:
            self.ledger.fail(reader.decoder.damage, 0)
        self._views = count_views(reader.decoder.stored_schema.fields)
        numbers = range(reader.num_record_batches)
        reader.expect(numbers)
        self._numbers = iter(numbers)

    def __iter__(self) -> Found:
        reader, decoder = self._reader, self._reader.decoder
        for i in self._numbers:
            try:
                start, head, body = decoder.block(i)
                message, columns = decoder.stored(i, *reader.batch_bytes(i))
                batch = columns if isinstance(columns, RecordBatch) else decoder.decode(message)
            except (FormatError, UnsupportedError) as error:
                self._lose(i, as_damage(error, self._refused))
                continue
            name_writer(self.ledger, self._views, start, message)
            self.ledger.keep(batch.num_rows, head + body)
            yield message, batch

    def _lose(self, i: int, error: FormatError) -> None:
        offset = size = rows = None
        try:
            offset, head, body = self._reader.decoder.block(i)
            size = head + body
            held, at = self._reader.batch_bytes(i)
            found = find_message(held if isinstance(held, Source) else Source(held), at, there=True)
            if found is not None:
                name_column(error, found[2], self._reader.decoder.stored_schema)
            _, rows = self._reader.described(i)
        except FormatError:
            pass  # the damage may be in the block's own numbers, or in the metadata
        self.ledger.skip(error, offset, size, 1, rows, i)

    def close(self) -> None:
        """Release the source."""
        self._reader.close()


class _InOrder(_Kept):
    """The batches of a stream, or of a file after its magic, up to the first damage."""

    def __init__(
        self, buffer: memoryview[int], options: dict[str, Any], damage: FormatError | None, expected: int | None
    ) -> None:
        self._damage = damage
        self._expected = expected
        self._size, self._source = len(buffer), Source(buffer)
        limits = self._limits = options["limits"]
        self._framer = Framer(limits, options["verify"])
        self._decoder = StreamDecoder(**{**options, "verify": False})
        self._skipped = 0
        source = bare_schema = None
        if buffer[:6] == MAGIC:
            source = self._source
            # If the Schema message is shifted, or has no framing, its end is known only by what follows it.
            start, stop, found = find_schema(source, self._size, limits)
            if found is not None and (start % 8 or len(found.metadata) == stop - start):
                start, bare_schema = stop, found
            self._skipped = start
        self._framer.feed(buffer[self._skipped :], True)
        self.ledger: Ledger = Ledger("stream" if source is None else "file")
        message = bare_schema or self._framer.next_message()
        if message is None:
            begun = self._framer.bytes_consumed
            raise FormatError(f"no schema: the {'stream ends before it' if begun else 'input is empty'}")
        self._decoder.decode_next(message)
        schema = self._decoder.schema  # damaged custom_metadata is refused only here
        self.metadata: KeyValueMetadata = message.custom_metadata
        assert schema is not None
        self.schema: Schema = schema
        self._keep()
        stored = schema if options.get("columns") is None else schema_of(message, limits)
        self._views = count_views(stored.fields)
        self._ahead: set[int] = set()
        if source is not None and checksum_of(message) is None:
            self._ahead = take_dictionaries(self._decoder, source, self.ledger.num_bytes, limits)

    def _keep(self) -> None:
        """Count all bytes that were read so far as kept."""
        self.ledger.num_bytes = self._skipped + self._framer.bytes_consumed

    def __iter__(self) -> Found:
        while self.ledger.error is None:
            try:
                message = self._framer.next_message()
                event = None
                if message is not None and self.ledger.num_bytes not in self._ahead:
                    event = self._decoder.decode_next(message)
            except (FormatError, UnsupportedError) as error:
                damage = as_damage(error, False)
                if self.ledger.format == "stream" or not self._framer.at_end:
                    self._lose(damage, None)
                    return
                message = event = None  # no message needs to close a file
            start = self.ledger.num_bytes
            self._keep()
            if message is None:
                self._end(self._framer.end_marker)
                return
            if isinstance(event, BatchRead):
                name_writer(self.ledger, self._views, start, message)
                self.ledger.keep(event.batch.num_rows)
                yield message, event.batch

    def _end(self, marker: str | None) -> None:
        """Report what is wrong with the bytes after the last message."""
        if self.ledger.format == "stream":
            if left := self._size - self.ledger.num_bytes:
                error = FormatError(f"an end-of-stream marker followed by {left:,} bytes: damage, not the end")
                self._lose(error, None)
            return
        if self._damage is not None:
            # An end marker says that no batch is missing; the old one (zeros) may be what is left of lost data.
            last = marker not in (None, "00000000") and self._size == self.ledger.num_bytes
            self._lose(self._damage, 0 if last else None)

    def _lose(self, error: FormatError, batches: int | None) -> None:
        ledger = self.ledger
        if self._expected is not None:
            batches = self._expected - ledger.num_batches
        ledger.fail(error, ledger.num_bytes)
        if batches != 0 and (more := find_message(self._source, ledger.num_bytes + 1, limits=self._limits)) is not None:
            ledger.more_at = more[0]
        ledger.lose(batches, 0 if batches == 0 else None, self._size - ledger.num_bytes)

    def close(self) -> None:
        self._framer.release()
        self._decoder.release()
        self._source = Source(b"")
