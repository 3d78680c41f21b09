"""Python values of arrays: pyarrow's where both mean the same, and none from broken contents."""

from __future__ import annotations

import datetime as dt
import gc
import math
import zoneinfo
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from columns.broken import BROKEN
from helpers import forge
from helpers.arrays import CASES, read_array, read_batch
from helpers.forge import Table, batch, bits, dictionary, encoding, field, i32, i64, schema, stream, view

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UsageError

ITEM = field("item", forge.INT32)
RUNS = field("run_ends", forge.INT32, nullable=False)
SPARSE, DENSE = Table("Union", mode=0, typeIds=[3, 9]), Table("Union", mode=1, typeIds=[3, 9])


def unchecked(data: bytes, index: int = 0) -> ipc.Array:
    """The last batch's column of a stream whose contents nobody has looked at."""
    *_, last = ipc.open_stream(data, validate="none")
    return last.column(index)


def of(kind: Table, *children: Table, **options: object) -> Table:
    return schema(field("x", kind, *children, **options))


# -- sound data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_every_slice_has_the_values_of_its_rows(name):
    expected = CASES[name].to_pylist()
    batch_ = read_batch(pa.record_batch([CASES[name]], names=["x"]))
    array, length = batch_.column(0), len(expected)
    assert list(map(type, array.to_pylist())) == list(map(type, expected))
    for start in range(length + 1):
        for stop in range(start, length + 1):
            assert array.slice(start, stop - start).to_pylist() == expected[start:stop]
            assert batch_.slice(start, stop - start).column(0).to_pylist() == expected[start:stop]
    assert [array[i] for i in range(-length, length)] == expected * 2
    assert list(array) == expected


@pytest.mark.parametrize("name", CASES)
def test_values_inside_lists_and_structs(name):
    inner = CASES[name]
    count = len(inner)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, count], pa.int32()), inner)
    assert read_array(lists).slice(1).to_pylist() == lists.slice(1).to_pylist()
    structs = pa.StructArray.from_arrays([inner, inner], ["a", "b"])
    assert read_array(structs).slice(1).to_pylist() == structs.slice(1).to_pylist()


def test_long_columns_cross_every_word():
    count = 3000
    values = [None if i % 7 == 0 else i for i in range(count)]
    array = read_array(pa.array(values))
    assert array.to_pylist() == values
    assert list(array.slice(5, 2100)) == values[5:2105]
    assert array.slice(63, 130).null_count == sum(v is None for v in values[63:193])


def test_special_floats():
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        found = read_array(pa.array([math.nan, -0.0, -math.inf, 1 / 3], kind)).to_pylist()
        expected = pa.array([math.nan, -0.0, -math.inf, 1 / 3], kind).to_pylist()
        assert math.isnan(found[0])
        assert math.copysign(1, found[1]) == -1
        assert found[2:] == expected[2:]


def test_what_python_cannot_hold_stays_a_number():
    huge = [2**62, -(2**62), 2**63 - 1, -(2**63), None]
    for kind in (
        pa.timestamp("s"),
        pa.timestamp("us"),
        pa.timestamp("ms", "Europe/Berlin"),
        pa.duration("s"),
    ):
        assert read_array(pa.array(huge, pa.int64()).view(kind)).to_pylist() == huge
    assert read_array(pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())).to_pylist() == [
        2**31 - 1,
        -(2**31),
    ]
    late = pa.array([86400, -1, 86399], pa.int32()).view(pa.time32("s"))
    assert read_array(late).to_pylist() == [86400, -1, dt.time(23, 59, 59)]


