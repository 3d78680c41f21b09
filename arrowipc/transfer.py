"""Copying from a reader to a writer, batch by batch; bodies are passed on unchanged where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import instance_of
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.reader import RecordBatchFileReader, RecordBatchStreamReader
from arrowipc.writer import RecordBatchFileWriter, RecordBatchStreamWriter

if TYPE_CHECKING:
    from arrowipc.read.framing import Message

__all__ = ["copy"]


def copy(reader: Any, writer: RecordBatchStreamWriter | RecordBatchFileWriter) -> int:
    """Write all remaining batches of a reader.

    One batch is in memory at a time. The body of a message goes out as it came in, compressed or not, where
    reader and writer agree about schema, codec, alignment and metadata version, and the writer was not asked
    to choose columns, levels or sizes; else the batch is decoded and encoded again.

    Dictionaries go out as they came, by default: a source that grew them by deltas is copied with deltas to a
    stream, so that the copy is no larger than its source; see ``dictionary_deltas`` of `arrowipc.new_stream`.

    Parameters
    ----------
    reader : RecordBatchStreamReader, RecordBatchFileReader, or anything that a writer's `write` takes
        Bodies are checked as its `validate` says before they are passed on. With ``validate="none"`` only the
        structure is checked, and nothing is decompressed.
    writer : RecordBatchStreamWriter or RecordBatchFileWriter
        Stays open.

    Returns
    -------
    int
        The number of messages whose body was passed on untouched.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64
    >>> sink = bytearray()
    >>> with ipc.new_stream(sink, ipc.Schema([field("x", int64())])) as writer:
    ...     writer.write({"x": [1, 2]})
    >>> with ipc.open_stream(sink) as reader, ipc.new_file(target := bytearray(), reader.schema) as writer:
    ...     ipc.copy(reader, writer)
    1
    >>> ipc.open_file(target).read_all().to_pydict()
    {'x': [1, 2]}
    """
    instance_of("writer", writer, (RecordBatchStreamWriter, RecordBatchFileWriter))
    if not isinstance(reader, (RecordBatchStreamReader, RecordBatchFileReader)):
        writer.write(reader)
        return 0
    writer.expect(reader.schema)
    untouched = 0
    decode: Callable[[Message], RecordBatch] = reader.decoder.decode
    for message, columns in reader.stored():
        if writer.write_stored(message, columns):
            untouched += 1
        else:
            # With validation the columns are the decoded batch.
            writer.write_batch(columns if isinstance(columns, RecordBatch) else decode(message))
        del message, columns  # the next body is read into their memory
    return untouched
