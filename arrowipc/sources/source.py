"""Opening of sources (paths, URLs, memory, file objects), and feeding their bytes to a framer."""

from __future__ import annotations

import errno
import io
import os

from arrowipc._core import Source
from arrowipc.arguments import check_flag, described, instance_of, refuse_async
from arrowipc.errors import ArrowIpcError, LimitError, UsageError, showable
from arrowipc.maps.file_maps import FileMap
from arrowipc.sources.file_objects import (
    TEXT,
    FileObjectError,
    file_path,
    is_remote,
    position_of,
    read_some,
    read_up_to,
    seek_to,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias, TypeVar

    from typing_extensions import Buffer

    from arrowipc.decode.framing import Framer
    from arrowipc.limits import Limits
    from arrowipc.sources.file_objects import Remote

    T = TypeVar("T")

    # Types of the sources of readers, for editors and type checkers.

    class Reads(Protocol):
        """A binary file object that returns bytes."""

        def read(self, size: int, /) -> Any:
            """Return at most so many bytes."""

    class ReadsInto(Protocol):
        """A binary file object that fills memory."""

        def readinto(self, buffer: Any, /) -> Any:
            """Fill the front of `buffer`."""

    class Receives(Protocol):
        """A socket."""

        def recv_into(self, buffer: Any, /) -> Any:
            """Fill the front of `buffer`."""

    Readable: TypeAlias = str | os.PathLike[str] | Buffer | Remote | Reads | ReadsInto | Receives

#: Number of first bytes that distinguish a file from a stream.
SIGNATURE = 6
#: The first bytes of Feather V1 files.
FEATHER_V1 = b"FEA1"
#: The first bytes of the messages of streams since Arrow 0.15.
CONTINUATION = b"\xff\xff\xff\xff"
#: The end marker of a stream: a continuation marker, and no length.
END = CONTINUATION + bytes(4)


def locate_source(source: Any) -> Any:
    """Turn a URL into a path of this machine or a RemoteSource, and a socket into a file; return others as they are."""
    if isinstance(source, str) and "://" in source:
        path = file_path(source)
        if path is not None:
            return path
        from arrowipc.sources.remote import RemoteSource

        source = RemoteSource(source)
    if is_remote(source):
        return source.local_path or source
    return SocketFile(source) if hasattr(source, "recv_into") else source


def open_source(source: Any, memory_map: bool) -> tuple[Any, Any, bool]:
    """Open a source: return (buffer, None) or (None, file object), and whether the caller must close the file."""
    memory_map = check_flag("memory_map", memory_map)
    source = locate_source(source)
    if is_remote(source):
        return None, source.open(), True
    if isinstance(source, (str, os.PathLike)):
        file = _opened(source)
        if memory_map and is_regular(file):
            try:
                buffer = map_file(file)
            except OSError:  # the file system cannot map files, or too many are mapped: read it
                return None, file, True
            file.close()
            return buffer, None, False
        return None, file, True
    memory = memory_of(source)
    return (None, _checked(source), isinstance(source, Peeked)) if memory is None else (memory, None, False)


def memory_of(source: Any) -> memoryview[int] | None:
    """Return the bytes of an object that lends its memory, whatever its elements are; None if it has none."""
    try:
        view = memoryview(source)
        if view.format == "B" and view.ndim == 1 and view.c_contiguous:
            return view
    except TypeError:
        return None
    except (BufferError, ValueError):
        pass  # `Source` refuses it with a sentence
    held = Source(source)
    return held.part(0, len(held))


def _opened(path: str | os.PathLike[str]) -> Any:
    """Open a path for reading, with better errors than the system's for directories and text that is no path."""
    try:
        return open(path, "rb", buffering=0)
    except IsADirectoryError as error:
        advice = "Is a directory: open_dataset(path) reads its files"
        raise IsADirectoryError(error.errno, advice, error.filename) from None
    except FileNotFoundError as error:
        there = f"{error.strerror}; its path exists as far as {existing_part(os.fsdecode(path))}"
        if "*" in os.fsdecode(path):
            there += "; open_dataset(path) takes patterns"
        raise FileNotFoundError(error.errno, there, error.filename) from None
    except ValueError as error:  # a zero byte
        raise UsageError(f"a str is a path; data must be bytes: {error}") from None


def check_path(path: str | bytes | os.PathLike[str]) -> None:
    """Refuse a text that no path can be: with a zero byte, or with characters that the system cannot encode."""
    try:
        problem = "it has a zero byte" if b"\0" in os.fsencode(path) else None
    except UnicodeEncodeError as error:
        problem = str(error)
    if problem is not None:
        raise UsageError(f"expected a path, found {described(path)}: {problem}")


def existing_part(path: str) -> str:
    """Return the deepest folder of a path that exists."""
    place = os.path.abspath(path)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return place


def _checked(file: Any) -> Any:
    """Return a binary file object that is open for reading; refuse anything else."""
    refuse_async(file, ("read", "receive", "__aiter__"), "arrowipc.aio.open_stream() reads it")
    if not hasattr(file, "readinto") and not hasattr(file, "read"):
        expected = "a path, a URL, a bytes-like object, a binary file object or a socket"
        several = "; open_dataset() takes several paths" if isinstance(file, (list, tuple)) else ""
        raise UsageError(f"expected {expected}, found {type(file).__name__}{several}")
    if isinstance(file, io.TextIOBase):
        raise UsageError(TEXT)
    if getattr(file, "closed", False) is True:
        raise UsageError(f"the file object is closed, open it again: {described(file)}")
    if isinstance(file, io.IOBase) and not file.readable():
        raise UsageError(f"the file object is not open for reading: {described(file)}")
    return file


def map_file(file: Any) -> Any:
    """Map an opened file into memory, after which it may be closed; pipes and devices are read."""
    if not is_regular(file):
        # Pipes and devices cannot be mapped.
        return file.readall()
    # An empty file cannot be mapped either.
    return FileMap(file.fileno()) if os.fstat(file.fileno()).st_size else b""


def is_regular(file: Any) -> bool:
    """Whether an opened path is a regular file, not a pipe or device."""
    import stat

    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def can_seek(file: Any) -> bool:
    """Whether a file object can seek, and also the file that it unpacks, which a GzipFile does not check."""
    try:
        return bool(file.seekable()) and (getattr(file, "fileobj", None) is None or can_seek(file.fileobj))
    except AttributeError:  # there is no such method, or it fails, as for a member of a tar stream
        return False


class SocketFile:
    """A socket as a file; the caller closes the socket."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Any) -> None:
        if socket.fileno() < 0:
            raise UsageError(f"the socket is closed: {described(socket)}")
        self._socket = socket

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill the front of `buffer`; return None if a non-blocking socket has no data now."""
        try:
            return self._socket.recv_into(buffer)  # type: ignore[no-any-return]
        except TimeoutError as error:  # nothing was consumed, so reading can continue
            seconds = self._socket.gettimeout()
            raise TimeoutError(errno.ETIMEDOUT, f"nothing arrived at the socket for {seconds:g} s") from error
        except OSError as error:
            if isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError":
                return None
            raise


class Peeked:
    """A pipe whose first bytes were read already; `readinto` returns them again."""

    __slots__ = ("_file", "_first", "first", "owned")

    first: bytes
    owned: bool

    def __init__(self, file: Any, owned: bool) -> None:
        self._file = file
        self.owned = owned
        try:
            self.first = self._first = read_up_to(file, SIGNATURE)
        except BaseException:
            self.close()
            raise

    def readinto(self, buffer: memoryview) -> int:
        """Fill the front of `buffer`."""
        first = self._first
        if not first:
            return read_some(self._file, buffer)
        count = min(len(first), len(buffer))
        buffer[:count] = first[:count]
        self._first = first[count:]
        return count

    def close(self) -> None:
        """Close the pipe if it is `owned`."""
        if self.owned:
            self._file.close()


def look_at(source: Any) -> tuple[Any, bytes]:
    """Return a source and its first bytes, which distinguish a file from a stream; a pipe becomes a `Peeked`."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)  # raises for a number, which would be a descriptor
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            source = Peeked(_opened(path), True)
    elif not is_remote(source) and memory_of(source) is None and not can_seek(_checked(source)):
        source = Peeked(source, False)
    return source, source.first if isinstance(source, Peeked) else first_bytes(source)


def spooled(file: Any, most: int, magic: bytes) -> Any:
    """Read all remaining bytes of a pipe if it begins with `magic`: up to `most` bytes into memory, more to disk.

    If it does not, return only its first bytes, from which errors say what it is.
    """
    from arrowipc.metadata.file_signatures import HEAD

    data = bytearray(read_up_to(file, HEAD))
    if not data.startswith(magic):
        return data
    piece = memoryview(bytearray(1 << 20))
    while len(data) <= most and (count := read_some(file, piece)):
        data += piece[:count]
    return data if len(data) <= most else on_disk(file, data)


def on_disk(file: Any, data: bytearray, most: int | None = None, url: str = "") -> Any:
    """Copy `data`, which is emptied, and all remaining bytes of a file object to disk; return a map of the copy.

    If the file at `url` has more than `most` bytes, raise a LimitError.
    """
    from tempfile import TemporaryFile

    piece = memoryview(bytearray(1 << 20))
    with TemporaryFile() as copy:
        copy.write(data)
        data.clear()
        while count := read_some(file, piece):
            copy.write(piece[:count])
            if most is not None and copy.tell() > most:
                raise LimitError(
                    f"{showable(url)}: the server does not say how long the file is, and it sent more than {most:,} "
                    "bytes (Limits.spool_bytes); put 'simplecache::' before the URL to download it first"
                )
        copy.flush()
        return map_file(copy)


def pump(framer: Framer, file: Any) -> None:
    """Feed a framer some of the bytes that it needs next; never read past the current message."""
    try:
        framer.pump(read_some, file)
    except FileObjectError as error:
        framer.interrupt(error)
        raise
    except (BlockingIOError, ArrowIpcError):
        raise
    except BaseException as error:
        # An error of the system call consumed nothing. But a signal handler may raise after bytes were consumed
        # and before they were counted; continuing without them would give wrong values.
        if not isinstance(error, OSError) or error.errno is None:
            framer.interrupt(error)
        raise


def apart(framer: Framer, file: Any, call: Callable[[], T]) -> T:
    """Return the result of ``call()``, which may move the file: no other thread reads, and the position is restored."""

    def there_and_back() -> T:
        place = position_of(file)
        try:
            return call()
        finally:
            seek_to(file, place)

    return framer.apart(there_and_back)


def first_bytes(source: Any) -> bytes:
    """Return the six bytes that distinguish a file from a stream; none if reading would consume them."""
    if is_remote(source):
        head: bytes = source.head()
        return head[:SIGNATURE]
    if isinstance(source, (str, os.PathLike)):
        if os.path.isfile(source):
            with open(source, "rb", buffering=0) as file:
                return file.read(SIGNATURE)
        return b""  # a pipe must not be opened twice; a missing file raises when it is opened
    memory = memory_of(source)
    if memory is not None:
        return bytes(memory[:SIGNATURE])
    file = _checked(source)
    if not can_seek(file):
        return b""
    start = position_of(file)
    first = read_up_to(file, SIGNATURE)
    seek_to(file, start)
    return first


def first_bytes_again(source: Any) -> bytes:
    """Return the first bytes of a source that was already read; none if it cannot be read again from its beginning."""
    source = locate_source(source)
    if hasattr(source, "read") and not is_remote(source):
        if not can_seek(source):
            return b""
        seek_to(source, 0)
    return first_bytes(source)


def _check_room(size: int, url: str) -> None:
    """Refuse to copy what does not fit into the folder of temporary files: a server may say any length."""
    from shutil import disk_usage
    from tempfile import gettempdir

    if size > (room := disk_usage(folder := gettempdir()).free):
        words = f"a copy of its {size:,} bytes is needed, and {folder} has room for {room:,}: set TMPDIR to another"
        raise OSError(errno.ENOSPC, words, showable(url))


def whole(source: Any, memory_map: bool, limits: Limits | None = None) -> memoryview[int]:
    """Return all bytes of a source: its own memory, its map, or the map of a copy on disk.

    What a server sends without saying how much it is has a limit; what it says must have room on the disk.
    """
    source, most, url = locate_source(source), None, ""
    if is_remote(source) and source.known_size is None:
        from arrowipc.limits import Limits

        most, url = instance_of("limits", limits or Limits(), Limits).spool_bytes, source.url
    elif is_remote(source):
        _check_room(source.known_size, source.url)
    buffer, file, owned = open_source(source, memory_map)
    if file is None:
        return memoryview(buffer).cast("B")
    try:
        return memoryview(on_disk(file, bytearray(), most, url))
    finally:
        if owned:
            file.close()
