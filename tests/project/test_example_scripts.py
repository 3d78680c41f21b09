"""The scripts of examples/ run as processes of their own, and print what they promise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.pages import ROOT

EXAMPLES = ROOT / "examples"
PRINTS = {
    "dictionary_deltas": ("5 rows, the last one is city 4", "read: 4 deltas"),
    "tensors_in_shared_memory": ("reader: (4, 48, 64) ('frame', 'y', 'x')",),
    "train_on_rows": ("10000 rows, one of them: (3,) float32", "weights: [2.0, -1.0, 0.5]"),
    "service_without_pyarrow": ("'fahrenheit': [32.0, 212.0]", "pyarrow was loaded: False"),
}
ELSEWHERE = {"dissociated_server", "dissociated_client"}


def start(name: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", PRINTS)
def test_what_an_example_prints(name, tmp_path):
    with start(name, cwd=tmp_path) as process:
        printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    for words in PRINTS[name]:
        assert words in printed


def test_the_dissociated_client_reads_what_the_server_serves():
    with start("dissociated_server") as server:
        uri = server.stdout.readline().strip()
        with start("dissociated_client", uri) as client:
            printed, errors = client.communicate(timeout=60)
        assert (client.returncode, errors) == (0, "")
        assert "1000000 rows, the highest price is 9999.99" in printed
        server.communicate("", timeout=60)
    assert server.returncode == 0


def test_every_example_is_tried():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS) | ELSEWHERE
