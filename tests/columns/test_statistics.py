"""Statistics of batches: what they say is true of the rows, and they survive the metadata of a message."""

import json
import math
import zlib
from collections.abc import Iterator
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columns.broken import BROKEN, forged
from helpers import forge, randoms
from helpers.arrays import FORMS, ipc_bytes, read_batch, stored
from helpers.arrow_columns import ARRAYS, everything
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import ColumnStatistics, FormatError, UsageError
from arrowipc.filters.column_statistics import LONGEST
from arrowipc.filters.statistics import STATISTICS_KEY, encode_statistics, entries_of, mark_of, statistics_in
from arrowipc.types import field, int64, struct

NO_COLUMNS = ipc.Schema([])
EXACT = Context(prec=90)
FLOATS = ("float16", "float32", "float64")
PRESENT = object()  # a value that has no order


# -- what is expected, the slow way --------------------------------------------------------------------------


def values_stored(array: pa.Array) -> list[Any]:
    """The values of each row as they are stored, behind dictionaries and runs; PRESENT: it has no order."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return values_stored(array.storage)
    if pa.types.is_dictionary(kind):
        values = values_stored(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if pa.types.is_run_end_encoded(kind):
        ends, values = array.run_ends.to_pylist(), values_stored(array.values)
        rows = range(array.offset, array.offset + len(array))
        return [next(value for end, value in zip(ends, values, strict=True) if end > row) for row in rows]
    if pa.types.is_union(kind):
        return [PRESENT] * len(array)
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        return [PRESENT if valid else None for valid in array.is_valid().to_pylist()]
    if pa.types.is_decimal(kind):
        return [v if v is None else int(v.scaleb(kind.scale, EXACT)) for v in array.to_pylist()]
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    return array.to_pylist()


def expected(path: str, array: pa.Array, parents: list[bool]) -> Iterator[tuple[str, list[Any]]]:
    """Paths and values of a column and of the members of structs, null where a struct around them is."""
    rows = [value if alive else None for value, alive in zip(values_stored(array), parents, strict=True)]
    yield path, rows
    if pa.types.is_struct(array.type):
        for index, field in enumerate(array.type):
            yield from expected(f"{path}.{field.name}", array.field(index), [row is not None for row in rows])


def order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def check(path: str, rows: list[Any], found: ColumnStatistics, encoded: str = "") -> None:
    """One column's statistics against its rows; those of an encoded one may leave more open than they must."""
    assert found.rows == len(rows)
    if found.null_count is None:
        assert encoded, path
    else:
        assert found.null_count == rows.count(None), path
    values = [v for v in rows if v is not None and v is not PRESENT and v == v]
    if found.has_nan is not None:
        assert found.has_nan == any(v != v for v in rows if v is not None)
    if not values or ("run_end" in encoded and found.min is None):
        assert (found.min, found.max) == (None, None), path
        return
    least, most = min(values, key=order), max(values, key=order)
    assert type(found.min) is type(least), path
    check_bound(least, found.min, found.min_is_exact, -1)
    check_bound(most, found.max, found.max_is_exact, 1)


def check_bound(value: Any, bound: Any, exact: bool, side: int) -> None:
    if exact:
        assert bound == value
        if value == 0 and isinstance(value, float):
            assert math.copysign(1, bound) == side
        return
    assert len(order(value)) > LONGEST
    assert side == 1 if bound is None else len(order(bound)) <= LONGEST
    assert bound is None or ((order(bound) < order(value)) if side < 0 else (order(bound) > order(value)))


def check_batch(batch: ipc.RecordBatch, source: pa.RecordBatch) -> None:
    found = ipc.compute_statistics(batch)
    wanted = [
        (path, rows, str(array.type))
        for name, array in zip(source.schema.names, source.columns, strict=True)
        for path, rows in expected(name, array, [True] * len(array))
    ]
    paths = [path for path, _, _ in wanted]
    assert set(found) == {path for path in paths if paths.count(path) == 1}
    for path, rows, kind in wanted:
        if path in found:
            check(path, rows, found[path], kind if "run_end" in kind or "dictionary" in kind else "")


