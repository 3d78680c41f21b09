"""Finds the files that the paths of a read mean: files, directories, glob patterns and lists of them."""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from urllib.parse import unquote, urlsplit

from arrowipc.errors import UsageError

__all__ = ["find_files", "is_file_format"]

_MAGIC = b"ARROW1"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def find_files(options: Mapping[str, str]) -> list[str]:
    """Absolute paths of all files that the options ``path``, ``paths`` and ``pathglobfilter`` name.

    Parameters
    ----------
    options : mapping
        ``path``: one path; ``paths``: a JSON list of them, as Spark passes ``load([...])``. A path may be a
        file, a directory (searched to any depth, without names that begin with ``_`` or ``.``) or a pattern
        with ``*``, ``?``, ``[...]``, ``**`` and ``{a,b}``. ``pathglobfilter``: a pattern for the names of
        the files in directories.

    Returns
    -------
    list of str
        In the order of the paths, sorted within each; never empty.

    Raises
    ------
    UsageError
        If there is no path, if one is not on a local file system, or if one finds nothing.
    """
    paths = _paths(options)
    if not paths:
        raise UsageError(
            'arrowipc needs a path: spark.read.format("arrowipc").load("directory or file or pattern")'
        )
    name_filter = options.get("pathglobfilter")
    found: dict[str, None] = {}
    for path in paths:
        files = sorted(_expand(_local(path), name_filter))
        if not files:
            extra = f" whose name matches {name_filter!r}" if name_filter else ""
            raise UsageError(
                f"{path}: no such file, and no file{extra} found under it (names with _ or . are ignored)"
            )
        found.update(dict.fromkeys(files))
    return list(found)


def is_file_format(path: str) -> bool:
    """Whether a file begins like an Arrow IPC file, not like a stream."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


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


def _local(path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme is None or os.path.exists(path):
        return os.path.abspath(path)
    if scheme.group().lower() != "file:":
        raise UsageError(
            f"{path}: arrowipc reads files that the driver and every executor see as local ones; for others "
            'use spark.read.format("binaryFile").load(...) and decode_payloads(df, "content")'
        )
    return os.path.abspath(unquote(urlsplit(path).path))


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
