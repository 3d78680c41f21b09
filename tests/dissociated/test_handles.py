"""Every kind of memory that a server may tell of, and what is refused."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import socket
from typing import Any

import numpy as np
import pytest
from dissociated import lent_memory
from dissociated.lent_memory import (
    PATIENCE,
    CopiedMemory,
    ForgedServer,
    NoConnection,
    batch,
    extents,
    is_batch,
    message,
    packed,
    pairs_of,
    read_pairs,
    record,
    telling,
    until,
)
from helpers.processes import run_python

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.memory.address_pairs import write_pairs
from arrowipc.dissociated.memory.arena import SEALS
from arrowipc.dissociated.served import ReadyMessages, messages_of
from arrowipc.dissociated.transports.shared import open_peer_memory
from arrowipc.dissociated.transports.sockets import HEADER, HELLO, TAGGED, SocketConnection

# Processes of other users and forked children, which the sanitizers' runtime does not get along with.
pytestmark = pytest.mark.nosanitize


def test_memory_that_could_shrink_is_refused():
    for seals in (0, SEALS & ~2, SEALS & ~4):
        with ForgedServer() as server:
            memory = bytes(64) + packed(server.messages[1])
            server.send(server.messages[1], write_pairs(server.messages[1], 64), memory, seals=seals)
            with pytest.raises(ipc.FormatError, match="SHRINK and GROW"), server.client() as client:
                client.read_next_batch()


def test_descriptors_that_are_no_memory_are_refused_and_closed(tmp_path):
    (tmp_path / "file").write_bytes(bytes(4096))
    reader, writer = os.pipe()
    for opened in (os.dup(reader), os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "file", os.O_RDONLY)):
        with ForgedServer() as server:
            before = len(os.listdir("/proc/self/fd"))
            server.send(server.messages[1], write_pairs(server.messages[1], 64), handles=[opened])
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
        "from dissociated.lent_memory import batch, state_of\n"
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
        "assert state_of(arena).blocks == 2\n"
    )
    script = script.replace(", arena)", ", Somebody())").replace("arena = ", "class Somebody: pass\narena = ")
    run_python(script, check=True)


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


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (b"memfd:1", ipc.UnsupportedError),
        (b"\x01\x02\xff", ipc.UnsupportedError),
        (b"file:relative", ipc.FormatError),
        (b"file:/with\0zero", ipc.FormatError),
        (b"shm:/a", ipc.UnsupportedError),
        (b"cma:1:1", ipc.UnsupportedError),
    ],
)
def test_handles_that_mean_nothing_are_errors(handle, error):
    with pytest.raises(error):
        open_peer_memory(handle, NoConnection())


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_files_are_mapped_by_both_sides_and_nothing_is_copied(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    with (ipc.new_file if ending == "arrow" else ipc.new_stream)(path) as writer:
        for number in range(3):
            writer.write(batch(number))
    with dissociated.Server({"": path}, "file", transport_options=telling("file")) as server:
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


# -- chosen columns ------------------------------------------------------------------------------------------


def copied_columns(source: Any, columns: Any, compression: Any = None, **options: Any) -> tuple[ipc.Table, list[int]]:
    """Read columns of a server whose memory is copied; also how many bytes of each body."""
    memory = CopiedMemory(bytearray())
    decoder = ipc.StreamDecoder(columns=columns, **options)
    with ForgedServer(source, memory=memory, decoder=decoder, compression=compression) as server:
        bodies = bytearray()
        for each in server.messages[1:]:
            server.send(each, write_pairs(each, memory.address + len(bodies)))
            bodies += packed(each).ljust(-(-each.body_length // 64) * 64, b"\0")
        memory.data = memoryview(bodies)
        server.end()
        with server.client() as client:
            return client.read_all(), memory.sizes


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
    decoder = ipc.StreamDecoder(columns=[] if columns == "nothing" else columns)
    with ForgedServer(memory=CopiedMemory(memory, base), decoder=decoder) as server:
        server.send(server.messages[1], pairs_of(*places))
        with server.client() as client:
            if columns is None:
                with pytest.raises(ipc.FormatError, match="no readable memory"):
                    client.read_next_batch()
            else:
                expected = {} if columns == "nothing" else {"x": lent_memory.values(0)["x"]}
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
    for _ in range(12):
        names = chance.sample(table.column_names, chance.randint(1, 4))
        found, _ = copied_columns(table, names, compression=compression, validate=validate)
        assert pa.table(found).equals(table.select(names)), names
    found, _ = copied_columns(table, ["t.b"], compression=compression, validate=validate)
    assert pa.table(found).column("t").to_pylist() == [{"b": each} for each in words]
