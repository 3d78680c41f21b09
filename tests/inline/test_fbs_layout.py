"""The FlatBuffers numbers: those of ``format/*.fbs``, equal to flatc's, and fit to read what pyarrow wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.fbs import FORMAT, LAYOUT, NUMBERS, ROOT, Choice, FlatReader, Layout, Record

PXD = ROOT / "arrowipc" / "inline" / "fbs_layout.pxd"

# The committed file.


def test_pxd_has_the_numbers_of_the_schemas() -> None:
    lines = re.findall(r"^    (\w+) = (-?\d+)$", PXD.read_text(), re.MULTILINE)
    assert len(lines) == len(NUMBERS)
    assert {name: int(value) for name, value in lines} == NUMBERS


def test_names_that_compiled_modules_rely_on() -> None:
    expected = {
        "Message_version": 4,
        "Message_header_type": 6,
        "Message_header": 8,
        "Message_bodyLength": 10,
        "RecordBatch_nodes": 6,
        "Field_type_type": 8,
        "Field_type": 10,
        "Date_unit_DEFAULT": 1,
        "Time_unit_DEFAULT": 1,
        "Time_bitWidth_DEFAULT": 32,
        "Decimal_bitWidth_DEFAULT": 128,
        "Duration_unit_DEFAULT": 1,
        "FieldNode_null_count": 8,
        "Block_metaDataLength": 8,
        "Block_bodyLength": 16,
        "Block_SIZE": 24,
        "Type_NONE": 0,
        "Type_Struct_": 13,
        "Type_MAX": 26,
        "MetadataVersion_V5": 4,
    }
    assert {name: NUMBERS.get(name) for name in expected} == expected
    assert sum(name.endswith("_DEFAULT") for name in NUMBERS) == 5


# Against flatc.


@pytest.fixture(scope="module")
def flatc_modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each Python file that flatc makes of our schemas, by the name of its declaration."""
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed (Debian: flatbuffers-compiler)")
    target = tmp_path_factory.mktemp("flatc")
    schemas = sorted(map(str, FORMAT.glob("*.fbs")))
    done = subprocess.run([flatc, "--python", "-o", str(target), *schemas], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    paths = (target / "org" / "apache" / "arrow" / "flatbuf").glob("[!_]*.py")
    return {path.stem: path.read_text() for path in paths}


def squash(name: str) -> str:
    """A name without the case and underscores that code generators change."""
    return name.replace("_", "").lower()


def accessors(text: str) -> list[tuple[str, str]]:
    """Name and body of each method of a flatc class that reads a member."""
    methods = re.findall(r"^    def (\w+)\(self[^)]*\)[^:\n]*:(.*?)(?=^    def |^def |\Z)", text, re.M | re.S)
    return [(name, body) for name, body in methods if name != "Init"]


def test_flatc_knows_the_same_declarations(flatc_modules: dict[str, str]) -> None:
    assert flatc_modules.keys() == LAYOUT.declarations.keys()


def test_flatc_gives_the_same_enum_values(flatc_modules: dict[str, str]) -> None:
    for name, found in LAYOUT.declarations.items():
        if isinstance(found, Choice):
            values = re.findall(r"^    (\w+) = (-?\d+)$", flatc_modules[name], re.MULTILINE)
            assert {member: int(value) for member, value in values} == found.values, name


def test_flatc_gives_the_same_slots_and_defaults(flatc_modules: dict[str, str]) -> None:
    for name, found in LAYOUT.declarations.items():
        if not isinstance(found, Record) or found.kind != "table":
            continue
        theirs: dict[int, tuple[str, int]] = {}
        for accessor, body in accessors(flatc_modules[name]):
            slot = re.search(r"_tab\.Offset\((\d+)\)", body)
            default = re.findall(r"return (\w+)$", body, re.MULTILINE)
            assert slot, f"{name}.{accessor}: flatc writes accessors in a form this test cannot read"
            number = int(default[-1]) if default and default[-1].isdigit() else int(default[-1:] == ["True"])
            # A vector has further accessors (its length, ...) after the first one.
            theirs.setdefault(int(slot[1]), (squash(accessor), number))
        ours = {
            NUMBERS[f"{name}_{slot_name}"]: (
                squash(slot_name),
                NUMBERS.get(f"{name}_{slot_name}_DEFAULT", 0),
            )
            for slot_name, _ in LAYOUT.slots(found)
        }
        assert ours == theirs, name


def test_flatc_gives_the_same_structs(flatc_modules: dict[str, str]) -> None:
    structs = [each for each in LAYOUT.declarations.values() if getattr(each, "kind", "") == "struct"]
    assert {struct.name for struct in structs} == {"Buffer", "FieldNode", "Block"}
    for struct in structs:
        text = flatc_modules[struct.name]
        size = re.search(r"def SizeOf\(cls\)[^:]*:\s+return (\d+)", text)
        assert size
        assert int(size[1]) == NUMBERS[f"{struct.name}_SIZE"]
        theirs = {squash(accessor): int(re.findall(r"py_type\((\d+)\)", body)[0]) for accessor, body in accessors(text)}
        ours = {squash(each.name): NUMBERS[f"{struct.name}_{each.name}"] for each in struct.members}
        assert ours == theirs, struct.name


# Against what pyarrow wrote.


def read_message(message: Any) -> dict[str, Any]:
    """The decoded metadata of a pyarrow Message, with what every message promises already checked."""
    found = FlatReader(message.metadata).root("Message")
    assert found["version"] == message.metadata_version.name
    assert found["bodyLength"] == (message.body.size if message.body is not None else 0)
    return found


def pairs(metadata: dict[bytes, bytes]) -> list[dict[str, str]]:
    """What a KeyValue vector should hold for pyarrow's metadata."""
    return [{"key": key.decode(), "value": value.decode()} for key, value in metadata.items()]


def arrow_types() -> list[tuple[Any, str, dict[str, Any]]]:
    """Each type pyarrow has, with its tag and the fields of its table."""
    pa = pytest.importorskip("pyarrow")
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        (pa.null(), "Null", {}),
        (pa.bool_(), "Bool", {}),
        (pa.float16(), "FloatingPoint", {"precision": "HALF"}),
        (pa.float32(), "FloatingPoint", {"precision": "SINGLE"}),
        (pa.float64(), "FloatingPoint", {"precision": "DOUBLE"}),
        (pa.binary(), "Binary", {}),
        (pa.string(), "Utf8", {}),
        (pa.large_binary(), "LargeBinary", {}),
        (pa.large_string(), "LargeUtf8", {}),
        (pa.binary_view(), "BinaryView", {}),
        (pa.string_view(), "Utf8View", {}),
        (pa.binary(7), "FixedSizeBinary", {"byteWidth": 7}),
        (pa.date32(), "Date", {"unit": "DAY"}),
        (pa.date64(), "Date", {"unit": "MILLISECOND"}),
        (pa.month_day_nano_interval(), "Interval", {"unit": "MONTH_DAY_NANO"}),
        (pa.list_(pa.int8()), "List", {}),
        (pa.large_list(pa.int8()), "LargeList", {}),
        (pa.list_view(pa.int8()), "ListView", {}),
        (pa.large_list_view(pa.int8()), "LargeListView", {}),
        (pa.list_(pa.int8(), 3), "FixedSizeList", {"listSize": 3}),
        (pa.map_(pa.string(), pa.int8()), "Map", {"keysSorted": False}),
        (pa.map_(pa.string(), pa.int8(), keys_sorted=True), "Map", {"keysSorted": True}),
        (pa.struct([("a", pa.int8()), ("b", pa.string())]), "Struct_", {}),
        (pa.run_end_encoded(pa.int16(), pa.string()), "RunEndEncoded", {}),
    ]
    for bits in (8, 16, 32, 64):
        cases.append((getattr(pa, f"int{bits}")(), "Int", {"bitWidth": bits, "is_signed": True}))
        cases.append((getattr(pa, f"uint{bits}")(), "Int", {"bitWidth": bits, "is_signed": False}))
    for bits in (32, 64, 128, 256):
        decimal = getattr(pa, f"decimal{bits}")(7, -2)
        cases.append((decimal, "Decimal", {"precision": 7, "scale": -2, "bitWidth": bits}))
    for short, unit in (("s", "SECOND"), ("ms", "MILLISECOND"), ("us", "MICROSECOND"), ("ns", "NANOSECOND")):
        time = pa.time32(short) if short in ("s", "ms") else pa.time64(short)
        cases.append((time, "Time", {"unit": unit, "bitWidth": time.bit_width}))
        for zone in (None, "Asia/Tokyo"):
            cases.append((pa.timestamp(short, zone), "Timestamp", {"unit": unit, "timezone": zone}))
        cases.append((pa.duration(short), "Duration", {"unit": unit}))
    children = [pa.field("a", pa.int8()), pa.field("b", pa.string())]
    for mode in ("sparse", "dense"):
        union = pa.union(children, mode=mode, type_codes=[5, 9])
        cases.append((union, "Union", {"mode": mode.capitalize(), "typeIds": [5, 9]}))
    return cases


