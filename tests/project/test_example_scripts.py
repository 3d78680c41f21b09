"""The scripts of examples/ run as processes of their own, and print what they promise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.pages import ROOT

EXAMPLES = ROOT / "examples"
PRINTS = {
    "dissociated_table": ("1000000 rows, the highest price is 9999.99",),
    "tensors_in_shared_memory": ("reader: (4, 48, 64) ('frame', 'y', 'x')",),
    "train_on_rows": ("10000 rows, one of them: (3,) float32", "weights: [2.0, -1.0, 0.5]"),
    "service_without_pyarrow": ("'fahrenheit': [32.0, 212.0]", "pyarrow was loaded: False"),
}


@pytest.mark.parametrize("name", PRINTS)
def test_what_an_example_prints(name, tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for words in PRINTS[name]:
        assert words in done.stdout


def test_every_example_is_tried_and_short():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(PRINTS)
    for path in EXAMPLES.glob("*.py"):
        assert path.read_text().count("\n") < 65, path
