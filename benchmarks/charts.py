"""Draws results as SVG: a chart per family, a group of bars per case, on a logarithmic axis.

Written by hand: each mark has a class, and the style says once what it looks like on light and on dark pages,
which libraries for plotting cannot. The ground is left open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from benchmarks import FAMILIES
from benchmarks.report import amount
from benchmarks.summary import per_unit, ratio, shown

WIDTH = 800
BAR, STEP, LABEL, HEADING, APART = 11, 15, 17, 24, 8
#: Cases of a chart, if no more are named by rows of the speed table; contenders of a case.
CASES, CONTENDERS = 7, 5
#: What the text of a tick of the axis needs.
TICK = 64
#: Letters of a contender's name, and how wide one of them is.
LETTERS, LETTER = 22, 7.2

#: Contender -> (colour on light pages, on dark ones); ours first, then in the order of their bars.
COLOURS = {
    "arrowipc": ("#1f6feb", "#58a6ff"),
    "pyarrow": ("#d9822b", "#e3a35c"),
    "nanoarrow": ("#8957c9", "#b391e6"),
    "polars": ("#2f9e6e", "#56c596"),
    "arro3": ("#c2486b", "#e58aa4"),
    "other": ("#8b949e", "#7d8590"),
}

STYLE = (
    "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
    ".heading{font-size:13px;font-weight:600}.muted{fill:#59636e}.axis{fill:#59636e;font-size:11px}"
    ".ours{font-weight:600}.grid{stroke:#d1d9e0;stroke-width:1}"
    + "".join(f".{name}{{fill:{light}}}" for name, (light, _) in COLOURS.items())
    + "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.muted,.axis{fill:#9198a1}.grid{stroke:#3d444d}"
    + "".join(f".{name}{{fill:{dark}}}" for name, (_, dark) in COLOURS.items())
    + "}"
)


def write(results: Iterable[dict[str, Any]], folder: Path) -> dict[str, Path]:
    """Write a chart for each family of which something was measured; returns where they are."""
    results = list(results)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for family, questions in FAMILIES.items():
        found = [group for question in questions for group in chosen(results, question, len(questions))]
        if found:
            written[family] = folder / f"{family}.svg"
            written[family].write_text(chart(family, found))
    return written


def chosen(results: list[dict[str, Any]], question: str, of: int) -> list[dict[str, Any]]:
    """Return the cases of a question that are drawn: those that rows name, then others, spread evenly."""
    bytes_too = all(each["unit"] == "bytes" for each in results if each["question"] == question)
    able = [
        each
        for each in results
        if each["question"] == question and each["unit"] != "exponent" and drawn(each)
        if (each["unit"] == "bytes") == bytes_too
    ]
    named = [each for each in able if each["named"]]
    others = [each for each in able if each["goal"] and not each["named"]]
    others = others or [each for each in able if not each["named"]]
    room = max(CASES // of, 1) - len(named)
    if room > 0 and others:
        step = max(1, math.ceil(len(others) / room))
        named += others[::step][:room]
    return [each for each in able if each in named]


def drawn(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the contenders of a case that are drawn: ours, the baseline, the peers, then others."""
    ours, baseline = result["ours"], result["baseline"]
    order = [ours, baseline, *COLOURS]

    def place(measured: dict[str, Any]) -> int:
        name = measured["contender"]
        return order.index(name) if name in order else len(order)

    able = [each for each in result["timings"] if each["median"]]
    # Ways of using a library that are not the ones compared would be too many bars.
    variants = ("arrowipc ", "arrowipc,", "pyarrow ")
    able = [each for each in able if place(each) < 2 or not each["contender"].startswith(variants)]
    return sorted(able, key=place)[:CONTENDERS]


