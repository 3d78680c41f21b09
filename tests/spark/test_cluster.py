"""Executors that are processes of their own get the package as an archive, compiled modules and all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.arrow_columns import file, stream

import arrowipc
from arrowipc.spark.java import NO_JAVA, find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
import sys
from pyspark.sql import SparkSession
from arrowipc.spark import decode_payloads, register
import pyarrow as pa

archive, data = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.archives", archive + "#shipped")
    .config("spark.executorEnv.PYTHONPATH", "./shipped")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
register(spark)

def where(batches):
    import arrowipc._core
    for batch in batches:
        yield pa.record_batch({"path": [arrowipc._core.__file__]})

paths = [row[0] for row in spark.range(0, 2, 1, 2).mapInArrow(where, "path string").collect()]
print("paths", all("shipped" in path for path in paths), paths)
frame = spark.read.format("arrowipc").option("batchesPerPartition", 1).load(data + "/x.arrow")
print("files", frame.rdd.getNumPartitions(), frame.agg({"id": "sum"}).collect()[0][0])
messages = spark.read.parquet(data + "/messages.parquet").repartition(2)
print("payloads", decode_payloads(messages, "payload").agg({"id": "sum"}).collect()[0][0])
spark.stop()
"""


def test_the_package_travels_to_the_executors(tmp_path: Path) -> None:
    java = find_java()
    if java is None:
        pytest.skip(NO_JAVA)
    import pyarrow.parquet as pq
    import pyspark

    batches = [pa.record_batch({"id": range(start, start + 10)}) for start in range(0, 50, 10)]
    (tmp_path / "x.arrow").write_bytes(file(*batches))
    pq.write_table(pa.table({"payload": [stream(batch) for batch in batches]}), tmp_path / "messages.parquet")
    archive = tmp_path / "arrowipc.zip"
    package = Path(arrowipc.__file__).parent
    with zipfile.ZipFile(archive, "w") as zipped:
        for directory, _, names in os.walk(package, followlinks=True):
            for name in names:
                if name.endswith((".py", ".so")):
                    path = Path(directory, name)
                    zipped.write(path, Path("arrowipc") / path.relative_to(package))
    work = Path(pyspark.__file__).parent / "work"
    existed = work.exists()
    environment = {**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable}
    try:
        done = subprocess.run(
            [sys.executable, "-c", JOB, str(archive), str(tmp_path)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        if not existed:
            shutil.rmtree(work, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "paths True" in done.stdout
    assert "files 5 1225" in done.stdout
    assert "payloads 1225" in done.stdout
