"""Format checklist 30-41: the parameters of types, their defaults and children, what a schema keeps."""

import datetime as dt
from decimal import Decimal

import pytest
from checklist.parts import flat, of
from helpers import drive, forge
from helpers.drive import column, read_stream, refuse_at_every_level, refuse_stream
from helpers.forge import Table, batch, bits, dictionary, encoding, field, i32, i64, int_, schema, stream

import arrowipc as ipc
from arrowipc import FormatError, UnsupportedError, types


def type_of(kind: Table, *children: Table):
    """What arrowipc reads for a field of this type."""
    return ipc.open_stream(stream(of(kind, *children))).schema.field(0).type


def decimal(width: int, precision: int = 5, scale: int = 2) -> Table:
    return Table("Decimal", precision=precision, scale=scale, bitWidth=width)


def fixed_lists(size: int) -> Table:
    return Table("FixedSizeList", listSize=size)


def struct(*children: Table) -> Table:
    return field("e", forge.STRUCT, *children)


def entries(name: str, key: str, value: str, kind: Table) -> Table:
    """The child of a map: keys of a type, and int32."""
    pair = field(key, kind, nullable=False), field(value, forge.INT32)
    return field(name, forge.STRUCT, *pair, nullable=False)


A, B, C = (field(name, forge.INT32) for name in "abc")
FSL = fixed_lists(2)
ENTRIES = entries("entries", "key", "value", forge.INT32)
PRECISIONS = {32: 9, 64: 18, 128: 38, 256: 76}
MANY = [field(f"child {i}", forge.INT32) for i in range(129)]
PRIMITIVES = [forge.INT32, forge.DOUBLE, forge.UTF8, forge.BINARY, forge.UTF8_VIEW, forge.BOOL, forge.NULL]
PRIMITIVES += [Table("Date"), Table("FixedSizeBinary", byteWidth=4)]

#: Number of the case, words of the error, and a type with its children.
REFUSED = [
    *[("030", f"width {bits or 0}", int_(bits)) for bits in (None, 0, 1, 7, 12, 24, 127, 129, 256, -8, 2**31 - 1)],
    *[("031", f"width {width}", decimal(width)) for width in (0, 16, 31, 96, 512, -128)],
    *[("031", f"precision {p}", decimal(w, p)) for w, most in PRECISIONS.items() for p in (-1, 0, most + 1)],
    *[
        ("032", f"time {width}", Table("Time", unit=unit, bitWidth=width))
        for unit, width in ((0, 64), (1, 64), (2, 32), (3, 32), (0, 16), (2, 0), (3, -64))
    ],
    ("033", "width -1", Table("FixedSizeBinary", byteWidth=-1)),
    ("033", "size -1", fixed_lists(-1), A),
    ("033", "size", fixed_lists(-(2**31)), A),
    *[("034", "child", kind, *children) for kind in (forge.LIST, forge.LIST_VIEW, FSL) for children in ([], [A, B])],
    *[("034", "child", kind) for kind in (forge.LARGE_LIST, Table("LargeListView"), forge.REE)],
    *[
        ("034", "child|map|entries", forge.MAP, *children)
        for children in ([], [A], [ENTRIES, A], [struct(A)], [struct(A, B, C)], [struct()])
    ],
    ("034", "child", forge.REE, A),
    ("034", "child", forge.REE, A, B, C),
    *[
        ("034", "run", forge.REE, field("run_ends", ends, nullable=False), field("values", forge.UTF8))
        for ends in (forge.INT8, int_(16, False), int_(64, False), forge.UTF8, forge.DOUBLE, forge.NULL)
    ],
    *[("034", "child", kind, A) for kind in PRIMITIVES],
    *[
        ("036", "type", Table("Union", mode=mode, typeIds=codes), *children)
        for mode in (0, 1)
        for codes, children in (
            *(([code], [A]) for code in (300, -5, 128)),
            *((codes, [A, B]) for codes in ([1, 1], [1, 2, 3], [1])),
        )
    ],
    ("036", "128|127|type", Table("Union", mode=0), *MANY),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]} {row[2].kind}, {row[1]}")
def test_is_refused(row):
    _, said, kind, *children = row
    data = stream(schema(field("the field", kind, *children)))
    refuse_at_every_level(data, FormatError, "the field", *said.split())


