"""The few operations that a commit is made of, on local file systems and on those that fsspec knows."""

import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from arrowipc.read.files import check_link, is_hidden, is_local, modified, walk
from arrowipc.read.remote import find_system
from arrowipc.spark.options import flag, storage_options
from arrowipc.write.atomic_file import NewFile

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
    renames_directories : bool
        Whether `rename_directory` happens at one moment or not at all.
    """

    root: str
    renames_directories: bool

    def path(self, name: str = "") -> str:
        """The path or URL of a name."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def files(self) -> list[Entry]:
        """All files that a read finds: at any depth, without hidden ones; none where there is no directory."""

    def replaceable(self) -> list[str]:
        """What has to be removed so that a read finds nothing: files, and links to directories.

        Not what lies behind these links: it is somebody else's.
        """
        return [entry.name for entry in self.files()]

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

    def make_empty_file(self, name: str) -> None:
        """Make a file without bytes, and wait until it is on the disk."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in the place of what had it."""

    def rename_directory(self, old: str, new: str) -> None:
        """Give a directory another name, which nothing has."""

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

    renames_directories = True

    def __init__(self, root: str, ignore_missing: bool) -> None:
        check_link(root)
        self.root = root
        self._ignore_missing = ignore_missing

    def files(self) -> list[Entry]:
        return [
            Entry(self._relative(path), found.st_size, found.st_mtime_ns // 1000)
            for path, found in walk(self.root, ignore_missing=self._ignore_missing)
        ]

    def replaceable(self) -> list[str]:
        links: list[str] = []
        found = [path for path, _ in walk(self.root, ignore_missing=self._ignore_missing, links=links)]
        behind = tuple([os.path.join(link, "") for link in links])
        return [self._relative(path) for path in [*links, *found] if not path.startswith(behind)]

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

    def make_empty_file(self, name: str) -> None:
        NewFile(self.path(name), durable=True).commit()

    def rename(self, old: str, new: str) -> None:
        os.replace(self.path(old), self.path(new))

    def rename_directory(self, old: str, new: str) -> None:
        os.rename(self.path(old), self.path(new))

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
        descriptor = os.open(self.path(name), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network file systems have nothing to sync for a directory.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


class _Remote(Storage):
    """A directory of an fsspec file system; most of these know no directories and copy instead of renaming."""

    renames_directories = False

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self.root = system.unstrip_protocol(self._root)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def files(self) -> list[Entry]:
        self._system.invalidate_cache()
        entries = []
        for path, found in self._system.find(self._root, detail=True).items():
            name = path[len(self._root) :].lstrip("/")
            if name and found.get("type", "file") == "file" and not is_hidden(name):
                entries.append(Entry(name, int(found.get("size") or 0), modified(found)))
        return entries

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

    def make_empty_file(self, name: str) -> None:
        self._system.pipe_file(self._at(name), b"")

    def rename(self, old: str, new: str) -> None:
        self._system.mv(self._at(old), self._at(new))

    def rename_directory(self, old: str, new: str) -> None:
        self.make_directory(new)
        for path in self._system.find(self._at(old)):
            name = path[len(self._at(old)) :].lstrip("/")
            self.rename(f"{old}/{name}", f"{new}/{name}")

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
