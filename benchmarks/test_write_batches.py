"""How fast are batches that are there as the library's own objects written into a stream in memory?

Opening the writer (which writes the schema) and closing it count too. Memory grows (``pa.BufferOutputStream`` and
``bytearray``), or is warm: of a given size, and written to before. memcpy: messages that are there
already are appended. Slices begin and end within the bytes of bitmaps, and their texts do not begin at 0. polars writes
no batches.
"""

from __future__ import annotations

import numpy as np
import pytest
from measuring import data
from measuring.race import Runs, question, size
from measuring.writes import Input, appending, bound, growing, presized, to_bytearray, warm

WRITERS = "pyarrow, arrowipc, nanoarrow, arro3"


def input_of(shape: str, count: int) -> Input:
    rows = size(100, 3)
    return Input([data.shaped(shape, rows)] * count)


@question("write our own batches of 10 columns x 100 rows", WRITERS + ", memcpy", unit="batch", per="count")
@pytest.mark.parametrize("count", [size(2_000, 2), size(200, 3), size(20, 4)])
@pytest.mark.parametrize("shape", [*data.SHAPES, "everyday"])
def test_growing(shape: str, count: int) -> Runs:
    given = input_of(shape, count)
    return growing(given) | {"memcpy": appending(given, to_bytearray, "extend")}


@question("write our own batches and slices to warm memory", "pyarrow, arrowipc", unit="batch")
@pytest.mark.parametrize("how", ["whole", "slices"])
@pytest.mark.parametrize("shape", [*data.SHAPES, "everyday"])
def test_warm(shape: str, how: str) -> Runs:
    count = size(1_000, 3)
    given = input_of(shape, count)
    if how == "slices":  # of a large batch, at odd rows, in an order without pattern
        rows, length = size(100_000, 40), size(100, 5)
        large = Input([data.shaped(shape, rows)])
        starts = np.random.default_rng(3).integers(0, (rows - length) // 2, count) * 2 + 1
        given = large.sliced((int(start), length) for start in starts)
    return presized(given, warm(bound(given))), count
