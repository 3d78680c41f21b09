"""Checks a complete file or stream, also after the first fault, and reports what is wrong."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc.arguments import check_callable, check_choice, with_field_docs
from arrowipc.decode.decoders import schema_of
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.decode.message_index import find_message, find_schema
from arrowipc.decode.validate import check_values
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, printable
from arrowipc.inspection.damage import Ledger, amounts, as_damage
from arrowipc.inspection.recover import ByBlocks, blocks_of, footer_outline
from arrowipc.inspection.resync import MAGICS, NOT_ZERO, Search, find_footer, find_place
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.sources.source import END, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.inspection.damage import Damage
    from arrowipc.inspection.resync import Outline
    from arrowipc.limits import Limits

    Options = dict[str, Any]


#: How many zeros may follow a message.
PADDING = 64


class Remark(NamedTuple):
    """Something that is valid, but that some readers refuse or read differently."""

    #: A short name that stays the same, such as ``footer-order``.
    code: str
    #: What was found, and which readers it affects.
    words: str
    #: The byte of its first occurrence; None if it has none, or concerns all of the source.
    offset: int | None
    #: How often it was found.
    times: int

    def __str__(self) -> str:
        return self.words if self.offset is None else f"byte {self.offset:,}: {self.words}"


@with_field_docs
class Validation(NamedTuple):
    """What `validate` found: what is good, what is bad, and each thing that is wrong.

    Parameters
    ----------
    format : {"file", "stream"} or None
        None: neither.
    level : {"full", "strict"}
        What was checked about every value of the good batches.
    num_batches, num_rows, num_bytes : int
        Good ones.
    bad_batches, bad_rows, bad_bytes : int or None
        None if nothing says how many they are.
    damage : tuple of Damage
        In the order in which it was found. If there is more than 1,000, the last one covers all the rest. What follows
        the end marker of a stream is damage, and its batches are bad ones: no reader of streams reads them.
    remarks : tuple of Remark
        Without damage: what the format advises against, and not all readers treat alike. In files: no Schema message
        at the beginning, or one without framing; a footer that lists batches in another order, twice, or not all of
        them; an end marker and an older footer before the last one. In streams, too: values outside the ranges of their
        types. At "strict" such values, and such lists in a footer, are damage.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> torn = batch.schema.serialize() + batch.serialize()[:-8]
    >>> ipc.validate(torn).raise_if_invalid()
    Traceback (most recent call last):
    arrowipc.errors.FormatError: ...the input ends inside the body...
    """

    format: Literal["file", "stream"] | None
    level: Literal["full", "strict"]
    num_batches: int = 0
    num_rows: int = 0
    num_bytes: int = 0
    bad_batches: int | None = 0
    bad_rows: int | None = 0
    bad_bytes: int | None = 0
    damage: tuple[Damage, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def ok(self) -> bool:
        """bool: nothing is wrong; there may be remarks."""
        return not self.damage

    def raise_if_invalid(self) -> None:
        """Raise a FormatError with the first thing that is wrong, if there is one."""
        if self.damage:
            more = f" (and {len(self.damage) - 1:,} more)" if len(self.damage) > 1 else ""
            raise FormatError(f"{self.damage[0]}{more}")

    def __str__(self) -> str:
        what = self.format or "source"
        good = amounts(self.num_batches, self.num_rows, self.num_bytes)
        if self.ok:
            notes = [f"  {each}" for each in self.remarks]
            return "\n".join([f"a valid {what} ({self.level}): {good}", *notes])
        bad = amounts(self.bad_batches, self.bad_rows, self.bad_bytes)
        first = f"not a valid {what} ({self.level}): valid: {good}; invalid: {bad}"
        return "\n".join([first, *[f"  {printable(str(each))}" for each in self.damage]])

    def __repr__(self) -> str:
        return f"<Validation: {self}>"


def validate(
    source: Any,
    *,
    level: Literal["full", "strict"] = "full",
    limits: Limits | None = None,
    memory_map: bool = True,
    watch: Callable[[int], object] | None = None,
) -> Validation:
    """Check all of a file or a stream, also after the first fault; bad bytes raise nothing.

    Of a file: its footer, every block, every dictionary and batch, and whether the messages from its
    beginning on are those that the footer lists. Of a stream: every message up to the end. Of both: their checksums,
    if they have any.

    Parameters
    ----------
    source : path, URL, RemoteSource, bytes-like or binary file object
        As for `recover` with ``resync=True``; an OSError if it cannot be read.
    level : {"full", "strict"}
        "full": every value is safe to use, and there is a remark where one is outside the range of its type;
        "strict": such a value is damage, and so is a footer that does not list all batches in their order.
    limits : Limits, optional
        Bounds on what the bytes may ask for; what exceeds them counts as bad.
    memory_map : bool, default True
        Map a path; False copies it to a temporary file first, which no other process can truncate.
    watch : callable, optional
        Called after each batch with the number of bytes of batches that were read so far.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> print(ipc.validate(batch.schema.serialize() + batch.serialize()))
    a valid stream (full): 1 batch, 2 rows, ... bytes
    """
    check_choice("level", level, ("full", "strict"))
    check_callable("watch", watch)
    options: Options = {"validate": level, "limits": limits, "verify": None}
    view = whole(source, memory_map, limits)
    remarks = Remarks(watch or (lambda done: None))
    is_file = view[:6] == MAGIC
    ledger = Ledger("file" if is_file else "stream")
    (_check_file if is_file else _check_stream)(view, options, ledger, remarks)
    report = ledger.report
    known = report.format if report.num_bytes or report.format == "file" else None
    return Validation(known, level, *report[1:7], report.skipped, () if report.skipped else tuple(remarks))


class Remarks(list[Remark]):
    """The remarks collected so far; `watch` is called with the number of bytes of batches that were read."""

    def __init__(self, watch: Callable[[int], object]) -> None:
        super().__init__()
        self.watch = watch


# -- files ---------------------------------------------------------------------------------------------------


def _check_file(buffer: Any, options: Options, ledger: Ledger, remarks: Remarks) -> None:
    """Check a file by its footer; if that cannot be read, check the messages one after the other."""
    blocks = outline = None
    try:
        reader = RecordBatchFileReader(buffer, **options)
        blocks = ByBlocks(reader, refused=True)  # reads the schema's names and metadata
        reader.load_dictionaries()
    except (FormatError, UnsupportedError) as error:
        _note(ledger, error)
        if blocks is not None:
            # If a dictionary is lost, indices into later deltas are wrong: search the messages, as `recover` does.
            outline, _ = footer_outline(reader)
        return _check_messages(buffer, options, ledger, remarks, outline)
    if reader.decoder.damage is not None:
        _note(ledger, reader.decoder.damage, 0)
    blocks.ledger = ledger
    _check_ranges(blocks, remarks)
    _compare(reader, ledger, options["limits"], remarks)


def _check_ranges(batches: Iterable[tuple[Message, RecordBatch]], remarks: Remarks) -> None:
    """Read all batches, and add a remark if values are outside the ranges of their types."""
    known: dict[int, Any] = {}
    first, times, done = "", 0, 0
    for number, (message, batch) in enumerate(batches):
        done += len(message.metadata) + message.body_length
        remarks.watch(done)
        try:
            check_values(batch, known)
        except FormatError as error:
            first = first or f"batch {number}: {printable(str(error))}"
            times += 1
    if times:
        words = f"{first}: level='strict' refuses that, and so do full validations of other libraries"
        remarks.append(Remark("values", words, None, times))


def _note(
    ledger: Ledger, error: ArrowIpcError, offset: int | None = None, length: int = 0, batches: int = 0, rows: int = 0
) -> None:
    """Add something that is wrong to the ledger."""
    ledger.skip(as_damage(error), offset, length, batches, rows)


def _compare(reader: RecordBatchFileReader, ledger: Ledger, limits: Limits | None, remarks: Remarks) -> None:
    """Go through the messages from the beginning, and compare them with the footer's blocks."""
    source, end = reader.source, reader.decoder.messages_end
    assert source is not None
    view = source.part(0, len(source))
    listed: dict[int, tuple[str, int]] = {}
    twice, before, unlisted = [], [], []
    last = 0
    for kind in ("RecordBatch", "DictionaryBatch"):
        for offset, stop in blocks_of(reader, kind == "DictionaryBatch"):  # impossible blocks were reported before
            if offset in listed:
                twice.append(offset)
            elif offset < last and kind == "RecordBatch":
                before.append(offset)
            listed[offset], last = (kind, stop), offset
    places, older = [*sorted(listed), end], []
    at = _compare_schema(reader, ledger, limits, remarks)
    while at < end:
        found = find_message(source, at, there=True, limits=limits)
        if found is None and at not in listed:
            stop = places[bisect(places, at)]
            behind = _pass_old_end(view[:stop], at)
            if behind is None:
                is_file = view[at : at + len(MAGIC)] == MAGIC
                what = "the beginning of another file" if is_file else "no message, end marker or footer"
                _note(ledger, FormatError(f"the footer does not list these bytes: they are {what}"), at, stop - at)
            elif view[behind - len(MAGIC) : behind] == MAGIC:
                older.append(at)
            at = stop if behind is None else behind
            continue
        # If the footer lists a message here and there is none, that was reported before.
        start, (kind, at) = at, listed[at] if found is None else (found[2].kind, found[1])
        if start not in listed and kind == "RecordBatch":
            unlisted.append(start)
        elif listed.pop(start, (None, 0))[0] != kind:
            _note(ledger, FormatError(f"a {kind} message that the footer does not list"), start, at - start)
    if at > end:
        _note(ledger, FormatError("a message reaches into the footer"), end, at - end)
    if listed:
        _note(ledger, FormatError(f"the footer lists {len(listed):,} messages where none begins"), min(listed))
    disagree = "readers of files and of streams disagree"
    for code, words, places in (
        ("older-footer", "an end marker and an older footer stand here, which no reader of files looks at", older),
        ("footer-repeats", f"the footer lists this message twice: {disagree}", twice),
        ("footer-order", f"the footer lists this batch behind one that follows it in the file: {disagree}", before),
        ("footer-omits", f"a RecordBatch message that the footer does not list: {disagree}", unlisted),
    ):
        if places:
            remarks.append(Remark(code, words, places[0], len(places)))


