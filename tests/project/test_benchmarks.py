"""Every benchmark still runs: once, with tiny data; what it measures is not looked at.

What is made of results is: the speed table, the README's part and the charts.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import re
import sys
import types
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"


def package() -> Any:
    """Return the package of the checkout, which stays off sys.path: its arrowipc/ may not be compiled."""
    found = sys.modules.get("benchmarks")
    if found is None:
        spec = importlib.util.spec_from_file_location(
            "benchmarks", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules["benchmarks"] = found
        spec.loader.exec_module(found)
    return found


QUESTIONS = package().QUESTIONS


def module(name: str) -> Any:
    """Return a module of the package."""
    return importlib.import_module(f"benchmarks.{name}")


def run(*arguments: str) -> None:
    """Call the command line."""
    assert module("__main__").main(arguments) == 0


@pytest.mark.slow
@pytest.mark.nosanitize  # pyarrow, polars and their thread pools
@pytest.mark.filterwarnings("default:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("name", QUESTIONS)
def test_benchmark_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why_not = getattr(module(name), "missing", lambda: None)()
    if why_not:
        pytest.skip(why_not)
    written = tmp_path / "results.json"
    run(name, "--tiny", "--json", str(written))
    printed = capsys.readouterr().out
    results = json.loads(written.read_text())["results"]
    assert results
    for result in results:
        assert result["case"] in printed
        # Peers may lack a feature; ours and the baseline must do the work, and with the same result.
        problems = {
            each["contender"]: each["problem"]
            for each in result["timings"]
            if each["contender"] == result["baseline"] or each["contender"].partition(" ")[0] in ("arrowipc", "pyarrow")
        }
        assert set(problems.values()) == {""}, result["case"]
        assert {result["ours"], result["baseline"]} <= set(problems)
    goals = {row.key: row for row in module("goals").ROWS if row.question == name}
    assert {result["row"] for result in results} - {""} == set(goals)
    for key, row in goals.items():
        named = [result for result in results if result["row"] == key and result["named"]]
        assert named, f"no case is the one that the row {row.words!r} names"
        assert {result["goal"] for result in named} == {row.goal}
    run("--markdown", str(written))
    table = capsys.readouterr().out
    assert all(pretty(row.words) in table for row in goals.values())
    run("--charts", str(tmp_path / "charts"), str(written))
    (chart,) = capsys.readouterr().out.split()
    assert results[0]["title"] in drawn_words(Path(chart).read_text())


def pretty(text: str) -> str:
    """Return a text as it stands in a cell."""
    return str(module("markdown").pretty(text))


def drawn_words(chart: str) -> list[str]:
    """Return the texts of a chart."""
    return [each.text or "" for each in ElementTree.fromstring(chart).iter(f"{SVG}text")]


SVG = "{http://www.w3.org/2000/svg}"


def result(row: str, case: str, ratio: float, verdict: str, **more: Any) -> dict[str, Any]:
    """Return a result as `--json` writes it; pyarrow takes 1 ms, the floor as long as `more` says."""
    others = more.pop("others", {})
    timings = [
        {"contender": name, "median": 1e-3 / each, "quartiles": [1e-3 / each] * 2, "times_as_fast": each}
        for name, each in {"pyarrow": 1.0, "arrowipc": ratio, **others}.items()
    ]
    goals = {each.key: each for each in module("goals").ROWS}
    return {
        "title": "a question",
        "question": goals[row].question,
        "case": case,
        "unit": "batch",
        "ours": "arrowipc",
        "baseline": "pyarrow",
        "goal": goals[row].goal,
        "verdict": verdict,
        "touched_per_unit": None,
        "row": row,
        "named": False,
        "timings": timings,
        **more,
    }


def lines(*results: dict[str, Any], **skipped: str) -> dict[str, Any]:
    """Return the lines of the speed table by key."""
    return {line.row.key: line for line in module("summary").lines(results, skipped)}


def test_a_row_shows_the_named_case_and_the_worst() -> None:
    found = lines(
        result("iterate", "small", 30.0, "met"),
        result("iterate", "named", 20.0, "met", named=True),
        result("iterate", "large", 15.0, "met"),
    )["iterate"]
    assert found.cells()[1:] == ("1.00 ms", "50.0 us", "20.0x", "15.0x", ">= 15x", "met")
    assert not found.reason


@pytest.mark.parametrize(("ratio", "verdict"), [(0.8, "met, the worst case not"), (0.6, "MISSED")])
def test_a_row_that_misses_says_what_stops_it(ratio: float, verdict: str) -> None:
    said = "met" if ratio > 0.7 else "MISSED"
    floor = {"import alone": 0.75}
    found = lines(
        result("handover", "named", ratio, said, named=True, others=floor),
        result("handover", "worst", 0.5, "MISSED", others=floor),
    )["handover"]
    assert found.verdict == verdict
    assert found.row.why in found.reason
    assert found.reason.endswith("; the floor (import alone) takes 1.33 ms, 0.750x")
    assert ("worst" in found.reason) == (said == "met")


def test_a_row_shows_what_else_there_is_to_tell() -> None:
    beside = lines(
        result("decode", "named", 30.0, "met", named=True),
        result("decode", "worst", 15.0, "MISSED", others={"one payload": 40.0}),
    )["decode"]
    assert beside.reason.endswith("; for comparison (one payload) takes 25.0 us, 40.0x")
    unknown = lines(result("project", "c", 0.5, "MISSED", named=True))["project"]
    assert unknown.reason.endswith("; no floor is known")


def test_a_row_that_was_not_judged_says_why() -> None:
    why = "not judged, 1.1 of 2 cores were free"
    found = lines(result("spark", "c", 0.1, why, named=True), handover="no such library")
    assert found["spark"].verdict == why
    assert found["handover"].verdict == "not measured: no such library"
    assert found["iterate"].verdict.startswith("not measured")


def test_what_could_not_be_judged_is_not_the_worst() -> None:
    found = lines(
        result("read lz4", "one thread", 1.1, "met", named=True),
        result("read lz4", "two threads", 0.5, "not judged, 1.1 of 2 cores were free"),
    )["read lz4"]
    assert found.worst is found.named


def test_the_last_of_several_files_counts(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    about = {"environment": {}, "skipped": {}}
    both = [result("iterate", "old", 1.0, "met"), result("handover", "old", 1.0, "met")]
    old.write_text(json.dumps({**about, "scale": "full", "results": both}))
    new.write_text(json.dumps({**about, "scale": "quick", "results": [result("handover", "new", 1.0, "met")]}))
    found = module("__main__").read([str(old), str(new)])
    assert [each["case"] for each in found["results"]] == ["old", "new"]
    assert [run["questions"] for run in found["runs"]] == [["iterate_batches"], ["handover"]]


def cells_of(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def test_the_results_have_every_row_and_its_verdict() -> None:
    goals = module("goals")
    names, _, *rows = cells_of((ROOT / "benchmarks/RESULTS.md").read_text().partition("\n## ")[0])
    assert names == list(module("summary").HEADER)
    for cells, row in zip(rows, goals.ROWS, strict=True):
        assert cells[0].startswith(pretty(row.words))
        assert cells[-2] == pretty(row.goal)
        assert cells[-1].startswith(("met", "level", "missed", "FAILED", "not judged", "not measured"))


def test_the_readme_shows_ten_rows_of_the_results_and_a_picture() -> None:
    markdown = module("markdown")
    readme = (ROOT / "README.md").read_text()
    part = readme.partition(markdown.BEGIN)[2].partition(markdown.END)[0]
    assert markdown.placed(readme, part.strip("\n").split("\n")) == readme
    results = cells_of((ROOT / "benchmarks/RESULTS.md").read_text().partition("\n## ")[0])
    names, _, *rows = cells_of(part)
    assert names == results[0][: len(names)]
    assert len(rows) == 10
    assert all(row in [each[: len(row)] for each in results] for row in rows)
    (address,) = re.findall(r"!\[.*\]\((.*)\)", part)
    assert drawn_words((ROOT / address.removeprefix(markdown.PICTURES)).read_text())


def placed(root: ElementTree.Element, x: float = 0, y: float = 0) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Yield the elements of a chart with where they lie: each is moved by what it stands in."""
    right, down = re.findall(r"-?[\d.]+", root.get("transform", "translate(0,0)"))
    x, y = x + float(right), y + float(down)
    yield root, x, y
    for each in root:
        yield from placed(each, x, y)


