"""Building of batches and arrays from Python lists, NumPy arrays and Arrays, column by column."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

from arrowipc.arguments import MetadataLike
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.datatypes import Field
from arrowipc.schemas import Schema
from arrowipc.types import TypeLike

def build_batch(mapping: Mapping[str, Any], schema: Schema | None = None, rows: int = 0) -> RecordBatch: ...
def build_rows(rows: Sequence[Mapping[str, Any]], schema: Schema | None = None) -> RecordBatch: ...
def empty_batch(schema: Schema) -> RecordBatch: ...
def build_arrays(
    arrays: Iterable[Any],
    names: Iterable[str] | None = None,
    schema: Schema | Sequence[Field] | None = None,
    metadata: MetadataLike = None,
) -> RecordBatch: ...
def add_to_each(
    batches: list[RecordBatch], position: SupportsIndex, field: str | Field, values: Any
) -> list[RecordBatch]: ...
def build_array(values: Any, type: TypeLike | None = None) -> Array: ...
def fill_null(array: Array, value: Any) -> Array: ...
