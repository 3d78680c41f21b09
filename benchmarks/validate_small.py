"""How fast are small batches read and fully validated?

Measured, per batch: opening the stream, taking each batch and proving that its values are safe to use:
offsets, UTF-8, null counts. Bytes per second count what validation has to touch: validity bitmaps, offsets
and text, not the numbers, whose every bit pattern is a value.

* pyarrow: ``batch.validate(full=True)`` on every batch, its documented way for untrusted data.
* arrowipc: the default, ``validate="full"``.
* arro3: arrow-rs validates fully whenever it reads; also copies the bytes.
* polars: checks UTF-8 and converts text to views; one DataFrame, so not the same work.
* nanoarrow's reader offers no full validation from Python and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks import data, peers
from benchmarks.harness import Case, Scale

TITLE = "the same small batches, fully validated"


def cases(scale: Scale) -> Iterator[Case]:
    """Mixed columns, two of them text, from inside to beyond the caches; ASCII alone; plain integers."""
    rows, count = scale.size(100, 3), scale.size(2_000, 2)
    mixed = data.mixed_batch(rows)
    goal: dict[str, Any] = {"goal": 5, "row": "validate"}
    for times in (20, 2_000, 20_000) if scale.thorough else (20, 2_000):
        name = f"10 mixed columns x {rows} rows (non-ASCII text)"
        yield case(name, mixed, scale.size(times, times // 1000 + 2), named=times == 2_000, **goal)
    yield case(f"10 mixed columns x {rows} rows (ASCII)", data.mixed_batch(rows, ascii_only=True), count, **goal)
    yield case(f"10 int64 columns x {rows} rows", data.plain_batch(10, rows), count, **goal)


def rows_by_pyarrow(source: bytes) -> int:
    """Iterate and validate."""
    rows = 0
    for batch in pa.ipc.open_stream(source):
        batch.validate(full=True)
        rows += batch.num_rows
    return rows


def touched(batch: pa.RecordBatch) -> int:
    """Return the bytes that full validation reads: bitmaps, and all of text columns."""
    total = 0
    for column in batch.columns:
        validity, *rest = column.buffers()
        total += validity.size if validity is not None else 0
        if pa.types.is_string(column.type):
            total += sum(buffer.size for buffer in rest)
    return total


def case(name: str, batch: pa.RecordBatch, count: int, **options: Any) -> Case:
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
        touched=touched(batch) * count or None,
        **options,
    )
