"""The log of Spark's streaming sink: of the files in a folder that the sink wrote, only those in the log count.

The folder ``_spark_metadata`` has a file for each micro-batch, named by its number. Every tenth is named
``<number>.compact`` and repeats the valid entries of the files before it. The first line is ``v1``, each further line a
JSON object about one file. A file that no line names was left by an unfinished micro-batch, and does not count.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from arrowipc._core import Descriptor
from arrowipc.errors import FormatError, LimitError, UnsupportedError

#: The folder of the log, beside the files that it lists.
LOG = "_spark_metadata"
VERSION = "v1"
#: Most bytes of a log, all its files together: about two million names.
LARGEST = 256 << 20
#: Attempts to read a log while Spark removes files of it.
TRIES = 20
_NAME = re.compile(r"(0|[1-9]\d{0,17})(\.compact)?", re.ASCII)
_URI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://([^/]*))?(/.*)", re.DOTALL)


def log_files(names: Iterable[str], where: str) -> list[str]:
    """Return the names of the files of a log that are needed, in order; raise a FormatError if one is missing."""
    found: dict[int, str] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match and (match[2] or int(match[1]) not in found):
            found[int(match[1])] = name
    if not found:
        return []
    last = max(found)
    first = max((number for number, name in found.items() if name.endswith(".compact")), default=0)
    wanted = sorted(number for number in found if number >= first)
    if len(wanted) != last - first + 1:
        missing = next(place for place, number in enumerate(wanted, first) if number != place)
        raise FormatError(
            f"{where}: the log of Spark's streaming sink has no file {missing}, and has {found[last]}; restore it, or "
            f"remove {LOG} if all files of the folder are to count"
        )
    return [found[number] for number in wanted]


def listed(data: bytes, roots: Iterable[str], where: str) -> Iterator[tuple[str, bool]]:
    """Read one file of a log: yield names under the folder (`roots`), and whether they were added or deleted."""
    try:
        version, *lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: expected text in UTF-8, found {error.reason} at byte {error.start}") from None
    if version != VERSION:
        if re.fullmatch(r"v[1-9]\d{0,9}", version, re.ASCII):
            raise UnsupportedError(f"{where}: the log has version {version}, and arrowipc knows {VERSION}")
        raise FormatError(f"{where}: expected {VERSION} in the first line, found {version[:40]!r}")
    begins = tuple([root.strip("/") + "/" for root in roots])
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        entry: Any = None
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
        if not _is_entry(entry):
            raise FormatError(f"{where}: line {number}: expected a JSON object about a file, found {line[:80]!r}")
        name = _below(entry["path"], begins)
        if name is None:
            raise FormatError(
                f"{where}: line {number}: {entry['path'][:200]!r} is not below /{begins[0]}; if the folder was moved, "
                f"its log does not hold any more: remove {LOG} if all files of the folder are to count"
            )
        yield name, entry["action"] == "add"


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or type(entry.get("path")) is not str or entry.get("isDir") is not False:
        return False
    numbers = [entry.get(name) for name in ("size", "modificationTime")]
    return all(type(each) is int and each >= 0 for each in numbers) and entry.get("action") in ("add", "delete")


def _below(uri: str, begins: tuple[str, ...]) -> str | None:
    """Return the name of a file under the folder; None if it is elsewhere."""
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    path = unquote(match[2], errors="surrogateescape")
    # Paths of fsspec's file systems contain the bucket, those of Hadoop do not.
    for each in (path.lstrip("/"), f"{match[1] or ''}{path}"):
        for begin in begins:
            name = each[len(begin) :]
            if each.startswith(begin) and "\0" not in name and {"", ".", ".."}.isdisjoint(name.split("/")):
                return name
    return None


def local_log(directory: str) -> frozenset[str] | None:
    """Return the names under a local directory that its log lists; None if it has no log."""
    where = os.path.join(directory, LOG)

    def read(name: str, most: int) -> bytes:
        # Without O_NONBLOCK, opening a pipe of that name would wait.
        with (
            Descriptor(os.path.join(where, name), os.O_RDONLY | os.O_NONBLOCK) as opened,
            open(opened.fileno(), "rb", closefd=False) as file,
        ):
            return file.read(most) or b""  # None: a pipe without data

    return _read_log(lambda: os.listdir(where), read, (directory, os.path.realpath(directory)), where)


def remote_log(system: Any, directory: str) -> frozenset[str] | None:
    """Return the names under a directory of an fsspec file system that its log lists; None if it has no log."""
    where = f"{directory.rstrip('/')}/{LOG}"

    def names() -> list[str]:
        system.invalidate_cache()
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in system.ls(where, detail=False)]

    def read(name: str, most: int) -> bytes:
        data: bytes = system.cat_file(f"{where}/{name}", start=0, end=most)
        return data

    return _read_log(names, read, (directory,), where)


def _read_log(
    names: Callable[[], list[str]], read: Callable[[str, int], bytes], roots: tuple[str, ...], where: str
) -> frozenset[str] | None:
    for _ in range(TRIES):
        try:
            files = log_files(names(), where)
        except (FileNotFoundError, NotADirectoryError):
            return None
        added, deleted, left = set[str](), set[str](), LARGEST
        # Spark removes files of the log after it has written a newer compact one: then try again.
        with suppress(FileNotFoundError):
            for file in files:
                data = read(file, left + 1)
                left -= len(data)
                if left < 0:
                    raise LimitError(f"{where}: the log has more than {LARGEST:,} bytes")
                for name, is_there in listed(data, roots, f"{where}/{file}"):
                    (added if is_there else deleted).add(name)
            return frozenset(added - deleted)
    raise OSError(errno.EBUSY, "its files change faster than they can be read", where)


def above(directory: str) -> list[str]:
    """Return the directories whose logs may list a directory's files: itself, and those above that of a key."""
    found = [directory]
    while "=" in os.path.basename(directory):
        directory = os.path.dirname(directory)
        found.append(directory)
    return found


