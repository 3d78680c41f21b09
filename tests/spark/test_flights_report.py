"""The report is one well-formed page that loads nothing, and its charts say what the numbers say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from arrowipc.spark.charts import STEPS, Heatmap, bars, heatmap, lines, nice_ceiling
from arrowipc.spark.compare import Comparison
from arrowipc.spark.pipeline import Result, Step
from arrowipc.spark.report import size_text, write_report

pytestmark = pytest.mark.spark


def group(carrier: str, month: int, mean: float | None, count: int) -> dict[str, object]:
    return {
        "carrier": carrier,
        "month": month,
        "mean_arr_delay": mean,
        "count_arr_delay": count,
        "rows": count + 1,
    }


def flights() -> Result:
    return Result(
        title="1,000 <flights>",
        steps=[Step("start Spark", 2.0), Step("decode payloads", 0.5, 1000, 2_000_000)],
        comparison=Comparison(["payloads", "files"], [1000, 1000], 0, []),
        groups=[
            group("AA", 1, 10.0, 100),
            group("AA", 2, 20.0, 300),
            group("UA", 1, -30.0, 100),
            group("ZZ", 2, 9.0, 3),
        ],
        hours=[
            {"origin": origin, "hour": hour, "share_late": hour / 50, "rows": 99}
            for origin in ("EWR", "JFK")
            for hour in (5, 6)
        ],
        columns=[("carrier", "string", 0)],
        by=("carrier", "month"),
        value="arr_delay",
        machine={"Spark": "4", "machine": "2 cores"},
        names={"AA": "American Airlines Inc.", "US": "US Airways Inc."},
    )


def written(result: Result, tmp_path: Path) -> str:
    path = tmp_path / "deep" / "report.html"
    write_report(result, path)
    return path.read_text(encoding="utf-8")


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [item.text or "" for item in root.iter("text")]


def test_the_page_is_well_formed_and_loads_nothing(tmp_path: Path) -> None:
    page = written(flights(), tmp_path)
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", page)
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta [^>]*>", "", page))
    assert "1,000 &lt;flights&gt;" in page
    assert "agrees row for row" in page
    assert page.count("<svg") == 3


def test_the_heat_map_weighs_its_sums(tmp_path: Path) -> None:
    svg = re.findall(r"<svg.*?</svg>", written(flights(), tmp_path))[0]
    shown = texts(svg)
    assert shown[:3] == ["Jan", "Feb", "year"]
    # American: (10 * 100 + 20 * 300) / 400; United early; too few flights of ZZ for a number.
    assert shown[shown.index("American (AA)") + 1 :][:3] == ["10", "20", "18"]
    assert shown[shown.index("UA") + 1 :][:2] == ["−30", "−30"]
    assert shown[shown.index("ZZ") + 1] == "all"
    assert shown.index("American (AA)") < shown.index("UA") < shown.index("ZZ")


def test_disagreement_is_told(tmp_path: Path) -> None:
    result = flights()
    result.comparison = Comparison(["payloads", "files"], [3, 2], 1, [({"id": "<7>"}, [2, 1])])
    page = written(result, tmp_path)
    assert "payloads and files disagree" in page
    assert "id=&lt;7&gt;: found 2 times in payloads and 1 times in files" in page


@pytest.mark.parametrize("by", [(), ("host",), ("host", "day")])
def test_data_of_the_users(by: tuple[str, ...], tmp_path: Path) -> None:
    groups = [{**dict.fromkeys(by, None), "rows": 4}, {**dict.fromkeys(by, "x"), "rows": 5}] if by else []
    result = Result(title="t", steps=[Step("read x", 1.0, 9, 100)], groups=groups, by=by)
    page = written(result, tmp_path)
    assert page.count("<svg") == (2 if by else 1)


def test_nothing_at_all(tmp_path: Path) -> None:
    assert "<svg" not in written(Result(title="nothing"), tmp_path)
    assert "no data" in lines({}, "x", "y", "nothing")
    assert bars([], "nothing").startswith("<svg")
    assert heatmap(Heatmap([], [], {}, {}, ""), "nothing").startswith("<svg")


def test_colours_follow_the_values() -> None:
    values = {(0, 0): -10.0, (0, 1): 0.0, (0, 2): 10.0}
    svg = heatmap(Heatmap(["r"], ["a", "b", "c"], values, {}, "minutes"), "label")
    cells = re.findall(r'<rect class="(\w+)" x="[\d.]+" y="25"', svg)
    assert cells == ["h0", f"h{STEPS}", f"h{2 * STEPS}"]


def test_lines_stay_within_the_drawing() -> None:
    svg = lines({"a": [(5, 0.0), (23, 42.0)], "b": [(5, 10.0), (22, 41.0)]}, "hour", "share", "label")
    for pair in re.findall(r'points="([^"]*)"', svg):
        for point in pair.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 960
            assert 0 <= y <= 340
    assert {"a", "b", "hour", "share"} <= set(texts(svg))


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (0.013, 0.02), (1, 1), (42, 50), (21, 25), (5000, 5000), (7, 10)]
)
def test_round_numbers(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


def test_sizes_for_people() -> None:
    assert [size_text(size) for size in (12, 1234, 32_900_000, 5e9)] == ["12 B", "1.23 kB", "32.9 MB", "5 GB"]


def test_text_from_data_neither_turns_the_page_around_nor_hides(tmp_path: Path) -> None:
    name = "<b>\u202eevil\x9b\u200b\u2028"
    result = flights()
    result.title = name
    result.columns = [(name, "string", 0)]
    result.steps = [Step(name, 1.0, 10, 1000)]
    result.groups = [group(name, 1, 10.0, 100)]
    result.comparison = Comparison([name, "files"], [1, 1], 1, [({name: name}, (1, 0))])
    page = write_report(result, tmp_path / "report.html") or (tmp_path / "report.html").read_text()
    assert not {c for c in str(page) if not c.isprintable()} - {"\n"}
    assert "\\u202eevil" in str(page)
    assert "<b>" not in str(page)
