"""`browse`: a look into a source, in a browser or a terminal."""

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
@click.option("-o", "--output", metavar="PAGE", type=click.Path(), help="Write the page there: a name with .html.")
@click.option("--force", is_flag=True, help="Overwrite what is there already.")
@click.option("--terminal", is_flag=True, help="Here, in a pager; so it is anyway where the output is a pipe.")
@click.option("--serve", is_flag=True, help="Serve the page until Ctrl-C and print its address; open no browser.")
@json_option
def browse(file: str, output: str | None, force: bool, terminal: bool, serve: bool, as_json: bool) -> None:
    """Look into FILE: its layout, batches, columns with statistics, rows and faults.

    A browser opens with one page, which asks this command for what is to be seen next, until Ctrl-C: only this
    machine can reach it, and only who has its address. With -o the page is written instead, below 3 MB, with the
    first and the last rows, batches and messages. Statistics and faults need all values: live, beyond 64 MiB,
    they wait until they are asked for.

    JSON: {"overview", "rows", "layout", "message", "batches", "statistics", "faults"}: what a page holds.
    """
    if output is not None:
        if not output.lower().endswith((".html", ".htm")):
            raise click.UsageError(f"the page is HTML: {output!r} does not end with .html")
        refuse_overwriting(output, force, [file])
    from arrowipc.inspection.recover import whole

    with about(file):
        name = "standard input" if file == "-" else os.path.basename(showable(file)) or showable(file)
        found = Browsed(name, whole(source(file), True))
        if as_json or output is not None:
            document = found.document()
            if output is not None:
                with about(output, True), target(output) as written:
                    written.write(page_of(document).encode())
            say_json(document) if as_json else say_note(f"written: {output}")
        elif terminal or not (serve or sys.stdout.isatty()):
            _say(found)
        else:
            from arrowipc.cli.browse_server import served

            served(found, open_browser=not serve)


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
        say_line(f"fault: {error}; `arrowipc check` finds all", fg="red")
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
