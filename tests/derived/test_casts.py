"""Casts give what pyarrow's safe casts give, or an error that says what to do."""

import datetime as dt
import math
import random
from contextlib import nullcontext, suppress
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from helpers.processes import printed, run_function

import arrowipc as ipc

NOON = dt.datetime(2024, 1, 1, 12)
#: Some values of each type; each is cast to all others.
CASTS = {
    pa.int8(): [1, None, -128],
    pa.int64(): [0, None, 2**20],
    pa.uint64(): [2**64 - 1, 7],
    pa.float32(): [1.0, None, -2.0],
    pa.float64(): [0.5, 3.0],
    pa.bool_(): [True, None],
    pa.string(): ["a", None, "ü"],
    pa.large_string(): ["", "b"],
    pa.string_view(): ["a", None, "ü" * 9],
    pa.binary(): [b"a", None],
    pa.large_binary(): [b"\xff"],
    pa.binary(1): [b"a", b"b"],
    pa.date32(): [dt.date(2024, 1, 1), None],
    pa.date64(): [dt.date(1969, 1, 1)],
    pa.time32("s"): [dt.time(1, 2, 3), None],
    pa.time64("us"): [dt.time(1, 2, 3, 4)],
    pa.time64("ns"): [1000, None, 1001],
    pa.timestamp("s"): [NOON, None],
    pa.timestamp("ms"): [NOON, None],
    pa.timestamp("us"): [NOON + dt.timedelta(microseconds=1)],
    pa.timestamp("ns"): [1_000, None, -5_000],
    pa.timestamp("ns", "UTC"): [10**6],
    pa.timestamp("ms", "Europe/Paris"): [NOON],
    pa.duration("s"): [dt.timedelta(days=1)],
    pa.duration("us"): [dt.timedelta(days=1)],
    pa.duration("ns"): [1500, None],
    pa.list_(pa.int8()): [[1, None], None],
    pa.large_list(pa.int64()): [[], [3]],
    pa.list_(pa.timestamp("ns")): [[1]],
    pa.list_(pa.timestamp("us")): [[1]],
    pa.dictionary(pa.int8(), pa.string()): ["a", None, "a"],
}
REFUSED = r"to_arrow\(\)\.cast\(\)|no whole|expected (UTF-8|a number|a whole number|'true')"
TIMES = ("date", "time", "duration")
TEXT = ("string", "large_string", "dictionary")


def is_left_to_pyarrow(source, target):
    """Whether only pyarrow has a cast: floats and times as text, parts of moments, other zones, numbers as booleans."""
    source, target = str(source), str(target)
    if target.startswith(TEXT):
        return source.startswith((*TIMES, "float", "double"))
    if source.startswith(TIMES) and target.startswith(TIMES):
        becomes_part = source.startswith("timestamp") and not target.startswith("timestamp")
        return becomes_part or (", tz=" in source) != (", tz=" in target)
    return source != target and (target == "bool" or "<item: timestamp" in source + target)


