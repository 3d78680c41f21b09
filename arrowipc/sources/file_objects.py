"""Reading from file objects of callers: short reads are repeated, and the object's return values are checked."""

from __future__ import annotations

import io
import os

from arrowipc._core import aligned_buffer
from arrowipc.arguments import as_integer, described
from arrowipc.errors import TruncatedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from arrowipc._core import Memory

TEXT = "the file object reads text: open it in binary mode, open(path, 'rb')"


class Remote:
    """Base of `sources.remote.RemoteSource`, by which `is_remote` recognizes it without importing its module."""

    __slots__ = ("__weakref__",)


def is_remote(source: Any) -> bool:
    """Whether a source is a RemoteSource."""
    return isinstance(source, Remote)


def file_path(url: str) -> str | None:
    """Return the path of a ``file:`` URL (RFC 8089), without the help of fsspec; None for all others.

    A UsageError: it is one of another host.
    """
    if url[:6].lower() != "file:/":
        return None
    host, root, path = url[7:].partition("/") if url[6:7] == "/" else ("", "/", url[6:])
    if host.lower() not in ("", "localhost") or not root:
        raise UsageError(
            f"{url}: expected file:///path, a file of this machine, found one of the host {host!r}; a relative path "
            "has no file:// before it"
        )
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path, errors="surrogateescape")  # names of files need not be UTF-8
    return f"/{path}"


class FileObjectError(UsageError):
    """A file object did not behave as such objects must; how many bytes it consumed is not known."""


def _wrong(file: Any, found: str, expected: str) -> FileObjectError:
    return FileObjectError(f"the file object {described(file)}: {found}: expected {expected}")


def read_some(file: Any, buffer: memoryview) -> int:
    """Fill the front of `buffer` with one read; return the number of bytes, 0 at the end of the input."""
    size = len(buffer)
    readinto = getattr(file, "readinto", None)
    if readinto is not None:
        call = f"readinto() of {size:,} bytes returned"
        try:
            count = readinto(buffer)
            if type(count) is int and 0 <= count <= size:
                return count
        except (NotImplementedError, io.UnsupportedOperation):
            readinto = None  # io.RawIOBase has a `readinto` that only raises
    if readinto is None:
        data = file.read(size)
        count = None if data is None else take(file, data, buffer)
        call = f"read({size}) returned"
    if count is None:
        raise BlockingIOError(
            "the source has no data now: arrowipc readers need a blocking source; "
            "feed a StreamDecoder from non-blocking ones"
        )
    number = as_integer(count)
    if number is None or not 0 <= number <= size:
        raise _wrong(file, f"{call} {described(count)}", f"a number of bytes from 0 to {size:,}")
    return number


def take(file: Any, data: Any, buffer: memoryview) -> int:
    """Copy the result of `read` into `buffer`; return the number of bytes."""
    if isinstance(data, str):
        raise FileObjectError(TEXT)
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise _wrong(file, f"read({len(buffer)}) returned {described(data)}", "bytes") from None
    if len(view) > len(buffer):
        found = f"read({len(buffer)}) returned {len(view):,} bytes"
        raise _wrong(file, found, f"{len(buffer):,} bytes at most")
    buffer[: len(view)] = view
    return len(view)


def read_up_to(file: Any, size: int) -> bytes:
    """Read `size` bytes, or all remaining ones if there are fewer."""
    data, done = bytearray(size), 0
    while done < size and (count := read_some(file, memoryview(data)[done:])):
        done += count
    return bytes(data[:done])


class SharedFile:
    """A file, opened by arrowipc, that threads read at the same time; it is closed with its last reference.

    If it were closed while a thread reads, its descriptor could be used for another file before the read.
    """

    __slots__ = ("_file",)

    def __init__(self, file: Any) -> None:
        self._file = file

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the file; only used to find its end."""
        return int(self._file.seek(offset, whence))

    def read_some(self, offset: int, buffer: memoryview) -> int:
        """Fill the front of `buffer` from byte `offset`; return the number of bytes, 0 at the end of the file."""
        return os.preadv(self._file.fileno(), (buffer,), offset)

    def __del__(self) -> None:
        self._file.close()


def read_at(file: Any, offset: int, buffer: memoryview) -> None:
    """Fill all of `buffer` from byte `offset` of a seekable file."""
    shared = isinstance(file, SharedFile)
    if not shared:
        seek_to(file, offset)
    done = 0
    while done < len(buffer):
        rest = buffer[done:]
        count = file.read_some(offset + done, rest) if shared else read_some(file, rest)
        if count == 0:
            raise TruncatedError(f"the file ends at byte {offset + done}: {len(buffer) - done} bytes are missing")
        done += count


def room_for(head: int, body: int) -> tuple[Memory, int]:
    """Return memory for a message, and the position in it at which its body will be aligned to 64 bytes."""
    at = -head % 64
    return aligned_buffer(at + head + body), at


def seek_to(file: Any, offset: int) -> None:
    """Move a file to an offset; raise if it reports another position."""
    found = file.seek(offset)
    if found is not None and as_integer(found) != offset:  # some return None
        raise _wrong(file, f"seek({offset}) returned {described(found)}", f"{offset}")


def position_of(file: Any) -> int:
    """Return the position that a file reports; raise if it is not a valid offset."""
    return _position(file, file.tell(), "tell()")


def end_of(file: Any) -> int:
    """Move a file to its end; return this position."""
    found = file.seek(0, os.SEEK_END)
    return position_of(file) if found is None else _position(file, found, "seek(0, SEEK_END)")


def _position(file: Any, found: Any, call: str) -> int:
    number = as_integer(found)
    if number is None or not 0 <= number < 2**63:
        raise _wrong(file, f"{call} returned {described(found)}", "a position, an integer from 0")
    return number


# -- versions of files, as servers and file systems report them ----------------------------------------------

#: Property of a file's version -> the names under which fsspec's file systems report it.
VERSION_NAMES: dict[str, tuple[str, ...]] = {
    "version": ("VersionId", "version_id", "generation"),
    "etag": ("ETag", "etag"),
    "hash": ("md5Hash", "md5"),
    "time": ("LastModified", "Last-Modified", "last_modified", "mtime", "modificationTime", "updated", "modified"),
    "made": ("created",),
    "size": ("size",),
}


def version_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties that identify a file's version, from an ``info`` of fsspec; empty if there are none."""
    found: dict[str, str] = {}
    for key, names in VERSION_NAMES.items():
        for value in map(info.get, names):
            if value not in (None, "", "null"):
                found.setdefault(key, str(value.timestamp() if hasattr(value, "timestamp") else value))
    return found if found.keys() - {"size"} else {}


def replaced(known: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """Return how a file's version differs from the known one, in words; None if no difference is known.

    An equal version, strong ETag or hash of the content decides alone. Otherwise all times and weak ETags must agree.
    """
    for key in ("size", "version", "etag", "hash", "time", "made"):
        if key not in known or key not in found:
            continue
        # A listing may contain an ETag without the quotes that it has in the file's own headers.
        before, after = (value[key].removeprefix("W/").strip('"') for value in (known, found))
        if before != after:
            return f"{key} {before[:80]!r} became {after[:80]!r}"
        weak = known[key].startswith("W/") or found[key].startswith("W/")
        if key in ("version", "etag", "hash") and not weak:
            return None
    return None
