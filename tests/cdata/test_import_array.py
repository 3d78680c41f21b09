"""Import over the Arrow C interfaces: what other libraries have, and when they get it back."""

import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import randoms
from helpers.arrays import CASES, address, pyarrow_bytes, read_batch
from helpers.arrow_columns import ARRAYS
from helpers.cdata import CArray, CDeviceArray, CSchema, peek, release, take
from helpers.processes import in_threads
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import types
from arrowipc.cdata.import_array import array_from, batch_from, live_imports, schema_from, stream_from

pa = pytest.importorskip("pyarrow")


# -- values ------------------------------------------------------------------------------------------------


def cuts(array: Any) -> Iterator[Any]:
    n = len(array)
    for offset, length in ((0, n), (1, n - 1), (1, max(n - 2, 0)), (n - 1, 1), (n, 0), (0, 0)):
        yield array.slice(offset, length)


def listed(array: Any) -> Any:
    """What pyarrow says, unless it is about nanoseconds, which ours keeps as integers."""
    return read_batch(pa.record_batch({"x": array}))["x"].to_pylist() if "[ns" in str(array.type) else array.to_pylist()


def same(found: ipc.Array, expected: Any) -> None:
    """Values as pyarrow says, null counts and bitmaps in order, and the way back."""
    assert found.to_pylist() == listed(expected)
    assert len(found) == len(expected)
    if not pa.types.is_union(expected.type) and not pa.types.is_run_end_encoded(expected.type):
        assert found.null_count == expected.null_count
    back = pa.array(found)
    back.validate()
    assert back.equals(expected)
    assert back.type.equals(expected.type, check_metadata=True)
    again = array_from(back, "full")
    assert again.equals(found)
    assert again.type.equals(found.type, check_metadata=True)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_and_their_slices(name: str) -> None:
    for part in cuts(ARRAYS[name]):
        same(array_from(part, "full"), part)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_batch_takes_the_offset_and_length_of_its_struct(name: str) -> None:
    # pyarrow hands over batches whose struct has no offset; a struct array keeps its own.
    if name == "sparse_union" and pa.__version__.startswith("24."):
        pytest.skip("pyarrow 24 reads None for a value of such a slice")
    struct = pa.StructArray.from_arrays([ARRAYS[name].slice(1)], ["x"])
    for part in cuts(struct):
        assert array_from(part, "full").to_pylist() == listed(part)
        found = batch_from(part, "full")
        same(found["x"], part.field(0))
        assert found.num_rows == len(part)


def test_columns_without_nulls_have_no_bitmap() -> None:
    array = pa.array([None, 1, 2])
    for found in (
        array_from(array.slice(1)),
        batch_from(pa.record_batch({"x": array}).slice(1))["x"],
        array_from(pa.StructArray.from_arrays([array.slice(1)], ["x"])).children[0],
    ):
        assert (found.null_count, found.buffers()[0]) == (0, None)


def test_nothing_is_copied() -> None:
    batch = pa.record_batch({"x": pa.array(range(100)), "s": pa.array(["a"] * 99 + ["b" * 99], pa.string_view())})
    found = batch_from(batch)
    for name in ("x", "s"):
        ours, theirs = found[name].buffers(), batch[name].buffers()
        assert [one and address(one) for one in ours] == [one and one.address for one in theirs]


def test_misaligned_buffers_are_copied_to_where_they_can_be_read() -> None:
    """FORMAT-CHECKLIST 74, of other producers."""
    raw = pa.py_buffer(b"x" + pa.array([1, 2, 3]).buffers()[1].to_pybytes())
    odd = pa.Array.from_buffers(pa.int64(), 3, [None, raw.slice(1)])
    found = array_from(odd)
    assert found.to_pylist() == [1, 2, 3]
    assert address(found.buffers()[1]) % 8 == 0


def test_batches_without_columns_keep_their_rows() -> None:
    struct = pa.array([{}] * 5, pa.struct([]))
    assert batch_from(struct).num_rows == 5
    assert batch_from(struct.slice(1, 3)).num_rows == 3
    assert batch_from(pa.record_batch([], schema=pa.schema([]))).num_columns == 0