# -- the kernel ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type_and_every_slice_of_it(name):
    source = pa.record_batch([ARRAYS[name]], names=["x"])
    for batch in (read_batch(source), ipc.RecordBatch.from_arrow(source)):
        for start in range(source.num_rows + 1):
            for length in range(source.num_rows - start + 1):
                check_batch(batch.slice(start, length), source.slice(start, length))


@given(randoms.batches(most_rows=40, most_batches=1), st.data())
def test_statistics_are_true_of_any_slice_of_any_batch(parts, data):
    for source in parts:
        start = data.draw(st.integers(0, source.num_rows))
        length = data.draw(st.integers(0, source.num_rows - start))
        for batch in (read_batch(source), ipc.RecordBatch.from_arrow(source)):
            check_batch(batch.slice(start, length), source.slice(start, length))


@pytest.mark.parametrize(
    "kind", ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), *FLOATS]
)
@pytest.mark.parametrize("nulls", [0.0, 0.02, 0.5, 1.0])
def test_long_columns_at_any_start(kind, nulls):
    chance = np.random.default_rng(7)
    size = 1000
    if kind == "bool":
        values = chance.random(size) < 0.01
    elif "float" in kind:
        values = chance.normal(size=size).astype(kind)
        values[chance.integers(0, size, 9)] = np.nan
        words = values.view(f"u{values.itemsize}")
        words[chance.integers(0, size, 9)] = np.array(np.inf, kind).view(words.dtype) + 1  # NaN that signals
    else:
        edges = np.iinfo(kind)
        values = chance.integers(edges.min, edges.max, size, kind, endpoint=True)
    array = pa.array(values, mask=chance.random(size) < nulls)
    source = pa.record_batch([array], names=["x"])
    batch = ipc.RecordBatch.from_arrow(source)
    for start in (0, 1, 7, 8, 55, 56, 57, 64, 999, 1000):
        for length in (0, 1, 2, 55, 56, 57, 63, 64, 65, 500, 1000):
            length = min(length, size - start)
            check_batch(batch.slice(start, length), source.slice(start, length))


def one(array: pa.Array) -> ColumnStatistics:
    return ipc.compute_statistics(ipc.record_batch([array], ["x"]))["x"]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("values", "bounds", "has_nan"),
    [
        *[(values, (None, None), True) for values in ([math.nan], [math.nan] * 100, [math.nan, None])],
        ([math.nan] * 20 + [2.0, -1.0] + [math.nan] * 20, (-1.0, 2.0), True),
        ([1.0, math.inf, -math.inf], (-math.inf, math.inf), False),
        *[(zeros, (-0.0, 0.0), False) for zeros in ([0.0], [-0.0], [0.0, -0.0], [-0.0, 0.0, 0.0])],
    ],
)
def test_nan_is_reported_and_no_bound_and_bounds_hold_both_zeros(kind, values, bounds, has_nan):
    found = one(pa.array(values, kind))
    assert (repr((found.min, found.max)), found.has_nan) == (repr(bounds), has_nan)


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string(), pa.string_view()])
def test_long_texts_are_cut_between_characters(layout):
    def bounds(*values: str) -> tuple[str, str | None, bool, bool]:
        return one(pa.array(values, layout))[2:6]

    assert bounds("a" * 64) == ("a" * 64, "a" * 64, True, True)
    assert bounds("a" * 65) == ("a" * 64, "a" * 63 + "b", False, False)
    assert bounds("a" * 64, "a" * 65) == ("a" * 64, "a" * 63 + "b", True, False)
    assert bounds("a" * 63 + "é")[:2] == ("a" * 63, "a" * 62 + "b")
    assert bounds("é" * 40)[:2] == ("é" * 32, "é" * 31 + "ê")
    assert bounds("\U0010ffff" * 20)[:2] == ("\U0010ffff" * 16, None)
    assert bounds("x" + "\U0010ffff" * 20)[:2] == ("x" + "\U0010ffff" * 15, "y")
    assert bounds("\ud7ff" * 30)[1] == "\ud7ff" * 20 + "\ue000"
    # Increased, this character takes a byte more than there is room for.
    assert bounds("a" * 63 + "\x7f" + "b")[1] == "a" * 62 + "b"


