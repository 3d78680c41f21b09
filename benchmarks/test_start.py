"""How long does the import take, how long until a first file is read, and how much is installed?

Measured in fresh interpreters that take turns, each telling how long the statements took by its own clock, with the
files in the page cache. ``import arrowipc`` loads names when they are used, so the second question is what a user waits
for: from the import until a small file is read to Python values.

Installed size: what pip writes for the package itself, with the ``.pyc`` files that it makes, without dependencies. A
checkout's sources and other caches are not counted.
"""

import importlib.util
import marshal
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest
from measuring import children, data
from measuring.race import Runs, question

#: Package -> what is imported, and how it reads the file at `path` to Python values.
PACKAGES = {
    "pyarrow": ("pyarrow", "import pyarrow.ipc; pyarrow.ipc.open_file(path).read_all().to_pydict()"),
    "arrowipc": ("arrowipc", "import arrowipc; arrowipc.open(path).read_all().to_pydict()"),
    "polars": ("polars", "import polars; polars.read_ipc(path).to_dict(as_series=False)"),
    "arro3": (
        "arro3.io",
        "import arro3.io; [column.to_pylist() for column in arro3.io.read_ipc(path).read_all().columns]",
    ),
}
#: What a process has loaded when the question is asked: nothing, or what an executor's worker has.
PROCESSES = {"a new process": "", "a worker of PySpark": "import pyspark.worker\n"}
FOLDERS = {"arro3": ("arro3.core", "arro3.io")}
#: What a wheel of ours holds.
SUFFIXES = (".py", ".pyi", ".so", ".pyd", ".jar", ".html", "py.typed")
INSTALLED = [name for name in PACKAGES if importlib.util.find_spec(name) is not None]


@question("`import`, a new process", PACKAGES, unit="process", timed=True)
def test_import() -> Runs:
    return {name: children.seconds(f"import {PACKAGES[name][0]}") for name in INSTALLED}


@question("`import` and read a first small file, {process}", PACKAGES, unit="process", timed=True)
@pytest.mark.parametrize("shape", [*data.SHAPES, "everyday"])
@pytest.mark.parametrize("process", PROCESSES)
def test_first_file(folder: Path, process: str, shape: str) -> Runs:
    path = Path(folder, "first.arrow")
    path.write_bytes(data.file([data.shaped(shape, 10)]))
    setup = f"{PROCESSES[process]}path = {str(path)!r}"
    return {name: children.seconds(PACKAGES[name][1], setup) for name in INSTALLED}


@question("installed size, with the `.pyc` files that pip makes", PACKAGES, unit="bytes")
def test_installed() -> Runs:
    return {name: partial(installed, name) for name in INSTALLED}


@question("processor time of `pip install .`", "arrowipc", unit="install", baseline="arrowipc", timed=True)
@pytest.mark.skipif("ARROWIPC_INSTALL" not in os.environ, reason="takes minutes: set ARROWIPC_INSTALL")
def test_pip_install(folder: Path) -> Runs:
    """Built in a copy of what is committed, by what is installed here, without a cache of compiled files."""
    archive = ["git", "-C", str(Path(__file__).parents[1]), "archive", "--format=tar", "HEAD"]
    subprocess.run(["tar", "-x", "-C", folder], input=subprocess.check_output(archive), check=True)
    command = [sys.executable, "-m", "pip", "install", ".", "-q", "--no-deps"]
    command += ["--no-build-isolation", "--target", "installed"]
    variables = {**os.environ, "CCACHE_DISABLE": "1"}
    variables.pop("CYTHON_CACHE_DIR", None)

    @cache
    def install() -> float:
        before = os.times()
        subprocess.run(command, cwd=folder, env=variables, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return {"arrowipc": install}


def installed(name: str) -> int:
    """Return the bytes of a package's own files, and of the ``.pyc`` files that pip makes of them."""
    folders = [Path(importlib.util.find_spec(module).origin).parent for module in FOLDERS.get(name, (name,))]
    if name == "polars":  # its compiled code is in packages of their own
        folders += folders[0].parent.glob("_polars_runtime*")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    if name != "arrowipc":
        return sum(path.stat().st_size for path in files)
    # Our checkout also holds sources and what a build leaves behind, and has no .pyc files but of what was imported.
    files = [path for path in files if "__pycache__" not in path.parts and path.name.endswith(SUFFIXES)]
    code = [compile(path.read_bytes(), path, "exec") for path in files if path.suffix == ".py"]
    return sum(path.stat().st_size for path in files) + sum(16 + len(marshal.dumps(each)) for each in code)
