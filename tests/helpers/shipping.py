"""The package as Spark's executors get it: the wheel as an archive, or a whole environment packed up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import arrowipc

DIST = Path(__file__).resolve().parents[2] / "dist"
#: What a Python worker imports for mapInArrow and for our data source, Spark's own Python apart.
NEEDED = ("pyarrow", "numpy")


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
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    version = sysconfig.get_python_version()
    site = environment / "lib" / f"python{version}" / "site-packages"
    for name in NEEDED:
        files = distribution(name).files
        assert files is not None
        root = Path(str(distribution(name).locate_file("")))
        for top in {file.parts[0] for file in files if file.parts[0] != ".."}:
            if (root / top).is_dir():
                unused = shutil.ignore_patterns("tests", "*.h", "*.pyc")
                shutil.copytree(root / top, site / top, ignore=unused)
    with zipfile.ZipFile(wheel_archive(directory)) as zipped:
        zipped.extractall(site)
    packed = directory / "environment.tar.gz"
    venv_pack.pack(prefix=str(environment), output=str(packed), compress_level=1)
    return packed