def test_bars_are_as_long_as_they_should_be_and_nothing_overlaps() -> None:
    charts = module("charts")
    slow = {"polars": 1e-3, "a contender with a name that nobody can read": 0.5}
    chart = charts.chart("reading", [result("iterate", f"case <{i}>", 10.0**i, "met", others=slow) for i in range(3)])
    root = ElementTree.fromstring(chart)
    wide, high = float(root.attrib["width"]), float(root.attrib["height"])
    drawn = list(placed(root))
    colours = {light: name for name, (light, _) in charts.COLOURS.items()}
    bars: dict[str, list[float]] = {name: [] for name in colours.values()}
    for each, _, _ in drawn:
        if each.get("fill") in colours:
            bars[colours[each.attrib["fill"]]].append(float(re.findall(r"h([\d.]+)", each.attrib["d"])[0]))
    ours = bars["arrowipc"]
    assert {name: len(found) for name, found in bars.items() if found} == {
        "arrowipc": 3,
        "pyarrow": 3,
        "polars": 3,
        "other": 3,
    }
    assert ours[0] > ours[1] > ours[2] > 0
    assert max(bars["polars"]) > wide / 2
    assert ours[0] - ours[1] == pytest.approx(ours[1] - ours[2], abs=0.2)  # a decade each
    taken: dict[float, list[tuple[float, float]]] = {}
    for each, x, y in drawn:
        if each.tag == f"{SVG}text":
            width = charts.LETTER * len(each.text or "")
            x -= {"start": 0.0, "middle": width / 2, "end": width}[each.attrib.get("text-anchor", "start")]
            assert x >= -1
            assert x + width <= wide
            assert y <= high
            taken.setdefault(y, []).append((x, x + width))
    for spans in taken.values():
        spans.sort()
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))


