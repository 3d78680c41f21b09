"""Drivers that are killed with all their processes: what Spark's protocols promise of our files, and no more."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import processes
from helpers.arrow_columns import file, stream
from helpers.processes import rounds
from pyspark.sql import SparkSession

from arrowipc.spark import find_jar

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

DEADLINE = 300

SESSION = """
import sys
from pathlib import Path
from helpers.twins import session

out, jar = sys.argv[1:]
spark = session("local[2]", jar, Path(out).parent)
spark.sparkContext.setLogLevel("OFF")
"""
#: A source with rows of numbers, or with payloads of them.
SOURCE = """
source = spark.readStream.format("arrowipc").option("maxFilesPerTrigger", 1)
frame = source.schema("id long").load(out + "-in")
"""
PAYLOADS = """
from arrowipc.spark import decode_payloads
source = spark.readStream.format("arrowipc").option("maxFilesPerTrigger", 1)
frame = decode_payloads(source.schema("payload binary").load(out + "-in"), "payload", "id long", engine="jvm")
"""
STREAM = """
query = frame.writeStream.format("arrowipc").option("maxRecordsPerFile", 5).trigger(availableNow=True)
assert query.option("checkpointLocation", out + "-checkpoint").start(out).awaitTermination(200)
"""
#: Rows that take their time, a file for each.
SLOW = """
slowly = "IF(reflect('java.lang.Thread', 'sleep', 50L) IS NULL, 0, 0)"
frame = spark.range(1000, 1400, 1, 2).selectExpr(f"id + {slowly} AS id", "id % 2 AS k")
writer = frame.write.format("arrowipc").mode("MODE").option("maxRecordsPerFile", 1)
writer.option("partitionOverwriteMode", "OVERWRITE").partitionBy("k").save(out)
"""


def start(code: str, out: Path) -> subprocess.Popen[bytes]:
    with open(out.with_name("log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SESSION) + code, str(out), str(find_jar())],
            env={**processes.environment(), "PYSPARK_PYTHON": sys.executable},
            **{"cwd": out.parent, "stdout": subprocess.DEVNULL, "stderr": log, "start_new_session": True},
        )


def killed(process: subprocess.Popen[bytes], begun: Callable[[], Any], after: float = 0) -> bool:
    """Kill a driver some time after something has begun; whether it came to its end before."""
    try:
        end = time.monotonic() + DEADLINE
        while process.poll() is None and not begun():
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(after)
        return process.poll() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # Java is in the session of the driver that began it
        process.wait()


def ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row.id for row in spark.read.format("arrowipc").schema("id long").load(str(path)).collect())


def below(path: Path, pattern: str) -> int:
    return sum(1 for _ in path.glob(pattern))


@pytest.mark.parametrize("source", rounds(["payloads"], ["rows", "payloads"]))
def test_a_stream_that_is_killed_again_and_again(spark: SparkSession, tmp_path: Path, source: str) -> None:
    """What a reader finds are whole micro-batches, and in the end each row once."""
    code = {"rows": SOURCE, "payloads": PAYLOADS}[source] + STREAM
    batches, size, kills = rounds(4, 160), 20, rounds(1, 50)
    out, log, dice, seen = tmp_path / "out", tmp_path / "out" / "_spark_metadata", random.Random(5), Counter[str]()
    (tmp_path / "out-in").mkdir()
    for number in range(batches):
        rows = pa.record_batch({"id": pa.array(range(number * size, number * size + size), pa.int64())})
        if source == "payloads":
            rows = pa.record_batch({"payload": [stream(rows.slice(0, size // 2)), None, stream(rows.slice(size // 2))]})
        (tmp_path / "out-in" / f"{number:04}.arrow").write_bytes(file(rows))
    while seen["kills"] < kills:
        before = {*log.glob("[0-9]*")}
        if killed(start(code, out), lambda before=before: {*log.glob("[0-9]*")} > before, dice.random()):  # type: ignore[misc]
            break
        seen["kills"] += 1
        found = ids(spark, out) if log.exists() else []
        assert set(Counter(row // size for row in found).values()) <= {size}
        assert len({*found}) == len(found)
        seen["left"] += below(out, "*.arrow") > len(found) // 5
        seen["batches"] = len(found) // size
    assert start(code, out).wait(DEADLINE) == 0, (tmp_path / "log").read_text()[-2000:]
    print(f"streams: {dict(seen)}")
    assert ids(spark, out) == [*range(batches * size)]
    assert seen["kills"] == kills, "it came to its end too soon: give it more to do"


@pytest.mark.parametrize("way", rounds(["overwrite of partitions"], ["append", "overwrite", "overwrite of partitions"]))
def test_jobs_that_die_before_they_commit(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """Rows of such a job do not count. An overwrite has deleted the old rows by then, unless it is of partitions."""
    out, (mode, _, dynamic) = tmp_path / "out", way.partition(" ")
    spark.range(10).selectExpr("id", "id % 2 AS k").write.format("arrowipc").partitionBy("k").save(str(out))
    code = SLOW.replace("MODE", mode).replace("OVERWRITE", "dynamic" if dynamic else "static")
    staged = ".spark-staging*/**/*.arrow" if dynamic else "_temporary/**/*.arrow"
    assert not killed(start(code, out), lambda: below(out, staged) > 4)
    assert below(out, staged) > 4
    assert ids(spark, out) == ([] if way == "overwrite" else [*range(10)])
    again = spark.range(10, 12).selectExpr("id", "id % 2 AS k").write.format("arrowipc").partitionBy("k").mode("append")
    again.save(str(out))
    assert ids(spark, out) == [*range(10 if way == "overwrite" else 0, 12)]
    assert not below(out, "_temporary")  # the next job that commits takes it away, whosever it was
