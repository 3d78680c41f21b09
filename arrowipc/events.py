"""Named tuples that readers and writers return: events of a stream, counts, and a batch with its metadata."""

from __future__ import annotations

from typing import NamedTuple

from arrowipc.arguments import with_field_docs

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


@with_field_docs
class SchemaRead(NamedTuple):
    """The stream began: its schema, after projection.

    Parameters
    ----------
    schema : Schema
        The schema of the batches that follow.
    """

    schema: Schema


@with_field_docs
class DictionaryRead(NamedTuple):
    """A dictionary arrived, was replaced, or grew.

    Parameters
    ----------
    id : int
        The number by which fields refer to it.
    is_delta : bool
        Whether it grew.
    length : int
        The number of values it has now.
    """

    id: int
    is_delta: bool
    length: int


@with_field_docs
class BatchRead(NamedTuple):
    """A record batch arrived.

    Parameters
    ----------
    batch : RecordBatch
        The batch, with the columns of `SchemaRead.schema`.
    """

    batch: RecordBatch


@with_field_docs
class EndOfStream(NamedTuple):
    """The stream is over.

    Parameters
    ----------
    bytes_consumed : int
        Bytes of the stream.
    marker : str or None
        The end-of-stream marker as hexadecimal words; None if the input ended without one.
    """

    bytes_consumed: int
    marker: str | None


@with_field_docs
class RecordBatchWithMetadata(NamedTuple):
    """A batch, and the metadata of its message.

    Parameters
    ----------
    batch : RecordBatch
        The rows.
    custom_metadata : KeyValueMetadata
        The custom metadata of the message.
    """

    batch: RecordBatch
    custom_metadata: KeyValueMetadata


@with_field_docs
class ReadStats(NamedTuple):
    """What a reader has read so far.

    Parameters
    ----------
    num_messages : int
        Messages of all kinds.
    num_record_batches : int
        RecordBatch messages.
    num_dictionary_batches : int
        DictionaryBatch messages, deltas and replacements included.
    num_dictionary_deltas : int
        DictionaryBatch messages that made a dictionary grow.
    num_replaced_dictionaries : int
        DictionaryBatch messages that replaced a dictionary.
    """

    num_messages: int
    num_record_batches: int
    num_dictionary_batches: int
    num_dictionary_deltas: int
    num_replaced_dictionaries: int


@with_field_docs
class WriteStats(NamedTuple):
    """What a writer has written so far.

    Parameters
    ----------
    num_messages, num_record_batches, num_dictionary_batches, num_dictionary_deltas, num_replaced_dictionaries : int
        Numbers of messages, as in `ReadStats`.
    total_raw_body_size : int
        Bytes of all buffers before compression.
    total_serialized_body_size : int
        Bytes of all bodies as they were written, padding included.
    """

    num_messages: int
    num_record_batches: int
    num_dictionary_batches: int
    num_dictionary_deltas: int
    num_replaced_dictionaries: int
    total_raw_body_size: int
    total_serialized_body_size: int
