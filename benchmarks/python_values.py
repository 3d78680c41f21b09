"""How fast do Python values become columns and columns Python values, and rows another order?

Measured, per value: columns of one type each, made of a list and read back as one.

* Building, nobody says the type: ``pa.array(values)`` and ``Array.from_pylist(values)``; then with the type given.
* Reading back: ``to_pylist()`` of both; for numbers without nulls ``ndarray.tolist()`` over the same memory is the
  baseline.

Measured, per row: one batch of a table of many (``Table.combine_chunks()`` and ``Table.combine()``), and random rows of
a table of one chunk and of 500 (``Table.take`` of both, the indices a NumPy array).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import Case, Scale

TITLE = "Python values to columns and back; rows in another order"

#: Chunks of the table that is in pieces.
CHUNKS = 500


def cases(scale: Scale) -> Iterator[Case]:
    """Values to columns and back, one type after another; then many batches as one; then rows by their indices."""
    values = columns(scale.size(200_000, 10))
    for name, column in values.items():
        yield building(name, column, None)
    for name, column in values.items():
        yield building(name, column, arrowipc.Array.from_arrow(pa.array(column)).type)
    for name, column in values.items():
        yield from reading(name, column)
    for name, column in values.items():
        yield combining(name, pa.table({"x": pa.array(column)}), scale.size(200, 2))
    together = pa.table({name: pa.array(column) for name, column in values.items()})
    yield combining("all columns", together, scale.size(200, 2))
    table = rows(scale.size(500_000, 500))
    for count in (32, 1_024, scale.size(1_000_000, 2_000)):
        yield taking("one chunk", table, count, 1)
        yield taking(f"{CHUNKS} chunks", in_chunks(table, CHUNKS), count, 10 if count == 32 else 1)


def columns(count: int) -> dict[str, list[Any]]:
    """Return lists of so many values, of one type each."""
    random = np.random.default_rng(7)
    large = random.integers(-(2**62), 2**62, count).tolist()
    nulls = random.random(count) < 0.1
    day = datetime.date(1970, 1, 1)
    return {
        "int64": large,
        "int64, a tenth null": [None if null else value for null, value in zip(nulls, large, strict=True)],
        "small ints": random.integers(0, 100, count).tolist(),
        "float64": random.random(count).tolist(),
        "bool": (random.random(count) < 0.5).tolist(),
        "short text": [f"name {i}" for i in random.integers(0, count, count)],
        "long text": [f"{i} " * 20 for i in random.integers(0, count, count)],
        "binary": [b"name %d" % i for i in random.integers(0, count, count)],
        "date": [day + datetime.timedelta(days=i) for i in random.integers(0, 20_000, count).tolist()],
        "decimal(22, 2)": [Decimal(i).scaleb(-2) for i in [10**22 - 1, *random.integers(0, 2**62, count - 1).tolist()]],
        "list of ints": [list(range(i % 5)) for i in range(count)],
        "struct of two": [{"a": i, "b": f"name {i}"} for i in range(count)],
    }


def rows(count: int) -> pa.Table:
    """Return a table of one chunk, of numbers, text and lists."""
    random = np.random.default_rng(7)
    numbers = np.arange(count)
    lists = pa.ListArray.from_arrays(np.arange(0, 2 * count + 1, 2, dtype=np.int32), np.repeat(numbers, 2))
    texts = [f"text {i}" for i in range(count)]
    return pa.table({"id": numbers, "price": random.random(count), "name": texts, "pair": lists})


def in_chunks(table: pa.Table, chunks: int) -> pa.Table:
    """Return the same rows in memory of so many chunks, as a reader of many batches would leave them."""
    pieces = table.to_batches(max(table.num_rows // chunks, 1))
    # A stream makes copies that share nothing.
    return pa.ipc.open_stream(data.stream(pieces)).read_all()


def building(name: str, values: list[Any], kind: arrowipc.DataType | None) -> Case:
    """Return the case of a list that becomes a column, the type given or not."""
    theirs = None if kind is None else pa.array(values).type
    how = "type not given" if kind is None else "type given"
    runs = {
        "pyarrow": lambda: len(pa.array(values, theirs)),
        "arrowipc": lambda: len(arrowipc.Array.from_pylist(values, kind)),
    }
    return Case(
        f"from {len(values)} values: {name}, {how}", "value", len(values), runs, goal=1.5 if kind is None else 1
    )


def reading(name: str, values: list[Any]) -> Iterator[Case]:
    """Return the cases of a column that becomes a list."""
    theirs = pa.array(values)
    ours = arrowipc.Array.from_arrow(theirs)
    title = f"to {len(values)} values: {name}"
    runs = {"pyarrow": theirs.to_pylist, "arrowipc": ours.to_pylist}
    yield Case(title, "value", len(values), runs, goal=1)
    if theirs.type in (pa.int64(), pa.float64()) and theirs.null_count == 0:
        runs = {"ndarray.tolist": theirs.to_numpy().tolist, "arrowipc": ours.to_pylist}
        yield Case(f"{title}, beside NumPy", "value", len(values), runs, goal=1, baseline="ndarray.tolist")


def combining(name: str, table: pa.Table, chunks: int) -> Case:
    """Return the case of many batches that become one."""
    theirs = in_chunks(table, chunks)
    ours = arrowipc.Table.from_arrow(theirs)
    runs = {
        "pyarrow": lambda: theirs.combine_chunks().num_rows,
        "arrowipc": lambda: ours.combine().num_rows,
    }
    title = f"combine {len(ours.batches)} batches: {name}"
    return Case(title, "row", table.num_rows, runs, goal=1, touched=2 * table.nbytes)


def taking(name: str, table: pa.Table, count: int, goal: float) -> Case:
    """Return the case of random rows."""
    ours = arrowipc.Table.from_arrow(table)
    indices = np.random.default_rng(7).integers(0, table.num_rows, count)
    runs = {
        "pyarrow": lambda: table.take(indices).num_rows,
        "arrowipc": lambda: ours.take(indices).num_rows,
    }
    return Case(f"take {count} of {table.num_rows} rows, {name}", "row", count, runs, goal=goal)
