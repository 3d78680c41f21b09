"""kill -9 at any moment: what was there is there, or what was to come, complete; nothing whole is lost.

Writers are children of a process of their own, killed at moments such that a third comes to its end.
What a killed writer leaves beside the destination is recovered, too: exactly the batches that its bytes hold.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from helpers.arrays import batch_of
from helpers.processes import printed, rounds, run_function

import arrowipc as ipc

KILLS = rounds(24, 100)
ROWS, BATCHES = 4000, 3


def batch(number: int) -> ipc.RecordBatch:
    return batch_of(*[number] * ROWS)


SCHEMA = batch(0).schema
#: Where the first batch begins, and how many bytes each has.
FIRST, ONE = 8 + len(SCHEMA.serialize()), ipc.get_record_batch_size(batch(0))


def content(source: Path | bytearray) -> list[int]:
    """The number of each batch of a complete file."""
    with ipc.open_file(source, memory_map=False, validate="strict") as reader:
        numbers = [each["x"][0] for each in reader]
        assert all(each["x"][-1] == number for each, number in zip(reader, numbers, strict=True))
        return numbers


class Writing:
    """Writes a new file each time, which replaces what is there, now and then nothing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.arrow"

    def prepare(self, number: int) -> None:
        if number % 3 == 0:
            self.path.unlink(missing_ok=True)

    def work(self, number: int, **options: bool) -> None:
        with ipc.new_file(self.path, SCHEMA, durable=number % 4 == 0, **options) as writer:
            for _ in range(BATCHES):
                writer.write_batch(batch(number))

    def state(self) -> list[int] | None:
        """The batches that are there; None where nothing is."""
        return content(self.path) if self.path.exists() else None

    def expected(self, old: list[int] | None, number: int) -> list[int]:
        return [number] * BATCHES


class Appending(Writing):
    def prepare(self, number: int) -> None:
        if number % 20 == 0 or not self.path.exists():
            super().work(1)

    def work(self, number: int, **options: bool) -> None:
        super().work(number, append=True)

    def expected(self, old: list[int] | None, number: int) -> list[int]:
        return [*(old or ()), *[number] * BATCHES]


class Recovering(Writing):
    """Recovers a torn file into itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        super().work(7)
        self.torn = self.path.read_bytes()[: FIRST + 2 * ONE + 100]

    def prepare(self, number: int) -> None:
        self.path.write_bytes(self.torn)

    def work(self, number: int, **options: bool) -> None:
        ipc.recover(self.path, into=self.path, durable=number % 4 == 0)

    def state(self) -> list[int] | None:
        return [] if self.path.read_bytes() == self.torn else super().state()

    def expected(self, old: list[int] | None, number: int) -> list[int]:
        return [7] * 2


class Killer:
    """Kills children that write, at moments such that a third comes to its end."""

    def __init__(self, writing: Writing) -> None:
        self.writing, self.folder = writing, writing.path.parent
        self.dice = random.Random(1)
        #: The most seconds until a kill: first for writes that are durable, then for others.
        self.reach = [0.02, 0.005]
        self.seen = {"old": 0, "new": 0, "absent": 0, "left": 0, "recovered": 0}

    def is_partial(self) -> bool:
        return any(name.endswith(".tmp") for name in os.listdir(self.folder))

    def kill(self, number: int) -> None:
        ready, begun = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ready)
            try:
                os.close(begun)
                self.writing.work(number)
            finally:
                os._exit(0)
        os.close(begun)
        os.read(ready, 1)
        os.close(ready)
        aimed, speed = number % 5 == 4, number % 4 > 0
        if aimed:
            # A part is there for a short moment only, which no time hits for certain.
            while not self.is_partial() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                pass
        else:
            time.sleep(self.dice.random() * self.reach[speed])
        os.kill(child, signal.SIGKILL)
        ended = os.WIFEXITED(os.waitpid(child, 0)[1])
        if not aimed:  # how long a write takes depends on the machine: a third shall end
            self.reach[speed] *= 0.8 if ended else 1.1

    def sweep(self, most: int) -> None:
        """Recover what lies beside the path, and remove it."""
        for left in self.folder.iterdir():
            if left != self.writing.path:
                assert left.name.startswith(".x.arrow."), left
                assert left.suffix == ".tmp"
                self.recover(left, most)
                left.unlink()

    def recover(self, left: Path, most: int) -> None:
        """Of the bytes that are there, all batches that are whole: no more, no fewer."""
        size = left.stat().st_size
        whole = min(max(size - FIRST, 0) // ONE, most)
        for resync in (False, True):
            target = bytearray()
            try:
                report = ipc.recover(left, into=target, resync=resync)
            except ipc.FormatError:
                if size >= FIRST:
                    raise
                continue
            assert size >= FIRST, f"{size} bytes have no schema"
            assert report.num_batches == len(content(target)) == whole, (report, size)
        self.seen["left"] += 1
        self.seen["recovered"] += whole


def run(folder: str) -> None:
    for kind in (Writing, Appending, Recovering):
        place = Path(folder, kind.__name__)
        place.mkdir()
        writing = kind(place)
        killer = Killer(writing)
        for number in range(1, KILLS + 1):
            writing.prepare(number)
            old = writing.state()
            killer.kill(number)
            now, new = writing.state(), writing.expected(old, number)
            assert now in (old, new), (kind, old, now)
            killer.seen["absent" if now is None else "old" if now == old else "new"] += 1
            killer.sweep(len(new))
        seen = killer.seen
        print(f"{kind.__name__}: {KILLS} kills: {seen}")
        # The law is not empty: some were killed before the end, some behind it, and some left a part.
        # (Of a few kills all may fall on one side, whatever the machine does.)
        assert seen["old"] + seen["absent"] > KILLS // 20 or KILLS < 10, (kind, seen)
        assert seen["new"] > 0 or KILLS < 50, (kind, seen)
        assert seen["left"] > KILLS // 50, (kind, seen)


# AddressSanitizer makes forks and writes so slow that hardly any child would be killed in the middle.
@pytest.mark.nosanitize
@pytest.mark.campaign
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    print(printed(run_function(run, tmp_path, timeout=900)))
