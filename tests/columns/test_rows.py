"""Rows of batches that are loaded when they are needed are those of the whole, however few may be kept (issue 24)."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from helpers import drive
from helpers.arrays import CASES, read_batch

import arrowipc as ipc
from arrowipc.read.row_reader import RowReader


def reader_of(batches: list[ipc.RecordBatch], cache_bytes: int = 1 << 20, **options: object) -> RowReader:
    return RowReader([batch.num_rows for batch in batches], batches.__getitem__, cache_bytes=cache_bytes, **options)


def parts_of(name: str, dice: random.Random) -> list[ipc.RecordBatch]:
    """The values of a case in batches of any length, some of them in memory of their own, beside numbers."""
    array = pa.concat_arrays([CASES[name]] * 3) if name not in NOT_JOINED else CASES[name]
    whole = pa.record_batch({"x": array, "i": pa.array(range(len(array)))})
    cuts = sorted(dice.randrange(len(array) + 1) for _ in range(5))
    parts = [whole.slice(start, stop - start) for start, stop in zip([0, *cuts], [*cuts, len(array)], strict=True)]
    return [read_batch(part) if dice.random() < 0.5 else ipc.RecordBatch.from_arrow(part) for part in parts]


#: What pyarrow cannot put one behind the other.
NOT_JOINED = frozenset(name for name in CASES if "view" in name and "list" in name)


@pytest.mark.parametrize("cache_bytes", [0, 2000, 1 << 20])
@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_reader_are_those_of_the_whole(name, cache_bytes):
    dice = random.Random(name)
    parts = parts_of(name, dice)
    reader, table = reader_of(parts, cache_bytes), ipc.Table.from_batches(parts)
    rows, n = table.to_pylist(), table.num_rows
    assert reader.num_rows == n
    for count in (0, 1, 3, n, 3 * n):
        chosen = [dice.randrange(-n, n) for _ in range(count)] if n else []
        for wanted in (chosen, sorted(chosen), chosen[:1] * count, range(min(count, n))):
            taken = reader.take(wanted)
            assert str(taken.to_pylist()) == str([rows[row] for row in wanted])
            drive.export_to_pyarrow(taken)
    for i in range(-n, n):
        assert str(reader.row(i)) == str(rows[i])
    for start, stop in ((0, n), (1, n - 1), (n // 2, n // 2 + 2), (n, n + 5)):
        found = reader.slice(start, max(stop - start, 0))
        assert str([row for part in found for row in part.to_pylist()]) == str(rows[start:stop])
