"""Shared data: one copy in the memory of a host, whatever the number of its Python workers."""

import contextlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrow_columns import stream
from helpers.processes import run_python, start
from pyspark.sql import SparkSession

from arrowipc import MessageReader, dissociated
from arrowipc.dissociated.served import ReadyMessages
from arrowipc.dissociated.uri import new_tag
from arrowipc.errors import FormatError
from arrowipc.spark import share
from arrowipc.spark.java import NO_JAVA, find_java
from arrowipc.spark.shared import Shared

pytestmark = pytest.mark.spark

#: Four workers at once on 200 MB; each says what it found while the others hold it too.
FOUR_WORKERS = """
import json, os, re, sys, time
from pathlib import Path
import numpy as np
import pyarrow as pa
from arrowipc.spark import share
from local_session import start_session

folder = Path(sys.argv[1])
ROWS = 4 * 6_250_000

def wait_for(pattern):
    end = time.monotonic() + 120
    while len(list(folder.glob(pattern))) < 4:
        assert time.monotonic() < end, f"the other workers did not come to {pattern}"
        time.sleep(0.02)

def measure(batches):
    # Imports and the start of the broker are not what is measured.
    from arrowipc.spark.shared import _attached
    for _ in batches:
        pass
    shared.value
    _attached.clear()
    table = shared.value
    total = sum(int(batch["x"].to_numpy().sum()) for batch in table.batches)
    (folder / f"{os.getpid()}.touched").touch()
    wait_for("*.touched")
    maps = re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    shared_maps = [each for each in maps if "memfd" in each.split("\\n")[0]]
    found = {"total": total}
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


def test_jobs_go_on_after_data_that_none_of_them_used_was_destroyed(spark: SparkSession) -> None:
    """Spark asks for the file when the next task starts."""
    share(pa.table({"x": [1]}), spark=spark).destroy()
    assert spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count() == 4


def test_nobody_else_learns_the_tags_of_a_broker(spark: SparkSession) -> None:
    shared = share(pa.table({"x": [1, 2, 3]}), spark=spark)
    assert shared.value.to_pydict() == {"x": [1, 2, 3]}
    token = shared._token.encode()
    found = [path for path in Path("/proc").glob("[0-9]*/cmdline") if token in _contents(path)]
    assert found, "the broker is there"
    for tag in (shared._want_data, shared._free_data):
        for path in found:
            assert str(tag).encode() not in _contents(path)
            assert str(tag).encode() not in _contents(path.with_name("environ"))
    shared.destroy()


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended
        return b""


@contextlib.contextmanager
def _claimed(shared: Shared, streams: Any, **options: Any) -> Iterator[dissociated.Server]:
    """A server under the name of a broker."""
    name = f"@arrowipc-share-{os.getuid()}-{shared._token}"
    tags = {"want_data": shared._want_data, "free_data": shared._free_data}
    with dissociated.Server(streams, "shm", name, **tags, **options) as server:
        yield server


def _broken_messages(name: bytes) -> ReadyMessages:
    """A stream whose offsets lie: memory behind it would be read by whoever believes them."""
    data = pa.record_batch({"s": ["a" * 100] * 1000})
    _, offsets, values = data.column(0).buffers()
    lie = np.frombuffer(offsets, "<i4").copy()
    lie[500] = 1 << 30
    array = pa.Array.from_buffers(pa.string(), 1000, [None, pa.py_buffer(lie), values])
    return ReadyMessages(MessageReader(stream(pa.record_batch([array], ["s"]))))


def test_what_is_sent_by_whoever_has_the_name_is_validated() -> None:
    shared = Shared("sent", new_tag(), new_tag())  # whose broker is said to be there already
    # Any body is sent that is smaller than this.
    options = {"transport_options": {"least_bytes": 1 << 30}}
    with _claimed(shared, _broken_messages, **options), pytest.raises(FormatError, match="offset"):
        _ = shared.value
    with _claimed(shared, lambda name: pa.table({"x": [1, 2, 3]}), **options):
        assert shared.value.to_pydict() == {"x": [1, 2, 3]}


def squat(name: str, want_data: str) -> None:
    """As another user, send bodies inline: there is no memory to tell of that anybody would map."""
    asked: list[bytes] = []
    rows = pa.table({"x": [1]})
    with dissociated.Server({"warm": rows}, "unix") as server, dissociated.connect(server.uri, "warm") as reader:
        reader.read_all()  # whatever this imports may lie where the other user cannot read
    os.setgid(65534)
    os.setuid(65534)
    with dissociated.Server(lambda name: asked.append(name) or rows, "unix", name, want_data=int(want_data)):
        print("listens", flush=True)
        sys.stdin.read()
    print(len(asked), "asked", flush=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, too")
def test_a_name_that_another_user_has_taken_is_not_asked() -> None:
    shared = Shared("taken", new_tag(), new_tag())
    with start(squat, f"@arrowipc-share-{os.getuid()}-taken", shared._want_data) as squatter:
        assert squatter.stdout is not None
        assert squatter.stdin is not None
        assert squatter.stdout.readline() == "listens\n"
        with pytest.raises(PermissionError, match="that is for servers of our own user"):
            _ = shared.value
        squatter.stdin.close()
        assert squatter.stdout.read() == "0 asked\n"


def test_without_a_session_it_says_what_to_do() -> None:
    done = run_python("import arrowipc.spark as s; s.share({'x': [1]})")
    assert "no active Spark session: give one with spark=" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux to measure shared memory")
def test_four_workers_hold_one_copy_of_200_mb(tmp_path: Path) -> None:
    if find_java() is None:
        pytest.skip(NO_JAVA)
    done = run_python(FOUR_WORKERS, tmp_path, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    rows = 25_000_000
    size = 8 * rows // 1024
    assert [each["total"] for each in found] == [rows * (rows - 1) // 2] * 4
    for each in found:
        assert each["Rss"] >= size, "a worker has not read all of the shared memory"
    # Five processes map each page, the broker being one: a share of a fifth each.
    assert sum(each["Pss"] for each in found) < 1.05 * size