def cast_by_pyarrow(array, target):
    """None if a value does not fit, or pyarrow has no such cast; from and to dictionaries it casts in two steps."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        return None
    except pa.ArrowNotImplementedError:
        if not any(map(pa.types.is_dictionary, (array.type, target))):
            return None
    with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array(array.cast("string").to_pylist(), target)


@pytest.mark.parametrize("source", CASTS, ids=str)
def test_casts_are_those_of_pyarrow(source):
    theirs = pa.array([None, *CASTS[source]], source)[1:]
    for target in CASTS:
        expected = None if is_left_to_pyarrow(source, target) else cast_by_pyarrow(theirs, target)
        if expected is None:
            with pytest.raises((ipc.UsageError, ipc.UnsupportedError), match=REFUSED):
                ipc.array(theirs).cast(target)
        else:
            ours = ipc.array(theirs).cast(target)
            assert ours.type == target
            assert ours == ipc.array(expected)


#: Numbers around what types can hold, and the types of width and kind that have an edge there.
EDGES = [0, -1, 127, 128, 2**11 + 1, 2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
EDGES += [0.5, -0.0, math.nan, -math.inf, 65504.0, 65520.0, 3.5e38, 2.0**63, -(2.0**63), 2.0**64]
WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64"]


def as_number(value, name):
    """What a type of numbers holds in place of a number; None if it does not hold it."""
    if "float" not in name:
        whole = math.isfinite(value) and value == int(value)
        return int(value) if whole and np.iinfo(name).min <= value <= np.iinfo(name).max else None
    with np.errstate(over="ignore"):
        held = np.dtype(name).type(value).item()
    lost = held != value if isinstance(value, int) else math.isinf(held) and not math.isinf(value)
    return None if lost else held


@pytest.mark.parametrize("source", WIDTHS)
def test_numbers_are_cast_where_all_of_them_fit(source):
    held = [number for each in EDGES if (number := as_number(each, source)) is not None]
    for target in WIDTHS:
        fitting = [number for number in held if as_number(number, target) is not None]
        expected = [as_number(number, target) for number in fitting] + [None]
        array = ipc.array([1, *fitting, None], source)[1:]
        assert repr(array.cast(target).to_pylist()) == repr(expected), target
        assert repr(ipc.array(np.array(fitting, source), target).to_pylist()) == repr(expected[:-1]), target
        for number in set(held) - set(fitting):
            with pytest.raises(ipc.UsageError, match="row 2: expected"):
                ipc.array([0, None, number], source).cast(target)
            with pytest.raises(ipc.UsageError, match=r"cannot become .* without loss|row 1: \d+ is an integer that"):
                ipc.array(np.array([0, number], source), target)


@pytest.mark.parametrize(
    ("source", "target", "wrong"),
    [
        ("float64", "float32", 3.5e38),
        ("float64", "float16", 65520.0),
        ("float32", "float16", -65520.0),
        ("float64", "int32", 0.5),
        ("float64", "int64", math.nan),
        ("int64", "float64", 2**53 + 1),
        ("int64", "int8", 128),
    ],
)
def test_a_number_that_does_not_fit_is_found_in_every_row_but_not_under_a_null(source, target, wrong):
    with np.errstate(all="raise"):  # somebody else's settings change nothing
        for rows in (1, 7, 33):
            for row in range(rows):
                values = np.full(rows, -math.inf if "float" in target and source != "int64" else 5, source)
                values[row] = wrong
                with pytest.raises(ipc.UsageError, match=f"row {row}: "):
                    ipc.Array.from_buffers(source, rows, [None, values]).cast(target)
                valid = np.packbits(np.arange(rows) != row, bitorder="little")
                array = ipc.Array.from_buffers(source, rows, [valid, values])
                expected = [None if i == row else value for i, value in enumerate(values.tolist())]
                assert array.cast(target).to_pylist() == expected


#: Texts at the edges of what is a number, for each kind of target.
TEXTS = (
    "0 -0 7 +7 -7 --7 007 1_0 १ 1. .5 . -.5 1.5 1e2 1E+2 1e 1e-400 1e400 nan -NaN inf -Infinity infinit 1f true TRUE"
)
TEXTS += " 255 256 9007199254740993 0.1 123456789.123456789 1e22 1e23 9007199254740993e-22 0.000000000000000000000001"
TEXTS += " 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 False"
TEXTS += " 18446744073709551616 0000000000000000000000000000000000042 " + "9" * 20 + " 17976931348623158e292"


@pytest.mark.parametrize("target", ["int8", "uint8", "int64", "uint64", "double", "bool"])
@pytest.mark.parametrize("source", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_is_cast_to_the_numbers_that_pyarrow_reads(source, target):
    chance = random.Random(5)
    count = 100 if source == pa.string() else 20  # what is in a text is read alike, wherever it lies
    made = ["".join(chance.choices("0123456789.-e", k=chance.choice((1, 2, 5, 18, 19, 20, 25)))) for _ in range(count)]
    texts = [*TEXTS.split(), "", " 1", "1 ", "1\0", *made, *(repr(chance.uniform(-1, 1)) for _ in range(100))]
    good = []
    for text in texts:
        try:
            expected = pa.array([text], source).cast(target)
        except pa.ArrowInvalid:
            with pytest.raises(ipc.UsageError, match="row 2: expected"):
                ipc.array([None, None, text], source).cast(target)
        else:
            assert repr(ipc.array([text], source).cast(target).to_pylist()) == repr(expected.to_pylist()), text
            good.append(text)
    column = pa.array([*good, None, *good], source)
    for start in (1, 8, 11):
        ours, theirs = ipc.array(column)[start:].cast(target), column[start:].cast(target)
        assert repr(ours.to_pylist()) == repr(theirs.to_pylist())
        assert ours.null_count == theirs.null_count


def test_numbers_and_bytes_are_cast_to_text_and_numbers_to_booleans():
    amounts = [Decimal("1.50"), None, Decimal("-100.00")]
    for values, kind in [(amounts, pa.decimal128(9, 2)), ([Decimal(1200), None], pa.decimal128(9, -2))]:
        assert ipc.array(values, kind).cast("string").to_arrow() == pa.array(values, kind).cast("string")
    for values, kind in [([0.0, None, 1.0, -0.0], "double"), ([0, 1, None], "uint8")]:
        assert ipc.array(values, kind).cast("bool").to_arrow() == pa.array(values, kind).cast("bool")
    for kind in ("string", "large_string", "string_view"):
        assert ipc.array([b"7", None], "large_binary").cast(kind).to_pylist() == ["7", None]
    with pytest.raises(ipc.UsageError, match=r"row 1: expected .*found int 2"):
        ipc.array([1, 2], "int8").cast("bool")


@pytest.mark.parametrize(("small", "large", "times"), [("ms", "s", 1000), ("ns", "us", 1000), ("us", "s", 10**6)])
def test_times_are_cast_where_all_of_them_are_whole_and_fit(small, large, times):
    most = (2**63 - 1) // times
    for make in (ipc.types.timestamp, ipc.types.duration):
        counts = ipc.array([5, None, most, -most], "int64")[1:]
        scaled = counts.cast(make(large)).cast(make(small))
        assert scaled.cast("int64").to_pylist() == [None, times * most, -times * most]
        assert scaled.cast(make(large)).cast("int64").to_pylist() == [None, most, -most]
        with pytest.raises(ipc.UsageError, match=r"row 1: .* no whole"):
            ipc.array([0, times + 1], "int64").cast(make(small)).cast(make(large))
        with pytest.raises(ipc.UsageError, match="row 0"):
            ipc.array([most + 1], "int64").cast(make(large)).cast(make(small))


def test_moments_of_whole_days_become_dates():
    days = pa.array([86_400, None, -86_400], pa.timestamp("s"))
    for kind in (pa.date32(), pa.date64()):
        assert ipc.array(days).cast(kind).to_arrow() == days.cast(kind)


@pytest.mark.parametrize(
    ("source", "target"), [("double", "int32"), (pa.timestamp("ns"), pa.timestamp("us"))], ids=["numbers", "times"]
)
def test_every_row_of_a_long_column_is_cast_or_refused(source, target):
    rows = 600_000  # more than are converted at a time, and no multiple of that
    values = np.arange(rows) * 1000
    null = np.arange(rows) % 7 == 3
    array = pa.array(values.astype("f8") if source == "double" else values, source, mask=null)
    assert ipc.array(array).cast(target).to_arrow() == array.cast(target)
    wrong = values + (np.arange(rows) == rows - 1) * (0.5 if source == "double" else 1)
    with pytest.raises(ipc.UsageError, match=f"row {rows - 1:,}|row {rows - 1}"):
        ipc.array(pa.array(wrong, source, mask=null)).cast(target)


def test_a_column_that_has_the_type_already_is_returned_as_it_is():
    array = ipc.array([1, None])
    assert array.cast("int64") is array


def test_a_schema_takes_arrays_of_other_types_where_nothing_is_lost():
    schema = ipc.schema([("x", "int8"), ("t", ipc.types.timestamp("ms"))])
    columns = {"x": pa.array([1, None]), "t": pa.array([1, 2], pa.timestamp("s"))}
    assert ipc.table(columns, schema=schema) == pa.table(columns).cast(pa.schema(schema))
    with pytest.raises(ipc.UsageError, match=r"column 'x'.*expected an array of int8.*row 0.*found int 1000"):
        ipc.table({**columns, "x": pa.array([1000, 1])}, schema=schema)


DECIMALS = [
    *(ipc.types.decimal128(precision, scale) for precision, scale in [(3, 0), (20, 2), (38, 6), (5, -2)]),
    *(ipc.types.decimal32(7, 2), ipc.types.decimal64(18, 3), ipc.types.decimal256(60, 4), ipc.types.decimal256(4, 1)),
]
#: Of both signs; some have more than 64 bits where they are stored, or as the target stores them.
AMOUNTS = "0 1 0.5 0.01 0.005 100 999 1000 12345 99999.99 92233720368547758.07 9e15 1e30"


@pytest.mark.parametrize("target", [*DECIMALS, ipc.types.int8(), ipc.types.uint64(), ipc.types.int64()], ids=str)
@pytest.mark.parametrize("source", [*DECIMALS, ipc.types.int16(), ipc.types.int64(), ipc.types.uint64()], ids=str)
def test_decimals_and_integers_are_cast_exactly_or_not_at_all(source, target):
    amounts = [number for each in AMOUNTS.split() for number in (Decimal(each), -Decimal(each))]
    held = [number for number in amounts if holds(source, number)]
    fitting = [number for number in held if holds(target, number)]
    array = ipc.array([*map(as_stored(source), held[:1] + fitting), None], source)[1:]
    assert array.cast(target).to_pylist() == [*fitting, None]
    assert array[:0].cast(target).to_pylist() == []
    for number in set(held) - set(fitting):
        with pytest.raises(ipc.UsageError, match="row 2: expected"):
            ipc.array([0, None, as_stored(source)(number)], source).cast(target)


@pytest.mark.parametrize("target", ["large_string", "string", "binary", "large_binary"])
def test_bytes_behind_the_offsets_of_texts_are_no_offsets(target):
    offsets = b"".join(end.to_bytes(4, "little") for end in (0, 1, 3, 6)) + b"\xff\xff"
    for array in (ipc.Array.from_buffers("string", 3, [None, offsets, b"abbccc"]), ipc.array(["", "a"])):
        for part in (array, array[1:], array[:0]):
            assert part.cast(target).cast("string") == part


def test_offsets_that_the_other_type_does_not_hold_are_not_cut_off():
    data = np.zeros(2**31 + 4, np.uint8)  # of which only the last page is ever read
    offsets = np.array([0, 2**31 + 1, 2**31 + 4], "<i8")
    source = ipc.Array.from_buffers("large_binary", 2, [None, offsets, data])
    assert source.slice(1).cast("binary").to_pylist() == [b"\0\0\0"]


def cast_extreme_scales():
    for scale in (2**31 - 1, -(2**31), 10**6, -(10**6)):
        source = ipc.types.decimal128(5, scale)
        numbers = b"".join(number.to_bytes(16, "little") for number in (0, 7))
        for target in (*DECIMALS, source, ipc.types.int64(), ipc.types.string()):
            (zero,) = ipc.Array.from_buffers(source, 1, [None, numbers]).cast(target).to_pylist()
            assert zero in (0, f"0E{-scale:+d}")
            array = ipc.Array.from_buffers(source, 2, [None, numbers])
            if isinstance(target, ipc.types.Int) or target in DECIMALS:
                with pytest.raises(ipc.UsageError, match="row 1: expected"):
                    array.cast(target)
            else:
                assert len(array.cast(target)) == 2
        with pytest.raises(ipc.UsageError, match="row 0: expected a float"):
            array.cast("float64")


def test_decimals_of_any_scale_are_cast_or_refused_at_once():
    """A power of ten of so many digits would be computed for hours."""
    printed(run_function(cast_extreme_scales, timeout=60))


def holds(kind, number):
    """Whether a type has a number with all its digits."""
    if isinstance(kind, ipc.types.Decimal):
        unscaled = number.scaleb(kind.scale)
        return unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**kind.precision
    low = -(2 ** (kind.bit_width - 1)) if kind.signed else 0
    return number == int(number) and low <= number < low + 2**kind.bit_width


def as_stored(kind):
    return (lambda number: number) if isinstance(kind, ipc.types.Decimal) else int


def test_texts_that_only_python_takes_for_decimals_are_refused():
    for text in ("1_0", " 2 ", "\u0663", "nan"):
        with pytest.raises(ipc.UsageError, match="row 1: expected a number"):
            ipc.array(["1", text]).cast(ipc.decimal128(5, 1))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_dictionary_of_another_type_keeps_its_values_and_their_order(ordered):
    source = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 1, 2], pa.int8()), ["x", "b", "a"], ordered=ordered)
    target = pa.dictionary(pa.uint16(), pa.large_string(), ordered)
    for theirs in (source, source[1:4], source[:0]):
        found = ipc.array(theirs).cast(target)
        assert found.dictionary.to_pylist() == ["x", "b", "a"]
        assert found.to_arrow() == theirs.cast(target)
    for theirs in (source[1:], pa.chunked_array([source[1:], source[1:]])):
        for distinct in (ipc.chunked_array(theirs).unique(), ipc.chunked_array(theirs).value_counts().children[0]):
            assert distinct.to_pylist() == ["a", None, "b"]
            assert distinct.dictionary.to_pylist() == (["x", "b", "a"] if ordered else ["a", "b"])


def test_indices_too_small_for_a_dictionary_are_refused_if_its_order_counts():
    numbers = pa.array([299, 0], pa.int16())
    for ordered in (True, False):
        source = ipc.array(pa.DictionaryArray.from_arrays(numbers, list(range(300)), ordered=ordered))
        with pytest.raises(ipc.UsageError, match="its indices count 128 values, not 300") if ordered else nullcontext():
            found = source.cast(pa.dictionary(pa.int8(), pa.int64(), ordered))
            assert found.dictionary.to_pylist() == found.to_pylist() == [299, 0]


def test_a_cast_keeps_the_batches_of_a_table_and_the_columns_that_stay():
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 3, pa.binary(16)))
    table = ipc.table(pa.table({"x": pa.chunked_array([[1, 2], [], [3]]), "u": uuids}))
    for kind in (pa.int8(), pa.dictionary(pa.int8(), pa.int64())):
        found = table.cast({"x": kind})
        assert list(map(len, found.batches)) == [2, 0, 1]
        assert found.to_pydict() == table.to_pydict()
        stored = [np.frombuffer(each["u"].chunk(2).buffers()[1], np.uint8) for each in (found, table)]
        assert np.shares_memory(*stored)
        empty = ipc.Table(table.schema).cast({"x": kind})
        assert (empty.schema, empty.batches) == (found.schema, [])
    assert [each["x"].dictionary.to_pylist() for each in found.batches] == [[1, 2, 3]] * 3


def test_dictionaries_below_are_cast_unless_their_order_would_be_lost():
    kinds = [pa.dictionary(pa.int8(), pa.string(), ordered) for ordered in (False, True)]
    for kind in kinds:
        words = pa.DictionaryArray.from_arrays(
            pa.array([2, 0], pa.int8()), ["low", "mid", "high"], ordered=kind.ordered
        )
        source = ipc.array(pa.ListArray.from_arrays([0, 2], words))
        assert source.cast(pa.list_(kind)).children[0].dictionary.to_pylist() == ["low", "mid", "high"]
        for target in (pa.string(), kinds[0]):
            assert source.cast(pa.large_list(target)).to_pylist() == [["high", "low"]]
        with pytest.raises(ipc.UsageError, match="is not cast to") if kind.ordered else nullcontext():
            source.cast(pa.large_list(kinds[1]))


def test_lists_of_times_that_python_lacks_are_cast_and_flattened():
    views = ipc.array(pa.array([[1, None], None, [2]], pa.list_view(pa.timestamp("ns"))))
    assert views.flatten().to_arrow() == pa.array([1, None, 2], pa.timestamp("ns"))
    for target in (pa.large_list(pa.timestamp("ns")), pa.list_(pa.timestamp("ns"))):
        assert views.cast(target).to_arrow() == pa.array([[1, None], None, [2]], target)
