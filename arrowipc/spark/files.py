"""Finds the files that the paths of a read mean: files, directories, patterns, URLs and lists of them."""

import datetime as dt
import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from arrowipc.errors import UsageError
from arrowipc.remote import RemoteSource, find_system, io_error

__all__ = ["FoundFile", "find_files", "is_url", "storage_options"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_STORAGE = "storage."
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "created")


class FoundFile(NamedTuple):
    """A file to read, as the listing that found it describes it.

    ``size`` (bytes) and ``mtime`` (seconds since 1970) are None where a remote listing does not say.
    """

    path: str
    size: int | None
    mtime: float | None


def find_files(options: Mapping[str, str]) -> list[FoundFile]:
    """All files that the options ``path``, ``paths`` and ``pathglobfilter`` name.

    Parameters
    ----------
    options : mapping
        ``path``: one path; ``paths``: a JSON list of them, as Spark passes ``load([...])``. A path may be a
        file, a directory (searched to any depth, without names that begin with ``_`` or ``.``) or a pattern
        with ``*``, ``?``, ``[...]``, ``**`` and ``{a,b}``; local, or a URL of a file system that fsspec
        knows. ``pathglobfilter``: a pattern for the names of the files in directories. ``storage.*``: see
        `storage_options`.

    Returns
    -------
    list of FoundFile
        Absolute paths or URLs in the order of the paths, sorted within each; never empty.

    Raises
    ------
    UsageError
        If there is no path, if one finds nothing, or if nobody knows its kind of URL.
    OSError
        If a file system does not answer.
    """
    paths = _paths(options)
    if not paths:
        raise UsageError(
            'arrowipc needs a path: spark.read.format("arrowipc").load("directory or file or pattern")'
        )
    name_filter = options.get("pathglobfilter")
    found: dict[str, FoundFile] = {}
    for path in paths:
        local = _local(path)
        if local is not None:
            files = [_described(name) for name in sorted(_expand(local, name_filter))]
        else:
            files = sorted(_expand_url(path, name_filter, storage_options(options)))
        if not files:
            extra = f" whose name matches {name_filter!r}" if name_filter else ""
            raise UsageError(
                f"{path}: no such file, and no file{extra} found under it (names with _ or . are ignored)"
            )
        found.update({file.path: file for file in files})
    return list(found.values())


def storage_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Take the options ``storage.NAME``, which the file system of a URL wants to know.

    Values are JSON where they can be (``true``, ``5``, ``{"endpoint_url": ...}``), else texts; a text that
    looks like JSON is given in quotes (``"12345"``). Spark passes the names in lower case.
    """
    taken: dict[str, Any] = {}
    for name, value in options.items():
        if name.lower().startswith(_STORAGE):
            try:
                taken[name[len(_STORAGE) :]] = json.loads(value)
            except ValueError:
                taken[name[len(_STORAGE) :]] = value
    return taken


def is_url(path: str) -> bool:
    """Whether a path that `find_files` gave is one for fsspec."""
    return "://" in path and not path.startswith(os.sep)


def _paths(options: Mapping[str, str]) -> list[str]:
    paths = [options["path"]] if options.get("path") else []
    if options.get("paths"):
        try:
            more = json.loads(options["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) for path in more):
            raise UsageError(f"option paths: expected a JSON list of texts, found {options['paths']!r}")
        paths += more
    return paths


# -- local paths ---------------------------------------------------------------------------------------------


def _local(path: str) -> str | None:
    """The absolute path of a local file; None for a URL."""
    scheme = _SCHEME.match(path)
    if scheme is None or os.path.exists(path):
        return os.path.abspath(path)
    if scheme.group().lower() == "file:":
        return os.path.abspath(unquote(urlsplit(path).path))
    if "://" in path:
        return None
    raise UsageError(f"{path}: expected a local path or a URL such as s3://bucket/{path[scheme.end() :]}")


def _described(path: str) -> FoundFile:
    info = os.stat(path)
    return FoundFile(path, info.st_size, info.st_mtime)


def _expand(path: str, name_filter: str | None) -> Iterator[str]:
    if os.path.isdir(path):
        yield from _walk(path, name_filter)
    elif os.path.exists(path):
        yield path
    else:
        for pattern in _braces(path):
            for match in glob.glob(pattern, recursive=True):
                if any(_hidden(part) for part in match[len(_fixed(pattern)) :].split(os.sep)):
                    continue
                if os.path.isdir(match):
                    yield from _walk(match, name_filter)
                else:
                    yield match


def _fixed(pattern: str) -> str:
    """The directories at the beginning of a pattern that are spelt out."""
    return os.path.dirname(pattern[: re.search(r"[*?\[]|$", pattern).start()])  # type: ignore[union-attr]


def _walk(directory: str, name_filter: str | None) -> Iterator[str]:
    for parent, directories, names in os.walk(directory, followlinks=True):
        directories[:] = [name for name in directories if not _hidden(name)]
        for name in names:
            if not _hidden(name) and (name_filter is None or fnmatch(name, name_filter)):
                yield os.path.join(parent, name)


def _hidden(path: str) -> bool:
    return os.path.basename(path).startswith(("_", "."))


def _braces(pattern: str) -> list[str]:
    """Spell out the ``{a,b}`` alternatives, which Spark users know and ``glob`` does not."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [spelt for choice in match.group(1).split(",") for spelt in _braces(before + choice + after)]


