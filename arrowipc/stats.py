"""What readers and writers tell beside the rows: what they counted so far, and the metadata of a batch."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.array import RecordBatch

__all__ = ["ReadStats", "RecordBatchWithMetadata", "WriteStats"]


class RecordBatchWithMetadata(NamedTuple):
    """A batch, and what its message carried beside it."""

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
