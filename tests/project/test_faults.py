"""The table of the faults that `make plant` plants is that of these sources."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_fault_has_its_line_and_its_tests() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/plant.py", "--list"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
