"""Prints results as tables in the terminal, and says figures in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Result, Timing


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
        return f"{digits(value / 2**20)} MiB"
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
        self.table(title, HEADER, rows, numbers=range(1, 5), bold=result.ours)
        self.line("\n".join([*notes, ""]))

    def table(
        self,
        title: str,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        numbers: Sequence[int] = (),
        bold: str = "",
    ) -> None:
        """Write a table; columns of `numbers` are aligned to the right, the row of `bold` is bold."""
        if self._console is None:
            print(plain_table(title, header, rows, numbers), flush=True)
            return
        from rich.table import Table

        # As a title of the table it would be wrapped to the table's width.
        self._console.print(title, style="bold", markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False)
        for index, name in enumerate(header):
            number = index in numbers
            table.add_column(name, justify="right" if number else "left", no_wrap=number)
        for cells in rows:
            table.add_row(*map(coloured, cells), style="bold" if cells[0] == bold else "")
        self._console.print(table)


def coloured(cell: str) -> str:
    """Return a cell in rich's markup: verdicts have colours."""
    from rich.markup import escape

    said = cell.rpartition(": ")[2] if cell.startswith("goal ") else cell
    if said == "met":
        return f"[green]{escape(cell)}[/]"
    return f"[red]{escape(cell)}[/]" if said.startswith(("MISSED", "FAILED")) else escape(cell)


def plain_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table in columns."""
    lines = [header, *rows]
    widths = [max(len(cells[i]) for cells in lines) for i in range(len(header))]
    text = [
        "  ".join(
            c.rjust(w) if i in numbers else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
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
