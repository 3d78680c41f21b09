"""Plants faults in a copy of the library, one after the other, and says which of them no test notices.

``make plant`` tries all faults of ``tools/faults.toml``, ``make plant ARGS="'a name' 'another name'"`` some. A fault is
a text of a source file, its replacement, and the tests that must fail with it. These tests are run without any
fault first. Copies, which are built in place, are in ``build/plant``; the checkout is not changed.

The exit status is 1 if a fault was not noticed, and 2 if the table is wrong: a text is not there exactly once, a fault
does not compile, a test does not run, takes too long, or fails without the fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "faults.toml"
WORK = ROOT / "build" / "plant"
JAR = "arrowipc/spark/arrowipc-spark.jar"
#: Folders that git does not list, with which a build in place compiles only what has changed.
BUILT = ("build/c", "build/release")
#: Python's arguments to build each kind of file.
COMMANDS = {
    "compiled": ("setup.py", "-q", "build_ext", "--inplace"),
    "jar": ("-m", "arrowipc.spark.jar", "--to", JAR),
}
#: Seconds for the tests of one fault, and for a build; anything that takes longer counts as a hang.
LONGEST_TESTS, LONGEST_BUILD = 600, 1800
#: Exit statuses of pytest; a negative one is the signal that ended it.
PASSED, FAILED = 0, 1


class TableError(Exception):
    """The table is wrong; the message names the fault and the reason."""


@dataclass(frozen=True)
class Fault:
    """One line, or a few, of a file of the library, and their replacement."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def check(self) -> None:
        """Raise a TableError if the fault cannot be planted in the checkout."""
        path = ROOT / self.file
        count = path.read_text().count(self.text) if path.is_file() else 0
        if count != 1:
            raise TableError(f"{self.name}: its text is in {self.file} {count} times, and has to be there once")
        missing = [each for each in self.tests if not (ROOT / each.partition("::")[0]).is_file()]
        if missing or not self.tests or self.text == self.instead:
            raise TableError(f"{self.name}: it names tests that are not there, no tests, or changes nothing: {missing}")


