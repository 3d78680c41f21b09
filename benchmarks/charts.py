"""Draws results as SVG, by Altair: a chart per family, a group of bars per case, on a logarithmic axis."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

from benchmarks import FAMILIES
from benchmarks.markdown import what
from benchmarks.report import amount
from benchmarks.summary import per_unit, ratio, shown

#: Of the picture, and of a line of it.
WIDTH, LINE = 800, 15
#: Cases of a chart, if no more are named by rows of the speed table; contenders of a case.
CASES, CONTENDERS = 7, 5
#: Letters of a contender's name, and how wide one of them is at most: which font there is, only the page knows.
LETTERS, LETTER = 22, 7.2
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"

#: Contender -> (colour on light pages, on dark ones); ours first, then in the order of their bars.
COLOURS = {
    "arrowipc": ("#1f6feb", "#58a6ff"),
    "pyarrow": ("#d9822b", "#e3a35c"),
    "nanoarrow": ("#8957c9", "#b391e6"),
    "polars": ("#2f9e6e", "#56c596"),
    "arro3": ("#c2486b", "#e58aa4"),
    "other": ("#8b949e", "#7d8590"),
}
INK, MUTED, GRID = ("#1f2328", "#e6edf3"), ("#59636e", "#9198a1"), ("#d1d9e0", "#3d444d")

#: Pictures are drawn for light pages; on a dark one each colour gives way to its other.
DARK = "".join(
    f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
    for light, dark in (*COLOURS.values(), INK, MUTED, GRID)
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


def chart(family: str, results: list[dict[str, Any]]) -> str:
    """Return the chart of some cases as SVG."""
    lines = list(lines_of(results))
    bars = [each for each in lines if "value" in each]
    values = [each["value"] for each in bars]
    # The shortest bar has to be seen: the axis begins well below it.
    first, last = math.floor(math.log10(min(values) / 1.6)), math.floor(math.log10(max(values)))
    decades = [10.0**power for power in range(first, last + 1)]
    left, right = (LETTER * max(len(each[field]) for each in bars) + 10 for field in ("name", "figure"))
    x = alt.X(
        "value:Q",
        scale=alt.Scale(type="log", domain=[decades[0], max(values)], nice=False),
        axis=alt.Axis(
            values=decades,
            labelExpr=f"{[decade(each, results[0]['unit']) for each in decades]}[indexof({decades}, datum.value)]",
            labelFlush=False,
            labelOverlap=True,
            title=None,
        ),
    )
    y = alt.Y("line:O", scale=alt.Scale(domain=list(range(len(lines) - 1)), padding=0.25), axis=None)
    begin = alt.XDatum(decades[0])
    colour = alt.Fill("colour:N", scale=None)
    drawing = (
        alt.layer(
            alt.Chart(alt.InlineData(values=bars)).mark_bar().encode(x, y, alt.X2Datum(decades[0]), colour),
            text(lines, "words", "left", -left).encode(begin, y),
            text(lines, "name", "right", -6).encode(begin, y),
            text(lines, "figure", "left", 6).encode(x, y),
        )
        .properties(
            width=WIDTH - left - right,
            height=LINE * (len(lines) - 1),
            autosize="none",
            padding={"left": left, "right": right, "top": 4, "bottom": 22},
        )
        .configure(background="transparent", font=FONT, aria=False)
        .configure_view(stroke=None)
        .configure_text(fontSize=12)
        .configure_axis(domain=False, ticks=False, gridColor=GRID[0], labelColor=MUTED[0], labelFontSize=11)
    )
    style = f"@media(prefers-color-scheme:dark){{{DARK}}}"
    file = io.StringIO()
    drawing.save(file, format="svg")
    tag, rest = file.getvalue().split(">", 1)
    return f'{tag} role="img"><title>{escape(what(family))}</title><style>{style}</style>{rest}\n'


def text(lines: list[dict[str, Any]], field: str, align: str, dx: float) -> alt.Chart:
    """Return the words of the lines that have such, strong ones bold."""
    bold = alt.expr("datum.strong ? 600 : 400")
    colour = alt.expr(f"datum.strong ? '{INK[0]}' : '{MUTED[0]}'")
    chart = alt.Chart(alt.InlineData(values=[line for line in lines if field in line]))
    return chart.mark_text(align=align, dx=dx, fill=colour, fontWeight=bold).encode(text=f"{field}:N")


def lines_of(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a chart: what a question asks, its cases, their contenders, a blank one behind each case."""
    number, title = itertools.count(), ""
    for result in results:
        if result["title"] != title:
            title = result["title"]
            yield {"line": next(number), "words": title, "strong": True}
        yield {"line": next(number), "words": result["case"] + per_unit(result)}
        for measured in drawn(result):
            yield {"line": next(number), **bar(result, measured)}
        yield {"line": next(number)}


def bar(result: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """Return what the line of one contender shows: its name, its bar, its figure."""
    name = measured["contender"]
    ours = name == result["ours"]
    kind = name if name in COLOURS else "arrowipc" if ours else name.partition(" ")[0]
    return {
        "name": short(name),
        "value": measured["median"] / (2**20 if result["unit"] == "bytes" else 1),
        "figure": said(result, measured),
        "colour": COLOURS.get(kind, COLOURS["other"])[0],
        "strong": ours,
    }


def decade(value: float, unit: str) -> str:
    """Return what a line of the grid stands for."""
    text = amount(value * (2**20 if unit == "bytes" else 1), unit)
    return re.sub(r"(\.\d*?)0+ ", r"\1 ", text).replace(". ", " ")


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
