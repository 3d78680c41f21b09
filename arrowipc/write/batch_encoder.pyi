"""Writes the metadata of RecordBatch and DictionaryBatch messages, and lists the parts of their body."""

from typing import Literal

from arrowipc.write.compress import Compressor

class Encoder:
    def __new__(
        cls,
        compressor: Compressor | None = None,
        alignment: int = 8,
        legacy: bool = False,
        version: Literal["V4", "V5"] = "V5",
    ) -> Encoder: ...
    @property
    def version(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def legacy(self) -> bool: ...