def test_every_colour_of_a_chart_has_another_for_dark_pages() -> None:
    chart = module("charts").chart("reading", [result("iterate", "c", 2.0, "met", others={"else": 1.0})])
    used = set(re.findall(r'<[^>]* (?:fill|stroke)="(?!none|transparent)([^"]+)"', chart))
    assert used <= set(re.findall(r'\[fill="(.+?)"\]{fill:#\w{6}}', chart))


def test_every_file_that_asks_a_question_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    files = {path.stem for path in FOLDER.glob("*.py") if "def cases(" in path.read_text()}
    assert files == set(QUESTIONS)
    run("--list")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(QUESTIONS)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        module("__main__").main(["no_such_question"])
    assert "no_such_question" in capsys.readouterr().err


def test_a_question_that_fails_costs_no_other_one_its_results(capfd: pytest.CaptureFixture[str]) -> None:
    answers = module("answers")
    options = module("__main__").parser().parse_args(["--quick"])
    assert list(answers.answers(["no_such_question", "nor_this"], options)) == 2 * [([], answers.FAILED, 0.0)]
    assert "Error" in capfd.readouterr().err


def test_contenders_are_measured_together_and_judged() -> None:
    harness = module("harness")
    case = harness.Case("c", "unit", 10, {"pyarrow": lambda: 1, "arrowipc": lambda: 1, "odd": lambda: 2}, goal=1)
    timings = harness.measure(case, harness.Scale("full", rounds=5, sample=0.0, budget=1.0))
    assert len(timings["pyarrow"].samples) == len(timings["arrowipc"].samples) == 5
    assert timings["odd"].problem == "another result: 2, expected 1"
    assert timings["pyarrow"].ratio == 1
    assert harness.judge("q", case, timings).goal == ">= 1x"
    case.contenders["arrowipc"] = lambda: 1 // 0
    timings = harness.measure(case, harness.SCALES["tiny"])
    assert harness.judge("q", case, timings).verdict == "FAILED"


@pytest.mark.parametrize(
    ("goal", "ratio", "verdict"),
    [(1, 1.0, "met"), (1, 0.992, "level"), (1, 0.985, "MISSED"), (0.9, 0.895, "MISSED")],
)
def test_as_fast_as_the_other_is_level_where_hardly_anything_is_missing(
    goal: float, ratio: float, verdict: str
) -> None:
    harness = module("harness")
    case = harness.Case("c", "unit", 1, {"pyarrow": lambda: 1, "arrowipc": lambda: 1}, goal=goal)
    timings = {
        "pyarrow": harness.Timing("pyarrow", median=1.0, ratio=1.0),
        "arrowipc": harness.Timing("arrowipc", median=1 / ratio, ratio=ratio),
    }
    assert harness.judge("q", case, timings).verdict == verdict


