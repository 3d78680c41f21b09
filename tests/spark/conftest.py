"""The Spark session that the tests of arrowipc.spark and of the job on flights share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers import java
from helpers.arrow_columns import OLD_SPARK

from arrowipc.spark.java import NO_JAVA, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
#: Without PySpark no file here can be imported.
collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]
FLIGHTS = HERE.parents[1] / "examples" / "flights"
LACKING = re.compile(r".* needs PySpark .*|.*Literals of the type .TIME.*|.*`st_\w+`")
# The optimizing compiler of a JVM takes more time from these short jobs than it gives back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Where the modules of the job are; last, so that they hide nothing.
sys.path.append(str(FLIGHTS))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Let Spark and pandas warn: the settings that make warnings errors are meant for our own."""
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """Skip what an older PySpark lacks: the error says so, our own or that of its parser."""
    try:
        return (yield)
    except Exception as error:
        if OLD_SPARK and (lacks := LACKING.search(str(error))):
            pytest.skip(lacks[0].strip())
        raise


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores, with the jar; its log goes to a file."""
    if find_java() is None:
        pytest.skip(NO_JAVA)
    from arrowipc.spark import find_jar
    from local_session import start_session

    assert find_jar() is not None, "run python -m arrowipc.spark.jar, which says why there is no jar"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with start_session("local[2]", tmp_path_factory.mktemp("log") / "spark.log") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, Any], None]]:
    """Sets settings of the session; when the test ends, they are as before."""
    before: dict[str, Any] = {}

    def set_one(name: str, value: Any) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield set_one
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="session")
def python_format(spark: SparkSession) -> None:
    """The Python data source is in the session under `helpers.spark.FORMAT`, beside the jar."""
    from helpers.spark import register_python

    register_python(spark)


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[java.Core]:
    """The core in the jar, in one Java process for all tests."""
    try:
        found = java.Core(tmp_path_factory.mktemp("core"))
    except java.Missing as error:
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.fixture(params=["jvm", "python"])
def engine(request: pytest.FixtureRequest) -> str:
    """Where payloads are decoded: what is promised of them holds for both."""
    return str(request.param)