@given(randoms.batches())
def test_import_is_what_the_ipc_reader_reads(parts: list[Any]) -> None:
    if not parts:
        return
    expected = list(ipc.open_stream(pyarrow_bytes(parts)))
    for part, read in zip(parts, expected, strict=True):
        found = batch_from(part, "full")
        assert found.equals(read, nan_equal=True)
        assert found.schema.equals(read.schema, check_metadata=True)
        assert batch_from(read.__arrow_c_array__(), "full").equals(read, nan_equal=True)
    with stream_from(pa.Table.from_batches(parts), "full") as stream:
        assert sum(len(batch) for batch in stream) == sum(len(part) for part in parts)


@given(randoms.types, st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**20))
def test_import_of_any_slice_of_any_array(kind: Any, start: int, length: int, seed: int) -> None:
    array = randoms.array_of(kind, 12, randoms.random.Random(seed)).slice(start, length)
    found = array_from(array, "full")
    assert found.equals(read_batch(pa.record_batch({"x": array}))["x"], nan_equal=True)


# -- sources -----------------------------------------------------------------------------------------------

TABLE = pa.table({"i": pa.chunked_array([[1, 2], [], [3]]), "s": pa.chunked_array([["a", None], [], ["c"]])})


def test_pyarrow_tables_readers_and_chunked_arrays() -> None:
    with stream_from(TABLE) as stream:
        assert stream.schema.names == ["i", "s"]
        assert [batch.to_pydict()["i"] for batch in stream if len(batch)] == [[1, 2], [3]]
    assert batch_from(TABLE).to_pydict() == TABLE.to_pydict()
    assert batch_from(TABLE.to_reader()).to_pydict() == TABLE.to_pydict()
    (first, *_) = stream_from(TABLE["s"])
    assert (first.schema.names, first.column(0).to_pylist()) == ([""], ["a", None])
    assert array_from(TABLE["s"]).to_pylist() == ["a", None, "c"]
    structs = pa.chunked_array([pa.array([{"a": 1}, None]), pa.array([{"a": 3}])])
    assert array_from(structs).to_pylist() == [{"a": 1}, None, {"a": 3}]


def test_streams_go_on_to_others() -> None:
    assert pa.table(ipc.table(TABLE).to_reader()).equals(TABLE)
    with stream_from(TABLE) as stream:
        next(stream)
        assert pa.table(stream).to_pydict() == {"i": [3], "s": ["c"]}


def test_streams_without_batches() -> None:
    empty = TABLE.schema.empty_table().to_reader()
    found = batch_from(pa.RecordBatchReader.from_batches(TABLE.schema, []))
    assert found.to_pydict() == {"i": [], "s": []}
    assert pa.record_batch(found).schema.equals(TABLE.schema)
    assert batch_from(empty).num_rows == 0
    encoded = pa.chunked_array([], pa.dictionary(pa.int8(), pa.string_view()))
    assert array_from(encoded).to_pylist() == []


def test_our_own() -> None:
    everything = pa.record_batch({name: array[:3] for name, array in CASES.items() if len(array) >= 3})
    ours = read_batch(everything)
    assert batch_from(ours) is ours
    assert array_from(ours["int8"]).to_pylist() == everything["int8"].to_pylist()
    assert schema_from(ours.schema) is ours.schema
    assert batch_from(ours.slice(1).__arrow_c_array__(), "full").equals(ours.slice(1))
    assert batch_from(ours.__arrow_c_device_array__(), "full").equals(ours)
    assert schema_from(ours).equals(ours.schema, check_metadata=True)
    with stream_from(ours) as single:
        assert [len(batch) for batch in single] == [3]
    data = pyarrow_bytes([everything, everything])
    with stream_from(ipc.open_stream(data), "full") as stream:
        assert stream.schema.equals(ours.schema, check_metadata=True)
        assert all(batch.equals(ours) for batch in stream)


