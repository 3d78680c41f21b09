"""What the processes of `dissociated.ucx_peers` do: their data and roles.

Run as ``python -m dissociated.ucx_roles ROLE JSON``. Every role prints lines of JSON; a server's first line has
its URIs, and it ends when its input is closed.
"""

import gc
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.session import Session
from arrowipc.types import dictionary, field, float64, int32, int64, utf8

#: No wait is longer, in seconds.
PATIENCE = 30

Batches = list[ipc.RecordBatch]


# -- data ----------------------------------------------------------------------------------------------------


def plain(rows: int = 1000, seed: int = 1) -> Batches:
    """Numbers, text with nulls, and a dictionary."""
    rng = random.Random(seed)
    schema = ipc.Schema(
        [field("i", int64()), field("s", utf8()), field("f", float64()), field("d", dictionary(int32(), utf8()))]
    )
    return [
        ipc.RecordBatch.from_pydict(
            {
                "i": [rng.randrange(-(2**62), 2**62) for _ in range(n)],
                "s": [rng.choice([None, "", "word", "longer words " * 3]) for _ in range(n)],
                "f": [rng.random() for _ in range(n)],
                "d": [rng.choice(["red", "green", None]) for _ in range(n)],
            },
            schema,
        )
        for n in (rows, 1, rows // 2)
    ]


def empty(batches: int = 4) -> Batches:
    """Batches without rows: their bodies have no bytes."""
    schema = ipc.Schema([field("i", int64())])
    return [ipc.RecordBatch.from_pydict({"i": []}, schema) for _ in range(batches)]


def wide(columns: int = 2_000) -> Batches:
    """So many columns that their metadata is no small message."""
    schema = ipc.Schema([field(f"column number {i}", int64()) for i in range(columns)])
    return [ipc.RecordBatch.from_pydict({f.name: [i, None] for i, f in enumerate(schema.fields)}, schema)]


def large(mib: int = 8, batches: int = 2) -> Batches:
    """Bodies that have to be fetched by the receiver (rendezvous)."""
    rows = (mib << 20) // 8
    schema = ipc.Schema([field("i", int64())])
    pattern = random.Random(mib).randbytes(1 << 16)
    return [
        ipc.RecordBatch.from_pydict({"i": memoryview(pattern * (rows * 8 >> 16)).cast("q")}, schema)
        for _ in range(batches)
    ]


def endless() -> Batches:
    """More than is ever on its way at once."""
    return large(4, 1) * 200


#: Name of a stream -> what makes its batches, the same in every process.
SOURCES: dict[str, Callable[[], Batches]] = {each.__name__: each for each in (plain, empty, wide, large, endless)}


def equal(found: Batches, expected: Batches) -> bool:
    """Whether two lists of batches have the same schemas and values."""
    return len(found) == len(expected) and all(
        a.schema == b.schema and a.equals(b) for a, b in zip(found, expected, strict=True)
    )


# -- roles ---------------------------------------------------------------------------------------------------


def say(what: Any) -> None:
    """Print a line for the parent."""
    print(json.dumps(what), flush=True)


def commands() -> Iterator[str]:
    """What the parent tells, until it closes our input."""
    while line := sys.stdin.readline():
        yield line.strip()


def free_bytes(memory: Any) -> int:
    """What bodies may be put into."""
    return sum(end - start for each in memory._segments.values() for start, end in each.ranges._free)


def serve(pairs: str = "", **options: Any) -> None:
    """Serve `SOURCES`; when asked, tell clients, errors and free bytes of the arena; bodies say `pairs` (hex)."""
    large(1, 1)  # imports NumPy, before two threads do so at once
    if pairs:
        send = Session._send_placed
        Session._send_placed = lambda self, message, placed: send(  # type: ignore[method-assign]
            self, message, placed._replace(pairs=bytes.fromhex(pairs))
        )
    server = dissociated.Server(SOURCES, "ucx", transport_options=options, max_held=256 << 20)
    memory = server._endpoint.memory
    with server:
        say([str(server.uri), *map(str, server.uris)])
        for _ in commands():
            say([server.num_clients, server.errors, 0 if memory is None else free_bytes(memory)])
    say("closed")


def fetch(uri: Any, names: list[str]) -> None:
    """Read streams, and say of each whether it is what it should be, and whether its memory is mapped."""
    for name in names:
        with dissociated.connect(uri, name, timeout=PATIENCE) as reader:
            found = list(reader)
            memory = reader._memory
            say([name, equal(found, SOURCES[name]()), bool(memory is not None and memory._mapped)])
            returns = reader._returns
        del found, reader, memory
        if returns._thread is not None:
            returns._thread.join(PATIENCE)  # until the server has its memory back


def arena(seed: int) -> None:
    """Place, free and abandon in a region; says whether it was full, and what is left at the end."""
    from dissociated.test_arena import Holder

    from arrowipc.dissociated.transports.ucx_library import context
    from arrowipc.dissociated.transports.ucx_memory import UcxArena

    lent = UcxArena(context(True, False), 4 << 20, 0)
    (segment,) = lent._segments.values()
    holder = Holder(lent, seed, lambda start, size: segment.memory[start - segment.address :][:size])
    for _ in range(600):
        holder.step()
    holder.release_all()
    say([holder.was_full, len(holder.gone) > 3, free_bytes(lent) + segment.retired])


def fetch_slowly(uri: Any, name: str) -> None:
    """Read one batch, then, when told to, all; says how that ended, and whether the first is still there."""
    with dissociated.connect(uri, name, timeout=PATIENCE) as reader:
        first = reader.read_next_batch()
        say(first.num_rows)
        for _ in commands():
            try:
                for batch in reader:
                    del batch
                how = "complete"
            except (ipc.TruncatedError, OSError) as error:
                how = type(error).__name__
            say([how, equal([first], SOURCES[name]()[:1])])


def fork(uri: str) -> None:
    """Use UCX, fork, and say what the child gets when it does; the parent's connection goes on."""
    with dissociated.connect(uri, "endless", timeout=PATIENCE) as reader:
        first = reader.read_next_batch()
        child = os.fork()
        if child == 0:
            for attempt in (lambda: dissociated.connect(uri, "plain", timeout=PATIENCE), lambda: list(reader)):
                try:
                    attempt()
                except ipc.UsageError as error:
                    say(str(error))
            del reader, first, attempt
            gc.collect()
            os._exit(0)
        ended = os.waitpid(child, 0)[1]
        say([ended, equal([first, reader.read_next_batch()], endless()[:2])])


def load(**given: Any) -> None:
    """Load the library; says which signals were handled before and after, the environment and the version."""
    from arrowipc.dissociated.transports.ucx_library import load_library

    def handled() -> str:
        status = Path("/proc/self/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("SigCgt"))

    if "at" in given:
        os.environ["ARROWIPC_UCX_LIBRARY"] = given["at"]
    before = handled()
    version = load_library()
    say([before, handled(), os.environ.get("UCX_ERROR_SIGNALS"), version])


def expect(**given: Any) -> None:
    """Send bodies 1 to 4 with dirty upper bits; says in which order a client that expects 3 receives them."""
    client, server = pair()
    for number in (1, 2, 3, 4):
        server.send(0xAB << 56 | 0x123456 << 32 | number, [bytes([number])])
    client.expect(3)
    found: list[int] = []
    for step in range(PATIENCE * 1000):
        server.progress()
        if step < 100:
            client.worker.progress()  # all of them arrive before one is received
        else:
            client.progress()
        while (frame := client.receive()) is not None:
            found.append(frame.tag & 0xFFFFFFFF)
        if len(found) == 4:
            break
        time.sleep(0.001)
    say(found)
    client.close()
    server.close()


def pair(**limits: int) -> tuple[Any, Any]:
    """Return the ends of a connection inside this process: a client's with these limits, and its server's."""
    from arrowipc.dissociated.transports.ucx import connect_ucx, listen_ucx

    listener = listen_ucx(("127.0.0.1", 0)).listener
    uri = dissociated.DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1")
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(connect_ucx, uri, ipc.Limits(**limits), PATIENCE)
        accepted = None
        while not connecting.done():
            accepted = accepted or listener.accept()
            if accepted is not None:
                accepted.progress()
    assert accepted is not None
    return connecting.result()[0], accepted


def limit(size: int) -> None:
    """Receive untagged messages, one of them larger than the limit on metadata; says what became of them."""
    client, server = pair(metadata_bytes=size)
    for length in (5, size, size + 65):
        server.send(None, [bytes(length)])
    found: list[int] = []
    refused = None
    deadline = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            server.progress()
            client.progress()
            while (frame := client.receive()) is not None:
                found.append(len(frame.data))
    except ipc.LimitError as error:
        refused = str(error)
    while (frame := client.receive()) is not None:
        found.append(len(frame.data))
    say([sorted(found), refused])
    client.close()
    server.close()


def let_threads_end() -> None:
    """Wait for the threads in which closed connections say goodbye: until then they keep their descriptors."""
    for each in threading.enumerate():
        if each.name == "arrowipc-hang-up":
            each.join(PATIENCE)


def silence(**given: Any) -> None:
    """Wait for peers that say nothing (any more); says what ended each wait, and how many descriptors that left."""
    from arrowipc.decode.stream_decoder import StreamDecoder
    from arrowipc.dissociated import schemes
    from arrowipc.dissociated.client import Client
    from arrowipc.dissociated.connection import Deadline
    from arrowipc.dissociated.link import Link
    from arrowipc.dissociated.served import messages_of
    from arrowipc.dissociated.transports.ucx import listen_ucx
    from arrowipc.dissociated.transports.ucx_library import load_library

    schema, batch = [bytes(each.metadata) for each in messages_of(plain(1)[0])][:2]
    said = {"first answer": [], "metadata": [schema], "body": [schema, batch]}
    for _ in range(2):
        listener = listen_ucx(("127.0.0.1", 0)).listener
        uri = dissociated.DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1")
        ends = []
        try:
            schemes.connect(uri, None, 0.5)
        except TimeoutError:
            ends.append("connecting")
        listener.close()
        for stage, messages in said.items():
            client, server = pair()
            for number, each in enumerate(messages):
                server.send(None, [b"\1" + number.to_bytes(4, "little") + each])
            deadline = Deadline(PATIENCE)
            while server.unsent and deadline.left:
                server.progress()
                client.worker.progress()
            reader = Client(Link(client, client), StreamDecoder())
            try:
                list(reader.begin(0.5))
            except TimeoutError:
                ends.append(stage)
            reader.close()
            server.close()
        let_threads_end()
        say([ends, len(os.listdir("/proc/self/fd")), load_library()])


def drop(**given: Any) -> None:
    """Serve as a program that drops, without a word, whom it cannot answer; says who came, and what that left."""
    from arrowipc.dissociated.transports import ucx_worker
    from arrowipc.dissociated.transports.ucx import connect_ucx, listen_ucx

    left = sys.maxsize
    for _ in range(2):
        listener = listen_ucx(("127.0.0.1", 0), error_mode="none").listener
        uri = dissociated.DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1")
        workers, came = [], []
        with ThreadPoolExecutor(1) as pool:
            connecting = pool.submit(connect_ucx, uri, None, PATIENCE)
            while not connecting.done():
                listener._worker.progress()
                if listener._listener.has_request:
                    workers.append(ucx_worker.Worker(listener.context))
                    try:
                        listener._listener.accept(workers[-1], False)
                        came.append("answered")
                    except OSError:
                        came.append("dropped")
                if came[-1:] == ["answered"]:
                    workers[-1].progress()
        connecting.result()[0].close()
        for worker in workers:
            worker.close()
        listener.close()
        end = time.monotonic() + 5  # some were closed later, once, with UCX 1.13
        while (count := len(os.listdir("/proc/self/fd"))) > left and time.monotonic() < end:
            time.sleep(0.05)
        left = count
        say([came, left])


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
