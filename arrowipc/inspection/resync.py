"""Continues after damage: searches for the next plausible message, validates it, and reports what was skipped.

What is trusted, and why. A message counts if its bytes decode as the schema says, at the requested level. A damaged
message is skipped as a whole if something known begins at its end, so nothing is found in the values of its columns.
Otherwise everything from its first byte on is searched; a stream found there that has another schema is skipped up to
its end.

Dictionaries that came before a gap are dropped, unless the gap is one RecordBatch message of the right structure, or a
footer says that no dictionary is in the gap: a delta or a replacement may be lost with it, and then indices would lead
to wrong values. Batches that need a dictionary are refused until it is sent again.

Checksums contain the numbers of messages, which decide before a message is decoded. A message that was read before is
skipped. Any other is decoded with the dictionaries of the messages before its number, if all of these were read; else
without any, as after a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import types
from arrowipc._core import Source
from arrowipc.decode.decoders import schema_of
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.decode.framing import Framer, changed_in_body, checksum_of, message_of, outline, survey
from arrowipc.decode.message_index import find_message, find_schema
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.errors import FormatError, TruncatedError, UnsupportedError, UsageError
from arrowipc.events import BatchRead
from arrowipc.inspection.damage import Damage, Ledger, as_damage
from arrowipc.inspection.message_layout import nodes_of
from arrowipc.limits import Limits
from arrowipc.metadata.checksums import UNCLOSED
from arrowipc.sources.source import END

if TYPE_CHECKING:
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.inspection.damage import Recovery
    from arrowipc.schemas import Schema
    from arrowipc.types import Field

MAGICS, NOT_ZERO = re.compile(re.escape(MAGIC)), re.compile(b"[^\\0]")
#: The report about a file with this mistake, of which nothing is lost.
ARROW_GO = (
    "variadicBufferCounts has the entries of earlier batches too, as arrow-go before January 2026 wrote them: the last "
    "ones were used"
)
#: How often each byte may be read for messages that then fail, and how many bytes more. Beyond that, messages
#: that overlap and fail are skipped as a whole: so the work grows with the number of bytes, not its square.
PATIENCE = 8
PATIENCE_MORE = 64 << 20
#: Places in a stream, besides the current one, where its messages may continue; each may keep dictionaries.
MOST_PLACES = 4
#: How many messages in a row may have been read before their place was reached.
MOST_AHEAD = 1000


class Outline(NamedTuple):
    """What a footer says about a file that cannot be read by that footer."""

    #: Without projection.
    schema: Schema
    #: Where dictionary batches lie, (start, stop); None: the footer is wrong about it.
    dictionaries: list[tuple[int, int]] | None
    #: How many record batches there are.
    batches: int
    #: Where the footer begins.
    end: int


def take_dictionaries(decoder: StreamDecoder, source: Source, at: int, limits: Limits | None) -> set[int]:
    """Decode the dictionaries of a file, whose messages begin at byte `at`, if its first batch comes before them.

    That is legal in files, and polars writes all dictionaries behind the batches. Return where they begin, without
    those that cannot be decoded: what is wrong with them is reported when the search reaches them.
    """
    ahead: dict[int, Message] = {}
    batches = 0
    while found := find_message(source, at, there=True, limits=limits):
        if found[2].kind == "DictionaryBatch" and batches:
            ahead[found[0]] = found[2]
        elif found[2].kind != "RecordBatch":
            break
        batches += 1
        at = found[1]
    for start, message in list(ahead.items()):
        try:
            decoder.decode_next(message)
        except (FormatError, UnsupportedError):
            del ahead[start]
            decoder.go_on(False)
    return set(ahead)


def find_place(pattern: re.Pattern[bytes], view: memoryview, start: int) -> int:
    """Return where a pattern is found next, from byte `start` on, or the size of the view."""
    found = pattern.search(view, start)
    return len(view) if found is None else found.start()


def find_footer(view: memoryview, start: int, magic: int) -> int | None:
    """Return the end of the footer that begins at `start` or behind padding, with its magic at `magic`; or None."""
    padding = magic - 4 - int.from_bytes(view[magic - 4 : magic], "little") - start
    right = magic < len(view) and 0 <= padding < 64 and not any(view[start : start + padding])
    return magic + len(MAGIC) if right else None


def count_views(fields: Iterable[Field]) -> int:
    """Count the columns, also nested ones, that have an entry in variadicBufferCounts."""
    kinds = [each.type for each in fields if not isinstance(each.type, types.Dictionary)]
    return sum([isinstance(kind, (types.BinaryView, types.Utf8View)) + count_views(kind.children) for kind in kinds])


def name_writer(ledger: Ledger, views: int, start: int, message: Message) -> None:
    """Report once that a batch, although it was read, has the mistake of a known writer."""
    found = outline(message) if views else None
    if found is not None and len(found[6]) > views and all(each.reason != ARROW_GO for each in ledger.skipped):
        ledger.skipped.append(Damage(ARROW_GO, start, 0, rows=0))


def name_column(error: FormatError | UnsupportedError, message: Message, schema: Schema) -> None:
    """Name, in an error, the column in which one changed bit explains a wrong checksum."""
    if error.column is None and message.kind == "RecordBatch" and (at := changed_in_body(message)) is not None:
        for node in nodes_of(message, schema.fields):
            for buffer in node.buffers:
                if buffer.offset <= at < buffer.offset + buffer.length:
                    error.column = node.path
                    error.args = (f"{error}, in column {node.path!r} ({buffer.role})",)


class _Gap(NamedTuple):
    start: int
    error: FormatError
    #: It began behind an end-of-stream marker: so perhaps no batch is missing.
    behind_end: bool


class Search:
    """The batches of a source in memory, also those after damage.

    `options` are those of `StreamDecoder`, `damage` says why the file cannot be read by its footer. With `refused`, a
    message whose codec is not installed is lost, too; without it, that is an error.
    """

    def __init__(
        self,
        buffer: Any,
        options: dict[str, Any],
        outline: Outline | None = None,
        damage: FormatError | None = None,
        refused: bool = False,
    ) -> None:
        self._source, self._view = Source(buffer), memoryview(buffer).cast("B")
        self._size = len(self._source)
        self._options = options
        self._limits = options["limits"]
        self._most_decompressed = (self._limits or Limits()).decompressed_bytes
        self._outline = outline
        self._damage = damage
        self._refused = refused
        is_file = self._bytes(0, 6) == MAGIC
        self._ledger = Ledger("file" if is_file else "stream")
        self._at = 0
        self._gap: _Gap | None = None
        self._ahead: set[int] = set()  # where the dictionaries begin that were decoded before the batches of their file
        self._ended = False  # the last known thing was an end-of-stream marker
        self._whole = not is_file  # the file or stream that was read last has a proper end
        self._magic = 0  # where the next magic is, as far as was searched
        # Where messages certainly end, if everything before is lost.
        self._tail = self._size if outline is None else outline.end
        self._tail -= 8 if self._bytes(max(self._tail - 8, 0), 8) == END else 0
        self._number = 0
        self._credit = PATIENCE * self._size + PATIENCE_MORE  # bytes that may still be read without result
        self._decoder: StreamDecoder | None = None
        self._forgot: int | None = None  # where dictionaries may have been lost and were dropped
        self._pending: tuple[Message, RecordBatch] | None = None
        self.metadata: Any = ()
        self._summed: Message | None = None  # the Schema message, if it has a checksum, so that all have
        self._next = 0  # the number that the checksum of the next message should have
        # Where else the stream may continue: the number of the message, its decoder, and its `_forgot`.
        self._places: list[tuple[int, StreamDecoder, int | None]] = []
        self._seen: dict[int, int] = {}  # number -> CRC, of messages that were decoded
        self._batches: set[int] = set()  # numbers of RecordBatch messages whose checksums are right
        self._unclosed = False  # a message with a checksum came last, and did not close its stream
        #: Where the first two streams with the same schema begin.
        self.starts: list[int] = []
        #: What was kept and lost up to the first end marker, where readers of streams stop.
        self.end: Recovery | None = None
        self.schema: Schema = self._find_schema()

    def _find_schema(self) -> Schema:
        """Read up to the first schema; if there is a footer, take its schema: then batches may come first."""
        if self._outline is not None:
            # This Schema message was made anew, and has no checksum.
            self._decoder = StreamDecoder(**{**self._options, "verify": None})
            self._decoder.decode_next(message_of(self._outline.schema.serialize()))
            self._stored_schema = self._outline.schema
            self._views = count_views(self._stored_schema.fields)
        else:
            if self._ledger.format == "file":
                start, stop, found = find_schema(self._source, self._size, self._limits)
                if found is not None:
                    self._begin(start, stop, found)
            while self._decoder is None and self._at < self._size:
                self._step()
        if self._decoder is None:
            raise FormatError(f"no schema: there is no readable Schema message in {self._size:,} bytes")
        schema = self._decoder.schema
        assert schema is not None
        return schema

    @property
    def report(self) -> Recovery:
        """Recovery: what was kept and lost so far."""
        ledger = self._ledger
        until = self._at if self._gap is None else self._gap.start
        ledger.num_bytes = until - (ledger.lost_bytes or 0)
        report = ledger.report
        if self._outline is None or self._at < self._size or report.error is None:
            return report
        lost = max(self._outline.batches - ledger.num_batches, 0)
        return report._replace(lost_batches=lost, lost_rows=0 if lost == 0 else report.lost_rows)

    def __iter__(self) -> Iterator[tuple[Message, RecordBatch]]:
        while self._at < self._size:
            self._step()
            found, self._pending = self._pending, None
            if found is not None:
                yield found
        self._close_gap(self._size)
        if not self._whole or self._damage is not None:
            error = self._damage or FormatError("the file ends without a footer")
            self._fail_at_end(error, 0 if self._ended else None)
        if self._unclosed and self._ledger.format == "stream":
            self._fail_at_end(TruncatedError(UNCLOSED), None)
        if self._outline is not None and self._ledger.num_batches < self._outline.batches:
            error = FormatError(f"the footer lists {self._outline.batches:,} batches, not all are there")
            self._fail_at_end(error, None)

    def _fail_at_end(self, error: FormatError, batches: int | None) -> None:
        if self._ledger.error is None:
            self._ledger.fail(error, self._size)
            self._ledger.lose(batches, batches, 0)

    def close(self) -> None:
        """Release the source."""
        self._at = self._size
        self._gap = self._pending = self._decoder = self._summed = None
        self._forget_places()
        self._source, self._view = Source(b""), memoryview(b"")

    # -- going through the source --

    def _step(self) -> None:
        """Read what begins here: a message, or bytes between messages; else go to the next message."""
        found = find_message(self._source, self._at, there=True, limits=self._limits)
        if found is not None:
            self._take(*found)
        elif not self._pass():
            self._open_gap(self._at, self._why())
            self._seek(self._at + 1)

    def _why(self) -> FormatError:
        """Return an error that says what is wrong with the current bytes."""
        framer = Framer(self._limits)
        framer.feed(self._source.part(self._at, self._size - self._at), True)
        try:
            framer.next_message()
        except FormatError as error:
            return type(error)(f"no message: {str(error).partition(': ')[2]}")  # its number is not known
        return FormatError("no message begins here, and no end-of-stream marker")

    def _seek(self, start: int) -> None:
        """Go to the next plausible message that begins at byte `start` or later."""
        opening = self._decoder is None
        found = find_message(self._source, start, schemas=opening, limits=self._limits)
        self._at = found[0] if found is not None else self._tail if start <= self._tail else self._size

    def _pass(self) -> bool:
        """Skip what may be between messages: a marker, a footer, the magic of a file, zeros; False: none of these."""
        head = self._bytes(self._at, 8)
        if head[:6] == MAGIC:
            self._resume_at(self._at, False)
            self._at += 8 if head[6:] == bytes(2) else 6
            self._whole = False
            return True
        marker = 8 if head == END else 4 if head[:4] == bytes(4) else 0
        if self._magic < self._at + marker + 4:
            self._magic = find_place(MAGICS, self._view, self._at + marker + 4)
        footer = find_footer(self._view, self._at + marker, self._magic)
        if footer is None and marker == 4:
            return self._pass_zeros()
        if footer is None and marker == 0:
            return False
        self._resume_at(self._at, True)
        self._at = self._at + marker if footer is None else footer
        self._whole = footer is not None or self._ledger.format == "stream"
        self.end = self.end or self.report
        return True

    def _pass_zeros(self) -> bool:
        """Skip zeros, which are the old end-of-stream marker if nothing follows, else lost data; False: too few."""
        self.end = self.end or self.report
        end = find_place(NOT_ZERO, self._view, self._at)
        if end - self._at in (4, 8) and end == self._size:
            self._resume_at(self._at, True)
        else:
            end -= 0 if end == self._size else (end - self._at) % 8
            if end == self._at:
                return False
            error = FormatError(f"{end - self._at:,} zero bytes in the place of a message")
            self._open_gap(self._at, error)
        self._at = end
        return True

    def _bytes(self, start: int, length: int) -> bytes:
        """Return some bytes; at the end of the source, fewer."""
        return bytes(self._view[start : start + length])

    # -- messages --

    def _take(self, start: int, end: int, message: Message) -> None:
        """Decode a message, or skip it."""
        self._number += 1
        if message.kind == "Schema":
            self._begin(start, end, message)
            return
        if start in self._ahead or not self._goes_to_its_place(start, end, message):
            self._resume_at(start, False)
            self._at = end
            return
        try:
            if self._decoder is None:
                raise FormatError(f"a {message.kind} message before any schema")
            event = self._decoder.decode_next(message)
            follows = self._follows(start, end, message)
        except (FormatError, UnsupportedError) as error:
            self._refuse(start, end, message, error)
            return
        self._resume_at(start, False)
        if follows < end:
            self._note(f"its body claims {end - follows:,} bytes of the next message", start, start, 0)
        self._at = follows
        if not self._count(message) and isinstance(event, BatchRead):
            name_writer(self._ledger, self._views, start, message)
            self._ledger.keep(event.batch.num_rows)
            self._pending = message, event.batch

    def _goes_to_its_place(self, start: int, end: int, message: Message) -> bool:
        """Choose the decoder that has the dictionaries before a message; False: the message was read already."""
        number, _, crc = (self._summed is not None and checksum_of(message)) or (None, False, 0)
        if number is None or ((number != self._next or number in self._seen) and not checksum_of(message, True)):
            self._distrust(start)
            return True
        if self._seen.get(number) == crc and (number != self._next or message.kind == "RecordBatch"):
            # (A dictionary that is repeated in its place may be new to this decoder.)
            self._resume_at(start, False)
            self._note(f"message {number:,} by its checksum, which was read before, is passed over", start, end, 0)
            self._next += number == self._next
            return False
        if self._seen.get(number, crc) != crc:
            self._forget_places()  # it belongs to another stream
            self._next = -1
        if not self._leads(self._next, number):
            self._change_place(start, number)
        self._next = number
        return True

    def _leads(self, next: int, number: int) -> bool:
        """Whether all messages between two numbers are batches that were read."""
        return next <= number <= next + MOST_AHEAD and all(each in self._batches for each in range(next, number))

    def _change_place(self, start: int, number: int) -> None:
        """Continue at the place to which a message with an unexpected number belongs."""
        if self._gap is None:
            words = f"message {number:,} by its checksum comes too early or too late: some are missing"
            self._note(f"{words}, repeated or in another place", start, start, None)
        assert self._decoder is not None
        assert self._summed is not None
        here = self._next, self._decoder, self._forgot
        there = next((each for each in self._places if self._leads(each[0], number)), None)
        if there is not None:
            self._places.remove(there)
        elif self._gap is not None and not self._may_hold_dictionary(self._gap.start, start):
            there = here
        else:
            there = number, StreamDecoder(**self._options), start if self._gap is None else self._gap.start
            there[1].decode_next(self._summed)
        self._places = [*self._places, here][-MOST_PLACES:]
        _, self._decoder, self._forgot = there

    def _forget_places(self) -> None:
        self._places, self._seen, self._batches = [], {}, set()

    def _note(self, reason: str, start: int, end: int, lost: int | None) -> None:
        """Report bytes that are skipped (perhaps none), with so many lost rows and batches."""
        self._ledger.skip(FormatError(reason), start, end - start, lost, lost, self._number)

    def _count(self, message: Message) -> bool:
        """Count a message that was decoded, and expect the next number; return whether it only closes a stream."""
        number, closes, crc = checksum_of(message) or (None, False, 0)
        if self._summed is not None and number is not None:
            self._seen[number] = crc
            self._next = number + 1
            if message.kind == "RecordBatch":
                self._batches.add(number)
        self._unclosed = self._summed is not None and not closes
        return closes

    def _follows(self, start: int, end: int, message: Message) -> int:
        """Return where to continue after a decoded message; a FormatError if others begin in it and reach beyond."""
        if self._credit < 0 or self._known(end):
            return end
        self._credit -= end - start
        survived = survey(message)
        needs = end - message.body_length + (message.body_length if survived is None else survived[1])
        at = start + 1
        while (found := find_message(self._source, at, limits=self._limits)) and found[0] < end:
            first = at = found[0]
            while at < end and (found := find_message(self._source, at, there=True, limits=self._limits)):
                at = found[1]
            if at > end:
                if first < needs:
                    raise FormatError(f"it is cut off: another message begins inside it, at byte {first:,}")
                return first  # it only claims more bytes than it uses
            at = max(at, first + 1)
        return end

    def _begin(self, start: int, end: int, message: Message) -> None:
        """Begin a stream of the same schema; skip a stream of another one."""
        decoder = StreamDecoder(**self._options)
        try:
            decoder.decode_next(message)
            ours = self._decoder is None or decoder.schema == self.schema
        except (FormatError, UnsupportedError) as error:
            self._refuse(start, end, message, error)
            return
        except UsageError:
            if self._decoder is None:
                raise
            ours = False  # it lacks a requested column
        if not ours:
            self._pass_stream(start, end)
            return
        if self._decoder is None:
            self.metadata = message.custom_metadata
        self._summed = None if checksum_of(message) is None else message
        self._forget_places()
        self._count(message)
        self._stored_schema = schema_of(message, self._limits)
        self._views = count_views(self._stored_schema.fields)
        self.starts = [*self.starts, start][:2]
        self._resume_at(start, False)
        self._decoder, self._forgot = decoder, None
        if self._ledger.format == "file" and self._summed is None:  # writers of checksums write dictionaries first
            self._ahead = take_dictionaries(decoder, self._source, end, self._limits)
        self._at = end

    def _pass_stream(self, start: int, end: int) -> None:
        """Skip a stream of another schema."""
        self._resume_at(start, False)
        while found := find_message(self._source, end, there=True, limits=self._limits):
            if found[2].kind == "Schema":
                break
            end = found[1]
        if self._bytes(end, 8) == END:
            end += 8
        self._note("a stream of another schema", start, end, None)
        self._at = end

    def _refuse(self, start: int, end: int, message: Message, error: FormatError | UnsupportedError) -> None:
        """Skip a message that cannot be decoded; its claims are believed if something known begins at its end."""
        found, decoder = survey(message), self._decoder
        fits = decoder is not None and decoder.fits(message)
        if isinstance(error, UnsupportedError):
            if self._gap is None and message.kind == "Schema":
                raise error  # nothing indicates damage
            fits = message.kind == "RecordBatch"
            error = as_damage(error, self._refused or self._gap is not None)
        if self._forgot is not None and "has not arrived" in str(error):
            error.args = (f"{error}: one may have been lost at byte {self._forgot:,}, and none came since",)
        if not self._known(end):
            if decoder is not None:
                decoder.go_on(False)
            # Subtract what decoding may have cost; nothing was decompressed if it claims too much.
            self._credit -= end - start - message.body_length
            if fits and found is not None and found[2] <= self._most_decompressed:
                self._credit -= message.body_length + found[2]
            self._open_gap(start, error)
            self._seek(end if self._credit < 0 else start + 1)
            return
        self._resume_at(start, False)
        if message.kind == "RecordBatch" and (checksum := checksum_of(message, True)) is not None:
            self._batches.add(checksum[0])
        self._next += 1
        if fits:
            name_column(error, message, self._stored_schema)
        rows = found[0] if fits and found is not None else None
        self._ledger.skip(error, start, end - start, 1 if fits else None, rows, self._number)
        if decoder is not None:
            forget = not fits and self._may_hold_dictionary(start, end)
            if forget:
                self._forgot = start
            decoder.go_on(forget)
        self._at = end

    def _known(self, at: int) -> bool:
        """Whether the source ends here, or something begins that may follow a message."""
        head = self._bytes(at, 64)
        if head[:8] == END or head[:6] == MAGIC or not any(head):
            return True
        return find_message(self._source, at, there=True, limits=self._limits) is not None

    # -- gaps --

    def _open_gap(self, start: int, error: FormatError) -> None:
        """Begin a gap: bytes of which nothing is known, up to the next known thing."""
        if self._gap is None:
            self._gap = _Gap(start, error, self._ended)

    def _distrust(self, end: int) -> None:
        """Drop the dictionaries if one may have been in the gap that ends here."""
        gap, decoder = self._gap, self._decoder
        if gap and decoder and end > gap.start and self._may_hold_dictionary(gap.start, end):
            self._forgot = gap.start
            decoder.go_on(True)

    def _may_hold_dictionary(self, start: int, end: int) -> bool:
        known = None if self._outline is None else self._outline.dictionaries
        return known is None or any(first < end and start < last for first, last in known)

    def _resume_at(self, at: int, ended: bool) -> None:
        """Note that something known begins at `at`, and report the bytes that were skipped before it."""
        self._close_gap(at)
        self._ended = ended

    def _close_gap(self, end: int) -> None:
        gap, self._gap = self._gap, None
        if gap is None or end <= gap.start:
            return
        at_end = gap.behind_end and end == self._size
        if at_end and self._ledger.format == "file" and self._damage is not None:
            gap = gap._replace(error=self._damage)  # the gap is the rest of a footer
        lost = 0 if at_end else None  # batches, and rows
        self._ledger.skip(gap.error, gap.start, end - gap.start, lost, lost)
