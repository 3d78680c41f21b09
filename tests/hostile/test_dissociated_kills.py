"""Processes that are killed: at any moment, nothing leaks, hangs or is read wrongly."""

import gc
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from dissociated import peers
from dissociated.lent_memory import PATIENCE, hold, is_batch, numbered, process, read, says, serve, state_of, until
from helpers.processes import alarms, rounds

import arrowipc as ipc
from arrowipc import dissociated

MIB = 1 << 20
ROWS = 2500
BATCHES = 30
#: How often the batches come in streams that are to be killed.
TIMES = 10


def hang(*_: Any) -> None:
    raise TimeoutError("the test hangs")


@pytest.fixture
def guard() -> Iterator[None]:
    """Ends a test that hangs, and says where."""
    with alarms(hang, 300):
        yield


# Under the sanitizers processes start too slowly for moments that mean something.
pytestmark = [pytest.mark.usefixtures("guard"), pytest.mark.nosanitize]


def shared_pages() -> int:
    """Bytes of arenas that this process has mapped."""
    with open("/proc/self/maps") as lines:
        spans = [line.split()[0].split("-") for line in lines if "memfd:arrowipc" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    gc.collect()
    with peers.nothing_left(lambda: (len(peers.descriptors()), shared_pages())):
        yield


def server_of(transport: str = "shm") -> dissociated.Server:
    batches = numbered(BATCHES, ROWS)
    memory = {"capacity": 8 * MIB, "segment_bytes": 2 * MIB} if transport == "shm" else {}
    return dissociated.Server({"numbers": lambda: iter(batches)}, transport, transport_options=memory)


def are_of_segments(known: dict[str, str], most: int) -> bool:
    """Whether all descriptors that were not known are of segments, and no more than `most`."""
    new = [what for name, what in peers.descriptors().items() if known.get(name) != what]
    return len(new) <= most and all("memfd:arrowipc" in what for what in new)


@pytest.mark.campaign
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_d085_d086_clients_killed_at_random_moments_leave_nothing_behind(transport: str) -> None:
    """Clients of one server are killed one after the other, while another one reads what it holds."""
    times, chance = rounds(2, 100), random.Random(4)
    with server_of(transport) as server:
        with dissociated.connect(server.uri, "numbers", timeout=PATIENCE) as reader:
            mine = [reader.read_next_batch() for _ in range(3)]
            gc.collect()
            known = peers.descriptors()
            for _ in range(times):
                with process(read, server.uri, "numbers", ROWS, chance.randint(1, 40)) as client:
                    for _ in range(chance.randint(1, 50)):
                        assert says(client), "the client failed"
                    time.sleep(chance.random() * 0.01)
                until(lambda: server.num_clients == 1, "the leases of the client have ended")
                assert all(is_batch(found, place, ROWS) for place, found in enumerate(mine))
                assert transport == "tcp" or state_of(server.memory).blocks > 0, "what the survivor holds"
                # Others come and go in this process. What is new is of the arena: each of its segments, at most four,
                # has a descriptor, one of its map, and one of the map of the client that survives.
                until(lambda: are_of_segments(known, 3 * 4), "the killed client has left no more than segments")
            # The survivor goes on reading the same stream.
            rest = list(reader)
            assert len(rest) == BATCHES - 3
            assert all(is_batch(found, place, ROWS) for place, found in enumerate(rest, 3))
            del mine, rest
        until(lambda: server.num_clients == 0, "everything is given back")
        if transport == "shm":
            state = state_of(server.memory)
            assert (state.blocks, state.retired, state.used) == (0, 0, 0)
            assert state.size <= 8 * MIB
    assert server.errors == []  # that a client is gone is no error


@pytest.mark.campaign
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_d070_d087_servers_killed_at_random_moments_leave_arrays_readable(transport: str) -> None:
    """Servers of one client are killed one after the other; it reads over one connection or two."""
    times, chance = rounds(4, 100), random.Random(5)
    kept: list[tuple[int, Any]] = []
    ended = 0
    for number in range(times):
        with process(serve, transport, BATCHES, ROWS, TIMES) as server:
            uri, *uris = says(server).split()
            reader = dissociated.connect(chance.choice([uri, uris]), "numbers", timeout=PATIENCE)
            with reader:
                count = chance.choice([0, 1, chance.randint(0, BATCHES * TIMES)])
                wait = chance.random() * 0.01
                found = [reader.read_next_batch() for _ in range(count)]
                time.sleep(wait)
                server.kill()
                server.wait(PATIENCE)
                try:
                    for each in reader:
                        found.append(each)
                        del each
                    assert len(found) == BATCHES * TIMES, f"kill {number}: a stream ended too soon"
                except (ipc.TruncatedError, OSError):
                    ended += 1
                    assert len(found) < BATCHES * TIMES
                    with pytest.raises(ipc.UsageError, match="cannot continue"):
                        reader.read_next_batch()
            assert all(is_batch(each, place % BATCHES, ROWS) for place, each in enumerate(found))
            if found:
                kept.append(((len(found) - 1) % BATCHES, found[-1]))
            del found, reader
    # What was read stays what it was, long after those who wrote it.
    assert all(is_batch(each, place, ROWS) for place, each in kept)
    assert ended > times // 10, "hardly any server was killed in the middle of a stream"


def descriptors_of_arenas() -> int:
    return sum("memfd:arrowipc" in what for what in peers.descriptors().values())


def test_a_server_that_is_closed_leaves_clients_what_they_hold():
    before, mapped = descriptors_of_arenas(), shared_pages()
    server = server_of()
    with process(hold, server.uri, "numbers", ROWS) as client:
        assert says(client) == str(BATCHES)
        server.close()
        assert descriptors_of_arenas() == before
        assert shared_pages() == mapped
        client.stdin.write("look\n")
        client.stdin.flush()
        assert says(client) == "True"
