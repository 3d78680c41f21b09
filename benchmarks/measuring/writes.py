"""Writes batches with each library in the way that its documentation recommends, and reads them back once.

Memory grows (``bytearray`` for arrowipc, ``BufferOutputStream`` for pyarrow, ``BytesIO`` for those that take files), or
is there and has been written to before (a ``memoryview`` for arrowipc, ``FixedSizeBufferWriter`` for pyarrow).
"""

import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from measuring import data, peers
from measuring.race import Run, Runs


class Input:
    """The same batches as the objects of each library, each batch in memory of its own; `table` has all rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        source = data.stream(batches)
        self.pyarrow = list(pa.ipc.open_stream(source))
        self.table = pa.Table.from_batches(self.pyarrow)
        self.arrowipc = list(arrowipc.open_stream(source))
        self.arro3 = list(peers.arro3_io.read_ipc_stream(io.BytesIO(source)))
        self.nanoarrow = [peers.nanoarrow.c_array(batch) for batch in self.pyarrow]

    def sliced(self, spans: list[tuple[int, int]]) -> "Input":
        """Have slices (start, count) of the first batch of pyarrow and arrowipc instead of the batches."""
        self.pyarrow = [self.pyarrow[0].slice(*span) for span in spans]
        self.table = pa.Table.from_batches(self.pyarrow)
        self.arrowipc = [self.arrowipc[0].slice(*span) for span in spans]
        return self


def checked(make: Callable[[], Any], check: Callable[[Any], None]) -> Run:
    """Return a run that makes something; what it makes first is checked."""
    checks = [check]

    def run() -> None:
        made = make()
        while checks:
            checks.pop()(made)

    return run


def proven(write: Callable[[], Any], expected: pa.Table) -> Run:
    """Return a run that writes; what it writes first is read back by pyarrow and must have the same rows."""

    def check(written: Any) -> None:
        found = pa.ipc.open_stream(written).read_all()
        if not found.cast(expected.schema).equals(expected):  # text may come back as views, as from polars
            raise ValueError("other rows were read back than those that were written")

    return checked(write, check)


def warm(size: int) -> memoryview:
    """Return memory that has been written to."""
    return memoryview(np.full(size, 1, np.uint8)).cast("B")


def bound(given: Input) -> int:
    """Return more bytes than any of the libraries needs to write the batches without compression."""
    return int(1.05 * given.table.nbytes) + (len(given.pyarrow) + 4) * (1024 + 256 * given.table.num_columns)


def by_pyarrow(sink: Any, batches: list[Any], options: Any = None) -> None:
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def by_arrowipc(sink: Any, batches: list[Any], **options: Any) -> None:
    with arrowipc.new_stream(sink, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def by_nanoarrow(sink: Any, batches: list[Any]) -> None:
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        for batch in batches:
            writer.write_array(batch)


def by_arro3(sink: Any, batches: list[Any], compression: str | None = None) -> None:
    """Write a reader of the batches in one call: arro3 has no writers."""
    reader = peers.arro3_core.RecordBatchReader.from_batches(batches[0].schema, batches)
    peers.arro3_io.write_ipc_stream(reader, sink, compression=compression)


def to_buffer(write: Callable[..., None], *given: Any, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    write(sink, *given, **options)
    return sink.getvalue()


def to_bytearray(write: Callable[..., None], *given: Any, **options: Any) -> bytearray:
    sink = bytearray()
    write(sink, *given, **options)
    return sink


def to_bytes_io(write: Callable[..., None], *given: Any, **options: Any) -> memoryview:
    sink = io.BytesIO()
    write(sink, *given, **options)
    return sink.getbuffer()


def presized(given: Input, target: memoryview, options: Any = None, **ours: Any) -> Runs:
    """Return those who can write into memory that is there; options of pyarrow, and of `arrowipc.new_stream`."""
    buffer = pa.py_buffer(target)
    pyarrows = lambda: by_pyarrow(pa.FixedSizeBufferWriter(buffer), given.pyarrow, options) or buffer  # noqa: E731
    arrowipcs = lambda: by_arrowipc(target, given.arrowipc, **ours) or buffer  # noqa: E731
    return {"pyarrow": proven(pyarrows, given.table), "arrowipc": proven(arrowipcs, given.table)}
