"""Inputs that once broke a reader: each gives values or an ArrowIpcError, quickly and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import golden
from helpers.drive import LEVELS

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
SECONDS = 20 if SANITIZED else 1
MIB = 0 if SANITIZED else 256
EXPECTED = golden.HOSTILE


def hostile(root: Path) -> list[Path]:
    folders = (root / name for name in EXPECTED)
    return sorted(
        p for folder in folders for p in folder.iterdir() if p.is_file() and p.name.startswith(("crash", "clusterfuzz"))
    )


def test_the_corpus_is_complete(arrow_data):
    found = hostile(arrow_data)
    for folder, count in EXPECTED.items():
        assert sum(p.parent.name == folder for p in found) >= count, folder


def survive(level: str, paths: list[Path]) -> list[tuple[str, dict]]:
    """(what was read, how it went) for every reading of a child process that must come to its end."""
    where = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path])
    command = [sys.executable, "-m", "hostile.limited_memory", level, str(MIB), *map(str, paths)]
    child = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": where}, capture_output=True, text=True, timeout=600
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    last = lines[-1] if lines else {"start": "before the first file"}
    assert child.returncode == 0, f"ended with {child.returncode} in {last}: {child.stderr[-2000:]}"
    return [(line["start"], after) for line, after in zip(lines[::2], lines[1::2], strict=True)]


@pytest.mark.parametrize("level", LEVELS)
def test_hostile_files_give_values_or_an_error(arrow_data, level):
    results = survive(level, hostile(arrow_data))
    assert len(results) >= 6 * sum(EXPECTED.values())
    broken = [f"{what}: {how}" for what, how in results if how["result"] not in ("values", "refused")]
    assert not broken, "\n".join(broken)
    slow = [f"{what}: {how}" for what, how in results if how["seconds"] > SECONDS]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("level", ["full"])
def test_the_survivors_program_reads_good_files(arrow_data, level):
    """Guards the test above against a reader that refuses everything."""
    good = [golden.load(case).stream for case in golden.cases()[:5]]
    for what, how in survive(level, good):
        assert how["result"] == ("refused" if "file" in what else "values"), what
