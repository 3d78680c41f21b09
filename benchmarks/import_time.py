"""How long does the import take, how long until a first batch is read, and how much is installed?

Measured in fresh interpreters that take turns, each telling how long the statements took by its own clock,
with the files in the page cache. ``import arrowipc`` loads names when they are used, so the second case
counts until a stream of one batch was read, from the import on.

Installed size: the files of the package itself (its own folder, without ``__pycache__``), not its
dependencies; a checkout's sources and caches are not counted either.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import children, data
from benchmarks.harness import Case, Fact, Scale

TITLE = "import, first batch, installed size"

#: Package -> how it reads the first batch of the stream `data`.
FIRST = {
    "pyarrow": "import pyarrow.ipc; pyarrow.ipc.open_stream(data).read_next_batch()",
    "arrowipc": "import arrowipc; arrowipc.open_stream(data).read_next_batch()",
    "nanoarrow": "import nanoarrow, nanoarrow.ipc as n; "
    "next(iter(nanoarrow.c_array_stream(n.InputStream.from_readable(data))))",
    "polars": "import polars; polars.read_ipc_stream(data)",
    "arro3": "import io, arro3.io; next(iter(arro3.io.read_ipc_stream(io.BytesIO(data))))",
}
IMPORTED = {"arro3": "arro3.io"}
FOLDERS = {"arro3": ("arro3.core", "arro3.io")}

#: What a wheel of ours holds.
SUFFIXES = {".py", ".pyi", ".so", ".pyd"}


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """Time to import, time to the first batch, bytes installed."""
    names = [name for name in FIRST if importlib.util.find_spec(name) is not None]
    names = [name for name in names if name != "arro3" or importlib.util.find_spec("arro3.io") is not None]
    statements = {name: f"import {IMPORTED.get(name, name)}" for name in names}
    goal: dict[str, Any] = {"at_most": 0.015, "row": "import"}
    runs = {name: children.seconds(statement) for name, statement in statements.items()}
    yield Case("import", "process", 1, runs, timed=True, named=True, **goal)
    setup = f"data = bytes.fromhex({data.stream([data.mixed_batch(10)]).hex()!r})"  # imports nothing
    goal |= {"at_most": 0.003, "row": "first batch"}
    firsts = {name: children.seconds(FIRST[name], setup) for name in names}
    yield Case("import and read a first batch", "process", 1, firsts, timed=True, named=True, **goal)
    sizes = {name: [float(installed(name))] for name in names}
    yield Fact("installed size", sizes, at_most=5 * 2**20, row="installed", named=True)


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
    """Return the bytes of installed files; our checkout also holds sources and what a build leaves behind."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sum(path.stat().st_size for path in files if not ours or path.suffix in SUFFIXES or path.name == "py.typed")
