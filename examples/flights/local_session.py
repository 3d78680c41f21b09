"""Starts a Spark session for a command: finds Java, keeps the console quiet, sets what a local run needs."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from arrowipc.errors import UsageError
from arrowipc.spark.java import NO_JAVA, find_java
from arrowipc.spark.sessions import configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start_session"]

GIB = 1 << 30


@contextlib.contextmanager
def start_session(master: str, log: Path) -> Iterator["SparkSession"]:
    """Run Spark while the context lasts; a session that is active already is lent and left running.

    Parameters
    ----------
    master : str
        As for ``spark-submit --master``.
    log : Path
        Receives what Spark's Java process and the Python workers of a local run write to standard error.

    Raises
    ------
    UsageError
        If there is no Java that Spark can run on.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    java = find_java()
    if java is None:
        raise UsageError(NO_JAVA)
    os.environ["JAVA_HOME"] = java
    # Spark would take the first python3 on PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    builder = configure(_builder(master))  # what it says is for the user, not for the log
    with _stderr_to(log):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        with _stderr_to(log):
            spark.stop()


def _builder(master: str) -> "SparkSession.Builder":
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("arrowipc")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "WARN")
        # What everybody else reads; the default is a 96-bit type that Parquet has given up.
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    )
    if master.startswith("local"):
        # One machine: shuffles into a partition per core, and memory shared with the Python workers.
        builder = (
            builder.config("spark.driver.memory", f"{_driver_memory()}m")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", str(max(2, min(os.cpu_count() or 2, 16))))
        )
    return builder


def _driver_memory() -> int:
    """MiB for the Java heap: a third of the machine, at most 8 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2048
    return max(1024, min(8 * GIB, total // 3) >> 20)


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Point standard error of this process, which a child inherits, at a file for a while."""
    sys.stderr.flush()
    log.parent.mkdir(parents=True, exist_ok=True)
    saved = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
