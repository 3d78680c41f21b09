"""Memory that goes back to its owner; see ``_lease.pyx``."""

from collections.abc import Callable
from typing import Any, final

from arrowipc._core import ReadableBuffer

@final
class Lease:
    def __new__(cls, memory: ReadableBuffer, returned: Callable[[Any], object], token: Any) -> Lease: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