def test_the_first_and_the_last_moment():
    for unit, ticks in (("s", 1), ("ms", 1000), ("us", 10**6)):
        first, last = -62135596800 * ticks, 253402300800 * ticks - 1
        found = read_array(pa.array([first - 1, first, last, last + 1]).view(pa.timestamp(unit))).to_pylist()
        assert found[0] == first - 1
        assert found[1] == dt.datetime.min
        assert found[2].replace(microsecond=0) == dt.datetime(9999, 12, 31, 23, 59, 59)
        assert found[3] == last + 1
        # In this zone the first moment would lie in the year 0.
        assert read_array(pa.array([first]).view(pa.timestamp(unit, "America/New_York"))).to_pylist() == [first]
    assert read_array(pa.array([-719163, -719162, 2932896, 2932897], pa.int32()).view(pa.date32())).to_pylist() == [
        -719163,
        dt.date.min,
        dt.date.max,
        2932897,
    ]
    days = 999999999 * 86400
    found = read_array(pa.array([-days - 1, -days, days + 86399, days + 86400]).view(pa.duration("s"))).to_pylist()
    assert found == [-days - 1, dt.timedelta.min, dt.timedelta(days=999999999, seconds=86399), days + 86400]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", dt.UTC),
        ("Z", dt.UTC),
        ("+00:30", dt.timezone(dt.timedelta(minutes=30))),
        ("-0830", dt.timezone(-dt.timedelta(hours=8, minutes=30))),
        ("Asia/Kathmandu", zoneinfo.ZoneInfo("Asia/Kathmandu")),
    ],
)
def test_timezones(zone, expected):
    data = stream(of(Table("Timestamp", unit=0, timezone=zone)), batch(1, [(1, 0)], [b"", i64(1_700_000_000)]))
    ((found,),) = [b.columns for b in ipc.open_stream(data)]
    (moment,) = found.to_pylist()
    assert moment == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert moment.tzinfo == expected


@pytest.mark.parametrize(
    "zone", ["+24:00", "Mars/Olympus", "America", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 1000, "Grün"]
)
def test_in_a_zone_that_nobody_knows_times_are_the_stored_numbers(zone):
    """They became datetimes in UTC without a word."""
    data = stream(of(Table("Timestamp", unit=0, timezone=zone)), batch(1, [(1, 0)], [b"", i64(1_700_000_000)]))
    (found,) = ipc.open_stream(data)
    assert found.column(0).to_pylist() == [1_700_000_000]
    again = ipc.RecordBatch.from_pydict(found.to_pydict(), found.schema)
    assert again == found
    assert found.column(0).to_numpy()[0] == np.datetime64(1_700_000_000, "s")


def test_both_sides_of_a_clock_change():
    zone = "Europe/Berlin"
    array = pa.array([1698537600, 1698540000, 1698541200, 1698544800]).view(pa.timestamp("s", zone))
    assert [(v.hour, v.fold) for v in read_array(array).to_pylist()] == [(2, 0), (2, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize("scale", [0, 1, -1, 76, 1000, 2**31 - 1, -(2**31)])
def test_decimals_are_exact_at_any_scale(scale):
    kind = Table("Decimal", precision=76, scale=scale, bitWidth=256)
    numbers = [10**76 - 1, -(10**76) + 1, 0, 7, 2**255 - 1, -(2**255)]
    body = b"".join(n.to_bytes(32, "little", signed=True) for n in numbers)
    array = unchecked(stream(of(kind), batch(len(numbers), [(len(numbers), 0)], [b"", body])))
    assert [(v.as_tuple().exponent, int("".join(map(str, v.as_tuple().digits)))) for v in array.to_pylist()] == [
        (-scale, abs(n)) for n in numbers
    ]
    assert [v.is_signed() for v in array.to_pylist()] == [n < 0 for n in numbers]


def test_decimals_do_not_depend_on_the_context():
    import decimal

    array = read_array(pa.array([Decimal("12345678901234567890.12")], pa.decimal128(38, 2)))
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        assert array.to_pylist() == [Decimal("12345678901234567890.12")]


def test_structs_whose_names_repeat_keep_every_value():
    inner = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["a", "b"])], ["n", "n"])
    assert read_array(inner).to_pylist() == [[("n", 1), ("n", "a")], [("n", 2), ("n", "b")]]
    found = read_batch(pa.record_batch([pa.array([1]), pa.array([2])], names=["n", "n"]))
    assert found.to_pylist() == [[("n", 1), ("n", 2)]]
    with pytest.raises(UsageError, match="twice"):
        found.to_pydict()


def test_a_dictionary_is_read_only_where_it_is_used():
    # Word 1 is not UTF-8, and no row asks for it.
    root = of(forge.UTF8, dictionary=encoding(0))
    words = dictionary(0, batch(3, [(3, 0)], [b"", i32(0, 1, 2, 3), b"a\xffc"]))
    rows = batch(2, [(2, 0)], [b"", i32(2, 0)])
    array = unchecked(stream(root, words, rows))
    with pytest.raises(FormatError, match="UTF-8"):
        array.to_pylist()
    assert array[0] == "c"
    assert array[1] == "a"


# -- what may grow beyond the input --------------------------------------------------------------------------


