"""The process on a host that holds shared data: it reads them once, and lends them to every worker that asks.

``python -m arrowipc.spark.broker SOCKET FILE IDLE``: started by the first worker of a host, see
`arrowipc.spark.shared`. The tags of requests and of returned memory are read from stdin: other users see arguments.
"""

import sys
import time
from collections.abc import Sequence

from arrowipc import open_file
from arrowipc.dissociated.served import Prepared
from arrowipc.dissociated.server import Server

#: Seconds between two checks whether there are clients.
TICK = 0.5


def main(arguments: Sequence[str]) -> int:
    """Serve the batches of a file under any name until there was no client for a while; return the exit status."""
    socket, file, idle = arguments
    want_data, free_data = sys.stdin.readline().split()
    # Listen before reading: of two brokers that start at the same time, one finds the name taken and exits.
    held = Prepared(lambda: open_file(file))
    try:
        server = Server(
            lambda name: held,
            "shm",
            socket,
            want_data=int(want_data),
            free_data=int(free_data),
            transport_options={"capacity": None},
        )
    except OSError:
        return 1
    with server:
        left = float(idle)
        while left > 0:
            time.sleep(TICK)
            left = float(idle) if server.num_clients else left - TICK
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