def test_every_type() -> None:
    pa = pytest.importorskip("pyarrow")
    cases = arrow_types()
    fields = [pa.field(f"f{i}", case[0], nullable=i % 2 == 0) for i, case in enumerate(cases)]
    schema = pa.schema(fields, metadata={"one": "1", "two": "2"})
    found = read_message(pa.ipc.read_message(schema.serialize()))
    assert found["header_type"] == "Schema"
    header = found["header"]
    assert header["endianness"] == ("Little" if sys.byteorder == "little" else "Big")
    assert header["custom_metadata"] == pairs(schema.metadata)
    assert len(header["fields"]) == len(fields)
    for field, (type_, tag, values), read in zip(fields, cases, header["fields"], strict=True):
        assert (read["name"], read["nullable"]) == (field.name, field.nullable)
        assert (read["type_type"], read["type"]) == (tag, values), str(type_)
        assert len(read["children"] or ()) == type_.num_fields, str(type_)
        assert read["dictionary"] is None
    # No type is left out (of Interval, pyarrow makes one unit only).
    assert {case[1] for case in cases} == LAYOUT.declarations["Type"].values.keys() - {"NONE"}


@pytest.mark.parametrize("version", ["V4", "V5"])
def test_metadata_versions(version: str) -> None:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion[version])
    pa.ipc.new_stream(sink, pa.schema([("a", pa.int8())]), options=options).close()
    (message,) = pa.ipc.MessageReader.open_stream(sink.getvalue())
    assert read_message(message)["version"] == version


