"""How much faster do two threads read the batches of one open file than one thread?

Measured, per batch: taking it from a reader that is open, and proving that its values are safe to use. Each thread
takes other batches, every second one, and has a processor of its own: a scheduler that is asked anew for every sample
puts both on one for a while. No library uses threads inside a batch. The file is in the page cache.

* mapped: a mapped file. Of int64 columns nothing is touched then, and a microsecond of Python cannot be shared: this
  case has no goal.
* read: bytes are read from the file; for most shapes this is a matter of memory, which processors share.
* arrowipc one thread: the baseline; the others say how many times as fast they are.
* pyarrow two threads, pyarrow one thread: without validation.
* bytes alone: two threads that read the same bytes into memory as well aligned, the floor of "read".

All batches are read several times in a run, because handing the work to the threads takes 100 us.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import arrowipc
from arrowipc._core import aligned_buffer
from benchmarks import data
from benchmarks.harness import Case, Run, Scale
from benchmarks.machine import cores

TITLE = "two threads on one file reader"

THREADS = 2
ROUNDS = 5


def cases(scale: Scale) -> Iterator[Case]:
    """Four shapes, mapped and read."""
    rows, batches = scale.size(100_000, 20), scale.size(16, 4)
    for shape in data.SHAPES:
        source = data.file([data.shaped(shape, rows)] * batches)
        with tempfile.TemporaryDirectory() as folder, pinned() as threads:
            path = Path(folder, "file.arrow")
            path.write_bytes(source)
            for how in ("mapped", "read"):
                row = "" if (shape, how) == ("int64", "mapped") else f"shared {how}"
                yield Case(
                    f"{how}, {shape}, {batches} x {rows} rows x 10 columns",
                    "batch",
                    batches * ROUNDS,
                    contenders(path, how == "mapped", batches, threads),
                    goal={"shared mapped": 1.9, "shared read": 1.7}.get(row) if cores() >= THREADS else None,
                    threads=THREADS,
                    baseline="arrowipc one thread",
                    row=row,
                    named=bool(row) and shape == "mixed",
                )


def pinned() -> ThreadPoolExecutor:
    """Return a pool whose threads have processors of their own."""
    numbers = count()
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def pin() -> None:
        if allowed:
            os.sched_setaffinity(0, {allowed[next(numbers) % len(allowed)]})

    return ThreadPoolExecutor(THREADS, initializer=pin)


def contenders(path: Path, mapped: bool, batches: int, threads: ThreadPoolExecutor) -> dict[str, Run]:
    """Return who reads all batches with one thread, and with two."""
    ours = arrowipc.open_file(path, memory_map=mapped, use_threads=False).get_batch
    options = pa.ipc.IpcReadOptions(use_threads=False)
    theirs = pa.ipc.open_file((pa.memory_map if mapped else pa.OSFile)(str(path)), options=options).get_batch
    found: dict[str, Run] = {}
    for name, get in (("arrowipc", ours), ("pyarrow", theirs)):
        found[f"{name} one thread"] = partial(shared, threads, 1, batches, partial(rows_of, get))
        found[f"{name} two threads"] = partial(shared, threads, THREADS, batches, partial(rows_of, get))
    found["arrowipc"] = found.pop("arrowipc two threads")
    if not mapped and hasattr(os, "preadv"):
        rows = found["pyarrow one thread"]()
        found["bytes alone"] = partial(bytes_alone, threads, path, batches, rows)
    return found


def shared(threads: ThreadPoolExecutor, n: int, batches: int, work: Callable[[list[int]], int]) -> int:
    """Let `n` threads do their parts of the batches; return the sum of the results."""
    parts = [threads.submit(work, [*range(i, batches, n)] * ROUNDS) for i in range(n)]
    return sum(part.result() for part in parts)


def rows_of(get: Callable[[int], Any], numbers: list[int]) -> int:
    """Count the rows of batches, one after the other."""
    return sum(get(i).num_rows for i in numbers)


def bytes_alone(threads: ThreadPoolExecutor, path: Path, batches: int, rows: int) -> int:
    """Read the messages of the batches and nothing else; return `rows`."""
    with arrowipc.open_file(path) as reader:
        blocks = reader.blocks
    with path.open("rb", buffering=0) as file:

        def read(numbers: list[int]) -> int:
            for offset, metadata, body in map(blocks.__getitem__, numbers):
                at = -metadata % 64
                target = memoryview(aligned_buffer(at + metadata + body))[at:]
                os.preadv(file.fileno(), (target,), offset)
                del target  # its memory is the next one's
            return 0

        return shared(threads, THREADS, batches, read) + rows