def only_device(source: Any) -> Any:
    return SimpleNamespace(__arrow_c_device_array__=source.__arrow_c_device_array__)


def test_device_arrays_of_the_cpu() -> None:
    batch = pa.record_batch({"x": [1, 2]})
    assert batch_from(only_device(batch)).to_pydict() == {"x": [1, 2]}
    assert [b.to_pydict() for b in stream_from(only_device(batch))] == [{"x": [1, 2]}]
    assert array_from(only_device(pa.array([1, 2]))).to_pylist() == [1, 2]
    pair = batch.__arrow_c_device_array__()
    peek(pair[1], CDeviceArray).device_type = 2
    with pytest.raises(ipc.UsageError, match="device of type 2"):
        batch_from(pair)


@pytest.mark.parametrize("source", [None, 1, "x", b"", [1], {"a": 1}, object(), (), (1, 2), (1, 2, 3), pa])
@pytest.mark.parametrize("take_from", [schema_from, batch_from, array_from, stream_from])
def test_what_offers_nothing_is_refused_in_words(source: Any, take_from: Callable[[Any], Any]) -> None:
    with pytest.raises(ipc.UsageError, match=r"expected .*arrow_(c_)?schema|__arrow_c_.*found|PyCapsule"):
        take_from(source)


# -- schemas -----------------------------------------------------------------------------------------------


def test_schemas_keep_everything() -> None:
    """FORMAT-CHECKLIST 148."""
    pairs = ((b"k", b"1"), (b"k", b"2"), (b"", b""), (b"nul\0key", bytes(range(256))))
    words = types.Dictionary(types.Int(8, False), types.LargeUtf8(), ordered=True)
    entries = types.Struct([types.Field("k", types.Utf8(), False), types.Field("v", words, metadata=pairs)])
    extension = ((b"ARROW:extension:name", b"some.type"), (b"ARROW:extension:metadata", b"\0\xff"))
    schema = ipc.Schema(
        [
            types.Field("w", words, False, pairs),
            types.Field("w", types.Map(types.Field("e", entries, False), keys_sorted=True)),
            types.Field("", types.Timestamp("ns", "Europe/Köln"), metadata=extension),
            types.Field("é.x", types.Union("dense", [types.Field("a", words), types.Field("b", words)], [5, 0])),
            types.Field("r", types.run_end_encoded(types.int16(), types.Field("va", words))),
        ],
        pairs[::-1],
    )
    found = schema_from(schema.__arrow_c_schema__())
    assert found is not schema
    assert found.equals(schema, check_metadata=True)
    assert found[2].extension_name == "some.type"
    # pyarrow has names of its own for the children of maps and run-end encodings.
    through = schema_from(pa.schema(schema))
    assert through.equals(schema)
    assert through.metadata == schema.metadata
    assert [field.metadata for field in through] == [field.metadata for field in schema]


class Labelled(pa.ExtensionType):
    """An extension type that pyarrow does not know by itself."""

    def __init__(self, storage: Any, name: str = "some.type", parameters: bytes = b"\0\xff") -> None:
        self._parameters = parameters
        super().__init__(storage, name)

    def __arrow_ext_serialize__(self) -> bytes:
        return self._parameters


def encoded(kind: Any, storage: Any) -> Any:
    """Values of an extension type, dictionary-encoded."""
    values = pa.ExtensionArray.from_storage(kind, storage)
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), values)


CANONICAL = {
    "uuid": encoded(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16))),
    "json": encoded(pa.json_(), pa.array(["1", "2"])),
    "bool8": encoded(pa.bool8(), pa.array([0, 1], pa.int8())),
}
OTHERS = {
    "opaque": encoded(pa.opaque(pa.string(), "a", "b"), pa.array(["x", "y"])),
    "own": encoded(Labelled(pa.string()), pa.array(["x", "y"])),
}
FOUR = pa.array([0, 2, 4], pa.int32())
PLACES: dict[str, Callable[[Any], Any]] = {
    "column": lambda array: array,
    "list item": lambda array: pa.ListArray.from_arrays(FOUR, array),
    "struct": lambda array: pa.StructArray.from_arrays([array], ["s"]),
    "map value": lambda array: pa.MapArray.from_arrays(FOUR, pa.array([*"abcd"]), array),
    "union": lambda array: pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [array]),
    "run": lambda array: pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), array),
    "dictionary of lists": lambda array: pa.DictionaryArray.from_arrays(
        pa.array([1, 0], pa.int8()), pa.ListArray.from_arrays(FOUR, array)
    ),
}


