"""What is closed, or has no reference any more, leaves nothing behind: readers and servers, on either side."""

import atexit
import contextlib
import gc
import itertools
import os
import random
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import state_of
from dissociated.peers import until, until_collected
from dissociated.ucx_libraries import needs_ucx, over_ucx
from helpers.arrays import stored
from helpers.processes import environment, printed, rounds, run_function

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.memory.arena import Arena
from arrowipc.errors import ArrowIpcError

SECONDS = peers.SECONDS
ROWS = 1 << 13  # 64 KiB: told of, where memory is shared
BATCHES = 12
TRANSPORTS = ("tcp", "unix", "shm", "file")


#: One thing for each source that is being read.
RUNNING: list[object] = []


def batches() -> Iterator[pa.RecordBatch]:
    RUNNING.append(mark := object())
    try:
        yield from itertools.islice(peers.endless(8 * ROWS), BATCHES)
    finally:
        RUNNING.remove(mark)


def failing() -> Iterator[pa.RecordBatch]:
    """A stream that breaks in the middle, in a way that clients may catch."""
    for number, batch in enumerate(batches()):
        if number == 5:
            raise ValueError("the source is torn")
        yield batch


@contextlib.contextmanager
def served(transport: str, folder: Path, **options: Any) -> Iterator[Any]:
    """A server of "t", and of "torn", which fails in the middle."""
    source = stored(folder / "x.arrow", list(batches())) if transport == "file" else batches
    with dissociated.Server({"t": source, "torn": failing}, transport, **options) as server:
        yield server


