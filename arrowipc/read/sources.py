"""Sources that callers name: paths, URLs, memory and file objects, and how their bytes reach a framer."""

from __future__ import annotations

import io
import os

from arrowipc.arguments import described, refuse_async
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.read.file_objects import TEXT, FileObjectError, position_of, read_some, read_up_to, seek_to
from arrowipc.read.remote import RemoteSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from arrowipc.read.framing import Framer


def locate_source(source: Any) -> Any:
    """Say where a URL leads: to a path of this machine, or to a RemoteSource."""
    if isinstance(source, str) and "://" in source:
        source = RemoteSource(source)
    if isinstance(source, RemoteSource):
        return source.local_path or source
    return source


def open_source(source: Any, memory_map: bool) -> tuple[Any, Any, bool]:
    """Turn what the caller gave into (buffer, None) or (None, file object), and say if we opened the file."""
    source = locate_source(source)
    if isinstance(source, RemoteSource):
        return None, source.open(), True
    if isinstance(source, (str, os.PathLike)):
        file = _opened(source)
        if not memory_map:
            return None, file, True
        with file:
            return map_file(file), None, False
    try:
        return memoryview(source), None, False
    except TypeError:
        return None, _checked(source), False


def _opened(path: str | os.PathLike[str]) -> Any:
    """Open a path for reading; a directory and text that is no path get errors that say more than the system does."""
    try:
        return open(path, "rb", buffering=0)
    except IsADirectoryError as error:
        advice = "Is a directory: open its files one by one"
        raise IsADirectoryError(error.errno, advice, error.filename) from None
    except ValueError as error:  # a zero byte
        raise UsageError(f"a str is taken for a path, data has to be bytes: {error}") from None


def _checked(file: Any) -> Any:
    """Refuse what is no binary file object that can be read from."""
    refuse_async(file, ("read", "receive", "__aiter__"), "arrowipc.aio.open_stream() reads it")
    if not hasattr(file, "readinto") and not hasattr(file, "read"):
        raise UsageError(
            f"expected a path, a URL, a bytes-like object or a binary file object, found {type(file).__name__}"
        )
    if isinstance(file, io.TextIOBase):
        raise UsageError(TEXT)
    if getattr(file, "closed", False) is True:
        raise UsageError(f"the file object is closed, open it again: {described(file)}")
    if isinstance(file, io.IOBase) and not file.readable():
        raise UsageError(f"the file object is not open for reading: {described(file)}")
    return file


def map_file(file: Any) -> Any:
    """Map an opened file into memory; what cannot be mapped is read."""
    import mmap
    import stat

    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        # Pipes and devices cannot be mapped.
        return file.readall()
    # An empty file cannot be mapped either.
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if info.st_size else b""


def pump(framer: Framer, file: Any) -> None:
    """Bring a framer some of the bytes it needs next; never reads past the message at hand."""
    try:
        framer.pump(read_some, file)
    except FileObjectError as error:
        framer.interrupt(error)
        raise
    except (BlockingIOError, ArrowIpcError):
        raise
    except BaseException as error:
        # An error of the system call took nothing from the source. A handler of a signal may raise when bytes
        # were taken and not yet counted; to go on without them would give wrong values.
        if not isinstance(error, OSError) or error.errno is None:
            framer.interrupt(error)
        raise


def first_bytes(source: Any) -> bytes:
    """The six bytes that tell a file from a stream; none where looking would take them away."""
    if isinstance(source, RemoteSource):
        return source.head()[:6]
    if isinstance(source, (str, os.PathLike)):
        if os.path.isfile(source):
            with open(source, "rb", buffering=0) as file:
                return file.read(6)
        return b""  # a pipe must not be opened twice; what does not exist says so when it is opened
    try:
        return bytes(memoryview(source)[:6])
    except TypeError:
        file = _checked(source)
    if not hasattr(file, "seekable") or not file.seekable():
        return b""
    start = position_of(file)
    first = read_up_to(file, 6)
    seek_to(file, start)
    return first
