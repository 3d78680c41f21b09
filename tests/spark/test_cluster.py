"""Executors, servers and clients that are processes of their own: the package travels to them, and they may die."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from helpers.arrow_columns import file, stream
from helpers.processes import environment, run_python, start
from helpers.spark import packed_environment, wheel_archive

from arrowipc.spark.java import NO_JAVA, find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

IMPORTS = """
import json, os, sys, time
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as F
from arrowipc.spark import (
    collect, configure, count_rows, create, decode_payloads, describe, encode_payloads, from_arrow, from_arrow_udf,
    register, session, share, to_arrow, to_arrow_udf
)
from arrowipc.spark.payloads.jvm import in_jvm
from arrowipc.spark.payloads.options import DecodeOptions
from arrowipc.spark.sessions import reader_of

def builder(**settings):
    made = SparkSession.builder
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        **settings,
    }.items():
        made = made.config(name, value)
    return made
"""

CLUSTER = """
data, settings, jar = sys.argv[1], json.loads(sys.argv[2]), "jar" in sys.argv
made = builder(**settings).master("local-cluster[2,1,1024]")
spark = (configure(made) if jar else made).getOrCreate()

def where(batches):
    import arrowipc._core
    for batch in batches:
        yield pa.record_batch({"path": [arrowipc._core.__file__]})

for row in spark.range(0, 2, 1, 2).mapInArrow(where, "path string").collect():
    print("path", row[0])
"""

FILES = """
def files(out):
    frame, path = spark.read.format("arrowipc").load(data + "/x.arrow"), data + "/x.arrow"
    if reader_of(spark) == "jvm":
        frame.write.format("arrowipc").save(path := out)
    print("files", reader_of(spark), spark.read.format("arrowipc").load(path).agg({"id": "sum"}).first()[0])
    print("counted", count_rows(spark, path), describe(spark, path).agg({"rows": "sum"}).first()[0])
    return frame

frame = files(data + "/out")
"""

#: The session gets the jar while it runs.
LATE = """
register(spark)
files(data + "/late")
spark.read.parquet(data + "/messages.parquet").createOrReplaceTempView("messages")
jvm = spark.sql("SELECT inline(arrowipc.`id bigint`.from_arrow(payload)) FROM messages").agg({"id": "sum"}).first()[0]
print("jvm", in_jvm(spark, DecodeOptions()), jvm)
"""

PAYLOADS = """
messages = spark.read.parquet(data + "/messages.parquet").repartition(2)
print("payloads", decode_payloads(messages, "payload").agg({"id": "sum"}).first()[0])
again = decode_payloads(encode_payloads(frame, rows_per_payload=7), "payload", "id bigint")
print("encoded", again.agg({"id": "sum"}).first()[0])
cells = messages.select(F.inline(from_arrow("payload", "id bigint"))).agg(F.collect_list(F.struct("id")).alias("rows"))
again = cells.select(to_arrow("rows").alias("payload")).select(F.inline(from_arrow("payload", "id bigint")))
print("columns", again.agg({"id": "sum"}).first()[0])
messages.createOrReplaceTempView("messages")
spark.udf.register("rows_of", from_arrow_udf("id bigint"))
spark.udf.register("to_arrow", to_arrow_udf())
again = "SELECT inline(rows_of(to_arrow(rows_of(payload)))) FROM messages"
print("sql", spark.sql(f"SELECT sum(id) FROM ({again})").first()[0])
again = "SELECT inline(arrowipc.`id bigint`.from_arrow(payload)) FROM messages"
print("jvm", in_jvm(spark, DecodeOptions()), spark.sql(f"SELECT sum(id) FROM ({again})").first()[0])
"""

SUMS = ("payloads", "encoded", "columns", "sql", "jvm True")
READ = ["files jvm 1225", "counted 50 50", *(f"{name} 1225" for name in SUMS)]

# In its first attempt, the task of partition 1 waits until rows of it lie on the disk and kills its executor.
KILL = """
ROWS, PARTITIONS = 400_000, 4
output = data + "/written.arrow"

def java():
    pid = os.getpid()
    while True:
        with open(f"/proc/{pid}/stat") as stat:
            name, rest = stat.read().rsplit(")", 1)
        if name.endswith("(java"):
            return pid
        pid = int(rest.split()[1])

def on_the_disk():
    for parent, _, names in os.walk(output):
        for name in names:
            if "_temporary" in parent and os.path.getsize(os.path.join(parent, name)):
                return True
    return False

def doomed(batches):
    task = TaskContext.get()
    open(f"{data}/attempt-{task.partitionId()}-{task.attemptNumber()}", "w").close()
    for number, batch in enumerate(batches):
        yield batch
        if number == 5 and task.partitionId() == 1 and task.attemptNumber() == 0:
            end = time.monotonic() + 60
            while not on_the_disk() and time.monotonic() < end:
                time.sleep(0.05)
            open(f"{data}/killed-{on_the_disk()}", "w").close()
            os.kill(java(), 9)
            time.sleep(60)

