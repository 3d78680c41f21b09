"""How fast are tables of other libraries written, when they consist of many small batches, or of one large?

Measured, per batch (of the table that is handed in): opening a writer, handing the whole table to it in one
call, closing the writer.

pyarrow's table:

* pyarrow: ``new_stream(sink, schema)`` and ``write_table(table)``.
* arrowipc: ``new_stream(sink)`` and ``write(table)``, which takes the table through ``__arrow_c_stream__``.
* arro3: ``write_ipc_stream(table, BytesIO())``, through the same interface.
* nanoarrow: ``StreamWriter`` and ``write_stream(table)``, the same.
* pyarrow through C: ``RecordBatchReader.from_stream(table)`` and ``write_batch`` of each batch: pyarrow's own
  writer behind the same interface.
* taken and copied: the table's batches are taken through the same interface and let go of, and messages that are there
  already are copied: what is left where writing costs nothing.
* polars would have to import the table first.

polars' frame, of as many chunks; all write text as views, into ``BytesIO``:

* polars: ``frame.write_ipc_stream(BytesIO())``.
* arrowipc: ``new_stream(BytesIO())`` and ``write(frame)``; arrowipc bytearray: the same to a ``bytearray``.
* pyarrow: ``RecordBatchReader.from_stream(frame)`` and ``write_batch`` of each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import arrowipc
from arrowipc.cdata.import_table import batches_from
from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale
from benchmarks.writes import proven, to_buffer, to_bytearray, to_bytes_io, warm

TITLE = "write tables of other libraries"


def cases(scale: Scale) -> Iterator[Case]:
    """A thousand small batches, and one large one, from pyarrow and from polars."""
    small, large = scale.size(100, 3), scale.size(100_000, 30)
    for rows, count in ((small, scale.size(1_000, 3)), (large, 1)):
        # Each batch in memory of its own, as when they come from somewhere.
        table = pa.ipc.open_stream(data.stream([data.mixed_batch(rows)] * count)).read_all()
        shape = f"{count} batches of 10 mixed columns x {rows} rows"
        both: dict[str, Any] = {"goal": 1, "touched": table.nbytes}
        name = f"pyarrow table, {shape}, to"
        row = {"row": "write table", "named": count > 1}
        yield Case(f"{name} growing memory", "batch", count, growing(table), **row, **both)
        yield Case(f"{name} warm memory", "batch", count, presized(table), row="write table", **both)
        if peers.polars is not None:
            chunks = [peers.polars.from_arrow(chunk) for chunk in table.to_batches()]
            frame = peers.polars.concat(chunks, rechunk=False)
            yield Case(
                f"polars frame, {shape}, to BytesIO",
                "batch",
                count,
                framed(frame, table),
                baseline="polars",
                **both,
            )
    yield from shapes(scale)


def shapes(scale: Scale) -> Iterator[Case]:
    """Tables of all shapes: a thousand small batches, and one chunk."""
    for shape in data.SHAPES:
        for rows, count, row, goal in ((100, 1_000, "write table small", 2), (100_000, 1, "write table large", 1)):
            batch = data.shaped(shape, scale.size(rows, 3))
            table = pa.ipc.open_stream(data.stream([batch] * scale.size(count, 3))).read_all()
            chunks = max(1, table.column(0).num_chunks)
            name = f"pyarrow table, {shape}, {count:,} x {rows:,} rows, to growing memory"
            named = shape == "mixed"
            options: dict[str, Any] = {"touched": table.nbytes, "row": row, "goal": goal, "named": named}
            yield Case(name, "batch", chunks, growing(table), **options)


def stream_by_pyarrow(sink: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def stream_through_c(sink: Any, table: Any) -> None:
    with (
        pa.RecordBatchReader.from_stream(table) as reader,
        pa.ipc.new_stream(sink, reader.schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)


def stream_by_arrowipc(sink: Any, table: Any) -> None:
    with arrowipc.new_stream(sink) as writer:
        writer.write(table)


def stream_by_nanoarrow(sink: Any, table: Any) -> None:
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        writer.write_stream(table)


def growing(table: pa.Table) -> dict[str, Run]:
    """Return those who write pyarrow's table into growing memory."""
    messages = [*data.messages(to_buffer(lambda sink: stream_by_pyarrow(sink, table))), data.END_OF_STREAM]

    def taken_and_copied(sink: bytearray) -> None:
        for _ in batches_from(table):
            pass
        for message in messages:
            sink += message

    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(lambda sink: stream_by_pyarrow(sink, table)),
        "arrowipc": lambda: to_bytearray(lambda sink: stream_by_arrowipc(sink, table)),
        "pyarrow through C": lambda: to_buffer(lambda sink: stream_through_c(sink, table)),
        "taken and copied": lambda: to_bytearray(taken_and_copied),
    }
    if peers.nanoarrow_ipc is not None:
        found["nanoarrow"] = lambda: to_bytes_io(lambda sink: stream_by_nanoarrow(sink, table))
    if peers.arro3_io is not None:
        found["arro3"] = lambda: to_bytes_io(
            lambda sink: peers.arro3_io.write_ipc_stream(table, sink, compression=None)
        )
    return {name: proven(write, table) for name, write in found.items()}


def presized(table: pa.Table) -> dict[str, Run]:
    """Return those who write pyarrow's table into memory that is there."""
    target = warm(to_buffer(lambda sink: stream_by_pyarrow(sink, table)).size * 5 // 4)
    buffer = pa.py_buffer(target)

    def pyarrows() -> pa.Buffer:
        stream_by_pyarrow(pa.FixedSizeBufferWriter(buffer), table)
        return buffer

    def arrowipcs() -> pa.Buffer:
        stream_by_arrowipc(target, table)
        return buffer

    def through_c() -> pa.Buffer:
        stream_through_c(pa.FixedSizeBufferWriter(buffer), table)
        return buffer

    found = {"pyarrow": pyarrows, "arrowipc": arrowipcs, "pyarrow through C": through_c}
    return {name: proven(write, table) for name, write in found.items()}


def framed(frame: Any, table: pa.Table) -> dict[str, Run]:
    """Return those who write polars' frame."""

    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_bytes_io(lambda sink: stream_through_c(sink, frame)),
        "arrowipc": lambda: to_bytes_io(lambda sink: stream_by_arrowipc(sink, frame)),
        "arrowipc bytearray": lambda: to_bytearray(lambda sink: stream_by_arrowipc(sink, frame)),
        "polars": lambda: to_bytes_io(frame.write_ipc_stream),
    }
    return {name: proven(write, table) for name, write in found.items()}
