"""The few operations that a commit is made of, on local file systems and on those that fsspec knows."""

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from arrowipc._core import Descriptor
from arrowipc.read.files import check_link, files_below, files_in_system, is_hidden, is_local, modified, walk
from arrowipc.read.ledger import Ledger, local_ledger, remote_ledger
from arrowipc.read.remote import find_system
from arrowipc.spark.options import flag, storage_options
from arrowipc.write.atomic_file import sync_directory

__all__ = ["Entry", "Storage", "open_storage"]

#: How often to try what other processes may interfere with.
ATTEMPTS = 5


@dataclass(frozen=True)
class Entry:
    """A file: its name under the root, its bytes, and when it was last modified (microseconds since 1970)."""

    name: str
    size: int
    modified: int


def open_storage(path: str, options: Mapping[str, str]) -> "Storage":
    """Find the storage that a local path or a URL means; see `storage_options`, and `walk` for ignoreMissingFiles.

    Raises
    ------
    UsageError
        If fsspec, or its package for this kind of URL, is not installed; if the path is a broken link.
    """
    ignore_missing = flag(options, "ignoreMissingFiles")
    if path.lower().startswith("file:"):
        return _Local(os.path.abspath(unquote(urlsplit(path).path)), ignore_missing)
    if "://" not in path:
        return _Local(os.path.abspath(path), ignore_missing)
    system, root = find_system(path, storage_options(options))
    return _Local(root, ignore_missing) if is_local(system) else _Remote(system, root)


class Storage(Protocol):
    """A directory and what a commit does in it; names are relative to it, with ``/`` between their parts.

    Attributes
    ----------
    root : str
        The directory, for people and for openers: a path or a URL.
    """

    root: str

    def path(self, name: str = "") -> str:
        """The path or URL of a name."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def files(self) -> list[Entry]:
        """All files that a read finds: at any depth, without hidden ones; none where there is no directory."""

    def replaceable(self) -> dict[str, int]:
        """What has to be removed so that nothing is there: files, and links to directories, with a slash at the end.

        And when they were modified, as `Entry` has it. Not what lies behind these links: it is somebody else's.
        """

    def ledger(self) -> Ledger | None:
        """Which of the files count, and who is writing; see `arrowipc.read.ledger`."""

    def newest(self, name: str) -> int:
        """When something in a directory was last modified, as `Entry` has it; 0: not known."""

    def is_file(self) -> bool:
        """Whether the root itself is a file."""

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or directory of that name."""

    def names(self, name: str) -> list[str]:
        """The names in a directory; empty when it does not exist."""

    def make_directory(self, name: str) -> None:
        """Make a directory and those above it; no error when it is there."""

    def make_child(self, name: str) -> None:
        """Make a directory in one that is there; where stores know directories, an error if it is not."""
        self.make_directory(name)

    def sink(self, name: str) -> AbstractContextManager[Any]:
        """What a writer of arrowipc can be given to make a file; the writer is closed within the block."""

    def create(self, name: str, data: bytes) -> bool:
        """Make a file that appears with all its bytes, and is on the disk; False if there is one of that name."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in the place of what had it."""

    def remove(self, name: str) -> None:
        """Remove a file; no error when it is not there."""

    def remove_tree(self, name: str) -> None:
        """Remove a directory and all in it; no error when it is not there."""

    def remove_if_empty(self, name: str = "") -> None:
        """Remove a directory that holds nothing; else leave it."""

    def sync(self, name: str = "") -> None:
        """Wait until the names in a directory are on the disk."""


