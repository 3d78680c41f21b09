"""Builds the library for 64-bit ARM on Debian for x86-64, and runs its tests in an emulated processor (QEMU).

``make arm64`` needs Debian's package index and PyPI, and no rights: compiler, emulator, the target's Python and the
libraries for tests are unpacked into ``build/arm64`` and stay there. The tests run folder by folder, each with a time
limit; a line shows the result of each, and ``build/arm64/logs`` has the output. ``--smoke`` only tries that the library
works at all.

The exit status is 1 if something failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "arm64"
HOST, TARGET, VENV, LOGS = WORK / "host", WORK / "target", WORK / "venv", WORK / "logs"
VERSION = f"3.{sys.version_info[1]}"
TRIPLE = "aarch64-linux-gnu"
PYTHON = VENV / "bin/python"
SITE = VENV / f"lib/python{VERSION}/site-packages"

#: The packages that are unpacked: programs for this machine, and a Python with its headers for the other one.
PROGRAMS = (f"gcc-{TRIPLE}", "qemu-user-static")
PACKAGES = (f"python{VERSION}", f"libpython{VERSION}-dev", "libstdc++6")
#: Libraries that the tests use if they are there; tests that need others are skipped.
LIBRARIES = (
    *("pytest", "pytest-benchmark", "hypothesis", "flatbuffers", "fsspec", "numpy", "pyarrow", "scipy"),
    *("pandas", "lz4", "zstandard", "backports.zstd" if sys.version_info < (3, 14) else "", "click", "rich"),
)
#: The platforms of wheels that are installed, the one of the newest glibc first.
POLICIES = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_17", "manylinux2014")

#: Parts of the tests: their folders, and the options of pytest for them.
QUICK = ("-m", "not (slow or spark or nosanitize)")
FOLDERS = ("inline", "metadata", "columns", "decode", "encode", "cdata", "values", "derived", "tensors", "payloads")
SLOWER = ("laws", "checklist", "hostile")
PEERS = ("tests/peers/test_golden.py", "tests/peers/test_golden_written.py", "tests/peers/test_writers.py")
#: Tests that fail because of QEMU: it keeps descriptors of a message beyond those that fit, and is too slow to find a
#: hang in time.
EMULATION = (
    "--deselect=tests/hostile/test_dissociated.py::test_d090_a_server_survives_any_client",
    "--deselect=tests/hostile/test_fuzz.py::test_the_fuzzer_finds_planted_bugs",
)
PARTS: dict[str, tuple[str, ...]] = {
    **{name: (f"tests/{name}", *QUICK, *EMULATION) for name in FOLDERS + SLOWER},
    "golden": (*PEERS, *QUICK),
    "mutants": ("tests/hostile/test_fuzz.py", "-k", "mutants_give", "-s"),
}
#: Examples of each law, mutants of each of 35 targets in the last part (20,000), and minutes of each part: an emulated
#: processor is 10 to 30 times as slow.
EXAMPLES, MUTANTS, MINUTES = 12, 700, 60


def run(command: Sequence[str | Path], **changes: str) -> None:
    """Run a command in the checkout; if it fails, print its output and exit."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **changes}, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-5000:], done.stderr[-20000:], sep="\n")
        sys.exit(f"arm64: {Path(command[0]).name} failed ({done.returncode})")


def unpack(folder: Path, architecture: str, status: Path, packages: tuple[str, ...]) -> None:
    """Download Debian packages with all that they need and `status` does not list, and unpack them into a folder."""
    done = folder / ".packages"
    wanted = " ".join(packages)
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    state = WORK / "apt" / architecture
    shutil.rmtree(state, ignore_errors=True)
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True)
    release = platform.freedesktop_os_release()
    mirror = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
    (state / "sources.list").write_text(f"deb {mirror} {release['VERSION_CODENAME']} main\n")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": status,
        "Dir::Cache": state,
        "Dir::Cache::archives": state / "archives",
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Binary::apt-get::APT::Keep-Downloaded-Packages": "1",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    run([*command, "update"])
    run([*command, "install", "--yes", "--no-install-recommends", "--download-only", *packages])
    for package in sorted((state / "archives").glob("*.deb")):
        run(["dpkg", "-x", package, folder])
    shutil.rmtree(state / "archives")
    done.write_text(wanted)


