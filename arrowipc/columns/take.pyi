"""Rows in any order and number; see ``take.pyx``."""

from collections.abc import Sequence
from typing import Any

from arrowipc._core import Memory
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch

def take_rows(source: RecordBatch, indices: Array | Sequence[int] | Any, name: str) -> RecordBatch: ...
def selected_rows(array: Array, rows: int) -> Memory: ...
