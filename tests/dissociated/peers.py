"""Peers of Dissociated IPC that do what a test says: messages made by hand, scripted ends, what is left over.

The bytes of the protocol are made here a second time, from the text of the specification.
"""

import contextlib
import gc
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from helpers.arrays import pyarrow_bytes

import arrowipc as ipc
from arrowipc import Limits, dissociated as served
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated import protocol, schemes
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.connection import Connection
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.protocol import Arrival, Incoming
from arrowipc.dissociated.transports.sockets import SocketConnection

#: A tag (None: untagged) and the bytes of a message.
Sent = tuple[int | None, bytes]

SECONDS = 20
#: How streams are read: over one connection or two, over a kept one.
WAYS = ("one", "two", "channel")
OURS = ("arrowipc-accept", "arrowipc-session", "arrowipc-returns", "arrowipc-hang-up")
HELLO = b"arwipc\x01\x00"


# -- messages ------------------------------------------------------------------------------------------------


def metadata(number: int, flatbuffer: bytes) -> Sent:
    return None, b"\x01" + (number % 2**32).to_bytes(4, "little") + bytes(flatbuffer)


def end(number: int) -> Sent:
    return None, b"\x00" + (number % 2**32).to_bytes(4, "little")


def body(number: int, data: bytes, kind: int = 0) -> Sent:
    return (kind << 56) + number % 2**32, bytes(data)


def parts_of(stream: bytes) -> list[tuple[str, bytes, bytes]]:
    """Kind, metadata and body of each message of an encapsulated stream."""
    return [(m.kind, bytes(m.metadata), bytes(m.body)) for m in ipc.MessageReader(stream)]


def dissociated(stream: bytes, first: int = 0) -> list[Sent]:
    """The messages that a server sends for an encapsulated stream, in their order."""
    sent: list[Sent] = []
    parts = parts_of(stream)
    for number, (kind, head, rest) in enumerate(parts, first):
        sent.append(metadata(number, head))
        if kind != "Schema":
            sent.append(body(number, rest))
    return [*sent, end(first + len(parts))]


def written(source: Any, **options: Any) -> bytes:
    """A stream as pyarrow writes it."""
    parts = source.to_batches() if isinstance(source, pa.Table) else source
    return pyarrow_bytes(parts, schema=source.schema, **options)


def numbers(count: int = 3, batches: int = 1) -> pa.Table:
    """`batches` batches of `count` rows: 0, 1, 2 ... all along, and as text."""
    schema = pa.schema({"x": pa.int64(), "s": pa.string()})
    spans = [range(i * count, (i + 1) * count) for i in range(batches)]
    made = [pa.record_batch({"x": [*each], "s": [*map(str, each)]}, schema=schema) for each in spans]
    return pa.Table.from_batches(made, schema)


def take_in(incoming: Incoming, sent: Iterable[tuple[int | None, Any]]) -> list[Arrival]:
    """What can be taken after each of these messages arrived."""
    found: list[Arrival] = []
    for tag, data in sent:
        if tag is None:
            incoming.receive_metadata(data)
        else:
            incoming.receive_body(tag, data)
        found += iter(incoming.take, None)
    return found


def words() -> list[pa.RecordBatch]:
    """Batches whose dictionary grows (a delta), is replaced, and stays."""
    made = []
    for i, each in enumerate([["a", "b"], ["a", "b", "c"], ["z"], ["z"]]):
        codes = pa.array([0, None, len(each) - 1], pa.int8())
        column = pa.DictionaryArray.from_arrays(codes, each)
        made.append(pa.record_batch({"d": column, "x": pa.array([i, None, i + 2], pa.int32())}))
    return made


def shapes() -> dict[str, pa.Table]:
    """Streams of every shape: many batches and none, bodies of no bytes and large ones, long metadata, dictionaries."""
    return {
        "numbers": numbers(1000, batches=9),
        "no batches": numbers(0, batches=0),
        "no rows": numbers(0, batches=3),
        "no columns": pa.table({"x": [1, 2]}).select([]),
        "no bytes": pa.Table.from_batches([pa.record_batch({"n": pa.nulls(5)})] * 3),
        "wide": pa.table({f"a column with a name of some length, {n}": [n, None] for n in range(3000)}),
        "words": pa.Table.from_batches(words()),
        "large": pa.table({"x": np.arange(1 << 20)}),
    }


