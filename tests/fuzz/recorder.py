"""Records what a fuzzing process runs, so that its parent sees it after the process is gone."""

import hashlib
import mmap
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.memory import peak

#: Executions, and bytes of the input that runs (-1: none); then the input.
HEAD = struct.Struct("<Qq")
LARGEST = 1 << 20
#: Processor time of one input; more is a hang.
SECONDS = 10
#: Growth of the process during one input; more is a bomb.
MEMORY = 1 << 30


class Board:
    """A file in memory that the process writes and its parent reads."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if create:
            path.write_bytes(HEAD.pack(0, -1) + bytes(LARGEST))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), HEAD.size + LARGEST)

    @property
    def executions(self) -> int:
        return int(HEAD.unpack_from(self.memory)[0])

    @property
    def running(self) -> bytes | None:
        """The input that runs, or that ended the process."""
        length = HEAD.unpack_from(self.memory)[1]
        return None if length < 0 else self.memory[HEAD.size : HEAD.size + length]


def keep(folder: Path, target: str, data: bytes, story: str) -> Path:
    """Write a finding down: the input, and how it went."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(story)
    return path


class Recorder:
    """Runs a target on one input after the other; what it raises is a finding, and the next input follows."""

    def __init__(
        self,
        name: str,
        run: Callable[[bytes], object],
        board: Path,
        folder: Path,
        seconds: float = SECONDS,
        most_memory: int = MEMORY,
    ) -> None:
        self.name, self.run, self.folder = name, run, folder
        self.seconds, self.most_memory = seconds, most_memory
        self.board = Board(board)
        self.known: set[str] = set()
        self.last = peak()
        self.ignored: list[Any] = []

    def listen(self) -> None:
        """Also note, for a whole process, exceptions that nobody can catch, and warnings, such as of unclosed files."""
        sys.unraisablehook = lambda each: self.ignored.append(each.exc_value)
        warnings.simplefilter("error")
        # The signal of a hang ends the process without the interpreter, which may be unable to run a handler.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def __call__(self, data: bytes) -> None:
        memory = self.board.memory
        executions = self.board.executions
        size = min(len(data), LARGEST)
        memory[HEAD.size : HEAD.size + size] = data[:size]
        HEAD.pack_into(memory, 0, executions, size)
        self.ignored.clear()
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        try:
            self.run(data)
        except Exception as error:
            self._note(data, error)
        else:
            for error in self.ignored:
                self._note(data, error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        now = peak()
        if now - self.last > self.most_memory:
            self._write(data, f"memory: {now - self.last:,} bytes more than before\n")
        self.last = now
        HEAD.pack_into(memory, 0, executions + 1, -1)

    def _note(self, data: bytes, error: Exception) -> None:
        """Keep the first input of each kind of failure."""
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else str(error)[:60]
        kind = f"{type(error).__name__} at {where}"
        if kind not in self.known:
            self.known.add(kind)
            self._write(data, f"{kind}\n\n{''.join(traceback.format_exception(error))}")

    def _write(self, data: bytes, story: str) -> None:
        keep(self.folder, self.name, data, story)
