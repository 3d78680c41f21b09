"""Values of extension types as what they mean in Python, anywhere in a column, and only when asked (issue 23)."""

import datetime as dt
import json
import struct
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from columns.variants import encoded, primitive
from helpers.arrays import ipc_bytes, read, read_array, read_batch

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UnsupportedError, UsageError, types as T
from arrowipc.columns.extensions import MEANINGS
from arrowipc.tensors.extension_columns import fixed_shape_tensor, variable_shape_tensor

IDS = [uuid.UUID(int=1), None, uuid.UUID(int=2**128 - 1)]
UTC = dt.UTC


def stored(name: str, values: list, kind: T.DataType, metadata: bytes = b"") -> ipc.Array:
    """A column that says that it is of an extension type."""
    pairs = [(b"ARROW:extension:name", name.encode()), (b"ARROW:extension:metadata", metadata)]
    return ipc.RecordBatch.from_pydict({"x": values}, ipc.Schema([T.field("x", kind, metadata=pairs)]))["x"]


def variants(*pairs: tuple[bytes, bytes] | None) -> ipc.Array:
    kind = T.struct([T.field("metadata", T.binary(), nullable=False), T.field("value", T.binary())])
    rows = [pair and {"metadata": pair[0], "value": pair[1]} for pair in pairs]
    return stored("arrow.parquet.variant", rows, kind)


def moments(pairs: list, unit: str = "us", offset: T.DataType | None = None) -> ipc.Array:
    fields = [T.field("timestamp", T.timestamp(unit, "UTC")), T.field("offset_minutes", offset or T.int16())]
    rows = [pair and {"timestamp": pair[0], "offset_minutes": pair[1]} for pair in pairs]
    return stored("arrow.timestamp_with_offset", rows, T.struct(fields))


def pyarrow_columns() -> dict[str, pa.Array]:
    tensor = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    storage = {
        pa.uuid(): pa.array([each and each.bytes for each in IDS], pa.binary(16)),
        pa.bool8(): pa.array([0, None, -3, 1], pa.int8()),
        pa.json_(): pa.array(['{"a": [1, 2.5, {}]}', None, '"é"', "null"]),
        pa.json_(pa.string_view()): pa.array(["[]", None], pa.string_view()),
        pa.opaque(pa.int32(), "thing", "somebody"): pa.array([1, None]).cast(pa.int32()),
        tensor: pa.array([[1, 2, 3, 4, 5, 6], None], tensor.storage_type),
    }
    return {str(kind): pa.ExtensionArray.from_storage(kind, values) for kind, values in storage.items()}


@pytest.mark.parametrize("name", pyarrow_columns())
def test_values_are_those_of_pyarrow(name):
    theirs = pyarrow_columns()[name]
    expected = theirs.to_pylist()
    if "json" in name:  # pyarrow leaves the text to the caller
        expected = [each and json.loads(each) for each in expected]
    if "tensor" in name:  # and gives tensors as flat lists (alone, with the wrong strides where they are permuted)
        expected = [theirs[:1].to_numpy_ndarray()[0].tolist(), None]
    ours = read_array(theirs)
    assert ours.to_pylist(extensions=True) == expected
    assert [type(each) for each in ours.to_pylist(extensions=True)] == [type(each) for each in expected]
    # Without being asked, UUIDs and booleans are what they mean; other values, and all if told so, are as stored.
    for values in (ours.to_pylist(), ours.to_pylist(extensions=None), list(ours), [ours[i] for i in range(len(ours))]):
        assert list(map(repr, values)) == list(map(repr, theirs.to_pylist()))
    assert ours.to_pylist(extensions=False) == theirs.storage.to_pylist()


@pytest.mark.parametrize("name", pyarrow_columns())
def test_nulls_are_filled_with_what_the_values_mean(name):
    column = read_array(pyarrow_columns()[name])
    for value in (column[0], *([True, False] if "bool8" in name else [])):
        filled = column.fill_null(value)
        assert filled.to_pylist() == [value if each is None else each for each in column.to_pylist()]
        assert filled.field.extension_name == column.field.extension_name


@pytest.mark.parametrize("rows", [slice(None), slice(1, None), slice(0, 0)])
def test_every_way_out_knows_them(rows):
    made = pa.record_batch({"u": pyarrow_columns()["extension<arrow.uuid>"], "n": pa.array([1, 2, 3])})
    batch = read_batch(made)[rows]
    table = ipc.Table.from_batches([batch, batch])
    expected = [{"u": u, "n": n} for u, n in zip(IDS, [1, 2, 3], strict=True)][rows]
    for found, times in ((batch, 1), (table, 2)):
        assert found.to_pylist(extensions=True) == expected * times
        assert found.to_pydict(extensions=True) == {k: [row[k] for row in expected] * times for k in "un"}
        assert list(found.iter_rows(extensions=True)) == [tuple(row.values()) for row in expected] * times
        assert list(found.iter_rows(named=True, extensions=True)) == expected * times


