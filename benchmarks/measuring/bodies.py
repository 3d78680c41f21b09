"""The processes that serve bodies to `test_dissociated.py`, one per way of sending.

Run as a script with the way, the transport, the bytes of a body, a folder for sockets and the options of the
transport: prints where it listens, as JSON, and ends when its input does. A request names how many bodies are wanted.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: What a plain socket's client asks with.
REQUEST = struct.Struct("<Q")


def columns(size: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return one column of `size` bytes of numbers, or as many as the options say."""
    import numpy as np

    return {f"x{i}": np.arange(size // 8) for i in range(options.pop("columns", 1))}


@contextmanager
def dissociated(transport: str, size: int, folder: str, options: dict[str, Any]) -> Iterator[Any]:
    """Serve with arrowipc: as many of our batches as are asked for, or one table of pyarrow (`count` batches)."""
    import arrowipc
    from arrowipc.dissociated import Server
    from arrowipc.types import field, int64

    where = os.path.join(folder, transport) if transport in ("unix", "shm", "file") else None
    count = options.pop("count", 0)
    data = columns(size, options)
    if count:
        import pyarrow as pa

        table: Any = pa.Table.from_batches([pa.record_batch(data)] * count)
        if transport == "file":
            with arrowipc.new_file(path := os.path.join(folder, "table.arrow"), durable=False) as writer:
                writer.write(table)
            table = path
        with Server({str(count): table}, transport, where, transport_options=options) as server:
            yield str(server.uri)
        return
    schema = arrowipc.Schema([field(name, int64()) for name in data])
    batch = arrowipc.RecordBatch.from_pydict(data, schema)

    def find(ident: bytes) -> Any:
        return [batch] * int(ident)

    with Server(find, transport, where, schema=schema, transport_options=options) as server:
        yield str(server.uri)


@contextmanager
def flight(transport: str, size: int, folder: str, options: dict[str, Any]) -> Iterator[Any]:
    """Serve DoGet with pyarrow."""
    import pyarrow as pa
    import pyarrow.flight as fl

    batch = pa.record_batch(columns(size, options))

    class Bodies(fl.FlightServerBase):  # type: ignore[misc, unused-ignore]
        def do_get(self, context: Any, ticket: Any) -> Any:
            batches = [batch] * int(ticket.ticket)
            return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(batch.schema, batches))

    where = f"grpc+unix://{folder}/flight" if transport == "unix" else "grpc://127.0.0.1:0"
    with Bodies(where) as server:
        yield where if transport == "unix" else f"grpc://127.0.0.1:{server.port}"


@contextmanager
def plain(transport: str, size: int, folder: str, options: dict[str, Any]) -> Iterator[Any]:
    """Serve the bytes alone over a socket."""
    body = memoryview(columns(size, options)["x0"]).cast("B")
    where: Any = os.path.join(folder, "plain")
    if transport == "unix":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(where)
        listener.listen()
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        where = listener.getsockname()

    def serve(client: socket.socket) -> None:
        with client:
            if transport == "tcp":
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while len(request := client.recv(REQUEST.size, socket.MSG_WAITALL)) == REQUEST.size:
                for _ in range(REQUEST.unpack(request)[0]):
                    client.sendall(body)

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield where


def main(kind: str, transport: str, size: int, folder: str, options: str) -> None:
    """Serve until the input ends."""
    way = {"arrowipc": dissociated, "flight": flight, "plain": plain}[kind]
    with way(transport, size, folder, json.loads(options)) as where:
        print(json.dumps(where), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
