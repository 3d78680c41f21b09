"""Body type 1: pairs, shared memory and who holds it; numbers in names are those of the checklist."""

import contextlib
import ctypes
import fcntl
import gc
import itertools
import mmap
import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dissociated import lent_memory, peers
from dissociated.lent_memory import (
    MIB,
    PATIENCE,
    CopiedMemory,
    ForgedServer,
    FreeingClient,
    NoConnection,
    batch,
    extents,
    is_batch,
    message,
    packed,
    pairs_of,
    read_pairs,
    state_of,
    telling,
    until,
)
from helpers import arrow_columns, forge
from helpers.processes import run_function

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.decode.framing import Message
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Pairs, write_pairs, write_places
from arrowipc.dissociated.memory.arena import SEALS, Arena
from arrowipc.dissociated.served import ReadyMessages, messages_of
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.transports.shared import open_peer_memory
from arrowipc.dissociated.transports.sockets import HEADER, HELLO, TAGGED
from arrowipc.types import field, int64, null

#: A view of all memory that a process can have, which nobody may read, and the address of its first byte.
LOWEST = 4096
EVERYTHING = memoryview((ctypes.c_char * (1 << 62)).from_address(LOWEST))


@contextlib.contextmanager
def lent(source: Any, transport_options: Any = None, **options: Any) -> Iterator[tuple[Any, Any, list[Any]]]:
    """A server over shared memory, a reader of its one stream, and what the server places."""
    with dissociated.Server(
        {"n": source}, "shm", transport_options=transport_options or telling(), **options
    ) as server:
        memory: Any = server.memory
        place, placed = memory.place, []
        memory.place = lambda *given: placed.append(place(*given)) or placed[-1]
        with dissociated.connect(server.uri, "n", timeout=PATIENCE) as reader:
            yield server, reader, placed


# -- what is written -----------------------------------------------------------------------------------------


def test_d051_buffers_that_lie_anywhere_are_told_of_as_they_lie():
    found = message()
    memory = b"".join(bytes(each) + bytes(100) for each in found.buffers)
    view = memoryview(memory)
    assert write_places(found, view, 0) is None  # its buffers lie somewhere else
    total, places = read_pairs(write_places(found, EVERYTHING, LOWEST) or b"")
    assert total == sum(len(each) for each in found.buffers)
    assert [length for _, length in places] == [len(each) for each in found.buffers]


def test_d051_a_compressed_body_in_pieces_is_not_told_of_in_pieces():
    found = message(compression="lz4")
    assert write_places(found, EVERYTHING, LOWEST) is None
    assert len(found.body) == found.body_length  # puts it together
    assert write_places(found, EVERYTHING, LOWEST) is not None


# -- what is read --------------------------------------------------------------------------------------------


