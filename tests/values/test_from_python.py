"""Arrays and batches made of Python values: the inverse of to_pylist, pyarrow's where both mean the same."""

import array as c_arrays
import ctypes
import datetime as dt
import decimal
import math
import random
import zoneinfo
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional
from helpers.arrays import CASES, address, ipc_bytes, read_array, read_batch, seen_by_pyarrow
from helpers.arrow_columns import ARRAYS
from helpers.processes import FREE_THREADED
from helpers.randoms import any_text, array_of, types as any_type
from hypothesis import given, reject, strategies as st

import arrowipc as ipc
import arrowipc.types as t
from arrowipc import UsageError
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.types import DayTime, Dictionary, MonthDayNano, field, schema
from arrowipc.values.from_python import build_array, build_batch

pd = optional("pandas")

UTC = dt.UTC


def tagged(array: ipc.Array) -> list[Any]:
    """The values of an array, those of unions as (type code, value).

    Made of our arrays: pyarrow's scalars forget the type code of a null in a sparse union.
    """
    kind = array.type
    if isinstance(kind, Dictionary):
        values = [] if array.dictionary is None else tagged(array.dictionary)
        return [None if i is None else values[i] for i in array.indices.to_pylist()]
    if not kind.children:
        return array.to_pylist(extensions=STORED_TIMES)
    if isinstance(kind, (t.Union, t.Struct, t.RunEndEncoded)):
        parts = [tagged(child) for child in array.children]
    start, stop = array.offset, array.offset + len(array)
    if isinstance(kind, t.Union):
        codes = array.buffers()[0][start:stop]
        at = np.frombuffer(array.buffers()[1], "i4")[start:stop] if kind.mode == "dense" else range(len(array))
        return [(code, parts[kind.type_codes.index(code)][i]) for code, i in zip(codes, at, strict=True)]
    if isinstance(kind, t.Struct):
        names = [child.name for child in kind.fields]
        return [
            [(name, part[i]) for name, part in zip(names, parts, strict=True)] if ok else None
            for i, ok in enumerate(array.is_valid())
        ]
    if isinstance(kind, t.RunEndEncoded):
        return [parts[1][np.searchsorted(parts[0], i, side="right")] for i in range(start, stop)]
    elements = iter(tagged(array.flatten()))
    if isinstance(kind, t.Map):
        elements = (tuple(value for _, value in pair) for pair in elements)
    return [None if size is None else list(islice(elements, size)) for size in array.value_lengths()]


def has_union(kind: t.DataType) -> bool:
    below = [kind.value_type] if isinstance(kind, Dictionary) else [child.type for child in kind.children]
    return isinstance(kind, t.Union) or any(map(has_union, below))


# -- the inverse of to_pylist --------------------------------------------------------------------------------


def built_again(theirs):
    """The array that is made of the values of an array, which it equals, and what pyarrow sees of it."""
    source = read_array(theirs)
    built = build_array(tagged(source), source.type)
    assert built == source
    assert built.type == source.type
    assert repr(built.to_pylist()) == repr(source.to_pylist())
    if not has_union(source.type):
        assert build_array(source.to_pylist(), source.type) == source
    return seen_by_pyarrow(built)


@pytest.mark.parametrize("name", ARRAYS)
def test_values_come_back(name):
    assert built_again(ARRAYS[name]).to_pylist() == ARRAYS[name].to_pylist()


@given(any_type, st.integers(0, 12), st.integers(0, 2**32))
def test_any_array_is_built_again_from_its_values(kind, rows, seed):
    built_again(array_of(kind, rows, random.Random(seed)))


@given(any_type, st.integers(0, 12), st.integers(0, 2**32))
def test_any_values_of_a_type_become_what_pyarrow_makes_of_them(kind, rows, seed):
    try:
        values = array_of(kind, rows, random.Random(seed)).to_pylist()
        expected = pa.array(values, kind)
    except (pa.ArrowException, ValueError, OverflowError):  # unions, runs, repeated names, times beyond Python's
        reject()
    assert ipc.array(values, kind).equals(expected, nan_equal=True)
    assert ipc.array((*values,), kind).equals(expected, nan_equal=True)


#: Python values of one class each, and columns of them, of lists and of dicts of them.
CLASSES = [
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.floats() | st.integers(-(2**53), 2**53),
    any_text(max_size=20),
    st.binary(max_size=20),
    st.dates(),
    st.times(),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(-dt.timedelta(10**5), dt.timedelta(10**5)),
    st.decimals(-(10**9), 10**9, allow_nan=False, places=3),
    st.none(),
]
values_of_one_shape = st.recursive(
    st.sampled_from(CLASSES),
    lambda below: st.one_of(
        below.map(lambda each: st.lists(st.none() | each, max_size=4)),
        st.dictionaries(st.sampled_from("abc"), below, min_size=1).map(
            lambda fields: st.fixed_dictionaries({}, optional={k: st.none() | each for k, each in fields.items()})
        ),
    ),
    max_leaves=4,
).flatmap(lambda each: st.lists(st.none() | each, max_size=8))


