"""Shows what the job found: lines on the terminal, and one HTML page with a picture, which loads nothing."""

import html
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from arrowipc.errors import printable

if TYPE_CHECKING:
    from pipeline import Job

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


@dataclass(slots=True)
class Step:
    """One step: its name, its seconds, and the rows that came out of it, if any."""

    name: str
    seconds: float = 0.0
    rows: int | None = None

    def numbers(self) -> tuple[str, str, str]:
        """Seconds, rows, and rows per second."""
        if self.rows is None:
            return f"{self.seconds:.2f}", "", ""
        return f"{self.seconds:.2f}", f"{self.rows:,}", f"{self.rows / self.seconds:,.0f}"


@dataclass(slots=True)
class Stopwatch:
    """Times steps, and prints a line for each."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time the body, which may set ``rows`` of the step."""
        step = Step(name)
        print(f"{printable(name):<36}", end="", flush=True)
        start = time.perf_counter()
        yield step
        step.seconds = time.perf_counter() - start
        self.steps.append(step)
        seconds, rows, rate = step.numbers()
        print(f"{seconds:>7} s" + (f"{rows:>12} rows{rate:>12} rows/s" if rows else ""), flush=True)


def show(job: "Job", report: Path) -> None:
    """Print whether the sources agree, the answer of the query, and where the results are."""
    lines = ["", *verdict(job)]
    if job.query is not None:
        text, answer = job.query
        lines += ["", text, *("  " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in answer)]
    lines += ["", "Arrow files were read and written by Spark's file format in the JVM.", ""]
    lines += [f"written: {path}" for path in [*job.written, report]]
    print("\n".join(printable(part) for line in lines for part in line.split("\n")))


def verdict(job: "Job") -> list[str]:
    """Whether the sources agree, and some of the rows that differ."""
    found = job.comparison
    if found is None:
        return ["There was only one source, so nothing was compared."]
    if not found.differing:
        return [f"same rows: {', '.join(found.names)} ({found.counts[0]:,} rows each)"]
    counts = ", ".join(f"{name}: {count:,} rows" for name, count in zip(found.names, found.counts, strict=True))
    first = f"{found.differing:,} distinct rows differ ({counts}). Nothing was written. Some of these rows:"
    return [first, *(f"  {text}" for text in found.examples)]


def _escape(text: str) -> str:
    """Escape text from data: no markup, and no characters that hide text or change its direction."""
    return html.escape(printable(text))


def write_report(job: "Job", title: str, steps: Sequence[Step], path: Path) -> None:
    """Write the page: the verdict, the picture, the query, the timings. The folder of ``path`` is created."""
    body = [f"<h1>{_escape(title)}</h1>", *(f"<p>{_escape(text)}</p>" for text in verdict(job))]
    if job.groups:
        unit = " in minutes" if job.flights else ""
        what = f"Mean of {job.value}{unit}" if job.value else "Number of rows"
        body.append(f"<h2>{_escape(what)} by {_escape(', '.join(job.by))}</h2>{_bars(job)}")
    if job.query is not None:
        text, answer = job.query
        body.append(f"<h2>A query of the table in SQL</h2><pre>{'<br/>'.join(map(_escape, text.splitlines()))}</pre>")
        body.append(_table([*answer[0]] if answer else [], [[str(value) for value in row.values()] for row in answer]))
    rows = [[step.name, *step.numbers()] for step in steps]
    body.append(f"<h2>Timings</h2>{_table(['step', 'seconds', 'rows', 'rows/s'], rows)}")
    footer = f"Arrow files were read and written by Spark's file format in the JVM; {job.machine}."
    body.append(f"<footer>{_escape(footer)}</footer>")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline'">"""
        f"<title>{_escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    lines = ("".join(f"<td>{_escape(text)}</td>" for text in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _bars(job: "Job") -> str:
    """A bar per group, of the groups with the most rows. Bars of negative numbers end at zero; no mean is a dash."""
    column = f"mean_{job.value}" if job.value else "rows"
    most = sorted(range(len(job.groups)), key=lambda index: -job.groups[index]["rows"])[:MOST_BARS]
    groups = [job.groups[index] for index in sorted(most)]
    lengths = [float(row[column] or 0) for row in groups]
    drawn = [length if isfinite(length) else 0.0 for length in lengths]
    least, reach = min(0.0, *drawn), max(0.0, *drawn) - min(0.0, *drawn) or 1.0
    rows = []
    for row, length, bar in zip(groups, lengths, drawn, strict=True):
        name = _escape(", ".join(str(row[key]) for key in job.by))
        number = f"{length:,.0f}" if abs(length) >= 100 else f"{length:.3g}"
        place = f"margin-left:{100 * (min(0.0, bar) - least) / reach:.2f}%;width:{100 * abs(bar) / reach:.2f}%"
        number = number if row[column] is not None else "–"
        rows.append(f'<tr><td>{name}</td><td><div style="{place}"></div></td><td>{number}</td></tr>')
    return f'<table class="bars">{"".join(rows)}</table>'
