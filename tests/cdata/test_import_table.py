"""Tables taken column by column: the batches are those of the table's own stream, whatever the chunks are."""

import errno
import gc
import random
from types import SimpleNamespace
from typing import Any

import pytest
from cdata.producer import StreamOf, packed
from helpers import randoms
from helpers.arrays import address, ipc_bytes
from helpers.arrow_columns import ARRAYS
from helpers.cdata import CArray, CSchema, CStream
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc.cdata.import_array import BatchStream, batch_from, stream_from
from arrowipc.cdata.import_table import ColumnStream, batches_from, columns_from

pa = pytest.importorskip("pyarrow")


def chunked(array: Any, cuts: list[int]) -> Any:
    """The array, cut at these rows; the chunks are slices of it."""
    ends = [*cuts, len(array)]
    return pa.chunked_array([array.slice(a, b - a) for a, b in zip([0, *cuts], ends, strict=True)], array.type)


def same(table: Any, validate: Any = "full") -> list[ipc.RecordBatch]:
    """The batches, which are those of the table's own stream, sound, and the way back."""
    expected = [batch for batch in stream_from(table) if batch.num_rows]
    stream = columns_from(table, validate)
    found = list(stream)
    assert stream.schema.equals(stream_from(table).schema, check_metadata=True)
    assert [len(batch) for batch in found] == [len(batch) for batch in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.equals(theirs, check_metadata=True, nan_equal=True)
        for a, b in zip(ours.columns, theirs.columns, strict=True):
            assert a.null_count == b.null_count
        back = pa.record_batch(ours)
        back.validate()
        assert batch_from(back, "full").equals(ours, nan_equal=True)
    return found


def written(table: Any, **options: Any) -> Any:
    """The table, written by us and read by pyarrow."""
    return pa.ipc.open_stream(ipc_bytes(columns_from(table), schema=table.schema, **options)).read_all()


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type_in_unequal_chunks(name: str) -> None:
    array = ARRAYS[name]
    last = len(array) - 1
    columns = {"a": range(last + 1), "x": chunked(array, [1]), "y": chunked(array, [0, last, last]), "z": array}
    assert len(same(pa.table(columns))) == len({1, last, last + 1})


@settings(max_examples=40)
@given(st.lists(randoms.types, min_size=1, max_size=4), st.integers(0, 30), st.integers(0, 2**32))
def test_any_columns_in_any_chunks(types: list[Any], rows: int, seed: int) -> None:
    rng = random.Random(seed)
    columns = [
        chunked(randoms.array_of(kind, rows, rng), sorted(rng.choices(range(rows + 1), k=rng.randrange(5))))
        for kind in types
    ]
    same(pa.table(columns, names=[f"c{i}" for i in range(len(types))]))


def test_equal_chunks_are_the_batches_and_nothing_is_copied() -> None:
    batches = [pa.record_batch({"a": [1, 2, i], "b": ["x", None, str(i)]}) for i in range(5)]
    found = list(columns_from(pa.Table.from_batches(batches)))
    for ours, theirs in zip(found, batches, strict=True):
        for name in ("a", "b"):
            for mine, his in zip(ours[name].buffers(), theirs[name].buffers(), strict=True):
                assert his is None or address(mine) == his.address


def test_empty_chunks_are_left_out() -> None:
    def column(*chunks: list[int]) -> Any:
        return pa.chunked_array(chunks, pa.int64())

    assert len(same(pa.table({"a": column([], [1], [], [2, 3], []), "b": column([1, 2], [], [], [3])}))) == 3
    assert same(pa.table({"a": column([], []), "b": column([])})) == []
    assert same(pa.table({"a": column()})) == []


def test_tables_without_rows_or_columns_are_written() -> None:
    empty = pa.table({"a": pa.chunked_array([[], []], pa.int64())})
    assert written(empty).equals(empty)
    nothing = pa.table({})
    assert type(batches_from(nothing)) is BatchStream
    assert rows(nothing) == []
    with pytest.raises(ipc.FormatError, match="0 columns"):
        columns_from(nothing)


def test_each_chunk_keeps_its_dictionary() -> None:
    parts = [pa.array(words).dictionary_encode() for words in (["a", "b"], ["b", None, "c"], ["a"])]
    for other in (pa.chunked_array([[1, 2], [3, 4, 5], [6]]), pa.chunked_array([[1], [2, 3, 4], [5, 6]])):
        table = pa.table({"n": other, "x": pa.chunked_array(parts), "y": pa.chunked_array(parts)})
        same(table)
        assert written(table).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("nested", [False, True])
def test_a_dictionary_in_the_same_memory_is_made_once(nested: bool) -> None:
    words = pa.array(["a", "b", None, "c"] * 4).dictionary_encode()
    if nested:
        words = pa.StructArray.from_arrays([words], ["w"])
    once = pa.chunked_array([words.slice(i, 2) for i in range(0, 16, 2)])
    again = pa.chunked_array([pa.array([text, "z"]).dictionary_encode() for text in "abcdefgh"])
    for source, count in ((pa.table({"w": once}), 1), (pa.table({"w": once, "v": again}), 9)):
        with ipc.new_stream(sink := bytearray()) as writer:
            writer.write(columns_from(source))
        assert writer.stats.num_dictionary_batches == count
        assert ipc.open_stream(sink).read_all().to_pylist() == source.to_pylist()
        assert pa.ipc.open_stream(sink).read_all().to_pylist() == source.to_pylist()
    # A reader's batches, too, and what they are made of ends with them.
    before = pa.total_allocated_bytes()
    reader = pa.RecordBatchReader.from_batches(source.schema, source.to_batches())
    assert [row for batch in batches_from(reader) for row in batch.to_pylist()] == source.to_pylist()
    del reader
    gc.collect()
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("changed", ["length", "null_count", "offset", "buffers"])
def test_a_dictionary_that_differs_in_anything_is_another_one(changed: str) -> None:
    """The same memory with another length, offset or bitmap holds other values."""
    words = pa.array(["a", "b", "c", "d"])
    bitmap = pa.py_buffer(b"\x0d")
    _, offsets, text = words.buffers()
    others = {
        "length": words.slice(0, 3),
        "offset": words.slice(1, 3),
        "null_count": pa.Array.from_buffers(pa.string(), 4, [bitmap, offsets, text]),
        "buffers": pa.Array.from_buffers(pa.string(), 4, [None, pa.py_buffer(offsets.to_pybytes()), text]),
    }
    both = [words, others[changed]]
    chunks = [pa.DictionaryArray.from_arrays(pa.array([0, 2, 1]), both[i % 2]) for i in range(8)]
    table = pa.table({"x": pa.chunked_array(chunks)})
    assert written(table).to_pylist() == table.to_pylist()


def test_the_schema_is_the_tables() -> None:
    deep = pa.map_(pa.string(), pa.field("value", pa.int8(), metadata={"deep": "1"}))
    fields = [pa.field("n", pa.int32(), nullable=False, metadata={"only": "here"}), pa.field("n", deep)]
    schema = pa.schema(fields, metadata={"of": "the schema"})
    columns = [pa.array([1, 2, 3], pa.int32()), pa.array([[("a", 1)], None, []], deep)]
    for cuts in ([[1], [1]], [[1], [2]]):
        table = pa.table([chunked(c, at) for c, at in zip(columns, cuts, strict=True)], schema=schema)
        found = same(table)
        assert {id(batch.schema) for batch in found} == {id(found[0].schema)}
        assert pa.schema(found[0].schema).equals(schema, check_metadata=True)


TABLE = pa.Table.from_batches([pa.record_batch({"a": [i, None], "b": ["x", str(i)]}) for i in range(8)])


def rows(source: Any, schema: Any = None) -> list[Any]:
    return pa.ipc.open_stream(ipc_bytes([source], schema=schema)).read_all().to_pylist()


def test_pyarrow_tables_of_several_chunks_go_column_by_column() -> None:
    assert type(batches_from(TABLE)) is ColumnStream
    assert rows(TABLE) == TABLE.to_pylist()
    for other in (TABLE.slice(0, 4), TABLE.combine_chunks(), TABLE.to_reader()):
        assert type(batches_from(other)) is BatchStream
    assert rows(TABLE.combine_chunks()) == rows(TABLE.to_reader()) == TABLE.to_pylist()


def test_tables_of_arro3_go_column_by_column_and_frames_do_not() -> None:
    arro3, polars = pytest.importorskip("arro3.core"), pytest.importorskip("polars")
    table = arro3.Table.from_arrow(TABLE)
    frame = polars.concat([polars.DataFrame(TABLE), polars.DataFrame(TABLE)], rechunk=False)
    assert frame.n_chunks() > 1
    assert [type(batches_from(each)) for each in (table, frame)] == [ColumnStream, BatchStream]
    assert rows(table) * 2 == rows(frame) == TABLE.to_pylist() * 2


def like(schema: Any, columns: list[Any]) -> Any:
    """A table that shows what it is told to."""
    return SimpleNamespace(schema=schema, columns=columns, num_columns=len(columns))


def test_columns_must_fit_the_schema() -> None:
    one, other = pa.chunked_array([[1], [2]]), pa.chunked_array([["a"], ["b"]])
    schema = pa.schema([("x", pa.int64()), ("y", pa.list_(pa.field("item", pa.int8())))])
    with pytest.raises(ipc.FormatError, match="1 columns, its schema 2"):
        columns_from(like(schema, [one]))
    with pytest.raises(ipc.FormatError, match=r"column 'x': the schema of the table says int64.* gives string"):
        columns_from(like(schema, [other, one]))
    with pytest.raises(ipc.FormatError, match=r"column 'y': the schema of the table says list"):
        columns_from(like(schema, [one, one]))
    for kind in (pa.list_(pa.int16()), pa.list_(pa.field("element", pa.int8())), pa.large_list(pa.int8())):
        with pytest.raises(ipc.FormatError, match="column 'y'"):
            columns_from(like(schema, [one, pa.chunked_array([[[1]]], kind)]))
    with pytest.raises(ipc.UsageError, match=r"column 'y': expected an object with __arrow_c_stream__"):
        columns_from(like(schema, [one, [1, 2]]))
    encoded = other.dictionary_encode()
    with pytest.raises(ipc.FormatError, match="column 'x'"):
        columns_from(like(pa.schema([("x", pa.int32())]), [encoded]))


class Column(StreamOf):
    """A column of int64 in chunks of these lengths, which fails behind them, or at once, with these codes."""

    num_chunks = 8

    def __init__(self, lengths: list[int], code: int = 0, schema_code: int = 0) -> None:
        super().__init__(None, [], "Gerät weg".encode())
        self.described = schema_code or self.schema(b"l")
        self.items = [self.array(n, [None, packed(*range(max(n, 0)))]) for n in lengths] + [code] * bool(code)


class Encoded(Column):
    """Chunks of two encoded numbers: the same dictionary with each chunk, but for `changes`."""

    def __init__(self, lengths: list[int], changes: list[dict[str, Any]]) -> None:
        super().__init__([])
        self.described = self.schema(b"l", dictionary=self.schema(b"l"))
        values = self.array(3, [None, packed(5, 6, 7)])
        for n, changed in zip(lengths, changes, strict=True):
            again = CArray.from_buffer_copy(values)
            for name, value in changed.items():
                setattr(again, name, value)
            self.items.append(self.array(n, [None, packed(2, 0)], dictionary=again))


def released(columns: list[Column]) -> dict[Any, int]:
    """How many structs of each kind the consumer gave back; all arrays that it was given, in the end."""
    return {kind: sum(column.released[kind] for column in columns) for kind in (CSchema, CArray, CStream)}


def given(columns: list[Column]) -> int:
    return sum(column.given[CArray] for column in columns)


def stream_of(columns: list[Column]) -> ColumnStream:
    """A stream of a table of these columns, which are called c0, c1, ..."""
    return columns_from(like(pa.schema([(f"c{i}", pa.int64()) for i in range(len(columns))]), columns))


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EIO, OSError), (errno.EINVAL, ipc.FormatError), (errno.ENOMEM, MemoryError)]
)
@pytest.mark.parametrize("lengths", [[2, 2], [0, 2, 0, 2]])
def test_a_column_that_fails_ends_the_stream(code: int, kind: type[Exception], lengths: list[int]) -> None:
    columns = [Column([2, 2, 5]), Column(lengths, code), Column([2, 2, 5])]
    stream = stream_of(columns)
    found = []
    for _ in range(2):
        with pytest.raises(kind, match="Gerät weg"):
            found.extend(stream)
    assert sum(len(batch) for batch in found) == 4
    assert released(columns)[CStream] == 3
    assert found[0]["c1"].to_pylist()[0] == 0
    found.clear()
    assert released(columns) == {CSchema: 3, CArray: given(columns), CStream: 3}


