"""Batches and arrays made of Python lists, NumPy arrays and arrays of ours, column by column."""

from collections.abc import Mapping
from typing import Any

from arrowipc.columns.array import Array, RecordBatch
from arrowipc.datatypes import DataType, Field
from arrowipc.schema import Schema

def build_batch(mapping: Mapping[str, Any], schema: Schema | None = None) -> RecordBatch: ...
def append_column(batch: RecordBatch, field: str | Field, values: Any) -> RecordBatch: ...
def build_array(values: Any, type: DataType | None = None) -> Array: ...
