"""What a server serves: data of any kind, as the messages of one stream."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from arrowipc._emit import BatchWriter, Packing
from arrowipc._sink import MessageSink
from arrowipc.errors import UsageError
from arrowipc.writer import batches_of

if TYPE_CHECKING:
    from arrowipc._message import Message

__all__ = ["messages_of"]

#: Buffers at multiples of what the processors' widest loads want, also in shared memory.
ALIGNMENT = 64


def messages_of(source: Any, schema: Any = None, **options: Any) -> Generator[Message, None, None]:
    """Yield the messages of a stream: schema, then dictionaries and batches; bodies stay where they are.

    Parameters
    ----------
    source : RecordBatch, Table, reader, object with an Arrow C stream or array, or callable
        A callable returns any of the others, anew for each stream; what it returns is closed at the end.
    schema : Schema, optional
        Where the source does not tell, for example a list of batches that may be empty.
    **options
        `compression`, `compression_level`, `min_space_savings`, `metadata_version`, `use_threads`,
        `dictionary_deltas`, `unify_dictionaries` and `allow_64bit`: see `arrowipc.new_stream`.

    Raises
    ------
    UsageError
        The source is nothing that can be served, or the options do not fit.
    """
    rules = {
        name: options.pop(name)
        for name in ("dictionary_deltas", "unify_dictionaries", "allow_64bit")
        if name in options
    }
    sink = MessageSink()
    writer = BatchWriter(sink, Packing(alignment=ALIGNMENT, **options), **rules)
    data = source() if callable(source) else source
    try:
        found, batches = batches_of(data, schema)
        if found is not None:
            writer.expect(found)
            yield from sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield from sink.take()
        if writer.schema is None:
            raise UsageError("the source has no batches and no schema: say what it is empty of (schema=)")
        writer.finish()
        yield from sink.take()
    finally:
        close = getattr(data, "close", None)
        if callable(source) and close is not None:
            close()
