"""How fast are the batches of a stream in memory iterated over, when only the structure is checked?

Measured, per batch: opening the stream from a bytes object, and taking batch after batch as the library's own
object, asking each for its number of rows. No value is touched, so the size of the bodies matters only where
it pushes the metadata out of the caches. What a batch costs in streams of more and more of them, and a column
in batches of more and more of those, is fitted.

* pyarrow: ``for batch in pa.ipc.open_stream(data)``. Checks the structure of the metadata, no values.
* arrowipc: ``open_stream(data, validate="none")``: the same checks and more (all extents against their
  lengths).
* arrowipc full: the default, ``validate="full"``, for those who wonder what it costs.
* nanoarrow: ``c_array_stream(InputStream.from_readable(data))``; checks buffer sizes by default.
* polars: ``read_ipc_stream(data)``: one DataFrame, text converted to views and checked; no batches.
* arro3: ``read_ipc_stream(BytesIO(data))``: copies the bytes of each message; arrow-rs always validates
  fully.
* floor: ``RecordBatch.__new__(RecordBatch)`` and its number of rows, for as many batches, in the same loop, and
  "metadata touched": nothing is read, and the objects have no tables of nodes and buffers.
* metadata touched: one byte of each cache line of the metadata, by NumPy in one go: what comes on top of a
  batch's work where the metadata is in no cache, however it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import FLAT, Case, Curve, Run, Scale

#: Bytes of a cache line.
LINE = 64

TITLE = "iterate batches of an in-memory stream"


def cases(scale: Scale) -> Iterator[Case]:
    """Ten columns and a thousand in every shape; ten beyond the caches; more and more batches, and columns."""
    rows, count = scale.size(100, 3), scale.size(2_000, 2)
    for shape in data.SHAPES:
        batch = data.shaped(shape, rows)
        named = shape == "mixed"
        ten: dict[str, Any] = {"goal": 15, "row": "iterate", "named": named}
        yield case(f"10 columns ({shape}) x 100 rows", batch, count, **ten)
        yield beside_floor(f"10 columns ({shape}) x 100 rows", batch, count, named)
        wide = data.shaped(shape, rows, scale.size(1000, 12))
        thousand: dict[str, Any] = {"goal": 30, "row": "iterate 1000", "named": named}
        yield case(f"1000 columns ({shape}) x 100 rows", wide, scale.size(50, 2), **thousand)
        if scale.name != "quick":
            cold: dict[str, Any] = {"goal": 15, "row": "iterate cold", "named": named}
            yield case(f"10 columns ({shape}) x 100 rows", batch, scale.size(20_000, 2), **cold)
    mixed = data.mixed_batch(rows)
    for times in (20, 200, 2_000, 20_000) if scale.thorough else (20, 200, 2_000):
        more = scale.size(times, times // 20 + 1)
        yield case("10 everyday columns x 100 rows", mixed, more, goal=10, curve=Curve("cost per batch", more, FLAT))
    for n in (10, 100, 1_000, 10_000) if scale.thorough else (10, 100, 1_000):
        columns = scale.size(n, n // 5 + 1)
        batch = data.plain_batch(columns, 10)
        times = max(2, scale.size(100_000, 20) // columns)
        curve = Curve("cost per column", columns, FLAT)
        yield case(f"{columns} int64 columns x 10 rows", batch, times, unit="column", curve=curve)


def beside_floor(name: str, batch: pa.RecordBatch, count: int, named: bool) -> Case:
    """Return the case that compares us with the least that a reader with an object per batch must do."""
    source = data.stream([batch] * count)
    return Case(
        f"{name}, {count} batches: beside the floor",
        "batch",
        count,
        {"floor": least(source, count), "arrowipc": lambda: peers.rows_by_arrowipc(source, validate="none")},
        goal=0.625,
        baseline="floor",
        row="iterate floor",
        named=named,
    )


def least(source: bytes, count: int) -> Run:
    """Return a run that makes an empty batch object per batch, asks it for its rows, and touches the metadata."""
    touch, new = touching(source), arrowipc.RecordBatch.__new__

    def run() -> int:
        rows = 0
        for batch in map(new, repeat(arrowipc.RecordBatch, count)):
            rows += batch.num_rows
        return rows + touch()

    return run


def case(name: str, batch: pa.RecordBatch, count: int, unit: str = "batch", **options: Any) -> Case:
    """Return the case of a stream of `count` equal batches."""
    source = data.stream([batch] * count)
    return Case(
        f"{name}, {count} batches ({len(source) / 1e6:.3g} MB)",
        unit,
        count if unit == "batch" else count * batch.num_columns,
        {
            "pyarrow": lambda: peers.rows_by_pyarrow(source),
            "arrowipc": lambda: peers.rows_by_arrowipc(source, validate="none"),
            "arrowipc full": lambda: peers.rows_by_arrowipc(source),
            **peers.others(source),
            "metadata touched": touching(source),
        },
        **options,
    )


def touching(source: bytes) -> Run:
    """Return a run that reads a byte of each cache line of the metadata and does nothing else."""
    content = np.frombuffer(source, np.uint8)
    pieces = [np.frombuffer(each.metadata, np.uint8) for each in arrowipc.MessageReader(source)]
    starts = [piece.ctypes.data - content.ctypes.data for piece in pieces]
    spans = zip(starts, pieces, strict=True)
    lines = np.concatenate([np.arange(start, start + len(piece), LINE) for start, piece in spans])
    rows = peers.rows_by_arrowipc(source)

    def run() -> int:
        content[lines].sum()
        return rows

    return run
