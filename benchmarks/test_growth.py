"""How does the cost per unit grow with the size: columns, batches, dictionaries, levels of nesting?

Streams in memory are read, structure checked, or written to memory that has been written to before, with a known schema
and with a new one each time. "pyarrow" and "copied" (the same bytes) show how much of k is the caches'.
"""

from itertools import count as numbers

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size
from measuring.writes import warm

import arrowipc

ROWS = 10
POINTS = {
    "columns": (10, 100, 1_000, 10_000),
    "batches": (20, 200, 2_000, 20_000),
    "dictionaries": (1, 10, 100, 1_000, 10_000),
    "levels": (1, 4, 15, 60),
}
CASES = [(what, size(n, i + 2)) for what, points in POINTS.items() for i, n in enumerate(points)]


def input_of(what: str, n: int) -> tuple[pa.RecordBatch, int]:
    """Return a batch, and how many of them there are."""
    if what == "dictionaries":  # a column each, with a word of its own
        indices = pa.array(np.zeros(ROWS, np.int32))
        columns = [pa.DictionaryArray.from_arrays(indices, pa.array([f"word {i}"])) for i in range(n)]
        return pa.record_batch(columns, [f"c{i}" for i in range(n)]), 1
    if what == "levels":  # lists and structs in turn around int64
        array: pa.Array = pa.array(np.arange(ROWS))
        for level in range(n):
            if level % 2:
                array = pa.StructArray.from_arrays([array], ["s"])
            else:
                array = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), array)
        return pa.record_batch([array], ["x"]), 1
    return (data.plain_batch(10, ROWS), n) if what == "batches" else (data.plain_batch(n, ROWS), 1)


@question("read more and more units", "pyarrow, arrowipc, arrowipc full", unit="unit", per="n", curve=True)
@pytest.mark.parametrize(("what", "n"), CASES)
def test_read(what: str, n: int) -> Runs:
    batch, count = input_of(what, n)
    source = data.stream([batch] * count)
    return {
        "pyarrow": lambda: peers.rows_of(pa.ipc.open_stream(source)),
        "arrowipc": lambda: peers.rows_of(arrowipc.open_stream(source, validate="none")),
        "arrowipc full": lambda: peers.rows_of(arrowipc.open_stream(source)),
    }


@question("write more and more units", "pyarrow, arrowipc, copied", unit="unit", per="n", curve=True)
@pytest.mark.parametrize(("what", "n"), CASES)
@pytest.mark.parametrize("schema", ["a known schema", "a new schema each time"])
def test_write(schema: str, what: str, n: int) -> Runs:
    theirs, count = input_of(what, n)
    (ours,) = arrowipc.open_stream(data.stream([theirs]))
    message, turn = bytes(theirs.serialize()), numbers()
    target = warm((len(message) + len(data.stream([theirs]))) * (count + 1) + 4096)
    renewed = schema != "a known schema"

    def by_pyarrow() -> None:
        batch = theirs.replace_schema_metadata({"n": str(next(turn))}) if renewed else theirs
        data.write(pa.FixedSizeBufferWriter(pa.py_buffer(target)), [batch] * count)

    def by_arrowipc() -> None:
        new = arrowipc.Schema(ours.schema.fields, {"n": str(next(turn))}) if renewed else ours.schema
        with arrowipc.new_stream(target, new) as writer:
            for _ in range(count):
                writer.write_batch(ours)

    def copied() -> None:
        for at in range(0, count * len(message), len(message)):
            target[at : at + len(message)] = message

    return {"pyarrow": by_pyarrow, "arrowipc": by_arrowipc, "copied": copied}
