"""kill -9 at any moment: what was there is there, or what was to come, complete; nothing whole is lost.

Writers are children of a process of their own, killed at moments such that a third comes to its end.
What a killed writer leaves beside the destination is recovered, too: exactly the batches that its bytes hold.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.rounds import rounds

KILLS = rounds(24, 100)

# AddressSanitizer makes forks and writes so slow that hardly any child would be killed in the middle.
pytestmark = [pytest.mark.nosanitize, pytest.mark.campaign]

HARNESS = """
import json, os, random, signal, sys, time
from pathlib import Path
import arrowipc as ipc
from arrowipc.types import field, int64

kind, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
path = folder / "x.arrow"
schema = ipc.Schema([field("x", int64())])
ROWS, BATCHES = 4000, 3
dice = random.Random(1)
reach = [2.0]
seen = {"old": 0, "new": 0, "absent": 0, "left": 0, "recovered": 0}

def batch(number):
    return ipc.RecordBatch.from_pydict({"x": [number] * ROWS}, schema)

def content(source, **options):
    with ipc.open_file(source, memory_map=False, validate="strict", **options) as reader:
        numbers = [each["x"][0] for each in reader]
        assert all(each["x"][-1] == number for each, number in zip(reader, numbers))
        return numbers

def write(target, number, durable=False, **options):
    with ipc.new_file(target, schema, durable=durable, **options) as writer:
        for _ in range(BATCHES):
            writer.write_batch(batch(number))

one = ipc.get_record_batch_size(batch(0))
first = 8 + len(schema.serialize())

def recovered(left, first=first, one=one, most=10**9):
    # Of the bytes that are there, all batches that are whole: no more, no fewer.
    size = left.stat().st_size
    whole = min(max(size - first, 0) // one, most)
    for resync in (False, True):
        if size < first:
            try:
                ipc.recover(left, resync=resync)
            except ipc.FormatError:
                continue
            raise AssertionError(f"{size} bytes have no schema")
        target = bytearray()
        report = ipc.recover(left, into=target, resync=resync)
        assert report.num_batches == len(content(target)) == whole, (report, size)
    seen["left"] += 1
    seen["recovered"] += whole

def sweep(most):
    for name in os.listdir(folder):
        if name == path.name:
            continue
        left = folder / name
        assert name.startswith(".x.arrow.") and name.endswith(".tmp"), name
        recovered(left, most=most)
        left.unlink()

def partial():
    return any(name.endswith(".tmp") for name in os.listdir(folder))

def has_ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

def killed(work, took, aimed=False):
    ready, begun = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready)
        try:
            work(lambda: os.close(begun))
        finally:
            os._exit(0)
    os.close(begun)
    os.read(ready, 1)
    os.close(ready)
    if aimed:
        # A part is there for a short moment only, which no time hits for certain.
        while not partial() and not has_ended(child):
            pass
    else:
        time.sleep(dice.random() * reach[0] * took)
    os.kill(child, signal.SIGKILL)
    ended = os.WIFEXITED(os.waitpid(child, 0)[1])
    # What is forked takes longer than what was measured, how much longer is the machine's: a third shall end.
    if not aimed:
        reach[0] *= 0.8 if ended else 1.1

def measured(work):
    # The median, of works that come to their end.
    times = []
    for _ in range(7):
        marks = []
        work(lambda: marks.append(time.monotonic()))
        times.append(time.monotonic() - marks[0])
    return sorted(times)[3]
"""

WRITE = """
def work(begin):
    begin()
    write(path, number, durable=number % 4 == 0)
number = 0
slow = measured(work)
number = 1
fast = measured(work)
for number in range(1, rounds + 1):
    old = content(path) if path.exists() else None
    if number % 3 == 0 and old is not None:
        path.unlink()
        old = None
    killed(work, fast if number % 4 else slow, aimed=number % 5 == 4)
    now = content(path) if path.exists() else None
    assert now in (old, [number] * BATCHES), (old, now)
    seen["absent" if now is None else "old" if now == old else "new"] += 1
    sweep(BATCHES)
"""

APPEND = """
def work(begin):
    begin()
    write(path, number, append=True, durable=number % 4 == 0)
number = 0
slow = measured(work)
number = 1
fast = measured(work)
write(path, 0)
for number in range(1, rounds + 1):
    if number % 20 == 0:
        write(path, 0)
    old = content(path)
    killed(work, fast if number % 4 else slow, aimed=number % 5 == 4)
    now = content(path)
    assert now in (old, old + [number] * BATCHES), (old, now)
    seen["old" if now == old else "new"] += 1
    sweep(len(old) + BATCHES)
