"""Small inputs that ask for much cost little: each bomb, each entry point, each use of what comes out.

A campaign (see `helpers.processes`) takes every step at every level.
"""

import json
from typing import Any

import pytest
from helpers.processes import FULL, run_module
from hostile import bombs, measure_bombs

SECONDS = 1.0
MIB = 256
LEVELS = measure_bombs.LEVELS if FULL else ("full",)
#: A child takes some bombs at a time, so that little time goes into starting it.
SHARES = 16


def measured(names: list[str], levels: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Per bomb the steps that a child took, with their outcome, processor seconds and MiB."""
    extent = "all" if FULL else "quick"
    child = run_module("hostile.measure_bombs", ",".join(levels), extent, *names, timeout=3600)
    found: dict[str, list[dict[str, Any]]] = {}
    lines: list[dict[str, Any]] = []
    for line in map(json.loads, child.stdout.splitlines()):
        if "bomb" in line:
            lines = found[line["bomb"]] = [line]
        else:
            lines.append(line)
    last = lines[-1] if lines else {"start": "before the first bomb"}
    assert child.returncode == 0, f"ended with {child.returncode} in {last}: {child.stderr[-2000:]}"
    return found


@pytest.mark.nosanitize  # measured memory and time
@pytest.mark.campaign
@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))])
def test_bombs_stay_within_their_bounds(share):
    names = list(bombs.BOMBS)[share::SHARES]
    wrong = []
    for name, lines in measured(names, LEVELS).items():
        for step in measure_bombs.paired(lines[1:]):
            if step["seconds"] > SECONDS or step["mib"] > MIB or step["outcome"].startswith("broken"):
                wrong.append(f"{name}: {step}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.nosanitize
def test_the_meter_measures():
    lines: list[dict[str, Any]] = []
    meter = measure_bombs.Meter(lines.append)
    meter.run("much", lambda: len(bytearray(b"x") * (300 << 20)))
    meter.run("little", lambda: 0)
    meter.run("long", lambda: sum(range(10**7)))
    meter.run("wrong", lambda: 1 // 0)
    much, little, long, wrong = measure_bombs.paired(lines)
    assert much["mib"] >= 300 > 50 > little["mib"]
    assert long["seconds"] > 0.02 >= little["seconds"]
    assert wrong["outcome"].startswith("broken: ZeroDivisionError")
