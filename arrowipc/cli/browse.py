"""`browse`: a source as one HTML page."""

from __future__ import annotations

import os

import click

from arrowipc.cli.browse_page import browsed, page_of
from arrowipc.cli.outputs import refuse_overwriting
from arrowipc.cli.sources import about, source, target
from arrowipc.cli.terminal import FILE, json_option, say_json, say_note
from arrowipc.errors import showable


@click.command()
@FILE
@click.option("-o", "--output", metavar="PAGE", type=click.Path(), help="Write an HTML page; the name ends with .html.")
@click.option("--force", is_flag=True, help="Overwrite existing output.")
@json_option
def browse(file: str, output: str | None, force: bool, as_json: bool) -> None:
    """Write an HTML page with rows, columns with statistics, batches, layout and errors of FILE.

    The page has at most 3 MB and needs no other file. Of a large FILE, it has the first and the last rows, batches and
    messages.

    \b
    Example:
      arrowipc browse taxi.arrow -o taxi.html

    JSON: {"name", "kind", "size", "error", "num_columns", "columns", "rows", "statistics", "layout", "check"}: the
    contents of a page.
    """
    if output is None and not as_json:
        raise click.UsageError("use -o PAGE.html, or --json")
    if output is not None:
        if not output.lower().endswith((".html", ".htm")):
            raise click.UsageError(f"{output}: the page is HTML; use a name that ends with .html")
        refuse_overwriting(output, force, [file])
    from arrowipc.sources.source import whole

    with about(file):
        name = "standard input" if file == "-" else os.path.basename(showable(file)) or showable(file)
        document = browsed(name, whole(source(file), True))
        if output is not None:
            with about(output, True), target(output) as written:
                written.write(page_of(document).encode())
        say_json(document) if as_json else say_note(f"written: {output}")
