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


@pytest.mark.nosanitize  # measured memory and time
@pytest.mark.campaign
@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))])
def test_bombs_stay_within_their_bounds(share):
    names = list(bombs.BOMBS)[share::SHARES]
    child = run_module("hostile.measure_bombs", ",".join(LEVELS), "all" if FULL else "quick", *names, timeout=3600)
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert child.returncode == 0, f"ended with {child.returncode} in {lines[-1:]}: {child.stderr[-2000:]}"
    steps = measure_bombs.paired(lines)
    assert {step["start"].partition(": ")[0] for step in steps} == {*names}
    wrong = [s for s in steps if s["seconds"] > SECONDS or s["mib"] > MIB or s["outcome"].startswith("broken")]
    assert not wrong, "\n".join(map(str, wrong))


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
