"""What readers and writers have counted so far."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ReadStats", "WriteStats"]


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