# -- URLs ----------------------------------------------------------------------------------------------------


def _expand_url(url: str, name_filter: str | None, storage: Mapping[str, Any]) -> list[FoundFile]:
    try:
        system, path = find_system(url, storage)
    except UsageError as error:
        raise UsageError(
            f"{error}; what only Spark can read comes with "
            'spark.read.format("binaryFile").load(...) and decode_payloads(df, "content")'
        ) from error
    try:
        entries = list(_entries(system, url, path, name_filter, storage))
    except Exception as error:
        failure = io_error(url, error)
        if isinstance(failure, FileNotFoundError):
            raise UsageError(f"{url}: no such file") from error
        raise failure from error
    return [FoundFile(_url_of(url, info["name"]), info.get("size"), _modified(info)) for info in entries]


def _entries(
    system: Any, url: str, path: str, name_filter: str | None, storage: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """What the file system says of each file."""
    if url.endswith("/"):  # over HTTP nothing else tells a directory from a file
        yield from _below(system, url if path.startswith("http") else path, name_filter)
        return
    info = None
    patterns = any(mark in path for mark in "*?[{")
    with suppress(*((FileNotFoundError,) if patterns else ())):
        if "*" not in path:
            if path.startswith("http"):  # where fsspec takes every failure for a missing file
                info = {"name": path, "type": "file", "size": RemoteSource(url, storage).known_size}
            else:
                info = system.info(path)
    if info is None:
        for pattern in _braces(path):
            fixed = len(_fixed(pattern))
            for name, match in system.glob(pattern, detail=True).items():
                if _shown(name[fixed:]):
                    directory = match["type"] == "directory"
                    yield from _below(system, name, name_filter) if directory else [match]
    elif info["type"] == "directory":
        yield from _below(system, path, name_filter)
    else:
        yield info


def _below(system: Any, directory: str, name_filter: str | None) -> Iterable[dict[str, Any]]:
    """The files in a directory, at any depth."""
    return [
        info
        for name, info in system.find(directory, detail=True).items()
        if _shown(name[len(directory.rstrip("/")) :])
        and (name_filter is None or fnmatch(os.path.basename(name), name_filter))
    ]


def _shown(relative: str) -> bool:
    return not any(_hidden(part) for part in relative.split("/"))


def _url_of(url: str, name: str) -> str:
    """The URL of a file that the file system of `url` calls `name`."""
    first, chained, rest = url.partition("::")
    if "://" not in first:  # such as simplecache::s3://...
        return f"{first}::{_url_of(rest, name)}"
    scheme = first.partition("://")[0]
    return (name if "://" in name else f"{scheme}://{name}") + chained + rest


def _modified(info: Mapping[str, Any]) -> float | None:
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, dt.datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None
