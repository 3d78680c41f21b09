"""Writes the metadata of RecordBatch and DictionaryBatch messages, and lists the parts of their body."""

from typing import Literal, final

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

class Encoder:
    def __new__(
        cls,
        compressor: Compressor | None = None,
        alignment: int = 8,
        legacy: bool = False,
        version: Literal["V4", "V5"] = "V5",
        checksum: bool = False,
    ) -> Encoder: ...
    @property
    def version(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def legacy(self) -> bool: ...
    @property
    def checksum(self) -> bool: ...
