"""Format checklist 61-89: nodes, buffers, lengths, nulls, offsets, views, unions and run ends of batches."""

import datetime as dt

import pytest
from checklist.parts import LONG, ONE, flat, of
from helpers import drive, forge
from helpers.arrays import address, ipc_bytes
from helpers.drive import column, read_stream, refuse_at_every_level, refuse_stream, refuse_values, rows_of
from helpers.forge import Table, batch, bits, dictionary, field, i8, i16, i32, i64, int_, message, schema, stream, view

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UnsupportedError, types

REQUIRED = schema(field("x", forge.INT32, nullable=False))
A, B = field("a", forge.INT32), field("b", forge.INT32)
ITEM = field("item", forge.INT32)
SPARSE, DENSE = Table("Union", mode=0, typeIds=[3, 9]), Table("Union", mode=1, typeIds=[3, 9])
RUNS = field("run_ends", forge.INT32, nullable=False)
FSL2 = Table("FixedSizeList", listSize=2)


def ints(*values: int, nulls: int = 0, validity: bytes = b"") -> Table:
    return flat(len(values), validity, i32(*values), nulls=nulls)


VIEWS = of(forge.UTF8_VIEW)


def views(*items: bytes, data: tuple[bytes, ...] = (LONG,), variadic: list[int] | None = None) -> Table:
    return flat(len(items), b"", b"".join(items), *data, variadic=[len(data)] if variadic is None else variadic)


ENTRIES = field("entries", forge.STRUCT, field("key", forge.INT32, nullable=False), B, nullable=False)
BAD_VIEWS = [view(b"abc", length=-1), view(LONG, 0, 0, length=2**31 - 1), view(LONG, 0, 0, prefix=b"shor")]
BAD_VIEWS += [view(LONG, buffer) for buffer in (1, -1)] + [view(LONG, 0, offset) for offset in (1, -1, 2**31 - 1)]
EXTENTS = [(-8, 12), (0, -1), (0, 20), (8, 12), (24, 12), (1 << 40, 12), (2**63 - 8, 12), (8, 2**63 - 8)]
EXTENTS += [(2**62, 2**62), (-(2**63), -(2**63))]
CUT = "é".encode() * 10
LARGE_LIST_VIEW = Table("LargeListView")
EMPTY_LISTS = Table("FixedSizeList", listSize=0)
RUNS_OF_NOTHING = field("item", forge.REE, RUNS, field("values", forge.NULL))
CODED = schema(field("d", forge.UTF8, dictionary=forge.encoding(0, int_(64, False))))
AB = dictionary(0, forge.texts("a", "b"))


def text(kind: Table, offsets: bytes, data: bytes, rows: int = 2) -> bytes:
    return stream(of(kind), flat(rows, b"", offsets, data))