class _Local(Storage):
    """A directory that the driver and all executors see under the same path."""

    def __init__(self, root: str, ignore_missing: bool) -> None:
        check_link(root)
        self.root = root
        self._ignore_missing = ignore_missing

    def files(self) -> list[Entry]:
        return [
            Entry(self._relative(file.path), file.size or 0, file.modified)
            for file in files_below(self.root, ignore_missing=self._ignore_missing)
        ]

    def replaceable(self) -> dict[str, int]:
        links: list[str] = []
        found = [*walk(self.root, ignore_missing=self._ignore_missing, links=links)]
        behind = tuple([os.path.join(link, "") for link in links])
        linked = {f"{self._relative(link)}/": 0 for link in links if not link.startswith(behind)}
        files = [(path, when.st_mtime_ns // 1000) for path, when in found if not path.startswith(behind)]
        return linked | {self._relative(path): when for path, when in files}

    def ledger(self) -> Ledger | None:
        return local_ledger(self.root)

    def newest(self, name: str) -> int:
        times = [0]
        for at, _, files in os.walk(self.path(name)):
            for path in (at, *[os.path.join(at, file) for file in files]):
                with suppress(FileNotFoundError):
                    times.append(os.lstat(path).st_mtime_ns // 1000)
        return max(times)

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def is_file(self) -> bool:
        return os.path.lexists(self.root) and not os.path.isdir(self.root)

    def exists(self, name: str = "") -> bool:
        return os.path.lexists(self.path(name))

    def names(self, name: str) -> list[str]:
        try:
            return os.listdir(self.path(name))
        except FileNotFoundError:
            return []

    def make_directory(self, name: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                os.makedirs(self.path(name), exist_ok=True)
            except FileNotFoundError:
                # Another job found a directory above it empty, and removed it.
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def make_child(self, name: str) -> None:
        os.mkdir(self.path(name))

    @contextmanager
    def sink(self, name: str) -> Iterator[Any]:
        yield self.path(name)

    def create(self, name: str, data: bytes) -> bool:
        path = self.path(name)
        temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except OSError as error:
                if os.path.lexists(path) or not os.path.lexists(temporary):  # who is so late is cleaned up behind
                    return False
                # Where there are no hard links, of two jobs that commit in the same instant one may be lost.
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                os.rename(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self.sync(os.path.dirname(name))
        return True

    def rename(self, old: str, new: str) -> None:
        os.replace(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def remove_tree(self, name: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                shutil.rmtree(self.path(name))
            except FileNotFoundError:
                # Also when a task removed its own file before we came to it: look again.
                if not self.exists(name):
                    return
            except OSError as error:
                # A task that was stopped may have put a file into the directory while it was being removed.
                if error.errno != errno.ENOTEMPTY or attempt == ATTEMPTS:
                    raise
                time.sleep(0.05 * attempt)
            else:
                return

    def remove_if_empty(self, name: str = "") -> None:
        with suppress(OSError):
            os.rmdir(self.path(name))

    def sync(self, name: str = "") -> None:
        with Descriptor(self.path(name), os.O_RDONLY) as directory:
            sync_directory(directory)


class _Remote(Storage):
    """A directory of an fsspec file system; most of these know no directories and copy instead of renaming."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self.root = system.unstrip_protocol(self._root)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def files(self) -> list[Entry]:
        return [
            Entry(file.path[len(self._root) :].lstrip("/"), file.size or 0, file.modified)
            for file in files_in_system(self._system, self._root)
        ]

    def replaceable(self) -> dict[str, int]:
        names = {path[len(self._root) :].lstrip("/"): found for path, found in self._find("").items()}
        return {name: modified(found) for name, found in names.items() if name and not is_hidden(name)}

    def _find(self, name: str) -> dict[str, Any]:
        self._system.invalidate_cache()
        found: dict[str, Any] = self._system.find(self._at(name), detail=True)
        return found

    def ledger(self) -> Ledger | None:
        return remote_ledger(self._system, self._root)

    def newest(self, name: str) -> int:
        return max(map(modified, self._find(name).values()), default=0)

    def is_file(self) -> bool:
        return bool(self._system.isfile(self._root))

    def exists(self, name: str = "") -> bool:
        self._system.invalidate_cache()
        return bool(self._system.exists(self._at(name)))

    def names(self, name: str) -> list[str]:
        self._system.invalidate_cache()
        with suppress(FileNotFoundError):
            found = self._system.ls(self._at(name), detail=False)
            return [path.rstrip("/").rsplit("/", 1)[-1] for path in found]
        return []

    def make_directory(self, name: str) -> None:
        self._system.makedirs(self._at(name), exist_ok=True)

    @contextmanager
    def sink(self, name: str) -> Iterator[Any]:
        with self._system.open(self._at(name), "wb") as file:
            yield file

    def create(self, name: str, data: bytes) -> bool:
        if self.exists(name):
            return False
        try:
            self._system.pipe_file(self._at(name), data, mode="create")
        except FileExistsError:
            return False
        except (TypeError, NotImplementedError):
            # Where a store cannot refuse it, of two jobs that commit in the same instant one may be lost.
            self._system.pipe_file(self._at(name), data)
        return True

    def rename(self, old: str, new: str) -> None:
        self._system.mv(self._at(old), self._at(new))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._at(name))

    def remove_tree(self, name: str) -> None:
        self._system.invalidate_cache()
        with suppress(FileNotFoundError):
            self._system.rm(self._at(name), recursive=True)

    def remove_if_empty(self, name: str = "") -> None:
        with suppress(OSError, NotImplementedError):
            if not self.names(name):
                self._system.rmdir(self._at(name))

    def sync(self, name: str = "") -> None:
        """Nothing to do: what a store has taken, it has."""
