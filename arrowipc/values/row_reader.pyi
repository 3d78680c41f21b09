"""Access to rows by number, in batches that are loaded when they are needed; see ``row_reader.pyx``."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, final

from arrowipc.arguments import Extensions
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch

@final
class RowReader:
    def __init__(
        self,
        lengths: Any,
        load: Callable[[int], RecordBatch],
        *,
        cache_bytes: int = 64 << 20,
        expect: Callable[[list[int]], object] | None = None,
    ) -> None: ...
    @property
    def num_rows(self) -> int: ...
    def take(self, rows: Array | Sequence[int] | Any) -> RecordBatch: ...
    def row(self, i: SupportsIndex, *, extensions: Extensions = None) -> dict[str, Any]: ...
    def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> list[RecordBatch]: ...

def take_across(
    pieces: list[Any], indices: Any, as_batches: Callable[[list[Any]], list[RecordBatch]] | None = None
) -> list[RecordBatch]: ...
