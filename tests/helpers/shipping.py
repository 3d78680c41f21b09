"""The package as Spark's executors get it: the wheel as an archive, or a whole environment packed up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import arrowipc

DIST = Path(__file__).resolve().parents[2] / "dist"
#: What a Python worker imports for mapInArrow and for our data source, Spark's own Python apart.
NEEDED = ("pyarrow", "numpy")
#: What the driver imports besides.
ON_THE_DRIVER = ("pandas", "python-dateutil", *(["six"] if find_spec("six") else []))


def wheel_archive(directory: Path) -> Path:
    """Write the wheel under a name that Spark unpacks; or what is installed, where none was built."""
    archive = directory / "arrowipc.zip"
    wheels = sorted(DIST.glob(f"arrowipc-{arrowipc.__version__}-*.whl"))
    if wheels:
        shutil.copy(wheels[-1], archive)
        return archive
    package = Path(arrowipc.__file__).parent
    with zipfile.ZipFile(archive, "w") as zipped:
        for parent, _, names in os.walk(package, followlinks=True):
            for name in names:
                if name.endswith((".py", ".so")):
                    path = Path(parent, name)
                    zipped.write(path, Path("arrowipc") / path.relative_to(package))
        zipped.write(package.parent / "pyspark_arrowipc.py", "pyspark_arrowipc.py")
    return archive


def packed_environment(directory: Path) -> Path:
    """Make a virtual environment with arrowipc and what it needs, and pack it with venv-pack."""
    import venv_pack

    environment = directory / "environment"
    site = _new_environment(environment)
    unused = shutil.ignore_patterns("tests", "*.h", "*.pyc")
    for path in _parts_of(*NEEDED, *ON_THE_DRIVER):
        if path.is_dir():
            shutil.copytree(path, site / path.name, ignore=unused)
        else:
            shutil.copy(path, site / path.name)
    with zipfile.ZipFile(wheel_archive(directory)) as zipped:
        zipped.extractall(site)
    packed = directory / "environment.tar.gz"
    venv_pack.pack(prefix=str(environment), output=str(packed), compress_level=1)
    return packed


def bare_environment(directory: Path) -> Path:
    """Pack an environment with all that is needed but arrowipc: links, which lead somewhere on this machine only."""
    environment = directory / "bare"
    site = _new_environment(environment)
    for path in _parts_of(*NEEDED):
        (site / path.name).symlink_to(path)
    packed = directory / "bare.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(environment, ".")
    return packed


def _new_environment(path: Path) -> Path:
    """Make an empty environment; returns where its packages go."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    return path / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"


def _parts_of(*names: str) -> Iterator[Path]:
    """The folders and modules of installed distributions."""
    for name in names:
        files = distribution(name).files
        assert files is not None
        root = Path(str(distribution(name).locate_file("")))
        tops = {file.parts[0] for file in files} - {"..", "__pycache__"}
        yield from (root / top for top in sorted(tops) if (root / top).is_dir() or top.endswith(".py"))
