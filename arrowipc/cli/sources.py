"""The sources and destinations of commands: paths, URLs, standard input and output."""

from __future__ import annotations

import io
import os
import re
import sys
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import click

import arrowipc as ipc
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.encode.atomic_file import KnownPath, open_path
from arrowipc.errors import ArrowIpcError, LimitError, UsageError, printable
from arrowipc.sources.file_objects import file_path
from arrowipc.sources.source import CONTINUATION, Peeked, first_bytes, map_file, whole

#: What errors call the output of a command.
OUTPUT = "standard output"
TERMINAL = "standard input is a terminal; give a file, or pipe data in"
GZIP = b"\x1f\x8b"
#: Limits for the unpacked size of a gzip source.
GZIP_RATIO, GZIP_SLACK, GZIP_WORDS = 100, 1 << 30, "1 GiB and 100 times the size of the source"
#: Pattern of advice for programs in errors of the library -> the advice for a shell.
_IN_A_SHELL = {
    r"arrowipc\.recover\(\)": "`arrowipc recover`",
    r"resync=True goes on there": "--resync goes on there",
    r", or hand over the file object that \S+ gives": "",
    r": hand over one of its members, .*": ": extract it first",
    r", for example [\w.]+\(\)": "",
    r": open\(\) reads it, and new_file\(\) writes what it gives as an Arrow IPC file": ": `arrowipc convert` makes an "
    "Arrow IPC file of it",
    r', or on_error="skip"$': "",
    r": give memory\[:size\], or say where the file ends with \S+; or the file": ", or the file",
    r": if you trust who made it, .*": "",
    r": read it with numpy\.load\(\)": "",
    r"^(message 1: )?no schema: the input is empty$": "the file is empty (0 bytes)",
    r"^Is a directory: .*": "a folder: head, tail, count and cat --merge read folders; give other commands its files",
}


class Failure(Exception):
    """An error, and the source or destination that it concerns."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(str(error))
        self.path = path
        self.error = error


class _Place(click.Path):
    """The name of a source or a destination: of the URL of a local file, its path. Shells complete names of files."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        local = file_path(value)
        return super().convert(value if local is None else local, param, ctx)


PLACE = _Place()


def for_shell(words: str) -> str:
    """Return the text of a library's error with commands instead of functions."""
    for pattern, replacement in _IN_A_SHELL.items():
        words = re.sub(pattern, replacement, words)
    return words


@contextmanager
def about(path: str, output: bool = False) -> Iterator[None]:
    """Turn errors in the block into a `Failure` that names `path`, an input or an output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ArrowIpcError, OSError, MemoryError, EOFError, zlib.error) as error:
        if isinstance(error, EOFError | zlib.error) and not isinstance(error, ArrowIpcError):
            error = OSError(f"the gzip data are damaged: {error}")
        if os.environ.get("ARROWIPC_DEBUG"):
            raise
        raise Failure(OUTPUT if output and path == "-" else path, error) from error


def standard_input() -> io.FileIO:
    """Return standard input; refuse a terminal."""
    file = io.FileIO(0, closefd=False)
    if file.isatty():
        raise click.UsageError(TERMINAL)
    return file


def source(path: str) -> Any:
    """Return a source, given by name, in a form that the library opens; - is standard input.

    A file through a pipe and unpacked gzip data are copied to disk; a stream through a pipe is read as it arrives.
    """
    if path != "-":
        if not is_gzip(path):
            return path
        with open(path, "rb") as packed:
            return _unpacked(packed)
    file = standard_input()
    if file.seekable():
        data = memoryview(map_file(file))[file.tell() :]
    else:
        peeked = Peeked(file, False)
        if peeked.first != MAGIC and not peeked.first.startswith(GZIP):
            return peeked
        data = whole(peeked, True)
    return _unpacked(io.BytesIO(data)) if data[:2] == GZIP else data


def _unpacked(packed: Any) -> memoryview[int]:
    """Unpack gzip data to disk and return a map of them; limit the size: a few bytes can expand to very many."""
    from gzip import GzipFile

    most = GZIP_SLACK + GZIP_RATIO * packed.seek(0, os.SEEK_END)
    packed.seek(0)

    class Bounded(GzipFile):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            if self.tell() > most:
                raise LimitError(f"gzip: expected {most:,} bytes at most ({GZIP_WORDS}): gunzip has no such limit")
            return found

    with Bounded(fileobj=packed) as file:
        return whole(file, True)


def seekable_source(path: str) -> Any:
    """Like `source`, but for reading at any position and more than once: a pipe is copied to disk."""
    found = source(path)
    return found if isinstance(found, (str, memoryview)) else whole(found, True)


def _head(path: str) -> bytes:
    """Return the first bytes of a regular file; none if it does not exist or cannot be read."""
    try:
        return first_bytes(path)
    except OSError:
        return b""


def looks_arrow(path: str) -> bool:
    """Whether a path is a regular file that begins like Arrow data."""
    head = _head(path)
    return head == MAGIC or head[:4] == CONTINUATION


def is_gzip(path: str) -> bool:
    """Whether a path is a regular file in gzip format."""
    return _head(path).startswith(GZIP)


@contextmanager
def opened(path: str, **options: Any) -> Iterator[Any]:
    """Open a file or a stream; errors, also while it is read, name it."""
    with about(path), ipc.open(source(path), **options) as reader:
        yield reader


def size_of(path: str) -> int | None:
    """Return the bytes of a source; None if they are not known without reading it."""
    try:
        return os.fstat(0).st_size or None if path == "-" else os.stat(path).st_size
    except OSError:
        return None


def sink(path: str, terminal: bool = False) -> Any:
    """Return a destination, given by name, in a form that the library writes to; - is standard output."""
    if path != "-":
        return path if "://" in path else KnownPath(path)
    if not terminal and sys.stdout.isatty():
        raise click.UsageError("the output is binary; give a file, or redirect it with > or |")
    sys.stdout.flush()
    return io.FileIO(1, "wb", closefd=False)


class _Shown(io.RawIOBase):
    """Standard output that is a terminal, as a file for text: all characters except line breaks are made printable."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data))
        sys.stdout.write("\n".join(map(printable, text.split("\n"))))
        sys.stdout.flush()
        return len(data)


@contextmanager
def target(path: str, *, terminal: bool = False) -> Iterator[BinaryIO | io.RawIOBase]:
    """Open a destination for bytes (`terminal`: text is allowed there); a file gets its name if the block succeeds."""
    if path == "-":
        yield _Shown() if terminal and sys.stdout.isatty() else sink(path, terminal)
        return
    if "://" in path:
        raise UsageError("only Arrow files and streams are written to a URL: write a file here, and copy it")
    made = open_path(KnownPath(path), True)
    try:
        with os.fdopen(made.descriptor, "wb", closefd=False) as file:
            yield file
    except BaseException:
        made.discard()
        raise
    made.commit()
