"""Serve a table from shared memory; dissociated_client.py reads it in place.

python dissociated_server.py        # prints the URI to give to clients, and serves until its input ends
"""

import sys

import numpy as np

import arrowipc as ipc
from arrowipc import dissociated


def main() -> None:
    """Make a table of a million rows, and serve it."""
    ids = np.arange(1_000_000)
    table = ipc.table({"id": ids, "price": ids / 100})
    with dissociated.Server({"prices": table}, "shm") as server:
        print(server.uri, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
