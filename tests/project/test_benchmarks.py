"""A question is measured by turns, and README and RESULTS.md have what was measured (`make slow` runs all)."""

import ast
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

from measuring import report

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/RESULTS.md"


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of all tables, without the lines below their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_goals_are_those_of_questions() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "benchmarks").glob("test_*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asked = [call.args[0].value for call in calls if getattr(call.func, "id", "") == "question"]  # type: ignore[attr-defined]
    questions = [re.sub(r"\\{\w+\\}", ".*", re.escape(words)) for words in asked]
    assert all(any(re.fullmatch(each, words) for each in questions) for words in [*report.GOALS, *report.FRONT])


def test_each_file_of_questions_has_its_group() -> None:
    files = {path.stem.removeprefix("test_") for path in (ROOT / "benchmarks").glob("test_*.py")}
    assert sorted(name for names in report.GROUPS.values() for name in names) == sorted(files)


def test_readme_shows_rows_of_the_results_and_a_picture() -> None:
    readme = (ROOT / "README.md").read_text()
    part = readme.partition(report.BEGIN)[2].partition(report.END)[0]
    results = [row[:5] for row in rows_of(RESULTS.read_text())]
    names, *rows = rows_of(part)
    assert tuple(names) == report.HEADER
    assert len(rows) == len(report.FRONT)
    assert all(row in results for row in rows)
    assert f"({report.PICTURE})" in part
    assert (ROOT / report.PICTURE).read_text().startswith("<svg")


QUESTION = """
import time
import pytest
from measuring.race import question

turns = []

def slept(name, seconds):
    turns.append(name)
    time.sleep(seconds)

@question("who sleeps", "pyarrow, arrowipc, absent", unit="nap", per=2)
@pytest.mark.parametrize("nap", ["short"])
def test_naps(nap):
    return {"pyarrow": lambda: slept("p", 0.02), "arrowipc": lambda: slept("a", 0.01)}

def test_turns():
    measured = "".join(turns)
    assert measured.count("a") >= 5 and measured.count("p") >= 5
    assert "ppp" not in measured[-10:]
"""


def test_peers_take_turns_and_are_replayed_to_pytest_benchmark(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "benchmarks/conftest.py").read_text())
    (tmp_path / "test_naps.py").write_text(QUESTION)
    options = ["-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    options += ["--benchmark-max-time=0.01", f"--benchmark-json={tmp_path}/found.json"]
    # pytest-benchmark measures nothing where pytest-xdist says that several tests run at a time.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=alone)
    assert "3 passed, 1 skipped" in done.stdout, done.stdout
    found = {
        each["extra_info"]["peer"]: each for each in json.loads((tmp_path / "found.json").read_text())["benchmarks"]
    }
    assert found["arrowipc"]["stats"]["rounds"] == 5
    assert math.isclose(found["arrowipc"]["stats"]["min"], 0.005, rel_tol=2)
    assert found["arrowipc"]["extra_info"]["ratio"] > 1
    assert found["arrowipc"]["group"] == found["pyarrow"]["group"]
    assert found["arrowipc"]["extra_info"]["unit"] == "nap"


def test_rows_of_the_results_say_in_words_what_was_measured() -> None:
    rows = [row for row in rows_of(RESULTS.read_text()) if row[0] != report.HEADER[0]]
    assert len(rows) > 60
    for words, shape, base, *_ in rows:
        assert not re.search(r"[\[\]{}']", shape), (words, shape)
        assert not re.match(r"0 (?!kept)", shape), (words, shape)
        assert "(arrowipc)" not in base, words
        assert re.fullmatch(r"(?:(?!, per ).)*(?:, per \w+)?", words), words


def test_a_row_is_made_of_the_words_of_its_parameters() -> None:
    assert report.case({"kept": 0, "rows": 10, "peer": "arrowipc"}, "?", "payload") == "0 kept columns, 10 rows"
    alone = report.Question("install", "install", "arrowipc", {}, cases={"": {"arrowipc": (81.0, 1.0)}})
    assert alone.cells() == ("install, per install", "", "", "81.0 s", "")
