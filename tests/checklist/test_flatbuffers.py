"""Format checklist 21-29: no word of the metadata is trusted, whatever it claims."""

from collections.abc import Iterator

import pytest
from checklist.parts import ONE, ROWS, flat
from helpers import drive, forge, mutate
from helpers.drive import column, read_stream, refuse_at_every_level, refuse_file, refuse_stream
from helpers.forge import Table, batch, dictionary, field, file, i8, i32, locate, message, patch, read, schema, stream

import arrowipc as ipc
from arrowipc import ArrowIpcError, FormatError, LimitError, UnsupportedError

FULL = schema(
    field("name", forge.UTF8, metadata=[("key", "value")], dictionary=forge.encoding(1, forge.INT8, isOrdered=False)),
    field("list", forge.LIST, field("item", Table("Timestamp", unit=2, timezone="UTC"))),
    field("union", Table("Union", mode=1, typeIds=[0, 1]), field("a", forge.INT32), field("b", forge.BOOL)),
    metadata=[("k", "v")],
    features=[1],
)
WORDS = dictionary(1, forge.texts("a"))

LIES = [0x7FFFFFFF, 0x7FFFFFF0, 0x40000000, 0x10000001, 100_000, 5_000]


def lied_about(data: bytes, lie: int) -> Iterator[bytes]:
    """The data with a lie in place of each offset and each count in its metadata."""
    for at, width, kind in mutate.slots(data):
        if kind in ("root", "offset", "soffset", "count"):
            yield data[:at] + lie.to_bytes(width, "little") + data[at + width :]


@pytest.mark.parametrize("lie", LIES, ids=hex)
def test_021_offsets_and_lengths(lie):
    for lying in lied_about(message(FULL), lie):
        refuse_stream(stream(lying), FormatError)
    for lying in lied_about(message(ROWS), lie):
        refuse_at_every_level(stream(ONE, lying), FormatError, "message 2")
    for lying in lied_about(message(WORDS), lie):
        refuse_stream(stream(FULL, lying), FormatError, "message 2")


@pytest.mark.parametrize("lie", [*LIES, 0x0AAAAAAB, 0xFFFFFFFF], ids=hex)
def test_021_024_offsets_and_lengths_of_a_footer(lie):
    data = file(ONE, ROWS)
    start = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    for lying in lied_about(data, lie):
        if lying[:start] == data[:start]:
            refuse_file(lying, FormatError, "footer")


