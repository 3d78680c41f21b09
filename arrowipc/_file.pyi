from collections.abc import Iterable
from typing import Literal

from arrowipc._array import RecordBatch
from arrowipc._core import ReadableBuffer, Source
from arrowipc.limits import Limits
from arrowipc.schema import Schema

MAGIC: bytes
TAIL_SIZE: int
SMALLEST: int
NEAR: int

def footer_range(head: bytes, tail: bytes, size: int) -> tuple[int, int]: ...

class FileDecoder:
    def __init__(
        self,
        footer: ReadableBuffer,
        start: int,
        *,
        columns: Iterable[str | int] | str | int | None = None,
        validate: Literal["none", "full", "strict"] = "full",
        limits: Limits | None = None,
        use_threads: bool = True,
        ensure_native_endian: bool = True,
    ) -> None: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def metadata(self) -> tuple[tuple[bytes, bytes], ...]: ...
    @property
    def num_record_batches(self) -> int: ...
    @property
    def num_dictionaries(self) -> int: ...
    @property
    def reads_all(self) -> bool: ...
    @property
    def stats(self) -> tuple[int, int, int, int, int]: ...
    def block(self, index: int, *, dictionary: bool = False) -> tuple[int, int, int]: ...
    def batch(self, index: int, source: Source | ReadableBuffer, at: int = 0) -> RecordBatch: ...
    def load_dictionary(self, index: int, source: Source | ReadableBuffer, at: int = 0) -> None: ...
    def num_rows(self, index: int, source: Source | ReadableBuffer, at: int = 0) -> int: ...
    def body_ranges(self, index: int, source: ReadableBuffer) -> list[tuple[int, int]]: ...

class Footer:
    @property
    def version(self) -> int: ...
    @property
    def metadata(self) -> tuple[tuple[bytes, bytes], ...]: ...
