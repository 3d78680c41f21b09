"""Interrupts wherever a signal can raise: before each instruction of chosen modules, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any


def interrupted(operation: Callable[[], Any], *modules: ModuleType) -> Iterator[int]:
    """Do it again and again, each time with a KeyboardInterrupt before a later instruction; yield after each time.

    It ends once the operation ends before the instruction comes, so the last time is one without an interrupt.
    """
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


def descriptors() -> set[int]:
    """The descriptors that this process has open, where they can be listed."""
    import os

    return {int(name) for name in os.listdir("/proc/self/fd")}
