"""Read a table from the memory of another process, without a copy (with dissociated_server.py).

python dissociated_client.py URI
"""

import sys

from arrowipc import dissociated


def main() -> None:
    """Connect, read the batches in place, and release them."""
    with dissociated.connect(sys.argv[1], "prices") as reader:
        for batch in reader:
            prices = batch["price"].to_numpy()  # a view of the server's memory
            print(batch.num_rows, "rows, the highest price is", prices.max())


if __name__ == "__main__":
    main()