@pytest.mark.parametrize("layout", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(70)])
def test_long_bytes_are_cut(layout):
    def bounds(value: bytes) -> tuple[bytes, bytes | None, bool, bool]:
        return one(pa.array([value], layout))[2:6]

    assert bounds(b"a" * 70) == (b"a" * 64, b"a" * 63 + b"b", False, False)
    assert bounds(b"\xff" * 70) == (b"\xff" * 64, None, False, False)
    assert bounds(b"\0" + b"\xff" * 69) == (b"\0" + b"\xff" * 63, b"\1", False, False)


def test_only_the_dictionary_values_in_use_count():
    words = pa.array(["zz", "b", None, "a", "c"])
    for large in (False, True):
        dictionary = pa.concat_arrays([words, pa.array([f"A{i}" for i in range(1000)])]) if large else words
        found = one(pa.DictionaryArray.from_arrays(pa.array([1, 4, None, 2, 1]), dictionary))
        assert found == (5, 2 if large else None, "b", "c", True, True, None)
    assert one(pa.DictionaryArray.from_arrays(pa.array([1, None, 3]), words)).null_count == 1
    assert one(pa.DictionaryArray.from_arrays(pa.array([0, None, 0]), pa.nulls(1))).null_count is None
    assert one(pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), words)).null_count == 2


def test_some_columns():
    batch = ipc.RecordBatch.from_arrow(pa.record_batch({"a": [1], "b": [2], "s": [{"x": 1}]}))
    assert set(ipc.compute_statistics(batch, ["b", "s"])) == {"b", "s", "s.x"}
    with pytest.raises(UsageError, match="no column 'z'"):
        ipc.compute_statistics(batch, ["z"])
    with pytest.raises(UsageError, match="expected True, False or names"):
        ipc.compute_statistics(batch, "b")


NOT_UTF8 = ([forge.field("x", forge.UTF8)], forge.batch(2, [(2, 0)], [b"", forge.i32(0, 1, 3), b"\xffbc"]))
TEXTS = {name: each for name, each in BROKEN.items() if each[0][0].slots["type"].kind in ("Utf8", "Binary", "Utf8View")}


@pytest.mark.parametrize("name", [*TEXTS, "not UTF-8"])
def test_broken_texts_are_refused(name):
    batch = forged(*TEXTS.get(name, NOT_UTF8))
    with pytest.raises(FormatError, match="x"):
        ipc.compute_statistics(batch)
    with ipc.new_stream(bytearray(), batch.schema, statistics=True) as writer, pytest.raises(FormatError):
        writer.write_batch(batch)


def test_a_broken_null_count_is_not_believed():
    rows = forge.batch(3, [(3, 2)], [forge.bits(1, 0, 1), forge.i32(5, -9, 7)])
    batch = forged([forge.field("x", forge.INT32)], rows)
    assert ipc.compute_statistics(batch)["x"] == (3, 1, 5, 7, True, True, None)


def test_billions_of_empty_values_take_no_time():
    many, kind = 2**31 - 1, forge.Table("FixedSizeBinary", byteWidth=0)
    batch = forged([forge.field("x", kind)], forge.batch(many, [(many, 0)], [b"", b""]))
    assert ipc.compute_statistics(batch)["x"] == (2**31 - 1, 0, b"", b"", True, True, None)


# -- the form in metadata ------------------------------------------------------------------------------------


