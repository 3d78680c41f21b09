"""The charts of the report, made by Altair; their colours are variables of the page, which is light or dark."""

import functools
import html
import json
from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, floor, isfinite, log10
from typing import Any, TypeAlias

import altair as alt
import vl_convert

from arrowipc.arguments import printable

__all__ = ["STYLE", "Chart", "Charts", "bars", "escape", "heatmap", "lines"]

Chart: TypeAlias = alt.LayerChart | alt.FacetChart

WIDTH = 720
# A diverging scale of 2 * STEPS + 1 colours: blue below, orange above, the page's own grey in the middle.
STEPS = 5
# This many steps from the middle, text has the colour of the other theme (light or dark).
STRONG = 4
SERIES = 6
_MIXED = "".join(
    f"--h{STEPS + step}:color-mix(in srgb,var(--{'above' if step > 0 else 'below'}) {100 * abs(step) // STEPS}%,"
    "var(--middle));"
    for step in range(-STEPS, STEPS + 1)
)
STYLE = (
    ":root{--below:#14549f;--above:#a53904;--middle:#f0f0ee;--near:#000;--far:#fff;"
    "--s0:#1f6fd0;--s1:#c2500a;--s2:#0f8a63;--s3:#8a4fc4;--s4:#b3316f;--s5:#6b6b13}"
    "@media(prefers-color-scheme:dark){:root{--below:#60a5f0;--above:#f58642;--middle:#34363a;--near:#fff;--far:#000;"
    "--s0:#6aa8f5;--s1:#f0904f;--s2:#3fc79a;--s3:#b98cf0;--s4:#ee7fb1;--s5:#c6c45a}}"
    f":root{{{_MIXED}}}"
    ".chart svg{display:block;width:100%;height:auto}"
    "#vg-tooltip-element{visibility:hidden;position:fixed;padding:6px 10px;border-radius:6px;font-size:14px;"
    "background:var(--ink);color:var(--paper);pointer-events:none}#vg-tooltip-element.visible{visibility:visible}"
)
_TITLES = {"titleColor": "var(--soft)", "titleFontSize": 12, "titleFontWeight": 400}
_WORDS = {"labelColor": "var(--ink)", "labelFontSize": 12, "labelLimit": 300, **_TITLES}
_LOOK: dict[str, Any] = {
    "aria": False,
    "background": "transparent",
    "font": "system-ui,sans-serif",
    "view": {"stroke": None},
    "text": {"fontSize": 12},
    "axis": {"domainColor": "var(--soft)", "gridColor": "var(--line)", "labelPadding": 6, "ticks": False, **_WORDS},
    "legend": _WORDS,
}
_DRAW = """
const specs = JSON.parse(document.getElementById("charts").textContent);
const look = {mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false};
// With `ast`, expressions are interpreted: the page lets no text become code.
specs.forEach((spec, i) =>
  vegaEmbed("#chart" + i, spec, {...look, ast: true, tooltip: {disableDefaultStyle: true}}));
"""


def escape(text: str) -> str:
    """Escape text from data: no markup, and no characters that hide text or change its direction."""
    return html.escape(printable(text))


class Charts:
    """The charts of one page, which share one copy of the library that draws them."""

    def __init__(self) -> None:
        self._specs: list[dict[str, Any]] = []

    def place(self, chart: Chart, label: str) -> str:
        """Return the element that shows a chart; the label is for screen readers."""
        spec = chart.properties(width=WIDTH).configure(**_LOOK).to_dict()
        del spec["$schema"]  # a URL that is not needed
        self._specs.append(spec)
        return f'<div class="chart" id="chart{len(self._specs) - 1}" role="img" aria-label="{escape(label)}"></div>'

    def script(self) -> str:
        """Return the script that draws the charts: data and library; nothing if there are no charts."""
        if not self._specs:
            return ""
        # Data are apart from code, and contain no "<" that could end their element.
        data = json.dumps(self._specs, allow_nan=False).replace("<", "\\u003c")
        return f'<script type="application/json" id="charts">{data}</script><script>{_library()}</script>'


@functools.cache
def _library() -> str:
    """Vega and the few lines that draw, as one piece of JavaScript."""
    return str(vl_convert.javascript_bundle(_DRAW, vl_version=alt.SCHEMA_VERSION.rpartition(".")[0]))


def _axis(names: Sequence[str], totals: bool = False, **more: Any) -> alt.Axis:
    """An axis of numbered places with names, which may repeat; the last one is bold if it is a total."""
    bold = {"condition": {"test": f"datum.value == {len(names) - 1 if totals else -1}", "value": 600}, "value": 400}
    words = json.dumps([printable(name) for name in names])
    look = {"title": None, "domain": False, "labelFontWeight": bold, **more}
    return alt.Axis(labelExpr=f"{words}[datum.value]", **look)