U = T.field("u", T.binary(16), metadata=[(b"ARROW:extension:name", b"arrow.uuid")])
A, _, B = IDS
NESTED = {
    "struct": (T.struct([U]), [{"u": A}, {"u": None}, None, {"u": B}]),
    "list": (T.list_(U), [[A, None], [], None, [B]]),
    "large_list_view": (T.large_list_view(U), [[A, None], [], None, [B]]),
    "fixed_size_list": (T.list_(U, 2), [[A, None], None, [B, B]]),
    "map": (T.map_(T.int8(), U), [[(1, A)], [(2, None), (3, B)], None]),
    "union": (T.dense_union([U, T.field("n", T.int64())]), [A, 5, None, B, 6]),
    "sparse_union": (T.sparse_union([U, T.field("n", T.int64())]), [A, 5, B]),
    "runs": (T.run_end_encoded(T.int32(), U), [A, A, None, B]),
    "struct_of_lists": (T.struct([T.field("l", T.list_(T.field("item", T.struct([U]))))]), [{"l": [{"u": B}, None]}]),
}


def as_stored(value):
    """The value with bytes in place of what they mean."""
    if isinstance(value, list | tuple):
        return type(value)(map(as_stored, value))
    return {k: as_stored(v) for k, v in value.items()} if isinstance(value, dict) else getattr(value, "bytes", value)


@pytest.mark.parametrize("name", NESTED)
def test_they_are_found_inside_other_types(name):
    kind, expected = NESTED[name]
    codes = {uuid.UUID: 0, int: 1, type(None): 1} if "union" in name else {}
    given_as = [(codes[type(v)], as_stored(v)) if codes else as_stored(v) for v in expected]
    made = ipc.Array.from_pylist(given_as, kind)
    batch = ipc.RecordBatch.from_pydict({"x": made}, ipc.Schema([T.field("x", kind)]))
    for array in (made, read(ipc_bytes(batch))[0]["x"]):
        assert array.to_pylist(extensions=True) == expected
        assert array.to_pylist() == expected
        assert array.to_pylist(extensions=False) == as_stored(expected)
        assert array[1:].to_pylist(extensions=True) == expected[1:]
        assert array.take([-1, 0]).to_pylist(extensions=True) == [expected[-1], expected[0]]


def test_dictionary_values_are_converted_once():
    array = stored("arrow.json", ["[1]", None, "[2]", "[1]"], T.dictionary(T.int8(), T.utf8()))
    batch = ipc.RecordBatch.from_pydict({"x": array}, ipc.Schema([array.field]))
    for found in (
        array,
        read(ipc_bytes(batch))[0]["x"],
        array.take([0, 1, 2, 3]),
        ipc.concat_batches([batch, batch])["x"][4:],
    ):
        values = found.to_pylist(extensions=True)
        assert values == [[1], None, [2], [1]]
        assert values[0] is values[3]


def test_moments_have_their_offset():
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=UTC)
    expected = [noon.astimezone(dt.timezone(dt.timedelta(minutes=m))) for m in (0, 330, -779, 840)]
    for kind in (T.int16(), T.dictionary(T.int8(), T.int16()), T.run_end_encoded(T.int16(), T.field("v", T.int16()))):
        for unit in ("s", "ms", "us", "ns"):
            pairs = [(noon, 0), (noon, 330), (noon, -779), None, (noon, 840), (noon, None), (None, 5)]
            found = moments(pairs, unit, kind).to_pylist(extensions=True)
            assert found == [*expected[:3], None, expected[3], noon, None]
            assert [each and each.utcoffset() for each in found[:3]] == [each.utcoffset() for each in expected[:3]]
    with pytest.raises(FormatError, match=r"column 'x', value 1: .*1440 minutes, found -1440"):
        moments([(noon, 1), (noon, -1440)]).to_pylist(extensions=True)


def test_moments_that_no_datetime_holds_stay_as_they_are_stored():
    for array in (moments([(2**62, 0)]), moments([(dt.datetime(1, 1, 1, tzinfo=UTC), -60)])):
        assert array.to_pylist(extensions=True) == array.to_pylist()
    with pytest.raises(UnsupportedError, match=r"column 'x.timestamp', value 1: 5 ns are no whole microseconds"):
        moments([(5000, 0), (5, 0)], "ns").to_pylist(extensions=True)


