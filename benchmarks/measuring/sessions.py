"""A session of Spark for a file of benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
}


def spark_session(jar: bool = False) -> Any:
    """Return a fixture of a session with two tasks at a time; a test skips without PySpark, Java or the jar."""

    @pytest.fixture(scope="module")
    def spark() -> Iterator[Any]:
        pytest.importorskip("pyspark")
        from arrowipc.spark import find_jar, session
        from arrowipc.spark.java import NO_JAVA, find_java

        found = find_java()
        if found is None:
            pytest.skip(NO_JAVA)
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setenv("JAVA_HOME", found)
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        if jar and not find_jar():
            pytest.skip("there is no jar: python -m arrowipc.spark.jar says why")
        started = session("local[2]", SETTINGS)
        yield started
        started.stop()
        monkeypatch.undo()

    return spark
