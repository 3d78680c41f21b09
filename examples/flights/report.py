"""Shows what the job found: lines on the terminal, and one HTML page with a picture, which loads nothing."""

import html
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from arrowipc.arguments import printable
from pipeline import Result, Step

__all__ = ["show", "step_line", "write_report"]

MOST_BARS = 40
_STYLE = (
    ":root{color-scheme:light dark;--line:#8884;--bar:#1f6fd0}"
    "body{max-width:720px;margin:0 auto;padding:24px 16px;font:16px/1.5 system-ui,sans-serif}"
    "h1{font-size:26px;line-height:1.2}h2{font-size:19px;margin:36px 0 4px}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "td,th{padding:4px 6px;border-bottom:1px solid var(--line);text-align:right;font-weight:400;white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left;white-space:normal}"
    ".bars td{border:0;padding:2px 8px}.bars td:nth-child(2){width:80%}"
    ".bars div{height:18px;background:var(--bar);border-radius:2px}"
    "pre{white-space:pre-wrap;font-size:14px}footer{margin-top:36px;font-size:14px}"
)


def size_text(size: float) -> str:
    """Bytes for people, in decimal units."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return f"{size / limit:.3g} {unit}"
    return f"{size:.0f} B"


def _numbers(step: Step) -> tuple[str, str, str, str]:
    """Seconds, rows, rows per second and bytes per second."""
    return (
        f"{step.seconds:.2f}",
        "" if step.rows is None else f"{step.rows:,}",
        "" if step.rows is None else f"{step.rows / step.seconds:,.0f}",
        "" if step.size is None else f"{size_text(step.size / step.seconds)}/s",
    )


def step_line(step: Step) -> str:
    """What follows the name of a step on the terminal."""
    seconds, rows, rate, speed = _numbers(step)
    return f"{seconds:>7} s" + (f"{rows:>12} rows{rate:>12} rows/s {speed:>12}" if rows else "")


def show(result: Result, report: Path) -> None:
    """Print whether the sources agree, the answer of the query, and where the results are."""
    lines = ["", verdict(result), *_examples(result)]
    if result.query is not None:
        text, answer = result.query
        lines += ["", text, *("  " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in answer)]
    lines += ["", f"Arrow files were read and written by {result.reader}.", ""]
    lines += [f"written: {path}" for path in [*result.written, report]]
    print("\n".join(printable(part) for line in lines for part in line.split("\n")))


def verdict(result: Result) -> str:
    """Say whether the sources agree."""
    found = result.comparison
    if found is None:
        return "There was one source only, and nothing to compare."
    if not found.differing:
        return f"same rows: {', '.join(found.names)} ({found.counts[0]:,} rows each)"
    counts = ", ".join(f"{name}: {count:,} rows" for name, count in zip(found.names, found.counts, strict=True))
    return f"{found.differing:,} distinct rows differ ({counts}). Nothing was written. Some of these rows:"


def _examples(result: Result) -> list[str]:
    return [] if result.comparison is None else [f"  {text}" for text in result.comparison.examples]


def _escape(text: str) -> str:
    """Escape text from data: no markup, and no characters that hide text or change its direction."""
    return html.escape(printable(text))


def write_report(result: Result, path: Path) -> None:
    """Write the page.

    Parameters
    ----------
    result : Result
        What the job found.
    path : Path
        The HTML file; its directory is made.
    """
    body = [f"<h1>{_escape(result.title)}</h1>"]
    body += [f"<p>{_escape(text)}</p>" for text in (verdict(result), *_examples(result))]
    if result.groups:
        what = f"Mean of {result.value}" if result.value else "Number of rows"
        body.append(f"<h2>{_escape(what)} by {_escape(', '.join(result.by))}</h2>{_bars(result)}")
    if result.query is not None:
        text, answer = result.query
        body.append(f"<h2>A query of the table in SQL</h2><pre>{'<br/>'.join(map(_escape, text.splitlines()))}</pre>")
        body.append(_table([*answer[0]] if answer else [], [[str(value) for value in row.values()] for row in answer]))
    steps = [[step.name, *_numbers(step)] for step in result.steps]
    body.append(f"<h2>Timings</h2>{_table(['step', 'seconds', 'rows', 'rows/s', 'Arrow IPC'], steps)}")
    footer = f"Arrow files were read and written by {result.reader}; {result.machine}."
    body.append(f"<footer>{_escape(footer)}</footer>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline'">"""
        f"<title>{_escape(result.title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    lines = ("".join(f"<td>{_escape(text)}</td>" for text in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _bars(result: Result) -> str:
    """A bar per group, of the groups with the most rows; bars of negative numbers end at zero."""
    column = f"mean_{result.value}" if result.value else "rows"
    most = sorted(range(len(result.groups)), key=lambda index: -result.groups[index]["rows"])[:MOST_BARS]
    groups = [result.groups[index] for index in sorted(most)]
    names = [", ".join(str(row[name]) for name in result.by) for row in groups]
    values = [float("nan") if row[column] is None else float(row[column]) for row in groups]
    drawn = [value for value in values if isfinite(value)]
    least, reach = min([0.0, *drawn]), max([0.0, *drawn]) - min([0.0, *drawn]) or 1.0
    rows = []
    for name, value in zip(names, values, strict=True):
        length = value if isfinite(value) else 0.0
        number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        place = f"margin-left:{100 * (min(0.0, length) - least) / reach:.2f}%;width:{100 * abs(length) / reach:.2f}%"
        rows.append(f'<tr><td>{_escape(name)}</td><td><div style="{place}"></div></td><td>{number}</td></tr>')
    return f'<table class="bars">{"".join(rows)}</table>'
