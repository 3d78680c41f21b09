"""Every benchmark still runs: once, with tiny data; what it measures is not looked at."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
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
            if each["contender"] == result["baseline"]
            or each["contender"].partition(" ")[0] in ("arrowipc", "pyarrow")
        }
        assert set(problems.values()) == {""}, result["case"]
        assert {result["ours"], result["baseline"]} <= set(problems)
    run("--markdown", str(written))
    table = capsys.readouterr().out.splitlines()
    judged = [result for result in results if result["goal"]]
    assert len({line.count("|") for line in table if line.startswith("|")}) == 1
    assert all(any(result["case"] in line for line in table) for result in judged)


def test_every_file_that_asks_a_question_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    files = {path.stem for path in FOLDER.glob("*.py") if "def cases(" in path.read_text()}
    assert files == set(QUESTIONS)
    run("--list")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(QUESTIONS)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        module("__main__").main(["no_such_question"])
    assert "no_such_question" in capsys.readouterr().err


def test_contenders_are_measured_together_and_judged() -> None:
    harness = module("harness")
    case = harness.Case(
        "c", "unit", 10, {"pyarrow": lambda: 1, "arrowipc": lambda: 1, "odd": lambda: 2}, goal=1
    )
    timings = harness.measure(case, harness.Scale("full", rounds=5, sample=0.0, budget=1.0))
    assert len(timings["pyarrow"].samples) == len(timings["arrowipc"].samples) == 5
    assert timings["odd"].problem == "another result: 2, expected 1"
    assert timings["pyarrow"].ratio == 1
    assert harness.judge("q", case, timings).goal == ">= 1x"
    case.contenders["arrowipc"] = lambda: 1 // 0
    timings = harness.measure(case, harness.SCALES["tiny"])
    assert harness.judge("q", case, timings).verdict == "FAILED"


@pytest.mark.parametrize(("free", "verdict"), [(2.0, ""), (1.1, "not judged, 1.1 of 2 cores were free")])
def test_threads_without_processors_are_not_judged(
    monkeypatch: pytest.MonkeyPatch, free: float, verdict: str
) -> None:
    harness = module("harness")
    case = harness.Case("c", "unit", 1, {"pyarrow": int, "arrowipc": int}, goal=1, threads=2)
    question = types.SimpleNamespace(cases=lambda scale: [case])
    monkeypatch.setitem(sys.modules, "benchmarks.two_threads", question)
    monkeypatch.setattr(harness, "free_cores", lambda wanted: free)
    (result,) = harness.ask("two_threads", harness.Scale("quick", rounds=1, sample=0.0, budget=0.0))
    assert result.verdict == verdict or (not verdict and result.verdict in ("met", "MISSED"))


@pytest.mark.parametrize(("power", "verdict"), [(0, "met"), (1, "MISSED")])
def test_growth_is_fitted(power: int, verdict: str) -> None:
    harness = module("harness")
    points = []
    for n in (200, 400, 3200):
        timing = harness.Timing("arrowipc", median=3.0 * n**power)
        points.append((harness.Curve("cost", n, at_most=0.1), {"arrowipc": timing}))
    (result,) = harness.growth("q", points)
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
