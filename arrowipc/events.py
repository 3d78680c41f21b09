"""What readers and writers report besides rows: events of a stream, counts, the metadata of a batch."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

__all__ = [
    "BatchRead",
    "DictionaryRead",
    "EndOfStream",
    "ReadStats",
    "RecordBatchWithMetadata",
    "SchemaRead",
    "WriteStats",
]


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


class RecordBatchWithMetadata(NamedTuple):
    """A batch, and the metadata of its message."""

    batch: RecordBatch
    custom_metadata: KeyValueMetadata


class ReadStats(NamedTuple):
    """What a reader has read so far."""

    num_messages: int
    num_record_batches: int
    num_dictionary_batches: int
    num_dictionary_deltas: int
    num_replaced_dictionaries: int


class WriteStats(NamedTuple):
    """What a writer has written so far."""

    num_messages: int
    num_record_batches: int
    num_dictionary_batches: int
    num_dictionary_deltas: int
    num_replaced_dictionaries: int
    #: Bytes of all buffers as they were handed in.
    total_raw_body_size: int
    #: Bytes of all bodies as they were written, padding included.
    total_serialized_body_size: int
