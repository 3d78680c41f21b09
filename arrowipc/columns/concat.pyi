"""Builders of columns, and concatenated batches; see ``columns/concat.pyx``."""

from collections.abc import Iterable
from typing import Any, final

from arrowipc.columns.array import RecordBatch
from arrowipc.columns.builder import BuilderMemory

@final
class ColumnsBuilder(BuilderMemory):
    # A Plan has no type outside the compiled modules; people start with `like`.
    def __init__(self, plan: Any) -> None: ...
    @staticmethod
    def like(batch: RecordBatch) -> ColumnsBuilder: ...
    def append_batch(self, batch: RecordBatch) -> None: ...
    def batch(self) -> RecordBatch: ...
    @property
    def nbytes(self) -> int: ...

def concat_batches(batches: Iterable[RecordBatch]) -> RecordBatch: ...
