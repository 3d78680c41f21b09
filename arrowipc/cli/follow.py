"""`tail -f`: the last rows of a stream, then new rows, until the stream ends or the user stops."""

from __future__ import annotations

import io
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from arrowipc.cli.sources import TERMINAL, about, size_of
from arrowipc.cli.terminal import Progress, columns_of
from arrowipc.dataset.filters import from_text, rows_passing
from arrowipc.errors import TruncatedError
from arrowipc.read.file_decoder import MAGIC
from arrowipc.read.stream_decoder import StreamDecoder

__all__ = ["follow"]

#: Seconds between looks at a file that did not grow.
PAUSE = 0.2
#: Bytes that are read at a time.
PIECE = 1 << 20

Show = Callable[[Any, Iterator[Any]], None]


def follow(file: str, rows: int, columns: str | None, conditions: Sequence[str], show: Show) -> None:
    """Pass the last rows of a stream to `show` with their schema, then new rows as they arrive."""
    chosen = columns_of(columns)
    with about(file), _opened(file) as stream:
        batches = _batches(stream, StreamDecoder(None if conditions else chosen))
        schema = next(batches)
        if conditions:
            batches = _chosen(batches, from_text(conditions, schema), chosen)
            schema = schema if chosen is None else schema.__replace__(fields=[schema.field(name) for name in chosen])
        last: deque[Any] = deque()
        with Progress("reading", size_of(file)) as progress:
            for batch in batches:
                if batch is None:  # all that is there for now
                    break
                last.append(batch)
                progress.advance(batch.nbytes)
                while len(last) > 1 and sum(map(len, last)) - len(last[0]) >= rows:
                    last.popleft()
        more = max(sum(map(len, last)) - rows, 0)
        kept = [batch.slice(more if i == 0 else 0) for i, batch in enumerate(last)] if rows else []
        show(schema, iter(kept))
        sys.stdout.flush()
        for batch in batches:
            if batch is not None and len(batch):
                show(schema, iter([batch]))
                sys.stdout.flush()


def _opened(file: str) -> io.FileIO:
    found = io.FileIO(0, closefd=False) if file == "-" else io.FileIO(file)
    if found.isatty():
        raise click.UsageError(TERMINAL)
    return found


def _chosen(batches: Iterator[Any], conditions: Any, columns: list[str] | None) -> Iterator[Any]:
    for batch in batches:
        found = None if batch is None else batch.take(rows_passing(conditions, batch))
        yield found if found is None or columns is None else found.select(columns)


def _batches(stream: io.FileIO, decoder: StreamDecoder) -> Iterator[Any]:
    """Yield the schema, then every batch; None where all is read that is there for now, of a pipe at once."""
    grows, read = stream.seekable(), 0
    while True:
        data = stream.read(PIECE) or b""
        if not read and data.startswith(MAGIC):
            raise click.UsageError("-f follows a stream that grows, and this is a file, which is complete")
        started = decoder.schema is not None
        read += len(data)
        decoder.feed(data, not data and not grows)
        if not started and decoder.read_schema():
            yield decoder.schema
            if not grows:
                yield None
        while decoder.schema is not None and (batch := decoder.next_batch()) is not None:
            yield batch
        if decoder.at_end or not (data or grows):
            return
        if not data:
            if started:
                yield None
            if os.fstat(stream.fileno()).st_size < read:
                raise TruncatedError("the stream was truncated while it was followed")
            time.sleep(PAUSE)
