"""Measures what this process holds: memory, and objects of ours and of producers; interrupts it at any instruction."""

import contextlib
import ctypes
import gc
import mmap
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from arrowipc import _core
from arrowipc.cdata import export
from arrowipc.cdata.import_array import live_imports
from arrowipc.maps.file_maps import count_maps


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def addressed() -> int:
    """Bytes of address space of this process."""
    return _status("VmSize")


def resident() -> int:
    """Bytes of memory of this process."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes of memory that this process had, since the last `forget_peak` if there was one."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Start `peak` again from here; a container may not allow it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@contextlib.contextmanager
def at_most(size: int, seconds: float | None = None) -> Iterator[None]:
    """Check that a block takes less than `size` bytes of memory and `seconds` of processor time."""
    forget_peak()
    before, start = resident(), time.process_time()
    yield
    assert peak() - before < size
    assert seconds is None or time.process_time() - start < seconds


def counts() -> dict[str, int]:
    """Count imported and exported arrays, sources and memory that are not released yet."""
    return {"imports": live_imports(), "exports": export.live_exports(), "maps": count_maps(), **_core.live_objects()}


def more_than(before: dict[str, int]) -> dict[str, int]:
    """Return the counts that grew; smaller ones say nothing, as garbage of other tests may be collected at any time."""
    found = {name: count for name, count in counts().items() if count > before[name]}
    if found:
        gc.collect()
        found = {name: count for name, count in counts().items() if count > before[name]}
    return found


@contextlib.contextmanager
def nothing_imported() -> Iterator[None]:
    """Check that a block keeps nothing of a producer; garbage of other tests may be collected at any time."""
    before = live_imports()
    yield
    if live_imports() > before:
        gc.collect()  # exceptions make cycles, which are garbage
    assert live_imports() <= before, "what was imported is still held"


def interrupted(operation: Callable[[], Any], *modules: ModuleType) -> Iterator[int]:
    """Repeat an operation, interrupted before a later instruction each time, until it completes; yield each time."""
    files = {module.__file__ for module in modules}
    count = 0
    while True:
        left = count

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in files:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= 1
                if left < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        # Python 3.12 traces bytecodes only if a frame has asked for them before the tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(trace)
        try:
            operation()
        except KeyboardInterrupt:
            pass
        else:
            sys.settrace(None)
            yield count
            return
        yield count
        count += 1


class Guarded:
    """Memory before a page that cannot be read: a step too far ends the process."""

    def __init__(self, size: int) -> None:
        end = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, end + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start + end), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.view = memoryview(self.memory)[end - size : end]


def descriptors() -> set[int]:
    """The open descriptors of this process, from /proc."""
    import os

    return {int(name) for name in os.listdir("/proc/self/fd")}
