"""What does a batch cost in a file of many, and what does closing the file cost?

Measured, per batch, in files of 1,000 to 100,000 batches of two columns and ten rows: writing all batches,
and closing the writer, which writes a footer with a block per batch. Neither may depend on how many batches
there were before. All write to memory that has been written to before, so that the cost of new memory, which
grows with its size, is not in it (``FixedSizeBufferWriter``, a ``memoryview``).

* pyarrow: ``new_file(sink, schema)``, ``write_batch``, ``close``.
* arrowipc: the same names.
* The others have no writers of files that take one batch after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import FLAT, Case, Curve, Run, Scale
from benchmarks.writes import warm

TITLE = "write files of many batches"


def cases(scale: Scale) -> Iterator[Case]:
    """The batches, then the footer."""
    batch = data.plain_batch(2, 10)
    for n in (1_000, 10_000, 100_000):
        count = scale.size(n, n // 1_000 + 1)
        for part, goal in (("batches", 3.0), ("close", None)):
            yield Case(
                f"file of {count} batches, {part}",
                "batch",
                count,
                contenders(batch, count, part == "close"),
                goal=goal,
                timed=True,
                curve=Curve(f"cost per batch: {part}", count, FLAT),
            )


def contenders(batch: pa.RecordBatch, count: int, closing: bool) -> dict[str, Run]:
    """Return runs that return the seconds of writing `count` batches, or of closing the writer after that."""
    (ours,) = arrowipc.open_stream(data.stream([batch]))
    target = warm(len(data.file([batch] * count)) * 5 // 4)
    buffer = pa.py_buffer(target)

    def timed(writer: Any, batch: Any) -> float:
        start = perf_counter()
        for _ in range(count):
            writer.write_batch(batch)
        written = perf_counter()
        writer.close()
        return perf_counter() - written if closing else written - start

    def by_pyarrow() -> float:
        return timed(pa.ipc.new_file(pa.FixedSizeBufferWriter(buffer), batch.schema), batch)

    def by_arrowipc() -> float:
        return timed(arrowipc.new_file(target, ours.schema), ours)

    check_file(batch, ours, min(count, 100))
    return {"pyarrow": by_pyarrow, "arrowipc": by_arrowipc}


def check_file(batch: pa.RecordBatch, ours: arrowipc.RecordBatch, count: int) -> None:
    """Read back a file as it is written in the runs, a short one."""
    sink = bytearray()
    with arrowipc.new_file(sink, ours.schema) as writer:
        for _ in range(count):
            writer.write_batch(ours)
    found = pa.ipc.open_file(pa.py_buffer(sink)).read_all()
    if found != pa.Table.from_batches([batch] * count):
        raise ValueError("other rows were read back than those that were written")
