"""How fast do Python values become columns and columns Python values, and what do statistics of columns cost?

Per value, columns of one type each: ``pa.array(values)`` and ``Array.from_pylist(values)``, the type given or not;
``to_pylist()`` of both (ndarray.tolist: NumPy over the same memory, of numbers without nulls). Per row: random rows of
a table of one chunk and of 500 (``take``). Per value of a million: what ``equals``, ``to_numpy`` and a mask take, and
to put pieces together (`WHOLE`). Per call: many chunks. Per row: lists of dicts. Per value: minimum, maximum and nulls:
``pyarrow.compute.min_max`` with ``null_count``, ``compute_statistics``.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from measuring import data
from measuring.race import Runs, question, size

import arrowipc

COUNT, MILLION = size(200_000, 20), size(1_000_000, 2_000)
KINDS = (
    *("int64", "int64 with nulls", "small ints", "float64", "bool", "short text", "long text", "binary", "date32"),
    *("decimal(22, 2)", "list of ints", "struct of two"),
)


def column(kind: str, rows: int) -> pa.Array:
    """Return values of a kind; "with nulls": a tenth is null. The same ones each time, in other memory."""
    kind, _, nulls = kind.partition(" with ")
    random = np.random.default_rng(7)
    large, small = random.integers(-(2**62), 2**62, rows), random.integers(0, 100, rows)
    numbers, ends = random.integers(0, rows, rows).tolist(), np.cumsum(np.arange(-1, rows).clip(0) % 5, dtype=np.int32)
    made = {
        "int64": lambda: pa.array(large),
        "small ints": lambda: pa.array(small),
        "float64": lambda: pa.array(random.random(rows)),
        "bool": lambda: pa.array(random.random(rows) < 0.5),
        "short text": lambda: pa.array([f"name {i}" for i in numbers]),
        "long text": lambda: pa.array([f"{i} " * 20 for i in numbers]),
        "binary": lambda: pa.array([b"name %d" % i for i in numbers]),
        "binary(8)": lambda: pa.array(small).view(pa.binary(8)),
        "date32": lambda: pa.array(np.arange(rows, dtype=np.int32) % 20_000).cast(pa.date32()),
        "timestamp": lambda: pa.array(small).cast(pa.timestamp("us")),
        "decimal(22, 2)": lambda: pa.array([Decimal(i).scaleb(-2) for i in [10**22 - 1, *abs(large[1:]).tolist()]]),
        "decimal128": lambda: pa.array(small).cast(pa.decimal128(21, 2)),
        "list of ints": lambda: pa.ListArray.from_arrays(ends, small.repeat(5)[: ends[-1]]),
        "struct of two": lambda: pa.array([{"a": i, "b": f"name {i}"} for i in range(rows)]),
        "struct of numbers": lambda: pa.StructArray.from_arrays([pa.array(large), pa.array(large / 3)], ["a", "b"]),
    }
    found = made[kind]() if kind in made else pa.array(small.astype(kind))
    if not nulls:
        return found
    return pa.array(found.to_numpy(zero_copy_only=False), found.type, mask=random.random(rows) < 0.1)


@question("Python values to columns, the type {given}", "pyarrow, arrowipc, its type given", unit="value", per=COUNT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["given", "not given"])
def test_from_values(given: str, kind: str) -> Runs:
    values = column(kind, COUNT).to_pylist()
    theirs = pa.array(values).type if given == "given" else None
    kind = arrowipc.Array.from_arrow(pa.array(values)).type
    ours = kind if given == "given" else None
    found = {
        "pyarrow": lambda: len(pa.array(values, theirs)),
        "arrowipc": lambda: len(arrowipc.Array.from_pylist(values, ours)),
    }
    return found | ({} if ours else {"its type given": lambda: len(arrowipc.Array.from_pylist(values, kind))})


@question("columns to Python values", "pyarrow, arrowipc, ndarray.tolist", unit="value", per=COUNT)
@pytest.mark.parametrize("kind", KINDS)
def test_to_values(kind: str) -> Runs:
    theirs = column(kind, COUNT)
    found = {"pyarrow": theirs.to_pylist, "arrowipc": arrowipc.Array.from_arrow(theirs).to_pylist}
    plain = theirs.type in (pa.int64(), pa.float64()) and theirs.null_count == 0
    return found | ({"ndarray.tolist": theirs.to_numpy().tolist} if plain else {})


def in_chunks(table: pa.Table, chunks: int) -> pa.Table:
    """Return the same rows in memory of so many chunks, as a reader of many batches would leave them."""
    pieces = table.to_batches(max(table.num_rows // chunks, 1))
    return pa.ipc.open_stream(data.stream(pieces)).read_all()  # a stream makes copies that share nothing


@question("take random rows of a table", "pyarrow, arrowipc", unit="row", per="count")
@pytest.mark.parametrize("chunks", [1, size(500, 5)])
@pytest.mark.parametrize("count", [32, 1_024, MILLION])
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


CASTS = (
    "small ints int32",
    "small ints float64",
    "float64 float32",
    "small ints with nulls float64",
    "timestamp timestamp[s]",
    "decimal128 decimal128(30,4)",
    "short text large_string",
)
TARGETS = {"timestamp[s]": pa.timestamp("s"), "decimal128(30,4)": pa.decimal128(30, 4)}
#: Conditions that a tenth of the numbers pass, and few texts.
CONDITIONS: dict[str, tuple[str, Any]] = {
    "float64": ("<", 0.1),
    "small ints": ("<", 10),
    "short text": ("==", "name 7"),
}


@question("{what}: a column", "pyarrow, arrowipc, NumPy", unit="value", per=COUNT)
@pytest.mark.parametrize(
    ("what", "kind"),
    [
        *(("cast", each) for each in CASTS),
        *(("condition", each) for each in CONDITIONS),
        ("sort_by", "int64"),
        ("sort_by", "short text"),
        ("value_counts", "small ints"),
    ],
)
def test_computed(what: str, kind: str) -> Runs:
    kind, _, target = kind.rpartition(" ") if what == "cast" else (kind, "", "")
    theirs = column(kind.replace("timestamp", "small ints"), COUNT)
    if kind == "timestamp":
        theirs = pc.multiply(theirs, 10**6).cast(pa.timestamp("us"))
    rows, to = pa.record_batch([theirs], ["x"]), TARGETS.get(target, target)
    ours, our_rows = arrowipc.Array.from_arrow(theirs), arrowipc.RecordBatch.from_arrow(rows)
    op, literal = CONDITIONS.get(kind, ("", None))
    passes = {"<": pc.field("x") < literal, "==": pc.field("x") == literal}.get(op)
    runs: dict[str, tuple[Any, Any]] = {
        "cast": (lambda: len(theirs.cast(to)), lambda: len(ours.cast(to))),
        "condition": (lambda: rows.filter(passes).num_rows, lambda: our_rows.filter(("x", op, literal)).num_rows),
        "sort_by": (lambda: rows.sort_by("x").num_rows, lambda: our_rows.sort_by("x").num_rows),
        "value_counts": (lambda: len(theirs.value_counts()), lambda: len(ours.value_counts())),
    }
    found: Runs = dict(zip(("pyarrow", "arrowipc"), runs[what], strict=True))
    if what == "cast" and not theirs.null_count and hasattr(np, target):
        values = theirs.to_numpy()
        found["NumPy"] = lambda: len(values.astype(target))  # without a look whether all fit
    return found


#: What is done with a column, or ten of a shape, and with which.
PIECES = ("int64", "bool", "short text", "list of ints", *data.SHAPES)
WHOLE = {
    "equals": ("int64", "short text", "struct of numbers", *data.SHAPES),
    "to_numpy": ("int64 with nulls", "float64 with nulls", "bool with nulls", "timestamp with nulls"),
    "a mask keeps 90 %": ("int64", "short text", *data.SHAPES),
    "combine pieces of 1,000": PIECES,
    "concat_batches of 1,000 rows": PIECES,
}


@question("{what}: a column", "pyarrow, arrowipc, NumPy, bytes compared", unit="value")
@pytest.mark.parametrize(("what", "kind"), [(what, kind) for what, kinds in WHOLE.items() for kind in kinds])
def test_whole_columns(what: str, kind: str) -> Runs:
    if kind in data.SHAPES:
        theirs, other = (data.shaped(kind, MILLION // 10) for _ in range(2))
    else:
        theirs, other = (pa.record_batch([column(kind, MILLION)], ["x"]) for _ in range(2))
    ours, our_other = map(arrowipc.RecordBatch.from_arrow, (theirs, other))
    mask = pa.array(np.random.default_rng(1).random(theirs.num_rows) < 0.9)
    our_mask = arrowipc.Array.from_arrow(mask)
    table = in_chunks(pa.Table.from_batches([theirs]), max(theirs.num_rows // 1_000, 1))
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
    found: Runs = dict(zip(("pyarrow", "arrowipc"), runs[what], strict=True))
    if what == "equals":
        mine, others = ([bytes(part) for each in one for part in each.buffers() if part] for one in (theirs, other))
        found["bytes compared"] = lambda: mine == others
    if what == "a mask keeps 90 %" and kind == "int64":
        arrays, wanted = [each.to_numpy() for each in theirs.columns], mask.to_numpy(False)
        found["NumPy"] = lambda: min([len(each[wanted]) for each in arrays])
    return found, theirs.num_rows * theirs.num_columns


#: Elements of what a column, or a table, of many chunks is asked for.
INDICES = np.arange(0, size(100_000, 100), 97)
CHUNKED: dict[str, dict[str, Callable[[Any], Any]]] = {
    "a column": {
        "combine": lambda table: len(table["x"].combine_chunks()),
        "take": lambda table: len(table["x"].take(INDICES)),
        "values": lambda table: len(table["x"].to_pylist()),
        "to_numpy": lambda table: len(table["x"].to_numpy()),
        "encode": lambda table: len(table["x"].dictionary_encode()),
    },
    "a table": {
        "combine": lambda table: table.combine_chunks().num_rows,
        "select": lambda table: len(table.select(["x", "y"]).schema),
        "slice": lambda table: table.slice(size(50_000, 50), 5).num_rows,
        "append": lambda table: len(table.append_column("z", table["x"]).schema),
    },
}


@question("{of} of 500 chunks", "pyarrow, arrowipc, an object for each chunk", unit="call")
@pytest.mark.parametrize(("of", "what"), [(of, what) for of, asked in CHUNKED.items() for what in asked])
@pytest.mark.parametrize("kind", ["int64", "bool", "timestamp with nulls", "short text with nulls"])
def test_chunked(kind: str, of: str, what: str) -> Runs:
    rows, ask = size(100_000, 100), CHUNKED[of][what]
    theirs = in_chunks(pa.table({"x": column(kind, rows), "y": column("int64", rows)}), size(500, 5))
    ours = arrowipc.Table.from_arrow(theirs)
    answer, floor = ask(ours), {"a column": lambda: ours["x"], "a table": lambda: ours.rename(["x", "y"])}[of]
    return {
        "pyarrow": partial(ask, theirs),
        "arrowipc": partial(ask, ours),
        "an object for each chunk": lambda: answer if floor() else None,
    }


@question("the text of {what}", "pyarrow, arrowipc, a loop in Python", unit="call")
@pytest.mark.parametrize("what", ["a table", "a schema of 1,000 fields"])
@pytest.mark.parametrize("shape", data.SHAPES)
def test_text(what: str, shape: str) -> Runs:
    """The loop makes texts of ten values of a column, or of 200 fields, without widths and cuts."""
    rows = data.shaped(shape, size(1_000, 20), 10 if what == "a table" else 1_000)
    theirs: Any = pa.Table.from_batches([rows])
    ours: Any = arrowipc.Table.from_arrow(theirs)
    columns, fields = ours.batches[0].columns, ours.schema.fields[:200]
    if what != "a table":
        theirs, ours = theirs.schema, ours.schema
    loops: dict[str, Callable[[], Any]] = {
        "a table": lambda: [list(map(str, column[:10].to_pylist())) for column in columns],
        "a schema of 1,000 fields": lambda: [f"{field.name}: {field.type}" for field in fields],
    }
    runs = {"pyarrow": lambda: bool(repr(theirs)), "arrowipc": lambda: bool(repr(ours))}
    return runs | {"a loop in Python": lambda: bool(loops[what]())}


@question("a table of rows, as dicts", "pyarrow, arrowipc", unit="row", per=COUNT)
@pytest.mark.parametrize("kind", ["int64", "short text", "list of ints", "struct of two"])
def test_rows(kind: str) -> Runs:
    rows = pa.table({"id": range(COUNT), "value": column(kind, COUNT)}).to_pylist()
    return {peer.__name__: partial(lambda made: made.from_pylist(rows).num_rows, peer.Table) for peer in (pa, arrowipc)}


TYPES = (
    *("int8", "uint16", "int32", "int64", "float32", "float64", "bool", "decimal128", "timestamp", "short text"),
    *("binary(8)", "int64 with nulls", "float64 with nulls", "short text with nulls"),
)


@question("minimum, maximum and nulls of a column", "pyarrow, arrowipc", unit="value", per=MILLION)
@pytest.mark.parametrize("kind", TYPES)
def test_statistics(kind: str) -> Runs:
    """The bounds are not of the same kind for every type; tests/columns/test_statistics.py compares them."""
    values = column(kind, MILLION)
    batch = arrowipc.RecordBatch.from_arrow(pa.record_batch([values], ["x"]))

    def ours() -> tuple[bool, Any]:
        found = arrowipc.compute_statistics(batch)["x"]
        return found.min is not None and found.max is not None, found.null_count

    return {"pyarrow": lambda: (pc.min_max(values) is not None, values.null_count), "arrowipc": ours}
