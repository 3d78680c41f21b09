"""Memory of another process; see ``_remote_read.pyx``."""

from collections.abc import Iterable

from arrowipc._core import ReadableBuffer

def read_process(pid: int, places: Iterable[tuple[int, int, int]], target: ReadableBuffer) -> None: ...