def test_nested_fields_and_their_metadata() -> None:
    pa = pytest.importorskip("pyarrow")
    inner = pa.field("inner", pa.int64(), nullable=False, metadata={"k": "v", "unit": "µm"})
    schema = pa.schema([pa.field("outer", pa.struct([inner, pa.field("list", pa.list_(pa.date64()))]))])
    (outer,) = read_message(pa.ipc.read_message(schema.serialize()))["header"]["fields"]
    first, second = outer["children"]
    assert (first["name"], first["nullable"]) == ("inner", False)
    assert first["custom_metadata"] == pairs(inner.metadata)
    (item,) = second["children"]
    assert (item["type_type"], item["type"]) == ("Date", {"unit": "MILLISECOND"})


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_record_batch_with_views(codec: str | None) -> None:
    pa = pytest.importorskip("pyarrow")
    long = "longer than the twelve bytes of an inline view"
    views = pa.array([long, None, "short", long * 2], pa.string_view())
    # Concatenated views keep the data buffers of both parts.
    joined = pa.concat_arrays([pa.array([long, None], pa.string_view()), pa.array([long] * 2, pa.string_view())])
    numbers = pa.array([1, 2, 3, None], pa.int32())
    batch = pa.record_batch([numbers, views, joined], names=["n", "v", "j"])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"who": "test"})
    messages = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
    found = read_message(messages[1])
    assert found["header_type"] == "RecordBatch"
    assert found["custom_metadata"] == [{"key": "who", "value": "test"}]
    header = found["header"]
    assert header["length"] == batch.num_rows
    columns = batch.columns
    assert header["nodes"] == [{"length": len(each), "null_count": each.null_count} for each in columns]
    assert header["variadicBufferCounts"] == [len(each.buffers()) - 2 for each in (views, joined)] == [1, 2]
    assert len(header["buffers"]) == sum(len(each.buffers()) for each in columns)
    body = messages[1].body.to_pybytes()
    for extent in header["buffers"]:
        assert extent["offset"] % 8 == 0
        assert 0 <= extent["length"] <= len(body) - extent["offset"]
    if codec is None:
        assert header["compression"] is None
        values = header["buffers"][1]
        stored = body[values["offset"] : values["offset"] + values["length"]]
        assert stored[:12] == numbers.buffers()[1].to_pybytes()[:12]
    else:
        expected = {"lz4": "LZ4_FRAME", "zstd": "ZSTD"}[codec]
        assert header["compression"] == {"codec": expected, "method": "BUFFER"}


