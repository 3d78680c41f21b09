"""Compression of bodies; used by the writers through ``cimport``."""

from collections.abc import Callable
from typing import final

from arrowipc.columns.array import RecordBatch

@final
class Library:
    def __new__(
        cls,
        codec: int,
        level: int,
        addresses: tuple[int, ...] | None,
        encoder: Callable[[int, int], Callable[[memoryview], bytes]],
    ) -> Library: ...

@final
class Work:
    def run(self) -> None: ...

@final
class Compressor:
    def __new__(
        cls,
        codec: str,
        level: int | None = None,
        min_space_savings: float | None = None,
        use_threads: bool = True,
    ) -> Compressor: ...
    @property
    def codec(self) -> int: ...
    @property
    def held(self) -> int: ...
    def stored(self, batch: RecordBatch, chosen: bytes | None = None) -> list[bytes]: ...

def forget_libraries() -> None: ...
def stored_buffers(
    batch: RecordBatch,
    codec: str,
    level: int | None = None,
    min_space_savings: float | None = None,
    use_threads: bool = True,
    chosen: bytes | None = None,
) -> list[bytes]: ...
