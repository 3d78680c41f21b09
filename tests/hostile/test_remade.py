"""What is shared is made once: nothing that Python offers for that makes, fills or changes it a second time."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
from helpers.calls import FILE, OBJECTS, STREAM
from helpers.processes import run_function
from hostile import second_init

import arrowipc as ipc
from arrowipc import types
from arrowipc.decode import decompress

COLUMNS = ipc.Schema([ipc.Field("x", types.list_(types.int8())), ipc.Field("d", types.decimal128(9, 2))], {"a": "b"})
IMMUTABLE = [COLUMNS, COLUMNS.fields[0], COLUMNS.metadata, ipc.Limits(depth=3), *(field.type for field in COLUMNS)]


def test_nothing_is_made_filled_or_changed_a_second_time():
    """``__init__`` again, ``__setstate__``, ``__class__``, attributes, ``__new__`` alone, copies, pickles."""
    done = run_function(second_init.main)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("value", IMMUTABLE, ids=lambda value: type(value).__name__)
def test_what_describes_data_does_not_change(value):
    before, attributes = repr(value), type(value).__match_args__
    for name in (*attributes, "__class__"):
        for change in (object.__setattr__, setattr):
            with pytest.raises(AttributeError):
                change(value, name, None)
        for remove in (object.__delattr__, delattr):
            with pytest.raises(AttributeError):
                remove(value, name)
    value.__init__()
    value.__init__(*attributes)
    assert repr(value) == before
    assert [copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))] == [value] * 3


def test_a_decoder_or_a_writer_begins_once():
    writer, decoder = ipc.new_stream(bytearray(), COLUMNS), ipc.StreamDecoder()
    for again in (lambda: writer.__init__(bytearray(), COLUMNS), decoder.__init__):
        with pytest.raises(ipc.UsageError, match="once"):
            again()
    decoder.feed(COLUMNS.serialize())
    assert decoder.read_schema()
    writer.close()


def test_the_parts_of_a_table_and_of_a_column_do_not_change():
    table = ipc.open_stream(STREAM).read_all()
    column, rows = table["x"], table.to_pylist()
    for thing, names in ((table, ("batches", "schema", "columns")), (column, ("chunks", "field"))):
        for name in names:
            with pytest.raises(AttributeError):
                setattr(thing, name, [])
    for parts in (table.batches, column.chunks):
        parts.append(parts.pop(0).slice(1))
    assert (len(table), table.to_pylist(), column.to_pylist()) == (500, rows, [row["x"] for row in rows])
    for each in (copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        assert each(table) == table
        assert each(column) == column


READERS = [name for name in OBJECTS if "Reader" in name and "closed" not in name] + ["Recovery", "RowDataset"]


@pytest.mark.parametrize("name", READERS)
def test_a_reader_in_use_is_not_made_again(name):
    reader, other = OBJECTS[name](), OBJECTS[name]()
    for source in (FILE, STREAM):
        with pytest.raises(ipc.UsageError, match=f"this {type(reader).__name__} was made already"):
            reader.__init__(source)
    if name == "RowDataset":
        assert reader[0] == other[0]
    else:
        assert list(map(repr, reader)) == list(map(repr, other))


def test_a_reader_that_follows_a_growing_stream_is_not_made_again(tmp_path):
    path = tmp_path / "x.arrows"
    path.write_bytes(STREAM[:-8])
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        with pytest.raises(ipc.UsageError, match="this FollowingStreamReader was made already"):
            reader.__init__(path)
        assert len(list(reader)) == 3


@pytest.mark.parametrize("kind", [ipc.RecordBatchFileWriter, ipc.RecordBatchStreamWriter, ipc.StreamDecoder])
def test_what_was_never_initialized_says_so(kind):
    blank = kind.__new__(kind)
    with pytest.raises(ipc.UsageError, match="__init__ was not called"):
        blank.next_event() if kind is ipc.StreamDecoder else blank.write({"x": [1]})


def classes_of(module):
    public = [getattr(module, name) for name in module.__all__]
    return {kind for kind in public if isinstance(kind, type) and not issubclass(kind, tuple | Exception)}


def test_objects_of_all_public_classes_can_be_referred_to_weakly():
    kinds = classes_of(ipc) | classes_of(types)
    assert len(kinds) > 30
    assert {kind.__name__ for kind in kinds if not kind.__weakrefoffset__} == set()


def test_the_registry_has_an_object_of_every_public_class():
    found = [make() for make in OBJECTS.values()]
    missing = {kind for kind in classes_of(ipc) if not any(isinstance(each, kind) for each in found)}
    assert missing == {ipc.RowStream}


class Broken:
    """Another library's data that cannot be had."""

    dim_names = ()

    def fail(self, *_, **__):
        raise ValueError("broken")

    __arrow_c_stream__ = __arrow_c_array__ = __arrow_c_schema__ = __dlpack__ = to_numpy = fail


@pytest.mark.parametrize(
    "name",
    [
        *("Array", "ChunkedArray", "DataType", "Field", "KeyValueMetadata", "Limits", "RecordBatch", "Schema", "Table"),
        *("SparseCOOTensor", "SparseCSCMatrix", "SparseCSFTensor", "SparseCSRMatrix", "Tensor"),
    ],
)
def test_what_cannot_be_read_is_not_equal(name):
    thing = OBJECTS[name]()
    dense = np.zeros((4, 2), np.int64)
    dense[3, 1] = 5
    theirs = pa.SparseCOOTensor.from_dense_numpy(np.asfortranarray(dense))  # pyarrow gives it wrong coordinates
    for other in (Broken(), theirs, pa.array([{"a": 1}], pa.struct([("a", pa.int8())])), object()):
        assert (thing == other) is False
        assert thing != other
    assert ipc.SparseCOOTensor.from_dense(dense) != theirs


def test_a_stream_that_is_longer_is_not_read_on():
    batch = ipc.record_batch({"x": [1, 2]})
    taken = []

    def endless():
        while len(taken) < 1000:
            taken.append(1)
            yield batch.to_arrow()

    def stream():
        taken.clear()
        return pa.RecordBatchReader.from_batches(batch.to_arrow().schema, endless())

    for mine in (batch, ipc.table(batch), ipc.Table.from_batches([batch, batch])):
        assert mine != stream()
        assert len(taken) <= 4
        assert not mine.equals(stream())
        assert mine == pa.Table.from_batches([batch.to_arrow()] * (mine.num_rows // 2))
    column = pa.chunked_array([[1, 2]] * 3)
    for mine in (batch["x"], ipc.table(batch)["x"]):
        assert mine != column
        assert mine == pa.chunked_array([[1], [2]])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_release_unused_frees_the_contexts_of_codecs(codec):
    sink = bytearray()
    with ipc.new_stream(sink, compression=codec) as writer:
        writer.write({"x": [0] * 10_000})
    ipc.open(bytes(sink)).read_all()
    assert decompress.forget_contexts() > 0
    ipc.open(bytes(sink)).read_all()
    ipc.release_unused()
    assert decompress.forget_contexts() == 0
    assert ipc.open(bytes(sink)).read_all().num_rows == 10_000
