"""Prints results: tables for people, JSON for machines, Markdown for the README."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.harness import Result, Timing

#: The columns of the README's table besides pyarrow and arrowipc.
PEERS = ("nanoarrow", "polars", "arro3")


def duration(seconds: float) -> str:
    """Return seconds with three digits and a unit that suits them."""
    for factor, unit in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if seconds < factor:
            return f"{digits(seconds / factor * 1000)} {unit}"
    return f"{digits(seconds)} s"


def digits(value: float) -> str:
    """Return three significant digits without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def amount(value: float, unit: str) -> str:
    """Return what was measured in its unit."""
    if math.isnan(value):
        return "-"
    if unit == "bytes":
        return f"{digits(value / 1e6)} MB"
    if unit == "exponent":
        return f"{value:.2f}"
    return duration(value)


def times(ratio: float) -> str:
    """Return how many times as fast."""
    return "" if math.isnan(ratio) else f"{digits(ratio)}x"


def row(result: Result, timing: Timing) -> list[str]:
    """Return the cells of one contender."""
    if timing.problem:
        return [timing.name, "cannot", "", "", "", ""]
    spread = ""
    if timing.high != timing.low:
        spread = f"{amount(timing.low, result.unit)} .. {amount(timing.high, result.unit)}"
    rate = ""
    if result.touched_per_unit is not None:
        rate = f"{result.touched_per_unit / timing.median / 1e9:.2f} GB/s"
    verdict = ""
    if timing.name == result.ours and result.goal and result.verdict:
        verdict = f"goal {result.goal}: {result.verdict}"
    return [timing.name, amount(timing.median, result.unit), spread, times(timing.ratio), rate, verdict]


HEADER = ("contender", "median", "quartiles", "times as fast", "touched", "")


class Printer:
    """Writes one table per case: with rich where it is installed, in plain columns where not."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            self._console: Any = None
        else:
            self._console = Console(highlight=False)
            if not self._console.is_terminal:
                self._console.width = 120  # a file or a pipe has no width: let no cell wrap

    def line(self, text: str = "") -> None:
        """Write a line."""
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(text, markup=False, soft_wrap=True)

    def result(self, result: Result) -> None:
        """Write the table of a case."""
        rows = [row(result, timing) for timing in result.timings.values()]
        notes = [f"{timing.name}: {timing.problem}" for timing in result.timings.values() if timing.problem]
        per = "" if result.unit in ("bytes", "exponent") else f", per {result.unit}"
        title = f"{result.case}{per}"
        if self._console is None:
            print("\n".join([plain_table(title, rows), *notes, ""]), flush=True)
            return
        from rich.table import Table

        # As a title of the table it would be wrapped to the table's width.
        self._console.print(title, style="bold", markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False)
        for index, name in enumerate(HEADER):
            table.add_column(name, justify="right" if 1 <= index <= 4 else "left", no_wrap=index < 5)
        for cells in rows:
            style = "bold" if cells[0] == result.ours else ""
            cells[-1] = coloured(cells[-1])
            table.add_row(*cells, style=style)
        self._console.print(table)
        self.line("\n".join([*notes, ""]))


def coloured(verdict: str) -> str:
    """Return a verdict in rich's markup."""
    from rich.markup import escape

    text = escape(verdict)
    if verdict.startswith("goal"):
        return f"[green]{text}[/]" if verdict.endswith("met") else f"[red]{text}[/]"
    return text


def plain_table(title: str, rows: list[list[str]]) -> str:
    """Return a table in columns."""
    lines = [list(HEADER), *rows]
    widths = [max(len(cells[i]) for cells in lines) for i in range(len(HEADER))]
    text = [
        "  ".join(
            c.rjust(w) if 1 <= i <= 4 else c.ljust(w)
            for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )
        for cells in lines
    ]
    return "\n".join([title, *(line.rstrip() for line in text)])


def environment_line(environment: dict[str, Any]) -> str:
    """Return what the numbers depend on, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    load = "" if environment["load"] is None else f", load {environment['load']} at the start"
    return (
        f"Python {environment['python']}, {versions}; {environment['cpu']}, {environment['cores']} cores, "
        f"{environment['system']}{load}; {environment['clock']}"
    )


def markdown(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the README's table from what ``--json`` wrote: the cases that have a goal."""
    columns = ("question", "pyarrow", "arrowipc", "times as fast", "goal", *PEERS)
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    question = ""
    for result in results["results"]:
        if not result["goal"]:
            continue
        if result["title"] != question:
            question = result["title"]
            yield f"| **{question}** |" + " |" * (len(columns) - 1)
        yield "| " + " | ".join(markdown_cells(result)) + " |"
    yield ""
    yield environment_line(results["environment"]) + "."


def markdown_cells(result: dict[str, Any]) -> Iterable[str]:
    """Return the cells of one row."""
    timings = {each["contender"]: each for each in result["timings"]}

    def cell(name: str) -> str:
        each = timings.get(name)
        if each is None or each["median"] is None:
            return "" if each is None else "cannot"
        return amount(each["median"], result["unit"])

    ours = timings[result["ours"]]
    ratio = times(ours["times_as_fast"]) if ours["times_as_fast"] is not None else ""
    if ratio and result["baseline"] != "pyarrow":
        ratio += f" {result['baseline']}"
    per = "" if result["unit"] in ("bytes", "exponent") else f", per {result['unit']}"
    goal = (
        ", ".join(filter(None, (result["goal"], result["verdict"]))).replace(">= ", "≥ ").replace("<= ", "≤ ")
    )
    names = (cell(name) for name in PEERS)
    return [result["case"] + per, cell("pyarrow"), cell(result["ours"]), ratio, goal, *names]