@pytest.mark.parametrize("root", [0, 3, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_021_root_offset(root):
    for before, whole in (((), message(ONE)), ((ONE,), message(ROWS))):
        refuse_stream(stream(*before, whole[:8] + root.to_bytes(4, "little") + whole[12:]), FormatError)


def test_021_vtable_sizes():
    whole = message(ROWS)
    vtable = locate(whole, "header.vtable")[0] - read(whole, "header.vtable")
    for place, lie in ((0, 0xFFFF), (0, 0), (0, 3), (2, 0), (2, 0xFFFF), (6, 0xFFFF)):
        at = vtable + place
        refuse_stream(stream(ONE, whole[:at] + lie.to_bytes(2, "little") + whole[at + 2 :]), FormatError)


def test_021_strings_need_no_terminator():
    whole = message(schema(field("abc", forge.INT32)))
    end = whole.index(b"abc\0") + 3
    assert read_stream(stream(whole[:end] + b"!" + whole[end + 1 :], ROWS)).schema.names == ["abc"]


def nested(levels: int) -> Table:
    """A field of `levels` levels: structs around one int32."""
    inner = field("leaf", forge.INT32)
    for _ in range(levels - 1):
        inner = field("s", forge.STRUCT, inner)
    return inner


@pytest.mark.parametrize("levels", [1, 2, 63, 64])
def test_022_depth_within_the_limit(levels):
    rows = batch(1, [(1, 0)] * levels, [b""] * levels + [i32(7)])
    (value,) = column(stream(schema(nested(levels)), rows))
    for _ in range(levels - 1):
        value = next(iter(value.values()))
    assert value == 7


def test_022_depth_beyond_the_limit():
    for levels in (65, 66, 10_000):
        refuse_stream(stream(schema(nested(levels))), LimitError, "depth|nest|level", "64")
    refuse_stream(stream(schema(nested(9))), LimitError, "8", limits=ipc.Limits(depth=8))
    read_stream(stream(schema(nested(8))), limits=ipc.Limits(depth=8))


def test_023_wide_schemas_are_fine():
    wide = schema(*[field(f"c{i}", forge.INT32, metadata=[("k", "v")]) for i in range(2_000)])
    reading = read_stream(stream(wide, batch(1, [(1, 0)] * 2_000, [b"", i32(7)] * 2_000)))
    assert len(reading.schema) == 2_000
    assert reading.batches[0].column(1_999).to_pylist() == [7]


@pytest.mark.parametrize("level", drive.LEVELS)
def test_025_what_may_be_absent(level):
    assert read_stream(stream(schema(), batch(3, None, None)), validate=level).rows() == [3]
    only_null = schema(field("n", Table("Null")))
    assert column(stream(only_null, batch(3, [(3, 3)], None)), validate=level) == [None] * 3
    assert column(stream(schema(field("x", forge.INT32, children=None)), ROWS), validate=level) == [1, 2, 3]
    assert read_stream(stream(schema(field(None, forge.INT32)), ROWS), validate=level).schema.names == [""]


def doubled(levels: int) -> Table:
    """A struct of two fields, which are one table, and so on."""
    inner = field("x", forge.INT32)
    for _ in range(levels):
        inner = field("s", forge.STRUCT, inner, inner)
    return inner


def of(kind: Table | None, **slots) -> bytes:
    return stream(schema(field("x", kind, **slots)))


def compressed(**slots) -> bytes:
    return stream(ONE, flat(3, b"", i32(1, 2, 3), compression=Table("BodyCompression", **slots)))


def counted(path: str, count: int) -> bytes:
    return stream(ONE, patch(message(flat(3, b"", i32(1, 2, 3), variadic=[])), path, count))


LARGE_PAIR = Table("KeyValue", key="k", value=b"v" * 50_000)
SHARING = [
    Table("Field", name=str(i), type=forge.INT32, children=[], custom_metadata=[LARGE_PAIR] * 50) for i in range(200)
]
UNKNOWN = (-1, 9, 32767, -32768)

#: Number of the case, a stream, the error at every level, and its words.
REFUSED = [
    *[("023", stream(schema(doubled(levels))), LimitError) for levels in (20, 40, 60)],
    ("023", stream(schema(*SHARING)), LimitError),
    *[
        ("024", counted(f"header.{vector}.#", count), FormatError, "message 2")
        for count in (0x10000001, 0x08000001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
        for vector in ("nodes", "buffers", "variadicBufferCounts")
    ],
    ("025", stream(ONE, batch(3, None, [b"", i32(1, 2, 3)])), FormatError, "node"),
    ("025", stream(ONE, batch(3, [(3, 0)], None)), FormatError, "buffer"),
    ("025", stream(schema(fields=None)), FormatError, "fields"),
    ("025", stream(schema(field("l", forge.LIST, children=None))), FormatError, "child"),
    *[("026", of(Table("FloatingPoint", precision=value)), FormatError, "precision") for value in UNKNOWN],
    *[("026", of(Table("Union", mode=value)), FormatError, "mode") for value in UNKNOWN],
    *[
        ("026", of(Table(kind, unit=value)), FormatError, f"{kind}|unit")
        for kind in ("Timestamp", "Time", "Duration", "Date", "Interval")
        for value in UNKNOWN
    ],
    ("026", of(Table("Duration", unit=4)), FormatError, "unit"),
    *[
        ("026", compressed(**{"codec": 0, slot: v}), ArrowIpcError, f"{slot}|compression", f"{v}|{v % 256}")
        for slot in ("codec", "method")
        for v in (2, 9, -1, 127)
    ],
    *[
        ("026", of(forge.UTF8, dictionary=forge.encoding(0, dictionaryKind=v)), ArrowIpcError, "dictionary")
        for v in (1, -1)
    ],
    *[("027", of(forge.INT32, type_type=v), ArrowIpcError, "type", str(v or "type")) for v in (0, 27, 99, 255)],
    ("027", of(None), FormatError, "type"),
    ("027", of(None, type_type=2), FormatError, "type"),
]


@drive.rows_of(REFUSED)
def test_is_refused(row):
    assert len(row[1]) < 100_000
    refuse_at_every_level(*row[1:])


def test_028_known_features_are_accepted():
    reading = read_stream(stream(schema(field("x", forge.INT32), features=[0, 1, 2]), ROWS), validate="strict")
    assert reading.schema.features == (0, 1, 2)
    assert reading.values() == [[[1, 2, 3]]]


@pytest.mark.parametrize("feature", [3, 99, -1, 1 << 40])
def test_028_unknown_features_are_kept_and_refused_at_strict(feature):
    data = stream(schema(field("x", forge.INT32), features=[1, feature]), ROWS)
    for level in ("none", "full"):
        assert read_stream(data, validate=level).schema.features == (1, feature)
    refuse_stream(data, UnsupportedError, "feature", str(feature), validate="strict")


def test_029_tables_may_share_a_vtable():
    whole = message(schema(field("a", forge.int_()), field("b", forge.int_())))
    paths = [f"header.fields[{i}].vtable" for i in (0, 1)]
    one, two = (locate(whole, path)[0] - read(whole, path) for path in paths)
    assert one == two
    rows = batch(1, [(1, 0)] * 2, [b"", i32(1), b"", i32(2)])
    assert read_stream(stream(whole, rows)).schema.names == ["a", "b"]
    nameless = whole[: one + 4] + bytes(2) + whole[one + 6 :]
    assert read_stream(stream(nameless, rows)).schema.names == ["", ""]


def test_029_one_table_may_serve_many_fields():
    shared = Table("Field", name="same", type=forge.INT8, children=[])
    assert len(forge.flatbuffer(schema(shared, shared, shared))) < 200
    reading = read_stream(stream(schema(shared, shared), batch(1, [(1, 0)] * 2, [b"", i8(1), b"", i8(2)])))
    assert reading.schema.names == ["same", "same"]
    assert reading.values() == [[[1], [2]]]