def test_dictionary_batches_with_a_delta() -> None:
    pa = pytest.importorskip("pyarrow")
    type_ = pa.dictionary(pa.int16(), pa.string(), ordered=True)
    plain = pa.dictionary(pa.int32(), pa.int64())
    schema = pa.schema([("plain", plain), ("word", type_)])
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    sink = pa.BufferOutputStream()
    fixed = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([7], pa.int64()))
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for words in (["a", "b"], ["a", "b", "c"]):
            indices = pa.array([0, len(words) - 1], pa.int16())
            array = pa.DictionaryArray.from_arrays(indices, pa.array(words), ordered=True)
            writer.write_batch(pa.record_batch([fixed, array], schema=schema))
    found = [read_message(each) for each in pa.ipc.MessageReader.open_stream(sink.getvalue())]
    first, second = (field["dictionary"] for field in found[0]["header"]["fields"])
    assert first["indexType"] in (None, {"bitWidth": 32, "is_signed": True})
    assert (first["isOrdered"], second["isOrdered"]) == (False, True)
    assert second["indexType"] == {"bitWidth": 16, "is_signed": True}
    assert second["dictionaryKind"] == "DenseArray"
    assert first["id"] != second["id"]
    # The fields keep the type of the values.
    assert [field["type_type"] for field in found[0]["header"]["fields"]] == ["Int", "Utf8"]
    dictionaries = [each["header"] for each in found if each["header_type"] == "DictionaryBatch"]
    of_words = [each for each in dictionaries if each["id"] == second["id"]]
    assert [(each["isDelta"], each["data"]["length"]) for each in of_words] == [(False, 2), (True, 1)]
    assert all(len(each["data"]["buffers"]) == 3 for each in of_words)
    reader = pa.ipc.open_stream(sink.getvalue())
    reader.read_all()
    assert sum(each["isDelta"] for each in dictionaries) == reader.stats.num_dictionary_deltas
    assert len(dictionaries) == reader.stats.num_dictionary_batches