@pytest.mark.parametrize("permutation", [None, [2, 0, 1]])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (0, 3, 2), (3, 2, 0)])
def test_tensors_are_nested_lists_as_numpy_makes_them(shape, permutation):
    size = int(np.prod(shape))
    fixed = fixed_shape_tensor("x", T.int16(), shape, permutation=permutation)
    varying = variable_shape_tensor("x", T.int16(), 3, permutation=permutation)
    flat = [list(range(size)), list(range(size, 2 * size))]
    for field, values in ((fixed, flat), (varying, [{"data": each, "shape": list(shape)} for each in flat])):
        array = ipc.RecordBatch.from_pydict({"x": values}, ipc.Schema([field]))["x"]
        assert array.to_pylist(extensions=True) == [each.tolist() for each in array.to_numpy()]


VALUES = [
    None, True, False, 0, -128, 127, 128, -(2**15), 2**31 - 1, 2**31, -(2**63), 1.5, float("inf"),
    Decimal("1.50"), Decimal("-99999999999.9"), Decimal(10**37), dt.date(1, 1, 1), dt.date(9999, 12, 31),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 5, 1, tzinfo=UTC), dt.time(23, 59, 59, 999999),
    b"", b"\xff" * 100, "", "é" * 31, "a" * 64, uuid.UUID(int=5), [], {}, [[], {}, [None]],
    {"": True, "a": 1, "b": {"a": [1, "x", {"ü": None}]}},
]  # fmt: skip


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_variants_are_the_values_that_they_encode(width, large):
    values = [*VALUES, VALUES[:20]]
    found = variants(None, *[encoded(value, width, large) for value in values]).to_pylist(extensions=True)
    assert found == [None, *values]
    assert list(map(type, found[1:])) == list(map(type, values))
    assert list(map(str, found[1:])) == list(map(str, values))


def test_variants_of_spark_are_the_values_that_it_reads():
    tools = pytest.importorskip("pyspark.sql.variant_utils").VariantUtils
    texts = ['{"b": [1, 2.5, {"a": null, "c": "é"}], "a": 1e300}', "[" * 50 + "]" * 50, '"' + "x" * 99 + '"', "1.25"]
    for text in (*texts, json.dumps({str(i): i**5 for i in range(300)}), json.dumps(list(range(70000)))):
        value, metadata = tools.parse_json(text)
        assert variants((metadata, value)).to_pylist(extensions=True) == [tools.to_python(value, metadata)]


def test_numbers_of_variants_that_python_has_no_class_for_stay_numbers():
    far = [primitive(kind, struct.pack("<q", 2**62)) for kind in (12, 13, 17)]
    cells = [*far, primitive(11, struct.pack("<i", 2**31 - 1)), primitive(14, struct.pack("<f", 0.5))]
    found = variants(*[(b"\x01\0\0", cell) for cell in cells]).to_pylist(extensions=True)
    assert found == [2**62] * 3 + [2**31 - 1, 0.5]


@pytest.mark.parametrize("kind", [18, 19])
def test_nanoseconds_of_variants_are_those_of_columns(kind):
    cells = [(b"\x01\0\0", primitive(kind, struct.pack("<q", ticks))) for ticks in (5000, 5001)]
    zone = UTC if kind == 18 else None
    assert variants(cells[0]).to_pylist(extensions=True) == [dt.datetime(1970, 1, 1, 0, 0, 0, 5, zone)]
    with pytest.raises(UnsupportedError, match=r"column 'x', value 1: .* 5001 ns are no whole microseconds"):
        variants(*cells).to_pylist(extensions=True)


def deep(levels: int) -> bytes:
    value = b"\x00"
    for _ in range(levels):
        value = b"\x0b\x01\0\0\0" + len(value).to_bytes(3, "little") + value
    return value