def test_030_integers_of_128_bits_are_those_of_polars():
    data = stream(schema(field("the field", int_(128))))
    refuse_at_every_level(data, UnsupportedError, "the field", "128 bits", "polars")


@pytest.mark.parametrize(("scale", "value"), [(0, "7"), (2, "0.07"), (-3, "7E+3"), (12, "7E-12")])
def test_031_decimal_scale_may_be_anything(scale, value):
    kind = Table("Decimal", precision=5, scale=scale, bitWidth=64)
    assert column(stream(of(kind), flat(1, b"", i64(7)))) == [Decimal(value)]


def test_032_absent_parameters_take_their_defaults():
    assert type_of(Table("Time")) == types.Time("ms", 32)
    assert type_of(Table("Date")) == types.Date("ms")
    assert type_of(Table("Duration")) == types.Duration("ms")
    assert type_of(Table("Timestamp")) == types.Timestamp("s", None)
    assert type_of(Table("Interval")) == types.Interval("year_month")
    assert type_of(Table("FloatingPoint")) == types.FloatingPoint("half")
    assert type_of(Table("Decimal", precision=5)) == types.Decimal(5, 0, 128)
    assert type_of(Table("Int", bitWidth=32)) == types.Int(32, False)
    assert type_of(Table("Union"), field("a", forge.INT8)).mode == "sparse"
    assert type_of(Table("FixedSizeBinary")) == types.FixedSizeBinary(0)
    assert ipc.open_stream(stream(schema(Table("Field", name="x", type=forge.INT32)))).schema.field(0).nullable is False


def test_035_map_names_are_kept_and_compare_equal():
    odd, usual = entries("pairs", "k", "v", forge.UTF8), entries("entries", "key", "value", forge.UTF8)
    kind = type_of(Table("Map", keysSorted=True), odd)
    assert (kind.entries.name, kind.key_field.name, kind.item_field.name) == ("pairs", "k", "v")
    assert kind.keys_sorted is True
    assert kind == type_of(Table("Map", keysSorted=True), usual)
    assert kind != type_of(Table("Map", keysSorted=False), usual)


def test_035_map_values():
    odd = entries("pairs", "same", "same", forge.UTF8)
    buffers = [b"", i32(0, 2, 2), b"", b"", i32(0, 1, 2), b"ab", bits(1, 0), i32(5, 0)]
    rows = batch(2, [(2, 0), (2, 0), (2, 0), (2, 1)], buffers)
    assert column(stream(schema(field("m", forge.MAP, odd)), rows)) == [[("a", 5), ("b", None)], []]


@pytest.mark.parametrize("mode", [0, 1])
def test_036_union_type_ids(mode):
    assert type_of(Table("Union", mode=mode), A, B, C).type_codes == (0, 1, 2)
    assert type_of(Table("Union", mode=mode, typeIds=[127, 0, 5]), A, B, C).type_codes == (127, 0, 5)
    assert type_of(Table("Union", mode=mode, typeIds=[])).type_codes == ()
    assert type_of(Table("Union", mode=mode), *MANY[:128]).type_codes == tuple(range(128))


def in_zone(zone: str | None) -> bytes:
    kind = Table("Timestamp", unit=0, timezone=zone)
    return stream(schema(field("t", kind)), flat(1, b"", i64(86400)))


@pytest.mark.parametrize("zone", [None, ""])
def test_037_without_timezone_is_naive(zone):
    assert column(in_zone(zone)) == [dt.datetime(1970, 1, 2)]


#: Zones, and their hours before UTC in 1970.
HOURS = {"UTC": 0, "Z": 0, "Europe/Paris": 1, "Asia/Kathmandu": 5.5, "+05:30": 5.5, "-08:00": -8, "-0830": -8.5}


@pytest.mark.parametrize("zone", HOURS)
def test_037_with_timezone_is_aware(zone):
    data = in_zone(zone)
    assert read_stream(data).schema.field(0).type == types.Timestamp("s", zone)
    (value,) = column(data)
    assert value == dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    assert value.utcoffset() == dt.timedelta(hours=HOURS[zone])


