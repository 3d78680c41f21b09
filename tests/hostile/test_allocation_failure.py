"""Every allocation fails once: MemoryError, the same works the next time, and nothing is lost.

A preloaded allocator (`c/failing_allocations.c`) fails the first allocation of a scenario, the second, and so on until
the scenario runs through; `failing_allocations.py` looks at each outcome in a process of its own.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import scenarios
from helpers.processes import FULL, environment, rounds, run_module, shared_library

#: Scenarios of the quick run in which the interpreter lacks memory too.
QUICK = "strict,deltas,push,payloads decoded,fail,an lz4 stream,lent,by key,rows,built,go on"

pytestmark = [
    pytest.mark.nosanitize,  # AddressSanitizer brings its own allocator
    pytest.mark.campaign,
    pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD and the GNU C library"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The failing allocator, compiled."""
    source = Path(__file__).parent / "c" / "failing_allocations.c"
    return shared_library(source, "-lpthread", folder=tmp_path_factory.mktemp("allocator"))


def run_failing(library: Path, mode: str, step: int, names: str = "") -> list[dict[str, Any]]:
    """Run scenarios; the lines of the report, of which the last says where a process that died was."""
    child = {
        **environment(),
        "LD_PRELOAD": str(library),
        "PYTHONMALLOC": "malloc" if mode == "any" else "default",
        # Freed memory is overwritten: what is used after that does not go unnoticed.
        "MALLOC_PERTURB_": "165",
        "PYTHONFAULTHANDLER": "1",
    }
    shown = run_module("hostile.failing_allocations", mode, step, names, env=child, timeout=3000)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert shown.returncode == 0, (lines[-1:], shown.returncode, shown.stderr[-3000:])
    assert lines[-1] == {"finished": True}
    return lines


def judge(lines: list[dict[str, Any]]) -> tuple[int, int]:
    """How many scenarios came to an end, and how many times an allocation failed."""
    assert [line for line in lines if "problem" in line] == []
    done = {line["name"]: line["done"] for line in lines if "done" in line}
    return len(done), sum(1 for line in lines if "start" in line) - len(done)


@pytest.mark.parametrize(("mode", "some"), [("one", 2), pytest.param("rest", 3, marks=pytest.mark.slow)])
def test_every_allocation_may_fail(library: Path, mode: str, some: int) -> None:
    count, failures = judge(run_failing(library, mode, rounds(some, 0)))
    print(f"{mode}: {count} scenarios, {failures:,} failed allocations, no signal, nothing left behind")
    assert count == len(scenarios.SCENARIOS)
    assert failures >= count


@pytest.mark.slow
def test_the_interpreter_may_lack_memory_too(library: Path) -> None:
    count, failures = judge(run_failing(library, "any", rounds(6, 1000), "" if FULL else QUICK))
    print(f"any: {count} scenarios, {failures:,} failed allocations")
    assert count >= (len(scenarios.SCENARIOS) - len(scenarios.FOREIGN) if FULL else 10)


def test_the_allocator_fails_what_it_is_told_to(library: Path) -> None:
    """The control: a scenario that reads is refused as often as memory is missing."""
    (done,) = [line for line in run_failing(library, "one", 0, "a strict stream") if "done" in line]
    assert done["refused"] == done["done"] > 3
