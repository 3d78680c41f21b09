"""Writes the job's report: one HTML file with charts and tables, which loads nothing from elsewhere."""

import datetime
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from charts import STYLE, Chart, Charts, bars, escape, heatmap, lines
from pipeline import Result, Step

__all__ = ["size_text", "write_report"]

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Means of fewer flights say more about single days than about carriers and hours.
FEW = 20
MOST_ROWS = 40
# Browsers then refuse to load anything for the page, whatever is in it.
_LOADS_NOTHING = "default-src 'none';script-src 'unsafe-inline';style-src 'unsafe-inline'"

_PAGE_STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1c1e21;--soft:#5d636b;--line:#e3e4e6;--empty:#f6f6f5;"
    "--card:#f7f7f6;--good:#0d7a4f;--bad:#b3261e}"
    "@media(prefers-color-scheme:dark){:root{--paper:#17181a;--ink:#e8e9ea;--soft:#a0a6ad;--line:#35383c;"
    "--empty:#1f2123;--card:#202225;--good:#4fcf9b;--bad:#ff8a80}}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:1000px;margin:0 auto;padding:32px 20px 48px}"
    "h1{font-size:28px;line-height:1.2;margin:0 0 6px}"
    "h2{font-size:19px;margin:44px 0 4px}p{margin:0 0 14px}.soft,figcaption,footer{color:var(--soft)}"
    "figure{margin:12px 0 0}figcaption{font-size:14px;margin-top:6px}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;"
    "margin:22px 0 0;padding:0}"
    ".tiles div{background:var(--card);border-radius:8px;padding:12px 16px}"
    ".tiles dd{margin:0;font-size:23px;font-weight:600;line-height:1.3}"
    ".tiles dt{color:var(--soft);font-size:13.5px}.good{color:var(--good)}.bad{color:var(--bad)}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14.5px;margin-top:8px}"
    "th,td{padding:6px 10px;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}th{color:var(--soft);font-weight:500}"
    "pre{font-size:13px;margin:8px 0}details{margin-top:28px}"
    "summary{cursor:pointer}footer{margin-top:40px;font-size:13.5px}"
)


