"""Draws heat maps, lines and bars as SVG text whose colours follow the page, light or dark."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10

from arrowipc.arguments import printable

__all__ = ["STYLE", "Heatmap", "bars", "escape", "heatmap", "lines", "nice_ceiling"]

# A diverging scale of 2 * STEPS + 1 colours: blue below, orange above, the page's own grey in the middle.
STEPS = 5
_BLUE = {"light": (24, 92, 171), "dark": (96, 165, 240)}
_ORANGE = {"light": (197, 74, 12), "dark": (245, 134, 66)}
_MIDDLE = {"light": (240, 240, 238), "dark": (52, 54, 58)}
_SERIES = {
    "light": ["#1f6fd0", "#c2500a", "#0f8a63", "#8a4fc4", "#b3316f", "#6b6b13"],
    "dark": ["#6aa8f5", "#f0904f", "#3fc79a", "#b98cf0", "#ee7fb1", "#c6c45a"],
}


def escape(text: str) -> str:
    """Text from data as part of a page: neither markup nor marks that hide or turn text around."""
    return html.escape(printable(text))


def _mix(scheme: str, step: int) -> tuple[int, int, int]:
    end = _BLUE[scheme] if step < 0 else _ORANGE[scheme]
    share = (abs(step) / STEPS) ** 0.9
    red, green, blue = (round(m + (e - m) * share) for m, e in zip(_MIDDLE[scheme], end, strict=True))
    return red, green, blue


def _on(colour: tuple[int, int, int]) -> str:
    """Text colour that can be read on a colour: black or white, whichever contrasts more (WCAG)."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#fff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000"


def _variables(scheme: str) -> str:
    rules = []
    for step in range(-STEPS, STEPS + 1):
        colour = _mix(scheme, step)
        rules.append(f"--h{step + STEPS}:rgb{colour};--t{step + STEPS}:{_on(colour)}".replace(" ", ""))
    rules += [f"--s{index}:{colour}" for index, colour in enumerate(_SERIES[scheme])]
    return ";".join(rules)


STYLE = (
    f":root{{{_variables('light')}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_variables('dark')}}}}}"
    "svg{display:block;width:100%;height:auto;font:13px system-ui,sans-serif}"
    "svg text{fill:var(--ink)}svg .soft{fill:var(--soft)}"
    "svg .grid{stroke:var(--line)}svg .axis{stroke:var(--soft)}"
    "svg .strong{font-weight:600}svg .none{fill:var(--empty)}"
    + "".join(
        f"svg .h{i}{{fill:var(--h{i})}}svg text.h{i}t{{fill:var(--t{i})}}" for i in range(2 * STEPS + 1)
    )
    + "".join(
        f"svg .s{i}{{stroke:var(--s{i})}}svg .f{i}{{fill:var(--s{i})}}svg text.f{i}{{fill:var(--s{i})}}"
        for i in range(len(_SERIES["light"]))
    )
)


def nice_ceiling(value: float) -> float:
    """The next round number (1, 2, 2.5 or 5 times a power of ten) at or above a positive value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def _text(x: float, y: float, text: str, anchor: str = "start", classes: str = "", extra: str = "") -> str:
    kind = f' class="{classes}"' if classes else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}{extra}>{escape(text)}</text>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    body = "".join(parts)
    about = f'role="img" aria-label="{escape(label)}"'
    return f'<svg viewBox="0 0 {width:g} {height:g}" {about}>{body}</svg>'


@dataclass(frozen=True, slots=True)
class Heatmap:
    """What a heat map shows.

    Parameters
    ----------
    rows, columns : sequence of str
        Labels.
    values : mapping of (int, int) to float
        By row and column; a cell without a value stays empty.
    notes : mapping of (int, int) to str
        What a cell says when the pointer rests on it.
    unit : str
        Of the values, for the legend.
    below, above : str
        What negative and positive values mean.
    totals : int
        How many of the last columns are sums over the others, and set apart.
    total_rows : int
        The same for rows.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Mapping[tuple[int, int], float]
    notes: Mapping[tuple[int, int], str]
    unit: str
    below: str = ""
    above: str = ""
    totals: int = 0
    total_rows: int = 0


