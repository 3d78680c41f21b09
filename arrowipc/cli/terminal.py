"""The output of commands: tables, lines, JSON and progress, in the width and colours that the terminal allows."""

from __future__ import annotations

import datetime
import json
import math
import os
import shutil
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import click

from arrowipc import datatypes as at
from arrowipc.cli.sources import PLACE, about
from arrowipc.columns.extensions import FineTimes
from arrowipc.errors import showable
from arrowipc.values.preview import counted, scalar_text, size_text

if TYPE_CHECKING:
    from typing import Self, TypeVar

    from rich.console import Console
    from rich.table import Table

    _Command = TypeVar("_Command", bound=Callable[..., Any])

#: Characters of a line if the output is not a terminal and COLUMNS is not set.
PIPE_WIDTH = 120

FILE = click.argument("file", metavar="FILE", type=PLACE)

json_option: Callable[[_Command], _Command] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


column_option: Callable[[_Command], _Command] = click.option(
    "-c",
    "--columns",
    metavar="A,B",
    help="Columns to keep, in this order: names or dotted paths, separated by commas.",
)

where_option: Callable[[_Command], _Command] = click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Keep rows that match: 'x >= 3', 'city in Oslo,Rome', 'x is null'. With several, all must match. Batches and "
    "files that cannot have a match, by their statistics and folders, are not read.",
)


def columns_of(text: str | None) -> list[str] | None:
    """Split the value of `--columns`; a name that contains a comma is in double quotes."""
    if text is None:
        return None
    import csv

    try:
        return next(csv.reader([text]), []) if text else []
    except csv.Error as error:  # a line break
        words = (
            f"--columns: expected names, separated by commas, found {text[:80]!r} ({error}): put it in double quotes"
        )
        raise click.UsageError(words) from None


# -- text ----------------------------------------------------------------------------------------------------


def width() -> int:
    """Return the number of characters of a line."""
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, 20)


def to_output(error: bool = False) -> AbstractContextManager[None]:
    """Return a context in which errors are those of standard output; with `error`, those of stderr name nothing."""
    return nullcontext() if error else about("-", True)


def console(*, error: bool = False) -> Console:
    """Make a rich console, for tables."""
    from rich.console import Console

    class Ours(Console):
        def print(self, *what: Any, **how: Any) -> None:
            with to_output(error):
                super().print(*what, **how)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with exit code 1

    plain: dict[str, Any] = {"color_system": None} if coloured() is False else {}  # else rich still prints bold and dim
    return Ours(width=width(), stderr=error, highlight=False, markup=False, emoji=False, soft_wrap=False, **plain)


def say_line(text: str = "", **style: Any) -> None:
    """Print a line; colours are only printed to a terminal."""
    text = folded(text, sys.stdout)
    with to_output():
        click.echo(click.style(text, **style) if style else text, color=coloured())


def folded(text: str, out: Any) -> str:
    """Return a text with long lines broken between words for a terminal; for other outputs, the same text."""
    if not out.isatty():
        return text
    from textwrap import wrap

    room = width()
    lines: list[str] = []
    for line in text.split("\n"):
        more = line[: len(line) - len(line.lstrip())] + "  "
        broken = wrap(line, room, subsequent_indent=more, break_long_words=False, break_on_hyphens=False)
        lines += broken if len(line) > room else [line]
    return "\n".join(lines)


def coloured() -> bool | None:
    """Return click's argument `color`: False if NO_COLOR is set, None to let the output decide."""
    return False if os.environ.get("NO_COLOR") else None


def plain_table() -> Table:
    """Make a table without lines."""
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")


def say_note(text: str) -> None:
    """Print a line on stderr; control characters are escaped, because file names may contain them."""
    click.echo(folded(showable(text), sys.stderr), err=True)