def ranges() -> int:
    """Mapped ranges that this process shares with others."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:" in line or "/dev/shm/" in line or line.endswith(".arrow") for line in lines)


def state(server: Any = None) -> tuple[int, int]:
    """Descriptors and ranges, without those of the segments that the arena of a server keeps."""
    gc.collect()
    arena = getattr(server, "memory", None)
    kept = state_of(arena).segments if isinstance(arena, Arena) else 0
    return len(peers.descriptors()) - 2 * kept, ranges() - kept


def nothing_left(server: Any = None) -> contextlib.AbstractContextManager[None]:
    """Whatever is dropped inside leaves no descriptor, no thread and no mapped range behind."""
    return peers.nothing_left(lambda: state(server))


def until_gone(server: Any, where: str = "") -> None:
    until_collected(lambda: server.num_clients == 0 and not RUNNING, f"nobody is there: {where}")
    assert set(peers.kinds(server)) <= {"ValueError"}, "that a client left is no error"


# -- stages --------------------------------------------------------------------------------------------------
# Each opens a reader, brings it somewhere, and returns what outlives it: batches, or nothing.
Stage = Callable[[Callable[[str], Any]], list[Any] | None]


def after(count: int | None, keeps: bool = False) -> Stage:
    """The stage after so many batches, or all of them, which are kept or not."""

    def stage(open_it: Callable[[str], Any]) -> list[Any]:
        found = list(itertools.islice(open_it("t"), count))
        return found if keeps else []

    return stage


def in_an_exception(open_it: Callable[[str], Any]) -> None:
    with contextlib.suppress(RuntimeError):
        for batch in open_it("t"):
            raise RuntimeError(f"of the one who reads: {batch.num_rows} rows")


def in_an_exception_of_the_source(open_it: Callable[[str], Any]) -> None:
    with pytest.raises((ArrowIpcError, OSError)):
        open_it("torn").read_all()


def in_a_cycle(open_it: Callable[[str], Any]) -> None:
    cycle: list[Any] = [open_it("t")]
    next(iter(cycle[0]))
    cycle.append(cycle)


STAGES: dict[str, Stage] = {
    "before the first": after(0),
    "in the middle": after(3),
    "at the end": after(None),
    "while leases are held": after(4, keeps=True),
    "with all leases held": after(None, keeps=True),
    "in an exception": in_an_exception,
    "in an exception of the source": in_an_exception_of_the_source,
    "in a cycle": in_a_cycle,
}


def held_values(held: list[Any]) -> None:
    for batch in held:
        values = batch.column(0)
        assert values[0] == values[ROWS - 1]


def drop_some(server: Any, way: str, dice: random.Random, count: int) -> None:
    """Bring `count` readers somewhere, close or drop them, and drop what they read later and in another order."""
    kept: list[Any] = []
    opened: list[Any] = []
    with peers.opening(server, way) as open_it:
        for stage in dice.choices([*STAGES.values()], k=count):
            held = stage(lambda name: opened.append(open_it(name)) or opened[-1])
            while opened:
                if dice.random() < 0.5:
                    opened[-1].close()
                opened.pop()
            if held:
                kept.append(held)
        dice.shuffle(kept)
        gc.collect()
        while kept:
            held_values(kept.pop())


@pytest.mark.campaign
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_dropped_readers_leave_nothing(transport, tmp_path):
    for seed in range(rounds(1, 10)):
        dice = random.Random(f"{transport} {seed}")
        with nothing_left(), served(transport, tmp_path) as server:
            for way in peers.WAYS:
                with nothing_left(server):
                    drop_some(server, way, dice, rounds(3, 6))
                    until_gone(server, f"{transport} {way} {seed}")


def law_over_ucx(count: str) -> None:
    # What UCX itself keeps until the process ends is made by the first streams.
    with served("ucx", Path(), transport_options={"memory": 64 << 20}) as server:
        for _ in range(2):
            dissociated.connect(server.uri, "t", timeout=SECONDS).read_all()
    for memory in (0, 64 << 20):
        with nothing_left(), served("ucx", Path(), transport_options={"memory": memory}) as server:
            for seed in range(int(count)):
                for way in peers.WAYS:
                    drop_some(server, way, random.Random(f"{memory} {seed} {way}"), rounds(2, 6))
                    until_gone(server, f"{memory} {way} {seed}")


@pytest.mark.campaign
@pytest.mark.nosanitize
@needs_ucx
def test_dropped_readers_over_ucx_leave_nothing():
    over_ucx(law_over_ucx, rounds(1, 5), transports="tcp,posix,sysv,cma", timeout=1200)


def client_closed_in_a_thread_of_its_server() -> None:
    """The collector closes a client in whatever thread it works: in that of its session nobody answers meanwhile."""
    held: list[Any] = []
    read = threading.Event()

    def source() -> Iterator[pa.RecordBatch]:
        small = next(batches()).slice(0, 8)  # which arrives without its sender's help
        yield small
        read.wait(SECONDS)
        held.pop().close()
        yield small

    with dissociated.Server({"t": source}, "ucx") as server:
        for _ in range(3):
            read.clear()
            held.append(dissociated.connect(server.uri, "t", timeout=SECONDS))
            held[0].read_next_batch()
            read.set()
            until(lambda: not held and server.num_clients == 0, "the client is gone")
    until(lambda: not peers.ours(), "no thread is left")


@pytest.mark.nosanitize
@needs_ucx
def test_a_client_over_ucx_that_is_closed_while_its_server_is_busy_leaves_nothing():
    over_ucx(client_closed_in_a_thread_of_its_server, transports="tcp,posix,sysv,cma")


# -- one by one ----------------------------------------------------------------------------------------------


def test_the_finaliser_takes_no_lock_that_its_thread_may_hold():
    """The collector may drop a reader in the middle of what gives its memory back."""
    client, server = peers.socket_pair()
    reader = peers.stream_between((client,))
    returns = reader._link.returns
    returns._tag = 7
    returns.lease([1])
    with returns._lock:
        del reader
        gc.collect()
    returns.returned([1])
    until(lambda: server.progress() or ((frame := server.receive()) and frame.tag == 7), "it comes back")
    returns._thread.join(SECONDS)
    assert not returns._thread.is_alive()
    until(lambda: server.progress() or server.at_end, "the client is gone")
    server.close()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("asked", [False, True])
def test_a_server_that_nobody_refers_to_ends_without_the_collector_and_leaves_nothing(transport, asked, tmp_path):
    path = tmp_path / "x.sock"
    with nothing_left():
        options = {}
        if transport == "file":
            (tmp_path / "x.arrow").write_bytes(b"ARROW1\0\0")
            options = {"transport_options": {"path": tmp_path / "x.arrow"}}
        server = dissociated.Server({"t": batches}, transport, None if transport == "tcp" else path, **options)
        uri, gone = server.uri, weakref.ref(server)
        if asked:
            dissociated.connect(uri, "t", timeout=SECONDS).read_all()
            until(lambda: gone().num_clients == 0, "the client is gone")
        del server
        until(lambda: gone() is None and not path.exists(), "the server is gone, and its socket")
    with pytest.raises(OSError, match=r"refused|no server listens|No such file"):
        dissociated.connect(uri, "t", timeout=SECONDS)


def test_a_dropped_server_serves_its_clients_to_the_end():
    with nothing_left():
        server = dissociated.Server({"t": batches}, "tcp")
        reader = dissociated.connect(server.uri, "t", timeout=SECONDS)
        del server
        gc.collect()
        assert reader.read_all().num_rows == BATCHES * ROWS
        reader.close()


def test_a_dropped_flight_reader_leaves_nothing():
    fl = pytest.importorskip("pyarrow.flight")
    from arrowipc.dissociated.flight import from_flight, locations

    with nothing_left(), served("shm", Path()) as server:
        endpoint = fl.FlightEndpoint(b"t", locations(server))
        info = fl.FlightInfo(pa.schema([("x", pa.int64())]), fl.FlightDescriptor.for_command(b"t"), [endpoint])
        reader = from_flight(info, timeout=SECONDS)
        next(iter(reader))
        del reader
        until_gone(server)


# -- files of one's own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize(
    "stage", ["before the first", "in the middle", "with all leases held", "in an exception", "in a cycle"]
)
@pytest.mark.parametrize("way", ["mapped", "read", "object"])
def test_dropped_readers_of_files_leave_nothing(way, stage, ending, tmp_path):
    path = stored(tmp_path / f"x.{ending}", list(batches()))
    with warnings.catch_warnings(), path.open("rb") as file:
        warnings.simplefilter("ignore", ResourceWarning)  # Python's own, where a file was ours

        def open_it(name: str) -> Any:
            file.seek(0)
            return ipc.open(file) if way == "object" else ipc.open(path, memory_map=way == "mapped")

        with nothing_left():
            STAGES[stage](open_it)


# -- forked children -----------------------------------------------------------------------------------------


def in_a_child(held: list[Any]) -> None:
    """Let go, in a child that then ends, of what its parent still uses, as workers of data loaders do."""
    child = os.fork()
    if child == 0:
        held.clear()
        gc.collect()
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)


def reading(transport: str, path: str) -> None:
    with dissociated.Server({"t": lambda: itertools.islice(peers.endless(), 40)}, transport, path) as server:
        held = [dissociated.connect(server.uri, "t")]
        in_a_child(held)
        assert [batch.column(0)[-1] for batch in held[0]] == list(range(40))
        held.pop().close()


def serving(transport: str, path: str) -> None:
    held = [dissociated.Server({"t": peers.numbers()}, transport, path)]
    uri = held[0].uri
    in_a_child(held)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15, "it polls"
    assert peers.read_from(uri).num_rows == 3
    held.pop().close()


def over_every_transport(folder: str) -> None:
    for transport in ("tcp", "unix", "shm"):
        for program in (reading, serving):
            program(transport, "127.0.0.1:0" if transport == "tcp" else f"{folder}/socket")


def test_what_a_forked_child_lets_go_of_stays_with_its_parent(tmp_path):
    printed(run_function(over_every_transport, tmp_path, env={**environment(), "PYTHONWARNINGS": "ignore"}))


# -- a server goes on ----------------------------------------------------------------------------------------


def test_a_server_goes_on_after_a_client_that_it_had_no_thread_for(monkeypatch):
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "arrowipc-session":
            raise RuntimeError("can't start new thread")
        start(thread)

    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with dissociated.Server({"t": batches}, "tcp") as server:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises((ArrowIpcError, OSError)):
            dissociated.connect(server.uri, "t", timeout=SECONDS)
        monkeypatch.setattr(threading.Thread, "start", start)
        assert peers.read_from(server).num_rows == BATCHES * ROWS
    assert [each.exc_type for each in raised] == [RuntimeError]
