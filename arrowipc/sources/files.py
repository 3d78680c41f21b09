"""Finds the files of paths: of files, directories, patterns, URLs and lists of them."""

import errno
import glob
import logging
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from arrowipc.errors import ArrowIpcError, PathNotFoundError, UsageError, showable
from arrowipc.sources.file_objects import file_path
from arrowipc.sources.remote import RemoteSource, find_system, io_error
from arrowipc.sources.source import existing_part
from arrowipc.sources.spark_log import LOG, above, local_log, remote_log, with_logs

log: logging.Logger = logging.getLogger("arrowipc")

#: Number of items left out that are logged by name.
MOST_NAMED = 10
#: Suffixes of the names of Arrow files.
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
_MARKS = re.compile(r"[*?\[{]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class FoundFile(NamedTuple):
    """A file to read; ``size`` is None if a remote listing does not contain it.

    ``below`` is its path under the directory, or after the fixed part of the pattern, by which it was found.
    """

    path: str
    size: int | None
    below: str = ""


def find_files(
    paths: Sequence[str],
    name_filter: str | None = None,
    ignore_missing: bool = False,
    storage: Mapping[str, Any] | None = None,
    behind_matches: bool = False,
    may_be_empty: bool = False,
    arrow_first: bool = False,
) -> list[FoundFile]:
    """Return the files of some paths: absolute paths or URLs in the order of the paths, sorted within each.

    A file that two paths name is returned twice.

    A path is that of a file, a directory (searched to any depth, see `walk`, except for files that do not count, see
    `arrowipc.sources.spark_log`) or a pattern with ``*``, ``?``, ``[...]``, ``**`` and ``{a,b}``; local, or a URL for
    fsspec. `name_filter` is a pattern for the names of files. With `ignore_missing`, broken links are left out with
    a warning. With `behind_matches`, ``below`` is, as in Spark, the path after the match of a pattern without ``**``,
    and empty if the file itself matches. With `may_be_empty`, a directory without files is no PathNotFoundError.
    With `arrow_first`, if a directory has files with names of Arrow data, at any depth, only these are returned.
    """
    if not paths:
        raise UsageError("a path is needed: a file, a directory, a pattern, a URL, or a list of them")
    storage = storage or {}
    found: list[FoundFile] = []
    for path in paths:
        local = _local(path, storage)
        listed: Iterable[FoundFile] = (
            _expand_url(path, name_filter, storage) if local is None else _expand(local, name_filter, ignore_missing)
        )
        files = [file for file in sorted(listed) if passes(file.path, name_filter)]
        if not files:
            system, name = (os.path, local) if local is not None else find_system(path, storage)
            if not (may_be_empty and system.isdir(name)):
                raise PathNotFoundError(_why_none(path, local, name_filter), local or path)
        text = local or root_of(path, storage)
        mark = None if local is not None and os.path.exists(local) else _MARKS.search(text)
        root = text if mark is None else os.path.dirname(text[: mark.start()])
        matched = text[len(root) :].strip("/").split("/") if mark is not None else []
        if arrow_first and mark is None:
            files = [file for file in files if is_named_arrow(file.path)] or files
        for file in files:
            inside = file.path != root and file.path.startswith(root)
            below = file.path[len(root) :] if inside else file.path
            if behind_matches:
                skipped = 0 if "**" in matched else len(matched)
                below = "/".join(below.replace(os.sep, "/").strip("/").split("/")[skipped:]) if inside else ""
            found.append(file._replace(below=below))
    return found


def _why_none(path: str, local: str | None, name_filter: str | None) -> str:
    """Return the error text for a path by which no file was found."""
    extra = f" whose name matches {name_filter!r}" if name_filter else ""
    if local is None or _MARKS.search(path) or os.path.isfile(local):
        return f"{path}: no such file, and no file{extra} found under it (names with _ or . are ignored)"
    if os.path.isdir(local):
        return f"{path}: the folder has no file{extra} (names that begin with _ or . are ignored)"
    return f"{path}: no such file or folder; its path exists as far as {existing_part(local)}"


def root_of(path: str, storage: Mapping[str, Any]) -> str:
    """Return a path in the form with which the paths or URLs of the files below it begin."""
    return _local(path, storage) or _url_of(path, find_system(path, storage)[1])


def is_url(path: str) -> bool:
    """Whether a path that `find_files` returned is a URL for fsspec."""
    return "://" in path and not path.startswith(os.sep)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the path to the text of any arrowipc error raised in the block."""
    try:
        yield
    except ArrowIpcError as error:
        if showable(path) in str(error):
            raise
        named = type(error)(f"{path}: {error}")
        named.column = error.column
        raise named from error


class LeftOut:
    """Logs items that are left out: the first ones by name, and at the end their number."""

    def __init__(self, log: logging.Logger = log) -> None:
        self._log = log
        self._count = self._told = 0

    def add(self, reason: str, how: str = "left out") -> None:
        """Count an item, and log it, unless MOST_NAMED were logged."""
        self._count += 1
        if self._count <= MOST_NAMED:
            self._log.warning("%s: %s", how, showable(reason))  # a str: handlers may keep arguments

    def total(self, more: str = "") -> None:
        """Log the number of items, if not all were logged by name."""
        if self._count > max(self._told, MOST_NAMED):
            self._told = self._count
            self._log.warning("left out: %s in all%s", f"{self._count:,}", more)


# -- local paths ---------------------------------------------------------------------------------------------


def _local(path: str, storage: Mapping[str, Any]) -> str | None:
    """Return the absolute path of a local path or URL, also of one such as ``local:///data``; None if it is remote."""
    scheme = _SCHEME.match(path)
    if scheme is None or os.path.exists(path):
        return os.path.abspath(path)
    if (local := file_path(path)) is not None:
        return os.path.abspath(local)
    if "://" not in path:
        raise UsageError(f"{path}: expected a local path or a URL such as s3://bucket/{path[scheme.end() :]}")
    system, behind = find_system(path, storage)
    return behind if is_local(system) else None


def is_local(system: Any) -> bool:
    """Whether an fsspec file system is that of this machine; then it is not used, because it follows loops of links."""
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def walk(*directories: str, ignore_missing: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all files in local directories, at any depth, without names that begin with ``_`` or ``.``.

    Links are followed, but no directory is visited twice; if there are several ways to it, one without links is used.
    Broken links are a PathNotFoundError, or with `ignore_missing` left out with a warning.
    """
    real, linked = deque(sorted(directories, key=os.path.islink)), deque[str]()
    seen: set[tuple[int, int]] = set()
    left_out = LeftOut() if ignore_missing else None
    while real or linked:
        for path, found, is_link in _listed((real or linked).popleft(), seen, left_out):
            if stat.S_ISDIR(found.st_mode):
                (linked if is_link else real).append(path)
            elif stat.S_ISREG(found.st_mode):
                yield path, found
    if left_out is not None:
        left_out.total()


def _listed(
    directory: str, seen: set[tuple[int, int]], left_out: LeftOut | None
) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Yield the entries of a directory: path, status of the target, and whether it is a link.

    Yield nothing if the directory is in `seen`; add it there.
    """
    try:
        found = os.stat(directory)
        if (found.st_dev, found.st_ino) in seen:
            return
        with os.scandir(directory) as listed:
            entries = sorted(listed, key=lambda entry: entry.name, reverse=True)
    except FileNotFoundError:
        return  # another process has just removed it
    seen.add((found.st_dev, found.st_ino))
    while entries:
        entry = entries.pop()  # free each entry: its cached status is much memory for a million files
        if is_hidden(entry.name):
            continue
        path = entry.path
        try:
            yield path, entry.stat(), entry.is_symlink()
        except OSError as error:
            broken = _broken(path)
            if broken is not None and left_out is None:
                raise PathNotFoundError(broken, path) from None
            if broken is not None and left_out is not None:
                left_out.add(broken)
            elif not isinstance(error, FileNotFoundError):  # a file that was just removed is no error
                raise


#: Error numbers of a link to a missing file, to itself, and through a file instead of a folder.
_BROKEN_LINK = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)


def check_link(path: str) -> None:
    """Refuse a path that is a broken link."""
    broken = _broken(path)
    if broken is not None:
        raise PathNotFoundError(broken, path)


def _broken(path: str) -> str | None:
    """Return the error text for a path that is a broken link; None for all others."""
    if not os.path.islink(path):
        return None
    try:
        os.stat(path)
        return None
    except OSError as error:
        if error.errno not in _BROKEN_LINK:
            raise
    try:
        to = repr(os.readlink(path))
    except OSError:  # the link was removed meanwhile
        to = "elsewhere"
    return (
        f"{path}: a link to {to}, whose target does not exist; remove it, restore its target, or let missing files be "
        "ignored"
    )


def passes(path: str, name_filter: str | None) -> bool:
    """Whether the last part of a path matches `name_filter`; true without a filter."""
    if name_filter is None:
        return True
    name = os.path.basename(path)
    return any(fnmatchcase(name, spelt.replace("[^", "[!")) for spelt in _braces(name_filter))


def is_named_arrow(path: str) -> bool:
    """Whether a file's name has a suffix of Arrow files, in lower or upper case."""
    return path.lower().endswith(ARROW_SUFFIXES)


def is_hidden(name: str) -> bool:
    """Whether readers ignore a name, or a part of it between slashes.

    As in Spark, they ignore names that begin with ``_`` or ``.``, except for keys such as ``_day=1``, and files that
    are being copied (``._COPYING_``).
    """
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")
        for part in name.split("/")
    )


