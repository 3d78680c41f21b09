"""Commits are all or nothing for readers of ours: whatever is killed when, and whoever else commits meanwhile."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from helpers.arrow_columns import file
from pyspark.sql import types as st

import arrowipc
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.read.files import FoundFile, find_files
from arrowipc.read.ledger import ENDED, LEDGER, Ledger, entry_name, local_ledger, settled
from arrowipc.spark import vacuum
from arrowipc.spark.write.commit import ArrowIpcWriter
from arrowipc.spark.write.job import KEPT, change, without
from arrowipc.spark.write.storage import open_storage
from arrowipc.spark.write.task import Written

pytestmark = pytest.mark.spark

IDS = st.StructType([st.StructField("id", st.LongType())])
#: What changes a directory, or tells what is in it.
OPERATIONS = (
    "create",
    "ledger",
    "make_directory",
    "remove",
    "remove_if_empty",
    "remove_tree",
    "rename",
    "replaceable",
    "sync",
)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


class Write:
    """A job of which only the commit is to be made, and the rows that it writes."""

    def __init__(self, path: Path | str, *rows: int, overwrite: bool = False) -> None:
        self.rows, self.overwrite = rows, overwrite
        self.writer = ArrowIpcWriter(IDS, {"path": str(path)}, overwrite)
        self.storage = self.writer._storage
        self.job = self.writer._job
        self.messages: list[Any] = [
            Written(tuple(self.writer._parts.write([numbers(row)], self.writer._directory, self.job.id, task)))
            for task, row in enumerate(rows)
        ]

    def commit(self) -> None:
        self.writer.commit(self.messages)

    def abort(self) -> None:
        self.writer.abort(self.messages)

    def around(self, each: Callable[[int], None]) -> None:
        """Let something happen before each operation of this job."""
        count = itertools.count(1)

        def wrap(operation: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*arguments: Any) -> Any:
                each(next(count))
                return operation(*arguments)

            return wrapped

        for name in OPERATIONS:
            setattr(self.storage, name, wrap(getattr(self.storage, name)))


def ids(*paths: Path | str) -> list[int]:
    """The rows that a reader of ours finds; two of them agree."""
    rows = quick(*paths)
    assert rows == sorted(arrowipc.open_dataset([str(path) for path in paths]).read_all().to_pydict()["id"])
    return rows


def quick(*paths: Path | str) -> list[int]:
    """The same, from one reader."""
    return sorted(row for each in find_files([str(path) for path in paths]) for row in _rows(each.path, each.modified))


@functools.cache
def _rows(path: str, modified: int) -> list[int]:
    with arrowipc.open(path) as reader:
        found: list[int] = reader.read_all().to_pydict()["id"]
    return found


def others(path: Path) -> list[int]:
    """The rows that others find: all files are complete."""
    return sorted(pads.dataset(path, format="ipc").to_table()["id"].to_pylist())


def tree(path: Path) -> list[str]:
    """All that is under a directory, but the ledger."""
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if LEDGER not in str(found))


def state(path: Path) -> Ledger:
    found = local_ledger(str(path))
    assert found is not None
    return found


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory with files of a job, of somebody else, and of a key."""
    path = tmp_path / "out"
    Write(path, 1, 2).commit()
    (path / "k=1").mkdir()
    (path / "k=1" / "by-hand.arrow").write_bytes(file(numbers(3)))
    return path


OLD = [1, 2, 3]


def dying_at(step: int) -> Callable[[int], None]:
    """Kill this process, unless it is the one of the tests."""
    parent = os.getpid()

    def each(now: int) -> None:
        if now == step and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return each


