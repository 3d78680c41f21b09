"""What does it cost to read with arrowipc and hand every batch over to another library?

Measured, per batch: opening the stream and draining it in the other library's hands.

* pyarrow: ``for batch in pa.ipc.open_stream(data)``: no handover at all.
* arrowipc: ``for batch in pa.RecordBatchReader.from_stream(arrowipc.open_stream(data, validate="none"))``:
  the Arrow C stream interface, the same checks as pyarrow's own reader. Importing alone takes pyarrow as long
  as reading.
* arrowipc full: the same, fully validated.
* arrowipc one by one: ``pa.record_batch(batch)`` for each batch: the Arrow C data interface.
* pyarrow via C stream: pyarrow's own reader handed to pyarrow in the same way: what the interface costs by
  itself.
* batches that are there: our batches, read beforehand, handed over in the same way: the floor, which is
  pyarrow's import and little else.

The second case ends in polars: ``pl.DataFrame(reader)`` against polars' own ``read_ipc_stream`` and against
reading with pyarrow (``pl.from_arrow(reader.read_all())``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Scale

TITLE = "hand every batch over to pyarrow"


def cases(scale: Scale) -> Iterator[Case]:
    """Small mixed and plain batches."""
    rows, count = scale.size(100, 3), scale.size(2_000, 2)
    mixed = data.stream([data.mixed_batch(rows)] * count)
    yield to_pyarrow(f"10 mixed columns x {rows} rows, {count} batches", mixed, count, named=True)
    plain = data.stream([data.plain_batch(10, rows)] * count)
    yield to_pyarrow(f"10 int64 columns x {rows} rows, {count} batches", plain, count)
    if peers.polars is not None:
        count = scale.size(100, 2)
        source = data.stream([data.mixed_batch(scale.size(10_000, 3))] * count)
        yield to_polars(f"into one polars DataFrame: {count} batches x 10 mixed columns", source, count)


def drained(reader: Any) -> int:
    """Take all batches of a reader through the C stream interface."""
    rows = 0
    for batch in pa.RecordBatchReader.from_stream(reader):
        rows += batch.num_rows
    return rows


def one_by_one(source: bytes) -> int:
    """Take each batch through the C data interface."""
    rows = 0
    for batch in arrowipc.open_stream(source, validate="none"):
        rows += pa.record_batch(batch).num_rows
    return rows


def to_pyarrow(name: str, source: bytes, count: int, named: bool = False) -> Case:
    """Return the case that ends in pyarrow batches."""
    there = arrowipc.Table.from_batches(list(arrowipc.open_stream(source, validate="none")))
    return Case(
        name,
        "batch",
        count,
        {
            "pyarrow": lambda: peers.rows_by_pyarrow(source),
            "arrowipc": lambda: drained(arrowipc.open_stream(source, validate="none")),
            "arrowipc full": lambda: drained(arrowipc.open_stream(source)),
            "arrowipc one by one": lambda: one_by_one(source),
            "pyarrow via C stream": lambda: drained(pa.ipc.open_stream(source)),
            "batches that are there": lambda: drained(there),
        },
        goal=0.7,
        row="handover",
        named=named,
    )


def to_polars(name: str, source: bytes, count: int) -> Case:
    """Return the case that ends in a polars DataFrame."""
    polars = peers.polars
    return Case(
        name,
        "batch",
        count,
        {
            "pyarrow": lambda: polars.from_arrow(pa.ipc.open_stream(source).read_all()).height,
            "arrowipc": lambda: polars.DataFrame(arrowipc.open_stream(source, validate="none")).height,
            "arrowipc full": lambda: polars.DataFrame(arrowipc.open_stream(source)).height,
            "polars": lambda: peers.rows_by_polars(source),
        },
    )
