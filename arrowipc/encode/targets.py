"""Targets that callers name: paths, URLs, memory and file objects, each as a sink."""

from __future__ import annotations

import io
import os
import sys

from arrowipc.arguments import check_flag, described, refuse_async
from arrowipc.encode.atomic_file import RemoteFile, open_path, open_url
from arrowipc.encode.batch_writer import BytearraySink, DescriptorSink, FixedSink, ObjectSink, Sink
from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def open_sink(target: Any, durable: bool) -> Sink:
    """Make a sink of the caller's target; it must get one `commit` or `discard` at the end."""
    durable = durable is True or check_flag("durable", durable)
    # Memory is tried first: the tests for other targets take as long as writing a small batch.
    if isinstance(target, bytearray):
        return BytearraySink(target)
    if isinstance(target, memoryview):
        return _memory_sink(target)
    if isinstance(target, Sink):
        return target
    if isinstance(target, (str, os.PathLike)):
        return _opened_sink(target, durable)
    refuse_async(target, ("drain", "write", "send"), "arrowipc.aio.encode() gives what to write to it")
    if not is_map(target) and (hasattr(target, "write") or hasattr(target, "sendall")):
        sink = _object_sink(target)
        if hasattr(target, "flush"):
            sink.behind = CallersFile(target)
        return sink
    return _memory_sink(target)


def _opened_sink(target: str | os.PathLike[str], durable: bool) -> Sink:
    is_url = isinstance(target, str) and "://" in target
    opened = open_url(os.fspath(target), durable) if is_url else open_path(target, durable)
    sink: Sink
    try:
        if isinstance(opened, RemoteFile):
            sink = ObjectSink(opened.write)
        else:
            sink = DescriptorSink(opened.descriptor, os.fsdecode(target))
    except BaseException:  # it keeps this frame, and so the open file, as long as somebody has it
        opened.discard()
        raise
    sink.behind = opened
    return sink


class CallersFile:
    """A file object of the caller: it stays open, and is only flushed, and only if nothing went wrong."""

    __slots__ = ("_file",)

    def __init__(self, file: Any) -> None:
        self._file = file

    def commit(self) -> None:
        """Flush it."""
        self._file.flush()

    def discard(self) -> None:
        """Do nothing: what was written stays."""


def _object_sink(target: Any) -> Sink:
    if not hasattr(target, "write"):
        return ObjectSink(target.sendall)
    if isinstance(target, io.TextIOBase):
        raise UsageError("the file object takes text: open it in binary mode, open(path, 'wb')")
    if getattr(target, "closed", False) is True:
        raise UsageError(f"the file object is closed: {described(target)}")
    if isinstance(target, io.IOBase) and not target.writable():
        raise UsageError(f"the file object is not open for writing: {described(target)}")
    if type(target) is io.FileIO:
        name = target.name if isinstance(target.name, (str, bytes)) else None
        return DescriptorSink(target.fileno(), name, 0, target.fileno)
    return ObjectSink(target.write, isinstance(target, io.RawIOBase))


def _memory_sink(target: Any) -> Sink:
    try:
        return FixedSink(target, target.tell(), target.seek) if is_map(target) else FixedSink(target)
    except TypeError:
        if memory := getattr(target, "buf", None):
            raise UsageError(
                f"expected memory that can be written to, found {described(target)}: give its `buf`, "
                f"{described(memory)}"
            ) from None
        raise UsageError(
            "expected a path, a binary file object, a socket, a bytearray or a writable buffer, found "
            f"{described(target)}"
        ) from None
    except (BufferError, ValueError) as error:
        # The memory is read-only, not contiguous, or closed: each exporter has its own errors for these.
        raise UsageError(f"cannot write to the memory of this {type(target).__name__}: {error}") from None


def is_map(target: Any) -> bool:
    """Return whether the target is an ``mmap.mmap``."""
    module = sys.modules.get("mmap")  # nobody has a map without it
    return module is not None and isinstance(target, module.mmap)
