"""Tables: batches of one schema, as one thing."""

import pyarrow as pa
import pytest
from helpers.arrays import pyarrow_bytes, read_batch
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import LimitError, Table, UsageError

FIRST = pa.record_batch({"a": [1, None], "b": ["x", "y"]})
SECOND = pa.record_batch({"a": [3], "b": ["z"]}, schema=FIRST.schema)


def table(*batches: pa.RecordBatch) -> Table:
    return ipc.open_stream(pyarrow_bytes(list(batches))).read_all()


def test_a_table_is_its_batches():
    found = table(FIRST, SECOND)
    assert (found.num_rows, found.num_columns, len(found)) == (3, 2, 3)
    assert found.column_names == found.schema.names == ["a", "b"]
    assert [b.num_rows for b in found.batches] == [b.num_rows for b in found.to_batches()] == [2, 1]
    for column in (found.column("a"), found[0]):
        assert [chunk.to_pylist() for chunk in column.chunks] == [[1, None], [3]]
    assert found.to_pydict() == {"a": [1, None, 3], "b": ["x", "y", "z"]}
    assert found.to_pylist() == pa.Table.from_batches([FIRST, SECOND]).to_pylist()
    assert Table.from_batches([FIRST, SECOND]) == found
    assert found.nbytes == sum(b.nbytes for b in found.batches)
    assert "3 rows" in repr(found)
    assert "<table" in found._repr_html_()
    with pytest.raises(KeyError):
        found.column("c")
    with pytest.raises(IndexError):
        found.column(2)


def test_batches_must_have_the_schema():
    one = read_batch(FIRST)
    other = read_batch(pa.record_batch({"a": [1.5], "b": ["x"]}))
    with pytest.raises(UsageError, match=r"batch 1 has a: double in column 0, expected a: int64"):
        Table(one.schema, [one, other])
    with pytest.raises(UsageError, match="1 columns, expected 2"):
        Table(one.schema, [read_batch(pa.record_batch({"a": [1]}))])
    with pytest.raises(UsageError, match="schema is needed"):
        Table.from_batches([])
    with pytest.raises(UsageError, match="batch 1"):
        Table.from_batches([one, other])
    assert Table.from_batches([one]).num_rows == 2
    tagged = read_batch(FIRST.replace_schema_metadata({"k": "v"}))
    assert Table(one.schema, [tagged]).num_rows == 2


def test_a_table_without_batches():
    empty = Table.from_batches([], read_batch(FIRST).schema)
    assert (len(empty), empty.to_pylist(), empty.to_pydict()) == (0, [], {"a": [], "b": []})
    assert empty.column("a").to_pylist() == []
    assert repr(empty)
    assert pa.table(empty).num_rows == 0
    assert (empty.combine().schema, empty.combine().to_pylist()) == (empty.schema, [])


def test_nulls_are_taken_of_a_table_without_batches_as_of_one_without_rows():
    for empty in (ipc.Table(ipc.table({"x": [1]}).schema), ipc.table({"x": [1]})[:0]):
        assert empty.take([None, None]).to_pydict() == {"x": [None, None]}
        assert empty["x"].take([None]).to_pylist() == [None]
        assert (len(empty.take([])), len(empty["x"].take([]))) == (0, 0)
        for rows in (empty, empty["x"]):
            with pytest.raises(IndexError):
                rows.take([0])


def test_values_of_all_batches_are_counted_together():
    found = table(FIRST, SECOND)
    assert len(found.to_pydict(max_values=6)["a"]) == 3
    with pytest.raises(LimitError):
        found.to_pydict(max_values=5)
    with pytest.raises(LimitError):
        found.to_pylist(max_values=8)


def test_names_that_repeat():
    found = table(pa.record_batch([[1], [2]], names=["n", "n"]))
    assert found.to_pylist() == [[("n", 1), ("n", 2)]]
    for use in (found.to_pydict, lambda: found.column("n")):
        with pytest.raises(UsageError):
            use()


def test_equality():
    found = table(FIRST, SECOND)
    assert found == table(FIRST, SECOND)
    assert found == table(pa.Table.from_batches([FIRST, SECOND]).combine_chunks().to_batches()[0])
    assert found != table(FIRST)
    assert found != table(SECOND, FIRST)
    assert found != FIRST
    tagged = [batch.replace_schema_metadata({"k": "v"}) for batch in (FIRST, SECOND)]
    assert not found.equals(table(*tagged), True)
    nan = table(pa.record_batch({"x": [float("nan")]}))
    assert nan != nan
    assert nan.equals(nan, nan_equal=True)
    with pytest.raises(TypeError):
        hash(found)


@given(st.lists(st.lists(st.none() | st.integers(0, 3), max_size=5), min_size=1), st.integers(1, 7))
def test_equality_does_not_see_where_batches_begin(parts, size):
    kind = pa.schema([("x", pa.int8())])
    batches = [pa.record_batch([pa.array(part, pa.int8())], schema=kind) for part in parts]
    whole = pa.Table.from_batches(batches).combine_chunks()
    others = whole.to_batches(max_chunksize=size) or batches
    assert table(*batches) == table(*others)
    assert table(*batches).to_pydict() == whole.to_pydict()


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1), st.integers(0, 20), st.none() | st.integers(0, 20)
)
def test_slices_of_many_batches_are_those_of_pyarrow(parts, offset, length):
    theirs = pa.table({"x": pa.chunked_array(parts, pa.int8())})
    ours = ipc.table(theirs)
    assert ours.num_rows == len(ours["x"]) == theirs.num_rows
    for found in (ours.slice(offset, length), ours["x"].slice(offset, length).to_pylist()):
        assert found == (theirs if isinstance(found, Table) else theirs["x"].to_pylist())[offset:][:length]


def test_rows_beyond_64_bits_are_counted_and_not_sliced():
    nulls = ipc.RecordBatch.from_buffers(ipc.schema({"x": "null"}), 2**62, [(2**62, 2**62)], [])
    found = Table(nulls.schema, [nulls] * 3)
    assert found.num_rows == 3 * 2**62
    with pytest.raises(LimitError, match=r"elements are more than 9,223,372,036,854,775,807"):
        found.slice(1, 2)
