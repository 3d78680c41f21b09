"""The command line as people use it: real processes, pipes, a terminal of any width; or quickly, in this process."""

import contextlib
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-m", "arrowipc")


class Outcome(NamedTuple):
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**changes: str) -> dict[str, str]:
    where = [os.environ.get("PYTHONPATH", ""), *sys.path]
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, where)), "PYTHONUTF8": "1", **changes}


def run(*arguments: object, input: bytes | Path | None = None, encoding: str = "utf-8", **changes: str) -> Outcome:
    """Run one command: in this process, or in another one if it needs another environment."""
    if changes:
        done = run_binary(*arguments, **changes)
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    from arrowipc.cli.app import run as called

    streams = [io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2)]
    with standard_input(input), contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = called([str(each) for each in arguments])
    return Outcome(code, *(each.buffer.getvalue().decode() for each in streams))  # type: ignore[attr-defined]


@contextlib.contextmanager
def standard_input(source: bytes | Path | None) -> Iterator[None]:
    """Let the descriptor 0 be a file, or a pipe that has these bytes (64 KiB at most: nobody fills it again)."""
    if source is None:
        yield
        return
    if isinstance(source, Path):
        reading = os.open(source, os.O_RDONLY)
    else:
        reading, writing = os.pipe()
        os.write(writing, source)
        os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    os.close(reading)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def run_binary(*arguments: object, **changes: str) -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, input=b"", capture_output=True, timeout=120, env=environment(**changes))


def shell(script: str, **changes: str) -> Outcome:
    """Run a line of a shell in which `arrowipc` is our command."""
    start = f'arrowipc() {{ "{sys.executable}" -m arrowipc "$@"; }}\n'
    done = subprocess.run(["bash", "-c", start + script], capture_output=True, timeout=120, env=environment(**changes))
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_terminal(*arguments: object, columns: int = 80, **changes: str) -> Outcome:
    """Run one command whose standard input, output and error are a terminal; `out` is all that it shows."""
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm-256color", **changes),
        start_new_session=True,
    )
    os.close(theirs)
    shown = bytearray()
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux raises this when the other side has closed
                break
            if not data:
                break
            shown += data
        elif child.poll() is not None:
            break
    code = child.wait(30)
    os.close(ours)
    return Outcome(code, shown.decode(errors="replace").replace("\r\n", "\n"), "")
