from collections.abc import Sequence

from arrowipc._core import ReadableBuffer
from arrowipc.columns.array import RecordBatch
from arrowipc.schema import Schema

def from_buffers(
    schema: Schema,
    length: int,
    nodes: Sequence[tuple[int, int]],
    buffers: Sequence[ReadableBuffer | None],
) -> RecordBatch: ...
