"""Format checklist 21-29: no word of the metadata is trusted, whatever it claims."""

from __future__ import annotations

import time

import pytest
from helpers import drive
from helpers.drive import column, read_stream, refuse_file, refuse_stream
from helpers.forge import (
    BOOL,
    INT8,
    INT32,
    LIST,
    STRUCT,
    UTF8,
    Table,
    batch,
    dictionary,
    encoding,
    field,
    file,
    flatbuffer,
    i8,
    i32,
    locate,
    message,
    patch,
    read,
    schema,
    stream,
)

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UnsupportedError

ONE = schema(field("x", INT32))
ROWS = batch(3, [(3, 0)], [b"", i32(1, 2, 3)])
FULL = schema(
    field("name", UTF8, metadata=[("key", "value")], dictionary=encoding(1, INT8, isOrdered=False)),
    field("list", LIST, field("item", Table("Timestamp", unit=2, timezone="UTC"))),
    field("union", Table("Union", mode=1, typeIds=[0, 1]), field("a", INT32), field("b", BOOL)),
    metadata=[("k", "v")],
    features=[1],
)
WORDS = dictionary(1, batch(1, [(1, 0)], [b"", i32(0, 1), b"a"]))

SCHEMA_OFFSETS = """
    vtable header header.vtable header.fields header.fields.# header.fields[0]
    header.fields[0].vtable header.fields[0].name header.fields[0].name.# header.fields[0].type
    header.fields[0].type.vtable header.fields[0].dictionary header.fields[0].dictionary.indexType
    header.fields[0].children header.fields[0].custom_metadata header.fields[0].custom_metadata.#
    header.fields[0].custom_metadata[0] header.fields[0].custom_metadata[0].key
    header.fields[0].custom_metadata[0].value.# header.fields[1].children.#
    header.fields[1].children[0] header.fields[1].children[0].type.timezone
    header.fields[1].children[0].type.timezone.# header.fields[2].type.typeIds
    header.fields[2].type.typeIds.# header.custom_metadata header.custom_metadata[0].value
    header.features header.features.#
""".split()  # noqa: SIM905 - one name per line would bury the list
BATCH_OFFSETS = [
    "vtable",
    "header",
    "header.vtable",
    "header.nodes",
    "header.nodes.#",
    "header.buffers",
    "header.buffers.#",
]
LIES = [0x7FFFFFFF, 0x7FFFFFF0, 0x40000000, 0x10000001, 100_000, 5_000]


@pytest.mark.parametrize("lie", LIES, ids=hex)
@pytest.mark.parametrize("path", SCHEMA_OFFSETS)
def test_021_offsets_and_lengths_of_a_schema(path, lie):
    whole = message(FULL)
    for level in drive.LEVELS:
        refuse_stream(stream(patch(whole, path, lie)), FormatError, validate=level)


@pytest.mark.parametrize("lie", LIES, ids=hex)
@pytest.mark.parametrize("path", BATCH_OFFSETS)
def test_021_offsets_and_lengths_of_a_batch(path, lie):
    broken = patch(message(ROWS), path, lie)
    for level in drive.LEVELS:
        refuse_stream(stream(ONE, broken), FormatError, "message 2", validate=level)


@pytest.mark.parametrize("lie", LIES, ids=hex)
@pytest.mark.parametrize("path", ["header.data", "header.data.vtable", "header.data.nodes.#", "header.data.buffers"])
def test_021_offsets_and_lengths_of_a_dictionary(path, lie):
    refuse_stream(stream(FULL, patch(message(WORDS), path, lie)), FormatError, "message 2")


@pytest.mark.parametrize("lie", LIES, ids=hex)
@pytest.mark.parametrize(
    "path", ["vtable", "schema", "schema.fields.#", "recordBatches", "recordBatches.#", "dictionaries.#"]
)
def test_021_offsets_and_lengths_of_a_footer(path, lie):
    data = file(ONE, ROWS)
    start = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    refuse_file(patch(data, path, lie, root="Footer", at=start), FormatError, "footer")


@pytest.mark.parametrize("path", SCHEMA_OFFSETS)
@pytest.mark.parametrize("step", [-8, -4, -2, -1, 1, 2, 4, 8, 16])
def test_021_small_shifts_give_values_or_an_error(path, step):
    whole = message(FULL)
    value = (read(whole, path) + step) % 2**31
    drive.survives(stream(patch(whole, path, value)), (drive.from_bytes,))


