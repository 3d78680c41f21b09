"""Order, counts, places and expressions are those of pyarrow."""

import datetime as dt
import itertools
import math
import random
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from helpers.arrays import CASES
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc import types

COLUMNS = {
    "x": [3, None, 1, math.nan, 3, -1],
    "y": ["b", "a", None, "c", "a", ""],
    "d": pa.array([1, 2, 1, None, 2, 1], pa.int8()).cast(pa.decimal128(5, 1)),
    "i": [65_534, -2, None, -1, -2, 65_534],
    "n": pa.array([-3, 2, -128, 127, 2, -3], pa.int8()),
    "b": [True, False, None, True, True, False],
    "t": pa.array([5000, 4000, None, 4000, 5000, -5000], pa.timestamp("us")),
    "k": pa.array(["q", None, "p", "q", "p", "q"]).dictionary_encode(),
}
THEIRS = pa.concat_tables([pa.table(COLUMNS)[:2], pa.table(COLUMNS)[2:]]).unify_dictionaries()
OURS = ipc.table(THEIRS)


@pytest.mark.parametrize("names", [*itertools.permutations(COLUMNS, 1), *itertools.permutations(COLUMNS, 2)])
def test_rows_are_sorted_stably_with_nulls_last(names):
    # pyarrow would sort the numbers of the words.
    plain = THEIRS.set_column(THEIRS.column_names.index("k"), "k", THEIRS["k"].cast(pa.string()))
    for orders in itertools.product(("ascending", "descending"), repeat=len(names)):
        sorting = list(zip(names, orders, strict=True))
        expected = repr(plain.sort_by(sorting).to_pylist())
        for rows in (OURS, OURS.combine()):
            assert repr(rows.sort_by(sorting).to_pylist()) == expected, sorting
    ascending = [(name, "ascending") for name in names]
    assert OURS.sort_by(names).equals(OURS.sort_by(ascending), nan_equal=True)


def test_nulls_come_first_where_a_key_says_so():
    for order, values in (("ascending", "-1.0, 1.0, 3.0, 3.0"), ("descending", "3.0, 3.0, 1.0, -1.0")):
        assert repr(OURS.sort_by([("x", order, "at_start")])["x"].to_pylist()) == f"[None, nan, {values}]"
        assert OURS.sort_by([("x", order, "at_end")]).equals(OURS.sort_by([("x", order)]), nan_equal=True)
    words = OURS.sort_by([("k", "ascending", "at_start"), ("y", "descending", "at_start")]).select(["k", "y"])
    expected = [(None, "a"), ("p", None), ("p", "a"), ("q", "c"), ("q", "b"), ("q", "")]
    assert list(words.iter_rows()) == expected


def test_nan_has_one_place_also_inside_lists_and_of_runs():
    nan = float("nan")
    values = [nan, 1.0, 1.0, nan, 0.5, -1.0]
    for kind in ("double", types.run_end_encoded("int32", "double")):
        rows = ipc.table({"x": ipc.array(values, kind)})
        for order, expected in (("ascending", "[-1.0, 0.5, 1.0, 1.0, nan, nan]"), ("descending", "[1.0, 1.0, 0.5")):
            assert repr(rows.sort_by([("x", order)])["x"].to_pylist()).startswith(expected)
            assert repr(rows.sort_by([("x", order)])["x"].to_pylist()).endswith("nan, nan]")
    lists = [[nan], [1.0], [nan, 1.0], [0.5], [0.5, nan], [0.5, 2.0], [], [nan]]
    for shuffled in itertools.islice(itertools.permutations(lists), 0, 40_320, 1_009):
        for values in (shuffled, [[each, [2.0]] for each in shuffled]):
            up = ipc.table({"x": ipc.array(values)}).sort_by("x")["x"].to_pylist()
            expected = [[], [0.5], [0.5, 2.0], [0.5, nan], [1.0], [nan], [nan], [nan, 1.0]]
            assert repr(up) == repr(expected if values is shuffled else [[each, [2.0]] for each in expected])


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"])
@pytest.mark.parametrize("seed", range(rounds(8, 200)))
def test_texts_are_sorted_as_their_bytes(kind, seed):
    chance = random.Random(seed)
    alphabet = ["ab", "\0a", "abcdefgh", "a\u00e9\u20ac\U0001f600"][seed % 4]
    parts = [*alphabet[:2], *("".join(chance.choices(alphabet, k=8)) for _ in range(3))]
    same = chance.choice([0, 5, 8, 60, 600]) * alphabet[0]
    longest = chance.choice([6, 8, 12, 40])
    words = [same + "".join(chance.choices(parts, k=chance.randrange(longest))) for _ in range(1000)]
    values = words if "string" in kind else [word.encode() for word in words]
    rows = ipc.table({"x": ipc.array([*values, None, *values], kind), "i": range(2 * len(values) + 1)})
    up = rows.sort_by(["x"])
    assert up["x"].to_pylist() == [*sorted(values + values), None]
    neighbours = zip(up["x"], up["x"][1:], up["i"], up["i"][1:], strict=False)
    assert all(i < k for x, y, i, k in neighbours if x == y), "stable"
    down = rows.sort_by([("x", "descending", "at_start")])
    assert down["x"].to_pylist() == [None, *sorted(values + values, reverse=True)]