def make_python() -> None:
    """Make a virtual environment whose interpreter is a script that starts the emulator, and install the libraries."""
    done = VENV / ".libraries"
    wanted = " ".join(filter(None, LIBRARIES))
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(VENV, ignore_errors=True)
        PYTHON.parent.mkdir(parents=True)
        # Without binfmt, the kernel cannot run the other processor's programs: tests start this script.
        words = f"exec '{HOST}/usr/bin/qemu-aarch64-static' -L '{TARGET}' -0 \"$0\" '{TARGET}/usr/bin/python{VERSION}'"
        PYTHON.write_text(f'#!/bin/sh\n{words} "$@"\n')
        PYTHON.chmod(0o755)
        (VENV / "pyvenv.cfg").write_text(f"home = {TARGET}/usr/bin\ninclude-system-site-packages = false\n")
        platforms = [f"--platform={policy}_aarch64" for policy in POLICIES]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--target", SITE]
        command += ["--only-binary=:all:", *platforms, f"--python-version={VERSION}", *wanted.split()]
        run(command)
        done.write_text(wanted)


def build() -> Path:
    """Build the wheel with the cross compiler, unpack it into the environment, and return its path."""
    include = f"{TARGET}/usr/include"
    flags = f"--sysroot={TARGET} -I{include}/python{VERSION} -I{include}/{TRIPLE}/python{VERSION} -I{include}"
    compiler = f"{shutil.which('ccache') or ''} {HOST}/usr/bin/{TRIPLE}-gcc {flags}"
    alone = WORK / "sysconfig"  # this file alone: the rest of the target's library is not for our interpreter
    alone.mkdir(exist_ok=True)
    name = f"_sysconfigdata__{TRIPLE}"
    shutil.copy2(TARGET / f"usr/lib/python{VERSION}/{name}.py", alone)
    dist = WORK / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run(
        [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", dist],
        PYTHONPATH=str(alone),
        _PYTHON_SYSCONFIGDATA_NAME=name,
        _PYTHON_HOST_PLATFORM="linux-aarch64",
        CC=compiler,
        LDSHARED=f"{compiler} -shared",
        LD_LIBRARY_PATH=f"{HOST}/usr/lib/x86_64-linux-gnu",  # libraries of the cross assembler and linker
    )
    (wheel,) = dist.glob("*.whl")
    shutil.rmtree(SITE / "arrowipc", ignore_errors=True)
    zipfile.ZipFile(wheel).extractall(SITE)
    return wheel


def attempt(name: str, arguments: tuple[str, ...]) -> bool:
    """Run some tests; print what pytest concluded, and return whether all passed."""
    log = LOGS / f"{name}.log"
    started = time.monotonic()
    environment = {
        **os.environ,
        "ARROWIPC_EXAMPLES": str(EXAMPLES),
        **({"ARROWIPC_MUTANTS": str(MUTANTS)} if name == "mutants" else {}),
        "PYTHONSAFEPATH": "1",
    }
    command = [PYTHON, "-m", "pytest", "-q", "--benchmark-disable", "-p", "no:cacheprovider", *arguments]
    with log.open("w") as out:
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=out, stderr=out, timeout=60 * MINUTES
            ).returncode
        except subprocess.TimeoutExpired:
            done = None
    lines = log.read_text(errors="replace").splitlines() or [""]
    concluded = f"longer than {MINUTES} minutes" if done is None else re.sub("^=+ | =+$", "", lines[-1])
    verdict = "passed" if done == 0 else "FAILED"
    print(f"{name:9} {verdict}  {time.monotonic() - started:5.0f} s  {concluded}", flush=True)
    return done == 0


def main() -> int:
    """Build, and run the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"default: all of {' '.join(PARTS)}")
    parser.add_argument("--smoke", action="store_true", help="only try that it works at all")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {' '.join(sorted(unknown))}; there are {' '.join(PARTS)}")
    release = platform.freedesktop_os_release() if sys.platform == "linux" else {}
    if release.get("ID") != "debian" or platform.machine() != "x86_64":
        parser.error("compiler, emulator and Python come from Debian's index for x86-64, and this machine is not one")
    LOGS.mkdir(parents=True, exist_ok=True)
    unpack(HOST, "amd64", Path("/var/lib/dpkg/status"), PROGRAMS)
    unpack(TARGET, "arm64", Path("/dev/null"), PACKAGES)
    make_python()
    wheel = build()
    library = next(SITE.glob("arrowipc/_core.*.so"))
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, the library {library.stat().st_size / 1e6:.2f} MB")
    subprocess.run([PYTHON, "-I", ROOT / "tools/smoke.py", WORK], check=True, timeout=120)
    if options.smoke:
        return 0
    verdicts = [attempt(name, PARTS[name]) for name in options.parts or PARTS]
    return int(not all(verdicts))


if __name__ == "__main__":
    sys.exit(main())
