"""Real drivers beside each other, and real drivers killed with all their processes in the middle of commits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file
from helpers.rounds import rounds

import arrowipc
from arrowipc.read.files import find_files
from arrowipc.read.ledger import Ledger, local_ledger
from arrowipc.spark import register, vacuum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DEADLINE = 120


def ids(path: Path) -> list[int]:
    """The rows that a reader of ours finds."""
    found = [each.path for each in find_files([str(path)])] if list(path.glob("*.arrow")) else []
    return sorted(row for each in found for row in arrowipc.open(each).read_all().to_pydict()["id"])


# Beside each other.


def wait(done: Callable[[], Any]) -> None:
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def gated(frame: DataFrame, gate: Path) -> DataFrame:
    """The same rows, once a file is there."""

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gate.with_suffix(".reached").touch()
        end = time.monotonic() + DEADLINE
        while not gate.exists() and time.monotonic() < end:
            time.sleep(0.01)
        yield from batches

    return frame.mapInArrow(held, frame.schema)


def save(frame: DataFrame, path: Path, mode: str) -> None:
    frame.write.format("arrowipc").mode(mode).save(str(path))


@pytest.mark.parametrize(
    ("slow", "fast", "expected"),
    [
        ("append", "append", [0, 1, 10, 11, 20, 21]),
        ("append", "overwrite", [20, 21]),
        ("overwrite", "append", [0, 1, 20, 21]),
    ],
)
def test_jobs_beside_each_other(spark: SparkSession, tmp_path: Path, slow: str, fast: str, expected: list[int]) -> None:
    register(spark)
    out, gate = tmp_path / "out", tmp_path / "gate"
    save(spark.range(2), out, "append")
    errors: list[Exception] = []

    def work() -> None:
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(spark._jsparkSession)
        try:
            save(gated(spark.range(10, 12, 1, 1), gate), out, slow)  # which leaves a core
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait(lambda: gate.with_suffix(".reached").exists() or errors)
        save(spark.range(20, 22), out, fast)
    finally:
        gate.touch()
        thread.join()
    assert ids(out) == expected
    assert sorted(row["id"] for row in spark.read.format("arrowipc").load(str(out)).collect()) == expected
    assert len(errors) == (slow != fast)
    assert all(f"this {slow} was not committed" in str(error) for error in errors)


# Killed.

SESSION = """
import sys
from pathlib import Path
from arrowipc.spark import register
from arrowipc.spark.local_session import start_session

out, log, kind, number = sys.argv[1:]
number = int(number)
with start_session("local[2]", Path(log)) as spark:
    register(spark)
    options = {"maxRecordsPerFile": 1, "batchRows": 1}
"""
JOB = """
    frame = spark.range(number * FILES, number * FILES + FILES, 1, 2)
    frame.write.format("arrowipc").mode(kind).options(**options).save(out)
"""
QUERY = """
    frame = spark.readStream.format("arrowipc").schema("id long").option("maxFilesPerTrigger", 1).load(out + "-in")
    query = frame.writeStream.format("arrowipc").options(**options).option("checkpointLocation", out + "-checkpoint")
    assert query.trigger(availableNow=True).start(out).awaitTermination(200)
"""


def start(code: str, out: Path, kind: str, number: int) -> subprocess.Popen[bytes]:
    arguments = [str(out), str(out.with_name("log")), kind, str(number)]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SESSION) + code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def descendants(process: int) -> list[int]:
    """A process and all that it began, and these began."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(each.parent.name))
    found = [process]
    for each_process in found:
        found += children.get(each_process, [])
    return found


def kill_all(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in descendants(process.pid):
            try:
                os.kill(each, number)
            except ProcessLookupError:
                continue
    process.wait()


def entry(path: Path) -> int:
    return (local_ledger(str(path)) or Ledger()).number


def killed(code: str, out: Path, kind: str, number: int, after: float) -> bool:
    """Run a driver until some time after it began to commit; whether it came to its end."""
    before = entry(out)
    process = start(code, out, kind, number)
    try:
        wait(lambda: process.poll() is not None or entry(out) > before)
        time.sleep(after)
        return process.poll() == 0
    finally:
        kill_all(process)


@pytest.mark.campaign
def test_a_job_that_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    """At random moments from when the commit begins."""
    files = rounds(300, 2000)
    out, dice, seen = tmp_path / "out", random.Random(4), Counter[str]()
    code = JOB.replace("FILES", str(files))
    out.mkdir()
    (out / "by-hand.arrow").write_bytes(file(pa.record_batch({"id": pa.array([0], pa.int64())})))
    for number in range(1, rounds(1, 50) + 1):
        kind = ("overwrite", "append")[number % 2]
        old = ids(out)
        rows = [*range(number * files, number * files + files)]
        new = rows if kind == "overwrite" else sorted([*old, *rows])
        killed(code, out, kind, number, dice.random() * 0.3 * files / 2000)
        found = ids(out)
        assert found in (old, new), number
        seen["old" if found == old else "new"] += 1
        seen["left"] += len(list(out.glob("*.arrow"))) > len(found)
        if number % 5 == 0:
            vacuum(str(out), 0)
            assert ids(out) == found
            assert len(list(out.glob("*.arrow"))) == len(found)
    print(f"jobs: {number} kills: {dict(seen)}")


@pytest.mark.campaign
def test_a_query_that_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    """What is there are whole micro-batches, and in the end each row once."""
    batches, size = rounds(3, 120), rounds(30, 200)
    out, dice, seen = tmp_path / "out", random.Random(5), Counter[str]()
    (tmp_path / "out-in").mkdir()
    for number in range(batches):
        rows = pa.record_batch({"id": pa.array(range(number * size, number * size + size), pa.int64())})
        (tmp_path / "out-in" / f"{number:04}.arrow").write_bytes(file(rows))
    for _ in range(rounds(1, 50)):
        ended = killed(QUERY, out, "", 0, dice.random())
        found = ids(out)
        whole = Counter(row // size for row in found)
        assert len(set(found)) == len(found)
        assert set(whole.values()) <= {size}
        seen["left"] += len(list(out.glob("*.arrow"))) > len(found)
        seen["batches"] = len(whole)
        if ended:
            break
    assert start(QUERY, out, "", 0).wait(DEADLINE) == 0
    assert ids(out) == [*range(batches * size)]
    vacuum(str(out), 0)
    assert len(list(out.glob("*.arrow"))) == batches * size
    print(f"queries: {dict(seen)}")