def _expand(path: str, name_filter: str | None, ignore_missing: bool) -> Iterator[FoundFile]:
    if os.path.isdir(path):
        yield from with_logs(
            lambda: _in(path, name_filter=name_filter, ignore_missing=ignore_missing),
            local_log,
            path,
            lambda name: not ignore_missing and not is_hidden(name) and passes(name, name_filter),
        )
    elif os.path.exists(path):
        yield FoundFile(path, os.stat(path).st_size)
    else:
        check_link(path)
        yield from with_logs(lambda: _once(_expand_pattern(path, name_filter, ignore_missing)), local_log, _fixed(path))


def _expand_pattern(path: str, name_filter: str | None, ignore_missing: bool) -> Iterator[FoundFile]:
    directories = []
    for match in _matches(path, name_filter, ignore_missing):
        if os.path.isdir(match):
            directories.append(match)
        elif os.path.exists(match):
            yield FoundFile(match, os.stat(match).st_size)
        elif not ignore_missing:
            check_link(match)
    yield from _in(*directories, name_filter=name_filter, ignore_missing=ignore_missing)


def _once(files: Iterable[FoundFile]) -> Iterable[FoundFile]:
    """Return each file once: a pattern may match a directory and also a link to it."""
    real: dict[str, str] = {}
    found: dict[tuple[str, str], FoundFile] = {}
    for file in files:
        directory, name = os.path.split(file.path)
        if directory not in real:
            real[directory] = os.path.realpath(directory)
        if real[directory] == directory:
            found[directory, name] = file
        else:
            found.setdefault((real[directory], name), file)
    return found.values()