def _domain(names: Sequence[str], **more: Any) -> alt.Scale:
    return alt.Scale(domain=list(range(len(names))), **more)


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=rows))


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[tuple[int, int], float],
    notes: Mapping[tuple[int, int], str],
    unit: str = "",
) -> Chart:
    """Make a heat map with the numbers in its cells and its colour scale below.

    Parameters
    ----------
    rows, columns : sequence of str
        Labels; the last of each are totals.
    values : mapping of (int, int) to float
        By row and column; a cell without a value stays empty.
    notes : mapping of (int, int) to str
        What a cell says when the pointer rests on it.
    unit : str
        Of the values, and what their signs mean.

    Returns
    -------
    Chart
        For `Charts.place`.
    """
    reach = _reach(list(values.values()))
    cells: list[dict[str, Any]] = []
    for row, column in product(range(len(rows)), range(len(columns))):
        cell = {"row": row, "column": column, "note": printable(notes.get((row, column), "no data"))}
        if (value := values.get((row, column))) is not None:
            step = STEPS + max(-STEPS, min(STEPS, round(value / reach * STEPS)))
            # Show tenths only if the whole scale is a few units wide.
            cell |= {"step": step, "number": _short(round(value) if reach >= 10 else value)}
        cells.append(cell)
    known = [cell for cell in cells if "step" in cell]
    ends = {0: "≤ ", 2 * STEPS: "≥ "}
    labels = [ends.get(step, "") + _short(reach * (step - STEPS) / STEPS) for step in range(2 * STEPS + 1)]
    legend = alt.Legend(
        title=unit or None,
        titleLimit=0,
        orient="bottom",
        direction="horizontal",
        columns=len(labels),
        symbolType="square",
        symbolSize=200,
        labelExpr=f"{json.dumps(labels)}[datum.value]",
    )
    colours = _domain(labels, range=[f"var(--h{step})" for step in range(len(labels))])
    place = (
        alt.X("column:O", scale=_domain(columns, padding=0.05), axis=_axis(columns, True, orient="top", labelAngle=0)),
        alt.Y("row:O", scale=_domain(rows, padding=0.08), axis=_axis(rows, True)),
        alt.Tooltip("note:N"),
    )
    text = alt.expr(f"abs(datum.step - {STEPS}) >= {STRONG} ? 'var(--far)' : 'var(--near)'")
    return alt.layer(
        _chart(cells).mark_rect(fill="var(--empty)", cornerRadius=3).encode(*place),
        _chart(known).mark_rect(cornerRadius=3).encode(*place, alt.Fill("step:O", scale=colours, legend=legend)),
        _chart(known).mark_text(fill=text).encode(*place, alt.Text("number:N")),
    ).properties(height=26 * len(rows))


def lines(series: Mapping[str, Sequence[tuple[float, float]]], x_title: str, y_title: str, unit: str = "") -> Chart:
    """Make lines over a common x axis; y begins at 0, and its unit follows each number.

    At most six lines.
    """
    names = list(series)
    points = [
        {"name": index, "x": x, "y": y, "note": printable(f"{name}, {x:g}: {y:.3g}{unit}")}
        for index, (name, line) in enumerate(series.items())
        for x, y in line
    ]
    legend = alt.Legend(
        title=None,
        orient="top",
        symbolType="stroke",
        symbolStrokeWidth=3,
        labelExpr=f"{json.dumps([printable(name) for name in names])}[datum.value]",
    )
    colours = _domain(names, range=[f"var(--s{index})" for index in range(SERIES)])
    base = _chart(points).encode(
        alt.X("x:Q", title=x_title, scale=alt.Scale(zero=False), axis=alt.Axis(grid=False, tickMinStep=1)),
        alt.Y("y:Q", title=y_title, axis=alt.Axis(labelExpr=f"datum.label + {json.dumps(unit)}", domain=False)),
        alt.Color("name:O", scale=colours, legend=legend),
    )
    spots = base.mark_point(filled=True, size=45, opacity=1).encode(alt.Tooltip("note:N"))
    return alt.layer(base.mark_line(strokeWidth=2.5), spots).properties(height=300)


def bars(rows: Sequence[tuple[str, float, str]]) -> Chart:
    """Make horizontal bars from zero: name, value (NaN has no length), and the text at the end of the bar."""
    names = [name for name, _, _ in rows]
    lengths = [value if isfinite(value) else 0 for _, value, _ in rows]
    shown = [
        {"row": row, "value": value, "end": max(value, 0), "text": text, "note": printable(f"{name}: {text}")}
        for row, ((name, _, text), value) in enumerate(zip(rows, lengths, strict=True))
    ]
    base = _chart(shown).encode(
        alt.Y("row:O", scale=_domain(names, padding=0.15), axis=_axis(names)), alt.Tooltip("note:N")
    )
    bar, end = (alt.X(f"{field}:Q", axis=None, scale=alt.Scale(nice=False)) for field in ("value", "end"))
    return alt.layer(
        base.mark_bar(fill="var(--s0)", cornerRadiusEnd=3).encode(bar),
        base.mark_text(align="left", dx=6, fill="var(--soft)").encode(end, text="text:N"),
    ).properties(height=28 * len(rows))


def _reach(values: Sequence[float]) -> float:
    """The end of the colour scale: a round number above nine tenths of the values, so that outliers do not dominate."""
    sizes = sorted(abs(value) for value in values)
    size = sizes[ceil(0.9 * len(sizes)) - 1] if sizes else 0
    if not size:
        return 1.0
    power = 10.0 ** floor(log10(size))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= size * (1 - 1e-9))


def _short(value: float) -> str:
    """Three significant digits at most, with a real minus sign and K, M, G for thousands."""
    size = abs(value)
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "K")):
        if size >= limit:
            return f"{value / divisor:.3g}".replace("-", "−") + unit
    text = f"{value:.0f}" if size >= 10 or value == int(value) else f"{value:.1f}"
    return "0" if text in ("-0", "-0.0") else text.replace("-", "−")
