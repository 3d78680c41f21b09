"""Files that come to be: under another name until they are complete, and gone when they never are.

A destination holds the old complete file or the new complete file at every moment; a process that is killed
leaves at most a hidden ``.<name>.<pid>.<random>.tmp`` beside it.
"""

from __future__ import annotations

import os
import stat
import weakref
from typing import Any

from arrowipc.errors import UsageError

__all__ = ["NewFile", "OpenFile", "RemoteFile"]

#: File names have 255 bytes on the file systems that people use; the rest is ours.
LONGEST_NAME = 200


class NewFile:
    """A regular file that takes its name when it is complete.

    Parameters
    ----------
    path : str or PathLike
        The destination; a symbolic link is followed.
    durable : bool
        Whether `commit` waits until the file and its name are on the disk.

    Attributes
    ----------
    descriptor : int
        Open for writing.
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool) -> None:
        self._target = os.path.realpath(os.fspath(path))
        self._directory, name = os.path.split(self._target)
        self._durable = durable
        random = os.urandom(6).hex()
        self._temporary = os.path.join(self._directory, f".{name[:LONGEST_NAME]}.{os.getpid()}.{random}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            self.descriptor = os.open(self._temporary, flags, 0o666)
        except OSError as error:
            # The name that the caller knows, not the one that we made up.
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        # Also when nobody closes the writer, and when the interpreter ends.
        self._cleanup = weakref.finalize(self, _remove, self.descriptor, self._temporary, os.getpid())
        try:
            os.fchmod(self.descriptor, stat.S_IMODE(os.stat(self._target).st_mode))
        except OSError:
            pass  # there is no old file whose mode the new one could keep

    def commit(self) -> None:
        """Put the file under its name; on an error it is removed and the old one stays."""
        try:
            if self._durable:
                os.fsync(self.descriptor)
        except BaseException:
            self.discard()
            raise
        self._cleanup.detach()
        try:
            os.close(self.descriptor)
            os.replace(self._temporary, self._target)
        except BaseException:
            os.unlink(self._temporary)
            raise
        if self._durable:
            _sync_directory(self._directory)

    def discard(self) -> None:
        """Remove what was written; the destination stays as it was."""
        self._cleanup()


def _remove(descriptor: int, path: str, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child has the descriptor too, and no say in the file
    os.close(descriptor)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync_directory(path: str) -> None:
    """Bring a new name to the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OpenFile:
    """Something that is there and is not a regular file, such as a pipe or a device: written to directly."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
        self._cleanup = weakref.finalize(self, os.close, self.descriptor)

    @staticmethod
    def fits(path: str | os.PathLike[str]) -> bool:
        """Whether there is such a thing under this path."""
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return False
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "a directory cannot be written to", os.fspath(path))
        return not stat.S_ISREG(mode)

    def commit(self) -> None:
        """Close it."""
        self._cleanup()

    def discard(self) -> None:
        """Close it; what was written cannot be taken back."""
        self._cleanup()


class RemoteFile:
    """A file of any file system that fsspec knows; object stores show it when it is complete."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise UsageError(f"{url!r} is a URL; writing it needs fsspec: pip install 'arrowipc[remote]'") from None
        system, path = fsspec.core.url_to_fs(url)
        # It appears when it is committed, where the file system can do that.
        self._file: Any = system.open(path, "wb", autocommit=False)

    def write(self, data: Any) -> Any:
        """Take bytes."""
        return self._file.write(data)

    def commit(self) -> None:
        """Complete the file."""
        self._file.close()
        if hasattr(self._file, "commit"):
            self._file.commit()

    def discard(self) -> None:
        """Forget what was written."""
        if hasattr(self._file, "discard"):
            self._file.discard()
