"""Runs scenarios while allocations fail, in a process under `c/failing_allocations.c`, and reports JSON lines.

Run as ``python -m hostile.failing_allocations MODE STEP NAME,...`` with the library preloaded. MODE says what fails:

* ``one``: one allocation of our compiled modules, the first, the second, and so on until none is left;
* ``rest``: that one and all that follow it;
* ``any``: as ``one``, and the interpreter's allocations count too (needs PYTHONMALLOC=malloc).

STEP: how many of the first allocations fail in turn; after as many, numbers rise by an eighth, in a
campaign by a sixteenth. 0: every one does.
"""

import ctypes
import faulthandler
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from helpers import memory, scenarios
from helpers.processes import FULL

import arrowipc as ipc

EVER = 2**62
#: Seconds after which an attempt hangs: the process then shows where, and ends.
PATIENCE = 120
REPEATS = 4
# Of these the interpreter takes part in "any": what other libraries allocate is not ours to survive.
INTERPRETER = ("libpython", "/python3")
unraisable: list[str] = []


class Allocator:
    """The preloaded library."""

    def __init__(self, everything: bool) -> None:
        self.library = ctypes.CDLL(None)
        self.library.failing_watch.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
        self.library.failing_arm.argtypes = [ctypes.c_long, ctypes.c_long]
        for name in ("failing_disarm", "failing_live"):
            getattr(self.library, name).restype = ctypes.c_long
        self.everything = everything
        self.arm, self.disarm = self.library.failing_arm, self.library.failing_disarm
        self.live = self.library.failing_live

    def watch(self) -> int:
        """Tell the library where the code lies that is loaded by now; returns how many modules are ours."""
        self.library.failing_forget_ranges()
        ours = 0
        with open("/proc/self/maps") as maps:
            for line in maps:
                extent, rights, *_, path = line.split(maxsplit=5) if line.count(" ") > 4 else ("", "", "")
                start, _, end = extent.partition("-")
                mine = "/arrowipc/" in path and ".so" in path
                if "x" in rights and (mine or (self.everything and any(p in path for p in INTERPRETER))):
                    self.library.failing_watch(int(start, 16), int(end, 16), mine)
                    ours += mine
        return ours


def tell(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def fails(step: int) -> Iterator[int]:
    """Which allocations fail, in turn."""
    n = 1
    while True:
        yield n
        n += 1 if not step or n < step else max(1, n // (16 if FULL else 8))


def in_python(error: BaseException) -> bool:
    """Whether an error came from code in Python, not from a compiled module."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return not frame.f_code.co_filename.endswith(".pyx")


def problem(result: Any, error: Any, expected: str) -> str | None:
    """What is wrong with an outcome; None: nothing."""
    if error is None:
        try:
            return None if scenarios.plain(result) == expected else "another result"
        except ipc.ArrowIpcError as broken:
            return f"a broken result: {broken}"
    if isinstance(error, MemoryError | ipc.ArrowIpcError):
        return None
    if isinstance(error, SystemError) and (str(error).startswith("<function ") or in_python(error)):
        return None  # CPython 3.11 found no room for the frame of a function in Python, and did not say so
    return f"{type(error).__name__}: {error}"


def attempt(
    allocator: Allocator, operation: scenarios.Operation, first: int, last: int, expected: str
) -> tuple[int, bool, str | None]:
    """How many allocations there were, whether the operation was refused, and what is wrong."""
    error = result = None
    allocator.arm(first, last)
    try:
        result = operation()
    except BaseException as caught:
        error = caught
    seen = allocator.disarm()
    failed, found = error is not None, problem(result, error, expected)
    del result, error
    found = found or (problem(operation(), None, expected) and "broken afterwards")
    if unraisable:
        found = found or f"unraisable: {unraisable[0]}"
        unraisable.clear()
    return seen, failed, found


def left_behind(allocator: Allocator, before: dict[str, int], live: int) -> str | None:
    """What is held that was not; helpers of other threads may take a moment to let go."""
    for pause in range(20):
        more, blocks = memory.more_than(before), allocator.live() - live
        if not more and blocks <= 0:
            return None
        ipc.release_unused()
        gc.collect()
        time.sleep(0.005 * pause)
    return f"{more or ''} {blocks} blocks"


def check(allocator: Allocator, name: str, operation: scenarios.Operation, mode: str, step: int) -> None:
    """Starve one scenario until it runs through."""
    expected = [scenarios.plain(operation()) for _ in range(3)][-1]
    assert allocator.watch(), "none of our modules is loaded"
    gc.collect()
    gc.freeze()
    allocator.library.failing_track()
    for _ in range(4):
        operation()
    ipc.release_unused()
    before, live, n, refused = memory.counts(), allocator.live(), 0, 0
    for n in fails(step):
        tell(start=name, n=n)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        last = EVER if mode == "rest" else n
        seen, failed, found = attempt(allocator, operation, n, last, expected)
        refused += failed
        left = left_behind(allocator, before, live)
        for _ in range(REPEATS):
            if not left:
                break
            # The first traceback through a line stays, in Cython's caches, and another line fails the next
            # time; what is lost is lost each time.
            before, live = memory.counts(), allocator.live()
            attempt(allocator, operation, n, last, expected)
            left = left_behind(allocator, before, live)
        if left:
            found = found or f"left behind: {left}"
            before, live = memory.counts(), allocator.live()
        if found is not None:
            tell(name=name, n=n, problem=found)
        if seen < n:
            break
    faulthandler.cancel_dump_traceback_later()
    tell(name=name, done=n - 1, refused=refused)


def main(mode: str, step: str, names: str = "") -> None:
    def remember(what: Any) -> None:
        if mode != "any" or not isinstance(what.exc_value, MemoryError):
            unraisable.append(f"{what.exc_type.__name__}: {what.exc_value} in {what.object!r}")

    sys.unraisablehook = remember
    allocator = Allocator(mode == "any")
    for name in scenarios.pick(names or None):
        if mode == "any" and name in scenarios.FOREIGN:
            continue
        check(allocator, name, scenarios.SCENARIOS[name](), mode, int(step))
    tell(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