def test_values_are_counted_before_they_are_made():
    array = read_array(pa.array([[1, 2], [3]]))
    assert array.to_pylist(max_values=5) == [[1, 2], [3]]
    for wrong in (-1, 2**56 + 1):
        with pytest.raises(UsageError, match="max_values"):
            array.to_pylist(max_values=wrong)
    with pytest.raises(LimitError, match=r"4 Python values.*max_values"):
        array.to_pylist(max_values=4)
    found = read_batch(pa.record_batch({"a": [1, 2], "b": [3, 4]}))
    assert found.to_pydict(max_values=4) == {"a": [1, 2], "b": [3, 4]}
    with pytest.raises(LimitError):
        found.to_pydict(max_values=3)
    with pytest.raises(LimitError):
        found.to_pylist(max_values=5)


def huge_inputs() -> dict[str, bytes]:
    """Few bytes that stand for more values than any memory holds."""
    many = 2**31 - 1
    item = field("item", forge.NULL)
    shared = b"".join([view(b"x" * 13, length=10**6, prefix=b"    ")] * 50_000)
    return {
        "nulls": stream(of(forge.NULL), batch(many, [(many, many)], [])),
        "structs": stream(of(forge.STRUCT), batch(many, [(many, 0)], [b""])),
        "one list": stream(of(forge.LIST, item), batch(1, [(1, 0), (many, many)], [b"", i32(0, many)])),
        "a wide list": stream(
            of(Table("FixedSizeList", listSize=many), item), batch(1, [(1, 0), (2**40, 2**40)], [b""])
        ),
        "list views": stream(
            of(forge.LIST_VIEW, item),
            batch(10**4, [(10**4, 0), (10**6, 10**6)], [b"", bytes(40_000), i32(10**6) * 10**4]),
        ),
        "text views": stream(
            of(forge.UTF8_VIEW), batch(50_000, [(50_000, 0)], [b"", shared, b" " * 10**6], variadic=[1])
        ),
        "union of one text": stream(
            of(DENSE, field("a", forge.UTF8), ITEM),
            batch(
                10**5,
                [(10**5, 0), (1, 0), (0, 0)],
                [b"\3" * 10**5, bytes(4 * 10**5), b"", i32(0, 10**6), b" " * 10**6, b"", b""],
            ),
        ),
        "one run": stream(
            of(forge.REE, RUNS, field("values", forge.NULL)), batch(many, [(many, 0), (1, 0), (1, 1)], [b"", i32(many)])
        ),
    }


@pytest.mark.parametrize("name", huge_inputs())
def test_small_input_cannot_ask_for_all_memory(name):
    (found,) = ipc.open_stream(huge_inputs()[name])
    array = found.column(0)
    for values in (found.to_pylist, found.to_pydict, array.to_pylist):
        with pytest.raises(LimitError):
            values(max_values=2**24)
    with pytest.raises(LimitError):
        array.to_numpy(copy=True)
    assert array.slice(0, 0).to_pylist() == []
    assert repr(found)
    assert repr(array)


def test_sharing_does_not_multiply_comparisons():
    item = field("item", forge.INT8)
    count, size = 10**5, 10**6
    lists = batch(count, [(count, 0), (size, 0)], [b"", bytes(4 * count), i32(size) * count, b"", bytes(size)])
    (found,) = ipc.open_stream(stream(of(forge.LIST_VIEW, item), lists), validate="none")
    with pytest.raises(LimitError, match="slices"):
        found.equals(found.slice(0))


# -- broken contents, which only validate="none" lets through ------------------------------------------------

WORDS = of(forge.UTF8, dictionary=encoding(0))
THREE_WORDS = dictionary(0, batch(3, [(3, 0)], [b"", i32(0, 1, 2, 3), b"abc"]))


