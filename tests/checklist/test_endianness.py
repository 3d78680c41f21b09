"""Format checklist 114-117: big-endian bodies are swapped by type, once, and framing never is."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pytest
from helpers import drive
from helpers.drive import column, read_file, read_stream, refuse_stream
from helpers.forge import (
    BOOL,
    DOUBLE,
    INT8,
    INT16,
    INT32,
    INT64,
    LARGE_LIST,
    LARGE_UTF8,
    LIST,
    LIST_VIEW,
    MAP,
    NULL,
    REE,
    STRUCT,
    UTF8,
    UTF8_VIEW,
    Table,
    batch,
    bits,
    dictionary,
    encoding,
    field,
    file,
    i8,
    i64,
    int_,
    schema,
    stream,
)

import arrowipc as ipc
from arrowipc import FormatError

BIG = 1
LONG = b"longer than twelve bytes"


def be(codes: str, *values) -> bytes:
    """Big-endian values: one struct code for all of them, or one each."""
    codes = codes * len(values) if len(codes) == 1 else codes
    return struct.pack(">" + codes, *values)


def big(text: bytes, buffer: int = 0, offset: int = 0) -> bytes:
    """A view as a big-endian machine stores it: the integers swapped, inline text and prefix as they are."""
    if len(text) <= 12:
        return be("i", len(text)) + text.ljust(12, b"\0")
    return be("i", len(text)) + text[:4] + be("i", buffer, offset)


ITEM = field("item", INT16)
ENTRIES = field("entries", STRUCT, field("key", INT16, nullable=False), field("value", INT32), nullable=False)
RUNS = field("run_ends", INT16, nullable=False)

# name: type, children, nodes, buffers, variadic counts, the two expected values
CASES = {
    "int8": (INT8, [], 1, [b"", i8(1, -2)], None, [1, -2]),
    "int16": (INT16, [], 1, [b"", be("h", 1, -2)], None, [1, -2]),
    "int32": (INT32, [], 1, [b"", be("i", 1, -2)], None, [1, -2]),
    "int64": (INT64, [], 1, [b"", be("q", 1, -2)], None, [1, -2]),
    "uint16": (int_(16, False), [], 1, [b"", be("H", 1, 65534)], None, [1, 65534]),
    "uint64": (int_(64, False), [], 1, [b"", be("Q", 1, 2**64 - 2)], None, [1, 2**64 - 2]),
    "half": (Table("FloatingPoint", precision=0), [], 1, [b"", be("e", 1.5, -2)], None, [1.5, -2.0]),
    "single": (Table("FloatingPoint", precision=1), [], 1, [b"", be("f", 1.5, -2)], None, [1.5, -2.0]),
    "double": (DOUBLE, [], 1, [b"", be("d", 1.5, -2)], None, [1.5, -2.0]),
    "bool": (BOOL, [], 1, [b"", bits(1, 0)], None, [True, False]),
    "null": (NULL, [], 1, [], None, [None, None]),
    "date32": (
        Table("Date", unit=0),
        [],
        1,
        [b"", be("i", 0, 1)],
        None,
        [dt.date(1970, 1, 1), dt.date(1970, 1, 2)],
    ),
    "date64": (
        Table("Date", unit=1),
        [],
        1,
        [b"", be("q", 0, 86_400_000)],
        None,
        [dt.date(1970, 1, 1), dt.date(1970, 1, 2)],
    ),
    "time32": (
        Table("Time", unit=0, bitWidth=32),
        [],
        1,
        [b"", be("i", 1, 2)],
        None,
        [dt.time(0, 0, 1), dt.time(0, 0, 2)],
    ),
    "time64": (Table("Time", unit=3, bitWidth=64), [], 1, [b"", be("q", 1, 2)], None, [1, 2]),
    "timestamp": (Table("Timestamp", unit=3), [], 1, [b"", be("q", 1, -2)], None, [1, -2]),
    "duration": (
        Table("Duration", unit=0),
        [],
        1,
        [b"", be("q", 1, -2)],
        None,
        [dt.timedelta(0, 1), dt.timedelta(0, -2)],
    ),
    "months": (Table("Interval", unit=0), [], 1, [b"", be("i", 1, -2)], None, [1, -2]),
    "day_time": (Table("Interval", unit=1), [], 1, [b"", be("i", 1, -2, 3, -4)], None, [(1, -2), (3, -4)]),
    "month_day_nano": (
        Table("Interval", unit=2),
        [],
        1,
        [b"", be("iiqiiq", 1, -2, 3, -4, 5, -6)],
        None,
        [(1, -2, 3), (-4, 5, -6)],
    ),
    "decimal32": (
        Table("Decimal", precision=5, scale=1, bitWidth=32),
        [],
        1,
        [b"", be("i", 1, -2)],
        None,
        [Decimal("0.1"), Decimal("-0.2")],
    ),
    "decimal64": (
        Table("Decimal", precision=5, scale=1, bitWidth=64),
        [],
        1,
        [b"", be("q", 1, -2)],
        None,
        [Decimal("0.1"), Decimal("-0.2")],
    ),
    "decimal128": (
        Table("Decimal", precision=38, scale=0),
        [],
        1,
        [b"", (10**30).to_bytes(16, "big") + (-7).to_bytes(16, "big", signed=True)],
        None,
        [Decimal(10**30), Decimal(-7)],
    ),
    "decimal256": (
        Table("Decimal", precision=76, scale=0, bitWidth=256),
        [],
        1,
        [b"", (10**60).to_bytes(32, "big") + (-7).to_bytes(32, "big", signed=True)],
        None,
        [Decimal(10**60), Decimal(-7)],
    ),
    "fixed_size_binary": (
        Table("FixedSizeBinary", byteWidth=3),
        [],
        1,
        [b"", b"abcdef"],
        None,
        [b"abc", b"def"],
    ),
    "utf8": (UTF8, [], 1, [b"", be("i", 0, 1, 3), b"abc"], None, ["a", "bc"]),
    "large_utf8": (LARGE_UTF8, [], 1, [b"", be("q", 0, 1, 3), b"abc"], None, ["a", "bc"]),
    "utf8_view": (
        UTF8_VIEW,
        [],
        1,
        [b"", big(b"short") + big(LONG, 1, 2), b"", b"  " + LONG],
        [2],
        ["short", LONG.decode()],
    ),
    "list": (LIST, [ITEM], [2, 3], [b"", be("i", 0, 1, 3), b"", be("h", 7, 8, 9)], None, [[7], [8, 9]]),
    "large_list": (
        LARGE_LIST,
        [ITEM],
        [2, 3],
        [b"", be("q", 0, 1, 3), b"", be("h", 7, 8, 9)],
        None,
        [[7], [8, 9]],
    ),
    "list_view": (
        LIST_VIEW,
        [ITEM],
        [2, 3],
        [b"", be("i", 1, 0), be("i", 2, 1), b"", be("h", 7, 8, 9)],
        None,
        [[8, 9], [7]],
    ),
    "large_list_view": (
        Table("LargeListView"),
        [ITEM],
        [2, 3],
        [b"", be("q", 1, 0), be("q", 2, 1), b"", be("h", 7, 8, 9)],
        None,
        [[8, 9], [7]],
    ),
    "fixed_size_list": (
        Table("FixedSizeList", listSize=2),
        [ITEM],
        [2, 4],
        [b"", b"", be("h", 1, 2, 3, 4)],
        None,
        [[1, 2], [3, 4]],
    ),
    "struct": (STRUCT, [field("a", INT16)], 2, [b"", b"", be("h", 1, -2)], None, [{"a": 1}, {"a": -2}]),
    "map": (
        MAP,
        [ENTRIES],
        [2, 2, 2, 2],
        [b"", be("i", 0, 1, 2), b"", b"", be("h", 1, 2), b"", be("i", 8, 9)],
        None,
        [[(1, 8)], [(2, 9)]],
    ),
    "sparse_union": (
        Table("Union", mode=0, typeIds=[3, 9]),
        [field("a", INT16), field("b", INT32)],
        3,
        [i8(9, 3), b"", be("h", 1, 2), b"", be("i", 8, 9)],
        None,
        [8, 2],
    ),
    "dense_union": (
        Table("Union", mode=1, typeIds=[3, 9]),
        [field("a", INT16), field("b", INT32)],
        3,
        [i8(9, 3), be("i", 1, 0), b"", be("h", 1, 2), b"", be("i", 8, 9)],
        None,
        [9, 1],
    ),
    "run_end_encoded": (
        REE,
        [RUNS, field("values", INT32)],
        [2, 2, 2],
        [b"", be("h", 1, 2), b"", be("i", 8, 9)],
        None,
        [8, 9],
    ),
}


def case(name: str) -> tuple[bytes, list]:
    kind, children, nodes, buffers, variadic, expected = CASES[name]
    lengths = [2] * nodes if isinstance(nodes, int) else nodes
    counts = [(n, n if kind is NULL else 0) for n in lengths]
    return stream(
        schema(field("x", kind, *children), endianness=BIG), batch(2, counts, buffers, variadic=variadic)
    ), expected


@pytest.mark.parametrize("name", CASES)
def test_114_115_bodies_are_swapped_by_type(name):
    data, expected = case(name)
    assert column(data, validate="strict") == expected
    reading = read_stream(data)
    assert reading.schema.endianness == "little"
    drive.export_to_pyarrow(reading.batches[0])


@pytest.mark.parametrize("name", CASES)
def test_115_the_input_is_not_changed(name):
    data, _ = case(name)
    writable = bytearray(data)
    for rows in ipc.open_stream(writable):
        drive.use(rows)
    assert writable == data


def test_115_validity_is_not_swapped():
    root = schema(field("x", INT32), endianness=BIG)
    assert column(stream(root, batch(3, [(3, 1)], [bits(1, 0, 1), be("i", 1, 2, 3)]))) == [1, None, 3]


def test_115_null_views_may_hold_anything():
    root = schema(field("x", UTF8_VIEW), endianness=BIG)
    rows = batch(2, [(2, 1)], [bits(1, 0), big(b"ok") + bytes(16)], variadic=[0])
    assert column(stream(root, rows)) == ["ok", None]


def test_116_compression_comes_before_swapping():
    import zstandard

    root = schema(field("x", INT32), endianness=BIG)
    raw = be("i", *range(1000))
    rows = batch(1000, [(1000, 0)], [b"", i64(len(raw)) + zstandard.compress(raw)], codec=1)
    assert column(stream(root, rows)) == list(range(1000))
    stored = batch(3, [(3, 0)], [b"", i64(-1) + be("i", 1, 2, 3)], codec=1)
    assert column(stream(root, stored)) == [1, 2, 3]


def test_116_dictionaries_are_swapped_once():
    root = schema(field("d", INT32, dictionary=encoding(0, INT16)), endianness=BIG)
    words = dictionary(0, batch(2, [(2, 0)], [b"", be("i", 5, 6)]))
    delta = dictionary(0, batch(1, [(1, 0)], [b"", be("i", 7)]), isDelta=True)
    rows = batch(2, [(2, 0)], [b"", be("h", 1, 0)])
    last = batch(1, [(1, 0)], [b"", be("h", 2)])
    data = (root, words, rows, rows, delta, last, rows)
    expected = [[[6, 5]], [[6, 5]], [[7]], [[6, 5]]]
    assert read_stream(stream(*data)).values() == read_file(file(*data)).values() == expected


@pytest.mark.parametrize("columns", [["b"], ["a"], ["b", "a"], []])
def test_116_projected_columns(columns):
    root = schema(field("a", INT32), field("b", UTF8), endianness=BIG)
    rows = batch(2, [(2, 0)] * 2, [b"", be("i", 1, 2), b"", be("i", 0, 1, 3), b"xyz"])
    values = {"a": [1, 2], "b": ["x", "yz"]}
    assert read_stream(stream(root, rows), columns=columns).values() == [[values[name] for name in columns]]


def test_116_kept_as_it_is_on_request():
    data, _ = case("int32")
    reading = drive.from_bytes(data, ensure_native_endian=False)
    assert reading.schema.endianness == "big"
    (rows,) = reading.batches
    assert bytes(rows.column(0).buffers()[1][:8]) == be("i", 1, -2)
    for export in (rows.__arrow_c_array__, rows.__arrow_c_stream__, rows.column(0).__arrow_c_array__):
        with pytest.raises(ipc.ArrowIpcError, match=r"(?i)endian"):
            export()


@pytest.mark.parametrize(
    "name", ["int16", "utf8", "list", "dense_union", "run_end_encoded", "utf8_view", "decimal128", "map"]
)
def test_116_values_of_kept_batches_are_right_or_refused(name):
    data, expected = case(name)
    (rows,) = drive.from_bytes(data, ensure_native_endian=False).batches
    try:
        found = rows.column(0).to_pylist()
    except ipc.ArrowIpcError as refused:
        found = expected if "endian" in str(refused) else refused
    assert found == expected


def test_116_a_reader_that_keeps_the_order_does_not_change_it_for_the_next_one():
    """Plans of recent schemas are shared between readers, and so are those of their dictionaries."""
    root = schema(field("d", INT32, dictionary=encoding(0, INT16)), endianness=BIG)
    words = dictionary(0, batch(2, [(2, 0)], [b"", be("i", 5, 6)]))
    data = stream(root, words, batch(2, [(2, 0)], [b"", be("h", 1, 0)]))
    assert drive.from_bytes(data).values() == [[[6, 5]]]
    assert drive.from_bytes(data, ensure_native_endian=False).schema.endianness == "big"
    assert drive.from_bytes(data).values() == [[[6, 5]]]


@pytest.mark.parametrize("value", [2, -1, 32767])
def test_117_unknown_endianness(value):
    for level in drive.LEVELS:
        refuse_stream(
            stream(schema(field("x", INT32), endianness=value)),
            FormatError,
            "endian",
            str(value),
            validate=level,
        )


def test_117_damage_is_found_after_swapping():
    root = schema(field("x", UTF8), endianness=BIG)
    refuse_stream(stream(root, batch(2, [(2, 0)], [b"", be("i", 0, 2, 1), b"ab"])), FormatError, "offset")
    little = batch(2, [(2, 0)], [b"", struct.pack("<3i", 0, 1, 2), b"ab"])
    refuse_stream(stream(root, little), FormatError, "offset")
