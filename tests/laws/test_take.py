"""Rows are those that a list would give, whatever the layout and however the rows lie: in runs or one by one.

`take` has two ways, loops that copy run by run and loops that copy element by element, and chooses for each field by
the length of the runs. So every layout is taken by indices of both kinds, and by all that lie between.
"""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive
from helpers.arrays import CASES, ipc_bytes, read_array, read_batch, tiled

import arrowipc as ipc
from arrowipc import types
from arrowipc.types import field

ROWS = 240

#: Types whose values may be null although no bit says so.
NULLS_BELOW = (types.Union, types.RunEndEncoded, types.Dictionary)


def runs(count: int, length: int, n: int, dice: random.Random) -> list[int]:
    starts = [dice.randrange(max(n - length, 1)) for _ in range(count)]
    return [row for start in starts for row in range(start, min(start + length, n))]


def ways(n: int, dice: random.Random) -> dict[str, list[int]]:
    """Indices of every kind into `n` rows."""
    run = range(n // 5, n - n // 7)
    return {
        "none": [],
        "all": list(range(n)),
        "one run": list(run),
        "two runs that change places": [*range(n // 2, n), *range(n // 2)],
        "runs of 40": runs(6, 40, n, dice),
        "runs of 3": runs(40, 3, n, dice),
        "nine of ten": [row for row in range(n) if row % 10 != 7],
        "every second": list(range(0, n, 2)),
        "backwards": list(range(n - 1, -1, -1)),
        "at random": [dice.randrange(-n, n) for _ in range(n)],
        "the same again and again": [dice.randrange(n)] * n,
        "each three times": [row for row in run for _ in range(3)],
    }


def in_parts(whole: ipc.RecordBatch, dice: random.Random) -> ipc.Table:
    """The same rows in batches, of which one has none."""
    cuts = sorted({0, len(whole), *(dice.randrange(len(whole) + 1) for _ in range(5))})
    parts = [whole.slice(start, stop - start) for start, stop in itertools.pairwise(cuts)]
    return ipc.Table.from_batches([*parts[:2], whole[:0], *parts[2:]])


#: Of a batch, a slice of one, and many batches.
HOLDERS = {
    "batch": lambda whole, _: whole,
    "slice": lambda whole, _: whole.slice(3, len(whole) - 8),
    "batches": in_parts,
}


def check_taken(source: ipc.RecordBatch | ipc.Table, dice: random.Random) -> None:
    values = source["x"].to_pylist()
    for way, rows in ways(len(values), dice).items():
        taken = source.take(rows)
        taken = taken.combine() if isinstance(taken, ipc.Table) else taken
        found = taken["x"].to_pylist()
        assert str(found) == str([values[row] for row in rows]), way
        if not isinstance(taken["x"].type, NULLS_BELOW):
            assert taken["x"].null_count == sum(value is None for value in found)
        drive.export_to_pyarrow(taken)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_a_list_however_they_lie(name, holder):
    dice = random.Random(name)
    whole = read_batch(pa.record_batch({"x": tiled(CASES[name], ROWS), "i": range(ROWS)}))
    check_taken(HOLDERS[holder](whole, dice), dice)


@pytest.mark.parametrize("name", CASES)
def test_repeated_rows_are_those_of_a_list(name):
    dice = random.Random(name)
    whole = ipc.RecordBatch.from_arrow(pa.record_batch({"x": tiled(CASES[name], 90)}))
    for batch in (whole, whole.slice(1, 88)):
        values, n = batch["x"].to_pylist(), len(batch)
        for counts in ([1] * n, [0] * n, [dice.choice((0, 1, 1, 2, 50)) for _ in range(n)]):
            found = ipc.repeat(batch, counts)
            rows = [i for i, times in enumerate(counts) for _ in range(times)]
            assert str(found["x"].to_pylist()) == str([values[row] for row in rows])
            drive.export_to_pyarrow(found)


def nested(values: pa.Array, dice: random.Random) -> dict[str, pa.Array]:
    """Values in lists, list views, structs and unions, of which the lists are short, long or shared."""
    n = len(values)
    starts = pa.array([dice.randrange(n - 60) for _ in range(ROWS)], pa.int32())
    sizes = pa.array([dice.choice((0, 1, 2, 55)) for _ in range(ROWS)], pa.int32())
    offsets = pa.array(np.minimum(np.arange(ROWS + 1) * 2, n), pa.int32())
    codes = pa.array([dice.randrange(2) for _ in range(ROWS)], pa.int8())
    places = pa.array([dice.randrange(n) for _ in range(ROWS)], pa.int32())
    ends = pa.array(np.cumsum([dice.randrange(1, 9) for _ in range(n)]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values)
    return {
        "lists": lists,
        "long lists": pa.ListArray.from_arrays(pa.array(range(0, n + 1, 40), pa.int32()), values[: n // 40 * 40]),
        "fixed lists": pa.FixedSizeListArray.from_arrays(values[: n // 3 * 3], 3),
        "list views": pa.ListViewArray.from_arrays(starts, sizes, values),
        "lists of structs": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([values, values], ["p", "q"])),
        "structs of lists": pa.StructArray.from_arrays([lists], ["l"]),
        "dense": pa.UnionArray.from_dense(codes, places, [values, values]),
        "sparse": pa.UnionArray.from_sparse(codes, [values[:ROWS], values[n - ROWS :]]),
        "runs": pa.RunEndEncodedArray.from_arrays(ends, values),
    }


INNER = ["int64", "string", "string_view", "bool", "null", "fixed_size_binary_0", "dictionary", "list_view", "struct"]


@pytest.mark.parametrize("inner", INNER)
def test_what_is_below_lists_and_unions_is_taken_too(inner):
    dice = random.Random(inner)
    for array in nested(tiled(CASES[inner], 2 * ROWS + 60), dice).values():
        whole = ipc.RecordBatch.from_arrow(pa.record_batch({"x": array}))
        for source in (whole, in_parts(whole, dice)):
            check_taken(source, dice)


def test_elements_that_take_no_bytes_take_none_when_they_are_taken():
    """Of five lists of 2**40 nulls each, and of fixed lists in fixed lists."""
    schema, size = ipc.schema({"x": types.large_list(types.null())}), 1 << 40
    offsets = np.arange(6, dtype=np.int64) * size
    taken = ipc.RecordBatch.from_buffers(schema, 5, [(5, 0), (5 * size, 5 * size)], [None, offsets]).take([3, 0, 0, 4])
    assert taken.nbytes < 1000
    assert taken["x"].children[0].length == 4 << 40
    kind, nodes = types.null(), [(2 * 7**depth, 0) for depth in range(18)]
    for _ in nodes:
        kind = types.list_(kind, 7)
    nodes.append((2 * 7**18, 2 * 7**18))
    batch = ipc.RecordBatch.from_buffers(ipc.schema({"x": kind}), 2, nodes, [None] * 18)
    for rows in ([0], [1, 0, 1]):
        assert batch.take(rows).nbytes < 1000


def test_runs_of_list_views_and_unions_copy_what_their_rows_have():
    """Each run copies a part of what all share, not all of it: else 100 runs were 100 copies."""
    n = 6400
    places, sizes, child = range(n), [100] * n, range(n + 100)
    codes, offsets = pa.array([0] * n, pa.int8()), pa.array([*range(0, n, 2), *range(1, n, 2)], pa.int32())
    union = pa.UnionArray.from_dense(codes, offsets, [pa.array(range(n))])
    lists = pa.ListViewArray.from_arrays(pa.array(places, pa.int32()), pa.array(sizes, pa.int32()), pa.array(child))
    batch = ipc.RecordBatch.from_arrow(pa.record_batch({"u": union, "l": lists}))
    rows = [row for start in range(0, n, 128) for row in range(start, start + 64)]
    taken = batch.take(rows)
    assert taken["u"].children[0].length == len(rows)
    assert taken["l"].children[0].length <= n + 100
    assert taken.equals(ipc.concat_batches([batch.slice(row, 64) for row in rows[::64]]))


def broken(kind: types.DataType, nodes: list[tuple[int, int]], buffers: list[object]) -> ipc.RecordBatch:
    return ipc.RecordBatch.from_buffers(ipc.Schema([field("x", kind)]), 64, nodes, buffers)


def broken_batches() -> dict[str, ipc.RecordBatch]:
    """Of 64 rows each, of which row 50 is broken."""
    offsets, codes, places = np.arange(65, dtype=np.int32), np.zeros(64, np.int8), np.arange(64, dtype=np.int32)
    offsets[51] = 1 << 20
    bad_codes, bad_places = codes.copy(), places.copy()
    bad_codes[50], bad_places[50] = 5, 64
    union = types.dense_union([field("a", types.int8())], [0])
    numbers, sizes = [None, np.zeros(64, np.int8)], np.ones(64, np.int32)
    two = [(64, 0), (64, 0)]
    return {
        "text": broken(types.utf8(), [(64, 0)], [None, offsets, b"x" * 64]),
        "lists": broken(types.list_(types.int8()), two, [None, offsets, *numbers]),
        "type codes": broken(union, two, [bad_codes, places, *numbers]),
        "offsets of a union": broken(union, two, [codes, bad_places, *numbers]),
        "list views": broken(types.list_view(types.int8()), two, [None, bad_places, sizes, *numbers]),
        "run ends": broken(
            types.run_end_encoded(types.int32(), types.int8()),
            [(64, 0), (2, 0), (2, 0)],
            [None, np.array([30, 50], np.int32), None, np.zeros(2, np.int8)],
        ),
    }


@pytest.mark.parametrize("name", broken_batches())
def test_rows_that_are_broken_are_errors_and_the_others_are_rows(name):
    batch = broken_batches()[name]
    table = ipc.Table.from_batches([batch, batch])
    for found in (batch, table):
        for rows in ([3, 1, 2], list(range(40)), [*range(40)] * 3):
            assert found.take(rows).num_rows == len(rows)
        for rows in ([50], list(range(51)), [1, 50, 3] * 20, [*range(10, 51)] * 9):
            with pytest.raises(ipc.FormatError, match="'x"):
                found.take(rows)


@pytest.mark.parametrize("name", CASES)
def test_masks_keep_what_they_are_true_for(name):
    """As lists, NumPy arrays and arrays of ours and pyarrow's; null counts as false."""
    dice = random.Random(name)
    part = read_array(tiled(CASES[name], ROWS))[3:]
    values = part.to_pylist()
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        mask = [dice.choice((None, False)) if dice.random() >= share else True for _ in values]
        expected = [value for value, kept in zip(values, mask, strict=True) if kept]
        batch, table = ipc.RecordBatch.from_arrays([part], ["x"]), ipc.Table.from_arrays([part], ["x"])
        given = {
            "list": mask,
            "array": ipc.Array.from_pylist(mask, types.bool_()),
            "pyarrow": pa.array([*mask, None], pa.bool_())[: len(mask)],
            "cut": ipc.Array.from_pylist([True, *mask], types.bool_())[1:],
            "numpy": np.array([bool(kept) for kept in mask], bool),
        }
        for found in (batch.filter(mask)["x"], table.filter(mask)["x"], table["x"].filter(mask)):
            assert repr(found.to_pylist()) == repr(expected)
        for kind, each in given.items():
            assert repr(part.filter(each).to_pylist()) == repr(expected), kind
            if kind != "list":
                assert part[each].equals(part.filter(each), nan_equal=True)
                assert batch[each].num_rows == table[each].num_rows == len(expected)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 300])
def test_masks_and_conditions_keep_long_runs_wherever_words_of_marks_end(rows):
    numbers = list(range(rows))
    batch = ipc.RecordBatch.from_pydict(
        {
            "number": numbers,
            "byte": ipc.Array.from_pylist([row % 100 for row in numbers], types.int8()),
            "flag": [row % 3 == 0 for row in numbers],
            "text": [str(row) for row in numbers],
        }
    )
    for dropped in ([], [0], [rows - 1], [63], [64], [62, 127], [31, 32, 200], numbers, numbers[1:], numbers[:-1]):
        kept = [row for row in numbers if row not in dropped]
        expected = {name: [values[row] for row in kept] for name, values in batch.to_pydict().items()}
        assert batch.filter([row not in dropped for row in numbers]).to_pydict() == expected, dropped
        assert batch.filter([("number", "not in", dropped)]).to_pydict() == expected, dropped
        assert batch.filter([("number", "in", kept)]).to_pydict() == expected, dropped


@pytest.mark.parametrize("name", CASES)
def test_null_indices_give_nulls(name):
    dice = random.Random(name)
    array = read_array(tiled(CASES[name], 40))
    values = array.to_pylist()
    for nulls in (0.1, 0.9, 1.0):
        rows = [None if dice.random() < nulls else dice.randrange(-40, 40) for _ in range(50)]
        expected = [None if row is None else values[row] for row in rows]
        batch = ipc.RecordBatch.from_arrays([array], ["x"])
        table = ipc.Table.from_batches([batch[:2], batch[2:]])
        reader = ipc.open_file(ipc_bytes(table, "file", unify_dictionaries=True))
        for each in (ipc.Array.from_pylist(rows, types.int64()), pa.array([0, *rows], pa.int16())[1:]):
            taken = (array.take(each), batch.take(each)["x"], table.take(each)["x"], table["x"].take(each))
            for found in (*taken, reader.take(each)["x"]):
                assert repr(found.to_pylist()) == repr(expected)
            drive.export_to_pyarrow(batch.take(each))


def test_nulls_do_not_come_into_columns_that_are_not_nullable():
    schema = ipc.Schema([field("x", types.int8(), nullable=False)])
    batch = ipc.RecordBatch.from_pydict({"x": [1, 2]}, schema)
    with pytest.raises(ipc.UsageError, match="column 'x' is not nullable, and some indices are null"):
        batch.take(pa.array([0, None]))


@pytest.mark.parametrize("mask", [[True], np.ones(3, bool), [1, 0], pa.array([1, 2]), ["a", "b"]])
def test_what_is_no_mask_is_refused(mask):
    for where in (ipc.Array.from_pylist([1, 2]), ipc.RecordBatch.from_pydict({"x": [1, 2]})):
        with pytest.raises(ipc.UsageError, match=r"mask has|expected (True or False|conditions)"):
            where.filter(mask)
