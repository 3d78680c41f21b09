"""Starts a Spark session for a command: finds Java, keeps the console quiet, sets what a local run needs."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from arrowipc.errors import UsageError
from arrowipc.spark.jar import find_jar
from arrowipc.spark.java import NO_JAVA, find_java
from arrowipc.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def start_session(master: str, log: Path) -> Iterator["SparkSession"]:
    """Run Spark while the context lasts; a session that is active already is used, and left running.

    ``log`` receives what Spark's Java process and the Python workers of a local run write to standard error.
    Without a Java that Spark can run on, it is a `UsageError`.
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
    find_jar()  # what it says while it builds the jar is for the user, not for the log
    with _stderr_to(log):
        spark = session(master, _settings(master))
    try:
        yield spark
    finally:
        with _stderr_to(log):
            spark.stop()


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.app.name": "arrowipc",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
        # What other readers expect; the default is a 96-bit type that Parquet has deprecated.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.memory": "2g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, min(os.cpu_count() or 2, 16))),
        }
    return settings


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
