"""Streams that grow: a writer that dies at any moment loses at most its last batch, and no follower sees another one.

Writers are children that are killed, or their work is done between any two looks of a follower at the file.
"""

import itertools
import os
import random
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import forge
from helpers.arrays import batch_of
from helpers.processes import printed, rounds, run_function

import arrowipc as ipc
from arrowipc.sources import followed

#: Each writer of a stream reads what those before it wrote: ten streams take a tenth of the time of a long one.
STREAMS, KILLS = rounds(1, 10), rounds(8, 40)

GROWING = ipc.schema({"x": "int64", "w": ipc.types.dictionary(ipc.types.int32(), ipc.types.utf8())})


def growing(number: int) -> ipc.RecordBatch:
    """A batch of a size of its own; every third one brings a new word, and now and then the words begin again."""
    rows = 1 + number * 7919 % 50 * (3000 if number % 4 == 0 else 1)
    words = [f"word {i}" for i in range(number - number % 20, number + 1, 3)] or ["none"]
    return ipc.RecordBatch.from_pydict({"x": [number] * rows, "w": (words * rows)[:rows]}, GROWING)


def count_up(reader: Any, first: int = 0) -> int:
    """The number behind the next batches, each of which has to be the one that was written."""
    with suppress(ipc.TruncatedError):
        for each in reader:
            assert each == growing(first), (first, each)
            first += 1
    return first


def write_on(path: str, told: int) -> None:
    """Append to a stream, and tell the number of each batch, until somebody kills us, or our parent."""
    parent = os.getppid()
    with ipc.new_stream(path, GROWING, append=True, dictionary_deltas=True, durable=False) as writer:
        number = 0
        if os.path.getsize(path):
            with suppress(ipc.TruncatedError):  # no schema yet
                number = count_up(ipc.open_stream(path, follow=True, timeout=0))
        while os.getppid() == parent:
            writer.write(growing(number))
            os.write(told, struct.pack("<q", number))
            number += 1


def follow(path: str) -> None:
    with ipc.open_stream(path, follow=True, timeout=60) as reader:
        count = count_up(reader)
        assert reader.decoder.at_end
    assert count == count_up(ipc.open_stream(path)), count


def forked(work: Callable[..., None], *arguments: Any) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    return child


def kill_writers(path: str, kills: str, seed: str) -> None:
    dice = random.Random(int(seed))
    followers = [forked(follow, path) for _ in range(2)]
    reader, count, last, torn = None, 0, -1, 0
    for _ in range(int(kills)):
        told, telling = os.pipe()
        child = forked(write_on, path, telling)
        os.close(telling)
        if dice.random() < 0.8:  # else it may be killed while it opens the stream
            (last,) = struct.unpack("<q", os.read(told, 8))
        time.sleep(dice.random() * 0.05)
        if dice.random() < 0.7:  # in the middle of a batch
            size, end = os.stat(path).st_size if last >= 0 else 0, time.monotonic() + 1
            while last >= 0 and os.stat(path).st_size == size and time.monotonic() < end:
                pass
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        while data := os.read(told, 8):
            (last,) = struct.unpack("<q", data)
        os.close(told)
        if last >= 0:
            known = max(count, last + 1)  # a child that told nothing adds to what those before it wrote
            reader = reader or ipc.open_stream(path, follow=True, timeout=0)
            count = count_up(reader, count)
            torn += reader.following.rest() > 0
            assert count in (known, known + 1), (count, known, last)
    ipc.new_stream(path, GROWING, append=True).close()
    assert count_up(ipc.open_stream(path)) == count
    for child in followers:
        assert os.waitpid(child, 0)[1] == 0
    print(f"{kills} kills, {torn} torn, {count} batches")


@pytest.mark.nosanitize
@pytest.mark.campaign
def test_a_killed_writer_loses_at_most_the_batch_that_it_was_writing(tmp_path: Path):
    for seed in range(7, 7 + STREAMS):
        print(printed(run_function(kill_writers, tmp_path / f"{seed}.arrows", KILLS, seed, timeout=60 + 5 * KILLS)))