def say_written(path: str, kind: str, rows: int, batches: int, as_json: bool) -> None:
    """Print what was written, and where; to stderr if the data go to standard output."""
    if as_json:
        document = {"rows": rows, "batches": batches, "written": showable(path), "format": kind}
        say_json(document, line=path == "-", error=path == "-")
    elif path != "-":
        say_note(f"{path}: {counted(rows, 'row')} in {counted(batches, 'batch', 'batches')}")


# -- JSON ----------------------------------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """Return a value of an array as a type of JSON.

    Bytes are Base64; decimals, NaN and infinities are strings; dates and times are ISO 8601; integers keep all
    their digits.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(seconds=1)
    return str(value)


def _fine_json(kind: Any, number: int) -> Any:
    """Return a time with a fraction of a microsecond: a duration in seconds, others in ISO 8601 with all digits."""
    return number / 10**9 if isinstance(kind, at.Duration) else scalar_text(number, kind).replace(" ", "T")


#: Argument ``extensions`` of to_pylist, for values that `as_json` converts.
FINE_JSON: Any = FineTimes(_fine_json, extensions=None)


def json_text(document: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return a document as JSON; non-printable characters are escaped, so that none of them can control a terminal."""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\n":  # a line break in a string is escaped already
        return character
    return json.dumps(character)[1:-1] if character > "\x7f" else f"\\u{ord(character):04x}"


def say_json(document: Any, *, line: bool = False, error: bool = False) -> None:
    """Print one document; with `line`, as one line among others; with `error`, on stderr."""
    out = sys.stderr if error else sys.stdout
    indent = 2 if out.isatty() and not line else None
    ascii_only = (out.encoding or "").lower().replace("-", "") != "utf8"
    with to_output(error):
        out.write(json_text(document, indent=indent, ascii_only=ascii_only) + "\n")


def metadata_json(pairs: Iterable[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """Return metadata in order, with duplicates: values are text if they are UTF-8, else Base64 under another key."""
    out = []
    for key, value in pairs:
        entry: dict[str, Any] = {"key": key.decode("utf-8", "backslashreplace")}
        try:
            entry["value"] = value.decode()
        except UnicodeDecodeError:
            entry["base64"] = b64encode(value).decode()
        out.append(entry)
    return out


# -- progress ------------------------------------------------------------------------------------------------


class Progress:
    """Shows bytes, rate and time left of work that takes more than a second, on stderr if it is a terminal.

    It shows nothing if `output` is - and goes to the same terminal.
    """

    def __init__(self, title: str, total: int | None = None, output: str | None = None) -> None:
        self._title, self._total = title, total or None
        self.done: float = 0.0
        hidden = (output == "-" and sys.stdout.isatty()) or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb"
        self._timer = None if hidden else threading.Timer(1.0, self._show)
        self._bar: Any = None

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.stop()

    def advance(self, amount: float) -> None:
        """Add bytes to the progress."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """Set the number of bytes done so far."""
        self.done = done
        if self._bar is not None:
            self._bar.update(0, completed=min(self.done, self._total or self.done), rate=self._rate())

    def _rate(self) -> str:
        """Return the mean rate: the bar itself knows none if most of the work is done before it is there."""
        return f"{size_text(int(self.done / (time.monotonic() - self._start)))}/s"

    def _show(self) -> None:
        from rich import progress as p

        known = self._total and self.done
        sizes = [p.DownloadColumn(), p.TextColumn("[progress.data.speed]{task.fields[rate]}")] if self.done else []
        left = p.TimeRemainingColumn() if known else p.TimeElapsedColumn()
        columns = (p.TextColumn("{task.description}"), p.BarColumn(20), *sizes, left)
        with suppress(OSError, ValueError):  # stderr was closed: ignore that
            bar = p.Progress(*columns, console=console(error=True), transient=True)
            total = self._total if known else None
            bar.add_task(self._title, total=total, completed=int(self.done), rate=self._rate())
            bar.start()
            self._bar = bar


def fit(texts: Sequence[str]) -> int:
    """Return the width of a column with these texts, in characters."""
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)
