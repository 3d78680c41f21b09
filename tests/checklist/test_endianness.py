"""Format checklist 114-117: big-endian bodies are swapped by type, once, and framing never is."""

import datetime as dt
import struct
from decimal import Decimal

import pytest
from helpers import drive, forge
from helpers.drive import column, read_file, read_stream, refuse_at_every_level, refuse_stream
from helpers.forge import Table, batch, bits, dictionary, encoding, field, file, i8, i64, int_, schema, stream

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


ITEM = field("item", forge.INT16)
ENTRIES = field(
    "entries", forge.STRUCT, field("key", forge.INT16, nullable=False), field("value", forge.INT32), nullable=False
)
RUNS = field("run_ends", forge.INT16, nullable=False)

DAYS = [dt.date(1970, 1, 1), dt.date(1970, 1, 2)]
SECONDS = [dt.time(0, 0, 1), dt.time(0, 0, 2)]
TENTHS = [Decimal("0.1"), Decimal("-0.2")]


def decimal(width: int, precision: int, scale: int = 0) -> Table:
    return Table("Decimal", precision=precision, scale=scale, bitWidth=width)


def case(kind: Table, buffers: list[bytes], expected: list, *children: Table, lengths=(2,), variadic=None):
    """A big-endian stream of one column of two rows, and its values."""
    nodes = [(length, length if kind is forge.NULL else 0) for length in lengths]
    root = schema(field("x", kind, *children), endianness=BIG)
    return stream(root, batch(2, nodes, buffers, variadic=variadic)), expected


def flat(kind: Table, stored: bytes, expected: list):
    return case(kind, [b"", stored], expected)


def lists(kind: Table, *places: bytes, expected: list):
    return case(kind, [b"", *places, b"", be("h", 7, 8, 9)], expected, ITEM, lengths=(2, 3))


def union(mode: int, *offsets: bytes, expected: list):
    kind = Table("Union", mode=mode, typeIds=[3, 9])
    below = [b"", be("h", 1, 2), b"", be("i", 8, 9)]
    return case(
        kind, [i8(9, 3), *offsets, *below], expected, field("a", forge.INT16), field("b", forge.INT32), lengths=(2,) * 3
    )