def heatmap(data: Heatmap, label: str, width: float = 960) -> str:
    """Draw a heat map with the numbers in its cells, and its colour scale below.

    Parameters
    ----------
    data : Heatmap
        What to draw.
    label : str
        What it shows, for those who cannot see it.
    width : float
        Units of the drawing; the page scales it.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    left = 26 + 7.2 * max((len(row) for row in data.rows), default=0)
    gap = 10
    cell_width = (width - left - (gap if data.totals else 0)) / max(len(data.columns), 1)
    cell_height, top = 26, 24
    reach = _reach(list(data.values.values()))

    def x_of(column: int) -> float:
        return (
            left
            + column * cell_width
            + (gap if data.totals and column >= len(data.columns) - data.totals else 0)
        )

    def y_of(row: int) -> float:
        return (
            top
            + row * cell_height
            + (gap if data.total_rows and row >= len(data.rows) - data.total_rows else 0)
        )

    parts = [
        _text(x_of(index) + cell_width / 2, top - 8, name, "middle", "soft")
        for index, name in enumerate(data.columns)
    ]
    for row, name in enumerate(data.rows):
        total = data.total_rows and row >= len(data.rows) - data.total_rows
        parts.append(_text(left - 8, y_of(row) + 17, name, "end", "strong" if total else ""))
        for column in range(len(data.columns)):
            spot = (x_of(column), y_of(row), cell_width, cell_height)
            parts.append(_cell(data, row, column, reach, spot))
    bottom = y_of(len(data.rows) - 1) + cell_height if data.rows else top
    parts += _scale(data, reach, left, bottom + 16)
    return _svg(width, bottom + 56, label, parts)


def _cell(data: Heatmap, row: int, column: int, reach: float, spot: tuple[float, ...]) -> str:
    """One cell with its number and what it says when the pointer rests on it."""
    x, y, width, height = spot
    value = data.values.get((row, column))
    step = "none" if value is None else f"h{_step(value, reach)}"
    note = escape(data.notes.get((row, column), "no data"))
    box = f'x="{x + 1:.1f}" y="{y + 1:g}" width="{width - 2:.1f}" height="{height - 2:g}" rx="3"'
    number = ""
    if value is not None:
        # Tenths matter where the whole scale is a few units wide; elsewhere they blur the picture.
        shown = _short(round(value) if reach >= 10 else value)
        number = _text(round(x + width / 2, 1), y + 17, shown, "middle", f"{step}t")
    return f'<g><title>{note}</title><rect class="{step}" {box}/>{number}</g>'


def _scale(data: Heatmap, reach: float, left: float, top: float) -> list[str]:
    box = 34
    parts = [_text(left - 8, top + 12, data.unit, "end", "soft")]
    for step in range(2 * STEPS + 1):
        parts.append(
            f'<rect class="h{step}" x="{left + step * box:g}" y="{top:g}" width="{box}" height="14"/>'
        )
        # Each colour covers what rounds to it, so the numbers stand in the middle of their boxes.
        if step % STEPS == 0 or STEPS % 2 == 0:
            value = reach * (step - STEPS) / STEPS
            sign = "≤ " if step == 0 else "≥ " if step == 2 * STEPS else ""
            parts.append(_text(left + (step + 0.5) * box, top + 28, sign + _short(value), "middle", "soft"))
    parts.append(_text(left + 2.5 * box, top + 28, data.below, "middle", "soft"))
    parts.append(_text(left + (2 * STEPS - 1.5) * box, top + 28, data.above, "middle", "soft"))
    return parts


def _reach(values: Sequence[float]) -> float:
    """Where the colour scale ends: beyond nine tenths of the values, lest a few extremes wash it out."""
    sizes = sorted(abs(value) for value in values)
    return nice_ceiling(sizes[min(len(sizes) - 1, ceil(0.9 * len(sizes)) - 1)]) if sizes else 1.0


def _step(value: float, reach: float) -> int:
    return STEPS + max(-STEPS, min(STEPS, round(value / reach * STEPS)))


def _short(value: float) -> str:
    """Three significant digits at most, with a real minus sign and K, M, G for thousands."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "K")):
        if size >= limit:
            divisor = {"G": 1e9, "M": 1e6, "K": 1e3}[unit]
            return f"{value / divisor:.3g}".replace("-", "−") + unit
    text = f"{value:.0f}" if size >= 10 or value == int(value) else f"{value:.1f}"
    return "0" if text in ("-0", "-0.0") else text.replace("-", "−")


