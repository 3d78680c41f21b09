"""`browse`: a source as one HTML page, or as a summary in a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from arrowipc.cli.browse_page import Browsed, page_of
from arrowipc.cli.outputs import refuse_overwriting
from arrowipc.cli.sources import about, source, target
from arrowipc.cli.terminal import FILE, counted, json_option, say_json, say_line, say_note, width
from arrowipc.errors import showable
from arrowipc.values.preview import size_text


@click.command()
@FILE
@click.option("-o", "--output", metavar="PAGE", type=click.Path(), help="Write an HTML page; the name ends with .html.")
@click.option("--force", is_flag=True, help="Overwrite existing output.")
@json_option
def browse(file: str, output: str | None, force: bool, as_json: bool) -> None:
    """Show rows, columns with statistics, batches, layout and errors of FILE.

    With -o, they are written to an HTML page of at most 3 MB that needs no other file, with the first and the last
    rows, batches and messages. Without -o, a summary is printed, in a pager if the output is a terminal.

    JSON: {"overview", "rows", "layout", "message", "batches", "statistics", "faults"}: the contents of a page.
    """
    if output is not None:
        if not output.lower().endswith((".html", ".htm")):
            raise click.UsageError(f"{output}: the page is HTML; use a name that ends with .html")
        refuse_overwriting(output, force, [file])
    from arrowipc.inspection.recover import whole

    with about(file):
        name = "standard input" if file == "-" else os.path.basename(showable(file)) or showable(file)
        found = Browsed(name, whole(source(file), True))
        if output is None and not as_json:
            _say(found)
            return
        document = found.document()
        if output is not None:
            with about(output, True), target(output) as written:
                written.write(page_of(document).encode())
        say_json(document) if as_json else say_note(f"written: {output}")


def _say(found: Browsed) -> None:
    """Print all that is known without reading every value, in a pager where there is a terminal."""
    from contextlib import redirect_stdout
    from io import StringIO

    if sys.stdout.isatty():
        text = StringIO()
        with redirect_stdout(text):
            _say_parts(found)
        click.echo_via_pager(text.getvalue())
    else:
        _say_parts(found)


def _say_parts(found: Browsed) -> None:
    from arrowipc.cli.rows import say_table

    layout = found.layout()
    kind = found.overview()["kind"]
    say_line(f"{found.name}: Arrow IPC {kind}, {size_text(found.size)}", bold=True)
    say_line(
        f"{counted(layout['rows'], 'row')}, {counted(len(found.schema), 'column')}, "
        f"{counted(layout['batches'], 'batch', 'batches')}, {counted(layout['messages'], 'message')}"
    )
    say_line()
    _say_strip(found, layout["pieces"], width())
    for error in filter(None, (found.error, layout["error"])):
        say_line(f"error: {error}; `arrowipc check` lists all", fg="red")
    if len(found.schema):
        say_line()
        say_table(found.schema, found.rows_by_number.slice(0, 10).batches, width())


#: Letters of the strip, which tell kinds apart without colours.
LETTERS = {"Schema": "S", "DictionaryBatch": "d", "RecordBatch": "#", "footer": "F", "magic": "A", "end marker": "e"}


def _say_strip(found: Browsed, pieces: list[dict[str, Any]], room: int) -> None:
    """Draw the source to scale, a letter for each stretch, and list the kinds that occur."""
    line = ["?"] * room
    for piece in pieces:
        at = min(piece["offset"] * room // max(found.size, 1), room - 1)
        for i in range(at, min(max((piece["offset"] + piece["length"]) * room // max(found.size, 1), at + 1), room)):
            line[i] = LETTERS.get(piece["kind"], "?")
    say_line("".join(line), fg="blue")
    for kind in dict.fromkeys([piece["kind"] for piece in pieces]):
        those = [(piece["messages"], piece["length"]) for piece in pieces if piece["kind"] == kind]
        number, size = map(sum, zip(*those, strict=True))
        say_line(f"  {LETTERS.get(kind, '?')} {kind:<16} {number:>8,}  {size_text(size)}")