def endless(size: int = 1 << 20) -> Iterator[pa.RecordBatch]:
    """Batches of so many bytes, each in memory of its own and full of its number: 0, 1, 2 ..."""
    for number in itertools.count():
        yield pa.record_batch([pa.array(np.full(size // 8, number))], ["x"])


def written_words(file: bool = False) -> bytes:
    """The same with deltas; in files without the dictionary that replaces others."""
    return pyarrow_bytes(words()[: 2 if file else 4], "file" if file else "stream", emit_dictionary_deltas=True)


# -- peers ---------------------------------------------------------------------------------------------------


def stream_between(connections: tuple[Connection, ...]) -> Client:
    """The reading end of one connection, or of one for metadata and one for bodies."""
    return Client(Link(connections[0], connections[-1]), StreamDecoder())


@contextlib.contextmanager
def numbered_from(first: int) -> Iterator[None]:
    """Streams that begin 4 billion messages later than others."""
    with mock.patch.object(protocol, "FIRST_NUMBER", first):
        yield


def client_of(connections: tuple[Connection, ...]) -> Client:
    return stream_between(connections).begin(SECONDS)


def read(sent: Iterable[Sent]) -> Any:
    """What a client makes of these messages; the server is gone after them."""
    with told(sent) as client, client_of((client,)) as reader:
        return reader.read_all()


class OneByOne(SocketConnection):
    """A connection whose messages all go the general way."""

    send_messages = Connection.send_messages
    receive_run = Connection.receive_run


@contextlib.contextmanager
def told(sent: Iterable[Sent]) -> Iterator[SocketConnection]:
    """A client's end over which these messages come, from a server that is gone after them."""
    client, server = socket_pair()

    def send() -> None:
        with contextlib.suppress(ConnectionError), server:  # the client may have heard enough
            for tag, data in sent:
                server.send(tag, [data])
            server.flush(SECONDS)

    with client, beside(send):
        yield client


@contextlib.contextmanager
def heard(
    *data: bytes, family: str = "unix", kind: type[SocketConnection] = SocketConnection, limits: Limits | None = None
) -> Iterator[tuple[socket.socket, SocketConnection]]:
    """The socket of a peer that has said this, and our connection to it."""
    raw, other = raw_pair(family)
    with raw, kind(other, "the peer", limits) as connection:
        raw.sendall(b"".join(data))
        yield raw, connection


def socket_pair(
    near: type[SocketConnection] = SocketConnection, far: type[SocketConnection] = SocketConnection
) -> tuple[Any, Any]:
    """Two ends that speak our framing: of the client and of the server."""
    a, b = raw_pair()
    return near(a, "the server"), far(b, "the client")


def raw_pair(family: str = "unix") -> tuple[socket.socket, socket.socket]:
    if family == "unix":
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), SECONDS)
        far, _ = listener.accept()
    return near, far


def frame(tag: int | None, data: bytes, handles: int = 0) -> bytes:
    """A message in our framing."""
    return struct.pack("<BBHIQQ", tag is not None, handles, 0, 0, tag or 0, len(data)) + data


@contextlib.contextmanager
def beside(script: Callable[[], object]) -> Iterator[None]:
    """Run something in a thread of its own; what it raises is raised here at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            script()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(SECONDS)
    assert not thread.is_alive(), "the other side hangs"
    if raised:
        raise raised[0]


# -- servers ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opening(server: Any, way: str) -> Iterator[Callable[..., Any]]:
    """What opens streams of a server in one of the `WAYS`."""
    uri = server.uris if way == "two" else server.uri
    with served.Channel(uri, timeout=SECONDS) as channel:

        def open_it(name: str, **options: Any) -> Any:
            if way == "channel":
                return channel.read(name, **options)
            return served.connect(uri, name, timeout=SECONDS, **options)

        yield open_it


def read_from(where: Any, name: str | bytes = "t", **options: Any) -> Any:
    """A whole stream of a server, or of a URI or two."""
    uri = where.uri if isinstance(where, served.Server) else where
    with served.connect(uri, name, timeout=SECONDS, **options) as reader:
        return reader.read_all()


def connected(server: Any, *idents: bytes) -> Any:
    """A connection that has asked for these streams and no others."""
    connection = schemes.connect(server.uri, None, SECONDS)[0]
    for each in idents:
        connection.send(server.uri.want_data, [each])
    return connection


def said(server: Any) -> list[tuple[str, str]]:
    """Kind and message of each error that a server kept as text; behind them comes where it was raised."""
    heads = [each.partition("\n")[0].partition(": ") for each in server.errors]
    return [(kind.rpartition(".")[2], words) for kind, _, words in heads]


def kinds(server: Any) -> list[str]:
    return [kind for kind, _ in said(server)]


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for what happens soon in another thread or process; returns it."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, f"waited until {what}"
        time.sleep(0.005)
    return found


def settled(value: Callable[[], int], seconds: float = 0.1) -> int:
    """What a number is when it has stopped changing."""
    before = -1
    while (now := value()) != before:
        before = now
        time.sleep(seconds)
    return now


def until_collected(condition: Any, what: str) -> None:
    """Wait for what the collector has to do: one call of it does nothing while another thread collects."""

    def collected() -> bool:
        gc.collect()
        return bool(condition())

    until(collected, what)


# -- what is left over ---------------------------------------------------------------------------------------


def descriptors() -> dict[str, str]:
    """Open file descriptors, and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return {name: what for name, what in found.items() if not what.startswith("/proc/")}


def ours() -> set[threading.Thread]:
    """Threads of ours that run."""
    return {each for each in threading.enumerate() if each.name in OURS}


@contextlib.contextmanager
def nothing_left(held: Callable[[], tuple[int, ...]] = lambda: (len(descriptors()),)) -> Iterator[None]:
    """Whatever happens inside leaves no thread behind and no more of what is counted, a moment later at the latest."""
    before, running, known = held(), ours(), descriptors()
    yield
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if all(now <= then for now, then in zip(held(), before, strict=True)) and not ours() - running:
            return
        gc.collect()
        time.sleep(0.003)
    left = {name: what for name, what in descriptors().items() if known.get(name) != what}
    raise AssertionError(f"left behind: {held()} after {before}, {left}, {ours() - running}")
