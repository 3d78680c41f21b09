"""Runs the steps of one page, in an environment of its own; needs the standard library only.

``python clean_page.py STEPS.json``: a list of ``["install", [word, ...]]``, ``["command", "line"]`` and
``["python", "code", "expected output" or null, "where"]``. ``PIP`` in the environment is the pip to install with. What
fails is printed, and the exit status is 1.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def install(words: list[str]) -> str | None:
    command = [*shlex.split(os.environ["PIP"]), "--python", sys.executable, "install", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    return None if done.returncode == 0 else done.stdout + done.stderr


def command(line: str) -> str | None:
    program, *words = shlex.split(line)
    path = Path(sys.executable).parent / program
    done = subprocess.run([path, *words], capture_output=True, text=True, check=False, timeout=120)
    return None if done.returncode == 0 else done.stdout + done.stderr


def python(namespace: dict[str, Any], code: str, expected: str | None) -> str | None:
    starts_its_own = re.search(r"^spark = ", code, re.MULTILINE)
    if "spark" in code and not starts_its_own and "spark" not in namespace and importlib.util.find_spec("pyspark"):
        from pyspark.sql import SparkSession

        namespace["spark"] = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "page", "exec", dont_inherit=True), namespace)
    except BaseException:
        return traceback.format_exc()
    if expected is None or doctest.OutputChecker().check_output(expected, printed.getvalue(), OPTIONS):
        return None
    return f"expected:\n{expected}\nprinted:\n{printed.getvalue()}"


def main() -> int:
    if not sys.flags.safe_path:
        sys.path[0] = ""  # as in a Python that somebody starts in this folder
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for kind, what, *rest in json.loads(Path(sys.argv[1]).read_text()):
        if kind == "install":
            problem = install(what)
        elif kind == "command":
            problem = command(what)
        else:
            problem = python(namespace, what, rest[0])
        if problem:
            print(f"{rest[-1] if rest else what}: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