@dataclass(frozen=True, slots=True)
class _Plot:
    """The rectangle between the axes, and what its edges stand for; y begins at 0."""

    left: float
    right: float
    top: float
    bottom: float
    low: float
    high: float
    ceiling: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies in the drawing."""
        across = (x - self.low) / ((self.high - self.low) or 1)
        return self.left + across * (self.right - self.left), self.bottom - y / self.ceiling * (
            self.bottom - self.top
        )

    def axes(self, x_format: str, y_format: str) -> list[str]:
        """Grid lines with their numbers, and the numbers below."""
        parts = []
        ticks = 5 if self.ceiling / 5 * 10 ** (1 - floor(log10(self.ceiling))) % 1 == 0 else 4
        for tick in range(ticks + 1):
            value = self.ceiling * tick / ticks
            y = self.place(self.low, value)[1]
            kind = "axis" if tick == 0 else "grid"
            span = f'x1="{self.left:g}" x2="{self.right:g}" y1="{y:.1f}" y2="{y:.1f}"'
            parts.append(f'<line class="{kind}" {span}/>')
            parts.append(_text(self.left - 8, round(y + 4, 1), y_format.format(value), "end", "soft"))
        every = max(1, ceil((self.high - self.low) / 20))
        for x in range(ceil(self.low), floor(self.high) + 1, every):
            where = round(self.place(x, 0)[0], 1)
            parts.append(_text(where, self.bottom + 20, x_format.format(x), "middle", "soft"))
        return parts


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_title: str,
    y_title: str,
    label: str,
    *,
    x_format: str = "{:g}",
    y_format: str = "{:g}",
    width: float = 960,
    height: float = 340,
) -> str:
    """Draw lines over a common x axis, each with its name at its end.

    Parameters
    ----------
    series : mapping of str to sequence of (x, y)
        At most six lines; y from 0.
    x_title, y_title : str
        What the axes show, with units.
    label : str
        What the chart shows, for those who cannot see it.
    x_format, y_format : str
        For the numbers on the axes.
    width, height : float
        Units of the drawing; the page scales it.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return _svg(width, 40, label, [_text(0, 20, "no data", classes="soft")])
    left, right, top, bottom = 60.0, 30 + 7.8 * max(map(len, series)), 30.0, 46.0
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    ceiling = nice_ceiling(max(y for _, y in points))

    plot = _Plot(left, width - right, top, height - bottom, low, high, ceiling)
    parts = [_text(0, 14, y_title, classes="soft"), *plot.axes(x_format, y_format)]
    parts.append(_text((left + width - right) / 2, height - 4, x_title, "middle", "soft"))
    ends = _spread([plot.place(*line[-1])[1] for line in series.values()], 18)
    for index, ((name, line), end) in enumerate(zip(series.items(), ends, strict=True)):
        path = " ".join("{:.1f},{:.1f}".format(*plot.place(x, y)) for x, y in line)
        parts.append(f'<polyline class="s{index}" fill="none" stroke-width="2.5" points="{path}"/>')
        for x, y in line:
            note = escape(f"{name}, {x_format.format(x)}: {y_format.format(y)}")
            spot = 'cx="{:.1f}" cy="{:.1f}"'.format(*plot.place(x, y))
            parts.append(f'<g><title>{note}</title><circle class="f{index}" {spot} r="3.5"/></g>')
        parts.append(_text(width - right + 14, round(end + 4, 1), name, classes=f"f{index} strong"))
    return _svg(width, height, label, parts)


def _spread(positions: Sequence[float], distance: float) -> list[float]:
    """Move labels apart so that neighbours keep a distance."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    moved = list(positions)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + distance)
    return moved


def bars(rows: Sequence[tuple[str, float, str]], label: str, width: float = 960, series: int = 0) -> str:
    """Draw horizontal bars from zero.

    Parameters
    ----------
    rows : sequence of (name, value, text)
        Values are not negative; the text stands at the end of the bar.
    label : str
        What the chart shows, for those who cannot see it.
    width : float
        Units of the drawing; the page scales it.
    series : int
        Which of the page's colours to use.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    left = 16 + 7.2 * max((len(name) for name, _, _ in rows), default=0)
    right = 20 + 7.2 * max((len(text) for _, _, text in rows), default=0)
    most = max((value for _, value, _ in rows), default=0) or 1
    parts = []
    for index, (name, value, text) in enumerate(rows):
        y = 4 + index * 30
        length = max(1.0, value / most * (width - left - right))
        parts.append(_text(left - 8, y + 16, name, "end"))
        parts.append(
            f'<rect class="f{series}" x="{left:g}" y="{y}" width="{length:.1f}" height="22" rx="3"/>'
        )
        parts.append(_text(round(left + length + 8, 1), y + 16, text, classes="soft"))
    return _svg(width, 8 + 30 * len(rows), label, parts)