def killed(work: Callable[[], None]) -> bool:
    """Run something in a process that may kill itself; whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Whatever is killed when.


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_driver_that_is_killed_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, overwrite: bool) -> None:
    new = [7, 8, 9] if overwrite else [1, 2, 3, 7, 8, 9]
    seen = []
    for step in itertools.count(1):
        path = tmp_path / str(step)
        Write(path, 1, 2, 3).commit()
        write = Write(path, 7, 8, 9, overwrite=overwrite)
        write.around(dying_at(step))
        ended = killed(write.commit)
        found = ids(path)
        assert found in ([1, 2, 3], new)
        assert quick(f"{path}/*.arrow") == quick(f"{path}/**") == found
        assert set(others(path)) >= set(found)
        seen.append(found)
        if step % 3 == 0:  # whoever comes next sees the same, and both come through
            Write(path, 10).commit()
            assert ids(path) == [*found, 10]
            Write(path, 11, overwrite=True).commit()
            assert ids(path) == [11]
        elif step % 3 == 1:
            vacuum(str(path), 0)
            assert ids(path) == others(path) == found
            assert [name for name in tree(path) if not name.startswith("part-")] in ([], ["_SUCCESS"])
        if ended:
            break
    # Old until one step, and new from it on.
    assert seen == sorted(seen, key=lambda rows: rows == new)
    assert seen[0] == [1, 2, 3]
    assert seen[-1] == new
    assert step > 15


def test_what_spark_takes_back_after_its_driver_process_died(tmp_path: Path) -> None:
    for step in itertools.count(1):
        path = tmp_path / str(step)
        Write(path, 1).commit()
        before = tree(path)
        write = Write(path, 7, 8)
        write.around(dying_at(step))
        ended = killed(write.commit)
        found = ids(path)
        write.abort()
        assert ids(path) == found
        if found == [1]:
            assert tree(path) == before
            assert state(path).started == {}
        if ended:
            break


class Died(BaseException):
    """The process that did it is gone."""


def dying() -> None:
    raise Died


@pytest.fixture
def memory() -> Iterator[Any]:
    import fsspec

    system = fsspec.filesystem("memory")
    yield system
    for name in system.ls("/", detail=False):
        system.rm(name, recursive=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_store_without_renames(memory: Any, overwrite: bool) -> None:
    """A file that appears is the commit: more a store need not be able to do."""
    new = [7, 8, 9] if overwrite else [1, 2, 7, 8, 9]
    seen = []
    for step in itertools.count(1):
        url = f"memory://bucket/{step}"
        Write(url, 1, 2).commit()
        write = Write(url, 7, 8, 9, overwrite=overwrite)

        def die(now: int, step: int = step) -> None:
            if now >= step:
                raise Died

        write.around(die)
        try:
            write.commit()
        except Died:
            pass
        else:
            break
        found = [path.path for path in find_files([url])]
        rows = sorted(row for path in found for row in pa.ipc.open_file(memory.cat(path)).read_all()["id"].to_pylist())
        assert rows in ([1, 2], new)
        assert found == [path.path for path in find_files([f"{url}/*.arrow"])]
        seen.append(rows)
        if step % 4 == 0:
            vacuum(url, 0)
            assert found == [path.path for path in find_files([url])]
            left = memory.find(f"/bucket/{step}")
            assert len([name for name in left if name.endswith(".arrow")]) == len(found)
    assert seen == sorted(seen, key=lambda rows: rows == new)
    assert {len(rows) for rows in seen} == {2, len(new)}


def test_a_number_is_taken_once(tmp_path: Path, memory: Any) -> None:
    for where in (str(tmp_path), "memory://bucket"):
        storage = open_storage(where, {})
        storage.make_directory(LEDGER)
        assert storage.create(f"{LEDGER}/1", b"a")
        assert not storage.create(f"{LEDGER}/1", b"b")
    assert (tmp_path / LEDGER / "1").read_bytes() == memory.cat(f"/bucket/{LEDGER}/1") == b"a"
    assert os.listdir(tmp_path / LEDGER) == ["1"]


# Whoever else commits.


def commit(write: Write, failed: list[Write]) -> None:
    try:
        write.commit()
    except UsageError as error:
        failed.append(write)
        assert "was not committed, and left nothing" in str(error)  # noqa: PT017
        write.abort()


def one_inside_another(path: Path, first: bool, second: bool, early: bool, step: int) -> list[Write] | None:
    """Make a whole commit at a step of another, with a reader at every step; who failed, None behind the last step."""
    Write(path, 1, 2).commit()
    outer = Write(path, 3, 4, overwrite=first)
    inner = Write(path, 5, 6, overwrite=second) if early else None
    failed: list[Write] = []
    expected, done = [1, 2], False

    def between(now: int) -> None:
        nonlocal done, inner, expected
        rows = quick(path)
        if rows != expected:  # the commit of the outer one
            assert rows == ([3, 4] if first else sorted([*expected, 3, 4]))
            expected = rows
        if now == step:
            done = True
            inner = inner or Write(path, 5, 6, overwrite=second)
            commit(inner, failed)
            if inner not in failed:
                expected = [5, 6] if second else sorted([*expected, 5, 6])
            assert quick(path) == expected

    outer.around(between)
    commit(outer, failed)
    if not done or inner is None:
        return None
    wanted = [1, 2]
    for write in sorted({outer, inner}.difference(failed), key=lambda each: _number(path, each)):
        wanted = [*write.rows] if write.overwrite else sorted([*wanted, *write.rows])
    assert ids(path) == others(path) == wanted
    assert state(path).started == state(path).replaced == {}
    return failed


@pytest.mark.parametrize("first", [False, True], ids=["append", "overwrite"])
@pytest.mark.parametrize("second", [False, True], ids=["append", "overwrite"])
@pytest.mark.parametrize("early", [False, True], ids=["begun-meanwhile", "begun-before"])
def test_a_job_inside_another_one(tmp_path: Path, first: bool, second: bool, early: bool) -> None:
    """What was committed is there, all of it, and whoever failed says why."""
    for step in itertools.count(1):
        failed = one_inside_another(tmp_path / str(step), first, second, early, step)
        if failed is None:
            break
        if not first and not second:
            assert failed == []
        else:
            # One that begins when the other is committed does not overlap.
            assert len(failed) == 1 or (not early and not failed)
    assert step > 10


def _number(path: Path, write: Write) -> int:
    return next(number for number, job in state(path).ended if job == write.job.id)


@pytest.mark.parametrize("overwrites", [(False, True), (True, False), (True, True)])
def test_who_commits_second_is_refused(out: Path, overwrites: tuple[bool, bool]) -> None:
    writes = [Write(out, 10 + n, overwrite=overwrite) for n, overwrite in enumerate(overwrites)]
    writes[0].commit()
    before = tree(out)
    kind, why = ("overwrite", "an append was") if overwrites == (False, True) else ("", "an overwrite was")
    with pytest.raises(UsageError, match=rf"{out}: this {kind}.* was not committed.*{why} committed.*run it again"):
        writes[1].commit()
    writes[1].abort()
    assert ids(out) == ([10] if overwrites[0] else [*OLD, 10])
    assert tree(out) == [name for name in before if writes[1].job.id not in name and name != "_temporary"]
    again = Write(out, 20, overwrite=overwrites[1])
    again.commit()
    assert 20 in ids(out)


def test_an_overwrite_drops_an_append_that_is_under_way(out: Path) -> None:
    append = Write(out, 10, 11)
    append.job.start()
    append.job.move(append.messages[0].parts)
    assert ids(out) == OLD
    Write(out, 20, overwrite=True).commit()
    assert ids(out) == [20]
    append.job.move(append.messages[1].parts)
    assert ids(out) == [20]
    with pytest.raises(UsageError, match="an overwrite"):
        append.job.finish()
    append.abort()
    assert ids(out) == others(out) == [20]
    assert state(out).dropped == ()


def test_who_is_late_finds_that_a_number_was_taken_and_removed(out: Path) -> None:
    """An entry based on what is long over does not count, though its number is free again."""
    late, done = Write(out, 10), False

    def between(now: int) -> None:
        nonlocal done
        if not done and now == 3:  # it has read the ledger, and makes its entry next
            done = True
            for row in range(20, 20 + KEPT):
                Write(out, row).commit()

    steps: list[str] = []
    late.around(between)
    for name in OPERATIONS:
        operation = getattr(late.storage, name)
        setattr(late.storage, name, lambda *a, name=name, operation=operation: (steps.append(name), operation(*a))[1])
    late.commit()
    # What it made did not count, and it tries again.
    assert [step for step in steps if step != "sync"][:6] == ["ledger", "make_directory", "create"] * 2
    assert ids(out) == [*OLD, 10, *range(20, 20 + KEPT)]


def test_entries_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(ENDED):  # by hand, which is quicker
        write = Write(tmp_path, number)
        write.job.start()
        write.job.move(write.messages[0].parts)
        write.job.finish()
    entries = sorted((tmp_path / LEDGER).iterdir())
    assert len(entries) == KEPT
    assert entries[-1].stat().st_size < 8192
    assert ids(tmp_path) == list(range(ENDED))
    # A reader that lists while more come than are kept lists again.
    old = state(tmp_path)
    for number in range(ENDED):
        assert state(tmp_path).follows(old)
        change(open_storage(str(tmp_path), {}), lambda now, job=str(number): without(now, job))
    assert not state(tmp_path).follows(old)


# Readers in the middle of a listing.


def during(path: Path, work: Callable[[], None], halves: tuple[str, str] = ("part-", "")) -> list[int]:
    """List a directory in two halves, and let something happen between them, once."""
    runs = 0

    def listing() -> Iterator[FoundFile]:
        nonlocal runs
        runs += 1
        found = [each for each in path.rglob("*.arrow") if "_temporary" not in str(each)]
        half = [each for each in found if int(arrowipc.open(each).read_all().to_pydict()["id"][0]) % 2]
        yield from [FoundFile(str(each), 0, modified=each.stat().st_mtime_ns // 1000) for each in half]
        if runs == 1:
            work()
        found = [each for each in path.rglob("*.arrow") if "_temporary" not in str(each) and each not in half]
        yield from [FoundFile(str(each), 0, modified=each.stat().st_mtime_ns // 1000) for each in found]

    files = settled(listing, local_ledger, str(path))
    return sorted(row for each in files for row in arrowipc.open(each.path).read_all().to_pydict()["id"])


def test_a_listing_is_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "t"
    Write(path, 1, 2).commit()
    assert during(path, Write(path, 3, 4).commit) == [1, 2]
    assert during(path, Write(path, 5, 6).commit) == [1, 2, 3, 4]
    # An append whose first files are listed, that ends before the others are.
    append = Write(path, 7, 8)
    append.job.start()
    append.job.move(append.messages[0].parts)
    assert during(path, lambda: [append.job.move(append.messages[1].parts), append.job.finish()]) == [1, 2, 3, 4, 5, 6]  # type: ignore[arg-type,func-returns-value]
    # Several, with one that is given up.
    lost = Write(path, 9, 10)

    def many() -> None:
        Write(path, 11, 12).commit()
        lost.job.start()
        lost.job.move([lost.messages[1].parts[0]])

    assert during(path, many) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert during(path, lambda: lost.abort()) == [1, 2, 3, 4, 5, 6, 7, 8, 11, 12]
    # The old files go while they are listed: again.
    assert during(path, Write(path, 21, 22, overwrite=True).commit) == [21, 22]


def test_the_first_commit_of_all(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(file(numbers(1)))
    (tmp_path / "b.arrow").write_bytes(file(numbers(2)))
    assert during(tmp_path, Write(tmp_path, 3, 4).commit) == [1, 2, 3, 4]
    assert not (tmp_path / "_temporary").exists()


def test_a_folder_that_is_overwritten_all_the_time_is_an_error(tmp_path: Path) -> None:
    Write(tmp_path, 1).commit()
    numbers_ = itertools.count(2)

    def listing() -> list[FoundFile]:
        Write(tmp_path, next(numbers_), overwrite=True).commit()
        return []

    with pytest.raises(OSError, match="overwritten faster"):
        settled(listing, local_ledger, str(tmp_path))


# What is read.


def test_folders_without_a_ledger_are_what_they_were(tmp_path: Path) -> None:
    for name in ("a.arrow", "batch-00000000-q/part-00000-q-00000000.arrow", "k=1/b.arrow"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(file(numbers(len(name))))
    (tmp_path / "_commits" / "q").mkdir(parents=True)
    (tmp_path / "_commits" / "q" / "00000000").touch()
    before = tree(tmp_path)
    assert ids(tmp_path) == sorted(map(len, ("a.arrow", "batch-00000000-q/part-00000-q-00000000.arrow", "k=1/b.arrow")))
    assert tree(tmp_path) == before
    Write(tmp_path, 1).commit()
    assert len(ids(tmp_path)) == 4


def test_files_of_others_count_beside_those_of_jobs(out: Path) -> None:
    (out / "more.arrow").write_bytes(file(numbers(4)))
    assert ids(out) == [*OLD, 4]


def hidden(out: Path) -> None:
    """Let an append and an overwrite die, so that files of both are left that do not count."""
    append = Write(out, 10, 11)
    append.job.start()
    append.job.move(append.messages[0].parts)
    write = Write(out, 20, overwrite=True)
    remove = write.storage.remove

    write.storage.remove = lambda name: dying() if "arrow" in name else remove(name)  # type: ignore[method-assign]
    with pytest.raises(Died):
        write.commit()


def test_what_does_not_count_does_not_count_however_it_is_found(out: Path) -> None:
    hidden(out)
    assert others(out) == [1, 2, 3, 10, 20]
    for path in (out, f"{out}/*.arrow", f"{out}/**", f"{out}/part-*", out.parent, f"{out.parent}/*", f"file://{out}"):
        assert ids(path) == [20], path
    with pytest.raises(UsageError, match="no such file"):
        ids(out / "k=1")
    assert ids(out / "k=1" / "by-hand.arrow") == [3]  # who names a file means it
    assert [entry.size > 0 for entry in open_storage(str(out), {}).files()] == [True]


def test_another_file_under_the_name_of_a_replaced_one_counts(out: Path) -> None:
    hidden(out)
    (out / "k=1" / "by-hand.arrow").write_bytes(file(numbers(4)))
    assert ids(out) == [4, 20]
    vacuum(str(out), 0)
    assert ids(out) == others(out) == [4, 20]


def test_replaced_links(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "a.arrow").write_bytes(file(numbers(5)))
    out = tmp_path / "out"
    Write(out, 1).commit()
    (out / "link").symlink_to(tmp_path / "away")
    assert ids(out) == [1, 5]
    write = Write(out, 2, overwrite=True)
    remove = write.storage.remove
    write.storage.remove = lambda name: dying() if name == "link" else remove(name)  # type: ignore[method-assign]
    with pytest.raises(Died):
        write.commit()
    assert state(out).replaced["link/"] == 0
    assert ids(out) == [2]
    vacuum(str(out), 0)
    assert ids(out) == [2]
    assert not (out / "link").exists()
    assert (tmp_path / "away" / "a.arrow").exists()


# Vacuum.


def test_vacuum_removes_what_is_dead_and_nothing_else(out: Path) -> None:
    hidden(out)
    young = tree(out)
    # By themselves: the old files. What may be alive stays for a day.
    replaced = [str(out / name) for name in young if name.startswith(("part-", "k=1/")) and name.endswith(".arrow")]
    replaced = [name for name in replaced if Path(name).stat().st_mtime_ns // 1000 in state(out).replaced.values()]
    assert sorted(vacuum(str(out), dry_run=True)) == sorted(replaced)
    assert tree(out) == young
    vacuum(str(out))
    assert ids(out) == [20]
    running = Write(out, 30)
    assert running.job.id in str(vacuum(str(out), 0, dry_run=True))
    assert vacuum(str(out), 1) == []
    running.commit()
    assert ids(out) == others(out) == [20, 30]
    vacuum(str(out), 0)
    assert state(out).started == state(out).replaced == {}
    assert ids(out) == others(out) == [20, 30]
    assert not (out / "_temporary").exists()
    assert vacuum(str(out), 0) == []


def test_a_job_that_vacuum_took_for_dead_says_so(out: Path) -> None:
    for started in (False, True):
        slow = Write(out, 10, 11)
        if started:
            slow.job.start()
            slow.job.move(slow.messages[0].parts)
        vacuum(str(out), 0)
        with pytest.raises((FileNotFoundError, UsageError)):
            slow.job.move(slow.messages[1].parts) if started else slow.commit()
        slow.abort()
        assert ids(out) == others(out) == OLD


# Micro-batches.


class Batch(Write):
    """The same for a micro-batch."""

    def __init__(self, path: Path | str, *rows: int, number: int = 0, overwrite: bool = False) -> None:
        self.rows, self.number, self.overwrite = rows, number, overwrite
        sink = pytest.importorskip("arrowipc.spark.streaming.sink", exc_type=ImportError)
        options = {"path": str(path), "checkpointlocation": "c"}
        self.writer: Any = sink.ArrowIpcStreamWriter(IDS, options, overwrite)
        directory = self.writer._attempts("q", number)
        self.writer._storage.make_directory(directory)
        job = "0123456789abcdef" + self.writer._random
        parts = [self.writer._parts.write([numbers(row)], directory, job, task) for task, row in enumerate(rows)]
        self.messages = [Written(tuple(each), "q", job, self.writer._began) for each in parts]
        # Another object commits.
        self.writer = sink.ArrowIpcStreamWriter(IDS, options, overwrite)
        self.storage = self.writer._storage

    def commit(self) -> None:
        self.writer.commit(self.messages, self.number)

    def abort(self) -> None:
        self.writer.abort(self.messages, self.number)


@pytest.mark.parametrize("complete", [False, True])
def test_a_micro_batch_that_is_killed_at_any_step_is_there_once_when_it_ran_again(
    tmp_path: Path, complete: bool
) -> None:
    old, new = [1, 2, 3], [7, 8, 9] if complete else [1, 2, 3, 7, 8, 9]
    for step in itertools.count(1):
        path = tmp_path / str(step)
        Batch(path, 1, 2, 3).commit()
        batch = Batch(path, 7, 8, 9, number=1, overwrite=complete)
        batch.around(dying_at(step))
        ended = killed(batch.commit)
        assert ids(path) in (old, new)
        again = Batch(path, 7, 8, 9, number=1, overwrite=complete)
        again.commit()
        assert ids(path) == new
        if not complete:
            assert others(path) == new  # what the dead attempt left is swept
        vacuum(str(path), 0)
        assert ids(path) == others(path) == new
        assert not (path / "_temporary").exists()
        if ended:
            break
    assert step > 10


def test_an_attempt_that_is_not_dead_does_not_come_twice(tmp_path: Path) -> None:
    """The driver was taken for dead, and another one runs the batch again, in other files."""
    slow = Batch(tmp_path, 1, 2, 3)
    [message, *_] = slow.messages
    job = slow.writer.__class__.commit.__globals__["Job"](slow.storage, False, message.job, message.began)
    job.start()
    job.move(message.parts)
    fast = Batch(tmp_path, 1, 2)
    fast.commit()
    assert ids(tmp_path) == others(tmp_path) == [1, 2]
    with pytest.raises(UsageError, match="another run of the query"):
        job.finish("q", 0)
    job.take_back()
    assert ids(tmp_path) == others(tmp_path) == [1, 2]


def test_streams_beside_jobs(tmp_path: Path) -> None:
    batch, append = Batch(tmp_path, 1, 2), Write(tmp_path, 3)
    append.commit()
    batch.commit()
    assert ids(tmp_path) == [1, 2, 3]
    batch, overwrite = Batch(tmp_path, 4, number=1), Write(tmp_path, 5, overwrite=True)
    overwrite.commit()
    with pytest.raises(UsageError, match="this append was not committed"):
        batch.commit()
    Batch(tmp_path, 4, number=1).commit()  # Spark runs it again
    assert ids(tmp_path) == [4, 5]
    complete, append = Batch(tmp_path, 6, number=2, overwrite=True), Write(tmp_path, 7)
    append.commit()
    with pytest.raises(UsageError, match="this overwrite was not committed"):
        complete.commit()
    assert ids(tmp_path) == [4, 5, 7]


# Entries from anywhere.


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b"1" * 5000,
        b'{"version": true}',
        json.dumps({**json.loads(Ledger().to_bytes()), "more": 1}).encode(),
        *[
            json.dumps({**json.loads(Ledger().to_bytes()), key: value}).encode()
            for key, value in {
                "started": {"a": "b"},
                "dropped": {},
                "replaced": {"a": 1.5},
                "ended": [[1]],
                "committed": None,
                "overwritten": True,
                "queries": {"q": None},
                "chain": [1],
            }.items()
        ],
    ],
)
def test_a_damaged_entry_is_an_error_with_a_way_out(out: Path, data: bytes) -> None:
    number = state(out).number + 1
    (out / LEDGER / entry_name(number)).write_bytes(data)
    with pytest.raises(FormatError, match=rf"{LEDGER}: .*{number}\.json.*remove the file"):
        ids(out)
    with pytest.raises(FormatError):
        Write(out, 1)
    (out / LEDGER / entry_name(number)).unlink()
    assert ids(out) == OLD


def test_an_entry_of_a_later_version_says_so(out: Path) -> None:
    (out / LEDGER / entry_name(99)).write_bytes(b'{"version": 2}')
    with pytest.raises(UnsupportedError, match="needs a later arrowipc"):
        ids(out)


def test_a_pipe_is_no_entry(out: Path) -> None:
    os.mkfifo(out / LEDGER / entry_name(99))
    with pytest.raises(FormatError):
        ids(out)


def test_entries_come_back_as_they_were() -> None:
    ledger = Ledger(3, {"a": 1}, ("a",), {"n\udc80\n": 3}, ((1, "x"),), 1, 2, {"q": 4}, ("c",))
    assert Ledger.of(3, ledger.to_bytes()) == ledger