class Axis:
    """A logarithmic axis of decades.

    Attributes
    ----------
    left, right : float
        Where the bars begin, and where the longest may end.
    unit : str
        "bytes", or what seconds are given for.
    """

    def __init__(self, values: list[float], left: float, right: float, unit: str) -> None:
        self.left, self.right, self.unit = left, right, unit
        self._one = 2.0**20 if unit == "bytes" else 1.0
        # The shortest bar has to be seen: the axis begins well below it.
        self._first = math.floor(math.log10(min(values) / self._one / 1.6))
        self._last = math.log10(max(values) / self._one)

    def place(self, value: float) -> float:
        """Return where a value is."""
        part = (math.log10(value / self._one) - self._first) / max(self._last - self._first, 0.1)
        return self.left + part * (self.right - self.left)

    def grid(self, bottom: float) -> Iterator[str]:
        """Yield a line per decade, with what it stands for where there is room."""
        apart = (self.right - self.left) / max(self._last - self._first, 0.1)
        for power in range(self._first, math.floor(self._last) + 1):
            value = 10.0**power * self._one
            x = self.place(value)
            text = re.sub(r"(\.\d*?)0+ ", r"\1 ", amount(value, self.unit)).replace(". ", " ")
            yield f'<line class="grid" x1="{x:.1f}" y1="{HEADING}" x2="{x:.1f}" y2="{bottom}"/>'
            if (power - self._first) % math.ceil(TICK / apart) == 0:
                yield words(x, bottom + 13, text, "axis", "middle")


def chart(family: str, results: list[dict[str, Any]]) -> str:
    """Return the chart of some cases as SVG."""
    names = [short(each["contender"]) for result in results for each in drawn(result)]
    values = [each["median"] for result in results for each in drawn(result)]
    behind = max(len(said(result, each)) for result in results for each in drawn(result))
    left, right = LETTER * max(map(len, names)) + 10, WIDTH - LETTER * behind - 8
    axis = Axis(values, left, right, results[0]["unit"])
    marks: list[str] = []
    y, title = 0, ""
    for result in results:
        if result["title"] != title:
            title = result["title"]
            y += HEADING
            marks.append(words(0, y - 7, title, "heading"))
        y += LABEL
        marks.append(words(0, y - 5, result["case"] + per_unit(result), "muted"))
        for measured in drawn(result):
            marks += bar(result, measured, axis, y)
            y += STEP
        y += APART
    size = f'width="{WIDTH}" height="{y + 18}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 18}" {size} role="img">',
            f"<title>{escape(what(family))}</title>",
            f"<style>{STYLE}</style>",
            *axis.grid(y),
            *marks,
            "</svg>\n",
        )
    )


def what(family: str) -> str:
    """Return what a chart shows, for those who cannot see it."""
    return f"{family}: {'peak memory' if family == 'memory' else 'time per unit'}, by library"


def bar(result: dict[str, Any], measured: dict[str, Any], axis: Axis, y: float) -> Iterator[str]:
    """Yield the marks of one contender: its name, its bar, its figure."""
    name = measured["contender"]
    ours = name == result["ours"]
    end = max(axis.place(measured["median"]), axis.left + 1)
    style = "ours" if ours else "muted"
    kind = name if name in COLOURS else "arrowipc" if ours else name.partition(" ")[0]
    yield words(axis.left - 6, y + BAR - 2, short(name), style, "end")
    yield (
        f'<rect class="{kind if kind in COLOURS else "other"}" x="{axis.left:.1f}" y="{y}" '
        f'width="{end - axis.left:.1f}" height="{BAR}" rx="2"/>'
    )
    yield words(end + 6, y + BAR - 2, said(result, measured), style)


def said(result: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return what stands behind the bar of a contender: its figure, on ours the ratio too."""
    text = shown(result, measured)
    if measured["contender"] != result["ours"] or not ratio(measured):
        return text
    against = "" if result["baseline"] == "pyarrow" else f" {short(result['baseline'])}"
    return f"{text} · {ratio(measured)}{against}"


def short(name: str) -> str:
    """Return a name that fits before the bars."""
    return name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"


def words(x: float, y: float, text: str, style: str, anchor: str = "start") -> str:
    """Return a text."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{end}>{escape(text)}</text>'
