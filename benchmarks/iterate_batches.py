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
* metadata touched: one byte of each cache line of the metadata, by NumPy in one go: what comes on top of a
  batch's work where the metadata is in no cache, however it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """Ten columns in sizes from inside to beyond the caches, a thousand columns; more and more columns."""
    mixed, plain = data.mixed_batch(scale.size(100, 3)), data.plain_batch(10, scale.size(100, 3))
    ten = {"goal": 10, "row": "iterate"}
    for times in (20, 200, 2_000, 20_000) if scale.thorough else (20, 200, 2_000):
        count = scale.size(times, times // 20 + 1)
        curve = Curve("cost per batch", count, FLAT)
        yield case("10 mixed columns x 100 rows", mixed, count, named=times == 2_000, curve=curve, **ten)
    yield case("10 int64 columns x 100 rows", plain, scale.size(2_000, 2), **ten)
    wide = data.plain_batch(scale.size(1000, 12), 100)
    thousand = {"goal": 25, "row": "iterate 1000"}
    yield case("1000 int64 columns x 100 rows", wide, scale.size(50, 2), named=True, **thousand)
    for n in (10, 100, 1_000, 10_000) if scale.thorough else (10, 100, 1_000):
        columns = scale.size(n, n // 5 + 1)
        batch = data.plain_batch(columns, 10)
        times = max(2, scale.size(100_000, 20) // columns)
        curve = Curve("cost per column", columns, FLAT)
        yield case(f"{columns} int64 columns x 10 rows", batch, times, unit="column", curve=curve)


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
