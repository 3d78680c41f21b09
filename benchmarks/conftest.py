"""Benchmarks under pytest-benchmark: ``pytest benchmarks`` measures, with ``--benchmark-disable`` it only tests."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from measuring import race

#: Libraries would use as many threads as each thinks right; the comparison is made for a machine of two processors.
PROCESSORS = 2
PACKAGES = (
    *("arrowipc", "pyarrow", "nanoarrow", "polars", "arro3-core", "arro3-io", "numpy", "zstandard", "backports.zstd"),
    *("lz4", "datasets", "pylance", "vortex-data", "torch", "pyspark"),
)
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
}


def pytest_configure(config: Any) -> None:
    race.QUICK = config.getoption("benchmark_disable") or config.getoption("collectonly")
    if not race.QUICK and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.nosanitize)  # other libraries, and their thread pools


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    found = {each.metadata["name"]: each.version for each in importlib.metadata.distributions()}
    machine_info["versions"] = {name: found[name] for name in PACKAGES if name in found}
    machine_info["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that goes with the case: some files have a gigabyte."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session with two tasks at a time; a test skips without PySpark or Java."""
    pytest.importorskip("pyspark")
    from arrowipc.spark import session
    from arrowipc.spark.java import NO_JAVA, find_java

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", find_java() or pytest.skip(NO_JAVA))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        started = session("local[2]", SPARK)
        yield started
        started.stop()
