"""One schema of many: promotions value for value as pyarrow casts them, and errors that name file and column."""

from typing import Any

import pyarrow as pa
import pytest
from multifile.folders import put

import arrowipc as ipc
from arrowipc import FormatError, LimitError, UsageError, types as at

WORDS = pa.array(["a", None, "b", "a"]).dictionary_encode()
SMALL_WORDS = pa.array(["q", None]).cast(pa.dictionary(pa.int8(), pa.string()))
NO_WORDS = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.nulls(1))
LISTS = pa.array([[1, None], None, []], pa.list_(pa.int8()))
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))
PROMOTIONS: dict[str, tuple[pa.Array, pa.Array, pa.DataType]] = {
    "int8-int64": (pa.array([1, None, -3], pa.int8()), pa.array([2**40, None], pa.int64()), pa.int64()),
    "uint8-int8": (pa.array([1, None, 255], pa.uint8()), pa.array([-5, None], pa.int8()), pa.int16()),
    "uint32-int32": (pa.array([2**32 - 1], pa.uint32()), pa.array([-5, None], pa.int32()), pa.int64()),
    "uint8-uint16": (pa.array([255, None], pa.uint8()), pa.array([65535], pa.uint16()), pa.uint16()),
    "half-double": (pa.array([1.5, None], pa.float16()), pa.array([2.5], pa.float64()), pa.float64()),
    "float-double": (pa.array([1.5, None, 3e38], pa.float32()), pa.array([2.5], pa.float64()), pa.float64()),
    "text-large": (pa.array(["x", None, "yy"]), pa.array(["zz", None], pa.large_string()), pa.large_string()),
    "view-text": (pa.array(["x", None, "y" * 40], pa.string_view()), pa.array(["zz"]), pa.large_string()),
    "bytes-view": (pa.array([b"x", None]), pa.array([b"\xff" * 40], pa.binary_view()), pa.large_binary()),
    "words-text": (WORDS, pa.array(["q", None]), pa.string()),
    "words-words": (WORDS, SMALL_WORDS, pa.string()),
    "words-large": (WORDS, pa.array(["q", None], pa.large_string()), pa.large_string()),
    "null-int": (pa.array([None, None]), pa.array([1, None], pa.int64()), pa.int64()),
    "null-words": (pa.array([None, None]), WORDS, WORDS.type),
    "null words-int": (NO_WORDS, pa.array([1, None], pa.int64()), pa.int64()),
    "null words-words": (NO_WORDS, WORDS, pa.string()),
    "list": (LISTS, pa.array([[2**40]], pa.list_(pa.int64())), pa.list_(pa.int64())),
    "list-large": (LISTS, pa.array([[2**40]], pa.large_list(pa.int64())), pa.large_list(pa.int64())),
    "fixed": (
        pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        pa.array([[3, 4]], pa.list_(pa.int64(), 2)),
        pa.list_(pa.int64(), 2),
    ),
    "map": (
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
        pa.array([[("l", 300)]], pa.map_(pa.string(), pa.int16())),
        pa.map_(pa.string(), pa.int16()),
    ),
    "map-names": (
        pa.array([[("k", 1)], None], pa.map_(pa.field("a", pa.string(), False), pa.field("b", pa.int8()))),
        pa.array([[("l", 300)]], pa.map_(pa.string(), pa.int16())),
        pa.map_(pa.string(), pa.int16()),
    ),
    "struct": (
        pa.array([{"a": 1, "b": "x"}, None]),
        pa.array([{"b": "y", "c": 1.5}, None]),
        pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())]),
    ),
    "equal": (WORDS, WORDS.slice(1), WORDS.type),
}


def spelt(array: pa.Array, kind: pa.DataType) -> list[Any]:
    """The values as the wider type has them; pyarrow casts neither maps nor structs of fewer fields."""
    if pa.types.is_struct(kind):
        return [row and {**dict.fromkeys([field.name for field in kind]), **row} for row in array.to_pylist()]
    return array.to_pylist() if pa.types.is_map(kind) else array.cast(kind).to_pylist()


