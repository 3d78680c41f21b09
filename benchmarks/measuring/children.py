"""Measures processes: how long statements take in a fresh interpreter, how much memory, and how much all compute."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import arrowipc
from measuring.race import Run

#: What a child defines that measures memory: `begin()` is what it has when its input is complete, `peak()`
#: the most that it has had since.
MEMORY = """
import re
def kib(name):
    with open("/proc/self/status") as status:
        return int(re.search(rf"{name}:\\s+(\\d+) kB", status.read())[1])
def begin():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # begin a new peak: that of getrusage has the peak of our parent in it
    return kib("VmRSS") * 1024
def peak():
    return kib("VmHWM") * 1024
"""


def printed(code: str) -> float:
    """Return the number that a fresh interpreter prints when it runs `code`."""
    # The child finds packages where we found them, and arrowipc last: the variable may have brought us ours.
    home, before = str(Path(arrowipc.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")
    path = filter(None, [before, *([] if "site-packages" in home or home in before.split(os.pathsep) else [home])])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages come compiled
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout)


def seconds(statement: str, setup: str = "pass") -> Run:
    """Return a run that returns the seconds of `statement` in a fresh interpreter, behind `setup`."""
    clock = "from time import perf_counter\nstart = perf_counter()"
    code = "\n".join((setup, clock, statement, "print(perf_counter() - start)"))
    return lambda: printed(code)


def peak(code: str, **names: Any) -> float:
    """Return the bytes that `code` takes above its ``before = begin()``; `names` are set first."""
    given = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    return printed("\n".join((given, MEMORY, code, "print(peak() - before)")))


def processor_time(run: Run) -> float:
    """Return the seconds that this process, and all that it started, compute during a run."""
    before = _computed()
    run()
    return _computed() - before


def _computed() -> float:
    times, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            words = path.read_text().rpartition(")")[2].split()
            times[int(path.parent.name)] = sum(map(int, words[11:15]))
            parents[int(path.parent.name)] = int(words[1])
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(times.get(each, 0) for each in ours) / os.sysconf("SC_CLK_TCK")