def described(field: types.Field) -> list[Any]:
    """Names and metadata (in any order) of a field and all below it."""
    kind = field.type.value_type if isinstance(field.type, types.Dictionary) else field.type
    return [field.name, sorted(field.metadata.pairs), *map(described, kind.children)]


@pytest.mark.parametrize("name", [*CANONICAL, *OTHERS])
@pytest.mark.parametrize("place", PLACES)
def test_extension_types_of_dictionary_values_are_kept_where_ipc_has_a_place(place: str, name: str) -> None:
    table = pa.table({"x": PLACES[place]({**CANONICAL, **OTHERS}[name])})
    found = ipc.Table.from_arrow(table)
    # As pyarrow puts them into a Schema message.
    spelled = ipc.read_schema(table.schema.serialize())
    assert described(found.schema["x"]) == described(spelled["x"])
    assert described(schema_from(table.schema)["x"]) == described(spelled["x"])
    if name in CANONICAL:
        # pyarrow has no uuid of a dictionary, nor do canonical types allow it: it is the values' again.
        back = pa.table(found)
        assert back.schema.types == table.schema.types
        assert back.equals(table)


@pytest.mark.parametrize("name", CANONICAL)
def test_pyarrow_gets_what_it_wrote_and_cannot_read(name: str) -> None:
    table = pa.table({"x": CANONICAL[name]})
    data = pyarrow_bytes(table.to_batches())
    with pytest.raises(pa.ArrowInvalid, match="torage type"):
        pa.ipc.open_stream(data)
    assert pa.table(ipc.open_stream(data)).equals(table)


def test_metadata_beside_an_extension_type_stays_with_the_column() -> None:
    field = pa.field("x", CANONICAL["uuid"].type, metadata={"k": "v"})
    found = schema_from(pa.schema([field]))
    assert found["x"].metadata.pairs[0] == (b"k", b"v")
    assert found["x"].extension_name == "arrow.uuid"
    assert pa.schema(found).field("x").equals(field, check_metadata=True)


def test_extension_types_of_a_dictionary_and_of_its_values_do_not_fit_into_one_field() -> None:
    inner = OTHERS["own"].type
    for outer in (Labelled(inner, "other.type"), Labelled(inner, parameters=b"")):
        with pytest.raises(ipc.UnsupportedError, match=r"column 's\.x' has the extension type .* 'some\.type'"):
            schema_from(pa.schema([("s", pa.struct([("x", outer)]))]))
    assert schema_from(pa.schema([("x", Labelled(inner))]))["x"].extension_name == "some.type"
    named = pa.dictionary(pa.int8(), Labelled(pa.string(), parameters=b""))
    field = pa.field("x", named, metadata={"ARROW:extension:name": "some.type"})
    assert schema_from(pa.schema([field]))["x"].metadata.pairs == ((b"ARROW:extension:name", b"some.type"),)


def test_a_schema_must_be_of_a_struct() -> None:
    for column in (pa.int32(), pa.field("x", pa.list_(pa.int8())), pa.dictionary(pa.int8(), pa.struct([]))):
        with pytest.raises(ipc.UsageError, match="single column"):
            schema_from(column)
    with pytest.raises(ipc.UsageError, match="single column"):
        batch_from(pa.array([1]))