@pytest.mark.parametrize("name", PROMOTIONS)
@pytest.mark.parametrize("turned", [False, True], ids=["in-order", "turned"])
def test_promotions_are_those_of_pyarrow(tmp_path, name, turned):
    first, second, kind = PROMOTIONS[name]
    if turned:
        first, second = second, first
    put(tmp_path / "a.arrow", {"x": first, "only": ["here"] * len(first)})
    put(tmp_path / "b.arrow", {"x": second}, "stream")
    dataset = ipc.open_dataset(tmp_path)
    found = pa.table(dataset)
    found.validate(full=True)
    if not (turned and pa.types.is_struct(kind)):  # the order of a struct's fields is that of the files
        assert found.schema.field("x").type == kind
    assert found["x"].to_pylist() == spelt(first, kind) + spelt(second, kind)
    assert found["only"].to_pylist() == ["here"] * len(first) + [None] * len(second)
    # A schema that is given converts in the same way, and a column that is chosen too.
    table = dataset.read_all()
    assert ipc.open_dataset(tmp_path, schema=dataset.schema).read_all() == table
    assert ipc.open_dataset(tmp_path, columns=["x"]).read_all() == table.select("x")
    wanted = [*reversed(range(table.num_rows)), 0]
    assert dataset.take(wanted) == table.take(wanted).combine()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["x"])),
        (pa.array([1], pa.uint64()), pa.array([1], pa.int64())),
        (pa.array([1]), pa.array([1.5])),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ns"))),
        (pa.array([{"a": 1}]), pa.array([{"a": "x"}])),
        (pa.array([[1]]), pa.array([[1, 2]], pa.list_(pa.int64(), 2))),
        (pa.array([1]), SMALL_WORDS),
        (UUIDS.storage, UUIDS),
    ],
    ids=["text", "uint64", "float", "unit", "struct", "list", "words", "extension"],
)
def test_what_has_no_common_type_is_an_error_that_names_file_and_column(tmp_path, first, second):
    put(tmp_path / "a.arrow", {"x": first})
    other = put(tmp_path / "b.arrow", {"x": second})
    with pytest.raises(UsageError, match="no type holds the values of both") as caught:
        ipc.open_dataset(tmp_path)
    kinds = [str(ipc.open_file(tmp_path / name).schema["x"].type) for name in ("a.arrow", "b.arrow")]
    assert all(word in str(caught.value) for word in (str(other), "a.arrow", "'x'", *kinds))
    assert caught.value.column == "x"
    assert ("extension arrow.uuid" in str(caught.value)) == (second is UUIDS)
    with pytest.raises(UsageError, match=f"{other}.*'x'.*does not become"):
        ipc.open_dataset(tmp_path, schema=ipc.open_file(tmp_path / "a.arrow").schema).read_all()


def test_dictionaries_of_nulls_and_members_that_look_like_columns(tmp_path):
    for i, kind in enumerate((pa.int8(), pa.int16())):
        put(
            tmp_path / f"nulls/{i}.arrow", {"x": pa.DictionaryArray.from_arrays(pa.array([0, None], kind), pa.nulls(1))}
        )
    assert ipc.open_dataset(tmp_path / "nulls").read_all().to_pydict() == {"x": [None] * 4}
    put(tmp_path / "dots/0.arrow", {"a": [{"b": "x", "c": 1}], "a.b": [5]})
    put(tmp_path / "dots/1.arrow", {"a": [{"c": 1}]})
    assert ipc.open_dataset(tmp_path / "dots").row(1) == {"a": {"b": None, "c": 1}, "a.b": None}


def test_dictionaries_that_share_a_number_in_one_file_only(tmp_path):
    for name, columns in (("a", {"x": WORDS}), ("b", {"y": pa.array([5, 5]).dictionary_encode(), "x": WORDS[:2]})):
        put(tmp_path / f"{name}.arrow", columns)
    table = ipc.open_dataset(tmp_path).read_all()
    assert table.to_pydict() == {"x": ["a", None, "b", "a", "a", None], "y": [None] * 4 + [5, 5]}


def shared(ids: tuple[int, ...], words: list[str], kept: dict[int, list[str]] | None = None) -> ipc.RecordBatch:
    """Columns of words, some of which share a dictionary: `words`, unless it is in `kept`."""
    columns = dict(zip("yzx", ids, strict=False))
    kinds = {name: at.Dictionary(at.int16(), at.utf8(), dictionary_id=id) for name, id in columns.items()}
    values = {name: (kept or {}).get(id, words) for name, id in columns.items()}
    return ipc.RecordBatch.from_pydict(values, ipc.schema(kinds))


def test_columns_that_share_a_dictionary_in_some_files(tmp_path):
    for i, (ids, words) in enumerate((((0, 0), ["a", "b"]), ((0, 1), ["c", "d"]), ((7, 7), ["e", "f"]))):
        ipc.write(shared(ids, words), tmp_path / f"{i}.arrow")
    dataset = ipc.open_dataset(tmp_path)
    for each in (dataset, ipc.open_dataset(tmp_path, schema=shared((0, 0), ["x", "y"]).schema)):
        assert each.take([5, 0, 3]).to_pydict() == {"y": ["f", "a", "d"], "z": ["f", "a", "d"]}
        assert each.read_all().combine().to_pydict()["z"] == [*"abcdef"]


