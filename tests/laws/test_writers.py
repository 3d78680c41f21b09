"""Writers of one path: a row that was reported as written is in a file, or somebody got an error.

Two writers of all kinds do their steps in every order; a writer that replaces the file, as it was told to, ends the
rows of those that were closed before.
"""

import errno
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations_with_replacement, permutations, product
from pathlib import Path
from typing import Any

import pytest
from helpers.arrays import batch_of, column_of, ipc_bytes
from helpers.memory import descriptors
from helpers.processes import printed, rounds, run_function, start

import arrowipc as ipc
from arrowipc import existing
from arrowipc.encode import atomic_file
from arrowipc.encode.atomic_file import KnownPath
from arrowipc.sources import locks

#: How a writer begins; the command line gives a KnownPath to what it writes with.
WRITERS: dict[str, Callable[[Path], Any]] = {
    "new_stream": lambda path: ipc.new_stream(path, durable=False),
    "new_file": lambda path: ipc.new_file(path, durable=False),
    "append to a stream": lambda path: ipc.new_stream(path, append=True, durable=False),
    "append to a file": lambda path: ipc.new_file(path, append=True, durable=False),
    "the command line": lambda path: ipc.new_stream(KnownPath(path), durable=False),
}
#: What replaces or removes the file in one step.
OTHERS: dict[str, Callable[[Path], Any]] = {
    "recover": lambda path: ipc.recover(path, into=path, durable=False),
    "somebody's rename": lambda path: os.replace(_other(path), path),
    "unlink": os.unlink,
    "rotation": lambda path: path.rename(path.with_name("rotated")),
}
#: Writers and others that replace what is there without a look: nobody's rows are expected behind them. The command
#: line replaces what was there when it began.
REPLACING = {"new_stream", "new_file", "somebody's rename", "unlink"}
BEFORE = {"nothing": None, "a stream": ipc_bytes(batch_of(0), "stream"), "a file": ipc_bytes(batch_of(0), "file")}


def _other(path: Path) -> Path:
    path.with_name("other").write_bytes(ipc_bytes(batch_of(0), "stream"))
    return path.with_name("other")


class Actor:
    """Takes its steps until one is refused; says which rows it has reported."""

    def __init__(self, kind: str, path: Path, row: int) -> None:
        self.kind, self.path, self.row = kind, path, row
        self.writer: Any = None
        self.error: str | None = None
        self.is_told = True
        self.reported: set[int] = set()

    def steps(self) -> list[Callable[[], None]]:
        if self.kind in OTHERS:
            return [self.act]
        return [self.begin, self.write, self.close]

    def take(self, step: Callable[[], None]) -> bool:
        """Whether a step was taken; the error of one that was not is the last word of this actor."""
        if self.error is not None:
            return False
        try:
            step()
        except (OSError, ipc.FormatError) as error:
            self.error = repr(error)
            if self.writer is not None:
                self.writer.abandon("")
            told = isinstance(error, OSError) and error.errno in (errno.EBUSY, errno.ESTALE)
            self.is_told = str(self.path) in str(error) if told else type(error) in (ipc.FormatError, FileNotFoundError)
        return self.error is None

    def act(self) -> None:
        OTHERS[self.kind](self.path)

    def begin(self) -> None:
        self.writer = WRITERS[self.kind](self.path)

    def write(self) -> None:
        self.writer.write(batch_of(self.row))

    def close(self) -> None:
        self.writer.close()
        self.reported = {self.row}


def rows_in(folder: Path) -> set[int]:
    """All rows of all files, also of the hidden ones that are kept."""
    found: set[int] = set()
    for path in folder.iterdir():
        assert path.suffix != ".tmp"
        with ipc.open(path) as reader:
            found.update(reader.read_all().to_pydict().get("x", ()))
    return found


@pytest.fixture(autouse=True)
def no_look_is_long(monkeypatch):
    for module in (locks, existing, atomic_file):
        monkeypatch.setattr(module, "LONGEST_LOOK", 0)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(("first", "second"), [*combinations_with_replacement(WRITERS, 2), *product(WRITERS, OTHERS)])
def test_no_row_that_was_reported_is_lost_without_an_error(tmp_path, first, second, before):
    opened = descriptors()
    turns = [turn for turn, kind in enumerate((first, second)) for _ in Actor(kind, tmp_path, 0).steps()]
    for order in sorted({*permutations(turns)}):
        folder = tmp_path / "".join(map(str, order))
        folder.mkdir()
        path = folder / "x"
        if BEFORE[before] is not None:
            path.write_bytes(BEFORE[before])
        actors = Actor(first, path, 1), Actor(second, path, 2)
        steps = [iter(actor.steps()) for actor in actors]
        expected, known, told = set(), set(), []
        for turn in order:
            actor, step = actors[turn], next(steps[turn])
            told.append((actor.kind, step.__name__))
            if step.__name__ == "begin" and actor.kind == "the command line":
                known = set(expected)
            taken = actor.take(step)
            if taken and step.__name__ in ("close", "act"):
                expected -= (
                    expected if actor.kind in REPLACING else known if actor.kind == "the command line" else set()
                )
                expected |= actor.reported
        errors = [actor.error for actor in actors]
        assert all(actor.is_told for actor in actors), errors
        assert expected <= rows_in(folder), (told, errors)
        assert descriptors() <= opened