def _pass_old_end(view: memoryview, at: int) -> int | None:
    """Return the end of the end marker, older footer or padding that begins at byte `at`; None: it is none of these."""
    start = at + len(END) if view[at : at + len(END)] == END else at
    footer = find_footer(view, start, find_place(MAGICS, view, start))
    if footer is not None:
        return footer
    end = find_place(NOT_ZERO, view, start)
    return end if at < end <= start + PADDING else None


def _compare_schema(reader: RecordBatchFileReader, ledger: Ledger, limits: Limits | None, remarks: Remarks) -> int:
    """Compare the first message with the footer's schema; return where it ends."""
    assert reader.source is not None
    at, stop, message = find_schema(reader.source, reader.decoder.messages_end, limits)
    if message is None:
        words = "no Schema message at the beginning: it cannot be read as a stream, nor recovered without its footer"
        remarks.append(Remark("no-schema", words, at, 1))
    elif len(message.metadata) == stop - at:
        words = "the Schema message at the beginning has no framing: it cannot be read as a stream"
        remarks.append(Remark("bare-schema", words, at, 1))
    elif at > 8:
        words = "the first message is not at byte 8: some readers look there only"
        remarks.append(Remark("first-message", words, 8, 1))
    try:
        if message is not None and schema_of(message, limits) != reader.schema:
            _note(ledger, FormatError("the schema at the beginning is not that of the footer"), at)
    except (FormatError, UnsupportedError) as error:
        _note(ledger, error, at)
    return stop


