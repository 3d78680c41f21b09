"""Processes that speak UCX with each other: what they do. `ucx_libraries` starts them.

They import no more than they need, since tests start dozens.
"""

import gc
import itertools
import json
import os
import sys
from typing import Any

import pyarrow as pa
from dissociated import peers
from dissociated.lent_memory import PATIENCE, state_of

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.session import Session

# -- roles: each prints lines of JSON, and ends when its input is closed -----------------------------------------


def sources() -> dict[str, Any]:
    """What servers have: streams of every shape, and one of more than is ever on its way at once."""
    return {**peers.shapes(), "endless": lambda: itertools.islice(peers.endless(4 << 20), 200)}


def say(what: Any) -> None:
    """Print a line for the parent."""
    print(json.dumps(what), flush=True)


def serve(mode: str = "peer", memory: str = "0", pairs: str = "") -> None:
    """Say the URIs; when asked, say clients, errors and bytes of the arena in use; bodies say `pairs` (hex)."""
    if pairs:
        send = Session._send_placed
        Session._send_placed = lambda self, message, placed: send(  # type: ignore[method-assign]
            self, message, placed._replace(pairs=bytes.fromhex(pairs))
        )
    options = {"error_mode": mode, "memory": int(memory)}
    with dissociated.Server(sources(), "ucx", transport_options=options, max_held=256 << 20) as server:
        say([str(server.uri), *map(str, server.uris)])
        for _ in sys.stdin:
            state = None if server.memory is None else state_of(server.memory)
            say([server.num_clients, server.errors, 0 if state is None else state.used + state.retired])


def fetch(uris: str, *names: str) -> None:
    """Read streams; say of each whether it is what it should be and its memory is mapped, or what went wrong."""
    expected = sources()
    for name in names:
        try:
            with dissociated.connect(uris.split(), name, timeout=PATIENCE) as reader:
                is_same = pa.table(reader.read_all()).equals(expected[name])
                memory = reader._memory
                say([name, is_same, bool(memory is not None and memory._mapped)])
                returns = reader._returns
        except (ipc.ArrowIpcError, OSError) as error:
            return say(f"{type(error).__name__}: {error}")
        del reader, memory
        if returns._thread is not None:
            returns._thread.join(PATIENCE)  # until the server has its memory back
    return None


def fetch_slowly(uri: str) -> None:
    """Read one batch of "endless", then, when told to, all; say how that ended, and whether the first is the same."""
    with dissociated.connect(uri, "endless", timeout=PATIENCE) as reader:
        first = reader.read_next_batch()
        say(first.num_rows)
        for _ in sys.stdin:
            try:
                for number, batch in enumerate(reader, 1):
                    assert batch.column(0)[-1] == number
                    del batch
                how = "complete"
            except (ipc.TruncatedError, OSError) as error:
                how = type(error).__name__
            say([how, not first.column(0).to_numpy().any()])


def fork(uri: str) -> None:
    """Use UCX, fork, and say what the child gets when it does; the parent's connection goes on."""
    with dissociated.connect(uri, "endless", timeout=PATIENCE) as reader:
        first = reader.read_next_batch()
        child = os.fork()
        if child == 0:
            refused = 0
            for attempt in (lambda: dissociated.connect(uri, "words", timeout=PATIENCE), lambda: list(reader)):
                try:
                    attempt()
                except ipc.UsageError as error:
                    refused += "forked" in str(error)
            del reader, first, attempt
            gc.collect()
            os._exit(refused)
        say([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), first.column(0)[-1], next(iter(reader)).column(0)[-1]])