def read_table() -> list[Fault]:
    """Return all faults, checked against the checkout."""
    entries = tomllib.loads(TABLE.read_text())["fault"]
    faults = [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    names = [fault.name for fault in faults]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TableError(f"two faults have the name {twice.pop()!r}")
    for fault in faults:
        fault.check()
    return faults


def kind_of(file: str) -> str:
    """The key in `COMMANDS` of what must be built if a file changes; another text if nothing must be built."""
    return "jar" if file.startswith("jvm/") else "compiled" if file.endswith((".pyx", ".pxd")) else "nothing"


class Copy:
    """A copy of the checkout, which is built in place and made whole again after each fault."""

    def __init__(self, folder: Path, source: Path, files: list[str]) -> None:
        self.folder = folder
        self._source = source
        self._files = files

    def restore(self) -> None:
        """Restore each file that has changed, with its time, so that a build finds nothing else to do."""
        for name in self._files:
            source, target = self._source / name, self.folder / name
            if not target.is_file() or source.stat().st_mtime_ns != target.stat().st_mtime_ns:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def build(self, kind: str) -> None:
        """Build a kind of `COMMANDS`, nothing for another kind; raise a TableError if that fails."""
        if kind in COMMANDS:
            status, printed = self._run(LONGEST_BUILD, *COMMANDS[kind])
            if status != 0:
                raise TableError(f"it cannot be built:\n{printed[-3000:]}")

    def test(self, tests: list[str], *options: str) -> tuple[int | None, str]:
        """Run tests; return the exit status, None if they took too long, and what they printed."""
        longest = LONGEST_BUILD if options else LONGEST_TESTS
        quiet = ("-q", "--benchmark-disable", "-p", "no:cacheprovider", *(options or ("-x", "-n", "0")))
        return self._run(longest, "-m", "pytest", *quiet, *tests)

    def _run(self, seconds: int, *words: str) -> tuple[int | None, str]:
        """Run Python on this copy; return its status, None if that took too long, and what it printed."""
        given = {
            "PYTHONPATH": str(self.folder),
            "PYTHONSAFEPATH": "1",
            "XDG_CACHE_HOME": str(self.folder / "build/cache"),
        }
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"not done after {seconds} s"
        finally:
            # Also end processes that the tests started and did not end, such as Java.
            _end_session(process)
        return process.returncode, printed


def _end_session(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _files_of_checkout() -> list[str]:
    """The names of all files that git tracks or would add, and of files that a build left."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    found = [name for name in listed if (ROOT / name).is_file()]
    return found + _built(ROOT)


def _built(folder: Path) -> list[str]:
    paths = [path for name in BUILT for path in (folder / name).rglob("*")]
    paths += [*(folder / "arrowipc").glob("*.so"), folder / JAR]
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def _copies(count: int, kinds: set[str]) -> list[Copy]:
    """Build a copy of the checkout without any fault, and make others from it."""
    shutil.rmtree(WORK, ignore_errors=True)
    files = _files_of_checkout()
    whole = Copy(WORK / "whole", ROOT, files)
    whole.restore()
    for kind in kinds:
        whole.build(kind)
    files = [*dict.fromkeys(files + _built(whole.folder))]
    return [Copy(WORK / str(number), whole.folder, files) for number in range(count)]


def _try(fault: Fault, copy: Copy) -> str | None:
    """Plant one fault; return which test noticed it, None if none did."""
    copy.restore()
    path = copy.folder / fault.file
    path.write_text(path.read_text().replace(fault.text, fault.instead))
    copy.build(kind_of(fault.file))
    status, printed = copy.test(list(fault.tests))
    if status == PASSED:
        return None
    if status is None or status > FAILED:
        raise TableError(f"its tests do not run to their end (status {status}):\n{printed[-3000:]}")
    failed = re.search(r"^FAILED (\S+)", printed, re.MULTILINE)
    return failed[1] if failed is not None else f"status {status}"


def plant(faults: list[Fault], side_by_side: int) -> int:
    """Plant faults, in `side_by_side` copies at once; return the exit status."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    made = _copies(side_by_side, {"compiled", *[kind_of(fault.file) for fault in faults]})
    for each in made:
        each.restore()
        copies.put(each)
    tests = sorted({test for fault in faults for test in fault.tests})
    print(f"{len(faults)} faults; first their tests without them", flush=True)
    status, printed = made[0].test(tests, "-n", str(side_by_side), "--dist", "loadfile")
    if status != PASSED:
        raise TableError(f"tests fail without any fault (status {status}):\n{printed[-3000:]}")

    unnoticed: list[str] = []
    mistakes: list[str] = []

    def run(fault: Fault) -> None:
        copy, begun = copies.get(), time.monotonic()
        try:
            outcome = _try(fault, copy)
            if outcome is None:
                unnoticed.append(f"nobody noticed: {fault.name} ({fault.file})")
        except TableError as error:
            outcome = "the table is wrong"
            mistakes.append(f"{fault.name}: {error}")
        finally:
            copies.put(copy)
        print(f"{time.monotonic() - begun:4.0f} s  {fault.name}: {outcome or 'NOBODY NOTICED'}", flush=True)

    with ThreadPoolExecutor(side_by_side) as threads:
        list(threads.map(run, faults))
    print(
        "", f"{len(faults) - len(unnoticed) - len(mistakes)} of {len(faults)} faults were noticed", *unnoticed, sep="\n"
    )
    if mistakes:
        raise TableError("\n".join(mistakes))
    return 1 if unnoticed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make plant", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="faults by their names, or parts of them; default: all")
    parser.add_argument("--list", action="store_true", help="check the table, and print the names of the faults")
    parser.add_argument("--side-by-side", type=int, default=2, metavar="N", help="how many are tried at once (0: one)")
    given = parser.parse_args()
    try:
        faults = [fault for fault in read_table() if any(each in fault.name for each in given.names or [""])]
        if given.list or not faults:
            print("\n".join(fault.name for fault in faults) or "no fault has such a name")
            return 0 if faults else 2
        return plant(faults, max(given.side_by_side, 1))
    except TableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
