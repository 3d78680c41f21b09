"""The report of examples/flights is one well-formed page that loads nothing; its charts say what the numbers say."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from charts import Charts, bars, heatmap, lines
from compare import Comparison
from pipeline import Query, Result, Step
from report import write_report

pytestmark = pytest.mark.spark
SVG = "{http://www.w3.org/2000/svg}"


def group(carrier: str, month: int, mean: float, count: int) -> dict[str, object]:
    found = {"carrier": carrier, "month": month, "mean_arr_delay": mean, "count_arr_delay": count}
    return {**found, "rows": count + 1}


def flights() -> Result:
    groups = [("AA", 1, 10.0, 100), ("AA", 2, 20.0, 300), ("UA", 1, -30.0, 100), ("ZZ", 2, 9.0, 3)]
    late = [(origin, hour) for origin in ("EWR", "JFK") for hour in (5, 6)]
    return Result(
        title="1,000 <flights>",
        steps=[Step("start Spark", 2.0), Step("decode payloads", 0.5, 1000, 2_000_000)],
        comparison=Comparison(["payloads", "files"], [1000, 1000], 0, []),
        groups=[group(*each) for each in groups],
        hours=[{"origin": origin, "hour": hour, "share_late": hour / 50, "rows": 99} for origin, hour in late],
        columns=[("carrier", "string", 0)],
        by=("carrier", "month"),
        value="arr_delay",
        machine={"Spark": "4", "machine": "2 cores"},
        names={"AA": "American Airlines Inc.", "US": "US Airways Inc."},
        query=Query("SELECT 1\nWHERE month < 2", "Scan <flights>", [{"dest": "<ORD>", "flights": 1}]),
        reader="Spark's file format in the JVM",
        payloads=(365, 99),
    )


def written(result: Result, tmp_path: Path) -> str:
    path = tmp_path / "deep" / "report.html"
    write_report(result, path)
    return path.read_text(encoding="utf-8")


def specs(page: str) -> list[dict[str, Any]]:
    """The charts of a page, as Vega-Lite."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page)
    return json.loads(found[1]) if found else []


def without_library(page: str) -> str:
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def drawn(spec: dict[str, Any]) -> ElementTree.Element:
    """A chart as SVG."""
    return ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))


def texts(spec: dict[str, Any]) -> list[str]:
    return [each.text or "" for each in drawn(spec).iter(f"{SVG}text")]


def rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The data of a chart."""
    return [row for rows in spec["datasets"].values() for row in rows]


def one(chart: Any) -> dict[str, Any]:
    """A chart of its own, as the page has it."""
    charts = Charts()
    charts.place(chart, "label")
    return specs(charts.script())[0]


def test_the_page_is_well_formed_and_loads_nothing(tmp_path: Path) -> None:
    page = written(flights(), tmp_path)
    assert "content=\"default-src 'none';script-src 'unsafe-inline';style-src 'unsafe-inline'\"" in page
    assert page.count("<script") == 2
    for text in ("WHERE month &lt; 2", "&lt;ORD&gt;", "Scan &lt;flights&gt;", "1,000 &lt;flights&gt;"):
        assert text in page
    rest = without_library(page)
    assert not re.search(r"https?:|src=|@import|url\(|<link", rest)
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta [^>]*>|<script.*?</script>", "", rest))
    assert "2 MB" in page
    assert len(specs(page)) == 3
    assert [f'id="chart{i}" role="img" aria-label="' in page for i in range(4)] == [True, True, True, False]


def test_the_heat_map_weighs_its_sums(tmp_path: Path) -> None:
    spec = specs(written(flights(), tmp_path))[0]
    shown = texts(spec)
    labels = ["Jan", "Feb", "year", "American (AA)", "UA", "ZZ", "all"]
    assert [each for each in shown if each in labels] == labels
    # American: (10 * 100 + 20 * 300) / 400; United early; too few flights of ZZ for a number.
    assert [each for each in shown if re.fullmatch(r"−?\d+", each)][:5] == ["10", "20", "18", "−30", "−30"]
    cells = {(each["row"], each["column"]): each["note"] for each in rows(spec)}
    assert cells[0, 2] == "17.5 minutes, 400 flights"
    assert cells[2, 1] == "9.0 minutes, 3 flights"
    assert cells[2, 0] == "no data"
    assert "minutes, below 0 early, above late" in shown


@pytest.mark.parametrize("by", [(), ("host",), ("host", "day")])
def test_data_of_the_users(by: tuple[str, ...], tmp_path: Path) -> None:
    groups = [{**dict.fromkeys(by, None), "rows": 4}, {**dict.fromkeys(by, "x"), "rows": 5}] if by else []
    result = Result(title="t", steps=[Step("read x", 1.0, 9, 100)], groups=groups, by=by)
    page = written(result, tmp_path)
    assert len(specs(page)) == (2 if by else 1)


@pytest.mark.parametrize("by", [("host",), ("host", "day")])
def test_means_that_are_no_numbers_are_said_but_not_drawn(by: tuple[str, ...], tmp_path: Path) -> None:
    group = {"host": "x", "day": 1, "rows": 5, "count_v": 5}
    groups = [{**group, "mean_v": mean, "day": day} for day, mean in enumerate((float("nan"), float("inf"), 0.0))]
    (spec,) = specs(written(Result(title="t", groups=groups, by=by, value="v"), tmp_path))
    notes = [each["note"] for each in rows(spec)]
    assert {"nan", "inf", "0"} <= {re.split("[ ,]+", note.removeprefix("x: "))[0] for note in notes}


def test_nothing_at_all(tmp_path: Path) -> None:
    assert "<script" not in written(Result(title="nothing"), tmp_path)
    for empty in (lines({}, "x", "y"), bars([]), heatmap(["all"], ["all"], {}, {})):
        drawn(one(empty))


def test_text_from_data_neither_turns_the_page_around_nor_hides(tmp_path: Path) -> None:
    name = "<b>\u202eevil\x9b\u200b\u2028"
    result = flights()
    result.title = name
    result.columns = [(name, "string", 0)]
    result.steps = [Step(name, 1.0, 10, 1000)]
    result.groups = [group(name, 1, 10.0, 100)]
    result.comparison = Comparison([name, "files"], [1, 1], 1, [({name: name}, (1, 0))])
    result.hours = [{"origin": name, "hour": 5, "share_late": 0.5, "rows": 99}]
    page = written(result, tmp_path)
    assert "found 1 times in &lt;b&gt;" in page
    assert not {c for c in without_library(page) if not c.isprintable()} - {"\n"}
    assert "\\u202eevil" in page
    assert "<b>" not in without_library(page)
    hidden = [each for spec in specs(page) for each in hidden_in(spec)]
    assert not hidden


def hidden_in(value: Any) -> list[str]:
    """Texts of a chart that hold what does not show."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [each for part in parts for each in hidden_in(part)]
    return [value] if isinstance(value, str) and not value.isprintable() else []
