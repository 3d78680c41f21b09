"""A session of Spark for a file of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def spark_session(jar: bool = False) -> Any:
    """Return a fixture of a session with two tasks at a time; a test skips without PySpark, Java or the jar."""

    @pytest.fixture(scope="module")
    def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        pytest.importorskip("pyspark")
        from arrowipc.spark import find_jar
        from arrowipc.spark.java import NO_JAVA, find_java
        from arrowipc.spark.local_session import start_session

        if find_java() is None:
            pytest.skip(NO_JAVA)
        if jar and not find_jar():
            pytest.skip("there is no jar: python -m arrowipc.spark.jar says why")
        with start_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
            yield session

    return spark
