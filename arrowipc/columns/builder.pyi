"""Builders of columns, and concatenated batches; see ``builder.pyx``."""

from collections.abc import Iterable
from typing import Any, final

from arrowipc.columns.array import RecordBatch

class SnapshotOwner: ...

class BuilderMemory:
    def __init__(self, plan: Any) -> None: ...
    @property
    def length(self) -> int: ...
    @property
    def moved(self) -> int: ...

@final
class ColumnsBuilder(BuilderMemory):
    def __init__(self, plan: Any) -> None: ...

def concat_batches(batches: Iterable[Any]) -> RecordBatch: ...