def write_report(result: Result, path: Path) -> None:
    """Write the report.

    Parameters
    ----------
    result : Result
        What the job found.
    path : Path
        The HTML file; its directory is made.
    """
    charts = Charts()
    body = [
        f"<h1>{escape(result.title)}</h1>",
        _verdict(result),
        _reader(result),
        _tiles(result),
        _group_chart(result, charts),
        _hour_chart(result, charts),
        _throughput(result.steps, charts),
        _query(result),
        _steps(result.steps),
        _columns(result),
        _footer(result),
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_LOADS_NOTHING}">'
        f"<title>{escape(result.title)}</title><style>{_PAGE_STYLE}{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main>{charts.script()}</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def size_text(size: float) -> str:
    """Bytes for people, in decimal units."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return f"{size / limit:.3g} {unit}"
    return f"{size:.0f} B"


def _list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _verdict(result: Result) -> str:
    found = result.comparison
    if found is None:
        return ""
    sources = escape(_list(found.names))
    if found.agree:
        return (
            f'<p>What was read from {sources} <strong class="good">agrees row for row</strong>: '
            f"{found.counts[0]:,} rows, all {len(result.columns)} columns.</p>"
        )
    lines_ = "".join(
        f"<li>{escape(', '.join(f'{k}={v}' for k, v in row.items()))}: found "
        f"{escape(_list([f'{n} times in {s}' for n, s in zip(times, found.names, strict=True)]))}</li>"
        for row, times in found.examples
    )
    return (
        f'<p><strong class="bad">{sources} disagree</strong> on {found.differing:,} distinct rows; '
        f"nothing was written. Some of them:</p><ul>{lines_}</ul>"
    )


def _tiles(result: Result) -> str:
    tiles = []
    if result.rows:
        tiles.append((f"{result.rows:,}", "rows"))
    tiles += [
        (f"{step.rows_per_second:,.0f}", f"rows/s, {step.name}")
        for step in result.steps
        if step.size is not None and step.rows_per_second and step.name.startswith(("decode", "read"))
    ][:3]
    tiles.append((f"{sum(step.seconds for step in result.steps):.1f} s", "for the whole job"))
    return "".join(
        ['<dl class="tiles">']
        + [f"<div><dd>{escape(value)}</dd><dt>{escape(name)}</dt></div>" for value, name in tiles]
        + ["</dl>"]
    )


def _group_chart(result: Result, charts: Charts) -> str:
    if not result.groups or not result.by:
        return ""
    value = f"mean_{result.value}" if result.value else "rows"
    what = f"mean of {result.value}" if result.value else "number of rows"
    flights = result.value == "arr_delay" and list(result.by) == ["carrier", "month"]
    title = "Mean arrival delay by carrier and month" if flights else f"{what} by {' and '.join(result.by)}"
    if len(result.by) == 1:
        chart = _group_bars(result.groups, result.by[0], value)
        note = f"The {MOST_ROWS} largest groups." if len(result.groups) > MOST_ROWS else ""
    else:
        chart = _group_map(result, value, flights)
        note = (
            "Carriers in the order of their year, the most delayed first. Early arrivals count as negative "
            f"minutes; cancelled flights are left out, and so are months with fewer than {FEW} arrivals."
            if flights
            else ""
        )
    title = title[0].upper() + title[1:]
    return _figure(title, charts.place(chart, title), note)


def _figure(title: str, chart: str, note: str = "") -> str:
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    return f"<h2>{escape(title)}</h2><figure>{chart}{caption}</figure>"


def _group_bars(groups: Sequence[Mapping[str, Any]], by: str, value: str) -> Chart:
    chosen = sorted(groups, key=lambda row: -row["rows"])[:MOST_ROWS]
    return bars([(str(row[by]), float(row[value] or 0), f"{float(row[value] or 0):,.4g}") for row in chosen])


def _group_map(result: Result, value: str, flights: bool) -> Chart:
    first, second = result.by
    cells = {(row[first], row[second]): row for row in result.groups}
    weight = f"count_{result.value}" if result.value else "rows"
    few = FEW if flights else 1

    def mean(rows: Sequence[Mapping[str, Any]]) -> tuple[float | None, int]:
        total = sum(row[weight] for row in rows)
        if not result.value:
            return float(total), total
        known = [row for row in rows if row[value] is not None]
        return (sum(row[value] * row[weight] for row in known) / total if total else None), total

    def line(key: Any) -> list[Mapping[str, Any]]:
        return [row for row in result.groups if row[first] == key]

    def order(key: Any) -> tuple[bool, float]:
        average, total = mean(line(key))
        return total < few, -(average or 0.0)

    keys = sorted({row[first] for row in result.groups}, key=order if flights else str)[:MOST_ROWS]
    columns = sorted({row[second] for row in result.groups}, key=lambda key: (key is None, str(type(key)), key))
    blocks: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for y, key in enumerate(keys):
        blocks |= {(y, x): [cells[key, c]] for x, c in enumerate(columns) if (key, c) in cells}
        blocks[y, len(columns)] = line(key)
    for x, column in enumerate(columns):
        blocks[len(keys), x] = [row for row in result.groups if row[second] == column]
    blocks[len(keys), len(columns)] = list(result.groups)
    values, notes = {}, {}
    for place, rows in blocks.items():
        average, total = mean(rows)
        if average is None:
            continue
        if isfinite(average) and total >= few:
            values[place] = average
        notes[place] = f"{average:.1f} minutes, {total:,} flights" if flights else f"{average:,.4g}, {total:,} rows"
    labels = [str(column) for column in columns]
    if flights:
        labels = [MONTHS[column - 1] for column in columns]
    return heatmap(
        [*(_full_name(key, result.names) for key in keys), "all"],
        [*labels, "year" if flights else "all"],
        values,
        notes,
        "minutes, below 0 early, above late" if flights else "",
    )


def _full_name(key: Any, names: Mapping[str, str]) -> str:
    name = names.get(str(key), "")
    for tail in (" Inc.", " Co.", " Corporation", " Airlines", " Airways", " Air Lines"):
        shorter = name.removesuffix(tail)
        name = shorter if len(shorter) > 2 else name  # US Airways
    return f"{name} ({key})" if name else str(key)


def _hour_chart(result: Result, charts: Charts) -> str:
    if not result.hours:
        return ""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in result.hours:
        if row["rows"] >= FEW:
            series.setdefault(row["origin"], []).append((row["hour"], 100 * row["share_late"]))
    airports = {"EWR": "Newark (EWR)", "JFK": "Kennedy (JFK)", "LGA": "LaGuardia (LGA)"}
    chart = lines(
        {airports.get(origin, origin): points for origin, points in series.items()},
        "scheduled hour of departure, local time",
        "arrivals 15 minutes late or more, in percent",
        " %",
    )
    label = "Share of late arrivals by scheduled hour of departure, one line per airport"
    note = f"Share of the flights that arrived. Hours with fewer than {FEW} flights at an airport are left out."
    return _figure("Delays build up over the day", charts.place(chart, label), note)


def _throughput(steps: Sequence[Step], charts: Charts) -> str:
    rows = [(step.name, step.rows_per_second or 0.0, f"{step.rows_per_second:,.0f}") for step in steps if step.rows]
    if not rows:
        return ""
    title = "Rows per second, by step"
    return _figure(title, charts.place(bars(rows), title))


def _steps(steps: Sequence[Step]) -> str:
    def row(step: Step) -> str:
        rate = "" if step.rows_per_second is None else f"{step.rows_per_second:,.0f}"
        size = "" if step.size is None else size_text(step.size)
        speed = "" if step.bytes_per_second is None else f"{size_text(step.bytes_per_second)}/s"
        rows = "" if step.rows is None else f"{step.rows:,}"
        cells = "".join(
            f'<td class="n">{escape(text)}</td>' for text in (f"{step.seconds:.2f}", rows, rate, size, speed)
        )
        return f"<tr><td>{escape(step.name)}</td>{cells}</tr>"

    head = "".join(f'<th class="n">{name}</th>' for name in ("seconds", "rows", "rows/s", "Arrow IPC", "per second"))
    return (
        '<h2>Timings</h2><div class="scroll"><table><thead><tr><th>step</th>'
        f"{head}</tr></thead><tbody>{''.join(map(row, steps))}</tbody></table></div>"
    )


def _query(result: Result) -> str:
    if result.query is None:
        return ""
    answer = result.query.answer
    names = list(answer[0]) if answer else []
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in names)
    rows = "".join(
        "<tr>" + "".join(f'<td class="n">{escape(str(value))}</td>' for value in row.values()) + "</tr>"
        for row in answer
    )
    return (
        f"<h2>A query of the table in SQL</h2>{_pre(result.query.text)}"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        "<details><summary>How Spark finds the answer: EXPLAIN</summary>"
        f"{_pre(result.query.plan)}"
        '<p class="soft">FileScan arrowipc reads the columns in ReadSchema, of the folders that PartitionFilters '
        "leaves. PushedFilters skip batches, where files have statistics.</p></details>"
    )


def _pre(text: str) -> str:
    lines_ = (escape(line) for line in text.splitlines())
    return f'<div class="scroll"><pre>{"<br/>".join(lines_)}</pre></div>'


def _reader(result: Result) -> str:
    """Which reader ran, and how many payloads there were."""
    if not result.reader:
        return ""
    payloads = ""
    if result.payloads is not None:
        payloads = f" There were {result.payloads[0]:,} payloads of up to {result.payloads[1]:,} rows each."
    return f'<p class="soft">Arrow files were read and written by {escape(result.reader + "." + payloads)}</p>'


def _columns(result: Result) -> str:
    if not result.columns:
        return ""
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td>{escape(kind)}</td><td class="n">{nulls:,}</td></tr>'
        for name, kind, nulls in result.columns
    )
    return (
        f"<details><summary>The {len(result.columns)} columns as Spark sees them</summary>"
        '<div class="scroll"><table>'
        '<thead><tr><th>column</th><th>type</th><th class="n">nulls</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _footer(result: Result) -> str:
    facts = ", ".join(value if name == "machine" else f"{name} {value}" for name, value in result.machine.items())
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"<footer><p>Made on {escape(when)} with {escape(facts)}.</p></footer>"
