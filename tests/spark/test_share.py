"""Shared data: one copy in the memory of a host, whatever the number of its Python workers."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from arrowipc.spark import share
from arrowipc.spark.java import NO_JAVA, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Four workers at once on 200 MB; each says what it found while the others hold it too.
FOUR_WORKERS = """
import json, os, re, sys, time
from pathlib import Path
import numpy as np
import pyarrow as pa
from arrowipc.spark import share
from arrowipc.spark.session import start_session

folder = Path(sys.argv[1])
ROWS = 4 * 6_250_000

def wait_for(pattern):
    end = time.monotonic() + 120
    while len(list(folder.glob(pattern))) < 4:
        assert time.monotonic() < end, f"the other workers did not come to {pattern}"
        time.sleep(0.02)

def measure(batches):
    # Imports and the start of the broker are not what is measured.
    from arrowipc.spark.share import _attached
    for _ in batches:
        pass
    shared.value
    _attached.clear()
    start = time.perf_counter()
    table = shared.value
    attached = time.perf_counter() - start
    total = sum(int(batch["x"].to_numpy().sum()) for batch in table.batches)
    (folder / f"{os.getpid()}.touched").touch()
    wait_for("*.touched")
    maps = re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    shared_maps = [each for each in maps if "memfd" in each.split("\\n")[0]]
    found = {"total": total, "attached": attached}
    for name in ("Pss", "Rss"):
        found[name] = sum(int(re.search(rf"^{name}:\\s+(\\d+)", each, re.M)[1]) for each in shared_maps)
    (folder / f"{os.getpid()}.json").write_text(json.dumps(found))
    wait_for("*.json")
    yield pa.record_batch({"done": [True]})

with start_session("local[4]", folder / "spark.log") as spark:
    step = ROWS // 4
    batches = [pa.record_batch({"x": np.arange(start, start + step)}) for start in range(0, ROWS, step)]
    shared = share(pa.Table.from_batches(batches), spark=spark)
    spark.range(0, 4, 1, 4).mapInArrow(measure, "done boolean").collect()
    shared.destroy()
"""


def test_values_arrive_in_workers_and_on_the_driver(spark: SparkSession) -> None:
    shared = share(spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string"), spark=spark)

    def names(batches: Iterator[Any]) -> Iterator[Any]:
        lookup = pa.table(shared.value)["name"].to_pylist()
        for batch in batches:
            yield pa.record_batch({"name": [lookup[each % 2] for each in batch["id"].to_pylist()]})

    found = spark.range(0, 6, 1, 3).mapInArrow(names, "name string").collect()
    assert sorted(row["name"] for row in found) == ["a"] * 3 + ["b"] * 3
    assert shared.value.to_pydict() == {"id": [1, 2], "name": ["a", "b"]}
    assert shared.value is pickle.loads(pickle.dumps(shared)).value
    shared.destroy()
    assert shared.value.to_pydict() == {"id": [1, 2], "name": ["a", "b"]}, "the broker has its own"


def test_without_a_session_it_says_what_to_do() -> None:
    script = "import arrowipc.spark as s; s.share({'x': [1]})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "no active Spark session: give one with spark=" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux to measure shared memory")
def test_four_workers_hold_one_copy_of_200_mb(tmp_path: Path) -> None:
    if find_java() is None:
        pytest.skip(NO_JAVA)
    done = subprocess.run(
        [sys.executable, "-c", FOUR_WORKERS, str(tmp_path)], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    rows = 25_000_000
    size = 8 * rows // 1024
    print("attached in", [f"{1000 * each['attached']:.1f} ms" for each in found])
    assert [each["total"] for each in found] == [rows * (rows - 1) // 2] * 4
    for each in found:
        assert each["Rss"] >= size, "a worker has not read all of the shared memory"
    # Five processes map each page, the broker being one: a share of a fifth each.
    assert sum(each["Pss"] for each in found) < 1.05 * size
