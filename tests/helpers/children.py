"""Runs a helper that may die in a process of its own, and starts it again behind the input that killed it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def environment() -> dict[str, str]:
    where = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(where)}


def judged(module: str, *arguments: str, most_deaths: int = 200, timeout: float = 3600) -> list[dict[str, Any]]:
    """One line per input of ``python -m MODULE ARGUMENTS FIRST``: what was printed about it, put together.

    A child that ends before it is through is started again behind its last input, whose line says
    ``died``: the number of the signal.
    """
    found: dict[int, dict[str, Any]] = {}
    first, deaths = 0, 0
    while True:
        command = [sys.executable, "-m", module, *arguments, str(first)]
        child = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout)
        last = None
        for line in child.stdout.splitlines():
            said = json.loads(line)
            last = said.get("input", last)
            assert last is not None, line
            found.setdefault(last, {"input": last}).update(said)
        if child.returncode == 0:
            return [found[number] for number in sorted(found)]
        deaths += 1
        assert child.returncode < 0, child.stderr[-3000:]
        assert last is not None, "died before the first input"
        assert deaths <= most_deaths, child.stderr[-3000:]
        found[last]["died"] = -child.returncode
        first = last + 1