def test_the_form_is_the_documented_one():
    found = {
        "small": ColumnStatistics(3, 0, -(2**53), 2**53),
        "large": ColumnStatistics(3, 1, -(2**53) - 1, 2**64),
        "real": ColumnStatistics(3, None, -math.inf, 1e-300, has_nan=True),
        "text": ColumnStatistics(3, 0, "a", "é", False, True),
        "bytes": ColumnStatistics(3, 0, b"\0", None, True, False),
        "flag": ColumnStatistics(3, 0, False, True),
        "list": ColumnStatistics(3, 2, None, None),
    }
    schema = ipc.Schema([field("small", int64()), field("place", struct([field("é", int64())]))])
    data = encode_statistics(entries_of([(path, *each[1:]) for path, each in found.items()]), 3, mark_of(schema))
    assert decoded(data, schema) == found
    assert json.loads(data) == {
        "v": 1,
        "rows": 3,
        "names": zlib.crc32("small\0place\0place.é".encode()),
        "columns": {
            "small": {"nulls": 0, "kind": "int", "min": -(2**53), "max": 2**53},
            "large": {"nulls": 1, "kind": "int", "min": "-9007199254740993", "max": "18446744073709551616"},
            "real": {"kind": "float", "min": "-inf", "max": 1e-300, "nan": True},
            "text": {"nulls": 0, "kind": "text", "min": "a", "max": "é", "min_exact": False},
            "bytes": {"nulls": 0, "kind": "binary", "min": "AA==", "max_exact": False},
            "flag": {"nulls": 0, "kind": "bool", "min": False, "max": True},
            "list": {"nulls": 2},
        },
    }


def decoded(document: Any, schema: ipc.Schema = NO_COLUMNS) -> dict[str, ColumnStatistics] | None:
    """What is read of the bytes of a document, or of an object in them, as statistics of three rows."""
    if isinstance(document, dict):
        document = {"names": mark_of(schema), **document}
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return statistics_in(ipc.KeyValueMetadata({STATISTICS_KEY: data}), mark_of(schema), 3)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        None,
        {},
        {"v": 2, "rows": 3, "columns": {}},
        {"v": 1, "rows": -1, "columns": {}},
        {"v": 1, "rows": 3, "columns": []},
        {"v": 1, "rows": 4, "columns": {}},
        *[{"v": 1, "rows": 3, "names": names, "columns": {}} for names in (7, None)],
    ],
)
def test_foreign_documents_are_no_statistics(document):
    assert decoded(document) is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {"nulls": -1},
        {"nulls": 4},
        {"min": 1},
        {"kind": "int", "min": []},
        {"kind": "int", "min": "1e3"},
        {"kind": "int", "min": "٣"},
        {"nan": 1},
        {"kind": "int", "min": 1.5},
        {"kind": "int", "min": 2, "max": 1},
        {"kind": "float", "min": "nan"},
        {"kind": "float", "min": 10**400},
        {"kind": "text", "min": 1},
        {"kind": "text", "min": "é", "max": "z"},
        {"kind": "binary", "min": "===="},
        {"kind": "bool", "min": 0},
        {"kind": "date", "min": 1},
        {"kind": None, "max": 1},
        {"kind": "int", "min": 1, "min_exact": 0},
    ],
)
def test_columns_that_make_no_sense_are_left_out(entry):
    good = {"nulls": 0, "kind": "int", "min": 1, "max": "2"}
    document = {"v": 1, "rows": 3, "columns": {"bad": entry, "good": good}}
    assert decoded(document) == {"good": ColumnStatistics(3, 0, 1, 2)}


def test_what_is_unknown_is_passed_over():
    document = {"v": 1, "rows": 3, "more": [], "columns": {"x": {"nulls": 1, "distinct": 7}}}
    assert decoded(document) == {"x": ColumnStatistics(3, 1, None, None)}
    good = STATISTICS_KEY, json.dumps({**document, "names": mark_of(NO_COLUMNS)}).encode()
    for count in range(3):
        found = statistics_in(ipc.KeyValueMetadata([good] * count), mark_of(NO_COLUMNS), 3)
        assert (found is not None) is (count == 1)


