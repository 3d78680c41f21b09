"""The processes that serve bodies to `test_dissociated.py`, one per way of sending.

Run with the way, the transport, the bytes of a body, a folder for sockets and the options of the transport: prints
where it listens, as JSON, and ends when its input does. A request names how many bodies are wanted.
"""

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
    import pyarrow as pa

    import arrowipc
    from arrowipc.dissociated import Server
    from arrowipc.types import field, int64

    where = os.path.join(folder, transport) if transport in ("unix", "shm", "file") else None
    count, data = options.pop("count", 0), columns(size, options)
    schema = arrowipc.Schema([field(name, int64()) for name in data])
    batch = arrowipc.RecordBatch.from_pydict(data, schema)
    streams: Any = lambda ident: [batch] * int(ident)  # noqa: E731
    if count:
        table: Any = pa.Table.from_batches([pa.record_batch(data)] * count)
        if transport == "file":
            with arrowipc.new_file(path := os.path.join(folder, "table.arrow"), durable=False) as writer:
                writer.write(table)
            table = path
        streams, schema = {str(count): table}, None
    with Server(streams, transport, where, schema=schema, transport_options=options) as server:
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
    body, unix = memoryview(columns(size, options)["x0"]).cast("B"), transport == "unix"
    family = socket.AF_UNIX if unix else socket.AF_INET
    listener = socket.create_server(os.path.join(folder, "plain") if unix else ("127.0.0.1", 0), family=family)

    def serve(client: socket.socket) -> None:
        with client:
            if not unix:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while len(request := client.recv(REQUEST.size, socket.MSG_WAITALL)) == REQUEST.size:
                for _ in range(REQUEST.unpack(request)[0]):
                    client.sendall(body)

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()


if __name__ == "__main__":
    way = {"arrowipc": dissociated, "flight": flight, "plain": plain}[sys.argv[1]]
    with way(sys.argv[2], int(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5])) as where:
        print(json.dumps(where), flush=True)
        sys.stdin.read()
