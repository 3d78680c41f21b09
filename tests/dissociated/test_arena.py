"""The arena: where bodies lie, who holds them, and that what is gone is never used again."""

from __future__ import annotations

import mmap
import os
import random
import threading

import pytest
from dissociated.lent_memory import MIB, PATIENCE, NoConnection, message, packed

import arrowipc as ipc
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.memory.arena import Arena


def test_d072_memory_stays_as_it_is_until_it_is_freed(arena):
    # Every order of placing, freeing and leaving keeps what anybody holds; seeds in the message.
    sizes = (10, 1000, 20_000, 60_000)
    bodies = [message(number, rows) for number in range(3) for rows in sizes]
    contents = [packed(each) for each in bodies]
    for seed in range(20):
        chance = random.Random(seed)
        clients = [NoConnection() for _ in range(3)]
        views: dict[int, memoryview] = {}
        held: list[tuple[int, list[int], bytes]] = []
        gone: list[tuple[int, int]] = []
        for _ in range(120):
            action = chance.random()
            if action < 0.5:
                which = chance.randrange(len(bodies))
                placed = arena.place(bodies[which], clients[chance.randrange(3)])
                if placed is None:
                    continue
                pairs, addresses, handles = placed
                for handle in handles:
                    views[addresses[0] >> 48] = memoryview(
                        mmap.mmap(handle, os.fstat(handle).st_size, prot=mmap.PROT_READ)
                    )
                start = Pairs(pairs).start
                held.append((start, list(addresses), contents[which]))
                assert not any(a < start + len(held[-1][2]) and start < b for a, b in gone), f"reused, seed {seed}"
            elif held and action < 0.9:
                arena.release(held.pop(chance.randrange(len(held)))[1])
            elif held and action < 0.93:
                start, addresses, data = held.pop(chance.randrange(len(held)))
                arena.abandon(addresses)
                gone.append((start, start + len(data)))
            for start, _, data in held:
                offset = start % (1 << 48)
                assert bytes(views[start >> 48][offset : offset + len(data)]) == data, f"overwritten, seed {seed}"
        for _, addresses, _ in held:
            arena.release(addresses)
        state = arena.state
        assert (state.blocks, state.used) == (0, 0)
        assert state.size <= 64 * MIB


# -- the arena as such ---------------------------------------------------------------------------------------


def test_d072_threads_that_place_and_free_at_once_never_see_the_bytes_of_others(arena):
    bodies = [message(number, rows) for number in range(3) for rows in (100, 5000, 40_000)]
    contents = [packed(each) for each in bodies]
    failures: list[str] = []

    def work(seed: int) -> None:
        chance, client = random.Random(seed), NoConnection()
        views: dict[int, memoryview] = {}
        held: list[tuple[int, list[int], int]] = []
        for step in range(150):
            which = chance.randrange(len(bodies))
            placed = arena.place(bodies[which], client) if len(held) < 8 else None
            if placed is not None:
                for handle in placed[2]:
                    size = os.fstat(handle).st_size
                    views[placed[1][0] >> 48] = memoryview(mmap.mmap(handle, size, prot=mmap.PROT_READ))
                held.append((Pairs(placed[0]).start, list(placed[1]), which))
            elif held:
                start, addresses, which = held.pop(chance.randrange(len(held)))
                offset = start % (1 << 48)
                if bytes(views[start >> 48][offset : offset + len(contents[which])]) != contents[which]:
                    failures.append(f"seed {seed}, step {step}")
                (arena.abandon if chance.random() < 0.02 else arena.release)(addresses)
        for _, addresses, _ in held:
            arena.release(addresses)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE * 4)
    assert not failures
    assert arena.state[1:4:2] == (0, 0)


def test_segments_are_used_again_and_large_bodies_get_their_own():
    arena = Arena(13 * MIB, MIB, 0)
    small, large = message(rows=1000), message(rows=300_000)
    client = NoConnection()
    seen = []
    for found in (small, large, small, large):
        _, addresses, handles = arena.place(found, client)
        seen.append((addresses[0], len(handles)))
        arena.release(addresses)
    assert seen[0][0] == seen[2][0]
    assert seen[1][0] == seen[3][0]
    assert [handles for _, handles in seen] == [1, 1, 0, 0]
    assert arena.state.segments == 2
    assert all(address % (1 << 48) >= 64 and address % 64 == 0 for address, _ in seen)
    # Idle segments make room for one that does not fit beside them.
    _, addresses, _ = arena.place(message(rows=700_000), client)
    assert arena.state.segments == 1
    assert arena.state.size <= 13 * MIB
    arena.close()
    assert arena.place(small, client) is None


def test_numbers_of_segments_come_round_without_hitting_those_in_use():
    arena = Arena(8 * MIB, MIB, 0)
    client = NoConnection()
    _, kept, _ = arena.place(message(), client)
    arena._next_number = 0xFFFF
    numbers = set()
    for _ in range(3):
        _, addresses, handles = arena.place(message(rows=90_000), client)
        assert handles
        numbers.add(addresses[0] >> 48)
        arena.abandon(addresses)
    assert kept[0] >> 48 == 1
    assert numbers == {0xFFFF, 2, 3}
    arena.close()


def test_an_arena_without_descriptors_or_memory_sends_bodies(arena):
    resource = pytest.importorskip("resource")
    before = len(os.listdir("/proc/self/fd"))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
    try:
        placed = arena.place(message(), NoConnection())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert placed is None
    assert arena.place(message(), NoConnection()) is not None
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_small_bodies_are_sent_unless_they_are_held():
    arena = Arena(64 * MIB, 4 * MIB)
    assert arena.place(message(rows=1000), NoConnection()) is None
    assert arena.place(message(rows=1100), NoConnection()) is not None
    (held,) = arena.hold([message(rows=10)])
    assert arena.place(held, NoConnection()) is not None
    arena.close()


def test_sizes_of_arenas_are_checked():
    for options in (
        {"capacity": -1},
        {"capacity": 1 << 48},
        {"segment_bytes": "1"},
        {"least_bytes": -1},
        {"capacity": True},
    ):
        with pytest.raises(ipc.UsageError):
            Arena(**options)
    nothing = Arena(0, least_bytes=0)
    assert nothing.place(message(), NoConnection()) is None
    nothing.close()
    unlimited = Arena(None, least_bytes=0)
    assert unlimited.place(message(), NoConnection()) is not None
    unlimited.close()