def test_file_footer() -> None:
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("x", pa.int32()), ("word", pa.dictionary(pa.int8(), pa.string()))], {"in": "schema"})
    words = pa.array(["a", "b", "a"]).dictionary_encode().cast(schema.field("word").type)
    batch = pa.record_batch([pa.array([1, None, 3], pa.int32()), words], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, metadata={"in": "footer", "n": "2"}) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(1))
    data = sink.getvalue()
    raw = data.to_pybytes()
    assert raw[-6:] == b"ARROW1"
    size = int.from_bytes(raw[-10:-6], "little")
    footer = FlatReader(raw[-10 - size : -10]).root("Footer")
    reader = pa.ipc.open_file(data)
    assert footer["version"] == "V5"
    assert footer["custom_metadata"] == pairs(reader.metadata) == pairs({b"in": b"footer", b"n": b"2"})
    assert footer["schema"]["custom_metadata"] == pairs(schema.metadata)
    assert [field["name"] for field in footer["schema"]["fields"]] == schema.names
    assert len(footer["recordBatches"]) == reader.num_record_batches == 2
    assert len(footer["dictionaries"]) == 1
    for kind, blocks in (("DictionaryBatch", "dictionaries"), ("RecordBatch", "recordBatches")):
        for index, block in enumerate(footer[blocks]):
            assert block["offset"] % 8 == block["metaDataLength"] % 8 == 0
            size = block["metaDataLength"] + block["bodyLength"]
            found = read_message(pa.ipc.read_message(data.slice(block["offset"], size)))
            assert found["header_type"] == kind
            assert found["bodyLength"] == block["bodyLength"]
            if kind == "RecordBatch":
                assert found["header"]["length"] == reader.get_batch(index).num_rows


def test_tensor() -> None:
    pa = pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensor = pa.Tensor.from_numpy(values, dim_names=["x", "y", "z"])
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(tensor, sink)
    message = pa.ipc.read_message(sink.getvalue())
    found = read_message(message)
    assert found["header_type"] == "Tensor"
    header = found["header"]
    assert (header["type_type"], header["type"]) == ("FloatingPoint", {"precision": "SINGLE"})
    dims = zip(tensor.shape, tensor.dim_names, strict=True)
    assert header["shape"] == [{"size": size, "name": name} for size, name in dims]
    assert header["strides"] == list(tensor.strides)
    extent = header["data"]
    body = message.body.to_pybytes()
    assert body[extent["offset"] : extent["offset"] + extent["length"]] == values.tobytes()


# What the reader of the schemas accepts.


def layout_of(directory: Path, text: str) -> Layout:
    """The layout of a schema file written for one test."""
    (directory / "one.fbs").write_text(text)
    return Layout(directory)


def test_order_of_fields_decides_the_slots(tmp_path: Path) -> None:
    shutil.copytree(FORMAT, tmp_path / "format")
    schema = tmp_path / "format" / "Schema.fbs"
    text = schema.read_text()
    swapped = text.replace("  nullable: bool;\n  type: Type;\n", "  type: Type;\n  nullable: bool;\n")
    assert swapped != text
    schema.write_text(swapped)
    numbers = Layout(tmp_path / "format").constants()
    changed = {name: value for name, value in numbers.items() if value != NUMBERS[name]}
    assert changed == {"Field_type_type": 6, "Field_type": 8, "Field_nullable": 10}


def test_structs_are_naturally_aligned(tmp_path: Path) -> None:
    text = "enum E : ushort { A = 0 } struct S { a: byte; b: E; c: bool; d: long; e: int; }"
    numbers = layout_of(tmp_path, text).constants()
    assert [numbers[f"S_{name}"] for name in ("a", "b", "c", "d", "e", "SIZE")] == [0, 2, 4, 8, 16, 24]


@pytest.mark.parametrize(
    "text",
    [
        # Words of the language that could move a slot.
        "table T { a: int (id: 1); }",
        "table T { a: int (deprecated); }",
        "struct S (force_align: 16) { a: int; }",
        "union U { A: T } table T {}",
        'attribute "x";',
        # Not a schema.
        "table T { a: int }",
        "table T { a: int;",
        "enum E { A = 0 }",
        "enum E : int { A = 0 B = 1 }",
        "table T : int {}",
        "table T {} table T {}",
        "?",
    ],
)
def test_nothing_is_skipped(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"one\.fbs"):
        layout_of(tmp_path, text)
