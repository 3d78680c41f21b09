"""Remote servers that lie, replace files or stall: right values or an error with words, in bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.children import environment
from helpers.liar import LIES, Liar
from helpers.rounds import rounds

import arrowipc as ipc
from arrowipc import RemoteSource
from arrowipc.types import field, int64

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

#: What any number of lies may cost together, and one alone.
MIB, SECONDS = 128, 60
SCHEMA = ipc.Schema([field(name, int64()) for name in "abcd"])


def written(opener: Any, shift: int, batches: int = 6, rows: int = 2_000) -> bytes:
    """A file or stream; all of them are of one size and layout."""
    sink = bytearray()
    with opener(sink, SCHEMA) as writer:
        for number in range(batches):
            values = list(range(number + shift, number + shift + rows))
            writer.write_batch(ipc.RecordBatch.from_pydict(dict.fromkeys("abcd", values), SCHEMA))
    return bytes(sink)


@pytest.fixture(scope="module")
def files() -> dict[str, tuple[bytes, bytes]]:
    made = {
        "arrow": (written(ipc.new_file, 0), written(ipc.new_file, 7_000)),
        "arrows": (written(ipc.new_stream, 0), written(ipc.new_stream, 7_000)),
    }
    assert all(len(first) == len(second) for first, second in made.values())
    return made


@pytest.mark.nosanitize  # measured memory
@pytest.mark.campaign
def test_a_server_that_lies_costs_little_and_gives_no_wrong_values(tmp_path: Path, files: Any) -> None:
    for ending, versions in files.items():
        for number, data in enumerate(versions):
            (tmp_path / f"{number}.{ending}").write_bytes(data)
    names = list(LIES)
    assert len(names) >= 40
    with Liar(files, [LIES[name][0] for name in names]) as liar:
        urls = {f"http://127.0.0.1:{liar.port}/{number}/x": name for number, name in enumerate(names)}
        command = [sys.executable, "-m", "helpers.liar", str(tmp_path), str(rounds(2, 30)), *urls]
        child = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=1800)
    assert child.returncode == 0, child.stderr[-3000:]
    *lines, last = map(json.loads, child.stdout.splitlines())
    wrong = []
    for line in lines:
        name = urls[line["url"]]
        wanted = LIES[name][1] if line["way"] in ("file", "pieces") else "either"
        allowed = ("right", "refused") if wanted == "either" else (wanted,)
        if line["outcome"] not in allowed or line["seconds"] > SECONDS:
            wrong.append(f"{name}, {line['way']}: {line['outcome']} in {line['seconds']:.1f} s {line['words']}")
    slowest = max(lines, key=lambda line: line["seconds"])
    print(
        f"\n{len(lines)} readings of {len(names)} servers: {last['mib']:.0f} MiB together, at most "
        f"{slowest['seconds']:.1f} s ({urls[slowest['url']]})"
    )
    assert not wrong, "\n".join(wrong)
    assert len(lines) == 5 * len(names)
    assert last["mib"] <= MIB