def test_039_duplicate_names_at_every_level():
    same = field("a", forge.STRUCT, field("a", forge.INT32), field("a", forge.UTF8))
    rows = batch(1, [(1, 0)] * 4, [b"", b"", i32(5), b"", i32(0, 1), b"z", b"", i32(6)])
    reading = read_stream(stream(schema(same, field("a", forge.INT32)), rows))
    assert reading.schema.names == ["a", "a"]
    assert reading.values() == [[[[("a", 5), ("a", "z")]], [6]]]
    with pytest.raises(ipc.UsageError, match="a"):
        reading.batches[0].column("a")
    with pytest.raises(ipc.UsageError, match="a"):
        reading.schema.field("a")


def map_of_two(entries=(b"", 0), keys=(b"", 0), values=(b"", 0), reached: int = 2) -> bytes:
    """A stream of one map; validity and null count of its entries, their keys and their values."""
    rows = batch(
        1,
        [(1, 0), *((2, nulls) for _, nulls in (entries, keys, values))],
        [b"", i32(0, reached), entries[0], keys[0], i32(1, 2), values[0], i32(3, 4)],
    )
    return stream(schema(field("m", forge.MAP, ENTRIES)), rows)


NULLS_OF_MAPS = {
    "entries": ("entries", (bits(1, 0), 1), 2),
    "keys": ("keys", (bits(1, 0), 1), 2),
    "a key that no row reaches": ("keys", (bits(1, 0), 1), 1),
    "a null count without a null": ("keys", (bits(1, 1), 1), 2),
}


@pytest.mark.parametrize(("which", "nulls", "reached"), NULLS_OF_MAPS.values(), ids=NULLS_OF_MAPS)
def test_040_entries_and_keys_of_maps_have_no_nulls(which, nulls, reached):
    """pyarrow ends the process over such a map, as soon as its column is asked for."""
    data = map_of_two(**{which: nulls}, reached=reached)
    name = r"m\.entries" if which == "entries" else r"m\.entries\.key"
    refuse_stream(data, ipc.FormatError, f"column '{name}'", "1 nulls", "map")
    assert len(read_stream(data, validate="none").batches[0].column("m").to_pylist()[0]) == reached


def test_040_maps_without_null_keys_are_read():
    # Case 67: -1 is counted, without a bitmap to 0. pyarrow refuses the bytes, and takes what we read.
    unknown, null_value = {"keys": (b"", -1)}, {"values": (bits(0, 1), 1)}
    for nulls, pairs in ((unknown, [(1, 3), (2, 4)]), (null_value, [(1, None), (2, 4)])):
        data = map_of_two(**nulls)
        assert column(data) == [pairs]
        drive.export_to_pyarrow(read_stream(data).batches[0])


NAME, PARAMETERS = b"ARROW:extension:name", b"ARROW:extension:metadata"


@pytest.mark.parametrize(
    "marks",
    [
        {NAME: b"nobody.knows", PARAMETERS: b"\xff\x00binary"},
        {NAME: b"nobody.knows"},
        {PARAMETERS: b"orphan"},
        {NAME: b"arrow.py_extension_type", PARAMETERS: b"cos\nsystem\n(S'false'\ntR."},
    ],
)
def test_041_extensions_are_storage_and_metadata(marks):
    rows = flat(3, b"", i32(1, 2, 3))
    reading = read_stream(stream(schema(field("x", forge.INT32, metadata=marks.items())), rows))
    assert reading.schema.field(0).metadata.pairs == tuple(marks.items())
    assert reading.schema.field(0).type == types.Int(32, True)
    assert reading.values() == [[[1, 2, 3]]]


def test_041_extension_wraps_the_dictionary():
    pairs = ((NAME, b"a.b"),)
    coded = schema(field("d", forge.UTF8, dictionary=encoding(0, forge.INT64, isOrdered=True), metadata=pairs))
    data = stream(coded, dictionary(0, forge.texts("a")), flat(1, b"", i64(0)))
    found = read_stream(data).schema.field(0)
    assert found.metadata.pairs == pairs
    assert found.type == types.Dictionary(types.Int(64, True), types.Utf8(), True)
    assert found.type != types.Dictionary(types.Int(64, True), types.Utf8(), False)  # case 104
    assert column(data) == ["a"]


def test_types_errors_show_the_path_of_a_nested_field():
    deep = field("outer", forge.LIST, field("item", forge.STRUCT, field("inner", int_(12))))
    refuse_stream(stream(schema(deep)), FormatError, "outer", "inner", "12")