@given(values_of_one_shape)
def test_any_values_without_a_type_become_what_pyarrow_makes_of_them(values):
    expected = pa.array(values)
    assert ipc.array(values).equals(expected, nan_equal=True)
    rows = [{"x": value, "y": None} for value in values]
    assert ipc.Table.from_pylist(rows).equals(pa.Table.from_pylist(rows), nan_equal=True)


PLAIN = [
    ([0.1, None, -0.0, math.inf, 7], pa.float64()),
    ([0.1, None, 65504.0], pa.float16()),
    (["a", None, "", "é€𝄞", "ÿ", "\0"], pa.string()),
    ([b"ab", None, bytearray(b"cd")], pa.binary(2)),
    ([dt.date(1900, 2, 28), None, dt.date(2000, 2, 29), dt.date(2100, 3, 1), 5], pa.date32()),
    ([dt.time(1, 2, 3, 4), None, 5], pa.time64("us")),
    ([dt.datetime(1, 1, 1), None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
    ([dt.datetime(2024, 7, 1, tzinfo=UTC), None, dt.datetime(2024, 7, 1)], pa.timestamp("s", "Europe/Berlin")),
    ([dt.timedelta(-1, 5, 7), None, 3], pa.duration("us")),
    ([(1, -2, 3), None, (0, 0, -1)], pa.month_day_nano_interval()),
    ([[1, None], None, [], (2,)], pa.list_(pa.int8())),
    ([{"a": 1}, None, {}, {"b": "x", "a": None}], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    ([(1, "x"), None, (2, None)], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    ([[("k", 1)], None, [], {"l": 2, "m": None}], pa.map_(pa.string(), pa.int8())),
]


@pytest.mark.parametrize(("values", "kind"), PLAIN, ids=[str(kind) for _, kind in PLAIN])
def test_python_values_become_what_pyarrow_makes_of_them(values, kind):
    expected = pa.array([dict(v) if isinstance(v, list) and pa.types.is_struct(kind) else v for v in values], kind)
    ours = read_array(pa.array([], kind)).type
    for given_values in (values, tuple(values)):
        assert seen_by_pyarrow(build_array(given_values, ours)).equals(expected)


def test_python_sequences_of_all_kinds():
    assert build_array(range(3), t.int8()).to_pylist() == [0, 1, 2]
    assert build_array({"a": 1}.values(), t.int8()).to_pylist() == [1]
    assert build_array(memoryview(b"ab"), t.uint8()).to_pylist() == [97, 98]
    assert build_array([range(2), (5,), np.array([7], "u1")], t.list_(t.int8())).to_pylist() == [[0, 1], [5], [7]]
    for wrong in ("ab", b"ab", {"a": 1}, {1, 2}, 5, None, iter([1]), np.array(5)):
        with pytest.raises(UsageError, match="expected"):
            build_array(wrong, t.int8())


# -- values --------------------------------------------------------------------------------------------------


def test_scalars_of_numpy_and_pandas():
    moments = [np.datetime64("2000-01-01T00:00:01"), np.datetime64("NaT", "s"), pd.Timestamp("2000-01-01"), pd.NaT]
    for values, kind, expected in (
        ([np.int64(5), np.uint8(6)], t.int8(), [5, 6]),
        ([np.float32(0.5), np.float64(1.5), np.int8(2)], t.float64(), [0.5, 1.5, 2.0]),
        ([np.True_, np.False_], t.bool_(), [True, False]),
        ([np.str_("é"), "x"], t.string(), ["é", "x"]),
        ([np.bytes_(b"x")], t.binary(), [b"x"]),
        (
            [np.void(b"x"), np.array([1], "u1"), memoryview(c_arrays.array("H", [1])), c_arrays.array("b", [1])],
            t.binary(),
            [b"x", b"\1", b"\1\0", b"\1"],
        ),
        (moments, t.timestamp("ms"), [dt.datetime(2000, 1, 1, 0, 0, 1), None, dt.datetime(2000, 1, 1), None]),
        ([np.datetime64("1970-01-03"), pd.NaT], t.date32(), [dt.date(1970, 1, 3), None]),
        ([np.timedelta64(5, "s")], t.duration("ms"), [dt.timedelta(seconds=5)]),
    ):
        assert build_array(values, kind).to_pylist() == expected
    fine = 946684800000000123
    assert build_array([pd.Timestamp(fine)], t.timestamp("ns")).to_numpy().tolist() == [fine]
    assert build_array([pd.Timedelta(123, "ns")], t.duration("ns")).to_numpy().tolist() == [123]
    for value, kind, words in (
        (pd.Timestamp(1), t.timestamp("us"), "finer than the unit"),
        (pd.Timedelta(1, "ns"), t.duration("us"), "finer than the unit"),
        (np.datetime64("1970-01-01T00:00:01"), t.date32(), "finer than the unit"),
        (np.datetime64(2**62, "s"), t.timestamp("ns"), "outside the range"),
        (np.timedelta64(2**62, "s"), t.duration("ns"), "outside the range"),
        (np.timedelta64(5, "s"), t.int64(), "an integer from"),
        (np.timedelta64(5, "s"), t.timestamp("s"), "a datetime or an int of seconds"),
    ):
        with pytest.raises(UsageError, match=f"row 0: expected .*{words}"):
            build_array([value], kind)


def test_datetimes_of_any_zone_are_instants_and_naive_ones_utc():
    berlin = dt.timezone(dt.timedelta(hours=2))
    naive = dt.datetime(2024, 7, 1)
    values = [dt.datetime(2024, 7, 1, 2, tzinfo=berlin), naive, naive.replace(tzinfo=UTC)]
    built = build_array(values, t.timestamp("s", "Europe/Berlin"))
    assert built.to_numpy().tolist() == [dt.datetime(2024, 7, 1)] * 3
    assert all(value == values[0] and value.tzinfo is not None for value in built.to_pylist())
    fold = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    (found,) = build_array([fold], t.timestamp("us", "Europe/Berlin")).to_pylist()
    assert (found, found.fold) == (fold, 1)


def test_decimals_are_those_of_their_tuples_in_every_context():
    dice = random.Random(7)
    kinds = [(t.decimal32, 9), (t.decimal64, 18), (t.decimal128, 38), (t.decimal256, 76)]
    for _ in range(2_000):
        digits = [dice.choice([0, 0, dice.randrange(10)]) for _ in range(dice.choice([1, 9, 10, 19, 38, 76, 90]))]
        exponent = dice.choice([0, -2, -7, -len(digits), -len(digits) - 3, 3, 30, -90, 999_999])
        value = Decimal((dice.randrange(2), digits, exponent))
        make, most = dice.choice(kinds)
        precision = dice.randint(1, most)
        kind = make(precision, min(dice.choice([0, 2, precision, -5]), precision))
        digits = value.as_tuple().digits
        end = len(digits) + (exponent + kind.scale if value else 0)
        lost = any(digits[max(end, 0) :])
        if lost or end > precision:
            with pytest.raises(UsageError, match="digits would be lost" if lost else "more digits than the type"):
                build_array([value], kind)
            continue
        with decimal.localcontext() as context:
            context.prec = 3
            built, as_text = build_array([value], kind), build_array([str(value)], kind)
        assert built.to_pylist() == [value]
        assert built == as_text


def test_decimals_that_do_not_fit():
    kind = t.decimal32(4, 2)
    expected = [Decimal("12.3"), 99, Decimal("-99.99"), 10, 5]
    assert build_array(["12.30", 99, "-99.99", "1e1", " 5 "], kind).to_pylist() == expected
    for wrong in ("1.234", "100", Decimal("1E+30"), "NaN", "x", 1.5, True, 10**5000):
        with pytest.raises(UsageError, match="row 1: expected a Decimal, an int or a str of at most 4 digits"):
            build_array(["1", wrong], kind)
    huge = t.Decimal(5, -(2**31), 128)
    assert build_array([Decimal("3E+2147483648"), 0], huge).to_pylist() == [Decimal("3E+2147483648"), 0]
    with pytest.raises(UsageError, match="digits would be lost"):
        build_array([1], huge)


def test_the_longest_spans():
    for ticks in (-(2**63), -(2**63) + 1, 2**63 - 1):
        (span,) = build_array([ticks], t.duration("us")).to_pylist()
        assert build_array([span], t.duration("us")).to_numpy().view("i8").tolist() == [ticks]
    for moment in (pd.Timestamp.min, pd.Timestamp.max):
        assert build_array([moment], t.timestamp("ns")).to_numpy().tolist() == [moment.value]
    for span in (pd.Timedelta.min, pd.Timedelta.max):
        assert build_array([span], t.duration("ns")).to_numpy().tolist() == [span.value]


def test_intervals_take_plain_tuples_and_lists():
    built = build_array([(1, -2), None, DayTime(3, 4), [5, 6]], t.interval_day_time())
    assert built.to_pylist() == [DayTime(1, -2), None, DayTime(3, 4), DayTime(5, 6)]
    built = build_array([(1, -2, 2**63 - 1), pa.MonthDayNano([3, 4, 5])], t.month_day_nano_interval())
    assert built.to_pylist() == [MonthDayNano(1, -2, 2**63 - 1), MonthDayNano(3, 4, 5)]
    assert build_array([-7, None], t.interval_year_month()).to_pylist() == [-7, None]


def test_structs_with_repeating_names_take_pairs_in_order():
    kind = t.struct([field("a", t.int8()), field("b", t.int8()), field("a", t.string())])
    built = build_array([[("a", 1), ("a", "x")], None, (("b", 2),)], kind)
    assert built.to_pylist() == [[("a", 1), ("b", None), ("a", "x")], None, [("a", None), ("b", 2), ("a", None)]]
    for wrong in ([("a", 1), ("a", "x"), ("a", 3)], [("c", 1)]):
        with pytest.raises(UsageError, match="row 0: the struct has no field"):
            build_array([wrong], kind)
    with pytest.raises(UsageError, match="names repeat"):
        build_array([{"a": 1}], kind)


def test_a_plain_value_goes_to_the_one_child_of_its_class():
    fields = [
        field("i", t.int32()), field("f", t.float64()), field("s", t.string()),
        field("l", t.list_(t.int8())), field("t", t.struct([("a", t.int8())])),
        field("d", t.decimal128(9, 2)), field("w", t.timestamp("us")),
    ]  # fmt: skip
    values = [5, 2.5, "x", [1, 2], {"a": 1}, Decimal("1.25"), dt.datetime(2024, 1, 1), None, (5, Decimal(3))]
    expected = [*values[:-1], Decimal(3)]
    for kind in (t.sparse_union(fields), t.dense_union(fields)):
        built = build_array(values, kind)
        assert built.to_pylist() == expected
        assert bytes(built.buffers()[0]) == bytes([0, 1, 2, 3, 4, 5, 6, 0, 5])
        seen_by_pyarrow(built)
    words = t.sparse_union([field("a", t.string()), field("b", t.large_string())], [3, 7])
    assert build_array([(3, "x"), (7, "y"), (7, None)], words).to_pylist() == ["x", "y", None]
    for wrong, count in (("x", 2), (b"x", 0), ((5, "x"), 0)):
        with pytest.raises(UsageError, match=rf"row 0: expected .*\({count} of 2 children would take it\)"):
            build_array([wrong], words)


def test_null_goes_to_the_first_nullable_child_of_a_union():
    fields = [field("a", t.int8(), nullable=False), field("b", t.string())]
    built = build_array([None, (0, 5)], t.dense_union(fields))
    assert bytes(built.buffers()[0]) == bytes([1, 0])
    with pytest.raises(UsageError, match="no child of the union is nullable"):
        build_array([None], t.dense_union(fields[:1]))
    with pytest.raises(UsageError, match=r"column 'a', row 0: is null"):
        build_array([(0, None)], t.dense_union(fields))


def test_runs_and_dictionaries_tell_stored_values_apart():
    values = [0.0, -0.0, math.nan, math.nan, None, None, 1.5, 1.5]
    runs = build_array(values, t.run_end_encoded(t.int32(), t.float64()))
    assert repr(runs.children[1].to_pylist()) == repr([0.0, -0.0, math.nan, None, 1.5])
    words = build_array(values, t.dictionary(t.int8(), t.float64()))
    assert len(words.dictionary) == 4
    mixed = build_array([1, Decimal("1.0"), "1.00", 2], t.dictionary(t.int8(), t.decimal128(9, 2)))
    assert mixed.dictionary.to_pylist() == [1, 2]
    nested = [[0.0], [-0.0], (0.0,), None, {"b": 1}, {"b": 1, "a": None}]
    lists = build_array(nested[:4], t.dictionary(t.int8(), t.list_(t.float32())))
    assert len(lists.dictionary) == 2
    structs = t.dictionary(t.int8(), t.struct([("a", t.int8()), ("b", t.int8())]))
    assert build_array(nested[4:], structs).dictionary.to_pylist() == [{"a": None, "b": 1}]


def test_columns_with_one_dictionary_id_share_the_dictionary():
    shared = Dictionary(t.int8(), t.string(), dictionary_id=7)
    nested = t.list_(shared)
    target = schema([field("a", shared), field("b", nested), field("c", shared)])
    given_c = read_array(pa.array(["z", "x"]).dictionary_encode())
    batch = build_batch({"a": ["x", "y"], "b": [["z", "x"], None], "c": ["w", "x"]}, target)
    assert batch["a"].dictionary.to_pylist() == ["x", "y", "z", "w"]
    assert batch["c"].dictionary == batch["a"].dictionary
    assert batch.to_pydict() == {"a": ["x", "y"], "b": [["z", "x"], None], "c": ["w", "x"]}
    # An array has a dictionary of its own; its values join the shared one.
    of_int32 = Dictionary(t.int32(), t.string(), dictionary_id=7)
    target = schema([field("a", of_int32), field("c", of_int32)])
    batch = build_batch({"a": ["x", "y"], "c": given_c}, target)
    assert batch["c"].dictionary.to_pylist() == ["x", "y", "z"]
    assert batch["c"].to_pylist() == ["z", "x"]


def test_types_as_deep_as_they_may_be():
    kind, value = t.int8(), 5
    for level in range(62):
        if level % 2:
            kind, value = t.struct([field("a", kind)]), {"a": value}
        else:
            kind, value = t.dictionary(t.int8(), t.list_(kind)), [value]
    assert build_array([value, value], kind).to_pylist() == [value, value]


# -- what lies in the buffers --------------------------------------------------------------------------------


def test_null_slots_and_padding_are_zero():
    noise = [build_array([b"\xff" * size] * 9, t.binary()) for size in (1, 50, 5000, 200_000)]
    del noise
    for kind, value in (
        (t.int64(), -1), (t.float64(), -math.nan), (t.decimal128(9, 2), -1), (t.binary(5), b"\xff" * 5),
        (t.string_view(), "ÿ" * 9), (t.string(), "ÿ"), (t.bool_(), True),
        (t.month_day_nano_interval(), (-1, -1, -1)), (t.list_(t.int8()), [-1]), (t.list_view(t.int8()), [-1]),
        (t.timestamp("s"), -1),
    ):  # fmt: skip
        built = build_array([value, None] * 5 + [None], kind)
        for array in (built, *built.children):
            for buffer in array.buffers():
                if buffer is None or len(buffer) == 0:
                    continue
                whole = -len(buffer) % 64
                assert ctypes.string_at(address(buffer) + len(buffer), whole) == bytes(whole)
                assert address(buffer) % 64 == 0
        assert bytes(built.buffers()[0]) == b"\x55\x01"
        slots = bytes(built.buffers()[1])
        if isinstance(kind, t.Bool):
            assert slots == b"\x55\x01"
        elif not isinstance(kind, (t.Utf8, t.List, t.ListView)):
            width = len(slots) // 11
            assert not any(any(slots[i * width : (i + 1) * width]) for i in (1, 3, 5, 7, 9, 10))


def test_children_that_are_not_nullable_hold_zeros_under_null_parents():
    inner = [
        field("i", t.int8(), nullable=False), field("s", t.string(), nullable=False),
        field("d", t.dictionary(t.int8(), t.string()), nullable=False),
        field("l", t.list_(field("item", t.int8(), nullable=False)), nullable=False),
        field("f", t.list_(field("item", t.bool_(), nullable=False), 2), nullable=False),
        field("u", t.dense_union([field("x", t.int8(), nullable=False)]), nullable=False),
        field("r", t.run_end_encoded(t.int16(), field("values", t.int8(), nullable=False)), nullable=False),
    ]  # fmt: skip
    kind = t.struct(inner)
    row = {"i": 1, "s": "x", "d": "y", "l": [1], "f": [True, False], "u": 3, "r": 4}
    for values in ([None, row, None], [None, None]):
        built = build_array(values, kind)
        assert built.to_pylist() == values
        assert all(child.null_count == 0 for child in built.children)
        seen_by_pyarrow(built)
    nulled = build_array([None, row], t.struct([field(f.name, f.type) for f in inner]))
    assert [child.null_count for child in nulled.children] == [1, 1, 1, 1, 1, 0, 0]
    with pytest.raises(UsageError, match=r"column 'l\.item', row 1: is null, and the field is not nullable"):
        build_array([row, {**row, "l": [0, None]}], kind)


@pytest.mark.parametrize("size", [0, 1, 12, 13, 500, 5000, 40_000])
def test_views_spread_over_several_data_buffers(size):
    values = ["é" * (size // 2) + "x" * (size % 2), None, "y" * size, b"z".decode() * size] * 40
    built = build_array(values, t.string_view())
    assert built.to_pylist() == values
    assert seen_by_pyarrow(built).equals(pa.array(values, pa.string_view()))
    assert (len(built.buffers()) == 2) == (size <= 12)


# -- batches -------------------------------------------------------------------------------------------------


def test_names_and_lengths_must_match():
    target = schema([("a", t.int8()), ("b", t.int8())])
    twice, big_endian = schema([("a", t.int8()), ("a", t.int8())]), target.__replace__(endianness="big")
    for mapping, kinds, words in (
        ({"a": []}, target, "missing columns: 'b'"),
        ({"a": [], "b": [], "c": []}, target, "columns that the schema does not have: 'c'"),
        ({"a": [], "B": []}, target, "missing columns: 'b'; columns that the schema does not have: 'B'"),
        ({"a": [1, 2], "b": [1]}, target, "'a' has 2 rows, 'b' has 1"),
        ({"a": [1, 2], "b": np.arange(3)}, target, "'a' has 2 rows, 'b' has 3"),
        ({"a": "xy", "b": []}, target, "column 'a': expected a sequence of values, found str 'xy'"),
        ([("a", [])], target, "expected a mapping"),
        ({"a": []}, twice, "names repeat: 'a'"),
        ({"a": [], "b": []}, big_endian, "little-endian"),
        ({}, 5, "schema: expected a Schema, or an object with __arrow_c_schema__, found int"),
    ):
        with pytest.raises(UsageError, match=words):
            build_batch(mapping, kinds)
    with pytest.raises(UsageError, match="expected a DataType or its name, found int 8"):
        build_array([], 8)


@pytest.mark.parametrize("name", CASES)
def test_arrays_of_ours_are_columns_that_share_memory(name):
    source = read_array(CASES[name])
    own = source.type.__replace__(dictionary_id=None) if isinstance(source.type, Dictionary) else source.type
    target = schema([field("x", own), field("y", t.list_(own))])
    part = source.slice(1, 2)
    y = [[None]] * len(part)
    batch = build_batch({"x": part, "y": y}, target)
    assert batch["x"] == part
    assert batch["y"].to_pylist() == y
    for mine, theirs in zip(batch["x"].buffers()[1:], source.buffers()[1:], strict=True):
        assert not len(mine) or address(mine) == address(theirs)
    assert read_batch(pa.record_batch(batch))["x"] == part


def test_arrays_must_be_of_the_type():
    source = read_array(pa.array([1, 2, None], pa.int32()))
    for given_array, kind in ((source, t.list_(t.int8())), (pa.array([2], "int32"), t.bool_())):
        with pytest.raises(UsageError, match=f"column 'x': expected an array of {kind}, found one of int32"):
            build_batch({"x": given_array}, schema([("x", kind)]))
    with pytest.raises(UsageError, match="column 'x', row 2: is null, and the field is not nullable"):
        build_batch({"x": source}, schema([field("x", t.int32(), nullable=False)]))
    batch = build_batch({"x": source.slice(0, 2)}, schema([field("x", t.int32(), nullable=False)]))
    assert batch["x"].buffers()[0] is None


PANDAS = {
    "text": pd.Index(["a", None]),
    "categorical": pd.Categorical(["u", None, "v", "u"]),
    "categories in order": pd.CategoricalIndex(["u", "v"], ordered=True),
    "zone": pd.DatetimeIndex(["2024-01-01", None], tz="Europe/Oslo"),
    "naive": pd.DatetimeIndex(["2024-01-01", None]),
    "timedelta": pd.TimedeltaIndex(["1s", None]),
    "range": pd.RangeIndex(3),
    "floats": pd.Index([1.5, None]),
    "Int64Array": pd.array([1, None], "Int64"),
    "BooleanArray": pd.array([True, None], "boolean"),
    "StringArray": pd.array(["a", None], "string"),
    "ArrowExtensionArray": pd.array([1, None], pd.ArrowDtype(pa.int8())),
    "IntervalArray": pd.arrays.IntervalArray.from_breaks([0, 1, 2]),
    "PeriodIndex": pd.period_range("2020", periods=2, freq="M"),
}


@pytest.mark.parametrize("name", PANDAS)
def test_indexes_and_arrays_of_pandas_are_what_pyarrow_makes_of_them(name):
    """They were taken for lists of objects: nulls, zones and categories were lost or refused."""
    expected = pa.array(PANDAS[name])
    assert pa.record_batch(build_batch({"x": PANDAS[name]})).equals(pa.record_batch({"x": expected}))
    assert build_array(PANDAS[name]).to_arrow().equals(expected)


def test_columns_of_pandas_become_another_type_value_by_value():
    types = schema({"x": t.int8(), "t": t.timestamp("ms"), "s": t.utf8()})
    moments = pd.DatetimeIndex(["2024-01-01", None])
    columns = {"x": pd.Series([1, None], dtype="Int64"), "t": moments, "s": pd.Categorical(["a", None])}
    batch = build_batch(columns, types)
    assert batch.to_pydict() == {"x": [1, None], "t": [dt.datetime(2024, 1, 1), None], "s": ["a", None]}
    with pytest.raises(UsageError, match="column 'x', row 0: expected an integer from -128 to 127"):
        build_batch(columns | {"x": pd.Series([1000, 1])}, types)


def test_columns_of_pandas_that_pyarrow_does_not_know():
    assert build_array(pd.arrays.SparseArray([0, 1])).to_pylist() == [0, 1]
    assert build_array(pd.MultiIndex.from_tuples([(1, 2), (3, 4)])).to_pylist() == [[1, 2], [3, 4]]
    with pytest.raises(UsageError, match="column 'x': values like object have no Arrow type"):
        build_batch({"x": pd.Index([object()])})


def test_rows_become_columns():
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3}]
    batch = ipc.RecordBatch.from_pylist(rows)
    assert pa.record_batch(batch).equals(pa.RecordBatch.from_pylist(rows))
    assert ipc.Table.from_pylist(rows).batches == [batch]
    assert ipc.RecordBatch.from_pylist(batch.to_pylist()) == batch
    typed = schema({"b": t.large_utf8(), "c": t.int8(), "a": t.float32()})
    assert ipc.RecordBatch.from_pylist(rows, typed).to_pylist()[0] == {"b": "x", "c": None, "a": 1.0}
    assert [ipc.RecordBatch.from_pylist([{}, {}]).num_rows, ipc.Table.from_pylist([]).num_columns] == [2, 0]
    assert ipc.RecordBatch.from_pylist([], typed).schema == typed


def test_no_value_of_a_row_is_lost():
    """pyarrow leaves out what the first row does not have."""
    with pytest.raises(UsageError, match="row 1: the first row has no 'b'"):
        ipc.RecordBatch.from_pylist([{"a": 1}, {"a": 2, "b": 3}])
    with pytest.raises(UsageError, match="row 0: the schema has no 'a'"):
        ipc.Table.from_pylist([{"a": 1}], schema({"b": t.int8()}))
    for wrong in (5, [1], [{"a": 1}, None], {"a": [1]}, "ab", None):
        with pytest.raises(UsageError, match="rows: expected a list of dicts"):
            ipc.RecordBatch.from_pylist(wrong)


# -- what is wrong, and where --------------------------------------------------------------------------------

PARTS = [("a", t.int8()), ("b", t.string())]
INNER = t.struct([("b", t.int8())])
WRONG = [
    (t.int8(), [1, 128], r"row 1: expected an integer from -128 to 127, found int 128"),
    (t.uint64(), [2**64], "row 0: expected an integer from 0 to 18446744073709551615"),
    (t.int64(), [1.5], "expected an integer .*, found float 1.5"),
    (t.int64(), [True], "expected an integer .*, found bool True"),
    (t.float64(), [0.5, "x"], "row 1: expected a float, found str 'x'"),
    (t.float64(), [2**53 + 1], r"expected a float, .*digits would be lost"),
    (t.float32(), [1e300], r"outside the range"),
    (t.float16(), [2049], r"digits would be lost"),
    (t.bool_(), [1], "expected True or False, found int 1"),
    (t.null(), [None, 0], "row 1: expected None"),
    (t.string(), ["a", b"b"], "row 1: expected a str, found bytes b'b'"),
    (t.string(), ["a", "\ud800"], "row 1: expected text that UTF-8 can hold"),
    (t.binary(), ["a"], "row 0: expected bytes, found str 'a'"),
    (t.binary(3), [b"abc", b"ab"], r"row 1: expected exactly 3 bytes, found bytes b'ab'"),
    (t.date32(), [dt.datetime(2024, 1, 1, 1)], "dates are whole days"),
    (t.date32(), ["2024-01-01"], "expected a date or an int of days since 1970-01-01"),
    (t.time32("s"), [dt.time(0, 0, 0, 1)], "finer than the unit"),
    (t.time64("us"), [dt.time(0, tzinfo=UTC)], "have no timezone"),
    (t.timestamp("ms"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1)], "finer than the unit"),
    (t.timestamp("ms"), [dt.datetime(2024, 1, 1, tzinfo=UTC)], "the type has no timezone"),
    (t.timestamp("ns"), [dt.datetime(9999, 1, 1)], "outside the range"),
    (t.timestamp("us"), [2**63], "expected a datetime or an int of microseconds since 1970-01-01"),
    (t.duration("s"), [dt.timedelta(microseconds=1)], "finer than the unit"),
    (t.duration("ns"), [dt.timedelta.max], "outside the range"),
    (t.interval_year_month(), [2**31], "expected an int of months"),
    (t.interval_day_time(), [(1, 2, 3)], r"expected \(days, milliseconds\)"),
    (t.list_(t.int8()), [[1], None, [2, 3, "x"]], r"'item', row 2: expected an int"),
    (t.list_(t.int8()), ["ab"], "row 0: expected a list, found str 'ab'"),
    (t.list_(t.int8(), 2), [[1, 2], [1]], r"row 1: expected a list of 2, found list \[1\] \(it has 1\)"),
    *((kind, [b"abcd", value], "row 1: expected .*bytes, found") for kind in (t.binary(), t.binary_view(), t.binary(4))
      for value in (np.str_("a"), np.float32(1), np.bool_(1), np.datetime64("NaT"), np.array(["2020"], "M8[D]"),
                    np.array([1], "i4"), c_arrays.array("i", [1]))),
    (t.struct([("a", t.int8())]), [{"a": 1}, {"b": 1}], "row 1: the struct has no field 'b'; its"),
    (t.struct([("a", t.int8())]), [5], "row 0: expected a dict, found int 5"),
    (t.struct([("a", t.int8()), ("b", t.int8())]), [(1,)], "row 0: .*a tuple of a value for each field"),
    (t.struct([("a", t.list_(INNER))]), [{}, {"a": [{}, {"b": "x"}]}], r"'a\.item\.b', row 1"),
    (t.map_(t.string(), t.int8()), [[("k", 1)], {None: 2}], r"column 'entries\.key', row 1: is null"),
    (t.map_(t.string(), t.int8()), [[("k", 1)], [], {"l": 300}], r"'entries\.value', row 2: expected an int"),
    (t.map_(t.string(), t.int8()), [[("k", 1, 2)]], r"row 0: expected \(key, value\) pairs"),
    (t.dense_union(PARTS), ["x", 1, "y", 300], r"'a', row 3: expected an int"),
    (t.run_end_encoded(t.int16(), t.int8()), [1, 1, 1, "x"], r"'values', row 3: expected an int"),
    (t.run_end_encoded(t.int16(), t.int8()), range(2**15), "row 32767: 32,768 rows are more than"),
    (t.dictionary(t.int8(), t.int32()), range(200), r"row 128: this is distinct value 129 of the dictionary"),
    (t.dictionary(t.int8(), t.list_(t.int8())), [[1], [1, 300]], r"'item', row 1: expected an int"),
    (t.list_(t.dictionary(t.int8(), INNER)), [[], [{"b": 1}, {"b": ""}]], r"'item\.b', row 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "words"), WRONG, ids=[f"{kind}-{i}" for i, (kind, _, _) in enumerate(WRONG)]
)
def test_what_does_not_fit_names_column_and_row(kind, values, words):
    with pytest.raises(UsageError, match=words):
        build_array(values, kind)
    with pytest.raises(UsageError, match=r"column 'x[^']*', row \d+: "):
        build_batch({"x": values}, schema([("x", kind)]))


@pytest.mark.parametrize("name", CASES)
def test_null_where_none_may_be(name):
    source = read_array(CASES[name])
    target = schema([field("x", source.type, nullable=False)])
    good = [value for value in tagged(source.slice(0, 1)) if value is not None]
    with pytest.raises(UsageError, match=rf"column 'x', row {len(good)}: is null, and the field is not nullable"):
        build_batch({"x": [*good, None]}, target)


def test_messages_stay_short_and_whole():
    class Odd:
        def __repr__(self):
            raise RuntimeError("no")

    for value in (Odd(), 10**9000, "x" * 10**6, [1] * 10**6):
        with pytest.raises(UsageError, match="row 0: expected an integer") as caught:
            build_array([value], t.int8())
        assert len(str(caught.value)) < 250


def test_a_list_that_changes_while_it_is_read_is_refused():
    class Shrinks:
        def __init__(self, items):
            self.items = items

        def __index__(self):
            self.items.clear()
            return 1

        def __len__(self):
            return 1

        def __iter__(self):
            self.items.clear()
            return iter([1])

    for kind in (
        t.int64(), t.uint8(), t.float64(), t.decimal128(9, 2), t.list_(t.int8()),
        t.run_end_encoded(t.int16(), t.int8()), t.dictionary(t.int8(), t.int8()), t.timestamp("s"),
        t.dense_union([("a", t.list_(t.int8()))]),
    ):  # fmt: skip
        items = [None] * 1000
        items[3] = (0, Shrinks(items)) if "union" in str(kind) else Shrinks(items)
        if "union" in str(kind) or FREE_THREADED:  # without a GIL, a copy is read
            assert len(build_array(items, kind)) == 1000
        else:
            with pytest.raises(UsageError, match="changed to 0 while it was being read"):
                build_array(items, kind)


@pytest.mark.slow
@pytest.mark.nosanitize
def test_more_text_than_32_bits_count():
    with pytest.raises(UsageError, match=r"row 7: the values add up to 2,147,483,648 bytes here.*; use large_"):
        build_array(["x" * 2**28] * 8, t.string())


def test_dictionaries_of_other_batches_stay_apart():
    """Each array of pyarrow counts its dictionaries from 0; in one batch that is not the same dictionary."""
    small = pa.dictionary(pa.int8(), pa.string())
    a, b = (pa.array([f"{name}{i}" for i in range(100)]).dictionary_encode().cast(small) for name in "ab")
    nested = pa.StructArray.from_arrays([b, a], ["x", "y"])
    first, both, three = ({name: {"a": a, "n": nested, "b": b}[name] for name in names} for names in ("a", "ab", "anb"))
    for made, columns in (
        (ipc.record_batch(both), both),
        (ipc.record_batch(first).append_column("b", b), both),
        (ipc.table(first).add_column(1, "b", b), both),
        (ipc.table(both), both),
        (ipc.record_batch(three), three),
    ):
        assert ipc.table(made) == ipc.table(pa.record_batch(columns))
        assert pa.ipc.open_stream(ipc_bytes(made)).read_all().to_pydict() == pa.table(columns).to_pydict()
    # Columns of one batch that share a dictionary go on sharing it.
    column = ipc.record_batch(both)["a"]
    again = ipc.record_batch([column, column], names=["x", "y"])
    assert again.schema[0].type == again.schema[1].type
