"""`browse`: the contents of a source as one HTML page without code, of bounded size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import click

import arrowipc as ipc
from arrowipc.cli.layout import layout_of
from arrowipc.cli.outputs import refuse_overwriting
from arrowipc.cli.sources import PLACE, about, for_shell, source, target
from arrowipc.cli.terminal import FILE, Progress, json_option, say_json, say_note
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.errors import ArrowIpcError, printable, showable
from arrowipc.sources.source import whole
from arrowipc.values.preview import NULL, counted, shorten, size_text, type_text, value_text

if TYPE_CHECKING:
    from arrowipc.limits import Limits

#: Rows at each end; columns with rows; columns listed; characters of a value.
ROWS, WIDE, COLUMNS, CELL = 100, 40, 2000, 120
#: First words of types whose values are aligned to the right, and of types whose values are not wrapped.
NUMBERS = ("int", "uint", "float", "double", "half", "decimal")
TIMES = ("date", "time", "duration")

STYLE = """
:root { color-scheme: light dark; --soft: light-dark(#f3f5f8, #1e232a); --line: light-dark(#d3d9e0, #39414c);
--dim: light-dark(#57606a, #a3adb9); --bad: light-dark(#b3261e, #ff9a92); }
body { margin: 1rem; font: 14px/1.45 system-ui, sans-serif; background: light-dark(#fff, #14171c); }
h1, h2 { font-size: 1.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin-top: 2rem; }
nav a { margin-right: 1rem; }
div { overflow: auto; max-height: 75vh; width: fit-content; max-width: 100%; border: 1px solid var(--line); }
table { width: max-content; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
white-space: pre-wrap; overflow-wrap: break-word; max-width: 28rem; }
th, .right, .whole { white-space: nowrap; }
th { position: sticky; top: 0; background: var(--soft); }
small, i { color: var(--dim); }
small { display: block; font-weight: normal; white-space: normal; }
.right { text-align: right; }
.bad { color: var(--bad); }
svg { display: block; width: 100%; height: 2.4rem; margin: .3rem 0; }
rect { fill: #8292a8; stroke: light-dark(#fff, #14171c); }
.RecordBatch, .data, .body { fill: #2f7ed8; }
.Schema, .footer, .metadata { fill: #8a63d2; }
.DictionaryBatch, .indices { fill: #c77d0a; }
.validity { fill: #3f9b63; }
.offsets, .sizes, .views, .type { fill: #2aa3b8; }
.padding, .magic, .end { fill: #b4bcc8; }
.rest { fill: #d9534f; }
"""


@click.command()
@FILE
@click.option("-o", "--output", metavar="PAGE", type=PLACE, help="Write an HTML page; the name ends with .html.")
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
    with about(file):
        name = "standard input" if file == "-" else os.path.basename(showable(file)) or showable(file)
        document = browsed(name, whole(source(file), True))
        if output is not None:
            with about(output, True), target(output) as written:
                written.write(page_of(document).encode())
        say_json(document) if as_json else say_note(f"written: {output}")


def browsed(name: str, data: Any, limits: Limits | None = None) -> dict[str, Any]:
    """Return the contents of a page: a document of bounded size, in which all texts are printable."""
    buffer = memoryview(data).cast("B")
    error = None
    try:
        reader: Any = ipc.open(buffer, index=True, validate="none", limits=limits)
    except ArrowIpcError as caught:
        error = printable(for_shell(str(caught)))
        with ipc.recover(buffer, limits=limits, resync=True) as saved:  # raises if nothing can be recovered
            reader = ipc.Table(saved.schema, list(saved))
    schema = reader.schema
    shown = schema.fields[:COLUMNS]
    return {
        "name": printable(name),
        "kind": "file" if buffer[:6] == MAGIC else "stream",
        "size": len(buffer),
        "error": error,
        "num_columns": len(schema),
        "columns": [[printable(shorten(f.name, CELL)), type_text(f.type, CELL), f.nullable] for f in shown],
        "rows": _tried(_rows, reader),
        "statistics": _tried(_statistics, buffer),
        "layout": _tried(layout_of, buffer, schema, limits),
        "check": _tried(_checked, buffer),
    }


def _tried(part: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return a part of the document, or an error in its place."""
    try:
        return part(*arguments)
    except (ArrowIpcError, OSError, MemoryError, IndexError) as error:
        return {"error": printable(str(error) or type(error).__name__)}


def _rows(reader: Any) -> dict[str, Any]:
    """Return the first and the last rows of the first columns, with their numbers."""
    total = reader.num_rows if isinstance(reader, ipc.Table) else reader.count_rows()
    fields = range(min(WIDE, len(reader.schema)))
    found = []
    for start in sorted({0, max(total - ROWS, min(ROWS, total))}):
        for batch in reader.slice(start, ROWS).batches:
            found += [[start + i, *[_cell(batch.column(k), i) for k in fields]] for i in range(len(batch))]
            start += len(batch)
    return {"total": total, "rows": found}


def _cell(column: Any, row: int) -> str | None:
    text = value_text(column, row, CELL, quotes=False)
    return None if text is NULL else text


def _statistics(buffer: memoryview) -> dict[str, Any]:
    from arrowipc.cli.stat import TITLES, cells_of, survey

    found = survey(buffer)
    rows = [list(cells_of(found, column).values())[2:] for column in found.columns[:COLUMNS]]
    return {"titles": TITLES[2:], "rows": rows}


def _checked(buffer: memoryview) -> dict[str, Any]:
    from arrowipc.cli.check import checked

    with Progress("checking", len(buffer)) as progress:
        found = checked(buffer, progress.reach)
    for name, text in (("damage", "reason"), ("remarks", "words")):
        found[name] = [{**each, text: printable(for_shell(each[text][:1000]))} for each in found[name][:ROWS]]
    for each in found["damage"]:
        each["column"] = None if each["column"] is None else printable(str(each["column"]))[:CELL]
    return found


# -- the page ------------------------------------------------------------------------------------------------


def page_of(found: dict[str, Any]) -> str:
    """Return the page: all texts are escaped, and no code in it may run."""
    layout, rows = found["layout"], found["rows"]
    facts = [f"Arrow IPC {found['kind']}", counted(found["num_columns"], "column"), size_text(found["size"])]
    if "total" in rows:
        facts.insert(1, counted(rows["total"], "row"))
    if "batches" in layout:
        facts.append(counted(layout["batches"], "batch", "batches"))
    title = escape(found["name"])
    parts = {
        "Rows": _rows_html(found),
        "Columns": _columns_html(found),
        "Layout": _layout_html(layout),
        "Errors": _check_html(found["check"]),
    }
    links = "".join([f'<a href="#{each}">{each}</a>' for each in parts])
    sections = "".join([f'<h2 id="{each}">{each}</h2>{"".join(lines)}' for each, lines in parts.items()])
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1><p>{', '.join(facts)}</p>{_problem(found)}<nav>{links}</nav>{sections}</html>\n"
    )


def _problem(part: dict[str, Any]) -> str:
    return f'<p class="bad">{escape(part["error"])}</p>' if part.get("error") else ""


def _table(
    titles: Iterable[str], rows: Iterable[Sequence[Any]], right: Iterable[int] = (), whole: Iterable[int] = ()
) -> str:
    """Return a table; titles are HTML, cells are text, numbers or None.

    Columns in `right` are aligned to the right, those in `whole` are not wrapped.
    """
    classes = {**dict.fromkeys(whole, " class=whole"), **dict.fromkeys(right, " class=right")}

    def cell(tag: str, i: int, html: str) -> str:
        return f"<{tag}{classes.get(i, '')}>{html}"

    def text(value: Any) -> str:
        return "<i>null</i>" if value is None else f"{value:,}" if isinstance(value, int) else escape(value)

    lines = ["".join([cell("th", i, title) for i, title in enumerate(titles)])]
    lines += ["".join([cell("td", i, text(value)) for i, value in enumerate(row)]) for row in rows]
    return f"<div tabindex=0><table><tr>{'<tr>'.join(lines)}</table></div>"


def _titled(name: str, kind: str) -> str:
    name = escape(name) or '""'
    return f"{name}<small>{escape(kind)}</small>"


def _rows_html(found: dict[str, Any]) -> Iterator[str]:
    yield _problem(found["rows"])
    if rows := found["rows"].get("rows"):
        if found["rows"]["total"] > len(rows):
            yield f"<p>The first and the last {ROWS} rows; <code>arrowipc head</code> shows others.</p>"
        columns = found["columns"][:WIDE]
        right, whole = (
            [i for i, (_, kind, _) in enumerate(columns, 1) if kind.startswith(of)] for of in (NUMBERS, TIMES)
        )
        yield _table(["row", *[_titled(name, kind) for name, kind, _ in columns]], rows, [0, *right], whole)


def _columns_html(found: dict[str, Any]) -> Iterator[str]:
    known = found["statistics"]
    yield _problem(known)
    rows = known.get("rows", [()] * len(found["columns"]))
    more = found["num_columns"] - len(found["columns"])
    yield f"<p>and {counted(more, 'more column')}</p>" if more else ""
    yield _table(
        ["column", "type", "nullable", *known.get("titles", ())],
        [
            [name, kind, "yes" if null else "no", *row]
            for (name, kind, null), row in zip(found["columns"], rows, strict=True)
        ],
        (3, 6, 7, 8, 9),
    )


def _layout_html(layout: dict[str, Any]) -> Iterator[str]:
    yield _problem(layout)
    if parts := layout.get("parts"):
        yield _strip(parts)
        yield _table(["at byte", "bytes", "what"], [[p["offset"], p["length"], p["words"]] for p in parts], (0, 1))
    for part in parts or ():
        if inner := part["parts"]:
            yield f"<details><summary>{escape(part['words'])}</summary>{_strip(inner)}"
            titles = ["part", "column", "at byte", "bytes", "raw", "what"]
            rows = [
                [
                    p["kind"],
                    p["column"],
                    p["offset"],
                    p["length"],
                    "" if p["raw_length"] is None else p["raw_length"],
                    p["words"],
                ]
                for p in inner
            ]
            yield _table(titles, rows, (2, 3, 4)) + "</details>"


def _strip(parts: list[dict[str, Any]]) -> str:
    """Return a picture of parts, to scale."""
    start = parts[0]["offset"]
    whole = max(parts[-1]["offset"] + parts[-1]["length"] - start, 1)
    rects = [
        f'<rect class="{part["kind"]}" x="{(part["offset"] - start) / whole:.3%}" width="{part["length"] / whole:.3%}" '
        f'height="100%"><title>{escape(part["words"])}</title></rect>'
        for part in parts
    ]
    return f"<svg>{''.join(rects)}</svg>"


def _check_html(found: dict[str, Any]) -> Iterator[str]:
    yield _problem(found)
    if "verdict" in found:
        rows, batches = counted(found["rows"], "row"), counted(found["batches"], "batch", "batches")
        yield f"<p><b>{found['verdict']}</b>: {rows} in {batches} can be read safely</p>"
        faults = [["bad", each["offset"], each["column"], each["reason"]] for each in found["damage"]]
        faults += [["note", each["offset"], "", each["words"]] for each in found["remarks"]]
        if faults:
            blank = [["" if cell is None else cell for cell in row] for row in faults]
            yield _table(["what", "at byte", "column", "why"], blank, [1])
