"""Processes that speak UCX with each other; each has a library and transports of its own choice."""

import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dissociated.ucx_roles import PATIENCE
from helpers import processes

# -- libraries -----------------------------------------------------------------------------------------------


def libraries() -> dict[str, str]:
    """Name -> path (or name for the loader) of every UCX that is found."""
    found = {}
    if processes.run_python("import ctypes; ctypes.CDLL('libucp.so.0')").returncode == 0:
        found["system"] = "libucp.so.0"
    package = importlib.util.find_spec("libucx")
    for directory in (package and package.submodule_search_locations) or ():
        path = Path(directory, "lib/libucp.so.0")
        if path.exists():
            found["wheel"] = str(path)
    return found


LIBRARIES = libraries()


def environment(library: str, transports: str) -> dict[str, str]:
    """What a process needs to use a library with some transports, without UCX's own words on lost peers."""
    of_ucx = {"ARROWIPC_UCX_LIBRARY": LIBRARIES[library], "UCX_TLS": transports, "UCX_LOG_LEVEL": "fatal"}
    return processes.environment() | of_ucx


needs_ucx = pytest.mark.skipif(not LIBRARIES, reason="no libucp.so.0: install libucx0 or libucx-cu12")


def over_ucx(function: Any, *arguments: object, transports: str = "tcp", timeout: float = 120) -> None:
    """Run a function in a process that uses the first library that is found; it must come to its end."""
    used = environment(next(iter(LIBRARIES)), transports)
    processes.printed(processes.run_function(function, *arguments, env=used, timeout=timeout))


# -- processes -----------------------------------------------------------------------------------------------


class Peer:
    """A child process and the lines that it prints."""

    def __init__(self, role: str, library: str, transports: str, **given: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "dissociated.ucx_roles", role, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(library, transports),
        )
        self._line = b""

    def tell(self) -> Any:
        """Return the next thing that it prints, as JSON."""
        out = self.process.stdout
        assert out is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._line:
            if not select.select([out], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"nothing from {self.process.args} for {PATIENCE} s: {self.words()}")
            data = os.read(out.fileno(), 1 << 16)
            if not data:
                raise EOFError(f"{self.process.args} said no more: {self.words()}")
            self._line += data
        line, _, self._line = self._line.partition(b"\n")
        return json.loads(line)

    def hear(self, line: str) -> None:
        """Say something to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def words(self) -> str:
        """End it if it does not end by itself, and return how it ended and what it wrote to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        self.process.kill()
        text = self.process.communicate()[1].decode(errors="replace")[-4000:]
        return f"it ended with {self.process.returncode}: {text}"

    def end(self) -> int:
        """Close its input and return how it ended."""
        try:
            self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.process.args} does not end: {self.words()}") from None
        return self.process.returncode

    def resident(self) -> int:
        """Return how many bytes of memory it has, without those of files."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(text.split(kind)[1].split()[0]) << 10 for kind in ("RssAnon:", "RssShmem:"))

    def kill(self) -> None:
        """``kill -9``."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def peer(role: str, library: str, transports: str, **given: Any) -> Iterator[Peer]:
    """A child process, for as long as it is needed."""
    child = Peer(role, library, transports, **given)
    try:
        yield child
    finally:
        child.process.kill()
        child.process.communicate()
