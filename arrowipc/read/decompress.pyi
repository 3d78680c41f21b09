"""Decompression, byte order and alignment of bodies; used by the decoders through ``cimport``."""

from collections.abc import Callable
from typing import final

@final
class Library:
    def __new__(
        cls, codec: int, addresses: tuple[int, ...] | None, call: Callable[[memoryview, memoryview], None]
    ) -> Library: ...

@final
class DecompressContext:
    def __new__(cls, library: Library) -> DecompressContext: ...

@final
class Work:
    def __new__(cls, room: int) -> Work: ...
    def run(self) -> None: ...

def forget_libraries() -> None: ...


@final
class Inflater: ...