def with_logs(
    listing: Callable[[], Iterable[Any]],
    log_of: Callable[[str], frozenset[str] | None],
    directory: str,
    wanted: Callable[[str], bool] = lambda name: False,
) -> list[Any]:
    """Return the files of a listing that count.

    A log is read before its folder is listed: then all files that it lists exist, and files of a micro-batch that ends
    meanwhile do not count. `listing` lists the files below `directory`, at any depth, `log_of` reads the log of a
    directory, and `wanted` says for a name in a log whether its absence is a FileNotFoundError.
    """
    logs = {each: log_of(each) for each in above(directory)}
    while True:
        files = list(listing())
        new = {each: log_of(each) for each in _directories(files, logs)}
        logs |= new
        if not any(names is not None for names in new.values()):
            break
    for each, names in logs.items():
        if names is not None:
            files = _counting(files, each, names, directory, wanted)
    return files


def _directories(files: Iterable[Any], known: Iterable[str]) -> set[str]:
    """Return the directories of files, and those above them up to the known ones, without these."""
    seen = {*known}
    for file in files:
        directory = os.path.dirname(file.path)
        while directory not in seen:
            seen.add(directory)
            directory = os.path.dirname(directory)
    return seen.difference(known)


def _counting(
    files: list[Any], folder: str, names: frozenset[str], directory: str, wanted: Callable[[str], bool]
) -> list[Any]:
    """Return the files without those below `folder` that its log does not list; raise if a wanted one is missing."""
    begin = folder.rstrip("/" + os.sep) + "/"
    asked = directory.rstrip("/" + os.sep) + "/"
    kept, missed = [], {name for name in names if wanted(name) and f"{begin}{name}".startswith(asked)}
    for file in files:
        inside = file.path.startswith((begin, begin[:-1] + os.sep))
        name = file.path[len(begin) :].replace(os.sep, "/") if inside else ""
        missed.discard(name)
        if not name or name in names:
            kept.append(file)
    if missed:
        text = f"it is gone, and {LOG}, the log of Spark's streaming sink, lists it"
        raise FileNotFoundError(errno.ENOENT, text, begin + min(missed))
    return kept