@pytest.mark.parametrize("root", [0, 3, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_021_root_offset(root):
    for whole in (message(ONE), message(ROWS)):
        broken = whole[:8] + root.to_bytes(4, "little") + whole[12:]
        data = stream(broken) if whole == message(ONE) else stream(ONE, broken)
        if root != 4:
            refuse_stream(data, FormatError)
        else:
            drive.survives(data)


def test_021_vtable_sizes():
    whole = message(ROWS)
    table = locate(whole, "header.vtable")[0]
    vtable = table - read(whole, "header.vtable")
    for at, lie in [
        (vtable, 0xFFFF),
        (vtable, 0),
        (vtable, 3),
        (vtable + 2, 0),
        (vtable + 2, 0xFFFF),
        (vtable + 6, 0xFFFF),
    ]:
        broken = whole[:at] + lie.to_bytes(2, "little") + whole[at + 2 :]
        refuse_stream(stream(ONE, broken), FormatError)


def test_021_strings_need_no_terminator():
    whole = message(schema(field("abc", INT32)))
    end = whole.index(b"abc\0") + 3
    assert read_stream(stream(whole[:end] + b"!" + whole[end + 1 :], ROWS)).schema.names == ["abc"]


def nested(levels: int) -> Table:
    """A field of `levels` levels: structs around one int32."""
    inner = field("leaf", INT32)
    for _ in range(levels - 1):
        inner = field("s", STRUCT, inner)
    return inner


@pytest.mark.parametrize("levels", [1, 2, 63, 64])
def test_022_depth_within_the_limit(levels):
    rows = batch(1, [(1, 0)] * levels, [b""] * levels + [i32(7)])
    (value,) = column(stream(schema(nested(levels)), rows))
    for _ in range(levels - 1):
        value = next(iter(value.values()))
    assert value == 7


@pytest.mark.parametrize("levels", [65, 66, 1000, 30_000])
def test_022_depth_beyond_the_limit(levels):
    data = stream(schema(nested(levels)))
    start = time.process_time()
    refuse_stream(data, LimitError, "depth|nest|level", "64")
    assert time.process_time() - start < 20


def test_022_depth_is_a_parameter():
    refuse_stream(stream(schema(nested(9))), LimitError, "8", limits=ipc.Limits(depth=8))
    read_stream(stream(schema(nested(8))), limits=ipc.Limits(depth=8))


@pytest.mark.parametrize("levels", [20, 40, 60])
def test_023_shared_tables_do_not_multiply(levels):
    inner = field("x", INT32)
    for _ in range(levels):
        inner = field("s", STRUCT, inner, inner)
    assert len(message(schema(inner))) < 8_000
    refuse_stream(stream(schema(inner)), LimitError)


def test_023_shared_metadata_does_not_multiply():
    pairs = Table("KeyValue", key="k", value=b"v" * 50_000)
    fields = [Table("Field", name=str(i), type=INT32, children=[], custom_metadata=[pairs] * 50) for i in range(200)]
    refuse_stream(stream(schema(*fields)), LimitError)


def test_023_wide_schemas_are_fine():
    wide = schema(*[field(f"c{i}", INT32, metadata=[("k", "v")]) for i in range(5_000)])
    reading = read_stream(stream(wide, batch(1, [(1, 0)] * 5_000, [b"", i32(7)] * 5_000)))
    assert len(reading.schema) == 5_000
    assert reading.batches[0].column(4_999).to_pylist() == [7]


@pytest.mark.parametrize("count", [0x10000001, 0x08000001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("path", ["header.nodes.#", "header.buffers.#", "header.variadicBufferCounts.#"])
def test_024_counts_of_structs_do_not_overflow(path, count):
    rows = message(batch(3, [(3, 0)], [b"", i32(1, 2, 3)], variadic=[]))
    refuse_stream(stream(ONE, patch(rows, path, count)), FormatError, "message 2")


@pytest.mark.parametrize("count", [0x0AAAAAAB, 0x7FFFFFFF, 0xFFFFFFFF])
def test_024_counts_of_blocks_do_not_overflow(count):
    data = file(ONE, ROWS)
    start = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    refuse_file(patch(data, "recordBatches.#", count, root="Footer", at=start), FormatError, "footer")


@pytest.mark.parametrize("level", drive.LEVELS)
def test_025_null_nodes_and_buffers(level):
    refuse_stream(stream(ONE, batch(3, None, [b"", i32(1, 2, 3)])), FormatError, "node", validate=level)
    refuse_stream(stream(ONE, batch(3, [(3, 0)], None)), FormatError, "buffer", validate=level)
    assert read_stream(stream(schema(), batch(3, None, None)), validate=level).rows() == [3]
    only_null = schema(field("n", Table("Null")))
    assert column(stream(only_null, batch(3, [(3, 3)], None)), validate=level) == [None] * 3


def test_025_null_children_name_and_fields():
    assert column(stream(schema(field("x", INT32, children=None)), ROWS)) == [1, 2, 3]
    assert read_stream(stream(schema(field(None, INT32)), ROWS)).schema.names == [""]
    refuse_stream(stream(schema(fields=None)), FormatError, "fields")
    refuse_stream(stream(schema(field("l", LIST, children=None))), FormatError, "child")


ENUMS = {
    "precision": Table("FloatingPoint", precision=9),
    "unit": Table("Timestamp", unit=9),
    "unit ": Table("Time", unit=9, bitWidth=64),
    "unit  ": Table("Duration", unit=4),
    "date|unit": Table("Date", unit=9),
    "interval|unit": Table("Interval", unit=9),
    "mode": Table("Union", mode=9),
}


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("value", [None, -1, 9, 32767, -32768])
@pytest.mark.parametrize("words", ENUMS)
def test_026_unknown_enum_values_of_types(words, value, level):
    kind = ENUMS[words]
    if value is not None:
        kind = kind.but(**{"mode" if "mode" in words else "precision" if "precision" in words else "unit": value})
    refuse_stream(stream(schema(field("x", kind))), FormatError, words.strip(), validate=level)


@pytest.mark.parametrize("value", [2, 9, -1])
def test_026_unknown_endianness(value):
    refuse_stream(stream(schema(field("x", INT32), endianness=value)), FormatError, "endian", str(value))


@pytest.mark.parametrize("value", [2, 9, -1, 127])
def test_026_unknown_codec_and_method(value):
    rows = batch(3, [(3, 0)], [b"", i32(1, 2, 3)], compression=Table("BodyCompression", codec=value))
    refuse_stream(stream(ONE, rows), ipc.ArrowIpcError, "codec|compression", f"{value}|{value % 256}")
    rows = batch(3, [(3, 0)], [b"", i32(1, 2, 3)], compression=Table("BodyCompression", codec=0, method=value))
    refuse_stream(stream(ONE, rows), ipc.ArrowIpcError, "method|compression", f"{value}|{value % 256}")


@pytest.mark.parametrize("value", [1, -1])
def test_026_unknown_dictionary_kind(value):
    refuse_stream(
        stream(schema(field("d", UTF8, dictionary=encoding(0, dictionaryKind=value)))),
        ipc.ArrowIpcError,
        "dictionary",
    )


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("kind", [0, 27, 99, 255])
def test_027_unknown_type(kind, level):
    refuse_stream(
        stream(schema(field("x", INT32, type_type=kind))),
        ipc.ArrowIpcError,
        "type",
        str(kind or "type"),
        validate=level,
    )


def test_027_absent_type():
    refuse_stream(stream(schema(field("x", None))), FormatError, "type")
    refuse_stream(stream(schema(field("x", None, type_type=2))), FormatError, "type")


def test_028_known_features_are_accepted():
    reading = read_stream(stream(schema(field("x", INT32), features=[0, 1, 2]), ROWS), validate="strict")
    assert reading.schema.features == (0, 1, 2)
    assert reading.values() == [[[1, 2, 3]]]


@pytest.mark.parametrize("feature", [3, 99, -1, 1 << 40])
def test_028_unknown_features_are_kept_and_refused_at_strict(feature):
    data = stream(schema(field("x", INT32), features=[1, feature]), ROWS)
    for level in ("none", "full"):
        assert read_stream(data, validate=level).schema.features == (1, feature)
    refuse_stream(data, UnsupportedError, "feature", str(feature), validate="strict")


def test_029_tables_may_share_a_vtable():
    whole = message(
        schema(
            field("a", Table("Int", bitWidth=32, is_signed=True)),
            field("b", Table("Int", bitWidth=32, is_signed=True)),
        )
    )
    one, two = (
        locate(whole, f"header.fields[{i}].vtable")[0] - read(whole, f"header.fields[{i}].vtable") for i in (0, 1)
    )
    assert one == two
    rows = batch(1, [(1, 0)] * 2, [b"", i32(1), b"", i32(2)])
    assert read_stream(stream(whole, rows)).schema.names == ["a", "b"]
    nameless = whole[: one + 4] + bytes(2) + whole[one + 6 :]
    assert read_stream(stream(nameless, rows)).schema.names == ["", ""]


def test_029_one_table_may_serve_many_fields():
    shared = Table("Field", name="same", type=INT8, children=[])
    assert len(flatbuffer(schema(shared, shared, shared))) < 200
    reading = read_stream(stream(schema(shared, shared), batch(1, [(1, 0)] * 2, [b"", i8(1), b"", i8(2)])))
    assert reading.schema.names == ["same", "same"]
    assert reading.values() == [[[1], [2]]]
