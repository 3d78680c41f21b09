"""Writes batches with each library in the way that its documentation recommends, and reads them back once.

Memory is of two kinds, the same kind for all contenders of a case: it grows (``bytearray`` for arrowipc,
``BufferOutputStream`` for pyarrow, ``BytesIO`` for those that take file objects only), or it is there and has
been written to before (a ``memoryview`` for arrowipc, ``FixedSizeBufferWriter`` for pyarrow).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Run


class Input:
    """The same batches as the objects of each library, each batch in memory of its own.

    Attributes
    ----------
    table : pyarrow.Table
        All rows: what must be read back.
    pyarrow, arrowipc, arro3, nanoarrow : list
        The batches; those of a library that is not installed are missing.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], **options: Any) -> None:
        source = data.stream(batches, **options)
        self.pyarrow = list(pa.ipc.open_stream(source))
        self.table = pa.Table.from_batches(self.pyarrow)
        self.arrowipc = list(arrowipc.open_stream(source))
        self.arro3: list[Any] = []
        self.nanoarrow: list[Any] = []
        if peers.arro3_io is not None:
            self.arro3 = list(peers.arro3_io.read_ipc_stream(io.BytesIO(source)))
        if peers.nanoarrow is not None:
            self.nanoarrow = [peers.nanoarrow.c_array(batch) for batch in self.pyarrow]

    def sliced(self, spans: Iterable[tuple[int, int]]) -> Input:
        """Return slices (start, count) of the first batch instead of the batches."""
        spans = list(spans)
        out = Input.__new__(Input)
        out.pyarrow = [self.pyarrow[0].slice(*span) for span in spans]
        out.table = pa.Table.from_batches(out.pyarrow)
        out.arrowipc = [self.arrowipc[0].slice(*span) for span in spans]
        out.arro3 = [self.arro3[0].slice(*span) for span in spans] if self.arro3 else []
        out.nanoarrow = [peers.nanoarrow.c_array(batch) for batch in out.pyarrow] if self.nanoarrow else []
        return out


def proven(write: Callable[[], Any], expected: pa.Table, read: Callable[[Any], Any] = pa.ipc.open_stream) -> Run:
    """Return a run that writes; what it writes first is read back by pyarrow and must have the same rows.

    `write` returns what `read` takes. Text may come back as views, as from polars.
    """
    seen = False

    def run() -> int:
        nonlocal seen
        written = write()
        if not seen:
            found = read(written).read_all()
            if not found.cast(expected.schema).equals(expected):
                raise ValueError("other rows were read back than those that were written")
            seen = True
        return int(expected.num_rows)

    return run


def warm(size: int) -> memoryview:
    """Return memory that has been written to."""
    return memoryview(np.full(size, 1, np.uint8)).cast("B")


def bound(given: Input) -> int:
    """Return more bytes than any of the libraries needs to write the batches without compression."""
    table = given.table
    return int(1.05 * table.nbytes) + (len(given.pyarrow) + 4) * (1024 + 256 * table.num_columns)


# -- streams, by each library --------------------------------------------------------------------------------


def by_pyarrow(sink: Any, batches: list[Any], options: Any = None) -> None:
    """Write a stream batch by batch."""
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def by_arrowipc(sink: Any, batches: list[Any], **options: Any) -> None:
    """Write a stream batch by batch."""
    with arrowipc.new_stream(sink, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def by_nanoarrow(sink: Any, batches: list[Any]) -> None:
    """Write a stream batch by batch."""
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        for batch in batches:
            writer.write_array(batch)


def by_arro3(sink: Any, batches: list[Any], compression: str | None = None) -> None:
    """Write a reader of the batches in one call: arro3 has no writers."""
    reader = peers.optional("arro3.core").RecordBatchReader.from_batches(batches[0].schema, batches)
    peers.arro3_io.write_ipc_stream(reader, sink, compression=compression)


def to_buffer(write: Callable[[Any], None]) -> pa.Buffer:
    """Write into pyarrow's growing memory."""
    sink = pa.BufferOutputStream()
    write(sink)
    return sink.getvalue()


def to_bytearray(write: Callable[[Any], None]) -> bytearray:
    """Write into a bytearray."""
    sink = bytearray()
    write(sink)
    return sink


def to_bytes_io(write: Callable[[Any], None]) -> memoryview:
    """Write into Python's growing file object."""
    sink = io.BytesIO()
    write(sink)
    return sink.getbuffer()


def appending(given: Input, to_memory: Callable[[Callable[[Any], None]], Any], append: str) -> Run:
    """Return a run of the least that anybody does: the messages are there already, and are appended one by one."""
    source = bytes(to_bytearray(lambda sink: by_arrowipc(sink, given.arrowipc)))
    pieces = [*data.messages(source), data.END_OF_STREAM]

    def appended(sink: Any) -> None:
        for piece in pieces:
            getattr(sink, append)(piece)

    return proven(lambda: to_memory(appended), given.table)


def growing(given: Input, *, without: tuple[str, ...] = (), **options: Any) -> dict[str, Run]:
    """Return those who write the batches into growing memory; `options` are for `arrowipc.new_stream`."""
    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(lambda sink: by_pyarrow(sink, given.pyarrow)),
        "arrowipc": lambda: to_bytearray(lambda sink: by_arrowipc(sink, given.arrowipc, **options)),
    }
    if given.nanoarrow:
        found["nanoarrow"] = lambda: to_bytes_io(lambda sink: by_nanoarrow(sink, given.nanoarrow))
    if given.arro3:
        found["arro3"] = lambda: to_bytes_io(lambda sink: by_arro3(sink, given.arro3))
    return {name: proven(write, given.table) for name, write in found.items() if name not in without}


def filing(given: Input) -> dict[str, Run]:
    """Return pyarrow and arrowipc writing the batches into Python's file object."""
    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_bytes_io(lambda sink: by_pyarrow(sink, given.pyarrow)),
        "arrowipc": lambda: to_bytes_io(lambda sink: by_arrowipc(sink, given.arrowipc)),
    }
    return {name: proven(write, given.table) for name, write in found.items()}


def presized(given: Input, target: memoryview, *, options: Any = None, **ours: Any) -> dict[str, Run]:
    """Return those who can write the batches into `target`, memory that all of them write to.

    `options` is a pyarrow.ipc.IpcWriteOptions, `ours` are options of `arrowipc.new_stream`.
    """
    buffer = pa.py_buffer(target)

    def pyarrows() -> pa.Buffer:
        by_pyarrow(pa.FixedSizeBufferWriter(buffer), given.pyarrow, options)
        return buffer

    def arrowipcs() -> pa.Buffer:
        by_arrowipc(target, given.arrowipc, **ours)
        return buffer

    return {"pyarrow": proven(pyarrows, given.table), "arrowipc": proven(arrowipcs, given.table)}
