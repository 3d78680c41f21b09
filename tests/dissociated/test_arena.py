"""Where bodies lie, and who holds them: the arena, tables that are put there once, files served by their path."""

import gc
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import MIB, Holder, NoConnection, message, state_of, telling
from dissociated.peers import until, until_collected
from helpers import arrow_columns
from helpers.arrays import stored
from helpers.processes import in_threads

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.memory.arena import Arena
from arrowipc.dissociated.served import StoredFile
from arrowipc.errors import FormatError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("threads", [1, 6])
def test_d072_memory_stays_as_it_is_until_it_is_freed(arena, threads):
    """Bodies are placed and freed in any order, also by threads at once: nobody ever sees the bytes of others."""

    def work(seed: int) -> None:
        holder = Holder(arena, seed)
        for _ in range(120):
            holder.step()
            assert all(holder.is_at(start, data) for start, _, data in holder.held), f"overwritten, seed {seed}"
        holder.release_all()

    for seed in range(20 // threads):
        in_threads(work, range(seed * threads, (seed + 1) * threads))
        assert (state_of(arena).blocks, state_of(arena).used) == (0, 0)
        assert state_of(arena).size <= 64 * MIB


def test_segments_are_used_again_and_idle_ones_make_room_for_bodies_that_do_not_fit_beside_them():
    arena, client = Arena(13 * MIB, MIB, 0), NoConnection()
    for rows, segments in ((1000, 1), (300_000, 2), (1000, 2), (300_000, 2), (700_000, 1)):
        _, addresses, _ = arena.place(message(rows=rows), client)
        arena.release(addresses)
        assert state_of(arena).segments == segments
        assert state_of(arena).size <= 13 * MIB
    arena.close()
    assert arena.place(message(), client) is None


def test_numbers_of_segments_come_round_without_hitting_those_in_use():
    arena = Arena(8 * MIB, MIB, 0)
    client = NoConnection()
    _, kept, _ = arena.place(message(), client)
    arena._next_number = 0xFFFF
    numbers = set()
    for _ in range(3):
        _, addresses, handles = arena.place(message(rows=90_000), client)
        assert handles
        numbers.add(addresses[0] >> 48)
        arena.abandon(addresses)
    assert kept[0] >> 48 == 1
    assert numbers == {0xFFFF, 2, 3}
    arena.close()


def test_an_arena_without_descriptors_or_memory_sends_bodies(arena):
    resource = pytest.importorskip("resource")
    before = len(os.listdir("/proc/self/fd"))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
    try:
        placed = arena.place(message(), NoConnection())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert placed is None
    assert arena.place(message(), NoConnection()) is not None
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_sizes_of_arenas_are_checked():
    sizes = [("capacity", -1), ("capacity", 1 << 48), ("capacity", True), ("segment_bytes", "1"), ("least_bytes", -1)]
    for name, size in sizes:
        with pytest.raises(UsageError, match=f"{name} must be an integer"):
            Arena(**{name: size})
    nothing = Arena(0, least_bytes=0)
    assert nothing.place(message(), NoConnection()) is None
    nothing.close()
    unlimited = Arena(None, least_bytes=0)
    assert unlimited.place(message(), NoConnection()) is not None
    unlimited.close()


SECONDS = peers.SECONDS
ROWS = 5000


def table(batches: int = 4) -> pa.Table:
    return peers.numbers(ROWS, batches)


def read(server, name: str = "t") -> pa.Table:
    return pa.table(peers.read_from(server, name))


SOURCES = {
    "a table": lambda: ipc.Table.from_arrow(table()),
    "another library's table": table,
    "a batch": lambda: ipc.RecordBatch.from_arrow(table(1).to_batches()[0]),
    "what is prepared": lambda: dissociated.Prepared(lambda: iter(table().to_batches())),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_d081_tables_lie_in_shared_memory_once_for_all_clients(kind):
    count = 1 if kind == "a batch" else 4
    with dissociated.Server({"t": SOURCES[kind]()}, "shm") as server:
        assert state_of(server.memory).blocks == 0  # before somebody asks
        found = [read(server) for _ in range(4)]
        assert all(each.equals(table(count)) for each in found)
        assert (state_of(server.memory).segments, state_of(server.memory).blocks) == (1, count)
        del found
        until_collected(lambda: server.num_clients == 0, "everything is given back")
        assert state_of(server.memory).blocks == count  # the source holds them
        assert read(server).equals(table(count))


def test_what_may_change_is_read_anew_for_each_client():
    given = []
    with dissociated.Server({"t": lambda: table(), "l": given}, "shm") as server:
        assert read(server).equals(table())
        until(lambda: state_of(server.memory).blocks == 0, "everything is given back")
        for count in (1, 2):
            given.append(table(1).to_batches()[0])
            assert read(server, "l").num_rows == count * ROWS


def test_small_bodies_of_prepared_tables_are_sent():
    small, large = pa.table({"x": [1, 2, 3]}), table(1)
    both = pa.concat_tables([small, large.select(["x"])] * 3)
    with dissociated.Server({"s": small, "b": both}, "shm") as server:
        assert read(server, "s").equals(small)
        assert state_of(server.memory).segments == 0
        with dissociated.connect(server.uri, "b", timeout=SECONDS) as reader:
            assert pa.table(reader.read_all()).equals(both)
            assert reader.num_bodies_sent == 3
        gc.collect()
        assert state_of(server.memory).blocks == 3


def test_tables_beyond_the_capacity_are_not_held():
    size = table().nbytes
    with dissociated.Server(
        {name: table() for name in "abc"}, "shm", transport_options={"capacity": 5 * size // 2}
    ) as server:
        for name in "abcabc":
            assert read(server, name).equals(table())
        until_collected(lambda: server.num_clients == 0, "everything is given back")
        assert state_of(server.memory).blocks == 8  # two of the tables; the third is copied for each client
        assert state_of(server.memory).size < 3 * size + (5 * size // 2)


@pytest.fixture
def path(tmp_path):
    return stored(tmp_path / "t.arrow", table())


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm", "file"])
@pytest.mark.parametrize("kind", [str, Path, StoredFile])
@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_a_path_names_a_file_to_serve(tmp_path, transport, kind, ending, monkeypatch):
    path = stored(tmp_path / f"t.{ending}", table().to_batches())
    monkeypatch.chdir(tmp_path)
    with dissociated.Server({"t": kind(path.name)}, transport) as server:
        monkeypatch.chdir("/")
        for _ in range(2):
            assert read(server).equals(table())
        if transport == "file":
            with dissociated.connect(server.uri, "t", timeout=SECONDS) as reader:
                assert sum(map(len, reader)) == 4 * ROWS
                assert reader.num_bodies_sent == 0  # both sides map the file


def test_a_callable_may_return_a_path(path):
    for streams in ({"t": lambda: path}, lambda name: str(path), lambda name: lambda: path):
        with dissociated.Server(streams, "shm") as server:
            assert read(server).equals(table())


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_files_of_every_type_and_streams_that_replace_dictionaries_are_served(tmp_path, transport):
    words = [pa.record_batch({"d": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", None])]
    written = {"x.arrow": arrow_columns.file(arrow_columns.everything()), "x.arrows": arrow_columns.stream(*words)}
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
    with dissociated.Server({name: tmp_path / name for name in written}, transport) as server:
        for name, data in written.items():
            assert peers.read_from(server, name).equals(ipc.open(data).read_all())


@pytest.mark.parametrize("transport", ["tcp", "file"])
def test_a_file_that_was_replaced_is_served_as_it_is_now(path, transport):
    with dissociated.Server({"t": path}, transport) as server:
        assert read(server).equals(table())
        shutil.move(stored(path.with_name("other.arrow"), table(1)), path)
        assert read(server).equals(table(1))


@pytest.mark.parametrize("read_before", [0, 1])
def test_a_reader_of_a_file_that_is_replaced_goes_on_with_the_old_one(path, read_before):
    other = stored(path.with_name("other.arrow"), pa.table({"id": range(ROWS), "x": range(ROWS)}))
    with (
        dissociated.Server({"t": path}, "file", transport_options=telling("file")) as server,
        dissociated.connect(server.uri, "t", timeout=SECONDS) as reader,
    ):
        found = [reader.read_next_batch() for _ in range(read_before)]
        shutil.move(other, path)
        assert pa.Table.from_batches(map(pa.record_batch, [*found, *reader])).equals(table())
        assert reader.num_bodies_sent < 4  # some lie in the old file


def test_files_that_cannot_be_served_are_refused_at_once(path):
    path.with_name("text.arrow").write_text("hello there, this is text")
    for transport in ("tcp", "file"):
        with pytest.raises(FileNotFoundError):
            dissociated.Server({"t": path.with_name("nowhere")}, transport)
        with pytest.raises(FormatError, match=r"streams\['t'\]: .*this is text"):
            dissociated.Server({"t": path.with_name("text.arrow")}, transport)
    with pytest.raises(UsageError, match=r'"file" is for one file, .* found 2'):
        dissociated.Server({"t": path, "u": path}, "file")
