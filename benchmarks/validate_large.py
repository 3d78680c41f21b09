"""How fast are large batches read and fully validated, compared with the speed of memory?

Measured, per batch, as in validate_small. Bytes per second count what validation has to touch: validity
bitmaps, offsets and text, not the numbers, whose every bit pattern is a value.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from benchmarks import data
from benchmarks.harness import Case, Scale
from benchmarks.validate_small import case

TITLE = "100,000 rows x 10 columns, fully validated"


def cases(scale: Scale) -> Iterator[Case]:
    """Batches inside and beyond the caches, with ASCII text and with text from many alphabets."""
    for rows in (100_000, 2_000_000) if scale.thorough else (100_000,):
        rows = scale.size(rows, 50)
        for ascii_only in (True, False):
            batch = data.mixed_batch(rows, ascii_only)
            name = f"10 mixed columns x {rows} rows ({'ASCII' if ascii_only else 'non-ASCII'} text)"
            yield case(name, batch, 1, goal=3, touched=touched(batch))


def touched(batch: pa.RecordBatch) -> int:
    """Return the bytes that full validation reads: bitmaps, and all of text columns."""
    total = 0
    for column in batch.columns:
        validity, *rest = column.buffers()
        total += validity.size if validity is not None else 0
        if pa.types.is_string(column.type):
            total += sum(buffer.size for buffer in rest)
    return total
