"""Peers for memory that is lent: a server played by hand, and clients and servers in processes of their own."""

import contextlib
import fcntl
import mmap
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from subprocess import Popen
from typing import Any, NamedTuple

from dissociated.peers import socket_pair, until
from helpers.processes import start

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.decode.framing import Message
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.connection import Connection, Frame, PeerMemory
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.memory.arena import SEALS
from arrowipc.dissociated.memory.receiving import receive_message
from arrowipc.dissociated.protocol import (
    BodyType,
    body_tag,
    end_of_stream,
    free_data_body,
    metadata_prefix,
    parse_free_data,
)
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.transports.shared import open_peer_memory
from arrowipc.types import field, int64, utf8

#: Seconds that anything may take here.
PATIENCE = 30.0
FREE_DATA = 0x0900_0001_0000_0000
WANT_DATA = 0x0800_0001_0000_0000
MIB = 1 << 20
SCHEMA = ipc.Schema([field("x", int64()), field("s", utf8())])


@lru_cache(maxsize=64)
def values(number: int, rows: int = 1000) -> dict[str, list[Any]]:
    """What the columns of `batch` hold."""
    return {
        "x": list(range(number * 1_000_003, number * 1_000_003 + rows)),
        "s": [f"{number}-{row % 7}" for row in range(rows)],
    }


def batch(number: int, rows: int = 1000) -> ipc.RecordBatch:
    """A batch that says which one it is, in every row."""
    return ipc.RecordBatch.from_pydict(values(number, rows), SCHEMA)


def telling(transport: str = "shm", **options: Any) -> dict[str, Any]:
    """Options of a transport under which small bodies, such as those of `batch`, are not sent instead."""
    return {**options, "least_bytes": 0} if transport in ("shm", "file") else options


def is_batch(found: Any, number: int, rows: int = 1000) -> bool:
    """Whether this is `batch`: its memory is read again every time."""
    return bool(found.to_pydict() == values(number, rows))


class CopiedMemory(PeerMemory):
    """Memory of a server at `address`, of which clients copy what they need; `sizes` has the bytes of each copy."""

    def __init__(self, data: Any, address: int = 64) -> None:
        self.data = memoryview(data)
        self.address = address
        self.sizes: list[int] = []

    def copy(self, places: Sequence[tuple[int, int, int]], target: memoryview) -> None:
        self.sizes.append(sum(length for _, length, _ in places))
        for address, length, position in places:
            at = address - self.address
            if not 0 <= at <= len(self.data) - length:
                raise ipc.FormatError(f"no readable memory at {address:#x}")
            target[position : position + length] = self.data[at : at + length]

    def message(self, metadata: Any, pairs: Pairs, returned: Any, limits: Any, reads: Any = None) -> Message:
        try:
            return receive_message("the forged server", metadata, pairs, limits, reads, self.copy)
        finally:
            returned(pairs.addresses)


class ForgedServer:
    """A server that says what a test wants it to say, over a real socket."""

    def __init__(
        self,
        source: Any = None,
        *,
        remote_handle: bytes | None = b"memfd",
        memory: PeerMemory | None = None,
        free_data: int | None = FREE_DATA,
        decoder: StreamDecoder | None = None,
        **options: Any,
    ) -> None:
        client, self.connection = socket_pair()
        link = Link(client, client, memory or open_peer_memory(remote_handle, client), free_data)
        self.stream = Client(link, decoder or StreamDecoder())
        self.messages = list(messages_of(batch(0) if source is None else source, **options))
        self.number = 0
        self.send(self.messages[0])

    def __enter__(self) -> "ForgedServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()
        self.stream.close()

    def send(
        self,
        message: Message,
        body: bytes | None = None,
        memory: bytes | None = None,
        handles: Sequence[int] = (),
    ) -> None:
        """Send metadata, and a body of type 1 if there is one, with memory that it tells of."""
        made = [] if memory is None else [memfd(memory)]
        self.connection.send(None, [metadata_prefix(self.number), message.metadata])
        if body is not None:
            self.connection.send(body_tag(self.number, BodyType.PAIRS), [body], [*handles, *made])
        self.number += 1
        self.connection.flush(PATIENCE)
        for each in made:
            os.close(each)

    def end(self) -> None:
        self.connection.send(None, [end_of_stream(self.number)])
        self.connection.flush(PATIENCE)

    def client(self) -> Client:
        """The client, which has the schema."""
        return self.stream.begin(PATIENCE)

    def frame(self) -> Frame:
        """What the client sends next."""

        def receive() -> Frame | None:
            self.connection.progress()
            return self.connection.receive()

        found: Frame = until(receive, "the client sends something")
        return found

    def freed(self, count: int) -> list[int]:
        """The next addresses that the client gives back."""
        found: list[int] = []
        while len(found) < count:
            frame = self.frame()
            assert frame.tag == FREE_DATA
            found += parse_free_data(frame.data)
        return found

    def hears_nothing(self) -> bool:
        """Whether the client says nothing for a while."""
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            self.connection.progress()
            if self.connection.receive() is not None:
                return False
            time.sleep(0.005)
        return True


