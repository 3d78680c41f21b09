"""kill -9 at any moment: what was there is there, or what was to come, complete; nothing whole is lost.

Writers are children of a process of their own, killed at moments such that a third comes to its end.
What a killed writer leaves beside the destination is recovered, too: exactly the batches that its bytes hold.
"""

import json
from pathlib import Path

import pytest
from helpers.processes import printed, rounds, run_python

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

SCRIPTS = {"write": WRITE, "append": APPEND, "recover": RECOVER}


def check(kind: str, folder: Path, kills: int) -> None:
    code = HARNESS + SCRIPTS[kind] + "\nprint(json.dumps(seen))"
    seen = json.loads(printed(run_python(code, kind, folder, kills, timeout=300)))
    print(f"{kind}: {kills} kills: {seen}")
    assert seen["old"] + seen["new"] + seen["absent"] == kills
    # The law is not empty: some were killed before the end, some behind it, and some left a part.
    # (Of a few kills all may fall on one side, whatever the machine does.)
    assert seen["old"] + seen["absent"] > kills // 20 or kills < 10
    assert seen["new"] > 0 or kills < 50
    assert seen["left"] > kills // 50


@pytest.mark.parametrize("kind", ["write", "append", "recover"])
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path, kind: str) -> None:
    check(kind, tmp_path, KILLS)
