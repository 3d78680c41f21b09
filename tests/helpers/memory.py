"""How much memory this process has and had, as Linux tells it.

Not `ru_maxrss`: that begins with the peak of the process that started this one.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


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
    """The most bytes of memory that this process had, since `forget_peak` where there was one."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Let `peak` begin here; a container may not allow it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
