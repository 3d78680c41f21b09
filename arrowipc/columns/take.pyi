"""Rows in any order and number; see ``take.pyx``."""

from collections.abc import Sequence
from typing import Any, final

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch

@final
class Taker: ...

def take_rows(source: RecordBatch, indices: Array | Sequence[int] | Any, name: str) -> RecordBatch: ...
def take_indices(source: RecordBatch, indices: Array | Sequence[int] | Any) -> RecordBatch: ...
def take_elements(array: Array, indices: Array | Sequence[int] | Any) -> Array: ...
