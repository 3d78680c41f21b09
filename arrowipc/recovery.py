"""Reads what is left of damaged files and streams, and says what is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arrowipc._arguments import Immutable, fill
from arrowipc._file import TAIL_SIZE, footer_range
from arrowipc._stream import StreamDecoder
from arrowipc.errors import FormatError
from arrowipc.events import BatchRead, EndOfStream
from arrowipc.reader import (
    BatchReader,
    RecordBatchFileReader,
    _first_bytes,
    _located,
    _pump,
    _read_some,
    _resolve,
)
from arrowipc.remote import RemoteSource

if TYPE_CHECKING:
    from typing import Literal

    from arrowipc._array import RecordBatch
    from arrowipc.limits import Limits
    from arrowipc.reader import Columns, Validate
    from arrowipc.schema import Schema

__all__ = ["Recovery", "RecoveryReader", "recover"]

#: The magic of a file and its padding: what comes behind it is a stream.
HEAD = b"ARROW1\0\0"


class Recovery(Immutable):
    """What a `RecoveryReader` kept and lost; complete when all its batches were read.

    Parameters
    ----------
    format : {"file", "stream"}
        What the source begins like.
    num_batches, num_rows, num_bytes : int
        Kept. The bytes are those of the source up to the end of the last message that was read; where the
        footer led to the batches, those of their messages.
    lost_batches, lost_rows : int or None
        None where nothing says how many they were.
    lost_bytes : int or None
        Bytes of the source from the damage on, or of the damaged messages that the footer lists. None for
        a source that does not say how long it is.
    error : FormatError or None
        The first damage; None for a complete source.
    offset : int or None
        Where it begins: the first byte of the source that is not kept, or of the damaged message.
    """

    __slots__ = __match_args__ = (
        "format",
        "num_batches",
        "num_rows",
        "num_bytes",
        "lost_batches",
        "lost_rows",
        "lost_bytes",
        "error",
        "offset",
    )

    format: Literal["file", "stream"]
    num_batches: int
    num_rows: int
    num_bytes: int
    lost_batches: int | None
    lost_rows: int | None
    lost_bytes: int | None
    error: FormatError | None
    offset: int | None

    def __init__(
        self,
        format: Literal["file", "stream"],
        num_batches: int = 0,
        num_rows: int = 0,
        num_bytes: int = 0,
        lost_batches: int | None = 0,
        lost_rows: int | None = 0,
        lost_bytes: int | None = 0,
        error: FormatError | None = None,
        offset: int | None = None,
    ) -> None:
        values = locals()
        for name in self.__slots__:
            fill(self, name, values[name])

    @property
    def complete(self) -> bool:
        """bool: nothing is damaged, and nothing is missing."""
        return self.error is None

    def __str__(self) -> str:
        kept = f"kept {self.num_batches:,} batches, {self.num_rows:,} rows, {self.num_bytes:,} bytes"
        if self.error is None:
            return f"{kept}; nothing is lost"
        lost = [
            f"{count:,} {what}"
            for count, what in (
                (self.lost_batches, "batches"),
                (self.lost_rows, "rows"),
                (self.lost_bytes, "bytes"),
            )
            if count is not None
        ]
        where = "" if self.offset is None else f" from byte {self.offset:,} on"
        return f"{kept}; lost {', '.join(lost) or 'the rest'}{where}: {self.error}"

    def __repr__(self) -> str:
        return f"<Recovery of a {self.format}: {self}>"


class RecoveryReader(BatchReader):
    """Reads the batches that a damaged source still holds; made by `recover`."""

    __slots__ = ("_batches", "_report", "_schema")

    def __init__(self, batches: _ByBlocks | _InOrder) -> None:
        self._closed = False
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
        self._check_open()
        return iter(self._batches)

    def close(self) -> None:
        """Let go of the source; batches that were read stay valid, and so does the report."""
        if not self._closed:
            self._report = self._batches.report
            self._closed = True
            self._batches.close()

    def __repr__(self) -> str:
        return f"<RecoveryReader: {self.report}>\n{self.schema}"


def recover(
    source: Any,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    ensure_native_endian: bool = True,
    memory_map: bool = True,
) -> RecoveryReader:
    """Read what a torn, damaged or unfinished file or stream still holds.

    A file whose footer is whole gives every batch that decodes. A file without one, which a writer that
    was killed leaves behind, and a stream give the batches in front of the first damage.

    Parameters
    ----------
    source, columns, validate, limits, use_threads, ensure_native_endian, memory_map
        As for `open_stream`. At ``validate="none"`` damage inside values may pass for values.

    Returns
    -------
    RecoveryReader
        To be iterated, once; its `report` says what was kept and lost.

    Raises
    ------
    FormatError
        There is no readable schema. Damage behind it ends the batches and stands in the report.
    UnsupportedError
        A batch is not damaged, and cannot be decoded here: a codec is not installed, for example.
    OSError
        The source cannot be read.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int8
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]}, ipc.Schema([field("x", int8())]))
    >>> sink = bytearray()
    >>> with ipc.new_stream(sink, batch.schema) as writer:
    ...     writer.write_batch(batch)
    ...     writer.write_batch(batch)
    >>> reader = ipc.recover(sink[:-20])
    >>> [batch.to_pydict() for batch in reader]
    [{'x': [1, 2]}]
    >>> reader.report.num_rows, type(reader.report.error).__name__
    (2, 'TruncatedError')
    """
    options = {
        "columns": columns,
        "validate": validate,
        "limits": limits,
        "use_threads": use_threads,
        "ensure_native_endian": ensure_native_endian,
    }
    source = _located(source)
    damage = expected = None
    if _first_bytes(source) == HEAD[:6]:
        blocks, damage, expected = _open_blocks(source, memory_map, options)
        if blocks is not None:
            return RecoveryReader(blocks)
        if hasattr(source, "seek"):
            source.seek(0)  # the footer counts from there
    return RecoveryReader(_InOrder(source, memory_map, options, damage, expected))


def _open_blocks(
    source: Any, memory_map: bool, options: dict[str, Any]
) -> tuple[_ByBlocks | None, FormatError | None, int | None]:
    """Open a file by its footer; or say why that cannot be, and how many batches it lists."""
    reader = None
    try:
        reader = RecordBatchFileReader(source, memory_map=memory_map, **options)
        # A delta that is lost would shift all that come later: either all dictionaries are read, or the
        # batches in front of the damage are.
        reader._load_dictionaries()
        return _ByBlocks(reader), None, None
    except FormatError as error:
        count = None
        if reader is not None:
            count = reader.num_record_batches
            reader.close()
        return None, _bare(error), count
    except BaseException:
        if reader is not None:
            reader.close()
        raise


class _ByBlocks:
    """The batches that a whole footer lists, each for itself."""

    def __init__(self, reader: RecordBatchFileReader) -> None:
        self._reader = reader
        self.schema = reader.schema
        self.report = Recovery("file")
        numbers = range(reader.num_record_batches)
        reader._expect(numbers)
        self._numbers = iter(numbers)

    def __iter__(self) -> Iterator[RecordBatch]:
        for i in self._numbers:
            try:
                batch = self._reader.get_batch(i)
            except FormatError as error:
                self._lose(i, error)
                continue
            _, head, body = self._reader._decoder.block(i)
            kept = self.report
            self.report = _with(
                kept,
                num_batches=kept.num_batches + 1,
                num_rows=kept.num_rows + batch.num_rows,
                num_bytes=kept.num_bytes + head + body,
            )
            yield batch

    def _lose(self, i: int, error: FormatError) -> None:
        offset = size = rows = None
        try:
            offset, head, body = self._reader._decoder.block(i)
            size = head + body
            rows = self._reader._decoder.num_rows(i, *self._reader._head(i))
        except FormatError:
            pass  # the damage may lie in the block's own numbers, or in the metadata
        lost = self.report
        self.report = _with(
            lost,
            lost_batches=(lost.lost_batches or 0) + 1,
            lost_rows=_plus(lost.lost_rows, rows),
            lost_bytes=_plus(lost.lost_bytes, size),
            error=lost.error or _bare(error),
            offset=lost.offset if lost.error else offset,
        )

    def close(self) -> None:
        self._reader.close()


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


class _InOrder:
    """The batches of a stream, or of a file behind its magic, up to the first damage."""

    def __init__(
        self,
        source: Any,
        memory_map: bool,
        options: dict[str, Any],
        damage: FormatError | None,
        expected: int | None,
    ) -> None:
        self._damage = damage
        self._expected = expected
        self._decoder = decoder = StreamDecoder(**options)
        buffer, self._file, self._owned = _resolve(source, memory_map)
        try:
            head = self._begin(buffer, source.known_size if isinstance(source, RemoteSource) else None)
            self.report = Recovery("file" if head[:6] == HEAD[:6] else "stream")
            while not decoder.read_schema():
                _pump(decoder, self._file)
            schema = decoder.schema  # refused only now where its custom_metadata is damaged
        except BaseException:
            self.close()
            raise
        assert schema is not None
        self.schema: Schema = schema
        self._keep()

    def _begin(self, buffer: Any, known_size: int | None) -> bytes:
        """Feed what lies at hand, without the magic; find out how long the source is."""
        if self._file is None:
            whole = memoryview(buffer).cast("B")
            self._size: int | None = len(whole)
            head = bytes(whole[: len(HEAD)])
            self._skipped = len(HEAD) if head[:6] == HEAD[:6] else 0
            self._decoder.feed(whole[self._skipped :], True)
            return head
        self._size = known_size if known_size is not None else _rest_of(self._file)
        head = _read_up_to(self._file, len(HEAD))
        self._skipped = len(HEAD) if head[:6] == HEAD[:6] else 0
        self._decoder.feed(head[self._skipped :], len(head) < len(HEAD))
        return head

    def _keep(self, rows: int | None = None) -> None:
        """Count what was read so far as kept, and a batch of some rows."""
        kept = self.report
        self.report = _with(
            kept,
            num_batches=kept.num_batches + (rows is not None),
            num_rows=kept.num_rows + (rows or 0),
            num_bytes=self._skipped + self._decoder.bytes_consumed,
        )

    def __iter__(self) -> Iterator[RecordBatch]:
        while self.report.error is None:
            try:
                event = self._decoder.next_event()
                if event is None:
                    if self._decoder.at_end:
                        return
                    _pump(self._decoder, self._file)
                    continue
            except FormatError as error:
                self._lose(error, None)
                return
            batch = event.batch if isinstance(event, BatchRead) else None
            self._keep(None if batch is None else batch.num_rows)
            if batch is not None:
                yield batch
            elif isinstance(event, EndOfStream):
                self._end(event.marker)
                return

    def _end(self, marker: str | None) -> None:
        """Look at what lies behind the last message."""
        if self.report.format == "stream":
            left = 0 if self._size is None else self._size - self.report.num_bytes
            if left:
                self._lose(
                    FormatError(f"an end-of-stream marker, and {left:,} bytes behind it: no end, but damage"),
                    None,
                )
            return
        damage = self._damage
        if self._size is None:
            damage = self._drain()
        if damage is not None:
            # The marker says that no batch is missing; zeros in place of lost data look like one.
            last = marker not in (None, "00000000") and self._size == self.report.num_bytes
            self._lose(damage, 0 if last else None)

    def _drain(self) -> FormatError | None:
        """Read a source that cannot seek to its end, to see whether that is a footer."""
        at, tail = self.report.num_bytes, b""
        while data := _read_up_to(self._file, 1 << 16):
            at += len(data)
            tail = (tail + data)[-TAIL_SIZE:]
        self._size = at
        try:
            footer_range(HEAD, tail, at)
        except FormatError as error:
            return error
        return None

    def _lose(self, error: FormatError, batches: int | None) -> None:
        kept = self.report
        if self._expected is not None:
            batches = self._expected - kept.num_batches
        self.report = _with(
            kept,
            lost_batches=batches,
            lost_rows=0 if batches == 0 else None,
            lost_bytes=None if self._size is None else self._size - kept.num_bytes,
            error=_bare(error),
            offset=kept.num_bytes,
        )

    def close(self) -> None:
        self._decoder.release()
        if self._owned:
            self._file.close()


def _bare(error: FormatError) -> FormatError:
    """The error without its traceback, whose frames would keep the source open with the report."""
    return error.with_traceback(None)


def _with(report: Recovery, **changes: Any) -> Recovery:
    """The same report with other values, as `copy.replace` of newer Pythons does it."""
    return report.__replace__(**changes)


def _rest_of(file: Any) -> int | None:
    """Bytes from the position of a file to its end; None where it cannot seek."""
    if not (hasattr(file, "seekable") and file.seekable()):
        return None
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    return int(end - start)


def _read_up_to(file: Any, size: int) -> bytes:
    """Read `size` bytes, or all that are left."""
    data = bytearray(size)
    done = 0
    while done < size:
        count = _read_some(file, memoryview(data)[done:])
        if count == 0:
            break
        done += count
    return bytes(data[:done])
