"""Exactly some rows of columns; see ``columns/truncate.pyx``."""

from typing import Any, final

from arrowipc.columns.record_batch import RecordBatch

@final
class Truncator:
    # A Plan has no type outside the compiled modules; people start with `like`.
    def __init__(self, plan: Any) -> None: ...
    @staticmethod
    def like(batch: RecordBatch, *, view_waste: float = 2.0, largest_buffer: int = ...) -> Truncator: ...
    def rows(self, batch: RecordBatch, start: int, count: int) -> RecordBatch: ...

def compact(batch: RecordBatch, *, view_waste: float = 2.0, largest_buffer: int = ...) -> RecordBatch: ...