UNREADABLE = {
    **{name: stream(schema(*fields), rows) for name, (fields, rows) in BROKEN.items()},
    "text not UTF-8": stream(of(forge.UTF8), batch(2, [(2, 0)], [b"", i32(0, 1, 3), b"a\xc3\x28"])),
    "text of surrogates": stream(of(forge.UTF8), batch(1, [(1, 0)], [b"", i32(0, 3), b"\xed\xa0\x80"])),
    "offset falls under a null": stream(of(forge.BINARY), batch(2, [(2, 1)], [bits(1, 0), i32(0, 2, 1), b"abc"])),
    "offset without data": stream(of(forge.BINARY), batch(1, [(1, 0)], [b"", i32(0, 1), b""])),
    "index beyond": stream(WORDS, THREE_WORDS, batch(2, [(2, 0)], [b"", i32(0, 3)])),
    "index negative": stream(WORDS, THREE_WORDS, batch(2, [(2, 0)], [b"", i32(0, -1)])),
    "index above 2^63": stream(
        of(forge.UTF8, dictionary=encoding(0, Table("Int", bitWidth=64, is_signed=False))),
        THREE_WORDS,
        batch(1, [(1, 0)], [b"", i64(-1)]),
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_broken_contents_give_no_value(name):
    array = unchecked(UNREADABLE[name])
    with pytest.raises(FormatError, match="'x"):
        array.to_pylist()
    with pytest.raises(FormatError):
        list(array)
    with pytest.raises(FormatError):
        array.to_numpy(copy=True)
    if "UTF-8" not in name and "surrogates" not in name and "under a null" not in name:
        with pytest.raises(FormatError):
            array.equals(unchecked(UNREADABLE[name]))
    assert repr(array)


def test_what_lies_under_a_null_is_never_read():
    views = view(b"x" * 20, 5) + view(b"ok")
    array = unchecked(stream(of(forge.UTF8_VIEW), batch(2, [(2, 1)], [bits(0, 1), views], variadic=[0])))
    assert array.to_pylist() == [None, "ok"]
    lists = batch(2, [(2, 1), (1, 0)], [bits(0, 1), i32(99, 0), i32(99, 1), b"", i32(5)])
    assert unchecked(stream(of(forge.LIST_VIEW, ITEM), lists)).to_pylist() == [None, [5]]
    array = unchecked(stream(WORDS, THREE_WORDS, batch(2, [(2, 1)], [bits(0, 1), i32(99, 2)])))
    assert array.to_pylist() == [None, "c"]
    assert array == array.slice(0)


def test_big_endian_as_stored_gives_buffers_only():
    kind = schema(field("x", forge.INT32), endianness=1)
    data = stream(kind, batch(1, [(1, 0)], [b"", b"\0\0\0\7"]))
    (swapped,) = ipc.open_stream(data)
    assert swapped.column(0).to_pylist() == [7]
    (stored,) = ipc.open_stream(data, ensure_native_endian=False)
    array = stored.column(0)
    for use in (array.to_pylist, array.to_numpy, lambda: array[0], lambda: stored == stored, stored.to_pydict):
        with pytest.raises(UsageError, match="ensure_native_endian"):
            use()
    assert bytes(array.buffers()[1][:4]) == b"\0\0\0\7"
    assert repr(stored)
    assert repr(array)


def test_honest_rows_are_made_without_a_word():
    """A dict takes more than its value, and the one byte that stands for it is enough."""
    count = 800_000
    batch_ = read_batch(pa.record_batch({"x": pa.array([0] * count, pa.int8())}))
    assert len(batch_.to_pylist()) == count
    claimed = read_batch(pa.record_batch({"x": pa.nulls(count)}))
    with pytest.raises(LimitError, match=r"699,050 Python values.*max_values"):
        claimed.to_pylist()
    assert len(claimed.to_pylist(max_values=1 << 30)) == count


# -- the cyclic collector ------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_rests_while_values_are_made(running):
    """Rows of lists are walked again and again otherwise; afterwards it is as it was, after an error too."""
    found = read_batch(pa.record_batch({"x": [[i] for i in range(50_000)]}))
    made = (found.to_pylist, found.to_pydict, found.column(0).to_pylist)
    starts: list[str] = []
    gc.callbacks.append(lambda phase, info: starts.extend(["start"] * (phase == "start")))
    was = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        for values in made:
            starts.clear()
            rows = values()
            assert len(starts) < 6  # one may follow at once, of each generation; otherwise dozens
            assert gc.isenabled() == running
            del rows
            with pytest.raises(LimitError):
                values(max_values=60_000)
            assert gc.isenabled() == running
    finally:
        (gc.enable if was else gc.disable)()
        gc.callbacks.pop()


def test_text_of_any_length_with_a_letter_beyond_ascii_anywhere():
    words = ["a" * size for size in range(40)]
    words += [word[:i] + letter + word[i + 1 :] for word in words for i in range(len(word)) for letter in "\x7fé€😀"]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found = read_batch(pa.record_batch({"x": pa.array([*words, None], kind)}))["x"].to_pylist()
        assert found == [*words, None]
        assert [word.isascii() for word in found[:-1]] == [word.isascii() for word in words]