"""

RECOVER = """
write(path, 7)
torn = path.read_bytes()[: first + 2 * one + 100]
path.write_bytes(torn)
def work(begin):
    begin()
    ipc.recover(path, into=path, durable=number % 4 == 0)
def again(begin):
    path.write_bytes(torn)
    work(begin)
number = 0
slow = measured(again)
number = 1
fast = measured(again)
for number in range(rounds):
    path.write_bytes(torn)
    killed(work, fast if number % 4 else slow, aimed=number % 5 == 4)
    if path.read_bytes() == torn:
        seen["old"] += 1
    else:
        assert content(path) == [7] * 2
        seen["new"] += 1
    sweep(2)
"""

COMMITTING = """
import pyarrow as pa
from pyspark.sql import types as st
from arrowipc.read.files import find_files
from arrowipc.read.ledger import local_ledger
from arrowipc.spark import vacuum
from arrowipc.spark.write.task import PartFile, Written
from arrowipc.spark.write.commit import ArrowIpcWriter
rows = st.StructType([st.StructField("x", st.LongType())])
options = {"path": str(folder)}

def counted(paths):
    # Whose files these are, and how many of each.
    found = {}
    for each in paths:
        one_number = number_of(each)
        found[one_number] = found.get(one_number, 0) + 1
    return found

def visible():
    # What our readers find.
    return counted(each.path for each in find_files([str(folder)])) if any(folder.glob("*.arrow")) else {}

def others():
    # What everybody else finds.
    return counted(folder.glob("*.arrow"))

def commits():
    global number, overwrite, took
    number, overwrite = 1, True
    took = [measured(work)]
    number = 2
    took.insert(0, measured(work))
    for number in range(3, rounds + 3):
        overwrite = number % 3 != 0
        old = visible()
        whole = {number: FILES} if overwrite else {**old, number: FILES}
        killed(work, took[number % 2])
        now = visible()
        assert now in (old, whole), (number, overwrite, old, now)
        seen_by_others = others()
        assert all(seen_by_others[key] >= count for key, count in now.items())
        ledger = local_ledger(str(folder))
        seen["new" if now == whole else "old"] += 1
        seen["left"] += bool(ledger.started or ledger.replaced) or any(folder.glob("_temporary/*"))
        left()
        if number % 4 == 0:  # whoever comes next finds it whole
            overwrite = number % 8 == 0
            whole = {number: FILES} if overwrite else {**now, number: now.get(number, 0) + FILES}
            work(lambda: None)
            assert visible() == whole, (number, overwrite, now, visible())
        elif number % 4 == 1:
            vacuum(str(folder), 0)
            assert visible() == others() == now
            assert not (folder / "_temporary").exists()
        if len(visible()) > 3:
            overwrite = True
            work(lambda: None)
            assert visible() == {number: FILES}
"""

COMMIT = """
FILES = 4

def number_of(path):
    (one_number,) = set(content(path))
    return one_number

def prepared():
    # What tasks and driver do before the commit.
    writer = ArrowIpcWriter(rows, options, overwrite)
    parts = []
    for partition in range(FILES):
        data = [pa.record_batch({"x": pa.array([number] * ROWS)})]
        parts += writer._parts.write(data, writer._directory, writer._job.id, partition)
    return writer, [Written((part,)) for part in parts]

def work(begin):
    if number % 2:
        writer, written = prepared()
        begin()
    else:
        begin()
        writer, written = prepared()
    writer.commit(written)

def left():
    ((offset, head, body),) = ipc.open_file(next(folder.glob("*.arrow"))).blocks
    for each in folder.glob("_temporary/**/*.arrow"):
        content(each)  # a file of a task has its name when it is complete
    for each in folder.glob("_temporary/**/.*.tmp"):
        recovered(each, offset, head + body, 1)

commits()
"""

# The commit alone, of 2,000 files: they are one file under many names.
COMMIT_MANY = """
FILES = 2000
owner = {}

def number_of(path):
    return owner[os.stat(path).st_ino]

def work(begin):
    seed = folder.parent / f"seed-{number}"
    if not seed.exists():
        write(seed, number)
        owner[seed.stat().st_ino] = number
    writer = ArrowIpcWriter(rows, options, overwrite)
    parts = []
    for partition in range(FILES):
        name = f"part-{partition:05}-{writer._job.id}.arrow"
        os.link(seed, folder / writer._directory / name)
        parts.append(PartFile(f"{writer._directory}/{name}", name))
    begin()
    writer.commit([Written(tuple(parts))])

