"""How long does the import take, how long until a first file is read, and how much is installed?

Measured in fresh interpreters that take turns, each telling how long the statements took by its own clock, with the
files in the page cache. ``import arrowipc`` loads names when they are used, so the second case is what a user waits
for: from the import until a small file is read to Python values.

Installed size: what pip writes for the package itself, with the ``.pyc`` files that it makes, without dependencies. A
checkout's sources and other caches are not counted.
"""

from __future__ import annotations

import importlib.util
import marshal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import children, data
from benchmarks.harness import Case, Fact, Scale

TITLE = "import, first file, installed size"

#: Package -> how it reads the file at `path` to Python values.
FIRST = {
    "pyarrow": "import pyarrow.ipc; pyarrow.ipc.open_file(path).read_all().to_pydict()",
    "arrowipc": "import arrowipc; arrowipc.open(path).read_all().to_pydict()",
    "polars": "import polars; polars.read_ipc(path).to_dict(as_series=False)",
    "arro3": "import arro3.io; [column.to_pylist() for column in arro3.io.read_ipc(path).read_all().columns]",
}
IMPORTED = {"arro3": "arro3.io"}
FOLDERS = {"arro3": ("arro3.core", "arro3.io")}

#: What a wheel of ours holds.
SUFFIXES = (".py", ".pyi", ".so", ".pyd", ".jar", ".html", "py.typed")


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """Time to import, time to read a first file, bytes installed."""
    names = [name for name in FIRST if importlib.util.find_spec(name) is not None]
    names = [name for name in names if name != "arro3" or importlib.util.find_spec("arro3.io") is not None]
    statements = {name: f"import {IMPORTED.get(name, name)}" for name in names}
    goal: dict[str, Any] = {"at_most": 0.015, "row": "import"}
    runs = {name: children.seconds(statement) for name, statement in statements.items()}
    yield Case("import", "process", 1, runs, timed=True, named=True, **goal)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "first.arrow")
        path.write_bytes(data.file([data.mixed_batch(10)]))
        firsts = {name: children.seconds(FIRST[name], f"path = {str(path)!r}") for name in names}
        goal |= {"at_most": 0.003, "row": "first file"}
        yield Case("import and read a first file", "process", 1, firsts, timed=True, named=True, **goal)
    sizes = {name: [float(installed(name))] for name in names}
    yield Fact("installed size", sizes, at_most=6e6, row="installed", named=True)


def installed(name: str) -> int:
    """Return the bytes of a package's own files."""
    total = 0
    for module in FOLDERS.get(name, (name,)):
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        total += size(Path(spec.origin).parent, ours=name == "arrowipc")
    if name == "polars":
        # polars keeps its compiled code in packages of their own.
        total += sum(size(folder) for folder in runtime_folders())
    return total


def runtime_folders() -> list[Path]:
    """Return the folders of polars' compiled code."""
    spec = importlib.util.find_spec("polars")
    assert spec is not None
    assert spec.origin is not None
    return sorted(Path(spec.origin).parent.parent.glob("_polars_runtime*"))


def size(folder: Path, ours: bool = False) -> int:
    """Return the bytes of installed files, and of the ``.pyc`` files that pip makes of them.

    Our checkout also holds sources and what a build leaves behind, and has no ``.pyc`` files but of what was imported.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    if ours:
        files = [path for path in files if "__pycache__" not in path.parts and path.name.endswith(SUFFIXES)]
        return sum(path.stat().st_size + (bytecode(path) if path.suffix == ".py" else 0) for path in files)
    return sum(path.stat().st_size for path in files)


def bytecode(path: Path) -> int:
    """Return the bytes of the ``.pyc`` file of a Python file."""
    return 16 + len(marshal.dumps(compile(path.read_bytes(), path, "exec")))
