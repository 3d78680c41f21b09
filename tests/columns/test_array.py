"""Batches and arrays as objects: access, slices, children, buffers, equality, and what keeps what alive."""

import itertools
import struct
from contextlib import suppress

import pyarrow as pa
import pytest
from columns.broken import forged
from helpers import forge
from helpers.arrays import CASES, read_array, read_batch
from helpers.forge import batch, field, i32

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.derived.dictionary_encode import dictionary_decode, dictionary_encode

SMALL = pa.record_batch({"a": [1, None, 3, 4], "b": ["w", "x", None, "z"]})


def test_a_batch_tells_its_shape():
    found = read_batch(SMALL)
    assert (found.num_rows, found.num_columns, len(found)) == (4, 2, 4)
    assert found.schema.names == ["a", "b"]
    assert found.schema is found.schema
    assert [column.field.name for column in found.columns] == ["a", "b"]
    assert found.nbytes == sum(len(b) for c in found.columns for b in c.buffers() if b is not None)
    assert found.custom_metadata.pairs == ()
    assert found.to_pydict() == SMALL.to_pydict()
    assert found.to_pylist() == SMALL.to_pylist()


def test_columns_by_index_and_name():
    found = read_batch(SMALL)
    for i in (0, -2, "a", True - 1):
        assert found.column(i) == found[i] == found.columns[0]
    for i in (2, -3, 10**30):
        with pytest.raises((IndexError, OverflowError)):
            found.column(i)
    with pytest.raises(KeyError, match=r"'c'.*'a', 'b'"):
        found.column("c")
    with pytest.raises(UsageError, match=r"column must be an integer, found float 1\.0"):
        found.column(1.0)


def test_a_batch_without_columns():
    for empty in (ipc.RecordBatch(), ipc.RecordBatch.__new__(ipc.RecordBatch)):
        assert (empty.num_rows, empty.num_columns, empty.nbytes) == (0, 0, 0)
        assert (empty.columns, empty.to_pylist(), empty.to_pydict()) == ([], [], {})
        assert empty.slice(0) == empty
        assert len(empty.schema) == 0
        with pytest.raises(IndexError):
            empty.column(0)
        assert repr(empty)
        with pytest.raises(UsageError):
            ipc.Array(empty)
    for make in (ipc.Array, lambda: ipc.Array([1]), lambda: ipc.RecordBatch([1]), lambda: ipc.RecordBatch(x=1)):
        with pytest.raises(UsageError, match=r"are made by .*array\(values\)|are made by record_batch\(data\)"):
            make()
    assert ipc.Array(read_batch(SMALL)).to_pylist() == []  # made by hand
    nameless = read_batch(SMALL.select([]))
    assert nameless.to_pylist() == list(nameless.iter_rows(named=True)) == [{}] * 4
    assert list(nameless.iter_rows()) == list(ipc.table(nameless).iter_rows()) == [()] * 4
    assert nameless.slice(1).num_rows == 3


def test_rows_without_columns_are_still_rows_in_another_schema():
    nameless = read_batch(SMALL.select([]))
    schema = ipc.Schema([], {"k": "v"})
    table = ipc.Table.from_batches([nameless])
    for found in (
        *[each.cast(schema) for each in (nameless, table)],
        *[ipc.record_batch(each, schema=schema) for each in (nameless, table, read_batch(SMALL))],
        ipc.table(table, names=schema),
    ):
        assert (found.shape, found.schema.metadata) == ((4, 0), schema.metadata)
    for changed in (dictionary_encode(nameless, []), dictionary_decode(nameless), ipc.record_batch(nameless, [])):
        assert changed == nameless


def test_indices_and_slices_of_arrays():
    array = read_array(pa.array([1, None, 3, 4, 5]))
    assert [array[i] for i in (0, 1, -1, -5)] == [1, None, 5, 1]
    for i in (5, -6):
        with pytest.raises(IndexError, match="5 elements"):
            array[i]
    expected = [1, None, 3, 4, 5]
    for start in (None, 0, 2, -2, 9, -9):
        for stop in (None, 0, 3, -1, 9, -9):
            for step in (None, 2, -1):
                assert array[start:stop:step].to_pylist() == expected[start:stop:step]
    for source in (array, read_batch(SMALL)):
        for wrong in ((-1,), (0, -1)):
            with pytest.raises(UsageError, match="negative"):
                source.slice(*wrong)
        assert len(source.slice(9)) == 0
        assert len(source.slice(1, 10**12)) == len(source) - 1
    assert array.is_valid().to_pylist() == [True, False, True, True, True]
    assert array[1:3].is_valid().to_pylist() == [False, True]
    assert read_array(pa.nulls(2)).is_valid().to_pylist() == [False, False]