# -- streams -------------------------------------------------------------------------------------------------


def _check_stream(buffer: Any, options: Options, ledger: Ledger, remarks: Remarks) -> None:
    try:
        # If the bytes are no stream at all, a reader's error says better what they are than a search does.
        with RecordBatchStreamReader(buffer, **options) as reader:
            assert reader.schema is not None  # this reads its names and metadata
    except (FormatError, UnsupportedError) as error:
        _note(ledger, error)
    _check_messages(buffer, options, ledger, remarks)


def _check_messages(
    buffer: Any, options: Options, ledger: Ledger, remarks: Remarks, outline: Outline | None = None
) -> None:
    """Check everything that a search finds; errors of the beginning or the footer have been reported before."""
    try:
        search = Search(buffer, options, outline, refused=True)
    except (FormatError, UnsupportedError) as error:
        if not ledger.skipped:
            _note(ledger, error)
        ledger.lose(None, None, len(buffer))
        return
    try:
        _check_ranges(search, remarks)
    except UnsupportedError as error:
        _note(ledger, error)
        ledger.lose(None, None, None)
    report = search.report
    read = search.end if search.end is not None and report.format == "stream" else report
    ledger.num_batches, ledger.num_rows, ledger.num_bytes = read.num_batches, read.num_rows, read.num_bytes
    ledger.lose(report.lost_batches, report.lost_rows, report.lost_bytes)
    ledger.skipped += report.skipped
    if behind := report.num_batches - read.num_batches:
        words = f"{amounts(behind, None, None)} behind the end of the stream, where readers stop"
        rows, size = report.num_rows - read.num_rows, report.num_bytes - read.num_bytes
        _note(ledger, FormatError(words), read.num_bytes + (read.lost_bytes or 0), size, batches=behind, rows=rows)
    if len(search.starts) > 1:
        second = FormatError("another stream begins here: readers stop at the end of the first")
        _note(ledger, second, search.starts[1])
    elif not ledger.skipped and report.error is not None:
        _note(ledger, report.error, report.offset)