def test_a_column_without_a_schema_is_let_go_of() -> None:
    columns = [Column([1]), Column([1], schema_code=errno.EINVAL), Column([1])]
    with pytest.raises(ipc.FormatError, match="Gerät weg"):
        stream_of(columns)
    gc.collect()
    assert released(columns) == {CStream: 2, CSchema: 1, CArray: 0}


def test_chunks_that_say_what_cannot_be_are_refused() -> None:
    columns = [Column([2, -1]) for _ in range(2)]
    stream = stream_of(columns)
    with pytest.raises(ipc.FormatError, match="length -1"):
        list(stream)
    del stream
    gc.collect()
    assert released(columns) == {CSchema: 2, CArray: given(columns), CStream: 2}


def test_streams_that_are_closed_or_dropped_let_go() -> None:
    for close in (True, False):
        columns = [Column([1, 1]), Column([1, 1])]
        stream = stream_of(columns)
        batch = next(iter(stream))
        if close:
            stream.close()
            with pytest.raises(ipc.UsageError, match="closed"):
                next(stream)
        del stream
        assert released(columns)[CStream] == 2
        assert batch["c1"].to_pylist() == [0]
        del batch
        assert released(columns)[CArray] == 2


def test_validation_is_that_of_readers() -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array(["a"]), safe=False)
    for other in ([[1], [2]], [[1, 2]]):
        table = pa.table({"x": chunked(broken, [1]), "n": pa.chunked_array(other)})
        assert sum(len(batch) for batch in columns_from(table)) == 2
        with pytest.raises(ipc.FormatError, match="index 9"):
            list(columns_from(table, "full"))
    with pytest.raises(ipc.UsageError, match="validate"):
        columns_from(TABLE, "some")


#: A field of a struct, what is wrong there, and words of the error.
BROKEN = [
    ("buffers", None, "buffers is NULL"),
    ("release", None, "has been released"),
    ("length", -1, "length -1 .* must not be negative"),
    ("null_count", 4, "null_count is 4: expected -1 to 3"),
    ("n_buffers", 1, "n_buffers is 1: expected 2"),
    ("n_children", 1, "n_children is 1: expected 0"),
    ("offset", -1, "offset -1 must not be negative"),
]


@pytest.mark.parametrize(("name", "wrong", "words"), BROKEN)
def test_a_dictionary_that_is_broken_later_is_refused(name: str, wrong: int | None, words: str) -> None:
    column = Encoded([2, 2, 1], [{}, {}, {name: wrong}])
    schema = pa.schema([("x", pa.dictionary(pa.int64(), pa.int64()))])
    stream = columns_from(like(schema, [column]))
    assert [next(stream).to_pylist() for _ in range(2)] == [[{"x": 7}, {"x": 5}]] * 2
    with pytest.raises(ipc.ArrowIpcError, match=f"column 'x': .*{words}"):
        next(stream)
    del stream
    gc.collect()
    assert column.released[CArray] == 3
