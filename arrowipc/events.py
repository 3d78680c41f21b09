"""What a `StreamDecoder` reports: one plain value per thing that the stream said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arrowipc.columns.array import RecordBatch
    from arrowipc.schema import Schema

__all__ = ["BatchRead", "DictionaryRead", "EndOfStream", "SchemaRead"]


class SchemaRead(NamedTuple):
    """The stream began: its schema, after projection."""

    schema: Schema


class DictionaryRead(NamedTuple):
    """A dictionary arrived, was replaced, or (`is_delta`) grew to `length` values in all."""

    id: int
    is_delta: bool
    length: int


class BatchRead(NamedTuple):
    """A record batch arrived."""

    batch: RecordBatch


class EndOfStream(NamedTuple):
    """The stream is over after `bytes_consumed` bytes.

    `marker` is the end-of-stream marker as hexadecimal words, or None where the input simply ended.
    """

    bytes_consumed: int
    marker: str | None