# -- through writers and readers -----------------------------------------------------------------------------

NUMBERS = pa.record_batch({"n": list(range(10)), "t": [f"text {i}" if i % 3 else None for i in range(10)]})


def statistics_of(data: bytes) -> list[dict[str, ColumnStatistics] | None]:
    with ipc.open(data, index=True) as reader:
        mark, rows = mark_of(reader.schema), reader.batch_lengths()
        return [statistics_in(reader.get_batch_metadata(i), mark, rows[i]) for i in range(len(reader))]


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_written_batches_bring_their_statistics(kind, compression):
    parts = [everything(), everything().slice(1, 1), everything().slice(0, 0)]
    data = ipc_bytes(parts, kind, statistics=True, compression=compression)
    assert statistics_of(data) == [ipc.compute_statistics(ipc.RecordBatch.from_arrow(part)) for part in parts]
    assert data == ipc_bytes(parts, kind, statistics=True, compression=compression)
    plain = ipc_bytes(parts, kind, compression=compression)
    assert statistics_of(plain) == [None] * 3
    assert plain == ipc_bytes(parts, kind, compression=compression, statistics=False)


def test_no_writer_takes_statistics_from_its_caller():
    reader = ipc.open_file(ipc_bytes(NUMBERS, "file", statistics=True))
    batch, given = reader[0], reader.get_batch_metadata(0)
    for options, found in ({}, None), ({"statistics": ["n"]}, {"n": ColumnStatistics(2, 0, 8, 9)}):
        with ipc.new_stream(sink := bytearray(), batch.schema, **options) as writer:
            writer.write_batch(batch.slice(8), custom_metadata=given)
        assert statistics_of(bytes(sink)) == [found]
    nodes, buffers = [(10, 0)], batch["n"].buffers()
    made = ipc.RecordBatch.from_buffers(batch.select("n").schema, 10, nodes, buffers, custom_metadata=given)
    assert made.custom_metadata == {}


def test_statistics_of_other_rows_or_names_are_not_believed():
    reader = ipc.open_file(ipc_bytes(NUMBERS, "file", statistics=True))
    given, schema = reader.get_batch_metadata(0), reader.schema
    assert statistics_in(given, mark_of(schema), 10) == ipc.compute_statistics(ipc.RecordBatch.from_arrow(NUMBERS))
    assert statistics_in(given, mark_of(schema), 9) is None
    n, t = schema
    for fields in ([t, n], [n], [n, t, n], [field("t", n.type), field("n", t.type)], [field("n\0t", n.type), t]):
        assert statistics_in(given, mark_of(ipc.Schema(fields)), 10) is None


@pytest.mark.parametrize("how", ["bytes", "mapped", "unmapped"])
def test_metadata_of_a_batch_without_its_body(how, tmp_path):
    path = stored(tmp_path / "x.arrow", [NUMBERS, NUMBERS.slice(4, 3)], statistics=True)
    with ipc.open_file(path.read_bytes() if how == "bytes" else path, memory_map=how != "unmapped") as reader:
        pairs = [reader.get_batch_metadata(i) for i in (0, 1, -1)]
        assert reader.stats.num_messages == 1  # the footer's schema
        assert [json.loads(each[STATISTICS_KEY])["rows"] for each in pairs] == [10, 3, 3]
        assert pairs[1] == pairs[2]
        with pytest.raises(IndexError):
            reader.get_batch_metadata(2)
    with pytest.raises(UsageError, match="closed"):
        reader.get_batch_metadata(0)


def test_metadata_of_a_broken_batch_is_refused():
    data = bytearray(ipc_bytes(NUMBERS, "file", statistics=True))
    ((offset, _, _),) = ipc.open_file(bytes(data)).blocks
    data[offset + 8 : offset + 40] = b"\xff" * 32
    with pytest.raises(FormatError, match="record batch 0"):
        ipc.open_file(data).get_batch_metadata(0)
