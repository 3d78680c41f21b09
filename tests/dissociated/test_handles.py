"""Every kind of memory that a server may tell of, and what is refused."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import lending
from helpers.lending import (
    MIB,
    PATIENCE,
    ForgedServer,
    NoConnection,
    batch,
    extents,
    is_batch,
    memfd,
    message,
    packed,
    pairs_of,
    read_pairs,
    record,
    telling,
    until,
)

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.memory.address_pairs import read_process, write_pairs
from arrowipc.dissociated.memory.arena import SEALS, Arena
from arrowipc.dissociated.served import ReadyMessages, messages_of
from arrowipc.dissociated.transports import shared
from arrowipc.dissociated.transports.shared import FileMemory, OwnMemory, open_peer_memory
from arrowipc.dissociated.transports.sockets import HEADER, HELLO, TAGGED, SocketConnection
from arrowipc.types import field, int64

# Processes of other users and forked children, which the sanitizers' runtime does not get along with.
pytestmark = pytest.mark.nosanitize


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(64 * MIB, 4 * MIB, 0)
    yield made
    made.close()


def test_memory_that_could_shrink_is_refused():
    for seals in (0, SEALS & ~2, SEALS & ~4):
        with ForgedServer() as server:
            fd = memfd(bytes(64) + packed(server.messages[1]), seals)
            server.send(server.messages[1], write_pairs(server.messages[1], 64), [fd])
            os.close(fd)
            with pytest.raises(ipc.FormatError, match="SHRINK and GROW"), server.client() as client:
                client.read_next_batch()


def test_descriptors_that_are_no_memory_are_refused_and_closed(tmp_path):
    (tmp_path / "file").write_bytes(bytes(4096))
    reader, writer = os.pipe()
    for opened in (os.dup(reader), os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "file", os.O_RDONLY)):
        with ForgedServer() as server:
            before = len(os.listdir("/proc/self/fd"))
            server.send(server.messages[1], write_pairs(server.messages[1], 64), [opened])
            with pytest.raises(ipc.FormatError, match=r"seal|change its size"), server.client() as client:
                client.read_next_batch()
            assert len(os.listdir("/proc/self/fd")) <= before
        os.close(opened)
    os.close(reader)
    os.close(writer)


def test_clients_can_neither_write_to_an_arena_nor_change_its_size(arena):
    _pairs, _, (handle,) = arena.place(message(), NoConnection())
    assert fcntl.fcntl(handle, fcntl.F_GET_SEALS) & SEALS == SEALS
    with pytest.raises(PermissionError):
        mmap.mmap(handle, 4096)
    with pytest.raises(OSError, match=r"\[Errno"):
        os.ftruncate(handle, 0)
    with pytest.raises(OSError, match=r"\[Errno"):
        os.write(handle, b"x")
    with pytest.raises(OSError, match=r"\[Errno"):
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, 1)


def test_a_forked_child_has_no_writable_map_of_an_arena():
    script = (
        "import os\n"
        "from helpers.lending import batch\n"
        "from arrowipc.dissociated.memory.arena import Arena\n"
        "from arrowipc.dissociated.served import messages_of\n"
        "arena = Arena(least_bytes=0)\n"
        "held = arena.hold(messages_of(batch(1)))\n"
        "assert arena.place(list(messages_of(batch(0)))[1], arena) is not None\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    maps = [line for line in open('/proc/self/maps') if 'memfd:arrowipc' in line]\n"
        "    fine = maps and all(line.split()[1].startswith('r--') for line in maps)\n"
        "    fine = fine and arena.place(list(messages_of(batch(0)))[1], arena) is None\n"
        "    arena.close()\n"
        "    os._exit(0 if fine and bytes(held[1].body) else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert arena.state.blocks == 2\n"
    )
    script = script.replace(", arena)", ", Somebody())").replace("arena = ", "class Somebody: pass\narena = ")
    subprocess.run([sys.executable, "-c", script], env=lending.environment(), check=True, timeout=PATIENCE)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_processes_of_other_users_get_no_memory():
    with dissociated.Server({"numbers": batch(0)}, "shm", transport_options=telling()) as server:
        with lending.Process("refused", server.uri, 65534) as stranger:
            assert stranger.says() == "PermissionError"
        with dissociated.connect(server.uri, "numbers", timeout=PATIENCE) as reader:
            assert is_batch(reader.read_next_batch(), 0)


def test_descriptors_of_a_message_that_finds_no_room_are_closed():
    ours, theirs = socket.socketpair()
    connection = SocketConnection(ours, "the peer")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    socket.send_fds(theirs, [HELLO + HEADER.pack(TAGGED, 1, 0, 0, 0, 1 << 61)], [writer])
    os.close(writer)
    with pytest.raises(ipc.LimitError, match="than there is room for"):
        connection.progress()
    connection.close()
    assert os.read(reader, 1) == b"", "somebody still holds the other end"
    os.close(reader)
    theirs.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_memory_of_servers_of_other_users_is_not_touched():
    batches = [batch(0)]
    with dissociated.Server({"numbers": lambda: iter(batches)}, "shm", transport_options=telling()) as server:
        server._endpoint.listener._same_user = False
        with lending.Process("refused", server.uri, 65534) as stranger:
            assert stranger.says() == "PermissionError"


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (b"memfd:1", ipc.UnsupportedError),
        (b"\x01\x02\xff", ipc.UnsupportedError),
        (b"file:relative", ipc.FormatError),
        (b"file:/with\0zero", ipc.FormatError),
        (b"shm:/a/b", ipc.FormatError),
        (b"shm:/..", ipc.FormatError),
        (b"cma:1", ipc.FormatError),
        (b"cma:0:1", ipc.FormatError),
        (b"cma:-1:1", ipc.FormatError),
        (b"cma:" + b"9" * 5000 + b":1", ipc.FormatError),
    ],
)
def test_handles_that_mean_nothing_are_errors(handle, error):
    with pytest.raises(error):
        open_peer_memory(handle)


# -- files, named memory, the memory of a process ------------------------------------------------------------


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("raw", [True, False])
def test_files_are_mapped_by_both_sides_and_nothing_is_copied(tmp_path, ending, raw):
    path = tmp_path / f"x.{ending}"
    with (ipc.new_file if ending == "arrow" else ipc.new_stream)(path) as writer:
        for number in range(3):
            writer.write(batch(number))
    server = dissociated.Server(
        lambda name: ReadyMessages(server.memory.messages()) if raw else ipc.open(server.memory.mapping),
        "file",
        transport_options={"path": path},
    )
    with server:
        placed = record(server.memory)
        with dissociated.connect(server.uri, timeout=PATIENCE) as reader:
            kept = list(reader)
        assert len(placed) == 3
        assert all(each is not None for each in placed)
        data = path.read_bytes()
        for each, found in zip(placed, kept, strict=True):
            _, places = read_pairs(each[0])
            address, _length = next(place for place in places if place[1])
            assert data[address : address + 8000] == b"".join(
                value.to_bytes(8, "little") for value in found.column(0).to_pylist()
            )
        del found
        kept.clear()
        until(lambda: server.num_clients == 0, "the client gave everything back")


def test_a_file_that_was_replaced_is_sent(tmp_path):
    path = tmp_path / "x.arrow"
    with ipc.new_file(path) as writer:
        writer.write(batch(0))
    memory = FileMemory(path)
    found = list(memory.messages())[-1]
    assert memory.place(found, NoConnection()) is not None
    with ipc.new_file(path) as writer:
        writer.write(batch(1))
    assert memory.place(found, NoConnection()) is None
    path.unlink()
    assert memory.place(found, NoConnection()) is None


def test_named_memory_is_mapped():
    name = f"arrowipc-test-{os.getpid()}"
    path = Path("/dev/shm") / name
    if not path.parent.is_dir():
        pytest.skip("no /dev/shm")
    try:
        with ForgedServer(remote_handle=b"shm:/" + name.encode()) as server:
            path.write_bytes(bytes(64) + packed(server.messages[1]))
            server.send(server.messages[1], write_pairs(server.messages[1], 64))
            server.end()
            with server.client() as client:
                (found,) = client
                assert is_batch(found, 0)
    finally:
        path.unlink(missing_ok=True)


def test_files_that_are_none_or_became_shorter_are_errors(tmp_path):
    path = tmp_path / "bodies"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    for handle in ("pipe", "empty", ".", "absent"):
        with ForgedServer(remote_handle=b"file:" + os.fsencode(tmp_path / handle)) as server:
            server.send(server.messages[1], write_pairs(server.messages[1], 64))
            with server.client() as client, pytest.raises((ipc.FormatError, OSError)):
                client.read_next_batch()
    with ForgedServer(
        ReadyMessages([*messages_of(batch(0)), message(0)]), remote_handle=b"file:" + os.fsencode(path)
    ) as server:
        path.write_bytes(bytes(64) + packed(server.messages[1]))
        server.send(server.messages[1], write_pairs(server.messages[1], 64))
        server.send(server.messages[2], write_pairs(server.messages[2], 64))
        with server.client() as client:
            assert is_batch(client.read_next_batch(), 0)
            os.truncate(path, 64)
            with pytest.raises(ipc.FormatError, match="bytes long when it was mapped"):
                client.read_next_batch()


def test_the_memory_of_a_process_is_read_and_given_back_at_once():
    with lending.Process("serve", "cma", 20, 5000) as process:
        uri = process.says()
        process.must_be_readable()
        assert b"cma:" in (dissociated.DissociatedUri.parse(uri).remote_handle or b"")
        with dissociated.connect(uri, "numbers", timeout=PATIENCE) as reader:
            kept = list(reader)

        def gone() -> bool:
            process.hears("")
            return process.says() == "0"

        until(gone, "the connection ends")
        assert len(kept) == 20
        assert all(is_batch(found, number, 5000) for number, found in enumerate(kept))


def test_another_process_of_the_same_number_is_not_read():
    own = OwnMemory(least_bytes=0)
    pid, started = (int(each) for each in own.remote_handle.split(b":")[1:])
    found = message()
    body, _, _ = own.place(found, NoConnection())
    for handle, error in (
        (f"cma:{pid}:{started + 1}", ProcessLookupError),
        ("cma:4194305:1", ProcessLookupError),
    ):
        with ForgedServer(remote_handle=handle.encode()) as server:
            server.send(server.messages[1], body)
            with server.client() as client, pytest.raises(error):
                client.read_next_batch()


def test_addresses_of_a_process_that_hold_nothing_are_errors():
    own = OwnMemory(least_bytes=0)
    for address in (1, 4096, 1 << 46, 1 << 63):
        with ForgedServer(remote_handle=own.remote_handle) as server:
            server.send(server.messages[1], write_pairs(server.messages[1], address))
            with server.client() as client, pytest.raises(ipc.FormatError, match="no readable memory"):
                client.read_next_batch()


def test_what_is_read_after_the_server_let_go_of_it_does_not_count():
    own = OwnMemory(least_bytes=0)
    found = message()
    body, _, _ = own.place(found, NoConnection())
    with ForgedServer(remote_handle=own.remote_handle) as server:
        server.send(server.messages[1], body)
        client = server.client()
        server.connection.close()
        with client, pytest.raises(ipc.TruncatedError, match="ended the connection"):
            client.read_next_batch()


def test_memory_of_a_process_is_kept_for_each_of_its_leases():
    own = OwnMemory(MIB, 0)
    found = message()
    _, addresses, _ = own.place(found, NoConnection())
    _, again, _ = own.place(found, NoConnection())
    assert addresses == again
    assert own.size == 2 * sum(len(each) for each in found.buffers)
    own.release(addresses)
    assert own.size == sum(len(each) for each in found.buffers)
    own.abandon(again)
    own.release(again)
    assert own.size == 0
    assert own.place(message(rows=100_000), NoConnection()) is None


def test_small_bodies_are_sent_instead_of_read_out_of_a_process():
    own = OwnMemory()
    assert own.place(message(rows=1000), NoConnection()) is None
    assert own.place(message(rows=10_000), NoConnection()) is not None


@pytest.mark.parametrize("system", ["with pidfd", "without"])
def test_a_process_is_looked_up_once_per_connection(system, monkeypatch):
    looked: list[int] = []
    start_time = shared._start_time
    monkeypatch.setattr(shared, "_start_time", lambda pid: looked.append(pid) or start_time(pid))
    if system == "without":
        monkeypatch.delattr(os, "pidfd_open")
    with dissociated.Server(
        {"n": lambda: iter([batch(number) for number in range(20)])},
        "cma",
        transport_options=telling("cma"),
    ) as server:
        placed = lending.record(server.memory)
        looked.clear()
        with dissociated.connect(server.uri, "n", timeout=PATIENCE) as reader:
            assert all(is_batch(found, number) for number, found in enumerate(reader))
    assert len(placed) == 20
    assert None not in placed
    # Without a way to hold on to a process, its number may be another's after each message.
    assert len(looked) == (1 if system == "with pidfd" else 21)


@pytest.mark.parametrize("reaped", [False, True])
def test_a_process_that_ended_is_noticed_though_its_connection_goes_on(reaped):
    """A child of the server may have the socket too: then nobody hangs up."""
    found = message()
    memory = packed(found)
    body = write_pairs(found, np.frombuffer(memory, np.uint8).ctypes.data)
    child = os.fork()  # it has the same bytes at the same addresses
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        handle = f"cma:{child}:{shared._start_time(child)}".encode()
        source = ReadyMessages([*messages_of(batch(0)), found])
        with ForgedServer(source, remote_handle=handle) as server, server.client() as client:
            server.send(server.messages[1], body)
            assert is_batch(client.read_next_batch(), 0)
            os.kill(child, signal.SIGKILL)
            if reaped:
                os.waitpid(child, 0)
            else:
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            server.send(server.messages[2], body)
            with pytest.raises(ipc.TruncatedError, match="before what it told of had been read"):
                client.read_next_batch()
    finally:
        if not reaped:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# -- chosen columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["one each", "skipped", "whole"])
@pytest.mark.parametrize("columns", [["x"], [0], "nothing", None])
def test_of_chosen_columns_only_their_buffers_are_read(layout, columns):
    """Those of the others lie nowhere, or behind the end of what there is."""
    found = message()
    memory = np.frombuffer(packed(found), np.uint8)
    (_, x), *rest = [(place, size) for place, size in extents(found) if size]
    base = memory.ctypes.data
    if layout == "whole":
        places = [(base, x), (1 << 46, found.body_length - x)]
    else:
        places = [(base, x), *((1 << 46 | place, size) for place, size in rest)]
        if layout == "one each":
            bodies = iter(places)
            places = [next(bodies) if size else (0, 0) for _, size in extents(found)]
    handle = OwnMemory().remote_handle
    decoder = ipc.StreamDecoder(columns=[] if columns == "nothing" else columns)
    with ForgedServer(remote_handle=handle, decoder=decoder) as server:
        server.send(server.messages[1], pairs_of(*places))
        with server.client() as client:
            if columns is None:
                with pytest.raises(ipc.FormatError, match="no readable memory"):
                    client.read_next_batch()
            else:
                expected = {} if columns == "nothing" else {"x": lending.values(0)["x"]}
                assert client.read_next_batch().to_pydict() == expected
                # Everything is given back, whether it was read or not.
                given = sorted(address for address, size in places if size)
                assert sorted(server.freed(len(given))) == given


@pytest.mark.parametrize("validate", ["none", "full", "strict"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_any_choice_of_columns_is_what_they_are_in_the_whole(compression, validate):
    pa = pytest.importorskip("pyarrow")
    words = ["", None, "a", "a longer text than fits into a view"] * 500
    table = pa.table(
        {
            "i": pa.array(range(2000)),
            "s": words,
            "v": pa.array(words, pa.string_view()),
            "l": [[1, 2], None, [], [3]] * 500,
            "d": pa.array(words).dictionary_encode(),
            "t": pa.array([{"a": 1, "b": each} for each in words]),
            "e": pa.array(words).dictionary_encode(),
            "w": pa.array(words[::-1], pa.string_view()),
        }
    )
    chance = random.Random(22)
    with dissociated.Server({"t": table}, "cma", transport_options=telling("cma"), compression=compression) as server:
        with dissociated.Channel(server.uri, timeout=PATIENCE) as channel:
            for _ in range(12):
                names = chance.sample(table.column_names, chance.randint(1, 4))
                with channel.read("t", columns=names, validate=validate) as reader:
                    assert pa.table(reader.read_all()).equals(table.select(names)), names
            with channel.read("t", columns=["t.b"], validate=validate) as reader:
                assert pa.table(reader.read_all()).column("t").to_pylist() == [{"b": each} for each in words]
        until(lambda: server.num_clients == 0, "everything is given back")
        assert server.memory.size == 0


def test_how_much_is_read_depends_on_the_columns(monkeypatch):
    sizes: list[int] = []
    read = shared.read_process

    def counting(pid: int, places: Any, target: Any) -> None:
        sizes.append(sum(length for _, length, _ in places))
        read(pid, places, target)

    monkeypatch.setattr(shared, "read_process", counting)
    data = {f"c{i}": list(range(i, i + 5000)) for i in range(20)}
    wide = ipc.RecordBatch.from_pydict(data, ipc.Schema([field(name, int64()) for name in data]))
    with dissociated.Server({"w": wide}, "cma") as server:
        for columns in (None, ["c3"], ["c7", "c19"]):
            with dissociated.connect(server.uri, "w", columns=columns, timeout=PATIENCE) as reader:
                assert reader.read_next_batch().to_pydict() == {name: data[name] for name in columns or data}
    assert sizes == [20 * 40_000, 40_000, 2 * 40_000]


def test_many_places_of_a_process_are_read_at_once():
    chance = random.Random(4)
    source = np.frombuffer(chance.randbytes(1 << 16), np.uint8)
    base = source.ctypes.data
    target = bytearray(1 << 17)
    expected, places, at = bytearray(target), [], 0
    for _ in range(1000):
        start, size = chance.randrange(1 << 15), chance.choice([0, 1, 7, 64, 100])
        places.append((base + start, size, at))
        expected[at : at + size] = source[start : start + size].tobytes()
        at += size + chance.randrange(3)
    read_process(os.getpid(), places, target)
    assert target == expected
    broken = [*places[:700], (4096, 8, 0), *places[700:]]
    with pytest.raises(ipc.FormatError, match="8 bytes at address 0x1000"):
        read_process(os.getpid(), broken, target)
    with pytest.raises(ipc.UsageError, match="do not fit"):
        read_process(os.getpid(), [*places, (base, 2, len(target) - 1)], target)


def test_descriptions_of_segments_are_read_or_refused():
    """They come from servers, behind the pairs of a body."""
    from arrowipc.dissociated.transports.ucx_memory import Description

    told = Description(bytes(range(16)), 1 << 40, 1 << 26, (1 << 40, 1 << 41), b"a key")
    good = told.packed()
    assert Description.parse(good) == told
    for size in range(40):
        with pytest.raises(ipc.FormatError, match="description of a segment"):
            Description.parse(good[:size])
    chance = random.Random(20)
    for _ in range(2000):
        broken = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.choice([0, 1, 127, 255])
        try:
            found = Description.parse(bytes(broken))
        except ipc.FormatError:
            continue
        assert found.start + found.size <= 1 << 64
        assert len(found.packed()) == len(good)