def test_what_has_no_order_is_refused():
    for sorting, words in (
        ("s", "have no order"),
        ([("x", "up")], "then 'ascending' or 'descending', .* found tuple"),
        ([("x", "ascending", "last")], "'at_end' or 'at_start' for nulls, found tuple"),
        ([("x", "ascending", "at_end", "x")], "found tuple"),
        ([], "found none"),
        (5, "sorting.*found int 5"),
        ([None], "expected a name, .* found NoneType"),
        ([()], "expected a name, .* found tuple"),
        ([(["x"], "ascending")], "expected a name, .* found tuple"),
        ("zz", "no column is named 'zz'|'zz'"),
    ):
        with pytest.raises((ipc.UsageError, ipc.NotFoundError), match=words):
            ipc.table({"x": [1, 2], "s": [{"a": 1}, {"a": 2}]}).sort_by(sorting)


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_counted_found_and_dropped(name):
    theirs, column = THEIRS[name], OURS[name]
    plain = theirs.cast(pa.string()) if name == "k" else theirs
    counts = [(repr(each["values"]), each["counts"]) for each in plain.combine_chunks().value_counts().to_pylist()]
    for ours in (column, column.combine()):
        assert [(repr(each["values"]), each["counts"]) for each in ours.value_counts().to_pylist()] == counts
        assert repr(list(ours.drop_null())) == repr(plain.drop_null().to_pylist())
        values = ours.to_pylist()
        for value in {*values} - {math.nan}:
            if value == value:
                assert ours.index(value) == ours.index(pa.scalar(value)) == values.index(value)
                after = values.index(value) + 1
                assert ours.index(value, after) == next((i for i in range(after, 6) if values[i] == value), -1)
                assert ours.index(value, 0, values.index(value)) == -1
    assert column.get_total_buffer_size() > 0 < OURS.get_total_buffer_size()
    assert (column.to_string(), OURS.to_string()) == (repr(column), repr(OURS))
    assert OURS.drop_null().to_pylist() == THEIRS.drop_null().to_pylist()


def test_a_value_is_found_far_away_and_behind_times_that_python_lacks():
    numbers = ipc.array(range(5000))
    assert [numbers.index(4321), numbers.index(4321, 1234), numbers.index(4321, 0, 4321)] == [4321, 4321, -1]
    times = ipc.array(pa.array([1, 1000, None], pa.timestamp("ns")))
    for column in (times, times.dictionary_encode()):
        assert column.index(dt.datetime(1970, 1, 1, microsecond=1)) == 1
        for value in (pd.Timestamp(1), np.datetime64(1, "ns"), pa.scalar(1, pa.timestamp("ns"))):
            assert column.index(value) == 0
        for value in (None, pd.NaT):
            assert column.index(value) == 2
        for value in ("1970-01-01", dt.datetime(1970, 1, 1, tzinfo=dt.UTC)):
            assert column.index(value) == -1


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays([1, 0, None], ["a", None]),
        pa.RunEndEncodedArray.from_arrays([1, 3], pa.array([None, 1])),
        pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([None, 1, None])]),
    ],
    ids=lambda column: str(column.type),
)
def test_nulls_are_found_where_the_values_below_are(column):
    assert ipc.array(column).index(None) == 0
    assert ipc.array(column).index(None, 1) == (2 if column[2].as_py() is None else -1)


@pytest.mark.parametrize("words", [pa.array(["a", None, "b"]), pa.array(["a", None, "b"]).dictionary_encode()])
def test_nulls_below_runs_are_counted(words):
    """Run-end encoded values have no bitmap of their own."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5, 6], pa.int32()), words)
    counts = ipc.array(runs).value_counts().to_pylist()
    assert [tuple(each.values()) for each in counts] == [("a", 2), (None, 3), ("b", 1)]


def test_what_is_nan():
    assert OURS["x"].is_nan() == pc.is_nan(THEIRS["x"])
    assert OURS["x"].is_nan().to_pylist() == [False, None, False, True, False, False]
    assert ipc.array([1, None]).is_nan().to_pylist() == [False, None]
    with pytest.raises(ipc.UsageError, match="expected a column of numbers, found string"):
        OURS["y"].is_nan()


def test_rows_are_filtered_by_expressions_of_other_libraries():
    for expression in (pc.field("x") > 1, pc.is_null(pc.field("y")), pc.field("y").isin(["a", "b"]) & pc.field("b")):
        for rows in (OURS, OURS.combine()):
            assert repr(rows.filter(expression).to_pylist()) == repr(THEIRS.filter(expression).to_pylist())
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(THEIRS)
    for expression in (pl.col("x") > 1, pl.col("y").is_null(), pl.col("y").str.starts_with("a")):
        assert repr(OURS.filter(expression).to_pylist()) == repr(frame.filter(expression).to_dicts())
        assert OURS.filter(expression).schema == OURS.schema
    for expression in (pc.field("zz") > 1, pl.col("zz") > 1):
        with pytest.raises(ipc.UsageError, match=r"filter: p.* cannot compute .*zz"):
            OURS.filter(expression)


OF_VIEWS = pa.array([{"v": "x" * 20}, None, {"v": "y"}], pa.struct({"v": pa.string_view()}))
ARRAYS = {name: array for name, array in CASES.items() if not name.startswith("dictionary")} | {"views": OF_VIEWS}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("offset", [0, 1])
def test_arrays_are_made_of_buffers(name, offset):
    theirs = ARRAYS[name]
    whole = ipc.array(theirs)
    some = theirs[offset:]
    for null_count in (-1, some.null_count):
        made = ipc.Array.from_buffers(theirs.type, len(some), whole.buffers(), null_count, offset, whole.children)
        assert made.type == theirs.type
        assert made == some
        made.validate(full=True)
    with pytest.raises(ipc.FormatError, match="need") if whole.buffers() else nullcontext():
        ipc.Array.from_buffers(theirs.type, 1000, whole.buffers(), children=whole.children)