BROKEN = {
    "empty": (b"\x01\0\0", b""),
    "no metadata": (b"", b"\0"),
    "cut number": (b"\x01\0\0", primitive(6, b"1234")),
    "text beyond the end": (b"\x01\0\0", primitive(16, struct.pack("<I", 2**32 - 1))),
    "no UTF-8": (b"\x01\0\0", b"\x05\xff"),
    "scale": (b"\x01\0\0", primitive(8, b"\x27\0\0\0\0")),
    "count beyond the end": (b"\x01\0\0", b"\x13" + struct.pack("<I", 2**32 - 1)),
    "value beyond the end": (b"\x01\0\0", b"\x03\x01\x05\x06\0"),
    "last offset beyond the end": (b"\x01\0\0", b"\x03\x01\x00\x09\0"),
    "no such name": (b"\x01\0\0", b"\x02\x01\x00\x00\x01\0"),
    "name beyond the end": (b"\x01\x01\x00\x09", b"\x02\x01\x00\x00\x01\0"),
    "name that ends first": (b"\x01\x01\x02\x01abc", b"\x02\x01\x00\x00\x01\0"),
    "names that overlap": (b"\x01\x03\x00\x06\x00\x06abcdef", b"\x02\x02\x00\x02\x00\x01\x02\0\0"),
    "field twice": (b"\x01\x01\x00\x01a", b"\x02\x02\x00\x00\x00\x01\x02\0\0"),
    # Eight of nine arrays of two have the same value twice: 2**9 values in 50 bytes.
    "values that overlap": (b"\x01\0\0", b"".join(b"\x03\x02\0\0" + bytes([5 * i]) for i in range(9, -1, -1)) + b"\0"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_variants_are_an_error_that_says_where(what):
    array = variants(encoded(1), BROKEN[what])
    assert len(array.to_pylist()) == 2
    with pytest.raises(FormatError, match=r"column 'x', value 1: arrow\.parquet\.variant: "):
        array.to_pylist(extensions=True)


def test_variants_of_another_version_or_type_are_not_supported():
    for pair in ((b"\x02\0\0", b"\0"), (b"\x01\0\0", primitive(21))):
        with pytest.raises(UnsupportedError):
            variants(pair).to_pylist(extensions=True)


def test_nesting_and_numbers_of_values_are_bounded():
    assert str(variants((b"\x01\0\0", deep(100))).to_pylist(extensions=True)[0]).count("[") == 100
    with pytest.raises(LimitError, match="128 levels"):
        variants((b"\x01\0\0", deep(200))).to_pylist(extensions=True)
    with pytest.raises(LimitError, match="nested too deeply"):
        stored("arrow.json", ["[" * 100_000], T.utf8()).to_pylist(extensions=True)
    json_text = "[" + "0," * 999 + "0]"
    for array in (stored("arrow.json", [json_text], T.utf8()), variants(encoded([0] * 1000, 4, True))):
        assert array.to_pylist(extensions=True) == [[0] * 1000]
        with pytest.raises(LimitError, match="max_values"):
            array.to_pylist(extensions=True, max_values=1000)
    huge = stored("arrow.fixed_shape_tensor", [[]], T.list_(T.int8(), 0), b'{"shape": [2000000000, 0]}')
    with pytest.raises(LimitError):
        huge.to_pylist(extensions=True)


def test_broken_json_is_an_error_that_says_where():
    with pytest.raises(FormatError, match=r"column 'x', value 1: arrow\.json: Expecting value"):
        stored("arrow.json", ["1", "[1,"], T.utf8()).to_pylist(extensions=True)


ODD = {
    "arrow.uuid": (T.binary(), [b"1234"]),
    "arrow.bool8": (T.uint8(), [1]),
    "arrow.json": (T.binary(), [b"[1]"]),
    "arrow.fixed_shape_tensor": (T.list_(T.int8(), 3), [[1, 2, 3]]),
    "arrow.variable_shape_tensor": (T.list_(T.int8()), [[1, 2, 3]]),
    "arrow.timestamp_with_offset": (T.struct([T.field("timestamp", T.timestamp("us"))]), [{"timestamp": None}]),
    "arrow.parquet.variant": (T.struct([T.field("metadata", T.binary()), T.field("typed_value", T.int8())]), [None]),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_what_is_stored_otherwise_than_its_type_asks_for_stays_as_it_is(name):
    kind, values = ODD[name]
    assert stored(name, values, kind, b"{broken").to_pylist(extensions=True) == values


def test_functions_of_the_caller_add_to_the_table_and_replace_its_rows():
    point = struct.pack("<BIdd", 1, 1, 2.0, 3.0)
    shapes = stored("geoarrow.wkb", [point, None], T.binary())
    assert shapes.to_pylist(extensions=True) == [point, None]
    assert shapes.to_pylist(extensions={"geoarrow.wkb": len}) == [21, None]
    ids = stored("arrow.uuid", [A.bytes], T.binary(16))
    assert ids.to_pylist(extensions={"other": len}) == [A]
    assert ids.to_pylist(extensions={"arrow.uuid": bytes.hex}) == [A.hex]
    with pytest.raises(ZeroDivisionError):
        ids.to_pylist(extensions={"arrow.uuid": lambda _: 1 / 0})
    for wrong in (1, "arrow.uuid", ["arrow.uuid"], {"arrow.uuid": 1}):
        with pytest.raises(UsageError, match="extensions: expected True, False or a mapping"):
            ids.to_pylist(extensions=wrong)
