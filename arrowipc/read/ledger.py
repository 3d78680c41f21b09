"""Which files of a directory count while others write to it: the ledger that they keep in ``_commits``.

``_commits/<number>.json``, 20 digits each, says which files do not count; the highest number is right, and says all.
A writer changes what is right at one moment by making the file of the next number, which one of several succeeds in.
So a directory without ``_commits`` is what it was before there were ledgers: all its files count.

Not counted are the files of jobs that have *started* to commit (their names hold the job's id, 32 hexadecimal digits),
and those that an overwrite *replaced* and did not remove yet.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from arrowipc._core import Descriptor
from arrowipc.errors import FormatError, UnsupportedError

__all__ = ["LEDGER", "Ledger", "above", "entry_name", "entry_number", "local_ledger", "remote_ledger", "settled"]

#: The directory of a ledger, beside the files that it is about.
LEDGER = "_commits"
VERSION = 1
#: Bytes of an entry: of an overwrite of some two million files that died before it removed them.
LARGEST = 256 << 20
#: Jobs of which it is kept when they ended; a reader lists a directory while fewer than these do.
ENDED = 64
#: How often a reader looks again where others were faster.
TRIES = 20
_ENTRY = re.compile(r"(\d{20})\.json", re.ASCII)
_JOB = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


@dataclass(frozen=True)
class Ledger:
    """What one entry says.

    Attributes
    ----------
    number : int
        Of the entry, 0 where there is none yet.
    started : mapping of str to int
        The ids of jobs that do not count -> when they started to commit, in seconds since 1970.
    dropped : tuple of str
        Those of them that may not go on.
    replaced : mapping of str to int
        Names under the directory -> when these files were modified, in microseconds: another file of the same name
        counts. Names that end with a slash are links to directories.
    ended : tuple of (int, str)
        The jobs that were committed or given up last, and the number of the entry since which.
    committed, overwritten : int
        The number of the entry since which the last commit, and the last overwrite, is there.
    queries : mapping of str to int
        Streaming queries -> the highest number of their micro-batches that is committed.
    chain : tuple of str
        What the last entries, with this one, are called by those who made them.
    """

    number: int = 0
    started: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    replaced: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[tuple[int, str], ...] = ()
    committed: int = 0
    overwritten: int = 0
    queries: Mapping[str, int] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @classmethod
    def of(cls, number: int, data: bytes, where: str = LEDGER) -> Ledger:
        """Take the content of an entry from anywhere; `where` it was found.

        Raises
        ------
        FormatError
            It is none.
        UnsupportedError
            It is one of a later version of arrowipc.
        """
        found: Any = None
        with suppress(ValueError, RecursionError):
            found = json.loads(data) if len(data) <= LARGEST else None
        version = found.pop("version", None) if isinstance(found, dict) else None
        if type(version) is int and version > VERSION:
            raise UnsupportedError(f"{where}: entry {number} needs a later arrowipc (version {version} of ledgers)")
        if version != VERSION or found.keys() != _KINDS.keys() or not all(_KINDS[key](found[key]) for key in found):
            raise FormatError(
                f"{where}: expected the state of commits in {entry_name(number)}, found something else; if no job is "
                "writing, remove the file: the entry before it is right, or where there is none, all files are"
            )
        found |= {"dropped": (*found["dropped"],), "ended": (*map(tuple, found["ended"]),), "chain": (*found["chain"],)}
        return cls(number, **found)

    def to_bytes(self) -> bytes:
        """The content of the entry."""
        found = {key: value for key, value in asdict(self).items() if key != "number"}
        return json.dumps({"version": VERSION, **found}).encode()

    def follows(self, before: Ledger | None) -> bool:
        """Whether a listing made between two entries, `before` and this one, lacks nothing that counted before."""
        if before is None or not before.number <= self.number or self.overwritten > before.number:
            return False
        return len(self.ended) < ENDED or self.ended[0][0] <= before.number

    def jobs_since(self, before: Ledger) -> set[str]:
        """The jobs of which a listing between two entries may hold some files that did not count `before`."""
        ended = {job for number, job in self.ended if number > before.number}
        return ended.union(before.started, self.started)


def _times(found: Any) -> bool:
    return type(found) is dict and all(type(each) is int for each in found.values())


def _texts(found: Any) -> bool:
    return type(found) is list and all(type(each) is str for each in found)


def _ended(found: Any) -> bool:
    return type(found) is list and all(type(each) is list and [*map(type, each)] == [int, str] for each in found)


_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("started", "replaced", "queries"), _times),
    **dict.fromkeys(("dropped", "chain"), _texts),
    **dict.fromkeys(("committed", "overwritten"), lambda found: type(found) is int),
    "ended": _ended,
}


def entry_name(number: int) -> str:
    """The name of an entry in `LEDGER`."""
    return f"{number:020}.json"


def entry_number(name: str) -> int | None:
    """The number of an entry; None for other names."""
    match = _ENTRY.fullmatch(name)
    return int(match[1]) if match else None


def local_ledger(directory: str) -> Ledger | None:
    """The ledger of a local directory, None where there is none."""
    where = os.path.join(directory, LEDGER)

    def names() -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.listdir(where)
        return []

    def read(name: str) -> bytes:
        # Else what is no file, but a pipe, would be waited for.
        with (
            Descriptor(os.path.join(where, name), os.O_RDONLY | _NO_WAIT) as opened,
            open(opened.fileno(), "rb", closefd=False) as file,
        ):
            return file.read(LARGEST + 1)

    return _newest(names, read, where)


_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def remote_ledger(system: Any, directory: str) -> Ledger | None:
    """The ledger of a directory in a file system of fsspec, None where there is none."""
    where = f"{directory.rstrip('/')}/{LEDGER}"

    def names() -> list[str]:
        system.invalidate_cache()
        with suppress(FileNotFoundError, NotADirectoryError):
            return [path.rstrip("/").rsplit("/", 1)[-1] for path in system.ls(where, detail=False)]
        return []

    def read(name: str) -> bytes:
        data: bytes = system.cat_file(f"{where}/{name}", start=0, end=LARGEST + 1)
        return data

    return _newest(names, read, where)


def _newest(names: Callable[[], Iterable[str]], read: Callable[[str], bytes], where: str) -> Ledger | None:
    for _ in range(TRIES):
        number = max((found for name in names() if (found := entry_number(name)) is not None), default=None)
        if number is None:
            return None
        # Others may have entered more meanwhile, and removed this one.
        with suppress(FileNotFoundError):
            return Ledger.of(number, read(entry_name(number)), where)
    raise OSError(errno.EBUSY, "its entries change faster than they can be read", where)


def above(directory: str) -> list[str]:
    """The directories whose ledgers are about a directory: itself, and those of keys with the one that they are in."""
    found = [directory]
    while "=" in os.path.basename(directory):
        directory = os.path.dirname(directory)
        found.append(directory)
    return found


def settled(
    listing: Callable[[], Iterable[Any]], ledger_of: Callable[[str], Ledger | None], directory: str
) -> list[Any]:
    """The files of a listing that count, all as of one moment, whoever writes meanwhile.

    Ledgers are read before and after it, and what any of them knows of is left out. Listed again is where an
    overwrite removed files meanwhile, or where a ledger was not known before.

    Parameters
    ----------
    listing : callable
        Lists the files, at any depth, as `FoundFile` has them.
    ledger_of : callable
        Reads the ledger of a directory.
    directory : str
        Which is listed.
    """
    before = {each: ledger_of(each) for each in above(directory)}
    for _ in range(TRIES):
        files = list(listing())
        now = {each: ledger_of(each) for each in _directories(files, before)}
        if all(ledger is None or ledger.follows(before.get(each)) for each, ledger in now.items()):
            for each, ledger in now.items():
                known = before.get(each)
                if known is not None and ledger is not None:
                    files = _counting(files, each, ledger.jobs_since(known), known.replaced)
            return files
        before = now
    raise OSError(errno.EBUSY, "it is overwritten faster than it can be listed", directory)


def _directories(files: Iterable[Any], known: Iterable[str]) -> set[str]:
    """All directories in which files were found, with those between them and the known ones."""
    seen = set(known)
    for file in files:
        directory = os.path.dirname(file.path)
        while directory not in seen:
            seen.add(directory)
            directory = os.path.dirname(directory)
    return seen


def _counting(files: list[Any], directory: str, jobs: set[str], replaced: Mapping[str, int]) -> list[Any]:
    """The files but those below a directory that are of some jobs, or were replaced."""
    if not jobs and not replaced:
        return files
    begin = directory.rstrip("/" + os.sep)
    below = (f"{begin}/", begin + os.sep)
    links = tuple([name for name in replaced if name.endswith("/")])

    def counts(file: Any) -> bool:
        if not file.path.startswith(below):
            return True
        name = file.path[len(begin) + 1 :].replace(os.sep, "/")
        if replaced.get(name) == file.modified or (links and name.startswith(links)):
            return False
        return jobs.isdisjoint(_JOB.findall(os.path.basename(name)))

    return [file for file in files if counts(file)]
