"""How fast are large batches read and fully validated, compared with the speed of memory?

Measured, per batch, as in validate_small.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import data
from benchmarks.harness import Case, Scale
from benchmarks.validate_small import case

TITLE = "100,000 rows x 10 columns, fully validated"


def cases(scale: Scale) -> Iterator[Case]:
    """Batches inside and beyond the caches, with ASCII text and with text from many alphabets."""
    for many in (100_000, 2_000_000) if scale.thorough else (100_000,):
        rows = scale.size(many, 50)
        for ascii_only in (True, False):
            batch = data.mixed_batch(rows, ascii_only)
            name = f"10 mixed columns x {rows} rows ({'ASCII' if ascii_only else 'non-ASCII'} text)"
            named = ascii_only and many == 100_000
            yield case(name, batch, 1, goal=3, row="validate large", named=named)
