"""Locks (`flock`) of files and folders, against other writers of a path.

A writer locks a stream as long as it appends to it. To replace a file, a writer locks its folder for a moment, and
takes a shared lock of the file, so that nobody begins to append meanwhile. A lock ends with `unlock`, not when its file
is closed: a child that was forked meanwhile has that file open, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from arrowipc._core import Descriptor
from arrowipc.decode.file_decoder import MAGIC

#: Seconds to wait for other processes that hold a lock only to check whether a stream has a writer.
LONGEST_LOOK = 0.1


def lock(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock a file or a folder; return False if another process keeps its lock for so many seconds."""
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
        except OSError:  # NFS, for example, cannot lock directories
            return True


def unlock(descriptor: int) -> None:
    """End a lock, also for child processes that were forked meanwhile."""
    from fcntl import LOCK_UN, flock

    with suppress(OSError, ValueError):
        flock(descriptor, LOCK_UN)


@contextmanager
def locked(descriptor: int, seconds: float, *, shared: bool = False) -> Iterator[bool]:
    """Hold a lock during a block; yield what `lock` returns: whether the lock was taken."""
    try:
        yield lock(descriptor, seconds, shared=shared)
    finally:
        unlock(descriptor)


@contextmanager
def without_writer(path: str) -> Iterator[bool]:
    """Keep others from appending to the stream at a path during a block; yield False if one is appending already.

    Files (in the file format) are not locked: arrowipc does not lock them to append, so that users may lock them.
    """
    file, head = None, MAGIC
    with suppress(OSError):  # the path does not exist, is no regular file, or is not readable
        file = Descriptor(path, os.O_RDONLY | os.O_NONBLOCK)
        head = os.pread(file.fileno(), len(MAGIC), 0)
    if file is None or head == MAGIC:
        yield True
        return
    with file, locked(file.fileno(), LONGEST_LOOK, shared=True) as alone:
        yield alone