def _in(*directories: str, name_filter: str | None, ignore_missing: bool) -> Iterator[FoundFile]:
    for path, found in walk(*directories, ignore_missing=ignore_missing):
        if name_filter is None or passes(path, name_filter):
            yield FoundFile(path, found.st_size)


def _matches(path: str, name_filter: str | None, ignore_missing: bool) -> Iterator[str]:
    """Yield the files and directories that match a pattern, without hidden ones."""
    for pattern in _braces(path):
        fixed = _fixed(pattern)
        if "**" in pattern[len(fixed) :].split(os.sep):
            yield from _deep_matches(fixed, pattern[len(fixed) :].strip(os.sep), name_filter, ignore_missing)
            continue
        for match in glob.glob(pattern):
            if not is_hidden(match[len(fixed) :].strip(os.sep).replace(os.sep, "/")):
                yield match


def _deep_matches(fixed: str, rest: str, name_filter: str | None, ignore_missing: bool) -> Iterator[str]:
    """Yield files that match a pattern with ``**``, or whose directory does; glob would follow loops of links."""
    wanted = rest.split(os.sep)
    for path, _ in walk(fixed, ignore_missing=ignore_missing):
        parts = os.path.relpath(path, fixed).split(os.sep)
        if _fits(parts, wanted) or (
            passes(path, name_filter) and any(_fits(parts[:i], wanted) for i in range(1, len(parts)))
        ):
            yield path


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Whether names match patterns one by one; ``**`` matches any number of names."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fits(parts[i:], wanted[1:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])


def _fixed(pattern: str) -> str:
    """Return the directories at the beginning of a pattern that have no wildcards."""
    return os.path.dirname(pattern[: re.search(r"[*?\[]|$", pattern).start()])  # type: ignore[union-attr]


