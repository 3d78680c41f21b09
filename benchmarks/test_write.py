"""How fast are batches and tables written into memory as streams?

Opening the writer (which writes the schema) and closing it count too. Memory grows (``pa.BufferOutputStream`` and
``bytearray``), or is warm: of a given size, and written to before. Batches are the library's own objects. memcpy:
messages that are there already are appended, or the bytes of all of them copied. Slices begin and end within the bytes
of bitmaps, and their texts do not begin at 0. polars writes no batches.

A pyarrow table of many small batches is handed over in one call. All but pyarrow take it through
``__arrow_c_stream__``, and so does "pyarrow through C". taken and copied: its batches are taken and let go of, and
messages that are there already are copied: what is left where writing costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size
from measuring.writes import (
    Input,
    appending,
    bound,
    by_arro3,
    by_arrowipc,
    by_nanoarrow,
    by_pyarrow,
    growing,
    presized,
    proven,
    to_buffer,
    to_bytearray,
    to_bytes_io,
    warm,
)

import arrowipc
from arrowipc.cdata.import_table import batches_from

SHAPES = [*data.SHAPES, "everyday"]
WRITERS = "pyarrow, arrowipc, nanoarrow, arro3"
#: Bytes of what is large.
WHOLE = 128_000_000


@question("write our own batches of 10 columns x 100 rows", WRITERS + ", memcpy", unit="batch", per="count")
@pytest.mark.parametrize("count", [size(2_000, 2), size(200, 3), size(20, 4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_growing(shape: str, count: int) -> Runs:
    given = Input([data.shaped(shape, size(100, 3))] * count)
    return growing(given) | {"memcpy": appending(given, to_bytearray, "extend")}


@question("write our own batches to `io.BytesIO`", WRITERS, unit="batch")
@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_io(shape: str) -> Runs:
    count = size(1_000, 3)
    given = Input([data.shaped(shape, size(100, 3))] * count)
    ways = {"pyarrow": by_pyarrow, "arrowipc": by_arrowipc, "nanoarrow": by_nanoarrow, "arro3": by_arro3}
    return {
        name: proven(partial(to_bytes_io, way, getattr(given, name)), given.table) for name, way in ways.items()
    }, count


@question("write our own batches and slices to warm memory", "pyarrow, arrowipc", unit="batch")
@pytest.mark.parametrize("how", ["whole", "slices"])
@pytest.mark.parametrize("shape", SHAPES)
def test_warm(shape: str, how: str) -> Runs:
    count = size(1_000, 3)
    if how == "whole":
        given = Input([data.shaped(shape, size(100, 3))] * count)
    else:  # of a large batch, at odd rows, in an order without pattern
        rows, length = size(100_000, 40), size(100, 5)
        starts = np.random.default_rng(3).integers(0, (rows - length) // 2, count) * 2 + 1
        given = Input([data.shaped(shape, rows)]).sliced((int(start), length) for start in starts)
    return presized(given, warm(bound(given))), count


@question("write 128 MB to memory", "memcpy, pyarrow, arrowipc", unit="run", baseline="memcpy")
@pytest.mark.parametrize("batches", ["many batches", "one batch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_large(shape: str, batches: str) -> Runs:
    batch = data.shaped(shape, size(100_000, 40))
    many = [batch] * size(WHOLE // batch.nbytes, 2)
    given = Input(pa.Table.from_batches(many).combine_chunks().to_batches() if batches == "one batch" else many)
    source = np.frombuffer(to_buffer(by_pyarrow, given.pyarrow), np.uint8)
    target = warm(bound(given))
    room = np.frombuffer(target, np.uint8)[: source.size]

    def copy() -> memoryview:
        np.copyto(room, source)
        return target

    return {"memcpy": proven(copy, given.table), **presized(given, target)}


def table_by_pyarrow(sink: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def through_c(sink: Any, table: Any) -> None:
    with pa.RecordBatchReader.from_stream(table) as reader, pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def table_by_arrowipc(sink: Any, table: Any) -> None:
    with arrowipc.new_stream(sink) as writer:
        writer.write(table)


def table_by_nanoarrow(sink: Any, table: Any) -> None:
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        writer.write_stream(table)


def growing_table(table: pa.Table) -> Runs:
    """Return those who write pyarrow's table into growing memory."""
    messages = [*data.messages(to_buffer(table_by_pyarrow, table)), data.END_OF_STREAM]

    def taken_and_copied(sink: bytearray) -> None:
        for _ in batches_from(table):
            pass
        for message in messages:
            sink += message

    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(table_by_pyarrow, table),
        "arrowipc": lambda: to_bytearray(table_by_arrowipc, table),
        "pyarrow through C": lambda: to_buffer(through_c, table),
        "taken and copied": lambda: to_bytearray(taken_and_copied),
        "nanoarrow": lambda: to_bytes_io(table_by_nanoarrow, table),
        "arro3": lambda: to_bytes_io(lambda sink: peers.arro3_io.write_ipc_stream(table, sink, compression=None)),
    }
    return {name: proven(write, table) for name, write in found.items()}


def presized_table(table: pa.Table) -> Runs:
    """Return those who write pyarrow's table into memory that is there."""
    target = warm(to_buffer(table_by_pyarrow, table).size * 5 // 4)
    buffer = pa.py_buffer(target)

    def writing(write: Callable[[Any, Any], None], sink: Callable[[], Any]) -> Run:
        return proven(lambda: write(sink(), table) or buffer, table)

    return {
        "pyarrow": writing(table_by_pyarrow, lambda: pa.FixedSizeBufferWriter(buffer)),
        "arrowipc": writing(table_by_arrowipc, lambda: target),
        "pyarrow through C": writing(through_c, lambda: pa.FixedSizeBufferWriter(buffer)),
    }


TABLE_WRITERS = "pyarrow, arrowipc, pyarrow through C, taken and copied, nanoarrow, arro3"


@question("write a pyarrow table of many small batches", TABLE_WRITERS, unit="batch")
@pytest.mark.parametrize("memory", ["growing", "warm"])
@pytest.mark.parametrize("shape", SHAPES)
def test_table(shape: str, memory: str) -> Runs:
    count = size(1_000, 3)
    batch = data.shaped(shape, size(100, 3))
    # Batches in memory of their own, as when they come from somewhere.
    table = pa.ipc.open_stream(data.stream([batch] * count)).read_all()
    return (growing_table if memory == "growing" else presized_table)(table), count