@pytest.mark.parametrize("name", ["new_stream", "new_file", "the command line", "recover"])
def test_a_stream_that_somebody_appends_to_is_not_replaced(tmp_path, name):
    """Neither where a writer begins meanwhile, nor where it has begun before: what it has made is kept then."""
    path = tmp_path / "x"
    begun = WRITERS[name](path) if name in WRITERS else None
    with WRITERS["append to a stream"](path) as writer:
        writer.write(batch_of(1))
        with pytest.raises(OSError, match="in use by another writer") as error:
            (WRITERS | OTHERS)[name](path)
        assert (error.value.errno, error.value.filename) == (errno.EBUSY, str(path))
        if begun is not None:
            begun.write(batch_of(2))
            with pytest.raises(OSError, match="the complete new file is kept as"):
                begun.close()
        writer.write(batch_of(3))
    assert column_of(path) == [1, 3]
    assert [column_of(each) for each in tmp_path.iterdir() if each != path] == [[2]] * (begun is not None)


def work_on(path: str, work: str, count: str) -> None:
    sys.stdin.readline()
    done = 0
    while done < int(count):
        try:
            if work == "recover":
                ipc.recover(path, into=path, durable=False)
            else:
                with ipc.new_stream(path, append=True, durable=False) as writer:
                    writer.write({"x": [int(work) + done]})
            done += 1
        except OSError as error:  # another one is at work
            if error.errno not in (errno.EBUSY, *[errno.ESTALE] * (work == "recover")):
                raise
            time.sleep(random.random() / 1000)


@pytest.mark.campaign
def test_processes_that_append_to_a_stream_and_replace_it_lose_no_row(tmp_path):
    path, count = tmp_path / "x.arrows", rounds(20, 1000)
    path.write_bytes(ipc_bytes(batch_of(-1), "stream"))
    works = [0, count, 2 * count, "recover"]
    children = [start(work_on, path, work, count) for work in works]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60 + count)
        assert child.returncode == 0
    assert sorted(column_of(path)) == list(range(-1, 3 * count))
    assert not list(tmp_path.glob(".*.tmp"))


def fork_writers(folder: str) -> None:
    for way in ("stays", "ends", "abandons"):
        fork_a_writer(f"{folder}/{way}", way)


def fork_a_writer(path: str, way: str) -> None:
    append = WRITERS["append to a stream"]
    writer = append(path)
    writer.write(batch_of(1))
    child = os.fork()
    if child == 0:
        if way == "stays":
            time.sleep(60)
        try:  # what a child does with the writer takes no lock away, and ends no stream
            if way == "abandons":
                with suppress(ipc.UsageError):
                    writer.close()
                writer.abandon("")
            sys.exit()
        finally:
            os._exit(0)
    try:
        if way != "stays":
            os.waitpid(child, 0)
            with pytest.raises(OSError, match="in use by another writer"):
                append(path)
        writer.write(batch_of(2))
        writer.close()
        with append(path) as writer:
            writer.write(batch_of(3))
        ipc.recover(path, into=path, durable=False)
        append(path).abandon("")
        with append(path) as writer:
            writer.write(batch_of(4))
    finally:
        if way == "stays":
            os.kill(child, signal.SIGKILL)


def test_a_lock_ends_with_its_writer_whatever_children_were_forked(tmp_path):
    printed(run_function(fork_writers, tmp_path))
    assert [column_of(path) for path in tmp_path.iterdir()] == [[1, 2, 3, 4]] * 3


def fork_in_the_block(path: str, kind: str) -> None:
    with WRITERS[kind](Path(path)) as writer:
        writer.write(batch_of(1))
        child = os.fork()
        if child == 0:
            with pytest.raises(ipc.UsageError, match="the process that this one was forked from writes there"):
                writer.write(batch_of(2))
        else:
            assert os.waitpid(child, 0)[1] == 0
            writer.write(batch_of(3))


@pytest.mark.nosanitize  # whose runtime does not get along with forked children
@pytest.mark.parametrize("kind", WRITERS)
def test_a_forked_child_that_leaves_the_block_leaves_the_file_to_its_parent(tmp_path, kind):
    printed(run_function(fork_in_the_block, tmp_path / "x", kind))
    assert column_of(tmp_path / "x") == [1, 3]
    assert os.listdir(tmp_path) == ["x"]
