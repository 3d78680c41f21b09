"""Writes with our writers what our readers read."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

import arrowipc as ipc
from helpers import drive

FORMS = ("stream", "file")
SUFFIXES = {"stream": ".stream", "file": ".file"}


def rewritten(data: bytes, form: str, **options: Any) -> bytes:
    """A stream or file ("stream", "file") with what the given stream holds."""
    reading = drive.from_bytes(data)
    return written(form, reading.schema, reading.batches, **options)


def written(form: str, schema: Any, batches: list[Any], **options: Any) -> bytes:
    """A stream or file of the batches."""
    sink = io.BytesIO()
    opener = ipc.new_file if form == "file" else ipc.new_stream
    with opener(sink, schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def read_by_pyarrow(data: bytes, form: str = "stream") -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """What pyarrow says a stream or file holds."""
    if form == "stream":
        with pa.ipc.open_stream(data) as reader:
            return reader.schema, list(reader)
    with pa.ipc.open_file(data) as reader:
        return reader.schema, [reader.get_batch(i) for i in range(reader.num_record_batches)]