def test_children_follow_their_parents_slice():
    structs = read_array(CASES["struct"])
    assert structs[1:3].children[0].to_pylist() == CASES["struct"].field(0).to_pylist()[1:3]
    lists = read_array(CASES["list"])
    assert lists[2:].children[0].to_pylist() == lists.children[0].to_pylist() == [1, 2, 3, None]
    fixed = read_array(CASES["fixed_size_list"])
    assert fixed[2:].children[0].to_pylist() == [None, 4]
    assert [len(c) for c in read_array(CASES["sparse_union"])[1:4].children] == [3, 3]
    assert [len(c) for c in read_array(CASES["dense_union"])[1:4].children] == [5, 5]
    runs = read_array(CASES["run_end_int32"])[3:]
    assert runs.children[0].to_pylist() == [2, 3, 7]
    assert runs.children[1].to_pylist() == ["a", None, "c"]
    (entries,) = read_array(CASES["map"]).children
    assert [c.to_pylist() for c in entries.children] == [["k", "l", "m"], [1, None, 3]]
    nested = pa.StructArray.from_arrays([CASES["fixed_size_list"]], ["f"])
    assert read_array(nested)[1:].children[0].children[0].to_pylist()[2:] == [None, 4]


def test_buffers_hold_what_the_format_says():
    array = read_array(pa.array([1, 2, None, 4], pa.int16()))
    validity, data = array[1:].buffers()
    assert validity[0] & 0b1111 == 0b1011
    assert struct.unpack_from("<4h", data) == (1, 2, 0, 4)
    assert data.readonly
    with pytest.raises(TypeError):
        data[0] = 1
    assert read_array(pa.array(["ab"])).buffers()[0] is None
    empty = read_array(pa.array([], pa.int8()))
    assert [b and bytes(b) for b in empty.buffers()] == [None, memoryview(b"")]


def int32s(*values: int) -> pa.Array:
    return pa.array(values, pa.int32())


def coded(indices: list[int | None], words: list[str | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), words)


#: Two arrays of the same values, also in other encodings, and with nulls that are indices or words.
PAIRS = {name: (array, array) for name, array in CASES.items()} | {
    "indices": (coded([0, 1, None, 0], ["a", "b"]), coded([2, 1, None, 0], ["a", "b", "a"])),
    "runs": (
        pa.RunEndEncodedArray.from_arrays(int32s(2, 4), [1, 2]),
        pa.RunEndEncodedArray.from_arrays(int32s(1, 2, 3, 4), [1, 1, 2, 2]),
    ),
    "list views": (
        pa.ListViewArray.from_arrays(int32s(0, 2), int32s(2, 1), [1, 2, 3]),
        pa.ListViewArray.from_arrays(int32s(1, 0), int32s(2, 1), [3, 1, 2]),
    ),
    "lists of words": (pa.ListArray.from_arrays(int32s(0, 1, 2, 3), coded([0, 1, None], ["a", None])),) * 2,
}


@pytest.mark.parametrize("name", PAIRS)
def test_arrays_are_equal_where_their_values_are(name):
    one, other = PAIRS[name]
    array, again, values = read_array(one), read_array(other), one.to_pylist()
    assert array == again
    assert (array != again) is False
    assert array[1:] == again.slice(1)
    assert array != again[1:]
    assert (array[:-1] == again[1:]) == (values[:-1] == values[1:])
    assert array.equals(again, nan_equal=True)
    assert array == one
    assert array != one[1:]
    assert not array.equals(None)
    for i, j in itertools.product(range(len(values)), repeat=2):
        assert (array[i : i + 1] == again[j : j + 1]) == (values[i] == values[j]), (values[i], values[j])


def test_equality_looks_at_types():
    assert read_array(pa.array([1, 2], pa.int32())) != read_array(pa.array([1, 2], pa.int64()))
    words = pa.array(["a", "b", "a"])
    assert read_array(words) != read_array(words.dictionary_encode())
    assert read_array(words) != read_array(words.cast(pa.large_string()))


def test_nan_and_zero():
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        nan = pa.array([float("nan"), None], kind)
        assert read_array(pa.array([0.0], kind)) == read_array(pa.array([-0.0], kind))
        lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), nan)
        coded = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), nan)
        for found in (*map(read_array, (nan, lists, coded)), read_batch(pa.record_batch({"x": nan}))):
            assert found != found
            assert found.equals(found, nan_equal=True)


