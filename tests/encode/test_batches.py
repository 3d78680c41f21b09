"""What people hand to `writer.write`: objects of other libraries, our own, dicts, and chains of them."""

import pyarrow as pa
import pytest
from helpers.arrays import ipc_bytes

import arrowipc as ipc

TABLE = pa.table({"id": [1, 2, None, 4], "word": ["one", "two", "three", None], "list": [[1], [], None, [2, 3]]})

#: The objects of each other library are tried in peers/test_taken.py.
OBJECTS = {
    "pyarrow table": lambda: TABLE,
    "pyarrow batch": lambda: TABLE.to_batches()[0],
    "pyarrow reader": lambda: TABLE.to_reader(max_chunksize=2),
    "pyarrow table of slices": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "our batch": lambda: ipc.RecordBatch.from_arrow(TABLE.to_batches()[0]),
    "our table": lambda: ipc.Table.from_arrow(TABLE),
    "our struct array": lambda: ipc.Array.from_arrow(TABLE.to_struct_array().chunk(0)),
    "batches in a list": lambda: [TABLE.slice(0, 3), TABLE.slice(3)],
    "batches of a generator": lambda: (batch for batch in TABLE.to_batches(max_chunksize=1)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_data_in_every_form_is_written(name):
    written = pa.ipc.open_stream(ipc_bytes([OBJECTS[name]()])).read_all()
    assert written.to_pylist() == TABLE.to_pylist()
    written.validate(full=True)


def test_copy_takes_readers_of_other_libraries():
    sink = bytearray()
    with ipc.new_stream(sink) as writer:
        assert ipc.copy(TABLE.to_reader(), writer) == 0
    assert pa.ipc.open_stream(bytes(sink)).read_all().equals(TABLE)


LISTS = ipc.schema({"a": ipc.types.list_("int64")})


@pytest.mark.parametrize(
    ("items", "schema", "expected"),
    [
        ([{"a": [1, 2]}, {"a": [3]}], LISTS, [{"a": [1, 2]}, {"a": [3]}]),
        ([{"a": [[1], [2]]}, {"a": [[3]]}], LISTS, [{"a": [1]}, {"a": [2]}, {"a": [3]}]),
        ([{"a": []}, {"a": []}], LISTS, [{"a": []}, {"a": []}]),
        ([{"a": [None]}, {"a": [None, None]}], LISTS, [{"a": [None]}, {"a": [None, None]}]),
        ([{"a": [1]}, {"a": None}], None, [{"a": [1]}, {"a": None}]),
        ([{"a": [1, 2], "b": ["x"]}], None, [{"a": [1, 2], "b": ["x"]}]),
        ([{"a": [1, 2]}, {"a": [3]}], None, [{"a": 1}, {"a": 2}, {"a": 3}]),  # could be either
        (lambda: iter([{"a": [1, 2]}, {"a": [3]}]), None, [{"a": 1}, {"a": 2}, {"a": 3}]),
    ],
)
def test_dicts_in_a_list_are_rows_where_they_cannot_be_batches(items, schema, expected):
    ipc.write(items() if callable(items) else items, sink := bytearray(), schema)
    assert ipc.read(sink).to_pylist() == expected


def test_a_path_says_whether_it_is_a_stream(tmp_path):
    for name, kind in (("x.arrows", "RecordBatchStreamReader"), ("x.arrow", "RecordBatchFileReader")):
        ipc.write(TABLE, tmp_path / name)
        assert type(ipc.open(tmp_path / name)).__name__ == kind
    with pytest.raises(ipc.UsageError, match="a stream has no footer for metadata"):
        ipc.write(TABLE, tmp_path / "y.arrows", metadata={"k": "v"})
    assert not (tmp_path / "y.arrows").exists()
