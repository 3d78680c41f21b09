"""Serve a table from shared memory; dissociated_client.py reads it in place.

python dissociated_server.py        # prints the URI to give to clients, and serves until its input ends
"""

import sys

import numpy as np

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.types import field, float64, int64


def main() -> None:
    """Make a table of a million rows, and serve it."""
    schema = ipc.Schema([field("id", int64()), field("price", float64())])
    ids = np.arange(1_000_000)
    table = ipc.Table.from_pydict({"id": ids, "price": ids / 100}, schema)
    with dissociated.Server({"prices": table}, "shm") as server:
        print(server.uri, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