frame = spark.range(0, ROWS, 1, PARTITIONS).mapInArrow(doomed, "id bigint")
frame.write.format("arrowipc").mode("append").option("batchRows", 5000).save(output)
found = [row[0] for row in spark.read.format("arrowipc").load(output).orderBy("id").collect()]
print("once", found == list(range(ROWS)), len(found))
"""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A directory with a file and a table of payloads; what Spark leaves in its own directory is removed."""
    batches = [pa.record_batch({"id": range(start, start + 10)}) for start in range(0, 50, 10)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    pq.write_table(pa.table({"payload": [stream(batch) for batch in batches]}), tmp_path / "messages.parquet")
    work = Path(pyspark.__file__).parent / "work"
    existed = work.exists()
    yield tmp_path
    if not existed:
        shutil.rmtree(work, ignore_errors=True)


def submit(command: list[object], data: Path, environment: dict[str, str]) -> str:
    """Run what asks a cluster of two executors; returns what it prints."""
    java = find_java()
    if java is None:
        pytest.skip(NO_JAVA)
    environment = {**environment, "JAVA_HOME": java}
    done = subprocess.run(command, env=environment, cwd=data, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_wheel_and_jar_travel_and_a_killed_executor_loses_no_row(data: Path) -> None:
    archive = {"spark.archives": f"{wheel_archive(data)}#arrowipc", "spark.executorEnv.PYTHONPATH": "./arrowipc"}
    script = IMPORTS + CLUSTER + FILES + PAYLOADS + KILL
    command = [sys.executable, "-c", script, data, json.dumps(archive), "jar"]
    pythons = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable}
    printed = submit(command, data, {**os.environ, **pythons})
    paths = [line for line in printed.splitlines() if line.startswith("path ")]
    assert len(paths) == 2
    assert all("work/app-" in path for path in paths)
    for line in (*READ, "once True 400000"):
        assert line in printed
    assert (data / "killed-True").exists(), "no row had reached the disk when the executor was killed"
    assert (data / "attempt-1-1").exists(), "the task was not tried again"
    # Nor is anything else left (but Hadoop's checksums of files).
    left = [path for path in (data / "written.arrow").rglob("*") if path.suffix != ".crc"]
    assert [path.name for path in left if not path.match("part-*.arrow")] == ["_SUCCESS"]


def test_an_environment_travels_packed(data: Path) -> None:
    """In cluster mode, too, the driver's directory holds `environment`: there Spark unpacks it.

    The Python that the tests run with, its path and its PYTHONPATH have no part in it.
    """
    (data / "job.py").write_text(IMPORTS + CLUSTER + "print('driver', sys.executable)\n" + FILES + LATE)
    spark = Path(pyspark.__file__).parent
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    archives = ["--archives", f"{packed_environment(data)}#environment"]
    printed = submit(
        [spark / "bin/spark-submit", *archives, "job.py", data, "{}"],
        data,
        {**inherited, "SPARK_HOME": str(spark), "PYSPARK_PYTHON": "./environment/bin/python"},
    )
    assert f"driver {data}/environment/bin/python" in printed
    paths = [line for line in printed.splitlines() if line.startswith("path ")]
    assert len(paths) == 2
    assert all("work/app-" in path and "/environment/lib/" in path for path in paths)
    for line in ("files python 1225", "files jvm 1225", "jvm True 1225"):
        assert line in printed


# Spark Connect: a client without a JVM has all of it, sharing between workers too.

SERVER = """
port = sys.argv[1]
plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
isolated = {"spark.connect.grpc.binding.port": port, "spark.sql.artifact.isolation.enabled": "true"}
builder(**{"spark.plugins": plugin, **isolated}).master("local[2]").getOrCreate()
print("ready", flush=True)
sys.stdin.read()
"""

CLIENT = """
data, port = sys.argv[1:]
spark = SparkSession.builder.remote("sc://localhost:" + port).getOrCreate()
"""

SHARED = """
shared = share(spark.createDataFrame([(i, f"name {i}") for i in range(50)], "id long, name string"))

def names(batches):
    lookup = pa.table(shared.value)["name"].combine_chunks()
    for batch in batches:
        yield pa.record_batch({"name": lookup.take(batch["id"])})

print("frames", collect(create(spark, {"x": range(50)}).where("x < 3"))["x"].to_pylist())
print("shared", frame.mapInArrow(names, "name string").orderBy(F.desc("name")).first()[0], len(shared.value))
"""


def test_everything_works_from_a_client_of_spark_connect(data: Path) -> None:
    pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")
    java = find_java()
    if java is None:
        pytest.skip(NO_JAVA)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    switch = "assert session('sc://localhost:' + port) is spark\nframe = files(data + '/jvm')\n"
    log = data / "server.log"
    settings = {"JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with log.open("w") as err, start("-c", IMPORTS + SERVER, port, env=environment() | settings, stderr=err) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        done = run_python(IMPORTS + CLIENT + FILES + switch + PAYLOADS + SHARED, data, port, timeout=300)
        server.stdin.close()
        server.wait(60)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "files python 1225",
        "counted 50 50",
        *READ,
        "frames [0, 1, 2]",
        "shared name 9 50",
    ]
    assert "RPC error" not in log.read_text(), "what a session asks of a server is no error there"
