"""What does it cost to find the minimum, the maximum and the nulls of columns, and to write them too?

Measured, per value, for columns of one type each: all three numbers of a column that lies in memory.

* pyarrow: ``pyarrow.compute.min_max(column)`` and ``column.null_count``.
* arrowipc: ``compute_statistics(batch)``, a batch of that column.

Bytes per second count the buffers.

The cases about writing measure, per batch, a stream in memory with ``new_stream(..., statistics=True)``; the
baseline is the same without.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import arrowipc
from benchmarks import data
from benchmarks.harness import Case, Run, Scale

TITLE = "minimum, maximum and nulls of columns"


def cases(scale: Scale) -> Iterator[Case]:
    """One type after another, without and with nulls; then writing."""
    for name, column in columns(scale.size(1_000_000, 10)).items():
        yield case(name, column)
    for rows, count in ((100, 200), (10_000, 20)):
        yield written(scale.size(rows, 3), scale.size(count, 2))


def columns(rows: int) -> dict[str, pa.Array]:
    """Return columns of so many values."""
    random = np.random.default_rng(7)
    nulls = random.random(rows) < 0.1
    found = {
        kind: pa.array(random.integers(0, 100, rows).astype(kind))
        for kind in ("int8", "uint16", "int32", "int64", "float32", "float64")
    }
    found["bool"] = pa.array(random.random(rows) < 0.5)
    found["decimal128"] = pa.array(random.integers(0, 10**6, rows)).cast(pa.decimal128(21, 2))
    found["timestamp"] = found["int64"].cast(pa.timestamp("us"))
    found["text"] = pa.array([f"name {i}" for i in random.integers(0, rows, rows)], pa.string())
    found["binary of 8 bytes"] = found["int64"].view(pa.binary(8))
    for kind in ("int64", "float64", "text"):
        values = found[kind].to_numpy(zero_copy_only=False)
        found[f"{kind}, a tenth null"] = pa.array(values, found[kind].type, mask=nulls)
    return {f"{name}, {rows} values": column for name, column in found.items()}


def case(name: str, column: pa.Array) -> Case:
    """Return the case of one column; plain integers are read at the speed of memory, where noise decides."""
    ours = arrowipc.RecordBatch.from_arrow(pa.record_batch([column], ["x"]))
    # The bounds themselves are not of the same kind for every type; tests/columns/test_statistics.py compares them.
    runs: dict[str, Run] = {
        "pyarrow": lambda: (pc.min_max(column) is not None, column.null_count),
        "arrowipc": lambda: nulls_of(arrowipc.compute_statistics(ours)["x"]),
    }
    return Case(name, "value", len(column), runs, goal=0.8, touched=column.nbytes)


def nulls_of(found: arrowipc.ColumnStatistics) -> tuple[bool, int | None]:
    """Return whether there are bounds, and the nulls."""
    return found.min is not None and found.max is not None, found.null_count


def written(rows: int, count: int) -> Case:
    """Return the case of batches that are written with and without statistics."""
    batch = arrowipc.RecordBatch.from_arrow(data.mixed_batch(rows))

    def write(statistics: bool) -> int:
        with arrowipc.new_stream(bytearray(), batch.schema, statistics=statistics) as writer:
            for _ in range(count):
                writer.write_batch(batch)
        return count

    runs: dict[str, Run] = {
        "arrowipc without": lambda: write(False),
        "arrowipc": lambda: write(True),
    }
    name = f"write 10 mixed columns x {rows} rows, {count} batches"
    return Case(name, "batch", count, runs, baseline="arrowipc without")