@pytest.mark.parametrize("ids", [((0, 0), (0, 1)), ((0, 1, 1), (0, 0, 1))], ids=["one and two", "two and two"])
def test_rows_of_batches_that_share_dictionaries_differently_are_not_joined(ids):
    parts = [shared(each, ["a", "b"], {1: ["c", "d"]}) for each in ids]
    table = ipc.Table.from_batches(parts)
    for join in (lambda: table.take([3, 0]), table.combine, lambda: ipc.concat_batches(parts)):
        with pytest.raises(UsageError, match="share their dictionaries differently"):
            join()


def test_nulls_where_the_given_schema_allows_none(tmp_path):
    put(tmp_path / "a.arrow", {"x": [1, None], "w": WORDS[:2]})
    for field in (at.field("x", at.int64(), nullable=False), at.field("w", at.utf8(), nullable=False)):
        with pytest.raises(FormatError, match=rf"a\.arrow: column '{field.name}' has .*nulls"):
            ipc.open_dataset(tmp_path, schema=ipc.Schema([field])).read_all()
    with pytest.raises(UsageError, match=r"a\.arrow: column 'z' is missing"):
        ipc.open_dataset(tmp_path, schema=ipc.Schema([at.field("z", at.int8(), nullable=False)])).read_all()


def test_names_that_repeat(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["x", "x"])
    put(tmp_path / "a.arrow", twice)
    put(tmp_path / "b.arrow", twice)
    dataset = ipc.open_dataset(tmp_path)
    assert pa.table(dataset) == pa.concat_tables([twice, twice])
    assert dataset.select([1]).read_all().batches[0].columns[0].to_pylist() == ["x"]
    put(tmp_path / "c.arrow", {"x": [1]})
    with pytest.raises(UsageError, match="'x' is there more than once"):
        ipc.open_dataset(tmp_path)


def test_columns_of_all_files_together_are_limited(tmp_path):
    for number in range(4):
        put(tmp_path / f"{number}.arrow", {f"c{number}_{i}": [1] for i in range(10)})
    with pytest.raises(LimitError, match=r"3\.arrow: with column 'c3_0' .* more than 30 columns"):
        ipc.open_dataset(tmp_path, limits=ipc.Limits(dataset_columns=30))
    assert len(ipc.open_dataset(tmp_path).schema) == 40


def test_few_bytes_do_not_become_many(tmp_path):
    """A batch of nulls without a buffer, and indices of one long text, are cheap to write."""
    tight = ipc.Limits(decompressed_bytes=1 << 20)
    put(tmp_path / "a.arrow", {"n": pa.nulls(1 << 20)})
    put(tmp_path / "b.arrow", {"t": ["x"]})
    with pytest.raises(LimitError, match=r"a\.arrow: with column 't'.*decompressed_bytes"):
        ipc.open_dataset(tmp_path, limits=tight).read_all()
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int16()), ["y" * 100_000])
    put(tmp_path / "other/a.arrow", {"t": long})
    put(tmp_path / "other/b.arrow", {"t": ["x"]})
    with pytest.raises(LimitError, match=r"a\.arrow: with column 't'"):
        ipc.open_dataset(tmp_path / "other", limits=tight).read_all()


LONG = "y" * 100_000


@pytest.mark.parametrize(
    "values",
    [
        pa.array([LONG, "x"]),
        pa.array([{"s": LONG}, {"s": "x"}]),
        pa.array([["x"], [LONG, "x"]], pa.list_(pa.string())),
        pa.array([["x", None], [LONG, "x"]], pa.list_(pa.string(), 2)),
        pa.array([[], [["x"], [LONG]]], pa.list_(pa.list_(pa.string(), 1))),
        pa.array([[], None], pa.large_list(pa.list_(pa.string(), 2))),
        pa.array([[("x", 1)], [(LONG, 2)]], pa.map_(pa.string(), pa.int8())),
        pa.array(["x", LONG], pa.string_view()),
    ],
    ids=lambda values: str(values.type),
)
def test_values_of_a_dictionary_are_counted_as_often_as_they_are_used(tmp_path, values):
    short = 1 if len(str(values[0].as_py())) > 1000 else 0
    coded = pa.DictionaryArray.from_arrays(pa.array([None, short] * 1000 + [0, 1], pa.int16()), values)
    put(tmp_path / "a.arrow", pa.table({"t": coded}))
    put(tmp_path / "b.arrow", pa.table({"t": values}))
    table = ipc.open_dataset(tmp_path, limits=ipc.Limits(decompressed_bytes=1 << 20)).read_all()
    assert table.to_pydict() == {"t": [*coded.to_pylist(), *values.to_pylist()]}