def test_what_lies_under_a_null_does_not_count():
    def of(nulls: int, bits: bytes, second: int) -> ipc.RecordBatch:
        return forged([field("x", forge.INT32)], batch(2, [(2, nulls)], [bits, i32(1, second)]))

    assert of(1, b"\1", 2) == of(1, b"\1", 3)
    assert of(0, b"", 3) == of(1, b"\3", 3) == of(0, b"", 3)


def test_batches_differ_by_schema_metadata_only_when_asked():
    one, other = read_batch(SMALL), read_batch(SMALL.replace_schema_metadata({"k": "v"}))
    assert one == other
    assert not one.equals(other, check_metadata=True)
    assert one != read_batch(SMALL.rename_columns(["a", "c"]))
    assert one != read_batch(SMALL.slice(1))
    assert one == SMALL
    assert one != SMALL.slice(1)
    assert one != 7


LISTS = [[1, 2], None, [3], [], [4, 5, 6]]
PARTS = ("offsets", "values", "value_lengths", "flatten", "indices", "dictionary_decode")
NESTED = {
    "list": pa.array(LISTS, pa.list_(pa.int8())),
    "hiding list": pa.ListArray.from_arrays([0, 2, 3, 5], [1, 2, 3, 4, 5], mask=pa.array([False, True, False])),
    "large list": pa.array(LISTS, pa.large_list(pa.int8())),
    "list view": pa.array(LISTS, pa.list_view(pa.int8())),
    "large list view": pa.array(LISTS, pa.large_list_view(pa.int8())),
    "fixed-size list": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
    "map": pa.array([[("a", 1)], None, [("b", 2), ("c", 3)]], pa.map_(pa.string(), pa.int8())),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 5], ["a", "b"]),
    "int": pa.array([1, None, 3]),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("part", PARTS)
def test_parts_are_those_of_pyarrow(name, part):
    whole = NESTED[name]
    for theirs in (whole, whole[1:], whole[:2], whole[2:3], whole[:0]):
        ours = ipc.Array.from_arrow(theirs)
        if not hasattr(theirs, part):
            if part != "dictionary_decode":
                with pytest.raises((AttributeError, ipc.UsageError), match=rf"^an Array of .* has no {part}(\(\))?$"):
                    getattr(ours, part)()
            continue
        found, expected = (getattr(each, part) for each in (ours, theirs))
        found = found() if callable(found) else found
        with suppress(pa.ArrowNotImplementedError):  # of maps
            assert found == (expected() if callable(expected) else expected)


def test_members_that_are_not_nullable_are_null_where_their_struct_is():
    inner = pa.struct([pa.field("b", pa.string(), nullable=False)])
    kind = pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("s", inner, nullable=False)])
    rows = pa.array([{"a": 1, "s": {"b": "x"}}, None, {"a": 2, "s": {"b": "y"}}], kind)
    array = ipc.Array.from_arrow(rows)
    table = ipc.Table.from_batches([ipc.record_batch({"r": array[2:]}), ipc.record_batch({"r": array})])
    assert array["a"].to_pylist() == [1, None, 2]
    assert table["r"]["s"]["b"].to_pylist() == ["y", "x", None, "y"]
    assert table.flatten().flatten().to_pydict() == {"r.a": [2, 1, None, 2], "r.s.b": ["y", "x", None, "y"]}
    for column in table["r"].flatten():
        assert column.field.nullable
        assert ipc.table({"x": column}).column("x") == column


def test_what_is_broken_and_lengths_of_nothing_are_refused():
    schema, buffers = ipc.schema({"x": ipc.types.list_("int8")}), [None, struct.pack("<3i", 0, 9, 2), None, b"ab"]
    broken = ipc.RecordBatch.from_buffers(schema, 2, [(2, 0), (2, 0)], buffers, validate="none")
    with pytest.raises(ipc.FormatError, match="do not rise from 0 to 2"):
        broken["x"].flatten()
    schema, limits = ipc.schema({"x": ipc.types.list_("null", 2**30)}), ipc.Limits(rows_per_batch=2**40)
    nulls = ipc.RecordBatch.from_buffers(schema, 8, [(8, 1), (2**33, 2**33)], [b"\x7f"], limits=limits)
    schema = ipc.schema({"x": "null", "y": ipc.types.binary(0)})
    rows = ipc.RecordBatch.from_buffers(schema, 2**33, [(2**33, 2**33), (2**33, 0)], [None, b""], limits=limits)
    for call in (nulls["x"].flatten, lambda: rows["x"].fill_null(None), rows["y"].dictionary_encode):
        with pytest.raises(ipc.LimitError):
            call()
