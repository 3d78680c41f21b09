"""What users of Spark do with files, with this format and with Parquet: the same rows, schemas, files, plans."""

import difflib
import functools
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.processes import rounds
from helpers.twins import DIFFERENCES, FORMATS, TWINS

from arrowipc.spark import find_jar
from arrowipc.spark.java import NO_JAVA, find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

SCRIPT = Path(__file__).parents[1] / "helpers" / "twins.py"
OLD = "pyspark==4.0.1"
#: What is asked of executors in processes of their own.
SPREAD = (
    *("partitions_and_pruning", "metadata_of_files", "schemas_merged", "splits", "overwriting_partitions"),
    *("inserted", "buckets", "streams", "corrupt_files", "types", "user_defined_types", "payloads"),
)
#: For every change: twins that send objects, splits and commits to executors, and those that say most over Connect, ...
FAR = (
    *("partitions_and_pruning", "metadata_of_files", "splits", "streams", "corrupt_files"),
    *("columns_by_name", "overwriting_partitions", "inserted", "tables_altered", "payloads"),
)
#: ... and all others in a local session, which is the quickest.
NEAR = [name for name in TWINS if name not in FAR]
CLASSIC = ("user_defined_types",)  # what Connect does not have
#: Masters and their twins. A change runs each twin with one master at least; `make campaign` runs all with all.
WHERE = {
    "local": ("local[2]", rounds(NEAR, TWINS)),
    "old": ("local[2]", TWINS),
    "cluster": ("local-cluster[2,1,1024]", rounds((), SPREAD)),
    "connect": ("connect local[2]", rounds([], [name for name in TWINS if name not in CLASSIC])),
    "cluster over connect": ("connect local-cluster[2,1,1024]", rounds(FAR, ())),
}


Found = dict[str, dict[str, dict[str, str]]]


def run(folder: Path, asked: list[dict[str, str]], where: str) -> Found:
    """What the twins of a place found that are asked for."""
    java, jar = find_java(), find_jar()
    if java is None:
        pytest.skip(NO_JAVA)
    assert jar is not None, "there is no jar, and none can be built"
    folder = folder / where.replace(" ", "-")  # whose name is no pattern: Spark takes paths for globs
    folder.mkdir(exist_ok=True)
    master, _ = WHERE[where]
    names = [each["name"] for each in asked if each["where"] == where]
    if master.startswith("connect "):
        pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")
    python = old_python(folder) if where == "old" else sys.executable
    # PySpark alone: what is on the path of this process is not for another interpreter.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"JAVA_HOME": java, "PYSPARK_PYTHON": python, "SPARK_WORKER_DIR": str(folder / "work")}
    command = [python, str(SCRIPT), master, jar, str(folder), *names]
    with open(folder / "log", "w") as log:
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    assert done.returncode == 0, (folder / "log").read_text()[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["twin"]: line for line in lines}


def old_python(folder: Path) -> str:
    """An interpreter with an older PySpark: that of ARROWIPC_SPARK40, or one that `make campaign` makes."""
    named = os.environ.get("ARROWIPC_SPARK40")
    if named:
        return named
    if not rounds(0, 1):
        pytest.skip(f"ARROWIPC_SPARK40 names no interpreter with {OLD}; make campaign installs one")
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    command = [python, "-m", "pip", "install", "-q", OLD, "numpy", "pandas<3", "pyarrow"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{OLD} cannot be installed, and ARROWIPC_SPARK40 names no interpreter: {done.stderr[-300:]}")
    return python


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """Each place is run once, when it is first asked for."""
    asked = [each.callspec.params for each in request.session.items if each.path == request.path]
    return functools.cache(functools.partial(run, tmp_path_factory.mktemp("twins"), asked))


@pytest.mark.parametrize(
    ("where", "name"),
    [(where, name) for where, (_, names) in WHERE.items() for name in names],
)
def test_twins(runs: Callable[[str], Found], where: str, name: str) -> None:
    found = runs(where)[name]
    failed = {format: found[format]["failed"] for format in FORMATS if "failed" in found[format]}
    assert not failed, "\n".join(f"{format}: {text}" for format, text in failed.items())
    parquet, ours = (found[format]["found"] for format in FORMATS)
    if name not in DIFFERENCES:
        lines = difflib.unified_diff(parquet.splitlines(), ours.splitlines(), "parquet", "arrowipc", lineterm="", n=2)
        assert parquet == ours, "\n".join(lines)
    else:
        assert json.loads(ours) == DIFFERENCES[name]
        assert parquet != ours, "Parquet does the same: this is no difference any more"
