"""How fast do Python values become columns and columns Python values, and what do statistics of columns cost?

Per value, columns of one type each: ``pa.array(values)`` and ``Array.from_pylist(values)``, the type given or not;
``to_pylist()`` of both (ndarray.tolist: NumPy over the same memory, of numbers without nulls). Per row:
random rows of a table of one chunk and of 500 (``take``). Per value of a column of a million: what ``equals``,
``to_numpy`` and a mask take, and what it takes to put pieces together (`WHOLE`).
Per value: minimum, maximum and nulls: ``pyarrow.compute.min_max`` with ``null_count``, ``compute_statistics``.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from measuring import data
from measuring.race import Runs, question, size

import arrowipc

COUNT = size(200_000, 20)
KINDS = (
    *("int64", "int64 with nulls", "small ints", "float64", "bool", "short text", "long text", "binary", "date"),
    *("decimal(22, 2)", "list of ints", "struct of two"),
)


def values_of(kind: str) -> list[Any]:
    """Return values of one type."""
    random = np.random.default_rng(7)
    large = random.integers(-(2**62), 2**62, COUNT).tolist()
    nulls = random.random(COUNT) < 0.1
    numbers = random.integers(0, COUNT, COUNT).tolist()
    day = datetime.date(1970, 1, 1)
    made = {
        "int64": lambda: large,
        "int64 with nulls": lambda: [None if null else value for null, value in zip(nulls, large, strict=True)],
        "small ints": lambda: random.integers(0, 100, COUNT).tolist(),
        "float64": lambda: random.random(COUNT).tolist(),
        "bool": lambda: (random.random(COUNT) < 0.5).tolist(),
        "short text": lambda: [f"name {i}" for i in numbers],
        "long text": lambda: [f"{i} " * 20 for i in numbers],
        "binary": lambda: [b"name %d" % i for i in numbers],
        "date": lambda: [day + datetime.timedelta(days=i % 20_000) for i in numbers],
        "decimal(22, 2)": lambda: [Decimal(i).scaleb(-2) for i in [10**22 - 1, *map(abs, large[1:])]],
        "list of ints": lambda: [list(range(i % 5)) for i in range(COUNT)],
        "struct of two": lambda: [{"a": i, "b": f"name {i}"} for i in range(COUNT)],
    }
    return made[kind]()


@question("Python values to columns, the type {given}", "pyarrow, arrowipc", unit="value", per=COUNT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["given", "not given"])
def test_from_values(given: str, kind: str) -> Runs:
    values = values_of(kind)
    theirs = pa.array(values).type if given == "given" else None
    ours = arrowipc.Array.from_arrow(pa.array(values)).type if given == "given" else None
    return {
        "pyarrow": lambda: len(pa.array(values, theirs)),
        "arrowipc": lambda: len(arrowipc.Array.from_pylist(values, ours)),
    }


@question("columns to Python values", "pyarrow, arrowipc, ndarray.tolist", unit="value", per=COUNT)
@pytest.mark.parametrize("kind", KINDS)
def test_to_values(kind: str) -> Runs:
    theirs = pa.array(values_of(kind))
    found = {"pyarrow": theirs.to_pylist, "arrowipc": arrowipc.Array.from_arrow(theirs).to_pylist}
    plain = theirs.type in (pa.int64(), pa.float64()) and theirs.null_count == 0
    return found | ({"ndarray.tolist": theirs.to_numpy().tolist} if plain else {})


def in_chunks(table: pa.Table, chunks: int) -> pa.Table:
    """Return the same rows in memory of so many chunks, as a reader of many batches would leave them."""
    pieces = table.to_batches(max(table.num_rows // chunks, 1))
    return pa.ipc.open_stream(data.stream(pieces)).read_all()  # a stream makes copies that share nothing


@question("take random rows of a table", "pyarrow, arrowipc", unit="row", per="count")
@pytest.mark.parametrize("chunks", [1, size(500, 5)])
@pytest.mark.parametrize("count", [32, 1_024, size(1_000_000, 2_000)])
@pytest.mark.parametrize("shape", [*data.SHAPES, "number, text, list"])
def test_take(shape: str, count: int, chunks: int) -> Runs:
    rows = size(500_000, 500)
    if shape in data.SHAPES:
        theirs = pa.Table.from_batches([data.shaped(shape, rows)])
    else:
        numbers, texts = np.arange(rows), [f"text {i}" for i in range(rows)]
        lists = pa.ListArray.from_arrays(np.arange(0, 2 * rows + 1, 2, dtype=np.int32), np.repeat(numbers, 2))
        theirs = pa.table({"id": numbers, "price": numbers / 7, "name": texts, "pair": lists})
    theirs = in_chunks(theirs, chunks)
    ours, indices = arrowipc.Table.from_arrow(theirs), np.random.default_rng(7).integers(0, rows, count)
    return {"pyarrow": lambda: theirs.take(indices).num_rows, "arrowipc": lambda: ours.take(indices).num_rows}


#: What is done with a column, and with which.
WHOLE = (
    *[("equals", kind) for kind in ("ints", "text", "structs", *data.SHAPES)],
    *[("to_numpy", kind) for kind in ("ints with nulls", "floats with nulls", "bools with nulls", "times with nulls")],
    *[("a mask keeps 90 %", kind) for kind in ("ints", "text", *data.SHAPES)],
    *[("combine pieces of 1,000", kind) for kind in ("ints", "bools", "text", "lists", *data.SHAPES)],
    *[("concat_batches of 1,000 rows", kind) for kind in ("ints", "bools", "text", "lists", *data.SHAPES)],
)


def whole(kind: str, rows: int) -> pa.RecordBatch:
    """Return a column of `rows` values, or ten of a shape; the same ones each time, in other memory."""
    if kind in data.SHAPES:
        return data.shaped(kind, rows)
    random = np.random.default_rng(7)
    numbers, nulls = random.integers(0, 1 << 40, rows), random.random(rows) < 0.1
    made = {
        "ints": lambda: pa.array(numbers),
        "text": lambda: pa.array([f"text {number % 100_000}" for number in numbers.tolist()]),
        "bools": lambda: pa.array(numbers % 2 == 0),
        "structs": lambda: pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers / 3)], ["a", "b"]),
        "lists": lambda: pa.ListArray.from_arrays(np.arange(0, rows + 1, 4, dtype=np.int32), pa.array(numbers)),
        "ints with nulls": lambda: pa.array(numbers, mask=nulls),
        "floats with nulls": lambda: pa.array(numbers / 3, mask=nulls),
        "bools with nulls": lambda: pa.array(numbers % 2 == 0, mask=nulls),
        "times with nulls": lambda: pa.array(numbers.view("datetime64[us]"), mask=nulls),
    }
    return pa.record_batch([made[kind]()], ["x"])


@question("{what}: a column", "pyarrow, arrowipc", unit="value")
@pytest.mark.parametrize(("what", "kind"), WHOLE)
def test_whole_columns(what: str, kind: str) -> Runs:
    rows = size(100_000 if kind in data.SHAPES else 1_000_000, 2_000)
    theirs, other = whole(kind, rows), whole(kind, rows)
    ours, our_other = map(arrowipc.RecordBatch.from_arrow, (theirs, other))
    mask = pa.array(np.random.default_rng(1).random(rows) < 0.9)
    our_mask, table = arrowipc.Array.from_arrow(mask), in_chunks(pa.Table.from_batches([theirs]), rows // 1_000)
    our_table = arrowipc.Table.from_arrow(table)
    pieces, our_pieces = table.to_batches(), list(our_table.batches)
    runs: dict[str, tuple[Any, Any]] = {
        "equals": (lambda: theirs.equals(other), lambda: ours.equals(our_other)),
        "to_numpy": (lambda: len(theirs[0].to_numpy(False)), lambda: len(ours[0].to_numpy(copy=True))),
        "a mask keeps 90 %": (lambda: theirs.filter(mask).num_rows, lambda: ours.filter(our_mask).num_rows),
        "combine pieces of 1,000": (lambda: table.combine_chunks().num_rows, lambda: our_table.combine().num_rows),
        "concat_batches of 1,000 rows": (
            lambda: pa.concat_batches(pieces).num_rows,
            lambda: arrowipc.concat_batches(our_pieces).num_rows,
        ),
    }
    return dict(zip(("pyarrow", "arrowipc"), runs[what], strict=True)), rows * ours.num_columns


TYPES = (
    "int8",
    "uint16",
    "int32",
    "int64",
    "float32",
    "float64",
    "bool",
    "decimal128",
    "timestamp",
    "text",
    "binary(8)",
)


def column_of(kind: str, rows: int, nulls: bool) -> pa.Array:
    random = np.random.default_rng(7)
    numbers = pa.array(random.integers(0, 100, rows))
    made = {
        "bool": lambda: pa.array(random.random(rows) < 0.5),
        "decimal128": lambda: pa.array(random.integers(0, 10**6, rows)).cast(pa.decimal128(21, 2)),
        "timestamp": lambda: numbers.cast(pa.timestamp("us")),
        "text": lambda: pa.array([f"name {i}" for i in random.integers(0, rows, rows)], pa.string()),
        "binary(8)": lambda: numbers.view(pa.binary(8)),
    }
    column = made[kind]() if kind in made else pa.array(numbers.to_numpy().astype(kind))
    if not nulls:
        return column
    return pa.array(column.to_numpy(zero_copy_only=False), column.type, mask=random.random(rows) < 0.1)


@question("minimum, maximum and nulls of a column", "pyarrow, arrowipc", unit="value")
@pytest.mark.parametrize(
    ("kind", "nulls"), [*[(kind, False) for kind in TYPES], *[(kind, True) for kind in ("int64", "float64", "text")]]
)
def test_statistics(kind: str, nulls: bool) -> Runs:
    """The bounds are not of the same kind for every type; tests/columns/test_statistics.py compares them."""
    rows = size(1_000_000, 20)
    column = column_of(kind, rows, nulls)
    batch = arrowipc.RecordBatch.from_arrow(pa.record_batch([column], ["x"]))

    def ours() -> tuple[bool, Any]:
        found = arrowipc.compute_statistics(batch)["x"]
        return found.min is not None and found.max is not None, found.null_count

    return {"pyarrow": lambda: (pc.min_max(column) is not None, column.null_count), "arrowipc": ours}, rows