def test_nobody_always_runs_behind_the_same_other_one() -> None:
    harness = module("harness")
    order: list[str] = []
    case = harness.Case("c", "unit", 1, {name: lambda name=name: order.append(name) for name in ("a", "b", "c")})
    case.baseline = case.ours = "a"
    harness.measure(case, harness.Scale("full", rounds=20, sample=0.0, budget=0.0))
    rounds = [order[i : i + 3] for i in range(3, len(order), 3)]
    assert len(rounds) == 20
    behind = {(first, second) for each in rounds for first, second in itertools.pairwise(each)}
    assert len(behind) == 6


def test_the_points_of_a_curve_begin_equally_warm() -> None:
    harness = module("harness")
    order: list[str] = []
    runs = {name: lambda name=name: order.append(name) for name in ("pyarrow", "arrowipc")}
    case = harness.Case("c", "unit", 1, runs, curve=harness.Curve("k", 1))
    harness.measure(case, harness.Scale("full", rounds=3, sample=0.0, budget=0.0))
    turns = order[2:]
    assert len(turns) == 3 * 2 * 2
    assert turns[0::2] == turns[1::2]


def test_caches_settle_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ran = itertools.count(), []
    monkeypatch.setattr(module("harness"), "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    module("harness").settle(lambda: ran.append(1), 3)
    assert len(ran) == 3  # the clock is read at 0, and after each run


@pytest.mark.nosanitize  # measured memory
def test_a_child_says_what_it_took_above_its_input() -> None:
    code = "given = bytearray(b'x') * (30 << 20)\nbefore = begin()\ntaken = bytearray(b'x') * size\ndel taken"
    (taken,) = module("children").peak(code, size=50 << 20)
    # The kernel adds pages up in lots, and each processor may have one that it has not reported yet.
    assert 49 << 20 <= taken < 60 << 20


@pytest.mark.parametrize(("free", "verdict"), [(2.0, ""), (1.1, "not judged, 1.1 of 2 cores were free")])
def test_threads_without_processors_are_not_judged(monkeypatch: pytest.MonkeyPatch, free: float, verdict: str) -> None:
    harness = module("harness")
    case = harness.Case("c", "unit", 1, {"pyarrow": int, "arrowipc": int}, goal=1, threads=2)
    question = types.SimpleNamespace(cases=lambda scale: [case])
    monkeypatch.setitem(sys.modules, "benchmarks.two_threads", question)
    monkeypatch.setattr(harness, "free_cores", lambda wanted: free)
    monkeypatch.setattr(harness, "PATIENCE", 1)
    (result,) = harness.ask("two_threads", harness.Scale("quick", rounds=1, sample=0.0, budget=0.0))
    assert result.verdict == verdict or (not verdict and result.verdict in ("met", "MISSED"))


@pytest.mark.parametrize(("power", "verdict"), [(0, "met"), (1, "MISSED")])
def test_growth_is_fitted(power: int, verdict: str) -> None:
    harness = module("harness")
    points = []
    for n in (200, 400, 3200):
        timing = harness.Timing("arrowipc", median=3.0 * n**power)
        points.append((harness.Curve("cost", n, at_most=0.1), {"arrowipc": timing}))
    # Of whoever takes part in some points only there is no curve.
    points[0][1]["one payload"] = points[1][1]["one payload"] = timing
    (result,) = harness.growth("q", points)
    assert list(result.timings) == ["arrowipc"]
    assert result.timings["arrowipc"].median == pytest.approx(power)
    assert result.verdict == verdict


def test_tables_are_written_without_rich_too(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    run("validate_small", "--tiny")
    printed = capsys.readouterr().out
    assert "contender" in printed
    assert "pyarrow" in printed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234e-7, "123 ns"), (9.99e-7, "999 ns"), (2.5e-6, "2.50 us"), (0.0611, "61.1 ms"), (2.0, "2.00 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert module("report").duration(seconds) == text
