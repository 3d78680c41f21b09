"""How fast is much data written to memory, beside a bare copy of the same bytes?

128 MB in batches of 100,000 rows and as one batch, opening and closing the writer included. Memory has been written to
before.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from measuring import data
from measuring.race import Runs, question, size
from measuring.writes import Input, bound, by_pyarrow, presized, proven, to_buffer, warm

#: Bytes that are written.
WHOLE = 128_000_000
SHAPES = [*data.SHAPES, "everyday"]


def input_of(shape: str, one: bool) -> Input:
    """Return batches of `WHOLE` bytes, or as many rows in one."""
    rows = size(100_000, 40)
    batch = data.shaped(shape, rows)
    batches = [batch] * size(WHOLE // batch.nbytes, 2)
    return Input(pa.Table.from_batches(batches).combine_chunks().to_batches() if one else batches)


@question("write 128 MB to memory", "memcpy, pyarrow, arrowipc", unit="run", baseline="memcpy")
@pytest.mark.parametrize("batches", ["many batches", "one batch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_memory(shape: str, batches: str) -> Runs:
    given = input_of(shape, batches == "one batch")
    source = np.frombuffer(to_buffer(by_pyarrow, given.pyarrow), np.uint8)
    target = warm(bound(given))
    room = np.frombuffer(target, np.uint8)[: source.size]

    def copy() -> memoryview:
        np.copyto(room, source)
        return target

    return {"memcpy": proven(copy, given.table), **presized(given, target)}
