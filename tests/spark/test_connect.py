"""Spark Connect: a client without a JVM has all of it, sharing between workers too."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.arrow_columns import file, stream
from helpers.processes import environment, run_python, start

from arrowipc.spark.java import NO_JAVA, find_java

pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SERVER = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.sql.artifact.isolation.enabled": "true",
}.items():
    builder = builder.config(name, value)
builder.getOrCreate()
print("ready", flush=True)
sys.stdin.read()
"""

CLIENT = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession, functions as F
from arrowipc.spark import (
    count_rows, decode_payloads, describe, encode_payloads, from_arrow, from_arrow_udf,
    session, share, to_arrow, to_arrow_udf
)
from arrowipc.spark.sessions import reader_of
data, port = sys.argv[1:]
spark = SparkSession.builder.remote("sc://localhost:" + port).getOrCreate()

def files(out):
    frame = spark.read.format("arrowipc").load(data + "/x.arrow")
    frame.write.format("arrowipc").mode("append").save(data + out)
    print(reader_of(spark), spark.read.format("arrowipc").load(data + out).agg({"id": "sum"}).first()[0])
    return frame

files("/python")
assert session("sc://localhost:" + port) is spark
frame = files("/out")
print("counted", count_rows(spark, data + "/out"), describe(spark, data + "/out").agg({"rows": "sum"}).first()[0])
messages = spark.read.parquet(data + "/messages.parquet")
print("payloads", decode_payloads(messages, "payload").agg({"id": "sum"}).first()[0])
print("encoded", decode_payloads(encode_payloads(frame, rows_per_payload=7), "payload").agg({"id": "sum"}).first()[0])
rows = messages.withColumn("rows", from_arrow("payload", "id bigint")).select(F.inline("rows"))
print("columns", rows.agg({"id": "sum"}).first()[0])
grouped = frame.agg(F.collect_list(F.struct("id")).alias("rows")).select(to_arrow("rows").alias("payload"))
print("rows", grouped.select(F.inline(from_arrow("payload", "id bigint"))).agg({"id": "sum"}).first()[0])
messages.createOrReplaceTempView("messages")
spark.udf.register("rows_of", from_arrow_udf("id bigint"))
spark.udf.register("to_arrow", to_arrow_udf())
again = "SELECT inline(rows_of(to_arrow(rows_of(payload)))) FROM messages"
print("sql", spark.sql(f"SELECT sum(id) FROM ({again})").first()[0])
shared = share(spark.createDataFrame([(i, f"name {i}") for i in range(50)], "id long, name string"))

def names(batches):
    lookup = pa.table(shared.value)["name"].combine_chunks()
    for batch in batches:
        yield pa.record_batch({"name": lookup.take(batch["id"])})

print("shared", frame.mapInArrow(names, "name string").orderBy(F.desc("name")).first()[0], len(shared.value))
"""


@pytest.fixture
def port() -> Iterator[str]:
    """The port of a server that is a process of its own."""
    java = find_java()
    if java is None:
        pytest.skip(NO_JAVA)
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = str(free.getsockname()[1])
    settings = {"JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with start("-c", SERVER, number, env=environment() | settings, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield number
        server.stdin.close()
        server.wait(60)


def test_everything_works_from_a_client(tmp_path: Path, port: str) -> None:
    import pyarrow.parquet as pq

    batches = [pa.record_batch({"id": range(start, start + 10)}) for start in range(0, 50, 10)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    pq.write_table(pa.table({"payload": [stream(batch) for batch in batches]}), tmp_path / "messages.parquet")
    done = run_python(CLIENT, tmp_path, port, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert printed == [
        ["python", "1225"],
        ["jvm", "1225"],
        ["counted", "50 50"],
        *([name, "1225"] for name in ("payloads", "encoded", "columns", "rows", "sql")),
        ["shared", "name 9 50"],
    ]