def stream_of(path: Path, *values: int) -> bytes:
    with ipc.new_stream(path, append=True, durable=False) as writer:
        for value in values:
            writer.write(batch_of(value, value))
    return path.read_bytes()


def numbers(reader: ipc.RecordBatchStreamReader) -> list[int]:
    """One number per batch; the reader is closed at the end marker."""
    found = []
    with suppress(ipc.TruncatedError):
        for batch in reader if not reader.decoder.at_end else ():
            assert len(set(batch.column("x").to_pylist())) == 1
            found.append(batch["x"][0])
    if reader.decoder.at_end:
        reader.close()
    return found


@pytest.fixture(autouse=True)
def without_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in this process, and Linux takes 10 ms to close inotify."""
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())


def test_streams_that_were_cut_anywhere_go_on_and_followers_with_them(tmp_path: Path):
    """The message that was cut and the one that takes its place have equal heads, and their bodies do not."""
    path = tmp_path / "x.arrows"
    whole = stream_of(path, 1, 2)
    ends = list(itertools.accumulate(map(len, forge.split(whole))))
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        reader = ipc.open_stream(path, follow=True, timeout=0) if size >= ends[0] else None
        before = [] if reader is None else numbers(reader)
        assert before == [1, 2][: sum(size >= end for end in ends[1:])]
        stream_of(path, 3)
        if reader is None:
            reader = ipc.open_stream(path, follow=True, timeout=0)
        assert before + numbers(reader) == [*before, 3] == numbers(ipc.open_stream(path))
        assert reader.decoder.at_end


class Between:
    """`os`, which does something else before one of its calls."""

    def __init__(self, call: int, work) -> None:
        self.calls, self.call, self.work = 0, call, work

    def __getattr__(self, name: str) -> object:
        found = getattr(os, name)
        if name in ("pread", "fstat", "stat"):
            if self.calls == self.call:
                self.work()
            self.calls += 1
        return found


def found_around(reader: ipc.RecordBatchStreamReader, call: int, work: Callable[[], Any]) -> tuple[list[int], bool]:
    """What a follower finds if `work` is done before that one of its looks, or behind the last; whether it is that."""
    between = Between(call, work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed, "os", between)
        found = numbers(reader)
    is_last = between.calls <= call
    if is_last:
        work()
    return found + numbers(reader), is_last


@pytest.mark.parametrize("missing", [1, 8, 100])
def test_a_writer_may_repair_a_stream_between_any_two_looks_of_a_follower(tmp_path, missing):
    path = tmp_path / "x.arrows"
    torn = stream_of(path, 1, 2)[: -8 - missing]
    call, is_last = 0, False
    while not is_last:
        path.write_bytes(torn)
        reader = ipc.open_stream(path, follow=True, timeout=0)
        assert numbers(reader) == [1]
        found, is_last = found_around(reader, call, lambda: stream_of(path, 3, 4))
        assert found == [3, 4], call
        call += 1
    assert call > 5


@pytest.mark.parametrize("more", [[2], []])
def test_a_stream_may_be_rotated_between_any_two_looks_of_a_follower(tmp_path, more):
    path = tmp_path / "x.arrows"

    def rotated(call: int) -> bool:
        """Whether a follower does not look that often."""
        path.unlink(missing_ok=True)
        writers = [ipc.new_stream(path, append=True)]
        writers[0].write(batch_of(1))
        reader = ipc.open_stream(path, follow=True, timeout=0)

        def rotate() -> None:
            path.rename(tmp_path / "old")
            writers.append(ipc.new_stream(path, append=True))
            writers[1].write(batch_of(3))
            for value in more:
                writers[0].write(batch_of(value))
            writers[0].close()

        found, is_last = found_around(reader, call, rotate)
        writers[1].close()
        assert found + numbers(reader) == [1, *more, 3], call
        assert reader.decoder.at_end
        return is_last

    assert next(filter(rotated, itertools.count())) > 5