def lists(kind: Table, *places: bytes, items: bytes, rows: int = 2, validity: bytes = b"") -> bytes:
    """A column of lists of int32."""
    nodes = [(rows, 1 if validity else 0), (len(items) // 4, 0)]
    return stream(of(kind, ITEM), batch(rows, nodes, [validity, *places, b"", items]))


def union(
    mode: int, codes: bytes, *offsets: bytes, validity: tuple[bytes, ...] = (), nulls: int = 0, **options
) -> bytes:
    """A column of unions over int32, of as many rows as codes; two elements in each child."""
    below = [b"", i32(1, 2), b"", i32(8, 9)]
    rows = batch(len(codes), [(len(codes), nulls), (2, 0), (2, 0)], [*validity, codes, *offsets, *below])
    return stream(of((SPARSE, DENSE)[mode], A, B), rows, **options)


def runs(kind: Table, ends: bytes, count: int, length: int, values: bytes, nulls: int = 0) -> bytes:
    """A run-end encoded column of int32."""
    root = of(forge.REE, field("run_ends", kind, nullable=False), field("values", forge.INT32))
    return stream(root, batch(length, [(length, nulls), (count, 0), (len(values) // 4, 0)], [b"", ends, b"", values]))


def in_body(extents: list, body: bytes, nulls: int = 0) -> bytes:
    return stream(ONE, message(batch(3, [(3, nulls)], extents), body=body))


def misaligned(shift: int) -> bytes:
    """Two int64 that lie so many bytes behind a multiple of 8."""
    body = bytes(shift) + i64(7, -8) + bytes(8 - shift)
    return stream(of(forge.INT64), message(flat(2, b"", (shift, 16)), body=body))


#: Types with offsets, their children, the offset of no rows, and the buffers behind it.
EMPTY = [
    *[(kind, (), i32(0), [b""]) for kind in (forge.UTF8, forge.BINARY)],
    (forge.LARGE_UTF8, (), i64(0), [b""]),
    (forge.LIST, (ITEM,), i32(0), [b""] * 2),
    (forge.LARGE_LIST, (ITEM,), i64(0), [b""] * 2),
]
DAY, DAY_AND_A_BIT = dt.date(1970, 1, 2), dt.datetime(1970, 1, 2, 0, 0, 0, 1000)
RUNS_OF_V4 = batch(3, [(3, 0), (2, 0), (2, 1)], [b"", b"", i32(2, 3), bits(1, 0), i32(7, 0)])
DATES = flat(2, b"", i64(86_400_000, 86_400_001))


#: Number of the case, a stream, the values of its column, and what "strict" refuses it with (None: anything).
READ = [
    ("033", stream(of(Table("FixedSizeBinary", byteWidth=0)), flat(3, bits(1, 0, 1), b"", nulls=1)), [b"", None, b""]),
    ("040", stream(REQUIRED, ints(1, 2, nulls=1, validity=bits(1, 0))), [1, None], "not nullable"),
    *[
        ("062", union(mode, i8(3, 9), *[i32(0, 1)] * mode, validity=(validity,), version=forge.V4), [1, 9])
        for mode in (0, 1)
        for validity in (b"", bits(1, 1))
    ],
    ("062", stream(of(forge.REE, RUNS, B), RUNS_OF_V4, version=forge.V4), [7, 7, None]),
    ("065", stream(ONE, batch(None, [(0, 0)], [b"", b""])), []),
    *[
        ("067", stream(ONE, ints(1, 2, 3, nulls=nulls, validity=bits(1, 0, 0))), [1, None, None], "null", str(nulls))
        for nulls in (1, 3)
    ],
    ("068", stream(ONE, ints(1, 2, 3, validity=bits(0, 0, 0))), [1, 2, 3], None),
    *[
        ("069", stream(ONE, ints(1, 2, 3, validity=validity)), [1, 2, 3])
        for validity in (b"", bits(1, 1, 1), b"\xff" * 64)
    ],
    ("070", stream(of(forge.MAP, ENTRIES), batch(0, [(0, 0)] * 4, [b""] * 7)), []),
    *[
        ("070", stream(of(kind, *below), batch(0, [(0, 0)] * (1 + len(below)), [b"", zero * width, *rest])), [])
        for kind, below, zero, rest in EMPTY
        for width in (0, 1)
    ],
    ("071", text(forge.UTF8, i32(1, 2, 3), b"abc"), ["b", "c"]),
    ("071", lists(forge.LIST, i32(1, 2, 3), items=i32(7, 8, 9)), [[8], [9]]),
    ("072", text(forge.BINARY, i32(0, 1, 2), "é".encode()), [b"\xc3", b"\xa9"]),
    *[
        ("075", in_body([(offset, 0), (0, 12)], i32(1, 2, 3, 0)), [1, 2, 3], *["buffer 0"][: offset != 16])
        for offset in (16, 24, 1 << 40, 2**63 - 1, -8)
    ],
    *[("074", misaligned(shift), [7, -8], "align|multiple of 8", "buffer 1") for shift in (1, 2, 4)],
    ("076", stream(ONE, flat(3, b"\x05" + bytes(63), i32(1, 2, 3) + bytes(52), nulls=1)), [1, None, 3]),
    ("077", stream(of(forge.BOOL), flat(3, b"\xfd\xff", b"\xfe\xff", nulls=1)), [False, None, True], None),
    ("077", stream(ONE, message(ints(1, 2, 3), body=i32(1, 2, 3) + b"\xaa" * 4)), [1, 2, 3]),
    ("079", stream(ONE, flat(1, b"", i32(5), variadic=[])), [5]),
    (
        "080",
        stream(VIEWS, views(view(b""), view(b"exactly 12 b"), view(LONG), view(LONG[4:20], 0, 4), data=(LONG, b""))),
        ["", "exactly 12 b", LONG.decode(), LONG[4:20].decode()],
    ),
    ("080", stream(VIEWS, views(view(b"abc")[:-1] + b"!")), ["abc"], "pad|zero"),
    ("080", stream(VIEWS, flat(2, bits(1, 0), view(b"a") + view(b""), b"", nulls=1, variadic=[1])), ["a", None]),
    ("080", stream(of(Table("BinaryView")), views(view(CUT[1:16], 0, 1), data=(CUT,))), [CUT[1:16]]),
    (
        "082",
        lists(forge.LIST_VIEW, i32(2, 0, 1), i32(2, 1, 3), items=i32(5, 6, 7, 8), rows=3),
        [[7, 8], [5], [6, 7, 8]],
    ),
    ("082", lists(LARGE_LIST_VIEW, i64(2, 0), i64(2, 0), items=i32(5, 6, 7, 8)), [[7, 8], []]),
    ("083", union(1, i8(3, 3, 9, 3), i32(1, 0, 1, 1)), [2, 1, 9, 2], None),
    *[
        ("085", runs(kind, pack(2, 5), 2, length, i32(7, 8)), [7, 7, 8, 8, 8][:length])
        for kind, pack in ((forge.INT16, i16), (forge.INT32, i32), (forge.INT64, i64))
        for length in (5, 3)
    ],
    *[("085", runs(kind, b"", 0, 0, b""), []) for kind in (forge.INT16, forge.INT32, forge.INT64)],
    ("086", stream(of(forge.STRUCT), flat(3, bits(1, 0, 1), nulls=1)), [{}, None, {}]),
    (
        "086",
        stream(
            of(forge.STRUCT, field("s", forge.STRUCT, field("n", forge.NULL))),
            batch(2, [(2, 0), (2, 1), (2, 2)], [b"", bits(1, 0)]),
        ),
        [{"s": {"n": None}}, {"s": None}],
    ),
    (
        "086",
        stream(of(forge.LIST, field("item", forge.NULL)), batch(2, [(2, 0), (3, 3)], [b"", i32(0, 2, 3)])),
        [[None, None], [None]],
    ),
    ("086", stream(of(EMPTY_LISTS, ITEM), batch(3, [(3, 1), (0, 0)], [bits(1, 1, 0), b"", b""])), [[], [], None]),
    (
        "086",
        stream(
            of(forge.LIST, RUNS_OF_NOTHING), batch(1, [(1, 0), (2, 0), (1, 0), (1, 1)], [b"", i32(0, 2), b"", i32(2)])
        ),
        [[None, None]],
    ),
    ("089", stream(CODED, AB, flat(2, b"", i64(1, 0))), ["b", "a"]),
    ("dates", stream(of(Table("Date", unit=1)), DATES), [DAY, DAY_AND_A_BIT], "date64|day"),
]


@rows_of(READ)
def test_is_read(row):
    _, data, expected, *said = row
    for level in drive.LEVELS[: 2 if said else 3]:
        assert column(data, validate=level) == expected
    drive.export_to_pyarrow(read_stream(data).batches[0])
    if said != [None] and said:
        refuse_stream(data, FormatError, *said, validate="strict")


TWO = schema(A, B)

#: Number of the case, a stream that no level reads, and words of its error.
REFUSED = [
    *[
        (
            "062",
            union(*given, validity=(bits(1, 0),), nulls=1, version=forge.V4),
            UnsupportedError,
            "union",
            "null",
            "V4",
        )
        for given in ((0, i8(3, 9)), (1, i8(3, 9), i32(0, 1)))
    ],
    *[("062", union(mode, i8(3, 9), *[i32(0, 1)] * mode, validity=(b"",)), "buffer") for mode in (0, 1)],
    ("064", stream(TWO, flat(1, b"", i32(1), b"", i32(2))), "node", "2", "1"),
    ("064", stream(TWO, batch(1, [(1, 0)] * 2, [b"", i32(1), b""])), "buffer", "4", "3"),
    ("064", stream(TWO, batch(1, [], [])), "node"),
    ("064", stream(ONE, batch(1, [(1, 0)] * 2, [b"", i32(1)])), "node", "2", "1"),
    ("064", stream(ONE, flat(1, b"", i32(1), b"")), "buffer", "3", "2"),
    ("064", stream(schema(), flat(1)), "node"),
    *[("065", stream(ONE, batch(n, [(3, 0)], [b"", i32(1, 2, 3)])), "length|rows") for n in (0, 2, 4, -1, 1 << 40)],
    *[
        ("065", stream(TWO, batch(3, [(3, 0), (n, 0)], [b"", i32(1, 2, 3)] * 2)), "length|rows")
        for n in (0, 2, 4, -1, 1 << 40)
    ],
    ("065", stream(schema(), batch(-1, [], [])), "length|rows", "-1"),
    ("065", stream(of(forge.STRUCT, A), batch(1, [(1, 0), (-1, 0)], [b"", b"", i32(1)])), "-1"),
    *[
        ("067", stream(ONE, ints(1, 2, 3, nulls=nulls, validity=bits(1, 0, 0))), "null", str(nulls))
        for nulls in (-2, -(2**63), 4, 1 << 40)
    ],
    ("068", stream(ONE, ints(1, 2, 3, nulls=1)), "valid"),
    ("068", stream(ONE, flat(9, bits(1), i32(*range(9)), nulls=1)), "valid", "2"),
    *[("073", in_body([b"", extent], i32(1, 2, 3, 0)), "buffer") for extent in EXTENTS],
    *[("073", in_body([extent, (0, 12)], i32(1, 2, 3, 0), nulls=1), "buffer") for extent in EXTENTS],
    *[("073", in_body([b"", (0, length)], i32(1, 2, 3, 0)), "buffer 1", "12") for length in (0, 1, 8, 11)],
    ("073", text(forge.UTF8, i32(0, 1), b"ab"), "buffer 1", "12"),
    ("073", stream(of(forge.BOOL), flat(9, b"", b"\xff")), "buffer 1", "2"),
    *[
        ("079", stream(VIEWS, views(view(LONG), variadic=variadic)), "variadic|buffers")
        for variadic in ([], [-1], [2], [0], [2**31], [2**62], [2**63 - 1], [-(2**63)])
    ],
    ("079", stream(VIEWS, flat(1, b"", view(LONG), LONG)), "variadic"),
]


@rows_of(REFUSED)
def test_is_refused(row):
    refuse_at_every_level(*row[1:])


#: Number of the case, a stream whose values break a rule, and words of the FormatError at "full" and "strict": that all
#: readers say so. What breaks each rule, and what does not, is said by the laws of tests/decode/test_validate.py.
REFUSED_VALUES = [
    *[
        (
            "066",
            stream(of(forge.REE, RUNS, B), batch(3, [(3, 0), (e, 0), (v, 0)], [b"", i32(1, 3), b"", i32(7, 8)])),
            "run|parent",
        )
        for e, v in ((2, 1), (1, 2))
    ],
    ("072", text(forge.UTF8, i32(0, 2, 1), b"abc"), "offset"),
    ("072", text(forge.LARGE_UTF8, i64(0, 1 << 40, 2), b"abc"), "offset"),
    ("072", lists(forge.LIST, i32(-1, 1, 2**31 - 1), items=i32(7, 8, 9)), "offset"),
    ("072", text(forge.UTF8, i32(0, 1, 2), "é".encode()), "UTF-8"),
    *[("080", stream(VIEWS, views(view(b"ok"), bad, view(LONG))), "view|prefix|row", "1") for bad in BAD_VIEWS],
    ("080", stream(VIEWS, views(view(b"ok"), view(b"a\xff"))), "UTF-8", "1"),
    ("080", stream(VIEWS, views(view(CUT[1:16], 0, 1), data=(CUT,))), "UTF-8"),
    ("082", lists(forge.LIST_VIEW, i32(0, 2**31 - 1), i32(1, 1), items=i32(5, 6)), "offset|size|range"),
    ("082", lists(forge.LIST_VIEW, i32(0, 2), i32(1, -1), items=i32(5, 6), validity=bits(1, 0)), "offset|size|range"),
    ("083", union(1, i8(3, 9), i32(0, -(2**31))), "offset"),
    *[("084", union(mode, i8(3, -1), *[i32(0, 0)] * mode), "type|code|id", "-1") for mode in (0, 1)],
    ("085", runs(forge.INT32, i32(5, 2), 2, 5, i32(7, 8)), "run"),
    ("085", runs(forge.INT32, b"", 0, 5, b""), "run"),
    ("085", runs(forge.INT32, i32(5), 1, 5, i32(7), nulls=2), "null"),
    (
        "085",
        stream(of(forge.REE, RUNS, B), batch(5, [(5, 0), (2, 1), (2, 0)], [bits(1, 0), i32(2, 5), b"", i32(7, 8)])),
        "run",
        "null",
    ),
    ("089", stream(CODED, AB, flat(2, b"", i64(1, -1))), "index|indices"),
]


@rows_of(REFUSED_VALUES)
def test_values_are_refused(row):
    refuse_values(*row[1:])


@pytest.mark.parametrize("rows", [0, 3, 1_000_000])
def test_065_rows_without_columns(rows):
    data = stream(schema(), batch(rows, [], []))
    assert read_stream(data).rows() == [rows]
    assert ipc.read(data).num_rows == rows


#: A type whose rows need 2 elements of each child, how many rows and fields below it, buffers and values.
CHILD_LENGTHS = {
    "struct": (of(forge.STRUCT, A), 2, 1, [b"", b"", i32(5, 6, 7)], [{"a": 5}, {"a": 6}]),
    "sparse union": (of(SPARSE, A, B), 2, 2, [i8(3, 9), b"", i32(5, 6, 7), b"", i32(7, 8, 9)], [5, 8]),
    "fixed size list": (of(FSL2, ITEM), 1, 1, [b"", b"", i32(5, 6, 7)], [[5, 6]]),
    "list": (of(forge.LIST, ITEM), 1, 1, [b"", i32(0, 2), b"", i32(5, 6, 7)], [[5, 6]]),
    "list view": (of(forge.LIST_VIEW, ITEM), 1, 1, [b"", i32(0), i32(2), b"", i32(5, 6, 7)], [[5, 6]]),
    "dense union": (of(DENSE, A, B), 2, 2, [i8(3, 3), i32(0, 1), *[b"", i32(5, 6, 7)] * 2], [5, 6]),
    "map": (of(forge.MAP, ENTRIES), 1, 3, [b"", i32(0, 2), b"", *[b"", i32(5, 6, 7)] * 2], [[(5, 5), (6, 6)]]),
}


@pytest.mark.parametrize("name", CHILD_LENGTHS)
def test_066_child_lengths(name):
    root, rows, fields, buffers, expected = CHILD_LENGTHS[name]
    streams = [stream(root, batch(rows, [(rows, 0), *[(n, 0)] * fields], buffers)) for n in range(4)]
    for long_enough in streams[2:]:
        assert column(long_enough) == expected
    for too_short in streams[:2]:
        refuse_values(too_short, "parent|offset|range|outside")


def test_067_null_count_minus_one_is_unknown():
    for validity, values in ((bits(1, 0, 0), [1, None, None]), (b"", [1, 2, 3])):
        data = stream(ONE, ints(1, 2, 3, nulls=-1, validity=validity))
        assert column(data) == values
        assert read_stream(data).batches[0].column(0).null_count == values.count(None)


def test_073_sizes_do_not_overflow():
    for length in (2**62, 2**61, 2**60 + 1, 2**63 - 1):
        data = stream(ONE, flat(length, b"", i32(1, 2, 3)))
        refuse_stream(data, FormatError, "buffer 1", limits=ipc.Limits(rows_per_batch=2**63 - 1))


def test_074_misaligned_values_are_copied():
    whole = stream(of(forge.INT64), flat(2, b"", i64(7, -8)))
    inputs = [memoryview(bytes(shift) + whole)[shift:] for shift in range(1, 8)]
    for source in (*map(misaligned, (1, 2, 4)), *inputs):
        (rows,) = ipc.open_stream(source)
        array = rows.column(0)
        assert array.to_pylist() == array.to_numpy().tolist() == [7, -8]
        assert address(array.to_numpy()) % 8 == 0
        drive.export_to_pyarrow(rows)


def test_075_shared_and_overlapping_buffers():
    shared = message(batch(2, [(2, 0)] * 2, [b"", (0, 8), b"", (0, 8)]), body=i32(1, 2))
    overlapping = message(batch(2, [(2, 0)] * 2, [b"", (0, 16), b"", (8, 8)]), body=i32(1, 2, 3, 4))
    for rows, expected in ((shared, [[1, 2], [1, 2]]), (overlapping, [[1, 2], [3, 4]])):
        data = stream(schema(A, B), rows)
        for level in ("none", "full"):
            assert read_stream(data, validate=level).values() == [expected]
        refuse_stream(data, FormatError, "overlap|share", validate="strict")


def test_075_sharing_has_a_budget():
    body = bytes(1 << 14)
    many = message(batch(4096, [(4096, 0)] * 50, [b"", (0, 1 << 14)] * 50), body=body)
    data = stream(schema(*[field(f"c{i}", forge.INT32) for i in range(50)]), many)
    assert read_stream(data).rows() == [4096]
    refuse_stream(data, LimitError, "overlap", limits=ipc.Limits(overlap_bytes=1 << 18))


@pytest.mark.parametrize("offset", [0, 1, 3, 7, 8, 9, 13])
def test_078_slices_at_bit_offsets(offset):
    truth = [None if i % 5 == 0 else i % 3 == 0 for i in range(20)]
    validity, data = bits(*(v is not None for v in truth)), bits(*(bool(v) for v in truth))
    (whole,) = read_stream(stream(of(forge.BOOL), flat(20, validity, data, nulls=4))).batches
    part, expected = whole.slice(offset, 6), truth[offset : offset + 6]
    written = drive.from_bytes(ipc_bytes(part)).batches[0].column(0)
    for found in (part.column(0), written):
        assert (found.to_pylist(), found.null_count) == (expected, expected.count(None))
    stored = [bits(*(v is not None for v in expected)), bits(*(bool(v) for v in expected))]
    assert [bytes(buffer) for buffer in written.buffers()] == stored


def test_080_views_of_null_slots():
    wild = flat(2, bits(1, 0), view(b"a") + view(LONG, 99, 5), b"", nulls=1, variadic=[1])
    assert drive.survives(stream(VIEWS, wild)) == len(drive.STREAM_DRIVERS)


def test_088_rows_are_limited_unless_asked_for_and_do_not_stand_for_gigabytes():
    huge, many = stream(of(forge.NULL), flat(1 << 40, nulls=1 << 40)), 2**31 - 1
    refuse_stream(huge, LimitError, "rows", str(many))
    (rows,) = ipc.open_stream(huge, limits=ipc.Limits(rows_per_batch=1 << 50))
    assert rows.num_rows == len(rows.column(0)) == 1 << 40
    assert rows.slice((1 << 40) - 2).column(0).to_pylist() == [None, None]
    wide = of(Table("FixedSizeList", listSize=many), field("item", forge.NULL))
    (row,) = ipc.open_stream(stream(wide, batch(1, [(1, 0), (many, many)], [b""])))
    for convert in (rows.to_pylist, rows.to_pydict, row.to_pylist):
        with pytest.raises((LimitError, MemoryError)):
            convert()


def test_batches_interval_values():
    day_time, nanos = types.DayTime(days=3, milliseconds=-4), types.MonthDayNano(months=1, days=-2, nanoseconds=3)
    for unit, stored, expected in ((0, i32(-7), -7), (1, i32(3, -4), day_time), (2, i32(1, -2) + i64(3), nanos)):
        (value,) = column(stream(of(Table("Interval", unit=unit)), flat(1, b"", stored)))
        assert (type(value), value) == (type(expected), expected)
