"""The arena: where bodies lie, who holds them, and that what is gone is never used again."""

from __future__ import annotations

import mmap
import os
import random
from typing import Any

import pytest
from dissociated.lent_memory import MIB, NoConnection, message, packed, state_of
from helpers.processes import in_threads

import arrowipc as ipc
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.memory.arena import Arena

BODIES = [message(number, rows) for number in range(3) for rows in (10, 1000, 20_000, 60_000)]
CONTENTS = [packed(each) for each in BODIES]


class Holder:
    """Clients of an arena for whom bodies are placed, freed and abandoned in any order."""

    def __init__(self, arena: Any, seed: int, read: Any = None) -> None:
        self.arena, self.seed, self.chance = arena, seed, random.Random(seed)
        self.read = read or self.mapped
        self.was_full = False
        self.clients = [NoConnection() for _ in range(3)]
        self.views: dict[int, memoryview] = {}
        self.held: list[tuple[int, list[int], bytes]] = []
        self.gone: list[tuple[int, int]] = []

    def step(self) -> None:
        action = self.chance.random()
        if action < 0.5 and len(self.held) < 20:
            self.place(self.chance.randrange(len(BODIES)))
        elif self.held:
            start, addresses, data = self.held.pop(self.chance.randrange(len(self.held)))
            assert self.is_at(start, data), f"overwritten, seed {self.seed}"
            if action < 0.97:
                self.arena.release(addresses)
            else:
                self.arena.abandon(addresses)
                self.gone.append((start, start + len(data)))

    def place(self, which: int) -> None:
        if (placed := self.arena.place(BODIES[which], self.chance.choice(self.clients))) is None:
            self.was_full = True
            return
        pairs, addresses, handles = placed
        for handle in handles:
            memory = mmap.mmap(handle, os.fstat(handle).st_size, prot=mmap.PROT_READ)
            self.views[addresses[0] >> 48] = memoryview(memory)
        start, data = Pairs(pairs).start, CONTENTS[which]
        assert not any(a < start + len(data) and start < b for a, b in self.gone), f"reused, seed {self.seed}"
        self.held.append((start, list(addresses), data))

    def is_at(self, start: int, data: bytes) -> bool:
        return bytes(self.read(start, len(data))) == data

    def mapped(self, start: int, size: int) -> memoryview:
        return self.views[start >> 48][start % (1 << 48) :][:size]

    def release_all(self) -> None:
        for _, addresses, _ in self.held:
            self.arena.release(addresses)


def test_d072_memory_stays_as_it_is_until_it_is_freed(arena):
    for seed in range(20):
        holder = Holder(arena, seed)
        for _ in range(120):
            holder.step()
            assert all(holder.is_at(start, data) for start, _, data in holder.held), f"overwritten, seed {seed}"
        holder.release_all()
        assert (state_of(arena).blocks, state_of(arena).used) == (0, 0)
        assert state_of(arena).size <= 64 * MIB


def test_d072_threads_that_place_and_free_at_once_never_see_the_bytes_of_others(arena):
    def work(seed: int) -> None:
        holder = Holder(arena, seed)
        for _ in range(150):
            holder.step()
        holder.release_all()

    in_threads(work, range(6))
    assert (state_of(arena).blocks, state_of(arena).used) == (0, 0)


# -- the arena as such ---------------------------------------------------------------------------------------


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
    assert state_of(arena).segments == 2
    assert all(address % (1 << 48) >= 64 and address % 64 == 0 for address, _ in seen)
    # Idle segments make room for one that does not fit beside them.
    _, addresses, _ = arena.place(message(rows=700_000), client)
    assert state_of(arena).segments == 1
    assert state_of(arena).size <= 13 * MIB
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
    assert arena.place(message(rows=2000), NoConnection()) is None
    assert arena.place(message(rows=2200), NoConnection()) is not None
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