def message(number: int = 0, rows: int = 1000, **options: Any) -> Message:
    """The one RecordBatch message of `batch`."""
    return list(messages_of(batch(number, rows), **options))[-1]


def pairs_of(*places: tuple[int, int], total: int | None = None) -> bytes:
    """A body of type 1."""
    total = sum(length for _, length in places) if total is None else total
    return struct.pack(f"<{2 * len(places) + 2}Q", total, len(places), *(word for each in places for word in each))


def read_pairs(body: bytes) -> tuple[int, list[tuple[int, int]]]:
    words = struct.unpack(f"<{len(body) // 8}Q", body)
    assert words[1] == len(words) // 2 - 1
    return words[0], list(zip(words[2::2], words[3::2], strict=True))


def packed(found: Message) -> bytes:
    target = bytearray(found.body_length)
    found.copy_body_into(target)
    return bytes(target)


def extents(found: Message) -> list[tuple[int, int]]:
    """Place and length of each Buffer in the packed body: they lie in a row, at multiples of 64."""
    places, at = [], 0
    for buffer in found.buffers:
        places.append((at, len(buffer)))
        at += -(-len(buffer) // 64) * 64
    return places


class ArenaState(NamedTuple):
    """What an arena consists of; `blocks` are those that clients or messages hold, the others are bytes."""

    segments: int
    blocks: int
    size: int
    used: int
    retired: int


def state_of(arena: Any) -> ArenaState:
    with arena._lock:
        arena._end_held()
        every = list(arena._segments.values())
        blocks = [block.size for each in every for block in each.blocks.values()]
        size, retired = sum(each.size for each in every), sum(each.retired for each in every)
        return ArenaState(len(every), len(blocks), size, sum(blocks), retired)


def memfd(data: bytes, seals: int = SEALS) -> int:
    """Sealed memory that holds the data."""
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class NoConnection(Connection):
    """Stands for a client in tests of the arena alone: an identity."""

    def __init__(self) -> None:
        super().__init__("nobody")

    send = progress = receive = fileno = close = lambda *_: None  # type: ignore[assignment]
    unsent = at_end = 0  # type: ignore[assignment]


class FreeingClient:
    """A real session, and a client's end of the socket that frees what it likes."""

    def __init__(self, arena: Any, source: Any) -> None:
        self.source = source
        self.connection, server = socket_pair()
        self.session = Session(server, lambda _: self.source, Roles({WANT_DATA: "both"}, FREE_DATA), arena)
        self.bodies: list[tuple[int, Any]] = []
        self.connection.send(WANT_DATA, [b"x"])

    def __enter__(self) -> "FreeingClient":
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()
        self.session.close()

    def step(self) -> bool:
        more = bool(self.session.step())
        self.connection.progress()
        while (frame := self.connection.receive()) is not None:
            for handle in frame.handles:
                os.close(handle)
            if frame.tag is not None:
                self.bodies.append((frame.tag >> 56, frame.data))
        return more

    def read_all(self) -> list[int]:
        """All addresses of the stream."""
        while self.step() or self.session.is_busy:
            pass
        return [address for kind, body in self.bodies if kind == 1 for address in Pairs(body).addresses]

    def free(self, addresses: list[int]) -> None:
        self.connection.send(FREE_DATA, [free_data_body(addresses)])
        self.session.step()


@lru_cache
def bodies() -> list[tuple[Message, bytes]]:
    """What holders place, and its bytes."""
    found = [message(number, rows) for number in range(3) for rows in (10, 1000, 20_000, 60_000)]
    return [(each, packed(each)) for each in found]


class Holder:
    """Clients of an arena for whom bodies are placed, freed and abandoned in any order."""

    def __init__(self, arena: Any, seed: int, read: Any = None) -> None:
        self.arena, self.seed, self.chance = arena, seed, random.Random(seed)
        self.read = read or self.mapped
        self.was_full = False
        self.clients = [NoConnection() for _ in range(3)]
        self.views: dict[int, memoryview] = {}
        self.held: list[tuple[int, list[int], bytes]] = []
        self.gone: list[tuple[int, int]] = []

    def step(self) -> None:
        action = self.chance.random()
        if action < 0.5 and len(self.held) < 20:
            self.place(*self.chance.choice(bodies()))
        elif self.held:
            start, addresses, data = self.held.pop(self.chance.randrange(len(self.held)))
            assert self.is_at(start, data), f"overwritten, seed {self.seed}"
            if action < 0.97:
                self.arena.release(addresses)
            else:
                self.arena.abandon(addresses)
                self.gone.append((start, start + len(data)))

    def place(self, body: Message, data: bytes) -> None:
        if (placed := self.arena.place(body, self.chance.choice(self.clients))) is None:
            self.was_full = True
            return
        pairs, addresses, handles = placed
        for handle in handles:
            memory = mmap.mmap(handle, os.fstat(handle).st_size, prot=mmap.PROT_READ)
            self.views[addresses[0] >> 48] = memoryview(memory)
        start = Pairs(pairs).start
        assert not any(a < start + len(data) and start < b for a, b in self.gone), f"reused, seed {self.seed}"
        self.held.append((start, list(addresses), data))

    def is_at(self, start: int, data: bytes) -> bool:
        return bytes(self.read(start, len(data))) == data

    def mapped(self, start: int, size: int) -> memoryview:
        return self.views[start >> 48][start % (1 << 48) :][:size]

    def release_all(self) -> None:
        for _, addresses, _ in self.held:
            self.arena.release(addresses)


# -- processes, which say on standard output how far they are --------------------------------------------------


@contextlib.contextmanager
def process(role: Callable[..., None], *arguments: object, **options: Any) -> Iterator[Popen[str]]:
    """A process that does what a function such as those below does; it is killed in the end."""
    with start(role, *arguments, **options) as child:
        try:
            yield child
        finally:
            child.kill()


def says(child: Popen[str]) -> str:
    """The next line of a process; the empty one says that it is gone, or was killed because it hung."""
    assert child.stdout is not None
    late = threading.Timer(4 * PATIENCE, child.kill)
    late.start()
    try:
        return child.stdout.readline().strip()
    finally:
        late.cancel()


def hears(child: Popen[str], line: str) -> None:
    """Say something to a process."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def ends(child: Popen[str]) -> int:
    """Close the input of a process, and return how it ended."""
    child.communicate(timeout=PATIENCE)
    return child.returncode


def numbered(count: int, rows: int) -> list[ipc.RecordBatch]:
    return [batch(number, rows) for number in range(count)]


def serve(transport: str, count: str, rows: str, times: str = "1", address: str = "") -> None:
    """Serve `numbers`, that many times over, until its standard input ends; says the URI, and the pair of them."""
    batches = numbered(int(count), int(rows)) * int(times)
    with dissociated.Server(
        {"numbers": lambda: iter(batches)}, transport, address or None, transport_options=telling(transport)
    ) as server:
        print(server.uri, *server.uris, flush=True)
        sys.stdin.read()


def read(uri: str, ident: str, rows: str, keep: str) -> None:
    """Read a stream over and over, and keep the last batches; says how many it read, and how many it has."""
    kept: list[ipc.RecordBatch] = []
    total = 0
    while True:
        with dissociated.connect(uri, ident, timeout=PATIENCE) as reader:
            for number, found in enumerate(reader):
                assert is_batch(found, number, int(rows)), f"batch {number} is another one"
                kept.append(found)
                del kept[: -int(keep) or None], found
                total += 1
                print(total, len(kept), flush=True)


def hold(uri: str, ident: str, rows: str) -> None:
    """Read a stream, say how many batches came, and whenever something is said whether they are the same."""
    with dissociated.connect(uri, ident, timeout=PATIENCE) as reader:
        kept = list(reader)
        print(len(kept), flush=True)
        for _ in sys.stdin:
            print(all(is_batch(found, number, int(rows)) for number, found in enumerate(kept)), flush=True)