unforked = killed
def killed(work, took):
    # The seed is known here, too.
    seed = folder.parent / f"seed-{number}"
    write(seed, number)
    owner[seed.stat().st_ino] = number
    unforked(work, took)

def left():
    pass

commits()
"""

# A streaming query: Spark gives its batches numbers without a gap, and runs one again that was not committed.
MICRO_BATCH = """
from arrowipc.spark.streaming.sink import ArrowIpcStreamWriter
from arrowipc.spark.write.commit import open_destination
FILES, QUERY = 4, "a-query"
options = {"path": str(folder), "checkpointlocation": str(folder) + "-notes"}

def tasks(writer):
    # What the tasks of a micro-batch do, each with rows of its own: `write` without its TaskContext.
    directory = writer._attempts(QUERY, number)
    written = []
    for partition in range(FILES):
        writer._storage.make_directory(directory)
        data = [pa.record_batch({"x": pa.array([number * FILES + partition] * ROWS)})]
        job = "0123456789abcdef" + writer._random
        parts = writer._parts.write(data, directory, job, partition)
        written.append(Written(tuple(parts), QUERY, job, writer._began))
    return written

def run(begin, before_commit):
    writer = ArrowIpcStreamWriter(rows, options, complete)
    if not before_commit:
        begin()
    written = tasks(writer)
    if before_commit:
        begin()
    writer.commit(written, number)

def work(begin):
    run(begin, number % 3 > 0)
def again(begin):
    os.system(f"rm -rf '{folder}'/*")
    work(begin)

def visible():
    # How often a reader finds each number: all files are whole.
    found = {}
    for entry in open_destination(options).files():
        with ipc.open_file(folder / entry.name, memory_map=False, validate="strict") as reader:
            for x in reader.read_all().to_pydict()["x"]:
                found[x] = found.get(x, 0) + 1
    return found

def rows_of(*batches):
    return {n * FILES + partition: ROWS for n in batches for partition in range(FILES)}

complete = False
took = []
for number in range(2):
    took.append(measured(again))
os.system(f"rm -rf '{folder}'/*")
done = []
for number in range(rounds):
    complete = number % 5 == 4
    before = rows_of(*done)
    done = [number] if complete else [*done, number]
    after = rows_of(*done)
    killed(work, took[number % 3 > 0])
    now = visible()
    assert now in (before, after), (number, before, now)
    seen["old" if now == before else "new"] += 1
    seen["left"] += any(folder.glob("_temporary/**/*.arrow"))
    # Spark runs the batch again, and once more if it was stopped before its own note of it.
    for _ in range(1 + number % 2):
        run(lambda: None, True)
        assert visible() == after, (number, after, visible())
        assert not (folder / "_temporary").exists()
"""

SCRIPTS = {
    "write": WRITE,
    "append": APPEND,
    "recover": RECOVER,
    "commit": COMMITTING + COMMIT,
    "commit-many": COMMITTING + COMMIT_MANY,
    "micro-batch": COMMITTING + MICRO_BATCH,
}


def run(kind: str, folder: Path, rounds: int) -> dict[str, int]:
    code = HARNESS + SCRIPTS[kind] + "\nprint(json.dumps(seen))"
    shown = subprocess.run(
        [sys.executable, "-c", code, kind, folder, str(rounds)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    seen: dict[str, int] = json.loads(shown.stdout)
    print(f"{kind}: {rounds} kills: {seen}")
    return seen


def check(kind: str, folder: Path, kills: int) -> None:
    seen = run(kind, folder, kills)
    assert seen["old"] + seen["new"] + seen["absent"] == kills
    # The law is not empty: some were killed before the end, some behind it, and some left a part.
    # (Of a few kills all may fall on one side, whatever the machine does.)
    assert seen["old"] + seen["absent"] > kills // 20 or kills < 10
    assert seen["new"] > 0 or kills < 50
    assert seen["left"] > kills // 50


@pytest.mark.parametrize("kind", ["write", "append", "recover"])
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path, kind: str) -> None:
    check(kind, tmp_path, KILLS)


def test_a_killed_commit_leaves_the_old_rows_or_the_new(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    check("commit", tmp_path, rounds(12, 100))


def test_a_killed_commit_of_2000_files_leaves_the_old_rows_or_the_new(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "out").mkdir()
    check("commit-many", tmp_path / "out", rounds(5, 50))


def test_a_killed_micro_batch_is_there_once_when_it_was_run_again(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    check("micro-batch", tmp_path, rounds(20, 100))
