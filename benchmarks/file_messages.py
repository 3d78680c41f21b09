"""What does a message of a file cost, and does it cost more the more messages the file has?

Measured, per batch, in files of 100 to 100,000 batches of two columns and ten rows (in the page cache):
opening the file, reading all batches, one after the other, and closing it.

* pyarrow: ``pa.ipc.open_file(pa.memory_map(path))`` and ``get_batch(i)`` for each.
* arrowipc: ``for batch in open_file(path, validate="none")``; arrowipc full: the default.
* polars: ``read_ipc(path)``, one frame.
* nanoarrow and arro3 do not read files batch by batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import FLAT, Case, Curve, Run, Scale

TITLE = "read all of a file of many batches"


def cases(scale: Scale) -> Iterator[Case]:
    """Files of more and more batches."""
    for n in (100, 1_000, 10_000, 100_000):
        count = scale.size(n, n // 1_000 + 2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "batches.arrow")
            path.write_bytes(data.file([data.plain_batch(2, 10)] * count))
            curve = Curve("cost per message of a file", count, FLAT)
            yield Case(f"file of {count} batches", "batch", count, contenders(str(path)), curve=curve)


def contenders(path: str) -> dict[str, Run]:
    """Return those who read all batches."""

    def by_pyarrow() -> int:
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
            return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))

    def by_arrowipc(**options: Any) -> int:
        with arrowipc.open_file(path, **options) as reader:
            return sum(batch.num_rows for batch in reader)

    found: dict[str, Run] = {
        "pyarrow": by_pyarrow,
        "arrowipc": lambda: by_arrowipc(validate="none"),
        "arrowipc full": by_arrowipc,
    }
    if peers.polars is not None:
        found["polars"] = lambda: int(peers.polars.read_ipc(path).height)
    return found