@pytest.mark.thread_unsafe(reason="asks which schemas are remembered")
def test_equal_schemas_are_one_object_and_others_are_not() -> None:
    def table(name: str = "a", kind: Any = None, nullable: bool = True, field: Any = None, whole: Any = None) -> Any:
        first = pa.field(name, kind or pa.int32(), nullable, field)
        return pa.schema([first, pa.field("b", pa.struct([pa.field("c", pa.string())]))], whole)

    first = schema_from(table())
    kinds = [{"kind": pa.uint32()}, {"kind": pa.dictionary(pa.int32(), pa.string())}]
    notes = [{"field": {"k": "v"}}, {"field": {"k": "v", "l": ""}}, {"whole": {"k": "v"}}]
    for changes in ({"name": "b"}, {"nullable": False}, *kinds, *notes):
        assert schema_from(table(**changes)) is schema_from(table(**changes))
        assert schema_from(table(**changes)).equals(ipc.read_schema(table(**changes).serialize()), True)
    assert schema_from(table()).equals(first, True)
    batches = [batch_from(pa.record_batch({"x": [i]})) for i in range(3)]
    assert batches[0].schema is batches[1].schema is batches[2].schema
    assert array_from(pa.array([{"x": 1}])).type == types.Struct([types.Field("x", types.Int(64, True))])


def test_map_entries_get_the_flags_that_the_format_asks_for() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int32()))]).__arrow_c_schema__()
    entries = peek(schema, CSchema).children[0].contents.children[0].contents
    entries.flags = entries.children[0].contents.flags = 2
    kind = schema_from(schema)["m"].type
    assert not kind.entries.nullable
    assert not kind.key_field.nullable


# -- lifetimes ---------------------------------------------------------------------------------------------


def test_memory_lives_as_long_as_anything_of_it() -> None:
    array, before = pa.array(range(1000)), live_imports()
    ends: weakref.WeakSet[Bytes] = weakref.WeakSet()
    buffer = pa.py_buffer(owned := Bytes(array.buffers()[1].to_pybytes()))
    ends.add(owned)
    del owned
    column = batch_from(pa.record_batch({"x": pa.Array.from_buffers(pa.int64(), 1000, [None, buffer])}))["x"]
    del buffer
    view = column.slice(990).buffers()[1]
    del column
    gc.collect()
    assert len(ends) == live_imports() - before == 1
    assert bytes(view[8:16]) == (1).to_bytes(8, "little")
    del view
    gc.collect()
    assert len(ends) == live_imports() - before == 0


class Bytes(bytearray):
    """Memory that can be watched."""

    __hash__ = object.__hash__


def test_what_is_imported_can_be_handed_on_and_released_by_any_thread() -> None:
    """FORMAT-CHECKLIST 143: without the GIL, and after the batch is gone."""
    before = live_imports()
    moved = [take(batch_from(TABLE.to_batches()[0]).__arrow_c_array__()[1], CArray) for _ in range(20)]
    gc.collect()
    assert live_imports() - before == 20
    in_threads(release, moved)
    assert live_imports() == before


def test_a_capsule_gives_its_array_once() -> None:
    pair = pa.record_batch({"x": [1]}).__arrow_c_array__()
    first = batch_from(pair)
    for again in (batch_from, array_from, stream_from):
        with pytest.raises(ipc.UsageError, match="taken out of its capsule"):
            again(pair)
    assert first.to_pydict() == {"x": [1]}
    stream = TABLE.__arrow_c_stream__()
    assert batch_from(stream).num_rows == 3
    with pytest.raises(ipc.UsageError, match="taken out of its capsule"):
        stream_from(stream)


def test_null_rows_are_refused_in_a_batch_and_kept_in_an_array() -> None:
    rows = pa.array([{"x": 1}, None, {"x": 3}])
    with pytest.raises(ipc.UsageError, match="1 of the 3 structs are null"):
        batch_from(rows)
    with pytest.raises(ipc.UsageError, match="null"):
        list(stream_from(pa.chunked_array([rows])))
    assert array_from(rows).to_pylist() == rows.to_pylist()
    # Those outside the slice do not count.
    assert batch_from(rows.slice(2)).to_pydict() == {"x": [3]}
