"""The same suite, read by the JVM: schemas, values and errors are those of the Python source; then what is its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from spark.test_filters import *  # noqa: F403
from spark.test_folders import *  # noqa: F403
from spark.test_planning import *  # noqa: F403
from spark.test_read_modes import *  # noqa: F403
from spark.test_source import *  # noqa: F403
from spark.test_types import *  # noqa: F403

from arrowipc.spark import find_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(find_jar() is None, reason="no jar was built: make jar, with a JDK"),
]


@pytest.fixture(scope="module", autouse=True)
def _by_the_jvm(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.arrowipc.engine", "auto")
    yield
    spark.conf.set("spark.arrowipc.engine", "python")
