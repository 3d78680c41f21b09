"""Where encoded messages go: memory, file descriptors, and objects with a `write` method."""

from collections.abc import Callable
from typing import Any

from arrowipc.read.framing import Message

__all__ = ["BytearraySink", "DescriptorSink", "FixedSink", "MessageSink", "ObjectSink"]

class Sink:
    @property
    def position(self) -> int: ...
    def write_bytes(self, data: bytes) -> None: ...

class BytearraySink(Sink):
    def __new__(cls, target: bytearray) -> BytearraySink: ...

class MessageSink(Sink):
    @property
    def ended(self) -> bool: ...
    def take(self) -> list[Message]: ...

class FixedSink(Sink):
    def __new__(cls, target: Any, start: int = 0) -> FixedSink: ...
    def release(self) -> None: ...

class DescriptorSink(Sink):
    def __new__(
        cls,
        descriptor: int,
        name: str | bytes | None = None,
        position: int = 0,
        ask: Callable[[], int] | None = None,
    ) -> DescriptorSink: ...

class ObjectSink(Sink):
    def __new__(cls, write: Callable[[Any], Any], raw: bool = False) -> ObjectSink: ...
