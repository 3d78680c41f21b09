"""How fast are small batches read and fully validated?

Measured, per batch: opening the stream, taking each batch and proving that its values are safe to use:
offsets, UTF-8, null counts.

* pyarrow: ``batch.validate(full=True)`` on every batch, its documented way for untrusted data.
* arrowipc: the default, ``validate="full"``.
* arro3: arrow-rs validates fully whenever it reads; also copies the bytes.
* polars: checks UTF-8 and converts text to views; one DataFrame, so not the same work.
* nanoarrow's reader offers no full validation from Python and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from benchmarks import data, peers
from benchmarks.harness import Case, Scale

TITLE = "the same small batches, fully validated"


def cases(scale: Scale) -> Iterator[Case]:
    """Mixed columns, two of them text, and plain integers."""
    rows, count = scale.size(100, 3), scale.size(2_000, 2)
    yield case(f"10 mixed columns x {rows} rows (non-ASCII text)", data.mixed_batch(rows), count)
    yield case(f"10 mixed columns x {rows} rows (ASCII)", data.mixed_batch(rows, ascii_only=True), count)
    yield case(f"10 int64 columns x {rows} rows", data.plain_batch(10, rows), count)


def rows_by_pyarrow(source: bytes) -> int:
    """Iterate and validate."""
    rows = 0
    for batch in pa.ipc.open_stream(source):
        batch.validate(full=True)
        rows += batch.num_rows
    return rows


def case(name: str, batch: pa.RecordBatch, count: int, goal: float = 5, touched: int | None = None) -> Case:
    """Return the case of a stream of `count` equal batches."""
    source = data.stream([batch] * count)
    return Case(
        f"{name}, {count} batches" if count > 1 else name,
        "batch",
        count,
        {
            "pyarrow": lambda: rows_by_pyarrow(source),
            "arrowipc": lambda: peers.rows_by_arrowipc(source),
            **peers.others(source, without=("nanoarrow",)),
        },
        goal=goal,
        touched=touched,
    )
