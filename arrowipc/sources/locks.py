"""Who writes to a path: locks (`flock`) of files and folders.

A stream is locked for as long as somebody appends to it. Whoever replaces a file locks its folder for a moment, and
shares the lock of the file, so that no appender comes meanwhile. A lock ends with `unlock`, not when its file is
closed: a child that was forked meanwhile has that file open, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from arrowipc._core import Descriptor
from arrowipc.decode.file_decoder import MAGIC

#: Seconds to wait for those who look for a moment whether a stream has a writer.
LONGEST_LOOK = 0.1


def lock(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock a file or a folder; False if another process keeps its lock for so long."""
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    deadline = time.monotonic() + seconds
    while True:
        try:
            flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        except OSError:  # NFS, for example, locks no directories
            return True


def unlock(descriptor: int) -> None:
    """End a lock, also that of a child process that was forked meanwhile."""
    from fcntl import LOCK_UN, flock

    with suppress(OSError, ValueError):
        flock(descriptor, LOCK_UN)


@contextmanager
def locked(descriptor: int, seconds: float, *, shared: bool = False) -> Iterator[bool]:
    """Hold a lock during a block, if `lock` returns True."""
    try:
        yield lock(descriptor, seconds, shared=shared)
    finally:
        unlock(descriptor)


@contextmanager
def without_writer(path: str) -> Iterator[bool]:
    """Keep those who append to the stream at a path out during a block; False: one of them is there.

    Files are not locked by those who append to them, so that people may lock them for purposes of their own.
    """
    file, head = None, MAGIC
    with suppress(OSError):  # there is none, it is no regular file, or it is not ours to read
        file = Descriptor(path, os.O_RDONLY | os.O_NONBLOCK)
        head = os.pread(file.fileno(), len(MAGIC), 0)
    if file is None or head == MAGIC:
        yield True
        return
    with file, locked(file.fileno(), LONGEST_LOOK, shared=True) as alone:
        yield alone