def _braces(pattern: str) -> list[str]:
    """Expand ``{a,b}`` alternatives, which shells support and ``glob`` does not."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [spelt for choice in match.group(1).split(",") for spelt in _braces(before + choice + after)]


# -- URLs ----------------------------------------------------------------------------------------------------


def _expand_url(url: str, name_filter: str | None, storage: Mapping[str, Any]) -> list[FoundFile]:
    system, path = find_system(url, storage)
    try:
        info = _info(system, url, path, storage)
        if info is not None and info["type"] != "directory":
            found = [_found(info)]
        elif info is not None:
            # Over HTTP, only the slash at the end distinguishes a directory from a file.
            top = url if path.startswith("http") else path
            found = _with_logs(
                system,
                top,
                partial(_below, system, top, name_filter),
                lambda name: not is_hidden(name) and passes(name, name_filter),
            )
        else:
            found = _with_logs(system, _fixed(path), partial(_matches_of, system, path, name_filter))
    except Exception as error:
        failure = io_error(url, error, options=storage)
        if isinstance(failure, FileNotFoundError):
            raise PathNotFoundError(f"{url}: no such file", url) from None
        raise failure from None
    return [file._replace(path=_url_of(url, file.path)) for file in found]


def _info(system: Any, url: str, path: str, storage: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the file system's ``info`` of a file or directory; None for a pattern."""
    if url.endswith("/"):
        return {"type": "directory"}
    with suppress(*((FileNotFoundError,) if any(mark in path for mark in "*?[{") else ())):
        if "*" not in path:
            if path.startswith("http"):  # fsspec reports every failure over HTTP as a missing file
                return {"name": path, "type": "file", "size": RemoteSource(url, storage).known_size}
            found: dict[str, Any] = system.info(path)
            return found
    return None


def _with_logs(
    system: Any,
    directory: str,
    listing: Callable[[set[str]], Iterable[FoundFile]],
    wanted: Callable[[str], bool] = lambda name: False,
) -> list[FoundFile]:
    """Return the files of a listing that count; `listing` adds directories that have a log to its argument."""
    # Spark does not write over HTTP, and servers may answer strangely for a missing log: look for none there.
    known = set() if directory.startswith("http") else {*above(directory)}

    def listed() -> Iterable[FoundFile]:
        system.invalidate_cache()
        return listing(known)

    return with_logs(listed, lambda each: remote_log(system, each) if each in known else None, directory, wanted)


def _matches_of(system: Any, path: str, name_filter: str | None, logs: set[str]) -> Iterable[FoundFile]:
    """Return the files that match a pattern, and those in directories that match, each once."""
    found: dict[str, FoundFile] = {}
    for pattern in _braces(path):
        fixed = len(_fixed(pattern))
        for name, match in system.glob(pattern, detail=True).items():
            if not is_hidden(name[fixed:]):
                directory = match["type"] == "directory"
                files = _below(system, name, name_filter, logs) if directory else [_found(match)]
                found |= {file.path: file for file in files}
    return found.values()


def _below(system: Any, directory: str, name_filter: str | None, logs: set[str]) -> Iterator[FoundFile]:
    """Yield the files in a directory, at any depth; add directories that have a log to `logs`."""
    begin = len(directory.rstrip("/"))
    for name, info in system.find(directory, detail=True).items():
        # Over HTTP, the listing of an empty directory contains the directory itself, as a file.
        if name[begin:] in ("", "/"):
            continue
        if not is_hidden(name[begin:]):
            if passes(name, name_filter) and info.get("type", "file") == "file":
                yield _found(info)
        elif f"/{LOG}/" in name[begin:]:
            logs.add(name.partition(f"/{LOG}/")[0])


def _found(info: Mapping[str, Any]) -> FoundFile:
    size = info.get("size")
    return FoundFile(info["name"], None if size is None else int(size))


def _url_of(url: str, name: str) -> str:
    """Return the URL of a file whose name in the file system of `url` is `name`."""
    first, chained, rest = url.partition("::")
    if "://" not in first:  # such as simplecache::s3://...
        return f"{first}::{_url_of(rest, name)}"
    scheme = first.partition("://")[0]
    return (name if "://" in name else f"{scheme}://{name}") + chained + rest
