"""Payload columns on their way out: ranges of rows of one batch, each a whole stream in a cell of its own."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack, overload

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.options import MessageKeywords

class GroupedPayloads(NamedTuple):
    payloads: Array
    keys: RecordBatch

class _Keywords(MessageKeywords, total=False):
    keep_keys: bool
    schema: Any
    with_schema: bool
    with_end: bool | None
    trim_dictionaries: bool
    large: bool
    checksum: bool

@overload
def encode_payloads(
    batch: Any,
    offsets: None = None,
    *,
    rows_per_payload: None = None,
    group_by: str | Sequence[str],
    **keywords: Unpack[_Keywords],
) -> GroupedPayloads: ...
@overload
def encode_payloads(
    batch: Any,
    offsets: Any = None,
    *,
    rows_per_payload: int | None = None,
    group_by: None = None,
    **keywords: Unpack[_Keywords],
) -> Array: ...
