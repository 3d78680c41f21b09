"""A Flight server in a process of its own, which hands out dissociated streams and serves DoGet of them.

Run as ``python -m dissociated.flight_peer TRANSPORT[,separate]``: prints the port and the dissociated URIs as one
line of JSON, and ends when its input does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
from helpers import arrow_columns
from helpers.processes import start

from arrowipc import dissociated
from arrowipc.dissociated import flight


def streams() -> dict[str, Any]:
    """What is served: every type, dictionaries that are replaced, no rows at all, and several batches."""
    first = pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode(), "x": [1, 2]})
    second = pa.record_batch({"d": pa.array(["c", None]).dictionary_encode(), "x": [3, 4]})
    return {
        "everything": pa.table(arrow_columns.everything()),
        "dictionaries": pa.Table.from_batches([first, second]),
        "empty": pa.table({"x": pa.array([], pa.int32())}),
        "many": pa.table({"x": range(100_000)}).to_batches(max_chunksize=1000),
        "opened anew": lambda: pa.table({"y": ["once", "more"]}),
        "names/with a slash": pa.table({"z": [1.5]}),
    }


class FlightServer(fl.FlightServerBase):
    """Says where streams are to be had of a dissociated server, and serves DoGet of them."""

    def __init__(self, server: Any, sources: dict[str, Any], separate: bool = False) -> None:
        self._places = flight.locations(server, separate=separate, do_get=True)
        self._sources = sources
        super().__init__("grpc://127.0.0.1:0")

    def _table(self, name: bytes) -> pa.Table:
        if name.decode() not in self._sources:
            raise KeyError(f"there is no stream {name!r}")
        source = self._sources[name.decode()]
        data = source() if callable(source) else source
        return pa.Table.from_batches(data) if isinstance(data, list) else data

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        name = descriptor.command
        endpoint = fl.FlightEndpoint(name, self._places)
        return fl.FlightInfo(self._table(name).schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context: Any, ticket: Any) -> Any:
        return fl.RecordBatchStream(self._table(ticket.ticket))


@contextmanager
def running(how: str) -> Iterator[dict[str, Any]]:
    """Start the server in a process of its own."""
    process = start("-m", "dissociated.flight_peer", how)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            process.wait(timeout=20)
            process.stdout.close()


def main(how: str) -> None:
    """Serve until the input ends."""
    transport, _, separate = how.partition(",")
    with dissociated.Server(streams(), transport) as server, FlightServer(server, streams(), bool(separate)) as front:
        print(json.dumps({"port": front.port, "uris": flight.locations(server)}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