def scattered(buffers: list[Any], before: int, behind: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """Memory in which buffers lie one behind the other, and where."""
    memory, places = bytearray(before), []
    for each in buffers:
        places.append((len(memory), len(each)) if len(each) else (0, 0))
        memory += bytes(each) + behind
    return bytes(memory), places


def layouts(found: Message) -> dict[str, tuple[bytes, list[tuple[int, int]]]]:
    """The ways in which a body may lie in memory, with the pairs that tell of it."""
    body = packed(found)
    memory, half = bytes(64) + body, len(body) // 2
    exact = [(64 + at, size) if size else (0, 0) for at, size in extents(found)]
    zeros = [pair for at, size in exact for pair in [(at, size), *[(0, -size % 64)] * (size % 64 > 0)]]
    backwards, places = scattered(
        [bytes(each) + bytes(-len(each) % 64) for each in found.buffers[::-1]], 64, bytes(640)
    )
    return {
        "exact": (memory, exact),
        "padded": (memory, [(at, size + -size % 64) for at, size in exact]),
        "skipped": (memory, [pair for pair in exact if pair != (0, 0)]),
        "whole": (memory, [(64, len(body))]),
        "halves": (memory, [(64 + half, 0), (64, half), (64 + half, len(body) - half)]),
        "zeros": (memory, zeros),
        "zeros skipped": (memory, [pair for pair in zeros if pair != (0, 0)]),
        "apart": (backwards, [(at, len(each)) for (at, _), each in zip(places[::-1], found.buffers, strict=True)]),
        "at 0": (body, [(at, size) if size else (0, 0) for at, size in extents(found)]),
        "odd": scattered(found.buffers, 67, b"!"),
        # The pieces do not follow each other: the body is put together.
        "turned": (memory[:64] + body[128:] + body[:128], [(len(memory) - 128, 128), (64, len(body) - 128)]),
    }


@pytest.mark.parametrize("layout", layouts(message()))
@pytest.mark.parametrize("free_data", [lent_memory.FREE_DATA, None])
def test_d012_d052_d057_every_way_of_telling_the_buffers_is_read(layout, free_data):
    with ForgedServer(free_data=free_data) as server:
        memory, places = layouts(server.messages[1])[layout]
        server.send(server.messages[1], pairs_of(*places), memory)
        server.end()
        with server.client() as client:
            (found,) = client
            assert is_batch(found, 0)
            if layout != "turned":  # which was copied, and is free at once
                del found
            given = sorted(a for a, n in places if a and n)
            assert server.hears_nothing() if free_data is None else sorted(server.freed(len(given))) == given


def broken_bodies(good: list[tuple[int, int]], end: int) -> dict[str, bytes]:
    """Bodies of type 1 in the place of pairs that are good, where the memory that they speak of has an end."""
    *before, (at, size) = good
    others = {
        "too short": [*before, (at, size - 1)],
        "behind the end": [*before, (end, size)],
        "across the end": [*before, (end - 8, size)],
        "in another segment": [*before, ((1 << 48) + at, size)],
        "in an unknown segment": [((2 << 48) + each, n) if n else (0, 0) for each, n in good],
        "at the end of memory": [*before, ((1 << 64) - 64, 64)],
        "one missing": before,
        "too many": [*good, (next(each for each, n in good if n), 8)],
    }
    claims = [
        *((0, 1 << 60), (1 << 63, 0), (1 << 63, 1, 64, 1 << 63), (64, 2, 64, 64), (65, 1, 64, 64)),
        *((64, 1, (1 << 64) - 32, 64), (0, 2, 64, 1 << 61, 64, (1 << 64) - (1 << 61))),
        *((1 << 62, 1, 0, 1 << 62), (1 << 40, 1, 64, 1 << 40)),
    ]
    return {
        **{how: pairs_of(*pairs) for how, pairs in others.items()},
        **{f"{count} bytes": bytes(count) for count in (0, 8, 15, 24)},
        **{f"words {words}": struct.pack(f"<{len(words)}Q", *words) for words in claims},
    }


@pytest.mark.parametrize("how", broken_bodies([(64, 8)], 128))
@pytest.mark.parametrize("kind", ["memfd", "copied", "file"])
def test_d049_d053_d090_pairs_that_do_not_fit_are_an_error_and_not_a_fault(kind, how, tmp_path):
    """Hostile counts and lengths, too."""
    memory = bytes(64) + packed(message())
    (tmp_path / "bodies").write_bytes(memory)
    handle = b"file:" + os.fsencode(tmp_path / "bodies") if kind == "file" else b"memfd"
    base = 7 << 48 if kind == "memfd" else 0
    good = [(base + 64 + place, size) if size else (0, 0) for place, size in extents(message())]
    source = ReadyMessages([*messages_of(batch(0)), message()])
    copies = CopiedMemory(memory, 0) if kind == "copied" else None
    with ForgedServer(source, remote_handle=handle, memory=copies) as server:
        server.send(server.messages[1], pairs_of(*good), memory if kind == "memfd" else None)
        server.send(server.messages[2], broken_bodies(good, base + len(memory))[how])
        with server.client() as client:
            found = client.read_next_batch()
            with pytest.raises(ipc.FormatError, match=r"pair|segment|body|no readable memory"):
                client.read_next_batch()
        # After an error no lease keeps the connection.
        until(lambda: server.connection.progress() or server.connection.at_end, "the client is gone")
        assert is_batch(found, 0)


def test_d054_a_body_without_pairs_or_without_bytes_is_read():
    nothing = ipc.RecordBatch.from_pydict({"n": [None, None]}, ipc.Schema([field("n", null())]))
    empty = ipc.RecordBatch.from_pydict({"x": []}, ipc.Schema([field("x", int64())]))
    for source, places in ((nothing, []), (empty, [(0, 0)] * 2), (empty, [])):
        with ForgedServer(source) as server:
            server.send(server.messages[1], pairs_of(*places))
            server.end()
            with server.client() as client:
                assert [each.to_pydict() for each in client] == [source.to_pydict()]
                assert server.hears_nothing()


# -- streams over shared memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_d056_compressed_bodies_lie_in_shared_memory_compressed(compression):
    with lent(lambda: batch(0), compression=compression) as (_, reader, placed):
        (found,) = reader
        assert is_batch(found, 0)
        (place,) = placed
        total, _ = read_pairs(place[0])
        assert 0 < total < len(packed(message()))


def test_d057_buffers_in_shared_memory_are_aligned():
    with lent(lambda: iter([batch(0, 3), batch(1, 7)])) as (_, reader, _):
        for found in reader:
            for column in pa.record_batch(found).columns:
                assert all(each is None or each.address % 64 == 0 for each in column.buffers())


# -- who holds what ------------------------------------------------------------------------------------------


def test_d076_d078_d079_memory_that_another_library_holds_is_not_given_back_and_the_connection_stays():
    with lent(lambda: batch(5)) as (server, reader, _):
        column = pa.table(reader.read_all()).column("x").chunk(0)[3:5]
        reader.close()
        gc.collect()
        assert (server.num_clients, state_of(server.memory).blocks) == (1, 1)
        assert column.to_pylist() == [5_000_018, 5_000_019]
        del column
        gc.collect()
        until(lambda: server.num_clients == 0, "the memory is given back, and the connection ends")
        state = state_of(server.memory)
        assert (state.blocks, state.retired) == (0, 0)  # freed, not abandoned


def test_d080_memory_that_is_freed_during_the_stream_is_used_for_the_rest_of_it():
    arena = Arena(2 * MIB, 2 * MIB, 0)
    with FreeingClient(arena, [batch(number, 20_000) for number in range(20)]) as client:
        kinds = []
        while client.step() or client.session.is_busy or client.bodies:
            while client.bodies:
                kind, body = client.bodies.pop()
                kinds.append(kind)
                client.free(Pairs(body).addresses if kind == 1 else [0])
        # All were of type 1, though there is room for five at once.
        assert kinds == [1] * 20
        assert client.session.leases.unknown == 0
    arena.close()


def test_d073_d075_d081_d082_d084_d086_clients_free_what_they_hold_and_nothing_else(arena):
    """In any grouping and order, also what they do not hold; one body lies there once for all; some clients go."""
    schema, body = arena.hold(messages_of(batch(3)))
    pairs, addresses, _ = arena.place(body, NoConnection())
    arena.release(addresses)
    for seed in range(10):
        chance = random.Random(seed)
        held: dict[FreeingClient, list[int]] = {}
        starts: dict[int, int] = {}  # where the body at an address begins
        gone: set[int] = set()  # addresses that a client took along
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                client = chance.choice([*held, None] if len(held) < 4 else [*held])
                if client is None:
                    once = chance.random() < 0.5
                    source = ReadyMessages([schema, body, body]) if once else [batch(n) for n in range(3)]
                    client = stack.enter_context(FreeingClient(arena, source))
                    held[client] = client.read_all()
                    for found in (Pairs(data) for kind, data in client.bodies if kind == 1):
                        starts |= dict.fromkeys(found.addresses, found.start)
                    assert once or gone.isdisjoint(held[client])
                elif chance.random() < 0.2:
                    gone.update(held.pop(client))
                    client.__exit__()
                else:
                    mine = held[client]
                    chance.shuffle(mine)
                    given, mine[:] = mine[:3], mine[3:]
                    others = [each for addresses in held.values() for each in addresses if each not in mine + given]
                    strange = [0, 1, 64, (1 << 64) - 1, *others, *(each for each in given if each not in mine)]
                    unknown = client.session.leases.unknown
                    client.free([*given, *strange])
                    assert client.session.leases.unknown == unknown + len(strange)
                of_clients = {starts[each] for addresses in held.values() for each in addresses}
                assert state_of(arena).blocks == len(of_clients | {Pairs(pairs).start})
        assert state_of(arena).blocks == 1
    del body, source, client, held
    peers.until_collected(lambda: state_of(arena).blocks == 0, "nobody holds it")
    assert (state_of(arena).used, state_of(arena).retired) == (0, 0)


def test_d086_leases_end_whichever_message_the_client_does_not_get_any_more(arena, monkeypatch):
    most = 0
    for sent in range(12):
        left = itertools.count(-sent)
        near, far = peers.socket_pair(far=peers.OneByOne)
        roles = Roles({lent_memory.WANT_DATA: "both"}, lent_memory.FREE_DATA)
        session = Session(far, lambda _: [batch(number) for number in range(4)], roles, arena)
        near.send(lent_memory.WANT_DATA, [b""])
        send = far.send

        def failing(*arguments, left=left, send=send):
            if next(left) >= 0:
                raise ConnectionResetError("the client was killed")
            send(*arguments)

        monkeypatch.setattr(far, "send", failing)
        with contextlib.suppress(ConnectionResetError):
            while session.step():
                pass
        most = max(most, state_of(arena).blocks)
        session.close()
        near.close()
        assert state_of(arena).blocks == 0, sent
    assert most == 4  # all batches were placed, in the last round


def test_d086_a_client_lets_go_of_segments_that_its_server_let_go_of():
    """They would keep pages that nobody else has any more, for as long as the connection lives."""
    with (
        dissociated.Server({"n": lambda: batch(0)}, "shm", transport_options=telling()) as server,
        dissociated.Channel(server.uri, timeout=PATIENCE) as channel,
    ):
        held = []  # in the first segment
        for _ in range(10):
            with channel.read("n") as reader:
                held.append(reader.read_next_batch())
                assert list(reader) == []
            del reader, held[1:]
            assert len(channel._idle[0].memory._segments) <= 2
            with FreeingClient(server.memory, batch(1)) as goes:
                goes.read_all()  # and takes it along
            until(lambda: state_of(server.memory).blocks == 1, "the others are given back")
        assert state_of(server.memory).segments == 1
        assert is_batch(held[0], 0)


def test_d055_d089_a_full_arena_never_blocks_a_stream():
    memory = {"capacity": 2 * MIB, "segment_bytes": MIB}
    with lent(lambda: (batch(number, 20_000) for number in range(20)), memory) as (_, reader, placed):
        kept = list(reader)  # nothing is given back before the end
        assert all(is_batch(each, number, 20_000) for number, each in enumerate(kept))
        assert 0 < sum(each is None for each in placed) < 20
        del kept


def test_d090_the_same_bytes_named_very_often_are_not_multiplied():
    with ForgedServer(batch(0, 1)) as server:
        huge = forge.patch(bytes(server.messages[1].metadata), "bodyLength", 1 << 30, at=0)
        told = pairs_of(*[(64, MIB - 64)] * 1024, (0, (1 << 30) - 1024 * (MIB - 64)))
        server.send(SimpleNamespace(metadata=huge), told, bytes(MIB))
        with server.client() as client, pytest.raises(ipc.FormatError, match="overlap"):
            client.read_next_batch()


# -- bodies that are placed once -----------------------------------------------------------------------------


def test_batches_that_were_read_from_an_arena_are_served_from_where_they_lie(arena):
    held = arena.hold(messages_of(batch(4)))
    decoder = ipc.StreamDecoder()
    decoder.decode_next(held[0])
    found = decoder.decode_next(held[1]).batch
    again = list(messages_of(found))[-1]
    _pairs, addresses, _ = arena.place(again, NoConnection())
    first, _, _ = arena.place(held[1], NoConnection())
    assert addresses == Pairs(first).addresses
    assert state_of(arena).blocks == 1
    del held, found, again, decoder
    gc.collect()
    arena.release(addresses)
    assert state_of(arena).blocks == 1
    arena.release(addresses)
    assert state_of(arena).segments == 0


# -- every kind of memory, and what is refused ------------------------------------------------------------------


def test_memory_that_could_change_its_size_and_other_descriptors_are_refused_and_closed(tmp_path):
    body = bytes(64) + packed(message())
    (tmp_path / "file").write_bytes(body)
    reader, writer = os.pipe()
    opened = [reader, writer, *(os.open(each, os.O_RDONLY) for each in (tmp_path, tmp_path / "file"))]
    opened += [os.memfd_create("plain"), *(lent_memory.memfd(body, seals) for seals in (0, SEALS & ~2, SEALS & ~4))]
    for handle in opened:
        with ForgedServer() as server:
            before = len(os.listdir("/proc/self/fd"))
            server.send(server.messages[1], write_pairs(server.messages[1], 64), handles=[handle])
            words = r"not memory that can be sealed|the seals SHRINK and GROW"
            with pytest.raises(ipc.FormatError, match=words), server.client() as client:
                client.read_next_batch()
            assert len(os.listdir("/proc/self/fd")) <= before
        os.close(handle)


def test_clients_can_neither_write_to_an_arena_nor_change_its_size(arena):
    _pairs, _, (handle,) = arena.place(message(), NoConnection())
    assert fcntl.fcntl(handle, fcntl.F_GET_SEALS) & SEALS == SEALS
    for attempt in (
        lambda: mmap.mmap(handle, 4096),
        lambda: os.ftruncate(handle, 0),
        lambda: os.write(handle, b"x"),
        lambda: fcntl.fcntl(handle, fcntl.F_ADD_SEALS, 1),
    ):
        with pytest.raises(PermissionError):
            attempt()


def arena_of_a_forked_child() -> None:
    arena = Arena(least_bytes=0)
    held = arena.hold(messages_of(batch(1)))
    assert arena.place(message(), NoConnection()) is not None
    child = os.fork()
    if not child:
        maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:arrowipc" in line]
        fine = maps and all(line.split()[1].startswith("r--") for line in maps)
        fine = fine and arena.place(message(), NoConnection()) is None
        arena.close()
        os._exit(0 if fine and bytes(held[1].body) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert state_of(arena).blocks == 2


@pytest.mark.nosanitize  # whose runtime does not get along with forked children
def test_a_forked_child_has_no_writable_map_of_an_arena():
    run_function(arena_of_a_forked_child, check=True)


def test_descriptors_of_a_message_that_finds_no_room_are_closed():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with peers.heard() as (raw, connection):
        socket.send_fds(raw, [HELLO + HEADER.pack(TAGGED, 1, 0, 0, 0, 1 << 61)], [writer])
        os.close(writer)
        with pytest.raises(ipc.LimitError, match="than there is room for"):
            connection.progress()
    assert os.read(reader, 1) == b"", "somebody still holds the other end"
    os.close(reader)


def test_descriptors_that_come_after_the_end_of_a_stream_are_closed():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with peers.heard() as (raw, connection):
        socket.send_fds(raw, [HELLO + HEADER.pack(TAGGED, 1, 0, 0, 0, 1) + b"x"], [writer])
        os.close(writer)
        assert not Link(connection, connection).is_idle
        assert os.read(reader, 1) == b"", "somebody still holds the other end"
    os.close(reader)


@pytest.mark.parametrize(
    "handle", [b"memfd:1", b"\x01\x02\xff", b"file:relative", b"file:/with\0zero", b"shm:/a", b"cma:1:1"]
)
def test_handles_that_mean_nothing_are_errors(handle):
    error = ipc.FormatError if handle.startswith(b"file:") else ipc.UnsupportedError
    with pytest.raises(error, match="remote_handle"):
        open_peer_memory(handle, NoConnection())


# -- files -------------------------------------------------------------------------------------


def test_files_that_are_none_or_became_shorter_are_errors(tmp_path):
    path = tmp_path / "bodies"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    words = r"expected a file with something in it|No such file"
    for handle in ("pipe", "empty", ".", "absent"):
        with ForgedServer(remote_handle=b"file:" + os.fsencode(tmp_path / handle)) as server:
            server.send(server.messages[1], write_pairs(server.messages[1], 64))
            with server.client() as client, pytest.raises((ipc.FormatError, OSError), match=words):
                client.read_next_batch()
    ends = os.pipe()
    directory = os.open(tmp_path, os.O_RDONLY)
    for handles in (ends[:1], [directory], ends):
        with ForgedServer(remote_handle=b"file:" + os.fsencode(path)) as server:
            before = len(os.listdir("/proc/self/fd"))
            server.send(server.messages[1], write_pairs(server.messages[1], 64), handles=handles)
            with server.client() as client, pytest.raises(ipc.FormatError, match=f"{words}|one file descriptor"):
                client.read_next_batch()
            assert len(os.listdir("/proc/self/fd")) <= before
    list(map(os.close, [*ends, directory]))
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


def copied_columns(source: Any, columns: Any, compression: Any = None, **options: Any) -> ipc.Table:
    """Read columns of a server whose memory is copied."""
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
            return client.read_all()


@pytest.mark.parametrize("layout", ["one each", "skipped", "whole", "all there"])
@pytest.mark.parametrize("columns", [["x"], [0], [], None])
def test_of_chosen_columns_only_their_buffers_are_read(layout, columns):
    """Those of the others lie nowhere, or behind the end of what there is, unless all of the body is there."""
    found = message()
    memory = CopiedMemory(body := np.frombuffer(packed(found), np.uint8), body.ctypes.data)
    (_, x), *rest = [(place, size) for place, size in extents(found) if size]
    if layout == "all there":
        places = [(memory.address, len(body))]
    elif layout == "whole":
        places = [(memory.address, x), (1 << 46, found.body_length - x)]
    else:
        places = [(memory.address, x), *((1 << 46 | place, size) for place, size in rest)]
        if layout == "one each":
            bodies = iter(places)
            places = [next(bodies) if size else (0, 0) for _, size in extents(found)]
    with ForgedServer(memory=memory, decoder=ipc.StreamDecoder(columns=columns)) as server:
        server.send(server.messages[1], pairs_of(*places))
        with server.client() as client:
            if columns is None and layout != "all there":
                with pytest.raises(ipc.FormatError, match="no readable memory"):
                    client.read_next_batch()
                return
            values = lent_memory.values(0)
            expected = values if columns is None else {"x": values["x"]} if columns else {}
            assert client.read_next_batch().to_pydict() == expected
            assert sum(memory.sizes) == (len(body) if columns is None else 8000 if columns else 0)
            # Everything is given back, whether it was read or not.
            given = sorted(address for address, size in places if size)
            assert sorted(server.freed(len(given))) == given


@pytest.mark.parametrize("validate", ["none", "full", "strict"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_any_choice_of_columns_is_what_they_are_in_the_whole(compression, validate):
    table = pa.table(ipc.RecordBatch.from_arrow(arrow_columns.everything()).take([0, 1, 2] * 500))
    chance = random.Random(22)
    for _ in range(20):
        names = chance.sample(table.column_names, chance.randint(1, 6))
        found = copied_columns(table, names, compression=compression, validate=validate)
        assert pa.table(found).equals(table.select(names)), names
    found = copied_columns(table, ["struct.b"], compression=compression, validate=validate)
    assert found.column("struct").to_pylist() == [each and {"b": each["b"]} for each in table["struct"].to_pylist()]
