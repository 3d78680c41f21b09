"""Batches and arrays of buffers that a caller gives, which are validated as those of a message are."""

from collections.abc import Iterable
from typing import Any, Literal, SupportsIndex

from arrowipc._core import Columns, ReadableBuffer
from arrowipc.arguments import MetadataLike
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.limits import Limits
from arrowipc.schemas import Schema

def add_parts(
    array: Array,
    nodes: list[tuple[int, int]],
    buffers: list[Any],
    variadic: list[int],
    dictionaries: list[Array | None],
) -> None: ...
def validate_full(columns: Columns) -> None: ...
def from_buffers(
    schema: Schema,
    length: SupportsIndex,
    nodes: Iterable[tuple[SupportsIndex, SupportsIndex]],
    buffers: Iterable[ReadableBuffer | None],
    variadic: Iterable[SupportsIndex],
    dictionaries: Iterable[Array | None],
    custom_metadata: MetadataLike,
    level: Literal["none", "full", "strict"],
    limits: Limits | None,
) -> RecordBatch: ...
