"""Rows and columns in hand: what is taken, cut, chosen, renamed and added is what Python's lists say (issue 23)."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive, randoms
from helpers.arrays import CASES, read_batch
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import UsageError, types
from arrowipc.types import dictionary, field, int8, int32, int64, list_, utf8

WORDS = ipc.RecordBatch.from_pydict({"x": [1, 2, 3, None], "y": ["a", "b", None, "d"]})
DEEP = ipc.RecordBatch.from_pydict(
    {"x": [1, 2], "s": [{"p": 1.5, "q": {"r": "a", "t": None}}, None], "l": [[{"u": 1, "v": b"b"}], []]}
)


def many(case: str) -> ipc.Array:
    return read_batch(pa.record_batch({"x": CASES[case]}))["x"]


# -- rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_all_rows_taken_are_the_array_itself(name):
    array = many(name)
    taken = array.take(range(len(array)))
    assert taken.equals(array, nan_equal=True)
    drive.export_to_pyarrow(ipc.RecordBatch.from_pydict({"x": taken}, ipc.Schema([array.field])))


@given(randoms.batches(), st.randoms(use_true_random=False))
def test_all_rows_taken_are_the_batch_or_table_itself(parts, dice):
    """Of slices too; and to take twice is to take what the second time chooses of the first."""
    batches = drive.from_bytes(randoms.written(parts)).batches
    table = ipc.Table.from_batches(batches) if batches else None
    for whole in [*batches, *([table, table[1:]] if table else [])]:
        for found in (whole, whole[1:], whole[:-1]):
            n = found.num_rows
            assert found.take(np.arange(n)).equals(found, check_metadata=True, nan_equal=True)
            if n:
                first = [dice.randrange(-n, n) for _ in range(n)]
                second = [dice.randrange(n) for _ in range(2 * n)]
                twice = found.take(first).take(second)
                assert twice.equals(found.take([first[row] for row in second]), nan_equal=True)
                drive.export_to_pyarrow(twice.combine() if isinstance(twice, ipc.Table) else twice)


INTERVALS = {
    types.interval_year_month(): [1, None, -5],
    types.interval_day_time(): [(1, -2), None, (3, 4)],
    types.month_day_nano_interval(): [(1, -2, 3), None, (0, 0, 2**60)],
}


@pytest.mark.parametrize("kind", INTERVALS, ids=str)
def test_intervals_which_pyarrow_cannot_make_are_taken_too(kind):
    array = ipc.Array.from_pylist(INTERVALS[kind], kind)
    values = array.to_pylist()
    assert array.take(range(3)) == array
    assert array[1:].take([1, 0, -1, 1]).to_pylist() == [values[2], None, values[2], values[2]]


def test_every_layout_is_among_those_that_are_taken():
    """A type that is added to the format has to be added to the cases."""

    def kinds(kind: type) -> set[type]:
        below = {each for child in kind.__subclasses__() for each in kinds(child)}
        return below or {kind}

    public = {each for each in kinds(types.DataType) if each.__module__ == "arrowipc.datatypes"}
    assert {type(many(name).type) for name in CASES} | {types.Interval} == public
    modes = {many(name).type.mode for name in CASES if isinstance(many(name).type, types.Union)}
    assert modes == {"sparse", "dense"}


@pytest.mark.parametrize("name", CASES)
def test_rows_in_any_order_are_those_of_a_list(name):
    dice = random.Random(name)
    whole = many(name)
    for array in (whole, whole[1:], whole[1 : len(whole) - 1]):
        values, n = array.to_pylist(), len(array)
        if not n:
            continue
        for count in (0, 1, n, 3 * n):
            rows = [dice.randrange(-n, n) for _ in range(count)]
            for given_as in (rows, tuple(rows), np.array(rows, np.int16), pa.array(rows, pa.int32())):
                assert str(array.take(given_as).to_pylist()) == str([values[row] for row in rows])


@pytest.mark.parametrize("name", CASES)
def test_rows_of_tables_of_slices_are_those_of_lists(name):
    dice = random.Random(name)
    kind = CASES[name].type
    whole = read_batch(
        pa.record_batch({"x": CASES[name], "s": pa.StructArray.from_arrays([CASES[name], CASES[name]], ["p", "q"])})
        if pa.types.is_primitive(kind) or pa.types.is_string(kind)
        else pa.record_batch({"x": CASES[name]})
    )
    parts = [whole.slice(dice.randrange(3), dice.randrange(9)) for _ in range(5)] + [whole, whole.slice(1)]
    table = ipc.Table.from_batches(parts)
    rows, n = table.to_pylist(), table.num_rows
    for count in (0, 1, n // 2, 2 * n):
        chosen = [dice.randrange(-n, n) for _ in range(count)]
        taken = table.take(chosen)
        assert str(taken.to_pylist()) == str([rows[row] for row in chosen])
        for batch in taken.batches:
            drive.export_to_pyarrow(batch)


def test_a_row_is_found_in_batches_of_any_length():
    dice = random.Random(7)
    kind = ipc.Schema([field("x", int64()), field("t", utf8())])
    for lengths in ([1] * 300 + [5000], [5000] + [1] * 300, [dice.randrange(40) for _ in range(200)]):
        starts = np.cumsum([0, *lengths])
        parts = [
            ipc.RecordBatch.from_pydict({"x": range(start, stop), "t": list(map(str, range(start, stop)))}, kind)
            for start, stop in itertools.pairwise(starts)
        ]
        chosen = [dice.randrange(starts[-1]) for _ in range(1000)]
        found = ipc.Table.from_batches(parts).take(chosen).to_pydict()
        assert found == {"x": chosen, "t": list(map(str, chosen))}


def test_offsets_that_are_broken_are_errors_where_they_are_taken():
    offsets = np.array([0, 1, 5, 3, 99, 4], np.int32)
    kind = ipc.Schema([field("t", utf8())])
    batch = ipc.RecordBatch.from_buffers(kind, 5, [(5, 0)], [None, offsets, b"abcd"])
    table = ipc.Table.from_batches([batch, batch])
    for found, whole in ((batch, 5), (table, 10)):
        assert found.take([0] * whole).to_pydict() == {"t": ["a"] * whole}
        for row in (1, 2, 3, 4):
            with pytest.raises(ipc.FormatError, match="'t'"):
                found.take([0, row])
            with pytest.raises(ipc.FormatError, match="'t'"):
                found.take([0, row] * whole)


@given(randoms.batches(), st.randoms(use_true_random=False))
def test_rows_of_batches_and_tables_are_those_of_lists(parts, dice):
    batches = drive.from_bytes(randoms.written(parts)).batches
    table = ipc.Table.from_batches(batches) if batches else None
    for found in [*batches, *([table] if table else [])]:
        rows, n = found.to_pylist(), found.num_rows
        chosen = [dice.randrange(-n, n) for _ in range(min(2 * n, 50))]
        taken = found.take(chosen)
        assert str(taken.to_pylist()) == str([rows[row] for row in chosen])
        assert taken.schema.equals(found.schema, check_metadata=True)
        start, stop = sorted(dice.randrange(-n - 1, n + 2) for _ in range(2))
        step = dice.choice((1, 1, 2, -1, -3))
        assert str(found[start:stop:step].to_pylist()) == str(rows[start:stop:step])
        assert str(list(found.iter_rows(named=True))) == str(rows)
        assert found.head(2).num_rows + found.tail(-2).num_rows == n


@pytest.mark.parametrize("where", [WORDS, WORDS["x"], ipc.Table.from_batches([WORDS, WORDS])])
def test_what_is_no_index_is_refused(where):
    for wrong in ([99], [-99], np.array([4, 8])):
        with pytest.raises(IndexError, match="is not one of the"):
            where.take(wrong)
    for wrong in ([True], [None], [1.0], [[1]], np.array([2**63], np.uint64), pa.array([0, None])):
        with pytest.raises((UsageError, IndexError)):
            where.take(wrong)
    with pytest.raises(IndexError):
        where[:0].take([0])


def test_views_and_dictionaries_are_shared_and_text_is_not():
    kind = dictionary(int32(), utf8())
    batch = ipc.RecordBatch.from_pydict({"d": ["a", "b"] * 50}, ipc.Schema([field("d", kind)]))
    text = [np.frombuffer(each["d"].dictionary.buffers()[2], np.uint8) for each in (batch, batch.take([1]))]
    assert np.shares_memory(*text)
    long = ipc.RecordBatch.from_pydict({"t": ["a" * 1000] * 100})
    assert long.take([3]).nbytes < 2000


def test_offsets_that_do_not_fit_are_an_error_that_says_what_to_do():
    wide = ipc.RecordBatch.from_pydict({"t": ["a" * (1 << 20)]})
    with pytest.raises(ipc.UnsupportedError, match="offset"):
        wide.take(np.zeros(2048, np.int64))


# -- columns -------------------------------------------------------------------------------------------------


def test_brackets_choose_rows_or_columns():
    assert WORDS["x"].to_pylist() == WORDS[0].to_pylist() == WORDS[np.int64(0)].to_pylist()
    assert WORDS[["y", "x"]].schema.names == ["y", "x"]
    assert WORDS[[2, -1]].to_pydict() == {"x": [3, None], "y": [None, "d"]}
    assert WORDS[np.array([0])].num_rows == 1
    assert WORDS[[]].num_rows == 0
    assert WORDS["x"][[0, -1]].to_pylist() == [1, None]
    table = ipc.Table.from_batches([WORDS, WORDS])
    assert [len(part) for part in table["x"]] == [4, 4]
    assert table[["y"]].to_pydict() == {"y": ["a", "b", None, "d"] * 2}
    assert table[[7, 0]].to_pydict() == {"x": [None, 1], "y": ["d", "a"]}
    assert table[3:5].to_pydict() == {"x": [None, 1], "y": ["d", "a"]}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("x", [{"x": 1}, {"x": 2}]),
        (["s.q.t", "x"], [{"s": {"q": {"t": None}}, "x": 1}, {"s": None, "x": 2}]),
        ([1], [{"s": {"p": 1.5, "q": {"r": "a", "t": None}}}, {"s": None}]),
        (["l.item.v"], [{"l": [{"v": b"b"}]}, {"l": []}]),
        ([], [{}, {}]),
    ],
)
def test_chosen_columns_are_cut_out_without_copying(columns, expected):
    assert DEEP.select(columns).to_pylist() == expected
    assert ipc.Table.from_batches([DEEP]).select(columns).to_pylist() == expected
    again = DEEP.select(["s", "x"]).select(["x", "s.p"])
    assert again.to_pylist() == [{"x": 1, "s": {"p": 1.5}}, {"x": 2, "s": None}]
    assert np.shares_memory(again["x"].to_numpy(), DEEP["x"].to_numpy())
    drive.export_to_pyarrow(again)


@pytest.mark.parametrize("name", CASES)
def test_every_type_is_chosen_renamed_dropped_and_added(name):
    batch = read_batch(pa.record_batch({"x": CASES[name], "y": CASES[name], "z": pa.array(range(len(CASES[name])))}))
    swapped = batch.select(["z", "x"])
    assert swapped["x"].equals(batch["x"], nan_equal=True)
    assert batch.drop(["y", -1]).schema == ipc.Schema([batch.schema.field("x")])
    other = batch.rename({"x": "a"})
    assert other.schema.names == ["a", "y", "z"]
    assert other["a"].equals(batch["x"], nan_equal=True)
    more = swapped.append_column(batch.schema.field("y"), batch["y"])
    assert more["y"].equals(batch["y"], nan_equal=True)
    assert more.slice(1).append_column("w", batch["x"][1:])["w"].equals(batch["x"][1:], nan_equal=True)
    for each in (swapped, other, more):
        drive.export_to_pyarrow(each)


def test_columns_that_are_not_there_are_named():
    for find in (lambda: WORDS.select("z"), lambda: WORDS.drop("z"), lambda: WORDS.rename({"z": "a"})):
        with pytest.raises((UsageError, KeyError), match="'z'"):
            find()
    with pytest.raises(UsageError, match="expected 2 names"):
        WORDS.rename(["a"])


def test_a_column_may_be_selected_twice():
    twice = WORDS.select(["x", "x"])
    assert twice.schema.names == ["x", "x"]
    assert twice[0] == twice[1] == WORDS["x"]
    assert twice.select([1]).schema.names == ["x"]


def test_added_columns_must_fit():
    with pytest.raises(UsageError, match=r"'z': expected 4 values.*found 3"):
        WORDS.append_column("z", [1, 2, 3])
    with pytest.raises(UsageError, match="not nullable"):
        WORDS.append_column(field("z", int64(), nullable=False), [1, 2, 3, None])
    with pytest.raises(UsageError):
        WORDS.append_column(field("z", int8()), [1, 2, 3, 999])
    table = ipc.Table.from_batches([WORDS, WORDS[1:]])
    assert table.append_column("z", range(7)).select("z").to_pydict() == {"z": list(range(7))}
    assert ipc.Table(WORDS.schema).append_column(field("z", list_(int8())), []).schema.names == ["x", "y", "z"]
    assert ipc.Table(WORDS.schema).select("y").schema.names == ["y"]


# -- arrays as buffers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_numbers_without_nulls_are_buffers(dtype):
    values = np.arange(6).astype(dtype)
    array = ipc.Array.from_pylist(values)[1:5]
    assert np.array_equal(np.frombuffer(array, dtype), values[1:5])
    assert dtype == "f2" or memoryview(array).tolist() == values[1:5].tolist()  # Python lists no halves
    assert memoryview(array).readonly
    assert np.shares_memory(np.asarray(array), values)
    assert np.shares_memory(np.from_dlpack(array), values)
    assert array.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("values", [["a"], [1, None], [True], [[1]]])
def test_what_is_no_number_or_null_is_no_buffer(values):
    array = ipc.Array.from_pylist(values)
    with pytest.raises(BufferError, match="to_numpy"):
        memoryview(array)
    with pytest.raises(BufferError):
        array.__dlpack__()
    assert len(np.asarray(array)) == len(values)
