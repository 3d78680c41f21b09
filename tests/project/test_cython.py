"""The Cython that builds the modules: what keeps us below a version, in as few lines as show it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from helpers.processes import shared_library

# Cython 3.3.0 and 3.3.1 give the item, which they own, back twice if the list cannot grow.
MODULE = "def results(list calls):\n    return [call() for call in calls]\n"

#: Loses references, if any, of an item that has some to spare; prints the allocations that failed and what was lost.
CHECK = """
import sys, _testcapi, results
item = object()
spare, calls, failed = [item] * 100, [lambda: item] * 40, 0
before = sys.getrefcount(item)
for step in range(40):
    _testcapi.set_nomemory(step, step + 1)
    try:
        results.results(calls)
    except MemoryError:
        failed += 1
    finally:
        _testcapi.remove_mem_hooks()
print(failed > 0, before - sys.getrefcount(item))
"""


@pytest.mark.slow
@pytest.mark.nosanitize  # its own build of a module
def test_comprehensions_keep_their_references_when_memory_runs_out(tmp_path: Path) -> None:
    pytest.importorskip("Cython", reason="needs Cython")
    pytest.importorskip("_testcapi", reason="needs CPython's own test module")
    (tmp_path / "results.pyx").write_text(MODULE)
    subprocess.run([sys.executable, "-m", "cython", "-3", "results.pyx"], check=True, cwd=tmp_path)
    link = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    shared_library(tmp_path / "results.c", f"-I{sysconfig.get_path('include')}", *link)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.returncode) == ("True 0\n", 0), "the Cython that builds us must stay below 3.3"
