"""Python values of arrays: pyarrow's where both mean the same, and none from broken contents."""

import datetime as dt
import decimal
import gc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columns.broken import BROKEN
from helpers import forge
from helpers.arrays import CASES, read_array, read_batch
from helpers.forge import Table, batch, bits, dictionary, encoding, field, i32, i64, schema, stream, view

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UsageError
from arrowipc.cdata.import_array import array_from, batch_from, stream_from

ITEM = field("item", forge.INT32)


def unchecked(data: bytes) -> ipc.Array:
    """The last batch's column of a stream whose contents nobody has looked at."""
    return list(ipc.open_stream(data, validate="none"))[-1].column(0)


def of(kind: Table, *children: Table, **options: object) -> Table:
    return schema(field("x", kind, *children, **options))


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


def test_what_python_cannot_hold_stays_a_number():
    huge = [2**62, -(2**62), 2**63 - 1, -(2**63), None]
    for kind in (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ms", "Europe/Berlin"), pa.duration("s")):
        assert read_array(pa.array(huge, pa.int64()).view(kind)).to_pylist() == huge
    days = [2**31 - 1, -(2**31)]
    assert read_array(pa.array(days, pa.int32()).view(pa.date32())).to_pylist() == days
    late = pa.array([86400, -1, 86399], pa.int32()).view(pa.time32("s"))
    assert read_array(late).to_pylist() == [86400, -1, dt.time(23, 59, 59)]


def test_the_first_and_the_last_moment():
    for unit, ticks in (("s", 1), ("ms", 1000), ("us", 10**6)):
        first, last = -62135596800 * ticks, 253402300800 * ticks - 1
        found = read_array(pa.array([first - 1, first, last, last + 1]).view(pa.timestamp(unit))).to_pylist()
        found[2] = found[2].replace(microsecond=0)
        assert found == [first - 1, dt.datetime.min, dt.datetime(9999, 12, 31, 23, 59, 59), last + 1]
        # In this zone the first moment would lie in the year 0.
        assert read_array(pa.array([first]).view(pa.timestamp(unit, "America/New_York"))).to_pylist() == [first]
    days = pa.array([-719163, -719162, 2932896, 2932897], pa.int32()).view(pa.date32())
    assert read_array(days).to_pylist() == [-719163, dt.date.min, dt.date.max, 2932897]
    days = 999999999 * 86400
    found = read_array(pa.array([-days - 1, -days, days + 86399, days + 86400]).view(pa.duration("s"))).to_pylist()
    assert found == [-days - 1, dt.timedelta.min, dt.timedelta(days=999999999, seconds=86399), days + 86400]


@pytest.mark.parametrize(
    "zone", ["+24:00", "Mars/Olympus", "America", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 1000, "Grün"]
)
def test_in_a_zone_that_nobody_knows_times_are_the_stored_numbers(zone):
    """They became datetimes in UTC without a word."""
    rows = batch(1, [(1, 0)], [b"", i64(1_700_000_000)])
    (found,) = ipc.open_stream(stream(of(Table("Timestamp", unit=0, timezone=zone)), rows))
    assert found.column(0).to_pylist() == [1_700_000_000]
    assert ipc.RecordBatch.from_pydict(found.to_pydict(), found.schema) == found
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
    expected = [((n < 0), tuple(map(int, str(abs(n)))), -scale) for n in numbers]
    assert [tuple(value.as_tuple()) for value in array.to_pylist()] == expected


def test_decimals_do_not_depend_on_the_context():
    array = read_array(pa.array([Decimal("12345678901234567890.12")], pa.decimal128(38, 2)))
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        assert array.to_pylist() == [Decimal("12345678901234567890.12")]


def test_a_dictionary_is_read_only_where_it_is_used():
    # Word 1 is not UTF-8, and no row asks for it.
    words = dictionary(0, batch(3, [(3, 0)], [b"", i32(0, 1, 2, 3), b"a\xffc"]))
    array = unchecked(stream(of(forge.UTF8, dictionary=encoding(0)), words, batch(2, [(2, 0)], [b"", i32(2, 0)])))
    with pytest.raises(FormatError, match="UTF-8"):
        array.to_pylist()
    assert (array[0], array[1]) == ("c", "a")


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


WORDS = of(forge.UTF8, dictionary=encoding(0))
THREE_WORDS = dictionary(0, forge.texts("a", "b", "c"))


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
    uses = [lambda: list(array), lambda: array.to_numpy(copy=True)]
    if "UTF-8" not in name and "surrogates" not in name and "under a null" not in name:
        uses.append(lambda: array.equals(unchecked(UNREADABLE[name])))
    for use in uses:
        with pytest.raises(FormatError):
            use()
    assert repr(array)


def test_what_lies_under_a_null_is_never_read():
    cells = batch(2, [(2, 1)], [bits(0, 1), view(b"x" * 20, 5) + view(b"ok")], variadic=[0])
    assert unchecked(stream(of(forge.UTF8_VIEW), cells)).to_pylist() == [None, "ok"]
    lists = batch(2, [(2, 1), (1, 0)], [bits(0, 1), i32(99, 0), i32(99, 1), b"", i32(5)])
    assert unchecked(stream(of(forge.LIST_VIEW, ITEM), lists)).to_pylist() == [None, [5]]
    array = unchecked(stream(WORDS, THREE_WORDS, batch(2, [(2, 1)], [bits(0, 1), i32(99, 2)])))
    assert array.to_pylist() == [None, "c"]
    assert array == array.slice(0)


def into(write: Callable[[Any], Any]) -> Any:
    with ipc.new_stream(bytearray(), ipc.schema({"x": "int32"})) as writer:
        return write(writer)


BYTE = ipc.record_batch({"y": [1]})
#: All that needs values of a batch, or hands them over.
NEEDS_NATIVE: dict[str, Callable[[Any], Any]] = {
    "to_pylist": lambda kept: kept["x"].to_pylist(),
    "to_numpy": lambda kept: kept["x"].to_numpy(),
    "an element": lambda kept: kept["x"][0],
    "to_pydict": lambda kept: kept.to_pydict(),
    "equality": lambda kept: kept == kept,
    "statistics": ipc.compute_statistics,
    "a message": lambda kept: kept.to_message(),
    "write": lambda kept: into(lambda writer: writer.write(kept)),
    "write_batch": lambda kept: into(lambda writer: writer.write_batch(kept)),
    "payloads": lambda kept: ipc.encode_payloads(kept, rows_per_payload=1),
    "payloads by key": lambda kept: ipc.encode_payloads(kept, group_by="x"),
    "a C schema": lambda kept: kept.schema.__arrow_c_schema__(),
    "a C array": lambda kept: kept.__arrow_c_array__(),
    "a device array": lambda kept: kept.__arrow_c_device_array__(),
    "a C stream": lambda kept: kept.__arrow_c_stream__(),
    "a column as C array": lambda kept: kept["x"].__arrow_c_array__(),
    "append_column": lambda kept: BYTE.append_column("x", kept["x"]),
    "append_column of a table": lambda kept: ipc.Table.from_batches([BYTE, BYTE[:0]]).append_column("x", kept["x"]),
    "batch_from": batch_from,
    "array_from": lambda kept: array_from(kept["x"]),
    "stream_from": stream_from,
}


@pytest.mark.parametrize("use", NEEDS_NATIVE)
def test_big_endian_as_stored_gives_buffers_only(use):
    data = stream(of(forge.INT32).but(endianness=1), batch(1, [(1, 0)], [b"", b"\0\0\0\7"]))
    (swapped,) = ipc.open_stream(data)
    assert swapped.column(0).to_pylist() == [7]
    assert ipc.compute_statistics(swapped)["x"].max == 7
    with ipc.open_stream(data, ensure_native_endian=False) as reader:
        with pytest.raises(UsageError, match="ensure_native_endian=True"):
            reader.__arrow_c_stream__()
        (kept,) = reader
        with pytest.raises((UsageError, ipc.UnsupportedError), match=r"ensure_native_endian=True|big-endian"):
            NEEDS_NATIVE[use](kept)
    assert bytes(kept["x"].buffers()[1][:4]) == b"\0\0\0\7"
    assert repr(kept)
    assert repr(kept["x"])


def test_honest_rows_are_made_without_a_word():
    """A dict takes more than its value, and the one byte that stands for it is enough."""
    count = 800_000
    batch_ = read_batch(pa.record_batch({"x": pa.array([0] * count, pa.int8())}))
    assert len(batch_.to_pylist()) == count
    claimed = read_batch(pa.record_batch({"x": pa.nulls(count)}))
    with pytest.raises(LimitError, match=r"699,050 Python values.*max_values"):
        claimed.to_pylist()
    assert len(claimed.to_pylist(max_values=1 << 30)) == count


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
        found = read_array(pa.array([*words, None], kind)).to_pylist()
        assert found == [*words, None]
        assert [word.isascii() for word in found[:-1]] == [word.isascii() for word in words]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_equal_texts_are_one_object(kind):
    """A few texts are remembered: by their ends, which may be the same, as may be where they are remembered."""
    words = ["", "a", "é", "ends in the same sixteen", "x ends in the same sixteen", *map(str, range(300))]
    mixed = [None, *words, *[words[i % 5] for i in range(3000)], *map(str, range(9000)), *words]
    found = read_array(pa.array(mixed, kind)).to_pylist()
    assert found == mixed
    few = read_array(pa.array(["München", "ends in the same sixteen"] * 500, kind)).to_pylist()
    assert len({id(word) for word in few}) == 2


def test_entries_of_maps_are_left_out_by_the_collector():
    """They can be part of a cycle only if a key or value can."""
    for kind, value in ((pa.int64(), 1), (pa.list_(pa.int64()), [1])):
        (entries,) = read_array(pa.array([[("a", value)]], pa.map_(pa.string(), kind))).to_pylist()
        assert entries == [("a", value)]
        assert gc.is_tracked(entries[0]) == (value == [1])