CASES = {
    "int8": flat(forge.INT8, i8(1, -2), [1, -2]),
    "int16": flat(forge.INT16, be("h", 1, -2), [1, -2]),
    "int32": flat(forge.INT32, be("i", 1, -2), [1, -2]),
    "int64": flat(forge.INT64, be("q", 1, -2), [1, -2]),
    "uint16": flat(int_(16, False), be("H", 1, 65534), [1, 65534]),
    "uint64": flat(int_(64, False), be("Q", 1, 2**64 - 2), [1, 2**64 - 2]),
    "half": flat(Table("FloatingPoint", precision=0), be("e", 1.5, -2), [1.5, -2.0]),
    "single": flat(Table("FloatingPoint", precision=1), be("f", 1.5, -2), [1.5, -2.0]),
    "double": flat(forge.DOUBLE, be("d", 1.5, -2), [1.5, -2.0]),
    "bool": flat(forge.BOOL, bits(1, 0), [True, False]),
    "null": case(forge.NULL, [], [None, None]),
    "date32": flat(Table("Date", unit=0), be("i", 0, 1), DAYS),
    "date64": flat(Table("Date", unit=1), be("q", 0, 86_400_000), DAYS),
    "time32": flat(Table("Time", unit=0, bitWidth=32), be("i", 1, 2), SECONDS),
    "time64": flat(Table("Time", unit=3, bitWidth=64), be("q", 1, 2), [1, 2]),
    "timestamp": flat(Table("Timestamp", unit=3), be("q", 1, -2), [1, -2]),
    "duration": flat(Table("Duration", unit=0), be("q", 1, -2), [dt.timedelta(0, 1), dt.timedelta(0, -2)]),
    "months": flat(Table("Interval", unit=0), be("i", 1, -2), [1, -2]),
    "day_time": flat(Table("Interval", unit=1), be("i", 1, -2, 3, -4), [(1, -2), (3, -4)]),
    "month_day_nano": flat(Table("Interval", unit=2), be("iiqiiq", 1, -2, 3, -4, 5, -6), [(1, -2, 3), (-4, 5, -6)]),
    "decimal32": flat(decimal(32, 5, 1), be("i", 1, -2), TENTHS),
    "decimal64": flat(decimal(64, 5, 1), be("q", 1, -2), TENTHS),
    "decimal128": flat(decimal(128, 38), be("qQqQ", 1, 2, -1, 2**64 - 7), [Decimal(2**64 + 2), Decimal(-7)]),
    "decimal256": flat(
        decimal(256, 76), be("qQQQqQQQ", 0, 0, 1, 2, -1, *[2**64 - 1] * 2, 2**64 - 7), [Decimal(2**64 + 2), Decimal(-7)]
    ),
    "fixed_size_binary": flat(Table("FixedSizeBinary", byteWidth=3), b"abcdef", [b"abc", b"def"]),
    "utf8": case(forge.UTF8, [b"", be("i", 0, 1, 3), b"abc"], ["a", "bc"]),
    "large_utf8": case(forge.LARGE_UTF8, [b"", be("q", 0, 1, 3), b"abc"], ["a", "bc"]),
    "utf8_view": case(
        forge.UTF8_VIEW,
        [b"", big(b"short") + big(LONG, 1, 2), b"", b"  " + LONG],
        ["short", LONG.decode()],
        variadic=[2],
    ),
    "list": lists(forge.LIST, be("i", 0, 1, 3), expected=[[7], [8, 9]]),
    "large_list": lists(forge.LARGE_LIST, be("q", 0, 1, 3), expected=[[7], [8, 9]]),
    "list_view": lists(forge.LIST_VIEW, be("i", 1, 0), be("i", 2, 1), expected=[[8, 9], [7]]),
    "large_list_view": lists(Table("LargeListView"), be("q", 1, 0), be("q", 2, 1), expected=[[8, 9], [7]]),
    "fixed_size_list": case(
        Table("FixedSizeList", listSize=2), [b"", b"", be("h", 1, 2, 3, 4)], [[1, 2], [3, 4]], ITEM, lengths=(2, 4)
    ),
    "struct": case(
        forge.STRUCT, [b"", b"", be("h", 1, -2)], [{"a": 1}, {"a": -2}], field("a", forge.INT16), lengths=(2, 2)
    ),
    "map": case(
        forge.MAP,
        [b"", be("i", 0, 1, 2), b"", b"", be("h", 1, 2), b"", be("i", 8, 9)],
        [[(1, 8)], [(2, 9)]],
        ENTRIES,
        lengths=(2,) * 4,
    ),
    "sparse_union": union(0, expected=[8, 2]),
    "dense_union": union(1, be("i", 1, 0), expected=[9, 1]),
    "run_end_encoded": case(
        forge.REE,
        [b"", be("h", 1, 2), b"", be("i", 8, 9)],
        [8, 9],
        RUNS,
        field("values", forge.INT32),
        lengths=(2,) * 3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_114_115_bodies_are_swapped_by_type(name):
    data, expected = CASES[name]
    assert column(data, validate="strict") == expected
    writable = bytearray(data)
    (rows,) = ipc.open_stream(writable)
    assert rows.schema.endianness == "little"
    drive.use(rows)
    assert writable == data, "the input is not changed"


def test_115_validity_is_not_swapped_and_null_views_may_hold_anything():
    root = schema(field("x", forge.INT32), endianness=BIG)
    assert column(stream(root, batch(3, [(3, 1)], [bits(1, 0, 1), be("i", 1, 2, 3)]))) == [1, None, 3]
    root = schema(field("x", forge.UTF8_VIEW), endianness=BIG)
    rows = batch(2, [(2, 1)], [bits(1, 0), big(b"ok") + bytes(16)], variadic=[0])
    assert column(stream(root, rows)) == ["ok", None]


def test_116_compression_comes_before_swapping():
    import zstandard

    root = schema(field("x", forge.INT32), endianness=BIG)
    raw = be("i", *range(1000))
    rows = batch(1000, [(1000, 0)], [b"", i64(len(raw)) + zstandard.compress(raw)], codec=1)
    assert column(stream(root, rows)) == list(range(1000))
    stored = batch(3, [(3, 0)], [b"", i64(-1) + be("i", 1, 2, 3)], codec=1)
    assert column(stream(root, stored)) == [1, 2, 3]


CODED = schema(field("d", forge.INT32, dictionary=encoding(0, forge.INT16)), endianness=BIG)
WORDS = dictionary(0, batch(2, [(2, 0)], [b"", be("i", 5, 6)]))
CODES = batch(2, [(2, 0)], [b"", be("h", 1, 0)])


def test_116_dictionaries_are_swapped_once():
    delta = dictionary(0, batch(1, [(1, 0)], [b"", be("i", 7)]), isDelta=True)
    data = (CODED, WORDS, CODES, CODES, delta, batch(1, [(1, 0)], [b"", be("h", 2)]), CODES)
    expected = [[[6, 5]], [[6, 5]], [[7]], [[6, 5]]]
    assert read_stream(stream(*data)).values() == read_file(file(*data)).values() == expected


@pytest.mark.parametrize("columns", [["b"], ["a"], ["b", "a"], []])
def test_116_projected_columns(columns):
    root = schema(field("a", forge.INT32), field("b", forge.UTF8), endianness=BIG)
    rows = batch(2, [(2, 0)] * 2, [b"", be("i", 1, 2), b"", be("i", 0, 1, 3), b"xyz"])
    values = {"a": [1, 2], "b": ["x", "yz"]}
    assert read_stream(stream(root, rows), columns=columns).values() == [[values[name] for name in columns]]


def test_116_kept_as_it_is_on_request():
    data, _ = CASES["int32"]
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
def test_116_values_of_kept_batches_are_refused(name):
    (rows,) = drive.from_bytes(CASES[name][0], ensure_native_endian=False).batches
    with pytest.raises(ipc.ArrowIpcError, match="kept in big-endian as stored"):
        rows.column(0).to_pylist()


def test_116_a_reader_that_keeps_the_order_does_not_change_it_for_the_next_one():
    """Plans of recent schemas are shared between readers, and so are those of their dictionaries."""
    data = stream(CODED, WORDS, CODES)
    assert drive.from_bytes(data).values() == [[[6, 5]]]
    assert drive.from_bytes(data, ensure_native_endian=False).schema.endianness == "big"
    assert drive.from_bytes(data).values() == [[[6, 5]]]


@pytest.mark.parametrize("value", [2, -1, 32767])
def test_117_unknown_endianness(value):
    refuse_at_every_level(stream(schema(field("x", forge.INT32), endianness=value)), FormatError, "endian", str(value))


def test_117_damage_is_found_after_swapping():
    root = schema(field("x", forge.UTF8), endianness=BIG)
    refuse_stream(stream(root, batch(2, [(2, 0)], [b"", be("i", 0, 2, 1), b"ab"])), FormatError, "offset")
    little = batch(2, [(2, 0)], [b"", struct.pack("<3i", 0, 1, 2), b"ab"])
    refuse_stream(stream(root, little), FormatError, "offset")
