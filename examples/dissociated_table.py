"""Serve a table from shared memory; another process reads it in place.

python dissociated_table.py
"""

from multiprocessing import get_context

import numpy as np

import arrowipc as ipc
from arrowipc import dissociated


def read(uri: str) -> None:
    """The other process: connect, read the batches in place, and release them."""
    with dissociated.connect(uri, "prices") as reader:
        for batch in reader:
            prices = batch["price"].to_numpy()  # a view of the server's memory
            print(batch.num_rows, "rows, the highest price is", prices.max())


def main() -> None:
    """Make a table of a million rows, and serve it while the other process reads."""
    ids = np.arange(1_000_000)
    table = ipc.table({"id": ids, "price": ids / 100})
    with dissociated.Server({"prices": table}, "shm") as server:
        client = get_context("spawn").Process(target=read, args=(str(server.uri),))
        client.start()
        client.join()


if __name__ == "__main__":
    main()
