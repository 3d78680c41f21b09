"""Rows in any order and number; see ``take.pyx``."""

from collections.abc import Sequence
from typing import Any, final

from arrowipc._core import Memory
from arrowipc.columns.array import Array, RecordBatch

@final
class Taker: ...

def take_rows(source: RecordBatch, indices: Array | Sequence[int] | Any, name: str) -> RecordBatch: ...
def selected_rows(array: Array, rows: int) -> Memory: ...
def take_indices(source: RecordBatch, indices: Array | Sequence[int] | Any) -> RecordBatch: ...
