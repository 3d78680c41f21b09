"""How fast is a file of 100,000 batches opened and one of them read, and how fast are its rows counted?

Measured, per call: opening the file on disk (in the page cache), reading one batch, another one each time,
and closing. The footer lists every batch, so its size is what matters.

* pyarrow: ``pa.ipc.open_file(pa.memory_map(path))`` and ``get_batch(i)``; without a map ``pa.OSFile(path)``.
* arrowipc: ``open_file(path, validate="none")`` and ``get_batch(i)``; the path is mapped unless
  ``memory_map=False``. arrowipc full: the default.
* polars: ``scan_ipc(path).slice(first_row, rows).collect()``; to count, ``select(len())``.
* nanoarrow reads no files, arro3 offers no access to single batches.

Counting rows reads the metadata of every batch and no body: pyarrow and we call it ``count_rows()``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale

TITLE = "open a large file and read one batch"

ROWS = 10


def cases(scale: Scale) -> Iterator[Case]:
    """Files of many and of few batches: one batch read, mapped and not, and all rows counted."""
    many = scale.size(100_000, 5)
    for count in (many, scale.size(100, 3)):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "batches.arrow"))
            Path(path).write_bytes(data.file([data.plain_batch(2, ROWS)] * count))
            goal = 1.0
            for how, runs in {"mapped": mapped(path, count), "not mapped": read(path, count)}.items():
                named = how == "mapped" and count == many
                name = f"one of {count} batches, {how}"
                yield Case(name, "call", 1, runs, goal=goal, row="file", named=named)
            yield Case(f"count the rows of {count} batches", "call", 1, counted(path), goal=goal)


def each(count: int, read_one: Callable[[int], int]) -> Run:
    """Return a run that reads one batch after another in an order without pattern."""
    following = cycle(np.random.default_rng(5).integers(0, count, 1000).tolist()).__next__
    return lambda: read_one(following())


def mapped(path: str, count: int) -> dict[str, Run]:
    """Return those who map the file into memory."""

    def by_pyarrow(i: int) -> int:
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
            return int(reader.get_batch(i).num_rows)

    def by_arrowipc(i: int, **options: Any) -> int:
        with arrowipc.open_file(path, **options) as reader:
            return int(reader.get_batch(i).num_rows)

    found = {
        "pyarrow": each(count, by_pyarrow),
        "arrowipc": each(count, lambda i: by_arrowipc(i, validate="none")),
        "arrowipc full": each(count, by_arrowipc),
    }
    if peers.polars is not None:
        scan = peers.polars.scan_ipc
        found["polars"] = each(count, lambda i: scan(path).slice(i * ROWS, ROWS).collect().height)
    return found


def read(path: str, count: int) -> dict[str, Run]:
    """Return those who read parts of the file."""

    def by_pyarrow(i: int) -> int:
        with pa.OSFile(path) as source, pa.ipc.open_file(source) as reader:
            return int(reader.get_batch(i).num_rows)

    def by_arrowipc(i: int) -> int:
        with arrowipc.open_file(path, memory_map=False, validate="none") as reader:
            return int(reader.get_batch(i).num_rows)

    return {"pyarrow": each(count, by_pyarrow), "arrowipc": each(count, by_arrowipc)}


def counted(path: str) -> dict[str, Run]:
    """Return those who count without reading bodies."""

    def by_pyarrow() -> int:
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
            return int(reader.count_rows())

    def by_arrowipc() -> int:
        with arrowipc.open_file(path) as reader:
            return int(reader.count_rows())

    found: dict[str, Run] = {"pyarrow": by_pyarrow, "arrowipc": by_arrowipc}
    if peers.polars is not None:
        polars = peers.polars
        found["polars"] = lambda: int(polars.scan_ipc(path).select(polars.len()).collect().item())
    return found
