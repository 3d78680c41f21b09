"""Tables that are put into shared memory once, or built there; files that are served by their path."""

from __future__ import annotations

import gc
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.peers import until, until_collected

import arrowipc as ipc
from arrowipc import dissociated, types
from arrowipc.dissociated.served import StoredFile
from arrowipc.errors import UsageError
from arrowipc.types import field

SECONDS = peers.SECONDS
ROWS = 5000
DATA = pa.table({"x": np.arange(4 * ROWS), "s": [str(i) for i in range(4 * ROWS)]})


pytestmark = pytest.mark.usefixtures("nothing_left")


def table(batches: int = 4) -> pa.Table:
    return pa.Table.from_batches(DATA.slice(0, batches * ROWS).to_batches(max_chunksize=ROWS))


def read(server, name: str = "t") -> pa.Table:
    with dissociated.connect(server.uri, name, timeout=SECONDS) as reader:
        return pa.table(reader.read_all())


SOURCES = {
    "a table": lambda: ipc.Table.from_arrow(table()),
    "another library's table": table,
    "a batch": lambda: ipc.RecordBatch.from_arrow(table(1).to_batches()[0]),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_tables_lie_in_shared_memory_once_for_all_clients(kind):
    source = SOURCES[kind]()
    with dissociated.Server({"t": source}, "shm") as server:
        assert server.memory.state.blocks == 0  # before somebody asks
        found = [read(server) for _ in range(4)]
        assert all(each.equals(pa.table(source)) for each in found)
        assert server.memory.state.blocks == len(found[0].to_batches())
        assert server.memory.state.segments == 1
        del found
        until_collected(lambda: server.num_clients == 0, "everything is given back")
        assert server.memory.state.blocks == len(pa.table(source).to_batches())


def test_what_may_change_is_read_anew_for_each_client():
    given = []
    with dissociated.Server({"t": lambda: table(), "l": given}, "shm") as server:
        assert read(server).equals(table())
        until(lambda: server.memory.state.blocks == 0, "everything is given back")
        for count in (1, 2):
            given.append(table(1).to_batches()[0])
            assert read(server, "l").num_rows == count * ROWS


def test_small_bodies_of_prepared_tables_are_sent():
    small, large = pa.table({"x": [1, 2, 3]}), table(1)
    both = pa.Table.from_batches(
        [b for _ in range(3) for b in (*small.to_batches(), *large.select(["x"]).to_batches())]
    )
    with dissociated.Server({"s": small, "b": both}, "shm") as server:
        assert read(server, "s").equals(small)
        assert server.memory.state.segments == 0
        with dissociated.connect(server.uri, "b", timeout=SECONDS) as reader:
            assert pa.table(reader.read_all()).equals(both)
            assert reader.num_bodies_sent == 3
        gc.collect()
        assert server.memory.state.blocks == 3


def test_tables_beyond_the_capacity_are_not_held():
    size = table().nbytes
    with dissociated.Server(
        {name: table() for name in "abc"}, "shm", transport_options={"capacity": 5 * size // 2}
    ) as server:
        for name in "abcabc":
            assert read(server, name).equals(table())
        until_collected(lambda: server.num_clients == 0, "everything is given back")
        assert server.memory.state.blocks == 8  # two of the tables; the third is copied for each client
        assert server.memory.state.size < 3 * size + (5 * size // 2)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "t.arrow"
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, DATA.schema) as writer:
        writer.write_table(table())
    return target


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm", "file"])
@pytest.mark.parametrize("kind", [str, os.fspath, StoredFile])
def test_a_path_names_a_file_to_serve(path, transport, kind, monkeypatch):
    monkeypatch.chdir(path.parent)
    with dissociated.Server({"t": kind(path.name) if kind is not os.fspath else path}, transport) as server:
        monkeypatch.chdir("/")
        for _ in range(2):
            assert read(server).equals(table())
        if transport == "file":
            with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
                assert sum(map(len, reader)) == 4 * ROWS
                assert reader.num_bodies_sent == 0


@pytest.mark.parametrize("transport", ["tcp", "file"])
def test_a_file_that_was_replaced_is_served_as_it_is_now(path, transport):
    with dissociated.Server({"t": path}, transport) as server:
        assert read(server).equals(table())
        other = path.with_name("other.arrow")
        with pa.OSFile(str(other), "wb") as sink, pa.ipc.new_file(sink, DATA.schema) as writer:
            writer.write_table(table(1))
        shutil.move(other, path)
        assert read(server).equals(table(1))


# -- tables that are built in the arena ------------------------------------------------------------------------------

PLAIN = [
    *(types.int8(), types.uint8(), types.int16(), types.uint16(), types.int32(), types.uint32(), types.int64()),
    *(types.uint64(), types.float16(), types.float32(), types.float64(), types.timestamp("us", "UTC")),
    *(types.duration("ns"), types.time32("s"), types.time64("ns"), types.date64(), types.FixedSizeBinary(5)),
    *(types.decimal128(9, 2), types.month_day_nano_interval()),
]


def filled(arena, rows: int, kinds: list) -> tuple[ipc.Table, dict[str, bytes]]:
    new = arena.new_table(ipc.Schema([field(f"c{i}", kind) for i, kind in enumerate(kinds)]), rows)
    chance, expected = np.random.default_rng(5), {}
    for i in range(len(kinds)):
        array = new[f"c{i}"]
        assert len(array) == rows
        assert not array.any() if array.dtype.kind not in "VMm" else True
        if array.dtype.kind != "V":
            days = 86_400_000 if kinds[i] == types.date64() else 1
            array[...] = (chance.integers(0, 50, array.shape) * days).astype(array.dtype)
        expected[f"c{i}"] = array.tobytes()
        assert array.flags.writeable
    made = new.finish()
    for i in range(len(kinds)):
        with pytest.raises(ValueError, match="read-only"):
            new[f"c{i}"][...] = 0
    return made, expected


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_tables_built_in_the_arena_are_served_from_where_they_lie(rows):
    arena = dissociated.Arena()
    nested = types.list_(types.list_(types.int16(), 3), 2)
    made, expected = filled(arena, rows, [*PLAIN, types.list_(types.float32(), 4), nested])
    before = arena.state
    with dissociated.Server({"t": made}, "shm", transport_options={"arena": arena}) as server:
        assert server.memory is arena
        for _ in range(2):
            with dissociated.connect(server.uri, "t", timeout=SECONDS, validate="strict") as reader:
                found = reader.read_all()
                assert reader.num_bodies_sent == 0
            assert found.equals(made)
            (batch,) = found.to_batches()
            for name, values in expected.items():
                assert batch[name].to_numpy().tobytes() == values
            assert arena.state == before
        pa.table(found).validate(full=True)
        del found, batch, reader
        gc.collect()


def test_memory_of_new_tables_goes_with_the_last_that_reads_it():
    arena = dissociated.Arena()
    schema = ipc.Schema([field("x", types.int64())])
    arena.new_table(schema, 1000)  # dropped before it was finished
    gc.collect()
    assert arena.state.segments == 0
    new = arena.new_table(schema, 1000)
    new["x"][:] = np.arange(1000)
    made = new.finish()
    del new
    column = made.to_batches()[0]["x"].slice(10, 2)
    del made
    gc.collect()
    assert arena.state.blocks == 1
    assert column.to_pylist() == [10, 11]
    del column
    gc.collect()
    assert arena.state.segments == 0
    arena.close()
    with pytest.raises(UsageError, match="closed"):
        arena.new_table(schema, 1)


def test_several_batches_of_a_table_may_each_be_built_there():
    arena = dissociated.Arena()
    schema = ipc.Schema([field("x", types.int64())])
    batches = []
    for number in range(3):
        new = arena.new_table(schema, 100)
        new["x"] = number - 1
        new["x"] += 1
        batches += new.finish().to_batches()
    with dissociated.Server({"t": ipc.Table(schema, batches)}, "shm", transport_options={"arena": arena}) as server:
        assert read(server).column("x").to_pylist() == [0] * 100 + [1] * 100 + [2] * 100
        assert arena.state.blocks == 3


@pytest.mark.parametrize(
    ("fields", "rows", "words"),
    [
        ([field("s", types.utf8())], 1, r"column 's': expected a type of fixed width .* found utf8|string"),
        ([field("b", types.bool_())], 1, "column 'b': expected a type of fixed width"),
        ([field("d", types.dictionary(types.int8(), types.utf8()))], 1, "column 'd'"),
        ([field("n", types.null())], 1, "column 'n'"),
        ([field("l", types.list_(types.utf8(), 2))], 1, "column 'l'"),
        ([field("x", types.int8()), field("x", types.int8())], 1, "two columns are named 'x'"),
        ([field("x", types.int8())], -1, "num_rows"),
        ([field("x", types.int8())], 1 << 41, "num_rows"),
    ],
)
def test_tables_that_cannot_be_built_in_place_are_refused(fields, rows, words):
    arena = dissociated.Arena()
    with pytest.raises(UsageError, match=words):
        arena.new_table(ipc.Schema(fields), rows)
    assert arena.state.segments == 0
    arena.close()


def test_tables_for_which_there_is_no_memory_are_refused():
    arena = dissociated.Arena()
    schema = ipc.Schema([field("x", types.list_(types.int64(), 1 << 10))])
    with pytest.raises((OSError, UsageError)):
        arena.new_table(schema, 1 << 40)
    assert arena.state.segments == 0
    with pytest.raises(UsageError, match="no column 'y': there are 'x'"):
        arena.new_table(schema, 2)["y"]
    arena.close()
