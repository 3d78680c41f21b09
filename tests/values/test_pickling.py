"""Pickles: the same again in any protocol and process, no larger than their rows, believed in nothing (issue 23)."""

import concurrent.futures
import copy
import multiprocessing
import pickle
import random
import uuid

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive, randoms
from helpers.arrays import CASES, pyarrow_bytes, read_batch
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import FormatError

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
ROWS = 1_000_000


def again(thing, protocol=5):
    return pickle.loads(pickle.dumps(thing, protocol))


@given(randoms.batches(), st.sampled_from(PROTOCOLS))
def test_every_batch_is_the_same_again(parts, protocol):
    """Also slices and columns; `travelling` has every type."""
    batches = drive.from_bytes(pyarrow_bytes(parts)).batches
    for batch in [each for whole in batches for each in (whole, whole.slice(1))]:
        found = again(batch, protocol)
        assert found.equals(batch, check_metadata=True, nan_equal=True)
        assert found.custom_metadata == batch.custom_metadata
        for column in batch.columns:
            assert again(column, protocol).equals(column, nan_equal=True)
    if batches:
        table = ipc.Table.from_batches(batches)
        assert again(table).equals(table, check_metadata=True, nan_equal=True)


def test_buffers_go_out_of_band_and_are_not_copied():
    batch = ipc.RecordBatch.from_pydict({"x": np.arange(1000), "y": ["text"] * 1000})
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(batch, 5, buffer_callback=buffers.append)
    assert len(small) < 500
    found = pickle.loads(small, buffers=buffers)
    assert found == batch
    assert np.shares_memory(found["x"].to_numpy(), batch["x"].to_numpy())


def test_a_slice_takes_its_rows_and_a_few_hundred_bytes():
    words = [f"word {i % 50_000}" for i in range(ROWS)]
    texts = pa.array(words)
    views = pa.array(words, pa.string_view())  # pyarrow 24 crashes where it hands over views that it cast
    whole = pa.record_batch({"x": np.arange(ROWS), "s": texts, "d": texts.dictionary_encode(), "v": views})
    part = ipc.RecordBatch.from_arrow(whole).slice(777_777, 10)
    assert len(pickle.dumps(part)) < 10 * (8 + 12 + 12 + 16 + 16) + 900
    assert again(part) == part


def travelling() -> dict[str, object]:
    """One thing of every kind that is pickled."""
    batch = read_batch(pa.record_batch({name: array.slice(0, 2) for name, array in CASES.items() if len(array) >= 2}))
    return {
        "batch": batch,
        "slice": batch.slice(1),
        "table": ipc.Table.from_batches([batch, batch]),
        "columns": batch.columns,
        "schema": batch.schema,
        "tensor": ipc.Tensor(np.arange(6.0).reshape(2, 3).T, dim_names=("a", "b")),
        "sparse": [
            kind.from_dense(np.eye(3), dim_names=("y", "x"))
            for kind in (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)
        ],
    }


def same(found, sent) -> bool:
    """Whether what came back is what went away; NaN equals NaN."""
    if isinstance(sent, list):
        return len(found) == len(sent) and all(map(same, found, sent))
    options = {"nan_equal": True} if isinstance(sent, ipc.RecordBatch | ipc.Table | ipc.Array) else {}
    names = [getattr(each, "dim_names", None) for each in (found, sent)]
    return found.equals(sent, **options) and type(found) is type(sent) and names[0] == names[1]


@pytest.fixture(scope="module", params=["fork", "spawn", "forkserver"])
def pool(request):
    """One other process, begun in each way that there is."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(request.param)) as made:
        yield made


@pytest.mark.parametrize("name", travelling())
def test_everything_travels_to_another_process_and_back(pool, name):
    sent = travelling()[name]
    assert same(pool.submit(copy.copy, sent).result(60), sent)


def test_messages_and_copies():
    batch = ipc.RecordBatch.from_pydict({"x": [1, None], "y": ["a", "b"]})
    for message in (batch.to_message(), ipc.read_message(batch.schema.serialize())):
        for protocol in PROTOCOLS:
            assert again(message, protocol).serialize() == message.serialize()
    table = ipc.Table.from_batches([batch])
    for thing in (batch, batch["y"], table):
        assert copy.copy(thing) == copy.deepcopy(thing) == thing


@pytest.mark.parametrize("count", [0, 1, 2])
def test_columns_of_tables_keep_their_fields(count):
    field = ipc.field("u", ipc.types.binary(16), metadata={"ARROW:extension:name": "arrow.uuid", "k": "v"})
    batch = ipc.record_batch([[bytes(16), None]], schema=[field])
    column = ipc.Table([field], [batch] * count)["u"]
    for found in (copy.copy(column), copy.deepcopy(column), *(again(column, protocol) for protocol in PROTOCOLS)):
        assert found == column
        assert (found.num_chunks, found.field.equals(field, check_metadata=True)) == (count, True)
        assert found.to_pylist() == [uuid.UUID(int=0), None] * count


@pytest.mark.parametrize("url", [False, True])
def test_readers_of_paths_and_urls_open_them_again(tmp_path, url, monkeypatch):
    pytest.importorskip("fsspec")
    for make, opener in ((ipc.new_file, ipc.open_file), (ipc.new_stream, ipc.open_stream), (ipc.new_file, ipc.open)):
        path = tmp_path / "x.arrow"
        with make(path) as writer:
            writer.write({"x": [1, 2], "y": [3, 4]})
        monkeypatch.chdir(tmp_path)
        with opener(path.as_uri() if url else "x.arrow", columns=["y"]) as reader:
            stored = pickle.dumps(reader)
        monkeypatch.chdir("/")
        with pickle.loads(stored) as reader:
            assert reader.read_all().to_pydict() == {"y": [3, 4]}
    with ipc.open(path.read_bytes()) as reader, pytest.raises(TypeError, match="not opened from a path or URL"):
        pickle.dumps(reader)


def test_nothing_that_a_pickle_holds_is_believed():
    """Buffers that were changed give values or a FormatError."""
    dice = random.Random(23)
    refused = 0
    for array in CASES.values():
        batch = read_batch(pa.record_batch({"x": array}))
        buffers: list[pickle.PickleBuffer] = []
        stored = pickle.dumps(batch, 5, buffer_callback=buffers.append)
        for _ in range(10):
            changed = [bytearray(each) for each in buffers]
            some = dice.choice([each for each in changed if each] or [bytearray(1)])
            some[dice.randrange(len(some))] ^= 1 << dice.randrange(8)
            if dice.random() < 0.3:
                del some[len(some) // 2 :]
            try:
                drive.use(pickle.loads(stored, buffers=changed))
            except FormatError:
                refused += 1
    assert refused > 100
