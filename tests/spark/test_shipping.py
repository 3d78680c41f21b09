"""What tasks need travels to executors, and one that lacks the package says what helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from arrowipc.spark import Shared, decode_payload_batches
from arrowipc.spark.shipping import shipped
from arrowipc.spark.source import ArrowIpcDataSource

pytestmark = pytest.mark.spark

LOAD = """
import pickle, sys
value = pickle.loads(sys.stdin.buffer.read())
value([])
"""


def load_without_the_package(data: bytes, folder: Path) -> str:
    """What a Python says that has PySpark and nothing else, while it loads a pickle."""
    for name in ("pyspark", "py4j"):
        (folder / name).symlink_to(Path(pyspark.__file__).parents[1] / name)
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOAD],
        input=data,
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr.decode()


@pytest.mark.parametrize("what", ["function", "reader", "writer", "shared"])
def test_an_executor_without_the_package_names_the_page_that_helps(what: str, tmp_path: Path) -> None:
    schema = StructType().add("id", "long")
    (tmp_path / "x.arrow").touch()
    values: dict[str, Any] = {
        "function": lambda: shipped(decode_payload_batches),  # type: ignore[arg-type]
        "reader": lambda: ArrowIpcDataSource({"path": str(tmp_path)}).reader(schema),
        "writer": lambda: ArrowIpcDataSource({"path": str(tmp_path / "out")}).writer(schema, False),
        "shared": lambda: Shared("token", 1, 2),
    }
    said = load_without_the_package(cloudpickle.dumps(values[what]()), tmp_path)
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {sys.executable} on ")
    assert "cannot import arrowipc" in last
    assert "docs/spark-deployment.md" in last
