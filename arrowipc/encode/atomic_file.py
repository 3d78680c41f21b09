"""Files that get their name when they are complete, and are removed if they are never completed.

A destination holds the old complete file or the new complete file at every moment; a process that is killed
leaves at most a hidden ``.<name>.<pid>.<random>.tmp`` beside it.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from arrowipc._core import Descriptor
from arrowipc.errors import ArrowIpcError
from arrowipc.sources.file_objects import file_path
from arrowipc.sources.locks import LONGEST_LOOK, locked, without_writer
from arrowipc.sources.source import check_path

#: File names have 255 bytes on the file systems that people use; the temporary name needs some of them.
LONGEST_NAME = 200
#: Seconds to wait for other processes that check and replace a file of the same folder, each in under a millisecond.
LONGEST_TURN = 10.0
#: The reason of the error if a stream has another writer.
IN_USE = "in use by another writer"


@contextmanager
def named(path: str) -> Iterator[None]:
    """Let the OSErrors of a block name the caller's path, not the temporary one."""
    try:
        yield
    except ArrowIpcError:  # TruncatedError is an OSError too, and has its own message
        raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None


class KnownPath(os.PathLike[str]):
    """A path, and the file that was there before it was read: `NewFile` replaces this file and no other one.

    The file is held open until then, so that no other one gets the number of its inode.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path(path)
        self._path = os.fsdecode(path)
        self._file: Descriptor | None = None
        with suppress(FileNotFoundError):
            # O_PATH of Linux needs no permission to read, and has no effect on a pipe or device.
            self._file = Descriptor(path, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK))
        #: The status of the file; None if there was none.
        self.found: os.stat_result | None = None if self._file is None else os.fstat(self._file.fileno())

    def __fspath__(self) -> str:
        return self._path

    def is_at(self, path: str) -> bool:
        """Return whether a path still leads to the file, unchanged; if there was none, whether there is still none."""
        try:
            now = os.stat(path)
        except FileNotFoundError:
            return self.found is None
        kept = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
        return self.found is not None and all(getattr(now, name) == getattr(self.found, name) for name in kept)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class NewFile:
    """A regular file that gets its name when it is complete; `durable`: when it is on the disk.

    A symbolic link is followed. If another file than that of a `KnownPath` is there at the end, both stay.
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool, name: str | None = None) -> None:
        given = os.fsdecode(path)
        self._name = name or given
        self._known = path if isinstance(path, KnownPath) else None
        if not given or given.endswith(os.sep):
            raise _error(errno.EISDIR if given else errno.ENOENT, self._name)
        self._target = os.path.realpath(given)
        self._directory, last = os.path.split(self._target)
        self._durable = durable
        with named(self._name):
            old = _old_file(self._target, self._name)
        if old is not None:
            with without_writer(self._target) as unused:
                if not unused:
                    raise OSError(errno.EBUSY, IN_USE, self._name)
        short = os.fsencode(last)[:LONGEST_NAME].decode(errors="ignore")
        temporary = os.path.join(self._directory, f".{short}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666
        self._temporary = _Temporary(temporary)
        # Also if nobody closes the writer, or the interpreter ends, the file is removed. This comes first, because a
        # signal may raise anywhere.
        self._forgotten = weakref.finalize(self, _forget, self._temporary, self._name)
        try:
            with named(self._name):
                self.descriptor: int = self._temporary.open(mode)
            if old is not None:
                _look_like(self.descriptor, old)
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        """Put the file under its name; on an error it is removed and the old one stays."""
        try:
            with named(self._name):
                self._complete()
        except BaseException:
            self.discard()
            raise
        finally:
            if self._known is not None:
                self._known.close()

    def _complete(self) -> None:
        # The directory is opened first: if it cannot be synced, that is an error while the old file is still there.
        with self._opened_directory() as directory:
            if self._durable:
                os.fsync(self.descriptor)
            self._temporary.close()
            failure = self._replace(directory)
            self._forgotten.detach()
            if self._durable and directory is not None:
                sync_directory(directory)
            if failure is not None:
                raise failure

    def _opened_directory(self) -> AbstractContextManager[Descriptor | None]:
        try:
            return Descriptor(self._directory, os.O_RDONLY)
        except PermissionError:  # a file can be renamed there all the same
            if self._durable or self._known is not None:
                raise
            return nullcontext()

    def _replace(self, directory: Descriptor | None) -> OSError | None:
        """Replace the old file; if that is not possible, keep the new one, too, and return why.

        If any file may be replaced, wait a moment for other processes; if only a known one may be, wait longer.
        """
        known, wait = self._known, LONGEST_LOOK if self._known is None else LONGEST_TURN
        with (
            nullcontext(True) if directory is None else locked(directory.fileno(), wait) as alone,
            without_writer(self._target) as unused,
        ):
            if not alone and known is not None:
                code, reason = errno.ESTALE, f"another process locked the folder of the file for {wait:.0f} s"
            elif known is not None and not known.is_at(self._target):
                code = errno.ESTALE
                reason = "the file was replaced, changed or removed after it was opened here"
            elif not unused:
                code, reason = errno.EBUSY, IN_USE
            else:
                os.replace(self._temporary.path, self._target)
                return None
        kept = self._temporary.path.removesuffix(".tmp") + ".kept"
        os.rename(self._temporary.path, kept)
        return OSError(code, f"{reason}: it stays as it is, and the complete new file is kept as {kept!r}")

    def discard(self) -> None:
        """Remove the new file; the destination stays as it was."""
        self._temporary.remove()
        self._forgotten.detach()
        if self._known is not None:
            self._known.close()


class _Temporary:
    """The file under its temporary name, and the descriptor that writes it."""

    def __init__(self, path: str) -> None:
        self._file: Descriptor | None = None
        self.path = path
        self._owner = os.getpid()

    def open(self, mode: int) -> int:
        self._file = Descriptor(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        return self._file.fileno()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def remove(self) -> bool:
        """Close and remove the file; return False in a forked child, which has it open, too, but does not own it."""
        if os.getpid() != self._owner:
            return False
        # The caller gets the error for which the file is given up, not those of these two calls.
        with suppress(OSError):
            self.close()
        with suppress(OSError):
            os.unlink(self.path)
        return True


def _forget(temporary: _Temporary, name: str) -> None:
    """Clean up after a writer that is gone."""
    if temporary.remove():
        warnings.warn(
            f"a writer to {name!r} was never closed, so there is no such file (or still the old one): use "
            "`with new_file(...) as writer:`, or call writer.close()",
            ResourceWarning,
            stacklevel=2,
        )


def _old_file(target: str, name: str) -> os.stat_result | None:
    """Return the status of the file that a new one will replace; None if there is none."""
    if os.path.islink(target):
        raise _error(errno.ELOOP, name)  # realpath() follows all links but those that lead nowhere
    try:
        old = os.stat(target)
    except FileNotFoundError:  # any other error, such as of a name that is too long, would come at the end otherwise
        return None
    if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        # The rename needs no permission for the file itself, but a file that is read-only is meant to stay.
        raise _error(errno.EACCES, name)
    return old


def _look_like(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner and mode of the one it replaces, as far as we are allowed to."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    with suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def sync_directory(directory: Descriptor) -> None:
    """Write the new name of a file, which is in its directory, to the disk."""
    try:
        os.fsync(directory.fileno())
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        # Some network file systems have nothing to sync for a directory.


def _error(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)


class OpenFile:
    """An existing thing that is no regular file, such as a pipe or a device; it is written to directly."""

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self._name = name or os.fsdecode(path)
        with named(self._name):
            self._file = Descriptor(path, os.O_WRONLY)
        self.descriptor: int = self._file.fileno()

    @staticmethod
    def fits(path: str | os.PathLike[str], name: str | None = None) -> bool:
        """Return whether a path leads to such a thing."""
        try:
            mode = os.stat(os.fspath(path)).st_mode  # a number would be a descriptor
        except OSError:
            return False
        if stat.S_ISDIR(mode):
            raise _error(errno.EISDIR, name or os.fsdecode(path))
        return not stat.S_ISREG(mode)

    def commit(self) -> None:
        """Close it."""
        with named(self._name):
            self._file.close()

    def discard(self) -> None:
        """Close it; what was written cannot be taken back."""
        with suppress(OSError):
            self._file.close()


def open_path(path: str | os.PathLike[str], durable: bool, name: str | None = None) -> NewFile | OpenFile:
    """Begin a new file, or open what is no regular file; `name` is what errors call the path."""
    check_path(path)
    return OpenFile(path, name) if OpenFile.fits(path, name) else NewFile(path, durable, name)


def open_url(url: str, durable: bool) -> NewFile | OpenFile | RemoteFile:
    """Begin a file at a URL that fsspec supports; local URLs are ordinary files and need no fsspec."""
    local = file_path(url)
    if local is not None:
        return open_path(local, durable, url)
    from arrowipc.sources.files import is_local
    from arrowipc.sources.remote import find_system

    system, path = find_system(url)
    return open_path(path, durable, url) if is_local(system) else RemoteFile(system, path, url)


class RemoteFile:
    """A file of any file system that fsspec supports.

    Object stores show it when it is complete. So do file systems that can defer a file
    (``autocommit=False``); with the others what was written before an error stays, incomplete. Errors of the file
    system are OSErrors that name the URL, as when it is read.
    """

    def __init__(self, system: Any, path: str, url: str) -> None:
        self._system = system
        self._path = path
        self._url = url
        # The memory file system defers no files: they would show what was written so far, at first nothing.
        self._renamed = system.protocol == "memory" or "memory" in tuple(system.protocol)
        self._first = f"{path}.{os.urandom(6).hex()}.tmp" if self._renamed else path
        with self._naming():
            self._file: Any = system.open(self._first, "wb", autocommit=False)
        # Else the next transaction of this file system would commit our file once more.
        with suppress(AttributeError, ValueError):
            system.transaction.files.remove(self._file)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        from arrowipc.sources.remote import io_error

        try:
            yield
        except Exception as error:
            failure = io_error(self._url, error)
            if isinstance(failure, OSError) and isinstance(error, OSError):
                failure.errno = failure.errno or error.errno  # a full disk is one behind a URL, too
            raise failure from None

    def write(self, data: Any) -> Any:
        """Write bytes."""
        with self._naming():
            return self._file.write(data)

    def commit(self) -> None:
        """Complete the file."""
        try:
            with self._naming():
                self._file.close()
                if self._renamed:
                    self._system.mv(self._first, self._path)
                elif hasattr(self._file, "commit"):
                    self._file.commit()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the bytes that were written, as far as the file system can."""
        with suppress(Exception):  # the caller gets the error for which the file is given up
            if self._renamed:
                self._system.rm(self._first)
            elif hasattr(self._file, "discard"):
                self._file.discard()
