"""Reports of what is wrong with a source, and what of it was kept and lost; recover and validate share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arrowipc.arguments import with_field_docs
from arrowipc.errors import FormatError, MissingPackageError
from arrowipc.values.preview import counted

if TYPE_CHECKING:
    from typing import Literal

    from arrowipc.errors import ArrowIpcError

    Count = int | None

#: How many ranges a report lists one by one; hostile bytes may have one per message.
MOST = 1000


@with_field_docs
class Damage(NamedTuple):
    """One thing that is wrong with a source, and where.

    Parameters
    ----------
    reason : str
        What was expected and what was found.
    offset, length : int or None
        The bytes of the source that were skipped; None if that is not known.
    message : int or None
        The number of the record batch in its file, from 0, or of the message in what was read of a stream,
        from 1. None: not inside one message.
    column : str or None
        Dotted path of the column, if one column is damaged.
    rows : int or None
        Rows in the range; None if nothing says how many.
    """

    reason: str
    offset: int | None = None
    length: int | None = None
    message: int | None = None
    column: str | None = None
    rows: int | None = None

    def __str__(self) -> str:
        if self.offset is None:
            return self.reason
        end = "" if not self.length else f"..{self.offset + self.length:,}"
        rows = f" ({self.rows:,} rows)" if self.rows and self.length else ""
        return f"byte {self.offset:,}{end}{rows}: {self.reason}"


@with_field_docs
class Recovery(NamedTuple):
    """What a `RecoveryReader` kept and lost; complete when all its batches were read.

    Parameters
    ----------
    format : {"file", "stream"}
        The format of the beginning of the source.
    num_batches, num_rows, num_bytes : int
        Kept. The bytes are those of the source up to the end of the last message that was read; if the batches
        were found by a footer, those of their messages; with ``resync=True``, those that were not skipped.
    lost_batches, lost_rows : int or None
        None if nothing says how many they were.
    lost_bytes : int or None
        Bytes of the source from the damage on, or of the damaged messages that the footer lists, or all that
        was skipped. None for a source that does not say how long it is.
    error : FormatError or None
        The first damage; None for a complete source.
    offset : int or None
        Where it begins: the first byte of the source that is not kept, or of the damaged message.
    skipped : tuple of Damage
        Damaged regions that were skipped, in order; if there are more than 1,000, the last one covers all the rest.
        A mistake of a known writer that was repaired is listed, too, with no bytes.
    more_at : int or None
        Where a message begins behind the damage at which reading stopped: ``resync=True`` goes on there.
    """

    format: Literal["file", "stream"]
    num_batches: int = 0
    num_rows: int = 0
    num_bytes: int = 0
    lost_batches: int | None = 0
    lost_rows: int | None = 0
    lost_bytes: int | None = 0
    error: FormatError | None = None
    offset: int | None = None
    skipped: tuple[Damage, ...] = ()
    more_at: int | None = None

    @property
    def complete(self) -> bool:
        """bool: nothing is damaged, and nothing is missing."""
        return self.error is None

    def __str__(self) -> str:
        kept = amounts(self.num_batches, self.num_rows, self.num_bytes)
        if self.error is None:
            return f"kept {kept}; nothing is lost{''.join([f': {each.reason}' for each in self.skipped])}"
        lost = amounts(self.lost_batches, self.lost_rows, self.lost_bytes)
        where = "" if self.offset is None else f" from byte {self.offset:,} on"
        if len(self.skipped) > 1:
            where = f" in {len(self.skipped):,} places{where}"
        more = "" if self.more_at is None else f"; a message begins at byte {self.more_at:,}: resync=True goes on there"
        return f"kept {kept}; lost {lost}{where}: {self.error}{more}"

    def __repr__(self) -> str:
        return f"<Recovery of a {self.format}: {self}>"


class Ledger:
    """Counts what is kept and lost while a source is read: a `Recovery` that can still change."""

    def __init__(self, format: Literal["file", "stream"]) -> None:
        self.format = format
        self.num_batches: int = 0
        self.num_rows: int = 0
        self.num_bytes: int = 0
        self.lost_batches: int | None = 0
        self.lost_rows: int | None = 0
        self.lost_bytes: int | None = 0
        self.error: FormatError | None = None
        self.offset: int | None = None
        self.skipped: list[Damage] = []
        self.more_at: int | None = None

    def keep(self, rows: int, size: int = 0) -> None:
        """Count a batch."""
        self.num_batches += 1
        self.num_rows += rows
        self.num_bytes += size

    def fail(self, error: FormatError, offset: int | None) -> None:
        """Keep the first damage."""
        if self.error is None:
            # The frames of its traceback would keep the source open as long as the report.
            self.error, self.offset = error.with_traceback(None), offset

    def lose(self, batches: Count, rows: Count, size: Count) -> None:
        """Count lost bytes or batches; None if the number is unknown."""
        self.lost_batches = _plus(self.lost_batches, batches)
        self.lost_rows = _plus(self.lost_rows, rows)
        self.lost_bytes = _plus(self.lost_bytes, size)

    def skip(
        self, error: FormatError, offset: Count, length: Count, batches: Count, rows: Count, message: Count = None
    ) -> None:
        """Count a range that was skipped, and its batches."""
        self.fail(error, offset)
        self.lose(batches, rows, length)
        if len(self.skipped) < MOST:
            self.skipped.append(Damage(str(error), offset, length, message, error.column, rows))
            return
        last, words = self.skipped[-1], "this and more after it: the list ends here"
        self.skipped[-1] = Damage(words, last.offset, _plus(last.length, length), rows=_plus(last.rows, rows))

    @property
    def report(self) -> Recovery:
        """Recovery: what was kept and lost so far."""
        return Recovery(**{**vars(self), "skipped": tuple(self.skipped)})


def _plus(total: Count, more: Count) -> Count:
    return None if total is None or more is None else total + more


def amounts(batches: Count, rows: Count, size: Count) -> str:
    """Return a text that says how many there are of each, as far as that is known."""
    nouns = ((batches, "batch", "batches"), (rows, "row", "rows"), (size, "byte", "bytes"))
    return ", ".join([counted(number, *noun) for number, *noun in nouns if number is not None]) or "the rest"


def as_damage(error: ArrowIpcError, refused: bool = True) -> FormatError:
    """Return an error as one that a ledger keeps: what is not supported is not damaged, but was not read either.

    Without `refused`, raise it if a package is missing: what it decodes is not lost.
    """
    if isinstance(error, FormatError):
        return error
    if isinstance(error, MissingPackageError) and not refused:
        raise error
    plain = FormatError(f"cannot be decoded here: {error}")
    plain.column = error.column
    return plain
